/* Prompts of the inference program: tokenizer, texts and token ids. */
#include "tools/inference/inference.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/saving/model_folder.h"

/* ---- The tokenizer ---- */

/* Sets *folder to the folder of the tokenizer; NULL: use the byte tokenizer, or none. */
static syn_status find_tokenizer(const inference *run, char *found, size_t found_bytes,
                                 const char **folder, syn_error *err) {
    const inference_args *args = run->args;
    *folder = args->tokenizer;
    if (args->tokenizer && strcmp(args->tokenizer, "bytes") == 0) *folder = NULL;
    if (args->tokenizer || !args->weights) return SYN_OK;
    if (model_folder_find_tokenizer(args->weights, found, found_bytes)) {
        *folder = found;
        return SYN_OK;
    }
    if (inference_has_ids(args)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "there is no tokenizer next to the weights '%.200s'; give --tokenizer DIR, "
                    "--prompt_ids FILE, or --tokenizer bytes if each byte is a token",
                    args->weights);
}

static syn_status check_tokenizer(const inference *run, const char *folder, syn_error *err) {
    static const char *const whose[] = {"a byte tokenizer", "a BPE tokenizer", "a BERT tokenizer"};
    const syn_tokenizer_kind kind = syn_tokenizer_kind_of(run->tokenizer),
                             needed = syn_model_tokenizer(&run->config);
    const int32_t tokens =
        syn_tokenizer_vocab_size(run->tokenizer) - syn_tokenizer_added(run->tokenizer);
    if (folder && kind != needed)
        return SYN_FAIL(err, SYN_E_INVALID, "the tokenizer in '%.200s' is %s, but %s needs %s",
                        folder, whose[kind], run->config.name, whose[needed]);
    /* With --prompt_ids the byte tokenizer only decodes ids, so the model's vocabulary may be
       smaller than the tokenizer's. */
    if (tokens <= run->config.vocab_size || (!folder && inference_has_ids(run->args)))
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "the tokenizer has %d tokens%s, but %s has only %lld%s",
                    tokens, folder ? "" : " (one per byte)", run->config.name,
                    (long long)run->config.vocab_size,
                    folder ? "" : "; give --tokenizer DIR or --prompt_ids FILE");
}

syn_status inference_open_tokenizer(inference *run, syn_error *err) {
    char found[4096];
    const char *folder;
    if (run->args->ids) return SYN_OK;
    SYN_TRY(find_tokenizer(run, found, sizeof found, &folder, err));
    if (!folder && !run->args->tokenizer && inference_has_ids(run->args)) return SYN_OK;
    SYN_TRY(folder ? syn_tokenizer_load(&run->tokenizer, folder, err)
                   : syn_tokenizer_open_bytes(&run->tokenizer, err));
    return check_tokenizer(run, folder, err);
}

/* ---- Prompts ---- */

/* Parses the ids of prompt i and checks that the model has them. */
static syn_status read_ids(const inference *run, int64_t i, inference_text *out, syn_error *err) {
    const char *line = run->prompts[i];
    for (char *end;; line = end) {
        line += strspn(line, " \t,");
        if (!*line) return SYN_OK;
        const size_t shown = strcspn(line, " \t,");
        const long long id = strtoll(line, &end, 10);
        if (end == line || id < 0 || id >= run->config.vocab_size)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "%.200s: '%.*s' is not the id of one of the %lld tokens of %s",
                            run->args->prompt_ids, shown < 20 ? (int)shown : 20, line,
                            (long long)run->config.vocab_size, run->config.name);
        SYN_TRY(syn_grow(&out->ids, &out->cap, out->n + 1, sizeof *out->ids, err));
        out->ids[out->n++] = (int32_t)id;
    }
}

/* This check is needed because a tokenizer can have added tokens that the model does not have. */
syn_status inference_check_ids(const inference *run, const int32_t *ids, size_t n, syn_error *err) {
    for (size_t k = 0; k < n; k++) {
        if (ids[k] < run->config.vocab_size) continue;
        size_t bytes;
        const char *text = syn_tokenizer_token(run->tokenizer, ids[k], &bytes);
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the text has the added token '%.*s', id %d, but %s has only %lld tokens",
                        bytes < 40 ? (int)bytes : 40, text ? text : "", ids[k], run->config.name,
                        (long long)run->config.vocab_size);
    }
    return SYN_OK;
}

syn_status inference_encode(const inference *run, int64_t i, inference_text *out, syn_error *err) {
    const char *text = run->prompts[i];
    if (inference_gets_ids(run->args)) return read_ids(run, i, out, err);
    SYN_TRY(syn_tokenizer_encode(run->tokenizer, text, strlen(text), &out->ids, &out->n, err));
    out->cap = out->n;
    return inference_check_ids(run, out->ids, out->n, err);
}

/* Reads one prompt per line. Lines may end with CR LF, and the last one needs no line end. A blank
   line is an empty prompt, so that row i of the output is line i of the file. */
static syn_status read_lines(inference *run, const char *path, syn_error *err) {
    size_t bytes, cap = 0;
    SYN_TRY(syn_read_file(path, (size_t)64 << 20, &run->prompt_text, &bytes, err));
    bool all_blank = true;
    char *line = run->prompt_text, *const end = line + bytes;
    if (memchr(line, '\0', bytes))
        return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: a prompt contains a NUL character", path);
    while (line < end) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        SYN_TRY(
            syn_grow(&run->prompts, &cap, (size_t)run->n_prompts + 1, sizeof *run->prompts, err));
        if (stop > line && stop[-1] == '\r') stop[-1] = '\0';
        *stop = '\0';
        all_blank = all_blank && !*line;
        run->prompts[run->n_prompts++] = line;
        line = stop + 1;
    }
    if (!all_blank) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "%.200s has no prompt", path);
}

static syn_status find_prompts(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    const char *file = args->prompts ? args->prompts : args->prompt_ids;
    if (file) {
        SYN_TRY(read_lines(run, file, err));
        if (args->batch_size != 1 && args->batch_size != run->n_prompts)
            return SYN_FAIL(err, SYN_E_INVALID, "--batch_size is %lld, but %.200s has %lld prompts",
                            (long long)args->batch_size, file, (long long)run->n_prompts);
        run->batch = run->n_prompts;
        return SYN_OK;
    }
    run->prompts = syn_calloc(1, sizeof *run->prompts);
    if (!run->prompts) return SYN_FAIL_NOMEM(err, sizeof *run->prompts, "the prompt");
    run->prompts[0] = args->ids ? args->ids : args->prompt ? args->prompt : run->task->prompt;
    run->n_prompts = 1;
    run->batch = args->batch_size;
    return SYN_OK;
}

/* Gives each data-parallel rank its part of the batch. */
static syn_status divide_batch(inference *run, syn_error *err) {
    const int32_t dp = run->launch.parallel.dp;
    if (run->args->ids) return SYN_OK; /* each has its own batch */
    if (run->batch % dp != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "--dp %d does not divide the batch of %lld sequence%s",
                        dp, (long long)run->batch, cli_plural((uint64_t)run->batch));
    run->batch /= dp;
    return SYN_OK;
}

syn_status inference_read_prompts(inference *run, syn_error *err) {
    const inference_task *task = run->task;
    if (!task->encode) return task->begin(run, err);
    SYN_TRY(find_prompts(run, err));
    SYN_TRY(divide_batch(run, err));
    SYN_TRY(task->begin(run, err));
    inference_text *texts = syn_calloc((size_t)run->n_prompts, sizeof *texts);
    if (!texts) return SYN_FAIL_NOMEM(err, (size_t)run->n_prompts * sizeof *texts, "the prompts");
    syn_status s = SYN_OK;
    for (int64_t i = 0; i < run->n_prompts && s == SYN_OK; i++) {
        s = task->encode(run, i, &texts[i], err);
        const int64_t n = (int64_t)texts[i].n + run->around;
        if (n > run->prompt_tokens) run->prompt_tokens = n;
    }
    if (s == SYN_OK) s = task->lay_out(run, texts, err);
    for (int64_t i = 0; i < run->n_prompts; i++) syn_free(texts[i].ids);
    syn_free(texts);
    return s;
}
