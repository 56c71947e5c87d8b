/* Parses options, prints --help and error messages, formats numbers, and finds data files. */
#include "tools/cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "syntorch/base/nearest.h"
#include "syntorch/base/utf8.h"
#include "tools/cli_json.h"

static syn_error *kept; /* where cli_fail stores messages, set by cli_keep_messages; NULL: it prints
                           them */

void cli_keep_messages(syn_error *in) {
    kept = in;
}

int cli_fail(const cli_program *program, int code, const char *fmt, ...) {
    char text[1024], line[4 * sizeof text + 1];
    if (program->mute) return code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (kept) {
        (void)SYN_FAIL(kept, SYN_E_INVALID, "%s", text);
        return code;
    }
    fflush(stdout);
    /* Print the line in one write, because a launcher may interleave the output of processes. */
    FILE *out = fmemopen(line, sizeof line, "w");
    if (out) cli_print_escaped(out, text, strlen(text));
    const bool escaped = out && fclose(out) == 0;
    fprintf(stderr, "%s: %s%s\n", program->name,
            cli_style(stderr) ? "\033[1;31merror:\033[0m " : "", escaped ? line : text);
    cli_json_fail(program, code, text);
    return code;
}

int cli_done(const cli_program *program, syn_status status, const syn_error *err) {
    return status == SYN_OK ? CLI_OK : cli_fail(program, CLI_FAILED, "%s", err->text);
}

/* ---- Options ---- */

static bool same_name(const char *a, const char *b, size_t n) {
    if (strlen(a) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !((a[i] == '_' || a[i] == '-') && (b[i] == '_' || b[i] == '-')))
            return false;
    return true;
}

static int unknown(const cli_program *program, const char *arg, size_t n) {
    char name[64];
    syn__nearest near = {NULL, 0};
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), arg);
    for (const cli_option *o = program->options; o->name; o++)
        if (o->help) syn__nearest_try(&near, name, o->name);
    if (near.name)
        return cli_fail(program, CLI_USAGE,
                        "unknown option --%s; did you mean --%s? (--help lists all)", name,
                        near.name);
    return cli_fail(program, CLI_USAGE, "unknown option --%s (--help lists all)", name);
}

/* Lists the words of a choice as in a sentence: "auto, full or once". */
static int fail_choice(const cli_program *program, const cli_option *o, const char *text) {
    char words[256];
    size_t used = 0;
    for (const char *word = o->arg; *word;) {
        const size_t n = strcspn(word, "|");
        const bool more = word[n] == '|', more_than_one = more && strchr(word + n + 1, '|');
        used += (size_t)snprintf(words + used, sizeof words - used, "%.*s%s", (int)n, word,
                                 more_than_one ? ", "
                                 : more        ? " or "
                                               : "");
        word += n + more;
    }
    return cli_fail(program, CLI_USAGE, "--%s must be %s, not '%s'", o->name, words, text);
}

static int set_choice(const cli_program *program, const cli_option *o, const char *text) {
    int index = 0;
    for (const char *word = o->arg; *word; index++) {
        const size_t n = strcspn(word, "|");
        if (same_name(text, word, n)) {
            *(int *)o->value = index;
            return CLI_RUN;
        }
        word += n + (word[n] == '|');
    }
    return fail_choice(program, o, text);
}

static int set_int(const cli_program *program, const cli_option *o, const char *text) {
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)text[0]))
        return cli_fail(program, CLI_USAGE, "--%s must be an integer, not '%s'", o->name, text);
    if (errno || (double)v < o->min || (double)v > o->max)
        return cli_fail(program, CLI_USAGE, "--%s must be between %.16g and %.16g, not %s", o->name,
                        o->min, o->max, text);
    if (o->kind == CLI_MIB) *(uint64_t *)o->value = (uint64_t)v << 20;
    else *(int64_t *)o->value = v;
    return CLI_RUN;
}

static int set_real(const cli_program *program, const cli_option *o, const char *text) {
    char *end;
    const double v = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)text[0]))
        return cli_fail(program, CLI_USAGE, "--%s must be a number, not '%s'", o->name, text);
    if (!(v >= o->min && v <= o->max))
        return cli_fail(program, CLI_USAGE, "--%s must be between %.16g and %.16g, not %s", o->name,
                        o->min, o->max, text);
    *(double *)o->value = v;
    return CLI_RUN;
}

int cli_set(const cli_program *program, const cli_option *o, const char *text) {
    switch (o->kind) {
    case CLI_HEADING:
    case CLI_ALIAS: /* not reached: cli_find_option resolves aliases */
        return CLI_RUN;
    case CLI_FLAG:
        if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
            return cli_fail(program, CLI_USAGE, "--%s must be 0 or 1, not '%s'", o->name, text);
        *(bool *)o->value = *text == '1';
        return CLI_RUN;
    case CLI_TEXT:
        *(const char **)o->value = text;
        return CLI_RUN;
    case CLI_TEXTS: /* handled by set_option */
        return CLI_RUN;
    case CLI_CHOICE:
        return set_choice(program, o, text);
    case CLI_INT:
    case CLI_MIB:
        return set_int(program, o, text);
    case CLI_REAL:
        return set_real(program, o, text);
    }
    return CLI_RUN;
}

int cli_check(const cli_program *program, const cli_option *o, const char *text) {
    union {
        bool flag;
        const char *text;
        int choice;
        int64_t i64;
        uint64_t bytes;
        double real;
    } value;
    cli_option of_none = *o;
    of_none.value = &value;
    return cli_set(program, &of_none, text);
}

static cli_help *print_help = cli_print_help; /* set by cli_set_help */
static const void *help_user;

void cli_set_help(cli_help *print, const void *user) {
    print_help = print ? print : cli_print_help;
    help_user = user;
}

/* Prints --help. */
static int help(const cli_program *program) {
    if (!program->mute) print_help(program, help_user);
    return CLI_OK;
}

static bool is_option(const char *arg) {
    return strncmp(arg, "--", 2) == 0 || strcmp(arg, "-h") == 0;
}

const cli_option *cli_find_option(const cli_program *program, const char *name, size_t name_bytes) {
    for (const cli_option *o = program->options; o->name; o++)
        if (o->kind != CLI_HEADING && same_name(o->name, name, name_bytes))
            return o->kind == CLI_ALIAS ? cli_find_option(program, o->arg, strlen(o->arg)) : o;
    return NULL;
}

/* Returns the option that an argument "--name" or "--name=value" names; NULL: none. */
static const cli_option *find_option(const cli_program *program, const char *arg) {
    return strncmp(arg, "--", 2) == 0 ? cli_find_option(program, arg + 2, strcspn(arg + 2, "="))
                                      : NULL;
}

/* Returns the number of values of the option that argv[i] names: the arguments that follow it. */
static int values_behind(const cli_option *o, int argc, char **argv, int i) {
    int n = 1;
    if (o->kind == CLI_FLAG || strchr(argv[i], '=') || i + 1 >= argc) return 0;
    if (o->kind == CLI_TEXTS) {
        if (is_option(argv[i + 1])) return 0;
        while (i + 1 + n < argc && !is_option(argv[i + 1 + n])) n++;
    }
    return n;
}

/* Sets the option that argv[i] names. Its values are the n following arguments, or the text after
   "=" in argv[i]. */
static int set_option(const cli_program *program, const cli_option *o, char **argv, int i, int n) {
    const char *equals = strchr(argv[i], '=');
    if (o->kind == CLI_FLAG && equals)
        return cli_fail(program, CLI_USAGE, "--%s accepts no value", o->name);
    if (o->kind != CLI_FLAG && !equals && n == 0)
        return cli_fail(program, CLI_USAGE, "--%s needs a value: %s", o->name, o->arg);
    if (o->kind == CLI_FLAG) return cli_set(program, o, "1");
    if (o->kind != CLI_TEXTS) return cli_set(program, o, equals ? equals + 1 : argv[i + 1]);
    cli_texts *texts = o->value;
    if (texts->n > 0)
        return cli_fail(program, CLI_USAGE, "--%s was given twice; give all its values at once",
                        o->name);
    if (equals) *texts = (cli_texts){&texts->one, 1, equals + 1};
    else *texts = (cli_texts){(const char *const *)argv + i + 1, n, NULL};
    return CLI_RUN;
}

int cli_parse(const cli_program *program, int argc, char **argv) {
    if (!cli_restore_defaults(program->options))
        return cli_fail(program, CLI_FAILED, "out of memory: options");
    cli_json_begin(program, argc, argv);
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) return help(program);
        if (strcmp(arg, "--version") == 0) {
            if (!program->mute) printf("%s %s\n", program->name, SYN_VERSION);
            return CLI_OK;
        }
        if (strncmp(arg, "--", 2) != 0 || !arg[2])
            return cli_fail(program, CLI_USAGE, "'%s' is not an option (--help lists all)", arg);
        const cli_option *o = find_option(program, arg);
        if (!o) return unknown(program, arg + 2, strcspn(arg + 2, "="));
        const int n = values_behind(o, argc, argv, i);
        const int code = set_option(program, o, argv, i, n);
        if (code != CLI_RUN) return code;
        i += n;
    }
    return CLI_RUN;
}

bool cli_was_given(const cli_program *program, int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++) {
        const cli_option *o = find_option(program, argv[i]);
        if (!o) continue;
        if (same_name(o->name, name, strlen(name))) return true;
        i += values_behind(o, argc, argv, i);
    }
    return false;
}

int cli_check_rules(const cli_program *program, int argc, char **argv, const cli_rule *rules,
                    size_t n_rules) {
    for (size_t i = 0; i < n_rules; i++)
        for (const char *const *name = rules[i].names; rules[i].holds && *name; name++)
            if (cli_was_given(program, argc, argv, *name))
                return cli_fail(program, CLI_USAGE, "--%s %s", *name, rules[i].why);
    return CLI_RUN;
}

/* Moves the arguments that are neither options nor values of options to the end of argv, in their
   order, and returns the index of the first moved argument. All arguments after "--" are moved.
   *n_options gets the number of arguments before the moved ones, without "--". */
static int plain_to_end(const cli_program *program, int argc, char **argv, int *n_options) {
    int end = argc;
    bool all = false;
    for (int i = 1; i < end;) {
        char *plain = argv[i];
        if (!all && strcmp(plain, "--") == 0) {
            all = true;
            i++;
            continue;
        }
        if (!all && is_option(plain)) {
            const cli_option *o = find_option(program, plain);
            i += 1 + (o ? values_behind(o, end, argv, i) : 0);
            continue;
        }
        memmove(argv + i, argv + i + 1, (size_t)(argc - i - 1) * sizeof *argv);
        argv[argc - 1] = plain;
        end--;
    }
    *n_options = all ? end - 1 : end;
    return end;
}

int cli_parse_inputs(const cli_program *program, int argc, char **argv, const char **input,
                     const char *needed, const char *const **paths, size_t *n_paths) {
    int n_options;
    const int end = plain_to_end(program, argc, argv, &n_options);
    const int code = cli_parse(program, n_options, argv);
    if (code != CLI_RUN) return code;
    if (end == argc && !*input)
        return cli_fail(program, CLI_USAGE, "%s needed (--help explains)", needed);
    if (end < argc && *input)
        return cli_fail(
            program, CLI_USAGE,
            "both --input and '%s' are inputs; give files either with --input or without it",
            argv[end]);
    *paths = *input ? input : (const char *const *)argv + end;
    *n_paths = *input ? 1 : (size_t)(argc - end);
    return CLI_RUN;
}

/* ---- Texts ---- */

/* Whether a terminal would interpret the character instead of showing it: control characters, and
   characters that change the writing direction or end a line. */
static bool is_control(const unsigned char *p, size_t n) {
    if (n == 1) return p[0] < 0x20 || p[0] == 0x7F;
    if (n == 2) return (p[0] == 0xC2 && p[1] < 0xA0) || (p[0] == 0xD8 && p[1] == 0x9C);
    if (n != 3 || p[0] != 0xE2) return false;
    return (p[1] == 0x80 && (p[2] == 0x8E || p[2] == 0x8F || (p[2] >= 0xA8 && p[2] <= 0xAE))) ||
           (p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9);
}

#define ESCAPED_BYTES 17 /* maximum bytes of an escaped character */

/* Writes the first character at `text` in printable form and returns its number of bytes in
   `text`. */
static size_t escape(const char *text, size_t bytes, char out[ESCAPED_BYTES]) {
    const unsigned char *p = (const unsigned char *)text;
    const size_t n = syn_utf8_char_bytes(text, bytes);
    const size_t all = n ? n : 1;
    const char letter = *p == '\n' ? 'n' : *p == '\t' ? 't' : *p == '\\' ? '\\' : '\0';
    if (letter) {
        snprintf(out, ESCAPED_BYTES, "\\%c", letter);
    } else if (n == 0 || is_control(p, n)) {
        for (size_t k = 0; k < all; k++) snprintf(out + 4 * k, 5, "\\x%02x", p[k]);
    } else {
        memcpy(out, p, n);
        out[n] = '\0';
    }
    return all;
}

void cli_print_escaped(FILE *out, const char *text, size_t bytes) {
    char one[ESCAPED_BYTES];
    for (size_t i = 0; i < bytes;) {
        i += escape(text + i, bytes - i, one);
        fputs(one, out);
    }
}

const char *cli_shown(const char *text, char *buf, size_t buf_bytes) {
    char one[ESCAPED_BYTES];
    const size_t bytes = strlen(text);
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        i += escape(text + i, bytes - i, one);
        const size_t n = strlen(one);
        if (used + n >= buf_bytes) break;
        memcpy(buf + used, one, n);
        used += n;
    }
    buf[used] = '\0';
    return buf;
}

const char *cli_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

static const char *scaled(double v, double base, const char *const *units, int n_units, char *buf,
                          size_t buf_bytes) {
    int u = 0;
    while (u + 1 < n_units && fabs(v) >= base * 0.9995) {
        v /= base;
        u++;
    }
    const bool whole = u == 0 && v == floor(v);
    snprintf(buf, buf_bytes, "%.*f%s%s",
             whole       ? 0
             : v < 9.995 ? 2
             : v < 99.95 ? 1
                         : 0,
             v, *units[u] ? " " : "", units[u]);
    return buf;
}

const char *cli_bytes_text(double bytes, char *buf, size_t buf_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    return scaled(bytes, 1024, units, 6, buf, buf_bytes);
}

const char *cli_count_text(double count, char *buf, size_t buf_bytes) {
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    return scaled(count, 1000, units, 6, buf, buf_bytes);
}

const char *cli_time_text(double ns, char *buf, size_t buf_bytes) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scaled(ns, 1000, units, 4, buf, buf_bytes);
}

static char data_folder[4096]; /* set by cli_set_data; "": none */

void cli_set_data(const char *folder) {
    snprintf(data_folder, sizeof data_folder, "%s", folder);
}

bool cli_find_data(const char *name, char *path, size_t path_bytes) {
    static const char *const places[] = {"/../examples/", "/../share/syntorch/", NULL};
    char self[1024];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) *slash = '\0';
    snprintf(path, path_bytes, "%s/%s", data_folder, name);
    if (data_folder[0] && access(path, R_OK) == 0) return true;
    for (int i = 0; slash && places[i]; i++) {
        snprintf(path, path_bytes, "%s%s%s", self, places[i], name);
        if (access(path, R_OK) == 0) return true;
    }
    snprintf(path, path_bytes, "examples/%s", name);
    return access(path, R_OK) == 0;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool cli_find_sibling(const char *weights, const char *name, char *path, size_t path_bytes) {
    const char *slash = strrchr(weights, '/');
    const int folder = is_folder(weights) ? (int)strlen(weights)
                       : slash            ? (int)(slash - weights)
                                          : 0;
    const int n = folder ? snprintf(path, path_bytes, "%.*s/%s", folder, weights, name)
                         : snprintf(path, path_bytes, "%s%s", slash ? "/" : "", name);
    struct stat st;
    return n > 0 && (size_t)n < path_bytes && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

const char *cli_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int cli_cores(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}
