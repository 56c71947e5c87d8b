#include <nccl.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "tests/emulation/emulated.h"

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };
static const char *const kind_names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                         "ncclBroadcast"};

/* One member's part of an operation. */
struct part {
    kind what;
    const void *in;
    void *out;
    size_t n;
    ncclDataType_t type;
    int how; /* reduction, or root */
};

struct meeting {
    std::vector<part> parts;
    int come = 0, gone = 0;
    bool done = false, dead = false; /* dead: a member that had come has aborted */
};

/* What the members of a communicator share. */
struct clique {
    std::mutex lock;
    std::condition_variable changed;
    int size = 0;
    std::atomic<int> joined{0};
    std::map<uint64_t, meeting> meetings; /* by number */
};

struct emulated_comm {
    std::shared_ptr<clique> all;
    int rank = 0, size = 0;
    uint64_t asked = 0;
    std::shared_ptr<std::atomic<bool>> aborted;
};

static std::mutex cliques_lock;
static std::map<uint64_t, std::shared_ptr<clique>> cliques;

static ncclResult_t failure_of(cudaError_t code) {
    return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
#define EMULATED_ENTER_NCCL()                                               \
    do {                                                                    \
        static emulated_function emulated_self(__func__);                   \
        const cudaError_t emulated_code = emulated_enter(&emulated_self);   \
        if (emulated_code != cudaSuccess) return failure_of(emulated_code); \
    } while (0)

/* ---- arithmetic: in the order of ranks; f16 and bf16 in f32, rounded once; integers wrap ---- */

static float loaded(float x) {
    return x;
}
static float loaded(__half x) {
    return __half2float(x);
}
static float loaded(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
static int64_t loaded(int32_t x) {
    return x;
}
static int64_t loaded(int64_t x) {
    return x;
}

static void store(float x, float *to) {
    *to = x;
}
static void store(float x, __half *to) {
    *to = __float2half_rn(x);
}
static void store(float x, __nv_bfloat16 *to) {
    *to = __float2bfloat16_rn(x);
}
static void store(int64_t x, int32_t *to) {
    *to = (int32_t)x;
}
static void store(int64_t x, int64_t *to) {
    *to = x;
}

static float plus(float a, float b) {
    return a + b;
}
static float times(float a, float b) {
    return a * b;
}
static int64_t plus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t times(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

template <typename A> static A join(A a, A b, int how) {
    switch (how) {
    case ncclProd:
        return times(a, b);
    case ncclMax:
        return a != a || a > b ? a : b;
    case ncclMin:
        return a != a || a < b ? a : b;
    default:
        return plus(a, b);
    }
}

/* to[i] = reduction over members of element at + i. */
template <typename T>
static void reduce(const std::vector<part> &parts, size_t at, size_t n, T *to) {
    for (size_t i = 0; i < n; i++) {
        auto sum = loaded(static_cast<const T *>(parts[0].in)[at + i]);
        for (size_t k = 1; k < parts.size(); k++)
            sum = join(sum, loaded(static_cast<const T *>(parts[k].in)[at + i]), parts[0].how);
        if (parts[0].how == ncclAvg) sum /= (decltype(sum))parts.size();
        store(sum, &to[i]);
    }
}

/* Into memory of its own first: outputs may be inputs. */
template <typename T> static void perform_as(const std::vector<part> &parts) {
    const size_t size = parts.size(), n = parts[0].n;
    const kind what = parts[0].what;
    std::vector<T> all(what == ALL_REDUCE || what == BROADCAST ? n : n * size);
    if (what == ALL_REDUCE || what == REDUCE_SCATTER) reduce(parts, 0, all.size(), all.data());
    else if (what == BROADCAST) memcpy(all.data(), parts[(size_t)parts[0].how].in, n * sizeof(T));
    else
        for (size_t k = 0; k < size; k++) memcpy(&all[k * n], parts[k].in, n * sizeof(T));
    for (size_t k = 0; k < size; k++)
        if (what == REDUCE_SCATTER) memcpy(parts[k].out, &all[k * n], n * sizeof(T));
        else memcpy(parts[k].out, all.data(), all.size() * sizeof(T));
}

static size_t bytes_of(ncclDataType_t type) {
    return type == ncclInt64 ? 8 : type == ncclFloat16 || type == ncclBfloat16 ? 2 : 4;
}

/* Says which member calls something else than the first. */
static bool agree(const std::vector<part> &parts) {
    const part &first = parts[0];
    for (size_t k = 1; k < parts.size(); k++) {
        const part &p = parts[k];
        if (p.what == first.what && p.n == first.n && p.type == first.type && p.how == first.how)
            continue;
        fprintf(stderr,
                "the emulated NCCL hangs: member 0 calls %s of %zu elements (type %d, %d), member "
                "%zu %s of %zu (type %d, %d)\n",
                kind_names[first.what], first.n, first.type, first.how, k, kind_names[p.what], p.n,
                p.type, p.how);
        return false;
    }
    return true;
}

static void check(const std::vector<part> &parts) {
    for (size_t k = 0; k < parts.size(); k++) {
        const part &p = parts[k];
        const char *name = kind_names[p.what];
        const size_t bytes = p.n * bytes_of(p.type), all = bytes * parts.size();
        if (p.what != BROADCAST || (int)k == p.how)
            emulated_check_range(p.in, p.what == REDUCE_SCATTER ? all : bytes, name);
        emulated_check_range(p.out, p.what == ALL_GATHER ? all : bytes, name);
    }
}

static void perform(const std::vector<part> &parts) {
    check(parts);
    switch (parts[0].type) {
    case ncclInt32:
        return perform_as<int32_t>(parts);
    case ncclInt64:
        return perform_as<int64_t>(parts);
    case ncclFloat16:
        return perform_as<__half>(parts);
    case ncclBfloat16:
        return perform_as<__nv_bfloat16>(parts);
    default:
        return perform_as<float>(parts);
    }
}

/* ---- meeting ---- */

/* As work of a stream: the last to come does it for all, the others wait, or are aborted. */
static void meet(clique *all, const std::atomic<bool> *aborted, int rank, uint64_t number,
                 const part &mine) {
    std::unique_lock<std::mutex> hold(all->lock);
    meeting &m = all->meetings[number];
    m.parts.resize((size_t)all->size);
    m.parts[(size_t)rank] = mine;
    if (++m.come == all->size && !m.dead && !*aborted && agree(m.parts)) {
        perform(m.parts);
        m.done = true;
        all->changed.notify_all();
    }
    while (!m.done && !*aborted) all->changed.wait(hold);
    if (!m.done) m.dead = true;
    if (++m.gone == all->size) all->meetings.erase(number);
}

static ncclResult_t ask(ncclComm_t comm, cudaStream_t stream, const part &mine) {
    if (!comm || !stream || comm->all->joined < comm->size) return ncclInvalidUsage;
    const emulated_comm c = *comm;
    const uint64_t number = comm->asked++;
    return failure_of(emulated_ask(
        stream, [c, number, mine] { meet(c.all.get(), c.aborted.get(), c.rank, number, mine); }));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
    EMULATED_ENTER_NCCL();
    return ask(comm, stream, {ALL_REDUCE, in, out, n, type, reduction});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
    EMULATED_ENTER_NCCL();
    return ask(comm, stream, {REDUCE_SCATTER, in, out, n, type, reduction});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    EMULATED_ENTER_NCCL();
    return ask(comm, stream, {ALL_GATHER, in, out, n, type, 0});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    EMULATED_ENTER_NCCL();
    return ask(comm, stream, {BROADCAST, in, out, n, type, root});
}

static thread_local int depth;

ncclResult_t ncclGroupStart() {
    EMULATED_ENTER_NCCL();
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
    EMULATED_ENTER_NCCL();
    return depth-- > 0 ? ncclSuccess : ncclInvalidUsage;
}

/* ---- communicators ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    EMULATED_ENTER_NCCL();
    static std::atomic<uint64_t> last;
    const uint64_t number = ++last;
    memset(id, 0, sizeof *id);
    memcpy(id, &number, sizeof number);
    const pid_t process = getpid();
    memcpy(id->internal + sizeof number, &process, sizeof process);
    return ncclSuccess;
}

/* Does not wait for the others, as a communicator that is not blocking does not. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    EMULATED_ENTER_NCCL();
    uint64_t number;
    pid_t process;
    memcpy(&number, &id, sizeof number);
    memcpy(&process, id.internal + sizeof number, sizeof process);
    if (config->blocking || rank < 0 || rank >= n) return ncclInvalidArgument;
    if (process != getpid()) return ncclSystemError; /* threads only */
    std::lock_guard<std::mutex> hold(cliques_lock);
    std::shared_ptr<clique> &all = cliques[number];
    if (!all) all = std::make_shared<clique>();
    all->size = n;
    *comm = new emulated_comm;
    (*comm)->all = all;
    (*comm)->rank = rank;
    (*comm)->size = n;
    (*comm)->aborted = std::make_shared<std::atomic<bool>>(false);
    if (++all->joined == n) cliques.erase(number);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *code) {
    EMULATED_ENTER_NCCL();
    *code = comm->all->joined < comm->size ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

/* What is under way goes on. */
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    {
        std::lock_guard<std::mutex> hold(comm->all->lock);
        *comm->aborted = true;
        comm->all->changed.notify_all();
    }
    delete comm;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code) {
    static const char *const names[] = {"no error",       "unhandled cuda error", "system error",
                                        "internal error", "invalid argument",     "invalid usage",
                                        "remote error",   "in progress"};
    return names[code];
}

const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}
