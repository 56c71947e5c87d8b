/* The plan of a rank and everything else that is needed to write its files. */
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
    syn__kineto_plan plan; /* of the current rank */
    bool memory, modules;  /* record memory events; record modules */
    bool device;           /* the device work of the current rank is known */
    uint32_t device_number;
    bool predicted; /* the times were predicted for a GPU. `graph` then points to `shadow`, a copy
                       of the graph in which the current rank's device work is `work` */
    syn_graph shadow;
    syn_work work; /* predicted work of the current rank */
    syn_error *err;
} syn__kineto_recording;

/* Fails for graphs that are PyTorch traces, because their original files have more information. */
syn_status syn__kineto_open(syn__kineto_recording *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err);
/* Plans the rank with that index. */
syn_status syn__kineto_select(syn__kineto_recording *recording, uint32_t rank_index);
void syn__kineto_close(syn__kineto_recording *recording);
/* The index of the rank that the options select, by default the first. */
syn_status syn__kineto_rank(const syn_graph *graph, const syn_export_options *options,
                            uint32_t *out, syn_error *err);

/* Write the files of the current rank. */
syn_status syn__kineto_write_device(syn__kineto_recording *recording, syn_sink *sink);
syn_status syn__kineto_write_host(syn__kineto_recording *recording, syn_sink *sink);
/* Writes the lines of the current rank to the memory file, which has the lines of all ranks. */
syn_status syn__kineto_write_memory(syn__kineto_recording *recording, syn_sink *sink);

/* Appends the device events, the calls that launched them, and the arrows from calls to events,
   each preceded by a comma (kineto_work.c). */
syn_status syn__kineto_write_work(syn__kineto_recording *recording, syn_sink *sink);

/* The process id of a rank in both files; thread ids are derived from it. */
static inline int64_t syn__kineto_pid(const syn__kineto_recording *recording) {
    return (int64_t)recording->walk.rank + 1;
}

/* The ranks of a group as an arithmetic sequence: first rank, stride (0: not constant), size. */
typedef struct syn__kineto_ranks {
    int64_t start, stride, size;
} syn__kineto_ranks;
syn__kineto_ranks syn__kineto_ranks_of(const syn_graph *graph, const syn_graph_group *group);
/* Writes the ranks, separated by ", ". */
void syn__kineto_put_ranks(syn_sink *sink, const syn_graph *graph, const syn_graph_group *group);
/* The index of the node's peer within the group; -1 if there is none. */
int64_t syn__kineto_peer(const syn_graph_group *group, const syn_node *node);

#ifdef __cplusplus
}
#endif
#endif
