/* Tests reading of checkpoints that the test writes byte by byte: one message for everything that
   does not fit, dtypes, long slices, and out-of-memory errors. */
#include "tests/support/test.h"
#include "tests/support/weights_fixture.h"

/* A context into which single parameters are read. */
struct bench {
    syn_weights *weights;
    syn_weights_reader *reader;
    syn_ctx *ctx;
};

static syn_status bench_open(struct bench *b, const char *name, const syn_model_family *family,
                             syn_device device, syn_error *err) {
    memset(b, 0, sizeof *b);
    SYN_TRY(syn_weights_open(&b->weights, in_folder(name), family, err));
    SYN_TRY(syn_weights_reader_new(&b->reader, b->weights, err));
    SYN_TRY(syn_ctx_new(&b->ctx, device, NULL, err));
    const syn_param_source source = syn_weights_source(b->reader);
    syn_ctx_set_param_source(b->ctx, &source);
    return SYN_OK;
}

static void bench_close(struct bench *b) {
    syn_ctx_free(b->ctx);
    syn_weights_reader_free(b->reader);
    syn_weights_free(b->weights);
}

static syn_tensor want(struct bench *b, const char *name, syn_dtype dtype, int64_t rows,
                       int64_t columns, int64_t valid_rows) {
    const syn_spec spec = {(int32_t)dtype, 2, {rows, columns}};
    return syn_param(b->ctx, name, &spec, SYN_WHOLE, SYN_INIT_ONE, 1.0, valid_rows, 1);
}

/* Writes a checkpoint in which no tensor fits. The first tensor is ignored, the second is at an odd
   address, and lm_head.weight may be missing. */
static void put_misfits(void) {
    static const unsigned char data[64];
    /* clang-format off */
    put_tensors("misfits",
                "{\"transformer.h.0.attn.bias\":" T("U8", "[1]", "[0,1]")
                ",\"fits\":" T("F32", "[2,2]", "[1,17]")
                ",\"transformer.turned\":" T("F32", "[3,1]", "[17,29]")
                ",\"flat\":" T("F32", "[2]", "[29,37]")
                ",\"bytes\":" T("I8", "[2,2]", "[37,41]")
                ",\"lm_head.weight\":" T("U8", "[1]", "[41,42]")
                ",\"odd\\u001b\\nname\":" T("BOOL", "[]", "[42,43]")
                ",\"left\":" T("F16", "[1,2]", "[43,47]") "}",
                data, 47);
    /* clang-format on */
}

static void check_misfits(syn_device device) {
    static const char expected[] =
        "absent: missing; the model has it with the shape [5, 6]\n"
        "transformer.turned: the file has the shape [3, 1], but the model has [1, 3]\n"
        "flat: the file has the shape [2], but the model has [2, 1]\n"
        "bytes: the file has I8, which is not a supported floating-point dtype\n"
        "h.0.attn.bias: missing; the model has it with the shape [1, 1]\n"
        "odd??name: not in the model (BOOL [])\n"
        "left: not in the model (F16 [1, 2])\n";
    syn_error err = {0};
    struct bench b;
    char *list;
    float values[4] = {7, 7, 7, 7};
    CHECK_OK(bench_open(&b, "misfits", &syn_gpt_family, device, &err), err);
    want(&b, "fits", SYN_BF16, 2, 2, -1);
    want(&b, "absent", SYN_F32, 5, 6, -1);
    const syn_tensor turned = want(&b, "turned", SYN_F32, 1, 3, -1);
    want(&b, "flat", SYN_F32, 2, 1, -1);
    want(&b, "bytes", SYN_F32, 2, 2, -1);
    want(&b, "h.0.attn.bias", SYN_F32, 1, 1, -1);
    CHECK_OK(syn_ctx_status(b.ctx), *syn_ctx_error(b.ctx));
    if (device == SYN_DEVICE_CPU)
        CHECK_OK(syn_tensor_read(b.ctx, turned, values, 12), *syn_ctx_error(b.ctx));
    CHECK_INT(syn_weights_finish(b.reader, NULL, &list, &err), SYN_E_SHAPE);
    CHECK_STR(list, expected);
    syn_free(list);
    CHECK_HAS(err.text, "misfits do not fit the model: 2 missing ('absent', 'h.0.attn.bias'); 2 "
                        "with another shape ('transformer.turned', 'flat'); 1 with an unsupported "
                        "dtype ('bytes'); 2 unexpected ('odd??name', 'left')");
    CHECK_INT(syn_weights_finish(b.reader, NULL, NULL, NULL), SYN_E_SHAPE);
    if (device == SYN_DEVICE_CPU) /* parameters without a fitting tensor stay zero */
        for (int i = 0; i < 3; i++) CHECK_NEAR(values[i], 0, 0);
    bench_close(&b);
}

static void all_misfits_are_reported_at_once(void) {
    put_misfits();
    check_misfits(SYN_DEVICE_CPU);
    check_misfits(SYN_DEVICE_META);
}

static void many_misfits_are_one_sentence(void) {
    const checkpoint *bert = &checkpoints[6];
    syn_error err = {0};
    syn_weights *weights;
    syn_weights_reader *reader;
    char *list;
    CHECK_OK(syn_weights_open(&weights, reference_path("%s", bert->folder), &syn_bert_family, &err),
             err);
    CHECK_OK(syn_weights_reader_new(&reader, weights, &err), err);
    CHECK_INT(syn_weights_finish(reader, NULL, &list, &err), SYN_E_SHAPE);
    CHECK_HAS(err.text, "37 unexpected ('bert.embeddings.LayerNorm.bias', "
                        "'bert.embeddings.LayerNorm.weight', ...)");
    int lines = 0;
    for (const char *p = list; *p; p++) lines += *p == '\n';
    CHECK_INT(lines, 37);
    syn_free(list);
    syn_weights_reader_free(reader);
    syn_weights_free(weights);
}

static void another_family_is_refused(void) {
    for (int i = 0; i < 2; i++) {
        const checkpoint *c = &checkpoints[i ? 6 : 0];
        syn_error err = {0};
        syn_weights *weights;
        CHECK_INT(syn_weights_open(&weights, reference_path("%s", c->folder),
                                   i ? &syn_gpt_family : &syn_bert_family, &err),
                  SYN_E_INVALID);
        CHECK_HAS(err.text, i ? "has the weights of a BERT, but the model is a GPT-2"
                              : "has the weights of a GPT-2, but the model is a BERT");
    }
}

/* Ranks compare this hash to make sure that they read the same checkpoint. It is the same for equal
   files, and differs if a single number differs. */
static void hashes_distinguish_checkpoints(void) {
    uint64_t hashes[4];
    static const int of[4] = {0, 0, 1, 2};
    for (int i = 0; i < 4; i++) {
        syn_error err = {0};
        syn_weights *weights;
        CHECK_OK(syn_weights_open(&weights, reference_path("%s", checkpoints[of[i]].folder),
                                  &syn_gpt_family, &err),
                 err);
        hashes[i] = syn_weights_hash(weights);
        CHECK(syn_weights_has(weights, "h.0.ln_1.bias") && !syn_weights_has(weights, "h.9.x"));
        syn_weights_free(weights);
    }
    CHECK(hashes[0] == hashes[1]);
    CHECK(hashes[0] != hashes[2] && hashes[0] != hashes[3] && hashes[2] != hashes[3]);
}

static void names_that_meet_are_refused(void) {
    static const struct {
        const syn_model_family *family;
        const char *first, *second;
        bool refused;
    } rows[] = {
        {&syn_gpt_family, "wte.weight", "transformer.wte.weight", true},
        {&syn_gpt_family, "wte.weight", "bert.wte.weight", false},
        {&syn_gpt_family, "h.0.attn.bias", "transformer.h.0.attn.bias", false},
        {&syn_bert_family, "bert.LayerNorm.gamma", "bert.LayerNorm.weight", true},
        {&syn_bert_family, "x.LayerNorm.beta", "bert.x.LayerNorm.beta", true},
        {&syn_bert_family, "cls.predictions.bias", "cls.predictions.decoder.bias", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        syn_error err = {0};
        syn_weights *weights;
        char header[300];
        snprintf(header, sizeof header,
                 "{\"%s\":" T("F32", "[1]", "[0,4]") ",\"%s\":" T("F32", "[1]", "[4,8]") "}",
                 rows[i].first, rows[i].second);
        put_tensors("f", header, "\0\0\0\0\0\0\0", 8);
        const syn_status s = syn_weights_open(&weights, in_folder("f"), rows[i].family, &err);
        CHECK_INT(s, rows[i].refused ? SYN_E_FORMAT : SYN_OK);
        CHECK((weights == NULL) == rows[i].refused);
        if (rows[i].refused) {
            CHECK_HAS(err.text, rows[i].first);
            CHECK_HAS(err.text, rows[i].second);
            CHECK_HAS(err.text, "are the same parameter");
        }
        syn_weights_free(weights);
    }
}

/* The bias of BERT's head has two names. A file may have either name; if it has both, the decoder's
   is used. */
static void the_bias_of_words_has_two_names(void) {
    static const char *const headers[] = {
        "{\"cls.predictions.bias\":" T("F32", "[1,1]", "[0,4]") "}",
        "{\"cls.predictions.decoder.bias\":" T("F32", "[1,1]", "[0,4]") "}",
        "{\"cls.predictions.decoder.bias\":" T(
            "F32", "[1,1]", "[4,8]") ",\"cls.predictions.bias\":" T("F32", "[1,1]", "[0,4]") "}"};
    const float data[2] = {4.0f, 5.0f};
    for (size_t i = 0; i < 3; i++) {
        syn_error err = {0};
        struct bench b;
        float value = 0;
        put_tensors("f", headers[i], data, i < 2 ? 4 : 8);
        CHECK_OK(bench_open(&b, "f", &syn_bert_family, SYN_DEVICE_CPU, &err), err);
        const syn_tensor t = want(&b, "cls.predictions.bias", SYN_F32, 1, 1, -1);
        CHECK_OK(syn_tensor_read(b.ctx, t, &value, 4), *syn_ctx_error(b.ctx));
        CHECK_NEAR(value, i < 2 ? 4.0 : 5.0, 0);
        CHECK_OK(syn_weights_finish(b.reader, NULL, NULL, &err), err);
        syn_weights_head head = {"x", "y", "z"};
        CHECK_OK(syn_weights_compare_head(b.weights, &head, &err), err);
        CHECK(!head.matrix && !head.bias == (i < 2) && !head.other == (i < 2));
        if (head.bias) CHECK_STR(head.bias, "cls.predictions.decoder");
        if (head.other) CHECK_STR(head.other, "cls.predictions");
        bench_close(&b);
    }
}

/* A head is untied if a single number differs from the token table. Heads here have more than one
   block of data, odd addresses, and a dtype of the same or another width. */
static void one_number_makes_another_head(void) {
    enum { N = 3000 };
    static const struct {
        const char *head, *table;
        size_t head_bytes, table_bytes;
    } types[] = {{"F32", "F32", 4, 4},
                 {"F16", "F16", 2, 2},
                 {"F64", "F32", 8, 4},
                 {"F16", "F64", 2, 8},
                 {"BF16", "F32", 2, 4}};
    static unsigned char data[16 * N + 1];
    static const unsigned char one[4][8] = {
        {0, 0, 0x80, 0x3f}, {0, 0x3c}, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, {0x80, 0x3f}};
    /* No number, the first number or the last number differs. */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (size_t other = 0; other < 3; other++) {
            char header[400];
            const size_t end = 1 + N * types[i].head_bytes, all = end + N * types[i].table_bytes;
            memset(data, 0, sizeof data);
            const size_t one_of = strcmp(types[i].head, "F32") == 0   ? 0
                                  : strcmp(types[i].head, "F16") == 0 ? 1
                                  : strcmp(types[i].head, "F64") == 0 ? 2
                                                                      : 3;
            if (other > 0)
                memcpy(data + (other == 1 ? 1 : end - types[i].head_bytes), one[one_of],
                       types[i].head_bytes);
            snprintf(header, sizeof header,
                     "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                     "\"lm_head.weight\":{\"dtype\":\"%s\",\"shape\":[%d,3],"
                     "\"data_offsets\":[1,%zu]},\"wte.weight\":{\"dtype\":\"%s\","
                     "\"shape\":[%d,3],\"data_offsets\":[%zu,%zu]}}",
                     types[i].head, N / 3, end, types[i].table, N / 3, end, all);
            put_tensors("f", header, data, all);
            syn_error err = {0};
            syn_weights *w;
            syn_weights_head head;
            CHECK_OK(syn_weights_open(&w, in_folder("f"), &syn_gpt_family, &err), err);
            CHECK_OK(syn_weights_compare_head(w, &head, &err), err);
            CHECK_MSG(!head.matrix == (other == 0) && !head.bias, "%s, %s, %zu", types[i].head,
                      types[i].table, other);
            if (head.matrix) CHECK_STR(head.matrix, "lm_head");
            syn_weights_free(w);
        }
}

/* Values that every float dtype can represent, converted from each dtype to each other, at odd
   addresses and in more than one block. */
static void every_type_becomes_every_other(void) {
    enum { N = 2500 };
    static const struct {
        const char *name;
        size_t bytes;
    } from[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}};
    static const syn_dtype to[] = {SYN_F32, SYN_F16, SYN_BF16};
    static float wide[N];
    static uint16_t half[N];
    static unsigned char file[1 + 8 * N];
    for (int i = 0; i < N; i++) wide[i] = (float)(i % 129 - 64) / 8.0f;
    for (int f = 0; f < 4; f++) {
        char header[300];
        if (f == 0) memcpy(file + 1, wide, sizeof wide);
        if (f == 1 || f == 2) {
            syn_half_narrow(wide, half, N, f == 1 ? SYN_F16 : SYN_BF16);
            memcpy(file + 1, half, sizeof half);
        }
        for (int i = 0; f == 3 && i < N; i++) {
            const double d = (double)wide[i];
            memcpy(file + 1 + 8 * i, &d, 8);
        }
        snprintf(header, sizeof header,
                 "{\"h.0.attn.bias\":" T("U8", "[1]", "[0,1]") ",\"x\":" T("%s", "[50,50]",
                                                                           "[1,%zu]") "}",
                 from[f].name, 1 + N * from[f].bytes);
        put_tensors("f", header, file, 1 + N * from[f].bytes);
        for (int t = 0; t < 3; t++) {
            syn_error err = {0};
            struct bench b;
            float got[N];
            CHECK_OK(bench_open(&b, "f", &syn_gpt_family, SYN_DEVICE_CPU, &err), err);
            CHECK_INT(syn_weights_dtype(b.weights), f == 1 ? SYN_F16 : f == 2 ? SYN_BF16 : SYN_F32);
            const syn_tensor x = want(&b, "x", to[t], 50, 50, -1);
            void *raw = t == 0 ? (void *)got : half;
            CHECK_OK(syn_tensor_read(b.ctx, x, raw, N * syn_dtype_bytes(to[t])),
                     *syn_ctx_error(b.ctx));
            if (t > 0) syn_half_widen(half, got, N, to[t]);
            CHECK(memcmp(got, wide, sizeof wide) == 0);
            bench_close(&b);
        }
    }
}

/* A tensor of 12 MB, so that pages are released while it is read. Slices are along either axis, or
   both. Rows after the valid ones are zero. */
static void long_slices_are_whole(void) {
    enum { ROWS = 1500, COLUMNS = 2048, VALID = 1491 };
    const syn_shard shards[] = {SYN_WHOLE,
                                SYN_SHARD(0, 1, 1, 2),
                                SYN_SHARD(0, 3, 1, 2),
                                SYN_SHARD(1, 1, 3, 4),
                                SYN_SHARD(1, 4, 1, 2),
                                SYN_SHARD(0, 1, 499, 500),
                                {1, 1, 3, 4, 2, 5},
                                {1, 1, 0, 1, 4, 5}};
    const syn_spec full = {SYN_F32, 2, {ROWS, COLUMNS}};
    int32_t *data = malloc((size_t)VALID * COLUMNS * 4), *got = malloc((size_t)ROWS * COLUMNS * 4);
    /* Compared as bits, because nothing is converted. */
    for (int i = 0; i < VALID * COLUMNS; i++) data[i] = i + 1;
    put_tensors("f", "{\"x\":" T("F32", "[1491,2048]", "[0,12214272]") "}", data,
                (size_t)VALID * COLUMNS * 4);
    for (size_t k = 0; k < sizeof shards / sizeof shards[0]; k++) {
        syn_error err = {0};
        struct bench b;
        const syn_shard cut = shards[k];
        CHECK_OK(bench_open(&b, "f", &syn_gpt_family, SYN_DEVICE_CPU, &err), err);
        const syn_tensor t = syn_param(b.ctx, "x", &full, cut, SYN_INIT_ONE, 1.0, VALID, 1);
        const int64_t rows = syn_tensor_dim(b.ctx, t, 0), columns = syn_tensor_dim(b.ctx, t, 1);
        CHECK_OK(syn_tensor_read(b.ctx, t, got, (size_t)(rows * columns) * 4),
                 *syn_ctx_error(b.ctx));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                int64_t at[2] = {r, c}; /* index of the element in the full tensor */
                if (cut.ranges > 1) at[0] += cut.range * rows;
                const int64_t part = (cut.axis ? columns : rows) / cut.parts, i = at[cut.axis];
                at[cut.axis] = i / part * part * cut.count + cut.index * part + i % part;
                const int64_t whole = at[0] * COLUMNS + at[1];
                CHECK_INT(got[r * columns + c], at[0] < VALID ? whole + 1 : 0);
            }
        CHECK_OK(syn_weights_finish(b.reader, NULL, NULL, &err), err);
        bench_close(&b);
    }
    free(data);
    free(got);
}

static void the_dtype_is_that_of_most_bytes(void) {
    syn_error err = {0};
    syn_weights *weights;
    put_tensors("f",
                "{\"h.0.attn.bias\":" T("F32", "[4]", "[0,16]") /* a buffer */
                ",\"a\":" T("I64", "[2]", "[16,32]") ",\"b\":" T(
                    "F32", "[1]", "[32,36]") ",\"c\":" T("BF16", "[3]", "[36,42]") "}",
                "0123456789012345678901234567890123456789012", 42);
    CHECK_OK(syn_weights_open(&weights, in_folder("f"), &syn_gpt_family, &err), err);
    CHECK_INT(syn_weights_dtype(weights), SYN_BF16);
    syn_weights_free(weights);
    put_tensors("f", "{}", "", 0);
    CHECK_OK(syn_weights_open(&weights, in_folder("f"), &syn_gpt_family, &err), err);
    CHECK_INT(syn_weights_dtype(weights), SYN_F32);
    syn_weights_free(weights);
    CHECK_INT(syn_weights_open(&weights, in_folder("g"), &syn_gpt_family, &err), SYN_E_IO);
    CHECK(weights == NULL);
}

/* ---- Out of memory ---- */

static syn_status read_misfits(syn_error *err) {
    struct bench b;
    char *list = NULL;
    syn_status s = bench_open(&b, "misfits", &syn_gpt_family, SYN_DEVICE_META, err);
    if (s == SYN_OK) {
        want(&b, "absent", SYN_F32, 5, 6, -1);
        want(&b, "turned", SYN_F32, 1, 3, -1);
        s = syn_ctx_check(b.ctx, err);
    }
    if (s == SYN_OK) s = syn_weights_finish(b.reader, NULL, &list, err);
    syn_free(list);
    bench_close(&b);
    return s;
}

static syn_status misfits_are_reported(void *unused, syn_error *err) {
    (void)unused;
    const syn_status s = read_misfits(err);
    return s == SYN_E_SHAPE ? SYN_OK : s;
}

static void every_allocation_may_fail(void) {
    put_misfits();
    CHECK(test_without_memory(misfits_are_reported, NULL) > 0);
}

static const test_case cases[] = {
    {"all_misfits_are_reported_at_once", all_misfits_are_reported_at_once},
    {"many_misfits_are_one_sentence", many_misfits_are_one_sentence},
    {"another_family_is_refused", another_family_is_refused},
    {"hashes_distinguish_checkpoints", hashes_distinguish_checkpoints},
    {"names_that_meet_are_refused", names_that_meet_are_refused},
    {"one_number_makes_another_head", one_number_makes_another_head},
    {"the_bias_of_words_has_two_names", the_bias_of_words_has_two_names},
    {"every_type_becomes_every_other", every_type_becomes_every_other},
    {"long_slices_are_whole", long_slices_are_whole},
    {"the_dtype_is_that_of_most_bytes", the_dtype_is_that_of_most_bytes},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(cases)
