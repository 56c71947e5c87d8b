#!/usr/bin/env python3
"""Compares the inference program with transformers on checkpoints of 60 to 70 million random
parameters: each family, in several shards, in f32 and bf16. Too slow for the test suite, so neither
the build nor the tests need this script.

    SYN_BUILD=build SYN_SHARED_DATA=... python3 compare_large_models.py [family ...]

The models have 10 layers of width 512, 8 query heads, 2 key heads and 32000 tokens. The reference
is transformers in f64 with the same weights. Each line prints

    logits        largest difference from the reference, relative to the largest logit (per tp)
    tokens        how many greedy tokens equal the reference's (per tp)
    all bf16      the difference of the logits with --dtype bf16
    transformers  the difference of transformers itself in the checkpoint's dtype
    margin        see make_saved_folders.py
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

from make_saved_folders import FAMILIES, NEW_TOKENS, filled_in, continued, make

SIZE = dict(hidden=512, layers=10, heads=8, keys=2, depth=64, vocab=32000)
TEXT = ["Once upon a time in the city of Rome there was a tower, and in 1998 they built"]


def infer(folder, text, *more):
    done = subprocess.run(
        [os.path.join(os.environ["SYN_BUILD"], "inference"), "--weights", str(folder), "--prompt",
         text, "--json", "--save_logits", str(folder / "logits.npy"), *more],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return numpy.load(folder / "logits.npy"), json.loads(done.stdout).get("tokens", [[]])[0]


def off(got, want):
    return abs(got - want).max() / abs(want).max()


def compare(name, trained, dtype):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="syntorch-"))
    model, tokenizer = make(name, folder, trained, dtype, "40MB", 1, *SIZE.values())
    bert = name == "bert"
    texts = filled_in(model, tokenizer) if bert else continued(model, tokenizer, TEXT)
    own = type(model).from_pretrained(folder, dtype=dtype)
    said, shards = [], len(list(folder.glob("*.safetensors")))
    for want in texts[:1]:
        logits = numpy.array(want["logits"])
        with torch.no_grad():
            all_logits = own(torch.tensor([want["ids"]])).logits[0].double().numpy()
        marked = [i for i, t in enumerate(want["ids"]) if t == tokenizer.mask_token_id]
        theirs = all_logits[marked] if bert else all_logits[-1]
        greedy = [] if bert else ["--temperature", "0", "--num_output_tokens", str(NEW_TOKENS)]
        for tp in ("1", "2"):
            got, tokens = infer(folder, want["text"], "--tp", tp, *greedy)
            same = sum(a == b for a, b in zip(tokens, want.get("tokens", [])))
            said.append(f"tp {tp} logits {off(got, logits):.1e}" +
                        ("" if bert else f" tokens {same}/{len(want['tokens'])}"))
        if dtype == torch.bfloat16:
            got, _ = infer(folder, want["text"], "--dtype", "bf16", "--tp", "2", *greedy)
            said.append(f"all bf16 {off(got, logits):.1e}")
        said.append(f"transformers {off(theirs, logits):.1e}")
        if not bert:
            said.append(f"margin {want['margin']:.1e}")
    print(f"{name:8} {str(dtype)[6:]:9} {model.num_parameters() / 1e6:.1f} M in {shards} shards:",
          ", ".join(said), flush=True)
    shutil.rmtree(folder)


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(2)
    for name in sys.argv[1:] or FAMILIES:
        trained = FAMILIES[name][1](4000)
        for dtype in (torch.float32, torch.bfloat16):
            compare(name, trained, dtype)


main()
