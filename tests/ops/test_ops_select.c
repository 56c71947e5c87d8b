/* Compares argmax, top_k and penalties with their definitions, and the tokens that sampling draws
   with exactly computed distributions. */

#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* Ties go to the lowest index. The reference counts how many elements rank higher. */
static void test_argmax_and_top_k(void) {
    static ref x, values, indices, best;
    for (int round = 0; round < ref_rounds(400); round++) {
        ref_seed((uint64_t)round);
        const bool ties = round % 2;
        do ref_fill(&x, ref_random_spec(SYN_F32, 1, 5, true), ties ? -1 : -50, ties ? 1 : 50);
        while (x.spec.dims[x.spec.rank - 1] == 0);
        const int64_t n = x.spec.dims[x.spec.rank - 1], rows = syn_spec_elems(&x.spec) / n,
                      k = ref_int(1, n);
        for (int64_t i = 0; i < rows * n; i++) {
            if (ties) x.v[i] = floor(x.v[i] + 0.5) + 0.0;
            if (ref_int(0, 15) == 0) x.v[i] = -(double)INFINITY;
        }
        values.spec = indices.spec = best.spec = x.spec;
        values.spec.dims[x.spec.rank - 1] = indices.spec.dims[x.spec.rank - 1] = k;
        indices.spec.dtype = best.spec.dtype = SYN_I32;
        best.spec.dims[--best.spec.rank] = 0;
        for (int64_t i = 0; i < rows * n; i++) {
            int64_t place = 0;
            for (int64_t j = i / n * n; j < i / n * n + n; j++)
                place += x.v[j] > x.v[i] || (x.v[j] == x.v[i] && j < i);
            if (place == 0) best.v[i / n] = (double)(i % n);
            if (place >= k) continue;
            values.v[i / n * k + place] = x.v[i];
            indices.v[i / n * k + place] = (double)(i % n);
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor t = ref_wild(ctx, &x);
        syn_tensor where;
        CHECK(ref_check(ctx, syn_argmax(ctx, t), &best, 0));
        CHECK(ref_check(ctx, syn_top_k(ctx, t, k, &where), &values, 0));
        CHECK(ref_check(ctx, where, &indices, 0));
        syn_ctx_free(ctx);
    }
}

/* The reference checks for each logit whether its token occurred before. */
static void test_repetition_penalty(void) {
    static ref x, seen, want;
    for (int round = 0; round < ref_rounds(200); round++) {
        ref_seed((uint64_t)round);
        const int64_t rows = ref_int(0, 4), vocab = ref_int(1, 40), n = ref_int(0, 30);
        const float penalty = round % 3 ? (float)ref_real(0.1, 3) : 1.0F;
        ref_fill(&x, (syn_spec){SYN_F32, 2, {rows, vocab}}, -5, 5);
        for (int64_t i = 0; i < rows * vocab; i++)
            if (ref_int(0, 9) == 0) x.v[i] = ref_int(0, 1) ? 0 : -(double)INFINITY;
        seen.spec = (syn_spec){SYN_I32, 2, {rows, n}};
        for (int64_t i = 0; i < rows * n; i++) seen.v[i] = (double)ref_int(-1, vocab - 1);
        want = x;
        for (int64_t i = 0; i < rows * vocab; i++) {
            bool was_seen = false;
            for (int64_t k = i / vocab * n; k < i / vocab * n + n; k++)
                was_seen = was_seen || (int64_t)seen.v[k] == i % vocab;
            if (was_seen) want.v[i] *= x.v[i] < 0 ? (double)penalty : 1 / (double)penalty;
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor t = ref_wild(ctx, &x), ids = ref_wild(ctx, &seen);
        CHECK(ref_check(ctx, syn_repetition_penalty(ctx, t, ids, (double)penalty), &want, 1e-6));
        syn_ctx_free(ctx);
    }
    /* Ids are data, so invalid ids are found only when the op runs. */
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_spec logits = {SYN_F32, 2, {1, 3}}, ids = {SYN_I32, 2, {1, 2}};
    float none[3];
    const syn_tensor bad =
        syn_repetition_penalty(ctx, syn_input(ctx, "logits", &logits, (const float[]){1, 2, 3}),
                               syn_input(ctx, "seen", &ids, (const int32_t[]){2, 3}), 1.5);
    CHECK(syn_tensor_read(ctx, bad, none, sizeof none) != SYN_OK);
    CHECK_HAS(syn_ctx_error(ctx)->text, "token id 3 is out of range: there are 3 tokens");
    syn_ctx_free(ctx);
}

/* ---- Sampling ---- */

enum { VOCAB_MAX = 1000, ROWS = 3000 };

/* The distribution by definition: sort, keep top_k, renormalize, keep the nucleus (top_p), keep the
   tokens that are likely enough relative to the most likely one (min_p), renormalize. */
static void distribution(const double *logits, int n, const syn_sampling *how, double *p) {
    int order[VOCAB_MAX];
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && logits[order[j]] > logits[order[j - 1]]; j--) {
            const int keep = order[j];
            order[j] = order[j - 1];
            order[j - 1] = keep;
        }
    const int k = how->top_k > 0 && how->top_k < n ? (int)how->top_k : n;
    double total = 0, reached = 0, kept = 0;
    for (int i = 0; i < n; i++) p[i] = 0;
    for (int i = 0; i < k; i++)
        total += exp((logits[order[i]] - logits[order[0]]) / how->temperature);
    for (int i = 0; i < k && (reached < how->top_p || how->top_p == 1.0); i++) {
        p[order[i]] = exp((logits[order[i]] - logits[order[0]]) / how->temperature) / total;
        reached += p[order[i]];
    }
    for (int i = n - 1; i >= 0; i--)
        if (p[order[i]] < how->min_p * p[order[0]]) p[order[i]] = 0;
    for (int i = 0; i < n; i++) kept += p[i];
    for (int i = 0; i < n; i++) p[i] /= kept;
}

/* Samples at one step from `rows` equal rows of logits. */
static void draw(const double *logits, int n, const syn_sampling *how, int64_t step, int64_t rows,
                 int32_t *out) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_spec spec = {SYN_F32, 2, {rows, n}};
    float *data = malloc((size_t)syn_spec_bytes(&spec));
    for (int64_t i = 0; i < rows * n; i++) data[i] = (float)logits[i % n];
    const syn_tensor t = syn_sample(ctx, syn_input(ctx, "logits", &spec, data), how, step);
    if (syn_tensor_read(ctx, t, out, (size_t)rows * sizeof *out) != SYN_OK) {
        fprintf(stderr, "%s\n", syn_ctx_error(ctx)->text);
        abort();
    }
    free(data);
    syn_ctx_free(ctx);
}

/* Whether the draws match the distribution. Pearson's chi-squared statistic must be far below its
   10^-5 quantile. Tokens with fewer than 5 expected draws are pooled. */
static bool fits(const double *p, const int32_t *drawn, int draws, int n) {
    static double seen[VOCAB_MAX];
    double statistic = 0, rest_seen = 0, rest_wanted = 0;
    int cells = 0;
    for (int i = 0; i < n; i++) seen[i] = 0;
    for (int i = 0; i < draws; i++) {
        if (drawn[i] < 0 || drawn[i] >= n || p[drawn[i]] == 0.0) {
            fprintf(stderr, "drew token %d, which has no probability\n", drawn[i]);
            return false;
        }
        seen[drawn[i]]++;
    }
    for (int i = 0; i < n; i++) {
        if (p[i] * draws < 5) {
            rest_seen += seen[i];
            rest_wanted += p[i] * draws;
            continue;
        }
        statistic += pow(seen[i] - p[i] * draws, 2) / (p[i] * draws);
        cells++;
    }
    if (rest_wanted > 1) statistic += pow(rest_seen - rest_wanted, 2) / rest_wanted;
    const double limit = cells + 5 * sqrt(2.0 * cells) + 10;
    if (statistic > limit) fprintf(stderr, "chi-square %.1f of %d cells\n", statistic, cells);
    return statistic <= limit;
}

static void test_sample_distribution(void) {
    static const struct {
        int vocab;
        double spread;
        syn_sampling how;
    } runs[] = {{7, 2, {1.0, 0, 1.0, 1, 0}},          {7, 2, {0.3, 0, 1.0, 2, 0}},
                {7, 2, {3.0, 0, 1.0, 3, 0}},          {7, 2, {1.0, 3, 1.0, 4, 0}},
                {7, 2, {1.0, 100, 1.0, 5, 0}},        {7, 2, {1.0, 0, 0.7, 6, 0}},
                {7, 2, {1.0, 5, 0.6, 7, 0}},          {7, 2, {1.0, 0, 1e-9, 8, 0}},
                {1, 1, {1.0, 0, 1.0, 9, 0}},          {300, 0.5, {1.0, 0, 0.9, 10, 0}},
                {300, 0.5, {1.0, 100, 0.9, 11, 0}},   {300, 3, {1.0, 0, 0.5, 12, 0}},
                {300, 0.5, {1.0, 64, 0.5, 13, 0}},    {300, 0.5, {0.7, 65, 1.0, 14, 0}},
                {400, 0.2, {1.0, 0, 0.99, 15, 0}},    {400, 0.2, {1.0, 350, 0.999, 16, 0}},
                {65, 0.1, {1.0, 0, 0.995, 17, 0}},    {64, 0.1, {1.0, 0, 0.999, 18, 0}},
                {7, 2, {1.0, 0, 1.0, 19, 0.1}},       {7, 2, {0.5, 5, 1.0, 20, 0.2}},
                {7, 2, {2.0, 0, 0.9, 21, 0.3}},       {300, 3, {1.0, 0, 1.0, 22, 0.05}},
                {300, 3, {0.7, 100, 0.95, 23, 0.01}}, {7, 2, {1.0, 0, 1.0, 24, 1.0}}};
    static double logits[VOCAB_MAX], p[VOCAB_MAX];
    static int32_t drawn[ROWS * 4];
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        const int n = runs[r].vocab;
        ref_seed(r);
        for (int i = 0; i < n; i++) logits[i] = ref_real(-runs[r].spread, runs[r].spread);
        distribution(logits, n, &runs[r].how, p);
        const int steps = n < 100 ? 4 : 1;
        for (int step = 0; step < steps; step++)
            draw(logits, n, &runs[r].how, step * 3, ROWS, drawn + step * ROWS);
        CHECK_MSG(fits(p, drawn, steps * ROWS, n), "run %zu", r);
    }
}

/* Reads the numbers of a line. Afterwards *at points behind them. */
static int numbers_of(const char **at, double *out, int most) {
    int n = 0;
    for (char *end; **at && **at != '\n'; *at = end) {
        const double x = strtod(*at, &end);
        if (n < most && end > *at) out[n++] = x;
        end += *end == ' ';
    }
    *at += **at == '\n';
    return n;
}

/* Sampling matches the probabilities after the logits processors and warpers of transformers.
   Tokens that these remove have probability zero. */
static void test_what_transformers_keeps(void) {
    static double logits[VOCAB_MAX], p[VOCAB_MAX];
    static float rows[ROWS * VOCAB_MAX];
    static int32_t drawn[ROWS], ids[ROWS * 9];
    double how[5], seen[9];
    size_t bytes;
    int cases = 0;
    char *text = file_bytes(reference_path("sampling_fixture.txt"), &bytes);
    CHECK(text != NULL);
    for (const char *at = text; at && *at; cases++) {
        const bool whole = numbers_of(&at, how, 5) == 5 && numbers_of(&at, seen, 9) == 9;
        const int n = numbers_of(&at, logits, VOCAB_MAX);
        CHECK(whole && n > 0 && numbers_of(&at, p, VOCAB_MAX) == n);
        for (int i = 0; i < ROWS * 9; i++) ids[i] = (int32_t)seen[i % 9];
        for (int i = 0; i < ROWS * n; i++) rows[i] = (float)logits[i % n];
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_spec shape = {SYN_F32, 2, {ROWS, n}}, ids_shape = {SYN_I32, 2, {ROWS, 9}};
        const syn_sampling draws = {how[0], (int64_t)how[1], how[2], (uint64_t)cases, how[3]};
        const syn_tensor x =
            syn_repetition_penalty(ctx, syn_input(ctx, "logits", &shape, rows),
                                   syn_input(ctx, "seen", &ids_shape, ids), how[4]);
        CHECK(syn_tensor_read(ctx, syn_sample(ctx, x, &draws, 0), drawn, sizeof drawn) == SYN_OK);
        CHECK_MSG(fits(p, drawn, ROWS, n), "case %d", cases);
        syn_ctx_free(ctx);
    }
    CHECK_INT(cases, 12);
    free(text);
}

/* One row at many steps, and one row and step with many seeds, must also give fair sequences. */
static void test_sample_along_steps_and_seeds(void) {
    static const double logits[3] = {0.5, 0, -1};
    static double p[3];
    static int32_t steps[2000], seeds[2000];
    for (int i = 0; i < 2000; i++) {
        const syn_sampling a = {1.0, 0, 1.0, 42, 0}, b = {1.0, 0, 1.0, (uint64_t)i, 0};
        draw(logits, 3, &a, i, 1, steps + i);
        draw(logits, 3, &b, 0, 1, seeds + i);
        distribution(logits, 3, &a, p);
    }
    CHECK(fits(p, steps, 2000, 3));
    CHECK(fits(p, seeds, 2000, 3));
}

static void test_nucleus_rule(void) {
    /* probabilities 1/2, 1/4, 1/8 and 1/8, which are exact in any precision */
    static double logits[4];
    static int32_t drawn[500];
    static const struct {
        double top_p;
        int tokens;
    } sizes[] = {{1e-6, 1}, {0.5, 1},   {0.500001, 2}, {0.75, 2},
                 {0.76, 3}, {0.875, 3}, {0.8751, 4},   {1.0, 4}};
    for (int i = 0; i < 4; i++) logits[i] = log(i == 3 ? 0.125 : pow(0.5, i + 1));
    logits[2] = logits[3] = (double)(float)logits[2];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const syn_sampling how = {1.0, 0, sizes[k].top_p * (1 - 1e-7), 3, 0};
        int32_t most = 0;
        draw(logits, 4, &how, 0, 500, drawn);
        for (int i = 0; i < 500; i++) most = drawn[i] > most ? drawn[i] : most;
        CHECK_MSG(most == sizes[k].tokens - 1, "top_p %g: highest token %d", sizes[k].top_p, most);
    }
}

static void test_temperature_limits(void) {
    static const double logits[5] = {1, 3, 3, -2, 2.9999};
    static int32_t drawn[1000], other[1000];
    const syn_sampling cold = {0.0, 0, 1.0, 1, 0}, cold_cut = {0.0, 2, 0.1, 2, 0};
    draw(logits, 5, &cold, 0, 100, drawn);
    draw(logits, 5, &cold_cut, 9, 100, other);
    /* Among equal logits, the lowest index is drawn. */
    for (int i = 0; i < 100; i++) CHECK(drawn[i] == 1 && other[i] == 1);
    static const double nearly_cold[] = {1e-6, 1e-30, 1e-300, 1e-310, 5e-324};
    for (int k = 0; k < 5; k++) { /* the two largest logits share the probability */
        const syn_sampling how = {nearly_cold[k], 0, 1.0, 1, 0};
        int ones = 0;
        draw(logits, 5, &how, 0, 1000, drawn);
        for (int i = 0; i < 1000; i++) {
            CHECK_MSG(drawn[i] == 1 || drawn[i] == 2, "temperature %g draws %d", nearly_cold[k],
                      drawn[i]);
            ones += drawn[i] == 1;
        }
        CHECK_NEAR(ones, 500, 80);
    }
    static double flat[5];
    const syn_sampling hot = {1e30, 0, 1.0, 4, 0}, hottest = {1e308, 4, 0.9, 4, 0};
    static int32_t hot_drawn[ROWS];
    for (int i = 0; i < 5; i++) flat[i] = 0.2;
    draw(logits, 5, &hot, 0, ROWS, hot_drawn);
    CHECK(fits(flat, hot_drawn, ROWS, 5));
    for (int i = 0; i < 5; i++) flat[i] = i == 3 ? 0 : 0.25;
    draw(logits, 5, &hottest, 0, ROWS, hot_drawn);
    CHECK(fits(flat, hot_drawn, ROWS, 5));
}

/* Masked tokens are never drawn. */
static void test_sample_masked(void) {
    static double logits[100];
    static int32_t drawn[ROWS];
    for (int i = 0; i < 100; i++) logits[i] = i % 10 == 4 ? i * 0.001 : -(double)INFINITY;
    static const syn_sampling hows[] = {
        {1.0, 0, 1.0, 1, 0}, {0.5, 50, 1.0, 2, 0}, {2.0, 0, 0.9999, 3, 0}, {1.0, 80, 0.99, 4, 0}};
    for (int k = 0; k < 4; k++) {
        draw(logits, 100, &hows[k], 0, ROWS, drawn);
        for (int i = 0; i < ROWS; i++) CHECK_INT(drawn[i] % 10, 4);
    }
}

/* If no token has a probability, any token of the vocabulary may be drawn. */
static void test_no_probabilities(void) {
    static const double rows[3][3] = {
        {-INFINITY, -INFINITY, -INFINITY}, {NAN, NAN, NAN}, {1, INFINITY, 2}};
    static const syn_sampling hows[] = {
        {1.0, 0, 1.0, 1, 0}, {1.0, 0, 1.0, 2, 0.1}, {1.0, 2, 1.0, 3, 0.1}, {1.0, 0, 0.9, 4, 1.0}};
    for (int row = 0; row < 3; row++)
        for (int k = 0; k < 4; k++) {
            int32_t drawn[4];
            draw(rows[row], 3, &hows[k], k, 4, drawn);
            for (int i = 0; i < 4; i++)
                CHECK_MSG(drawn[i] >= 0 && drawn[i] < 3, "row %d, run %d: %d", row, k, drawn[i]);
        }
}

/* A draw depends only on (seed, step, row). It does not depend on other draws, on their order, or
   on the layout of the logits. */
static void test_sample_is_a_function(void) {
    static ref x, want;
    static int32_t all[12], few[12];
    double logits[20];
    ref_seed(11);
    for (int i = 0; i < 20; i++) logits[i] = ref_real(-1, 1);
    const syn_sampling how = {1.0, 0, 1.0, 77, 0};
    syn_sampling other = how;
    other.seed = 78;
    draw(logits, 20, &how, 5, 12, all);
    draw(logits, 20, &how, 5, 4, few);
    CHECK(memcmp(all, few, 4 * sizeof *few) == 0);
    draw(logits, 20, &how, 6, 12, few);
    CHECK(memcmp(all, few, sizeof few) != 0);
    draw(logits, 20, &other, 5, 12, few);
    CHECK(memcmp(all, few, sizeof few) != 0);
    x.spec = (syn_spec){SYN_F32, 2, {12, 20}};
    want.spec = (syn_spec){SYN_I32, 1, {12}};
    for (int i = 0; i < 240; i++) x.v[i] = (double)(float)logits[i % 20];
    for (int i = 0; i < 12; i++) want.v[i] = all[i];
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    for (int round = 0; round < 20; round++) {
        syn_sample(ctx, ref_wild(ctx, &x), &other, round);
        CHECK(ref_check(ctx, syn_sample(ctx, ref_wild(ctx, &x), &how, 5), &want, 0));
    }
    syn_ctx_free(ctx);
}

/* A vocabulary that would take hours with quadratic time. Also tests a flat distribution, the worst
   case. */
static void test_large_vocabulary(void) {
    enum { V = 1500000, B = 2 };
    static float logits[B * V];
    static const syn_sampling hows[] = {
        {1.0, 0, 1.0, 1, 0}, {0.8, 50, 0.95, 1, 0}, {1.0, 0, 0.9, 1, 0}, {1.0, V - 257, 0.9, 1, 0}};
    ref_seed(1);
    for (int i = 0; i < B * V; i++)
        logits[i] = i < B / 2 * V ? (float)ref_real(-4, 4) : (float)(i % V) * 1e-8f;
    const syn_spec spec = {SYN_F32, 2, {B, V}};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = syn_input(ctx, "logits", &spec, logits);
    for (int k = 0; k < (ref_on_cuda() ? 2 : 4); k++) {
        int32_t out[B];
        CHECK(syn_tensor_read(ctx, syn_sample(ctx, x, &hows[k], k), out, sizeof out) == SYN_OK);
        for (int b = 0; b < B; b++) CHECK(out[b] >= 0 && out[b] < V);
    }
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"argmax and top_k", test_argmax_and_top_k},
    {"repetition penalty", test_repetition_penalty},
    {"sample distribution", test_sample_distribution},
    {"what transformers keeps", test_what_transformers_keeps},
    {"sample along steps and seeds", test_sample_along_steps_and_seeds},
    {"nucleus rule", test_nucleus_rule},
    {"temperature limits", test_temperature_limits},
    {"sample masked", test_sample_masked},
    {"no probabilities", test_no_probabilities},
    {"sample is a function", test_sample_is_a_function},
    {"large vocabulary", test_large_vocabulary},
};
TEST_MAIN(cases)
