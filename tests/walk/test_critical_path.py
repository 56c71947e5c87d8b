"""Checks the graph of all ranks with networkx: it is connected and has no cycle, and its longest
path takes as long as the run, which this test computes separately."""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import networkx as nx
    from networkx.readwrite import json_graph
except ImportError:
    print("skipped: this Python has no networkx")
    sys.exit(77)

BUILD, SOURCE = os.environ["SYN_BUILD"], os.environ["SYN_SOURCE"]
CONFIGS = os.path.join(SOURCE, "examples", "configs")


def export(folder, source, target, *more):
    command = [os.path.join(BUILD, "syntorch"), "export", "--input", os.path.join(folder, source),
               "--output", os.path.join(folder, target), *more]
    subprocess.run(command, check=True)
    return os.path.join(folder, target)


def load(path):
    with open(path, encoding="utf-8") as f:
        return json_graph.node_link_graph(json.load(f))


# ---- Random ranks ----


class Job:
    """Random programs of ranks, generated in an order in which they can run. `last` is the time at
    which the last op ends."""

    def __init__(self, dice):
        self.dice = dice
        self.n_ranks = dice.choice([1, 2, 2, 3, 3, 4, 5, 20, 33])
        self.groups = [{"id": i + 1, "name": f"g{i + 1}",
                        "ranks": sorted(dice.sample(range(self.n_ranks),
                                                    dice.randint(1, self.n_ranks)))}
                       for i in range(dice.randint(1, 4))]
        self.nodes, self.edges = [], []
        self.ops = [[] for _ in range(self.n_ranks)]  # (id, when dependent ops may begin, stream)
        self.order = [[] for _ in range(self.n_ranks)]  # ids, in program order
        self.free = [{} for _ in range(self.n_ranks)]  # when each stream is free
        self.tensors = [0] * self.n_ranks
        self.last, self.calls = 0, collections.Counter()
        self.met = []  # (index of the call in its group, group, ops)
        for _ in range(dice.randint(3, 40)):
            kind = dice.choice(["compute"] * 4 + ["view", "collective", "collective", "message"])
            if kind == "collective":
                self.collective(dice.choice(self.groups))
            elif kind == "message" and self.n_ranks > 1:
                self.message(*dice.sample(range(self.n_ranks), 2))
            else:
                self.alone(dice.randrange(self.n_ranks), kind == "view")
        for rank in range(self.n_ranks):
            self.move_messages(rank)
        self.number()

    def add(self, rank, stream, **facts):
        """Adds an op that depends on some earlier ops. Returns its id and its earliest start."""
        op = f"r{rank}.{len(self.order[rank])}"
        self.order[rank].append(op)
        self.nodes.append({"id": op, "op": "work",
                           "stream": stream if isinstance(stream, int) else 255, **facts})
        begin = 0 if facts.get("virtual") else self.free[rank].get(stream, 0)
        sources = self.dice.sample(self.ops[rank],
                                   min(len(self.ops[rank]), self.dice.randint(0, 2)))
        for i, (source, end, _) in enumerate(sources):
            begin = max(begin, end)
            if self.dice.random() < 0.5:
                self.edges.append({"source": source, "target": op,
                                   "kind": self.dice.choice(["control", "inplace"])})
                continue
            tensor = f"r{rank}.t{self.tensors[rank]}"
            self.tensors[rank] += 1
            self.nodes.append({"id": tensor, "dtype": "f32", "shape": [4], "role": "activation"})
            self.edges.append({"source": source, "target": tensor, "kind": "output",
                               "position": self.outputs(source)})
            inputs = sum(e["target"] == op and e["kind"] == "input" for e in self.edges)
            self.edges.append({"source": tensor, "target": op, "kind": "input", "position": inputs})
        return op, begin

    def outputs(self, op):
        return sum(e["source"] == op and e["kind"] == "output" for e in self.edges)

    def done(self, rank, op, end, stream, virtual=False):
        self.ops[rank].append((op, end, stream))
        if not virtual:
            self.free[rank][stream] = end
            self.last = max(self.last, end)

    def time(self):
        return self.dice.choice([0, 0.25, 1, 7, 100, 1234.5])

    def alone(self, rank, view):
        ns, stream = self.time(), self.dice.choice([0, 0, 1, 2, 63, 64, 5000])
        op, begin = self.add(rank, stream, predicted_ns=ns, **({"virtual": True} if view else {}))
        self.done(rank, op, begin if view else begin + ns, stream, view)

    def collective(self, group):
        facts = {"kind": "collective", "comm": "all_reduce", "group": group["id"],
                 "comm_index": self.calls[group["id"]]}
        self.calls[group["id"]] += 1
        members = [(rank, self.time(), self.dice.randint(0, 3)) for rank in group["ranks"]]
        come = [(rank, ns, stream, *self.add(rank, stream, predicted_ns=ns, **facts))
                for rank, ns, stream in members]
        self.met.append((facts["comm_index"], group["id"], [op for *_, op, _ in come]))
        begin = max(begin for *_, begin in come)
        # Groups with the same ranks share links.
        shares = sum(g["ranks"] == group["ranks"] for g in self.groups) > 1
        links = ("links", *group["ranks"])
        if shares:
            begin = max(begin, 0, *(self.free[rank].get(links, 0) for rank in group["ranks"]))
        end = begin + max(ns for _, ns, *_ in come)
        for rank, _, stream, op, _ in come:
            self.done(rank, op, end, stream)
            if shares:
                self.free[rank][links] = end

    def message(self, source, target):
        """Sends to the same rank run in order. So do receives of the same tag from the same
        rank."""
        tag, ns, mine = self.dice.randint(0, 2), self.time(), self.time()
        out, into = ("send", target), ("recv", source, tag)
        op, sent = self.add(source, out, kind="send", comm="send", peer=target, tag=tag,
                            predicted_ns=ns)
        self.done(source, op, sent + ns, out)
        op, begin = self.add(target, into, kind="recv", comm="recv", peer=source, tag=tag,
                             predicted_ns=mine)
        self.done(target, op, max(max(begin, sent) + mine, sent + ns), into)

    def move_messages(self, rank):
        """Moves receives earlier and sends later in program order, which changes no times: only the
        order within a stream and the order relative to ops that use them matter."""
        order, facts = self.order[rank], {n["id"]: n for n in self.nodes}
        tensors = {e["target"]: e["source"] for e in self.edges if e["kind"] == "output"}
        uses = {(tensors.get(e["source"], e["source"]), e["target"]) for e in self.edges}
        stream = {op: key for op, _, key in self.ops[rank]}
        for op in list(order):
            kind = facts[op].get("kind")
            step = {"recv": -1, "send": 1}.get(kind, 0) if self.dice.random() < 0.7 else 0
            for _ in range(self.dice.randint(0, 12) if step else 0):
                i = order.index(op)
                if not 0 <= i + step < len(order):
                    break
                other = order[i + step]
                if stream[other] == stream[op] or {(op, other), (other, op)} & uses:
                    break
                order[i], order[i + step] = other, op

    def number(self):
        names = {op: f"r{rank}.o{i + 1}" for rank, order in enumerate(self.order)
                 for i, op in enumerate(order)}
        for node in self.nodes:
            node["id"] = names.get(node["id"], node["id"])
        for e in self.edges:
            e["source"], e["target"] = (names.get(e[end], e[end]) for end in ("source", "target"))
        self.met = [(number, group, [names[op] for op in ops]) for number, group, ops in self.met]
        self.nodes.sort(key=lambda n: (".o" in n["id"], int(n["id"].split(".")[1][1:])))

    def graph(self):
        return {"directed": True, "multigraph": False, "nodes": self.nodes, "links": self.edges,
                "graph": {"format": "syntorch", "format_version": 1, "world_size": self.n_ranks,
                          "ranks": list(range(self.n_ranks)), "groups": self.groups}}


def check(graph, weight, last, what):
    assert nx.is_directed_acyclic_graph(graph), f"{what}: a circle"
    assert abs(nx.dag_longest_path_length(graph, weight) - last) <= 1e-9 * last, \
        (what, nx.dag_longest_path_length(graph, weight), last)


def check_meetings(job, graph, what):
    """Checks that all ranks wait for what any rank of a collective waits for. The graph has an edge
    for each pair of ranks, or a separate node if many ranks take part."""
    waiting = {e["target"] for e in job.edges}
    for number, group, ops in job.met:
        point = f"g{group}.{number}"
        if len(ops) == 1:
            assert point not in graph, (what, point)
            continue
        assert (point in graph) == (len(ops) > 16
                                    or not any(op in waiting for op in ops)), \
                                        (what, point, len(ops))
        sources = {a for op in ops for a, e in graph.pred[op].items()
                   if graph.nodes[a]["rank"] == graph.nodes[op]["rank"]}
        if point in graph:
            assert set(graph.succ[point]) == set(ops) and set(graph.pred[point]) == sources, \
                (what, point)
            assert graph.nodes[point]["type"] == "meeting" \
                and graph.nodes[point]["n_ranks"] == len(ops), graph.nodes[point]
        else:
            assert all(set(graph.pred[op]) == sources for op in ops), (what, point)
    for a, b, e in graph.edges(data=True):
        assert e.get("derived", False) or graph.nodes[a]["rank"] == graph.nodes[b]["rank"], \
            (what, a, b)


def random_jobs(folder):
    for seed in range(int(os.environ.get("SYN_TEST_ROUNDS", 60))):
        job = Job(random.Random(seed))
        with open(os.path.join(folder, "in.json"), "w", encoding="utf-8") as f:
            json.dump(job.graph(), f)
        path = export(folder, "in.json", "out.json")
        graph = load(path)
        check(graph, "duration_ns", job.last, f"seed {seed}")
        check_meetings(job, graph, f"seed {seed}")
        check(nx.read_graphml(export(folder, "out.json", "out.graphml")), "duration_ns", job.last,
              f"seed {seed}, GraphML")
        with open(path, "rb") as a, open(export(folder, "out.json", "again.json"), "rb") as b:
            assert a.read() == b.read(), f"seed {seed}: read back, it is another graph"


def run(folder, kind, *words):
    done = subprocess.run([os.path.join(BUILD, "syntorch"), kind, *words], cwd=folder,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def write_ranks(folder, programs):
    """Writes ranks of ops (name, kind, names of the ops it depends on, properties). A name is
    unique within its rank."""
    nodes, links = [], []
    for rank, program in enumerate(programs):
        names = {name: f"r{rank}.o{i + 1}" for i, (name, *_) in enumerate(program)}
        for name, kind, deps, facts in program:
            facts = dict(facts, kind=kind, op=name, stream=facts.get("stream", 255),
                         predicted_ns=facts.get("predicted_ns", 1000))
            if kind in ("send", "recv"):
                facts.update(comm=kind, comm_bytes=4096)
            nodes.append({"id": names[name], **facts})
            links += [{"source": names[d], "target": names[name], "kind": "control"} for d in deps]
    with open(os.path.join(folder, "p2p.json"), "w", encoding="utf-8") as f:
        json.dump({"directed": True, "nodes": nodes, "links": links,
                   "graph": {"format": "syntorch", "world_size": len(programs), "groups": [
                       {"id": 1, "name": "all", "ranks": list(range(len(programs)))}]}}, f)


def comm(kind, name, peer, deps=(), tag=0):
    return (name, kind, deps, {"peer": peer, "tag": tag})


def work(name, deps=(), ns=1000):
    return (name, "compute", deps, {"stream": 0, "predicted_ns": ns})


def pipeline(stages, batches):
    """Returns a 1F1B pipeline that posts each receive one step ahead. Forward passes take 1 us,
    backward passes 2 us and messages 0 us, so it takes 3 us (batches + stages - 1)."""
    programs = []
    for stage in range(stages):
        warm = min(stages - 1 - stage, batches)
        steps = [("f", i) for i in range(warm)]
        for i in range(batches - warm):
            steps += [("f", warm + i), ("b", i)]
        steps += [("b", i) for i in range(batches - warm, batches)]
        program, posted = [], 0

        def post(upto):
            nonlocal posted
            for kind, i in steps[posted:upto]:
                peer = stage - 1 if kind == "f" else stage + 1
                if 0 <= peer < stages:
                    program.append(comm("recv", f"recv {kind}{i}", peer, tag=0))
            posted = max(posted, upto)
        for at, (kind, i) in enumerate(steps):
            post(min(at + 2, len(steps)))
            source, target = (stage - 1, stage + 1) if kind == "f" else (stage + 1, stage - 1)
            deps = [f"recv {kind}{i}"] if 0 <= source < stages else []
            program.append(work(f"{kind}{i}", deps, 1000 if kind == "f" else 2000))
            if 0 <= target < stages:
                program.append(comm("send", f"send {kind}{i}", target, [f"{kind}{i}"]))
        programs.append([(name, kind, deps, dict(facts, predicted_ns=0) if kind != "compute"
                          else facts) for name, kind, deps, facts in program])
    return programs


EARLY = [[work("begin"), comm("recv", "recv", 1 - r), work("work", ["begin"]),
          comm("send", "send", 1 - r, ["work"]), work("use", ["recv", "work"])] for r in range(2)]
# Both directions run at the same time, with several messages per tag, posted from one list of
# receives and sends.
BATCHED = [[work("begin")] + [comm("recv", f"recv {i}", 1 - r) for i in range(3)] +
           [comm("send", f"send {i}", 1 - r, ["begin"]) for i in range(3)] +
           [work("use", [f"recv {i}" for i in range(3)])] for r in range(2)]
# A receive that stays open while messages with other tags go in both directions, and across a
# barrier.
OPEN = [[comm("recv", "last", 1, tag=9), comm("send", "ask", 1, tag=1),
         comm("recv", "answer", 1, tag=1), ("barrier", "collective", ["answer"],
                                            {"comm": "barrier", "group": 1, "comm_index": 0}),
         work("mine", ["answer"]), comm("send", "more", 1, ["mine"], tag=2),
         work("use", ["last", "mine"])],
        [comm("recv", "asked", 0, tag=1), comm("send", "answer", 0, ["asked"], tag=1),
         ("barrier", "collective", ["answer"], {"comm": "barrier", "group": 1, "comm_index": 0}),
         comm("recv", "more", 0, tag=2), work("use", ["more"]),
         comm("send", "last", 0, ["use"], tag=9)]]
# The ops behind "use" in the program of rank 0 must not wait for it.
LATER = [[comm("recv", "recv", 1), work("begin"), ("use", "compute", ["recv"], {"stream": 3}),
          comm("send", "send", 1, ["begin"])],
         [comm("recv", "recv", 0), work("use", ["recv"]), comm("send", "send", 0, ["use"])]]


def messages(folder):
    """Tests receives that are posted early: the traces run to the end, in times that were computed
    manually."""
    for name, programs, us in (("early", EARLY, 4), ("batched", BATCHED, 5), ("open", OPEN, 7),
                               ("later", LATER, 5), ("1F1B", pipeline(4, 8), 33),
                               ("1F1B, few batches", pipeline(5, 2), 18)):
        write_ranks(folder, programs)
        assert run(folder, "export", "--input", "p2p.json", "--output", "p2p", "--format",
                   "et") == (0, ""), name
        code, said = run(folder, "validate", "p2p")
        assert code == 0 and "a simulation finishes" in said, (name, said)
        graph = load(export(folder, "p2p.json", "out.json"))
        check(graph, "duration_ns", 1000 * us, name)
    deadlock(folder)


def deadlock(folder):
    """Tests two ranks that use the received data before they send."""
    write_ranks(folder, [[comm("recv", "recv", 1 - r), work("use", ["recv"]),
                          comm("send", "send", 1 - r, ["use"])] for r in range(2)])
    assert run(folder, "export", "--input", "p2p.json", "--output", "p2p", "--format",
               "et") == (0, "")
    code, said = run(folder, "validate", "p2p")
    assert code == 1 and said.endswith("1 problem; a simulation does not finish\n"), said


def crossed(folder):
    """Tests two ranks that call two collectives in opposite order. They wait for each other
    forever, but the graph still has no cycle."""
    nodes, links = [], []
    for rank, order in enumerate(((1, 2), (2, 1))):
        for i, group in enumerate(order):
            nodes.append({"id": f"r{rank}.o{i + 1}", "op": "all_reduce", "kind": "collective",
                          "comm": "all_reduce", "group": group, "predicted_ns": 5})
        links.append({"source": f"r{rank}.o1", "target": f"r{rank}.o2", "kind": "control"})
    for rank in range(2):  # both ranks also receive before they send
        for i, kind in ((3, "recv"), (4, "send")):
            nodes.append({"id": f"r{rank}.o{i}", "op": kind, "kind": kind, "comm": kind,
                          "peer": 1 - rank, "tag": 0})
            links.append({"source": f"r{rank}.o{i - 1}", "target": f"r{rank}.o{i}",
                          "kind": "control"})
    groups = [{"id": g, "name": "", "ranks": [0, 1]} for g in (1, 2)]
    with open(os.path.join(folder, "in.json"), "w", encoding="utf-8") as f:
        json.dump({"directed": True, "nodes": nodes, "links": links, "graph": {"groups": groups}},
                  f)
    assert nx.is_directed_acyclic_graph(load(export(folder, "in.json", "out.json")))


# ---- The inference program ----


def inference(folder, *args):
    command = [os.path.join(BUILD, "inference"), "--visualize_trace", "--out_dir", folder, "--json",
               *args]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def runs(folder):
    for name, more in (("gpt3-tiny", ["--num_output_tokens", "3"]),
                       ("bert-tiny", ["--prompt", "a [MASK]"])):
        for tp in (1, 2, 4):
            for device in ("meta", "cpu"):
                s = inference(folder, "--tp", str(tp), "--device", device, "--model_config",
                              os.path.join(CONFIGS, name + ".json"), *more)
                graph = load(os.path.join(folder, "tensor_trace_graph.json"))
                what = f"{name}, tp {tp} on {device}"
                assert nx.is_directed_acyclic_graph(graph) and nx.is_weakly_connected(graph), what
                ops = [n for _, n in graph.nodes(data=True) if n["type"] == "op"]
                assert all(type(n["flops"]) is int and type(n["layer"]) is int for n in ops), what
                assert {n["layer"] for n in ops} == {-1, 0, 1}, what
                assert all((n["layer"] >= 0) == any(part.isdigit()
                                                    for part in n["scope"].split(".")[1:])
                           for n in ops), what
                # An op before a collective on one rank leads to the result on every rank.
                assert {n["rank"] for _, n in graph.nodes(data=True)} == set(range(tp)) \
                    and {n["type"] for _, n in graph.nodes(data=True)} == {"op", "tensor"}
                if tp > 1:
                    first = [min((a for a, n in graph.nodes(data=True) if n["rank"] == r
                                  and n.get("comm")), key=lambda a: int(a.split("o")[1]))
                             for r in range(tp)]
                    for r in range(tp):
                        share = next(a for a, e in graph.pred[first[r]].items()
                                     if e["kind"] == "input")
                        assert all(nx.has_path(graph, share, other) for other in first), what
                # No rank waits and nothing overlaps, so the printed times are those of the path.
                if device == "meta":
                    total = sum(row["predicted_ns"] for row in s["ops"])
                    check(graph, "duration_ns", total, what)
                    for a, b, e in graph.edges(data=True):  # the same as from the nodes alone
                        e["mine"] = graph.nodes[a].get("predicted_ns", 0)
                    check(graph, "mine", total, what)
                    check(nx.read_graphml(export(folder, "tensor_trace_graph.json", "g.graphml")),
                          "duration_ns", total, what + ", GraphML")
                else:
                    path = nx.dag_longest_path_length(graph, "duration_ns")
                    busy = [sum(n.get("transfer_ns", n["wall_ns"]) for n in ops if n["rank"] == r
                                and not n.get("virtual")) for r in range(tp)]
                    assert max(busy) * (1 - 1e-9) <= path <= sum(busy) * (1 + 1e-9), \
                        (what, path, busy)
                with open(os.path.join(folder, "tensor_trace_graph.json"), "rb") as a, \
                        open(export(folder, "tensor_trace_graph.json", "again.json"), "rb") as b:
                    assert a.read() == b.read(), f"{what}: read back, it is another graph"


def durations(folder):
    """Tests execution traces that have durations but no start times: the path is the longest chain
    of durations."""
    from execution_trace import read_et
    with open(os.path.join(folder, "w.txt"), "w", encoding="utf-8") as f:
        f.write("DATA\n3\na -1 90 NONE 0 80 NONE 0 70 ALLREDUCE 4096 30\nb -1 9 NONE 0 8 NONE 0 7 "
                "ALLREDUCE 4096 3\nc -1 5 NONE 0 6 NONE 0 4 NONE 0 2\n")
    subprocess.run([os.path.join(BUILD, "syntorch"), "convert", "text", "--input", "w.txt",
                    "--output", "w", "--num_npus", "3", "--num_passes", "2"],
                   cwd=folder, check=True, capture_output=True)
    ends = {}
    with open(os.path.join(folder, "w.0.et"), "rb") as f:
        for n in sorted(read_et(f.read())[1], key=lambda n: n.id):
            ends[n.id] = n.dur + max((ends[d] for d in n.deps), default=0)
    graph = load(export(folder, "w.0.et", "w.json", "--all_ranks", "--format", "json"))
    assert graph.graph["clock"] == "durations" and max(ends.values()) > 0
    path = nx.dag_longest_path_length(graph, "duration_ns")
    assert path == 1000 * max(ends.values()), (path, max(ends.values()))


def main():
    with tempfile.TemporaryDirectory() as folder:
        durations(folder)
        random_jobs(folder)
        crossed(folder)
        messages(folder)
        runs(folder)


main()
