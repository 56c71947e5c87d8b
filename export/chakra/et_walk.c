/* Converts one rank of a graph to the messages of its execution trace: the metadata, the nodes of
   verbatim graphs (which were read from execution traces and are written back unchanged, see
   et_attr.h), and the loop over all nodes. et_describe.c fills in the nodes of all other graphs. */
#include <inttypes.h>
#include <stdio.h>

#include "export/chakra/et_attr.h"
#include "export/chakra/et_order.h"
#include "export/chakra/et_walk.h"
#include "syntorch/base/memory.h"

#define SCHEMA_VERSION "1.0.0" /* version of Chakra's schema, as Chakra's generator writes it */

syn_status syn__et_walk_open(syn__et_walk *walk, const syn_graph *graph, uint32_t rank,
                             const char *version, syn_error *err) {
    *walk = (syn__et_walk){.graph = graph, .rank = rank, .version = version};
    SYN_TRY(syn__et_supported(err));
    walk->verbatim = syn__et_is_verbatim(graph);
    if (!walk->verbatim) {
        SYN_TRY(syn__et_plan_open(&walk->plan, graph, rank, err));
        const syn_status status = syn__et_order(graph, rank, &walk->order, err);
        if (status != SYN_OK) syn__et_walk_close(walk);
        return status;
    }
    const size_t bytes = ((size_t)graph->ranks[rank].n_nodes + 1) * sizeof(uint64_t);
    walk->node_ids = (uint64_t *)syn_malloc(bytes);
    return walk->node_ids != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "an execution trace's ids");
}

void syn__et_walk_close(syn__et_walk *walk) {
    syn__et_plan_close(&walk->plan);
    syn__arena_free(&walk->arena);
    syn_cursor_free(&walk->cursor);
    syn_cursor_free(&walk->tensors);
    syn_free(walk->owners);
    syn__buf_free(&walk->list);
    syn_free(walk->attrs);
    syn_free(walk->ids[0]);
    syn_free(walk->ids[1]);
    syn_free(walk->node_ids);
    syn_free(walk->order);
    *walk = (syn__et_walk){0};
}

static void reset(syn__et_walk *walk) {
    syn__arena_reset(&walk->arena);
    walk->n_attrs = 0;
}

/* ---- Metadata ---- */

static syn_status add_i64(syn__et_walk *walk, const char *name, int64_t value, syn_error *err) {
    const syn__et_attr a = syn__et_number(name, SYN__ET_INT64, (uint64_t)value);
    return syn__et_walk_add(walk, &a, err);
}

static syn_status add_string(syn__et_walk *walk, const char *name, const char *text,
                             syn_error *err) {
    const syn__et_attr a =
        syn__et_data(syn__arena_utf8(&walk->arena, syn__str_of(name)), SYN__ET_STRING,
                     syn__arena_utf8(&walk->arena, syn__str_of(text)));
    if (a.name.text == NULL || a.data.text == NULL)
        return SYN_FAIL_NOMEM(err, strlen(text), "an attribute");
    return syn__et_walk_add(walk, &a, err);
}

/* Adds a group of this rank, with its name as doc_string and its members as int32_list. */
static syn_status add_group(syn__et_walk *walk, const syn_graph_group *group, syn_error *err) {
    char name[24];
    snprintf(name, sizeof name, "pg.%" PRIu32, group->id);
    const size_t bytes = syn__et_pack_ranks(group->ranks, group->n_ranks, NULL);
    char *list = (char *)syn__arena_get(&walk->arena, bytes + 1);
    const syn__et_attr a = {
        .name = {syn__arena_text(&walk->arena, syn__str_of(name)), strlen(name)},
        .doc = syn__arena_utf8(&walk->arena, syn__str_of(group->name)),
        .field = SYN__ET_INT32_LIST,
        .data = {list, bytes}};
    if (list == NULL || a.name.text == NULL || a.doc.text == NULL)
        return SYN_FAIL_NOMEM(err, bytes, "a group");
    (void)syn__et_pack_ranks(group->ranks, group->n_ranks, list);
    return syn__et_walk_add(walk, &a, err);
}

static bool holds_rank(const syn_graph_group *group, int32_t rank) {
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        if (group->ranks[i] == rank) return true;
    }
    return false;
}

/* Adds the rank's groups by ascending id, so that equal graphs give equal files, whatever the order
   of their groups. */
static syn_status add_groups(syn__et_walk *walk, syn_error *err) {
    const syn_graph *g = walk->graph;
    const int32_t rank = g->ranks[walk->rank].rank;
    uint64_t after = 0;
    for (;;) {
        const syn_graph_group *next = NULL;
        for (uint32_t i = 0; i < g->n_groups; i++) {
            const syn_graph_group *group = &g->groups[i];
            if (group->id <= after || (next != NULL && group->id >= next->id)) continue;
            if (group->n_ranks > 1 && holds_rank(group, rank)) next = group;
        }
        if (next == NULL) return SYN_OK;
        SYN_TRY(add_group(walk, next, err));
        after = next->id;
    }
}

static syn_status planned_meta(syn__et_walk *walk, syn__et_meta *out, syn_error *err) {
    const syn_graph *g = walk->graph;
    out->version = syn__str_of(SCHEMA_VERSION);
    SYN_TRY(add_i64(walk, "rank", g->ranks[walk->rank].rank, err));
    SYN_TRY(add_i64(walk, "world_size", g->world_size, err));
    if (walk->version != NULL) SYN_TRY(add_string(walk, "program", walk->version, err));
    for (uint32_t i = 0; i < g->n_metadata; i++) {
        const syn_attribute *m = &g->metadata[i];
        const bool own = strcmp(m->name, "rank") == 0 || strcmp(m->name, "world_size") == 0 ||
                         strcmp(m->name, "program") == 0;
        if (own) continue;
        char buf[64];
        const char *text = m->type == SYN_VALUE_TEXT ? m->text : NULL;
        if (text == NULL)
            text =
                syn__arena_text(&walk->arena, syn__str_of(syn_attribute_text(m, buf, sizeof buf)));
        if (text == NULL) return SYN_FAIL_NOMEM(err, sizeof buf, "an attribute");
        SYN_TRY(add_string(walk, m->name, text, err));
    }
    return add_groups(walk, err);
}

/* Returns 3 for a metadata entry "name@rank3", and -1 if the entry is for all ranks. *bytes is the
   length of the name without the suffix. */
static int64_t rank_of_entry(const char *name, size_t *bytes) {
    const char *at = strrchr(name, '@');
    uint64_t rank;
    *bytes = strlen(name);
    if (at == NULL || strncmp(at, "@rank", 5) != 0 || !syn__et_parse_u64(at + 5, &rank) ||
        rank > INT32_MAX)
        return -1;
    *bytes = (size_t)(at - name);
    return (int64_t)rank;
}

/* Returns the entry to write for `m`: the rank's own entry of that name, if there is one. NULL:
   nothing is written for `m`. */
static const syn_attribute *entry_of(const syn_graph *g, const syn_attribute *m, int32_t rank,
                                     bool *out_own) {
    size_t bytes, base_bytes;
    const int64_t for_rank = rank_of_entry(m->name, &bytes);
    *out_own = for_rank >= 0;
    if (for_rank >= 0 && for_rank != rank) return NULL;
    for (uint32_t i = 0; i < g->n_metadata; i++) {
        const syn_attribute *other = &g->metadata[i];
        const int64_t other_rank = rank_of_entry(other->name, &base_bytes);
        if (base_bytes != bytes || memcmp(other->name, m->name, bytes) != 0) continue;
        /* The rank's own entry is written in place of the common entry or, if there is none, at its
           own position. */
        if (for_rank >= 0 && other_rank < 0) return NULL;
        if (for_rank < 0 && other_rank == rank) {
            *out_own = true;
            return other;
        }
    }
    return m;
}

static syn_status verbatim_entry(syn__et_walk *walk, const syn_attribute *m, syn__et_meta *out,
                                 syn_error *err) {
    const int32_t rank = walk->graph->ranks[walk->rank].rank;
    bool own;
    const syn_attribute *entry = entry_of(walk->graph, m, rank, &own);
    if (entry == NULL) return SYN_OK;
    syn_attribute named = *entry;
    if (own) {
        size_t bytes;
        (void)rank_of_entry(entry->name, &bytes);
        named.name = syn__arena_text(&walk->arena, (syn__str){entry->name, bytes});
        if (named.name == NULL) return SYN_FAIL_NOMEM(err, bytes, "a name");
    }
    if (strcmp(named.name, "et.version") == 0) {
        out->version = syn__arena_utf8(&walk->arena,
                                       syn__str_of(named.type == SYN_VALUE_TEXT ? named.text : ""));
        return out->version.text != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, 1, "a version");
    }
    if (strncmp(named.name, "et.", 3) == 0 && strchr(named.name, '@') == NULL) return SYN_OK;
    const char *at = strrchr(named.name, '@');
    if (at != NULL && strcmp(at, "@doc") == 0 && named.type == SYN_VALUE_TEXT &&
        walk->n_attrs > 0) {
        syn__str *doc = &walk->attrs[walk->n_attrs - 1].doc;
        *doc = syn__arena_utf8(&walk->arena, syn__str_of(named.text));
        return doc->text != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, 1, "an attribute");
    }
    if (!own && strcmp(named.name, "rank") == 0 && named.type == SYN_VALUE_I64) named.i64 = rank;
    syn__et_attr a;
    SYN_TRY(syn__et_attr_from_graph(&named, &walk->arena, &a, err));
    return syn__et_walk_add(walk, &a, err);
}

syn_status syn__et_walk_meta(syn__et_walk *walk, syn__et_meta *out, syn_error *err) {
    *out = (syn__et_meta){.version = {"", 0}};
    reset(walk);
    if (walk->verbatim) {
        for (uint32_t i = 0; i < walk->graph->n_metadata; i++)
            SYN_TRY(verbatim_entry(walk, &walk->graph->metadata[i], out, err));
        if (syn_graph_meta(walk->graph, "et.groups") != NULL) SYN_TRY(add_groups(walk, err));
    } else {
        SYN_TRY(planned_meta(walk, out, err));
    }
    out->attrs = walk->attrs;
    out->n_attrs = walk->n_attrs;
    return SYN_OK;
}

/* ---- Verbatim nodes ---- */

static uint32_t type_of_kind(const syn_node *node) {
    switch (node->kind) {
    case SYN_NODE_COLLECTIVE:
        return SYN__ET_COMM_COLL_NODE;
    case SYN_NODE_SEND:
        return SYN__ET_COMM_SEND_NODE;
    case SYN_NODE_RECV:
        return SYN__ET_COMM_RECV_NODE;
    case SYN_NODE_MEMORY:
        return SYN__ET_MEM_LOAD_NODE;
    case SYN_NODE_METADATA:
        return SYN__ET_METADATA_NODE;
    default:
        return SYN__ET_COMP_NODE;
    }
}

static uint64_t number_of(const syn_attribute *a) {
    uint64_t v = 0;
    if (a->type == SYN_VALUE_TEXT) return syn__et_parse_u64(a->text, &v) ? v : 0;
    return (uint64_t)a->i64;
}

static uint32_t type_by_name(const syn_attribute *a) {
    uint32_t type;
    const bool named =
        a->type == SYN_VALUE_TEXT && syn__et_node_type_named(syn__str_of(a->text), &type);
    return named ? type : (uint32_t)number_of(a);
}

/* Returns the string that an attribute like "@inputs.shapes" sets. NULL for "@inputs" and
   "@outputs", and for other attributes, for which *is_io is false. */
static syn__str *io_slot(const char *name, syn__et_node *out, bool *is_io) {
    static const char *const names[2][4] = {
        {"@inputs.values", "@inputs.shapes", "@inputs.types", "@inputs"},
        {"@outputs.values", "@outputs.shapes", "@outputs.types", "@outputs"}};
    *is_io = false;
    for (int which = 0; which < 2; which++) {
        for (int part = 0; part < 4; part++) {
            if (strcmp(name, names[which][part]) != 0) continue;
            *is_io = true;
            out->io[which].present = true;
            return part < 3 ? &out->io[which].text[part] : NULL;
        }
    }
    return NULL;
}

/* An attribute whose name begins with '@' stores a field of the Node message for which syn_node has
   no member. Sets this field of *out. Returns false for all other attributes. */
static bool take_field(syn__et_walk *walk, const syn_attribute *a, syn__et_node *out, bool *nomem) {
    bool known = false;
    if (*a->name != '@') return false;
    syn__str *slot = io_slot(a->name, out, &known);
    if (strcmp(a->name, "@name") == 0) slot = &out->name;
    if (strcmp(a->name, "@doc") == 0 && walk->n_attrs > 0)
        slot = &walk->attrs[walk->n_attrs - 1].doc;
    if (slot != NULL) {
        *slot =
            syn__arena_utf8(&walk->arena, syn__str_of(a->type == SYN_VALUE_TEXT ? a->text : ""));
        *nomem = *nomem || slot->text == NULL;
        return true;
    }
    if (strcmp(a->name, "@type") == 0) out->type = type_by_name(a);
    else if (strcmp(a->name, "@start_time_micros") == 0) out->start_micros = number_of(a);
    else if (strcmp(a->name, "@duration_micros") == 0) out->duration_micros = number_of(a);
    else return known;
    return true;
}

static syn_status verbatim_attrs(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                 syn_error *err) {
    bool nomem = false;
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const syn_attribute *attr = &node->attributes[i];
        syn__et_attr a;
        if (take_field(walk, attr, out, &nomem)) continue;
        SYN_TRY(syn__et_attr_from_graph(attr, &walk->arena, &a, err));
        SYN_TRY(syn__et_walk_add(walk, &a, err));
    }
    return nomem ? SYN_FAIL_NOMEM(err, 1, "an attribute") : SYN_OK;
}

static syn_status verbatim_deps(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                syn_error *err) {
    size_t n[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        SYN_TRY(syn_grow(&walk->ids[k], &walk->ids_cap[k], node->n_deps, sizeof(uint64_t), err));
    }
    for (uint32_t i = 0; i < node->n_deps; i++) {
        if (node->deps[i].node >= walk->next)
            return SYN_FAIL(
                err, SYN_E_INVALID, "rank %d: node %u depends on node %u, which is not earlier",
                (int)walk->graph->ranks[walk->rank].rank, walk->next, node->deps[i].node);
        const int is_data = node->deps[i].dep_class != SYN_DEP_CONTROL &&
                            node->deps[i].dep_class != SYN_DEP_INPLACE;
        /* Adjacent dependencies on the same node, with different control classes, are written
           once. */
        const uint64_t id = walk->node_ids[node->deps[i].node];
        if (n[is_data] == 0 || walk->ids[is_data][n[is_data] - 1] != id)
            walk->ids[is_data][n[is_data]++] = id;
    }
    out->ctrl = walk->ids[0];
    out->n_ctrl = n[0];
    out->data = walk->ids[1];
    out->n_data = n[1];
    return SYN_OK;
}

static syn_status verbatim_node(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                syn_error *err) {
    out->id = walk->node_ids[walk->next] = node->id;
    out->type = type_of_kind(node);
    SYN_TRY(verbatim_deps(walk, node, out, err));
    SYN_TRY(syn__et_describe_frame(walk, node, out, err));
    return verbatim_attrs(walk, node, out, err);
}

/* ---- All nodes ---- */

syn_status syn__et_walk_node(syn__et_walk *walk, syn__et_node *out, bool *more, syn_error *err) {
    static const syn__et_io none = {.text = {{"", 0}, {"", 0}, {"", 0}}};
    const syn_graph *g = walk->graph;
    *more = false;
    while (walk->next < g->ranks[walk->rank].n_nodes) {
        const uint32_t index = walk->order != NULL ? walk->order[walk->next] : walk->next;
        const syn_node *node = syn_graph_node(g, walk->rank, index, &walk->cursor);
        if (node == NULL)
            return SYN_FAIL(err, walk->cursor.error.code, "%s", walk->cursor.error.text);
        uint32_t id = 1;
        *out = (syn__et_node){.name = {"", 0}, .io = {none, none}};
        reset(walk);
        if (walk->verbatim) {
            SYN_TRY(verbatim_node(walk, node, out, err));
        } else {
            SYN_TRY(syn__et_plan_node(&walk->plan, index, node, &id, err));
            out->id = id;
            out->ctrl = walk->plan.ctrl;
            out->n_ctrl = walk->plan.n_ctrl;
            out->data = walk->plan.data;
            out->n_data = walk->plan.n_data;
            if (id != 0) SYN_TRY(syn__et_describe(walk, node, out, err));
        }
        walk->next++;
        if (id == 0) continue;
        out->attrs = walk->attrs;
        out->n_attrs = walk->n_attrs;
        *more = true;
        return SYN_OK;
    }
    return SYN_OK;
}
