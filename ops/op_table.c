/* The op table, built from ops.def. */
#include "ops/rules.h"

const syn_opdef syn_op_table[SYN_OP_COUNT] = {
    [SYN_OP_NONE] = {SYN_OP_NONE, "none", SYN_CATEGORY_OTHER, 0, 0, 0, 0, SYN_COMM_NONE, "", NULL,
                     NULL, NULL, NULL, 0},
#define SYN_OP(id, name, category, min_in, max_in, n_out, flags, comm, attrs, infer, cost, cpu, \
               grad, saves)                                                                     \
    [SYN_OP_##id] = {SYN_OP_##id,                                                               \
                     name,                                                                      \
                     SYN_CATEGORY_##category,                                                   \
                     min_in,                                                                    \
                     max_in,                                                                    \
                     n_out,                                                                     \
                     flags,                                                                     \
                     SYN_COMM_##comm,                                                           \
                     attrs,                                                                     \
                     infer,                                                                     \
                     cost,                                                                      \
                     cpu,                                                                       \
                     grad,                                                                      \
                     saves},
#include "ops/ops.def"
};
