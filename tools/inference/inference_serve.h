/* `inference --requests`: serves requests in real time. They arrive by the clock, a scheduler
   (tools/serving/) chooses steps, and the model computes them with a paged KV cache. The task is in
   inference_serve.c, the loop of steps in inference_serve_run.c, and the prediction of the same
   requests by the simulator of `syntorch serve` in inference_serve_predict.c. */
#ifndef TOOLS_INFERENCE_SERVE_H
#define TOOLS_INFERENCE_SERVE_H

#include "tools/inference/inference.h"
#include "tools/inference/inference_sampling.h"
#include "tools/serving/serving.h"
#include "tools/serving/serving_metrics.h"

typedef struct served_request {
    serving_request q; /* the first member: a serving_request of the scheduler is a
                          served_request */
    int64_t line;      /* of the file; 0: generated */
    bool shares;       /* the prompt may begin like others */
    int32_t made;      /* output tokens, with the stop token */
    int32_t *tokens;   /* prompt, and then output */
    uint64_t *keys;    /* of the first n_keys blocks: a hash of all tokens up to the block's end */
    int64_t n_keys;
    double first_ns, last_ns; /* when the first and the last output token were there; from the start
                                 of the run */
} served_request;

/* What was served, or is predicted to be. */
typedef struct served_totals {
    serving_metrics metrics;
    int64_t steps[2]; /* without and with prompt tokens */
    double busy_ns[2];
    int64_t preemptions, hits; /* hits: prompt tokens found in the cache */
    int64_t most_running, most_waiting;
    double most_usage; /* of the cache */
} served_totals;

/* The data of a run; run->work. Ranks other than 0 only read it. */
typedef struct serving_work {
    serving_limits limits;
    const serving_policy *policy;
    inference_sampling sampling;
    served_request *requests; /* in order of arrival */
    int64_t n, cut;           /* cut: generated requests that were cut to the model's positions */
    size_t cap;
    int64_t longest; /* most tokens of a request */
    served_totals measured, predicted;
} serving_work;

static inline serving_work *inference_serving_of(const inference *run) {
    return run->work;
}

/* The `key` of serving_limits: equal prefixes have equal keys. */
uint64_t inference_serve_key(const serving_request *q, int64_t i, int64_t block_tokens);
/* Runs one rank: rank 0 schedules the steps, and the others compute the same steps. */
syn_status inference_serve_rank(inference *run, const inference_rank *self,
                                syn_error *err) SYN_MUST_USE;
/* Predicts the served requests, with the output tokens that they got, on run->hw. */
syn_status inference_serve_predict(inference *run, syn_error *err) SYN_MUST_USE;
/* Print the results, as text and as the member "serving"; see inference_task. */
void inference_serve_print(const inference *run, const report *r);
void inference_serve_json(const inference *run, const report *r, syn_sink *out);
/* Writes a row for each request to requests.csv in --out_dir, if that was given. */
syn_status inference_serve_save(inference *run, syn_error *err) SYN_MUST_USE;

#endif
