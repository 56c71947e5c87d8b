/* Writes trace sets of jobs whose ranks were not all recorded. The ranks of a pipeline stage run
   the same ops, except that the ranks of a ring of keys and values attend to different blocks, and
   that experts may have different loads (syn_plan_program); only their groups and the ranks that
   they send to differ. Their predicted times are also the same if their groups are on equally many
   nodes. The traces of all ranks are therefore written from a few recorded ranks. */
#ifndef SYNTORCH_STAMP_H
#define SYNTORCH_STAMP_H

#include "export/export.h"
#include "syntorch/mesh.h"

SYN_API_BEGIN

typedef struct syn_stamper syn_stamper;

typedef struct syn_stamp_counts {
    uint64_t files, nodes, bytes;
    uint64_t all_nodes; /* with one_each: of all ranks, also of those without a file */
    /* The ids of two groups that share at least two ranks and are equal modulo 500; 0: none.
       ASTRA-sim numbers the messages of collectives by the group's id modulo 500, so it may confuse
       these groups. */
    uint32_t clash[2];
} syn_stamp_counts;

/* Everything that a pointer refers to must stay valid. */
typedef struct syn_stamp_options {
    int32_t node_ranks; /* ranks per node; 0: unknown, all ranks of a stage then have equal times */
    const char *version; /* of the program, for the metadata; may be NULL */
    const bool *wanted;  /* by rank: whether to write its file; NULL: all */
    bool one_each;       /* write only the recorded ranks */
    bool add;            /* add files to a set: its other files and comm_group.json stay */
    bool dry;            /* count files, nodes and bytes, but write nothing */
    bool gzip;           /* compress the files of ranks; their names stay the same */
    int threads;         /* that write files at the same time; 0: one */
    /* Called before the first file is written, with the size of the set as estimated from its first
       rank, and the number of bytes that are free in its folder. NULL: not called. */
    void (*announce)(void *user, const syn_stamp_counts *set, uint64_t free_bytes);
    void *user;
} syn_stamp_options;

/* Begins the set <prefix>.<rank>.et with <prefix>.comm_group.json. An older set of this name is
   removed before the first file is written. plan: complete; its order must stay valid. */
syn_status syn_stamp_open(syn_stamper **out, const syn_plan *plan, const char *prefix,
                          const syn_stamp_options *options, syn_error *err) SYN_MUST_USE;
/* Writes the files of a recorded rank and of all ranks that have the same program and times. graph:
   that rank alone, with the groups of the plan's mesh. The first call fails with SYN_E_IO, before
   anything is written, if the disk has less space than the set needs. Fails with SYN_E_INVALID if
   the rank has no nodes, or if it uses a group or sends to a rank that the mesh does not give
   it. Several threads may call this function and syn_stamp_next, each for ranks of other stages. */
syn_status syn_stamp_rank(syn_stamper *stamper, const syn_graph *graph,
                          syn_error *err) SYN_MUST_USE;
/* The lowest rank of a pipeline stage that must be recorded next; -1: the stage is complete. */
int32_t syn_stamp_next(syn_stamper *stamper, int32_t stage);
/* What was written so far. */
syn_stamp_counts syn_stamp_count(const syn_stamper *stamper);
/* Writes comm_group.json if every stage is complete, and frees the stamper, which may be NULL. If
   `keep` is false, the set has no comm_group.json, which marks it as incomplete. */
syn_status syn_stamp_close(syn_stamper *stamper, bool keep, syn_error *err);

/* Writes the files of further ranks of a set that was written with one_each or with a list of
   ranks, from those files of the set that have the same program. ranks: n ranks; files that exist
   are not written again. New files are compressed if the set's file that contains or precedes the
   first rank is. *written: what was written; may be NULL. Fails with SYN_E_INVALID if the set does
   not describe a plan, a rank does not exist, or no file has its program. */
syn_status syn_stamp_more(const char *prefix, const int32_t *ranks, size_t n,
                          syn_stamp_counts *written, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
