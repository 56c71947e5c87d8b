"""./dev bench accuracy: how far predicted times are from measured ones (tests/measured), for the
table and the picture of docs/accuracy.md and the errors beside each prediction
(tools/residuals.def), which it writes anew; exit 1 when an error is above its limit."""
import csv
import json
import os
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ["SYN_SOURCE"], os.environ["SYN_BUILD"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import scatter  # noqa: E402

PAGE = os.path.join(SOURCE, "docs/accuracy.md")
# What is not fitted to these rows: constants of other ops, phases or rows.
ELSEWHERE = {
    "training": ["kernels.kv_append", "kernels.attention", "kernels.scale_mask", "kernels.softmax",
                 "phases.prefill.device", "phases.decode.launch", "attention_efficiency",
                 "memory_efficiency", "matmul_tail", "matmul_efficiency", "kernels.add",
                 "kernels.dropout", "kernels.accumulate"],
    # one model alone runs on several nodes
    "serving": ["attention_efficiency", "kernels.contiguous", "collective_hop_us"],
    "megatron": ["launch_us", "matmul_efficiency", "matmul_tail", "score_passes", "score_kernels",
                 "memory_efficiency", "collective_us", "collective_rank_us",
                 "kernels.attention_train", "kernels.attention_grad", "overhead_us.embedding",
                 "kernels.kv_append", "kernels.attention", "kernels.scale_mask", "kernels.softmax",
                 "attention_efficiency", "kernels.add", "kernels.dropout", "kernels.accumulate"],
    "sums": ["launch_us", "matmul_efficiency", "matmul_tail", "attention_efficiency",
             "memory_efficiency", "kernels.scale_mask", "kernels.softmax"],
}
# (what, machine and stack, file, column stack, what is fixed or None: nothing is fitted, limit of
# the mean)
SETS = (("FasterTransformer, 350M-530B", "a100-80g+serving",
         "gpt_inference_a100.csv", "ft", "serving", 0.06),
        ("Megatron inference, 175B", "a100-80g+megatron", "gpt_inference_a100.csv",
         "megatron", "megatron", 0.08),
        ("Megatron training, 2-8 GPUs", "a100-80g+megatron", "training_a100.csv", None,
         "training", 0.06),
        ("NCCL all-reduce, 2-8 GPUs", "a100-80g+pytorch-eager", "all_reduce_a100.csv",
         None, "sums", 0.05),
        ("NCCL, 128 A100, 16 nodes", "a100-80g+pytorch-eager", "all_reduce_a100_nodes.csv", None,
         None, 0.2),
        ("NCCL, 16 H100, 2 nodes", "h100+pytorch-eager", "all_reduce_h100_nodes.csv", None, None,
         0.05))
SPLITS = ("a tenth of the rows", "a model", "a tp degree", "a batch size", "a length")


def percent(value):
    return "–" if value is None else f"{100 * value:.1f}"


def predictions(command):
    """The rows, each with its two times."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "predictions.csv")
        subprocess.run(command + ["--check", "--predictions", path], check=True,
                       stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as f:
            return list(csv.DictReader(f))


def name_of(row):
    if row["bytes"] != "0":
        return f'{row["tp"]} ranks, {int(row["bytes"]) >> 20} MiB'
    ranks = f'tp {row["tp"]}' + (f' dp {row["dp"]}' if row["dp"] != "1" else "")
    return f'{row["model"]}, {ranks}, {row["batch"]} x {row["tokens"]}'


def residual(row, hw, training):
    off = float(row["predicted_ms"]) / float(row["measured_ms"]) - 1
    return (f'X("{hw.split("+")[1]}", {training:d}, {row["layers"]}, {row["hidden"]}, {row["tp"]}, '
            f'{row["dp"]}, {row["batch"]}, {row["tokens"]}, {row["new_tokens"]}, {off:.3f})')


lines, errors, panels, missed = [], [], [], 0
for what, hw, name, stack, fixed, limit in SETS:
    command = [os.path.join(BUILD, "syntorch"), "calibrate", "--json", "--hw", hw, "--rows",
               os.path.join(SOURCE, "tests/measured", name),
               *(["--rows_stack", stack] if stack else [])]
    fit = ["--fix", *ELSEWHERE[fixed]] if fixed else ["--check"]
    found = json.loads(subprocess.run(command + fit, check=True, stdout=subprocess.PIPE).stdout)
    rows = predictions(command)
    if fixed:
        panels.append((f"{what}: {hw.split('+')[1]}", [
        (name_of(r), float(r["measured_ms"]), float(r["predicted_ms"])) for r in rows]))
    if "reduce" not in name:
        errors += [residual(r, hw, "training" in name) for r in rows]
    given, out = found["given"], found.get("left_out", {})
    missed += given["mean"] > limit
    numbers = [given[k] for k in ("mean", "median", "worst")] + [out.get(s) for s in SPLITS]
    cells = [what, f"`{hw.split('+')[1]}`", given["rows"], *map(percent, numbers)]
    lines.append("| " + " | ".join(map(str, cells)) + " |")
    print(lines[-1], flush=True)
scatter.write(os.path.join(SOURCE, "docs/images/accuracy.svg"), panels)
with open(PAGE, encoding="utf-8") as f:
    text = f.read().split("\n")
first = next(i for i, line in enumerate(text) if line.startswith("|---")) + 1
last = next(i for i in range(first, len(text)) if not text[i].startswith("|"))
with open(PAGE, "w", encoding="utf-8") as f:
    f.write("\n".join(text[:first] + lines + text[last:]))
with open(os.path.join(SOURCE, "tools/residuals.def"), "w", encoding="utf-8") as f:
    f.write("/* Errors of a100-80g's stacks on the rows of tests/measured, by "
            "./dev bench accuracy: stack,\n   training, layers, hidden, tp, dp, batch, tokens, "
            "new tokens, predicted / measured - 1. */\n" + "\n".join(errors) + "\n")
sys.exit(1 if missed else 0)
