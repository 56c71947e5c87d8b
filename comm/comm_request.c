/* Starts operations and waits for them, for all communicators (comm_request.h). */
#include "comm/comm_request.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/thread.h"

#include <stddef.h>

/* ---- Streams ---- */

static syn__stream *stream_of(const syn_group *group) {
    const char *node = (const char *)group - offsetof(syn__group_node, group);
    return &((syn__group_node *)(uintptr_t)node)->stream;
}

/* Runs a collective and measures its time, unless an earlier collective of the stream has
   failed. */
static void run(syn__comm *self, syn_request *r) {
    syn__stream *s = r->stream;
    const bool timed = !r->sig.comm_call.now;
    const uint64_t cpu_ns = timed ? syn__thread_clock_ns() : 0;
    if (timed) r->times.begin_ns = syn__clock_ns();
    if (s->error.code != SYN_OK) r->error = s->error;
    else if (self->transport->run(self, r, &r->error) != SYN_OK) s->error = r->error;
    if (timed) r->times.end_ns = syn__clock_ns();
    if (timed) r->times.cpu_ns = syn__thread_clock_ns() - cpu_ns;
}

/* Runs the head of the queue. The caller holds the lock, which is released while the head runs. */
static void run_head(syn__comm *self, syn__stream *s, bool on_main) {
    syn_request *r = s->head;
    s->head = r->next;
    if (s->head == NULL) s->tail = &s->head;
    s->running = r;
    r->on_main = on_main;
    pthread_mutex_unlock(&self->lock);
    run(self, r);
    pthread_mutex_lock(&self->lock);
    atomic_store_explicit(&r->state, SYN__DONE, memory_order_relaxed);
    s->running = NULL;
    if (!on_main) pthread_cond_signal(&self->done);
    else if (s->head != NULL) pthread_cond_signal(&s->work);
}

/* Whether the stream's thread has something to run. Collectives that the rank waits for immediately
   (`now`) are left to the rank. */
static bool has_work(const syn__stream *s) {
    return s->head != NULL && s->running == NULL && !s->head->sig.comm_call.now;
}

static void *stream_main(void *arg) {
    syn__stream *s = arg;
    syn__comm *self = s->comm;
    pthread_mutex_lock(&self->lock);
    while (!s->stop) {
        if (has_work(s)) run_head(self, s, false);
        else pthread_cond_wait(&s->work, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static syn_status start_thread(syn__stream *s, syn_error *err) {
    const syn_comm *comm = &s->comm->pub;
    pthread_cond_init(&s->work, NULL);
    if (syn__thread_start(&s->thread, stream_main, s) == 0) {
        s->has_thread = true;
        return SYN_OK;
    }
    pthread_cond_destroy(&s->work);
    return SYN_FAIL(err, SYN_E_COMM, "the system cannot start a communication thread of rank %d",
                    (int)comm->rank);
}

/* Runs the head of the queue, or sleeps while another thread runs it. The caller holds the lock. */
static void advance(syn__comm *self, syn__stream *s) {
    if (s->running == NULL) {
        run_head(self, s, true);
        return;
    }
    if (self->transport->block != NULL) self->transport->block(self, s->running);
    pthread_cond_wait(&self->done, &self->lock);
    if (self->transport->unblock != NULL) self->transport->unblock(self);
}

/* Waits until a collective is done, running the stream's queue meanwhile. */
static void await_done(syn__comm *self, const syn_request *r) {
    pthread_mutex_lock(&self->lock);
    while (atomic_load_explicit(&r->state, memory_order_relaxed) != SYN__DONE)
        advance(self, r->stream);
    pthread_mutex_unlock(&self->lock);
}

static syn_status start_collective(syn__comm *self, syn_request *r, syn_error *err) {
    syn__stream *s = stream_of(r->sig.comm_call.group);
    const bool now = r->sig.comm_call.now || !self->threads;
    if (!now && !s->has_thread) SYN_TRY(start_thread(s, err));
    r->stream = s;
    r->sig.seq = ++s->started;
    if (self->transport->numbered != NULL) self->transport->numbered(self, r);
    if (!s->has_thread) { /* no other thread can be running it */
        r->on_main = true;
        run(self, r);
        atomic_store_explicit(&r->state, SYN__DONE, memory_order_relaxed);
        return SYN_OK;
    }
    pthread_mutex_lock(&self->lock);
    *s->tail = r;
    s->tail = &r->next;
    if (!now) pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&self->lock);
    if (now) await_done(self, r);
    return SYN_OK;
}

/* ---- Messages ---- */

void syn__message_done(syn_request *message) {
    message->times.end_ns = syn__clock_ns();
    atomic_store_explicit(&message->state, SYN__DONE, memory_order_release);
}

static bool message_open(const syn_request *r) {
    return r->stream == NULL && atomic_load_explicit(&r->state, memory_order_acquire) != SYN__DONE;
}

/* ---- Requests ---- */

static syn_request *request_new(syn__comm *self) {
    syn_request *r = self->idle;
    if (r != NULL) {
        self->idle = r->next;
        return r;
    }
    r = syn_calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    r->made = self->made;
    self->made = r;
    return r;
}

static void request_end(syn__comm *self, syn_request *r) {
    atomic_store_explicit(&r->state, SYN__DONE, memory_order_relaxed);
    r->next = self->idle;
    self->idle = r;
}

static syn_status check_segments(const syn_comm_call *x, syn_error *err) {
    const bool list = !syn__is_message(x->kind);
    const int32_t most = list ? SYN_MAX_LIST : 1;
    if (x->kind == SYN_COMM_BARRIER || (x->n_segments >= 1 && x->n_segments <= most)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "%s got %d tensors but accepts %s%d",
                    syn_comm_kind_name(x->kind), (int)x->n_segments, list ? "1 to " : "",
                    (int)most);
}

/* The parts of all ranks must hold all elements. */
static syn_status check_part(const syn_comm_call *x, syn_error *err) {
    size_t left = x->n_part * (size_t)x->group->size;
    for (int32_t i = 0; i < x->n_segments; i++) {
        if (x->segments[i].n_elems > left)
            return SYN_FAIL(err, SYN_E_INVALID, "%s: %d parts of %zu elements do not hold the list",
                            syn_comm_kind_name(x->kind), (int)x->group->size, x->n_part);
        left -= x->segments[i].n_elems;
    }
    return SYN_OK;
}

/* The elements for all members are those of the segment. */
static syn_status check_counts(const syn_comm_call *x, syn_error *err) {
    size_t n = 0;
    bool valid = x->n_segments == 1 && x->to && x->from;
    for (int32_t i = 0; valid && i < x->group->size; i++) {
        valid = x->to[i] >= 0 && x->from[i] >= 0;
        n += (size_t)x->to[i];
    }
    if (valid && n == x->segments[0].n_elems) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "all_to_all: %zu elements are not divided among %d ranks",
                    x->n_segments > 0 ? x->segments[0].n_elems : 0, (int)x->group->size);
}

static syn_status check(const syn_comm *comm, const syn_comm_call *x, syn_error *err) {
    SYN_TRY(syn__comm_check_open(comm, err));
    SYN_TRY(check_segments(x, err));
    switch (x->kind) {
    case SYN_COMM_ALL_REDUCE:
    case SYN_COMM_BARRIER:
        return SYN_OK;
    case SYN_COMM_ALL_GATHER:
    case SYN_COMM_REDUCE_SCATTER:
        return check_part(x, err);
    case SYN_COMM_ALL_TO_ALL:
        return check_counts(x, err);
    case SYN_COMM_BROADCAST:
        if (x->root >= 0 && x->root < x->group->size) return SYN_OK;
        return SYN_FAIL(err, SYN_E_INVALID, "broadcast has root %d in group %.64s of %d ranks",
                        (int)x->root, x->group->name, (int)x->group->size);
    case SYN_COMM_SEND:
    case SYN_COMM_RECV:
        return syn__check_peer(comm, x, err);
    default:
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "communicators do not support %s",
                        syn_comm_kind_name(x->kind));
    }
}

/* Copies the operation and its segments to the request. */
static syn_status describe(syn_request *r, const syn_comm_call *x, syn_error *err) {
    r->sig = (syn__call_sig){.comm_call = *x};
    if (x->kind == SYN_COMM_BARRIER) r->sig.comm_call.n_segments = 0;
    SYN_TRY(syn_grow(&r->segments, &r->segments_cap, (size_t)r->sig.comm_call.n_segments,
                     sizeof *r->segments, err));
    r->sig.comm_call.segments = r->segments;
    for (int32_t i = 0; i < r->sig.comm_call.n_segments; i++) {
        r->segments[i] = x->segments[i];
        r->sig.n_elems += x->segments[i].n_elems;
        r->sig.cut = syn_hash(&x->segments[i].n_elems, sizeof(size_t), r->sig.cut);
    }
    if (syn__has_part(x->kind)) r->sig.cut = syn_hash(&x->n_part, sizeof(size_t), r->sig.cut);
    return SYN_OK;
}

syn_status syn__comm_start(syn_comm *comm, const syn_comm_call *call, syn_request **request,
                           syn_error *err) {
    syn__comm *self = (syn__comm *)comm;
    SYN_TRY(check(comm, call, err));
    syn_request *r = request_new(self);
    if (r == NULL) return SYN_FAIL_NOMEM(err, sizeof *r, "a request");
    r->next = NULL;
    r->stream = NULL;
    r->times = (syn_comm_times){0};
    r->error.code = SYN_OK;
    atomic_store_explicit(&r->state, SYN__OPEN, memory_order_relaxed);
    syn_status status = describe(r, call, err);
    if (status != SYN_OK) {
    } else if (syn__is_message(call->kind)) {
        r->times.begin_ns = syn__clock_ns();
        status = self->transport->post(self, r, err);
    } else {
        status = start_collective(self, r, err);
    }
    if (status != SYN_OK) request_end(self, r);
    else *request = r;
    return status;
}

syn_status syn__comm_wait(syn_comm *comm, syn_request *r, syn_comm_times *times, syn_error *err) {
    syn__comm *self = (syn__comm *)comm;
    if (r->stream != NULL && r->stream->has_thread) await_done(self, r);
    if (message_open(r)) (void)self->transport->settle(self, r, &r->error);
    if (times != NULL) *times = r->times;
    const syn_status status = r->error.code;
    if (status != SYN_OK && err != NULL && err->code == SYN_OK) *err = r->error;
    request_end(self, r);
    return status;
}

/* ---- Initialization and end ---- */

void syn__comm_init(syn__comm *comm, const syn_comm_ops *ops, const syn__transport *transport) {
    comm->pub.ops = ops;
    comm->transport = transport;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->done, NULL);
}

static void stream_end(syn__comm *self, syn__stream *s) {
    if (!s->has_thread) return;
    pthread_mutex_lock(&self->lock);
    while (s->head != NULL || s->running != NULL) advance(self, s);
    s->stop = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&self->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->work);
    s->has_thread = false;
}

void syn__comm_finish(syn__comm *comm) {
    for (syn__group_node *n = comm->nodes; n != NULL; n = n->next) stream_end(comm, &n->stream);
    for (syn_request *r = comm->made; r != NULL; r = r->made) {
        if (!message_open(r)) continue;
        comm->transport->withdraw(comm, r);
        if (message_open(r)) /* not completed while it was being cancelled */
            SYN_FAIL(&r->error, SYN_E_COMM,
                     "rank %d closed its communicator before recv(tag %d) from rank %d completed",
                     (int)comm->pub.rank, (int)r->sig.comm_call.tag, (int)r->sig.comm_call.peer);
        syn__message_done(r);
    }
}

void syn__comm_requests_free(syn__comm *comm) {
    while (comm->made != NULL) {
        syn_request *r = comm->made;
        comm->made = r->made;
        syn_free(r->segments);
        syn_free(r);
    }
    pthread_cond_destroy(&comm->done);
    pthread_mutex_destroy(&comm->lock);
}
