/* What the parts of the validator share: the set being checked, and a check
   a file (et_validate_*.c). */
#ifndef EXPORT_ET_VALIDATE_H
#define EXPORT_ET_VALIDATE_H

#include "export/chakra/check/et_scan.h"
#include "export/validate.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ABSENT   INT64_MIN  /* an attribute that is not there */
#define SYN__NO_GROUP UINT32_MAX /* of sends and receives: they sort behind the collectives */

/* A collective, a send or a receive. */
typedef struct syn__checked_call {
    uint32_t node;
    uint32_t group; /* of syn_validator.groups */
    uint64_t id, offset;
    uint32_t type; /* SYN__ET_COMM_COLL_NODE, ... */
    uint32_t key;  /* of messages: equal for those that match each other */
    int64_t kind;  /* comm_type */
    int64_t size, src, dst, tag;
} syn__checked_call;

typedef struct syn__checked_rank {
    int32_t rank;
    bool damaged; /* not all of it was read: it is not compared with others */
    uint32_t n_nodes;
    syn__checked_call *calls; /* by group, then id */
    size_t n_calls, calls_cap;
    /* Kept only for the run through the set: */
    uint32_t *first_child, *children;
    uint32_t *place; /* of each node in order of ids; NULL: as in the file */
} syn__checked_rank;

/* Found by name: its index is the name's id in syn_validator.names. */
typedef struct syn__checked_group {
    int32_t *members;
    size_t n_members, members_cap;
    bool listed, used;
    int32_t seen_rank; /* the rank that is_member was found for; -2: none */
    bool is_member;
} syn__checked_group;

struct syn_validator {
    syn_validate_options how;
    uint32_t world;
    syn_validation result;
    size_t findings_cap;
    syn_status status; /* SYN_E_NOMEM sticks until the next step ends */
    syn_intern names;
    syn__checked_group *groups;
    size_t groups_cap;
    syn__checked_rank *ranks; /* ascending */
    size_t n_ranks, ranks_cap;
    uint64_t frontier; /* sum of the widest ready sets */
};

/* Where a finding is. */
typedef struct syn__spot {
    int32_t rank;
    bool has_node;
    uint64_t node, offset; /* SYN__ET_NO_OFFSET */
} syn__spot;

void syn__find(syn_validator *v, syn_finding_kind kind, syn__spot spot, const char *fmt, ...)
    SYN_PRINTF(4, 5);
static inline syn__spot syn__spot_of_call(const syn__checked_rank *rank,
                                          const syn__checked_call *call) {
    const syn__spot spot = {rank->rank, true, call->id, call->offset};
    return spot;
}

/* The group of that name, made up if there is none. */
syn_status syn__checked_group_of(syn_validator *v, const char *name, size_t bytes, uint32_t *out,
                                 syn_error *err) SYN_MUST_USE;
const char *syn__checked_group_name(const syn_validator *v, uint32_t group);
/* "" and "0" are all ranks. */
bool syn__is_world(const syn_validator *v, uint32_t group);
/* How many ranks a group has, 0 when that is not known; its i-th. */
size_t syn__n_members(const syn_validator *v, uint32_t group);
int32_t syn__member(const syn_validator *v, uint32_t group, size_t i);
/* NULL if that rank was not read, or is damaged. */
syn__checked_rank *syn__checked_rank_of(const syn_validator *v, int64_t rank);

/* One node: its attributes, and what its type needs (et_validate_node.c). */
syn_status syn__check_node(syn_validator *v, syn__checked_rank *rank, uint32_t index,
                           uint64_t offset, const syn__et_node *node, syn_error *err);
/* Whether dependencies order the collectives of each group (et_validate_order.c). */
syn_status syn__check_order(syn_validator *v, const syn__checked_rank *rank,
                            const syn__et_scan *scan, const syn__et_dag *dag, syn_error *err);
/* Ranks against each other: collectives, then messages (et_validate_across.c). */
syn_status syn__check_across(syn_validator *v, syn_error *err);
/* Runs the set with one compute and one communication slot a rank (et_validate_run.c). Only for a
   set without problems. */
syn_status syn__check_run(syn_validator *v, syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
