#include "syntorch/work.h"

#include <string.h>

#include "syntorch/memory.h"

void syn_work_free(syn_work *work) {
    syn_free(work->nodes);
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

/* The first entry whose number is not below `node`. */
static size_t lower_bound(const syn_work *work, uint64_t node) {
    size_t low = 0, n = work->n_nodes;
    if (n > 0 && work->nodes[n - 1].node < node) return n; /* new ones are the newest, mostly */
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

/* Nodes may have come in another order than their numbers': pieces end where those of the nodes
   that stay do. */
void syn_work_drop(syn_work *work, uint32_t node) {
    const size_t stay = lower_bound(work, node);
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
           syn_intern_memory_bytes(&work->names);
}

/* ---- As bytes: counts, nodes, pieces, names each with its NUL ---- */

typedef struct packed_head {
    uint64_t magic, nodes, pieces, names, name_bytes;
} packed_head;
static const uint64_t MAGIC = 0x31306b726f776e79; /* "ynwork01" */

syn_status syn_work_pack(const syn_work *work, char **out, size_t *bytes, syn_error *err) {
    packed_head head = {MAGIC, work->n_nodes, work->n_pieces, work->names.n_entries, 0};
    for (uint32_t i = 0; i < head.names; i++)
        head.name_bytes += syn_intern_entry_bytes(&work->names, i) + 1;
    const size_t of_nodes = work->n_nodes * sizeof *work->nodes,
                 of_pieces = work->n_pieces * sizeof *work->pieces;
    const size_t all = sizeof head + of_nodes + of_pieces + (size_t)head.name_bytes;
    *bytes = (all + 7) / 8 * 8;
    char *to = *out = syn_calloc(*bytes, 1);
    if (!to) return SYN_FAIL_NOMEM(err, *bytes, "what a device did");
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    if (of_nodes) memcpy(to, work->nodes, of_nodes);
    to += of_nodes;
    if (of_pieces) memcpy(to, work->pieces, of_pieces);
    to += of_pieces;
    for (uint32_t i = 0; i < head.names; i++) {
        const size_t n = syn_intern_entry_bytes(&work->names, i) + 1;
        memcpy(to, syn_intern_get(&work->names, i), n);
        to += n;
    }
    return SYN_OK;
}

static bool fits(const packed_head *head, size_t bytes) {
    uint64_t left = bytes - sizeof *head;
    if (head->magic != MAGIC || head->nodes > left / sizeof(syn_node_work)) return false;
    left -= head->nodes * sizeof(syn_node_work);
    if (head->pieces > left / sizeof(syn_piece)) return false;
    left -= head->pieces * sizeof(syn_piece);
    return head->name_bytes <= left && left - head->name_bytes < 8;
}

static syn_status read_names(syn_work *work, const packed_head *head, const char *from,
                             syn_error *err) {
    const char *end = from + head->name_bytes;
    for (uint64_t i = 0; i < head->names; i++) {
        uint32_t id;
        const char *nul = from < end ? memchr(from, '\0', (size_t)(end - from)) : NULL;
        if (!nul) return SYN_FAIL(err, SYN_E_FORMAT, "what a device did ends within a name");
        SYN_TRY(syn_intern_put(&work->names, from, (size_t)(nul - from), &id, err));
        from = nul + 1;
    }
    return SYN_OK;
}

static syn_status read_nodes(syn_work *work, const packed_head *head, const char *from,
                             syn_error *err) {
    const char *pieces = from + head->nodes * sizeof(syn_node_work);
    SYN_TRY(syn_grow(&work->pieces, &work->pieces_cap, (size_t)head->pieces, sizeof *work->pieces,
                     err));
    if (head->pieces) memcpy(work->pieces, pieces, (size_t)head->pieces * sizeof *work->pieces);
    work->n_pieces = (size_t)head->pieces;
    SYN_TRY(
        syn_grow(&work->nodes, &work->nodes_cap, (size_t)head->nodes, sizeof *work->nodes, err));
    if (head->nodes) memcpy(work->nodes, from, (size_t)head->nodes * sizeof *work->nodes);
    work->n_nodes = (size_t)head->nodes;
    for (size_t i = 0; i < work->n_nodes; i++) {
        const syn_node_work *n = &work->nodes[i];
        if ((i > 0 && n->node <= n[-1].node) || n->first > work->n_pieces ||
            n->n_pieces > work->n_pieces - n->first)
            return SYN_FAIL(err, SYN_E_FORMAT, "what a device did has pieces that are not there");
    }
    for (size_t i = 0; i < work->n_pieces; i++)
        if (work->pieces[i].kind >= SYN_PIECE_KIND_COUNT)
            return SYN_FAIL(err, SYN_E_FORMAT, "what a device did has a piece of no kind");
    return SYN_OK;
}

syn_status syn_work_unpack(syn_work *out, const char *data, size_t bytes, syn_error *err) {
    packed_head head;
    *out = (syn_work){0};
    if (bytes >= sizeof head) memcpy(&head, data, sizeof head);
    if (bytes < sizeof head || !fits(&head, bytes))
        return SYN_FAIL(err, SYN_E_FORMAT, "%zu bytes are not what a device did", bytes);
    const char *nodes = data + sizeof head;
    syn_status s = read_nodes(out, &head, nodes, err);
    if (s == SYN_OK)
        s = read_names(out, &head,
                       nodes + head.nodes * sizeof(syn_node_work) + head.pieces * sizeof(syn_piece),
                       err);
    if (s != SYN_OK) syn_work_free(out);
    return s;
}
