/* The shared state of in-process ranks. Private to comm_local*.c.

   A collective is a rendezvous of the group's members. Each member publishes its call and its
   buffers in a slot and increments `entered`. Once all members have entered, each does its share of
   the work on all buffers and increments `left`. On failure the bit SYN__ABORTED is set in
   `entered`. The count then never grows again, so all members agree on whether the collective took
   place, and no member leaves while others still read its buffers. After the rendezvous, members
   only work on buffers until `left` is complete, so none of them can block.

   When a rank's own thread waits, it spins briefly, then records what it waits for (under the
   world's lock) and sleeps. In a collective, it waits only for the members that have not started
   this collective: once a rank has started it, the collective needs no further call of that rank.
   Before a rank sleeps, it searches the chain of ranks that wait for each other. A cycle becomes
   complete when its last rank starts to wait. The search of this last rank therefore finds every
   deadlock immediately, and no search mistakes a running rank for a blocked one. Threads that run
   collectives for a rank sleep without spinning and are not part of the search.

   The sender's thread writes a message directly to the buffer of a waiting receive. Without a
   waiting receive, it copies the message to the peer's mailbox (syn__unexpected in
   comm_internal.h). */
#ifndef COMM_COMM_LOCAL_H
#define COMM_COMM_LOCAL_H

#include "comm/comm.h"
#include "comm/comm_request.h"

#define SYN__LINE    64 /* size of a cache line in bytes */
#define SYN__ABORTED (UINT64_C(1) << 63)
/* A member copies small inputs to its `inlined` memory, one after another, so that it does not have
   to wait until the others have read its buffers. This is faster up to SYN__INLINE_RUNNING_BYTES
   bytes if each rank has a core, and up to SYN__INLINE_BYTES bytes if ranks share cores, because a
   rendezvous then switches threads. */
#define SYN__INLINE_RUNNING_BYTES 512
#define SYN__INLINE_BYTES         4096

/* What a group stores for each member. The two slots are used alternately. When a member enters
   call k + 2, all members have entered call k + 1 and are therefore done with the slots of call
   k. */
typedef struct syn__local_member {
    _Alignas(SYN__LINE) syn__call_sig slots[2];   /* their group pointers point to
                                                     syn__local_group.group */
    _Alignas(SYN__LINE) _Atomic uint64_t started; /* number of calls that this member has started */
    uint64_t left; /* number of calls that this member has left; counts only calls of
                      syn__local_leave */
    _Alignas(SYN__LINE) unsigned char inlined[2][SYN__INLINE_BYTES];
} syn__local_member;

typedef struct syn__local_group {
    struct syn__local_group *next;
    syn_group group; /* as its first member opened it; its index is not valid */
    syn__local_member *members;
    const void **ins; /* scratch: each member has `size` pointers here and in outs */
    void **outs;
    pthread_cond_t wake;
    _Alignas(SYN__LINE) _Atomic uint64_t entered; /* calls entered, summed over all members, and the
                                                     bit SYN__ABORTED */
    _Alignas(SYN__LINE) _Atomic uint64_t left;
    _Alignas(SYN__LINE) _Atomic uint32_t sleepers; /* threads that wait for `wake` */
} syn__local_group;

typedef struct syn__local_rank {
    bool opened, ended;         /* opened: has or had a communicator; ended: has finished */
    const syn_request *awaited; /* the rank's own thread sleeps until this is done; NULL: the thread
                                   is awake */
    uint64_t visit;             /* number of the last search that visited this rank */
    int32_t parent;             /* the rank from which that search reached this rank */
    syn__mailbox box;           /* messages to this rank */
    pthread_cond_t mail;        /* wakes the rank's own thread when a receive is done */
} syn__local_rank;

struct syn_local_world {
    pthread_mutex_t lock; /* protects everything except atomics, slots and inlined */
    int32_t size;
    int32_t holders;    /* number of communicators, plus 1 while the creator holds the world */
    uint64_t origin_ns; /* monotonic clock at creation */
    uint64_t visits;    /* number of searches */
    uint32_t spins; /* maximum number of pauses per wait; 0 if there are more ranks than cores */
    size_t inline_bytes;      /* inputs up to this size are copied */
    syn__local_group *groups; /* list of all groups */
    syn__local_rank *ranks;
    int32_t *stack; /* the search's stack; `size` entries */
    _Atomic bool aborted;
    char abort_text[SYN_ERROR_TEXT];
};

typedef struct syn__local {
    syn__comm base;
    syn_local_world *world;
} syn__local;

/* Aborts the world with `sentence`, unless it was aborted before, and wakes all ranks. The caller
   holds the lock. */
void syn__local_abort(syn_local_world *world, const char *sentence);
/* Aborts the world with the error message `sentence`, unless it was aborted before, and returns
   SYN_E_COMM with the message that the world was aborted with. `sentence` may be NULL if the world
   was aborted before. The caller does not hold the lock. */
syn_status syn__local_fail(syn_local_world *world, const char *sentence, syn_error *err);

/* Enters the collective and waits until all members have entered. If `inlined`, copies the inputs
   first. Adds the wait time to the request. Returns SYN_OK if all have entered the same call. */
syn_status syn__local_enter(syn__local *self, syn_request *request, bool inlined, syn_error *err);
/* Waits until all members have finished with the buffers. Not needed if the inputs were copied and
   each member writes only its own output. */
void syn__local_leave(syn__local *self, syn_request *request);
/* Spins for a moment. Returns whether the count has reached `target` or has the bit SYN__ABORTED.
   For a rank's own thread. */
bool syn__local_spin(const syn__local *self, const _Atomic uint64_t *count, uint64_t target);
/* The rank's own thread sleeps until `wake` is signalled. If it would wait forever, aborts the
   world instead. The caller holds the lock. */
void syn__local_sleep(syn__local *self, const syn_request *awaited, pthread_cond_t *wake);
/* Call it when a rank has finished: aborts the world if another rank waits for this rank. The
   caller holds the lock. */
void syn__local_rank_ended(syn_local_world *world, int32_t rank);

/* Members of syn__transport. */
syn_status syn__local_run_collective(syn__comm *comm, syn_request *request, syn_error *err);
syn_status syn__local_post(syn__comm *comm, syn_request *message, syn_error *err);
syn_status syn__local_settle(syn__comm *comm, syn_request *message, syn_error *err);
void syn__local_withdraw(syn__comm *comm, syn_request *message);
void syn__local_numbered(syn__comm *comm, const syn_request *request);
void syn__local_block(syn__comm *comm, const syn_request *request);
void syn__local_unblock(syn__comm *comm);

#endif
