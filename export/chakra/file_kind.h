/* Guesses the kind of a file from its first bytes or the first keys of its JSON, so that a file
   given in place of an execution trace is rejected with a message that names its kind. */
#ifndef EXPORT_FILE_KIND_H
#define EXPORT_FILE_KIND_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, description, advice if an execution trace was expected) */
#define SYN__FILE_KIND_LIST(X)                                                                   \
    X(OTHER, NULL, "") /* any other file, which may be an execution trace */                     \
    X(NODE_LINK, "a graph as node-link JSON", "; convert it with `syntorch export --format et`") \
    X(CHAKRA_JSON, "an execution trace as JSON", "; convert it with `syntorch json`")            \
    X(TIMELINE, "a Chrome timeline (traceEvents)",                                               \
      "; if torch.profiler wrote it, convert it with `syntorch convert pytorch`")                \
    X(PYTORCH, "a PyTorch execution trace", "; convert it with `syntorch convert pytorch`")      \
    X(GROUPS, "the list of groups of a set of traces", "")                                       \
    X(JSON, "JSON", "")                                                                          \
    X(SVG, "an SVG picture", "")                                                                 \
    X(GRAPHML, "GraphML", "")                                                                    \
    X(HTML, "an HTML page", "")                                                                  \
    X(XML, "XML", "")                                                                            \
    X(PNG, "a PNG picture", "")                                                                  \
    X(JPEG, "a JPEG picture", "")                                                                \
    X(PDF, "a PDF document", "")                                                                 \
    X(ELF, "a program or library (ELF)", "")                                                     \
    X(GZIP, "compressed with gzip", "")                                                          \
    X(ZIP, "a zip archive", "")                                                                  \
    X(NPY, "a NumPy array", "")                                                                  \
    X(SAFETENSORS, "a safetensors file", "")                                                     \
    X(DOT, "a DOT graph", "")                                                                    \
    X(TEXT, "text", "")

typedef enum syn__file_kind {
#define SYN_X(id, what, hint) SYN__FILE_##id,
    SYN__FILE_KIND_LIST(SYN_X)
#undef SYN_X
        SYN__FILE_KINDS
} syn__file_kind;

syn__file_kind syn__file_kind_of(const char *data, size_t bytes);
/* Describes a kind of file for messages: "a PNG picture". NULL for OTHER. */
const char *syn__file_kind_text(syn__file_kind kind);
/* Fails if the data is certainly not an execution trace. The error names the kind of the file. */
syn_status syn__require_et(const char *name, const char *data, size_t bytes,
                           syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
