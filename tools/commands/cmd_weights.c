/* syntorch weights: lists the tensors of a checkpoint. */
#include <inttypes.h>
#include <string.h>

#include "models/weights/safetensors.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input;
    bool json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "FILE",
     ".safetensors file, model.safetensors.index.json, or folder with one of them; --input may be "
     "omitted",
     0, 0},
    CLI_JSON(&args.json),
    CLI_END};

static const char *const examples[] = {"syntorch weights model.safetensors",
                                       "syntorch weights --json --input gpt2/", NULL};

static const cli_program program = {"syntorch weights",
                                    "Lists the tensors of a checkpoint in the safetensors format.",
                                    options, examples, false};

/* Sums over the tensors of one dtype. */
typedef struct type_total {
    const char *name;
    size_t tensors;
    int64_t elems;
    uint64_t bytes;
} type_total;

#define MAX_TYPES 32 /* the format has 22 */

/* Adds up the tensors by dtype, in order of first occurrence; returns the number of dtypes. The
   sums cannot overflow: tensors are parts of mapped files, and empty tensors have no elements. */
static size_t sum_up(const syn_safetensors *st, type_total totals[MAX_TYPES], type_total *all) {
    size_t n = 0;
    memset(all, 0, sizeof *all);
    for (size_t i = 0; i < syn_safetensors_count(st); i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(st, i);
        size_t k = 0;
        while (k < n && strcmp(totals[k].name, t->dtype_name) != 0) k++;
        if (k == MAX_TYPES) continue;
        if (k == n) totals[n++] = (type_total){.name = t->dtype_name};
        for (int both = 0; both < 2; both++) {
            type_total *total = both ? all : &totals[k];
            total->tensors++;
            total->elems += t->elems;
            total->bytes += t->bytes;
        }
    }
    return n;
}

/* ---- As a table ---- */

#define SHAPE_BYTES (SYN_SAFETENSORS_RANK * 22 + 3)

static const char *shape_text(const syn_safetensors_tensor *t, char buf[SHAPE_BYTES]) {
    size_t used = 1;
    memcpy(buf, "[", 2);
    for (int d = 0; d < t->rank; d++)
        used += (size_t)snprintf(buf + used, SHAPE_BYTES - used, "%s%" PRId64, d ? ", " : "",
                                 t->dims[d]);
    memcpy(buf + used, "]", 2);
    return buf;
}

static int longer(int width, size_t bytes, int most) {
    if (bytes > (size_t)most) bytes = (size_t)most;
    return (int)bytes > width ? (int)bytes : width;
}

static void print_name(const char *name, int width) {
    const size_t bytes = strlen(name);
    cli_print_escaped(stdout, name, bytes);
    if (bytes < (size_t)width) printf("%*s", width - (int)bytes, "");
}

static void print_table(const syn_safetensors *st) {
    char shape[SHAPE_BYTES];
    const size_t n = syn_safetensors_count(st);
    int name_width = 4, shape_width = 5;
    bool several = false;
    for (size_t i = 0; i < n; i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(st, i);
        name_width = longer(name_width, strlen(t->name), 64);
        shape_width = longer(shape_width, strlen(shape_text(t, shape)), 40);
        several = several || strcmp(t->file, syn_safetensors_get(st, 0)->file) != 0;
    }
    printf("%-*s  %-5s  %-*s  %12s%s\n", name_width, "name", "dtype", shape_width, "shape", "bytes",
           several ? "  file" : "");
    for (size_t i = 0; i < n; i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(st, i);
        print_name(t->name, name_width);
        printf("  %-5s  %-*s  %12" PRIu64, t->dtype_name, shape_width, shape_text(t, shape),
               t->bytes);
        if (several) {
            fputs("  ", stdout);
            print_name(t->file, 0);
        }
        putchar('\n');
    }
}

static void print_total(const char *name, const type_total *total) {
    char count[32], bytes[32];
    printf("%-8s %zu tensor%s, %" PRId64 " parameters (%s), %" PRIu64 " bytes (%s)\n", name,
           total->tensors, cli_plural(total->tensors), total->elems,
           cli_count_text((double)total->elems, count, sizeof count), total->bytes,
           cli_bytes_text((double)total->bytes, bytes, sizeof bytes));
}

static void print_text(const syn_safetensors *st) {
    type_total totals[MAX_TYPES], all;
    const size_t n = sum_up(st, totals, &all);
    print_table(st);
    putchar('\n');
    for (size_t i = 0; i < n; i++) print_total(totals[i].name, &totals[i]);
    if (n != 1) print_total("all", &all);
    for (size_t i = 0; i < syn_safetensors_metadata_count(st); i++) {
        const char *key, *value = syn_safetensors_metadata(st, i, &key);
        fputs("metadata ", stdout);
        print_name(key, 0);
        fputs(" = ", stdout);
        print_name(value, 0);
        putchar('\n');
    }
}

/* ---- As JSON ---- */

static void put_total(syn_sink *sink, const type_total *total) {
    syn_sink_printf(sink, "\"tensors\": %zu, \"parameters\": %" PRId64 ", \"bytes\": %" PRIu64,
                    total->tensors, total->elems, total->bytes);
}

static void put_tensor(syn_sink *sink, const syn_safetensors_tensor *t) {
    char shape[SHAPE_BYTES];
    syn_sink_text(sink, "{\"name\": ");
    syn_sink_json_string(sink, t->name);
    syn_sink_printf(sink, ", \"dtype\": \"%s\", \"shape\": %s, \"bytes\": %" PRIu64 ", \"file\": ",
                    t->dtype_name, shape_text(t, shape), t->bytes);
    syn_sink_json_string(sink, t->file);
    syn_sink_char(sink, '}');
}

static void put_json(syn_sink *sink, const syn_safetensors *st) {
    type_total totals[MAX_TYPES], all;
    const size_t n = sum_up(st, totals, &all);
    syn_sink_text(sink, ", \"totals\": {");
    put_total(sink, &all);
    syn_sink_text(sink, "},\n\"dtypes\": {");
    for (size_t i = 0; i < n; i++) {
        syn_sink_printf(sink, "%s\"%s\": {", i ? ", " : "", totals[i].name);
        put_total(sink, &totals[i]);
        syn_sink_char(sink, '}');
    }
    syn_sink_text(sink, "},\n\"metadata\": {");
    for (size_t i = 0; i < syn_safetensors_metadata_count(st); i++) {
        const char *key, *value = syn_safetensors_metadata(st, i, &key);
        if (i) syn_sink_text(sink, ", ");
        syn_sink_json_string(sink, key);
        syn_sink_text(sink, ": ");
        syn_sink_json_string(sink, value);
    }
    syn_sink_text(sink, "},\n\"tensors\": [");
    for (size_t i = 0; i < syn_safetensors_count(st); i++) {
        syn_sink_text(sink, i ? ",\n" : "\n");
        put_tensor(sink, syn_safetensors_get(st, i));
    }
    syn_sink_char(sink, ']');
}

static syn_status print_json(const syn_safetensors *st, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(cli_json_open(&sink, &program, err));
    put_json(sink, st);
    return cli_json_close(sink, SYN_OK, err);
}

/* ---- The command ---- */

int command_weights(int argc, char **argv) {
    syn_error err = {0};
    syn_safetensors *st = NULL;
    const char *const *paths;
    size_t n;
    int code =
        cli_parse_inputs(&program, argc, argv, &args.input, "a file or folder is", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n > 1) return cli_fail(&program, CLI_USAGE, "weights lists one checkpoint at a time");
    code =
        cli_refuse_standard_input(&program, paths[0], "a file at several positions, or a folder");
    if (code != CLI_RUN) return code;
    syn_status s = syn_safetensors_open(&st, paths[0], &err);
    if (s == SYN_OK && args.json) s = print_json(st, &err);
    else if (s == SYN_OK) print_text(st);
    syn_safetensors_free(st);
    return cli_done(&program, s, &err);
}
