"""examples/two_halves.c, own_op.c and own_model.c: what they say and what they write."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish, run  # noqa: E402
from execution_trace import read_et  # noqa: E402

NAMES = ("two_halves", "own_op", "own_model")
folder = tempfile.mkdtemp()


def example(name, *args, ends=0):
    done = subprocess.run([os.path.join(BUILD, name), *args], capture_output=True, text=True,
                          timeout=300, check=False, cwd=folder)
    check(done.returncode == ends, f"{name} {args}: exit {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def text(name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return f.read()


for name in NAMES:  # small enough to be read
    with open(os.path.join(SOURCE, "examples", name + ".c"), encoding="utf-8") as f:
        lines = len(f.readlines())
    check(lines <= 60, f"examples/{name}.c has {lines} lines")

for ranks in (2, 3, 8):
    said = example("two_halves", str(ranks))
    check(f"{ranks} ranks have 20160 bytes each, and {20160 // ranks} of them" in said and
          said.endswith("differ by 0\n"), said)
check("two ranks" in example("two_halves", "1", ends=1), "one rank is refused")

check("are those of the formulas" in example("own_op"), "own_op")
drawn = text("own_op.svg")
check("squared_silu" in drawn and "silu_grad" in drawn, "own_op.svg lacks its op or its gradient")

T, C, CLASSES, WORDS = 512, 1024, 16, 32000
for ranks in (1, 2, 4, 16):
    example("own_model", str(ranks))
    for rank in range(ranks):
        with open(os.path.join(folder, f"own_model.{rank}.et"), "rb") as f:
            nodes = read_et(f.read())[1]
        sizes = [n.attr["comm_size"] for n in nodes if "comm_size" in n.attr]
        # the table's rows and the MLP's sums are added, the logits' columns gathered
        want = [T * C * 4, T * C * 4, T * CLASSES // ranks * 4] if ranks > 1 else []
        check(sizes == want, f"own_model {ranks}: rank {rank} exchanges {sizes}, not {want}")
    if ranks > 1:
        done = run("validate", os.path.join(folder, "own_model"))
        check(done.returncode == 0, f"own_model {ranks}: {done.stdout}{done.stderr}")
check("RANKS is 1 to 16" in example("own_model", "17", ends=1), "17 ranks are refused")
shutil.rmtree(folder)
finish()
