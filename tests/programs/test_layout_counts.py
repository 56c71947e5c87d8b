"""Counts and bytes of communication of 200 random layouts of a training step (tensor, sequence,
pipeline and data parallelism, all schedules, ZeRO 0 to 3), of 120 layouts that also have context
parallelism, and of 60 layouts with experts, compared with an independent program, expect2.py, whose
formulas equal Megatron-LM's and torchtitan's. synth traces four of five layouts, and pretrain the
fifth. Three differences are intended: the loss is one
f32 per step; with ZeRO, parameters are in more than one bucket; and gradients that are summed at
the end of a step are scattered there, once."""
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish, skip  # noqa: E402
from pretrain_runs import Runs  # noqa: E402

LAYOUTS, CONTEXT, SPARSE, TOKENS, VOCAB, POSITIONS = 200, 120, 60, 32, 512, 32
TOOLS = os.environ.get("SYN_SHARED_TOOLS", "")
Layout = collections.namedtuple(
    "Layout", "tp pp dp zero sp m layers h schedule vp no_reshard bf16 cp comm")


def choose(dice, context=False):
    """Returns a random layout of up to 16 ranks, or 32 with context parallelism."""
    cp, comm = 1, "p2p"
    while True:
        tp, pp, dp = dice.choice((1, 1, 2, 4)), dice.choice((1, 1, 2, 4)), dice.choice((1, 2, 2, 4))
        if context:
            cp, comm = dice.choice((2, 2, 4)), dice.choice(("p2p", "all_gather", "a2a"))
        if tp * pp * dp * cp <= (32 if context else 16) and (comm != "a2a" or tp * cp <= 4):
            break
    layers = dice.choice((4, 8))
    schedule = dice.choice(("1f1b", "gpipe", "zb-h1", "interleaved")) if pp > 1 else "1f1b"
    if schedule == "interleaved" and layers // pp < 2:
        schedule = "1f1b"
    zero = dice.choice((0, 1, 2, 3)) if dp * cp > 1 else 0
    return Layout(tp, pp, dp, zero, tp > 1 and dice.random() < .5,
                  dice.choice((1, 2, 4, 8)) if pp == 1 else dice.choice((4, 8)), layers,
                  dice.choice((64, 128)), schedule, 2 if schedule == "interleaved" else 1,
                  zero == 3 and pp == 1 and dice.random() < .3, dp * cp > 1 and dice.random() < .3,
                  cp, comm)


def options(x):
    """Returns the options of synth and pretrain, and those of expect2.py."""
    both = ["--tp", str(x.tp), "--pp", str(x.pp)]
    both += ["--sp"] if x.sp else []
    both += ["--vp", "2"] if x.vp == 2 else []
    both += ["--zero", str(x.zero)] if x.zero else []
    both += ["--cp", str(x.cp), "--cp-comm", x.comm] if x.cp > 1 else []
    ours = [*both, "--num-gpus", str(x.tp * x.pp * x.dp * x.cp)]
    ours += ["--schedule", x.schedule] if x.pp > 1 else []
    ours += ["--buckets", "none"] if x.dp * x.cp > 1 and x.zero < 3 else []
    ours += ["--no-reshard"] if x.no_reshard and x.pp == 1 else []
    ours += ["--reduce-dtype", "bf16"] if x.bf16 else []
    theirs = [*both, "--dp", str(x.dp), "--micro-batch", "2", "--global-batch", str(2 * x.m * x.dp),
              "--schedule", x.schedule.replace("-", ""), "--model", "gpt2-124m", "--set",
              f"L={x.layers},h={x.h},a=4,f={4 * x.h},V={VOCAB},pos={POSITIONS}", "--seq",
              str(TOKENS), "--vocab-multiple", "1", "--flash"]
    theirs += ["--no-reshard"] if x.no_reshard or (x.zero == 3 and x.pp > 1) else []
    theirs += ["--grad-bytes", "2"] if x.bf16 else []
    # ZeRO 3 in a pipeline, and ZeRO 2 with ZB-H1, scatter once per step.
    once = x.pp > 1 and (x.zero == 3 or (x.zero == 2 and x.schedule == "zb-h1"))
    theirs += ["--reduce-last"] if once else []
    return ours, theirs, once


def scattered_late(x, stage, once):
    """Bytes of gradients that expect2.py scatters in every microbatch and we once per step: norms
    and row biases with sequence parallelism, and the table that two stages share. Returns the bytes
    that we save."""
    if x.zero < 2 or once:
        return 0
    elems = 0
    if x.sp:  # two norms with weight and bias, and two biases, per layer; the final norm
        elems += x.layers // x.pp * 6 * x.h + (2 * x.h if stage == x.pp - 1 else 0)
    if x.pp > 1 and stage in (0, x.pp - 1):
        elems += VOCAB // x.tp * x.h
    return (x.m - 1) * (2 if x.bf16 else 4) * elems


def traced(runs, rank, cp=1):
    """Returns bytes and counts of rank's collectives by kind and number of ranks, and of its
    messages to ranks of its cp group. The bytes are those of the whole buffer."""
    path = runs.path("graph.json")
    subprocess.run([os.path.join(BUILD, "syntorch"), "export", "--input",
                    runs.path(f"out/trace.{rank}.et"), "--output", path], check=True)
    with open(path, encoding="utf-8") as f:
        graph = json.load(f)
    ranks = {g["name"]: len(g["ranks"]) for g in graph["graph"]["groups"]}
    total, n = collections.Counter(), collections.Counter()
    for op in graph["nodes"]:
        loss = op.get("comm_bytes") == 4 and op["phase"] == "forward"
        if op.get("comm") == "send" and op["scope"] != "pipeline":
            key = "send", cp
        elif not op.get("group_name") or loss:
            continue
        else:
            key = op["comm"], ranks[op["group_name"]]
        total[key] += op["comm_bytes"] * (key[1] if op["comm"] == "all_gather" else 1)
        n[key] += 1
    return total, n


def trace(runs, x, program, ours):
    """Writes the traces of all ranks to the folder "out"."""
    runs.configure("model", {"model_type": "gpt2", "n_layer": x.layers, "n_embd": x.h, "n_head": 4,
                             "n_positions": POSITIONS, "vocab_size": VOCAB})
    both = ["--model-config", "model.json", "--dtype", "bf16", "--max-seq-length", str(TOKENS),
            "--dropout", "0", "--quiet", *ours]
    shutil.rmtree(runs.path("out"), ignore_errors=True)
    if program == "pretrain":
        return runs.start("--device", "meta", "--batch-size", "2", "--gradient-accumulation-steps",
                          str(x.m), "--enable-tracing", "--out-dir", "out", *both)
    return subprocess.run(
        [os.path.join(BUILD, "synth"), "--micro-batch", "2", "--global-batch", str(2 * x.m * x.dp),
         "--out", "out/trace", *both], cwd=runs.folder, capture_output=True, text=True)


def stages_of(theirs):
    done = subprocess.run([sys.executable, os.path.join(TOOLS, "expect2.py"), *theirs], check=True,
                          capture_output=True)
    return json.loads(done.stdout)


# How many calls share the bytes of one that expect2.py counts: keys and values, also queries and
# results.
CALLS = {"send": 1, "all_gather": 2, "reduce_scatter": 2, "all_to_all": 4}


def wanted(stage, size):
    """Returns bytes and counts as `traced` does. size: the ranks of each kind of group."""
    want, counts = collections.Counter(), collections.Counter()
    for group, kind, what, count, each in stage["collectives"]:
        if what != "loss_and_tokens":
            want[kind, size[group]] += count * each
            counts[kind, size[group]] += count * (CALLS[kind] if group == "cp" else 1)
    return want, counts


def same(what, got, want, x, more=0):
    """got, want: bytes and counts. more: all-reduces that chunks of a stage add."""
    for key in {*got[0], *want[0]}:
        divided = x.zero > 0 and key[0] in ("reduce_scatter", "all_gather")
        # A bucket is padded by less than 4 bytes per rank; there are up to 4 per unit.
        padding = 4 * key[1] * got[1][key] if divided else 0
        check(0 <= got[0][key] - want[0][key] <= padding,
              f"{what}: {key}: {got[0][key]} bytes, not {want[0][key]}")
        n, expected = got[1][key], want[1][key]
        check(n in (expected, expected + (more if key[0] == "all_reduce" else 0)) or
              (divided and n > expected), f"{what}: {key}: {n} times, not {expected}")


def compare(runs, x, program):
    ours, theirs, once = options(x)
    done = trace(runs, x, program, ours)
    if not check(done.returncode == 0, f"{x}: {done.stderr}"):
        return
    size = {"tp": x.tp, "cp": x.cp, "dp_cp": x.dp * x.cp, "embedding": 2, "model": x.tp * x.pp,
            "world": x.tp * x.pp * x.dp * x.cp}
    for i, stage in enumerate(stages_of(theirs)):
        want = wanted(stage, size)
        if x.zero >= 2:
            want[0]["reduce_scatter", x.dp * x.cp] -= scattered_late(x, i, once)
        # the rank of the stage whose index in its cp group is i modulo cp
        rank = i * x.tp * x.dp * x.cp + i % x.cp * x.tp
        same(f"{x}, stage {i}", traced(runs, rank, x.cp), want, x, x.vp - 1)


Sparse = collections.namedtuple("Sparse", "tp pp dp ep zero m layers h experts k latent dense etp")


def choose_sparse(dice):
    """Returns a random layout with experts on ranks of their own."""
    while True:
        x = Sparse(dice.choice((1, 1, 2, 4)), dice.choice((1, 1, 2, 4)), dice.choice((1, 2, 4, 8)),
                   dice.choice((1, 2, 4, 8)), dice.choice((0, 0, 1, 2)), dice.choice((4, 8)),
                   dice.choice((4, 8)), dice.choice((64, 128)), dice.choice((4, 8, 16)),
                   dice.choice((1, 2, 3)), dice.choice((None, None, 0, 24)), dice.choice((0, 1)),
                   dice.choice((1, 1, 2, 4)))
        if x.latent is None:
            x = x._replace(dense=0)
        if x.tp * x.dp % (x.ep * x.etp) or x.experts % x.ep or x.tp * x.pp * x.dp > 32:
            continue
        if x.tp * x.ep == 1 or (x.ep == 1 and x.etp > 1):
            continue
        if x.zero == 0 or (x.dp > 1 and x.tp * x.dp > x.ep * x.etp):
            return x


def sparse_model(x):
    """The configuration of a Mixtral or, with x.latent, the size of the queries' latent (0: none),
    a DeepSeek-V3; and expect2.py's."""
    config = {"model_type": "mixtral", "num_hidden_layers": x.layers, "hidden_size": x.h,
              "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96,
              "num_local_experts": x.experts, "num_experts_per_tok": x.k, "vocab_size": VOCAB,
              "max_position_embeddings": POSITIONS}
    shape = (f"L={x.layers},h={x.h},a=4,kv=4,dh={x.h // 4},f=96,fe=96,V={VOCAB},E={x.experts},"
             f"k={x.k}")
    if x.latent is None:
        return config, shape
    del config["num_local_experts"]
    config.update({"model_type": "deepseek_v3", "n_routed_experts": x.experts, "n_group": 1,
                   "topk_group": 1, "moe_intermediate_size": 96, "n_shared_experts": 2,
                   "first_k_dense_replace": x.dense, "q_lora_rank": x.latent or None,
                   "kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 6,
                   "v_head_dim": 10})
    return config, shape + (f",fs=192,dense={x.dense},ql={x.latent},kvl=20,nope=12,rope=6,vd=10")


def replicated(x, stage):
    """The number of parameters of a stage's layers that all tensor-parallel ranks have: norms,
    routers, and the projections to latents with their norms."""
    per = x.layers // x.pp
    routers = sum(i >= x.dense for i in range(stage * per, (stage + 1) * per))
    n = per * 2 * x.h + routers * x.experts * x.h
    if x.latent is not None:
        n += per * (x.h * (20 + 6) + 20 + x.latent * (x.h + 1))
    return n + (x.h if stage == x.pp - 1 else 0)


def compare_sparse(runs, x):
    config, shape = sparse_model(x)
    runs.configure("model", config)
    both = ["--tp", str(x.tp), "--pp", str(x.pp), "--ep", str(x.ep), "--etp", str(x.etp),
            "--micro-batch", "2", "--global-batch", str(2 * x.m * x.dp)]
    both += (["--sp"] if x.tp > 1 else []) + (["--zero", str(x.zero)] if x.zero else [])
    shutil.rmtree(runs.path("out"), ignore_errors=True)
    done = subprocess.run(
        [os.path.join(BUILD, "synth"), "--out", "out/trace", "--model-config", "model.json",
         "--dtype", "bf16", "--max-seq-length", str(TOKENS), "--quiet", "--num-gpus",
         str(x.tp * x.pp * x.dp), *(["--buckets", "none"] if x.dp > 1 else []), *both],
        cwd=runs.folder, capture_output=True, text=True)
    if not check(done.returncode == 0, f"{x}: {done.stderr}"):
        return
    theirs = [*both, "--dp", str(x.dp), "--model", "mixtral-8x7b", "--set", shape, "--seq",
              str(TOKENS), "--vocab-multiple", "1", "--flash"]
    size = {"tp": x.tp, "dp_cp": x.dp, "model": x.tp * x.pp, "world": x.tp * x.pp * x.dp,
            "ep": x.ep, "etp": x.etp, "edp": x.tp * x.dp // (x.ep * x.etp),
            "tp_ep": x.ep * x.etp, "tp_ep_pp": x.ep * x.etp * x.pp}
    for i, stage in enumerate(stages_of(theirs)):
        want = wanted(stage, size)
        if x.zero == 2 and x.tp > 1:  # once per step
            want[0]["reduce_scatter", x.dp] -= (x.m - 1) * 4 * replicated(x, i)
        if x.latent == 0 and x.tp > 1:  # expect2.py omits the gathers of the queries' input
            for kind, times in (("all_gather", 2), ("reduce_scatter", 1)):
                n = times * x.m * x.layers // x.pp
                want[0][kind, x.tp] += n * 2 * TOKENS * x.h * 2
                want[1][kind, x.tp] += n
        same(f"{x}, stage {i}", traced(runs, i * x.tp * x.dp), want, x)


def main():
    if not os.path.isfile(os.path.join(TOOLS, "expect2.py")):
        skip("expect2.py is not beside the sources")
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        for i in range(LAYOUTS):
            compare(runs, choose(dice), "pretrain" if i % 5 == 0 else "synth")
        for i in range(CONTEXT):
            compare(runs, choose(dice, context=True), "pretrain" if i % 5 == 0 else "synth")
        for _ in range(SPARSE):
            compare_sparse(runs, choose_sparse(dice))
    finish()


main()
