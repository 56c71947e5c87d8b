/* Output of a simulation's critical path: printed, as CSV and as JSON. */
#ifndef TOOLS_SIMULATED_PATH_H
#define TOOLS_SIMULATED_PATH_H

#include <stdio.h>

#include "export/simulate.h"

/* Prints the sums of the path: its kinds of nodes, and the names with the longest times. */
void simulated_path_print(const syn_simulation *sim, FILE *out);
/* Writes a row for each node, in order. */
void simulated_path_put_csv(const syn_simulation *sim, syn_sink *csv);
/* Writes an object with the sums. */
void simulated_path_put_json(const syn_simulation *sim, syn_sink *json);

#endif
