/* Names and sizes of the types in types.h; specs and shards as text. */
#include "syntorch/base/types.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define NAME_OF(table, value) \
    ((size_t)(value) < sizeof(table) / sizeof((table)[0]) ? (table)[(size_t)(value)] : "?")

static const char *const dtype_names[] = {
#define SYN_X(id, name, bytes) name,
    SYN_DTYPE_LIST(SYN_X)
#undef SYN_X
};

static const uint8_t dtype_bytes[] = {
#define SYN_X(id, name, bytes) bytes,
    SYN_DTYPE_LIST(SYN_X)
#undef SYN_X
};

const char *syn_dtype_name(syn_dtype dtype) {
    return NAME_OF(dtype_names, dtype);
}

size_t syn_dtype_bytes(syn_dtype dtype) {
    return (size_t)dtype < (size_t)SYN_DTYPE_COUNT ? dtype_bytes[(size_t)dtype] : 0;
}

bool syn_dtype_parse(const char *name, syn_dtype *out) {
    for (size_t i = 0; i < (size_t)SYN_DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_names[i]) != 0) continue;
        *out = (syn_dtype)i;
        return true;
    }
    return false;
}

int64_t syn_spec_elems(const syn_spec *spec) {
    int64_t elems = 1;
    for (int32_t i = 0; i < spec->rank; i++) {
        if (spec->dims[i] == 0) return 0;
    }
    for (int32_t i = 0; i < spec->rank; i++) elems *= spec->dims[i];
    return elems;
}

uint64_t syn_spec_bytes(const syn_spec *spec) {
    return (uint64_t)syn_spec_elems(spec) * syn_dtype_bytes((syn_dtype)spec->dtype);
}

bool syn_spec_valid(const syn_spec *spec) {
    if (spec->dtype < 0 || spec->dtype >= (int32_t)SYN_DTYPE_COUNT) return false;
    if (spec->rank < 0 || spec->rank > SYN_MAX_RANK) return false;
    /* If a dimension is 0, the product of the other dimensions is still checked, because strides
       are such products. */
    int64_t bytes = (int64_t)syn_dtype_bytes((syn_dtype)spec->dtype);
    for (int32_t i = 0; i < SYN_MAX_RANK; i++) {
        const int64_t dim = spec->dims[i];
        if (i >= spec->rank ? dim != 0 : dim < 0) return false;
        if (dim != 0 && !syn_mul_i64(bytes, dim, &bytes)) return false;
    }
    return true;
}

bool syn_spec_equal(const syn_spec *a, const syn_spec *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

char *syn_spec_text(const syn_spec *spec, char *buf, size_t buf_bytes) {
    assert(buf_bytes > 0);
    size_t used = 0;
    for (int32_t i = -1; i <= spec->rank && used < buf_bytes; i++) {
        int n;
        if (i < 0) n = snprintf(buf, buf_bytes, "%s[", syn_dtype_name((syn_dtype)spec->dtype));
        else if (i == spec->rank || i == SYN_MAX_RANK)
            n = snprintf(buf + used, buf_bytes - used, "]");
        else
            n = snprintf(buf + used, buf_bytes - used, "%s%" PRId64, i > 0 ? "," : "",
                         spec->dims[i]);
        used += n > 0 ? (size_t)n : 0;
        if (i == SYN_MAX_RANK) break; /* the rank is invalid */
    }
    return buf;
}

syn_spec syn_shard_range(const syn_spec *full, const syn_shard *shard) {
    syn_spec spec = *full;
    if (shard->ranges > 1) spec.dims[0] /= shard->ranges;
    return spec;
}

syn_spec syn_shard_spec(const syn_spec *full, const syn_shard *shard) {
    syn_spec spec = syn_shard_range(full, shard);
    spec.dims[shard->axis] /= shard->count;
    return spec;
}

char *syn_shard_text(const syn_spec *local, const syn_shard *shard, char *buf, size_t buf_bytes) {
    const int axis = shard->axis, last = local->rank - 1;
    assert(buf_bytes > 0);
    *buf = '\0';
    if (shard->count < 2 || shard->parts < 1 || axis < 0 || axis > last) return buf;
    const int64_t part = local->dims[axis] / shard->parts, from = shard->index * part;
    char what[24], blocks[32] = "";
    if (axis < last && last > 1) snprintf(what, sizeof what, "dimension %d:", axis);
    else
        snprintf(what, sizeof what, "%s",
                 last == 0     ? "elements"
                 : axis < last ? "rows"
                               : "columns");
    if (shard->parts > 1) snprintf(blocks, sizeof blocks, ", %d times", shard->parts);
    snprintf(buf, buf_bytes, "%s %" PRId64 "-%" PRId64 " of %" PRId64 "%s", what, from,
             from + part - 1, part * shard->count, blocks);
    return buf;
}

const char *syn_phase_name(syn_phase phase) {
    static const char *const names[] = {
#define SYN_X(id, name) name,
        SYN_PHASE_LIST(SYN_X)
#undef SYN_X
    };
    return NAME_OF(names, phase);
}

const char *syn_reduce_name(syn_reduce reduce) {
    static const char *const names[] = {
#define SYN_X(id, name) name,
        SYN_REDUCE_LIST(SYN_X)
#undef SYN_X
    };
    return NAME_OF(names, reduce);
}

const char *syn_comm_kind_name(syn_comm_kind kind) {
    static const char *const names[] = {
#define SYN_X(id, name) name,
        SYN_COMM_KIND_LIST(SYN_X)
#undef SYN_X
    };
    return NAME_OF(names, kind);
}
