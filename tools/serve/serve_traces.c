/* Writes the trace set of a simulation's chosen steps, one rank after the other. */
#include "tools/serve/serve_traces.h"

#include <pthread.h>
#include <stdlib.h>

#include "export/chakra/wire/et_files.h"
#include "export/chakra/wire/et_schema.h"
#include "export/export.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tools/cli.h"

/* More would need more memory: each records a rank. */
enum { RECORDING_THREADS = 4 };

typedef struct writing {
    serve_recording r;
    serve_transfer *transfers;
    size_t transfers_cap, n_completed, n_begun; /* requests in the steps of each pool */
    const char *prefix;
    syn_graph *groups;    /* of all ranks */
    pthread_mutex_t lock; /* of the members below and of `groups` */
    uint64_t nodes;
    syn_error failure; /* the first one */
} writing;

/* ---- What the ranks have in common ---- */

int64_t serve_most_tokens(const captured_step *step, int32_t replicas) {
    int64_t most = 1;
    for (int32_t i = 0; i < replicas; i++) {
        int64_t tokens = 0;
        for (size_t k = 0; k < step->n; k++)
            if (step->rows[k].replica == i) tokens += step->rows[k].queries;
        if (tokens > most) most = tokens;
    }
    return most;
}

/* Fills the steps of a unit's replicas, and a list of them, with what their ranks record: each has
   `tokens` tokens. */
static void list_steps(const captured_step *step, int32_t replicas, int64_t tokens,
                       serving_row *rows, serving_step *steps, const serving_step **list) {
    size_t at = 0, to = 0;
    for (int32_t i = 0; i < replicas; i++) {
        list[i] = &steps[i];
        steps[i].rows = rows + to;
        for (; at < step->n && step->rows[at].replica == i; at++, to++) {
            const captured_row *from = &step->rows[at];
            rows[to] = (serving_row){.queries = from->queries,
                                     .keys = from->keys,
                                     .samples = from->sampled > 0,
                                     .drafts = from->sampled > 0 ? from->sampled - 1 : 0};
            steps[i].n++;
            steps[i].tokens += from->queries;
        }
        for (; steps[i].tokens < tokens; steps[i].tokens++, steps[i].n++)
            rows[to++] = (serving_row){.queries = 1, .keys = 1};
    }
}

/* Sets host_ns for replicas that share experts. */
static syn_status find_host_time(const serve_recording *r, captured_step *step, syn_error *err) {
    const captured_unit *u = &r->units[step->unit];
    const int64_t tokens = serve_most_tokens(step, u->n);
    const size_t n = (size_t)u->n, most = n * (size_t)tokens;
    serving_row *rows = syn_calloc(most, sizeof *rows);
    serving_step *steps = syn_calloc(n, sizeof *steps);
    const serving_step **list = syn_calloc(n, sizeof *list);
    serve_time ops = {0};
    syn_status s = SYN_OK;
    if (!rows || !steps || !list) s = SYN_FAIL_NOMEM(err, most * sizeof *rows, "a captured step");
    if (s == SYN_OK) {
        list_steps(step, u->n, tokens, rows, steps, list);
        s = serve_pool_predict(r->sim->pools[u->pool], list, u->n, &ops, err);
    }
    step->host_ns = step->ns - ops.ns;
    syn_free(rows);
    syn_free(steps);
    syn_free(list);
    return s;
}

/* The first step of a request in the second pool. */
typedef struct begun {
    int64_t request;
    const captured_step *step;
    int32_t replica;
} begun;

static int by_request(const void *a, const void *b) {
    const begun *x = a, *y = b;
    if (x->request != y->request) return x->request < y->request ? -1 : 1;
    return (x->step->start_ns > y->step->start_ns) - (x->step->start_ns < y->step->start_ns);
}

static const begun *find_begun(const begun *list, size_t n, int64_t id) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list[middle].request < id) low = middle + 1;
        else high = middle;
    }
    return low < n && list[low].request == id ? &list[low] : NULL;
}

static syn_status add_transfers(writing *w, const begun *list, size_t n, syn_error *err) {
    serve_recording *r = &w->r;
    for (size_t i = 0; i < r->n_steps; i++) {
        const captured_step *from = &r->steps[i];
        for (size_t k = 0; k < from->n; k++) {
            const captured_row *row = &from->rows[k];
            const begun *to = row->completes ? find_begun(list, n, row->request) : NULL;
            w->n_completed += row->completes;
            if (!to) continue;
            SYN_TRY(syn_grow(&w->transfers, &w->transfers_cap, r->n_transfers + 1,
                             sizeof *w->transfers, err));
            w->transfers[r->n_transfers] = (serve_transfer){.from = from,
                                                            .to = to->step,
                                                            .from_replica = row->replica,
                                                            .to_replica = to->replica,
                                                            .tokens = row->prompt,
                                                            .number = (int32_t)r->n_transfers};
            r->n_transfers++;
        }
    }
    r->transfers = w->transfers;
    return SYN_OK;
}

static syn_status list_transfers(writing *w, syn_error *err) {
    begun *list = NULL;
    size_t n = 0, cap = 0;
    syn_status s = SYN_OK;
    for (size_t i = 0; i < w->r.n_steps; i++) {
        const captured_step *step = &w->r.steps[i];
        for (size_t k = 0; k < step->n && s == SYN_OK; k++) {
            const captured_row *row = &step->rows[k];
            if (!row->begins) continue;
            s = syn_grow(&list, &cap, n + 1, sizeof *list, err);
            if (s == SYN_OK) list[n++] = (begun){row->request, step, row->replica};
        }
    }
    if (n > 1) qsort(list, n, sizeof *list, by_request);
    w->n_begun = n;
    if (s == SYN_OK) s = add_transfers(w, list, n, err);
    syn_free(list);
    return s;
}

/* The highest id of a plan's groups. */
static uint32_t last_group(const syn_plan *plan) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    uint32_t last = 0;
    for (int32_t rank = 0; rank < plan->ranks; rank++) {
        syn_mesh_groups(plan, rank, groups);
        for (int k = 0; k < SYN_MESH_KINDS; k++)
            if (groups[k].id > last) last = groups[k].id;
    }
    return last;
}

static syn_status prepare(writing *w, captured_step *steps, syn_error *err) {
    serve_recording *r = &w->r;
    const int32_t node = (int32_t)serve_pool_get(r->sim->pools[0])->hw->node_ranks;
    uint32_t id = 1;
    for (int32_t p = 0; p < r->sim->n_pools; p++) {
        const syn_plan *plan = serve_pool_plan(r->sim->pools[p]);
        r->first[p] = r->ranks;
        r->placed[p] = (r->ranks + node - 1) / node * node;
        r->group_id[p] = id;
        r->ranks += plan->ranks;
        id += last_group(plan);
    }
    for (size_t i = 0; i < r->n_steps; i++)
        if (r->units[steps[i].unit].n > 1) SYN_TRY(find_host_time(r, &steps[i], err));
    SYN_TRY(syn_graph_new(&w->groups, NULL, 0, r->ranks, err));
    return list_transfers(w, err);
}

/* ---- Files ---- */

static syn_status add_metadata(const serve_recording *r, int32_t pool, syn_graph *graph,
                               syn_error *err) {
    const serve_pool_options *o = serve_pool_get(r->sim->pools[pool]);
    const syn_attribute list[] = {
        {.name = "model", .type = SYN_VALUE_TEXT, .text = o->config->name},
        {.name = "layers", .i64 = o->config->n_layer},
        {.name = "hidden", .i64 = o->config->n_embd},
        {.name = "heads", .i64 = o->config->n_head},
        {.name = "vocabulary", .i64 = o->config->vocab_size},
        {.name = "pool", .type = SYN_VALUE_TEXT, .text = o->role},
        {.name = "tp", .i64 = o->layout.tp},
        {.name = "dp", .i64 = o->layout.dp},
        {.name = "ep", .i64 = o->layout.ep},
        {.name = "dtype", .type = SYN_VALUE_TEXT, .text = syn_dtype_name(o->dtype)},
        {.name = "device", .type = SYN_VALUE_TEXT, .text = "meta"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].type != SYN_VALUE_TEXT || list[i].text[0])
            SYN_TRY(syn_graph_set_meta(graph, &list[i], err));
    return syn_graph_set_hardware(graph, o->hw, err);
}

/* The number of nodes in the rank's file. */
static uint64_t count_nodes(const syn_graph *graph) {
    syn_cursor cursor = {0};
    uint64_t n = 0;
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        n += node && !(node->flags & SYN_NODE_VIRTUAL);
    }
    syn_cursor_free(&cursor);
    return n;
}

static bool has_rank(const syn_graph_group *group, int32_t rank) {
    for (uint32_t i = 0; i < group->n_ranks; i++)
        if (group->ranks[i] == rank) return true;
    return false;
}

/* Whether another rank of the replica has the same nodes. Messages differ. */
static bool is_same(const writing *w, const syn_graph *graph, int32_t rank) {
    for (uint32_t i = 0; i < graph->n_groups; i++)
        if (!has_rank(&graph->groups[i], rank)) return false;
    return w->r.n_transfers == 0;
}

static syn_status write_file(writing *w, const syn_graph *graph, uint64_t nodes, syn_error *err) {
    const syn_export_options options = {.version = "syntorch " SYN_VERSION};
    syn__et_names names;
    SYN_TRY(syn__et_names_open(&names, w->prefix, err));
    syn_status s = syn_export_file(graph, &syn_export_et, &options,
                                   syn__et_rank_path(&names, (uint32_t)graph->ranks[0].rank), err);
    syn__et_names_close(&names);
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < graph->n_groups && s == SYN_OK; i++)
        if (!syn_graph_group_by_id(w->groups, graph->groups[i].id))
            s = syn_graph_add_group(w->groups, &graph->groups[i], err);
    w->nodes += nodes;
    pthread_mutex_unlock(&w->lock);
    return s;
}

/* Writes the n files from rank `first` on, which are those of a replica. Ranks with the same nodes
   are recorded once. */
static syn_status write_replica(writing *w, int32_t pool, int32_t first, int32_t n,
                                syn_error *err) {
    syn_graph *graph = NULL;
    uint64_t nodes = 0;
    syn_status s = SYN_OK;
    for (int32_t rank = first; rank < first + n && s == SYN_OK; rank++) {
        if (graph && is_same(w, graph, rank)) {
            graph->ranks[0].rank = rank;
        } else {
            syn_graph_free(graph);
            graph = NULL;
            s = serve_record(&graph, &w->r, rank, err);
            if (s == SYN_OK) s = add_metadata(&w->r, pool, graph, err);
            if (s == SYN_OK) nodes = count_nodes(graph);
        }
        if (s == SYN_OK) s = write_file(w, graph, nodes, err);
    }
    syn_graph_free(graph);
    return s;
}

static bool has_failed(writing *w) {
    pthread_mutex_lock(&w->lock);
    const bool failed = w->failure.code != SYN_OK;
    pthread_mutex_unlock(&w->lock);
    return failed;
}

/* A syn_worker_task. index: of a replica of all pools. */
static void write_one(void *arg, int64_t index, int thread) {
    writing *w = arg;
    const serve_simulation *sim = w->r.sim;
    const int32_t before = serve_pool_get(sim->pools[0])->layout.dp, i = (int32_t)index,
                  pool = i >= before;
    const int32_t tp = serve_pool_get(sim->pools[pool])->layout.tp;
    syn_error err = {0};
    (void)thread;
    if (has_failed(w)) return;
    const int32_t first = w->r.first[pool] + (pool ? i - before : i) * tp;
    if (write_replica(w, pool, first, tp, &err) == SYN_OK) return;
    pthread_mutex_lock(&w->lock);
    if (w->failure.code == SYN_OK) w->failure = err;
    pthread_mutex_unlock(&w->lock);
}

static syn_status write_groups(const writing *w, syn__et_names *names, syn_error *err) {
    const syn_hardware *hw = serve_pool_get(w->r.sim->pools[0])->hw;
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, syn__et_group_path(names), err));
    const syn_status s = syn_export_comm_group(w->groups, (int32_t)hw->node_ranks, sink, err);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    return s == SYN_OK ? closed : s;
}

static syn_status write_set(writing *w, syn__et_names *names, syn_error *err) {
    const int threads = cli_cores() < RECORDING_THREADS ? cli_cores() : RECORDING_THREADS;
    const serve_simulation *sim = w->r.sim;
    syn_workers *workers;
    int64_t replicas = 0;
    for (int32_t p = 0; p < sim->n_pools; p++) replicas += serve_pool_get(sim->pools[p])->layout.dp;
    SYN_TRY(syn__et_remove_old_set(names, (uint32_t)w->r.ranks, err));
    SYN_TRY(syn_workers_new(&workers, threads, err));
    syn_workers_run(workers, replicas, write_one, w);
    syn_workers_free(workers);
    if (w->failure.code != SYN_OK) return *err = w->failure, err->code;
    return write_groups(w, names, err);
}

/* The sum of the times of a unit's steps, of the unit for which it is the longest. */
static double longest_ns(const captured_step *steps, size_t n) {
    double longest = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && steps[i].unit != steps[i - 1].unit) sum = 0;
        sum += steps[i].ns;
        if (sum > longest) longest = sum;
    }
    return longest;
}

syn_status serve_traces_write(serve_traces *out, serve_capture *c, const serve_simulation *sim,
                              const char *prefix, bool fold, syn_error *err) {
    writing w = {.r = {.sim = sim, .fold = fold}, .prefix = prefix};
    syn__et_names names = {.path = NULL};
    int64_t chosen;
    captured_step *steps = serve_captured(c, &w.r.n_steps, &chosen);
    w.r.steps = steps;
    w.r.units = serve_captured_units(c, &w.r.n_units);
    SYN_TRY(syn__et_supported(err));
    pthread_mutex_init(&w.lock, NULL);
    syn_status s = prepare(&w, steps, err);
    if (s == SYN_OK) s = syn_make_prefix_folder(prefix, err);
    if (s == SYN_OK) s = syn__et_names_open(&names, prefix, err);
    if (s == SYN_OK) s = write_set(&w, &names, err);
    *out = (serve_traces){.ranks = (uint64_t)w.r.ranks,
                          .steps = (uint64_t)w.r.n_steps,
                          .chosen = (uint64_t)chosen,
                          .nodes = w.nodes};
    out->ns = longest_ns(steps, w.r.n_steps);
    out->lost_transfers = w.n_completed + w.n_begun - 2 * w.r.n_transfers;
    out->transfers = w.r.n_transfers + out->lost_transfers;
    syn__et_names_close(&names);
    syn_graph_free(w.groups);
    syn_free(w.transfers);
    pthread_mutex_destroy(&w.lock);
    return s;
}
