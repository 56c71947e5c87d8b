/* The data of a trace in an HTML report: a JSON header, followed by columns of numbers for each
   rank. A column is a sequence of varints (LEB128); signed numbers are zigzag-encoded. Equal
   columns are stored once, because most ranks of a run have the same columns. */
#ifndef EXPORT_HTML_COLUMNS_H
#define EXPORT_HTML_COLUMNS_H

#include "export/text/bytes.h"
#include "syntorch/base/intern.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of nodes:
   - id, gap, tag, base: signed. id is the difference from the id of the previous node. gap is the
     time from the end of the previous node on the same track to the start of this node. tag is the
     tag of a message.
   - scope, label, op, attributes: indices into the header's strings ("texts").
   - lane: 0 for nodes that are not shown, otherwise the index of the track plus one.
   - gap, duration, wait: ns. Each is stored in two columns: a number, and a size, which says by how
     many bits the number must be shifted left. Sizes are 0 except in large measured traces, which
     are rounded: numbers are rounded to SYN__TIME_BITS bits, and gaps are also multiples of a power
     of two that divides the run into at least SYN__TIME_STEPS steps. A gap is measured from the
     rounded end of the previous node. wait is the time for which the node waits for other ranks; it
     is the first part of duration.
   - critical: for PyTorch traces, the node's time on the critical path in ns (critical.h).
   - comm, group, peer: 0 for none, otherwise the value plus one (for groups, the index plus one).
   - uses: the number of inputs, the inputs, the number of outputs, the outputs. A tensor is stored
     as a signed difference from `last`, the output that was stored before it: `last` - input, or
     output - `last`. `last` is 0 before the rank's first output.
   - deps: the number of dependencies, and for each (distance back << SYN_DEP_COUNT) | classes,
     where the distance is counted in nodes and classes has one bit per dependency class.

   Columns of tensors: name (0: "scope/label:position" of the producer; otherwise an index into
   "texts", plus one), spec (an index into "texts"), bytes, flags, base (the difference between the
   numbers of the tensor and its base tensor), part (0: not sharded; otherwise an index into the
   rank's own strings "parts", plus one). */
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
    syn__buf open[SYN__COLUMN_COUNT]; /* columns of the current rank, not stored yet */
    syn_intern held;
    uint32_t *whose; /* per rank and column: its number in `held` */
    size_t n_ranks, whose_cap;
} syn__columns;

/* Append a value to a column of the current rank. Numbers beyond 2^53 - 1, the largest integer of
   JavaScript, are clamped. */
void syn__columns_put(syn__columns *c, syn__column column, uint64_t value);
void syn__columns_put_signed(syn__columns *c, syn__column column, int64_t value);
/* Stores the columns of the current rank. A column of only zeros is stored as no bytes. */
syn_status syn__columns_end_rank(syn__columns *c, syn_error *err) SYN_MUST_USE;
/* Ends a rank that shares the columns of an earlier rank. like: number of ranks that ended before
   that earlier rank. If the caller put values into some columns of this rank, these columns are
   stored and not shared. */
syn_status syn__columns_end_copy(syn__columns *c, size_t like, syn_error *err) SYN_MUST_USE;
/* Appends the number of stored columns, each stored column after its length, and for each rank the
   numbers of its columns. */
syn_status syn__columns_write(const syn__columns *c, syn__buf *out, syn_error *err) SYN_MUST_USE;
void syn__columns_free(syn__columns *c);

#ifdef __cplusplus
}
#endif
#endif
