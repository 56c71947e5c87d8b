/* Latencies of served requests, in constant memory for any number of requests: exact means, and
   percentiles from a histogram whose bins are 0.01 % wide. */
#ifndef TOOLS_SERVING_METRICS_H
#define TOOLS_SERVING_METRICS_H

#include "syntorch/base/sink.h"
#include "syntorch/base/status.h"

/* A distribution of times in ns. */
typedef struct serving_times {
    uint32_t *bins; /* owned */
    uint64_t n;
    double sum, least, most;
} serving_times;

syn_status serving_times_new(serving_times *t, syn_error *err) SYN_MUST_USE;
void serving_times_free(serving_times *t);
void serving_times_add(serving_times *t, double ns);
/* 0 if there are no times. */
double serving_times_mean(const serving_times *t);
/* The smallest time that at least the fraction q of all times do not exceed. */
double serving_times_percentile(const serving_times *t, double q);

/* When a request got its tokens, in ns from the start of the run. */
typedef struct serving_latency {
    double arrival_ns, first_ns, last_ns;
    int64_t output; /* number of tokens */
} serving_latency;

/* Limits that a request must meet to count for goodput; 0: none. */
typedef struct serving_slo {
    double ttft_ns, tpot_ns, latency_ns;
} serving_slo;

/* The limits of the server scenario of Llama 2 70B in MLPerf Inference: TTFT 2 s, TPOT 200 ms. */
extern const serving_slo serving_default_slo;

typedef struct serving_metrics {
    serving_times ttft;    /* time to first token: from arrival */
    serving_times tpot;    /* time per output token after the first; requests of one token have
                              none */
    serving_times latency; /* from arrival to the last token */
    serving_slo slo;
    int64_t requests, good, prompt_tokens, output_tokens; /* of finished requests */
    double begin_ns, end_ns; /* the first arrival and the last token of these requests */
} serving_metrics;

syn_status serving_metrics_new(serving_metrics *m, const serving_slo *slo,
                               syn_error *err) SYN_MUST_USE;
void serving_metrics_free(serving_metrics *m);
void serving_metrics_add(serving_metrics *m, const serving_latency *l, int64_t prompt);
/* The time from the first arrival to the last token. */
double serving_metrics_duration(const serving_metrics *m);
/* Appends the members ttft_ns, tpot_ns and latency_ns, objects with mean, p50, p90 and p99, and
   requests, prompt_tokens, output_tokens, duration_ns and the rates. */
void serving_metrics_json(const serving_metrics *m, syn_sink *json);
/* Prints the same as a table. */
void serving_metrics_print(const serving_metrics *m);

#endif
