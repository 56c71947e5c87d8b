"""Runs the calibrate program as two MPI processes. They measure the link between them. If they were
started with different or wrong options, both end with one message, and none waits for the other."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish, run, skip  # noqa: E402
from pretrain_runs import MPIRUN, launcher  # noqa: E402

CALIBRATE = os.path.join(BUILD, "calibrate")
WIDTH = {"read_gb_per_s": 10, "gflop_per_s": {"linear": [[1, 10]]}}
MEASURED = {
    "name": "a-cpu",
    "hardware": {"peak_tflops": {"f32": 0.1}, "memory_gib": 8, "memory_gb_per_s": 10,
                 "node_ranks": 2, "intra": {"alpha_us": 1, "gb_per_s": 10}},
    "stack": {"name": "syntorch", "launch_us": 1, "matmul_efficiency": 1, "memory_efficiency": 1},
    "kernels": {"alone": {"ranks": 1, "launch_us": 1, "memory": [[1, 10]], "f32": WIDTH}}}
GIVEN = ["--measure", "--hw", "cpu.json", "--output", "out.json"]

# Arguments of rank 0 and of rank 1, and the beginning of the only message that calibrate prints
# (None: it prints none). mpirun may print others.
REFUSED = [
    (["--help"], GIVEN, None),
    (GIVEN, ["--help"], "calibrate: rank 1: was started with --help or --version, but rank 0"),
    (GIVEN, ["--measure", "--hw", "none.json"], "calibrate: rank 1: cannot read none.json"),
    ([*GIVEN[:-1], "cpu.json/x"], [*GIVEN[:-1], "cpu.json/x"],
     "calibrate: cannot write cpu.json/x"),
    (["--rows", "rows.csv"], ["--rows", "rows.csv"],
     "calibrate: over MPI only --measure is supported"),
]


def start(folder, first, second):
    one = launcher("1")
    return subprocess.run([*one, CALIBRATE, *first, ":", *one[1:], CALIBRATE, *second],
                          capture_output=True, text=True, timeout=60, check=False, cwd=folder)


def refused(folder):
    for first, second, sentence in REFUSED:
        done = start(folder, first, second)
        ours = [line for line in done.stderr.splitlines() if line.startswith("calibrate: ")]
        check(done.returncode != 0 and
              [line.startswith(sentence or "?") for line in ours] == [True] * bool(sentence),
              f"{first} and {second}: exit {done.returncode}: {done.stderr}")
        check(not os.path.exists(os.path.join(folder, "out.json")), "a file all the same")


def measured(folder):
    done = start(folder, GIVEN, GIVEN)
    check(done.returncode == 0 and done.stdout.count("all-reduces of 2 processes") == 1,
          f"exit {done.returncode}: {done.stdout}{done.stderr}")
    with open(os.path.join(folder, "out.json"), encoding="utf-8") as f:
        intra = json.load(f)["hardware"]["intra"]
    check(intra["gb_per_s"] != 10 and intra["alpha_us"] != 1, f"not measured: {intra}")


if not MPIRUN or b"this build has no MPI" in run("--version").stderr:
    skip("there is no mpirun")
with tempfile.TemporaryDirectory() as where:
    with open(os.path.join(where, "cpu.json"), "w", encoding="utf-8") as f:
        json.dump(MEASURED, f)
    refused(where)
    measured(where)
finish()
