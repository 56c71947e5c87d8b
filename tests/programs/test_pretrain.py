"""Tests `syntorch pretrain`. Losses fall, match PyTorch (tests/reference/pretraining.json) and do
not depend on the number of ranks. inference reads the saved models, and runs survive kills, full
disks and other files in their folders."""
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, finish, run  # noqa: E402
from pretrain_runs import MPIRUN, PRETRAIN, Runs, close, launcher, losses  # noqa: E402
from pretraining_cases import cases, differences, run_case, what  # noqa: E402

INFERENCE = os.path.join(BUILD, "inference")


def same_losses(runs, model):
    """Losses with dropout depend only on the eight samples of a step, not on the number of ranks,
    gradient accumulation or recomputation."""
    steps = ["--max-steps", "12", "--skip-eval"]
    one, _ = runs.train(model, "--batch-size", "8", *steps)
    check(losses(one)[-1] < 0.95 * losses(one)[0], f"{model}: the loss does not fall: {one}")
    for batch, ranks, more in (("4", "2", []), ("2", "4", []), ("4", "4", ["--tp", "2"]),
                               ("2", "2", ["--gradient-accumulation-steps", "2"]),
                               ("8", "1", ["--activation-recompute", "full"])):
        got, _ = runs.train(model, "--batch-size", batch, "--num-gpus", ranks, *more, *steps)
        check(close(losses(got), losses(one)),
              f"{model}, {ranks} ranks {more}: {losses(got)}, not {losses(one)}")
    if not MPIRUN or b"this build has no MPI" in run("--version").stderr:
        print("not over MPI: there is none")
        return
    got, _ = runs.train(model, "--batch-size", "4", "--num-gpus", "2", *steps,
                        launcher=launcher("2"))
    check(close(losses(got), losses(one)), f"{model} over MPI: {losses(got)}, not {losses(one)}")


def as_pytorch(runs):
    """Losses of 200 steps match PyTorch (reference/make_pretraining_fixture.py) up to rounding; the
    tolerance of the first 20 is smaller. In bf16, the difference from f32 losses may be at most 1.5
    times PyTorch's difference."""
    wide = {}
    for i, case in enumerate(cases("pretraining.json")):
        want, name = case["losses"], what(case["options"])
        got, errors = run_case(case["options"], runs.path(f"as_pytorch{i}"))
        if not check(len(got) == 200, f"{name}: {len(got)} losses: {errors}"):
            continue
        off = differences(got, want)
        if "dtype" in case["options"]:
            exact = wide[case["options"]["weights"]]
            ours, theirs = (sum(differences(x, exact)) for x in (got, want))
            check(ours <= 1.5 * theirs, f"{name}: {ours} from f32, PyTorch's {theirs}")
            print(f"{name}: off from f32 by {ours / 200:.1e} a step, PyTorch's by "
                  f"{theirs / 200:.1e}")
            continue
        wide.setdefault(case["options"]["weights"], want)
        check(max(off[:20]) < 3e-6 and max(off) < 3e-5,
              f"{name}: off by {max(off[:20])}, {max(off)}: {got[:3]}, not {want[:3]}")
        print(f"{name}: off by {max(off[:20]):.1e} in 20 steps, {max(off):.1e} in 200")


def tensors(path):
    """Returns the bytes of each tensor of a safetensors file, by name."""
    with open(path, "rb") as f:
        data = f.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    return {name: data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]
            for name, t in json.loads(data[8:begin]).items() if name != "__metadata__"}


def exact_masters(runs):
    """With --dtype bf16, the f32 master weights are taken from an f32 checkpoint without rounding.
    A step with learning rate 0 does not change them, so the test finds them in the next
    checkpoint."""
    _, folder = runs.train("gpt", "--max-steps", "3", "--skip-eval")
    begin = os.path.join(folder, "last_model")
    exact = {name.removeprefix("transformer."): data
             for name, data in tensors(os.path.join(begin, "model.safetensors")).items()}
    for i, layout in enumerate(("", "--num-gpus 2 --tp 2", "--num-gpus 2 --zero 1",
                                "--num-gpus 2 --zero 3")):
        folder = runs.path(f"masters{i}")
        done = runs.start("--weights", begin, "--dtype", "bf16", "--learning-rate", "0",
                          "--max-steps", "1", "--save-steps", "1", "--skip-eval", "--save-dir",
                          folder, "--max-seq-length", "32", *layout.split())
        check(done.returncode == 0, done.stderr)
        ranks = [tensors(os.path.join(folder, "checkpoint-1", f"training-{rank}.safetensors"))
                 for rank in range(2 if layout else 1)]
        saved = {name for rank in ranks for name in rank if name.endswith(".master")}
        check(len(saved) == len(exact), f"{layout}: {saved}")
        for name in saved:
            want = exact[name.removesuffix(".master").removeprefix("transformer.")]
            parts = [rank[name] for rank in ranks if name in rank]
            whole = parts[0] == want if len(parts[0]) == len(want) else (
                sorted(words(b"".join(parts))) == sorted(words(want)))
            check(whole, f"{layout}: {name} was rounded")
    check(any(word[:2] != b"\0\0" for data in exact.values() for word in words(data)),
          "they are of bf16 anyway")


def words(data):
    return [data[i:i + 4] for i in range(0, len(data), 4)]


def saved_models(runs):
    rows, folder = runs.train("gpt", "--batch-size", "8", "--num-epochs", "2", "--save-steps", "5",
                              "--max-steps", "30", "--cache-dir", runs.path("cache"))
    validated = losses(rows, "eval_loss")
    check(len(validated) == 2 and validated[1] < validated[0], f"validation: {validated}")
    names = sorted(os.listdir(folder))
    check(names == ["best_model", *sorted(f"checkpoint-{n}" for n in range(5, 31, 5)), "loss.svg",
                    "metrics.csv"], f"files: {names}")
    xml.dom.minidom.parse(os.path.join(folder, "loss.svg"))
    best = os.path.join(folder, "best_model")
    done = subprocess.run([INFERENCE, "--weights", best, "--prompt", "Where does", "--json"],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"inference does not read {best}: {done.stderr}")
    # Samples from the cache are those of the run that wrote it.
    check(len(os.listdir(runs.path("cache"))) == 2, "no cache")
    again, _ = runs.train("gpt", "--batch-size", "8", "--num-epochs", "2", "--max-steps", "30",
                          "--cache-dir", runs.path("cache"))
    check(losses(again) == losses(rows), "losses with cached texts differ")


def checkpoint_runs(*more):
    return ["--num-epochs", "1", "--save-steps", "2", "--eval-steps", "5", "--save-total-limit",
            "2", "--resume", *more]


def wait_for(path, lines, process):
    """Waits until the file has `lines` lines or the process has ended."""
    while process.poll() is None:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                if len(f.readlines()) >= lines:
                    return
        time.sleep(0.001)


def killed_and_resumed(runs, *more):
    """A run that is killed several times and resumed has the losses of an undisturbed run, bit for
    bit."""
    options = checkpoint_runs(*more)
    whole, folder = runs.train("gpt", *options)
    left = sorted(os.listdir(folder))
    check(len([name for name in left if name.startswith("checkpoint-")]) == 2, f"left: {left}")
    check(not [name for name in left if "partial" in name], f"left: {left}")
    other = runs.path("killed" + "".join(more))
    metrics = os.path.join(other, "metrics.csv")
    for lines in (3, 4, 9, 13, 14, 20):
        with subprocess.Popen([PRETRAIN, "--model-config", "gpt.json", "--max-seq-length", "64",
                               "--learning-rate", "3e-3", "--save-dir", other, *options],
                              cwd=runs.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            wait_for(metrics, lines, process)
            process.kill()
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "64", "--learning-rate",
                      "3e-3", "--save-dir", other, *options)
    check(done.returncode == 0, f"the last: {done.stderr}")
    with open(metrics, encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    for key in ("step", "loss", "grad_norm", "eval_loss"):
        check([row[key] for row in rows] == [row[key] for row in whole], f"{key} differ: {more}")
    differs = runs.start("--model-config", "gpt.json", "--max-seq-length", "64", "--learning-rate",
                         "1e-3", "--seed", "7", "--save-dir", other, *options)
    check(differs.returncode == 1 and "--seed was 42, not 7; --learning-rate was" in differs.stderr,
          f"other options: {differs.stderr}")


def full_disk(runs):
    """If a model cannot be written, the run prints a warning and continues. It fails at its end
    unless a later model was written. Existing checkpoints do not change."""
    folder = runs.path("full")
    start = ["--model-config", "gpt.json", "--max-seq-length", "64", "--num-epochs", "1",
             "--save-dir", folder, "--skip-eval", "--save-steps", "10", "--resume"]
    done = runs.start(*start, "--max-steps", "10")
    before = sorted(os.listdir(os.path.join(folder, "checkpoint-10")))
    check(done.returncode == 0 and "model.safetensors" in before, f"{done.stderr}")
    done = runs.start(*start, "--max-steps", "25", file_bytes=40000)
    lines = done.stderr.splitlines()
    check(done.returncode == 1 and len(lines) == 3 and "checkpoint-20 was not saved: " in lines[0]
          and "last_model was not saved: " in lines[1] and lines[2].endswith(
              "lacks its last results: last_model of step 25 was not saved, and there is none; "
              "checkpoint-20 was not saved, and there is nothing newer than checkpoint-10"),
          f"{done.stderr}")
    check(len(runs.rows(folder)) == 25, "the run did not go on")
    check(sorted(os.listdir(folder)) == ["checkpoint-10", "loss.svg", "metrics.csv"],
          f"{os.listdir(folder)}")
    check(sorted(os.listdir(os.path.join(folder, "checkpoint-10"))) == before, "it changed")
    with open(os.path.join(folder, "checkpoint-20"), "w", encoding="utf-8") as f:
        f.write("mine")
    done = runs.start(*start, "--max-steps", "30")
    check(done.returncode == 0 and done.stderr.count("\n") == 1
          and "checkpoint-20 was not saved" in done.stderr, f"a later one was: {done.stderr}")


def full_metrics(runs):
    """Lines of metrics.csv that do not fit on the disk are written as soon as there is space. If
    there never is, the run fails at its end."""
    def limit(process, file_bytes):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))

    for frees in (True, False):
        folder = runs.path(f"metrics_{frees}")
        log = os.path.join(folder, "metrics.csv")
        start = [PRETRAIN, "--model-config", "gpt.json", "--max-seq-length", "16", "--skip-eval",
                 "--num-epochs", "9999", "--max-steps", "600", "--quiet", "--save-dir", folder]
        with subprocess.Popen(start, cwd=runs.folder, stderr=subprocess.PIPE, text=True) as run_:
            while run_.poll() is None and not (os.path.exists(log) and os.path.getsize(log) > 500):
                time.sleep(0.001)
            limit(run_, os.path.getsize(log) + 7)  # in the middle of a line
            said = run_.stderr.readline()
            check("warning: cannot write" in said and "metrics.csv': File too large" in said, said)
            if frees:
                limit(run_, resource.RLIM_INFINITY)
            rest = run_.stderr.read()
        steps = [int(row["step"]) for row in runs.rows(folder)]
        if frees:
            check(run_.returncode == 0 and not rest and steps == list(range(1, 601)),
                  f"exit {run_.returncode}: {rest}: {steps[-3:]}")
        else:
            check(run_.returncode == 1 and len(rest.splitlines()) >= 1 and len(steps) < 600,
                  f"exit {run_.returncode}: {rest}")


def full_cache(runs):
    """If the cache cannot be written, the run prints a warning and continues without it."""
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--cache-dir",
                      "full_cache", "--device", "meta", file_bytes=2000)
    check(done.returncode == 0 and done.stderr.count("\n") == 1 and done.stderr.startswith(
        "pretrain: warning: tokenized data was not written to --cache-dir: cannot write full_cache")
        and not os.listdir(runs.path("full_cache")), f"exit {done.returncode}: {done.stderr}")


def last_models(runs):
    """Without validation, the model of the last step is saved, on any number of ranks, unless a
    checkpoint has it. With --skip-eval, a run that traces prints a note that it saves no model."""
    for name, more in (("skipped", ["--skip-eval"]), ("unvalidated", ["--data", "texts.squad"]),
                       ("ranks", ["--skip-eval", "--num-gpus", "4", "--tp", "2"])):
        shutil.copy(os.path.join(SOURCE, "examples", "squad", "train.json"),
                    runs.path("texts.squad"))
        folder = runs.path(name)
        start = ["--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps", "3",
                 "--save-dir", folder, *more]
        done = runs.start(*start)
        check(done.returncode == 0 and not done.stderr and sorted(os.listdir(folder))
              == ["last_model", "loss.svg", "metrics.csv"], f"{os.listdir(folder)}: {done.stderr}")
        kept = runs.start(*start, "--save-dir", folder + "_kept", "--save-steps", "3")
        check(kept.returncode == 0 and "last_model" not in os.listdir(folder + "_kept"),
              f"beside a checkpoint of the same: {kept.stderr}")
        models = []
        for at in (folder + "/last_model", folder + "_kept/checkpoint-3"):
            with open(os.path.join(at, "model.safetensors"), "rb") as f:
                models.append(f.read())
        check(models[0] == models[1], f"{name}: it is not the model of the last step")
        done = runs.start(*start, "--save-dir", folder + "_traced", "--enable-tracing",
                          "--out-dir", folder + "_traced")
        wants = "--skip-eval" not in more
        check(("last_model" in os.listdir(folder + "_traced")) == wants
              and (done.stderr == "") == wants and ("saves no model" in done.stderr) !=
              wants, f"{os.listdir(folder + '_traced')}: {done.stderr}")


def stray_folders(runs):
    """Folders that are not checkpoints are neither read nor removed. A checkpoint with the state of
    another step is refused."""
    folder = runs.path("stray")
    start = ["--model-config", "gpt.json", "--max-seq-length", "16", "--save-dir", folder,
             "--skip-eval", "--save-steps", "2", "--save-total-limit", "1", "--resume"]
    for name in ("checkpoint-1", "checkpoint-99"):
        os.makedirs(os.path.join(folder, name))
    for steps in ("4", "6"):
        done = runs.start(*start, "--max-steps", steps)
        check(done.returncode == 0, f"{steps} steps: {done.stderr}")
    left = sorted(name for name in os.listdir(folder) if "checkpoint" in name)
    check(left == ["checkpoint-1", "checkpoint-6", "checkpoint-99"], f"{left}")
    done = runs.start(*start, "--max-steps", "3")
    check(done.returncode == 0 and "nothing to do" in done.stderr, f"{done.stderr}")
    os.rename(os.path.join(folder, "checkpoint-6"), os.path.join(folder, "checkpoint-7"))
    done = runs.start(*start, "--max-steps", "9")
    check(done.returncode == 1 and "has the state of step 6" in done.stderr, f"{done.stderr}")


def cut_removals(runs):
    """If a run was killed while it wrote or removed a checkpoint, the next save removes what is
    left of it, with its subfolders. None of it becomes part of a new checkpoint."""
    folder = runs.path("cut")
    start = ["--model-config", "gpt.json", "--max-seq-length", "16", "--save-dir", folder,
             "--skip-eval", "--save-steps", "2", "--save-total-limit", "1", "--resume"]

    def left():
        return sorted(name for name in os.listdir(folder) if "checkpoint" in name)

    for steps in ("2", "2", "4"):  # the second run has nothing to do
        for name in (".checkpoint-2.partial", ".checkpoint-4.partial", ".best_model.partial",
                     ".checkpoint-x.partial"):
            os.makedirs(os.path.join(folder, name, "kept", "deep"), exist_ok=True)
            for file in ("config.json", "stray.bin", "kept/deep/stray.bin"):
                with open(os.path.join(folder, name, file), "w", encoding="utf-8") as f:
                    f.write("{}")
        done = runs.start(*start, "--max-steps", steps)
        check(done.returncode == 0 and left() == [".checkpoint-x.partial", f"checkpoint-{steps}"]
              and ".best_model.partial" not in os.listdir(folder),
              f"to step {steps}: {os.listdir(folder)}: {done.stderr}")
        check(done.stdout.endswith(f"written: {folder}/metrics.csv, {folder}/loss.svg, "
                                   f"{folder}/checkpoint-{steps}\n") or "nothing to do" in
              done.stderr, f"{done.stdout}")
        files = os.listdir(os.path.join(folder, f"checkpoint-{steps}"))
        check("stray.bin" not in files and "kept" not in files, f"step {steps}: {files}")


def two_runs(runs):
    """A second run into the same folder is refused immediately until the first run has ended or was
    killed. Runs into other folders, and traces with other names in the same folder, are allowed."""
    folder = runs.path("two")
    start = ["--model-config", "gpt.json", "--max-seq-length", "16", "--skip-eval", "--save-dir"]
    traced = ["--enable-tracing", "--max-steps", "2", "--out-dir", runs.path("two_traces")]
    first = subprocess.Popen([PRETRAIN, *start, folder, "--max-steps", "1000000", "--num-epochs",
                              "1000000", "--save-steps", "2", "--quiet", *traced[:1],
                              *traced[3:]], cwd=runs.folder, stderr=subprocess.PIPE, text=True)
    while first.poll() is None and not os.path.exists(os.path.join(folder, "checkpoint-2")):
        time.sleep(0.01)
    before = os.listdir(runs.path("two_traces"))
    for more, named, advice in (
            ([folder, "--resume"], "two'", "or name another --save-dir"),
            ([runs.path("two_else"), *traced, "--save-steps", "2"], "two_traces/trace.*'",
             "or name another --out-dir or --trace-name")):
        done = runs.start(*start, *more)
        check(done.returncode == 1 and done.stderr.count("\n") == 1
              and f"another run (pretrain, process {first.pid} on " in done.stderr
              and named in done.stderr and done.stderr.endswith(advice + "\n"),
              f"{more}: exit {done.returncode}: {done.stderr}")
    done = runs.start(*start, runs.path("two_else"), *traced, "--trace-name", "other")
    check(done.returncode == 0 and set(before) <= set(os.listdir(runs.path("two_traces"))),
          f"another name: {done.stderr}")
    first.kill()
    first.wait()
    check(not first.stderr.read(), "the first run went on undisturbed")
    first.stderr.close()
    done = runs.start(*start, folder, "--resume", "--max-steps", "2", "--num-epochs", "1000000")
    check(done.returncode == 0 and ".lock" not in os.listdir(folder),
          f"after a kill: {os.listdir(folder)}: {done.stderr}")


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    for name in ("gpt", "bert"):
        same_losses(program, name)
    as_pytorch(program)
    exact_masters(program)
    saved_models(program)
    killed_and_resumed(program, "--num-gpus", "2")
    killed_and_resumed(program, "--num-gpus", "4", "--tp", "2", "--batch-size", "2")
    killed_and_resumed(program, "--num-gpus", "4", "--tp", "2", "--pp", "2", "--sp",
                       "--gradient-accumulation-steps", "4")
    full_disk(program)
    full_metrics(program)
    full_cache(program)
    stray_folders(program)
    cut_removals(program)
    two_runs(program)
    last_models(program)
finish()
