/* Opens, reads and frees the traces of one rank. */
#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/rank/pt_host_missing.h"

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_notes.h"
#include "syntorch/base/memory.h"

/* Reads "rank" and "world_size" from "distributedInfo". */
static void read_distributed(syn__pt_rank *rank) {
    const syn__str info = rank->device.distributed_info;
    int64_t v = 0;
    if (info.bytes == 0) return;
    if (rank->rank < 0 && syn__loose_i64(syn__loose_find(info, "rank"), &v) && v >= 0 &&
        v <= INT32_MAX)
        rank->rank = (int32_t)v;
    if (rank->world_size < 0 && syn__loose_i64(syn__loose_find(info, "world_size"), &v) && v > 0 &&
        v <= INT32_MAX)
        rank->world_size = (int32_t)v;
}

#define MAX_APART_NS UINT64_C(86400000000000) /* a day, because no profiler runs longer */

static bool has_time(const syn__pt_event *e) {
    return (e->flags & SYN__PT_EVENT_TS) != 0;
}

static uint64_t apart(int64_t a, int64_t b) {
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Removes the time of an event if it is implausible. Returns false if the time is plausible. */
static bool drop_odd_time(syn__pt_rank *rank, syn__pt_event *e, int64_t middle_ns,
                          syn_pytorch_note *notes) {
    if (!has_time(e)) return true;
    if (apart(e->ts_ns, middle_ns) <= MAX_APART_NS) return false;
    e->flags &= (uint8_t) ~(SYN__PT_EVENT_TS | SYN__PT_EVENT_DUR);
    e->ts = 0;
    e->ts_ns = e->dur_ns = 0;
    syn__pt_note_event(rank, notes, SYN_PYTORCH_ANOMALY_BAD_TIME,
                       (uint32_t)(e - rank->device.events));
    return true;
}

/* Removes the times of events that are more than a day away from the event in the middle. Events
   are sorted by time, so implausible times are at both ends of the list. Events without a time were
   sorted as if it were 0. */
static void drop_odd_times(syn__pt_rank *rank, syn_pytorch_note *notes) {
    syn__pt_event *events = rank->device.events;
    size_t end = rank->device.n_events, middle = end / 2, i = 0;
    while (middle < end && !has_time(&events[middle])) middle++;
    if (middle == end) return;
    const int64_t middle_ns = events[middle].ts_ns;
    while (i < end && drop_odd_time(rank, &events[i], middle_ns, notes)) i++;
    while (end > i && drop_odd_time(rank, &events[end - 1], middle_ns, notes)) end--;
}

/* In older files, times are whole microseconds, so overlaps of up to 1000 ns are not real. */
#define ROUNDED_NS 1000

/* Whether `before` was still running when `e` began. If both begin at the same time and `e` takes
   no time, `e` may have come first. */
static bool overlaps(const syn__pt_event *before, const syn__pt_event *e) {
    const int64_t end_ns = syn__pt_event_end(before);
    if (end_ns <= e->ts_ns || apart(end_ns, e->ts_ns) <= ROUNDED_NS) return false;
    return e->ts_ns > before->ts_ns || e->dur_ns > ROUNDED_NS;
}

/* Notes device work that lasts beyond the start of later work on its stream. Such times must be
   wrong, because a stream runs one kernel or copy at a time. Each work is noted at most once. Per
   stream, `last` has the work that ends last so far, and `noted` the work that was noted last. */
static syn_status note_overlaps(const syn__pt_rank *rank, syn__pt_map *last, syn__pt_map *noted,
                                syn_pytorch_note *notes, syn_error *err) {
    const syn__pt_event *events = rank->device.events;
    for (uint32_t i = 0; i < rank->device.n_events; i++) {
        const syn__pt_event *e = &events[i];
        if (!syn__pt_is_gpu(e) || !has_time(e) || e->stream < 0) continue;
        const uint64_t stream = (uint64_t)(uint32_t)e->device << 32 | (uint32_t)e->stream;
        uint32_t *before = syn__pt_map_put(last, stream), *known = syn__pt_map_put(noted, stream);
        if (before == NULL || known == NULL) return SYN_FAIL_NOMEM(err, last->n * 24, "streams");
        const bool first = *before == SYN__PT_NONE;
        if (!first && *before != *known && overlaps(&events[*before], e))
            syn__pt_note_event(rank, notes, SYN_PYTORCH_ANOMALY_STREAM_OVERLAP, *known = *before);
        if (first || syn__pt_event_end(e) >= syn__pt_event_end(&events[*before])) *before = i;
    }
    return SYN_OK;
}

static syn_status check_streams(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_error *err) {
    syn__pt_map last = {0}, noted = {0};
    const syn_status s = note_overlaps(rank, &last, &noted, notes, err);
    syn__pt_map_free(&last);
    syn__pt_map_free(&noted);
    return s;
}

syn_status syn__pt_rank_load(syn__pt_rank *rank, const syn_pytorch_options *options,
                             syn_pytorch_note *notes, syn_error *err) {
    const bool has_host = rank->host_input.data != NULL;
    rank->rank = rank->world_size = -1;
    if (has_host)
        SYN_TRY(syn__pt_host_read(&rank->host, &rank->host_input, options->object, notes, err));
    if (rank->device_input.data) {
        SYN_TRY(syn__pt_device_read(&rank->device, &rank->device_input, notes, err));
        SYN_TRY(syn__pt_device_complete(&rank->device, notes, err));
        rank->has_device = true;
        read_distributed(rank);
        drop_odd_times(rank, notes);
        SYN_TRY(check_streams(rank, notes, err));
    }
    if (has_host) return syn__pt_add_missing(rank, options, err);
    rank->host_input.name = rank->device_input.name;
    return syn__pt_host_from_events(rank, err);
}

syn_status syn__pt_rank_read(syn__pt_rank *rank, const char *host, const char *device,
                             const syn_pytorch_options *options, syn_pytorch_note *notes,
                             syn_error *err) {
    memset(rank, 0, sizeof *rank);
    const uint64_t most = options->max_unpacked_bytes;
    if (host) SYN_TRY(syn__file_text_open(&rank->host_input, host, most, err));
    if (device) SYN_TRY(syn__file_text_open(&rank->device_input, device, most, err));
    return syn__pt_rank_load(rank, options, notes, err);
}

void syn__pt_note_event(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_pytorch_anomaly kind,
                        uint32_t event) {
    const char *text = rank->device.events[event].text;
    syn__pt_note_at(notes, kind, rank->device_input.name,
                    (uint64_t)(text - rank->device_input.data), SYN_PYTORCH_NO_PLACE);
}

void syn__pt_note_host(const syn__pt_rank *rank, syn_pytorch_note *notes, syn_pytorch_anomaly kind,
                       uint32_t node) {
    const syn__pt_host *h = &rank->host;
    const uint32_t made_of = syn__pt_made_of(h, node);
    if (made_of != SYN__PT_NONE) syn__pt_note_event(rank, notes, kind, made_of);
    else
        syn__pt_note_at(notes, kind, rank->host_input.name,
                        (uint64_t)(h->nodes[node].text - rank->host_input.data), h->nodes[node].id);
}

syn_comm_kind syn__pt_comm_kind(const syn__pt_comm *comm) {
    if (comm->type == SYN__ET_COMM_SEND_NODE) return SYN_COMM_SEND;
    if (comm->type == SYN__ET_COMM_RECV_NODE) return SYN_COMM_RECV;
    return syn__et_comm_kind(comm->collective);
}

syn__str syn__pt_op_name(const syn__pt_rank *rank, const syn__pt_op *op) {
    const syn__str none = {"", 0};
    if (syn__pt_is_device(op) && op->event != SYN__PT_NONE)
        return syn__pt_device_name(&rank->device, rank->device.events[op->event].name);
    if (op->host == SYN__PT_NONE) return none;
    return syn__pt_host_name(&rank->host, rank->host.nodes[op->host].name);
}

void syn__pt_rank_free(syn__pt_rank *rank) {
    syn_free(rank->ops);
    syn_free(rank->event_op);
    syn_free(rank->tracks);
    syn_free(rank->comms);
    syn_free(rank->waits);
    syn_free(rank->groups);
    syn_free(rank->edges);
    syn_free(rank->dropped);
    syn_free(rank->first_dep);
    syn_free(rank->deps);
    syn_free(rank->order);
    syn_free(rank->ids);
    syn__arena_free(&rank->arena);
    syn__pt_host_free(&rank->host);
    syn__pt_device_free(&rank->device);
    syn__file_text_close(&rank->host_input);
    syn__file_text_close(&rank->device_input);
    memset(rank, 0, sizeof *rank);
}
