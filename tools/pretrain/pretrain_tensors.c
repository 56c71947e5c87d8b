/* training-<i>.safetensors: the master weights and moments of one rank. A run with another layout
   reads them from the files of several ranks, piece by piece. A piece is a range of elements of a
   shard. Without ZeRO, a piece is a whole shard, as a tensor with the shape of the shard. With
   ZeRO, and if ranks share experts in another way than other layers, pieces are vectors, and for
   each parameter the file has a tensor "<name>.part": the index of the piece's first element in the
   shard, the shape of the shard and, except in files of earlier versions, the shard's number. */
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
    const syn_spec spec = {SYN_I64, 1, {2 + p.full.rank}};
    part_name(&p, add_entry(t, param, &spec));
    t->n_parts++;
}

static void add_slots(const pretrain_state *state, size_t param, int64_t n, tensors *t) {
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    syn_spec spec = f32_spec(state->ctx, &p);
    if (state->files.pieces) spec = (syn_spec){SYN_F32, 1, {n}};
    for (int slot = 0; slot < SLOTS; slot++) tensor_name(&p, slot, add_entry(t, param, &spec));
}

/* The number of the file that has the state of a parameter of this rank. */
static int32_t file_of(const pretrain_state *state, const syn_param_info *p) {
    return p->expert ? state->files.experts : state->files.layers;
}

/* The number of elements of a parameter's state that this rank writes. */
static int64_t own_elems(const pretrain_state *state, size_t param) {
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    int64_t first, n;
    syn_optimizer_range(state->optimizer, param, &first, &n);
    return file_of(state, &p) == state->files.own ? n : 0;
}

static syn_status plan_tensors(const pretrain_state *state, tensors *t, syn_error *err) {
    const size_t n = syn_ctx_param_count(state->ctx), all = n * (SLOTS + 1) + 1;
    int64_t most = 1;
    *t = (tensors){.entries = syn_calloc(all, sizeof *t->entries),
                   .params = syn_calloc(all, sizeof *t->params),
                   .names = syn_calloc(all, NAME_BYTES)};
    if (!t->entries || !t->params || !t->names)
        return SYN_FAIL_NOMEM(err, all * NAME_BYTES, "the training state");
    for (size_t i = 0; i < n && state->files.pieces; i++)
        if (own_elems(state, i) > 0) add_part(state, i, t);
    for (size_t i = 0; i < n; i++) {
        const int64_t elems = own_elems(state, i);
        if (elems > most) most = elems;
        if (elems > 0) add_slots(state, i, elems, t);
    }
    t->data = syn_malloc((size_t)most * sizeof *t->data);
    return t->data ? SYN_OK
                   : SYN_FAIL_NOMEM(err, (size_t)most * sizeof *t->data, "the training state");
}

static syn_status write_part(const pretrain_state *state, size_t param,
                             syn_safetensors_writer *writer, syn_error *err) {
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    const syn_spec *shard = syn_tensor_spec(state->ctx, p.tensor);
    int64_t numbers[2 + SYN_MAX_RANK], elems;
    syn_optimizer_range(state->optimizer, param, &numbers[0], &elems);
    for (int d = 0; d < shard->rank; d++) numbers[1 + d] = shard->dims[d];
    numbers[1 + shard->rank] = syn_shard_number(&p.shard);
    return syn_safetensors_write_data(writer, numbers, (2 + (size_t)shard->rank) * sizeof *numbers,
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
    SYN_TRY(folder_path(path, err, folder, pretrain_tensors_name(state->files.own, name)));
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
    int64_t *seen; /* first elements of the parameter's pieces that are in `full` */
    int32_t n_seen;
    float *full, *piece; /* buffers for the parameter */
    size_t full_cap, piece_cap;
} reader;

/* A piece of a shard in the files. */
typedef struct piece {
    const void *data;                  /* f32; may be unaligned */
    int64_t first, n;                  /* its first element, and the number of elements */
    int64_t number;                    /* of the shard; -1: follows from the number of the file */
    int64_t dims[SYN_MAX_RANK], elems; /* shape and number of elements of the shard */
} piece;

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

/* For a piece in file number i: sets *full to the full tensor and *shard to the piece's shard. The
   rows may be padded for another number of ranks than in this run, and experts may be sharded along
   another axis. Returns false if the shape is unexpected. */
static bool describe_shard(const reader *r, const syn_param_info *p, int32_t i, const piece *x,
                           syn_spec *full, syn_shard *shard) {
    const int rank = p->full.rank;
    const bool padded = p->valid_rows >= 0 && rank > 0;
    int axis = p->shard.axis;
    int64_t count = 1, ranges = 1;
    for (int d = 0; d < rank && !padded; d++)
        if (x->dims[d] != p->full.dims[d]) axis = d;
    *full = p->full;
    /* Experts may be divided, and each be sharded. */
    if (!padded && axis > 0 && x->dims[0] > 0) ranges = p->full.dims[0] / x->dims[0];
    if (padded) count = axis == 0 && x->dims[0] < p->valid_rows ? r->tp : 1;
    else if (rank > 0 && x->dims[axis] > 0) count = p->full.dims[axis] / x->dims[axis];
    for (int d = 0; d < rank; d++) {
        const int64_t whole = x->dims[d] * (d == axis ? count : d == 0 ? ranges : 1);
        if (padded && d == 0 ? whole < p->valid_rows : whole != p->full.dims[d]) return false;
        full->dims[d] = whole;
    }
    if (count < 1 || count > INT32_MAX || (x->number < 0 && r->tp % count != 0)) return false;
    const int64_t number = x->number < 0 ? i / r->parts % r->tp / (r->tp / count) : x->number;
    *shard = (syn_shard){.axis = axis,
                         .parts = axis == p->shard.axis ? p->shard.parts : 1,
                         .index = (int)(number % count),
                         .count = (int)count,
                         .range = (int)(number / count),
                         .ranges = (int)ranges};
    return number < count * ranges;
}

/* Copies elements first to first + n - 1 of a shard into the full tensor or, if `to_piece` is set,
   out of it. */
static void copy_piece(const syn_spec *full, syn_shard shard, int64_t first, int64_t n,
                       float *whole, float *data, bool to_piece) {
    const syn__weights_slices slices = syn__weights_slice(full, shard);
    int64_t elems;
    for (int64_t end = first + n; first < end; first += elems, data += elems) {
        const int64_t run = first / slices.run_elems, skipped = first % slices.run_elems;
        float *at = whole + run * slices.stride + slices.offset + skipped;
        elems = slices.run_elems - skipped;
        if (elems > end - first) elems = end - first;
        memcpy(to_piece ? data : at, to_piece ? at : data, (size_t)elems * sizeof *at);
    }
}

/* Makes the buffer large enough for n elements, and sets them to 0. */
static syn_status grow(float **data, size_t *cap, int64_t n, syn_error *err) {
    SYN_TRY(syn_grow(data, cap, (size_t)n + 1, sizeof **data, err));
    memset(*data, 0, (size_t)n * sizeof **data);
    return SYN_OK;
}

/* Reads the description of a parameter's piece in file `i`: the tensor "<name>.part" or, if files
   have whole shards, the shape of the tensor x. Returns false if it is not plausible. */
static bool describe_piece(const reader *r, const syn_param_info *p,
                           const syn_safetensors_tensor *x, int32_t i, piece *out) {
    char name[NAME_BYTES];
    const syn_safetensors_tensor *part = syn_safetensors_find(r->files[i], part_name(p, name));
    int64_t numbers[2 + SYN_MAX_RANK];
    const int rank = p->full.rank;
    *out = (piece){.data = x->data, .n = x->elems, .number = -1, .elems = 1};
    if (!part && (r->parts > 1 || x->rank != rank)) return false;
    if (part) {
        const bool numbered = part->elems == 2 + rank;
        if (part->dtype != SYN_I64 || (!numbered && part->elems != 1 + rank)) return false;
        memcpy(numbers, part->data, (size_t)part->bytes);
        out->first = numbers[0];
        out->number = numbered ? numbers[1 + rank] : -1;
        if (out->first < 0 || out->number < -1) return false;
    }
    for (int d = 0; d < rank; d++) {
        out->dims[d] = part ? numbers[1 + d] : x->dims[d];
        if (!syn_mul_i64(out->elems, out->dims[d], &out->elems)) return false;
    }
    return out->n > 0 && out->n <= out->elems && out->first <= out->elems - out->n;
}

/* Finds a parameter's piece in file `i`. Returns false if the file lacks the tensor, or its data
   are not plausible. */
static bool find_piece(const reader *r, const syn_param_info *p, const char *name, int32_t i,
                       piece *out) {
    const syn_safetensors_tensor *x = r->files[i] ? syn_safetensors_find(r->files[i], name) : NULL;
    return x && x->dtype == SYN_F32 && describe_piece(r, p, x, i, out);
}

static syn_status load_piece(reader *r, const piece *x, syn_error *err) {
    SYN_TRY(grow(&r->piece, &r->piece_cap, x->n, err));
    memcpy(r->piece, x->data, (size_t)x->n * sizeof *r->piece);
    return SYN_OK;
}

/* Notes that the piece which begins at element `at` of all shards together was read. Returns false
   if it was noted before: several ranks may have the same shard. */
static bool note_piece(reader *r, int64_t at) {
    for (int32_t k = r->n_seen; k-- > 0;)
        if (r->seen[k] == at) return false;
    r->seen[r->n_seen++] = at;
    return true;
}

/* Assembles the full tensor in r->full from the pieces in all files. Sets *full to its shape there,
   which may include other padding than in this run. */
static syn_status assemble(reader *r, const syn_param_info *p, const char *name, syn_spec *full,
                           syn_error *err) {
    int64_t missing = 0;
    r->n_seen = 0;
    for (int32_t i = 0; i < r->n_files; i++) {
        piece x;
        syn_spec whole;
        syn_shard shard;
        if (!find_piece(r, p, name, i, &x)) continue;
        if (!describe_shard(r, p, i, &x, &whole, &shard)) return fail_tensor(r, name, err);
        if (r->n_seen == 0) {
            const int64_t own = syn_spec_elems(&p->full);
            *full = whole;
            missing = syn_spec_elems(full);
            SYN_TRY(grow(&r->full, &r->full_cap, own > missing ? own : missing, err));
        }
        if (syn_spec_elems(&whole) != syn_spec_elems(full)) return fail_tensor(r, name, err);
        if (!note_piece(r, syn_shard_number(&shard) * x.elems + x.first)) continue;
        SYN_TRY(load_piece(r, &x, err));
        copy_piece(full, shard, x.first, x.n, r->full, r->piece, false);
        missing -= x.n;
    }
    return r->n_seen == 0 || missing != 0 ? fail_tensor(r, name, err) : SYN_OK;
}

/* Reads one tensor: from the file of this rank's layout if the layouts agree, else from all
   files. */
static syn_status read_tensor(reader *r, size_t param, int slot, bool own, syn_error *err) {
    const pretrain_state *state = r->state;
    const syn_param_info p = syn_ctx_param(state->ctx, param);
    syn_spec full = p.full;
    int64_t first, n;
    char name[NAME_BYTES];
    piece x;
    tensor_name(&p, slot, name);
    syn_optimizer_range(state->optimizer, param, &first, &n);
    if (n == 0) return SYN_OK;
    if (own) {
        if (!find_piece(r, &p, name, file_of(state, &p), &x) || x.n != n || x.first != first)
            return fail_tensor(r, name, err);
        SYN_TRY(load_piece(r, &x, err));
    } else {
        SYN_TRY(assemble(r, &p, name, &full, err));
        SYN_TRY(grow(&r->piece, &r->piece_cap, n, err));
        copy_piece(&p.full, p.shard, first, n, r->full, r->piece, true);
    }
    return syn_optimizer_set(state->optimizer, param, (syn_optimizer_slot)slot, r->piece, (size_t)n,
                             err);
}

static syn_status read_tensors(reader *r, bool own, syn_error *err) {
    syn_status s = SYN_OK;
    const pretrain_files *mine = &r->state->files;
    for (int32_t i = 0; i < r->n_files && s == SYN_OK; i++)
        if (!own || i == mine->layers || i == mine->experts) s = open_file(r, i, err);
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
    const size_t n = (size_t)r.n_files;
    r.files = syn_calloc(n, sizeof(void *));
    r.seen = syn_calloc(n, sizeof *r.seen);
    const syn_status s = r.files && r.seen
                             ? read_tensors(&r, pretrain_same_layout(run, written), err)
                             : SYN_FAIL_NOMEM(err, n * sizeof(void *), "files");
    for (size_t i = 0; r.files && i < n; i++) syn_safetensors_free(r.files[i]);
    syn_free(r.files);
    syn_free(r.seen);
    syn_free(r.full);
    syn_free(r.piece);
    return s;
}
