"""Tests loss.svg of the pretraining program: the ticks of its axes are round numbers and, measured
against these ticks, each point of a curve has a step and a loss of metrics.csv."""
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.dom.minidom

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, finish  # noqa: E402
from pretrain_runs import PRETRAIN  # noqa: E402

GPT = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1, "n_positions": 8,
       "vocab_size": 512}


class Picture:
    def __init__(self, path):
        page = xml.dom.minidom.parse(path)
        self.texts = [(float(t.getAttribute("x") or "nan"), float(t.getAttribute("y") or "nan"),
                       t.getAttribute("text-anchor"), t.firstChild.data)
                      for t in page.getElementsByTagName("text")]
        self.words = [t[3] for t in self.texts]
        self.curves = [[tuple(map(float, p.split(","))) for p in c.getAttribute("points").split()]
                       for c in page.getElementsByTagName("polyline")]
        self.dots = [(float(c.getAttribute("cx")), float(c.getAttribute("cy")))
                     for c in page.getElementsByTagName("circle")]
        numbers = [t for t in self.texts if re.fullmatch(r"-?[\d.]+", t[3])]
        self.x_ticks = [(x, float(s)) for x, _, anchor, s in numbers if anchor == "middle"]
        self.y_ticks = [(y - 4, float(s)) for _, y, anchor, s in numbers if anchor == "end"]


def on_axis(ticks, at):
    (a, low), (b, high) = ticks[0], ticks[-1]
    return low + (high - low) * (at - a) / (b - a)


def round_ticks(ticks):
    """Whether the ticks are consecutive multiples of 1, 2 or 5 times a power of ten."""
    values = [value for _, value in ticks]
    step = values[1] - values[0]
    digits = step / 10 ** math.floor(math.log10(step) + 1e-6)
    return 2 <= len(values) <= 11 and min(abs(digits - d) for d in (1, 2, 5)) < 1e-6 and all(
        abs(v / step - round(v / step)) < 1e-6 and abs(v - values[0] - i * step) < 1e-6 * step
        for i, v in enumerate(values))


def draw(folder, *options):
    if "--resume" not in options:
        shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
    done = subprocess.run([PRETRAIN, "--model-config", "gpt.json",
                           "--max-seq-length", "8", "--save-dir", "run", *options],
                          capture_output=True, text=True, cwd=folder, check=False)
    check(done.returncode == 0, f"{options}: {done.stderr}")
    with open(os.path.join(folder, "run", "metrics.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    return Picture(os.path.join(folder, "run", "loss.svg")), [
        [(int(row["step"]), float(row[key])) for row in rows if row[key]]
        for key in ("loss", "eval_loss")]


def curves(folder, *options, every=1):
    p, metrics = draw(folder, *options)
    check(round_ticks(p.x_ticks) and round_ticks(p.y_ticks), f"{p.x_ticks}, {p.y_ticks}")
    pixel = abs((p.y_ticks[1][1] - p.y_ticks[0][1]) / (p.y_ticks[1][0] - p.y_ticks[0][0]))
    for curve, points, of in zip(p.curves, metrics, (every, 1)):
        groups = [points[i:i + of] for i in range(0, len(points), of)]
        means = [[sum(column) / len(group) for column in zip(*group)] for group in groups]
        got = [(on_axis(p.x_ticks, x), on_axis(p.y_ticks, y)) for x, y in curve]
        off = [(a, b) for a, b in zip(got, means)
               if abs(a[0] - b[0]) > 0.001 * points[-1][0] or abs(a[1] - b[1]) > 0.2 * pixel]
        check(len(got) == len(means) and not off, f"{options}: {len(got)} points, wrong: {off[:3]}")
    y = [at for at, _ in p.y_ticks]
    check(all(min(y) <= at <= max(y) for c in p.curves for _, at in c), f"{options}: outside")
    return p, metrics


with tempfile.TemporaryDirectory() as work:
    with open(os.path.join(work, "gpt.json"), "w", encoding="utf-8") as file:
        json.dump(GPT, file)
    picture, rows = curves(work, "--num-epochs", "2", "--learning-rate", "1e-2", "--num-gpus", "2")
    losses = rows[1]
    best = min(losses, key=lambda row: row[1])
    check({"gpt on train.json", "step", "epoch 1", "epoch 2", "loss (nats per token)",
           f"training: {rows[0][-1][1]:.4f} at step {rows[0][-1][0]}",
           f"validation: lowest {best[1]:.4f} at step {best[0]}",
           "8 samples of 8 tokens per step, 2 ranks, f32, learning rate 0.01"}
          <= set(picture.words), f"{picture.words}")
    picture, rows = curves(work, "--max-steps", "1")
    check(len(picture.dots) == 2 and "epoch 1" not in picture.words, f"one step: {picture.words}")
    # Each step has all 192 samples. With learning rate 0 and no dropout the loss is constant.
    curves(work, "--max-steps", "12", "--batch-size", "192", "--num-epochs", "12", "--skip-eval",
           "--learning-rate", "0", "--dropout", "0")
    curves(work, "--max-steps", "20", "--save-steps", "10", "--skip-eval")
    picture, rows = curves(work, "--max-steps", "30", "--save-steps", "10", "--skip-eval",
                           "--resume")
    check(len(rows[0]) == 30 and len(picture.curves[0]) == 30, "a run that was resumed")
    picture, rows = curves(work, "--num-epochs", "30", "--learning-rate", "1e-2", "--skip-eval",
                           every=3)
    check(len(rows[0]) > 1400 and any("(mean of 3)" in word for word in picture.words),
          f"{len(rows[0])} steps: {picture.words}")
    marks = [word for word in picture.words if word.startswith("epoch")]
    check(marks == [f"epoch {n}" for n in range(5, 31, 5)], f"{marks}")
finish()
