/* The options of the pretraining program, and which of them contradict each other or would do
   nothing. */
#include <string.h>

#include "tools/folders.h"
#include "tools/pretrain/pretrain.h"

static pretrain_args args = {.device = "cpu",
                             .out_dir = "outputs",
                             .trace_name = "trace",
                             .batch_size = 4,
                             .learning_rate = 5e-5,
                             .weight_decay = 0.01,
                             .num_epochs = 3,
                             .max_grad_norm = 1,
                             .warmup_steps = -1,
                             .masking = -1,
                             .dtype = -1,
                             .accumulation = 1,
                             .max_seq_length = 512,
                             .num_gpus = 1,
                             .tp = 1,
                             .seed = 42,
                             .dropout = -1,
                             .trace_wait = 1,
                             .trace_active = 1,
                             .trace_repeat = 1};

const cli_option pretrain_options[] = {
    {"model", CLI_TEXT, &args.model, "NAME",
     "gpt2, qwen2.5-0.5b, llama-3-8b, bert-base-uncased, ... (a wrong name lists all); default: "
     "the "
     "small examples/configs/gpt2-mini.json",
     0, 0},
    {"model_config", CLI_TEXT, &args.model_config, "FILE", "HuggingFace-style config.json", 0, 0},
    {"weights", CLI_TEXT, &args.weights, "DIR",
     "a checkpoint of HuggingFace's to begin with, and its model and tokenizer; default: random "
     "weights",
     0, 0},
    {"tokenizer", CLI_TEXT, &args.tokenizer, "DIR|bytes",
     "folder with tokenizer.json, vocab.json and merges.txt, or vocab.txt, or one token a byte; "
     "default: that of the weights; a small one, or bytes if the model has fewer tokens",
     0, 0},
    {"data", CLI_TEXTS, &args.data, "FILE...",
     "texts to train on, as SQuAD's JSON; default: examples/squad/train.json", 0, 0},
    {"eval_data", CLI_TEXTS, &args.eval_data, "FILE...",
     "texts to validate with; default: none with --data, else examples/squad/validation.json", 0,
     0},
    {"cache_dir", CLI_TEXT, &args.cache_dir, "DIR", "keep the texts' tokens there", 0, 0},
    {"max_seq_length", CLI_INT, &args.max_seq_length, "N", "tokens of each text", 4, 1e6},
    {"batch_size", CLI_INT, &args.batch_size, "N", "texts a rank takes at a time", 1, 1e6},
    {"gradient_accumulation_steps", CLI_INT, &args.accumulation, "N", "batches of a step", 1, 1e6},
    {"learning_rate", CLI_REAL, &args.learning_rate, "R", "the highest", 0, 1e3},
    {"weight_decay", CLI_REAL, &args.weight_decay, "D", "of matrices and tables", 0, 1e3},
    {"warmup_steps", CLI_INT, &args.warmup_steps, "N",
     "in which the learning rate rises [0; 500 with --recipe reference]", 0, 1e12},
    {"recipe", CLI_CHOICE, &args.reference, "default|reference",
     "reference: padding in the loss, norms of GPT-2 decayed, BERT's texts as one segment, as "
     "PyTorch projects have it (docs/training.md)",
     0, 0},
    {"max_grad_norm", CLI_REAL, &args.max_grad_norm, "G", "clip gradients; 0: do not", 0, 1e9},
    {"dropout", CLI_REAL, &args.dropout, "P",
     "probability of dropping an activation; default: as config.json says, or the model's own", 0,
     0.999},
    {"mask_policy", CLI_CHOICE, &args.masking, "bert|mask-only",
     "BERT: of the words to predict 80 % are [MASK], 10 % any word, or no word is [bert]", 0, 0},
    {"num_epochs", CLI_INT, &args.num_epochs, "N", "passes over all texts", 1, 1e9},
    {"max_steps", CLI_INT, &args.max_steps, "N", "end after so many; 0: do not", 0, 1e12},
    {"eval_steps", CLI_INT, &args.eval_steps, "N",
     "validate every N steps, as after each epoch; 0: then alone", 0, 1e12},
    {"skip_eval", CLI_FLAG, &args.skip_eval, NULL,
     "do not validate; the last model is kept, not the best", 0, 0},
    {"save_steps", CLI_INT, &args.save_steps, "N", "save a checkpoint every N steps; 0: never", 0,
     1e12},
    {"save_total_limit", CLI_INT, &args.save_total_limit, "N",
     "keep the latest N checkpoints; 0: all", 0, 1e9},
    {"resume", CLI_FLAG, &args.resume, NULL,
     "go on from the latest checkpoint in --save-dir, if there is one", 0, 0},
    {"logging_steps", CLI_INT, &args.logging_steps, "N",
     "print a line every N steps; default: 10, but on a terminal a bar instead", 1, 1e12},
    {"save_dir", CLI_TEXT, &args.save_dir, "DIR",
     "models, metrics.csv and loss.svg; default: checkpoints/<model>", 0, 0},
    {"num_gpus", CLI_INT, &args.num_gpus, "N",
     "ranks: threads of this process, or as many MPI processes", 1, 65536},
    {"tp", CLI_INT, &args.tp, "N", "of them so many share each layer", 1, 65536},
    PARALLEL_OPTIONS(args.parallel),
    {"device", CLI_TEXT, &args.device, LAUNCH_DEVICES,
     "where to run; meta computes nothing and predicts the time of a step, which --enable-tracing "
     "records",
     0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]",
     "predict the times of a step for this hardware: a100-80g, h100, h200, b200, v100-32g, cpu or "
     "a "
     "JSON file; "
     "stack: pytorch-eager, megatron or serving; default with --device meta: a100-80g+megatron",
     0, 0},
    {"compare", CLI_TEXT, &args.compare, "MACHINE[+STACK],...",
     "predict the time of the same step for these as well", 0, 0},
    {"dtype", CLI_CHOICE, &args.dtype, "f32|bf16",
     "of parameters, activations and what ranks that share layers exchange; bf16 has masters, "
     "gradients and moments of f32 [f32; with --device meta for a GPU as the published checkpoint, "
     "else bf16]",
     0, 0},
    {"activation_recompute", CLI_CHOICE, &args.recompute, "none|selective|full",
     "activations that backward computes again", 0, 0},
    {"enable_tracing", CLI_FLAG, &args.enable_tracing, NULL, "write a step's trace", 0, 0},
    {"trace_skip_first", CLI_INT, &args.trace_skip_first, "N", "steps before all cycles", 0, 1e12},
    {"trace_wait_steps", CLI_INT, &args.trace_wait, "N", "of a cycle, before its trace", 0, 1e12},
    {"trace_warmup_steps", CLI_INT, &args.trace_warmup, "N", "more of them", 0, 1e12},
    {"trace_active_steps", CLI_INT, &args.trace_active, "N", "steps of the trace", 1, 1e6},
    {"trace_repeat", CLI_INT, &args.trace_repeat, "N",
     "cycles; but for 1 their files are NAME_step<its last>.*; 0: until the end", 0, 1e9},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR", "where the traces go", 0, 0},
    {"trace_name", CLI_TEXT, &args.trace_name, "NAME", "NAME.0.et and so on", 0, 0},
    {"visualize_trace", CLI_FLAG, &args.visualize_trace, NULL,
     "the traced step as pictures, too (NAME_graph and NAME_comm, .svg and .png), as a page for a "
     "browser (NAME.html) and as a graph (NAME_graph.json)",
     0, 0},
    {"profile_memory", CLI_FLAG, &args.profile_memory, NULL,
     "an event for each storage that comes or goes in NAME.0_kineto.json", 0, 0},
    {"with_stack", CLI_FLAG, &args.with_stack, NULL,
     "modules around their ops there; NAME_stacks.txt by them, too", 0, 0},
    {"sweep", CLI_TEXTS, &args.sweep, "KEY=VALUE,...",
     "predict a step of every combination, as of num_gpus=8,64 tp=1,2,8 batch_size=4,16 "
     "hw=h100,h200; "
     "sweep.csv and sweep.svg in --out-dir have them all",
     0, 0},
    {"seed", CLI_INT, &args.seed, "N", "of weights, order, masks and dropout", 0, 1e15},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print nothing but errors", 0, 0},
    {"json", CLI_FLAG, &args.json, NULL, "print what is predicted on meta as one JSON object", 0,
     0},
    LAUNCH_ALIASES,
    CLI_END};

static int check_rules(const pretrain *run, int argc, char **argv) {
    const pretrain_args *a = run->args;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    const cli_rule rules[] = {
        {!a->enable_tracing,
         {"trace-skip-first", "trace-wait-steps", "trace-warmup-steps", "trace-active-steps",
          "trace-repeat", "out-dir", "trace-name", "visualize-trace", "profile-memory",
          "with-stack"},
         "does nothing without --enable-tracing; give that, too, or leave it out"},
        {!a->enable_tracing && !meta,
         {"hw", "compare"},
         "does nothing without --enable-tracing or --device meta; give one, or leave it out"},
        {!meta, {"json"}, "prints what is predicted on --device meta; give that, too"},
        {a->skip_eval, {"eval-data", "eval-steps"}, "does nothing with --skip-eval; leave one out"},
        {a->data.n > 0 && a->eval_data.n == 0,
         {"eval-steps"},
         "does nothing without texts to validate with; name them with --eval-data"},
        {a->save_steps == 0,
         {"save-total-limit"},
         "does nothing without --save-steps, which says when checkpoints are written"},
        {a->reference && a->masking == SYN_MASKING_BERT,
         {"mask-policy"},
         "bert contradicts --recipe reference, which masks as mask-only does; leave one out"},
    };
    return cli_check_rules(run->launch.program, argc, argv, rules, sizeof rules / sizeof *rules);
}

/* Without data nothing is learned: the options of another run are taken, but not in silence. */
static void note_meta(const pretrain *run, int argc, char **argv) {
    static const char *const names[] = {"eval-data", "eval-steps", "save-dir", "save-steps",
                                        "save-total-limit", "resume", "learning-rate",
                                        "warmup-steps", "logging-steps", "mask-policy",
                                        /* of a step that is only predicted */
                                        "seed", "num-epochs", "max-steps", "skip-eval"};
    enum { OF_TRACES = 10 }; /* the others choose the step that is traced, or are in the trace */
    const size_t n = run->args->enable_tracing ? OF_TRACES : sizeof names / sizeof *names;
    char list[240] = "";
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (cli_was_given(run->launch.program, argc, argv, names[i]))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s--%s", used ? ", " : "",
                                     names[i]);
    if (used > 0 && !run->args->quiet && !run->launch.program->mute)
        fprintf(stderr, "%s: note: without effect, as --device meta trains nothing: %s\n",
                run->launch.program->name, list);
}

static void note_no_model(const pretrain *run) {
    const pretrain_args *a = run->args;
    if (a->skip_eval && a->enable_tracing && a->save_steps == 0 && !a->quiet &&
        !run->launch.program->mute)
        fprintf(stderr,
                "%s: note: no model is saved, for --skip-eval and --enable-tracing are for a trace "
                "alone; --save-steps saves some\n",
                run->launch.program->name);
}

/* Of ranks that do the same, one's first step says it all. */
static void predict_alone(pretrain *run) {
    run->predicts = run->launch.alone = true;
    args.enable_tracing = args.skip_eval = true;
    args.trace_wait = 0;
    args.max_steps = 0;
}

pretrain_args *pretrain_arguments(void) {
    return &args;
}

int pretrain_check_options(pretrain *run, int argc, char **argv) {
    const pretrain_args *a = run->args = &args;
    const cli_program *program = run->launch.program;
    const int device = launch_device(&run->launch, a->device);
    if (device != CLI_RUN) return device;
    const bool meta = run->launch.device == SYN_DEVICE_META;
    if ((a->model != NULL) + (a->model_config != NULL) + (a->weights != NULL) > 1)
        return cli_fail(program, CLI_USAGE,
                        "--model, --model-config and --weights all say which model; give one");
    const int code = check_rules(run, argc, argv);
    if (code != CLI_RUN) return code;
    if (!folder_is_prefix(a->trace_name))
        return cli_fail(program, CLI_USAGE,
                        "--trace-name '%s' names no file; give one, such as trace", a->trace_name);
    if (meta) note_meta(run, argc, argv);
    else note_no_model(run);
    if (a->json) args.quiet = true;
    if (meta && !a->enable_tracing) predict_alone(run);
    if (run->launch.mpi && run->launch.ranks != a->num_gpus)
        return cli_fail(program, CLI_USAGE,
                        "%d MPI processes were started for --num-gpus %lld; the two must agree",
                        run->launch.ranks, (long long)a->num_gpus);
    run->launch.ranks = (int32_t)a->num_gpus;
    return CLI_RUN;
}
