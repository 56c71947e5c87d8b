/* Orders the ranks of a group for comm_group.json, so that where possible, each hop of ASTRA-sim's
   ring from node to node joins two ranks with the same place, which is a rank's index within its
   node. et_ring.h explains why. */
#include "export/chakra/et_ring.h"

#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Number of the group's ranks per node, if the ranks have the same places on all nodes; otherwise
   0. */
static uint32_t width_of(const int32_t *sorted, uint32_t n, int32_t node_ranks) {
    uint32_t width = 0;
    while (width < n && sorted[width] / node_ranks == sorted[0] / node_ranks) width++;
    if (n % width != 0) return 0;
    for (uint32_t i = width; i < n; i++) {
        if (sorted[i] % node_ranks != sorted[i - width] % node_ranks) return 0;
        if (sorted[i] / node_ranks != sorted[i - i % width] / node_ranks) return 0;
    }
    return width;
}

/* Writes the ranks of one node, beginning with node[first] and ending with node[last]. Returns the
   end of the output. */
static int32_t *put_node(int32_t *out, const int32_t *node, uint32_t width, uint32_t first,
                         uint32_t last) {
    *out++ = node[first];
    for (uint32_t i = 0; i < width; i++)
        if (i != first && i != last) *out++ = node[i];
    if (last != first) *out++ = node[last];
    return out;
}

/* Writes node after node. The ring enters each node at the place at which it left the previous one.
   If the number of nodes is odd, the ring enters the last node at a third place, so that it can
   leave that node at the place where the ring began. */
static void put_nodes(int32_t *out, const int32_t *sorted, uint32_t n, uint32_t width) {
    const uint32_t nodes = n / width;
    uint32_t enter = 0;
    for (uint32_t k = 0; k < nodes; k++) {
        uint32_t leave = enter == 0 ? width - 1 : 0;
        if (nodes % 2 == 1 && k + 2 == nodes) leave = 1;
        if (k + 1 == nodes) leave = 0;
        out = put_node(out, sorted + k * width, width, enter, leave);
        enter = leave;
    }
}

/* For two ranks on each of an odd number of nodes, at least three: a ring whose hops all stay
   within a node or keep the place has an even number of hops within nodes, so it crosses between
   nodes at least once more than there are nodes. Writes node after node and then the last three
   nodes, of which the ring passes the second twice. */
static void put_odd_pairs(int32_t *out, const int32_t *sorted, uint32_t nodes) {
    for (uint32_t k = 0; k + 3 < nodes; k++)
        out = put_node(out, sorted + 2 * k, 2, k % 2, 1 - k % 2);
    const int32_t *last = sorted + 2 * (nodes - 3);
    out = put_node(out, last, 2, 0, 1);
    *out++ = last[3];
    out = put_node(out, last + 4, 2, 1, 0);
    *out = last[2];
}

/* ---- Nodes with ranks at different places ---- */

enum { MAX_LINK_CANDIDATES = 3, LINK_CHOICES = MAX_LINK_CANDIDATES + 1 };

/* The ranks of one node, and the link to the next node in the ring. */
typedef struct stop {
    const int32_t *ranks; /* in ascending order */
    int32_t place;        /* place of the first rank within the node */
    uint32_t width;
    /* Candidates for the link: places that this node and the next one have in common, as indices
       into the ranks of this node (leave) and of the next node (enter). A chosen link excludes one
       place for each of its two neighbouring links, so three candidates are enough. */
    uint32_t leave[MAX_LINK_CANDIDATES], enter[MAX_LINK_CANDIDATES], n;
    /* `choice` is the chosen candidate: 0 .. n - 1, or n for a link between different places. For
       each possible choice, best[] is the greatest number of same-place links up to this link, and
       from[] is the choice of the previous link with which it is reached. */
    uint32_t choice, best[LINK_CHOICES], from[LINK_CHOICES];
} stop;

/* Sorts nodes by their places, so that similar nodes are adjacent. */
static int compare_stops(const void *a, const void *b) {
    const stop *x = a, *y = b;
    if (x->place != y->place) return compare(&x->place, &y->place);
    if (x->width != y->width) return x->width < y->width ? -1 : 1;
    return compare(x->ranks, y->ranks);
}

static uint32_t find_stops(stop *out, const int32_t *sorted, uint32_t n, int32_t node_ranks) {
    uint32_t stops = 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool next = i == 0 || sorted[i] / node_ranks != sorted[i - 1] / node_ranks;
        if (next) out[stops++] = (stop){.ranks = sorted + i, .place = sorted[i] % node_ranks};
        out[stops - 1].width++;
    }
    return stops;
}

static void find_places(stop *from, const stop *to, int32_t node_ranks) {
    uint32_t i = 0, j = 0;
    while (i < from->width && j < to->width && from->n < MAX_LINK_CANDIDATES) {
        const int32_t a = from->ranks[i] % node_ranks, b = to->ranks[j] % node_ranks;
        if (a == b) {
            from->leave[from->n] = i;
            from->enter[from->n++] = j;
        }
        i += a <= b;
        j += b <= a;
    }
}

/* Whether a ring can enter the node `at` with choice a of the previous link and leave it with
   choice b. */
static bool fits(const stop *before, uint32_t a, const stop *at, uint32_t b) {
    return at->width == 1 || a == before->n || b == at->n || before->enter[a] != at->leave[b];
}

/* Sets the choices that give the most same-place links if the first link's choice is `first`, and
   returns that number. */
static uint32_t choose_from(stop *stops, uint32_t n, uint32_t first) {
    for (uint32_t b = 0; b <= stops[0].n; b++) stops[0].best[b] = b == first && b < stops[0].n;
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t b = 0; b <= stops[i].n; b++) {
            stops[i].best[b] = 0;
            stops[i].from[b] = i == 1 ? first : stops[i - 1].n;
            for (uint32_t a = i == 1 ? first : 0; a <= (i == 1 ? first : stops[i - 1].n); a++) {
                const uint32_t links = stops[i - 1].best[a] + (b < stops[i].n);
                if (!fits(&stops[i - 1], a, &stops[i], b) || links <= stops[i].best[b]) continue;
                stops[i].best[b] = links;
                stops[i].from[b] = a;
            }
        }
    }
    stop *last = &stops[n - 1];
    last->choice = last->n;
    for (uint32_t b = 0; b < last->n; b++)
        if (fits(last, b, &stops[0], first) && last->best[b] > last->best[last->choice])
            last->choice = b;
    for (uint32_t i = n - 1; i > 0; i--) stops[i - 1].choice = stops[i].from[stops[i].choice];
    return last->best[last->choice];
}

static void put_stops(int32_t *out, const stop *stops, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const stop *at = &stops[i], *before = &stops[(i + n - 1) % n];
        const uint32_t end = at->width - 1;
        const bool entered = before->choice < before->n, left = at->choice < at->n;
        uint32_t enter = entered ? before->enter[before->choice] : 0;
        uint32_t leave = left ? at->leave[at->choice] : end;
        if (enter == leave && entered) leave = leave == end ? 0 : end;
        else if (enter == leave) enter = enter == end ? 0 : end;
        out = put_node(out, at->ranks, at->width, enter, leave);
    }
}

/* Orders the nodes by their first place and maximizes the number of same-place links. If this gives
   no more such links than the given order, the ranks are not changed. */
static syn_status order_stops(int32_t *ranks, const int32_t *sorted, uint32_t n, int32_t node_ranks,
                              syn_error *err) {
    stop *stops = syn_malloc(n * sizeof *stops);
    if (stops == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *stops, "a group's nodes");
    const uint32_t nodes = find_stops(stops, sorted, n, node_ranks);
    uint32_t best = 0, links = syn__et_network_hops(ranks, n, node_ranks);
    bool found = false;
    qsort(stops, nodes, sizeof *stops, compare_stops);
    for (uint32_t i = 0; i < nodes; i++)
        find_places(&stops[i], &stops[(i + 1) % nodes], node_ranks);
    for (uint32_t first = 0; first <= stops[0].n; first++) {
        const uint32_t now = choose_from(stops, nodes, first);
        if (now <= links) continue;
        best = first;
        links = now;
        found = true;
    }
    if (found) {
        (void)choose_from(stops, nodes, best);
        put_stops(ranks, stops, nodes);
    }
    syn_free(stops);
    return SYN_OK;
}

syn_status syn__et_order_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err) {
    if (node_ranks < 1 || n < 2) return SYN_OK;
    int32_t *sorted = syn_malloc(n * sizeof *sorted);
    if (sorted == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *sorted, "a group's ranks");
    memcpy(sorted, ranks, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    const uint32_t width = width_of(sorted, n, node_ranks);
    syn_status status = SYN_OK;
    if (width == 1) memcpy(ranks, sorted, n * sizeof *sorted);
    else if (width == 2 && n / width % 2 == 1 && n > width) put_odd_pairs(ranks, sorted, n / 2);
    else if (width > 1 && n > width) put_nodes(ranks, sorted, n, width);
    else if (width == 0) status = order_stops(ranks, sorted, n, node_ranks, err);
    syn_free(sorted);
    return status;
}

syn_status syn__et_undo_ring_order(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err) {
    const size_t bytes = n * sizeof *ranks;
    if (node_ranks < 1 || n < 2) return SYN_OK;
    int32_t *sorted = syn_malloc(2 * bytes), *ring = sorted + n;
    if (sorted == NULL) return SYN_FAIL_NOMEM(err, 2 * bytes, "a group's ranks");
    memcpy(sorted, ranks, bytes);
    qsort(sorted, n, sizeof *sorted, compare);
    memcpy(ring, sorted, bytes);
    const syn_status status = syn__et_order_ring(ring, n, node_ranks, err);
    if (status == SYN_OK && memcmp(ring, ranks, bytes) == 0) memcpy(ranks, sorted, bytes);
    syn_free(sorted);
    return status;
}

int32_t syn__et_hardware_node_ranks(const char *name) {
    for (const char *const *preset = syn_hardware_presets(); *preset != NULL; preset++) {
        syn_hardware hw;
        if (strcmp(*preset, name) != 0) continue;
        return syn_hardware_load(&hw, *preset, NULL, NULL) == SYN_OK ? hw.node_ranks : 0;
    }
    return 0;
}

int32_t syn__et_node_ranks(const syn_graph *graph) {
    const syn_attribute *name = syn_graph_meta(graph, "hardware");
    const syn_attribute *own = syn_graph_meta(graph, "node_ranks"); /* set if the hardware is not a
                                                                       preset */
    if (own != NULL && own->type == SYN_VALUE_I64 && own->i64 > 0 && own->i64 <= INT32_MAX)
        return (int32_t)own->i64;
    return name != NULL && name->type == SYN_VALUE_TEXT ? syn__et_hardware_node_ranks(name->text)
                                                        : 0;
}

uint32_t syn__et_network_hops(const int32_t *ranks, uint32_t n, int32_t node_ranks) {
    uint32_t hops = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t a = ranks[i], b = ranks[(i + 1) % n];
        hops += a != b && a % node_ranks == b % node_ranks;
    }
    return hops;
}
