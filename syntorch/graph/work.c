/* Device work (work.h): stores, finds and drops it, and converts it to bytes and back. */
#include "syntorch/graph/work.h"

#include <string.h>

#include "syntorch/base/memory.h"

void syn_work_free(syn_work *work) {
    syn_free(work->nodes);
    syn_free(work->unowned);
    syn_free(work->pieces);
    syn_intern_free(&work->names);
    *work = (syn_work){0};
}

syn_status syn_work_put_name(syn_work *work, const char *name, uint32_t *id, syn_error *err) {
    return syn_intern_put(&work->names, name, strlen(name), id, err);
}

const char *syn_work_name(const syn_work *work, const syn_piece *piece) {
    return piece->name < work->names.n_entries
               ? (const char *)syn_intern_get(&work->names, piece->name)
               : "";
}

/* The index of the first entry whose node number is at least `node`. */
static size_t lower_bound(const syn_work *work, uint64_t node) {
    size_t low = 0, n = work->n_nodes;
    if (n > 0 && work->nodes[n - 1].node < node) return n; /* the usual case */
    while (n > 0) {
        const size_t half = n / 2;
        if (work->nodes[low + half].node < node) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

const syn_node_work *syn_work_of(const syn_work *work, uint64_t node) {
    if (!work) return NULL;
    const size_t at = lower_bound(work, node);
    return at < work->n_nodes && work->nodes[at].node == node ? &work->nodes[at] : NULL;
}

syn_status syn_work_add(syn_work *work, const syn_node_work *node, const syn_piece *pieces,
                        syn_error *err) {
    const size_t at = lower_bound(work, node->node);
    if (at < work->n_nodes && work->nodes[at].node == node->node) return SYN_OK;
    SYN_TRY(syn_grow(&work->nodes, &work->nodes_cap, work->n_nodes + 1, sizeof *work->nodes, err));
    SYN_TRY(syn_grow(&work->pieces, &work->pieces_cap, work->n_pieces + node->n_pieces,
                     sizeof *work->pieces, err));
    memmove(&work->nodes[at + 1], &work->nodes[at], (work->n_nodes - at) * sizeof *work->nodes);
    work->nodes[at] = *node;
    work->nodes[at].first = work->n_pieces;
    work->n_nodes++;
    if (node->n_pieces)
        memcpy(&work->pieces[work->n_pieces], pieces, node->n_pieces * sizeof *pieces);
    work->n_pieces += node->n_pieces;
    return SYN_OK;
}

syn_status syn_work_add_unowned(syn_work *work, const syn_unowned_piece *piece, syn_error *err) {
    SYN_TRY(syn_grow(&work->unowned, &work->unowned_cap, work->n_unowned + 1, sizeof *work->unowned,
                     err));
    work->unowned[work->n_unowned++] = *piece;
    return SYN_OK;
}

static void drop_unowned(syn_work *work, uint32_t node) {
    size_t n = 0;
    for (size_t i = 0; i < work->n_unowned; i++)
        if (work->unowned[i].after < node) work->unowned[n++] = work->unowned[i];
    work->n_unowned = n;
}

/* Nodes may have been added out of order, so pieces are dropped only after the last piece that a
   remaining node uses. */
void syn_work_drop(syn_work *work, uint32_t node) {
    const size_t stay = lower_bound(work, node);
    drop_unowned(work, node);
    if (stay == work->n_nodes) return;
    work->n_nodes = stay;
    size_t end = 0;
    for (size_t i = 0; i < stay; i++) {
        const size_t last = work->nodes[i].first + work->nodes[i].n_pieces;
        if (last > end) end = last;
    }
    work->n_pieces = end;
}

size_t syn_work_memory_bytes(const syn_work *work) {
    return work->nodes_cap * sizeof *work->nodes + work->pieces_cap * sizeof *work->pieces +
           work->unowned_cap * sizeof *work->unowned + syn_intern_memory_bytes(&work->names);
}

/* ---- As bytes: counts, nodes, pieces, pieces between nodes, names with their NULs ---- */

typedef struct packed_head {
    uint64_t magic, nodes, pieces, unowned, names, name_bytes;
} packed_head;
static const uint64_t MAGIC = 0x32306b726f776e79; /* "ynwork02" */

static char *put(char *to, const void *from, size_t bytes) {
    if (bytes) memcpy(to, from, bytes);
    return to + bytes;
}

syn_status syn_work_pack(const syn_work *work, char **out, size_t *bytes, syn_error *err) {
    packed_head head = {MAGIC,           work->n_nodes,         work->n_pieces,
                        work->n_unowned, work->names.n_entries, 0};
    for (uint32_t i = 0; i < head.names; i++)
        head.name_bytes += syn_intern_entry_bytes(&work->names, i) + 1;
    const size_t of_nodes = work->n_nodes * sizeof *work->nodes,
                 of_pieces = work->n_pieces * sizeof *work->pieces,
                 of_between = work->n_unowned * sizeof *work->unowned;
    const size_t all = sizeof head + of_nodes + of_pieces + of_between + (size_t)head.name_bytes;
    *bytes = (all + 7) / 8 * 8;
    char *to = *out = syn_calloc(*bytes, 1);
    if (!to) return SYN_FAIL_NOMEM(err, *bytes, "device work");
    to = put(to, &head, sizeof head);
    to = put(to, work->nodes, of_nodes);
    to = put(to, work->pieces, of_pieces);
    to = put(to, work->unowned, of_between);
    for (uint32_t i = 0; i < head.names; i++)
        to = put(to, syn_intern_get(&work->names, i), syn_intern_entry_bytes(&work->names, i) + 1);
    return SYN_OK;
}

/* Subtracts n elements of `bytes` bytes each from *left bytes. Returns false if *left is too
   small. */
static bool take(uint64_t *left, uint64_t n, size_t bytes) {
    if (n > *left / bytes) return false;
    *left -= n * bytes;
    return true;
}

static bool fits(const packed_head *head, size_t bytes) {
    uint64_t left = bytes - sizeof *head;
    return head->magic == MAGIC && take(&left, head->nodes, sizeof(syn_node_work)) &&
           take(&left, head->pieces, sizeof(syn_piece)) &&
           take(&left, head->unowned, sizeof(syn_unowned_piece)) && head->name_bytes <= left &&
           left - head->name_bytes < 8;
}

static syn_status read_names(syn_work *work, const packed_head *head, const char *from,
                             syn_error *err) {
    const char *end = from + head->name_bytes;
    for (uint64_t i = 0; i < head->names; i++) {
        uint32_t id;
        const char *nul = from < end ? memchr(from, '\0', (size_t)(end - from)) : NULL;
        if (!nul) return SYN_FAIL(err, SYN_E_FORMAT, "a device work record ends inside a name");
        SYN_TRY(syn_intern_put(&work->names, from, (size_t)(nul - from), &id, err));
        from = nul + 1;
    }
    return SYN_OK;
}

/* Reads the next `count` elements into a new array, and advances *from by these elements. */
static syn_status read_array(void *array, size_t *n, size_t *cap, uint64_t count, size_t bytes,
                             const char **from, syn_error *err) {
    void *to;
    *n = (size_t)count;
    SYN_TRY(syn_grow(array, cap, *n, bytes, err));
    memcpy(&to, array, sizeof to);
    put(to, *from, *n * bytes);
    *from += *n * bytes;
    return SYN_OK;
}

static syn_status check_read(const syn_work *work, syn_error *err) {
    bool known = true;
    for (size_t i = 0; i < work->n_nodes; i++) {
        const syn_node_work *n = &work->nodes[i];
        if ((i > 0 && n->node <= n[-1].node) || n->first > work->n_pieces ||
            n->n_pieces > work->n_pieces - n->first)
            return SYN_FAIL(err, SYN_E_FORMAT, "a device work record lists missing pieces");
    }
    for (size_t i = 0; i < work->n_pieces; i++)
        known = known && work->pieces[i].kind < SYN_PIECE_KIND_COUNT;
    for (size_t i = 0; i < work->n_unowned; i++)
        known = known && work->unowned[i].piece.kind < SYN_PIECE_KIND_COUNT;
    if (known) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "a device work record has a piece of unknown kind");
}

static syn_status read_all(syn_work *work, const packed_head *head, const char *from,
                           syn_error *err) {
    SYN_TRY(read_array(&work->nodes, &work->n_nodes, &work->nodes_cap, head->nodes,
                       sizeof *work->nodes, &from, err));
    SYN_TRY(read_array(&work->pieces, &work->n_pieces, &work->pieces_cap, head->pieces,
                       sizeof *work->pieces, &from, err));
    SYN_TRY(read_array(&work->unowned, &work->n_unowned, &work->unowned_cap, head->unowned,
                       sizeof *work->unowned, &from, err));
    SYN_TRY(check_read(work, err));
    return read_names(work, head, from, err);
}

syn_status syn_work_unpack(syn_work *out, const char *data, size_t bytes, syn_error *err) {
    packed_head head;
    *out = (syn_work){0};
    if (bytes >= sizeof head) memcpy(&head, data, sizeof head);
    if (bytes < sizeof head || !fits(&head, bytes))
        return SYN_FAIL(err, SYN_E_FORMAT, "%zu bytes are not a device work record", bytes);
    const syn_status s = read_all(out, &head, data + sizeof head, err);
    if (s != SYN_OK) syn_work_free(out);
    return s;
}
