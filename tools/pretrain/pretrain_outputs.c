/* Writes the output of the pretraining program: the log, metrics.csv and models. pretrain_trace.c
   writes traces, and pretrain_curve.c writes loss.svg. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/training/pretraining.h"
#include "syntorch/base/memory.h"
#include "tools/folders.h"
#include "tools/pretrain/pretrain.h"
#include "tools/saving/model_folder.h"

/* ---- The log ---- */

struct pretrain_log {
    int csv;
    char *pending; /* lines that are not written to the file yet */
    size_t pending_bytes, pending_cap;
    int failing; /* errno of the last attempt to write them; 0: success */
    pretrain_curve train, eval;
    syn_error err; /* the first failure */
};

static void add(pretrain_log *log, pretrain_curve *c, int64_t step, double loss) {
    if (!isfinite(loss)) return;
    if (syn_grow(&c->at, &c->cap, c->n + 1, sizeof *c->at, &log->err) != SYN_OK) return;
    c->at[c->n++] = (pretrain_point){step, loss};
}

static const char columns[] = "step,epoch,loss,learning_rate,grad_norm,tokens_per_s,eval_loss\n";

/* Returns the number in column `column` (from 0) of a CSV line; NaN if the column is empty. */
static double field(const char *line, int column) {
    for (; column > 0 && line; column--) line = (line = strchr(line, ',')) ? line + 1 : NULL;
    return line && *line != ',' && *line != '\n' ? strtod(line, NULL) : NAN;
}

/* Copies the lines of the steps up to `done`, and adds their losses to the curves. */
static void keep_lines(pretrain_log *log, syn_sink *sink, const char *text, int64_t done) {
    const char *line = strchr(text, '\n');
    for (line = line ? line + 1 : NULL; line && *line; line = strchr(line, '\n') + 1) {
        const size_t bytes = strcspn(line, "\n") + 1;
        const double step = field(line, 0), loss = field(line, 2), eval = field(line, 6);
        if (line[bytes - 1] != '\n' || !(step <= (double)done)) return;
        syn_sink_write(sink, line, bytes);
        if (!isnan(loss)) add(log, &log->train, (int64_t)step, loss);
        if (!isnan(eval)) add(log, &log->eval, (int64_t)step, eval);
    }
}

/* Creates metrics.csv with the lines up to step `done` of the old file, then replaces it. */
static syn_status begin_file(pretrain_log *log, const char *path, int64_t done, syn_error *err) {
    char *old = NULL;
    size_t bytes;
    syn_sink *sink;
    if (done > 0 && syn_file_exists(path))
        SYN_TRY(syn_read_file(path, SIZE_MAX - 1, &old, &bytes, err));
    syn_status s = syn_sink_open_file(&sink, path, err);
    if (s == SYN_OK) {
        syn_sink_text(sink, columns);
        if (old) keep_lines(log, sink, old, done);
        s = syn_sink_close(sink, true, err);
    }
    syn_free(old);
    return s;
}

static void name_file(const pretrain *run, char path[4200]) {
    snprintf(path, 4200, "%s/metrics.csv", run->args->save_dir);
}

syn_status pretrain_logged_steps(const pretrain *run, int64_t *steps, syn_error *err) {
    char path[4200], *text;
    size_t bytes;
    *steps = 0;
    name_file(run, path);
    if (!syn_file_exists(path)) return SYN_OK;
    SYN_TRY(syn_read_file(path, SIZE_MAX - 1, &text, &bytes, err));
    for (const char *end = strchr(text, '\n'); end; end = strchr(end + 1, '\n')) {
        const double step = field(end + 1, 0);
        if (step > (double)*steps && step < 1e15) *steps = (int64_t)step;
    }
    syn_free(text);
    return SYN_OK;
}

/* Prints model, dtype, device and dropout, and which option or file sets the dropout. */
static void report_run(const pretrain *run) {
    const pretrain_args *a = run->args;
    char rates[200], name[CLI_SHOWN_BYTES];
    if (a->quiet) return;
    printf("model: %s in %s on %s, %lld rank%s, tp %lld\n",
           cli_shown(run->config.name, name, sizeof name), syn_dtype_name(run->dtype), a->device,
           (long long)a->num_gpus, cli_plural((uint64_t)a->num_gpus), (long long)a->tp);
    pretrain_dropout_text(run, rates, sizeof rates);
    printf("dropout: %s (%s)\n", rates,
           a->dropout >= 0 ? "--dropout"
           : a->weights    ? "config.json of --weights"
           : a->model      ? "of the model; --dropout changes it"
                           : "config.json; --dropout changes it");
    fflush(stdout);
}

syn_status pretrain_log_open(pretrain *run, int64_t done, syn_error *err) {
    char path[4200];
    name_file(run, path);
    if (!(run->log = syn_calloc(1, sizeof *run->log)))
        return SYN_FAIL_NOMEM(err, sizeof *run->log, "a log");
    run->log->csv = -1;
    SYN_TRY(begin_file(run->log, path, done, err));
    report_run(run);
    pretrain_bar_begin(run, done);
    if ((run->log->csv = open(path, O_WRONLY | O_APPEND | O_CLOEXEC)) >= 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s': %s", path, strerror(errno));
}

/* Writes as many pending lines as possible; the rest stay pending. */
static void write_pending(pretrain_log *log) {
    size_t done = 0;
    log->failing = 0;
    while (done < log->pending_bytes && log->failing == 0) {
        const ssize_t n = write(log->csv, log->pending + done, log->pending_bytes - done);
        if (n > 0) done += (size_t)n;
        else if (n == 0 || errno != EINTR) log->failing = n == 0 ? EIO : errno;
    }
    memmove(log->pending, log->pending + done, log->pending_bytes - done);
    log->pending_bytes -= done;
}

/* Appends a line to metrics.csv. While the disk is full, lines stay pending and training
   continues. */
static void add_line(pretrain *run, const char *line) {
    pretrain_log *log = run->log;
    const size_t bytes = strlen(line);
    const bool was_failing = log->failing != 0;
    if (syn_grow(&log->pending, &log->pending_cap, log->pending_bytes + bytes, 1, &log->err) !=
        SYN_OK)
        return;
    memcpy(log->pending + log->pending_bytes, line, bytes);
    log->pending_bytes += bytes;
    write_pending(log);
    if (log->failing == 0 || was_failing) return;
    pretrain_bar_clear(run);
    fprintf(stderr,
            "%s: warning: cannot write '%.300s/metrics.csv': %s; its lines will be written once "
            "that is possible\n",
            run->launch.program->name, run->args->save_dir, strerror(log->failing));
}

/* Whether to print a line for the step. With a progress bar, lines are printed only if
   --logging_steps is given, and not for the last step, which the bar shows. */
static bool wants_line(const pretrain *run, int64_t step) {
    const int64_t asked = run->args->logging_steps, every = asked > 0 ? asked : 10;
    if (run->bar.line.out && (asked == 0 || step == run->steps)) return false;
    return step == 1 || step % every == 0 || step == run->steps;
}

void pretrain_log_step(pretrain *run, const pretrain_metrics *m) {
    pretrain_log *log = run->log;
    char line[200];
    snprintf(line, sizeof line, "%lld,%lld,%.9g,%.9g,%.9g,%.1f,\n", (long long)m->step,
             (long long)m->epoch, m->loss, m->learning_rate, m->grad_norm, m->tokens_per_s);
    add_line(run, line);
    add(log, &log->train, m->step, m->loss);
    run->last = *m;
    if (!run->args->quiet && wants_line(run, m->step)) {
        pretrain_bar_clear(run);
        printf("step %lld/%lld  loss %.4f  learning rate %.3g  %.0f tokens/s\n", (long long)m->step,
               (long long)run->steps, m->loss, m->learning_rate, m->tokens_per_s);
        fflush(stdout);
    }
    pretrain_bar_step(run, m);
}

void pretrain_log_eval(pretrain *run, int64_t step, double loss) {
    pretrain_log *log = run->log;
    char line[80];
    snprintf(line, sizeof line, "%lld,,,,,,%.9g\n", (long long)step, loss);
    add_line(run, line);
    add(log, &log->eval, step, loss);
    run->validation_loss = loss;
    run->validated = true;
    if (run->args->quiet) return;
    pretrain_bar_clear(run);
    printf("step %lld  validation loss %.4f\n", (long long)step, loss);
    fflush(stdout);
}

/* ---- The end ---- */

static syn_status close_file(pretrain_log *log, const char *folder, syn_error *err) {
    if (log->csv < 0) return SYN_OK;
    write_pending(log);
    if (close(log->csv) != 0 && log->failing == 0 && errno != EINTR) log->failing = errno;
    if (log->failing == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "'%.300s/metrics.csv' lacks its last lines: %s", folder,
                    strerror(log->failing));
}

syn_status pretrain_log_close(pretrain *run, syn_error *err) {
    pretrain_log *log = run->log;
    if (!log) return SYN_OK;
    progress_line_end(&run->bar.line);
    syn_status s = log->err.code;
    if (s != SYN_OK) (void)SYN_FAIL(err, s, "%s", log->err.text);
    if (s == SYN_OK && log->train.n > 0)
        s = pretrain_write_curve(run, &log->train, &log->eval, err);
    const syn_status closed = close_file(log, run->args->save_dir, s == SYN_OK ? err : NULL);
    if (s == SYN_OK) s = closed;
    syn_free(log->pending);
    syn_free(log->train.at);
    syn_free(log->eval.at);
    syn_free(log);
    run->log = NULL;
    return s;
}

void pretrain_list_saved(const pretrain *run) {
    const char *const names[] = {"metrics.csv", "loss.svg", run->saved[0], run->saved[1]};
    char folder[CLI_SHOWN_BYTES], path[FOLDER_PATH_BYTES];
    const char *before = "written: ";
    if (run->args->quiet || run->launch.program->mute) return;
    if (run->launch.device == SYN_DEVICE_META) return;
    cli_shown(run->args->save_dir, folder, sizeof folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        /* a run that was resumed after its last step may have no curves */
        if (!*names[i] || folder_path(path, NULL, run->args->save_dir, names[i]) != SYN_OK ||
            !syn_file_exists(path))
            continue;
        printf("%s%s/%s", before, folder, names[i]);
        before = ", ";
    }
    printf("\n");
}

/* ---- Models ---- */

/* With ZeRO 3, the masters have the values of the parameters, before they are rounded. */
static void piece_range(void *user, size_t param, int64_t *first, int64_t *n) {
    syn_optimizer_range(user, param, first, n);
}

static syn_status read_piece(void *user, size_t param, float *out, size_t n, syn_error *err) {
    return syn_optimizer_get(user, param, SYN_OPTIMIZER_MASTER, out, n, err);
}

syn_status pretrain_save_model(pretrain *run, const pretrain_state *state, const char *folder,
                               syn_error *err) {
    const char *weights = run->args->weights;
    syn_model_config config = run->config;
    char path[4200];
    const bool says = weights && syn_model_is_causal(&config) &&
                      cli_find_sibling(weights, "generation_config.json", path, sizeof path);
    syn_model_config_set_dtype(&config, run->dtype);
    const syn_weights_pieces pieces = {run->launch.parallel.hsdp, piece_range, read_piece,
                                       state->optimizer};
    const model_folder model = {.config = &config,
                                .plan = &run->launch.parallel,
                                .pieces = run->launch.parallel.zero == 3 ? &pieces : NULL,
                                .generation = says ? path : NULL,
                                .heads = syn_pretraining_heads(&run->config),
                                .tokenizer = *run->tokenizer_folder ? run->tokenizer_folder : NULL};
    return model_folder_write(&model, state->ctx, state->comm, folder, err);
}
