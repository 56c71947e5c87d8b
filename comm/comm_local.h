/* The shared state of in-process ranks; private to comm_local*.c.

   Collectives meet in their group: each member publishes its call and buffers in a slot, then
   counts itself in `entered`; when all have, each does its share of the work on all buffers and
   counts itself in `left`. `entered` also carries POISON: a poisoned count never grows again, so
   all members agree on whether a meeting took place, and nobody leaves while others still read its
   buffers. After the meeting no member can block before `left` is complete.

   A waiting rank spins briefly, then records what it waits for (under the world's lock) and sleeps.
   Whoever is about to sleep follows the chain of who waits for whom; the chain can only close with
   the rank that adds its last link, so every deadlock is found there and then, and a running rank
   is never mistaken for a blocked one. */
#ifndef COMM_COMM_LOCAL_H
#define COMM_COMM_LOCAL_H

#include "comm/comm.h"
#include "comm/comm_internal.h"

#include <pthread.h>
#include <stdatomic.h>

#define SYN__LINE   64 /* bytes of a cache line */
#define SYN__POISON (UINT64_C(1) << 63)
/* Small inputs are copied into the member's own space: nobody then has to wait until the others are
   done with them. Pays up to the first size if all ranks run at once, up to the second if meeting
   means switching threads. */
#define SYN__INLINE_RUNNING_BYTES 512
#define SYN__INLINE_BYTES         4096

typedef struct syn__local_slot {
    const void *in;
    void *out;
    syn__call call;
} syn__local_slot;

/* A member's part of a group. Slots alternate: whoever enters call k + 2 knows that all entered k +
   1 and so are done with the slots of k. */
typedef struct syn__local_member {
    _Alignas(SYN__LINE) syn__local_slot slots[2];
    _Atomic uint64_t arrived; /* calls entered */
    uint64_t seq;             /* the same, for its own thread */
    uint64_t left;            /* calls left, of those that need it */
    _Alignas(SYN__LINE) unsigned char inlined[2][SYN__INLINE_BYTES];
} syn__local_member;

typedef struct syn__local_group {
    struct syn__local_group *next;
    uint32_t id;
    int32_t size;
    int32_t *ranks;
    char *name; /* as its first member called it */
    syn__local_member *members;
    const void **ins; /* members * size pointers: scratch of each member */
    void **outs;
    pthread_cond_t wake;
    _Alignas(SYN__LINE) _Atomic uint64_t entered; /* of all members together, and POISON */
    _Alignas(SYN__LINE) _Atomic uint64_t left;
    _Alignas(SYN__LINE) _Atomic uint32_t sleepers;
} syn__local_group;

typedef struct syn__local_rank {
    bool opened, ended;
    bool blocked;            /* asleep in `call`; what follows is then set */
    syn__local_group *group; /* NULL: in recv */
    syn__call call;
    uint64_t visit; /* of the last search that came by */
    int32_t parent; /* in that search */
    syn__mailbox box;
    _Atomic uint64_t received; /* messages put into box so far */
    pthread_cond_t mail;
} syn__local_rank;

struct syn_local_world {
    pthread_mutex_t lock; /* guards all but atomics, slots and inlined */
    int32_t size;
    int32_t holders;    /* communicators, and the creator */
    uint64_t origin_ns; /* when it was made */
    uint64_t visits;
    uint32_t spins;      /* most pauses of one wait; 0 if there are more ranks than cores */
    size_t inline_bytes; /* inputs up to here are copied */
    syn__local_group *groups;
    syn__local_rank *ranks;
    int32_t *stack; /* of the search: size entries */
    _Atomic bool dead;
    char dead_text[512];
};

typedef struct syn__local {
    syn__comm base;
    syn_local_world *world;
} syn__local;

/* The world ends with `sentence` unless it has ended before; wakes everybody. Lock held. */
void syn__local_die(syn_local_world *world, const char *sentence);
/* Ends the world (if it still lives) and returns SYN_E_COMM with its sentence. Lock not held;
   sentence NULL if it has ended already. */
syn_status syn__local_fail(syn_local_world *world, const char *sentence, syn_error *err);

/* Enters the group's next call with the buffers in and out, of which the first `inline_bytes` of in
   are copied if not 0, and waits until all members have entered. SYN_OK: all have entered the same
   call. *call is completed. */
syn_status syn__local_enter(syn__local *self, const syn_group *group, syn__call *call,
                            const void *in, void *out, size_t inline_bytes, uint64_t *wait_ns,
                            syn_error *err);
/* Waits until all members are done with the buffers; not needed where in was copied and only its
 * owner uses out. */
void syn__local_leave(syn__local *self, const syn_group *group, uint64_t *wait_ns);
/* Waits until a message of (peer, tag) is there. Lock held, also on return; releases it in between.
   False if the world ended instead. */
bool syn__local_await_mail(syn__local *self, const syn__call *call);
/* A rank has ended: fails those that wait for it. Lock held. */
void syn__local_rank_ended(syn_local_world *world, int32_t rank);

/* Members of syn_comm_ops. */
syn_status syn__local_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                 uint64_t *wait_ns, syn_error *err);
syn_status syn__local_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, uint64_t *wait_ns,
                                 syn_error *err);
syn_status syn__local_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in,
                                     void *out, size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                     uint64_t *wait_ns, syn_error *err);
syn_status syn__local_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                size_t n_elems, syn_dtype dtype, int32_t root, uint64_t *wait_ns,
                                syn_error *err);
syn_status syn__local_barrier(syn_comm *comm, const syn_group *group, uint64_t *wait_ns,
                              syn_error *err);
syn_status syn__local_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                           int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err);
syn_status syn__local_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                           int32_t tag, uint64_t *wait_ns, syn_error *err);

#endif
