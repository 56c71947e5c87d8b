/* The JSON object that a program prints with --json. Its first member, "schema", names the members
   that follow; docs/commands.md lists them. After a failure the object has the error instead. A run
   prints at most one object. */
#ifndef TOOLS_CLI_JSON_H
#define TOOLS_CLI_JSON_H

#include "syntorch/base/sink.h"
#include "tools/cli.h"

/* Called by cli_parse: finds out whether --json is among the arguments, also if they are wrong. */
void cli_json_begin(const cli_program *program, int argc, char **argv);
/* Whether --json was given. */
bool cli_json_wanted(const cli_program *program);
/* Called by cli_fail: prints an object with the error if --json was given and this run has printed
   no object yet. */
void cli_json_fail(const cli_program *program, int code, const char *message);

/* Begins an object in memory: writes {"schema": "syntorch.<command>/1". The caller appends members,
   each after a comma, and calls cli_json_close. */
syn_status cli_json_open(syn_sink **json, const cli_program *program, syn_error *err) SYN_MUST_USE;
/* The same with the schema syntorch.<name>/1. */
syn_status cli_json_open_as(syn_sink **json, const char *name, syn_error *err) SYN_MUST_USE;
/* Ends the object and begins another one in the next line. */
void cli_json_next(syn_sink *json, const cli_program *program);
/* Ends the object, prints it if `status` is SYN_OK, and frees the sink, which may be NULL. Returns
   the first failure. */
syn_status cli_json_close(syn_sink *json, syn_status status, syn_error *err);
/* Returns CLI_RUN, or CLI_USAGE after an error message if --json was given and a file `path`, the
   value of `option`, is "-", because both write to standard output. path may be NULL. */
int cli_json_check_output(const cli_program *program, const char *option, const char *path);

/* Append a member, after a comma. text NULL: null. */
void cli_json_text(syn_sink *json, const char *key, const char *text);
void cli_json_count(syn_sink *json, const char *key, uint64_t value);
void cli_json_real(syn_sink *json, const char *key, double value);
void cli_json_bool(syn_sink *json, const char *key, bool value);
/* The member "error" of an object that also has results. */
void cli_json_error(syn_sink *json, int code, const char *message);

/* The member "written": a list of files with their paths and sizes. */
void cli_json_begin_written(syn_sink *json);
/* Adds a file; NULL and files that do not exist are ignored. `first`: whether it is the first of
   the list; set to false. */
void cli_json_add_written(syn_sink *json, const char *path, bool *first);
/* Adds the group file beside an .et file. */
void cli_json_add_written_groups(syn_sink *json, const char *et_path, bool *first);
/* Adds the files <prefix>.<rank>.et and <prefix>.comm_group.json. */
syn_status cli_json_add_written_set(syn_sink *json, const char *prefix, bool *first,
                                    syn_error *err) SYN_MUST_USE;
/* Appends the whole member for one file. */
void cli_json_written(syn_sink *json, const char *path);
/* Appends the whole member for the files of a trace set. */
syn_status cli_json_written_set(syn_sink *json, const char *prefix, syn_error *err) SYN_MUST_USE;

/* Notes, which are lines of the printed report, or elements of the member "notes". */
typedef struct cli_notes {
    FILE *out;      /* where "note: ..." is printed if json is NULL */
    syn_sink *json; /* the object, to which cli_notes_begin and cli_notes_end add the member */
    size_t n;
} cli_notes;

cli_notes cli_notes_begin(syn_sink *json, FILE *out);
/* Adds a note. `kind` is "note" or "warning"; a line break and its indentation become one space in
   JSON. */
void cli_note(cli_notes *notes, const char *kind, const char *fmt, ...) SYN_PRINTF(3, 4);
void cli_notes_end(cli_notes *notes);

#endif
