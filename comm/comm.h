/* Constructors of the communicators. All of them are closed with syn_comm_close. What the
   operations mean is said in syntorch/communicator.h; common to all implementations here:

   - "Rank order" is the order of the group's rank list. `self` and `local` reduce in that order,
   whoever arrives first: results are equal bit by bit on all ranks and in every run. MPI chooses
   its own order.
   - f16 and bf16 are reduced in f32 and rounded once, to nearest even. avg is sum / size: in f32
   for floats; for integers the quotient is truncated towards zero as by C's division (i32 sums for
   avg are taken in 64 bits). Integer sums and products wrap around. min and max give NaN if any
   input is NaN.
   - Tags are >= 0. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "syntorch/context.h"
#include "syntorch/graph/graph.h"
#include "syntorch/mesh.h"

SYN_API_BEGIN

/* A world of one rank: collectives copy in to out. */
syn_status syn_comm_self_new(syn_comm **out, syn_error *err) SYN_MUST_USE;

/* Rank `rank` of a world of `size` ranks that nobody runs: groups can be opened, nothing can be
   exchanged (moves_data is false; only abort and close are not NULL). */
syn_status syn_comm_fake_new(syn_comm **out, int32_t rank, int32_t size,
                             syn_error *err) SYN_MUST_USE;

/* ---- local: ranks are threads of this process. ---- */

/* What the ranks of one process share. Make it first, then one communicator per rank; each
   communicator is used by one thread at a time. Nothing hangs: ranks that call different
   collectives, wait for each other in a circle or wait for a rank that failed or ended all get
   SYN_E_COMM with one sentence, and so does every later call in this world. */
typedef struct syn_local_world syn_local_world;

syn_status syn_local_world_new(syn_local_world **out, int32_t size, syn_error *err) SYN_MUST_USE;
/* The communicator of `rank`; each rank once. May be called from any thread. */
syn_status syn_comm_local_new(syn_comm **out, syn_local_world *world, int32_t rank,
                              syn_error *err) SYN_MUST_USE;
/* Ends the world with a sentence from outside the ranks, such as a thread that could not start. */
void syn_local_world_abort(syn_local_world *world, const char *sentence);
/* Gives up the caller's hold; communicators still open keep the world alive. Ranks without a
   communicator count as ended from then on. NULL is allowed. */
void syn_local_world_free(syn_local_world *world);

/* Runs rank_main once per rank, each on a thread of its own, and waits for all. A rank that returns
   a failure ends the others. The returned sentence is that of the rank that failed first by itself,
   beginning "rank 1 failed: ", or the sentence common to all (mismatch, deadlock). The
   communicators are closed then; contexts that rank_main leaves behind are
   the caller's (syn_comm_close). */
typedef syn_status syn_rank_main(syn_comm *comm, void *arg, syn_error *err);
syn_status syn_local_run(int32_t size, syn_rank_main *rank_main, void *arg,
                         syn_error *err) SYN_MUST_USE;

/* ---- mpi: ranks are processes started by mpirun or srun. ---- */

typedef struct syn_mpi_options {
    /* Before each collective, members tell each other what they call: a mismatch fails on every
       member with a sentence instead of undefined behaviour. Costs a message per
       pair of members. */
    bool check_collectives;
    bool measure_wait; /* a barrier before each collective tells waiting from transfer */
    /* Collectives that were started go on while the rank computes, each group on a thread of its
       own, and so do messages. MPI must let all threads call it at once, which makes every call
       slower; members compare calls within each group only. Without it collectives are over when
       start returns, and what was started must be right in that order. Equal on all ranks. */
    bool overlap;
    /* > 0: after so many seconds in one call, log is called (from another thread) with a sentence
       that names rank, call and group; again each time the time has doubled. */
    double watchdog_s;
    double abort_s; /* > 0: after so many seconds in one call the job is ended */
    void (*log)(void *log_arg, const char *sentence); /* NULL: silent */
    void *log_arg;
    int32_t chunk_elems; /* largest count given to MPI at once; 0: 2^30. Tests lower it. */
} syn_mpi_options;

/* Whether this library was built with MPI. */
bool syn_mpi_built(void);
/* True if a launcher started this process as one of several ranks (Open MPI, MPICH and its
   relatives, PMI, Slurm), from environment variables alone; rank and size, if not NULL, receive
   what the launcher says. */
bool syn_mpi_launched(int32_t *rank, int32_t *size);
/* Joins MPI_COMM_WORLD; initialises MPI if nobody has, and then close finalises it. Use it from one
   thread. Fails if MPI sees another number of ranks than the launcher announced (a launcher of
   another MPI), and with SYN_E_UNSUPPORTED in a build without MPI or where overlap is not to be
   had. options may be NULL. abort gives its sentence to the log and ends the whole job. A message
   nobody receives makes close wait. */
syn_status syn_comm_mpi_new(syn_comm **out, const syn_mpi_options *options,
                            syn_error *err) SYN_MUST_USE;

/* Runs rank_main on all ranks of a program. If a launcher started this process as one of several,
   it is one rank, over MPI with overlap, and `size` does not count: a rank that fails prints why
   and ends the job. Else as syn_local_run. */
syn_status syn_ranks_run(int32_t size, syn_rank_main *rank_main, void *arg,
                         syn_error *err) SYN_MUST_USE;

/* What one rank does, with a context and its place among the others. */
typedef syn_status syn_rank_ops(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err);
/* syn_ranks_run with these, on the ranks of the plan, or of the launcher if there is one. A context
   that has failed fails the run; all are freed. */
syn_status syn_ranks_compute(const syn_plan *plan, syn_device device, syn_rank_ops *ops, void *arg,
                             syn_error *err) SYN_MUST_USE;
/* The graph of what all ranks of the plan would do, without running them: calls `ops` for each
   rank, one after the other, on meta. hw gives predicted times (NULL: none) and must outlive the
   graph, which owns the rest. */
syn_status syn_ranks_trace(syn_graph **out, const syn_plan *plan, const syn_hardware *hw,
                           syn_rank_ops *ops, void *arg, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
