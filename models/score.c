/* Evaluates causal models on whole sequences, and computes perplexity; see score.h. Separate from
   causal.c, because only evaluation needs it. */
#include "models/score.h"

#include <math.h>

#include "models/family_private.h"
#include "syntorch/base/clock.h"

enum { LOGITS_BYTES = 64 << 20 };

/* ---- whole sequences ---- */

/* Whether the model is causal, has all its parts, and accepts sequences as long as those of
   `tokens`. If not, the context fails. */
static bool can_score(syn_model *m, syn_tensor tokens) {
    const syn_model_config *c = &m->config;
    if (syn_ctx_status(m->ctx) != SYN_OK) return false;
    if (!syn_model_is_causal(c)) {
        syn_ctx_fail(m->ctx, SYN_E_INVALID, "%s is a %s, which does not predict the next token",
                     c->name, c->family->title);
        return false;
    }
    if (!m->part.embed || !m->part.head || m->part.n_layers != c->n_layer) {
        syn_ctx_fail(m->ctx, SYN_E_INVALID, "a part of %s cannot score texts", c->name);
        return false;
    }
    if (!syn__model_accepts(m, tokens, 1)) return false;
    const int64_t n = syn_tensor_dim(m->ctx, tokens, 1);
    if (n <= syn_model_max_tokens(c)) return true;
    syn_ctx_fail(m->ctx, SYN_E_SHAPE, "%lld tokens exceed the %lld positions of %s", (long long)n,
                 (long long)syn_model_max_tokens(c), c->name);
    return false;
}

syn_tensor syn_causal_hidden(syn_model *m, syn_tensor tokens) {
    syn_ctx *ctx = m->ctx;
    if (!can_score(m, tokens)) return (syn_tensor){0};
    const int64_t n = syn_tensor_dim(ctx, tokens, 1);
    syn__model_set_frequencies(m, n);
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_tensor places = syn__model_position_ids(m, 1, n, NULL);
    (void)syn__model_set_cut(m, n, false);
    syn_tensor x = syn__causal_sequences(m, tokens, SYN_NO_MASK, places, syn_ctx_mark(ctx));
    x = syn__model_whole(m, x);
    m->cut = false;
    syn_push_scope(ctx, m->config.family->head_scope);
    x = syn__causal_norm(m, x);
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

syn_tensor syn_causal_logits(syn_model *m, syn_tensor hidden) {
    const syn_mark mark = syn_ctx_mark(m->ctx);
    syn_push_scope(m->ctx, m->config.family->head_scope);
    const syn_tensor x = syn__causal_all_logits(m, hidden);
    syn_pop_scope(m->ctx);
    syn_release(m->ctx, mark, &x, 1);
    return x;
}

syn_tensor syn_causal_target_loss(syn_model *m, syn_tensor hidden, syn_tensor targets) {
    syn_ctx *ctx = m->ctx;
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_push_scope(ctx, m->config.family->head_scope);
    syn_tensor x = syn__causal_logits(m, hidden);
    syn_pop_scope(ctx);
    syn_push_scope(ctx, "loss");
    x = syn_vocab_loss(ctx, x, targets, SYN_MEAN, m->config.vocab_size, false, m->options.tp);
    syn_pop_scope(ctx);
    syn_release(ctx, mark, &x, 1);
    return x;
}

int64_t syn_logits_rows(const syn_model *m, bool whole) {
    const int64_t width = m->config.vocab_size / (whole ? 1 : syn__model_tp(m));
    const int64_t rows = LOGITS_BYTES / (width < 1 ? 1 : width) / 4;
    return rows < 1 ? 1 : rows;
}

/* ---- perplexity ---- */

/* One window: the tokens begin .. begin + length - 1. The last `new` of them were in no earlier
   window. */
typedef struct window {
    int64_t begin, length, new;
} window;

static bool next_window(const syn_perplexity *p, window *w) {
    const int64_t seen = w->begin + w->length;
    if (seen == p->n_tokens) return false;
    if (w->length > 0) w->begin += p->stride;
    const int64_t left = p->n_tokens - w->begin;
    w->length = left < p->max_length ? left : p->max_length;
    w->new = w->begin + w->length - seen;
    return true;
}

static int64_t count_windows(const syn_perplexity *p) {
    int64_t n = 0;
    for (window w = {0}; next_window(p, &w);) n++;
    return n;
}

/* The mean loss of the text's tokens first to first + n - 1, which are predicted from the hidden
   states (n, C). */
static double rows_loss(syn_model *m, const syn_perplexity *p, syn_tensor hidden, int64_t first,
                        int64_t n) {
    syn_ctx *ctx = m->ctx;
    const syn_spec spec = {SYN_I32, 1, {n}};
    float loss = NAN;
    const syn_tensor targets =
        syn_input(ctx, "targets", &spec, p->tokens ? p->tokens + first : NULL);
    const syn_tensor x = syn_causal_target_loss(m, hidden, targets);
    if (syn_ctx_status(ctx) != SYN_OK || !syn_ctx_has_data(ctx)) return NAN;
    if (syn_tensor_read_f32(ctx, x, &loss, 1) != SYN_OK) return NAN;
    if (!isfinite(loss))
        syn_ctx_fail(ctx, SYN_E_INVALID,
                     "the loss of tokens %lld to %lld is NaN or infinite: the weights are damaged, "
                     "or too large for their dtype",
                     (long long)first, (long long)(first + n - 1));
    return (double)loss;
}

/* The mean loss of the window's new tokens. The first token of the text has no loss, since nothing
   precedes it. */
static double window_loss(syn_model *m, const syn_perplexity *p, const window *w) {
    syn_ctx *ctx = m->ctx;
    const syn_spec spec = {SYN_I32, 2, {1, w->length}};
    const int64_t rows[2] = {w->length, m->config.n_embd};
    const int64_t predicted = w->new < w->length ? w->new : w->new - 1,
                  first = w->length - predicted;
    const int64_t most = syn_logits_rows(m, false);
    double sum = 0;
    const syn_tensor tokens =
        syn_input(ctx, "tokens", &spec, p->tokens ? p->tokens + w->begin : NULL);
    const syn_tensor hidden = syn_reshape(ctx, syn_causal_hidden(m, tokens), rows, 2);
    for (int64_t t = 0; t < predicted && syn_ctx_status(ctx) == SYN_OK; t += most) {
        const int64_t n = predicted - t < most ? predicted - t : most;
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor part = syn_slice(ctx, hidden, 0, first + t - 1, n);
        sum += (double)n * rows_loss(m, p, part, w->begin + first + t, n);
        syn_release(ctx, mark, NULL, 0);
    }
    return sum / (double)predicted;
}

/* Ends window i, which began at *from: releases its tensors, and removes its trace rows if
   after_window asks for that. */
static void end_window(syn_ctx *ctx, const syn_perplexity *p, int64_t i, syn_mark *from) {
    bool keep_rows = true;
    if (p->after_window &&
        p->after_window(p->after_window_user, i, &keep_rows, syn_ctx_error_slot(ctx)) != SYN_OK)
        return;
    if (!keep_rows) {
        syn_forget(ctx, *from, NULL, 0);
        return;
    }
    syn_release(ctx, *from, NULL, 0);
    *from = syn_ctx_mark(ctx);
}

static syn_status check_request(const syn_model *m, const syn_perplexity *p, syn_error *err) {
    const syn_model_config *c = &m->config;
    const int64_t most = syn_model_max_tokens(c);
    if (p->n_tokens < 2)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a text of %lld tokens has no perplexity; at least 2 tokens are needed",
                        (long long)p->n_tokens);
    if (p->max_length < 2 || p->max_length > most)
        return SYN_FAIL(err, SYN_E_INVALID, "windows have %lld tokens, but %s accepts 2 to %lld",
                        (long long)p->max_length, c->name, (long long)most);
    if (p->stride < 1 || p->stride > p->max_length)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "a stride of %lld tokens skips tokens between windows of %lld; use 1 to %lld",
            (long long)p->stride, (long long)p->max_length, (long long)p->max_length);
    for (int64_t i = 0; p->tokens && i < p->n_tokens; i++)
        if (p->tokens[i] < 0 || p->tokens[i] >= c->vocab_size)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "token %d at position %lld is not one of the %lld tokens of %s",
                            p->tokens[i], (long long)i, (long long)c->vocab_size, c->name);
    return SYN_OK;
}

syn_status syn_perplexity_run(syn_model *m, syn_perplexity *p, syn_error *err) {
    syn_ctx *ctx = m->ctx;
    SYN_TRY(check_request(m, p, err));
    const int64_t of = count_windows(p), start = (int64_t)syn__clock_ns();
    double sum = 0;
    syn_mark from = syn_ctx_mark(ctx);
    syn_set_phase(ctx, SYN_PHASE_FORWARD);
    if (p->progress) p->progress(p->progress_user, 0, of);
    for (window w = {0}; next_window(p, &w) && syn_ctx_status(ctx) == SYN_OK;) {
        if (p->windows > 0) syn_next_step(ctx);
        /* A window with one new token has weight 0. */
        if (w.new > 1) sum += window_loss(m, p, &w) * (double)(w.new - 1);
        p->counted += w.new - 1;
        end_window(ctx, p, p->windows++, &from);
        if (p->progress) p->progress(p->progress_user, p->windows, of);
    }
    p->ns = (int64_t)syn__clock_ns() - start;
    p->mean_loss = syn_ctx_has_data(ctx) ? sum / (double)p->counted : NAN;
    return syn_ctx_check(ctx, err);
}
