"""Traces of clusters: sets that synth writes from one recorded rank of each stage are, byte for
byte, the sets that pretrain writes when it records every rank; the padded vocabulary is
Megatron-LM's; and a run that fails leaves no set that looks complete."""
import filecmp
import glob
import gzip
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, enter_folder, finish, run  # noqa: E402
from pretrain_runs import BERT, DEEP, LLAMA, MPIRUN, launcher  # noqa: E402

MOE = {**LLAMA, "model_type": "qwen3_moe", "num_hidden_layers": 4, "num_experts": 8,
       "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
V3 = {**LLAMA, "model_type": "deepseek_v3", "num_hidden_layers": 4, "num_key_value_heads": 4,
      "kv_lora_rank": 12, "q_lora_rank": 20, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
      "v_head_dim": 8, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
      "moe_intermediate_size": 16, "num_experts_per_tok": 2, "first_k_dense_replace": 1}
MODELS = {**DEEP, "moe4": MOE, "v3": V3, "untied": {**LLAMA, "num_hidden_layers": 8}, "bert": BERT}
# (model, options): every kind of group, with neighbours along each axis
LAYOUTS = [
    ("gpt4", "--tp 2 --pp 2 --dp 2 --sp --zero 1 --global-batch 8"),
    ("gpt4", "--tp 4 --pp 4 --dp 3 --global-batch 24 --dtype bf16"),
    ("untied", "--pp 4 --dp 2 --schedule interleaved --vp 2 --global-batch 16"),
    ("untied", "--tp 2 --pp 4 --dp 2 --schedule zb-h1 --global-batch 16 --rank-order pp-dp-tp"),
    ("llama4", "--dp 12 --zero 3 --hsdp 3 --micro-batch 2"),
    ("llama4", "--pp 2 --dp 4 --tp 2 --zero 3 --global-batch 16 --activation-recompute full"),
    ("qwen4", "--tp 2 --dp 2 --sp --zero 2 --reduce-dtype bf16"),
    ("bert4", "--tp 2 --pp 3 --layers-per-stage 1,2,1 --dp 2 --global-batch 8 --zero 2"),
    ("gpt4", "--rank-order dp-tp-pp --dp 8 --tp 2"),
    # stages that use other kinds of groups
    ("llama4", "--tp 2 --pp 4 --dp 2 --layout Et|ttt||L --global-batch 8"),
    ("gpt4", "--pp 2 --dp 4 --zero 3 --hsdp 2 --global-batch 16"),
    ("bert", ""),
    ("gpt4", "--tp 2 --cp 2 --pp 2 --dp 2 --sp --zero 1 --global-batch 8 --dropout 0"),
    ("llama4", "--cp 8 --cp-comm all_gather --pp 2 --dp 2 --global-batch 4 --rank-order dp-tp-pp"),
    ("llama4", "--cp 4 --cp-comm a2a+p2p --cp-a2a 2 --dp 3 --zero 3"),
    ("gpt4", "--cp 4 --cp-comm a2a --dp 3 --global-batch 6 --dropout 0"),
    ("gpt4", "--pp 4 --dp 3 --tp 2 --schedule dualpipe --global-batch 24 --rank-order pp-tp-dp"),
    ("gpt4", "--pp 2 --dp 1 --schedule dualpipe --zero 1 --reduce-dtype bf16 --global-batch 4"),
]


# Ranks with different experts have different numbers of rows.
EXPERTS = [
    ("moe4", "--ep 4 --dp 4 --routing zipf:1,3"),
    ("v3", "--tp 2 --sp --ep 4 --dp 4 --pp 2 --zero 1 --global-batch 8 --moe-dispatcher deepep "
           "--moe-dispatch-fp8"),
    ("moe4", "--cp 2 --ep 4 --dp 2 --moe-dispatcher allgather"),
    ("moe4", "--ep 2 --dp 2 --pp 2 --vp 2 --global-batch 8 --overlap-a2a"),
    ("v3", "--ep 2 --dp 4 --pp 4 --schedule dualpipe --zero 1 --global-batch 32 --mtp 1 "
           "--overlap-a2a --moe-router-bias-update-rate 0.01"),
    ("moe4", "--tp 2 --sp --ep 2 --etp 2 --dp 4 --pp 2 --zero 1 --global-batch 8"),
    ("moe4", "--tp 2 --sp --cp 2 --ep 8 --dp 4 --pp 2 --zero 1 --global-batch 8 --capacity 1.25 "
             "--moe-aux-loss-coeff 0.01"),
    ("moe4", "--tp 2 --sp --cp 2 --ep 4 --dp 2 --pp 2 --global-batch 4 --routing zipf:0.5,3 "
             "--moe-z-loss-coeff 0.01 --activation-recompute full"),
    ("v3", "--ep 2 --dp 4 --pp 2 --global-batch 8 --moe-router-bias-update-rate 0.01 --mtp 1"),
    # the first stage has no experts
    ("v3", "--tp 2 --sp --ep 2 --dp 2 --pp 4 --global-batch 4 --routing zipf:1,2"),
]


def synth(*options, **how):
    return subprocess.run([os.path.join(BUILD, "synth"), *options], capture_output=True, text=True,
                          check=False, **how)


def files(prefix):
    return sorted(glob.glob(prefix + ".*.et") + glob.glob(prefix + ".comm_group.json"))


def fewer_layers():
    """--layers N is the model with N layers in its configuration."""
    config = {**MODELS["llama4"], "num_hidden_layers": 2}
    os.mkdir("two")
    with open("two/llama4.json", "w", encoding="utf-8") as f:  # traces name their model
        json.dump(config, f)
    shape = "--tp 2 --pp 2 --global-batch 2 --max-seq-length 32".split()
    synth("--model-config", "two/llama4.json", "--out", "two/set", *shape)
    synth("--model-config", "llama4.json", "--layers", "2", "--out", "cut", *shape)
    check(all(filecmp.cmp(f"two/set.{r}.et", f"cut.{r}.et", shallow=False) for r in range(4)),
          "--layers 2 is not the model with two layers")


def longer():
    """With rotary embeddings, samples may have more tokens than the model has positions."""
    long = synth(*"--model llama-3-8b --layers 1 --max-seq-length 131072 --dry-run --json".split())
    check(long.returncode == 0 and json.loads(long.stdout)["max_seq_length"] == 131072, long.stderr)
    done = synth(*"--model gpt2 --max-seq-length 2048 --dry-run".split())
    check(done.returncode == 1 and "exceeds the 1024 positions of gpt2" in done.stderr, done.stderr)


def does_not_fit():
    """Before it writes, synth tries what would fit. The set is the same as without these tries."""
    shape = "--model gpt3-175b --tp 8 --global-batch 1 --ranks 0 --hw a100-80g".split()
    said = synth("--out", "large", *shape).stdout
    synth("--out", "quiet", "--quiet", *shape)
    before = said.partition("writing: ")[0]
    check("note:    each rank needs " in before and "to fit:  --pp " in before, said)
    check(filecmp.cmp("large.0.et", "quiet.0.et", shallow=False), "the tries changed the set")


def as_recorded(layouts, prefix):
    for i, (model, layout) in enumerate(layouts):
        shape = ["--model-config", f"{model}.json", "--max-seq-length", "32", "--hw", "a100-80g",
                 "--micro-batch", "1", *layout.split()]
        ours, theirs = f"{prefix}{i}", f"recorded_{prefix}{i}"
        done = synth("--out", ours, "--make-vocab-size-divisible-by", "1", *shape)
        check(done.returncode == 0, f"{layout}: {done.stderr}")
        done = subprocess.run([os.path.join(BUILD, "pretrain"), "--device", "meta",
                               "--enable-tracing", "--trace-wait-steps", "0", "--max-steps", "1",
                               "--out-dir", ".", "--trace-name", theirs, "--quiet", *shape],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"{layout}: {done.stderr}")
        pairs = [(path, ours + path[len(theirs):]) for path in files(theirs)]
        check([other for _, other in pairs] == files(ours), f"{layout}: {files(ours)}")
        other = [a for a, b in pairs if not filecmp.cmp(a, b, shallow=False)]
        check(not other, f"{model} {layout}: {len(other)} files differ: {other[:3]}")


def collectives(prefix, rank, kind):
    """The sizes of the collectives of a rank, of one kind, in bytes."""
    done = run("json", "--input", f"{prefix}.{rank}.et", "--output", "-")
    sizes = []
    for node in json.loads(done.stdout)["ranks"][0]["nodes"]:
        attributes = {a["name"]: a for a in node["attr"]}
        if attributes.get("comm_type", {}).get("int64Val") == str(kind):
            sizes.append(int(attributes["comm_size"]["int64Val"]))
    return sizes


def balanced():
    """The losses of routers all-reduce the rows of each expert (i64) in each layer and microbatch,
    and the update of their biases those of all layers (f32) in each step."""
    layers, passes, experts, all_reduce = 4, 3, 8, 0
    for model, options, bytes_each, n in (
            ("moe4", "--moe-aux-loss-coeff 0.01", 8 * experts, layers * passes),
            ("moe4", "--moe-z-loss-coeff 0.01", 8 * experts, 0),
            ("v3", "--moe-router-bias-update-rate 0.001", 4 * experts * (layers - 1), 1)):
        shape = f"--tp 2 --sp --ep 4 --dp 2 --global-batch {2 * passes} --max-seq-length 32"
        done = synth("--out", "balanced", "--model-config", f"{model}.json", *shape.split(),
                     *options.split())
        got = collectives("balanced", 3, all_reduce).count(bytes_each)
        check(got == n, f"{options}: {got} all-reduces of {bytes_each} bytes: {done.stderr}")


def loaded():
    """The all-to-alls of a layer have the bytes of the busiest rank, or those that follow from a
    capacity."""
    tokens, copies, hidden, experts, width, all_to_all = 64, 2, 32, 8, 4, 6
    shape = ["--model-config", "moe4.json", "--layers", "2", "--max-seq-length", str(tokens),
             "--dp", "4", "--ep", "4", "--dtype", "f32"]
    with open("loads.csv", "w", encoding="utf-8") as f:
        f.write("4,4,2,2,1,1,1,1\n1,1,1,1,1,1,1,1\n")
    shares = [8 / 16, 4 / 16, 2 / 16, 2 / 16]
    done = synth("--out", "loads", "--routing", "loads.csv", *shape)
    check("busiest rank of a layer has 1.50 times the mean rows of experts; 2.00 times in layer 0"
          in done.stdout, done.stdout)
    check(b"no problem" in run("validate", "--input", "loads").stdout, "validate")
    check(b"all run" in run("simulate", "--input", "loads").stdout, "simulate")
    pairs = tokens * copies
    most = [round(max(shares) * pairs) * 4, pairs]  # rows of the busiest rank, by layer
    want = sorted(width * rows * n for rows in most for n in (hidden, hidden, hidden, hidden, 1, 1))
    for rank in range(4):
        got = collectives("loads", rank, all_to_all)
        check(sorted(got) == want, f"rank {rank}: {got}, not {want}")
    done = synth("--out", "limit", "--capacity", "1.3", "--routing", "loads.csv", *shape)
    capacity = math.ceil(pairs / experts * 1.3)
    rows = experts * capacity
    loads = (32, 32, 16, 16, 8, 8, 8, 8)
    dropped = 100 * sum(max(0, load - capacity) for load in loads) / pairs / 2
    check(f"routing: {dropped:.1f} % of the rows of experts are dropped" in done.stdout,
          done.stdout)
    want = sorted([width * rows * hidden] * 8 + [width * rows] * 4)
    for rank in range(4):
        got = sorted(collectives("limit", rank, all_to_all))
        check(got == want, f"capacity, rank {rank}: {got}, not {want}")
    for options, said in ((["--routing", "none.csv"], "none.csv"),
                          (["--routing", "zipf:1,1", "--ep", "1"], "has no effect without --ep"),
                          (["--capacity", "-1"], "must be between")):
        done = synth("--out", "no", *shape, *options)
        check(done.returncode != 0 and said in done.stderr, done.stderr)
    for options, said in ((["--routing", "zipf:1,1"], "is not supported with --phase"),
                          (["--capacity", "1"], "is for training")):
        done = synth("--model-config", "moe4.json", "--phase", "prefill", "--out", "no", *options)
        check(done.returncode != 0 and said in done.stderr, done.stderr)


def dispatched():
    """The collectives of a layer with each dispatcher (clusters of 4 ranks with 2 of 8 experts)."""
    tokens, copies, hidden, experts, ranks, width = 64, 2, 64, 8, 4, 2
    gather, scatter, all_to_all = 2, 7, 6
    config = {**MODELS["moe4"], "hidden_size": hidden}
    with open("wide.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    shape = ["--model-config", "wide.json", "--layers", "1", "--max-seq-length", str(tokens),
             "--dp", "4", "--ep", "4", "--dtype", "bf16", "--hw", "h100"]
    reached = ranks * (1 - math.comb(experts - 2, copies) / math.comb(experts, copies))
    rows = ranks * round(tokens * reached / ranks)
    for fp8 in ([], ["--moe-dispatch-fp8"]):
        synth("--out", "deepep", "--moe-dispatcher", "deepep", *fp8, *shape)
        sent = rows * (hidden + 4 if fp8 else hidden * width)
        want = sorted([sent, rows * hidden * width] * 2)  # and in backward
        got = sorted(collectives("deepep", 1, all_to_all))
        check(got == want, f"deepep {fp8}: {got}, not {want}")
        check(collectives("deepep", 1, gather) == [], "deepep exchanges no counts")
    synth("--out", "gathered", "--moe-dispatcher", "allgather", *shape)
    each = sorted([tokens * hidden * width, tokens * copies * 4, tokens * copies * 4])
    got = sorted(collectives("gathered", 1, gather))
    check(got == sorted(each + [tokens * hidden * width]), f"allgather: {got}, not {each}")
    got = sorted(collectives("gathered", 1, scatter))
    want = sorted([ranks * tokens * hidden * width] * 2 + [ranks * tokens * copies * 4])
    check(got == want, f"allgather: {got}, not {want}")


def order(prefix, rank):
    """Phases and sizes of a rank's computation and of its collectives of experts, in order."""
    run("export", "--input", f"{prefix}.{rank}.et", "--output", "order.json")
    with open("order.json", encoding="utf-8") as f:
        graph = json.load(f)
    ours = [op for op in graph["nodes"] if op.get("comm") not in ("send", "recv")]
    return [(op.get("phase", "forward"),
             op["comm_bytes"] if op.get("group_name", "")[:2] == "ep" else 0) for op in ours]


def overlapped():
    """Passes overlap: the same ops in another order, in which each collective of experts between
    two passes is followed by computation of the other pass. The step is shorter."""
    for options in ("--dp 16 --ep 16 --global-batch 64",
                    "--pp 2 --vp 2 --dp 16 --ep 16 --tp 2 --sp --moe-dispatcher deepep "
                    "--global-batch 128", "--pp 4 --dp 16 --ep 16 --schedule dualpipe "
                    "--global-batch 512"):
        shape = ["--model", "qwen3-30b-a3b", "--layers", "4", "--max-seq-length", "4096", "--hw",
                 "h100", "--json", "--ranks", "0", *options.split()]
        seconds = {}
        for name in ("apart", "beside"):
            done = synth("--out", name, *shape, *(["--overlap-a2a"] if name == "beside" else []))
            check(done.returncode == 0, f"{options}: {done.stderr}")
            seconds[name] = json.loads(done.stdout)["predicted_step_ns"]
        apart, beside = order("apart", 0), order("beside", 0)
        check(sorted(apart) == sorted(beside), f"{options}: other ops")
        turns = sum(a[0] != b[0] for a, b in zip(beside, beside[1:]))
        check(turns > 2 * sum(a[0] != b[0] for a, b in zip(apart, apart[1:])), f"{turns} turns")
        check(seconds["beside"] < 0.96 * seconds["apart"], f"{options}: {seconds}")
        check(run("validate", "--single", "beside.0.et").returncode == 0, "validate")


def stamped_from(layouts, whole, few):
    for i, (model, layout) in enumerate(layouts):
        shape = ["--model-config", f"{model}.json", "--max-seq-length", "32", "--hw", "a100-80g",
                 "--micro-batch", "1", *layout.split(), "--make-vocab-size-divisible-by", "1"]
        check(synth("--out", f"{few}{i}", "--ranks", "one-per-program", *shape).returncode == 0,
              layout)
        last = len(files(f"{whole}{i}")) - 2
        done = run("stamp", "--input", f"{few}{i}", "--ranks", f"0-{last}")
        check(done.returncode == 0, f"{layout}: {done.stderr.decode()}")
        pairs = [(path, f"{few}{i}" + path.removeprefix(f"{whole}{i}"))
                 for path in files(f"{whole}{i}")]
        check([b for _, b in pairs] == files(f"{few}{i}") and
              all(filecmp.cmp(a, b, shallow=False) for a, b in pairs), f"{model} {layout}: stamp")


def stamped_later():
    """`syntorch stamp` completes a set of one rank of each kind to the whole set."""
    stamped_from(LAYOUTS, "stamped", "few")
    stamped_from(EXPERTS, "experts", "few_experts")
    for options, said in ((("--input", "few0", "--ranks", "8"), "rank 8 does not exist: the set"),
                          (("--input", "few0", "--ranks", "x"), "is not a list of ranks"),
                          (("--input", "few0", "--ranks", "9" * 20), "above the highest rank"),
                          (("--input", "absent", "--ranks", "0"), "neither the file absent nor"),
                          (("--ranks", "0"), "a prefix is needed"),
                          (("few0", "few1", "--rank", "0"), "accepts one prefix, not 2"),
                          (("few0",), "--ranks is required")):
        done = run("stamp", *options)
        check(done.returncode != 0 and said in done.stderr.decode(), done.stderr.decode())
    os.rename("few1.comm_group.json", "part.comm_group.json")
    os.rename("few1.0.et", "part.0.et")
    done = run("stamp", "--input", "part", "--ranks", "1,47")
    check(done.returncode == 1 and "no file of the set has the program of rank 47" in
          done.stderr.decode() and os.path.exists("part.comm_group.json"), done.stderr.decode())
    done = run("stamp", "--input", "part", "--ranks", "0-1")
    check(done.returncode == 0 and b"files that exist are not checked" in done.stdout, done.stdout)
    os.remove("part.1.et")
    os.rename("part.comm_group.json", "groups.json")
    done = run("stamp", "--input", "part", "--ranks", "1")
    check(done.returncode == 1 and b"it has no comm_group.json" in done.stderr, done.stderr)
    os.rename("groups.json", "part.comm_group.json")
    with open("part.0.et", "rb") as f:
        whole = f.read()
    with open("part.0.et", "wb") as f:
        f.write(gzip.compress(whole))
    done = run("stamp", "--input", "part", "--ranks", "1")
    with gzip.open("part.1.et") as f, open("stamped1.1.et", "rb") as g:
        check(done.returncode == 0 and f.read() == g.read(), "stamp of compressed files")
    os.remove("part.1.et")
    for end, said in ((len(whole) - 1, "part.0.et: "), (4, "part.0.et"), (0, "part.0.et")):
        with open("part.0.et", "wb") as f:
            f.write(whole[:end])
        done = run("stamp", "--input", "part", "--ranks", "1")
        check(done.returncode == 1 and said in done.stderr.decode() and
              not os.path.exists("part.1.et"), f"{end} bytes: {done.stderr.decode()}")


# (model, options) of inference
INFERENCE = [
    ("llama4", "--tp 2 --pp 2"),
    ("gpt4", "--tp 4 --sp --micro-batch 3"),
    ("qwen4", "--pp 3 --layers-per-stage 1,2,1 --dtype bf16"),
    ("bert4", "--tp 2"),
]


def inference(folder, shape, n_out):
    """Records all ranks of a run of the program inference without data."""
    tokens = ["--num-output-tokens", str(n_out)] if n_out else []
    shape = [word.replace("--micro-batch", "--batch-size") for word in shape]
    if "bert4.json" in shape:
        with open("ids.txt", "w", encoding="utf-8") as f:
            f.write("0" + " 1" * 23 + "\n")
        shape += ["--prompt-ids", "ids.txt", "--mask-id", "0"]
    done = subprocess.run([os.path.join(BUILD, "inference"), "--device", "meta", "--quiet",
                           "--attention", "fused", "--visualize-trace", "--out-dir", folder,
                           *tokens, *shape], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{shape}: {done.stderr}")
    return f"{folder}/trace"


def totals(prefix):
    """The nodes of a set, and the sums of their times and of the bytes of collectives."""
    nodes = []
    for path in files(prefix)[:-1]:
        out = f"{path}.json"
        check(run("json", "--input", path, "--output", out).returncode == 0, f"{path}: json")
        with open(out, encoding="utf-8") as f:
            nodes += json.load(f)["ranks"][0]["nodes"]
    comm = [int(a["int64Val"]) for node in nodes for a in node["attr"] if a["name"] == "comm_size"]
    return len(nodes), sum(int(node.get("durationMicros", 0)) for node in nodes), sum(comm)


def inferred():
    """--phase generate and prefill write the files of the program inference, byte for byte. The
    nodes of decode are those that generating one more token adds. Replicas are equal, and the
    simulated time is the predicted one."""
    for i, (model, layout) in enumerate(INFERENCE):
        shape = ["--model-config", f"{model}.json", "--hw", "h100", "--num-input-tokens", "24",
                 *layout.split()]
        bert = model.startswith("bert")
        for phase, n_out in (("prefill", 0 if bert else 1), ("generate", 3), ("decode", 0)):
            if bert and phase != "prefill":
                done = synth("--out", "none", "--phase", phase, *shape)
                check(done.returncode == 2 and "use --phase prefill" in done.stderr, done.stderr)
                continue
            ours = f"{phase}{i}"
            tokens = ["--num-output-tokens", "3"] if n_out > 1 else []
            own = [word for word in shape if phase != "decode" or word != "--sp"]
            done = synth("--out", ours, "--phase", phase, "--json", *tokens, *own)
            check(done.returncode == 0, f"{phase} {layout}: {done.stderr}")
            said = json.loads(done.stdout)
            ns = sum(said.get(f"predicted_{part}_ns", 0) for part in ("prefill", "decode",
                                                                      "forward"))
            done = run("simulate", "--input", ours, "--json")
            check(done.returncode == 0, done.stderr.decode())
            simulated = json.loads(done.stdout)["end_ns"]
            check(abs(simulated / ns - 1) < 1e-3, f"{phase} {layout}: {ns} {simulated}")
            if phase == "decode":
                continue
            theirs = inference(f"inferred_{ours}", shape, n_out)
            pairs = [(path, ours + path[len(theirs):]) for path in files(theirs)]
            check([b for _, b in pairs] == files(ours) and
                  all(filecmp.cmp(a, b, shallow=False) for a, b in pairs),
                  f"{model} {phase} {layout}: {files(ours)}")
        if bert:
            continue
        one, two = (totals(inference(f"{i}_{n}", shape, n)) for n in (1, 2))
        decode = totals(f"decode{i}")
        check(decode[0] == two[0] - one[0] and decode[2] == two[2] - one[2] and
              abs(decode[1] + one[1] - two[1]) < 1e-6 * two[1], f"{one} {decode} {two}")


def replicas():
    """Data-parallel ranks of inference are replicas, which `stamp` writes, too."""
    shape = ["--model-config", "llama4.json", "--hw", "h100", "--num-input-tokens", "24", "--tp",
             "2", "--pp", "2"]
    rates = []
    for dp in (1, 3):
        done = synth("--out", f"dp{dp}", "--phase", "decode", "--dp", str(dp), *shape)
        check(done.returncode == 0, done.stderr)
        rates.append(done.stdout.partition("predicted decode:  ")[2].split(" tokens in "))
    check([rate[0] for rate in rates] == ["1", "3"] and
          rates[0][1].split(",")[0] == rates[1][1].split(",")[0], str(rates))
    done = run("validate", "--input", "dp3")
    check(done.returncode == 0 and b"12 files" in done.stdout, done.stdout.decode())
    for path in files("dp3")[2:]:
        os.rename(path, f"kept.{path}")
    synth("--out", "dp3", "--phase", "decode", "--dp", "3", "--ranks", "one-per-program", *shape)
    check(run("stamp", "--input", "dp3", "--ranks", "0-11").returncode == 0, "stamp")
    check(all(filecmp.cmp(path[5:], path, shallow=False) for path in glob.glob("kept.*.et")),
          "stamp writes other replicas")


def killed():
    """Files of ranks that do not communicate do not look like a complete set without the group
    file, which is written last."""
    shape = ["--model-config", "gpt4.json", "--phase", "decode", "--num-input-tokens", "8", "--dp",
             "4"]
    check(synth("--out", "cut_off", *shape).returncode == 0, "replicas")
    check(run("validate", "--input", "cut_off").returncode == 0, "validate: all ranks")
    os.remove("cut_off.3.et")
    os.remove("cut_off.comm_group.json")
    done = run("validate", "--input", "cut_off")
    check(done.returncode == 1 and b"the set has no file for this rank" in done.stdout,
          done.stdout.decode())


def packed():
    """--gzip writes the same files, compressed, and a set that can be checked."""
    shape = ["--model-config", "gpt4.json", "--max-seq-length", "16", "--tp", "2", "--pp", "2"]
    check(synth("--out", "plain", *shape).returncode == 0, "plain")
    done = synth("--out", "packed", "--gzip", *shape)
    if "no zlib" in done.stderr:
        check(not files("packed"), "a set without zlib")
        return
    sizes = 0
    for path in glob.glob("packed.*.et"):
        sizes += os.path.getsize(path)
        with gzip.open(path, "rb") as f, open(path.replace("packed", "plain"), "rb") as other:
            check(f.read() == other.read(), path)
    check(f"{sizes / 1024:.1f} KiB in" in done.stdout, f"{sizes}: {done.stdout}")
    done = [run("simulate", "--input", name, "--json").stdout for name in ("plain", "packed")]
    check(done[0] == done[1] and b"end_ns" in done[0], str(done))


def many_ranks():
    """Ranks with up to four digits, and group ids with up to three."""
    for ranks, layout in ((1024, "--dp 1024 --zero 1"),
                          (256, "--tp 4 --pp 4 --dp 16 --zero 1 --global-batch 128")):
        done = synth("--model-config", "gpt4.json", "--max-seq-length", "16", "--out", "many",
                     *layout.split())
        check(done.returncode == 0 and f"{ranks} ranks with" in done.stdout,
              done.stdout + done.stderr)
        checked = run("validate", "--input", "many")
        check(checked.returncode == 0 and b"no problem; a simulation finishes" in checked.stdout,
              checked.stdout.decode())


def some_ranks():
    """--ranks writes some of the files of the set, and --dry-run writes none and counts all."""
    shape = ["--model-config", "gpt4.json", "--max-seq-length", "16", "--tp", "2", "--pp", "2",
             "--dp", "6", "--hw", "a100-80g"]
    check(synth("--out", "all", *shape).returncode == 0, "all ranks")
    sizes = sum(os.path.getsize(path) for path in glob.glob("all.*.et"))
    done = synth("--out", "none", "--dry-run", *shape)
    check(done.returncode == 0 and not files("none") and "not written: none.*, 24 ranks with" in
          done.stdout and f"{sizes / 1024:.0f} KiB" in done.stdout, f"{sizes}: {done.stdout}")
    nodes = re.search(r"24 ranks with (\d+) nodes", done.stdout).group(1)
    for ranks, want in (("one-per-program", {0, 12}), ("3,7-9", {3, 7, 8, 9}), ("all", None)):
        done = synth("--out", "some", "--ranks", ranks, *shape)
        check(done.returncode == 0 and (f"all 24 ranks have {nodes} nodes" in done.stdout) ==
              (ranks == "one-per-program"), f"{ranks}: {done.stdout}")
        got = {int(path.split(".")[1]) for path in glob.glob("some.*.et")}
        check(got == (want or set(range(24))), f"--ranks {ranks}: {got}")
        check(filecmp.cmp("some.comm_group.json", "all.comm_group.json", shallow=False) and
              all(filecmp.cmp(f"some.{r}.et", f"all.{r}.et", shallow=False) for r in got),
              f"--ranks {ranks} has other files")
    # On nodes of eight, ranks 6 to 8 shard over two nodes and the others over one. Of the replicas
    # of ranks 2, 5, 8 and 11, two are on each node; of the others, three and one.
    shards = "--model-config llama4.json --max-seq-length 16 --dp 12 --zero 3 --hsdp 3".split()
    done = synth("--out", "some", *shards, "--ranks", "one-per-program")
    whole = synth("--out", "none", *shards, "--dry-run")
    check(done.returncode == 0 and re.search(r"all 12 ranks have (\d+) nodes", done.stdout).group(1)
          == re.search(r"12 ranks with (\d+) nodes", whole.stdout).group(1), done.stdout)
    got = {int(path.split(".")[1]) for path in glob.glob("some.*.et")}
    check(got == {0, 2, 6, 8}, f"hsdp: {got}")
    for ranks in ("24", "5-2", "1,,2", "x", "-1"):
        done = synth("--out", "some", f"--ranks={ranks}", *shape)
        check(done.returncode == 1 and "--ranks" in done.stderr, f"{ranks}: {done.stderr}")


def one_run_at_a_time():
    """A second run with the same prefix is refused while the first one writes. A model without a
    dtype is predicted in bf16, with and without --hw."""
    shape = ["--model-config", "gpt4.json", "--max-seq-length", "16", "--out", "busy"]
    big = subprocess.Popen([os.path.join(BUILD, "synth"), *shape, "--quiet", "--dp", "512", "--pp",
                            "2", "--global-batch", "8192"])
    while big.poll() is None and not os.path.exists("busy.20.et"):
        time.sleep(0.01)
    big.send_signal(signal.SIGSTOP)
    done = synth(*shape)
    big.send_signal(signal.SIGCONT)
    check(done.returncode == 1 and "name another --out" in done.stderr, done.stderr)
    check(big.wait() == 0 and len(glob.glob("busy.*.et")) == 1024, "the first run")
    for more in ((), ("--hw", "a100-80g")):
        check(" in bf16 on a100-80g" in synth(*shape, "--dry-run", *more).stdout, f"dtype: {more}")


def padded():
    """With tp 4, GPT-2's vocabulary of 50,257 becomes 50,688 (Megatron-LM's
    _vocab_size_with_padding: a multiple of 128 * 4), so each rank's head has 12,672 columns."""
    done = synth("--model", "gpt3-125m", "--tp", "4", "--max-seq-length", "64", "--out", "padded")
    check(done.returncode == 0, done.stderr)
    check(run("json", "--input", "padded.0.et", "--output", "padded.json").returncode == 0, "json")
    with open("padded.json", encoding="utf-8") as f:
        head = [n for n in json.load(f)["ranks"][0]["nodes"] if n["name"] == "head/lm_head"]
    check(head and {a["name"]: a for a in head[0]["attr"]}["num_ops"]["int64Val"] ==
          str(2 * 64 * 768 * 50688 // 4), str(head[:1]))


def failures():
    small = ["--model-config", "gpt4.json", "--max-seq-length", "16", "--out", "refused"]
    for options, said in (
            ("--dp 4 --global-batch 10", "--global-batch 10 is not a multiple of 4, the samples of "
             "a microbatch (1) on 4 data-parallel ranks"),
            ("--num-gpus 8 --dp 3 --tp 2", "--num-gpus 8 contradicts tp 2 x dp 3 x pp 1, which is "
             "6"),
            ("--num-gpus 7 --tp 2", "7 ranks are not a multiple of tp 2"),
            ("--sp", "--sp has no effect without --tp"),
            ("--pp 3", "the 4 layers of"),
            ("--max-seq-length 4096", "--max-seq-length 4096 exceeds the"),
            ("--num-input-tokens 4", "has no effect on training; omit it, or give --phase"),
            ("--phase prefill", "max_seq_length is an option for training and has no effect")):
        done = synth(*small, *options.split())
        code = 1 if options in ("--pp 3", "--max-seq-length 4096") else 2
        check(done.returncode == code and said in done.stderr and not files("refused"),
              f"{options}: {done.stderr}")
    infer = ["--model-config", "gpt4.json", "--out", "refused", "--phase", "generate"]
    for options, said in (
            ("--fp8", "--fp8 predicts training"), ("--phase decode --tp 2 --sp", "not divided"),
            ("--zero 1", "inference has no gradients"), ("--vp 2", "passes through the stages"),
            ("--num-gpus 3 --tp 2", "--num-gpus 3 is not --tp x --pp x --dp"),
            ("--rank-order dp-tp-pp", "is not supported with --phase"),
            ("--num-input-tokens 9999", "9999"), ("--tp 3", "tp 3 does not divide"),
            ("--phase prefill --num-output-tokens 2", "which ends with the first token")):
        done = synth(*infer, *options.split())
        check(done.returncode != 0 and said in done.stderr and not files("refused"),
              f"{options}: {done.stderr}")
    with open(os.path.join(SOURCE, "examples/configs/hw_a100.json"), encoding="utf-8") as f:
        machine = json.load(f)
    del machine["hardware"]["inter"]
    with open("one_node.json", "w", encoding="utf-8") as f:
        json.dump(machine, f)
    for command in (small, infer):
        one = [*command, "--hw", "one_node.json", "--dp", "9", "--dry-run"]
        done = synth(*one)
        check(done.returncode == 1 and "9 ranks need 2 nodes of 8" in done.stderr, done.stderr)
        check(synth(*one, "--dp", "8").returncode == 0, "one node")
    two = synth(*small[:-1], "nine", "--dp", "9")
    check(two.returncode == 0, two.stderr)
    for program in (["pretrain", "--device", "meta", "--model", "gpt2", "--num-gpus", "9"],
                    ["inference", "--device", "meta", "--model", "gpt2", "--tp", "12"],
                    ["syntorch", "what-if", "nine"]):
        done = subprocess.run([os.path.join(BUILD, program[0]), *program[1:], "--hw",
                               "one_node.json"], capture_output=True, text=True, check=False)
        check(done.returncode == 1 and "ranks need 2 nodes of 8" in done.stderr, done.stderr)
    if shutil.disk_usage(".").free < 10 ** 12:
        done = synth(*small, "--pp", "4", "--dp", "65536", "--global-batch", str(65536 * 512))
        check(done.returncode == 1 and "the set needs about 1" in done.stderr and
              "GiB are free on the disk" in done.stderr and not files("refused"), done.stderr)
        check(synth(*small, "--dp", "2").returncode == 0, "a set")
        done = synth(*small, "--pp", "4", "--dp", "65536", "--global-batch", str(65536 * 512))
        check(done.returncode == 1 and len(files("refused")) == 3, "the older set is damaged")
        for path in files("refused"):
            os.remove(path)
    if MPIRUN:
        done = subprocess.run([*launcher("2"), os.path.join(BUILD, "synth"), *small],
                              capture_output=True, text=True, check=False)
        check(done.returncode != 0 and "start it without mpirun" in done.stderr, done.stderr)
    with open("few.json", "w", encoding="utf-8") as f:  # fewer tokens than the byte tokenizer has
        json.dump({**DEEP["gpt4"], "vocab_size": 100}, f)
    done = synth("--model-config", "few.json", "--max-seq-length", "16", "--out", "few")
    check(done.returncode == 0, done.stderr)
    check("--out PREFIX" in synth("--model", "gpt2").stderr, "no --out")
    check(synth(*small[:-1], "full", "--dp", "4").returncode == 0, "four ranks")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

    done = synth(*small[:-1], "full", "--dp", "2", preexec_fn=limit)
    check(done.returncode == 1 and "File too large" in done.stderr, done.stderr)
    check(not os.path.exists("full.comm_group.json"), f"an incomplete set: {files('full')}")


def main():
    enter_folder()
    for name, config in MODELS.items():
        with open(f"{name}.json", "w", encoding="utf-8") as f:
            json.dump(config, f)
    fewer_layers()
    longer()
    does_not_fit()
    as_recorded(LAYOUTS, "stamped")
    as_recorded(EXPERTS, "experts")
    balanced()
    loaded()
    dispatched()
    overlapped()
    stamped_later()
    inferred()
    replicas()
    killed()
    packed()
    many_ranks()
    some_ranks()
    one_run_at_a_time()
    padded()
    failures()
    finish()


main()
