/* Matches host nodes and CPU events that have no common ids (pt_align.c, pt_align_place.c). */
#ifndef EXPORT_PT_ALIGN_H
#define EXPORT_PT_ALIGN_H

#include "export/pytorch/match/pt_matcher.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_SAMPLES    256   /* positions of the host thread that are sampled in a vote */
#define SYN__PT_CANDIDATES 16384 /* maximum number of offsets among which a vote decides */

/* The calls of one thread: list[begin .. end - 1] of its side. */
typedef struct syn__pt_thread {
    uint64_t tid, first; /* first: sort key that orders threads by the start of their first calls */
    size_t begin, end;
} syn__pt_thread;

/* One of the two files: its unmatched calls, grouped by thread, in the order in which they
   began. */
typedef struct syn__pt_side {
    uint32_t *list; /* host nodes, or events */
    uint32_t *name; /* per entry: id of its name; both files use the same ids */
    int64_t *seq;   /* per entry: autograd's sequence number; -1: none */
    size_t n;
    syn__pt_thread *threads;
    size_t n_threads, threads_cap;
} syn__pt_side;

typedef struct syn__pt_aligner {
    syn__pt_matcher *m;
    syn__pt_side host, device;
    /* For the current pair of threads, the ranges of the two lists that are matched: */
    size_t h_begin, h_end, d_begin, d_end;
    bool by_seq;       /* positions are identified by name and sequence number */
    size_t gram;       /* otherwise they are identified by this many consecutive names */
    syn__pt_map first; /* key of a position -> the first entry of `device` with that key */
    uint32_t *next;    /* per entry of `device`: the next entry with the same key */
    uint32_t samples[SYN__PT_SAMPLES]; /* indices of entries of `host` */
    size_t n_samples;
    uint64_t *candidates; /* SYN__PT_CANDIDATES offsets */
    uint64_t n_work;
    bool renumbered;           /* both files have sequence numbers, but the numbers differ */
    bool repeats;              /* whether the host thread fits several positions of the device
                                  thread equally well */
    int64_t first_ns, last_ns; /* start of the first and of the last call paired so far */
    uint32_t first_node, last_node;
} syn__pt_aligner;

/* Finds the place at which the threads `host` and `device` match. *h and *d: positions in the two
   lists. *found: whether there is such a place. a->repeats and a->by_seq show how reliable it
   is. */
syn_status syn__pt_find_place(syn__pt_aligner *a, const syn__pt_thread *host,
                              const syn__pt_thread *device, size_t *h, size_t *d,
                              bool *found) SYN_MUST_USE;
/* Pairs the calls of the two threads, forwards from positions h and d, and then backwards from
   them. */
void syn__pt_read_side_by_side(syn__pt_aligner *a, size_t h, size_t d);

#ifdef __cplusplus
}
#endif
#endif
