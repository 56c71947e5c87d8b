/* A rank's plan and what its files are written with. */
#ifndef EXPORT_KINETO_RECORDING_H
#define EXPORT_KINETO_RECORDING_H

#include "export/kineto/kineto_args.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__kineto_recording {
    const syn_graph *graph;
    syn__timeline timeline; /* of all ranks */
    syn__walk walk;
    syn__kineto_plan plan; /* of the rank at hand */
    bool memory, modules;  /* what PyTorch records if it is asked to */
    bool device;           /* what a device did for the rank at hand is known */
    uint32_t device_number;
    bool predicted; /* that device is a GPU that the times are predicted for; then `graph` is */
    syn_graph shadow;
    syn_work work; /* and this is the work of the rank at hand */
    syn_error *err;
} syn__kineto_recording;

/* Refuses traces that PyTorch recorded, whose own files say more. */
syn_status syn__kineto_open(syn__kineto_recording *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err);
/* Plans a rank, by index. */
syn_status syn__kineto_select(syn__kineto_recording *recording, uint32_t rank_index);
void syn__kineto_close(syn__kineto_recording *recording);
/* The index of the rank that options ask for, else the first. */
syn_status syn__kineto_rank(const syn_graph *graph, const syn_export_options *options,
                            uint32_t *out, syn_error *err);

/* The files of the rank at hand. */
syn_status syn__kineto_write_device(syn__kineto_recording *recording, syn_sink *sink);
syn_status syn__kineto_write_host(syn__kineto_recording *recording, syn_sink *sink);
/* ... and the lines of two files of all ranks. */
syn_status syn__kineto_write_memory(syn__kineto_recording *recording, syn_sink *sink);

/* Appends the events of the device, the calls that asked for them, and arrows between the two, each
   behind a comma (kineto_work.c). */
syn_status syn__kineto_write_work(syn__kineto_recording *recording, syn_sink *sink);

/* Numbers of a rank's process and threads in both files. */
static inline int64_t syn__kineto_pid(const syn__kineto_recording *recording) {
    return (int64_t)recording->walk.rank + 1;
}

/* Both ends of a group: its first rank, the distance of its ranks (0: they differ), its size. */
typedef struct syn__kineto_ranks {
    int64_t start, stride, size;
} syn__kineto_ranks;
syn__kineto_ranks syn__kineto_ranks_of(const syn_graph *graph, const syn_graph_group *group);
/* The ranks, with a comma and a space between them. */
void syn__kineto_put_ranks(syn_sink *sink, const syn_graph *graph, const syn_graph_group *group);
/* The rank's number within the group that the node's peer has; -1 none. */
int64_t syn__kineto_peer(const syn_graph_group *group, const syn_node *node);

#ifdef __cplusplus
}
#endif
#endif
