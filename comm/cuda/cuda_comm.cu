/* NCCL's communicators, and waits that end if another rank fails. */
#include "comm/cuda/cuda_comm.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

#ifdef SYN_HAVE_NCCL

syn_status syn__nccl_failed(ncclResult_t code, ncclComm_t comm, const char *what, const char *file,
                            int line, syn_error *err) {
    const char *more = syn__nccl.GetLastError(comm);
    return syn__fail(err, file, line, SYN_E_COMM, "NCCL failed at %s: %s%s%.300s", what,
                     syn__nccl.GetErrorString(code), more && *more ? ": " : "", more ? more : "");
}

/* ---- groups ---- */

/* Waits until the last operation on a non-blocking communicator is done. Asks whether other ranks
   have failed before it asks NCCL, because a rank may fail after the operation is done. */
static syn_status settle(syn__cuda_comms *x, ncclComm_t comm, const char *what, syn_error *err) {
    const uint64_t since_ns = syn__clock_ns();
    for (;;) {
        ncclResult_t code = ncclSuccess;
        syn_error others;
        others.code = SYN_OK;
        const syn_status s = syn__nccl_check_others(x, &others);
        SYN_NCCL(syn__nccl.CommGetAsyncError(comm, &code), comm, what, err);
        if (code == ncclSuccess) return SYN_OK;
        if (s != SYN_OK) return SYN_FAIL(err, s, "%s", others.text);
        SYN_NCCL(code, comm, what, err);
        if (syn__nccl_too_long(x, since_ns))
            return SYN_FAIL(err, SYN_E_COMM, "%s: other ranks did not join within %g s", what,
                            x->timeout_s);
        syn__nccl_poll_pause(since_ns);
    }
}

/* The first member creates the id and sends it to the others. */
static syn_status share_id(syn_comm *comm, const syn_group *group, ncclUniqueId *id,
                           syn_error *err) {
    const size_t n = sizeof *id / sizeof(int32_t);
    if (group->index > 0)
        return syn__cuda_host->recv(comm, id, n, SYN_I32, group->ranks[0],
                                    syn__cuda_tag(comm, SYN__CUDA_TAG_ID), err);
    SYN_NCCL(syn__nccl.GetUniqueId(id), NULL, "its start", err);
    for (int32_t i = 1; i < group->size; i++)
        SYN_TRY(syn__cuda_host->send(comm, id, n, SYN_I32, group->ranks[i],
                                     syn__cuda_tag(comm, SYN__CUDA_TAG_ID), err));
    return SYN_OK;
}

static syn_status join(syn__cuda_comms *x, syn__nccl_group *g, syn_error *err) {
    ncclUniqueId id;
    ncclConfig_t whole = NCCL_CONFIG_INITIALIZER, part = NCCL_CONFIG_INITIALIZER;
    whole.blocking = 0;
    part.blocking = 1;
    whole.splitShare = part.splitShare = 1;
    SYN_TRY(share_id(x->comm, g->group, &id, err));
    SYN_CUDA(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "a stream", err);
    SYN_NCCL(syn__nccl.CommInitRankConfig(&g->whole, g->group->size, id, g->group->index, &whole),
             NULL, g->group->name, err);
    SYN_TRY(settle(x, g->whole, g->group->name, err));
    SYN_NCCL(syn__nccl.CommSplit(g->whole, 0, g->group->index, &g->comm, &part), g->whole,
             g->group->name, err);
    return settle(x, g->whole, g->group->name, err);
}

syn_status syn__nccl_group_get(syn__cuda_comms *x, const syn_group *group, syn__nccl_group **out,
                               syn_error *err) {
    syn__nccl_group *g = x->groups;
    while (g && g->group != group) g = g->next;
    if (!g) {
        g = static_cast<syn__nccl_group *>(syn_calloc(1, sizeof *g));
        if (!g) return SYN_FAIL_NOMEM(err, sizeof *g, "a group");
        g->group = group;
        g->next = x->groups;
        pthread_mutex_lock(&x->lock);
        x->groups = g;
        pthread_mutex_unlock(&x->lock);
        const syn_status s = join(x, g, err);
        if (s != SYN_OK) {
            syn__nccl_abort_all(x);
            return s;
        }
    }
    *out = g;
    if (g->comm) return SYN_OK;
    return SYN_FAIL(err, SYN_E_COMM, "group %.64s was aborted", group->name);
}

/* Opens the groups in ascending order of their ids. This order is the same on all ranks, so ranks
   cannot deadlock. */
static syn_status open_groups(syn__cuda_comms *x, syn_error *err) {
    syn__nccl_group *g;
    const syn_group *group = syn__cuda_host->next_group(x->comm, 0);
    for (; group; group = syn__cuda_host->next_group(x->comm, group->id))
        if (group->size > 1) SYN_TRY(syn__nccl_group_get(x, group, &g, err));
    return SYN_OK;
}

/* For error messages: describes the oldest operation that the device still waits for. */
static void describe_oldest(const syn__cuda_comms *x, char *text, size_t bytes) {
    const syn__cuda_request *r = x->timed;
    while (r && cudaEventQuery(r->end) == cudaSuccess) r = r->next;
    if (r) syn__cuda_host->describe_node(x->device->ctx, r->node, text, bytes);
    else snprintf(text, bytes, "the device");
}

static syn_status check(syn__cuda_comms *x, uint64_t since_ns, syn_error *err) {
    char what[256];
    syn_error inner;
    inner.code = SYN_OK;
    if (syn__nccl_check_all(x, since_ns, &inner) == SYN_OK) return SYN_OK;
    describe_oldest(x, what, sizeof what);
    return SYN_FAIL(err, inner.code, "waiting for %s: %s", what, inner.text);
}

/* Waits while `ready` returns cudaErrorNotReady. */
template <typename F> static syn_status wait_for(syn__cuda_comms *x, F ready, syn_error *err) {
    const uint64_t since_ns = syn__clock_ns();
    syn_status s = SYN_OK;
    while (s == SYN_OK && ready() == cudaErrorNotReady) {
        s = check(x, since_ns, err);
        cudaGetLastError(); /* clears cudaErrorNotReady, which the next launch would otherwise
                               report */
        if (s == SYN_OK) syn__nccl_poll_pause(since_ns);
    }
    if (s != SYN_OK) syn__nccl_abort_all(x);
    return s; /* failures of the stream itself are reported by its next use */
}

syn_status syn__cuda_comms_sync(syn__cuda_comms *x, cudaEvent_t event, syn_error *err) {
    if (!x || !x->nccl) return SYN_OK;
    return wait_for(
        x, [event] { return cudaEventQuery(event); }, err);
}

static bool has_failed(const syn__cuda_comms *x) {
    return x->device->late.code != SYN_OK || syn__cuda_host->status(x->device->ctx) != SYN_OK;
}

/* Waits for the streams of all groups, but for sends only most_ns. Returns whether all are idle. A
   failure is stored in the device. */
static bool wait_for_streams(syn__cuda_comms *x, uint64_t most_ns) {
    syn_error *late = &x->device->late, ignored;
    const uint64_t since_ns = syn__clock_ns();
    bool idle = true;
    ignored.code = SYN_OK;
    if (has_failed(x)) syn__nccl_abort_all(x); /* no rank receives what this one has sent */
    for (const syn__nccl_group *g = x->groups; g; g = g->next) {
        const auto done = [g, since_ns, most_ns, &idle] {
            const cudaError_t code = cudaStreamQuery(g->stream);
            const bool stop = g->sends && syn__clock_ns() - since_ns > most_ns;
            if (code != cudaErrorNotReady || !stop) return code;
            idle = false;
            cudaGetLastError(); /* clears cudaErrorNotReady */
            return cudaSuccess;
        };
        if (!g->stream) continue; /* the group could not be created */
        (void)wait_for(x, done, late->code == SYN_OK ? late : &ignored);
    }
    return idle;
}

bool syn__cuda_comms_drain(syn__cuda_comms *x, int most_ms) {
    return !x || !x->nccl || wait_for_streams(x, (uint64_t)most_ms * 1000000);
}

static void close_groups(syn__cuda_comms *x) {
    syn_error ignored;
    ignored.code = SYN_OK;
    bool failed = has_failed(x) || (x->peers && x->comm->closed);
    if (x->peers && !failed) {
        failed = syn__nccl_end_messages(x, &ignored) != SYN_OK;
        if (!failed) wait_for_streams(x, UINT64_MAX);
    }
    syn__nccl_unwatch(x);
    if (failed || has_failed(x) || syn__nccl_check_others(x, &ignored) != SYN_OK)
        syn__nccl_abort_all(x);
    const bool done = syn__nccl_aborted(); /* false: NCCL may still write to groups */
    while (x->groups) {
        syn__nccl_group *g = x->groups;
        x->groups = g->next;
        if (g->comm) syn__nccl.CommDestroy(g->comm);
        if (g->whole) syn__nccl.CommDestroy(g->whole);
        if (g->stream) cudaStreamDestroy(g->stream);
        if (done) syn_free(g);
    }
    pthread_cond_destroy(&x->stopping);
    pthread_mutex_destroy(&x->lock);
}

syn_status syn__nccl_check(syn__cuda_comms *x, syn_error *err) {
    const syn_status s = syn__nccl_check_others(x, err);
    if (s != SYN_OK) syn__nccl_abort_all(x);
    return s;
}

#else

syn_status syn__cuda_comms_sync(syn__cuda_comms *x, cudaEvent_t event, syn_error *err) {
    (void)x, (void)event, (void)err;
    return SYN_OK;
}

bool syn__cuda_comms_drain(syn__cuda_comms *x, int most_ms) {
    (void)x, (void)most_ms;
    return true;
}

syn_status syn__cuda_connect(void *device, const syn_group *group, syn_error *err) {
    (void)device, (void)group, (void)err;
    return SYN_OK;
}

#endif

/* ---- opening and closing ---- */

static double timeout(void) {
    const char *text = getenv("SYNTORCH_NCCL_TIMEOUT_S");
    const double s = text ? atof(text) : 0;
    return s > 0 ? s : 600;
}

syn_status syn__cuda_comms_open(syn__cuda_comms **out, syn__cuda *device, syn_comm *comm,
                                syn_error *err) {
    *out = NULL;
    if (!comm || comm->size == 1) return SYN_OK;
    syn__cuda_comms *x = static_cast<syn__cuda_comms *>(syn_calloc(1, sizeof *x));
    if (!x) return SYN_FAIL_NOMEM(err, sizeof *x, "exchanges");
    *out = x;
    x->device = device;
    x->comm = comm;
    x->last_timed = &x->timed;
    x->timeout_s = timeout();
#ifdef SYN_HAVE_NCCL
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->stopping, NULL);
    if (syn__cuda_sharing()) return SYN_OK;
    SYN_TRY(syn__nccl_load(err));
    x->nccl = true;
    SYN_TRY(open_groups(x, err));
    return syn__nccl_watch(x, err);
#endif
    return SYN_OK;
}

void syn__cuda_comms_close(syn__cuda_comms *x) {
    if (!x) return;
#ifdef SYN_HAVE_NCCL
    close_groups(x);
#endif
    syn__cuda_comms_times(x);
#ifdef SYN_HAVE_NCCL
    syn__nccl_peers_free(x);
#endif
    for (syn__cuda_request *lists[] = {x->idle, x->timed}, *r, **list = lists; list < lists + 2;
         list++)
        while ((r = *list)) {
            *list = r->next;
            syn__cuda_request_free(r);
        }
    syn_free(x);
}
