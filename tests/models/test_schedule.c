/* Tests pipeline schedules. Their orders must be those of the papers and of Megatron-LM. For many
   shapes, all stages together must finish, in the time of the closed formulas. */
#include "models/training/schedule.h"
#include "syntorch/base/memory.h"
#include "tests/support/test.h"

enum { MAX_STAGES = 8, PASSES = 3 };

/* Writes a stage's actions as "F0 F1 BW0 ...", with a prime for each chunk after the first. */
static void describe(const syn_schedule_shape *shape, int32_t stage, char *text, size_t bytes) {
    syn_action *actions;
    size_t n, used = 0;
    syn_error err = {0};
    CHECK_OK(syn_schedule_make(&actions, &n, shape, stage, &err), err);
    text[0] = '\0';
    for (size_t i = 0; i < n && used + 16 < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%u", i > 0 ? " " : "",
                                 syn_action_name((syn_action_kind)actions[i].kind),
                                 actions[i].microbatch);
        for (int c = 0; c < actions[i].chunk; c++) text[used++] = '\'';
        text[used] = '\0';
    }
    syn_free(actions);
}

static void test_published_orders(void) {
    static const struct {
        syn_schedule_shape shape;
        int32_t stage;
        const char *order;
    } cases[] = {
        {{SYN_SCHEDULE_GPIPE, 2, 1, 3, 0}, 0, "F0 F1 F2 BW0 BW1 BW2"},
        {{SYN_SCHEDULE_1F1B, 4, 1, 4, 0}, 0, "F0 F1 F2 F3 BW0 BW1 BW2 BW3"},
        {{SYN_SCHEDULE_1F1B, 4, 1, 4, 0}, 2, "F0 F1 BW0 F2 BW1 F3 BW2 BW3"},
        {{SYN_SCHEDULE_1F1B, 4, 1, 4, 0}, 3, "F0 BW0 F1 BW1 F2 BW2 F3 BW3"},
        {{SYN_SCHEDULE_1F1B, 4, 1, 2, 0}, 0, "F0 F1 BW0 BW1"}, /* fewer microbatches than stages */
        /* From get_schedule_table of Megatron-LM, for two stages with two chunks each. */
        {{SYN_SCHEDULE_INTERLEAVED, 2, 2, 4, 0},
         0,
         "F0 F1 F0' F1' F2 BW0' F3 BW1' F2' BW0 F3' BW1 BW2' BW3' BW2 BW3"},
        {{SYN_SCHEDULE_INTERLEAVED, 2, 2, 4, 0},
         1,
         "F0 F1 F0' BW0' F1' BW1' F2 BW0 F3 BW1 F2' BW2' F3' BW3' BW2 BW3"},
        /* From the quick start of the zero-bubble project, for four stages and six microbatches. */
        {{SYN_SCHEDULE_ZB_H1, 4, 1, 6, 0}, 0, "F0 F1 F2 F3 BW0 F4 BW1 F5 BW2 BW3 BW4 BW5"},
        {{SYN_SCHEDULE_ZB_H1, 4, 1, 6, 0}, 3, "F0 B0 F1 B1 F2 B2 F3 BW3 F4 BW4 F5 B5 W0 W1 W2 W5"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512];
        describe(&cases[i].shape, cases[i].stage, text, sizeof text);
        CHECK_STR(text, cases[i].order);
    }
}

/* ---- replay ---- */

typedef struct stage {
    syn_action *actions;
    size_t n, next;
    /* End times of F, B and W by chunk and microbatch; < 0: not finished yet. */
    double *done[PASSES];
    double free_at;
    int in_flight, most_in_flight;
} stage;

typedef struct pipeline {
    syn_schedule_shape shape;
    stage stages[MAX_STAGES];
    double cost[SYN_ACTION_KINDS];
} pipeline;

static size_t place(const pipeline *p, int chunk, uint32_t microbatch) {
    return (size_t)chunk * (size_t)p->shape.microbatches + microbatch;
}

static double when(const pipeline *p, int stage_index, int pass, int chunk, uint32_t microbatch) {
    return p->stages[stage_index].done[pass][place(p, chunk, microbatch)];
}

/* The time at which the input of an action is available; < 0: not yet known. */
static double input_at(const pipeline *p, int at, const syn_action *a) {
    const int last = p->shape.stages - 1, chunks = p->shape.chunks;
    if (a->kind == SYN_ACTION_FORWARD) {
        if (at > 0) return when(p, at - 1, 0, a->chunk, a->microbatch);
        return a->chunk > 0 ? when(p, last, 0, a->chunk - 1, a->microbatch) : 0;
    }
    if (a->kind == SYN_ACTION_BACKWARD_WEIGHTS) return when(p, at, 1, a->chunk, a->microbatch);
    if (when(p, at, 0, a->chunk, a->microbatch) < 0) return -1;
    if (at < last) return when(p, at + 1, 1, a->chunk, a->microbatch);
    return a->chunk < chunks - 1 ? when(p, 0, 1, a->chunk + 1, a->microbatch) : 0;
}

static void finish(pipeline *p, int at, const syn_action *a, double start) {
    stage *s = &p->stages[at];
    const size_t i = place(p, a->chunk, a->microbatch);
    s->free_at = start + p->cost[a->kind];
    if (a->kind == SYN_ACTION_FORWARD) {
        CHECK(s->done[0][i] < 0);
        s->done[0][i] = s->free_at;
        if (++s->in_flight > s->most_in_flight) s->most_in_flight = s->in_flight;
        return;
    }
    if (a->kind != SYN_ACTION_BACKWARD_WEIGHTS) {
        CHECK(s->done[1][i] < 0);
        s->done[1][i] = s->free_at;
        s->in_flight--;
    }
    if (a->kind != SYN_ACTION_BACKWARD_INPUT) {
        CHECK(s->done[2][i] < 0);
        s->done[2][i] = s->free_at;
    }
}

/* Runs all stages. Returns the time at which the last one ends, or -1 if they deadlock. */
static double replay(pipeline *p) {
    bool moved = true;
    double end = 0;
    while (moved) {
        moved = false;
        for (int at = 0; at < p->shape.stages; at++) {
            stage *s = &p->stages[at];
            for (; s->next < s->n; s->next++) {
                const double input = input_at(p, at, &s->actions[s->next]);
                if (input < 0) break;
                finish(p, at, &s->actions[s->next], input > s->free_at ? input : s->free_at);
                moved = true;
            }
        }
    }
    for (int at = 0; at < p->shape.stages; at++) {
        const stage *s = &p->stages[at];
        if (s->next < s->n) return -1;
        if (s->free_at > end) end = s->free_at;
    }
    return end;
}

static void run(pipeline *p) {
    syn_error err = {0};
    const size_t all = (size_t)p->shape.chunks * (size_t)p->shape.microbatches;
    for (int at = 0; at < p->shape.stages; at++) {
        stage *s = &p->stages[at];
        *s = (stage){0};
        CHECK_OK(syn_schedule_make(&s->actions, &s->n, &p->shape, at, &err), err);
        for (int k = 0; k < PASSES; k++) {
            s->done[k] = syn_calloc(all, sizeof(double));
            for (size_t i = 0; i < all; i++) s->done[k][i] = -1;
        }
    }
}

static void end_run(pipeline *p) {
    for (int at = 0; at < p->shape.stages; at++) {
        stage *s = &p->stages[at];
        for (int k = 0; k < PASSES; k++) {
            for (size_t i = 0; i < place(p, p->shape.chunks, 0); i++) CHECK(s->done[k][i] >= 0);
            syn_free(s->done[k]);
        }
        syn_free(s->actions);
    }
}

/* Every microbatch goes through each stage once in each direction, and no order deadlocks. The step
   takes the time of one stage's work plus the bubble. The bubble is (p - 1) (f + b + w), divided by
   the number of chunks if they are interleaved in groups of p. For ZB-H1 with f = b = w and at
   least 2 p - 1 microbatches, it is (p - 1) (f + b - w). */
static void check_shape(const syn_schedule_shape *shape) {
    const double v = shape->chunks, f = 6 / v, b = 6 / v, w = 6 / v;
    pipeline p = {.shape = *shape, .cost = {f, b + w, b, w}};
    const int stages = shape->stages, m = shape->microbatches;
    char what[96];
    snprintf(what, sizeof what, "schedule %d, %d stages of %d chunks, %d microbatches",
             (int)shape->schedule, stages, (int)shape->chunks, m);
    run(&p);
    const double end = replay(&p), work = m * v * (f + b + w);
    double bubble = (stages - 1) * (f + b + w); /* f, b and w are those of a chunk */
    CHECK_MSG(end > 0, "%s: deadlock", what);
    if (shape->schedule == SYN_SCHEDULE_ZB_H1) bubble = (stages - 1) * (f + b - w);
    const bool exact = shape->schedule != SYN_SCHEDULE_ZB_H1 || m >= 2 * stages - 1;
    if (exact) CHECK_MSG(fabs(end - work - bubble) < 1e-9, "%s: %g", what, end - work);
    for (int at = 0; at < stages; at++) {
        const int flying = p.stages[at].most_in_flight;
        int most = stages - at;
        if (shape->schedule == SYN_SCHEDULE_GPIPE) most = m;
        if (shape->chunks > 1) most = 2 * (stages - 1 - at) + (shape->chunks - 1) * stages + 1;
        if (most > m * shape->chunks) most = m * shape->chunks;
        CHECK_MSG(flying == most, "%s: stage %d has %d in flight, not %d", what, at, flying, most);
    }
    end_run(&p);
}

static void test_all_shapes(void) {
    for (int p = 1; p <= MAX_STAGES; p++)
        for (int m = 1; m <= 24; m++) {
            check_shape(&(syn_schedule_shape){SYN_SCHEDULE_GPIPE, p, 1, m, 0});
            check_shape(&(syn_schedule_shape){SYN_SCHEDULE_1F1B, p, 1, m, 0});
            check_shape(&(syn_schedule_shape){SYN_SCHEDULE_ZB_H1, p, 1, m, 0});
            for (int v = 2; v <= 4 && p > 1 && m % p == 0; v++)
                check_shape(&(syn_schedule_shape){SYN_SCHEDULE_INTERLEAVED, p, v, m, 0});
        }
}

/* Groups with more microbatches than stages, and a last group that is smaller than the others. */
static void test_groups(void) {
    for (int p = 2; p <= 5; p++)
        for (int v = 2; v <= 3; v++)
            for (int m = p; m <= 20; m++)
                for (int group = p; group <= m; group++) {
                    syn_error err = {0};
                    pipeline line = {.shape = {SYN_SCHEDULE_INTERLEAVED, p, v, m, group},
                                     .cost = {1, 2, 1, 1}};
                    const bool good = m % group == 0 || m % group >= p;
                    const syn_status s = syn_schedule_check(&line.shape, &err);
                    CHECK_INT(s, good ? SYN_OK : SYN_E_INVALID);
                    if (!good) continue;
                    run(&line);
                    CHECK_MSG(replay(&line) > 0, "%d stages, %d chunks, %d of %d", p, v, m, group);
                    end_run(&line);
                }
}

static void test_refusals(void) {
    static const struct {
        syn_schedule_shape shape;
        const char *says;
    } cases[] = {
        {{SYN_SCHEDULE_1F1B, 2, 2, 4, 0}, "2 chunks per stage need the interleaved schedule"},
        {{SYN_SCHEDULE_ZB_H1, 2, 2, 4, 0}, "2 chunks per stage need the interleaved schedule"},
        {{SYN_SCHEDULE_INTERLEAVED, 4, 2, 3, 0}, "as there are stages (4), not 3"},
        {{SYN_SCHEDULE_INTERLEAVED, 4, 2, 8, 2},
         "groups of 2 microbatches: the interleaved schedule needs 4 "},
        {{SYN_SCHEDULE_INTERLEAVED, 4, 2, 10, 0}, "leave a last group of 2"},
        {{SYN_SCHEDULE_1F1B, 0, 1, 4, 0}, "each number must be at least 1"},
        {{SYN_SCHEDULE_1F1B, 2, 1, 0, 0}, "each number must be at least 1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        syn_error err = {0};
        CHECK_INT(syn_schedule_check(&cases[i].shape, &err), SYN_E_INVALID);
        CHECK_HAS(err.text, cases[i].says);
    }
}

static const test_case cases[] = {
    {"published orders", test_published_orders},
    {"all shapes", test_all_shapes},
    {"groups", test_groups},
    {"refusals", test_refusals},
};
TEST_MAIN(cases)
