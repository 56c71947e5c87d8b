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

/* Keys that change nothing that is computed here: how texts are generated and classes predicted,
   which outputs are kept, which kernels run, dropout that transformers does not apply in a family,
   what the file was written by and for. Sorted. */
const char *const syn__config_ignored[] = {"architectures",
                                           "assistant_confidence_threshold",
                                           "assistant_early_exit",
                                           "assistant_lookbehind",
                                           "attention_probs_dropout_prob",
                                           "attn_implementation",
                                           "attn_pdrop",
                                           "auto_map",
                                           "bad_words_ids",
                                           "begin_suppress_tokens",
                                           "cache_implementation",
                                           "chunk_size_feed_forward",
                                           "classifier_dropout",
                                           "constraints",
                                           "cross_attention_hidden_size",
                                           "decoder_start_token_id",
                                           "diversity_penalty",
                                           "do_sample",
                                           "early_stopping",
                                           "embd_pdrop",
                                           "encoder_no_repeat_ngram_size",
                                           "encoder_repetition_penalty",
                                           "epsilon_cutoff",
                                           "eta_cutoff",
                                           "experts_implementation",
                                           "exponential_decay_length_penalty",
                                           "finetuning_task",
                                           "flash_attn",
                                           "force_words_ids",
                                           "forced_bos_token_id",
                                           "forced_eos_token_id",
                                           "gradient_checkpointing",
                                           "guidance_scale",
                                           "hidden_dropout",
                                           "hidden_dropout_prob",
                                           "id2label",
                                           "is_decoder",
                                           "is_llama_config",
                                           "keys_to_ignore_at_inference",
                                           "label2id",
                                           "length_penalty",
                                           "low_memory",
                                           "max_length",
                                           "max_new_tokens",
                                           "max_sequence_length",
                                           "max_time",
                                           "max_window_layers",
                                           "min_length",
                                           "min_new_tokens",
                                           "min_p",
                                           "model_max_length",
                                           "name_or_path",
                                           "neftune_noise_alpha",
                                           "no_repeat_ngram_size",
                                           "num_assistant_tokens",
                                           "num_assistant_tokens_schedule",
                                           "num_beam_groups",
                                           "num_beams",
                                           "num_labels",
                                           "num_return_sequences",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "output_logits",
                                           "output_scores",
                                           "padding_side",
                                           "penalty_alpha",
                                           "prefix",
                                           "pretraining_tp",
                                           "problem_type",
                                           "prompt_lookup_num_tokens",
                                           "pruned_heads",
                                           "remove_invalid_values",
                                           "renormalize_logits",
                                           "repetition_penalty",
                                           "resid_pdrop",
                                           "return_dict",
                                           "return_dict_in_generate",
                                           "sep_token_id",
                                           "sequence_bias",
                                           "stop_strings",
                                           "summary_activation",
                                           "summary_first_dropout",
                                           "summary_proj_to_labels",
                                           "summary_type",
                                           "summary_use_proj",
                                           "suppress_tokens",
                                           "target_lookbehind",
                                           "task_specific_params",
                                           "temperature",
                                           "tf_legacy_loss",
                                           "tie_encoder_decoder",
                                           "tie_last_hidden_states",
                                           "token_healing",
                                           "tokenizer_class",
                                           "tokenizer_model_max_length",
                                           "tokenizer_padding_side",
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
                                           "use_flash_attention",
                                           "use_flash_attention_2",
                                           "use_flash_attn",
                                           "use_return_dict",
                                           "use_sliding_window",
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

/* Whether the next value is null. */
static syn_status read_null(syn__settings *s, bool *is_null) {
    const syn_json_type type = syn_json_next(&s->json);
    *is_null = type == SYN_JSON_NULL;
    return type == SYN_JSON_ERROR ? s->error.code : SYN_OK;
}

syn_status syn__config_whole(syn__settings *s, void *member) {
    bool is_null;
    (void)member;
    SYN_TRY(read_null(s, &is_null));
    if (is_null) return SYN_OK;
    return syn__settings_fail(s,
                              "\"%s\": quantized weights are not supported; use the checkpoint "
                              "before quantization",
                              s->path);
}

syn_status syn__config_null(syn__settings *s, void *member) {
    bool is_null;
    (void)member;
    SYN_TRY(read_null(s, &is_null));
    if (is_null) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be null: this model knows no other", s->path);
}

syn_status syn__config_none(syn__settings *s, void *member) {
    bool empty;
    (void)member;
    SYN_TRY(syn__settings_empty(s, &empty));
    if (empty) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be null: this model knows no other", s->path);
}

static syn_status must_be(syn__settings *s, bool wanted) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_BOOL && s->json.boolean == wanted) return SYN_OK;
    if (type == SYN_JSON_NULL && !wanted) return SYN_OK;
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
