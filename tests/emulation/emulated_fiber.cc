/* Kernels: the threads of a block as fibers of the stream's thread. One that never waits runs to
   its end like a function call, on a fiber that the next one takes over; who waits keeps the fiber.
   The last one to come to a barrier or warp operation makes the others ready and goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <random>

#include "tests/emulation/emulated.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(EMULATED_ADDRESS)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(EMULATED_THREAD)
#include <sanitizer/tsan_interface.h>
#endif

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- fibers ---- */

enum { STACK = 256 << 10, PAGE = 4096, WARP = 32, SHARED_GUARD = 64, ALL = -1 };

struct fiber {
    char *stack = NULL; /* NULL: the stream's own thread */
#if defined(__x86_64__)
    void *sp = NULL;
#else
    ucontext_t context;
#endif
    void *fake = NULL; /* of the sanitizers */
    const void *bottom = NULL;
    size_t size = 0;
    void *tsan = NULL;
};

#if defined(__x86_64__)
/* Saves what a call must keep on the stack at *from, and goes on with that at `to`. */
extern "C" void emulated_switch(void **from, void *to);
asm(".text\n"
    ".hidden emulated_switch\n"
    ".globl emulated_switch\n"
    ".type emulated_switch,@function\n"
    "emulated_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size emulated_switch,.-emulated_switch\n"
    ".section .note.GNU-stack,\"\",@progbits\n"
    ".text\n");
#endif

static void switch_fiber(fiber *from, fiber *to) {
#if defined(EMULATED_ADDRESS)
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size);
#endif
#if defined(EMULATED_THREAD)
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
#if defined(__x86_64__)
    emulated_switch(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
#if defined(EMULATED_ADDRESS)
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

/* ---- a block ---- */

enum thread_state { FRESH, READY, AT_BARRIER, IN_WARP, DONE };

struct thread {
    thread_state state;
    fiber *on;
    uint3 index; /* threadIdx */
    int turn;    /* its place in the order */
    /* IN_WARP */
    unsigned mask;
    const void *mine;
    size_t bytes;
    int from; /* ALL: theirs, one after the other */
    void *to;
    unsigned set; /* what it gets */
};

struct warp { /* sets of lanes */
    unsigned waiting, gone;
};

struct machine { /* a stream's */
    fiber scheduler;
    std::vector<fiber *> idle, all;
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<int> order;
    std::vector<char> shared;
    const emulated_launch *launch = NULL;
    emulated_caller *call = NULL;
    std::vector<void *> arguments;
    int n = 0, next = 0, live = 0, at_barrier = 0, current = 0;
    std::mt19937 random;

    ~machine() {
        for (fiber *f : all) {
#if defined(EMULATED_THREAD)
            __tsan_destroy_fiber(f->tsan);
#endif
            munmap(f->stack - PAGE, STACK + PAGE);
            delete f;
        }
    }
};

static thread_local machine *here;

static void place(machine *m, int t) {
    m->current = t;
    threadIdx = m->threads[(size_t)t].index;
}

/* Who goes on when that thread waits: the next that is ready. NULL: none is, or some have not
   begun. */
static fiber *next_ready(const machine *m, int turn) {
    if (m->next < m->n) return NULL;
    for (int i = 1; i < m->n; i++) {
        const int at = turn + i < m->n ? turn + i : turn + i - m->n;
        const thread &t = m->threads[(size_t)m->order[(size_t)at]];
        if (t.state == READY) return t.on;
    }
    return NULL;
}

/* Gives way to others until the thread is ready again. */
static void wait_as(thread_state state) {
    machine *m = here;
    const int t = m->current;
    thread &self = m->threads[(size_t)t];
    self.state = state;
    fiber *next = next_ready(m, self.turn);
    switch_fiber(self.on, next ? next : &m->scheduler);
    place(m, t);
}

static void release_barrier(machine *m) {
    m->at_barrier = 0;
    for (int t = 0; t < m->n; t++)
        if (m->threads[(size_t)t].state == AT_BARRIER) m->threads[(size_t)t].state = READY;
}

void emulated_barrier() {
    machine *m = here;
    if (++m->at_barrier == m->live) release_barrier(m);
    else wait_as(AT_BARRIER);
}

int emulated_lane() {
    return here->current % WARP;
}

/* All lanes are here: each gets what it asked for. */
static void exchange(thread *lanes, unsigned mask, size_t bytes) {
    unsigned set = 0;
    const void *whole = NULL;
    for (unsigned left = mask; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        if (*static_cast<const char *>(lanes[i].mine)) set |= 1u << i;
    }
    for (unsigned left = mask; left; left &= left - 1) {
        thread &lane = lanes[__builtin_ctz(left)];
        lane.set = set;
        lane.state = READY;
        if (lane.from == ALL && whole) { /* the same for all */
            memcpy(lane.to, whole, WARP * bytes);
            continue;
        }
        const unsigned from = lane.from == ALL ? mask : mask & 1u << lane.from;
        for (unsigned k = from; k; k &= k - 1) {
            const int i = __builtin_ctz(k);
            char *to = static_cast<char *>(lane.to) + (lane.from == ALL ? (size_t)i * bytes : 0);
            if (bytes == 4) memcpy(to, lanes[i].mine, 4);
            else memcpy(to, lanes[i].mine, bytes);
        }
        if (lane.from == ALL && mask == ~0u) whole = lane.to;
    }
}

/* Whether those who wait and the thread itself are all that its mask names, at the same. */
static bool complete(const thread *lanes, const warp &w, unsigned mask, size_t bytes) {
    if (mask & ~w.waiting) return false;
    for (unsigned left = mask; left; left &= left - 1) {
        const thread &lane = lanes[__builtin_ctz(left)];
        if (lane.mask != mask || lane.bytes != bytes) return false;
    }
    return true;
}

unsigned emulated_exchange(unsigned mask, const void *mine, size_t bytes, int from, void *to) {
    machine *m = here;
    const int t = m->current, first = t / WARP * WARP;
    thread *lanes = &m->threads[(size_t)first], &self = lanes[t - first];
    warp &w = m->warps[(size_t)(t / WARP)];
    if (!(mask >> (t - first) & 1))
        emulated_die("%s: lane %d is not in its own mask", m->launch->name, t - first);
    if (mask & w.gone) {
        const int i = __builtin_ctz(mask & w.gone);
        emulated_die("%s: a warp operation names lane %d, which %s", m->launch->name, i,
                     first + i >= m->n ? "there is not" : "has returned");
    }
    self.mask = mask;
    self.mine = mine;
    self.bytes = bytes;
    self.from = from;
    self.to = to;
    w.waiting |= 1u << (t - first);
    if (complete(lanes, w, mask, bytes)) {
        w.waiting &= ~mask;
        exchange(lanes, mask, bytes);
    } else {
        wait_as(IN_WARP);
    }
    return self.set;
}

void emulated_gather(unsigned mask, const void *mine, size_t bytes, void *all) {
    emulated_exchange(mask, mine, bytes, ALL, all);
}

void emulated_misaligned(const void *at, size_t bytes) {
    emulated_die("%zu bytes at once at %p, which lies on fewer", bytes, at);
}

void *emulated_dynamic_shared() {
    const size_t at = reinterpret_cast<size_t>(here->shared.data());
    return here->shared.data() + (-at & 15);
}

static void leave(machine *m, int t) {
    m->threads[(size_t)t].state = DONE;
    m->warps[(size_t)(t / WARP)].gone |= 1u << t % WARP;
    m->live--;
    if (m->live > 0 && m->at_barrier == m->live) release_barrier(m);
}

/* What a fiber does: threads that nobody began, one after the other, until one has waited. */
static void fiber_main() {
#if defined(EMULATED_ADDRESS)
    __sanitizer_finish_switch_fiber(NULL, &here->scheduler.bottom, &here->scheduler.size);
#endif
    for (;;) {
        machine *m = here;
        fiber *self = NULL;
        bool first = true;
        while (first || (m->next < m->n && m->idle.empty() == false && m->idle.back() == self)) {
            const int t = m->order[(size_t)m->next++];
            if (first) self = m->idle.back();
            m->idle.pop_back();
            first = false;
            m->threads[(size_t)t].on = self;
            place(m, t);
            m->call(m->launch->kernel, m->arguments.data());
            leave(m, t);
            m->idle.push_back(self);
        }
        switch_fiber(self, &m->scheduler);
    }
}

#if !defined(__x86_64__)
static void fiber_entry() {
    fiber_main();
}
#endif

static fiber *new_fiber() {
    fiber *f = new fiber;
    char *whole = static_cast<char *>(mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (whole == MAP_FAILED) emulated_die("no memory for a fiber's stack");
    mprotect(whole, PAGE, PROT_NONE);
    f->stack = whole + PAGE;
    f->bottom = f->stack;
    f->size = STACK;
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(f->stack + STACK) - 2;
    *--top = NULL; /* where fiber_main would return to */
    *--top = reinterpret_cast<void *>(fiber_main);
    f->sp = top - 6; /* registers */
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = NULL;
    makecontext(&f->context, fiber_entry, 0);
#endif
#if defined(EMULATED_THREAD)
    f->tsan = __tsan_create_fiber(0);
#endif
    here->all.push_back(f);
    return f;
}

static void run_block(machine *m) {
    m->next = m->at_barrier = 0;
    m->live = m->n;
    for (thread &t : m->threads) t.state = FRESH;
    for (int i = 0; i < (int)m->warps.size(); i++) {
        const int lanes = m->n - i * WARP;
        m->warps[(size_t)i] = {0, lanes >= WARP ? 0 : ~0u << lanes};
    }
    while (m->next < m->n) {
        if (m->idle.empty()) m->idle.push_back(new_fiber());
        switch_fiber(&m->scheduler, m->idle.back());
    }
    while (m->live > 0) {
        bool any = false;
        for (int i = 0; i < m->n; i++) {
            thread *t = &m->threads[(size_t)m->order[(size_t)i]];
            if (t->state != READY) continue;
            any = true;
            switch_fiber(&m->scheduler, t->on);
        }
        if (!any)
            emulated_die("%s: %d threads of block %u,%u,%u wait for others that never come",
                         m->launch->name, m->live, blockIdx.x, blockIdx.y, blockIdx.z);
    }
}

/* ---- launches ---- */

struct known_kernel {
    const char *name;
    emulated_caller *call;
    std::vector<size_t> bytes;
    size_t shared;
};

static std::mutex lock;
static std::map<const void *, known_kernel> kernels;

void emulated_know_kernel(const char *name, const void *kernel, emulated_caller *call,
                          const size_t *bytes, int n) {
    std::lock_guard<std::mutex> hold(lock);
    known_kernel &k = kernels[kernel];
    if (k.call) return;
    k.name = name;
    k.call = call;
    k.bytes.assign(bytes, bytes + n);
}

cudaError_t emulated_set_shared(const void *kernel, cudaFuncAttribute what, int value) {
    EMULATED_ENTER_AS("cudaFuncSetAttribute");
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || (size_t)value > emulated_shared_optin())
        return emulated_fail(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> hold(lock);
    kernels[kernel].shared = (size_t)value;
    return cudaSuccess;
}

bool emulated_make_launch(emulated_launch *l, const void *kernel, dim3 grid, dim3 block,
                          void **arguments, size_t shared, cudaError_t *code) {
    std::lock_guard<std::mutex> hold(lock);
    const auto found = kernels.find(kernel);
    *code = cudaErrorInvalidDeviceFunction;
    if (found == kernels.end() || !found->second.call) return false;
    const known_kernel &k = found->second;
    size_t bytes = 0;
    for (size_t one : k.bytes) bytes += one;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const size_t allowed = k.shared > (48u << 10) ? k.shared : 48u << 10;
    *code = cudaErrorInvalidConfiguration;
    if (threads == 0 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > 65535 ||
        grid.z > 65535)
        return false;
    *code = cudaErrorInvalidValue;
    if (shared > allowed || bytes > 4096) return false;
    l->name = k.name;
    l->kernel = kernel;
    l->grid = grid;
    l->block = block;
    l->shared = shared;
    for (size_t i = 0; i < k.bytes.size(); i++) {
        const char *from = static_cast<const char *>(arguments[i]);
        l->arguments.emplace_back(from, from + k.bytes[i]);
    }
    return true;
}

static void choose_order(machine *m) {
    const char *how = getenv("SYN_EMULATED_ORDER");
    const bool reversed = how && strcmp(how, "reversed") == 0;
    for (int i = 0; i < m->n; i++) m->order[(size_t)i] = reversed ? m->n - 1 - i : i;
    if (!how || strncmp(how, "random:", 7) != 0) return;
    for (size_t i = (size_t)m->n; i > 1; i--) std::swap(m->order[i - 1], m->order[m->random() % i]);
}

static unsigned seed() {
    const char *how = getenv("SYN_EMULATED_ORDER"), *colon = how ? strchr(how, ':') : NULL;
    return colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
}

void emulated_run(const emulated_launch &l) {
    static thread_local machine own;
    machine *m = here = &own;
    if (m->all.empty()) m->random.seed(seed());
#if defined(EMULATED_THREAD)
    m->scheduler.tsan = __tsan_get_current_fiber();
#endif
    {
        std::lock_guard<std::mutex> hold(lock);
        m->call = kernels[l.kernel].call;
    }
    m->launch = &l;
    m->n = (int)(l.block.x * l.block.y * l.block.z);
    m->threads.resize((size_t)m->n);
    m->order.resize((size_t)m->n);
    m->warps.resize((size_t)(m->n + WARP - 1) / WARP);
    m->arguments.clear();
    for (const auto &argument : l.arguments)
        m->arguments.push_back(const_cast<char *>(argument.data()));
    blockDim = {l.block.x, l.block.y, l.block.z};
    gridDim = {l.grid.x, l.grid.y, l.grid.z};
    choose_order(m);
    for (int i = 0; i < m->n; i++) m->threads[(size_t)m->order[(size_t)i]].turn = i;
    for (unsigned i = 0; i < (unsigned)m->n; i++)
        m->threads[i].index = {i % l.block.x, i / l.block.x % l.block.y, i / l.block.x / l.block.y};
    for (unsigned z = 0; z < l.grid.z; z++)
        for (unsigned y = 0; y < l.grid.y; y++)
            for (unsigned x = 0; x < l.grid.x; x++) {
                blockIdx = {x, y, z};
                m->shared.assign(l.shared + 16 + SHARED_GUARD, (char)0xff);
                char *behind = static_cast<char *>(emulated_dynamic_shared()) + l.shared;
                memset(behind, 0x5a, SHARED_GUARD - 16);
                run_block(m);
                for (int i = 0; i < SHARED_GUARD - 16; i++)
                    if (behind[i] != 0x5a)
                        emulated_die("%s: a write %d bytes behind %zu of shared memory", l.name, i,
                                     l.shared);
            }
}
