"""Shared by the tests of commands: paths, runs of `syntorch`, and a list of failures that finish()
prints."""
import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

BUILD, SOURCE = os.environ["SYN_BUILD"], os.environ["SYN_SOURCE"]
DATA, TOOLS = os.environ.get("SYN_SHARED_DATA"), os.environ.get("SYN_SHARED_TOOLS")
PROGRAM = os.path.join(BUILD, "syntorch")
ETCHECK_PY = os.path.join(TOOLS or "", "etcheck.py")
failures = []


def check(cond, text):
    if not cond:
        failures.append(text)
    return bool(cond)


def finish():
    for text in failures[:60]:
        print("FAILED:", text[:2000])
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def enter_folder():
    """Creates a temporary folder and makes it the current folder. It is removed when the test
    ends."""
    folder = tempfile.mkdtemp(prefix="syntorch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chdir(folder)
    return folder


def run(*args, **kwargs):
    return subprocess.run([PROGRAM, *args], capture_output=True, timeout=500, check=False, **kwargs)


# ---- etcheck.py, an independent checker and decoder of execution traces ----


def run_etcheck(*args):
    return subprocess.run([sys.executable, ETCHECK_PY, *args], capture_output=True, text=True,
                          check=False)


def load_etcheck():
    """Returns etcheck.py as a module, or None if it does not exist."""
    if not TOOLS or not os.path.exists(ETCHECK_PY):
        return None
    spec = importlib.util.spec_from_file_location("etcheck", ETCHECK_PY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
