/* Opens and closes the files of --out PREFIX; see serve_files.h. The files appear together after a
   successful simulation. */
#include <stdio.h>
#include <string.h>

#include "export/chakra/wire/et_files.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/inputs.h"
#include "tools/serve/serve_batch.h"
#include "tools/serve/serve_files.h"

typedef struct serve_outputs {
    output_lock lock;
    serve_request_file requests;
    serve_series series;
    serve_timeline timeline;
    serve_batch *batch;
    char note[200]; /* about the timeline */
} serve_outputs;

enum { REQUESTS, SERIES, PICTURE, BATCH, TIMELINE, FILES, PATH_BYTES = 4300 };
static const char *const suffixes[FILES] = {".requests.csv", ".series.csv", ".svg", ".batch.svg",
                                            ".timeline.json"};

static const char *path_of(int file, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s%s", serve_given.out, suffixes[file]);
    return path;
}

const char *serve_role(const serve_run *run, int32_t pool) {
    return run->n_pools == 2 ? serve_pool_get(run->sim.pools[pool])->role : "all";
}

static void observe(serve_run *run, serve_observer observer) {
    run->sim.observers[run->sim.n_observers++] = observer;
}

/* ---- Measured times ---- */

static void add_mean(serve_mean *m, double measured_ns, double predicted_ns) {
    m->n++;
    m->measured_ns += measured_ns;
    m->predicted_ns += predicted_ns;
}

static syn_status compare_measured(void *user, const serve_request *r, syn_error *err) {
    serve_measured *m = user;
    const double arrival = r->given.arrival_ns, first = r->given.measured_first_ns,
                 last = r->given.measured_last_ns, gaps = r->given.output - 1;
    (void)err;
    if (first >= 0) add_mean(&m->ttft, first - arrival, r->first_ns - arrival);
    if (last >= 0) add_mean(&m->latency, last - arrival, r->last_ns - arrival);
    if (first >= 0 && last >= 0 && gaps > 0)
        add_mean(&m->tpot, (last - first) / gaps, (r->last_ns - r->first_ns) / gaps);
    return SYN_OK;
}

/* ---- Files ---- */

static syn_status open_files(serve_run *run, serve_outputs *o, syn_error *err) {
    char path[PATH_BYTES];
    for (int i = 0; i < FILES; i++)
        SYN_TRY(cli_keep_input(serve_given.requests.requests, path_of(i, path), err));
    SYN_TRY(cli_lock_set(&o->lock, serve_given.out, "--out", &serve_cli, err));
    SYN_TRY(serve_requests_open(&o->requests, path_of(REQUESTS, path), run->n_pools == 2,
                                requests_have_ids(run->source), err));
    SYN_TRY(serve_series_new(&o->series, &run->sim, err));
    SYN_TRY(serve_batch_new(&o->batch, err));
    observe(run, serve_batch_observer(o->batch));
    return serve_timeline_open(&o->timeline, path_of(TIMELINE, path), run, err);
}

syn_status serve_outputs_open(serve_run *run, syn_error *err) {
    observe(run, (serve_observer){.finished = compare_measured, .user = &run->measured});
    if (!serve_given.out) return SYN_OK;
    serve_outputs *o = run->outputs = syn_calloc(1, sizeof *o);
    if (!o) return SYN_FAIL_NOMEM(err, sizeof *o, "the files");
    observe(run, (serve_observer){.finished = serve_requests_finished, .user = &o->requests});
    observe(run, (serve_observer){.step = serve_series_step,
                                  .changed = serve_series_changed,
                                  .user = &o->series});
    observe(run, (serve_observer){.step = serve_timeline_step,
                                  .changed = serve_timeline_changed,
                                  .finished = serve_timeline_finished,
                                  .user = &o->timeline});
    const syn_status s = open_files(run, o, err);
    return s == SYN_OK ? SYN_OK : serve_outputs_close(run, s, err);
}

static syn_status write_series(const serve_run *run, const serve_series *s, syn_error *err) {
    const char *const roles[2] = {serve_role(run, 0), serve_role(run, run->n_pools - 1)};
    char path[PATH_BYTES];
    syn_sink *csv;
    SYN_TRY(syn_sink_open_file(&csv, path_of(SERIES, path), err));
    serve_series_csv(s, roles, csv);
    SYN_TRY(syn_sink_close(csv, true, err));
    return serve_draw(run, s, path_of(PICTURE, path), err);
}

static syn_status write_batch(const serve_run *run, const serve_batch *b, syn_error *err) {
    char path[PATH_BYTES], title[200], on[160];
    snprintf(title, sizeof title, "%s on %s", run->config.name,
             syn_hardware_title(&run->hw, on, sizeof on));
    return serve_batch_draw(b, path_of(BATCH, path), title, run->result.metrics.requests, err);
}

syn_status serve_outputs_close(serve_run *run, syn_status status, syn_error *err) {
    serve_outputs *o = run->outputs;
    if (!o) return status;
    if (status == SYN_OK) {
        serve_timeline_note(&o->timeline, o->note, sizeof o->note);
        serve_series_end(&o->series);
        status = write_series(run, &o->series, err);
        if (status == SYN_OK) status = write_batch(run, o->batch, err);
    }
    const syn_status first = serve_requests_close(&o->requests, status == SYN_OK, err);
    if (status == SYN_OK) status = first;
    const syn_status second = serve_timeline_close(&o->timeline, run, status == SYN_OK, err);
    serve_series_free(&o->series);
    serve_batch_free(o->batch);
    return status == SYN_OK ? second : status;
}

void serve_outputs_free(serve_run *run) {
    if (!run->outputs) return;
    output_lock_release(&run->outputs->lock);
    syn_free(run->outputs);
    run->outputs = NULL;
}

/* ---- Results ---- */

/* Whether a trace set of an older run has the prefix. */
static bool has_older_set(const serve_run *run) {
    syn__et_files files;
    if (run->capture ||
        syn__et_files_of_prefix(&files, serve_given.out, strlen(serve_given.out), NULL) != SYN_OK)
        return false;
    syn__et_files_close(&files);
    return true;
}

static void add_notes(const serve_run *run, cli_notes *notes) {
    const serve_traces *t = &run->traces;
    char shown[CLI_SHOWN_BYTES];
    if (run->outputs->note[0]) cli_note(notes, "note", "%s", run->outputs->note);
    if (has_older_set(run))
        cli_note(notes, "note", "the traces %s.*.et are of an older run",
                 cli_shown(serve_given.out, shown, sizeof shown));
    if (t->chosen > t->steps)
        cli_note(notes, "note", "the traces have the first %llu of %llu steps (--trace-limit)",
                 (unsigned long long)t->steps, (unsigned long long)t->chosen);
    if (t->lost_transfers > 0)
        cli_note(notes, "note",
                 "the traces lack %llu of %llu KV transfers of their steps: --trace leaves out the "
                 "step at the other end",
                 (unsigned long long)t->lost_transfers, (unsigned long long)t->transfers);
}

void serve_outputs_print(const serve_run *run) {
    char path[PATH_BYTES], shown[CLI_SHOWN_BYTES];
    if (!run->outputs) return;
    cli_notes notes = cli_notes_begin(NULL, stdout);
    add_notes(run, &notes);
    printf("\nwritten:");
    for (int i = 0; i < FILES; i++)
        printf("%s%s", i > 0 ? ", " : " ", cli_shown(path_of(i, path), shown, sizeof shown));
    printf("\n");
}

syn_status serve_outputs_json(const serve_run *run, syn_sink *json, syn_error *err) {
    char path[PATH_BYTES];
    bool first = true;
    if (!run->outputs) return SYN_OK;
    cli_json_begin_written(json);
    for (int i = 0; i < FILES; i++) cli_json_add_written(json, path_of(i, path), &first);
    if (run->capture) SYN_TRY(cli_json_add_written_set(json, serve_given.out, &first, err));
    syn_sink_char(json, ']');
    cli_notes notes = cli_notes_begin(json, stdout);
    add_notes(run, &notes);
    cli_notes_end(&notes);
    return SYN_OK;
}
