"""./dev bench cpu: predicts the times of this machine from the constants that `syntorch calibrate
--measure` finds, and compares them with measured times. The models are GPT-2 124M and BERT-base, in
prefill, decode and training steps, in f32 and bf16, on one and two ranks.

A measured time is the median of the times that the programs print. A run is repeated if other
processes used more than 3 % of the cores meanwhile. Each printed row includes the spread of its
runs, which no prediction can reproduce. Also rewrites the table and the picture of
docs/accuracy.md. Exits with 1 if the mean error is above its limit. SYN_HW names a hardware file
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
LIMIT, QUIET = 0.1, 0.03
PASSES, RUNS, TRIES = 3, 2, 4  # over all rows; of inference per pass; if others disturb
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def busy():
    """Returns the seconds that all processes, and our ended child processes, have used the
    cores."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(n) for n in f.readline().split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    all_s = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    return all_s, own.ru_utime + own.ru_stime


def quietly(what):
    """Returns the result of a call during which other processes were idle, or of the last try."""
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


def spread(values):
    """Returns the mean distance of the values from their median, as a fraction of the median."""
    middle = statistics.median(values)
    return statistics.mean(abs(v / middle - 1) for v in values)


def inference(model, dtype, ranks, batch, tokens, new):
    args = ["--dtype", dtype, "--tp", str(ranks), "--batch_size", str(batch),
            "--num_input_tokens", str(tokens)]
    return args + (["--num_output_tokens", str(new)] if new else [])


def phases(got, new, key="{}_ns"):
    """Returns the seconds of each phase per step."""
    if not new:
        return {"forward": 1e-9 * got[key.format("forward")]}
    return {"prefill": 1e-9 * got[key.format("prefill")],
            "decode": 1e-9 * got[key.format("decode")] / (new - 1)}


def run_inference(model, *case):
    args = inference(model, *case)
    return [phases(quietly(lambda: infer(model, *args)), case[-1]) for _ in range(RUNS)]


def predict_inference(hw, model, *case):
    args = [*inference(model, *case), "--device", "meta", "--hw", hw]
    return phases(infer(model, *args), case[-1], "predicted_{}_ns")


def training(model, dtype, ranks, batch, tokens):
    return ["--model", model, "--dtype", dtype, "--num-gpus", str(ranks), "--batch-size",
            str(batch), "--max-seq-length", str(tokens), "--skip-eval"]


def run_training(model, dtype, ranks, batch, tokens):
    args = training(model, dtype, ranks, batch, tokens)
    with tempfile.TemporaryDirectory() as folder:
        quietly(lambda: run("pretrain", *args, "--max-steps", "2", "--save-dir", folder, "--quiet"))
        with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as f:
            _, second = csv.DictReader(f)  # the first step allocates memory from the system
    return [{"training": ranks * batch * tokens / float(second["tokens_per_s"])}]


def predict_training(hw, *case):
    with tempfile.TemporaryDirectory() as folder:
        said = run("pretrain", *training(*case), "--max-steps", "2", "--device", "meta",
                   "--enable-tracing", "--out-dir", folder, "--hw", hw)
    value, unit = re.search(r"predicted step: ([\d.]+) (\w+)", said).groups()
    return {"training": float(value) * UNITS[unit]}


INFERENCE, TRAINING = (run_inference, predict_inference), (run_training, predict_training)
CASES = ((*INFERENCE, "gpt2", 1, 128, 16), (*INFERENCE, "gpt2", 4, 256, 8),
         (*TRAINING, "gpt2", 4, 128), (*INFERENCE, "bert-base-uncased", 1, 128, 0),
         (*INFERENCE, "bert-base-uncased", 8, 128, 0), (*TRAINING, "bert-base-uncased", 4, 128))
COLUMNS = [(dtype, ranks) for dtype in ("f32", "bf16") for ranks in (1, 2)]


def measure_all(hw):
    """Returns {(model, phase, shape): {column: (measured, predicted)}}, in seconds, and all
    spreads. Runs of the same row are minutes apart, because a disturbance of the machine may last
    for seconds."""
    runs, rows, spreads = {}, {}, []
    for _ in range(PASSES):
        for column in COLUMNS:
            for measure, _, model, *shape in CASES:
                for took in measure(model, *column, *shape):
                    for phase, seconds in took.items():
                        runs.setdefault((model, *column, *shape, phase), []).append(seconds)
    for column in COLUMNS:
        for _, predict, model, *shape in CASES:
            for phase, predicted in predict(hw, model, *column, *shape).items():
                took = runs[(model, *column, *shape, phase)]
                measured, size = statistics.median(took), f"{shape[0]} x {shape[1]}"
                row = rows.setdefault((model.removesuffix("-uncased"), phase, size), {})
                row[column] = measured, predicted
                spreads.append(spread(took))
                print(f"{model} {phase} {size}, {column[0]}, {column[1]} ranks: "
                      f"{1e3 * measured:.1f} ms, predicted {1e3 * predicted:.1f}: "
                      f"{100 * (predicted / measured - 1):+.1f} %, runs "
                      f"+-{100 * spreads[-1]:.1f} %", flush=True)
    return rows, spreads


def number(seconds):
    ms = 1e3 * seconds
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}"


def write_page(rows):
    """Writes the rows of the page's table that begins with `| model | step |`."""
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
    rows, spreads = measure_all(hw)
    write_page(rows)
    draw(rows)
    errors = [abs(predicted / measured - 1) for row in rows.values()
              for measured, predicted in row.values()]
    mean = statistics.mean(errors)
    print(f"{len(errors)} rows: mean {100 * mean:.1f} %, median "
          f"{100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} % (limit of the "
          f"mean: {100 * LIMIT:.0f} %); runs of a row +-{100 * statistics.mean(spreads):.1f} % "
          f"around their median")
    return mean > LIMIT


with tempfile.TemporaryDirectory() as where:
    path = os.environ.get("SYN_HW", os.path.join(where, "cpu.json"))
    if not os.path.exists(path):
        print(run("calibrate", "--measure", "--output", path), flush=True)
    sys.exit(main(path))
