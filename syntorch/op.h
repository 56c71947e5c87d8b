/* The types of the op table. Each op has one row in ops/ops.def, which describes it completely. */
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

/* The value of an attribute. The op's attribute list (syn_opdef.attrs) gives its type. Seeds are
   integers that the trace's hash ignores. */
typedef union syn_attr {
    int64_t i;
    double f;
} syn_attr;

/* An input or output in a call of an op. */
typedef struct syn_operand {
    syn_spec spec;
    int64_t strides[SYN_MAX_RANK]; /* in elements */
    int64_t offset;                /* in elements from the storage's start; already added to data */
    void *data;                    /* address of element 0; NULL on meta and while shapes are
                                      inferred */
} syn_operand;

/* The operands from which the gradient of input number `input` (0 to 3) is computed, and which are
   therefore saved for backward. X0 to X2 are inputs (bits 0 to 7), and Y0 is an output (bits 8 to
   15). */
#define SYN_SAVE(input, what) ((uint64_t)(SYN_SAVE_##what) << (16 * (input)))
#define SYN_SAVE_X0           1
#define SYN_SAVE_X1           2
#define SYN_SAVE_X2           4
#define SYN_SAVE_X0X1         3
#define SYN_SAVE_X0X2         5
#define SYN_SAVE_X1X2         6
#define SYN_SAVE_X1X5Y0       (2 | 32 | 256)
#define SYN_SAVE_Y0           256
#define SYN_SAVE_X0Y1         (1 | 512)
#define SYN_SAVE_ALL          0xffff

typedef struct syn_opdef syn_opdef;
typedef struct syn_grad_call syn_grad_call; /* gradient.h */

typedef struct syn_call syn_call;
typedef syn_status (*syn_kernel)(syn_call *call);

/* One call of an op. The op's functions get it as their argument. */
struct syn_call {
    const syn_opdef *def;
    int n_in, n_out;
    syn_operand *in, *out;
    const syn_attr *attr;
    int n_attr;
    const syn_group *group; /* NULL except for communication ops */
    syn_comm *comm;         /* NULL in a world of one rank */
    syn_workers *workers;   /* the rank's threads; NULL: the calling thread only */
    syn_arena *arena;       /* scratch memory, valid until the kernel returns */
    void *device;           /* the backend's state (backend.h), such as a stream */
    syn_error *err;
    /* A communication kernel moves no data itself. It describes the operation in `comm_call` and
       `segments`, and its caller runs the operation. When the operation is done, the caller calls
       `finish`, unless it is NULL, and then frees `scratch`, which is NULL or from syn_malloc. */
    syn_comm_call comm_call;
    syn_segment *segments; /* has space for one segment per input and output */
    void (*finish)(syn_call *call);
    void *scratch;
};

typedef struct syn_cost {
    uint64_t flops; /* a multiplication and an addition count as one flop each */
    uint64_t bytes_read, bytes_written;
} syn_cost;

struct syn_opdef {
    syn_op op; /* equals its index in the op table */
    const char *name;
    syn_category category;
    int min_in, max_in, n_out; /* n_out -1: SYN_OPF_INPLACE_LIST */
    uint32_t flags;
    syn_comm_kind comm;
    /* Names and types of the attributes, in order: "axis:i scale:f seed:s". See ops.def. */
    const char *attrs;
    /* Checks inputs and attributes, and sets the specs of the outputs. For views it also sets their
       strides and offset. */
    syn_status (*infer)(syn_call *call);
    void (*cost)(const syn_call *call, syn_cost *cost);
    syn_kernel cpu; /* NULL for views */
    /* The gradient rule, which builds the gradients of the inputs. NULL: the op has none; see
       SYN_OPF_CONSTANT. */
    void (*grad)(syn_grad_call *call);
    uint64_t saves; /* see SYN_SAVE */
};

/* The number of inputs that an op overwrites (SYN_OPF_INPLACE); 0 for other ops. attr: the
   attributes of the call. */
static inline int syn_opdef_versions(const syn_opdef *def, const syn_attr *attr) {
    const uint32_t n = def->flags >> 8;
    return n == 255 ? (int)attr[0].i : (int)n;
}

SYN_API_END
#endif
