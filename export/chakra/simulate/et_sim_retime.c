/* Times of a trace's nodes on another machine.

   Predictions need a syn_node (hardware.h): op, phase, flops, bytes, dtype and the extents of
   products. Execution traces have the sizes of tensors, but not their shapes. The node is therefore
   rebuilt: the sizes and flops of a product determine its extents, except whether a matrix is
   transposed. What remains open is tried. If a variant has the recorded time on the machine for
   which the trace was predicted, it is the node that was predicted. */
#include "export/chakra/simulate/et_sim_retime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/wire/et_schema.h"
#include "export/text/bytes.h"
#include "syntorch/graph/op_names.h"

/* ---- Metadata ---- */

static void copy_text(char *to, size_t capacity, syn__str text) {
    const size_t n = text.bytes < capacity - 1 ? text.bytes : capacity - 1;
    if (n > 0) memcpy(to, text.text, n);
    to[n] = '\0';
}

static int64_t number_of(const syn__et_attr *a) {
    char text[24];
    int64_t number;
    if (syn__et_attr_integer(a, &number)) return number;
    if (a->field != SYN__ET_STRING) return 0;
    copy_text(text, sizeof text, a->data);
    return strtoll(text, NULL, 10);
}

void syn__sim_meta_read(syn__sim_meta *out, const syn__et_meta *meta) {
    int64_t hidden = 0, heads = 0;
    *out = (syn__sim_meta){.dtype = SYN_BF16};
    for (size_t i = 0; i < meta->n_attrs; i++) {
        const syn__et_attr *a = &meta->attrs[i];
        const bool is_text = a->field == SYN__ET_STRING;
        if (is_text && syn__str_is(a->name, "hardware"))
            copy_text(out->hardware.machine, sizeof out->hardware.machine, a->data);
        else if (is_text && syn__str_is(a->name, "stack"))
            copy_text(out->hardware.stack, sizeof out->hardware.stack, a->data);
        else if (syn__str_is(a->name, "hardware_constants")) out->hardware.own_constants = true;
        else if (syn__str_is(a->name, "fp8")) out->hardware.fp8 = true;
        else if (is_text && syn__str_is(a->name, "dtype"))
            for (int d = 0; d < SYN_DTYPE_COUNT; d++) {
                if (!syn__str_is(a->data, syn_dtype_name((syn_dtype)d))) continue;
                out->dtype = (syn_dtype)d;
                out->hardware.has_dtype = true;
            }
        else if (syn__str_is(a->name, "hidden")) hidden = number_of(a);
        else if (syn__str_is(a->name, "heads")) heads = number_of(a);
        else if (syn__str_is(a->name, "tokens")) out->tokens = number_of(a);
    }
    if (hidden > 0 && heads > 0) out->head_dim = hidden / heads;
}

/* ---- Nodes ---- */

#define TENSORS    4    /* of the inputs and of the outputs that are looked at */
#define MAX_TENSOR 1e15 /* bytes */

/* The attributes that a prediction needs. */
typedef struct described {
    char op[64], scope[128], group[24]; /* group: its name, such as "tp0" */
    syn_phase phase;
    double in[TENSORS], out[TENSORS]; /* bytes */
    int n_in, n_out;
    double read, written; /* sums of all tensors, in bytes */
    bool clamped;
} described;

/* Reads the bytes of a list of tensors: every second entry is a number. */
static void read_tensors(const syn__et_attr *a, double *bytes, int *n, double *sum) {
    uint64_t unused;
    syn__str text;
    char number[24];
    syn__et_list list = syn__et_list_of(syn__et_type_of(SYN__ET_STRING_LIST), a->data);
    for (int i = 0; syn__et_list_next(&list, &unused, &text); i++) {
        if (i % 2 == 0) continue;
        copy_text(number, sizeof number, text);
        double value = strtod(number, NULL);
        if (!(value >= 0 && value <= MAX_TENSOR)) value = 0;
        *sum += value;
        if (*n < TENSORS) bytes[(*n)++] = value;
    }
}

static syn_phase phase_of(syn__str name) {
    for (int p = 0; p < SYN_PHASE_COUNT; p++)
        if (syn__str_is(name, syn_phase_name((syn_phase)p))) return (syn_phase)p;
    return SYN_PHASE_FORWARD;
}

/* The part of a name before the last slash: "h.3.attn" of "h.3.attn/qkv". */
static syn__str scope_of(syn__str name) {
    size_t n = name.bytes;
    while (n > 0 && name.text[n - 1] != '/') n--;
    return (syn__str){name.text, n > 0 ? n - 1 : 0};
}

static void describe(described *out, const syn__et_node *node) {
    *out = (described){.phase = SYN_PHASE_FORWARD};
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        if (a->field == SYN__ET_STRING && syn__str_is(a->name, "op"))
            copy_text(out->op, sizeof out->op, a->data);
        else if (a->field == SYN__ET_STRING && syn__str_is(a->name, "pg_desc"))
            copy_text(out->group, sizeof out->group, a->data);
        else if (a->field == SYN__ET_STRING && syn__str_is(a->name, "phase"))
            out->phase = phase_of(a->data);
        else if (a->field == SYN__ET_BOOL && syn__str_is(a->name, "clamped"))
            out->clamped = a->bits != 0;
        else if (a->field == SYN__ET_STRING_LIST && syn__str_is(a->name, "inputs"))
            read_tensors(a, out->in, &out->n_in, &out->read);
        else if (a->field == SYN__ET_STRING_LIST && syn__str_is(a->name, "outputs"))
            read_tensors(a, out->out, &out->n_out, &out->written);
    }
    copy_text(out->scope, sizeof out->scope, scope_of(node->name));
    if (out->op[0] != '\0') return;
    syn__str name = node->name; /* "h.3.attn/qkv": the op is the part after the slash */
    for (size_t i = name.bytes; i > 0; i--)
        if (name.text[i - 1] == '/' && i < name.bytes) {
            name = (syn__str){name.text + i, name.bytes - i};
            break;
        }
    copy_text(out->op, sizeof out->op, name);
}

/* ---- Variants of a node ---- */

#define VARIANTS 8

typedef struct variants {
    syn_node list[VARIANTS];
    int n;
} variants;

static void add_variant(variants *all, const syn_node *node, syn_extents extents) {
    if (all->n == VARIANTS) return;
    all->list[all->n] = *node;
    all->list[all->n++].extents = extents;
}

/* The sizes of a product in elements: operands a and b, and the output. */
typedef struct product {
    double a, b, out;
} product;

/* Finds the extents of `batch` products of [rows, inner] and [inner, columns] matrices. An element
   of the output takes 2 flops per element of the inner dimension. Returns false if there are none.
   *fits: all sizes are those of the products; a KV cache is larger. */
static bool product_extents(const syn_node *node, const product *p, syn_extents *out, bool *fits) {
    const double inner = p->out > 0 ? floor((double)node->flops / p->out / 2) : 0;
    if (!(inner >= 1)) return false;
    const double batch = fmax(round(p->a * p->b / (p->out * inner * inner)), 1);
    if (batch > p->out) return false;
    const double rows = round(p->a / (batch * inner)), columns = round(p->b / (batch * inner));
    *out = (syn_extents){.batch = (int64_t)batch,
                         .rows = (int64_t)rows,
                         .columns = (int64_t)columns,
                         .inner = (int64_t)inner};
    *fits = batch * rows * columns == p->out;
    return rows >= 1 && columns >= 1;
}

typedef enum fit { SINGLE, BATCHED, LOOSE, FITS } fit;

/* Adds products of inputs i < k that fit as given, either of which may be transposed. `to`: the
   bytes of the output. It may be f32, as gradients of weights are. The first
   matrix of `linear` is not the weight, whose id is smaller. */
static void add_product(variants *all, const syn_node *node, const described *d, int i, int k,
                        double to, fit how) {
    const double bytes = (double)syn_dtype_bytes(node->dtype);
    const bool is_linear = strcmp(node->op, "linear") == 0;
    const int first = is_linear ? k : i, second = is_linear ? i : k;
    for (int wide = 0; wide < (bytes < 4 ? 2 : 1); wide++) {
        const product p = {d->in[first] / bytes, d->in[second] / bytes, to / (wide ? 4 : bytes)};
        syn_extents e;
        bool fits;
        if (!product_extents(node, &p, &e, &fits)) continue;
        if (how != (!fits ? LOOSE : e.batch == 1 ? SINGLE : BATCHED)) continue;
        add_variant(all, node, e);
        add_variant(all, node,
                    (syn_extents){
                        .batch = e.batch, .rows = e.columns, .columns = e.rows, .inner = e.inner});
    }
}

/* The order of inputs in a trace is that of their ids, and a bias may be among them. An op that
   overwrites an input adds the product to it. Single products come first: their sizes may also be
   those of a batch of two with a narrow output. */
static void add_matmul(variants *all, const syn_node *node, const described *d) {
    const bool adds = (syn_op_flags(node->op) >> 8) > 0;
    for (fit how = SINGLE; how < FITS && (how != LOOSE || all->n == 0); how++)
        for (int i = 0; i < d->n_in; i++)
            for (int k = i + 1; k < d->n_in; k++) {
                if (!adds && d->n_out > 0) add_product(all, node, d, i, k, d->out[0], how);
                for (int to = 0; to < d->n_in && adds; to++)
                    if (to != i && to != k) add_product(all, node, d, i, k, d->in[to], how);
            }
    add_variant(all, node, (syn_extents){0});
}

/* Fused attention of one query per sequence (a generated token), or of as many queries as keys. A
   score takes 4 flops per element of a head, and about 5.5 for the softmax; backward, 2.5 times as
   many. */
static void add_attention(variants *all, const syn_node *node, const described *d,
                          const syn__sim_meta *meta) {
    const double dim = (double)meta->head_dim, bytes = (double)syn_dtype_bytes(node->dtype);
    const double queries = dim > 0 && d->n_out > 0 ? d->out[0] / bytes / dim : 0; /* of all heads */
    const double grad = strstr(node->op, "grad") != NULL ? 2.5 : 1;
    const double keys =
        queries >= 1 ? round((double)node->flops / (queries * grad * (4 * dim + 5.5))) : 0;
    if (keys > 1 && queries >= keys)
        add_variant(all, node,
                    (syn_extents){.batch = (int64_t)round(queries / keys),
                                  .rows = (int64_t)keys,
                                  .columns = (int64_t)keys,
                                  .inner = meta->head_dim});
    if (keys >= 1)
        add_variant(all, node,
                    (syn_extents){.batch = (int64_t)queries,
                                  .rows = 1,
                                  .columns = (int64_t)keys,
                                  .inner = meta->head_dim});
    add_variant(all, node, (syn_extents){0});
}

/* The scores of unfused attention. */
static void add_scores(variants *all, const syn_node *node, const described *d,
                       const syn__sim_meta *meta) {
    const double scores = d->n_out > 0 ? d->out[0] / (double)syn_dtype_bytes(node->dtype) : 0;
    const double batch =
        meta->tokens > 0 ? scores / ((double)meta->tokens * (double)meta->tokens) : 0;
    if (batch >= 1)
        add_variant(all, node,
                    (syn_extents){.batch = (int64_t)batch,
                                  .rows = meta->tokens,
                                  .columns = meta->tokens,
                                  .inner = 0});
    if (scores >= 1)
        add_variant(all, node,
                    (syn_extents){.batch = 1, .rows = 1, .columns = (int64_t)scores, .inner = 0});
    add_variant(all, node, (syn_extents){0});
}

static void find_variants(variants *all, const syn_node *node, const described *d,
                          const syn__sim_meta *meta) {
    const bool fused = (node->flags & SYN_NODE_FUSED) != 0;
    all->n = 0;
    if (node->category == SYN_CATEGORY_MATMUL) add_matmul(all, node, d);
    else if (node->category == SYN_CATEGORY_ATTENTION && fused) add_attention(all, node, d, meta);
    else if (node->category == SYN_CATEGORY_ATTENTION) add_scores(all, node, d, meta);
    else add_variant(all, node, node->extents);
    if (strcmp(node->op, "embedding") == 0) { /* whether it is the first lookup of its batch */
        add_variant(all, node, node->extents);
        all->list[all->n - 1].flags |= SYN_NODE_SECONDARY_LOOKUP;
    }
}

/* An unknown op with more flops per byte is a matrix product: others have at most a few. */
#define PRODUCT_FLOPS_PER_BYTE 16

static syn_node node_of(const syn__sim_timed *timed, const described *d,
                        const syn__sim_meta *meta) {
    syn_node node = {.id = timed->node->id, SYN_NODE_UNKNOWN};
    double flops = timed->num_ops > 0 ? (double)timed->num_ops : 0,
           bytes = timed->tensor_size > 0 ? (double)timed->tensor_size : 0;
    /* as in drop_clamped (et_semantics.c) */
    if (d->clamped && (bytes <= 1 || (bytes <= SYN__ET_MIN_ROOT_BYTES && flops > 1))) bytes = 0;
    if (d->clamped && flops <= 1) flops = 0;
    node.kind = SYN_NODE_COMPUTE;
    node.op = node.label = d->op;
    node.scope = d->scope;
    node.phase = d->phase;
    node.category = syn_op_category(d->op);
    if (node.category == SYN_CATEGORY_OTHER && flops > PRODUCT_FLOPS_PER_BYTE * bytes)
        node.category = SYN_CATEGORY_MATMUL;
    node.flags = (syn_op_flags(d->op) & SYN_OPF_FUSED) != 0 ? SYN_NODE_FUSED : 0;
    node.dtype = meta->dtype;
    node.flops = (uint64_t)flops;
    node.bytes_read = (uint64_t)(d->read < bytes && d->read > 0 ? d->read : bytes);
    node.bytes_written = (uint64_t)bytes - node.bytes_read;
    return node;
}

static uint64_t whole_ns(double ns) {
    return ns > 0 ? ns < 9e18 ? (uint64_t)llround(ns) : (uint64_t)9e18 : 0;
}

uint64_t syn__sim_retime_compute(const syn__sim_timed *timed, const syn__sim_meta *meta,
                                 const syn_hardware *from, const syn_hardware *to, bool *exact) {
    described d;
    variants all;
    double nearest = INFINITY, ratio = 1;
    const double recorded = (double)timed->recorded_ns;
    describe(&d, timed->node);
    const syn_node node = node_of(timed, &d, meta);
    *exact = false;
    if (!timed->is_predicted && node.flops + node.bytes_read + node.bytes_written == 0)
        return timed->recorded_ns; /* the host's time, for example */
    find_variants(&all, &node, &d, meta);
    for (int i = 0; i < all.n; i++) {
        const double before = syn_hardware_predict_ns(from, &all.list[i], NULL, 0);
        const double after = syn_hardware_predict_ns(to, &all.list[i], NULL, 0);
        if (timed->is_predicted && whole_ns(before) == timed->recorded_ns) {
            *exact = true;
            return whole_ns(after);
        }
        const double apart = fabs(log(fmax(before, 1) / fmax(recorded, 1)));
        if (before > 0 && apart < nearest) {
            nearest = apart;
            ratio = after / before;
        }
    }
    return whole_ns(recorded * ratio);
}

/* ---- Communication ---- */

static syn_node communication(described *d, const syn__et_node *message, uint64_t bytes) {
    syn_node node = {.id = message->id, SYN_NODE_UNKNOWN};
    describe(d, message);
    node.op = node.label = "";
    node.scope = d->scope;
    node.category = SYN_CATEGORY_COMMUNICATION;
    node.phase = d->phase;
    node.comm_bytes = d->clamped && bytes <= 1 ? 0 : bytes;
    return node;
}

uint64_t syn__sim_retime_collective(const syn__et_node *message, const syn_hardware *to,
                                    int comm_type, uint64_t bytes, const syn_graph_group *group) {
    described d;
    syn_node node = communication(&d, message, bytes);
    node.kind = SYN_NODE_COLLECTIVE;
    node.comm = syn__et_comm_kind(comm_type);
    syn_graph_group named = *group;
    if (d.group[0] != '\0') named.name = d.group;
    return whole_ns(syn_hardware_predict_ns(to, &node, &named, 0));
}

uint64_t syn__sim_retime_message(const syn__et_node *message, const syn_hardware *to,
                                 uint64_t bytes, int32_t rank, int32_t peer) {
    described d;
    syn_node node = communication(&d, message, bytes);
    node.kind = message->type == SYN__ET_COMM_SEND_NODE ? SYN_NODE_SEND : SYN_NODE_RECV;
    node.comm = node.kind == SYN_NODE_SEND ? SYN_COMM_SEND : SYN_COMM_RECV;
    node.peer = peer;
    return whole_ns(syn_hardware_predict_ns(to, &node, NULL, rank));
}
