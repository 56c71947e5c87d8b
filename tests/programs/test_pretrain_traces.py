"""Tests the traces of `syntorch pretrain`: they are the same on meta, the PyTorch traces next to
them convert to the same collectives, the traced steps match torch.profiler.schedule, and a full
disk does not stop the training."""
import csv
import json
import os
import shutil
import sys
import tempfile
from xml.etree import ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, finish, run  # noqa: E402
from execution_trace import COLL, read_et  # noqa: E402
from pretrain_runs import MPIRUN, Runs, launcher  # noqa: E402


def rows_of(path):
    """Returns the nodes of a trace without their times."""
    with open(path, "rb") as f:
        _, nodes = read_et(f.read())
    return [(n.id, n.name, n.type, sorted(n.ctrl), sorted(n.data),
             sorted((k, str(v)) for k, v in n.attr.items() if k in ("comm_size", "comm_type")))
            for n in nodes]


def collectives(path):
    """Returns the kind and the bytes of each collective, in order."""
    with open(path, "rb") as f:
        _, nodes = read_et(f.read())
    return [(n.attr["comm_type"], n.attr["comm_size"]) for n in sorted(nodes, key=lambda n: n.id)
            if n.type == COLL]


def traces(runs, model):
    """The traces of the second step on two ranks are the same on the CPU and on meta, and contain
    collectives. The PyTorch traces next to them convert to the same collectives."""
    files = {}
    for device in ("cpu", "meta"):
        out = runs.path(f"traces_{device}_{model}")
        runs.train(model, "--num-gpus", "2", "--max-steps", "3", "--skip-eval", "--device", device,
                   "--enable-tracing", "--out-dir", out, "--trace-name", "step") \
            if device == "cpu" else runs.start(
                "--model-config", f"{model}.json", "--max-seq-length", "64", "--num-gpus", "2",
                "--max-steps", "3", "--skip-eval", "--device", device, "--enable-tracing",
                "--out-dir", out, "--trace-name", "step")
        names = sorted(os.listdir(out))
        check(names == ["step.0.et", "step.0_host.json", "step.0_kineto.json", "step.1.et",
                        "step.1_host.json", "step.1_kineto.json", "step.comm_group.json",
                        "step_memory.csv", "step_stacks.txt"], f"{device}: {names}")
        for name in names:
            if name.endswith(".json"):
                with open(os.path.join(out, name), encoding="utf-8") as f:
                    json.load(f)
        for rank in "01":
            path = os.path.join(out, f"step.{rank}.et")
            files[device, rank] = rows_of(path)
            done = run("validate", path)
            check(done.returncode == 0, f"validate {path}: {done.stdout.decode()}")
            converted = os.path.join(out, f"converted.{rank}.et")
            done = run("convert", "pytorch", "--host", path.replace(".et", "_host.json"),
                       "--device", path.replace(".et", "_kineto.json"), "--output", converted)
            check(done.returncode == 0, f"convert {path}: {done.stderr.decode()}")
            check(collectives(converted) == collectives(path),
                  f"{path}: {collectives(converted)}, not {collectives(path)}")
    for rank in "01":
        check(files["cpu", rank] == files["meta", rank], f"{model}, rank {rank}: meta differs")
        check(any(row[2] == COLL for row in files["cpu", rank]), f"{model}: no collective")


def windows(runs):
    """A trace of two steps has twice as many nodes as a trace of one. Traced steps are logged,
    validated and saved like other steps."""
    nodes = {}
    for device in ("cpu", "meta"):
        for active in ("1", "2"):
            out = runs.path(f"window_{device}_{active}")
            save = os.path.join(out, "save")
            done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--num-gpus",
                              "2", "--max-steps", "4", "--save-steps", "2", "--eval-steps", "2",
                              "--enable-tracing", "--trace-active-steps", active, "--device",
                              device, "--out-dir", out, "--save-dir", save, "--quiet")
            check(done.returncode == 0, f"{device}, {active}: {done.stderr}")
            nodes[device, active] = len(rows_of(os.path.join(out, "trace.0.et")))
            if device == "meta":
                continue
            with open(os.path.join(save, "metrics.csv"), encoding="utf-8") as f:
                rows = list(csv.DictReader(f))
            check([row["step"] for row in rows if row["loss"]] == ["1", "2", "3", "4"], f"{rows}")
            check([row["step"] for row in rows if row["eval_loss"]] == ["2", "4"], f"{rows}")
            check(os.path.isdir(os.path.join(save, "checkpoint-2")), "no checkpoint-2")
    for device in ("cpu", "meta"):
        check(nodes[device, "2"] == 2 * nodes[device, "1"] > 0, f"{device}: {nodes}")


# Options, number of steps of the run, and the steps that each cycle of torch.profiler.schedule
# traces, numbered from 0.
SCHEDULES = [
    (["--trace-warmup-steps", "1", "--trace-active-steps", "2", "--trace-repeat", "2"], 7,
     [[2, 3], [6]]),
    (["--trace-wait-steps", "0", "--trace-active-steps", "2", "--trace-repeat", "0"], 6,
     [[0, 1], [2, 3], [4, 5]]),
    (["--trace-skip-first", "1", "--trace-repeat", "2"], 6, [[2], [4]]),
    (["--trace-active-steps", "2", "--trace-repeat", "3"], 4, [[1, 2]]),
    (["--trace-active-steps", "3"], 3, [[1, 2]]),
]


def profiled(path):
    """Returns the numbers of the steps in a Kineto trace."""
    with open(path, encoding="utf-8") as f:
        return [int(e["name"][13:]) for e in json.load(f)["traceEvents"]
                if e["name"].startswith("ProfilerStep#")]


def schedules(runs):
    """Each cycle has the steps that PyTorch's profiler would trace, and a set of files of its own:
    on threads, on MPI processes and on meta."""
    where = [("cpu", ()), ("meta", ())]
    if MPIRUN and b"this build has no MPI" not in run("--version").stderr:
        where.append(("mpi", launcher("2")))
    for i, (options, steps, windows_) in enumerate(SCHEDULES):
        nodes = {}
        for name, start in where:
            out = runs.path(f"schedule_{name}_{i}")
            done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--num-gpus",
                              "2", "--max-steps", str(steps), "--skip-eval", "--enable-tracing",
                              "--out-dir", out, "--save-dir", out + "_save", "--device",
                              "meta" if name == "meta" else "cpu", *options, launcher=start)
            check(done.returncode == 0, f"{name}, {options}: {done.stderr}")
            several = "--trace-repeat" in options
            prefixes = [f"trace_step{w[-1] + 1}" if several else "trace" for w in windows_]
            check(sorted({f.split(".")[0] for f in os.listdir(out) if f.endswith(".et")})
                  == sorted(prefixes) and len(os.listdir(out)) == 9 * len(prefixes),
                  f"{name}, {options}: {sorted(os.listdir(out))}")
            for prefix, window in zip(prefixes, windows_):
                path = os.path.join(out, prefix)
                for rank in "01":
                    got = profiled(f"{path}.{rank}_kineto.json")
                    check(got == window, f"{name}, {options}, {prefix}: steps {got}")
                    nodes[name, prefix, rank] = rows_of(f"{path}.{rank}.et")
                valid = run("validate", path)
                check(valid.returncode == 0, f"{path}: {valid.stdout.decode()}")
            cut = windows_[-1][-1] == steps - 1 and len(windows_[-1]) < len(windows_[0])
            cut = cut or options == ["--trace-active-steps", "3"]
            check(("because the run finished\n" in done.stdout) == cut, f"{name}, {options}: "
                  f"{done.stdout}")
            missing = "only 1 of 3 cycles were traced: the run finished" in done.stderr
            check(missing == ("3" == options[-1] and several), f"{options}: {done.stderr}")
        for (name, prefix, rank), rows in nodes.items():
            check(rows == nodes["cpu", prefix, rank], f"{name}, {prefix}, rank {rank} differs")


def asked_for(runs):
    """--with-stack and --profile-memory are options of PyTorch's profiler. In pretrain they add
    modules and memory events to the files; in export, --with-stack adds modules."""
    for flags in ([], ["--profile-memory"], ["--with-stack"], ["--with-stack", "--profile-memory"]):
        out = runs.path("asked" + "".join(flags))
        done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps",
                          "2", "--enable-tracing", "--device", "meta", "--out-dir", out,
                          *flags)
        check(done.returncode == 0, f"{flags}: {done.stderr}")
        graph = os.path.join(out, "graph.json")
        done = run("export", "--input", os.path.join(out, "trace.0.et"), "--output", graph)
        check(done.returncode == 0, f"export: {done.stderr}")
        done = run("export", "--input", graph, "--format", "kineto", "--output",
                   os.path.join(out, "again"), *flags)
        check(done.returncode == 0, f"export {flags}: {done.stderr}")
        for name in ("trace", "again"):
            with open(os.path.join(out, f"{name}.0_kineto.json"), encoding="utf-8") as f:
                doc = json.load(f)
            events = doc["traceEvents"]
            check(("with_stack" in doc, "profile_memory" in doc) ==
                  ("--with-stack" in flags, "--profile-memory" in flags), f"{name}, {flags}")
            check(any(e.get("cat") == "python_function" for e in events) ==
                  ("--with-stack" in flags), f"{name}, {flags}: modules")
            check(any(e["name"] == "[memory]" for e in events) == ("--profile-memory" in flags
                  and name == "trace"), f"{name}, {flags}: memory")
            with open(os.path.join(out, f"{name}_stacks.txt"), encoding="utf-8") as f:
                check(("phase, op, modules" in f.read()) == ("--with-stack" in flags),
                      f"{name}, {flags}: stacks")


def memory_of_recomputation(runs):
    """The memory profile ends with the same tensors with and without recomputation: those that are
    recomputed but not needed are freed."""
    ends, peaks = {}, {}
    for mode in ("none", "full", "op"):
        out = runs.path("memory_" + mode)
        done = runs.start("--model-config", "gpt.json", "--max-seq-length", "64", "--batch-size",
                          "8", "--gradient-accumulation-steps", "4", "--num-gpus", "2", "--tp", "2",
                          "--max-steps", "2", "--enable-tracing", "--device", "meta", "--out-dir",
                          out, "--activation-recompute", mode)
        check(done.returncode == 0, f"{mode}: {done.stderr}")
        with open(os.path.join(out, "trace_memory.csv"), encoding="utf-8") as f:
            rows = [line.split(",")[2] for line in f if line.startswith("0,")]
        ends[mode], peaks[mode] = int(rows[-1]), max(map(int, rows))
    check(len(set(ends.values())) == 1, f"bytes at the end: {ends}")
    check(peaks["full"] < peaks["op"] < peaks["none"], f"peaks: {peaks}")


def pictures(runs):
    """--visualize-trace draws a graph of the first rank and, on several ranks, one of the
    communication. Without graphviz, the run prints a warning and continues."""
    for ranks, wanted in (("1", ["graph"]), ("2", ["comm", "graph"])):
        out = runs.path("drawn" + ranks)
        options = ["--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps", "2",
                   "--num-gpus", ranks, "--enable-tracing", "--visualize-trace", "--device", "meta",
                   "--out-dir", out]
        done = runs.start(*options, launcher=("env", "PATH=" + runs.folder))
        check(done.returncode == 0 and "the trace of step 2 was not drawn: pictures need" in
              done.stderr and "traced: " in done.stdout, f"without graphviz: {done.stderr}")
        check(not any(n.endswith(("svg", "png")) for n in os.listdir(out)), os.listdir(out))
        if not shutil.which("neato"):
            continue
        done = runs.start(*options)
        check(done.returncode == 0 and "warning" not in done.stderr, done.stderr)
        drawn = sorted(n for n in os.listdir(out) if n.endswith(("svg", "png")))
        check(drawn == [f"trace_{w}.{e}" for w in wanted for e in ("png", "svg")], drawn)
        root = ElementTree.parse(os.path.join(out, "trace_graph.svg")).getroot()
        said = " ".join(root.itertext())
        panels = ["forward", "backward", "optimizer"] + (["gradients"] if ranks == "2" else [])
        check(all(p in said for p in panels), f"{ranks} ranks: {said[:400]}")


def full_disk(runs):
    """If a trace cannot be written, the run prints a warning, continues and fails at its end. No
    file is incomplete."""
    out = runs.path("full_traces")
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "16", "--max-steps", "4",
                      "--skip-eval", "--enable-tracing", "--trace-repeat", "2",
                      "--out-dir", out, "--save-dir", out + "_save", file_bytes=60000)
    check(done.returncode == 1 and all(f"the trace of step {k} was not written" in done.stderr
                                       for k in (2, 4))
          and "lacks the trace of step 2 and 1 more" in done.stderr.splitlines()[-1],
          f"{done.returncode}: {done.stderr}")
    check("traced: " not in done.stdout, done.stdout)
    with open(os.path.join(out + "_save", "metrics.csv"), encoding="utf-8") as f:
        check(len(f.readlines()) == 5, "training did not go on")
    left = os.listdir(out)
    for name in left:
        if name.endswith(".json"):
            with open(os.path.join(out, name), encoding="utf-8") as f:
                json.load(f)
        elif name.endswith(".et"):
            done = run("validate", "--single", os.path.join(out, name))
            check(done.returncode == 0, f"{name}: {done.stdout.decode()}")
    check(len(left) < 12, f"{left}")


def resumed_trace(runs):
    """A resumed run counts its steps from its own start to choose those to trace. If it ends before
    one is traced, it says so."""
    options = ["--model-config", "gpt.json", "--max-seq-length", "16", "--skip-eval",
               "--save-steps", "2", "--save-dir", runs.path("goes_on"), "--resume"]
    check(runs.start(*options, "--max-steps", "4").returncode == 0, "the first four steps")
    tracing = ["--enable-tracing", "--out-dir", runs.path("goes_on_traces")]
    done = runs.start(*options, "--max-steps", "5", *tracing)
    check(done.returncode == 0 and "no step was traced" in done.stderr, done.stderr)
    check(not os.listdir(runs.path("goes_on_traces")), os.listdir(runs.path("goes_on_traces")))
    done = runs.start(*options, "--max-steps", "7", *tracing)
    check(done.returncode == 0 and "traced: " in done.stdout, done.stdout + done.stderr)
    check(os.path.exists(runs.path("goes_on_traces/trace.0.et")), "no trace of a resumed run")


with tempfile.TemporaryDirectory() as work:
    program = Runs(work)
    for model_name in ("gpt", "bert"):
        traces(program, model_name)
    windows(program)
    schedules(program)
    asked_for(program)
    memory_of_recomputation(program)
    pictures(program)
    full_disk(program)
    resumed_trace(program)
finish()
