/* Conversions of PyTorch traces as the commands run them: one rank or a set, what is written, what
   is told. */
#ifndef TOOLS_PYTORCH_JOB_H
#define TOOLS_PYTORCH_JOB_H

#include <stdio.h>

#include "export/pytorch/write/pt_write.h"
#include "tools/progress.h"

typedef enum pytorch_profile { PYTORCH_FULL, PYTORCH_ASTRA_SIM } pytorch_profile;

/* The files of one rank; texts are owned. */
typedef struct pytorch_source {
    char *host, *device; /* either NULL: none; host may be a linked trace */
    int32_t rank;        /* -1: as the device trace says */
} pytorch_source;

typedef struct pytorch_job {
    pytorch_source *sources;
    size_t n_sources, sources_cap;
    syn__pt_options options;
    pytorch_profile profile;
    bool linked, compat, strict, quiet, json, replay, is_set;
    const char *output; /* a file; of a set the prefix */
} pytorch_job;

/* What a conversion did. */
typedef struct pytorch_outcome {
    syn__pt_report report;
    syn__pt_rank *ranks;      /* not in compatible mode */
    syn__pt_written *written; /* per rank, of profile astra-sim; else NULL */
    size_t n_ranks;
    uint64_t n_out, n_anomalies; /* nodes written; kinds of anomalies */
    uint64_t in_bytes, out_bytes;
    double seconds;
    bool groups_replaced; /* one rank's groups took the place of others in the set's file */
    progress progress;
    int64_t n_steps;
} pytorch_outcome;

/* Adds the files that match the patterns (one "*" each, or plain names; one of them may be NULL),
   paired by what the star stands for, which is also the rank if it is a number. */
syn_status pytorch_add_sources(pytorch_job *job, const char *host, const char *device,
                               syn_error *err) SYN_MUST_USE;
/* Converts and writes. The outcome is filled as far as it got; free it in any case. */
syn_status pytorch_convert(const pytorch_job *job, pytorch_outcome *outcome,
                           syn_error *err) SYN_MUST_USE;
/* Links only: one JSON file. */
syn_status pytorch_link(const pytorch_job *job, pytorch_outcome *outcome,
                        syn_error *err) SYN_MUST_USE;
/* A device trace without the files between. The tables of a conversion, or one JSON document. */
void pytorch_print(const pytorch_job *job, const pytorch_outcome *outcome, FILE *out);
syn_status pytorch_print_json(const pytorch_job *job, const pytorch_outcome *outcome,
                              syn_error *err) SYN_MUST_USE;
/* One line per kind of anomaly. */
void pytorch_print_notes(const syn__pt_report *report, FILE *out);
void pytorch_outcome_free(pytorch_outcome *outcome);
void pytorch_job_free(pytorch_job *job);

#endif
