/* Names and arguments of a plan's events, as PyTorch has them. */
#ifndef EXPORT_KINETO_ARGS_H
#define EXPORT_KINETO_ARGS_H

#include "export/kineto/kineto_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__kineto_arg_type {
    SYN__KINETO_TENSOR,
    SYN__KINETO_TENSORS, /* a list */
    SYN__KINETO_INT,
    SYN__KINETO_FLOAT,
    SYN__KINETO_BOOL,
    SYN__KINETO_TEXT
} syn__kineto_arg_type;

typedef struct syn__kineto_arg {
    syn__kineto_arg_type type;
    const uint32_t *tensors; /* one, or those of the list; in the node's record */
    uint32_t n_tensors;
    bool transposed; /* the tensor's last two dimensions are swapped */
    int64_t i64;
    double f64;
    const char *text;
} syn__kineto_arg;

/* What the op names of a collective are made of. */
typedef struct syn__kineto_call {
    const char *functional, *api, *library, *name; /* "all_reduce", "allreduce_", ... */
    const char *functional_list, *api_list;        /* of several tensors */
} syn__kineto_call;

const syn__kineto_call *syn__kineto_call_of(syn_comm_kind kind);

/* Of the event whose node `node` is (steps: ProfilerStep#N). Valid as long as the node's record,
   or kept in `buf`. */
const char *syn__kineto_name(const syn__kineto_event *event, const syn_node *node, char *buf,
                             size_t buf_bytes);

/* The arguments that go in, or come out. */
#define SYN__KINETO_MAX_ARGS (SYN_MAX_INPUTS + SYN_MAX_ATTRS)
uint32_t syn__kineto_inputs(const syn__kineto_event *event, const syn_node *node,
                            syn__kineto_arg *out);
uint32_t syn__kineto_outputs(const syn__kineto_event *event, const syn_node *node,
                             syn__kineto_arg *out);

/* The spec as the argument shows it, and its strides, in elements. */
void syn__kineto_shape(const syn_spec *spec, bool transposed, syn_spec *out,
                       int64_t strides[SYN_MAX_RANK]);
/* "float", "c10::Half", ...; and "Float", "Half", ... */
const char *syn__kineto_type(int32_t dtype);
const char *syn__kineto_scalar_type(int32_t dtype);
/* Elements of a communication, in all, and their type. */
syn_status syn__kineto_elems(syn__walk *walk, const syn_node *node, int64_t *in, int64_t *out,
                             int32_t *dtype, syn_error *err) SYN_MUST_USE;
/* The node's group; NULL: all ranks. */
const syn_graph_group *syn__kineto_group(const syn_graph *graph, const syn_node *node);
/* "1"; "0" of all ranks. */
const char *syn__kineto_group_name(const syn_graph_group *group, char buf[16]);

#ifdef __cplusplus
}
#endif
#endif
