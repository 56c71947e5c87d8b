/* Aborts NCCL when other ranks do not arrive. Any thread that detects this can abort.

   Collectives are launched in a blocking NCCL communicator, because each call in a non-blocking
   communicator starts a thread in NCCL. A call actually blocks only if members must connect first
   (cuda_nccl.cu), or if the device is far behind the host. Therefore each group has a second
   communicator, `whole`, which is created first and does not block. `comm` is split from it and
   shares its resources, including the abort flag. A watchdog thread may abort `whole` while another
   thread is in a call on `comm`. It must not abort `comm` itself, because that would free memory
   that the call uses. */
#include "comm/cuda/cuda_comm.h"

#ifdef SYN_HAVE_NCCL

#include <sched.h>
#include <time.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

/* ABORT_WAIT_NS: how long to wait for the failure of a rank that ended, and for NCCL's aborts.
   POLL_MS: polling interval of the watchdog. */
enum { ABORT_WAIT_NS = 2000000000, POLL_MS = 50 };

void syn__nccl_poll_pause(uint64_t since_ns) {
    const struct timespec rest = {0, 50000};
    if (syn__clock_ns() - since_ns < 200000) sched_yield();
    else nanosleep(&rest, NULL);
}

/* ---- aborting ---- */

typedef struct aborted {
    ncclComm_t whole, part; /* may be NULL */
} aborted;

static int aborting; /* number of threads in this process that are aborting */

static void *abort_both(void *arg) {
    aborted *a = static_cast<aborted *>(arg);
    if (a->whole) syn__nccl.CommAbort(a->whole);
    if (a->part) syn__nccl.CommAbort(a->part);
    syn_free(a);
    __atomic_sub_fetch(&aborting, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Aborts in another thread, because NCCL may wait until the other ranks of the machine abort, too,
   and before that this rank must report its failure. */
static void start_abort(ncclComm_t whole, ncclComm_t part) {
    aborted *a = static_cast<aborted *>(syn_malloc(sizeof *a));
    pthread_t thread;
    if (!a || (!whole && !part)) {
        syn_free(a);
        return;
    }
    a->whole = whole;
    a->part = part;
    __atomic_add_fetch(&aborting, 1, __ATOMIC_RELEASE);
    if (pthread_create(&thread, NULL, abort_both, a) == 0) pthread_detach(thread);
    else abort_both(a);
}

static ncclComm_t take(ncclComm_t *from) {
    const ncclComm_t comm = *from;
    *from = NULL;
    return comm;
}

void syn__nccl_abort_all(syn__cuda_comms *x) {
    pthread_mutex_lock(&x->lock);
    for (syn__nccl_group *g = x->groups; g; g = g->next)
        start_abort(take(&g->whole), take(&g->comm));
    pthread_mutex_unlock(&x->lock);
}

bool syn__nccl_aborted(void) {
    const uint64_t since_ns = syn__clock_ns();
    while (__atomic_load_n(&aborting, __ATOMIC_ACQUIRE) > 0) {
        if (syn__clock_ns() - since_ns > ABORT_WAIT_NS) return false;
        syn__nccl_poll_pause(since_ns);
    }
    return true;
}

/* ---- detecting failures ---- */

syn_status syn__nccl_check_others(const syn__cuda_comms *x, syn_error *err) {
    if (x->comm->closed || !x->comm->ops->check) return SYN_OK;
    return x->comm->ops->check(x->comm, err);
}

syn_status syn__nccl_or_others(const syn__cuda_comms *x, syn_status s, syn_error *err) {
    const uint64_t since_ns = syn__clock_ns();
    if (s == SYN_OK || x->comm->closed || !x->comm->ops->check) return s;
    while (syn__clock_ns() - since_ns < ABORT_WAIT_NS) {
        SYN_TRY(syn__nccl_check_others(x, err));
        syn__nccl_poll_pause(since_ns);
    }
    return s;
}

/* Fails with the error of the first group for which NCCL reports one. */
static syn_status find_broken(const syn__cuda_comms *x, syn_error *err) {
    for (const syn__nccl_group *g = x->groups; g; g = g->next) {
        ncclResult_t code = ncclSuccess;
        if (!g->comm) continue;
        if (syn__nccl.CommGetAsyncError(g->comm, &code) != ncclSuccess) code = ncclInternalError;
        SYN_NCCL(code, g->comm, g->group->name, err);
    }
    return SYN_OK;
}

bool syn__nccl_too_long(const syn__cuda_comms *x, uint64_t since_ns) {
    return (double)(syn__clock_ns() - since_ns) > x->timeout_s * 1e9;
}

syn_status syn__nccl_check_all(syn__cuda_comms *x, uint64_t since_ns, syn_error *err) {
    SYN_TRY(syn__nccl_check_others(x, err));
    pthread_mutex_lock(&x->lock);
    const syn_status s = find_broken(x, err);
    pthread_mutex_unlock(&x->lock);
    SYN_TRY(syn__nccl_or_others(x, s, err));
    if (!syn__nccl_too_long(x, since_ns)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_COMM, "the other ranks of the group did not join within %g s",
                    x->timeout_s);
}

/* ---- calls that may block ---- */

/* Ends the call that began at since_ns, if it is still running. */
static void end_call(syn__cuda_comms *x, uint64_t since_ns, const syn_error *why) {
    pthread_mutex_lock(&x->lock);
    if (__atomic_load_n(&x->inside_ns, __ATOMIC_ACQUIRE) == since_ns) {
        x->broken = *why;
        for (syn__nccl_group *g = x->groups; g; g = g->next) start_abort(take(&g->whole), NULL);
    }
    pthread_mutex_unlock(&x->lock);
}

/* Sleeps for up to POLL_MS; true if the watchdog must stop. */
static bool stopped(syn__cuda_comms *x) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&x->lock);
    if (!x->stop) pthread_cond_timedwait(&x->stopping, &x->lock, &until);
    const bool stop = x->stop;
    pthread_mutex_unlock(&x->lock);
    return stop;
}

static void *watch(void *arg) {
    syn__cuda_comms *x = static_cast<syn__cuda_comms *>(arg);
    while (!stopped(x)) {
        const uint64_t since_ns = __atomic_load_n(&x->inside_ns, __ATOMIC_ACQUIRE);
        syn_error why;
        why.code = SYN_OK;
        if (since_ns && syn__nccl_check_all(x, since_ns, &why) != SYN_OK)
            end_call(x, since_ns, &why);
    }
    return NULL;
}

syn_status syn__nccl_watch(syn__cuda_comms *x, syn_error *err) {
    x->watched = pthread_create(&x->watcher, NULL, watch, x) == 0;
    return x->watched ? SYN_OK : SYN_FAIL(err, SYN_E_COMM, "the system cannot start a thread");
}

void syn__nccl_unwatch(syn__cuda_comms *x) {
    if (!x->watched) return;
    pthread_mutex_lock(&x->lock);
    x->stop = true;
    pthread_cond_signal(&x->stopping);
    pthread_mutex_unlock(&x->lock);
    pthread_join(x->watcher, NULL);
    x->watched = false;
}

void syn__nccl_enter(syn__cuda_comms *x) {
    __atomic_store_n(&x->inside_ns, syn__clock_ns(), __ATOMIC_RELEASE);
}

syn_status syn__nccl_leave(syn__cuda_comms *x, syn_error *err) {
    __atomic_store_n(&x->inside_ns, 0, __ATOMIC_RELEASE);
    pthread_mutex_lock(&x->lock);
    const syn_error why = x->broken;
    pthread_mutex_unlock(&x->lock);
    return why.code == SYN_OK ? SYN_OK : SYN_FAIL(err, why.code, "%s", why.text);
}

#endif
