/* Reads, writes and checks config.json, and computes values from a configuration. Each family's
   table lists its keys; this file has what is common to all families. */
#include "models/config.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "models/family_private.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/nearest.h"

/* ---- presets ---- */

static const syn_model_config *preset(size_t i) {
    for (size_t f = 0; syn__family(f); f++) {
        if (i < syn__family(f)->n_presets) return &syn__family(f)->presets[i];
        i -= syn__family(f)->n_presets;
    }
    return NULL;
}

const char *syn_model_preset(size_t i) {
    return preset(i) ? preset(i)->name : NULL;
}

/* The next letter of a model's name that matters: hyphens and case do not, and the name ends before
   "instruct" or "chat". */
static char letter(const char **at) {
    while (**at == '-' || **at == '_') ++*at;
    if (strncasecmp(*at, "instruct", 8) == 0 || strncasecmp(*at, "chat", 4) == 0) return '\0';
    return **at ? (char)tolower((unsigned char)*(*at)++) : '\0';
}

/* Whether a name, such as "meta-llama/Llama-3.1-8B-Instruct", means a preset. */
static bool means(const char *name, const char *of) {
    const char *slash = strrchr(name, '/'), *at = slash ? slash + 1 : name;
    char a, b;
    do {
        a = letter(&at);
        b = letter(&of);
    } while (a == b && a);
    return a == b;
}

syn_status syn_model_config_preset(syn_model_config *config, const char *name, syn_error *err) {
    char known[320] = "", shown[SYN__SETTING_NAME_BYTES], hint[64] = "the";
    syn__nearest near = {NULL, 0};
    size_t used = 0, all = 0;
    for (; preset(all); all++) {
        const char *other = preset(all)->name;
        if (means(name, other)) {
            *config = *preset(all);
            return SYN_OK;
        }
        syn__nearest_try(&near, name, other);
        if (used + strlen(other) + 2 >= sizeof known) continue;
        used += (size_t)sprintf(known + used, "%s%s", all != 0 ? ", " : "", other);
    }
    syn__settings_copy(name, strlen(name), shown, sizeof shown);
    if (near.name != NULL) snprintf(hint, sizeof hint, "did you mean %s? The", near.name);
    return SYN_FAIL(err, SYN_E_INVALID,
                    "unknown model '%.40s'; %s presets are %s, ...; `syntorch help models` lists "
                    "all %zu",
                    shown, hint, known, all);
}

/* ---- files ---- */

static bool has_type(const syn_model_family *f, const char *type) {
    for (const char *const *t = f->types; *t; t++)
        if (strcmp(*t, type) == 0) return true;
    return false;
}

static const syn_model_family *family_of_type(const char *type) {
    for (size_t i = 0; syn__family(i); i++)
        if (has_type(syn__family(i), type)) return syn__family(i);
    return NULL;
}

/* Reads the rest of a list, after its opening bracket, and copies its first string to `out`. */
static void read_first_class(syn_json *reader, char out[64]) {
    const int inside = reader->depth;
    while (syn_json_next(reader) != SYN_JSON_ERROR && reader->depth >= inside)
        if (reader->type == SYN_JSON_STRING && !*out)
            syn__settings_copy(reader->text, reader->text_bytes, out, 64);
}

/* Whether a transformers class belongs to a family: "GPT2LMHeadModel" begins with "gpt2", ignoring
   case. */
static bool is_class_of(const syn_model_family *f, const char *architecture) {
    return strncasecmp(architecture, f->types[0], strlen(f->types[0])) == 0;
}

/* Writes all types to buf for an error message, as in: "gpt2", "bert" and "llama". */
static void list_known_types(char *buf, size_t buf_bytes) {
    size_t used = 0;
    for (size_t i = 0; syn__family(i); i++)
        for (const char *const *t = syn__family(i)->types; *t && used < buf_bytes; t++) {
            const bool last = !t[1] && !syn__family(i + 1);
            const int n = snprintf(buf + used, buf_bytes - used, "%s\"%s\"",
                                   used == 0 ? ""
                                   : last    ? " and "
                                             : ", ",
                                   *t);
            used += n > 0 ? (size_t)n : 0;
        }
}

/* Reads the value of model_type and finds its family. */
static syn_status read_type(syn_json *reader, const syn_model_family **out) {
    char known[400] = "", shown[64];
    SYN_TRY(syn_json_expect(reader, SYN_JSON_STRING, "\"model_type\""));
    *out = family_of_type(reader->text);
    if (*out) return SYN_OK;
    list_known_types(known, sizeof known);
    syn__settings_copy(reader->text, reader->text_bytes, shown, sizeof shown);
    return syn_json_fail(reader, "\"model_type\" is \"%s\", but only %s are supported", shown,
                         known);
}

/* The values of a file that determine its family. */
typedef struct kind {
    const syn_model_family *family; /* NULL: no model_type */
    char class[64];                 /* the first entry of "architectures"; "" if there is none */
} kind;

/* Reads the values that determine the family. Fails only for an invalid model_type; malformed JSON
   is reported later, when the whole file is read. */
static syn_status read_kind(syn_json *reader, kind *out) {
    if (syn_json_next(reader) != SYN_JSON_OBJECT_BEGIN) return SYN_OK;
    while (syn_json_next(reader) == SYN_JSON_KEY) {
        const bool is_class = strcmp(reader->text, "architectures") == 0;
        if (strcmp(reader->text, "model_type") == 0) SYN_TRY(read_type(reader, &out->family));
        else if (syn_json_next(reader) == SYN_JSON_ARRAY_BEGIN && is_class)
            read_first_class(reader, out->class);
        else if (!syn_json_skip(reader)) break;
    }
    return SYN_OK;
}

/* Runs before any other key is checked, because the family decides which keys exist. A file without
   a model_type belongs to the first family; if it names a transformers class of another family,
   that is an error. */
static syn_status find_family(const syn_model_family **out, const char *name, const char *json,
                              size_t bytes, syn_error *err) {
    syn_json reader;
    syn_error inner = {0};
    kind found = {.class = ""};
    syn_json_init(&reader, name, json, bytes, &inner);
    const syn_status s = read_kind(&reader, &found);
    syn_json_free(&reader);
    if (s != SYN_OK || inner.code == SYN_E_NOMEM)
        return SYN_FAIL(err, inner.code, "%s", inner.text);
    *out = found.family ? found.family : syn__family(0);
    if (inner.code == SYN_OK && !found.family && *found.class && !is_class_of(*out, found.class))
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s has \"architectures\" \"%s\", but no \"model_type\"; add it", name,
                        found.class);
    return SYN_OK;
}

syn_status syn__config_type(syn__settings *s, void *member) {
    (void)member;
    return syn__config_string(s);
}

/* Fails if the number of heads does not divide the hidden size and the file has no head_dim. */
static syn_status check_heads(syn__settings *s, const syn__setting_table *fields,
                              const syn_model_config *c) {
    const char *heads = syn__settings_key(s, fields, SYN__AT(n_head));
    const char *hidden = syn__settings_key(s, fields, SYN__AT(n_embd));
    if (c->head_dim != 0 || c->n_embd % c->n_head == 0) return SYN_OK;
    return syn__settings_fail_at(s, fields, heads, "\"%s\" %lld does not divide \"%s\" %lld", heads,
                                 (long long)c->n_head, hidden, (long long)c->n_embd);
}

static void fill_defaults(syn__config_file *file, const char *name) {
    syn_model_config *c = &file->config;
    if (c->n_inner == 0) c->n_inner = 4 * c->n_embd;
    syn__stop_normalize(&c->end, c->vocab_size);
    if (c->name[0] == '\0') memcpy(c->name, file->path_name, sizeof c->name);
    if (c->name[0] == '\0') syn__settings_base_name(name, c->name);
    if (c->name[0] == '\0') snprintf(c->name, sizeof c->name, "%s", c->family->name);
}

syn_status syn_model_config_parse(syn_model_config *config, const char *name, const char *json,
                                  size_t bytes, syn_error *err) {
    syn__settings s;
    syn__config_file file;
    const syn_model_family *f = NULL;
    SYN_TRY(find_family(&f, name, json, bytes, err));
    memset(&file, 0, sizeof file);
    file.config = *f->defaults;
    file.top_level = file.config.rotary; /* initially the family's defaults */
    file.config.rotary.theta = file.config.rotary.part = 0;
    file.rope_scaling = file.config.rotary;
    syn__settings_begin(&s, name, json, bytes);
    if (syn__settings_read(&s, f->fields, &file) == SYN_OK &&
        check_heads(&s, f->fields, &file.config) == SYN_OK && f->check_file)
        (void)f->check_file(&s, f->fields, &file);
    SYN_TRY(syn__settings_end(&s, err));
    fill_defaults(&file, name);
    *config = file.config;
    return SYN_OK;
}

syn_status syn_model_config_load(syn_model_config *config, const char *path, syn_error *err) {
    char *json;
    size_t bytes;
    SYN_TRY(syn_read_file(path, SYN__SETTING_FILE_BYTES, &json, &bytes, err));
    const syn_status status = syn_model_config_parse(config, path, json, bytes, err);
    syn_free(json);
    return status;
}

void syn__config_write_no_pad(syn_sink *out, const void *member) {
    const char *start = (const char *)member - offsetof(syn_model_config, end.fill);
    const syn_model_config *c = (const void *)start;
    const bool none = c->end.n_ids == 0 || c->end.fill == c->end.ids[0];
    if (none && c->family->defaults->end.fill >= 0)
        syn_sink_text(out, ",\n  \"pad_token_id\": null");
}

syn_status syn_model_config_save(const syn_model_config *c, unsigned heads, const char *path,
                                 syn_error *err) {
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, path, err));
    const syn_model_family *f = c->family;
    syn_sink_printf(out, "{\n  \"architectures\": [\"%s\"],\n",
                    f->class_of ? f->class_of(heads) : f->architecture);
    syn_sink_printf(out, "  \"model_type\": \"%s\",\n  \"_name_or_path\": ", syn_model_type(c));
    syn_sink_json_string(out, c->name);
    syn__settings_write(c->family->fields, c, out);
    syn_sink_text(out, "\n}\n");
    return syn_sink_close(out, true, err);
}

void syn_model_config_set_dtype(syn_model_config *c, syn_dtype dtype) {
    snprintf(c->dtype, sizeof c->dtype, "%s", syn__torch_dtypes[dtype]);
}

bool syn_model_config_dtype(const syn_model_config *c, syn_dtype *dtype) {
    static const syn_dtype all[] = {SYN_F32, SYN_F16, SYN_BF16};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(c->dtype, syn__torch_dtypes[all[i]]) != 0) continue;
        *dtype = all[i];
        return true;
    }
    return false;
}

static uint64_t hash_rotary(const syn_rotary *r, uint64_t h) {
    const double numbers[] = {r->theta,
                              r->part,
                              (double)r->scaling,
                              r->factor,
                              (double)r->original,
                              r->low,
                              r->high,
                              r->fast,
                              r->slow,
                              r->attention_factor,
                              r->mscale,
                              r->mscale_all,
                              r->truncate ? 1 : 0};
    if (r->scaling == SYN_ROPE_LONGROPE)
        h = syn_hash(&r->long_factors, sizeof r->long_factors,
                     syn_hash(&r->short_factors, sizeof r->short_factors, h));
    return r->theta > 0 ? syn_hash(numbers, sizeof numbers, h) : h;
}

/* An empty set does not change the hash. number: of the set, if it has layers. */
static uint64_t hash_layers(const syn_layer_set *set, int number, uint64_t h) {
    for (int i = 0; i < SYN_MAX_SET_LAYERS; i++)
        if (syn_layer_set_has(set, i)) h = syn_hash((int[]){number, i}, 2 * sizeof i, h);
    return h;
}

uint64_t syn_model_config_hash(const syn_model_config *c, uint64_t seed) {
    uint64_t h = syn_hash(syn_model_type(c), strlen(syn_model_type(c)), seed);
    h = hash_rotary(&c->local_rotary, hash_rotary(&c->rotary, h));
    h = syn_hash(&c->end, sizeof c->end, syn__settings_hash(c->family->fields, c, h));
    if (c->attention_cap > 0) h = syn_hash(&c->attention_cap, sizeof c->attention_cap, h);
    if (c->logit_cap > 0) h = syn_hash(&c->logit_cap, sizeof c->logit_cap, ~h);
    h = hash_layers(&c->no_rope, 2, hash_layers(&c->full, 1, h));
    return c->experts.n ? syn_hash(c->experts.dense, sizeof c->experts.dense, h) : h;
}

/* ---- values computed from a configuration ---- */

static syn_status check_sizes(const syn_model_config *c, syn_error *err) {
    if (c->n_layer < 1 || c->n_embd < 1 || c->n_head < 1 || c->n_inner < 1 || c->n_positions < 1 ||
        c->vocab_size < 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: layers %lld, hidden %lld, heads %lld, inner %lld, positions "
                        "%lld and vocabulary %lld must all be at least 1",
                        c->name, (long long)c->n_layer, (long long)c->n_embd, (long long)c->n_head,
                        (long long)c->n_inner, (long long)c->n_positions, (long long)c->vocab_size);
    if (c->head_dim == 0 && c->n_embd % c->n_head != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: %lld heads do not divide the hidden size %lld", c->name,
                        (long long)c->n_head, (long long)c->n_embd);
    if (c->n_kv_head < 0 || (c->n_kv_head > 0 && c->n_head % c->n_kv_head != 0))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: %lld key/value heads do not divide the %lld query heads",
                        c->name, (long long)c->n_kv_head, (long long)c->n_head);
    return SYN_OK;
}

/* A combined query-key-value matrix has three equal parts, so the model must have as many key/value
   heads as query heads. */
static syn_status check_qkv(const syn_model_config *c, syn_error *err) {
    if (c->n_kv_head == 0 || c->n_kv_head == c->n_head) return SYN_OK;
    for (const syn__param_row *row = c->family->layer_rows; row->name; row++)
        if (row->to == SYN__DIM_QKV)
            return SYN_FAIL(
                err, SYN_E_INVALID,
                "model %s: a %s needs as many key/value heads as query heads, not %lld and %lld",
                c->name, c->family->title, (long long)c->n_kv_head, (long long)c->n_head);
    return SYN_OK;
}

syn_status syn_model_config_check(const syn_model_config *c, int tp, syn_error *err) {
    if (tp < 1) return SYN_FAIL(err, SYN_E_INVALID, "tp must be at least 1, not %d", tp);
    SYN_TRY(check_sizes(c, err));
    const struct {
        int64_t n;
        const char *before, *after;
    } cut[] = {{c->n_head, "the ", " attention heads"},
               {c->n_inner, "the MLP's width ", ""},
               {c->experts.inner, "the experts' width ", ""},
               {c->experts.shared_inner, "the shared expert's width ", ""}};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
        if (cut[i].n % tp != 0)
            return SYN_FAIL(err, SYN_E_INVALID, "model %s: tp %d does not divide %s%lld%s", c->name,
                            tp, cut[i].before, (long long)cut[i].n, cut[i].after);
    if (c->n_kv_head % tp != 0 && (c->n_kv_head == 0 || tp % c->n_kv_head != 0))
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "model %s: tp %d neither divides the %lld key/value heads nor is a multiple of them",
            c->name, tp, (long long)c->n_kv_head);
    SYN_TRY(check_qkv(c, err));
    return c->family->check ? c->family->check(c, err) : SYN_OK;
}

static syn_status check_experts(const syn_model_config *c, const syn_plan *plan, syn_error *err) {
    if (!syn_plan_experts_apart(plan)) return SYN_OK;
    if (!syn_model_has_experts(c))
        return SYN_FAIL(err, SYN_E_INVALID, "model %s has no experts: ep and etp have no effect",
                        c->name);
    if (c->experts.n % plan->ep != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "model %s: ep %d does not divide the %lld experts",
                        c->name, plan->ep, (long long)c->experts.n);
    if (plan->etp > 1 && plan->ep == 1)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "without ep, experts can be sharded over tp %d ranks or be whole, but not "
                        "be sharded over etp %d: use etp 1",
                        plan->tp, plan->etp);
    const int64_t width = c->experts.inner ? c->experts.inner : c->n_inner;
    if (width % plan->etp != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: etp %d does not divide the experts' width %lld", c->name,
                        plan->etp, (long long)width);
    if (plan->ep > 1 && c->n_embd % plan->etp != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "model %s: etp %d does not divide the hidden size %lld",
                        c->name, plan->etp, (long long)c->n_embd);
    if (plan->inference && (int64_t)plan->etp * plan->ep % plan->tp != 0)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "model %s: all %d tensor-parallel ranks must share the experts, so etp %d x "
            "ep %d = %lld must be a multiple of tp %d",
            c->name, plan->tp, plan->etp, plan->ep, (long long)plan->etp * plan->ep, plan->tp);
    if (plan->tp == 1 || plan->sp || plan->inference) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "experts on ranks of their own (ep %d, etp %d) need sequence parallelism (sp) "
                    "with tp %d",
                    plan->ep, plan->etp, plan->tp);
}

syn_status syn_model_context_check(const syn_model_config *c, int tp, int a2a, bool blocks,
                                   syn_error *err) {
    const int64_t keys = c->n_kv_head > 0 ? c->n_kv_head : c->n_head;
    const struct {
        int64_t n;
        const char *what;
    } heads[] = {{c->n_head / tp, "query heads"}, {keys > tp ? keys / tp : 1, "key/value heads"}};
    if (!syn_model_is_causal(c))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "model %s: context parallelism (cp) needs a causal model, and this is a %s",
                        c->name, c->family->title);
    int64_t window = 0;
    for (int64_t i = 0; i < c->n_layer && window == 0; i++) window = syn_model_layer_window(c, i);
    if (blocks && window > 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "model %s: a sliding window of %lld tokens needs cp_comm a2a, with which a "
                        "rank has all tokens of a head",
                        c->name, (long long)window);
    if (blocks && c->attention_cap > 0)
        return SYN_FAIL(
            err, SYN_E_UNSUPPORTED,
            "model %s: a cap on attention scores needs cp_comm a2a, with which a rank has "
            "all tokens of a head",
            c->name);
    if (blocks && c->family->sinks_at > 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "model %s: attention sinks need cp_comm a2a, with which a rank has all "
                        "tokens of a head",
                        c->name);
    for (int i = 0; i < 2; i++)
        if (heads[i].n % a2a != 0)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "model %s: all-to-alls of %d ranks (cp_comm) cannot divide the %lld %s "
                            "of a rank (tp %d)",
                            c->name, a2a, (long long)heads[i].n, heads[i].what, tp);
    return SYN_OK;
}

syn_status syn_model_plan_check(const syn_model_config *c, const syn_plan *plan, syn_error *err) {
    const int a2a = plan->cp_comm == SYN_CP_A2A       ? plan->cp
                    : plan->cp_comm == SYN_CP_A2A_P2P ? plan->cp_a2a
                                                      : 1;
    SYN_TRY(check_experts(c, plan, err));
    SYN_TRY(syn_model_config_check(c, plan->tp, err));
    if (plan->cp == 1) return SYN_OK;
    return syn_model_context_check(c, plan->tp, a2a, plan->cp_comm != SYN_CP_A2A, err);
}

int syn_model_kv_ranks(const syn_model_config *c, int tp) {
    return c->n_kv_head > 0 && c->n_kv_head < tp ? tp / (int)c->n_kv_head : 1;
}

int64_t syn_model_padded_vocab(const syn_model_config *c, int tp, int64_t divisor) {
    assert(tp >= 1 && divisor >= 1 && divisor <= INT64_MAX / 4 / tp);
    const int64_t unit = divisor * tp;
    return (c->vocab_size + unit - 1) / unit * unit;
}

const char *syn_model_type(const syn_model_config *c) {
    return c->family->types[0];
}

bool syn_model_is_causal(const syn_model_config *c) {
    return c->family->head_scope != NULL;
}

syn_tokenizer_kind syn_model_tokenizer(const syn_model_config *c) {
    return c->family->tokenizer;
}
