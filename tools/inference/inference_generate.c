/* Causal language models in the inference program: continues prompts. */
#include <string.h>

#include "models/generate.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "tools/inference/inference_sampling.h"
#include "tools/inference/inference_score.h"
#include "tools/inference/inference_text.h"
#include "tools/inference/npy.h"
#include "tools/progress.h"
#include "tools/residuals.h"

typedef struct continuation {
    int32_t *prompt;  /* (sequences, prompt_tokens); on meta (number of prompts, prompt_tokens) */
    int32_t *padding; /* (sequences): padding tokens before each prompt; NULL: none */
    inference_sampling sampling;
    bool streamed;       /* the text was printed while it was generated */
    syn_generation done; /* results of rank 0, with the tokens and logits of all data-parallel
                            ranks; over MPI, of this process's rank */
} continuation;

static continuation *work_of(const inference *run) {
    return run->work;
}

/* ---- Before ---- */

static const char *refuses(const inference_args *args) {
    if (args->mask_id >= 0)
        return "--mask_id applies only to BERT's --prompt_ids without a tokenizer; omit it";
    if (inference_only_scores(args) && !args->num_output_tokens && sampling_asked(args))
        return "--temperature, --top_k, --top_p, --min_p, --greedy, --repetition_penalty, --eos: "
               "--logits all and --embeddings generate nothing unless --num_output_tokens is given";
    const char *sentence = sampling_refuses(args);
    return sentence ? sentence : inference_score_refuses(args);
}

/* Returns the number of tokens of a sequence in the KV cache. It does not include the last
   generated token, which is never an input. */
static int64_t kept_tokens(const inference *run, int64_t prompt_tokens) {
    return prompt_tokens + (run->new_tokens > 0 ? run->new_tokens - 1 : 0);
}

/* Fails if sequences are longer than the model allows. prompt_tokens 0: not known yet. */
static syn_status check_positions(const inference *run, int64_t prompt_tokens, syn_error *err) {
    const syn_model_config *c = &run->config;
    const int64_t need = kept_tokens(run, prompt_tokens);
    if (need <= syn_model_max_tokens(c))
        return prompt_tokens > 0 ? syn_model_check_growth(c, prompt_tokens, need, err) : SYN_OK;
    if (prompt_tokens == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld new tokens need more than the %lld positions that %s has",
                        (long long)run->new_tokens, (long long)syn_model_max_tokens(c), c->name);
    return SYN_FAIL(err, SYN_E_INVALID,
                    "%lld prompt tokens and %lld new tokens need %lld positions, but %s has %lld",
                    (long long)prompt_tokens, (long long)run->new_tokens, (long long)need, c->name,
                    (long long)syn_model_max_tokens(c));
}

static syn_status begin(inference *run, syn_error *err) {
    run->work = syn_calloc(1, sizeof(continuation));
    if (!run->work) return SYN_FAIL_NOMEM(err, sizeof(continuation), "a run's data");
    run->new_tokens = run->args->num_output_tokens       ? run->args->num_output_tokens
                      : inference_only_scores(run->args) ? 0
                                                         : 16;
    SYN_TRY(sampling_choose(run, &work_of(run)->sampling, err));
    return check_positions(run, run->args->num_input_tokens, err);
}

/* Replaces an empty prompt by the start token, as HuggingFace's generate does. */
static syn_status begin_empty(const inference *run, int64_t i, inference_text *text,
                              syn_error *err) {
    const int32_t bos = run->tokenizer ? syn_tokenizer_bos(run->tokenizer) : -1;
    if (bos < 0 || bos >= run->config.vocab_size)
        return run->n_prompts > 1
                   ? SYN_FAIL(
                         err, SYN_E_INVALID,
                         "line %lld of the prompts is empty, and the tokenizer has no start token",
                         (long long)i + 1)
                   : SYN_FAIL(err, SYN_E_INVALID,
                              "the prompt is empty, and the tokenizer has no start token");
    SYN_TRY(syn_grow(&text->ids, &text->cap, 1, sizeof *text->ids, err));
    text->ids[text->n++] = bos;
    return SYN_OK;
}

/* Cuts or repeats the prompt so that it has --num_input_tokens tokens. */
static syn_status fit(const inference *run, inference_text *text, syn_error *err) {
    const size_t want = (size_t)run->args->num_input_tokens, n = text->n;
    if (want == 0) return SYN_OK;
    SYN_TRY(syn_grow(&text->ids, &text->cap, want, sizeof *text->ids, err));
    for (size_t i = n; i < want; i++) text->ids[i] = text->ids[i - n];
    text->n = want;
    return SYN_OK;
}

static syn_status encode(const inference *run, int64_t i, inference_text *out, syn_error *err) {
    SYN_TRY(inference_encode(run, i, out, err));
    if (out->n == 0) SYN_TRY(begin_empty(run, i, out, err));
    return fit(run, out, err);
}

/* Pads the prompts at the beginning, so that prompts of different lengths end at the same
   position. */
static syn_status lay_out(inference *run, const inference_text *texts, syn_error *err) {
    continuation *work = work_of(run);
    const int64_t all = inference_sequences(run),
                  rows = run->launch.device == SYN_DEVICE_META ? run->n_prompts : all;
    const int64_t kept = run->new_tokens > 0 ? kept_tokens(run, run->prompt_tokens) : 0;
    size_t total;
    bool ragged = false;
    SYN_TRY(check_positions(run, run->prompt_tokens, err));
    run->cache_elems = inference_token_elems(run) * (double)all * (double)kept;
    SYN_TRY(inference_check_memory(run, err));
    for (int64_t i = 0; i < run->n_prompts; i++)
        ragged = ragged || (int64_t)texts[i].n != run->prompt_tokens;
    if (!syn_mul_size((size_t)run->prompt_tokens, (size_t)rows, &total)) total = SIZE_MAX / 8;
    work->prompt = syn_calloc(total, sizeof *work->prompt);
    if (ragged) work->padding = syn_calloc((size_t)all, sizeof *work->padding);
    if (!work->prompt || (ragged && !work->padding))
        return SYN_FAIL_NOMEM(err, total * sizeof *work->prompt, "the prompt");
    for (int64_t b = 0; b < rows; b++) {
        const inference_text *text = &texts[b % run->n_prompts];
        const int64_t pad = run->prompt_tokens - (int64_t)text->n;
        int32_t *row = work->prompt + b * run->prompt_tokens;
        for (int64_t i = 0; i < pad; i++) row[i] = work->sampling.end.fill;
        memcpy(row + pad, text->ids, text->n * sizeof *row);
        if (ragged) work->padding[b] = (int32_t)pad;
    }
    return SYN_OK;
}

static uint64_t plan(const inference *run, uint64_t h) {
    const continuation *work = work_of(run);
    h = sampling_hash(&work->sampling, inference_score_plan(run, h));
    h = syn_hash(&run->new_tokens, sizeof run->new_tokens, h);
    h = syn_hash(work->prompt, (size_t)(run->n_prompts * run->prompt_tokens) * sizeof *work->prompt,
                 h);
    if (!work->padding) return h;
    return syn_hash(work->padding, (size_t)inference_sequences(run) * sizeof *work->padding, h);
}

/* ---- One rank ---- */

/* The data of one rank that after_step needs. */
typedef struct rank_run {
    inference *run;
    const syn_ctx *ctx;
    const syn_generation *made;
    text_stream text;
} rank_run;

/* Returns the number of generated tokens of sequence b, without its stop token and the padding
   after it. */
static int64_t text_tokens(const syn_generation *g, int64_t b) {
    int64_t n = 0;
    while (n < g->made && !syn_is_stop_token(&g->end, g->tokens[b * g->new_tokens + n])) n++;
    return n;
}

/* If no output needs the recorded rows, adds them to the report and forgets them. */
static syn_status after_step(void *user, int64_t step, bool *keep_rows, syn_error *err) {
    rank_run *rank = user;
    if (rank->text.run)
        text_stream_add(&rank->text, rank->made->tokens, text_tokens(rank->made, 0));
    *keep_rows = inference_keeps_rows(rank->run) && step >= rank->run->args->first_step;
    if (*keep_rows || step < rank->run->args->first_step) return SYN_OK;
    return inference_report(rank->run, rank->ctx, err);
}

#define TEXT_BEGINS "text:    "

static void print_prompts(const inference *run) {
    const continuation *work = work_of(run);
    const bool several = run->n_prompts > 1;
    char what[40];
    for (int64_t i = 0; i < run->n_prompts; i++) {
        const int64_t pad = work->padding ? work->padding[i] : 0;
        snprintf(what, sizeof what, several ? "prompt %lld: " : "prompt:  ", (long long)i);
        inference_print_text(run, what, work->prompt + i * run->prompt_tokens + pad,
                             run->prompt_tokens - pad, false);
    }
}

/* ---- Data-parallel ranks ---- */

enum { TAG_MADE = 1000010, TAG_TOKENS, TAG_LOGITS };

/* Sends the results of a data-parallel rank to rank 0. */
static syn_status send_results(const syn_generation *g, int64_t vocab, syn_comm *comm,
                               syn_error *err) {
    SYN_TRY(syn_comm_send(comm, &g->made, 1, SYN_I64, 0, TAG_MADE, err));
    SYN_TRY(syn_comm_send(comm, g->tokens, (size_t)(g->batch * g->new_tokens), SYN_I32, 0,
                          TAG_TOKENS, err));
    if (!g->logits) return SYN_OK;
    return syn_comm_send(comm, g->logits, (size_t)(g->batch * vocab), SYN_F32, 0, TAG_LOGITS, err);
}

/* Appends the results of the other data-parallel ranks to those of rank 0. */
static syn_status receive_results(const inference *run, syn_generation *g, syn_comm *comm,
                                  syn_error *err) {
    const syn_plan *plan = &run->launch.parallel;
    const int64_t own = g->batch * g->new_tokens, of_logits = g->batch * run->config.vocab_size;
    const size_t tokens = (size_t)(own * plan->dp) * sizeof *g->tokens,
                 logits = (size_t)(of_logits * plan->dp) * sizeof *g->logits;
    int32_t *all = syn_realloc(g->tokens, tokens);
    if (all) g->tokens = all;
    float *more = all && g->logits ? syn_realloc(g->logits, logits) : NULL;
    if (more) g->logits = more;
    if (!all || (g->logits && !more))
        return SYN_FAIL_NOMEM(err, tokens + logits, "generated tokens and logits");
    for (int32_t i = 1; i < plan->dp; i++) {
        int64_t made = 0;
        int32_t *const at = g->tokens + i * own;
        SYN_TRY(syn_comm_recv(comm, &made, 1, SYN_I64, i * plan->tp, TAG_MADE, err));
        SYN_TRY(syn_comm_recv(comm, at, (size_t)own, SYN_I32, i * plan->tp, TAG_TOKENS, err));
        if (more)
            SYN_TRY(syn_comm_recv(comm, more + i * of_logits, (size_t)of_logits, SYN_F32,
                                  i * plan->tp, TAG_LOGITS, err));
        g->made = made > g->made ? made : g->made;
    }
    return SYN_OK;
}

/* Collects the results of all data-parallel ranks on rank 0, from their first tensor-parallel ranks
   of the first stage. */
static syn_status collect_results(const inference *run, const inference_rank *self,
                                  syn_generation *g, syn_error *err) {
    const syn_ctx *ctx = syn_model_ctx(self->model);
    syn_comm *comm = syn_ctx_comm(ctx);
    const syn_plan *plan = &run->launch.parallel;
    if (plan->dp == 1 || !g->tokens || syn_ctx_rank(ctx) >= plan->tp * plan->dp ||
        syn_ctx_rank(ctx) % plan->tp != 0)
        return SYN_OK;
    for (int64_t b = 0; b < g->batch; b++) /* others may have made more */
        for (int64_t i = g->made; i < g->new_tokens; i++)
            g->tokens[b * g->new_tokens + i] = g->end.fill;
    return syn_ctx_rank(ctx) == 0 ? receive_results(run, g, comm, err)
                                  : send_results(g, run->config.vocab_size, comm, err);
}

/* ---- Generating ---- */

/* Data-parallel ranks choose with different random numbers. */
static syn_sampling sampling_of(const inference *run, const inference_rank *self) {
    syn_sampling how = work_of(run)->sampling.how;
    const int32_t index = self->mesh->index[SYN_AXIS_DP];
    if (index > 0) how.seed = syn_hash(&index, sizeof index, how.seed);
    return how;
}

static syn_status run_rank(inference *run, const inference_rank *self, syn_error *err) {
    continuation *work = work_of(run);
    rank_run rank = {.run = run, .ctx = syn_model_ctx(self->model)};
    const bool first = syn_ctx_rank(rank.ctx) == run->launch.alone_rank,
               meta = run->launch.device == SYN_DEVICE_META;
    const int64_t begin = meta ? 0 : self->mesh->index[SYN_AXIS_DP] * run->batch;
    const int32_t *prompt = meta ? NULL : work->prompt + begin * run->prompt_tokens;
    if (inference_scores(run->args))
        SYN_TRY(inference_score_texts(run, self->model, prompt, work->padding, self->shows_progress,
                                      err));
    if (run->new_tokens == 0) return SYN_OK;
    if (first && streams_text(run)) {
        print_prompts(run);
        text_stream_begin(&rank.text, run, TEXT_BEGINS);
    }
    progress tokens = {
        .what = "generating", .unit = "tokens", .quiet = !self->shows_progress || rank.text.run};
    syn_generation g = {.pp = self->pp,
                        .together = self->mesh->expert_dp,
                        .batch = run->batch,
                        .prompt_tokens = run->prompt_tokens,
                        .new_tokens = run->new_tokens,
                        .prompt = prompt,
                        .padding = work->padding ? work->padding + begin : NULL,
                        .sampling = sampling_of(run, self),
                        .repetition_penalty = work->sampling.repetition_penalty,
                        .end = work->sampling.end,
                        /* on all first tensor-parallel ranks, to check for NaN and infinity */
                        .want_logits = syn_ctx_rank(rank.ctx) % run->launch.parallel.tp == 0,
                        .share_logits = run->args->save_logits && self->pp,
                        .progress = progress_step,
                        .progress_user = &tokens,
                        .after_step = after_step,
                        .after_step_user = &rank};
    rank.made = &g;
    syn_status s = syn_generate(self->model, &g, err);
    if (s == SYN_OK) s = collect_results(run, self, &g, err);
    text_stream_end(&rank.text, g.tokens, s == SYN_OK && g.tokens ? text_tokens(&g, 0) : 0);
    if (s == SYN_OK && first) {
        work->streamed = rank.text.run != NULL;
        work->done = g;
        return SYN_OK;
    }
    syn_free(g.tokens);
    syn_free(g.logits);
    return s;
}

/* ---- After ---- */

static void print_texts(const inference *run) {
    const syn_generation *g = &work_of(run)->done;
    char what[40];
    for (int64_t b = 0; g->tokens && b < inference_sequences(run); b++) {
        snprintf(what, sizeof what, TEXT_BEGINS);
        if (inference_sequences(run) > 1)
            snprintf(what, sizeof what, "text %lld:%*s", (long long)b,
                     b < 10    ? 2
                     : b < 100 ? 1
                               : 0,
                     "");
        inference_print_text(run, what, g->tokens + b * g->new_tokens, text_tokens(g, b), true);
    }
}

struct speed {
    double prefill_ns, decode_ns, prefill_rate, decode_rate; /* tokens/s */
};

/* Returns the number of prompt tokens of all sequences, without padding. */
static int64_t real_tokens(const inference *run) {
    const continuation *work = work_of(run);
    const int64_t sequences = inference_sequences(run);
    int64_t n = sequences * run->prompt_tokens;
    for (int64_t b = 0; work->padding && b < sequences; b++) n -= work->padding[b];
    return n;
}

/* Returns the number of tokens that all sequences generate in recorded decode steps. */
static int64_t decoded_tokens(const inference *run) {
    const syn_generation *g = &work_of(run)->done;
    const int64_t first = run->args->first_step > 1 ? run->args->first_step : 1;
    return g->batch * (g->made - first) * run->launch.parallel.dp;
}

static struct speed speed_of(const inference *run, double prefill_ns, double decode_ns) {
    struct speed s = {prefill_ns, decode_ns, 0, 0};
    if (s.prefill_ns > 0) s.prefill_rate = (double)real_tokens(run) * 1e9 / s.prefill_ns;
    if (s.decode_ns > 0) s.decode_rate = (double)decoded_tokens(run) * 1e9 / s.decode_ns;
    return s;
}

/* Returns the measured speed; all values are 0 on meta. */
static struct speed measured(const inference *run) {
    const syn_generation *g = &work_of(run)->done;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    return speed_of(run, meta ? 0 : (double)g->prefill_ns, meta ? 0 : (double)g->decode_ns);
}

/* Returns the predicted speed; all values are 0 if the run has no hardware description. */
static struct speed predicted(const inference *run, const report *r) {
    return speed_of(run, r->predicted_prefill_ns, r->predicted_decode_ns);
}

static run_shape shape_of(const inference *run) {
    const syn_generation *g = &work_of(run)->done;
    run_shape shape = {.wide = run->dtype == SYN_F32,
                       .layers = run->config.n_layer,
                       .hidden = run->config.n_embd,
                       .tp = run->args->tp,
                       .dp = 1,
                       .pp = run->launch.parallel.pp,
                       .batch = g->batch,
                       .tokens = g->prompt_tokens,
                       .new_tokens = g->made};
    int n = 0;
    if (run->config.family != &syn_gpt_family) shape.unlike[n++] = "a model other than GPT";
    return shape;
}

static void print_speed(const inference *run, const char *kind, const struct speed *s) {
    char a[64], b[64];
    if (s->prefill_ns > 0)
        printf("%sprefill: %lld token%s in %s, %s tokens/s\n", kind, (long long)real_tokens(run),
               cli_plural((uint64_t)real_tokens(run)), cli_time_text(s->prefill_ns, a, sizeof a),
               cli_count_text(s->prefill_rate, b, sizeof b));
    if (s->decode_rate > 0)
        printf("%sdecode:  %lld tokens in %s, %s tokens/s\n", kind, (long long)decoded_tokens(run),
               cli_time_text(s->decode_ns, a, sizeof a),
               cli_count_text(s->decode_rate, b, sizeof b));
}

static void print_limits(const inference *run, const report *r, const struct speed *s) {
    const run_shape shape = shape_of(run);
    const run_error e = residuals_near(run->launch.hw, &shape);
    char text[256];
    if (s->prefill_ns > 0)
        printf("limits of prefill: %s\n",
               limits_text(&r->limits, 1u << SYN_PHASE_PREFILL, s->prefill_ns, text, sizeof text));
    if (s->decode_rate > 0)
        printf("limits of decode:  %s\n",
               limits_text(&r->limits, 1u << SYN_PHASE_DECODE, s->decode_ns, text, sizeof text));
    printf("prediction error: %s\n", residuals_text(&e, run->launch.hw, text, sizeof text));
}

void inference_print_predicted(const inference *run, const report *r) {
    const struct speed s = predicted(run, r);
    print_speed(run, "predicted ", &s);
    if (s.prefill_ns > 0 || s.decode_ns > 0) print_limits(run, r, &s);
}

static void print(const inference *run, const report *r) {
    const struct speed done = measured(run);
    if (!work_of(run)->streamed) {
        print_prompts(run);
        print_texts(run);
    }
    if (run->new_tokens > 0) sampling_print(run, &work_of(run)->sampling);
    inference_score_print(run, r, real_tokens(run));
    print_speed(run, "", &done);
    inference_print_predicted(run, r);
}

/* Writes prompt and generated text of each sequence, without stop tokens. */
static void json_texts(const inference *run, syn_sink *out) {
    const continuation *work = work_of(run);
    const syn_generation *g = &work->done;
    syn_sink_text(out, ", \"prompts\": [");
    for (int64_t b = 0; g->tokens && b < inference_sequences(run); b++) {
        const int64_t pad = work->padding ? work->padding[b] : 0;
        if (b) syn_sink_text(out, ", ");
        inference_json_text(run, work->prompt + b * g->prompt_tokens + pad, g->prompt_tokens - pad,
                            out);
    }
    syn_sink_text(out, "], \"texts\": [");
    for (int64_t b = 0; g->tokens && b < inference_sequences(run); b++) {
        if (b) syn_sink_text(out, ", ");
        inference_json_text(run, g->tokens + b * g->new_tokens, text_tokens(g, b), out);
    }
    syn_sink_char(out, ']');
}

/* all: also phases that take no time. */
static void json_speed(const char *kind, const struct speed *s, bool all, syn_sink *out) {
    if (all || s->prefill_ns > 0) {
        syn_sink_printf(out, ", \"%sprefill_ns\": ", kind);
        syn_sink_double(out, s->prefill_ns);
    }
    if (!all && !(s->decode_ns > 0)) return;
    syn_sink_printf(out, ", \"%sdecode_ns\": ", kind);
    syn_sink_double(out, s->decode_ns);
}

void inference_json_predicted(const inference *run, const report *r, syn_sink *out) {
    const struct speed s = predicted(run, r);
    const run_shape shape = shape_of(run);
    const run_error e = residuals_near(run->launch.hw, &shape);
    const bool all = !run->args->ids; /* the program inference prints both phases */
    json_speed("predicted_", &s, all, out);
    if (all || s.prefill_ns > 0) {
        syn_sink_text(out, ", \"prefill_limits\": ");
        limits_json(&r->limits, 1u << SYN_PHASE_PREFILL, s.prefill_ns, out);
    }
    if (all || s.decode_ns > 0) {
        syn_sink_text(out, ", \"decode_limits\": ");
        limits_json(&r->limits, 1u << SYN_PHASE_DECODE, s.decode_ns, out);
    }
    if (e.n_rows == 0) return;
    syn_sink_text(out, ", \"predicted_error\": ");
    syn_sink_double(out, e.error);
    syn_sink_text(out, ", \"extrapolated\": ");
    syn_sink_json_string(out, e.extrapolated);
}

static void json(const inference *run, const report *r, syn_sink *out) {
    const syn_generation *g = &work_of(run)->done;
    const struct speed done = measured(run);
    sampling_json(&work_of(run)->sampling, out);
    json_texts(run, out);
    syn_sink_printf(out, ", \"prompt_tokens\": %lld, \"new_tokens\": %lld, \"tokens\": [",
                    (long long)g->prompt_tokens, (long long)g->made);
    for (int64_t b = 0; g->tokens && b < inference_sequences(run); b++) {
        syn_sink_text(out, b ? ", [" : "[");
        for (int64_t i = 0; i < g->made; i++)
            syn_sink_printf(out, "%s%d", i ? ", " : "", g->tokens[b * g->new_tokens + i]);
        syn_sink_char(out, ']');
    }
    syn_sink_char(out, ']');
    inference_score_json(run, r, real_tokens(run), out);
    if (run->launch.device != SYN_DEVICE_META) json_speed("", &done, true, out);
    if (run->launch.hw) inference_json_predicted(run, r, out);
}

static syn_status save_logits(const inference *run, const char *path, syn_error *err) {
    const continuation *work = work_of(run);
    if (inference_all_logits(run->args)) return SYN_OK; /* written during the run */
    return npy_write_f32(path, work->done.logits, inference_sequences(run), run->config.vocab_size,
                         err);
}

static void free_all(inference *run) {
    continuation *work = work_of(run);
    syn_free(work->done.tokens);
    syn_free(work->done.logits);
    syn_free(work->prompt);
    syn_free(work->padding);
    syn_free(work);
}

const inference_task inference_generate = {.prompt = "Once upon a time",
                                           .refuses = refuses,
                                           .begin = begin,
                                           .encode = encode,
                                           .lay_out = lay_out,
                                           .run = run_rank,
                                           .plan = plan,
                                           .print = print,
                                           .json = json,
                                           .shape = shape_of,
                                           .save_logits = save_logits,
                                           .free = free_all};
