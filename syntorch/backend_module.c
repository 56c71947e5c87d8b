/* Finds and loads the module of a backend (backend_module.h). */
#define _GNU_SOURCE /* for dladdr */
#include "syntorch/backend_module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "syntorch/backend_private.h"
#include "syntorch/context.h"
#include "syntorch/context_private.h"

#define MODULE      "syntorch_cuda.so"
#define MODULE_PATH "SYNTORCH_CUDA_MODULE"

enum { MAX_PATH = 4096 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const syn_backend *backend; /* NULL if loading failed; see `failure` */
static syn_error failure;

void syn__describe_node(const syn_ctx *ctx, uint32_t node, char *text, size_t bytes) {
    const syn_trace *trace = ctx->trace;
    const uint32_t row = syn_trace_node_row(trace, node);
    if (!row) {
        snprintf(text, bytes, "a forgotten op");
        return;
    }
    const syn_trace_node *n = &trace->nodes[row];
    const char *scope = syn_trace_text(trace, n->scope);
    snprintf(text, bytes, "%s%s%s", syn_trace_op(trace, n)->name, *scope ? " in " : "", scope);
}

static bool trim_pool(syn_ctx *ctx) {
    return syn__storages_trim(&ctx->storages);
}

static syn_status out_of_memory(const syn_ctx *ctx, size_t bytes, const char *what,
                                syn_error *err) {
    return syn__storages_out_of_memory(&ctx->storages, bytes, what, err);
}

static const syn_module_host host = {.version = SYN_VERSION,
                                     .rank = syn_ctx_rank,
                                     .status = syn_ctx_status,
                                     .set_time = syn_ctx_set_time,
                                     .add_work = syn_ctx_add_work,
                                     .add_unowned = syn_ctx_add_unowned_work,
                                     .describe_node = syn__describe_node,
                                     .trim_pool = trim_pool,
                                     .out_of_memory = out_of_memory,
                                     .comm = syn_ctx_comm,
                                     .next_group = syn_comm_next_group,
                                     .send = syn_comm_send,
                                     .recv = syn_comm_recv};

/* Writes to `path` the folder of `file`, with its slash, followed by `below`. Returns false if this
   path is too long or `file` has no folder. */
static bool sibling(char *path, const char *file, const char *below) {
    const char *slash = file ? strrchr(file, '/') : NULL;
    const int folder = slash ? (int)(slash - file) + 1 : 0;
    const int n = snprintf(path, MAX_PATH, "%.*s%s", folder, file ? file : "", below);
    return slash && n < MAX_PATH;
}

/* Searches next to the program (in a build), in the program's installation, and next to the shared
   library that contains this function. */
static bool find_module(char *path) {
    static const char *const from_program[] = {MODULE, SYN_PROGRAM_TO_MODULES "/" MODULE};
    char program[MAX_PATH];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 2; i++)
        if (sibling(path, program, from_program[i]) && access(path, R_OK) == 0) return true;
    Dl_info library;
    return dladdr(&host, &library) && sibling(path, library.dli_fname, "syntorch/" MODULE) &&
           access(path, R_OK) == 0;
}

static void load_from(const char *path) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        SYN_FAIL(&failure, SYN_E_UNSUPPORTED, "the CUDA module cannot be loaded: %s", dlerror());
        return;
    }
    syn_backend_module_fn *open = NULL;
    *(void **)&open = dlsym(module, SYN_BACKEND_MODULE_NAME); /* as POSIX prescribes */
    if (open) backend = open(&host, &failure);
    else SYN_FAIL(&failure, SYN_E_UNSUPPORTED, "%s is not a syntorch module", path);
    if (!backend) SYN_FAIL(&failure, SYN_E_UNSUPPORTED, "the module %s provides no device", path);
}

static void load(void) {
    char path[MAX_PATH];
    const char *named = getenv(MODULE_PATH);
    if (named && *named) load_from(named);
    else if (find_module(path)) load_from(path);
    else
#ifdef SYN_HAVE_CUDA
        SYN_FAIL(
            &failure, SYN_E_UNSUPPORTED,
            "the CUDA module " MODULE
            " was found neither next to the program nor where it is installed; set " MODULE_PATH
            " to its path");
#else
        SYN_FAIL(&failure, SYN_E_UNSUPPORTED,
                 "this build has no CUDA: configure it with -D SYN_CUDA=ON where NVIDIA's toolkit "
                 "is installed");
#endif
}

syn_status syn__backend_module(const syn_backend **out, syn_error *err) {
    pthread_once(&once, load);
    *out = backend;
    return backend ? SYN_OK : SYN_FAIL(err, failure.code, "%s", failure.text);
}
