/* Reads a graph in any of our formats, detected by content. */
#include <stdio.h>
#include <string.h>

#include "export/chakra/et_import.h"
#include "export/chakra/file_kind.h"
#include "export/chakra/wire/et_files.h"
#include "export/export.h"
#include "syntorch/base/memory.h"

#define READ_HERE "supported inputs are node-link JSON, Chakra JSON and Chakra .et"

/* Returns why a file of that kind cannot be imported, as the end of a sentence; NULL: a reader
   tries it. Unrecognized JSON is tried, because the JSON reader reports errors in broken JSON. */
static const char *refusal(syn__file_kind kind) {
    switch (kind) {
    case SYN__FILE_OTHER:
    case SYN__FILE_GZIP: /* for gzip, the reader's error says what to do */
    case SYN__FILE_NODE_LINK:
    case SYN__FILE_CHAKRA_JSON:
    case SYN__FILE_JSON:
        return NULL;
    case SYN__FILE_TIMELINE:
        return ", which has no graph";
    case SYN__FILE_PYTORCH:
    case SYN__FILE_XML:
        return kind == SYN__FILE_XML ? ", which cannot be read"
                                     : ", which this command cannot read";
    case SYN__FILE_GRAPHML:
        return ", which can be written but not read";
    default:
        return ", not a graph";
    }
}

static syn_status import_content(syn_graph **out, const char *path, const char *data, size_t bytes,
                                 syn_error *err) {
    const syn__file_kind kind = syn__file_kind_of(data, bytes);
    const char *why = refusal(kind);
    if (kind == SYN__FILE_GROUPS)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%.200s lists the groups of a set of traces; name one of its .et files or "
                        "their common prefix instead",
                        path);
    if (why != NULL)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%.200s is %s%s; " READ_HERE, path,
                        syn__file_kind_text(kind), why);
    if (kind == SYN__FILE_CHAKRA_JSON) return syn__et_import_chakra(out, path, data, bytes, err);
    if (kind == SYN__FILE_NODE_LINK || kind == SYN__FILE_JSON)
        return syn_import_json_memory(out, path, data, bytes, err);
    return syn__et_import_file(out, path, data, bytes, err);
}

/* Whether the trace set <path>.<rank>.et exists, that is, has a file for rank 0, and no file has
   the name `path` itself. */
static bool is_prefix(const char *path) {
    char name[4096];
    const int bytes = snprintf(name, sizeof name, "%s.0.et", path);
    return bytes > 0 && (size_t)bytes < sizeof name && syn_file_exists(name) &&
           !syn_file_exists(path);
}

syn_status syn_import_any(syn_graph **out, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    *out = NULL;
    if (is_prefix(path)) return syn__et_import_set(out, path, strlen(path), err);
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = import_content(out, syn_input_name(path), data, bytes, err);
    syn_free(data);
    return status;
}
