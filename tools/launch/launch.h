/* Runs a program's ranks in one of three ways: as threads, as MPI processes, or one after the other
   without data (--device meta). The code of a rank is the same in all three. */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include "comm/comm.h"
#include "syntorch/base/sink.h"
#include "syntorch/context.h"
#include "syntorch/hardware/hardware.h"
#include "tools/launch/parallel.h"

/* A property that must be the same on all ranks, as a hash. */
typedef struct launch_part {
    const char *name; /* "--option", or a description */
    uint64_t hash;
} launch_part;

enum { LAUNCH_PARTS = 64 };

/* Uses the graph of a recorded rank, which is freed after the call. */
typedef syn_status launch_use_graph(void *user, const syn_graph *graph, syn_error *err);

/* The code of one rank. It creates *ctx, which launch_free frees. */
typedef syn_status launch_main(syn_comm *comm, void *user, syn_ctx **ctx, syn_error *err);

typedef struct launch {
    /* Set by the program: */
    cli_program *program;
    syn_device device;
    int32_t ranks;               /* number of ranks */
    syn_plan parallel;           /* plan for these ranks; complete once the model is known */
    bool alone;                  /* on meta: run only the ranks that the next three fields select */
    int32_t alone_rank;          /* the first of these ranks */
    int32_t alone_n, alone_step; /* number of these ranks (0: one), and the distance between them */
    bool alone_together;         /* run these ranks at the same time, on all cores */
    bool quiet, check_collectives;
    int64_t watchdog_s; /* over MPI: a rank that waits longer than this reports which operation it
                           waits for; 0: it never reports */
    bool want_hashes, want_graph; /* compute `hashes` and `graph` */
    const syn_hardware *hw;       /* for predicted times; NULL: none */
    /* Hash of everything that determines which collectives a rank calls. */
    uint64_t (*plan)(void *user);
    /* The parts of the plan, to name the one that differs; returns their number. May be NULL. */
    int (*parts)(void *user, launch_part[LAUNCH_PARTS]);
    /* Adds the run's metadata to the graph; used with want_graph only. */
    syn_status (*metadata)(void *user, syn_graph *, syn_error *err);
    launch_main *main;
    void *user; /* passed to the functions above */
    /* Set by launch_begin and launch_threads: */
    bool mpi;     /* a launcher started this process as one of several ranks */
    int32_t rank; /* rank of this process; 0 without MPI */
    int threads;  /* per rank */
    /* Results: */
    syn_sink *json;   /* the object of --json, which launch_program prints after the work; NULL:
                         none */
    bool failed;      /* over MPI: this rank has failed and has printed its error */
    syn_ctx **ctx;    /* by rank; over MPI only this process's is set */
    uint64_t *nodes;  /* number of nodes recorded by each rank; over MPI only on rank 0 */
    uint64_t *hashes; /* trace hashes by rank, if want_hashes; over MPI only on rank 0 */
    syn_graph *graph; /* graph of all ranks, if want_graph; NULL on ranks other than 0 over MPI */
} launch;

/* First call of the program. Detects whether a launcher started this process as one of several
   ranks; if so, all ranks but 0 are mute. */
void launch_begin(launch *l, cli_program *program);
/* Parses the options with `read`, which returns CLI_RUN or an exit code after a message. Over MPI,
   if only some ranks refuse their options, the lowest of them prints its message, and no rank hangs
   because another one was started with --help. */
int launch_options(launch *l, int (*read)(int argc, char **argv), int argc, char **argv);
/* Over MPI, call it before a rank exits with a failure. It waits a moment (0.1 s) so that the
   launcher can forward another rank's message, because the launcher stops all ranks as soon as one
   has failed. */
void launch_pause(void);
/* Earlier names of options that `inference` and `pretrain` share. */
#define LAUNCH_ALIASES                                                  \
    {"model_name", CLI_ALIAS, NULL, "model", NULL, 0, 0},               \
        {"trace_output_dir", CLI_ALIAS, NULL, "out_dir", NULL, 0, 0}, { \
        "hw_config", CLI_ALIAS, NULL, "hw", NULL, 0, 0                  \
    }
/* The start of the help of --hw. */
#define LAUNCH_MACHINES                                                                      \
    "predict times for this machine: a100-80g, h100, h200, h800, b200, b300, gb200, gb300, " \
    "mi300x, rtxpro6000, rtx4090, v100-32g, cpu or a JSON file; stack: pytorch-eager, "      \
    "megatron, serving, vllm, fsdp, fsdp-eager or megatron-core"
/* Sets the device from the value of --device. Returns CLI_RUN, or an exit code after a message. */
#define LAUNCH_DEVICES "cpu|meta|cuda"
int launch_device(launch *l, const char *name);
/* A whole program: begins, reads the options with `read` (see launch_options), does the work,
   prints the error if it fails, and frees the launch. Returns the exit code. */
int launch_program(launch *l, cli_program *program, int (*read)(int argc, char **argv),
                   syn_status (*work)(syn_error *err), int argc, char **argv);
/* Sets the number of threads: one OpenBLAS thread per caller, and for each rank its share of the
   cores. Call it after the options are known. Fails if there is no memory for OpenBLAS's
   buffers. */
syn_status launch_threads(launch *l, syn_error *err) SYN_MUST_USE;
/* Runs all ranks. `before` is the status of the program's preparations, which over MPI is exchanged
   so that all ranks stop if one has failed. If the error has been printed already, the program is
   mute afterwards. */
syn_status launch_run(launch *l, syn_status before, syn_error *err) SYN_MUST_USE;
void launch_free(launch *l);

/* "8 ranks on 2 cores" if ranks have to share cores, which affects their times; otherwise NULL. */
const char *launch_shared_cores(const launch *l, char *buf, size_t buf_bytes);

#endif
