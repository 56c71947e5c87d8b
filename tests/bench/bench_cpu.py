"""./dev bench cpu: how far times predicted from what `syntorch calibrate --measure` finds are from
what this machine then takes: GPT-2 124M and BERT-base, prefill, decode and steps of training, f32
and bf16, on one rank and two. Medians of the programs' own times; runs beside which others had more
than 3 % of the cores are made again. Prints each row and writes the table and the picture of
docs/accuracy.md anew; exit 1 when the mean error is above its limit. SYN_HW names a hardware file
that was measured before.
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

SOURCE, BUILD = os.environ["SYN_SOURCE"], os.environ["SYN_BUILD"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import scatter  # noqa: E402

PAGE = os.path.join(SOURCE, "docs/accuracy.md")
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


CASES = ((inference_rows, "gpt2", 1, 128, 16), (inference_rows, "gpt2", 4, 256, 8),
         (training_rows, "gpt2", 4, 128), (inference_rows, "bert-base-uncased", 1, 128, 0),
         (inference_rows, "bert-base-uncased", 8, 128, 0),
         (training_rows, "bert-base-uncased", 4, 128))
COLUMNS = [(dtype, ranks) for dtype in ("f32", "bf16") for ranks in (1, 2)]


def measure_all(hw):
    """(model, phase, shape) -> {column: (measured, predicted)}, seconds."""
    rows = {}
    for dtype, ranks in COLUMNS:
        for make, model, *shape in CASES:
            for phase, size, measured, predicted in make(hw, model, dtype, ranks, *shape):
                row = rows.setdefault((model.removesuffix("-uncased"), phase, size), {})
                row[dtype, ranks] = measured, predicted
                print(f"{model} {phase} {size}, {dtype}, {ranks} ranks: {1e3 * measured:.1f} ms, "
                      f"predicted {1e3 * predicted:.1f}: {100 * (predicted / measured - 1):+.1f} %",
                      flush=True)
    return rows


def number(seconds):
    ms = 1e3 * seconds
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}"


def write_page(rows):
    """The rows of the page's table that begins with `| model | step |`."""
    lines = []
    for what, row in rows.items():
        cells = [f"{number(row[c][0])} → {number(row[c][1])}" for c in COLUMNS]
        lines.append("| " + " | ".join([*what, *cells]) + " |")
    with open(PAGE, encoding="utf-8") as f:
        page = f.read().split("\n")
    first = next(i for i, line in enumerate(page) if line.startswith("| model | step |")) + 2
    last = next(i for i in range(first, len(page)) if not page[i].startswith("|"))
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write("\n".join(page[:first] + lines + page[last:]))


def draw(rows):
    sets = []
    for dtype in ("f32", "bf16"):
        points = [(f"{' '.join(what)}, {ranks} rank{'s' if ranks > 1 else ''}",
                   *(1e3 * s for s in row[dtype, ranks]))
                  for what, row in rows.items() for ranks in (1, 2)]
        sets.append((f"GPT-2 and BERT-base on two cores: {dtype}", points))
    scatter.write(os.path.join(SOURCE, "docs/images/accuracy_cpu.svg"), sets)


def main(hw):
    rows = measure_all(hw)
    write_page(rows)
    draw(rows)
    errors = [abs(predicted / measured - 1) for row in rows.values()
              for measured, predicted in row.values()]
    mean = statistics.mean(errors)
    print(f"{len(errors)} rows: mean {100 * mean:.1f} %, median "
          f"{100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} % (limit of the "
          f"mean: {100 * LIMIT:.0f} %)")
    return mean > LIMIT


with tempfile.TemporaryDirectory() as where:
    path = os.environ.get("SYN_HW", os.path.join(where, "cpu.json"))
    if not os.path.exists(path):
        print(run("calibrate", "--measure", "--output", path), flush=True)
    sys.exit(main(path))
