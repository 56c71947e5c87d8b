/* Options of the pretraining program, and checks for options that contradict each other or have no
   effect. */
#include <string.h>

#include "syntorch/base/types.h"
#include "tools/folders.h"
#include "tools/pretrain/division_options.h"
#include "tools/pretrain/pretrain.h"

static const pretrain_args defaults = {.device = "cpu",
                                       .parallel = {.schedule = -1},
                                       .out_dir = "outputs",
                                       .trace_name = "trace",
                                       .batch_size = 4,
                                       .learning_rate = 5e-5,
                                       .weight_decay = 0.01,
                                       .num_epochs = 3,
                                       .max_grad_norm = 1,
                                       .warmup_steps = -1,
                                       .masking = -1,
                                       .buckets = -1,
                                       .dtype = -1,
                                       .accumulation = 1,
                                       .max_seq_length = 512,
                                       .num_gpus = 1,
                                       .tp = 1,
                                       .seed = 42,
                                       .dropout = -1,
                                       .aux_coefficient = -1,
                                       .trace_wait = 1,
                                       .trace_active = 1,
                                       .trace_repeat = 1};

pretrain_args pretrain_given;

void pretrain_set_defaults(void) {
    pretrain_given = defaults;
}

const cli_option pretrain_options[] = {
    CLI_GROUP("Model and data"),
    {"model", CLI_TEXT, &pretrain_given.model, "NAME",
     "preset: gpt2, qwen2.5-0.5b, llama-3-8b, bert-base-uncased, ...; an unknown name lists all; "
     "default: examples/configs/gpt2-mini.json (small)",
     0, 0},
    {"model_config", CLI_TEXT, &pretrain_given.model_config, "FILE", "HuggingFace config.json", 0,
     0},
    {"weights", CLI_TEXT, &pretrain_given.weights, "DIR",
     "start from this HuggingFace checkpoint, with its model and tokenizer; default: random "
     "weights",
     0, 0},
    {"tokenizer", CLI_TEXT, &pretrain_given.tokenizer, "DIR|bytes",
     "folder with tokenizer.json, vocab.json and merges.txt, or vocab.txt; bytes: each byte is a "
     "token; default: the tokenizer of the weights; without weights a small one, or bytes if the "
     "model's vocabulary is smaller",
     0, 0},
    {"data", CLI_TEXTS, &pretrain_given.data, "FILE...",
     "training data in SQuAD's JSON format; default: examples/squad/train.json", 0, 0},
    {"eval_data", CLI_TEXTS, &pretrain_given.eval_data, "FILE...",
     "validation data; default: none with --data, else examples/squad/validation.json", 0, 0},
    {"cache_dir", CLI_TEXT, &pretrain_given.cache_dir, "DIR", "cache tokenized data in this folder",
     0, 0},
    {"max_seq_length", CLI_INT, &pretrain_given.max_seq_length, "N", "tokens per sample", 4, 1e6},
    CLI_GROUP("Training"),
    {"batch_size", CLI_INT, &pretrain_given.batch_size, "N",
     "samples per data-parallel rank and microbatch", 1, 1e6},
    {"micro_batch", CLI_ALIAS, NULL, "batch_size", NULL, 0, 0},
    {"gradient_accumulation_steps", CLI_INT, &pretrain_given.accumulation, "N",
     "microbatches per step", 1, 1e6},
    {"learning_rate", CLI_REAL, &pretrain_given.learning_rate, "R", "peak learning rate", 0, 1e3},
    {"weight_decay", CLI_REAL, &pretrain_given.weight_decay, "D",
     "weight decay of matrices and embedding tables", 0, 1e3},
    {"warmup_steps", CLI_INT, &pretrain_given.warmup_steps, "N",
     "steps of linear learning-rate warm-up [0; 500 with --recipe reference]", 0, 1e12},
    {"recipe", CLI_CHOICE, &pretrain_given.reference, "default|reference",
     "reference: like common PyTorch projects: padding counts in the loss, GPT-2's norms are "
     "decayed, BERT's samples are one segment (docs/training.md)",
     0, 0},
    {"max_grad_norm", CLI_REAL, &pretrain_given.max_grad_norm, "G",
     "clip gradients to norm G; 0 = no clipping", 0, 1e9},
    {"dropout", CLI_REAL, &pretrain_given.dropout, "P",
     "dropout probability of activations; default: from config.json, or the model's own", 0, 0.999},
    ROUTER_OPTIONS,
    {"mask_policy", CLI_CHOICE, &pretrain_given.masking, "bert|mask-only",
     "BERT: 80 % of the words to predict become [MASK]; bert: 10 % become a random word; "
     "mask-only: none does [bert]",
     0, 0},
    {"num_epochs", CLI_INT, &pretrain_given.num_epochs, "N", "passes over the training data", 1,
     1e9},
    {"max_steps", CLI_INT, &pretrain_given.max_steps, "N", "stop after N steps; 0 = no limit", 0,
     1e12},
    CLI_GROUP("Validation and checkpoints"),
    {"eval_steps", CLI_INT, &pretrain_given.eval_steps, "N",
     "validate every N steps in addition to each epoch's end; 0 = only then", 0, 1e12},
    {"skip_eval", CLI_FLAG, &pretrain_given.skip_eval, NULL,
     "do not validate; save the last model instead of the best", 0, 0},
    {"save_steps", CLI_INT, &pretrain_given.save_steps, "N",
     "save a checkpoint every N steps; 0 = never", 0, 1e12},
    {"save_total_limit", CLI_INT, &pretrain_given.save_total_limit, "N",
     "keep only the latest N checkpoints; 0 = all", 0, 1e9},
    {"resume", CLI_FLAG, &pretrain_given.resume, NULL,
     "continue from the latest checkpoint in --save-dir, if there is one", 0, 0},
    {"logging_steps", CLI_INT, &pretrain_given.logging_steps, "N",
     "print a line every N steps; default: 10, on a terminal a progress bar", 1, 1e12},
    {"save_dir", CLI_TEXT, &pretrain_given.save_dir, "DIR",
     "folder for models, metrics.csv and loss.svg; default: checkpoints/<model>", 0, 0},
    CLI_GROUP("Parallelism"),
    {"num_gpus", CLI_INT, &pretrain_given.num_gpus, "N",
     "number of ranks: threads of this process, or MPI processes", 1, 65536},
    {"dp", CLI_INT, &pretrain_given.dp, "N",
     "data-parallel size; default: num_gpus divided by the other sizes", 1, 65536},
    {"global_batch", CLI_INT, &pretrain_given.global_batch, "N",
     "samples per step, instead of --gradient-accumulation-steps", 1, 1e9},
    DIVISION_OPTIONS,
    CLI_GROUP("Device, precision and prediction"),
    {"device", CLI_TEXT, &pretrain_given.device, LAUNCH_DEVICES,
     "where to run; meta computes nothing: it predicts a step, and records it with "
     "--enable-tracing",
     0, 0},
    {"hw", CLI_TEXT, &pretrain_given.hw, "MACHINE[+STACK]",
     LAUNCH_MACHINES "; default with --device meta: "
                     "a100-80g+megatron",
     0, 0},
    {"compare", CLI_TEXT, &pretrain_given.compare, "MACHINE[+STACK],...",
     "predict the time of the same step for these machines, too", 0, 0},
    {"dtype", CLI_CHOICE, &pretrain_given.dtype, "f32|bf16",
     "dtype of parameters, activations and tensor-parallel collectives; bf16 keeps f32 master "
     "weights, gradients and moments [f32; for a GPU on --device meta: the dtype of the published "
     "checkpoint, else bf16]",
     0, 0},
    PASS_OPTIONS,
    LOAD_OPTIONS,
    CLI_GROUP("Traces"),
    {"enable_tracing", CLI_FLAG, &pretrain_given.enable_tracing, NULL,
     "record steps and write their traces", 0, 0},
    {"trace_skip_first", CLI_INT, &pretrain_given.trace_skip_first, "N",
     "untraced steps before the first cycle", 0, 1e12},
    {"trace_wait_steps", CLI_INT, &pretrain_given.trace_wait, "N",
     "untraced steps at the start of each cycle", 0, 1e12},
    {"trace_warmup_steps", CLI_INT, &pretrain_given.trace_warmup, "N",
     "further untraced steps before the trace", 0, 1e12},
    {"trace_active_steps", CLI_INT, &pretrain_given.trace_active, "N", "traced steps per cycle", 1,
     1e6},
    {"trace_repeat", CLI_INT, &pretrain_given.trace_repeat, "N",
     "number of cycles; 0 = until training ends; files are named NAME_step<last step>.* unless N "
     "is 1",
     0, 1e9},
    {"out_dir", CLI_TEXT, &pretrain_given.out_dir, "DIR", "folder for traces", 0, 0},
    {"trace_name", CLI_TEXT, &pretrain_given.trace_name, "NAME",
     "prefix of trace files: NAME.0.et, ...", 0, 0},
    {"visualize_trace", CLI_FLAG, &pretrain_given.visualize_trace, NULL,
     "also write pictures (NAME_graph and NAME_comm, .svg and .png), an HTML report (NAME.html) "
     "and a graph (NAME_graph.json)",
     0, 0},
    {"profile_memory", CLI_FLAG, &pretrain_given.profile_memory, NULL,
     "record memory allocation events in NAME.0_kineto.json", 0, 0},
    {"with_stack", CLI_FLAG, &pretrain_given.with_stack, NULL,
     "record each op's modules in NAME.0_kineto.json, and group NAME_stacks.txt by them", 0, 0},
    CLI_GROUP("Other"),
    {"sweep", CLI_TEXTS, &pretrain_given.sweep, "KEY=VALUE,...",
     "predict a step of every combination, such as num_gpus=8,64 tp=1,2,8 batch_size=4,16 "
     "hw=h100,h200; write all to sweep.csv and sweep.svg in --out-dir",
     0, 0},
    {"seed", CLI_INT, &pretrain_given.seed, "N", "seed of weights, sample order, masks and dropout",
     0, 1e15},
    {"quiet", CLI_FLAG, &pretrain_given.quiet, NULL, "print only errors", 0, 0},
    CLI_JSON(&pretrain_given.json),
    LAUNCH_ALIASES,
    CLI_END};

int pretrain_check_division(const pretrain *run, int argc, char **argv) {
    const pretrain_args *a = run->args;
    const cli_rule rules[] = {
        {a->tp < 2 && !parallel_sweeps(&a->sweep, "tp"),
         {"sp"},
         "has no effect without --tp; give that, too, or omit it"},
        {a->parallel.ep < 2,
         {"routing", "moe-dispatcher", "overlap-a2a"},
         "has no effect without --ep, by which ranks get the rows of their experts; give that, "
         "too, "
         "or omit it"},
        {a->dispatcher != SYN_DISPATCH_DEEPEP,
         {"moe-dispatch-fp8"},
         "has no effect without --moe-dispatcher deepep; give that, too, or omit it"},
        {!a->parallel.sp, {"sp-keep"}, "has no effect without --sp; give that, too, or omit it"},
        {a->parallel.cp < 2 && !parallel_sweeps(&a->sweep, "cp"),
         {"cp-comm", "cp-a2a"},
         "has no effect without --cp; give that, too, or omit it"},
        {a->parallel.zero < 3 && !parallel_sweeps(&a->sweep, "zero"),
         {"no-reshard", "hsdp"},
         "has no effect without --zero 3; give that, too, or omit it"},
        {a->parallel.pp > 1 && !parallel_sweeps(&a->sweep, "pp"),
         {"no-reshard"},
         "has no effect with --pp: a pipeline gathers parameters once per step; omit it"},
        {a->parallel.zero == 3,
         {"buckets"},
         "has no effect with --zero 3, which gathers the parameters of a layer at a time; omit it"},
        {a->parallel.pp < 2 && !parallel_sweeps(&a->sweep, "pp"),
         {"layers-per-stage", "count-embedding", "count-loss", "layout"},
         "has no effect without --pp; give that, too, or omit it"},
        {a->division.layout != NULL,
         {"layers-per-stage", "count-embedding", "count-loss", "mtp"},
         "contradicts --layout, which has the layers of all stages; omit one"},
        {a->division.layers != NULL,
         {"count-embedding", "count-loss"},
         "has no effect with --layers-per-stage; omit one"},
    };
    return cli_check_rules(run->launch.program, argc, argv, rules, sizeof rules / sizeof *rules);
}

static int check_rules(const pretrain *run, int argc, char **argv) {
    const pretrain_args *a = run->args;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    const cli_rule rules[] = {
        {!a->enable_tracing,
         {"trace-skip-first", "trace-wait-steps", "trace-warmup-steps", "trace-active-steps",
          "trace-repeat", "out-dir", "trace-name", "visualize-trace", "profile-memory",
          "with-stack"},
         "has no effect without --enable-tracing; give that, too, or omit it"},
        {!a->enable_tracing && !meta,
         {"hw", "compare"},
         "has no effect without --enable-tracing or --device meta; give one, or omit it"},
        {!meta,
         {"routing"},
         "is for --device meta: with data, routers choose the experts; omit it"},
        {a->skip_eval, {"eval-data", "eval-steps"}, "has no effect with --skip-eval; omit one"},
        {a->data.n > 0 && a->eval_data.n == 0,
         {"eval-steps"},
         "has no effect without validation data; name it with --eval-data"},
        {a->save_steps == 0,
         {"save-total-limit"},
         "has no effect without --save-steps, which says when checkpoints are written"},
        {a->reference && a->masking == SYN_MASKING_BERT,
         {"mask-policy"},
         "bert contradicts --recipe reference, which masks as mask-only does; omit one"},
    };
    return cli_check_rules(run->launch.program, argc, argv, rules, sizeof rules / sizeof *rules);
}

/* Prints a note that lists the training options without effect. On meta nothing is trained, but
   these options are accepted so that a command line can be reused. */
static void note_meta(const pretrain *run, int argc, char **argv) {
    static const char *const names[] = {"eval-data", "eval-steps", "save-dir", "save-steps",
                                        "save-total-limit", "resume", "learning-rate",
                                        "warmup-steps", "logging-steps", "mask-policy",
                                        /* the following options have no effect only if no trace is
                                           written */
                                        "seed", "num-epochs", "max-steps", "skip-eval"};
    enum { OF_TRACES = 10 }; /* number of names before these options */
    const size_t n = run->args->enable_tracing ? OF_TRACES : sizeof names / sizeof *names;
    char list[240] = "";
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (cli_was_given(run->launch.program, argc, argv, names[i]))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s--%s", used ? ", " : "",
                                     names[i]);
    if (used > 0 && !run->args->quiet && !run->launch.program->mute)
        fprintf(stderr, "%s: note: no effect with --device meta, which does not train: %s\n",
                run->launch.program->name, list);
}

static void note_no_model(const pretrain *run) {
    const pretrain_args *a = run->args;
    if (a->skip_eval && a->enable_tracing && a->save_steps == 0 && !a->quiet &&
        !run->launch.program->mute)
        fprintf(stderr,
                "%s: note: --skip-eval with --enable-tracing saves no model; --save-steps N saves "
                "checkpoints\n",
                run->launch.program->name);
}

/* For a run without a trace: records only the first step of one rank, because all ranks run the
   same ops. */
void pretrain_predict_alone(pretrain *run) {
    run->predicts = run->launch.alone = true;
    pretrain_given.enable_tracing = pretrain_given.skip_eval = true;
    pretrain_given.trace_wait = 0;
    pretrain_given.max_steps = 0;
}

/* Sets the number of ranks from --dp, and the number of microbatches from --global-batch. */
int pretrain_take_sizes(const cli_program *program, int argc, char **argv) {
    const int64_t cp = pretrain_given.parallel.cp > 0 ? pretrain_given.parallel.cp : 1;
    const int64_t pp = pretrain_given.parallel.pp > 0 ? pretrain_given.parallel.pp : 1;
    const int64_t others = pretrain_given.tp * cp * pp;
    char with_cp[32] = "";
    if (cp > 1) snprintf(with_cp, sizeof with_cp, " x cp %lld", (long long)cp);
    const bool counted = cli_was_given(program, argc, argv, "num-gpus");
    if (pretrain_given.dp > 0 && counted && pretrain_given.num_gpus != others * pretrain_given.dp)
        return cli_fail(program, CLI_USAGE,
                        "--num-gpus %lld contradicts tp %lld%s x dp %lld x pp %lld, which is %lld",
                        (long long)pretrain_given.num_gpus, (long long)pretrain_given.tp, with_cp,
                        (long long)pretrain_given.dp, (long long)pp,
                        (long long)(others * pretrain_given.dp));
    if (pretrain_given.dp == 0 && counted && pretrain_given.num_gpus % others != 0) {
        char with_pp[32] = "";
        if (pp > 1) snprintf(with_pp, sizeof with_pp, " x pp %lld", (long long)pp);
        return cli_fail(program, CLI_USAGE, "%lld ranks are not a multiple of tp %lld%s%s",
                        (long long)pretrain_given.num_gpus, (long long)pretrain_given.tp, with_cp,
                        with_pp);
    }
    if (pretrain_given.dp > 0) pretrain_given.num_gpus = others * pretrain_given.dp;
    if (pretrain_given.num_gpus >= SYN_MAX_WORLD)
        return cli_fail(program, CLI_USAGE, "%lld ranks are too many; the limit is %d",
                        (long long)pretrain_given.num_gpus, SYN_MAX_WORLD - 1);
    if (pretrain_given.global_batch == 0) return CLI_RUN;
    if (cli_was_given(program, argc, argv, "gradient-accumulation-steps"))
        return cli_fail(program, CLI_USAGE,
                        "--global-batch and --gradient-accumulation-steps both set the number of "
                        "microbatches; give one");
    const int64_t each = pretrain_given.batch_size * (pretrain_given.num_gpus / others);
    if (each == 0) return CLI_RUN; /* too few ranks; reported with the plan */
    if (pretrain_given.global_batch % each != 0)
        return cli_fail(program, CLI_USAGE,
                        "--global-batch %lld is not a multiple of %lld, the samples of a "
                        "microbatch (%lld) on %lld data-parallel ranks",
                        (long long)pretrain_given.global_batch, (long long)each,
                        (long long)pretrain_given.batch_size,
                        (long long)(pretrain_given.num_gpus / others));
    pretrain_given.accumulation = pretrain_given.global_batch / each;
    return CLI_RUN;
}

int pretrain_check_options(pretrain *run, int argc, char **argv) {
    const pretrain_args *a = run->args = &pretrain_given;
    const cli_program *program = run->launch.program;
    const int device = launch_device(&run->launch, a->device);
    if (device != CLI_RUN) return device;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    if ((a->model != NULL) + (a->model_config != NULL) + (a->weights != NULL) > 1)
        return cli_fail(program, CLI_USAGE,
                        "--model, --model-config and --weights all select the model; give one");
    int code = check_rules(run, argc, argv);
    if (code == CLI_RUN) code = pretrain_check_division(run, argc, argv);
    if (code == CLI_RUN) code = pretrain_take_sizes(program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!folder_is_prefix(a->trace_name))
        return cli_fail(program, CLI_USAGE,
                        "--trace-name '%s' names no file; give a file name, such as trace",
                        a->trace_name);
    if (meta) note_meta(run, argc, argv);
    else note_no_model(run);
    if (a->json) pretrain_given.quiet = true;
    if (meta && !a->enable_tracing) pretrain_predict_alone(run);
    if (run->launch.mpi && run->launch.ranks != a->num_gpus)
        return cli_fail(program, CLI_USAGE,
                        "%d MPI processes were started, but --num-gpus is %lld; they must be equal",
                        run->launch.ranks, (long long)a->num_gpus);
    run->launch.ranks = (int32_t)a->num_gpus;
    return CLI_RUN;
}
