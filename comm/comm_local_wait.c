/* How in-process ranks wait for each other, and how they learn that waiting is in vain. */
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

/* ---- Who waits for whom (lock held) ---- */

/* Whether blocked rank `waiter` cannot go on before `rank` acts. */
static bool waits_for(syn_local_world *world, int32_t waiter, int32_t rank) {
    const syn__local_rank *w = &world->ranks[waiter];
    if (!w->blocked) return false;
    if (w->group == NULL)
        return w->call.peer == rank &&
               syn__mailbox_find(&w->box, w->call.peer, w->call.tag) == NULL;
    for (int32_t i = 0; i < w->group->size; i++)
        if (w->group->ranks[i] == rank)
            return atomic_load(&w->group->members[i].arrived) < w->call.seq;
    return false;
}

/* "rank 1 ended while rank 0 waits in all_reduce #5 of group tp0" */
static void die_of_ended(syn_local_world *world, int32_t ended, int32_t waiter) {
    const syn__local_rank *w = &world->ranks[waiter];
    char sentence[256];
    const char *what = world->ranks[ended].opened ? "ended" : "never started";
    if (w->group == NULL)
        snprintf(sentence, sizeof sentence, "rank %d %s while rank %d waits in recv(tag %d) for it",
                 (int)ended, what, (int)waiter, (int)w->call.tag);
    else
        snprintf(sentence, sizeof sentence,
                 "rank %d %s while rank %d waits in %s #%llu of group %.64s", (int)ended, what,
                 (int)waiter, syn_comm_kind_name(w->call.kind), (unsigned long long)w->call.seq,
                 w->call.group);
    syn__local_die(world, sentence);
}

/* The chain first -> ... -> last -> first, found by following parents back from last. */
static void die_of_cycle(syn_local_world *world, int32_t first, int32_t last) {
    char sentence[512], place[SYN__PLACE_TEXT];
    const syn__local_rank *a = &world->ranks[first], *b = &world->ranks[last];
    if (b->parent == first && first != last && a->group != NULL && b->group != NULL) {
        const bool in_order = first < last;
        syn__mismatch_text(in_order ? first : last, in_order ? &a->call : &b->call,
                           in_order ? last : first, in_order ? &b->call : &a->call, sentence,
                           sizeof sentence);
        syn__local_die(world, sentence);
        return;
    }
    int n = snprintf(sentence, sizeof sentence, "ranks wait for each other");
    const char *separator = ": ";
    for (int32_t r = last; n > 0 && (size_t)n < sizeof sentence; r = world->ranks[r].parent) {
        n += snprintf(sentence + n, sizeof sentence - (size_t)n, "%srank %d in %s", separator,
                      (int)r, syn__call_place(&world->ranks[r].call, place, sizeof place));
        separator = "; ";
        if (r == first) break;
    }
    syn__local_die(world, sentence);
}

/* Looks at one link of the search. True if the world ended. */
static bool follow(syn_local_world *world, int32_t from, int32_t to, int32_t start, size_t *top) {
    if (to == start) {
        die_of_cycle(world, start, from);
        return true;
    }
    syn__local_rank *r = &world->ranks[to];
    if (r->ended) {
        die_of_ended(world, to, from);
        return true;
    }
    if (r->visit == world->visits) return false;
    r->visit = world->visits;
    r->parent = from;
    if (r->blocked) world->stack[(*top)++] = to;
    return false;
}

/* `start` has just blocked: ends the world if it waits, over any number of blocked ranks, for
   itself or for a rank that ended. */
static void search(syn_local_world *world, int32_t start) {
    size_t top = 0;
    world->visits++;
    world->ranks[start].visit = world->visits;
    world->ranks[start].parent = start;
    world->stack[top++] = start;
    while (top > 0) {
        const int32_t from = world->stack[--top];
        const syn__local_rank *r = &world->ranks[from];
        if (r->group == NULL) {
            if (waits_for(world, from, r->call.peer) &&
                follow(world, from, r->call.peer, start, &top))
                return;
            continue;
        }
        for (int32_t i = 0; i < r->group->size; i++)
            if (atomic_load(&r->group->members[i].arrived) < r->call.seq &&
                follow(world, from, r->group->ranks[i], start, &top))
                return;
    }
}

void syn__local_rank_ended(syn_local_world *world, int32_t rank) {
    world->ranks[rank].ended = true;
    for (int32_t r = 0; r < world->size; r++)
        if (r != rank && waits_for(world, r, rank)) {
            die_of_ended(world, rank, r);
            return;
        }
}

/* ---- Waiting ---- */

static bool reached(const _Atomic uint64_t *count, uint64_t target) {
    return (atomic_load(count) & ~SYN__POISON) >= target;
}

/* Whether the count reached target (or was poisoned) while spinning. Offers the core to others now
   and then: the awaited thread may be queued behind us, and two threads that sleep in turns would
   be kept on one core for good. */
static bool spin(const syn__local *self, const _Atomic uint64_t *count, uint64_t target) {
    const uint32_t spins = self->world->spins;
    for (uint32_t i = 1; i <= spins; i++) {
        /* POISON is above any count */
        if (atomic_load_explicit(count, memory_order_acquire) >= target) return true;
        PAUSE();
        if (i % YIELD_SPINS == 0) sched_yield();
    }
    return false;
}

static void wake_sleepers(syn_local_world *world, syn__local_group *group) {
    /* Both sides use sequentially consistent operations: either we see the sleeper or it sees our
     * count. */
    if (atomic_load(&group->sleepers) == 0) return;
    pthread_mutex_lock(&world->lock);
    pthread_cond_broadcast(&group->wake);
    pthread_mutex_unlock(&world->lock);
}

/* Sleeps until all members have entered, or the group is poisoned. */
static void sleep_entered(syn__local *self, syn__local_group *group, const syn__call *call,
                          uint64_t target) {
    syn_local_world *world = self->world;
    syn__local_rank *me = &world->ranks[self->base.pub.rank];
    pthread_mutex_lock(&world->lock);
    atomic_fetch_add(&group->sleepers, 1);
    me->blocked = true;
    me->group = group;
    me->call = *call;
    if (atomic_load(&group->entered) < target) search(world, self->base.pub.rank);
    while (atomic_load(&group->entered) < target) pthread_cond_wait(&group->wake, &world->lock);
    me->blocked = false;
    atomic_fetch_sub(&group->sleepers, 1);
    pthread_mutex_unlock(&world->lock);
}

/* Counts this member in. False if the group is poisoned; *last if it was the last to come. */
static bool count_in(syn__local_group *group, uint64_t target, bool *last) {
    uint64_t seen = atomic_load_explicit(&group->entered, memory_order_relaxed);
    do {
        if (seen & SYN__POISON) return false;
    } while (!atomic_compare_exchange_weak(&group->entered, &seen, seen + 1));
    *last = seen + 1 == target;
    return true;
}

static syn_status compare_calls(syn__local *self, const syn_group *group, uint64_t seq,
                                syn_error *err) {
    const syn__local_group *shared = group->impl;
    const syn__call *first = &shared->members[0].slots[seq & 1].call;
    for (int32_t i = 1; i < group->size; i++) {
        const syn__call *call = &shared->members[i].slots[seq & 1].call;
        if (syn__call_equal(first, call)) continue;
        char sentence[512];
        syn__mismatch_text(group->ranks[0], first, group->ranks[i], call, sentence,
                           sizeof sentence);
        return syn__local_fail(self->world, sentence, err);
    }
    return SYN_OK;
}

/* Publishes what this rank calls. The slots used here were last read before the previous call was
 * entered. */
static void publish(syn__local_group *shared, const syn_group *group, syn__call *call,
                    const void *in, void *out, size_t inline_bytes) {
    syn__local_member *me = &shared->members[group->index];
    const uint64_t seq = ++me->seq;
    call->group = shared->name;
    call->group_id = group->id;
    call->seq = seq;
    call->peer = -1;
    if (inline_bytes > 0) {
        memcpy(me->inlined[seq & 1], in, inline_bytes);
        in = me->inlined[seq & 1];
    }
    me->slots[seq & 1] = (syn__local_slot){in, out, *call};
    atomic_store_explicit(&me->arrived, seq, memory_order_release);
}

syn_status syn__local_enter(syn__local *self, const syn_group *group, syn__call *call,
                            const void *in, void *out, size_t inline_bytes, uint64_t *wait_ns,
                            syn_error *err) {
    syn__local_group *shared = group->impl;
    *wait_ns = 0;
    /* After a failure others may still read the slots. */
    if (atomic_load_explicit(&shared->entered, memory_order_acquire) & SYN__POISON)
        return syn__local_fail(self->world, NULL, err);
    publish(shared, group, call, in, out, inline_bytes);
    const uint64_t target = call->seq * (uint64_t)group->size;
    bool last = false;
    if (!count_in(shared, target, &last)) return syn__local_fail(self->world, NULL, err);
    if (last) {
        wake_sleepers(self->world, shared);
    } else if (!reached(&shared->entered, target)) {
        const uint64_t begin_ns = syn__clock_ns();
        if (!spin(self, &shared->entered, target)) sleep_entered(self, shared, call, target);
        *wait_ns = syn__clock_ns() - begin_ns;
        if (!reached(&shared->entered, target)) return syn__local_fail(self->world, NULL, err);
    }
    return compare_calls(self, group, call->seq, err);
}

void syn__local_leave(syn__local *self, const syn_group *group, uint64_t *wait_ns) {
    syn__local_group *shared = group->impl;
    const uint64_t target = ++shared->members[group->index].left * (uint64_t)group->size;
    if (atomic_fetch_add(&shared->left, 1) + 1 == target) {
        wake_sleepers(self->world, shared);
        return;
    }
    const uint64_t begin_ns = syn__clock_ns();
    if (!spin(self, &shared->left, target)) {
        pthread_mutex_lock(&self->world->lock);
        atomic_fetch_add(&shared->sleepers, 1);
        while (atomic_load(&shared->left) < target)
            pthread_cond_wait(&shared->wake, &self->world->lock);
        atomic_fetch_sub(&shared->sleepers, 1);
        pthread_mutex_unlock(&self->world->lock);
    }
    *wait_ns += syn__clock_ns() - begin_ns;
}

bool syn__local_await_mail(syn__local *self, const syn__call *call) {
    syn_local_world *world = self->world;
    syn__local_rank *me = &world->ranks[self->base.pub.rank];
    bool spun = false;
    while (syn__mailbox_find(&me->box, call->peer, call->tag) == NULL) {
        if (atomic_load(&world->dead)) return false;
        const uint64_t received = atomic_load(&me->received);
        if (!spun) {
            pthread_mutex_unlock(&world->lock);
            spun = !spin(self, &me->received, received + 1);
            pthread_mutex_lock(&world->lock);
            continue;
        }
        me->blocked = true;
        me->group = NULL;
        me->call = *call;
        search(world, self->base.pub.rank);
        if (!atomic_load(&world->dead)) pthread_cond_wait(&me->mail, &world->lock);
        me->blocked = false;
    }
    return true;
}
