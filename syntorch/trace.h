/* A trace: the ops that one rank called. Rows of two tables, nodes (op calls) and tensors,
   with everything of variable length in shared arrays and everything repeated interned. A node may
   only use tensors that exist, so row order is a topological order. Rows outlive the data, until
   syn_forget drops them: those behind then move up. A row also has a number, which counts all rows
   of its table that were ever made and never changes; until one is dropped the two are equal. */
#ifndef SYNTORCH_TRACE_H
#define SYNTORCH_TRACE_H

#include "syntorch/base/intern.h"
#include "syntorch/graph/work.h"
#include "syntorch/hardware/hardware.h"
#include "syntorch/op.h"

SYN_API_BEGIN

typedef struct syn_trace_node {
    uint16_t op, group; /* group: index into trace->groups + 1; 0 none */
    uint8_t phase, n_in, n_out, stream;
    uint32_t scope, label; /* ids in texts; label 0: the op's name */
    uint32_t attrs;        /* id in blobs */
    uint32_t first_in;     /* into inputs */
    uint32_t first_out;    /* tensor row; outputs are consecutive */
} syn_trace_node;

typedef struct syn_trace_tensor {
    uint32_t spec;     /* id in specs */
    uint32_t layout;   /* id in layouts + 1; 0: contiguous from offset 0 */
    uint32_t producer; /* node row; 0: parameter, input or state, or dropped */
    uint32_t base;     /* tensor row that owns the storage */
    uint32_t name;     /* id in texts + 1; 0: derived from the producer */
    uint16_t flags;    /* SYN_TENSOR_... */
    uint16_t shard;    /* of a parameter: index in shards + 1; 0: it is whole */
} syn_trace_tensor;

/* Flags of rows beside those that graphs have: requires a gradient; because syn_require_grad named
   it, not as a result. */
#define SYN_TENSOR_GRAD        256u
#define SYN_TENSOR_LEAF        512u
#define SYN_TENSOR_GRAPH_FLAGS 255u

/* Strides and offset in elements of a tensor that is not plainly contiguous. */
typedef struct syn_layout {
    int64_t strides[SYN_MAX_RANK];
    int64_t offset;
} syn_layout;

/* From `row` on, until the next run, rows have the numbers from `number` on. */
typedef struct syn_trace_run {
    uint32_t row, number;
} syn_trace_run;

/* The numbers of a table's rows; before the first run they are the rows. */
typedef struct syn_trace_numbers {
    syn_trace_run *runs; /* ascending, both */
    size_t n_runs, runs_cap;
} syn_trace_numbers;

/* Node row with which a step began that was not dropped before it had any. */
typedef struct syn_trace_step {
    uint32_t node, step;
} syn_trace_step;

/* Measured times of a node: 20 bytes. start in ns since the context began, as two halves. */
typedef struct syn_trace_time {
    uint32_t start_low, start_high;
    float wall_ns, cpu_ns, wait_ns;
} syn_trace_time;

typedef struct syn_trace {
    const syn_opdef *ops;  /* the op table; NULL before the first node */
    syn_trace_node *nodes; /* row 0 unused: node ids count from 1 */
    size_t n_nodes, nodes_cap;
    syn_trace_tensor *tensors; /* row 0 is the poisoned tensor */
    size_t n_tensors, tensors_cap;
    uint32_t *inputs; /* tensor rows */
    size_t n_inputs, inputs_cap;
    syn_trace_time *times; /* NULL while nothing was timed; then as long as nodes */
    size_t times_cap;
    syn_work work;         /* empty unless it is kept */
    syn_trace_step *steps; /* ascending; nodes before the first are of step 0 */
    size_t n_steps, steps_cap;
    uint32_t step;     /* begun last */
    syn_shard *shards; /* into which parameters are cut, each kind once */
    size_t n_shards, shards_cap;
    syn_trace_numbers node_numbers, tensor_numbers;
    struct syn_trace_hashed { /* what the hash is over so far, rows that were dropped among it */
        uint64_t nodes, tensors;
        uint32_t next_node, next_tensor; /* first rows that it is not over yet */
    } hashed;
    bool unhashed;     /* rows were dropped that the hash did not go over */
    syn_group *groups; /* copies: a trace outlives its communicator */
    size_t n_groups, groups_cap;
    syn_intern texts, specs, layouts, blobs;
    int32_t rank, world_size;
} syn_trace;

syn_status syn_trace_new(syn_trace **out, int32_t rank, int32_t world_size,
                         syn_error *err) SYN_MUST_USE;
void syn_trace_free(syn_trace *trace);

/* Which row has a number; 0: none any more, or none yet. And which number a row has. A tensor's
   number is the id of its syn_tensor. */
uint32_t syn_trace_tensor_row(const syn_trace *trace, uint32_t number);
uint32_t syn_trace_tensor_number(const syn_trace *trace, uint32_t row);
uint32_t syn_trace_node_row(const syn_trace *trace, uint32_t number);
uint32_t syn_trace_node_number(const syn_trace *trace, uint32_t row);
/* The step of a node row. */
uint32_t syn_trace_step_of(const syn_trace *trace, uint32_t node);

/* Spec of a tensor row; layout as strides and offset. */
const syn_spec *syn_trace_spec(const syn_trace *trace, uint32_t tensor);
void syn_trace_operand(const syn_trace *trace, uint32_t tensor, syn_operand *out);
const char *syn_trace_text(const syn_trace *trace, uint32_t id);
/* Name of a tensor row: "wte.weight", or of what a node made "h.3.attn/qkv:0", in buf. */
const char *syn_trace_tensor_name(const syn_trace *trace, uint32_t tensor, char buf[SYN_MAX_NAME]);
/* Index + 1 of the group with this one's id in trace->groups, where a copy is added if
   it is new. */
syn_status syn_trace_add_group(syn_trace *trace, const syn_group *group, uint16_t *row,
                               syn_error *err) SYN_MUST_USE;
/* The row of a node's op. */
static inline const syn_opdef *syn_trace_op(const syn_trace *trace, const syn_trace_node *node) {
    return &trace->ops[node->op];
}
/* How many of a node's outputs are new versions of its inputs: the first ones. */
int syn_trace_versions(const syn_trace *trace, const syn_trace_node *node);
/* Rebuilds what the op's functions saw, without data: for cost rules. */
void syn_trace_call(const syn_trace *trace, uint32_t node, syn_call *call);

/* Hash over op, specs, attributes except seeds, inputs, groups, phase, step, scope, stream and
   parameter names of all rows that were ever made: equal for the same program on any device and
   communicator, whatever was dropped (with the names that it had then). Not over times or data. 0
   where rows were forgotten without hashing (syn_ctx_set_hashing). */
uint64_t syn_trace_hash(const syn_trace *trace);
/* Memory held by the rows and tables. */
size_t syn_trace_memory_bytes(const syn_trace *trace);
/* Checks that every node uses earlier tensors only, and newest versions only, and that
   rows are consistent. */
syn_status syn_trace_verify(const syn_trace *trace, syn_error *err) SYN_MUST_USE;

/* A view of the traces of several ranks (or some of them) as one graph. The traces stay the
   caller's and must outlive the graph and not change meanwhile; so must hw, which gives predicted
   times (NULL: none). The node of row n has index n - 1, and its number as id; communications are
   counted among the rows that are there. */
syn_status syn_trace_graph(syn_graph **out, const syn_trace *const *traces, uint32_t n_traces,
                           const syn_hardware *hw, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
