/* Parses the arguments of --sweep and checks them against the other options. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/sweep/sweep.h"

#define SWEEP_ROWS 1000000

/* ---- The arguments ---- */

static bool may_vary(const sweep *s, const cli_option *option, const char *const *keys) {
    for (; option && *keys; keys++)
        if (cli_find_option(s->program, *keys, strlen(*keys)) == option) return true;
    return false;
}

static syn_status refuse_key(const char *word, size_t bytes, const char *const *keys,
                             syn_error *err) {
    char list[256];
    size_t used = 0;
    for (int i = 0; keys[i] && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", keys[i]);
    return SYN_FAIL(err, SYN_E_INVALID, "--sweep cannot vary '%.*s'; it can vary %s", (int)bytes,
                    word, list);
}

static syn_status split(sweep_axis *axis, char *list, syn_error *err) {
    size_t n = 1;
    for (const char *p = list; *p; p++) n += *p == ',';
    axis->values = syn_calloc(n, sizeof *axis->values);
    if (!axis->values) return SYN_FAIL_NOMEM(err, n * sizeof *axis->values, "the runs of --sweep");
    for (char *value = list, *end; value; value = end) {
        end = strchr(value, ',');
        if (end) *end++ = '\0';
        for (int i = 0; i < axis->n; i++)
            if (strcmp(axis->values[i], value) == 0)
                return SYN_FAIL(err, SYN_E_INVALID, "--sweep has %s=%s twice", axis->option->name,
                                value);
        if (*value == '\0')
            return SYN_FAIL(err, SYN_E_INVALID, "--sweep %s= lacks a value", axis->option->name);
        axis->values[axis->n++] = value;
    }
    return SYN_OK;
}

/* Adds the axis of an argument "KEY=VALUE,...", which is split in place. */
static syn_status add_axis(sweep *s, char *word, const char *const *keys, syn_error *err) {
    char *equals = strchr(word, '=');
    if (!equals)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--sweep must be KEY=VALUE,..., such as tp=1,2,4, not '%s'", word);
    const size_t bytes = (size_t)(equals - word);
    const cli_option *option = cli_find_option(s->program, word, bytes);
    if (!may_vary(s, option, keys)) return refuse_key(word, bytes, keys, err);
    for (int i = 0; i < s->n_axes; i++)
        if (s->axes[i].option == option)
            return SYN_FAIL(err, SYN_E_INVALID, "--sweep has %s twice; give all its values at once",
                            option->name);
    if (s->n_axes == SWEEP_AXES)
        return SYN_FAIL(err, SYN_E_INVALID, "--sweep varies at most %d options", SWEEP_AXES);
    if (strcmp(option->name, "hw") == 0) s->machine_axis = s->n_axes;
    s->axes[s->n_axes] = (sweep_axis){.option = option};
    return split(&s->axes[s->n_axes++], equals + 1, err);
}

static syn_status add_axes(sweep *s, const cli_texts *words, const char *const *keys,
                           syn_error *err) {
    size_t bytes = 0;
    for (int i = 0; i < words->n; i++) bytes += strlen(words->at[i]) + 1;
    s->words = syn_malloc(bytes + 1);
    if (!s->words) return SYN_FAIL_NOMEM(err, bytes, "the runs of --sweep");
    char *next = s->words;
    for (int i = 0; i < words->n; i++) {
        char *word = strcpy(next, words->at[i]);
        next += strlen(word) + 1;
        for (char *rest = word; (word = strtok_r(rest, " ", &rest)) != NULL;)
            SYN_TRY(add_axis(s, word, keys, err));
    }
    if (s->n_axes == 0) return SYN_FAIL(err, SYN_E_INVALID, "--sweep has nothing to vary");
    return SYN_OK;
}

static syn_status load_machines(sweep *s, const char *own, const char *stack, syn_error *err) {
    const sweep_axis *axis = s->machine_axis >= 0 ? &s->axes[s->machine_axis] : NULL;
    const int n = axis ? axis->n : 1;
    if (axis && own)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--hw and --sweep hw= both choose the machine; give one");
    s->machines = syn_calloc((size_t)n, sizeof *s->machines);
    if (!s->machines)
        return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *s->machines, "the runs of --sweep");
    for (; s->n_machines < n; s->n_machines++) {
        const char *name = axis ? axis->values[s->n_machines] : own ? own : "a100-80g";
        SYN_TRY(syn_hardware_load(&s->machines[s->n_machines], name, stack, err));
    }
    return SYN_OK;
}

static syn_status open_words(sweep *s, const sweep_options *how, syn_error *err) {
    SYN_TRY(add_axes(s, how->words, how->keys, err));
    SYN_TRY(load_machines(s, how->hw, how->stack, err));
    double rows = 1;
    for (int i = 0; i < s->n_axes; i++) rows *= s->axes[i].n;
    if (rows > SWEEP_ROWS)
        return SYN_FAIL(err, SYN_E_INVALID, "--sweep has %.0f combinations; the limit is %d", rows,
                        SWEEP_ROWS);
    return SYN_OK;
}

/* Checks all values in advance, because an invalid value is a usage error and not an impossible
   combination. */
static int check_values(const sweep *s) {
    for (int i = 0; i < s->n_axes; i++)
        for (int k = 0; k < s->axes[i].n; k++) {
            const int code = cli_check(s->program, s->axes[i].option, s->axes[i].values[k]);
            if (code != CLI_RUN) return code;
        }
    return CLI_RUN;
}

int sweep_open(sweep *s, const sweep_options *how, int argc, char **argv) {
    const cli_program *program = how->program;
    syn_error err = {0};
    *s = (sweep){.program = program, .training = how->training, .machine_axis = -1};
    if (open_words(s, how, &err) != SYN_OK) return cli_fail(program, CLI_USAGE, "%s", err.text);
    for (const char *const *name = how->useless; *name; name++)
        if (cli_was_given(program, argc, argv, *name))
            return cli_fail(program, CLI_USAGE, "--%s has no effect with --sweep; omit one", *name);
    if (cli_was_given(program, argc, argv, "device") && strcmp(how->device, "meta") != 0)
        return cli_fail(program, CLI_USAGE, "--sweep needs --device meta, not %s", how->device);
    for (int i = 0; i < s->n_axes; i++)
        if (cli_was_given(program, argc, argv, s->axes[i].option->name))
            return cli_fail(program, CLI_USAGE,
                            "--%s and --sweep %s= set the same option; give one",
                            s->axes[i].option->name, s->axes[i].option->name);
    return check_values(s);
}
