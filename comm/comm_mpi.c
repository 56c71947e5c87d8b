/* Ranks as processes, over MPI: creates and closes the communicator and its groups.
   comm_mpi_collective.c and comm_mpi_p2p.c run the operations. */
#include "comm/comm_mpi.h"
#include "comm/comm.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#ifndef SYN_HAVE_MPI

bool syn_mpi_built(void) {
    return false;
}

const char *syn_mpi_version(char *buf, size_t buf_bytes) {
    if (buf_bytes > 0) buf[0] = '\0';
    return buf;
}

syn_status syn_comm_mpi_new(syn_comm **out, const syn_mpi_options *options, syn_error *err) {
    (void)out, (void)options;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "this build has no MPI: install an MPI library and build again, or run the "
                    "ranks within one process");
}

#else

bool syn_mpi_built(void) {
    return true;
}

const char *syn_mpi_version(char *buf, size_t buf_bytes) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    if (MPI_Get_library_version(text, &n) != MPI_SUCCESS) text[0] = '\0';
    snprintf(buf, buf_bytes, "%.*s", (int)strcspn(text, ",\n"), text);
    return buf;
}

syn_status syn__mpi_failed(int code, const char *what, syn_error *err) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n = 0;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS) text[0] = '\0';
    return SYN_FAIL(err, SYN_E_COMM, "%s failed: %.300s", what, text);
}

/* Creates the group's MPI communicator; all members must call it. */
static syn_status create_comm(const syn_group *group, MPI_Comm *out, syn_error *err) {
    MPI_Group world, members;
    /* The tags of groups that are opened at the same time must differ. */
    const int tag = (int)(group->id % 32768);
    SYN__TRY_MPI("MPI_Comm_group", MPI_Comm_group(MPI_COMM_WORLD, &world));
    SYN__TRY_MPI("MPI_Group_incl", MPI_Group_incl(world, group->size, group->ranks, &members));
    SYN__TRY_MPI("MPI_Comm_create_group", MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, out));
    MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    MPI_Group_free(&members);
    MPI_Group_free(&world);
    return SYN_OK;
}

static syn_status mpi_open_group(syn_comm *comm, syn_group *group, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    const size_t size = (size_t)group->size;
    const size_t wires_bytes = self->check ? size * sizeof(syn__mpi_sig) : 0;
    const size_t bytes =
        sizeof(syn__mpi_group) + wires_bytes + (self->check ? 2 * size * sizeof(MPI_Request) : 0);
    syn__mpi_group *shared = syn_calloc(1, bytes);
    if (shared == NULL) return SYN_FAIL_NOMEM(err, bytes, "a group of ranks");
    shared->sigs = (syn__mpi_sig *)(void *)(shared + 1);
    shared->requests = (MPI_Request *)(void *)((char *)(shared + 1) + wires_bytes);
    shared->scratch = syn_aligned_malloc(SYN__MPI_SCRATCH_BYTES);
    const syn__call_sig opening = {.comm_call = {.kind = SYN_COMM_NONE, .group = group}};
    syn__watchdog_enter(self->dog, &opening);
    const syn_status status = shared->scratch == NULL
                                  ? SYN_FAIL_NOMEM(err, SYN__MPI_SCRATCH_BYTES, "a scratch buffer")
                                  : create_comm(group, &shared->comm, err);
    syn__watchdog_leave(self->dog);
    if (status != SYN_OK) {
        syn_aligned_free(shared->scratch);
        syn_free(shared);
        return status;
    }
    group->impl = shared;
    return SYN_OK;
}

static void mpi_close_group(syn_comm *comm, syn_group *group) {
    (void)comm;
    syn__mpi_group *shared = group->impl;
    MPI_Comm_free(&shared->comm);
    syn_aligned_free(shared->scratch);
    syn_free(shared);
}

/* One MPI_Abort is enough: the lowest rank calls it first, and the other ranks are ended while they
   still sleep here. */
static void end_job(void) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const long wait_ms = rank < 16 ? 100 * rank : 1600;
    const struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void mpi_abort(syn_comm *comm, const char *reason) {
    const syn__mpi *self = (syn__mpi *)comm;
    char sentence[SYN_ERROR_TEXT + 32];
    snprintf(sentence, sizeof sentence, "rank %d failed: %s", (int)comm->rank, reason);
    if (self->log != NULL) self->log(self->log_arg, sentence);
    end_job();
}

void syn__mpi_backoff(void) {
    const struct timespec moment = {0, 50000};
    nanosleep(&moment, NULL);
}

static void mpi_block(syn__comm *comm, const syn_request *request) {
    syn__watchdog_enter(((syn__mpi *)comm)->dog, &request->sig);
}

static void mpi_unblock(syn__comm *comm) {
    syn__watchdog_leave(((syn__mpi *)comm)->dog);
}

static void mpi_close(syn_comm *comm) {
    syn__mpi *self = (syn__mpi *)comm;
    const syn__call_sig closing = {.comm_call = {.kind = SYN_COMM_NONE}};
    syn__comm_finish(&self->base);
    syn__watchdog_enter(self->dog, &closing);
    syn__mpi_messages_end(self);
    /* Wait for the other ranks here instead of in MPI_Finalize. If one of them aborts while this
       rank is in MPI_Finalize, Open MPI 4.1's mpirun (PMIx 4.2) sometimes hangs in
       PMIx_server_finalize. */
    MPI_Barrier(self->messages);
    syn__comm_close_groups(&self->base);
    MPI_Op_free(&self->keep_nan_max);
    MPI_Op_free(&self->keep_nan_min);
    MPI_Comm_free(&self->checks);
    MPI_Comm_free(&self->messages);
    if (self->initialised) MPI_Finalize();
    syn__watchdog_leave(self->dog);
    syn__watchdog_free(self->dog);
}

static const syn_comm_ops mpi_ops = {
    .name = "mpi",
    .moves_data = true,
    .open_group = syn__comm_open_group,
    .next_group = syn__comm_next_group,
    .hold = syn__comm_add_user,
    .release = syn__comm_drop_user,
    .start = syn__comm_start,
    .wait = syn__comm_wait,
    .abort = mpi_abort,
    .close = mpi_close,
};

static const syn__transport transport = {
    .open_group = mpi_open_group,
    .close_group = mpi_close_group,
    .run = syn__mpi_run_collective,
    .post = syn__mpi_post,
    .settle = syn__mpi_settle,
    .withdraw = syn__mpi_withdraw,
    .block = mpi_block,
    .unblock = mpi_unblock,
};

/* Initialises MPI, unless the program has done so. */
static syn_status init_mpi(syn__mpi *self, syn_error *err) {
    const int wanted = self->base.threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    int flag = 0, provided = 0;
    SYN__TRY_MPI("MPI_Finalized", MPI_Finalized(&flag));
    if (flag)
        return SYN_FAIL(err, SYN_E_COMM,
                        "MPI was already finalized and cannot be initialized again");
    SYN__TRY_MPI("MPI_Initialized", MPI_Initialized(&flag));
    if (flag) {
        SYN__TRY_MPI("MPI_Query_thread", MPI_Query_thread(&provided));
    } else {
        SYN__TRY_MPI("MPI_Init_thread", MPI_Init_thread(NULL, NULL, wanted, &provided));
        self->initialised = true;
    }
    if (provided >= wanted || !self->base.threads) return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "this MPI library lacks MPI_THREAD_MULTIPLE, so collectives cannot overlap "
                    "with computation");
}

static syn_status read_max_tag(syn__mpi *self, syn_error *err) {
    const int *most = NULL;
    int found = 0;
    SYN__TRY_MPI("MPI_Comm_get_attr",
                 MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&most, &found));
    if (found) self->base.pub.max_tag = (int32_t)*most;
    return SYN_OK;
}

static syn_status join_world(syn__mpi *self, syn_error *err) {
    int rank = 0, size = 0;
    int32_t announced = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    SYN__TRY_MPI("MPI_Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    SYN__TRY_MPI("MPI_Comm_size", MPI_Comm_size(MPI_COMM_WORLD, &size));
    self->base.pub.rank = rank;
    self->base.pub.size = size;
    if (syn_mpi_launched(NULL, &announced) && announced != size)
        return SYN_FAIL(err, SYN_E_COMM,
                        "the launcher started %d ranks, but MPI reports %d; use the mpirun of the "
                        "MPI library that this program was built with",
                        (int)announced, size);
    /* Duplicates inherit the error handler. */
    SYN__TRY_MPI("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &self->messages));
    SYN__TRY_MPI("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &self->checks));
    SYN_TRY(read_max_tag(self, err));
    return syn__mpi_ops_new(self, err);
}

static syn_status start_watchdog(syn__mpi *self, const syn_mpi_options *options, syn_error *err) {
    const syn__watchdog_options dog = {.log_s = options->watchdog_s,
                                       .abort_s = options->abort_s,
                                       .log = options->log,
                                       .log_arg = options->log_arg,
                                       .end_job = end_job};
    return syn__watchdog_new(&self->dog, self->base.pub.rank, &dog, err);
}

syn_status syn_comm_mpi_new(syn_comm **out, const syn_mpi_options *options, syn_error *err) {
    static const syn_mpi_options none = {0};
    if (options == NULL) options = &none;
    syn__mpi *self = syn_calloc(1, sizeof *self);
    if (self == NULL) return SYN_FAIL_NOMEM(err, sizeof *self, "a communicator");
    syn__comm_init(&self->base, &mpi_ops, &transport);
    self->base.threads = options->overlap;
    self->check = options->check_collectives;
    self->measure = options->measure_wait;
    self->limit = options->chunk_elems > 0 ? (size_t)options->chunk_elems : SYN__MPI_LIMIT;
    self->log = options->log;
    self->log_arg = options->log_arg;
    pthread_mutex_init(&self->mover.lock, NULL);
    pthread_cond_init(&self->mover.wake, NULL);
    syn_status status = init_mpi(self, err);
    if (status == SYN_OK) status = join_world(self, err);
    if (status == SYN_OK) status = start_watchdog(self, options, err);
    if (status != SYN_OK) {
        /* MPI stays initialised, so that the caller can abort the job. Finalising could wait for
           other ranks. */
        syn__comm_requests_free(&self->base);
        syn_free(self);
        return status;
    }
    *out = &self->base.pub;
    return SYN_OK;
}

#endif
