/* The subcommands of `syntorch`. Each gets its own arguments, with its name as argv[0], and returns
   the exit code. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

typedef struct command {
    const char *group;   /* heading in the list of commands */
    const char *name;    /* one word, or two: "convert text" */
    const char *summary; /* a line of at most 60 characters */
    int (*run)(int argc, char **argv);
    bool has_options; /* whether it has a cli_program */
} command;

extern const command syntorch_commands[]; /* by group; the last has no name */
/* Returns the command that the first arguments name, and sets *n_words to their number; NULL: there
   is none. */
const command *syntorch_find(int argc, char **argv, int *n_words);
/* Whether the name is a command whose second word is missing: `convert`. */
bool syntorch_is_family(const char *name);
/* Lists the commands that begin with this word. */
void syntorch_list_family(const char *name, FILE *out);
/* Lists all commands and returns `code`. */
int syntorch_usage(FILE *out, int code);

/* Runs the command that argv[1] names, or the one after which argv[0] is named, such as
   `build/inference`. Returns the exit code. It can be called again, but not concurrently. */
int syntorch_program(int argc, char **argv);

int command_astra_sim(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_convert_all(int argc, char **argv);
int command_convert_pytorch(int argc, char **argv);
int command_convert_text(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_expand(int argc, char **argv);
int command_export(int argc, char **argv);
int command_help(int argc, char **argv);
int command_json(int argc, char **argv);
int command_link(int argc, char **argv);
int command_man(int argc, char **argv);
int command_repair(int argc, char **argv);
int command_simulate(int argc, char **argv);
int command_stamp(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_validate(int argc, char **argv);
int command_view(int argc, char **argv);
int command_weights(int argc, char **argv);
int command_what_if(int argc, char **argv);

#endif
