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
        const char *joint = i == 0 ? "" : actions[i - 1].paired ? "+" : " ";
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%u", joint,
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
        /* From DeepSeek's dualpipe.py; + joins passes that overlap. */
        {{SYN_SCHEDULE_DUALPIPE, 4, 2, 8, 0},
         0,
         "F0 F1 F2 F4' B4' W4' F5' F3+BW5' F6'+BW0 BW6' F7'+BW1 BW7' B2 W2 B3 W3"},
        {{SYN_SCHEDULE_DUALPIPE, 4, 2, 8, 0},
         2,
         "F4 F0' F5 F1' F6 BW0' F2'+BW4 F7+BW1' F3'+BW5 BW2' BW6 B3' B7 W3' W7"},
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

/* The same for the stage and chunk that run the microbatch in a virtual stage; 0 if there is no
   such virtual stage. */
static double when_at(const pipeline *p, int virtual_stage, int pass, uint32_t microbatch) {
    int chunk = 0;
    if (virtual_stage < 0 || virtual_stage >= syn_schedule_virtual_stages(&p->shape)) return 0;
    const int at = syn_schedule_stage_of(&p->shape, virtual_stage, microbatch);
    while (syn_schedule_virtual_stage(&p->shape, at, chunk) != virtual_stage) chunk++;
    return when(p, at, pass, chunk, microbatch);
}

/* The time at which the input of an action is available; < 0: not yet known. */
static double input_at(const pipeline *p, int at, const syn_action *a) {
    const int here = syn_schedule_virtual_stage(&p->shape, at, a->chunk);
    if (a->kind == SYN_ACTION_FORWARD) return when_at(p, here - 1, 0, a->microbatch);
    if (a->kind == SYN_ACTION_BACKWARD_WEIGHTS) return when(p, at, 1, a->chunk, a->microbatch);
    if (when(p, at, 0, a->chunk, a->microbatch) < 0) return -1;
    return when_at(p, here + 1, 1, a->microbatch);
}

static void finish(pipeline *p, int at, const syn_action *a, double end) {
    stage *s = &p->stages[at];
    const size_t i = place(p, a->chunk, a->microbatch);
    s->free_at = end;
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
            while (s->next < s->n) {
                const syn_action *a = &s->actions[s->next];
                double start = s->free_at, cost = 0;
                bool waits = false;
                const int n = 1 + a->paired; /* the passes of a pair begin and end together */
                for (int i = 0; i < n; i++) {
                    const double input = input_at(p, at, &a[i]);
                    waits = waits || input < 0;
                    start = input > start ? input : start;
                    cost += p->cost[a[i].kind];
                }
                if (waits) break;
                for (int i = 0; i < n; i++) finish(p, at, &a[i], start + cost);
                s->next += (size_t)n;
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
        for (size_t i = 0; i < s->n; i++) {
            const syn_action *a = &s->actions[i];
            const int here = syn_schedule_virtual_stage(&p->shape, at, a->chunk);
            CHECK_INT(syn_schedule_stage_of(&p->shape, here, a->microbatch), at);
        }
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
            int done = 0;
            for (size_t i = 0; i < place(p, p->shape.chunks, 0); i++) done += s->done[k][i] >= 0;
            CHECK_INT(done, syn_schedule_virtual_stages(&p->shape) / p->shape.stages *
                                p->shape.microbatches);
            syn_free(s->done[k]);
        }
        syn_free(s->actions);
    }
}

/* Every microbatch goes through each stage once in each direction, and no order deadlocks. The step
   takes the time of one stage's work plus the bubble. The bubble is (p - 1) (f + b + w), divided by
   the number of chunks if they are interleaved in groups of p. For ZB-H1 with f = b = w and at
   least 2 p - 1 microbatches, it is (p - 1) (f + b - w). For DualPipe it is
   (p / 2 - 1) (o + b + w - 3 w), where o is the time of two passes that overlap; here it is
   f + b + w, as without overlap. */
static void check_shape(const syn_schedule_shape *shape) {
    const bool dual = shape->schedule == SYN_SCHEDULE_DUALPIPE;
    const double v = dual ? 1 : shape->chunks, f = 6 / v, b = 6 / v, w = 6 / v;
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
    if (dual) bubble = (stages / 2 - 1) * ((f + b + w) + (b + w) - 3 * w);
    const bool exact = shape->schedule != SYN_SCHEDULE_ZB_H1 || m >= 2 * stages - 1;
    if (exact) CHECK_MSG(fabs(end - work - bubble) < 1e-9, "%s: %g", what, end - work);
    for (int at = 0; at < stages; at++) {
        const int flying = p.stages[at].most_in_flight;
        int most = stages - at;
        if (shape->schedule == SYN_SCHEDULE_GPIPE) most = m;
        if (shape->chunks > 1) most = 2 * (stages - 1 - at) + (shape->chunks - 1) * stages + 1;
        if (dual) {
            CHECK_MSG(flying <= stages + 1, "%s: stage %d has %d in flight", what, at, flying);
            continue;
        }
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
            if (p % 2 == 0 && m % 2 == 0 && m >= 2 * p)
                check_shape(&(syn_schedule_shape){SYN_SCHEDULE_DUALPIPE, p, 2, m, 0});
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
        {{SYN_SCHEDULE_DUALPIPE, 3, 2, 8, 0}, "needs an even number of stages, not 3"},
        {{SYN_SCHEDULE_DUALPIPE, 4, 2, 6, 0},
         "on 4 stages needs an even number of microbatches, at least 8, not 6"},
        {{SYN_SCHEDULE_DUALPIPE, 4, 2, 9, 0}, "at least 8, not 9"},
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
