/* Conversions of PyTorch traces as the commands run them: which files, how, what is printed. */
#ifndef TOOLS_PYTORCH_JOB_H
#define TOOLS_PYTORCH_JOB_H

#include <stdio.h>

#include "export/pytorch.h"
#include "tools/cli.h"

/* The files of one rank; texts are owned. */
typedef struct pytorch_files {
    char *host, *device; /* either NULL: none; host may be a linked trace */
    int32_t rank;        /* -1: as the device trace says */
} pytorch_files;

typedef struct pytorch_job {
    const cli_program *program;
    pytorch_files *files;
    size_t n_files, files_cap;
    syn_pytorch_options options; /* is_set: as the patterns say */
    bool quiet;
    const char *output;
} pytorch_job;

/* What a conversion did. */
typedef struct pytorch_outcome {
    syn_pytorch_report report;
    double seconds;
} pytorch_outcome;

/* Adds the files that match the patterns (one "*" each, or plain names; one of them may be NULL),
   paired by what the star stands for, which is also the rank if it is a number. */
syn_status pytorch_add_files(pytorch_job *job, const char *host, const char *device,
                             syn_error *err) SYN_MUST_USE;
/* Converts and writes, with a progress bar. Free the outcome in any case. */
syn_status pytorch_convert(const pytorch_job *job, pytorch_outcome *outcome,
                           syn_error *err) SYN_MUST_USE;
/* Links the first files only: one JSON file. */
syn_status pytorch_link(const pytorch_job *job, pytorch_outcome *outcome,
                        syn_error *err) SYN_MUST_USE;
/* The tables of a conversion, or one JSON document. */
void pytorch_print(const pytorch_job *job, const pytorch_outcome *outcome, FILE *out);
syn_status pytorch_print_json(const pytorch_job *job, const pytorch_outcome *outcome,
                              syn_error *err) SYN_MUST_USE;
/* One line per kind of anomaly. */
void pytorch_print_notes(const syn_pytorch_report *report, FILE *out);
void pytorch_outcome_free(pytorch_outcome *outcome);
void pytorch_job_free(pytorch_job *job);

#endif
