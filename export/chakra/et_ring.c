#include "export/chakra/et_ring.h"

#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* How many ranks each node has, if all have equally many at the same places; else 0. */
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

/* The ranks of one node: those at `first` and `last` at its ends. */
static int32_t *put_node(int32_t *out, const int32_t *node, uint32_t width, uint32_t first,
                         uint32_t last) {
    *out++ = node[first];
    for (uint32_t i = 0; i < width; i++)
        if (i != first && i != last) *out++ = node[i];
    if (last != first) *out++ = node[last];
    return out;
}

/* Node after node, each entered where the one before was left. Of an odd number of nodes the last
   is entered at a third place, so that it is left where the ring began. */
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

/* Two ranks on each of an odd number of nodes: along the first ones, and back along the others. */
static void put_ladder(int32_t *out, const int32_t *sorted, uint32_t n) {
    for (uint32_t k = 0; k < n / 2; k++) {
        out[k] = sorted[2 * k];
        out[n - 1 - k] = sorted[2 * k + 1];
    }
}

syn_status syn__et_order_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err) {
    if (node_ranks < 1 || n < 2) return SYN_OK;
    int32_t *sorted = syn_malloc(n * sizeof *sorted);
    if (sorted == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *sorted, "a group's ranks");
    memcpy(sorted, ranks, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    const uint32_t width = width_of(sorted, n, node_ranks);
    if (width == 1) memcpy(ranks, sorted, n * sizeof *sorted);
    else if (width == 2 && n / width % 2 == 1 && n > width) put_ladder(ranks, sorted, n);
    else if (width > 1 && n > width) put_nodes(ranks, sorted, n, width);
    syn_free(sorted);
    return SYN_OK;
}

syn_status syn__et_undo_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err) {
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

int32_t syn__et_node_ranks(const syn_graph *graph) {
    const syn_attribute *name = syn_graph_meta(graph, "hardware");
    if (name == NULL || name->type != SYN_VALUE_TEXT) return 0;
    for (const char *const *preset = syn_hardware_presets(); *preset != NULL; preset++) {
        syn_hardware hw;
        if (strcmp(*preset, name->text) != 0) continue;
        return syn_hardware_load(&hw, *preset, NULL, NULL) == SYN_OK ? hw.node_ranks : 0;
    }
    return 0;
}

uint32_t syn__et_network_hops(const int32_t *ranks, uint32_t n, int32_t node_ranks) {
    uint32_t hops = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t a = ranks[i], b = ranks[(i + 1) % n];
        hops += a != b && a % node_ranks == b % node_ranks;
    }
    return hops;
}
