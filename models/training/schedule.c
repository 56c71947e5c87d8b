/* Generates pipeline schedules; see schedule.h. Separate from the executor (pipeline.c), so that
   schedules can be tested without running a model. */
#include "models/training/schedule.h"

#include "syntorch/base/memory.h"

typedef struct list {
    syn_action *at;
    size_t n;
} list;

const char *syn_action_name(syn_action_kind kind) {
    static const char *const names[SYN_ACTION_KINDS] = {"F", "BW", "B", "W"};
    return kind < SYN_ACTION_KINDS ? names[kind] : "?";
}

static int32_t group_of(const syn_schedule_shape *shape) {
    return shape->group > 0 ? shape->group : shape->stages;
}

static bool is_dual(const syn_schedule_shape *shape) {
    return shape->schedule == SYN_SCHEDULE_DUALPIPE;
}

int32_t syn_schedule_virtual_stages(const syn_schedule_shape *shape) {
    return is_dual(shape) ? shape->stages : shape->stages * shape->chunks;
}

int32_t syn_schedule_virtual_stage(const syn_schedule_shape *shape, int32_t stage, int32_t chunk) {
    const int32_t mirror = shape->stages - 1 - stage;
    if (!is_dual(shape)) return chunk * shape->stages + stage;
    return (stage < mirror) == (chunk == 0) ? stage : mirror;
}

int32_t syn_schedule_stage_of(const syn_schedule_shape *shape, int32_t virtual_stage,
                              uint32_t microbatch) {
    const bool backwards = is_dual(shape) && microbatch >= (uint32_t)shape->microbatches / 2;
    return backwards ? shape->stages - 1 - virtual_stage : virtual_stage % shape->stages;
}

static syn_status check_dual(const syn_schedule_shape *shape, syn_error *err) {
    const int32_t p = shape->stages, m = shape->microbatches;
    if (p % 2 != 0 || shape->chunks != 2)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the schedule dualpipe needs an even number of stages, not %d, with 2 "
                        "chunks each, not %d",
                        (int)p, (int)shape->chunks);
    if (m % 2 == 0 && m / 2 >= p) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "the schedule dualpipe on %d stages needs an even number of microbatches, at "
                    "least %lld, not %d",
                    (int)p, 2 * (long long)p, (int)m);
}

syn_status syn_schedule_check(const syn_schedule_shape *shape, syn_error *err) {
    const int32_t p = shape->stages, m = shape->microbatches, group = group_of(shape);
    if (p < 1 || m < 1 || shape->chunks < 1 || shape->chunks > UINT16_MAX)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a pipeline of %d stages, %d chunks per stage and %d microbatches: each "
                        "number must be at least 1",
                        (int)p, (int)shape->chunks, (int)m);
    if (is_dual(shape)) return check_dual(shape, err);
    if (shape->schedule != SYN_SCHEDULE_INTERLEAVED) {
        if (shape->chunks == 1) return SYN_OK;
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d chunks per stage need the interleaved schedule; all others have 1",
                        (int)shape->chunks);
    }
    if (shape->chunks == 1) return SYN_OK;
    if (m < p)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the interleaved schedule needs at least as many microbatches as there are "
                        "stages (%d), not %d",
                        (int)p, (int)m);
    if (group < p || group > m)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "groups of %d microbatches: the interleaved schedule needs %d (the number "
                        "of stages) to %d (all microbatches)",
                        (int)group, (int)p, (int)m);
    if (m % group > 0 && m % group < p)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d microbatches in groups of %d leave a last group of %d, which has fewer "
                        "than there are stages (%d)",
                        (int)m, (int)group, (int)(m % group), (int)p);
    return SYN_OK;
}

static void add(list *l, syn_action_kind kind, int32_t microbatch, int32_t chunk) {
    l->at[l->n++] = (syn_action){
        .kind = (uint8_t)kind, .chunk = (uint16_t)chunk, .microbatch = (uint32_t)microbatch};
}

/* Appends the i-th forward pass of a stage. A group of microbatches runs through all chunks, one
   chunk after another, before the next group begins. */
static void add_forward(list *l, const syn_schedule_shape *shape, int32_t i) {
    const int32_t group = group_of(shape), first = i / (group * shape->chunks) * group;
    const int32_t left = shape->microbatches - first, size = left < group ? left : group;
    const int32_t within = i - first * shape->chunks;
    add(l, SYN_ACTION_FORWARD, first + within % size, within / size);
}

/* Appends the i-th backward pass. The order is the same, but with the chunks reversed. */
static void add_backward(list *l, const syn_schedule_shape *shape, int32_t i) {
    add_forward(l, shape, i);
    syn_action *a = &l->at[l->n - 1];
    a->kind = SYN_ACTION_BACKWARD;
    a->chunk = (uint16_t)(shape->chunks - 1 - a->chunk);
}

/* Number of forward passes that a stage runs before it alternates between forward and backward. */
static int32_t warmup(const syn_schedule_shape *shape, int32_t stage) {
    const int32_t behind = shape->stages - 1 - stage, v = shape->chunks;
    const int32_t all = shape->microbatches * v;
    int32_t n = v == 1 ? behind : 2 * behind + (v - 1) * group_of(shape);
    if (shape->schedule == SYN_SCHEDULE_GPIPE) n = all;
    return n < all ? n : all;
}

/* GPipe, 1F1B and interleaved: the forward passes of the warm-up, then forward and backward passes
   alternately, then the remaining backward passes. */
static void make_alternating(list *l, const syn_schedule_shape *shape, int32_t stage) {
    const int32_t all = shape->microbatches * shape->chunks, w = warmup(shape, stage);
    for (int32_t i = 0; i < w; i++) add_forward(l, shape, i);
    for (int32_t i = 0; i < all; i++) {
        if (w + i < all) add_forward(l, shape, w + i);
        add_backward(l, shape, i);
    }
}

/* ---- ZB-H1 ---- */

/* 1F1B with some backward passes split in two. Stage i splits its first i backward passes, and
   those after its last forward pass. After its last forward pass, it would otherwise wait for other
   stages. There it runs one postponed pass of weight gradients after each pass for inputs, so that
   at most i are pending, and the rest at the end. No stage waits for input gradients of the first
   stage, so that stage splits no backward pass. */
typedef struct zero_bubble {
    list *l;
    int32_t stage, steady; /* steady: forward passes that alternate with backward passes */
    int32_t n_split;       /* number of postponed passes of weight gradients */
    int32_t next;          /* lowest microbatch whose weight gradients may be postponed */
} zero_bubble;

static bool is_split(const zero_bubble *z, int32_t microbatch) {
    return z->stage > 0 && (microbatch < z->stage || microbatch >= z->steady - 1);
}

/* Appends the pass of weight gradients that was postponed first. */
static void add_weights(zero_bubble *z) {
    while (!is_split(z, z->next)) z->next++;
    add(z->l, SYN_ACTION_BACKWARD_WEIGHTS, z->next++, 0);
    z->n_split--;
}

static void add_zero_bubble_backward(zero_bubble *z, int32_t microbatch) {
    if (!is_split(z, microbatch)) {
        add(z->l, SYN_ACTION_BACKWARD, microbatch, 0);
        return;
    }
    add(z->l, SYN_ACTION_BACKWARD_INPUT, microbatch, 0);
    z->n_split++;
    if (microbatch >= z->stage && microbatch >= z->steady - 1) add_weights(z);
}

static void make_zero_bubble(list *l, const syn_schedule_shape *shape, int32_t stage) {
    const int32_t m = shape->microbatches, w = warmup(shape, stage);
    zero_bubble z = {.l = l, .stage = stage, .steady = m - w};
    for (int32_t i = 0; i < w; i++) add_forward(l, shape, i);
    for (int32_t i = 0; i < m; i++) {
        if (w + i < m) add_forward(l, shape, w + i);
        add_zero_bubble_backward(&z, i);
    }
    while (z.n_split > 0) add_weights(&z);
}

/* ---- DualPipe ---- */

/* The actions of a stage while they are made. The chunk of each microbatch is also its direction: a
   stage's chunk 0 has the microbatches that enter at the stage's end of the pipeline. */
typedef struct dual {
    list *l;
    const syn_schedule_shape *shape;
    bool far;                    /* the stage is in the second half of the pipeline */
    int32_t forward[2], back[2]; /* by chunk: next microbatch, from 0 */
    syn_action *weights;         /* postponed passes of weight gradients, oldest first */
    size_t postponed, resumed;
} dual;

static int32_t dual_microbatch(const dual *d, int32_t chunk, int32_t number) {
    return number + ((chunk == 0) == d->far ? d->shape->microbatches / 2 : 0);
}

static void dual_forward(dual *d, int32_t chunk) {
    add(d->l, SYN_ACTION_FORWARD, dual_microbatch(d, chunk, d->forward[chunk]++), chunk);
}

static void dual_backward(dual *d, int32_t chunk, bool split) {
    add(d->l, split ? SYN_ACTION_BACKWARD_INPUT : SYN_ACTION_BACKWARD,
        dual_microbatch(d, chunk, d->back[chunk]++), chunk);
    if (split) d->weights[d->postponed++] = d->l->at[d->l->n - 1];
}

static void dual_weights(dual *d) {
    const syn_action *a = &d->weights[d->resumed++];
    add(d->l, SYN_ACTION_BACKWARD_WEIGHTS, (int32_t)a->microbatch, a->chunk);
}

/* A forward pass of one chunk beside a backward pass of the other. */
static void dual_pair(dual *d, int32_t chunk, bool apart) {
    dual_forward(d, chunk);
    d->l->at[d->l->n - 1].paired = !apart;
    dual_backward(d, 1 - chunk, false);
}

/* The eight steps of DeepSeek's implementation (dualpipe.py). inner: number of stages between the
   stage and the nearer of the two middle ones; outer: between the stage and its end, counting the
   stage. The backward passes of the second half of the sixth step, which lets other stages wait
   less, and all after it are split. */
static void make_dual(dual *d, int32_t stage) {
    const int32_t stages = d->shape->stages, mirror = stages - 1 - stage;
    const int32_t outer = 1 + (stage < mirror ? stage : mirror), inner = stages / 2 - outer;
    const int32_t steady = d->shape->microbatches / 2 - stages + outer;
    for (int32_t i = 0; i < 2 * inner; i++) dual_forward(d, 0);
    for (int32_t i = 0; i < 2 * outer; i++) dual_forward(d, i % 2);
    for (int32_t i = 0; i < inner; i++) {
        dual_backward(d, 1, true);
        dual_weights(d);
        dual_forward(d, 1);
    }
    for (int32_t i = 0; i < 2 * steady; i++) dual_pair(d, i % 2, inner == 0 && i == 0);
    for (int32_t i = 0; i < inner; i++) {
        dual_backward(d, 1, false);
        dual_pair(d, 1, false);
    }
    for (int32_t i = 0; i < 2 * outer; i++) dual_backward(d, 1 - i % 2, i >= outer);
    for (int32_t i = 0; i < inner; i++) {
        dual_weights(d);
        dual_backward(d, 0, true);
    }
    for (int32_t i = 0; i < outer; i++) dual_weights(d);
}

static syn_status make_dualpipe(list *l, const syn_schedule_shape *shape, int32_t stage,
                                syn_error *err) {
    const size_t n = (size_t)shape->microbatches;
    dual d = {.l = l, .shape = shape, .far = stage >= shape->stages / 2};
    d.weights = syn_calloc(n, sizeof *d.weights);
    if (!d.weights) return SYN_FAIL_NOMEM(err, n * sizeof *d.weights, "a schedule");
    make_dual(&d, stage);
    syn_free(d.weights);
    return SYN_OK;
}

syn_status syn_schedule_make(syn_action **out, size_t *n, const syn_schedule_shape *shape,
                             int32_t stage, syn_error *err) {
    const size_t most = 3 * (size_t)shape->microbatches * (size_t)shape->chunks;
    list l = {0};
    SYN_TRY(syn_schedule_check(shape, err));
    if (stage < 0 || stage >= shape->stages)
        return SYN_FAIL(err, SYN_E_INVALID, "stage %d of a pipeline of %d", (int)stage,
                        (int)shape->stages);
    l.at = syn_calloc(most, sizeof *l.at);
    if (!l.at) return SYN_FAIL_NOMEM(err, most * sizeof *l.at, "a schedule");
    syn_status s = SYN_OK;
    if (is_dual(shape)) s = make_dualpipe(&l, shape, stage, err);
    else if (shape->schedule == SYN_SCHEDULE_ZB_H1) make_zero_bubble(&l, shape, stage);
    else make_alternating(&l, shape, stage);
    if (s == SYN_OK) *out = l.at;
    else syn_free(l.at);
    *n = l.n;
    return s;
}
