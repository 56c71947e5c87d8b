/* The three ways a program's ranks run: as threads, as MPI processes, or one after the other
   without data (--device meta). The rank's own program cannot tell which. */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include "comm/comm.h"
#include "syntorch/context.h"
#include "syntorch/hardware/hardware.h"
#include "tools/launch/parallel.h"

/* Something that must be the same on every rank, as a hash of it. */
typedef struct launch_part {
    const char *name; /* "--option", or a word for it */
    uint64_t hash;
} launch_part;

enum { LAUNCH_PARTS = 40 };

/* One rank's program. It makes *ctx, which launch_free frees. */
typedef syn_status launch_main(syn_comm *comm, void *user, syn_ctx **ctx, syn_error *err);

typedef struct launch {
    /* what to run */
    cli_program *program;
    syn_device device;
    int32_t ranks;
    syn_plan parallel;  /* of these ranks; complete once the model is known */
    bool alone;         /* on meta: one of them and no other, */
    int32_t alone_rank; /* this one */
    bool quiet, check_collectives;
    int64_t watchdog_s; /* over MPI: say what a rank waits for after so long; 0: never */
    bool want_hashes, want_graph;
    const syn_hardware *hw;                                       /* for predicted times, or NULL */
    uint64_t (*plan)(void *user);                                 /* hash of all that decides which
                                                                     collectives a rank calls */
    int (*parts)(void *user, launch_part[LAUNCH_PARTS]);          /* of the plan, to name what
                                                                     differs; gives how many; may
                                                                     be NULL */
    syn_status (*facts)(void *user, syn_graph *, syn_error *err); /* adds those of the run */
    launch_main *main;
    void *user;
    /* set by launch_begin */
    bool mpi;
    int32_t rank; /* of this process; 0 unless MPI */
    int threads;  /* of each rank */
    /* what came of it */
    bool failed;      /* over MPI: this rank, and said so */
    syn_ctx **ctx;    /* by rank; over MPI only this process's */
    uint64_t *nodes;  /* recorded by each rank; over MPI only on rank 0 */
    uint64_t *hashes; /* of the traces, likewise, if wanted */
    syn_graph *graph; /* of all ranks, if wanted; over MPI NULL but on rank 0 */
} launch;

/* First call of the program: finds out whether a launcher started it as one of several ranks (then
   all but rank 0 are mute). */
void launch_begin(launch *l, cli_program *program);
/* Reads the options: `read` gives CLI_RUN or an exit code after a message. Over MPI a rank that
   alone refuses its own is the one to say so, and no rank waits for one that was started with
   --help. */
int launch_options(launch *l, int (*read)(int argc, char **argv), int argc, char **argv);
/* Over MPI, before a rank ends with a failure: time for the launcher to pass on the message of
   another rank, since it stops all ranks as soon as one has failed. */
void launch_pause(void);
/* What --device means: CLI_RUN, or an exit code after a message. */
#define LAUNCH_DEVICES "cpu|meta|cuda"
int launch_device(launch *l, const char *name);
/* Call after the options are known: gives OpenBLAS one thread a caller and each rank its share of
   the cores. Fails when there is no memory for OpenBLAS's buffers. */
syn_status launch_threads(launch *l, syn_error *err) SYN_MUST_USE;
/* Runs all ranks; `before`: how preparing went, which over MPI the other ranks must hear. After a
   failure whose sentence was printed already the program is mute. */
syn_status launch_run(launch *l, syn_status before, syn_error *err) SYN_MUST_USE;
void launch_free(launch *l);

/* "8 ranks on 2 cores" when ranks take turns, which their times then show; else NULL. */
const char *launch_shared_cores(const launch *l, char *buf, size_t buf_bytes);

#endif
