/* Inference with tensor parallelism, traced: GPT continues a text, BERT fills in its [MASK]s.

   One rank's program is `rank_main`; it runs on N threads (--tp N), on N processes (mpirun -n N),
   or N times without data (--device meta), and cannot tell which. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/blas.h"
#include "ops/simd.h"
#include "syntorch/memory.h"
#include "syntorch/mesh.h"
#include "tools/inference/checkpoint.h"
#include "tools/inference/footprint.h"
#include "tools/inference/inference.h"
#include "tools/inference/visualize.h"

enum { DTYPE_FACT_BYTES = 48 };

static inference_args args = {.tp = 1,
                              .batch_size = 1,
                              .seed = 1,
                              .watchdog = 60,
                              .temperature = NAN,
                              .top_k = -1,
                              .top_p = NAN,
                              .mask_id = -1,
                              .min_p = NAN,
                              .repetition_penalty = NAN,
                              .device = "cpu",
                              .out_dir = "."};

static const cli_option options[] = {
    {"tp", CLI_INT, &args.tp, "N",
     "tensor-parallel ranks: threads of this process, or as many MPI processes", 1, 65536},
    {"device", CLI_TEXT, &args.device, "cpu|meta",
     "where to run; meta records everything and computes nothing (there is no CUDA backend yet)", 0,
     0},
    {"model", CLI_TEXT, &args.model, "NAME",
     "preset: gpt2, gpt3-175b, bert-base-uncased, ... (a wrong name lists all)", 0, 0},
    {"model_config", CLI_TEXT, &args.model_config, "FILE",
     "HuggingFace-style config.json; default: that beside the weights, or the 2-layer "
     "examples/configs/gpt3-tiny.json",
     0, 0},
    {"weights", CLI_TEXT, &args.weights, "DIR|FILE",
     "safetensors checkpoint under HuggingFace's names; default: random weights", 0, 0},
    {"dtype", CLI_TEXT, &args.dtype, "f32|f16|bf16",
     "of all that is computed and kept: weights, activations, KV cache and collectives; sums "
     "within "
     "an op are f32 [f32]",
     0, 0},
    {"weight_dtype", CLI_TEXT, &args.weight_dtype, "f32|f16|bf16",
     "of the weight matrices alone, under f32 arithmetic; default without --dtype: as in the "
     "checkpoint, f32 if random",
     0, 0},
    {"tokenizer", CLI_TEXT, &args.tokenizer, "DIR|bytes",
     "folder with tokenizer.json, vocab.json and merges.txt, or vocab.txt, or one token a byte; "
     "default: that of the weights, bytes if they are random",
     0, 0},
    {"prompt", CLI_TEXT, &args.prompt, "TEXT",
     "what to continue, or what to fill in at each [MASK]; default: a built-in sentence", 0, 0},
    {"prompts", CLI_TEXT, &args.prompts, "FILE",
     "a batch: one prompt a line, also on blank ones, padded to the longest", 0, 0},
    {"prompt_ids", CLI_TEXT, &args.prompt_ids, "FILE",
     "the same as token ids, separated by spaces; BERT: without [CLS] and [SEP], but with them if "
     "there is no tokenizer",
     0, 0},
    {"mask_id", CLI_INT, &args.mask_id, "N",
     "BERT's [MASK] among --prompt_ids without a tokenizer; default: all positions are predicted",
     0, 1e9},
    {"num_input_tokens", CLI_INT, &args.num_input_tokens, "N",
     "tokens of the prompt, which is cut or repeated to fit (BERT: with [CLS] and [SEP]); default: "
     "the prompt as it is",
     1, 1e9},
    {"num_output_tokens", CLI_INT, &args.num_output_tokens, "N",
     "GPT: tokens to generate [16; none with --logits all, or --embeddings alone]", 1, 1e9},
    {"batch_size", CLI_INT, &args.batch_size, "N", "sequences with this prompt, run side by side",
     1, 1e6},
    {"temperature", CLI_REAL, &args.temperature, "T",
     "GPT: 0 takes the likeliest token, larger is wilder [1]", 0, 1e6},
    {"top_k", CLI_INT, &args.top_k, "K",
     "GPT: sample from the K likeliest tokens, 0: all; BERT: how many predictions to print, 0: "
     "five",
     0, 1e9},
    {"top_p", CLI_REAL, &args.top_p, "P",
     "GPT: sample from the smallest set of tokens with this probability [1]", 1e-9, 1},
    {"min_p", CLI_REAL, &args.min_p, "P",
     "GPT: sample from the tokens at least P times as likely as the likeliest [0]", 0, 1},
    {"greedy", CLI_FLAG, &args.greedy, NULL, "GPT: take the likeliest token", 0, 0},
    {"repetition_penalty", CLI_REAL, &args.repetition_penalty, "X",
     "GPT: divide logits of tokens that were there by X, multiply those below 0 [1]", 1e-6, 1e6},
    {"eos", CLI_TEXT, &args.eos, "ID,...|TOKEN|none",
     "GPT: what ends a text; default: as the files beside the weights say", 0, 0},
    {"seed", CLI_INT, &args.seed, "N", "of the random weights and of the sampling", 0,
     9007199254740991.0},
    {"attention", CLI_CHOICE, &args.attention, "auto|fused|unfused",
     "one op, which is faster, or product, mask, softmax, product, which shows more; auto: unfused "
     "with --visualize_trace or --debug, else fused",
     0, 0},
    {"hw_config", CLI_TEXT, &args.hw_config, "FILE|NAME",
     "predict times for this hardware: a100-80g, h100, h200, v100-32g, cpu or a JSON file; default "
     "with --device meta: a100-80g",
     0, 0},
    {"visualize_trace", CLI_FLAG, &args.visualize_trace, NULL,
     "write pictures, JSON, Chakra traces and a timeline", 0, 0},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR", "where they go; created if absent", 0, 0},
    {"save_logits", CLI_TEXT, &args.save_logits, "FILE.npy",
     "logits of the last prompt position (batch, vocabulary), or of the [MASK]s", 0, 0},
    {"logits", CLI_CHOICE, &args.logits, "last|all",
     "all: --save_logits holds those of every position (batch, tokens, vocabulary), zeros behind "
     "shorter prompts",
     0, 0},
    {"embeddings", CLI_TEXT, &args.embeddings, "FILE.npy",
     "hidden states of every position (batch, tokens, hidden), transformers' last_hidden_state; "
     "zeros behind shorter prompts",
     0, 0},
    {"pooling", CLI_CHOICE, &args.pooling, "none|mean|first|last",
     "of --embeddings one vector a prompt (batch, hidden): the mean of its tokens, the first "
     "(BERT's [CLS]) or the last",
     0, 0},
    {"perplexity", CLI_TEXT, &args.perplexity, "FILE",
     "GPT: of a text, computed as HuggingFace's \"Perplexity of fixed-length models\" does", 0, 0},
    {"max_length", CLI_INT, &args.max_length, "N",
     "of --perplexity: tokens of a window; default: the model's positions", 2, 1e9},
    {"stride", CLI_INT, &args.stride, "N",
     "of --perplexity: tokens from one window to the next [512, at most a window]", 1, 1e9},
    {"save_weights", CLI_TEXT, &args.save_weights, "DIR",
     "write the model with its tokenizer to a folder as transformers reads and writes it", 0, 0},
    {"check_collectives", CLI_FLAG, &args.check_collectives, NULL,
     "over MPI: compare what the ranks call before each collective (threads always do)", 0, 0},
    {"watchdog", CLI_INT, &args.watchdog, "SECONDS",
     "over MPI: say what a rank waits for after this long, end the job after ten times as long; 0: "
     "never",
     0, 1e6},
    {"debug", CLI_FLAG, &args.debug, NULL, "print every recorded op of rank 0 on standard error", 0,
     0},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print nothing but errors", 0, 0},
    {"json", CLI_FLAG, &args.json, NULL, "print the summary as one JSON object", 0, 0},
    CLI_END};

static const char *const examples[] = {
    "inference --tp 2 --visualize_trace --out_dir out      # two threads, pictures and traces",
    "mpirun -n 2 inference --tp 2                          # the same over MPI",
    "inference --device meta --model gpt3-175b --tp 8 --num_input_tokens 2000 --hw_config h200",
    "inference --weights gpt2 --tp 2 --prompt \"The answer is\"   # a folder from HuggingFace",
    "inference --weights bert-base-uncased --prompt \"Paris is the [MASK] of France.\"",
    NULL};

static cli_program program = {
    "inference",
    "Runs a GPT-2, Llama, Mistral or Qwen (continues a text) or a BERT (fills in [MASK]s) on any "
    "number of ranks,\nwith random weights or a checkpoint, records every op and collective, and "
    "reports what they cost.",
    options, examples, false};

static inference run = {.args = &args, .said = {NAN, NAN, NAN, NAN, NAN}};

/* Of meta runs that name none: without times simulators would take all compute for nothing. */
#define DEFAULT_HARDWARE "a100-80g"

/* ---- One rank ---- */

static syn_status rank_main(syn_comm *comm, void *unused, syn_ctx **ctx, syn_error *err) {
    (void)unused;
    syn_mesh mesh;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_mesh_shape){.tp = (int32_t)args.tp}, err));
    SYN_TRY(syn_ctx_new(ctx, run.launch.device, comm, err));
    SYN_TRY(syn_ctx_set_threads(*ctx, run.launch.threads, err));
    syn_ctx_set_hashing(*ctx, run.launch.want_hashes);
    if (run.weights) {
        syn_weights_reader *reader;
        SYN_TRY(syn_weights_reader_new(&reader, run.weights, err));
        const syn_param_source source = syn_weights_source(reader);
        syn_ctx_set_param_source(*ctx, &source);
        syn_status s = inference_run_rank(&run, *ctx, mesh.group[SYN_AXIS_TP], reader, true, err);
        if (s == SYN_OK) s = syn_weights_finish(reader, NULL, NULL, err);
        syn_ctx_set_param_source(*ctx, NULL);
        syn_weights_reader_free(reader);
        SYN_TRY(s);
    } else {
        SYN_TRY(inference_run_rank(&run, *ctx, mesh.group[SYN_AXIS_TP], NULL, true, err));
    }
    if (!args.save_weights) return SYN_OK;
    return checkpoint_save(&run, *ctx, comm, err);
}

/* What the launcher asks for. */
static uint64_t plan(void *unused) {
    (void)unused;
    const int64_t numbers[] = {args.tp,
                               args.seed,
                               args.top_k,
                               run.batch,
                               run.prompt_tokens,
                               args.json,
                               run.launch.want_graph,
                               run.dtype,
                               run.weight_dtype,
                               args.check_collectives,
                               (int64_t)run.launch.device,
                               args.weights != NULL,
                               args.save_weights != NULL,
                               run.fused_attention};
    const uint64_t h =
        syn_hash(numbers, sizeof numbers, run.weights ? syn_weights_hash(run.weights) : 0);
    return run.task->plan(&run, syn_model_config_hash(&run.config, h));
}

static const char *attention_name(void) {
    return run.fused_attention ? "fused" : "unfused";
}

static const char *dtype_fact(char text[DTYPE_FACT_BYTES]) {
    const bool differ = run.weight_dtype != run.dtype;
    snprintf(text, DTYPE_FACT_BYTES, "%s%s", syn_dtype_name(run.weight_dtype),
             differ ? " weights, f32 arithmetic" : "");
    return text;
}

/* Facts about the run that titles and files show. */
static syn_status facts(void *unused, syn_graph *graph, syn_error *err) {
    (void)unused;
    const syn_model_config *m = &run.config;
    char cores[64], dtype[DTYPE_FACT_BYTES];
    const syn_attribute list[] = {
        {.name = "model", .type = SYN_VALUE_TEXT, .text = m->name},
        {.name = "layers", .i64 = m->n_layer},
        {.name = "hidden", .i64 = m->n_embd},
        {.name = "heads", .i64 = m->n_head},
        {.name = "vocabulary", .i64 = m->vocab_size},
        {.name = "parameters", .i64 = run.params},
        {.name = "tp", .i64 = args.tp},
        {.name = "dtype", .type = SYN_VALUE_TEXT, .text = dtype_fact(dtype)},
        {.name = "batch", .i64 = run.batch},
        {.name = "prompt_tokens", .i64 = run.prompt_tokens},
        {.name = "new_tokens", .i64 = run.new_tokens},
        {.name = "attention", .type = SYN_VALUE_TEXT, .text = attention_name()},
        {.name = "device", .type = SYN_VALUE_TEXT, .text = args.device},
        {.name = "seed", .i64 = args.seed},
        {.name = "oversubscribed",
         .type = SYN_VALUE_TEXT,
         .text = launch_shared_cores(&run.launch, cores, sizeof cores)},
        {.name = "hardware", .type = SYN_VALUE_TEXT, .text = run.launch.hw ? run.hw.name : NULL},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i].name, "new_tokens") == 0 && run.new_tokens == 0) continue; /* BERT */
        if (list[i].type != SYN_VALUE_TEXT || list[i].text)
            SYN_TRY(syn_graph_set_meta(graph, &list[i], err));
    }
    return SYN_OK;
}

/* ---- Before: options, model, tokenizer, prompts ---- */

/* auto: the fast one, unless each op is to be seen. */
static bool choose_attention(void) {
    const bool shown = args.visualize_trace || args.debug;
    return args.attention == INFERENCE_AUTO ? !shown : args.attention == INFERENCE_FUSED;
}

static int parse_dtype(const char *option, const char *text, syn_dtype *out) {
    if (!text || (syn_dtype_parse(text, out) && *out <= SYN_BF16)) return CLI_RUN;
    return cli_fail(&program, CLI_USAGE, "--%s is f32, f16 or bf16, not '%s'", option, text);
}

/* What is computed in 16 bits has its weights in them. */
static int check_dtypes(void) {
    int code = parse_dtype("dtype", args.dtype, &run.dtype);
    if (code == CLI_RUN) code = parse_dtype("weight_dtype", args.weight_dtype, &run.weight_dtype);
    if (code != CLI_RUN) return code;
    if (args.weight_dtype && run.dtype != SYN_F32 && run.weight_dtype != run.dtype)
        return cli_fail(&program, CLI_USAGE,
                        "--weight_dtype %s: with --dtype %s the weights are %s, too",
                        args.weight_dtype, args.dtype, args.dtype);
    if (!args.weight_dtype) run.weight_dtype = run.dtype;
    return CLI_RUN;
}

static int check_options(syn_error *err) {
    if (strcmp(args.device, "cuda") == 0) {
        SYN_FAIL(err, SYN_E_UNSUPPORTED,
                 "this build has no CUDA backend; use --device cpu or --device meta");
        return CLI_FAILED;
    }
    if (strcmp(args.device, "cpu") != 0 && strcmp(args.device, "meta") != 0)
        return cli_fail(&program, CLI_USAGE, "--device is cpu or meta, not '%s'", args.device);
    run.fused_attention = choose_attention();
    const int dtypes = check_dtypes();
    if (dtypes != CLI_RUN) return dtypes;
    run.launch.device = strcmp(args.device, "meta") == 0 ? SYN_DEVICE_META : SYN_DEVICE_CPU;
    const bool meta = run.launch.device == SYN_DEVICE_META;
    if (args.save_logits && meta)
        return cli_fail(&program, CLI_USAGE,
                        "--save_logits needs numbers, and --device meta computes none");
    if (args.embeddings && meta)
        return cli_fail(&program, CLI_USAGE,
                        "--embeddings needs numbers, and --device meta computes none");
    if (args.save_weights && meta)
        return cli_fail(&program, CLI_USAGE,
                        "--save_weights needs numbers, and --device meta has none");
    if (args.model && args.model_config)
        return cli_fail(&program, CLI_USAGE,
                        "--model and --model_config both say which model; give one");
    if ((args.prompt != NULL) + (args.prompts != NULL) + (args.prompt_ids != NULL) > 1)
        return cli_fail(&program, CLI_USAGE,
                        "--prompt, --prompts and --prompt_ids say the same; give one");
    return CLI_RUN;
}

/* Whether what the model does has no use for an option that was given. */
static int check_task(void) {
    const char *sentence = run.task->refuses ? run.task->refuses(&args) : NULL;
    return sentence ? cli_fail(&program, CLI_USAGE, "%s", sentence) : CLI_RUN;
}

static syn_status choose_hardware(syn_error *err) {
    const char *name = args.hw_config;
    if (!name && run.launch.device == SYN_DEVICE_META) name = DEFAULT_HARDWARE;
    if (!name) return SYN_OK;
    run.launch.hw = &run.hw;
    return syn_hardware_load(&run.hw, name, err);
}

/* CLI_FAILED: err says why, and nothing was printed yet. */
static int prepare(syn_error *err) {
    int code = check_options(err);
    if (code != CLI_RUN) return code;
    if (checkpoint_configure(&run, err) != SYN_OK) return CLI_FAILED;
    code = check_task();
    if (code != CLI_RUN) return code;
    syn_status s = choose_hardware(err);
    if (s == SYN_OK && args.weights) s = checkpoint_open(&run, err);
    if (s == SYN_OK) s = inference_open_tokenizer(&run, err);
    if (s == SYN_OK) s = inference_prepare(&run, err);
    if (s == SYN_OK && args.weights) s = checkpoint_compare(&run, err);
    if (s == SYN_OK) s = inference_keep_inputs(&run, err);
    if (s == SYN_OK && args.visualize_trace && !program.mute)
        s = syn_make_folder(args.out_dir, err);
    if (s == SYN_OK && args.save_weights && !program.mute) s = checkpoint_begin_saving(&run, err);
    return s == SYN_OK ? CLI_RUN : CLI_FAILED;
}

/* ---- After: what is printed and written ---- */

static uint64_t all_nodes(void) {
    uint64_t nodes = 0;
    for (int32_t r = 0; r < run.launch.ranks; r++) nodes += run.launch.nodes[r];
    return nodes;
}

/* Predictions for hardware that could not hold the model deserve a word. */
static void print_fit(void) {
    char a[32], b[32], name[CLI_SHOWN_BYTES];
    const double want = inference_resident_bytes(&run) / (double)args.tp;
    if (!run.launch.hw || run.hw.memory_bytes <= 0 || want <= run.hw.memory_bytes) return;
    printf("note:    each rank needs %s for %s weights and KV cache, but %s has "
           "%s\n",
           cli_bytes_text(want, a, sizeof a), syn_dtype_name(run.weight_dtype),
           cli_shown(run.hw.name, name, sizeof name),
           cli_bytes_text(run.hw.memory_bytes, b, sizeof b));
}

/* Of more ranks than heads of keys and values several have, and compute, the same one. */
static void print_shared_heads(void) {
    const syn_model_config *m = &run.config;
    const int ranks = syn_model_kv_ranks(m, (int)args.tp);
    if (m->n_kv_head == 0 || m->n_kv_head == m->n_head) return;
    printf("heads:   %lld of queries share %lld of keys and values", (long long)m->n_head,
           (long long)m->n_kv_head);
    if (ranks > 1) printf(", each of which is on %d ranks", ranks);
    putchar('\n');
}

static void print_summary(const report *r) {
    const syn_model_config *m = &run.config;
    char a[64], name[CLI_SHOWN_BYTES];
    printf("model:   %s, %lld layers, hidden %lld, %lld heads, %s parameters, tp %lld, "
           "%s attention\n",
           cli_shown(m->name, name, sizeof name), (long long)m->n_layer, (long long)m->n_embd,
           (long long)m->n_head, cli_count_text((double)run.params, a, sizeof a),
           (long long)args.tp, attention_name());
    print_shared_heads();
    if (run.weights)
        printf("weights: %s, %s\n", cli_shown(args.weights, name, sizeof name),
               syn_dtype_name(run.weight_dtype));
    if (run.launch.device == SYN_DEVICE_META)
        printf("device:  meta: nothing is computed, times are predictions for %s%s\n",
               cli_shown(run.hw.name, name, sizeof name),
               args.hw_config ? "" : " (the default; --hw_config chooses)");
    else
        printf("device:  cpu, %d thread%s a rank, %s, own kernels %s\n", run.launch.threads,
               cli_plural((uint64_t)run.launch.threads), syn_blas_describe(a, sizeof a),
               syn_simd_name(syn_simd_level()));
    if (run.dtype != SYN_F32)
        printf("dtype:   %s: weights, activations, KV cache and collectives\n",
               syn_dtype_name(run.dtype));
    else if (run.weight_dtype != SYN_F32)
        printf("dtype:   %s weights; activations, KV cache and collectives are f32%s\n",
               syn_dtype_name(run.weight_dtype),
               args.hw_config ? ", and times are predicted for f32 arithmetic" : "");
    print_fit();
    run.task->print(&run, r);
    printf("trace:   %llu nodes on %d rank%s\n", (unsigned long long)all_nodes(), run.launch.ranks,
           cli_plural((uint64_t)run.launch.ranks));
    if (run.launch.device != SYN_DEVICE_META)
        footprint_print(run.launch.ctx[0], r->largest_bytes, stdout);
    printf("\nops of rank 0, views left out");
    if (run.launch.hw) printf("; predicted for %s", run.hw.name);
    printf(":\n");
    report_print(r, stdout);
}

static syn_status print_json(const report *r, syn_error *err) {
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, "-", err));
    syn_sink_text(out, "{\"model\": ");
    syn_sink_json_string(out, run.config.name);
    syn_sink_printf(out,
                    ", \"tp\": %lld, \"device\": \"%s\", \"dtype\": \"%s\", "
                    "\"weight_dtype\": \"%s\", \"attention\": \"%s\", \"ranks\": %d, "
                    "\"nodes\": %llu, \"trace_hash\": [",
                    (long long)args.tp, args.device, syn_dtype_name(run.dtype),
                    syn_dtype_name(run.weight_dtype), attention_name(), run.launch.ranks,
                    (unsigned long long)all_nodes());
    for (int32_t i = 0; i < run.launch.ranks; i++)
        syn_sink_printf(out, "%s\"%016llx\"", i ? ", " : "",
                        (unsigned long long)run.launch.hashes[i]);
    syn_sink_text(out, "], ");
    if (run.launch.hw) {
        syn_sink_text(out, "\"hardware\": ");
        syn_sink_json_string(out, run.hw.name);
        syn_sink_text(out, ", ");
    }
    run.task->json(&run, r, out);
    if (run.launch.device != SYN_DEVICE_META)
        footprint_json(run.launch.ctx[0], r->largest_bytes, out);
    syn_sink_text(out, ", \"ops\": ");
    report_json(r, out);
    syn_sink_text(out, "}\n");
    return syn_sink_close(out, true, err);
}

static syn_status finish(syn_error *err) {
    if (args.save_weights) SYN_TRY(checkpoint_end_saving(&run, err));
    report_sort(&run.report);
    if (args.debug) report_print_nodes(run.launch.graph, 0, stderr);
    syn_status printed = SYN_OK;
    if (args.json) printed = print_json(&run.report, err);
    else if (!args.quiet) print_summary(&run.report);
    SYN_TRY(printed);
    if (args.save_logits) SYN_TRY(run.task->save_logits(&run, args.save_logits, err));
    if (!args.visualize_trace) return SYN_OK;
    FILE *list = args.quiet || args.json ? NULL : stdout;
    if (list) printf("\nwritten:\n");
    return visualize_run(run.launch.graph, args.out_dir, "syntorch " SYN_VERSION, list, err);
}

static syn_status run_all(int prepared, syn_error *err) {
    launch *l = &run.launch;
    l->quiet = args.quiet;
    l->check_collectives = args.check_collectives;
    l->watchdog_s = args.watchdog;
    l->want_hashes = args.json;
    l->want_graph = args.visualize_trace || args.debug;
    l->plan = plan;
    l->facts = facts;
    l->main = rank_main;
    return launch_run(l, prepared == CLI_RUN ? launch_threads(l, err) : err->code, err);
}

static int run_program(int argc, char **argv) {
    syn_error err = {0};
    launch_begin(&run.launch, &program);
    cli_check_address_space(&program);
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN && run.launch.mpi && run.launch.ranks != args.tp)
        code = cli_fail(&program, CLI_USAGE,
                        "%d MPI processes were started for --tp %lld; the two must agree",
                        run.launch.ranks, (long long)args.tp);
    run.launch.ranks = (int32_t)args.tp;
    if (code == CLI_RUN) code = prepare(&err);
    if (code == CLI_USAGE && run.launch.rank != 0)
        sleep(1); /* a launcher stops all when one fails: rank 0 must come to say why */
    if (code == CLI_RUN || code == CLI_FAILED) {
        syn_status s = run_all(code, &err);
        if (s == SYN_OK && !program.mute) s = finish(&err);
        code = s == SYN_OK ? CLI_OK : cli_fail(&program, CLI_FAILED, "%s", err.text);
    }
    launch_free(&run.launch);
    inference_free(&run);
    return code;
}

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("inference", run_program, argc, argv);
}
