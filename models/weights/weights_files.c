/* Divides a model's tensors into files of limited size, opens these files, and writes their index.
   weights_save.c writes the contents. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "models/weights/weights_private.h"
#include "syntorch/base/memory.h"

enum { NAME_BYTES = 64 };

size_t syn__weights_file_entries(const syn__weights_files *f, size_t first) {
    uint64_t bytes = 0;
    size_t n = 0;
    for (; first + n < f->n_entries; n++) {
        const uint64_t more = syn_spec_bytes(&f->entries[first + n].spec);
        if (n > 0 && more > f->most - bytes) break;
        bytes += more < f->most ? more : f->most;
    }
    return n;
}

syn__weights_files syn__weights_files_of(const char *folder, const syn_safetensors_entry *entries,
                                         size_t n_entries, uint64_t most) {
    syn__weights_files f = {folder, entries, n_entries, 0, most};
    size_t at = 0;
    do {
        at += syn__weights_file_entries(&f, at);
        f.n_files++;
    } while (at < n_entries);
    return f;
}

static const char *file_name(const syn__weights_files *f, size_t i, char buf[NAME_BYTES]) {
    if (f->n_files == 1) snprintf(buf, NAME_BYTES, "model.safetensors");
    else snprintf(buf, NAME_BYTES, "model-%05zu-of-%05zu.safetensors", i + 1, f->n_files);
    return buf;
}

static syn_status open_in(syn_sink **out, const char *folder, const char *name, syn_error *err) {
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = syn_malloc(bytes);
    if (!path) return SYN_FAIL_NOMEM(err, bytes, "a file name");
    snprintf(path, bytes, "%s/%s", folder, name);
    const syn_status s = syn_sink_open_file(out, path, err);
    syn_free(path);
    return s;
}

syn_status syn__weights_file_open(syn_sink **out, const syn__weights_files *f, size_t i,
                                  syn_error *err) {
    char name[NAME_BYTES];
    return open_in(out, f->folder, file_name(f, i, name), err);
}

static void put_map(const syn__weights_files *f, syn_sink *sink) {
    char name[NAME_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < f->n_files; i++)
        for (size_t n = syn__weights_file_entries(f, at); n > 0; n--, at++) {
            syn_sink_text(sink, at ? ",\n    " : "\n    ");
            syn_sink_json_string(sink, f->entries[at].name);
            syn_sink_printf(sink, ": \"%s\"", file_name(f, i, name));
        }
}

syn_status syn__weights_write_index(const syn__weights_files *f, syn_error *err) {
    uint64_t bytes = 0, elems = 0;
    syn_sink *sink;
    if (f->n_files == 1) return SYN_OK;
    for (size_t i = 0; i < f->n_entries; i++) {
        bytes += syn_spec_bytes(&f->entries[i].spec);
        elems += (uint64_t)syn_spec_elems(&f->entries[i].spec);
    }
    SYN_TRY(open_in(&sink, f->folder, "model.safetensors.index.json", err));
    syn_sink_printf(sink,
                    "{\n  \"metadata\": {\n    \"total_parameters\": %" PRIu64
                    ",\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
                    elems, bytes);
    put_map(f, sink);
    syn_sink_text(sink, "\n  }\n}\n");
    return syn_sink_close(sink, true, err);
}
