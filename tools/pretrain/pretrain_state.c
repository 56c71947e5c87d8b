/* training_state.json of a checkpoint: how far the training was, and what it is made of, which must
   be the same where it goes on. */
#include <math.h>
#include <string.h>

#include "syntorch/json.h"
#include "syntorch/memory.h"
#include "syntorch/number.h"
#include "tools/folders.h"
#include "tools/pretrain/pretrain.h"

/* ---- what a run is made of ---- */

typedef struct option {
    const char *name;
    char text[200]; /* of what is read: "its name (checksum)" */
    bool is_sum;
} option;

enum { OPTIONS = 21, SUM_BYTES = 19 /* " (0123456789abcdef)" */ };

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

/* The files that were named, or else the one that comes with the program. */
static void add_files(options *o, const char *name, const cli_texts *named, const char *own,
                      uint64_t sum) {
    char list[161] = "";
    size_t used = 0;
    for (int i = 0; i < named->n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "",
                                 named->at[i]);
    add_sum(o, name, named->n > 0 ? list : own, sum);
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
    add_i64(o, "--batch-size", a->batch_size);
    add_i64(o, "--gradient-accumulation-steps", a->accumulation);
    add_i64(o, "--max-seq-length", a->max_seq_length);
    add_i64(o, "--num-gpus", a->num_gpus);
    add_i64(o, "--tp", a->tp);
    add_text(o, "--dtype", a->dtype ? "bf16" : "f32");
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
    option *dropout = add(o, "--dropout");
    pretrain_dropout_text(run, dropout->text, sizeof dropout->text);
}

/* ---- what differs ---- */

typedef struct differences {
    options want;
    bool seen[OPTIONS];
    char text[400];
} differences;

static void add_difference(differences *d, const char *name, const char *what) {
    const size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "%s%s %s", n ? "; " : "", name, what);
}

/* Names of what is read say where it was, not what it is. */
static void compare_option(differences *d, int i, const char *saved) {
    const option *want = &d->want.at[i];
    const size_t cut = want->is_sum ? SUM_BYTES : 0, bytes = strlen(saved);
    const size_t wanted = strlen(want->text) - cut, had = bytes < cut ? 0 : bytes - cut;
    char what[400];
    d->seen[i] = true;
    if (strcmp(saved + (cut ? had : 0), want->text + (cut ? wanted : 0)) == 0) return;
    if (cut && wanted == had && strncmp(saved, want->text, had) == 0)
        snprintf(what, sizeof what, "%.*s has changed", (int)wanted, want->text);
    else
        snprintf(what, sizeof what, "was %.*s, not %.*s", (int)(had < 160 ? had : 160), saved,
                 (int)wanted, want->text);
    add_difference(d, want->name, what);
}

/* ---- training_state.json ---- */

syn_status pretrain_write_state(const pretrain *run, const pretrain_state *state,
                                const char *folder, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    options all;
    syn_sink *sink;
    SYN_TRY(folder_path(path, err, folder, "training_state.json"));
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    list_options(run, &all);
    syn_sink_printf(sink, "{\n \"step\": %lld,\n \"best_loss\": ", (long long)state->step);
    syn_sink_double(sink, state->best); /* null: none yet */
    syn_sink_text(sink, ",\n \"options\": {");
    for (int i = 0; i < all.n; i++) {
        syn_sink_text(sink, i ? ",\n  " : "\n  ");
        syn_sink_json_string(sink, all.at[i].name);
        syn_sink_text(sink, ": ");
        syn_sink_json_string(sink, all.at[i].text);
    }
    syn_sink_text(sink, "\n }\n}\n");
    return syn_sink_close(sink, true, err);
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

static syn_status read_members(syn_json *json, pretrain_state *state, differences *d,
                               syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the state of a training"));
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
        } else if (!syn_json_skip(json)) {
            return err->code;
        }
    }
    if (json->type != SYN_JSON_OBJECT_END) return err->code;
    return state->step > 0 ? SYN_OK : syn_json_fail(json, "\"step\" is missing");
}

syn_status pretrain_read_state(const pretrain *run, const char *folder, pretrain_state *state,
                               syn_error *err) {
    char path[FOLDER_PATH_BYTES], *data;
    syn_error first = {.code = SYN_OK}; /* the JSON reader reports only there */
    differences d = {.text = ""};
    syn_json json;
    size_t bytes;
    list_options(run, &d.want);
    SYN_TRY(folder_path(path, err, folder, "training_state.json"));
    SYN_TRY(syn_read_file(path, 1 << 20, &data, &bytes, err));
    syn_json_init(&json, path, data, bytes, &first);
    const syn_status s = read_members(&json, state, &d, &first);
    syn_json_free(&json);
    syn_free(data);
    if (s != SYN_OK) return SYN_FAIL(err, s, "%s", first.text);
    for (int i = 0; i < d.want.n; i++)
        if (!d.seen[i]) add_difference(&d, d.want.at[i].name, "was not told");
    if (!*d.text) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "'%.200s' is of another run: %s", folder, d.text);
}
