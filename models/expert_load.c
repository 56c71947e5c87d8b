/* Loads of experts in runs without data (expert_load.h). */
#include "models/expert_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

int64_t syn_model_expert_layers(const syn_model_config *config, int64_t n) {
    int64_t layers = 0;
    for (int64_t i = 0; i < n; i++) layers += syn_model_layer_has_experts(config, i);
    return layers;
}

/* ---- Zipf's law ---- */

/* Permutes the weights of a layer with random numbers that depend on the seed and the layer. */
static void shuffle(double *weights, int64_t n, uint64_t seed, int64_t layer) {
    const uint64_t key = syn_hash(&layer, sizeof layer, seed);
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t other = (int64_t)(syn_hash(&i, sizeof i, key) % (uint64_t)(i + 1));
        const double was = weights[i];
        weights[i] = weights[other];
        weights[other] = was;
    }
}

static syn_status read_zipf(syn_expert_load *load, const char *text, syn_error *err) {
    const char *const numbers = text + strlen("zipf:");
    char *end, *last;
    const double s = strtod(numbers, &end);
    const uint64_t seed = *end == ',' ? strtoull(end + 1, &last, 10) : 0;
    if (end == numbers || !(s >= 0 && s <= 100) || *end != ',' || last == end + 1 || *last ||
        end[1] == '-')
        return SYN_FAIL(err, SYN_E_INVALID,
                        "routing '%.100s' must be zipf:S,SEED with an exponent S from 0 to 100 and "
                        "a seed, such as zipf:1,42",
                        text);
    for (int64_t i = 0; i < load->rows; i++) {
        double *weights = load->weights + i * load->experts;
        for (int64_t e = 0; e < load->experts; e++) weights[e] = pow((double)(e + 1), -s);
        shuffle(weights, load->experts, seed, i);
    }
    return SYN_OK;
}

/* ---- Files ---- */

/* A file that is read line by line. */
typedef struct lines {
    const char *path;
    char *at;
    int64_t number; /* of the line at `at`, from 1 */
} lines;

/* Reads the weights of one line, which ends at `end`. */
static syn_status read_weights(const lines *l, const char *end, double *weights, int64_t experts,
                               int64_t k, syn_error *err) {
    int64_t n = 0, used = 0;
    for (char *at = l->at, *next;; at = next + 1, n++) {
        const double weight = strtod(at, &next);
        while (*next == ' ' || *next == '\t' || *next == '\r') next++;
        if (next == at || next > end || !(weight >= 0 && weight <= 1e300) ||
            (next < end && *next != ','))
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "'%.200s', line %lld: weight %lld must be a number of at least 0, "
                            "followed by a comma or the end of the line",
                            l->path, (long long)l->number, (long long)n + 1);
        if (n < experts) weights[n] = weight;
        used += weight > 0;
        if (next == end) break;
    }
    if (n + 1 != experts)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "'%.200s', line %lld has %lld weights, but a layer has %lld experts",
                        l->path, (long long)l->number, (long long)n + 1, (long long)experts);
    if (used >= k) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "'%.200s', line %lld has %lld weights above 0, but each token uses %lld "
                    "experts",
                    l->path, (long long)l->number, (long long)used, (long long)k);
}

static syn_status read_lines(syn_expert_load *load, lines *l, int64_t k, syn_error *err) {
    const int64_t layers = load->rows;
    int64_t n = 0;
    for (char *end; *l->at; l->at = *end ? end + 1 : end, l->number++) {
        end = l->at + strcspn(l->at, "\n");
        if (strspn(l->at, " \t\r") == (size_t)(end - l->at)) continue; /* an empty line */
        if (n < layers)
            SYN_TRY(read_weights(l, end, load->weights + n * load->experts, load->experts, k, err));
        n++;
    }
    load->rows = n;
    if (n == 1 || n == layers) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "'%.200s' has %lld lines with weights, but must have 1, or one for each of the "
                    "%lld layers with experts",
                    l->path, (long long)n, (long long)layers);
}

static syn_status read_file(syn_expert_load *load, const char *path, int64_t k, syn_error *err) {
    char *data;
    size_t bytes;
    SYN_TRY(syn_read_file(path, (size_t)1 << 28, &data, &bytes, err));
    lines l = {path, data, 1};
    const syn_status s = strlen(data) == bytes
                             ? read_lines(load, &l, k, err)
                             : SYN_FAIL(err, SYN_E_FORMAT, "'%.200s' is no text", path);
    syn_free(data);
    return s;
}

/* ---- All ---- */

syn_status syn_expert_load_read(syn_expert_load *out, const char *text,
                                const syn_model_config *config, int64_t mtp, syn_error *err) {
    const int64_t layers = syn_model_expert_layers(config, config->n_layer + mtp);
    syn_expert_load load = {.rows = layers, .experts = config->experts.n};
    *out = (syn_expert_load){.weights = NULL};
    if (strcmp(text, "balanced") == 0) return SYN_OK;
    const size_t bytes = (size_t)(layers * load.experts) * sizeof *load.weights;
    load.weights = syn_calloc(bytes + 1, 1);
    if (!load.weights) return SYN_FAIL_NOMEM(err, bytes, "the loads of experts");
    const syn_status s = strncmp(text, "zipf:", 5) == 0
                             ? read_zipf(&load, text, err)
                             : read_file(&load, text, config->experts.k, err);
    if (s == SYN_OK) *out = load;
    else syn_expert_load_free(&load);
    return s;
}

void syn_expert_load_free(syn_expert_load *load) {
    syn_free(load->weights);
    load->weights = NULL;
}

/* Rows are proportional to the weights, except that experts whose share exceeds `tokens` get
   `tokens` rows, and the others share the rest. Shares are rounded so that their running sums are
   correct to half a row. */
void syn_expert_load_rows(const syn_expert_load *load, int64_t layer, int64_t tokens, int64_t k,
                          int64_t *rows) {
    const double *weights = load->weights + layer % load->rows * load->experts;
    double left = (double)tokens * (double)k, sum = 0, before = 0, all;
    bool more = true;
    for (int64_t e = 0; e < load->experts; e++) rows[e] = -1; /* not full */
    while (more) {
        more = false;
        sum = 0;
        for (int64_t e = 0; e < load->experts; e++) sum += rows[e] < 0 ? weights[e] : 0;
        const double each = sum > 0 ? left / sum : 0;
        for (int64_t e = 0; e < load->experts; e++) {
            if (rows[e] >= 0 || weights[e] * each <= (double)tokens) continue;
            rows[e] = tokens;
            left -= (double)tokens;
            more = true;
        }
    }
    for (int64_t e = 0; e < load->experts; e++, before = all) {
        all = before + (rows[e] < 0 ? weights[e] : 0);
        if (rows[e] < 0)
            rows[e] = sum > 0 ? llround(all / sum * left) - llround(before / sum * left) : 0;
    }
}
