/* Detects whether an MPI launcher started this process. Does not need MPI. */
#include "comm/comm.h"

#include <stdlib.h>

/* Reads a decimal number >= 0 from the environment. */
static bool env_number(const char *name, int32_t *out) {
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') return false;
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 0 || value > INT32_MAX) return false;
    *out = (int32_t)value;
    return true;
}

bool syn_mpi_launched(int32_t *rank, int32_t *size) {
    /* In this order: Open MPI's mpirun; MPICH, Intel MPI and others with Hydra; MVAPICH; Slurm's
       srun. For Slurm these are the variables of the job step, because those of the job are also
       set without srun. */
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t r = 0, n = 0;
        if (!env_number(names[i][0], &r) || !env_number(names[i][1], &n) || r >= n) continue;
        /* srun with one task also starts plain shells. */
        if (names[i][0][0] == 'S' && n == 1) continue;
        if (rank != NULL) *rank = r;
        if (size != NULL) *size = n;
        return true;
    }
    return false;
}
