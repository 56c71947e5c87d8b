/* Writes a trace set as a GOAL schedule (Hoefler, Siebert and Lumsdaine, "Group Operation Assembly
   Language", ICPP 2009), in the text form that LogGOPSim's txt2bin reads. All ops of a rank run on
   its first CPU: in LogGOPSim an op does not wait for one on another CPU, although it requires
   it. */
#include <inttypes.h>

#include "export/chakra/simulate/et_expand.h"
#include "syntorch/base/memory.h"

/* Tags of collectives; those of messages are smaller. */
enum { FIRST_TAG = 1 << 30, N_TAGS = (1 << 30) - 1 };

typedef struct goal {
    const syn__expand_file *file;
    const syn__sim_program *program;
    syn_sink *sink;
    syn__steps steps;
    uint64_t *labels;           /* per node, in order of ids: its first label */
    uint32_t *first_dep, *deps; /* dependencies, by numbers in order of ids */
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

static void put_message(goal *g, uint64_t label, bool sends, uint64_t bytes, int32_t peer,
                        int32_t tag) {
    syn_sink_printf(g->sink, "l%" PRIu64 ": %s %" PRIu64 "b %s %" PRId32 " tag %" PRId32 "\n",
                    label, sends ? "send" : "recv", bytes, sends ? "to" : "from", peer, tag);
    if (sends) g->done->bytes = syn__sim_sum(g->done->bytes, bytes);
    g->done->n_written++;
}

static void put_calc(goal *g, uint64_t label, uint64_t ns) {
    syn_sink_printf(g->sink, "l%" PRIu64 ": calc %" PRIu64 "\n", label, ns);
    g->done->n_written++;
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
            if (g->steps.list[i].is_last)
                syn_sink_printf(g->sink, "l%" PRIu64 " requires l%" PRIu64 "\n", label, first + i);
        if (g->steps.n == 0)
            syn_sink_printf(g->sink, "l%" PRIu64 " requires l%" PRIu64 "\n", label, first);
    }
    syn_free(g->steps.list);
    g->steps = own;
    return s;
}

static syn_status put_collective(goal *g, uint32_t number, const syn__expand_node *node) {
    const uint64_t first = g->labels[number];
    g->done->n_collectives++;
    SYN_TRY(steps_of(g, node));
    if (g->steps.n == 0) put_calc(g, first, 0);
    if (g->steps.n == 0) return put_deps(g, number, first);
    for (size_t i = 0; i < g->steps.n; i++) {
        const syn__step *step = &g->steps.list[i];
        bool waits = false;
        put_message(g, first + i, step->sends, step->bytes, step->peer,
                    syn__expand_tag(node, step->round, FIRST_TAG, N_TAGS));
        for (int k = 0; k < 2; k++) {
            if (step->after[k] == SYN__SIM_NONE) continue;
            syn_sink_printf(g->sink, "l%" PRIu64 " requires l%" PRIu64 "\n", first + i,
                            first + step->after[k]);
            waits = true;
        }
        if (!waits) SYN_TRY(put_deps(g, number, first + i));
    }
    return SYN_OK;
}

static syn_status put_node(goal *g, uint32_t number) {
    const syn__expand_node *node = node_at(g, number);
    const uint64_t label = g->labels[number];
    switch (node->kind) {
    case SYN__SIM_COLLECTIVE:
        return put_collective(g, number, node);
    case SYN__SIM_SEND:
    case SYN__SIM_RECV:
        put_message(g, label, node->kind == SYN__SIM_SEND, node->bytes, node->peer, node->tag);
        break;
    default:
        put_calc(g, label, g->program->values[number]);
    }
    return put_deps(g, number, label);
}

static syn_status put_rank(goal *g) {
    SYN_TRY(find_deps(g));
    SYN_TRY(number_labels(g));
    syn_sink_printf(g->sink, "\nrank %" PRId32 " {\n", g->file->rank->rank);
    for (uint32_t i = 0; i < g->program->n_nodes; i++) SYN_TRY(put_node(g, i));
    syn_sink_text(g->sink, "}\n");
    return SYN_OK;
}

static syn_status put_ranks(const syn__sim_set *set, const syn__expand_plan *plan, syn_sink *sink,
                            syn_expanded *done, syn_error *err) {
    const syn__sim_rank *last = &set->ranks[set->n_ranks - 1];
    if ((size_t)last->rank + 1 != set->n_ranks)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a GOAL schedule needs all ranks, but the set has %zu of %" PRId32 " files",
                        set->n_ranks, last->rank + 1);
    syn_sink_printf(sink, "num_ranks %zu\n", set->n_ranks);
    for (size_t i = 0; i < set->n_ranks; i++) {
        syn__expand_file file;
        goal g = {.file = &file,
                  .program = &set->programs[set->ranks[i].program],
                  .sink = sink,
                  .done = done,
                  .err = err};
        syn_status s = syn__expand_open(&file, set, plan, &set->ranks[i], err);
        if (s == SYN_OK) s = put_rank(&g);
        void *const all[] = {g.labels, g.first_dep, g.deps, g.steps.list};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) syn_free(all[k]);
        syn__expand_close(&file);
        SYN_TRY(s);
    }
    return SYN_OK;
}

syn_status syn_export_goal(syn_expanded *done, const char *prefix, syn_sink *sink,
                           const syn_expand_options *options, syn_error *err) {
    syn__sim_set set = {.machine = NULL};
    syn__expand_plan plan;
    syn_status s = syn__expand_load(&set, &plan, done, prefix, options, err);
    if (s == SYN_OK) s = put_ranks(&set, &plan, sink, done, err);
    syn__sim_set_close(&set);
    return s;
}
