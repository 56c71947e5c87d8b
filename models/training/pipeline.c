/* Runs the actions of a pipeline schedule on one rank, with their messages; see pipeline.h. The
   order of the actions comes from schedule.c. */
#include "models/training/pipeline.h"

#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

#define FIRST_TAG (1 << 21) /* above all other message tags */

/* The state of a microbatch in a chunk between its forward and its backward pass. */
typedef struct flight {
    /* The input, which is invalid on the first virtual stage, and the result, which may have been
       released. A chunk without layers returns its input. */
    syn_tensor x, y;
    uint32_t tape; /* number of the tape that recorded its forward pass */
} flight;

struct syn_pipeline {
    syn_ctx *ctx;
    syn_pipeline_options options;
    int32_t stage;
    syn_action *actions;
    size_t n_actions;
    flight *flights; /* by chunk and microbatch */
    bool *taken;     /* per tape: whether a microbatch uses it */
    size_t n_tapes;
    int32_t *left; /* two per chunk: passes for inputs and passes for weights that remain in this
                      step */
};

/* The state of one step. */
typedef struct run {
    syn_pipeline *p;
    syn_stage_forward *forward;
    syn_stage_backward *backward;
    void *arg;
    syn_tensor posted; /* the tensor to receive for action number posted_for; invalid: none */
    size_t posted_for;
    syn_tensor loss; /* sum of the losses up to now */
} run;

syn_status syn_pipeline_new(syn_pipeline **out, syn_ctx *ctx, const syn_pipeline_options *options,
                            syn_error *err) {
    const syn_schedule_shape *shape = &options->shape;
    SYN_TRY(syn_schedule_check(shape, err));
    if (shape->stages < 2 || !options->pp || options->pp->size != shape->stages)
        return SYN_FAIL(err, SYN_E_INVALID, "a pipeline of %d stages on %d ranks",
                        (int)shape->stages, options->pp ? (int)options->pp->size : 1);
    const size_t n = (size_t)shape->chunks * (size_t)shape->microbatches;
    const int32_t max_tag = syn_comm_max_tag(syn_ctx_comm(ctx));
    if (max_tag < FIRST_TAG || n > (size_t)(max_tag - FIRST_TAG) / 2 / (size_t)shape->stages)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d microbatches in %d chunks of %d stages need message tags above %d, the "
                        "largest here",
                        (int)shape->microbatches, (int)shape->chunks, (int)shape->stages,
                        (int)max_tag);
    syn_pipeline *p = syn_calloc(1, sizeof *p);
    if (!p) return SYN_FAIL_NOMEM(err, sizeof *p, "a pipeline");
    *p = (syn_pipeline){.ctx = ctx, .options = *options, .stage = options->pp->index, .n_tapes = n};
    syn_ctx_set_overlap(ctx, true);
    syn_status s = syn_ctx_connect(ctx, options->pp, err);
    if (s == SYN_OK) s = syn_schedule_make(&p->actions, &p->n_actions, shape, p->stage, err);
    if (s == SYN_OK) {
        p->flights = syn_calloc(n, sizeof *p->flights);
        p->taken = syn_calloc(n, sizeof *p->taken);
        p->left = syn_calloc(2 * (size_t)shape->chunks, sizeof *p->left);
        if (!p->flights || !p->taken || !p->left)
            s = SYN_FAIL_NOMEM(err, n * sizeof *p->flights, "the microbatches of a pipeline");
    }
    if (s == SYN_OK) *out = p;
    else syn_pipeline_free(p);
    return s;
}

void syn_pipeline_free(syn_pipeline *p) {
    if (!p) return;
    syn_free(p->actions);
    syn_free(p->flights);
    syn_free(p->taken);
    syn_free(p->left);
    syn_free(p);
}

static flight *flight_of(const syn_pipeline *p, const syn_action *a) {
    return &p->flights[(size_t)a->chunk * (size_t)p->options.shape.microbatches + a->microbatch];
}

/* ---- messages ---- */

static int32_t virtual_stage(const syn_pipeline *p, const syn_action *a) {
    return syn_schedule_virtual_stage(&p->options.shape, p->stage, a->chunk);
}

static int32_t virtual_stages(const syn_pipeline *p) {
    return syn_schedule_virtual_stages(&p->options.shape);
}

/* The rank that runs an action's microbatch in virtual stage `at`. */
static int32_t rank_of(const syn_pipeline *p, const syn_action *a, int32_t at) {
    return p->options.pp->ranks[syn_schedule_stage_of(&p->options.shape, at, a->microbatch)];
}

static bool is_forward(const syn_action *a) {
    return a->kind == SYN_ACTION_FORWARD;
}

/* The tag of the message to virtual stage `to`. */
static int32_t tag_of(const syn_pipeline *p, const syn_action *a, int32_t to) {
    const int32_t place = (int32_t)a->microbatch * virtual_stages(p) + to;
    return FIRST_TAG + 2 * place + !is_forward(a);
}

/* Whether an action's input comes from another rank. *from: that rank. */
static bool receives(const syn_pipeline *p, const syn_action *a, int32_t *from) {
    const int32_t at = virtual_stage(p, a), source = is_forward(a) ? at - 1 : at + 1;
    if (a->kind == SYN_ACTION_BACKWARD_WEIGHTS || source < 0 || source >= virtual_stages(p))
        return false;
    *from = rank_of(p, a, source);
    return true;
}

/* Posts the receive of an action's input. Returns the invalid tensor if no other rank sends it. */
static syn_tensor post(const syn_pipeline *p, const syn_action *a) {
    int32_t from;
    if (!receives(p, a, &from)) return (syn_tensor){0};
    syn_set_phase(p->ctx, is_forward(a) ? SYN_PHASE_FORWARD : SYN_PHASE_BACKWARD);
    syn_push_scope(p->ctx, "pipeline");
    const syn_tensor x =
        syn_recv(p->ctx, &p->options.activation, from, tag_of(p, a, virtual_stage(p, a)));
    syn_pop_scope(p->ctx);
    return x;
}

/* Sends the result of an action: activations to the next virtual stage, gradients to the previous
   one. */
static void pass_on(const syn_pipeline *p, const syn_action *a, syn_tensor x) {
    const int32_t at = virtual_stage(p, a), to = is_forward(a) ? at + 1 : at - 1;
    const bool was = syn_set_grad(p->ctx, false);
    syn_set_phase(p->ctx, is_forward(a) ? SYN_PHASE_FORWARD : SYN_PHASE_BACKWARD);
    syn_push_scope(p->ctx, "pipeline");
    syn_send(p->ctx, x, rank_of(p, a, to), tag_of(p, a, to));
    syn_pop_scope(p->ctx);
    syn_set_grad(p->ctx, was);
}

/* ---- actions ---- */

static uint32_t take_tape(syn_pipeline *p) {
    uint32_t tape = 0;
    while (tape + 1 < p->n_tapes && p->taken[tape]) tape++;
    p->taken[tape] = true;
    return tape;
}

static void run_forward(run *r, const syn_action *a, syn_tensor x) {
    syn_pipeline *p = r->p;
    flight *f = flight_of(p, a);
    const bool last = virtual_stage(p, a) == virtual_stages(p) - 1;
    f->tape = take_tape(p);
    f->x = x;
    syn_set_tape(p->ctx, f->tape);
    syn_set_phase(p->ctx, SYN_PHASE_FORWARD);
    if (x.id) syn_require_grad(p->ctx, x);
    f->y = r->forward(r->arg, a->chunk, (int)a->microbatch, x);
    if (!last) {
        pass_on(p, a, f->y);
        return;
    }
    const bool was = syn_set_grad(p->ctx, false);
    r->loss = r->loss.id ? syn_add(p->ctx, r->loss, f->y) : f->y;
    syn_set_grad(p->ctx, was);
}

/* Adds an action to the passes that remain in this step. */
static void count_action(syn_pipeline *p, const syn_action *a) {
    int32_t *inputs = &p->left[2 * a->chunk], *weights = inputs + 1;
    *inputs += a->kind == SYN_ACTION_BACKWARD || a->kind == SYN_ACTION_BACKWARD_INPUT;
    *weights += a->kind == SYN_ACTION_BACKWARD || a->kind == SYN_ACTION_BACKWARD_WEIGHTS;
}

/* Counts a backward pass and calls the caller's `backward`. Returns whether it is the last one. A
   pass for both inputs and weights is the last one for both or for neither: ZB-H1 splits its last
   passes, and DualPipe runs such a pass only if no pass of weight gradients is pending. */
static bool begin_backward(run *r, const syn_action *a) {
    int32_t *inputs = &r->p->left[2 * a->chunk], *weights = inputs + 1;
    *inputs -= a->kind != SYN_ACTION_BACKWARD_WEIGHTS;
    *weights -= a->kind != SYN_ACTION_BACKWARD_INPUT;
    const bool last = a->kind == SYN_ACTION_BACKWARD_INPUT ? *inputs == 0 : *weights == 0;
    if (r->backward) r->backward(r->arg, a->chunk, last, false);
    return last;
}

static void end_backward(run *r, const syn_action *a, bool last) {
    if (r->backward) r->backward(r->arg, a->chunk, last, true);
}

static void run_backward(run *r, const syn_action *a, syn_tensor dy) {
    syn_pipeline *p = r->p;
    flight *f = flight_of(p, a);
    const bool whole = a->kind == SYN_ACTION_BACKWARD, empty = f->x.id && f->x.id == f->y.id;
    syn_set_tape(p->ctx, f->tape);
    const bool last = begin_backward(r, a);
    if (empty) pass_on(p, a, dy);
    else if (whole) syn_backward_from(p->ctx, &f->y, &dy, 1);
    else syn_backward_inputs(p->ctx, &f->y, &dy, 1);
    if (f->x.id && !empty) {
        pass_on(p, a, syn_grad(p->ctx, f->x));
        syn_drop_grad(p->ctx, f->x);
    }
    if (f->x.id) syn_drop(p->ctx, f->x);
    if (dy.id) syn_drop(p->ctx, dy);
    if (whole) p->taken[f->tape] = false;
    end_backward(r, a, last);
}

static void run_weights(run *r, const syn_action *a) {
    const flight *f = flight_of(r->p, a);
    const bool last = begin_backward(r, a);
    syn_set_tape(r->p->ctx, f->tape);
    syn_backward_weights(r->p->ctx);
    r->p->taken[f->tape] = false;
    end_backward(r, a, last);
}

/* Runs action i. Posts the receive of the next action first, so that its message can arrive while
   action i runs. */
static void run_action(run *r, size_t i) {
    syn_pipeline *p = r->p;
    const syn_action *a = &p->actions[i];
    const syn_tensor x = r->posted_for == i ? r->posted : post(p, a);
    syn_begin_pass(p->ctx, a->paired);
    r->posted_for = i + 1;
    r->posted = i + 1 < p->n_actions ? post(p, &p->actions[i + 1]) : (syn_tensor){0};
    const syn_mark mark = syn_ctx_mark(p->ctx);
    if (is_forward(a)) run_forward(r, a, x);
    else if (a->kind == SYN_ACTION_BACKWARD_WEIGHTS) run_weights(r, a);
    else run_backward(r, a, x);
    syn_release(p->ctx, mark, &r->loss, 1);
}

syn_tensor syn_pipeline_forward(syn_pipeline *p, syn_stage_forward *forward, void *arg) {
    const bool was = syn_set_grad(p->ctx, false);
    syn_tensor y = {0};
    for (int32_t c = 0; c < p->options.shape.chunks && syn_ctx_status(p->ctx) == SYN_OK; c++) {
        const syn_action a = {.kind = SYN_ACTION_FORWARD, .chunk = (uint16_t)c};
        const int32_t at = virtual_stage(p, &a);
        if (syn_schedule_stage_of(&p->options.shape, at, 0) != p->stage) continue;
        y = forward(arg, c, 0, post(p, &a));
        if (at == virtual_stages(p) - 1) break;
        pass_on(p, &a, y);
        y = (syn_tensor){0};
    }
    syn_set_grad(p->ctx, was);
    return y;
}

syn_tensor syn_pipeline_step(syn_pipeline *p, syn_stage_forward *forward,
                             syn_stage_backward *backward, void *arg) {
    run r = {.p = p, .forward = forward, .backward = backward, .arg = arg, .posted_for = SIZE_MAX};
    memset(p->left, 0, 2 * (size_t)p->options.shape.chunks * sizeof *p->left);
    for (size_t i = 0; i < p->n_actions; i++) count_action(p, &p->actions[i]);
    for (size_t i = 0; i < p->n_actions && syn_ctx_status(p->ctx) == SYN_OK; i++) run_action(&r, i);
    syn_set_tape(p->ctx, 0);
    syn_set_phase(p->ctx, SYN_PHASE_FORWARD);
    return r.loss;
}
