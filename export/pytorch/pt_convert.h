/* State of a running conversion (syn_pytorch_convert, syn_pytorch_link). */
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
    syn_pytorch_report *report; /* its ranks already have the file names of the sources */
    syn__input_files inputs;    /* files that must not be overwritten */
    syn__pt_rank *ranks;        /* default mode only */
    size_t n_ranks;             /* number of ranks read so far */
    int64_t n_steps;
} syn__pt_conversion;

/* pt_convert_compat.c: compat mode; writes an execution trace, or a linked trace if `link`. */
syn_status syn__pt_convert_compat(syn__pt_conversion *c, bool link, syn_error *err) SYN_MUST_USE;
/* pt_convert_report.c: fills the rank's report. Called when the rank is written. */
syn_status syn__pt_report_rank(const syn__pt_conversion *c, size_t rank,
                               syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
