/* Checks one node: whether it has the attributes that its type needs, with valid values. */
#include <inttypes.h>
#include <stdio.h>

#include "export/chakra/check/et_validate.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

/* Attributes that are checked. The first N_INTEGERS must be integers. */
enum {
    COMM_TYPE,
    COMM_SIZE,
    COMM_TAG,
    COMM_SRC,
    COMM_DST,
    NUM_OPS,
    TENSOR_SIZE,
    IS_CPU_OP,
    N_INTEGERS,
    PG_NAME = N_INTEGERS,
    INVOLVED_DIM,
    N_KNOWN
};

static const syn__str known[N_KNOWN] = {
    {"comm_type", 9}, {"comm_size", 9},    {"comm_tag", 8},  {"comm_src", 8}, {"comm_dst", 8},
    {"num_ops", 7},   {"tensor_size", 11}, {"is_cpu_op", 9}, {"pg_name", 7},  {"involved_dim", 12}};

typedef struct node_check {
    syn_validator *v;
    syn__checked_rank *rank;
    const syn__et_node *node;
    syn__finding_location spot;
    uint32_t index;
    const syn__et_attr *attrs[N_KNOWN]; /* NULL if absent */
    int64_t values[N_INTEGERS];         /* SYN__ABSENT if absent */
} node_check;

#define NAME_BYTES 64u

/* The node's name for a message, truncated between characters. */
static const char *name_of(const node_check *c, char out[NAME_BYTES]) {
    const syn__str s = c->node->name;
    size_t n = 0;
    while (n < s.bytes) {
        const size_t bytes = syn_utf8_char_bytes(s.text + n, s.bytes - n);
        if (bytes == 0 || n + bytes >= NAME_BYTES) break;
        n += bytes;
    }
    if (n != 0) memcpy(out, s.text, n);
    out[n] = '\0';
    return out;
}

/* Reports a finding with an attribute's value. Names and numbers are formatted here and not
   earlier, because most nodes have no findings. */
static void find(const node_check *c, syn_finding_kind kind, const char *what, int64_t value) {
    char name[NAME_BYTES], number[32] = "not given";
    if (value != SYN__ABSENT) snprintf(number, sizeof number, "%" PRId64, value);
    syn__report_finding(c->v, kind, c->spot, "'%s': %s %s", name_of(c, name), what, number);
}

static void find_text(const node_check *c, syn_finding_kind kind, const char *what, size_t bytes,
                      const char *how) {
    char name[NAME_BYTES];
    syn__report_finding(c->v, kind, c->spot, "'%s': %.*s%s", name_of(c, name),
                        bytes < 80 ? (int)bytes : 80, what, how);
}

/* ---- Attributes ---- */

static bool good_member(int which, const syn__et_attr *a, int64_t *value) {
    if (which == PG_NAME) return a->field == SYN__ET_STRING;
    if (which == INVOLVED_DIM) return a->field == SYN__ET_BOOL_LIST;
    return syn__et_attr_integer(a, value);
}

static void check_known(node_check *c, int which, const syn__et_attr *a) {
    int64_t unused, *value = which < N_INTEGERS ? &c->values[which] : &unused;
    if (c->attrs[which] != NULL)
        find_text(c, SYN_FINDING_TWICE, a->name.text, a->name.bytes, " appears twice");
    c->attrs[which] = a;
    *value = SYN__ABSENT;
    if (good_member(which, a, value)) {
        if (*value == SYN__ABSENT)
            ++*value; /* INT64_MIN means "absent"; INT64_MIN + 1 is just as invalid */
        return;
    }
    if (a->field == SYN__ET_NONE) return;
    if (which >= N_INTEGERS && c->node->type != SYN__ET_COMM_COLL_NODE)
        return; /* simulators do not read these attributes of other nodes */
    char how[64];
    snprintf(how, sizeof how, " is %s, not %s", syn__et_field_name(a->field),
             which == PG_NAME        ? "string_val"
             : which == INVOLVED_DIM ? "bool_list"
                                     : "an integer");
    find_text(c, SYN_FINDING_MEMBER, a->name.text, a->name.bytes, how);
}

static void check_attributes(node_check *c) {
    for (int i = 0; i < N_INTEGERS; i++) c->values[i] = SYN__ABSENT;
    for (size_t i = 0; i < c->node->n_attrs; i++) {
        const syn__et_attr *a = &c->node->attrs[i];
        if (a->field == SYN__ET_NONE)
            find_text(c, SYN_FINDING_NO_VALUE, a->name.text, a->name.bytes, " has no value");
        for (int k = 0; k < N_KNOWN; k++) {
            if (a->name.bytes != known[k].bytes ||
                memcmp(a->name.text, known[k].text, known[k].bytes) != 0)
                continue;
            check_known(c, k, a);
            break;
        }
    }
}

/* ---- Compute ---- */

/* Bytes and ops that a current accelerator (3.35 TB/s, 900 Tflop/s) handles in 1 ns. */
#define ROOT_BYTES 3350
#define ROOT_OPS   900000

static void check_compute(const node_check *c) {
    const int64_t ops = c->values[NUM_OPS], bytes = c->values[TENSOR_SIZE];
    syn_validation *r = &c->v->result;
    r->n_compute++;
    r->n_on_cpu += c->values[IS_CPU_OP] > 0;
    r->n_costed += ops > 0 && bytes > 0;
    if (c->v->how.any_node) return;
    if (c->values[IS_CPU_OP] > 0) find(c, SYN_FINDING_CPU_NODE, "is_cpu_op is", 1);
    if (ops < 1) find(c, SYN_FINDING_COST, "num_ops is", ops);
    if (bytes < 1) find(c, SYN_FINDING_COST, "tensor_size is", bytes);
    if (ops < 1 || bytes < 1 || c->node->n_ctrl + c->node->n_data != 0) return;
    if (bytes < ROOT_BYTES && ops < ROOT_OPS)
        find(c, SYN_FINDING_SMALL_ROOT, "depends on nothing and its tensor_size is", bytes);
}

/* ---- Communication ---- */

static syn_status add_call(const node_check *c, uint32_t group, syn_error *err) {
    syn__checked_rank *r = c->rank;
    SYN_TRY(syn_grow(&r->calls, &r->calls_cap, r->n_calls + 1, sizeof *r->calls, err));
    r->calls[r->n_calls++] = (syn__checked_call){.node = c->index,
                                                 .group = group,
                                                 .id = c->node->id,
                                                 .offset = c->spot.offset,
                                                 .type = c->node->type,
                                                 .kind = c->values[COMM_TYPE],
                                                 .size = c->values[COMM_SIZE],
                                                 .src = c->values[COMM_SRC],
                                                 .dst = c->values[COMM_DST],
                                                 .tag = c->values[COMM_TAG]};
    return SYN_OK;
}

static bool is_member(syn_validator *v, uint32_t group, int32_t rank) {
    syn__checked_group *g = &v->groups[group];
    if (syn__is_world(v, group)) return rank >= 0 && (uint32_t)rank < v->world;
    if (g->seen_rank == rank) return g->is_member;
    g->seen_rank = rank;
    g->is_member = false;
    for (size_t i = 0; i < g->n_members && !g->is_member; i++) g->is_member = g->members[i] == rank;
    return g->is_member;
}

static void check_group(const node_check *c, uint32_t group) {
    syn_validator *v = c->v;
    const char *name = syn__checked_group_name(v, group);
    char text[NAME_BYTES];
    const bool world = syn__is_world(v, group);
    /* If a single file is checked, its rank and the groups may be unknown. */
    const bool known_world = v->world != 0, known_rank = c->spot.rank >= 0;
    if (v->how.any_node || (world && !known_world)) return;
    if (!world && !v->groups[group].listed)
        syn__report_finding(
            v, SYN_FINDING_GROUP, c->spot, "'%s': group %.60s is not in %s", name_of(c, text), name,
            v->has_group_file ? "the group file"
                              : "a group file, as there is none; --groups FILE names one");
    else if (known_rank && !is_member(v, group, c->spot.rank))
        syn__report_finding(v, SYN_FINDING_GROUP, c->spot,
                            "'%s': rank %" PRId32 " is not in its group %.60s", name_of(c, text),
                            c->spot.rank, name);
    else if (syn__n_members(v, group) < 2)
        syn__report_finding(v, SYN_FINDING_GROUP, c->spot, "'%s': group %.60s has only one rank",
                            name_of(c, text), name);
}

static bool is_simulated(int64_t kind) {
    static const bool simulated[] = {[SYN__ET_ALL_REDUCE] = true,
                                     [SYN__ET_ALL_GATHER] = true,
                                     [SYN__ET_BROADCAST] = true,
                                     [SYN__ET_ALL_TO_ALL] = true,
                                     [SYN__ET_REDUCE_SCATTER] = true};
    return kind < (int64_t)(sizeof simulated / sizeof simulated[0]) && simulated[kind];
}

static syn_status check_collective(const node_check *c, syn_error *err) {
    const int64_t kind = c->values[COMM_TYPE];
    const syn__et_attr *pg = c->attrs[PG_NAME];
    uint32_t group;
    c->v->result.n_collectives++;
    if (pg != NULL && pg->field != SYN__ET_STRING) return SYN_OK;
    const char *name = syn__et_collective_name(kind);
    if (name == NULL) {
        find(c, SYN_FINDING_COMM_TYPE, "comm_type is", kind);
        return SYN_OK;
    }
    if (c->values[COMM_SIZE] < 1)
        find(c, SYN_FINDING_COMM_SIZE, "comm_size is", c->values[COMM_SIZE]);
    if (!c->v->how.any_node && !is_simulated(kind))
        find_text(c, SYN_FINDING_COMM_KIND, name, strlen(name), " is not simulated");
    const bool named = pg != NULL && pg->data.bytes != 0;
    const syn__str group_name = named ? pg->data : syn__str_of(syn__world_name(c->v));
    SYN_TRY(syn__checked_group_of(c->v, group_name.text, group_name.bytes, &group, err));
    c->v->groups[group].used = true;
    check_group(c, group);
    return add_call(c, group, err);
}

static void number(int64_t value, const char *absent, char out[24]) {
    if (value == SYN__ABSENT) snprintf(out, 24, "%s", absent);
    else snprintf(out, 24, "%" PRId64, value);
}

/* Whether the message can be matched: it names two different ranks, one of them its own, and has a
   valid tag. */
static bool good_message(const node_check *c, int64_t src, int64_t dst) {
    const bool send = c->node->type == SYN__ET_COMM_SEND_NODE;
    const int64_t own = send ? src : dst, peer = send ? dst : src, world = c->v->world;
    if (c->v->how.any_node && (src == SYN__ABSENT || dst == SYN__ABSENT)) return true;
    return (c->spot.rank < 0 || own == c->spot.rank) && own != peer && peer >= 0 &&
           (world == 0 || peer < world) && c->values[COMM_TAG] >= 0;
}

static syn_status check_message(node_check *c, syn_error *err) {
    const bool send = c->node->type == SYN__ET_COMM_SEND_NODE;
    int64_t *own = &c->values[send ? COMM_SRC : COMM_DST];
    *(send ? &c->v->result.n_sends : &c->v->result.n_recvs) += 1;
    if (c->attrs[send ? COMM_SRC : COMM_DST] == NULL && c->spot.rank >= 0) *own = c->spot.rank;
    const int64_t src = c->values[COMM_SRC], dst = c->values[COMM_DST];
    const bool open = c->v->how.any_node && (src == SYN__ABSENT || dst == SYN__ABSENT);
    if (!good_message(c, src, dst)) {
        char name[NAME_BYTES], from[24], to[24], tag[24];
        number(src, "(none)", from);
        number(dst, "(none)", to);
        number(c->values[COMM_TAG], "none", tag);
        syn__report_finding(c->v, SYN_FINDING_PEER, c->spot, "'%s': %s from %s to %s, tag %s",
                            name_of(c, name), send ? "send" : "receive", from, to, tag);
    }
    if (c->values[COMM_SIZE] < 1 && !open)
        find(c, SYN_FINDING_COMM_SIZE, "comm_size is", c->values[COMM_SIZE]);
    return add_call(c, SYN__NO_GROUP, err);
}

/* ---- All nodes ---- */

/* Checks that times fit 64 bits in ns, because simulators multiply microseconds by 1000, and that
   ranks and tags fit int32, which is their type in the schema's attributes. */
static void check_ranges(const node_check *c) {
    static const int narrow[] = {COMM_SRC, COMM_DST, COMM_TAG};
    char name[NAME_BYTES];
    const struct {
        const char *what;
        uint64_t micros;
    } times[] = {{"duration_micros", c->node->duration_micros},
                 {"start_time_micros", c->node->start_micros}};
    for (size_t i = 0; i < 2; i++)
        if (times[i].micros > INT64_MAX / 1000)
            syn__report_finding(c->v, SYN_FINDING_RANGE, c->spot, "'%s': %s is %" PRIu64,
                                name_of(c, name), times[i].what, times[i].micros);
    for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
        if (c->values[narrow[i]] > INT32_MAX)
            syn__report_finding(c->v, SYN_FINDING_RANGE, c->spot, "'%s': %s is %" PRId64,
                                name_of(c, name), known[narrow[i]].text, c->values[narrow[i]]);
}

syn_status syn__check_node(syn_validator *v, syn__checked_rank *rank, uint32_t index,
                           uint64_t offset, const syn__et_node *node, syn_error *err) {
    node_check c = {.v = v, .rank = rank, .node = node, .index = index};
    c.spot = (syn__finding_location){rank->rank, true, node->id, offset};
    check_attributes(&c);
    check_ranges(&c);
    const bool comm = syn__et_is_communication(node->type);
    if (comm && !v->how.any_node && c.values[IS_CPU_OP] > 0)
        find(&c, SYN_FINDING_CPU_NODE, "communicates, but is_cpu_op is", 1);
    if (node->type == SYN__ET_COMP_NODE) check_compute(&c);
    else if (node->type == SYN__ET_COMM_COLL_NODE) return check_collective(&c, err);
    else if (comm) return check_message(&c, err);
    else if (!v->how.any_node) find(&c, SYN_FINDING_NODE_TYPE, "its type is", node->type);
    else if (syn__et_node_type_name(node->type) == NULL)
        find(&c, SYN_FINDING_NEW_TYPE, "its type is", node->type);
    return SYN_OK;
}
