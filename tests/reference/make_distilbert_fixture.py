#!/usr/bin/env python3
"""Makes tiny_distilbert/, a checkpoint as transformers saves it, and the outputs of transformers in
f64 for it: distilbert.json, the logits and the last hidden states of every position of two texts
(see make_score_fixture.py), and training_distilbert.safetensors (see make_training_fixture.py).
Made with torch 2.15 and transformers 5.24.
"""
import json
import pathlib
import shutil
import torch
import transformers
from make_llama_fixture import fill
from make_training_fixture import train
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
SIZES = (20, 9)


def rounded(rows):
    return [[float(f"{x:.7g}") for x in row] for row in rows.tolist()]


def main():
    folder = HERE / "tiny_distilbert"
    shutil.rmtree(folder, ignore_errors=True)
    config = transformers.DistilBertConfig(
        vocab_size=61, dim=24, hidden_dim=40, n_layers=2, n_heads=4, max_position_embeddings=32,
        attn_implementation="eager")
    model = fill(transformers.DistilBertForMaskedLM(config), 40)
    model.save_pretrained(folder)
    wide = model.double()
    g = torch.Generator().manual_seed(5)
    texts = [torch.randint(3, 61, (1, n), generator=g) for n in SIZES]
    with torch.no_grad():
        made = [wide(ids, output_hidden_states=True) for ids in texts]
    out = {"texts": [ids[0].tolist() for ids in texts],
           "logits": [row for m in made for row in rounded(m.logits[0])],
           "hidden": [row for m in made for row in rounded(m.hidden_states[-1][0])]}
    (HERE / "distilbert.json").write_text(json.dumps({"tiny_distilbert": out}) + "\n")
    save_file({k: v.contiguous() for k, v in
               train("tiny_distilbert", transformers.DistilBertForMaskedLM, True).items()},
              HERE / "training_distilbert.safetensors")


main()
