"""Installs the Python package with pip in a new virtual environment, as a user does, and runs what
the README promises. No package is downloaded."""
import os
import subprocess
import sys
import tempfile

from checks import SOURCE, check, finish

try:
    import cffi  # noqa: F401
    import ensurepip  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

folder = tempfile.mkdtemp()
environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
environment["PIP_NO_INDEX"] = "1"
python = os.path.join(folder, "venv", "bin", "python")


def run(*command):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if not check(done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-2000:]}"):
        finish()
    return done.stdout


run(sys.executable, "-m", "venv", "venv")
run(python, "-m", "pip", "install", "-q", os.path.join(SOURCE, "python"))
out = run(python, "-c", "import syntorch; t = syntorch.trace('gpt2', tp=2, hw='h100'); "
          "print(t.ops().head()); t.save('x.et')")
check("all_reduce" in out and len(out.splitlines()) == 6, out)
check(sorted(f for f in os.listdir(folder) if f.startswith("x.")) ==
      ["x.0.et", "x.1.et", "x.comm_group.json"], os.listdir(folder))
check(run(python, "-c", "import syntorch; print(syntorch.__version__)") ==
      run(os.path.join(folder, "venv", "bin", "syntorch"), "--version").split()[1] + "\n",
      "the versions of the package and of its program")
run(python, "-c", "import syntorch; syntorch.pretrain(max_steps=1, max_seq_length=16)")
listed = run(python, "-m", "pip", "list", "--format=freeze")
check(all(line.split("==")[0] in ("pip", "setuptools", "syntorch") for line in
          listed.splitlines()), listed)
finish()
