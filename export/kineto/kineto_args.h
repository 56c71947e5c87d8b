/* Names and arguments of the events of a plan, in the form in which PyTorch records them. */
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
    const uint32_t *tensors; /* one tensor or a list; points into the node */
    uint32_t n_tensors;
    bool transposed; /* the tensor's last two dimensions are swapped */
    int64_t i64;
    double f64;
    const char *text;
} syn__kineto_arg;

/* The names of a kind of collective at the levels at which PyTorch records the call. */
typedef struct syn__kineto_call {
    const char *functional, *api, *library, *name; /* "all_reduce", "allreduce_", ... */
    const char *functional_list, *api_list;        /* names if the call has several tensors */
} syn__kineto_call;

const syn__kineto_call *syn__kineto_call_of(syn_comm_kind kind);

/* The name of an event, whose node is `node`; a step's name is ProfilerStep#N. The result is valid
   as long as the node, or is stored in `buf`. */
const char *syn__kineto_name(const syn__kineto_event *event, const syn_node *node, char *buf,
                             size_t buf_bytes);

/* Fill `out` with the event's inputs or outputs and return their number, at most
   SYN__KINETO_MAX_ARGS. */
#define SYN__KINETO_MAX_ARGS (SYN_MAX_INPUTS + SYN_MAX_ATTRS)
uint32_t syn__kineto_inputs(const syn__kineto_event *event, const syn_node *node,
                            syn__kineto_arg *out);
uint32_t syn__kineto_outputs(const syn__kineto_event *event, const syn_node *node,
                             syn__kineto_arg *out);

/* Sets the shape of an argument in *out, and its strides in elements. transposed: its last two
   dimensions are swapped. */
void syn__kineto_shape(const syn_spec *spec, bool transposed, syn_spec *out,
                       int64_t strides[SYN_MAX_RANK]);
/* PyTorch's two names of a dtype: "float", "c10::Half", ... and "Float", "Half", ... */
const char *syn__kineto_type(int32_t dtype);
const char *syn__kineto_scalar_type(int32_t dtype);
/* Counts the elements of a communication's inputs and outputs, over all its tensors, and finds
   their dtype. */
syn_status syn__kineto_elems(syn__walk *walk, const syn_node *node, int64_t *in, int64_t *out,
                             int32_t *dtype, syn_error *err) SYN_MUST_USE;
/* The group of the node; NULL: all ranks. */
const syn_graph_group *syn__kineto_group(const syn_graph *graph, const syn_node *node);
/* The group's name in PyTorch: its number, as in "1"; "0" for the group of all ranks. */
const char *syn__kineto_group_name(const syn_graph_group *group, char buf[16]);

#ifdef __cplusplus
}
#endif
#endif
