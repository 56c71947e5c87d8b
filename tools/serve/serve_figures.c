/* The figures by which simulations are compared, and the limits of --slo; see serve_sweep.h. */
#include <math.h>
#include <string.h>

#include "tools/serve/serve_sweep.h"

const char *const serve_limit_names[SERVE_LIMITS] = {"TTFT", "TPOT", "latency"};

double serve_limit(const serving_slo *slo, int which) {
    return which == SERVE_TTFT   ? slo->ttft_ns
           : which == SERVE_TPOT ? slo->tpot_ns
                                 : slo->latency_ns;
}

serve_figures serve_figures_of(const serve_run *run, double percentile) {
    const serving_metrics *m = &run->result.metrics;
    const double q = percentile / 100;
    return (serve_figures){.gpus = serve_gpus(run),
                           .requests = m->requests,
                           .good = m->good,
                           .most_running = run->result.most_running,
                           .most_waiting = run->result.most_waiting,
                           .preemptions = run->result.preemptions,
                           .output_tokens = (double)m->output_tokens,
                           .prompt_tokens = (double)m->prompt_tokens,
                           .duration_ns = serving_metrics_duration(m),
                           .mean = {serving_times_mean(&m->ttft), serving_times_mean(&m->tpot),
                                    serving_times_mean(&m->latency)},
                           .tail = {serving_times_percentile(&m->ttft, q),
                                    serving_times_percentile(&m->tpot, q),
                                    serving_times_percentile(&m->latency, q)},
                           .rates = run->result.rates};
}

double serve_per_s(const serve_figures *f, double count) {
    return 1e9 * count / f->duration_ns;
}

double serve_tokens_per_gpu(const serve_figures *f) {
    return serve_per_s(f, f->output_tokens) / (double)f->gpus;
}

double serve_cost(const serve_figures *f) {
    return 1000 / serve_tokens_per_gpu(f);
}

double serve_excess(const serve_figures *f, const serving_slo *slo) {
    double most = 0;
    for (int i = 0; i < SERVE_LIMITS; i++)
        if (serve_limit(slo, i) > 0)
            most = fmax(most, serve_limit(&f->tail, i) / serve_limit(slo, i));
    return most;
}

/* "p90", or "p99.9". */
static const char *percentile_text(double percentile, char buf[32]) {
    snprintf(buf, 32, "p%g", percentile);
    return buf;
}

/* Formats a time and the limit that it exceeds, with so many digits that they differ. */
static void time_and_limit(double time, double limit, char is[32], char most[32]) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int u = 0;
    cli_time_text(time, is, 32);
    cli_time_text(limit, most, 32);
    if (strcmp(is, most) != 0) return;
    for (; u < 3 && limit >= 1000; u++) time /= 1000, limit /= 1000;
    for (int digits = 4; digits <= 17 && strcmp(is, most) == 0; digits++) {
        snprintf(is, 32, "%.*g %s", digits, time, units[u]);
        snprintf(most, 32, "%.*g %s", digits, limit, units[u]);
    }
}

const char *serve_missed(const serve_figures *f, const serving_slo *slo, double percentile,
                         char *buf, size_t bytes) {
    char p[32], is[32], most[32];
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < SERVE_LIMITS && used < bytes; i++) {
        const double limit = serve_limit(slo, i), time = serve_limit(&f->tail, i);
        if (limit <= 0 || time <= limit) continue;
        time_and_limit(time, limit, is, most);
        used +=
            (size_t)snprintf(buf + used, bytes - used, "%s%s %s is %s, above %s", used ? "; " : "",
                             serve_limit_names[i], percentile_text(percentile, p), is, most);
    }
    return buf;
}

const char *serve_limits_text(const serving_slo *slo, double percentile, char *buf, size_t bytes) {
    char p[32], most[32];
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < SERVE_LIMITS && used < bytes; i++) {
        if (serve_limit(slo, i) <= 0) continue;
        used += (size_t)snprintf(buf + used, bytes - used, "%s%s %s <= %s", used ? ", " : "",
                                 serve_limit_names[i], percentile_text(percentile, p),
                                 cli_time_text(serve_limit(slo, i), most, sizeof most));
    }
    return buf;
}
