/* Chooses sampling parameters and stop criteria from options and files, and checks them. */
#include "tools/inference/inference_sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

bool sampling_asked(const inference_args *args) {
    return !isnan(args->temperature) || args->top_k >= 0 || !isnan(args->top_p) ||
           !isnan(args->min_p) || args->greedy || !isnan(args->repetition_penalty) || args->eos;
}

const char *sampling_refuses(const inference_args *args) {
    const bool likeliest = args->temperature == 0.0;
    if (args->greedy && !isnan(args->temperature) && !likeliest)
        return "--greedy takes the likeliest token, but --temperature samples; give one of them";
    if (args->greedy && args->top_k >= 0)
        return "--top_k has no effect with --greedy, which takes the likeliest token";
    if (args->greedy && !isnan(args->top_p))
        return "--top_p has no effect with --greedy, which takes the likeliest token";
    if (likeliest && args->top_k >= 0)
        return "--top_k has no effect with --temperature 0, which takes the likeliest token";
    if (likeliest && !isnan(args->top_p))
        return "--top_p has no effect with --temperature 0, which takes the likeliest token";
    if ((args->greedy || likeliest) && !isnan(args->min_p))
        return "--min_p has no effect with --greedy or --temperature 0, which take the likeliest "
               "token";
    return NULL;
}

/* ---- Stop criteria ---- */

static syn_status add_end(const inference *run, int64_t id, syn_stop_criteria *end,
                          syn_error *err) {
    if (id < 0 || id >= run->config.vocab_size)
        return SYN_FAIL(err, SYN_E_INVALID, "--eos: %lld is not one of the %lld token ids of %s",
                        (long long)id, (long long)run->config.vocab_size, run->config.name);
    if (end->n_ids == SYN_MAX_STOP_IDS)
        return SYN_FAIL(err, SYN_E_INVALID, "--eos: more than %d ids", SYN_MAX_STOP_IDS);
    end->ids[end->n_ids++] = (int32_t)id;
    return SYN_OK;
}

/* If `text` is a list of numbers, adds the numbers as stop ids and returns true. */
static bool add_numbers(const inference *run, const char *text, syn_stop_criteria *end,
                        syn_status *status, syn_error *err) {
    if (!*text || text[strspn(text, "0123456789, ")]) return false;
    for (char *next; *(text += strspn(text, ", ")) && *status == SYN_OK; text = next)
        *status = add_end(run, strtoll(text, &next, 10), end, err);
    return end->n_ids > 0 || *status != SYN_OK;
}

static int64_t token_of(const syn_tokenizer *tok, const char *text) {
    const int32_t special = syn_tokenizer_special(tok, text);
    if (special >= 0) return special;
    for (int32_t id = 0; id < syn_tokenizer_vocab_size(tok); id++) {
        size_t bytes;
        const char *token = syn_tokenizer_token(tok, id, &bytes);
        if (bytes == strlen(text) && memcmp(token, text, bytes) == 0) return id;
    }
    return -1;
}

/* Applies --eos. The padding token from the files stays the same, unless it equals their first stop
   id; then the new first stop id replaces it. */
static syn_status choose_end(const inference *run, syn_stop_criteria *end, syn_error *err) {
    const char *text = run->args->eos;
    syn_status status = SYN_OK;
    *end = run->config.end;
    if (!text) return SYN_OK;
    const bool fills = end->fill != end->ids[0];
    end->n_ids = 0;
    if (strcmp(text, "none") == 0) return SYN_OK;
    if (!add_numbers(run, text, end, &status, err)) {
        const int64_t id = run->tokenizer ? token_of(run->tokenizer, text) : -1;
        if (id < 0)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "--eos: '%.80s' is not a token%s; give ids separated by ',', the text "
                            "of one token, or none",
                            text,
                            run->tokenizer ? " of the tokenizer" : ", as there is no tokenizer");
        status = add_end(run, id, end, err);
    }
    if (!fills) end->fill = end->ids[0];
    return status;
}

/* ---- Sampling ---- */

/* A sampling parameter: the values from its option and from the file (NaN: none), the default, and
   the allowed range. */
typedef struct choice {
    const char *name;
    double option, file, otherwise, least, most;
    double *out;
} choice;

static syn_status choose(const choice *c, bool file_counts, const char *file, syn_error *err) {
    *c->out = c->otherwise;
    if (!isnan(c->option)) *c->out = c->option;
    else if (file_counts && !isnan(c->file)) *c->out = c->file;
    if (*c->out >= c->least && *c->out <= c->most) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "%s sets %s to %g, but it must be between %g and %g; give --%s", file, c->name,
                    *c->out, c->least, c->most, c->name);
}

syn_status sampling_choose(const inference *run, inference_sampling *out, syn_error *err) {
    const inference_args *a = run->args;
    const syn_sampling_defaults *defaults = &run->defaults;
    syn_sampling *how = &out->how;
    double top_k;
    const double k = a->top_k >= 0 ? (double)a->top_k : NAN;
    const double temperature = a->greedy ? 0 : a->temperature;
    const choice choices[] = {
        {"temperature", temperature, defaults->temperature, 1, 0, 1e6, &how->temperature},
        {"top_k", k, defaults->top_k, 0, 0, 1e9, &top_k},
        {"top_p", a->top_p, defaults->top_p, 1, 1e-9, 1, &how->top_p},
        {"min_p", a->min_p, defaults->min_p, 0, 0, 1, &how->min_p},
        {"repetition_penalty", a->repetition_penalty, defaults->repetition_penalty, 1, 1e-6, 1e6,
         &out->repetition_penalty},
    };
    const size_t n = sizeof choices / sizeof *choices;
    for (size_t i = 0; i < n; i++) /* with temperature 0, the file's other values have no effect:
                                      only the penalty changes which token is the likeliest */
        SYN_TRY(choose(&choices[i], i == 0 || i == n - 1 || how->temperature > 0,
                       run->defaults_file, err));
    how->top_k = (int64_t)top_k;
    how->seed = (uint64_t)a->seed;
    return choose_end(run, &out->end, err);
}

uint64_t sampling_hash(const inference_sampling *s, uint64_t hash) {
    const double reals[] = {s->how.temperature, s->how.top_p, s->how.min_p, s->repetition_penalty,
                            (double)s->how.top_k};
    hash = syn_hash(reals, sizeof reals, hash);
    hash = syn_hash(&s->end.fill, sizeof s->end.fill, hash);
    return syn_hash(s->end.ids, (size_t)s->end.n_ids * sizeof *s->end.ids, hash);
}

void sampling_print(const inference *run, const inference_sampling *s) {
    const inference_args *a = run->args;
    const syn_sampling_defaults *defaults = &run->defaults;
    const bool samples = s->how.temperature > 0;
    const struct {
        const char *name;
        bool chosen;
        double value;
    } list[] = {
        {"temperature", isnan(a->temperature) && !a->greedy && !isnan(defaults->temperature),
         s->how.temperature},
        {"top_k", samples && a->top_k < 0 && !isnan(defaults->top_k), (double)s->how.top_k},
        {"top_p", samples && isnan(a->top_p) && !isnan(defaults->top_p), s->how.top_p},
        {"min_p", samples && isnan(a->min_p) && !isnan(defaults->min_p), s->how.min_p},
        {"repetition_penalty", isnan(a->repetition_penalty) && !isnan(defaults->repetition_penalty),
         s->repetition_penalty},
    };
    const char *before = "sampling: ";
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!list[i].chosen) continue;
        printf("%s%s %g", before, list[i].name, list[i].value);
        before = ", ";
    }
    if (before[0] == ',') printf(", as %s says\n", run->defaults_file);
}

void sampling_json(const inference_sampling *s, syn_sink *out) {
    syn_sink_text(out, "\"sampling\": {\"temperature\": ");
    syn_sink_double(out, s->how.temperature);
    syn_sink_printf(out, ", \"top_k\": %lld, \"top_p\": ", (long long)s->how.top_k);
    syn_sink_double(out, s->how.top_p);
    syn_sink_text(out, ", \"min_p\": ");
    syn_sink_double(out, s->how.min_p);
    syn_sink_text(out, ", \"repetition_penalty\": ");
    syn_sink_double(out, s->repetition_penalty);
    syn_sink_text(out, ", \"eos\": [");
    for (int32_t i = 0; i < s->end.n_ids; i++)
        syn_sink_printf(out, "%s%d", i ? ", " : "", s->end.ids[i]);
    syn_sink_text(out, "]}");
}
