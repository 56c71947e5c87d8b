/* Creates models with the parameters that their family's tables list, and implements the parts of a
   forward pass that all families share: norms, dropout, attention and recomputation. */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/context_parallel.h"
#include "models/family_private.h"
#include "models/mla.h"
#include "models/paged.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

/* ---- parameters ---- */

enum { NAME_BYTES = 160 };

static syn_initializer initializer(const syn_model *m, const syn__param_row *row) {
    const double residual = sqrt(2.0 * (double)m->config.n_layer);
    const double std = m->config.initializer_range;
    return (syn_initializer){.std = row->flags & SYN__RESIDUAL ? std / residual : std,
                             .seed = m->options.seed,
                             .dtype = m->options.dtype,
                             .weight_dtype = m->options.weight_dtype,
                             .out_in = m->config.family->out_in,
                             .no_bias = !syn__family_has_bias(&m->config, row)};
}

/* Finds the token table `name` that another part of the model created in this context. Returns the
   invalid tensor if there is none. If the table's spec is not `like`, it belongs to another model,
   and the context fails. */
static syn_tensor shared_table(syn_model *m, const char *name, const syn_spec *like) {
    char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
    const syn_tensor found = syn_find_param(m->ctx, name);
    const syn_spec *spec = syn_tensor_spec(m->ctx, found);
    if (!found.id || syn_spec_equal(spec, like)) return found;
    return syn_ctx_fail(m->ctx, SYN_E_INVALID,
                        "the context's %s belongs to another model: it is %s instead of %s", name,
                        syn_spec_text(spec, a, sizeof a), syn_spec_text(like, b, sizeof b));
}

static int64_t padded_vocab(const syn_model *m) {
    const int64_t multiple = m->options.vocab_multiple;
    return syn_model_padded_vocab(&m->config, syn__model_tp(m), multiple > 0 ? multiple : 1);
}

/* Creates a token table. shared_with_part: another part may have the same table. If that part is in
   the same context, both parts use one table, and the part that is created first creates it. */
static syn_tensor vocab_table(syn_model *m, const syn__param_row *row, bool shared_with_part) {
    char name[NAME_BYTES];
    const syn_initializer init = initializer(m, row);
    const int64_t vocab = padded_vocab(m), width = syn__family_dim(&m->config, row->to);
    if (shared_with_part) {
        const syn_spec mine = {
            (int32_t)m->options.weight_dtype, 2, {vocab / syn__model_tp(m), width}};
        snprintf(name, sizeof name, "%s.weight", row->name);
        const syn_tensor shared = shared_table(m, name, &mine);
        if (shared.id) return shared;
    }
    return syn_vocab_embedding_new(m->ctx, row->name, vocab, m->config.vocab_size, width, &init,
                                   m->options.tp);
}

/* The token table that a tied head uses: that of the embedding if this part has the embedding,
   otherwise the result of vocab_table. */
static syn_tensor tied_table(syn_model *m, const syn__param_row *row) {
    const syn__param_row *table = m->config.family->embed_rows;
    while (strcmp(table->name, row->tied) != 0) table++;
    if (m->part.embed) return *(syn_tensor *)((char *)m->params + table->at);
    return vocab_table(m, table, true);
}

/* The table of the token embedding, for multi-token prediction. */
static syn_tensor mtp_table(syn_model *m) {
    const syn__param_row *table = m->config.family->embed_rows;
    while (table->kind != SYN__VOCAB_TABLE) table++;
    if (m->part.embed) return *(syn_tensor *)((char *)m->params + table->at);
    return vocab_table(m, table, true);
}

static syn_tensor table(syn_model *m, const syn__param_row *row, const char *name) {
    char full[NAME_BYTES + 8];
    const syn_initializer init = initializer(m, row);
    const syn_spec spec = {
        (int32_t)init.dtype,
        2,
        {syn__family_dim(&m->config, row->from), syn__family_dim(&m->config, row->to)}};
    snprintf(full, sizeof full, "%s.weight", name);
    return syn_param(m->ctx, full, &spec, SYN_WHOLE, SYN_INIT_NORMAL, init.std, -1, init.seed);
}

static syn_tensor table_of(syn_model *m, const syn__param_row *row, const char *name) {
    if (row->kind == SYN__TABLE) return table(m, row, name);
    if (row->kind == SYN__VOCAB_BIAS)
        return syn_vocab_bias_new(m->ctx, name, padded_vocab(m), m->config.vocab_size,
                                  m->options.dtype, m->options.tp);
    if (row->tied && m->config.tied) return tied_table(m, row);
    return vocab_table(m, row, m->config.tied && m->part.embed != m->part.head);
}

/* With sequence parallelism, parameters that are used on a rank's own tokens, or on its own heads,
   get only a part of their gradient. */
static void set_partial(syn_model *m, syn_tensor weight, syn_tensor bias) {
    if (!m->options.sp) return;
    syn_param_set_partial(m->ctx, weight);
    syn_param_set_partial(m->ctx, bias);
}

/* One matrix per expert, in one parameter. With expert parallelism, each rank has some of the
   experts, or with etp a shard of each of them; otherwise each tensor-parallel rank has a shard of
   every expert. */
static syn_layer_linear experts_of(syn_model *m, const syn__param_row *row, const char *name) {
    const syn_initializer init = initializer(m, row);
    const bool apart = syn__model_dispatches(m);
    const syn_layer_linear l = syn_experts_linear_new(
        m->ctx, name, m->config.experts.n, syn__family_dim(&m->config, row->from),
        syn__family_dim(&m->config, row->to), row->kind == SYN__EXPERTS_COLUMN ? 1 : 2, &init,
        m->options.ep, apart ? m->options.etp : m->options.tp);
    if (!apart && row->kind == SYN__EXPERTS_ROW) set_partial(m, SYN_NO_BIAS, l.bias);
    if (!apart) return l;
    syn_param_set_expert(m->ctx, l.weight);
    syn_param_set_expert(m->ctx, l.bias);
    return l;
}

static syn_layer_linear linear_of(syn_model *m, const syn__param_row *row, const char *name) {
    const syn_initializer init = initializer(m, row);
    const syn_group *tp = row->kind == SYN__REPLICATED_LINEAR ? NULL : m->options.tp;
    syn_group keys; /* counts ranks with the same key/value heads as one rank */
    if (tp && row->layout == SYN__SHARED_HEADS) {
        const int copies = syn_model_kv_ranks(&m->config, tp->size);
        keys = *tp;
        keys.size /= copies;
        keys.index /= copies;
        tp = &keys;
    }
    const int64_t from = syn__family_dim(&m->config, row->from),
                  to = syn__family_dim(&m->config, row->to);
    const int parts = row->layout == SYN__QKV_BLOCKS ? 3 : 1;
    if (row->kind == SYN__ROW_LINEAR) return syn_row_linear_new(m->ctx, name, from, to, &init, tp);
    return syn_column_linear_new(m->ctx, name, from, to, parts, &init, tp);
}

static syn_tensor heads_of(syn_model *m, const syn__param_row *row, const char *name) {
    const syn_initializer init = initializer(m, row);
    const syn_spec spec = {(int32_t)init.dtype, 1, {syn__family_dim(&m->config, row->to)}};
    const syn_group *tp = m->options.tp;
    const syn_shard shard = tp ? SYN_SHARD(0, 1, tp->index, tp->size) : SYN_WHOLE;
    return syn_param(m->ctx, name, &spec, shard, SYN_INIT_NORMAL, init.std, -1, init.seed);
}

static syn_layer_norm norm_of(syn_model *m, const syn__param_row *row, const char *name) {
    const syn_spec spec = {(int32_t)m->options.dtype, 1, {syn__family_dim(&m->config, row->to)}};
    char full[NAME_BYTES + 8];
    if (row->kind == SYN__NORM || !m->config.norm_offset)
        return syn_layer_norm_new(m->ctx, name, spec.dims[0], row->kind == SYN__NORM,
                                  m->options.dtype);
    snprintf(full, sizeof full, "%s.weight", name);
    return (syn_layer_norm){
        syn_param(m->ctx, full, &spec, SYN_WHOLE, SYN_INIT_ZERO, 0, -1, m->options.seed),
        SYN_NO_BIAS};
}

/* Creates the parameters of a list of rows, in order, and stores them in the members of *to, the
   family's struct of parameters or that of layer number `layer` (-1: the family's). `before` is put
   in front of their names. */
static void make_rows(syn_model *m, const syn__param_row *row, int64_t layer, const char *before,
                      void *to) {
    char name[NAME_BYTES];
    for (; row->name; row++) {
        void *member = (char *)to + row->at;
        if (!syn__family_has_row(&m->config, row, m->options.heads, layer)) continue;
        snprintf(name, sizeof name, "%s%s", before, row->name);
        switch (row->kind) {
        case SYN__NORM:
        case SYN__RMS_NORM: {
            syn_layer_norm *norm = member;
            *norm = norm_of(m, row, name);
            set_partial(m, norm->weight, norm->bias);
            break;
        }
        case SYN__COLUMN_LINEAR:
        case SYN__ROW_LINEAR:
        case SYN__REPLICATED_LINEAR: {
            syn_layer_linear *linear = member;
            *linear = linear_of(m, row, name);
            if (row->kind == SYN__ROW_LINEAR) set_partial(m, SYN_NO_BIAS, linear->bias);
            if (row->kind == SYN__REPLICATED_LINEAR) set_partial(m, linear->weight, linear->bias);
            break;
        }
        case SYN__EXPERTS_COLUMN:
        case SYN__EXPERTS_ROW:
            *(syn_layer_linear *)member = experts_of(m, row, name);
            break;
        case SYN__HEADS:
            *(syn_tensor *)member = heads_of(m, row, name);
            break;
        case SYN__TABLE:
        case SYN__VOCAB_TABLE:
        case SYN__VOCAB_BIAS:
            *(syn_tensor *)member = table_of(m, row, name);
            break;
        case SYN__BUFFER: {
            const syn_spec spec = {SYN_F32, 1, {syn__family_dim(&m->config, row->to)}};
            *(syn_tensor *)member = syn_buffer(m->ctx, name, &spec);
            break;
        }
        case SYN__BIAS_ALIAS:
        case SYN__IGNORED:
            break;
        }
    }
}

static void make_parameters(syn_model *m) {
    const syn_model_family *f = m->config.family;
    const syn_model_options *how = &m->options;
    const int64_t own = m->part.n_layers, n = own + m->part.mtp;
    m->unit_ends[0] = syn_ctx_param_count(m->ctx);
    if (m->part.embed) make_rows(m, f->embed_rows, -1, "", m->params);
    m->unit_ends[1] = syn_ctx_param_count(m->ctx);
    for (int64_t i = 0; i < n && syn_ctx_status(m->ctx) == SYN_OK; i++) {
        char before[64];
        if (how->progress) how->progress(how->progress_user, i, n);
        snprintf(before, sizeof before, "%s.%lld.", f->layers,
                 (long long)(m->part.first_layer + i));
        make_rows(m, f->layer_rows, m->part.first_layer + i, before,
                  m->layers + (size_t)i * f->layer_bytes);
        if (i >= own) make_rows(m, syn__mtp_rows, -1, before, &m->mtp[i - own]);
        m->unit_ends[i + 2] = syn_ctx_param_count(m->ctx);
    }
    if (how->progress) how->progress(how->progress_user, n, n);
    if (m->part.head) make_rows(m, f->head_rows, -1, "", m->params);
    if (m->part.mtp > 0)
        m->mtp_tokens =
            m->config.tied ? *(syn_tensor *)((char *)m->params + f->head_rows[1].at) : mtp_table(m);
    m->unit_ends[n + 2] = syn_ctx_param_count(m->ctx);
}

/* Creates the states that count the rows of experts. */
static void make_counts(syn_model *m) {
    const syn_spec spec = {SYN_F32, 1, {m->config.experts.n}};
    for (int64_t i = 0; i < m->part.n_layers + m->part.mtp && m->options.router.count; i++) {
        char name[80];
        const int64_t layer = m->part.first_layer + i;
        if (!syn_model_layer_has_experts(&m->config, layer)) continue;
        snprintf(name, sizeof name, "%s.%lld.expert_counts", m->config.family->layers,
                 (long long)layer);
        m->routers[i].counts = syn_state(m->ctx, name, &spec);
    }
}

uint32_t syn_model_units(const syn_model *m, uint32_t first, uint32_t *units, uint32_t *head) {
    const size_t n = (size_t)(m->part.n_layers + m->part.mtp) + 2; /* embedding, layers, head */
    const bool tied = m->config.tied && m->part.embed && m->part.head;
    const uint32_t embed = first;
    *head = UINT32_MAX;
    for (size_t k = 0; k < n; k++) {
        const size_t begin = m->unit_ends[k], end = m->unit_ends[k + 1];
        const bool is_head = k == n - 1;
        if (begin == end && !(tied && is_head)) continue;
        const uint32_t unit = tied && is_head ? embed : first++;
        for (size_t i = begin; i < end; i++) units[i] = unit;
        if (is_head) *head = unit;
    }
    return first;
}

/* ---- a model ---- */

static syn_status check_part(const syn_model_config *c, const syn_model_part *part,
                             syn_error *err) {
    if (part->first_layer < 0 || part->n_layers < 0 ||
        part->n_layers > c->n_layer - part->first_layer)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s does not have %lld layers from layer %lld on: it has %lld", c->name,
                        (long long)part->n_layers, (long long)part->first_layer,
                        (long long)c->n_layer);
    if (part->embed && part->first_layer != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a part of %s with the embedding must begin with layer 0, not %lld",
                        c->name, (long long)part->first_layer);
    if (part->head && part->first_layer + part->n_layers != c->n_layer)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "a part of %s with the head must end with the last layer, not before layer %lld",
            c->name, (long long)(part->first_layer + part->n_layers));
    if (part->mtp < 0 || (part->mtp > 0 && !part->head))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a part of %s with layers for multi-token prediction must have the head",
                        c->name);
    if (part->mtp > 0 && (!syn_model_is_causal(c) || c->family->head_rows[0].kind != SYN__RMS_NORM))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%s has no layers for multi-token prediction",
                        c->family->title);
    return SYN_OK;
}

static syn_status check_dtypes(const syn_model_options *how, syn_error *err) {
    const bool known = how->dtype <= SYN_BF16 && how->weight_dtype <= SYN_BF16;
    if (known &&
        (how->dtype == SYN_F32 || how->weight_dtype == SYN_F32 || how->weight_dtype == how->dtype))
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "a model cannot compute in %s with %s weights: it computes in f32, f16 or "
                    "bf16, and only f32 allows another weight dtype",
                    syn_dtype_name(how->dtype), syn_dtype_name(how->weight_dtype));
}

static syn_status alloc_members(syn_model *m, syn_error *err) {
    const syn_model_family *f = m->config.family;
    const size_t layers = (size_t)(m->part.n_layers + m->part.mtp);
    m->params = syn_calloc(1, f->params_bytes);
    m->layers = syn_calloc(layers, f->layer_bytes);
    m->caches = syn_calloc(layers, sizeof *m->caches);
    m->runs = syn_calloc(layers, sizeof *m->runs);
    m->routers = syn_calloc(layers + 1, sizeof *m->routers);
    m->unit_ends = syn_calloc(layers + 3, sizeof *m->unit_ends);
    m->mtp = syn_calloc((size_t)m->part.mtp + 1, sizeof *m->mtp);
    for (size_t i = 0; i < layers && m->runs; i++)
        m->runs[i] = (struct syn__recompute_arg){m, (int64_t)i};
    if (m->params && m->layers && m->caches && m->runs && m->routers && m->unit_ends && m->mtp)
        return SYN_OK;
    return SYN_FAIL_NOMEM(err, layers * f->layer_bytes, "a model's layers");
}

static bool is_one_of(const syn__param_row *row, const syn__param_row *rows) {
    while (rows->name && rows != row) rows++;
    return rows->name != NULL;
}

bool syn__model_lacks_param(const syn_model *m, const char *parameter) {
    const syn_model_family *f = m->config.family;
    const syn_model_part *part = &m->part;
    const syn__param_row *row = syn__family_row(f, parameter);
    const int64_t layer = syn__family_layer(f, parameter), behind = layer - part->first_layer;
    if (behind >= m->config.n_layer - part->first_layer && behind >= part->n_layers + part->mtp &&
        layer < m->config.n_layer + m->config.mtp)
        return true;
    if (!row) return false;
    if (layer >= 0) return layer < m->config.n_layer && (behind < 0 || behind >= part->n_layers);
    if (is_one_of(row, f->head_rows)) return !part->head;
    if (!is_one_of(row, f->embed_rows)) return false;
    return !part->embed || (row->kind == SYN__VOCAB_TABLE && m->config.tied && !part->head);
}

syn_status syn_model_new(syn_model **out, syn_ctx *ctx, const syn_model_config *config,
                         const syn_model_options *options, syn_error *err) {
    const syn_model_part whole = {.n_layers = config->n_layer, .embed = true, .head = true};
    const syn_model_part *part = options->part ? options->part : &whole;
    SYN_TRY(syn_model_config_check(config, options->tp ? options->tp->size : 1, err));
    SYN_TRY(check_part(config, part, err));
    SYN_TRY(check_dtypes(options, err));
    syn_model *m = syn_calloc(1, sizeof *m);
    if (!m) return SYN_FAIL_NOMEM(err, sizeof *m, "a model");
    m->ctx = ctx;
    m->config = *config;
    m->options = *options;
    m->step = UINT32_MAX;   /* no pass yet */
    m->options.part = NULL; /* owned by the caller; m->part is a copy */
    m->options.sp = options->sp && options->tp && options->tp->size > 1;
    if (options->dtype != SYN_F32) m->options.weight_dtype = options->dtype;
    m->part = *part;
    syn_status s = syn__cp_check(m, err);
    if (s == SYN_OK) s = alloc_members(m, err);
    if (s == SYN_OK) {
        make_parameters(m);
        make_counts(m);
        syn__model_set_frequencies(m, 0);
        s = syn_ctx_check(ctx, err);
    }
    if (s == SYN_OK) *out = m;
    else syn_model_free(m);
    return s;
}

void syn_model_free(syn_model *m) {
    if (!m) return;
    syn_free(m->params);
    syn_free(m->layers);
    syn_free(m->caches);
    syn_free(m->runs);
    syn_free(m->routers);
    syn_free(m->unit_ends);
    syn_free(m->mtp);
    syn_free(m->padding);
    syn_free(m);
}

const syn_model_config *syn_model_get_config(const syn_model *m) {
    return &m->config;
}

syn_ctx *syn_model_ctx(const syn_model *m) {
    return m->ctx;
}

const syn_group *syn_model_tp(const syn_model *m) {
    return m->options.tp;
}

const syn_model_part *syn_model_get_part(const syn_model *m) {
    return &m->part;
}

/* ---- computation ---- */

int syn__model_tp(const syn_model *m) {
    return m->options.tp ? m->options.tp->size : 1;
}

bool syn__model_dispatches(const syn_model *m) {
    return m->options.ep || (m->options.whole_experts && m->options.tp);
}

int64_t syn__model_head_dim(const syn_model *m) {
    return syn__model_config_head_dim(&m->config);
}

bool syn__model_accepts(const syn_model *m, syn_tensor x, int64_t least) {
    const syn_spec *s = syn_tensor_spec(m->ctx, x);
    const bool embed = m->part.embed;
    char text[SYN_SPEC_TEXT];
    if (syn_ctx_status(m->ctx) != SYN_OK) return false;
    if (s->dtype == (int32_t)(embed ? SYN_I32 : m->options.dtype) && s->rank == (embed ? 2 : 3) &&
        (embed || s->dims[2] == m->config.n_embd) && s->dims[0] >= least && s->dims[1] >= least)
        return true;
    (void)syn_spec_text(s, text, sizeof text);
    if (embed)
        syn_ctx_fail(m->ctx, SYN_E_SHAPE, "tokens must be i32 (batch, tokens), not %s", text);
    else
        syn_ctx_fail(m->ctx, SYN_E_SHAPE,
                     "the input of layer %lld must be %s (batch, tokens, %lld), not %s",
                     (long long)m->part.first_layer, syn_dtype_name(m->options.dtype),
                     (long long)m->config.n_embd, text);
    return false;
}

static syn_tensor rmsnorm(syn_model *m, syn_tensor x, syn_tensor w) {
    const double eps = m->config.norm_epsilon;
    if (m->config.norm_offset) return syn_rmsnorm_offset(m->ctx, x, w, eps, 1);
    return syn_rmsnorm(m->ctx, x, w, eps);
}

syn_tensor syn__model_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                           const char *label) {
    const syn_tensor w = syn_current_version(m->ctx, norm->weight),
                     b = syn_current_version(m->ctx, norm->bias);
    x = b.id ? syn_layernorm(m->ctx, x, w, b, m->config.norm_epsilon) : rmsnorm(m, x, w);
    return syn_name(m->ctx, x, label);
}

/* Returns the current version of a parameter of which each rank of `group` has a replica; `ranks`
   is their number. Each rank computes only a part of its gradient, so the backward pass sums the
   gradient over the group. Fails if that is needed and `group` is NULL. */
static syn_tensor shared(syn_model *m, syn_tensor w, const syn_group *group, int ranks) {
    w = syn_current_version(m->ctx, w);
    if (!w.id || ranks == 1 || !syn_requires_grad(m->ctx, w)) return w;
    if (group) return syn_tp_enter(m->ctx, w, group);
    return syn_ctx_fail(m->ctx, SYN_E_INVALID,
                        "%d ranks share key/value heads: training needs their group", ranks);
}

syn_tensor syn__model_replicated(syn_model *m, syn_tensor parameter) {
    const int ranks = m->options.sp ? 1 : syn__model_tp(m); /* 1: summed once per step */
    return shared(m, parameter, m->options.tp, ranks);
}

syn_tensor syn__model_shared_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                                  const char *label) {
    x = rmsnorm(m, x, syn__model_replicated(m, norm->weight));
    return syn_name(m->ctx, x, label);
}

/* The weights of a norm of keys in the order in which the ranks have the heads: each head's weights
   `copies` times. */
static syn_tensor repeated(syn_model *m, syn_tensor w, int copies) {
    const int64_t depth = syn__model_head_dim(m), heads = syn_tensor_dim(m->ctx, w, 0) / depth;
    w = syn_reshape(m->ctx, w, (int64_t[]){heads, 1, depth}, 3);
    w = syn_expand(m->ctx, w, (int64_t[]){heads, copies, depth}, 3);
    return syn_reshape(m->ctx, w, (int64_t[]){-1}, 1);
}

/* The ranks gather the heads of all ranks, because the norm needs the mean of all their squares.
   Several copies of the keys do not change this mean. */
syn_tensor syn__model_wide_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm, int copies,
                                const char *label) {
    const syn_group *tp = m->options.tp;
    const int ranks = syn__model_tp(m);
    if (ranks == 1) return syn__model_norm(m, x, norm, label);
    const syn_spec shape = *syn_tensor_spec(m->ctx, x);
    const int64_t width = shape.dims[2];
    syn_tensor w = syn__model_replicated(m, norm->weight);
    if (copies > 1) w = repeated(m, w, copies);
    x = syn_reshape(m->ctx, x, (int64_t[]){-1, width}, 2);
    x = syn_gather_tokens(m->ctx, x, m->options.sp_keep, tp); /* along the heads */
    x = syn_name(m->ctx, rmsnorm(m, x, w), label);
    return syn_reshape(m->ctx, syn_slice(m->ctx, x, 1, tp->index * width, width), shape.dims, 3);
}

syn_tensor syn__model_kv_linear(syn_model *m, syn_tensor x, const syn_layer_linear *l,
                                const char *label) {
    const int ranks = syn_model_kv_ranks(&m->config, syn__model_tp(m));
    const syn_tensor w = shared(m, l->weight, m->options.kv, ranks),
                     b = shared(m, l->bias, m->options.kv, ranks);
    return syn_name(m->ctx, syn_linear(m->ctx, x, w, b, l->out_in), label);
}

/* ---- dropout ---- */

void syn_model_set_dropout(syn_model *m, const syn_model_dropout *dropout) {
    m->dropout = dropout ? *dropout : (syn_model_dropout){0};
}

/* Returns a different seed for each layer and site, so that their dropout masks differ. */
static uint64_t seed_of(const syn_model *m, int64_t i, syn__site site) {
    const int64_t place[2] = {m->part.first_layer + i, (int64_t)site};
    return syn_hash(place, sizeof place, m->dropout.seed);
}

/* row: number of the first token of x within its sequence. */
static syn_tensor drop_from(syn_model *m, syn_tensor x, int64_t i, syn__site site, int64_t row) {
    const double p = site == SYN__SITE_EMBEDDING ? m->dropout.embedding : m->dropout.residual;
    const syn_dropout_options how = {.p = p, .seed = seed_of(m, i, site), .row = row};
    if (!(p > 0) || !syn_requires_grad(m->ctx, x)) return x;
    return syn_dropout(m->ctx, x, m->dropout.keys, &how);
}

syn_tensor syn__model_drop(syn_model *m, syn_tensor x, int64_t i, syn__site site) {
    const int64_t index = m->cut ? m->options.tp->index : 0;
    return drop_from(m, x, i, site, index * syn_tensor_dim(m->ctx, x, 1));
}

syn_tensor syn__model_drop_whole(syn_model *m, syn_tensor x, int64_t i, syn__site site) {
    return drop_from(m, x, i, site, 0);
}

/* ---- around sharded layers ---- */

int64_t syn__model_tokens(const syn_model *m, syn_tensor x) {
    const int tp = m->options.sp && !m->part.embed ? syn__model_tp(m) : 1;
    return tp * syn_tensor_dim(m->ctx, x, 1);
}

bool syn__model_set_cut(syn_model *m, int64_t tokens, bool training) {
    const int tp = syn__model_tp(m);
    m->cut = m->options.sp && tokens % tp == 0;
    if (!m->options.sp || m->cut || !training) return true;
    syn_ctx_fail(m->ctx, SYN_E_SHAPE,
                 "sequence parallelism: %lld tokens do not divide among %d ranks",
                 (long long)tokens, tp);
    return false;
}

syn_tensor syn__model_enter(syn_model *m, syn_tensor x) {
    const syn_group *tp = m->options.tp;
    if (syn__model_tp(m) == 1) return x;
    return m->cut ? syn_gather_tokens(m->ctx, x, m->options.sp_keep, tp)
                  : syn_tp_enter(m->ctx, x, tp);
}

syn_tensor syn__model_reduce(syn_model *m, syn_tensor y, syn_tensor bias) {
    if (!m->cut) return syn_row_linear_reduce(m->ctx, y, bias, m->options.tp);
    y = syn_reduce_scatter(m->ctx, y, SYN_REDUCE_SUM, 1, m->options.tp);
    if (!bias.id) return y;
    return syn_name(m->ctx, syn_add(m->ctx, y, syn_current_version(m->ctx, bias)), "bias");
}

syn_tensor syn__model_embed(syn_model *m, syn_tensor table, syn_tensor tokens) {
    const syn_group *tp = m->options.tp;
    if (!m->cut) return syn_vocab_embedding(m->ctx, table, tokens, -1, m->options.dtype, tp);
    const syn_tensor x =
        syn_vocab_embedding_partial(m->ctx, table, tokens, -1, m->options.dtype, tp);
    return syn__model_reduce(m, x, SYN_NO_BIAS);
}

syn_tensor syn__model_cut(syn_model *m, syn_tensor x) {
    return m->cut ? syn_cut_tokens(m->ctx, x, m->options.tp) : x;
}

syn_tensor syn__model_whole(syn_model *m, syn_tensor x) {
    return m->cut ? syn_gather_tokens(m->ctx, x, true, m->options.tp) : x;
}

syn_tensor syn__model_scale(syn_model *m, syn_tensor x, double factor, const char *label) {
    return factor > 0 && factor != 1 ? syn_name(m->ctx, syn_scale(m->ctx, x, factor), label) : x;
}

syn_tensor syn__model_activate(syn_model *m, syn_tensor x) {
    if (m->config.activation == SYN_RELU) return syn_relu(m->ctx, x);
    return syn_gelu(m->ctx, x, m->config.activation == SYN_GELU_TANH);
}

static syn_tensor layer(syn_model *m, int64_t i, syn_tensor x) {
    const syn_model_family *f = m->config.family;
    syn_push_scope_index(m->ctx, f->layers, (int)(m->part.first_layer + i));
    x = f->layer(m, m->layers + (size_t)i * f->layer_bytes, i, x);
    syn_pop_scope(m->ctx);
    return x;
}

/* Calls f with the mask, the dropout keys and the position ids of the forward pass: behind[0],
   behind[1] and behind[2]. They are inputs of the recomputed region, because the model may have
   others by the time the backward pass runs f again. */
static syn_tensor run_as_in_forward(const struct syn__recompute_arg *run, const syn_tensor *in,
                                    const syn_tensor *behind,
                                    syn_tensor (*f)(syn_model *m, int64_t i,
                                                    const syn_tensor *in)) {
    syn_model *m = run->model;
    const bool training = m->training, cut = m->cut;
    const syn_tensor visible = m->visible, keys = m->dropout.keys, positions = m->positions;
    m->training = true;
    m->cut = m->options.sp;
    m->visible = behind[0];
    m->dropout.keys = behind[1];
    m->positions = behind[2];
    const syn_tensor y = f(m, run->layer, in);
    m->training = training;
    m->cut = cut;
    m->visible = visible;
    m->dropout.keys = keys;
    m->positions = positions;
    return y;
}

static syn_tensor layer_of(syn_model *m, int64_t i, const syn_tensor *in) {
    return layer(m, i, in[0]);
}

static syn_tensor layer_region(void *run, const syn_tensor *in) {
    return run_as_in_forward(run, in, in + 1, layer_of);
}

/* See SYN_RECOMPUTE_OP. *products: the number of matrix products so far. */
static bool keep_op(const char *op, uint32_t *products) {
    if (strcmp(op, "linear") == 0) return ++*products % 2 == 1;
    return strcmp(op, "attention_train") == 0 || strcmp(op, "all_reduce") == 0 ||
           strcmp(op, "reduce_scatter") == 0;
}

syn_tensor syn__model_layer(syn_model *m, int64_t i, syn_tensor x) {
    const syn_tensor in[4] = {x, m->visible, m->dropout.keys, m->positions};
    const bool op = m->options.recompute == SYN_RECOMPUTE_OP;
    if ((m->options.recompute != SYN_RECOMPUTE_FULL && !op) || !syn_requires_grad(m->ctx, x))
        return layer(m, i, x);
    return syn_recompute_except(m->ctx, layer_region, &m->runs[i], in, 4, op ? keep_op : NULL);
}

syn_tensor syn__model_layers(syn_model *m, syn_tensor x, syn_mark mark) {
    for (int64_t i = 0; i < m->part.n_layers && syn_ctx_status(m->ctx) == SYN_OK; i++) {
        x = syn__model_layer(m, i, x);
        syn_release(m->ctx, mark, &x, 1);
    }
    return x;
}

/* The factor of the attention scores; 0: 1 / sqrt(head_dim) */
static double scale_of(const syn_model_config *c) {
    if (c->latent.kv > 0) return syn__latent_scale(c);
    if (c->attention_factor > 0) return c->attention_factor;
    return c->query_scale > 0 ? 1 / sqrt((double)c->query_scale) : 0;
}

static syn_tensor attend(syn_model *m, int64_t i, const syn_tensor *in) {
    syn_heads_options how = {.fused = m->options.fused_attention,
                             .causal = syn_model_is_causal(&m->config),
                             .position = m->training ? 0 : m->position,
                             .window = syn_model_layer_window(&m->config, m->part.first_layer + i),
                             .scale = scale_of(&m->config),
                             .cap = m->config.attention_cap,
                             .mask = m->visible};
    const syn_model_family *f = m->config.family;
    const char *layer = m->layers + (size_t)i * f->layer_bytes;
    if (f->sinks_at)
        how.sinks = syn_current_version(m->ctx, *(const syn_tensor *)(layer + f->sinks_at));
    if (m->dropout.attention > 0 && syn_requires_grad(m->ctx, in[0])) {
        const int64_t rows = syn_tensor_dim(m->ctx, in[0], 1) * syn_tensor_dim(m->ctx, in[0], 2);
        how.keys = m->dropout.keys;
        how.dropout = (syn_dropout_options){.p = m->dropout.attention,
                                            .seed = seed_of(m, i, SYN__SITE_ATTENTION),
                                            .row = m->options.tp ? m->options.tp->index * rows : 0};
    }
    if (m->paged.step) return syn__paged_attend(m, in[0], in[1], in[2], &how);
    if (m->options.cp) return syn__cp_attend(m, i, in[0], in[1], in[2], &how);
    return syn_heads_attend(m->ctx, in[0], in[1], in[2], &how);
}

static syn_tensor attend_region(void *run, const syn_tensor *in) {
    return run_as_in_forward(run, in, in + 3, attend);
}

syn_tensor syn__model_attend(syn_model *m, int64_t i, syn_tensor q, syn_tensor k, syn_tensor v) {
    const syn_tensor in[6] = {q, k, v, m->visible, m->dropout.keys, m->positions};
    if (m->options.recompute != SYN_RECOMPUTE_SELECTIVE || !syn_requires_grad(m->ctx, q))
        return attend(m, i, in);
    return syn_recompute(m->ctx, attend_region, &m->runs[i], in, 6);
}
