/* Counts the nodes that profile astra-sim writes for a rank, for the report. */
#ifndef EXPORT_PT_SIM_COUNTS_H
#define EXPORT_PT_SIM_COUNTS_H

#include "export/pytorch/sim/pt_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

syn_pytorch_simulated syn__pt_sim_count(const syn__pt_sim *sim);

#ifdef __cplusplus
}
#endif
#endif
