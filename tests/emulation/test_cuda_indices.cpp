/* Tests indices of tensors with more than 2^31 elements, which no test could allocate. The index
 * arithmetic of kernels is tested without data. Which elements kernels access is tested in sparse
 * memory, in which only touched pages exist. */
#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "ops/cuda/attention.cuh"
#include "ops/cuda/each.cuh"
#include "ops/cuda/tiles.cuh"
#include "tests/emulation/emulation_test.h"

static std::mt19937_64 random_bits(1);

static int64_t random_to(int64_t most) {
    return (int64_t)(random_bits() % ((uint64_t)most + 1));
}

/* The elements to test: the first, the last, those near 2^31 and 2^32, and some random ones. */
static std::vector<int64_t> some_of(int64_t n) {
    std::vector<int64_t> all = {0, n - 1, INT32_MAX, INT32_MAX + 1ll, UINT32_MAX, UINT32_MAX + 1ll};
    for (int i = 0; i < 40; i++) all.push_back(random_to(n - 1));
    all.erase(std::remove_if(all.begin(), all.end(), [n](int64_t i) { return i >= n; }), all.end());
    return all;
}

/* ---- walks ---- */

/* A dense operand. The dimensions are sometimes in random order, and the innermost one is sometimes
 * followed by padding. */
static syn_operand random_operand(const syn_spec &shape) {
    syn_operand o = {};
    int order[SYN_MAX_RANK];
    int64_t stride = 1;
    o.spec = shape;
    for (int d = 0; d < shape.rank; d++) order[d] = d;
    if (random_to(1)) std::shuffle(order, order + shape.rank, random_bits);
    for (int k = shape.rank - 1; k >= 0; k--) {
        o.strides[order[k]] = stride;
        stride *= shape.dims[order[k]] + (k == shape.rank - 1 ? 4 * random_to(2) : 0);
    }
    return o;
}

/* A shape with 2^32 to 2^38 elements and dimensions of any size. */
static syn_spec large_shape() {
    syn_spec shape = {SYN_F32, 1 + (int32_t)random_to(3), {0}};
    double n = 0;
    while (!(n >= 0x1p32 && n <= 0x1p38)) {
        n = 1;
        for (int d = 0; d < shape.rank; d++) {
            const int64_t about = 1ll << random_to(36);
            n *= (double)(shape.dims[d] = about + random_to(about - 1) * random_to(1));
        }
    }
    return shape;
}

static int64_t place_of(const syn_operand &o, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < o.spec.rank; d++) at += o.spec.dims[d] > 1 ? index[d] * o.strides[d] : 0;
    return at;
}

static void walks() {
    for (int round = 0; round < 200; round++) {
        const syn_spec shape = large_shape();
        const syn_operand a = random_operand(shape), b = random_operand(shape);
        syn_walk<2> rows, all = {};
        for (int d = 0; d < shape.rank; d++)
            syn_walk_add(&all, shape.dims[d], {a.strides[d], b.strides[d]});
        const int64_t n = syn_walk_done(&all), width = shape.dims[shape.rank - 1];
        CHECK_INT(n, syn_elems(&shape));
        CHECK_INT(syn_walk_rows(&rows, &shape, {&a, &b}), n / width);
        for (int64_t i : some_of(n)) {
            int64_t index[SYN_MAX_RANK], at[2], left = i;
            for (int d = shape.rank - 1; d >= 0; left /= shape.dims[d--])
                index[d] = left % shape.dims[d];
            syn_walk_to(all, i, at);
            CHECK_INT(at[0], place_of(a, index));
            CHECK_INT(at[1], place_of(b, index));
            syn_walk_to(rows, i / width, at);
            index[shape.rank - 1] = 0;
            CHECK_INT(at[0], place_of(a, index));
            CHECK_INT(at[1], place_of(b, index));
        }
    }
}

/* A walk follows the memory order of the first operand. The expected index is computed from this
 * operand's strides; the second operand may be broadcast. */
static void walks_in_another_order() {
    for (int round = 0; round < 200; round++) {
        const syn_spec shape = large_shape();
        syn_spec part = shape;
        for (int d = 0; d < shape.rank; d++)
            if (random_to(2) == 0) part.dims[d] = 1;
        const syn_operand a = random_operand(shape), b = random_operand(part);
        syn_walk<2> walk;
        const int64_t n = syn_walk_over(&walk, &shape, {&a, &b});
        CHECK_INT(n, syn_elems(&shape));
        int64_t before = -1;
        std::vector<int64_t> elements = some_of(n);
        std::sort(elements.begin(), elements.end());
        elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
        for (int64_t i : elements) {
            int64_t index[SYN_MAX_RANK] = {0}, at[2];
            syn_walk_to(walk, i, at);
            CHECK(at[0] > before);
            before = at[0];
            for (int d = 0; d < shape.rank; d++) {
                int64_t next = INT64_MAX; /* the next larger stride */
                for (int k = 0; k < shape.rank; k++)
                    if (shape.dims[k] > 1 && a.strides[k] > a.strides[d])
                        next = std::min(next, a.strides[k]);
                if (shape.dims[d] > 1) index[d] = at[0] % next / a.strides[d];
                CHECK(index[d] < shape.dims[d]);
            }
            CHECK_INT(at[1], place_of(b, index));
        }
    }
}

static void packs() {
    for (int round = 0; round < 200; round++) {
        syn_spec shape = large_shape();
        int64_t stride = shape.dims[shape.rank - 1] *= 4;
        syn_walk<1> one = {}, four;
        for (int d = 0; d + 1 < shape.rank; d++) {
            int64_t outside = stride + 4;
            for (int k = d + 1; k + 1 < shape.rank; k++) outside *= shape.dims[k];
            syn_walk_add(&one, shape.dims[d], {outside});
        }
        syn_walk_add(&one, stride, {1});
        four = one;
        const int64_t n = syn_walk_done(&one);
        syn_walk_done(&four);
        CHECK(syn_walk_packs(four, 0, NULL, 4, 4));
        syn_walk_pack(&four, 4);
        for (int64_t i : some_of(n / 4)) {
            int64_t of_one[1], of_four[1];
            syn_walk_to(one, 4 * i, of_one);
            syn_walk_to(four, i, of_four);
            CHECK_INT(of_one[0], of_four[0]);
        }
    }
}

/* ---- grids ---- */

static void grids() {
    CHECK_INT(syn_blocks(0, 256, 1), 0);
    CHECK_INT(syn_blocks(1ll << 32, 256, 1), 1 << 24);
    CHECK_INT(syn_blocks((1ll << 32) + 1, 256, 4), (1 << 22) + 1);
    CHECK_INT(syn_blocks((1ll << 39) - 256, 256, 1), INT32_MAX);
    CHECK_INT(syn_blocks(1ll << 50, 256, 1), INT32_MAX);
}

/* ---- kernels, thread by thread ---- */

/* Sparse memory for n elements, which are zero. data is NULL if the system does not have enough
 * address space. */
template <typename T> struct sparse {
    size_t bytes;
    T *data;

    explicit sparse(int64_t n) : bytes((size_t)n * sizeof(T)) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data = at == MAP_FAILED ? NULL : static_cast<T *>(at);
    }
    sparse(const sparse &) = delete;
    sparse &operator=(const sparse &) = delete;
    ~sparse() {
        if (data) munmap(data, bytes);
    }
};

struct add_number {
    void operator()(const float (&in)[1], float (&out)[1], int64_t number) const {
        out[0] = in[0] + (float)(number % 1000);
    }
};

/* Runs the thread that computes element i, if each thread computes W elements. */
template <int W>
static void run_each(const syn_each_pointers<float, 1, 1> &p, int64_t n, int64_t i) {
    gridDim = {syn_blocks(n / W, SYN_EACH_THREADS, 1), 1, 1};
    blockIdx = {(unsigned)(i / W / SYN_EACH_THREADS), 0, 0};
    threadIdx = {(unsigned)(i / W % SYN_EACH_THREADS), 0, 0};
    syn_each_kernel<float, 1, 1, W, add_number>(p, n / W, add_number());
}

/* Elements of three rows, each followed by padding. */
static void elements() {
    const int64_t width = 1ll << 31, row = width + 64, n = 3 * width;
    sparse<float> in(3 * row), out(n);
    if (!in.data || !out.data) SKIP("no address space for 52 GB");
    for (int packed = 0; packed < 2; packed++) {
        syn_each_pointers<float, 1, 1> p = {};
        p.out[0] = out.data;
        p.in[0] = in.data;
        syn_walk_add(&p.walk, 3, {row});
        syn_walk_add(&p.walk, width, {1});
        CHECK_INT(syn_walk_done(&p.walk), n);
        if (packed) syn_walk_pack(&p.walk, 4);
        for (int64_t i : some_of(n)) {
            float *const from = &in.data[i / width * row + i % width];
            *from = (float)packed + 0.5f;
            out.data[i] = 0;
            if (packed) run_each<4>(p, n, i);
            else run_each<1>(p, n, i);
            CHECK_NEAR(out.data[i], *from + (float)(i % 1000), 0);
        }
    }
}

/* ---- attention ---- */

/* A tile's band of keys must contain all keys that one of its rows attends to, also at large
 * positions. */
static void bands() {
    for (int round = 0; round < 2000; round++) {
        syn_attention a = {};
        a.queries = a.keys = 1ll << 34;
        a.causal = random_to(3) != 0;
        a.offset = random_to(1) ? random_to(1ll << 33) - (1ll << 32) : random_to(200) - 100;
        a.window = !a.causal || random_to(1) ? 0
                   : random_to(1)            ? 1 + random_to(200)
                                             : 1 + random_to(1ll << 33);
        const int64_t t = (1ll << 31) + random_to(1ll << 32);
        const int64_t s = random_to(1) ? (1ll << 31) + random_to(1ll << 32)
                                       : syn_within(t + a.offset + random_to(300) - 150, a.keys);
        const syn_band keys = syn_band_of_query(a, t, s), queries = syn_band_of_key(a, s, t);
        for (int i = 0; i < 30; i++) {
            const int row = (int)random_to(127), column = (int)random_to(127);
            const syn_range of_query = syn_keys_of(a, t + row), of_key = syn_queries_of(a, s + row);
            if (s + column < a.keys)
                CHECK_INT(syn_sees(keys, row, column),
                          s + column >= of_query.from && s + column < of_query.until);
            if (t + column < a.queries && s + row < a.keys)
                CHECK_INT(syn_sees(queries, row, column),
                          t + column >= of_key.from && t + column < of_key.until);
        }
    }
}

/* Fetches rows that are 2^30 elements apart, of a head that begins after element 2^33. */
static void fetched_rows() {
    enum { ROWS = 8, DEPTH = 32 };
    typedef syn_plain_tile<DEPTH, 8, 8, 1, 1> tile;
    const int64_t apart = 1ll << 30, batch = 1ll << 32, head = 1ll << 31;
    sparse<float> from(2 * batch + head + ROWS * apart);
    if (!from.data) SKIP("no address space for 77 GB");
    const syn_head_rows rows = {from.data, batch, head, apart};
    const float *const first = syn_rows_at<float>(rows, 2, 1);
    CHECK(first == from.data + 2 * batch + head);
    for (int r = 0; r < ROWS; r++)
        for (int d = 0; d < DEPTH; d++)
            from.data[2 * batch + head + r * apart + d] = (float)(100 * r + d);
    for (int packed = 0; packed < 2; packed++) {
        alignas(16) float to[ROWS * tile::ROW];
        syn_attention a = {};
        a.packs = packed;
        for (unsigned t = 0; t < tile::THREADS; t++) {
            threadIdx = {t, 0, 0};
            syn_fetch_rows<tile, ROWS>(to, first, ROWS, a, DEPTH, 0,
                                       [&](int r) { return r * rows.row; });
        }
        for (int r = 0; r < ROWS; r++)
            for (int d = 0; d < DEPTH; d++) CHECK_NEAR(to[r * tile::ROW + d], 100 * r + d, 0);
    }
}

static const test_case cases[] = {{"walks", walks},
                                  {"walks in another order", walks_in_another_order},
                                  {"packs", packs},
                                  {"grids", grids},
                                  {"elements", elements},
                                  {"bands", bands},
                                  {"fetched rows", fetched_rows}};
TEST_MAIN(cases)
