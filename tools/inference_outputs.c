/* Which files the inference program reads, so that it writes over none of them. */
#include <stdio.h>

#include "tools/checkpoint.h"
#include "tools/inputs.h"

static syn_status add_beside(cli_inputs *inputs, const char *weights, const char *name,
                             syn_error *err) {
    char path[4200];
    if (!weights || !checkpoint_file(weights, name, path, sizeof path)) return SYN_OK;
    return cli_inputs_add(inputs, path, err);
}

static syn_status add_all(cli_inputs *inputs, const inference_args *args, syn_error *err) {
    static const char *const beside[] = {"model.safetensors", "model.safetensors.index.json",
                                         "config.json"};
    const char *const named[] = {args->weights, args->model_config, args->prompts, args->prompt_ids,
                                 args->hw_config};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        SYN_TRY(cli_inputs_add(inputs, named[i], err));
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        SYN_TRY(add_beside(inputs, args->weights, beside[i], err));
    return SYN_OK;
}

static syn_status keep_all(const cli_inputs *inputs, const inference_args *args, syn_error *err) {
    static const char *const saved[] = {"model.safetensors", "config.json"};
    char path[4200];
    if (args->save_logits) SYN_TRY(cli_inputs_keep(inputs, args->save_logits, err));
    for (size_t i = 0; args->save_weights && i < sizeof saved / sizeof saved[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", args->save_weights, saved[i]);
        SYN_TRY(cli_inputs_keep(inputs, path, err));
    }
    return SYN_OK;
}

syn_status inference_keep_inputs(const inference *run, syn_error *err) {
    cli_inputs inputs = {0};
    syn_status s = add_all(&inputs, run->args, err);
    if (s == SYN_OK) s = keep_all(&inputs, run->args, err);
    cli_inputs_free(&inputs);
    return s;
}
