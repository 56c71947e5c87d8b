/* Functions of programs for the Python package, which calls them in its own process. They print
   nothing: messages become errors. */
#ifndef TOOLS_EMBED_H
#define TOOLS_EMBED_H

#include "syntorch/graph/graph.h"

SYN_API_BEGIN

/* The version of the library, such as "0.1.0". */
const char *syn_embed_version(void);
/* Sets the folder with configs/ and the other files that are installed with the programs. */
void syn_embed_set_data(const char *folder);
/* Records ranks of a job on meta, as `synth` does, and joins them to one graph. argv: argc options
   of synth, without --out. --ranks selects the ranks; all by default. The caller frees *out. Only
   one call runs at a time; others wait. */
syn_status syn_embed_trace(syn_graph **out, int argc, const char *const *argv,
                           syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
