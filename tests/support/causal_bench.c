/* Implements causal_bench.h. */
#include "tests/support/causal_bench.h"

#include <stdlib.h>
#include <time.h>

#include "ops/blas.h"
#include "tests/support/files.h"
#include "tools/cli.h"

const char *const program_names[PROGRAMS] = {"ours", "transformers", "SYN_PEER_LLAMA"};

/* ---- programs ---- */

void open_programs(programs *p, const syn_model_config *config, syn_dtype dtype) {
    const char *llama = getenv("SYN_PEER_LLAMA"), *name = syn_dtype_name(dtype),
               *path = in_folder("config.json");
    const syn_model_options how = {.fused_attention = true, .seed = 1, .dtype = dtype};
    syn_error err = {0};
    char command[1024];
    *p = (programs){.vocabulary = config->vocab_size};
    if (llama) snprintf(command, sizeof command, "%s %s %s", llama, name, config->name);
    if (syn_ctx_new(&p->ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK ||
        syn_ctx_set_threads(p->ctx, cli_cores(), &err) != SYN_OK ||
        syn_model_new(&p->model, p->ctx, config, &how, &err) != SYN_OK ||
        syn_model_config_save(config, 0, path, &err) != SYN_OK)
        die(err.text);
    p->peers[PYTHON] = open_python("peer_inference.py", (const char *const[]){name, path, NULL});
    p->peers[COMMAND] = open_command(llama ? command : NULL);
}

void close_programs(programs *p) {
    for (int i = 0; i < PROGRAMS; i++)
        if (i != OURS) close_peer(&p->peers[i]);
    syn_model_free(p->model);
    syn_ctx_free(p->ctx);
}

bool has_program(const programs *p, int which) {
    return which == OURS || p->peers[which].to;
}

static syn_status generate_ours(const programs *p, const generation *g, const int32_t *tokens,
                                generated *out, syn_error *err) {
    const syn_spec prompt = {SYN_I32, 2, {g->sequences, g->length}};
    SYN_TRY(syn_ctx_set_threads(p->ctx, g->threads, err));
    SYN_TRY(syn_causal_begin(p->model, g->sequences, g->length + g->steps, err));
    const syn_mark mark = syn_ctx_mark(p->ctx);
    double wall = now_s(), cpu = cpu_s();
    syn_tensor next = syn_input(p->ctx, "prompt", &prompt, tokens);
    for (int s = -1; s < g->steps; s++) {
        const syn_tensor best = syn_argmax(p->ctx, syn_causal_forward(p->model, next));
        syn_release(p->ctx, mark, &best, 1);
        next = syn_reshape(p->ctx, best, (int64_t[]){g->sequences, 1}, 2);
        if (s >= 0) continue;
        out->prefill_s[WALL] = now_s() - wall;
        out->prefill_s[CPU] = cpu_s() - cpu;
        wall = now_s();
        cpu = cpu_s();
    }
    out->step_s[WALL] = (now_s() - wall) / (g->steps > 0 ? g->steps : 1);
    out->step_s[CPU] = (cpu_s() - cpu) / (g->steps > 0 ? g->steps : 1);
    syn_release(p->ctx, mark, NULL, 0);
    return syn_ctx_check(p->ctx, err);
}

generated generate(const programs *p, int which, const generation *g) {
    const int64_t n = (int64_t)g->sequences * g->length;
    generated out = {0};
    if (which == OURS) {
        int32_t *tokens = malloc((size_t)n * sizeof *tokens);
        syn_error err = {0};
        if (!tokens) die("out of memory");
        for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)(i * 7919 % p->vocabulary);
        if (generate_ours(p, g, tokens, &out, &err) != SYN_OK) die(err.text);
        free(tokens);
        return out;
    }
    char question[96];
    double numbers[5];
    snprintf(question, sizeof question, "%d %d %d %d", g->threads, g->length, g->steps,
             g->sequences);
    ask_peer(&p->peers[which], question, numbers, 5);
    return (generated){{numbers[0], numbers[2]}, {numbers[1], numbers[3]}, numbers[4]};
}

/* ---- OpenBLAS ---- */

void blas_products_s(const blas_product *list, int n, int threads, double seconds[CLOCKS]) {
    static float *w, *x, *y;
    static int64_t w_floats, x_floats, y_floats;
    const struct timespec pause = {0, 150000000};
    int64_t all = 0;
    for (int i = 0; i < n; i++) {
        const blas_product *p = &list[i];
        all += p->n * p->k;
        if (p->m * p->k > x_floats) {
            free(x);
            x = filled(x_floats = p->m * p->k);
        }
        if (p->m * p->n > y_floats) {
            free(y);
            y = filled(y_floats = p->m * p->n);
        }
    }
    if (all > w_floats) {
        free(w);
        w = filled(w_floats = all);
    }
    const float *at = w;
    syn_blas_set_threads(threads);
    const double wall = now_s(), cpu = cpu_s();
    for (int i = 0; i < n; i++) {
        const blas_product *p = &list[i];
        syn_blas_gemm(false, true, p->m, p->n, p->k, x, p->k, at, p->k, 0, y, p->n);
        at += p->n * p->k;
    }
    seconds[WALL] = now_s() - wall;
    seconds[CPU] = cpu_s() - cpu;
    /* After a product, OpenBLAS's threads keep polling for work for a while. Wait until they sleep,
       so that they do not compete with ours. */
    syn_blas_set_threads(1);
    if (threads > 1) nanosleep(&pause, NULL);
}

/* ---- results ---- */

double ratio_of(const timings *a, const timings *b, int clock) {
    double ratios[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) ratios[r] = a->s[clock][r] / b->s[clock][r];
    return median(ratios, ROUNDS);
}

void show_timings(const char *name, const timings *t, const timings *ours) {
    double s[CLOCKS][ROUNDS];
    for (int r = 0; r < ROUNDS * CLOCKS; r++)
        s[r % CLOCKS][r / CLOCKS] = t->s[r % CLOCKS][r / CLOCKS];
    printf("    %-14s %8.1f ms, %5.2f times ours; processor %8.1f ms, %5.2f times ours\n", name,
           1e3 * median(s[WALL], ROUNDS), ratio_of(t, ours, WALL), 1e3 * median(s[CPU], ROUNDS),
           ratio_of(t, ours, CPU));
}
