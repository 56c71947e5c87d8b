/* Compares each tensor-parallel layer, in every mode, with plain sums. Also tests writing and
   finding parameters. */
#include "comm/comm.h"
#include "models/layers.h"
#include "ops/ops.h"
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { IN = 12, OUT = 24, ROWS = 5, VOCAB = 21 };

/* The values of full tensor number p. */
static void values(float *out, int p, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = ref_value(p, i, 1.0);
}

struct job {
    int tp;
    bool gather, input_parallel, with_bias, out_in;
    bool two;   /* the results of two layers are added and then reduced once */
    int bad;    /* number of wrong elements on all ranks */
    int *comms; /* rank 0's number of all-reduces, all-gathers, tp_enter and other collectives */
};

static int differ(syn_ctx *ctx, syn_tensor t, const double *want, int64_t n) {
    float got[ROWS * OUT * 4];
    int bad = 0;
    if (syn_tensor_read(ctx, t, got, (size_t)n * sizeof *got) != SYN_OK) return (int)n;
    for (int64_t i = 0; i < n; i++) bad += !(fabs((double)got[i] - want[i]) <= 1e-5);
    return bad;
}

static syn_status write_shard(syn_ctx *ctx, const char *name, int p, int64_t rows, int64_t columns,
                              ref_cut cut, int rank, int tp) {
    ref_param param = {.rows = rows, .columns = columns, .cut = cut};
    param.data = calloc((size_t)(rows * columns), sizeof(float));
    if (!param.data) abort();
    values(param.data, p, rows * columns);
    size_t bytes;
    float *shard = ref_shard(&param, rank, tp, &bytes);
    const syn_status s = syn_tensor_write(ctx, syn_find_param(ctx, name), shard, bytes);
    free(shard);
    free(param.data);
    return s;
}

/* y = x W + bias in double, without sharding. out_in: W is stored as (OUT, IN). */
static void full_linear(double y[ROWS * OUT], bool with_bias, bool out_in) {
    float x[ROWS * IN], w[IN * OUT], b[OUT];
    values(x, 1, ROWS * IN);
    values(w, 2, IN * OUT);
    values(b, 3, OUT);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < OUT; c++) {
            y[r * OUT + c] = with_bias ? (double)b[c] : 0;
            for (int k = 0; k < IN; k++)
                y[r * OUT + c] +=
                    (double)x[r * IN + k] * (double)w[out_in ? c * IN + k : k * OUT + c];
        }
}

static void count_comms(struct job *job, syn_ctx *ctx) {
    const syn_trace *t = syn_ctx_trace(ctx);
    for (size_t i = 1; i < t->n_nodes; i++) {
        const int op = t->nodes[i].op;
        if (op == SYN_OP_ALL_REDUCE) job->comms[0]++;
        else if (op == SYN_OP_ALL_GATHER) job->comms[1]++;
        else if (op == SYN_OP_TP_ENTER) job->comms[2]++;
        else if (syn_op_table[op].comm != SYN_COMM_NONE) job->comms[3]++;
    }
}

/* Writes l.weight, sharded along the output dimension (by_column) or the input dimension. */
static syn_status write_weight(const struct job *job, syn_ctx *ctx, bool by_column, int rank) {
    const ref_cut cut = by_column == job->out_in ? REF_ROWS : REF_COLUMNS;
    return write_shard(ctx, "l.weight", 2, job->out_in ? OUT : IN, job->out_in ? IN : OUT, cut,
                       rank, job->tp);
}

static syn_status column(struct job *job, syn_ctx *ctx, int rank, const syn_group *tp) {
    const syn_initializer init = {
        .std = 0.02, .seed = 1, .out_in = job->out_in, .no_bias = !job->with_bias};
    const int64_t part = OUT / job->tp;
    const syn_spec spec = {SYN_F32, 2, {ROWS, IN}};
    float x[ROWS * IN];
    double full[ROWS * OUT], want[ROWS * OUT];
    values(x, 1, ROWS * IN);
    full_linear(full, job->with_bias, job->out_in);
    const syn_layer_linear layer = syn_column_linear_new(ctx, "l", IN, OUT, 1, &init, tp);
    SYN_TRY(write_weight(job, ctx, true, rank));
    if (job->with_bias) SYN_TRY(write_shard(ctx, "l.bias", 3, 1, OUT, REF_COLUMNS, rank, job->tp));
    job->bad += syn_ctx_param_count(ctx) != (job->with_bias ? 2u : 1u);
    const syn_tensor y =
        syn_column_linear(ctx, syn_input(ctx, "x", &spec, x), &layer, job->gather, tp, "y");
    const int64_t width = job->gather ? OUT : part;
    for (int r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < width; c++)
            want[r * width + c] = full[r * OUT + c + (job->gather ? 0 : rank * part)];
    job->bad += syn_tensor_dim(ctx, y, -1) != width;
    job->bad += differ(ctx, y, want, ROWS * width);
    return SYN_OK;
}

static syn_status row(struct job *job, syn_ctx *ctx, int rank, const syn_group *tp) {
    const syn_initializer init = {
        .std = 0.02, .seed = 1, .out_in = job->out_in, .no_bias = !job->with_bias};
    const int64_t part = IN / job->tp, width = job->input_parallel ? part : IN;
    const syn_spec spec = {SYN_F32, 2, {ROWS, width}};
    float all[ROWS * IN], x[ROWS * IN];
    double want[ROWS * OUT];
    values(all, 1, ROWS * IN);
    for (int r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < width; c++)
            x[r * width + c] = all[r * IN + c + (job->input_parallel ? rank * part : 0)];
    full_linear(want, job->with_bias, job->out_in);
    const syn_layer_linear layer = syn_row_linear_new(ctx, "l", IN, OUT, &init, tp);
    SYN_TRY(write_weight(job, ctx, false, rank));
    if (job->with_bias) SYN_TRY(write_shard(ctx, "l.bias", 3, 1, OUT, REF_WHOLE, rank, job->tp));
    job->bad += syn_ctx_param_count(ctx) != (job->with_bias ? 2u : 1u);
    const syn_tensor in = syn_input(ctx, "x", &spec, x);
    syn_tensor y;
    if (job->two) {
        const syn_tensor bias = job->with_bias ? syn_scale(ctx, layer.bias, 2) : SYN_NO_BIAS;
        y = syn_row_linear_partial(ctx, in, &layer, tp, "y");
        y = syn_add(ctx, y, syn_row_linear_partial(ctx, in, &layer, tp, "z"));
        y = syn_row_linear_reduce(ctx, y, bias, tp);
        for (int k = 0; k < ROWS * OUT; k++) want[k] *= 2;
    } else {
        y = syn_row_linear(ctx, in, &layer, job->input_parallel, tp, "y");
    }
    job->bad += differ(ctx, y, want, ROWS * OUT);
    return SYN_OK;
}

/* A lookup and a head with the same table of 21 rows, a number that no tp divides. */
static syn_status vocabulary(struct job *job, syn_ctx *ctx, int rank, const syn_group *tp) {
    static const int32_t ids[ROWS] = {0, 20, 5, 11, 6};
    const int64_t padded = (VOCAB + job->tp - 1) / job->tp * job->tp;
    const syn_initializer init = {.std = 0.02, .seed = 1};
    const syn_spec spec = {SYN_I32, 2, {1, ROWS}};
    const int64_t flat[2] = {ROWS, IN};
    float w[VOCAB * IN];
    float bias[VOCAB];
    double rows[ROWS * IN], logits[ROWS * VOCAB];
    values(w, 2, VOCAB * IN);
    values(bias, 3, VOCAB);
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < IN; k++) rows[r * IN + k] = (double)w[ids[r] * IN + k];
        for (int v = 0; v < VOCAB; v++) {
            logits[r * VOCAB + v] = job->with_bias ? (double)bias[v] : 0;
            for (int k = 0; k < IN; k++)
                logits[r * VOCAB + v] += rows[r * IN + k] * (double)w[v * IN + k];
        }
    }
    const syn_tensor table = syn_vocab_embedding_new(ctx, "t", padded, VOCAB, IN, &init, tp);
    SYN_TRY(write_shard(ctx, "t.weight", 2, VOCAB, IN, REF_VOCAB, rank, job->tp));
    const syn_tensor x =
        syn_vocab_embedding(ctx, table, syn_input(ctx, "ids", &spec, ids), -1, SYN_F32, tp);
    job->bad += differ(ctx, x, rows, ROWS * IN);
    syn_tensor b = SYN_NO_BIAS;
    if (job->with_bias) {
        b = syn_vocab_bias_new(ctx, "t", padded, VOCAB, SYN_F32, tp);
        SYN_TRY(write_shard(ctx, "t.bias", 3, VOCAB, 1, REF_VOCAB, rank, job->tp));
    }
    const syn_tensor y =
        syn_vocab_head(ctx, syn_reshape(ctx, x, flat, 2), table, b, VOCAB, tp, "head");
    job->bad += syn_tensor_dim(ctx, y, -1) != VOCAB;
    job->bad += differ(ctx, y, logits, ROWS * VOCAB);
    return SYN_OK;
}

static syn_status (*layer_test)(struct job *, syn_ctx *, int, const syn_group *);

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    struct job mine = *job;
    mine.bad = 0;
    SYN_TRY(layer_test(&mine, me->ctx, me->index, me->tp));
    SYN_TRY(syn_ctx_check(me->ctx, err));
    if (me->index == 0) count_comms(&mine, me->ctx);
    return mine.bad ? SYN_FAIL(err, SYN_E_INVALID, "%d elements are wrong", mine.bad) : SYN_OK;
}

static int comms[4];

static bool run(struct job *job) {
    syn_error err = {0};
    memset(comms, 0, sizeof comms);
    job->comms = comms;
    const bool ok = run_ranks(job->tp, run_rank, job, &err) == SYN_OK;
    if (!ok) fprintf(stderr, "%s\n", err.text);
    return ok;
}

static void column_linear_in_every_mode(void) {
    layer_test = column;
    for (int i = 0; i < 24; i++) {
        struct job job = {
            .tp = 1 << i % 3, .gather = i / 3 % 2, .with_bias = i / 6 % 2, .out_in = i / 12};
        CHECK_MSG(run(&job), "tp %d, gather %d, bias %d, out_in %d", job.tp, job.gather,
                  job.with_bias, job.out_in);
        CHECK_INT(comms[0] + comms[3], 0);
        CHECK_INT(comms[1], job.gather && job.tp > 1);
        CHECK_INT(comms[2], job.tp > 1);
    }
}

static void row_linear_in_every_mode(void) {
    layer_test = row;
    for (int i = 0; i < 36; i++) {
        struct job job = {.tp = 1 << i % 3,
                          .input_parallel = i >= 24 || i / 3 % 2,
                          .with_bias = i / 6 % 2,
                          .out_in = i / 12 == 1,
                          .two = i >= 24};
        CHECK_MSG(run(&job), "tp %d, input %d, bias %d, out_in %d, two %d", job.tp,
                  job.input_parallel, job.with_bias, job.out_in, job.two);
        CHECK_INT(comms[0], job.tp > 1);
        CHECK_INT(comms[1] + comms[2] + comms[3], 0);
    }
}

static void a_vocabulary_that_does_not_divide(void) {
    layer_test = vocabulary;
    for (int i = 0; i < 8; i++) {
        struct job job = {.tp = 1 + i % 4, .with_bias = i / 4};
        CHECK_MSG(run(&job), "tp %d, bias %d", job.tp, job.with_bias);
        CHECK_INT(comms[0], job.tp > 1);
        CHECK_INT(comms[1], job.tp > 1);
        CHECK_INT(comms[3], 0);
    }
}

/* All parameters have the dtype of the initializer. If it is f32, matrices may have a narrower
   dtype. */
static void types_of_parameters(void) {
    static const syn_dtype dtypes[3] = {SYN_F32, SYN_F16, SYN_BF16};
    for (int i = 0; i < 12; i++) {
        syn_ctx *ctx = NULL;
        syn_error err = {0};
        const bool all = i >= 6;
        const syn_dtype dtype_of_all = all ? dtypes[i % 3] : SYN_F32;
        const syn_initializer init = {.std = 0.02,
                                      .seed = 1,
                                      .dtype = dtype_of_all,
                                      .weight_dtype = all ? SYN_F32 : dtypes[i % 3],
                                      .out_in = i / 3 % 2};
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        const syn_layer_linear c = syn_column_linear_new(ctx, "c", IN, OUT, 1, &init, NULL);
        const syn_layer_linear r = syn_row_linear_new(ctx, "r", IN, OUT, &init, NULL);
        const syn_layer_norm norm = syn_layer_norm_new(ctx, "n", IN, true, dtype_of_all);
        const syn_tensor tensors[8] = {
            c.weight,    r.weight, syn_vocab_embedding_new(ctx, "t", VOCAB, VOCAB, IN, &init, NULL),
            c.bias,      r.bias,   syn_vocab_bias_new(ctx, "t", VOCAB, VOCAB, dtype_of_all, NULL),
            norm.weight, norm.bias};
        int dtype[8];
        for (int k = 0; k < 8; k++) dtype[k] = (int)syn_tensor_spec(ctx, tensors[k])->dtype;
        const int64_t rows[2] = {syn_tensor_dim(ctx, c.weight, 0),
                                 syn_tensor_dim(ctx, r.weight, 0)};
        const syn_status s = syn_ctx_status(ctx);
        syn_ctx_free(ctx);
        CHECK_INT(s, SYN_OK);
        for (int k = 0; k < 8; k++) CHECK_INT(dtype[k], k < 3 ? dtypes[i % 3] : dtype_of_all);
        CHECK_INT(rows[0], init.out_in ? OUT : IN);
        CHECK_INT(rows[1], init.out_in ? OUT : IN);
    }
}

/* ---- Parameters by name ---- */

static const syn_spec square = {SYN_F32, 2, {2, 2}};

static void parameters_are_found_and_written(void) {
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err), err);
    const float data[4] = {1, -2, 3.5f, 4};
    float got[3][4] = {{0}};
    const syn_tensor input = syn_input(ctx, "a", &square, NULL); /* an input is not a parameter */
    const syn_tensor a = syn_param(ctx, "a", &square, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    const syn_tensor state = syn_state(ctx, "s", &square);
    const syn_tensor b = syn_param(ctx, "b", &square, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    const syn_tensor found[4] = {syn_find_param(ctx, "a"), syn_find_param(ctx, "b"),
                                 syn_find_param(ctx, "s"), syn_find_param(ctx, "")};
    const uint64_t hash = syn_trace_hash(syn_ctx_trace(ctx));
    const bool wrote = syn_tensor_write(ctx, a, data, sizeof data) == SYN_OK &&
                       syn_tensor_write(ctx, input, data, sizeof data) == SYN_OK &&
                       syn_tensor_write(ctx, state, data, sizeof data) == SYN_OK;
    const bool same_trace = hash == syn_trace_hash(syn_ctx_trace(ctx));
    const bool read = syn_tensor_read(ctx, a, got[0], sizeof data) == SYN_OK &&
                      syn_tensor_read(ctx, input, got[1], sizeof data) == SYN_OK &&
                      syn_tensor_read(ctx, state, got[2], sizeof data) == SYN_OK;
    float other[4];
    const bool kept =
        syn_tensor_read(ctx, b, other, sizeof other) == SYN_OK && other[0] == 1 && other[3] == 1;
    syn_ctx_free(ctx);
    CHECK_INT(found[0].id, a.id);
    CHECK_INT(found[1].id, b.id);
    CHECK_INT(found[2].id, 0);
    CHECK_INT(found[3].id, 0);
    CHECK(wrote && read && kept && same_trace);
    for (int i = 0; i < 3; i++) CHECK(memcmp(got[i], data, sizeof data) == 0);
}

static syn_tensor written(syn_ctx *ctx, int which) {
    const syn_tensor p = syn_param(ctx, "weight", &square, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    const int64_t flat[1] = {4};
    switch (which) {
    case 0:
        return syn_scale(ctx, p, 2); /* the result of an op is not a parameter */
    case 1:
        return syn_reshape(ctx, p, flat, 1); /* a view is not a parameter */
    default:
        return p; /* the parameter is valid, but the size is wrong */
    }
}

static void writes_of_anything_else_are_refused(void) {
    for (int which = 0; which < 3; which++) {
        syn_ctx *ctx = NULL;
        syn_error err = {0};
        const float data[16] = {0};
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err), err);
        const syn_tensor t = written(ctx, which);
        const syn_status built = syn_ctx_status(ctx);
        const syn_status s = syn_tensor_write(ctx, t, data, which < 2 ? 16 : 20);
        err = *syn_ctx_error(ctx);
        syn_ctx_free(ctx);
        CHECK(built == SYN_OK);
        CHECK_MSG(s == (which < 2 ? SYN_E_INVALID : SYN_E_SHAPE), "case %d: status %d", which,
                  (int)s);
        CHECK_HAS(err.text,
                  which < 2 ? "not a parameter, input or state" : "'weight' has 16 bytes, but 20");
    }
}

/* A program that loads weights can also run on meta. */
static void writing_on_meta_does_nothing(void) {
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    (void)syn_param(ctx, "weight", &square, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    const syn_status s = syn_tensor_write(ctx, syn_find_param(ctx, "weight"), NULL, 16);
    const syn_status size = syn_tensor_write(ctx, syn_find_param(ctx, "weight"), NULL, 12);
    syn_ctx_free(ctx);
    CHECK(s == SYN_OK);
    CHECK(size == SYN_E_SHAPE);
}

static const test_case cases[] = {
    {"column_linear_in_every_mode", column_linear_in_every_mode},
    {"row_linear_in_every_mode", row_linear_in_every_mode},
    {"a_vocabulary_that_does_not_divide", a_vocabulary_that_does_not_divide},
    {"types_of_parameters", types_of_parameters},
    {"parameters_are_found_and_written", parameters_are_found_and_written},
    {"writes_of_anything_else_are_refused", writes_of_anything_else_are_refused},
    {"writing_on_meta_does_nothing", writing_on_meta_does_nothing},
};

TEST_MAIN(cases)
