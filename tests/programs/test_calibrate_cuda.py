"""Tests `syntorch calibrate --measure --device cuda` on the emulated device. inference and pretrain
can read the file that it writes; the file describes a GPU, without kernels measured on a CPU, and
its links are measured or copied from --hw."""
import json
import math
import os
import re
import shutil
import subprocess
import tempfile

import checks
from checks import BUILD, check, finish, skip

MODULE = os.path.join(BUILD, "tests", "syntorch_cuda_emulated.so")
MPI = shutil.which("mpirun")


def calibrate(*args, devices="4", module=MODULE, launcher=()):
    done = subprocess.run(
        [*launcher, os.path.join(BUILD, "calibrate"), "--measure", "--device", "cuda", *args],
        env={**os.environ, "SYNTORCH_CUDA_MODULE": module, "SYN_EMULATED_DEVICES": devices},
        capture_output=True, text=True, check=False, timeout=550)
    return done


def written(folder, devices, *args):
    path = os.path.join(folder, f"gpu{devices}.json")
    done = calibrate("--output", path, *args, devices=devices)
    check(done.returncode == 0, f"{devices} devices: {done.stderr}")
    with open(path, encoding="utf-8") as f:
        return path, json.load(f), done.stdout


def inference(hw, *args):
    return subprocess.run([os.path.join(BUILD, "inference"), "--device", "meta", "--hw", hw,
                           "--model", "gpt2", "--num_output_tokens", "4", *args],
                          capture_output=True, text=True, check=False)


def positive(*values):
    return all(math.isfinite(v) and v > 0 for v in values)


def several_devices(folder):
    path, hw, said = written(folder, "4")
    machine, stack = hw["hardware"], hw["stack"]
    check(hw["name"] == "emulated device" and stack["name"] == "syntorch", str(hw))
    check(machine["multiprocessors"] == 4 and machine["memory_gib"] == 64 and
          machine["node_ranks"] == 4, str(machine))
    check("kernels" not in hw and "errors" not in hw, "no curves of a CPU, no errors of runs")
    check(sorted(machine["peak_tflops"]) == ["bf16", "f16", "f32"] and
          positive(*machine["peak_tflops"].values(), machine["memory_gb_per_s"],
                   machine["intra"]["gb_per_s"], stack["launch_us"], stack["kernel_us"]), str(hw))
    for key in ("memory_efficiency", "vector_efficiency", "attention_efficiency"):
        check(0 < stack[key] <= 1, f"{key}: {stack}")
    check(stack["matmul_efficiency"] == 1 and 0.02 <= stack["matmul_tail"] <= 3, str(stack))
    check(stack["kernels"]["sample"] > 1 and stack["kernels"]["cross_entropy"] > 1 and
          "add" not in stack["kernels"], str(stack["kernels"]))
    check(sorted(stack["phases"]) == ["backward", "decode", "forward", "optimizer", "recompute"] and
          positive(*(p["launch"] for p in stack["phases"].values())), str(stack["phases"]))
    library = hw["collectives"]
    check(library["name"] == "nccl" and positive(library["ll"]["base_us"],
                                                 library["ll"]["step_us"],
                                                 library["simple"]["step_us"]), str(library))
    check(machine["inter"]["gb_per_s"] == 200 and library["simple"]["hop_us"] == 7,
          f"between nodes all is as in a100-80g: {hw}")
    sizes, series = re.search(r"(\d+) sizes of (\d+) ops and types", said).groups()
    check(int(series) == 25 and int(sizes) > int(series), said)
    check("all-reduces of 4: " in said and
          "links between nodes: copied from a100-80g (--hw)" in said, said)

    for args in ([], ["--dtype", "bf16"], ["--dtype", "f16", "--tp", "4"], ["--tp", "12"]):
        got = json.loads(inference(path, "--json", *args).stdout)
        check(positive(got["predicted_prefill_ns"], got["predicted_decode_ns"]) and
              "predicted_error" not in got, f"{args}: {got}")
    done = inference(path)
    check("predicted for emulated device+syntorch" in done.stdout and
          "error: unknown" in done.stdout, done.stdout)
    done = subprocess.run([os.path.join(BUILD, "pretrain"), "--device", "meta", "--model",
                           "gpt2", "--max-seq-length", "64", "--hw", path], capture_output=True,
                          text=True, check=False)
    check(done.returncode == 0 and "predicted step: " in done.stdout, done.stdout + done.stderr)


def one_device(folder):
    _, hw, said = written(folder, "1", "--hw", "h100")
    check(hw["hardware"]["intra"]["gb_per_s"] == 450 and hw["hardware"]["node_ranks"] == 8 and
          "switch" in hw["collectives"], f"links are the h100's: {hw}")
    check("all-reduces: not measured with one device; copied from h100 (--hw)" in said, said)


def refused(folder):
    for how, says in (({"devices": "0"}, "--device cuda: there is no CUDA device"),
                      ({"module": os.path.join(folder, "none.so")}, "cannot be loaded"),
                      ({"launcher": (MPI, "-n", "2")}, "start it without a launcher")):
        if how.get("launcher") == (None, "-n", "2"):
            continue
        done = calibrate(**how)
        check(done.returncode == 1 and says in done.stderr, f"{how}: {done.stderr}")
        check("launcher" in how or done.stderr.count("\n") == 1, done.stderr)
    done = checks.run("calibrate", "--device", "cuda", "--rows", "x.csv")
    check(done.returncode == 2 and b"--device" in done.stderr, f"without --measure: {done.stderr}")


if not os.path.exists(MODULE):
    skip("no C++ compiler made the emulated device")
with tempfile.TemporaryDirectory() as where:
    several_devices(where)
    one_device(where)
    refused(where)
finish()
