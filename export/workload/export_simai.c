/* Writes a rank's training step as a workload of SimAI (https://github.com/aliyun/SimAI), in the
   form that its generator AICB writes: a line of degrees of parallelism, the number of layers, and
   per layer

     <name> -1 <fwd ns> <collective> <bytes> <input-gradient ns> <collective> <bytes>
         <weight-gradient ns> <collective> <bytes> <update ns>

   SimAI runs the forward parts of all layers in order, then the backward parts in reverse order.
   Each waits for its first two collectives; the third runs beside the layers that follow. The group
   of a collective depends on its column and suffix: tensor-parallel in the first two columns and
   data-parallel in the third one; _EP: the first `ep` data-parallel neighbours; _DP_EP: ranks with
   the same position in different such groups. Bytes are those of the whole buffer. */
#include "export/export.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

typedef enum group_role { ROLE_TP, ROLE_DP, ROLE_EP, ROLE_DP_EP, ROLE_NONE } group_role;

static const char *const suffixes[] = {"", "", "_EP", "_DP_EP", ""};

typedef struct collective {
    syn_comm_kind kind; /* NONE: none */
    group_role role;
    uint64_t bytes;
} collective;

/* Work of one module, up to a collective. */
typedef struct part {
    uint32_t scope; /* id in scopes */
    uint64_t ns;
    collective waited, beside; /* the rank waits for the first one */
} part;

typedef struct parts {
    part *list; /* in the order in which they run */
    size_t n, cap;
    bool open; /* the last one may still get work */
} parts;

typedef struct writer {
    const syn_graph *graph;
    uint32_t rank; /* index */
    syn_sink *sink;
    syn_cursor cursor;
    syn_intern scopes;
    parts forward, backward; /* backward: also recomputation and optimizer */
    int64_t tp, dp, pp, vp, ep, accumulation;
    uint64_t message_bytes; /* of the largest message */
    bool trains;
    syn_simai_summary *done;
    syn_error *err;
} writer;

/* ---- Degrees of parallelism ---- */

static int64_t degree(const syn_graph *graph, const char *name) {
    const syn_attribute *a = syn_graph_meta(graph, name);
    const int64_t n = a == NULL                   ? 1
                      : a->type == SYN_VALUE_TEXT ? strtoll(a->text, NULL, 10)
                                                  : a->i64;
    return n > 0 && n <= INT_MAX ? n : 1;
}

static syn_status read_degrees(writer *w) {
    const syn_graph *g = w->graph;
    w->tp = degree(g, "tp");
    w->dp = degree(g, "dp");
    w->pp = degree(g, "pp");
    w->vp = degree(g, "vp");
    w->accumulation = degree(g, "accumulation");
    w->ep = 1;
    const syn_attribute *schedule = syn_graph_meta(g, "schedule");
    if (schedule != NULL && schedule->type == SYN_VALUE_TEXT &&
        strcmp(schedule->text, "dualpipe") == 0)
        return SYN_FAIL(
            w->err, SYN_E_UNSUPPORTED,
            "a workload of SimAI has one stage per rank, but with the schedule dualpipe "
            "each rank has two");
    if (degree(g, "cp") > 1)
        return SYN_FAIL(w->err, SYN_E_UNSUPPORTED,
                        "a workload of SimAI has no context parallelism (cp %" PRId64 ")",
                        degree(g, "cp"));
    if (w->tp * w->dp == g->world_size / w->pp && g->world_size % w->pp == 0) return SYN_OK;
    return SYN_FAIL(
        w->err, SYN_E_UNSUPPORTED,
        "a workload of SimAI needs tensor, data and pipeline parallelism, but tp %" PRId64
        ", dp %" PRId64 " and pp %" PRId64 " do not make %d ranks",
        w->tp, w->dp, w->pp, (int)g->world_size);
}

/* What SimAI calls a group of synth and pretrain, whose name is letters and a number. */
static group_role role_of(const syn_graph_group *group) {
    static const struct {
        const char *name;
        group_role is;
    } roles[] = {{"tp", ROLE_TP},
                 {"dp", ROLE_DP},
                 {"gather", ROLE_EP},
                 {"shard", ROLE_EP},
                 {"replicas", ROLE_DP_EP}};
    const size_t n = strcspn(group->name, "0123456789");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strlen(roles[i].name) == n && strncmp(group->name, roles[i].name, n) == 0)
            return roles[i].is;
    return ROLE_NONE;
}

/* ---- Reading the step ---- */

static const char *comm_name(syn_comm_kind kind) {
    switch (kind) {
    case SYN_COMM_ALL_REDUCE:
        return "ALLREDUCE";
    case SYN_COMM_ALL_GATHER:
        return "ALLGATHER";
    case SYN_COMM_REDUCE_SCATTER:
    case SYN_COMM_REDUCE_SCATTER_BLOCK:
        return "REDUCESCATTER";
    case SYN_COMM_ALL_TO_ALL:
        return "ALLTOALL";
    default:
        return NULL;
    }
}

static syn_status part_of(writer *w, parts *to, const syn_node *node, part **out) {
    const char *scope = node->scope[0] != '\0' ? node->scope : node->op;
    uint32_t id;
    SYN_TRY(syn_intern_put(&w->scopes, scope, strlen(scope), &id, w->err));
    if (!to->open || to->list[to->n - 1].scope != id) {
        SYN_TRY(syn_grow(&to->list, &to->cap, to->n + 1, sizeof *to->list, w->err));
        to->list[to->n++] = (part){.scope = id};
        to->open = true;
    }
    *out = &to->list[to->n - 1];
    return SYN_OK;
}

static syn_status add_compute(writer *w, parts *to, const syn_node *node) {
    const double ns = node->wall_ns >= 0 ? node->wall_ns : node->predicted_ns;
    part *p;
    if (!(ns > 0)) return SYN_OK;
    SYN_TRY(part_of(w, to, node, &p));
    p->ns += (uint64_t)(ns + 0.5);
    w->done->compute_ns += (uint64_t)(ns + 0.5);
    return SYN_OK;
}

/* Adds a collective that runs beside later work. It may share a part with earlier work. */
static syn_status add_beside(writer *w, const syn_node *node, const collective *c) {
    parts *to = &w->backward;
    part *p = to->n > 0 ? &to->list[to->n - 1] : NULL;
    if (p == NULL || p->beside.kind != SYN_COMM_NONE) SYN_TRY(part_of(w, to, node, &p));
    p->beside = *c;
    to->open = false;
    return SYN_OK;
}

static syn_status add_collective(writer *w, parts *to, const syn_node *node) {
    const syn_graph_group *group = syn_graph_group_by_id(w->graph, node->group);
    collective c = {node->comm, group != NULL ? role_of(group) : ROLE_NONE, node->comm_bytes};
    part *p;
    if (c.role == ROLE_NONE || comm_name(c.kind) == NULL) {
        w->done->left_out[c.kind].calls++;
        w->done->left_out[c.kind].bytes += c.bytes;
        return SYN_OK;
    }
    w->done->n_collectives++;
    if (c.kind == SYN_COMM_ALL_GATHER) c.bytes *= group->n_ranks;
    if (c.role == ROLE_EP) w->ep = group->n_ranks;
    if (c.role == ROLE_DP || c.role == ROLE_DP_EP) return add_beside(w, node, &c);
    SYN_TRY(part_of(w, to, node, &p));
    p->waited = c;
    to->open = false;
    return SYN_OK;
}

static syn_status read_node(writer *w, const syn_node *node) {
    parts *to = node->phase == SYN_PHASE_FORWARD ? &w->forward : &w->backward;
    switch (node->kind) {
    case SYN_NODE_COMPUTE:
        w->trains = w->trains || node->phase == SYN_PHASE_BACKWARD;
        return add_compute(w, to, node);
    case SYN_NODE_COLLECTIVE:
        return add_collective(w, to, node);
    case SYN_NODE_SEND:
        if (node->comm_bytes > w->message_bytes) w->message_bytes = node->comm_bytes;
        return SYN_OK;
    default:
        return SYN_OK;
    }
}

static syn_status check_step(const writer *w) {
    const int rank = (int)w->done->rank;
    if (!w->trains)
        return SYN_FAIL(w->err, SYN_E_INVALID,
                        "a workload of SimAI needs a training step, but rank %d has no backward "
                        "pass",
                        rank);
    if (w->done->compute_ns == 0)
        return SYN_FAIL(w->err, SYN_E_INVALID,
                        "a workload of SimAI needs times, but rank %d has none; predict them with "
                        "--hw",
                        rank);
    if (w->message_bytes > INT_MAX)
        return SYN_FAIL(w->err, SYN_E_UNSUPPORTED,
                        "SimAI reads sizes of messages up to 2 GiB, but rank %d sends %" PRIu64
                        " bytes",
                        rank, w->message_bytes);
    return SYN_OK;
}

static syn_status read_step(writer *w) {
    const uint32_t n = w->graph->ranks[w->rank].n_nodes;
    uint32_t step = 0;
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node = syn_graph_node(w->graph, w->rank, i, &w->cursor);
        if (node == NULL) return SYN_FAIL(w->err, w->cursor.error.code, "%s", w->cursor.error.text);
        if (i == 0) step = node->step;
        if (node->step != step)
            return SYN_FAIL(w->err, SYN_E_UNSUPPORTED,
                            "a workload of SimAI has one training step, but rank %d has steps %u "
                            "and %u",
                            (int)w->done->rank, (unsigned)step, (unsigned)node->step);
        SYN_TRY(read_node(w, node));
    }
    return check_step(w);
}

/* ---- Writing ---- */

static void put_times(writer *w, uint64_t ns, const collective *c) {
    if (c->kind == SYN_COMM_NONE) syn_sink_printf(w->sink, "\t%" PRIu64 "\tNONE\t0", ns);
    else
        syn_sink_printf(w->sink, "\t%" PRIu64 "\t%s%s\t%" PRIu64, ns, comm_name(c->kind),
                        suffixes[c->role], c->bytes);
}

/* Writes a layer. Either part may be NULL. */
static void put_layer(writer *w, const part *forward, const part *backward) {
    static const part empty = {.ns = 0};
    const char *name = syn_intern_get(&w->scopes, (forward != NULL ? forward : backward)->scope);
    if (forward == NULL) forward = &empty;
    if (backward == NULL) backward = &empty;
    for (; *name != '\0'; name++)
        syn_sink_char(w->sink, (unsigned char)*name > ' ' ? *name : '_'); /* SimAI reads words */
    syn_sink_text(w->sink, "\t-1");
    put_times(w, forward->ns, &forward->waited);
    put_times(w, backward->ns, &backward->waited);
    put_times(w, 0, &backward->beside);
    syn_sink_text(w->sink, "\t1\n");
}

/* Whether one of the next parts belongs to a scope. Lists of two passes differ only in places, so
   a short look ahead finds where they continue. */
static bool follows(const part *next, size_t n, uint32_t scope) {
    enum { AHEAD = 64 };
    for (size_t i = 0; i < n && i < AHEAD; i++)
        if (next[i].scope == scope) return true;
    return false;
}

/* Merges the parts into layers, for the sink if it is not NULL, and returns their number. The last
   backward part runs first, so the first layer has the last one. Parts of one scope share a
   layer. */
static uint64_t put_layers(writer *w, bool writes) {
    const parts *f = &w->forward, *b = &w->backward;
    uint64_t layers = 0;
    size_t i = 0, k = 0;
    while (i < f->n || k < b->n) {
        const part *forward = i < f->n ? &f->list[i] : NULL;
        const part *backward = k < b->n ? &b->list[k] : NULL;
        if (forward != NULL && backward != NULL && forward->scope != backward->scope) {
            if (follows(backward, b->n - k, forward->scope)) forward = NULL;
            else backward = NULL;
        }
        i += forward != NULL;
        k += backward != NULL;
        if (writes) put_layer(w, forward, backward);
        layers++;
    }
    return layers;
}

static void reverse(parts *p) {
    for (size_t i = 0; i < p->n / 2; i++) {
        const part other = p->list[i];
        p->list[i] = p->list[p->n - 1 - i];
        p->list[p->n - 1 - i] = other;
    }
}

static syn_status write_workload(writer *w) {
    SYN_TRY(read_degrees(w));
    SYN_TRY(read_step(w));
    reverse(&w->backward);
    w->done->n_layers = put_layers(w, false);
    syn_sink_printf(w->sink,
                    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: %" PRId64
                    " ep: %" PRId64 " pp: %" PRId64 " vpp: %" PRId64 " ga: %" PRId64
                    " all_gpus: %d checkpoints: 0 checkpoint_initiates: 0 pp_comm: %" PRIu64 "\n",
                    w->tp, w->ep, w->pp, w->vp, w->accumulation, (int)w->graph->world_size,
                    w->message_bytes);
    syn_sink_printf(w->sink, "%" PRIu64 "\n", w->done->n_layers);
    put_layers(w, true);
    return SYN_OK;
}

syn_status syn_export_simai_workload(syn_simai_summary *done, const syn_graph *graph,
                                     const syn_export_options *options, syn_sink *sink,
                                     syn_error *err) {
    writer w = {.graph = graph, .sink = sink, .done = done, .err = err};
    if (options != NULL && options->rank != NULL)
        while (w.rank < graph->n_ranks && graph->ranks[w.rank].rank != *options->rank) w.rank++;
    *done = (syn_simai_summary){.rank = -1};
    if (w.rank == graph->n_ranks)
        return SYN_FAIL(err, SYN_E_INVALID, "the trace does not have the rank to write");
    done->rank = graph->ranks[w.rank].rank;
    const syn_status s = write_workload(&w);
    syn_cursor_free(&w.cursor);
    syn_intern_free(&w.scopes);
    syn_free(w.forward.list);
    syn_free(w.backward.list);
    return s;
}

static syn_status write_simai(const syn_graph *graph, const syn_export_options *options,
                              syn_sink *sink, syn_error *err) {
    syn_simai_summary unused;
    return syn_export_simai_workload(&unused, graph, options, sink, err);
}

const syn_exporter syn_export_simai = {"simai", "simai.txt", write_simai};
