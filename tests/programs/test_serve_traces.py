"""Trace sets of `syntorch serve`: their steps, times, collectives and messages."""
import json
import os
import shutil

from checks import check, enter_folder, finish, run
from execution_trace import COLL, COMP, RECV, SEND, read_et

PROMPT, OUTPUT, LAYERS, HEADS, HEAD_DIM = 100, 6, 2, 8, 128
MODEL = ["--model", "llama-3-8b", "--layers", str(LAYERS), "--hw", "h100+serving"]


def write_requests():
    """Requests of two sizes, of which several arrive together."""
    with open("requests.csv", "w", encoding="utf-8") as out:
        out.write("input_tokens,output_tokens,arrival_s\n")
        for i in range(12):
            out.write(f"{PROMPT + 50 * (i % 2)},{OUTPUT},{0.004 * (i // 4)}\n")


def serve(prefix, *options, model=MODEL):
    done = run("serve", *model, "--requests", "requests.csv", "--out", prefix, "--json", *options,
               text=True)
    if not check(done.returncode == 0, f"{options}: {done.stderr}"):
        finish()
    return json.loads(done.stdout)


def ranks_of(prefix):
    nodes = []
    while os.path.exists(f"{prefix}.{len(nodes)}.et"):
        with open(f"{prefix}.{len(nodes)}.et", "rb") as file:
            nodes.append(read_et(file.read())[1])
    return nodes


def simulate(prefix, *options):
    """Checks that a simulation runs all nodes, and returns its time."""
    valid = run("validate", prefix, text=True)
    check(valid.returncode == 0 and "no problem" in valid.stdout, f"{prefix}: {valid.stdout}")
    done = run("simulate", prefix, "--json", *options, text=True)
    if not check(done.returncode == 0, f"{prefix}: {done.stderr}"):
        finish()
    result = json.loads(done.stdout)
    check(result["nodes_run"] == result["nodes"] and result["deadlock"] is None,
          f"{prefix}: {result['nodes_run']} of {result['nodes']} nodes run")
    return result["end_ns"]


def steps_of(nodes):
    return sorted({(n.attr.get("step", 0), n.attr["phase"]) for n in nodes})


# ---- Which steps, and their times ----


def test_times():
    """A set takes the time that the simulation predicted for its steps."""
    for options in (["--trace", "all"], ["--tp", "4", "--trace", "all"],
                    ["--dp", "2", "--trace", "all"],
                    ["--trace", "steps:1-3", "--num-speculative-tokens", "2", "--draft-model",
                     "llama-3.1-8b", "--max-model-len", "8192"]):
        result = serve("times/set", *options)
        ns = simulate("times/set")
        check(abs(ns / result["traced_ns"] - 1) < 0.01,
              f"{options}: {ns} ns instead of {result['traced_ns']}")
        written = [os.path.basename(file["path"]) for file in result["written"]]
        check(sorted(written) == sorted(os.listdir("times")), f"{options}: written {written}")
        shutil.rmtree("times")


def test_choices():
    for trace, steps in (("steps:2-4", [2, 3, 4]), ("time:0-0.0001", [0])):
        serve("chosen/set", "--trace", trace)
        found = [step for step, phase in steps_of(ranks_of("chosen/set")[0])]
        check(found == steps, f"{trace}: steps {found}")
    everything = serve("chosen/set", "--trace", "all")
    nodes = ranks_of("chosen/set")[0]
    sizes = {}
    for n in nodes:
        if n.name.endswith("lm_head"):
            sizes[n.attr.get("step", 0)] = n.attr["num_ops"]
    check(len(steps_of(nodes)) == everything["traced_steps"], "a step lacks its number")
    serve("chosen/set")
    chosen = ranks_of("chosen/set")[0]
    check([phase for step, phase in steps_of(chosen)] in (["prefill", "decode"],
                                                          ["decode", "prefill"]),
          f"fullest: {steps_of(chosen)}")
    decoded = [step for step, phase in steps_of(chosen) if phase == "decode"]
    most = max(sizes[step] for step, phase in steps_of(nodes) if phase == "decode")
    check(sizes[decoded[0]] == most, f"step {decoded[0]} does not have the most sequences")
    notes = serve("none/set", "--trace", "none")["notes"]
    check(not os.path.exists("none/set.0.et") and not notes, f"--trace none: {notes}")
    notes = serve("chosen/set", "--trace", "none")["notes"]
    check(notes == ["the traces chosen/set.*.et are of an older run"], f"older traces: {notes}")


def test_limit():
    """Beyond the limit, the steps that end first are traced."""
    for options in (["--dp", "2", "--trace", "all"], ["--prefill", "tp=1", "--decode", "tp=1"]):
        full = serve("limit/set", *options)
        result = serve("limit/set", *options, "--trace-limit", "3")
        note = f"the traces have the first 3 of {full['traced_steps']} steps (--trace-limit)"
        check(note in result["notes"] and result["traced_steps"] == 3, f"{result['notes']}")
        with open("limit/set.timeline.json", encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        if "all" in options:
            first = sorted(events, key=lambda e: e["ts"] + e["dur"])[:3]
            mine = [sum(e["pid"] == rank for e in first) for rank in range(2)]
            found = [len(steps_of(nodes)) for nodes in ranks_of("limit/set")]
            check(found == mine, f"{found} steps instead of {mine}")
        simulate("limit/set")


def test_replicas():
    """Each replica has a file, also if it computes nothing."""
    result = serve("replicas/set", "--dp", "16", "--trace", "steps:0-0")
    nodes = ranks_of("replicas/set")
    check(len(nodes) == result["traced_ranks"] == 16, f"{len(nodes)} ranks")
    check(result["traced_steps"] == 12, f"{result['traced_steps']} steps")
    check(all(nodes), "a rank has no nodes")
    simulate("replicas/set")


def test_errors():
    for options, code, text in (
            (["--trace", "steps:5"], 2, "--trace must be fullest, none, all, or a range"),
            (["--trace", "time:3-1"], 2, "--trace must be"),
            (["--trace", "none", "--fold"], 2, "has no effect with --trace none"),
            (["--trace", "steps:1.5-2"], 2, "--trace must be"),
            (["--trace", "steps:900-901"], 1, "chooses no step: a replica has at most"),
            (["--trace", "time:900-901"], 1, "chooses no step: the steps begin between 0 s and 0.")
    ):
        done = run("serve", *MODEL, "--requests", "requests.csv", "--out", "failed/set", *options,
                   text=True)
        check(done.returncode == code and text in done.stderr, f"{options}: {done.stderr}")
    check(not os.path.exists("failed/set.0.et"), "a failed run has written traces")
    done = run("serve", *MODEL, "--requests", "requests.csv", "--fold", text=True)
    check(done.returncode == 2 and "has no effect without --out" in done.stderr, done.stderr)


# ---- Communication ----


def collectives(nodes):
    return [(n.attr["pg_name"], n.attr["comm_type"], n.attr["comm_size"])
            for n in nodes if n.type == COLL]


def test_experts():
    """Replicas that share experts call the same collectives with the same sizes."""
    model = ["--model", "qwen3-30b-a3b", "--layers", "2", "--hw", "h100+serving"]
    serve("experts/set", "--dp", "2", "--ep", "2", "--trace", "all", model=model)
    ranks = ranks_of("experts/set")
    check(collectives(ranks[0]) == collectives(ranks[1]) != [], "the collectives differ")
    check(steps_of(ranks[0]) == steps_of(ranks[1]), "the steps differ")
    simulate("experts/set")
    equal = ["--dp", "2", "--ep", "2", "--trace", "all", "--requests", "fixed:100:6", "--rate",
             "inf", "--num-requests", "4"]
    for fold in ([], ["--fold"]):
        result = serve("experts/set", *equal, *fold, model=model)
        ns = simulate("experts/set")
        check(abs(ns / result["traced_ns"] - 1) < 0.002,
              f"{fold}: {ns} ns instead of {result['traced_ns']}")


def layer_of(name):
    return int(name.split("layers.")[1].split(".")[0]) if "layers." in name else None


def messages(nodes, kind, tokens=False):
    """The messages with caches, or with sampled tokens."""
    return [n for n in nodes if n.type == kind and n.name.endswith("sampled_token") == tokens]


def check_tokens(what, ranks, prefill):
    """The first rank of the prompts sends each first token to all ranks that embed it."""
    sent = [(n.attr["comm_dst"], n.attr["comm_tag"]) for n in messages(ranks[0], SEND, True)]
    received = [(rank, n.attr["comm_tag"]) for rank in range(prefill, len(ranks))
                for n in messages(ranks[rank], RECV, True)]
    check(sorted(sent) == sorted(received) != [], f"{what}: tokens {sent}, {received}")
    for nodes in ranks[prefill:]:
        for step in {n.attr.get("step") for n in messages(nodes, RECV, True)}:
            mine = {n.id for n in messages(nodes, RECV, True) if n.attr.get("step") == step}
            first = next(n for n in nodes if n.type == COMP and n.attr.get("step") == step)
            check(mine <= set(first.data), f"{what}: {first.name} does not wait for {mine}")


def test_transfers():
    """A request waits for the last layer's message as long as the message takes in the set."""
    result = serve("sent/set", "--prefill", "tp=2", "--decode", "tp=2", "--trace", "all")
    ns = sum(n.attr["predicted_ns"] for n in messages(ranks_of("sent/set")[2], RECV)
             if n.attr["comm_tag"] % LAYERS == 0)
    check(abs(result["exposed_kv_transfer_ns"] - ns) <= 12,
          f"{result['exposed_kv_transfer_ns']} ns instead of {ns}")


def test_nodes():
    """A note says that ASTRA-sim has ranks of both pools on one node."""
    serve("node/set", "--prefill", "tp=2", "--decode", "tp=2")
    for options, noted in ([], True), (["--node_ranks", "2"], False):
        done = run("astra-sim", "node/set", "--json", *options, text=True)
        check(("ranks of both pools" in done.stdout) == noted, f"{options}: {done.stdout}")


def test_lost_transfers():
    """A note counts the transfers of which only one end is in the set."""
    split = ["--prefill", "tp=1", "--decode", "tp=1", "--trace"]
    complete = serve("lost/set", *split, "all")
    check(not any("KV transfers" in note for note in complete["notes"]), complete["notes"])
    lost = serve("lost/set", *split, "time:0-0.002")["notes"]
    nodes = ranks_of("lost/set")
    sent = len(messages(nodes[0], SEND, True))
    check(len(lost) == 1 and "3 of 4 KV transfers" in lost[0] and sent == 1, f"{lost}, {sent} sent")


def test_first_tokens():
    """A request's second token is computed after its first one."""
    for options in (["--prefill", "tp=2", "--decode", "tp=1"], ["--fold"] +
                    ["--prefill", "tp=1,dp=2", "--decode", "tp=2"]):
        run("serve", *MODEL, "--requests", "fixed:300:3", "--num-requests", "1", "--out",
            "token/set", *options)
        simulate("token/set", "--timeline", "token/timeline.json")
        with open("token/timeline.json", encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"]
                      if e["ph"] == "X" and e["tid"] == 0]
        nodes = ranks_of("token/set")
        begun = [rank for rank in range(len(nodes)) if messages(nodes[rank], RECV, True)]
        prompt = max(e["ts"] + e["dur"] for e in events if e["pid"] == 0)
        check(begun and min(e["ts"] for e in events if e["pid"] in begun) >= prompt,
              f"{options}: ranks {begun} begin before {prompt} us")


def test_messages(prefill, decode, model=MODEL, heads=HEADS, width=2 * HEAD_DIM, latent=False):
    """heads, width: key/value heads, and elements of a token's key and value of one head."""
    what = f"{model[1]}, tp {prefill} to {decode}"
    serve("split/set", "--prefill", f"tp={prefill}", "--decode", f"tp={decode}", model=model)
    ranks = ranks_of("split/set")
    check(len(ranks) == prefill + decode, f"{what}: {len(ranks)} ranks")
    tags = {n.attr["comm_tag"] for n in messages(ranks[0], SEND)}
    tags |= {n.attr["comm_tag"] for nodes in ranks[prefill:] for n in messages(nodes, RECV)}
    prompts = len({tag // LAYERS for tag in tags})
    check(len(tags) == prompts * LAYERS >= LAYERS, f"{what}: tags {sorted(tags)}")
    on_rank = heads if latent else max(1, heads // decode)
    for nodes in ranks[prefill:]:
        received = {}
        for n in messages(nodes, RECV):
            key = n.attr["comm_tag"]
            received[key] = received.get(key, 0) + n.attr["comm_size"]
        check(set(received) == tags, f"{what}: a rank receives {sorted(received)}")
        tokens = {size / (on_rank * width * 2) for size in received.values()}
        check(tokens <= {PROMPT, PROMPT + 50}, f"{what}: messages of {tokens} tokens")
    for nodes in ranks[:prefill]:
        by_id = {n.id: n for n in nodes}
        for n in messages(nodes, SEND):
            layers = {layer_of(by_id[dep].name) for dep in n.data}
            check(layers == {n.attr["comm_tag"] % LAYERS}, f"{what}: a send waits for {layers}")
    for nodes in ranks[prefill:]:
        layer = {n.id: n.attr["comm_tag"] % LAYERS for n in messages(nodes, RECV)}
        unread = set(layer)
        for n in (n for n in nodes if n.name.endswith("_cache")):
            layers = {layer[dep] for dep in n.data if dep in layer}
            check(layers <= {layer_of(n.name)}, f"{what}: {n.name} has messages of {layers}")
            unread -= set(n.data)
        check(not unread, f"{what}: nothing reads the messages {unread}")
    check(not any("transferred" in n.name for nodes in ranks for n in nodes),
          f"{what}: the set copies caches")
    check_tokens(what, ranks, prefill)
    simulate("split/set")


# ---- Folded traces ----


def test_fold():
    for options in (["--tp", "2", "--trace", "all"], ["--prefill", "tp=2", "--decode", "tp=4"]):
        serve("plain/set", *options)
        folded = serve("folded/set", "--fold", *options)
        most = 0
        for plain, nodes in zip(ranks_of("plain/set"), ranks_of("folded/set"), strict=True):
            check(collectives(plain) == collectives(nodes), f"{options}: collectives differ")
            ends = [[(n.type, n.attr["comm_src"], n.attr["comm_dst"], n.attr["comm_tag"],
                      n.attr["comm_size"]) for n in part if n.type in (SEND, RECV)]
                    for part in (plain, nodes)]
            check(ends[0] == ends[1], f"{options}: messages differ")
            sums = []
            for part in (plain, nodes):
                comp = [n for n in part if n.type == COMP]
                sums.append([sum(n.attr["predicted_ns"] for n in comp),
                             sum(n.attr["num_ops"] for n in comp if n.attr["num_ops"] > 1),
                             sum(n.attr["tensor_size"] for n in comp)])
            check(abs(sums[0][0] - sums[1][0]) <= len(plain), f"{options}: ns {sums}")
            check(abs(sums[0][1] - sums[1][1]) <= len(plain), f"{options}: flops {sums}")
            check(sums[0][2] == sums[1][2], f"{options}: bytes {sums}")
            runs = [n for n in nodes if n.type == COMP]
            check(all("layer" in n.name or n.name in ("embedding", "head", "host") for n in runs),
                  f"{options}: {sorted({n.name for n in runs})[:5]}")
            most = max(most, len(runs) / len([n for n in plain if n.type == COMP]))
        check(most < 0.5, f"{options}: {most} of the nodes are left")
        check(folded["traced_nodes"] == sum(map(len, ranks_of("folded/set"))), "traced_nodes")
        apart = simulate("plain/set") - simulate("folded/set")
        check(abs(apart) < 0.01 * simulate("plain/set"), f"{options}: {apart} ns apart")
    serve("folded/set", "--fold", "--trace", "steps:0-0")
    names = [n.name for n in ranks_of("folded/set")[0] if n.name != "host"]
    check(names == [f"embedding, layers 0-{LAYERS - 1}, head"], f"one rank: {names}")


enter_folder()
write_requests()
test_times()
test_choices()
test_limit()
test_replicas()
test_errors()
test_experts()
for tps in ((1, 1), (2, 4), (4, 2), (16, 4), (2, 16)):
    test_messages(*tps)
test_messages(32, 1, ["--model", "llama-2-7b", "--layers", str(LAYERS), "--hw", "h100+serving"],
              heads=32)
test_messages(2, 4, ["--model", "deepseek-v3", "--layers", str(LAYERS), "--hw", "h200+serving",
                     "--num-gpu-blocks", "1000"], heads=1, width=512 + 64, latent=True)
test_transfers()
test_nodes()
test_lost_transfers()
test_first_tokens()
test_fold()
finish()
