/* Predicts a run with changed options, each time as a sweep of one combination, and prints the best
   changes. */
#include "tools/sweep/suggestions.h"

#include <stdlib.h>
#include <string.h>

/* ---- What to try ---- */

void suggestions_add(suggestions *l, const char *option, const char *value) {
    if (l->n == SUGGESTIONS_MAX) return;
    l->at[l->n++] = (suggestion){.n = 0};
    suggestions_with(l, option, value);
}

void suggestions_with(suggestions *l, const char *option, const char *value) {
    suggestion *last = &l->at[l->n - 1];
    struct suggestion_setting *next = &last->set[last->n++];
    next->option = option;
    snprintf(next->value, sizeof next->value, "%s", value ? value : "1");
    next->is_flag = !value;
}

static const char *number(int64_t value, char text[SUGGESTION_BYTES]) {
    snprintf(text, SUGGESTION_BYTES, "%lld", (long long)value);
    return text;
}

void suggestions_add_number(suggestions *l, const char *option, int64_t value) {
    char text[SUGGESTION_BYTES];
    suggestions_add(l, option, number(value, text));
}

void suggestions_with_number(suggestions *l, const char *option, int64_t value) {
    char text[SUGGESTION_BYTES];
    suggestions_with(l, option, number(value, text));
}

void suggestions_add_dtypes(suggestions *l, const syn_hardware *hw, syn_dtype own, bool bf16_only) {
    static const syn_dtype halves[] = {SYN_BF16, SYN_F16};
    for (int i = 0; i < (bf16_only ? 1 : 2); i++)
        if (halves[i] != own && hw->peak_flops_per_ns[halves[i]] > 0)
            suggestions_add(l, "dtype", syn_dtype_name(halves[i]));
}

/* ---- Trying ---- */

typedef struct trial {
    sweep one;
    syn_hardware hw;
    sweep_try *try;
    void *user;
} trial;

static void begin(trial *t, const cli_program *program, const syn_hardware *own, sweep_try *try,
                  void *user) {
    *t = (trial){.hw = *own, .try = try, .user = user};
    t->one = (sweep){.program = program, .machine_axis = -1, .machines = &t->hw, .n_machines = 1};
}

typedef int give(const cli_program *program, const cli_option *option, const char *text);

static const cli_option *option_of(const cli_program *program,
                                   const struct suggestion_setting *setting) {
    return cli_find_option(program, setting->option, strlen(setting->option));
}

/* Replaces aliases by the names that the program's --help shows. */
static void use_own_names(suggestions *l, const cli_program *program) {
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->at[i].n; k++) {
            const cli_option *option = option_of(program, &l->at[i].set[k]);
            if (option) l->at[i].set[k].option = option->name;
        }
}

/* Passes all settings of a suggestion to `how`, which is cli_check or cli_set. Stops and returns
   false if a setting is not valid. */
static bool give_all(const trial *t, const suggestion *of, give *how) {
    const cli_program *program = t->one.program;
    bool taken = true;
    for (int i = 0; i < of->n && taken; i++) {
        taken = how(program, option_of(program, &of->set[i]), of->set[i].value) == CLI_RUN;
    }
    return taken;
}

/* Predicts the run with the changes in `of` (NULL: unchanged). Returns false if the run is not
   possible. t->try must restore the options. */
static bool run(const trial *t, const suggestion *of, sweep_times *times) {
    syn_error err = {0};
    *times = (sweep_times){0};
    cli_keep_messages(&err);
    const bool can = !of || (give_all(t, of, cli_check) && give_all(t, of, cli_set));
    const bool ran = can && t->try(t->user, &t->one, times, &err) == SYN_OK;
    cli_keep_messages(NULL);
    return ran && times->tokens > 0;
}

/* Returns the suggestion that was already kept for this option; NULL: none. */
static suggestion *kept_of(suggestions *l, int kept, const char *option) {
    for (int i = 0; i < kept; i++)
        if (strcmp(l->at[i].set->option, option) == 0) return &l->at[i];
    return NULL;
}

/* ---- Faster ---- */

/* Returns 0 for the same ranks and batch, 1 for more ranks, 2 for a larger batch. */
static int class_of(const suggestions *l, const suggestion *x) {
    if (x->t.ranks > l->own.ranks) return 1;
    return x->t.tokens > l->own.tokens ? 2 : 0;
}

/* Sorts by class, then by change. */
static void sort(suggestions *l) {
    for (int i = 1; i < l->n; i++) {
        const suggestion x = l->at[i];
        int at = i;
        for (; at > 0; at--) {
            const suggestion *before = &l->at[at - 1];
            const int more = class_of(l, before) - class_of(l, &x);
            if (more < 0 || (more == 0 && before->change <= x.change)) break;
            l->at[at] = *before;
        }
        l->at[at] = x;
    }
}

void suggestions_find(suggestions *l, const cli_program *program, const syn_hardware *own,
                      sweep_try *try, void *user) {
    trial t;
    int kept = 0;
    use_own_names(l, program);
    begin(&t, program, own, try, user);
    const bool runs = run(&t, NULL, &l->own);
    const double before = l->own.ns / l->own.tokens;
    for (int i = 0; runs && i < l->n; i++) {
        suggestion *x = &l->at[i];
        if (!run(&t, x, &x->t) || !sweep_fits(own, &x->t)) continue;
        x->change = x->t.ns / x->t.tokens / before - 1;
        if (x->change > -0.01) continue;
        suggestion *other = kept_of(l, kept, x->set->option);
        if (!other) l->at[kept++] = *x;
        else if (x->change < other->change) *other = *x;
    }
    l->n = kept;
    sort(l);
    if (l->n > SUGGESTIONS_SHOWN) l->n = SUGGESTIONS_SHOWN;
}

static void print_setting(const suggestion *x, FILE *out) {
    char value[CLI_SHOWN_BYTES];
    for (int i = 0; i < x->n; i++)
        fprintf(out, "%s--%s%s%s", i ? " " : "", x->set[i].option, x->set[i].is_flag ? "" : " ",
                x->set[i].is_flag ? "" : cli_shown(x->set[i].value, value, sizeof value));
}

void suggestions_print(const suggestions *l, FILE *out) {
    for (int i = 0; i < l->n; i++) {
        const suggestion *x = &l->at[i];
        const double texts = x->t.tokens / l->own.tokens;
        fputs(i ? ", " : "suggestions: ", out);
        print_setting(x, out);
        fprintf(out, " %.0f%%", 100 * x->change);
        if (x->t.ranks != l->own.ranks)
            fprintf(out, " on %lld rank%s", (long long)x->t.ranks,
                    cli_plural((uint64_t)x->t.ranks));
        if (texts != 1) fprintf(out, " with %g times the sequences", texts);
    }
    if (l->n > 0) fprintf(out, " (time per token; each change alone)\n");
}

/* ---- To fit ---- */

void suggestions_fit(suggestions *l, const cli_program *program, const syn_hardware *own,
                     sweep_try *try, void *user) {
    trial t;
    int kept = 0;
    use_own_names(l, program);
    begin(&t, program, own, try, user);
    for (int i = 0; i < l->n && kept < SUGGESTIONS_SHOWN; i++) {
        suggestion *x = &l->at[i];
        if (kept_of(l, kept, x->set->option) || !run(&t, x, &x->t)) continue;
        if (sweep_fits(own, &x->t)) l->at[kept++] = *x;
    }
    l->n = kept;
}

void suggestions_fit_print(const suggestions *l, FILE *out) {
    char bytes[32];
    fputs("to fit:  ", out);
    for (int i = 0; i < l->n; i++) {
        if (i) fputs(", ", out);
        print_setting(&l->at[i], out);
        fprintf(out, " (%s per rank)", cli_bytes_text(l->at[i].t.rank_bytes, bytes, sizeof bytes));
    }
    fputs(l->n > 0 ? "\n" : "none of the tried changes is enough\n", out);
}

void suggestions_print_need(const syn_hardware *hw, const sweep_times *t, const char *what,
                            FILE *out) {
    char a[32], b[32], name[CLI_SHOWN_BYTES];
    if (t->stages > 1) fprintf(out, "note:    stage %d", t->fullest);
    else fprintf(out, "note:    each rank");
    fprintf(out, " needs %s for %s, but %s has %s\n", cli_bytes_text(t->rank_bytes, a, sizeof a),
            what, cli_shown(hw->name, name, sizeof name),
            cli_bytes_text(hw->memory_bytes, b, sizeof b));
}
