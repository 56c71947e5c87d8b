"""Tests config.json files of released models of the supported families: each is accepted, and its
number of parameters matches the model card or the safetensors index. Shapes come from the releases;
other keys are the ones that transformers wrote at that time. Unsupported features are refused by
name."""
import re

from inference_runs import *  # noqa: F403

LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu",
             bos_token_id=1, eos_token_id=2, initializer_range=0.02, pretraining_tp=1,
             rope_scaling=None, torch_dtype="float16", transformers_version="4.31.0.dev0",
             use_cache=True, tie_word_embeddings=False, rms_norm_eps=1e-5)
LLAMA31 = dict(LLAMA, attention_bias=False, attention_dropout=0.0, mlp_bias=False,
               bos_token_id=128000, eos_token_id=[128001, 128008, 128009], rope_theta=500000.0,
               max_position_embeddings=131072, vocab_size=128256, torch_dtype="bfloat16",
               rope_scaling=dict(factor=8.0, high_freq_factor=4.0, low_freq_factor=1.0,
                                 original_max_position_embeddings=8192, rope_type="llama3"))
MISTRAL = dict(architectures=["MistralForCausalLM"], model_type="mistral", hidden_act="silu",
               bos_token_id=1, eos_token_id=2, initializer_range=0.02, rms_norm_eps=1e-5,
               tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True,
               transformers_version="4.34.0.dev0", max_position_embeddings=32768)
QWEN2 = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu",
             attention_dropout=0.0, bos_token_id=151643, eos_token_id=151643, rms_norm_eps=1e-6,
             initializer_range=0.02, torch_dtype="bfloat16", transformers_version="4.40.1",
             use_cache=True, use_mrope=False, use_sliding_window=False, rope_theta=1000000.0)
QWEN3 = dict(QWEN2, architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False,
             head_dim=128, rope_scaling=None, sliding_window=None, vocab_size=151936,
             max_position_embeddings=40960, transformers_version="4.51.0")
del QWEN3["use_mrope"]
NEOX = dict(architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", bos_token_id=0,
            eos_token_id=0, hidden_act="gelu", initializer_range=0.02, layer_norm_eps=1e-5,
            max_position_embeddings=2048, rotary_emb_base=10000, rotary_pct=0.25,
            tie_word_embeddings=False, torch_dtype="float16", transformers_version="4.24.0",
            use_cache=True, use_parallel_residual=True)
STARCODER2 = dict(architectures=["Starcoder2ForCausalLM"], model_type="starcoder2", bos_token_id=0,
                  eos_token_id=0, attention_dropout=0.1, embedding_dropout=0.1,
                  residual_dropout=0.1, hidden_act="gelu_pytorch_tanh", mlp_type="default",
                  initializer_range=0.018042, layer_norm_epsilon=1e-5, norm_epsilon=1e-5,
                  norm_type="layer_norm", max_position_embeddings=16384, sliding_window=4096,
                  scale_attn_weights=True, torch_dtype="float32", use_bias=True, use_cache=True,
                  vocab_size=49152, transformers_version="4.37.0.dev0")
PHI3 = dict(architectures=["Phi3ForCausalLM"], model_type="phi3", attention_bias=False,
            attention_dropout=0.0, auto_map={"AutoConfig": "configuration_phi3.Phi3Config"},
            bos_token_id=1, embd_pdrop=0.0, eos_token_id=32000, hidden_act="silu",
            initializer_range=0.02, max_position_embeddings=4096, rms_norm_eps=1e-5,
            original_max_position_embeddings=4096, resid_pdrop=0.0, rope_scaling=None,
            rope_theta=10000.0, sliding_window=2047, tie_word_embeddings=False, pad_token_id=32000,
            torch_dtype="bfloat16", transformers_version="4.40.2", use_cache=True)
OLMO2 = dict(architectures=["Olmo2ForCausalLM"], model_type="olmo2", attention_bias=False,
             attention_dropout=0.0, eos_token_id=100257, pad_token_id=100277, hidden_act="silu",
             initializer_range=0.02, max_position_embeddings=4096, rms_norm_eps=1e-6,
             rope_scaling=None, rope_theta=500000, tie_word_embeddings=False, use_cache=True,
             torch_dtype="float32", transformers_version="4.47.0", vocab_size=100352)
GRANITE = dict(architectures=["GraniteForCausalLM"], model_type="granite", attention_bias=False,
               attention_dropout=0.0, bos_token_id=0, eos_token_id=0, pad_token_id=0,
               hidden_act="silu", initializer_range=0.02, max_position_embeddings=131072,
               mlp_bias=False, embedding_multiplier=12.0, residual_multiplier=0.22,
               rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000000.0, use_cache=True,
               tie_word_embeddings=True, torch_dtype="bfloat16", transformers_version="4.49.0",
               vocab_size=49159)
GEMMA2 = dict(architectures=["Gemma2ForCausalLM"], model_type="gemma2", attention_bias=False,
              attention_dropout=0.0, attn_logit_softcapping=50.0, bos_token_id=2, eos_token_id=1,
              cache_implementation="hybrid", final_logit_softcapping=30.0, pad_token_id=0,
              hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh",
              initializer_range=0.02, max_position_embeddings=8192, rms_norm_eps=1e-6,
              rope_theta=10000.0, sliding_window=4096, torch_dtype="float32", use_cache=True,
              vocab_size=256000, transformers_version="4.42.0.dev0")
GEMMA3 = dict(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", attention_bias=False,
              attention_dropout=0.0, attn_logit_softcapping=None, bos_token_id=2, pad_token_id=0,
              cache_implementation="hybrid", eos_token_id=[1, 106], final_logit_softcapping=None,
              hidden_activation="gelu_pytorch_tanh", initializer_range=0.02, rms_norm_eps=1e-6,
              max_position_embeddings=32768, query_pre_attn_scalar=256, rope_theta=1000000,
              rope_local_base_freq=10000, rope_scaling=None, sliding_window=512,
              sliding_window_pattern=6, torch_dtype="bfloat16", transformers_version="4.50.0.dev0",
              use_cache=True, vocab_size=262144)
GPT_OSS = dict(architectures=["GptOssForCausalLM"], model_type="gpt_oss", attention_bias=True,
               attention_dropout=0.0, eos_token_id=200002, pad_token_id=199999, experts_per_token=4,
               head_dim=64, hidden_act="silu", initial_context_length=4096, initializer_range=0.02,
               max_position_embeddings=131072, num_experts_per_tok=4, output_router_logits=False,
               quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]),
               rms_norm_eps=1e-5, rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128,
               rope_scaling=dict(beta_fast=32.0, beta_slow=1.0, factor=32.0, rope_type="yarn",
                                 original_max_position_embeddings=4096, truncate=False),
               swiglu_limit=7.0, tie_word_embeddings=False, transformers_version="4.55.0.dev0",
               use_cache=True, vocab_size=201088)
OPT = dict(architectures=["OPTForCausalLM"], model_type="opt", _remove_final_layer_norm=False,
           activation_dropout=0.0, activation_function="relu", attention_dropout=0.0,
           bos_token_id=2, do_layer_norm_before=True, dropout=0.1, eos_token_id=2, init_std=0.02,
           layerdrop=0.0, max_position_embeddings=2048, pad_token_id=1, prefix="</s>",
           torch_dtype="float16", transformers_version="4.21.0.dev0", use_cache=True,
           vocab_size=50272)
# Keys that older versions of transformers wrote for each model, whatever its type.
EVERYTHING = dict(
    _name_or_path="some/where", _commit_hash=None, _attn_implementation_autoset=True,
    add_cross_attention=False, bad_words_ids=None, begin_suppress_tokens=None,
    chunk_size_feed_forward=0, cross_attention_hidden_size=None, decoder_start_token_id=None,
    diversity_penalty=0.0, do_sample=False, early_stopping=False, encoder_no_repeat_ngram_size=0,
    exponential_decay_length_penalty=None, finetuning_task=None, forced_bos_token_id=None,
    forced_eos_token_id=None, id2label={"0": "LABEL_0"}, is_decoder=False, is_encoder_decoder=False,
    label2id={"LABEL_0": 0}, length_penalty=1.0, max_length=20, min_length=0,
    no_repeat_ngram_size=0, num_beam_groups=1, num_beams=1, num_return_sequences=1,
    output_attentions=False, output_hidden_states=False, output_scores=False, pad_token_id=None,
    prefix=None, problem_type=None, pruned_heads={}, remove_invalid_values=False,
    repetition_penalty=1.0, return_dict=True, return_dict_in_generate=False, sep_token_id=None,
    suppress_tokens=None, task_specific_params=None, temperature=1.0, tf_legacy_loss=False,
    tie_encoder_decoder=False, tokenizer_class=None, top_k=50, top_p=1.0, torchscript=False,
    typical_p=1.0, use_bfloat16=False, unsloth_version="2025.1.1")


def shape(base, layers, hidden, heads, keys, inner, **more):
    return dict(base, num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                num_key_value_heads=keys, intermediate_size=inner, **more)


RELEASED = {
    "gpt-oss-20b": (20914757184, shape(
        GPT_OSS, 24, 2880, 64, 8, 2880, num_local_experts=32,
        layer_types=["sliding_attention", "full_attention"] * 12)),
    "gpt-oss-120b": (116829156672, shape(
        GPT_OSS, 36, 2880, 64, 8, 2880, num_local_experts=128,
        layer_types=["sliding_attention", "full_attention"] * 18)),
    "Llama-2-7b": (6738415616, shape(LLAMA, 32, 4096, 32, 32, 11008, vocab_size=32000,
                                     max_position_embeddings=4096)),
    "CodeLlama-7b": (6738546688, shape(LLAMA, 32, 4096, 32, 32, 11008, vocab_size=32016,
                                       max_position_embeddings=16384, rope_theta=1000000)),
    "llama-1-7b": (6738415616, {k: v for k, v in shape(
        LLAMA, 32, 4096, 32, None, 11008, vocab_size=32000, max_sequence_length=2048,
        max_position_embeddings=2048, pad_token_id=-1).items() if k != "num_key_value_heads"}),
    "TinyLlama-1.1B": (1100048384, shape(LLAMA, 22, 2048, 32, 4, 5632, vocab_size=32000,
                                         attention_bias=False, rope_theta=10000.0,
                                         max_position_embeddings=2048)),
    "SmolLM2-135M": (134515008, shape(
        dict(LLAMA, tie_word_embeddings=True, initializer_range=0.041666666666666664,
             bos_token_id=0, eos_token_id=0), 30, 576, 9, 3, 1536, vocab_size=49152,
        is_llama_config=True, rope_interleaved=False, rope_theta=100000, attention_bias=False,
        max_position_embeddings=8192, mlp_bias=False, **{"transformers.js_config": {
            "kv_cache_dtype": {"q4f16": "float16"}}})),
    "Llama-3.1-8B": (8030261248, shape(LLAMA31, 32, 4096, 32, 8, 14336)),
    "Llama-3.2-1B": (1235814400, shape(
        dict(LLAMA31, tie_word_embeddings=True,
             rope_scaling=dict(LLAMA31["rope_scaling"], factor=32.0)),
        16, 2048, 32, 8, 8192, head_dim=64)),
    "Mistral-7B-v0.1": (7241732096, shape(MISTRAL, 32, 4096, 32, 8, 14336, vocab_size=32000,
                                          rope_theta=10000.0, sliding_window=4096)),
    "Mistral-7B-v0.3": (7248023552, shape(MISTRAL, 32, 4096, 32, 8, 14336, vocab_size=32768,
                                          rope_theta=1000000.0, sliding_window=None,
                                          attention_dropout=0.0)),
    "Mistral-Nemo-2407": (12247782400, shape(MISTRAL, 40, 5120, 32, 8, 14336, vocab_size=131072,
                                             head_dim=128, rope_theta=1000000.0,
                                             sliding_window=None)),
    "Qwen2.5-0.5B": (494032768, shape(QWEN2, 24, 896, 14, 2, 4864, vocab_size=151936,
                                      max_position_embeddings=32768, max_window_layers=24,
                                      sliding_window=32768, tie_word_embeddings=True)),
    "Qwen2.5-7B": (7615616512, shape(QWEN2, 28, 3584, 28, 4, 18944, vocab_size=152064,
                                     max_position_embeddings=131072, max_window_layers=28,
                                     sliding_window=131072, tie_word_embeddings=False)),
    "pythia-160m": (162322944, shape(NEOX, 12, 768, 12, None, 3072, vocab_size=50304)),
    "gpt-neox-20b": (20554567680, shape(
        dict(NEOX, hidden_act="gelu_fast", attention_probs_dropout_prob=0, hidden_dropout_prob=0),
        44, 6144, 64, None, 24576, vocab_size=50432)),
    "opt-125m": (125239296, dict(OPT, num_hidden_layers=12, hidden_size=768,
                                 num_attention_heads=12, ffn_dim=3072, word_embed_proj_dim=768)),
    "opt-30b": (29974540288, dict(OPT, num_hidden_layers=48, hidden_size=7168,
                                  num_attention_heads=56, ffn_dim=28672, word_embed_proj_dim=7168)),
    "starcoder2-3b": (3030371328, shape(STARCODER2, 30, 3072, 24, 2, 12288,
                                        rope_theta=999999.4420358813)),
    "Phi-3-mini-4k": (3821079552, shape(PHI3, 32, 3072, 32, 32, 8192, vocab_size=32064)),
    "Phi-3-mini-128k": (3821079552, shape(  # with other factors
        dict(PHI3, max_position_embeddings=131072, sliding_window=262144, rope_scaling=dict(
            type="longrope", short_factor=[1.05] * 48, long_factor=[1.0 + i for i in range(48)])),
        32, 3072, 32, 32, 8192, vocab_size=32064)),
    "phi-4": (14659507200, shape(
        dict(PHI3, bos_token_id=100257, eos_token_id=100265, pad_token_id=100349,
             max_position_embeddings=16384, original_max_position_embeddings=16384,
             rope_theta=250000, sliding_window=None), 40, 5120, 40, 10, 17920, vocab_size=100352)),
    "OLMo-2-7B": (7298617344, shape(OLMO2, 32, 4096, 32, 32, 11008)),
    "granite-3.3-8b": (8170864640, shape(GRANITE, 40, 4096, 32, 8, 12800, logits_scaling=16.0,
                                         attention_multiplier=0.0078125)),
    "SmolLM3-3B": (3075098624, shape(
        dict(LLAMA31, architectures=["SmolLM3ForCausalLM"], model_type="smollm3",
             rope_scaling=None, rope_theta=5000000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
             max_position_embeddings=65536, pad_token_id=128004, max_window_layers=28,
             no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0] * 9, sliding_window=None,
             layer_types=["full_attention"] * 36, use_sliding_window=False),
        36, 2048, 16, 4, 11008)),
    "gemma-2-2b": (2614341888, shape(GEMMA2, 26, 2304, 8, 4, 9216, head_dim=256,
                                     query_pre_attn_scalar=256)),
    "gemma-2-27b": (27227128320, shape(GEMMA2, 46, 4608, 32, 16, 36864, head_dim=128,
                                       query_pre_attn_scalar=144)),
    "gemma-3-1b": (999885952, shape(GEMMA3, 26, 1152, 4, 1, 6912, head_dim=256)),
    "Qwen3-0.6B": (596049920, shape(QWEN3, 28, 1024, 16, 8, 3072, max_window_layers=28,
                                    tie_word_embeddings=True)),
    "Qwen3-0.6B-FP8": (596049920, shape(
        QWEN3, 28, 1024, 16, 8, 3072, max_window_layers=28, tie_word_embeddings=True,
        quantization_config=dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8",
                                 modules_to_not_convert=["lm_head"],
                                 weight_block_size=[128, 128]))),
    "Qwen3-8B": (8190735360, shape(QWEN3, 36, 4096, 32, 8, 12288, max_window_layers=36,
                                   tie_word_embeddings=False)),
}

UNSUPPORTED = [
    ({"model_type": "falcon"}, '"falcon"'), ({"model_type": "mpt"}, '"mpt"'),
    ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    ({"rope_interleaved": True}, "rope_interleaved"), ({"use_mrope": True}, "use_mrope"),
    ({"dual_chunk_attention_config": {"chunk_size": 262144}}, "dual_chunk_attention_config"),
    ({"num_experts": 8}, "num_experts"), ({"hidden_act": "gelu"}, "hidden_act"),
    ({"sliding_window": 4096}, "sliding_window"), ({"qk_layer_norms": True}, "qk_layer_norms"),
    ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "longrope"),
    ({"rope_scaling": {"type": "su", "short_factor": [1.0]}}, "su"),
    ({"add_cross_attention": True}, "add_cross_attention"),
    ({"is_encoder_decoder": True}, "is_encoder_decoder"),
    ({"head_dim": 127}, "rotary embeddings rotate pairs, but head_dim 127 gives an odd number"),
    ({"partial_rotary_factor": 0.34}, "head_dim 128 gives an odd number of rotated elements, 43"),
    ({"use_bias": True}, "use_bias"),
]


def meta(folder, said):
    folder.write("config.json", json.dumps(said))
    return ["--model_config", folder / "config.json", "--device", "meta", "--num_input_tokens", 2,
            "--num_output_tokens", 1, "--dtype", "bf16"]


def test_released():
    with Folder() as f:
        for name, (params, said) in RELEASED.items():
            for more in ({}, EVERYTHING):
                out = expect_ok(f.run(*meta(f, {**more, **said})))
                got, unit = re.search(r"([0-9.]+) ([GM]) parameters", out).groups()
                rounded = f"{params / {'G': 1e9, 'M': 1e6}[unit]:.3g}"
                assert float(got) == float(rounded), (name, got, unit, params)


def test_heads_that_are_on_several_ranks_are_reported():
    with Folder() as f:
        for tp, says in ((8, "heads:   32 query heads share 8 key/value heads\n"),
                         (32, "heads:   32 query heads share 8 key/value heads, each "
                              "on 4 ranks\n")):
            out = expect_ok(f.run(*meta(f, RELEASED["Llama-3.1-8B"][1]), "--tp", tp))
            assert says in out, out
        assert "heads:" not in expect_ok(f.run(*meta(f, RELEASED["Llama-2-7b"][1]), "--tp", 8))


def test_refused():
    with Folder() as f:
        for changes, says in UNSUPPORTED:
            said = {**RELEASED["Llama-3.1-8B"][1], **changes}
            refuse(f, meta(f, said), 1, says)
        said = {k: v for k, v in RELEASED["Llama-2-7b"][1].items() if k != "model_type"}
        refuse(f, meta(f, said), 1, '"architectures" "LlamaForCausalLM"', 'no "model_type"')
        said = {**RELEASED["opt-125m"][1], "word_embed_proj_dim": 512}
        refuse(f, meta(f, said), 1, '"word_embed_proj_dim" 512 differs from "hidden_size" 768')
        said = {k: v for k, v in RELEASED["Llama-2-7b"][1].items() if k != "model_type"}
        for name in (["GPT2LMHeadModel", "x"], [], None, "text"):  # as in old files of GPT-2
            expect_ok(f.run(*meta(f, {**said, "architectures": name})))
        for name in ([["x"], {"y": []}], {"x": ["y"]}, []):  # ignored, since model_type is given
            said = {**RELEASED["Llama-2-7b"][1], "architectures": name, "num_experts": 8}
            refuse(f, meta(f, said), 1, "num_experts")
        for types in (["sliding_attention", "full_attention"] * 14, ["chunked_attention"] * 28):
            said = {**RELEASED["Qwen3-0.6B"][1], "layer_types": types, "use_sliding_window": True,
                    "sliding_window": 64}
            refuse(f, meta(f, said), 1, "layer_types")


main(globals())
