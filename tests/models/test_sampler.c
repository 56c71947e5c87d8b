/* Tests the order of samples: the ranks together process each sample once per epoch, for any number
   of ranks. */
#include "models/training/sampler.h"

#include "tests/support/test.h"

enum { MOST = 2000 };

/* In an order of n samples, each sample occurs once. */
static void every_text_once(void) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 257, 1000, MOST};
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (int64_t epoch = 0; epoch < 5; epoch++) {
            const syn_sampler s = {
                .n = sizes[k], .batch = 1, .ranks = 1, .seed = 7 + k, .shuffle = true};
            bool seen[MOST] = {false};
            for (int64_t i = 0; i < s.n; i++) {
                const int64_t at = syn_sampler_place(&s, epoch, i);
                CHECK(at >= 0 && at < s.n && !seen[at]);
                seen[at] = true;
            }
        }
}

/* The number of positions at which two orders have the same sample. */
static int64_t fixed_points(const syn_sampler *a, int64_t epoch_a, const syn_sampler *b,
                            int64_t epoch_b) {
    int64_t n = 0;
    for (int64_t i = 0; i < a->n; i++)
        n += syn_sampler_place(a, epoch_a, i) == syn_sampler_place(b, epoch_b, i);
    return n;
}

/* Two random orders have, on average, one position with the same sample. */
static void other_orders(void) {
    syn_sampler a = {.n = 1000, .batch = 1, .ranks = 1, .seed = 1, .shuffle = true}, b = a;
    syn_sampler plain = a;
    plain.shuffle = false;
    b.seed = 2;
    CHECK_INT(fixed_points(&a, 3, &a, 3), 1000);
    CHECK_INT(fixed_points(&plain, 0, &plain, 9), 1000);
    int64_t epochs = 0, seeds = 0, moved = 0;
    for (int64_t e = 0; e < 20; e++) {
        epochs += fixed_points(&a, e, &a, e + 1);
        seeds += fixed_points(&a, e, &b, e);
        moved += fixed_points(&a, e, &plain, e);
    }
    CHECK(epochs < 60 && seeds < 60 &&
          moved < 60); /* 20 are expected; each count has nearly a Poisson distribution */
}

/* Each sample is equally likely at each position: chi-squared of 10 x 10 cells over many seeds. */
static void orders_are_even(void) {
    enum { N = 100, SEEDS = 4000, CELLS = 10 };
    int64_t cells[CELLS][CELLS] = {{0}};
    double chi = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const syn_sampler s = {.n = N, .batch = 1, .ranks = 1, .seed = seed, .shuffle = true};
        for (int64_t i = 0; i < N; i++)
            cells[i * CELLS / N][syn_sampler_place(&s, 0, i) * CELLS / N]++;
    }
    const double want = (double)SEEDS * N / (CELLS * CELLS);
    for (int i = 0; i < CELLS; i++)
        for (int j = 0; j < CELLS; j++)
            chi += ((double)cells[i][j] - want) * ((double)cells[i][j] - want) / want;
    CHECK_MSG(chi < 81 + 5 * sqrt(2 * 81.0), "chi squared %g with 81 degrees", chi);
}

/* The ranks share the samples of a step. The samples are the same for any number of ranks. */
static void ranks_share(void) {
    enum { N = 101, TOGETHER = 8 };
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t step = 0; step < N / TOGETHER; step++) {
            int64_t alone[TOGETHER];
            const syn_sampler one = {
                .n = N, .batch = TOGETHER, .ranks = 1, .seed = 5, .shuffle = true};
            CHECK_INT(syn_sampler_steps(&one), N / TOGETHER);
            syn_sampler_batch(&one, epoch, step, 0, alone);
            for (int32_t ranks = 2; ranks <= TOGETHER; ranks *= 2) {
                syn_sampler s = one;
                s.ranks = ranks;
                s.batch = TOGETHER / ranks;
                CHECK_INT(syn_sampler_steps(&s), N / TOGETHER);
                for (int32_t rank = 0; rank < ranks; rank++) {
                    int64_t mine[TOGETHER];
                    syn_sampler_batch(&s, epoch, step, rank, mine);
                    for (int64_t i = 0; i < s.batch; i++)
                        CHECK_INT(mine[i], alone[i * ranks + rank]);
                }
            }
        }
    const syn_sampler few = {.n = 7, .batch = 2, .ranks = 4, .seed = 1, .shuffle = true};
    CHECK_INT(syn_sampler_steps(&few), 0);
}

/* Each of n samples occurs once, on any number of ranks. All other rows are empty (-1). */
static void a_whole_epoch(void) {
    enum { BATCH = 3, RANKS = 5, N = 2 * BATCH * RANKS + 1 };
    for (int64_t n = 0; n <= N; n++)
        for (int32_t ranks = 1; ranks <= RANKS; ranks++) {
            const syn_sampler s = {.n = n, .batch = BATCH, .ranks = ranks, .whole = true};
            const int64_t steps = syn_sampler_steps(&s);
            int64_t which[BATCH], seen[N] = {0}, none = 0;
            for (int64_t at = 0; at < steps * ranks; at++) {
                syn_sampler_batch(&s, 0, at / ranks, (int32_t)(at % ranks), which);
                for (int i = 0; i < BATCH; i++) {
                    CHECK(which[i] >= -1 && which[i] < n);
                    if (which[i] < 0) none++;
                    else seen[which[i]]++;
                }
            }
            for (int64_t i = 0; i < n; i++) CHECK_INT(seen[i], 1);
            CHECK_INT(none, steps * BATCH * ranks - n);
            CHECK(none < BATCH * ranks);
        }
}

static const test_case cases[] = {
    {"every text once", every_text_once}, {"other orders", other_orders},
    {"orders are even", orders_are_even}, {"ranks share", ranks_share},
    {"a whole epoch", a_whole_epoch},
};

TEST_MAIN(cases)
