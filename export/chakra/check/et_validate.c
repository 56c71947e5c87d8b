/* The validator's core: stores findings, looks up groups, and checks one file. Each kind of check
   has a file of its own (et_validate_*.c). */
#include "export/chakra/check/et_validate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "syntorch/base/memory.h"

/* ---- Findings ---- */

static const struct kind {
    const char *name, *why;
    bool problem;
} kinds[SYN_FINDING_KINDS] = {
#define SYN_X(id, name, problem, why) {name, why, problem},
    SYN_FINDING_LIST(SYN_X)
#undef SYN_X
};

const char *syn_finding_name(syn_finding_kind kind) {
    return kinds[kind].name;
}
bool syn_finding_is_problem(syn_finding_kind kind) {
    return kinds[kind].problem;
}
const char *syn_finding_why(syn_finding_kind kind) {
    return kinds[kind].why;
}

void syn__report_finding(syn_validator *v, syn_finding_kind kind, syn__finding_location spot,
                         const char *fmt, ...) {
    syn_validation *r = &v->result;
    syn_error text = {0};
    va_list args;
    *(kinds[kind].problem ? &r->n_problems : &r->n_warnings) += 1;
    if (r->counts[kind]++ >= SYN_MAX_FINDINGS || v->status != SYN_OK) return;
    char sentence[sizeof text.text + 8];
    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    (void)SYN_FAIL(&text, SYN_E_FORMAT, "%s", sentence); /* SYN_FAIL makes truncated text valid
                                                            UTF-8 */
    v->status =
        syn_grow(&r->findings, &v->findings_cap, r->n_findings + 1, sizeof *r->findings, NULL);
    char *copy = syn_strdup(text.text);
    if (v->status != SYN_OK || copy == NULL) {
        v->status = SYN_E_NOMEM;
        syn_free(copy);
        return;
    }
    r->findings[r->n_findings++] =
        (syn_finding){kind,      spot.rank,   spot.has_node, spot.offset != SYN__ET_NO_OFFSET,
                      spot.node, spot.offset, copy};
}

void syn_validation_free(syn_validation *r) {
    for (size_t i = 0; i < r->n_findings; i++) syn_free(r->findings[i].text);
    syn_free(r->findings);
    *r = (syn_validation){0};
}

/* Sorts the findings by kind and otherwise keeps their order. One pass per kind is fast enough
   because there are few findings. */
static syn_status sort_findings(syn_validation *r, syn_error *err) {
    if (r->n_findings == 0) return SYN_OK;
    syn_finding *sorted = (syn_finding *)syn_malloc(r->n_findings * sizeof *sorted);
    if (sorted == NULL) return SYN_FAIL_NOMEM(err, r->n_findings * sizeof *sorted, "findings");
    size_t n = 0;
    for (int kind = 0; kind < SYN_FINDING_KINDS; kind++) {
        for (size_t i = 0; i < r->n_findings; i++) {
            if (r->findings[i].kind == (syn_finding_kind)kind) sorted[n++] = r->findings[i];
        }
    }
    syn_free(r->findings);
    r->findings = sorted;
    return SYN_OK;
}

/* ---- Groups ---- */

syn_status syn__checked_group_of(syn_validator *v, const char *name, size_t bytes, uint32_t *out,
                                 syn_error *err) {
    SYN_TRY(syn_intern_put(&v->names, name, bytes, out, err));
    const size_t had = v->groups_cap;
    SYN_TRY(syn_grow(&v->groups, &v->groups_cap, (size_t)*out + 1, sizeof *v->groups, err));
    for (size_t i = had; i < v->groups_cap; i++)
        v->groups[i] = (syn__checked_group){.seen_rank = -2};
    return SYN_OK;
}

const char *syn__checked_group_name(const syn_validator *v, uint32_t group) {
    return (const char *)syn_intern_get(&v->names, group);
}

const char *syn__world_name(const syn_validator *v) {
    return v->lists_zero ? "all ranks" : "0";
}

bool syn__is_world(const syn_validator *v, uint32_t group) {
    return strcmp(syn__checked_group_name(v, group), syn__world_name(v)) == 0;
}

size_t syn__n_members(const syn_validator *v, uint32_t group) {
    return syn__is_world(v, group) ? v->world : v->groups[group].n_members;
}

int32_t syn__member(const syn_validator *v, uint32_t group, size_t i) {
    return syn__is_world(v, group) ? (int32_t)i : v->groups[group].members[i];
}

syn__checked_rank *syn__checked_rank_of(const syn_validator *v, int64_t rank) {
    size_t low = 0, high = v->n_ranks;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (v->ranks[mid].rank < rank) low = mid + 1;
        else high = mid;
    }
    if (low == v->n_ranks || v->ranks[low].rank != rank || v->ranks[low].damaged) return NULL;
    return &v->ranks[low];
}

/* ---- One file ---- */

typedef struct file_check {
    syn_validator *v;
    syn__checked_rank *rank;
    const syn__et_scan *scan;
} file_check;

static syn_status on_meta(void *user, const syn__et_meta *meta, syn_error *err) {
    const file_check *f = (const file_check *)user;
    syn_validator *v = f->v;
    int64_t value;
    (void)err;
    for (size_t i = 0; i < meta->n_attrs; i++) {
        if (!syn__et_attr_integer(&meta->attrs[i], &value)) continue;
        if (syn__str_is(meta->attrs[i].name, "world_size") && v->stated_world == 0 && value > 0 &&
            value <= SYN_MAX_WORLD)
            v->stated_world = (int32_t)value;
        if (syn__str_is(meta->attrs[i].name, "rank") && f->rank->rank >= 0 &&
            value != f->rank->rank)
            syn__report_finding(v, SYN_FINDING_OTHER_RANK,
                                (syn__finding_location){f->rank->rank, false, 0, SYN__ET_NO_OFFSET},
                                "the metadata of the file say rank %" PRId64, value);
    }
    return SYN_OK;
}

static syn_status on_node(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                          syn_error *err) {
    const file_check *f = (const file_check *)user;
    return syn__check_node(f->v, f->rank, index, offset, node, err);
}

static void on_fault(void *user, syn__et_fault what, uint32_t node, uint64_t offset, uint64_t id,
                     const char *why) {
    file_check *f = (file_check *)user;
    const bool has_node = node != UINT32_MAX;
    const syn__finding_location spot = {f->rank->rank, has_node, has_node ? f->scan->ids[node] : 0,
                                        offset};
    if (what <= SYN__ET_FAULT_TEXT && what != SYN__ET_FAULT_EMPTY) f->rank->damaged = true;
    switch (what) {
    case SYN__ET_FAULT_FRAME:
        syn__report_finding(f->v, SYN_FINDING_FRAME, spot, "%s; the rest of the file is not read",
                            why);
        break;
    case SYN__ET_FAULT_META:
        syn__report_finding(f->v, SYN_FINDING_META, spot, "no metadata message: %s", why);
        break;
    case SYN__ET_FAULT_EMPTY:
        syn__report_finding(f->v, SYN_FINDING_EMPTY, spot, "a message has no bytes");
        break;
    case SYN__ET_FAULT_MESSAGE:
        syn__report_finding(f->v, SYN_FINDING_MESSAGE, spot, "the message is damaged: %s", why);
        break;
    case SYN__ET_FAULT_TEXT:
        syn__report_finding(f->v, SYN_FINDING_TEXT, spot, "the message is skipped: %s", why);
        break;
    case SYN__ET_FAULT_ID:
        syn__report_finding(f->v, SYN_FINDING_ID, spot,
                            "an earlier node also has the id %" PRIu64 " too", id);
        break;
    case SYN__ET_FAULT_DANGLING:
        syn__report_finding(f->v, SYN_FINDING_DANGLING, spot,
                            "it depends on node %" PRIu64 ", which is not in the file", id);
        break;
    case SYN__ET_FAULT_SELF:
        syn__report_finding(f->v, SYN_FINDING_SELF, spot, "it depends on itself");
        break;
    }
}

#define SHOWN_IDS 8u

static syn_status find_cycle(syn_validator *v, const syn__checked_rank *rank,
                             const syn__et_scan *scan, const syn__et_dag *dag, syn_error *err) {
    char text[SHOWN_IDS * 25 + 1] = "";
    uint32_t *cycle, n;
    size_t used = 0;
    SYN_TRY(syn__et_dag_cycle(dag, scan, &cycle, &n, err));
    for (uint32_t i = 0; i < n && i < SHOWN_IDS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%" PRIu64 " <- ",
                                 scan->ids[cycle[i]]);
    const uint64_t first = scan->ids[cycle[0]];
    const syn__finding_location spot = {rank->rank, true, first, scan->offsets[cycle[0]]};
    syn__report_finding(
        v, SYN_FINDING_CYCLE, spot,
        "%" PRIu32 " nodes depend on each other: %s%s%" PRIu64 "; %" PRIu32 " nodes can never run",
        n, text, n > SHOWN_IDS ? "... <- " : "", first, scan->n_nodes - dag->n_ordered);
    syn_free(cycle);
    return SYN_OK;
}

/* Stores the dependencies of a rank for syn__check_deadlock, unless it is already certain that the
   set will not be simulated. */
static syn_status keep_graph(syn_validator *v, syn__checked_rank *rank, const syn__et_scan *scan,
                             syn__et_dag *dag, syn_error *err) {
    if (v->how.any_node || v->how.single || v->world < 2 || v->result.n_problems != 0)
        return SYN_OK;
    if (scan->id_order != NULL) {
        rank->place = (uint32_t *)syn_malloc((scan->n_nodes + 1u) * sizeof(uint32_t));
        if (rank->place == NULL)
            return SYN_FAIL_NOMEM(err, scan->n_nodes * sizeof(uint32_t), "the order of ids");
        for (uint32_t i = 0; i < scan->n_nodes; i++) rank->place[scan->id_order[i]] = i;
    }
    rank->first_child = dag->first_child;
    rank->children = dag->children;
    dag->first_child = dag->children = NULL;
    return SYN_OK;
}

static int compare_calls(const void *a, const void *b) {
    const syn__checked_call *x = (const syn__checked_call *)a, *y = (const syn__checked_call *)b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static syn_status check_graph(syn_validator *v, syn__checked_rank *rank, const syn__et_scan *scan,
                              syn__et_dag *dag, syn_error *err) {
    const syn__finding_location whole = {rank->rank, false, 0, SYN__ET_NO_OFFSET};
    SYN_TRY(syn__et_dag_open(dag, scan, err));
    rank->n_nodes = scan->n_nodes;
    v->result.n_nodes += scan->n_nodes;
    v->result.n_deps += scan->first_dep[scan->n_nodes];
    v->frontier += dag->widest_ready;
    if (scan->n_nodes == 0)
        syn__report_finding(v, SYN_FINDING_NO_NODES, whole, "the file has no nodes");
    if (dag->n_ordered < scan->n_nodes) SYN_TRY(find_cycle(v, rank, scan, dag, err));
    if (rank->n_calls > 1) qsort(rank->calls, rank->n_calls, sizeof *rank->calls, compare_calls);
    if (!v->how.single) SYN_TRY(syn__check_order(v, rank, scan, dag, err));
    return keep_graph(v, rank, scan, dag, err);
}

static syn_status check_file(syn_validator *v, syn__checked_rank *rank, const char *data,
                             size_t bytes, syn_error *err) {
    syn__et_scan scan = {0};
    syn__et_dag dag = {0};
    file_check f = {v, rank, &scan};
    const syn__et_listener listener = {&f, on_meta, on_node, on_fault};
    syn_status status = syn__et_scan_open(&scan, data, bytes, &listener, err);
    if (status == SYN_OK) status = check_graph(v, rank, &scan, &dag, err);
    syn__et_dag_close(&dag);
    syn__et_scan_close(&scan);
    if (status == SYN_OK && v->status != SYN_OK) status = SYN_FAIL_NOMEM(err, 0, "a finding");
    return status;
}

syn_status syn_validator_add(syn_validator *v, int32_t rank, const char *data, size_t bytes,
                             syn_error *err) {
    if (v->n_ranks > 0 && rank <= v->ranks[v->n_ranks - 1].rank)
        return SYN_FAIL(err, SYN_E_INVALID, "ranks must be checked in ascending order");
    if (v->world != 0 && (rank < 0 || (uint32_t)rank >= v->world))
        return SYN_FAIL(err, SYN_E_INVALID, "rank %" PRId32 " is not one of %" PRIu32, rank,
                        v->world);
    SYN_TRY(syn_grow(&v->ranks, &v->ranks_cap, v->n_ranks + 1, sizeof *v->ranks, err));
    syn__checked_rank *out = &v->ranks[v->n_ranks++];
    *out = (syn__checked_rank){.rank = rank};
    v->result.n_files++;
    if (bytes >= 2 && (unsigned char)data[0] == 0x1F && (unsigned char)data[1] == 0x8B) {
        out->damaged = true;
        syn__report_finding(
            v, SYN_FINDING_FRAME, (syn__finding_location){rank, false, 0, 0},
            "the file is compressed with gzip, which simulators do not read; unpack it");
        return SYN_OK;
    }
    return check_file(v, out, data, bytes, err);
}

/* ---- Opening and closing ---- */

syn_status syn_validator_open(syn_validator **out, const syn_validate_options *options,
                              uint32_t world, syn_error *err) {
    *out = NULL;
    SYN_TRY(syn__et_supported(err));
    *out = (syn_validator *)syn_calloc(1, sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, sizeof **out, "a validator");
    (*out)->how = *options;
    (*out)->how.any_node = options->any_node || options->single;
    (*out)->world = options->single ? 0 : world;
    return SYN_OK;
}

#define WIDE_FRONTIER 16384u /* number of nodes that ASTRA-sim's reader has in memory at a time */

static syn_status compare_ranks(syn_validator *v, syn_error *err) {
    if (!v->how.any_node && v->frontier > WIDE_FRONTIER)
        syn__report_finding(v, SYN_FINDING_FRONTIER,
                            (syn__finding_location){-1, false, 0, SYN__ET_NO_OFFSET},
                            "up to %" PRIu64 " nodes are ready at once", v->frontier);
    if (v->how.single || v->world < 2) return SYN_OK;
    v->result.across = true;
    SYN_TRY(syn__check_across_ranks(v, err));
    if (v->how.any_node || v->result.n_problems != 0 || v->n_ranks != v->world) return SYN_OK;
    SYN_TRY(syn__check_deadlock(v, err));
    v->result.executed = v->result.counts[SYN_FINDING_DEADLOCK] == 0;
    return SYN_OK;
}

static void free_rank(syn__checked_rank *rank) {
    syn_free(rank->calls);
    syn_free(rank->first_child);
    syn_free(rank->children);
    syn_free(rank->place);
}

syn_status syn_validator_close(syn_validator *v, syn_validation *out, syn_error *err) {
    syn_status status = SYN_OK;
    if (out != NULL) {
        *out = (syn_validation){0};
        status = compare_ranks(v, err);
        if (status == SYN_OK && v->status != SYN_OK) status = SYN_FAIL_NOMEM(err, 0, "a finding");
        if (status == SYN_OK) status = sort_findings(&v->result, err);
        if (status == SYN_OK) {
            *out = v->result;
            v->result = (syn_validation){0};
        }
    }
    syn_validation_free(&v->result);
    for (size_t i = 0; i < v->n_ranks; i++) free_rank(&v->ranks[i]);
    for (size_t i = 0; i < v->groups_cap; i++) syn_free(v->groups[i].members);
    syn_free(v->groups);
    syn_free(v->ranks);
    syn_intern_free(&v->names);
    syn_free(v);
    return status;
}
