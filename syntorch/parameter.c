/* Parameters: creating, initializing and finding them. Every element of a random parameter is a
   function of (seed, name, index in the full tensor), so that the weights are the same for all
   shardings. */
#include <string.h>

#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"

/* The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), used as a counter-based
   generator. */
static uint64_t counter_hash(uint64_t key, uint64_t index) {
    uint64_t x = key + index * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* An approximately normal number: the normalised sum of four uniform 16-bit numbers (Irwin-Hall, n
   = 4). It is at most 3.46 standard deviations from 0. This method is ten times faster than one
   that computes a logarithm. */
static float normal(uint64_t key, uint64_t index, float scale) {
    const uint64_t x = counter_hash(key, index);
    const int32_t sum =
        (int32_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
    return (float)(sum - 131070) * scale;
}

/* The full tensor, or the range of it that contains the shard, as [outer][axis][inner]. Of each
   block of the axis, which has `block` rows, the shard has `part` rows. */
struct slicing {
    int64_t outer, inner, skipped; /* skipped: elements before the range */
    int64_t block, part; /* the axis has parts * block rows in the full tensor and parts * part rows
                            in the shard */
    int parts, index;
};

/* Computes the elements first .. first + n - 1 of the full tensor. Elements `limit` and higher are
   zero. */
static void values(float *data, int64_t first, int64_t n, syn_init init, float scale, int64_t limit,
                   uint64_t key) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + i;
        float v = init == SYN_INIT_ONE ? 1.0f : 0.0f;
        if (init == SYN_INIT_NORMAL) v = normal(key, (uint64_t)at, scale);
        data[i] = at < limit ? v : 0.0f;
    }
}

/* Computes the elements of the shard that `s` describes. */
static void fill(void *data, syn_dtype dtype, const struct slicing *s, syn_init init, float scale,
                 int64_t limit, uint64_t key) {
    enum { BLOCK = 1024 };
    float block[BLOCK];
    const int64_t axis = s->parts * s->block;
    int64_t done = 0;
    for (int64_t o = 0; o < s->outer; o++)
        for (int p = 0; p < s->parts; p++) {
            const int64_t first =
                s->skipped + ((o * axis) + p * s->block + s->index * s->part) * s->inner;
            const int64_t n = s->part * s->inner;
            if (dtype == SYN_F32) values((float *)data + done, first, n, init, scale, limit, key);
            for (int64_t i = 0; dtype != SYN_F32 && i < n; i += BLOCK) {
                const int64_t some = n - i < BLOCK ? n - i : BLOCK;
                values(block, first + i, some, init, scale, limit, key);
                syn_half_narrow(block, (uint16_t *)data + done + i, (size_t)some, dtype);
            }
            done += n;
        }
}

static syn_status check(const char *name, const syn_spec *full, syn_shard shard, syn_error *err) {
    if (full->dtype != SYN_F32 && !syn_dtype_is_half((syn_dtype)full->dtype))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "parameter '%s' must be f32, f16 or bf16, not %s",
                        name, syn_dtype_name((syn_dtype)full->dtype));
    if (!syn_spec_valid(full) || full->rank < 1 || shard.axis < 0 || shard.axis >= full->rank)
        return SYN_FAIL(err, SYN_E_SHAPE, "the shape of parameter '%s' is not valid", name);
    if (shard.parts < 1 || shard.index < 0 || shard.index >= shard.count)
        return SYN_FAIL(err, SYN_E_INVALID, "parameter '%s' has no shard %d of %d in %d parts",
                        name, shard.index, shard.count, shard.parts);
    const int64_t pieces = (int64_t)shard.parts * shard.count;
    if (shard.ranges > 1 && (shard.axis == 0 || shard.range < 0 || shard.range >= shard.ranges ||
                             full->dims[0] % shard.ranges != 0))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "parameter '%s' has no range %d of %d along dimension 0", name, shard.range,
                        shard.ranges);
    if (full->dims[shard.axis] % pieces)
        return SYN_FAIL(
            err, SYN_E_SHAPE,
            "parameter '%s': dimension %d has length %lld, which does not divide into %lld shards",
            name, shard.axis, (long long)full->dims[shard.axis], (long long)pieces);
    return SYN_OK;
}

static struct slicing slicing_of(const syn_spec *full, syn_shard shard) {
    const syn_spec range = syn_shard_range(full, &shard);
    struct slicing s = {1,
                        1,
                        shard.ranges > 1 ? shard.range * syn_spec_elems(&range) : 0,
                        full->dims[shard.axis] / shard.parts,
                        full->dims[shard.axis] / shard.parts / shard.count,
                        shard.parts,
                        shard.index};
    for (int d = 0; d < full->rank; d++) {
        if (d < shard.axis) s.outer *= range.dims[d];
        if (d > shard.axis) s.inner *= range.dims[d];
    }
    return s;
}

void syn_ctx_set_param_source(syn_ctx *ctx, const syn_param_source *source) {
    ctx->source = source ? *source : (syn_param_source){NULL, NULL};
}

size_t syn_ctx_param_count(const syn_ctx *ctx) {
    return ctx->n_params;
}

static syn_param_info current(const syn_ctx *ctx, syn_param_info info) {
    const uint32_t row = syn__row(ctx, info.tensor), text = ctx->trace->tensors[row].name; /* + 1 */
    const syn_storage *storage = syn__storage(ctx, row);
    info.name = text ? syn_trace_text(ctx->trace, text - 1) : "";
    /* The current version is not a parameter if an op wrote it through a view of the parameter. */
    const uint32_t current_row = storage ? syn_trace_tensor_row(ctx->trace, storage->version) : 0;
    if (ctx->trace->tensors[current_row].flags & SYN_TENSOR_PARAM)
        info.tensor = syn__tensor(ctx, current_row);
    return info;
}

syn_param_info syn_ctx_param(const syn_ctx *ctx, size_t i) {
    return current(ctx, ctx->params[i]);
}

size_t syn_ctx_buffer_count(const syn_ctx *ctx) {
    return ctx->n_buffers;
}

syn_param_info syn_ctx_buffer(const syn_ctx *ctx, size_t i) {
    return current(ctx, ctx->buffers[i]);
}

void syn_param_set_partial(syn_ctx *ctx, syn_tensor param) {
    for (size_t i = 0; param.id && i < ctx->n_params; i++)
        if (ctx->params[i].tensor.id == param.id) ctx->params[i].partial = true;
}

void syn_param_set_expert(syn_ctx *ctx, syn_tensor param) {
    for (size_t i = 0; param.id && i < ctx->n_params; i++)
        if (ctx->params[i].tensor.id == param.id) ctx->params[i].expert = true;
}

syn_tensor syn_find_param(const syn_ctx *ctx, const char *name) {
    for (size_t i = 0; i < ctx->n_params; i++) {
        const syn_param_info info = syn_ctx_param(ctx, i);
        if (strcmp(info.name, name) == 0) return info.tensor;
    }
    return (syn_tensor){0};
}

static void fill_random(const syn_param_info *p, const syn__param_random *how, void *host) {
    const struct slicing s = slicing_of(&p->full, p->shard);
    const int64_t rows = p->full.dims[0], row_elems = rows ? syn_spec_elems(&p->full) / rows : 0;
    const float scale =
        (float)(how->std / 37837.227); /* standard deviation of the sum of four: 65536 / sqrt(3) */
    int64_t limit = INT64_MAX;
    if (p->valid_rows >= 0 && !syn_mul_i64(p->valid_rows, row_elems, &limit)) limit = INT64_MAX;
    fill(host, (syn_dtype)p->full.dtype, &s, how->init, scale, limit,
         syn_hash(p->name, strlen(p->name), how->seed));
}

/* Computes a parameter's values, from the context's source if it has one. If host is NULL, a source
   only checks its arguments. */
static syn_status compute_values(const syn_ctx *ctx, const syn_param_info *p, const syn_spec *local,
                                 const syn__param_random *how, void *host, syn_error *err) {
    if (ctx->source.read)
        return ctx->source.read(ctx->source.user, p->name, &p->full, p->shard, p->valid_rows, local,
                                host, err);
    if (host) fill_random(p, how, host);
    return SYN_OK;
}

/* Sets the values of a new parameter. They are written to its buffer, or, if the host cannot access
   the buffer, to host memory that is then copied to the device. On meta, a parameter source only
   checks its arguments. */
static syn_status set_values(syn_ctx *ctx, const syn_param_info *p, uint32_t row,
                             const syn_operand *local, const syn__param_random *how,
                             syn_error *err) {
    const size_t bytes = (size_t)syn_spec_bytes(&local->spec);
    void *buffer = syn__data(syn__storage(ctx, row), local), *host = buffer;
    if (buffer && !ctx->backend->on_host && !(host = syn_malloc(bytes)))
        return SYN_FAIL_NOMEM(err, bytes, "a parameter to copy to the device");
    syn_status s = compute_values(ctx, p, &local->spec, how, host, err);
    if (host != buffer) {
        if (s == SYN_OK) s = syn__set_data(ctx, row, host);
        syn_free(host);
    }
    return s;
}

/* Marks the text as a parameter's name. Fails if it already is one. */
static bool claim_name(syn_ctx *ctx, uint32_t text) {
    const size_t before = ctx->param_names_cap;
    if (text >= before && syn_grow(&ctx->param_names, &ctx->param_names_cap, text + 1,
                                   sizeof *ctx->param_names, &ctx->error) != SYN_OK)
        return false;
    for (size_t i = before; i < ctx->param_names_cap; i++) ctx->param_names[i] = false;
    if (ctx->param_names[text]) {
        syn_ctx_fail(ctx, SYN_E_INVALID,
                     "the context already has a parameter '%s'; give each parameter its own name",
                     syn_trace_text(ctx->trace, text));
        return false;
    }
    return ctx->param_names[text] = true;
}

void syn__renumber_param_names(syn_ctx *ctx) {
    for (size_t i = 0; i < ctx->param_names_cap; i++) ctx->param_names[i] = false;
    for (size_t i = 0; i < ctx->n_params + ctx->n_buffers; i++) {
        const syn_param_info *info =
            i < ctx->n_params ? &ctx->params[i] : &ctx->buffers[i - ctx->n_params];
        ctx->param_names[ctx->trace->tensors[syn__row(ctx, info->tensor)].name - 1] = true;
    }
}

/* ---- parameters that are not always whole ---- */

void syn_ctx_evict_params(syn_ctx *ctx) {
    ctx->managed.created_evicted = true;
}

static uint32_t storage_of(const syn_ctx *ctx, size_t i) {
    return syn__storage_number(ctx, syn__row(ctx, ctx->params[i].tensor));
}

void syn_ctx_on_use(syn_ctx *ctx, void (*used)(void *user, size_t param, syn_phase phase),
                    void *user) {
    ctx->managed.used = used;
    ctx->managed.user = user;
    for (size_t i = 0; i < ctx->n_params; i++)
        if (storage_of(ctx, i)) ctx->storages.at[storage_of(ctx, i)].managed = used != NULL;
}

void syn_param_evict(syn_ctx *ctx, size_t i) {
    const uint32_t number = storage_of(ctx, i);
    if (!number) return;
    syn_wait(ctx, syn_ctx_param(ctx, i).tensor);
    if (ctx->error.code != SYN_OK) return;
    const syn_status s = syn__storage_evict(&ctx->storages, number, &ctx->error);
    (void)s; /* a failure is recorded in the context */
}

void syn_param_restore(syn_ctx *ctx, size_t i) {
    const uint32_t number = storage_of(ctx, i);
    if (!number || ctx->error.code != SYN_OK) return;
    const syn_status s = syn__storage_restore(&ctx->storages, number, &ctx->error);
    (void)s; /* as above */
}

syn_status syn_param_values(const syn_ctx *ctx, size_t i, void *out, syn_error *err) {
    const syn_param_info p = syn_ctx_param(ctx, i);
    return compute_values(ctx, &p, syn_tensor_spec(ctx, p.tensor), &ctx->param_random[i], out, err);
}

/* The last step of creating a parameter without data: a source checks name and shape. */
static syn_tensor create_evicted(syn_ctx *ctx, const syn_param_info *p) {
    syn_error err = {0};
    syn_param_evict(ctx, ctx->n_params - 1);
    const syn_status s = syn_param_values(ctx, ctx->n_params - 1, NULL, &err);
    if (s != SYN_OK) return syn_ctx_fail(ctx, s, "%s", err.text);
    return ctx->error.code == SYN_OK ? p->tensor : (syn_tensor){0};
}

/* Creates the tensor of a parameter or buffer, without values, and sets info->tensor and the name,
   because texts move. Returns its row; 0: the context failed. */
static uint32_t create(syn_ctx *ctx, syn_param_info *info, syn_operand *operand) {
    uint32_t text;
    syn_error err = {0};
    if (ctx->error.code != SYN_OK) return 0;
    if (check(info->name, &info->full, info->shard, &err) != SYN_OK) {
        syn_ctx_fail(ctx, err.code, "%s", err.text);
        return 0;
    }
    if (syn_intern_put(&ctx->trace->texts, info->name, strlen(info->name), &text, &ctx->error) !=
            SYN_OK ||
        !claim_name(ctx, text))
        return 0;
    info->name = syn_trace_text(ctx->trace, text);
    *operand = (syn_operand){.spec = syn_shard_spec(&info->full, &info->shard)};
    syn__contiguous_strides(operand);
    const uint32_t row = syn__append_tensor(ctx, operand, 0, 0, SYN_TENSOR_PARAM, info->name);
    if (!row || syn__alloc_data(ctx, row) != SYN_OK) return 0;
    info->tensor = syn__tensor(ctx, row);
    return row;
}

syn_tensor syn_buffer(syn_ctx *ctx, const char *name, const syn_spec *spec) {
    syn_param_info info = {.name = name, .full = *spec, .shard = SYN_WHOLE, .valid_rows = -1};
    syn_operand operand;
    syn_error err = {0};
    if (syn_grow(&ctx->buffers, &ctx->buffers_cap, ctx->n_buffers + 1, sizeof *ctx->buffers,
                 &ctx->error) != SYN_OK)
        return (syn_tensor){0};
    const uint32_t row = create(ctx, &info, &operand);
    if (!row) return (syn_tensor){0};
    ctx->buffers[ctx->n_buffers++] = info;
    const syn_status s =
        set_values(ctx, &info, row, &operand, &(syn__param_random){.init = SYN_INIT_ZERO}, &err);
    return s == SYN_OK ? info.tensor : syn_ctx_fail(ctx, s, "%s", err.text);
}

syn_tensor syn_param(syn_ctx *ctx, const char *name, const syn_spec *full, syn_shard shard,
                     syn_init init, double std, int64_t valid_rows, uint64_t seed) {
    /* The copy of *full is necessary, because full may point into the trace, whose tables move as
       they grow. */
    syn_param_info info = {.name = name, .full = *full, .shard = shard, .valid_rows = valid_rows};
    const syn__param_random how = {init, std, seed};
    syn_operand operand;
    syn_error err = {0};
    if (syn_grow(&ctx->params, &ctx->params_cap, ctx->n_params + 1, sizeof *ctx->params,
                 &ctx->error) != SYN_OK ||
        syn_grow(&ctx->param_random, &ctx->param_random_cap, ctx->n_params + 1,
                 sizeof *ctx->param_random, &ctx->error) != SYN_OK)
        return (syn_tensor){0};
    const uint32_t row = create(ctx, &info, &operand);
    if (!row) return (syn_tensor){0};
    if (shard.count > 1 && syn__shard_number(ctx->trace, shard, &ctx->trace->tensors[row].shard,
                                             &ctx->error) != SYN_OK)
        return (syn_tensor){0};
    ctx->param_random[ctx->n_params] = how;
    ctx->params[ctx->n_params++] = info;
    if (ctx->managed.created_evicted) return create_evicted(ctx, &info);
    const syn_status s = set_values(ctx, &info, row, &operand, &how, &err);
    return s == SYN_OK ? info.tensor : syn_ctx_fail(ctx, s, "%s", err.text);
}
