"""Tests examples/train_mlp.c and train_gpt.c: their losses fall, and are the same on one rank, on
ranks that are threads and on ranks over MPI."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish  # noqa: E402

MLP, GPT = (os.path.join(BUILD, name) for name in ("train_mlp", "train_gpt"))
MPIRUN = shutil.which("mpirun")


def output(*command):
    with tempfile.TemporaryDirectory() as folder:  # train_gpt writes a picture
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False,
                              cwd=folder)
        if GPT in command and done.returncode == 0:
            check(os.path.getsize(os.path.join(folder, "train_gpt.svg")) > 10000, "no picture")
        return done


def losses(*command):
    """Returns (step, loss) of each line. If the program fails or prints anything else, records a
    failure and returns an empty list."""
    done = output(*command)
    text = f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    lines = [re.fullmatch(r"step (\d+): loss (\d+\.\d{6})", line)
             for line in done.stdout.splitlines()]
    if not check(done.returncode == 0 and len(lines) == 5 and all(lines), text):
        return []
    return [(int(line[1]), float(line[2])) for line in lines]


def close(got, want, tolerances):
    return len(got) == len(want) and all(
        a[0] == b[0] and abs(a[1] - b[1]) <= t * b[1] for a, b, t in zip(got, want, tolerances))


def launcher(n):
    open_mpi = "Open MPI" in output(MPIRUN, "--version").stdout
    return [MPIRUN, *(["--allow-run-as-root", "--oversubscribe"] if open_mpi else []), "-n", n]


def compare(program, steps, tolerances, ranks):
    """Checks that the losses fall and are the same with other ranks. tolerances: relative
    difference by line. ranks: arguments, and the number of MPI processes or None. Returns the
    losses of one rank."""
    one = losses(program)
    check([step for step, _ in one] == steps, f"steps of {one}")
    check(one and one[-1][1] < one[0][1] / 2, f"the losses do not fall: {one}")
    with_mpi = MPIRUN and "this build has no MPI" not in output(*launcher("2"), MLP).stderr
    for arguments, n in ranks:
        got = losses(program, *arguments)
        check(close(got, one, tolerances), f"{program} {arguments}: {got}, not {one}")
        if n is None:
            continue
        if not with_mpi:
            print("not over MPI: there is none")
            continue
        got = losses(*launcher(n), program, *arguments)
        check(close(got, one, tolerances), f"{program} {arguments} over MPI: {got}, not {one}")
    return one


compare(MLP, [10, 20, 30, 40, 50], [1e-4] * 5, [(["1"], None), (["2"], "2"), (["4"], "4")])
# Differences by rounding grow with the number of steps.
wide = compare(GPT, [20, 40, 60, 80, 100], [1e-4, 1e-3, 1e-2, 1e-2, 1e-2],
               [(["1", "1"], None), (["2", "1"], "2"), (["1", "2"], None), (["2", "2"], "4")])
# The tolerances grow because rounding has more effect once the model knows a part of the poem.
for shape in (["1", "1"], ["2", "2"]):
    half = losses(GPT, *shape, "bf16")
    check(close(half, wide, [0.02, 0.03, 0.1, 0.15, 0.25]), f"bf16 {shape}: {half}, not {wide}")
finish()
