/* Tests traces. A program has the same hash on every device and communicator, and different
   programs have different hashes. The verifier accepts traces that dispatch records and rejects
   damaged ones. Rows stay small. */
#include "models/causal.h"
#include "tests/support/ops_program.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

static uint64_t record(syn_device device, uint64_t seed, uint64_t draws, bool *sound) {
    static program p;
    syn_error err = {0};
    p = (program){.ctx = ref_ctx(device, NULL), .seed = draws};
    program_run(&p, seed, 60);
    *sound =
        syn_ctx_status(p.ctx) == SYN_OK && syn_trace_verify(syn_ctx_trace(p.ctx), &err) == SYN_OK;
    if (!*sound)
        fprintf(stderr, "seed %llu: %s%s\n", (unsigned long long)seed, syn_ctx_error(p.ctx)->text,
                err.text);
    const uint64_t hash = syn_trace_hash(syn_ctx_trace(p.ctx));
    syn_ctx_free(p.ctx);
    return hash;
}

static int compare_hashes(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_random_programs(void) {
    enum { PROGRAMS = 300 };
    static uint64_t hashes[PROGRAMS];
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        bool sound, meta_sound;
        hashes[seed] = record(SYN_DEVICE_CPU, seed, 1, &sound);
        /* The seeds of random draws are not part of the hash. */
        const uint64_t meta = record(SYN_DEVICE_META, seed, seed + 2, &meta_sound);
        CHECK_MSG(sound && meta_sound && meta == hashes[seed], "seed %llu",
                  (unsigned long long)seed);
    }
    qsort(hashes, PROGRAMS, sizeof *hashes, compare_hashes);
    for (int i = 1; i < PROGRAMS; i++) CHECK(hashes[i] != hashes[i - 1]);
}

/* ---- With communication: threads that exchange data, and fake ranks ---- */

enum { RANKS = 3, WORLDS = 12 };

static syn_status run_rank(syn_ctx *ctx, syn_comm *comm, uint64_t seed, uint64_t *hash,
                           syn_error *err) {
    const int32_t ranks[RANKS] = {0, 1, 2};
    syn_group *group = NULL;
    SYN_TRY(syn_comm_open_group(comm, 4, "tp0", ranks, RANKS, &group, err));
    program p = {.ctx = ctx, .group = group, .seed = seed};
    program_run(&p, seed, 60);
    SYN_TRY(syn_ctx_check(ctx, err));
    *hash = syn_trace_hash(syn_ctx_trace(ctx));
    return syn_trace_verify(syn_ctx_trace(ctx), err);
}

struct world {
    uint64_t seed, hash[RANKS];
};

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    struct world *w = arg;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    const syn_status s = run_rank(ctx, comm, w->seed, &w->hash[comm->rank], err);
    syn_ctx_free(ctx);
    return s;
}

static void test_local_and_fake(void) {
    for (uint64_t seed = 1000; seed < 1000 + WORLDS; seed++) {
        struct world w = {.seed = seed};
        syn_error err = {0};
        CHECK_OK(syn_local_run(RANKS, rank_main, &w, &err), err);
        for (int r = 0; r < RANKS; r++) {
            syn_comm *fake = NULL;
            uint64_t hash = 0;
            CHECK_OK(syn_comm_fake_new(&fake, r, RANKS, &err), err);
            syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, fake);
            CHECK_OK(run_rank(ctx, fake, seed, &hash, &err), err);
            CHECK_MSG(hash == w.hash[r], "seed %llu, rank %d", (unsigned long long)seed, r);
            syn_ctx_free(ctx);
            syn_comm_close(fake);
        }
    }
}

/* ---- What the hash covers ---- */

enum change {
    SAME,
    SEED,
    TIME,
    OP,
    ATTRIBUTE,
    LIST,
    SHAPE,
    DTYPE,
    SCOPE,
    PHASE,
    LABEL,
    ORDER,
    NAME,
    KIND,
    STEP,
    EXTRA,
    ROOT,
    GROUP_ID,
    GROUP_RANKS,
    TABLE_ORDER,
    CHANGES
};

static uint64_t variant(enum change c, syn_device device, syn_comm *comm) {
    syn_ctx *ctx = ref_ctx(device, comm);
    const int64_t dims[2] = {c == SHAPE ? 6 : 4, 2};
    const int64_t flat[2] = {c == LIST ? 8 : 4, c == LIST ? 1 : 2};
    const syn_spec spec = ref_spec(SYN_F32, 2, dims),
                   words = ref_spec(c == DTYPE ? SYN_I64 : SYN_I32, 1, dims);
    const int32_t ranks[3] = {0, c == GROUP_RANKS ? 2 : 1, 3};
    const syn_group group = {c == GROUP_ID ? 8 : 7, c == SEED ? "other" : "tp0", ranks, 3, 0, NULL};
    const syn_tensor x = c == KIND ? syn_state(ctx, "x", &spec)
                                   : syn_input(ctx, c == NAME ? "other" : "x", &spec, NULL);
    syn_input(ctx, "words", &words, NULL);
    const syn_tensor w = syn_param(ctx, "w", &spec, SYN_WHOLE, SYN_INIT_NORMAL, c == SEED ? 2 : 1,
                                   -1, c == SEED ? 5 : 4);
    syn_set_phase(ctx, c == PHASE ? SYN_PHASE_DECODE : SYN_PHASE_PREFILL);
    syn_push_scope(ctx, c == SCOPE ? "h.1" : "h.0");
    if (c == STEP) syn_next_step(ctx);
    const syn_tensor y = c == OP      ? syn_mul(ctx, x, w)
                         : c == ORDER ? syn_add(ctx, w, x)
                                      : syn_add(ctx, x, w);
    syn_name(ctx, y, c == LABEL ? "other" : "sum");
    const syn_tensor z = syn_scale(ctx, y, c == ATTRIBUTE ? 0.5 : 0.25);
    const syn_tensor d = syn_dropout(ctx, z, SYN_NO_KEYS,
                                     &(syn_dropout_options){.p = 0.1, .seed = c == SEED ? 77 : 76});
    if (c != SHAPE) syn_reshape(ctx, d, flat, 2);
    if (c == EXTRA) syn_tp_enter(ctx, d, &group);
    if (comm) syn_broadcast(ctx, d, c == ROOT ? 1 : 0, &group);
    if (c == TABLE_ORDER) syn_pop_scope(ctx);
    syn_gelu(ctx, d, true);
    if (syn_ctx_status(ctx) != SYN_OK) fprintf(stderr, "%s\n", syn_ctx_error(ctx)->text);
    const uint64_t hash = syn_ctx_status(ctx) == SYN_OK ? syn_trace_hash(syn_ctx_trace(ctx)) : 0;
    syn_ctx_free(ctx);
    return hash;
}

static void test_what_the_hash_is_over(void) {
    uint64_t hash[CHANGES];
    syn_error err = {0};
    syn_comm *fake = NULL;
    CHECK_OK(syn_comm_fake_new(&fake, 0, 4, &err), err);
    for (int c = 0; c < CHANGES; c++) {
        hash[c] = variant((enum change)c, SYN_DEVICE_META, fake);
        CHECK(hash[c] != 0);
    }
    CHECK(hash[SEED] == hash[SAME] && hash[TIME] == hash[SAME]);
    for (int a = OP; a < CHANGES; a++)
        for (int b = 0; b < a; b++) CHECK_MSG(hash[a] != hash[b], "changes %d and %d", a, b);
    CHECK(variant(SAME, SYN_DEVICE_CPU, NULL) == variant(SAME, SYN_DEVICE_META, NULL));
    syn_comm_close(fake);
}

/* ---- The verifier ---- */

/* Damages one field of a valid trace. Dispatch never records such a value. */
static bool damage(syn_trace *t, int kind) {
    syn_trace_node *n = &t->nodes[3];
    syn_trace_tensor *x = &t->tensors[t->n_tensors - 1];
    switch (kind) {
    case 0:
        n->op = SYN_OP_NONE;
        return true;
    case 1:
        n->op = SYN_OP_COUNT;
        return true;
    case 2:
        n->first_in = (uint32_t)t->n_inputs;
        return true;
    case 3:
        t->inputs[n->first_in] = 0;
        return true;
    case 4:
        t->inputs[n->first_in] = (uint32_t)t->n_tensors;
        return true;
    case 5:
        t->inputs[n->first_in] = n->first_out;
        return true;
    case 6:
        n->first_out = 1;
        return true;
    case 7:
        n->first_out = (uint32_t)t->n_tensors;
        return true;
    case 8:
        t->tensors[n->first_out].producer = 1;
        return true;
    case 9:
        x->base = (uint32_t)t->n_tensors;
        return true;
    case 10:
        x->base = 0;
        return true;
    case 11:
        x->spec = (uint32_t)t->specs.n_entries;
        return true;
    case 12:
        x->layout = (uint32_t)t->layouts.n_entries + 1;
        return true;
    case 13:
        x->name = (uint32_t)t->texts.n_entries + 1;
        return true;
    case 14:
        x->producer = (uint32_t)t->n_nodes;
        return true;
    case 15:
        n->scope = (uint32_t)t->texts.n_entries;
        return true;
    case 16:
        n->label = (uint32_t)t->texts.n_entries;
        return true;
    case 17:
        n->attrs = (uint32_t)t->blobs.n_entries;
        return true;
    case 18:
        n->group = (uint16_t)(t->n_groups + 1);
        return true;
    case 19:
        n->phase = SYN_PHASE_COUNT;
        return true;
    case 20:
        t->steps[0].node = (uint32_t)t->n_nodes + 1;
        return true;
    case 21:
        t->steps[0].node = t->steps[1].node + 1;
        return true;
    case 22:
        t->inputs[t->nodes[1].first_in] = (uint32_t)t->n_tensors - 1;
        return true; /* an input that is created later */
    case 23:
        x->base = (uint32_t)t->n_tensors - 2;
        return true; /* the base tensor owns no storage */
    default:
        return false;
    }
}

static void test_damaged_traces(void) {
    bool more = true;
    for (int kind = 0; more; kind++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
        syn_tensor x = ZEROS(ctx, SYN_F32, 4, 4);
        for (int i = 0; i < 4; i++) x = syn_add(ctx, x, x);
        syn_next_step(ctx);
        syn_next_step(ctx);
        syn_tp_enter(ctx, x, &ref_pair);
        syn_tp_enter(ctx, x, &ref_pair);
        if (kind == 22) ZEROS(ctx, SYN_F32, 1);
        syn_trace *t = (syn_trace *)(uintptr_t)syn_ctx_trace(ctx);
        syn_error err = {0};
        CHECK_OK(syn_trace_verify(t, &err), err);
        more = damage(t, kind);
        if (more)
            CHECK_MSG(syn_trace_verify(t, &err) == SYN_E_FORMAT && *err.text, "damage %d", kind);
        syn_ctx_free(ctx);
    }
}

/* ---- Interned strings ---- */

static void test_intern(void) {
    enum { N = 5000 };
    static unsigned char bytes[N][24];
    static size_t lengths[N];
    static uint32_t ids[N];
    syn_intern table = {0};
    syn_error err = {0};
    ref_seed(2);
    /* Strings with NUL bytes, prefixes of other strings, and the empty string. */
    for (int i = 0; i < N; i++) {
        lengths[i] = (size_t)ref_int(0, 24);
        for (size_t k = 0; k < lengths[i]; k++)
            bytes[i][k] = (unsigned char)ref_int(0, lengths[i] > 6 ? 255 : 1);
        CHECK_OK(syn_intern_put(&table, bytes[i], lengths[i], &ids[i], &err), err);
        CHECK(ids[i] < table.n_entries);
    }
    size_t distinct = 0;
    for (int i = 0; i < N; i++) {
        uint32_t again;
        CHECK_OK(syn_intern_put(&table, bytes[i], lengths[i], &again, &err), err);
        CHECK_INT(again, ids[i]);
        CHECK_INT(syn_intern_entry_bytes(&table, ids[i]), lengths[i]);
        const char *got = syn_intern_get(&table, ids[i]);
        CHECK(memcmp(got, bytes[i], lengths[i]) == 0 && got[lengths[i]] == '\0' &&
              (uintptr_t)got % 8 == 0);
        bool first = true;
        for (int j = 0; j < i && first; j++) {
            const bool equal =
                lengths[j] == lengths[i] && memcmp(bytes[j], bytes[i], lengths[i]) == 0;
            CHECK(equal == (ids[i] == ids[j]));
            first = !equal;
        }
        if (first) CHECK_INT(ids[i], distinct++);
    }
    CHECK_INT(table.n_entries, distinct);
    CHECK(syn_intern_memory_bytes(&table) > 8 * distinct);
    syn_intern_free(&table);
}

/* ---- Size ---- */

/* Records a prompt and `steps` decode steps. Returns the trace's bytes per node and sets *hash. */
static double bytes_per_node(const char *preset, syn_device device, int steps, uint64_t *hash) {
    syn_error err = {0};
    syn_model_config config = small_gpt;
    syn_model *gpt = NULL;
    const syn_model_options options = {.seed = 1};
    syn_ctx *ctx = ref_ctx(device, NULL);
    const syn_spec prompt = {SYN_I32, 2, {1, 16}}, one = {SYN_I32, 2, {1, 1}};
    double bytes = -1;
    config.n_positions = 64;
    if (preset && syn_model_config_preset(&config, preset, &err) != SYN_OK) goto end;
    if (syn_model_new(&gpt, ctx, &config, &options, &err) != SYN_OK ||
        syn_causal_begin(gpt, 1, 16 + steps, &err) != SYN_OK)
        goto end;
    syn_causal_forward(gpt, syn_input(ctx, "prompt", &prompt, NULL));
    for (int i = 0; i < steps; i++) {
        syn_next_step(ctx);
        syn_causal_forward(gpt, syn_input(ctx, "token", &one, NULL));
    }
    if (syn_ctx_status(ctx) != SYN_OK || syn_trace_verify(syn_ctx_trace(ctx), &err) != SYN_OK)
        goto end;
    const syn_trace *t = syn_ctx_trace(ctx);
    bytes = (double)syn_trace_memory_bytes(t) / (double)(t->n_nodes - 1);
    *hash = syn_trace_hash(t);
end:
    if (bytes < 0) fprintf(stderr, "%s%s\n", err.text, syn_ctx_error(ctx)->text);
    syn_model_free(gpt);
    syn_ctx_free(ctx);
    return bytes;
}

static void test_bytes_per_node(void) {
    uint64_t cpu, meta;
    double bytes = bytes_per_node("gpt2", SYN_DEVICE_META, 0, &meta);
    CHECK_MSG(bytes > 40 && bytes <= 128, "a prefill alone: %.1f bytes a node", bytes);
    bytes = bytes_per_node("gpt2", SYN_DEVICE_META, 100, &meta);
    CHECK_MSG(bytes > 40 && bytes <= 128, "meta: %.1f bytes a node", bytes);
    bytes = bytes_per_node(NULL, SYN_DEVICE_CPU, 48, &cpu);
    CHECK_MSG(bytes > 40 && bytes <= 128, "cpu with times: %.1f bytes a node", bytes);
    bytes_per_node(NULL, SYN_DEVICE_META, 48, &meta);
    CHECK(cpu == meta);
}

static const test_case cases[] = {
    {"random programs", test_random_programs},
    {"local and fake", test_local_and_fake},
    {"what the hash is over", test_what_the_hash_is_over},
    {"damaged traces", test_damaged_traces},
    {"interned strings", test_intern},
    {"bytes per node", test_bytes_per_node},
};
TEST_MAIN(cases)
