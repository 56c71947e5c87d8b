/* Device memory. Each buffer is between two guards, which are checked when the buffer is freed and
   when a stream is synchronized. A freed buffer is filled with NaN and stays allocated for a while,
   so that late writes are detected. Freed pinned host memory is filled with NaN, too. cudaFreeHost
   does not wait for streams, so a copy that is still queued reads NaN. */
#include <stdlib.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "tests/emulation/emulated.h"

#if defined(EMULATED_ADDRESS)
#define GUARDED false /* the sanitizer has guards of its own */
#else
#define GUARDED true
#endif

enum { GUARD = 256, PATTERN = 0xa5, FRESH = 0xff };
enum { FREED = 64, FREED_BYTES = 64 << 20, MAX_SEARCHED = 256, PINNED_FREED = 8 };

struct piece {
    size_t bytes;
    char *whole;
    int device;
};

static std::mutex lock;
static std::map<const char *, piece> pieces;
static std::map<int, size_t> used;
static std::deque<piece> freed;
static size_t freed_bytes;
static std::map<void *, size_t> pinned;
static std::deque<void *> pinned_freed;

static struct at_exit {
    ~at_exit() {
        if (!getenv("SYN_EMULATED_LEAKS") || pieces.empty()) return;
        emulated_die("%zu buffers were not freed, the first of %zu bytes", pieces.size(),
                     pieces.begin()->second.bytes);
    }
} at_exit;

static void check_guards(const char *data, const piece &p) {
    if (!GUARDED) return;
    for (int i = 0; i < GUARD; i++) {
        if ((unsigned char)p.whole[i] != PATTERN)
            emulated_die("a write %d bytes before a buffer of %zu", GUARD - i, p.bytes);
        if ((unsigned char)data[p.bytes + (size_t)i] != PATTERN)
            emulated_die("a write %d bytes behind a buffer of %zu", i, p.bytes);
    }
}

/* Checks that nothing has written to the first n bytes of a freed buffer. */
static void check_freed(const piece &p, size_t n) {
    for (size_t i = 0; i < std::min(p.bytes, n); i++)
        if ((unsigned char)p.whole[GUARD + i] != FRESH)
            emulated_die("a write at %zu of a buffer of %zu that was freed", i, p.bytes);
}

static void keep_freed(const piece &p) {
    if (!GUARDED) {
        free(p.whole);
        return;
    }
    memset(p.whole + GUARD, FRESH, p.bytes);
    freed.push_back(p);
    freed_bytes += p.bytes;
    while (freed.size() > FREED || freed_bytes > FREED_BYTES) {
        const piece oldest = freed.front();
        check_freed(oldest, oldest.bytes);
        freed.pop_front();
        freed_bytes -= oldest.bytes;
        free(oldest.whole);
    }
}

void emulated_check_guards() {
    std::lock_guard<std::mutex> hold(lock);
    for (const auto &one : pieces) check_guards(one.first, one.second);
    for (const piece &one : freed) check_freed(one, MAX_SEARCHED);
}

void emulated_check_range(const void *at, size_t bytes, const char *what) {
    std::lock_guard<std::mutex> hold(lock);
    const char *from = static_cast<const char *>(at);
    auto next = pieces.upper_bound(from);
    if (next == pieces.begin()) return;
    const auto &one = *--next;
    if (from < one.first + one.second.bytes && from + bytes > one.first + one.second.bytes)
        emulated_die("%s of %zu bytes at %zu of a buffer of %zu", what, bytes,
                     (size_t)(from - one.first), one.second.bytes);
}

cudaError_t emulated_malloc(void **data, size_t bytes) {
    EMULATED_ENTER_AS("cudaMalloc");
    if (emulated_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    const size_t guard = GUARDED ? GUARD : 0;
    const int device = emulated_device();
    void *whole = NULL;
    *data = NULL;
    std::lock_guard<std::mutex> hold(lock);
    if (used[device] + bytes > emulated_memory() ||
        posix_memalign(&whole, 256, bytes + 2 * guard) != 0)
        return emulated_fail(cudaErrorMemoryAllocation);
    char *at = static_cast<char *>(whole) + guard;
    memset(whole, PATTERN, guard);
    memset(at, FRESH, bytes);
    memset(at + bytes, PATTERN, guard);
    pieces[at] = {bytes, static_cast<char *>(whole), device};
    used[device] += bytes;
    *data = at;
    return cudaSuccess;
}

cudaError_t cudaFree(void *data) {
    EMULATED_ENTER_ANYHOW(code);
    if (!data) return code;
    if (emulated_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    emulated_wait_all();
    std::lock_guard<std::mutex> hold(lock);
    const auto found = pieces.find(static_cast<char *>(data));
    if (found == pieces.end()) return emulated_fail(cudaErrorInvalidValue);
    check_guards(found->first, found->second);
    used[found->second.device] -= found->second.bytes;
    keep_freed(found->second);
    pieces.erase(found);
    return code;
}

cudaError_t emulated_malloc_host(void **data, size_t bytes) {
    EMULATED_ENTER_AS("cudaMallocHost");
    if (emulated_unsafe() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    if (posix_memalign(data, 256, bytes) != 0) return emulated_fail(cudaErrorMemoryAllocation);
    memset(*data, FRESH, bytes);
    std::lock_guard<std::mutex> hold(lock);
    pinned[*data] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *data) {
    EMULATED_ENTER_ANYHOW(code);
    if (!data) return code;
    std::lock_guard<std::mutex> hold(lock);
    const auto found = pinned.find(data);
    if (found == pinned.end()) return emulated_fail(cudaErrorInvalidValue);
    memset(data, FRESH, found->second);
    if (GUARDED) pinned_freed.push_back(data);
    else free(data);
    pinned.erase(found);
    while (pinned_freed.size() > PINNED_FREED) {
        free(pinned_freed.front());
        pinned_freed.pop_front();
    }
    return code;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
    EMULATED_ENTER();
    std::lock_guard<std::mutex> hold(lock);
    *all_bytes = emulated_memory();
    *free_bytes = *all_bytes - std::min(*all_bytes, used[emulated_device()]);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    EMULATED_ENTER();
    (void)kind;
    emulated_check_range(to, bytes, "a copy to the end");
    emulated_check_range(from, bytes, "a copy from the end");
    return emulated_ask(stream, [=] { memmove(to, from, bytes); });
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    EMULATED_ENTER();
    (void)kind;
    if (width > to_pitch || width > from_pitch) return emulated_fail(cudaErrorInvalidValue);
    if (height == 0) return cudaSuccess;
    emulated_check_range(to, (height - 1) * to_pitch + width, "a copy to the end");
    emulated_check_range(from, (height - 1) * from_pitch + width, "a copy from the end");
    return emulated_ask(stream, [=] {
        for (size_t row = 0; row < height; row++)
            memmove(static_cast<char *>(to) + row * to_pitch,
                    static_cast<const char *>(from) + row * from_pitch, width);
    });
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    EMULATED_ENTER();
    (void)kind;
    emulated_wait_all();
    emulated_check_range(to, bytes, "a copy to the end");
    emulated_check_range(from, bytes, "a copy from the end");
    memmove(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
    EMULATED_ENTER();
    emulated_check_range(to, bytes, "a fill to the end");
    return emulated_ask(stream, [=] { memset(to, byte, bytes); });
}
