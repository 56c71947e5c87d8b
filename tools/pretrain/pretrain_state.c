/* training_state.json of a checkpoint: step and best loss, the options that a resumed run must
   share, and checksums of the files. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/checksum.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"
#include "tools/folders.h"
#include "tools/pretrain/pretrain.h"

/* ---- Options that determine the results ---- */

typedef struct option {
    const char *name;
    char text[200]; /* the value; for an option with files: "name (checksum)" */
    bool is_sum;
    /* The option only determines how ranks share the work. A resumed run may change it if the
       number of samples per step stays the same. */
    bool is_layout;
    bool is_new; /* checkpoints of earlier versions do not contain it, and its value is then 1; for
                    an option with is_sum 0 */
} option;

enum { OPTIONS = 33, SUM_BYTES = 19 /* " (0123456789abcdef)" */ };

typedef struct options {
    option at[OPTIONS];
    int n;
} options;

static option *add(options *o, const char *name) {
    option *added = &o->at[o->n++];
    *added = (option){.name = name};
    return added;
}

static void add_i64(options *o, const char *name, int64_t value) {
    option *added = add(o, name);
    snprintf(added->text, sizeof added->text, "%lld", (long long)value);
}

static void add_layout(options *o, const char *name, int64_t value, bool is_new) {
    add_i64(o, name, value);
    o->at[o->n - 1].is_layout = true;
    o->at[o->n - 1].is_new = is_new;
}

static void add_f64(options *o, const char *name, double value) {
    syn_number_text(value, add(o, name)->text);
}

static void add_text(options *o, const char *name, const char *value) {
    option *added = add(o, name);
    snprintf(added->text, sizeof added->text, "%s", value);
}

static void add_sum(options *o, const char *name, const char *value, uint64_t sum) {
    option *added = add(o, name);
    added->is_sum = true;
    snprintf(added->text, sizeof added->text, "%.160s (%016llx)", value, (unsigned long long)sum);
}

/* Adds a number that checkpoints of earlier versions do not contain. */
static void add_new_f64(options *o, const char *name, double value) {
    add_f64(o, name, value);
    o->at[o->n - 1].is_new = true;
}

/* Adds the files of an option, or its default file. */
static void add_files(options *o, const char *name, const cli_texts *named, const char *own,
                      uint64_t sum) {
    char list[161] = "";
    size_t used = 0;
    for (int i = 0; i < named->n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "",
                                 named->at[i]);
    add_sum(o, name, named->n > 0 ? list : own, sum);
}

/* Adds the layers of each virtual stage; for the same number in all stages, "even". */
static void add_division(options *o, const pretrain *run) {
    add_sum(o, "--layers-per-stage", run->uneven ? run->uneven : "even", pretrain_division(run));
    o->at[o->n - 1].is_layout = o->at[o->n - 1].is_new = true;
}

static void list_options(const pretrain *run, options *o) {
    const pretrain_args *a = run->args;
    o->n = 0;
    add_sum(o, "model", run->config.name, run->model_sum);
    add_files(o, "--data", &a->data, "examples/" PRETRAIN_DATA, run->data_sum);
    if (run->eval_texts)
        add_files(o, "--eval-data", &a->eval_data, "examples/" PRETRAIN_EVAL_DATA, run->eval_sum);
    else add_sum(o, "--eval-data", "none", 0);
    add_sum(o, "--tokenizer", *run->tokenizer_folder ? run->tokenizer_folder : "bytes",
            run->tokenizer_sum);
    add_layout(o, "--batch-size", a->batch_size, false);
    add_layout(o, "--gradient-accumulation-steps", a->accumulation, false);
    add_i64(o, "--max-seq-length", a->max_seq_length);
    add_layout(o, "--num-gpus", a->num_gpus, false);
    add_layout(o, "--tp", a->tp, false);
    add_layout(o, "--pp", run->launch.parallel.pp, true);
    add_layout(o, "--cp", run->launch.parallel.cp, true);
    add_layout(o, "--vp", run->launch.parallel.vp, true);
    add_division(o, run);
    const pretrain_layout own = pretrain_own_layout(run);
    add_layout(o, "state-parts", own.parts, true);
    add_layout(o, "state-buckets", own.buckets, true);
    add_layout(o, "--ep", own.ep, true);
    add_layout(o, "state-experts", own.experts, true);
    add_text(o, "--dtype", syn_dtype_name(run->dtype));
    add_text(o, "--recipe", a->reference ? "reference" : "default");
    add_i64(o, "--num-epochs", a->num_epochs);
    add_i64(o, "--warmup-steps", a->warmup_steps);
    add_i64(o, "--seed", a->seed);
    if (!run->batches.causal)
        add_text(o, "--mask-policy", a->masking == SYN_MASKING_ONLY ? "mask-only" : "bert");
    add_i64(o, "--eval-steps", a->eval_steps);
    add_f64(o, "--learning-rate", a->learning_rate);
    add_f64(o, "--weight-decay", a->weight_decay);
    add_f64(o, "--max-grad-norm", a->max_grad_norm);
    add_new_f64(o, "--moe-aux-loss-coeff", pretrain_aux_coefficient(run));
    add_new_f64(o, "--moe-z-loss-coeff", a->z_coefficient);
    add_new_f64(o, "--moe-router-bias-update-rate", a->bias_rate);
    add_new_f64(o, "--capacity", a->capacity);
    option *dropout = add(o, "--dropout");
    pretrain_dropout_text(run, dropout->text, sizeof dropout->text);
}

/* ---- Comparing ---- */

typedef struct differences {
    const pretrain *run;
    const char *folder; /* folder of the checkpoint */
    options want;
    bool seen[OPTIONS];
    int64_t saved[OPTIONS]; /* the checkpoint's values of the options with is_layout; their
                               checksums if is_sum */
    char text[400];
} differences;

static void add_difference(differences *d, const char *name, const char *what) {
    const size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "%s%s %.300s", n ? "; " : "", name, what);
}

/* Whether the checkpoint's config.json describes the run's model, apart from stop criteria. Earlier
   versions hashed less of a model, so a different checksum does not imply a different model. */
static bool same_model(const differences *d) {
    char path[FOLDER_PATH_BYTES];
    syn_model_config saved;
    syn_error ignored = {.code = SYN_OK};
    if (folder_path(path, &ignored, d->folder, "config.json") != SYN_OK ||
        syn_model_config_load(&saved, path, &ignored) != SYN_OK)
        return false;
    saved.end = d->run->config.end;
    return syn_model_config_hash(&saved, 0) == syn_model_config_hash(&d->run->config, 0);
}

/* Adds an option to the list of differences if it differs. For files, only the checksums are
   compared, because files may have been moved or renamed. */
static void compare_option(differences *d, int i, const char *saved) {
    const option *want = &d->want.at[i];
    const size_t cut = want->is_sum ? SUM_BYTES : 0, bytes = strlen(saved);
    const size_t wanted = strlen(want->text) - cut, had = bytes < cut ? 0 : bytes - cut;
    char what[400];
    d->seen[i] = true;
    if (want->is_layout) {
        if (want->is_sum)
            d->saved[i] = (int64_t)strtoull(saved + (bytes < cut ? 0 : had + 2), NULL, 16);
        else d->saved[i] = strtoll(saved, NULL, 10);
        return;
    }
    if (strcmp(saved + (cut ? had : 0), want->text + (cut ? wanted : 0)) == 0) return;
    if (strcmp(want->name, "model") == 0 && same_model(d)) return;
    if (cut && wanted == had && strncmp(saved, want->text, had) == 0)
        snprintf(what, sizeof what, "%.*s has changed", (int)wanted, want->text);
    else
        snprintf(what, sizeof what, "was %.*s, not %.*s", (int)(had < 160 ? had : 160), saved,
                 (int)wanted, want->text);
    add_difference(d, want->name, what);
}

static int64_t saved_value(const differences *d, const char *name) {
    for (int i = 0; i < d->want.n; i++)
        if (strcmp(d->want.at[i].name, name) == 0) return d->saved[i];
    return 0;
}

/* Compares the layouts after all options are read, and sets state->written. The number of samples
   per step must be the same as in the checkpoint. With --recipe reference, the number of
   data-parallel ranks must be the same, too, because the loss is then a mean over ranks. */
static void compare_layout(differences *d, pretrain_state *state) {
    const pretrain *run = d->run;
    const pretrain_args *a = run->args;
    const int64_t tp = saved_value(d, "--tp"), pp = saved_value(d, "--pp");
    const int64_t vp = saved_value(d, "--vp"), ranks = saved_value(d, "--num-gpus");
    const int64_t cp = saved_value(d, "--cp"), all = tp > 0 && pp > 0 ? ranks / tp / pp : 0;
    const int64_t dp = cp > 0 ? all / cp : 0;
    const int64_t samples =
        dp * saved_value(d, "--batch-size") * saved_value(d, "--gradient-accumulation-steps");
    const int64_t now = run->launch.parallel.dp * a->batch_size * a->accumulation;
    const int64_t parts = saved_value(d, "state-parts");
    state->written = (pretrain_layout){.tp = (int32_t)tp,
                                       .pp = (int32_t)pp,
                                       .vp = (int32_t)vp,
                                       .parts = (int32_t)parts,
                                       .buckets = (int32_t)saved_value(d, "state-buckets"),
                                       .ep = (int32_t)saved_value(d, "--ep"),
                                       .experts = (int32_t)saved_value(d, "state-experts"),
                                       .division = (uint64_t)saved_value(d, "--layers-per-stage")};
    const bool plausible = tp > 0 && pp > 0 && vp > 0 && tp * pp * cp * dp == ranks &&
                           ranks <= 65536 && parts > 0 && parts <= all;
    char what[200];
    if (!plausible) add_difference(d, "its numbers of ranks", "contradict each other");
    else if (samples != now) {
        snprintf(what, sizeof what,
                 "were %lld, not %lld (data-parallel ranks x --batch-size x "
                 "--gradient-accumulation-steps)",
                 (long long)samples, (long long)now);
        add_difference(d, "samples per step", what);
    } else if (a->reference && dp != run->launch.parallel.dp) {
        snprintf(what, sizeof what, "were %lld, not %d, which changes --recipe reference",
                 (long long)dp, run->launch.parallel.dp);
        add_difference(d, "data-parallel ranks", what);
    }
}

enum { UNITS = 4 }; /* ZeRO 3, whose buckets are the units of the model */

/* A rank's index among the data-parallel ranks. */
static int32_t data_index(const syn_plan *plan, int32_t rank) {
    int32_t stride[SYN_AXES];
    syn_plan_strides(plan, stride);
    return rank / stride[SYN_AXIS_DP] % syn_plan_dp_cp(plan);
}

/* Without ZeRO, the ranks whose data-parallel index is below this number have all experts. */
static int32_t expert_parts(const syn_plan *plan) {
    int32_t parts = 1;
    for (int32_t rank = 0; rank < plan->ranks; rank++) {
        const int32_t index = data_index(plan, syn_plan_first_expert_rank(plan, rank));
        if (index >= parts) parts = index + 1;
    }
    return parts;
}

static bool is_divided(const syn_plan *plan) {
    return plan->zero > 0 && syn_plan_dp_cp(plan) > 1;
}

pretrain_layout pretrain_own_layout(const pretrain *run) {
    const syn_plan *plan = &run->launch.parallel;
    const bool divided = is_divided(plan), apart = syn_plan_experts_apart(plan);
    const int32_t parts = divided ? plan->hsdp : expert_parts(plan);
    return (pretrain_layout){
        .tp = plan->tp,
        .pp = plan->pp,
        .vp = plan->vp,
        .parts = parts,
        .buckets = !divided          ? parts == 1
                   : plan->zero == 3 ? UNITS
                                     : (int32_t)pretrain_buckets(run) + 1,
        .ep = plan->ep,
        .experts = apart ? 2 + syn_plan_order_number(plan) + SYN_PLAN_ORDERS * (plan->etp - 1) : 1,
        .division = pretrain_division(run)};
}

/* The number of the file of a rank, or with hybrid sharding of the first rank with the same part of
   the state. */
static int32_t file_of(const syn_plan *plan, int32_t parts, int32_t rank) {
    int32_t stride[SYN_AXES];
    syn_plan_strides(plan, stride);
    const int32_t stage = rank / stride[SYN_AXIS_PP] % plan->pp;
    const int32_t shard = stage * plan->tp + rank / stride[SYN_AXIS_TP] % plan->tp;
    return shard * parts + data_index(plan, rank) % parts;
}

pretrain_files pretrain_own_files(const pretrain *run, int32_t rank) {
    const syn_plan *plan = &run->launch.parallel;
    const pretrain_layout own = pretrain_own_layout(run);
    const int32_t index = data_index(plan, rank), first = syn_plan_first_expert_rank(plan, rank);
    const int32_t number = file_of(plan, own.parts, rank);
    const bool divided = is_divided(plan), writes = index < own.parts;
    return (pretrain_files){.own = writes ? number : -1,
                            .layers = divided ? number : number - number % own.parts,
                            .experts = divided ? number : file_of(plan, own.parts, first),
                            .pieces = own.parts > 1 || own.experts > 1,
                            .saves_model = plan->zero == 3 ? writes : syn_plan_saves(plan, rank)};
}

bool pretrain_same_layout(const pretrain *run, const pretrain_layout *layout) {
    const pretrain_layout own = pretrain_own_layout(run);
    return layout->tp == own.tp && layout->pp == own.pp && layout->vp == own.vp &&
           layout->parts == own.parts && layout->buckets == own.buckets && layout->ep == own.ep &&
           layout->experts == own.experts && layout->division == own.division;
}

/* ---- Checksums ---- */

/* The beginning of the last line of training_state.json, which has the checksum of all text before
   it. */
#define SUM_PREFIX "xxh64:"
#define OWN_SUM    ",\n \"checksum\": \"" SUM_PREFIX

enum { SUM_TEXT = sizeof SUM_PREFIX + 16 };

static const char *sum_text(uint64_t sum, char text[SUM_TEXT]) {
    snprintf(text, SUM_TEXT, SUM_PREFIX "%016llx", (unsigned long long)sum);
    return text;
}

/* Returns the number of the file `name`, one of n files with tensors; -1: it is another file. */
static int32_t file_number(const char *name, int32_t n) {
    char tensors[PRETRAIN_TENSORS_NAME];
    for (int32_t i = 0; i < n; i++)
        if (strcmp(name, pretrain_tensors_name(i, tensors)) == 0) return i;
    return -1;
}

static int is_listed(const struct dirent *e) {
    return *e->d_name != '.';
}

static syn_status write_sum(syn_sink *sink, const char *before, const char *folder,
                            const char *name, const uint64_t *sums, int32_t n_sums,
                            syn_error *err) {
    char path[FOLDER_PATH_BYTES], text[SUM_TEXT];
    const int32_t number = file_number(name, n_sums);
    uint64_t sum = number >= 0 ? sums[number] : 0;
    if (number < 0) {
        SYN_TRY(folder_path(path, err, folder, name));
        SYN_TRY(syn__checksum_file(path, &sum, err));
    }
    syn_sink_text(sink, before);
    syn_sink_json_string(sink, name);
    syn_sink_printf(sink, ": \"%s\"", sum_text(sum, text));
    return SYN_OK;
}

/* Writes the checksums of all files in the folder. */
static syn_status write_sums(syn_sink *sink, const char *folder, const uint64_t *sums,
                             int32_t n_sums, syn_error *err) {
    struct dirent **names;
    syn_status s = SYN_OK;
    const int n = scandir(folder, &names, is_listed, alphasort);
    if (n < 0) return SYN_FAIL(err, SYN_E_IO, "cannot read '%.300s'", folder);
    syn_sink_text(sink, ",\n \"files\": {");
    for (int i = 0; i < n; i++) {
        if (s == SYN_OK)
            s = write_sum(sink, i ? ",\n  " : "\n  ", folder, names[i]->d_name, sums, n_sums, err);
        free(names[i]);
    }
    free(names);
    syn_sink_text(sink, "\n }");
    return s;
}

/* Verifies the file's checksum of its own text. Sets *found to whether it has one; files of earlier
   versions do not. */
static syn_status check_own_sum(const char *path, const char *data, bool *found, syn_error *err) {
    const char *at = NULL;
    char text[SUM_TEXT];
    syn__checksum sum;
    for (const char *next = data; (next = strstr(next, OWN_SUM)); next++) at = next;
    *found = at != NULL;
    if (!at) return SYN_OK;
    syn__checksum_begin(&sum);
    syn__checksum_add(&sum, data, (size_t)(at - data));
    at += sizeof OWN_SUM - sizeof SUM_PREFIX;
    if (strncmp(at, sum_text(syn__checksum_end(&sum), text), SUM_TEXT - 1) == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "'%.300s' is damaged: its checksum is %s, not %.22s", path,
                    text, at);
}

/* Whether this rank verifies a file. Each rank verifies the files with tensors that it reads. Rank
   0 also verifies all files without such tensors. */
static bool verifies(const pretrain *run, const pretrain_state *state, const char *name) {
    const pretrain_layout *written = &state->written;
    const int32_t number = file_number(name, pretrain_tensors_files(written));
    if (number < 0) return state->comm->rank == 0;
    return number == state->files.layers || number == state->files.experts ||
           !pretrain_same_layout(run, written);
}

static syn_status verify_files(syn_json *json, const pretrain *run, const pretrain_state *state,
                               const char *folder, syn_error *err) {
    char path[FOLDER_PATH_BYTES], text[SUM_TEXT];
    uint64_t sum;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "\"files\""));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const bool verify = verifies(run, state, json->text);
        SYN_TRY(folder_path(path, err, folder, json->text));
        SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, "a checksum"));
        if (!verify || strncmp(json->text, SUM_PREFIX, sizeof SUM_PREFIX - 1) != 0) continue;
        SYN_TRY(syn__checksum_file(path, &sum, err));
        if (strcmp(json->text, sum_text(sum, text)) != 0)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "'%.300s' is damaged: its checksum is %s, but %.22s was written", path,
                            text, json->text);
    }
    return json->type == SYN_JSON_OBJECT_END ? SYN_OK : err->code;
}

/* ---- training_state.json ---- */

static void write_members(const pretrain *run, const pretrain_state *state, syn_sink *sink) {
    options all;
    list_options(run, &all);
    syn_sink_printf(sink, "{\n \"step\": %lld,\n \"best_loss\": ", (long long)state->step);
    syn_sink_double(sink, state->best); /* infinity is written as null */
    syn_sink_text(sink, ",\n \"options\": {");
    for (int i = 0; i < all.n; i++) {
        syn_sink_text(sink, i ? ",\n  " : "\n  ");
        syn_sink_json_string(sink, all.at[i].name);
        syn_sink_text(sink, ": ");
        syn_sink_json_string(sink, all.at[i].text);
    }
    syn_sink_text(sink, "\n }");
}

static syn_status write_text(const char *path, const char *text, size_t bytes, syn_error *err) {
    char own[SUM_TEXT];
    syn__checksum sum;
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn__checksum_begin(&sum);
    syn__checksum_add(&sum, text, bytes);
    syn_sink_write(sink, text, bytes);
    syn_sink_printf(sink, OWN_SUM "%s\"\n}\n",
                    sum_text(syn__checksum_end(&sum), own) + sizeof SUM_PREFIX - 1);
    return syn_sink_close(sink, true, err);
}

syn_status pretrain_write_state(const pretrain *run, const pretrain_state *state,
                                const char *folder, const uint64_t *sums, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    syn_sink *text;
    size_t bytes;
    SYN_TRY(folder_path(path, err, folder, "training_state.json"));
    SYN_TRY(syn_sink_open_memory(&text, err));
    write_members(run, state, text);
    const pretrain_layout own = pretrain_own_layout(run);
    syn_status s = write_sums(text, folder, sums, pretrain_tensors_files(&own), err);
    const char *data = syn_sink_data(text, &bytes);
    if (s == SYN_OK && data) s = write_text(path, data, bytes, err);
    const syn_status closed = syn_sink_close(text, true, err);
    return s == SYN_OK ? closed : s;
}

static syn_status read_options(syn_json *json, differences *d, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "\"options\""));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        int i = 0;
        while (i < d->want.n && strcmp(json->text, d->want.at[i].name) != 0) i++;
        if (i == d->want.n) {
            if (!syn_json_skip(json)) return err->code;
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, d->want.at[i].name));
        compare_option(d, i, json->text);
    }
    return json->type == SYN_JSON_OBJECT_END ? SYN_OK : err->code;
}

/* Reads the members of the state. Sets *listed if it has checksums of files. */
static syn_status read_members(syn_json *json, pretrain_state *state, differences *d, bool *listed,
                               syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the training state"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "step") == 0) {
            SYN_TRY(syn_json_expect_i64(json, "\"step\"", 1, INT64_MAX - 1, &state->step));
        } else if (strcmp(json->text, "best_loss") == 0) {
            const syn_json_type type = syn_json_next(json);
            if (type != SYN_JSON_NUMBER && type != SYN_JSON_NULL)
                return syn_json_fail(json, "\"best_loss\" must be a number or null");
            state->best = type == SYN_JSON_NULL ? INFINITY : json->number;
        } else if (strcmp(json->text, "options") == 0) {
            SYN_TRY(read_options(json, d, err));
        } else if (strcmp(json->text, "files") == 0) {
            *listed = true;
            if (!syn_json_skip(json)) return err->code;
        } else if (!syn_json_skip(json)) {
            return err->code;
        }
    }
    if (json->type != SYN_JSON_OBJECT_END) return err->code;
    return state->step > 0 ? SYN_OK : syn_json_fail(json, "\"step\" is missing");
}

/* Verifies files against the checksums in the state. */
static syn_status verify_listed(const pretrain *run, const pretrain_state *state,
                                const char *folder, const char *path, const char *data,
                                size_t bytes, syn_error *err) {
    syn_json json;
    syn_status s = SYN_OK;
    syn_json_init(&json, path, data, bytes, err);
    if (syn_json_next(&json) != SYN_JSON_OBJECT_BEGIN) s = err->code;
    while (s == SYN_OK && syn_json_next(&json) == SYN_JSON_KEY) {
        if (strcmp(json.text, "files") == 0) s = verify_files(&json, run, state, folder, err);
        else if (!syn_json_skip(&json)) s = err->code;
    }
    syn_json_free(&json);
    return s;
}

static syn_status read_state(const pretrain *run, const char *folder, const char *path,
                             pretrain_state *state, differences *d, syn_error *err) {
    bool summed = false, listed = false;
    char *data;
    size_t bytes;
    syn_json json;
    SYN_TRY(syn_read_file(path, 1 << 20, &data, &bytes, err));
    syn_status s = check_own_sum(path, data, &summed, err);
    if (s == SYN_OK) {
        syn_json_init(&json, path, data, bytes, err);
        s = read_members(&json, state, d, &listed, err);
        syn_json_free(&json);
    }
    if (s == SYN_OK) compare_layout(d, state);
    if (s == SYN_OK && listed && !summed)
        s = SYN_FAIL(err, SYN_E_FORMAT, "'%.300s' is damaged: its checksum is missing", path);
    /* if the checkpoint belongs to another run, its files are not needed */
    if (s == SYN_OK && listed && !*d->text)
        s = verify_listed(run, state, folder, path, data, bytes, err);
    syn_free(data);
    return s;
}

syn_status pretrain_read_state(const pretrain *run, const char *folder, pretrain_state *state,
                               syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    syn_error first = {.code = SYN_OK}; /* the JSON reader needs a syn_error, but err may be NULL */
    differences d = {.run = run, .folder = folder, .text = ""};
    list_options(run, &d.want);
    for (int i = 0; i < d.want.n; i++) d.saved[i] = !d.want.at[i].is_sum;
    SYN_TRY(folder_path(path, err, folder, "training_state.json"));
    const syn_status s = read_state(run, folder, path, state, &d, &first);
    if (s != SYN_OK) return SYN_FAIL(err, s, "%s", first.text);
    for (int i = 0; i < d.want.n; i++)
        if (!d.seen[i] && !d.want.at[i].is_new)
            add_difference(&d, d.want.at[i].name, "is not recorded");
    if (!*d.text) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "'%.200s' belongs to another run: %s", folder, d.text);
}
