/* training-<i>.safetensors: the master weights and moments of one rank that holds the model. A run
   with another layout reads them from the files of several ranks, shard by shard. */
#include <stdio.h>
#include <string.h>

#include "models/weights/safetensors.h"
#include "models/weights/weights_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink_private.h"
#include "tools/folders.h"
#include "tools/pretrain/pretrain.h"

static const char *const slots[] = {"master", "m", "v"};

enum { SLOTS = 3, NAME_BYTES = 256 };

const char *pretrain_tensors_name(int32_t shard, char name[PRETRAIN_TENSORS_NAME]) {
    snprintf(name, PRETRAIN_TENSORS_NAME, "training-%d.safetensors", shard);
    return name;
}

static const char *tensor_name(const syn_param_info *p, int slot, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%.200s.%s", p->name, slots[slot]);
    return name;
}

static syn_spec f32_spec(const syn_ctx *ctx, const syn_param_info *p) {
    syn_spec spec = *syn_tensor_spec(ctx, p->tensor);
    spec.dtype = SYN_F32;
    return spec;
}

/* ---- Writing ---- */

typedef struct tensors {
    syn_safetensors_entry *entries;
    char *names;
    float *data; /* buffer for the largest tensor */
} tensors;

static void free_tensors(tensors *t) {
    syn_free(t->entries);
    syn_free(t->names);
    syn_free(t->data);
}

static syn_status plan_tensors(const syn_ctx *ctx, tensors *t, syn_error *err) {
    const size_t n = syn_ctx_param_count(ctx);
    int64_t most = 1;
    *t = (tensors){.entries = syn_calloc(n * SLOTS + 1, sizeof *t->entries),
                   .names = syn_calloc(n * SLOTS + 1, NAME_BYTES)};
    for (size_t i = 0; i < n; i++) {
        const int64_t elems = syn_spec_elems(syn_tensor_spec(ctx, syn_ctx_param(ctx, i).tensor));
        if (elems > most) most = elems;
    }
    t->data = syn_malloc((size_t)most * sizeof *t->data);
    if (!t->entries || !t->names || !t->data)
        return SYN_FAIL_NOMEM(err, (size_t)most * sizeof *t->data, "the training state");
    for (size_t i = 0; i < n * SLOTS; i++) {
        const syn_param_info p = syn_ctx_param(ctx, i / SLOTS);
        t->entries[i] = (syn_safetensors_entry){
            tensor_name(&p, (int)(i % SLOTS), t->names + i * NAME_BYTES), f32_spec(ctx, &p)};
    }
    return SYN_OK;
}

static syn_status write_tensors(const pretrain_state *state, const tensors *t, const char *path,
                                uint64_t *checksum, syn_error *err) {
    const size_t n = syn_ctx_param_count(state->ctx) * SLOTS;
    syn_safetensors_writer writer;
    syn__checksum sum;
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn__checksum_begin(&sum);
    syn__sink_sum(sink, &sum);
    syn_status s = syn_safetensors_write_header(&writer, sink, t->entries, n, err);
    for (size_t i = 0; s == SYN_OK && i < n; i++) {
        const size_t elems = (size_t)syn_spec_elems(&t->entries[i].spec);
        s = syn_optimizer_get(state->optimizer, i / SLOTS, (syn_optimizer_slot)(i % SLOTS), t->data,
                              elems, err);
        if (s == SYN_OK)
            s = syn_safetensors_write_data(&writer, t->data, elems * sizeof *t->data, err);
    }
    if (s == SYN_OK) s = syn_safetensors_write_end(&writer, err);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    *checksum = syn__checksum_end(&sum);
    return s == SYN_OK ? closed : s;
}

syn_status pretrain_write_tensors(const pretrain_state *state, const char *folder,
                                  uint64_t *checksum, syn_error *err) {
    char path[FOLDER_PATH_BYTES], name[PRETRAIN_TENSORS_NAME];
    tensors t;
    SYN_TRY(folder_path(path, err, folder, pretrain_tensors_name(state->shard, name)));
    syn_status s = plan_tensors(state->ctx, &t, err);
    if (s == SYN_OK) s = write_tensors(state, &t, path, checksum, err);
    free_tensors(&t);
    return s;
}

/* ---- Reading ---- */

typedef struct reader {
    const pretrain_state *state;
    const char *folder;
    int32_t tp;              /* tp of the run that wrote the files */
    syn_safetensors **files; /* by shard; NULL: not read */
    int32_t n_files;
    float *full, *shard; /* buffers for the parameter */
    size_t full_cap, shard_cap;
} reader;

static syn_status open_file(reader *r, int32_t i, syn_error *err) {
    char path[FOLDER_PATH_BYTES], name[PRETRAIN_TENSORS_NAME];
    SYN_TRY(folder_path(path, err, r->folder, pretrain_tensors_name(i, name)));
    return syn_safetensors_open(&r->files[i], path, err);
}

static syn_status fail_tensor(const reader *r, const char *name, syn_error *err) {
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "'%.300s/training-*.safetensors': '%.100s' is missing or has another shape",
                    r->folder, name);
}

/* For the tensor x in file `i`: sets *full to the full tensor and *shard to the shard of it that x
   is. The rows may be padded for another number of ranks than in this run. Returns false if x has
   an unexpected shape. */
static bool describe_shard(const reader *r, const syn_param_info *p, int32_t i,
                           const syn_safetensors_tensor *x, syn_spec *full, syn_shard *shard) {
    const int axis = p->shard.axis, rank = p->full.rank;
    const bool padded = p->valid_rows >= 0 && rank > 0;
    int64_t count = 1;
    if (x->dtype != SYN_F32 || x->rank != rank) return false;
    *full = p->full;
    if (padded) count = axis == 0 && x->dims[0] < p->valid_rows ? r->tp : 1;
    else if (rank > 0 && x->dims[axis] > 0) count = p->full.dims[axis] / x->dims[axis];
    for (int d = 0; d < rank; d++) {
        const int64_t whole = x->dims[d] * (d == axis ? count : 1);
        if (padded && d == 0 ? whole < p->valid_rows : whole != p->full.dims[d]) return false;
        full->dims[d] = whole;
    }
    if (count < 1 || r->tp % count != 0) return false;
    *shard = (syn_shard){axis, p->shard.parts, (int)(i % r->tp / (r->tp / count)), (int)count};
    return true;
}

/* Copies a shard into the full tensor or, if `to_part` is set, out of it. */
static void copy_shard(const syn_spec *full, syn_shard shard, float *whole, float *part,
                       bool to_part) {
    const syn__weights_slices slices = syn__weights_slice(full, shard);
    const size_t bytes = (size_t)slices.run_elems * sizeof *part;
    for (int64_t i = 0; i < slices.runs; i++, part += slices.run_elems) {
        float *at = whole + i * slices.stride + slices.offset;
        memcpy(to_part ? part : at, to_part ? at : part, bytes);
    }
}

/* Makes the buffer large enough for n elements, and sets them to 0. */
static syn_status grow(float **data, size_t *cap, int64_t n, syn_error *err) {
    SYN_TRY(syn_grow(data, cap, (size_t)n + 1, sizeof **data, err));
    memset(*data, 0, (size_t)n * sizeof **data);
    return SYN_OK;
}

/* Assembles the full tensor in r->full from all files that have a shard of it. Sets *full to its
   shape there, which may include other padding than in this run. */
static syn_status assemble(reader *r, const syn_param_info *p, const char *name, syn_spec *full,
                           syn_error *err) {
    int missing = 1;
    bool seen = false;
    for (int32_t i = 0; i < r->n_files; i++) {
        const syn_safetensors_tensor *x =
            r->files[i] ? syn_safetensors_find(r->files[i], name) : NULL;
        syn_shard shard;
        if (!x) continue;
        if (!describe_shard(r, p, i, x, full, &shard)) return fail_tensor(r, name, err);
        if (!seen) {
            seen = true;
            missing = shard.count;
            const int64_t own = syn_spec_elems(&p->full), theirs = syn_spec_elems(full);
            SYN_TRY(grow(&r->full, &r->full_cap, own > theirs ? own : theirs, err));
        }
        SYN_TRY(grow(&r->shard, &r->shard_cap, x->elems, err));
        memcpy(r->shard, x->data, (size_t)x->bytes);
        copy_shard(full, shard, r->full, r->shard, false);
        missing -= i % (r->tp / shard.count) == 0;
    }
    return missing > 0 ? fail_tensor(r, name, err) : SYN_OK;
}

/* Reads one tensor: from this rank's own file if the layouts agree, else from all files. */
static syn_status read_tensor(reader *r, size_t param, int slot, bool own, syn_error *err) {
    const syn_ctx *ctx = r->state->ctx;
    const syn_param_info p = syn_ctx_param(ctx, param);
    const syn_spec local = f32_spec(ctx, &p);
    const int64_t elems = syn_spec_elems(&local);
    syn_spec full = p.full;
    char name[NAME_BYTES];
    tensor_name(&p, slot, name);
    if (own) {
        const syn_safetensors_tensor *x = syn_safetensors_find(r->files[r->state->shard], name);
        if (!x || x->dtype != SYN_F32 || x->elems != elems) return fail_tensor(r, name, err);
        SYN_TRY(grow(&r->shard, &r->shard_cap, elems, err));
        memcpy(r->shard, x->data, (size_t)x->bytes);
    } else {
        SYN_TRY(assemble(r, &p, name, &full, err));
        SYN_TRY(grow(&r->shard, &r->shard_cap, elems, err));
        copy_shard(&p.full, p.shard, r->full, r->shard, true);
    }
    return syn_optimizer_set(r->state->optimizer, param, (syn_optimizer_slot)slot, r->shard,
                             (size_t)elems, err);
}

static syn_status read_tensors(reader *r, bool own, syn_error *err) {
    syn_status s = SYN_OK;
    for (int32_t i = 0; i < r->n_files && s == SYN_OK; i++)
        if (!own || i == r->state->shard) s = open_file(r, i, err);
    for (size_t i = 0; i < syn_ctx_param_count(r->state->ctx); i++)
        for (int slot = 0; slot < SLOTS && s == SYN_OK; slot++)
            s = read_tensor(r, i, slot, own, err);
    return s;
}

syn_status pretrain_read_tensors(const pretrain *run, const pretrain_state *state,
                                 const char *folder, syn_error *err) {
    const pretrain_layout *written = &state->written;
    reader r = {
        .state = state, .folder = folder, .tp = written->tp, .n_files = written->tp * written->pp};
    r.files = syn_calloc((size_t)r.n_files, sizeof(void *));
    if (!r.files) return SYN_FAIL_NOMEM(err, (size_t)r.n_files * sizeof(void *), "files");
    const syn_status s = read_tensors(&r, pretrain_same_layout(run, written), err);
    for (int32_t i = 0; i < r.n_files; i++) syn_safetensors_free(r.files[i]);
    syn_free(r.files);
    syn_free(r.full);
    syn_free(r.shard);
    return s;
}
