/* Loads NCCL's functions at run time. The module is not linked with NCCL, because a single device
   does not need NCCL, and machines with a single device often do not have it. */
#include "comm/cuda/cuda_comm.h"

#ifdef SYN_HAVE_NCCL

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SYN_EMULATED
#include <dlfcn.h>
#endif

syn__nccl_functions syn__nccl;

static char missing[256]; /* why NCCL cannot be used; "" if it can */

#ifdef SYN_EMULATED
static void load() {
#define SYN_X(name) syn__nccl.name = nccl##name;
    SYN_NCCL_FUNCTIONS(SYN_X)
#undef SYN_X
    const char *none = getenv("SYN_EMULATED_NO_NCCL");
    if (none) snprintf(missing, sizeof missing, "%s", none);
}
#else
#define LIBRARY "libnccl.so.2"

static void load() {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
#define SYN_X(name)                                                                         \
    if (all) {                                                                              \
        void *at = dlsym(library, "nccl" #name);                                            \
        memcpy(&syn__nccl.name, &at, sizeof at); /* the conversion that POSIX prescribes */ \
        all = at != NULL;                                                                   \
    }
    SYN_NCCL_FUNCTIONS(SYN_X)
#undef SYN_X
    const char *why = all ? NULL : dlerror();
    if (!all) snprintf(missing, sizeof missing, "%s", why ? why : LIBRARY);
}
#endif

/* Makes ranks connect when their communicators are created, not at their first collective.
   Launching a collective must not wait for other ranks, because these may first need a message from
   this rank. */
static void prepare() {
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    load();
}

syn_status syn__nccl_load(syn_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    if (!missing[0]) return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "cannot load NCCL, which ranks with one CUDA device each use: %s; set "
                    "SYNTORCH_CUDA_SHARED=1 to communicate through the host",
                    missing);
}

#endif
