/* In-process ranks: creates and closes the world, its communicators and its groups. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for sched_getaffinity */
#endif
#include "comm/comm_local.h"
#include "syntorch/base/memory.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* About 20 to 50 microseconds, a few times as long as waking a sleeping thread. */
#define MAX_SPINS 1024

/* The number of cores that this process may use. */
static long usable_cores(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

static void world_free(syn_local_world *world) {
    while (world->groups != NULL) {
        syn__local_group *group = world->groups;
        world->groups = group->next;
        pthread_cond_destroy(&group->wake);
        syn_free(group->outs);
        syn_free(group->ins);
        syn_aligned_free(group->members);
        syn_free((void *)(uintptr_t)group->group.ranks);
        syn_free((void *)(uintptr_t)group->group.name);
        syn_aligned_free(group);
    }
    for (int32_t r = 0; r < world->size; r++) {
        syn__mailbox_free(&world->ranks[r].box);
        pthread_cond_destroy(&world->ranks[r].mail);
    }
    syn_free(world->stack);
    syn_free(world->ranks);
    pthread_mutex_destroy(&world->lock);
    syn_free(world);
}

/* Drops a reference to the world and unlocks it; the caller holds the lock. The last reference
   frees the world. */
static void release(syn_local_world *world) {
    const bool last = --world->holders == 0;
    pthread_mutex_unlock(&world->lock);
    if (last) world_free(world);
}

syn_status syn_local_world_new(syn_local_world **out, int32_t size, syn_error *err) {
    if (size < 1)
        return SYN_FAIL(err, SYN_E_INVALID, "a world needs at least one rank, not %d", (int)size);
    syn_local_world *world = syn_calloc(1, sizeof *world);
    if (world == NULL) return SYN_FAIL_NOMEM(err, sizeof *world, "a world of ranks");
    world->ranks = syn_calloc((size_t)size, sizeof *world->ranks);
    world->stack = syn_calloc((size_t)size, sizeof *world->stack);
    if (world->ranks == NULL || world->stack == NULL) {
        syn_free(world->stack);
        syn_free(world->ranks);
        syn_free(world);
        return SYN_FAIL_NOMEM(err, (size_t)size * sizeof *world->ranks, "the ranks of a world");
    }
    pthread_mutex_init(&world->lock, NULL);
    world->size = size;
    world->holders = 1;
    world->origin_ns = syn__clock_ns();
    const bool running = size <= usable_cores();
    world->spins = running ? MAX_SPINS : 0;
    world->inline_bytes = running ? SYN__INLINE_RUNNING_BYTES : SYN__INLINE_BYTES;
    for (int32_t r = 0; r < size; r++) {
        syn__mailbox_init(&world->ranks[r].box);
        pthread_cond_init(&world->ranks[r].mail, NULL);
    }
    atomic_init(&world->aborted, false);
    *out = world;
    return SYN_OK;
}

void syn_local_world_free(syn_local_world *world) {
    if (world == NULL) return;
    pthread_mutex_lock(&world->lock);
    for (int32_t r = 0; r < world->size; r++)
        if (!world->ranks[r].opened) syn__local_rank_ended(world, r);
    release(world);
}

void syn__local_abort(syn_local_world *world, const char *sentence) {
    if (atomic_load(&world->aborted)) return;
    snprintf(world->abort_text, sizeof world->abort_text, "%s", sentence);
    atomic_store(&world->aborted, true);
    for (syn__local_group *g = world->groups; g != NULL; g = g->next) {
        atomic_fetch_or(&g->entered, SYN__ABORTED);
        pthread_cond_broadcast(&g->wake);
    }
    for (int32_t r = 0; r < world->size; r++) pthread_cond_signal(&world->ranks[r].mail);
}

syn_status syn__local_fail(syn_local_world *world, const char *sentence, syn_error *err) {
    pthread_mutex_lock(&world->lock);
    if (sentence != NULL) syn__local_abort(world, sentence);
    pthread_mutex_unlock(&world->lock);
    return SYN_FAIL(err, SYN_E_COMM, "%s", world->abort_text); /* written before `aborted` */
}

void syn_local_world_abort(syn_local_world *world, const char *sentence) {
    pthread_mutex_lock(&world->lock);
    syn__local_abort(world, sentence);
    pthread_mutex_unlock(&world->lock);
}

/* NULL if out of memory. */
static syn__local_group *group_new(const syn_group *group) {
    const size_t size = (size_t)group->size;
    syn__local_group *shared = syn_aligned_malloc(sizeof *shared);
    if (shared == NULL) return NULL;
    memset(shared, 0, sizeof *shared);
    int32_t *ranks = syn_malloc(size * sizeof *ranks);
    char *name = syn_strdup(group->name);
    shared->members = syn_aligned_malloc(size * sizeof *shared->members);
    shared->ins = syn_calloc(size * size, sizeof *shared->ins);
    shared->outs = syn_calloc(size * size, sizeof *shared->outs);
    if (ranks == NULL || name == NULL || shared->members == NULL || shared->ins == NULL ||
        shared->outs == NULL)
        goto no_memory;
    memcpy(ranks, group->ranks, size * sizeof *ranks);
    memset(shared->members, 0, size * sizeof *shared->members);
    shared->group = (syn_group){.id = group->id, .name = name, .ranks = ranks, .size = group->size};
    pthread_cond_init(&shared->wake, NULL);
    return shared;
no_memory:
    syn_free(shared->outs);
    syn_free(shared->ins);
    syn_aligned_free(shared->members);
    syn_free(name);
    syn_free(ranks);
    syn_aligned_free(shared);
    return NULL;
}

static bool same_ranks(const syn_group *a, const syn_group *b) {
    return a->size == b->size && memcmp(a->ranks, b->ranks, (size_t)b->size * sizeof(int32_t)) == 0;
}

static syn_status local_open_group(syn_comm *comm, syn_group *group, syn_error *err) {
    syn_local_world *world = ((syn__local *)comm)->world;
    char sentence[256];
    pthread_mutex_lock(&world->lock);
    syn__local_group *shared = world->groups;
    while (shared != NULL && shared->group.id != group->id) shared = shared->next;
    const bool found = shared != NULL;
    if (!found && (shared = group_new(group)) != NULL) {
        shared->next = world->groups;
        world->groups = shared;
        if (atomic_load(&world->aborted)) atomic_store(&shared->entered, SYN__ABORTED);
    }
    pthread_mutex_unlock(&world->lock);
    if (shared == NULL) return SYN_FAIL_NOMEM(err, sizeof *shared, "a group of ranks");
    if (found && !same_ranks(&shared->group, group)) {
        snprintf(sentence, sizeof sentence,
                 "rank %d opens group %u (%.64s) with %d ranks but another rank opened it with %d "
                 "ranks or in another order",
                 (int)comm->rank, (unsigned)group->id, group->name, (int)group->size,
                 (int)shared->group.size);
        return syn__local_fail(world, sentence, err);
    }
    group->impl = shared;
    return SYN_OK;
}

static void local_abort(syn_comm *comm, const char *reason) {
    char sentence[SYN_ERROR_TEXT];
    snprintf(sentence, sizeof sentence, "rank %d failed: %.480s", (int)comm->rank, reason);
    syn_local_world_abort(((syn__local *)comm)->world, sentence);
}

static void local_close(syn_comm *comm) {
    syn_local_world *world = ((syn__local *)comm)->world;
    syn__comm_finish((syn__comm *)comm);
    pthread_mutex_lock(&world->lock);
    syn__local_rank_ended(world, comm->rank);
    release(world);
}

static syn_status local_check(const syn_comm *comm, syn_error *err) {
    const syn_local_world *world = ((const syn__local *)comm)->world;
    if (!atomic_load(&world->aborted)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_COMM, "%s", world->abort_text); /* written before `aborted` */
}

static const syn_comm_ops local_ops = {
    .name = "local",
    .moves_data = true,
    .open_group = syn__comm_open_group,
    .next_group = syn__comm_next_group,
    .hold = syn__comm_add_user,
    .release = syn__comm_drop_user,
    .start = syn__comm_start,
    .wait = syn__comm_wait,
    .abort = local_abort,
    .close = local_close,
    .in_process = true,
    .check = local_check,
};

static const syn__transport transport = {
    .open_group = local_open_group,
    .run = syn__local_run_collective,
    .post = syn__local_post,
    .settle = syn__local_settle,
    .withdraw = syn__local_withdraw,
    .numbered = syn__local_numbered,
    .block = syn__local_block,
    .unblock = syn__local_unblock,
};

syn_status syn_comm_local_new(syn_comm **out, syn_local_world *world, int32_t rank,
                              syn_error *err) {
    if (rank < 0 || rank >= world->size)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d does not exist in a world of %d ranks",
                        (int)rank, (int)world->size);
    syn__local *self = syn_calloc(1, sizeof *self);
    if (self == NULL) return SYN_FAIL_NOMEM(err, sizeof *self, "a communicator");
    pthread_mutex_lock(&world->lock);
    const bool taken = world->ranks[rank].opened;
    if (!taken) {
        world->ranks[rank].opened = true;
        world->holders++;
    }
    pthread_mutex_unlock(&world->lock);
    if (taken) {
        syn_free(self);
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d of this world is already open", (int)rank);
    }
    syn__comm_init(&self->base, &local_ops, &transport);
    self->base.threads = true;
    self->base.pub.rank = rank;
    self->base.pub.size = world->size;
    self->base.pub.origin_ns = world->origin_ns;
    self->world = world;
    *out = &self->base.pub;
    return SYN_OK;
}
