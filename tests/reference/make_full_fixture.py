#!/usr/bin/env python3
"""Makes full_gpt2.json and full_bert.json: the outputs of HuggingFace's `gpt2` (124M) and
`bert-base-uncased` with weights from a formula that the tests repeat. This avoids storing
checkpoints of 500 MB.

    python3 -m venv venv && venv/bin/pip install torch==2.8.0 transformers==4.57.6
    venv/bin/python make_full_fixture.py

Element i of parameter number p is (in row-major order as HuggingFace stores it: Conv1D of GPT-2 is
(in, out), Linear of BERT is (out, in); arithmetic is 32-bit unsigned and wraps)

    x = i * 2654435761 + p * 40503 + 12345;  x ^= x >> 15;  x *= 2246822519;  x ^= x >> 13
    value = (x % 2049 - 1024) / 1024 * scale,  + 1 for the weights of norms

This is ref_value(p, i, scale) of tests/support/gpt_reference.h. p counts from 0 in the order of
gpt2_names and bert_names below, across the whole model.

The scale of a vector is 1/4 for weights of norms, else 1/8. The scale of a matrix is 1/8 (deviation
0.07) for c_attn, query and key, 1/32 for c_fc and intermediate.dense, else 1/16. With these scales
attention is sharp, positions differ, and every value is exact in f32 (and in f16, except for
norms). Expected values are computed in f64 and rounded to 7 digits. f32 results are compared with
them when this script runs.
"""
import json
import os

import numpy as np
import torch
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

HERE = os.path.dirname(os.path.abspath(__file__))
NEW_TOKENS = 50
LISTED = 200  # logits of the ids 0, stride, 2 * stride, ...
MASK = 103    # [MASK] of bert-base-uncased; 101 is [CLS], 102 [SEP], 0 [PAD]


# ---- Weights ----

def value(p, n, scale):
    x = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(p * 40503 + 12345)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    return ((x % np.uint32(2049)).astype(np.int32) - 1024).astype(np.float64) / 1024 * scale


def gpt2_names(layers):
    yield "transformer.wte.weight"
    yield "transformer.wpe.weight"
    for i in range(layers):
        for part in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
            yield f"transformer.h.{i}.{part}.weight"
            yield f"transformer.h.{i}.{part}.bias"
    yield "transformer.ln_f.weight"
    yield "transformer.ln_f.bias"


def bert_names(layers):
    yield "bert.embeddings.word_embeddings.weight"
    yield "bert.embeddings.position_embeddings.weight"
    yield "bert.embeddings.token_type_embeddings.weight"
    yield "bert.embeddings.LayerNorm.weight"
    yield "bert.embeddings.LayerNorm.bias"
    for i in range(layers):
        for part in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense",
                     "attention.output.LayerNorm", "intermediate.dense", "output.dense",
                     "output.LayerNorm"):
            yield f"bert.encoder.layer.{i}.{part}.weight"
            yield f"bert.encoder.layer.{i}.{part}.bias"
    yield "bert.pooler.dense.weight"
    yield "bert.pooler.dense.bias"
    yield "cls.predictions.bias"
    yield "cls.predictions.transform.dense.weight"
    yield "cls.predictions.transform.dense.bias"
    yield "cls.predictions.transform.LayerNorm.weight"
    yield "cls.predictions.transform.LayerNorm.bias"
    yield "cls.seq_relationship.weight"
    yield "cls.seq_relationship.bias"


def scale_of(name, dims):
    if dims == 1:
        return 1 / 4 if is_norm(name) else 1 / 8
    part = name.split(".")[-2]
    return 1 / 8 if part in ("c_attn", "query", "key") else 1 / 32 if ".intermediate." in name \
        or part == "c_fc" else 1 / 16


def is_norm(name):
    return (".ln_" in name or "LayerNorm" in name) and name.endswith(".weight")


def fill(model, names):
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for p, name in enumerate(names):
            w = parameters.pop(name)
            x = torch.from_numpy(value(p, w.numel(), scale_of(name, w.dim()))).view(w.shape)
            w.copy_(x + 1 if is_norm(name) else x)
    assert not parameters, parameters.keys()
    return model.double().eval()


# ---- Expected values ----

def rounded(x):
    return float(f"{x:.7g}") if isinstance(x, float) else [rounded(v) for v in x]


def error(got, want):
    return float(f"{((got.double() - want).abs().max() / want.abs().max()).item():.2g}")


def summary(logits):
    """Returns some logits of a position, and statistics of all of them."""
    stride = len(logits) // LISTED
    top = logits.topk(10)
    return {"stride": stride, "logits": rounded(logits[:stride * LISTED:stride].tolist()),
            "top_ids": top.indices.tolist(), "top_logits": rounded(top.values.tolist()),
            "min": rounded(logits.min().item()), "sum": rounded(logits.sum().item()),
            "sum_of_squares": rounded(logits.square().sum().item())}


def margin(logits):
    best = logits.topk(2, dim=-1).values
    return (best[..., 0] - best[..., 1]).min().item()


def greedy(model, tokens):
    """Returns the tokens, and how clearly the likeliest token won when computed without a cache."""
    out = model.generate(torch.tensor([tokens]), max_new_tokens=NEW_TOKENS, do_sample=False,
                         pad_token_id=50256,
                         attention_mask=torch.ones(1, len(tokens), dtype=torch.long))
    new = out[0, len(tokens):].tolist()
    logits = model(out).logits[0, len(tokens) - 1:-1]
    assert len(new) == NEW_TOKENS and logits.argmax(-1).tolist() == new and len(set(new)) >= 15, new
    return new, margin(logits)


def gpt2():
    model = fill(GPT2LMHeadModel(GPT2Config(attn_implementation="eager")), gpt2_names(12))
    tokens = [(i * i * 31 + i * 977 + 13) % 50257 for i in range(64)]
    want = model(torch.tensor([tokens])).logits[0]
    new, clear = greedy(model, tokens)
    model.float()
    got = model(torch.tensor([tokens])).logits[0]
    return {"tokens": tokens, "greedy": new, "margin": rounded(clear),
            "f32_error": error(got[-1], want[-1]), **summary(want[-1])}


def bert_batch(lengths):
    """Returns rows of two sentences with padding, [CLS] a [SEP] b [SEP] [PAD]...: tokens, mask,
    types."""
    longest = max(lengths)
    rows = []
    for r, n in enumerate(lengths):
        tokens = [(i * i * 53 + i * 611 + r * 7 + 29) % 29000 + 1000 for i in range(n)]
        cut = n // 2
        tokens[0], tokens[cut], tokens[-1] = 101, 102, 102
        pad = [0] * (longest - n)
        rows.append((tokens + pad, [1] * n + pad, [0] * (cut + 1) + [1] * (n - cut - 1) + pad))
    return [torch.tensor(x) for x in zip(*rows)]


def bert_outputs(model, tokens, mask, types):
    out = model(tokens, attention_mask=mask, token_type_ids=types)
    return out.prediction_logits, out.seq_relationship_logits, model.bert(
        tokens, attention_mask=mask, token_type_ids=types).pooler_output


def bert():
    model = fill(BertForPreTraining(BertConfig(attn_implementation="eager")), bert_names(12))
    long, masked = bert_batch([128]), [21, 90]
    long[0][0, masked] = MASK
    short = bert_batch([24, 15])
    short[0][0, 7] = short[0][1, 3] = MASK
    want = [bert_outputs(model, *long), bert_outputs(model, *short)]
    model.float()
    got = [bert_outputs(model, *long), bert_outputs(model, *short)]
    errors = [error(got[0][0][0, masked], want[0][0][0, masked]),
              error(got[1][0][0, 7], want[1][0][0, 7]),
              error(got[1][0][1, 3], want[1][0][1, 3]), error(got[0][1], want[0][1]),
              error(got[1][1], want[1][1]),
              error(got[0][2], want[0][2]), error(got[1][2], want[1][2])]

    def case(batch, out, spots):
        return {**{k: x.tolist() for k, x in zip(("tokens", "mask", "types"), batch)},
                "pooled": rounded(out[2][:, :32].tolist()), "nsp": rounded(out[1].tolist()),
                "masked": [{"row": r, "position": p, "margin": rounded(margin(out[0][r, p])),
                            **summary(out[0][r, p])}
                           for r, p in spots]}

    return {"f32_error": max(errors),
            "cases": [case(long, want[0], [(0, p) for p in masked]),
                      case(short, want[1], [(0, 7), (1, 3)])]}


def main():
    for name, make in {"full_gpt2.json": gpt2, "full_bert.json": bert}.items():
        with torch.inference_mode():
            document = make()
        print(name, "f32_error", document["f32_error"])
        with open(os.path.join(HERE, name), "w") as f:
            f.write(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    logging.set_verbosity_error()
    main()
