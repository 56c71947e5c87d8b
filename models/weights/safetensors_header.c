/* Parses the header of a safetensors file. The header is untrusted input, so everything in it is
   checked here, and the rest of the reader can rely on it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights/safetensors_private.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/settings.h"
#include "syntorch/base/sink.h"

#define LENGTH_BYTES 8
#define NAME_BYTES   200 /* limit for a path in an error, as in the JSON reader */
#define SHOWN        SYN__SAFETENSORS_SHOWN

/* The dtypes of safetensors 0.8: name, bits per element, and syn_dtype (-1: the library has no such
   dtype). */
static const syn__safetensors_dtype dtypes[] = {
    {"F32", 32, SYN_F32}, {"F16", 16, SYN_F16},   {"BF16", 16, SYN_BF16}, {"I32", 32, SYN_I32},
    {"I64", 64, SYN_I64}, {"F64", 64, -1},        {"U64", 64, -1},        {"C64", 64, -1},
    {"U32", 32, -1},      {"I16", 16, -1},        {"U16", 16, -1},        {"I8", 8, -1},
    {"U8", 8, -1},        {"BOOL", 8, -1},        {"F8_E4M3", 8, -1},     {"F8_E5M2", 8, -1},
    {"F8_E8M0", 8, -1},   {"F8_E4M3FNUZ", 8, -1}, {"F8_E5M2FNUZ", 8, -1}, {"F6_E2M3", 6, -1},
    {"F6_E3M2", 6, -1},   {"F4", 4, -1},
};
static const size_t n_dtypes = sizeof dtypes / sizeof dtypes[0];

/* Returns NULL if safetensors has no such dtype. */
static const syn__safetensors_dtype *dtype_named(const char *name) {
    for (size_t i = 0; i < n_dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
    return NULL;
}

const syn__safetensors_dtype *syn__safetensors_dtype_of(syn_dtype dtype) {
    for (size_t i = 0; i < n_dtypes; i++)
        if (dtypes[i].dtype == (int)dtype) return &dtypes[i];
    return NULL;
}

const char *syn__safetensors_shown(const char *name, char buf[SHOWN]) {
    syn__settings_copy(name, strlen(name), buf, SHOWN);
    return buf;
}

typedef struct parser {
    syn_safetensors *st;
    syn__safetensors_file *file;
    const char *path;
    syn_json json;
    size_t text_bytes; /* bytes used in file->text */
    const char *data;  /* what follows the header in the file */
    size_t data_bytes;
    char shown[SHOWN];
    syn_error *err;
} parser;

/* Copies the last key or string to file->text and returns the copy; NULL after an error. That
   buffer is as long as the header, which is enough: a copy's NUL is shorter than the two quotes in
   the header. */
static const char *keep(parser *p) {
    char *out = p->file->text + p->text_bytes;
    if (memchr(p->json.text, '\0', p->json.text_bytes)) {
        (void)syn_json_fail(&p->json, "a string must not contain the character U+0000");
        return NULL;
    }
    memcpy(out, p->json.text, p->json.text_bytes + 1);
    p->text_bytes += p->json.text_bytes + 1;
    return out;
}

/* ---- Metadata ---- */

static syn_status read_metadata(parser *p) {
    syn_safetensors *st = p->st;
    const syn_json_type type = syn_json_next(&p->json);
    if (type == SYN_JSON_ERROR) return p->err->code;
    if (type == SYN_JSON_NULL) return SYN_OK; /* as if absent, as in safetensors */
    if (type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&p->json, "\"__metadata__\" must be an object or null");
    while (syn_json_next(&p->json) == SYN_JSON_KEY) {
        const char *key = keep(p);
        if (!key) return p->err->code;
        SYN_TRY(syn_json_expect(&p->json, SYN_JSON_STRING, "a value of \"__metadata__\""));
        const char *value = keep(p);
        if (!value) return p->err->code;
        SYN_TRY(syn_grow(&st->metadata, &st->metadata_cap, st->n_metadata + 1, sizeof *st->metadata,
                         p->err));
        st->metadata[st->n_metadata++] =
            (syn__safetensors_pair){key, value, (size_t)(p->file - st->files)};
    }
    return p->json.type == SYN_JSON_OBJECT_END ? SYN_OK : p->err->code;
}

/* ---- One tensor ---- */

static syn_status read_dtype(parser *p, const char *tensor, const syn__safetensors_dtype **dtype) {
    char shown[SHOWN];
    SYN_TRY(syn_json_expect(&p->json, SYN_JSON_STRING, "\"dtype\""));
    *dtype = dtype_named(p->json.text);
    if (*dtype && strlen(p->json.text) == p->json.text_bytes) return SYN_OK;
    return syn_json_fail(&p->json, "'%s' has the dtype \"%s\", which safetensors does not have",
                         tensor, syn__safetensors_shown(p->json.text, shown));
}

/* Reads an array of at most `capacity` non-negative integers. `what`, `tensor`: for errors. */
static syn_status read_integers(parser *p, const char *tensor, const char *what, int64_t *out,
                                int capacity, int *n) {
    SYN_TRY(syn_json_expect(&p->json, SYN_JSON_ARRAY_BEGIN, what));
    for (*n = 0; syn_json_next(&p->json) != SYN_JSON_ARRAY_END; ++*n) {
        if (p->json.type == SYN_JSON_ERROR) return p->err->code;
        if (p->json.type != SYN_JSON_NUMBER || !p->json.is_integer || p->json.integer < 0)
            return syn_json_fail(&p->json, "%s of '%s' must be integers from 0 to %" PRId64, what,
                                 tensor, INT64_MAX);
        if (*n == capacity)
            return syn_json_fail(&p->json, "%s of '%s' has more than %d numbers", what, tensor,
                                 capacity);
        out[*n] = p->json.integer;
    }
    return SYN_OK;
}

/* Checks that dims, dtype and data_offsets match each other and the file, and sets the tensor's
   data. */
static syn_status place(parser *p, syn_safetensors_tensor *t, const char *shown,
                        const syn__safetensors_dtype *dtype, const int64_t offsets[2]) {
    t->dtype_name = dtype->name;
    t->dtype = dtype->dtype;
    t->elems = 1;
    for (int d = 0; d < t->rank; d++)
        if (!syn_mul_i64(t->elems, t->dims[d], &t->elems))
            return syn_json_fail(&p->json, "'%s' has more than 2^63 elements", shown);
    int64_t bits;
    if (!syn_mul_i64(t->elems, dtype->bits, &bits))
        return syn_json_fail(&p->json, "'%s' has more than 2^63 bits", shown);
    if (bits % 8 != 0)
        return syn_json_fail(&p->json, "'%s' ends inside a byte: %" PRId64 " elements of %d bits",
                             shown, t->elems, dtype->bits);
    if (offsets[0] > offsets[1])
        return syn_json_fail(&p->json,
                             "'%s' begins at byte %" PRId64 " and ends before, at %" PRId64, shown,
                             offsets[0], offsets[1]);
    if ((uint64_t)offsets[1] > p->data_bytes)
        return syn_json_fail(&p->json,
                             "'%s' ends at byte %" PRId64
                             " of the data, but the file has %zu bytes of data",
                             shown, offsets[1], p->data_bytes);
    if (offsets[1] - offsets[0] != bits / 8)
        return syn_json_fail(&p->json,
                             "'%s' has %" PRId64
                             " bytes according to its data_offsets, but %" PRId64
                             " according to its shape and dtype %s",
                             shown, offsets[1] - offsets[0], bits / 8, dtype->name);
    t->data = p->data + offsets[0];
    t->bytes = (uint64_t)(bits / 8);
    t->file = p->file->name;
    return SYN_OK;
}

/* Reads a tensor's entry. Unknown keys are skipped, as in the reference implementation. */
static syn_status read_tensor(parser *p, const char *name) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    syn_safetensors_tensor t = {.name = name};
    const syn__safetensors_dtype *dtype = NULL;
    int64_t offsets[3];
    int n_offsets = 0;
    bool seen[3] = {false, false, false};
    const char *shown = syn__safetensors_shown(name, p->shown);
    SYN_TRY(syn_json_expect(&p->json, SYN_JSON_OBJECT_BEGIN, "the entry of a tensor"));
    while (syn_json_next(&p->json) == SYN_JSON_KEY) {
        int key = 0;
        while (key < 3 && strcmp(keys[key], p->json.text) != 0) key++;
        if (key < 3 && seen[key])
            return syn_json_fail(&p->json, "'%s' has \"%s\" twice", shown, keys[key]);
        if (key < 3) seen[key] = true;
        if (key == 0) SYN_TRY(read_dtype(p, shown, &dtype));
        else if (key == 1)
            SYN_TRY(read_integers(p, shown, "\"shape\"", t.dims, SYN_SAFETENSORS_RANK, &t.rank));
        else if (key == 2)
            SYN_TRY(read_integers(p, shown, "\"data_offsets\"", offsets, 2, &n_offsets));
        else if (!syn_json_skip(&p->json)) return p->err->code;
    }
    if (p->json.type != SYN_JSON_OBJECT_END) return p->err->code;
    for (int key = 0; key < 3; key++)
        if (!seen[key]) return syn_json_fail(&p->json, "'%s' has no \"%s\"", shown, keys[key]);
    if (n_offsets != 2)
        return syn_json_fail(&p->json, "\"data_offsets\" of '%s' must be two numbers", shown);
    SYN_TRY(place(p, &t, shown, dtype, offsets));
    syn_safetensors *st = p->st;
    SYN_TRY(syn_grow(&st->tensors, &st->tensors_cap, st->n_tensors + 1, sizeof t, p->err));
    st->tensors[st->n_tensors++] = t;
    return SYN_OK;
}

/* ---- The whole header ---- */

static syn_status read_object(parser *p) {
    bool metadata = false;
    SYN_TRY(syn_json_expect(&p->json, SYN_JSON_OBJECT_BEGIN, "the header"));
    while (syn_json_next(&p->json) == SYN_JSON_KEY) {
        const char *name = keep(p);
        if (!name) return p->err->code;
        if (strcmp(name, SYN__SAFETENSORS_METADATA) != 0) {
            SYN_TRY(read_tensor(p, name));
            continue;
        }
        if (metadata) return syn_json_fail(&p->json, "\"__metadata__\" appears twice");
        metadata = true;
        SYN_TRY(read_metadata(p));
    }
    if (p->json.type != SYN_JSON_OBJECT_END) return p->err->code;
    return syn_json_next(&p->json) == SYN_JSON_END ? SYN_OK : p->err->code;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const syn_safetensors_tensor *)a)->name,
                  ((const syn_safetensors_tensor *)b)->name);
}

/* Orders by position in the file. An empty tensor comes before the tensor at the same position. */
static int compare_places(const void *a, const void *b) {
    const syn_safetensors_tensor *x = a, *y = b;
    const uintptr_t from = (uintptr_t)x->data, to = (uintptr_t)y->data;
    if (from != to) return from < to ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Rejects duplicate names, gaps, overlaps, and bytes after the last tensor. Sorts the tensors by
   position. */
static syn_status check_layout(parser *p, size_t first) {
    const size_t n = p->st->n_tensors - first;
    syn_safetensors_tensor *t = n ? p->st->tensors + first : NULL;
    char shown[SHOWN];
    size_t at = 0;
    if (n) qsort(t, n, sizeof *t, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return SYN_FAIL(p->err, SYN_E_FORMAT, "%.200s: the tensor '%s' appears twice", p->path,
                            syn__safetensors_shown(t[i].name, shown));
    if (n) qsort(t, n, sizeof *t, compare_places);
    for (size_t i = 0; i < n; i++) {
        const size_t begin = (size_t)((const char *)t[i].data - p->data);
        (void)syn__safetensors_shown(t[i].name, shown);
        if (begin < at)
            return SYN_FAIL(p->err, SYN_E_FORMAT,
                            "%.200s: '%s' begins at byte %zu of the data, inside '%s'", p->path,
                            shown, begin, syn__safetensors_shown(t[i - 1].name, p->shown));
        if (begin > at)
            return SYN_FAIL(p->err, SYN_E_FORMAT,
                            "%.200s: the data's bytes %zu to %zu, before '%s', belong to no tensor",
                            p->path, at, begin, shown);
        at = begin + (size_t)t[i].bytes;
    }
    if (at == p->data_bytes) return SYN_OK;
    return SYN_FAIL(p->err, SYN_E_FORMAT, "%.200s: %zu bytes follow the last tensor", p->path,
                    p->data_bytes - at);
}

/* Reads and checks the header's length. */
static syn_status header_bytes(const syn__safetensors_file *file, const char *path, size_t *out,
                               syn_error *err) {
    if (file->bytes < LENGTH_BYTES)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s is not a safetensors file: it has %zu bytes, but the header length "
                        "alone needs %d",
                        path, file->bytes, LENGTH_BYTES);
    if (syn_is_lfs_pointer(file->data, file->bytes))
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s is a Git LFS pointer; run 'git lfs pull' to fetch the weights",
                        path);
    uint64_t length = 0;
    for (int i = LENGTH_BYTES; i-- > 0;) length = length << 8 | (unsigned char)file->data[i];
    const size_t left = file->bytes - LENGTH_BYTES;
    if (length > left)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s is truncated or not a safetensors file: its first 8 bytes announce "
                        "a header of %" PRIu64 " bytes, but only %zu follow",
                        path, length, left);
    if (length > SYN__SAFETENSORS_HEADER_BYTES)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s: the header has %" PRIu64 " bytes; the limit is %u", path, length,
                        SYN__SAFETENSORS_HEADER_BYTES);
    if (length == 0 || file->data[LENGTH_BYTES] != '{')
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s is not a safetensors file: its header does not begin with '{'",
                        path);
    *out = (size_t)length;
    return SYN_OK;
}

syn_status syn__safetensors_read_header(syn_safetensors *st, syn__safetensors_file *file,
                                        const char *path, syn_error *err) {
    syn_error first = {.code = SYN_OK}; /* the JSON reader needs an empty error */
    parser p = {.st = st, .file = file, .path = path, .err = &first};
    char title[NAME_BYTES + 8];
    size_t bytes = 0;
    SYN_TRY(header_bytes(file, path, &bytes, err));
    file->text = syn_malloc(bytes);
    if (!file->text) return SYN_FAIL_NOMEM(err, bytes, "the header of a safetensors file");
    p.data = file->data + LENGTH_BYTES + bytes;
    p.data_bytes = file->bytes - LENGTH_BYTES - bytes;
    snprintf(title, sizeof title, "%.190s, header", path);
    syn_json_init(&p.json, title, file->data + LENGTH_BYTES, bytes, &first);
    const size_t n = st->n_tensors;
    syn_status status = read_object(&p);
    syn_json_free(&p.json);
    if (status == SYN_OK) status = check_layout(&p, n);
    return status == SYN_OK ? SYN_OK : SYN_FAIL(err, first.code, "%s", first.text);
}
