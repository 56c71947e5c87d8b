/* The size of the KV cache, by vLLM's formula (vllm/v1/worker/gpu_worker.py and
   vllm/v1/core/kv_cache_utils.py, version 0.19): the share of the device's memory that the server
   may use, minus weights and activations, divided by the bytes of a block of all layers. */
#include <math.h>

#include "tools/cli.h"
#include "tools/serve/serve.h"

syn_status serve_kv_blocks(serve_pool *p, const serve_pool *draft, const serve_memory *m,
                           const serving_limits *l, int64_t *blocks, syn_error *err) {
    const serve_pool_options *o = serve_pool_get(p);
    char need[32], has[32];
    double activations = m->activation_bytes;
    if (activations < 0)
        SYN_TRY(serve_pool_activation_bytes(p, l->max_tokens, l->max_seqs, &activations, err));
    const double all = m->device_bytes > 0 ? m->device_bytes : o->hw->memory_bytes;
    const double used =
        serve_pool_weight_bytes(p) + (draft ? serve_pool_weight_bytes(draft) : 0) + activations;
    const double token = serve_pool_token_bytes(p) + (draft ? serve_pool_token_bytes(draft) : 0);
    const double left = ceil(all * m->share) - used;
    *blocks = (int64_t)(left / (token * (double)o->block_tokens));
    if (left > 0 && *blocks >= 2) return SYN_OK;
    return SYN_FAIL(
        err, SYN_E_NOMEM,
        "%s%sweights and activations of a rank need %s, and %.3g of the memory of %s "
        "is %s, which leaves no KV cache: use %s, a smaller --max-num-batched-tokens, or a "
        "machine with more memory",
        o->role, o->role[0] ? ": " : "", cli_bytes_text(used, need, sizeof need), m->share,
        o->hw->name, cli_bytes_text(all * m->share, has, sizeof has),
        syn_model_has_experts(o->config) ? "a larger tp or ep" : "a larger tp");
}
