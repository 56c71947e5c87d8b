/* Generates requests (request_generate.h). */
#include "tools/requests/request_generate.h"

#include <math.h>
#include <stdio.h>

static int32_t draw(const request_length *length, request_random *random) {
    double value = length->a;
    if (length->kind == REQUEST_UNIFORM) {
        const double offset = request_uniform(random) * (length->b - length->a + 1);
        value += floor(offset);
    } else if (length->kind == REQUEST_LOGNORMAL) {
        const double deviation = request_normal(random) * length->b;
        value = request_exp(value + deviation);
    } else if (length->kind == REQUEST_PERCENTILES) {
        const double u = request_uniform(random);
        int k = 1;
        while (k < REQUEST_SHARES - 1 && request_shares[k] < u) k++;
        const double from = length->percentiles[k - 1], to = length->percentiles[k];
        const double share =
            (u - request_shares[k - 1]) / (request_shares[k] - request_shares[k - 1]);
        const double step = (to - from) * share;
        value = from + step;
    }
    value = floor(value + 0.5);
    return value < 1 ? 1 : value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

/* Reads "P:SHARE,P:SHARE". */
static bool read_priorities(request_generator *g, const char *text) {
    double sum = 0;
    for (const char *p = text; p != NULL; g->n_priorities++) {
        const char *comma = strchr(p, ',');
        const size_t bytes = comma ? (size_t)(comma - p) : strlen(p);
        syn__str part[2];
        double priority, share;
        if (g->n_priorities == sizeof g->priorities / sizeof *g->priorities) return false;
        if (!request_parts(p, bytes, ':', part, 2) ||
            !request_number(part[0], INT32_MIN, INT32_MAX, &priority) ||
            priority != floor(priority) || !request_number(part[1], 1e-9, 1e9, &share))
            return false;
        sum += share;
        g->priorities[g->n_priorities].priority = (int32_t)priority;
        g->priorities[g->n_priorities].until = sum;
        p = comma ? comma + 1 : NULL;
    }
    for (int i = 0; i < g->n_priorities; i++) g->priorities[i].until /= sum;
    return true;
}

/* Fails if two shares are of the same priority. */
static syn_status check_priorities(const request_generator *g, const char *text, syn_error *err) {
    for (int i = 0; i < g->n_priorities; i++)
        for (int k = 0; k < i; k++)
            if (g->priorities[k].priority == g->priorities[i].priority)
                return SYN_FAIL(err, SYN_E_INVALID,
                                "--priorities '%.60s' has two shares of priority %d; give one",
                                text, g->priorities[i].priority);
    return SYN_OK;
}

static bool read_prefixes(request_generator *g, const char *text) {
    syn__str part[2];
    double groups, tokens;
    if (!request_parts(text, strlen(text), ':', part, 2) ||
        !request_number(part[0], 1, 1e15, &groups) || groups != floor(groups) ||
        !request_number(part[1], 1, 1e9, &tokens) || tokens != floor(tokens))
        return false;
    g->groups = (int64_t)groups;
    g->prefix_tokens = (int32_t)tokens;
    return true;
}

/* Fails if all requests have the same lengths, which the model cannot serve. */
static syn_status check_fixed(const request_generator *g, const request_options *how,
                              syn_error *err) {
    const double prompt = g->prompt.a + g->prefix_tokens, all = prompt + g->output.a;
    char prefix[32] = "";
    if (g->prompt.kind != REQUEST_FIXED || how->max_tokens == 0 || all <= how->max_tokens)
        return SYN_OK;
    if (g->prefix_tokens > 0) snprintf(prefix, sizeof prefix, "%d prefix, ", g->prefix_tokens);
    return SYN_FAIL(err, SYN_E_INVALID,
                    "--requests %.60s: %s%.0f prompt and %.0f output tokens exceed the %d "
                    "positions of the model",
                    how->requests, prefix, g->prompt.a, g->output.a, how->max_tokens);
}

syn_status request_generator_init(request_generator *g, const request_options *how,
                                  syn_error *err) {
    *g = (request_generator){.groups = 0};
    SYN_TRY(request_lengths_parse(how->requests, &g->prompt, &g->output, err));
    SYN_TRY(request_arrivals_init(&g->arrivals, how, err));
    if (how->where != NULL || how->time_scale > 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s is for requests of a file, but %.60s is generated; omit it%s",
                        how->where ? "--where" : "--time-scale", how->requests,
                        how->where ? "" : " and change --rate");
    if (how->prefixes != NULL && !read_prefixes(g, how->prefixes))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--prefixes '%.40s' must be GROUPS:TOKENS, two whole numbers of at least 1",
                        how->prefixes);
    if (how->priorities != NULL && !read_priorities(g, how->priorities))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--priorities '%.60s' must be up to 16 pairs P:SHARE such as 0:0.9,1:0.1",
                        how->priorities);
    SYN_TRY(check_priorities(g, how->priorities, err));
    if (g->arrivals.kind == REQUEST_AT_ONCE && how->duration_s > 0 && how->num_requests <= 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--duration has no end without --rate: all requests arrive at 0; give "
                        "--rate or --num-requests");
    return check_fixed(g, how, err);
}

bool request_generate(request_generator *g, const request_options *how, int64_t i, request *out) {
    request_random prompt = request_random_of(how->seed, i, REQUEST_FOR_PROMPT),
                   output = request_random_of(how->seed, i, REQUEST_FOR_OUTPUT),
                   prefix = request_random_of(how->seed, i, REQUEST_FOR_PREFIX),
                   priority = request_random_of(how->seed, i, REQUEST_FOR_PRIORITY);
    *out = (request){.measured_first_ns = -1, .measured_last_ns = -1};
    out->arrival_ns = request_arrivals_next(&g->arrivals, how->seed, i);
    const int64_t drawn = (int64_t)draw(&g->prompt, &prompt) + g->prefix_tokens;
    out->prompt = drawn < INT32_MAX ? (int32_t)drawn : INT32_MAX;
    out->output = draw(&g->output, &output);
    const bool cut =
        how->max_tokens > 0 && (int64_t)out->prompt + out->output > (int64_t)how->max_tokens;
    if (cut) {
        if (out->prompt >= how->max_tokens) out->prompt = how->max_tokens - 1;
        const int32_t left = how->max_tokens - out->prompt;
        if (out->output > left) out->output = left;
    }
    if (g->groups > 0) {
        const double group = request_uniform(&prefix) * (double)g->groups;
        out->prefix = (int64_t)group + 1;
        out->prefix_tokens = g->prefix_tokens < out->prompt ? g->prefix_tokens : out->prompt;
    }
    if (g->n_priorities > 0) {
        const double u = request_uniform(&priority);
        int k = 0;
        while (k < g->n_priorities - 1 && g->priorities[k].until < u) k++;
        out->priority = g->priorities[k].priority;
    }
    return cut;
}
