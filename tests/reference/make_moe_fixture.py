#!/usr/bin/env python3
"""Makes tiny_mixtral/, tiny_qwen2_moe/, tiny_qwen3_moe/, tiny_deepseek_v2/, tiny_deepseek_v3/ and
tiny_gpt_oss/, checkpoints of mixtures of experts as transformers saves them, and the outputs of
transformers for them: moe.json (see make_llama_fixture.py), and training_mixtral.safetensors and so
on (see make_training_fixture.py). Also makes tiny_gpt_oss_mxfp4/, whose experts are in MXFP4 as in
the published checkpoints. Made with torch 2.15 and transformers 5.24.

All have width 24 and 4 heads; Mixtral and Qwen have 2 key heads. The Qwen models have a layer
without experts; Qwen2-MoE also has a shared expert. The DeepSeek models have latent attention, a
first layer without experts, shared experts and groups of experts. In the training fixtures, the
matrices of all experts of a layer are one tensor, as in our models: experts.*.gate_proj.weight.
gpt-oss has a limit that many of the experts' projections exceed, and sinks of both signs.
"""
import json
import pathlib
import shutil
import torch
import transformers
from compare_random_models import pack_experts
from make_llama_fixture import fill, results
from make_training_fixture import train
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
SHAPE = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
             bos_token_id=None, eos_token_id=None)
LATENT = dict(num_hidden_layers=2, num_key_value_heads=4, kv_lora_rank=12, qk_nope_head_dim=6,
              qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=8, n_group=4, topk_group=2,
              num_experts_per_tok=3, moe_intermediate_size=12, first_k_dense_replace=1,
              routed_scaling_factor=1.5)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=32,
            mscale=0.7, mscale_all_dim=0.7)
GPT_OSS = dict(num_local_experts=4, num_experts_per_tok=2, num_hidden_layers=2, head_dim=8,
               sliding_window=7, swiglu_limit=0.7,
               rope_parameters=dict(rope_type="yarn", rope_theta=1.5e5, factor=4.0, truncate=False,
                                    original_max_position_embeddings=32))
MODELS = {
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=7,
                                num_hidden_layers=2)),
    "qwen2_moe": ("Qwen2Moe", dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
                                   shared_expert_intermediate_size=32, decoder_sparse_step=1,
                                   mlp_only_layers=[1])),
    "qwen3_moe": ("Qwen3Moe", dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12,
                                   norm_topk_prob=True, head_dim=8, decoder_sparse_step=2)),
    "deepseek_v2": ("DeepseekV2", dict(
        **LATENT, q_lora_rank=None, n_shared_experts=2, topk_method="group_limited_greedy",
        rope_parameters=YARN)),
    "deepseek_v3": ("DeepseekV3", dict(**LATENT, q_lora_rank=20, n_shared_experts=1,
                                       attention_bias=True)),
    "gpt_oss": ("GptOss", dict(GPT_OSS, intermediate_size=16)),
    "gpt_oss_mxfp4": ("GptOss", dict(GPT_OSS, hidden_size=32, intermediate_size=64))}
# transformers' names of the experts' matrices, and those of checkpoints
NAMES = {"mixtral": ("mlp", "block_sparse_moe", "w1", "w3", "w2"),
         "qwen2_moe": ("mlp", "mlp", "gate_proj", "up_proj", "down_proj"),
         "qwen3_moe": ("mlp", "mlp", "gate_proj", "up_proj", "down_proj"),
         "deepseek_v2": ("mlp", "mlp", "gate_proj", "up_proj", "down_proj"),
         "deepseek_v3": ("mlp", "mlp", "gate_proj", "up_proj", "down_proj")}


def unstacked(tensors):
    """Replaces the stacks of gpt-oss by our parameters."""
    out = {}
    for key, value in tensors.items():
        stem, _, what = key.rpartition(".")
        if not stem.endswith("experts"):
            out[key] = value
            continue
        end = "bias" if what.endswith("_bias") else "weight"
        columns = value if end == "bias" else value.transpose(1, 2)
        if what.startswith("down"):
            out[f"{stem}.down_proj.{end}"] = columns
        else:
            out[f"{stem}.gate_proj.{end}"] = columns[:, 0::2]
            out[f"{stem}.up_proj.{end}"] = columns[:, 1::2]
    return out


def renamed(tensors, name):
    """Replaces transformers' own names of experts by those of checkpoints."""
    if name == "gpt_oss":
        return unstacked(tensors)
    inside, saved, gate, up, down = NAMES[name]
    out = {}
    for key, value in tensors.items():
        if key.endswith("experts.gate_up_proj"):
            stem = key.removesuffix(f"{inside}.experts.gate_up_proj") + f"{saved}.experts.*."
            halves = torch.chunk(value, 2, dim=1)
            out[f"{stem}{gate}.weight"], out[f"{stem}{up}.weight"] = map(torch.clone, halves)
        elif key.endswith("experts.down_proj"):
            stem = key.removesuffix(f"{inside}.experts.down_proj") + f"{saved}.experts.*."
            out[f"{stem}{down}.weight"] = value
        else:
            out[key.replace(f".{inside}.gate.", f".{saved}.gate.")] = value
    return out


def main():
    out = {}
    for number, (name, (cls, more)) in enumerate(MODELS.items()):
        folder = HERE / f"tiny_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        model = getattr(transformers, cls + "ForCausalLM")
        config = getattr(transformers, cls + "Config")(
            **{**SHAPE, **more}, attn_implementation="eager", experts_implementation="eager")
        made = fill(model(config), number + 5)
        for key, bias in made.named_buffers():
            if key.endswith("e_score_correction_bias"):
                bias.copy_(torch.linspace(-0.2, 0.3, len(bias))[torch.arange(len(bias)) * 3 % 8])
        made.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        if name == "gpt_oss_mxfp4":
            out[name] = results(pack_experts(folder, number))
            continue
        out[name] = results(made)
        trained = train(f"tiny_{name}", model, False)
        save_file({k: v.contiguous() for k, v in renamed(trained, name).items()},
                  HERE / f"training_{name}.safetensors")
    (HERE / "moe.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
