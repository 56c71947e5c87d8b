/* Command-line handling shared by all programs: options, messages, number formats and data files.
   The library returns errors; only programs print messages and set the exit code: 0 for success, 1
   for failure, 2 for wrong usage. */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include <stdio.h>

#include "syntorch/base/status.h"

typedef enum cli_kind {
    CLI_HEADING, /* no option: `name` is the heading of the following options in --help */
    CLI_ALIAS,   /* an earlier name of the option `arg`; not in --help and never suggested */
    CLI_FLAG,
    CLI_TEXT,
    CLI_TEXTS, /* one or more values, up to the next option; cli_parse_inputs does not support it */
    CLI_CHOICE,
    CLI_INT,
    CLI_MIB,
    CLI_REAL
} cli_kind;

typedef struct cli_texts {
    const char *const *at; /* n values, in argv or at &one */
    int n;                 /* 0: the option was not given */
    const char *one;       /* a value given as --option=value */
} cli_texts;

typedef struct cli_option {
    const char *name; /* without the leading "--"; "_" and "-" are interchangeable */
    cli_kind kind;
    void *value;      /* where the value is stored; holds the default before parsing. Depending on
                         `kind` it points to a bool, const char *, cli_texts, int, int64_t, uint64_t
                         (bytes) or double */
    const char *arg;  /* name of the value in --help; for CLI_CHOICE the accepted words, such as
                         "auto|full|once", and the value is the index of the word */
    const char *help; /* text for --help; NULL: not in --help and never suggested */
    double min, max;  /* allowed range for CLI_INT, CLI_MIB and CLI_REAL */
} cli_option;

/* The heading of a group of options in --help. */
#define CLI_GROUP(title) \
    { title, CLI_HEADING, NULL, NULL, NULL, 0, 0 }
#define CLI_END \
    { NULL, CLI_FLAG, NULL, NULL, NULL, 0, 0 }
/* The option --max_unpacked_mib, for all commands that read gzip. bytes: uint64_t *; a value of 0
   selects the default limit. */
#define CLI_MAX_UNPACKED(bytes)                                                                   \
    {                                                                                             \
        "max_unpacked_mib", CLI_MIB, (bytes), "N",                                                \
            "limit unpacked gzip input to N MiB; default: 200 times the file's size, at least 1 " \
            "MiB and at most 16 GiB",                                                             \
            1, 1e9                                                                                \
    }

/* The option --json of commands whose printed text becomes an object. wanted: bool * */
#define CLI_JSON(wanted) \
    { "json", CLI_FLAG, (wanted), NULL, "print one JSON object (docs/commands.md)", 0, 0 }

typedef struct cli_program {
    const char *name, *summary;  /* name such as "inference"; one or more lines for --help */
    const cli_option *options;   /* terminated by CLI_END */
    const char *const *examples; /* for --help, terminated by NULL; NULL: none */
    bool mute;                   /* print nothing, because another rank prints the same messages */
} cli_program;

enum { CLI_RUN = -1, CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* The body of main: runs `body` on a stack that is large enough regardless of the shell's limit,
   and returns its exit code. Returns CLI_FAILED instead of CLI_OK if printed text was lost, because
   the disk is full or because standard output or standard error is closed. */
int cli_main(const char *name, int (*body)(int argc, char **argv), int argc, char **argv);
/* Sets the options to their defaults: the values that they had before the first call for this
   table. Returns false if memory is exhausted. */
bool cli_restore_defaults(const cli_option *options);
/* Restores the defaults, parses the arguments and stores the options' values. Returns CLI_RUN, or
   an exit code after
   --help, --version or an error message. */
int cli_parse(const cli_program *program, int argc, char **argv);
/* Whether the option `name` (without "--") is among the arguments. Call cli_parse first. */
bool cli_was_given(const cli_program *program, int argc, char **argv, const char *name);
/* A rule that rejects options which would have no effect together with the other options, because a
   user who gives an option expects an effect. */
typedef struct cli_rule {
    bool holds;            /* whether the rule applies */
    const char *names[13]; /* names of the options that the rule rejects, terminated by NULL */
    const char *why;       /* the rest of the error message after "--name " */
} cli_rule;
/* Applies the rules in order. Returns CLI_RUN, or CLI_USAGE after the error message of the first
   rule that rejects an option among the arguments. */
int cli_check_rules(const cli_program *program, int argc, char **argv, const cli_rule *rules,
                    size_t n_rules);
/* Returns the option with this name, which need not be null-terminated; for an alias, the option
   that it stands for. NULL: unknown name. */
const cli_option *cli_find_option(const cli_program *program, const char *name, size_t name_bytes);
/* Sets an option other than a flag to the value `text`. Returns CLI_RUN, or CLI_USAGE after an
   error message. */
int cli_set(const cli_program *program, const cli_option *option, const char *text);
/* Checks the value like cli_set, but does not change the option's value. */
int cli_check(const cli_program *program, const cli_option *option, const char *text);
/* cli_parse for commands that read files, given either by --input (stored in *input) or as
   arguments that are not options; all arguments after "--" are files. Sets *paths and *n_paths, at
   least 1. `needed` is the beginning of the error message if no file is given: "a file is".
   Reorders argv. */
int cli_parse_inputs(const cli_program *program, int argc, char **argv, const char **input,
                     const char *needed, const char *const **paths, size_t *n_paths);
/* Prints something about a program, such as --help. */
typedef void cli_help(const cli_program *program, const void *user);
/* Makes cli_parse call `print` when it finds --help; NULL: cli_print_help again. */
void cli_set_help(cli_help *print, const void *user);
void cli_print_help(const cli_program *program, const void *unused);
/* Prints a man page. user: const char *, what the program does in a few words. */
void cli_print_man(const cli_program *program, const void *user);
typedef const char *cli_word_at(size_t i); /* word i of a list; NULL after the last */
typedef struct cli_completed {
    const char *name;      /* of the command */
    cli_word_at *model_at; /* names of models */
} cli_completed;
/* Print the part of a completion script that is about one command. user: const cli_completed *. */
void cli_print_bash(const cli_program *program, const void *user);
void cli_print_zsh(const cli_program *program, const void *user);
void cli_print_fish(const cli_program *program, const void *user);
/* Prints text in bold on a terminal. */
void cli_print_heading(const char *text);
/* Whether to print with colours: `out` is a terminal, and NO_COLOR is not set. */
bool cli_style(FILE *out);
/* Writes "[value]" for an option that has a default, else "", and returns buf. */
const char *cli_default_text(const cli_option *o, char *buf, size_t buf_bytes);
/* Prints the program's name and the formatted message as one line on standard error ("inference:
   ..."), with --json also an object with the message on standard output, and returns `code`. */
int cli_fail(const cli_program *program, int code, const char *fmt, ...) SYN_PRINTF(3, 4);
/* Makes cli_fail store its messages in *in instead of printing them; NULL: print them again. */
void cli_keep_messages(syn_error *in);
/* Returns the exit code of a command: CLI_OK, or CLI_FAILED after printing the error's message. */
int cli_done(const cli_program *program, syn_status status, const syn_error *err);

/* Prints text in one line. Escapes control characters, and bytes that are not UTF-8. */
void cli_print_escaped(FILE *out, const char *text, size_t bytes);
/* Writes the escaped text to buf, truncated if it is too long, and returns buf. Used for file names
   and other text that the program did not create. */
const char *cli_shown(const char *text, char *buf, size_t buf_bytes);
#define CLI_SHOWN_BYTES 1024
/* Returns "" if n is 1, otherwise "s". */
const char *cli_plural(uint64_t n);
/* Format a number as "12.3 KiB", "4.56 G" or "1.23 ms"; return buf. */
const char *cli_bytes_text(double bytes, char *buf, size_t buf_bytes);
const char *cli_count_text(double count, char *buf, size_t buf_bytes);
const char *cli_time_text(double ns, char *buf, size_t buf_bytes);
/* Finds the path of a file that is installed with the program (configs/NAME): in examples/ next to
   the build folder, in the installed share folder, or in examples/ of the current folder. Returns
   false if it does not exist. */
bool cli_find_data(const char *name, char *path, size_t path_bytes);
/* Makes cli_find_data look in the folder `folder` first, for code that is part of another
   program. */
void cli_set_data(const char *folder);
/* Finds the path of the file `name` next to weights: in the folder `weights`, or in the folder of
   the file `weights`. Returns false if it does not exist. */
bool cli_find_sibling(const char *weights, const char *name, char *path, size_t path_bytes);
/* Returns the part of the path after the last slash. */
const char *cli_base_name(const char *path);
int cli_cores(void);
/* Makes OpenBLAS allocate the buffers for `callers` concurrent callers now, while memory is
   available, because a later allocation that fails would be retried forever. Does nothing if the
   address space is not limited. */
void cli_take_blas_buffers(int callers);

#endif
