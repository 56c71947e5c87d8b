/* Writes the device work of a rank as Chrome trace events; see chrome_work.h. */
#include "export/chrome/chrome_work.h"
#include "export/text/json_put.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *category;
} kinds[SYN_PIECE_KIND_COUNT] = {[SYN_PIECE_KERNEL] = {NULL, "kernel"}, /* a kernel has its own
                                                                           name */
                                 [SYN_PIECE_COPY_IN] = {"copy in", "copy"},
                                 [SYN_PIECE_COPY_OUT] = {"copy out", "copy"},
                                 [SYN_PIECE_COPY] = {"copy", "copy"},
                                 [SYN_PIECE_FILL] = {"fill", "copy"},
                                 [SYN_PIECE_WAIT] = {"wait for the device", "wait"}};

typedef struct writer {
    syn_sink *sink;
    const syn__timeline *timeline;
    syn__walk *walk;
    const syn_work *work;
    uint32_t first_tid;
} writer;

typedef struct placed {
    const syn_piece *piece;
    const syn_node_work *node; /* NULL: the piece belongs to no node */
} placed;

/* Returns the number of the piece's track: 0 for the host's waits, otherwise the number of its
   stream. */
static uint32_t track(const syn_piece *p) {
    return p->kind == SYN_PIECE_WAIT ? 0 : p->stream;
}

static int compare(const void *a, const void *b) {
    const syn_piece *x = ((const placed *)a)->piece, *y = ((const placed *)b)->piece;
    if (track(x) != track(y)) return track(x) < track(y) ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void begin_metadata(writer *w, const char *name, uint32_t stream) {
    syn_sink_text(w->sink, ",\n{\"ph\":\"M\",\"name\":");
    syn_sink_json_string(w->sink, name);
    syn__put_i64(w->sink, ",\"pid\":", w->walk->rank);
    syn__put_i64(w->sink, ",\"tid\":", (int64_t)w->first_tid + stream);
    syn_sink_text(w->sink, ",\"args\":{");
}

static void put_thread(writer *w, uint32_t stream) {
    begin_metadata(w, "thread_name", stream);
    if (stream > 0) syn__put_i64(w->sink, "\"name\":\"kernels, stream ", stream);
    else syn_sink_text(w->sink, "\"name\":\"host");
    syn_sink_text(w->sink, "\"}}");
    begin_metadata(w, "thread_sort_index", stream);
    syn__put_i64(w->sink, "\"sort_index\":", (int64_t)w->first_tid + stream);
    syn_sink_text(w->sink, "}}");
}

static void put_sizes(writer *w, const char *key, const uint32_t sizes[3]) {
    syn__put_i64(w->sink, key, sizes[0]);
    syn__put_i64(w->sink, ",", sizes[1]);
    syn__put_i64(w->sink, ",", sizes[2]);
    syn_sink_text(w->sink, "]");
}

static void put_slice(writer *w, const placed *at, int64_t start, int64_t end) {
    const syn_piece *p = at->piece;
    const bool kernel = p->kind == SYN_PIECE_KERNEL;
    syn_sink_text(w->sink, ",\n{\"ph\":\"X\",\"name\":");
    syn_sink_json_string(w->sink, kernel ? syn_work_name(w->work, p) : kinds[p->kind].name);
    syn_sink_text(w->sink, ",\"cat\":");
    syn_sink_json_string(w->sink, kinds[p->kind].category);
    syn__put_i64(w->sink, ",\"pid\":", w->walk->rank);
    syn__put_i64(w->sink, ",\"tid\":", (int64_t)w->first_tid + track(p));
    syn__put_us(w->sink, ",\"ts\":", w->timeline->base_us, start);
    syn__put_us(w->sink, ",\"dur\":", 0, end - start);
    syn_sink_text(w->sink, ",\"args\":{");
    if (at->node) {
        syn_sink_text(w->sink, "\"id\":\"");
        syn__walk_put_ref(w->sink, w->walk->rank, 'o', at->node->node);
        syn_sink_text(w->sink, "\",");
    }
    syn__put_i64(w->sink, "\"device\":", p->device);
    syn__put_i64(w->sink, ",\"stream\":", p->stream);
    if (kernel && p->grid[0] > 0) {
        put_sizes(w, ",\"grid\":[", p->grid);
        put_sizes(w, ",\"block\":[", p->block);
        syn__put_i64(w->sink, ",\"shared memory\":", (int64_t)p->bytes);
    }
    if (!kernel && p->kind != SYN_PIECE_WAIT)
        syn__put_i64(w->sink, ",\"bytes\":", (int64_t)p->bytes);
    syn_sink_text(w->sink, "}}");
}

static int64_t whole_ns(const writer *w, uint64_t ns) {
    const int64_t since = (int64_t)ns - 1000 * w->timeline->base_us;
    return since > 0 ? since : 0;
}

/* Writes the pieces, which are ordered by stream and start. If rounding makes a piece begin before
   the previous one has ended, the start is moved to that end. */
static void put_all(writer *w, const placed *pieces, size_t n) {
    int64_t free_at = 0;
    for (size_t i = 0; i < n; i++) {
        const syn_piece *p = pieces[i].piece;
        if (i == 0 || track(p) != track(pieces[i - 1].piece)) {
            put_thread(w, track(p));
            free_at = 0;
        }
        int64_t start = whole_ns(w, p->start_ns), end = whole_ns(w, p->start_ns + p->wall_ns);
        if (start < free_at) start = free_at;
        if (end < start) end = start;
        free_at = end;
        put_slice(w, &pieces[i], start, end);
    }
}

syn_status syn__chrome_put_work(syn_sink *sink, const syn__timeline *timeline, syn__walk *walk,
                                uint32_t first_tid, syn_error *err) {
    const syn_work *work = walk->graph->ranks[walk->rank_index].work;
    writer w = {sink, timeline, walk, work, first_tid};
    const size_t most = work ? work->n_pieces + work->n_unowned : 0;
    size_t n = 0;
    if (most == 0 || timeline->clock != SYN__CLOCK_MEASURED) return SYN_OK;
    placed *pieces = syn_calloc(most, sizeof *pieces);
    if (!pieces) return SYN_FAIL_NOMEM(err, most * sizeof *pieces, "a timeline");
    for (size_t i = 0; i < work->n_nodes; i++)
        for (uint32_t k = 0; k < work->nodes[i].n_pieces && n < work->n_pieces; k++)
            pieces[n++] = (placed){&work->pieces[work->nodes[i].first + k], &work->nodes[i]};
    for (size_t i = 0; i < work->n_unowned; i++)
        pieces[n++] = (placed){&work->unowned[i].piece, NULL};
    qsort(pieces, n, sizeof *pieces, compare);
    put_all(&w, pieces, n);
    syn_free(pieces);
    return SYN_OK;
}
