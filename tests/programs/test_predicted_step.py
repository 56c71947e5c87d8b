"""Tests training steps predicted by pretrain --device meta. The prediction from the rows of one
rank, which writes no file, equals the prediction from a trace of all ranks. Also tests predictions
for other machines, as JSON, and next to a measured step."""
import csv
import json
import os
import re
import resource
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, enter_folder, finish  # noqa: E402

enter_folder()


def start(*args, code=0, memory_bytes=resource.RLIM_INFINITY):
    done = subprocess.run([os.path.join(BUILD, "pretrain"), *args], check=False,
                          capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA,
                                                                (memory_bytes, memory_bytes)))
    check(done.returncode == code, f"{args}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


META = ["--device", "meta"]
RUN = ["--model", "gpt2", "--num-gpus", "4", "--tp", "2", "--batch-size", "3",
       "--max-seq-length", "128", "--gradient-accumulation-steps", "2"]
PREDICTED = ("predicted step: ", "limits: ", "prediction error: ", "memory: ",
             "        at the peak: ", "extrapolated: ",
             "        PyTorch's caching allocator", "suggestions: ")


def printed(out):
    return [line for line in out.splitlines() if line.startswith(PREDICTED)]


for more in ([], ["--hw", "h100", "--dtype", "bf16"], ["--hw", "cpu"],
             ["--activation-recompute", "full", "--model", "bert-base-uncased"]):
    alone = start(*META, *RUN, *more)
    check(os.listdir(".") == [], f"{more}: {os.listdir('.')}")
    check(alone.splitlines() == printed(alone), f"{more}: {alone}")
    for steps in ("1", "3"):
        traced = start(*META, *RUN, *more, "--enable-tracing", "--trace-active-steps", steps,
                       "--out-dir", "traced")
        check(os.path.exists("traced/trace.3.et"), f"{more}: {os.listdir('.')}")
        check(printed(traced)[0] == printed(alone)[0] and
              len(printed(traced)) == len(printed(alone)), f"{more}: {traced} and {alone}")
        if steps == "1":
            check(printed(traced) == printed(alone), f"{more}: {traced} and {alone}")
        subprocess.run(["rm", "-r", "traced"], check=True)
# A trace has all seven microbatches. A prediction records three and counts the others.
SEVEN = [*META, *RUN[:-1], "7", "--hw", "h100"]
alone, traced = (json.loads(start(*SEVEN, "--json", *more)) for more in
                 ([], ["--enable-tracing", "--out-dir", "traced"]))
check(close(alone["predicted_step_ns"], traced["predicted_step_ns"]) and
      alone["memory"] == traced["memory"], f"{alone} and {traced}")
check(all(abs(share - traced["step_limits"][name]) < 1e-9
          for name, share in alone["step_limits"].items()), f"{alone} and {traced}")
subprocess.run(["rm", "-r", "traced"], check=True)
# Therefore memory and work do not depend on the number of microbatches.
MANY = json.loads(start(*SEVEN[:-3], "20000", "--hw", "h100", "--json", memory_bytes=512 << 20))
check(MANY["memory"] == alone["memory"], f"{MANY}")
# The tensor-parallel group of ranks 6 to 11 spans two nodes; that of ranks 0 to 5 does not.
SPREAD = [*META, "--model", "gpt2", "--num-gpus", "12", "--tp", "6", "--dtype", "bf16"]
check(printed(start(*SPREAD)) == printed(start(*SPREAD, "--enable-tracing", "--out-dir", "x")),
      "a group across nodes")
subprocess.run(["rm", "-r", "x"], check=True)
large = start(*META, "--model", "gpt3-6.7b", "--dtype", "bf16", "--num-gpus", "256", "--tp",
              "8", "--batch-size", "4", "--max-seq-length", "2048", "--hw", "h100", "--max-steps",
              "5")
check("predicted step: " in large and os.listdir(".") == [], f"{large}, {os.listdir('.')}")

# ---- outside of the ranges to which constants were fitted ----

WIDE = [*META, "--model", "gpt2", "--dtype", "bf16", "--max-seq-length", "128"]


def extrapolated_ops(*more):
    text = [line for line in start(*WIDE, *more).splitlines() if line.startswith("extrapolated: ")]
    listed = json.loads(start(*WIDE, *more, "--json"))["extrapolations"]
    check(text == (["extrapolated: " + ", ".join(listed)] if listed else []), f"{text}, {listed}")
    return listed


def step(*more):
    return json.loads(start(*WIDE, *more, "--json"))["predicted_step_ns"]


with open(os.path.join(os.environ["SYN_SOURCE"], "examples/configs/hw_a100.json"),
          encoding="utf-8") as f:
    own = json.load(f)
own["hardware"]["node_ranks"] = 64  # so that the number of nodes is in the fitted range
own["collectives"]["fitted"] = {"all_reduce": {"ranks": [3, 200]}}
own["stack"]["fitted"] = {}
with open("own.json", "w", encoding="utf-8") as f:
    json.dump(own, f)
for machine, ranks, words in (
        ("h100", 64, []), ("h100", 128, ["all-reduce over 128 ranks (fitted for 2 to 64)"]),
        ("a100-80g", 128, []),
        ("a100-80g", 512, ["all-reduce over 512 ranks (fitted for 2 to 128)"]),
        ("own.json", 200, []), ("own.json", 2, ["all-reduce over 2 ranks (fitted for 3 to 200)"]),
        ("own.json", 201, ["all-reduce over 201 ranks (fitted for 3 to 200)"])):
    got = extrapolated_ops("--hw", machine, "--num-gpus", str(ranks))
    check([x for x in got if " over " in x] == words, f"{ranks} on {machine}: {got}")
os.remove("own.json")
# Sums of gradients overlap computation, so a step on 64 nodes takes as long as one on 4 nodes.
check(step("--hw", "h100", "--num-gpus", "512") < 1.05 * step("--hw", "h100", "--num-gpus", "32"),
      "sums over 512 ranks")
start(*WIDE[2:], "--sweep", "num_gpus=8,512", "hw=h100")
with open("outputs/sweep.csv", encoding="utf-8", newline="") as f:
    swept = list(csv.DictReader(f))
check(["512 ranks" in row["extrapolated"] for row in swept] == [False, True], f"{swept}")
subprocess.run(["rm", "-r", "outputs"], check=True)

# ---- default dtypes ----

for model, machine, dtype in (("gpt2", "h100", "f32"), ("gpt3-125m", "h100", "bf16"),
                              ("llama-3-8b", "h100", "bf16"), ("llama-2-7b", "a100-80g", "bf16"),
                              ("bert-base-uncased", "h100", "f32"), ("gpt3-125m", "cpu", "f32"),
                              ("llama-3-8b", "cpu", "f32"), ("gpt3-125m", "v100-32g", "f32")):
    short = [*META, "--model", model, "--hw", machine, "--tp", "2", "--num-gpus", "2",
             "--max-seq-length", "16"]
    first = start(*short).splitlines()[0]
    check(f" tokens/s in {dtype} on {machine}" in first, f"{model}: {first}")
    check(json.loads(start(*short, "--json"))["dtype"] == dtype, f"{model} on {machine}")
with open("no_dtype.json", "w", encoding="utf-8") as f:
    f.write('{"model_type": "gpt2", "n_layer": 1, "n_embd": 64, "n_head": 2, "n_positions": 64, '
            '"vocab_size": 256}')
FILE = [*META, "--model-config", "no_dtype.json", "--max-seq-length", "16"]
check(" in f32 on " in start(*FILE) and " in bf16 on h100" in start(*FILE, "--hw", "h100"),
      "a file that says none")
os.remove("no_dtype.json")

# ---- other machines, and JSON ----

MACHINES = ["v100-32g", "a100-80g", "h100+pytorch-eager"]
FITTED = [*RUN, "--dtype", "bf16", "--hw", MACHINES[0], "--compare", ",".join(MACHINES[1:])]
table = start(*META, *FITTED).split("the same ops on\n")[1].splitlines()
check([line.split()[0] for line in table[1:4]] ==
      ["v100-32g+megatron", "a100-80g+megatron", "h100+pytorch-eager"], f"{table}")
check(table[0].split()[0] == "step" and "tokens/s" in table[0] and table[0].endswith("+-") and
      [line.split()[-1][-1] for line in table[1:4]] == ["?", "*", "?"], f"{table}")
run = json.loads(start(*META, *FITTED, "--json"))
check(len(run["compared"]) == 3 and os.listdir(".") == [], f"{run}")
for machine, got in zip(MACHINES, run["compared"]):
    alone = json.loads(start(*META, *RUN, "--dtype", "bf16", "--hw", machine, "--json"))
    check("compared" not in alone and alone["tp"] == 2 and alone["ranks"] == 4 and
          alone["dtype"] == "bf16" and alone["model"] == "gpt2", f"{alone}")
    check((got["hardware"], got["stack"]) == (alone["hardware"], alone["stack"]), f"{got}")
    check(close(got["step_ns"], alone["predicted_step_ns"]) and
          close(got["tokens_per_second"], alone["predicted_tokens_per_second"]) and
          got["limits"] == alone["step_limits"] and got["fits"] and alone["fits"] and
          got["predicted_error"] == alone.get("predicted_error"), f"{got} and {alone}")
    check(close(alone["predicted_tokens_per_second"] * alone["predicted_step_ns"] * 1e-9,
                2 * 3 * 128 * 2), f"tokens of {alone}")
    shares = [alone["step_limits"][k] for k in ("compute", "memory", "launches", "communication")]
    check(abs(sum(shares) - 1) < 1e-9, f"{alone}")
small = json.loads(start(*META, *RUN, "--json", "--model", "gpt3-175b", "--tp", "4"))
check(not small["fits"] and small["memory"]["peak_bytes"] > 80 * 2**30, f"{small}")
rows = json.loads(start(*RUN[:2], "--json", "--sweep", "num_gpus=1,2"))["rows"]
check([row["num_gpus"] for row in rows] == ["1", "2"] and rows[0]["time_ns"] > 0, f"{rows}")
subprocess.run(["rm", "-r", "outputs"], check=True)

# ---- next to a measured step ----

HERE = ["--num-gpus", "2", "--max-seq-length", "32", "--skip-eval"]
out = start(*HERE, "--max-steps", "3", "--enable-tracing", "--hw", "h100", "--compare", "b200")
ms, unit, rate = re.search(r"^measured step:  ([\d.]+) (ms|us|s), ([\d.]+ ?k?) tokens/s$", out,
                           re.M).groups()
ns = float(ms) * {"us": 1e3, "ms": 1e6, "s": 1e9}[unit]
number = float(rate.rstrip("k ")) * (1000 if rate.endswith("k") else 1)
check(abs(number * ns * 1e-9 / (2 * 4 * 32) - 1) < 0.02, out)
FOUND = PREDICTED[:3] + ("extrapolated: ",)
alone = start(*META, *HERE, "--hw", "h100")
check([line for line in printed(out) if line.startswith(FOUND)] ==
      [line for line in printed(alone) if line.startswith(FOUND)] and
      "b200+megatron" in out and "suggestions" not in out, out)
finish()
