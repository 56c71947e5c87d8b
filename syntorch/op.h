/* The op table's types. One row of ops/ops.def answers every question about an op. */
#ifndef SYNTORCH_OP_H
#define SYNTORCH_OP_H

#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "syntorch/communicator.h"
#include "syntorch/graph/op_names.h"

SYN_API_BEGIN

typedef enum syn_op {
    SYN_OP_NONE,
#define SYN_OP(id, ...) SYN_OP_##id,
#include "ops/ops.def"
    SYN_OP_COUNT
} syn_op;

/* An attribute's value; the op's attribute list says which member counts. Seeds are integers that
   the trace hash leaves out. */
typedef union syn_attr {
    int64_t i;
    double f;
} syn_attr;

/* An input or output as an op's functions see it. */
typedef struct syn_operand {
    syn_spec spec;
    int64_t strides[SYN_MAX_RANK]; /* elements */
    int64_t offset;                /* elements from the storage's start; already applied to data */
    void *data;                    /* NULL on meta and while shapes are inferred */
} syn_operand;

/* Operands that the gradient of input `input` (0 to 3) is computed from, and which stay until
   then. */
#define SYN_KEEP(input, what) ((uint64_t)(SYN_KEEP_##what) << (16 * (input)))
#define SYN_KEEP_X0           1
#define SYN_KEEP_X1           2
#define SYN_KEEP_X0X1         3
#define SYN_KEEP_X1X2         6
#define SYN_KEEP_Y0           256
#define SYN_KEEP_ALL          0xffff

typedef struct syn_opdef syn_opdef;
typedef struct syn_grad_call syn_grad_call; /* gradient.h */

typedef struct syn_call syn_call;
typedef syn_status (*syn_kernel)(syn_call *call);

/* What an op's functions see. */
struct syn_call {
    const syn_opdef *def;
    int n_in, n_out;
    syn_operand in[SYN_MAX_INPUTS], out[SYN_MAX_OUTPUTS];
    const syn_attr *attr;
    int n_attr;
    const syn_group *group; /* communication only */
    syn_comm *comm;
    syn_workers *workers; /* threads for the kernel; NULL: the caller's alone */
    syn_arena *arena;     /* memory for the kernel, while it runs */
    void *device;         /* of the backend (backend.h): a stream, say */
    syn_error *err;
    /* A communication kernel moves nothing itself. It says here what its caller is to exchange with
       other ranks, in a list of `segments`, and what to do when that is done (NULL: nothing).
       `scratch` (of syn_malloc, or NULL) is freed after that. */
    syn_exchange exchange;
    syn_segment segments[SYN_MAX_LIST];
    void (*finish)(syn_call *call);
    void *scratch;
};

typedef struct syn_cost {
    uint64_t flops; /* multiply and add count one each */
    uint64_t bytes_read, bytes_written;
} syn_cost;

struct syn_opdef {
    syn_op op; /* index in the op table */
    const char *name;
    syn_category category;
    int min_in, max_in, n_out; /* n_out -1: of SYN_OPF_INPLACE_LIST */
    uint32_t flags;
    syn_comm_kind comm;
    /* "axis:i scale:f seed:s": names and types of the attributes, in order; see ops.def. */
    const char *attrs;
    /* Checks inputs and attributes, sets the outputs' specs (of views also strides and offset). */
    syn_status (*infer)(syn_call *call);
    void (*cost)(const syn_call *call, syn_cost *cost);
    syn_kernel cpu; /* NULL: views */
    /* Builds the gradients of the inputs; NULL: there is no rule, see SYN_OPF_CONSTANT. */
    void (*grad)(syn_grad_call *call);
    uint64_t keeps; /* SYN_KEEP */
};

/* The n of SYN_OPF_INPLACE(n); 0 of other ops. attr: of the call. */
static inline int syn_opdef_versions(const syn_opdef *def, const syn_attr *attr) {
    const uint32_t n = def->flags >> 8;
    return n == 255 ? (int)attr[0].i : (int)n;
}

SYN_API_END
#endif
