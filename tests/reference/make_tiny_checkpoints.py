#!/usr/bin/env python3
"""Makes the folders tiny_*/ (checkpoints in HuggingFace's format), and tiny_gpt2.json and
tiny_bert.json (the outputs of HuggingFace for them). README.md in this folder describes both.

    python3 -m venv venv && venv/bin/pip install torch==2.8.0 transformers==4.57.6 safetensors
    venv/bin/python make_tiny_checkpoints.py            # writes everything to this folder
    venv/bin/python make_tiny_checkpoints.py --check    # compares the folders with the .json

Only this script needs torch; no test does. Expected values are computed in f64 from the stored
weights with "eager" attention, and rounded to 7 digits. The script also compares f32 and "sdpa"
attention with them.
"""
import json
import math
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForPreTraining, BertModel, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

GPT2 = dict(vocab_size=101, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=100,
            eos_token_id=100)
UNTIED = dict(GPT2, n_layer=1, n_inner=48, activation_function="gelu", tie_word_embeddings=False)
# With the first two seeds, no greedy token is a near tie and none ends the text.
GPT2_SEED, UNTIED_SEED, BERT_SEED = 7, 6, 5
PROMPTS = [[5, 3, 88, 41, 0, 17], [64, 2, 99, 31, 7, 7, 7, 56, 20, 12, 80, 9, 45, 71]]
BATCH = [[9, 33, 62], [5, 81, 40, 22, 13, 90, 1, 28, 77],
         [30, 60, 90, 19, 49, 79, 8, 38, 68, 98, 27, 57, 87, 16]]
PAD, NEW_TOKENS = 100, 50

BERT = dict(vocab_size=103, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-12)
PAIRS = [([2, 17, 54, 99, 4, 61, 3], [33, 88, 4, 102, 3]), ([2, 70, 4, 11, 96, 3], [45, 3]),
         # 2, 3, 4 and 0 are used as [CLS], [SEP], [MASK] and [PAD]
         ([2, 29, 29, 30, 4, 8, 51, 93, 77, 3], [])]
MLM_AT = [(0, 9), (1, 2)]  # row, position
MLM_IDS = [0, 34, 68, 102]


# ---- Weights ----

def fill(model, seed):
    """Fills weights with normal numbers, so large that every part affects the result. Deviations
    are 0.3 for matrices in layers, 0.2 for other matrices and for norms (around 1), 0.1 for
    biases."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, w in model.named_parameters():
            norm = any(s in name for s in ("ln_", "LayerNorm")) and name.endswith("weight")
            x = torch.randn(w.shape, generator=generator)
            matrix = 0.3 if ".h." in name or ".layer." in name else 0.2
            w.copy_(1 + 0.2 * x if norm else matrix * x if w.dim() == 2 else 0.1 * x)
    return model.eval()


def folder(name):
    return os.path.join(HERE, name)


def save(model, name, dtype, **options):
    shutil.rmtree(folder(name), ignore_errors=True)
    model.to(DTYPES[dtype]).save_pretrained(folder(name), **options)
    generation = os.path.join(folder(name), "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)


def save_old(name, config, tensors):
    """Saves a folder as in the hub's first years: few configuration keys, and the old names of
    tensors."""
    shutil.rmtree(folder(name), ignore_errors=True)
    os.mkdir(folder(name))
    with open(os.path.join(folder(name), "config.json"), "w") as f:
        f.write(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file({k: v.contiguous() for k, v in tensors.items()},
              os.path.join(folder(name), "model.safetensors"), metadata={"format": "pt"})


def save_old_gpt2(name, source):
    """Saves the form of `gpt2` on the hub: no prefix, no head, and the causal mask as a buffer, in
    two of the dtypes in which it was published."""
    tensors = {k.removeprefix("transformer."): v
               for k, v in load_file(f"{folder(source)}/model.safetensors").items()}
    n = GPT2["n_positions"]
    mask = torch.tril(torch.ones(n, n)).view(1, 1, n, n)
    for i, dtype in enumerate((torch.float32, torch.bool)):
        tensors[f"h.{i}.attn.bias"] = mask.to(dtype)
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    save_old(name, dict(GPT2, n_ctx=n, activation_function="gelu_new",
                        architectures=["GPT2LMHeadModel"], attn_pdrop=0.1,
                        embd_pdrop=0.1, resid_pdrop=0.1, initializer_range=0.02,
                        layer_norm_epsilon=1e-5,
                        model_type="gpt2",
                        task_specific_params={"text-generation": {"do_sample": True,
                                                                  "max_length": 50}}),
             tensors)


def save_old_bert(name, source):
    """Saves the form of `bert-base-uncased` on the hub: gamma and beta, position_ids, and a second
    copy of the tied decoder."""
    tensors = {}
    for k, v in load_file(f"{folder(source)}/model.safetensors").items():
        tensors[k.replace("LayerNorm.weight",
                          "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = v
    tensors["bert.embeddings.position_ids"] = torch.arange(BERT["max_position_embeddings"])[None]
    words = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = words.clone()
    save_old(name, dict(BERT, architectures=["BertForMaskedLM"], attention_probs_dropout_prob=0.1,
                        hidden_dropout_prob=0.1,
                        gradient_checkpointing=False, initializer_range=0.02, model_type="bert",
                        pad_token_id=0,
                        position_embedding_type="absolute", transformers_version="4.6.0.dev0",
                        use_cache=True), tensors)


def save_all():
    for dtype in DTYPES:
        save(fill(GPT2LMHeadModel(GPT2Config(**GPT2)), GPT2_SEED), f"tiny_gpt2_{dtype}", dtype)
        save(fill(BertForPreTraining(BertConfig(**BERT)), BERT_SEED), f"tiny_bert_{dtype}", dtype)
    save(fill(GPT2LMHeadModel(GPT2Config(**GPT2)), GPT2_SEED), "tiny_gpt2_f16_shards", "f16",
         max_shard_size="30KB")
    save_old_gpt2("tiny_gpt2_f16_old", "tiny_gpt2_f16")
    save(fill(GPT2LMHeadModel(GPT2Config(**UNTIED)), UNTIED_SEED), "tiny_gpt2_f32_untied", "f32")
    save_old_bert("tiny_bert_f16_old", "tiny_bert_f16")
    save(fill(BertForPreTraining(BertConfig(**BERT)), BERT_SEED).bert, "tiny_bert_bf16_bare",
         "bf16")


# ---- Expected values ----

def load(kind, name, dtype=torch.float64, attention="eager"):
    model, info = kind.from_pretrained(folder(name), dtype=dtype, attn_implementation=attention,
                                       output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    return model.eval()


def rounded(x):
    return float(f"{x:.7g}") if isinstance(x, float) else [rounded(v) for v in x]


def numbers(x):
    return rounded(x.double().tolist())


def error(got, want):
    """Returns the largest difference relative to the largest expected value."""
    return float(f"{((got.double() - want).abs().max() / want.abs().max()).item():.2g}")


def left_padded():
    """Returns tokens, attention mask, and positions as generate computes them."""
    longest = max(map(len, BATCH))
    tokens = torch.tensor([[PAD] * (longest - len(t)) + t for t in BATCH])
    mask = torch.tensor([[0] * (longest - len(t)) + [1] * len(t) for t in BATCH])
    return tokens, mask, (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)


def greedy(model, tokens, mask):
    out = model.generate(tokens, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False,
                         pad_token_id=PAD)
    assert out.shape[1] == tokens.shape[1] + NEW_TOKENS \
        and not (out[:, tokens.shape[1]:] == PAD).any()
    return out[:, tokens.shape[1]:].tolist()


def follow(model, tokens, new):
    """Checks the tokens of generate without a cache, and returns how clearly the likeliest token
    won."""
    logits = model(torch.tensor([tokens + new])).logits[0, len(tokens) - 1:-1]
    best = logits.topk(2).values
    assert logits.argmax(-1).tolist() == new and len(set(new)) >= 10, new
    return (best[:, 0] - best[:, 1]).min().item()


def gpt2_logits(model, batch):
    tokens, mask, positions = batch
    logits = [model(torch.tensor([t])).logits[0] for t in PROMPTS]
    return logits + [model(tokens, attention_mask=mask, position_ids=positions).logits[:, -1]]


def expect_gpt2(checkpoints):
    name = checkpoints[0]
    own = DTYPES[name.split("_")[2]]
    model, batch = load(GPT2LMHeadModel, name), left_padded()
    want = gpt2_logits(model, batch)
    for other in checkpoints[1:]:
        assert all(
            torch.equal(a, b)
            for a, b in zip(want, gpt2_logits(load(GPT2LMHeadModel, other), batch)))
    errors = {}
    for key, dtype in {"f32_error": torch.float32, "own_error": own}.items():
        for attention in ("eager", "sdpa"):
            got = gpt2_logits(load(GPT2LMHeadModel, name, dtype, attention), batch)
            errors[key] = max(errors.get(key, 0), *(error(g, w) for g, w in zip(got, want)))
    assert errors["f32_error"] < 5e-6
    for row, t in zip(want[-1], BATCH):  # padding changes nothing
        assert error(model(torch.tensor([t])).logits[0, -1], row) < 1e-12

    prompts, texts = [], []
    for t, logits in zip(PROMPTS, want):
        new = greedy(model, torch.tensor([t]), torch.ones(1, len(t), dtype=torch.long))[0]
        prompts.append({"tokens": t, "greedy": new, "logits": numbers(logits)})
        texts.append((t, new))
    rows = greedy(model, *batch[:2])
    texts += zip(BATCH, rows)
    margin = min(follow(model, t, new) for t, new in texts)
    assert margin > 1e-3, margin
    f32 = load(GPT2LMHeadModel, name, torch.float32, "sdpa")
    assert greedy(f32, *batch[:2]) == rows
    return {"checkpoints": checkpoints, **errors, "margin": rounded(margin), "prompts": prompts,
            "batch": {"tokens": batch[0].tolist(), "mask": batch[1].tolist(),
                      "positions": batch[2].tolist(), "greedy": rows, "logits": numbers(want[-1])}}


def right_padded():
    longest = max(len(a) + len(b) for a, b in PAIRS)
    pad = [[0] * (longest - len(a) - len(b)) for a, b in PAIRS]
    tokens = [a + b + p for (a, b), p in zip(PAIRS, pad)]
    mask = [[1] * (len(a) + len(b)) + p for (a, b), p in zip(PAIRS, pad)]
    types = [[0] * len(a) + [1] * len(b) + p for (a, b), p in zip(PAIRS, pad)]
    return torch.tensor(tokens), torch.tensor(mask), torch.tensor(types)


def bert_outputs(model, batch):
    """Returns the last hidden states (valid positions in order), the pooled output, the MLM logits
    in the same form, and the NSP logits."""
    tokens, mask, types = batch
    valid = mask.bool()
    if isinstance(model, BertModel):
        base = model(tokens, attention_mask=mask, token_type_ids=types)
        return [base.last_hidden_state[valid], base.pooler_output]
    base = model.bert(tokens, attention_mask=mask, token_type_ids=types)
    heads = model(tokens, attention_mask=mask, token_type_ids=types)
    return [base.last_hidden_state[valid], base.pooler_output, heads.prediction_logits[valid],
            heads.seq_relationship_logits]


def expect_bert(checkpoints):
    name = checkpoints[0]
    own = DTYPES[name.split("_")[2]]
    model, batch = load(BertForPreTraining, name), right_padded()
    want = bert_outputs(model, batch)
    for other in checkpoints[1:]:
        kind = BertModel if other.endswith("_bare") else BertForPreTraining
        assert all(torch.equal(a, b) for a, b in zip(want, bert_outputs(load(kind, other), batch)))
    errors = {}
    for key, dtype in {"f32_error": torch.float32, "own_error": own}.items():
        for attention in ("eager", "sdpa"):
            got = bert_outputs(load(BertForPreTraining, name, dtype, attention), batch)
            errors[key] = max(errors.get(key, 0), *(error(g, w) for g, w in zip(got, want)))
    assert errors["f32_error"] < 5e-6
    hidden, pooled, mlm, nsp = want
    start = [0, *batch[1].sum(1).cumsum(0).tolist()]
    for i, (a, b) in enumerate(PAIRS):  # padding changes nothing
        n = len(a) + len(b)
        alone = model.bert(batch[0][i:i + 1, :n],
                           token_type_ids=batch[2][i:i + 1, :n]).last_hidden_state[0]
        assert error(alone, hidden[start[i]:start[i + 1]]) < 1e-12
    spots = [{"row": r, "position": p, "logits": numbers(mlm[start[r] + p])} for r, p in MLM_AT]
    return {"checkpoints": checkpoints, **errors, "tokens": batch[0].tolist(),
            "mask": batch[1].tolist(),
            "types": batch[2].tolist(), "hidden": numbers(hidden), "pooled": numbers(pooled),
            "nsp": numbers(nsp),
            "mlm_ids": MLM_IDS, "mlm_some": numbers(mlm[:, MLM_IDS]), "mlm": spots}


def close(a, b, path):
    """Whether two documents are equal except for rounding."""
    if isinstance(a, dict):
        assert list(a) == list(b), path
        return all(close(a[k], b[k], f"{path}/{k}") for k in a if not k.endswith("_error"))
    if isinstance(a, list):
        assert len(a) == len(b), path
        return all(close(x, y, f"{path}/{i}") for i, (x, y) in enumerate(zip(a, b)))
    same = math.isclose(a, b, rel_tol=2e-6, abs_tol=1e-9) if isinstance(a, float) else a == b
    assert same, f"{path}: {a} is not {b}"
    return True


def main():
    check = sys.argv[1:] == ["--check"]
    if not check:
        save_all()
    with torch.inference_mode():
        made = {"tiny_gpt2.json": [expect_gpt2([f"tiny_gpt2_{end}" for end in ends]) for ends in
                                   (["f32"], ["bf16"], ["f16", "f16_shards", "f16_old"],
                                    ["f32_untied"])],
                "tiny_bert.json": [expect_bert([f"tiny_bert_{end}" for end in ends]) for ends in
                                   (["f32"], ["bf16", "bf16_bare"], ["f16", "f16_old"])]}
    for name, document in made.items():
        path = os.path.join(HERE, name)
        if check:
            with open(path) as f:
                close(document, json.load(f), name)
        else:
            with open(path, "w") as f:
                f.write(json.dumps(document, separators=(",", ":")) + "\n")
        for d in document:
            print(d["checkpoints"], "f32", d["f32_error"], "own", d["own_error"], "margin",
                  d.get("margin"))


if __name__ == "__main__":
    logging.set_verbosity_error()
    main()
