"""Tests ./dev profile-all: its table agrees with the files that this run wrote, in any output
folder, and failures are reported. A script in place of the pretrain program replaces the models by
small ones."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish  # noqa: E402
from execution_trace import COLL, COMP, read_et  # noqa: E402

SMALL = """#!/usr/bin/env bash
words=()
for word; do
    case $word in
    gpt2) word=$SOURCE/examples/configs/gpt2-mini.json ;;
    bert-base-uncased) word=$SOURCE/examples/tiny-bert/config.json ;;
    --model) word=--model-config ;;
    esac
    words+=("$word")
done
"$BUILD/pretrain" "${words[@]}" --max-seq-length 32 || exit
eval "${AFTER:-}"
"""
NAMES = [f"{model}_{ranks}gpu_quick_trace.{rank}" for model in ("gpt2", "bert")
         for ranks in (1, 2, 4) for rank in range(ranks)]


def profile(clone, *options, after=""):
    """Returns the exit status, the columns of the table by the name of the trace, and the text on
    standard error. after: shell command that runs after each run of pretrain."""
    done = subprocess.run(["./dev", "profile-all", *options], cwd=clone, capture_output=True,
                          text=True, check=False, timeout=500,
                          env={**os.environ, "SOURCE": SOURCE, "BUILD": BUILD, "AFTER": after})
    head, *lines = done.stdout.splitlines() or [""]
    check(not lines or head.split()[4:] == ["nodes", "comm", "comm", "bytes", "Gflop", ".et",
                                            "kineto", "host", "PyTorch's", "step", "ms",
                                            "verdict"], head)
    return done.returncode, {line.split()[0]: line.split(None, 10)[1:] for line in lines}, \
        done.stderr


def expected(path, model, ranks):
    """Returns the columns of a trace, computed from the files by other means."""
    with open(path + ".et", "rb") as f:
        _, nodes = read_et(f.read())
    colls = [n for n in nodes if n.type == COLL]
    with open(path + "_kineto.json", encoding="utf-8") as f:
        steps = [e["dur"] for e in json.load(f)["traceEvents"]
                 if e["name"].startswith("ProfilerStep#")]
    flops = sum(n.attr.get("num_ops", 0) for n in nodes if n.type == COMP)
    sizes = [os.path.getsize(path + ending) / 1e6 for ending in (".et", "_kineto.json",
                                                                 "_host.json")]
    limit = {("gpt2", "1"): 8.6, ("gpt2", "2"): 9.6, ("gpt2", "4"): 9.6, ("bert", "1"): 10}
    return [len(nodes), len(colls), sum(n.attr["comm_size"] for n in colls), flops // 10**9,
            *sizes, limit.get((model, ranks), 12), sum(steps) / len(steps) / 1000]


def check_rows(what, rows, folder):
    for name, row in rows.items():
        model, ranks = name.split("_")[0], name.split("_")[1][0]
        want = expected(os.path.join(folder, name), model, ranks)
        check(all(abs(float(a) - b) <= 0.0021 for a, b in zip(row, want)) and len(row) == 10,
              f"{what}, {name}: {row}, not {want}")
        check(row[9] == "valid", f"{what}, {name}: {row}")


def folders(clone):
    """Writes into a folder that has a space in its name and contains files of other runs, twice,
    with both names of the option."""
    folder = os.path.join(clone, "a folder")
    os.mkdir(folder)
    for name in ("old_quick_trace.0.et", "gpt2_2gpu_quick_trace.7.et"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write("of another time")
        os.utime(f.name, (1e9, 1e9))
    for options in (["--out-dir=a folder"], ["--trace_output_dir", "a folder"]):
        code, rows, said = profile(clone, "--device", "meta", *options)
        check(code == 0 and sorted(rows) == sorted(NAMES), f"{options}: {code}, {rows}, {said}")
        check_rows(options, rows, folder)
    with open(os.path.join(folder, "old_quick_trace.0.et"), encoding="utf-8") as f:
        check(f.read() == "of another time", "it changed")


def cycles(clone):
    """The table is also right on the CPU, with tensor-parallel ranks and cycles of several
    steps."""
    code, rows, said = profile(clone, "--tp", "2", "--trace-repeat", "2", "--trace-active-steps",
                               "2", "--max-steps", "6", "--batch-size", "2")
    names = [name.replace(".", f"_step{step}.") for name in NAMES if "_1gpu" not in name
             for step in (3, 6)]
    check(code == 0 and sorted(rows) == sorted(names), f"{code}: {rows}, {said}")
    check(said.count("left out, for --tp 2 ranks share each layer") == 2, said)
    check_rows("cycles", rows, os.path.join(clone, "outputs"))


def failures(clone):
    for options, sentence in ((["--tp", "8"], "dev: --tp 8: profile-all runs 1, 2 and 4 ranks"),
                              (["--tp=x"], "dev: --tp x: "),
                              (["--num-gpus=2"], "--num-gpus is not for it"),
                              (["--max-steps", "1"], "gpt2 with --num-gpus 1 failed")):
        code, rows, said = profile(clone, "--device", "meta", *options)
        check(code == 1 and not rows and sentence in said, f"{options}: {code}, {rows}, {said}")
    code, rows, said = profile(clone, "--device", "meta",
                               after='[[ "$*" != *bert_2gpu* ]] || exit 3')
    check(code == 1 and not rows and "bert-base-uncased with --num-gpus 2 failed" in said,
          f"{code}: {rows}, {said}")
    bad = "outputs/bert_4gpu_quick_trace.3"
    for after, verdict in ((f"[ ! -f {bad}.et ] || printf x >>{bad}.et", "invalid"),
                           (f"[ ! -f {bad}_host.json ] || truncate -s 12M {bad}_host.json",
                            "valid, too large")):
        code, rows, said = profile(clone, "--device", "meta", after=after)
        check(code == 1 and [name for name, row in rows.items() if row[9] != "valid"] ==
              [os.path.basename(bad)] and rows[os.path.basename(bad)][9] == verdict,
              f"{verdict}: {code}, {rows}, {said}")


with tempfile.TemporaryDirectory(prefix="syntorch-profile-") as work:
    shutil.copy2(os.path.join(SOURCE, "dev"), work)
    for name in ("CMakeLists.txt", "cmake", "syntorch", "ops", "comm", "models", "export", "tools",
                 "examples"):
        os.symlink(os.path.join(SOURCE, name), os.path.join(work, name))
    os.mkdir(os.path.join(work, "build"))
    os.symlink(os.path.join(BUILD, "syntorch"), os.path.join(work, "build", "syntorch"))
    with open(os.path.join(work, "build", "pretrain"), "w", encoding="utf-8") as program:
        program.write(SMALL)
    os.chmod(program.name, 0o755)
    with open(os.path.join(work, "build", ".built"), "w", encoding="utf-8"):
        pass
    folders(work)
    cycles(work)
    failures(work)
finish()
