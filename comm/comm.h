/* Constructors of the communicators, and functions that run a program on all ranks. Close every
   communicator with syn_comm_close. syntorch/communicator.h describes the operations. The following
   holds for all communicators here:

   - Rank order is the order of the group's rank list. `self` and `local` reduce in rank order,
   whichever rank arrives first, so results are bitwise equal on all ranks and in every run. MPI
   chooses its own order.
   - f16 and bf16 are reduced in f32 and rounded once, to nearest even. avg is sum / size, computed
   in f32 for floats. For integers the quotient is truncated toward zero, as in C, and avg of i32
   uses a 64-bit sum. Integer sums and products wrap around. min and max give NaN if any input is
   NaN.
   - Tags must be >= 0. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "syntorch/context.h"
#include "syntorch/graph/graph.h"
#include "syntorch/mesh.h"

SYN_API_BEGIN

/* A world of one rank. Collectives copy the input to the output. */
syn_status syn_comm_self_new(syn_comm **out, syn_error *err) SYN_MUST_USE;

/* Rank `rank` of a world of `size` ranks that do not run. Groups can be opened, but no data can be
   moved: moves_data is false, and start, wait and check are NULL. */
syn_status syn_comm_fake_new(syn_comm **out, int32_t rank, int32_t size,
                             syn_error *err) SYN_MUST_USE;

/* ---- local: ranks are threads of this process ---- */

/* The state that the ranks of one process share. Create it first, then one communicator per rank.
   Only one thread may use a communicator at a time.
   Mistakes do not cause hangs. If ranks call different collectives, wait for each other in a cycle,
   or wait for a rank that has failed or finished, the calls of all these ranks fail with SYN_E_COMM
   and the same error message. Every later call in this world then fails in the same way. */
typedef struct syn_local_world syn_local_world;

syn_status syn_local_world_new(syn_local_world **out, int32_t size, syn_error *err) SYN_MUST_USE;
/* Creates the communicator of `rank`, once per rank. May be called from any thread. */
syn_status syn_comm_local_new(syn_comm **out, syn_local_world *world, int32_t rank,
                              syn_error *err) SYN_MUST_USE;
/* Aborts the world with an error message. For failures outside the ranks, such as a thread that
   could not be started. */
void syn_local_world_abort(syn_local_world *world, const char *sentence);
/* Releases the caller's reference. The world lives until all its communicators are closed, too.
   Ranks without a communicator count as finished from now on. NULL is allowed. */
void syn_local_world_free(syn_local_world *world);

/* Runs rank_main once per rank, each time on a separate thread, and waits for all threads. If a
   rank fails, the others are aborted. *err then describes the failure of the first rank that failed
   on its own, after the words "rank 1 failed: ". If all ranks share one failure (mismatch,
   deadlock), *err describes that failure. The function closes the communicators at the end. The
   caller must free contexts that rank_main did not free; their data stays usable
   (syn_comm_close). */
typedef syn_status syn_rank_main(syn_comm *comm, void *arg, syn_error *err);
syn_status syn_local_run(int32_t size, syn_rank_main *rank_main, void *arg,
                         syn_error *err) SYN_MUST_USE;

/* ---- mpi: ranks are processes started by mpirun or srun ---- */

typedef struct syn_mpi_options {
    /* Before each collective, the members exchange the signatures of their calls. A mismatch makes
       the call fail on all members, with a sentence; without this check, a mismatch is undefined
       behaviour. Costs one message per pair of members. */
    bool check_collectives;
    bool measure_wait; /* a barrier before each collective separates wait time from transfer time */
    /* Collectives and messages run while the rank computes; collectives use one thread per group.
       Requires MPI_THREAD_MULTIPLE, which makes every MPI call slower. With overlap,
       check_collectives compares calls only within a group. Without overlap, collectives are
       finished when start returns, so ranks must start them in an order that does not deadlock. The
       option must be equal on all ranks. */
    bool overlap;
    /* If > 0: after this many seconds in one call, another thread calls `log` with a message that
       names rank, call and group. It calls `log` again each time the elapsed time has doubled. */
    double watchdog_s;
    double abort_s; /* > 0: after this many seconds in one call, the job is aborted */
    void (*log)(void *log_arg, const char *sentence); /* NULL: silent */
    void *log_arg;
    int32_t chunk_elems; /* maximum count per MPI call; 0: 2^30. Tests lower it */
} syn_mpi_options;

/* Whether the library was built with MPI. */
bool syn_mpi_built(void);
/* Writes name and version of the MPI library, such as "Open MPI v4.1.4", and returns buf; without
   MPI "". */
const char *syn_mpi_version(char *buf, size_t buf_bytes);
/* Whether a launcher started this process as one of several ranks (Open MPI, MPICH and its
   derivatives, PMI, Slurm). Only looks at environment variables. Sets *rank and *size to the
   launcher's values, unless the pointer is NULL. */
bool syn_mpi_launched(int32_t *rank, int32_t *size);
/* Creates the communicator of MPI_COMM_WORLD. Initialises MPI if it is not initialised yet; in this
   case, closing the communicator finalises MPI. Use the communicator from one thread only. Fails if
   MPI reports another number of ranks than the launcher announced, because the launcher then
   belongs to another MPI library. Fails with SYN_E_UNSUPPORTED in a build without MPI, or if MPI
   does not support overlap. options may be NULL. The communicator's `abort` (syn_comm_ops) passes
   its error message to `log` and aborts the whole job. syn_comm_close may wait forever for a
   message that no rank receives. */
syn_status syn_comm_mpi_new(syn_comm **out, const syn_mpi_options *options,
                            syn_error *err) SYN_MUST_USE;

/* Runs rank_main on all ranks of a program. If a launcher started this process as one of several,
   the process is one rank, which uses MPI with overlap, and `size` is ignored. A rank that fails
   prints the reason and aborts the job. Without a launcher, the function does the same as
   syn_local_run. */
syn_status syn_ranks_run(int32_t size, syn_rank_main *rank_main, void *arg,
                         syn_error *err) SYN_MUST_USE;

/* What one rank does, with its context and its position in the mesh. */
typedef syn_status syn_rank_program(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err);
/* Runs `ops` on the ranks of the plan or, if there is a launcher, on the launcher's ranks
   (syn_ranks_run). Fails if a context has failed. Frees the contexts. */
syn_status syn_ranks_compute(const syn_plan *plan, syn_device device, syn_rank_program *ops,
                             void *arg, syn_error *err) SYN_MUST_USE;
/* Traces what all ranks of the plan would do, without running them: calls `ops` on meta for one
   rank after another. hw is for predicted times (NULL: none) and must outlive the graph, which owns
   everything else. */
syn_status syn_ranks_trace(syn_graph **out, const syn_plan *plan, const syn_hardware *hw,
                           syn_rank_program *ops, void *arg, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
