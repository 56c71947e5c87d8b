/* The data of a trace in an HTML report: a JSON header, and then columns of numbers for each rank.
   A column is a sequence of varints (LEB128); signed numbers are zigzag-encoded. Byte-identical
   columns are stored once; most ranks have the same columns. */
#ifndef EXPORT_HTML_COLUMNS_H
#define EXPORT_HTML_COLUMNS_H

#include "export/text/bytes.h"
#include "syntorch/base/intern.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of nodes:
   - id, gap, tag, base: signed. id is the difference from the previous node, gap the time from
     the end of the previous node on the track, tag the tag itself, and base the difference from
     the tensor's own number.
   - scope, label, op, attributes: string numbers.
   - lane: 0 for nodes that are not shown, otherwise the index of the track plus one.
   - gap, duration, wait: ns, stored as a number and its size, the number of bits by which it is
     shifted left. Sizes are 0 except in large measured traces, whose times are rounded to
     SYN__TIME_BITS bits, and gaps also to steps of which the run has at least SYN__TIME_STEPS. A
     gap counts from the rounded end. wait is the first part of duration and is limited to it.
   - critical: for PyTorch traces, the node's time on the critical path in ns (critical.h).
   - comm, group, peer: 0, or the value plus one (for groups, the index plus one).
   - uses: number of inputs, inputs, number of outputs, outputs. Tensors are signed differences:
     of an input from `last`, of an output from `last`, which it then replaces. `last` starts at
     0 and continues from node to node.
   - deps: their number, and for each the distance back << SYN_DEP_COUNT | one bit per class.

   Columns of tensors: name (0: "scope/label:position" of the producer, otherwise a string number
   plus one), spec (a string number), bytes, flags, base, part (0: not sharded, otherwise an index
   into the rank's own strings "parts", plus one). */
#define SYN__COLUMN_LIST(X)           \
    X(ID, "id")                       \
    X(KIND, "kind")                   \
    X(CATEGORY, "category")           \
    X(FLAGS, "flags")                 \
    X(PHASE, "phase")                 \
    X(STEP, "step")                   \
    X(SCOPE, "scope")                 \
    X(LABEL, "label")                 \
    X(OP, "op")                       \
    X(ATTRIBUTES, "attributes")       \
    X(LANE, "lane")                   \
    X(GAP, "gap")                     \
    X(GAP_SIZE, "gap_size")           \
    X(DURATION, "duration")           \
    X(DURATION_SIZE, "duration_size") \
    X(WAIT, "wait")                   \
    X(WAIT_SIZE, "wait_size")         \
    X(CRITICAL, "critical")           \
    X(FLOPS, "flops")                 \
    X(READ, "read")                   \
    X(WRITTEN, "written")             \
    X(COMM, "comm")                   \
    X(GROUP, "group")                 \
    X(NUMBER, "number")               \
    X(COMM_BYTES, "comm_bytes")       \
    X(PEER, "peer")                   \
    X(TAG, "tag")                     \
    X(USES, "uses")                   \
    X(DEPS, "deps")                   \
    X(TENSOR_NAME, "tensor_name")     \
    X(TENSOR_SPEC, "tensor_spec")     \
    X(TENSOR_BYTES, "tensor_bytes")   \
    X(TENSOR_FLAGS, "tensor_flags")   \
    X(TENSOR_BASE, "tensor_base")     \
    X(TENSOR_PART, "tensor_part")

typedef enum syn__column {
#define SYN_X(id, name) SYN__COLUMN_##id,
    SYN__COLUMN_LIST(SYN_X)
#undef SYN_X
        SYN__COLUMN_COUNT
} syn__column;

#define SYN__TIME_BITS  7
#define SYN__TIME_STEPS (1u << 21)

const char *syn__column_name(syn__column column);

typedef struct syn__columns {
    syn__buf open[SYN__COLUMN_COUNT]; /* columns of the current rank */
    syn_intern held;
    uint32_t *whose; /* for each rank, the numbers of its columns */
    size_t n_ranks, whose_cap;
} syn__columns;

/* Numbers beyond 2^53 - 1, the largest integer of JavaScript, are clamped. */
void syn__columns_put(syn__columns *c, syn__column column, uint64_t value);
void syn__columns_put_signed(syn__columns *c, syn__column column, int64_t value);
/* Ends the columns of a rank. A column of only zeros is stored as no bytes. */
syn_status syn__columns_end_rank(syn__columns *c, syn_error *err) SYN_MUST_USE;
/* Ends a rank that has the columns of rank number `like`, in order of ending, except for the
   columns to which values were put. */
syn_status syn__columns_end_copy(syn__columns *c, size_t like, syn_error *err) SYN_MUST_USE;
/* Appends the number of columns, each column with its length, and the columns of each rank. */
syn_status syn__columns_write(const syn__columns *c, syn__buf *out, syn_error *err) SYN_MUST_USE;
void syn__columns_free(syn__columns *c);

#ifdef __cplusplus
}
#endif
#endif
