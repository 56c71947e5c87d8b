/* Options of the inference program, and checks for options that contradict each other or have no
   effect. */
#include <math.h>
#include <string.h>

#include "tools/cli_json.h"
#include "tools/inference/checkpoint.h"
#include "tools/inference/inference_score.h"
#include "tools/requests/requests_options.h"
#include "tools/serving/serving_options.h"

static const inference_args defaults = {
    .tp = 1,
    .batch_size = 1,
    .seed = 1,
    .watchdog = 60,
    .temperature = NAN,
    .top_k = -1,
    .top_p = NAN,
    .mask_id = -1,
    .dtype = -1,
    .weight_dtype = -1,
    .min_p = NAN,
    .dispatcher = SYN_DISPATCH_ALLGATHER,
    .repetition_penalty = NAN,
    .serving = {.max_seqs = 128, .max_tokens = 2048, .block_tokens = SERVING_DEFAULT_BLOCK_TOKENS},
    .device = "cpu",
    .out_dir = "."};

static inference_args args;

const cli_option inference_options[] = {
    CLI_GROUP("Parallelism and device"),
    {"tp", CLI_INT, &args.tp, "N",
     "tensor-parallel size: threads of this process, or MPI processes", 1, 65536},
    {"sp", CLI_FLAG, &args.parallel.sp, NULL,
     "sequence parallelism: tensor-parallel ranks divide the tokens of a prompt between sharded "
     "layers; single tokens are not divided",
     0, 0},
    {"pp", CLI_INT, &args.parallel.pp, "N",
     "pipeline stages: N times as many threads or processes; stages run one after the other [1]", 1,
     65536},
    {"layers_per_stage", CLI_TEXT, &args.layers_per_stage, "N,N,...",
     "layers of each pipeline stage, such as 7,8,8,7; default: the same number", 0, 0},
    {"dp", CLI_INT, &args.dp, "N",
     "data-parallel size: N times as many threads or processes, each group with its part of the "
     "batch [1]",
     1, 65536},
    {"ep", CLI_INT, &args.parallel.ep, "N",
     "expert parallelism: N ranks share the experts of each layer: the tensor-parallel ranks, or "
     "with --dp also those of several parts of the batch [1]",
     1, 65536},
    {"etp", CLI_INT, &args.parallel.etp, "N",
     "tensor-parallel size of experts; default: 1 with --ep, otherwise --tp", 1, 65536},
    {"moe_dispatcher", CLI_CHOICE, &args.dispatcher, "alltoall|allgather|deepep",
     "--ep, if the ranks have different tokens: send a token once per expert, send all tokens to "
     "all ranks, or (meta) send a token once per rank and node, as DeepEP does",
     0, 0},
    {"moe_dispatch_fp8", CLI_FLAG, &args.dispatch_fp8, NULL,
     "deepep: send tokens in 8-bit floats with a scale per 128 elements; results return in --dtype",
     0, 0},
    ZERO_OPTION(args.parallel),
    CP_OPTION(args.parallel),
    {"device", CLI_TEXT, &args.device, LAUNCH_DEVICES,
     "where to run; meta records every op and computes nothing", 0, 0},
    CLI_GROUP("Model"),
    {"model", CLI_TEXT, &args.model, "NAME",
     "preset: gpt2, gpt3-175b, bert-base-uncased, ...; an unknown name lists all", 0, 0},
    {"model_config", CLI_TEXT, &args.model_config, "FILE",
     "HuggingFace config.json; default: the one next to the weights, else "
     "examples/configs/gpt3-tiny.json (2 layers)",
     0, 0},
    {"weights", CLI_TEXT, &args.weights, "DIR|FILE",
     "safetensors checkpoint with HuggingFace's names; default: random weights", 0, 0},
    {"dtype", CLI_CHOICE, &args.dtype, "f32|f16|bf16",
     "dtype of weights, activations, KV cache and collectives; sums within an op are f32 [f32; for "
     "a GPU on --device meta: the dtype of the published checkpoint, else bf16]",
     0, 0},
    {"weight_dtype", CLI_CHOICE, &args.weight_dtype, "f32|f16|bf16",
     "dtype of the weight matrices alone, with f32 arithmetic; default without --dtype: the "
     "checkpoint's, f32 for random weights",
     0, 0},
    {"tokenizer", CLI_TEXT, &args.tokenizer, "DIR|bytes",
     "folder with tokenizer.json, vocab.json and merges.txt, or vocab.txt; bytes: each byte is a "
     "token; default: the tokenizer of the weights, bytes for random weights",
     0, 0},
    CLI_GROUP("Prompts and sampling"),
    {"prompt", CLI_TEXT, &args.prompt, "TEXT",
     "text to continue, or to fill in at each [MASK]; default: a built-in sentence", 0, 0},
    {"prompts", CLI_TEXT, &args.prompts, "FILE",
     "read a batch of prompts: one per line, blank lines included, padded to the longest", 0, 0},
    {"prompt_ids", CLI_TEXT, &args.prompt_ids, "FILE",
     "read a batch of prompts as token ids separated by spaces; BERT: without [CLS] and [SEP] if "
     "there is a tokenizer, else with them",
     0, 0},
    {"mask_id", CLI_INT, &args.mask_id, "N",
     "id of BERT's [MASK] in --prompt_ids without a tokenizer; default: predict every position", 0,
     1e9},
    {"num_input_tokens", CLI_INT, &args.num_input_tokens, "N",
     "prompt length in tokens: the prompt is truncated or repeated to fit (BERT: includes [CLS] "
     "and "
     "[SEP]); default: the prompt as it is",
     1, 1e9},
    {"num_output_tokens", CLI_INT, &args.num_output_tokens, "N",
     "GPT: tokens to generate [16; none with --logits all, or with --embeddings alone]", 1, 1e9},
    {"batch_size", CLI_INT, &args.batch_size, "N", "sequences to run at once with this prompt", 1,
     1e6},
    {"temperature", CLI_REAL, &args.temperature, "T",
     "GPT: sampling temperature; 0 = always take the likeliest token [1]", 0, 1e6},
    {"top_k", CLI_INT, &args.top_k, "K",
     "GPT: sample from the K likeliest tokens, 0 = all; BERT: number of predictions to print, 0 = "
     "5",
     0, 1e9},
    {"top_p", CLI_REAL, &args.top_p, "P",
     "GPT: sample from the smallest set of tokens with total probability P [1]", 1e-9, 1},
    {"min_p", CLI_REAL, &args.min_p, "P",
     "GPT: sample from tokens at least P times as likely as the likeliest [0]", 0, 1},
    {"greedy", CLI_FLAG, &args.greedy, NULL, "GPT: always take the likeliest token", 0, 0},
    {"repetition_penalty", CLI_REAL, &args.repetition_penalty, "X",
     "GPT: divide positive logits of earlier tokens by X, multiply negative ones by X [1]", 1e-6,
     1e6},
    {"eos", CLI_TEXT, &args.eos, "ID,...|TOKEN|none",
     "GPT: tokens that end a text; default: from the files next to the weights", 0, 0},
    {"seed", CLI_INT, &args.seed, "N", "seed of random weights and of sampling", 0,
     9007199254740991.0},
    CLI_GROUP("Serving"),
    REQUESTS_OPTION(args.serving.requests),
    REQUEST_OPTIONS(args.serving.requests, "1000"),
    SERVING_STEP_OPTIONS(args.serving, "", ""),
    SERVING_PROMPT_OPTIONS(args.serving),
    SERVING_BLOCK_OPTION(args.serving),
    SERVING_CACHE_OPTIONS(args.serving),
    SERVING_SLO_OPTION(&args.serving.slo_text),
    CLI_GROUP("Computation and prediction"),
    {"attention", CLI_CHOICE, &args.attention, "auto|fused|unfused",
     "fused: one op, faster; unfused: product, mask, softmax and product, shows more; auto: "
     "unfused with --visualize_trace or --debug, else fused",
     0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]",
     LAUNCH_MACHINES "; default with --device meta: "
                     "a100-80g+serving",
     0, 0},
    {"compare", CLI_TEXT, &args.compare, "MACHINE[+STACK],...",
     "predict the times of the same ops for these machines, too", 0, 0},
    {"sweep", CLI_TEXTS, &args.sweep, "KEY=VALUE,...",
     "predict every combination, such as tp=1,2,4 batch_size=1,8 dtype=bf16,f32 hw=h100,h200; "
     "write all to sweep.csv and sweep.svg",
     0, 0},
    CLI_GROUP("Output"),
    {"visualize_trace", CLI_FLAG, &args.visualize_trace, NULL,
     "write pictures, an HTML report, JSON, Chakra traces and a timeline", 0, 0},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR", "folder for these files; created if missing", 0, 0},
    {"save_logits", CLI_TEXT, &args.save_logits, "FILE.npy",
     "write logits of the last prompt position, shape (batch, vocabulary), or of each [MASK]", 0,
     0},
    {"logits", CLI_CHOICE, &args.logits, "last|all",
     "all: --save_logits writes every position, shape (batch, tokens, vocabulary), zeros after "
     "shorter prompts",
     0, 0},
    {"embeddings", CLI_TEXT, &args.embeddings, "FILE.npy",
     "write hidden states of every position, shape (batch, tokens, hidden), as last_hidden_state "
     "of transformers; zeros after shorter prompts",
     0, 0},
    {"pooling", CLI_CHOICE, &args.pooling, "none|mean|first|last",
     "reduce --embeddings to one vector per prompt, shape (batch, hidden): mean of its tokens, "
     "first token (BERT's [CLS]) or last token",
     0, 0},
    CLI_GROUP("Other"),
    {"perplexity", CLI_TEXT, &args.perplexity, "FILE",
     "GPT: compute the perplexity of a text, as HuggingFace's \"Perplexity of fixed-length "
     "models\" does",
     0, 0},
    {"max_length", CLI_INT, &args.max_length, "N",
     "window of --perplexity in tokens; default: the model's number of positions", 2, 1e9},
    {"stride", CLI_INT, &args.stride, "N",
     "tokens from one window of --perplexity to the next [512, at most a window]", 1, 1e9},
    {"save_weights", CLI_TEXT, &args.save_weights, "DIR",
     "save model and tokenizer in the format of transformers", 0, 0},
    {"check_collectives", CLI_FLAG, &args.check_collectives, NULL,
     "over MPI: compare the ranks' calls before each collective (threads always do)", 0, 0},
    {"watchdog", CLI_INT, &args.watchdog, "SECONDS",
     "over MPI: print what a rank waits for after this time, stop the job after ten times this "
     "time; 0 = never",
     0, 1e6},
    {"debug", CLI_FLAG, &args.debug, NULL, "print every recorded op of rank 0 to standard error", 0,
     0},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print only errors", 0, 0},
    CLI_JSON(&args.json),
    LAUNCH_ALIASES,
    CLI_END};

inference_args *inference_arguments(void) {
    return &args;
}

void inference_set_defaults(void) {
    args = defaults;
}

/* --attention auto selects fused attention, because it is faster, unless the user wants to see the
   ops. */
static bool choose_attention(void) {
    const bool shown = (args.visualize_trace || args.debug) && !inference_serves(&args);
    return args.attention == INFERENCE_AUTO ? !shown : args.attention == INFERENCE_FUSED;
}

/* With a 16-bit --dtype, the weights must have the same dtype. */
static int check_dtypes(inference *run) {
    const bool given = args.weight_dtype >= 0;
    run->dtype = args.dtype >= 0 ? (syn_dtype)args.dtype : SYN_F32;
    run->weight_dtype = given ? (syn_dtype)args.weight_dtype : run->dtype;
    if (run->dtype == SYN_F32 || run->weight_dtype == run->dtype) return CLI_RUN;
    const char *name = syn_dtype_name(run->dtype);
    return cli_fail(run->launch.program, CLI_USAGE,
                    "--weight_dtype %s: with --dtype %s the weights are %s, too",
                    syn_dtype_name(run->weight_dtype), name, name);
}

/* Returns an error message if options contradict each other for every model, else NULL. */
static const char *contradiction(bool meta) {
    if (args.save_logits && meta)
        return "--save_logits needs values, but --device meta computes none; use another device";
    if (args.embeddings && meta)
        return "--embeddings needs values, but --device meta computes none; use another device";
    if (inference_serves(&args) && meta)
        return "--requests serves in real time, but --device meta computes nothing; use `syntorch "
               "serve`, which simulates a server";
    if (args.save_weights && meta)
        return "--save_weights needs values, but --device meta has none; use another device";
    if (args.eos && meta) return "--eos has no effect: --device meta generates no text; omit it";
    if (args.dispatcher == SYN_DISPATCH_DEEPEP && !meta)
        return "--moe_dispatcher deepep is for --device meta: it predicts DeepEP's kernels; use "
               "alltoall, which has the same results";
    if (args.model && args.model_config)
        return "--model and --model_config both select the model; give one";
    if ((args.prompt != NULL) + (args.prompts != NULL) + (args.prompt_ids != NULL) > 1)
        return "--prompt, --prompts and --prompt_ids exclude each other; give one";
    return NULL;
}

/* Returns an error message if the task of the model does not use a given option, else NULL. */
static const char *useless(inference *run) {
    if (checkpoint_configure(run, &run->unknown) != SYN_OK) return NULL;
    const bool generates = run->task == &inference_generate && !inference_scores(&args);
    if (run->launch.parallel.pp > 1 && !generates)
        return "--pp generates text in stages; omit it with BERT, --perplexity, --logits all and "
               "--embeddings";
    if (run->launch.parallel.dp > 1 && !generates && !args.ids)
        return "--dp divides a batch of texts that are generated; omit it with BERT, --perplexity, "
               "--logits all and --embeddings";
    if (inference_serves(&args) && run->task == &inference_fill)
        return "--requests needs a model that generates text, and BERT does not";
    return run->task->refuses ? run->task->refuses(&args) : NULL;
}

/* Rejects options that have no effect with or without --requests. */
static int check_serving(const cli_program *program, int argc, char **argv) {
    const cli_rule rules[] = {
        REQUEST_OPTIONS_RULE(args.serving.requests),
        {!inference_serves(&args),
         {"policy", "scheduling_policy", "max_num_seqs", "max_num_batched_tokens",
          "long_prefill_token_threshold", "no_chunked_prefill", "block_size", "num_gpu_blocks",
          "no_prefix_caching", "slo"},
         "has no effect without --requests; give that, too, or omit it"},
        {args.serving.policy == 2,
         {"long_prefill_token_threshold"},
         "has no effect with --policy static; omit it"},
        {args.serving.unchunked,
         {"long_prefill_token_threshold"},
         "has no effect with --no-chunked-prefill; omit it"},
        {inference_serves(&args),
         {"prompt"},
         "has no effect with --requests; omit it, or give a prompt per request with --prompts "
         "FILE"},
        {inference_serves(&args),
         {"num_input_tokens", "num_output_tokens", "batch_size"},
         "has no effect with --requests, which says how many requests and tokens there are; omit "
         "it"},
        {inference_serves(&args),
         {"temperature", "top_k", "top_p", "min_p"},
         "cannot be used with --requests, which always takes the likeliest token, so that texts do "
         "not depend on each other; omit it"},
        {inference_serves(&args),
         {"pp", "dp", "sp"},
         "cannot be used with --requests, which serves with the threads of --tp; omit it"},
        {inference_serves(&args),
         {"attention"},
         "has no effect with --requests, whose attention reads a paged KV cache; omit it"},
        {inference_serves(&args),
         {"perplexity", "mask_id", "sweep", "compare", "save_logits", "logits", "embeddings"},
         "cannot be used with --requests; omit it"},
    };
    args.serving.listed = inference_serves(&args) &&
                          (args.visualize_trace || cli_was_given(program, argc, argv, "out_dir"));
    int code = cli_check_rules(program, argc, argv, rules, sizeof rules / sizeof *rules);
    args.serving.slo = serving_default_slo;
    if (code == CLI_RUN && args.serving.slo_text)
        code = serving_read_slo(program, args.serving.slo_text, &args.serving.slo);
    return code;
}

int inference_check_given(const cli_program *program, int argc, char **argv) {
    const cli_rule rules[] = {
        {!args.visualize_trace && args.sweep.n == 0 && !inference_serves(&args),
         {"out_dir"},
         "has no effect without --visualize_trace, --sweep or --requests; give one, or omit it"},
        {args.tp < 2 && !parallel_sweeps(&args.sweep, "tp"),
         {"sp"},
         "has no effect without --tp; give that, too, or omit it"},
        {args.parallel.pp < 2 && !parallel_sweeps(&args.sweep, "pp"),
         {"layers_per_stage"},
         "has no effect without --pp; give that, too, or omit it"},
        {args.parallel.ep < 2 && !parallel_sweeps(&args.sweep, "ep"),
         {"moe_dispatcher"},
         "has no effect without --ep, by which ranks get the rows of their experts; give that, "
         "too, or omit it"},
        {args.tp > 1 && !args.parallel.sp,
         {"moe_dispatcher"},
         "has no effect with --tp, whose ranks have the same tokens and sum their experts' "
         "outputs; omit it, or give --sp"},
        {args.dispatcher != SYN_DISPATCH_DEEPEP,
         {"moe_dispatch_fp8"},
         "has no effect without --moe_dispatcher deepep; give that, too, or omit it"},
    };
    int code = cli_check_rules(program, argc, argv, rules, sizeof rules / sizeof *rules);
    if (code == CLI_RUN) code = check_serving(program, argc, argv);
    if (code == CLI_RUN) code = cli_json_check_output(program, "save_logits", args.save_logits);
    return code == CLI_RUN ? cli_json_check_output(program, "embeddings", args.embeddings) : code;
}

static int refuse_processes(const launch *l, int64_t stages) {
    return cli_fail(l->program, CLI_USAGE,
                    "%d MPI processes were started, but --tp%s%s is %lld; they must be equal",
                    l->ranks, stages > 1 ? " x --pp" : "", args.dp > 1 ? " x --dp" : "",
                    (long long)inference_ranks(&args));
}

int inference_check_options(inference *run) {
    launch *l = &run->launch;
    run->args = &args;
    const int64_t stages = args.parallel.pp > 0 ? args.parallel.pp : 1;
    if (l->mpi && l->ranks != inference_ranks(&args)) return refuse_processes(l, stages);
    if (l->mpi && stages > 1 && (args.hw || args.compare))
        return cli_fail(l->program, CLI_USAGE,
                        "--hw and --compare predict a pipeline without MPI, best with --device "
                        "meta");
    const int device = launch_device(l, args.device);
    if (device != CLI_RUN) return device;
    const bool meta = l->device == SYN_DEVICE_META;
    if (inference_serves(&args) && (l->mpi || l->device == SYN_DEVICE_CUDA))
        return cli_fail(l->program, CLI_USAGE,
                        "--requests runs only in one process on the CPU; omit mpirun and --device");
    const int dtypes = check_dtypes(run);
    if (dtypes != CLI_RUN) return dtypes;
    const char *sentence = contradiction(meta);
    if (!sentence) sentence = useless(run);
    if (sentence) return cli_fail(l->program, CLI_USAGE, "%s", sentence);
    run->fused_attention = choose_attention();
    args.greedy = args.greedy || inference_serves(&args);
    l->ranks = (int32_t)inference_ranks(&args);
    l->alone_n = (int32_t)stages;
    l->alone_step = (int32_t)(l->ranks / stages);
    l->quiet = args.quiet;
    l->check_collectives = args.check_collectives;
    l->watchdog_s = args.watchdog;
    l->want_hashes = args.json;
    l->want_graph = args.visualize_trace || args.debug;
    return CLI_RUN;
}
