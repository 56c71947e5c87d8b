"""Tests training with context parallelism. With every way to exchange keys and values, together
with tensor, sequence, pipeline, data and expert parallelism, ZeRO and recomputed activations,
losses and parameters are those of one rank. Traces are the same on meta, and what is not supported
is refused with a sentence."""
import collections
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish, run  # noqa: E402
from execution_trace import read_et  # noqa: E402
from pretrain_runs import LLAMA, MPIRUN, Runs, launcher, losses, same_model  # noqa: E402

COMMON = {**LLAMA, "num_hidden_layers": 4, "max_position_embeddings": 64}
LATENT = {**COMMON, "num_key_value_heads": 4, "kv_lora_rank": 12, "q_lora_rank": 20,
          "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8,
          "n_shared_experts": 1, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
          "n_group": 4, "topk_group": 2}
MODELS = {"llama": COMMON,
          "latent": {**LATENT, "model_type": "deepseek_v3", "first_k_dense_replace": 4},
          "long": {**COMMON, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
          "window": {**COMMON, "model_type": "mistral", "sliding_window": 24},
          "qwen": {**COMMON, "model_type": "qwen3", "head_dim": 8, "num_key_value_heads": 1},
          "oss": {**COMMON, "model_type": "gpt_oss", "num_local_experts": 4, "head_dim": 8,
                  "num_experts_per_tok": 2, "sliding_window": 9},
          "sinks": {**COMMON, "model_type": "gpt_oss", "layer_types": ["full_attention"] * 4},
          "mixtral": {**COMMON, "model_type": "mixtral", "num_local_experts": 4}}
STEPS = ["--max-steps", "4", "--learning-rate", "3e-3", "--skip-eval", "--dropout", "0"]
# Each layout has 4 samples per step: microbatches of `batch` samples.
GPT_LAYOUTS = [(4, "--num-gpus 2 --cp 2"),
               (4, "--num-gpus 4 --cp 4"),
               (4, "--num-gpus 4 --cp 4 --cp-comm all_gather"),
               (4, "--num-gpus 4 --cp 4 --cp-comm a2a"),
               (4, "--num-gpus 4 --cp 4 --cp-comm a2a+p2p --cp-a2a 2"),
               (1, "--num-gpus 4 --cp 2 --pp 2 --gradient-accumulation-steps 4")]
LAYOUTS = [(4, "--num-gpus 4 --tp 2 --cp 2"),
           (4, "--num-gpus 8 --cp 8"),
           (2, "--num-gpus 8 --tp 2 --cp 2 --pp 2 --sp --zero 1 --gradient-accumulation-steps 2"),
           (2, "--num-gpus 4 --cp 2 --zero 2"),
           (1, "--num-gpus 8 --cp 2 --zero 3 --activation-recompute full"),
           (4, "--num-gpus 4 --cp 4 --activation-recompute selective"),
           (2, "--num-gpus 4 --cp 2 --cp-comm all_gather --pp 2 --schedule zb-h1 "
               "--gradient-accumulation-steps 2 --activation-recompute full"),
           (4, "--num-gpus 2 --cp 2 --cp-comm a2a --activation-recompute op"),
           (2, "--num-gpus 8 --cp 4 --cp-comm a2a+p2p --cp-a2a 2 --zero 1"),
           (1, "--num-gpus 4 --cp 2 --pp 2 --vp 2 --schedule interleaved "
               "--gradient-accumulation-steps 4")]
WINDOW_LAYOUTS = [(4, "--num-gpus 2 --cp 2 --cp-comm a2a")]
SPARSE_LAYOUTS = [(4, "--num-gpus 2 --cp 2 --ep 2"),
                  (2, "--num-gpus 4 --cp 2 --ep 4"),
                  (2, "--num-gpus 8 --tp 2 --cp 2 --sp --ep 4 --etp 1 --zero 1")]
SHARED_HEADS = [(4, "--num-gpus 4 --tp 2 --cp 2 --sp")]
LATENT_LAYOUTS = [(4, "--num-gpus 4 --tp 2 --cp 2 --sp"),  # values are narrower than keys
                  (4, "--num-gpus 2 --cp 2 --cp-comm all_gather"),
                  (4, "--num-gpus 4 --cp 4 --cp-comm a2a+p2p --cp-a2a 2")]


def as_one_rank(runs):
    for name, layouts in (("gpt", GPT_LAYOUTS), ("llama", LAYOUTS), ("window", WINDOW_LAYOUTS),
                          ("mixtral", SPARSE_LAYOUTS), ("qwen", SHARED_HEADS),
                          ("long", LAYOUTS[:1]), ("latent", LATENT_LAYOUTS),
                          ("oss", WINDOW_LAYOUTS)):
        one, alone = runs.train(name, *STEPS, "--batch-size", "4")
        for batch, layout in layouts:
            got, folder = runs.train(name, *STEPS, "--batch-size", str(batch), *layout.split())
            off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
            check(off < 2e-6, f"{name}, {layout}: {losses(got)}, not {losses(one)}")
            if name in ("gpt", "llama"):  # AdamW scales up the rounding errors of the others
                check(same_model(os.path.join(folder, "last_model"),
                                 os.path.join(alone, "last_model")), f"{name}, {layout}: models")


def over_mpi(runs):
    for layout in ("--num-gpus 4 --tp 2 --cp 2",
                   "--num-gpus 4 --cp 4 --cp-comm a2a+p2p --cp-a2a 2"):
        options = [*STEPS, "--batch-size", "2", *layout.split()]
        one, _ = runs.train("llama", *options)
        got, _ = runs.train("llama", *options, launcher=launcher("4"))
        off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
        check(off < 2e-6, f"MPI, {layout}: {losses(got)}, not {losses(one)}")


def in_between(runs):
    """Validation, and a run that continues from a checkpoint with another layout."""
    options = ["--learning-rate", "3e-3", "--dropout", "0"]
    one, _ = runs.train("llama", *options, "--max-steps", "4", "--batch-size", "4")
    got, _ = runs.train("llama", *options, "--max-steps", "4", "--batch-size", "2", "--num-gpus",
                        "4", "--cp", "2")
    check(max(abs(a / b - 1) for a, b in zip(losses(got, "eval_loss"), losses(one, "eval_loss"),
                                             strict=True)) < 2e-6, f"validation: {got}")
    first = [*STEPS[:1], "2", *STEPS[2:], "--save-steps", "2"]
    rows, folder = runs.train("llama", *first, "--batch-size", "2", "--num-gpus", "4", "--cp", "2",
                              "--zero", "1")
    for layout in ("--batch-size 4 --num-gpus 4 --cp 4", "--batch-size 4"):
        done = runs.start("--model-config", "llama.json", "--max-seq-length", "64", *STEPS,
                          "--save-steps", "2", "--resume", "--save-dir", folder, *layout.split())
        check(done.returncode == 0, done.stderr)
        got = losses(runs.rows(folder))
        check(max(abs(a / b - 1) for a, b in zip(got, losses(one), strict=True)) < 1e-5,
              f"resumed with {layout}: {got}, not {losses(one)}")
        subprocess.run(["rm", "-r", os.path.join(folder, "checkpoint-4")], check=True)


def rows_of(path):
    """Returns the nodes of a trace without their times."""
    with open(path, "rb") as f:
        _, nodes = read_et(f.read())
    return [(n.id, n.name, n.type, sorted(n.ctrl), sorted(n.data),
             sorted((k, str(v)) for k, v in n.attr.items()
                    if k.startswith("comm") or k in ("num_ops", "tensor_size", "pg_name")))
            for n in nodes]


def same_traces(runs):
    """The traces of all ranks are the same on the CPU and on meta. All ranks have the same flops of
    attention, together those of one rank, although the shapes of their blocks differ."""
    one = 0
    for number, layout in enumerate(("--num-gpus 1", "--num-gpus 4 --tp 2 --cp 2",
                                     "--num-gpus 4 --cp 4",
                                     "--num-gpus 4 --cp 4 --cp-comm all_gather",
                                     "--num-gpus 2 --cp 2 --cp-comm a2a",
                                     "--num-gpus 4 --cp 4 --cp-comm a2a+p2p --cp-a2a 2")):
        files = {}
        for device in ("cpu", "meta"):
            out = runs.path(f"traces{number}_{device}")
            done = runs.start("--model-config", "llama.json", "--max-seq-length", "64", *STEPS,
                              "--batch-size", "1", "--device", device, "--enable-tracing",
                              "--out-dir", out, "--save-dir", runs.path("none"), *layout.split())
            check(done.returncode == 0, f"{device}, {layout}: {done.stderr}")
            ranks = int(layout.split()[1])
            files[device] = [rows_of(os.path.join(out, f"trace.{r}.et")) for r in range(ranks)]
            done = run("validate", os.path.join(out, "trace"))
            check(done.returncode == 0 and b" warnings" not in done.stdout,
                  f"{layout}: {done.stdout.decode()}")
        check(files["cpu"] == files["meta"], f"{layout}: meta differs")
        flops = [sum(int(dict(n[5])["num_ops"]) for n in rows
                     if n[1].endswith(("attention_train", "attention_grad")))
                 for rows in files["meta"]]
        one = one or sum(flops)
        check(min(flops) == max(flops) and sum(flops) == one > 0,
              f"{layout}: flops of attention {flops}, not {one} together")


def counted_by_hand(runs):
    """a2a+p2p: 8 ranks share sequences of 64 tokens; 2 exchange heads, and 4 form a ring. A rank
    has 8 tokens of 2 samples, 4 query heads, 2 key/value heads and head_dim 8, in f32: q and out
    have 2 x 8 x 4 x 8 x 4 B = 2,048 B, k and v 1,024 B. After the all-to-alls, a rank has 16 tokens
    of one key/value head, so a message of keys and values has 2 x 16 x 2 x 8 x 4 B = 2,048 B. In
    each of 4 layers there are 4 all-to-alls in each pass, and 3 messages in forward and 6 in
    backward. Each rank records the messages that it sends and those that it receives."""
    out = runs.path("hand")
    done = subprocess.run(
        [os.path.join(BUILD, "synth"), "--model-config", "llama.json", "--dtype", "f32",
         "--max-seq-length", "64", "--micro-batch", "2", "--out", f"{out}/trace",
         *"--cp 8 --cp-comm a2a+p2p --cp-a2a 2 --quiet".split()],
        cwd=runs.folder, capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stderr)
    for rank in range(8):
        with open(f"{out}/trace.{rank}.et", "rb") as f:
            _, nodes = read_et(f.read())
        sizes = collections.Counter()
        for n in nodes:
            if n.name.endswith("all_to_all"):
                sizes["all_to_all", n.attr["comm_size"]] += 1
            if "comm_src" in n.attr:
                ring = [n.attr["comm_src"], n.attr["comm_dst"]]
                check((ring[1] - ring[0]) % 8 == 2, f"rank {rank}: a message {ring}")
                sizes["message", n.attr["comm_size"]] += 1
        check(sizes == {("all_to_all", 2048): 16, ("all_to_all", 1024): 16, ("message", 2048): 72},
              f"rank {rank}: {sizes}")


def divided_memory(runs):
    """Activations of a long context, beyond the positions of the preset, are divided among the
    ranks."""
    peak = {}
    for cp in (1, 4):
        done = subprocess.run(
            [os.path.join(BUILD, "synth"), *"--model llama-3-8b --layers 2 --max-seq-length 131072 "
             "--activation-recompute full --dry-run --json --cp".split(), str(cp)],
            capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stderr)
        said = json.loads(done.stdout)
        peak[cp] = said["memory"]["activations_bytes"]
    check(3 < peak[1] / peak[4] < 4.2, f"activations: {peak}")


GPT_REFUSED = [
    (["--num-gpus", "2", "--cp", "2", "--max-seq-length", "30"],
     "with --cp, --max-seq-length must be a multiple of 2 x cp: 30 is not one of 4"),
    (["--num-gpus", "4", "--cp", "2", "--tp", "2", "--sp", "--max-seq-length", "36"],
     "with --cp and --sp, --max-seq-length must be a multiple of 2 x cp x tp: 36 is not one of 8"),
    (["--num-gpus", "3", "--cp", "2"], "3 ranks are not a multiple of tp 1 x cp 2"),
    (["--num-gpus", "8", "--cp", "8", "--cp-comm", "a2a"],
     "all-to-alls of 8 ranks (cp_comm) cannot divide the 4 query heads of a rank (tp 1)"),
    (["--num-gpus", "2", "--cp", "2", "--dropout", "0.1"],
     "--cp does not support dropout, and that of gpt is 0.1; give --dropout 0"),
    (["--num-gpus", "2", "--cp", "2", "--recipe", "reference"],
     "--cp does not support --recipe reference, which masks padding"),
    (["--num-gpus", "2", "--cp", "2", "--activation-recompute", "op"],
     "--activation-recompute op with --cp 2 needs --cp-comm a2a, not p2p"),
]
REFUSED = [
    ("llama", ["--num-gpus", "4", "--cp", "4", "--cp-comm", "a2a"],
     "cannot divide the 2 key/value heads of a rank (tp 1)"),
    ("window", ["--num-gpus", "2", "--cp", "2"],
     "a sliding window of 24 tokens needs cp_comm a2a, with which a rank has all tokens of a head"),
    ("sinks", ["--num-gpus", "2", "--cp", "2"],
     "attention sinks need cp_comm a2a, with which a rank has all tokens of a head"),
    ("bert", ["--num-gpus", "2", "--cp", "2"],
     "context parallelism (cp) needs a causal model, and this is a BERT"),
]


def refused(runs):
    cases = [("gpt", options, sentence) for options, sentence in GPT_REFUSED] + REFUSED
    for model, options, sentence in cases:
        given = ["--dropout", "0"] if "--dropout" not in options else []
        done = runs.start("--model-config", f"{model}.json", "--max-seq-length", "64", *given,
                          "--save-dir", runs.path("none"), *options)
        check(done.returncode != 0 and sentence in done.stderr, f"{options}: {done.stderr}")
    done = subprocess.run(
        [os.path.join(BUILD, "inference"), "--model", "gpt2", "--cp", "2", "--device", "meta"],
        capture_output=True, text=True, check=False)
    check(done.returncode != 0 and "context parallelism (--cp 2) is only for training" in
          done.stderr, done.stderr)
    done = subprocess.run(
        [os.path.join(BUILD, "synth"), "--model", "gpt2", "--phase", "prefill", "--cp", "2",
         "--out", runs.path("none/x")], capture_output=True, text=True, check=False)
    check(done.returncode != 0 and "--cp divides the sequences of training" in done.stderr,
          done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        for name, config in MODELS.items():
            runs.configure(name, config)
        as_one_rank(runs)
        if MPIRUN:
            over_mpi(runs)
        in_between(runs)
        same_traces(runs)
        counted_by_hand(runs)
        divided_memory(runs)
        refused(runs)
    finish()


main()
