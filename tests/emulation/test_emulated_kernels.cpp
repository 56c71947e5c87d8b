/* Tests kernels on the emulated device: barriers, warps, shared memory, atomics, limits of
   launches, and errors that must end the program. */
#include "tests/emulation/emulation_test.h"

/* ---- blocks ---- */

static __global__ void sum_kernel(const float *x, float *sums, int n) {
    __shared__ float space[256];
    float sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        sum += x[(size_t)blockIdx.x * (size_t)n + (size_t)i];
    space[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) space[threadIdx.x] += space[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = space[0];
}

static void barriers() {
    enum { BLOCKS = 50, N = 1000 };
    std::vector<float> x(BLOCKS * N);
    for (size_t i = 0; i < x.size(); i++) x[i] = (float)(i % 7);
    device_array<float> in(x), sums(BLOCKS);
    CHECK_CUDA(LAUNCH(sum_kernel, BLOCKS, 256, 0, NULL, in.data, sums.data, N));
    const std::vector<float> got = sums.host();
    for (size_t b = 0; b < BLOCKS; b++) {
        float want = 0; /* the numbers are integers, so the order of the additions has no effect */
        for (size_t i = 0; i < N; i++) want += x[b * N + i];
        CHECK_NEAR(got[b], want, 0);
    }
}

static __global__ void leave_kernel(int *seen, int stay) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if ((int)threadIdx.x >= stay) return;
    atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0) *seen = count;
}

/* Barriers must not wait for threads that have returned. */
static void returned_threads() {
    for (int stay : {1, 5, 32, 100}) {
        device_array<int> seen(1);
        CHECK_CUDA(LAUNCH(leave_kernel, 1, 100, 0, NULL, seen.data, stay));
        CHECK_INT(seen.host()[0], stay);
    }
}

static __global__ void index_kernel(int *to) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    to[block * blockDim.x * blockDim.y * blockDim.z + thread] += (int)(block * 1000 + thread);
}

static void indices() {
    const dim3 grid(2, 3, 4), block(5, 4, 3);
    device_array<int> to(24 * 60);
    CHECK_CUDA(LAUNCH(index_kernel, grid, block, 0, NULL, to.data));
    const std::vector<int> got = to.host();
    for (int i = 0; i < 24 * 60; i++) CHECK_INT(got[(size_t)i], i / 60 * 1000 + i % 60);
}

static __global__ void dynamic_kernel(int *to, int n) {
    int *space = static_cast<int *>(emulated_dynamic_shared());
    if (threadIdx.x == 0)
        for (int i = 0; i < n; i++) space[i] = i;
    __syncthreads();
    if (threadIdx.x == 1) *to = space[n - 1] + (int)(reinterpret_cast<uintptr_t>(space) % 16);
}

static void dynamic_shared() {
    device_array<int> to(1);
    CHECK_CUDA(LAUNCH(dynamic_kernel, 1, 2, 48 << 10, NULL, to.data, 12 << 10));
    CHECK_INT(to.host()[0], (12 << 10) - 1);
    CHECK_CODE(LAUNCH(dynamic_kernel, 1, 2, (48 << 10) + 1, NULL, to.data, 1),
               cudaErrorInvalidValue);
    CHECK_CODE(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_CODE(cudaFuncSetAttribute(dynamic_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (227 << 10) + 1),
               cudaErrorInvalidValue);
    CHECK_CUDA(cudaFuncSetAttribute(dynamic_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    100 << 10));
    CHECK_CUDA(LAUNCH(dynamic_kernel, 1, 2, 100 << 10, NULL, to.data, 25 << 10));
    CHECK_INT(to.host()[0], (25 << 10) - 1);
    CHECK_CODE(LAUNCH(dynamic_kernel, 1, 2, (100 << 10) + 1, NULL, to.data, 1),
               cudaErrorInvalidValue);
}

/* At the start of each block, shared memory must contain NaN, not the values of the previous
   block. */
template <typename T> static __global__ void stale_kernel(unsigned *to) {
    __shared__ T space[64][2], other;
    to[2 * blockIdx.x * blockDim.x + threadIdx.x] = space[threadIdx.x][1];
    to[(2 * blockIdx.x + 1) * blockDim.x + threadIdx.x] = other;
    __syncthreads();
    space[threadIdx.x][1] = 7;
    if (threadIdx.x == 0) other = 8;
}

static void static_shared() {
    enum { BLOCKS = 3 };
    for (unsigned threads : {32u, 64u}) { /* the larger block uses more of the variable */
        device_array<unsigned> to(2 * BLOCKS * threads);
        CHECK_CUDA(LAUNCH(stale_kernel<unsigned>, BLOCKS, threads, 0, NULL, to.data));
        const std::vector<unsigned> got = to.host();
        for (size_t i = 2 * threads; i < got.size(); i++) CHECK_INT(got[i], ~0u);
    }
}

/* Waits for none, one, and both of two batches. The third copy belongs to no committed batch. */
static __global__ void copies_kernel(const int4 *from, int4 *to) {
    __shared__ int4 space[3];
    for (int i = 0; i < 3; i++) space[i] = int4{-7, -7, -7, -7};
    for (int i = 0; i < 3; i++) {
        emulated_copy_async(&space[i], from + i, sizeof *from);
        if (i < 2) emulated_copies_commit();
    }
    for (int left = 2; left >= 0; left--) {
        emulated_copies_wait(left);
        for (int i = 0; i < 3; i++) to[3 * left + i] = space[i];
    }
}

static void asynchronous_copies() {
    device_array<int4> from({int4{1, 2, 3, 4}, int4{5, 6, 7, 8}, int4{9, 10, 11, 12}}), to(9);
    CHECK_CUDA(LAUNCH(copies_kernel, 1, 1, 0, NULL, from.data, to.data));
    const std::vector<int4> got = to.host();
    for (int left = 0; left < 3; left++)
        for (int i = 0; i < 3; i++)
            CHECK_INT(got[(size_t)(3 * left + i)].y, i < 2 - left ? 4 * i + 2 : -1);
}

/* ---- warps ---- */

enum { SHUFFLES = 7 };

static __global__ void shuffle_kernel(int *to) {
    const int lane = (int)threadIdx.x % 32, mine = 100 * ((int)threadIdx.x / 32) + lane;
    int *own = to + threadIdx.x * SHUFFLES;
    own[0] = __shfl_sync(~0u, mine, 5);
    own[1] = __shfl_sync(~0u, mine, lane + 1);
    own[2] = __shfl_sync(~0u, mine, 9, 8);
    own[3] = __shfl_xor_sync(~0u, mine, 16);
    own[4] = __shfl_down_sync(~0u, mine, 3);
    own[5] = __shfl_up_sync(~0u, mine, 3);
    own[6] = __shfl_down_sync(~0u, mine, 2, 4);
}

static void shuffles() {
    enum { THREADS = 96 };
    device_array<int> to(THREADS * SHUFFLES);
    CHECK_CUDA(LAUNCH(shuffle_kernel, 1, THREADS, 0, NULL, to.data));
    const std::vector<int> got = to.host();
    for (int t = 0; t < THREADS; t++) {
        const int warp = 100 * (t / 32), lane = t % 32;
        const int want[SHUFFLES] = {warp + 5,
                                    warp + (lane + 1) % 32,
                                    warp + lane / 8 * 8 + 1,
                                    warp + (lane ^ 16),
                                    warp + (lane + 3 < 32 ? lane + 3 : lane),
                                    warp + (lane >= 3 ? lane - 3 : lane),
                                    warp + (lane % 4 < 2 ? lane + 2 : lane)};
        for (int i = 0; i < SHUFFLES; i++) CHECK_INT(got[(size_t)(t * SHUFFLES + i)], want[i]);
    }
}

struct triple {
    double a;
    float b, c;
};

static __global__ void vote_kernel(unsigned *votes, triple *last) {
    const int lane = (int)threadIdx.x;
    const unsigned even = __ballot_sync(~0u, lane % 2 == 0);
    const int any = __any_sync(~0u, lane == 7), all = __all_sync(~0u, lane < 31);
    const triple t = __shfl_sync(~0u, triple{lane + 0.5, (float)lane, 2}, 31);
    unsigned upper = 0;
    if (lane >= 16)
        upper = __ballot_sync(0xffff0000u, lane % 3 == 0); /* only half of the warp takes part */
    if (lane == 16) {
        votes[0] = even;
        votes[1] = (unsigned)any;
        votes[2] = (unsigned)all;
        votes[3] = upper;
        *last = t;
    }
}

static void votes() {
    device_array<unsigned> to(4);
    device_array<triple> last(1);
    CHECK_CUDA(LAUNCH(vote_kernel, 1, 32, 0, NULL, to.data, last.data));
    const std::vector<unsigned> got = to.host();
    unsigned upper = 0;
    for (unsigned i = 18; i < 32; i += 3) upper |= 1u << i;
    CHECK_INT(got[0], 0x55555555u);
    CHECK_INT(got[1], 1);
    CHECK_INT(got[2], 0);
    CHECK_INT(got[3], upper);
    CHECK_NEAR(last.host()[0].a, 31.5, 0);
    CHECK_NEAR(last.host()[0].b, 31, 0);
}

/* Writes before __syncwarp must be visible to the other lanes after it, whatever the order of the
   lanes. */
static __global__ void transpose_kernel(int *to) {
    __shared__ int space[64];
    const int t = (int)threadIdx.x;
    space[t] = t;
    __syncwarp();
    const int next = space[t / 32 * 32 + (t + 1) % 32];
    __syncwarp();
    space[t] = next;
    __syncwarp();
    to[t] = space[t / 32 * 32 + (t + 1) % 32];
}

static void warps() {
    device_array<int> to(64);
    CHECK_CUDA(LAUNCH(transpose_kernel, 1, 64, 0, NULL, to.data));
    const std::vector<int> got = to.host();
    for (int t = 0; t < 64; t++) CHECK_INT(got[(size_t)t], t / 32 * 32 + (t + 2) % 32);
}

/* ---- atomics ---- */

struct counters {
    int i, most, least, won;
    unsigned u, bits;
    unsigned long long wide;
    float f;
};

static __global__ void atomic_kernel(counters *c) {
    const int t = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(&c->i, 1);
    atomicMax(&c->most, t);
    atomicMin(&c->least, -t);
    atomicAdd(&c->u, 2u);
    atomicOr(&c->bits, 1u << t % 32);
    atomicAdd(&c->wide, 1ull << 40);
    atomicAdd(&c->f, 0.5f);
    atomicCAS(&c->won, 0, t + 1);
}

/* Two streams use atomics on the same data at the same time. */
static void atomics() {
    enum { BLOCKS = 20, THREADS = 50, N = BLOCKS * THREADS };
    device_array<counters> c(1);
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) CHECK_CUDA(cudaStreamCreate(&stream));
    for (cudaStream_t stream : streams)
        CHECK_CUDA(LAUNCH(atomic_kernel, BLOCKS, THREADS, 0, stream, c.data));
    for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamSynchronize(stream));
    for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
    const counters got = c.host()[0];
    CHECK_INT(got.i, 2 * N);
    CHECK_INT(got.most, N - 1);
    CHECK_INT(got.least, 1 - N);
    CHECK_INT(got.u, 4 * N);
    CHECK_INT(got.bits, 0xffffffffu);
    CHECK_INT(got.wide, (unsigned long long)(2 * N) << 40);
    CHECK_NEAR(got.f, N, 0);
    CHECK(got.won > 0 && got.won <= N);
}

/* ---- the order of threads ---- */

static __global__ void order_kernel(int *order, int *count) {
    order[atomicAdd(count, 1)] = (int)threadIdx.x;
}

static void print_order() {
    device_array<int> order(40), count(1);
    CHECK_CUDA(LAUNCH(order_kernel, 1, 40, 0, NULL, order.data, count.data));
    for (int t : order.host()) printf("%d ", t);
}

/* Records the order in which the warps run: twice before a barrier, and once after it. */
static __global__ void turns_kernel(int *order, int *count) {
    const int warp = (int)threadIdx.x / 32;
    const bool tells = threadIdx.x % 32 == 0;
    for (int i = 0; i < 2; i++) {
        if (tells) order[atomicAdd(count, 1)] = warp;
        __syncwarp();
    }
    __syncthreads();
    if (tells) order[atomicAdd(count, 1)] = warp;
}

static void print_turns() {
    device_array<int> order(9), count(1);
    CHECK_CUDA(LAUNCH(turns_kernel, 1, 96, 0, NULL, order.data, count.data));
    for (int warp : order.host()) printf("%d ", warp);
}

/* A greedy warp reaches the barrier before the next warp begins. The warp that arrives last
   continues first. */
static void greedy_orders() {
    const std::string forward = run_child("turns", "SYN_EMULATED_ORDER=greedy-forward").text;
    CHECK_STR(forward.c_str(), "0 0 1 1 2 2 2 0 1 ");
    CHECK_STR(run_child("turns", "SYN_EMULATED_ORDER=greedy-reversed").text.c_str(),
              "2 2 1 1 0 0 0 2 1 ");
    CHECK_STR(run_child("turns", "SYN_EMULATED_ORDER=forward").text.c_str(), "0 1 2 0 1 2 0 1 2 ");
    std::string firsts;
    for (int seed = 1; seed < 20; seed++) {
        const std::string order = "SYN_EMULATED_ORDER=greedy-random:" + std::to_string(seed);
        const std::string text = run_child("turns", order.c_str()).text;
        CHECK_INT(text.size(), forward.size());
        for (size_t i = 0; i < 12; i += 4) CHECK_INT(text[i], text[i + 2]);
        firsts += text[0];
    }
    for (const char *warp : {"0", "1", "2"}) CHECK_HAS(firsts.c_str(), warp);
}

static void orders() {
    std::string forward, reversed;
    for (int t = 0; t < 40; t++) {
        forward += std::to_string(t) + " ";
        reversed += std::to_string(39 - t) + " ";
    }
    CHECK_STR(run_child("order", "SYN_EMULATED_ORDER=").text.c_str(), forward.c_str());
    CHECK_STR(run_child("order", "SYN_EMULATED_ORDER=forward").text.c_str(), forward.c_str());
    CHECK_STR(run_child("order", "SYN_EMULATED_ORDER=reversed").text.c_str(), reversed.c_str());
    const std::string one = run_child("order", "SYN_EMULATED_ORDER=random:1").text;
    const std::string two = run_child("order", "SYN_EMULATED_ORDER=random:2").text;
    CHECK(one != forward && one != reversed && one != two && one.size() == forward.size());
    CHECK_STR(run_child("order", "SYN_EMULATED_ORDER=random:1").text.c_str(), one.c_str());
}

/* ---- limits ---- */

static __global__ void count_kernel(unsigned long long *n) {
    atomicAdd(n, 1ull);
}

static void limits() {
    device_array<unsigned long long> n(1);
    const struct {
        dim3 grid, block;
        bool works;
    } launches[] = {
        {1, 1024, true},           {1, 1025, false},      {1, {32, 32}, true},
        {1, {33, 32}, false},      {1, {1, 1, 64}, true}, {1, {1, 1, 65}, false},
        {1, {1, 1025}, false},     {1, 0, false},         {0, 1, false},
        {{1, 0}, 1, false},        {{1, 65535}, 1, true}, {{1, 65536}, 1, false},
        {{1, 1, 65536}, 1, false}, {1u << 31, 1, false},  {1, {1u << 31, 1u << 31, 4}, false}};
    unsigned long long want = 0;
    cudaGetLastError(); /* clears the error of an earlier test */
    for (const auto &l : launches) {
        const cudaError_t code = l.works ? cudaSuccess : cudaErrorInvalidConfiguration;
        CHECK_CODE(LAUNCH(count_kernel, l.grid, l.block, 0, NULL, n.data), code);
        CHECK_CODE(cudaPeekAtLastError(), code);
        CHECK_CODE(cudaGetLastError(), code);
        CHECK_CODE(cudaGetLastError(), cudaSuccess);
        if (l.works) want += (uint64_t)l.grid.y * l.block.x * l.block.y * l.block.z;
    }
    CHECK_INT(n.host()[0], want);
}

static __global__ void value_kernel(double *to, int8_t a, double b, float4 c) {
    *to = a + b + c.w;
}

/* Arguments have the values from the time of the launch, converted to the types of the
   parameters. */
static void arguments() {
    device_array<double> to(2);
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreate(&stream));
    float4 c = make_float4(0, 0, 0, 0.25f);
    CHECK_CUDA(LAUNCH(value_kernel, 1, 1, 0, stream, to.data, 3, 2.5f, c));
    c.w = 0.5f;
    CHECK_CUDA(LAUNCH(value_kernel, 1, 1, 0, stream, to.data + 1, -3, 2, c));
    c.w = 100;
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_NEAR(to.host()[0], 5.75, 0);
    CHECK_NEAR(to.host()[1], -0.5, 0);
    CHECK_CUDA(cudaStreamDestroy(stream));
}

/* ---- errors that end the program ---- */

static __global__ void lone_kernel(int *to) {
    if (threadIdx.x < 16) __syncthreads();
    else to[threadIdx.x] = __shfl_sync(~0u, 1, 0);
}
static void wait_for_nobody() {
    device_array<int> to(32);
    LAUNCH(lone_kernel, 1, 32, 0, NULL, to.data);
}

static __global__ void gone_kernel(int *to) {
    if (threadIdx.x == 3) return;
    to[threadIdx.x] = __shfl_sync(~0u, 1, 0);
}
static void name_a_lane_that_returned() {
    device_array<int> to(32);
    LAUNCH(gone_kernel, 1, 32, 0, NULL, to.data);
}

static __global__ void masked_kernel(int *to) {
    to[threadIdx.x] = __any_sync(1u, 1);
}
static void lack_the_own_lane() {
    device_array<int> to(2);
    LAUNCH(masked_kernel, 1, 2, 0, NULL, to.data);
}

static __global__ void misaligned_kernel(const int *from) {
    emulated_align(from + 1, 16);
}
static __global__ void stray_kernel(int *to, int n) {
    to[n] = 1;
}
static void read_in_between() {
    device_array<int> from(8);
    LAUNCH(misaligned_kernel, 1, 1, 0, NULL, from.data);
    cudaStreamSynchronize(NULL);
}
static void write_behind_shared() {
    device_array<int> to(1);
    LAUNCH(dynamic_kernel, 1, 2, 40, NULL, to.data, 11);
}
static void write_behind() {
    device_array<int> to(10);
    LAUNCH(stray_kernel, 1, 1, 0, NULL, to.data, 10);
    cudaStreamSynchronize(NULL);
}
static void write_before() {
    device_array<int> to(10);
    LAUNCH(stray_kernel, 1, 1, 0, NULL, to.data, -1);
}

static void deaths() {
    CHECK_DIES("lone", "lone_kernel: 32 threads of block 0,0,0 wait for others that never come");
    CHECK_DIES("gone", "gone_kernel: a warp operation names lane 3, which has returned");
    CHECK_DIES("masked", "masked_kernel: lane 1 is not in its own mask");
    CHECK_DIES("shared", "dynamic_kernel: a write 0 bytes behind 40 of shared memory");
    CHECK_DIES("between", "16 bytes at once at ");
    CHECK_DIES("behind", "a write 0 bytes behind a buffer of 40");
    CHECK_DIES("before", "a write 4 bytes before a buffer of 40");
}

static const test_case cases[] = {{"barriers", barriers},
                                  {"returned threads", returned_threads},
                                  {"indices", indices},
                                  {"dynamic shared memory", dynamic_shared},
                                  {"static shared memory", static_shared},
                                  {"asynchronous copies", asynchronous_copies},
                                  {"greedy orders", greedy_orders},
                                  {"shuffles", shuffles},
                                  {"votes", votes},
                                  {"warps", warps},
                                  {"atomics", atomics},
                                  {"orders", orders},
                                  {"limits", limits},
                                  {"arguments", arguments},
                                  {"deaths", deaths}};
static const test_case children[] = {
    {"order", print_order},        {"turns", print_turns},
    {"lone", wait_for_nobody},     {"gone", name_a_lane_that_returned},
    {"masked", lack_the_own_lane}, {"shared", write_behind_shared},
    {"between", read_in_between},  {"behind", write_behind},
    {"before", write_before}};
TEST_MAIN_WITH(cases, children)
