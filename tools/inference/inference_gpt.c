/* GPT in the inference program: continues prompts. */
#include <math.h>
#include <string.h>

#include "models/generate.h"
#include "syntorch/memory.h"
#include "tools/inference/checkpoint.h"
#include "tools/inference/inference.h"
#include "tools/npy.h"
#include "tools/progress.h"

typedef struct gpt_run {
    syn_gpt_config config;
    int32_t *prompt;     /* (batch, prompt_tokens); on meta only as many rows as there are texts */
    int32_t *padding;    /* (batch) of the left side; NULL: none */
    syn_generation done; /* rank 0's (over MPI: this rank's) */
} gpt_run;

static gpt_run *gpt_of(const inference *run) {
    return run->model;
}

/* ---- before ---------------------------------------------------------------------------------- */

static syn_status configure(inference *run, const char *preset, const char *file, syn_error *err) {
    gpt_run *gpt = syn_calloc(1, sizeof *gpt);
    if (!gpt) return SYN_FAIL_NOMEM(err, sizeof *gpt, "a model");
    run->model = gpt;
    syn_gpt_config *c = &gpt->config;
    SYN_TRY(preset ? syn_gpt_config_preset(c, preset, err) : syn_gpt_config_load(c, file, err));
    run->facts = (inference_model_facts){
        c->name, c->n_layer, c->n_embd, c->n_head, c->vocab_size, syn_gpt_config_params(c), 0};
    run->new_tokens = run->args->num_output_tokens ? run->args->num_output_tokens : 16;
    return syn_gpt_config_check(c, (int)run->args->tp, err);
}

/* What generation_config.json says counts over config.json. */
static syn_status read_ending(inference *run, syn_error *err) {
    char path[4200], unread[300];
    syn_gpt_config *c = &gpt_of(run)->config;
    if (!checkpoint_file(run->args->weights, "generation_config.json", path, sizeof path))
        return SYN_OK;
    SYN_TRY(syn_gpt_ending_load(&c->end, path, c->vocab_size, unread, sizeof unread, err));
    if (*unread) inference_note(run, "%s sets %s, which is not done", path, unread);
    return SYN_OK;
}

static syn_status adapt(inference *run, syn_error *err) {
    syn_gpt_config *c = &gpt_of(run)->config;
    syn_weights_head head;
    SYN_TRY(read_ending(run, err));
    if (!c->tied) return SYN_OK;
    SYN_TRY(syn_weights_compare_head(run->weights, &head, err));
    if (!head.own_matrix) return SYN_OK;
    c->tied = false;
    run->facts.params = syn_gpt_config_params(c);
    inference_note(run, "the configuration ties the head to the token table, but the weights hold "
                        "another lm_head.weight; it is used");
    return SYN_OK;
}

static const char *refuses(const inference_args *args) {
    (void)args;
    return NULL;
}

/* prompt_tokens 0: nobody knows yet how many. */
static syn_status check_positions(const inference *run, int64_t prompt_tokens, syn_error *err) {
    const gpt_run *gpt = gpt_of(run);
    const int64_t need = prompt_tokens + run->new_tokens - 1;
    if (need <= gpt->config.n_positions) return SYN_OK;
    if (prompt_tokens == 0)
        return SYN_FAIL(
            err, SYN_E_INVALID, "%lld new tokens need more than the %lld positions that %s has",
            (long long)run->new_tokens, (long long)gpt->config.n_positions, gpt->config.name);
    return SYN_FAIL(err, SYN_E_INVALID,
                    "%lld prompt tokens and %lld new ones need %lld positions, but %s has %lld",
                    (long long)prompt_tokens, (long long)run->new_tokens, (long long)need,
                    gpt->config.name, (long long)gpt->config.n_positions);
}

struct text_ids {
    int32_t *ids;
    size_t n;
};

/* An empty prompt is the token that begins texts: what HuggingFace's generate begins with when it
   gets nothing. */
static syn_status begin_empty(const inference *run, int64_t i, struct text_ids *text,
                              syn_error *err) {
    const int32_t bos = run->tokenizer ? syn_tokenizer_bos(run->tokenizer) : -1;
    if (bos < 0 || bos >= run->facts.vocab)
        return run->n_prompts > 1
                   ? SYN_FAIL(err, SYN_E_INVALID,
                              "line %lld of the prompts is empty, and there is no token to begin "
                              "with",
                              (long long)i + 1)
                   : SYN_FAIL(err, SYN_E_INVALID,
                              "the prompt is empty, and there is no token to begin with");
    int32_t *ids = syn_realloc(text->ids, sizeof *ids);
    if (!ids) return SYN_FAIL_NOMEM(err, sizeof *ids, "the prompt");
    *ids = bos;
    *text = (struct text_ids){ids, 1};
    return SYN_OK;
}

/* Cut or repeated to --num_input_tokens. */
static syn_status fit(const inference *run, struct text_ids *text, syn_error *err) {
    const size_t want = (size_t)run->args->num_input_tokens, n = text->n;
    if (want == 0) return SYN_OK;
    int32_t *ids = syn_realloc(text->ids, want * sizeof *ids);
    if (!ids) return SYN_FAIL_NOMEM(err, want * sizeof *ids, "the prompt");
    for (size_t i = n; i < want; i++) ids[i] = ids[i - n];
    *text = (struct text_ids){ids, want};
    return SYN_OK;
}

/* Sequences of different length end together: the shorter ones begin with padding. */
static syn_status lay_out(inference *run, const struct text_ids *texts, syn_error *err) {
    gpt_run *gpt = gpt_of(run);
    const int64_t rows = run->launch.device == SYN_DEVICE_META ? run->n_prompts : run->batch;
    const int32_t fill = gpt->config.end.fill;
    size_t total;
    bool ragged = false;
    for (int64_t i = 0; i < run->n_prompts; i++)
        ragged = ragged || (int64_t)texts[i].n != run->prompt_tokens;
    if (!syn_mul_size((size_t)run->prompt_tokens, (size_t)rows, &total)) total = SIZE_MAX / 8;
    gpt->prompt = syn_calloc(total, sizeof *gpt->prompt);
    if (ragged) gpt->padding = syn_calloc((size_t)run->batch, sizeof *gpt->padding);
    if (!gpt->prompt || (ragged && !gpt->padding))
        return SYN_FAIL_NOMEM(err, total * sizeof *gpt->prompt, "the prompt");
    for (int64_t b = 0; b < rows; b++) {
        const struct text_ids *text = &texts[b % run->n_prompts];
        const int64_t pad = run->prompt_tokens - (int64_t)text->n;
        int32_t *row = gpt->prompt + b * run->prompt_tokens;
        for (int64_t i = 0; i < pad; i++) row[i] = fill;
        memcpy(row + pad, text->ids, text->n * sizeof *row);
        if (ragged) gpt->padding[b] = (int32_t)pad;
    }
    return SYN_OK;
}

static syn_status prepare(inference *run, syn_error *err) {
    gpt_run *gpt = gpt_of(run);
    syn_status s = check_positions(run, run->args->num_input_tokens, err);
    SYN_TRY(s);
    struct text_ids *texts = syn_calloc((size_t)run->n_prompts, sizeof *texts);
    if (!texts) return SYN_FAIL_NOMEM(err, (size_t)run->n_prompts * sizeof *texts, "the prompts");
    for (int64_t i = 0; i < run->n_prompts && s == SYN_OK; i++) {
        s = inference_encode(run, i, &texts[i].ids, &texts[i].n, err);
        if (s == SYN_OK && texts[i].n == 0) s = begin_empty(run, i, &texts[i], err);
        if (s == SYN_OK) s = fit(run, &texts[i], err);
        if ((int64_t)texts[i].n > run->prompt_tokens) run->prompt_tokens = (int64_t)texts[i].n;
    }
    if (s == SYN_OK) s = check_positions(run, run->prompt_tokens, err);
    run->facts.cache_elems = 2.0 * (double)gpt->config.n_layer * (double)gpt->config.n_embd *
                             (double)run->batch *
                             (double)(run->prompt_tokens + run->new_tokens - 1);
    if (s == SYN_OK) s = inference_check_memory(run, err);
    if (s == SYN_OK) s = lay_out(run, texts, err);
    for (int64_t i = 0; i < run->n_prompts; i++) syn_free(texts[i].ids);
    syn_free(texts);
    return s;
}

static uint64_t plan(const inference *run, uint64_t h) {
    const gpt_run *gpt = gpt_of(run);
    const syn_gpt_config *c = &gpt->config;
    const double shape[] = {(double)c->n_layer,     (double)c->n_embd,      (double)c->n_head,
                            (double)c->n_positions, (double)c->n_inner,     (double)c->vocab_size,
                            c->layer_norm_epsilon,  c->initializer_range,   (double)c->gelu_tanh,
                            (double)c->tied,        (double)run->new_tokens};
    h = syn_hash(shape, sizeof shape, h);
    h = syn_hash(&c->end, sizeof c->end, h);
    h = syn_hash(gpt->prompt, (size_t)(run->n_prompts * run->prompt_tokens) * sizeof *gpt->prompt,
                 h);
    return gpt->padding ? syn_hash(gpt->padding, (size_t)run->batch * sizeof *gpt->padding, h) : h;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static syn_status run_rank(inference *run, syn_ctx *ctx, const inference_rank *rank, bool forward,
                           syn_error *err) {
    gpt_run *gpt = gpt_of(run);
    const inference_args *args = run->args;
    syn_gpt *model = NULL;
    progress weights = {.what = run->weights ? "loading weights" : "making weights",
                        .unit = "layers",
                        .quiet = !rank->progress};
    progress tokens = {.what = "generating", .unit = "tokens", .quiet = !rank->progress};
    const syn_gpt_options how = {.tp = rank->tp,
                                 .fused_attention = run->fused_attention,
                                 .seed = (uint64_t)args->seed,
                                 .weight_dtype = run->dtype,
                                 .progress = progress_step,
                                 .progress_user = &weights};
    SYN_TRY(syn_gpt_new(&model, ctx, &gpt->config, &how, err));
    syn_generation g = {.batch = run->batch,
                        .prompt_tokens = run->prompt_tokens,
                        .new_tokens = run->new_tokens,
                        .prompt = run->launch.device == SYN_DEVICE_META ? NULL : gpt->prompt,
                        .padding = gpt->padding,
                        .sampling = {isnan(args->temperature) ? 1.0 : args->temperature,
                                     args->top_k, isnan(args->top_p) ? 1.0 : args->top_p,
                                     (uint64_t)args->seed},
                        .end = gpt->config.end,
                        .want_logits = syn_ctx_rank(ctx) == 0, /* to see that they are numbers */
                        .progress = progress_step,
                        .progress_user = &tokens};
    syn_status s = forward ? syn_generate(model, &g, err) : SYN_OK;
    syn_gpt_free(model);
    if (syn_ctx_rank(ctx) == 0 && s == SYN_OK && forward) {
        gpt->done = g;
    } else {
        syn_free(g.tokens);
        syn_free(g.logits);
    }
    return s;
}

/* ---- after ----------------------------------------------------------------------------------- */

static void print_tokens(const inference *run) {
    const gpt_run *gpt = gpt_of(run);
    const syn_generation *g = &gpt->done;
    const bool several = run->n_prompts > 1;
    char what[40];
    for (int64_t i = 0; i < run->n_prompts; i++) {
        const int64_t pad = gpt->padding ? gpt->padding[i] : 0;
        snprintf(what, sizeof what, several ? "prompt %lld: " : "prompt:  ", (long long)i);
        inference_print_text(run, what, gpt->prompt + i * run->prompt_tokens + pad,
                             run->prompt_tokens - pad);
    }
    for (int64_t b = 0; g->tokens && b < g->batch; b++) {
        snprintf(what, sizeof what, "text:    ");
        if (g->batch > 1)
            snprintf(what, sizeof what, "text %lld:%*s", (long long)b,
                     b < 10    ? 2
                     : b < 100 ? 1
                               : 0,
                     "");
        const int32_t *tokens = g->tokens + b * g->new_tokens;
        int64_t n = 0; /* without the end of the text and what fills up after it */
        while (n < g->made && !syn_gpt_ends(&g->end, tokens[n])) n++;
        inference_print_text(run, what, tokens, n);
    }
}

struct speed {
    double prefill_ns, decode_ns, prefill_rate, decode_rate; /* tokens/s */
};

/* Of the prompts, without padding. */
static int64_t real_tokens(const inference *run) {
    const gpt_run *gpt = gpt_of(run);
    int64_t n = run->batch * run->prompt_tokens;
    for (int64_t b = 0; gpt->padding && b < run->batch; b++) n -= gpt->padding[b];
    return n;
}

static struct speed speed_of(const inference *run, const report *r) {
    const syn_generation *g = &gpt_of(run)->done;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    struct speed s = {meta ? r->predicted_prefill_ns : (double)g->prefill_ns,
                      meta ? r->predicted_decode_ns : (double)g->decode_ns, 0, 0};
    if (s.prefill_ns > 0) s.prefill_rate = (double)real_tokens(run) * 1e9 / s.prefill_ns;
    if (s.decode_ns > 0) s.decode_rate = (double)(g->batch * (g->made - 1)) * 1e9 / s.decode_ns;
    return s;
}

static void print(const inference *run, const report *r) {
    const syn_generation *g = &gpt_of(run)->done;
    const struct speed s = speed_of(run, r);
    const char *kind = run->launch.device == SYN_DEVICE_META ? "predicted " : "";
    char a[64], b[64];
    print_tokens(run);
    if (s.prefill_ns > 0)
        printf("%sprefill: %lld tokens in %s, %s tokens/s\n", kind, (long long)real_tokens(run),
               cli_time_text(s.prefill_ns, a, sizeof a),
               cli_count_text(s.prefill_rate, b, sizeof b));
    if (s.decode_rate > 0)
        printf("%sdecode:  %lld tokens in %s, %s tokens/s\n", kind,
               (long long)(g->batch * (g->made - 1)), cli_time_text(s.decode_ns, a, sizeof a),
               cli_count_text(s.decode_rate, b, sizeof b));
}

static void json(const inference *run, const report *r, syn_sink *out) {
    const syn_generation *g = &gpt_of(run)->done;
    const struct speed s = speed_of(run, r);
    const char *kind = run->launch.device == SYN_DEVICE_META ? "predicted_" : "";
    syn_sink_printf(out, "\"prompt_tokens\": %lld, \"new_tokens\": %lld, \"tokens\": [",
                    (long long)g->prompt_tokens, (long long)g->made);
    for (int64_t b = 0; g->tokens && b < g->batch; b++) {
        syn_sink_text(out, b ? ", [" : "[");
        for (int64_t i = 0; i < g->made; i++)
            syn_sink_printf(out, "%s%d", i ? ", " : "", g->tokens[b * g->new_tokens + i]);
        syn_sink_char(out, ']');
    }
    syn_sink_printf(out, "], \"%sprefill_ns\": ", kind);
    syn_sink_double(out, s.prefill_ns);
    syn_sink_printf(out, ", \"%sdecode_ns\": ", kind);
    syn_sink_double(out, s.decode_ns);
}

static syn_status save_logits(const inference *run, const char *path, syn_error *err) {
    const gpt_run *gpt = gpt_of(run);
    return npy_write_f32(path, gpt->done.logits, gpt->done.batch, gpt->config.vocab_size, err);
}

static syn_status write_config(const inference *run, const char *path, syn_error *err) {
    return syn_gpt_config_save(&gpt_of(run)->config, path, err);
}

static void free_all(inference *run) {
    gpt_run *gpt = gpt_of(run);
    if (!gpt) return;
    syn_free(gpt->done.tokens);
    syn_free(gpt->done.logits);
    syn_free(gpt->prompt);
    syn_free(gpt->padding);
    syn_free(gpt);
}

const inference_family inference_gpt = {.name = "gpt",
                                        .presets = syn_gpt_presets,
                                        .kind = SYN_WEIGHTS_GPT2,
                                        .tokenizer = SYN_TOKENIZER_BPE,
                                        .configure = configure,
                                        .adapt = adapt,
                                        .refuses = refuses,
                                        .prepare = prepare,
                                        .run = run_rank,
                                        .plan = plan,
                                        .write_config = write_config,
                                        .print = print,
                                        .json = json,
                                        .save_logits = save_logits,
                                        .free = free_all};
