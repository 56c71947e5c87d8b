/* Tests latencies of served requests: percentiles against those of sorted samples, means, rates and
   goodput. */
#include "tests/support/random.h"
#include "tests/support/test.h"

#include "tools/serving/serving_metrics.h"

static uint64_t state = 0x1234567;

/* More than 0 and at most 1. */
static double uniform(void) {
    return (random_u32(&state) + 1.0) / 4294967296.0;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void percentiles(void) {
    static double samples[20000];
    static const double q[] = {0.01, 0.5, 0.9, 0.99, 1};
    for (int n = 1; n <= (int)COUNT(samples); n = n * 3 + 1) {
        serving_times t;
        syn_error err = {0};
        double sum = 0;
        CHECK_OK(serving_times_new(&t, &err), err);
        for (int i = 0; i < n; i++) { /* from 100 ns to 1000 s */
            samples[i] = 100 * pow(10, 10 * uniform());
            sum += samples[i];
            serving_times_add(&t, samples[i]);
        }
        qsort(samples, (size_t)n, sizeof *samples, compare);
        for (size_t i = 0; i < COUNT(q); i++) {
            const double want = samples[(int)ceil(q[i] * n) - 1];
            CHECK_NEAR(serving_times_percentile(&t, q[i]) / want, 1, 1e-4);
        }
        CHECK_NEAR(serving_times_mean(&t) / (sum / n), 1, 1e-12);
        serving_times_free(&t);
    }
}

static void limits(void) {
    serving_times t;
    syn_error err = {0};
    CHECK_OK(serving_times_new(&t, &err), err);
    CHECK(serving_times_mean(&t) == 0 && serving_times_percentile(&t, 0.5) == 0);
    serving_times_add(&t, 0);
    CHECK(serving_times_percentile(&t, 0.5) == 0);
    serving_times_add(&t, 1e18); /* 32 years: beyond the last bin */
    CHECK(serving_times_percentile(&t, 0.5) <= 2 && serving_times_percentile(&t, 1) >= 9e14);
    serving_times_free(&t);
}

/* A request that arrives at 1 s, gets its first token after `first` s and `output` tokens, one per
   `each` s. */
static void serve(serving_metrics *m, double first, int64_t output, double each) {
    const double at = 1e9 + 1e9 * first;
    const serving_latency l = {1e9, at, at + 1e9 * each * (double)(output - 1), output};
    serving_metrics_add(m, &l, 10);
}

static void goodput(void) {
    serving_metrics m;
    syn_error err = {0};
    const serving_slo slo = {.ttft_ns = 2e9, .tpot_ns = 0.5e9, .latency_ns = 6e9};
    CHECK_OK(serving_metrics_new(&m, &slo, &err), err);
    serve(&m, 1, 5, 0.25);  /* good */
    serve(&m, 2, 1, 0);     /* good: one token has no TPOT */
    serve(&m, 2.5, 2, 0.1); /* the first token is late */
    serve(&m, 1, 3, 0.75);  /* the other tokens are late */
    serve(&m, 1, 12, 0.5);  /* the last token is late */
    CHECK_INT(m.good, 2);
    CHECK_INT(m.requests, 5);
    CHECK_INT(m.prompt_tokens, 50);
    CHECK_INT(m.output_tokens, 23);
    CHECK_INT(m.tpot.n, 4);
    CHECK_NEAR(serving_metrics_duration(&m), 6.5e9, 1);
    CHECK_NEAR(serving_times_mean(&m.ttft), 1.5e9, 1);
    CHECK_NEAR(serving_times_mean(&m.tpot), 0.4e9, 1);
    CHECK_NEAR(serving_times_mean(&m.latency), (2 + 2 + 2.6 + 2.5 + 6.5) / 5 * 1e9, 1);
    serving_metrics_free(&m);
}

static void json(void) {
    serving_metrics m;
    syn_error err = {0};
    const serving_slo slo = {0};
    syn_sink *sink;
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    CHECK_OK(serving_metrics_new(&m, &slo, &err), err);
    serve(&m, 1, 3, 0.5);
    serve(&m, 1, 3, 0.5);
    serving_metrics_json(&m, sink);
    const char *text = syn_sink_data(sink, NULL);
    CHECK(text != NULL);
    CHECK_HAS(text, "\"ttft_ns\": {\"mean\": 1000000000");
    CHECK_HAS(text, "\"tpot_ns\": {\"mean\": 500000000");
    CHECK_HAS(text, "\"latency_ns\": {\"mean\": 2000000000");
    CHECK_HAS(text, "\"duration_ns\": 2000000000, \"requests_per_s\": 1,");
    CHECK_HAS(text, "\"output_tokens_per_s\": 3,");
    CHECK_OK(syn_sink_close(sink, false, &err), err);
    serving_metrics_free(&m);
}

static syn_status create(void *arg, syn_error *err) {
    serving_metrics m;
    const serving_slo slo = {0};
    (void)arg;
    SYN_TRY(serving_metrics_new(&m, &slo, err));
    serving_metrics_free(&m);
    return SYN_OK;
}

static void memory(void) {
    CHECK_INT(test_without_memory(create, NULL), 3);
}

static const test_case cases[] = {{"percentiles", percentiles},
                                  {"limits", limits},
                                  {"goodput", goodput},
                                  {"json", json},
                                  {"memory", memory}};
TEST_MAIN(cases)
