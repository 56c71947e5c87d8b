/* Messages between devices. Two ranks that syn_ctx_connect has connected have an NCCL communicator
   and a stream for each direction.

   A send copies its tensor to memory of its own and then never holds up the rank, as on the CPU:
   only the stream of its direction waits for the receiver. NCCL has no tags, and a stream's
   messages arrive in the order in which they were sent. So the sender's host also sends the
   receiver's host a header. A rank that waits for a message reads headers, and launches the
   receives in their order: for a tensor whose receive was started, into the tensor, otherwise into
   memory of the message's own. */
#include "comm/cuda/cuda_comm.h"

#ifdef SYN_HAVE_NCCL

#include <stdio.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

/* What the receiver's host learns about a message. The tag NO_MORE says that there will be no more
   messages. */
enum { HEADER_TAG, HEADER_DTYPE, HEADER_ELEMS, HEADER_NUMBERS };
enum { NO_MORE = -1 };

typedef struct request_list {
    syn__cuda_request *first, **last; /* last: where the next one is linked */
} request_list;

struct syn__nccl_peer {
    struct syn__nccl_peer *next;
    int32_t rank, ranks[2]; /* ranks: both, in the order of the group that was connected */
    /* For each direction: from ranks[0] to ranks[1], and back. */
    syn_group pair[2];
    char names[2][48];
    syn__nccl_group *to, *from;
    request_list posted;     /* receives that were started, but not launched */
    request_list early;      /* messages that arrived before their receive was started */
    request_list sent;       /* sends in flight */
    syn__cuda_request *idle; /* requests with memory for a message */
    bool ended;              /* it sends no more messages */
};

/* ---- lists ---- */

static void add_last(request_list *list, syn__cuda_request *r) {
    r->next = NULL;
    *list->last = r;
    list->last = &r->next;
}

static void unlink_request(request_list *list, syn__cuda_request *r) {
    syn__cuda_request **at = &list->first;
    while (*at && *at != r) at = &(*at)->next;
    if (!*at) return;
    *at = r->next;
    if (!r->next) list->last = at;
}

/* Removes and returns the first request with this tag, or NULL. */
static syn__cuda_request *take_tag(request_list *list, int64_t tag) {
    syn__cuda_request *r = list->first;
    while (r && r->comm_call.tag != tag) r = r->next;
    if (r) unlink_request(list, r);
    return r;
}

/* ---- connecting ---- */

static syn__nccl_peer *find(const syn__cuda_comms *x, int32_t rank) {
    syn__nccl_peer *p = x->peers;
    while (p && p->rank != rank) p = p->next;
    return p;
}

syn__nccl_peer *syn__nccl_find_peer(const syn__cuda_comms *x, const syn_comm_call *call) {
    const bool message = call->kind == SYN_COMM_SEND || call->kind == SYN_COMM_RECV;
    return message ? find(x, call->peer) : NULL;
}

/* Exchanges a number with the peer. NCCL connects two ranks in their first message, and the host
   then waits for the other rank. */
static syn_status send_first(syn__cuda_comms *x, const syn__nccl_group *g, bool sends,
                             syn_error *err) {
    const syn_segment number = {x->probe, x->probe + 1, 1};
    syn_comm_call call = {};
    call.kind = sends ? SYN_COMM_SEND : SYN_COMM_RECV;
    call.dtype = SYN_I32;
    call.n_segments = 1;
    call.segments = &number;
    return syn__nccl_launch(x, &call, g, err);
}

static syn_status join(syn__cuda_comms *x, syn__nccl_peer *p, int index, syn_error *err) {
    for (int way = 0; way < 2; way++) {
        const bool sends = way == index;
        syn__nccl_group **g = sends ? &p->to : &p->from;
        snprintf(p->names[way], sizeof p->names[way], "messages from rank %d to rank %d",
                 (int)p->ranks[way], (int)p->ranks[1 - way]);
        p->pair[way].id = (uint32_t)(1000 + 2 * p->rank + sends);
        p->pair[way].name = p->names[way];
        p->pair[way].ranks = p->ranks;
        p->pair[way].size = 2;
        p->pair[way].index = index;
        SYN_TRY(syn__nccl_group_get(x, &p->pair[way], g, err));
        (*g)->sends = sends;
        SYN_TRY(send_first(x, *g, sends, err));
    }
    return SYN_OK;
}

static syn_status connect_pair(syn__cuda_comms *x, int32_t a, int32_t b, syn_error *err) {
    const int32_t me = x->comm->rank;
    if ((me != a && me != b) || a == b || find(x, me == a ? b : a)) return SYN_OK;
    syn__nccl_peer *p = static_cast<syn__nccl_peer *>(syn_calloc(1, sizeof *p));
    if (!p) return SYN_FAIL_NOMEM(err, sizeof *p, "messages");
    p->rank = me == a ? b : a;
    p->ranks[0] = a;
    p->ranks[1] = b;
    p->posted.last = &p->posted.first;
    p->early.last = &p->early.first;
    p->sent.last = &p->sent.first;
    p->next = x->peers;
    x->peers = p;
    return join(x, p, me == b, err);
}

/* Connects the pairs of neighbours in an order that all ranks have, so that ranks cannot deadlock:
   first those that begin at even positions of the group, because they connect at the same time. */
static syn_status connect_all(syn__cuda_comms *x, const syn_group *group, syn_error *err) {
    if (!x->probe) SYN_CUDA(cudaMalloc((void **)&x->probe, 2 * sizeof *x->probe), "a buffer", err);
    for (int odd = 0; odd < 2; odd++)
        for (int32_t i = odd; i < group->size; i += 2)
            SYN_TRY(connect_pair(x, group->ranks[i], group->ranks[(i + 1) % group->size], err));
    return SYN_OK;
}

syn_status syn__cuda_connect(void *device, const syn_group *group, syn_error *err) {
    syn__cuda *d = static_cast<syn__cuda *>(device);
    if (!d->comms || !d->comms->nccl) return SYN_OK;
    SYN_TRY(syn__cuda_late(d, err));
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    const syn_status s = connect_all(d->comms, group, err);
    if (s != SYN_OK) d->late = *err; /* some pairs are not connected */
    return s;
}

/* ---- requests with memory ---- */

/* Sets *out to a request whose `whole` is memory for n elements. */
static syn_status request_with_memory(syn__cuda_comms *x, syn__nccl_peer *p,
                                      const syn_comm_call *call, uint32_t node, size_t n,
                                      syn__cuda_request **out, syn_error *err) {
    const size_t bytes = n * syn_dtype_bytes(call->dtype);
    syn__cuda_request **at = &p->idle, *r;
    syn__cuda_comms_times(x);
    while (*at && (*at)->blocks_bytes < bytes) at = &(*at)->next;
    if ((r = *at)) *at = r->next;
    else SYN_TRY(syn__cuda_request_new(&r, err));
    r->peer = p;
    const syn_status begun = syn__cuda_request_begin(r, call, node, err);
    if (begun != SYN_OK) {
        syn__cuda_request_idle(x, r);
        return begun;
    }
    if (bytes > r->blocks_bytes && cudaMalloc(&r->blocks, bytes) == cudaSuccess)
        r->blocks_bytes = bytes;
    cudaGetLastError();            /* clears a failure */
    if (bytes > r->blocks_bytes) { /* out of memory: frees some, which may wait for sends */
        const syn_status s =
            syn__cuda_grow(x->device, &r->blocks, &r->blocks_bytes, bytes, bytes, "a message", err);
        if (s != SYN_OK) {
            syn__cuda_request_idle(x, r);
            return s;
        }
    }
    r->whole.in = r->whole.out = r->blocks;
    r->whole.n_elems = n;
    r->comm_call.segments = &r->whole;
    r->comm_call.n_segments = 1;
    *out = r;
    return SYN_OK;
}

/* Returns a request that is done to its list. */
void syn__nccl_request_idle(syn__cuda_request *r) {
    r->next = r->peer->idle;
    r->peer->idle = r;
}

/* ---- starting ---- */

static syn_status copy(const syn__cuda_comms *x, void *to, const void *from, size_t bytes,
                       syn_error *err) {
    if (bytes > 0)
        SYN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, x->device->at.stream),
                 "a copy", err);
    return SYN_OK;
}

static syn_status send_header(const syn__cuda_comms *x, int32_t to, int64_t tag, syn_dtype dtype,
                              size_t n, syn_error *err) {
    int64_t header[HEADER_NUMBERS];
    header[HEADER_TAG] = tag;
    header[HEADER_DTYPE] = dtype;
    header[HEADER_ELEMS] = (int64_t)n;
    return syn__cuda_host->send(x->comm, header, HEADER_NUMBERS, SYN_I64, to,
                                syn__cuda_tag(x->comm, SYN__CUDA_TAG_MESSAGE), err);
}

static syn_status start_send(syn__cuda_comms *x, syn__nccl_peer *p, const syn_comm_call *call,
                             uint32_t node, syn__cuda_request **out, syn_error *err) {
    const syn_segment *s = call->segments;
    syn__cuda_request *r;
    SYN_TRY(request_with_memory(x, p, call, node, s->n_elems, &r, err));
    *out = r;
    if (x->device->work.keep) r->call_ns = syn__clock_ns();
    SYN_TRY(copy(x, r->blocks, s->in, s->n_elems * syn_dtype_bytes(call->dtype), err));
    SYN_CUDA(cudaEventRecord(r->end, x->device->at.stream), "an event", err);
    SYN_TRY(send_header(x, p->rank, call->tag, call->dtype, s->n_elems, err));
    return syn__nccl_run(x, r, p->to, err);
}

/* Fails if the two ranks describe a message differently. */
static syn_status compare(const syn__cuda_comms *x, const syn_comm_call *recv, size_t wanted,
                          syn_dtype dtype, size_t sent, syn_error *err) {
    if (recv->dtype == dtype && wanted == sent) return SYN_OK;
    return SYN_FAIL(
        err, SYN_E_COMM,
        "rank %d calls send(%s, %llu elements, tag %d) to rank %d but rank %d calls recv(%s, %llu "
        "elements, tag %d) from rank %d",
        (int)recv->peer, syn_dtype_name(dtype), (unsigned long long)sent, (int)recv->tag,
        (int)x->comm->rank, (int)x->comm->rank, syn_dtype_name(recv->dtype),
        (unsigned long long)wanted, (int)recv->tag, (int)recv->peer);
}

static syn_status start_receive(syn__cuda_comms *x, syn__nccl_peer *p, const syn_comm_call *call,
                                uint32_t node, syn__cuda_request **out, syn_error *err) {
    syn__cuda_request *r;
    SYN_TRY(syn__cuda_request_for(x, call, node, &r, err));
    *out = r;
    r->peer = p;
    if (x->device->work.keep) r->call_ns = syn__clock_ns();
    SYN_CUDA(cudaEventRecord(r->end, x->device->at.stream), "an event", err);
    r->early = take_tag(&p->early, call->tag);
    if (!r->early) {
        add_last(&p->posted, r);
        return SYN_OK;
    }
    const syn_comm_call *sent = &r->early->comm_call;
    return compare(x, call, call->segments->n_elems, sent->dtype, sent->segments->n_elems, err);
}

syn_status syn__nccl_start_message(syn__cuda_comms *x, syn__nccl_peer *p, const syn_comm_call *call,
                                   uint32_t node, syn__cuda_request **out, syn_error *err) {
    *out = NULL;
    const syn_status s = call->kind == SYN_COMM_SEND ? start_send(x, p, call, node, out, err)
                                                     : start_receive(x, p, call, node, out, err);
    if (s == SYN_OK || !*out) return s;
    syn__nccl_abort_all(x);
    syn__nccl_give_up(x, *out);
    return s;
}

/* ---- receiving ---- */

/* Reads the next header and launches the receive of its message, or sets p->ended. */
static syn_status receive_next(syn__cuda_comms *x, syn__nccl_peer *p, syn_error *err) {
    int64_t header[HEADER_NUMBERS];
    SYN_TRY(syn__cuda_host->recv(x->comm, header, HEADER_NUMBERS, SYN_I64, p->rank,
                                 syn__cuda_tag(x->comm, SYN__CUDA_TAG_MESSAGE), err));
    const syn_dtype dtype = (syn_dtype)header[HEADER_DTYPE];
    const size_t n = (size_t)header[HEADER_ELEMS];
    p->ended = header[HEADER_TAG] == NO_MORE;
    if (p->ended) return SYN_OK;
    syn__cuda_request *r = take_tag(&p->posted, header[HEADER_TAG]);
    if (r) {
        const syn_status s =
            compare(x, &r->comm_call, r->comm_call.segments->n_elems, dtype, n, err);
        return s != SYN_OK ? s : syn__nccl_run(x, r, p->from, err);
    }
    syn_comm_call call = {};
    call.kind = SYN_COMM_RECV;
    call.dtype = dtype;
    call.peer = p->rank;
    call.tag = (int32_t)header[HEADER_TAG];
    SYN_TRY(request_with_memory(x, p, &call, 0, n, &r, err));
    add_last(&p->early, r);
    SYN_CUDA(cudaEventRecord(r->end, x->device->at.stream), "an event", err);
    return syn__nccl_run(x, r, p->from, err);
}

/* The tensor gets a message that arrived before its receive was started. */
static syn_status take_early(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    syn__cuda_request *early = r->early;
    const syn_segment *s = r->comm_call.segments;
    SYN_CUDA(cudaStreamWaitEvent(x->device->at.stream, early->end, 0), "an event", err);
    SYN_TRY(copy(x, s->out, early->blocks, s->n_elems * syn_dtype_bytes(r->comm_call.dtype), err));
    early->node = r->node; /* for its times */
    early->call_ns = r->call_ns;
    early->called_ns = syn__clock_ns();
    r->early = NULL;
    syn__cuda_request_timed(x, early);
    r->peer = NULL;
    syn__cuda_request_idle(x, r);
    return SYN_OK;
}

static syn_status wait_for_receive(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    while (!r->in_stream && !r->early) {
        if (r->peer->ended)
            return SYN_FAIL(err, SYN_E_COMM, "rank %d ended without sending the message of tag %d",
                            (int)r->peer->rank, (int)r->comm_call.tag);
        SYN_TRY(receive_next(x, r->peer, err));
    }
    SYN_TRY(syn__nccl_check(x, err));
    if (r->early) return take_early(x, r, err);
    SYN_CUDA(cudaStreamWaitEvent(x->device->at.stream, r->end, 0), "an event", err);
    r->peer = NULL;
    syn__cuda_request_timed(x, r);
    return SYN_OK;
}

syn_status syn__nccl_wait_message(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    if (r->comm_call.kind == SYN_COMM_SEND) {
        add_last(&r->peer->sent, r);
        return SYN_OK;
    }
    const syn_status s = wait_for_receive(x, r, err);
    if (s == SYN_OK) return s;
    syn__nccl_abort_all(x);
    syn__nccl_give_up(x, r);
    return s;
}

void syn__nccl_give_up(syn__cuda_comms *x, syn__cuda_request *r) {
    syn__nccl_peer *p = r->peer;
    unlink_request(&p->posted, r);
    if (r->early) add_last(&p->early, r->early);
    r->early = NULL;
    if (r->comm_call.kind == SYN_COMM_RECV) r->peer = NULL; /* it has no memory */
    syn__cuda_request_idle(x, r);
}

/* ---- times and the end ---- */

syn_status syn__nccl_end_messages(syn__cuda_comms *x, syn_error *err) {
    for (syn__nccl_peer *p = x->peers; p; p = p->next)
        SYN_TRY(send_header(x, p->rank, NO_MORE, SYN_I32, 0, err));
    for (syn__nccl_peer *p = x->peers; p; p = p->next)
        while (!p->ended) SYN_TRY(receive_next(x, p, err));
    return SYN_OK;
}

void syn__nccl_sent_times(syn__cuda_comms *x) {
    for (syn__nccl_peer *p = x->peers; p; p = p->next)
        while (p->sent.first && cudaEventQuery(p->sent.first->end) == cudaSuccess) {
            syn__cuda_request *r = p->sent.first;
            unlink_request(&p->sent, r);
            syn__cuda_request_report(x, r);
            syn__cuda_request_idle(x, r);
        }
}

static void free_requests(syn__cuda_request *r) {
    while (r) {
        syn__cuda_request *next = r->next;
        syn__cuda_request_free(r);
        r = next;
    }
}

void syn__nccl_peers_free(syn__cuda_comms *x) {
    while (x->peers) {
        syn__nccl_peer *p = x->peers;
        x->peers = p->next;
        free_requests(p->posted.first);
        free_requests(p->early.first);
        free_requests(p->sent.first);
        free_requests(p->idle);
        syn_free(p);
    }
    if (x->probe) cudaFree(x->probe);
}

#endif
