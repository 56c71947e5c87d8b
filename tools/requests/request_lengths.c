/* Distributions of the lengths of prompts and outputs (request_generate.h). docs/requests.md has
   their means and percentiles. */
#include <math.h>
#include <stdio.h>

#include "syntorch/base/nearest.h"
#include "tools/requests/request_generate.h"
#include "tools/requests/request_row.h"

const double request_shares[REQUEST_SHARES] = {0,    0.01, 0.05, 0.10,  0.20,  0.30,
                                               0.40, 0.50, 0.60, 0.70,  0.80,  0.90,
                                               0.95, 0.98, 0.99, 0.995, 0.999, 1};

/* Azure LLM inference traces of November 2023 (Patel et al., Splitwise, ISCA 2024), 8819 requests
   of a coding service and 19366 of a chat service. */
static const int32_t code_prompt[] = {3,    17,   75,   147,  385,  770,  1075, 1469, 1909,
                                      2433, 3193, 5194, 7315, 7436, 7436, 7436, 7437, 7437},
                     code_output[] = {6,  6,  6,  7,  8,   9,   11,  13,  16,
                                      20, 29, 55, 90, 172, 252, 361, 831, 1899},
                     chat_prompt[] = {2,    29,   181,  207,  387,  403,  703,  1020, 1071,
                                      1130, 1315, 2735, 4083, 4098, 4142, 4831, 6212, 14050},
                     chat_output[] = {7,   16,  41,  54,  77,  91,  103, 129, 177,
                                      384, 400, 424, 451, 540, 601, 644, 954, 1000};
/* arXiv papers and their abstracts in tokens of Llama 2, at most 4096 together: 28257 requests
   (Agrawal et al., Vidur, MLSys 2024). */
static const int32_t papers_prompt[] = {1,    73,   747,  1242, 1802, 2150, 2453, 2730, 2996,
                                        3249, 3490, 3702, 3813, 3892, 3934, 3963, 4012, 4054},
                     papers_output[] = {5,   36,  60,  78,  104,  125,  145,  167,  192,
                                        222, 268, 372, 737, 2775, 3273, 3583, 3845, 4056};

/* Workloads without parameters. ShareGPT: means of vLLM's benchmark. */
static const struct {
    const char *name, *same_as;
    const int32_t *prompt, *output;
} named[] = {
    {"sharegpt-like", "lognormal:217:260:202:200", NULL, NULL},
    {"azure-code", NULL, code_prompt, code_output},
    {"azure-chat", NULL, chat_prompt, chat_output},
    {"summarize", NULL, papers_prompt, papers_output},
};
enum { N_NAMED = sizeof named / sizeof *named };

static const char *const with_parameters[] = {"fixed:IN:OUT", "uniform:LO-HI:LO-HI",
                                              "lognormal:MEAN:SD:MEAN:SD"};

static const char *const all_workloads[] = {
    "sharegpt-like", "azure-code", "azure-chat", "summarize", "fixed", "uniform", "lognormal"};

bool request_is_workload(const char *text) {
    const size_t bytes = strcspn(text, ":");
    for (size_t i = 0; i < sizeof all_workloads / sizeof *all_workloads; i++)
        if (syn__str_is((syn__str){text, bytes}, all_workloads[i])) return true;
    return false;
}

const char *request_nearest_workload(const char *text) {
    syn__nearest near = {NULL, 0};
    char name[24];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    for (size_t i = 0; i < sizeof all_workloads / sizeof *all_workloads; i++)
        syn__nearest_try(&near, name, all_workloads[i]);
    return near.name;
}

const char *request_list_workloads(char *text, size_t bytes) {
    const size_t n = sizeof with_parameters / sizeof *with_parameters;
    size_t used = 0;
    for (size_t i = 0; i < N_NAMED + n && used < bytes; i++) {
        const char *name = i < N_NAMED ? named[i].name : with_parameters[i - N_NAMED];
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", name);
    }
    return text;
}

bool request_parts(const char *text, size_t bytes, char separator, syn__str *parts, int n) {
    const char *p = text, *end = text + bytes;
    for (int i = 0; i < n; i++) {
        const char *found = memchr(p, separator, (size_t)(end - p));
        if ((found == NULL) != (i == n - 1)) return false;
        parts[i] = (syn__str){p, (size_t)((found != NULL ? found : end) - p)};
        if (found != NULL) p = found + 1;
    }
    return true;
}

bool request_number(syn__str text, double min, double max, double *out) {
    return request_decimal(text, 0, out) && *out >= min && *out <= max;
}

static bool tokens(syn__str text, double *out) {
    return request_number(text, 1, INT32_MAX, out) && *out == floor(*out);
}

/* The lognormal distribution with this mean and standard deviation. */
static bool lognormal(const syn__str *text, request_length *out) {
    double mean, sd;
    if (!request_number(text[0], 1, 1e9, &mean) || !request_number(text[1], 0, 1e9, &sd))
        return false;
    const double ratio = sd / mean, square = ratio * ratio, variance = request_log(1 + square);
    *out = (request_length){.kind = REQUEST_LOGNORMAL, .b = sqrt(variance)};
    out->a = request_log(mean) - variance / 2;
    return true;
}

static bool uniform(syn__str text, request_length *out) {
    syn__str ends[2];
    *out = (request_length){.kind = REQUEST_UNIFORM};
    return request_parts(text.text, text.bytes, '-', ends, 2) && tokens(ends[0], &out->a) &&
           tokens(ends[1], &out->b) && out->a <= out->b;
}

static bool fixed(syn__str text, request_length *out) {
    *out = (request_length){.kind = REQUEST_FIXED};
    return tokens(text, &out->a);
}

/* Reads a workload with parameters. *form is what it should look like. */
static bool parse(const char *text, request_length *prompt, request_length *output,
                  const char **form) {
    syn__str part[5];
    const size_t bytes = strlen(text);
    if (strncmp(text, "lognormal", 9) == 0) {
        *form = with_parameters[2];
        return request_parts(text, bytes, ':', part, 5) && lognormal(part + 1, prompt) &&
               lognormal(part + 3, output);
    }
    if (strncmp(text, "uniform", 7) == 0) {
        *form = with_parameters[1];
        return request_parts(text, bytes, ':', part, 3) && uniform(part[1], prompt) &&
               uniform(part[2], output);
    }
    *form = with_parameters[0];
    return request_parts(text, bytes, ':', part, 3) && fixed(part[1], prompt) &&
           fixed(part[2], output);
}

syn_status request_lengths_parse(const char *text, request_length *prompt, request_length *output,
                                 syn_error *err) {
    const char *form;
    for (int i = 0; i < N_NAMED; i++) {
        if (strncmp(text, named[i].name, strlen(named[i].name)) != 0) continue;
        if (text[strlen(named[i].name)] != '\0')
            return SYN_FAIL(err, SYN_E_INVALID, "--requests %.60s: %s has no parameters", text,
                            named[i].name);
        *prompt = (request_length){.kind = REQUEST_PERCENTILES, .percentiles = named[i].prompt};
        *output = (request_length){.kind = REQUEST_PERCENTILES, .percentiles = named[i].output};
        if (named[i].same_as == NULL) return SYN_OK;
        text = named[i].same_as;
        break;
    }
    if (parse(text, prompt, output, &form)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "--requests '%.60s' must be %s, in tokens of prompts and of outputs, at least "
                    "1",
                    text, form);
}
