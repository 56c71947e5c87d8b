/* Tests over MPI. The test program starts itself under mpirun, once per mode and number of ranks,
   and checks output and exit code. Under mpirun, it runs as one of the ranks. */
#ifndef TESTS_MPI_JOB_H
#define TESTS_MPI_JOB_H

#include "comm/comm.h"
#include "tests/support/test.h"

/* ---- A rank ---- */

/* A log function for syn_mpi_options that prints each sentence. */
void log_line(void *arg, const char *sentence);
/* Closes or aborts the communicator of a rank at its end. Returns the rank's exit code. */
int rank_ends(syn_comm *comm, syn_status status, const syn_error *err);

/* ---- The test ---- */

#define MPI_OUTPUT (1 << 16)
#define HUNG       124 /* exit code of timeout(1) after it has stopped a command */

extern char program[4096]; /* path of this program, which mpirun starts */
extern char output[MPI_OUTPUT];

void find_program(const char *called);
bool have_mpi(void);
/* Runs a command and stores its standard output and standard error in `output`. Returns its exit
   code, or -1 if it could not be run. */
int run_command(const char *command);
/* Runs this program with the argument `mode` on n ranks. Returns the exit code. */
int run_mpi(const char *mode, int n);
/* The number of occurrences of `part` in `output`. */
int occurrences(const char *part);

/* Defines main(): under mpirun it calls run_rank(mode), otherwise it runs the test cases. */
#define MPI_TEST_MAIN(cases)                                                     \
    int main(int argc, char **argv) {                                            \
        if (argc == 2 && syn_mpi_launched(NULL, NULL)) return run_rank(argv[1]); \
        find_program(argv[0]);                                                   \
        return test_run(cases, COUNT(cases), argc, argv);                        \
    }

#endif
