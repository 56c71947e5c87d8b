/* Static shared memory, emulated by thread-local static variables of kernels, so that each stream's
   thread has its own. On a device, its contents are undefined when a block begins; here they are
   NaN. To find the range of a kernel's variables in the module's thread-local data, the emulation
   looks which bytes its first block changes, and again for each larger block. */
#include <link.h>

#include <algorithm>
#include <mutex>

#include "tests/emulation/emulated.h"

static std::mutex lock; /* protects the ranges stored in kernels */

static int find_variables(struct dl_phdr_info *module, size_t bytes, void *to) {
    (void)bytes;
    emulated_statics *own = static_cast<emulated_statics *>(to);
    char *const data = static_cast<char *>(module->dlpi_tls_data);
    const char *const one = reinterpret_cast<const char *>(&threadIdx);
    for (int i = 0; data && i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) &part = module->dlpi_phdr[i];
        if (part.p_type != PT_TLS || one < data || one >= data + part.p_memsz) continue;
        own->data = data;
        own->bytes = part.p_memsz;
        return 1;
    }
    return 0;
}

void emulated_statics::open(emulated_kernel *k, int n) {
    if (!data) dl_iterate_phdr(find_variables, this);
    kernel = k;
    threads = n;
    std::lock_guard<std::mutex> hold(lock);
    first = k->statics_first;
    end = k->statics_end;
    looking = k->statics_threads < n;
}

void emulated_statics::begin_block() {
    if (looking) before.assign(data, data + bytes);
    else std::fill(data + first, data + end, (char)0xff);
}

/* Rounds the range to whole words of 8 bytes, because a block may change only one byte of a
   number. */
void emulated_statics::end_block() {
    enum { WORD = 8 };
    if (!looking) return;
    looking = false;
    const size_t own = (size_t)(reinterpret_cast<const char *>(&threadIdx) - data);
    std::copy_n(data + own, sizeof threadIdx, before.begin() + (ptrdiff_t)own);
    const auto change = std::mismatch(before.begin(), before.end(), data);
    std::lock_guard<std::mutex> hold(lock);
    first = kernel->statics_first;
    end = kernel->statics_end;
    kernel->statics_threads = std::max(kernel->statics_threads, threads);
    if (change.first == before.end()) return;
    const size_t from = (size_t)(change.first - before.begin()) / WORD * WORD;
    size_t until = bytes;
    while (before[until - 1] == data[until - 1]) until--;
    until = std::min((until + WORD - 1) / WORD * WORD, bytes);
    first = end ? std::min(first, from) : from;
    end = std::max(end, until);
    kernel->statics_first = first;
    kernel->statics_end = end;
}
