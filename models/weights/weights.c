/* Opens checkpoints for a family: converts the names of tensors to parameter names and looks them
   up. Also computes which elements of a tensor belong to a shard, for reading and for saving. */
#include "models/weights/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights/safetensors_private.h"
#include "models/weights/weights_private.h"
#include "syntorch/base/memory.h"

#define SHOWN SYN__SAFETENSORS_SHOWN

/* ---- Names ---- */

static const char *skip_prefix(const char *name, const char *prefix) {
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : name;
}

static bool ends_in(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

syn__weights_role syn__weights_parameter_name(const syn_model_family *family, const char *name,
                                              char *out) {
    static const char *const renamed[2][2] = {{"LayerNorm.gamma", "weight"},
                                              {"LayerNorm.beta", "bias"}};
    name = skip_prefix(name, family->prefix);
    strcpy(out, name);
    for (int i = 0; i < 2; i++)
        if (ends_in(name, renamed[i][0])) strcpy(strrchr(out, '.') + 1, renamed[i][1]);
    const syn__param_row *row = syn__family_row(family, out);
    if (!row) return syn__weights_purpose(out, true) ? SYN__WEIGHTS_OTHER : SYN__WEIGHTS_PARAMETER;
    if (row->kind == SYN__IGNORED) return SYN__WEIGHTS_BUFFER;
    return row->heads != 0 || row->tied ? SYN__WEIGHTS_HEAD : SYN__WEIGHTS_PARAMETER;
}

bool syn__weights_of_experts(const char *name) {
    return strchr(name, '*') != NULL;
}

void syn__weights_expert_name(const char *name, int64_t expert, char *out, size_t out_bytes) {
    const char *star = strchr(name, '*');
    if (!star) snprintf(out, out_bytes, "%s", name);
    else
        snprintf(out, out_bytes, "%.*s%lld%s", (int)(star - name), name, (long long)expert,
                 star + 1);
}

const syn__param_row *syn__weights_part_name(const syn_model_family *family, const char *parameter,
                                             char *out, size_t out_bytes) {
    const syn__param_row *row = syn__family_row(family, parameter);
    const char *at = row && row->file ? strstr(parameter, row->name) : NULL;
    if (at && row->stacked) {
        const char *rest = at + strlen(row->name);
        snprintf(out, out_bytes, "%.*s%s%s", (int)(at - parameter), parameter, row->file,
                 strcmp(rest, ".bias") == 0 ? "_bias" : "");
    } else if (!at) snprintf(out, out_bytes, "%s", parameter);
    else
        snprintf(out, out_bytes, "%.*s%s%s", (int)(at - parameter), parameter, row->file,
                 at + strlen(row->name));
    return at ? row : NULL;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp((*(syn__weights_entry *const *)a)->name, (*(syn__weights_entry *const *)b)->name);
}

static syn_status name_entries(syn_weights *w, syn_error *err) {
    const size_t n = syn_safetensors_count(w->file);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(syn_safetensors_get(w->file, i)->name) + SYN__WEIGHTS_LONGER + 1;
    w->text = syn_malloc(bytes);
    w->entries = syn_malloc(n * sizeof *w->entries);
    w->by_name = syn_malloc(n * sizeof *w->by_name);
    if (!w->text || !w->entries || !w->by_name)
        return SYN_FAIL_NOMEM(err, bytes, "the names of a checkpoint");
    w->n_entries = n;
    char *at = w->text;
    for (size_t i = 0; i < n; i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(w->file, i);
        w->entries[i] = (syn__weights_entry){
            .name = at, .tensor = t, .scales = syn__weights_f8_scales(w->file, t)};
        w->entries[i].role = syn__weights_parameter_name(w->family, t->name, at);
        if (syn__weights_f8_is_scales(w->file, t)) w->entries[i].role = SYN__WEIGHTS_SCALES;
        w->by_name[i] = &w->entries[i];
        at += strlen(at) + 1;
    }
    if (n) qsort(w->by_name, n, sizeof *w->by_name, compare_entries);
    return SYN_OK;
}

static syn_status check_names(const syn_weights *w, syn_error *err) {
    char a[SHOWN], b[SHOWN];
    for (size_t i = 1; i < w->n_entries; i++) {
        const syn__weights_entry *x = w->by_name[i - 1], *y = w->by_name[i];
        if (strcmp(x->name, y->name) == 0 && x->role != SYN__WEIGHTS_BUFFER)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%.200s: the tensors '%s' and '%s' are the same parameter", w->path,
                            syn__safetensors_shown(x->tensor->name, a),
                            syn__safetensors_shown(y->tensor->name, b));
    }
    return SYN_OK;
}

static int compare_name_to(const void *name, const void *entry) {
    return strcmp(name, (*(syn__weights_entry *const *)entry)->name);
}

const syn__weights_entry *syn__weights_entry_of(const syn_weights *w, const char *name) {
    syn__weights_entry *const *found =
        w->n_entries == 0
            ? NULL
            : bsearch(name, w->by_name, w->n_entries, sizeof *w->by_name, compare_name_to);
    return found && (*found)->role != SYN__WEIGHTS_BUFFER ? *found : NULL;
}

const syn__weights_entry *syn__weights_find(const syn_weights *w, const char *parameter) {
    const syn__param_row *second = syn__family_alias_row(w->family, parameter);
    char name[160];
    if (second) snprintf(name, sizeof name, "%s.bias", second->name);
    const syn__weights_entry *entry = second ? syn__weights_entry_of(w, name) : NULL;
    if (entry) return entry;
    (void)syn__weights_part_name(w->family, parameter, name, sizeof name);
    return syn__weights_entry_of(w, name);
}

/* ---- Opening ---- */

/* Whether a tensor's name is that of the token table in models of family f. */
static bool is_token_table(const syn_safetensors_tensor *t, const syn_model_family *f) {
    char name[96], table[96];
    if (strlen(t->name) >= sizeof name - SYN__WEIGHTS_LONGER) return false;
    (void)syn__weights_parameter_name(f, t->name, name);
    snprintf(table, sizeof table, "%s.weight", f->embed_rows[0].name);
    return strcmp(name, table) == 0;
}

/* Detects checkpoints of another family, which would otherwise be reported as lacking every
   parameter. */
static syn_status check_family(const syn_weights *w, syn_error *err) {
    const syn_model_family *other = NULL;
    for (size_t i = 0; i < w->n_entries; i++) {
        if (is_token_table(w->entries[i].tensor, w->family)) return SYN_OK;
        for (size_t f = 0; !other && syn__family(f); f++)
            if (is_token_table(w->entries[i].tensor, syn__family(f))) other = syn__family(f);
    }
    if (!other) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "%.200s has the weights of a %s, but the model is a %s",
                    w->path, other->title, w->family->title);
}

static syn_dtype most_bytes(const syn_weights *w) {
    static const syn_dtype floats[] = {SYN_F32, SYN_F16, SYN_BF16};
    uint64_t bytes[3] = {0, 0, 0};
    int most = 0;
    for (size_t i = 0; i < w->n_entries; i++)
        for (int k = 0; k < 3; k++)
            if (w->entries[i].role != SYN__WEIGHTS_BUFFER &&
                w->entries[i].role != SYN__WEIGHTS_SCALES &&
                w->entries[i].tensor->dtype == (int)floats[k])
                bytes[k] += w->entries[i].tensor->bytes;
    for (int k = 1; k < 3; k++)
        if (bytes[k] > bytes[most]) most = k;
    return floats[most];
}

syn_status syn_weights_open(syn_weights **out, const char *path, const syn_model_family *family,
                            syn_error *err) {
    *out = NULL;
    syn_weights *w = syn_calloc(1, sizeof *w);
    if (!w) return SYN_FAIL_NOMEM(err, sizeof *w, "a checkpoint");
    w->family = family;
    w->path = syn_strdup(path);
    syn_status s = w->path ? SYN_OK : SYN_FAIL_NOMEM(err, strlen(path), "a file name");
    if (s == SYN_OK) s = syn_safetensors_open(&w->file, path, err);
    if (s == SYN_OK) s = name_entries(w, err);
    if (s == SYN_OK) s = check_names(w, err);
    if (s == SYN_OK) s = check_family(w, err);
    if (s != SYN_OK) {
        syn_weights_free(w);
        return s;
    }
    w->dtype = most_bytes(w);
    *out = w;
    return SYN_OK;
}

void syn_weights_free(syn_weights *w) {
    if (!w) return;
    syn_safetensors_free(w->file);
    syn_free(w->path);
    syn_free(w->text);
    syn_free(w->entries);
    syn_free(w->by_name);
    syn_free(w);
}

syn_dtype syn_weights_dtype(const syn_weights *w) {
    return w->dtype;
}

bool syn_weights_has(const syn_weights *w, const char *parameter) {
    return syn__weights_find(w, parameter) != NULL;
}

uint64_t syn_weights_hash(const syn_weights *w) {
    enum { PIECES = 8, PIECE_BYTES = 64 };
    uint64_t h = w->n_entries;
    for (size_t i = 0; i < w->n_entries; i++) {
        const syn_safetensors_tensor *t = w->by_name[i]->tensor;
        h = syn_hash(t->name, strlen(t->name), h);
        h = syn_hash(t->dtype_name, strlen(t->dtype_name), h);
        h = syn_hash(t->dims, (size_t)t->rank * sizeof *t->dims, h);
        for (uint64_t k = 0; k < PIECES && t->bytes > 0; k++) {
            const uint64_t at = t->bytes / PIECES * k, left = t->bytes - at;
            const char *piece = (const char *)t->data + at;
            h = syn_hash(piece, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, h);
        }
    }
    return h;
}

/* ---- Shards ---- */

/* The full tensor, or the range of it that contains the shard, can be seen as an array
   [outer][parts][count][run]. `outer` stands for all dimensions before the sharded axis. A run is
   the elements of one part that belong to one shard, including all dimensions after the axis. The
   shard is then [outer][parts][run]. */
syn__weights_slices syn__weights_slice(const syn_spec *full, syn_shard shard) {
    const syn_spec range = syn_shard_range(full, &shard);
    const int64_t elems = syn_spec_elems(&range), before = shard.range * elems;
    if (shard.count == 1 || elems == 0)
        return (syn__weights_slices){1, elems / shard.count, 0, before};
    int64_t runs = shard.parts;
    for (int d = 0; d < shard.axis; d++) runs *= range.dims[d];
    const int64_t part = elems / runs, run = part / shard.count;
    return (syn__weights_slices){runs, run, part, before + shard.index * run};
}
