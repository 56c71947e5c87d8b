/* Writes the JSON object of --json: its schema, the members that several programs share, and the
   error after a failure. It is separate from cli.c because it depends on sinks and trace sets. */
#include "tools/cli_json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "export/chakra/wire/et_files.h"

enum { SCHEMA_BYTES = 32 };

static bool printed; /* whether this run has printed its object */

static const cli_option *json_option(const cli_program *program) {
    return cli_find_option(program, "json", 4);
}

void cli_json_begin(const cli_program *program, int argc, char **argv) {
    const cli_option *o = json_option(program);
    printed = false;
    if (o != NULL) *(bool *)o->value = cli_was_given(program, argc, argv, "json");
}

bool cli_json_wanted(const cli_program *program) {
    const cli_option *o = json_option(program);
    return o != NULL && *(const bool *)o->value;
}

/* ---- The object ---- */

static void begin(syn_sink *json, const char *name) {
    syn_sink_printf(json, "{\"schema\": \"syntorch.%s/1\"", name);
}

syn_status cli_json_open_as(syn_sink **json, const char *name, syn_error *err) {
    SYN_TRY(syn_sink_open_memory(json, err));
    begin(*json, name);
    return SYN_OK;
}

/* Returns the program's name in a schema: "convert-text" for "syntorch convert text". In a rank's
   own message a colon ends the name: "synth: rank 3". */
static const char *schema_name(const cli_program *program, char name[SCHEMA_BYTES]) {
    static const char all[] = "syntorch ";
    const bool has_all = strncmp(program->name, all, sizeof all - 1) == 0;
    snprintf(name, SCHEMA_BYTES, "%s", program->name + (has_all ? sizeof all - 1 : 0));
    name[strcspn(name, ":")] = '\0';
    for (char *c = name; *c != '\0'; c++)
        if (*c == ' ') *c = '-';
    return name;
}

syn_status cli_json_open(syn_sink **json, const cli_program *program, syn_error *err) {
    char name[SCHEMA_BYTES];
    return cli_json_open_as(json, schema_name(program, name), err);
}

void cli_json_next(syn_sink *json, const cli_program *program) {
    char name[SCHEMA_BYTES];
    syn_sink_text(json, "}\n");
    begin(json, schema_name(program, name));
}

/* Prints the contents of a memory sink. */
static syn_status print(syn_sink *json, syn_error *err) {
    size_t bytes;
    syn_sink *out;
    const char *text = syn_sink_data(json, &bytes);
    if (text == NULL) return syn_sink_close(json, true, err);
    syn_status s = syn_sink_open_file(&out, "-", err);
    if (s == SYN_OK) {
        syn_sink_write(out, text, bytes);
        s = syn_sink_close(out, true, err);
    }
    (void)syn_sink_close(json, false, NULL);
    return s;
}

syn_status cli_json_close(syn_sink *json, syn_status status, syn_error *err) {
    if (json == NULL || status != SYN_OK) {
        (void)syn_sink_close(json, false, NULL);
        return status;
    }
    syn_sink_text(json, "}\n");
    printed = true;
    return print(json, err);
}

void cli_json_error(syn_sink *json, int code, const char *message) {
    syn_sink_text(json, ", \"error\": {\"message\": ");
    syn_sink_json_string(json, message);
    syn_sink_printf(json, ", \"exit_code\": %d}", code);
}

void cli_json_fail(const cli_program *program, int code, const char *message) {
    syn_sink *json;
    if (printed || !cli_json_wanted(program)) return;
    if (cli_json_open(&json, program, NULL) != SYN_OK) return;
    cli_json_error(json, code, message);
    (void)cli_json_close(json, SYN_OK, NULL);
}

int cli_json_check_output(const cli_program *program, const char *option, const char *path) {
    if (!cli_json_wanted(program) || path == NULL || strcmp(path, "-") != 0) return CLI_RUN;
    return cli_fail(program, CLI_USAGE, "--json and --%s - both write to standard output; omit one",
                    option);
}

/* ---- Members ---- */

void cli_json_text(syn_sink *json, const char *key, const char *text) {
    syn_sink_printf(json, ", \"%s\": ", key);
    if (text != NULL) syn_sink_json_string(json, text);
    else syn_sink_text(json, "null");
}

void cli_json_count(syn_sink *json, const char *key, uint64_t value) {
    syn_sink_printf(json, ", \"%s\": %" PRIu64, key, value);
}

void cli_json_real(syn_sink *json, const char *key, double value) {
    syn_sink_printf(json, ", \"%s\": ", key);
    syn_sink_double(json, value);
}

void cli_json_bool(syn_sink *json, const char *key, bool value) {
    syn_sink_printf(json, ", \"%s\": %s", key, value ? "true" : "false");
}

/* ---- Files ---- */

void cli_json_begin_written(syn_sink *json) {
    syn_sink_text(json, ", \"written\": [");
}

void cli_json_add_written(syn_sink *json, const char *path, bool *first) {
    struct stat info;
    if (path == NULL || stat(path, &info) != 0) return;
    syn_sink_text(json, *first ? "{\"path\": " : ", {\"path\": ");
    syn_sink_json_string(json, path);
    syn_sink_printf(json, ", \"bytes\": %llu}", (unsigned long long)info.st_size);
    *first = false;
}

void cli_json_add_written_groups(syn_sink *json, const char *et_path, bool *first) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%.*s.comm_group.json",
                           (int)syn__et_prefix_bytes(et_path), et_path);
    if (n < (int)sizeof path) cli_json_add_written(json, path, first);
}

syn_status cli_json_add_written_set(syn_sink *json, const char *prefix, bool *first,
                                    syn_error *err) {
    syn__et_files files;
    SYN_TRY(syn__et_files_of_prefix(&files, prefix, strlen(prefix), err));
    for (size_t i = 0; i < files.n; i++) cli_json_add_written(json, files.list[i].path, first);
    cli_json_add_written(json, files.groups, first);
    syn__et_files_close(&files);
    return SYN_OK;
}

void cli_json_written(syn_sink *json, const char *path) {
    bool first = true;
    cli_json_begin_written(json);
    cli_json_add_written(json, path, &first);
    syn_sink_char(json, ']');
}

syn_status cli_json_written_set(syn_sink *json, const char *prefix, syn_error *err) {
    bool first = true;
    cli_json_begin_written(json);
    SYN_TRY(cli_json_add_written_set(json, prefix, &first, err));
    syn_sink_char(json, ']');
    return SYN_OK;
}

/* ---- Notes ---- */

cli_notes cli_notes_begin(syn_sink *json, FILE *out) {
    if (json != NULL) syn_sink_text(json, ", \"notes\": [");
    return (cli_notes){out, json, 0};
}

/* Replaces a line break and the spaces behind it by one space. */
static void join_lines(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        const bool breaks = *from == '\n';
        *to++ = breaks ? ' ' : *from;
        from += breaks ? 1 + strspn(from + 1, " ") : 1;
    }
    *to = '\0';
}

void cli_note(cli_notes *notes, const char *kind, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (notes->json == NULL) {
        fprintf(notes->out, "%s: %s\n", kind, text);
        return;
    }
    join_lines(text);
    if (notes->n++ > 0) syn_sink_text(notes->json, ", ");
    syn_sink_json_string(notes->json, text);
}

void cli_notes_end(cli_notes *notes) {
    if (notes->json != NULL) syn_sink_char(notes->json, ']');
}
