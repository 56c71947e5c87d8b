/* Speculative decoding; see serve_drafts.h. */
#include "tools/serve/serve_drafts.h"

/* A random number in [0, 1) (Steele et al. 2014). */
static double draw(uint64_t seed, uint64_t i) {
    uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

void serve_accept_drafts(const serve_simulation *sim, int32_t replica, uint64_t *draws,
                         serving_step *step, serve_result *result) {
    const uint64_t seed = sim->seed + 0x51ed270b * (uint64_t)(replica + 1);
    for (int64_t i = 0; i < step->n; i++) {
        serving_row *row = &step->rows[i];
        if (!row->samples) continue;
        while (row->accepted < row->drafts && draw(seed, (*draws)++) < sim->acceptance)
            row->accepted++;
        result->drafted += row->drafts;
        result->accepted += row->accepted;
    }
}

syn_status serve_add_drafting(const serve_simulation *sim, const serving_step *step,
                              serving_row *rows, serve_time *t, syn_error *err) {
    serving_step one = {.rows = rows};
    serve_time first, next = {0};
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row *row = &step->rows[i];
        if (!row->samples) continue;
        one.rows[one.n++] = (serving_row){.queries = 1, .keys = row->keys + 1, .samples = true};
    }
    one.tokens = one.n;
    if (one.n == 0) return SYN_OK;
    const serving_step *const steps[2] = {step, &one};
    SYN_TRY(serve_pool_predict(sim->draft, &steps[0], 1, &first, err));
    SYN_TRY(serve_pool_predict(sim->draft, &steps[1], 1, &next, err));
    serve_time_add(t, &first, 1);
    serve_time_add(t, &next, sim->limits[sim->n_pools - 1].drafts - 1);
    return SYN_OK;
}
