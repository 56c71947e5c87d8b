"""examples/train_mlp.c: one rank, ranks as threads and ranks over MPI print the same losses, which
fall."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish  # noqa: E402

PROGRAM = os.path.join(BUILD, "train_mlp")
MPIRUN = shutil.which("mpirun")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def losses(*command):
    """(step, loss) of each line; complains and gives none if it fails or prints anything else."""
    done = output(*command)
    text = f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    lines = [re.fullmatch(r"step (\d+): loss (\d+\.\d{6})", line)
             for line in done.stdout.splitlines()]
    if not check(done.returncode == 0 and len(lines) == 5 and all(lines), text):
        return []
    return [(int(line[1]), float(line[2])) for line in lines]


def close(got, want):
    return len(got) == len(want) and all(
        a[0] == b[0] and abs(a[1] - b[1]) <= 1e-4 * b[1] for a, b in zip(got, want))


def launcher(n):
    open_mpi = "Open MPI" in output(MPIRUN, "--version").stdout
    return [MPIRUN, *(["--allow-run-as-root", "--oversubscribe"] if open_mpi else []), "-n", n]


one = losses(PROGRAM)
check([step for step, _ in one] == [10, 20, 30, 40, 50], f"steps of {one}")
check(one and one[-1][1] < one[0][1] / 2, f"the losses do not fall: {one}")
for n in ("1", "2", "4"):
    got = losses(PROGRAM, n)
    check(close(got, one), f"{n} ranks in threads: {got}, not {one}")
if MPIRUN and "this build has no MPI" not in output(*launcher("2"), PROGRAM).stderr:
    for n in ("2", "4"):
        got = losses(*launcher(n), PROGRAM)
        check(close(got, one), f"{n} ranks over MPI: {got}, not {one}")
else:
    print("not over MPI: there is none")
finish()
