"""Tests the recipes of docs/extending.md. Applies the changes of each recipe to a copy of the
sources and runs the `./dev test` commands that the page shows. This builds most of the project and
takes minutes, so it is separate from test_docs.py, which only applies and compiles the changes. If
a recipe has no changes, the tests that it names must exist.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
import docs_pages as dp  # noqa: E402
from checks import BUILD, SOURCE, check, finish  # noqa: E402

PAGE = "docs/extending.md"


def recipes():
    """Yields (title, changes, command) for each section that ends with tests."""
    with open(os.path.join(SOURCE, PAGE), encoding="utf-8") as f:
        sections = re.split(r"^(?=##)", f.read(), flags=re.M)
    for section in sections:
        parts = dp.contents(PAGE, section)[0]
        changes = [p.text for p in parts if isinstance(p, dp.Code) and p.language == "diff"]
        commands = [p.text for p in parts if p.text.startswith("./dev test -R")]
        if commands:
            yield section.split("\n")[0].strip("# "), changes, commands[0]


def run(folder, words, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "SYN", "PYTHON"))}
    return subprocess.run(words, cwd=folder, env=env, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)


def passes(folder, title, command):
    """Runs the command and returns the names of the tests that passed."""
    done = run(folder, ["bash", "-c", command])
    passed = re.findall(r"Test +#\d+: (\S+) .*Passed", done.stdout)
    if check(done.returncode == 0 and passed, f"{title}: {command}: {done.stdout[-3000:]}"):
        print(f"{title}: {len(passed)} tests pass")
    return passed


def look_up(title, command):
    words = re.search("'(.*)'", command).group(1)
    done = run(BUILD, ["ctest", "-N", "-R", words])
    names = re.findall(r"Test +#\d+: (\S+)", done.stdout)
    missing = [w for w in re.findall(r"\w+(?:\.py)?", words.split("(")[1])
               if "test_" + w not in names]
    check(names and not missing, f"{title}: no tests {missing}")


def main():
    passed, known = [], list(recipes())
    with tempfile.TemporaryDirectory(prefix="syntorch-recipes-") as parent:
        folder = os.path.join(parent, "syntorch")
        shutil.copytree(SOURCE, folder,
                        ignore=lambda at, names: {"build", ".git"} & set(names)
                        if at == SOURCE else set())
        for title, changes, _ in known:
            for change in changes:
                done = run(folder, ["patch", "-p1", "--fuzz=0", "--batch"], input=change)
                check(done.returncode == 0, f"{title}: {done.stdout}")
        for title, changes, command in known:
            if changes:
                passed += passes(folder, title, command)
            else:
                look_up(title, command)
    for name in ("test_csv", "test_gradients", "test_rows", "test_ops_pointwise"):
        check(name in passed, f"no recipe runs {name}")
    check(any(name.startswith("cuda_") for name in passed), "no recipe runs CUDA's tests")


main()
finish()
