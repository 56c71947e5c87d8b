/* Teaching example: the way of tokens to their experts and back. Two ranks have 4 tokens and 2 of 4
   experts each. A router chooses 2 experts for each token. The rows of the tokens are sorted by
   expert and sent to the ranks of the experts in an all-to-all; a second all-to-all returns the
   results. Expert e multiplies a row by e + 1, so the results are easy to verify.

       token_to_experts

   It also draws the ops of both ranks to token_to_experts.svg. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { RANKS = 2, TOKENS = 4, EXPERTS = 4, OWN = EXPERTS / RANKS, CHOSEN = 2, WIDTH = 2 };

/* The scores that the router gives to the experts, by rank and token. */
static const float logits[RANKS][TOKENS][EXPERTS] = {
    {{3, 1, 2, 0}, {0, 3, 2, 1}, {2, 3, 1, 0}, {3, 0, 1, 2}},
    {{1, 0, 3, 2}, {3, 0, 2, 1}, {0, 1, 2, 3}, {0, 2, 1, 3}}};

/* The results of all ranks. */
typedef struct results {
    int32_t chosen[RANKS][TOKENS][CHOSEN];
    float weights[RANKS][TOKENS][CHOSEN], out[RANKS][TOKENS][WIDTH];
    int64_t sent[RANKS][RANKS]; /* rows from a rank to a rank */
} results;

/* Sets the numbers of rows that this rank sends to each rank and gets from it, and returns the
   largest number that a rank gets. counts: the rows of each rank for each expert. Without data,
   which a trace does not have, all numbers are equal. */
static int64_t count_rows(const syn_ctx *ctx, int64_t counts[RANKS][EXPERTS], int64_t to[RANKS],
                          int64_t from[RANKS]) {
    const int rank = syn_ctx_rank(ctx);
    int64_t most = TOKENS * CHOSEN; /* each rank sends this number */
    for (int r = 0; r < RANKS; r++) {
        int64_t gets = 0;
        for (int i = 0; i < RANKS * OWN; i++) gets += counts[i / OWN][r * OWN + i % OWN];
        if (gets > most) most = gets;
        to[r] = from[r] = syn_ctx_has_data(ctx) ? 0 : TOKENS * CHOSEN / RANKS;
        for (int e = 0; e < OWN && syn_ctx_has_data(ctx); e++) {
            to[r] += counts[rank][r * OWN + e];
            from[r] += counts[r][rank * OWN + e];
        }
    }
    return most;
}

/* The program of one rank. */
static syn_status route_tokens(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const syn_spec x_spec = {SYN_F32, 2, {TOKENS, WIDTH}}, r_spec = {SYN_F32, 2, {TOKENS, EXPERTS}},
                   w_spec = {SYN_F32, 3, {OWN, WIDTH, WIDTH}};
    const syn_routing how = {
        .k = CHOSEN, .normalize = true, .groups = 1, .top_groups = 1, .scale = 1};
    const syn_group *ranks = mesh->group[SYN_AXIS_DP];
    const int rank = syn_ctx_rank(ctx);
    float tokens[TOKENS][WIDTH], matrices[OWN][WIDTH][WIDTH] = {{{0}}};
    int64_t counts[RANKS][EXPERTS] = {{0}}, to[RANKS], from[RANKS];
    results *all = arg;
    for (int t = 0; t < TOKENS; t++) tokens[t][0] = 1, tokens[t][1] = (float)(10 * rank + t);
    for (int e = 0; e < OWN; e++)
        for (int i = 0; i < WIDTH; i++) matrices[e][i][i] = (float)(rank * OWN + e + 1);

    const syn_tensor x = syn_input(ctx, "tokens", &x_spec, tokens);
    const syn_tensor scores = syn_input(ctx, "scores", &r_spec, logits[rank]);
    const syn_tensor experts = syn_input(ctx, "experts", &w_spec, matrices);
    syn_tensor chosen, sizes, own;
    const syn_tensor weights = syn_route(ctx, scores, SYN_NO_BIAS, &how, &chosen);
    const syn_tensor places = syn_sort_by_expert(ctx, chosen, EXPERTS, &sizes);
    syn_tensor rows = syn_moe_permute(ctx, x, places, CHOSEN);

    const syn_tensor told = syn_all_gather(ctx, sizes, 0, ranks);
    if (syn_ctx_has_data(ctx)) SYN_TRY(syn_tensor_read(ctx, told, counts, sizeof counts));
    const int64_t most = count_rows(ctx, counts, to, from);
    rows = syn_name(ctx, syn_all_to_all(ctx, rows, to, from, most, ranks), "dispatch");

    const syn_tensor table = syn_reshape(ctx, told, (int64_t[]){RANKS, EXPERTS}, 2);
    const int64_t n = from[0] + from[1];
    const syn_tensor order = syn_expert_order(ctx, table, rank * OWN, OWN, n, &own);
    rows = syn_moe_permute(ctx, rows, order, 1); /* sorted by expert, whatever rank they are from */
    rows = syn_grouped_linear(ctx, rows, experts, own, SYN_NO_BIAS, false);
    rows = syn_moe_unpermute(ctx, rows, order, n, 1);

    rows = syn_name(ctx, syn_all_to_all(ctx, rows, from, to, most, ranks), "return");
    const syn_tensor w = syn_moe_permute(
        ctx, syn_reshape(ctx, weights, (int64_t[]){TOKENS * CHOSEN, 1}, 2), places, 1);
    const syn_tensor y = syn_moe_unpermute(ctx, syn_mul(ctx, rows, w), places, TOKENS, CHOSEN);
    if (!syn_ctx_has_data(ctx)) return syn_ctx_check(ctx, err);
    SYN_TRY(syn_tensor_read(ctx, chosen, all->chosen[rank], sizeof all->chosen[rank]));
    SYN_TRY(syn_tensor_read(ctx, weights, all->weights[rank], sizeof all->weights[rank]));
    SYN_TRY(syn_tensor_read(ctx, y, all->out[rank], sizeof all->out[rank]));
    for (int r = 0; r < RANKS; r++) all->sent[rank][r] = to[r];
    return syn_ctx_check(ctx, err);
}

static void print(const results *all) {
    printf("token      experts   weights       result\n");
    for (int r = 0; r < RANKS; r++)
        for (int t = 0; t < TOKENS; t++) {
            const int32_t *e = all->chosen[r][t];
            const float *w = all->weights[r][t], *y = all->out[r][t];
            printf("rank %d: %d  %d and %d   %.2f, %.2f    %.2f times the token\n", r, t, e[0],
                   e[1], w[0], w[1], y[0]);
        }
    printf("\nrows sent    to rank 0  to rank 1\n");
    for (int r = 0; r < RANKS; r++)
        printf("by rank %d    %9lld  %9lld\n", r, (long long)all->sent[r][0],
               (long long)all->sent[r][1]);
}

/* Whether each result is the weighted sum of what the experts compute. */
static bool is_right(const results *all) {
    for (int r = 0; r < RANKS; r++)
        for (int t = 0; t < TOKENS; t++) {
            float factor = 0;
            for (int i = 0; i < CHOSEN; i++)
                factor += all->weights[r][t][i] * (float)(all->chosen[r][t][i] + 1);
            if (fabsf(all->out[r][t][0] - factor) > 1e-5f ||
                fabsf(all->out[r][t][1] - factor * (float)(10 * r + t)) > 1e-4f)
                return false;
        }
    return true;
}

static syn_status draw(syn_error *err) {
    const syn_export_options how = {.title = "Tokens to experts and back", .comm_graph = true};
    syn_graph *graph;
    SYN_TRY(syn_ranks_trace(&graph, &(syn_plan){.ranks = RANKS}, NULL, route_tokens, NULL, err));
    const syn_status s = syn_export_file(graph, NULL, &how, "token_to_experts.svg", err);
    syn_graph_free(graph);
    return s;
}

int main(void) {
    results all = {0};
    syn_error err = {0};
    const syn_plan plan = {.ranks = RANKS};
    syn_status s = syn_ranks_compute(&plan, SYN_DEVICE_CPU, route_tokens, &all, &err);
    if (s == SYN_OK) print(&all);
    if (s == SYN_OK && !is_right(&all))
        s = SYN_FAIL(&err, SYN_E_INVALID, "a result is not the weighted sum of its experts");
    if (s == SYN_OK) s = draw(&err);
    if (s == SYN_OK) return fflush(stdout) != 0;
    fprintf(stderr, "token_to_experts: %s\n", err.text);
    return 1;
}
