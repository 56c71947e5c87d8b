/* BERT in the inference program: fills in the [MASK]s of sentences. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "models/bert.h"
#include "syntorch/memory.h"
#include "tools/inference/inference.h"
#include "tools/npy.h"
#include "tools/progress.h"

#define MASK_TEXT   "[MASK]"
#define PREDICTIONS 5

typedef struct bert_run {
    syn_bert_config config;
    unsigned heads;              /* those to fill masks, and for saving all that the weights have */
    int32_t cls, sep, mask, pad; /* ids */
    int32_t *ids;                /* (batch, T) */
    float *padding;              /* (batch, T): 0, or -infinity behind a short sequence; NULL */
    int32_t *masks;              /* (n_masks): positions among all batch * T */
    int64_t n_masks, n_top, n_tokens; /* n_tokens: without padding */
    /* rank 0's (over MPI: this rank's) results */
    float *logits; /* (n_masks, V0), if wanted */
    float *top;    /* (n_masks, n_top): probabilities, largest first */
    int32_t *best; /* (n_masks, n_top): their ids */
    int64_t forward_ns;
} bert_run;

static bert_run *bert_of(const inference *run) {
    return run->model;
}

/* ---- before
 * ----------------------------------------------------------------------------------
 */

static syn_status configure(inference *run, const char *preset, const char *file, syn_error *err) {
    bert_run *bert = syn_calloc(1, sizeof *bert);
    if (!bert) return SYN_FAIL_NOMEM(err, sizeof *bert, "a model");
    run->model = bert;
    syn_bert_config *c = &bert->config;
    SYN_TRY(preset ? syn_bert_config_preset(c, preset, err) : syn_bert_config_load(c, file, err));
    run->facts = (inference_model_facts){.name = c->name,
                                         .n_layer = c->n_layer,
                                         .hidden = c->n_embd,
                                         .heads = c->n_head,
                                         .vocab = c->vocab_size,
                                         .params = syn_bert_config_params(c, SYN_BERT_MLM)};
    bert->heads = SYN_BERT_MLM;
    return syn_bert_config_check(c, (int)run->args->tp, err);
}

static syn_status adapt(inference *run, syn_error *err) {
    bert_run *bert = bert_of(run);
    syn_weights_head head;
    if (!bert->config.tied) return SYN_OK;
    SYN_TRY(syn_weights_compare_head(run->weights, &head, err));
    if (head.own_bias)
        inference_note(run, "cls.predictions.decoder.bias and cls.predictions.bias differ in the "
                            "weights; the first is used");
    if (!head.own_matrix) return SYN_OK;
    bert->config.tied = false;
    run->facts.params = syn_bert_config_params(&bert->config, bert->heads);
    inference_note(run, "the configuration ties the head to the word table, but the weights hold "
                        "another cls.predictions.decoder.weight; it is used");
    return SYN_OK;
}

static const char *refuses(const inference_args *args) {
    if (args->num_output_tokens) return "--num_output_tokens: BERT generates no tokens";
    if (!isnan(args->temperature)) return "--temperature: BERT samples no tokens";
    if (!isnan(args->top_p)) return "--top_p: BERT samples no tokens";
    return NULL;
}

/* Without a vocabulary tokens are bytes, and the special ones the ids behind
 * them. */
static syn_status find_specials(const inference *run, bert_run *bert, syn_error *err) {
    const struct {
        const char *name;
        int32_t *id;
    } specials[] = {{"[CLS]", &bert->cls},
                    {"[SEP]", &bert->sep},
                    {MASK_TEXT, &bert->mask},
                    {"[PAD]", &bert->pad}};
    if (!run->tokenizer)
        return SYN_FAIL(err, SYN_E_INVALID, "BERT's --prompt_ids need --tokenizer DIR");
    const bool bytes = syn_tokenizer_kind_of(run->tokenizer) == SYN_TOKENIZER_BYTES;
    if (bytes && bert->config.vocab_size < 260)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s knows %lld tokens, too few for one a byte; give --tokenizer DIR",
                        bert->config.name, (long long)bert->config.vocab_size);
    for (int i = 0; i < 4; i++) {
        *specials[i].id = bytes ? 256 + i : syn_tokenizer_special(run->tokenizer, specials[i].name);
        if (*specials[i].id < 0)
            return SYN_FAIL(err, SYN_E_INVALID, "the tokenizer has no token %s", specials[i].name);
    }
    return SYN_OK;
}

struct text_ids {
    int32_t *ids; /* without [CLS] and [SEP] */
    size_t n, cap;
};

static syn_status append(struct text_ids *to, const int32_t *ids, size_t n, syn_error *err) {
    SYN_TRY(syn_grow(&to->ids, &to->cap, to->n + n, sizeof *to->ids, err));
    if (n > 0) memcpy(to->ids + to->n, ids, n * sizeof *ids);
    to->n += n;
    return SYN_OK;
}

/* The text with each "[MASK]" as one token, whatever the tokenizer makes of it.
 */
static syn_status encode(const inference *run, int64_t i, struct text_ids *out, syn_error *err) {
    const bert_run *bert = bert_of(run);
    const char *text = run->prompts[i];
    if (run->args->prompt_ids) {
        const syn_status s = inference_encode(run, i, &out->ids, &out->n, err);
        out->cap = out->n;
        return s;
    }
    for (;;) {
        const char *mask = strstr(text, MASK_TEXT);
        int32_t *ids;
        size_t n;
        SYN_TRY(syn_tokenizer_encode(run->tokenizer, text,
                                     mask ? (size_t)(mask - text) : strlen(text), &ids, &n, err));
        syn_status s = append(out, ids, n, err);
        syn_free(ids);
        if (s == SYN_OK && mask) s = append(out, &bert->mask, 1, err);
        if (s != SYN_OK || !mask) return s;
        text = mask + strlen(MASK_TEXT);
    }
}

/* Cut or repeated, the repetitions without their masks, to --num_input_tokens. */
static syn_status fit(const inference *run, struct text_ids *text, syn_error *err) {
    const int32_t mask = bert_of(run)->mask;
    const size_t all = (size_t)run->args->num_input_tokens, n = text->n;
    if (all == 0) return SYN_OK;
    const size_t want = all - 2; /* prepare has seen that there are so many */
    bool other = false;
    for (size_t i = 0; i < n; i++) other = other || text->ids[i] != mask;
    if (n > want) text->n = want;
    for (size_t i = n; n > 0 && text->n < want; i++) {
        const int32_t id = text->ids[i % n];
        if (!other || id != mask) SYN_TRY(append(text, &id, 1, err));
    }
    return SYN_OK;
}

static syn_status lay_out(inference *run, const struct text_ids *texts, syn_error *err) {
    bert_run *bert = bert_of(run);
    const int64_t length = run->prompt_tokens;
    size_t total;
    if (!syn_mul_size((size_t)length, (size_t)run->batch, &total)) total = SIZE_MAX / 8;
    bool ragged = false;
    for (int64_t i = 0; i < run->n_prompts; i++)
        ragged = ragged || (int64_t)texts[i].n + 2 != length;
    bert->ids = syn_calloc(total, sizeof *bert->ids);
    bert->masks = syn_calloc(total, sizeof *bert->masks);
    if (ragged) bert->padding = syn_calloc(total, sizeof *bert->padding);
    if (!bert->ids || !bert->masks || (ragged && !bert->padding))
        return SYN_FAIL_NOMEM(err, total * sizeof *bert->ids, "the prompt");
    for (int64_t b = 0; b < run->batch; b++) {
        const struct text_ids *text = &texts[b % run->n_prompts];
        int32_t *row = bert->ids + b * length;
        const int64_t n = (int64_t)text->n;
        bert->n_tokens += n + 2;
        row[0] = bert->cls;
        if (n > 0) memcpy(row + 1, text->ids, text->n * sizeof *row);
        row[n + 1] = bert->sep;
        for (int64_t t = n + 2; t < length; t++) {
            row[t] = bert->pad;
            bert->padding[b * length + t] = -INFINITY;
        }
        for (int64_t t = 0; t < n; t++)
            if (text->ids[t] == bert->mask)
                bert->masks[bert->n_masks++] = (int32_t)(b * length + t + 1);
    }
    if (total > INT32_MAX)
        return SYN_FAIL(err, SYN_E_INVALID, "the batch has more than 2^31 - 1 tokens");
    return SYN_OK;
}

static syn_status prepare(inference *run, syn_error *err) {
    bert_run *bert = bert_of(run);
    const int64_t want = run->args->num_input_tokens;
    syn_status s = find_specials(run, bert, err);
    SYN_TRY(s);
    if (run->args->save_weights && run->weights) {
        if (syn_weights_has(run->weights, "pooler.dense.weight")) bert->heads |= SYN_BERT_POOLER;
        if (syn_weights_has(run->weights, "cls.seq_relationship.weight"))
            bert->heads |= SYN_BERT_NSP;
    }
    if (want && (want < 3 || want > bert->config.n_positions))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--num_input_tokens %lld: with [CLS] and [SEP], %s takes 3 to %lld tokens",
                        (long long)want, bert->config.name, (long long)bert->config.n_positions);
    struct text_ids *texts = syn_calloc((size_t)run->n_prompts, sizeof *texts);
    if (!texts) return SYN_FAIL_NOMEM(err, (size_t)run->n_prompts * sizeof *texts, "the prompts");
    for (int64_t i = 0; i < run->n_prompts && s == SYN_OK; i++) {
        s = encode(run, i, &texts[i], err);
        if (s == SYN_OK) s = fit(run, &texts[i], err);
        if ((int64_t)texts[i].n + 2 > run->prompt_tokens)
            run->prompt_tokens = (int64_t)texts[i].n + 2;
    }
    if (s == SYN_OK && run->prompt_tokens > bert->config.n_positions)
        s = SYN_FAIL(err, SYN_E_INVALID, "the prompt has %lld tokens, but %s has %lld positions",
                     (long long)run->prompt_tokens, bert->config.name,
                     (long long)bert->config.n_positions);
    if (s == SYN_OK) s = inference_check_memory(run, err);
    if (s == SYN_OK) s = lay_out(run, texts, err);
    for (int64_t i = 0; i < run->n_prompts; i++) syn_free(texts[i].ids);
    syn_free(texts);
    if (s == SYN_OK && bert->n_masks == 0)
        s = SYN_FAIL(err, SYN_E_INVALID,
                     run->args->num_input_tokens
                         ? "the first %lld tokens of the prompt hold no " MASK_TEXT " to fill in"
                         : "the prompt has no " MASK_TEXT " (in capitals) to fill in",
                     (long long)run->args->num_input_tokens - 2);
    bert->n_top = run->args->top_k ? run->args->top_k : PREDICTIONS;
    if (bert->n_top > bert->config.vocab_size) bert->n_top = bert->config.vocab_size;
    return s;
}

static uint64_t plan(const inference *run, uint64_t h) {
    const bert_run *bert = bert_of(run);
    const syn_bert_config *c = &bert->config;
    const double shape[] = {(double)c->n_layer,     (double)c->n_embd,     (double)c->n_head,
                            (double)c->n_positions, (double)c->n_inner,    (double)c->vocab_size,
                            (double)c->n_types,     c->layer_norm_epsilon, c->initializer_range,
                            (double)c->gelu_tanh,   (double)c->tied};
    h = syn_hash(shape, sizeof shape, h);
    return syn_hash(bert->ids, (size_t)(run->prompt_tokens * run->batch) * sizeof *bert->ids, h);
}

/* ---- one rank
 * --------------------------------------------------------------------------------
 */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A copy of a tensor's elements, all of 4 bytes. */
static syn_status copy_out(void *out_ptr, syn_ctx *ctx, syn_tensor t, syn_error *err) {
    const size_t bytes = (size_t)syn_spec_bytes(syn_tensor_spec(ctx, t));
    void *out = syn_malloc(bytes);
    if (!out) return SYN_FAIL_NOMEM(err, bytes, "results");
    memcpy(out_ptr, &out, sizeof out);
    return syn_tensor_read(ctx, t, out, bytes);
}

static syn_status predict(inference *run, syn_ctx *ctx, syn_bert *model, syn_error *err) {
    bert_run *bert = bert_of(run);
    const syn_spec tokens = {SYN_I32, 2, {run->batch, run->prompt_tokens}},
                   mask = {SYN_F32, 2, {run->batch, run->prompt_tokens}},
                   places = {SYN_I32, 1, {bert->n_masks}};
    const int64_t start = now_ns();
    const syn_tensor ids = syn_input(ctx, "tokens", &tokens, bert->ids);
    const syn_tensor padding =
        bert->padding ? syn_input(ctx, "padding_mask", &mask, bert->padding) : SYN_NO_MASK;
    const syn_tensor hidden = syn_bert_forward(model, ids, (syn_tensor){0}, padding);
    const syn_tensor at = syn_input(ctx, "mask_positions", &places, bert->masks);
    const syn_tensor logits = syn_bert_mlm(model, hidden, at);
    syn_tensor best;
    syn_push_scope(ctx, "predict");
    const syn_tensor top = syn_top_k(ctx, syn_softmax(ctx, logits), bert->n_top, &best);
    syn_pop_scope(ctx);
    if (syn_ctx_status(ctx) != SYN_OK || syn_ctx_rank(ctx) != 0 ||
        run->launch.device == SYN_DEVICE_META)
        return syn_ctx_status(ctx);
    bert->forward_ns = now_ns() - start;
    SYN_TRY(copy_out(&bert->top, ctx, top, err));
    SYN_TRY(copy_out(&bert->best, ctx, best, err));
    for (int64_t i = 0; i < bert->n_masks * bert->n_top; i++)
        if (!isfinite(bert->top[i]))
            return syn_ctx_fail(ctx, SYN_E_INVALID,
                                "the model's predictions are not finite numbers"),
                   syn_ctx_status(ctx);
    return run->args->save_logits ? copy_out(&bert->logits, ctx, logits, err) : SYN_OK;
}

static syn_status run_rank(inference *run, syn_ctx *ctx, const inference_rank *rank, bool forward,
                           syn_error *err) {
    const bert_run *bert = bert_of(run);
    syn_bert *model = NULL;
    progress weights = {.what = run->weights ? "loading weights" : "making weights",
                        .unit = "layers",
                        .quiet = !rank->progress};
    const syn_bert_options how = {.tp = rank->tp,
                                  .heads = bert->heads,
                                  .fused_attention = run->fused_attention,
                                  .seed = (uint64_t)run->args->seed,
                                  .weight_dtype = run->dtype,
                                  .progress = progress_step,
                                  .progress_user = &weights};
    SYN_TRY(syn_bert_new(&model, ctx, &bert->config, &how, err));
    const syn_status s = forward ? predict(run, ctx, model, err) : SYN_OK;
    syn_bert_free(model);
    if (s != SYN_OK) syn_ctx_check(ctx, err);
    return s;
}

/* ---- after
 * -----------------------------------------------------------------------------------
 */

static void print_prediction(const inference *run, int32_t id, double probability) {
    char *text;
    size_t bytes;
    printf("  %8.3g %%  ", 100 * probability);
    if (syn_tokenizer_decode(run->tokenizer, &id, 1, &text, &bytes, NULL) != SYN_OK) {
        printf("token id %d\n", id);
        return;
    }
    cli_print_escaped(stdout, text, bytes);
    putchar('\n');
    syn_free(text);
}

static void print_prompt(const inference *run, int64_t i) {
    const bert_run *bert = bert_of(run);
    char what[40];
    snprintf(what, sizeof what, run->n_prompts > 1 ? "prompt %lld: " : "prompt:  ", (long long)i);
    if (run->args->prompt_ids) {
        inference_print_text(run, what, bert->ids + i * run->prompt_tokens, run->prompt_tokens);
        return;
    }
    printf("%s\"", what);
    cli_print_escaped(stdout, run->prompts[i], strlen(run->prompts[i]));
    printf("\"\n");
}

static void print(const inference *run, const report *r) {
    const bert_run *bert = bert_of(run);
    const bool meta = run->launch.device == SYN_DEVICE_META;
    const double ns = meta ? r->predicted_prefill_ns : (double)bert->forward_ns;
    char a[64], b[64];
    int64_t m = 0;
    for (int64_t i = 0; i < run->n_prompts; i++) {
        const int64_t first = m;
        print_prompt(run, i);
        for (; m < bert->n_masks && bert->masks[m] / run->prompt_tokens == i; m++) {
            if (!bert->top) continue;
            printf(MASK_TEXT " at token %lld:\n", (long long)(bert->masks[m] % run->prompt_tokens));
            for (int64_t k = 0; k < bert->n_top; k++)
                print_prediction(run, bert->best[m * bert->n_top + k],
                                 (double)bert->top[m * bert->n_top + k]);
        }
        if (m == first) printf("  no " MASK_TEXT " to fill in\n");
    }
    if (ns > 0)
        printf("%sforward: %lld tokens in %s, %s tokens/s\n", meta ? "predicted " : "",
               (long long)bert->n_tokens, cli_time_text(ns, a, sizeof a),
               cli_count_text((double)bert->n_tokens * 1e9 / ns, b, sizeof b));
}

static void json_prediction(const inference *run, syn_sink *out, int32_t id, float probability) {
    char *text;
    size_t bytes;
    syn_sink_printf(out, "{\"id\": %d, \"token\": ", id);
    if (syn_tokenizer_decode(run->tokenizer, &id, 1, &text, &bytes, NULL) == SYN_OK) {
        syn_sink_json_string(out, text);
        syn_free(text);
    } else {
        syn_sink_text(out, "null");
    }
    syn_sink_text(out, ", \"probability\": ");
    syn_sink_double(out, (double)probability);
    syn_sink_char(out, '}');
}

static void json(const inference *run, const report *r, syn_sink *out) {
    const bert_run *bert = bert_of(run);
    const bool meta = run->launch.device == SYN_DEVICE_META;
    syn_sink_printf(out, "\"prompt_tokens\": %lld, \"masks\": [", (long long)run->prompt_tokens);
    for (int64_t m = 0; m < bert->n_masks; m++) {
        syn_sink_printf(out, "%s{\"sequence\": %lld, \"position\": %lld, \"predictions\": [",
                        m ? ", " : "", (long long)(bert->masks[m] / run->prompt_tokens),
                        (long long)(bert->masks[m] % run->prompt_tokens));
        for (int64_t k = 0; bert->top && k < bert->n_top; k++) {
            if (k) syn_sink_text(out, ", ");
            json_prediction(run, out, bert->best[m * bert->n_top + k],
                            bert->top[m * bert->n_top + k]);
        }
        syn_sink_text(out, "]}");
    }
    syn_sink_printf(out, "], \"%sforward_ns\": ", meta ? "predicted_" : "");
    syn_sink_double(out, meta ? r->predicted_prefill_ns : (double)bert->forward_ns);
}

static syn_status save_logits(const inference *run, const char *path, syn_error *err) {
    const bert_run *bert = bert_of(run);
    return npy_write_f32(path, bert->logits, bert->n_masks, bert->config.vocab_size, err);
}

static syn_status write_config(const inference *run, const char *path, syn_error *err) {
    return syn_bert_config_save(&bert_of(run)->config, bert_of(run)->heads, path, err);
}

static void free_all(inference *run) {
    bert_run *bert = bert_of(run);
    if (!bert) return;
    syn_free(bert->ids);
    syn_free(bert->padding);
    syn_free(bert->masks);
    syn_free(bert->logits);
    syn_free(bert->top);
    syn_free(bert->best);
    syn_free(bert);
}

const inference_family inference_bert = {.name = "bert",
                                         .presets = syn_bert_presets,
                                         .kind = SYN_WEIGHTS_BERT,
                                         .tokenizer = SYN_TOKENIZER_WORDPIECE,
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
