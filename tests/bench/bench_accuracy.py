"""./dev bench accuracy: compares predicted times with the measured times in tests/measured. Writes
the table and the picture of docs/accuracy.md, and syntorch/hardware/hardware_errors.def with the
prediction errors that programs print. Exits with 1 if an error is above its limit."""
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
from measured_rows import BLOCKING  # noqa: E402

PAGE = os.path.join(SOURCE, "docs/accuracy.md")
# Constants that stay fixed while the others are fitted, because the rows of this kind say nothing
# about them. Megatron's seven inference rows fit two constants; its other constants are fitted to
# the rows of its training.
ELSEWHERE = {
    "training": ["kernels.kv_append", "kernels.attention", "kernels.scale_mask", "kernels.softmax",
                 "phases.prefill.device", "phases.decode.launch"],
    "serving": [],
    "megatron": ["launch_us", "matmul_efficiency", "matmul_tail", "score_passes", "score_kernels",
                 "memory_efficiency", "collective_us", "collective_rank_us",
                 "kernels.attention_train", "kernels.attention_grad", "overhead_us.embedding",
                 "kernels.kv_append", "kernels.attention", "kernels.scale_mask", "kernels.softmax",
                 "attention_efficiency", "kernels.add", "kernels.dropout", "kernels.accumulate"],
    "sums": ["launch_us", "matmul_efficiency", "matmul_tail", "attention_efficiency",
             "memory_efficiency", "kernels.scale_mask", "kernels.softmax",
             "simple.link_efficiency"],
}
# (description, machine and stack, file, stack column, key in ELSEWHERE or None if nothing is
# fitted, limit of the mean error, limit of the mean error when a tenth of the rows is left out)
SETS = (("FasterTransformer, 350M-530B", "a100-80g+serving",
         "gpt_inference_a100.csv", "ft", "serving", 0.06, 0.06),
        ("Megatron inference, 175B", "a100-80g+megatron", "gpt_inference_a100.csv",
         "megatron", "megatron", 0.08, 0.08),
        ("Megatron training, 2-8 GPUs", "a100-80g+megatron", "training_a100.csv", None,
         "training", 0.06, 0.06),
        ("Megatron training, 8-256 GPUs", "a100-80g+megatron", "training_a100_nodes.csv", None,
         None, 0.2, 1),
        ("Megatron, 2-8 GPUs, pipelines", BLOCKING, "training_a100_pipelines.csv", None,
         None, 0.06, 1),
        ("Megatron training, 64-512 GPUs", BLOCKING, "training_a100_cluster.csv", None, None, 0.08,
         1),
        ("NCCL all-reduce, 2-8 GPUs", "a100-80g+pytorch-eager", "all_reduce_a100.csv",
         None, "sums", 0.05, 0.05),
        ("NCCL, 8 A100, three other runs", "a100-80g+pytorch-eager", "all_reduce_a100_8.csv", None,
         None, 0.18, 1),
        ("NCCL, 16 and 32 A100", "a100-80g+pytorch-eager", "all_reduce_a100_16_32.csv", None, None,
         0.13, 1),
        ("NCCL, 128 A100, 16 nodes", "a100-80g+pytorch-eager", "all_reduce_a100_nodes.csv", None,
         None, 0.16, 1),
        ("NCCL, 8 H100, two runs", "h100+pytorch-eager", "all_reduce_h100_8.csv", None, None, 0.14,
         1),
        ("NCCL, 16 H100, 2 nodes", "h100+pytorch-eager", "all_reduce_h100_nodes.csv", None, None,
         0.05, 1),
        ("NCCL, 16 to 64 H100", "h100+pytorch-eager", "all_reduce_h100_16_64.csv", None, None, 0.1,
         1),
        ("NCCL, 16 H100, EFA", "h100+pytorch-eager", "all_reduce_h100_efa.csv", None, None, 0.4, 1),
        ("NCCL, 8 and 16 H200", "h200+pytorch-eager", "all_reduce_h200.csv", None, None, 0.15, 1),
        ("NCCL, 8 V100", "v100-32g+pytorch-eager", "all_reduce_v100.csv", None, None, 0.04, 1),
        ("NCCL, 12 V100 of a DGX-2", os.path.join(SOURCE, "tests/measured/dgx2.json"),
         "all_reduce_v100_dgx2.csv", None, None, 0.07, 1),
        ("NCCL, four kinds, 2-8 A100", "a100-80g+pytorch-eager", "collectives_a100.csv", None,
         None, 0.24, 1),
        ("NCCL, four kinds, 2-8 H100", "h100+pytorch-eager", "collectives_h100.csv", None,
         None, 0.11, 1))
HEAD = """\
/* Prediction errors of a100-80g's stacks on the runs in tests/measured. Written by `./dev bench
   accuracy`.
   X: stack, training, layers, hidden, tp, dp, pp, batch, tokens, new tokens, and predicted /
   measured - 1 with constants fitted to other rows.
   Y: stack, training, root mean square error when all rows of a model, a tp degree, a batch size or
   a length are left out. */
"""
SPLITS = ("a tenth of the rows", "a model", "a tp degree", "a batch size", "a length")


def percent(value):
    return "–" if value is None else f"{100 * value:.1f}"


def stack_of(hw):
    """Returns the stack after the "+", or the stack of a file."""
    if not hw.endswith(".json"):
        return hw.partition("+")[2]
    with open(hw, encoding="utf-8") as f:
        return json.load(f)["stack"]["name"]


def mean(values):
    values = sorted(map(abs, values))
    return {"mean": sum(values) / len(values), "median": values[len(values) // 2],
            "worst": values[-1]}


def calibrate(folder, hw, name, stack, *more):
    """Returns what the command reports, and the rows with predicted and measured times."""
    path = os.path.join(folder, "predictions.csv")
    command = [os.path.join(BUILD, "syntorch"), "calibrate", "--json", "--hw", hw, "--rows",
               os.path.join(SOURCE, "tests/measured", name), "--predictions", path,
               *(["--rows_stack", stack] if stack else []), *more]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    with open(path, encoding="utf-8") as f:
        return found, list(csv.DictReader(f))


def off(row, key):
    return float(row[key]) / float(row["measured_ms"]) - 1


def name_of(row):
    if row["bytes"] != "0":
        return f'{row["tp"]} ranks, {int(row["bytes"]) >> 20} MiB'
    ranks = f'tp {row["tp"]}' + (f' dp {row["dp"]}' if row["dp"] != "1" else "")
    return f'{row["model"]}, {ranks}, {row["batch"]} x {row["tokens"]}'


def residual(row, hw, training):
    return (f'X("{stack_of(hw)}", {training:d}, {row["layers"]}, {row["hidden"]}, {row["tp"]}, '
            f'{row["dp"]}, {row["pp"]}, {row["batch"]}, {row["tokens"]}, {row["new_tokens"]}, '
            f'{off(row, "left_out_ms"):.3f})')


def holdout_errors(found, hw, training):
    rms = found["left_out_rms"]
    numbers = ", ".join(f"{rms.get(s, 0):.3f}" for s in SPLITS[1:])
    return f'Y("{stack_of(hw)}", {training:d}, {numbers})'


def main():
    lines, errors, panels, missed = [], [], [], 0
    for what, hw, name, stack, fixed, limit, limit_left_out in SETS:
        training = name.startswith("training")
        with tempfile.TemporaryDirectory() as folder:
            found, left_out = calibrate(folder, hw, name, stack,
                                        *(["--fix", *ELSEWHERE[fixed]] if fixed == "sums" or
                                          fixed and ELSEWHERE[fixed] else
                                          [] if fixed else ["--check"]))
            _, rows = calibrate(folder, hw, name, stack, "--check")
            for row, other in zip(rows, left_out):
                row["left_out_ms"] = other["left_out_ms"] or row["predicted_ms"]
        given, out = mean([off(r, "predicted_ms") for r in rows]), found.get("left_out", {})
        if fixed:
            panels.append((f"{what}: {stack_of(hw)}", [
                (name_of(r), float(r["measured_ms"]), float(r["predicted_ms"])) for r in rows]))
        if not hw.endswith(".json") and not name.startswith(("all_reduce", "collectives")):
            errors += [residual(r, hw, training) for r in rows]
            errors += [holdout_errors(found, hw, training)] if fixed else []
        if hw == BLOCKING:  # programs print the errors of built-in machines
            built_in = "a100-80g+megatron"
            with tempfile.TemporaryDirectory() as folder:
                _, others = calibrate(folder, built_in, name, stack, "--check")
            errors += [residual({**r, "left_out_ms": r["predicted_ms"]}, built_in, training)
                       for r in others]
        missed += given["mean"] > limit or out.get(SPLITS[0], 0) > limit_left_out
        numbers = [given[k] for k in ("mean", "median", "worst")] + [out.get(s) for s in SPLITS]
        cells = [what, f"`{stack_of(hw)}`", len(rows), *map(percent, numbers)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
        print(lines[-1], flush=True)
    scatter.write(os.path.join(SOURCE, "docs/images/accuracy.svg"), panels)
    with open(PAGE, encoding="utf-8") as f:
        text = f.read().split("\n")
    first = next(i for i, line in enumerate(text) if line.startswith("|---")) + 1
    last = next(i for i in range(first, len(text)) if not text[i].startswith("|"))
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write("\n".join(text[:first] + lines + text[last:]))
    path = os.path.join(SOURCE, "syntorch/hardware/hardware_errors.def")
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD + "\n".join(errors) + "\n")
    sys.exit(1 if missed else 0)


main()
