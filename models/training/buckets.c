/* Divides parameters into buckets by size; see buckets_private.h. Data parallelism and the
   optimizer both use the buckets. */
#include "models/training/buckets_private.h"

#include <string.h>

#include "syntorch/base/memory.h"

enum { FIRST_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20 };

syn_status syn__buckets_make(syn__buckets *buckets, const syn_ctx *ctx, syn_error *err) {
    const size_t n = syn_ctx_param_count(ctx);
    *buckets = (syn__buckets){syn_calloc(n + 1, sizeof *buckets->at), 0,
                              syn_calloc(n + 1, sizeof *buckets->of_param)};
    if (!buckets->at || !buckets->of_param) {
        syn__buckets_free(buckets);
        return SYN_FAIL_NOMEM(err, n * sizeof *buckets->at, "buckets of parameters");
    }
    for (size_t i = n; i-- > 0;) {
        syn__bucket *b = &buckets->at[buckets->n];
        if (b->n++ == 0) b->last = i;
        b->elems += syn_spec_elems(syn_tensor_spec(ctx, syn_ctx_param(ctx, i).tensor));
        buckets->of_param[i] = (uint32_t)buckets->n;
        const int64_t most = buckets->n == 0 ? FIRST_BYTES : BUCKET_BYTES;
        if (i == 0 || b->n == SYN_MAX_PARAMS || b->elems >= most / (int64_t)sizeof(float))
            buckets->n++;
    }
    return SYN_OK;
}

void syn__buckets_free(syn__buckets *buckets) {
    syn_free(buckets->at);
    syn_free(buckets->of_param);
    *buckets = (syn__buckets){0};
}

syn_status syn__find_param(size_t *number, const syn_ctx *ctx, const char *name, syn_error *err) {
    for (*number = 0; *number < syn_ctx_param_count(ctx); ++*number)
        if (strcmp(syn_ctx_param(ctx, *number).name, name) == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "there is no parameter '%s'", name);
}
