"""Pipelines and sequence parallelism of the pretraining program: the losses and parameters of one
rank for every schedule, on threads and over MPI; checkpoints that resume in another layout; counts
of collectives; and predictions of a step, whose bubble is compared with the closed formulas of
Narayanan et al. 2021."""
import csv
import json
import os
import re
import sys
import tempfile
from xml.etree import ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, finish  # noqa: E402
from pretrain_runs import (GPT, MPIRUN, RESUMED_STEPS, Runs, as_one_rank, launcher,  # noqa: E402
                           losses, resumed_as, stage_bytes)

# All have four microbatches of two samples per step in total.
LAYOUTS = [
    "--num-gpus 2 --pp 2 --gradient-accumulation-steps 4",
    "--num-gpus 4 --pp 4 --gradient-accumulation-steps 4 --schedule gpipe",
    "--num-gpus 4 --pp 2 --gradient-accumulation-steps 2 --schedule zb-h1",
    "--num-gpus 2 --pp 2 --gradient-accumulation-steps 4 --schedule interleaved --vp 2",
    "--num-gpus 8 --tp 2 --pp 2 --gradient-accumulation-steps 2 --activation-recompute full",
    "--num-gpus 4 --tp 4 --sp --gradient-accumulation-steps 4",
    "--num-gpus 8 --tp 2 --pp 2 --sp --gradient-accumulation-steps 2 --schedule zb-h1",
    "--num-gpus 4 --tp 2 --pp 2 --gradient-accumulation-steps 4 --schedule interleaved --vp 2"
    " --microbatch-group 4 --activation-recompute selective",
]


def resumed_in_another_layout(runs):
    """A checkpoint of one layout resumes in another, as if the run had not been interrupted; in the
    same layout, bit for bit."""
    shapes = ["--gradient-accumulation-steps 4",
              "--num-gpus 2 --tp 2 --gradient-accumulation-steps 4",
              *LAYOUTS[3:]]
    for i, shape in enumerate(shapes):
        whole, _ = runs.train("gpt4", *RESUMED_STEPS, "--max-steps", "4", *shape.split())
        _, folder = runs.train("gpt4", *RESUMED_STEPS, "--max-steps", "2", *shape.split())
        for other in (shape, shapes[(i + 1) % len(shapes)], shapes[(i + 2) % len(shapes)]):
            resumed_as(runs, folder, whole, other, other == shape)


def collectives(runs):
    """Counts the collectives of sequence parallelism. Per layer and microbatch: 2 all-gathers and 2
    reduce-scatters in forward; 4 and 2 in backward, where 2 all-gathers compute the inputs of the
    sharded layers again (Korthikanti et al. 2022, section 4.2.2). --sp-keep omits these."""
    layers, microbatches = 4, 3
    for keep in ([], ["--sp-keep"]):
        done = runs.start("--device", "meta", "--model-config", "llama4.json", "--num-gpus", "2",
                          "--tp", "2", "--sp", *keep, "--gradient-accumulation-steps",
                          str(microbatches), "--max-seq-length", "64", "--enable-tracing",
                          "--visualize_trace", "--out-dir", "sp")
        check(done.returncode == 0, done.stderr)
        with open(runs.path("sp/trace_graph.json"), encoding="utf-8") as f:
            ops = [n for n in json.load(f)["nodes"] if n["type"] == "op" and n["rank"] == 0]
        for comm, phase, want in (("all_gather", "forward", 2), ("reduce_scatter", "forward", 2),
                                  ("all_gather", "backward", 2 if keep else 4),
                                  ("reduce_scatter", "backward", 2)):
            got = sum(n.get("comm") == comm and n["phase"] == phase and n["layer"] >= 0
                      for n in ops)
            check(got == want * layers * microbatches, f"{keep} {phase} {comm}: {got}")
        summed = [n for n in ops if n["scope"].startswith("sequence_parallel")]
        check(len(summed) == 1 and summed[0]["comm"] == "all_reduce", f"{keep}: {summed}")


def predicted(runs, *options):
    done = runs.start("--device", "meta", "--json", "--model-config", "wide.json", "--batch-size",
                      "4", "--max-seq-length", "1024", "--dropout", "0", *options)
    check(done.returncode == 0, f"{options}: {done.stderr}")
    return json.loads(done.stdout)


def predictions(runs):
    """A prediction records one rank of each stage and a few microbatches. A trace has all ranks and
    microbatches and gives the same time. With equal stages, the bubble is (p - 1) / (v m + p - 1)
    of the time (Narayanan et al. 2021)."""
    with open(runs.path("wide.json"), "w", encoding="utf-8") as f:
        json.dump({**GPT, "n_layer": 8, "n_embd": 2048, "n_head": 16, "vocab_size": 512,
                   "n_positions": 1024}, f)
    for layout in ("--num-gpus 4 --pp 4 --gradient-accumulation-steps 8",
                   "--num-gpus 4 --pp 4 --gradient-accumulation-steps 31 --schedule gpipe",
                   "--num-gpus 8 --tp 2 --pp 2 --gradient-accumulation-steps 16 --schedule zb-h1",
                   "--num-gpus 4 --pp 4 --gradient-accumulation-steps 32 --schedule interleaved"
                   " --vp 2"):
        said = predicted(runs, *layout.split())
        traced = predicted(runs, *layout.split(), "--enable-tracing")
        for key in ("predicted_step_ns", "memory"):
            a, b = said[key], traced[key]
            same = a == b if key == "memory" else abs(a - b) < 1e-6 * b
            check(same, f"{layout}: {key}: {a} and {b}")
        check(sum(v for k, v in said["step_limits"].items() if k != "utilisation") - 1 < 1e-9,
              f"{layout}: {said}")
        p, m, v = said["pp"], said["gradient_accumulation_steps"], said["vp"]
        if said["schedule"] != "zb-h1":
            want = (p - 1) / (v * m + p - 1)
            got = said["step_limits"]["bubble"]
            check(abs(got - want) < 0.02, f"{layout}: bubble {got}, formula {want}")
        check(len(stage_bytes(said)) == p
              and max(stage_bytes(said)) == said["memory"]["peak_bytes"], f"{said}")


def chart(runs):
    """The Gantt chart has the passes of each stage in the order of Megatron-LM's 1F1B schedule
    (core/pipeline_parallel/schedules.py): stage i of p starts with p - 1 - i forward passes, then
    runs forward and backward passes alternately. For GPipe: all forward passes first. ZB-H1 splits
    off weight gradients, each after the input gradients of its microbatch."""
    stages, microbatches = 4, 6
    for schedule in ("1f1b", "gpipe", "zb-h1"):
        done = runs.start("--device", "meta", "--model-config", "gpt4.json", "--num-gpus", "4",
                          "--pp", str(stages), "--schedule", schedule, "--max-seq-length", "64",
                          "--gradient-accumulation-steps", str(microbatches), "--enable-tracing",
                          "--visualize_trace", "--out-dir", "chart")
        check(done.returncode == 0, done.stderr)
        with open(runs.path("chart/trace_gantt.svg"), encoding="utf-8") as f:
            svg = ElementTree.parse(f).getroot()
        rows = {}
        for box in svg.iter("{http://www.w3.org/2000/svg}rect"):
            title = box.find("{http://www.w3.org/2000/svg}title")
            if title is not None and not title.text.startswith("optimizer"):
                kind, number = re.match(r"([a-z ]+) (\d+),", title.text).groups()
                rows.setdefault(int(box.get("y")), []).append((kind, int(number)))
        check(len(rows) == stages, f"{schedule}: {rows}")
        for stage, y in enumerate(sorted(rows)):
            row = rows[y]
            warmup = {"gpipe": microbatches}.get(schedule, stages - 1 - stage)
            order = [("forward", i + 1) for i in range(warmup)]
            for i in range(microbatches):
                order += [("forward", warmup + i + 1)] * (warmup + i < microbatches)
                order.append(("backward", i + 1))
            check([x for x in row if x[0] != "weight gradients"] == order,
                  f"{schedule}, stage {stage}: {row}")
            late = [n for kind, n in row if kind == "weight gradients"]
            check(late == sorted(late) and (bool(late) == (schedule == "zb-h1" and stage > 0))
                  and all(row.index(("backward", n)) < row.index(("weight gradients", n))
                          for n in late), f"{schedule}, stage {stage}: {row}")


def swept(runs):
    """A sweep over layouts gives the times of single predictions."""
    done = runs.start("--model-config", "wide.json", "--batch-size", "1", "--max-seq-length",
                      "1024", "--gradient-accumulation-steps", "8", "--sweep", "num_gpus=8",
                      "tp=2", "pp=1,2", "sp=0,1", "schedule=1f1b,zb-h1", "hw=a100-80g",
                      "--out-dir", "sweep")
    check(done.returncode == 0, done.stderr)
    with open(runs.path("sweep/sweep.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    check(len(rows) == 8 and sum(bool(row["refused"]) for row in rows) == 2, f"{rows}")
    for row in rows:
        if row["refused"]:
            check("at least 2 stages" in row["refused"] and row["pp"] == "1", f"{row}")
            continue
        one = runs.start("--device", "meta", "--json", "--model-config", "wide.json",
                         "--batch-size", "1", "--max-seq-length", "1024",
                         "--gradient-accumulation-steps", "8", "--num-gpus", "8", "--tp", "2",
                         "--pp", row["pp"], "--schedule", row["schedule"], "--hw", "a100-80g",
                         *(["--sp"] if row["sp"] == "1" else []))
        said = json.loads(one.stdout)
        check(abs(float(row["time_ns"]) - said["predicted_step_ns"]) < 1
              and float(row["rank_bytes"]) == said["memory"]["peak_bytes"], f"{row} {said}")


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    threads = [(layout, ()) for layout in LAYOUTS]
    mpi = [(LAYOUTS[-1], launcher("4"))] if MPIRUN else []
    as_one_rank(program, {"gpt4": threads + mpi, "bert4": threads[2:7],
                          "llama4": threads[2:7] + mpi})
    resumed_in_another_layout(program)
    collectives(program)
    predictions(program)
    chart(program)
    swept(program)
finish()
