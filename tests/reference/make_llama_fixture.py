#!/usr/bin/env python3
"""Makes tiny_llama/, tiny_mistral/, tiny_qwen2/ and tiny_qwen3/, checkpoints as transformers saves
them, and llama.json, the outputs of transformers for them. Also makes variants.json: configurations
of the same shape with other rotary embeddings or windows, and their outputs with the weights of
tiny_llama/.

All have width 24, 4 query heads, 2 key heads, 2 layers and random weights. tiny_llama has Llama
3.1's frequencies, biases everywhere and a tied head. tiny_mistral has a window of 7 keys.
tiny_qwen2 has biases of q, k and v, and a window of 9 keys in the second layer. tiny_qwen3 has
norms of q and k, and heads of 8 elements instead of 6.

In the .json files, logits are those of the last token of each of two texts of 20 tokens, computed
in f64, and tokens are 30 greedy tokens after the first text.
"""
import json
import pathlib
import shutil
import torch
import transformers
from transformers.models.llama import modeling_llama

HERE = pathlib.Path(__file__).parent
SHAPE = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
             bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=32)
FAMILIES = {"llama": ("Llama", dict(rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True,
                                    tie_word_embeddings=True)),
            "mistral": ("Mistral", dict(sliding_window=7)),
            "qwen2": ("Qwen2", dict(use_sliding_window=True, sliding_window=9,
                                    max_window_layers=1)),
            "qwen3": ("Qwen3", dict(head_dim=8))}
VARIANTS = [dict(rope_type="default", rope_theta=10000.0),
            dict(rope_type="linear", rope_theta=10000.0, factor=2.5),
            dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                 original_max_position_embeddings=32),
            dict(rope_type="yarn", rope_theta=1000000.0, factor=3.0, truncate=False,
                 original_max_position_embeddings=16, beta_fast=16.0, beta_slow=2.0, mscale=0.7,
                 mscale_all_dim=1.3),
            dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, attention_factor=1.25,
                 original_max_position_embeddings=32),
            dict(rope_type="linear", rope_theta=10000.0, factor=1.0, partial_rotary_factor=0.7),
            dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0),
            dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
            dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                 original_max_position_embeddings=16)]
SHORT = 3  # the last ones, with 16 positions: their texts are longer, so only scaled kinds suit


def classes(name):
    return getattr(transformers, name + "Config"), getattr(transformers, name + "ForCausalLM")


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, w in model.named_parameters():
            x = torch.randn(w.shape, generator=g)
            w.copy_(1 + 0.2 * x if "norm" in name.lower() else 0.3 * x if w.dim() == 2 else 0.2 * x)
    return model.eval()


def apply_partial_rotary(q, k, cos, sin, unsqueeze_dim=1,
                         whole=modeling_llama.apply_rotary_pos_emb):
    """Llama's function with partial_rotary_factor, which transformers supports only in other
    models."""
    n = cos.shape[-1]
    turned = whole(q[..., :n], k[..., :n], cos, sin, unsqueeze_dim)
    return tuple(torch.cat([a, b[..., n:]], -1) for a, b in zip(turned, (q, k)))


def results(model):
    ids = torch.randint(3, SHAPE["vocab_size"], (2, 20), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        wide = model.double()
        logits = wide(ids).logits[:, -1]
        # "dynamic" keeps the frequencies of the longest text that it has seen
        new = wide.generate(ids[:1], max_new_tokens=30, do_sample=False, eos_token_id=None,
                            pad_token_id=0)[0, 20:]
    return {"ids": ids.tolist(), "tokens": new.tolist(),
            "logits": [[float(f"{x:.7g}") for x in row] for row in logits.tolist()]}


def main():
    out = {}
    for number, (name, (cls, more)) in enumerate(FAMILIES.items()):
        config, model = classes(cls)
        folder = HERE / f"tiny_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        made = fill(model(config(**{**SHAPE, **more}, attn_implementation="eager")), number)
        made.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        out[name] = results(made)
    (HERE / "llama.json").write_text(json.dumps(out) + "\n")
    config, model = classes("Llama")
    variants = []
    modeling_llama.apply_rotary_pos_emb = apply_partial_rotary
    for i, rope in enumerate(VARIANTS):
        more = dict(FAMILIES["llama"][1], rope_parameters=rope)
        if i >= len(VARIANTS) - SHORT:
            more["max_position_embeddings"] = 16
        made = fill(model(config(**{**SHAPE, **more}, attn_implementation="eager")), 0)
        said = json.loads(made.config.to_json_string())
        variants.append({"config": said, **results(made)})
    (HERE / "variants.json").write_text(json.dumps(variants) + "\n")


if __name__ == "__main__":
    main()
