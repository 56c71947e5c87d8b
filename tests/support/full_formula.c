/* Implements full_formula.h: computes the weights of the formula and compares logits. */
#include "tests/support/full_formula.h"

#include "tests/support/ranks.h"
#include "tests/support/test.h"

/* The index in the full dimension of a shard's element i. The dimension has `parts` blocks, and
   each block is sharded on its own. */
static int64_t full_at(int64_t i, int64_t local, int64_t full, syn_shard shard) {
    const int64_t piece = local / shard.parts, block = full / shard.parts;
    return i / piece * block + shard.index * piece + i % piece;
}

/* The read function of a syn_param_source; user points to a full_formula. */
static syn_status full_read(void *user, const char *name, const syn_spec *full, syn_shard shard,
                            int64_t valid_rows, const syn_spec *local, void *data, syn_error *err) {
    const full_formula *f = (const full_formula *)user;
    const int p = f->number(name);
    if (p < 0) return SYN_FAIL(err, SYN_E_INVALID, "no parameter %s", name);
    const bool matrix = full->rank == 2;
    const double scale = f->scale(name, full->rank);
    const float one = strstr(name, f->norm) && strstr(name, ".weight") ? 1.0f : 0.0f;
    const int64_t rows = matrix ? local->dims[0] : 1, columns = local->dims[matrix];
    const int64_t width = full->dims[matrix];
    float *row = (float *)malloc((size_t)columns * sizeof *row);
    if (!row) return SYN_FAIL_NOMEM(err, 0, "a row");
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at_row =
            matrix && shard.axis == 0 ? full_at(r, rows, full->dims[0], shard) : r;
        const bool stored = valid_rows < 0 || at_row < valid_rows;
        for (int64_t c = 0; c < columns; c++) {
            const int64_t at_column =
                !matrix || shard.axis == 1 ? full_at(c, columns, width, shard) : c;
            const bool there = matrix || valid_rows < 0 ? stored : at_column < valid_rows;
            row[c] = there ? one + ref_value(p, at_row * width + at_column, scale) : 0.0f;
        }
        if (local->dtype == SYN_F32)
            memcpy((float *)data + r * columns, row, (size_t)columns * sizeof *row);
        else
            syn_half_narrow(row, (uint16_t *)data + r * columns, (size_t)columns,
                            (syn_dtype)local->dtype);
    }
    free(row);
    return SYN_OK;
}

syn_param_source full_source(const full_formula *formula) {
    return (syn_param_source){full_read, (void *)(uintptr_t)formula};
}

void full_worse(double *worst, const float *got, const double *want, int64_t n, double largest) {
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs((double)got[i] - want[i]) / largest;
        if (!(e <= *worst)) *worst = isnan(e) ? INFINITY : e;
    }
}

void full_compare(const bfix_word *w, const float *logits, int64_t n, double *worst) {
    const double largest = fmax(w->top_logits.v[0], -w->min.v[0]);
    double sum = 0, squares = 0, min = INFINITY;
    int better = 0; /* number of logits above the tenth largest */
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)logits[i];
        sum += x;
        squares += x * x;
        min = fmin(min, x);
        better += logits[i] > logits[(int)w->top_ids.v[9]];
    }
    for (int i = 0; i < w->logits.n; i++)
        full_worse(worst, logits + i * (int)w->stride.v[0], &w->logits.v[i], 1, largest);
    for (int i = 0; i < w->top_ids.n; i++)
        full_worse(worst, logits + (int)w->top_ids.v[i], &w->top_logits.v[i], 1, largest);
    *worst = fmax(*worst, fabs(min - w->min.v[0]) / largest);
    *worst = fmax(*worst, fabs(sum - w->sum.v[0]) / largest / sqrt((double)n));
    *worst = fmax(*worst, fabs(squares - w->sum_of_squares.v[0]) / w->sum_of_squares.v[0]);
    if (better != 9 || w->logits.n != 200 || w->top_ids.n != 10) *worst = INFINITY;
}

typedef struct work {
    full_job *job;
    const char *preset;
    unsigned heads;
    const full_formula *formula;
    full_run *run;
} work;

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    const work *w = arg;
    full_job mine = *w->job;
    const syn_param_source source = full_source(w->formula);
    const syn_model_options how = {
        .tp = me->tp, .heads = w->heads, .fused_attention = mine.fused, .weight_dtype = mine.dtype};
    syn_model *model = NULL;
    syn_model_config config;
    SYN_TRY(syn_model_config_preset(&config, w->preset, err));
    if (mine.threads) SYN_TRY(syn_ctx_set_threads(me->ctx, mine.threads, err));
    syn_ctx_set_param_source(me->ctx, &source);
    syn_status s = syn_model_new(&model, me->ctx, &config, &how, err);
    if (s == SYN_OK) s = w->run(&mine, model, err);
    if (me->index == 0) *w->job = mine;
    syn_model_free(model);
    return s;
}

void full_check(full_job *job, const char *preset, unsigned heads, const full_formula *formula,
                full_run *run) {
    work w = {job, preset, heads, formula, run};
    syn_error err = {0};
    CHECK_OK(run_ranks(job->tp, run_rank, &w, &err), err);
    CHECK_MSG(job->worst > 0 && job->worst <= 2e-5, "tp %d, fused %d, %s: error %g", job->tp,
              job->fused, syn_dtype_name(job->dtype), job->worst);
}
