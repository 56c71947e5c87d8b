/* The files of `syntorch serve --out PREFIX`. Observers of the simulation write them, in constant
   memory for any number of requests and steps. */
#ifndef TOOLS_SERVE_FILES_H
#define TOOLS_SERVE_FILES_H

#include "tools/output_lock.h"
#include "tools/serve/serve_run.h"
#include "tools/serve/serve_series.h"

/* ---- PREFIX.requests.csv (serve_requests.c) ---- */

/* A finished request that waits until all earlier ones have finished. */
typedef struct serve_line serve_line;

/* Writes the requests in order of arrival. It holds those that finished while an earlier request is
   in the server. */
typedef struct serve_request_file {
    syn_sink *csv;
    bool divided;     /* prompts have their own replicas */
    bool ids;         /* prompts may have ids of blocks */
    int64_t next;     /* the first request that has not been written */
    serve_line *held; /* owned; request i is at i % cap */
    size_t cap;
} serve_request_file;

syn_status serve_requests_open(serve_request_file *f, const char *path, bool divided, bool ids,
                               syn_error *err) SYN_MUST_USE;
/* The observer's function; user: serve_request_file *. */
syn_status serve_requests_finished(void *user, const serve_request *r, syn_error *err);
syn_status serve_requests_close(serve_request_file *f, bool keep, syn_error *err);

/* ---- PREFIX.timeline.json (serve_timeline.c) ---- */

typedef struct serve_timeline {
    syn_sink *json;
    int64_t max_steps, max_requests; /* that are written */
    int64_t steps, requests;         /* so far */
    int64_t written_steps, written_requests;
    double cut_ns;               /* end of the written steps */
    serve_state *states, *shown; /* of each replica: when it last scheduled a step, and as
                                    last written; owned */
} serve_timeline;

syn_status serve_timeline_open(serve_timeline *t, const char *path, const serve_run *run,
                               syn_error *err) SYN_MUST_USE;
/* The observer's functions; user: serve_timeline *. */
syn_status serve_timeline_step(void *user, const serve_step *step, syn_error *err);
syn_status serve_timeline_changed(void *user, const serve_state *state, syn_error *err);
syn_status serve_timeline_finished(void *user, const serve_request *r, syn_error *err);
/* Writes to `text` what the file lacks; an empty text: nothing. */
void serve_timeline_note(const serve_timeline *t, char *text, size_t bytes);
syn_status serve_timeline_close(serve_timeline *t, const serve_run *run, bool keep, syn_error *err);

/* ---- PREFIX.svg (serve_picture.c) ---- */

syn_status serve_draw(const serve_run *run, const serve_series *s, const char *path,
                      syn_error *err) SYN_MUST_USE;

/* The names of the pools: "prefill" and "decode", or "all". */
const char *serve_role(const serve_run *run, int32_t pool);

#endif
