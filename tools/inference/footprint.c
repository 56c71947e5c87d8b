/* Computes the memory use of a rank from its tensors and from the process, and prints it. */
#include "tools/inference/footprint.h"

#include <sys/resource.h>

#include "tools/cli.h"

footprint footprint_of(const syn_ctx *ctx) {
    const syn_trace *t = syn_ctx_trace(ctx);
    footprint f = {.peak_bytes = syn_ctx_peak_bytes(ctx)};
    for (uint32_t row = 1; row < t->n_tensors; row++) {
        const uint64_t bytes = syn_spec_bytes(syn_trace_spec(t, row));
        if (t->tensors[row].base != row) continue; /* a view, or another version of a tensor */
        if (t->tensors[row].flags & SYN_TENSOR_PARAM) f.weights_bytes += bytes;
        if (t->tensors[row].flags & SYN_TENSOR_STATE) f.cache_bytes += bytes;
    }
    struct rusage usage; /* ru_maxrss is in KiB on Linux */
    if (getrusage(RUSAGE_SELF, &usage) == 0) f.process_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return f;
}

void footprint_print(const syn_ctx *ctx, uint64_t largest_bytes, FILE *out) {
    const footprint f = footprint_of(ctx);
    char a[32], b[32], c[32], d[32], e[32];
    fprintf(out, "memory:  rank 0 used at most %s of tensor data (weights %s",
            cli_bytes_text((double)f.peak_bytes, a, sizeof a),
            cli_bytes_text((double)f.weights_bytes, b, sizeof b));
    if (f.cache_bytes > 0)
        fprintf(out, ", KV cache %s", cli_bytes_text((double)f.cache_bytes, c, sizeof c));
    fprintf(out, ", largest activation %s); the process %s\n",
            cli_bytes_text((double)largest_bytes, d, sizeof d),
            cli_bytes_text((double)f.process_bytes, e, sizeof e));
}

void footprint_json(const syn_ctx *ctx, uint64_t largest_bytes, syn_sink *out) {
    const footprint f = footprint_of(ctx);
    syn_sink_printf(out,
                    ", \"memory\": {\"weights_bytes\": %llu, \"cache_bytes\": %llu, "
                    "\"largest_activation_bytes\": %llu, \"peak_bytes\": %llu, "
                    "\"process_peak_bytes\": %llu}",
                    (unsigned long long)f.weights_bytes, (unsigned long long)f.cache_bytes,
                    (unsigned long long)largest_bytes, (unsigned long long)f.peak_bytes,
                    (unsigned long long)f.process_bytes);
}
