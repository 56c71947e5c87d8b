/* Records the chosen steps of one rank on meta, with the real lengths of all sequences, by the code
   that computes a step. */
#include "comm/comm.h"
#include "models/cache_transfer.h"
#include "syntorch/base/memory.h"
#include "syntorch/trace.h"
#include "tools/serve/serve_traces.h"

/* A rank that is being recorded. */
typedef struct recorder {
    const serve_recording *r;
    int32_t rank, pool, unit;
    int32_t replica, tp_rank; /* replica: within the unit */
    syn_comm *comm;
    syn_ctx *ctx;
    syn_model *model;
    syn_graph *graph;
    serve_appended how;
    int32_t *queries, *keys;
    syn__cache_part *sent, *received;
    syn__cache_transfer transfer;
    size_t queries_cap, keys_cap, sent_cap, received_cap, packed_cap, messages_cap;
} recorder;

static const serve_pool *pool_of(const recorder *s) {
    return s->r->sim->pools[s->pool];
}

static const serve_layout *layout_of(const serve_recording *r, int32_t pool) {
    return &serve_pool_get(r->sim->pools[pool])->layout;
}

/* Finds the rank's place in its pool. */
static void place(recorder *s) {
    const serve_recording *r = s->r;
    const captured_unit *u = r->units;
    s->pool = r->sim->n_pools == 2 && s->rank >= r->first[1];
    const int32_t tp = layout_of(r, s->pool)->tp, at = s->rank - r->first[s->pool];
    const int32_t replica = at / tp + (s->pool == 1 ? layout_of(r, 0)->dp : 0);
    while (u->replica + u->n <= replica) u++;
    s->unit = (int32_t)(u - r->units);
    s->replica = replica - u->replica;
    s->tp_rank = at % tp;
}

/* The rank if each pool began on a node of its own. */
static int32_t placed_rank(const recorder *s) {
    return s->r->placed[s->pool] + s->rank - s->r->first[s->pool];
}

static syn_status open_model(recorder *s, syn_error *err) {
    const serve_recording *r = s->r;
    const serve_pool_options *o = serve_pool_get(pool_of(s));
    const syn_plan *plan = serve_pool_plan(pool_of(s));
    syn_mesh mesh;
    const int32_t first = r->placed[s->pool], last = r->sim->n_pools - 1,
                  world = r->placed[last] + serve_pool_plan(r->sim->pools[last])->ranks;
    SYN_TRY(syn_comm_fake_new(&s->comm, placed_rank(s), world, err));
    SYN_TRY(syn_mesh_open_part(&mesh, s->comm, plan, first, r->group_id[s->pool], err));
    SYN_TRY(syn_ctx_new(&s->ctx, SYN_DEVICE_META, s->comm, err));
    syn_ctx_set_hashing(s->ctx, false);
    const syn_model_options how = serve_pool_model(pool_of(s), &mesh);
    SYN_TRY(syn_model_new(&s->model, s->ctx, o->config, &how, err));
    const int64_t blocks = r->sim->limits[s->pool].blocks, most = INT32_MAX / o->block_tokens;
    return syn_causal_begin_paged(s->model, blocks < most ? blocks : most, o->block_tokens, err);
}

/* ---- Messages ---- */

/* Whether rank i of `from` tensor-parallel ranks sends heads to rank j of `to` ranks. heads: of the
   model; 1 with latent attention. *first: of the sending rank's heads. If several ranks have the
   same head, one of them sends it to each receiver. */
static bool is_link(int64_t heads, int32_t from, int32_t to, int32_t i, int32_t j, int64_t *first,
                    int64_t *n) {
    const int64_t copies = from > heads ? from / heads : 1; /* ranks with the same head */
    const int64_t begin = i * heads / from, end = copies > 1 ? begin + 1 : (i + 1) * heads / from;
    const int64_t wanted = j * heads / to,
                  wanted_end = to > heads ? wanted + 1 : (j + 1) * heads / to;
    const int64_t a = begin > wanted ? begin : wanted, b = end < wanted_end ? end : wanted_end;
    if (a >= b || i % copies != j % copies) return false;
    *first = a - begin;
    *n = b - a;
    return true;
}

/* Rank `index` of the replica at the other end of a transfer, as placed. */
static int32_t peer_of(const serve_recording *r, const serve_transfer *t, bool sends,
                       int32_t index) {
    const int32_t other = sends ? 1 : 0;
    const int32_t replica =
        sends ? r->units[t->to->unit].replica - layout_of(r, 0)->dp + t->to_replica
              : r->units[t->from->unit].replica + t->from_replica;
    return r->placed[other] + replica * layout_of(r, other)->tp + index;
}

static bool is_end(const recorder *s, const serve_transfer *t, const captured_step *step,
                   bool sends) {
    return sends ? t->from == step && t->from_replica == s->replica
                 : t->to == step && t->to_replica == s->replica;
}

/* Adds the messages of one transfer that the rank sends or receives. */
static syn_status add_parts(recorder *s, const serve_transfer *t, bool sends, syn_error *err) {
    const serve_recording *r = s->r;
    const syn_model_config *c = serve_pool_get(pool_of(s))->config;
    const int64_t heads = c->latent.kv > 0 ? 1 : c->n_kv_head > 0 ? c->n_kv_head : c->n_head;
    const int32_t from = layout_of(r, 0)->tp, to = layout_of(r, 1)->tp;
    const int32_t peers = sends ? to : from;
    syn__cache_part **list = sends ? &s->sent : &s->received;
    int64_t *n = sends ? &s->transfer.n_sent : &s->transfer.n_received;
    for (int32_t peer = 0; peer < peers; peer++) {
        syn__cache_part part = {.peer = peer_of(r, t, sends, peer),
                                .tag = t->number * (int32_t)c->n_layer,
                                .tokens = t->tokens,
                                .prompt = t->number};
        if (!is_link(heads, from, to, sends ? s->tp_rank : peer, sends ? peer : s->tp_rank,
                     &part.first_head, &part.n_heads))
            continue;
        SYN_TRY(syn_grow(list, sends ? &s->sent_cap : &s->received_cap, (size_t)*n + 1,
                         sizeof **list, err));
        (*list)[(*n)++] = part;
    }
    return SYN_OK;
}

static syn_status list_messages(recorder *s, const captured_step *step, syn_error *err) {
    syn__cache_transfer *t = &s->transfer;
    const size_t layers = (size_t)serve_pool_get(pool_of(s))->config->n_layer;
    t->n_sent = t->n_received = 0;
    for (size_t i = 0; i < s->r->n_transfers; i++) {
        const serve_transfer *one = &s->r->transfers[i];
        if (is_end(s, one, step, true)) SYN_TRY(add_parts(s, one, true, err));
        if (is_end(s, one, step, false)) SYN_TRY(add_parts(s, one, false, err));
    }
    SYN_TRY(
        syn_grow(&t->packed, &s->packed_cap, layers * (size_t)t->n_sent, sizeof *t->packed, err));
    SYN_TRY(syn_grow(&t->messages, &s->messages_cap, layers * (size_t)t->n_received,
                     sizeof *t->messages, err));
    t->sent = s->sent;
    t->received = s->received;
    return SYN_OK;
}

/* Adds the message with the first output token of a transfer's request, which the next step of the
   request embeds. */
static syn_status add_token(recorder *s, const serve_transfer *t, bool sends, int32_t peer,
                            syn_error *err) {
    const serve_recording *r = s->r;
    const serve_pool_options *o = serve_pool_get(pool_of(s));
    const syn_dep after = {s->how.after, SYN_DEP_CONTROL};
    const int64_t layers = o->config->n_layer;
    syn_node node = {SYN_NODE_UNKNOWN, .op = sends ? "send" : "recv", .label = "sampled_token"};
    node.kind = sends ? SYN_NODE_SEND : SYN_NODE_RECV;
    node.comm = sends ? SYN_COMM_SEND : SYN_COMM_RECV;
    node.category = SYN_CATEGORY_COMMUNICATION;
    node.dtype = SYN_I32;
    node.comm_bytes = sizeof(int32_t);
    node.peer = peer_of(r, t, sends, peer);
    node.tag = (int32_t)((int64_t)r->n_transfers * layers) + t->number; /* after those of layers */
    node.predicted_ns = syn_hardware_predict_ns(o->hw, &node, NULL, placed_rank(s));
    node.deps = &after;
    node.n_deps = s->how.after != SYN_NO_NODE;
    serve_number_node(&s->how, s->graph, &node);
    return syn_graph_add_node(s->graph, 0, &node, err);
}

/* Adds the tokens that the rank sends after a step, or receives before it. The first rank of a
   replica sends them to all ranks of the other one. */
static syn_status add_tokens(recorder *s, const captured_step *step, bool sends, syn_error *err) {
    const int32_t peers = sends ? layout_of(s->r, s->r->sim->n_pools - 1)->tp : 1;
    s->how.first_token = s->graph->ranks[0].n_nodes;
    s->how.n_tokens = 0;
    if (sends && s->tp_rank > 0) return SYN_OK;
    for (size_t i = 0; i < s->r->n_transfers; i++) {
        const serve_transfer *t = &s->r->transfers[i];
        for (int32_t peer = 0; peer < peers && is_end(s, t, step, sends); peer++) {
            SYN_TRY(add_token(s, t, sends, peer, err));
            s->how.n_tokens++;
        }
    }
    return SYN_OK;
}

/* ---- Steps ---- */

/* Adds a sequence. queries: its new tokens; keys: all tokens after the step. */
static syn_status add_sequence(recorder *s, syn_packed_step *to, int32_t queries, int32_t keys,
                               syn_error *err) {
    const int64_t blocks = keys / serve_pool_get(pool_of(s))->block_tokens + 1;
    SYN_TRY(syn_grow(&s->queries, &s->queries_cap, (size_t)to->n + 1, sizeof *s->queries, err));
    SYN_TRY(syn_grow(&s->keys, &s->keys_cap, (size_t)to->n + 1, sizeof *s->keys, err));
    s->queries[to->n] = queries;
    s->keys[to->n++] = keys;
    if (blocks > to->max_blocks) to->max_blocks = blocks;
    return SYN_OK;
}

/* Lists the sequences of the rank's replica. Replicas that share experts compute equally many
   tokens: the others are sequences of one token. */
static syn_status list_sequences(recorder *s, const captured_step *step, syn_packed_step *to,
                                 int64_t *tokens, syn_error *err) {
    const int64_t all = serve_most_tokens(step, s->r->units[s->unit].n);
    *tokens = 0;
    for (size_t i = 0; i < step->n; i++) {
        const captured_row *row = &step->rows[i];
        if (row->replica != s->replica) continue;
        SYN_TRY(add_sequence(s, to, row->queries, row->keys, err));
        to->n_rows += row->sampled;
        *tokens += row->queries;
    }
    for (; *tokens < all; ++*tokens) SYN_TRY(add_sequence(s, to, 1, 1, err));
    to->queries = s->queries;
    to->keys = s->keys;
    return SYN_OK;
}

/* Adds up the times of the nodes from `first` on, except messages. *last: the last of these. */
static syn_status sum_times(const recorder *s, uint32_t first, double *ns, uint32_t *last,
                            syn_error *err) {
    syn_cursor cursor = {0};
    syn_status status = SYN_OK;
    *ns = 0;
    for (uint32_t i = first; i < s->graph->ranks[0].n_nodes && status == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(s->graph, 0, i, &cursor);
        if (!node) {
            *err = cursor.error;
            status = err->code;
        } else if (!(node->flags & SYN_NODE_VIRTUAL) && node->kind != SYN_NODE_SEND &&
                   node->kind != SYN_NODE_RECV) {
            *ns += node->predicted_ns > 0 ? node->predicted_ns : 0;
            *last = i;
        }
    }
    syn_cursor_free(&cursor);
    return status;
}

/* Ends a step, with a node for the part of its time that its nodes do not take: scheduling and
   sampling on the host, drafts, and tokens by which the simulation rounds up. Replicas that share
   experts wait for each other, so their nodes do not add up to the time of the step. */
static syn_status end_step(recorder *s, const captured_step *step, uint32_t first, syn_error *err) {
    syn_node node = {SYN_NODE_UNKNOWN, .op = "host"};
    syn_dep after = {0, SYN_DEP_CONTROL};
    double ns;
    SYN_TRY(sum_times(s, first, &ns, &after.node, err));
    ns = s->r->units[s->unit].n > 1 ? step->host_ns : step->ns - ns;
    serve_number_node(&s->how, s->graph, &node);
    node.predicted_ns = ns;
    node.deps = &after;
    node.n_deps = 1;
    s->how.after = after.node;
    if (!(ns > 0.5)) return SYN_OK;
    s->how.after = s->graph->ranks[0].n_nodes;
    return syn_graph_add_node(s->graph, 0, &node, err);
}

static syn_status add_group(recorder *s, const syn_graph_group *group, syn_error *err) {
    const size_t bytes = group->n_ranks * sizeof(int32_t);
    syn_graph_group renumbered = *group;
    int32_t *ranks = syn_malloc(bytes);
    if (!ranks) return SYN_FAIL_NOMEM(err, bytes, "a group");
    for (uint32_t i = 0; i < group->n_ranks; i++) ranks[i] = serve_rank_of(s->r, group->ranks[i]);
    renumbered.ranks = ranks;
    const syn_status status = syn_graph_add_group(s->graph, &renumbered, err);
    syn_free(ranks);
    return status;
}

static syn_status add_groups(recorder *s, const syn_graph *from, syn_error *err) {
    for (uint32_t i = 0; i < from->n_groups; i++)
        if (!syn_graph_group_by_id(s->graph, from->groups[i].id))
            SYN_TRY(add_group(s, &from->groups[i], err));
    return SYN_OK;
}

/* Appends the rows of the context to the graph. */
static syn_status append(recorder *s, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(s->ctx);
    syn_graph *graph;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, serve_pool_get(pool_of(s))->hw, err));
    syn_status status = add_groups(s, graph, err);
    if (status == SYN_OK)
        status =
            (s->r->fold ? serve_append_folded : serve_append_step)(s->graph, graph, &s->how, err);
    syn_graph_free(graph);
    return status;
}

static syn_status record_step(recorder *s, const captured_step *step, syn_mark mark,
                              syn_error *err) {
    int64_t tokens;
    syn_packed_step packed = {.n = 0};
    s->how.step = (uint32_t)step->number;
    s->how.phase = step->prompt ? SYN_PHASE_PREFILL : SYN_PHASE_DECODE;
    SYN_TRY(list_sequences(s, step, &packed, &tokens, err));
    SYN_TRY(list_messages(s, step, err));
    const syn_spec spec = {SYN_I32, 2, {1, tokens}};
    syn__caches_post(s->model, &s->transfer);
    (void)syn_causal_forward_packed(s->model, syn_input(s->ctx, "tokens", &spec, NULL), &packed);
    syn__caches_send(s->model);
    SYN_TRY(syn_ctx_check(s->ctx, err));
    SYN_TRY(add_tokens(s, step, false, err));
    const uint32_t first = s->graph->ranks[0].n_nodes;
    SYN_TRY(append(s, err));
    SYN_TRY(end_step(s, step, first, err));
    SYN_TRY(add_tokens(s, step, true, err));
    syn_forget(s->ctx, mark, NULL, 0);
    return SYN_OK;
}

static syn_status record_steps(recorder *s, syn_error *err) {
    const captured_step dummy = {.unit = s->unit};
    const syn_trace *trace = syn_ctx_trace(s->ctx);
    const syn_mark mark = syn_ctx_mark(s->ctx);
    bool any = false;
    s->how.fixed = (uint32_t)trace->n_tensors - 1; /* row 0 is the invalid tensor */
    for (size_t i = 0; i < s->r->n_steps; i++) {
        if (s->r->steps[i].unit != s->unit) continue;
        SYN_TRY(record_step(s, &s->r->steps[i], mark, err));
        any = true;
    }
    return any ? SYN_OK : record_step(s, &dummy, mark, err);
}

static void close_recorder(recorder *s) {
    syn_model_free(s->model);
    syn_ctx_free(s->ctx);
    syn_comm_close(s->comm);
    syn_free(s->queries);
    syn_free(s->keys);
    syn_free(s->sent);
    syn_free(s->received);
    syn_free(s->transfer.packed);
    syn_free(s->transfer.messages);
}

syn_status serve_record(syn_graph **out, const serve_recording *r, int32_t rank, syn_error *err) {
    recorder s = {.r = r, .rank = rank, .how = {.r = r, .after = SYN_NO_NODE}};
    place(&s);
    syn_status status = syn_graph_new(&s.graph, &rank, 1, r->ranks, err);
    if (status == SYN_OK) status = open_model(&s, err);
    if (status == SYN_OK) status = record_steps(&s, err);
    close_recorder(&s);
    if (status == SYN_OK) *out = s.graph;
    else syn_graph_free(s.graph);
    return status;
}
