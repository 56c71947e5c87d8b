#!/usr/bin/env python3
"""Makes gpt2_logits.json: the outputs of HuggingFace's GPT-2 with weights that the tests can
repeat.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python make_gpt2_fixture.py > gpt2_logits.json

Only this script needs torch, and only to make the fixture again (made with torch 2.2.2 and
transformers 4.40.2). The weights are hashes of (parameter number, element index) in integer
arithmetic. ref_value in tests/support/gpt_reference.h has the same formula in C. Logits are
computed in f64 and rounded to 7 digits. The JSON is one list of models, each with its configuration
and its texts: the tokens, the logits after each token, and the greedy tokens that follow.
"""
import json
import sys

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel

COMMON = dict(n_layer=2, n_embd=64, n_head=8, n_positions=32, vocab_size=97,
              layer_norm_epsilon=1e-5, resid_pdrop=0.0,
              embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=96, eos_token_id=96)
MODELS = [
    dict(activation_function="gelu_new", tie_word_embeddings=True),
    dict(activation_function="gelu", tie_word_embeddings=False, n_inner=96),
]
TEXTS = [[5, 3, 88, 41, 0, 17], [96], [12, 12, 12, 12, 13, 14, 15, 60, 70, 80]]
NEW_TOKENS = 8


def hashed(p, n, scale):
    """Returns the first n elements of parameter number p."""
    x = torch.arange(n, dtype=torch.int64)
    x = (x * 2654435761 + p * 40503 + 12345) & 0xFFFFFFFF
    x = x ^ (x >> 15)
    low, high = x & 0xFFFF, x >> 16  # so that the product stays below 63 bits
    x = (low * 2246822519 + ((high * 2246822519 & 0xFFFF) << 16)) & 0xFFFFFFFF
    x = x ^ (x >> 13)
    return (x % 2049 - 1024).double() / 1024 * scale


def names(config):
    yield "transformer.wte.weight"
    yield "transformer.wpe.weight"
    for i in range(config.n_layer):
        for part in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
            yield f"transformer.h.{i}.{part}.weight"
            yield f"transformer.h.{i}.{part}.bias"
    yield "transformer.ln_f.weight"
    yield "transformer.ln_f.bias"
    if not config.tie_word_embeddings:
        yield "lm_head.weight"


def fill(model):
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for p, name in enumerate(names(model.config)):
            w = parameters.pop(name)
            norm = ".ln_" in name and name.endswith(".weight")
            scale = 0.5 if ".wte." in name else 0.25 if norm or w.dim() == 2 else 0.125
            w.copy_(hashed(p, w.numel(), scale).view(w.shape) + (1 if norm else 0))
    assert not parameters, parameters.keys()


def rounded(x):
    return float(f"{x:.7g}")


def run(model, tokens):
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]
        text = list(tokens)
        for _ in range(NEW_TOKENS):
            text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    return {"tokens": tokens, "greedy": text[len(tokens):],
            "logits": [[rounded(v) for v in row.tolist()] for row in logits]}


def main():
    out = []
    for options in MODELS:
        config = GPT2Config(**COMMON, **options)
        model = GPT2LMHeadModel(config).double().eval()
        fill(model)
        kept = ("n_layer", "n_embd", "n_head", "n_positions", "n_inner", "vocab_size",
                "layer_norm_epsilon", "activation_function", "tie_word_embeddings")
        out.append({"config": {k: getattr(config, k) for k in kept},
                    "texts": [run(model, t) for t in TEXTS]})
    print(f"torch {torch.__version__}, transformers {transformers.__version__}", file=sys.stderr)
    json.dump(out, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
