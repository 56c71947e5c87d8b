#!/usr/bin/env python3
"""Compares the inference program with transformers on small random models of all families that
generate, except GPT-2, and of RoBERTa: the logits after a batch of prompts of different lengths,
and greedy tokens; for RoBERTa, the logits of every token and the likeliest tokens.

    SYN_BUILD=build python3 compare_random_models.py [first seed] [number of seeds] [family...]

Neither the build nor the tests need this script. It needs the same Python packages as the other
scripts in this folder. The models vary in

* numbers of heads and of key heads, also fewer key heads than ranks, and sizes of heads
* biases, tied heads, dtypes and shards
* numbers and widths of experts, layers without experts, shared experts, and groups of experts
* experts in MXFP4
* sizes of latents, and of the parts of heads
* sliding windows: on some or all layers, shorter than the prompt, or exceeded during generation
* rotary embeddings of each type, as transformers 5 or 4 writes them, beyond the lengths they name
* other configuration keys of transformers 4
* ranks, and fused or unfused attention

Transformers computes in f64 from the stored weights. If the logits of the two likeliest tokens
differ by less than 1e-4 of the largest logit, a different token is a tie and is counted separately.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

NAMES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3",
         "gpt_neox": "GPTNeoX", "mixtral": "Mixtral", "qwen2_moe": "Qwen2Moe",
         "qwen3_moe": "Qwen3Moe", "deepseek_v2": "DeepseekV2",
         "deepseek_v3": "DeepseekV3", "starcoder2": "Starcoder2",
         "phi3": "Phi3", "olmo2": "Olmo2", "granite": "Granite", "smollm3": "SmolLM3",
         "gemma2": "Gemma2", "gemma3_text": "Gemma3", "gpt_oss": "GptOss",
         "opt": "OPT", "roberta": "Roberta"}
CONFIGS = {"Gemma3": "Gemma3TextConfig"}  # other names of configuration classes
NEW_TOKENS = 50
OLD_KEYS = dict(architectures=["X"], attention_dropout=0.0, bos_token_id=1, use_cache=True,
                pretraining_tp=1, transformers_version="4.43.0.dev0", torch_dtype="bfloat16",
                _name_or_path="/some/where/model", output_attentions=False, return_dict=True)


def rope(rng, positions):
    kind = rng.choice(["default", "default", "linear", "dynamic", "llama3", "yarn"])
    said = dict(rope_type=kind, rope_theta=rng.choice([1e4, 5e5, 1e6]))
    if kind != "default":
        said["factor"] = rng.choice([1.0, 2.0, 2.5, 4.0, 8.0])
    if kind in ("llama3", "yarn"):
        said["original_max_position_embeddings"] = rng.choice([positions // 4, positions // 2])
    if kind == "llama3":
        said["low_freq_factor"], said["high_freq_factor"] = 1.0, rng.choice([2.0, 4.0])
    if kind == "yarn":
        if rng.random() < 0.3:
            said["truncate"] = False
        if rng.random() < 0.3:
            said["beta_fast"], said["beta_slow"] = 16.0, 2.0
        if rng.random() < 0.3:
            said["attention_factor"] = 1.2
        if rng.random() < 0.3:
            said["mscale"], said["mscale_all_dim"] = 0.8, rng.choice([0.0, 1.3])
    return said


def draw_neox(rng, c, heads):
    """Returns the same configuration for a GPT-NeoX, which has as many key heads as query heads and
    rotates only a part of each head."""
    depth = rng.choice([4, 6, 8, 16])
    part = rng.choice([n for n in range(4, depth + 1, 2)]) / depth
    more = dict(hidden_size=heads * depth, layer_norm_eps=c["rms_norm_eps"],
                hidden_act=rng.choice(["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"]),
                use_parallel_residual=rng.random() < 0.6, attention_bias=rng.random() < 0.7,
                rope_parameters={**c["rope_parameters"], "partial_rotary_factor": part})
    left_out = ("rms_norm_eps", "num_key_value_heads")
    c = {k: v for k, v in {**c, **more}.items() if k not in left_out}
    ranks = [n for n in (1, 2, 3, 4, 6, 8)
             if heads % n == 0 and c["intermediate_size"] % n == 0]
    return "gpt_neox", c, rng.choice(ranks)


def draw_learned(rng, c, heads, family):
    """Returns the same configuration for an OPT or a RoBERTa, which have a table of positions."""
    kept = ("vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers",
            "intermediate_size", "max_position_embeddings", "tie_word_embeddings", "bos_token_id",
            "eos_token_id")
    width = c["intermediate_size"]
    c = {k: c[k] for k in kept}
    act = rng.choice(["relu", "gelu", "gelu_new"])
    if family == "opt":
        del c["intermediate_size"]
        c.update(ffn_dim=width, activation_function=act, enable_bias=rng.random() < 0.7,
                 pad_token_id=rng.choice([None, 1]))
    else:
        c.update(hidden_act=act, type_vocab_size=rng.choice([1, 1, 2]),
                 pad_token_id=rng.choice([1, 1, 0, 7]), layer_norm_eps=rng.choice([1e-5, 1e-12]))
    return family, c, rng.choice([n for n in (1, 2, 3, 4, 6, 8)
                                  if heads % n == 0 and width % n == 0])


def draw_starcoder2(rng, c):
    """Returns the same configuration for a StarCoder2."""
    c["norm_epsilon"] = c.pop("rms_norm_eps")
    c["hidden_act"] = rng.choice(["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"])
    return {**c, "use_bias": rng.random() < 0.7, "sliding_window": draw_window(rng)}


def draw_phi3(rng, c):
    """Returns the same configuration for a Phi-3. Its only scaled rotary embedding is longrope."""
    longrope = rng.random() < 0.5
    if longrope:  # transformers counts the factors without head_dim
        c.pop("head_dim", None)
    depth = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    part = rng.choice([1.0] + [n / depth for n in range(2, depth + 1, 2)])
    said = dict(rope_type="default", rope_theta=c["rope_parameters"]["rope_theta"])
    if part < 1:
        said["partial_rotary_factor"] = part
    if longrope:
        most = c["max_position_embeddings"]
        c["original_max_position_embeddings"] = rng.choice([5, 12, most // 2 if most > 100 else 7,
                                                            most])
        pairs = int(depth * part) // 2
        said["rope_type"] = "longrope"
        for key in ("short_factor", "long_factor"):
            said[key] = [round(rng.uniform(1, 8), 3) for _ in range(pairs)]
        said.update({key: rng.choice([1.5, 2.0]) for key in ("factor", "attention_factor")
                     if rng.random() < 0.3})
    return {**c, "rope_parameters": said, "sliding_window": draw_window(rng)}


def draw_olmo2(rng, c):
    return {**c, "attention_bias": rng.random() < 0.5}


def draw_granite(rng, c):
    return {**c, "attention_bias": rng.random() < 0.5, "mlp_bias": rng.random() < 0.5,
            "embedding_multiplier": rng.choice([1.0, 12.0, 0.3]),
            "residual_multiplier": rng.choice([1.0, 0.22]),
            "attention_multiplier": rng.choice([1.0, 0.015625, 0.3]),
            "logits_scaling": rng.choice([1.0, 8.0, 0.5])}


def draw_layer_types(rng, c):
    return [rng.choice(["full_attention", "sliding_attention"])
            for _ in range(c["num_hidden_layers"])]


def draw_smollm3(rng, c):
    c.update(attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5,
             no_rope_layer_interval=rng.choice([1, 2, 4]), use_sliding_window=rng.random() < 0.5,
             sliding_window=rng.choice([2, 9, 30]))
    if rng.random() < 0.5:
        c["no_rope_layers"] = [rng.randint(0, 1) for _ in range(c["num_hidden_layers"])]
    if rng.random() < 0.3:
        c["layer_types"] = draw_layer_types(rng, c)
    return c


def draw_gemma(rng, c):
    """What Gemma 2 and 3 have in common."""
    c.pop("hidden_act")
    c.update(head_dim=rng.choice([4, 6, 8, 16, 32]), attention_bias=rng.random() < 0.3,
             query_pre_attn_scalar=rng.choice([4, 5, 16]), sliding_window=rng.choice([2, 9, 30]),
             final_logit_softcapping=rng.choice([None, 2.0, 30.0]),
             hidden_activation=rng.choice(["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu"]))
    if rng.random() < 0.4:
        c["layer_types"] = draw_layer_types(rng, c)
    return c


def draw_gemma2(rng, c):
    return {**draw_gemma(rng, c), "attn_logit_softcapping": rng.choice([None, 1.5, 50.0])}


def draw_gemma3(rng, c):
    """Returns the same configuration for a Gemma 3, which has two rotary embeddings."""
    local = dict(rope_type="default", rope_theta=rng.choice([1e4, 5e3]))
    if rng.random() < 0.2:
        local = dict(rope_type="linear", rope_theta=1e4, factor=2.0)
    c["rope_parameters"] = dict(full_attention=c["rope_parameters"], sliding_attention=local)
    if rng.random() < 0.3:
        c["sliding_window_pattern"] = rng.choice([2, 3])
    return draw_gemma(rng, c)


def draw_gpt_oss(rng, c):
    """Returns the same configuration for a gpt-oss; some have widths that MXFP4 allows."""
    experts = rng.choice([1, 2, 4, 8])
    c.update(head_dim=rng.choice([4, 6, 8, 16, 32]), sliding_window=rng.choice([2, 9, 30]),
             attention_bias=rng.random() < 0.8, num_local_experts=experts,
             num_experts_per_tok=rng.randint(1, min(experts, 4)),
             swiglu_limit=rng.choice([7.0, 0.5, 2.0]))
    if rng.random() < 0.3:
        c["swiglu_alpha"] = 1.0
    if rng.random() < 0.4:
        c["layer_types"] = draw_layer_types(rng, c)
    if rng.random() < 0.3:
        c.update(hidden_size=32 * rng.randint(1, 3), intermediate_size=32 * rng.randint(1, 3))
    return c


def draw_window(rng):
    return rng.choice([None, 1, 3, 9, 30, 200])


DENSE = {"starcoder2": draw_starcoder2, "phi3": draw_phi3, "olmo2": draw_olmo2,
         "granite": draw_granite, "smollm3": draw_smollm3, "gemma2": draw_gemma2,
         "gemma3_text": draw_gemma3, "gpt_oss": draw_gpt_oss}


def draw_experts(rng, c, family):
    """Returns the same configuration with experts."""
    experts = rng.choice([1, 2, 3, 4, 8, 16])
    c = {**c, "num_experts_per_tok": rng.randint(1, min(experts, 5)),
         "num_local_experts" if family == "mixtral" else "num_experts": experts}
    if family == "mixtral":
        return c
    c.update(moe_intermediate_size=4 * rng.randint(1, 12), norm_topk_prob=rng.random() < 0.5,
             decoder_sparse_step=rng.choice([1, 1, 2]),
             mlp_only_layers=[i for i in range(c["num_hidden_layers"]) if rng.random() < 0.2])
    if family == "qwen2_moe":
        c["shared_expert_intermediate_size"] = 4 * rng.randint(1, 12)
        c["qkv_bias"] = rng.random() < 0.7
    return c


def draw_deepseek(rng, c, heads, family):
    """Returns the same configuration with latent attention, and experts in all but the first
    layers."""
    groups = rng.choice([1, 1, 2, 4])
    each = rng.choice([2, 3, 4])
    top = rng.randint(1, groups)
    more = dict(
        num_key_value_heads=heads, kv_lora_rank=rng.choice([4, 12, 32]),
        q_lora_rank=rng.choice([None, 6, 24]), qk_nope_head_dim=rng.choice([1, 5, 8, 16]),
        qk_rope_head_dim=rng.choice([2, 4, 8] if c["rope_parameters"]["rope_type"] != "dynamic"
                                    else [4, 8]), v_head_dim=rng.choice([3, 8, 24]),
        n_routed_experts=groups * each, n_group=groups, topk_group=top,
        num_experts_per_tok=rng.randint(1, top * each), n_shared_experts=rng.randint(1, 2),
        moe_intermediate_size=4 * rng.randint(1, 12), first_k_dense_replace=rng.randint(0, 2),
        routed_scaling_factor=rng.choice([1.0, 2.5]), attention_bias=rng.random() < 0.3)
    if family == "deepseek_v2":
        more["topk_method"] = rng.choice(["greedy", "group_limited_greedy"])
    else:
        more["norm_topk_prob"] = rng.random() < 0.7
        more["rope_interleave"] = rng.random() < 0.7
    c = {**c, **more}
    widths = [c["intermediate_size"], c["moe_intermediate_size"],
              c["moe_intermediate_size"] * c["n_shared_experts"]]
    ranks = [n for n in (1, 2, 3, 4, 6, 8)
             if heads % n == 0 and all(width % n == 0 for width in widths)]
    return family, c, rng.choice(ranks)


def draw(rng):
    """Draws a configuration. Returns the family, the arguments of its class, and the number of
    ranks."""
    family = rng.choice(sys.argv[3:] or list(NAMES))
    heads = rng.choice([1, 2, 4, 6, 8])
    depth = rng.choice([4, 6, 8, 16, 32])
    hidden = heads * rng.choice([4, 6, 12])
    positions = rng.choice([64, 96, 128])
    c = dict(vocab_size=rng.randint(11, 150), hidden_size=hidden, num_attention_heads=heads,
             num_key_value_heads=rng.choice([n for n in (1, 2, 3, 4, 8) if heads % n == 0] +
                                            [heads]),
             num_hidden_layers=rng.randint(1, 4), intermediate_size=4 * rng.randint(1, 20),
             max_position_embeddings=positions, tie_word_embeddings=rng.random() < 0.5,
             rms_norm_eps=rng.choice([1e-5, 1e-6, 1e-3]), hidden_act="silu",
             rope_parameters=rope(rng, positions), bos_token_id=None, eos_token_id=None)
    if family == "gpt_neox":
        return draw_neox(rng, c, heads)
    if family in ("opt", "roberta"):
        return draw_learned(rng, c, heads, family)
    if family.startswith("deepseek"):
        return draw_deepseek(rng, c, heads, family)
    sparse = family in ("mixtral", "qwen2_moe", "qwen3_moe")
    fixed = family.startswith("qwen3") or family == "mixtral"
    if fixed or (not family.startswith("qwen2") and rng.random() < 0.4):
        c["head_dim"] = depth
    if family == "llama":
        c["attention_bias"], c["mlp_bias"] = rng.random() < 0.5, rng.random() < 0.5
    if family.startswith("qwen3"):
        c["attention_bias"] = rng.random() < 0.5
    if family in ("mistral", "mixtral"):
        c["sliding_window"] = draw_window(rng)
    if family in DENSE:
        c = DENSE[family](rng, c) | {"pad_token_id": None}
    if sparse:
        c = draw_experts(rng, c, family)
    if family.startswith("qwen") and family != "qwen2_moe":
        c["use_sliding_window"] = rng.random() < 0.6
        c["sliding_window"] = rng.choice([2, 7, 30])
        c["max_window_layers"] = rng.randint(0, 4)
    kv = c["num_key_value_heads"]
    widths = [c.get(key, 0) for key in ("intermediate_size", "moe_intermediate_size",
                                        "shared_expert_intermediate_size")]
    ranks = [n for n in (1, 2, 3, 4, 6, 8) if heads % n == 0 and (kv % n == 0 or n % kv == 0) and
             all(width % n == 0 for width in widths)]
    return family, c, rng.choice(ranks)


def fill(model, seed):
    """Fills the model with weights that make logits differ clearly from token to token."""
    g = torch.Generator().manual_seed(seed)
    offset = 0 if model.config.model_type.startswith("gemma") else 1
    with torch.no_grad():
        for name, w in model.named_parameters():
            x = torch.randn(w.shape, generator=g)
            w.copy_(offset + 0.2 * x if "norm" in name.lower()
                    else x / w.shape[-1] ** 0.5 if w.dim() > 1
                    else x if name.endswith("sinks") else 0.2 * x)
        for name, w in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                w.copy_(0.3 * torch.randn(w.shape, generator=g))
    return model.eval()


def family_lists_layers(said):
    """Whether only layer_types says which layers have a window."""
    return said["model_type"] in ("smollm3", "gemma2", "gemma3_text", "gpt_oss")


def rewrite(rng, folder):
    """Rewrites the configuration in the form of transformers 4, or leaves it unchanged."""
    path = folder / "config.json"
    said = json.loads(path.read_text())
    if rng.random() < 0.5 or "rope_parameters" not in said:
        return said
    parameters = said.pop("rope_parameters")
    if "full_attention" in parameters:
        local = parameters["sliding_attention"]
        if local["rope_type"] != "default":
            return json.loads(path.read_text())
        said["rope_local_base_freq"] = local["rope_theta"]
        parameters = parameters["full_attention"]
    neox = said["model_type"] == "gpt_neox"
    said["rotary_emb_base" if neox else "rope_theta"] = parameters.pop("rope_theta")
    if neox:
        said["rotary_pct"] = parameters.pop("partial_rotary_factor")
    name = rng.choice(["type", "rope_type"])
    kind = parameters.pop("rope_type")
    if "partial_rotary_factor" in parameters:
        said["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    said["rope_scaling"] = None if kind == "default" else {name: kind, **parameters}
    said.pop("dtype", None)
    if family_lists_layers(said):
        return json.loads(path.read_text())
    said.pop("layer_types", None)
    said.update({k: v for k, v in OLD_KEYS.items() if rng.random() < 0.7})
    path.write_text(json.dumps(said))
    return said


def expected(model, prompts):
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        made = model.generate(ids, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False,
                              eos_token_id=None, pad_token_id=0, output_logits=True,
                              use_cache=getattr(model.config, "sliding_window", 0) != 1,
                              return_dict_in_generate=True)  # its cache for window 1 keeps all keys
    logits = torch.stack(made.logits, 1)
    top = logits.topk(2).values
    margins = (top[..., 0] - top[..., 1]) / logits.abs().amax(-1)
    return logits[:, 0].numpy(), made.sequences[:, longest:].tolist(), margins


def expected_alone(model, prompts):
    """The same without padding. Eager attention in f64 gives NaN for padding in a window."""
    parts = [expected(model, [prompt]) for prompt in prompts]
    return (numpy.concatenate([logits for logits, _, _ in parts]),
            [row for _, rows, _ in parts for row in rows],
            torch.cat([margins for _, _, margins in parts]))


def expected_masked(model, prompts):
    """The logits of every token, its likeliest word, and the words' margins."""
    pad = model.config.pad_token_id
    longest = max(map(len, prompts))
    ids = torch.tensor([p + [pad] * (longest - len(p)) for p in prompts])
    mask = torch.tensor([[1] * len(p) + [0] * (longest - len(p)) for p in prompts])
    with torch.no_grad():
        logits = model(ids, attention_mask=mask).logits * mask[..., None]
    top = logits.topk(2).values
    margins = (top[..., 0] - top[..., 1]) / logits.abs().amax()
    return logits.numpy(), logits.argmax(-1).tolist(), margins


def run(folder, prompts, *more, masked=False):
    work = folder / "out"
    work.mkdir(exist_ok=True)
    (work / "ids.txt").write_text("".join(" ".join(map(str, p)) + "\n" for p in prompts))
    how = (["--logits", "all"] if masked else
           ["--num_output_tokens", str(NEW_TOKENS), "--temperature", "0"])
    done = subprocess.run(
        [os.path.join(os.environ["SYN_BUILD"], "inference"), "--weights", str(folder),
         "--prompt_ids", str(work / "ids.txt"), "--json", *how,
         "--save_logits", str(work / "logits.npy"), *more],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr
    logits = numpy.load(work / "logits.npy")
    return logits, logits.argmax(-1).tolist() if masked else json.loads(done.stdout)["tokens"]


def pack_experts(folder, seed):
    """Replaces the matrices of a gpt-oss's experts by random ones in MXFP4, as the published
    checkpoints have them."""
    g = torch.Generator().manual_seed(seed)
    config = json.loads((folder / "config.json").read_text())
    experts, rows = config["num_local_experts"], config["intermediate_size"]
    hidden, packed = config["hidden_size"], {}
    for layer in range(config["num_hidden_layers"]):
        for name, out, width in (("gate_up", 2 * rows, hidden), ("down", hidden, rows)):
            stem = f"model.layers.{layer}.mlp.experts.{name}_proj"
            shape = (experts, out, width // 32)
            packed[stem + "_blocks"] = torch.randint(0, 256, (*shape, 16), generator=g).byte()
            packed[stem + "_scales"] = torch.randint(120, 126, shape, generator=g).byte()
    tensors = {}
    for path in folder.glob("*.safetensors"):
        tensors.update(load_file(path))
        path.unlink()
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    both = dict(tensors)
    for key in [key for key in packed if key.endswith("_blocks")]:
        stem = key.removesuffix("_blocks")
        both[stem] = convert_moe_packed_tensors(packed[key], packed[stem + "_scales"],
                                                dtype=torch.float32)
        del tensors[stem]
    save_file({k: v.contiguous() for k, v in both.items()}, folder / "model.safetensors",
              {"format": "pt"})
    model = load(folder)
    save_file({**tensors, **packed}, folder / "model.safetensors", {"format": "pt"})
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])
    (folder / "config.json").write_text(json.dumps(config))
    return model


def random_model(family, config, seed):
    cls = getattr(transformers, CONFIGS.get(NAMES[family], NAMES[family] + "Config"))
    kind = "ForMaskedLM" if family == "roberta" else "ForCausalLM"
    return fill(getattr(transformers, NAMES[family] + kind)(cls(**config)), seed)


def load(folder):
    """Returns the model in f64. transformers' grouped products of experts do not support f64."""
    roberta = json.loads((folder / "config.json").read_text())["model_type"] == "roberta"
    cls = transformers.AutoModelForMaskedLM if roberta else transformers.AutoModelForCausalLM
    return cls.from_pretrained(folder, dtype=torch.float64, experts_implementation="eager")


def one(seed, folder):
    """Returns (largest difference, ties, error message or "")."""
    rng = random.Random(seed)
    family, config, tp = draw(rng)
    model = random_model(family, config, seed)
    model = model.to(rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    model.save_pretrained(folder, max_shard_size=rng.choice(["2KB", "20KB", "1GB"]))
    said = rewrite(rng, folder)
    masked = family == "roberta"
    kind = config.get("rope_parameters", {"rope_type": "default"})
    kind = kind.get("full_attention", kind)
    most = config["max_position_embeddings"]
    if masked:
        most += NEW_TOKENS - config["pad_token_id"] - 1
    if kind["rope_type"] in ("dynamic", "linear", "yarn"):
        scaled = kind.get("original_max_position_embeddings", most) * kind["factor"]
        most = max(most, min(int(scaled), 200))
    longest = rng.randint(1, most - NEW_TOKENS)
    if kind["rope_type"] == "longrope":  # the frequencies do not change while the text grows
        short = config["original_max_position_embeddings"]
        longest = rng.choice([n for n in range(1, most - NEW_TOKENS + 1)
                              if n > short or n + NEW_TOKENS - 1 <= short])
    words = [i for i in range(config["vocab_size"]) if not masked or i != config["pad_token_id"]]
    prompts = [[rng.choice(words) for _ in range(n)] for n in
               [longest] + [rng.randint(1, longest) for _ in range(rng.randint(0, 3))]]
    packs = family == "gpt_oss" and all(config[key] % 32 == 0 for key in
                                        ("hidden_size", "intermediate_size"))
    model = pack_experts(folder, seed) if packs else load(folder)
    alone = family == "gemma2"  # which has no other attention
    if alone and kind["rope_type"] == "dynamic":  # depends on the longest prompt
        prompts = prompts[:1]
    of = expected_masked if masked else expected_alone if alone else expected
    want, tokens, margins = of(model.eval(), prompts)
    attention = rng.choice(["fused", "unfused", "auto"])
    got, mine = run(folder, prompts, "--tp", str(tp), "--attention", attention,
                    masked=masked)
    what = f"seed {seed}: tp {tp}, {attention}, prompts {[len(p) for p in prompts]}, {said}"
    if got is None:
        return 0, 0, f"{what}: {mine}"
    off = abs(got - want).max() / abs(want).max()
    ties = 0
    for row, other, margin in zip(tokens, mine, margins):
        at = next((i for i, (a, b) in enumerate(zip(row, other)) if a != b), None)
        if at is None:
            continue
        ties += 1
        if margin[at] > 1e-4:
            return off, 0, f"{what}: token {at} is {other[at]}, not {row[at]} ({margin[at]})"
    return off, ties, "" if off < 1e-5 else f"{what}: off by {off}"


def every_seed(one, count):
    """Returns the results of `one` for `count` seeds, or for the seeds that argv names. Prints the
    last member of each result, which is an error message."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else count
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    found = []
    for seed in range(first, first + count):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="syntorch-"))
        found.append(one(seed, folder))
        shutil.rmtree(folder)
        if found[-1][-1]:
            print(found[-1][-1], flush=True)
    return list(zip(*found))


def main():
    off, ties, what = every_seed(one, 100)
    wrong = sum(map(bool, what))
    print(f"{len(what)} models: {wrong} wrong, {sum(ties)} texts with ties, logits off by "
          f"{max(off):.2g}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
