/* One file of a trace set as it is read, before its rank joins the set. */
#ifndef EXPORT_ET_SIM_READ_H
#define EXPORT_ET_SIM_READ_H

#include "export/chakra/simulate/et_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__SIM_WORLD "0" /* name of the group of all ranks */

typedef struct syn__sim_file {
    syn__sim_program program;
    syn_intern groups, channels; /* names, and syn__sim_channel as bytes; ids are slots */
    uint64_t n_scaled, matched;  /* as in syn_simulation */
    bool predicted;              /* some nodes have predicted times */
} syn__sim_file;

/* The caller closes the file, also after a failure. */
syn_status syn__sim_file_read(syn__sim_file *out, const char *path, int32_t rank,
                              const syn__sim_machine *machine, const syn_simulate_options *options,
                              syn_error *err) SYN_MUST_USE;
void syn__sim_file_close(syn__sim_file *file);
void syn__sim_program_free(syn__sim_program *program);

#ifdef __cplusplus
}
#endif
#endif
