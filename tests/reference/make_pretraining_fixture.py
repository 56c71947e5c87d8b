#!/usr/bin/env python3
"""Makes pretraining.json: losses of 200 steps of PyTorch (made with torch 2.15, transformers 5.23)
that pretrains the models of examples/ on examples/squad/train.json as examples/pretrain.c does,
without dropout, in both recipes, with one and two ranks' batches. Order of texts and masked words
follow models/sampler.h and models/batches.h, written here once more."""
import json
import math
import os

import torch
from transformers import AutoTokenizer, BertForMaskedLM, GPT2LMHeadModel

here = os.path.dirname(os.path.abspath(__file__))
examples = os.path.join(here, "..", "..", "examples")
M64 = (1 << 64) - 1
SEED, BATCH, STEPS, EPOCHS, RATE = 42, 4, 200, 10, 1e-3


def counter_hash(key, index):
    """SplitMix64's finalizer over key and counter."""
    x = key ^ ((index + 1) * 0x9e3779b97f4a7c15 & M64)
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & M64
    x = (x ^ x >> 27) * 0x94d049bb133111eb & M64
    return x ^ x >> 31


def place(n, epoch, i):
    key, half = counter_hash(SEED, epoch), 1
    while half < 31 and 1 << 2 * half < n:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for r in range(6):
            left, right = right, left ^ counter_hash(key + r & M64, right) & mask
        i = left << half | right
        if i < n:
            return i


def uniform(number):
    return (number >> 40) * 2.0 ** -24


def masked(ids, special, mask, vocab, epoch, text, only):
    """Ids as the model sees them, and labels."""
    key = counter_hash(counter_hash(SEED, epoch), text)
    seen, labels = list(ids), [-100] * len(ids)
    for t, word in enumerate(ids):
        if word in special or uniform(counter_hash(key, 3 * t)) >= 0.15:
            continue
        labels[t], fate = word, uniform(counter_hash(key, 3 * t + 1))
        if fate < 0.8:
            seen[t] = mask
        elif not only and fate < 0.9:
            seen[t] = counter_hash(key, 3 * t + 2) % vocab
    return seen, labels


def texts():
    with open(os.path.join(examples, "squad", "train.json"), encoding="utf-8") as f:
        data = json.load(f)["data"]
    return [(qa["question"], p["context"]) for a in data for p in a["paragraphs"]
            for qa in p["qas"]]


def gpt_batch(tok, pairs, which, length, reference):
    rows, labels, masks = [], [], []
    for i in which:
        ids = tok(" ".join(pairs[i]), truncation=True, max_length=length)["input_ids"]
        pad = length - len(ids)
        rows.append(ids + [tok.eos_token_id] * pad)
        labels.append(rows[-1] if reference else ids + [-100] * pad)
        masks.append([1] * len(ids) + [0] * pad)
    return {"input_ids": rows, "labels": labels, "attention_mask": masks}


def bert_batch(tok, pairs, which, length, reference, epoch):
    out = {"input_ids": [], "labels": [], "attention_mask": [], "token_type_ids": []}
    for i in which:
        question, context = pairs[i]
        enc = tok(f"{question} [SEP] {context}", truncation=True, max_length=length) \
            if reference else tok(question, context, truncation=True, max_length=length)
        seen, labels = masked(enc["input_ids"], set(tok.all_special_ids), tok.mask_token_id,
                              len(tok), epoch, i, reference)
        pad = length - len(seen)
        out["input_ids"].append(seen + [tok.pad_token_id] * pad)
        out["labels"].append(labels + [-100] * pad)
        out["attention_mask"].append([1] * len(seen) + [0] * pad)
        out["token_type_ids"].append(enc["token_type_ids"] + [0] * pad)
    return out


def count(batch, causal):
    return sum(label != -100 for row in batch["labels"] for label in (row[1:] if causal else row))


def train(name, reference, ranks):
    folder = os.path.join(examples, name)
    causal = name == "tiny-gpt2"
    tok = AutoTokenizer.from_pretrained(folder)
    model = (GPT2LMHeadModel if causal else BertForMaskedLM).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    length = 64
    pairs = texts()
    per_epoch = len(pairs) // (BATCH * ranks)

    def spared(parameter_name, parameter):
        if reference:
            return "bias" in parameter_name or "LayerNorm.weight" in parameter_name
        return parameter.dim() < 2

    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in named if not spared(n, p)], "weight_decay": 0.01},
         {"params": [p for n, p in named if spared(n, p)], "weight_decay": 0.0}], lr=RATE)
    losses = []
    for step in range(STEPS):
        epoch, at = divmod(step, per_epoch)
        batches = []
        for rank in range(ranks):
            first = at * BATCH * ranks + rank
            which = [place(len(pairs), epoch, first + i * ranks) for i in range(BATCH)]
            batches.append(gpt_batch(tok, pairs, which, length, reference) if causal
                           else bert_batch(tok, pairs, which, length, reference, epoch))
        labels = [count(b, causal) for b in batches]
        for group in optimizer.param_groups:
            group["lr"] = RATE * (per_epoch * EPOCHS - step) / (per_epoch * EPOCHS)
        optimizer.zero_grad()
        total = 0.0
        for batch, n in zip(batches, labels):
            loss = model(**{k: torch.tensor(v) for k, v in batch.items()}).loss
            share = 1 / ranks if reference else n / sum(labels)
            (loss * share).backward()
            total += loss.item() * share
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        assert math.isfinite(total)
        losses.append(float(f"{total:.7g}"))
    return losses


def main():
    torch.manual_seed(0)
    out = []
    for name in ("tiny-gpt2", "tiny-bert"):
        for reference in (False, True):
            for ranks in (1, 2):
                out.append({"model": name, "recipe": "reference" if reference else "default",
                            "ranks": ranks, "losses": train(name, reference, ranks)})
    with open(os.path.join(here, "pretraining.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")


main()
