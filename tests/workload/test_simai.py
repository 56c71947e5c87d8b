#!/usr/bin/python3
"""Tests `syntorch export --format simai`. Runs the layers as SimAI's Workload.cc does (the forward
parts in order, then the backward parts in reverse order), and compares the sequence with the nodes
of the trace."""
import glob
import json
import os
import re
import subprocess

from checks import BUILD, check, enter_folder, finish, run
from execution_trace import COLL, COMP, SEND, read_et

KINDS = {0: "ALLREDUCE", 2: "ALLGATHER", 6: "ALLTOALL", 7: "REDUCESCATTER"}
COLUMNS = {"tp": "", "dp": "", "gather": "_EP", "shard": "_EP", "replicas": "_DP_EP"}
SMALL = ["--model", "gpt3-125m", "--layers", "2", "--micro-batch", "1"]


def synth(*options):
    length = [] if "--phase" in options else ["--max-seq-length", "64"]
    subprocess.run([os.path.join(BUILD, "synth"), *SMALL, *length, *options, "--out", "t",
                    "--quiet"], check=True, timeout=300)


def workload(rank):
    """Returns the header, the lines of the layers as words, and the output of the command."""
    done = run("export", "--input", f"t.{rank}.et", "--format", "simai", "--output", "w.simai.txt",
               text=True)
    check(done.returncode == 0, done.stderr)
    with open("w.simai.txt", encoding="utf-8") as f:
        first, count, *lines = f.read().splitlines()
    words = first.split()
    check(words[0] == "HYBRID_TRANSFORMER_FWD_IN_BCKWD" and int(count) == len(lines), first)
    header = {words[i][:-1]: int(words[i + 1]) for i in range(1, len(words), 2)}
    rows = [line.split() for line in lines]
    check(all(len(r) == 12 and r[1] == "-1" for r in rows), f"{lines[0]} has other words")
    return header, rows, done.stdout


def run_layers(rows):
    """The collectives of each column (0: forward, 1: backward, 2: beside) in the order in which
    SimAI issues them, as (time of the computation before it, name, bytes)."""
    out, ns = ([], [], []), 0
    for column, row in [(0, r) for r in rows] + [(1, r) for r in reversed(rows)]:
        for c in [0] if column == 0 else [1, 2]:
            ns += int(row[2 + 3 * c])
            if row[3 + 3 * c] != "NONE":
                out[c].append((ns, row[3 + 3 * c], int(row[4 + 3 * c])))
    return out, ns


def trace(rank):
    """The same from the nodes of the trace, then the collectives of other groups, and the bytes of
    the largest message. The forward pass, whose nodes have no phase, comes first, as in SimAI; data
    parallel collectives belong to the backward pass."""
    with open(f"t.{rank}.et", "rb") as f:
        nodes = read_et(f.read())[1]
    with open("t.comm_group.json", encoding="utf-8") as f:
        groups = json.load(f)
    out, ns, others = ([], [], []), 0, []
    for column, n in [(c, n) for c in range(2) for n in nodes]:
        forward = "phase" not in n.attr
        if n.type == COMP and forward == (column == 0):
            ns += n.attr["predicted_ns"]
        if n.type != COLL:
            continue
        group = re.match("[a-z]+", n.attr["pg_desc"])[0]
        kind, size = n.attr["comm_type"], n.attr["comm_size"]
        if group not in COLUMNS or kind not in KINDS:
            others += [(kind, size)] if column == 0 else []
            continue
        if kind == 2:
            size *= len(groups[n.attr["pg_name"]])
        beside = group in ("dp", "replicas")
        if column == (0 if forward and not beside else 1):
            out[2 if beside else column].append((ns, KINDS[kind] + COLUMNS[group], size))
    return out, ns, others, max([n.attr["comm_size"] for n in nodes if n.type == SEND], default=0)


def layouts():
    for options, degrees, rank in [
            ("--tp 2 --dp 2 --global-batch 8", {"model_parallel_NPU_group": 2, "ga": 4}, 3),
            ("--tp 2 --dp 2 --pp 2 --sp --zero 1 --global-batch 6",
             {"model_parallel_NPU_group": 2, "pp": 2, "ga": 3}, 0),
            ("--pp 2 --global-batch 4 --schedule zb-h1", {"pp": 2, "ga": 4}, 1),
            ("--layers 4 --pp 2 --vp 2 --schedule interleaved --global-batch 4",
             {"pp": 2, "vpp": 2, "ga": 4}, 0),
            ("--dp 4 --zero 3", {"ep": 4}, 0),
            ("--tp 2 --dp 4 --zero 3 --hsdp 2", {"model_parallel_NPU_group": 2, "ep": 2}, 5),
            ("--tp 2 --sp --activation-recompute full", {"model_parallel_NPU_group": 2}, 0),
            ("", {}, 0)]:
        synth(*options.split())
        header, rows, printed = workload(rank)
        (want, ns, others, message) = trace(rank)
        got, total = run_layers(rows)
        want_header = {"model_parallel_NPU_group": 1, "ep": 1, "pp": 1, "vpp": 1, "ga": 1,
                       "all_gpus": 1, "checkpoints": 0, "checkpoint_initiates": 0,
                       "pp_comm": message, **degrees}
        want_header["all_gpus"] = len(glob.glob("t.*.et"))
        check(header == want_header, f"{options}: {header}, not {want_header}")
        check(total == ns, f"{options}: {total} ns of computation, not {ns}")
        for column in range(3):
            check(got[column] == want[column],
                  f"{options}, column {column}: {got[column][:4]}, not {want[column][:4]}")
        left = sum(int(n) for n in re.findall(r"left out.*: (\d+) ", printed))
        check(left == len(others), f"{options}: {left} collectives are left out, not {others}")


def names_and_layers():
    """Forward and backward of a module share a line, and a name is one word."""
    synth("--tp", "2", "--global-batch", "2")
    rows = workload(0)[1]
    both = [r[0] for r in rows if r[2] != "0" and r[5] != "0"]
    for scope in ("h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp"):
        check(both.count(scope) >= 2, f"{scope} is in {both.count(scope)} lines of both passes")


def errors():
    synth("--tp", "2", "--phase", "prefill", "--num-input-tokens", "8")
    done = run("export", "--input", "t.0.et", "--format", "simai", "--output", "x", text=True)
    check(done.returncode == 1 and "no backward pass" in done.stderr, done.stderr)
    synth("--pp", "2", "--schedule", "dualpipe", "--global-batch", "4")
    done = run("export", "--input", "t.0.et", "--format", "simai", "--output", "x", text=True)
    check(done.returncode == 1 and "dualpipe each rank has two" in done.stderr, done.stderr)
    synth("--tp", "2")
    done = run("export", "--input", "t.0.et", "--all_ranks", "--format", "simai", "--output", "x",
               text=True)
    check(done.returncode == 2 and "one rank" in done.stderr, done.stderr)
    run("json", "--input", "t.0.et", "--output", "t.json")
    with open("t.json", encoding="utf-8") as f:
        text = f.read()
    for was, now, message in [('"tp","stringVal":"2"', '"tp","stringVal":"3"', "do not make 2"),
                              ('"tp","stringVal":"2"', '"cp","stringVal":"2"',
                               "has no context parallelism (cp 2)"),
                              ("predicted_ns", "guessed_ns", "needs times")]:
        changed = re.sub(r"\s+", "", text).replace(was, now)
        if "ns" in was:
            changed = re.sub(r'"durationMicros":"\d+"', '"durationMicros":"0"', changed)
        check(was not in changed and now in changed, f"the JSON has no {was}")
        with open("u.json", "w", encoding="utf-8") as f:
            f.write(changed)
        run("json", "--input", "u.json", "--output", "u.0.et")
        done = run("export", "--input", "u.0.et", "--format", "simai", "--output", "x", text=True)
        check(done.returncode == 1 and message in done.stderr, f"{message}: {done.stderr}")
    check(not os.path.exists("x"), "a failed export left a file")


enter_folder()
layouts()
names_and_layers()
errors()
finish()
