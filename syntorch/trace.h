/* A trace: the ops that one rank called, as rows of two tables, one of nodes (calls of ops) and one
   of tensors (their operands). Data of variable length is in shared arrays, and repeated data is
   interned. A node may only use tensors that already exist, so the order of rows is a topological
   order.
   A tensor's row stays in the trace after its data was freed. Only syn_forget drops rows; later
   rows then move up. Each entry of a table therefore has two indices. Its row is its current index
   in the table. Its number never changes: it is the index that the entry would have if no row had
   been dropped. Rows and numbers are equal until rows are dropped. */
#ifndef SYNTORCH_TRACE_H
#define SYNTORCH_TRACE_H

#include "syntorch/base/intern.h"
#include "syntorch/graph/work.h"
#include "syntorch/hardware/hardware.h"
#include "syntorch/op.h"

SYN_API_BEGIN

typedef struct syn_trace_node {
    uint16_t op, group; /* group: index into trace->groups + 1; 0: none */
    uint32_t phase : 3, stream : 8, n_in : 11,
        n_out : 10;        /* stream: as in syn_node; 255 for messages */
    uint32_t scope, label; /* ids in texts; label 0: the op's name */
    uint32_t attrs;        /* id in blobs; 0: no attributes */
    uint32_t first_in;     /* index into inputs */
    uint32_t first_out;    /* tensor row of output 0; the outputs are consecutive */
} syn_trace_node;

typedef struct syn_trace_tensor {
    uint32_t spec;     /* id in specs */
    uint32_t layout;   /* id in layouts + 1; 0: contiguous from offset 0 */
    uint32_t producer; /* node row; 0: parameter, input, state, or the producer was dropped */
    uint32_t base;     /* tensor row that owns the storage */
    uint32_t name;     /* id in texts + 1; 0: the name is derived from the producer */
    uint16_t flags;    /* SYN_TENSOR_... */
    uint16_t shard;    /* parameters: index in shards + 1; 0: not sharded */
} syn_trace_tensor;

/* Flags of tensor rows in addition to those in graph.h. GRAD: the tensor requires a gradient. LEAF:
   it requires one because it was passed to syn_require_grad, and was not computed from such a
   tensor. */
#define SYN_TENSOR_GRAD        256u
#define SYN_TENSOR_LEAF        512u
#define SYN_TENSOR_GRAPH_FLAGS 255u

/* Strides and offset, in elements, of a tensor that is not contiguous from offset 0. */
typedef struct syn_layout {
    int64_t strides[SYN_MAX_RANK];
    int64_t offset;
} syn_layout;

/* A run of rows with consecutive numbers: row `row` has number `number`. A run ends where the next
   begins. */
typedef struct syn_trace_run {
    uint32_t row, number;
} syn_trace_run;

/* The numbers of a table's rows. For rows before the first run, the number equals the row. */
typedef struct syn_trace_numbers {
    syn_trace_run *runs; /* ascending in both members */
    size_t n_runs, runs_cap;
} syn_trace_numbers;

/* The first node row of a step. Steps whose rows were all dropped have no entry, except the current
   one. */
typedef struct syn_trace_step {
    uint32_t node, step;
} syn_trace_step;

/* The first node row of a pass of a pipeline. */
typedef struct syn_trace_pass {
    uint32_t node;
    bool paired; /* its collectives may overlap with the computation of the next pass, and the other
                    way round */
} syn_trace_pass;

/* Measured times of a node. The start, in ns since the start of the run, is divided into two
   halves, so that the struct has only 20 bytes. */
typedef struct syn_trace_time {
    uint32_t start_low, start_high;
    float wall_ns, cpu_ns, wait_ns;
} syn_trace_time;

typedef struct syn_trace {
    const syn_opdef *ops;  /* the op table; NULL before the first node */
    syn_trace_node *nodes; /* row 0 is unused, because node rows count from 1 */
    size_t n_nodes, nodes_cap;
    syn_trace_tensor *tensors; /* row 0 is the invalid tensor */
    size_t n_tensors, tensors_cap;
    uint32_t *inputs; /* tensor rows */
    size_t n_inputs, inputs_cap;
    syn_trace_time *times; /* NULL until a node is timed; then one entry per node */
    size_t times_cap;
    syn_work work;         /* device work; empty unless it is recorded (syn_ctx_record_work) */
    syn_trace_step *steps; /* ascending; nodes before the first entry belong to step 0 */
    size_t n_steps, steps_cap;
    syn_trace_pass *passes; /* ascending; empty without a pipeline */
    size_t n_passes, passes_cap;
    uint32_t step;     /* the current step */
    syn_shard *shards; /* the distinct shards of parameters */
    size_t n_shards, shards_cap;
    syn_trace_numbers node_numbers, tensor_numbers;
    struct syn_trace_hash_state { /* hash of the rows so far, including dropped rows */
        uint64_t nodes, tensors;
        uint32_t next_node, next_tensor; /* the first rows that are not yet in the hash */
    } hashed;
    bool unhashed;     /* rows were dropped without being hashed */
    syn_group *groups; /* copies, because a trace outlives its communicator */
    size_t n_groups, groups_cap;
    syn_intern texts, specs, layouts, blobs;
    int32_t rank, world_size;
} syn_trace;

/* Creates an empty trace. rank is a global rank. */
syn_status syn_trace_new(syn_trace **out, int32_t rank, int32_t world_size,
                         syn_error *err) SYN_MUST_USE;
void syn_trace_free(syn_trace *trace);

/* Convert between numbers and rows. syn_trace_*_row return 0 if no row has the number, because the
   row was dropped or does not exist yet. A tensor's number is the id of its syn_tensor. */
uint32_t syn_trace_tensor_row(const syn_trace *trace, uint32_t number);
uint32_t syn_trace_tensor_number(const syn_trace *trace, uint32_t row);
uint32_t syn_trace_node_row(const syn_trace *trace, uint32_t number);
uint32_t syn_trace_node_number(const syn_trace *trace, uint32_t row);
/* The step that a node row belongs to. */
uint32_t syn_trace_step_of(const syn_trace *trace, uint32_t node);

/* Dtype and shape of a tensor row. syn_trace_operand also sets strides and offset; it sets data to
   NULL. */
const syn_spec *syn_trace_spec(const syn_trace *trace, uint32_t tensor);
void syn_trace_operand(const syn_trace *trace, uint32_t tensor, syn_operand *out);
/* The string with this id. */
const char *syn_trace_text(const syn_trace *trace, uint32_t id);
/* The name of a tensor row: "wte.weight" for a parameter, "h.3.attn/qkv:0" for an op's output. The
   returned text is in buf or in the trace. */
const char *syn_trace_tensor_name(const syn_trace *trace, uint32_t tensor, char buf[SYN_MAX_NAME]);
/* Sets *row to index + 1 of the group in trace->groups. Adds a copy of the group if trace->groups
   has none with its id. */
syn_status syn_trace_add_group(syn_trace *trace, const syn_group *group, uint16_t *row,
                               syn_error *err) SYN_MUST_USE;
/* The op table's row of a node's op. */
static inline const syn_opdef *syn_trace_op(const syn_trace *trace, const syn_trace_node *node) {
    return &trace->ops[node->op];
}
/* The number of a node's outputs that are new versions of its inputs. These are its first
   outputs. */
int syn_trace_versions(const syn_trace *trace, const syn_trace_node *node);
/* Rebuilds the call that the op's functions got, without data and segments. Cost rules use it. Its
   operands are in *operands, an array of *cap entries from syn_malloc, which grows if it is too
   short. */
syn_status syn_trace_call(const syn_trace *trace, uint32_t node, syn_call *call,
                          syn_operand **operands, size_t *cap, syn_error *err) SYN_MUST_USE;

/* Hash of all rows ever recorded: op, specs, attributes except seeds, inputs, groups, phase, step,
   scope, stream and parameter names, but not times or data. The same program has the same hash on
   any device and communicator, even after syn_forget. 0 if rows were dropped without hashing
   (syn_ctx_set_hashing). */
uint64_t syn_trace_hash(const syn_trace *trace);
/* Bytes allocated for rows and tables. */
size_t syn_trace_memory_bytes(const syn_trace *trace);
/* Checks that rows are consistent, that every node uses earlier tensors only, and that no node
   reads a tensor that was overwritten before it. */
syn_status syn_trace_verify(const syn_trace *trace, syn_error *err) SYN_MUST_USE;

/* Creates a graph of the traces of all or some ranks. The graph is a view: the traces must outlive
   it and must not change while it exists. The same is true of hw, from which times are predicted
   (NULL: no predicted times). The node of row n has index n - 1, and its id is its number.
   comm_index counts only the rows that are still in the trace. */
syn_status syn_trace_graph(syn_graph **out, const syn_trace *const *traces, uint32_t n_traces,
                           const syn_hardware *hw, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
