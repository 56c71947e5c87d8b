/* Generates text with a causal model: checks the request, runs the steps and samples the tokens;
   see generate.h. Separate from causal.c, which runs one step. */
#include "models/generate.h"

#include <math.h>
#include <string.h>

#include "models/family_private.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

#define FIRST_TAG (1 << 21) /* above all other message tags */

/* ---- stages of a pipeline ---- */

static bool is_first(const syn_generation *g) {
    return !g->pp || g->pp->index == 0;
}

static bool is_last(const syn_generation *g) {
    return !g->pp || g->pp->index == g->pp->size - 1;
}

/* The input of a step: `tokens` on the first stage, and the previous stage's output (B, n, C) on
   the others. */
static syn_tensor step_input(const syn_model *model, const syn_generation *g, syn_tensor tokens,
                             int64_t n, int64_t step) {
    if (is_first(g)) return tokens;
    const syn_spec spec = {
        (int32_t)model->options.dtype, 3, {g->batch, n, syn_model_get_config(model)->n_embd}};
    syn_push_scope(model->ctx, "pipeline");
    const syn_tensor x =
        syn_recv(model->ctx, &spec, g->pp->ranks[g->pp->index - 1], FIRST_TAG + (int32_t)step);
    syn_pop_scope(model->ctx);
    return x;
}

/* Sends the output of a step to the next stage. */
static void pass_on(syn_ctx *ctx, const syn_generation *g, syn_tensor x, int64_t step) {
    if (is_last(g)) return;
    syn_push_scope(ctx, "pipeline");
    syn_send(ctx, x, g->pp->ranks[g->pp->index + 1], FIRST_TAG + (int32_t)step);
    syn_pop_scope(ctx);
}

/* Broadcasts x from the last stage to all stages, which need only give its shape. */
static syn_tensor from_last(syn_ctx *ctx, const syn_generation *g, syn_tensor x, const char *name,
                            const syn_spec *spec) {
    if (!g->pp) return x;
    syn_push_scope(ctx, "pipeline");
    if (!is_last(g)) x = syn_input(ctx, name, spec, NULL);
    x = syn_broadcast(ctx, x, g->pp->size - 1, g->pp);
    syn_pop_scope(ctx);
    return x;
}

/* ---- sampling ---- */

/* Whether this rank, which must be in the last stage, penalizes tokens before it samples. */
static bool penalizes(const syn_generation *g) {
    return is_last(g) && g->repetition_penalty != 0.0 && g->repetition_penalty != 1.0;
}

/* Computed in f32, as in transformers: if the penalized logits were rounded to 16 bits, different
   logits could become equal. */
static syn_tensor penalize(syn_ctx *ctx, const syn_generation *g, syn_tensor logits,
                           syn_tensor seen) {
    if (syn_tensor_spec(ctx, logits)->dtype != SYN_F32) logits = syn_cast(ctx, logits, SYN_F32);
    return syn_repetition_penalty(ctx, logits, seen, g->repetition_penalty);
}

/* logits (B, V0) -> the next tokens (B). Every rank samples; the tokens of the tensor-parallel
   group's first rank are used. */
static syn_tensor sample(syn_model *model, const syn_generation *g, syn_tensor logits,
                         syn_tensor seen, int64_t step) {
    syn_ctx *ctx = syn_model_ctx(model);
    const syn_group *tp = syn_model_tp(model);
    syn_push_scope(ctx, "sample");
    if (penalizes(g)) logits = penalize(ctx, g, logits, seen);
    syn_tensor tokens = syn_sample(ctx, logits, &g->sampling, step);
    if (tp && tp->size > 1) tokens = syn_broadcast(ctx, tokens, 0, tp);
    syn_pop_scope(ctx);
    return tokens;
}

/* The next tokens (B), on all stages. logits: only on the last one. */
static syn_tensor next_tokens(syn_model *model, const syn_generation *g, syn_tensor logits,
                              syn_tensor seen, int64_t step) {
    const syn_spec spec = {SYN_I32, 1, {g->batch}};
    syn_tensor tokens = {0};
    if (is_last(g)) tokens = sample(model, g, logits, seen, step);
    return from_last(syn_model_ctx(model), g, tokens, "tokens", &spec);
}

/* Copies the tokens of step `step` to the results. Returns true if every sequence has ended or the
   tokens cannot be read. ended[b] is whether sequence b ended in an earlier step, and is updated.
   row: a buffer for the step's tokens. */
static bool collect(syn_ctx *ctx, syn_generation *g, syn_tensor tokens, int64_t step, int32_t *row,
                    bool *ended) {
    if (syn_tensor_read(ctx, tokens, row, (size_t)g->batch * sizeof *row) != SYN_OK) return true;
    bool all = g->end.n_ids > 0;
    for (int64_t b = 0; b < g->batch; b++) {
        g->tokens[b * g->new_tokens + step] = ended[b] ? g->end.fill : row[b];
        ended[b] = ended[b] || syn_is_stop_token(&g->end, row[b]);
        all = all && ended[b];
    }
    return all;
}

/* Whether the sequences of all ranks that share experts have ended. A rank whose sequences have
   ended runs further steps, because the others need its experts. */
static bool all_ended(syn_ctx *ctx, const syn_generation *g, bool ended) {
    const syn_spec spec = {SYN_I32, 1, {1}};
    const bool data = syn_ctx_has_data(ctx);
    int32_t running = !ended;
    if (!g->together || g->end.n_ids == 0) return ended;
    syn_push_scope(ctx, "running");
    syn_tensor sum = syn_input(ctx, "running", &spec, data ? &running : NULL);
    sum = syn_all_reduce(ctx, sum, SYN_REDUCE_SUM, g->together);
    syn_pop_scope(ctx);
    if (!data) return false;
    return syn_tensor_read(ctx, sum, &running, sizeof running) != SYN_OK || running == 0;
}

/* Whether this rank copies the logits of the prompt. */
static bool has_logits(const syn_generation *g) {
    return g->want_logits && (is_last(g) || g->share_logits);
}

static syn_status alloc_results(const syn_model *model, syn_generation *g, int32_t **row,
                                bool **ended, syn_error *err) {
    size_t tokens, logits;
    if (!syn_mul_size((size_t)g->batch, (size_t)g->new_tokens, &tokens) ||
        !syn_mul_size((size_t)g->batch, (size_t)syn_model_get_config(model)->vocab_size, &logits))
        return SYN_FAIL(err, SYN_E_INVALID, "the batch is too large");
    g->tokens = syn_calloc(tokens, sizeof *g->tokens);
    *row = syn_calloc((size_t)g->batch, sizeof **row);
    *ended = syn_calloc((size_t)g->batch, sizeof **ended);
    if (has_logits(g)) g->logits = syn_calloc(logits, sizeof *g->logits);
    if (!g->tokens || !*row || !*ended || (has_logits(g) && !g->logits))
        return SYN_FAIL_NOMEM(err, (tokens + logits) * 4, "generated tokens and logits");
    return SYN_OK;
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Copies the logits of the prompt's last position to the results. Returns whether it succeeded. */
static bool copy_logits(syn_model *model, syn_generation *g, syn_tensor logits) {
    syn_ctx *ctx = syn_model_ctx(model);
    const syn_spec spec = {
        (int32_t)model->options.dtype, 2, {g->batch, syn_model_get_config(model)->vocab_size}};
    const size_t n = (size_t)syn_spec_elems(&spec);
    if (g->share_logits) logits = from_last(ctx, g, logits, "logits", &spec);
    if (!g->logits) return syn_ctx_status(ctx) == SYN_OK;
    if (syn_tensor_read_f32(ctx, logits, g->logits, n) != SYN_OK) return false;
    if (all_finite(g->logits, n)) return true;
    syn_ctx_fail(ctx, SYN_E_INVALID,
                 "the logits are NaN or infinite: the weights are damaged, or too large for their "
                 "dtype");
    return false;
}

/* The tensors that a step passes to the next one. */
typedef struct next_input {
    syn_tensor tokens; /* (B) */
    syn_tensor seen;   /* (B, N): all tokens so far; only used with a repetition penalty */
} next_input;

/* Releases the tensors that were created since `begun`, when the step began, except those in
   `left`. Without keep_rows it also removes the trace rows that were recorded since *from;
   otherwise it moves *from to the end of the trace. */
static void end_step(syn_ctx *ctx, const syn_generation *g, bool keep_rows, syn_mark begun,
                     syn_mark *from, const next_input *left) {
    const syn_tensor keep[2] = {left->tokens, left->seen};
    const int n = penalizes(g) ? 2 : 1;
    if (!keep_rows) {
        syn_forget(ctx, *from, keep, n);
        return;
    }
    syn_release(ctx, begun, keep, n);
    *from = syn_ctx_mark(ctx);
}

/* The prompt's tokens for the repetition penalty, with -1 in place of padding tokens. */
static syn_tensor prompt_seen(syn_ctx *ctx, const syn_generation *g, const syn_spec *spec,
                              syn_tensor prompt) {
    if (!penalizes(g) || !g->padding) return prompt;
    int32_t *seen = NULL;
    if (syn_ctx_has_data(ctx)) {
        const size_t bytes = (size_t)syn_spec_bytes(spec);
        seen = syn_calloc(1, bytes);
        if (!seen) {
            syn_ctx_fail(ctx, SYN_E_NOMEM, "out of memory: %zu bytes for the set of earlier tokens",
                         bytes);
            return (syn_tensor){0};
        }
        memcpy(seen, g->prompt, bytes);
        for (int64_t b = 0; b < g->batch; b++)
            for (int64_t i = 0; i < g->padding[b]; i++) seen[b * g->prompt_tokens + i] = -1;
    }
    const syn_tensor out = syn_input(ctx, "seen", spec, seen);
    syn_free(seen);
    return out;
}

/* Appends the new tokens to the tokens that the next step penalizes. */
static syn_tensor add_seen(syn_ctx *ctx, const syn_generation *g, syn_tensor seen,
                           syn_tensor tokens) {
    const int64_t column[2] = {g->batch, 1};
    if (!penalizes(g)) return seen;
    const syn_tensor both[2] = {seen, syn_reshape(ctx, tokens, column, 2)};
    syn_push_scope(ctx, "sample");
    seen = syn_concat(ctx, both, 2, 1);
    syn_pop_scope(ctx);
    return seen;
}

/* The generation loop: the tokens of one step are the input of the next one. */
static void steps(syn_model *model, syn_generation *g, int32_t *row, bool *ended) {
    syn_ctx *ctx = syn_model_ctx(model);
    const bool data = syn_ctx_has_data(ctx);
    const syn_spec spec = {SYN_I32, 2, {g->batch, g->prompt_tokens}};
    const int64_t column[2] = {g->batch, 1};
    syn_set_phase(ctx, SYN_PHASE_PREFILL);
    if (syn_ctx_mark(ctx).node > 1) syn_next_step(ctx); /* the context has run before */
    syn_tensor input = {0};
    if (is_first(g) || penalizes(g)) input = syn_input(ctx, "prompt", &spec, g->prompt);
    next_input next = {.seen = prompt_seen(ctx, g, &spec, input)};
    syn_mark from = syn_ctx_mark(ctx);
    int64_t start = (int64_t)syn__clock_ns();
    if (g->progress) g->progress(g->progress_user, 0, g->new_tokens);
    for (int64_t step = 0; step < g->new_tokens; step++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const int64_t n = step == 0 ? g->prompt_tokens : 1;
        const syn_tensor x = syn_causal_forward(model, step_input(model, g, input, n, step));
        pass_on(ctx, g, x, step);
        if (step == 0 && !copy_logits(model, g, x)) return;
        next.tokens = next_tokens(model, g, x, next.seen, step);
        if (step + 1 < g->new_tokens) next.seen = add_seen(ctx, g, next.seen, next.tokens);
        if (syn_ctx_status(ctx) != SYN_OK) return;
        const bool done = all_ended(ctx, g, data && collect(ctx, g, next.tokens, step, row, ended));
        g->made = step + 1;
        const int64_t now = (int64_t)syn__clock_ns();
        *(step == 0 ? &g->prefill_ns : &g->decode_ns) += now - start;
        bool keep_rows = true;
        if (g->after_step &&
            g->after_step(g->after_step_user, step, &keep_rows, syn_ctx_error_slot(ctx)) != SYN_OK)
            return;
        start = (int64_t)syn__clock_ns(); /* excludes the time of the caller's after_step */
        end_step(ctx, g, keep_rows, mark, &from, &next);
        if (g->progress)
            g->progress(g->progress_user, done ? g->new_tokens : g->made, g->new_tokens);
        if (done || step + 1 == g->new_tokens) return;
        syn_set_phase(ctx, SYN_PHASE_DECODE);
        syn_next_step(ctx);
        input = syn_reshape(ctx, next.tokens, column, 2);
    }
}

/* Rejects invalid requests that would otherwise be found late or not at all. After this check the
   sum of prompt_tokens and new_tokens cannot overflow. */
static syn_status check_request(const syn_model *model, const syn_generation *g, syn_error *err) {
    const syn_model_config *c = syn_model_get_config(model);
    if (model->part.embed != is_first(g) || model->part.head != is_last(g))
        return SYN_FAIL(err, SYN_E_INVALID, "a part of %s cannot generate tokens%s", c->name,
                        g->pp ? " as this stage of the pipeline" : "");
    if (g->pp && g->new_tokens > syn_comm_max_tag(syn_ctx_comm(model->ctx)) - FIRST_TAG)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld new tokens in a pipeline need message tags above %d, the largest "
                        "here",
                        (long long)g->new_tokens, (int)syn_comm_max_tag(syn_ctx_comm(model->ctx)));
    if (g->prompt_tokens < 1 || g->new_tokens < 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld prompt tokens and %lld new tokens: both must be at least 1",
                        (long long)g->prompt_tokens, (long long)g->new_tokens);
    if (g->prompt_tokens > syn_model_max_tokens(c) ||
        g->new_tokens - 1 > syn_model_max_tokens(c) - g->prompt_tokens)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld prompt tokens and %lld new tokens exceed the %lld positions of %s",
                        (long long)g->prompt_tokens, (long long)g->new_tokens,
                        (long long)syn_model_max_tokens(c), c->name);
    SYN_TRY(syn_model_check_growth(c, g->prompt_tokens, g->prompt_tokens + g->new_tokens - 1, err));
    for (int64_t b = 0; g->prompt && b < g->batch; b++)
        for (int64_t t = 0; t < g->prompt_tokens; t++) {
            const int32_t id = g->prompt[b * g->prompt_tokens + t];
            if (id < 0 || id >= c->vocab_size)
                return SYN_FAIL(err, SYN_E_INVALID,
                                "token %d at position %lld of sequence %lld is not one of the %lld "
                                "tokens of %s",
                                id, (long long)t, (long long)b, (long long)c->vocab_size, c->name);
        }
    for (int64_t b = 0; g->padding && b < g->batch; b++)
        if (g->padding[b] < 0 || g->padding[b] >= g->prompt_tokens)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "%d padding tokens fill sequence %lld, which has %lld tokens",
                            g->padding[b], (long long)b, (long long)g->prompt_tokens);
    return SYN_OK;
}

syn_status syn_generate(syn_model *model, syn_generation *g, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(model);
    SYN_TRY(check_request(model, g, err));
    if (g->pp) SYN_TRY(syn_ctx_connect(ctx, g->pp, err));
    /* The last generated token is never fed back, so it needs no cache entry. */
    SYN_TRY(syn_causal_begin(model, g->batch, g->prompt_tokens + g->new_tokens - 1, err));
    if (g->padding) SYN_TRY(syn_causal_set_padding(model, g->padding, err));
    int32_t *row = NULL;
    bool *ended = NULL;
    syn_status s = SYN_OK;
    if (syn_ctx_has_data(ctx)) s = alloc_results(model, g, &row, &ended, err);
    if (s == SYN_OK) {
        steps(model, g, row, ended);
        s = syn_ctx_check(ctx, err);
    }
    syn_free(row);
    syn_free(ended);
    if (s != SYN_OK) {
        syn_free(g->tokens);
        syn_free(g->logits);
        g->tokens = NULL;
        g->logits = NULL;
    }
    return s;
}
