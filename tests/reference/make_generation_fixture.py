#!/usr/bin/env python3
"""Makes generation.json, the output of HuggingFace's generate with penalties, stop criteria and a
generation_config.json, and sampling_fixture.txt, the probabilities of tokens after its processors
and warpers.

generation.json lists checkpoints of this folder. Each has `prompts` of different lengths (one
batch, with the shorter prompt padded on its left), `options` of our program, keys of a
generation_config.json, and the tokens of each prompt up to the token that ends it.
sampling_fixture.txt has four lines per case: the settings (temperature, top_k, top_p, min_p,
penalty), the tokens seen, the logits and the probabilities.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0
    venv/bin/python make_generation_fixture.py
"""
import json
import pathlib
import shutil
import tempfile

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.logits_process import (
    LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

HERE = pathlib.Path(__file__).parent
PROMPTS = [[5, 3, 18, 41, 0, 17, 17, 9], [22, 60, 3]]
NEW_TOKENS = 50
CASES = [  # checkpoint, the program's options, generate's arguments, generation_config.json
    ("tiny_llama", ["--greedy"], {"do_sample": False}, None),
    ("tiny_llama", ["--greedy", "--repetition_penalty", "1.3"],
     {"do_sample": False, "repetition_penalty": 1.3}, None),
    ("tiny_llama", ["--top_k", "1", "--repetition_penalty", "0.8"],
     {"do_sample": True, "top_k": 1, "repetition_penalty": 0.8}, None),
    ("tiny_qwen2", ["--temperature", "0", "--repetition_penalty", "2.5"],
     {"do_sample": False, "repetition_penalty": 2.5}, None),
    ("tiny_qwen2", ["--min_p", "1"], {"do_sample": True, "min_p": 1.0, "top_k": 0}, None),
    ("tiny_qwen2", ["--min_p", "1", "--temperature", "3", "--repetition_penalty", "1.1"],
     {"do_sample": True, "min_p": 1.0, "temperature": 3.0, "repetition_penalty": 1.1}, None),
    ("tiny_qwen2", [], {}, {"do_sample": True, "top_k": 1, "repetition_penalty": 1.4}),
    ("tiny_qwen2", [], {}, {"do_sample": True, "min_p": 1.0, "temperature": 0.5, "top_p": 0.9}),
    ("tiny_qwen2", ["--greedy"], {"do_sample": False},
     {"do_sample": True, "temperature": 1.5, "top_k": 7, "repetition_penalty": 1.4}),
    ("tiny_qwen2", ["--repetition_penalty", "1", "--greedy"],
     {"do_sample": False, "repetition_penalty": 1.0}, {"repetition_penalty": 1.4}),
]


def load(name, generation):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
        if generation is not None:
            (pathlib.Path(folder) / "generation_config.json").write_text(json.dumps(generation))
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)


def generate(model, **how):
    pads = [max(map(len, PROMPTS)) - len(prompt) for prompt in PROMPTS]
    ids = torch.tensor([[0] * n + prompt for n, prompt in zip(pads, PROMPTS)])
    mask = torch.tensor([[0] * n + [1] * len(prompt) for n, prompt in zip(pads, PROMPTS)])
    made = model.generate(ids, attention_mask=mask, max_new_tokens=NEW_TOKENS, pad_token_id=0,
                          **how)[:, ids.shape[1]:].tolist()
    ends = how.get("eos_token_id", [])
    return [row[:1 + min([row.index(i) for i in ends if i in row], default=len(row))]
            for row in made]


def rows():
    out = []
    for name, options, how, generation in CASES:
        out.append({"checkpoint": name, "options": options, "generation_config": generation,
                    "tokens": generate(load(name, generation), **how)})
    how = {"do_sample": False, "repetition_penalty": 1.3}
    free = generate(load("tiny_llama", None), **how)
    end = {"eos_token_id": free[0][5]}  # options replace this eos id
    for ends in ([free[0][7]], [free[0][20], free[0][11]], []):
        made = generate(load("tiny_llama", end), **how, eos_token_id=ends) if ends else free
        out.append({"checkpoint": "tiny_llama", "generation_config": end,
                    "options": ["--greedy", "--repetition_penalty", "1.3", "--eos",
                                ",".join(map(str, ends)) or "none"], "tokens": made})
    return out


SETTINGS = [  # vocabulary, spread, temperature, top_k, top_p, min_p, penalty
    (40, 2.0, 1.0, 0, 1.0, 0.1, 1.0), (40, 2.0, 0.5, 0, 1.0, 0.05, 1.0),
    (40, 2.0, 1.0, 12, 1.0, 0.02, 1.0), (40, 2.0, 1.5, 0, 0.9, 0.2, 1.0),
    (40, 2.0, 0.8, 20, 0.95, 0.03, 1.2), (40, 2.0, 1.0, 0, 1.0, 0.0, 1.5),
    (40, 2.0, 1.0, 10, 1.0, 0.0, 0.7), (40, 2.0, 1.2, 0, 0.8, 0.0, 3.0),
    (200, 3.0, 1.0, 100, 0.9, 0.01, 1.1), (200, 1.0, 0.7, 0, 1.0, 0.3, 1.3),
    (40, 2.0, 1.0, 0, 1.0, 1.0, 1.0), (7, 0.5, 2.0, 3, 0.6, 0.5, 1.3),
]


def probabilities(logits, seen, temperature, top_k, top_p, min_p, penalty):
    steps = LogitsProcessorList()  # in the order of generate's _get_logits_processor
    if penalty != 1.0:
        steps.append(RepetitionPenaltyLogitsProcessor(penalty))
    if temperature != 1.0:
        steps.append(TemperatureLogitsWarper(temperature))
    if top_k:
        steps.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        steps.append(TopPLogitsWarper(top_p))
    if min_p:
        steps.append(MinPLogitsWarper(min_p))
    return torch.softmax(steps(seen, logits).double(), -1)


def main():
    (HERE / "generation.json").write_text(json.dumps(
        {"prompts": PROMPTS, "cases": rows()}, separators=(",", ":")) + "\n")
    lines = []
    for number, (vocab, spread, *how) in enumerate(SETTINGS):
        g = torch.Generator().manual_seed(number)
        logits = spread * torch.randn((1, vocab), generator=g)
        seen = torch.randint(0, vocab, (1, 9), generator=g)
        p = probabilities(logits, seen, *how)[0]
        lines += [how, seen[0].tolist(), logits[0].tolist(), [float(f"{x:.9g}") for x in p]]
    (HERE / "sampling_fixture.txt").write_text(
        "".join(" ".join(map(str, line)) + "\n" for line in lines))


main()
