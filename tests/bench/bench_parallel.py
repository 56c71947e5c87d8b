"""./dev bench parallel: the same training step on two ranks of the CPU with data parallelism, ZeRO
1 to 3 and a pipeline. Shows the time of a step, the bytes that a rank sends, and its peak memory,
each beside its formula (Rajbhandari et al. 2020; Narayanan et al. 2021). Exits with 1 if bytes or
memory are not those of the formula."""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ["SYN_BUILD"]
RANKS, SAMPLES, BATCH, TOKENS, STEPS, PASSES = 2, 8, 2, 128, 6, 3
LAYERS, H, VOCAB = 4, 256, 512
CONFIG = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": H, "n_head": 4, "n_positions": TOKENS,
          "vocab_size": VOCAB}
TABLE = VOCAB * H
LAYER = (12 * H + 13) * H
P = TABLE + TOKENS * H + LAYERS * LAYER + 2 * H
DATA, PIPE = SAMPLES // BATCH // RANKS, SAMPLES // BATCH  # microbatches per rank
MESSAGE = 4 * BATCH * TOKENS * H
# name, options, bytes sent by rank 0 in a ring, bytes of state of rank 0 in f32
CASES = (
    ("dp", ["--gradient-accumulation-steps", DATA], 4 * P, 16 * P),
    ("dp, ZeRO 1", ["--zero", 1, "--gradient-accumulation-steps", DATA], 2 * P + 2 * P,
     8 * P + 12 * P // 2),
    ("dp, ZeRO 2", ["--zero", 2, "--gradient-accumulation-steps", DATA], DATA * 2 * P + 2 * P,
     4 * P + 16 * P // 2),
    ("dp, ZeRO 3", ["--zero", 3, "--gradient-accumulation-steps", DATA],
     DATA * (2 * P + 2 * (P + LAYERS * LAYER)), 16 * P // 2),
    ("pp", ["--pp", 2, "--gradient-accumulation-steps", PIPE],
     PIPE * MESSAGE + 4 * TABLE, 16 * (TABLE + TOKENS * H + LAYERS // 2 * LAYER)),
)


def run(folder, *arguments):
    done = subprocess.run([os.path.join(BUILD, arguments[0]), *map(str, arguments[1:])],
                          cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{arguments}: {done.stderr}")
    return done.stdout


def training(options):
    return ["pretrain", "--model-config", "model.json", "--num-gpus", RANKS, "--batch-size", BATCH,
            "--max-seq-length", TOKENS, "--dropout", 0, *options]


def measure(folder, options):
    """Returns the seconds of each step but the first, which allocates memory from the system."""
    run(folder, *training(options), "--max-steps", STEPS, "--skip-eval", "--save-dir", "run",
        "--quiet")
    with open(os.path.join(folder, "run", "metrics.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))[1:]
    return [SAMPLES * TOKENS / float(row["tokens_per_s"]) for row in rows]


def predict(folder, options):
    """Returns the bytes that rank 0 sends in a ring, and its peak memory, both as on the CPU."""
    run(folder, *training(options), "--device", "meta", "--dtype", "f32", "--enable-tracing",
        "--out-dir", "out")
    run(folder, "syntorch", "export", "--input", "out/trace.0.et", "--output", "graph.json")
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as f:
        ops = [n for n in json.load(f)["nodes"] if n.get("comm")]
    ring = {"all_reduce": 2 * (RANKS - 1) / RANKS, "reduce_scatter": (RANKS - 1) / RANKS,
            "all_gather": RANKS - 1, "send": 1}
    sent = sum(ring.get(n["comm"], 0) * n["comm_bytes"] for n in ops)
    said = json.loads(run(folder, *training(options), "--device", "meta", "--dtype", "f32",
                          "--json"))
    return sent, said["memory"]["peak_bytes"]


def main():
    failed, times, rest = False, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as f:
            json.dump(CONFIG, f)
        for _ in range(PASSES):
            for name, options, *_ in CASES:
                times.setdefault(name, []).extend(measure(folder, options))
        for name, options, *_ in CASES:
            rest[name] = predict(folder, options)
    print(f"{P / 1e6:.2f} million parameters, f32, {RANKS} ranks, {SAMPLES} samples of {TOKENS} "
          f"tokens per step, one thread per rank")
    print(f"{'':12}{'ms':>8}{'x of dp':>9}{'MB sent':>10}{'formula':>9}{'MiB peak':>10}"
          f"{'state':>8}  (MiB, formula)")
    base, more = statistics.median(times["dp"]), rest["dp"][1] - CASES[0][3]
    for name, _, sent, state in CASES:
        took, (bytes_sent, peak) = statistics.median(times[name]), rest[name]
        # The norm, the loss and padding are less than 1 % of the bytes. Peaks also have
        # activations, and with ZeRO the buffers of two units or buckets.
        good = abs(bytes_sent / sent - 1) < 0.01 and 0 <= peak - state < 1.6 * more
        failed = failed or not good
        print(f"{name:12}{1e3 * took:8.1f}{took / base:9.2f}{bytes_sent / 1e6:10.2f}"
              f"{sent / 1e6:9.2f}{peak / 2**20:10.1f}{state / 2**20:8.1f}"
              f"{'' if good else '  NOT THE FORMULA'}")
    sys.exit(failed)


main()
