"""Predicted times of training in FP8 with Megatron Core, compared with measured ones
(tests/measured/training_megatron_core.csv)."""
import csv
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, enter_folder, finish  # noqa: E402

OPTIONS = "--dtype bf16 --fp8 --json --dry-run --out set".split()


def config(row):
    if row["model"] == "gpt2":
        return {"model_type": "gpt2", "n_layer": int(row["layers"]), "n_embd": int(row["hidden"]),
                "n_head": int(row["heads"]), "n_inner": int(row["ffn"]),
                "n_positions": int(row["tokens"]), "vocab_size": int(row["vocab"]),
                "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0}
    return {"model_type": "llama", "num_hidden_layers": int(row["layers"]),
            "hidden_size": int(row["hidden"]), "num_attention_heads": int(row["heads"]),
            "num_key_value_heads": int(row["kv_heads"]), "intermediate_size": int(row["ffn"]),
            "vocab_size": int(row["vocab"]), "max_position_embeddings": int(row["tokens"]),
            "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu"}


def predicted_rate(row):
    """Tokens per second and GPU."""
    with open("config.json", "w", encoding="utf-8") as f:
        json.dump(config(row), f)
    dp = int(row["gpus"]) // int(row["tp"]) // int(row["pp"])
    layout = ["--tp", row["tp"], "--pp", row["pp"], "--dp", str(dp), "--zero", "1", "--buckets",
              "megatron", "--micro-batch", row["micro_batch"], "--global-batch",
              row["global_batch"], "--max-seq-length", row["tokens"]]
    layout += ["--sp"] * (row["tp"] != "1")
    layout += ["--schedule", "interleaved", "--vp", row["vp"]] * (row["vp"] != "1")
    done = subprocess.run([os.path.join(BUILD, "synth"), "--model-config", "config.json", "--hw",
                           row["hw"] + "+megatron-core", *layout, *OPTIONS],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{row}: {done.stderr}")
    return json.loads(done.stdout)["predicted_tokens_per_second"] / int(row["gpus"])


def main():
    errors = []
    with open(os.path.join(SOURCE, "tests", "measured", "training_megatron_core.csv"),
              encoding="utf-8") as f:
        for row in csv.DictReader(f):
            errors.append(float(row["tokens_per_s_per_gpu"]) / predicted_rate(row) - 1)
            print(f"{errors[-1]:+.3f} {row['model']} {row['layers']} layers, {row['gpus']} GPUs")
            check(abs(errors[-1]) < 0.08, f"{errors[-1]:+.3f}: {row}")
    mean = sum(map(abs, errors)) / len(errors)
    print(f"{len(errors)} rows, mean error {100 * mean:.1f} %")
    check(mean < 0.045, f"mean error {mean}")


enter_folder()
main()
finish()
