"""Tests examples/analyse.py. Its critical paths, op tables, exposed communication and bytes per
layer are compared with what inference, pretrain, `syntorch stat` and `syntorch export` report, with
the events of a Kineto trace, and with results computed by hand for small graphs."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

from checks import BUILD, SOURCE, check, finish, run, skip

try:
    import networkx as nx
except ImportError:
    skip("no networkx")
sys.path.insert(0, os.path.join(SOURCE, "examples"))
import analyse  # noqa: E402

UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def near(a, b, rel=6e-3):
    """Allows a difference of 0.6 %, because programs print three significant digits."""
    return abs(a - b) <= rel * max(abs(a), abs(b))


def took(text, pattern):
    value, unit = re.search(pattern + r" ([0-9.]+) (\S?s)\b", text).groups()
    return float(value) * UNITS[unit]


def program(name, folder, *args):
    done = subprocess.run([os.path.join(BUILD, name), *args], cwd=folder, capture_output=True,
                          timeout=300, check=True)
    return done.stdout.decode()


def exported(folder, source, target, *args):
    done = run("export", "--input", source, "--output", target, *args, cwd=folder)
    check(done.returncode == 0, f"{target}: {done.stderr}")
    with open(os.path.join(folder, target), encoding="utf-8") as f:
        return f.read()


def check_inference(folder):
    """A predicted run of inference: the critical path is as long as the printed prefill and decode,
    and the ops are those of the printed table."""
    said = program("inference", folder, "--device", "meta", "--tp", "2", "--visualize_trace",
                   "--out_dir", "out")
    g = analyse.load(os.path.join(folder, "out/tensor_trace_graph.json"))
    path, total = analyse.critical_path(g)
    want = took(said, "16 tokens in") + took(said, "15 tokens in")
    check(near(total, want), f"the path takes {total}, the run {want}")
    check(near(sum(analyse.ns(g.nodes[n]) for n in path), total), "of the ops on the path")
    table = dict(re.findall(r"^  (\w+) +(\d+) +[0-9.]+ \S+ +[0-9.]+%", said, re.M))
    rows = {op: calls for _, op, calls, *_ in analyse.top_ops(g)}
    check(rows == {op: 2 * int(n) for op, n in table.items() if op != "total"},
          f"{rows} calls on two ranks, {table} on one")
    for rank, comm, alone in analyse.exposed(g):  # no overlap in a forward pass
        check(near(comm, alone) and comm > 0, f"rank {rank}: {alone} of {comm} exposed")
    layers = {layer: size for layer, _, kind, _, size, _ in analyse.layer_bytes(g)
              if kind == "all_reduce"}
    # 2 ranks, 2 all-reduces per layer, 16 + 15 tokens, 128 numbers of 4 bytes per token
    check(layers[0] == layers[1] == 2 * 2 * 31 * 128 * 4, f"bytes: {layers}")
    check(all(a == b for _, a, b in analyse.compare(g, g)), "a trace is like itself")


def check_measured(folder):
    program("inference", folder, "--tp", "2", "--visualize_trace", "--out_dir", "run", "--quiet")
    g = analyse.load(os.path.join(folder, "run/tensor_trace_graph.json"))
    stacks = exported(folder, "run/tensor_trace_graph.json", "run_stacks.txt")
    n_ops, work = re.search(r"(\d+) ops, ([0-9.]+) us of work", stacks).groups()
    rows = analyse.top_ops(g)
    check(sum(r[2] for r in rows) == int(n_ops), f"{n_ops} ops")
    check(near(sum(r[3] for r in rows), float(work) * 1e3, 1e-5), f"{work} us of work")


def check_training(folder):
    """A predicted training step whose all-reduces of gradients overlap the backward pass. The times
    of exposed communication agree with those that the timeline picture names."""
    said = program("pretrain", folder, "--device", "meta", "--model", "gpt2", "--num-gpus",
                   "2", "--max-steps", "3", "--enable-tracing")
    exported(folder, "outputs/trace.0.et", "step.json", "--all_ranks")
    g = analyse.load(os.path.join(folder, "step.json"))
    check(near(analyse.critical_path(g)[1], took(said, "predicted step:")), "a step")
    # Nodes of an .et file name their tensors, so nodes of different layers are never equal.
    # Identical layers are folded nevertheless.
    picture = exported(folder, "outputs/trace.0.et", "layers.dot")
    check("12 identical" in picture, "layers of an .et are drawn once")
    picture = exported(folder, "step.json", "step.dot", "--view", "timeline")
    comm, hidden = took(picture, "communication"), took(picture, r"communication [0-9.]+ \S+,")
    for rank, a, b in analyse.exposed(g):
        check(near(a, comm) and abs(a - b - hidden) < 6e-3 * comm and b < a / 2,
              f"rank {rank}: {b} of {a} exposed, drawn {comm} and {hidden} overlapped")


def check_recording(folder):
    files = [os.path.join(SOURCE, "examples/pytorch", f"{k}.0.json") for k in ("host", "device")]
    done = run("convert", "pytorch", "--host", files[0], "--device", files[1], "--output",
               "t.0.et", cwd=folder)
    check(done.returncode == 0, str(done.stderr))
    exported(folder, "t.0.et", "t.json")
    g = analyse.load(os.path.join(folder, "t.json"))
    with open(files[1], encoding="utf-8") as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "cpu_op"]
    want = collections.Counter(e["name"] for e in events if e["name"].startswith("aten::"))
    rows = {op: calls for where, op, calls, *_ in analyse.top_ops(g) if where == "host"}
    check({op: n for op, n in rows.items() if op.startswith("aten::")} == want, f"{rows}")
    bytes_all = [r[4] for r in analyse.layer_bytes(g)]
    check(bytes_all == [4 * 9352], f"one all-reduce of 9,352 gradients: {bytes_all}")
    bytes_all = [r[5] for r in analyse.top_ops(g) if r[0] == "communication"]
    check(bytes_all == [4 * 9352], f"in the table of ops: {bytes_all}")
    path, total = analyse.critical_path(g)
    begins = [op["start_ns"] for op in analyse.ops(g).values() if op.get("start_ns", 0) > 0]
    ends = [op["start_ns"] + max(op.get("wall_ns", 0), 1e3 * op["attributes"]["inclusive_dur"])
            for op in analyse.ops(g).values() if op.get("start_ns", 0) > 0]
    check(0 < total <= max(ends) - min(begins), f"a path of {total} ns")
    check(path and not any(analyse.is_range(g.nodes[n]) and analyse.place(g.nodes[n]) == "host"
                           for n in path), "ranges that a program named are on no path")
    stat = json.loads(run("stat", "--input", "t.0.et", "--json", cwd=folder).stdout)["total"]
    check(stat["critical_us"] == round(total / 1e3) and stat["critical_nodes"] == len(path),
          f"stat: {stat['critical_us']} us, {stat['critical_nodes']} ops; {total} ns")
    # Without the host trace, ranges are recognized by their category in the Kineto trace.
    done = run("convert", "pytorch", "--device", files[1], "--output", "alone.et", cwd=folder)
    check(done.returncode == 0, str(done.stderr))
    alone = json.loads(run("stat", "--input", "alone.et", "--json", cwd=folder).stdout)["total"]
    check(alone["critical_us"] == stat["critical_us"], f"the device trace alone: {alone}")
    # A range that the program named on the host is not work: its time is that of the ops in it
    # and of waiting between them.
    picture = exported(folder, "t.0.et", "t.dot", "--view", "graph")
    work = sum(analyse.ns(op) for op in analyse.ops(g).values()
               if not analyse.is_range(op) or analyse.place(op) != "host")
    check(near(took(picture, "sum of op times:"), work, 1e-2), f"{work} ns of work in the picture")
    # gloo's thread communicates. The communication is hidden while other threads execute ops.
    with open(files[1], encoding="utf-8") as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
    gloo = next(e for e in events if e["name"] == "gloo:all_reduce")
    begin, end = gloo["ts"], gloo["ts"] + gloo["dur"]
    beside = analyse.length(analyse.union(
        (max(e["ts"], begin), min(e["ts"] + e["dur"], end)) for e in events
        if e["cat"] == "cpu_op" and e["ts"] < end and e["ts"] + e["dur"] > begin))
    for rank, comm, alone in analyse.exposed(g):
        check(near(comm, 1e3 * gloo["dur"], 1e-3) and near(comm - alone, 1e3 * beside, 1e-2),
              f"rank {rank}: {alone} of {comm} exposed, not {gloo['dur'] - beside} us")
    done = run("json", "--input", "t.0.et", "--output", "messages.json", cwd=folder)
    check(done.returncode == 0, str(done.stderr))
    for name in ("messages.json", "t.0.et"):
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "examples/analyse.py"), name],
                              cwd=folder, capture_output=True, timeout=60, check=False)
        said = done.stderr.decode()
        check(done.returncode == 1 and said.count("\n") == 1 and "syntorch export" in said,
              f"{name}: {said}")
        exported(folder, name, "again.json")


def message(kind, number, begin, returned, end):
    """Returns the events of a message as PyTorch records it over gloo: the c10d call, which returns
    before the transfer ends, and the transfer, which lasts until `end`. kind: send or recv. Times
    are in us."""
    args = {"Concrete Inputs": ["", "", "1" if kind == "send" else "0", "0"],
            "Input type": ["TensorList", "", "Scalar", "Scalar"],
            "Input Dims": [[[64, 64]], [], [], []], "External id": number}
    return [{"ph": "X", "cat": "cpu_op", "name": "c10d::" + kind + "_" * (kind == "recv"),
             "ts": begin, "dur": returned - begin, "args": args},
            {"ph": "X", "cat": "user_annotation", "name": "gloo:" + kind, "ts": begin + 1,
             "dur": end - begin - 1, "args": {"Input type": ["float"], "Input Dims": [[64, 64]],
                                              "Concrete Inputs": [""], "External id": number + 1}}]


def compute(name, number, begin, end):
    return [{"ph": "X", "cat": "cpu_op", "name": name, "ts": begin, "dur": end - begin,
             "args": {"External id": number}}]


def check_path(folder, early, want):
    """Rank 0 sends a message and does other work before it waits for the send. Rank 1 waits for the
    message. The clock of rank 1 is `early` us behind. want: us on the critical path by (rank,
    op)."""
    ranks = (compute("aten::mm", 1, 0, 40_000) + message("send", 2, 40_000, 40_100, 54_000)
             + compute("aten::add", 4, 40_100, 53_000),
             message("recv", 1, 500, 600, 40_400) + compute("aten::mm", 3, 40_410, 57_000))
    for rank, events in enumerate(ranks):
        for e in events:
            e.update(pid=1, tid=1, ts=e["ts"] + 10_000 - early * rank)
        with open(os.path.join(folder, f"p2p.{rank}.json"), "w", encoding="utf-8") as f:
            json.dump({"schemaVersion": 1, "traceEvents": events, "distributedInfo":
                       {"backend": "gloo", "rank": rank, "world_size": 2}}, f)
    done = run("convert", "pytorch", "--device", "p2p.*.json", "--output", "sent", cwd=folder)
    check(done.returncode == 0, str(done.stderr))
    exported(folder, "sent.0.et", "sent.json", "--all_ranks")
    g = analyse.load(os.path.join(folder, "sent.json"))
    path, total = analyse.critical_path(g)
    on = {(g.nodes[n]["rank"], g.nodes[n]["op"]): g.nodes[n]["critical_ns"] / 1e3 for n in path}
    check(on == want and total == 1e3 * sum(want.values()), f"{early} us early: {on}, not {want}")
    stat = json.loads(run("stat", "--input", "sent", "--json", cwd=folder).stdout)["total"]
    check(stat["critical_us"] == sum(want.values()) and stat["critical_nodes"] == len(want),
          f"stat: {stat['critical_us']} us, {stat['critical_nodes']} ops")


def check_messages(folder):
    mm, receive, call = "aten::mm", "gloo:recv", "c10d::send"
    check_path(folder, 0, {(0, mm): 40_000, (0, call): 1, (1, receive): 399, (1, mm): 16_590})
    # Because of the clocks, the message seems to arrive 1.6 ms before it is sent.
    check_path(folder, 2_000, {(0, mm): 38_400, (1, mm): 16_590})


def check_spans():
    g = nx.DiGraph(clock="measured", ranks=[0])
    def add(name, kind, start, wall, **more):
        g.add_node(name, type="op", op=name, rank=0, kind=kind, start_ns=start, wall_ns=wall,
                   scope="", phase="forward", **more)
    add("a", "compute", 0, 100)
    add("b", "compute", 50, 100)
    add("r", "collective", 100, 100, wait_ns=20)   # transfers from 120 to 200, 30 of it during b
    add("s", "collective", 190, 30)                # transfers from 190 to 220
    check(analyse.exposed(g) == [(0, 100, 70)], f"{analyse.exposed(g)}")
    other = g.copy()
    other.nodes["b"]["wall_ns"] = 500
    check(analyse.compare(g, other)[0] == ("forward b", 100, 500), "the largest difference first")


def main():
    check_spans()
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        check_inference(folder)
        check_measured(folder)
        check_training(folder)
        check_recording(folder)
        check_messages(folder)
    finish()


main()
