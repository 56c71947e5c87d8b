/* Scores prompts for --logits all and --embeddings, and writes the .npy files. Separate from the
   tasks because causal models and BERT share it. */
#include "tools/inference/inference_score.h"

#include <math.h>
#include <string.h>

#include "models/bert.h"
#include "models/score.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "tools/inference/npy.h"
#include "tools/progress.h"

/* Maximum number of tokens per forward pass; a longer prompt gets a pass of its own. */
enum { TOKENS_AT_ONCE = 8192 };

/* ---- Options ---- */

const char *inference_score_refuses(const inference_args *args) {
    const bool meta = strcmp(args->device, "meta") == 0;
    if (inference_all_logits(args) && !args->save_logits && !meta)
        return "--logits all needs --save_logits FILE.npy; give that, too";
    if (args->pooling != INFERENCE_POOLING_NONE && !args->embeddings)
        return "--pooling needs --embeddings FILE.npy; give that, too";
    if (args->embeddings && args->save_logits && strcmp(args->embeddings, args->save_logits) == 0)
        return "--embeddings and --save_logits name the same file; name two";
    if (args->stride) return "--stride needs --perplexity FILE; give that, too";
    if (args->max_length) return "--max_length needs --perplexity FILE; give that, too";
    return NULL;
}

bool inference_all_logits(const inference_args *args) {
    return args->logits == INFERENCE_LOGITS_ALL;
}

bool inference_scores(const inference_args *args) {
    return inference_all_logits(args) || args->embeddings;
}

bool inference_only_scores(const inference_args *args) {
    return inference_all_logits(args) || (args->embeddings && !args->save_logits);
}

uint64_t inference_score_plan(const inference *run, uint64_t hash) {
    const int64_t wanted[] = {inference_all_logits(run->args), run->args->embeddings != NULL};
    return syn_hash(wanted, sizeof wanted, hash);
}

/* ---- One rank ---- */

/* The prompts `first` to `first + n - 1` of the batch, which one forward pass computes. */
typedef struct piece {
    const inference_scoring *of;
    inference *run;
    syn_tensor hidden; /* (n, T, C) */
    int64_t first, n;
} piece;

/* Returns the number of tokens of a prompt, without the padding after them. */
static int64_t length_of(const piece *p, int64_t text) {
    return p->run->prompt_tokens - (p->of->padding ? p->of->padding[text] : 0);
}

static bool is_padding(const piece *p, int64_t row) {
    const int64_t n = p->run->prompt_tokens;
    return row % n >= length_of(p, p->first + row / n);
}

/* Reads x, which has the rows `first` to `first + n - 1` of the piece with `width` elements each,
   into `out`. Sets rows of padding to zero. */
static syn_status read_rows(const piece *p, syn_tensor x, int64_t first, int64_t n, int64_t width,
                            float *out, syn_error *err) {
    SYN_TRY(syn_tensor_read_f32(syn_model_ctx(p->of->model), x, out, (size_t)(n * width)));
    for (int64_t row = 0; row < n; row++) {
        float *at = out + row * width;
        if (is_padding(p, first + row)) {
            memset(at, 0, (size_t)width * sizeof *at);
            continue;
        }
        for (int64_t i = 0; i < width; i++)
            if (!isfinite(at[i]))
                return SYN_FAIL(err, SYN_E_INVALID,
                                "the model's output for token %lld is NaN or infinite: the weights "
                                "are damaged, or too large for their dtype",
                                (long long)((first + row) % p->run->prompt_tokens));
    }
    return SYN_OK;
}

static syn_status alloc_rows(float **out, int64_t n, int64_t width, syn_error *err) {
    size_t elems;
    if (!syn_mul_size((size_t)n, (size_t)width, &elems)) elems = SIZE_MAX / 8;
    *out = syn_malloc(elems * sizeof **out);
    return *out ? SYN_OK : SYN_FAIL_NOMEM(err, elems * sizeof **out, "logits or hidden states");
}

/* Returns the logits (n, V0) of n positions, complete on every rank. hidden is (p, T, C); `first`
   is an index into its p * T positions. */
static syn_tensor causal_logits(syn_model *m, syn_tensor hidden, int64_t first, int64_t n) {
    syn_ctx *ctx = syn_model_ctx(m);
    const int64_t rows[2] = {-1, syn_tensor_dim(ctx, hidden, 2)};
    hidden = syn_reshape(ctx, hidden, rows, 2);
    return syn_causal_logits(m, syn_slice(ctx, hidden, 0, first, n));
}

static syn_tensor bert_logits(syn_model *m, syn_tensor hidden, int64_t first, int64_t n) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_spec spec = {SYN_I32, 1, {n}};
    int32_t *at = syn_malloc((size_t)n * sizeof *at);
    if (!at) return syn_ctx_fail(ctx, SYN_E_NOMEM, "out of memory: positions of logits");
    for (int64_t i = 0; i < n; i++) at[i] = (int32_t)(first + i);
    const syn_tensor positions = syn_input(ctx, "positions", &spec, at);
    syn_free(at);
    return syn_bert_mlm(m, hidden, positions);
}

static syn_status put_logits(const piece *p, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(p->of->model);
    const int64_t rows = p->n * p->run->prompt_tokens, width = p->run->config.vocab_size;
    int64_t most = syn_logits_rows(p->of->model, true);
    const bool causal = syn_model_is_causal(&p->run->config);
    float *out = NULL;
    if (most > rows) most = rows;
    syn_status s = p->of->logits ? alloc_rows(&out, most, width, err) : SYN_OK;
    for (int64_t first = 0; first < rows && s == SYN_OK; first += most) {
        const int64_t n = rows - first < most ? rows - first : most;
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor logits = causal ? causal_logits(p->of->model, p->hidden, first, n)
                                         : bert_logits(p->of->model, p->hidden, first, n);
        s = syn_ctx_check(ctx, err);
        if (s == SYN_OK && out) s = read_rows(p, logits, first, n, width, out, err);
        if (s == SYN_OK && out) npy_put(p->of->logits, out, (size_t)(n * width));
        syn_release(ctx, mark, NULL, 0);
    }
    syn_free(out);
    return s;
}

/* Pools the hidden states (T, C) of one prompt into the first row of `states`. The first `length`
   positions are tokens, the others padding. */
static void pool(inference_pooling how, float *states, int64_t length, int64_t width) {
    if (how == INFERENCE_POOLING_LAST)
        memmove(states, states + (length - 1) * width, (size_t)width * sizeof *states);
    if (how != INFERENCE_POOLING_MEAN) return;
    for (int64_t i = 0; i < width; i++) {
        double sum = 0;
        for (int64_t t = 0; t < length; t++) sum += (double)states[t * width + i];
        states[i] = (float)(sum / (double)length);
    }
}

static syn_status put_hidden(const piece *p, syn_error *err) {
    const inference_pooling how = (inference_pooling)p->run->args->pooling;
    const int64_t tokens = p->run->prompt_tokens, width = p->run->config.n_embd;
    float *out;
    SYN_TRY(alloc_rows(&out, p->n * tokens, width, err));
    syn_status s = read_rows(p, p->hidden, 0, p->n * tokens, width, out, err);
    for (int64_t i = 0; i < p->n && s == SYN_OK; i++) {
        float *states = out + i * tokens * width;
        pool(how, states, length_of(p, p->first + i), width);
        npy_put(p->of->hidden, states,
                (size_t)(how == INFERENCE_POOLING_NONE ? tokens * width : width));
    }
    syn_free(out);
    return s;
}

syn_status inference_scoring_put(const inference_scoring *s, syn_tensor hidden, int64_t first,
                                 int64_t n, syn_error *err) {
    const piece p = {s, s->run, hidden, first, n};
    SYN_TRY(syn_ctx_check(syn_model_ctx(s->model), err));
    if (s->hidden) SYN_TRY(put_hidden(&p, err));
    return inference_all_logits(s->run->args) ? put_logits(&p, err) : SYN_OK;
}

int64_t inference_texts_at_once(const inference *run) {
    const int64_t n = run->prompt_tokens < TOKENS_AT_ONCE ? TOKENS_AT_ONCE / run->prompt_tokens : 1;
    return n < run->batch ? n : run->batch;
}

syn_status inference_scoring_begin(inference_scoring *s, syn_error *err) {
    const inference_args *args = s->run->args;
    const syn_ctx *ctx = syn_model_ctx(s->model);
    const int64_t b = s->run->batch, t = s->run->prompt_tokens, width = s->run->config.n_embd;
    s->start_ns = (int64_t)syn__clock_ns();
    if (syn_ctx_rank(ctx) != 0 || !syn_ctx_has_data(ctx)) return SYN_OK;
    if (inference_all_logits(args)) {
        const int64_t dims[3] = {b, t, s->run->config.vocab_size};
        SYN_TRY(npy_open(&s->logits, args->save_logits, dims, 3, err));
    }
    if (!args->embeddings) return SYN_OK;
    if (args->pooling == INFERENCE_POOLING_NONE)
        return npy_open(&s->hidden, args->embeddings, (const int64_t[]){b, t, width}, 3, err);
    return npy_open(&s->hidden, args->embeddings, (const int64_t[]){b, width}, 2, err);
}

syn_status inference_scoring_end(inference_scoring *s, syn_status came, syn_error *err) {
    syn_error other;
    syn_sink *const files[] = {s->logits, s->hidden};
    for (int i = 0; i < 2; i++) {
        const syn_status closed =
            syn_sink_close(files[i], came == SYN_OK, came == SYN_OK ? err : &other);
        if (came == SYN_OK) came = closed;
    }
    if (syn_ctx_rank(syn_model_ctx(s->model)) == 0)
        s->run->score_ns = (int64_t)syn__clock_ns() - s->start_ns;
    return came;
}

syn_status inference_end_piece(inference *run, syn_ctx *ctx, syn_mark from, syn_error *err) {
    syn_release(ctx, from, NULL, 0);
    if (run->launch.want_graph) return SYN_OK;
    if (syn_ctx_rank(ctx) == 0) SYN_TRY(inference_report(run, ctx, err));
    syn_forget(ctx, from, NULL, 0);
    return SYN_OK;
}

/* ---- Causal models ---- */

/* Sets *out to the ids of the n prompts beginning with prompt `first`, with the padding moved from
   before each prompt to after it. Sets *out to NULL if ids is NULL. */
static syn_status move_padding(const inference_scoring *s, const int32_t *ids, int64_t first,
                               int64_t n, int32_t **out, syn_error *err) {
    const int64_t t = s->run->prompt_tokens;
    *out = NULL;
    if (!ids) return SYN_OK;
    *out = syn_calloc((size_t)(n * t), sizeof **out);
    if (!*out) return SYN_FAIL_NOMEM(err, (size_t)(n * t) * sizeof **out, "prompts");
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = t - (s->padding ? s->padding[first + i] : 0);
        memcpy(*out + i * t, ids + (first + i + 1) * t - length, (size_t)length * sizeof **out);
    }
    return SYN_OK;
}

static syn_status score_piece(const inference_scoring *s, const int32_t *ids, int64_t first,
                              int64_t n, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(s->model);
    const syn_spec spec = {SYN_I32, 2, {n, s->run->prompt_tokens}};
    const syn_mark from = syn_ctx_mark(ctx);
    int32_t *texts;
    SYN_TRY(move_padding(s, ids, first, n, &texts, err));
    const syn_tensor hidden = syn_causal_hidden(s->model, syn_input(ctx, "texts", &spec, texts));
    syn_free(texts);
    SYN_TRY(inference_scoring_put(s, hidden, first, n, err));
    return inference_end_piece(s->run, ctx, from, err);
}

syn_status inference_score_texts(inference *run, syn_model *model, const int32_t *ids,
                                 const int32_t *padding, bool progress_shown, syn_error *err) {
    const int64_t at_once = inference_texts_at_once(run);
    progress texts = {.what = "scoring", .unit = "prompts", .quiet = !progress_shown};
    inference_scoring s = {.run = run, .model = model, .padding = padding};
    syn_status came = inference_scoring_begin(&s, err);
    progress_step(&texts, 0, run->batch);
    for (int64_t first = 0, n; first < run->batch && came == SYN_OK; first += n) {
        n = run->batch - first < at_once ? run->batch - first : at_once;
        came = score_piece(&s, ids, first, n, err);
        progress_step(&texts, first + n, run->batch);
    }
    return inference_scoring_end(&s, came, err);
}

/* ---- After ---- */

static void print_file(const char *what, const char *path) {
    char name[CLI_SHOWN_BYTES];
    printf("%s in %s\n", what, cli_shown(path, name, sizeof name));
}

void inference_score_print(const inference *run, const report *r, int64_t tokens) {
    static const char *const pooled[] = {"written: hidden states (batch, tokens, hidden)",
                                         "written: mean hidden states (batch, hidden)",
                                         "written: first hidden states (batch, hidden)",
                                         "written: last hidden states (batch, hidden)"};
    const bool meta = run->launch.device == SYN_DEVICE_META;
    if (!inference_scores(run->args)) return;
    if (syn_model_is_causal(&run->config))
        inference_print_pass(run, r, "scoring", tokens, meta ? 0 : (double)run->score_ns);
    if (meta) return;
    if (inference_all_logits(run->args))
        print_file("written: logits (batch, tokens, vocabulary)", run->args->save_logits);
    if (run->args->embeddings) print_file(pooled[run->args->pooling], run->args->embeddings);
}

void inference_score_json(const inference *run, const report *r, int64_t tokens, syn_sink *out) {
    const bool meta = run->launch.device == SYN_DEVICE_META;
    if (inference_scores(run->args) && syn_model_is_causal(&run->config))
        inference_json_pass(r, "score", tokens, meta ? 0 : (double)run->score_ns, out);
}
