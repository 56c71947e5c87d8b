/* The shared state of in-process ranks; private to comm_local*.c.

   Collectives meet in their group: each member publishes its call and buffers in a slot, then
   counts itself in `entered`; when all have, each does its share of the work on all buffers and
   counts itself in `left`. `entered` also carries POISON: a poisoned count never grows again, so
   all members agree on whether a meeting took place, and nobody leaves while others still read its
   buffers. After the meeting no member can block before `left` is complete.

   A rank's own thread that waits spins briefly, then records what it waits for (under the world's
   lock) and sleeps. It waits for the ranks that have not started the same collective: what a rank
   has started goes on without it. Whoever is about to sleep follows the chain of who waits for
   whom; the chain can only close with the rank that adds its last link, so every deadlock is found
   there and then, and a running rank is never mistaken for a blocked one. Threads that run
   collectives for a rank sleep at once and add no links.

   A message goes straight into the buffer of a receive that waits for it, written by the sender's
   thread; otherwise into a letter. */
#ifndef COMM_COMM_LOCAL_H
#define COMM_COMM_LOCAL_H

#include "comm/comm.h"
#include "comm/comm_request.h"

#define SYN__LINE   64 /* bytes of a cache line */
#define SYN__POISON (UINT64_C(1) << 63)
/* Small inputs are copied into the member's own space, one behind the other: nobody then has to
   wait until the others are done with them. Pays up to the first size if all ranks run at once, up
   to the second if meeting means switching threads. */
#define SYN__INLINE_RUNNING_BYTES 512
#define SYN__INLINE_BYTES         4096

/* A member's part of a group. Slots alternate: whoever enters call k + 2 knows
   that all entered k + 1 and so are done with the slots of k. */
typedef struct syn__local_member {
    _Alignas(SYN__LINE) syn__turn slots[2];       /* their group is the shared one */
    _Alignas(SYN__LINE) _Atomic uint64_t started; /* calls */
    uint64_t left;                                /* calls left, of those that need it */
    _Alignas(SYN__LINE) unsigned char inlined[2][SYN__INLINE_BYTES];
} syn__local_member;

typedef struct syn__local_group {
    struct syn__local_group *next;
    syn_group group; /* as its first member called it, without an index */
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
    const syn_request *awaited; /* its own thread sleeps until this is done; NULL: does not */
    uint64_t visit;             /* of the last search that came by */
    int32_t parent;             /* in that search */
    syn__mailbox box;
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
    char dead_text[SYN_ERROR_TEXT];
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

/* Enters the collective, whose input is copied if `inlined`, and waits until all members have
   entered; adds to the request's waiting. SYN_OK: all have entered the same call. */
syn_status syn__local_enter(syn__local *self, syn_request *request, bool inlined, syn_error *err);
/* Waits until all members are done with the buffers; not needed where in was copied and only its
   owner uses out. */
void syn__local_leave(syn__local *self, syn_request *request);
/* Whether the count reaches target (or is poisoned) within a moment; for a rank's own thread. */
bool syn__local_spin(const syn__local *self, const _Atomic uint64_t *count, uint64_t target);
/* The rank's own thread sleeps until `wake` is signalled, unless waiting is in vain: the world is
   then dead. Lock held. */
void syn__local_sleep(syn__local *self, const syn_request *awaited, pthread_cond_t *wake);
/* A rank has ended: fails those that wait for it. Lock held. */
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
