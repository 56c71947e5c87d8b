/* The state of a running conversion (syn_pytorch_convert, syn_pytorch_link). */
#ifndef EXPORT_PT_CONVERT_H
#define EXPORT_PT_CONVERT_H

#include "export/pytorch/rank/pt_rank.h"
#include "export/text/input_files.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_conversion {
    const syn_pytorch_source *sources;
    size_t n_sources;
    const char *output;
    const syn_pytorch_options *options;
    syn_pytorch_report *report; /* its ranks already contain the file names of the sources */
    syn__input_files inputs;    /* files that must not be overwritten */
    syn__pt_rank *ranks;        /* one per source; NULL in compat mode */
    size_t n_ranks;             /* number of ranks read so far */
    int64_t n_steps;
} syn__pt_conversion;

/* pt_convert_compat.c: converts in compat mode. Writes a linked trace if `link` is set, otherwise
   an execution trace. */
syn_status syn__pt_convert_compat(syn__pt_conversion *c, bool link, syn_error *err) SYN_MUST_USE;
/* pt_convert_report.c: fills the report of a rank. Call it after the rank was written. */
syn_status syn__pt_report_rank(const syn__pt_conversion *c, size_t rank,
                               syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
