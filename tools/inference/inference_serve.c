/* The task of `inference --requests`: reads the requests, makes their prompts, and chooses the size
   of the KV cache; see inference_serve.h. */
#include "tools/inference/inference_serve.h"

#include <math.h>
#include <string.h>

#include "ops/hash.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "tools/memory_check.h"
#include "tools/requests/request_generate.h"

/* Fraction of the free memory that weights and KV cache may take by default. */
#define MEMORY_SHARE 0.8

static bool has_texts(const inference *run) {
    return run->args->prompts || run->args->prompt_ids;
}

/* ---- Before ---- */

static syn_status begin(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    const inference_serving *a = &args->serving;
    serving_work *work = run->work = syn_calloc(1, sizeof *work);
    if (!work) return SYN_FAIL_NOMEM(err, sizeof *work, "a run's data");
    SYN_TRY(sampling_choose(run, &work->sampling, err));
    if (work->sampling.repetition_penalty != 1)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--requests cannot apply a repetition penalty of %g; give "
                        "--repetition_penalty 1",
                        work->sampling.repetition_penalty);
    /* Generated prompts are no texts, so their outputs have the length that the request has. */
    if (!has_texts(run) && !args->eos) work->sampling.end.n_ids = 0;
    work->policy = serving_policy_at((size_t)a->policy);
    work->limits = (serving_limits){.max_seqs = a->max_seqs,
                                    .max_tokens = a->max_tokens,
                                    .max_model_tokens = syn_model_max_tokens(&run->config),
                                    .block_tokens = a->block_tokens,
                                    .long_prefill = a->long_prefill,
                                    .chunked = !a->unchunked,
                                    .caching = !a->uncached,
                                    .by_priority = a->by_priority != 0,
                                    .reserve = true,
                                    .key = inference_serve_key};
    SYN_TRY(serving_metrics_new(&work->measured.metrics, &a->slo, err));
    return serving_metrics_new(&work->predicted.metrics, &a->slo, err);
}

/* Encodes prompt i; without texts, prompts are made later. */
static syn_status encode(const inference *run, int64_t i, inference_text *out, syn_error *err) {
    if (!has_texts(run)) return SYN_OK;
    SYN_TRY(inference_encode(run, i, out, err));
    if (out->n > 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "line %lld of the prompts is empty", (long long)i + 1);
}

/* ---- Requests ---- */

uint64_t inference_serve_key(const serving_request *q, int64_t i, int64_t block_tokens) {
    served_request *r = (served_request *)q;
    const size_t bytes = (size_t)block_tokens * sizeof *r->tokens;
    for (; r->n_keys <= i; r->n_keys++)
        r->keys[r->n_keys] = syn_hash(r->tokens + r->n_keys * block_tokens, bytes,
                                      r->n_keys > 0 ? r->keys[r->n_keys - 1] : 1);
    return r->keys[i] | 1;
}

/* Sets the ids of a prompt that is no text. They follow from the seed, and are equal where the
   requests say that prompts are. */
static void make_prompt(const inference *run, const request *given, int64_t i, int32_t *ids) {
    const uint64_t seed = (uint64_t)run->args->seed;
    const uint64_t own = syn__counter_hash(seed, (uint64_t)i);
    for (int32_t t = 0; t < given->prompt; t++) {
        const uint64_t shared = request_shared_key(given, t, 1);
        const uint64_t hash =
            shared ? syn__counter_hash(~seed, shared) : syn__counter_hash(own, (uint64_t)t);
        ids[t] = (int32_t)(hash % (uint64_t)run->config.vocab_size);
    }
}

static syn_status fail_request(const inference *run, int64_t line, int64_t i, const syn_error *why,
                               syn_error *err) {
    const char *file = run->args->serving.requests.requests;
    if (line == 0) return SYN_FAIL(err, why->code, "request %lld: %s", (long long)i, why->text);
    return SYN_FAIL(err, why->code, "%.200s:%lld: %s", file, (long long)line, why->text);
}

/* Fails if the model has too few positions for a request. */
static syn_status check_positions(const inference *run, const request *r, int32_t prompt, int64_t i,
                                  syn_error *err) {
    const int64_t all = (int64_t)prompt + r->output, most = syn_model_max_tokens(&run->config);
    syn_error why = {0};
    syn_status s = syn_model_check_growth(&run->config, 1, all < most ? all : most, &why);
    if (all > most)
        s = SYN_FAIL(&why, SYN_E_INVALID,
                     "%d prompt and %d output tokens exceed the %lld positions of %s", prompt,
                     r->output, (long long)most, run->config.name);
    return s == SYN_OK ? SYN_OK : fail_request(run, r->line, i, &why, err);
}

/* Adds request i. text: its prompt; NULL: it is made. */
static syn_status add_request(inference *run, const request *given, const inference_text *text,
                              syn_error *err) {
    serving_work *work = inference_serving_of(run);
    const int64_t i = work->n;
    const int32_t prompt = text ? (int32_t)text->n : given->prompt;
    const size_t all = (size_t)prompt + (size_t)given->output,
                 blocks = all / (size_t)work->limits.block_tokens + 1;
    SYN_TRY(check_positions(run, given, prompt, i, err));
    SYN_TRY(syn_grow(&work->requests, &work->cap, (size_t)i + 1, sizeof *work->requests, err));
    served_request *r = &work->requests[work->n++];
    *r = (served_request){.q = {.id = i,
                                .arrival_ns = given->arrival_ns,
                                .prompt = prompt,
                                .output = given->output,
                                .priority = given->priority},
                          .line = given->line,
                          .shares = text || given->prefix > 0 || given->n_blocks > 0,
                          .tokens = syn_malloc(all * sizeof *r->tokens),
                          .keys = syn_malloc(blocks * sizeof *r->keys)};
    if (!r->tokens || !r->keys) return SYN_FAIL_NOMEM(err, all * sizeof *r->tokens, "a request");
    if (text) memcpy(r->tokens, text->ids, text->n * sizeof *r->tokens);
    else make_prompt(run, given, i, r->tokens);
    if (prompt > run->prompt_tokens) run->prompt_tokens = prompt;
    if (given->output > run->new_tokens) run->new_tokens = given->output;
    if ((int64_t)all > work->longest) work->longest = (int64_t)all;
    return SYN_OK;
}

static syn_status fail_number(const inference *run, bool more, syn_error *err) {
    const char *file = run->args->prompts ? run->args->prompts : run->args->prompt_ids;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "%.200s has %lld prompts, but there are %s requests; each request needs one%s",
                    file, (long long)run->n_prompts, more ? "more" : "fewer",
                    more ? " (--num_requests)" : "");
}

static syn_status read_requests(inference *run, const inference_text *texts, syn_error *err) {
    const serving_work *work = inference_serving_of(run);
    const inference_text *prompts = has_texts(run) ? texts : NULL;
    request_options how = run->args->serving.requests;
    request_source *source;
    request r;
    bool end;
    how.seed = run->args->seed;
    how.max_tokens = (int32_t)fmin((double)work->limits.max_model_tokens, INT32_MAX);
    if (prompts && how.num_requests == 0 && request_is_workload(how.requests))
        how.num_requests = run->n_prompts;
    SYN_TRY(requests_open(&source, &how, err));
    syn_status s = requests_next(source, &r, &end, err);
    for (; s == SYN_OK && !end; s = requests_next(source, &r, &end, err)) {
        if (prompts && work->n == run->n_prompts) s = fail_number(run, true, err);
        else s = add_request(run, &r, prompts ? &prompts[work->n] : NULL, err);
        if (s != SYN_OK) break;
    }
    inference_serving_of(run)->cut = requests_cut(source);
    requests_close(source);
    if (s == SYN_OK && prompts && work->n < run->n_prompts) s = fail_number(run, false, err);
    return s;
}

/* ---- The KV cache ---- */

/* Enough blocks for the longest request in each place of a step, unless this machine has too little
   memory. */
static int64_t default_blocks(const inference *run) {
    const serving_work *work = inference_serving_of(run);
    const serving_limits *l = &work->limits;
    const int64_t each = (work->longest + l->block_tokens - 1) / l->block_tokens;
    const double bytes =
        (double)syn_dtype_bytes(run->dtype) * inference_token_elems(run) * (double)l->block_tokens;
    const double memory =
        fmin(memory_free_in_machine("").bytes, memory_free_in_this_process().bytes);
    const double fits = (MEMORY_SHARE * memory - inference_resident_bytes(run)) / bytes;
    const double most = (double)each * (double)(work->n < l->max_seqs ? work->n : l->max_seqs);
    const double slots = (double)INT32_MAX / (double)l->block_tokens - 1;
    return 1 + (int64_t)fmax((double)each, fmin(fmin(most, fits), slots));
}

/* Fails if a request can never be served. */
static syn_status check_requests(const inference *run, syn_error *err) {
    const serving_work *work = inference_serving_of(run);
    serving_replica *scheduler;
    syn_error why = {0};
    syn_status s = SYN_OK;
    SYN_TRY(serving_replica_new(&scheduler, &work->limits, work->policy, err));
    for (int64_t i = 0; i < work->n && s == SYN_OK; i++) {
        serving_request *q = &work->requests[i].q;
        s = serving_add(scheduler, q, &why);
        if (s == SYN_OK) serving_remove(scheduler, q);
        else (void)fail_request(run, work->requests[i].line, i, &why, err);
    }
    serving_replica_free(scheduler);
    return s;
}

static syn_status lay_out(inference *run, const inference_text *texts, syn_error *err) {
    serving_work *work = inference_serving_of(run);
    run->prompt_tokens = 0;
    SYN_TRY(read_requests(run, texts, err));
    work->limits.blocks = run->args->serving.blocks;
    if (work->limits.blocks == 0) work->limits.blocks = default_blocks(run);
    run->batch = work->n < work->limits.max_seqs ? work->n : work->limits.max_seqs;
    run->cache_elems = inference_token_elems(run) * (double)work->limits.blocks *
                       (double)work->limits.block_tokens;
    SYN_TRY(inference_check_memory(run, err));
    return check_requests(run, err);
}

static uint64_t plan(const inference *run, uint64_t h) {
    const serving_work *work = inference_serving_of(run);
    return syn_hash(&work->n, sizeof work->n, h);
}

static void free_all(inference *run) {
    serving_work *work = inference_serving_of(run);
    for (int64_t i = 0; i < work->n; i++) {
        serving_request_free(&work->requests[i].q);
        syn_free(work->requests[i].tokens);
        syn_free(work->requests[i].keys);
    }
    syn_free(work->requests);
    serving_metrics_free(&work->measured.metrics);
    serving_metrics_free(&work->predicted.metrics);
    syn_free(work);
}

const inference_task inference_serve = {.prompt = "",
                                        .begin = begin,
                                        .encode = encode,
                                        .lay_out = lay_out,
                                        .run = inference_serve_rank,
                                        .plan = plan,
                                        .print = inference_serve_print,
                                        .json = inference_serve_json,
                                        .free = free_all};
