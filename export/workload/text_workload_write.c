/* Writes the traces of a text workload. A training step is a forward and a backward pass over the
   layers. Nodes have the same order and data_deps as in Chakra's converter. */
#include <inttypes.h>

#include "export/chakra/wire/et_files.h"
#include "export/chakra/wire/et_node.h"
#include "export/workload/text_workload.h"
#include "syntorch/base/memory.h"

#define MAX_DEPS 4

typedef uint64_t ref; /* number of a node in the file, from 1; 0: none */

typedef struct layer_refs {
    ref comp[SYN__TEXT_PARTS], comm[SYN__TEXT_PARTS];
} layer_refs;

typedef struct writer {
    syn_text_workload *w;
    const syn_text_options *options;
    layer_refs *layers;
    ref last;       /* the node that was written last */
    ref collective; /* the rank's last collective */
    ref deps[MAX_DEPS];
    size_t n_deps;
    bool dangling; /* compat: some node depends on a node that does not exist */
    syn__buf name, message;
    syn_sink *out;
    syn__et_names names;
    syn_error *err;
} writer;

/* ---- Nodes ---- */

/* Makes the next node depend on `node`. */
static void wait_for(writer *w, ref node) {
    if (node == 0) {
        w->dangling = true;
        return;
    }
    for (size_t i = 0; i < w->n_deps && !w->w->compat; i++)
        if (w->deps[i] == node) return;
    w->deps[w->n_deps++] = node;
}

static void wait_if(writer *w, ref node) {
    if (node != 0) wait_for(w, node);
}

/* Chakra's converter counts ids from 0. */
static uint64_t id_of(const writer *w, ref node) {
    return w->w->compat ? node - 1 : node;
}

static syn__et_attr number(const char *name, uint32_t field, uint64_t bits) {
    return syn__et_number(name, field, bits);
}

static syn__et_attr string(const char *name, syn__str text) {
    return syn__et_data(syn__str_of(name), SYN__ET_STRING, text);
}

/* Returns an empty list "inputs" or "outputs". The tensors are unknown, but simulators that track
   memory require the lists. */
static syn__et_attr no_tensors(const char *name) {
    return syn__et_data(syn__str_of(name), SYN__ET_STRING_LIST, (syn__str){"", 0});
}

static void put_message(writer *w) {
    char length[SYN__ET_VARINT_MAX];
    syn_sink_write(w->out, length, (size_t)(syn__et_varint(length, w->message.bytes) - length));
    if (w->message.bytes != 0) syn_sink_write(w->out, w->message.data, w->message.bytes);
    w->message.bytes = 0;
}

/* Writes the node, with the name in w->name and the dependencies collected so far. */
static ref put_node(writer *w, syn__et_node *node) {
    uint64_t data[MAX_DEPS], ctrl = 0;
    bool waits = false;
    for (size_t i = 0; i < w->n_deps; i++) {
        data[i] = id_of(w, w->deps[i]);
        waits = waits || w->deps[i] == w->collective;
    }
    node->id = id_of(w, ++w->last);
    node->name = (syn__str){w->name.data, w->name.bytes};
    node->data = data;
    node->n_data = w->n_deps;
    if (node->type == SYN__ET_COMM_COLL_NODE && !w->w->compat) {
        ctrl = w->collective;
        node->ctrl = &ctrl;
        node->n_ctrl = ctrl != 0 && !waits;
        w->collective = w->last;
    }
    syn__et_put_node(&w->message, node);
    put_message(w);
    w->n_deps = 0;
    return w->last;
}

static void name_of(writer *w, const char *kind, syn__str layer, const char *infix, syn__str what) {
    w->name.bytes = 0;
    syn__buf_put(&w->name, kind, strlen(kind));
    syn__buf_put(&w->name, layer.text, layer.bytes);
    syn__buf_put(&w->name, infix, strlen(infix));
    syn__buf_put(&w->name, "_", 1);
    syn__buf_put(&w->name, what.text, what.bytes);
}

/* Writes the compute node of one of a layer's three computations, with the dependencies collected
   so far. part: SYN__TEXT_FWD (forward), IG (input gradient) or WG (weight gradient). */
static void compute(writer *w, size_t layer, int part) {
    static const char *const phases[] = {"FWD", "BWD_IG", "BWD_WG"};
    const syn__text_layer *l = &w->w->layers[layer];
    const syn__et_attr attrs[] = {number("is_cpu_op", SYN__ET_BOOL, 0),
                                  number("num_ops", SYN__ET_INT64, 1),
                                  number("tensor_size", SYN__ET_UINT64, SYN__ET_MIN_ROOT_BYTES),
                                  number("clamped", SYN__ET_BOOL, 1),
                                  no_tensors("inputs"),
                                  no_tensors("outputs")};
    syn__et_node node = {.type = SYN__ET_COMP_NODE, .attrs = attrs};
    if (!w->w->compat) node.n_attrs = sizeof attrs / sizeof attrs[0];
    if (l->parts[part].time_us < 0) {
        (void)SYN_FAIL(w->err, SYN_E_INVALID, "%.200s, line %zu: a time is negative", w->w->name,
                       l->line);
        w->n_deps = 0;
        return;
    }
    node.duration_micros = (uint64_t)l->parts[part].time_us;
    name_of(w, "COMP_NODE_", l->name, "", syn__str_of(phases[part]));
    w->layers[layer].comp[part] = put_node(w, &node);
}

static bool is_run(const writer *w, const syn__text_part *p) {
    return p->comm_type >= 0 && p->bytes > 0 && w->options->n_npus > 1;
}

/* Writes the collective of a layer's part, which depends on `after`. If the collective is omitted,
   later nodes depend on `after` instead. */
static void communicate(writer *w, size_t layer, int part, const char *infix, ref after) {
    const syn__text_layer *l = &w->w->layers[layer];
    const syn__text_part *p = &l->parts[part];
    const bool compat = w->w->compat;
    ref *out = &w->layers[layer].comm[part];
    if (!compat && !is_run(w, p)) {
        *out = after;
        return;
    }
    const syn__et_attr attrs[] = {
        number("comm_type", SYN__ET_INT64, p->comm_type < 0 ? 0 : (uint64_t)p->comm_type),
        number("comm_size", SYN__ET_INT64, (uint64_t)p->bytes),
        number("is_cpu_op", SYN__ET_BOOL, 0), no_tensors("inputs"), no_tensors("outputs")};
    syn__et_node node = {.type = SYN__ET_COMM_COLL_NODE, .attrs = attrs, .n_attrs = compat ? 2 : 5};
    wait_if(w, after);
    name_of(w, "COMM_COLL_NODE_", l->name, infix, p->comm);
    *out = put_node(w, &node);
    w->w->n_collectives++;
}

/* ---- Steps ---- */

static void micro_step(writer *w) {
    for (size_t i = 0; i < w->w->n_layers; i++) communicate(w, i, SYN__TEXT_WG, "", 0);
}

static void data_step(writer *w) {
    const size_t n = w->w->n_layers;
    layer_refs *l = w->layers;
    for (size_t i = 0; i < n; i++) {
        if (i != 0) wait_for(w, l[i - 1].comp[SYN__TEXT_FWD]);
        wait_if(w, l[i].comm[SYN__TEXT_WG]); /* the previous step's gradient, reduced */
        compute(w, i, SYN__TEXT_FWD);
    }
    for (size_t i = n; i-- > 0;) {
        wait_for(w, i == n - 1 ? l[i].comp[SYN__TEXT_FWD] : l[i + 1].comp[SYN__TEXT_IG]);
        compute(w, i, SYN__TEXT_WG);
        communicate(w, i, SYN__TEXT_WG, "", l[i].comp[SYN__TEXT_WG]);
        if (i == 0) continue;
        wait_for(w, l[i].comp[SYN__TEXT_WG]);
        compute(w, i, SYN__TEXT_IG);
    }
}

/* Writes the forward pass of model parallelism, with a collective for each layer's output. A
   layer's weights are ready when their gradients have been computed or, in hybrids, reduced. */
static void model_forward(writer *w, bool hybrid) {
    layer_refs *l = w->layers;
    for (size_t i = 0; i < w->w->n_layers; i++) {
        if (hybrid) wait_if(w, l[i].comm[SYN__TEXT_WG]);
        if (i != 0) wait_for(w, l[i - 1].comm[SYN__TEXT_FWD]);
        if (!hybrid) wait_if(w, l[i].comp[SYN__TEXT_WG]);
        compute(w, i, SYN__TEXT_FWD);
        communicate(w, i, SYN__TEXT_FWD, "", l[i].comp[SYN__TEXT_FWD]);
    }
}

static void model_step(writer *w) {
    const bool hybrid = w->w->parallelism != SYN_TEXT_MODEL;
    const char *infix = w->w->parallelism == SYN_TEXT_DATA_MODEL ? "_IG_COMM_" : "";
    const size_t n = w->w->n_layers;
    layer_refs *l = w->layers;
    model_forward(w, hybrid);
    for (size_t i = n; i-- > 0;) {
        if (i == n - 1) {
            wait_for(w, l[i].comm[SYN__TEXT_FWD]);
        } else {
            wait_for(w, l[i + 1].comp[SYN__TEXT_WG]);
            wait_for(w, l[i + 1].comm[SYN__TEXT_IG]);
        }
        compute(w, i, SYN__TEXT_IG);
        /* True for all layers except the first, if line 2 has the right number of layers. */
        if ((int64_t)(n - 1 - i) != w->w->stated_layers - 1)
            communicate(w, i, SYN__TEXT_IG, infix, l[i].comp[SYN__TEXT_IG]);
        wait_for(w, l[i].comp[SYN__TEXT_IG]);
        compute(w, i, SYN__TEXT_WG);
        if (hybrid) communicate(w, i, SYN__TEXT_WG, "", l[i].comp[SYN__TEXT_WG]);
    }
}

/* Writes the forward pass of DLRM. The all-to-all of the embeddings runs concurrently with the
   bottom MLP; the last layer of the bottom MLP waits for it. */
static void dlrm_forward(writer *w) {
    layer_refs *l = w->layers;
    for (size_t i = 0; i < w->w->n_layers; i++) {
        const ref exchanged = l[i].comm[SYN__TEXT_WG];
        wait_if(w, exchanged != 0 ? exchanged : l[i].comp[SYN__TEXT_WG]);
        if (i != 0) wait_for(w, l[i - 1].comp[SYN__TEXT_FWD]);
        if ((int64_t)i == w->w->last_bottom) {
            if (w->w->compat) wait_for(w, l[0].comm[SYN__TEXT_FWD]);
            else wait_if(w, l[0].comm[SYN__TEXT_FWD]);
        }
        compute(w, i, SYN__TEXT_FWD);
        if (syn__str_is(w->w->layers[i].parts[SYN__TEXT_FWD].comm, "ALLTOALL"))
            communicate(w, i, SYN__TEXT_FWD, "", l[i].comp[SYN__TEXT_FWD]);
    }
}

static void dlrm_step(writer *w) {
    const size_t n = w->w->n_layers;
    layer_refs *l = w->layers;
    dlrm_forward(w);
    for (size_t i = n; i-- > 0;) {
        if (i == n - 1) {
            wait_for(w, l[i].comp[SYN__TEXT_FWD]);
        } else {
            wait_for(w, l[i + 1].comp[SYN__TEXT_IG]);
            wait_if(w, l[i].comm[SYN__TEXT_IG]);
        }
        compute(w, i, SYN__TEXT_WG);
        if (w->w->layers[i].parts[SYN__TEXT_WG].comm_type != SYN__TEXT_NONE)
            communicate(w, i, SYN__TEXT_WG, "", l[i].comp[SYN__TEXT_WG]);
        if (i != 0) {
            wait_for(w, l[i].comp[SYN__TEXT_WG]);
            compute(w, i, SYN__TEXT_IG);
        }
        if ((int64_t)i != w->w->last_bottom + 1) continue;
        if (i == 0) w->dangling = true;
        communicate(w, 0, SYN__TEXT_IG, "", l[i].comp[SYN__TEXT_IG]);
    }
}

/* ---- Files ---- */

static void put_metadata(writer *w, uint32_t npu) {
    const syn__str text = {w->w->text, w->w->text_bytes};
    const syn_text_options *o = w->options;
    const bool compat = w->w->compat;
    syn__et_meta meta = {.version = syn__str_of(compat ? "" : "1.0.0")};
    syn__et_attr attrs[5];
    if (compat) {
        attrs[meta.n_attrs++] = string("schema", syn__str_of("1.0.2-chakra.1.0.0"));
    } else {
        attrs[meta.n_attrs++] = number("rank", SYN__ET_INT64, npu);
        attrs[meta.n_attrs++] = number("world_size", SYN__ET_INT64, o->n_npus);
        attrs[meta.n_attrs++] = number("num_passes", SYN__ET_INT64, o->n_passes);
        if (o->version != NULL) attrs[meta.n_attrs++] = string("program", syn__str_of(o->version));
    }
    attrs[meta.n_attrs++] = string("input_file", text);
    meta.attrs = attrs;
    syn__et_put_meta(&w->message, &meta);
    put_message(w);
}

static syn_status put_step(writer *w) {
    switch (w->w->parallelism) {
    case SYN_TEXT_MICRO:
        micro_step(w);
        break;
    case SYN_TEXT_DATA:
        data_step(w);
        break;
    case SYN_TEXT_DLRM:
        dlrm_step(w);
        break;
    default:
        model_step(w);
    }
    if (w->dangling)
        return SYN_FAIL(w->err, SYN_E_INVALID,
                        "%.200s: a layer waits for a collective that is not in the text; Chakra's "
                        "converter also stops here",
                        w->w->name);
    if (w->message.failed || w->name.failed)
        return SYN_FAIL_NOMEM(w->err, w->message.cap, "a node of an execution trace");
    return w->err->code;
}

static syn_status put_rank(writer *w, uint32_t npu) {
    memset(w->layers, 0, w->w->n_layers * sizeof *w->layers);
    if (!w->w->compat) w->last = 0;
    w->collective = 0;
    w->w->n_collectives = 0;
    const ref before = w->last;
    put_metadata(w, npu);
    for (uint32_t i = 0; i < w->options->n_passes; i++) {
        SYN_TRY(put_step(w));
        if (syn_sink_status(w->out) != SYN_OK) return SYN_OK; /* syn_sink_close reports the error */
    }
    w->w->n_nodes = w->last - before;
    return SYN_OK;
}

/* Fails if there is nothing to write. This can only happen to a MICRO workload, which has only the
   collectives of weight gradients: collectives that move no bytes are omitted. */
static syn_status check_work(const writer *w) {
    bool any = w->w->parallelism != SYN_TEXT_MICRO;
    for (size_t i = 0; i < w->w->n_layers && !any; i++)
        any = is_run(w, &w->w->layers[i].parts[SYN__TEXT_WG]);
    if (any) return SYN_OK;
    return SYN_FAIL(w->err, SYN_E_INVALID,
                    "%.200s has nothing to run on %" PRIu32
                    " NPU%s: no weight gradient's collective moves bytes",
                    w->w->name, w->options->n_npus, w->options->n_npus == 1 ? "" : "s");
}

static syn_status write_rank(writer *w, uint32_t npu) {
    SYN_TRY(syn_sink_open_file(&w->out, syn__et_rank_path(&w->names, npu), w->err));
    const syn_status status = put_rank(w, npu);
    const syn_status closed = syn_sink_close(w->out, status == SYN_OK, w->err);
    return status != SYN_OK ? status : closed;
}

static syn_status write_set(writer *w) {
    if (!w->w->compat) {
        SYN_TRY(check_work(w));
        SYN_TRY(syn__et_remove_old_set(&w->names, w->options->n_npus, w->err));
    }
    for (uint32_t npu = 0; npu < w->options->n_npus; npu++) SYN_TRY(write_rank(w, npu));
    if (w->w->compat) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&w->out, syn__et_group_path(&w->names), w->err));
    syn_sink_text(w->out, "{}\n");
    return syn_sink_close(w->out, true, w->err);
}

syn_status syn_text_workload_write(syn_text_workload *workload, const syn_text_options *options,
                                   const char *prefix, syn_error *err) {
    syn_error own = {0};
    writer w = {.w = workload, .options = options};
    w.err = err != NULL ? err : &own;
    SYN_TRY(syn__et_supported(w.err));
    syn_status status = syn__et_names_open(&w.names, prefix, w.err);
    w.layers = (layer_refs *)syn_calloc(workload->n_layers, sizeof *w.layers);
    if (status == SYN_OK && w.layers == NULL)
        status = SYN_FAIL_NOMEM(w.err, workload->n_layers * sizeof *w.layers,
                                "the layers of a workload");
    if (status == SYN_OK) status = write_set(&w);
    syn__et_names_close(&w.names);
    syn_free(w.layers);
    syn__buf_free(&w.name);
    syn__buf_free(&w.message);
    return status;
}
