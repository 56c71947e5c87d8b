/* Teaching example: what ring attention does (Liu et al. 2023). Each rank has some tokens of a
   sequence. The keys and values go around a ring; in each step a rank attends to those that it has,
   and passes them on. With causal attention, a query attends only to earlier keys. Therefore each
   rank has two pieces of the sequence, one from its start and one from its end, so that all ranks
   have the same work.

       ring_attention [RANKS]

   Nothing is computed: the numbers are counted in the trace. The picture is ring_attention.svg. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syntorch/syntorch.h>

enum { TOKENS = 4096, HEADS = 8, WIDTH = 64, MOST = 16 };

/* The program of one rank. */
static syn_status attend(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const syn_group *ring = mesh->group[SYN_AXIS_DP];
    const syn_spec spec = {SYN_BF16, 4, {1, HEADS, TOKENS / ring->size, WIDTH}};
    const syn_tensor q = syn_input(ctx, "q", &spec, NULL), k = syn_input(ctx, "k", &spec, NULL),
                     v = syn_input(ctx, "v", &spec, NULL);
    (void)arg;
    (void)syn_context_attention(ctx, q, k, v, 0.125, false, 0, ring);
    return syn_ctx_check(ctx, err);
}

static int64_t number(const syn_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return node->attributes[i].i64;
    return 0;
}

/* The number of pairs of a query and a key that an op of attention computes. If it is causal,
   query i attends to the keys up to offset + i. */
static int64_t pairs_of(const syn_graph *graph, uint32_t rank, const syn_node *node) {
    syn_cursor cursor = {0};
    const int64_t queries =
        syn_graph_tensor_at(graph, rank, node->inputs[0], &cursor)->spec.dims[2];
    const int64_t keys = syn_graph_tensor_at(graph, rank, node->inputs[1], &cursor)->spec.dims[2];
    const bool causal = number(node, "causal") != 0;
    int64_t pairs = 0;
    for (int64_t i = 0; i < queries; i++) {
        const int64_t seen = number(node, "offset") + i + 1;
        pairs += causal && seen < keys ? seen : keys;
    }
    syn_cursor_free(&cursor);
    return pairs;
}

/* Prints one line per rank: the pairs that it computes in each step. */
static void print(const syn_graph *graph) {
    syn_cursor cursor = {0};
    for (uint32_t rank = 0; rank < graph->n_ranks; rank++) {
        int64_t sum = 0;
        double sent = 0;
        printf("rank %-2u  pieces %2u and %2u ", rank, rank, 2 * graph->n_ranks - 1 - rank);
        for (uint32_t i = 0; i < graph->ranks[rank].n_nodes; i++) {
            const syn_node *node = syn_graph_node(graph, rank, i, &cursor);
            if (!node) break;
            if (node->kind == SYN_NODE_SEND) sent += (double)node->comm_bytes;
            if (strcmp(node->op, "attention_train") != 0) continue;
            const int64_t pairs = pairs_of(graph, rank, node);
            printf(" %8lld", (long long)pairs);
            sum += pairs;
        }
        printf("   sum %8lld, sends %.2f MB\n", (long long)sum, sent / 1e6);
    }
    syn_cursor_free(&cursor);
}

/* The same for one piece of the sequence per rank: rank r computes the keys of ranks 0 to r. */
static void print_plain(int ranks) {
    const double n = (double)TOKENS / ranks;
    printf("\nwith one piece per rank:\n");
    for (int r = 0; r < ranks; r++) printf("rank %-2d sum %8.0f\n", r, n * (n + 1) / 2 + r * n * n);
}

static syn_status draw(const syn_graph *graph, syn_error *err) {
    const syn_export_options how = {.title = "Ring attention", .comm_graph = true};
    return syn_export_file(graph, NULL, &how, "ring_attention.svg", err);
}

int main(int argc, char **argv) {
    const int ranks = argc > 1 ? atoi(argv[1]) : 4;
    syn_error err = {0};
    syn_graph *graph = NULL;
    if (ranks < 2 || ranks > MOST || TOKENS % (2 * ranks) != 0) {
        fprintf(stderr, "usage: ring_attention [2|4|8|16]\n");
        return 2;
    }
    syn_status s = syn_ranks_trace(&graph, &(syn_plan){.ranks = ranks}, NULL, attend, NULL, &err);
    if (s == SYN_OK) {
        printf("pairs of a query and a key, step by step; %d tokens on %d ranks:\n", TOKENS, ranks);
        print(graph);
        print_plain(ranks);
        s = draw(graph, &err);
    }
    syn_graph_free(graph);
    if (s == SYN_OK) return fflush(stdout) != 0;
    fprintf(stderr, "ring_attention: %s\n", err.text);
    return 1;
}
