/* BERT in the inference program: fills in the [MASK]s of prompts; RoBERTa has <mask> instead. */
#include <math.h>
#include <string.h>

#include "models/bert.h"
#include "syntorch/base/memory.h"
#include "tools/inference/inference_fill.h"
#include "tools/inference/inference_text.h"
#include "tools/inference/npy.h"

#define PREDICTIONS    5
#define ROBERTA_PROMPT "The capital of France is <mask>."

static filling *work_of(const inference *run) {
    return run->work;
}

static bool is_roberta(const inference *run) {
    return syn_model_tokenizer(&run->config) == SYN_TOKENIZER_BPE;
}

/* What stands for a masked word in a prompt. */
static const char *mask_text(const inference *run) {
    return is_roberta(run) ? "<mask>" : "[MASK]";
}

/* ---- Before ---- */

static const char *refuses(const inference_args *args) {
    if (args->perplexity)
        return "--perplexity: BERT does not predict the next token; use --logits all";
    if (args->num_output_tokens) return "--num_output_tokens: BERT generates no tokens";
    if (!isnan(args->temperature)) return "--temperature: BERT samples no tokens";
    if (!isnan(args->top_p)) return "--top_p: BERT samples no tokens";
    if (!isnan(args->min_p)) return "--min_p: BERT samples no tokens";
    if (args->greedy) return "--greedy: BERT samples no tokens";
    if (!isnan(args->repetition_penalty)) return "--repetition_penalty: BERT samples no tokens";
    if (args->eos) return "--eos: BERT generates no tokens";
    if (args->mask_id >= 0 && !inference_gets_ids(args))
        return "--mask_id applies only to --prompt_ids without a tokenizer; omit it";
    return inference_score_refuses(args);
}

/* Without a tokenizer, prompts are complete lists of ids, including [CLS] and [SEP]. */
static syn_status take_complete_ids(const inference *run, filling *work, syn_error *err) {
    const int64_t mask = run->args->mask_id, n = run->config.vocab_size;
    if (mask >= n)
        return SYN_FAIL(err, SYN_E_INVALID, "--mask_id %lld is not one of the %lld tokens of %s",
                        (long long)mask, (long long)n, run->config.name);
    work->cls = work->sep = -1;
    work->mask = (int32_t)mask;
    work->pad = run->config.pad_id >= 0 ? (int32_t)run->config.pad_id : 0;
    return SYN_OK;
}

/* Sets the ids of special tokens. With the byte tokenizer they follow the 256 bytes. */
static syn_status find_specials(const inference *run, filling *work, syn_error *err) {
    const struct {
        const char *name;
        int32_t *id;
    } specials[] = {{"[CLS]", &work->cls},
                    {"[SEP]", &work->sep},
                    {"[MASK]", &work->mask},
                    {"[PAD]", &work->pad}};
    if (run->args->mask_id >= 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--mask_id applies only to --prompt_ids without a tokenizer; omit it");
    const bool bytes = syn_tokenizer_kind_of(run->tokenizer) == SYN_TOKENIZER_BYTES;
    if (bytes && run->config.vocab_size < 260)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "%s has %lld tokens, too few for 256 bytes and [CLS], [SEP], [MASK] and [PAD]; %s",
            run->config.name, (long long)run->config.vocab_size,
            run->args->prompt_ids ? "omit --tokenizer bytes"
                                  : "give --tokenizer DIR or --prompt_ids FILE");
    for (int i = 0; i < 4; i++) {
        *specials[i].id =
            bytes ? 256 + i : syn_tokenizer_bert_special(run->tokenizer, specials[i].name);
        if (*specials[i].id < 0)
            return SYN_FAIL(err, SYN_E_INVALID, "the tokenizer has no token %s%s", specials[i].name,
                            is_roberta(run) ? " (<s>, </s>, <mask>, <pad>)" : "");
    }
    return SYN_OK;
}

/* Whether masks are filled in. */
static bool predicts(const inference *run) {
    return run->heads & SYN_BERT_MLM;
}

/* Removes the output head if the run only needs hidden states, so that it works with checkpoints
   without a head. */
static void leave_head(inference *run) {
    const inference_args *args = run->args;
    if (!args->embeddings || !inference_only_scores(args) || inference_all_logits(args) ||
        args->save_weights)
        return;
    run->heads &= ~(unsigned)SYN_BERT_MLM;
    run->params = syn_model_config_params(&run->config, run->heads);
}

/* With --save_weights, adds the other heads that the weights contain, so that they are saved as
   well. */
static void add_heads(inference *run) {
    if (!run->args->save_weights || !run->weights) return;
    if (syn_weights_has(run->weights, "pooler.dense.weight")) run->heads |= SYN_BERT_POOLER;
    if (syn_weights_has(run->weights, "cls.seq_relationship.weight")) run->heads |= SYN_BERT_NSP;
}

static syn_status begin(inference *run, syn_error *err) {
    const syn_model_config *c = &run->config;
    const int64_t want = run->args->num_input_tokens;
    filling *work = syn_calloc(1, sizeof *work);
    if (!work) return SYN_FAIL_NOMEM(err, sizeof *work, "a run's data");
    run->work = work;
    if (is_roberta(run) && run->prompts[0] == run->task->prompt) run->prompts[0] = ROBERTA_PROMPT;
    SYN_TRY(run->tokenizer ? find_specials(run, work, err) : take_complete_ids(run, work, err));
    run->around = run->tokenizer ? 2 : 0;
    leave_head(run);
    add_heads(run);
    if (want && (want < run->around + 1 || want > c->n_positions))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--num_input_tokens %lld: %s%s accepts %lld to %lld tokens",
                        (long long)want, run->around ? "with [CLS] and [SEP], " : "", c->name,
                        (long long)run->around + 1, (long long)c->n_positions);
    work->n_top = run->args->top_k > 0 ? run->args->top_k : PREDICTIONS;
    if (work->n_top > c->vocab_size) work->n_top = c->vocab_size;
    return SYN_OK;
}

static syn_status append(inference_text *to, const int32_t *ids, size_t n, syn_error *err) {
    SYN_TRY(syn_grow(&to->ids, &to->cap, to->n + n, sizeof *to->ids, err));
    if (n > 0) memcpy(to->ids + to->n, ids, n * sizeof *ids);
    to->n += n;
    return SYN_OK;
}

/* A BPE tokenizer has the mask as a token, and its rules for spaces before it. */
static syn_status encode_bpe(const inference *run, const char *text, inference_text *out,
                             syn_error *err) {
    syn_encoding plain;
    SYN_TRY(syn_tokenizer_encode_text(run->tokenizer, text, strlen(text), false, &plain, err));
    const syn_status s = append(out, plain.ids, plain.n, err);
    syn_encoding_free(&plain);
    return s;
}

/* Encodes a text. Each "[MASK]" becomes the mask token, even if the tokenizer would encode it in
   another way. */
static syn_status encode_text(const inference *run, const char *text, inference_text *out,
                              syn_error *err) {
    if (syn_tokenizer_kind_of(run->tokenizer) == SYN_TOKENIZER_BPE)
        return encode_bpe(run, text, out, err);
    for (;;) {
        const char *mask = strstr(text, mask_text(run));
        int32_t *ids;
        size_t n;
        SYN_TRY(syn_tokenizer_encode(run->tokenizer, text,
                                     mask ? (size_t)(mask - text) : strlen(text), &ids, &n, err));
        syn_status s = append(out, ids, n, err);
        syn_free(ids);
        if (s == SYN_OK && mask) s = append(out, &work_of(run)->mask, 1, err);
        if (s != SYN_OK || !mask) return s;
        text = mask + strlen(mask_text(run));
    }
}

/* Cuts or repeats the prompt so that it has --num_input_tokens tokens. Repetitions omit masks,
   unless the prompt consists only of masks. */
static syn_status fit(const inference *run, inference_text *text, syn_error *err) {
    const int32_t mask = work_of(run)->mask;
    const size_t all = (size_t)run->args->num_input_tokens, n = text->n;
    if (all == 0) return SYN_OK;
    const size_t want = all - (size_t)run->around; /* at least 1, see begin */
    bool other = false;
    for (size_t i = 0; i < n; i++) other = other || text->ids[i] != mask;
    if (n > want) text->n = want;
    for (size_t i = n; n > 0 && text->n < want; i++) {
        const int32_t id = text->ids[i % n];
        if (!other || id != mask) SYN_TRY(append(text, &id, 1, err));
    }
    return SYN_OK;
}

static syn_status encode(const inference *run, int64_t i, inference_text *out, syn_error *err) {
    SYN_TRY(inference_gets_ids(run->args) ? inference_encode(run, i, out, err)
                                          : encode_text(run, run->prompts[i], out, err));
    if (out->n == 0 && run->around == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%.200s: line %lld is empty; without a tokenizer a line must have all ids "
                        "of its prompt",
                        run->args->prompt_ids, (long long)i + 1);
    return fit(run, out, err);
}

static syn_status alloc_input(inference *run, bool ragged, syn_error *err) {
    filling *work = work_of(run);
    size_t total;
    if (!syn_mul_size((size_t)run->prompt_tokens, (size_t)run->batch, &total)) total = SIZE_MAX / 8;
    work->ids = syn_calloc(total, sizeof *work->ids);
    work->masks = syn_calloc(total, sizeof *work->masks);
    if (ragged) work->padding = syn_calloc(total, sizeof *work->padding);
    if (ragged) work->n_padding = syn_calloc((size_t)run->batch, sizeof *work->n_padding);
    if (!work->ids || !work->masks || (ragged && (!work->padding || !work->n_padding)))
        return SYN_FAIL_NOMEM(err, total * sizeof *work->ids, "the prompt");
    return SYN_OK;
}

static void lay_out_row(inference *run, int64_t b, const inference_text *text) {
    filling *work = work_of(run);
    const int64_t length = run->prompt_tokens, n = (int64_t)text->n, first = run->around ? 1 : 0;
    int32_t *row = work->ids + b * length;
    work->n_tokens += n + run->around;
    if (n > 0) memcpy(row + first, text->ids, text->n * sizeof *row);
    if (run->around) {
        row[0] = work->cls;
        row[n + 1] = work->sep;
    }
    for (int64_t t = n + run->around; t < length; t++) {
        row[t] = work->pad;
        work->padding[b * length + t] = -INFINITY;
        work->n_padding[b]++;
    }
    const bool all = work->mask < 0 && !inference_scores(run->args);
    for (int64_t t = 0; t < n && predicts(run); t++)
        if (all || text->ids[t] == work->mask)
            work->masks[work->n_masks++] = (int32_t)(b * length + t + first);
}

static syn_status lay_out(inference *run, const inference_text *texts, syn_error *err) {
    const syn_model_config *c = &run->config;
    bool ragged = false;
    if (run->prompt_tokens > c->n_positions)
        return SYN_FAIL(err, SYN_E_INVALID, "the prompt has %lld tokens, but %s has %lld positions",
                        (long long)run->prompt_tokens, c->name, (long long)c->n_positions);
    SYN_TRY(inference_check_memory(run, err));
    for (int64_t i = 0; i < run->n_prompts; i++)
        ragged = ragged || (int64_t)texts[i].n + run->around != run->prompt_tokens;
    SYN_TRY(alloc_input(run, ragged, err));
    for (int64_t b = 0; b < run->batch; b++) lay_out_row(run, b, &texts[b % run->n_prompts]);
    if (run->prompt_tokens * run->batch > INT32_MAX)
        return SYN_FAIL(err, SYN_E_INVALID, "the batch has more than 2^31 - 1 tokens");
    if (work_of(run)->n_masks > 0 || inference_scores(run->args)) return SYN_OK;
    if (!run->tokenizer)
        return SYN_FAIL(err, SYN_E_INVALID, "the prompt has no token %d (--mask_id) to predict",
                        work_of(run)->mask);
    if (run->args->num_input_tokens)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the first %lld tokens of the prompt have no %s to fill in",
                        (long long)run->args->num_input_tokens - 2, mask_text(run));
    return SYN_FAIL(err, SYN_E_INVALID, "the prompt has no %s%s to fill in", mask_text(run),
                    is_roberta(run) ? "" : " (in capitals)");
}

static uint64_t plan(const inference *run, uint64_t h) {
    const filling *work = work_of(run);
    h = syn_hash(&work->mask, sizeof work->mask, inference_score_plan(run, h));
    return syn_hash(work->ids, (size_t)(run->prompt_tokens * run->batch) * sizeof *work->ids, h);
}

/* ---- After ---- */

static void print_prediction(const inference *run, int32_t id, double probability) {
    char *text;
    size_t bytes;
    printf("  %8.3g %%  ", 100 * probability);
    if (!run->tokenizer ||
        syn_tokenizer_decode(run->tokenizer, &id, 1, &text, &bytes, NULL) != SYN_OK) {
        printf("token id %d\n", id);
        return;
    }
    cli_print_escaped(stdout, text, bytes);
    putchar('\n');
    syn_free(text);
}

static void print_prompt(const inference *run, int64_t i) {
    const filling *work = work_of(run);
    char what[40];
    snprintf(what, sizeof what, run->n_prompts > 1 ? "prompt %lld: " : "prompt:  ", (long long)i);
    if (run->args->prompt_ids) {
        const int64_t n = run->prompt_tokens - (work->n_padding ? work->n_padding[i] : 0);
        inference_print_text(run, what, work->ids + i * run->prompt_tokens, n, false);
        return;
    }
    printf("%s\"", what);
    cli_print_escaped(stdout, run->prompts[i], strlen(run->prompts[i]));
    printf("\"\n");
}

static void print(const inference *run, const report *r) {
    const filling *work = work_of(run);
    const bool meta = run->launch.device == SYN_DEVICE_META;
    int64_t m = 0;
    for (int64_t i = 0; i < run->n_prompts; i++) {
        const int64_t first = m;
        print_prompt(run, i);
        for (; m < work->n_masks && work->masks[m] / run->prompt_tokens == i; m++) {
            if (!work->top) continue;
            printf("%s%sat token %lld:\n", work->mask < 0 ? "" : mask_text(run),
                   work->mask < 0 ? "" : " ", (long long)(work->masks[m] % run->prompt_tokens));
            for (int64_t k = 0; k < work->n_top; k++)
                print_prediction(run, work->best[m * work->n_top + k],
                                 (double)work->top[m * work->n_top + k]);
        }
        if (m == first && !inference_scores(run->args))
            printf("  no %s to fill in\n", mask_text(run));
    }
    inference_print_pass(run, r, "forward", work->n_tokens, meta ? 0 : (double)work->forward_ns);
    inference_score_print(run, r, work->n_tokens);
}

static void json_prediction(const inference *run, syn_sink *out, int32_t id, float probability) {
    char *text;
    size_t bytes;
    syn_sink_printf(out, "{\"id\": %d, \"token\": ", id);
    if (run->tokenizer &&
        syn_tokenizer_decode(run->tokenizer, &id, 1, &text, &bytes, NULL) == SYN_OK) {
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
    const filling *work = work_of(run);
    const bool meta = run->launch.device == SYN_DEVICE_META;
    syn_sink_printf(out, "\"prompt_tokens\": %lld, \"masks\": [", (long long)run->prompt_tokens);
    for (int64_t m = 0; m < work->n_masks; m++) {
        syn_sink_printf(out, "%s{\"sequence\": %lld, \"position\": %lld, \"predictions\": [",
                        m ? ", " : "", (long long)(work->masks[m] / run->prompt_tokens),
                        (long long)(work->masks[m] % run->prompt_tokens));
        for (int64_t k = 0; work->top && k < work->n_top; k++) {
            if (k) syn_sink_text(out, ", ");
            json_prediction(run, out, work->best[m * work->n_top + k],
                            work->top[m * work->n_top + k]);
        }
        syn_sink_text(out, "]}");
    }
    syn_sink_char(out, ']');
    inference_json_pass(r, "forward", work->n_tokens, meta ? 0 : (double)work->forward_ns, out);
}

static syn_status save_logits(const inference *run, const char *path, syn_error *err) {
    const filling *work = work_of(run);
    if (inference_all_logits(run->args)) return SYN_OK; /* written during the run */
    return npy_write_f32(path, work->logits, work->n_masks, run->config.vocab_size, err);
}

static void free_all(inference *run) {
    filling *work = work_of(run);
    syn_free(work->ids);
    syn_free(work->padding);
    syn_free(work->n_padding);
    syn_free(work->masks);
    syn_free(work->logits);
    syn_free(work->top);
    syn_free(work->best);
    syn_free(work);
}

const inference_task inference_fill = {.prompt = "The capital of France is [MASK].",
                                       .heads = SYN_BERT_MLM,
                                       .refuses = refuses,
                                       .begin = begin,
                                       .encode = encode,
                                       .lay_out = lay_out,
                                       .run = inference_fill_rank,
                                       .plan = plan,
                                       .print = print,
                                       .json = json,
                                       .save_logits = save_logits,
                                       .free = free_all};
