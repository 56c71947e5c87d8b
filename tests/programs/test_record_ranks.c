/* Tests synth_record, with which the Python package records jobs: the graph of all ranks equals the
   graphs of ranks that were recorded one by one, call after call; mistakes are errors. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/graph/columns.h"
#include "tests/support/test.h"
#include "tools/synth/synth.h"

enum { MOST = 24 };

/* Records a job with these options, which end with NULL. `ranks` NULL: all. */
static syn_status record(syn_graph **out, const char *const *options, const char *ranks,
                         syn_error *err) {
    char *argv[MOST] = {"synth"};
    int argc = 1;
    while (*options) argv[argc++] = (char *)(uintptr_t)*options++;
    if (ranks) {
        argv[argc++] = "--ranks";
        argv[argc++] = (char *)(uintptr_t)ranks;
    }
    *out = NULL;
    cli_keep_messages(err);
    const syn_status s = synth_record(out, argc, argv, err);
    cli_keep_messages(NULL);
    return s;
}

static size_t value_bytes(syn_column_type type) {
    return type == SYN_COLUMN_U8 ? 1 : type == SYN_COLUMN_U64 || type == SYN_COLUMN_F64 ? 8 : 4;
}

/* Whether two ranks have the same nodes, dependencies and tensors. */
static bool same_rank(const syn_graph *a, uint32_t rank_a, const syn_graph *b, uint32_t rank_b) {
    syn_columns *x, *y;
    syn_error err = {0};
    if (syn_columns_read(&x, a, rank_a, 15, 1, &err) != SYN_OK) return false;
    if (syn_columns_read(&y, b, rank_b, 15, 1, &err) != SYN_OK) return false;
    bool same = x->texts.n_bytes == y->texts.n_bytes &&
                memcmp(x->texts.bytes, y->texts.bytes, x->texts.n_bytes) == 0;
    for (int t = 0; t < SYN_TABLE_COUNT; t++) {
        const syn_table *p = &x->tables[t], *q = &y->tables[t];
        same = same && p->n_rows == q->n_rows;
        for (uint32_t i = 0; same && i < p->n_columns; i++)
            same = memcmp(p->columns[i].data, q->columns[i].data,
                          (size_t)p->n_rows * value_bytes(p->columns[i].type)) == 0;
    }
    syn_columns_free(x);
    syn_columns_free(y);
    return same;
}

static const char *const jobs[][MOST] = {
    {"--model", "gpt2", "--tp", "2", "--pp", "2", "--dp", "2", "--hw", "h100", "--global-batch",
     "8", "--layers", "4"},
    {"--model", "mixtral-8x7b", "--layers", "2", "--dp", "4", "--ep", "2", "--zero", "1"},
    {"--model", "gpt2", "--layers", "2", "--tp", "2", "--phase", "generate", "--num-input-tokens",
     "8", "--num-output-tokens", "3"},
};

static void ranks_together(void) {
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        syn_graph *all, *one;
        syn_error err = {0};
        CHECK_OK(record(&all, jobs[i], NULL, &err), err);
        CHECK_INT(all->n_ranks, all->world_size);
        CHECK_OK(syn_graph_verify(all, &err), err);
        for (uint32_t r = 0; r < all->n_ranks; r++) {
            char rank[12];
            snprintf(rank, sizeof rank, "%u", (unsigned)r);
            CHECK_OK(record(&one, jobs[i], rank, &err), err);
            CHECK_INT(one->n_ranks, 1);
            CHECK_INT(one->ranks[0].rank, r);
            CHECK_MSG(same_rank(all, r, one, 0), "rank %d of job %d", (int)r, (int)i);
            syn_graph_free(one);
        }
        syn_graph_free(all);
    }
}

static void one_of_each_program(void) {
    syn_graph *g;
    syn_error err = {0};
    CHECK_OK(record(&g, jobs[0], "one-per-program", &err), err);
    CHECK_INT(g->n_ranks, 2);
    CHECK_INT(g->ranks[1].rank, 4);
    syn_graph_free(g);
}

static void mistakes(void) {
    static const struct {
        const char *options[4], *message;
    } wrong[] = {
        {{"--model", "nope"}, "unknown model 'nope'; the presets are gpt2"},
        {{"--nonsense", "1"}, "unknown option --nonsense"},
        {{"--model", "gpt2", "--tp", "5"},
         "model gpt2: tp 5 does not divide the 12 attention heads"},
        {{NULL}, "--model or --model-config selects the model; give one of them"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *options[MOST] = {NULL};
        syn_graph *g;
        syn_error err = {0};
        memcpy(options, wrong[i].options, sizeof wrong[i].options);
        CHECK(record(&g, options, NULL, &err) != SYN_OK && g == NULL);
        CHECK_MSG(strncmp(err.text, wrong[i].message, strlen(wrong[i].message)) == 0,
                  "%s instead of %s", err.text, wrong[i].message);
    }
}

static const test_case cases[] = {
    {"ranks_together", ranks_together},
    {"one_of_each_program", one_of_each_program},
    {"mistakes", mistakes},
};
TEST_MAIN(cases)
