/* Sets up model, tokenizer and data of the pretraining program, and hashes what must be equal on
   all ranks. */
#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"
#include "syntorch/base/sink.h"
#include "tools/folders.h"
#include "tools/meta_dtype.h"
#include "tools/pretrain/pretrain.h"
#include "tools/saving/model_folder.h"

/* ---- The model ---- */

static syn_status open_weights(pretrain *run, syn_error *err) {
    const char *weights = run->args->weights;
    char path[4200];
    syn_weights_head head;
    if (!cli_find_sibling(weights, "config.json", path, sizeof path))
        return SYN_FAIL(err, SYN_E_IO, "there is no config.json next to the weights '%.300s'",
                        weights);
    SYN_TRY(syn_model_config_load(&run->config, path, err));
    SYN_TRY(syn_weights_open(&run->weights, weights, run->config.family, err));
    if (!run->config.tied) return SYN_OK;
    SYN_TRY(syn_weights_compare_head(run->weights, &head, err));
    if (head.matrix) run->config.tied = false;
    return SYN_OK;
}

static syn_status find_model(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    char found[4096];
    if (args->weights) return open_weights(run, err);
    if (args->model) SYN_TRY(syn_model_config_preset(&run->config, args->model, err));
    if (args->model_config) SYN_TRY(syn_model_config_load(&run->config, args->model_config, err));
    if (args->layers > 0) run->config.n_layer = args->layers;
    if (args->model || args->model_config) return SYN_OK;
    if (!cli_find_data("configs/gpt2-mini.json", found, sizeof found))
        return SYN_FAIL(err, SYN_E_IO,
                        "the default examples/configs/gpt2-mini.json was not found; give "
                        "--model or --model-config");
    return syn_model_config_load(&run->config, found, err);
}

/* Sets the default of --save_dir. Replaces names that begin with a dot, because a config.json may
   name its model "..". */
static void name_save_dir(pretrain *run) {
    const char *name = run->config.name;
    if (run->args->save_dir) return;
    if (*name == '.') name = syn_model_type(&run->config);
    snprintf(run->save_dir, sizeof run->save_dir, "checkpoints/%s", name);
    run->args->save_dir = run->save_dir;
}

/* Sets the defaults that depend on --recipe, and the other settings that --recipe reference
   changes. */
static void follow_reference(pretrain *run) {
    pretrain_args *args = run->args;
    if (args->masking < 0) args->masking = args->reference ? SYN_MASKING_ONLY : SYN_MASKING_BERT;
    if (args->warmup_steps < 0) args->warmup_steps = args->reference ? 500 : 0;
    if (!args->reference) return;
    if (syn_model_is_causal(&run->config) && args->model) run->config.n_positions = 512;
    run->batches.predict_padding = true;
}

static syn_status check_model(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    if (args->masking >= 0 && syn_model_is_causal(&run->config))
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "--mask-policy applies only to BERT, and %s predicts every next token; omit it",
            run->config.name);
    const syn_plan *plan = &run->launch.parallel;
    SYN_TRY(syn_model_plan_check(&run->config, plan, err));
    if (syn_model_has_experts(&run->config) && plan->tp > 1 && !plan->sp)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "training experts with --tp %d needs --sp: each tensor-parallel rank routes "
            "its own tokens",
            plan->tp);
    SYN_TRY(pretrain_check_routers(run, err));
    run->launch.parallel.kv = syn_model_kv_ranks(&run->config, run->launch.parallel.tp);
    SYN_TRY(pretrain_divide(run, err));
    SYN_TRY(pretrain_read_routing(run, err));
    if (pretrain_mtp(run) > 0 && plan->cp > 1)
        return SYN_FAIL(
            err, SYN_E_UNSUPPORTED,
            "multi-token prediction (--mtp, m in --layout) cannot be combined with --cp");
    if (pretrain_mtp(run) > 0) run->config.mtp = pretrain_mtp(run); /* of a saved model */
    return SYN_OK;
}

/* The default length of synth. */
enum { SYNTH_TOKENS = 8192 };

/* Context parallelism cuts each sample into 2 cp pieces, and sequence parallelism a rank's tokens
   into tp parts. */
static syn_status check_pieces(const pretrain *run, syn_error *err) {
    const syn_plan *plan = &run->launch.parallel;
    const int64_t tokens = run->args->max_seq_length, parts = plan->sp ? plan->tp : 1;
    const int64_t pieces = plan->cp > 1 ? 2 * plan->cp * parts : parts;
    if (tokens % pieces == 0) return SYN_OK;
    if (plan->cp == 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "with --sp, --max-seq-length must be a multiple of --tp: %lld is not one "
                        "of %d",
                        (long long)tokens, plan->tp);
    return SYN_FAIL(err, SYN_E_INVALID,
                    "with --cp%s, --max-seq-length must be a multiple of 2 x cp%s: %lld is not one "
                    "of %lld",
                    plan->sp ? " and --sp" : "", plan->sp ? " x tp" : "", (long long)tokens,
                    (long long)pieces);
}

/* What context parallelism does not support, besides what syn_model_plan_check refuses. */
static syn_status check_context(const pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    const syn_plan *plan = &run->launch.parallel;
    char rates[160];
    if (plan->cp == 1) return SYN_OK;
    pretrain_dropout_text(run, rates, sizeof rates);
    if (pretrain_drops(run))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--cp does not support dropout, and that of %s is %s; give --dropout 0",
                        run->config.name, rates);
    if (args->reference)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--cp does not support --recipe reference, which masks padding");
    if (args->recompute == SYN_RECOMPUTE_OP && plan->cp_comm != SYN_CP_A2A)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--activation-recompute op with --cp %d needs --cp-comm a2a, not %s",
                        plan->cp, syn_cp_comm_name(plan->cp_comm));
    return SYN_OK;
}

static syn_status check_length(pretrain *run, syn_error *err) {
    pretrain_args *args = run->args;
    syn_model_config *config = &run->config;
    /* Rotary positions have no table, so a longer context is only another configuration. */
    if (args->out && config->rotary.theta > 0 &&
        args->max_seq_length > syn_model_max_tokens(config))
        config->n_positions = args->max_seq_length;
    const int64_t most = syn_model_max_tokens(config);
    if (args->max_seq_length == 0) args->max_seq_length = most < SYNTH_TOKENS ? most : SYNTH_TOKENS;
    if (args->max_seq_length > most)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--max-seq-length %lld exceeds the %lld positions of %s",
                        (long long)args->max_seq_length, (long long)most, run->config.name);
    return check_pieces(run, err);
}

/* ---- Dropout ---- */

/* Chooses the dropout rates: --dropout, or else the rates in the model's configuration. */
static syn_status choose_dropout(pretrain *run, syn_error *err) {
    const double given = run->args->dropout;
    syn_dropout_rates *rates = &run->config.dropout;
    if (given >= 0) *rates = (syn_dropout_rates){given, given, given};
    if (rates->embedding < 1 && rates->attention < 1 && rates->residual < 1) return SYN_OK;
    return SYN_FAIL(
        err, SYN_E_INVALID,
        "the configuration of %s has a dropout of 1, which drops all activations; give --dropout",
        run->config.name);
}

bool pretrain_drops(const pretrain *run) {
    const syn_dropout_rates *rates = &run->config.dropout;
    return rates->embedding > 0 || rates->attention > 0 || rates->residual > 0;
}

void pretrain_dropout_text(const pretrain *run, char *buf, size_t buf_bytes) {
    const syn_dropout_rates *rates = &run->config.dropout;
    char embedding[SYN_NUMBER_TEXT], attention[SYN_NUMBER_TEXT], residual[SYN_NUMBER_TEXT];
    syn_number_text(rates->embedding, embedding);
    syn_number_text(rates->attention, attention);
    syn_number_text(rates->residual, residual);
    if (strcmp(embedding, attention) == 0 && strcmp(attention, residual) == 0)
        snprintf(buf, buf_bytes, "%s", embedding);
    else
        snprintf(buf, buf_bytes, "%s of embeddings, %s of attention weights, %s of residuals",
                 embedding, attention, residual);
}

/* ---- Folders ---- */

/* Checks that files can be written to the folder, because training may take hours before it
   writes. */
static syn_status check_folder(const char *folder, const char *name, syn_error *err) {
    char path[4300];
    syn_sink *sink;
    SYN_TRY(syn_make_folder(folder, err));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    return syn_sink_close(sink, false, err);
}

/* Whether this process writes models and the log. Over MPI only rank 0 writes them. */
static bool writes(const pretrain *run) {
    return !run->launch.program->mute && run->launch.device != SYN_DEVICE_META;
}

/* Locks --save_dir until the run ends, so that no other run removes or replaces files in it. */
static syn_status lock_folder(pretrain *run, syn_error *err) {
    char prefix[FOLDER_PATH_BYTES];
    SYN_TRY(folder_path(prefix, err, run->args->save_dir, ""));
    return output_lock_take(&run->save_lock, prefix, run->launch.program->name,
                            "name another --save-dir", err);
}

static syn_status check_folders(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    if (run->launch.program->mute) return SYN_OK;
    if (writes(run)) {
        SYN_TRY(check_folder(args->save_dir, "metrics.csv", err));
        SYN_TRY(lock_folder(run, err));
        SYN_TRY(pretrain_check_saved(run, err));
    }
    SYN_TRY(pretrain_check_trace(run, err));
    return args->cache_dir ? check_folder(args->cache_dir, "0.tokens", err) : SYN_OK;
}

/* ---- The tokenizer ---- */

/* Sets tokenizer_folder; it stays empty for the byte tokenizer. */
static syn_status find_tokenizer(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    const size_t bytes = sizeof run->tokenizer_folder;
    char *folder = run->tokenizer_folder;
    const char *own =
        syn_model_is_causal(&run->config) ? "tiny-gpt2/vocab.json" : "tiny-bert/vocab.txt";
    if (args->tokenizer) {
        if (strcmp(args->tokenizer, "bytes") != 0) snprintf(folder, bytes, "%s", args->tokenizer);
        return SYN_OK;
    }
    if (args->weights) {
        if (model_folder_find_tokenizer(args->weights, folder, bytes)) return SYN_OK;
        return SYN_FAIL(err, SYN_E_IO,
                        "there is no tokenizer next to the weights '%.300s'; give --tokenizer",
                        args->weights);
    }
    if (!cli_find_data(own, folder, bytes))
        return SYN_FAIL(err, SYN_E_IO,
                        "the default tokenizer, examples/%s, was not found; give --tokenizer", own);
    *strrchr(folder, '/') = '\0';
    return SYN_OK;
}

/* Sets start and stop tokens to those of the tokenizer, because a preset has the tokens of the
   tokenizer that it was published with. */
static void set_stop_criteria(pretrain *run) {
    const int32_t eos = syn_tokenizer_eos(run->tokenizer), bos = syn_tokenizer_bos(run->tokenizer);
    syn_stop_criteria *end = &run->config.end;
    if (eos >= 0 && !syn_is_stop_token(end, eos))
        *end = (syn_stop_criteria){
            .ids = {eos}, .n_ids = 1, .fill = eos, .begin = bos >= 0 ? bos : eos};
}

static syn_status check_tokenizer(const pretrain *run, bool is_default, syn_error *err) {
    const char *folder = run->tokenizer_folder;
    if (*folder && !is_default &&
        syn_tokenizer_kind_of(run->tokenizer) != syn_model_tokenizer(&run->config))
        return SYN_FAIL(err, SYN_E_INVALID, "the tokenizer in '%.200s' is not for a %s", folder,
                        syn_model_type(&run->config));
    if (syn_tokenizer_vocab_size(run->tokenizer) <= run->config.vocab_size) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "the tokenizer has %d tokens, but %s has only %lld%s",
                    syn_tokenizer_vocab_size(run->tokenizer), run->config.name,
                    (long long)run->config.vocab_size,
                    run->args->tokenizer || run->args->weights ? "" : "; give --tokenizer");
}

static syn_status open_bytes(pretrain *run, syn_error *err) {
    syn_tokenizer_free(run->tokenizer);
    run->tokenizer = NULL;
    *run->tokenizer_folder = '\0';
    return syn_tokenizer_open_bytes(&run->tokenizer, err);
}

static syn_status open_tokenizer(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    const syn_model_config *c = &run->config;
    SYN_TRY(find_tokenizer(run, err));
    if (!*run->tokenizer_folder) SYN_TRY(open_bytes(run, err));
    else SYN_TRY(syn_tokenizer_load(&run->tokenizer, run->tokenizer_folder, err));
    const bool is_default = !args->tokenizer && !args->weights, causal = syn_model_is_causal(c);
    if (is_default && causal && syn_tokenizer_vocab_size(run->tokenizer) > c->vocab_size)
        SYN_TRY(open_bytes(run, err));
    SYN_TRY(check_tokenizer(run, is_default, err));
    if (causal) set_stop_criteria(run);
    if (!*run->tokenizer_folder) return SYN_OK;
    return syn_tokenizer_checksum(run->tokenizer_folder, &run->tokenizer_sum, err);
}

/* ---- Batches ---- */

static syn_status plan_batches(pretrain *run, syn_error *err) {
    static const char *const names[] = {"[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"};
    const syn_tokenizer *tok = run->tokenizer;
    syn_batch_options *how = &run->batches;
    how->tokens = run->args->max_seq_length;
    how->causal = syn_model_is_causal(&run->config);
    how->seed = (uint64_t)run->args->seed;
    how->masking = (syn_masking)run->args->masking;
    how->vocab = syn_tokenizer_vocab_size(tok);
    how->special = run->special;
    if (how->causal) {
        how->pad = syn_tokenizer_eos(tok) < 0 ? 0 : syn_tokenizer_eos(tok);
        return SYN_OK;
    }
    how->pad = syn_tokenizer_bert_special(tok, "[PAD]");
    how->mask = syn_tokenizer_bert_special(tok, "[MASK]");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int32_t id = syn_tokenizer_bert_special(tok, names[i]);
        if (id >= 0) run->special[how->n_special++] = id;
    }
    if (how->pad >= 0 && how->mask >= 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "the vocabulary lacks [PAD] or [MASK]");
}

/* ---- Data ---- */

/* Writes the cache. A failure is only a warning: the next run tokenizes again. */
static void save_texts(const pretrain *run, const syn_texts *texts, const char *cache,
                       uint64_t key) {
    syn_error why = {.code = SYN_OK};
    if (run->launch.program->mute || syn_texts_save(texts, cache, key, &why) == SYN_OK) return;
    if (run->args->quiet) return;
    fprintf(stderr, "%s: warning: tokenized data was not written to --cache-dir: %s\n",
            run->launch.program->name, why.text);
}

static syn_status make_texts(pretrain *run, syn_texts **out, const syn_squad *squad, uint64_t key,
                             const char *cache, const syn_texts_options *how, syn_error *err) {
    syn_workers *workers;
    if (*cache) SYN_TRY(syn_texts_load(out, cache, key, err));
    if (*out) return SYN_OK;
    SYN_TRY(syn_workers_new(&workers, cli_cores(), err));
    syn_status s = syn_texts_new(out, squad, run->tokenizer, how, workers, err);
    syn_workers_free(workers);
    if (s == SYN_OK && *cache) save_texts(run, *out, cache, key);
    return s;
}

/* Opens training or validation data, from the cache if possible. */
static syn_status open_texts(pretrain *run, bool training, const cli_texts *paths, syn_error *err) {
    const syn_texts_options how = {run->batches.causal    ? SYN_TEXTS_PLAIN
                                   : run->args->reference ? SYN_TEXTS_JOINED
                                                          : SYN_TEXTS_PAIR,
                                   run->args->max_seq_length};
    char cache[4200] = "";
    static const syn_texts_options any = {SYN_TEXTS_PLAIN, 0};
    syn_squad *squad;
    SYN_TRY(syn_squad_read(&squad, paths->at, paths->n, err));
    const uint64_t key = syn_texts_key(squad, run->tokenizer_sum, &how);
    *(training ? &run->texts_key : &run->eval_key) = key;
    *(training ? &run->data_sum : &run->eval_sum) = syn_texts_key(squad, 0, &any);
    if (run->args->cache_dir)
        snprintf(cache, sizeof cache, "%s/%016llx.tokens", run->args->cache_dir,
                 (unsigned long long)key);
    const syn_status s =
        make_texts(run, training ? &run->texts : &run->eval_texts, squad, key, cache, &how, err);
    syn_squad_free(squad);
    return s;
}

/* Opens the files of an option, or its default file. */
static syn_status open_named(pretrain *run, bool training, const cli_texts *named, const char *own,
                             const char *option, syn_error *err) {
    char found[4096];
    const char *const path = found;
    if (named->n > 0) return open_texts(run, training, named, err);
    if (!cli_find_data(own, found, sizeof found))
        return SYN_FAIL(err, SYN_E_IO, "the default examples/%s was not found; give %s", own,
                        option);
    return open_texts(run, training, &(cli_texts){&path, 1, NULL}, err);
}

static syn_status open_data(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    SYN_TRY(open_named(run, true, &args->data, PRETRAIN_DATA, "--data", err));
    if (args->skip_eval) return SYN_OK;
    if (args->data.n > 0 && args->eval_data.n == 0) return SYN_OK; /* without validation data */
    return open_named(run, false, &args->eval_data, PRETRAIN_EVAL_DATA,
                      "--eval-data or --skip-eval", err);
}

static syn_status plan_steps(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    const int64_t each = args->batch_size * run->launch.parallel.dp * args->accumulation;
    const int64_t before = args->trace_skip_first + args->trace_wait + args->trace_warmup;
    run->n_texts = syn_texts_count(run->texts);
    if (run->launch.device == SYN_DEVICE_META &&
        run->n_texts > 0) { /* on meta, samples may repeat */
        const int64_t want = (before + args->trace_active) * each;
        if (run->n_texts < want) run->n_texts = want;
    }
    run->steps_per_epoch = run->n_texts / each;
    if (run->steps_per_epoch == 0)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "%lld samples do not fill one step of %lld: give more --data, or a smaller %s",
            (long long)syn_texts_count(run->texts), (long long)each,
            args->batch_size > 1     ? "--batch-size"
            : args->accumulation > 1 ? "--gradient-accumulation-steps"
                                     : "--num-gpus");
    run->steps = run->steps_per_epoch * args->num_epochs;
    if (args->max_steps > 0 && args->max_steps < run->steps) run->steps = args->max_steps;
    if (args->enable_tracing && before >= run->steps)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "step %lld should be traced, but the run has only %lld steps: raise "
                        "--max-steps or lower --trace-wait-steps",
                        (long long)before + 1, (long long)run->steps);
    return SYN_OK;
}

/* The default on meta, where runs need predicted times: simulators would treat ops without times as
   if they took no time. */
#define DEFAULT_HARDWARE "a100-80g"

/* Chooses the ranks that a prediction records: the ranks of the slowest pipeline, one for each
   stage. */
static void choose_ranks(pretrain *run) {
    const syn_plan *plan = &run->launch.parallel;
    int32_t stride[SYN_AXES];
    syn_plan_strides(plan, stride);
    const int32_t slowest = syn_plan_slowest_rank(plan, (int32_t)run->hw.node_ranks);
    const int32_t step = stride[SYN_AXIS_PP];
    run->launch.alone_rank = slowest - slowest / step % plan->pp * step;
    run->launch.alone_n = plan->pp;
    run->launch.alone_step = step;
}

static syn_status choose_hardware(pretrain *run, syn_error *err) {
    const char *name = run->args->hw;
    if (!name && run->launch.device == SYN_DEVICE_META) name = DEFAULT_HARDWARE;
    if (name) {
        run->launch.hw = &run->hw;
        SYN_TRY(syn_hardware_load(&run->hw, name, "megatron", err));
        syn_hardware_set_sharing(&run->hw, run->launch.ranks);
        if (run->launch.device == SYN_DEVICE_META)
            SYN_TRY(syn_hardware_check_nodes(&run->hw, run->launch.ranks, err));
        if (run->args->fp8) SYN_TRY(syn_hardware_use_fp8(&run->hw, err));
        choose_ranks(run);
    }
    return comparison_open(&run->predicted, run->args->compare, run->launch.hw, "megatron",
                           run->launch.ranks, err);
}

/* Sets the dtype. On meta without --dtype, meta_dtype chooses it. */
static void choose_dtype(pretrain *run) {
    const pretrain_args *args = run->args;
    const syn_hardware *swept = pretrain_deciding_machine(run);
    run->dtype = args->dtype > 0 ? SYN_BF16 : SYN_F32;
    if (args->dtype >= 0 || run->launch.device != SYN_DEVICE_META) return;
    syn_dtype published = run->weights ? syn_weights_dtype(run->weights) : SYN_F32;
    const bool said = syn_model_config_dtype(&run->config, &published) || run->weights;
    const meta_run how = {.hw = swept ? swept : &run->hw,
                          .published = said ? &published : NULL,
                          .chosen = swept || args->hw || args->model || args->out};
    run->dtype = meta_dtype(&how);
}

/* Fails if --reduce-dtype has no effect because no gradients are summed. */
static syn_status check_reduce_dtype(const pretrain *run, syn_error *err) {
    const syn_plan *plan = &run->launch.parallel;
    char name[64];
    const bool ties = plan->pp > 1 && pretrain_tied(run, name, sizeof name);
    if (!run->args->reduce_dtype || syn_plan_replicas(plan) > 1 || plan->sp || ties ||
        run->args->sweep.n > 0)
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "--reduce-dtype has no effect, because no gradients are summed over ranks; "
                    "omit it");
}

/* synth records one step on meta, for which the contents of the batches do not matter. */
static void plan_synth(pretrain *run) {
    const pretrain_args *args = run->args;
    run->batches.tokens = args->max_seq_length;
    run->batches.causal = syn_model_is_causal(&run->config);
    run->n_texts = args->batch_size * run->launch.parallel.dp * args->accumulation;
    run->steps_per_epoch = run->steps = 1;
}

syn_status pretrain_prepare(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    SYN_TRY(parallel_plan(&run->launch.parallel, &args->parallel, args->num_gpus, args->tp, err));
    if (args->buckets >= 0 && syn_plan_replicas(&run->launch.parallel) == 1 && args->sweep.n == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--buckets has no effect on one data-parallel rank; omit it");
    const size_t stages = (size_t)run->launch.parallel.pp;
    run->stage_parts = syn_calloc(stages, sizeof *run->stage_parts);
    run->stage_reserved = syn_calloc(stages, sizeof *run->stage_reserved);
    run->shorter = syn_calloc(stages, sizeof *run->shorter);
    if (!(run->stage_bytes = syn_calloc(stages, sizeof *run->stage_bytes)) || !run->stage_parts ||
        !run->stage_reserved || !run->shorter)
        return SYN_FAIL_NOMEM(err, stages * sizeof *run->stage_bytes, "peak memory");
    SYN_TRY(choose_hardware(run, err));
    SYN_TRY(find_model(run, err));
    choose_dtype(run);
    SYN_TRY(check_model(run, err));
    SYN_TRY(check_reduce_dtype(run, err));
    follow_reference(run);
    run->model_sum = syn_model_config_hash(&run->config, 0); /* before the tokenizer changes it */
    SYN_TRY(choose_dropout(run, err));
    SYN_TRY(check_length(run, err));
    SYN_TRY(check_context(run, err));
    if (args->out) {
        plan_synth(run);
        return SYN_OK;
    }
    name_save_dir(run);
    SYN_TRY(check_folders(run, err));
    SYN_TRY(open_tokenizer(run, err));
    SYN_TRY(plan_batches(run, err));
    SYN_TRY(open_data(run, err));
    SYN_TRY(plan_steps(run, err));
    return writes(run) ? pretrain_check_longer(run, err) : SYN_OK;
}

/* ---- What must be equal on all ranks ---- */

static uint64_t hash_dropout(const syn_dropout_rates *rates) {
    const double all[] = {rates->embedding, rates->attention, rates->residual};
    return syn_hash(all, sizeof all, 0);
}

static uint64_t hash_of(double value) {
    return syn_hash(&value, sizeof value, 0);
}

/* The parts of the plan. Only the first difference between ranks is reported, so an option comes
   before the values that depend on it. */
int pretrain_parts(void *user, launch_part parts[LAUNCH_PARTS]) {
    const pretrain *run = user;
    const pretrain_args *a = run->args;
    const syn_plan *plan = &run->launch.parallel;
    const launch_part all[] = {
        {"--device", (uint64_t)run->launch.device},
        {"--recipe", (uint64_t)a->reference},
        {"model", run->model_sum},
        {"--weights", run->weights ? syn_weights_hash(run->weights) : 0},
        {"--tokenizer", run->tokenizer_sum},
        {"--batch-size", (uint64_t)a->batch_size},
        {"--gradient-accumulation-steps", (uint64_t)a->accumulation},
        {"--max-seq-length", (uint64_t)a->max_seq_length},
        {"--num-gpus", (uint64_t)a->num_gpus},
        {"--tp", (uint64_t)a->tp},
        {"--pp", (uint64_t)plan->pp},
        {"--sp", (uint64_t)plan->sp},
        {"--zero", (uint64_t)plan->zero},
        {"--buckets", (uint64_t)pretrain_buckets(run)},
        {"--no-reshard", (uint64_t)a->no_reshard},
        {"--reduce-dtype", (uint64_t)a->reduce_dtype},
        {"--hsdp", (uint64_t)plan->hsdp},
        {"--cp", (uint64_t)plan->cp},
        {"--cp-comm", (uint64_t)plan->cp_comm},
        {"--cp-a2a", (uint64_t)plan->cp_a2a},
        {"--ep", (uint64_t)plan->ep},
        {"--etp", (uint64_t)plan->etp},
        {"--sp-keep", (uint64_t)a->sp_keep},
        {"--schedule", (uint64_t)plan->schedule},
        {"--vp", (uint64_t)plan->vp},
        {"--microbatch-group", (uint64_t)plan->microbatch_group},
        {"division of layers into stages", (uint64_t)pretrain_division(run)},
        {"--rank-order", (uint64_t)syn_plan_order_number(plan)},
        {"--seed", (uint64_t)a->seed},
        {"--activation-recompute", (uint64_t)a->recompute},
        {"--loss", (uint64_t)a->loss},
        {"--mask-policy", (uint64_t)a->masking},
        {"--dtype", (uint64_t)run->dtype},
        {"--num-epochs", (uint64_t)a->num_epochs},
        {"--warmup-steps", (uint64_t)a->warmup_steps},
        {"--eval-steps", (uint64_t)a->eval_steps},
        {"--save-steps", (uint64_t)a->save_steps},
        {"--resume", (uint64_t)a->resume},
        {"--skip-eval", (uint64_t)a->skip_eval},
        {"--enable-tracing", (uint64_t)a->enable_tracing},
        {"--trace-skip-first", (uint64_t)a->trace_skip_first},
        {"--trace-wait-steps", (uint64_t)(a->trace_wait + a->trace_warmup)},
        {"--trace-active-steps", (uint64_t)a->trace_active},
        {"--trace-repeat", (uint64_t)a->trace_repeat},
        {"--data", (uint64_t)run->texts_key},
        {"--eval-data", (uint64_t)run->eval_key},
        {"--max-steps", (uint64_t)run->steps},
        {"--learning-rate", hash_of(a->learning_rate)},
        {"--weight-decay", hash_of(a->weight_decay)},
        {"--max-grad-norm", hash_of(a->max_grad_norm)},
        {"--dropout", hash_dropout(&run->config.dropout)},
        {"--moe-aux-loss-coeff", hash_of(pretrain_aux_coefficient(run))},
        {"--routing", a->routing ? syn_hash(a->routing, strlen(a->routing), 0) : 0},
        {"--capacity", hash_of(a->capacity)},
        {"--moe-dispatcher", (uint64_t)a->dispatcher},
        {"--moe-dispatch-fp8", (uint64_t)a->dispatch_fp8},
        {"--overlap-a2a", (uint64_t)a->overlap_a2a},
        {"--moe-z-loss-coeff", hash_of(a->z_coefficient)},
        {"--moe-router-bias-update-rate", hash_of(a->bias_rate)},
        {"--save-dir", syn_hash(a->save_dir, strlen(a->save_dir), 0)}};
    _Static_assert(sizeof all / sizeof *all <= LAUNCH_PARTS, "parts need more space");
    memcpy(parts, all, sizeof all);
    return sizeof all / sizeof *all;
}

uint64_t pretrain_plan(void *user) {
    launch_part parts[LAUNCH_PARTS];
    const int n = pretrain_parts(user, parts);
    uint64_t h = 0;
    for (int i = 0; i < n; i++) h = syn_hash(&parts[i].hash, sizeof parts[i].hash, h);
    return h;
}

void pretrain_free(pretrain *run) {
    output_lock_release(&run->save_lock);
    syn_free(run->stage_parts);
    syn_free(run->stage_reserved);
    output_lock_release(&run->trace_lock);
    pretrain_free_trace(run);
    for (int32_t i = 0; run->shorter && i < run->launch.parallel.pp; i++)
        syn_ctx_free(run->shorter[i]);
    syn_free(run->shorter);
    syn_free(run->stage_bytes);
    syn_expert_load_free(&run->load);
    syn_free(run->parts);
    syn_free(run->uneven);
    comparison_free(&run->predicted);
    syn_weights_free(run->weights);
    syn_texts_free(run->texts);
    syn_texts_free(run->eval_texts);
    syn_tokenizer_free(run->tokenizer);
}
