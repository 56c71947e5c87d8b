/* Reads a rank of a graph as columns. Threads read ranges of rows, each with its own cursor and its
   own table of texts. The second round joins what they read: it gives texts their final ids, and
   copies dependencies and operands, whose numbers are known only then, to their columns. */
#include "syntorch/graph/columns.h"

#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"

/* X(column, type, number of codes, name of a code, value). Rows: n is a syn_node, t a
   syn_graph_tensor, d a struct pair. */
#define NODE_COLUMNS(X)                                             \
    X(id, U64, 0, NULL, n->id)                                      \
    X(op, TEXT, 0, NULL, text_id(c, n->op))                         \
    X(label, TEXT, 0, NULL, text_id(c, n->label))                   \
    X(scope, TEXT, 0, NULL, text_id(c, n->scope))                   \
    X(kind, U8, SYN_NODE_KIND_COUNT, kind_name, n->kind)            \
    X(category, U8, SYN_CATEGORY_COUNT, category_name, n->category) \
    X(phase, U8, SYN_PHASE_COUNT, phase_name, n->phase)             \
    X(step, U32, 0, NULL, n->step)                                  \
    X(stream, I32, 0, NULL, n->stream)                              \
    X(dtype, U8, SYN_DTYPE_COUNT, dtype_name, n->dtype)             \
    X(flags, U32, 0, NULL, n->flags)                                \
    X(flops, U64, 0, NULL, n->flops)                                \
    X(read_bytes, U64, 0, NULL, n->bytes_read)                      \
    X(written_bytes, U64, 0, NULL, n->bytes_written)                \
    X(comm, U8, SYN_COMM_KIND_COUNT, comm_name, n->comm)            \
    X(comm_bytes, U64, 0, NULL, n->comm_bytes)                      \
    X(comm_index, U32, 0, NULL, n->comm_index)                      \
    X(group, U32, 0, NULL, n->group)                                \
    X(peer, I32, 0, NULL, n->peer)                                  \
    X(tag, I32, 0, NULL, n->tag)                                    \
    X(root, I32, 0, NULL, n->root)                                  \
    X(start_ns, F64, 0, NULL, known(n->start_ns))                   \
    X(wall_ns, F64, 0, NULL, known(n->wall_ns))                     \
    X(cpu_ns, F64, 0, NULL, known(n->cpu_ns))                       \
    X(wait_ns, F64, 0, NULL, known(n->wait_ns))                     \
    X(predicted_ns, F64, 0, NULL, known(n->predicted_ns))
#define TENSOR_COLUMNS(X)                                    \
    X(name, TEXT, 0, NULL, text_id(c, t->name))              \
    X(dtype, U8, SYN_DTYPE_COUNT, dtype_name, t->spec.dtype) \
    X(rank, U8, 0, NULL, t->spec.rank)                       \
    X(dim0, U64, 0, NULL, t->spec.dims[0])                   \
    X(dim1, U64, 0, NULL, t->spec.dims[1])                   \
    X(dim2, U64, 0, NULL, t->spec.dims[2])                   \
    X(dim3, U64, 0, NULL, t->spec.dims[3])                   \
    X(dim4, U64, 0, NULL, t->spec.dims[4])                   \
    X(dim5, U64, 0, NULL, t->spec.dims[5])                   \
    X(size_bytes, U64, 0, NULL, syn_spec_bytes(&t->spec))    \
    X(flags, U32, 0, NULL, t->flags)                         \
    X(producer, I32, 0, NULL, t->producer)                   \
    X(base, U32, 0, NULL, t->base)
#define DEP_COLUMNS(X)          \
    X(from, U32, 0, NULL, d->a) \
    X(to, U32, 0, NULL, d->b)   \
    X(dep_class, U8, SYN_DEP_COUNT, dep_name, d->kind)
#define OPERAND_COLUMNS(X)        \
    X(node, U32, 0, NULL, d->a)   \
    X(tensor, U32, 0, NULL, d->b) \
    X(written, U8, 0, NULL, d->kind)

_Static_assert(SYN_MAX_RANK == 6, "TENSOR_COLUMNS has a column for each dimension");

typedef uint8_t column_U8;
typedef uint32_t column_U32, column_TEXT;
typedef int32_t column_I32;
typedef uint64_t column_U64;
typedef double column_F64;

/* The tables' columns, without data. */
#define CODE_NAME(of)                        \
    static const char *of##_name(int code) { \
        return NAME_##of(code);              \
    }
#define NAME_kind(code)     syn_node_kind_name((syn_node_kind)(code))
#define NAME_category(code) syn_category_name((syn_category)(code))
#define NAME_phase(code)    syn_phase_name((syn_phase)(code))
#define NAME_dtype(code)    syn_dtype_name((syn_dtype)(code))
#define NAME_comm(code)     syn_comm_kind_name((syn_comm_kind)(code))
#define NAME_dep(code)      syn_dep_class_name((syn_dep_class)(code))
CODE_NAME(kind)
CODE_NAME(category)
CODE_NAME(phase)
CODE_NAME(dtype)
CODE_NAME(comm)
CODE_NAME(dep)

#define X(name, type, n_codes, code_name, value) \
    {#name, SYN_COLUMN_##type, n_codes, code_name, NULL},
static const syn_column node_columns[] = {NODE_COLUMNS(X)};
static const syn_column tensor_columns[] = {TENSOR_COLUMNS(X)};
static const syn_column dep_columns[] = {DEP_COLUMNS(X)};
static const syn_column operand_columns[] = {OPERAND_COLUMNS(X)};
#undef X

static const struct {
    const syn_column *columns;
    uint32_t n;
} schema[SYN_TABLE_COUNT] = {
    [SYN_TABLE_NODES] = {node_columns, sizeof node_columns / sizeof *node_columns},
    [SYN_TABLE_DEPS] = {dep_columns, sizeof dep_columns / sizeof *dep_columns},
    [SYN_TABLE_OPERANDS] = {operand_columns, sizeof operand_columns / sizeof *operand_columns},
    [SYN_TABLE_TENSORS] = {tensor_columns, sizeof tensor_columns / sizeof *tensor_columns},
};

static const char *const table_names[] = {
#define SYN_X(id, name) name,
    SYN_TABLE_LIST(SYN_X)
#undef SYN_X
};

const char *syn_table_name(syn_table_kind table) {
    return (unsigned)table < SYN_TABLE_COUNT ? table_names[table] : "?";
}

static size_t value_bytes(syn_column_type type) {
    return type == SYN_COLUMN_U8 ? 1 : type == SYN_COLUMN_U64 || type == SYN_COLUMN_F64 ? 8 : 4;
}

/* Sets the columns of a table of n_rows rows, and allocates their data. */
static syn_status begin_table(syn_columns *out, syn_table_kind kind, uint64_t n_rows,
                              syn_error *err) {
    const uint32_t n = schema[kind].n;
    syn_column *columns = syn_calloc(n, sizeof *columns);
    if (!columns) return SYN_FAIL_NOMEM(err, n * sizeof *columns, "columns");
    memcpy(columns, schema[kind].columns, n * sizeof *columns);
    out->tables[kind] = (syn_table){columns, n, n_rows};
    for (uint32_t i = 0; i < n; i++) {
        const size_t bytes = (size_t)n_rows * value_bytes(columns[i].type);
        columns[i].data = syn_malloc(bytes);
        if (!columns[i].data) return SYN_FAIL_NOMEM(err, bytes, "a column");
    }
    return SYN_OK;
}

void syn_columns_free(syn_columns *columns) {
    if (!columns) return;
    for (int t = 0; t < SYN_TABLE_COUNT; t++) {
        const syn_table *table = &columns->tables[t];
        for (uint32_t i = 0; i < table->n_columns; i++) syn_free(table->columns[i].data);
        syn_free((void *)table->columns);
    }
    syn_intern_free(&columns->texts);
    syn_free(columns);
}

/* ---- Reading ---- */

/* A dependency, or an operand. */
struct pair {
    uint32_t a, b;
    uint8_t kind;
};

struct pairs {
    struct pair *at;
    size_t n, cap;
    uint64_t first; /* row of the first of them in the table */
};

#define RECENT 256 /* a power of two */

/* Consecutive rows, and what one thread reads of them. */
struct chunk {
    uint32_t nodes, end_node, tensors, end_tensor;
    syn_intern texts;
    struct recent {
        const char *at;
        uint32_t id;
    } recent[RECENT]; /* texts by address, because most rows have a text of earlier rows */
    struct pairs deps, operands;
    uint32_t *final; /* final ids of the texts */
    syn_cursor cursor;
    syn_error err;
};

struct reading {
    const syn_graph *graph;
    uint32_t rank;
    unsigned tables; /* bits 1 << syn_table_kind */
    syn_columns *out;
    struct chunk *chunks;
};

/* The address of a text may have got other contents since it was seen last. */
static uint32_t text_id(struct chunk *c, const char *text) {
    struct recent *r = &c->recent[((uintptr_t)text >> 3 ^ (uintptr_t)text >> 11) % RECENT];
    if (r->at == text && strcmp(syn_intern_get(&c->texts, r->id), text) == 0) return r->id;
    uint32_t id = 0;
    if (syn_intern_put(&c->texts, text, strlen(text), &id, &c->err) == SYN_OK)
        *r = (struct recent){text, id};
    return id;
}

static double known(double ns) {
    return ns == SYN_NO_TIME ? NAN : ns;
}

static syn_status put_pair(struct pairs *pairs, struct pair pair, syn_error *err) {
    if (pairs->n == pairs->cap)
        SYN_TRY(syn_grow(&pairs->at, &pairs->cap, 2 * pairs->n + 1024, sizeof *pairs->at, err));
    pairs->at[pairs->n++] = pair;
    return SYN_OK;
}

static bool wants(const struct reading *r, syn_table_kind table) {
    return r->tables >> table & 1u;
}

static syn_status put_deps(struct chunk *c, uint32_t row, const syn_node *n) {
    for (uint32_t i = 0; i < n->n_deps; i++) {
        const struct pair dep = {n->deps[i].node, row, (uint8_t)n->deps[i].dep_class};
        SYN_TRY(put_pair(&c->deps, dep, &c->err));
    }
    return SYN_OK;
}

static syn_status put_operands(struct chunk *c, uint32_t row, const syn_node *n) {
    for (uint32_t i = 0; i < n->n_inputs; i++)
        SYN_TRY(put_pair(&c->operands, (struct pair){row, n->inputs[i], 0}, &c->err));
    for (uint32_t i = 0; i < n->n_outputs; i++)
        SYN_TRY(put_pair(&c->operands, (struct pair){row, n->outputs[i], 1}, &c->err));
    return SYN_OK;
}

#define X(name, type, n_codes, code_name, value) \
    ((column_##type *)(columns++)->data)[row] = (column_##type)(value);

static syn_status read_nodes(const struct reading *r, struct chunk *c) {
    for (uint32_t row = c->nodes; row < c->end_node; row++) {
        const syn_node *n = syn_graph_node(r->graph, r->rank, row, &c->cursor);
        if (!n) return SYN_FAIL(&c->err, c->cursor.error.code, "%s", c->cursor.error.text);
        if (wants(r, SYN_TABLE_NODES)) {
            const syn_column *columns = r->out->tables[SYN_TABLE_NODES].columns;
            NODE_COLUMNS(X)
        }
        if (wants(r, SYN_TABLE_DEPS)) SYN_TRY(put_deps(c, row, n));
        if (wants(r, SYN_TABLE_OPERANDS)) SYN_TRY(put_operands(c, row, n));
    }
    return c->err.code;
}

static syn_status read_tensors(const struct reading *r, struct chunk *c) {
    for (uint32_t row = c->tensors; row < c->end_tensor; row++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(r->graph, r->rank, row, &c->cursor);
        if (!t) return SYN_FAIL(&c->err, c->cursor.error.code, "%s", c->cursor.error.text);
        const syn_column *columns = r->out->tables[SYN_TABLE_TENSORS].columns;
        TENSOR_COLUMNS(X)
    }
    return c->err.code;
}

static void read_chunk(void *reading, int64_t i, int worker) {
    const struct reading *r = reading;
    struct chunk *c = &r->chunks[i];
    (void)worker;
    const unsigned of_nodes =
        1u << SYN_TABLE_NODES | 1u << SYN_TABLE_DEPS | 1u << SYN_TABLE_OPERANDS;
    if ((r->tables & of_nodes) != 0 && read_nodes(r, c) != SYN_OK) return;
    if (wants(r, SYN_TABLE_TENSORS)) (void)read_tensors(r, c);
}

/* ---- Joining ---- */

static void replace_ids(const syn_table *table, const uint32_t *final, uint32_t row, uint32_t end) {
    for (uint32_t i = 0; i < table->n_columns; i++) {
        uint32_t *ids = table->columns[i].data;
        for (uint32_t k = row; table->columns[i].type == SYN_COLUMN_TEXT && k < end; k++)
            ids[k] = final[ids[k]];
    }
}

static void join_chunk(void *reading, int64_t index, int worker) {
    const struct reading *r = reading;
    const struct chunk *c = &r->chunks[index];
    const syn_table *tables = r->out->tables;
    (void)worker;
    replace_ids(&tables[SYN_TABLE_NODES], c->final, c->nodes, c->end_node);
    replace_ids(&tables[SYN_TABLE_TENSORS], c->final, c->tensors, c->end_tensor);
    for (size_t i = 0; i < c->deps.n; i++) {
        const struct pair *d = &c->deps.at[i];
        const syn_column *columns = tables[SYN_TABLE_DEPS].columns;
        const uint64_t row = c->deps.first + i;
        DEP_COLUMNS(X)
    }
    for (size_t i = 0; i < c->operands.n; i++) {
        const struct pair *d = &c->operands.at[i];
        const syn_column *columns = tables[SYN_TABLE_OPERANDS].columns;
        const uint64_t row = c->operands.first + i;
        OPERAND_COLUMNS(X)
    }
}
#undef X

/* Adds the texts of a chunk to those of all, and counts its dependencies and operands. */
static syn_status add_chunk(struct chunk *c, syn_intern *texts, uint64_t *deps, uint64_t *operands,
                            syn_error *err) {
    if (c->err.code != SYN_OK) return SYN_FAIL(err, c->err.code, "%s", c->err.text);
    const size_t n = c->texts.n_entries;
    c->final = syn_malloc(n * sizeof *c->final);
    if (!c->final) return SYN_FAIL_NOMEM(err, n * sizeof *c->final, "texts");
    for (uint32_t i = 0; i < n; i++)
        SYN_TRY(syn_intern_put(texts, syn_intern_get(&c->texts, i),
                               syn_intern_entry_bytes(&c->texts, i), &c->final[i], err));
    c->deps.first = *deps;
    c->operands.first = *operands;
    *deps += c->deps.n;
    *operands += c->operands.n;
    return SYN_OK;
}

static syn_status read_all(struct reading *r, syn_workers *workers, int n_chunks, syn_error *err) {
    const syn_graph_rank *rank = &r->graph->ranks[r->rank];
    uint64_t deps = 0, operands = 0;
    if (wants(r, SYN_TABLE_NODES))
        SYN_TRY(begin_table(r->out, SYN_TABLE_NODES, rank->n_nodes, err));
    if (wants(r, SYN_TABLE_TENSORS))
        SYN_TRY(begin_table(r->out, SYN_TABLE_TENSORS, rank->n_tensors, err));
    for (int i = 0; i < n_chunks; i++) {
        struct chunk *c = &r->chunks[i];
        c->nodes = (uint32_t)((uint64_t)rank->n_nodes * (unsigned)i / (unsigned)n_chunks);
        c->end_node = (uint32_t)((uint64_t)rank->n_nodes * (unsigned)(i + 1) / (unsigned)n_chunks);
        c->tensors = (uint32_t)((uint64_t)rank->n_tensors * (unsigned)i / (unsigned)n_chunks);
        c->end_tensor =
            (uint32_t)((uint64_t)rank->n_tensors * (unsigned)(i + 1) / (unsigned)n_chunks);
    }
    syn_workers_run(workers, n_chunks, read_chunk, r);
    for (int i = 0; i < n_chunks; i++)
        SYN_TRY(add_chunk(&r->chunks[i], &r->out->texts, &deps, &operands, err));
    if (wants(r, SYN_TABLE_DEPS)) SYN_TRY(begin_table(r->out, SYN_TABLE_DEPS, deps, err));
    if (wants(r, SYN_TABLE_OPERANDS))
        SYN_TRY(begin_table(r->out, SYN_TABLE_OPERANDS, operands, err));
    syn_workers_run(workers, n_chunks, join_chunk, r);
    return SYN_OK;
}

static void free_chunks(struct chunk *chunks, int n) {
    for (int i = 0; chunks && i < n; i++) {
        syn_intern_free(&chunks[i].texts);
        syn_free(chunks[i].deps.at);
        syn_free(chunks[i].operands.at);
        syn_free(chunks[i].final);
        syn_cursor_free(&chunks[i].cursor);
    }
    syn_free(chunks);
}

#define CHUNK_ROWS 20000 /* fewer rows are not worth a thread */

syn_status syn_columns_read(syn_columns **out, const syn_graph *graph, uint32_t rank,
                            unsigned tables, int threads, syn_error *err) {
    *out = NULL;
    if (rank >= graph->n_ranks)
        return SYN_FAIL(err, SYN_E_INVALID, "the graph has %u ranks, and no rank with index %u",
                        graph->n_ranks, rank);
    const uint32_t useful = 1 + graph->ranks[rank].n_nodes / CHUNK_ROWS;
    int n = threads < 1 ? 1 : threads > SYN_WORKERS_MAX ? SYN_WORKERS_MAX : threads;
    if ((uint32_t)n > useful) n = (int)useful;
    syn_workers *workers = NULL;
    struct reading r = {graph, rank, tables, syn_calloc(1, sizeof *r.out),
                        syn_calloc((size_t)n, sizeof *r.chunks)};
    syn_status s = r.out && r.chunks ? SYN_OK : SYN_FAIL_NOMEM(err, sizeof *r.out, "columns");
    if (s == SYN_OK && n > 1) s = syn_workers_new(&workers, n, err);
    if (s == SYN_OK) s = read_all(&r, workers, n, err);
    syn_workers_free(workers);
    free_chunks(r.chunks, n);
    if (s == SYN_OK) *out = r.out;
    else syn_columns_free(r.out);
    return s;
}
