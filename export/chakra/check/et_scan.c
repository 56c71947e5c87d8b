/* Reads the messages of an execution trace into arrays, and replaces the ids in dependencies with
   node indices. */
#include "export/chakra/check/et_scan.h"

#include <stdlib.h>

#include "export/chakra/wire/et_ids.h"
#include "syntorch/base/memory.h"

#define MAX_NODES (UINT32_MAX - 2)
#define ABSENT    UINT32_MAX

typedef struct scanner {
    syn__et_scan *scan;
    const syn__et_listener *on;
    const char *begin;
    syn__et_decoder decoder;
    uint64_t *dep_ids; /* ids of the dependencies of all nodes, until they are resolved */
    size_t n_dep_ids, dep_ids_cap;
    syn__et_ids ids; /* hash table; built when it is needed for the first time */
    bool ascending;
} scanner;

static void report_fault(const scanner *s, syn__et_fault what, uint32_t node, const char *at,
                         uint64_t id, const char *why) {
    if (s->on->fault == NULL) return;
    const uint64_t offset = at != NULL           ? (uint64_t)(at - s->begin)
                            : node != UINT32_MAX ? s->scan->offsets[node]
                                                 : SYN__ET_NO_OFFSET;
    s->on->fault(s->on->user, what, node, offset, id, why);
}

/* ---- Messages ---- */

static bool next_message(scanner *s, syn__et_reader *r, syn__str *out) {
    const char *start = r->cur;
    const bool more = syn__et_read_message(r, out);
    if (r->why != NULL) report_fault(s, SYN__ET_FAULT_FRAME, UINT32_MAX, start, 0, r->why);
    else if (more && out->bytes == 0)
        report_fault(s, SYN__ET_FAULT_EMPTY, UINT32_MAX, start, 0, NULL);
    return more;
}

static syn_status no_memory(size_t bytes, syn_error *err) {
    return SYN_FAIL_NOMEM(err, bytes, "the checks of an execution trace");
}

/* Reports a message that the decoder rejected, so that the scan continues. Fails only if memory is
   out. */
static syn_status pass_over(const scanner *s, syn_status status, syn_error *err) {
    if (status == SYN_E_NOMEM) return no_memory(sizeof(syn__et_attr), err);
    const bool text = strstr(s->decoder.why, "UTF-8") != NULL;
    report_fault(s, text ? SYN__ET_FAULT_TEXT : SYN__ET_FAULT_MESSAGE, UINT32_MAX, s->decoder.at, 0,
                 s->decoder.why);
    return SYN_OK;
}

static syn_status add_node(scanner *s, const syn__et_node *node, syn__str message, syn_error *err) {
    syn__et_scan *out = s->scan;
    const size_t i = out->n_nodes;
    if (i >= MAX_NODES) return SYN_FAIL(err, SYN_E_UNSUPPORTED, "more than 2^32 nodes in a file");
    SYN_TRY(syn_grow(&out->ids, &out->nodes_cap, i + 1, sizeof *out->ids, err));
    SYN_TRY(syn_grow(&out->offsets, &out->offsets_cap, i + 1, sizeof *out->offsets, err));
    SYN_TRY(syn_grow(&out->first_dep, &out->first_cap, i + 2, sizeof *out->first_dep, err));
    const size_t n = node->n_ctrl + node->n_data;
    if (s->n_dep_ids + n >= UINT32_MAX)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "more than 2^32 dependencies in a file");
    SYN_TRY(syn_grow(&s->dep_ids, &s->dep_ids_cap, s->n_dep_ids + n, sizeof *s->dep_ids, err));
    if (node->n_ctrl != 0)
        memcpy(s->dep_ids + s->n_dep_ids, node->ctrl, node->n_ctrl * sizeof *node->ctrl);
    if (node->n_data != 0)
        memcpy(s->dep_ids + s->n_dep_ids + node->n_ctrl, node->data,
               node->n_data * sizeof *node->data);
    if (i > 0 && out->ids[i - 1] >= node->id) s->ascending = false;
    out->ids[i] = node->id;
    out->offsets[i] = (uint64_t)(message.text - s->begin);
    out->first_dep[i] = (uint32_t)s->n_dep_ids;
    s->n_dep_ids += n;
    out->first_dep[i + 1] = (uint32_t)s->n_dep_ids;
    out->n_nodes++;
    return SYN_OK;
}

static syn_status take_node(scanner *s, syn__str message, syn_error *err) {
    syn__et_node node;
    const syn_status status = syn__et_decode_node(&s->decoder, message, &node);
    if (status != SYN_OK) return pass_over(s, status, err);
    const uint32_t index = s->scan->n_nodes;
    SYN_TRY(add_node(s, &node, message, err));
    if (s->on->node == NULL) return SYN_OK;
    return s->on->node(s->on->user, index, s->scan->offsets[index], &node, err);
}

/* Reads the first message, which should be the metadata. If it is a node, reports this and reads it
   as a node. */
static syn_status take_meta(scanner *s, syn__str message, syn_error *err) {
    syn__et_meta meta;
    syn__et_node node;
    const syn_status status = syn__et_decode_meta(&s->decoder, message, &meta);
    if (status == SYN_OK)
        return s->on->meta == NULL ? SYN_OK : s->on->meta(s->on->user, &meta, err);
    if (status == SYN_E_NOMEM) return no_memory(sizeof(syn__et_attr), err);
    const char *why = s->decoder.why, *at = s->decoder.at;
    const syn_status as_node = syn__et_decode_node(&s->decoder, message, &node);
    if (as_node == SYN_E_NOMEM) return no_memory(sizeof(syn__et_attr), err);
    const bool is_node = as_node == SYN_OK && (node.id != 0 || node.type != 0);
    if (is_node) why = "the first message is a node, but must be the metadata";
    report_fault(s, SYN__ET_FAULT_META, UINT32_MAX, at, 0, why);
    return is_node ? take_node(s, message, err) : SYN_OK;
}

static syn_status read_messages(scanner *s, size_t bytes, syn_error *err) {
    syn__et_reader r = {s->begin, s->begin + bytes, NULL};
    syn__str message;
    if (bytes == 0)
        report_fault(s, SYN__ET_FAULT_META, UINT32_MAX, s->begin, 0, "the file is empty");
    if (!next_message(s, &r, &message)) return SYN_OK;
    SYN_TRY(take_meta(s, message, err));
    while (next_message(s, &r, &message)) SYN_TRY(take_node(s, message, err));
    return SYN_OK;
}

/* ---- Ids ---- */

/* Builds the hash table and reports repeated ids. A look-up finds the first node with an id. */
static syn_status index_ids(scanner *s, syn_error *err) {
    const syn__et_scan *scan = s->scan;
    SYN_TRY(syn__et_ids_open(&s->ids, scan->ids, sizeof *scan->ids, scan->n_nodes, err));
    for (uint32_t i = 0; i < scan->n_nodes; i++)
        if (!syn__et_ids_add(&s->ids, i))
            report_fault(s, SYN__ET_FAULT_ID, i, NULL, scan->ids[i], NULL);
    return SYN_OK;
}

/* Sets *out to the index of the node with that id. Ids usually increase by one from node to node,
   so the first guess is that the indices of two nodes differ by as much as their ids. */
static syn_status find(scanner *s, uint32_t node, uint64_t id, uint32_t *out, syn_error *err) {
    const uint64_t *ids = s->scan->ids;
    const uint64_t guess = node - (ids[node] - id);
    if (guess < s->scan->n_nodes && ids[guess] == id) {
        *out = (uint32_t)guess;
        return SYN_OK;
    }
    if (s->ids.slots == NULL) SYN_TRY(index_ids(s, err));
    *out = syn__et_ids_find(&s->ids, id);
    return SYN_OK;
}

static bool is_new(const uint32_t *deps, uint32_t begin, uint32_t end, uint32_t dep) {
    for (uint32_t k = begin; k < end; k++) {
        if (deps[k] == dep) return false;
    }
    return true;
}

/* Number of previous dependencies of the node with which a new one is compared to find repeats. The
   limit makes the cost linear. Repeats that are further apart stay in the list and do no harm. */
#define LOOK_BACK 16u

static syn_status resolve(scanner *s, syn_error *err) {
    syn__et_scan *out = s->scan;
    uint32_t n = 0;
    out->deps = (uint32_t *)syn_malloc((s->n_dep_ids + 1) * sizeof(uint32_t));
    if (out->deps == NULL) return no_memory(s->n_dep_ids * sizeof(uint32_t), err);
    for (uint32_t i = 0; i < out->n_nodes; i++) {
        const uint32_t from = out->first_dep[i], to = out->first_dep[i + 1], begin = n;
        out->first_dep[i] = begin;
        for (uint32_t k = from; k < to; k++) {
            uint32_t dep;
            SYN_TRY(find(s, i, s->dep_ids[k], &dep, err));
            if (dep == ABSENT)
                report_fault(s, SYN__ET_FAULT_DANGLING, i, NULL, s->dep_ids[k], NULL);
            else if (dep == i) report_fault(s, SYN__ET_FAULT_SELF, i, NULL, s->dep_ids[k], NULL);
            else if (is_new(out->deps, n - begin > LOOK_BACK ? n - LOOK_BACK : begin, n, dep))
                out->deps[n++] = dep;
        }
    }
    if (out->first_dep != NULL) out->first_dep[out->n_nodes] = n;
    return SYN_OK;
}

typedef struct id_place {
    uint64_t id;
    uint32_t index;
} id_place;

static int compare_ids(const void *a, const void *b) {
    const id_place *x = (const id_place *)a, *y = (const id_place *)b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static syn_status sort_ids(syn__et_scan *scan, syn_error *err) {
    const size_t n = scan->n_nodes;
    id_place *places = (id_place *)syn_malloc(n * sizeof *places);
    scan->id_order = (uint32_t *)syn_malloc(n * sizeof(uint32_t));
    if (places == NULL || scan->id_order == NULL) {
        syn_free(places);
        return no_memory(n * sizeof *places, err);
    }
    for (uint32_t i = 0; i < n; i++) places[i] = (id_place){scan->ids[i], i};
    qsort(places, n, sizeof *places, compare_ids);
    for (uint32_t i = 0; i < n; i++) scan->id_order[i] = places[i].index;
    syn_free(places);
    return SYN_OK;
}

static syn_status run(scanner *s, size_t bytes, syn_error *err) {
    SYN_TRY(read_messages(s, bytes, err));
    /* first_dep has n_nodes + 1 entries, even if n_nodes is 0. */
    SYN_TRY(syn_grow(&s->scan->first_dep, &s->scan->first_cap, 1, sizeof(uint32_t), err));
    if (s->scan->n_nodes == 0) s->scan->first_dep[0] = 0;
    if (!s->ascending) {
        SYN_TRY(sort_ids(s->scan, err));
        SYN_TRY(index_ids(s, err));
    }
    return resolve(s, err);
}

syn_status syn__et_scan_open(syn__et_scan *scan, const char *data, size_t bytes,
                             const syn__et_listener *listener, syn_error *err) {
    scanner s = {.scan = scan, .on = listener, .begin = data, .ascending = true};
    *scan = (syn__et_scan){0};
    const syn_status status = run(&s, bytes, err);
    syn__et_decoder_free(&s.decoder);
    syn_free(s.dep_ids);
    syn__et_ids_close(&s.ids);
    return status;
}

void syn__et_scan_close(syn__et_scan *scan) {
    syn_free(scan->ids);
    syn_free(scan->offsets);
    syn_free(scan->first_dep);
    syn_free(scan->deps);
    syn_free(scan->id_order);
    *scan = (syn__et_scan){0};
}
