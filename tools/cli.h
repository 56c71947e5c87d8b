/* What the programs share: options, messages, files. Programs print and set the exit code: 0 ok, 1
   failed, 2 usage. */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include <stdio.h>

#include "syntorch/base/status.h"

typedef enum cli_kind {
    CLI_ALIAS, /* an earlier name of the option `arg`; not in --help, nor suggested */
    CLI_FLAG,
    CLI_TEXT,
    CLI_TEXTS, /* one or more, up to the next option; not for cli_parse_inputs */
    CLI_CHOICE,
    CLI_INT,
    CLI_MIB,
    CLI_REAL
} cli_kind;

typedef struct cli_texts {
    const char *const *at; /* n of them: in argv, or the only one, which `one` is */
    int n;                 /* 0: the option was not given */
    const char *one;
} cli_texts;

typedef struct cli_option {
    const char *name; /* without the leading "--"; underscores in it match dashes and the reverse */
    cli_kind kind;
    void *value;      /* bool *, const char **, cli_texts *, int *, int64_t *, uint64_t * (bytes),
                         double *: holds the default */
    const char *arg;  /* name of the value in --help; CLI_CHOICE: the words "auto|full|once", of
                         which the value is the index */
    const char *help; /* NULL: not in --help, nor suggested */
    double min, max;  /* CLI_INT, CLI_MIB, CLI_REAL: allowed range */
} cli_option;

#define CLI_END \
    { NULL, CLI_FLAG, NULL, NULL, NULL, 0, 0 }
/* The option of all commands that read gzip; uint64_t *, 0: the default. */
#define CLI_MAX_UNPACKED(bytes)                                                               \
    {                                                                                         \
        "max_unpacked_mib", CLI_MIB, (bytes), "N",                                            \
            "gzip may unpack to N MiB; default: to 200 times its size, a mebibyte at least, " \
            "16 GiB at most",                                                                 \
            1, 1e9                                                                            \
    }

typedef struct cli_program {
    const char *name, *summary;  /* "inference", what it does in a line or more */
    const cli_option *options;   /* ended by CLI_END */
    const char *const *examples; /* for --help, ended by NULL; NULL: none */
    bool mute;                   /* another rank prints the same message */
} cli_program;

enum { CLI_RUN = -1, CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* What main returns: runs `body` where the stack is large enough, whatever the shell's limit.
   CLI_FAILED in place of CLI_OK if printed text was lost, on a full disk or because standard output
   or standard error is closed. */
int cli_main(const char *name, int (*body)(int argc, char **argv), int argc, char **argv);
/* Reads the options into their values. CLI_RUN: go on; else the exit code, after --help, --version
   or a message. */
int cli_parse(const cli_program *program, int argc, char **argv);
/* Whether an option, named with dashes, is among the arguments, which cli_parse has taken. */
bool cli_was_given(const cli_program *program, int argc, char **argv, const char *name);
/* Options that would do nothing beside others: a user who gives an option should see its effect. */
typedef struct cli_rule {
    bool holds;
    const char *names[13]; /* of options, up to NULL */
    const char *why;       /* such an option is refused: what is behind "--name" in the sentence */
} cli_rule;
/* CLI_RUN, or CLI_USAGE after the sentence of the first rule that holds for a given option. */
int cli_check_rules(const cli_program *program, int argc, char **argv, const cli_rule *rules,
                    size_t n_rules);
/* The option of such a name, which needs no zero behind it; NULL: none. */
const cli_option *cli_find_option(const cli_program *program, const char *name, size_t name_bytes);
/* Gives an option that is no flag its value. CLI_RUN, or CLI_USAGE after a message. */
int cli_set(const cli_program *program, const cli_option *option, const char *text);
/* Whether it could have it; the option keeps the value that it has. */
int cli_check(const cli_program *program, const cli_option *option, const char *text);
/* cli_parse for a command that reads what `input`, the value of --input, names or what arguments
   that are no options do, as all behind "--" are: *paths gets either, *n_paths how many, 1 at
   least. `needed` begins the sentence that they are: "a file is". */
int cli_parse_inputs(const cli_program *program, int argc, char **argv, const char **input,
                     const char *needed, const char *const **paths, size_t *n_paths);
/* The name that a user most likely meant: begin with {NULL, 0} and go through all names. A name
   with more wrong letters than a slip has is not taken. */
typedef struct cli_near {
    const char *name;
    int distance;
} cli_near;
void cli_nearest(cli_near *near, const char *typed, const char *name);
/* "inference: sentence" on standard error, in one line; returns code. */
int cli_fail(const cli_program *program, int code, const char *fmt, ...) SYN_PRINTF(3, 4);
/* From now on such sentences go there, and nothing is printed; NULL: as before. */
void cli_keep_messages(syn_error *in);
/* How a command ends: CLI_OK, or CLI_FAILED after the error's sentence. */
int cli_done(const cli_program *program, syn_status status, const syn_error *err);

/* Bytes as text in one line: what a terminal would obey, and what is not UTF-8, as escapes. */
void cli_print_escaped(FILE *out, const char *text, size_t bytes);
/* The same into buf, for names of files and whatever else comes from outside; cut if it is too
   long. Returns buf. */
const char *cli_shown(const char *text, char *buf, size_t buf_bytes);
#define CLI_SHOWN_BYTES 1024
/* "" for one, else "s". */
const char *cli_plural(uint64_t n);
/* "12.3 KiB", "4.56 G", "1.23 ms"; returns buf. */
const char *cli_bytes_text(double bytes, char *buf, size_t buf_bytes);
const char *cli_count_text(double count, char *buf, size_t buf_bytes);
const char *cli_time_text(double ns, char *buf, size_t buf_bytes);
/* Path of a file that comes with the program (configs/NAME): beside the build, in the installed
   share folder or in the current folder's examples/. False if there is none. */
bool cli_find_data(const char *name, char *path, size_t path_bytes);
/* Path of a file beside weights, in their folder or in that of their file. False: there is none. */
bool cli_find_beside(const char *weights, const char *name, char *path, size_t path_bytes);
int cli_cores(void);
/* Ends the program with a sentence when the limit on address space leaves no room for OpenBLAS,
   whose threads each take 128 MiB and, when they cannot have it, try for ever, also at exit. */
void cli_check_address_space(const cli_program *program);
/* Makes OpenBLAS take the buffers of so many callers at a time while there is room for them, for
   the same reason. */
void cli_take_blas_buffers(int callers);
/* Starts the program anew with OPENBLAS_CORETYPE set when OpenBLAS has chosen lesser kernels than
   this processor runs and nobody forced them; otherwise, or if that is not possible, returns. Call
   it first in main. */
void cli_choose_blas(char **argv);

#endif
