#include "models/config_private.h"

#include <string.h>

syn_status syn__config_string(syn__settings *s) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_STRING) return syn__settings_fail(s, "\"%s\" must be a string", s->path);
    return SYN_OK;
}

const syn__setting_choice syn__activations[] = {{"gelu_new", SYN_GELU_TANH},
                                                {"gelu_pytorch_tanh", SYN_GELU_TANH},
                                                {"gelu_fast", SYN_GELU_TANH},
                                                {"gelu", SYN_GELU_ERF},
                                                {NULL, 0}};

const char *const syn__torch_dtypes[] = {"float32", "float16", "bfloat16"};

/* Dropout is the trainer's; how texts are generated the program's; of a class's outputs and labels
   nothing is kept; what the file was written by and for. */
const char *const syn__config_harmless[] = {"_attn_implementation_autoset",
                                            "_commit_hash",
                                            "architectures",
                                            "attention_dropout",
                                            "auto_map",
                                            "bad_words_ids",
                                            "begin_suppress_tokens",
                                            "chunk_size_feed_forward",
                                            "cross_attention_hidden_size",
                                            "decoder_start_token_id",
                                            "diversity_penalty",
                                            "do_sample",
                                            "early_stopping",
                                            "encoder_no_repeat_ngram_size",
                                            "exponential_decay_length_penalty",
                                            "finetuning_task",
                                            "forced_bos_token_id",
                                            "forced_eos_token_id",
                                            "id2label",
                                            "is_decoder",
                                            "is_llama_config",
                                            "label2id",
                                            "length_penalty",
                                            "max_length",
                                            "max_sequence_length",
                                            "min_length",
                                            "neftune_noise_alpha",
                                            "no_repeat_ngram_size",
                                            "num_beam_groups",
                                            "num_beams",
                                            "num_return_sequences",
                                            "output_attentions",
                                            "output_hidden_states",
                                            "output_scores",
                                            "prefix",
                                            "pretraining_tp",
                                            "problem_type",
                                            "pruned_heads",
                                            "remove_invalid_values",
                                            "repetition_penalty",
                                            "return_dict",
                                            "return_dict_in_generate",
                                            "sep_token_id",
                                            "suppress_tokens",
                                            "task_specific_params",
                                            "temperature",
                                            "tf_legacy_loss",
                                            "tie_encoder_decoder",
                                            "tokenizer_class",
                                            "top_k",
                                            "top_p",
                                            "torchscript",
                                            "transformers.js_config",
                                            "transformers_version",
                                            "typical_p",
                                            "unsloth_fixed",
                                            "unsloth_version",
                                            "use_bfloat16",
                                            "use_cache",
                                            NULL};

syn_status syn__config_path(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING)
        return syn__settings_fail(s, "\"%s\" must be a string or null", s->path);
    syn__settings_base_name(s->json.text, (char *)member);
    return SYN_OK;
}

/* What is no type of weights here ("auto", null) is as if not there. */
syn_status syn__config_dtype(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    for (int i = 0; i < 3; i++)
        if (type == SYN_JSON_STRING && syn__settings_text_is(s, syn__torch_dtypes[i]))
            strcpy(member, syn__torch_dtypes[i]);
    return type == SYN_JSON_OBJECT_BEGIN || type == SYN_JSON_ARRAY_BEGIN
               ? syn__settings_fail(s, "\"%s\" must be a string or null", s->path)
               : SYN_OK;
}

syn_status syn__config_torch_dtype(syn__settings *s, void *member) {
    char ignored[16];
    return syn__config_dtype(s, *(char *)member ? ignored : member);
}

void syn__config_dtype_write(syn_sink *out, const void *member) {
    const char *dtype = member;
    if (*dtype) syn_sink_printf(out, ",\n  \"dtype\": \"%s\"", dtype);
}

static syn_status must_be(syn__settings *s, bool wanted) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_BOOL && s->json.boolean == wanted) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be %s: this model knows no other", s->path,
                              wanted ? "true" : "false");
}

syn_status syn__config_true(syn__settings *s, void *member) {
    (void)member;
    return must_be(s, true);
}

syn_status syn__config_false(syn__settings *s, void *member) {
    (void)member;
    return must_be(s, false);
}
