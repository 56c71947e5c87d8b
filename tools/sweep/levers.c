#include "tools/sweep/levers.h"

#include <stdlib.h>
#include <string.h>

void levers_add(levers *l, const char *option, const char *value) {
    if (l->n == LEVERS_MOST) return;
    lever *next = &l->at[l->n++];
    *next = (lever){.option = option};
    snprintf(next->value, sizeof next->value, "%s", value);
}

void levers_add_number(levers *l, const char *option, int64_t value) {
    char text[LEVER_BYTES];
    snprintf(text, sizeof text, "%lld", (long long)value);
    levers_add(l, option, text);
}

void levers_add_stacks(levers *l, const syn_hardware *own, const char *hw) {
    static const char *const stacks[] = {"serving", "megatron", "pytorch-eager"};
    const char *name = hw ? hw : own->name;
    const size_t bytes = strcspn(name, "+");
    char text[LEVER_BYTES];
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        if (strcmp(stacks[i], own->stack.name) == 0 || bytes + 20 > sizeof text) continue;
        snprintf(text, sizeof text, "%.*s+%s", (int)bytes, name, stacks[i]);
        levers_add(l, "hw", text);
    }
}

/* Time a token, ns; 0: it cannot be run, or does not fit. */
static double token_ns(const sweep *one, sweep_try *try, void *user, syn_error *err) {
    sweep_times t = {0};
    if (try(user, one, &t, err) != SYN_OK || !(t.tokens > 0)) return 0;
    const double room = one->machines->memory_bytes;
    return room > 0 && t.rank_bytes > room ? 0 : t.ns / t.tokens;
}

static int by_change(const void *a, const void *b) {
    const double x = ((const lever *)a)->change, y = ((const lever *)b)->change;
    return (x > y) - (x < y);
}

/* A run that does not fit has a time all the same, which says what would help. */
static double own_ns(const sweep *one, sweep_try *try, void *user) {
    sweep_times t = {0};
    syn_error err = {0};
    cli_keep_messages(&err);
    const syn_status s = try(user, one, &t, &err);
    cli_keep_messages(NULL);
    return s == SYN_OK && t.tokens > 0 ? t.ns / t.tokens : 0;
}

void levers_find(levers *l, const cli_program *program, const syn_hardware *own, sweep_try *try,
                 void *user) {
    syn_hardware hw = *own;
    const sweep one = {.program = program, .machine_axis = -1, .machines = &hw, .n_machines = 1};
    const double before = own_ns(&one, try, user);
    int kept = 0;
    for (int i = 0; i < l->n && before > 0; i++) {
        lever *tried = &l->at[i];
        syn_error err = {0};
        double after = 0;
        const cli_option *option = cli_find_option(program, tried->option, strlen(tried->option));
        cli_keep_messages(&err);
        if (cli_set(program, option, tried->value) == CLI_RUN)
            after = token_ns(&one, try, user, &err);
        cli_keep_messages(NULL);
        if (!(after > 0) || after > 0.99 * before) continue;
        tried->change = after / before - 1;
        l->at[kept++] = *tried;
    }
    l->n = kept;
    qsort(l->at, (size_t)l->n, sizeof *l->at, by_change);
    if (l->n > LEVERS_SHOWN) l->n = LEVERS_SHOWN;
}

void levers_print(const levers *l, FILE *out) {
    char value[CLI_SHOWN_BYTES];
    for (int i = 0; i < l->n; i++)
        fprintf(out, "%s--%s %s %.0f%%", i ? ", " : "levers: ", l->at[i].option,
                cli_shown(l->at[i].value, value, sizeof value), 100 * l->at[i].change);
    if (l->n > 0) fprintf(out, " (time a token, each alone)\n");
}
