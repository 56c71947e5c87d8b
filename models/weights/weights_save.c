/* Saves the parameters of a model, which may be sharded over ranks: rank 0 collects one parameter
   at a time and writes the files, and the other ranks send their shards. With ZeRO 3, a shard
   consists of the pieces of several ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights/weights_private.h"
#include "syntorch/base/half.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

/* Limit of the tensors' bytes per file, as on HuggingFace's hub. Larger models are divided into
   several files. */
#define FILE_BYTES ((uint64_t)5000000000)

enum { TAG_LIST = 1000100, TAG_WANTED, TAG_PIECE, NAME_BYTES = 200, EXPERT_DIGITS = 20 };

/* A parameter, or the piece of it that a rank has. Ranks send these to rank 0. */
typedef struct param {
    char name[NAME_BYTES];
    syn_spec full;
    syn_shard shard;
    int64_t valid_rows; /* < 0: all */
    int64_t first, n;   /* the piece: elements first to first + n - 1 of the shard */
} param;

/* Where a piece of a shard is. */
typedef struct holder {
    int32_t rank;   /* -1: on no rank */
    int32_t number; /* of the parameter on that rank (syn_ctx_param) */
    int64_t first, n;
} holder;

/* The state of a save. Ranks other than 0 use only the members up to `wide`. */
typedef struct saver {
    syn_ctx *ctx;
    syn_comm *comm; /* NULL: a single rank */
    const syn_weights_save_options *options;
    int32_t *ranks; /* the n_ranks ranks that hold the model; the first is 0. n_pieces ranks that
                       share a shard follow each other */
    int32_t n_ranks;
    int32_t n_pieces; /* of each shard */
    char *shard;      /* buffer for the largest shard */
    float *wide;      /* buffer for the largest piece; NULL without pieces */
    syn_intern ids;   /* names of params, in the same order */
    param *params;    /* of the whole model */
    size_t n_params, params_cap;
    size_t *first_holder; /* per parameter: index in `holders` of the first piece of its first
                             shard; the other pieces and shards follow */
    size_t first_cap;
    holder *holders;
    size_t n_holders, holders_cap;
    /* The number of the parameter at each position in the file. Larger dtypes come first, as
       PyTorch's reader requires. */
    size_t *order;
    int32_t *experts; /* the expert of each entry whose parameter has the matrices of all experts */
    syn_safetensors_entry *entries; /* by position in the file */
    size_t n_entries; /* n_params, plus one if a bias has two names; experts have one each */
    size_t in_full;   /* number of the parameter in `full`, plus 1; 0: none */
    char *names;      /* storage for the names of entries */
    void *full;       /* buffer for the largest parameter */
    void *stack;      /* buffer for the largest stack */
} saver;

static int32_t rank_of(const saver *s) {
    return s->comm ? s->comm->rank : 0;
}

/* ---- The parameters of all ranks ---- */

/* This rank's tensors to save: its parameters, then its buffers. */
static size_t count_own(const saver *s) {
    return syn_ctx_param_count(s->ctx) + syn_ctx_buffer_count(s->ctx);
}

static syn_param_info own(const saver *s, size_t i) {
    const size_t params = syn_ctx_param_count(s->ctx);
    return i < params ? syn_ctx_param(s->ctx, i) : syn_ctx_buffer(s->ctx, i - params);
}

/* The pieces that parameter i is divided into; NULL: it is whole, as buffers are. */
static const syn_weights_pieces *pieces_of(const saver *s, size_t i) {
    return i < syn_ctx_param_count(s->ctx) ? s->options->pieces : NULL;
}

static syn_status describe(param *out, const saver *s, size_t i, syn_error *err) {
    const syn_weights_pieces *pieces = pieces_of(s, i);
    const syn_param_info info = own(s, i);
    *out = (param){.full = info.full, .shard = info.shard, .valid_rows = info.valid_rows};
    out->n = syn_spec_elems(syn_tensor_spec(s->ctx, info.tensor));
    if (pieces) pieces->range(pieces->user, i, &out->first, &out->n);
    if (strlen(info.name) >= sizeof out->name)
        return SYN_FAIL(err, SYN_E_INVALID, "the parameter name '%.100s...' is too long",
                        info.name);
    memcpy(out->name, info.name, strlen(info.name) + 1);
    return SYN_OK;
}

/* Adds parameter number `number` of the rank ranks[k]. */
static syn_status add_piece(saver *s, const param *p, int32_t k, int32_t number, syn_error *err) {
    const size_t n_pieces = (size_t)s->n_pieces, piece = (size_t)k % n_pieces;
    uint32_t id;
    SYN_TRY(syn_intern_put(&s->ids, p->name, strlen(p->name), &id, err));
    if (id == s->n_params) {
        const size_t count = (size_t)syn_shard_count(&p->shard) * n_pieces;
        SYN_TRY(syn_grow(&s->params, &s->params_cap, id + 1, sizeof *s->params, err));
        SYN_TRY(syn_grow(&s->first_holder, &s->first_cap, id + 1, sizeof *s->first_holder, err));
        SYN_TRY(
            syn_grow(&s->holders, &s->holders_cap, s->n_holders + count, sizeof *s->holders, err));
        s->params[s->n_params++] = *p;
        s->first_holder[id] = s->n_holders;
        for (size_t i = 0; i < count; i++) s->holders[s->n_holders++] = (holder){.rank = -1};
    }
    const int64_t shard = syn_shard_number(&p->shard);
    if (shard >= syn_shard_count(&s->params[id].shard)) return SYN_OK; /* see check_holders */
    holder *h = &s->holders[s->first_holder[id] + (size_t)shard * n_pieces + piece];
    if (h->rank < 0) *h = (holder){s->ranks[k], number, p->first, p->n};
    return SYN_OK;
}

/* Lists this rank's parameters. The caller frees *list. */
static syn_status list_own(const saver *s, param **list, syn_error *err) {
    const size_t n = count_own(s);
    syn_status status = SYN_OK;
    *list = syn_calloc(n + 1, sizeof **list);
    if (!*list) return SYN_FAIL_NOMEM(err, n * sizeof **list, "a list of parameters");
    for (size_t i = 0; i < n && status == SYN_OK; i++) status = describe(&(*list)[i], s, i, err);
    return status;
}

#define PARAM_WORDS (sizeof(param) / sizeof(int32_t))

static syn_status send_list(const saver *s, syn_error *err) {
    const int32_t n = (int32_t)count_own(s);
    param *list;
    syn_status status = list_own(s, &list, err);
    if (status == SYN_OK) status = syn_comm_send(s->comm, &n, 1, SYN_I32, 0, TAG_LIST, err);
    if (status == SYN_OK)
        status = syn_comm_send(s->comm, list, (size_t)n * PARAM_WORDS, SYN_I32, 0, TAG_LIST, err);
    syn_free(list);
    return status;
}

static syn_status receive_list(saver *s, int32_t rank, param **list, int32_t *n, syn_error *err) {
    SYN_TRY(syn_comm_recv(s->comm, n, 1, SYN_I32, rank, TAG_LIST, err));
    *list = syn_malloc((size_t)*n * sizeof **list + 1);
    if (!*list) return SYN_FAIL_NOMEM(err, (size_t)*n * sizeof **list, "a list of parameters");
    return syn_comm_recv(s->comm, *list, (size_t)*n * PARAM_WORDS, SYN_I32, rank, TAG_LIST, err);
}

/* Collects the parameters of all ranks that hold the model. */
static syn_status collect(saver *s, syn_error *err) {
    syn_status status = SYN_OK;
    for (int32_t k = 0; k < s->n_ranks && status == SYN_OK; k++) {
        const int32_t rank = s->ranks[k];
        int32_t n = (int32_t)count_own(s);
        param *list = NULL;
        status =
            rank == rank_of(s) ? list_own(s, &list, err) : receive_list(s, rank, &list, &n, err);
        for (int32_t i = 0; i < n && status == SYN_OK; i++)
            status = add_piece(s, &list[i], k, i, err);
        syn_free(list);
    }
    return status;
}

static syn_status check_holders(const saver *s, syn_error *err) {
    for (size_t i = 0; i < s->n_params; i++) {
        const param *p = &s->params[i];
        const syn_spec part = syn_shard_spec(&p->full, &p->shard);
        const int shards = (int)syn_shard_count(&p->shard);
        for (int k = 0; k < shards; k++) {
            const holder *h = &s->holders[s->first_holder[i] + (size_t)(k * s->n_pieces)];
            int64_t found = 0;
            for (int32_t j = 0; j < s->n_pieces; j++)
                if (h[j].rank >= 0 && (h[j].n == 0 || h[j].first == found)) found += h[j].n;
            if (found == syn_spec_elems(&part)) continue;
            return SYN_FAIL(err, SYN_E_INVALID,
                            "the parameter '%.100s' cannot be saved: none of %d ranks has shard "
                            "%d of %d%s",
                            p->name, s->n_ranks, k, shards,
                            s->n_pieces > 1 ? ", or a piece of it" : "");
        }
    }
    return SYN_OK;
}

/* ---- Planning the files ---- */

/* The tensor of as_in to copy for a parameter; NULL: write the parameter. */
static const syn_safetensors_tensor *tensor_as_in(const saver *s, const char *name) {
    const syn__weights_entry *entry =
        s->options->as_in ? syn__weights_find(s->options->as_in, name) : NULL;
    return entry && entry->tensor->dtype >= 0 ? entry->tensor : NULL;
}

/* Whether the parameter is a part of a matrix in the file. Writes the matrix's name to `file`. */
static const syn__param_row *part_of(const saver *s, const param *p, char file[NAME_BYTES]) {
    return syn__weights_part_name(s->options->family, p->name, file, NAME_BYTES);
}

/* The number of tensors that a parameter has in the file. The first part of a matrix stands for all
   parts. */
static int64_t tensors_of(const saver *s, const param *p) {
    char file[NAME_BYTES];
    const syn__param_row *part = part_of(s, p, file);
    if (part) return part->from_end == 0;
    return syn__weights_of_experts(p->name) ? p->full.dims[0] : 1;
}

/* The next parameter after number i that is a part of the same matrix; SIZE_MAX: none. */
static size_t next_part(const saver *s, size_t i) {
    char file[NAME_BYTES], other[NAME_BYTES];
    if (!part_of(s, &s->params[i], file)) return SIZE_MAX;
    for (size_t k = i + 1; k < s->n_params; k++)
        if (part_of(s, &s->params[k], other) && strcmp(file, other) == 0) return k;
    return SIZE_MAX;
}

/* The spec in the file: without vocabulary padding, of one expert, and of all parts. */
static syn_spec file_spec(const saver *s, const param *p) {
    const syn_safetensors_tensor *t = tensor_as_in(s, p->name);
    char file[NAME_BYTES];
    const syn__param_row *part = part_of(s, p, file);
    syn_spec spec = p->full;
    if (part && part->stacked) {
        spec = syn__weights_stack_spec(part, &p->full);
        if (t) spec.dtype = t->dtype;
        return spec;
    }
    for (size_t k = next_part(s, (size_t)(p - s->params)); k != SIZE_MAX; k = next_part(s, k))
        spec.dims[0] += s->params[k].full.dims[0];
    if (syn__weights_of_experts(p->name))
        return (syn_spec){spec.dtype, 2, {spec.dims[1], spec.dims[2]}};
    if (p->valid_rows >= 0 && p->valid_rows < spec.dims[0]) spec.dims[0] = p->valid_rows;
    if (t) spec.dtype = t->dtype;
    return spec;
}

static bool is_stacked(const saver *s, size_t i) {
    char file[NAME_BYTES];
    const syn__param_row *part = part_of(s, &s->params[i], file);
    return part && part->stacked;
}

static syn_status check(const saver *s, syn_error *err) {
    SYN_TRY(syn_ctx_status(s->ctx)); /* the error is set at the end */
    if (syn_ctx_has_data(s->ctx) && (!s->comm || s->comm->ops->moves_data)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "a model on the meta device has no weights to save");
}

/* Allocates the buffers for this rank's largest shard and piece and, on rank 0, for the largest
   parameter. */
static syn_status make_buffers(saver *s, syn_error *err) {
    uint64_t full_bytes = 1, stack_bytes = 1, shard_bytes = 1, shard_elems = 1;
    for (size_t i = 0; i < s->n_params; i++) {
        const syn_spec part = syn_shard_spec(&s->params[i].full, &s->params[i].shard),
                       in_file = file_spec(s, &s->params[i]);
        if (is_stacked(s, i) && syn_spec_bytes(&in_file) > stack_bytes)
            stack_bytes = syn_spec_bytes(&in_file);
        if (syn_spec_bytes(&s->params[i].full) > full_bytes)
            full_bytes = syn_spec_bytes(&s->params[i].full);
        if (syn_spec_bytes(&part) > shard_bytes) shard_bytes = syn_spec_bytes(&part);
    }
    for (size_t i = 0; i < count_own(s); i++) {
        const syn_spec *mine = syn_tensor_spec(s->ctx, own(s, i).tensor);
        if (syn_spec_bytes(mine) > shard_bytes) shard_bytes = syn_spec_bytes(mine);
        if ((uint64_t)syn_spec_elems(mine) > shard_elems)
            shard_elems = (uint64_t)syn_spec_elems(mine);
    }
    s->shard = syn_malloc((size_t)shard_bytes);
    if (s->options->pieces) s->wide = syn_malloc((size_t)shard_elems * sizeof *s->wide);
    if (rank_of(s) == 0) {
        s->full = syn_malloc((size_t)full_bytes);
        s->stack = syn_malloc((size_t)stack_bytes);
    }
    if (!s->shard || (s->options->pieces && !s->wide) ||
        (rank_of(s) == 0 && (!s->full || !s->stack)))
        return SYN_FAIL_NOMEM(err, full_bytes, "a parameter to be saved");
    return SYN_OK;
}

/* The prefix of a parameter's name in transformers, such as "transformer." or "". */
static const char *prefix_of(const saver *s, const char *name) {
    const syn__param_row *row = syn__family_row(s->options->family, name);
    return row && (row->flags & SYN__NO_PREFIX) != 0 ? "" : s->options->family->prefix;
}

static bool has_param(const saver *s, const char *name) {
    for (size_t i = 0; i < s->n_params; i++)
        if (strcmp(s->params[i].name, name) == 0) return true;
    return false;
}

/* The second name under which a head's bias is also stored; NULL: none. The bias is stored twice if
   the head has a matrix of its own under that name, because transformers ties both the matrix and
   the bias, or neither. */
static const char *second_name(const saver *s, const char *name) {
    char matrix[160];
    const syn__param_row *second = syn__family_alias_row(s->options->family, name);
    if (!second) return NULL;
    snprintf(matrix, sizeof matrix, "%s.weight", second->name);
    return has_param(s, matrix) ? second->name : NULL;
}

static char *add_entry(saver *s, size_t i, int32_t expert, char *at, const char *before,
                       const char *name, const char *behind) {
    s->order[s->n_entries] = i;
    s->experts[s->n_entries] = expert;
    s->entries[s->n_entries++] = (syn_safetensors_entry){at, file_spec(s, &s->params[i])};
    return at + sprintf(at, "%s%s%s", before, name, behind) + 1;
}

/* A parameter's place in the model: -1 before the layers, the layer's number, INT64_MAX after. */
static int64_t place_of(const saver *s, const char *name) {
    const int64_t layer = syn__family_layer(s->options->family, name);
    const syn__param_row *row = syn__family_row(s->options->family, name),
                         *head = s->options->family->head_rows;
    if (layer >= 0) return layer;
    while (head->name && head != row) head++;
    return head->name ? INT64_MAX : -1;
}

typedef struct placed {
    int64_t place;
    size_t number;
} placed;

static int compare_places(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The numbers of the parameters in the order of the model, whichever ranks have them. The caller
   frees the result. */
static placed *in_model_order(const saver *s) {
    placed *list = syn_malloc((s->n_params + 1) * sizeof *list);
    for (size_t i = 0; list && i < s->n_params; i++)
        list[i] = (placed){place_of(s, s->params[i].name), i};
    if (list) qsort(list, s->n_params, sizeof *list, compare_places);
    return list;
}

/* Determines order, names and specs of the tensors in the file. */
static syn_status plan(saver *s, syn_error *err) {
    size_t text_bytes = 1, most = 1; /* most: of entries */
    for (size_t i = 0; i < s->n_params; i++) {
        const char *name = s->params[i].name, *second = second_name(s, name);
        char file[NAME_BYTES];
        const size_t n = (size_t)tensors_of(s, &s->params[i]);
        most += n;
        (void)part_of(s, &s->params[i], file);
        text_bytes += n * (strlen(prefix_of(s, name)) + strlen(file) + EXPERT_DIGITS + 1);
        if (second) text_bytes += strlen(second) + sizeof ".bias";
    }
    placed *list = in_model_order(s);
    s->order = syn_malloc(most * sizeof *s->order);
    s->experts = syn_malloc(most * sizeof *s->experts);
    s->entries = syn_malloc(most * sizeof *s->entries);
    s->names = syn_malloc(text_bytes);
    if (!list || !s->order || !s->experts || !s->entries || !s->names) {
        syn_free(list);
        return SYN_FAIL_NOMEM(err, text_bytes, "the names of the weights");
    }
    char *at = s->names;
    for (size_t bytes = 8; bytes > 0; bytes /= 2)
        for (size_t k = 0; k < s->n_params; k++) {
            const size_t i = list[k].number;
            const char *name = s->params[i].name, *second = second_name(s, name);
            const syn_spec spec = file_spec(s, &s->params[i]);
            if (syn_dtype_bytes((syn_dtype)spec.dtype) != bytes) continue;
            for (int32_t e = 0; e < tensors_of(s, &s->params[i]); e++) {
                char file[NAME_BYTES], own[NAME_BYTES + EXPERT_DIGITS];
                (void)part_of(s, &s->params[i], file);
                syn__weights_expert_name(file, e, own, sizeof own);
                at = add_entry(s, i, e, at, prefix_of(s, name), own, "");
            }
            if (second) at = add_entry(s, i, 0, at, "", second, ".bias");
        }
    syn_free(list);
    return SYN_OK;
}

/* ---- One parameter at a time ---- */

/* Copies shard number `number` to its place in the full tensor. */
static void scatter(const param *p, int number, const char *shard, char *full) {
    syn_shard cut = p->shard;
    cut.index = number % cut.count;
    cut.range = number / cut.count;
    const syn__weights_slices slices = syn__weights_slice(&p->full, cut);
    const size_t elem_bytes = syn_dtype_bytes((syn_dtype)p->full.dtype);
    const size_t run_bytes = (size_t)slices.run_elems * elem_bytes;
    for (int64_t i = 0; i < slices.runs && run_bytes; i++)
        memcpy(full + (size_t)(i * slices.stride + slices.offset) * elem_bytes,
               shard + (size_t)i * run_bytes, run_bytes);
}

/* Copies this rank's piece of a parameter to `out`. */
static syn_status read_piece(const saver *s, int32_t number, void *out, syn_error *err) {
    const syn_weights_pieces *pieces = pieces_of(s, (size_t)number);
    const syn_tensor x = own(s, (size_t)number).tensor;
    const syn_spec *spec = syn_tensor_spec(s->ctx, x);
    int64_t first, n;
    if (!pieces) {
        if (syn_tensor_read(s->ctx, x, out, (size_t)syn_spec_bytes(spec)) == SYN_OK) return SYN_OK;
        return syn_ctx_check(s->ctx, err);
    }
    pieces->range(pieces->user, (size_t)number, &first, &n);
    SYN_TRY(pieces->read(pieces->user, (size_t)number, s->wide, (size_t)n, err));
    if (spec->dtype == SYN_F32) memcpy(out, s->wide, (size_t)n * sizeof *s->wide);
    else syn_half_narrow(s->wide, out, (size_t)n, (syn_dtype)spec->dtype);
    return SYN_OK;
}

/* Sends rank 0 each piece that rank 0 requests, until rank 0 sends a negative number. Sends are
   buffered, so without requests many pieces could be in memory at the same time. */
static syn_status serve(const saver *s, syn_error *err) {
    for (;;) {
        int32_t number;
        param p;
        SYN_TRY(syn_comm_recv(s->comm, &number, 1, SYN_I32, 0, TAG_WANTED, err));
        if (number < 0) return SYN_OK;
        SYN_TRY(describe(&p, s, (size_t)number, err));
        SYN_TRY(read_piece(s, number, s->shard, err));
        SYN_TRY(syn_comm_send(s->comm, s->shard, (size_t)p.n, (syn_dtype)p.full.dtype, 0, TAG_PIECE,
                              err));
    }
}

static syn_status ask(const saver *s, int32_t rank, int32_t number, syn_error *err) {
    return syn_comm_send(s->comm, &number, 1, SYN_I32, rank, TAG_WANTED, err);
}

/* Copies a piece to its place in s->shard. */
static syn_status fetch(const saver *s, const param *p, const holder *h, syn_error *err) {
    const syn_dtype dtype = (syn_dtype)p->full.dtype;
    char *out = s->shard + (size_t)h->first * syn_dtype_bytes(dtype);
    if (h->rank == rank_of(s)) return read_piece(s, h->number, out, err);
    SYN_TRY(ask(s, h->rank, h->number, err));
    return syn_comm_recv(s->comm, out, (size_t)h->n, dtype, h->rank, TAG_PIECE, err);
}

/* Collects the full parameter in s->full. */
static syn_status assemble(const saver *s, size_t i, syn_error *err) {
    const param *p = &s->params[i];
    const holder *h = &s->holders[s->first_holder[i]];
    for (int k = 0; k < (int)syn_shard_count(&p->shard); k++) {
        for (int32_t j = 0; j < s->n_pieces; j++, h++)
            if (h->n > 0) SYN_TRY(fetch(s, p, h, err));
        scatter(p, k, s->shard, s->full);
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
        syn_safetensors_release(s->options->as_in->file, data, n);
    }
    return SYN_OK;
}

/* Writes all parts of a matrix, of which parameter i is the first. */
static syn_status write_parts(saver *s, syn_safetensors_writer *writer, size_t i, syn_error *err) {
    for (; i != SIZE_MAX; i = next_part(s, i)) {
        SYN_TRY(assemble(s, i, err));
        SYN_TRY(syn_safetensors_write_data(writer, s->full,
                                           (size_t)syn_spec_bytes(&s->params[i].full), err));
    }
    return SYN_OK;
}

/* Writes a stack, of which parameter i is the first matrix. `bytes`: its size. */
static syn_status write_stack(saver *s, syn_safetensors_writer *writer, size_t i, size_t bytes,
                              syn_error *err) {
    char file[NAME_BYTES];
    for (; i != SIZE_MAX; i = next_part(s, i)) {
        const param *p = &s->params[i];
        SYN_TRY(assemble(s, i, err));
        syn__weights_stack_up(part_of(s, p, file), &p->full, s->full, s->stack);
    }
    return syn_safetensors_write_data(writer, s->stack, bytes, err);
}

static syn_status write_entry(saver *s, syn_safetensors_writer *writer, size_t place,
                              syn_error *err) {
    const size_t i = s->order[place];
    const syn_safetensors_tensor *t = tensor_as_in(s, s->params[i].name);
    const size_t bytes = (size_t)syn_spec_bytes(&s->entries[place].spec);
    if (t) return write_as_in(s, writer, t, err);
    if (is_stacked(s, i)) return write_stack(s, writer, i, bytes, err);
    if (next_part(s, i) != SIZE_MAX) return write_parts(s, writer, i, err);
    if (s->in_full != i + 1) SYN_TRY(assemble(s, i, err)); /* once for all experts */
    s->in_full = i + 1;
    return syn_safetensors_write_data(writer, (char *)s->full + (size_t)s->experts[place] * bytes,
                                      bytes, err);
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

static syn_status write_files(saver *s, const char *folder, syn_error *err) {
    const uint64_t limit = s->options->file_bytes, file_bytes = limit ? limit : FILE_BYTES;
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

/* Rank 0's part of the save. Even if it fails, rank 0 tells the other ranks to stop. */
static syn_status write_all(saver *s, const char *folder, syn_error *err) {
    syn_status status = collect(s, err);
    if (status == SYN_OK) status = check_holders(s, err);
    if (status == SYN_OK) status = make_buffers(s, err);
    if (status == SYN_OK) status = plan(s, err);
    if (status == SYN_OK) status = write_files(s, folder, err);
    for (int32_t k = 1; k < s->n_ranks; k++) {
        const syn_status stopped = ask(s, s->ranks[k], -1, status == SYN_OK ? err : NULL);
        if (status == SYN_OK) status = stopped;
    }
    return status;
}

static syn_status send_all(saver *s, syn_error *err) {
    SYN_TRY(send_list(s, err));
    SYN_TRY(make_buffers(s, err));
    return serve(s, err);
}

/* With expert parallelism: the ranks of all stages. Rank 0 is the first. */
static syn_status find_expert_ranks(saver *s, const syn_plan *plan, syn_error *err) {
    s->n_pieces = 1;
    s->ranks = syn_malloc((size_t)plan->ranks * sizeof *s->ranks);
    if (!s->ranks) return SYN_FAIL_NOMEM(err, (size_t)plan->ranks * sizeof *s->ranks, "ranks");
    for (int32_t r = 0; r < plan->ranks; r++)
        if (syn_plan_saves(plan, r)) s->ranks[s->n_ranks++] = r;
    return SYN_OK;
}

/* The ranks that hold the model: those with data-parallel index 0, or with a piece. */
static syn_status find_ranks(saver *s, syn_error *err) {
    const syn_plan *plan = s->options->plan;
    const int32_t tp = plan ? plan->tp : s->comm ? s->comm->size : 1;
    int32_t stride[SYN_AXES] = {[SYN_AXIS_TP] = 1}, n = 0;
    if (plan && syn_plan_experts_apart(plan)) return find_expert_ranks(s, plan, err);
    if (plan) syn_plan_strides(plan, stride);
    s->n_pieces = s->options->pieces ? s->options->pieces->n_ranks : 1;
    s->n_ranks = tp * (plan ? plan->pp / syn_plan_copies(plan) : 1) * s->n_pieces;
    s->ranks = syn_malloc((size_t)s->n_ranks * sizeof *s->ranks);
    if (!s->ranks) return SYN_FAIL_NOMEM(err, (size_t)s->n_ranks * sizeof *s->ranks, "ranks");
    for (int32_t shard = 0; shard < s->n_ranks / s->n_pieces; shard++)
        for (int32_t piece = 0; piece < s->n_pieces; piece++)
            s->ranks[n++] = shard / tp * stride[SYN_AXIS_PP] + shard % tp * stride[SYN_AXIS_TP] +
                            piece * stride[SYN_AXIS_DP];
    return SYN_OK;
}

syn_status syn_weights_save(syn_ctx *ctx, syn_comm *comm, const syn_weights_save_options *options,
                            const char *folder, syn_error *err) {
    saver s = {.ctx = ctx, .comm = comm, .options = options};
    syn_status status = check(&s, err);
    if (status == SYN_OK) status = find_ranks(&s, err);
    if (status == SYN_OK)
        status = rank_of(&s) == 0 ? write_all(&s, folder, err) : send_all(&s, err);
    syn_intern_free(&s.ids);
    syn_free(s.params);
    syn_free(s.first_holder);
    syn_free(s.holders);
    syn_free(s.ranks);
    syn_free(s.order);
    syn_free(s.experts);
    syn_free(s.entries);
    syn_free(s.names);
    syn_free(s.full);
    syn_free(s.stack);
    syn_free(s.wide);
    syn_free(s.shard);
    /* Errors of the context, such as a failed read of a tensor. */
    if (status != SYN_OK) syn_ctx_check(ctx, err);
    return status;
}
