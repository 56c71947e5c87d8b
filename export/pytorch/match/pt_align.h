/* Inside of matching without common ids (pt_align.c, pt_align_place.c). */
#ifndef EXPORT_PT_ALIGN_H
#define EXPORT_PT_ALIGN_H

#include "export/pytorch/match/pt_matcher.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_SAMPLES    256   /* places of the host thread that are looked at in an election */
#define SYN__PT_CANDIDATES 16384 /* distances that are voted on in an election */

/* Calls of one thread: list[begin .. end). */
typedef struct syn__pt_thread {
    uint64_t tid, first; /* first: when its first call began, in an order of its file */
    size_t begin, end;
} syn__pt_thread;

/* One of the two files: its free calls, thread by thread in the order they began. */
typedef struct syn__pt_side {
    uint32_t *list; /* host nodes, or events */
    uint32_t *name; /* per entry: its id among both files' names */
    int64_t *seq;   /* per entry: autograd's sequence number, -1 none */
    size_t n;
    syn__pt_thread *threads;
    size_t n_threads, threads_cap;
} syn__pt_side;

typedef struct syn__pt_aligner {
    syn__pt_matcher *m;
    syn__pt_side host, device;
    /* Of the pair of threads at hand: */
    size_t h_begin, h_end, d_begin, d_end;
    bool by_seq;       /* places are recognised by name and sequence number */
    size_t gram;       /* else by so many names */
    syn__pt_map first; /* a place's key to the first entry of `device` that has it */
    uint32_t *next;    /* per entry of `device`: the next with its key */
    uint32_t samples[SYN__PT_SAMPLES]; /* entries of `host` */
    size_t n_samples;
    uint64_t *candidates; /* distances: SYN__PT_CANDIDATES */
    uint64_t n_work;
    bool renumbered;           /* both have sequence numbers, but not the same */
    bool repeats;              /* the host thread fits several places of the device's equally */
    int64_t first_ns, last_ns; /* begin of the first and the last call paired so far */
    uint32_t first_node, last_node;
} syn__pt_aligner;

/* Where the threads host and device fit: *h and *d are places of the two lists, from their begin
 *on. found: they do. repeats and by_seq say how surely. */
syn_status syn__pt_find_place(syn__pt_aligner *a, const syn__pt_thread *host,
                              const syn__pt_thread *device, size_t *h, size_t *d,
                              bool *found) SYN_MUST_USE;
/* Pairs the calls of the two from there on, and back from there. */
void syn__pt_read_side_by_side(syn__pt_aligner *a, size_t h, size_t d);

#ifdef __cplusplus
}
#endif
#endif
