/* Saves the parameters of a model, which may be sharded over ranks: rank 0 collects the shards of
   one parameter at a time and writes the files, and the other ranks send their shards. */
#include <stdio.h>
#include <string.h>

#include "models/weights/weights_private.h"
#include "syntorch/base/memory.h"

enum { TAG_READY = 1000101, TAG_SHARD };

/* The state of a save. All ranks plan the same files, but only rank 0 writes them; `full` is NULL
   on the others. */
typedef struct saver {
    syn_ctx *ctx;
    syn_comm *comm; /* NULL: a single rank */
    const syn_model_family *family;
    const syn_weights *as_in; /* the checkpoint whose tensors are copied; NULL: none */
    size_t n;                 /* number of parameters */
    /* The number of the parameter at each position in the file. Larger dtypes come first, as
       PyTorch's reader requires. */
    size_t *order;
    syn_safetensors_entry *entries; /* by position in the file */
    size_t n_entries;               /* n, plus one if a bias has two names */
    char *names;                    /* storage for the names of entries */
    void *full, *shard;             /* buffers for the largest parameter and shard */
    int parts; /* number of ranks that share the model: the most shards of a parameter */
} saver;

static int32_t rank_of(const saver *s) {
    return s->comm ? s->comm->rank : 0;
}

/* ---- Planning ---- */

static syn_spec shard_spec(const syn_param_info *p) {
    syn_spec spec = p->full;
    spec.dims[p->shard.axis] /= p->shard.count;
    return spec;
}

/* The tensor of as_in that is copied in place of a parameter. NULL: the parameter itself is
   written. */
static const syn_safetensors_tensor *tensor_as_in(const saver *s, const char *name) {
    const syn__weights_entry *entry = s->as_in ? syn__weights_find(s->as_in, name) : NULL;
    return entry && entry->tensor->dtype >= 0 ? entry->tensor : NULL;
}

/* A parameter's spec in the file: without vocabulary padding, and in the dtype of as_in if that is
   copied. */
static syn_spec file_spec(const saver *s, const syn_param_info *p) {
    const syn_safetensors_tensor *t = tensor_as_in(s, p->name);
    syn_spec spec = p->full;
    if (p->valid_rows >= 0 && p->valid_rows < spec.dims[0]) spec.dims[0] = p->valid_rows;
    if (t) spec.dtype = t->dtype;
    return spec;
}

static syn_status check(const saver *s, syn_error *err) {
    const int32_t size = s->comm ? s->comm->size : 1;
    SYN_TRY(syn_ctx_status(s->ctx)); /* syn__weights_save sets the error */
    if (!syn_ctx_has_data(s->ctx) || (s->comm && !s->comm->ops->moves_data))
        return SYN_FAIL(err, SYN_E_INVALID, "a model on the meta device has no weights to save");
    for (size_t i = 0; i < s->n; i++) {
        const syn_param_info p = syn_ctx_param(s->ctx, i);
        if (p.shard.count == 1) continue;
        if (p.shard.count > size || p.shard.index != rank_of(s) / (s->parts / p.shard.count))
            return SYN_FAIL(
                err, SYN_E_INVALID,
                "the parameter '%.100s' cannot be saved: rank %d of %d has shard %d of %d", p.name,
                rank_of(s), size, p.shard.index, p.shard.count);
    }
    return SYN_OK;
}

static syn_status make_room(saver *s, syn_error *err) {
    uint64_t full_bytes = 1, shard_bytes = 1;
    for (size_t i = 0; i < s->n; i++) {
        const syn_param_info p = syn_ctx_param(s->ctx, i);
        const syn_spec part = shard_spec(&p);
        if (syn_spec_bytes(&p.full) > full_bytes) full_bytes = syn_spec_bytes(&p.full);
        if (p.shard.count > 1 && syn_spec_bytes(&part) > shard_bytes)
            shard_bytes = syn_spec_bytes(&part);
    }
    s->shard = syn_malloc((size_t)shard_bytes);
    if (rank_of(s) == 0) s->full = syn_malloc((size_t)full_bytes);
    if (!s->shard || (rank_of(s) == 0 && !s->full))
        return SYN_FAIL_NOMEM(err, full_bytes, "a parameter to be saved");
    return SYN_OK;
}

/* The prefix of a parameter's name in transformers, such as "transformer." or "". */
static const char *prefix_of(const saver *s, const char *name) {
    const syn__param_row *row = syn__family_row(s->family, name);
    return row && (row->flags & SYN__NO_PREFIX) != 0 ? "" : s->family->prefix;
}

/* The second name of a head's bias; NULL if it has none. The bias is stored under both names if the
   head has its own matrix under the second one, because transformers ties both matrix and bias or
   neither. */
static const char *second_name(const saver *s, const char *name) {
    char matrix[160];
    const syn__param_row *second = syn__family_alias_row(s->family, name);
    if (!second) return NULL;
    snprintf(matrix, sizeof matrix, "%s.weight", second->name);
    return syn_find_param(s->ctx, matrix).id ? second->name : NULL;
}

static char *add_entry(saver *s, size_t param, char *at, const char *before, const char *name,
                       const char *behind) {
    const syn_param_info p = syn_ctx_param(s->ctx, param);
    s->order[s->n_entries] = param;
    s->entries[s->n_entries++] = (syn_safetensors_entry){at, file_spec(s, &p)};
    return at + sprintf(at, "%s%s%s", before, name, behind) + 1;
}

/* Determines order, names and specs of the tensors in the file. */
static syn_status plan(saver *s, syn_error *err) {
    size_t text_bytes = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *name = syn_ctx_param(s->ctx, i).name, *second = second_name(s, name);
        text_bytes += strlen(prefix_of(s, name)) + strlen(name) + 1;
        if (second) text_bytes += strlen(second) + sizeof ".bias";
    }
    s->order = syn_malloc((s->n + 1) * sizeof *s->order);
    s->entries = syn_malloc((s->n + 1) * sizeof *s->entries);
    s->names = syn_malloc(text_bytes);
    if (!s->order || !s->entries || !s->names)
        return SYN_FAIL_NOMEM(err, text_bytes, "the names of the weights");
    char *at = s->names;
    for (size_t bytes = 8; bytes > 0; bytes /= 2)
        for (size_t i = 0; i < s->n; i++) {
            const syn_param_info p = syn_ctx_param(s->ctx, i);
            const syn_spec spec = file_spec(s, &p);
            if (syn_dtype_bytes((syn_dtype)spec.dtype) != bytes) continue;
            const char *second = second_name(s, p.name);
            at = add_entry(s, i, at, prefix_of(s, p.name), p.name, "");
            if (second) at = add_entry(s, i, at, "", second, ".bias");
        }
    return SYN_OK;
}

/* ---- One parameter at a time ---- */

/* Copies shard number `index` to its place in the full tensor. */
static void scatter(const syn_param_info *p, int index, const char *shard, char *full) {
    syn_shard cut = p->shard;
    cut.index = index;
    const syn__weights_slices slices = syn__weights_slice(&p->full, cut);
    const size_t elem_bytes = syn_dtype_bytes((syn_dtype)p->full.dtype);
    const size_t run_bytes = (size_t)slices.run_elems * elem_bytes;
    for (int64_t i = 0; i < slices.runs && run_bytes; i++)
        memcpy(full + (size_t)(i * slices.stride + slices.offset) * elem_bytes,
               shard + (size_t)i * run_bytes, run_bytes);
}

/* Waits until rank 0 asks for the shard before sending it. Sends are buffered, so otherwise many
   shards could be in memory at once. */
static syn_status send_shard(saver *s, const syn_param_info *p, syn_error *err) {
    const syn_spec spec = shard_spec(p);
    int32_t ready;
    SYN_TRY(syn_tensor_read(s->ctx, p->tensor, s->shard, (size_t)syn_spec_bytes(&spec)));
    SYN_TRY(syn_comm_recv(s->comm, &ready, 1, SYN_I32, 0, TAG_READY, err));
    return syn_comm_send(s->comm, s->shard, (size_t)syn_spec_elems(&spec), (syn_dtype)spec.dtype, 0,
                         TAG_SHARD, err);
}

/* Collects the full parameter in s->full. */
static syn_status assemble(saver *s, const syn_param_info *p, syn_error *err) {
    const syn_spec spec = shard_spec(p);
    const size_t bytes = (size_t)syn_spec_bytes(&spec);
    const int32_t ready = 1;
    if (p->shard.count == 1) return syn_tensor_read(s->ctx, p->tensor, s->full, bytes);
    SYN_TRY(syn_tensor_read(s->ctx, p->tensor, s->shard, bytes));
    scatter(p, 0, s->shard, s->full);
    const int32_t step = s->parts / p->shard.count; /* number of ranks that have the same shard */
    for (int32_t i = 1; i < p->shard.count; i++) {
        const int32_t r = i * step;
        SYN_TRY(syn_comm_send(s->comm, &ready, 1, SYN_I32, r, TAG_READY, err));
        SYN_TRY(syn_comm_recv(s->comm, s->shard, (size_t)syn_spec_elems(&spec),
                              (syn_dtype)spec.dtype, r, TAG_SHARD, err));
        scatter(p, i, s->shard, s->full);
    }
    return SYN_OK;
}

/* Copies a tensor in pieces and releases the pages that were read. */
static syn_status write_as_in(const saver *s, syn_safetensors_writer *writer,
                              const syn_safetensors_tensor *t, syn_error *err) {
    const size_t piece = (size_t)4 << 20;
    for (size_t at = 0, n; at < t->bytes; at += n) {
        const char *data = (const char *)t->data + at;
        n = t->bytes - at < piece ? (size_t)t->bytes - at : piece;
        SYN_TRY(syn_safetensors_write_data(writer, data, n, err));
        syn_safetensors_release(s->as_in->file, data, n);
    }
    return SYN_OK;
}

static syn_status write_entry(saver *s, syn_safetensors_writer *writer, size_t place,
                              syn_error *err) {
    const syn_param_info p = syn_ctx_param(s->ctx, s->order[place]);
    const syn_safetensors_tensor *t = tensor_as_in(s, p.name);
    if (t) return write_as_in(s, writer, t, err);
    SYN_TRY(assemble(s, &p, err));
    return syn_safetensors_write_data(writer, s->full,
                                      (size_t)syn_spec_bytes(&s->entries[place].spec), err);
}

static syn_status write_entries(saver *s, syn_sink *sink, size_t first, size_t n, syn_error *err) {
    syn_safetensors_writer writer;
    SYN_TRY(syn_safetensors_write_header(&writer, sink, s->entries + first, n, err));
    for (size_t place = first; place < first + n; place++) {
        SYN_TRY(write_entry(s, &writer, place, err));
        /* The caller closes the sink, which sets the error. */
        if (syn_sink_status(sink) != SYN_OK) return syn_sink_status(sink);
    }
    return syn_safetensors_write_end(&writer, err);
}

static syn_status write_files(saver *s, uint64_t file_bytes, const char *folder, syn_error *err) {
    const syn__weights_files files =
        syn__weights_files_of(folder, s->entries, s->n_entries, file_bytes);
    for (size_t i = 0, first = 0; i < files.n_files; i++) {
        const size_t n = syn__weights_file_entries(&files, first);
        syn_sink *sink;
        SYN_TRY(syn__weights_file_open(&sink, &files, i, err));
        const syn_status status = write_entries(s, sink, first, n, err),
                         closed = syn_sink_close(sink, status == SYN_OK, err);
        if (status != SYN_OK || closed != SYN_OK) return status != SYN_OK ? status : closed;
        first += n;
    }
    return syn__weights_write_index(&files, err);
}

static syn_status send_all(saver *s, syn_error *err) {
    for (size_t place = 0; place < s->n_entries; place++) {
        const syn_param_info p = syn_ctx_param(s->ctx, s->order[place]);
        if (p.shard.count > 1 && rank_of(s) % (s->parts / p.shard.count) == 0 &&
            !tensor_as_in(s, p.name))
            SYN_TRY(send_shard(s, &p, err));
    }
    return SYN_OK;
}

syn_status syn__weights_save(syn_ctx *ctx, syn_comm *comm, const syn_model_family *family,
                             const syn_weights *as_in, uint64_t file_bytes, const char *folder,
                             syn_error *err) {
    saver s = {.ctx = ctx,
               .comm = comm,
               .family = family,
               .as_in = as_in,
               .n = syn_ctx_param_count(ctx),
               .parts = 1};
    for (size_t i = 0; i < s.n; i++)
        if (syn_ctx_param(ctx, i).shard.count > s.parts)
            s.parts = syn_ctx_param(ctx, i).shard.count;
    syn_status status = check(&s, err);
    if (status == SYN_OK) status = make_room(&s, err);
    if (status == SYN_OK) status = plan(&s, err);
    if (status == SYN_OK)
        status = rank_of(&s) == 0 ? write_files(&s, file_bytes, folder, err) : send_all(&s, err);
    syn_free(s.order);
    syn_free(s.entries);
    syn_free(s.names);
    syn_free(s.full);
    syn_free(s.shard);
    /* Errors of the context, such as a failed read of a tensor. */
    if (status != SYN_OK) syn_ctx_check(ctx, err);
    return status;
}

syn_status syn_weights_save(syn_ctx *ctx, syn_comm *comm, const syn_model_family *family,
                            const syn_weights *as_in, const char *folder, syn_error *err) {
    return syn__weights_save(ctx, comm, family, as_in, SYN__WEIGHTS_FILE_BYTES, folder, err);
}
