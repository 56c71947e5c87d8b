#!/usr/bin/env python3
"""Computes the perplexity of a text with transformers, as in its page "Perplexity of fixed-length
models". The tests compare `inference --weights DIR --perplexity FILE` with it.

    perplexity.py DIR FILE [--max_length N] [--stride N] [--tokenizer DIR] [--dtype f32|bf16|f64]
"""
import argparse
import json
import math
import torch
import transformers

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}


def perplexity(model, ids, max_length, stride):
    """ids: a list. Each window's mean loss is over its new tokens that have a token before them,
    and is weighted by the number of new tokens less one. The page uses this weight even for a
    window that overlaps the one before, where all new tokens have a token before them."""
    total, counted, windows, seen = 0.0, 0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + max_length, len(ids))
        window = torch.tensor([ids[begin:end]])
        labels = window.clone()
        labels[:, :-(end - seen)] = -100
        if end - seen > 1:  # otherwise the weight is 0, and the loss may be of no token
            with torch.no_grad():
                loss = model(window, labels=labels).loss.item()
            total += loss * (end - seen - 1)
            counted += end - seen - 1
        windows, seen = windows + 1, end
        if end == len(ids):
            break
    return {"perplexity": math.exp(total / counted), "mean_loss": total / counted,
            "counted_tokens": counted, "windows": windows, "tokens": len(ids)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("file")
    parser.add_argument("--max_length", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--tokenizer")
    parser.add_argument("--dtype", choices=TYPES, default="f32")
    args = parser.parse_args()
    model = transformers.AutoModelForCausalLM.from_pretrained(args.folder, dtype=TYPES[args.dtype])
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.tokenizer or args.folder)
    with open(args.file, encoding="utf-8", newline="") as f:
        ids = tokenizer(f.read()).input_ids
    length = args.max_length or model.config.max_position_embeddings
    print(json.dumps(perplexity(model.eval(), ids, length, args.stride or min(512, length))))


if __name__ == "__main__":
    main()
