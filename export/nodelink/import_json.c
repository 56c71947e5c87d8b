/* Reads node-link JSON as export_json.c writes it, even if networkx or a person has changed and
   saved it since. Keys, sections, nodes and edges may come in any order, since program order is the
   order of op ids (or of "program_order" if ops have it). Unknown keys are ignored. Either "links"
   or "edges" is enough; if both exist, the first one is used. "derived" nodes and edges are
   ignored. One pass over the file fills a syn__found; nodelink_build.c does the rest. */
#include "export/nodelink/nodelink_values.h"
#include "syntorch/base/memory.h"

#include <math.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)1 << 40)
#define FORMAT_VERSION 3
#define NO_ORDER       UINT64_MAX

/* Everything that a node of the file (op or tensor) or an edge may contain. Absent names are NULL,
   and absent numbers are -1. */
typedef struct entry {
    syn_node node;
    syn_spec spec;
    syn_shard shard;
    syn__found_ref id, producer, base;
    const char *name;
    int32_t kind, category, phase, comm, dtype;
    bool is_virtual, fused, view, term;
    uint32_t role;
    uint64_t order; /* NO_ORDER: absent */
    /* edges only */
    syn__found_ref source, target;
    uint32_t edge_kind;
    int64_t position;
    bool derived;
} entry;

typedef enum field_type {
    FIELD_REF,
    FIELD_TEXT,
    FIELD_U64,
    FIELD_U32,
    FIELD_I32,
    FIELD_TIME,
    FIELD_NAME, /* int32_t index into a list of names */
    FIELD_BOOL,
    FIELD_ROLE,
    FIELD_EDGE_KIND,
    FIELD_SHAPE,
    FIELD_SHARD,
    FIELD_ATTRIBUTES,
    FIELD_POSITION,
    FIELD_POSITIONS
} field_type;

typedef struct field {
    const char *key;
    field_type type;
    size_t offset;            /* offset of the member in entry */
    const char *const *names; /* FIELD_NAME only */
    size_t n_names;
} field;

#define SYN_X(id, name) name,
static const char *const kind_names[] = {SYN_NODE_KIND_LIST(SYN_X)};
static const char *const category_names[] = {SYN_CATEGORY_LIST(SYN_X)};
static const char *const phase_names[] = {SYN_PHASE_LIST(SYN_X)};
static const char *const reduce_names[] = {SYN_REDUCE_LIST(SYN_X)};
static const char *const comm_names[] = {SYN_COMM_KIND_LIST(SYN_X)};
#undef SYN_X
#define SYN_X(id, name, extra) name,
static const char *const dtype_names[] = {SYN_DTYPE_LIST(SYN_X)};
#undef SYN_X

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define AT(member)   offsetof(entry, member)
#define PLAIN(key, type, at) \
    { key, type, AT(at), NULL, 0 }
#define NAMED(key, at, list) \
    { key, FIELD_NAME, AT(at), list, COUNT(list) }

/* Fields of nodes, in the order in which the exporter writes them. */
static const field node_fields[] = {
    PLAIN("id", FIELD_REF, id),
    PLAIN("program_order", FIELD_U64, order),
    PLAIN("name", FIELD_TEXT, name),
    PLAIN("op", FIELD_TEXT, node.op),
    PLAIN("scope", FIELD_TEXT, node.scope),
    NAMED("phase", phase, phase_names),
    PLAIN("step", FIELD_U32, node.step),
    NAMED("kind", kind, kind_names),
    NAMED("category", category, category_names),
    PLAIN("stream", FIELD_I32, node.stream),
    PLAIN("role", FIELD_ROLE, role),
    NAMED("dtype", dtype, dtype_names),
    PLAIN("shape", FIELD_SHAPE, spec),
    PLAIN("flops", FIELD_U64, node.flops),
    PLAIN("bytes_read", FIELD_U64, node.bytes_read),
    PLAIN("bytes_written", FIELD_U64, node.bytes_written),
    PLAIN("virtual", FIELD_BOOL, is_virtual),
    PLAIN("fused", FIELD_BOOL, fused),
    NAMED("comm", comm, comm_names),
    NAMED("reduce", node.reduce, reduce_names),
    PLAIN("group", FIELD_U32, node.group),
    PLAIN("comm_bytes", FIELD_U64, node.comm_bytes),
    PLAIN("comm_index", FIELD_U32, node.comm_index),
    PLAIN("peer", FIELD_I32, node.peer),
    PLAIN("tag", FIELD_I32, node.tag),
    PLAIN("root", FIELD_I32, node.root),
    PLAIN("start_ns", FIELD_TIME, node.start_ns),
    PLAIN("wall_ns", FIELD_TIME, node.wall_ns),
    PLAIN("cpu_ns", FIELD_TIME, node.cpu_ns),
    PLAIN("wait_ns", FIELD_TIME, node.wait_ns),
    PLAIN("predicted_ns", FIELD_TIME, node.predicted_ns),
    PLAIN("attributes", FIELD_ATTRIBUTES, node),
    PLAIN("view", FIELD_BOOL, view),
    PLAIN("term", FIELD_BOOL, term),
    PLAIN("shard", FIELD_SHARD, shard),
    PLAIN("base", FIELD_REF, base),
    PLAIN("producer", FIELD_REF, producer),
};

static const field edge_fields[] = {
    PLAIN("source", FIELD_REF, source),
    PLAIN("target", FIELD_REF, target),
    PLAIN("kind", FIELD_EDGE_KIND, edge_kind),
    PLAIN("position", FIELD_POSITION, position),
    PLAIN("positions", FIELD_POSITIONS, position),
    PLAIN("derived", FIELD_BOOL, derived),
};

static size_t here(const syn__nodelink_file *r) {
    return (size_t)(r->json.cur - r->json.begin);
}

/* Returns the field with that key; NULL if there is none. The search starts after the field that
   was found last. */
static const field *find_field(syn__nodelink_file *r, const field *fields, size_t n) {
    for (size_t k = 0; k < n; k++) {
        const size_t i = (r->hint + k) % n;
        if (strcmp(fields[i].key, r->json.text) != 0) continue;
        r->hint = i + 1;
        return &fields[i];
    }
    return NULL;
}

static syn_status take_u32(syn__nodelink_file *r, const char *what, uint32_t *out) {
    int64_t value = 0;
    SYN_TRY(syn__take_i64(r, what, 0, UINT32_MAX, &value));
    *out = (uint32_t)value;
    return SYN_OK;
}

static syn_status take_i32(syn__nodelink_file *r, const char *what, int32_t *out) {
    int64_t value = 0;
    SYN_TRY(syn__take_i64(r, what, INT32_MIN, INT32_MAX, &value));
    *out = (int32_t)value;
    return SYN_OK;
}

static syn_status take_time(syn__nodelink_file *r, const char *what, double *out) {
    if (r->json.type != SYN_JSON_NUMBER || !isfinite(r->json.number))
        return syn_json_fail(&r->json, "%s must be a number of nanoseconds", what);
    *out = r->json.number;
    return SYN_OK;
}

static syn_status take_bool(syn__nodelink_file *r, const char *what, bool *out) {
    if (r->json.type != SYN_JSON_BOOL)
        return syn_json_fail(&r->json, "%s must be true or false", what);
    *out = r->json.boolean;
    return SYN_OK;
}

/* Stores the value of the current token in the member of the entry for this field. */
static syn_status take_field(syn__nodelink_file *r, const field *f, entry *e) {
    void *at = (char *)e + f->offset;
    switch (f->type) {
    case FIELD_REF:
        return syn__take_ref(r, f->key, at);
    case FIELD_TEXT:
        return syn__take_text(r, f->key, at);
    case FIELD_U64:
        return syn__take_u64(r, f->key, at);
    case FIELD_U32:
        return take_u32(r, f->key, at);
    case FIELD_I32:
        return take_i32(r, f->key, at);
    case FIELD_TIME:
        return take_time(r, f->key, at);
    case FIELD_NAME:
        return syn__take_name(r, f->key, f->names, f->n_names, at);
    case FIELD_BOOL:
        return take_bool(r, f->key, at);
    case FIELD_ROLE:
        return syn__take_role(r, at);
    case FIELD_EDGE_KIND:
        return syn__take_edge_kind(r, at);
    case FIELD_SHAPE:
        return syn__take_shape(r, at);
    case FIELD_SHARD:
        return syn__take_shard(r, at);
    case FIELD_ATTRIBUTES:
        return syn__keep_attributes(r, at);
    case FIELD_POSITION:
        return syn__take_i64(r, f->key, 0, INT32_MAX, at);
    case FIELD_POSITIONS:
        return syn__take_positions(r);
    }
    return SYN_OK;
}

/* Reads an object whose BEGIN has been read. null counts as absent. */
static syn_status read_entry(syn__nodelink_file *r, const field *fields, size_t n, entry *e) {
    syn_json *json = &r->json;
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const field *f = find_field(r, fields, n);
        if (f == NULL) {
            if (!syn_json_skip(json)) return json->err->code;
        } else if (syn_json_next(json) != SYN_JSON_NULL) {
            if (json->type == SYN_JSON_ERROR) return json->err->code;
            SYN_TRY(take_field(r, f, e));
        }
    }
    return json->type == SYN_JSON_ERROR ? json->err->code : SYN_OK;
}

/* ---- Nodes and edges ---- */

static syn_status keep_op(syn__nodelink_file *r, const entry *e, size_t at) {
    syn__found *found = &r->found;
    if (e->node.op == NULL)
        return syn__found_fail(found, at, "node r%d.o%llu has no \"op\"", (int)e->id.rank,
                               (unsigned long long)e->id.number);
    SYN_TRY(
        syn_grow(&found->ops, &found->ops_cap, found->n_ops + 1, sizeof *found->ops, found->err));
    syn__found_op *op = &found->ops[found->n_ops++];
    *op = (syn__found_op){.node = e->node, .order = e->order, .rank = e->id.rank, .at = at};
    if (e->order == NO_ORDER) op->order = e->id.number;
    else found->has_order = true;
    syn_node *node = &op->node;
    node->id = e->id.number;
    node->label = e->name != NULL ? e->name : node->op;
    if (node->scope == NULL) node->scope = "";
    node->kind = (syn_node_kind)e->kind;
    node->category = (syn_category)e->category;
    node->phase = (syn_phase)e->phase;
    node->comm = (syn_comm_kind)e->comm;
    if (e->is_virtual) node->flags |= SYN_NODE_VIRTUAL;
    if (e->fused) node->flags |= SYN_NODE_FUSED;
    return SYN_OK;
}

/* Whether the tensor can be a shard of some full tensor. */
static bool possible(const syn_graph_tensor *t) {
    const syn_shard *s = &t->shard;
    int64_t whole;
    return s->axis < t->spec.rank && s->parts > 0 && s->index < s->count &&
           t->spec.dims[s->axis] % s->parts == 0 &&
           syn_mul_i64(t->spec.dims[s->axis], s->count, &whole);
}

static syn_status keep_tensor(syn__nodelink_file *r, const entry *e, size_t at) {
    syn__found *found = &r->found;
    if (e->dtype < 0 || e->spec.rank < 0)
        return syn__found_fail(found, at, "tensor r%d.t%llu has no \"%s\"", (int)e->id.rank,
                               (unsigned long long)e->id.number, e->dtype < 0 ? "dtype" : "shape");
    SYN_TRY(syn_grow(&found->tensors, &found->tensors_cap, found->n_tensors + 1,
                     sizeof *found->tensors, found->err));
    syn__found_tensor *t = &found->tensors[found->n_tensors++];
    *t = (syn__found_tensor){.tensor = {.spec = e->spec, .flags = e->role, .shard = e->shard},
                             .producer = e->producer,
                             .base = e->base,
                             .number = e->id.number,
                             .rank = e->id.rank,
                             .at = at};
    t->tensor.spec.dtype = e->dtype;
    t->tensor.name = e->name != NULL ? e->name : "";
    if (e->view) t->tensor.flags |= SYN_TENSOR_VIEW;
    if (e->term) t->tensor.flags |= SYN_TENSOR_PARTIAL;
    if (!syn_spec_valid(&t->tensor.spec))
        return syn__found_fail(found, at, "tensor r%d.t%llu has more than 2^63 bytes",
                               (int)e->id.rank, (unsigned long long)e->id.number);
    if (e->shard.count > 0 && !possible(&t->tensor))
        return syn__found_fail(found, at, "tensor r%d.t%llu has an invalid shard", (int)e->id.rank,
                               (unsigned long long)e->id.number);
    return SYN_OK;
}

static syn_status read_node(syn__nodelink_file *r) {
    const size_t at = here(r);
    entry e = {
        .node = {SYN_NODE_UNKNOWN, .tag = -1},
        .spec = {.rank = -1},
        .kind = SYN_NODE_COMPUTE,
        .phase = SYN_PHASE_FORWARD,
        .comm = SYN_COMM_NONE,
        .dtype = -1,
        .order = NO_ORDER,
    };
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "a node must be an object");
    SYN_TRY(read_entry(r, node_fields, COUNT(node_fields), &e));
    if (e.id.kind == 0) return syn__found_fail(&r->found, at, "a node has no \"id\"");
    if (e.id.kind == 'g') return SYN_OK;
    return e.id.kind == 'o' ? keep_op(r, &e, at) : keep_tensor(r, &e, at);
}

static syn_status keep_edge(syn__nodelink_file *r, const entry *e, size_t at, uint32_t position) {
    syn__found *found = &r->found;
    SYN_TRY(syn_grow(&found->edges, &found->edges_cap, found->n_edges + 1, sizeof *found->edges,
                     found->err));
    found->edges[found->n_edges++] = (syn__found_edge){
        .from = e->source, .to = e->target, .kind = e->edge_kind, .position = position, .at = at};
    return SYN_OK;
}

/* Reads an edge. Its ends determine its kind: tensor -> op is an input, op -> tensor an output, and
   op -> op a dependency. */
static syn_status read_edge(syn__nodelink_file *r) {
    const size_t at = here(r);
    entry e = {.position = -1};
    r->n_positions = 0;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "an edge must be an object");
    SYN_TRY(read_entry(r, edge_fields, COUNT(edge_fields), &e));
    if (e.source.kind == 0 || e.target.kind == 0)
        return syn__found_fail(&r->found, at, "an edge needs \"source\" and \"target\"");
    if (e.derived || e.source.kind == 'g' || e.target.kind == 'g') return SYN_OK;
    const bool input = e.source.kind == 't' && e.target.kind == 'o';
    const bool output = e.source.kind == 'o' && e.target.kind == 't';
    const bool dep = e.source.kind == 'o' && e.target.kind == 'o';
    const uint32_t tensor_kind = input ? SYN__EDGE_INPUT : SYN__EDGE_OUTPUT;
    if (e.edge_kind == 0 && !dep) e.edge_kind = tensor_kind;
    if ((!input && !output && !dep) || e.edge_kind == 0 ||
        (dep ? e.edge_kind >= SYN__EDGE_INPUT : e.edge_kind != tensor_kind))
        return syn__found_fail(&r->found, at,
                               "an edge's \"kind\" does not match its ends (tensor to op: input, "
                               "op to tensor: output, op to op: a class of dependency)");
    if (dep) return keep_edge(r, &e, at, 0);
    if (r->n_positions == 0 && e.position < 0)
        return syn__found_fail(&r->found, at, "an edge between op and tensor needs \"position\"");
    if (r->n_positions == 0) return keep_edge(r, &e, at, (uint32_t)e.position);
    for (size_t i = 0; i < r->n_positions; i++) SYN_TRY(keep_edge(r, &e, at, r->positions[i]));
    return SYN_OK;
}

/* ---- Sections ---- */

/* Reads the next value, which must be a list. Calls `element` for each element, after the element's
   first token was read. */
static syn_status read_list(syn__nodelink_file *r, const char *what,
                            syn_status (*element)(syn__nodelink_file *)) {
    syn_json *json = &r->json;
    if (syn_json_next(json) != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "%s must be a list", what);
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return json->err->code;
        SYN_TRY(element(r));
    }
    return SYN_OK;
}

static syn_status read_rank(syn__nodelink_file *r) {
    syn__found *found = &r->found;
    int64_t rank = 0;
    SYN_TRY(syn__take_i64(r, "a rank", 0, INT32_MAX - 1, &rank));
    SYN_TRY(syn_grow(&found->ranks, &found->ranks_cap, found->n_ranks + 1, sizeof *found->ranks,
                     found->err));
    found->ranks[found->n_ranks++] = (int32_t)rank;
    return SYN_OK;
}

/* Copies the ranks of the group from r->positions, which is also used for this list. */
static syn_status keep_group_ranks(syn__nodelink_file *r, syn_graph_group *group) {
    int32_t *ranks = syn__arena_get(&r->found.arena, r->n_positions * sizeof *ranks);
    if (ranks == NULL)
        return SYN_FAIL_NOMEM(r->found.err, r->n_positions * sizeof *ranks, "a group");
    for (size_t i = 0; i < r->n_positions; i++) ranks[i] = (int32_t)r->positions[i];
    group->ranks = ranks;
    group->n_ranks = (uint32_t)r->n_positions;
    return SYN_OK;
}

static syn_status read_group(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    syn__found *found = &r->found;
    syn__found_group g = {.group = {.name = ""}, .at = here(r)};
    r->n_positions = 0;
    if (json->type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "a group must be an object");
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const char key = strcmp(json->text, "id") == 0      ? 'i'
                         : strcmp(json->text, "name") == 0  ? 'n'
                         : strcmp(json->text, "ranks") == 0 ? 'r'
                                                            : 0;
        syn_json_next(json);
        if (key == 'i') SYN_TRY(take_u32(r, "a group's id", &g.group.id));
        else if (key == 'n') SYN_TRY(syn__take_text(r, "a group's name", &g.group.name));
        else if (key == 'r') SYN_TRY(syn__take_positions(r));
        else if (!syn_json_skip(json)) return json->err->code;
    }
    if (json->type == SYN_JSON_ERROR) return json->err->code;
    if (g.group.id == 0 || r->n_positions == 0)
        return syn__found_fail(found, g.at, "a group needs \"id\" (1 or more) and \"ranks\"");
    SYN_TRY(keep_group_ranks(r, &g.group));
    SYN_TRY(syn_grow(&found->groups, &found->groups_cap, found->n_groups + 1, sizeof *found->groups,
                     found->err));
    found->groups[found->n_groups++] = g;
    return SYN_OK;
}

static syn_status read_metadata(syn__nodelink_file *r) {
    syn__found *found = &r->found;
    syn_json_next(&r->json);
    SYN_TRY(syn__take_attributes(r, "metadata"));
    SYN_TRY(syn_grow(&found->metadata, &found->metadata_cap, r->n_attributes,
                     sizeof *found->metadata, found->err));
    if (r->n_attributes > 0)
        memcpy(found->metadata, r->attributes, r->n_attributes * sizeof *found->metadata);
    found->n_metadata = r->n_attributes;
    return SYN_OK;
}

static syn_status check_format(syn__nodelink_file *r, bool version) {
    syn_json *json = &r->json;
    syn_json_next(json);
    if (version) {
        int64_t number = 0;
        SYN_TRY(syn__take_i64(r, "format_version", 1, INT32_MAX, &number));
        if (number <= FORMAT_VERSION) return SYN_OK;
        return syn_json_fail(json, "format_version is %lld, but this program supports at most %d",
                             (long long)number, FORMAT_VERSION);
    }
    if (json->type == SYN_JSON_STRING && strcmp(json->text, "syntorch") == 0) return SYN_OK;
    return syn_json_fail(json, "this graph was not written by syntorch (graph.format)");
}

static syn_status read_graph_object(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    if (syn_json_next(json) != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "graph must be an object");
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "format") == 0) SYN_TRY(check_format(r, false));
        else if (strcmp(json->text, "format_version") == 0) SYN_TRY(check_format(r, true));
        else if (strcmp(json->text, "metadata") == 0) SYN_TRY(read_metadata(r));
        else if (strcmp(json->text, "groups") == 0) SYN_TRY(read_list(r, "groups", read_group));
        else if (strcmp(json->text, "ranks") == 0) SYN_TRY(read_list(r, "ranks", read_rank));
        else if (strcmp(json->text, "copies") == 0) SYN_TRY(syn__read_copies(r));
        else if (strcmp(json->text, "world_size") == 0)
            SYN_TRY(syn_json_expect_i64(json, "world_size", 1, INT32_MAX, &r->found.world_size));
        else if (!syn_json_skip(json)) return json->err->code;
    }
    return json->type == SYN_JSON_ERROR ? json->err->code : SYN_OK;
}

static syn_status check_directed(syn__nodelink_file *r) {
    if (syn_json_next(&r->json) == SYN_JSON_BOOL && r->json.boolean) return SYN_OK;
    return syn_json_fail(&r->json, "directed must be true");
}

/* Reads the whole file. If the edges are in the file under both names, the first list is used. Any
   other section may occur only once. */
static syn_status read_document(syn__nodelink_file *r) {
    enum { GRAPH = 1, NODES = 2, EDGES = 4 };
    syn_json *json = &r->json;
    unsigned seen = 0;
    if (syn_json_next(json) != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "a node-link graph must be an object");
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const bool edges = strcmp(json->text, "links") == 0 || strcmp(json->text, "edges") == 0;
        const bool nodes = strcmp(json->text, "nodes") == 0;
        const bool graph = strcmp(json->text, "graph") == 0;
        const unsigned section = graph ? GRAPH : nodes ? NODES : edges ? EDGES : 0;
        if ((graph && (seen & GRAPH)) || (nodes && (seen & NODES)))
            return syn_json_fail(json, "\"%s\" appears twice", graph ? "graph" : "nodes");
        if (strcmp(json->text, "directed") == 0) SYN_TRY(check_directed(r));
        else if (graph) SYN_TRY(read_graph_object(r));
        else if (nodes) SYN_TRY(read_list(r, "nodes", read_node));
        else if (edges && !(seen & EDGES)) SYN_TRY(read_list(r, "links", read_edge));
        else if (!syn_json_skip(json)) return json->err->code;
        seen |= section;
    }
    if (json->type == SYN_JSON_ERROR) return json->err->code;
    if (!(seen & NODES)) return syn_json_fail(json, "the list \"nodes\" is missing");
    if (!(seen & EDGES)) return syn_json_fail(json, "\"links\" or \"edges\" is missing");
    return syn_json_next(json) == SYN_JSON_END ? SYN_OK : json->err->code;
}

syn_status syn_import_json_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                  syn_error *err) {
    syn_error error = {0}; /* a local variable, because err may be NULL */
    syn__nodelink_file r = {
        .found = {.name = name, .data = data, .bytes = bytes, .err = &error, .world_size = -1}};
    *out = NULL;
    syn_json_init(&r.json, name, data, bytes, &error);
    syn_status status = read_document(&r);
    syn_json_free(&r.json);
    syn_free(r.attributes);
    syn_free(r.positions);
    if (status == SYN_OK) status = syn__found_to_graph(&r.found, out);
    syn__found_free(&r.found);
    return status == SYN_OK ? SYN_OK : SYN_FAIL(err, error.code, "%s", error.text);
}

syn_status syn_import_json(syn_graph **out, const char *path, syn_error *err) {
    char *data = NULL;
    size_t bytes = 0;
    *out = NULL;
    SYN_TRY(syn_read_file(path, MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn_import_json_memory(out, path, data, bytes, err);
    syn_free(data);
    return status;
}
