/* Internals shared by the validator's sources (et_validate_*.c, one check per file): the trace set
   being checked and the check functions. */
#ifndef EXPORT_ET_VALIDATE_H
#define EXPORT_ET_VALIDATE_H

#include "export/chakra/check/et_scan.h"
#include "export/validate.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ABSENT   INT64_MIN  /* value of an absent attribute */
#define SYN__NO_GROUP UINT32_MAX /* sends and receives, which sort after all collectives */

/* A collective, send or receive. */
typedef struct syn__checked_call {
    uint32_t node;
    uint32_t group; /* index into syn_validator.groups */
    uint64_t id, offset;
    uint32_t type; /* SYN__ET_COMM_COLL_NODE, ... */
    uint32_t key;  /* sends and receives: number that is equal for a send and a receive that
                      match */
    int64_t kind;  /* comm_type */
    int64_t size, src, dst, tag;
} syn__checked_call;

typedef struct syn__checked_rank {
    int32_t rank;
    bool damaged; /* the file was not read completely, so the rank is not compared with others */
    uint32_t n_nodes;
    syn__checked_call *calls; /* sorted by group, then id */
    size_t n_calls, calls_cap;
    /* Kept only for the simulated run of the set (et_validate_run.c): */
    uint32_t *first_child, *children;
    uint32_t *place; /* position of each node in id order; NULL: file order */
} syn__checked_rank;

/* A group. Its index is the id of its name in syn_validator.names. */
typedef struct syn__checked_group {
    int32_t *members;
    size_t n_members, members_cap;
    bool listed, used;
    int32_t seen_rank; /* rank for which is_member was computed last; -2: none */
    bool is_member;
} syn__checked_group;

struct syn_validator {
    syn_validate_options how;
    uint32_t world;
    int32_t stated_world; /* the number of ranks in the metadata of the first file; 0: none */
    syn_validation result;
    size_t findings_cap;
    syn_status status; /* SYN_E_NOMEM if a finding could not be stored; syn_validator_add and
                          syn_validator_close then return it */
    syn_intern names;
    syn__checked_group *groups;
    size_t groups_cap;
    bool has_group_file;
    bool lists_zero;          /* the group file has a group "0" */
    syn__checked_rank *ranks; /* ascending */
    size_t n_ranks, ranks_cap;
    uint64_t frontier; /* sum of the ranks' widest ready sets */
};

/* Location of a finding. offset SYN__ET_NO_OFFSET: unknown. */
typedef struct syn__finding_location {
    int32_t rank;
    bool has_node;
    uint64_t node, offset;
} syn__finding_location;

void syn__report_finding(syn_validator *v, syn_finding_kind kind, syn__finding_location spot,
                         const char *fmt, ...) SYN_PRINTF(4, 5);
static inline syn__finding_location syn__call_location(const syn__checked_rank *rank,
                                                       const syn__checked_call *call) {
    const syn__finding_location spot = {rank->rank, true, call->id, call->offset};
    return spot;
}

/* Sets *out to the index of the group with that name, which is created if it does not exist. */
syn_status syn__checked_group_of(syn_validator *v, const char *name, size_t bytes, uint32_t *out,
                                 syn_error *err) SYN_MUST_USE;
const char *syn__checked_group_name(const syn_validator *v, uint32_t group);
/* The name of the group of all ranks, which collectives without a name use: "0", unless the group
   file lists a group "0". */
const char *syn__world_name(const syn_validator *v);
bool syn__is_world(const syn_validator *v, uint32_t group);
/* Number of ranks in a group (0 if unknown), and the group's i-th rank. */
size_t syn__n_members(const syn_validator *v, uint32_t group);
int32_t syn__member(const syn_validator *v, uint32_t group, size_t i);
/* The data of a rank; NULL if its file was not read or is damaged. */
syn__checked_rank *syn__checked_rank_of(const syn_validator *v, int64_t rank);

/* Checks one node: its attributes and what its type requires (et_validate_node.c). */
syn_status syn__check_node(syn_validator *v, syn__checked_rank *rank, uint32_t index,
                           uint64_t offset, const syn__et_node *node, syn_error *err);
/* Checks that dependencies order the collectives of each group (et_validate_order.c). */
syn_status syn__check_order(syn_validator *v, const syn__checked_rank *rank,
                            const syn__et_scan *scan, const syn__et_dag *dag, syn_error *err);
/* Compares ranks with each other: collectives, then messages (et_validate_across.c). */
syn_status syn__check_across_ranks(syn_validator *v, syn_error *err);
/* Simulates the trace set to find deadlocks (et_validate_run.c). Requires a set in which no other
   problem was found. */
syn_status syn__check_deadlock(syn_validator *v, syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
