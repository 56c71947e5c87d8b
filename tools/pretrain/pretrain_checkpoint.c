/* Checkpoints of the pretraining program: the model and the training state. A resumed run computes
   the same as one that was never interrupted. A folder gets its name when it is complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "syntorch/base/memory.h"
#include "tools/folders.h"
#include "tools/launch/gather.h"
#include "tools/pretrain/pretrain.h"

#define PREFIX "checkpoint-"

#define PARTIAL ".partial"

/* 12 for "checkpoint-12"; -1: not a checkpoint's name. */
static int64_t step_of(const char *name) {
    char *end;
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0) return -1;
    const char *digits = name + sizeof PREFIX - 1;
    if (*digits < '1' || *digits > '9') return -1;
    errno = 0;
    const long long step = strtoll(digits, &end, 10);
    return *end == '\0' && errno == 0 ? step : -1;
}

/* Whether the folder is a checkpoint of this program; other programs use the same names. A folder
   with only one of the two files is a damaged checkpoint. It counts too, so that a resumed run
   reports it instead of continuing from an earlier one. */
static bool is_checkpoint(const char *folder, const char *name) {
    static const char *const files[] = {"training_state.json", "training-0.safetensors"};
    char path[FOLDER_PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s/%s", folder, name, files[i]);
        if (n > 0 && n < FOLDER_PATH_BYTES && access(path, F_OK) == 0) return true;
    }
    return false;
}

/* Returns the step of the latest checkpoint before step `end`, or of the earliest one if `latest`
   is false; 0: none. *count gets the number of checkpoints before `end`. */
static int64_t find_checkpoint(const char *folder, bool latest, int64_t end, int64_t *count) {
    int64_t found = 0;
    DIR *dir = opendir(folder);
    *count = 0;
    if (!dir) return 0;
    for (const struct dirent *e; (e = readdir(dir));) {
        const int64_t step = step_of(e->d_name);
        if (step < 0 || step >= end || !is_checkpoint(folder, e->d_name)) continue;
        ++*count;
        if (found == 0 || (latest ? step > found : step < found)) found = step;
    }
    closedir(dir);
    return found;
}

/* ---- Checkpoints ---- */

/* Fails on all ranks if one has failed. A rank that failed itself keeps its own error. */
static syn_status agree(syn_comm *comm, syn_status mine, syn_error *err) {
    gather_start start;
    const syn_status s = gather_agreement(&start, comm, mine, 0, err);
    if (s != SYN_OK || mine != SYN_OK || start.failed < 0) return s != SYN_OK ? s : mine;
    return SYN_FAIL(err, SYN_E_IO, "rank %d could not save its shard", start.failed);
}

/* Exchanges two names atomically. Removes b and returns false if that is impossible, for example
   because b does not exist. */
static bool swap_folders(const char *a, const char *b) {
#if defined __linux__ && defined SYS_renameat2
    enum { EXCHANGE = 2 }; /* RENAME_EXCHANGE, whose header needs _GNU_SOURCE */
    if (syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EXCHANGE) == 0) return true;
#endif
    folder_remove(b);
    return false;
}

static syn_status publish(const pretrain *run, const char *partial, const char *name,
                          syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    SYN_TRY(folder_sync(partial, err));
    SYN_TRY(folder_path(path, err, run->args->save_dir, name));
    if (!folder_is(path) && syn_file_exists(path))
        return SYN_FAIL(err, SYN_E_IO, "'%.300s' must be a folder, but is a file; remove it", path);
    if (swap_folders(partial, path)) folder_remove(partial); /* now the older one */
    else if (rename(partial, path) != 0)
        return SYN_FAIL(err, SYN_E_IO, "cannot rename a folder to '%.300s': %s", path,
                        strerror(errno));
    return folder_sync_path(run->args->save_dir, err);
}

/* Returns the path that a folder has while it is incomplete. A folder with this name never counts
   as a checkpoint, so one that a killed process leaves is harmless. */
static syn_status partial_path(const pretrain *run, char path[FOLDER_PATH_BYTES], const char *name,
                               syn_error *err) {
    char hidden[80];
    snprintf(hidden, sizeof hidden, ".%.60s" PARTIAL, name);
    return folder_path(path, err, run->args->save_dir, hidden);
}

static bool is_partial(const char *name) {
    char inner[64];
    const size_t bytes = strlen(name), end = sizeof PARTIAL - 1;
    if (*name != '.' || bytes <= end + 1 || bytes - end > sizeof inner) return false;
    if (strcmp(name + bytes - end, PARTIAL) != 0) return false;
    snprintf(inner, sizeof inner, "%.*s", (int)(bytes - end - 1), name + 1);
    return step_of(inner) > 0 || strcmp(inner, "best_model") == 0 ||
           strcmp(inner, "last_model") == 0;
}

/* Removes incomplete folders of killed runs. */
static void remove_partials(const pretrain *run) {
    char path[FOLDER_PATH_BYTES];
    DIR *dir = opendir(run->args->save_dir);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir));)
        if (is_partial(e->d_name) &&
            folder_path(path, NULL, run->args->save_dir, e->d_name) == SYN_OK)
            folder_remove(path);
    closedir(dir);
}

/* Removes the oldest checkpoints beyond --save_total_limit. */
static void limit_checkpoints(const pretrain *run) {
    const int64_t limit = run->args->save_total_limit;
    char path[FOLDER_PATH_BYTES], partial[FOLDER_PATH_BYTES], name[40];
    int64_t count;
    for (;;) {
        const int64_t step = find_checkpoint(run->args->save_dir, false, INT64_MAX, &count);
        if (limit == 0 || count <= limit) return;
        snprintf(name, sizeof name, PREFIX "%lld", (long long)step);
        if (folder_path(path, NULL, run->args->save_dir, name) != SYN_OK ||
            partial_path(run, partial, name, NULL) != SYN_OK || rename(path, partial) != 0)
            return;
        folder_remove(partial);
    }
}

/* Sets sums[i] to the number of the rank that saves file i. `all` has one number for each rank. */
static void pick_files(const pretrain *run, const uint64_t *all, uint64_t *sums) {
    const pretrain_layout own = pretrain_own_layout(run);
    int32_t stride[SYN_AXES];
    syn_plan_strides(&run->launch.parallel, stride);
    for (int32_t stage = 0; stage < own.pp; stage++)
        for (int32_t t = 0; t < own.tp; t++)
            for (int32_t d = 0; d < own.parts; d++)
                *sums++ = all[stage * stride[SYN_AXIS_PP] + t * stride[SYN_AXIS_TP] +
                              d * stride[SYN_AXIS_DP]];
}

/* Writes training_state.json with the checksums of all ranks' files. */
static syn_status write_state(const pretrain *run, const pretrain_state *state, const char *partial,
                              uint64_t checksum, syn_error *err) {
    syn_comm *comm = state->comm;
    const size_t n = (size_t)comm->size;
    uint64_t *all = syn_calloc(2 * n, sizeof *all), *sums = all + n;
    syn_status s = all ? SYN_OK : SYN_FAIL_NOMEM(err, 2 * n * sizeof *all, "checksums");
    s = agree(comm, s, err);
    if (s == SYN_OK) s = gather_numbers(all, comm, checksum, err);
    if (s == SYN_OK && comm->rank == 0) {
        pick_files(run, all, sums);
        s = pretrain_write_state(run, state, partial, sums, err);
    }
    syn_free(all);
    return s;
}

syn_status pretrain_save(pretrain *run, const pretrain_state *state, const char *name,
                         bool resumable, syn_error *err) {
    char partial[FOLDER_PATH_BYTES];
    uint64_t checksum = 0;
    syn_comm *comm = state->comm;
    const bool first = comm->rank == 0;
    syn_status s = partial_path(run, partial, name, err);
    if (s == SYN_OK && first) {
        remove_partials(run);
        s = folder_make_empty(partial, err);
    }
    SYN_TRY(agree(comm, s, err));
    if (state->files.saves_model) s = pretrain_save_model(run, state, partial, err);
    if (s == SYN_OK && state->files.own >= 0 && resumable)
        s = pretrain_write_tensors(state, partial, &checksum, err);
    s = agree(comm, s, err);
    if (s == SYN_OK && resumable) {
        s = write_state(run, state, partial, checksum, err);
        s = agree(comm, s, err);
    }
    if (s == SYN_OK) {
        if (first) s = publish(run, partial, name, err);
        s = agree(comm, s, err);
    }
    if (s == SYN_OK && first && resumable) limit_checkpoints(run);
    if (s != SYN_OK && first) folder_remove(partial);
    return s;
}

void pretrain_note_saved(pretrain *run, const char *name, int64_t step, bool resumable,
                         bool saved) {
    pretrain_unsaved *u = &run->unsaved[resumable];
    *u = (pretrain_unsaved){.name = ""};
    if (saved) {
        snprintf(run->saved[resumable], sizeof run->saved[resumable], "%s", name);
        return;
    }
    if (resumable) snprintf(u->name, sizeof u->name, "%s", name);
    else snprintf(u->name, sizeof u->name, "%s of step %lld", name, (long long)step);
    u->folder = name;
}

static syn_status check_traces(const pretrain *run, syn_error *err) {
    char more[60] = "";
    if (run->unwritten_traces == 0) return SYN_OK;
    if (run->unwritten_traces > 1)
        snprintf(more, sizeof more, " and %lld more", (long long)run->unwritten_traces - 1);
    return SYN_FAIL(err, SYN_E_IO,
                    "the run is finished, but '%.200s' lacks the trace of step %lld%s: free disk "
                    "space or name another --out-dir",
                    run->args->out_dir, (long long)run->unwritten_step, more);
}

syn_status pretrain_check_unsaved(const pretrain *run, syn_error *err) {
    const char *folder = run->args->save_dir;
    const pretrain_unsaved *model = &run->unsaved[0], *checkpoint = &run->unsaved[1];
    char path[FOLDER_PATH_BYTES], models[120] = "", checkpoints[120] = "";
    int64_t count;
    if (*model->name) {
        SYN_TRY(folder_path(path, err, folder, model->folder));
        snprintf(models, sizeof models, "%s was not saved, and %s", model->name,
                 folder_is(path) ? "the one there is older" : "there is none");
    }
    if (*checkpoint->name) {
        const int64_t step = find_checkpoint(folder, true, INT64_MAX, &count);
        snprintf(checkpoints, sizeof checkpoints, "%s was not saved, and there is %s%.0lld",
                 checkpoint->name, step ? "nothing newer than " PREFIX : "none", (long long)step);
    }
    if (!*models && !*checkpoints) return check_traces(run, err);
    return SYN_FAIL(err, SYN_E_IO,
                    "the run is finished, but '%.200s' lacks its last results: %s%s%s", folder,
                    models, *models && *checkpoints ? "; " : "", checkpoints);
}

syn_status pretrain_check_saved(const pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    int64_t count;
    const int64_t step = find_checkpoint(args->save_dir, true, INT64_MAX, &count);
    if (step == 0 || args->resume) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "'%.300s' has " PREFIX
                    "%lld of an earlier run: continue from it with --resume, "
                    "name another --save-dir, or remove the folder",
                    args->save_dir, (long long)step);
}

/* Results of fewer steps are those of a trial and may be replaced. */
enum { TRIAL_STEPS = 100 };

syn_status pretrain_check_longer(const pretrain *run, syn_error *err) {
    const char *folder = run->args->save_dir;
    int64_t steps, count;
    SYN_TRY(pretrain_logged_steps(run, &steps, err));
    if (steps < TRIAL_STEPS || steps <= run->steps) return SYN_OK;
    if (run->args->resume && find_checkpoint(folder, true, INT64_MAX, &count) > 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "'%.300s' has the results of an earlier run of %lld steps, and this run of "
                    "%lld steps would replace them: name another --save-dir, or remove the folder",
                    folder, (long long)steps, (long long)run->steps);
}

/* Prints a note if the checkpoint is at or after the last step. */
static void note_end(const pretrain *run, const pretrain_state *state, const char *folder) {
    char behind[60] = "";
    if (state->step < run->steps || state->comm->rank != 0 || run->args->quiet) return;
    if (state->step > run->steps)
        snprintf(behind, sizeof behind, " after the last one, %lld", (long long)run->steps);
    fprintf(stderr, "%s: note: nothing to do: '%s' is the checkpoint of %s%s\n",
            run->launch.program->name, folder, *behind ? "a step" : "the last step", behind);
}

/* Sets the buffers, which training may change (syn_router_options.count), to those of the model in
   a checkpoint. */
static syn_status read_buffers(const pretrain *run, const pretrain_state *state, const char *folder,
                               syn_error *err) {
    syn_weights *weights;
    syn_weights_reader *reader = NULL;
    const size_t n = syn_ctx_buffer_count(state->ctx);
    if (n == 0) return SYN_OK;
    SYN_TRY(syn_weights_open(&weights, folder, run->config.family, err));
    syn_status s = syn_weights_reader_new(&reader, weights, err);
    for (size_t i = 0; i < n && s == SYN_OK; i++) {
        const syn_param_info p = syn_ctx_buffer(state->ctx, i);
        const syn_param_source source = syn_weights_source(reader);
        const size_t bytes = (size_t)syn_spec_bytes(&p.full);
        void *data = syn_malloc(bytes);
        s = data ? source.read(source.user, p.name, &p.full, p.shard, p.valid_rows, &p.full, data,
                               err)
                 : SYN_FAIL_NOMEM(err, bytes, "a buffer");
        if (s == SYN_OK) s = syn_tensor_write(state->ctx, p.tensor, data, bytes);
        syn_free(data);
    }
    syn_weights_reader_free(reader);
    syn_weights_free(weights);
    return s;
}

static syn_status read_checkpoint(const pretrain *run, int64_t step, pretrain_state *state,
                                  syn_error *err) {
    char folder[FOLDER_PATH_BYTES], name[40];
    snprintf(name, sizeof name, PREFIX "%lld", (long long)step);
    SYN_TRY(folder_path(folder, err, run->args->save_dir, name));
    SYN_TRY(pretrain_read_state(run, folder, state, err));
    if (state->step != step)
        return SYN_FAIL(err, SYN_E_FORMAT, "'%.300s' has the state of step %lld", folder,
                        (long long)state->step);
    note_end(run, state, folder);
    SYN_TRY(read_buffers(run, state, folder, err));
    return pretrain_read_tensors(run, state, folder, err);
}

syn_status pretrain_resume(pretrain *run, pretrain_state *state, syn_error *err) {
    const char *folder = run->args->save_dir;
    int64_t count;
    syn_error why = {.code = SYN_OK};
    const int64_t step = find_checkpoint(folder, true, INT64_MAX, &count);
    if (state->comm->rank == 0) remove_partials(run);
    if (step == 0) return SYN_OK;
    const syn_status s = read_checkpoint(run, step, state, &why);
    if (s == SYN_E_FORMAT || s == SYN_E_IO) { /* a file is damaged */
        const int64_t before = find_checkpoint(folder, true, step, &count);
        return SYN_FAIL(err, s, "%.330s; remove " PREFIX "%lld, and --resume %s%.0lld", why.text,
                        (long long)step,
                        before ? "continues from " PREFIX : "starts from the beginning",
                        (long long)before);
    }
    if (s != SYN_OK) return SYN_FAIL(err, s, "%s", why.text);
    syn_optimizer_set_steps(state->optimizer, state->step);
    return SYN_OK;
}
