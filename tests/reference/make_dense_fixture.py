#!/usr/bin/env python3
"""Makes tiny_starcoder2/ and so on, checkpoints of the dense families that are neither in
make_llama_fixture.py nor in make_neox_fixture.py, as transformers saves them, and the outputs of
transformers for them: dense.json (see make_llama_fixture.py), and training_starcoder2.safetensors
and so on (see make_training_fixture.py). Made with torch 2.15 and transformers 5.24.

    python3 make_dense_fixture.py [family...]

All have width 24, 4 heads, 2 key heads (OPT: 4) and 2 or 3 layers. In the training fixture of
Phi-3, matrices that checkpoints join are separate, as in our models: q_proj, k_proj, v_proj,
gate_proj, up_proj.
"""
import json
import pathlib
import shutil
import sys
import torch
import transformers
from make_llama_fixture import SHAPE, fill, results
from make_training_fixture import train
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
MODELS = {
    "starcoder2": ("Starcoder2", dict(sliding_window=7)),
    "phi3": ("Phi3", dict(sliding_window=9, head_dim=8, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75))),
    "olmo2": ("Olmo2", dict(attention_bias=True)),
    "granite": ("Granite", dict(embedding_multiplier=3.0, residual_multiplier=0.5,
                                attention_multiplier=0.3, logits_scaling=2.0, mlp_bias=True,
                                tie_word_embeddings=True)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=3, no_rope_layers=[1, 0, 1], sliding_window=9,
                                use_sliding_window=True)),
    "gemma2": ("Gemma2", dict(head_dim=8, query_pre_attn_scalar=5, sliding_window=7,
                              num_hidden_layers=3, attn_logit_softcapping=4.0,
                              final_logit_softcapping=6.0)),
    "gemma3_text": ("Gemma3", dict(head_dim=8, query_pre_attn_scalar=5, sliding_window=7,
                                   num_hidden_layers=3, attention_bias=True, layer_types=[
                                       "sliding_attention", "full_attention", "sliding_attention"],
                                   rope_parameters=dict(full_attention=dict(
                                       rope_type="linear", rope_theta=1000000.0, factor=8.0)))),
    "opt": ("OPT", dict(ffn_dim=40)),
    "phi3_longrope": ("Phi3", dict(original_max_position_embeddings=16, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5, 2.5],
        long_factor=[1.25, 3.0, 7.5]))),
}

SHORT = 9
CONFIGS = {"Gemma3": "Gemma3TextConfig"}


def separate(tensors):
    """Divides joined matrices into ours."""
    out = {}
    for key, value in tensors.items():
        if ".qkv_proj" in key:
            names, sizes = ("q_proj", "k_proj", "v_proj"), [32, 16, 16]
        elif ".gate_up_proj" in key:
            names, sizes = ("gate_proj", "up_proj"), [40, 40]
        else:
            out[key] = value
            continue
        joined = key.split(".")[-2]
        for name, part in zip(names, value.split(sizes)):
            out[key.replace(joined, name)] = part.clone()
    return out


def main():
    path = HERE / "dense.json"
    out = json.loads(path.read_text()) if path.exists() else {}
    for number, (name, (cls, more)) in enumerate(MODELS.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        folder = HERE / f"tiny_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        model = getattr(transformers, cls + "ForCausalLM")
        config = getattr(transformers, CONFIGS.get(cls, cls + "Config"))(
            **{**SHAPE, **more, "pad_token_id": None}, attn_implementation="eager")
        if name == "opt":  # which has other names for them
            del config.intermediate_size, config.num_key_value_heads
        made = fill(model(config), number + 20)
        made.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        out[name] = results(made)
        if name == "phi3_longrope":  # whose texts are long, except for this one
            out[name]["short"] = made(torch.tensor([out[name]["ids"][0][:SHORT]])).logits[
                0, -1].tolist()
            continue
        trained = train(f"tiny_{name}", model, False)
        save_file({k: v.contiguous() for k, v in separate(trained).items()},
                  HERE / f"training_{name}.safetensors")
    path.write_text(json.dumps({name: out[name] for name in MODELS}) + "\n")


main()
