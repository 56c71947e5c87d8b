#!/usr/bin/env python3
"""Writes a Llama checkpoint of zeros, as sparse files, which need little disk space:

    tests/support/zero_checkpoint.py FOLDER [--layers 32 --hidden 4096 --heads 32 --inner 11008
                                             --vocab 32000 --shards 2]

The defaults are the shape of Llama-2-7B: 13.5 GB of bf16 in two shards, as on the Hugging Face Hub.
Prints the number of bytes of all tensors."""
import argparse
import json
import os


def tensors(c):
    yield "model.embed_tokens.weight", [c.vocab, c.hidden]
    for i in range(c.layers):
        layer = f"model.layers.{i}."
        for name in "qkvo":
            yield f"{layer}self_attn.{name}_proj.weight", [c.hidden, c.hidden]
        for name in ("gate", "up"):
            yield f"{layer}mlp.{name}_proj.weight", [c.inner, c.hidden]
        yield f"{layer}mlp.down_proj.weight", [c.hidden, c.inner]
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}{name}.weight", [c.hidden]
    yield "model.norm.weight", [c.hidden]
    yield "lm_head.weight", [c.vocab, c.hidden]


def write_shard(path, shard):
    header, at = {}, 0
    for name, shape in shard:
        end = at + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + at)
    return at


def write(c):
    """Writes the checkpoint. Returns the number of bytes of all tensors."""
    folder = c.folder
    os.makedirs(folder, exist_ok=True)
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=c.hidden,
                  num_hidden_layers=c.layers, num_attention_heads=c.heads,
                  num_key_value_heads=c.heads, intermediate_size=c.inner, vocab_size=c.vocab,
                  max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=False,
                  dtype="bfloat16")
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    everything = list(tensors(c))
    total, where, cut = 0, {}, -(-len(everything) // c.shards)
    for i in range(c.shards):
        name = f"model-{i + 1:05}-of-{c.shards:05}.safetensors"
        shard = everything[i * cut:(i + 1) * cut]
        total += write_shard(os.path.join(folder, name), shard)
        where.update({tensor: name for tensor, _ in shard})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": where}, f)
    return total


def parser():
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    shape = dict(layers=32, hidden=4096, heads=32, inner=11008, vocab=32000, shards=2)
    for name, value in shape.items():
        options.add_argument(f"--{name}", type=int, default=value)
    return options


if __name__ == "__main__":
    print(write(parser().parse_args()))
