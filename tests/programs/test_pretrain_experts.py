"""Tests training of mixtures of experts: with every combination of expert, tensor, sequence,
pipeline and data parallelism, with ZeRO and recomputed activations, losses are those of one rank.
Models are saved whole, and transformers' names of experts' matrices are kept."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish  # noqa: E402
from pretrain_runs import LLAMA, MPIRUN, Runs, launcher, losses, tensors  # noqa: E402

COMMON = {**LLAMA, "num_hidden_layers": 4, "max_position_embeddings": 64}
LATENT = {**COMMON, "num_key_value_heads": 4, "kv_lora_rank": 12, "q_lora_rank": 20,
          "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8,
          "n_shared_experts": 1, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
          "n_group": 4, "topk_group": 2}
MODELS = {"qwen": {**COMMON, "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 24, "norm_topk_prob": True, "head_dim": 8,
                   "mlp_only_layers": [1]},
          "shared": {**COMMON, "model_type": "qwen2_moe", "num_experts": 4,
                     "num_experts_per_tok": 3, "moe_intermediate_size": 16,
                     "shared_expert_intermediate_size": 32},
          "mixtral": {**COMMON, "model_type": "mixtral", "num_local_experts": 4},
          "v3": {**LATENT, "model_type": "deepseek_v3", "first_k_dense_replace": 1},
          "v2": {**LATENT, "model_type": "deepseek_v2", "q_lora_rank": None},
          "oss": {**COMMON, "model_type": "gpt_oss", "num_local_experts": 4, "head_dim": 8,
                  "num_experts_per_tok": 2, "sliding_window": 9, "swiglu_limit": 0.5,
                  "initializer_range": 0.1},
          "llama": {**COMMON, "tie_word_embeddings": True},
          # Without experts, tensor parallelism also works without sequence parallelism.
          "latent": {**LATENT, "model_type": "deepseek_v3", "first_k_dense_replace": 4}}
STEPS = ["--max-seq-length", "64", "--max-steps", "4", "--learning-rate", "3e-3", "--skip-eval"]
# Each layout has 8 samples per step: microbatches of `batch` samples.
LAYOUTS = [(4, "--num-gpus 2 --ep 2"),
           (2, "--num-gpus 4 --ep 4 --activation-recompute full"),
           (2, "--num-gpus 4 --ep 2 --zero 1"),
           (1, "--num-gpus 4 --ep 2 --zero 2 --gradient-accumulation-steps 2"),
           (4, "--num-gpus 2 --tp 2 --sp --gradient-accumulation-steps 2"),
           (4, "--num-gpus 4 --tp 2 --sp --ep 4"),
           (4, "--num-gpus 4 --tp 2 --sp --etp 1 --activation-recompute selective"),
           (2, "--num-gpus 8 --tp 2 --pp 2 --sp --ep 2 --etp 1 --gradient-accumulation-steps 2"),
           (1, "--num-gpus 8 --tp 2 --pp 2 --sp --ep 2 --etp 1 --zero 1 "
               "--gradient-accumulation-steps 4 --schedule zb-h1"),
           (1, "--num-gpus 4 --pp 2 --vp 2 --schedule interleaved --ep 2 "
               "--gradient-accumulation-steps 4"),
           # each expert on one rank, which ZeRO does not divide
           (2, "--num-gpus 2 --ep 2 --zero 1 --gradient-accumulation-steps 2")]

# Several ranks share each expert (etp), which get different numbers of rows.
PARTS = [(4, "--num-gpus 4 --tp 2 --sp --ep 2 --etp 2"),
         (2, "--num-gpus 4 --ep 2 --etp 2 --activation-recompute full"),
         (2, "--num-gpus 8 --tp 2 --sp --ep 2 --etp 2 --zero 1"),
         (1, "--num-gpus 8 --ep 2 --etp 4 --zero 2"),
         (1, "--num-gpus 8 --tp 2 --pp 2 --sp --ep 2 --etp 2 --zero 1 "
             "--gradient-accumulation-steps 4 --schedule zb-h1")]


def as_one_rank(runs):
    tensor = [(8, "--num-gpus 2 --tp 2"),
              (4, "--num-gpus 4 --tp 2 --activation-recompute selective")]
    for name, layouts in (("qwen", LAYOUTS + PARTS), ("shared", LAYOUTS[2:8:2] + PARTS[:1]),
                          ("mixtral", LAYOUTS[5:8] + PARTS[:2]),
                          ("v3", LAYOUTS[5:9] + PARTS[::4]), ("v2", LAYOUTS[4:8:3]),
                          ("latent", tensor),
                          ("oss", LAYOUTS[1:9] + PARTS)):
        one, _ = runs.train(name, *STEPS, "--batch-size", "8")
        gathered = [(batch, layout + " --moe-dispatcher allgather")
                    for batch, layout in layouts[1::2] if name == "qwen" and "--ep" in layout]
        for batch, layout in layouts + gathered:
            got, _ = runs.train(name, *STEPS, "--batch-size", str(batch), *layout.split())
            off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
            check(off < 2e-6, f"{name}, {layout}: {losses(got)}, not {losses(one)}")


# Each microbatch has one sample, so that the losses of routers do not depend on the layout.
BALANCED = ["--num-gpus 2 --ep 2", "--num-gpus 2 --tp 2 --sp", "--num-gpus 2 --cp 2",
            "--num-gpus 4 --tp 2 --sp --ep 4 --activation-recompute op",
            "--num-gpus 8 --tp 2 --pp 2 --sp --ep 2 --zero 1 --schedule zb-h1",
            "--num-gpus 8 --tp 2 --cp 2 --sp --ep 4",
            "--num-gpus 4 --pp 2 --ep 2 --zero 1 --schedule dualpipe"]


def biases(folder, model="last_model"):
    """The biases of routers by layer, in steps of the rate 0.01."""
    return {name: [round(x / 0.01) for x in values]
            for name, values in tensors(os.path.join(folder, model)).items()
            if name.endswith("e_score_correction_bias")}


def balanced(runs):
    """The losses of routers and the updates of their biases are those of one rank."""
    losses_of = ["--moe-aux-loss-coeff", "0.1", "--moe-z-loss-coeff", "0.01"]
    for name, options in (("qwen", losses_of), ("v3", ["--moe-router-bias-update-rate", "0.01"]),
                          ("mixtral", losses_of[2:])):
        run = [*STEPS, *options, "--batch-size", "1", "--gradient-accumulation-steps"]
        one, folder = runs.train(name, *run, "8")
        want = biases(folder)
        for layout in BALANCED:
            numbers = dict(zip(layout.split(), layout.split()[1:]))
            others = [int(numbers.get(key, 1)) for key in ("--tp", "--cp", "--pp")]
            passes = 8 * math.prod(others) // int(numbers["--num-gpus"])
            got, other = runs.train(name, *run, str(passes), *layout.split())
            off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
            check(off < 2e-6, f"{name}, {layout}: {losses(got)}, not {losses(one)}")
            if name == "v3":
                check(biases(other) == want, f"{layout}: {biases(other)}, not {want}")
        without, _ = runs.train(name, *STEPS, "--batch-size", "1",
                                "--gradient-accumulation-steps", "8")
        check(losses(without) != losses(one), f"{name}: the options have no effect")


def configured(runs):
    """As in transformers, output_router_logits turns on the auxiliary loss."""
    run = [*STEPS, "--batch-size", "2"]
    given, _ = runs.train("qwen", *run, "--moe-aux-loss-coeff", "0.125")
    runs.configure("logits", {**MODELS["qwen"], "output_router_logits": True,
                              "router_aux_loss_coef": 0.125})
    got, folder = runs.train("logits", *run)
    check(losses(got) == losses(given), f"output_router_logits: {got}, not {given}")
    off, _ = runs.train("logits", *run, "--moe-aux-loss-coeff", "0")
    without, _ = runs.train("qwen", *run)
    check(losses(off) == losses(without), f"--moe-aux-loss-coeff 0: {off}, not {without}")
    with open(os.path.join(folder, "last_model", "config.json"), encoding="utf-8") as f:
        saved_as = json.load(f)
    check(saved_as["output_router_logits"] is True and saved_as["router_aux_loss_coef"] == 0.125,
          str(saved_as))


def limited(runs):
    """With a capacity that no expert exceeds, losses are those without. Otherwise each rank drops
    tokens of its own, so losses depend only on the tokens of a rank."""
    run = [*STEPS, "--batch-size", "1", "--gradient-accumulation-steps"]
    whole, _ = runs.train("qwen", *run, "8")
    for capacity in ("4", "0.75"):  # of 8 experts, a token uses 2
        one, _ = runs.train("qwen", *run, "8", "--capacity", capacity)
        for passes, layout in (("4", "--num-gpus 2 --ep 2 --activation-recompute full"),
                               ("2", "--num-gpus 4 --ep 2 --etp 2")):
            got, _ = runs.train("qwen", *run, passes, "--capacity", capacity, *layout.split())
            off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
            check(off < 2e-6, f"--capacity {capacity}: {losses(got)}, not {losses(one)}")
        off = max(abs(a / b - 1) for a, b in zip(losses(one), losses(whole), strict=True))
        check((off < 2e-6) == (capacity == "4"), f"--capacity {capacity}: {losses(one)}")


def resumed(runs):
    """A resumed run has the biases of routers, and the losses, of one that was not interrupted."""
    run = ["--batch-size", "2", "--max-steps", "4", "--skip-eval", "--save-steps", "2",
           "--moe-router-bias-update-rate", "0.01", "--learning-rate", "3e-3"]
    whole, folder = runs.train("v3", *run)
    want = biases(folder, "checkpoint-4")
    check(any(any(values) for values in want.values()), f"the biases are {want}")
    shutil.rmtree(os.path.join(folder, "checkpoint-4"))
    again = ["--model-config", "v3.json", "--max-seq-length", "64", "--save-dir", folder, *run]
    done = runs.start(*again, "--resume")
    check(done.returncode == 0 and losses(runs.rows(folder)) == losses(whole), done.stderr)
    got = biases(folder, "checkpoint-4")
    check(got == want != biases(folder, "checkpoint-2"), f"{got}, not {want}")
    done = runs.start(*again[:-4], *again[-2:], "--resume")
    check("--moe-router-bias-update-rate was 0.01, not 0" in done.stderr, done.stderr)


# Each layout has 8 samples per step. A checkpoint of each is resumed in the next one, too.
RESUMED = [(8, ""), (2, "--num-gpus 4 --ep 4"),
           (1, "--num-gpus 4 --ep 4 --zero 2 --gradient-accumulation-steps 2"),
           (4, "--num-gpus 2 --tp 2 --sp --gradient-accumulation-steps 2"),
           (4, "--num-gpus 4 --tp 2 --sp --ep 4"),
           (1, "--num-gpus 8 --tp 2 --pp 2 --sp --ep 2 --zero 1 --schedule zb-h1 "
               "--gradient-accumulation-steps 4"),
           (4, "--num-gpus 4 --tp 2 --sp --etp 1 --zero 1"),
           (4, "--num-gpus 4 --tp 2 --sp --ep 2"), PARTS[0], PARTS[2], PARTS[3],
           (1, "--num-gpus 8 --tp 2 --sp --ep 8 --rank-order dp-tp-pp "
               "--gradient-accumulation-steps 2")]


def resumed_in_another_layout(runs):
    """A checkpoint of experts on several ranks resumes bit for bit in its own layout, and with the
    same losses in another one."""
    run = ["--skip-eval", "--save-steps", "2", "--max-steps", "4", "--batch-size"]
    for i, (batch, layout) in enumerate(RESUMED):
        whole, folder = runs.train("qwen", *run, str(batch), *layout.split())
        want = [losses(whole), losses(whole, "grad_norm")]
        for others, other in (RESUMED[i], RESUMED[(i + 1) % len(RESUMED)]):
            shutil.rmtree(os.path.join(folder, "checkpoint-4"))
            done = runs.start("--model-config", "qwen.json", "--max-seq-length", "64",
                              "--learning-rate", "3e-3", "--save-dir", folder, "--resume", *run,
                              str(others), *other.split())
            rows = runs.rows(folder)
            got = [losses(rows), losses(rows, "grad_norm")]
            off = max(abs(a / b - 1) for x, y in zip(got, want) for a, b in zip(x, y, strict=True))
            check(done.returncode == 0 and (got == want if other == layout else off < 2e-6),
                  f"{layout} -> {other}: {got}, not {want}: {done.stderr}")


def several_tokens(runs):
    """Multi-token prediction: the token table is on the first and the last stage."""
    for name, mtp, layouts in (
            ("v3", 1, [(2, "--num-gpus 8 --tp 2 --pp 2 --sp --ep 2 --etp 1 "
                           "--gradient-accumulation-steps 2 --layout Ettt|tmL"),
                       (2, "--num-gpus 4 --ep 2 --zero 2 --activation-recompute full --mtp 1")]),
            ("llama", 2, [(2, "--num-gpus 4 --tp 2 --pp 2 --gradient-accumulation-steps 4 --mtp 2"),
                          (4, "--num-gpus 2 --zero 3 --mtp 2")])):
        one, folder = runs.train(name, *STEPS, "--batch-size", "8", "--mtp", str(mtp))
        without, _ = runs.train(name, *STEPS, "--batch-size", "8")
        # Of 64 tokens, 63 have a next one, and 63 - k have the one after k others.
        want = losses(without)[0] * (1 + 0.1 / mtp * sum((62 - k) / 63 for k in range(mtp)))
        check(abs(losses(one)[0] / want - 1) < 0.01, f"{name}: {losses(one)}, not {want}")
        for batch, layout in layouts:
            got, _ = runs.train(name, *STEPS, "--batch-size", str(batch), *layout.split())
            off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
            check(off < 2e-6, f"{name}, {layout}: {losses(got)}, not {losses(one)}")
        # The saved model trains on, and generates without the additional layers.
        weights = ["--weights", os.path.join(folder, "last_model")]
        done = runs.start(*weights, *STEPS, "--batch-size", "8", "--mtp", str(mtp), "--save-dir",
                          runs.path("more"))
        check(done.returncode == 0 and
              losses(runs.rows(runs.path("more")))[0] < losses(one)[-1], done.stderr)
        done = subprocess.run([os.path.join(BUILD, "inference"), *weights, "--device", "meta",
                               "--num_output_tokens", "2", "--num_input_tokens", "5"],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stderr)


def over_mpi(runs):
    """Uneven all-to-alls over MPI."""
    for more in (["--ep", "4"], ["--ep", "2", "--etp", "2"]):
        layout = ["--batch-size", "2", "--num-gpus", "4", *more]
        one, _ = runs.train("qwen", *STEPS, *layout)
        got, _ = runs.train("qwen", *STEPS, *layout, launcher=launcher("4"))
        off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
        check(off < 2e-6, f"MPI, {more}: {losses(got)}, not {losses(one)}")


def traced(runs):
    """The all-to-alls of ranks whose routers choose different experts have the same size on all
    ranks, because simulators stop at different ones."""
    runs.train("qwen", *STEPS[:2], "--max-steps", "1", "--skip-eval", "--batch-size", "1",
               "--num-gpus", "4", "--ep", "4", "--enable-tracing", "--trace-wait-steps", "0",
               "--out-dir", "traces", "--moe-aux-loss-coeff", "0.01")
    for command in ("validate", "simulate"):
        done = subprocess.run([os.path.join(BUILD, "syntorch"), command, "--input",
                               runs.path("traces/trace")], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")


def header(folder):
    with open(os.path.join(folder, "best_model", "model.safetensors"), "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))


def saved(runs):
    """The saved model has a matrix per expert, from all ranks, and training continues from it."""
    names, folder = saved_twice(runs, "qwen")
    check(names["model.layers.0.mlp.experts.7.down_proj.weight"]["shape"] == [32, 24]
          and "model.layers.1.mlp.down_proj.weight" in names
          and "model.layers.1.mlp.experts.0.down_proj.weight" not in names, str(names))
    trains_on(runs, folder)


def saved_stacks(runs):
    """A gpt-oss has the matrices of all experts in one tensor."""
    names, folder = saved_twice(runs, "oss")
    stem, inner = "model.layers.3.mlp.experts.", COMMON["intermediate_size"]
    shapes = {"gate_up_proj": [4, 32, 2 * inner], "gate_up_proj_bias": [4, 2 * inner],
              "down_proj": [4, inner, 32], "down_proj_bias": [4, 32]}
    check({k.removeprefix(stem): v["shape"] for k, v in names.items() if k.startswith(stem)}
          == shapes and names["model.layers.0.self_attn.sinks"]["shape"] == [4], str(names))
    trains_on(runs, folder)


def saved_twice(runs, name):
    """Trains a model on one and on four ranks. Returns the tensors and the second folder."""
    first = STEPS[:3] + ["2"] + STEPS[4:-1]  # 2 steps, and evaluation, which saves best_model
    _, one = runs.train(name, *first, "--batch-size", "8")
    for layout in ("--ep 2 --etp 2", "--ep 4"):
        _, folder = runs.train(name, *first, "--batch-size", "2", "--num-gpus", "4",
                               *layout.split())
        check(header(folder) == header(one), f"{layout}: the files have other tensors")
        got, want = (tensors(os.path.join(of, "best_model")) for of in (folder, one))
        off = max(abs(a - b) for key, values in want.items()
                  for a, b in zip(got[key], values, strict=True))
        check(off < 2e-4, f"{layout}: saved weights are off by {off}")
    return header(folder), folder


def trains_on(runs, folder):
    after = []
    for more in (("--batch-size", "8"), ("--batch-size", "4", "--num-gpus", "2", "--ep", "2"),
                 ("--batch-size", "2", "--num-gpus", "4", "--ep", "2", "--etp", "2")):
        path = runs.path(f"after{len(after)}_{os.path.basename(folder)}")
        done = runs.start("--weights", os.path.join(folder, "best_model"), *STEPS, "--save-dir",
                          path, *more)
        check(done.returncode == 0, done.stderr)
        after.append(losses(runs.rows(path)))
    for other in after[1:]:
        check(max(abs(a / b - 1) for a, b in zip(after[0], other, strict=True)) < 2e-6, str(after))


DUAL = ["--num-gpus", "2", "--pp", "2", "--schedule", "dualpipe"]
REFUSED = [
    (["--num-gpus", "2", "--tp", "2"], "training experts with --tp 2 needs --sp"),
    (["--num-gpus", "4", "--tp", "2", "--sp", "--ep", "2", "--etp", "2", "--device", "meta",
      "--moe-dispatcher", "deepep"], "--moe-dispatcher deepep cannot be used with --etp 2"),
    (["--num-gpus", "2", "--etp", "2"], "use etp 1"),
    (["--num-gpus", "3", "--ep", "3"], "ep 3 does not divide the 8 experts"),
    (["--num-gpus", "4", "--ep", "3"], "4 ranks are not a multiple of etp 1 x ep 3 = 3"),
    (["--num-gpus", "4", "--ep", "2", "--zero", "3"], "ZeRO 3 cannot divide experts"),
    (["--moe-router-bias-update-rate", "0.1"], "needs routers with a bias"),
    (["--capacity", "0"], "--capacity must be between 1e-06 and"),
    (["--num-gpus", "2", "--ep", "2", "--routing", "zipf:1,1"], "is for --device meta"),
    (["--num-gpus", "2", "--ep", "2", "--moe-dispatcher", "deepep"], "is for --device meta"),
    (["--num-gpus", "2", "--ep", "2", "--moe-dispatcher", "allgather", "--capacity", "1"],
     "--capacity needs --moe-dispatcher alltoall"),
    (["--moe-dispatcher", "allgather"], "has no effect without --ep"),
    (["--num-gpus", "2", "--ep", "2", "--overlap-a2a"], "is for --device meta"),
    (["--num-gpus", "4", "--pp", "2", "--ep", "2", "--overlap-a2a", "--device", "meta",
      "--gradient-accumulation-steps", "4"], "with --pp 2 needs --vp or --schedule dualpipe"),
    ([*DUAL, "--gradient-accumulation-steps", "2"],
     "needs an even number of microbatches, at least 4, not 2"),
    ([*DUAL[2:], "--num-gpus", "3", "--pp", "3"], "even number of stages (pp), not 3"),
    ([*DUAL[2:], "--num-gpus", "4", "--zero", "3"], "use zero 1 or 2"),
    ([*DUAL, "--gradient-accumulation-steps", "4", "--save-steps", "1"], "omit --save-steps"),
    (["--num-gpus", "2", "--ep", "2", "--moe-dispatch-fp8"],
     "has no effect without --moe-dispatcher deepep"),
    (["--moe-aux-loss-coeff", "-1"], "--moe_aux_loss_coeff must be between 0 and"),
]


def refused(runs):
    for arguments, sentence in REFUSED:
        done = runs.start("--model-config", "qwen.json", *STEPS, "--save-dir", runs.path("none"),
                          *arguments)
        check(done.returncode != 0 and sentence in done.stderr, f"{arguments}: {done.stderr}")
    done = runs.start("--model-config", "gpt.json", "--num-gpus", "2", "--ep", "2")
    check(done.returncode != 0 and "has no experts" in done.stderr, done.stderr)
    done = runs.start("--model-config", "gpt.json", "--moe-z-loss-coeff", "0.1")
    check(done.returncode != 0 and "--moe-z-loss-coeff needs a router" in done.stderr, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        for name, config in MODELS.items():
            runs.configure(name, config)
        as_one_rank(runs)
        balanced(runs)
        configured(runs)
        limited(runs)
        resumed(runs)
        resumed_in_another_layout(runs)
        several_tokens(runs)
        if MPIRUN:
            over_mpi(runs)
        traced(runs)
        saved(runs)
        saved_stacks(runs)
        refused(runs)
    finish()


main()
