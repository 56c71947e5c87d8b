/* Conversion of PyTorch traces, shared by `convert pytorch`, `convert-all` and `link`: finding the
   files of all ranks, converting, and printing the report. */
#ifndef TOOLS_PYTORCH_JOB_H
#define TOOLS_PYTORCH_JOB_H

#include <stdio.h>

#include "export/pytorch.h"
#include "tools/cli.h"

/* The files of one rank. Owns the paths. */
typedef struct pytorch_files {
    char *host, *device; /* paths of the host and the device trace; one may be NULL; host may be a
                            linked trace */
    int32_t rank;        /* -1: read it from the device trace */
} pytorch_files;

typedef struct pytorch_job {
    const cli_program *program;
    pytorch_files *files;
    size_t n_files, files_cap;
    syn_pytorch_options options; /* pytorch_add_files sets options.is_set */
    bool quiet;
    const char *output;
} pytorch_job;

/* The result of a conversion. */
typedef struct pytorch_outcome {
    syn_pytorch_report report;
    double seconds;
} pytorch_outcome;

/* Adds the files that match two patterns, each with one "*", or the files at two plain paths. One
   of the two arguments may be NULL. A host and a device trace form a pair if the star matches the
   same text in both names; if this text is a number, it is the rank. */
syn_status pytorch_add_files(pytorch_job *job, const char *host, const char *device,
                             syn_error *err) SYN_MUST_USE;
/* Converts the files and writes the output, with a progress bar. The caller frees the outcome even
   after a failure. */
syn_status pytorch_convert(const pytorch_job *job, pytorch_outcome *outcome,
                           syn_error *err) SYN_MUST_USE;
/* Links the first pair of files and writes one JSON file. */
syn_status pytorch_link(const pytorch_job *job, pytorch_outcome *outcome,
                        syn_error *err) SYN_MUST_USE;
/* Print the report of a conversion: as tables to `out`, or as one JSON document on standard
   output. */
void pytorch_print(const pytorch_job *job, const pytorch_outcome *outcome, FILE *out);
syn_status pytorch_print_json(const pytorch_job *job, const pytorch_outcome *outcome,
                              syn_error *err) SYN_MUST_USE;
/* Prints one line per kind of anomaly. */
void pytorch_print_notes(const syn_pytorch_report *report, FILE *out);
void pytorch_outcome_free(pytorch_outcome *outcome);
void pytorch_job_free(pytorch_job *job);

#endif
