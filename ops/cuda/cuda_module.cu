/* Entry point of the module: returns the backend and fills its table of kernels. */
#include <string.h>

#include "ops/cuda/cuda_device.h"

const syn_module_host *syn__cuda_host;

static syn_kernel column[SYN_OP_COUNT];

// clang-format off
static const syn__cuda_row *const families[] = {
    syn__cuda_norms,
    syn__cuda_lookups,
    syn__cuda_pointwise,
    syn__cuda_shapes,
    syn__cuda_reductions,
    syn__cuda_products,
    syn__cuda_attention,
    syn__cuda_attention_grad,
    syn__cuda_context,
    syn__cuda_paged,
    syn__cuda_losses,
    syn__cuda_optimizer,
    syn__cuda_select,
    syn__cuda_experts,
    syn__cuda_comm_rows,
};
// clang-format on

syn_kernel syn__cuda_kernel(const syn_opdef *def) {
    return column[def->op];
}

static void fill_column() {
    for (const syn__cuda_row *row : families)
        for (; row->op != SYN_OP_NONE; row++) column[row->op] = row->kernel;
}

extern "C" __attribute__((visibility("default"))) const syn_backend *
syn_backend_module(const syn_module_host *host, syn_error *err) {
    int n;
    if (strcmp(host->version, SYN_VERSION) != 0) {
        SYN_FAIL(err, SYN_E_UNSUPPORTED,
                 "the CUDA module has version " SYN_VERSION ", the program %s", host->version);
        return NULL;
    }
    if (syn__cuda_devices(&n, err) != SYN_OK) return NULL;
    syn__cuda_host = host;
    fill_column();
    return syn__cuda_backend();
}
