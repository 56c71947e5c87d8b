/* Tests graphs as columns, and copies of graphs: every value equals that of the graph's rows, for
   any number of threads, and failed allocations lose nothing. */
#include "syntorch/graph/columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"
#include "tests/support/graph_plan.h"

enum { ALL_TABLES = (1 << SYN_TABLE_COUNT) - 1 };

static const syn_column *column(const syn_columns *c, syn_table_kind table, const char *name) {
    const syn_table *t = &c->tables[table];
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (strcmp(t->columns[i].name, name) == 0) return &t->columns[i];
    fprintf(stderr, "there is no column %s\n", name);
    abort();
}

static double value(const syn_columns *c, syn_table_kind table, const char *name, uint64_t row) {
    const syn_column *of = column(c, table, name);
    switch (of->type) {
    case SYN_COLUMN_U8:
        return ((const uint8_t *)of->data)[row];
    case SYN_COLUMN_I32:
        return ((const int32_t *)of->data)[row];
    case SYN_COLUMN_U32:
    case SYN_COLUMN_TEXT:
        return ((const uint32_t *)of->data)[row];
    case SYN_COLUMN_U64:
        return (double)((const uint64_t *)of->data)[row];
    case SYN_COLUMN_F64:
        return ((const double *)of->data)[row];
    }
    return NAN;
}

static const char *name_in(const syn_columns *c, syn_table_kind table, const char *name,
                           uint64_t row) {
    const syn_column *of = column(c, table, name);
    const double v = value(c, table, name, row);
    return of->type == SYN_COLUMN_TEXT ? syn_intern_get(&c->texts, (uint32_t)v)
                                       : of->code_name((int)v);
}

static void check_time(const syn_columns *c, const char *name, uint64_t row, double ns) {
    const double v = value(c, SYN_TABLE_NODES, name, row);
    CHECK(ns == SYN_NO_TIME ? isnan(v) : v == ns);
}

static void check_node(const syn_columns *c, uint64_t row, const syn_node *n) {
    const struct {
        const char *name;
        double want;
    } numbers[] = {
        {"id", (double)n->id},
        {"step", n->step},
        {"stream", n->stream},
        {"flags", n->flags},
        {"flops", (double)n->flops},
        {"read_bytes", (double)n->bytes_read},
        {"written_bytes", (double)n->bytes_written},
        {"comm_bytes", (double)n->comm_bytes},
        {"comm_index", n->comm_index},
        {"group", n->group},
        {"peer", n->peer},
        {"tag", n->tag},
        {"root", n->root},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        CHECK_MSG(value(c, SYN_TABLE_NODES, numbers[i].name, row) == numbers[i].want,
                  "%s of row %d", numbers[i].name, (int)row);
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "op", row), n->op);
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "label", row), n->label);
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "scope", row), n->scope);
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "kind", row), syn_node_kind_name(n->kind));
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "category", row), syn_category_name(n->category));
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "phase", row), syn_phase_name(n->phase));
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "dtype", row), syn_dtype_name(n->dtype));
    CHECK_STR(name_in(c, SYN_TABLE_NODES, "comm", row), syn_comm_kind_name(n->comm));
    check_time(c, "start_ns", row, n->start_ns);
    check_time(c, "wall_ns", row, n->wall_ns);
    check_time(c, "cpu_ns", row, n->cpu_ns);
    check_time(c, "wait_ns", row, n->wait_ns);
    check_time(c, "predicted_ns", row, n->predicted_ns);
}

static void check_tensor(const syn_columns *c, uint64_t row, const syn_graph_tensor *t) {
    static const char *const dims[SYN_MAX_RANK] = {"dim0", "dim1", "dim2", "dim3", "dim4", "dim5"};
    CHECK_STR(name_in(c, SYN_TABLE_TENSORS, "name", row), t->name);
    CHECK_STR(name_in(c, SYN_TABLE_TENSORS, "dtype", row),
              syn_dtype_name((syn_dtype)t->spec.dtype));
    CHECK(value(c, SYN_TABLE_TENSORS, "rank", row) == t->spec.rank);
    for (int i = 0; i < SYN_MAX_RANK; i++)
        CHECK(value(c, SYN_TABLE_TENSORS, dims[i], row) == (double)t->spec.dims[i]);
    CHECK(value(c, SYN_TABLE_TENSORS, "size_bytes", row) == (double)syn_spec_bytes(&t->spec));
    CHECK(value(c, SYN_TABLE_TENSORS, "flags", row) == t->flags);
    CHECK(value(c, SYN_TABLE_TENSORS, "producer", row) ==
          (t->producer == SYN_NO_NODE ? -1.0 : t->producer));
    CHECK(value(c, SYN_TABLE_TENSORS, "base", row) == t->base);
}

/* Checks all tables of a rank against the graph. */
static void check_rank(const syn_columns *c, const syn_graph *g, uint32_t rank) {
    syn_cursor cursor = {0};
    uint64_t dep = 0, operand = 0;
    CHECK_INT(c->tables[SYN_TABLE_NODES].n_rows, g->ranks[rank].n_nodes);
    CHECK_INT(c->tables[SYN_TABLE_TENSORS].n_rows, g->ranks[rank].n_tensors);
    for (uint32_t i = 0; i < g->ranks[rank].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, rank, i, &cursor);
        check_node(c, i, n);
        for (uint32_t k = 0; k < n->n_deps; k++, dep++) {
            CHECK(value(c, SYN_TABLE_DEPS, "from", dep) == n->deps[k].node);
            CHECK(value(c, SYN_TABLE_DEPS, "to", dep) == i);
            CHECK_STR(name_in(c, SYN_TABLE_DEPS, "dep_class", dep),
                      syn_dep_class_name((syn_dep_class)n->deps[k].dep_class));
        }
        for (uint32_t k = 0; k < n->n_inputs + n->n_outputs; k++, operand++) {
            const bool written = k >= n->n_inputs;
            CHECK(value(c, SYN_TABLE_OPERANDS, "node", operand) == i);
            CHECK(value(c, SYN_TABLE_OPERANDS, "tensor", operand) ==
                  (written ? n->outputs[k - n->n_inputs] : n->inputs[k]));
            CHECK(value(c, SYN_TABLE_OPERANDS, "written", operand) == written);
        }
    }
    CHECK_INT(c->tables[SYN_TABLE_DEPS].n_rows, dep);
    CHECK_INT(c->tables[SYN_TABLE_OPERANDS].n_rows, operand);
    for (uint32_t i = 0; i < g->ranks[rank].n_tensors; i++)
        check_tensor(c, i, syn_graph_tensor_at(g, rank, i, &cursor));
    syn_cursor_free(&cursor);
}

static void a_plan(void) {
    plan p;
    syn_graph *g;
    syn_columns *c;
    syn_error err = {0};
    plan_new(&p);
    p.nodes[0].wall_ns = 12.5;
    CHECK_OK(build(&g, &p, &err), err);
    for (uint32_t rank = 0; rank < 2; rank++) {
        CHECK_OK(syn_columns_read(&c, g, rank, ALL_TABLES, 1, &err), err);
        check_rank(c, g, rank);
        syn_columns_free(c);
    }
    CHECK(syn_columns_read(&c, g, 2, ALL_TABLES, 1, &err) == SYN_E_INVALID && c == NULL);
    CHECK_STR(err.text, "the graph has 2 ranks, and no rank with index 2");
    syn_graph_free(g);
}

static void only_what_is_asked(void) {
    plan p;
    syn_graph *g;
    syn_columns *c;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(build(&g, &p, &err), err);
    for (unsigned table = 0; table < SYN_TABLE_COUNT; table++) {
        CHECK_OK(syn_columns_read(&c, g, 0, 1u << table, 2, &err), err);
        for (unsigned other = 0; other < SYN_TABLE_COUNT; other++)
            CHECK((c->tables[other].n_columns > 0) == (other == table));
        CHECK(c->tables[table].n_rows > 0);
        syn_columns_free(c);
    }
    syn_graph_free(g);
}

/* A chain of 90,000 nodes, more than one thread reads. */
static void chain(syn_graph **made) {
    enum { N = 90000 };
    const int32_t ranks[] = {0};
    syn_graph *g;
    syn_error err = {0};
    CHECK_OK(syn_graph_new(&g, ranks, 1, 1, &err), err);
    for (uint32_t i = 0; i < N; i++) {
        char scope[32], name[32];
        snprintf(scope, sizeof scope, "h.%u", (unsigned)(i % 5000));
        snprintf(name, sizeof name, "t:%u", (unsigned)i);
        const syn_dep dep = {i - 1, SYN_DEP_DATA};
        const uint32_t in = i - 1, out = i;
        const syn_node n = {SYN_NODE_UNKNOWN, .id = i + 1,    .op = "add",   .label = "add",
                            .scope = scope,   .flops = i,     .inputs = &in, .n_inputs = i > 0,
                            .outputs = &out,  .n_outputs = 1, .deps = &dep,  .n_deps = i > 0};
        const syn_graph_tensor t = {
            .name = name, .spec = {SYN_F32, 1, {i}}, .producer = i, .base = i};
        CHECK_OK(syn_graph_add_node(g, 0, &n, &err), err);
        CHECK_OK(syn_graph_add_tensor(g, 0, &t, &err), err);
    }
    *made = g;
}

static bool same_texts(const syn_intern *a, const syn_intern *b) {
    return a->n_bytes == b->n_bytes && memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}

static void any_number_of_threads(void) {
    syn_graph *g = NULL;
    syn_columns *one, *four;
    syn_error err = {0};
    chain(&g);
    CHECK_OK(syn_columns_read(&one, g, 0, ALL_TABLES, 1, &err), err);
    CHECK_OK(syn_columns_read(&four, g, 0, ALL_TABLES, 4, &err), err);
    CHECK(same_texts(&one->texts, &four->texts));
    for (int t = 0; t < SYN_TABLE_COUNT; t++) {
        const syn_table *a = &one->tables[t], *b = &four->tables[t];
        CHECK(a->n_rows == b->n_rows && a->n_rows > 80000);
        for (uint32_t i = 0; i < a->n_columns; i++) {
            const syn_column_type type = a->columns[i].type;
            const size_t bytes = type == SYN_COLUMN_U8                              ? 1
                                 : type == SYN_COLUMN_U64 || type == SYN_COLUMN_F64 ? 8
                                                                                    : 4;
            CHECK(memcmp(a->columns[i].data, b->columns[i].data, bytes * a->n_rows) == 0);
        }
    }
    check_rank(four, g, 0);
    syn_columns_free(one);
    syn_columns_free(four);
    syn_graph_free(g);
}

static void out_of_memory(void) {
    plan p;
    syn_graph *g, *copy;
    syn_columns *c;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(build(&g, &p, &err), err);
    syn_status s = SYN_E_NOMEM;
    for (uint64_t n = 0; s != SYN_OK; n++) {
        syn_memory_fail_after(n);
        s = syn_columns_read(&c, g, 0, ALL_TABLES, 2, NULL);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK(s == SYN_OK || (s == SYN_E_NOMEM && c == NULL));
    }
    check_rank(c, g, 0);
    syn_columns_free(c);
    s = SYN_E_NOMEM;
    for (uint64_t n = 0; s != SYN_OK; n++) {
        syn_memory_fail_after(n);
        s = syn_graph_copy(&copy, g, NULL);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK(s == SYN_OK || (s == SYN_E_NOMEM && copy == NULL));
    }
    syn_graph_free(copy);
    syn_graph_free(g);
}

/* The columns of a copy equal the rows of the original, which is freed first. */
static void a_copy(void) {
    plan p;
    syn_graph *g, *copy, *again;
    syn_columns *c;
    syn_error err = {0};
    plan_new(&p);
    CHECK_OK(build(&g, &p, &err), err);
    CHECK_OK(build(&again, &p, &err), err);
    CHECK_OK(syn_graph_copy(&copy, g, &err), err);
    syn_graph_free(g);
    CHECK_OK(syn_graph_verify(copy, &err), err);
    CHECK(copy->world_size == 4 && copy->n_ranks == 2 && copy->n_groups == again->n_groups);
    CHECK(copy->n_metadata == again->n_metadata);
    CHECK_STR(syn_graph_meta(copy, "model")->name, "model");
    for (uint32_t rank = 0; rank < 2; rank++) {
        CHECK_INT(copy->ranks[rank].rank, again->ranks[rank].rank);
        CHECK_OK(syn_columns_read(&c, copy, rank, ALL_TABLES, 1, &err), err);
        check_rank(c, again, rank);
        syn_columns_free(c);
    }
    syn_graph_free(copy);
    syn_graph_free(again);
}

/* A copy and a prediction have the extents of the original, which do not follow from the shapes of
   a convolution's tensors. Without extents, a prediction computes them from the shapes. */
static void extents(void) {
    const syn_spec specs[] = {
        {SYN_F32, 4, {2, 3, 16, 16}}, {SYN_F32, 4, {8, 3, 3, 3}}, {SYN_F32, 4, {2, 8, 14, 14}}};
    const uint32_t inputs[] = {0, 1}, output = 2;
    const syn_extents given = {.batch = 1, .rows = 392, .columns = 8, .inner = 27},
                      shapes = {.batch = 16, .rows = 14, .columns = 14, .inner = 27};
    syn_error err = {0};
    syn_cursor cursor = {0};
    syn_hardware hw;
    CHECK_OK(syn_hardware_load(&hw, "h100", NULL, &err), err);
    for (int known = 0; known < 2; known++) {
        syn_graph *g, *copy, *predicted;
        const int32_t rank = 0;
        CHECK_OK(syn_graph_new(&g, &rank, 1, 1, &err), err);
        for (uint32_t i = 0; i < 3; i++) {
            const syn_graph_tensor t = {.name = "t",
                                        .spec = specs[i],
                                        .flags = i < 2 ? SYN_TENSOR_INPUT : 0,
                                        .producer = i < 2 ? SYN_NO_NODE : 0,
                                        .base = i};
            CHECK_OK(syn_graph_add_tensor(g, 0, &t, &err), err);
        }
        syn_node n = {SYN_NODE_UNKNOWN,
                      .op = "aten::convolution",
                      .id = 1,
                      .flops = 169344,
                      .category = SYN_CATEGORY_MATMUL,
                      .inputs = inputs,
                      .n_inputs = 2,
                      .outputs = &output,
                      .n_outputs = 1};
        if (known) n.extents = given;
        CHECK_OK(syn_graph_add_node(g, 0, &n, &err), err);
        CHECK_OK(syn_graph_copy(&copy, g, &err), err);
        const syn_extents none = {0}, *want = known ? &given : &none;
        CHECK(memcmp(&syn_graph_node(copy, 0, 0, &cursor)->extents, want, sizeof *want) == 0);
        CHECK_OK(syn_graph_predict(&predicted, copy, &hw, &err), err);
        want = known ? &given : &shapes;
        CHECK(memcmp(&syn_graph_node(predicted, 0, 0, &cursor)->extents, want, sizeof *want) == 0);
        syn_graph_free(predicted);
        syn_graph_free(g);
    }
    syn_cursor_free(&cursor);
}

static const test_case cases[] = {
    {"a_plan", a_plan},
    {"only_what_is_asked", only_what_is_asked},
    {"any_number_of_threads", any_number_of_threads},
    {"out_of_memory", out_of_memory},
    {"a_copy", a_copy},
    {"extents", extents},
};
TEST_MAIN(cases)
