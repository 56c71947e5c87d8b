/* Prints man pages and completion scripts from the option tables. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "export/export.h"
#include "syntorch/hardware/hardware.h"
#include "tools/cli.h"

/* ---- Man pages ---- */

/* Prints text for roff, in which a backslash, a dash, and a dot or quote at the start of a line
   have a meaning. */
static void put_roff(const char *text) {
    if (*text == '.' || *text == '\'') printf("\\&");
    for (; *text; text++) {
        if (*text == '\\') printf("\\e");
        else if (*text == '-') printf("\\-");
        else putchar(*text == '\n' ? ' ' : *text);
    }
}

/* Prints "syntorch-inference" for "syntorch inference". */
static void put_page_name(const char *name, bool upper) {
    for (; *name; name++) {
        const char c = *name == ' ' ? '-' : *name;
        if (c == '-') printf("\\-");
        else putchar(upper ? toupper((unsigned char)c) : c);
    }
}

static void put_man_option(const cli_option *o) {
    char value[CLI_SHOWN_BYTES];
    printf(".TP\n.B \\-\\-");
    put_roff(o->name);
    if (o->arg) {
        printf(" \\fI");
        put_roff(o->arg);
        printf("\\fR");
    }
    putchar('\n');
    put_roff(o->help);
    if (cli_default_text(o, value, sizeof value)[0]) {
        putchar(' ');
        put_roff(value);
    }
    putchar('\n');
}

void cli_print_man(const cli_program *program, const void *user) {
    printf(".TH ");
    put_page_name(program->name, true);
    printf(" 1 \"\" \"syntorch %s\"\n.SH NAME\n", SYN_VERSION);
    put_page_name(program->name, false);
    printf(" \\- ");
    put_roff(user);
    printf("\n.SH SYNOPSIS\n.B %s\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n", program->name);
    put_roff(program->summary);
    printf("\n.SH OPTIONS\n\\- and _ are equivalent in names of options.\n");
    for (const cli_option *o = program->options; o->name; o++) {
        if (o->kind == CLI_HEADING) {
            printf(".SS ");
            put_roff(o->name);
            putchar('\n');
        }
        if (o->help) put_man_option(o);
    }
    printf(".TP\n.B \\-\\-help\nprint the options\n.TP\n.B \\-\\-version\nprint the version\n");
    if (program->examples) printf(".SH EXAMPLES\n.nf\n");
    for (int i = 0; program->examples && program->examples[i]; i++) {
        put_roff(program->examples[i]);
        putchar('\n');
    }
    if (program->examples) printf(".fi\n");
}

/* ---- Completion ---- */

/* Whether the option's value is one of the words in `arg`, separated by "|". */
static bool has_choices(const cli_option *o) {
    if (o->kind == CLI_CHOICE) return true;
    if (o->kind != CLI_TEXT || !strchr(o->arg, '|')) return false;
    for (const char *c = o->arg; *c; c++)
        if (isupper((unsigned char)*c) || *c == '.' || *c == ',') return false;
    return true;
}

/* Whether the option's value is a path. */
static bool has_paths(const cli_option *o) {
    return (o->kind == CLI_TEXT || o->kind == CLI_TEXTS) &&
           (strstr(o->arg, "FILE") || strstr(o->arg, "DIR") || strstr(o->arg, "PREFIX"));
}

static const char *machine_at(size_t i) {
    return syn_hardware_presets()[i];
}

static const char *format_at(size_t i) {
    const syn_exporter *exporter = syn_exporters()[i];
    return exporter ? exporter->name : NULL;
}

/* The names that the option's value can have, apart from paths; NULL: unknown. */
static cli_word_at *names_of(const cli_option *o, const cli_completed *c) {
    if (strncmp(o->arg, "MACHINE", strlen("MACHINE")) == 0) return machine_at;
    if (strcmp(o->arg, "NAME") != 0) return NULL;
    return strcmp(o->name, "model") == 0    ? c->model_at
           : strcmp(o->name, "format") == 0 ? format_at
                                            : NULL;
}

static bool has_words(const cli_option *o, const cli_completed *c) {
    return o->arg && (has_choices(o) || names_of(o, c));
}

/* Prints what the option's value can be, separated by spaces. */
static void put_words(const cli_option *o, const cli_completed *c) {
    cli_word_at *names = names_of(o, c);
    for (const char *p = o->arg; !names && *p; p++) putchar(*p == '|' ? ' ' : *p);
    for (size_t i = 0; names && names(i); i++) printf("%s%s", i ? " " : "", names(i));
}

/* Prints text within single quotes. `escaped` characters get a backslash. */
static void put_quoted(const char *text, const char *escaped) {
    for (; *text; text++) {
        if (*text == '\'') printf("'\\''");
        else if (*text == '\n') putchar(' ');
        else printf("%s%c", strchr(escaped, *text) ? "\\" : "", *text);
    }
}

void cli_print_bash(const cli_program *program, const void *user) {
    const cli_completed *c = user;
    printf("    '%s')\n        case $previous in\n", c->name);
    for (const cli_option *o = program->options; o->name; o++) {
        if (!o->help || !o->arg) continue;
        printf("        %s) ", o->name);
        if (has_words(o, c)) {
            printf("words='");
            put_words(o, c);
            printf("' ");
        } else if (has_paths(o)) printf("files=yes ");
        printf(";;\n");
    }
    printf("        *) words='");
    for (const cli_option *o = program->options; o->name; o++)
        if (o->help) printf("--%s ", o->name);
    printf("--help --version' files=yes ;;\n        esac\n        ;;\n");
}

void cli_print_zsh(const cli_program *program, const void *user) {
    const cli_completed *c = user;
    printf("    '%s')\n        _arguments", c->name);
    for (const cli_option *o = program->options; o->name; o++) {
        if (!o->help) continue;
        printf(" \\\n            '--%s%s[", o->name, o->arg ? "=" : "");
        put_quoted(o->help, "[]\\");
        putchar(']');
        if (o->arg) {
            putchar(':');
            put_quoted(o->arg, ":\\");
            putchar(':');
        }
        if (has_words(o, c)) {
            putchar('(');
            put_words(o, c);
            putchar(')');
        } else if (has_paths(o)) printf("_files");
        putchar('\'');
    }
    printf(" \\\n            '--help[print the options]' '--version[print the version]' "
           "'*:file:_files'\n        ;;\n");
}

void cli_print_fish(const cli_program *program, const void *user) {
    const cli_completed *c = user;
    for (const cli_option *o = program->options; o->name; o++) {
        if (!o->help) continue;
        printf("complete -c syntorch -n '__syntorch_is \"%s\"' -l %s", c->name, o->name);
        if (has_words(o, c)) {
            printf(" -x -a '");
            put_words(o, c);
            putchar('\'');
        } else if (has_paths(o)) printf(" -r -F");
        else if (o->arg) printf(" -x");
        printf(" -d '");
        put_quoted(o->help, "\\");
        printf("'\n");
    }
}
