/* Runs one function on all ranks of a world, each on a separate thread. */
#include "comm/comm_local.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/thread.h"

#include <stdio.h>

typedef struct rank_thread {
    syn_local_world *world;
    int32_t rank;
    syn_rank_main *rank_main;
    void *arg;
    pthread_t thread;
    syn_error error;
} rank_thread;

static void *run_rank(void *arg) {
    rank_thread *t = arg;
    syn_comm *comm = NULL;
    char sentence[SYN_ERROR_TEXT];
    syn_status status = syn_comm_local_new(&comm, t->world, t->rank, &t->error);
    if (status == SYN_OK) status = t->rank_main(comm, t->arg, &t->error);
    if (status != SYN_OK && t->error.code == SYN_OK)
        SYN_FAIL(&t->error, status, "%s", syn_status_name(status));
    if (status != SYN_OK) {
        snprintf(sentence, sizeof sentence, "rank %d failed: %.480s", (int)t->rank, t->error.text);
        syn_local_world_abort(t->world, sentence);
    }
    syn_comm_close(comm);
    return NULL;
}

/* Chooses the failure to report. It prefers the failure of a rank over the failures that other
   ranks got because of it. If the operation that failed was started but never waited for, no rank
   has a failure, and the world's failure is reported. */
static syn_status report(const syn_local_world *world, const rank_thread *threads, syn_error *err) {
    const int32_t size = world->size;
    const rank_thread *shown = NULL;
    for (int32_t r = 0; r < size; r++) {
        const rank_thread *t = &threads[r];
        if (t->error.code == SYN_OK) continue;
        if (shown == NULL || (shown->error.code == SYN_E_COMM && t->error.code != SYN_E_COMM))
            shown = t;
    }
    if (shown == NULL && atomic_load(&world->aborted))
        return SYN_FAIL(err, SYN_E_COMM, "%s", world->abort_text);
    if (shown == NULL) return SYN_OK;
    if (shown->error.code == SYN_E_COMM || size == 1)
        return SYN_FAIL(err, shown->error.code, "%s", shown->error.text);
    return SYN_FAIL(err, shown->error.code, "rank %d failed: %.480s", (int)shown->rank,
                    shown->error.text);
}

syn_status syn_local_run(int32_t size, syn_rank_main *rank_main, void *arg, syn_error *err) {
    syn_local_world *world = NULL;
    SYN_TRY(syn_local_world_new(&world, size, err));
    rank_thread *threads = syn_calloc((size_t)size, sizeof *threads);
    if (threads == NULL) {
        syn_local_world_free(world);
        return SYN_FAIL_NOMEM(err, (size_t)size * sizeof *threads, "the threads of ranks");
    }
    int32_t started = 0;
    for (; started < size; started++) {
        rank_thread *t = &threads[started];
        *t = (rank_thread){.world = world, .rank = started, .rank_main = rank_main, .arg = arg};
        if (syn__thread_start(&t->thread, run_rank, t) != 0) break;
    }
    char sentence[128] = "";
    if (started < size) {
        snprintf(sentence, sizeof sentence, "the system cannot start thread %d of %d ranks",
                 (int)started + 1, (int)size);
        syn_local_world_abort(world, sentence);
    }
    for (int32_t r = 0; r < started; r++) pthread_join(threads[r].thread, NULL);
    const syn_status status =
        started < size ? SYN_FAIL(err, SYN_E_COMM, "%s", sentence) : report(world, threads, err);
    syn_free(threads);
    syn_local_world_free(world);
    return status;
}
