/* Tests writing of checkpoints: if a checkpoint that HuggingFace's save_pretrained wrote is loaded
   and saved again, it must have the same tensors, for any number of ranks. */
#include "tests/support/test.h"
#include "tests/support/weights_fixture.h"

#include "syntorch/base/half.h"

#include <sys/stat.h>
#include <unistd.h>

/* A model that is loaded and saved. If the checkpoint is NULL, it has random weights. */
struct job {
    const checkpoint *from;
    const syn_weights *weights;
    syn_dtype dtype;
    const char *folder;
    const syn_weights *as_in; /* see syn_weights_save_options */
    uint64_t file_bytes;
};

static syn_status save_rank(syn_comm *comm, void *arg, syn_error *err) {
    const struct job *job = arg;
    syn_model *model = NULL;
    syn_ctx *ctx = NULL;
    syn_status s = checkpoint_load(job->from, &model, &ctx, comm, job->weights, job->dtype, err);
    const syn_weights_save_options options = {
        .family = job->from->family, .as_in = job->as_in, .file_bytes = job->file_bytes};
    if (s == SYN_OK) s = syn_weights_save(ctx, comm, &options, job->folder, err);
    syn_model_free(model);
    syn_ctx_free(ctx);
    return s;
}

/* Saves with 1, 2 and 4 ranks. All must write the same files. */
static bool saves_alike(struct job job) {
    syn_error err = {0};
    char *first = NULL;
    size_t first_bytes = 0, bytes;
    bool ok = true;
    job.folder = in_folder("");
    for (int tp = 1; ok && tp <= 4; tp *= 2) {
        ok = syn_local_run(tp, save_rank, &job, &err) == SYN_OK;
        char *text = ok ? file_bytes(in_folder("model.safetensors"), &bytes) : NULL;
        ok = text && (!first || (bytes == first_bytes && memcmp(text, first, bytes) == 0));
        if (!ok) fprintf(stderr, "%s, tp %d: %s\n", job.from->folder, tp, err.text);
        if (first) free(text);
        else first = text, first_bytes = bytes;
    }
    free(first);
    return ok;
}

/* Whether the saved file has exactly the tensors of the original, with their current names and
   values. Tensors with the same dtype must be equal bit for bit. */
static bool equals_original(const checkpoint *c, syn_dtype dtype) {
    syn_error err = {0};
    syn_safetensors *original = NULL, *saved = NULL;
    const char *key;
    bool ok = syn_safetensors_open(&original, reference_path("%s", c->folder), &err) == SYN_OK &&
              syn_safetensors_open(&saved, in_folder(""), &err) == SYN_OK &&
              syn_safetensors_count(original) == syn_safetensors_count(saved) &&
              syn_safetensors_metadata_count(saved) == 1 &&
              strcmp(syn_safetensors_metadata(saved, 0, &key), "pt") == 0;
    for (size_t i = 0; ok && i < syn_safetensors_count(original); i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(original, i);
        const syn_safetensors_tensor *u = syn_safetensors_find(saved, t->name);
        ok = u && u->rank == t->rank && memcmp(u->dims, t->dims, sizeof t->dims) == 0 &&
             (u->dtype == SYN_F32 || u->dtype == (int)dtype) && ((uintptr_t)u->data & 3) == 0;
        for (int64_t k = 0; ok && k < t->elems; k++) {
            float want = decode(t, k);
            uint16_t half;
            if (u->dtype != SYN_F32 && u->dtype != t->dtype) {
                syn_half_narrow(&want, &half, 1, (syn_dtype)u->dtype);
                syn_half_widen(&half, &want, 1, (syn_dtype)u->dtype);
            }
            ok = decode(u, k) == want;
        }
        if (ok && u->dtype == t->dtype) ok = memcmp(u->data, t->data, t->bytes) == 0;
        if (!ok) fprintf(stderr, "%s: %s\n", c->folder, t->name);
    }
    if (!ok) fprintf(stderr, "%s: %s\n", c->folder, err.text);
    syn_safetensors_free(original);
    syn_safetensors_free(saved);
    return ok;
}

/* Whether the checkpoint uses the current names of transformers and has everything that the model
   has. */
static bool is_current(const checkpoint *c) {
    return !c->old_names && *c->prefix && !strstr(c->folder, "_old") &&
           (c->heads == 0 || c->heads == ALL_HEADS);
}

static void originals_come_back(void) {
    static const syn_dtype dtypes[] = {SYN_F32, SYN_F16, SYN_BF16};
    for (int i = 0; i < CHECKPOINTS; i++) {
        const checkpoint *c = &checkpoints[i];
        syn_error err = {0};
        syn_weights *weights;
        if (!is_current(c)) continue;
        CHECK_OK(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err), err);
        for (int d = 0; d < 3; d++) {
            CHECK(saves_alike((struct job){c, weights, dtypes[d], NULL, NULL, 0}));
            CHECK(equals_original(c, dtypes[d]));
        }
        syn_weights_free(weights);
    }
}

/* Whether every tensor of `st` is also in `in`, with the same dtype, shape and bytes. */
static bool holds_all(const syn_safetensors *st, const syn_safetensors *in) {
    bool ok = true;
    for (size_t i = 0; ok && i < syn_safetensors_count(st); i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(st, i);
        const syn_safetensors_tensor *u = syn_safetensors_find(in, t->name);
        ok = u && strcmp(u->dtype_name, t->dtype_name) == 0 && u->rank == t->rank &&
             memcmp(u->dims, t->dims, sizeof t->dims) == 0 &&
             memcmp(u->data, t->data, t->bytes) == 0;
        if (!ok) fprintf(stderr, "%s\n", t->name);
    }
    return ok;
}

/* Models are loaded as f32 and saved with the dtypes of the original files (as_in). Dtypes and
   bytes must be the original ones. */
static void types_stay_as_they_came(void) {
    for (int i = 0; i < CHECKPOINTS; i++) {
        const checkpoint *c = &checkpoints[i];
        syn_error err = {0};
        syn_safetensors *original, *saved;
        syn_weights *weights;
        if (!is_current(c)) continue;
        CHECK_OK(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err), err);
        CHECK(saves_alike((struct job){c, weights, SYN_F32, NULL, weights, 0}));
        CHECK_OK(syn_safetensors_open(&original, reference_path("%s", c->folder), &err), err);
        CHECK_OK(syn_safetensors_open(&saved, in_folder(""), &err), err);
        CHECK(holds_all(original, saved) && holds_all(saved, original));
        syn_safetensors_free(original);
        syn_safetensors_free(saved);
        syn_weights_free(weights);
    }
    CHECK_INT(clear_folder(), 1);
}

/* The largest tensor has 6,464 bytes. It exceeds the file size of 6,000 bytes, so it gets its own
   file. */
static void large_models_are_cut_into_files(void) {
    const checkpoint *c = &checkpoints[4]; /* an f16 checkpoint in several files */
    syn_error err = {0};
    syn_safetensors *original, *saved;
    syn_weights *weights;
    size_t bytes;
    CHECK_OK(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err), err);
    CHECK_OK(syn_safetensors_open(&original, reference_path("%s", c->folder), &err), err);
    uint64_t all = 0, elems = 0;
    for (size_t i = 0; i < syn_safetensors_count(original); i++) {
        all += syn_safetensors_get(original, i)->bytes;
        elems += (uint64_t)syn_safetensors_get(original, i)->elems;
    }
    for (int tp = 1; tp <= 2; tp++) {
        struct job job = {c, weights, SYN_F16, in_folder(""), weights, 6000};
        clear_folder();
        CHECK_OK(syn_local_run(tp, save_rank, &job, &err), err);
        CHECK_OK(syn_safetensors_open(&saved, in_folder(""), &err), err); /* opened by its index */
        CHECK(holds_all(original, saved) && holds_all(saved, original));
        char *index = file_bytes(in_folder("model.safetensors.index.json"), &bytes), said[96];
        snprintf(said, sizeof said, "\"total_parameters\": %llu,\n    \"total_size\": %llu\n",
                 (unsigned long long)elems, (unsigned long long)all);
        CHECK_HAS(index, said);
        CHECK_HAS(index, "\"transformer.wte.weight\": \"model-00001-of-000");
        free(index);
        const syn_safetensors_tensor *wte = syn_safetensors_find(saved, "transformer.wte.weight");
        CHECK_INT(wte->bytes, 6464);
        for (size_t i = 0; i < syn_safetensors_count(saved); i++) {
            const syn_safetensors_tensor *t = syn_safetensors_get(saved, i);
            CHECK(t == wte || strcmp(t->file, wte->file) != 0);
        }
        const int files = clear_folder();
        CHECK(files >= 1 + (int)(all / 6000) && files < 20); /* the number includes the index */
        syn_safetensors_free(saved);
    }
    syn_safetensors_free(original);
    syn_weights_free(weights);
}

/* ---- Random models ---- */

struct comparison {
    struct job job;
    int differ[4];
};

/* Compares a model with random weights with a model that loaded its saved checkpoint. */
static syn_status compare_rank(syn_comm *comm, void *arg, syn_error *err) {
    struct comparison *cmp = arg;
    const struct job *job = &cmp->job;
    syn_model *models[2] = {NULL, NULL};
    syn_ctx *ctx[2] = {NULL, NULL};
    syn_status s = checkpoint_load(job->from, &models[0], &ctx[0], comm, NULL, job->dtype, err);
    if (s == SYN_OK)
        s = checkpoint_load(job->from, &models[1], &ctx[1], comm, job->weights, job->dtype, err);
    for (size_t i = 0; s == SYN_OK && i < syn_ctx_param_count(ctx[0]); i++) {
        const syn_param_info a = syn_ctx_param(ctx[0], i), b = syn_ctx_param(ctx[1], i);
        const size_t bytes = (size_t)syn_spec_bytes(syn_tensor_spec(ctx[0], a.tensor));
        void *x = malloc(bytes), *y = malloc(bytes);
        cmp->differ[comm->rank] +=
            strcmp(a.name, b.name) != 0 || syn_tensor_read(ctx[0], a.tensor, x, bytes) != SYN_OK ||
            syn_tensor_read(ctx[1], b.tensor, y, bytes) != SYN_OK || memcmp(x, y, bytes) != 0;
        free(x);
        free(y);
    }
    for (int k = 0; k < 2; k++) {
        syn_model_free(models[k]);
        syn_ctx_free(ctx[k]);
    }
    return s;
}

static void random_models_come_back(void) {
    static const syn_dtype dtypes[] = {SYN_F32, SYN_F16, SYN_BF16};
    for (int i = 0; i < CHECKPOINTS; i++)
        for (int d = 0; d < 3; d++) {
            const checkpoint *c = &checkpoints[i];
            if (c->dtype != SYN_F32 && dtypes[d] != c->dtype) continue;
            syn_error err = {0};
            struct comparison cmp = {.job = {c, NULL, dtypes[d], in_folder(""), NULL, 0}};
            CHECK(saves_alike(cmp.job));
            syn_weights *weights;
            CHECK_OK(syn_weights_open(&weights, in_folder(""), c->family, &err), err);
            /* The dtype of matrices, which have most of the bytes. */
            CHECK_INT(syn_weights_dtype(weights), dtypes[d]);
            cmp.job.weights = weights;
            for (int tp = 1; tp <= 4; tp *= 2) {
                CHECK_OK(syn_local_run(tp, compare_rank, &cmp, &err), err);
                for (int r = 0; r < tp; r++) CHECK_INT(cmp.differ[r], 0);
            }
            syn_weights_free(weights);
        }
}

/* ---- Pieces ---- */

enum { ROWS = 5, COLS = 4, ELEMS = ROWS * COLS, SHARD_ELEMS = ROWS * 2, PIECES = 3 };

/* Four parameters of ELEMS numbers each, with columns on two tensor-parallel ranks. A shard of
   SHARD_ELEMS numbers is in three pieces, some of which are empty. */
static const struct {
    const char *name;
    syn_dtype dtype;
    int64_t begins[PIECES + 1]; /* piece i: elements begins[i] to begins[i + 1] - 1 */
} pieces_of[] = {
    {"even", SYN_F32, {0, 3, 6, SHARD_ELEMS}},
    {"late", SYN_F32, {0, 0, 1, SHARD_ELEMS}},
    {"early", SYN_BF16, {0, SHARD_ELEMS, SHARD_ELEMS, SHARD_ELEMS}},
    {"middle", SYN_BF16, {0, 0, SHARD_ELEMS, SHARD_ELEMS}},
};

/* Element `at` of a full parameter, which bf16 can represent. */
static float piece_value(size_t param, int64_t at) {
    return (float)(32 * (int64_t)param + at);
}

static void piece_range(void *user, size_t param, int64_t *first, int64_t *n) {
    const int32_t piece = *(const int32_t *)user / 2;
    *first = pieces_of[param].begins[piece];
    *n = pieces_of[param].begins[piece + 1] - *first;
}

static syn_status read_piece(void *user, size_t param, float *out, size_t n, syn_error *err) {
    const int32_t t = *(const int32_t *)user % 2;
    (void)err;
    for (size_t k = 0; k < n; k++) {
        const int64_t at = pieces_of[param].begins[*(const int32_t *)user / 2] + (int64_t)k;
        out[k] = piece_value(param, at / 2 * COLS + t * 2 + at % 2);
    }
    return SYN_OK;
}

/* The parameters have no buffers, so the save fails if it reads one of them. n_pieces: as the saver
   is told. */
static syn_status save_pieces(syn_comm *comm, void *n_pieces, syn_error *err) {
    syn_plan plan = {.ranks = 2 * PIECES, .tp = 2};
    const syn_weights_pieces pieces = {*(int32_t *)n_pieces, piece_range, read_piece, &comm->rank};
    const syn_weights_save_options options = {
        .family = &syn_bert_family, .plan = &plan, .pieces = &pieces};
    syn_ctx *ctx;
    syn_status s = SYN_OK;
    SYN_TRY(syn_plan_complete(&plan, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_evict_params(ctx);
    for (size_t i = 0; i < sizeof pieces_of / sizeof *pieces_of; i++) {
        const syn_spec full = {(int32_t)pieces_of[i].dtype, 2, {ROWS, COLS}};
        const syn_shard half = SYN_SHARD(1, 1, comm->rank % 2, 2);
        syn_param(ctx, pieces_of[i].name, &full, half, SYN_INIT_ONE, 1.0, -1, i);
    }
    if (comm->rank < 2 * pieces.n_ranks)
        s = syn_weights_save(ctx, comm, &options, in_folder(""), err);
    syn_ctx_free(ctx);
    return s;
}

static void pieces_are_joined(void) {
    syn_error err = {0};
    syn_safetensors *saved;
    int32_t n_pieces = PIECES;
    CHECK_OK(syn_local_run(2 * PIECES, save_pieces, &n_pieces, &err), err);
    CHECK_OK(syn_safetensors_open(&saved, in_folder(""), &err), err);
    for (size_t i = 0; i < sizeof pieces_of / sizeof *pieces_of; i++) {
        char name[32];
        snprintf(name, sizeof name, "bert.%s", pieces_of[i].name);
        const syn_safetensors_tensor *t = syn_safetensors_find(saved, name);
        float values[ELEMS];
        CHECK(t && t->elems == ELEMS && t->dtype == (int)pieces_of[i].dtype);
        if (t->dtype == SYN_F32) memcpy(values, t->data, sizeof values);
        else {
            uint16_t narrow[ELEMS];
            memcpy(narrow, t->data, sizeof narrow);
            syn_half_widen(narrow, values, ELEMS, SYN_BF16);
        }
        for (int64_t at = 0; at < ELEMS; at++) CHECK(values[at] == piece_value(i, at));
    }
    syn_safetensors_free(saved);
    clear_folder();
    n_pieces = 2; /* the third piece of "even" is missing */
    CHECK_INT(syn_local_run(2 * PIECES, save_pieces, &n_pieces, &err), SYN_E_INVALID);
    CHECK_HAS(err.text,
              "'even' cannot be saved: none of 4 ranks has shard 0 of 2, or a piece of it");
    CHECK_INT(clear_folder(), 0);
}

/* ---- Errors ---- */

static syn_status save_alone(syn_device device, syn_shard shard, syn_comm *comm, syn_error *err) {
    const syn_spec spec = {SYN_F32, 2, {4, 6}};
    syn_ctx *ctx;
    SYN_TRY(syn_ctx_new(&ctx, device, comm, err));
    syn_param(ctx, "x", &spec, shard, SYN_INIT_ONE, 1.0, -1, 1);
    const syn_weights_save_options options = {.family = &syn_gpt_family};
    const syn_status s = syn_weights_save(ctx, comm, &options, in_folder(""), err);
    syn_ctx_free(ctx);
    return s;
}

static void what_cannot_be_saved(void) {
    const syn_shard half = SYN_SHARD(1, 1, 0, 2);
    syn_error err = {0};
    syn_comm *fake;
    CHECK_INT(save_alone(SYN_DEVICE_META, SYN_WHOLE, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "a model on the meta device has no weights to save");
    err = (syn_error){0};
    CHECK_OK(syn_comm_fake_new(&fake, 0, 2, &err), err);
    CHECK_INT(save_alone(SYN_DEVICE_META, half, fake, &err), SYN_E_INVALID);
    syn_comm_close(fake);
    err = (syn_error){0};
    CHECK_INT(save_alone(SYN_DEVICE_CPU, half, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "'x' cannot be saved: none of 1 ranks has shard 1 of 2");
    CHECK_INT(clear_folder(), 0);
    err = (syn_error){0};
    CHECK_INT(rmdir(in_folder("")), 0);
    CHECK_INT(save_alone(SYN_DEVICE_CPU, SYN_WHOLE, NULL, &err), SYN_E_IO);
    CHECK_INT(mkdir(in_folder(""), 0700), 0);
    CHECK_HAS(err.text, "does not exist");
}

/* The file has an odd number of 16-bit elements and also wider elements, which must be aligned. */
static void wide_types_come_first(void) {
    const syn_spec narrow = {SYN_BF16, 1, {3}}, wide = {SYN_F32, 1, {2}};
    const syn_weights_save_options options = {.family = &syn_bert_family};
    syn_error err = {0};
    syn_ctx *ctx;
    syn_safetensors *st;
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err), err);
    syn_param(ctx, "narrow", &narrow, SYN_WHOLE, SYN_INIT_ONE, 1.0, 2, 1);
    syn_param(ctx, "wide", &wide, SYN_WHOLE, SYN_INIT_ONE, 1.0, -1, 1);
    CHECK_OK(syn_weights_save(ctx, NULL, &options, in_folder(""), &err), err);
    CHECK_OK(syn_safetensors_open(&st, in_folder(""), &err), err);
    CHECK_INT(syn_safetensors_count(st), 2);
    CHECK_STR(syn_safetensors_get(st, 0)->name, "bert.wide");
    CHECK_STR(syn_safetensors_get(st, 1)->name, "bert.narrow");
    /* One of the rows is padding and is not saved. */
    CHECK_INT(syn_safetensors_get(st, 1)->elems, 2);
    syn_safetensors_free(st);
    /* A context that has failed saves nothing. */
    clear_folder();
    syn_ctx_fail(ctx, SYN_E_SHAPE, "this context has failed");
    CHECK_INT(syn_weights_save(ctx, NULL, &options, in_folder(""), &err), SYN_E_SHAPE);
    CHECK_STR(err.text, "this context has failed");
    CHECK_INT(clear_folder(), 0);
    syn_ctx_free(ctx);
}

/* A full disk gives an error with a message on every rank. */
static void a_full_disk_is_reported(void) {
    syn_error err = {0};
    syn_weights *weights = NULL;
    if (access("/dev/full", W_OK) != 0) SKIP("there is no /dev/full");
    CHECK(symlink("/dev/full", in_folder("model.safetensors")) == 0);
    struct job job = {&checkpoints[0], weights, SYN_F32, in_folder(""), NULL, 0};
    for (int tp = 1; tp <= 2; tp++) {
        err = (syn_error){0};
        CHECK_INT(syn_local_run(tp, save_rank, &job, &err), SYN_E_IO);
        CHECK_HAS(err.text, "No space left");
    }
}

static syn_status save_or_nothing(void *unused, syn_error *err) {
    (void)unused;
    const syn_status s = save_alone(SYN_DEVICE_CPU, SYN_WHOLE, NULL, err);
    return s != SYN_OK && clear_folder() != 0 ? SYN_E_IO : s; /* no partial file remains */
}

static void every_allocation_may_fail(void) {
    CHECK(test_without_memory(save_or_nothing, NULL) > 0);
}

static const test_case cases[] = {
    {"originals_come_back", originals_come_back},
    {"types_stay_as_they_came", types_stay_as_they_came},
    {"large_models_are_cut_into_files", large_models_are_cut_into_files},
    {"random_models_come_back", random_models_come_back},
    {"pieces_are_joined", pieces_are_joined},
    {"what_cannot_be_saved", what_cannot_be_saved},
    {"wide_types_come_first", wide_types_come_first},
    {"a_full_disk_is_reported", a_full_disk_is_reported},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(cases)
