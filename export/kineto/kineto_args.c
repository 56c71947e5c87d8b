/* Maps our ops and their arguments to PyTorch's; see kineto_args.h. */
#include "export/kineto/kineto_args.h"

#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

/* Ops that PyTorch also has, with its order of arguments. All other ops have names of the form
   "syntorch::name". */
static const struct {
    const char *op, *name;
} known[] = {{"embedding", "aten::embedding"},
             {"layernorm", "aten::layer_norm"},
             {"layernorm_grad", "aten::native_layer_norm_backward"},
             {"linear", "aten::linear"},
             {"matmul", "aten::matmul"},
             {"gelu", "aten::gelu"},
             {"gelu_grad", "aten::gelu_backward"},
             {"tanh", "aten::tanh"},
             {"tanh_grad", "aten::tanh_backward"},
             {"add", "aten::add"},
             {"accumulate", "aten::add_"},
             {"mul", "aten::mul"},
             {"scale", "aten::mul"},
             {"dropout", "aten::dropout"},
             {"softmax", "aten::softmax"},
             {"softmax_grad", "aten::_softmax_backward_data"},
             {"attention", "aten::scaled_dot_product_attention"},
             {"attention_train", "aten::_flash_attention_forward"},
             {"attention_grad", "aten::_flash_attention_backward"},
             {"sum_to", "aten::sum"},
             {"contiguous", "aten::contiguous"},
             {"concat", "aten::cat"},
             {"cast", "aten::to"},
             {"argmax", "aten::argmax"},
             {"top_k", "aten::topk"}};

static const char *op_name(const syn_node *node, char *buf, size_t bytes) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].op, node->op) == 0) return known[i].name;
    }
    if (strcmp(node->op, "matmul_add") == 0) return "aten::addmm";
    snprintf(buf, bytes, "syntorch::%s", node->op);
    return buf;
}

/* Writes the name of the op's backward class, as in "LayernormBackward0". */
static void class_name(const char *op, char *buf, size_t bytes) {
    const size_t n = syn__kineto_class(op, strlen(op), buf, bytes - sizeof "Backward0");
    snprintf(buf + n, bytes - n, "Backward0");
}

static const syn__kineto_call calls[SYN_COMM_KIND_COUNT] = {
    [SYN_COMM_NONE] = {"wait_tensor", "wait", "wait", "wait", "wait_tensor", "wait"},
    [SYN_COMM_ALL_REDUCE] = {"all_reduce", "allreduce_", "all_reduce", "allreduce",
                             "all_reduce_coalesced", "allreduce_coalesced_"},
    [SYN_COMM_REDUCE] = {"reduce", "reduce_", "reduce", "reduce", "reduce", "reduce_"},
    [SYN_COMM_ALL_GATHER] = {"all_gather_into_tensor", "_allgather_base_", "all_gather",
                             "_allgather_base", "all_gather_into_tensor_coalesced",
                             "allgather_into_tensor_coalesced_"},
    [SYN_COMM_GATHER] = {"gather", "gather_", "gather", "gather", "gather", "gather_"},
    [SYN_COMM_SCATTER] = {"scatter", "scatter_", "scatter", "scatter", "scatter", "scatter_"},
    [SYN_COMM_BROADCAST] = {"broadcast", "broadcast_", "broadcast", "broadcast",
                            "broadcast_coalesced", "broadcast_"},
    [SYN_COMM_ALL_TO_ALL] = {"all_to_all_single", "alltoall_base_", "all_to_all", "all_to_all",
                             "all_to_all_single", "alltoall_"},
    [SYN_COMM_REDUCE_SCATTER] = {"reduce_scatter_tensor", "_reduce_scatter_base_", "reduce_scatter",
                                 "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
                                 "reduce_scatter_tensor_coalesced_"},
    [SYN_COMM_REDUCE_SCATTER_BLOCK] = {"reduce_scatter_tensor", "_reduce_scatter_base_",
                                       "reduce_scatter", "_reduce_scatter_base",
                                       "reduce_scatter_tensor_coalesced",
                                       "reduce_scatter_tensor_coalesced_"},
    [SYN_COMM_BARRIER] = {"barrier", "barrier", "barrier", "barrier", "barrier", "barrier"},
    [SYN_COMM_SEND] = {"send", "send", "send", "send", "send", "send"},
    [SYN_COMM_RECV] = {"recv", "recv_", "recv", "recv", "recv", "recv_"},
};

const syn__kineto_call *syn__kineto_call_of(syn_comm_kind kind) {
    return &calls[kind < SYN_COMM_KIND_COUNT ? kind : SYN_COMM_NONE];
}

const char *syn__kineto_name(const syn__kineto_event *event, const syn_node *node, char *buf,
                             size_t buf_bytes) {
    const syn__kineto_call *call = syn__kineto_call_of(node->comm);
    const bool list = node->n_inputs > 1;
    char name[128];
    switch ((syn__kineto_kind)event->kind) {
    case SYN__KINETO_STEP:
        snprintf(buf, buf_bytes, "ProfilerStep#%u", (unsigned)node->step);
        return buf;
    case SYN__KINETO_OPTIMIZER:
        return "Optimizer.step#AdamW.step";
    case SYN__KINETO_AUTOGRAD:
        class_name(node->op, name, sizeof name);
        snprintf(buf, buf_bytes, "autograd::engine::evaluate_function: %s", name);
        return buf;
    case SYN__KINETO_BACKWARD:
        class_name(node->op, buf, buf_bytes);
        return buf;
    case SYN__KINETO_FUNCTIONAL:
        snprintf(buf, buf_bytes, "_c10d_functional::%s",
                 list ? call->functional_list : call->functional);
        return buf;
    case SYN__KINETO_API:
        snprintf(buf, buf_bytes, "c10d::%s", list ? call->api_list : call->api);
        return buf;
    case SYN__KINETO_RECORD:
        return "record_param_comms";
    case SYN__KINETO_LIBRARY:
        snprintf(buf, buf_bytes, "%s:%s", event->device ? "nccl" : "gloo", call->library);
        return buf;
    case SYN__KINETO_WAIT:
        return "_c10d_functional::wait_tensor";
    default:
        return op_name(node, buf, buf_bytes);
    }
}

/* ---- Arguments ---- */

static syn__kineto_arg tensors_arg(const uint32_t *tensors, uint32_t n, bool as_list) {
    return (syn__kineto_arg){.type = as_list ? SYN__KINETO_TENSORS : SYN__KINETO_TENSOR,
                             .tensors = tensors,
                             .n_tensors = n};
}

static uint32_t put_each(const uint32_t *tensors, uint32_t n, syn__kineto_arg *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = tensors_arg(&tensors[i], 1, false);
    return n;
}

static syn__kineto_arg attribute_arg(const syn_attribute *a) {
    syn__kineto_arg arg = {.type = SYN__KINETO_TEXT, .text = a->text != NULL ? a->text : ""};
    if (a->type == SYN_VALUE_TEXT) return arg;
    arg.type = a->type == SYN_VALUE_F64    ? SYN__KINETO_FLOAT
               : a->type == SYN_VALUE_BOOL ? SYN__KINETO_BOOL
                                           : SYN__KINETO_INT;
    arg.i64 = a->i64;
    arg.f64 = a->f64;
    return arg;
}

static bool is_set(const syn_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const syn_attribute *a = &node->attributes[i];
        if (strcmp(a->name, name) == 0) return a->type != SYN_VALUE_TEXT && a->i64 != 0;
    }
    return false;
}

/* Marks the factors of matrix products that would be transposed views in PyTorch. */
static void rotary_factors(const syn_node *node, syn__kineto_arg *args) {
    const bool added = strcmp(node->op, "matmul_add") == 0;
    if (strcmp(node->op, "linear") == 0 && node->n_inputs > 1)
        args[1].transposed = !is_set(node, "transpose_w");
    if ((added || strcmp(node->op, "matmul") == 0) && node->n_inputs > (added ? 2u : 1u)) {
        args[added].transposed = is_set(node, "transpose_a");
        args[added + 1].transposed = is_set(node, "transpose_b");
    }
}

static uint32_t op_inputs(const syn_node *node, syn__kineto_arg *out) {
    const bool product = strcmp(node->op, "linear") == 0 || strncmp(node->op, "matmul", 6) == 0;
    uint32_t n = put_each(node->inputs, node->n_inputs, out);
    if (product) {
        rotary_factors(node, out);
        return n;
    }
    for (uint32_t i = 0; i < node->n_attributes && n < SYN__KINETO_MAX_ARGS; i++)
        out[n++] = attribute_arg(&node->attributes[i]);
    return n;
}

/* Fills in the tensor arguments of a collective call. api: the result tensors are arguments, too.
   If the result replaces the input, it is the only argument with and without `api`, because
   functional collectives first copy the input to it. */
static uint32_t call_inputs(const syn_node *node, bool api, syn__kineto_arg *out) {
    const bool replaced = node->comm == SYN_COMM_ALL_REDUCE || node->comm == SYN_COMM_BROADCAST ||
                          node->comm == SYN_COMM_REDUCE || node->comm == SYN_COMM_RECV;
    uint32_t n = 0;
    if (node->n_outputs > 0 && (api || replaced))
        out[n++] = tensors_arg(node->outputs, node->n_outputs, true);
    if (node->n_inputs > 0 && (n == 0 || !replaced))
        out[n++] = tensors_arg(node->inputs, node->n_inputs, true);
    return n;
}

static uint32_t put_reduction(const syn_node *node, syn__kineto_arg *out) {
    if (node->reduce < 0) return 0;
    *out = (syn__kineto_arg){.type = SYN__KINETO_TEXT,
                             .text = syn_reduce_name((syn_reduce)node->reduce)};
    return 1;
}

uint32_t syn__kineto_inputs(const syn__kineto_event *event, const syn_node *node,
                            syn__kineto_arg *out) {
    uint32_t n = 0;
    switch ((syn__kineto_kind)event->kind) {
    case SYN__KINETO_OP:
        return op_inputs(node, out);
    case SYN__KINETO_FUNCTIONAL:
        if (node->n_inputs > 0)
            out[n++] = tensors_arg(node->inputs, node->n_inputs, node->n_inputs > 1);
        return n + put_reduction(node, out + n);
    case SYN__KINETO_API:
        n = call_inputs(node, true, out);
        return n + put_reduction(node, out + n);
    case SYN__KINETO_RECORD:
        return call_inputs(node, false, out);
    case SYN__KINETO_LIBRARY:
        n = call_inputs(node, false, out);
        return n == 0 ? 0 : put_each(out[0].tensors, out[0].n_tensors, out);
    case SYN__KINETO_WAIT:
        return put_each(node->outputs, node->n_outputs, out);
    default:
        return 0;
    }
}

uint32_t syn__kineto_outputs(const syn__kineto_event *event, const syn_node *node,
                             syn__kineto_arg *out) {
    switch ((syn__kineto_kind)event->kind) {
    case SYN__KINETO_OP:
    case SYN__KINETO_WAIT:
        return put_each(node->outputs, node->n_outputs, out);
    case SYN__KINETO_FUNCTIONAL:
    case SYN__KINETO_API:
    case SYN__KINETO_RECORD:
        if (node->n_outputs == 0) return 0;
        out[0] = tensors_arg(node->outputs, node->n_outputs,
                             node->n_outputs > 1 || event->kind != SYN__KINETO_FUNCTIONAL);
        return 1;
    default:
        return 0;
    }
}

/* ---- Tensors ---- */

void syn__kineto_shape(const syn_spec *spec, bool transposed, syn_spec *out,
                       int64_t strides[SYN_MAX_RANK]) {
    *out = *spec;
    int64_t step = 1;
    for (int32_t d = spec->rank; d-- > 0;) {
        strides[d] = step;
        step *= spec->dims[d] > 0 ? spec->dims[d] : 1;
    }
    if (!transposed || spec->rank < 2) return;
    const int32_t a = spec->rank - 1, b = spec->rank - 2;
    const int64_t stride = strides[a];
    out->dims[a] = spec->dims[b];
    out->dims[b] = spec->dims[a];
    strides[a] = strides[b];
    strides[b] = stride;
}

static const struct {
    const char *type, *scalar;
} types[SYN_DTYPE_COUNT] = {[SYN_F32] = {"float", "Float"},
                            [SYN_F16] = {"c10::Half", "Half"},
                            [SYN_BF16] = {"c10::BFloat16", "BFloat16"},
                            [SYN_I32] = {"int", "Int"},
                            [SYN_I64] = {"long int", "Long"}};

const char *syn__kineto_type(int32_t dtype) {
    return dtype >= 0 && dtype < SYN_DTYPE_COUNT ? types[dtype].type : "";
}

const char *syn__kineto_scalar_type(int32_t dtype) {
    return dtype >= 0 && dtype < SYN_DTYPE_COUNT ? types[dtype].scalar : "Byte";
}

static syn_status count(syn__walk *walk, const uint32_t *tensors, uint32_t n, int64_t *elems,
                        int32_t *dtype, syn_error *err) {
    *elems = 0;
    for (uint32_t i = 0; i < n; i++) {
        const syn_graph_tensor *t;
        SYN_TRY(syn__walk_tensor(walk, tensors[i], &t, err));
        if (*dtype < 0) *dtype = t->spec.dtype;
        *elems += syn_spec_elems(&t->spec);
    }
    return SYN_OK;
}

syn_status syn__kineto_elems(syn__walk *walk, const syn_node *node, int64_t *in, int64_t *out,
                             int32_t *dtype, syn_error *err) {
    *dtype = -1;
    SYN_TRY(count(walk, node->inputs, node->n_inputs, in, dtype, err));
    SYN_TRY(count(walk, node->outputs, node->n_outputs, out, dtype, err));
    if (node->kind == SYN_NODE_RECV) *in = *out;
    if (node->kind == SYN_NODE_SEND) *out = *in;
    if (*dtype >= 0 || node->comm_bytes == 0) return SYN_OK;
    /* Without tensors, the elements are bytes. */
    *in = *out = (int64_t)(node->comm_bytes < INT64_MAX ? node->comm_bytes : INT64_MAX);
    return SYN_OK;
}

const syn_graph_group *syn__kineto_group(const syn_graph *graph, const syn_node *node) {
    return node->group != 0 ? syn_graph_group_by_id(graph, node->group) : NULL;
}

const char *syn__kineto_group_name(const syn_graph_group *group, char buf[16]) {
    snprintf(buf, 16, "%u", group != NULL ? (unsigned)group->id : 0u);
    return buf;
}
