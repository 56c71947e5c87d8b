/* A rank of a graph as tables, with one array per column. They serve programs that process all rows
   at once, such as those that use numpy. */
#ifndef SYNTORCH_COLUMNS_H
#define SYNTORCH_COLUMNS_H

#include "syntorch/base/intern.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

typedef enum syn_column_type {
    SYN_COLUMN_U8,
    SYN_COLUMN_U32,
    SYN_COLUMN_I32,
    SYN_COLUMN_U64,
    SYN_COLUMN_F64,
    SYN_COLUMN_TEXT /* uint32_t: ids of entries of syn_columns.texts */
} syn_column_type;

typedef struct syn_column {
    const char *name; /* "flops"; quantities end with their unit: "wall_ns", "read_bytes" */
    syn_column_type type;
    int n_codes; /* values are codes of an enumeration, less than n_codes; 0: they are numbers */
    const char *(*code_name)(int code);
    void *data;
} syn_column;

/* NODES: members of syn_node. Unknown times are NaN.
   DEPS: node `to` waits for node `from`. All indices are those of the rank's nodes and tensors.
   OPERANDS: node `node` reads `tensor`, or writes it if `written` is 1.
   TENSORS: members of syn_graph_tensor; `producer` is -1 for none. Dimensions are in dim0, dim1,
   ...; those beyond `rank` are 0. */
#define SYN_TABLE_LIST(X)   \
    X(NODES, "nodes")       \
    X(DEPS, "deps")         \
    X(OPERANDS, "operands") \
    X(TENSORS, "tensors")

typedef enum syn_table_kind {
#define SYN_X(id, name) SYN_TABLE_##id,
    SYN_TABLE_LIST(SYN_X)
#undef SYN_X
        SYN_TABLE_COUNT
} syn_table_kind;

const char *syn_table_name(syn_table_kind table);

typedef struct syn_table {
    const syn_column *columns;
    uint32_t n_columns;
    uint64_t n_rows;
} syn_table;

typedef struct syn_columns {
    syn_table tables[SYN_TABLE_COUNT];
    syn_intern texts;
} syn_columns;

/* Reads tables of a rank, which is given by its index within the graph. tables: bits 1 <<
   syn_table_kind; the other tables of *out have no columns. Up to `threads` threads read; the
   result does not depend on their number. The caller frees *out with syn_columns_free. */
syn_status syn_columns_read(syn_columns **out, const syn_graph *graph, uint32_t rank,
                            unsigned tables, int threads, syn_error *err) SYN_MUST_USE;
void syn_columns_free(syn_columns *columns); /* NULL is allowed */

SYN_API_END
#endif
