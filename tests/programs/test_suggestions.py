"""Tests the suggestions at the end of a run on meta: options that would make the run faster, or let
it fit into memory. Each suggestion is tried and must have the printed effect."""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, enter_folder, finish  # noqa: E402

enter_folder()


def start(name, *args):
    done = subprocess.run([os.path.join(BUILD, name), *args], check=False, capture_output=True,
                          text=True, timeout=300)
    check(done.returncode == 0, f"{name} {args}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


LEVER = re.compile(r"((?:--\w+ \S+ )+)(-\d+)%( on \d+ ranks?)?( with [\d.]+ times the sequences)?")


def suggestions(out):
    """Returns a list of (options, change of the time per token, ranks, sequences), such as
    (["--dtype", "bf16"], -0.41, " on 2 ranks", None). Ranks and sequences are None if the options
    do not change them."""
    found = re.search(r"^suggestions: (.*) \(time per token; each change alone\)$", out, re.M)
    return [(option.split(), int(change) / 100, ranks, texts)
            for option, change, ranks, texts in (LEVER.fullmatch(part).groups()
                                                 for part in found.group(1).split(", "))
            ] if found else []


def inference_run(*args):
    """Returns the predicted ns per sequence, the number of sequences and the number of ranks."""
    run = json.loads(start("inference", "--device", "meta", "--json", *args))
    batch = int(args[args.index("--batch_size") + 1]) if "--batch_size" in args else 1
    return (run["predicted_prefill_ns"] + run["predicted_decode_ns"]) / batch, batch, run["ranks"]


def training_run(*args):
    run = json.loads(start("pretrain", "--device", "meta", "--json", *args))
    texts = run["batch_size"] * run["gradient_accumulation_steps"] * run["ranks"] / run["tp"]
    check(close(run["predicted_tokens_per_second"],
                texts * run["max_seq_length"] / run["predicted_step_ns"] * 1e9), f"{run}")
    return run["predicted_step_ns"] / texts, texts, run["ranks"]


def with_options(args, *options):
    kept = list(args)
    for option, value in zip(options[::2], options[1::2]):
        if option in kept:
            del kept[kept.index(option):kept.index(option) + 2]
        kept += [option, value]
    return kept


SIX = ["--num_output_tokens", "6"]
for run, name, args in (
        (inference_run, "inference", ["--model", "gpt2-xl", *SIX, "--hw", "h100+pytorch-eager"]),
        (inference_run, "inference", ["--model", "gpt3-13b", *SIX, "--dtype", "bf16", "--tp", "2",
                                      "--batch_size", "4", "--attention", "unfused"]),
        (inference_run, "inference", ["--model", "gpt2", *SIX, "--tp", "12"]),
        (training_run, "pretrain", ["--model", "gpt2", "--num_gpus", "4", "--tp", "4",
                                    "--batch_size", "2", "--activation_recompute", "full"])):
    found = suggestions(start(name, "--device", "meta", *args))
    check(1 <= len(found) <= 3, f"{args}: {found}")
    before, texts, ranks = run(*args)
    order = []
    for options, change, on, of in found:
        got, new_texts, new_ranks = run(*with_options(args, *options))
        check(abs(got / before - 1 - change) < 0.006 and change < 0, f"{args} {options}: {got}")
        check(on == (f" on {new_ranks} rank{'s' * (new_ranks > 1)}" if new_ranks != ranks else None)
              and of == (f" with {new_texts / texts:g} times the sequences" if new_texts != texts
                         else None), f"{args} {options}: {on}, {of}")
        check(options[0] not in ("--hw", "--num_gpus"), f"{args}: {options}")
        order.append((1 if new_ranks > ranks else 2 if new_texts > texts else 0, change))
    check(order == sorted(order), f"{args}: {found}")
    check(len({options[0] for options, *_ in found}) == len(found), f"an option twice: {found}")
check(["--tp", "2", "--batch_size", "1"] in [options for options, *_ in found],
      f"the same texts on the same ranks: {found}")


def dtypes(*args):
    out = start("inference", "--device", "meta", "--model", "gpt3-1.3b", *SIX, *args)
    return [options[1] for options, *_ in suggestions(out) if options[0] == "--dtype"]


check(dtypes("--hw", "v100-32g", "--dtype", "f32") == ["f16"], "a V100 has no peak of bf16")
check(dtypes("--hw", "v100-32g", "--dtype", "bf16") == ["f16"], "bf16 is f32's on a V100")
check(dtypes("--hw", "a100-80g", "--dtype", "f32") == ["bf16"] and dtypes("--hw", "cpu") == [],
      "an A100, a CPU")
check(dtypes("--hw", "a100-80g") == [] and dtypes("--hw", "v100-32g") == [], "16 bits already")
check(dtypes("--weight_dtype", "f16") == ["f16"] and dtypes("--weight_dtype", "bf16") == ["bf16"],
      "what the weights have already")
check("--dtype" not in start("pretrain", "--device", "meta", "--hw", "v100-32g"), "bf16 on a V100")
for quiet in (["--json"], ["--quiet"]):
    check("suggestions" not in start("inference", "--device", "meta", *SIX, *quiet), f"{quiet}")

# ---- models that do not fit into memory ----

for name, memory, args in (
        ("inference", "bf16 weights, KV cache and activations",
         ["--model", "gpt3-175b", "--dtype", "bf16", "--tp", "4", "--num_output_tokens", "2"]),
        ("inference", "f32 weights and activations",
         ["--model", "bert-base-uncased", "--batch_size", "64", "--hw", "toy.json"]),
        ("pretrain", "bf16 weights, gradients, optimizer and activations",
         ["--model", "gpt3-175b", "--dtype", "bf16", "--num_gpus", "8", "--tp", "8"]),
        ("pretrain", "f32 weights, gradients, optimizer and activations",
         ["--model", "gpt2", "--max_seq_length", "512", "--hw", "toy.json"])):
    with open("toy.json", "w", encoding="utf-8") as f:
        json.dump({"name": "a100-80g", "hardware": {
            "peak_tflops": {"f32": 10}, "memory_gib": 2.5 if name == "pretrain" else 0.46,
            "memory_gb_per_s": 800, "node_ranks": 8, "intra": {"alpha_us": 1, "gb_per_s": 100}},
            "stack": {"name": "s", "launch_us": 1, "matmul_efficiency": 0.5,
                      "memory_efficiency": 0.8}}, f)
    out = start(name, "--device", "meta", *args)
    need = re.search(r"^note: +each rank needs [\d.]+ .iB for (.*), but a100-80g has ", out, re.M)
    check(need and need.group(1) == memory and "suggestions" not in out, f"{args}: {out}")
    fits = re.search(r"^to fit:  (.*)$", out, re.M).group(1).split("), ")
    check(1 <= len(fits) <= 3, f"{args}: {fits}")
    for line in fits:
        options, size = line.rstrip(")").split(" (")
        again = start(name, "--device", "meta", *with_options(args, *options.split()))
        check("each rank needs" not in again, f"{args} {options}: {again}")
        if name == "pretrain":
            check(f"memory: {size}" in again, f"{args} {options}, {size}: {again}")
out = start("inference", "--device", "meta", "--model", "gpt3-175b", "--hw", "toy.json")
check("to fit:  none of the tried changes is enough" in out, out)
finish()
