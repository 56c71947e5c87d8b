/* Writes a trace set as a GOAL schedule (Hoefler, Siebert and Lumsdaine, "Group Operation Assembly
   Language", ICPP 2009), in the text form that LogGOPSim's txt2bin reads or in the binary form that
   it writes. All ops of a rank run on its first CPU: in LogGOPSim an op does not wait for one on
   another CPU, although it requires it.

   The binary form has no padding. Numbers are little-endian; offsets count from byte 8:

     u64 4223, u32 ranks, u8 highest CPU, u8 highest NIC, per rank: u64 start, u64 end
     per rank: u32 ops, u32 roots (ops without dependencies), u32 number of each root, ops,
               u32 number of each dependent op
     op:       u32 dependencies, u8 type, u32 peer, u64 size, u32 tag, u8 CPU, u8 NIC,
               u32 dependents, u32 index of the first; twice: of its end, and of its start */
#include <inttypes.h>

#include "export/chakra/simulate/et_expand.h"
#include "syntorch/base/memory.h"

/* Tags of collectives; those of messages are smaller. */
enum { FIRST_TAG = 1 << 30, N_TAGS = (1 << 30) - 1 };
enum { MAGIC = 4223, HEAD_BYTES = 4 + 1 + 1, OP_BYTES = 4 + 1 + 4 + 8 + 4 + 1 + 1 + 4 * 4 };

typedef enum op_type { OP_SEND = 1, OP_RECV, OP_CALC } op_type; /* as in the binary form */

typedef struct op {
    uint64_t size;
    uint32_t peer, tag, n_deps, n_dependents;
    op_type type;
} op;

/* An op that waits for another one; numbers of ops. */
typedef struct edge {
    uint32_t op, dep;
} edge;

typedef enum goal_pass {
    PASS_TEXT,   /* writes text */
    PASS_COUNT,  /* finds out the size of the binary form */
    PASS_COLLECT /* collects the ops of a rank, to write the binary form */
} goal_pass;

typedef struct goal {
    goal_pass pass;
    const syn__expand_file *file;
    const syn__sim_program *program;
    syn_sink *sink;
    syn__steps steps;
    uint64_t *labels;                   /* per node, in order of ids: its first label */
    uint32_t *first_dep, *deps;         /* dependencies, by numbers in order of ids */
    uint64_t n_ops, n_edges, n_waiting; /* ops, dependencies, and ops that have some */
    uint64_t last_waiting;              /* label */
    op *ops;                            /* PASS_COLLECT */
    edge *edges;
    size_t ops_cap, edges_cap;
    syn_expanded *done;
    syn_error *err;
} goal;

/* The file's node with that number in the order of ids. */
static const syn__expand_node *node_at(const goal *g, uint32_t number) {
    return &g->file->nodes[syn__et_scan_by_id(&g->file->scan, number)];
}

static syn_status steps_of(goal *g, const syn__expand_node *node) {
    return syn__expand_steps(g->file, node, &g->steps, g->err);
}

/* Reverses the program's lists of children. */
static syn_status find_deps(goal *g) {
    const syn__sim_program *p = g->program;
    const uint32_t n = p->n_nodes;
    g->labels = syn_calloc(n + 1u, sizeof *g->labels);
    g->first_dep = syn_calloc(n + 2u, sizeof *g->first_dep);
    g->deps = syn_malloc((p->first_child[n] + 1u) * sizeof *g->deps);
    if (g->labels == NULL || g->first_dep == NULL || g->deps == NULL)
        return SYN_FAIL_NOMEM(g->err, n * sizeof *g->labels, "a schedule");
    for (uint32_t i = 0; i < n; i++) g->first_dep[i + 2] = p->n_deps[i];
    for (uint32_t i = 2; i < n + 2; i++) g->first_dep[i] += g->first_dep[i - 1];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = p->first_child[i]; k < p->first_child[i + 1]; k++)
            g->deps[g->first_dep[p->children[k] + 1]++] = i;
    return SYN_OK;
}

static syn_status number_labels(goal *g) {
    uint64_t next = 1;
    for (uint32_t i = 0; i < g->program->n_nodes; i++) {
        const syn__expand_node *node = node_at(g, i);
        g->labels[i] = next;
        if (node->kind == SYN__SIM_COLLECTIVE) SYN_TRY(steps_of(g, node));
        next += node->kind == SYN__SIM_COLLECTIVE && g->steps.n > 0 ? g->steps.n : 1;
    }
    return SYN_OK;
}

/* ---- Ops and their dependencies ---- */

/* Adds the op with the next label. peer, tag: of a message. */
static syn_status put_op(goal *g, uint64_t label, op_type type, uint64_t size, int32_t peer,
                         int32_t tag) {
    if (type == OP_SEND) g->done->bytes = syn__sim_sum(g->done->bytes, size);
    g->done->n_written++;
    g->n_ops++;
    if (g->pass == PASS_TEXT && type == OP_CALC)
        syn_sink_printf(g->sink, "l%" PRIu64 ": calc %" PRIu64 "\n", label, size);
    else if (g->pass == PASS_TEXT)
        syn_sink_printf(g->sink, "l%" PRIu64 ": %s %" PRIu64 "b %s %" PRId32 " tag %" PRId32 "\n",
                        label, type == OP_SEND ? "send" : "recv", size,
                        type == OP_SEND ? "to" : "from", peer, tag);
    if (g->pass != PASS_COLLECT) return SYN_OK;
    SYN_TRY(syn_grow(&g->ops, &g->ops_cap, g->n_ops, sizeof *g->ops, g->err));
    g->ops[g->n_ops - 1] =
        (op){.size = size, .peer = (uint32_t)peer, .tag = (uint32_t)tag, .type = type};
    return SYN_OK;
}

/* Makes the op that was put last wait for another one. */
static syn_status put_dep(goal *g, uint64_t label, uint64_t dep) {
    g->n_edges++;
    g->n_waiting += g->last_waiting != label;
    g->last_waiting = label;
    if (g->pass == PASS_TEXT)
        syn_sink_printf(g->sink, "l%" PRIu64 " requires l%" PRIu64 "\n", label, dep);
    if (g->pass != PASS_COLLECT) return SYN_OK;
    SYN_TRY(syn_grow(&g->edges, &g->edges_cap, g->n_edges, sizeof *g->edges, g->err));
    g->edges[g->n_edges - 1] = (edge){(uint32_t)(label - 1), (uint32_t)(dep - 1)};
    g->ops[label - 1].n_deps++;
    g->ops[dep - 1].n_dependents++;
    return SYN_OK;
}

/* Makes the op `label` wait for the dependencies of a node: for the last steps of collectives. */
static syn_status put_deps(goal *g, uint32_t number, uint64_t label) {
    syn__steps own = g->steps; /* of the caller */
    syn_status s = SYN_OK;
    g->steps = (syn__steps){.list = NULL};
    for (uint32_t k = g->first_dep[number]; k < g->first_dep[number + 1] && s == SYN_OK; k++) {
        const syn__expand_node *dep = node_at(g, g->deps[k]);
        const uint64_t first = g->labels[g->deps[k]];
        g->steps.n = 0;
        if (dep->kind == SYN__SIM_COLLECTIVE) s = steps_of(g, dep);
        for (size_t i = 0; i < g->steps.n && s == SYN_OK; i++)
            if (g->steps.list[i].is_last) s = put_dep(g, label, first + i);
        if (g->steps.n == 0 && s == SYN_OK) s = put_dep(g, label, first);
    }
    syn_free(g->steps.list);
    g->steps = own;
    return s;
}

static syn_status put_step(goal *g, uint32_t number, const syn__expand_node *node, size_t i) {
    const syn__step *step = &g->steps.list[i];
    const uint64_t first = g->labels[number];
    bool waits = false;
    SYN_TRY(put_op(g, first + i, step->sends ? OP_SEND : OP_RECV, step->bytes, step->peer,
                   syn__expand_tag(node, step->round, FIRST_TAG, N_TAGS)));
    for (int k = 0; k < 2; k++) {
        if (step->after[k] == SYN__SIM_NONE) continue;
        SYN_TRY(put_dep(g, first + i, first + step->after[k]));
        waits = true;
    }
    return waits ? SYN_OK : put_deps(g, number, first + i);
}

static syn_status put_collective(goal *g, uint32_t number, const syn__expand_node *node) {
    g->done->n_collectives++;
    SYN_TRY(steps_of(g, node));
    for (size_t i = 0; i < g->steps.n; i++) SYN_TRY(put_step(g, number, node, i));
    if (g->steps.n > 0) return SYN_OK;
    SYN_TRY(put_op(g, g->labels[number], OP_CALC, 0, 0, 0));
    return put_deps(g, number, g->labels[number]);
}

static syn_status put_node(goal *g, uint32_t number) {
    const syn__expand_node *node = node_at(g, number);
    const uint64_t label = g->labels[number];
    switch (node->kind) {
    case SYN__SIM_COLLECTIVE:
        return put_collective(g, number, node);
    case SYN__SIM_SEND:
    case SYN__SIM_RECV:
        SYN_TRY(put_op(g, label, node->kind == SYN__SIM_SEND ? OP_SEND : OP_RECV, node->bytes,
                       node->peer, node->tag));
        break;
    default:
        SYN_TRY(put_op(g, label, OP_CALC, g->program->values[number], 0, 0));
    }
    return put_deps(g, number, label);
}

/* ---- The binary form ---- */

static void put_number(syn_sink *sink, uint64_t value, size_t bytes) {
    char text[8];
    for (size_t i = 0; i < bytes; i++) text[i] = (char)(value >> (8 * i) & 0xff);
    syn_sink_write(sink, text, bytes);
}

static uint64_t rank_bytes(const goal *g) {
    return 8 + 4 * (g->n_ops - g->n_waiting) + OP_BYTES * g->n_ops + 4 * g->n_edges;
}

static void put_collected_op(goal *g, const op *o, uint32_t first_dependent) {
    put_number(g->sink, o->n_deps, 4);
    put_number(g->sink, (uint64_t)o->type, 1);
    put_number(g->sink, o->peer, 4);
    put_number(g->sink, o->size, 8);
    put_number(g->sink, o->tag, 4);
    put_number(g->sink, 0, 2); /* CPU, NIC */
    put_number(g->sink, o->n_dependents, 4);
    put_number(g->sink, first_dependent, 4);
    put_number(g->sink, 0, 4); /* ops that wait for its start */
    put_number(g->sink, first_dependent + o->n_dependents, 4);
}

/* Writes the ops in `edges` that wait for each op. */
static syn_status put_dependents(goal *g) {
    uint32_t *next = syn_malloc((g->n_ops + 1) * sizeof *next);
    uint32_t *list = syn_malloc((g->n_edges + 1) * sizeof *list);
    uint32_t at = 0;
    const bool enough = next != NULL && list != NULL;
    for (uint64_t i = 0; enough && i < g->n_ops; i++) {
        next[i] = at;
        at += g->ops[i].n_dependents;
    }
    for (uint64_t i = 0; enough && i < g->n_edges; i++)
        list[next[g->edges[i].dep]++] = g->edges[i].op;
    for (uint64_t i = 0; enough && i < g->n_edges; i++) put_number(g->sink, list[i], 4);
    syn_free(next);
    syn_free(list);
    return enough ? SYN_OK : SYN_FAIL_NOMEM(g->err, g->n_edges * sizeof *list, "a schedule");
}

static syn_status put_collected(goal *g) {
    uint32_t at = 0;
    put_number(g->sink, g->n_ops, 4);
    put_number(g->sink, g->n_ops - g->n_waiting, 4);
    for (uint64_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].n_deps == 0) put_number(g->sink, i, 4);
    for (uint64_t i = 0; i < g->n_ops; i++) {
        put_collected_op(g, &g->ops[i], at);
        at += g->ops[i].n_dependents;
    }
    return put_dependents(g);
}

/* ---- Ranks ---- */

static syn_status put_rank(goal *g) {
    SYN_TRY(find_deps(g));
    SYN_TRY(number_labels(g));
    if (g->pass == PASS_TEXT)
        syn_sink_printf(g->sink, "\nrank %" PRId32 " {\n", g->file->rank->rank);
    for (uint32_t i = 0; i < g->program->n_nodes; i++) SYN_TRY(put_node(g, i));
    if (g->pass == PASS_TEXT) syn_sink_text(g->sink, "}\n");
    if (g->pass != PASS_TEXT && (g->n_ops > UINT32_MAX || g->n_edges > UINT32_MAX))
        return SYN_FAIL(g->err, SYN_E_UNSUPPORTED,
                        "%.300s: rank %" PRId32 " has too many ops for the binary form; write text",
                        g->file->rank->path, g->file->rank->rank);
    return g->pass == PASS_COLLECT ? put_collected(g) : SYN_OK;
}

/* Handles one rank. *bytes grows by the size of its binary form. */
static syn_status run_rank(goal_pass pass, const syn__sim_set *set, const syn__expand_plan *plan,
                           const syn__sim_rank *rank, syn_sink *sink, syn_expanded *done,
                           uint64_t *bytes, syn_error *err) {
    syn__expand_file file;
    goal g = {.pass = pass,
              .file = &file,
              .program = &set->programs[rank->program],
              .sink = sink,
              .done = done,
              .err = err};
    syn_status s = syn__expand_open(&file, set, plan, rank, err);
    if (s == SYN_OK) s = put_rank(&g);
    *bytes += rank_bytes(&g);
    void *const all[] = {g.labels, g.first_dep, g.deps, g.steps.list, g.ops, g.edges};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) syn_free(all[k]);
    syn__expand_close(&file);
    return s;
}

/* Writes what precedes the ranks in the binary form. */
static syn_status put_head(const syn__sim_set *set, const syn__expand_plan *plan, syn_sink *sink,
                           syn_error *err) {
    syn_expanded unused = {.n_ranks = 0};
    uint64_t at = HEAD_BYTES + 16 * set->n_ranks;
    put_number(sink, MAGIC, 8);
    put_number(sink, set->n_ranks, 4);
    put_number(sink, 0, 2);
    for (size_t i = 0; i < set->n_ranks; i++) {
        put_number(sink, at, 8);
        SYN_TRY(run_rank(PASS_COUNT, set, plan, &set->ranks[i], NULL, &unused, &at, err));
        put_number(sink, at, 8);
    }
    return SYN_OK;
}

static syn_status put_ranks(const syn__sim_set *set, const syn__expand_plan *plan, syn_sink *sink,
                            bool binary, syn_expanded *done, syn_error *err) {
    const syn__sim_rank *last = &set->ranks[set->n_ranks - 1];
    uint64_t bytes = 0;
    if ((size_t)last->rank + 1 != set->n_ranks)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a GOAL schedule needs all ranks, but the set has %zu of %" PRId32 " files",
                        set->n_ranks, last->rank + 1);
    if (binary) SYN_TRY(put_head(set, plan, sink, err));
    else syn_sink_printf(sink, "num_ranks %zu\n", set->n_ranks);
    for (size_t i = 0; i < set->n_ranks; i++)
        SYN_TRY(run_rank(binary ? PASS_COLLECT : PASS_TEXT, set, plan, &set->ranks[i], sink, done,
                         &bytes, err));
    return SYN_OK;
}

syn_status syn_export_goal(syn_expanded *done, const char *prefix, syn_sink *sink,
                           const syn_expand_options *options, syn_error *err) {
    syn__sim_set set = {.machine = NULL};
    syn__expand_plan plan;
    syn_status s = syn__expand_load(&set, &plan, done, prefix, options, err);
    if (s == SYN_OK) s = put_ranks(&set, &plan, sink, options->binary, done, err);
    syn__sim_set_close(&set);
    return s;
}
