/* Reads the framing of an execution trace, checks every message and orders the nodes so that each
   comes after its dependencies. */
#include <inttypes.h>

#include "export/chakra/et_index.h"
#include "export/chakra/wire/et_ids.h"
#include "syntorch/base/memory.h"

/* Fails with "trace.0.et, byte 17: why". */
static syn_status fail(const syn__et_index *index, const char *at, syn_error *err,
                       const char *why) {
    if (!index->is_file) return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: %s", index->name, why);
    return SYN_FAIL(err, SYN_E_FORMAT, "%.200s, byte %zu: %s", index->name,
                    (size_t)(at - index->begin), why);
}

void syn__et_index_close(syn__et_index *index) {
    syn_free(index->spans);
    syn_free(index->deps);
    syn_free(index->order);
    *index = (syn__et_index){0};
}

static syn_status no_memory(size_t bytes, syn_error *err) {
    return SYN_FAIL_NOMEM(err, bytes, "the index of an execution trace");
}

/* ---- Framing ---- */

/* Reads the next message. Returns false at the end of the file, and with *status set if the file is
   damaged. */
static bool next_message(const syn__et_index *index, syn__et_reader *r, syn__str *out,
                         syn_status *status, syn_error *err) {
    const char *start = r->cur;
    uint64_t bytes;
    if (syn__et_read_message(r, out)) return true;
    if (r->why == NULL) return false;
    const bool is_none = start == index->begin && !syn__et_read_varint(r, &bytes);
    *status = fail(index, start, err, is_none ? "this is not a Chakra execution trace" : r->why);
    return false;
}

/* Adds the node and reserves space for its dependencies, which are resolved later. */
static syn_status add_span(syn__et_index *index, const syn__et_node *node, syn__str message,
                           syn_error *err) {
    const size_t n = node->n_ctrl + node->n_data;
    if (index->n_spans >= SYN_NO_NODE - 1) return fail(index, message.text, err, "too many nodes");
    SYN_TRY(
        syn_grow(&index->spans, &index->spans_cap, index->n_spans + 1, sizeof *index->spans, err));
    SYN_TRY(syn_grow(&index->deps, &index->deps_cap, index->n_deps + n, sizeof *index->deps, err));
    index->spans[index->n_spans++] =
        (syn__et_span){node->id, message.text, message.bytes, index->n_deps, 0};
    index->n_deps += n;
    index->has_start = index->has_start || node->start_micros != 0;
    return SYN_OK;
}

/* Whether the node has only default values. Written again, its message would have 0 bytes, which
   other readers take for the end of the file. */
static bool is_empty(const syn__et_node *n, bool lax) {
    return n->id == 0 && n->name.bytes == 0 && n->type == 0 && (n->n_ctrl == 0 || lax) &&
           n->n_data == 0 && n->start_micros == 0 && n->duration_micros == 0 && !n->io[0].present &&
           !n->io[1].present && n->n_attrs == 0;
}

static syn_status fail_decode(const syn__et_index *index, const syn__et_decoder *d,
                              syn_status status, syn_error *err) {
    if (status == SYN_E_NOMEM) return no_memory(sizeof(syn__et_attr), err);
    return fail(index, d->at, err, d->why);
}

static syn_status read_frames(syn__et_index *index, syn__et_decoder *d, syn__et_reader *r,
                              syn_error *err) {
    syn_status status = SYN_OK;
    syn__str message;
    syn__et_meta meta;
    syn__et_node node;
    if (!next_message(index, r, &message, &status, err)) {
        if (status != SYN_OK) return status;
        return fail(index, r->cur, err, "the file is empty");
    }
    status = syn__et_decode_meta(d, message, &meta);
    if (status != SYN_OK) return fail_decode(index, d, status, err);
    index->meta = message;
    index->lax = meta.version.bytes == 0;
    while (next_message(index, r, &message, &status, err)) {
        status = syn__et_decode_node(d, message, &node);
        if (status != SYN_OK) return fail_decode(index, d, status, err);
        if (is_empty(&node, index->lax)) return fail(index, message.text, err, "a node is empty");
        SYN_TRY(add_span(index, &node, message, err));
    }
    return status;
}

/* ---- Ids ---- */

static syn_status index_ids(syn__et_ids *ids, const syn__et_index *index, syn_error *err) {
    SYN_TRY(syn__et_ids_open(ids, index->n_spans != 0 ? &index->spans->id : NULL,
                             sizeof *index->spans, index->n_spans, err));
    for (uint32_t i = 0; i < index->n_spans; i++) {
        if (!syn__et_ids_add(ids, i))
            return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: two nodes have the id %" PRIu64,
                            index->name, index->spans[i].id);
    }
    return SYN_OK;
}

/* ---- Dependencies ---- */

/* Attributes that list the data_deps of one class, in ascending order of ids (docs/pytorch.md). */
static const struct {
    const char *name;
    syn_dep_class dep_class;
} class_lists[] = {{"launch_deps", SYN_DEP_LAUNCH},
                   {"stream_deps", SYN_DEP_STREAM},
                   {"sync_deps", SYN_DEP_SYNC},
                   {"group_deps", SYN_DEP_GROUP},
                   {"thread_deps", SYN_DEP_SYNC}};
#define CLASS_LISTS (sizeof class_lists / sizeof class_lists[0])

/* The position in the list of one class, which is read in parallel with the data_deps. */
typedef struct class_reader {
    syn__et_reader list;
    uint64_t id;
    bool more;
} class_reader;

static void next_id(class_reader *c) {
    c->more = c->list.cur < c->list.end && syn__et_read_varint(&c->list, &c->id);
}

static void open_lists(class_reader *lists, const syn__et_node *node) {
    memset(lists, 0, CLASS_LISTS * sizeof *lists);
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        for (size_t k = 0; k < CLASS_LISTS && a->field == SYN__ET_UINT64_LIST; k++) {
            syn__et_field ids;
            syn__et_reader r = {a->data.text, a->data.text + a->data.bytes, NULL};
            if (!syn__str_is(a->name, class_lists[k].name) || !syn__et_read_field(&r, &ids) ||
                ids.wire != SYN__ET_WIRE_LEN)
                continue;
            lists[k].list = (syn__et_reader){ids.data.text, ids.data.text + ids.data.bytes, NULL};
            next_id(&lists[k]);
        }
    }
}

/* The class of a data_dep. Successive calls must pass ascending ids. */
static uint32_t class_of(class_reader *lists, uint64_t id) {
    uint32_t found = SYN_DEP_DATA;
    for (size_t k = 0; k < CLASS_LISTS; k++) {
        while (lists[k].more && lists[k].id < id) next_id(&lists[k]);
        if (lists[k].more && lists[k].id == id) found = class_lists[k].dep_class;
    }
    return found;
}

/* Appends the node's dependencies to index->deps, which has *n entries so far. */
static syn_status resolve_node(syn__et_index *index, const syn__et_ids *known,
                               const syn__et_node *node, size_t *n, syn_error *err) {
    class_reader lists[CLASS_LISTS];
    open_lists(lists, node);
    for (int k = 0; k < 2; k++) {
        const bool data = k == 0;
        const uint64_t *ids = data ? node->data : node->ctrl;
        for (size_t i = 0; i < (data ? node->n_data : node->n_ctrl); i++) {
            const uint32_t span = syn__et_ids_find(known, ids[i]);
            if (span == UINT32_MAX && index->lax && !data) {
                index->n_dropped++;
            } else if (span == UINT32_MAX) {
                return SYN_FAIL(err, SYN_E_FORMAT,
                                "%.200s: node %" PRIu64 " depends on node %" PRIu64
                                ", which is not in the file",
                                index->name, node->id, ids[i]);
            } else {
                index->deps[(*n)++] =
                    (syn_dep){span, data ? class_of(lists, ids[i]) : (uint32_t)SYN_DEP_CONTROL};
            }
        }
    }
    return SYN_OK;
}

static syn_status resolve(syn__et_index *index, syn__et_decoder *d, syn_error *err) {
    syn__et_ids known = {0};
    size_t n = 0;
    syn_status status = index_ids(&known, index, err);
    for (size_t i = 0; i < index->n_spans && status == SYN_OK; i++) {
        syn__et_node node;
        syn__et_span *span = &index->spans[i];
        span->first_dep = n;
        status = syn__et_decode_node(d, (syn__str){span->data, span->bytes}, &node);
        if (status != SYN_OK) status = fail_decode(index, d, status, err);
        else status = resolve_node(index, &known, &node, &n, err);
    }
    index->n_deps = n;
    syn__et_ids_close(&known);
    return status;
}

/* ---- Order ---- */

static size_t deps_end(const syn__et_index *index, size_t span) {
    return span + 1 < index->n_spans ? index->spans[span + 1].first_dep : index->n_deps;
}

/* Whether the file is already in program order: ids ascend, and every node comes after its
   dependencies. */
static bool in_order(const syn__et_index *index) {
    for (size_t i = 0; i < index->n_spans; i++) {
        if (i > 0 && index->spans[i].id <= index->spans[i - 1].id) return false;
        for (size_t k = index->spans[i].first_dep; k < deps_end(index, i); k++) {
            if (index->deps[k].node >= i) return false;
        }
    }
    return true;
}

/* Orders the nodes with Kahn's algorithm. The next node is always the ready node with the smallest
   id, as in ASTRA-sim. The order of nodes in the file, which tools change, therefore does not
   matter. */
typedef struct kahn {
    uint32_t *left;  /* per span: number of dependencies not yet in the order */
    uint32_t *first; /* per span: start of its entries in waiters; one more element for the end */
    uint32_t *waiters;
    uint32_t *heap;
    size_t n_heap;
} kahn;

static void heap_push(kahn *k, const syn__et_span *spans, uint32_t span) {
    size_t at = k->n_heap++;
    while (at > 0 && spans[k->heap[(at - 1) / 2]].id > spans[span].id) {
        k->heap[at] = k->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    k->heap[at] = span;
}

static uint32_t heap_pop(kahn *k, const syn__et_span *spans) {
    const uint32_t top = k->heap[0], last = k->heap[--k->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= k->n_heap) break;
        if (child + 1 < k->n_heap && spans[k->heap[child + 1]].id < spans[k->heap[child]].id)
            child++;
        if (spans[k->heap[child]].id >= spans[last].id) break;
        k->heap[at] = k->heap[child];
        at = child;
    }
    k->heap[at] = last;
    return top;
}

static bool kahn_open(kahn *k, const syn__et_index *index) {
    const size_t n = index->n_spans;
    *k = (kahn){(uint32_t *)syn_calloc(n, sizeof(uint32_t)),
                (uint32_t *)syn_calloc(n + 2, sizeof(uint32_t)),
                (uint32_t *)syn_malloc((index->n_deps + 1) * sizeof(uint32_t)),
                (uint32_t *)syn_malloc((n + 1) * sizeof(uint32_t)), 0};
    if (k->left == NULL || k->first == NULL || k->waiters == NULL || k->heap == NULL) return false;
    /* A counting sort with shifted indices. First, first[s + 2] counts the waiters of span s. The
       prefix sums make first[s + 1] the start of these waiters' entries. Each entry that is filled
       in increments first[s + 1], so that at the end first[s] is the start. */
    for (size_t i = 0; i < index->n_deps; i++) k->first[index->deps[i].node + 2]++;
    for (size_t i = 2; i < n + 2; i++) k->first[i] += k->first[i - 1];
    for (size_t i = 0; i < n; i++) {
        for (size_t d = index->spans[i].first_dep; d < deps_end(index, i); d++) {
            k->waiters[k->first[index->deps[d].node + 1]++] = (uint32_t)i;
            k->left[i]++;
        }
    }
    return true;
}

static void kahn_close(kahn *k) {
    syn_free(k->left);
    syn_free(k->first);
    syn_free(k->waiters);
    syn_free(k->heap);
}

static syn_status run_kahn(syn__et_index *index, kahn *k, syn_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < index->n_spans; i++) {
        if (k->left[i] == 0) heap_push(k, index->spans, (uint32_t)i);
    }
    while (k->n_heap > 0) {
        const uint32_t span = heap_pop(k, index->spans);
        index->order[n++] = span;
        for (size_t w = k->first[span]; w < k->first[span + 1]; w++) {
            if (--k->left[k->waiters[w]] == 0) heap_push(k, index->spans, k->waiters[w]);
        }
    }
    if (n == index->n_spans) return SYN_OK;
    size_t stuck = 0;
    while (k->left[stuck] == 0) stuck++;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%.200s: the dependencies form a cycle: %zu nodes, including %" PRIu64
                    ", can never start",
                    index->name, index->n_spans - n, index->spans[stuck].id);
}

static syn_status put_in_order(syn__et_index *index, syn_error *err) {
    const size_t bytes = (index->n_spans + 1) * sizeof(uint32_t);
    index->order = (uint32_t *)syn_malloc(bytes);
    if (index->order == NULL) return no_memory(bytes, err);
    syn_status status = SYN_OK;
    if (in_order(index)) {
        for (size_t i = 0; i < index->n_spans; i++) index->order[i] = (uint32_t)i;
    } else if (index->n_deps >= UINT32_MAX) {
        status =
            SYN_FAIL(err, SYN_E_UNSUPPORTED, "%.200s: more than 2^32 dependencies", index->name);
    } else {
        kahn k;
        status = kahn_open(&k, index) ? run_kahn(index, &k, err) : no_memory(bytes, err);
        kahn_close(&k);
    }
    for (size_t i = 0; i < index->n_spans && status == SYN_OK; i++)
        index->spans[index->order[i]].position = (uint32_t)i;
    return status;
}

syn_status syn__et_index_open(syn__et_index *index, syn__et_decoder *decoder, const char *name,
                              const char *data, size_t bytes, bool is_file, syn_error *err) {
    *index = (syn__et_index){.name = name, .begin = data, .is_file = is_file};
    syn__et_reader r = {data, data + bytes, NULL};
    if (bytes >= 2 && (unsigned char)data[0] == 0x1F && (unsigned char)data[1] == 0x8B)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%.200s is compressed with gzip; unpack it first (gunzip)", name);
    SYN_TRY(read_frames(index, decoder, &r, err));
    SYN_TRY(resolve(index, decoder, err));
    return put_in_order(index, err);
}

int32_t syn__et_peek_rank(const char *data, size_t bytes) {
    syn__et_reader r = {data, data + bytes, NULL};
    syn__str message;
    if (!syn__et_read_message(&r, &message)) return -1;
    const int64_t rank = syn__et_unpack_rank(message);
    return rank >= 0 && rank < SYN_MAX_WORLD ? (int32_t)rank : -1;
}
