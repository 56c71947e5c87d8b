/* One file of a trace set as it is read, before its rank joins the set. */
#ifndef EXPORT_ET_SIM_READ_H
#define EXPORT_ET_SIM_READ_H

#include "export/chakra/check/et_scan.h"
#include "export/chakra/simulate/et_sim_retime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__sim_file {
    syn__sim_program program;
    syn_intern groups, channels, roots; /* names, and syn__sim_channel and int32_t as bytes; ids are
                                           slots */
    uint64_t n_scaled, matched;         /* as in syn_simulation */
    uint64_t n_fused, n_fused_kernels, fused; /* the same */
    bool predicted;                           /* some nodes have predicted times */
    syn__sim_meta meta;
    uint64_t n_compute, n_predicted; /* as in syn_simulation */
} syn__sim_file;

/* What a file is read with. */
typedef struct syn__sim_reading {
    const syn__sim_machine *machine; /* NULL: times of the traces */
    const syn_simulate_options *options;
    const char *world; /* name of the group of collectives without a name */
    /* Finds the ranks of the group with that name, for options->to; n_ranks 0: unknown. */
    syn_status (*group)(void *user, syn__str name, syn_graph_group *out, syn_error *err);
    void *user;
} syn__sim_reading;

/* The caller closes the file, also after a failure. */
syn_status syn__sim_file_read(syn__sim_file *out, const char *path, int32_t rank,
                              const syn__sim_reading *with, syn_error *err) SYN_MUST_USE;
void syn__sim_file_close(syn__sim_file *file);
/* Sets the times of kernels that run as one. The nodes of file->program are in the order of their
   ids, and scan has their dependencies. masks: per node of the file, bit i is set if it is a kernel
   that options->fused[i] matches. */
syn_status syn__sim_fuse(syn__sim_file *file, const syn__et_scan *scan, const uint64_t *masks,
                         syn_error *err) SYN_MUST_USE;
void syn__sim_program_free(syn__sim_program *program);

#ifdef __cplusplus
}
#endif
#endif
