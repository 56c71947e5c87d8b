/* Runs kernels. The threads of a block are fibers of the stream's host thread. A thread that never
   waits runs to its end like a function call, and then the next thread uses the same fiber. A
   thread that waits keeps its fiber. The last thread that reaches a barrier or warp operation makes
   the others ready and continues. */
#include <stdlib.h>

#include <memory>
#include <random>
#include <string>

#include "tests/emulation/emulated.h"
#include "tests/emulation/emulated_fiber.h"

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

enum { WARP = 32, SHARED_GUARD = 64, ALL = -1 };

/* ---- a block ---- */

enum thread_state { FRESH, READY, AT_BARRIER, IN_WARP, DONE };

/* An asynchronous copy. A thread waits for all copies of a batch together. */
struct copy {
    char *to;
    const char *from;
    size_t bytes;
    int batch;
};

struct thread {
    thread_state state;
    fiber *on;
    uint3 index; /* threadIdx */
    int turn;    /* position of the thread in the order in which threads run */
    /* Arguments and result of a warp operation, valid in state IN_WARP. */
    unsigned mask;
    const void *mine;
    size_t bytes;
    int from; /* source lane; ALL: every lane, one after the other */
    void *to;
    unsigned set; /* result: set of the lanes whose first byte is not 0 */
    std::vector<copy> copies;
    int batches; /* number of completed batches */
};

struct warp { /* members are sets of lanes */
    unsigned waiting, gone;
};

/* Threads that take turns until none of them is ready: a whole block, or a warp. first, end: the
   range of the threads in the order. */
struct group {
    int first, end;
    bool begun;
};

struct machine { /* the state of a stream's host thread */
    fiber scheduler;
    std::vector<fiber *> idle, all;
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<int> order;
    std::vector<group> groups;
    std::vector<char> shared;
    emulated_statics statics;
    const emulated_launch *launch = NULL;
    std::vector<void *> arguments;
    int n = 0, live = 0, at_barrier = 0, current = 0;
    /* Range of the running group, and its first thread that has not begun. */
    int first = 0, end = 0, next = 0;
    std::mt19937 random;
    bool ending = false; /* fibers must leave */

    ~machine() {
        ending = true;
        for (fiber *f : all) {
            fiber_switch(&scheduler, f);
            fiber_free(f);
        }
    }
};

static thread_local machine *here;

static void place(machine *m, int t) {
    m->current = t;
    threadIdx = m->threads[(size_t)t].index;
}

/* The fiber that runs when a thread waits: that of the next ready thread in its group. NULL if no
   thread is ready, or if some threads have not begun. */
static fiber *next_ready(const machine *m, int turn) {
    const int n = m->end - m->first;
    if (m->next < m->end) return NULL;
    for (int i = 1; i < n; i++) {
        const int at = turn + i < m->end ? turn + i : turn + i - n;
        const thread &t = m->threads[(size_t)m->order[(size_t)at]];
        if (t.state == READY) return t.on;
    }
    return NULL;
}

/* Runs other threads until the calling thread is ready again. */
static void wait_as(thread_state state) {
    machine *m = here;
    const int t = m->current;
    thread &self = m->threads[(size_t)t];
    self.state = state;
    fiber *next = next_ready(m, self.turn);
    fiber_switch(self.on, next ? next : &m->scheduler);
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

/* Called when all lanes have arrived: copies each lane's data and makes all lanes ready. */
static void comm_call(thread *lanes, unsigned mask, size_t bytes) {
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
        if (lane.from == ALL && whole) { /* all lanes get the same bytes */
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

/* Whether all lanes in the mask are waiting in the same operation. */
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
        emulated_die("%s: lane %d is not in its own mask", m->launch->kernel->name, t - first);
    if (mask & w.gone) {
        const int i = __builtin_ctz(mask & w.gone);
        emulated_die("%s: a warp operation names lane %d, which %s", m->launch->kernel->name, i,
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
        comm_call(lanes, mask, bytes);
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

/* The copy is made in emulated_copies_wait. Until then, the destination contains NaN. */
void emulated_copy_async(void *to, const void *from, size_t bytes) {
    thread &self = here->threads[(size_t)here->current];
    memset(to, 0xff, bytes);
    self.copies.push_back(
        {static_cast<char *>(to), static_cast<const char *>(from), bytes, self.batches});
}

void emulated_copies_commit() {
    here->threads[(size_t)here->current].batches++;
}

void emulated_copies_wait(int left) {
    thread &self = here->threads[(size_t)here->current];
    size_t n = 0;
    for (; n < self.copies.size() && self.copies[n].batch < self.batches - left; n++)
        memcpy(self.copies[n].to, self.copies[n].from, self.copies[n].bytes);
    self.copies.erase(self.copies.begin(), self.copies.begin() + (ptrdiff_t)n);
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

/* The main function of fibers. It runs threads that have not begun, one after the other, until one
   of them has waited. */
static void fiber_main() {
    fiber_begun(&here->scheduler);
    for (;;) {
        machine *m = here;
        fiber *self = NULL;
        bool first = true;
        while (first || (m->next < m->end && m->idle.empty() == false && m->idle.back() == self)) {
            const int t = m->order[(size_t)m->next++];
            if (first) self = m->idle.back();
            m->idle.pop_back();
            first = false;
            m->threads[(size_t)t].on = self;
            place(m, t);
            m->launch->kernel->call(m->launch->function, m->arguments.data());
            leave(m, t);
            m->idle.push_back(self);
        }
        fiber_switch(self, &m->scheduler);
        if (here->ending) fiber_leave(self, &here->scheduler);
    }
}

static bool is_ready(const machine *m, const group &g) {
    for (int i = g.first; i < g.end; i++)
        if (m->threads[(size_t)m->order[(size_t)i]].state == READY) return true;
    return !g.begun;
}

/* The first group that can run, beginning the search at group `from`. NULL if all threads wait. */
static group *choose_group(machine *m, size_t from) {
    const size_t n = m->groups.size();
    for (size_t i = 0; i < n; i++) {
        group *g = &m->groups[from + i < n ? from + i : from + i - n];
        if (is_ready(m, *g)) return g;
    }
    return NULL;
}

static void run_group(machine *m, group *g) {
    m->first = g->first;
    m->end = g->end;
    m->next = g->begun ? g->end : g->first;
    g->begun = true;
    while (m->next < m->end) {
        if (m->idle.empty()) {
            m->all.push_back(fiber_new(fiber_main));
            m->idle.push_back(m->all.back());
        }
        fiber_switch(&m->scheduler, m->idle.back());
    }
    for (bool any = true; any;) {
        any = false;
        for (int i = m->first; i < m->end; i++) {
            thread *t = &m->threads[(size_t)m->order[(size_t)i]];
            if (t->state != READY) continue;
            any = true;
            fiber_switch(&m->scheduler, t->on);
        }
    }
}

static void run_block(machine *m, bool any_group) {
    m->at_barrier = 0;
    m->live = m->n;
    for (thread &t : m->threads) {
        t.state = FRESH;
        t.copies.clear();
        t.batches = 0;
    }
    for (int i = 0; i < (int)m->warps.size(); i++) {
        const int lanes = m->n - i * WARP;
        m->warps[(size_t)i] = {0, lanes >= WARP ? 0 : ~0u << lanes};
    }
    for (group &g : m->groups) g.begun = false;
    while (m->live > 0) {
        group *g = choose_group(m, any_group ? m->random() % m->groups.size() : 0);
        if (!g)
            emulated_die("%s: %d threads of block %u,%u,%u wait for others that never come",
                         m->launch->kernel->name, m->live, blockIdx.x, blockIdx.y, blockIdx.z);
        run_group(m, g);
    }
}

/* ---- launches ---- */

struct turns {
    bool greedy, reversed, random;
    unsigned seed;
};

static turns chosen_turns() {
    const char *text = getenv("SYN_EMULATED_ORDER"), *colon;
    const std::string how = text ? text : "";
    turns t = {how.find("greedy-") == 0, how.find("reversed") < how.size(),
               how.find("random") < how.size(), 0};
    if (t.random && (colon = strchr(text, ':'))) t.seed = (unsigned)strtoul(colon + 1, NULL, 10);
    return t;
}

/* Chooses the order of the threads. Threads of the same group are adjacent. */
static void choose_order(machine *m, const turns &how) {
    const int size = how.greedy ? WARP : m->n;
    m->groups.clear();
    for (int at = 0, k = 0, n; at < m->n; at += n, k++) {
        const int first = (how.reversed ? (m->n - 1) / size - k : k) * size;
        n = m->n - first < size ? m->n - first : size;
        m->groups.push_back({at, at + n, false});
        for (int i = 0; i < n; i++)
            m->order[(size_t)(at + i)] = how.reversed ? first + n - 1 - i : first + i;
        for (int i = n; how.random && i > 1; i--)
            std::swap(m->order[(size_t)(at + i - 1)],
                      m->order[(size_t)at + m->random() % (unsigned)i]);
    }
    for (int i = 0; i < m->n; i++) m->threads[(size_t)m->order[(size_t)i]].turn = i;
}

void emulated_run(const emulated_launch &l) {
    static thread_local std::unique_ptr<machine> own;
    const turns how = chosen_turns();
    if (!own) {
        own.reset(new machine);
        own->random.seed(how.seed);
    }
    machine *m = here = own.get();
    fiber_prepare(&m->scheduler);
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
    choose_order(m, how);
    m->statics.open(l.kernel, m->n);
    for (unsigned i = 0; i < (unsigned)m->n; i++)
        m->threads[i].index = {i % l.block.x, i / l.block.x % l.block.y, i / l.block.x / l.block.y};
    for (unsigned z = 0; z < l.grid.z; z++)
        for (unsigned y = 0; y < l.grid.y; y++)
            for (unsigned x = 0; x < l.grid.x; x++) {
                blockIdx = {x, y, z};
                m->shared.assign(l.shared + 16 + SHARED_GUARD, (char)0xff);
                char *behind = static_cast<char *>(emulated_dynamic_shared()) + l.shared;
                memset(behind, 0x5a, SHARED_GUARD - 16);
                m->statics.begin_block();
                run_block(m, how.random);
                m->statics.end_block();
                for (int i = 0; i < SHARED_GUARD - 16; i++)
                    if (behind[i] != 0x5a)
                        emulated_die("%s: a write %d bytes behind %zu of shared memory",
                                     l.kernel->name, i, l.shared);
            }
}
