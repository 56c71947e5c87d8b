"""Compares pretraining on CUDA with pretraining on the CPU: losses and gradient norms of up to 20
steps on one rank, on 2 x 2 ranks and in bf16, and the contents of traces. Also tests a resumed run
and the message about a NaN loss. Everything runs on the emulated device."""
import collections
import filecmp
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

from checks import BUILD, check, finish, skip
from pretrain_runs import Runs, losses

MODULE = os.path.join(BUILD, "tests", "syntorch_cuda_emulated.so")
COUNTED = {"nodes", "num_ops", "tensor_bytes", "communication_nodes", "collective_bytes"}
SHORT = ["--batch-size", "2", "--skip-eval"]


def near(got, want, tol):
    return len(got) == len(want) > 0 and all(abs(a - b) <= tol * b for a, b in zip(got, want))


def compare(runs, model, steps, tol, *how):
    rows = [runs.train(model, "--device", device, "--max-steps", str(steps), *SHORT, *how)[0]
            for device in ("cpu", "cuda")]
    cpu, cuda = (losses(r) for r in rows)
    check(near(cuda, cpu, tol), f"{model} {how}: {cuda}, on the CPU {cpu}")
    norms = [[float(row["grad_norm"]) for row in r] for r in rows]
    check(near(norms[1], norms[0], 100 * tol), f"{model} {how}: norms {norms}")


def check_resume(runs):
    """A run that is resumed from a checkpoint in its middle writes the same last checkpoint as an
    uninterrupted run, bit for bit."""
    how = ["--device", "cuda", "--max-steps", "8", "--save-steps", "4", *SHORT]
    _, whole = runs.train("gpt", *how)
    cut = runs.path("cut")
    shutil.copytree(whole, cut)
    shutil.rmtree(os.path.join(cut, "checkpoint-8"))
    done = runs.start("--model-config", "gpt.json", "--max-seq-length", "64", "--learning-rate",
                      "3e-3", "--save-dir", cut, "--resume", *how)
    check(done.returncode == 0, done.stderr)
    files = sorted(os.path.basename(f) for f in glob.glob(
        os.path.join(whole, "checkpoint-8", "*.safetensors")))
    equal, _, _ = filecmp.cmpfiles(os.path.join(whole, "checkpoint-8"),
                                   os.path.join(cut, "checkpoint-8"), files, shallow=False)
    check(len(files) > 1 and sorted(equal) == files, f"{files}, of which equal {equal}")


def goes_wrong(runs):
    """A NaN loss is found when the next step has already begun. The message has the number of the
    step that failed, and metrics.csv has the steps before it."""
    for ranks in "1", "2":
        folder = runs.path(f"wrong{ranks}")
        done = runs.start("--model-config", "gpt.json", "--max-seq-length", "64", "--save-dir",
                          folder, "--device", "cuda", "--max-steps", "40", "--learning-rate",
                          "1000", "--warmup-steps", "1", "--num-gpus", ranks, *SHORT)
        check(done.returncode == 1 and "step 3: the loss is NaN; first on rank 0: tensor" in
              done.stderr, f"{ranks}: {done.returncode}: {done.stderr}")
        steps = [row["step"] for row in runs.rows(folder)]
        check(steps == ["1", "2"], f"{ranks}: steps {steps}")


def counted(trace):
    """Returns the total numbers of nodes, flops and bytes of a trace, which do not depend on
    times."""
    done = subprocess.run([os.path.join(BUILD, "syntorch"), "stat", trace, "--json"],
                          capture_output=True, text=True, check=True)
    total = json.loads(done.stdout)["total"]
    return {k: v for k, v in total.items() if isinstance(v, int) and k in COUNTED}


def traces_match(runs):
    """Traces of both devices have the same numbers of nodes, flops and bytes. The Kineto trace of
    CUDA also has the copies of samples to the device, the kernels of the optimizer, and kernels
    that start before the wait for the previous step ends."""
    found = []
    for device in ("cpu", "cuda"):
        out = runs.path(f"traces_{device}")
        runs.train("gpt", "--device", device, "--max-steps", "3", *SHORT, "--num-gpus", "2",
                   "--enable-tracing", "--out-dir", out)
        found.append({os.path.basename(f): counted(f)
                      for f in glob.glob(os.path.join(out, "*.et"))})
    check(len(found[0]) == 2 and found[0] == found[1], f"{found}")
    for path in glob.glob(os.path.join(out, "*_kineto.json")):
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        between = collections.Counter(
            e["name"] for e in events if e.get("args", {}).get("External id") == 1
            and e["cat"] in ("gpu_memcpy", "cuda_sync"))
        check(between["Memcpy HtoD (Pinned -> Device)"] > 0 and between["Stream Sync"] > 0,
              f"{path}: a step gets texts, and is waited for: {between}")
        kernels = [e["name"] for e in events if e.get("cat") == "kernel"]
        check(any("adamw" in name for name in kernels), f"{path}: the update's kernels, too")
        first = min(e["ts"] for e in events if e.get("cat") == "kernel")
        waited = min(e["ts"] + e["dur"] for e in events if e["name"] == "cudaStreamSynchronize")
        check(first < waited, f"{path}: waits {first - waited} us for the step before")


def timeline_has_waits():
    """The timeline shows waits for the device on the host's track, and copies on the stream's
    track. Events with the same name do not overlap."""
    out = tempfile.mkdtemp(prefix="syntorch-")
    subprocess.run([os.path.join(BUILD, "inference"), "--device", "cuda", "--num_output_tokens",
                    "4", "--visualize_trace", "--out_dir", out], check=True, capture_output=True)
    with open(os.path.join(out, "timeline.json"), encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    shutil.rmtree(out)
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for name, thread in (("wait for the device", "host"), ("copy in", "kernels, stream 7"),
                         ("copy out", "kernels, stream 7")):
        mine = sorted((e for e in events if e["name"] == name), key=lambda e: e["ts"])
        check(mine and {threads[e["tid"]] for e in mine} == {thread}, f"{name}: {mine[:2]}")
        check(all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(mine, mine[1:])), name)
        check(not any("id" in e["args"] for e in mine), f"{name}: {mine[:2]}")
    tokens = [e for e in events if e["name"] == "copy out" and e["args"]["bytes"] == 4]
    check(len(tokens) == 4, f"{len(tokens)} tokens were read, 4 made")


def main():
    if not os.path.exists(MODULE):
        skip("no C++ compiler made the emulated device")
    os.environ.update(SYNTORCH_CUDA_MODULE=MODULE, SYN_EMULATED_DEVICES="8")
    folder = tempfile.mkdtemp(prefix="syntorch-")
    try:
        runs = Runs(folder)
        compare(runs, "gpt", 20, 1e-5)
        compare(runs, "bert", 20, 1e-5)
        compare(runs, "gpt", 6, 1e-5, "--num-gpus", "4", "--tp", "2")
        compare(runs, "gpt", 3, 1e-5, "--num-gpus", "4", "--tp", "2", "--sp", "--zero", "2",
                "--gradient-accumulation-steps", "2")
        compare(runs, "gpt", 3, 1e-5, "--num-gpus", "4", "--pp", "2", "--zero", "1",
                "--gradient-accumulation-steps", "2")
        compare(runs, "gpt", 6, 2e-2, "--dtype", "bf16")
        check_resume(runs)
        goes_wrong(runs)
        traces_match(runs)
        timeline_has_waits()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish()


if __name__ == "__main__":
    sys.exit(main())
