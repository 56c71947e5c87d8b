/* Pretraining of a GPT or BERT on SQuAD's questions and paragraphs, on ranks with other texts (data
   parallelism) that may share each layer (--tp), with one step captured.

   One rank's program is pretrain_rank; it runs on N threads (--num-gpus N), on N processes
   (mpirun -n N), or N times without data (--device meta), and cannot tell which. */
#include <string.h>

#include "syntorch/sink.h"
#include "tools/pretrain/pretrain.h"

static pretrain_args args = {.device = "cpu",
                             .save_dir = "checkpoints",
                             .trace_output_dir = "outputs",
                             .trace_name = "trace",
                             .batch_size = 4,
                             .learning_rate = 5e-5,
                             .weight_decay = 0.01,
                             .num_epochs = 3,
                             .max_grad_norm = 1,
                             .warmup_steps = -1,
                             .accumulation = 1,
                             .max_seq_length = 512,
                             .logging_steps = 10,
                             .num_gpus = 1,
                             .tp = 1,
                             .seed = 42,
                             .dropout = 0.1,
                             .trace_wait = 1,
                             .trace_active = 1,
                             .trace_repeat = 1};

static const cli_option options[] = {
    {"model_name", CLI_TEXT, &args.model_name, "NAME",
     "gpt2, gpt2-medium, gpt2-large, bert-base-uncased, ... (a wrong name lists all); default: the "
     "small examples/configs/gpt2-mini.json",
     0, 0},
    {"model_config", CLI_TEXT, &args.model_config, "FILE", "HuggingFace-style config.json", 0, 0},
    {"weights", CLI_TEXT, &args.weights, "DIR",
     "a checkpoint of HuggingFace's to begin with, and its model and tokenizer; default: random "
     "weights",
     0, 0},
    {"tokenizer", CLI_TEXT, &args.tokenizer, "DIR",
     "folder with vocab.json and merges.txt (GPT-2) or vocab.txt (BERT); default: a small one", 0,
     0},
    {"data", CLI_TEXT, &args.data, "FILE",
     "texts to train on, as SQuAD's JSON; default: examples/squad/train.json", 0, 0},
    {"eval_data", CLI_TEXT, &args.eval_data, "FILE",
     "texts to validate with; default: none with --data, else examples/squad/validation.json", 0,
     0},
    {"cache_dir", CLI_TEXT, &args.cache_dir, "DIR", "keep the texts' tokens there", 0, 0},
    {"max_seq_length", CLI_INT, &args.max_seq_length, "N", "tokens of each text [512]", 4, 1e6},
    {"batch_size", CLI_INT, &args.batch_size, "N", "texts a rank takes at a time [4]", 1, 1e6},
    {"gradient_accumulation_steps", CLI_INT, &args.accumulation, "N", "batches of a step [1]", 1,
     1e6},
    {"learning_rate", CLI_REAL, &args.learning_rate, "R", "the highest [5e-5]", 0, 1e3},
    {"weight_decay", CLI_REAL, &args.weight_decay, "D", "of matrices and tables [0.01]", 0, 1e3},
    {"warmup_steps", CLI_INT, &args.warmup_steps, "N",
     "in which the learning rate rises [0; 500 with --recipe reference]", 0, 1e12},
    {"recipe", CLI_CHOICE, &args.reference, "default|reference",
     "reference: padding in the loss, norms of GPT-2 decayed, BERT's texts as one segment, as "
     "PyTorch projects have it (docs/training.md)",
     0, 0},
    {"max_grad_norm", CLI_REAL, &args.max_grad_norm, "G", "clip gradients; 0: do not [1]", 0, 1e9},
    {"dropout", CLI_REAL, &args.dropout, "P", "[0.1]", 0, 0.999},
    {"mask_policy", CLI_CHOICE, &args.masking, "bert|mask-only",
     "BERT: of the words to predict 80 % are [MASK], 10 % any word, or no word is", 0, 0},
    {"num_epochs", CLI_INT, &args.num_epochs, "N", "[3]", 1, 1e9},
    {"max_steps", CLI_INT, &args.max_steps, "N", "end after so many; 0: do not [0]", 0, 1e12},
    {"eval_steps", CLI_INT, &args.eval_steps, "N",
     "validate every N steps, as after each epoch; 0: then alone [0]", 0, 1e12},
    {"skip_eval", CLI_FLAG, &args.skip_eval, NULL, "do not validate", 0, 0},
    {"save_steps", CLI_INT, &args.save_steps, "N", "save the model every N steps; 0: never [0]", 0,
     1e12},
    {"save_total_limit", CLI_INT, &args.save_total_limit, "N",
     "keep the latest N checkpoints; 0: all [0]", 0, 1e9},
    {"resume", CLI_FLAG, &args.resume, NULL,
     "go on from the latest checkpoint in --save-dir, if there is one", 0, 0},
    {"logging_steps", CLI_INT, &args.logging_steps, "N", "print a line every N steps [10]", 1,
     1e12},
    {"save_dir", CLI_TEXT, &args.save_dir, "DIR", "models, metrics.csv and loss.svg [checkpoints]",
     0, 0},
    {"num_gpus", CLI_INT, &args.num_gpus, "N",
     "ranks: threads of this process, or as many MPI processes [1]", 1, 65536},
    {"tp", CLI_INT, &args.tp, "N", "of them so many share each layer [1]", 1, 65536},
    {"device", CLI_TEXT, &args.device, "cpu|meta",
     "where to run; meta records everything and computes nothing", 0, 0},
    {"hw_config", CLI_TEXT, &args.hw_config, "FILE|NAME",
     "predict the trace's times for this hardware: a100-80g, h100, h200, v100-32g, cpu or a JSON "
     "file; default with --device meta: a100-80g",
     0, 0},
    {"dtype", CLI_CHOICE, &args.dtype, "f32|bf16",
     "of parameters, activations and what ranks that share layers exchange; bf16 has masters, "
     "gradients and moments of f32",
     0, 0},
    {"activation_recompute", CLI_CHOICE, &args.recompute, "none|selective|full",
     "activations that backward computes again", 0, 0},
    {"enable_tracing", CLI_FLAG, &args.enable_tracing, NULL, "write a step's trace", 0, 0},
    {"trace_skip_first", CLI_INT, &args.trace_skip_first, "N", "steps before all cycles [0]", 0,
     1e12},
    {"trace_wait_steps", CLI_INT, &args.trace_wait, "N", "of a cycle, before its trace [1]", 0,
     1e12},
    {"trace_warmup_steps", CLI_INT, &args.trace_warmup, "N", "more of them [0]", 0, 1e12},
    {"trace_active_steps", CLI_INT, &args.trace_active, "N", "steps of the trace [1]", 1, 1e6},
    {"trace_repeat", CLI_INT, &args.trace_repeat, "N",
     "cycles; but for 1 their files are NAME_step<its last>.*; 0: until the end [1]", 0, 1e9},
    {"trace_output_dir", CLI_TEXT, &args.trace_output_dir, "DIR", "[outputs]", 0, 0},
    {"trace_name", CLI_TEXT, &args.trace_name, "NAME", "NAME.0.et and so on [trace]", 0, 0},
    {"profile_memory", CLI_FLAG, &args.profile_memory, NULL,
     "an event for each storage that comes or goes in NAME.0_kineto.json", 0, 0},
    {"with_stack", CLI_FLAG, &args.with_stack, NULL,
     "modules around their ops there; NAME_stacks.txt by them, too", 0, 0},
    {"seed", CLI_INT, &args.seed, "N", "of weights, order, masks and dropout [42]", 0, 1e15},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print nothing but errors", 0, 0},
    CLI_END};

static const char *const examples[] = {
    "pretrain --max-steps 40 --max-seq-length 128           # a small GPT, seconds",
    "pretrain --model-name gpt2 --num-gpus 2 --max-steps 10 --enable-tracing --device meta",
    "mpirun -n 4 pretrain --num-gpus 4 --tp 2 --max-steps 10 --max-seq-length 64", NULL};

static cli_program program = {
    "pretrain", "Trains a GPT or BERT from random weights on questions and paragraphs, traced.",
    options, examples, false};

static pretrain run = {.args = &args};

static syn_status facts(void *unused, syn_graph *graph, syn_error *err) {
    (void)unused;
    (void)graph;
    (void)err;
    return SYN_OK;
}

static int check_options(void) {
    if (strcmp(args.device, "cpu") != 0 && strcmp(args.device, "meta") != 0)
        return cli_fail(&program, CLI_USAGE, "--device is cpu or meta, not '%s'", args.device);
    if ((args.model_name != NULL) + (args.model_config != NULL) + (args.weights != NULL) > 1)
        return cli_fail(&program, CLI_USAGE,
                        "--model-name, --model-config and --weights all say which model; give one");
    run.launch.device = strcmp(args.device, "meta") == 0 ? SYN_DEVICE_META : SYN_DEVICE_CPU;
    return CLI_RUN;
}

static syn_status train(syn_error *err) {
    launch *l = &run.launch;
    l->quiet = args.quiet;
    l->plan = pretrain_plan;
    l->facts = facts;
    l->main = pretrain_rank;
    l->user = &run;
    syn_status s = pretrain_prepare(&run, err);
    if (s == SYN_OK) s = launch_threads(l, err);
    if (s == SYN_OK && !program.mute && l->device == SYN_DEVICE_CPU)
        s = syn_make_folder(args.save_dir, err);
    s = launch_run(l, s, err);
    const syn_status closed = pretrain_log_close(&run, err);
    return s == SYN_OK ? closed : s;
}

static int run_program(int argc, char **argv) {
    syn_error err = {0};
    launch_begin(&run.launch, &program);
    cli_check_address_space(&program);
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN) code = check_options();
    if (code == CLI_RUN && run.launch.mpi && run.launch.ranks != args.num_gpus)
        code = cli_fail(&program, CLI_USAGE,
                        "%d MPI processes were started for --num-gpus %lld; the two must agree",
                        run.launch.ranks, (long long)args.num_gpus);
    run.launch.ranks = (int32_t)args.num_gpus;
    if (code == CLI_RUN)
        code = train(&err) == SYN_OK ? CLI_OK : cli_fail(&program, CLI_FAILED, "%s", err.text);
    launch_free(&run.launch);
    pretrain_free(&run);
    return code;
}

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("pretrain", run_program, argc, argv);
}
