#!/usr/bin/env python3
"""Makes the folders head_*/ (tiny checkpoints whose files contain a separate head) and heads.json
(the outputs of HuggingFace for them). README.md in this folder describes both.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0
    venv/bin/python make_head_checkpoints.py

Only this script needs torch; no test does. Logits are computed in f64 from the stored weights.
"""
import json
import os
import shutil

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
GPT2 = dict(vocab_size=101, n_positions=24, n_embd=16, n_layer=1, n_head=4, bos_token_id=None,
            eos_token_id=None, tie_word_embeddings=False)
BERT = dict(vocab_size=103, hidden_size=16, num_hidden_layers=1, num_attention_heads=4,
            intermediate_size=32, max_position_embeddings=24, tie_word_embeddings=False)
PROMPT, NEW_TOKENS = [5, 3, 88, 41, 0, 17], 12
MASKED = [2, 17, 4, 61, 9, 3]  # 2, 3 and 4 are used as [CLS], [SEP] and [MASK]


def fill(model, seed):
    """Fills weights as make_tiny_checkpoints.py does, with norms around 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, w in model.named_parameters():
            norm = any(s in name for s in ("ln_", "LayerNorm")) and name.endswith("weight")
            x = torch.randn(w.shape, generator=generator)
            w.copy_(1 + 0.2 * x if norm else 0.3 * x if w.dim() == 2 else 0.1 * x)
    return model.eval()


def save(model, name, dtype, tied, **options):
    """Saves a file that contains the head. The configuration says whether the head is tied."""
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(DTYPES[dtype]).save_pretrained(folder, **options)
    for extra in ("generation_config.json", "README.md"):
        if os.path.exists(f"{folder}/{extra}"):
            os.remove(f"{folder}/{extra}")
    with open(f"{folder}/config.json") as f:
        config = json.load(f)
    config["tie_word_embeddings"] = tied
    with open(f"{folder}/config.json", "w") as f:
        f.write(json.dumps(config, indent=2, sort_keys=True) + "\n")


def numbers(x):
    return [float(f"{v:.8g}") for v in x.tolist()]


def expect_gpt2(name):
    model = GPT2LMHeadModel.from_pretrained(os.path.join(HERE, name), dtype=torch.float64)
    tokens, new = list(PROMPT), []
    logits = None
    for _ in range(NEW_TOKENS):
        last = model(torch.tensor([tokens + new])).logits[0, -1]
        logits = last if logits is None else logits
        best = last.topk(2)
        assert best.values[0] - best.values[1] > 1e-3
        new.append(best.indices[0].item())
    return {"checkpoint": name, "tokens": PROMPT, "greedy": new, "logits": numbers(logits)}


def expect_bert(name):
    model = BertForMaskedLM.from_pretrained(os.path.join(HERE, name), dtype=torch.float64)
    logits = model(torch.tensor([MASKED])).logits[0, MASKED.index(4)]
    return {"checkpoint": name, "tokens": MASKED, "logits": numbers(logits)}


def main():
    for dtype in DTYPES:
        shards = {"max_shard_size": "10KB"} if dtype == "bf16" else {}
        save(fill(GPT2LMHeadModel(GPT2Config(**GPT2)), 3), f"head_gpt2_{dtype}", dtype, True,
             **shards)
    save(fill(BertForMaskedLM(BertConfig(**BERT)), 4), "head_bert_f32", "f32", True)
    save(fill(BertForMaskedLM(BertConfig(**BERT)), 4), "head_bert_f16_untied", "f16", False)
    with torch.inference_mode():
        found = {"gpt2": [expect_gpt2(f"head_gpt2_{dtype}") for dtype in DTYPES],
                 "bert": [expect_bert(name) for name in ("head_bert_f32", "head_bert_f16_untied")]}
    with open(os.path.join(HERE, "heads.json"), "w") as f:
        f.write(json.dumps(found, separators=(",", ":")) + "\n")


main()
