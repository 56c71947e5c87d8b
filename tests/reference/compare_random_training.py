#!/usr/bin/env python3
"""Compares four steps of pretraining with PyTorch in f64, on the random models of
compare_random_models.py: with any number of data-parallel and tensor-parallel ranks, and with
recomputed activations.

    SYN_BUILD=build python3 compare_random_training.py [first seed] [number of seeds]

Neither the build nor the tests need this script. It needs the same Python packages as the other
scripts in this folder.
"""
import csv
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys

from compare_random_models import draw, every_seed, random_model, rewrite
from make_pretraining_fixture import train

HERE = pathlib.Path(__file__).parent
LENGTH = 48


def pretrain(options, *more):
    """Returns the losses, and standard error if the program failed."""
    saved = os.path.join(options["weights"], "trained")
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    done = subprocess.run(
        [os.path.join(os.environ["SYN_BUILD"], "pretrain"), *given, *more, "--dropout", "0",
         "--skip-eval", "--quiet", "--save-dir", saved], capture_output=True, text=True,
        check=False, cwd=HERE.parent.parent)
    if done.returncode != 0:
        return [], done.stderr
    with open(os.path.join(saved, "metrics.csv"), encoding="utf-8") as f:
        return [float(row["loss"]) for row in csv.DictReader(f) if row["loss"]], ""


def one(seed, folder):
    """Returns (largest relative difference, error message or "")."""
    rng = random.Random(seed)
    family, config, tp = draw(rng)
    config["vocab_size"] = 410
    random_model(family, config, seed).save_pretrained(folder)
    rewrite(rng, folder)
    words = HERE / ("saved_llama3" if family in ("llama", "mistral") else "saved_qwen2")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(words / name, folder)
    options = {"weights": str(folder), "data": "examples/squad/train.json",
               "max-seq-length": LENGTH, "learning-rate": 1e-2, "warmup-steps": 2, "num-epochs": 1,
               "max-steps": 4, "recipe": "default", "num-gpus": rng.choice([1, 2])}
    again = rng.choice(["none", "selective", "full"])
    want = train(options, None, True)
    experts = config.get("num_experts") or config.get("num_local_experts")
    parallel = ["--sp"] if experts and tp > 1 else []
    if experts and tp * options["num-gpus"] > 1 and rng.random() < 0.5:
        parallel += ["--etp", "1", "--ep", str(math.gcd(experts, tp * options["num-gpus"]))]
    got, errors = pretrain(options | {"num-gpus": options["num-gpus"] * tp, "tp": tp},
                           "--activation-recompute", again, *parallel)
    what = f"seed {seed}: {options}, tp {tp}, {parallel}, {again}, {family}, {config}"
    if len(got) != len(want):
        return 0, f"{what}: {errors}"
    off = max(abs(a - b) / b for a, b in zip(got, want))
    return off, "" if off < 1e-5 else f"{what}: {got}, not {want}"


def main():
    off, what = every_seed(one, 50)
    wrong = sum(map(bool, what))
    print(f"{len(what)} models: {wrong} wrong, losses off by {max(off):.2g}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
