"""./dev bench cpu: how far times predicted from what `syntorch calibrate --measure` finds are from
what this machine then takes: GPT-2 124M and BERT-base, prefill, decode and steps of training, f32
and bf16, on one rank and two. Medians of the programs' own times; runs beside which others had more
than 3 % of the cores are made again. Prints a table, which docs/accuracy.md shows; exit 1 when the
mean error is above its limit. SYN_HW names a hardware file that was measured before.
"""
import csv
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["SYN_BUILD"]
LIMIT, RUNS, TRIES, QUIET = 0.1, 5, 4, 0.03
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def busy():
    """Seconds that cores computed, those of all processes and those of ended children."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(n) for n in f.readline().split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    all_s = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    return all_s, own.ru_utime + own.ru_stime


def quietly(what):
    """What the call gives, once nothing else ran beside it; after some tries anyway."""
    for _ in range(TRIES):
        (all_before, own_before), begin = busy(), time.monotonic()
        result = what()
        (all_after, own_after), wall = busy(), time.monotonic() - begin
        others = (all_after - all_before) - (own_after - own_before)
        if others < QUIET * wall * os.cpu_count():
            break
    return result


def run(program, *args):
    return subprocess.run([os.path.join(BUILD, program), *args], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def infer(model, *args):
    return json.loads(run("inference", "--json", "--model", model, *args))


def inference_rows(hw, model, dtype, ranks, batch, tokens, new):
    """(what, measured, predicted) in seconds of each phase."""
    args = ["--dtype", dtype, "--tp", str(ranks), "--batch_size", str(batch),
            "--num_input_tokens", str(tokens)]
    args += ["--num_output_tokens", str(new)] if new else []
    got = [quietly(lambda: infer(model, *args)) for _ in range(RUNS)]
    want = infer(model, *args, "--device", "meta", "--hw", hw)
    for phase in ("prefill", "decode") if new else ("forward",):
        ns = statistics.median(g[f"{phase}_ns"] for g in got)
        steps = new - 1 if phase == "decode" else 1
        yield (phase, f"{batch} x {tokens}", ns * 1e-9 / steps,
               want[f"predicted_{phase}_ns"] * 1e-9 / steps)


def training_rows(hw, model, dtype, ranks, batch, tokens):
    with tempfile.TemporaryDirectory() as folder:
        args = ["--model-name", model, "--dtype", dtype, "--num-gpus", str(ranks), "--batch-size",
                str(batch), "--max-seq-length", str(tokens), "--skip-eval"]
        quietly(lambda: run("pretrain", *args, "--max-steps", str(RUNS + 2), "--save-dir", folder,
                            "--quiet"))
        with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as f:
            rates = [float(r["tokens_per_s"]) for r in csv.DictReader(f)][2:]
        said = run("pretrain", *args, "--max-steps", "2", "--device", "meta", "--enable-tracing",
                   "--trace-output-dir", folder, "--hw", hw)
    value, unit = re.search(r"predicted step: ([\d.]+) (\w+)", said).groups()
    yield ("training", f"{batch} x {tokens}", ranks * batch * tokens / statistics.median(rates),
           float(value) * UNITS[unit])


def all_rows(hw):
    for dtype in ("f32", "bf16"):
        for ranks in (1, 2):
            for model, make, *shape in (("gpt2", inference_rows, 1, 128, 16),
                                        ("gpt2", inference_rows, 4, 256, 8),
                                        ("bert-base-uncased", inference_rows, 1, 128, 0),
                                        ("bert-base-uncased", inference_rows, 8, 128, 0),
                                        ("gpt2", training_rows, 4, 128),
                                        ("bert-base-uncased", training_rows, 4, 128)):
                for row in make(hw, model, dtype, ranks, *shape):
                    yield (model, dtype, ranks, *row)


def main(hw):
    errors = []
    print("| model | dtype | ranks | | batch x tokens | measured ms | predicted ms | error % |\n"
          "|---|---|---|---|---|---|---|---|")
    for *what, measured, predicted in all_rows(hw):
        errors.append(predicted / measured - 1)
        print("|", " | ".join(map(str, what)), f"| {1e3 * measured:.1f} | {1e3 * predicted:.1f} "
              f"| {100 * errors[-1]:+.1f} |", flush=True)
    mean = statistics.mean(map(abs, errors))
    print(f"\n{len(errors)} rows: mean {100 * mean:.1f} %, worst "
          f"{100 * max(map(abs, errors)):.1f} % (limit of the mean: {100 * LIMIT:.0f} %)")
    return mean > LIMIT


with tempfile.TemporaryDirectory() as where:
    given = os.environ.get("SYN_HW")
    path = given or os.path.join(where, "cpu.json")
    if not given:
        print(run("calibrate", "--measure", "--output", path), flush=True)
    sys.exit(main(path))
