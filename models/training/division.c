/* Divides the layers of a model into virtual stages; see division.h. The rules of layouts are those
   of Megatron-LM (core/transformer/pipeline_parallel_layer_layout.py), and those of counted
   embeddings and losses are in core/transformer/transformer_block.py. */
#include "models/training/division.h"

#include "syntorch/base/memory.h"

typedef struct target {
    syn_model_part *parts;
    const syn_model_config *config;
    const syn_schedule_shape *shape;
    int64_t n; /* number of virtual stages */
} target;

/* ---- Evenly ---- */

static syn_status divide_evenly(const target *t, const syn_layer_division *d, syn_error *err) {
    static const char *const counted[2][2] = {
        {"", " and the loss"}, {" and the embedding", ", the embedding and the loss"}};
    const int64_t layers = t->config->n_layer + d->count_embedding + d->count_loss;
    if (layers % t->n != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the %lld layers%s of %s cannot be divided evenly into %lld %sstages "
                        "(pp %d x vp %d); --layers-per-stage divides them unevenly",
                        (long long)t->config->n_layer, counted[d->count_embedding][d->count_loss],
                        t->config->name, (long long)t->n, t->n > t->shape->stages ? "virtual " : "",
                        (int)t->shape->stages, (int)(t->n / t->shape->stages));
    for (int64_t i = 0; i < t->n; i++) t->parts[i].n_layers = layers / t->n;
    t->parts[0].n_layers -= d->count_embedding;
    t->parts[t->n - 1].n_layers -= d->count_loss;
    return SYN_OK;
}

/* ---- By numbers ---- */

/* Reads the digits at *at and moves it behind them. Returns -1 if there are none. Numbers above
   `most` become most + 1. */
static int64_t read_number(const char **at, int64_t most) {
    int64_t value = **at >= '0' && **at <= '9' ? 0 : -1;
    for (; **at >= '0' && **at <= '9'; ++*at)
        value = value > most ? value : value * 10 + (**at - '0');
    return value > most ? most + 1 : value;
}

static syn_status divide_by_numbers(const target *t, const char *text, syn_error *err) {
    int64_t n = 0, layers = 0;
    for (const char *at = text;; at++) {
        const int64_t value = read_number(&at, INT32_MAX);
        if (value < 0 || value > INT32_MAX || (*at != ',' && *at != '\0'))
            return SYN_FAIL(err, SYN_E_INVALID,
                            "layers per stage '%.200s': character %td should end a number of "
                            "layers, such as the 8 in 7,8",
                            text, at - text + 1);
        if (n < t->n) t->parts[n].n_layers = value;
        n++;
        layers += value;
        if (*at == '\0') break;
    }
    if (n != t->n)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layers per stage '%.200s' has %lld numbers, but there are %lld virtual "
                        "stages (pp %d x vp %d)",
                        text, (long long)n, (long long)t->n, (int)t->shape->stages,
                        (int)(t->n / t->shape->stages));
    if (layers == t->config->n_layer) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "layers per stage '%.200s' has %lld layers in total, but %s has %lld", text,
                    (long long)layers, t->config->name, (long long)t->config->n_layer);
}

/* ---- By a layout ---- */

enum { MOST_SYMBOLS = 1 << 20 };

typedef struct symbol {
    char what;  /* one of "EtmL|" */
    int32_t at; /* its position in the text, from 1 */
} symbol;

/* A layout in which everything is repeated as often as the text says. */
typedef struct layout {
    const char *text;
    symbol *symbols;
    size_t n, cap;
} layout;

static int32_t place(const layout *l, const char *at) {
    return (int32_t)(at - l->text) + 1;
}

static syn_status add_symbol(layout *l, symbol s, syn_error *err) {
    if (l->n == MOST_SYMBOLS)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layout '%.200s' has more than %d layers and stages at character %d",
                        l->text, MOST_SYMBOLS, (int)s.at);
    SYN_TRY(syn_grow(&l->symbols, &l->cap, l->n + 1, sizeof *l->symbols, err));
    l->symbols[l->n++] = s;
    return SYN_OK;
}

/* Reads "*N" at *at, if it is there, and repeats the symbols from `first` on. */
static syn_status repeat(layout *l, const char **at, size_t first, bool *found, syn_error *err) {
    const char *star = *at;
    const size_t n = l->n - first;
    *found = *star == '*';
    if (!*found) return SYN_OK;
    ++*at;
    const int64_t times = read_number(at, MOST_SYMBOLS);
    if (times < 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layout '%.200s': the * at character %d needs a number, such as *2",
                        l->text, (int)place(l, star));
    if (times == 0) l->n = first;
    for (int64_t i = 1; i < times; i++)
        for (size_t k = 0; k < n; k++) SYN_TRY(add_symbol(l, l->symbols[first + k], err));
    return SYN_OK;
}

static syn_status fail_symbol(const layout *l, const char *at, bool in_group, syn_error *err) {
    const int32_t position = place(l, at);
    if (*at == '(' && in_group)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layout '%.200s': the ( at character %d is inside other parentheses, which "
                        "cannot be nested",
                        l->text, (int)position);
    return SYN_FAIL(
        err, SYN_E_INVALID,
        "layout '%.200s': character %d is none of E (embedding), t (layer), m (layer for "
        "multi-token prediction), L (loss), | (next stage), x*N and (...)*N",
        l->text, (int)position);
}

/* Adds the group that begins at *at, and moves *at behind its "*N". */
static syn_status expand_group(layout *l, const char **at, syn_error *err);

/* Adds the symbols at *at up to `end`. */
static syn_status expand(layout *l, const char **at, char end, syn_error *err) {
    bool repeated;
    while (**at != end && **at != '\0') {
        const size_t first = l->n;
        if (**at == ',') {
            ++*at;
        } else if (**at == '(' && end == '\0') {
            SYN_TRY(expand_group(l, at, err));
        } else if (**at == 'E' || **at == 't' || **at == 'm' || **at == 'L' || **at == '|') {
            SYN_TRY(add_symbol(l, (symbol){**at, place(l, *at)}, err));
            ++*at;
            SYN_TRY(repeat(l, at, first, &repeated, err));
        } else {
            return fail_symbol(l, *at, end != '\0', err);
        }
    }
    return SYN_OK;
}

static syn_status expand_group(layout *l, const char **at, syn_error *err) {
    const size_t first = l->n;
    const int32_t begin = place(l, *at);
    bool repeated;
    ++*at;
    SYN_TRY(expand(l, at, ')', err));
    if (**at != ')')
        return SYN_FAIL(err, SYN_E_INVALID, "layout '%.200s': the ( at character %d is not closed",
                        l->text, (int)begin);
    ++*at;
    SYN_TRY(repeat(l, at, first, &repeated, err));
    if (repeated) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "layout '%.200s': the ) at character %d needs a number of repetitions, such as "
                    "*2",
                    l->text, (int)place(l, *at - 1));
}

/* E must be the first symbol and L the last one, and both occur once. */
static syn_status check_ends(const layout *l, syn_error *err) {
    const size_t n = l->n;
    if (n == 0 || l->symbols[0].what != 'E')
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layout '%.200s' must begin with E, the embedding, before character %d",
                        l->text, n > 0 ? (int)l->symbols[0].at : 1);
    if (l->symbols[n - 1].what != 'L')
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layout '%.200s' must end with L, the loss, after character %d", l->text,
                        (int)l->symbols[n - 1].at);
    for (size_t i = 1; i + 1 < n; i++) {
        const symbol *s = &l->symbols[i];
        if (s->what == 'E' || s->what == 'L')
            return SYN_FAIL(err, SYN_E_INVALID,
                            "layout '%.200s': %s must occur only %s, not at character %d", l->text,
                            s->what == 'E' ? "E, the embedding," : "L, the loss,",
                            s->what == 'E' ? "at the beginning" : "at the end", (int)s->at);
    }
    return SYN_OK;
}

/* Returns the position of the number-th symbol `what`, or of the last one if there are fewer; *n
   gets their number. The position is that of E if there are none. */
static int32_t find_symbol(const layout *l, char what, int64_t number, int64_t *n) {
    int32_t at = 1;
    *n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->symbols[i].what != what) continue;
        if (*n < number) at = l->symbols[i].at;
        ++*n;
    }
    return at;
}

static syn_status check_numbers(const target *t, const layout *l, syn_error *err) {
    int64_t layers, bars;
    const int64_t want = t->config->n_layer;
    const int32_t bar = find_symbol(l, '|', t->n, &bars);
    const int32_t layer = find_symbol(l, 't', want + 1, &layers);
    if (bars + 1 != t->n)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "layout '%.200s' has %lld virtual stages, not %lld (pp %d x vp %d): stage %lld begins "
            "at character %d",
            l->text, (long long)bars + 1, (long long)t->n, (int)t->shape->stages,
            (int)(t->n / t->shape->stages), (long long)(bars < t->n ? bars : t->n) + 1,
            bars > 0 ? (int)bar + 1 : 1);
    if (layers != want)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "layout '%.200s' has %lld layers, but %s has %lld: %s is at character %d",
                        l->text, (long long)layers, t->config->name, (long long)want,
                        layers > want ? "the first one too many" : "the last one", (int)layer);
    return SYN_OK;
}

static syn_status divide_by_layout(const target *t, const char *text, syn_error *err) {
    layout l = {.text = text};
    const char *at = text;
    int64_t stage = 0;
    syn_status s = expand(&l, &at, '\0', err);
    if (s == SYN_OK) s = check_ends(&l, err);
    if (s == SYN_OK) s = check_numbers(t, &l, err);
    for (size_t i = 0; i < l.n && s == SYN_OK; i++) {
        const symbol *item = &l.symbols[i];
        syn_model_part *part = &t->parts[stage];
        stage += item->what == '|';
        part->n_layers += item->what == 't';
        part->mtp += item->what == 'm';
        if ((item->what == 'm' && !part->head) || (item->what == 't' && part->mtp > 0))
            s = SYN_FAIL(err, SYN_E_INVALID,
                         "layout '%.200s': layers for multi-token prediction must be at the end of "
                         "the last stage, before L, unlike the %c at character %d",
                         text, item->what, (int)item->at);
    }
    syn_free(l.symbols);
    return s;
}

/* ---- All ---- */

static syn_status divide(const target *t, const syn_layer_division *d, syn_error *err) {
    const bool counts = d->count_embedding || d->count_loss;
    if ((d->layers != NULL) + (d->layout != NULL) + counts > 1)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "layers are divided by their numbers per stage, by a layout, or with counted "
            "embedding and loss; give one");
    if (d->layers) return divide_by_numbers(t, d->layers, err);
    return d->layout ? divide_by_layout(t, d->layout, err) : divide_evenly(t, d, err);
}

syn_status syn_pipeline_parts(syn_model_part *parts, const syn_model_config *config,
                              const syn_schedule_shape *shape, const syn_layer_division *division,
                              syn_error *err) {
    const target t = {parts, config, shape, syn_schedule_virtual_stages(shape)};
    const syn_layer_division evenly = {.layers = NULL};
    int64_t first = 0;
    for (int64_t i = 0; i < t.n; i++)
        parts[i] = (syn_model_part){.embed = i == 0, .head = i == t.n - 1};
    SYN_TRY(divide(&t, division ? division : &evenly, err));
    if (division && !division->layout) parts[t.n - 1].mtp = division->mtp;
    for (int64_t i = 0; i < t.n; i++) {
        parts[i].first_layer = first;
        first += parts[i].n_layers;
    }
    return SYN_OK;
}

syn_status syn_pipeline_part(syn_model_part *out, const syn_model_config *config,
                             const syn_schedule_shape *shape, const syn_layer_division *division,
                             int32_t stage, int32_t chunk, syn_error *err) {
    const size_t n = (size_t)syn_schedule_virtual_stages(shape);
    syn_model_part *parts = syn_calloc(n, sizeof *parts);
    if (!parts) return SYN_FAIL_NOMEM(err, n * sizeof *parts, "the stages of a pipeline");
    const syn_status s = syn_pipeline_parts(parts, config, shape, division, err);
    if (s == SYN_OK) *out = parts[syn_schedule_virtual_stage(shape, stage, chunk)];
    syn_free(parts);
    return s;
}
