#!/usr/bin/env python3
"""Makes pretraining.json, pretraining_full.json and pretraining_saved.json: the losses of PyTorch
when it pretrains as `syntorch pretrain` does with the options of each case, without dropout (made
with torch 2.15, transformers 5.23). The cases are 200 steps of the models of examples/, 20 steps of
GPT-2 124M and BERT-base from random weights, and 12 steps of the Llamas, Mistrals and Qwens in
saved_*/ in f64. They train on examples/squad/train.json, or on an article of SQuAD with the models'
real vocabularies. Random weights, the order of samples and masked words are reimplemented here from
syntorch/parameter.c, models/training/sampler.h and models/training/batches.h.

make_pretraining_fixture.py tiny|full|saved SHARED_DATA: SHARED_DATA is the folder with squad/,
gpt2/ and bert/. Losses are f32, except f64 for saved_*/ and for GPT-2 on two ranks. For the latter,
PyTorch's own f32 losses are off by 7e-4 (f32_error) after step 10, whose gradient has a norm of
147."""
import json
import math
import os
import sys

import numpy as np
import torch
from transformers import (AutoModelForCausalLM, AutoTokenizer, BertConfig, BertForMaskedLM,
                          BertTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Tokenizer)

here = os.path.dirname(os.path.abspath(__file__))
examples = os.path.join(here, "..", "..", "examples")
M64 = (1 << 64) - 1
GOLDEN, MIX1, MIX2 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb
SEED, BATCH = 42, 4


def mix(x):
    x = (x ^ x >> 30) * MIX1 & M64
    x = (x ^ x >> 27) * MIX2 & M64
    return x ^ x >> 31


def counter_hash(key, index):
    """Returns SplitMix64's finalizer of key and counter."""
    return mix(key ^ ((index + 1) * GOLDEN & M64))


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
    """Returns the ids that the model reads, with words masked, and the labels."""
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


# ---- Random weights ----


def name_hash(name):
    data = name.encode()
    h = SEED ^ (len(data) * GOLDEN & M64)
    for at in range(0, len(data) - 7, 8):
        h = mix(h ^ int.from_bytes(data[at:at + 8], "little")) + GOLDEN & M64
    return mix(h ^ int.from_bytes(data[len(data) // 8 * 8:], "little"))


def normal(name, n, std):
    """Returns sums of four uniform 16-bit numbers, scaled to the standard deviation std."""
    x = np.uint64(name_hash(name)) + np.arange(n, dtype=np.uint64) * np.uint64(GOLDEN)
    x = (x ^ x >> np.uint64(30)) * np.uint64(MIX1)
    x = (x ^ x >> np.uint64(27)) * np.uint64(MIX2)
    x ^= x >> np.uint64(31)
    total = x.view(np.uint16).reshape(n, 4).sum(axis=1, dtype=np.int64)
    return (total - 131070).astype(np.float32) * np.float32(std / 37837.227)


def fill(model):
    layers = model.config.num_hidden_layers
    for name, p in model.named_parameters():
        bare = name.removeprefix("transformer.").removeprefix("bert.")
        std = model.config.initializer_range
        if name.endswith("c_proj.weight"):
            std /= math.sqrt(2.0 * layers)
        with torch.no_grad():
            if p.dim() == 2:
                p.copy_(torch.from_numpy(normal(bare, p.numel(), std)).view(p.shape))
            else:
                p.fill_(1.0 if name.endswith("weight") else 0.0)


# ---- Samples and batches ----


def texts(path):
    with open(path, encoding="utf-8") as f:
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


# ---- A case ----


def folder_of(path, shared):
    """Returns shared/... below the folder `shared`, or a path of this repository."""
    return os.path.join(shared, path.removeprefix("shared/")) if path.startswith("shared/") else \
        os.path.join(examples, "..", path)


def open_model(options, shared):
    """Returns the model and its tokenizer."""
    if "weights" in options:
        folder = folder_of(options["weights"], shared)
        kind = BertForMaskedLM if "bert" in folder else AutoModelForCausalLM
        return (kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                     experts_implementation="eager"),
                AutoTokenizer.from_pretrained(folder))
    folder = folder_of(options["tokenizer"], shared)
    if options["model-name"] == "gpt2":
        positions = 512 if options["recipe"] == "reference" else 1024
        model = GPT2LMHeadModel._from_config(GPT2Config(n_positions=positions),
                                             attn_implementation="eager")
        kind = GPT2Tokenizer
    else:
        model = BertForMaskedLM._from_config(BertConfig(), attn_implementation="eager")
        kind = BertTokenizer
    fill(model)
    tiny = folder.startswith(examples)
    return model, (AutoTokenizer if tiny else kind).from_pretrained(folder)


def learning_rate(peak, step, warm_up, steps):
    return peak * step / warm_up if step < warm_up else \
        peak * max(0, steps - step) / max(1, steps - warm_up)


class Trainer:
    """A model and AdamW. A bf16 model has f32 master weights, which start as its parameters."""

    def __init__(self, options, shared, double=False):
        self.reference, self.options = options["recipe"] == "reference", options
        self.model, self.tok = open_model(options, shared)
        self.causal = not isinstance(self.model, BertForMaskedLM)
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if double:
            self.model.double()
        self.model.train()
        self.masters = dict(self.model.named_parameters())
        self.half = options.get("dtype") == "bf16"
        if self.half:
            self.model.bfloat16()
            self.masters = {n: torch.nn.Parameter(p.detach().float())
                            for n, p in self.model.named_parameters()}
        rates = {"weight_decay": 0.01}, {"weight_decay": 0.0}
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for n, p in self.masters.items() if self.spared(n, p) == spared], **how}
             for spared, how in zip((False, True), rates)], lr=1.0)
        self.pairs = texts(folder_of(options["data"], shared))
        self.ranks, self.passes = options["num-gpus"], options.get("gradient-accumulation-steps", 1)
        self.per_epoch = len(self.pairs) // (BATCH * self.ranks * self.passes)

    def spared(self, name, parameter):
        if self.reference:
            return "bias" in name or "LayerNorm.weight" in name
        return parameter.dim() < 2

    def batch(self, epoch, micro, rank):
        length = self.options["max-seq-length"]
        first = micro * BATCH * self.ranks + rank
        which = [place(len(self.pairs), epoch, first + i * self.ranks) for i in range(BATCH)]
        if self.causal:
            return gpt_batch(self.tok, self.pairs, which, length, self.reference)
        return bert_batch(self.tok, self.pairs, which, length, self.reference, epoch)

    def loss(self, batch):
        """The loss is f32 even if logits are bf16. Transformers does this for GPT-2 but not for
        BERT."""
        out = self.model(**batch)
        if not self.half or self.causal:
            return out.loss
        return torch.nn.functional.cross_entropy(out.logits.float().flatten(0, 1),
                                                 batch["labels"].flatten())

    def step(self, step):
        epoch, at = divmod(step, self.per_epoch)
        batches = [[self.batch(epoch, at * self.passes + i, rank) for i in range(self.passes)]
                   for rank in range(self.ranks)]
        labels = [[count(b, self.causal) for b in mine] for mine in batches]
        everyone = sum(map(sum, labels))
        rate = learning_rate(self.options["learning-rate"], step, self.options["warmup-steps"],
                             self.per_epoch * self.options["num-epochs"])
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        total = 0.0
        self.model.zero_grad()
        for mine, counts in zip(batches, labels):
            whole = sum(counts) * self.ranks if self.reference else everyone
            for batch, n in zip(mine, counts):
                loss = self.loss({k: torch.tensor(v) for k, v in batch.items()})
                (loss * (n / whole)).backward()
                total += loss.item() * n / whole
        self.update()
        assert math.isfinite(total)
        return float(f"{total:.7g}")

    def update(self):
        parameters = dict(self.model.named_parameters())
        for name, master in self.masters.items() if self.half else ():
            master.grad = parameters[name].grad.float()
        torch.nn.utils.clip_grad_norm_(self.masters.values(), 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for name, master in self.masters.items() if self.half else ():
                parameters[name].copy_(master)


def tiny_cases():
    pieces, longer = {"gradient-accumulation-steps": 2}, {"num-epochs": 20}
    for name in ("tiny-gpt2", "tiny-bert"):
        for recipe, ranks, more in (
                ("default", 1, {}), ("default", 2, {}), ("reference", 1, {}), ("reference", 2, {}),
                ("reference", 4, longer), ("default", 2, {**longer, **pieces}),
                ("reference", 2, {**longer, **pieces}),
                ("default", 1, {"dtype": "bf16"})):
            yield {"weights": f"examples/{name}", "data": "examples/squad/train.json",
                   "max-seq-length": 64, "learning-rate": 1e-3, "warmup-steps": 0,
                   "num-epochs": 10, "max-steps": 200, "recipe": recipe, "num-gpus": ranks, **more}


def full_cases():
    """Yields two kinds of cases. The first has the default options of pretrain on one rank, on the
    article of SQuAD, also with the full sequence length. The second has a higher learning rate, so
    that the models learn more, mostly on two ranks: GPT-2 on the data of the examples, BERT on
    both."""
    article, small = "shared/squad/train-v1.1-excerpt.json", "examples/squad/train.json"
    gpt = {"model-name": "gpt2", "max-seq-length": 128, "num-epochs": 3, "max-steps": 20}
    bert = gpt | {"model-name": "bert-base-uncased"}
    for recipe, warm_up in (("default", 0), ("reference", 500)):
        default = {"recipe": recipe, "learning-rate": 5e-5, "warmup-steps": warm_up, "num-gpus": 1}
        more = {"recipe": recipe, "learning-rate": 2e-4, "warmup-steps": 4, "num-gpus": 2}
        yield gpt | default | {"tokenizer": "shared/gpt2", "data": article}
        yield bert | default | {"tokenizer": "shared/bert", "data": article}
        yield gpt | more | {"tokenizer": "examples/tiny-gpt2", "data": small}
        yield bert | more | {"tokenizer": "shared/bert", "data": article}
        yield bert | more | {"tokenizer": "examples/tiny-bert", "data": small, "num-gpus": 1}
    long = {"recipe": "default", "learning-rate": 5e-5, "warmup-steps": 0, "num-gpus": 1,
            "max-seq-length": 512, "data": article}
    yield gpt | long | {"tokenizer": "shared/gpt2"}
    yield bert | long | {"tokenizer": "shared/bert"}


def saved_cases():
    for name in ("llama2", "llama3", "mistral", "nemo", "qwen2", "qwen3"):
        for ranks in (1, 2):
            yield {"weights": f"tests/reference/saved_{name}", "data": "examples/squad/train.json",
                   "max-seq-length": 64, "learning-rate": 1e-3, "warmup-steps": 4,
                   "num-epochs": 1, "max-steps": 12, "recipe": "default", "num-gpus": ranks}


def train(options, shared, double=False):
    trainer = Trainer(options, shared, double)
    return [trainer.step(i) for i in range(options["max-steps"])]


def make_case(options, shared):
    if options.get("weights", "").startswith("tests/"):
        return {"options": options, "losses": train(options, shared, True)}
    losses = train(options, shared)
    if options.get("model-name") != "gpt2" or options["num-gpus"] == 1:
        return {"options": options, "losses": losses}
    exact = train(options, shared, True)
    error = max(abs(a - b) / b for a, b in zip(losses, exact))
    return {"options": options, "f32_error": float(f"{error:.2g}"), "losses": exact}


def main():
    size, shared = sys.argv[1:]
    name, options_of = {"tiny": ("pretraining.json", tiny_cases),
                        "full": ("pretraining_full.json", full_cases),
                        "saved": ("pretraining_saved.json", saved_cases)}[size]
    path = os.path.join(here, name)
    cases = []
    for options in options_of():
        cases.append(make_case(options, shared))
        with open(path, "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
