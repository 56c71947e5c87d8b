/* Writes PREFIX.requests.csv; see serve_files.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"
#include "tools/serve/serve_files.h"

struct serve_line {
    bool full;
    request given;
    int32_t replica, prompt_replica, hits, preemptions;
    double scheduled_ns, first_ns, last_ns, received_ns;
};

syn_status serve_requests_open(serve_request_file *f, const char *path, bool divided, bool ids,
                               syn_error *err) {
    *f = (serve_request_file){.divided = divided, .ids = ids};
    SYN_TRY(syn_sink_open_file(&f->csv, path, err));
    syn_sink_printf(f->csv,
                    "id,arrival_s,input_tokens,output_tokens,priority,prefix,prefix_tokens,%s"
                    "replica,scheduled_s,first_token_s,%slast_token_s,ttft_ms,tpot_ms,latency_ms,"
                    "cached_tokens,preemptions%s\n",
                    divided ? "prompt_replica," : "", divided ? "received_s," : "",
                    ids ? ",hash_ids,hash_block_tokens" : "");
    return SYN_OK;
}

/* ---- Rows ---- */

/* Writes a time in seconds with all digits of the time in ns, so that `serve --requests` reads the
   same arrival again. */
static void put_exact(syn_sink *csv, double ns) {
    char text[SYN_NUMBER_TEXT];
    const size_t n = syn_number_text(ns, text), whole = strcspn(text, ".");
    if (strchr(text, 'e')) {
        syn_sink_printf(csv, ",%.9f", ns / 1e9);
        return;
    }
    char digits[SYN_NUMBER_TEXT + 16];
    const int zeros = whole < 10 ? 10 - (int)whole : 0; /* at least one digit in front */
    snprintf(digits, sizeof digits, "%.*s%s", zeros, "0000000000", text);
    const size_t seconds = whole + (size_t)zeros - 9;
    syn_sink_printf(csv, ",%.*s.%.9s", (int)seconds, digits, digits + seconds);
    if (whole < n) syn_sink_text(csv, text + whole + 1);
}

static void put_ids(syn_sink *csv, const request *g) {
    for (int32_t i = 0; i < g->n_blocks; i++)
        syn_sink_printf(csv, "%s%llu", i > 0 ? " " : ",", (unsigned long long)g->blocks[i]);
    if (g->n_blocks > 0) syn_sink_printf(csv, ",%d", g->block_tokens);
    else syn_sink_text(csv, ",,");
}

static void put_line(const serve_request_file *f, const serve_line *l) {
    const request *g = &l->given;
    const int64_t gaps = g->output - INT64_C(1);
    syn_sink *csv = f->csv;
    syn_sink_i64(csv, f->next);
    put_exact(csv, g->arrival_ns);
    syn_sink_printf(csv, ",%d,%d,%d,%lld,%d", g->prompt, g->output, g->priority,
                    (long long)g->prefix, g->prefix_tokens);
    if (f->divided) syn_sink_printf(csv, ",%d", l->prompt_replica);
    syn_sink_printf(csv, ",%d,%.9f,%.9f", l->replica, l->scheduled_ns / 1e9, l->first_ns / 1e9);
    if (f->divided && l->received_ns >= 0) syn_sink_printf(csv, ",%.9f", l->received_ns / 1e9);
    else if (f->divided) syn_sink_char(csv, ',');
    syn_sink_printf(csv, ",%.9f,%.6f,", l->last_ns / 1e9, (l->first_ns - g->arrival_ns) / 1e6);
    if (gaps > 0) syn_sink_printf(csv, "%.6f", (l->last_ns - l->first_ns) / (double)gaps / 1e6);
    syn_sink_printf(csv, ",%.6f,%d,%d", (l->last_ns - g->arrival_ns) / 1e6, l->hits,
                    l->preemptions);
    if (f->ids) put_ids(csv, g);
    syn_sink_char(csv, '\n');
}

/* ---- Order of arrival ---- */

static syn_status make_space(serve_request_file *f, int64_t id, syn_error *err) {
    size_t cap = f->cap > 0 ? f->cap : 256;
    while (id - f->next >= (int64_t)cap) cap *= 2;
    if (cap == f->cap) return SYN_OK;
    serve_line *held = syn_calloc(cap, sizeof *held);
    if (!held) return SYN_FAIL_NOMEM(err, cap * sizeof *held, "finished requests");
    for (size_t i = 0; i < f->cap; i++) {
        const size_t at = (size_t)f->next + i;
        held[at % cap] = f->held[at % f->cap];
    }
    syn_free(f->held);
    f->held = held;
    f->cap = cap;
    return SYN_OK;
}

/* The request of the engine, and its ids, end before the line. */
static syn_status copy_blocks(request *g, syn_error *err) {
    const size_t bytes = (size_t)g->n_blocks * sizeof *g->blocks;
    uint64_t *copy = bytes > 0 ? syn_malloc(bytes) : NULL;
    if (bytes > 0 && !copy) {
        g->blocks = NULL;
        return SYN_FAIL_NOMEM(err, bytes, "the blocks of a request");
    }
    if (bytes > 0) memcpy(copy, g->blocks, bytes);
    g->blocks = copy;
    return SYN_OK;
}

syn_status serve_requests_finished(void *user, const serve_request *r, syn_error *err) {
    serve_request_file *f = user;
    SYN_TRY(make_space(f, r->q.id, err));
    f->held[(size_t)r->q.id % f->cap] = (serve_line){.full = true,
                                                     .given = r->given,
                                                     .replica = r->replica,
                                                     .prompt_replica = r->prompt_replica,
                                                     .hits = r->hits,
                                                     .preemptions = r->q.preemptions,
                                                     .scheduled_ns = r->scheduled_ns,
                                                     .first_ns = r->first_ns,
                                                     .last_ns = r->last_ns,
                                                     .received_ns = r->received_ns};
    SYN_TRY(copy_blocks(&f->held[(size_t)r->q.id % f->cap].given, err));
    for (serve_line *l; (l = &f->held[(size_t)f->next % f->cap])->full; f->next++) {
        put_line(f, l);
        syn_free((void *)l->given.blocks);
        *l = (serve_line){.full = false};
    }
    return SYN_OK;
}

syn_status serve_requests_close(serve_request_file *f, bool keep, syn_error *err) {
    const syn_status s = syn_sink_close(f->csv, keep, err);
    for (size_t i = 0; i < f->cap; i++) syn_free((void *)f->held[i].given.blocks);
    syn_free(f->held);
    *f = (serve_request_file){.csv = NULL};
    return s;
}
