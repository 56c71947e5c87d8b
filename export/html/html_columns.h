/* What a page holds of a trace: a header in JSON, then columns of numbers, one after the other for
   each rank. A column is a sequence of varints (LEB128); signed numbers are zigzag. Columns that
   are equal byte by byte, as those of most ranks are, are held once. */
#ifndef EXPORT_HTML_COLUMNS_H
#define EXPORT_HTML_COLUMNS_H

#include "export/text/bytes.h"
#include "syntorch/base/intern.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a node: id, gap, tag and base are signed: differences from the node before, from the end of
   the one before in its lane, the tag itself, from the tensor's own number. scope, label, op and
   attributes are numbers of texts; lane is 0 for what is not shown, else the lane's place plus one.
   Times are ns, a number << its size: sizes are 0 but in large measured traces, whose times are
   rounded to SYN__TIME_BITS, gaps also to steps of which the run has SYN__TIME_STEPS or more; gaps
   count from the end that results, and wait, the first part of duration, is cut to it. critical, of
   PyTorch's recordings: the node's time on the critical path in ns (critical.h). comm, group, peer
   are 0 or the value plus one (of groups the place). uses: number of inputs, inputs, number of
   outputs, outputs; tensors as signed distance: of an input from `last`, of an output from `last`,
   which it then becomes; it starts at 0 and goes on from node to node. deps: how many, and of each
   the distance back << SYN_DEP_COUNT | a bit for each class. Of a tensor: name (0:
   "scope/label:position" of what makes it, else a text plus one), spec (a text), bytes, flags,
   base, part (0: the whole, else a place in the rank's own "parts", texts, plus one). */
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
    syn__buf open[SYN__COLUMN_COUNT]; /* of the rank at hand */
    syn_intern held;
    uint32_t *whose; /* of each rank its columns, by number */
    size_t n_ranks, whose_cap;
} syn__columns;

/* Beyond 2^53 - 1, which is as far as a browser counts, numbers are cut. */
void syn__columns_put(syn__columns *c, syn__column column, uint64_t value);
void syn__columns_put_signed(syn__columns *c, syn__column column, int64_t value);
/* The rank is whole. One of nothing but zeros is held as no bytes. */
syn_status syn__columns_end_rank(syn__columns *c, syn_error *err) SYN_MUST_USE;
/* The rank has the columns of the one that ended as number `like`, but for those that were put. */
syn_status syn__columns_end_copy(syn__columns *c, size_t like, syn_error *err) SYN_MUST_USE;
/* Appends how many columns there are, each after its length, and which are whose. */
syn_status syn__columns_write(const syn__columns *c, syn__buf *out, syn_error *err) SYN_MUST_USE;
void syn__columns_free(syn__columns *c);

#ifdef __cplusplus
}
#endif
#endif
