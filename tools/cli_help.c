/* Prints --help. */
#include "tools/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_style(FILE *out) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(out)) && !(none && *none) && terminal && strcmp(terminal, "dumb") != 0;
}

#define HELP_COLUMNS 80
#define HELP_MARGIN  30 /* column in which the help texts of options begin */

/* Prints words and wraps lines at HELP_COLUMNS. `column` is the cursor's column, `margin` the
   indentation of all lines but the first. Returns the new column. */
static int print_words(const char *text, int column, int margin) {
    while (*text) {
        const int n = (int)strcspn(text, " \n");
        if (column > margin && column + 1 + n > HELP_COLUMNS) {
            printf("\n%*s", margin, "");
            column = margin;
        }
        column += printf("%s%.*s", column > margin ? " " : "", n, text);
        text += n;
        text += strspn(text, " \n");
    }
    return column;
}

const char *cli_default_text(const cli_option *o, char *buf, size_t bytes) {
    buf[0] = '\0';
    if (o->kind == CLI_INT && (double)*(const int64_t *)o->value >= o->min)
        snprintf(buf, bytes, "[%lld]", (long long)*(const int64_t *)o->value);
    if (o->kind == CLI_REAL && *(const double *)o->value >= o->min) /* false for NaN */
        snprintf(buf, bytes, "[%g]", *(const double *)o->value);
    if (o->kind == CLI_TEXT && *(const char *const *)o->value)
        snprintf(buf, bytes, "[%s]", *(const char *const *)o->value);
    if (o->kind == CLI_CHOICE && *(const int *)o->value >= 0) {
        const char *word = o->arg;
        for (int i = *(const int *)o->value; i > 0; i--) word += strcspn(word, "|") + 1;
        snprintf(buf, bytes, "[%.*s]", (int)strcspn(word, "|"), word);
    }
    return buf;
}

/* Prints a command so that it can be copied. A line that is too long is continued with a backslash
   before an option. */
static void print_example(const char *text) {
    int column = printf("  ");
    while (*text) {
        const char *next = strstr(text + 1, " --");
        const int n = next ? (int)(next - text) : (int)strlen(text);
        const int end = next ? HELP_COLUMNS - 2 : HELP_COLUMNS; /* " \\" may follow */
        if (column > 2 && column + n > end) {
            printf(" \\\n     ");
            column = 5;
        }
        column += printf("%.*s", n, text);
        text += n;
    }
    putchar('\n');
}

void cli_print_heading(const char *text) {
    const bool style = cli_style(stdout);
    printf("%s%s%s", style ? "\033[1m" : "", text, style ? "\033[0m" : "");
}

static void print_option(const cli_option *o) {
    char buf[CLI_SHOWN_BYTES];
    const int n = printf("  --%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    printf(n < HELP_MARGIN ? "%*s" : "\n%*s", n < HELP_MARGIN ? HELP_MARGIN - n : HELP_MARGIN, "");
    const int column = print_words(o->help, HELP_MARGIN, HELP_MARGIN);
    print_words(cli_default_text(o, buf, sizeof buf), column, HELP_MARGIN);
    putchar('\n');
}

void cli_print_help(const cli_program *program, const void *unused) {
    (void)unused;
    cli_print_heading("Usage:");
    printf(" %s [options]\n\n", program->name);
    print_words(program->summary, 0, 0);
    printf("\n\n");
    cli_print_heading("Options (- and _ are equivalent):");
    putchar('\n');
    for (const cli_option *o = program->options; o->name; o++) {
        if (o->kind == CLI_HEADING) {
            putchar('\n');
            cli_print_heading(o->name);
            printf(":\n");
        }
        if (o->help) print_option(o);
    }
    printf("%s  --help                      print this text\n"
           "  --version                   print the version\n",
           program->options->kind == CLI_HEADING ? "\n" : "");
    if (!program->examples) return;
    putchar('\n');
    cli_print_heading("Examples:");
    putchar('\n');
    for (int i = 0; program->examples[i]; i++) print_example(program->examples[i]);
}
