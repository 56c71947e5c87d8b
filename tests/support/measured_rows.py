"""Predictions of the rows in tests/measured. All errors are predicted / measured - 1, also those of
rates, which are converted to errors of the time."""
import csv
import json
import os
import subprocess
import sys

from checks import BUILD, SOURCE

MEASURED = os.path.join(SOURCE, "tests", "measured")
# Megatron without overlap, on nodes with four 200 Gb/s network cards.
BLOCKING = os.path.join(MEASURED, "megatron_a100_4x200.json")


def rows_of(name):
    with open(os.path.join(MEASURED, name), encoding="utf-8") as f:
        return list(csv.DictReader(f))


def synth(*options):
    """Returns what synth predicts for a step."""
    done = subprocess.run(
        [os.path.join(BUILD, "synth"), *options, "--json", "--dry-run", "--out", "set"],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"synth {' '.join(options)}: {done.stderr}")
    return json.loads(done.stdout)


def write_gpt(row, **more):
    """Writes config.json for a GPT model without dropout."""
    config = {"model_type": "gpt2", "n_layer": int(row["layers"]), "n_embd": int(row["hidden"]),
              "n_head": int(row["heads"]), "n_positions": int(row["tokens"]),
              "vocab_size": int(row["vocab"]), "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0,
              **more}
    with open("config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)


def write_llama(row):
    config = {"model_type": "llama", "num_hidden_layers": int(row["layers"]),
              "hidden_size": int(row["hidden"]), "num_attention_heads": int(row["heads"]),
              "num_key_value_heads": int(row["kv_heads"]), "intermediate_size": int(row["ffn"]),
              "vocab_size": int(row["vocab"]), "max_position_embeddings": int(row["tokens"]),
              "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu"}
    with open("config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)


def fsdp_error(row):
    """The error of a row of training_fsdp.csv. Writes to the current folder."""
    write_gpt(row)
    batch = int(row["gpus"]) * int(row["micro_batch"]) * int(row["accumulation"])
    step = synth("--model-config", "config.json", "--dp", row["gpus"], "--micro-batch",
                 row["micro_batch"], "--global-batch", str(batch), "--max-seq-length",
                 row["tokens"], "--hw", row["hw"] + "+fsdp", "--dtype", "bf16", "--zero",
                 row["zero"], "--activation-recompute", row["recompute"])
    return step["predicted_step_ns"] / 1e6 / float(row["ms"]) - 1


def megatron_core_error(row):
    """The error of a row of training_megatron_core.csv. Writes to the current folder."""
    if row["model"] == "gpt2":
        write_gpt(row, n_inner=int(row["ffn"]))
    else:
        write_llama(row)
    dp = int(row["gpus"]) // int(row["tp"]) // int(row["pp"])
    layout = ["--tp", row["tp"], "--pp", row["pp"], "--dp", str(dp), "--zero", "1", "--buckets",
              "megatron", "--micro-batch", row["micro_batch"], "--global-batch",
              row["global_batch"], "--max-seq-length", row["tokens"]]
    layout += ["--sp"] * (row["tp"] != "1")
    layout += ["--schedule", "interleaved", "--vp", row["vp"]] * (row["vp"] != "1")
    step = synth("--model-config", "config.json", "--hw", row["hw"] + "+megatron-core", *layout,
                 "--dtype", "bf16", "--fp8")
    return (float(row["tokens_per_s_per_gpu"]) * int(row["gpus"])
            / step["predicted_tokens_per_second"] - 1)


def torchtitan_errors(row):
    """The errors of time and memory, as PyTorch's allocator reserves it, of a row of
    training_torchtitan.csv: Llama 3 8B with samples of 8,192 tokens."""
    stack = "+fsdp" if row["compile"] == "1" else "+fsdp-eager"
    step = synth("--model", "llama-3-8b", "--hw", row["hw"] + stack, "--dp", row["gpus"],
                 "--zero", "3", "--micro-batch", "2", "--global-batch", str(2 * int(row["gpus"])),
                 "--max-seq-length", "8192", "--activation-recompute", "op", "--loss", "unfused",
                 "--dtype", "bf16", *["--fp8"] * (row["fp8"] == "1"))
    return (float(row["tokens_per_s_per_gpu"]) * int(row["gpus"])
            / step["predicted_tokens_per_second"] - 1,
            step["memory"]["reserved_bytes"] / 2**30 / float(row["memory_gib"]) - 1)


def calibrate_rows(hw, name):
    """The rows of a file as calibrate --check sees them, with `error`. Writes to the current
    folder."""
    done = subprocess.run(
        [os.path.join(BUILD, "syntorch"), "calibrate", "--check", "--hw", hw, "--rows",
         os.path.join(MEASURED, name), "--predictions", "predictions.csv"],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"calibrate {hw} {name}: {done.stderr}")
    with open("predictions.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    return [{**r, "error": float(r["predicted_ms"]) / float(r["measured_ms"]) - 1} for r in rows]
