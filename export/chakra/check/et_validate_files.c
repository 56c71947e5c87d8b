/* Validates files: finds the files of a set and the rank of each, handles traces of real runs, and
   writes the result as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "export/chakra/check/et_validate.h"
#include "export/chakra/file_kind.h"
#include "export/chakra/wire/et_files.h"
#include "export/text/file_text.h"
#include "syntorch/base/memory.h"

static syn_status add_groups(syn_validator *v, const syn__et_files *files, const char *path,
                             syn_error *err) {
    char *data;
    size_t bytes;
    if (path == NULL && !v->how.single) path = files->groups;
    if (path == NULL) return SYN_OK;
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn_validator_groups(v, path, data, bytes, err);
    syn_free(data);
    return status;
}

static syn_status add_file(syn_validator *v, const syn__et_file *file, syn_error *err) {
    syn__file_text input;
    SYN_TRY(syn__file_text_open(&input, file->path, v->how.max_unpacked_bytes, err));
    syn_status status = syn__require_et(input.name, input.data, input.bytes, err);
    if (input.packed && !v->how.any_node)
        syn__report_finding(
            v, SYN_FINDING_FRAME, (syn__finding_location){file->rank, false, 0, 0},
            "the file is compressed with gzip, which simulators do not read; unpack it");
    if (status == SYN_OK) status = syn_validator_add(v, file->rank, input.data, input.bytes, err);
    syn__file_text_close(&input);
    return status;
}

/* Reports the missing ranks `from` to `to` - 1 as one finding. */
static void report_missing(syn_validator *v, int32_t from, int32_t to) {
    const syn__finding_location spot = {from, false, 0, SYN__ET_NO_OFFSET};
    if (from + 1 == to)
        syn__report_finding(v, SYN_FINDING_MISSING, spot, "the set has no file for this rank");
    else if (from < to)
        syn__report_finding(v, SYN_FINDING_MISSING, spot,
                            "the set has no files for it and the ranks up to %" PRId32, to - 1);
}

static syn_status check_files(syn_validator *v, const syn__et_files *files, const char *groups,
                              syn_error *err) {
    SYN_TRY(add_groups(v, files, groups, err));
    for (size_t i = 0; i < files->n; i++) {
        const syn__et_file *file = &files->list[i];
        if (files->is_set) report_missing(v, i == 0 ? 0 : file[-1].rank + 1, file->rank);
        SYN_TRY(add_file(v, file, err));
    }
    /* A run that was killed leaves some files and no group file. A set with a group file may have
       fewer files on purpose. */
    if (files->is_set && files->groups == NULL && groups == NULL)
        report_missing(v, files->list[files->n - 1].rank + 1, v->stated_world);
    return SYN_OK;
}

static void report_recording(syn_validator *v, const syn_validation *seen) {
    syn__report_finding(
        v, SYN_FINDING_RECORDING, (syn__finding_location){-1, false, 0, SYN__ET_NO_OFFSET},
        "this is a trace of a real run: %" PRIu64 " of its %" PRIu64
        " compute nodes are CPU ops, which simulators do not run; `syntorch convert pytorch "
        "--profile astra-sim` converts the recording to a trace that simulators run. This file "
        "is checked as a recording (--any_node, --single)",
        seen->n_on_cpu, seen->n_compute);
}

/* recording: the result of a first check, which found a trace of a real run; NULL: this is the
   first check. */
static syn_status check_set(syn_validation *out, const syn__et_files *files,
                            const syn_validate_options *how, const syn_validation *recording,
                            syn_error *err) {
    syn_validator *v;
    const bool alone = files->n == 1 && !files->is_set;
    const uint32_t world = alone ? 0 : (uint32_t)files->list[files->n - 1].rank + 1;
    SYN_TRY(syn_validator_open(&v, how, world, err));
    if (recording != NULL) report_recording(v, recording);
    const syn_status status = check_files(v, files, how->groups, err);
    const syn_status closed = syn_validator_close(v, status == SYN_OK ? out : NULL, err);
    return status != SYN_OK ? status : closed;
}

/* Checks a trace of a real run again, with options that accept host ops. In the first check, every
   host op is a problem because simulators do not run it. The second check reports this only
   once. */
static syn_status check_recording(syn_validation *out, const syn__et_files *files,
                                  const syn_validate_options *options, syn_error *err) {
    const syn_validation seen = *out;
    syn_validate_options how = *options;
    *(files->n == 1 ? &how.single : &how.any_node) = true;
    syn_validation_free(out);
    return check_set(out, files, &how, &seen, err);
}

syn_status syn_validate(syn_validation *out, const char *const *paths, size_t n,
                        const syn_validate_options *options, syn_error *err) {
    syn__et_files files;
    *out = (syn_validation){0};
    if (options->single && n != 1)
        return SYN_FAIL(err, SYN_E_INVALID, "--single needs one file, but %zu were given", n);
    SYN_TRY(syn__et_files_open(&files, paths, n, err));
    syn_status status = SYN_OK;
    if (options->single && files.n != 1)
        status = SYN_FAIL(err, SYN_E_INVALID, "%.300s is a set of %zu files; name one of them",
                          paths[0], files.n);
    if (status == SYN_OK) status = check_set(out, &files, options, NULL, err);
    if (status == SYN_OK && !options->any_node && !options->single &&
        syn_validation_is_recording(out))
        status = check_recording(out, &files, options, err);
    syn__et_files_close(&files);
    return status;
}

/* ---- JSON ---- */

static void put_finding(syn_sink *sink, const syn_finding *f) {
    syn_sink_printf(sink, "{\"rank\": %" PRId32, f->rank);
    if (f->has_node) syn_sink_printf(sink, ", \"node\": %" PRIu64, f->node);
    if (f->has_offset) syn_sink_printf(sink, ", \"offset\": %" PRIu64, f->offset);
    syn_sink_text(sink, ", \"text\": ");
    syn_sink_json_string(sink, f->text);
    syn_sink_char(sink, '}');
}

static void put_kind(syn_sink *sink, const syn_validation *v, syn_finding_kind kind) {
    bool first = true;
    syn_sink_printf(sink, "{\"kind\": \"%s\", \"problem\": %s, \"count\": %" PRIu64 ", \"why\": ",
                    syn_finding_name(kind), syn_finding_is_problem(kind) ? "true" : "false",
                    v->counts[kind]);
    syn_sink_json_string(sink, syn_finding_why(kind));
    syn_sink_text(sink, ", \"examples\": [");
    for (size_t i = 0; i < v->n_findings; i++) {
        if (v->findings[i].kind != kind) continue;
        syn_sink_text(sink, first ? "\n  " : ",\n  ");
        put_finding(sink, &v->findings[i]);
        first = false;
    }
    syn_sink_text(sink, "]}");
}

void syn_validation_json_members(const syn_validation *v, syn_sink *sink) {
    bool first = true;
    syn_sink_printf(sink,
                    "\"files\": %" PRIu32 ", \"nodes\": %" PRIu64 ", \"dependencies\": %" PRIu64
                    ", \"collectives\": %" PRIu64 ", \"sends\": %" PRIu64 ", \"receives\": %" PRIu64
                    ",\n\"across\": %s, \"executed\": %s, \"problems\": %" PRIu64
                    ", \"warnings\": %" PRIu64 ",\n\"findings\": [",
                    v->n_files, v->n_nodes, v->n_deps, v->n_collectives, v->n_sends, v->n_recvs,
                    v->across ? "true" : "false", v->executed ? "true" : "false", v->n_problems,
                    v->n_warnings);
    for (int kind = 0; kind < SYN_FINDING_KINDS; kind++) {
        if (v->counts[kind] == 0) continue;
        syn_sink_text(sink, first ? "\n " : ",\n ");
        put_kind(sink, v, (syn_finding_kind)kind);
        first = false;
    }
    syn_sink_char(sink, ']');
}

void syn_validation_json(const syn_validation *v, syn_sink *sink) {
    syn_sink_char(sink, '{');
    syn_validation_json_members(v, sink);
    syn_sink_text(sink, "}\n");
}
