/* Internals of the simulation of trace sets. Its steps have a file each: files are read
   (et_sim_read.c, et_sim_fuse.c) and joined to a set (et_sim_load.c), ranks that do the same are
   folded into classes (et_sim_fold.c), the classes run (et_sim_run.c), and the results are summed
   up (et_sim_report.c). ASTRA-sim's files give the times of communication (et_sim_machine.c). */
#ifndef EXPORT_ET_SIM_H
#define EXPORT_ET_SIM_H

#include "export/simulate.h"
#include "export/text/file_text.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__SIM_NONE    UINT32_MAX
#define SYN__SIM_NO_TIME UINT64_MAX

/* ---- The machine that ASTRA-sim's files describe ---- */

#define SYN__SIM_DIMENSIONS 8
#define SYN__SIM_COMM_TYPES 32 /* more than in the schema */

typedef enum syn__sim_topology {
    SYN__SIM_RING,
    SYN__SIM_FULLY_CONNECTED,
    SYN__SIM_SWITCH
} syn__sim_topology;

typedef struct syn__sim_dimension {
    syn__sim_topology topology;
    int64_t ranks;
    double bytes_per_ns, latency_ns; /* latency of one hop */
} syn__sim_dimension;

typedef struct syn__sim_machine {
    syn__sim_dimension dimensions[SYN__SIM_DIMENSIONS];
    int n_dimensions;
    uint32_t n_ranks; /* product of the dimensions */
    double memory_bytes_per_ns, flops_per_ns;
    double endpoint_ns;
    int64_t splits;             /* parts of a collective */
    int64_t active;             /* parts that run at the same time in one dimension */
    bool roofline, local_first; /* local_first: "localBWAware" */
    syn_algorithm algorithms[SYN__SIM_COMM_TYPES];
} syn__sim_machine;

syn_status syn__sim_machine_read(syn__sim_machine *out, const char *network, const char *system,
                                 syn_error *err) SYN_MUST_USE;

/* The time of a node on the machine. */
uint64_t syn__sim_compute_ns(const syn__sim_machine *machine, uint64_t ops, uint64_t bytes,
                             uint64_t micros);
uint64_t syn__sim_message_ns(const syn__sim_machine *machine, int32_t from, int32_t to,
                             uint64_t bytes);
/* The time of a collective whose ranks all start at the same time, until its last rank ends.
   comm_type as in the schema. Fails for collectives that ASTRA-sim does not run. */
syn_status syn__sim_collective_ns(const syn__sim_machine *machine, const int32_t *ranks,
                                  uint32_t n_ranks, int comm_type, uint64_t bytes, uint64_t *out,
                                  syn_error *err) SYN_MUST_USE;
typedef struct syn__sim_time {
    double ns;
    uint32_t by; /* the rank of the group, as an index, whose start determines it */
} syn__sim_time;
/* The same for ranks that start at different times: moves the times of the ranks, in the order of
   the group, from their starts to their ends. */
syn_status syn__sim_collective_ends(const syn__sim_machine *machine, const int32_t *ranks,
                                    uint32_t n_ranks, int comm_type, uint64_t bytes,
                                    syn__sim_time *times, syn_error *err) SYN_MUST_USE;
/* The time of a message; of its ranks, `to` receives. */
double syn__sim_hop_ns(const syn__sim_machine *machine, int64_t from, int64_t to, double bytes);
/* Sets the algorithms of collectives. */
syn_status syn__sim_choose_algorithms(syn__sim_machine *machine,
                                      const syn_collective_algorithm *chosen, size_t n,
                                      syn_error *err) SYN_MUST_USE;
/* Whether the collective has another algorithm than a ring, and its time. */
bool syn__sim_has_algorithm(const syn__sim_machine *machine, int comm_type, uint32_t n_ranks);
double syn__sim_algorithm_ns(const syn__sim_machine *machine, const int32_t *ranks,
                             uint32_t n_ranks, int comm_type, double bytes, double endpoint_ns);
/* Whether all hops of a group's ring take the same time. */
bool syn__sim_ring_is_even(const syn__sim_machine *machine, const int32_t *ranks, uint32_t n_ranks);
/* A number that is equal for groups whose collectives take equal times. */
uint64_t syn__sim_group_key(const syn__sim_machine *machine, const int32_t *ranks,
                            uint32_t n_ranks);

/* ---- A set as it is read ---- */

typedef enum syn__sim_kind {
    SYN__SIM_COMPUTE,
    SYN__SIM_FREE, /* nodes that wait only for their dependencies: CPU ops, metadata, memory */
    SYN__SIM_COLLECTIVE,
    SYN__SIM_SEND,
    SYN__SIM_RECV
} syn__sim_kind;

#define SYN__SIM_KIND_BITS 3u
#define SYN__SIM_STREAMS   32u /* streams of computation; others count as the last */

typedef struct syn__sim_call {
    uint64_t id, bytes, ns; /* of the node; ns: its duration in the trace */
    double scale;           /* of its time on a machine */
    uint32_t node;
    uint32_t slot;     /* index into the groups or channels of the rank */
    uint16_t root;     /* collectives: index + 1 into the roots of the rank; 0: none */
    uint8_t comm_type; /* collectives */
} syn__sim_call;

/* What a rank does, without the names of groups, ranks and tags. Ranks with equal programs share
   one. Nodes are numbered in the order of their ids. */
typedef struct syn__sim_program {
    uint64_t hash[2];
    uint32_t n_nodes, n_calls, n_streams;
    uint8_t *kinds;        /* per node: kind | stream << SYN__SIM_KIND_BITS */
    uint64_t *values;      /* per node: duration in ns or, for communication, index into calls */
    uint32_t *n_deps;      /* per node */
    uint32_t *first_child; /* per node: its first entry in children; one more for the end */
    uint32_t *children;    /* nodes that wait for a node */
    syn__sim_call *calls;  /* in node order */
} syn__sim_program;

/* All messages of a rank to or from a peer with one tag. */
typedef struct syn__sim_channel {
    int32_t peer, tag;
    bool sends;
} syn__sim_channel;

typedef struct syn__sim_rank {
    int32_t rank;
    uint32_t program;
    uint32_t *groups; /* groups it uses, in order of first use: indices into set.groups */
    uint32_t *lanes;  /* per group: the first of its groups with the same ranks */
    syn__sim_channel *channels;
    int32_t *roots; /* of its collectives: global ranks */
    uint32_t n_groups, n_channels;
    double slow;
    char *path; /* of its file */
} syn__sim_rank;

typedef struct syn__sim_group {
    int32_t *ranks; /* in ring order */
    uint32_t n_ranks;
    bool known, used;
    bool uneven;  /* the hops of its ring take different times, and it is used often, so the ranks
                     end a collective at different times */
    uint64_t key; /* syn__sim_group_key, or 0 */
} syn__sim_group;

typedef struct syn__sim_set {
    const syn__sim_machine *machine; /* NULL: times of the traces */
    const char *world;               /* name of the group of all ranks */
    syn_intern names;                /* of groups; id = index into groups */
    syn__sim_group *groups;
    size_t groups_cap;
    syn__sim_program *programs;
    size_t n_programs, programs_cap;
    syn__sim_rank *ranks; /* ascending */
    size_t n_ranks;
    uint64_t n_nodes, n_scaled, matched;      /* the last two: as in syn_simulation */
    uint64_t n_fused, n_fused_kernels, fused; /* the same */
    uint64_t n_compute, n_predicted;          /* the same */
    syn_set_hardware hardware;                /* the same */
    bool predicted;                           /* communication has predicted times */
    bool has_group_file;
    uint64_t max_unpacked_bytes;
} syn__sim_set;

syn_status syn__sim_load(syn__sim_set *set, const char *const *paths, size_t n,
                         const syn_simulate_options *options, syn_error *err) SYN_MUST_USE;
void syn__sim_set_close(syn__sim_set *set);
/* Fails if options->fused names communication. */
syn_status syn__sim_check_fused(const syn_simulate_options *options, syn_error *err) SYN_MUST_USE;
/* The value of syn_simulation.chosen. */
uint64_t syn__sim_chosen(const syn__sim_set *set, const syn_collective_algorithm *chosen, size_t n);
/* The rank with that number; NULL if it has no file. */
const syn__sim_rank *syn__sim_rank_of(const syn__sim_set *set, int64_t rank);

/* a + b, or the largest time if the sum is larger. */
static inline uint64_t syn__sim_sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - 1 - b ? UINT64_MAX - 1 : a + b;
}

static inline uint64_t syn__sim_scaled(uint64_t ns, double scale) {
    const double product = (double)ns * scale;
    return scale == 1 ? ns : product < 9e18 ? (uint64_t)(product + 0.5) : (uint64_t)9e18;
}

/* ---- Classes of equal ranks ---- */

/* Collectives that meet: those of a group, folded. Its members are classes with a slot. */
typedef struct syn__sim_meeting {
    uint32_t group; /* one of the folded groups: index into set.groups */
    uint32_t n_members;
    uint32_t n_idle;  /* ranks of the group that never call a collective of it */
    uint32_t *places; /* per rank of the group: the number of its member; NONE: it has no file */
} syn__sim_meeting;

/* Messages of one folded channel, from a class to a class. */
typedef struct syn__sim_link {
    uint32_t from, to; /* classes; NONE: nobody sends or receives */
    bool is_absent;    /* because the peer has no file */
} syn__sim_link;

typedef struct syn__sim_class {
    uint32_t rank; /* index of its first rank */
    uint32_t n_ranks;
    uint32_t *meetings; /* per group slot: index into folded.meetings */
    uint32_t *members;  /* per group slot: the number of this member of the meeting */
    uint32_t *links;    /* per channel: index into folded.links */
} syn__sim_class;

typedef struct syn__sim_folded {
    uint32_t *class_of; /* per rank of the set */
    syn__sim_class *classes;
    syn__sim_meeting *meetings;
    syn__sim_link *links;
    size_t n_classes, n_meetings, n_links, meetings_cap, links_cap;
    uint32_t n_absent;
} syn__sim_folded;

syn_status syn__sim_fold(syn__sim_folded *out, const syn__sim_set *set,
                         syn_error *err) SYN_MUST_USE;
void syn__sim_folded_close(syn__sim_folded *folded);

/* Runs the classes and fills in *out. */
syn_status syn__sim_run(syn_simulation *out, const syn__sim_set *set, const syn__sim_folded *folded,
                        const syn_simulate_options *options, syn_error *err) SYN_MUST_USE;

/* ---- Names of nodes ---- */

/* The names and ids of a rank's nodes, in the order of its program. The names point into the file,
   which stays open. */
typedef struct syn__sim_names {
    syn__file_text input;
    syn__str *names;
    uint64_t *ids;
} syn__sim_names;

/* Reads the rank's file again, because a simulation does not keep names. Close it also after a
   failure. */
syn_status syn__sim_names_open(syn__sim_names *out, const syn__sim_set *set,
                               const syn__sim_rank *rank, syn_error *err) SYN_MUST_USE;
void syn__sim_names_close(syn__sim_names *names);

/* ---- Timelines in Chrome's trace format ---- */

typedef struct syn__sim_timeline syn__sim_timeline;

syn_status syn__sim_timeline_open(syn__sim_timeline **out, const char *path,
                                  syn_error *err) SYN_MUST_USE;
/* Adds a rank as a process called `name`. begins, ends: times of its nodes in ns; ends
   SYN__SIM_NO_TIME: the node did not run. */
syn_status syn__sim_timeline_rank(syn__sim_timeline *t, const syn__sim_set *set,
                                  const syn__sim_rank *rank, const char *name,
                                  const uint64_t *begins, const uint64_t *ends,
                                  syn_error *err) SYN_MUST_USE;
/* Completes the file, or removes it if !ok. */
syn_status syn__sim_timeline_close(syn__sim_timeline *t, bool ok, syn_error *err) SYN_MUST_USE;

/* Fills in the pairs of *out. */
syn_status syn__sim_traffic(syn_simulation *out, const syn__sim_set *set,
                            syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
