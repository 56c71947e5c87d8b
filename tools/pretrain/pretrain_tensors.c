/* training-<i>.safetensors: the master weights and moments of one rank. A run with another layout
   reads them from the files of several ranks, shard by shard. With ZeRO, a file has a part of each
   tensor of a shard, as a vector, and for each parameter a tensor "<name>.part": the index of the
   part's first element in the shard, and the shape of the shard. */
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

const char *pretrain_tensors_name(int32_t number, char name[PRETRAIN_TENSORS_NAME]) {
    snprintf(name, PRETRAIN_TENSORS_NAME, "training-%d.safetensors", number);
    return name;
}

int32_t pretrain_tensors_files(const pretrain_layout *layout) {
    return layout->tp * layout->pp * layout->parts;
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

static const char *part_name(const syn_param_info *p, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%.200s.part", p->name);
    return name;
}

/* ---- Writing ---- */

typedef struct tensors {
    syn_safetensors_entry *entries; /* first those of parts, then those of slots */
    size_t n, n_parts;
    size_t *params; /* per entry: number of the parameter */
    char *names;
    float *data; /* buffer for the largest tensor */
} tensors;

static void free_tensors(tensors *t) {
    syn_free(t->entries);
    syn_free(t->params);
    syn_free(t->names);
    syn_free(t->data);
}

static char *add_entry(tensors *t, size_t param, const syn_spec *spec) {
    char *name = t->names + t->n * NAME_BYTES;
    t->params[t->n] = param;
    t->entries[t->n++] = (syn_safetensors_entry){name, *spec};
    return name;
}

static void add_part(const pretrain_state *state, size_t param, tensors *t) {
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    const syn_spec spec = {SYN_I64, 1, {1 + syn_tensor_spec(state->ctx, p.tensor)->rank}};
    part_name(&p, add_entry(t, param, &spec));
    t->n_parts++;
}

static void add_slots(const pretrain_state *state, size_t param, int64_t n, tensors *t) {
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    syn_spec spec = f32_spec(state->ctx, &p);
    if (state->parts > 1) spec = (syn_spec){SYN_F32, 1, {n}};
    for (int slot = 0; slot < SLOTS; slot++) tensor_name(&p, slot, add_entry(t, param, &spec));
}

static syn_status plan_tensors(const pretrain_state *state, tensors *t, syn_error *err) {
    const size_t n = syn_ctx_param_count(state->ctx), all = n * (SLOTS + 1) + 1;
    int64_t most = 1, first, elems;
    *t = (tensors){.entries = syn_calloc(all, sizeof *t->entries),
                   .params = syn_calloc(all, sizeof *t->params),
                   .names = syn_calloc(all, NAME_BYTES)};
    if (!t->entries || !t->params || !t->names)
        return SYN_FAIL_NOMEM(err, all * NAME_BYTES, "the training state");
    for (size_t i = 0; i < n && state->parts > 1; i++) {
        syn_optimizer_range(state->optimizer, i, &first, &elems);
        if (elems > 0) add_part(state, i, t);
    }
    for (size_t i = 0; i < n; i++) {
        syn_optimizer_range(state->optimizer, i, &first, &elems);
        if (elems > most) most = elems;
        if (elems > 0 || state->parts == 1) add_slots(state, i, elems, t);
    }
    t->data = syn_malloc((size_t)most * sizeof *t->data);
    return t->data ? SYN_OK
                   : SYN_FAIL_NOMEM(err, (size_t)most * sizeof *t->data, "the training state");
}

static syn_status write_part(const pretrain_state *state, size_t param,
                             syn_safetensors_writer *writer, syn_error *err) {
    const syn_spec *shard = syn_tensor_spec(state->ctx, syn_ctx_param(state->ctx, param).tensor);
    int64_t numbers[1 + SYN_MAX_RANK], elems;
    syn_optimizer_range(state->optimizer, param, &numbers[0], &elems);
    for (int d = 0; d < shard->rank; d++) numbers[1 + d] = shard->dims[d];
    return syn_safetensors_write_data(writer, numbers, (1 + (size_t)shard->rank) * sizeof *numbers,
                                      err);
}

static syn_status write_slot(const pretrain_state *state, const tensors *t, size_t i,
                             syn_safetensors_writer *writer, syn_error *err) {
    const size_t elems = (size_t)syn_spec_elems(&t->entries[i].spec);
    const syn_optimizer_slot slot = (syn_optimizer_slot)((i - t->n_parts) % SLOTS);
    SYN_TRY(syn_optimizer_get(state->optimizer, t->params[i], slot, t->data, elems, err));
    return syn_safetensors_write_data(writer, t->data, elems * sizeof *t->data, err);
}

static syn_status write_tensors(const pretrain_state *state, const tensors *t, const char *path,
                                uint64_t *checksum, syn_error *err) {
    syn_safetensors_writer writer;
    syn__checksum sum;
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn__checksum_begin(&sum);
    syn__sink_sum(sink, &sum);
    syn_status s = syn_safetensors_write_header(&writer, sink, t->entries, t->n, err);
    for (size_t i = 0; s == SYN_OK && i < t->n; i++)
        s = i < t->n_parts ? write_part(state, t->params[i], &writer, err)
                           : write_slot(state, t, i, &writer, err);
    if (s == SYN_OK) s = syn_safetensors_write_end(&writer, err);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    *checksum = syn__checksum_end(&sum);
    return s == SYN_OK ? closed : s;
}

syn_status pretrain_write_tensors(const pretrain_state *state, const char *folder,
                                  uint64_t *checksum, syn_error *err) {
    char path[FOLDER_PATH_BYTES], name[PRETRAIN_TENSORS_NAME];
    tensors t;
    const int32_t number = state->shard * state->parts + state->part;
    SYN_TRY(folder_path(path, err, folder, pretrain_tensors_name(number, name)));
    syn_status s = plan_tensors(state, &t, err);
    if (s == SYN_OK) s = write_tensors(state, &t, path, checksum, err);
    free_tensors(&t);
    return s;
}

/* ---- Reading ---- */

typedef struct reader {
    const pretrain_state *state;
    const char *folder;
    int32_t tp, parts;       /* of the run that wrote the files */
    syn_safetensors **files; /* by number; NULL: not read */
    int32_t n_files;
    float *full, *shard; /* buffers for the parameter */
    size_t full_cap, shard_cap;
} reader;

/* The shape of a shard's tensor in the files. */
typedef struct stored {
    int rank;
    int64_t dims[SYN_MAX_RANK], elems;
} stored;

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

/* For shard number i of the files, whose shape is *x: sets *full to the full tensor and *shard to
   the shard. The rows may be padded for another number of ranks than in this run. Returns false if
   the shape is unexpected. */
static bool describe_shard(const reader *r, const syn_param_info *p, int32_t i, const stored *x,
                           syn_spec *full, syn_shard *shard) {
    const int axis = p->shard.axis, rank = p->full.rank;
    const bool padded = p->valid_rows >= 0 && rank > 0;
    int64_t count = 1;
    if (x->rank != rank) return false;
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

/* Finds the shape of a shard's tensor in file `i`, and the first of its elements that are there.
   Returns NULL if the file lacks the tensor, or its data are not plausible. */
static const syn_safetensors_tensor *find_piece(const reader *r, const syn_param_info *p,
                                                const char *name, int32_t i, stored *shape,
                                                int64_t *first) {
    char part[NAME_BYTES];
    const syn_safetensors_tensor *x = r->files[i] ? syn_safetensors_find(r->files[i], name) : NULL;
    const syn_safetensors_tensor *at =
        r->parts > 1 && x ? syn_safetensors_find(r->files[i], part_name(p, part)) : NULL;
    int64_t numbers[1 + SYN_MAX_RANK] = {0};
    if (!x || x->dtype != SYN_F32 || x->rank > SYN_MAX_RANK) return NULL;
    *shape = (stored){.rank = x->rank, .elems = 1};
    if (r->parts > 1) {
        if (!at || at->dtype != SYN_I64 || at->elems < 1 || at->elems > 1 + SYN_MAX_RANK)
            return NULL;
        memcpy(numbers, at->data, (size_t)at->bytes);
        shape->rank = (int)at->elems - 1;
    }
    for (int d = 0; d < shape->rank; d++) {
        shape->dims[d] = r->parts > 1 ? numbers[1 + d] : x->dims[d];
        if (!syn_mul_i64(shape->elems, shape->dims[d], &shape->elems)) return NULL;
    }
    *first = numbers[0];
    return *first >= 0 && x->elems <= shape->elems && *first <= shape->elems - x->elems ? x : NULL;
}

/* Assembles the tensor of shard number i in r->shard. Returns false if no file has a part of it.
 *elems: the number of elements that the files have. */
static bool load_shard(reader *r, const syn_param_info *p, const char *name, int32_t i,
                       stored *shape, int64_t *elems, syn_error *err) {
    bool found = false;
    *elems = 0;
    for (int32_t k = i * r->parts; k < (i + 1) * r->parts; k++) {
        int64_t first;
        stored seen;
        const syn_safetensors_tensor *x = find_piece(r, p, name, k, &seen, &first);
        if (!x) continue;
        if (!found && grow(&r->shard, &r->shard_cap, seen.elems, err) != SYN_OK) return false;
        if (!found) *shape = seen;
        if (seen.elems != shape->elems) return false;
        found = true;
        memcpy(r->shard + first, x->data, (size_t)x->bytes);
        *elems += x->elems;
    }
    return found;
}

/* Assembles the full tensor in r->full from all files that have a shard of it. Sets *full to its
   shape there, which may include other padding than in this run. */
static syn_status assemble(reader *r, const syn_param_info *p, const char *name, syn_spec *full,
                           syn_error *err) {
    int missing = 1;
    bool seen = false;
    for (int32_t i = 0; i < r->n_files / r->parts; i++) {
        stored shape;
        syn_shard shard;
        int64_t elems;
        if (!load_shard(r, p, name, i, &shape, &elems, err)) continue;
        if (elems != shape.elems || !describe_shard(r, p, i, &shape, full, &shard))
            return fail_tensor(r, name, err);
        if (!seen) {
            seen = true;
            missing = shard.count;
            const int64_t own = syn_spec_elems(&p->full), theirs = syn_spec_elems(full);
            SYN_TRY(grow(&r->full, &r->full_cap, own > theirs ? own : theirs, err));
        }
        copy_shard(full, shard, r->full, r->shard, false);
        missing -= i % (r->tp / shard.count) == 0;
    }
    return missing > 0 ? fail_tensor(r, name, err) : SYN_OK;
}

/* Reads one tensor: from this rank's own file if the layouts agree, else from all files. */
static syn_status read_tensor(reader *r, size_t param, int slot, bool own, syn_error *err) {
    const pretrain_state *state = r->state;
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    const syn_spec local = f32_spec(state->ctx, &p);
    syn_spec full = p.full;
    int64_t first, n, at = 0;
    char name[NAME_BYTES];
    tensor_name(&p, slot, name);
    syn_optimizer_range(state->optimizer, param, &first, &n);
    if (n == 0 && state->parts > 1) return SYN_OK;
    if (own) {
        stored shape;
        const syn_safetensors_tensor *x =
            find_piece(r, &p, name, state->shard * state->parts + state->part, &shape, &at);
        if (!x || x->elems != n || at != first) return fail_tensor(r, name, err);
        SYN_TRY(grow(&r->shard, &r->shard_cap, n, err));
        memcpy(r->shard, x->data, (size_t)x->bytes);
        first = 0;
    } else {
        SYN_TRY(assemble(r, &p, name, &full, err));
        SYN_TRY(grow(&r->shard, &r->shard_cap, syn_spec_elems(&local), err));
        copy_shard(&p.full, p.shard, r->full, r->shard, true);
    }
    return syn_optimizer_set(state->optimizer, param, (syn_optimizer_slot)slot, r->shard + first,
                             (size_t)n, err);
}

static syn_status read_tensors(reader *r, bool own, syn_error *err) {
    syn_status s = SYN_OK;
    const int32_t mine = r->state->shard * r->state->parts + r->state->part;
    for (int32_t i = 0; i < r->n_files && s == SYN_OK; i++)
        if (!own || i == mine) s = open_file(r, i, err);
    for (size_t i = 0; i < syn_ctx_param_count(r->state->ctx); i++)
        for (int slot = 0; slot < SLOTS && s == SYN_OK; slot++)
            s = read_tensor(r, i, slot, own, err);
    return s == SYN_OK ? syn_optimizer_gather(r->state->optimizer, err) : s;
}

syn_status pretrain_read_tensors(const pretrain *run, const pretrain_state *state,
                                 const char *folder, syn_error *err) {
    const pretrain_layout *written = &state->written;
    reader r = {.state = state,
                .folder = folder,
                .tp = written->tp,
                .parts = written->parts,
                .n_files = pretrain_tensors_files(written)};
    r.files = syn_calloc((size_t)r.n_files, sizeof(void *));
    if (!r.files) return SYN_FAIL_NOMEM(err, (size_t)r.n_files * sizeof(void *), "files");
    const syn_status s = read_tensors(&r, pretrain_same_layout(run, written), err);
    for (int32_t i = 0; i < r.n_files; i++) syn_safetensors_free(r.files[i]);
    syn_free(r.files);
    syn_free(r.full);
    syn_free(r.shard);
    return s;
}
