"""Tests what limits a predicted time: compute, memory, launches and communication. The shares add
up to 1, a faster part of the machine shortens only its own share, and the utilisation is the time
of the products at the peak rate, divided by the predicted time. Also tests --compare, and
predictions that are printed next to measured times."""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, enter_folder, finish  # noqa: E402

LIMITS = ("compute", "memory", "launches", "communication")
PEAK, LINK, MEMORY, LAUNCH = 20.0, 50.0, 800.0, 4.0
enter_folder()


def program(name, *args):
    done = subprocess.run([os.path.join(BUILD, name), "--device", "meta", *args], check=False,
                          capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"{name} {args}: {done.stderr}")
    return done.stdout


def predicted(*args, peak=PEAK, link=LINK, memory=MEMORY, launch=LAUNCH):
    """Returns {"prefill": {limit: ns, ...}, "decode": {limit: ns, ...}} and the JSON of a run on a
    machine with these rates. peak: Tflop/s. link, memory: GB/s. launch: us."""
    machine = {"name": "toy", "hardware": {
        "peak_tflops": {"f32": peak}, "memory_gib": 80, "memory_gb_per_s": memory, "node_ranks": 8,
        "intra": {"alpha_us": 0, "gb_per_s": link}, "inter": {"alpha_us": 20, "gb_per_s": 5}},
        "stack": {"name": "s", "launch_us": launch, "matmul_efficiency": 0.5,
                  "memory_efficiency": 0.8}}
    with open("toy.json", "w", encoding="utf-8") as f:
        json.dump(machine, f)
    run = json.loads(program("inference", "--json", "--hw", "toy.json", "--model", "gpt2",
                             "--tp", "2", "--num_input_tokens", "300", "--num_output_tokens", "3",
                             *args))
    parts = {}
    for phase in ("prefill", "decode"):
        shares, ns = run[f"{phase}_limits"], run[f"predicted_{phase}_ns"]
        check(abs(sum(shares[k] for k in LIMITS) - 1) < 1e-9, f"{phase}: {shares}")
        check(all(shares[k] >= 0 for k in LIMITS), f"{phase}: {shares}")
        parts[phase] = {k: shares[k] * ns for k in LIMITS}
    return parts, run


def close(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def only(phase, limit, **faster):
    """Checks that a part of the machine that is twice as fast halves the time of `limit` and
    changes no other."""
    fast = predicted("--attention", "fused", **faster)[0][phase]
    for k in LIMITS:
        want = usual[phase][k] / (2 if k == limit else 1)
        check(close(fast[k], want), f"{phase}, {faster}: {k} {fast[k]}, not {want}")


usual, run = predicted("--attention", "fused")
check(usual["prefill"]["compute"] > usual["prefill"]["memory"], f"prefill: {usual}")
check(usual["decode"]["compute"] < usual["decode"]["launches"], f"decode: {usual}")
only("prefill", "communication", link=2 * LINK)
only("decode", "communication", link=2 * LINK)
none = predicted("--attention", "fused", launch=0)[0]
check(none["prefill"]["launches"] == none["decode"]["launches"] == 0, f"no launches: {none}")
slow = predicted("--attention", "fused", launch=1e6)[0]["decode"]
check(slow["compute"] == slow["memory"] == 0 and slow["launches"] > 0, f"slow launches: {slow}")
memory = predicted("--attention", "fused", launch=0, peak=1e5)[0]["decode"]
twice = predicted("--attention", "fused", launch=0, peak=1e5, memory=2 * MEMORY)[0]["decode"]
check(memory["compute"] == 0 and close(memory["memory"], 2 * twice["memory"]), f"{memory} {twice}")

products = sum(op["flops"] for op in run["ops"] if op["op"] in ("linear", "matmul", "attention"))
at_peak = sum(run[f"{p}_limits"]["utilisation"] * run[f"predicted_{p}_ns"]
              for p in ("prefill", "decode"))
check(close(at_peak, products / (PEAK * 1e3)), f"at the peak {at_peak} ns for {products} flops")

LIST = ["a100-80g+serving", "h100", "v100-32g+megatron", "toy.json", "cpu"]
RUN = ["--json", "--model", "gpt2", "--tp", "2", "--num_input_tokens", "64", "--dtype", "f32"]
compared = json.loads(program("inference", *RUN, "--hw", LIST[0], "--compare",
                              ",".join(LIST[1:])))["compared"]
check(len(compared) == len(LIST), f"{len(compared)} machines compared")
for machine, got in zip(LIST, compared):  # the figures are those of separate runs
    alone = json.loads(program("inference", *RUN, "--hw", machine))
    check(got["hardware"] == alone["hardware"] and got["stack"] == alone["stack"], f"{got}")
    for phase in ("prefill", "decode"):
        check(close(got[f"{phase}_ns"], alone[f"predicted_{phase}_ns"]), f"{machine}: {got}")
    check(got["fits"], f"{machine}: {got}")
table = program("inference", "--model", "gpt3-175b", "--tp", "4", "--dtype", "f32", "--hw", "h200",
                "--compare", "a100-80g,b200+megatron").split("the same ops on\n")[1]
table = [line for line in table.split("to fit")[0].splitlines()
         if not line.startswith("  extrapolated on ")]
check([line.split()[0] for line in table[1:]] ==
      ["h200+serving", "a100-80g+serving", "b200+megatron"], f"{table}")
check(["does not fit in memory" in line for line in table[1:]] == [True, True, False], f"{table}")
check(all(re.search(r" [\d.]+( [kM])? .*%  *(\d+%|\?)", line) for line in table[1:]), f"{table}")
FITTED = ["--model", "gpt3-6.7b", "--tp", "2", "--dtype", "bf16", "--num_input_tokens", "128",
          "--num_output_tokens", "8", "--batch_size", "4"]
machines = ["a100-80g", "h100"]
compared = json.loads(program("inference", "--json", *FITTED, "--compare", ",".join(machines)))
for machine, got in zip(["a100-80g", *machines], compared["compared"]):
    alone = json.loads(program("inference", "--json", *FITTED, "--hw", machine))
    ns = alone["predicted_prefill_ns"] + alone["predicted_decode_ns"]
    check(close(got["tokens_per_second"], 4 * 8 / ns * 1e9), f"{machine}: {got}")
    check(got["predicted_error"] == alone.get("predicted_error"), f"{machine}: {got}")
check(compared["compared"][0]["predicted_error"] > 0, f"an A100: {compared['compared'][0]}")
for given, which in (("h100,,b200", 2), (",h100", 1), ("h100,", 2)):
    for name in ("inference", "pretrain"):
        refused = subprocess.run([os.path.join(BUILD, name), "--device", "meta", "--compare",
                                  given], check=False, capture_output=True, text=True)
        check(refused.returncode != 0 and refused.stderr.count("\n") == 1 and
              f"entry {which} of '{given}' is empty" in refused.stderr, refused.stderr)

# With --hw, a measured run also prints the prediction, as on meta, and its error.
with open("text", "w", encoding="utf-8") as f:
    f.write("to be or not to be " * 20)
TINY = os.path.join(os.environ["SYN_SOURCE"], "examples", "configs", "bert-tiny.json")
for args, names in ((["--num_output_tokens", "4"], ["prefill", "decode"]),
                    (["--model_config", TINY], ["forward"]),
                    (["--perplexity", "text", "--max_length", "32"], ["scoring"]),
                    (["--logits", "all", "--save_logits", "all.npy"], ["scoring"])):
    on_meta = args[:2] if "--logits" in args else args
    meta = program("inference", *on_meta, "--hw", "h100")
    here = subprocess.run([os.path.join(BUILD, "inference"), *args, "--hw", "h100"], check=False,
                          capture_output=True, text=True, timeout=300).stdout
    said = re.findall(r"^(?:predicted |prediction |limits).*:.*$", meta, re.M)
    check(len(said) >= 3 and all(line + "\n" in here for line in said), f"{said} and {here}")
    check(re.search(r"^prediction error: unknown: no similar run on h100", here, re.M), here)
    check(all(re.search(rf"^{name}: +\d+ tokens in", here, re.M) and
              re.search(rf"^predicted {name}: +\d+ tokens in", here, re.M) for name in names), here)
    both = json.loads(subprocess.run(
        [os.path.join(BUILD, "inference"), *args, "--hw", "h100", "--json"], check=False,
        capture_output=True, text=True, timeout=300).stdout)
    alone = json.loads(program("inference", "--json", *on_meta, "--hw", "h100"))
    for key in [k for k in alone if k.startswith("predicted_")]:
        check(close(both[key], alone[key]), f"{args}: {key}")
    check(any(k.endswith("_ns") and not k.startswith("predicted_") for k in both),
          f"{sorted(both)}")

for name, args in (("inference", ["--model", "gpt2", "--tp", "4", "--hw", "h100"]),
                   ("inference", ["--model", "bert-base-uncased", "--hw", "v100-32g"]),
                   ("inference", ["--model", "gpt2", "--hw", "cpu"]),
                   ("pretrain", ["--model", "gpt2", "--num-gpus", "4", "--tp", "2",
                                 "--max-steps", "3", "--enable-tracing"])):
    lines = re.findall(r"limits[^:]*: (.*); (\d+)% MFU", program(name, *args))
    check(lines, f"{name} {args}: no limits")
    for line, used in lines:
        shares = [int(n) for n in re.findall(r"(\d+)% ", line)]
        check(len(shares) == 4 and sum(shares) == 100 and 0 <= int(used) <= 100, f"{line}; {used}")
finish()
