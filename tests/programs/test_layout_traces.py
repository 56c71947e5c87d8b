"""Trace sets of training steps in many layouts can be simulated to the end. `validate` and
etcheck.py each replay all ranks of a set, and etcheck.py's ranks have one slot for computation and
one for communication. `validate` also finds collectives that differ between ranks, and messages
without a receiver."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, ETCHECK_PY, TOOLS, check, finish, run_etcheck  # noqa: E402
from pretrain_runs import BERT, GPT, LLAMA, Runs  # noqa: E402

MODELS = {"gpt8": {**GPT, "n_layer": 8}, "llama8": {**LLAMA, "num_hidden_layers": 8},
          "bert8": {**BERT, "num_hidden_layers": 8}}
M = "--gradient-accumulation-steps"
# Model and options. Every second set with ZeRO sums its gradients in bf16.
SETS = [
    ("gpt8", f"--num-gpus 4 --pp 4 --schedule gpipe {M} 8"),
    ("gpt8", f"--num-gpus 4 --pp 4 --schedule 1f1b {M} 2"),
    ("gpt8", f"--num-gpus 4 --pp 4 --schedule zb-h1 {M} 8"),
    ("llama8", f"--num-gpus 4 --pp 4 --schedule interleaved --vp 2 {M} 8"),
    ("llama8", f"--num-gpus 4 --pp 2 --schedule interleaved --vp 4 --microbatch-group 3 {M} 6"),
    ("gpt8", f"--num-gpus 8 --tp 2 --pp 2 --sp --zero 1 --schedule interleaved --vp 2 {M} 4"),
    ("gpt8", f"--num-gpus 8 --tp 2 --pp 2 --sp --zero 1 --rank-order pp-dp-tp {M} 4"),
    ("llama8", f"--num-gpus 8 --tp 2 --pp 2 --sp --sp-keep --zero 2 --schedule zb-h1 {M} 4"),
    ("llama8", f"--num-gpus 8 --tp 2 --pp 2 --zero 3 --rank-order tp-pp-dp {M} 4"),
    ("gpt8", f"--num-gpus 8 --pp 4 --layers-per-stage 1,3,3,1 --zero 2 --buckets none {M} 4"),
    ("llama8", f"--num-gpus 8 --pp 2 --zero 3 --hsdp 2 --schedule gpipe {M} 4"),
    ("llama8", f"--num-gpus 8 --tp 2 --zero 3 --hsdp 2 --activation-recompute full {M} 2"),
    ("gpt8", f"--num-gpus 4 --zero 3 --no-reshard {M} 2"),
    ("gpt8", f"--num-gpus 4 --zero 2 --buckets megatron --activation-recompute selective {M} 2"),
    ("bert8", f"--num-gpus 8 --tp 2 --pp 2 --sp --zero 3 {M} 4"),
    ("bert8", f"--num-gpus 4 --pp 4 --schedule zb-h1 {M} 4 --activation-recompute full"),
    ("gpt8", f"--num-gpus 4 --pp 4 --layout Et|||t*7L --schedule 1f1b {M} 4"),
    ("gpt8", "--num-gpus 4 --tp 2 --pp 2 --schedule 1f1b"),
    ("llama8", f"--num-gpus 8 --cp 4 --pp 2 --zero 1 {M} 4"),
    ("llama8", f"--num-gpus 8 --tp 2 --cp 2 --pp 2 --sp --schedule zb-h1 {M} 4"),
    ("llama8", f"--num-gpus 8 --cp 4 --cp-comm all_gather --zero 3 {M} 2"),
    ("llama8", f"--num-gpus 4 --cp 2 --cp-comm a2a --activation-recompute op {M} 2"),
    ("llama8", f"--num-gpus 8 --cp 8 --cp-comm a2a+p2p --cp-a2a 2 {M} 2"),
    ("llama8", f"--num-gpus 4 --cp 4 --activation-recompute full {M} 2"),
]


def simulate(runs, number, model, options):
    out = f"set{number}"
    bf16 = ["--reduce-dtype", "bf16"] if number % 2 and ("--zero" in options) else []
    done = runs.start("--device", "meta", "--model-config", f"{model}.json", "--max-seq-length",
                      "32", "--batch-size", "1", "--enable-tracing", "--out-dir", out,
                      *options.split(), *bf16)
    if not check(done.returncode == 0, f"{options}: {done.stderr}"):
        return
    prefix = runs.path(f"{out}/trace")
    done = subprocess.run([os.path.join(BUILD, "syntorch"), "validate", prefix], check=False,
                          capture_output=True, text=True)
    check(done.returncode == 0 and "finishes" in done.stdout,
          f"{options}: {done.stdout}{done.stderr}")
    if TOOLS and os.path.isfile(ETCHECK_PY):
        done = run_etcheck(prefix)
        check(done.returncode == 0 and ", 0 problems" in done.stdout,
              f"{options}: {done.stdout}{done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        for name, config in MODELS.items():
            runs.configure(name, config)
        for number, (model, options) in enumerate(SETS):
            simulate(runs, number, model, options)
    finish()


main()
