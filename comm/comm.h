/* Constructors of the communicators, and functions that run a program on all ranks. Close every
   communicator with syn_comm_close. syntorch/communicator.h describes the operations. Common to all
   communicators here:

   - "Rank order" is the order of the group's rank list. `self` and `local` reduce in that order,
   whichever rank arrives first, so results are bitwise equal on all ranks and in every run. MPI
   chooses its own order.
   - f16 and bf16 are reduced in f32 and rounded once, to nearest even. avg is sum / size: in f32
   for floats; for integers the quotient is truncated toward zero, as in C (for i32 the sum of avg
   has 64 bits). Integer sums and products wrap around. min and max give NaN if any input is NaN.
   - Tags must be >= 0. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "syntorch/context.h"
#include "syntorch/graph/graph.h"
#include "syntorch/mesh.h"

SYN_API_BEGIN

/* A world of one rank. Collectives copy in to out. */
syn_status syn_comm_self_new(syn_comm **out, syn_error *err) SYN_MUST_USE;

/* Rank `rank` of a world of `size` ranks that do not run. Groups can be opened, but no data can be
   moved: moves_data is false, and start, wait and check are NULL. */
syn_status syn_comm_fake_new(syn_comm **out, int32_t rank, int32_t size,
                             syn_error *err) SYN_MUST_USE;

/* ---- local: ranks are threads of this process ---- */

/* The state that the ranks of one process share. Create it first, then one communicator per rank.
   Only one thread may use a communicator at a time.
   Mistakes do not cause hangs. If ranks call different collectives, wait for each other in a cycle,
   or wait for a rank that has failed or finished, all of them get SYN_E_COMM with the same
   sentence, and so does every later call in this world. */
typedef struct syn_local_world syn_local_world;

syn_status syn_local_world_new(syn_local_world **out, int32_t size, syn_error *err) SYN_MUST_USE;
/* Creates the communicator of `rank`, once per rank. May be called from any thread. */
syn_status syn_comm_local_new(syn_comm **out, syn_local_world *world, int32_t rank,
                              syn_error *err) SYN_MUST_USE;
/* Aborts the world with a sentence, for failures outside the ranks, such as a thread that could not
   be started. */
void syn_local_world_abort(syn_local_world *world, const char *sentence);
/* Releases the caller's hold. The world lives until all its communicators are closed. Ranks without
   a communicator count as finished from now on. NULL is allowed. */
void syn_local_world_free(syn_local_world *world);

/* Runs rank_main once per rank, each on a thread of its own, and waits for all. If a rank fails,
   the others are aborted. The returned sentence is the failure of the first rank that failed on its
   own, preceded by "rank 1 failed: ", or the failure that all ranks share (mismatch, deadlock).
   Afterwards the communicators are closed. The caller must free contexts that rank_main leaves
   behind; their data stays usable (syn_comm_close). */
typedef syn_status syn_rank_main(syn_comm *comm, void *arg, syn_error *err);
syn_status syn_local_run(int32_t size, syn_rank_main *rank_main, void *arg,
                         syn_error *err) SYN_MUST_USE;

/* ---- mpi: ranks are processes started by mpirun or srun ---- */

typedef struct syn_mpi_options {
    /* Before each collective, members exchange the signatures of their calls, and a mismatch fails
       on all of them with a sentence. Without this it is undefined behaviour. Costs one message per
       pair of members. */
    bool check_collectives;
    bool measure_wait; /* a barrier before each collective separates wait time from transfer */
    /* Collectives run while the rank computes, one thread per group, and so do messages. Requires
       MPI_THREAD_MULTIPLE, which makes every MPI call slower. Calls are then compared only within a
       group. Without overlap, collectives are finished when start returns, so ranks must start them
       in an order that does not deadlock. Must be equal on all ranks. */
    bool overlap;
    /* > 0: after this many seconds in one call, `log` is called from another thread with a sentence
       that names rank, call and group; again each time the time has doubled. */
    double watchdog_s;
    double abort_s; /* > 0: after this many seconds in one call, the job is aborted */
    void (*log)(void *log_arg, const char *sentence); /* NULL: silent */
    void *log_arg;
    int32_t chunk_elems; /* maximum count per MPI call; 0: 2^30. Tests lower it */
} syn_mpi_options;

/* Whether the library was built with MPI. */
bool syn_mpi_built(void);
/* Whether a launcher started this process as one of several ranks (Open MPI, MPICH and its
   derivatives, PMI, Slurm). Looks at environment variables only. Sets *rank and *size, unless NULL,
   to the launcher's values. */
bool syn_mpi_launched(int32_t *rank, int32_t *size);
/* Joins MPI_COMM_WORLD. Initialises MPI if it is not initialised yet; closing the communicator then
   finalises it. Use the communicator from one thread. Fails if MPI sees another number of ranks
   than the launcher announced (the launcher of another MPI), and with SYN_E_UNSUPPORTED in a build
   without MPI or if MPI does not support overlap. options may be NULL. abort passes its sentence to
   the log and aborts the whole job. Close may wait forever for a message that no rank receives. */
syn_status syn_comm_mpi_new(syn_comm **out, const syn_mpi_options *options,
                            syn_error *err) SYN_MUST_USE;

/* Runs rank_main on all ranks of a program. If a launcher started this process as one of several,
   the process is one rank, over MPI with overlap, and `size` is ignored; a rank that fails prints
   the reason and aborts the job. Otherwise the same as syn_local_run. */
syn_status syn_ranks_run(int32_t size, syn_rank_main *rank_main, void *arg,
                         syn_error *err) SYN_MUST_USE;

/* What one rank does, with its context and its position in the mesh. */
typedef syn_status syn_rank_program(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err);
/* Runs `ops` on the ranks of the plan, or on the launcher's ranks if there is a launcher
   (syn_ranks_run). Fails if a context has failed. Frees the contexts. */
syn_status syn_ranks_compute(const syn_plan *plan, syn_device device, syn_rank_program *ops,
                             void *arg, syn_error *err) SYN_MUST_USE;
/* Traces what all ranks of the plan would do, without running them: calls `ops` for each rank, one
   after another, on meta. hw gives predicted times (NULL: none) and must outlive the graph, which
   owns everything else. */
syn_status syn_ranks_trace(syn_graph **out, const syn_plan *plan, const syn_hardware *hw,
                           syn_rank_program *ops, void *arg, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
