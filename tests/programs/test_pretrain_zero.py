"""ZeRO in the pretraining program: the losses and parameters of one rank, on threads and
over MPI; checkpoints that resume with other numbers of ranks; counts and bytes of collectives, by
the formulas of Rajbhandari et al. 2020 and Megatron-LM's padding; memory; and failures."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish  # noqa: E402
from pretrain_runs import (MPIRUN, OVERFLOWING, RESUMED_STEPS, Runs, as_one_rank,  # noqa: E402
                           close, launcher, resumed_as)

# All have four microbatches of two samples per step in total.
LAYOUTS = [
    "--num-gpus 2 --zero 1 --gradient-accumulation-steps 2",
    "--num-gpus 4 --zero 2 --gradient-accumulation-steps 1 --buckets megatron",
    "--num-gpus 4 --tp 2 --sp --zero 2 --gradient-accumulation-steps 2 --loss unfused",
    "--num-gpus 4 --pp 2 --zero 1 --gradient-accumulation-steps 2 --buckets none",
    "--num-gpus 8 --tp 2 --pp 2 --sp --zero 1 --schedule interleaved --vp 2"
    " --gradient-accumulation-steps 2 --rank-order pp-dp-tp",
    "--num-gpus 4 --pp 2 --zero 2 --schedule zb-h1 --gradient-accumulation-steps 2"
    " --activation-recompute full",
    "--num-gpus 2 --zero 3 --gradient-accumulation-steps 2 --activation-recompute op",
    "--num-gpus 4 --tp 2 --sp --zero 3 --gradient-accumulation-steps 2 --no-reshard",
    "--num-gpus 4 --pp 2 --zero 3 --gradient-accumulation-steps 2 --schedule interleaved --vp 2",
    "--num-gpus 4 --zero 3 --hsdp 2",
]
# 4.3 million parameters, so that there are several buckets
WIDE = {"model_type": "gpt2", "n_layer": 2, "n_embd": 384, "n_head": 4, "n_positions": 64,
        "vocab_size": 512}


def resumed_in_another_layout(runs):
    """A checkpoint resumes with and without ZeRO and on other numbers of ranks, as if the run had
    not been interrupted; in the same layout, bit for bit."""
    shapes = ["--gradient-accumulation-steps 4",
              "--num-gpus 2 --tp 2 --gradient-accumulation-steps 4", *LAYOUTS[:5], *LAYOUTS[6:]]
    for i, shape in enumerate(shapes):
        whole, _ = runs.train("gpt4", *RESUMED_STEPS, "--max-steps", "4", *shape.split())
        _, folder = runs.train("gpt4", *RESUMED_STEPS, "--max-steps", "2", *shape.split())
        for other in (shape, shapes[(i + 1) % len(shapes)], shapes[(i + 3) % len(shapes)]):
            resumed_as(runs, folder, whole, other, other == shape)


def begins_with_weights(runs):
    """Training that begins with the weights of a checkpoint has the losses of a run without
    ZeRO."""
    for name in ("gpt4", "llama4", "bert4"):
        _, folder = runs.train(name, *RESUMED_STEPS, "--max-steps", "2")
        source = os.path.join(folder, "checkpoint-2")
        want = None
        for zero in (0, 1, 3):
            for layout in ("--num-gpus 2", "--num-gpus 4 --pp 2", "--num-gpus 4 --tp 2"):
                folder = runs.path(f"weights_{name}_{zero}_{layout.replace(' ', '')}")
                done = runs.start("--weights", source, "--max-seq-length", "64", "--max-steps", "2",
                                  "--learning-rate", "3e-3", "--batch-size", "1", "--skip-eval",
                                  "--save-dir", folder, *layout.split(), "--zero", str(zero))
                if check(done.returncode == 0, f"{name}, ZeRO {zero}: {done.stderr}"):
                    got = [float(row["loss"]) for row in runs.rows(folder)]
                    want = want or got
                    check(close(got, want), f"{name}, ZeRO {zero} {layout}: {got}, not {want}")


def first_nan(runs):
    """The message about a NaN names the same op with every level, or the same parameter if the
    initial weights have the NaN."""
    for name, config in OVERFLOWING.items():
        found = set()
        runs.configure(name, config)
        for zero in range(4):
            done = runs.start("--model-config", f"{name}.json", "--max-seq-length", "64",
                              "--num-gpus", "2", "--max-steps", "6", "--learning-rate", "1000",
                              "--zero", str(zero), "--save-dir", runs.path(f"nan_{name}_{zero}"))
            check(done.returncode == 1 and "first on rank 0: " in done.stderr, done.stderr)
            found.add(done.stderr.rpartition("first on rank 0: ")[2].partition(", has ")[0])
        check(len(found) == 1 and "(backward)" in found.pop(), f"{name}: {found}")
    _, folder = runs.train("gpt", "--max-steps", "1", "--batch-size", "2")
    weights = os.path.join(folder, "best_model")
    with open(os.path.join(weights, "model.safetensors"), "r+b") as f:
        size = int.from_bytes(f.read(8), "little")
        at = json.loads(f.read(size))["transformer.h.1.ln_2.weight"]["data_offsets"][0]
        f.seek(8 + size + at + 12)
        f.write(struct.pack("<f", math.nan))
    for zero in range(4):
        done = runs.start("--weights", weights, "--num-gpus", "2", "--zero", str(zero),
                          "--max-seq-length", "64", "--save-dir", runs.path("nan_weights"))
        check(done.returncode == 1 and "first on rank 0: tensor 'h.1.ln_2.weight'" in done.stderr
              and "has NaN at element 3" in done.stderr, done.stderr)


def several_buckets(runs):
    """Whole buckets and bf16: the losses of plain data parallelism, bit for bit in f32. The
    gradients are summed in the same order, and the norm is rounded differently, so there is no
    clipping."""
    for dtype in ("f32", "bf16"):
        want = None
        for zero in (0, 1, 2, 3):
            rows, _ = runs.train("wide", "--num-gpus", "2", "--max-steps", "3", "--batch-size", "1",
                                 "--gradient-accumulation-steps", "2",
                                 "--max-grad-norm", "0", "--dtype", dtype, "--skip-eval",
                                 "--zero", str(zero))
            got = [row["loss"] for row in rows]
            want = want or got
            if zero < 2:
                check(got == want, f"{dtype} ZeRO {zero}: {got}, not {want}")
            else:  # adds sums over ranks instead of sums over microbatches
                most = 1e-5 if dtype == "f32" else 2e-4
                check(all(abs(float(a) - float(b)) <= most * float(b)
                          for a, b in zip(got, want)), f"{dtype} ZeRO {zero}: {got}, not {want}")


def rounding(runs):
    """In bf16, a layout changes losses about as much as dividing the same batch differently on one
    rank: by at most three times the largest difference between such runs."""
    m = "--gradient-accumulation-steps"
    splits = [f"--batch-size 1 {m} 8", f"--batch-size 4 {m} 2", "--batch-size 8"]
    layouts = ["--num-gpus 4 --zero 3", f"--num-gpus 4 --pp 2 --zero 2 {m} 2",
               f"--num-gpus 4 --tp 2 --sp --zero 3 {m} 2 --reduce-dtype bf16"]
    spread, found = 0, {}
    for name in ("gpt4", "llama4", "bert4"):
        def train(layout):
            rows, _ = runs.train(name, "--dtype", "bf16", "--max-steps", "5", "--dropout", "0",
                                 "--learning-rate", "5e-4", "--skip-eval", *layout.split())
            return [float(row["loss"]) for row in rows]

        one = train(f"--batch-size 2 {m} 4")
        for layout in splits + [f"--batch-size 2 {x}" for x in layouts]:
            off = max(abs(a / b - 1) for a, b in zip(train(layout), one, strict=True))
            if layout in splits:
                spread = max(spread, off)
            else:
                found[name, layout] = off
    check(0 < spread < 1e-3 and max(found.values()) <= 3 * spread,
          f"batch splits differ by {spread}, layouts by {found}")


def parameters(config):
    h, layers = config["n_embd"], config["n_layer"]
    return (config["vocab_size"] + config["n_positions"]) * h + layers * (12 * h + 13) * h + 2 * h


def nodes(runs, folder):
    """Returns the ops of the trace in a folder, of all ranks."""
    path = runs.path(f"{folder}/graph.json")
    subprocess.run([os.path.join(BUILD, "syntorch"), "export", "--all-ranks", "--input",
                    runs.path(f"{folder}/trace.0.et"), "--output", path], check=True)
    with open(path, encoding="utf-8") as f:
        return [n for n in json.load(f)["nodes"] if n["type"] == "op"]


def collectives(runs, *options):
    """Returns (group, kind, phase, payload in bytes) of rank 0's collectives in one step. The names
    of groups lack their numbers."""
    done = runs.start("--device", "meta", "--model-config", "wide.json", "--max-seq-length", "16",
                      "--enable-tracing", "--out-dir", "counts", "--dropout", "0", *options)
    check(done.returncode == 0, f"{options}: {done.stderr}")
    return [(n["group_name"].rstrip("0123456789"), n["comm"], n["phase"], n["comm_bytes"])
            for n in nodes(runs, "counts") if n.get("group_name") and n["rank"] == 0]


def counts(runs):
    """ZeRO 1 scatters f32 gradients once and gathers parameters once; ZeRO 2 scatters them in each
    microbatch. Nothing is all-reduced over data-parallel ranks but the loss and the norm."""
    p, ranks, microbatches = parameters(WIDE), 4, 2
    for dtype, width, zero, buckets in (("f32", 4, 1, "none"), ("bf16", 2, 2, "pytorch"),
                                        ("bf16", 2, 1, "megatron"), ("f32", 4, 2, "megatron")):
        found = collectives(runs, "--num-gpus", str(ranks), "--zero", str(zero), "--buckets",
                               buckets, "--dtype", dtype, "--gradient-accumulation-steps",
                               str(microbatches))
        what = f"{dtype} ZeRO {zero} {buckets}"
        check({op[0] for op in found} == {"dp"}, f"{what}: {found}")
        scatters = [op[3] for op in found if op[1] == "reduce_scatter"]
        gathers = [op[3] for op in found if op[1] == "all_gather"]
        sums = [op[3] for op in found if op[1] == "all_reduce"]
        passes = microbatches if zero == 2 else 1
        n = {"none": 1, "megatron": 1, "pytorch": 2}[buckets]
        check(len(scatters) == n * passes and len(gathers) == n, f"{what}: {found}")
        check(sums == [4, 4], f"{what}: {sums}")
        padding = sum(scatters) // 4 // passes - p
        if buckets == "megatron":  # parameters begin at 64, the bucket ends at lcm(4, 128)
            check(padding == -p % 128, f"{what}: padding {padding}")
        check(0 <= padding < (128 if buckets == "megatron" else ranks * n),
              f"{what}: padding {padding}")
        check(sum(gathers) == (p + padding) // ranks * width, f"{what}: {gathers}")


def units(runs):
    """ZeRO 3 gathers each layer, and the shared table with the final norm, in every forward pass;
    in every backward pass it gathers the layers again. With --no-reshard it does not, and in a
    pipeline it gathers and scatters once per step (clusters.md, section 6)."""
    p, ranks, layers, microbatches = parameters(WIDE), 4, WIDE["n_layer"], 3
    layer = (12 * WIDE["n_embd"] + 13) * WIDE["n_embd"]
    for dtype, width, more in (("f32", 4, []), ("bf16", 2, []), ("bf16", 2, ["--no-reshard"]),
                               ("bf16", 2, ["--activation-recompute", "full"])):
        found = collectives(runs, "--num-gpus", str(ranks), "--zero", "3", "--dtype", dtype,
                            "--gradient-accumulation-steps", str(microbatches), *more)
        what = f"ZeRO 3 {dtype} {more}"
        forward = [op[3] for op in found if op[:3] == ("gather", "all_gather", "forward")]
        again = [op[3] for op in found if op[:2] == ("gather", "all_gather")
                 and op[2] in ("backward", "recompute")]
        scatters = [op[3] for op in found if op[:3] == ("dp", "reduce_scatter", "backward")]
        sums = [op for op in found if op[1] == "all_reduce"]
        check(len(forward) == (layers + 1) * microbatches, f"{what}: {found}")
        check(len(again) == (0 if "--no-reshard" in more else layers * microbatches),
              f"{what}: {found}")
        check(len(scatters) == (layers + 1) * microbatches and len(sums) == 2, f"{what}: {found}")
        check(sum(forward) == p * width // ranks * microbatches, f"{what}: {sum(forward)}")
        check(sum(again) in (0, layers * layer * width // ranks * microbatches),
              f"{what}: {sum(again)}")
        check(sum(scatters) == 4 * p * microbatches, f"{what}: {sum(scatters)}")
    found = collectives(runs, "--num-gpus", "4", "--zero", "3", "--hsdp", "2")
    sums = [op[3] for op in found if op[:3] == ("replicas", "all_reduce", "backward")]
    check(sum(sums) == 4 * p // 2 and len(sums) == layers + 1, f"hsdp: {found}")
    check(sum(op[3] for op in found if op[0] == "shard") == 4 * p, f"hsdp: {found}")
    found = collectives(runs, "--num-gpus", "4", "--pp", "2", "--zero", "3",
                        "--gradient-accumulation-steps", "4")
    check(sum(op[1] == "all_gather" for op in found) == 3, f"once: {found}")
    check(sum(op[1] == "reduce_scatter" for op in found) == 3, f"once: {found}")


def groups(runs):
    """With tensor parallelism, parameters that all ranks of a tensor-parallel group have are in
    buckets of their own, and with sequence parallelism those with partial gradients. The norm is
    summed over all ranks once."""
    found = collectives(runs, "--num-gpus", "8", "--tp", "2", "--pp", "2", "--sp", "--zero", "1",
                        "--buckets", "none", "--gradient-accumulation-steps", "2")
    kinds = [op[:3] for op in found]
    check(kinds.count(("world", "all_reduce", "optimizer")) == 1, f"{kinds}")
    # sharded, whole (wpe), partial (norms and row biases) and the tied table
    check(kinds.count(("dp", "reduce_scatter", "backward")) == 4, f"{kinds}")
    check(kinds.count(("dp", "all_gather", "optimizer")) == 4, f"{kinds}")
    check("model" not in {op[0] for op in found}, f"{kinds}")


def memory(runs):
    """The peak of a model with few activations (clusters.md, section 6): 18 bytes per parameter
    without ZeRO, 6 + 12 / d with ZeRO 1, 2 + 16 / d with ZeRO 2, 18 / d with ZeRO 3. Buffers are up
    to 1/16 larger than their tensors. In addition there are activations, and the gradients of two
    buckets, each at most 25 MiB and one tensor, with the sums of one. With ZeRO 3 the buckets are
    units. There are also the parameters of two units, and the shared table with its gradient."""
    config = {**WIDE, "n_layer": 8, "n_embd": 1024, "vocab_size": 8192}
    with open(runs.path("large.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    p, d = parameters(config), 8
    bucket = 25 * 2 ** 20 + 4 * 4 * 1024 ** 2
    peaks = []
    for zero, each in ((0, 18), (1, 6 + 12 / d), (2, 2 + 16 / d), (3, 18 / d)):
        done = runs.start("--device", "meta", "--json", "--model-config", "large.json", "--dtype",
                          "bf16", "--batch-size", "1", "--max-seq-length", "8", "--num-gpus",
                          str(d), "--zero", str(zero), "--gradient-accumulation-steps", "2",
                          "--dropout", "0")
        check(done.returncode == 0, done.stderr)
        peaks.append(json.loads(done.stdout)["memory"]["peak_bytes"])
        unit = 12.02 * 1024 ** 2
        more = 2 * bucket + bucket / d + 8 * 2 ** 20
        if zero == 3:
            more = (4 * 2 + 4 / d + 2 * 2) * unit + (2 + 4) * 8192 * 1024 + 8 * 2 ** 20
        check(each * p <= peaks[-1] <= 17 / 16 * (each * p + more),
              f"ZeRO {zero}: {peaks[-1]}, not {each * p} to {each * p + more}")
    check(peaks[0] > peaks[1] > peaks[2] > peaks[3], f"{peaks}")


def traces_agree(runs):
    """An executed step and the same step on meta have the same ops."""
    layout = ["--num-gpus", "4", "--tp", "2", "--sp", "--zero", "2", "--dtype", "f32",
              "--gradient-accumulation-steps", "2", "--max-seq-length", "32", "--model-config",
              "gpt4.json", "--enable-tracing"]
    ops = {}
    for device in ("cpu", "meta"):
        done = runs.start("--device", device, "--max-steps", "2", "--skip-eval", "--save-dir",
                          f"save_{device}", "--out-dir", device, *layout)
        check(done.returncode == 0, done.stderr)
        ops[device] = [(n["rank"], n["op"], n["scope"], n["phase"], n.get("comm_bytes"))
                       for n in nodes(runs, device)]
    check(ops["cpu"] == ops["meta"] and len(ops["cpu"]) > 100, "the traces differ")


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        threads = [(layout, ()) for layout in LAYOUTS]
        mpi = [(LAYOUTS[i], launcher("4")) for i in (2, 7)] if MPIRUN else []
        as_one_rank(runs, {"gpt4": threads + mpi, "llama4": [*threads[2:4], threads[7]],
                           "bert4": [*threads[1:3], threads[6]],
                           "qwen4": [threads[2], (LAYOUTS[7].replace("--sp ", ""), ())]})
        with open(runs.path("wide.json"), "w", encoding="utf-8") as f:
            json.dump(WIDE, f)
        begins_with_weights(runs)
        first_nan(runs)
        resumed_in_another_layout(runs)
        several_buckets(runs)
        rounding(runs)
        counts(runs)
        units(runs)
        groups(runs)
        memory(runs)
        traces_agree(runs)
    finish()


main()
