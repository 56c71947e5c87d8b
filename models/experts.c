/* Runs a layer's experts (experts.h). The tokens of each expert are copied to consecutive rows, so
   that one grouped product computes a layer of all experts. With expert parallelism, the rows are
   first sent to the ranks that have the experts, and the results are sent back. */
#include "models/experts.h"

#include <math.h>

#include "models/llama_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

static syn_tensor multiply(syn_model *m, syn_tensor rows, const syn_layer_linear *layer,
                           syn_tensor sizes, syn_tensor bias, const char *label) {
    const syn_tensor w = syn_current_version(m->ctx, layer->weight),
                     b = syn_current_version(m->ctx, bias);
    return syn_name(m->ctx, syn_grouped_linear(m->ctx, rows, w, sizes, b, true), label);
}

/* n times the columns of x (E, C), which are zeros. */
static syn_tensor repeat_columns(syn_ctx *ctx, syn_tensor x, int64_t n) {
    const int64_t rows = syn_tensor_dim(ctx, x, 0), width = syn_tensor_dim(ctx, x, 1);
    x = syn_reshape(ctx, x, (int64_t[]){rows, 1, width}, 3);
    x = syn_expand(ctx, x, (int64_t[]){rows, n, width}, 3);
    return syn_reshape(ctx, x, (int64_t[]){rows, n * width}, 2);
}

/* bias (E, C/etp), a shard of the experts' biases -> (E, C), with zeros in place of the others. */
static syn_tensor pad_bias(syn_model *m, syn_tensor bias) {
    const syn_group *etp = m->options.etp;
    const int64_t after = etp->size - 1 - etp->index;
    syn_tensor parts[3];
    int n = 0;
    const bool was = syn_set_grad(m->ctx, false);
    const syn_tensor zeros = syn_scale(m->ctx, bias, 0);
    if (etp->index > 0) parts[n++] = repeat_columns(m->ctx, zeros, etp->index);
    parts[n++] = bias;
    if (after > 0) parts[n++] = repeat_columns(m->ctx, zeros, after);
    syn_set_grad(m->ctx, was);
    return syn_concat(m->ctx, parts, n, 1);
}

/* The experts' last product. If each of several ranks has a shard of every expert, the sum of their
   results has the whole bias. */
static syn_tensor multiply_down(syn_model *m, const syn__experts *e, syn_tensor x,
                                syn_tensor sizes) {
    const int ranks = syn__model_dispatches(m) ? 1 : syn__model_tp(m);
    syn_tensor bias = e->down.bias;
    if (bias.id && m->options.etp) bias = pad_bias(m, syn_current_version(m->ctx, bias));
    else if (bias.id && ranks > 1)
        bias = syn_scale(m->ctx, syn__model_replicated(m, bias), 1.0 / ranks);
    return multiply(m, x, &e->down, sizes, bias, "down_proj");
}

/* rows (R, C) in the order of the experts, of which expert e has sizes[e], and their weights (R, 1)
   -> (R, C). The weights multiply the inputs of the last product, which are fewer numbers than its
   outputs, unless it has a bias. */
static syn_tensor compute(syn_model *m, const syn__experts *e, syn_tensor rows, syn_tensor sizes,
                          syn_tensor weights) {
    const syn_experts_config *c = &m->config.experts;
    const syn_tensor gate = multiply(m, rows, &e->gate, sizes, e->gate.bias, "gate_proj"),
                     up = multiply(m, rows, &e->up, sizes, e->up.bias, "up_proj");
    syn_tensor x = c->limit > 0 ? syn_swiglu_clamped(m->ctx, gate, up, c->alpha, c->limit)
                                : syn_swiglu(m->ctx, gate, up);
    if (e->down.bias.id) x = multiply_down(m, e, x, sizes);
    x = syn_name(m->ctx, syn_mul(m->ctx, x, syn_cast(m->ctx, weights, m->options.dtype)),
                 "weighted");
    return e->down.bias.id ? x : multiply_down(m, e, x, sizes);
}

int64_t syn_expert_capacity_rows(const syn_model_config *config, int64_t tokens, double capacity) {
    const syn_experts_config *c = &config->experts;
    const double rows = (double)tokens * (double)c->k / (double)c->n * capacity;
    return (int64_t)ceil(rows * (1 - 1e-12)); /* 110.00000000000001 is 100 * 1.1 */
}

/* ---- expert parallelism ---- */

/* Numbers of rows, one per member of the ep group: those for member i, and those of member i. */
typedef struct exchange {
    int64_t *to, *from, rows; /* rows: the sum of `from` */
    int64_t most;             /* the largest number of rows that a member sends or receives */
    /* With etp: the rows that each member of the etp group gets, and their sum. whole[i]: `rows` */
    int64_t *parts, *whole, all;
} exchange;

static int etp_size(const syn_model *m) {
    return m->options.etp ? m->options.etp->size : 1;
}

/* Allocates the lists. */
static bool begin_exchange(syn_model *m, exchange *x) {
    const size_t ranks = (size_t)m->options.ep->size;
    *x = (exchange){.to = syn_malloc(2 * (ranks + (size_t)etp_size(m)) * sizeof *x->to)};
    if (!x->to) {
        syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: the experts' tokens");
        return false;
    }
    x->from = x->to + ranks;
    x->parts = x->from + ranks;
    x->whole = x->parts + etp_size(m);
    return true;
}

/* Counts a member of the ep group that sends or receives n rows. */
static void count_member(exchange *x, int64_t n) {
    if (n > x->most) x->most = n;
}

/* Without data, the tokens of all ranks are divided evenly among all experts: of the pairs of a
   token and one of its experts, pair i goes to member i modulo the number of members. Returns how
   many of the first `pairs` pairs go to an expert. */
static int64_t balanced(int64_t pairs, int64_t expert, int64_t experts, int64_t members) {
    const int64_t each = experts / members, slot = expert % each * members + expert / each;
    return pairs / experts + (slot < pairs % experts);
}

/* Without data: how many of the `pairs` pairs of member `from` go to the experts of member `to`. */
static int64_t balanced_rows(const syn_model *m, int64_t pairs, int64_t from, int64_t to) {
    const int64_t experts = m->config.experts.n, members = m->options.ep->size,
                  each = experts / members;
    int64_t rows = 0;
    for (int64_t e = to * each; e < (to + 1) * each; e++)
        rows += balanced(pairs * (from + 1), e, experts, members) -
                balanced(pairs * from, e, experts, members);
    return rows;
}

/* Without data, all members have balanced numbers of rows. */
static void exchange_balanced(const syn_model *m, int64_t pairs, exchange *x) {
    const syn_group *ep = m->options.ep;
    x->rows = 0;
    for (int32_t i = 0; i < ep->size; i++) {
        x->to[i] = balanced_rows(m, pairs, ep->index, i);
        x->from[i] = balanced_rows(m, pairs, i, ep->index);
        x->rows += x->from[i];
    }
    for (int32_t i = 0; i < ep->size; i++) {
        int64_t received = 0;
        const int64_t experts = m->config.experts.n, each = experts / ep->size;
        for (int64_t e = i * each; e < (i + 1) * each; e++)
            received += balanced(pairs * ep->size, e, experts, ep->size);
        count_member(x, received);
    }
}

/* Without data, all members have the numbers of rows of options.router.load. */
static bool exchange_loaded(syn_model *m, int64_t i, int64_t pairs, exchange *x) {
    const syn_group *ep = m->options.ep;
    const int64_t experts = m->config.experts.n, each = experts / ep->size, k = m->config.experts.k;
    int32_t own = ep->index;
    int64_t *rows = syn_malloc((size_t)experts * sizeof *rows);
    if (!rows) {
        syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: the experts' tokens");
        return false;
    }
    syn_expert_load_rows(m->options.router.load,
                         syn_model_expert_layers(&m->config, m->part.first_layer + i), pairs / k, k,
                         rows);
    for (int32_t j = 0; j < ep->size; j++) {
        x->to[j] = 0;
        for (int64_t e = 0; e < each; e++) x->to[j] += rows[j * each + e];
        count_member(x, x->to[j] * ep->size);
        if (m->options.router.heaviest && x->to[j] > x->to[own]) own = j;
    }
    for (int32_t j = 0; j < ep->size; j++) x->from[j] = x->to[own];
    x->rows = x->to[own] * ep->size;
    syn_free(rows);
    return true;
}

/* Reads the rows that the members exchange. */
static bool read_exchange(syn_model *m, syn_tensor counts, exchange *x) {
    const syn_group *ep = m->options.ep;
    const int64_t experts = m->config.experts.n, each = experts / ep->size, me = ep->index;
    const int parts = etp_size(m), own = m->options.etp ? m->options.etp->index : 0;
    const size_t n = (size_t)(parts * ep->size * experts);
    int64_t *all = syn_calloc(n, sizeof *all);
    if (!all) syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: the experts' tokens");
    if (!all || syn_tensor_read(m->ctx, counts, all, n * sizeof *all) != SYN_OK) {
        syn_free(all);
        return false;
    }
    for (int j = 0; j < parts; j++) {
        const int64_t *part = all + j * ep->size * experts;
        x->parts[j] = 0;
        for (int32_t i = 0; i < ep->size; i++)
            for (int64_t e = me * each; e < (me + 1) * each; e++)
                x->parts[j] += part[i * experts + e];
    }
    const int64_t *mine = all + own * ep->size * experts;
    for (int32_t i = 0; i < ep->size; i++) {
        int64_t received = 0;
        x->to[i] = x->from[i] = 0;
        for (int64_t e = 0; e < each; e++) {
            x->to[i] += mine[me * experts + i * each + e];
            x->from[i] += mine[i * experts + me * each + e];
            for (int32_t k = 0; k < ep->size; k++) received += mine[k * experts + i * each + e];
        }
        x->rows += x->from[i];
        count_member(x, received);
    }
    syn_free(all);
    return true;
}

/* Computes the rows that the members exchange. counts (etp, ep, experts): the rows of each member
   for each expert. */
static bool plan_exchange(syn_model *m, int64_t layer, syn_tensor counts, int64_t pairs,
                          exchange *x) {
    const syn_group *ep = m->options.ep;
    const bool data = syn_ctx_has_data(m->ctx), limited = m->options.router.capacity > 0;
    bool done = true;
    x->most = pairs; /* each member sends this number */
    if (limited) {
        for (int32_t i = 0; i < ep->size; i++) x->to[i] = x->from[i] = pairs / ep->size;
        x->rows = pairs;
    } else if (data) done = read_exchange(m, counts, x);
    else if (m->options.router.load && m->options.router.load->weights)
        done = exchange_loaded(m, layer, pairs, x);
    else exchange_balanced(m, pairs, x);
    if (!done) return false;
    for (int j = 0; j < etp_size(m); j++) {
        x->whole[j] = x->rows;
        if (limited || !data) x->parts[j] = x->rows;
        x->all += x->parts[j];
    }
    return true;
}

/* The numbers of rows (etp x ep, experts) of all ranks that share the experts. With a capacity they
   are all the same. Without data, their order does not matter. */
static syn_tensor all_counts(syn_model *m, syn_tensor sizes) {
    const syn_group *all = m->options.etp ? m->options.experts_of_all : m->options.ep;
    const int64_t n = m->config.experts.n, dims[2] = {all->size, n}, one[2] = {1, n};
    if (m->options.router.capacity > 0)
        return syn_expand(m->ctx, syn_reshape(m->ctx, sizes, one, 2), dims, 2);
    sizes = syn_name(m->ctx, syn_all_gather(m->ctx, sizes, 0, all), "counts");
    if (m->options.etp && syn_ctx_has_data(m->ctx)) { /* ranks are numbered along etp first */
        const int64_t box[3] = {m->options.ep->size, etp_size(m), n};
        static const int order[3] = {1, 0, 2};
        sizes = syn_permute(m->ctx, syn_reshape(m->ctx, sizes, box, 3), order, 3);
    }
    return syn_reshape(m->ctx, sizes, dims, 2);
}

/* x (N, C) -> (ranks N, C): the rows of all ranks of a group. Each rank has a partial gradient of
   all rows. */
static syn_tensor gather_rows(syn_model *m, syn_tensor x, const syn_group *group,
                              const char *label) {
    const int64_t n = syn_tensor_dim(m->ctx, x, 0), width = syn_tensor_dim(m->ctx, x, 1);
    x = syn_reshape(m->ctx, x, (int64_t[]){1, n, width}, 3);
    x = syn_name(m->ctx, syn_gather_tokens(m->ctx, x, false, group), label);
    return syn_reshape(m->ctx, x, (int64_t[]){n * group->size, width}, 2);
}

/* Whether the members of the etp group got different numbers of rows. */
static bool is_uneven(const exchange *x, const syn_group *etp) {
    for (int32_t j = 1; j < etp->size; j++)
        if (x->parts[j] != x->parts[0]) return true;
    return false;
}

/* The same as syn_all_to_all for rows of which each member of the etp group gets all (to_all), or
   sends each of them back. */
static syn_tensor exchange_parts(syn_model *m, syn_tensor x, const exchange *how, bool to_all) {
    const syn_group *etp = m->options.etp;
    int64_t most = 0;
    for (int32_t j = 0; j < etp->size; j++)
        if (how->parts[j] * etp->size > most) most = how->parts[j] * etp->size;
    return syn_all_to_all(m->ctx, x, to_all ? how->whole : how->parts,
                          to_all ? how->parts : how->whole, most, etp);
}

/* x (N, C), a rank's rows -> (all, C), those of all members of the etp group. If their numbers
   differ, the rows are sent in all-to-alls, because all-gathers have equal parts. */
static syn_tensor gather_parts(syn_model *m, syn_tensor x, const exchange *how, const char *label) {
    const syn_group *etp = m->options.etp;
    const int64_t n = how->rows, width = syn_tensor_dim(m->ctx, x, 1);
    if (!is_uneven(how, etp)) return gather_rows(m, x, etp, label);
    x = syn_reshape(m->ctx, x, (int64_t[]){1, n, width}, 3);
    x = syn_expand(m->ctx, x, (int64_t[]){etp->size, n, width}, 3);
    x = syn_reshape(m->ctx, x, (int64_t[]){etp->size * n, width}, 2);
    return syn_name(m->ctx, exchange_parts(m, x, how, true), label);
}

/* The sums of the members' y (all, C): (N, C) for this rank's rows. */
static syn_tensor add_parts(syn_model *m, syn_tensor y, const exchange *how) {
    const syn_group *etp = m->options.etp;
    if (!is_uneven(how, etp)) return syn_reduce_scatter(m->ctx, y, SYN_REDUCE_SUM, 0, etp);
    const syn_tensor parts = exchange_parts(m, y, how, false);
    y = syn_slice(m->ctx, parts, 0, 0, how->rows);
    for (int32_t j = 1; j < etp->size; j++)
        y = syn_add(m->ctx, y, syn_slice(m->ctx, parts, 0, j * how->rows, how->rows));
    return y;
}

/* The same as `compute` for rows in the order of all experts of the ep group, which are computed by
   the ranks that have the experts. With etp, each of these ranks has a part of the experts' width:
   it gets the rows of all of them, and their partial sums are added. */
static syn_tensor compute_elsewhere(syn_model *m, const syn__experts *e, int64_t layer,
                                    syn_tensor rows, syn_tensor sizes, syn_tensor weights) {
    syn_ctx *ctx = m->ctx;
    const syn_group *ep = m->options.ep, *etp = m->options.etp;
    const int64_t experts = m->config.experts.n, each = experts / ep->size;
    exchange x;
    syn_tensor own, y = {0};
    if (!begin_exchange(m, &x)) return y;
    syn_tensor counts = all_counts(m, sizes);
    if (plan_exchange(m, layer, counts, syn_tensor_dim(ctx, rows, 0), &x)) {
        const syn_tensor places =
            syn_expert_order(ctx, counts, ep->index * each, each, x.all, &own);
        rows = syn_name(ctx, syn_all_to_all(ctx, rows, x.to, x.from, x.most, ep), "dispatched");
        weights = syn_all_to_all(ctx, weights, x.to, x.from, x.most, ep);
        if (etp) rows = gather_parts(m, rows, &x, "gathered");
        if (etp) weights = gather_parts(m, weights, &x, "gathered_weights");
        rows = syn_moe_permute(ctx, rows, places, 1);
        weights = syn_moe_permute(ctx, weights, places, 1);
        y = compute(m, e, rows, own, weights);
        y = syn_moe_unpermute(ctx, y, places, x.all, 1);
        if (etp) y = add_parts(m, y, &x);
        y = syn_name(ctx, syn_all_to_all(ctx, y, x.from, x.to, x.most, ep), "returned");
    }
    syn_free(x.to);
    return y;
}

/* DeepEP: x (N, C), the tokens themselves -> (N, C), the sums of their experts' outputs. Each token
   is sent once to each rank that has at least one of its experts, which copies it for these experts
   and adds their outputs. The weights are sent with the tokens. Without data, all ranks get the
   same number of tokens. */
static syn_tensor compute_with_deepep(syn_model *m, const syn__experts *e, int64_t layer,
                                      syn_tensor x, syn_tensor sizes, syn_tensor weights) {
    syn_ctx *ctx = m->ctx;
    const syn_group *ep = m->options.ep;
    const syn_experts_config *c = &m->config.experts;
    const bool limited = c->limited && c->groups > 0;
    syn_deepep how = {.fp8 = m->options.router.dispatch_fp8,
                      .choice = {c->n, c->k, limited ? c->groups : 1, limited ? c->top_groups : 1}};
    const int64_t each = c->n / ep->size, tokens = syn_tensor_dim(ctx, x, 0),
                  pairs = syn_tensor_dim(ctx, weights, 0);
    const int64_t copies =
        llround((double)tokens * syn_expert_reach(&how.choice, ep->size)) * ep->size;
    exchange own_rows;
    syn_tensor own, unused, y = {0};
    if (!begin_exchange(m, &own_rows)) return y;
    if (plan_exchange(m, layer, sizes, pairs, &own_rows)) {
        const int64_t dims[2] = {ep->size, c->n}, one[2] = {1, c->n};
        const syn_tensor counts = syn_expand(ctx, syn_reshape(ctx, sizes, one, 2), dims, 2);
        const syn_tensor order = syn_expert_order(ctx, counts, 0, c->n, copies, &unused),
                         places = syn_expert_order(ctx, counts, ep->index * each, each,
                                                   own_rows.rows, &own);
        syn_tensor rows = syn_name(ctx, syn_moe_permute(ctx, x, order, 1), "copies");
        rows =
            syn_name(ctx, syn_deepep_all_to_all(ctx, rows, NULL, NULL, 0, &how, ep), "dispatched");
        rows = syn_moe_permute(ctx, rows, places, 1);
        weights = syn_moe_permute(ctx, weights, places, 1);
        y = compute(m, e, rows, own, weights);
        y = syn_moe_unpermute(ctx, y, places, copies, 1);
        how.combine = true;
        y = syn_name(ctx, syn_deepep_all_to_all(ctx, y, NULL, NULL, 0, &how, ep), "returned");
        y = syn_moe_unpermute(ctx, y, order, tokens, 1);
    }
    syn_free(own_rows.to);
    return y;
}

/* Reads how many rows earlier members of the ep group and this rank have, of `pairs` pairs of a
   token and one of its experts. sizes (E): the rows of each expert. Without data, the numbers are
   balanced. */
static bool own_range(syn_model *m, syn_tensor sizes, int64_t pairs, int64_t *first,
                      int64_t *rows) {
    const syn_group *ep = m->options.ep;
    const int64_t experts = m->config.experts.n, each = experts / ep->size;
    int64_t *all = syn_malloc((size_t)experts * sizeof *all);
    bool done = all != NULL;
    if (!all) syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: the experts' tokens");
    for (int64_t e = 0; done && e < experts; e++) all[e] = balanced(pairs, e, experts, ep->size);
    if (done && syn_ctx_has_data(m->ctx))
        done = syn_tensor_read(m->ctx, sizes, all, (size_t)experts * sizeof *all) == SYN_OK;
    *first = *rows = 0;
    for (int64_t e = 0; done && e < (ep->index + 1) * each; e++)
        *(e < ep->index * each ? first : rows) += all[e];
    syn_free(all);
    return done;
}

/* x (N, C), tokens, their experts (N, k) i32 and weights (N, k) -> (N, C), the sums of the outputs
   of this rank's experts. */
static syn_tensor compute_own(syn_model *m, const syn__experts *e, syn_tensor x, syn_tensor chosen,
                              syn_tensor weights) {
    syn_ctx *ctx = m->ctx;
    const syn_group *ep = m->options.ep;
    const int64_t n = m->config.experts.n, k = m->config.experts.k, each = n / ep->size,
                  tokens = syn_tensor_dim(ctx, x, 0);
    int64_t first, rows;
    syn_tensor sizes;
    syn_tensor places = syn_sort_by_expert(ctx, chosen, n, &sizes);
    if (!own_range(m, sizes, tokens * k, &first, &rows)) return (syn_tensor){0};
    places = syn_slice(ctx, places, 0, first, rows);
    sizes = syn_slice(ctx, sizes, 0, ep->index * each, each);
    const syn_tensor own = syn_name(ctx, syn_moe_permute(ctx, x, places, k), "rows");
    weights = syn_reshape(ctx, weights, (int64_t[]){tokens * k, 1}, 2);
    const syn_tensor y = compute(m, e, own, sizes, syn_moe_permute(ctx, weights, places, 1));
    return syn_moe_unpermute(ctx, y, places, tokens, k);
}

/* The same for the tokens of all ranks of a group, each of which has N of them. Every rank gets all
   tokens, and adds the outputs of its own experts. group NULL: only this rank. */
static syn_tensor compute_gathered(syn_model *m, const syn__experts *e, const syn_group *group,
                                   syn_tensor x, syn_tensor chosen, syn_tensor weights) {
    if (!group) return compute_own(m, e, x, chosen, weights);
    x = gather_rows(m, x, group, "gathered");
    weights = gather_rows(m, weights, group, "gathered_weights");
    chosen = syn_name(m->ctx, syn_all_gather(m->ctx, chosen, 0, group), "gathered_experts");
    const syn_tensor y = compute_own(m, e, x, chosen, weights);
    return syn_reduce_scatter(m->ctx, y, SYN_REDUCE_SUM, 0, group);
}

/* ---- balancing ---- */

static syn_score score_of(const syn_model *m) {
    return m->config.experts.sigmoid ? SYN_SCORE_SIGMOID : SYN_SCORE_SOFTMAX;
}

/* The router's losses for this rank's tokens: weights (N, k), logits (N, E), and the number of rows
   that these tokens have for each expert -> the weights, whose gradient reaches the losses. If all
   tensor-parallel ranks route the same tokens, each of them has an equal part of the losses. */
static syn_tensor add_losses(syn_model *m, syn_tensor weights, syn_tensor logits,
                             syn_tensor sizes) {
    syn_ctx *ctx = m->ctx;
    const syn_router_options *r = &m->options.router;
    const int64_t experts = m->config.experts.n, parts = r->tokens ? r->tokens->size : 1;
    const double tokens = (double)syn_tensor_dim(ctx, logits, 0) * (double)parts,
                 same = syn__model_dispatches(m) ? 1 : syn__model_tp(m);
    const syn_router_losses how = {.score = score_of(m),
                                   .balance =
                                       r->aux * (double)experts /
                                       ((double)m->config.experts.k * tokens * tokens * same),
                                   .z = r->z / (tokens * same)};
    syn_push_scope(ctx, "losses");
    if (r->aux > 0 && r->tokens)
        sizes = syn_name(ctx, syn_all_reduce(ctx, sizes, SYN_REDUCE_SUM, r->tokens), "counts");
    if (syn_current_phase(ctx) != SYN_PHASE_RECOMPUTE)
        syn_router_loss_add(ctx, syn_current_version(ctx, r->losses), logits, sizes, &how);
    weights = syn_router_loss(ctx, weights, logits, sizes, &how);
    syn_pop_scope(ctx);
    return weights;
}

/* In training, counts the rows of layer i and adds the losses; see add_losses. */
static syn_tensor balance(syn_model *m, const syn__experts *e, int64_t i, syn_tensor weights,
                          syn_tensor logits, syn_tensor sizes) {
    const syn_router_options *r = &m->options.router;
    struct syn__router *router = &m->routers[i];
    if (!syn_requires_grad(m->ctx, logits)) return weights;
    if (router->counts.id && syn_current_phase(m->ctx) != SYN_PHASE_RECOMPUTE) {
        syn_count_add(m->ctx, syn_current_version(m->ctx, router->counts), sizes);
        router->bias = e->bias;
    }
    return r->aux > 0 || r->z > 0 ? add_losses(m, weights, logits, sizes) : weights;
}

/* Updates the biases of n routers, at most SYN_MAX_LIST. */
static void update_biases(syn_ctx *ctx, struct syn__router *const *routers, int n, double rate,
                          const syn_group *stage) {
    syn_tensor counts[SYN_MAX_LIST];
    for (int i = 0; i < n; i++) counts[i] = syn_current_version(ctx, routers[i]->counts);
    if (stage) syn_all_reduce_coalesced(ctx, counts, n, SYN_REDUCE_SUM, stage);
    for (int i = 0; i < n; i++) {
        syn_tensor bias = syn_current_version(ctx, routers[i]->bias);
        syn_router_bias_update(ctx, &bias, &counts[i], rate);
    }
}

void syn_model_update_router_biases(syn_model *const *models, int n, double rate,
                                    const syn_group *stage) {
    struct syn__router *listed[SYN_MAX_LIST];
    int used = 0;
    if (n == 0) return;
    syn_ctx *ctx = models[0]->ctx;
    syn_push_scope(ctx, "router_bias");
    for (int c = 0; c < n; c++)
        for (int64_t i = 0; i < models[c]->part.n_layers + models[c]->part.mtp; i++) {
            if (models[c]->routers[i].bias.id) listed[used++] = &models[c]->routers[i];
            if (used < SYN_MAX_LIST) continue;
            update_biases(ctx, listed, used, rate, stage);
            used = 0;
        }
    if (used > 0) update_biases(ctx, listed, used, rate, stage);
    syn_pop_scope(ctx);
}

/* ---- the layer ---- */

/* x (N, C), the tokens themselves -> (N, C), the sums of their experts' outputs. Each token is
   copied for each of its experts. */
static syn_tensor compute_copies(syn_model *m, const syn__experts *e, int64_t i, syn_tensor x,
                                 syn_tensor places, syn_tensor sizes, syn_tensor weights) {
    const int64_t k = m->config.experts.k, tokens = syn_tensor_dim(m->ctx, x, 0);
    const syn_tensor rows = syn_name(m->ctx, syn_moe_permute(m->ctx, x, places, k), "rows");
    const syn_tensor y = m->options.ep ? compute_elsewhere(m, e, i, rows, sizes, weights)
                                       : compute(m, e, rows, sizes, weights);
    return syn_moe_unpermute(m->ctx, y, places, tokens, k);
}

bool syn__experts_divide_tokens(const syn_model *m) {
    return syn__model_dispatches(m) && (m->cut || syn__model_tp(m) == 1);
}

/* x (B, T, C), the same tokens on every tp rank -> (B, T, C), this rank's partial sum of the
   experts' outputs. If syn__experts_divide_tokens: this rank's tokens -> the experts' outputs for
   them. */
static syn_tensor routed(syn_model *m, const syn__experts *e, int64_t i, syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    const syn_experts_config *c = &m->config.experts;
    const syn_routing how = {.k = c->k,
                             .score = score_of(m),
                             .normalize = c->normalize,
                             .groups = c->limited && c->groups > 0 ? c->groups : 1,
                             .top_groups = c->limited && c->groups > 0 ? c->top_groups : 1,
                             .scale = c->scale > 0 ? c->scale : 1};
    const syn_spec shape = *syn_tensor_spec(ctx, x);
    const int64_t tokens = shape.dims[0] * shape.dims[1];
    const syn_tensor bias = e->bias.id ? syn_current_version(ctx, e->bias) : SYN_NO_BIAS;
    syn_tensor chosen, sizes;
    x = syn_reshape(ctx, x, (int64_t[]){tokens, shape.dims[2]}, 2);
    syn_push_scope(ctx, "experts");
    const syn_tensor logits = syn_column_linear(ctx, x, &e->router, false, NULL, "router");
    syn_tensor weights = syn_route(ctx, logits, bias, &how, &chosen);
    const bool divided = syn__experts_divide_tokens(m);
    const syn_dispatcher dispatcher = !m->options.ep ? SYN_DISPATCH_ALLTOALL
                                      : divided      ? m->options.router.dispatcher
                                                     : SYN_DISPATCH_ALLGATHER;
    syn_tensor places = {0}, y;
    if (dispatcher != SYN_DISPATCH_ALLGATHER || syn_requires_grad(ctx, logits)) {
        places = syn_sort_by_expert(ctx, chosen, c->n, &sizes);
        weights = balance(m, e, i, weights, logits, sizes);
    }
    if (m->options.router.capacity > 0)
        places = syn_expert_capacity(
            ctx, places, syn_expert_capacity_rows(&m->config, tokens, m->options.router.capacity),
            &sizes);
    if (dispatcher == SYN_DISPATCH_ALLGATHER) {
        const syn_group *all = m->options.etp ? m->options.experts_of_all : m->options.ep;
        y = compute_gathered(m, e, divided ? all : m->options.expert_dp, x, chosen, weights);
    } else {
        const syn_tensor w = syn_moe_permute(
            ctx, syn_reshape(ctx, weights, (int64_t[]){tokens * c->k, 1}, 2), places, 1);
        y = dispatcher == SYN_DISPATCH_DEEPEP ? compute_with_deepep(m, e, i, x, sizes, w)
                                              : compute_copies(m, e, i, x, places, sizes, w);
    }
    y = syn_name(ctx, y, "combined");
    syn_pop_scope(ctx);
    return syn_reshape(ctx, y, shape.dims, 3);
}

/* x (B, T, C) -> (B, T, 1): the factor of the shared expert's output, a sigmoid. A router with one
   expert computes it. */
static syn_tensor shared_factor(syn_model *m, const syn__experts *e, syn_tensor x) {
    static const syn_routing how = {
        .k = 1, .score = SYN_SCORE_SIGMOID, .groups = 1, .top_groups = 1, .scale = 1};
    const syn_spec shape = *syn_tensor_spec(m->ctx, x);
    syn_tensor logits = syn_column_linear(m->ctx, x, &e->shared_factor, false, NULL, "gate");
    syn_tensor chosen;
    logits = syn_reshape(m->ctx, logits, (int64_t[]){-1, 1}, 2);
    const syn_tensor factor = syn_route(m->ctx, logits, SYN_NO_BIAS, &how, &chosen);
    return syn_reshape(m->ctx, syn_cast(m->ctx, factor, m->options.dtype),
                       (int64_t[]){shape.dims[0], shape.dims[1], 1}, 3);
}

/* x (B, T, C) -> this rank's partial sum of the shared expert's output. */
static syn_tensor shared_partial(syn_model *m, const syn__experts *e, syn_tensor x) {
    syn_push_scope(m->ctx, "shared_expert");
    syn_tensor y = syn__llama_gated(m, x, &e->shared_gate, &e->shared_up);
    y = syn_row_linear_partial(m->ctx, y, &e->shared_down, m->options.tp, "down_proj");
    if (m->config.experts.shared_gate) y = syn_mul(m->ctx, y, shared_factor(m, e, x));
    syn_pop_scope(m->ctx);
    return y;
}

syn_tensor syn__experts_run(syn_model *m, const syn__experts *e, int64_t i, syn_tensor x) {
    const bool shared = m->config.experts.shared_inner > 0, apart = syn__experts_divide_tokens(m);
    syn_tensor y = {0}, z = {0};
    if (apart) y = routed(m, e, i, x); /* this rank's tokens */
    if (!apart || shared) x = syn__model_enter(m, x);
    if (!apart) y = routed(m, e, i, x);
    if (shared) z = shared_partial(m, e, x);
    if (apart && shared) z = syn__model_reduce(m, z, SYN_NO_BIAS);
    if (shared) y = syn_name(m->ctx, syn_add(m->ctx, y, z), "with_shared");
    return apart ? y : syn__model_reduce(m, y, SYN_NO_BIAS);
}
