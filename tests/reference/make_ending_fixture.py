#!/usr/bin/env python3
"""Makes endings.json: the tokens that HuggingFace generates from head_gpt2_f32/ with other eos and
padding ids in config.json and generation_config.json. README.md in this folder describes the file.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0
    venv/bin/python make_ending_fixture.py
"""
import json
import os
import shutil
import tempfile

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPTS, NEW_TOKENS = [[5, 3, 88, 41, 0, 17], [17, 0, 41, 88, 3, 5]], 12
A, B, C, D = 82, 23, 61, 97  # each occurs among the greedy tokens
CASES = [  # keys of config.json, generation_config.json (None: no such file)
    ({}, None),
    ({"eos_token_id": A}, None),
    ({"eos_token_id": [A, B]}, None),
    ({"eos_token_id": [B, A], "pad_token_id": 7}, None),
    ({"eos_token_id": A, "pad_token_id": 7}, None),
    ({"eos_token_id": A}, {"eos_token_id": B}),
    ({"eos_token_id": A, "pad_token_id": 7}, {}),
    ({"eos_token_id": A}, {"eos_token_id": None, "pad_token_id": 3}),
    ({"eos_token_id": A}, {"eos_token_id": [C, D], "pad_token_id": 3}),
    ({"eos_token_id": A}, {"eos_token_id": [C, D]}),
    ({"eos_token_id": 50256}, None),
    ({"eos_token_id": -1}, None),
    ({"eos_token_id": [A, 50256]}, None),
    ({}, {"eos_token_id": 50256}),
    ({"layer_norm_epsilon": 0.0}, None),
    ({"n_ctx": 3}, None),
    ({"n_ctx": 1024}, {"max_new_tokens": 3, "max_length": 9}),
]


def generate(config, generation):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(HERE, "head_gpt2_f32"), folder, dirs_exist_ok=True)
        with open(f"{folder}/config.json") as f:
            whole = {**json.load(f), **config}
        with open(f"{folder}/config.json", "w") as f:
            json.dump(whole, f)
        if generation is not None:
            with open(f"{folder}/generation_config.json", "w") as f:
                json.dump(generation, f)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        tokens = torch.tensor(PROMPTS)
        out = model.generate(tokens, attention_mask=torch.ones_like(tokens),
                             max_new_tokens=NEW_TOKENS, do_sample=False)
        return out[:, tokens.shape[1]:].tolist()


def main():
    rows = [{"config": c, "generation_config": g, "tokens": generate(c, g)} for c, g in CASES]
    with open(os.path.join(HERE, "endings.json"), "w") as f:
        f.write(json.dumps({"checkpoint": "head_gpt2_f32", "prompts": PROMPTS, "cases": rows},
                           separators=(",", ":")) + "\n")


main()
