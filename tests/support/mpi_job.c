/* Implements mpi_job.h: the ranks' side, and starting mpirun. */
#include "tests/support/mpi_job.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- A rank ---- */

void log_line(void *arg, const char *sentence) {
    (void)arg;
    printf("log: %s\n", sentence);
    fflush(stdout);
}

int rank_ends(syn_comm *comm, syn_status status, const syn_error *err) {
    if (status == SYN_OK) {
        syn_comm_close(comm);
        return 0;
    }
    printf("error: %s\n", err->text);
    fflush(stdout);
    const struct timespec moment = {0, 300000000};
    nanosleep(&moment, NULL); /* gives mpirun time to forward the lines of every rank */
    if (comm == NULL) return 1;
    comm->ops->abort(comm, err->text);
    return 3;
}

/* ---- The test ---- */

char program[4096];
char output[MPI_OUTPUT];

int run_command(const char *command) {
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return -1;
    size_t n = 0, got;
    while ((got = fread(output + n, 1, sizeof output - 1 - n, pipe)) > 0) n += got;
    output[n] = '\0';
    const int status = pclose(pipe);
    return status == -1 ? -1 : status >> 8 & 255;
}

/* The limit of four minutes only stops jobs that hang. On a busy machine ranks wait for a core at
   each step, so a shorter limit could stop a correct job. */
int run_mpi(const char *mode, int n) {
    char command[8192];
    run_command("mpirun --version 2>&1");
    const char *flags =
        strstr(output, "Open MPI") != NULL ? "--allow-run-as-root --oversubscribe" : "";
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=detect_leaks=0 timeout -k 5 240 mpirun %s -n %d '%s' %s 2>&1", flags, n,
             program, mode);
    return run_command(command);
}

bool have_mpi(void) {
    return syn_mpi_built() && run_command("mpirun --version 2>&1") == 0;
}

int occurrences(const char *part) {
    int n = 0;
    for (const char *at = output; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

void find_program(const char *called) {
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) snprintf(program, sizeof program, "%s", called);
}
