/* Lets in-process ranks wait for each other, and detects when they would wait forever
   (deadlock). */
#include "comm/comm_local.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() (void)0
#endif

#define YIELD_SPINS 128

/* ---- Which rank waits for which (lock held) ---- */

/* Whether a member has started the collective. */
static bool has_started(const syn_request *collective, int32_t member) {
    const syn__local_group *shared = collective->sig.comm_call.group->impl;
    return atomic_load(&shared->members[member].started) >= collective->sig.seq;
}

/* Whether the blocked rank `waiter` needs `rank` to act before it can continue. */
static bool waits_for(syn_local_world *world, int32_t waiter, int32_t rank) {
    const syn_request *r = world->ranks[waiter].awaited;
    if (r == NULL) return false;
    const syn_group *group = r->sig.comm_call.group;
    if (syn__is_message(r->sig.comm_call.kind))
        return r->sig.comm_call.peer == rank && atomic_load(&r->state) == SYN__OPEN;
    for (int32_t i = 0; i < group->size; i++)
        if (group->ranks[i] == rank) return !has_started(r, i);
    return false;
}

/* Aborts the world with "rank 1 finished while rank 0 waits in all_reduce #5 of group tp0". */
static void abort_for_ended_rank(syn_local_world *world, int32_t ended, int32_t waiter) {
    const syn__call_sig *sig = &world->ranks[waiter].awaited->sig;
    const syn_comm_call *x = &sig->comm_call;
    char sentence[256];
    const char *what = world->ranks[ended].opened ? "finished" : "never started";
    if (syn__is_message(x->kind))
        snprintf(sentence, sizeof sentence, "rank %d %s while rank %d waits for it in recv(tag %d)",
                 (int)ended, what, (int)waiter, (int)x->tag);
    else
        snprintf(sentence, sizeof sentence,
                 "rank %d %s while rank %d waits in %s #%llu of group %.64s", (int)ended, what,
                 (int)waiter, syn_comm_kind_name(x->kind), (unsigned long long)sig->seq,
                 x->group->name);
    syn__local_abort(world, sentence);
}

/* Aborts the world because of the cycle first -> ... -> last -> first, which the search found. The
   members `parent` lead from last back to first. */
static void abort_for_deadlock(syn_local_world *world, int32_t first, int32_t last) {
    char sentence[SYN_ERROR_TEXT], place[SYN__CALL_TEXT];
    const syn__call_sig *a = &world->ranks[first].awaited->sig,
                        *b = &world->ranks[last].awaited->sig;
    if (world->ranks[last].parent == first && first != last &&
        !syn__is_message(a->comm_call.kind) && !syn__is_message(b->comm_call.kind)) {
        const bool in_order = first < last;
        syn__mismatch_text(in_order ? first : last, in_order ? a : b, in_order ? last : first,
                           in_order ? b : a, sentence, sizeof sentence);
        syn__local_abort(world, sentence);
        return;
    }
    int n = snprintf(sentence, sizeof sentence, "ranks wait for each other");
    const char *separator = ": ";
    for (int32_t r = last; n > 0 && (size_t)n < sizeof sentence; r = world->ranks[r].parent) {
        n += snprintf(sentence + n, sizeof sentence - (size_t)n, "%srank %d in %s", separator,
                      (int)r, syn__call_text(&world->ranks[r].awaited->sig, place, sizeof place));
        separator = "; ";
        if (r == first) break;
    }
    syn__local_abort(world, sentence);
}

/* Continues the search from a rank to one that it waits for. Returns true if the world was
   aborted. */
static bool follow(syn_local_world *world, int32_t from, int32_t to, int32_t start, size_t *top) {
    if (to == start) {
        abort_for_deadlock(world, start, from);
        return true;
    }
    syn__local_rank *r = &world->ranks[to];
    if (r->ended) {
        abort_for_ended_rank(world, to, from);
        return true;
    }
    if (r->visit == world->visits) return false;
    r->visit = world->visits;
    r->parent = from;
    if (r->awaited != NULL) world->stack[(*top)++] = to;
    return false;
}

/* Called when rank `start` has just blocked. Aborts the world if `start` waits, through any number
   of blocked ranks, for itself or for a rank that has finished. */
static void search(syn_local_world *world, int32_t start) {
    size_t top = 0;
    world->visits++;
    world->ranks[start].visit = world->visits;
    world->ranks[start].parent = start;
    world->stack[top++] = start;
    while (top > 0) {
        const int32_t from = world->stack[--top];
        const syn_request *r = world->ranks[from].awaited;
        const syn_group *group = r->sig.comm_call.group;
        if (syn__is_message(r->sig.comm_call.kind)) {
            const int32_t peer = r->sig.comm_call.peer;
            if (waits_for(world, from, peer) && follow(world, from, peer, start, &top)) return;
            continue;
        }
        for (int32_t i = 0; i < group->size; i++)
            if (!has_started(r, i) && follow(world, from, group->ranks[i], start, &top)) return;
    }
}

void syn__local_rank_ended(syn_local_world *world, int32_t rank) {
    world->ranks[rank].ended = true;
    for (int32_t r = 0; r < world->size; r++)
        if (r != rank && waits_for(world, r, rank)) {
            abort_for_ended_rank(world, rank, r);
            return;
        }
}

/* ---- Waiting ---- */

/* Whether the count, without the bit SYN__ABORTED, has reached `target`. */
static bool reached(const _Atomic uint64_t *count, uint64_t target) {
    return (atomic_load(count) & ~SYN__ABORTED) >= target;
}

/* Yields now and then, because the awaited thread may be queued on the same core. Without yields,
   the two threads would sleep alternately, and the scheduler would leave them on the same core. */
bool syn__local_spin(const syn__local *self, const _Atomic uint64_t *count, uint64_t target) {
    const uint32_t spins = self->world->spins;
    for (uint32_t i = 1; i <= spins; i++) {
        /* also true for SYN__ABORTED, which is larger than any count */
        if (atomic_load_explicit(count, memory_order_acquire) >= target) return true;
        PAUSE();
        if (i % YIELD_SPINS == 0) sched_yield();
    }
    return false;
}

static void wake_sleepers(syn_local_world *world, syn__local_group *group) {
    /* Both sides use sequentially consistent operations, so either this thread sees the sleeper, or
       the sleeper sees the new count. */
    if (atomic_load(&group->sleepers) == 0) return;
    pthread_mutex_lock(&world->lock);
    pthread_cond_broadcast(&group->wake);
    pthread_mutex_unlock(&world->lock);
}

void syn__local_sleep(syn__local *self, const syn_request *awaited, pthread_cond_t *wake) {
    syn_local_world *world = self->world;
    syn__local_rank *me = &world->ranks[self->base.pub.rank];
    me->awaited = awaited;
    search(world, self->base.pub.rank);
    if (!atomic_load(&world->aborted)) pthread_cond_wait(wake, &world->lock);
    me->awaited = NULL;
}

/* Sleeps until all members have entered or `entered` has the bit SYN__ABORTED. */
static void sleep_entered(syn__local *self, const syn_request *r, uint64_t target) {
    syn__local_group *shared = r->sig.comm_call.group->impl;
    pthread_mutex_t *lock = &self->world->lock;
    pthread_mutex_lock(lock);
    atomic_fetch_add(&shared->sleepers, 1);
    while (atomic_load(&shared->entered) < target) {
        if (r->on_main) syn__local_sleep(self, r, &shared->wake);
        else pthread_cond_wait(&shared->wake, lock);
    }
    atomic_fetch_sub(&shared->sleepers, 1);
    pthread_mutex_unlock(lock);
}

/* Increments `entered`. Returns false if `entered` has the bit SYN__ABORTED. Sets *last to whether
   this member was the last to enter. */
static bool count_in(syn__local_group *group, uint64_t target, bool *last) {
    uint64_t seen = atomic_load_explicit(&group->entered, memory_order_relaxed);
    do {
        if (seen & SYN__ABORTED) return false;
    } while (!atomic_compare_exchange_weak(&group->entered, &seen, seen + 1));
    *last = seen + 1 == target;
    return true;
}

/* Aborts the world unless all members have entered the same call. */
static syn_status compare_calls(syn__local *self, const syn_request *r, syn_error *err) {
    const syn_group *group = r->sig.comm_call.group;
    const syn__local_group *shared = group->impl;
    const syn__call_sig *first = &shared->members[0].slots[r->sig.seq & 1];
    for (int32_t i = 1; i < group->size; i++) {
        const syn__call_sig *other = &shared->members[i].slots[r->sig.seq & 1];
        if (syn__call_sig_equal(first, other)) continue;
        char sentence[SYN_ERROR_TEXT];
        syn__mismatch_text(group->ranks[0], first, group->ranks[i], other, sentence,
                           sizeof sentence);
        return syn__local_fail(self->world, sentence, err);
    }
    return SYN_OK;
}

/* Copies all inputs, one after another. */
static void copy_inputs(const syn_request *r, unsigned char *to) {
    const syn_comm_call *x = &r->sig.comm_call;
    if (x->kind == SYN_COMM_ALL_GATHER) {
        if (x->n_part > 0) memcpy(to, x->part, x->n_part * syn_dtype_bytes(x->dtype));
        return;
    }
    for (int32_t i = 0; i < x->n_segments; i++) {
        const size_t bytes = r->segments[i].n_elems * syn_dtype_bytes(x->dtype);
        if (bytes > 0) memcpy(to, r->segments[i].in, bytes);
        to += bytes;
    }
}

/* Publishes this rank's call. The slot is free, because the members read it for the last time
   before they entered the previous call. */
static void publish(const syn_request *r, bool inlined) {
    const syn_group *group = r->sig.comm_call.group;
    syn__local_group *shared = group->impl;
    syn__local_member *me = &shared->members[group->index];
    syn__call_sig *slot = &me->slots[r->sig.seq & 1];
    *slot = r->sig;
    slot->comm_call.group = &shared->group; /* outlives this rank's own copy */
    if (inlined) copy_inputs(r, me->inlined[r->sig.seq & 1]);
}

syn_status syn__local_enter(syn__local *self, syn_request *r, bool inlined, syn_error *err) {
    syn__local_group *shared = r->sig.comm_call.group->impl;
    /* After a failure, other members may still read the slots. */
    if (atomic_load_explicit(&shared->entered, memory_order_acquire) & SYN__ABORTED)
        return syn__local_fail(self->world, NULL, err);
    publish(r, inlined);
    const uint64_t target = r->sig.seq * (uint64_t)shared->group.size;
    bool last = false;
    if (!count_in(shared, target, &last)) return syn__local_fail(self->world, NULL, err);
    if (last) {
        wake_sleepers(self->world, shared);
    } else if (!reached(&shared->entered, target)) {
        const uint64_t begin_ns = syn__clock_ns();
        if (!r->on_main || !syn__local_spin(self, &shared->entered, target))
            sleep_entered(self, r, target);
        r->times.wait_ns += syn__clock_ns() - begin_ns;
        if (!reached(&shared->entered, target)) return syn__local_fail(self->world, NULL, err);
    }
    return compare_calls(self, r, err);
}

void syn__local_leave(syn__local *self, syn_request *r) {
    syn__local_group *shared = r->sig.comm_call.group->impl;
    syn__local_member *me = &shared->members[r->sig.comm_call.group->index];
    const uint64_t target = ++me->left * (uint64_t)shared->group.size;
    if (atomic_fetch_add(&shared->left, 1) + 1 == target) {
        wake_sleepers(self->world, shared);
        return;
    }
    const uint64_t begin_ns = syn__clock_ns();
    if (!r->on_main || !syn__local_spin(self, &shared->left, target)) {
        pthread_mutex_lock(&self->world->lock);
        atomic_fetch_add(&shared->sleepers, 1);
        while (atomic_load(&shared->left) < target)
            pthread_cond_wait(&shared->wake, &self->world->lock);
        atomic_fetch_sub(&shared->sleepers, 1);
        pthread_mutex_unlock(&self->world->lock);
    }
    r->times.wait_ns += syn__clock_ns() - begin_ns;
}

/* ---- Callbacks of the streams ---- */

void syn__local_numbered(syn__comm *comm, const syn_request *request) {
    (void)comm;
    const syn_group *group = request->sig.comm_call.group;
    syn__local_group *shared = group->impl;
    /* Other ranks read `started` under the lock when they search for deadlocks. This rank takes the
       lock before it waits itself, so the store needs no lock. */
    atomic_store_explicit(&shared->members[group->index].started, request->sig.seq,
                          memory_order_release);
}

void syn__local_block(syn__comm *comm, const syn_request *request) {
    syn_local_world *world = ((syn__local *)comm)->world;
    pthread_mutex_lock(&world->lock);
    world->ranks[comm->pub.rank].awaited = request;
    search(world, comm->pub.rank);
    pthread_mutex_unlock(&world->lock);
}

void syn__local_unblock(syn__comm *comm) {
    syn_local_world *world = ((syn__local *)comm)->world;
    pthread_mutex_lock(&world->lock);
    world->ranks[comm->pub.rank].awaited = NULL;
    pthread_mutex_unlock(&world->lock);
}
