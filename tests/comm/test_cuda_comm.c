/* What ranks with CUDA devices are told; their exchanges are tested by the tests of ops. */

#include <stdlib.h>

#include "comm/comm.h"
#include "syntorch/context.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

static syn_status open_rank(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    syn_ctx_free(ctx);
    return SYN_OK;
}

/* 64 are more than any machine has. */
static void ranks_share_devices_only_if_asked_to(void) {
    syn_error err = {0};
    if (!ref_has_cuda()) SKIP("no CUDA device");
    unsetenv("SYNTORCH_CUDA_SHARED");
    CHECK_INT(syn_local_run(64, open_rank, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "64 ranks need 64 CUDA devices on this machine, which has ");
    setenv("SYNTORCH_CUDA_SHARED", "1", 1);
    err.code = SYN_OK;
    CHECK_OK(syn_local_run(2, open_rank, NULL, &err), err);
    unsetenv("SYNTORCH_CUDA_SHARED");
}

static const test_case cases[] = {
    {"ranks_share_devices_only_if_asked_to", ranks_share_devices_only_if_asked_to},
};

TEST_MAIN(cases)
