/* Options of the program synth. */
#include <string.h>

#include "tools/folders.h"
#include "tools/pretrain/division_options.h"
#include "tools/synth/synth.h"

synth_args synth_given;

const cli_option synth_options[] = {
    CLI_GROUP("Model"),
    {"model", CLI_TEXT, &pretrain_given.model, "NAME",
     "preset: gpt3-175b, llama-3-8b, bert-base-uncased, ...; an unknown name lists all", 0, 0},
    {"model_config", CLI_TEXT, &pretrain_given.model_config, "FILE", "HuggingFace config.json", 0,
     0},
    {"layers", CLI_INT, &pretrain_given.layers, "N", "number of layers; default: the model's own",
     1, 100000},
    {"max_seq_length", CLI_INT, &pretrain_given.max_seq_length, "N",
     "tokens per sample; default: the model's maximum, but not more than 8192", 4, 1e8},
    {"micro_batch", CLI_INT, &pretrain_given.batch_size, "N",
     "samples per data-parallel rank and microbatch", 1, 1e6},
    {"global_batch", CLI_INT, &pretrain_given.global_batch, "N",
     "samples per step; default: one microbatch per data-parallel rank", 1, 1e9},
    {"batch_size", CLI_ALIAS, NULL, "micro_batch", NULL, 0, 0},
    {"dropout", CLI_REAL, &pretrain_given.dropout, "P",
     "dropout probability of activations; default: from config.json, or the model's own", 0, 0.999},
    ROUTER_OPTIONS,
    {"make_vocab_size_divisible_by", CLI_INT, &pretrain_given.vocab_multiple, "N",
     "pad each rank's rows of the vocabulary to a multiple of N, as Megatron-LM does [128]", 1,
     1e6},
    CLI_GROUP("Inference"),
    {"phase", CLI_CHOICE, &synth_given.phase, "train|prefill|decode|generate",
     "train: one training step; prefill: the prompts of a batch; decode: one more token of each "
     "sequence; generate: prefill and decode. --micro_batch is the number of sequences of each "
     "data-parallel rank",
     0, 0},
    {"num_input_tokens", CLI_INT, &synth_given.num_input_tokens, "N",
     "tokens of each prompt [2048, if the model allows it]", 1, 1e9},
    {"num_output_tokens", CLI_INT, &synth_given.num_output_tokens, "N",
     "tokens generated for each sequence [decode: 1, generate: 16]", 1, 1e9},
    CLI_GROUP("Parallelism"),
    {"dp", CLI_INT, &pretrain_given.dp, "N", "data-parallel size [1]", 1, 65536},
    {"num_gpus", CLI_INT, &pretrain_given.num_gpus, "N",
     "number of ranks; default: the product of tp, cp, pp and dp", 1, 1048576},
    DIVISION_OPTIONS,
    CLI_GROUP("Precision and prediction"),
    {"hw", CLI_TEXT, &pretrain_given.hw, "MACHINE[+STACK]", LAUNCH_MACHINES " [a100-80g+megatron]",
     0, 0},
    {"dtype", CLI_CHOICE, &pretrain_given.dtype, "f32|bf16",
     "dtype of parameters, activations and tensor-parallel collectives; default: the dtype of the "
     "published checkpoint, else bf16",
     0, 0},
    {"fp8", CLI_FLAG, &pretrain_given.fp8, NULL,
     "predict the products with weights of layers in FP8, as Transformer Engine and torchao "
     "compute "
     "them; shapes and bytes stay those of --dtype",
     0, 0},
    PASS_OPTIONS,
    LOAD_OPTIONS,
    CLI_GROUP("Output"),
    {"out", CLI_TEXT, &pretrain_given.out, "PREFIX",
     "write PREFIX.<rank>.et and PREFIX.comm_group.json", 0, 0},
    {"ranks", CLI_TEXT, &pretrain_given.ranks, "all|one-per-program|LIST",
     "which ranks to write: all, one of each program, or a list such as 0-7,16 [all]", 0, 0},
    {"gzip", CLI_FLAG, &synth_given.gzip, NULL,
     "compress the files, which keep their names; most simulators need them unpacked", 0, 0},
    {"dry_run", CLI_FLAG, &pretrain_given.dry_run, NULL,
     "write nothing; print the prediction and the size of the set", 0, 0},
    {"quiet", CLI_FLAG, &pretrain_given.quiet, NULL, "print only errors", 0, 0},
    CLI_JSON(&pretrain_given.json),
    CLI_END};

void synth_set_defaults(void) {
    inference_set_defaults();
    pretrain_set_defaults();
    synth_given = (synth_args){.phase = SYNTH_TRAIN};
    pretrain_given.batch_size = 1;
    pretrain_given.max_seq_length = 0;
}

int synth_check_common(const launch *l, int argc, char **argv) {
    const cli_program *program = l->program;
    if (l->mpi)
        return cli_fail(program, CLI_USAGE,
                        "one process writes the traces of all ranks; start it without mpirun");
    if ((pretrain_given.model != NULL) + (pretrain_given.model_config != NULL) != 1)
        return cli_fail(program, CLI_USAGE,
                        "--model or --model-config selects the model; give one of them");
    if (!pretrain_given.out && pretrain_given.dry_run) pretrain_given.out = "synth";
    if (!pretrain_given.out)
        return cli_fail(program, CLI_USAGE, "--out PREFIX is missing: where to write the set");
    if (!folder_is_prefix(pretrain_given.out) || strcmp(pretrain_given.out, "-") == 0)
        return cli_fail(program, CLI_USAGE,
                        "--out '%s' is no prefix of file names; give one, such as run/a",
                        pretrain_given.out);
    if (!cli_was_given(program, argc, argv, "num-gpus") && pretrain_given.dp == 0)
        pretrain_given.dp = 1;
    if (pretrain_given.json) pretrain_given.quiet = true;
    return CLI_RUN;
}

int synth_check_training(pretrain *run, int argc, char **argv) {
    const cli_program *program = run->launch.program;
    const cli_rule rule = {true,
                           {"num_input_tokens", "num_output_tokens"},
                           "has no effect on training; omit it, or give --phase"};
    run->args = &pretrain_given;
    pretrain_given.device = "meta";
    if (pretrain_given.vocab_multiple == 0) pretrain_given.vocab_multiple = 128;
    if (cli_check_rules(program, argc, argv, &rule, 1) != CLI_RUN) return CLI_USAGE;
    int code = pretrain_check_division(run, argc, argv);
    if (code == CLI_RUN) code = pretrain_take_sizes(program, argc, argv);
    if (code != CLI_RUN) return code;
    return synth_begin(run);
}

int synth_begin(pretrain *run) {
    run->launch.ranks = (int32_t)pretrain_given.num_gpus;
    const int device = launch_device(&run->launch, pretrain_given.device);
    pretrain_predict_alone(run);
    return device;
}
