/* The exporters of one rank's files and of the memory file, and the function that writes all files
   of a run. */
#include "export/kineto/kineto_memory.h"
#include "export/kineto/kineto_recording.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <string.h>

typedef syn_status write_fn(syn__kineto_recording *recording, syn_sink *sink);

static syn_status write_one(const syn_graph *graph, const syn_export_options *options,
                            write_fn *write, syn_sink *sink, syn_error *err) {
    syn__kineto_recording r;
    uint32_t rank = 0;
    SYN_TRY(syn__kineto_rank(graph, options, &rank, err));
    syn_status status = syn__kineto_open(&r, graph, options, err);
    if (status == SYN_OK) status = syn__kineto_select(&r, rank);
    if (status == SYN_OK) status = write(&r, sink);
    syn__kineto_close(&r);
    return status;
}

static syn_status write_kineto(const syn_graph *graph, const syn_export_options *options,
                               syn_sink *sink, syn_error *err) {
    return write_one(graph, options, syn__kineto_write_device, sink, err);
}

static syn_status write_host(const syn_graph *graph, const syn_export_options *options,
                             syn_sink *sink, syn_error *err) {
    return write_one(graph, options, syn__kineto_write_host, sink, err);
}

const syn_exporter syn_export_kineto = {"kineto", "kineto.json", write_kineto};
const syn_exporter syn_export_host = {"host", "host.json", write_host};

/* ---- The memory file: rank,time_us,allocated_bytes,change_bytes,what ---- */

static void put_cell(syn_sink *sink, const char *text) {
    syn_sink_char(sink, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"') syn_sink_char(sink, '"');
        syn_sink_char(sink, (unsigned char)*text < ' ' ? ' ' : *text);
    }
    syn_sink_char(sink, '"');
}

static void put_line(const syn__kineto_recording *r, syn_sink *sink, int64_t ns, int64_t total,
                     int64_t change, const char *what) {
    syn_sink_i64(sink, r->walk.rank);
    syn_sink_printf(sink, ",%lld.%03d,%lld,%lld,", (long long)(r->timeline.base_us + ns / 1000),
                    (int)(ns % 1000), (long long)total, (long long)change);
    put_cell(sink, what);
    syn_sink_char(sink, '\n');
}

static syn_status put_curve(syn__kineto_recording *r, const syn__kineto_memory *memory,
                            syn_sink *sink) {
    int64_t total = memory->before;
    put_line(r, sink, r->plan.begin, total, total, "before the first op");
    for (size_t i = 0; i < memory->n_changes; i++) {
        const syn__kineto_change *c = &memory->changes[i];
        const syn_graph_tensor *t;
        SYN_TRY(syn__walk_tensor(&r->walk, c->tensor, &t, r->err));
        total += c->bytes;
        put_line(r, sink, c->ns, total, c->bytes, t->name != NULL ? t->name : "");
    }
    return SYN_OK;
}

syn_status syn__kineto_write_memory(syn__kineto_recording *r, syn_sink *sink) {
    syn__kineto_memory memory;
    SYN_TRY(syn__kineto_memory_find(&memory, &r->plan, &r->walk, r->err));
    const syn_status status = put_curve(r, &memory, sink);
    syn__kineto_memory_free(&memory);
    return status;
}

static void put_head(syn_sink *sink) {
    syn_sink_text(sink, "rank,time_us,allocated_bytes,change_bytes,what\n");
}

static syn_status write_memory(const syn_graph *graph, const syn_export_options *options,
                               syn_sink *sink, syn_error *err) {
    syn__kineto_recording r;
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(graph, options, &first, &end, err));
    syn_status status = syn__kineto_open(&r, graph, options, err);
    put_head(sink);
    for (uint32_t i = first; i < end && status == SYN_OK; i++) {
        status = syn__kineto_select(&r, i);
        if (status == SYN_OK) status = syn__kineto_write_memory(&r, sink);
    }
    syn__kineto_close(&r);
    return status;
}

const syn_exporter syn_export_memory_csv = {"memory", "memory.csv", write_memory};

/* ---- The set ---- */

static syn_status open_named(syn_sink **out, const char *prefix, const char *suffix,
                             syn_error *err) {
    const size_t bytes = strlen(prefix) + strlen(suffix) + 1;
    char *path = syn_malloc(bytes);
    if (path == NULL) return SYN_FAIL_NOMEM(err, bytes, "a file name");
    snprintf(path, bytes, "%s%s", prefix, suffix);
    const syn_status status = syn_sink_open_file(out, path, err);
    syn_free(path);
    return status;
}

static syn_status write_named(syn__kineto_recording *r, const char *prefix, const char *suffix,
                              write_fn *write) {
    char name[64];
    syn_sink *sink;
    snprintf(name, sizeof name, ".%d_%s", (int)r->walk.rank, suffix);
    SYN_TRY(open_named(&sink, prefix, name, r->err));
    const syn_status status = write(r, sink);
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, r->err);
    return status != SYN_OK ? status : closed;
}

static syn_status write_ranks(syn__kineto_recording *r, const syn_export_options *options,
                              const char *prefix, syn_sink *memory) {
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(r->graph, options, &first, &end, r->err));
    put_head(memory);
    for (uint32_t i = first; i < end; i++) {
        SYN_TRY(syn__kineto_select(r, i));
        SYN_TRY(write_named(r, prefix, "kineto.json", syn__kineto_write_device));
        SYN_TRY(write_named(r, prefix, "host.json", syn__kineto_write_host));
        SYN_TRY(syn__kineto_write_memory(r, memory));
    }
    return SYN_OK;
}

static syn_status write_text(const syn_graph *graph, const syn_export_options *options,
                             const char *prefix, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(open_named(&sink, prefix, "_stacks.txt", err));
    const syn_status status = syn_export_stacks.write(graph, options, sink, err);
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status != SYN_OK ? status : closed;
}

syn_status syn_export_kineto_set(const syn_graph *graph, const syn_export_options *options,
                                 const char *prefix, syn_error *err) {
    syn__kineto_recording r = {0};
    syn_sink *memory = NULL;
    syn_status status = syn__kineto_open(&r, graph, options, err);
    if (status == SYN_OK) status = open_named(&memory, prefix, "_memory.csv", err);
    if (status == SYN_OK) {
        status = write_ranks(&r, options, prefix, memory);
        const syn_status closed = syn_sink_close(memory, status == SYN_OK, err);
        if (status == SYN_OK) status = closed;
    }
    syn__kineto_close(&r);
    return status == SYN_OK ? write_text(graph, options, prefix, err) : status;
}
