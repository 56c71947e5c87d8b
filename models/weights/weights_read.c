/* Reads a checkpoint into the parameters of one rank: converts dtypes, copies shards, and reports
   tensors that do not match or are not used. */
#include <stdio.h>
#include <string.h>

#include "models/weights/safetensors_private.h"
#include "models/weights/weights_private.h"
#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"

#define SHOWN         SYN__SAFETENSORS_SHOWN
#define RELEASE_BYTES ((size_t)4 << 20) /* pages are released after this many bytes */
#define BLOCK_ELEMS   1024

typedef enum problem_kind { MISSING, SHAPE, TYPE, UNEXPECTED, PROBLEM_KINDS } problem_kind;

typedef struct problem {
    problem_kind kind;
    char *line; /* "name: problem" */
} problem;

struct syn_weights_reader {
    const syn_weights *weights;
    bool *taken;        /* per entry: a parameter used it */
    int64_t (*rows)[2]; /* per entry that has several parameters: rows of the first parameter, and
                           of the others */
    problem *problems;
    size_t n_problems, problems_cap;
    void (*progress)(void *user, int64_t done, int64_t of); /* NULL: no progress reports */
    void *progress_user;
    int64_t done_bytes, all_bytes;
};

syn_status syn_weights_reader_new(syn_weights_reader **out, const syn_weights *weights,
                                  syn_error *err) {
    *out = NULL;
    syn_weights_reader *r = syn_calloc(1, sizeof *r);
    if (!r) return SYN_FAIL_NOMEM(err, sizeof *r, "a weights reader");
    r->weights = weights;
    r->taken = syn_calloc(weights->n_entries, sizeof *r->taken);
    r->rows = syn_calloc(weights->n_entries, sizeof *r->rows);
    if (!r->taken || !r->rows) {
        syn_weights_reader_free(r);
        return SYN_FAIL_NOMEM(err, weights->n_entries, "a weights reader");
    }
    *out = r;
    return SYN_OK;
}

void syn_weights_set_progress(syn_weights_reader *r,
                              void (*progress)(void *user, int64_t done, int64_t of), void *user) {
    r->progress = progress;
    r->progress_user = user;
    r->all_bytes = 0;
    for (size_t i = 0; i < r->weights->n_entries; i++) {
        const syn__weights_role role = r->weights->entries[i].role;
        if (role == SYN__WEIGHTS_PARAMETER || role == SYN__WEIGHTS_HEAD)
            r->all_bytes += (int64_t)r->weights->entries[i].tensor->bytes;
    }
}

static void advance(syn_weights_reader *r, size_t bytes) {
    r->done_bytes += (int64_t)bytes;
    if (r->done_bytes > r->all_bytes) r->done_bytes = r->all_bytes; /* shards may include padding */
    if (r->progress) r->progress(r->progress_user, r->done_bytes, r->all_bytes);
}

void syn_weights_reader_free(syn_weights_reader *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n_problems; i++) syn_free(r->problems[i].line);
    syn_free(r->problems);
    syn_free(r->taken);
    syn_free(r->rows);
    syn_free(r);
}

/* ---- Conversion ---- */

/* Dtypes in checkpoints that can be converted to parameters. */
typedef enum source_type {
    FROM_F32,
    FROM_F16,
    FROM_BF16,
    FROM_F64,
    FROM_F8, /* with scales */
    FROM_NOTHING
} source_type;

static source_type source_of(const syn_safetensors_tensor *t) {
    switch (t->dtype) {
    case SYN_F32:
        return FROM_F32;
    case SYN_F16:
        return FROM_F16;
    case SYN_BF16:
        return FROM_BF16;
    default:
        return strcmp(t->dtype_name, "F64") == 0 ? FROM_F64 : FROM_NOTHING;
    }
}

static source_type source_of_entry(const syn__weights_entry *e) {
    return e->scales ? FROM_F8 : source_of(e->tensor);
}

static size_t source_bytes(source_type type) {
    return type == FROM_F64 ? 8 : type == FROM_F32 ? 4 : type == FROM_F8 ? 1 : 2;
}

static bool same_type(source_type from, syn_dtype to) {
    return (from == FROM_F32 && to == SYN_F32) || (from == FROM_F16 && to == SYN_F16) ||
           (from == FROM_BF16 && to == SYN_BF16);
}

/* Converts n elements, at most BLOCK_ELEMS. `in` need not be aligned. */
static void convert_block(const char *in, source_type from, void *out, syn_dtype to, size_t n) {
    union {
        double f64[BLOCK_ELEMS];
        uint16_t half[BLOCK_ELEMS];
    } raw;
    float wide[BLOCK_ELEMS];
    float *f = to == SYN_F32 ? out : wide;
    memcpy(from == FROM_F32 ? (void *)f : &raw, in, n * source_bytes(from));
    if (from == FROM_F16) syn_half_widen(raw.half, f, n, SYN_F16);
    if (from == FROM_BF16) syn_half_widen(raw.half, f, n, SYN_BF16);
    for (size_t i = 0; from == FROM_F64 && i < n; i++) f[i] = (float)raw.f64[i];
    if (to != SYN_F32) syn_half_narrow(f, out, n, to);
}

static void convert(const char *in, source_type from, char *out, syn_dtype to, size_t n) {
    const size_t in_bytes = source_bytes(from), out_bytes = syn_dtype_bytes(to);
    if (same_type(from, to)) {
        if (n) memcpy(out, in, n * in_bytes);
        return;
    }
    for (size_t i = 0; i < n; i += BLOCK_ELEMS)
        convert_block(in + i * in_bytes, from, out + i * out_bytes, to,
                      n - i < BLOCK_ELEMS ? n - i : BLOCK_ELEMS);
}

bool syn__weights_is_float(const syn_safetensors_tensor *t) {
    return source_of(t) != FROM_NOTHING;
}

void syn__weights_widen(const syn_safetensors_tensor *t, int64_t first, float *out, size_t n) {
    const source_type from = source_of(t);
    const char *in = (const char *)t->data + (size_t)first * source_bytes(from);
    convert(in, from, (char *)out, SYN_F32, n);
}

/* Converts n elements of a tensor, from number `first` on. */
static void convert_some(const syn__weights_entry *e, int64_t first, size_t n, syn_dtype to,
                         char *out) {
    const source_type from = source_of_entry(e);
    const char *in = (const char *)e->tensor->data + (size_t)first * source_bytes(from);
    if (from == FROM_F8) syn__weights_f8_convert(e->tensor, e->scales, first, n, to, out);
    else convert(in, from, out, to, n);
}

/* Fills `data`, a shard of an entry's tensor, with elements of dtype `to`. Elements of the full
   tensor from valid_elems on are padding and become zero. count: number of shards. */
static void copy_shard(syn_weights_reader *r, const syn__weights_entry *entry,
                       const syn__weights_slices *s, int64_t valid_elems, int count, syn_dtype to,
                       char *data) {
    const syn_weights *w = r->weights;
    const size_t in_bytes = source_bytes(source_of_entry(entry)), out_bytes = syn_dtype_bytes(to);
    const char *in = entry->tensor->data;
    size_t released = (size_t)s->offset * in_bytes, end = released, pending = 0;
    for (int64_t i = 0; i < s->runs; i++) {
        const int64_t first = i * s->stride + s->offset, left = valid_elems - first;
        /* Copies long runs in pieces, so that only a small part of the file is in memory at a
           time. */
        const int64_t piece = (int64_t)(RELEASE_BYTES / in_bytes);
        for (int64_t at = 0; at < s->run_elems; at += piece) {
            const int64_t n = s->run_elems - at < piece ? s->run_elems - at : piece;
            const int64_t some = left - at < 0 ? 0 : left - at < n ? left - at : n;
            convert_some(entry, first + at, (size_t)some, to, data);
            memset(data + (size_t)some * out_bytes, 0, (size_t)(n - some) * out_bytes);
            data += (size_t)n * out_bytes;
            if (some > 0) end = (size_t)(first + at + some) * in_bytes;
            pending += (size_t)some * in_bytes;
            if (end - released < RELEASE_BYTES) continue;
            syn_safetensors_release(w->file, in + released, end - released);
            released = end;
            advance(r, pending * (size_t)count);
            pending = 0;
        }
    }
    if (end > released) syn_safetensors_release(w->file, in + released, end - released);
    advance(r, pending * (size_t)count);
}

/* ---- Mismatches ---- */

#define SHAPE_BYTES SYN__SHAPE_BYTES

const char *syn__shape_text(const int64_t *dims, int rank, char buf[SHAPE_BYTES]) {
    size_t used = (size_t)snprintf(buf, SHAPE_BYTES, "[");
    for (int d = 0; d < rank; d++)
        used += (size_t)snprintf(buf + used, SHAPE_BYTES - used, "%s%lld", d ? ", " : "",
                                 (long long)dims[d]);
    snprintf(buf + used, SHAPE_BYTES - used, "]");
    return buf;
}

static syn_status note(syn_weights_reader *r, problem_kind kind, const char *name, const char *what,
                       syn_error *err) {
    char shown[SHOWN], line[SHOWN + 2 * SHAPE_BYTES + 64];
    SYN_TRY(syn_grow(&r->problems, &r->problems_cap, r->n_problems + 1, sizeof *r->problems, err));
    snprintf(line, sizeof line, "%s: %s", syn__safetensors_shown(name, shown), what);
    char *copy = syn_strdup(line);
    if (!copy) return SYN_FAIL_NOMEM(err, strlen(line) + 1, "the errors of a checkpoint");
    r->problems[r->n_problems++] = (problem){kind, copy};
    return SYN_OK;
}

/* Compares a parameter with its tensor, which must have floats or, if `packed`, bytes. Sets *fits
   to whether they match; if not, records the mismatch. */
static syn_status compare_as(syn_weights_reader *r, const char *name,
                             const syn__weights_entry *entry, const syn_spec *want, bool packed,
                             bool *fits, syn_error *err) {
    char ours[SHAPE_BYTES], theirs[SHAPE_BYTES], what[2 * SHAPE_BYTES + 64];
    *fits = false;
    (void)syn__shape_text(want->dims, want->rank, ours);
    if (!entry) {
        snprintf(what, sizeof what, "missing; the model has it with the shape %s", ours);
        return note(r, MISSING, name, what, err);
    }
    const syn_safetensors_tensor *t = entry->tensor;
    if (t->rank != want->rank ||
        memcmp(t->dims, want->dims, (size_t)t->rank * sizeof *t->dims) != 0) {
        snprintf(what, sizeof what, "the file has the shape %s, but the model has %s",
                 syn__shape_text(t->dims, t->rank, theirs), ours);
        return note(r, SHAPE, t->name, what, err);
    }
    if (packed ? strcmp(t->dtype_name, "U8") != 0 : source_of_entry(entry) == FROM_NOTHING) {
        const bool f8 = !packed && strcmp(t->dtype_name, "F8_E4M3") == 0;
        snprintf(what, sizeof what, "the file has %s%s", t->dtype_name,
                 packed ? ", which is not U8"
                 : f8   ? " without a scale per block of 128 x 128 (weight_scale_inv)"
                        : ", which is not a supported floating-point dtype");
        return note(r, TYPE, t->name, what, err);
    }
    *fits = true;
    return SYN_OK;
}

static syn_status compare(syn_weights_reader *r, const char *name, const syn__weights_entry *entry,
                          const syn_spec *want, bool *fits, syn_error *err) {
    return compare_as(r, name, entry, want, false, fits, err);
}

/* Reads the matrices of the rank's experts, one after another. Each of them may be sharded. */
static syn_status read_experts(syn_weights_reader *r, const char *name, const syn_spec *full,
                               syn_shard shard, const syn_spec *local, char *data, syn_error *err) {
    const syn_spec want = {full->dtype, 2, {full->dims[1], full->dims[2]}};
    const int64_t n = local->dims[0], first = (shard.axis == 0 ? shard.index : shard.range) * n;
    shard.range = shard.ranges = 0;
    if (shard.axis == 0) shard = SYN_WHOLE;
    else shard.axis--;
    const syn__weights_slices slices = syn__weights_slice(&want, shard);
    const size_t bytes = n > 0 ? (size_t)syn_spec_bytes(local) / (size_t)n : 0;
    char own[SYN_MAX_NAME + 24];
    for (int64_t e = 0; e < full->dims[0]; e++) {
        syn__weights_expert_name(name, e, own, sizeof own);
        const syn__weights_entry *entry = syn__weights_find(r->weights, own);
        bool fits;
        if (entry) r->taken[entry - r->weights->entries] = true;
        SYN_TRY(compare(r, own, entry, &want, &fits, err));
        if (!data || e < first || e >= first + n) continue;
        if (!fits) memset(data, 0, bytes);
        else
            copy_shard(r, entry, &slices, syn_spec_elems(&want), shard.count,
                       (syn_dtype)local->dtype, data);
        data += bytes;
    }
    return SYN_OK;
}

/* Marks the tensor `name` as used and compares it with `want`. Returns it if they match, otherwise
   sets *fits to false. */
static syn_status take(syn_weights_reader *r, const char *name, const syn_spec *want, bool packed,
                       const syn_safetensors_tensor **out, bool *fits, syn_error *err) {
    const syn__weights_entry *entry = syn__weights_entry_of(r->weights, name);
    bool own;
    if (entry) r->taken[entry - r->weights->entries] = true;
    SYN_TRY(compare_as(r, name, entry, want, packed, &own, err));
    if (own) *out = entry->tensor;
    else *fits = false;
    return SYN_OK;
}

/* Reads a parameter from a stack. `file`: its name in a checkpoint with floats. */
static syn_status read_stack(syn_weights_reader *r, const syn__param_row *row, const char *file,
                             const syn_spec *full, syn_shard shard, const syn_spec *local,
                             char *data, syn_error *err) {
    char blocks[SYN_MAX_NAME + 32], scales[SYN_MAX_NAME + 32];
    syn__weights_stack stack = {NULL, NULL};
    bool fits = true;
    snprintf(blocks, sizeof blocks, "%s_blocks", file);
    snprintf(scales, sizeof scales, "%s_scales", file);
    if (!syn__weights_entry_of(r->weights, blocks)) {
        const syn_spec want = syn__weights_stack_spec(row, full);
        SYN_TRY(take(r, file, &want, false, &stack.values, &fits, err));
    } else {
        const syn_spec want = syn__weights_mxfp4_spec(row, full, false),
                       of_scales = syn__weights_mxfp4_spec(row, full, true);
        SYN_TRY(take(r, blocks, &want, true, &stack.values, &fits, err));
        SYN_TRY(take(r, scales, &of_scales, true, &stack.scales, &fits, err));
    }
    if (!data) return SYN_OK;
    if (!fits) {
        memset(data, 0, (size_t)syn_spec_bytes(local));
        return SYN_OK;
    }
    syn__weights_unstack(r->weights, &stack, row, full, shard, (syn_dtype)local->dtype, data);
    advance(r, (size_t)stack.values->bytes / (size_t)row->stacked);
    return SYN_OK;
}

/* The number of the row of tensor `entry` with which a parameter begins that is a part of it. Sets
   want->dims[0] to the number of rows that the tensor needs. */
static int64_t find_part(syn_weights_reader *r, const syn__param_row *part,
                         const syn__weights_entry *entry, syn_spec *want) {
    const int64_t own = want->dims[0], behind = own * part->from_end,
                  rows = entry->tensor->rank == 2 ? entry->tensor->dims[0] : 0;
    const bool first = part->from_end == 0;
    int64_t *counts = r->rows[entry - r->weights->entries];
    if (first || behind > counts[1]) counts[first ? 0 : 1] = first ? own : behind;
    want->dims[0] = first && rows >= own ? rows : !first && rows >= behind ? rows : own + behind;
    return first ? 0 : want->dims[0] - behind;
}

static syn_status read_parameter(void *user, const char *name, const syn_spec *full,
                                 syn_shard shard, int64_t valid_rows, const syn_spec *local,
                                 void *data, syn_error *err) {
    syn_weights_reader *r = user;
    if (syn__weights_of_experts(name)) return read_experts(r, name, full, shard, local, data, err);
    char file[SYN_MAX_NAME + 24];
    const syn__weights_entry *entry = syn__weights_find(r->weights, name);
    const syn__param_row *part =
        syn__weights_part_name(r->weights->family, name, file, sizeof file);
    syn_spec want = *full;
    int64_t first = 0;
    bool fits;
    if (part && part->stacked) return read_stack(r, part, file, full, shard, local, data, err);
    if (part && entry) first = find_part(r, part, entry, &want);
    if (valid_rows >= 0 && valid_rows < want.dims[0]) want.dims[0] = valid_rows;
    if (entry) r->taken[entry - r->weights->entries] = true;
    SYN_TRY(compare(r, file, entry, &want, &fits, err));
    if (!data) return SYN_OK;
    if (!fits) {
        memset(data, 0, (size_t)syn_spec_bytes(local));
        return SYN_OK;
    }
    syn__weights_slices slices = syn__weights_slice(full, shard);
    slices.offset += first * (part ? full->dims[1] : 0);
    copy_shard(r, entry, &slices, syn_spec_elems(&want), shard.count, (syn_dtype)local->dtype,
               data);
    return SYN_OK;
}

syn_param_source syn_weights_source(syn_weights_reader *reader) {
    return (syn_param_source){read_parameter, reader};
}

/* ---- Summary ---- */

/* Whether tensor i belongs to a head that the model does not have. This excludes tied heads: their
   matrix is the model's token table. */
static bool is_unused(const syn_weights_reader *r, size_t i) {
    const syn__weights_entry *entry = &r->weights->entries[i];
    if (r->taken[i]) return false;
    if (entry->role == SYN__WEIGHTS_OTHER) return true;
    return entry->role == SYN__WEIGHTS_HEAD &&
           !syn__family_row(r->weights->family, entry->name)->tied;
}

syn_status syn_weights_unused(const syn_weights_reader *r, char **list, syn_error *err) {
    const char *last = NULL;
    char shown[SHOWN];
    size_t bytes;
    syn_sink *sink;
    *list = NULL;
    SYN_TRY(syn_sink_open_memory(&sink, err));
    for (size_t i = 0; i < r->weights->n_entries; i++) {
        const syn__weights_entry *entry = &r->weights->entries[i];
        if (!is_unused(r, i)) continue;
        const char *purpose = syn__weights_purpose(entry->name, false);
        if (last && purpose != last) syn_sink_printf(sink, " (%s)", last);
        syn_sink_printf(sink, "%s%s", last ? ", " : "",
                        syn__safetensors_shown(entry->tensor->name, shown));
        last = purpose ? purpose : "a head";
    }
    if (last) syn_sink_printf(sink, " (%s)", last);
    const char *text = syn_sink_data(sink, &bytes);
    if (text && last) *list = syn_strdup(text);
    (void)syn_sink_close(sink, true, NULL);
    return !last || *list ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "a list of unused tensors");
}

/* For the error: the number of problems of each kind, and the names of the first ones. */
typedef struct summary {
    size_t count[PROBLEM_KINDS];
    char names[PROBLEM_KINDS][160];
} summary;

enum { NAMES_SHOWN = 2, NAME_BYTES = 70 };

static void summarize(summary *sum, problem_kind kind, const char *line) {
    char *names = sum->names[kind];
    const size_t used = strlen(names), left = sizeof sum->names[kind] - used;
    const size_t n = sum->count[kind]++;
    const char *colon = strstr(line, ": ");
    const int bytes = colon ? (int)(colon - line) : (int)strlen(line);
    if (n < NAMES_SHOWN)
        snprintf(names + used, left, "%s'%.*s'", n ? ", " : "",
                 bytes < NAME_BYTES ? bytes : NAME_BYTES, line);
    else if (n == NAMES_SHOWN) snprintf(names + used, left, ", ...");
}

/* Whether tensor i was not used and is none of the tensors that may be unused: buffers, heads and,
   if `part` is not NULL, parameters of other parts. */
static bool is_unexpected(const syn_weights_reader *r, size_t i, const syn_model *part) {
    const syn__weights_entry *entry = &r->weights->entries[i];
    return !r->taken[i] && entry->role == SYN__WEIGHTS_PARAMETER &&
           !(part && syn__model_lacks_param(part, entry->name));
}

static void unexpected_line(const syn_safetensors_tensor *t, char *line, size_t line_bytes) {
    char shown[SHOWN], shape[SHAPE_BYTES];
    snprintf(line, line_bytes, "%s: not in the model (%s %s)",
             syn__safetensors_shown(t->name, shown), t->dtype_name,
             syn__shape_text(t->dims, t->rank, shape));
}

/* Whether tensor i has several parameters, which need another number of rows than it has. */
static bool is_uneven(const syn_weights_reader *r, size_t i, char *line, size_t line_bytes) {
    const syn_safetensors_tensor *t = r->weights->entries[i].tensor;
    const int64_t *rows = r->rows[i];
    char shown[SHOWN], shape[SHAPE_BYTES];
    if (rows[0] == 0 || rows[1] == 0 || t->rank != 2 || t->dims[0] == rows[0] + rows[1])
        return false;
    snprintf(line, line_bytes, "%s: the file has the shape %s, but the model has %lld rows",
             syn__safetensors_shown(t->name, shown), syn__shape_text(t->dims, t->rank, shape),
             (long long)(rows[0] + rows[1]));
    return true;
}

/* Writes all problems, one per line, and counts them. */
static void put_problems(const syn_weights_reader *r, const syn_model *part, syn_sink *list,
                         summary *sum) {
    char line[SHOWN + SHAPE_BYTES + 64];
    for (size_t i = 0; i < r->n_problems; i++) {
        summarize(sum, r->problems[i].kind, r->problems[i].line);
        syn_sink_printf(list, "%s\n", r->problems[i].line);
    }
    for (size_t i = 0; i < r->weights->n_entries; i++) {
        if (!is_uneven(r, i, line, sizeof line)) continue;
        summarize(sum, SHAPE, line);
        syn_sink_printf(list, "%s\n", line);
    }
    for (size_t i = 0; i < r->weights->n_entries; i++) {
        if (!is_unexpected(r, i, part)) continue;
        unexpected_line(r->weights->entries[i].tensor, line, sizeof line);
        summarize(sum, UNEXPECTED, line);
        syn_sink_printf(list, "%s\n", line);
    }
}

static syn_status verdict(const syn_weights *w, const summary *sum, syn_error *err) {
    static const char *const what[PROBLEM_KINDS] = {"missing", "with another shape",
                                                    "with an unsupported dtype", "unexpected"};
    char text[480];
    size_t used = 0;
    for (int k = 0; k < PROBLEM_KINDS; k++) {
        if (sum->count[k] == 0) continue;
        const int n = snprintf(text + used, sizeof text - used, "%s%zu %s (%s)", used ? "; " : "",
                               sum->count[k], what[k], sum->names[k]);
        used += n > 0 && (size_t)n < sizeof text - used ? (size_t)n : 0;
    }
    if (used == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_SHAPE, "the tensors of %.120s do not fit the model: %s", w->path,
                    text);
}

syn_status syn_weights_finish(const syn_weights_reader *reader, const syn_model *part, char **list,
                              syn_error *err) {
    summary sum;
    syn_sink *sink;
    size_t bytes;
    memset(&sum, 0, sizeof sum);
    if (list) *list = NULL;
    SYN_TRY(syn_sink_open_memory(&sink, err));
    put_problems(reader, part, sink, &sum);
    const char *text = syn_sink_data(sink, &bytes);
    syn_status s = text ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "a list of mismatches");
    if (text && bytes > 0 && list) {
        *list = syn_strdup(text);
        if (!*list) s = SYN_FAIL_NOMEM(err, bytes, "a list of mismatches");
    }
    (void)syn_sink_close(sink, true, NULL);
    return s == SYN_OK ? verdict(reader->weights, &sum, err) : s;
}
