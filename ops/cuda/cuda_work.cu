/* Records the kernels, copies and fills of each node, and those between nodes, for traces with
   device activity (cuda_device.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda_device.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

/* CUDA 12.3 and newer can return a kernel's name. */
#if !defined SYN_EMULATED && CUDART_VERSION >= 12030
#define SYN_KERNEL_NAMES
#include <cxxabi.h>
#endif

/* Not NULL within a node whose work is recorded. */
static thread_local syn__cuda *noting;

void syn__cuda_work_begin(syn__cuda *d, uint32_t node) {
    syn__cuda_work *w = &d->work;
    if (!w->keep || syn_grow(&w->calls, &w->calls_cap, w->n_calls + 1, sizeof *w->calls, NULL))
        return;
    syn__cuda_call *call = &w->calls[w->n_calls++];
    memset(call, 0, sizeof *call);
    call->work.node = node;
    call->work.first = w->n_pieces;
    call->work.call_ns = syn__clock_ns();
    call->span = d->times.n_spans;
    noting = d;
}

void syn__cuda_work_end(syn__cuda *d) {
    if (!noting) return;
    syn_node_work *work = &d->work.calls[d->work.n_calls - 1].work;
    work->call_wall_ns = syn__clock_ns() - work->call_ns;
    noting = NULL;
}

/* Adds a piece whose call began at from_ns, and a mark at its end. The last marks are reserved for
   the ends of nodes. A piece that gets no mark has no known time. */
static syn__cuda_piece *add_piece(syn__cuda *d, uint64_t from_ns) {
    syn__cuda_work *w = &d->work;
    syn__cuda_times *t = &d->times;
    if (syn_grow(&w->pieces, &w->pieces_cap, w->n_pieces + 1, sizeof *w->pieces, NULL)) return NULL;
    syn__cuda_piece *p = &w->pieces[w->n_pieces++];
    memset(p, 0, sizeof *p);
    p->begins = p->ends = t->n_marks - 1;
    if (t->n_marks + 2 < SYN__CUDA_MARKS) p->ends = syn__cuda_times_mark(t, d->at.stream);
    p->piece.device = (uint32_t)d->device;
    p->piece.stream = SYN__CUDA_COMPUTE_STREAM;
    p->piece.call_ns = from_ns;
    p->piece.call_wall_ns = syn__clock_ns() - from_ns;
    w->calls[w->n_calls - 1].work.n_pieces++;
    return p;
}

/* The time when the previous call ended. It is used as the begin of a library's call, which is not
   known. */
static uint64_t before_ns(const syn__cuda *d) {
    const syn_node_work *work = &d->work.calls[d->work.n_calls - 1].work;
    if (work->n_pieces == 0) return work->call_ns;
    const syn_piece *last = &d->work.pieces[d->work.n_pieces - 1].piece;
    return last->call_ns + last->call_wall_ns;
}

/* Returns the kernel's name as written in SYN_LAUNCH, without outer parentheses. */
static char *written_name(const char *name) {
    const size_t n = strlen(name);
    const bool around = n > 1 && name[0] == '(' && name[n - 1] == ')';
    char *copy = syn_strdup(name + around);
    if (copy && around) copy[n - 2] = '\0';
    return copy;
}

/* Returns the compiler's name of the kernel, with template arguments and parameter types, such as
   "add<float, 4>(int, float *)". */
static char *name_of(const syn__launch *l) {
#ifdef SYN_KERNEL_NAMES
    const char *mangled;
    int status = -1;
    if (cudaFuncGetName(&mangled, l->kernel) == cudaSuccess) {
        char *full = abi::__cxa_demangle(mangled, NULL, NULL, &status);
        char *copy = syn_strdup(status == 0 && full ? full : mangled);
        free(full); /* allocated by the C++ library */
        return copy;
    }
    cudaGetLastError();
#endif
    return written_name(l->name);
}

bool syn__cuda_work_launch(const syn__launch *l) {
    syn__cuda *d = noting;
    if (!d) return false;
    const uint64_t from_ns = syn__clock_ns();
    if (cudaLaunchKernel(l->kernel, l->grid, l->block, l->arguments, l->shared, l->stream) !=
        cudaSuccess)
        return true; /* syn__launched reports it */
    syn__cuda_piece *p = add_piece(d, from_ns);
    if (!p) return true;
    const dim3 *sizes[] = {&l->grid, &l->block};
    for (int i = 0; i < 2; i++) {
        uint32_t *to = i == 0 ? p->piece.grid : p->piece.block;
        to[0] = sizes[i]->x;
        to[1] = sizes[i]->y;
        to[2] = sizes[i]->z;
    }
    p->piece.kind = SYN_PIECE_KERNEL;
    p->piece.bytes = l->shared;
    p->name = name_of(l);
    return true;
}

void syn__cuda_note_kernel(const syn_call *c, const char *fmt, ...) {
    syn__cuda *d = syn__cuda_of(c)->device;
    syn__cuda_piece *p = noting == d ? add_piece(d, before_ns(d)) : NULL;
    if (!p) return;
    char name[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    p->piece.kind = SYN_PIECE_KERNEL;
    p->name = syn_strdup(name);
}

void syn__cuda_note_bytes(const syn_call *c, syn_piece_kind kind, size_t bytes) {
    syn__cuda *d = syn__cuda_of(c)->device;
    syn__cuda_piece *p = noting == d ? add_piece(d, before_ns(d)) : NULL;
    if (!p) return;
    p->piece.kind = kind;
    p->piece.bytes = bytes;
}

/* ---- between nodes ---- */

/* Returns NULL if all marks are in use. Work between nodes is not recorded then, and the next node
   synchronizes. */
static syn__cuda_unowned *next_unowned(syn__cuda *d) {
    syn__cuda_work *w = &d->work;
    if (!w->keep || d->times.n_marks + 3 > SYN__CUDA_MARKS ||
        syn_grow(&w->unowned, &w->unowned_cap, w->n_unowned + 1, sizeof *w->unowned, NULL))
        return NULL;
    return &w->unowned[w->n_unowned];
}

void syn__cuda_unowned_begin(syn__cuda *d) {
    syn__cuda_unowned *b = next_unowned(d);
    d->work.open = b != NULL;
    if (!b) return;
    memset(b, 0, sizeof *b);
    b->begins =
        d->times.idle ? d->times.n_marks - 1 : syn__cuda_times_mark(&d->times, d->at.stream);
    b->it.after = d->at.node;
    b->it.piece.device = (uint32_t)d->device;
    b->it.piece.stream = SYN__CUDA_COMPUTE_STREAM;
    b->it.piece.call_ns = syn__clock_ns();
    d->times.idle = false;
}

void syn__cuda_unowned_end(syn__cuda *d, syn_piece_kind kind, size_t bytes) {
    if (!d->work.open) return;
    syn__cuda_unowned *b = &d->work.unowned[d->work.n_unowned++];
    d->work.open = false;
    b->it.piece.kind = kind;
    b->it.piece.bytes = bytes;
    b->it.piece.call_wall_ns = syn__clock_ns() - b->it.piece.call_ns;
    b->ends = syn__cuda_times_mark(&d->times, d->at.stream);
}

void syn__cuda_waited(syn__cuda *d, uint64_t from_ns) {
    syn__cuda_work *w = &d->work;
    syn__cuda_unowned b;
    if (!w->keep) return;
    memset(&b, 0, sizeof b);
    b.it.after = d->at.node;
    b.it.piece.kind = SYN_PIECE_WAIT;
    b.it.piece.device = (uint32_t)d->device;
    b.it.piece.stream = SYN__CUDA_COMPUTE_STREAM;
    b.it.piece.call_ns = b.it.piece.start_ns = from_ns;
    b.it.piece.call_wall_ns = b.it.piece.wall_ns = syn__clock_ns() - from_ns;
    if (w->n_unowned == 0) syn__cuda_host->add_unowned(d->ctx, &b.it);
    else if (!syn_grow(&w->unowned, &w->unowned_cap, w->n_unowned + 1, sizeof b, NULL))
        w->unowned[w->n_unowned++] = b;
}

/* ---- after a sync ---- */

void syn__cuda_work_report(syn__cuda *d, uint32_t span, uint64_t begin_ns) {
    syn__cuda_work *w = &d->work;
    while (w->next < w->n_calls && w->calls[w->next].span < span) w->next++;
    if (w->next == w->n_calls || w->calls[w->next].span != span) return;
    const syn_node_work *work = &w->calls[w->next++].work;
    if (syn_grow(&w->given, &w->given_cap, work->n_pieces, sizeof *w->given, NULL) ||
        syn_grow(&w->names, &w->names_cap, work->n_pieces, sizeof *w->names, NULL))
        return;
    for (uint32_t i = 0; i < work->n_pieces; i++) {
        const syn__cuda_piece *p = &w->pieces[work->first + i];
        w->given[i] = p->piece;
        w->given[i].start_ns =
            begin_ns + syn__cuda_times_between(&d->times, d->times.spans[span].begins, p->begins);
        w->given[i].wall_ns = syn__cuda_times_between(&d->times, p->begins, p->ends);
        w->names[i] = p->name;
    }
    syn__cuda_host->add_work(d->ctx, work, w->given, w->names);
}

void syn__cuda_work_clear(syn__cuda_work *w) {
    for (size_t i = 0; i < w->n_pieces; i++) syn_free(w->pieces[i].name);
    w->n_calls = w->n_pieces = w->n_unowned = w->next = 0;
}

void syn__cuda_work_close(syn__cuda_work *w) {
    syn__cuda_work_clear(w);
    syn_free(w->unowned);
    syn_free(w->calls);
    syn_free(w->pieces);
    syn_free(w->given);
    syn_free(w->names);
}
