/* Writes trace sets of jobs whose ranks were not all recorded. The ranks of a pipeline stage run
   the same ops; only their groups and the ranks that they send to differ. Their predicted times are
   also the same if their groups are on equally many nodes. The traces of all ranks are therefore
   written from a few recorded ranks. */
#ifndef SYNTORCH_STAMP_H
#define SYNTORCH_STAMP_H

#include "export/export.h"
#include "syntorch/mesh.h"

SYN_API_BEGIN

typedef struct syn_stamper syn_stamper;

/* Everything that a pointer refers to must stay valid. */
typedef struct syn_stamp_options {
    int32_t node_ranks; /* ranks per node; 0: unknown, all ranks of a stage then have equal times */
    const char *version; /* of the program, for the metadata; may be NULL */
    const bool *wanted;  /* by rank: whether to write its file; NULL: all */
    bool one_each;       /* write only the recorded ranks */
} syn_stamp_options;

/* Begins the set <prefix>.<rank>.et with <prefix>.comm_group.json, and removes an older set of this
   name. plan: complete; its order must stay valid. */
syn_status syn_stamp_open(syn_stamper **out, const syn_plan *plan, const char *prefix,
                          const syn_stamp_options *options, syn_error *err) SYN_MUST_USE;
/* Writes the files of a recorded rank and of all ranks that have the same program and times. graph:
   that rank alone, with the groups of the plan's mesh. Fails with SYN_E_INVALID if the rank has no
   nodes, or if it uses a group or sends to a rank that the mesh does not give it. */
syn_status syn_stamp_rank(syn_stamper *stamper, const syn_graph *graph,
                          syn_error *err) SYN_MUST_USE;
/* The lowest rank of a pipeline stage that must be recorded next; -1: the stage is complete. */
int32_t syn_stamp_next(const syn_stamper *stamper, int32_t stage);
/* The number of files, nodes and bytes that were written so far. */
typedef struct syn_stamp_counts {
    uint64_t files, nodes, bytes;
} syn_stamp_counts;
syn_stamp_counts syn_stamp_count(const syn_stamper *stamper);
/* Writes comm_group.json if every stage is complete, and frees the stamper, which may be NULL. If
   `keep` is false, the set has no comm_group.json, which marks it as incomplete. */
syn_status syn_stamp_close(syn_stamper *stamper, bool keep, syn_error *err);

SYN_API_END
#endif
