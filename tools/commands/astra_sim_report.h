/* The report of `syntorch astra-sim`: the described machine, the times of collectives in ASTRA-sim
   beside the predicted times, and the command that runs ASTRA-sim. It is separate from the command,
   which writes the files. */
#ifndef TOOLS_ASTRA_SIM_REPORT_H
#define TOOLS_ASTRA_SIM_REPORT_H

#include "syntorch/base/sink.h"
#include "tools/commands/astra_sim_links.h"
#include "tools/folders.h"

enum { ASTRA_NETWORK, ASTRA_SYSTEM, ASTRA_MEMORY, ASTRA_GROUPS, ASTRA_FILES }; /* of the files */

typedef struct astra_result {
    const char *prefix;
    const syn_hardware *hw;
    bool roofline; /* compute times are computed from flops and bytes */
    bool assumed;  /* neither the set nor --hw names the machine */
    bool mixed;    /* a node has ranks of both pools of a server */
    const astra_network *net;
    char (*paths)[FOLDER_PATH_BYTES];
    uint64_t traced_ns, astra_ns; /* the time of the whole set with the times of the traces, and in
                                     ASTRA-sim; 0: unknown */
} astra_result;

void astra_print(const astra_result *r);
/* Appends the members of the object of --json. */
void astra_put_json(const astra_result *r, syn_sink *json);

#endif
