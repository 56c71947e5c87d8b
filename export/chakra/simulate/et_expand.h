/* Collectives as messages: the steps of one rank (et_expand_steps.c), the nodes of machines that
   groups span (et_expand_levels.c), and the nodes of a file with these steps (et_expand.c). */
#ifndef EXPORT_ET_EXPAND_H
#define EXPORT_ET_EXPAND_H

#include "export/chakra/check/et_scan.h"
#include "export/chakra/simulate/et_sim.h"
#include "export/text/file_text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message of a collective. */
typedef struct syn__step {
    bool sends;
    bool is_last; /* no other step waits for it */
    int32_t peer;
    uint32_t round; /* the same for both ends */
    uint64_t bytes;
    uint32_t after[2]; /* earlier steps that it waits for; NONE: none. Without any, it starts with
                          the collective */
} syn__step;

typedef struct syn__steps {
    syn__step *list;
    size_t n, cap;
    uint32_t rounds; /* steps that follow each other */
} syn__steps;

typedef struct syn__expand_plan {
    syn_expansion algorithm;
    int32_t node_ranks; /* HIERARCHICAL */
    uint32_t n_uneven;
} syn__expand_plan;

/* Finds the ranks per node of a set, and sorts the ranks of groups that have several ranks on each
   of several nodes. Does nothing unless the algorithm is hierarchical. */
syn_status syn__expand_levels(syn__expand_plan *plan, syn__sim_set *set,
                              const syn_expand_options *options, syn_error *err) SYN_MUST_USE;
/* How many ranks of a group are on each of its nodes; 0: different numbers, only one, only one
   node, or the ranks do not ascend. */
uint32_t syn__expand_node_width(const int32_t *ranks, uint32_t n, int32_t node_ranks);

/* Replaces the steps by those of the rank at index `own` of n ranks. root: index of the root;
   bytes: comm_size. A collective of one rank has no steps. */
syn_status syn__steps_make(syn__steps *steps, const syn__expand_plan *plan, int comm_type,
                           const int32_t *ranks, uint32_t n, uint32_t own, uint32_t root,
                           uint64_t bytes, syn_error *err) SYN_MUST_USE;

/* What is needed of a node. */
typedef struct syn__expand_node {
    syn__sim_kind kind;
    int comm_type;
    uint32_t group, number; /* collectives: index into set.groups, earlier collectives of the
                               group */
    int32_t root, peer, tag;
    uint64_t bytes, ns;
} syn__expand_node;

/* A rank's file. */
typedef struct syn__expand_file {
    const syn__sim_set *set;
    const syn__expand_plan *plan;
    const syn__sim_rank *rank;
    syn__file_text text;
    syn__et_scan scan;
    syn__expand_node *nodes; /* in file order */
    size_t cap;
    uint32_t *numbers; /* per group of the set: collectives so far */
    syn_error *err;
} syn__expand_file;

/* Reads a set and counts its ranks and nodes in *done. Fails if it does not run to its end, or
   lacks files of ranks that it uses. */
syn_status syn__expand_load(syn__sim_set *set, syn__expand_plan *plan, syn_expanded *done,
                            const char *prefix, const syn_expand_options *options,
                            syn_error *err) SYN_MUST_USE;
syn_status syn__expand_open(syn__expand_file *file, const syn__sim_set *set,
                            const syn__expand_plan *plan, const syn__sim_rank *rank,
                            syn_error *err) SYN_MUST_USE;
void syn__expand_close(syn__expand_file *file);
/* The steps of a collective of the file. */
syn_status syn__expand_steps(const syn__expand_file *file, const syn__expand_node *node,
                             syn__steps *out, syn_error *err) SYN_MUST_USE;
/* A tag for the messages of a round of a collective, which is the same on all ranks; from `first`,
   below `first` + `n`. */
int32_t syn__expand_tag(const syn__expand_node *node, uint32_t round, int32_t first, int32_t n);

#ifdef __cplusplus
}
#endif
#endif
