/* Latencies of served requests; see serving_metrics.h. */
#include "tools/serving/serving_metrics.h"

#include <math.h>
#include <stdio.h>

#include "syntorch/base/memory.h"
#include "tools/cli_json.h"

/* Bin i holds the times from LEAST * WIDTH^i on. The last bin ends after 10^15 ns, 11 days. */
#define LEAST_NS 1.0
#define WIDTH    1.0001
enum { BINS = 345400 };

syn_status serving_times_new(serving_times *t, syn_error *err) {
    *t = (serving_times){.bins = syn_calloc(BINS, sizeof *t->bins)};
    if (!t->bins) return SYN_FAIL_NOMEM(err, BINS * sizeof *t->bins, "a histogram of times");
    return SYN_OK;
}

void serving_times_free(serving_times *t) {
    syn_free(t->bins);
    t->bins = NULL;
}

void serving_times_add(serving_times *t, double ns) {
    const double at = ns > LEAST_NS ? log(ns / LEAST_NS) / log(WIDTH) : 0;
    t->bins[at < BINS - 1 ? (size_t)at : BINS - 1]++;
    if (t->n == 0 || ns < t->least) t->least = ns;
    if (t->n == 0 || ns > t->most) t->most = ns;
    t->sum += ns;
    t->n++;
}

double serving_times_mean(const serving_times *t) {
    return t->n > 0 ? t->sum / (double)t->n : 0;
}

double serving_times_percentile(const serving_times *t, double q) {
    const double want = q * (double)t->n;
    uint64_t seen = 0;
    if (t->n == 0) return 0;
    for (size_t i = 0; i < BINS; i++) {
        seen += t->bins[i];
        if ((double)seen < want || seen == 0) continue;
        const double ns = LEAST_NS * pow(WIDTH, (double)i + 0.5);
        return ns < t->least ? t->least : ns > t->most ? t->most : ns;
    }
    return t->most;
}

const serving_slo serving_default_slo = {.ttft_ns = 2e9, .tpot_ns = 200e6};

syn_status serving_metrics_new(serving_metrics *m, const serving_slo *slo, syn_error *err) {
    *m = (serving_metrics){.slo = *slo};
    syn_status s = serving_times_new(&m->ttft, err);
    if (s == SYN_OK) s = serving_times_new(&m->tpot, err);
    if (s == SYN_OK) s = serving_times_new(&m->latency, err);
    if (s != SYN_OK) serving_metrics_free(m);
    return s;
}

void serving_metrics_free(serving_metrics *m) {
    serving_times_free(&m->ttft);
    serving_times_free(&m->tpot);
    serving_times_free(&m->latency);
}

static bool meets(double ns, double limit) {
    return limit <= 0 || ns <= limit;
}

void serving_metrics_add(serving_metrics *m, const serving_latency *l, int64_t prompt) {
    const double ttft = l->first_ns - l->arrival_ns, latency = l->last_ns - l->arrival_ns;
    const double tpot = l->output > 1 ? (l->last_ns - l->first_ns) / (double)(l->output - 1) : 0;
    serving_times_add(&m->ttft, ttft);
    serving_times_add(&m->latency, latency);
    if (l->output > 1) serving_times_add(&m->tpot, tpot);
    if (m->requests == 0 || l->arrival_ns < m->begin_ns) m->begin_ns = l->arrival_ns;
    m->requests++;
    m->good += meets(ttft, m->slo.ttft_ns) && meets(tpot, m->slo.tpot_ns) &&
               meets(latency, m->slo.latency_ns);
    m->prompt_tokens += prompt;
    m->output_tokens += l->output;
    if (l->last_ns > m->end_ns) m->end_ns = l->last_ns;
}

double serving_metrics_duration(const serving_metrics *m) {
    return m->end_ns - m->begin_ns;
}

static void put_times(syn_sink *json, const char *key, const serving_times *t) {
    if (t->n == 0) {
        syn_sink_printf(
            json, ", \"%s\": {\"mean\": null, \"p50\": null, \"p90\": null, \"p99\": null}", key);
        return;
    }
    syn_sink_printf(json, ", \"%s\": {\"mean\": %.0f, \"p50\": %.0f, \"p90\": %.0f, \"p99\": %.0f}",
                    key, serving_times_mean(t), serving_times_percentile(t, 0.5),
                    serving_times_percentile(t, 0.9), serving_times_percentile(t, 0.99));
}

/* A count per second of the run. */
static double rate(const serving_metrics *m, int64_t count) {
    const double ns = serving_metrics_duration(m);
    return ns > 0 ? 1e9 * (double)count / ns : 0;
}

static void put_limit(syn_sink *json, const char *key, double ns) {
    if (ns > 0) syn_sink_printf(json, "%s: %.0f", key, ns);
    else syn_sink_printf(json, "%s: null", key);
}

void serving_metrics_json(const serving_metrics *m, syn_sink *json) {
    put_times(json, "ttft_ns", &m->ttft);
    put_times(json, "tpot_ns", &m->tpot);
    put_times(json, "latency_ns", &m->latency);
    cli_json_count(json, "requests", (uint64_t)m->requests);
    cli_json_count(json, "prompt_tokens", (uint64_t)m->prompt_tokens);
    cli_json_count(json, "output_tokens", (uint64_t)m->output_tokens);
    cli_json_real(json, "duration_ns", serving_metrics_duration(m));
    cli_json_real(json, "requests_per_s", rate(m, m->requests));
    cli_json_real(json, "output_tokens_per_s", rate(m, m->output_tokens));
    cli_json_count(json, "good_requests", (uint64_t)m->good);
    cli_json_real(json, "goodput_per_s", rate(m, m->good));
    put_limit(json, ", \"slo\": {\"ttft_ns\"", m->slo.ttft_ns);
    put_limit(json, ", \"tpot_ns\"", m->slo.tpot_ns);
    put_limit(json, ", \"latency_ns\"", m->slo.latency_ns);
    syn_sink_char(json, '}');
}

static void print_times(const char *name, const serving_times *t) {
    char mean[32], p50[32], p90[32], p99[32];
    if (t->n == 0) {
        printf("  %-8s %11s %11s %11s %11s\n", name, "-", "-", "-", "-");
        return;
    }
    printf("  %-8s %11s %11s %11s %11s\n", name,
           cli_time_text(serving_times_mean(t), mean, sizeof mean),
           cli_time_text(serving_times_percentile(t, 0.5), p50, sizeof p50),
           cli_time_text(serving_times_percentile(t, 0.9), p90, sizeof p90),
           cli_time_text(serving_times_percentile(t, 0.99), p99, sizeof p99));
}

static void print_goodput(const serving_metrics *m) {
    const struct {
        const char *name;
        double ns;
    } limits[] = {
        {"TTFT", m->slo.ttft_ns}, {"TPOT", m->slo.tpot_ns}, {"latency", m->slo.latency_ns}};
    char most[32];
    bool first = true;
    printf("goodput: %.4g requests/s, %lld of %lld requests within", rate(m, m->good),
           (long long)m->good, (long long)m->requests);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].ns <= 0) continue;
        printf("%s %s %s", first ? "" : ",", limits[i].name,
               cli_time_text(limits[i].ns, most, sizeof most));
        first = false;
    }
    putchar('\n');
}

void serving_metrics_print(const serving_metrics *m) {
    printf("  %-8s %11s %11s %11s %11s\n", "", "mean", "p50", "p90", "p99");
    print_times("TTFT", &m->ttft);
    print_times("TPOT", &m->tpot);
    print_times("latency", &m->latency);
    printf("throughput: %.4g requests/s, %.5g output tokens/s, %.5g prompt tokens/s\n",
           rate(m, m->requests), rate(m, m->output_tokens), rate(m, m->prompt_tokens));
    print_goodput(m);
}
