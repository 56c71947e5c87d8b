/* Computes the perplexity of a text file: --perplexity. */
#include <math.h>
#include <string.h>

#include "models/score.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"
#include "tools/inference/inference.h"
#include "tools/progress.h"

enum { STRIDE = 512 }; /* value in HuggingFace's guide "Perplexity of fixed-length models" */

typedef struct perplexity {
    int32_t *ids;
    size_t n_ids;
    int64_t max_length, stride;
    syn_perplexity done; /* results of rank 0; over MPI, of this process's rank */
} perplexity;

static perplexity *work_of(const inference *run) {
    return run->work;
}

/* ---- Before ---- */

static const char *refuses(const inference_args *args) {
    const struct {
        bool given;
        const char *sentence;
    } useless[] = {
        {args->prompt || args->prompts || args->prompt_ids,
         "--perplexity FILE is the text to score; give no prompt"},
        {args->num_input_tokens,
         "--num_input_tokens has no effect with --perplexity; --max_length sets its window"},
        {args->num_output_tokens, "--num_output_tokens: --perplexity generates no tokens"},
        {args->batch_size != 1, "--batch_size: --perplexity runs one window at a time"},
        {!isnan(args->temperature), "--temperature: --perplexity samples no tokens"},
        {args->top_k >= 0, "--top_k: --perplexity samples no tokens"},
        {!isnan(args->top_p), "--top_p: --perplexity samples no tokens"},
        {!isnan(args->min_p), "--min_p: --perplexity samples no tokens"},
        {args->greedy, "--greedy: --perplexity samples no tokens"},
        {!isnan(args->repetition_penalty), "--repetition_penalty: --perplexity samples no tokens"},
        {args->eos, "--eos: --perplexity generates no tokens"},
        {args->save_logits, "--save_logits: --perplexity writes no logits; give a --prompt"},
        {args->logits != INFERENCE_LOGITS_LAST,
         "--logits: --perplexity writes no logits; give a --prompt"},
        {args->embeddings, "--embeddings: --perplexity writes no hidden states; give a --prompt"},
        {args->pooling != INFERENCE_POOLING_NONE,
         "--pooling: --perplexity writes no hidden states; give a --prompt"},
        {args->mask_id >= 0,
         "--mask_id applies only to BERT's --prompt_ids without a tokenizer; omit it"},
    };
    for (size_t i = 0; i < sizeof useless / sizeof useless[0]; i++)
        if (useless[i].given) return useless[i].sentence;
    return NULL;
}

static syn_status check_windows(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    const syn_model_config *c = &run->config;
    const int64_t most = syn_model_max_tokens(c);
    perplexity *p = work_of(run);
    p->max_length = args->max_length ? args->max_length : c->n_positions;
    p->stride = args->stride ? args->stride : p->max_length < STRIDE ? p->max_length : STRIDE;
    if (p->max_length > most)
        return SYN_FAIL(err, SYN_E_INVALID, "--max_length %lld: %s has only %lld positions",
                        (long long)p->max_length, c->name, (long long)most);
    if (p->stride > p->max_length)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "--stride %lld would skip tokens between windows of %lld tokens; give %lld or less",
            (long long)p->stride, (long long)p->max_length, (long long)p->max_length);
    return SYN_OK;
}

/* Encodes the file like `tokenizer(text)` of transformers. */
static syn_status read_text(inference *run, const char *path, syn_error *err) {
    perplexity *work = work_of(run);
    char *text;
    size_t bytes;
    SYN_TRY(syn_read_file(path, (size_t)1 << 32, &text, &bytes, err));
    syn_status s = SYN_OK;
    if (bytes == 0)
        s = SYN_FAIL(err, SYN_E_INVALID, "%.200s is empty: there is no text to score", path);
    else if (!syn_utf8_valid(text, bytes))
        s = SYN_FAIL(err, SYN_E_FORMAT, "%.200s is not UTF-8 text; convert it first", path);
    else s = syn_tokenizer_encode(run->tokenizer, text, bytes, &work->ids, &work->n_ids, err);
    syn_free(text);
    SYN_TRY(s);
    if (work->n_ids < 2)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%.200s has only %zu token%s; perplexity needs at least two", path,
                        work->n_ids, work->n_ids == 1 ? "" : "s");
    return inference_check_ids(run, work->ids, work->n_ids, err);
}

static syn_status begin(inference *run, syn_error *err) {
    perplexity *work = run->work = syn_calloc(1, sizeof *work);
    if (!work) return SYN_FAIL_NOMEM(err, sizeof *work, "a run's data");
    SYN_TRY(check_windows(run, err));
    SYN_TRY(read_text(run, run->args->perplexity, err));
    run->batch = 1;
    run->prompt_tokens = work->max_length;
    if ((int64_t)work->n_ids < run->prompt_tokens) run->prompt_tokens = (int64_t)work->n_ids;
    return inference_check_memory(run, err);
}

static uint64_t plan(const inference *run, uint64_t h) {
    const perplexity *work = work_of(run);
    const int64_t windows[] = {work->max_length, work->stride};
    h = syn_hash(windows, sizeof windows, h);
    return syn_hash(work->ids, work->n_ids * sizeof *work->ids, h);
}

/* ---- One rank ---- */

typedef struct rank_run {
    inference *run;
    syn_ctx *ctx;
} rank_run;

/* If no output needs the recorded rows, adds them to the report and forgets them. */
static syn_status after_window(void *user, int64_t window, bool *keep_rows, syn_error *err) {
    const rank_run *rank = user;
    (void)window;
    *keep_rows = rank->run->launch.want_graph;
    if (*keep_rows || syn_ctx_rank(rank->ctx) != 0) return SYN_OK;
    return inference_report(rank->run, rank->ctx, err);
}

static syn_status run_rank(inference *run, const inference_rank *self, syn_error *err) {
    perplexity *work = work_of(run);
    rank_run rank = {run, syn_model_ctx(self->model)};
    progress windows = {.what = "scoring", .unit = "windows", .quiet = !self->shows_progress};
    syn_perplexity p = {.tokens = run->launch.device == SYN_DEVICE_META ? NULL : work->ids,
                        .n_tokens = (int64_t)work->n_ids,
                        .max_length = work->max_length,
                        .stride = work->stride,
                        .progress = progress_step,
                        .progress_user = &windows,
                        .after_window = after_window,
                        .after_window_user = &rank};
    SYN_TRY(syn_perplexity_run(self->model, &p, err));
    if (syn_ctx_rank(rank.ctx) == 0) {
        work->done = p;
        run->scored_tokens = p.counted;
    }
    return SYN_OK;
}

/* ---- After ---- */

static void print(const inference *run, const report *r) {
    const perplexity *work = work_of(run);
    const syn_perplexity *p = &work->done;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    char name[CLI_SHOWN_BYTES];
    printf("text:    %s, %zu tokens in %lld window%s of up to %lld, stride %lld\n",
           cli_shown(run->args->perplexity, name, sizeof name), work->n_ids, (long long)p->windows,
           cli_plural((uint64_t)p->windows), (long long)p->max_length, (long long)p->stride);
    if (!meta)
        printf("perplexity: %.7g (mean loss %.7g of %lld tokens)\n", exp(p->mean_loss),
               p->mean_loss, (long long)p->counted);
    inference_print_pass(run, r, "scoring", p->counted, meta ? 0 : (double)p->ns);
}

static void json(const inference *run, const report *r, syn_sink *out) {
    const perplexity *work = work_of(run);
    const syn_perplexity *p = &work->done;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    syn_sink_printf(out,
                    "\"tokens\": %zu, \"windows\": %lld, \"max_length\": %lld, \"stride\": %lld, "
                    "\"counted_tokens\": %lld",
                    work->n_ids, (long long)p->windows, (long long)p->max_length,
                    (long long)p->stride, (long long)p->counted);
    if (!meta) {
        syn_sink_text(out, ", \"perplexity\": ");
        syn_sink_double(out, exp(p->mean_loss));
        syn_sink_text(out, ", \"mean_loss\": ");
        syn_sink_double(out, p->mean_loss);
    }
    inference_json_pass(r, "score", p->counted, meta ? 0 : (double)p->ns, out);
}

static void free_all(inference *run) {
    syn_free(work_of(run)->ids);
    syn_free(run->work);
}

const inference_task inference_perplexity = {.refuses = refuses,
                                             .begin = begin,
                                             .run = run_rank,
                                             .plan = plan,
                                             .print = print,
                                             .json = json,
                                             .free = free_all};
