#!/usr/bin/python3
"""Tests `syntorch simulate` with small trace sets. The references are sums by hand, a simulator of
a few lines in this file that does not fold ranks, the times that ASTRA-sim printed for the same
files, and the predictions of synth."""
import csv
import heapq
import json
import os
import re
import subprocess
import xml.etree.ElementTree

from checks import BUILD, check, enter_folder, finish, run
from execution_trace import COLL, COMP, RECV, SEND, field, frame, read_et, varint

INT32, INT64, UINT64, BOOL, STRING = 7, 9, 13, 27, 29
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL = 0, 2, 5, 6
REDUCE_SCATTER, REDUCE_SCATTER_BLOCK = 7, 8

# ---- Writing sets ----


def node(number, kind, deps, us, **attrs):
    return {"id": number, "kind": kind, "deps": deps, "us": us, **attrs}


def comp(number, us, deps=(), stream=0):
    return node(number, COMP, deps, us, stream=stream)


def coll(number, kind, size, group, deps=(), us=5):
    return node(number, COLL, deps, us, comm=kind, size=size, group=group)


def send(number, src, dst, tag, size, deps=(), us=3):
    return node(number, SEND, deps, us, src=src, dst=dst, tag=tag, size=size)


def recv(number, src, dst, tag, size, deps=(), us=3):
    return node(number, RECV, deps, us, src=src, dst=dst, tag=tag, size=size)


def message(n):
    attrs = [("is_cpu_op", BOOL, int(n.get("cpu", False)))]
    if n["kind"] == COMP and not n.get("bare"):
        # 1.6 MB per us: the time of a rate of 1600 GB/s
        attrs += [("num_ops", INT64, n.get("ops", 1)),
                  ("tensor_size", UINT64, n.get("bytes", min(n["us"] * 1600 * 1000, 2 ** 63)))]
        attrs += [("stream", INT64, n["stream"])] if n["stream"] else []
    elif n["kind"] != COMP:
        attrs += [("comm_size", INT64, n["size"])]
    if n["kind"] == COLL:
        attrs += [("comm_type", INT64, n["comm"])]
        attrs += [("pg_name", STRING, str(n["group"]))] if n["group"] else []
    if n["kind"] in (SEND, RECV):
        attrs += [("comm_src", INT32, n["src"]), ("comm_dst", INT32, n["dst"]),
                  ("comm_tag", INT32, n["tag"])]
    out = field(1, n["id"]) + field(2, n.get("name", f"n{n['id']}")) + field(3, n["kind"])
    if n["deps"]:
        out += field(4, b"".join(map(varint, n["deps"])))
    out += field(7, n["us"])
    for name, kind, value in attrs:
        out += field(10, field(1, name) + field(kind, value))
    return out


def write(prefix, ranks, groups):
    """ranks: {rank: nodes}; groups: {id: ranks}."""
    for rank, nodes in ranks.items():
        with open(f"{prefix}.{rank}.et", "wb") as f:
            f.write(b"".join(map(frame, [field(1, "0.0.4")] + [message(n) for n in nodes])))
    with open(f"{prefix}.comm_group.json", "w", encoding="utf-8") as f:
        json.dump({str(k): v for k, v in groups.items()}, f)


def simulate(prefix, *options):
    done = run("simulate", prefix, "--json", *options)
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr.decode()}


def ends(result):
    return [r["end_ns"] for r in result["ranks"]] if "ranks" in result else result


# ---- A second simulator: all ranks, with the times of the traces ----


class Second:
    def __init__(self, ranks, groups, slow):
        self.ranks, self.slow, self.events, self.count = ranks, slow, [], 0
        self.groups = {0: list(ranks), **groups}
        self.end = dict.fromkeys(ranks, 0)
        self.lanes, self.sent, self.posted, self.meetings = {}, {}, {}, {}
        self.order, self.met, self.pairs = {}, [], []  # for the longest path
        self.nodes = {r: {n["id"]: n for n in ns} for r, ns in ranks.items()}
        self.left = {r: {n["id"]: len(set(n["deps"])) for n in ns} for r, ns in ranks.items()}
        for r, ns in ranks.items():
            self.release(0, r, [n["id"] for n in ns if not n["deps"]])
        while self.events:
            now, _, r, i = heapq.heappop(self.events)
            self.end[r] = now
            lane = self.lane(r, self.nodes[r][i])
            if lane:
                self.lanes[lane][1] = None
            ready = []
            for n in ranks[r]:
                if i in n["deps"]:
                    self.left[r][n["id"]] -= 1
                    if self.left[r][n["id"]] == 0:
                        ready.append(n["id"])
            del self.left[r][i]
            self.release(now, r, ready)

    def lane(self, r, n):
        key = {COMP: ("stream", n.get("stream")), COLL: ("group", n.get("group"))}.get(n["kind"])
        return (r, *key) if key and not n.get("cpu") else None

    def release(self, now, r, ready):
        for i in sorted(ready):
            lane = self.lane(r, self.nodes[r][i])
            if lane:
                heapq.heappush(self.lanes.setdefault(lane, [[], None])[0], i)
            else:
                self.start(now, r, self.nodes[r][i])
        for lane, state in sorted(self.lanes.items(), key=str):
            if lane[0] == r and state[1] is None and state[0]:
                state[1] = heapq.heappop(state[0])
                self.order.setdefault(lane, []).append((r, state[1]))
                self.start(now, r, self.nodes[r][state[1]])

    def until(self, end, r, n):
        self.count += 1
        heapq.heappush(self.events, (end, self.count, r, n["id"]))

    def start(self, now, r, n):
        ns = n["us"] * 1000
        if n["kind"] == COMP:
            self.until(now + round(ns * (1 if n.get("cpu") else self.slow.get(r, 1))), r, n)
        elif n["kind"] == COLL:
            here = self.meetings.setdefault(n["group"], [])
            here.append((r, n))
            if len(here) == len(self.groups[n["group"]]):
                longest = max(m["us"] * 1000 for _, m in here)
                self.meetings[n["group"]] = []
                self.met.append(([(member, m["id"]) for member, m in here], longest))
                for member, m in here:
                    self.until(now + longest, member, m)
        else:
            key = n["src"], n["dst"], n["tag"]
            if n["kind"] == SEND:
                self.until(now + ns, r, n)
                if self.posted.get(key):
                    at, m = self.posted[key].pop(0)
                    self.pairs.append(((r, n["id"]), (at, m["id"])))
                    self.until(max(now + m["us"] * 1000, now + ns), at, m)
                else:
                    self.sent.setdefault(key, []).append((now + ns, (r, n["id"])))
            elif self.sent.get(key):
                end, sender = self.sent[key].pop(0)
                self.pairs.append((sender, (r, n["id"])))
                self.until(max(now + ns, end), r, n)
            else:
                self.posted.setdefault(key, []).append((r, n))


    # The longest path of what ran, in which each lane keeps its order.

    def duration(self, at):
        r, n = at[0], self.nodes[at[0]][at[1]]
        return round(n["us"] * 1000 * (self.slow.get(r, 1) if n["kind"] == COMP else 1))

    def edges(self):
        """{node: {earlier node: ns}}: a node ends at least ns after the earlier node; the beginning
        is the earlier node None."""
        arrives, edges = {}, {}
        for r, ns in self.ranks.items():
            for n in ns:
                arrives[r, n["id"]] = {None} | {(r, d) for d in n["deps"]}
        for order in self.order.values():
            for a, b in zip(order, order[1:]):
                arrives[b].add(a)
        for at, earlier in arrives.items():
            if self.nodes[at[0]][at[1]]["kind"] != COLL:
                edges[at] = dict.fromkeys(earlier, self.duration(at))
        for members, ns in self.met:
            for at in members:
                edges[at] = {p: ns for m in members for p in arrives[m]}
        for sender, receiver in self.pairs:
            for p in arrives[sender]:
                edges[receiver].setdefault(p, self.duration(receiver))
            edges[receiver][sender] = 0
        return edges

    def longest(self, edges):
        ends, todo = {None: 0}, [at for at in edges if at[1] not in self.left[at[0]]]
        while todo:
            at = todo[-1]
            missing = [p for p in edges[at] if p not in ends]
            todo += missing
            if not missing:
                ends[at] = max(ends[p] + ns for p, ns in edges[at].items())
                todo.pop()
        return max(ends.values())


class Numbers:
    """A generator of random numbers that gives the same ones in every version of Python."""

    def __init__(self, seed):
        self.state = seed * 2654435761 + 1

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def choice(self, values):
        return values[self.below(len(values))]


def random_set(seed, n_ranks, groups, symmetric):
    """A program of collectives, messages to the next and the previous rank, and computation, in
    which all ranks run nearly the same. symmetric: exactly the same, so that ranks can be folded.
    Some orders deadlock."""
    pick, ranks = Numbers(seed), {}
    program = [pick.choice("ccpkkx") for _ in range(3 + pick.below(12))]
    details = [(pick.below(len(groups)), pick.choice([ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER]),
                pick.choice([4096, 1 << 20, 1 << 24]), 1 + pick.below(200), pick.below(100))
               for _ in program]
    for rank in range(n_ranks):
        own, nodes = Numbers(0 if symmetric else rank + 1000 * seed), [comp(1, 10)]
        for i, (what, (group, kind, size, us, tag)) in enumerate(zip(program, details)):
            deps = [nodes[-1]["id"]] if own.below(10) < 7 else [own.choice(nodes)["id"]]
            number = nodes[-1]["id"] + 1 + own.below(2)
            mine = [g for g, ranks_of in groups[group].items() if rank in ranks_of]
            if what == "c" and mine:
                nodes.append(coll(number, kind, size, mine[0], deps, us % 30))
            elif what == "p":
                up, down = (rank + 1) % n_ranks, (rank - 1) % n_ranks
                nodes.append(send(number, rank, up, tag + i, size, deps, us % 20))
                nodes.append(recv(number + 1, down, rank, tag + i, size,
                                  [] if own.below(2) else deps, us % 20))
                nodes.append(comp(number + 3, us, [number + 1]))
            elif what != "x":
                nodes.append(comp(number, us, deps, own.below(2)))
        if not symmetric and own.below(8) == 0 and len(nodes) > 2:
            nodes.pop(1 + own.below(len(nodes) - 2))
            ids = {n["id"] for n in nodes}
            for n in nodes:
                n["deps"] = [d for d in n["deps"] if d in ids]
        ranks[rank] = nodes
    return ranks


# Two ways to divide eight ranks into groups, and all of them.
GROUPS = [{1: [0, 1], 2: [2, 3], 3: [4, 5], 4: [6, 7]},
          {5: [0, 2, 4, 6], 6: [1, 3, 5, 7]}, {7: list(range(8))}]
ALL_GROUPS = {k: v for part in GROUPS for k, v in part.items()}


def as_second_simulator():
    distinct = finished = 0
    for seed in range(120):
        symmetric = seed % 3 == 0
        ranks = random_set(seed, 8, GROUPS, symmetric)
        slow = {5: 1.5} if seed % 5 == 0 else {}
        write("random", ranks, ALL_GROUPS)
        second = Second(ranks, ALL_GROUPS, slow)
        ours = simulate("random", *(["--slow", "5=1.5"] if slow else []))
        stuck = sum(map(len, second.left.values()))
        if "error" in ours:
            check("different collectives" in ours["error"] and not symmetric,
                  f"set {seed}: {ours['error']}")
            continue
        check(ours["nodes"] - ours["nodes_run"] == stuck,
              f"set {seed}: {stuck} nodes are stuck, but {ours['nodes_run']} ran")
        check((ours["deadlock"] is None) == (stuck == 0), f"set {seed}: {ours['deadlock']}")
        check(ends(ours) == list(second.end.values()),
              f"set {seed}: ranks end at {ends(ours)}, the second simulator says {second.end}")
        for r in ours["ranks"]:
            check(r["compute_ns"] + r["exposed_ns"] + r["waiting_ns"] == ours["end_ns"],
                  f"set {seed}: the parts of {r} do not add up")
        distinct += ours["distinct_ranks"]
        finished += stuck == 0
        if symmetric and not slow:
            check(ours["distinct_ranks"] == 1, f"set {seed}: equal ranks are not folded")
    check(30 < finished < 110, f"{finished} of 120 sets finish, so one case is hardly tested")


# ---- The critical path ----


def read_path(name):
    with open(name, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    return [{k: int(v) if v.isdigit() else v for k, v in row.items()} for row in rows]


def path_adds_up(path, ours, where):
    """Each node starts at the end of the one before it, from 0 to the end of the run."""
    ends_at = 0
    for row in path:
        check(row["start_ns"] == ends_at, f"{where}: {row} starts at {ends_at}")
        ends_at += row["duration_ns"]
    check(ends_at == ours["end_ns"], f"{where}: the path ends at {ends_at}, not {ours['end_ns']}")
    said, sums = ours["critical_path"], {}
    for row in path:
        for key in ((row["kind"], str(row["group"]) if row["group"] != "" else None), row["name"]):
            n, ns = sums.get(key, (0, 0))
            sums[key] = n + 1, ns + row["duration_ns"]
    told = {(s["kind"], s["group"]): (s["nodes"], s["ns"]) for s in said["kinds"]}
    told.update({s["name"]: (s["nodes"], s["ns"]) for s in said["names"]})
    check(told == sums and said["nodes"] == len(path), f"{where}: sums {told}, not {sums}")


def critical_paths():
    """On random sets, the path is a longest path of the second simulator's dependencies; and if all
    longest paths have the node that is halved, the run ends earlier."""
    halved = 0
    for seed in range(60):
        slow = {5: 1.5} if seed % 5 == 0 else {}
        ranks = random_set(seed, 8, GROUPS, seed % 3 == 0)
        write("random", ranks, ALL_GROUPS)
        ours = simulate("random", "--critical-path", "path.csv",
                        *(["--slow", "5=1.5"] if slow else []))
        if "error" in ours:
            continue
        second, path = Second(ranks, ALL_GROUPS, slow), read_path("path.csv")
        edges, before = second.edges(), None
        path_adds_up(path, ours, f"set {seed}")
        check(second.longest(edges) == ours["end_ns"], f"set {seed}: the longest path")
        for row in path:
            at = row["rank"], row["node"]
            check(edges[at].get(before) == row["duration_ns"],
                  f"set {seed}: {before} does not release {at}")
            before = at
        if slow or ours["deadlock"]:
            continue
        number = max(path, key=lambda row: (row["kind"] == "COMPUTE", row["duration_ns"]))["node"]
        half = {r: [{**n, "us": n["us"] / 2} if n["id"] == number else n for n in ns]
                for r, ns in ranks.items()}
        second.nodes = {r: {n["id"]: n for n in ns} for r, ns in half.items()}
        second.met = [(members, max(map(second.duration, members))) for members, _ in second.met]
        if second.longest(second.edges()) < ours["end_ns"]:
            done = run("what-if", "random", "--scale", f"n{number}=0.5", "--json")
            said = json.loads(done.stdout)
            check(said["after"]["end_ns"] < said["before"]["end_ns"], f"set {seed}: n{number}")
            halved += 1
    check(halved > 15, f"only {halved} sets end earlier")


def path_by_hand():
    """The set of by_hand: the collective starts when rank 0 arrives, rank 1 continues, and rank 0
    receives its message."""
    ours = simulate("hand", "--critical-path", "path.csv")
    path = read_path("path.csv")
    check([(r["rank"], r["name"], r["kind"], r["group"], r["duration_ns"]) for r in path]
          == [(0, "n1", "COMPUTE", "", 100000), (1, "n2", "ALL_REDUCE", 1, 30000),
              (1, "n3", "COMPUTE", "", 50000), (1, "n4", "SEND", "", 7000),
              (0, "n4", "RECV", "", 0)], path)
    path_adds_up(path, ours, "by hand")
    done = run("simulate", "hand", "--critical-path", "-")
    check(done.stdout.startswith(b"rank,node,name,kind,group,start_ns,duration_ns\n0,1,n1,"),
          done.stdout)
    check(re.search(rb"critical path +nodes +time +of end\ncompute +2 +150 us +80.2 %\n"
                    rb"ALL_REDUCE in group 1 +1 +30.0 us +16.0 %\n", done.stderr), done.stderr)
    # names of layers are summed, and names that are no plain text are quoted
    layers = [dict(comp(i + 1, 10 + i, [i] if i else []), name=name) for i, name in
              enumerate(["h.0.attn/qkv", "h.12.attn/qkv", 'a,"b" 3', "v1.2x", "x.7"])]
    write("layers", {0: layers}, {})
    said = simulate("layers", "--critical-path", "path.csv")["critical_path"]["names"]
    check({s["name"]: s["ns"] for s in said} == {"h.*.attn/qkv": 21000, 'a,"b" 3': 12000,
                                                 "v1.2x": 13000, "x.*": 14000}, said)
    check([r["name"] for r in read_path("path.csv")] == [n["name"] for n in layers], "names")


def path_on_machine():
    """With ASTRA-sim's files, a rank's end of a ring depends on the rank whose chunk comes last.
    The path has this rank: if it computes for a shorter time, the run ends earlier."""
    halved = 0
    for seed in range(24):
        write("astra", random_set(seed, 8, GROUPS, seed % 3 == 0), ALL_GROUPS)
        machine = write_machine(NETWORK, SYSTEM)
        ours = simulate("astra", "--critical-path", "path.csv", *machine)
        if "error" in ours or ours["deadlock"]:
            continue
        path = read_path("path.csv")
        path_adds_up(path, ours, f"set {seed} on a machine")
        longest = max((r for r in path if r["kind"] == "COMPUTE"), key=lambda r: r["duration_ns"])
        done = run("what-if", "astra", "--scale", f"n{longest['node']}=0.5", "--json", *machine)
        said = json.loads(done.stdout)
        check(said["after"]["end_ns"] <= said["before"]["end_ns"], f"set {seed}: {longest}")
        halved += said["after"]["end_ns"] < said["before"]["end_ns"]
    check(halved > 8, f"only {halved} sets end earlier on a machine")
    # Rank 5 arrives last, but the chunk that rank 6 receives last comes from rank 7, over 7 hops.
    machine = write_machine({"topology": ["Ring"], "npus_count": [8], "bandwidth": [50.0],
                             "latency": [50000.0]},
                            {**SYSTEM, "roofline-enabled": 0,
                             **{f"{kind}-implementation": ["ring"] for kind in KINDS}})
    write("chunks", {r: [comp(1, 11 if r == 5 else 10), coll(2, ALL_GATHER, 1 << 10, 0, [1]),
                         comp(3, 400 if r == 6 else 1, [2])] for r in range(8)}, {})
    ours = simulate("chunks", "--critical-path", "path.csv", *machine)
    path = [(r["rank"], r["node"]) for r in read_path("path.csv")]
    check(path == [(7, 1), (6, 2), (6, 3)], path)
    for slow, ns in [("5=1.1", 0), ("7=1.1", 1000), ("6=1.1", 40000)]:
        later = simulate("chunks", "--slow", slow, *machine)["end_ns"] - ours["end_ns"]
        check(later == ns, f"--slow {slow}: {later} ns later, not {ns}")


# ---- By hand ----


def by_hand():
    """Rank 0 computes 100 us and rank 1 40 us before an all-reduce of 30 us, beside which rank 0
    computes 20 us; then rank 1 sends to rank 0."""
    ranks = {0: [comp(1, 100), coll(2, ALL_REDUCE, 4096, 1, [1], 30), comp(3, 20, [1]),
                 recv(4, 1, 0, 9, 64, [2], 5)],
             1: [comp(1, 40), coll(2, ALL_REDUCE, 4096, 1, [1], 25), comp(3, 50, [2]),
                 send(4, 1, 0, 9, 64, [3], 7)]}
    write("hand", ranks, {1: [0, 1]})
    ours = simulate("hand", "--traffic", "hand.csv", "--timeline", "hand.json")
    check(ends(ours) == [187000, 187000], f"by hand: ends {ends(ours)}")
    check(ours["ranks"][0] == {"rank": 0, "same_as": 0, "end_ns": 187000, "compute_ns": 120000,
                               "exposed_ns": 17000, "waiting_ns": 50000}, ours["ranks"][0])
    check(ours["ranks"][1] == {"rank": 1, "same_as": 1, "end_ns": 187000, "compute_ns": 90000,
                               "exposed_ns": 37000, "waiting_ns": 60000}, ours["ranks"][1])
    check(ours["groups"] == [
        {"group": "1", "ranks": 2, "calls": 1, "bytes": 4096, "ns": 30000},
        {"group": None, "ranks": 0, "calls": 1, "bytes": 64, "ns": 7000}], ours["groups"])
    with open("hand.csv", encoding="utf-8") as f:
        check(f.read() == "from,to,bytes\n0,1,4096\n1,0,4160\n", "traffic by hand")
    with open("hand.json", encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    check(sorted((e["pid"], e["name"], e["ts"], e["dur"]) for e in events if e.get("ph") == "X")
          == [(0, "n1", 0, 100), (0, "n2", 100, 30), (0, "n3", 100, 20), (0, "n4", 180, 7),
              (1, "n1", 0, 40), (1, "n2", 100, 30), (1, "n3", 130, 50), (1, "n4", 180, 7)],
          f"the timeline: {events}")
    labels = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("ph") == "M"
              and e["name"] == "thread_name"}
    threads = {e["name"]: labels[e["pid"], e["tid"]] for e in events if e.get("ph") == "X"}
    check(threads == {"n1": "compute", "n2": "group 1", "n3": "compute", "n4": "messages"}, threads)
    pictures()
    # rank 0 waits for rank 1, which computes 10 times as long
    check(ends(simulate("hand", "--slow", "1=10"))[0] == 400000 + 30000 + 500000 + 7000,
          "a straggler by hand")
    check(b"on average 56.1 % compute, 14.4 % exposed" in run("simulate", "hand").stdout,
          run("simulate", "hand").stdout)
    traffic()


def pictures():
    """The shares in the chart are areas: their sums are those of the table."""
    run("simulate", "hand", "--chart", "hand.svg", "--traffic", "bytes.svg")
    svg = xml.etree.ElementTree.parse("hand.svg").getroot()
    paths = [p for p in svg.iter("{http://www.w3.org/2000/svg}path")]
    check(len(paths) == 4, f"{len(paths)} paths for two ranks")
    for path, share in zip(paths, [120 / 187, 17 / 187, 90 / 187, 37 / 187]):
        boxes = re.findall(r"M[\d.]+ [\d.]+h([\d.]+)v-([\d.]+)h-[\d.]+z", path.get("d"))
        scale = float(re.search(r"scale\(([\d.]+)", [g for g in svg if path in list(g)][0]
                                .get("transform"))[1])
        area = sum(float(w) * float(h) for w, h in boxes) * scale / (1024 * 24)
        check(abs(area - share) < 0.01, f"the chart shows {area:.3f} of the time, not {share:.3f}")
    cells = [r for r in xml.etree.ElementTree.parse("bytes.svg").getroot()
             if r.get("fill", "").startswith("#") and r.tag.endswith("rect")]
    check(len(cells) == 2, f"{len(cells)} cells of two pairs")


def traffic():
    """The bytes of ring collectives of four ranks, which contribute 400 bytes each."""
    kinds = {ALL_REDUCE: 2 * 3 * 100, REDUCE_SCATTER: 3 * 100, REDUCE_SCATTER_BLOCK: 3 * 100,
             ALL_GATHER: 3 * 400, BROADCAST: 400}
    for kind, sent in {**kinds, ALL_TO_ALL: 100}.items():
        write("ring", {r: [coll(1, kind, 400, 3)] for r in range(4)}, {3: [0, 1, 3, 2]})
        simulate("ring", "--traffic", "ring.csv")
        with open("ring.csv", encoding="utf-8") as f:
            rows = {tuple(map(int, line.split(",")[:2])): int(line.split(",")[2])
                    for line in f.read().split()[1:]}
        ring = {(0, 1), (1, 3), (3, 2)} | ({(2, 0)} if kind != BROADCAST else set())
        pairs = {(a, b) for a in range(4) for b in range(4) if a != b}
        check(rows == dict.fromkeys(pairs if kind == ALL_TO_ALL else ring, sent),
              f"traffic of kind {kind}: {rows}")


def deadlocks():
    def crossed(rank):
        order = [1, 2] if rank == 0 else [2, 1]
        return [coll(1, ALL_REDUCE, 4096, order[0]), coll(2, ALL_REDUCE, 4096, order[1], [1])]

    cases = {
        "crossed": ({0: crossed(0), 1: crossed(1)},
                    "rank 0 waits in collective 1 (group 1) for rank 1; rank 1 waits in "
                    "collective 1 (group 2) for rank 0"),
        "no send": ({0: [recv(7, 1, 0, 3, 64)], 1: [comp(1, 5)]},
                    "rank 0 waits in receive 7 (tag 3) for rank 1; rank 1 has finished"),
        "wrong tag": ({0: [recv(7, 1, 0, 3, 64)], 1: [send(1, 1, 0, 4, 64)]},
                      "rank 0 waits in receive 7 (tag 3) for rank 1; rank 1 has finished"),
        "cycle": ({0: [comp(1, 5), comp(2, 5, [3]), comp(3, 5, [2])], 1: [comp(1, 5)]},
                  "rank 0 has no node that is ready, because its nodes depend on each other"),
        "never": ({0: [coll(1, ALL_REDUCE, 4096, 1)], 1: [comp(1, 5)]},
                  "rank 0 waits in collective 1 (group 1) for rank 1; rank 1 has finished"),
    }
    for name, (ranks, text) in cases.items():
        write("dead", ranks, {1: [0, 1], 2: [0, 1]})
        ours, done = simulate("dead"), run("simulate", "dead")
        check(ours.get("deadlock") == text, f"{name}: {ours}")
        check(done.returncode == 1 and text in done.stdout.decode(), f"{name}: {done.stdout}")


def absent():
    """Rank 2 of three has no file. Nobody waits for it."""
    ranks = {0: [comp(1, 10), coll(2, ALL_REDUCE, 64, 1, [1], 4), recv(3, 2, 0, 1, 64, [2], 6)],
             1: [comp(1, 30), coll(2, ALL_REDUCE, 64, 1, [1], 4), send(3, 1, 2, 1, 64, [2], 8)]}
    write("absent", ranks, {1: [0, 1, 2]})
    ours = simulate("absent")
    check(ends(ours) == [40000, 42000] and ours["absent_ranks"] == 1, f"an absent rank: {ours}")


# ---- What would be, and what differs ----


def what_if():
    """The set of by_hand, with changed times."""
    cases = [("--scale n1=0.5 --drop n3", 50 + 30 + 7), ("--scale ALL_REDUCE=2", 217),
             ("--scale COMPUTE=2,MESSAGES=10", 200 + 30 + 100 + 70),
             ("--drop COLLECTIVES,MESSAGES", 150), ("--scale n[34]=0", 130)]
    for options, us in cases:
        done = run("what-if", "hand", "--json", *options.split())
        said = json.loads(done.stdout) if done.stdout else {}
        check(said and said["before"]["end_ns"] == 187000 and said["after"]["end_ns"] == us * 1000,
              f"what-if {options}: {said}, not {us} us; {done.stderr}")
    check(b"187 us     137 us    -26.7 %" in run("what-if", "hand", "--drop", "n3").stdout,
          run("what-if", "hand", "--drop", "n3").stdout)
    done = run("what-if", "hand", "--scale", "COMPUTE=0.5", "--drop", "zz")
    check(done.returncode == 0 and done.stderr == b"note: no node matches 'zz'\n", done.stderr)
    for options, text in [("--scale n1", "NODES=FACTOR"), ("--scale n1=-1", "NODES=FACTOR"),
                          ("--scale =2", "NODES=FACTOR"), ("--drop zz", "no node matches"),
                          ("--drop ,", "empty name"), ("", "says what to change"),
                          ("--scale n1=1e10", "from 0 to 1000000"),
                          ("--drop " + "n1," * 64 + "n1", "more than 64 patterns")]:
        done = run("what-if", "hand", *options.split())
        check(done.returncode != 0 and text in done.stderr.decode(), f"{options}: {done.stderr}")


def write_hardware(name, **changes):
    """A machine without launch overhead and without a collective library, so that times are
    quotients."""
    hardware = {"peak_tflops": {"f32": 10, "bf16": 100}, "memory_gib": 80, "memory_gb_per_s": 1600,
                "node_ranks": 2, "intra": {"alpha_us": 3, "gb_per_s": 50},
                "inter": {"alpha_us": 10, "gb_per_s": 10}}
    stack = {"name": "plain", "launch_us": 0, "matmul_efficiency": 1, "memory_efficiency": 1}
    for key, value in changes.items():
        (hardware if key in hardware else stack)[key] = value
    with open(f"{name}.json", "w", encoding="utf-8") as f:
        json.dump({"name": name, "hardware": hardware, "stack": stack}, f)


def other_machine():
    """Times on another machine: twice the memory bandwidth and 1 us per kernel; twice the peak in
    bf16, and four times in f32; messages of 1 us and 100 GB/s."""
    write_hardware("old")
    write_hardware("new", memory_gb_per_s=3200, kernel_us=1, intra={"alpha_us": 1, "gb_per_s": 100},
                   peak_tflops={"f32": 40, "bf16": 200})
    # n1 100 -> 51 us, all-reduce 2 * 1 us + 4096 B / 100 GB/s, n3 50 -> 26 us, message 64 B
    ns = 51000 + 2041 + 26000 + 1001
    for options, end in [([], ns), (["--scale", "n1=0.5"], ns - 25500)]:
        done = run("what-if", "hand", "--hw", "new.json", "--from", "old.json", "--json", *options)
        said = json.loads(done.stdout) if done.stdout else {}
        check(said and said["before"]["end_ns"] == 187000 and said["after"]["end_ns"] == end and
              (said["compute_nodes"], said["predicted_compute_nodes"]) == (4, 0),
              f"what-if --hw {options}: {said}, not {end}; {done.stderr}")
    # 1e12 flops and 1 MB, which is a matrix product
    write("flops", {0: [dict(comp(1, 77), ops=10 ** 12, bytes=10 ** 6)]}, {})
    write_hardware("new", peak_tflops={"f32": 40, "bf16": 200})
    for dtype, end in [("auto", 38500), ("bf16", 38500), ("f32", 19250)]:
        done = run("what-if", "flops", "--hw", "new.json", "--from", "old.json", "--json",
                   "--dtype", dtype)
        check(json.loads(done.stdout)["after"]["end_ns"] == end, f"{dtype}: {done.stdout}")
    write("idle", {0: [dict(comp(1, 77), ops=0, bytes=0)]}, {})
    write_hardware("fast", launch_us=1)
    write_hardware("slow", launch_us=2)
    done = run("what-if", "idle", "--hw", "slow.json", "--from", "fast.json", "--json")
    check(json.loads(done.stdout)["after"]["end_ns"] == 77000, f"without work: {done.stdout}")
    write_hardware("blocks", blocking=1)
    for options, text in [(["--hw", "h100"], "give it with --from"),
                          (["--hw", "zz", "--from", "old.json"], "zz"),
                          (["--drop", "n1", "--from", "h100"], "--from needs --hw"),
                          (["--scale", "n1=2", "--dtype", "f32"], "--dtype needs --hw"),
                          (["--hw", "h100", "--network", "a", "--system", "b"], "give one"),
                          (["--hw", "blocks.json", "--from", "old.json"], "on only one of")]:
        done = run("what-if", "hand", *options)
        check(done.returncode != 0 and text in done.stderr.decode(), f"{options}: {done.stderr}")


def differences():
    def ranks(size, last, us=10):
        return {r: [comp(1, us), coll(2, ALL_REDUCE, size, 1, [1]),
                    send(3, r, r + 2, 1, 64, [2]) if r < 2 else recv(3, r - 2, r, 1, 64, [2]),
                    *last] for r in range(4)}

    write("a", ranks(128, [comp(4, 5, [2])]), {1: [0, 1, 2, 3]})
    cases = [
        (ranks(128, [comp(4, 5, [2])]), [], 0),
        (ranks(256, [comp(4, 5, [2])]),
         ["ranks 0-3 ALL_REDUCE on 4 ranks: 128 and 256 bytes",
          "ranks 0-3 order of communication: call 1 is ALL_REDUCE of 128 bytes on 4 ranks (node 2) "
          "and ALL_REDUCE of 256 bytes on 4 ranks (node 2)"], 1),
        (ranks(128, [comp(4, 7, [2])]), ["ranks 0-3 time of computation: 15000 and 17000 ns"], 1),
        (ranks(128, [comp(4, 5, [3])]),
         ["ranks 0-3 times or dependencies of single nodes differ"], 1),
        (ranks(128, []), ["ranks 0-3 compute nodes: 2 and 1",
                          "ranks 0-3 time of computation: 15000 and 10000 ns"], 1),
        ({r: n for r, n in ranks(128, [comp(4, 5, [2])]).items() if r < 3},
         ["rank 3 only the first set has this rank"], 1),
    ]
    for others, want, code in cases:
        for rank in range(4):
            if os.path.exists(f"b.{rank}.et"):
                os.remove(f"b.{rank}.et")
        write("b", others, {1: [0, 1, 2, 3]})
        done = run("diff", "a", "b")
        said = [" ".join(line.split()) for line in done.stdout.decode().split("\n")
                if line.startswith("rank")]
        check(said == want and done.returncode == code, f"diff: {said}, not {want}; {done.stderr}")
    check(b"all ranks do the same" in run("diff", "a", "a").stdout, "equal sets")


# ---- Inputs that cannot be simulated ----


def errors():
    good = {r: [coll(1, ALL_REDUCE, 64, 1)] for r in range(2)}
    cases = {
        "other kinds": ({0: good[0], 1: [coll(1, ALL_GATHER, 64, 1)]}, {1: [0, 1]},
                        "group 1 call different collectives: rank 0 ALL_REDUCE of 64 bytes"),
        "other sizes": ({0: good[0], 1: [coll(1, ALL_REDUCE, 65, 1)]}, {1: [0, 1]},
                        "rank 1 ALL_REDUCE of 65 bytes (node 1)"),
        "unknown group": (good, {2: [0, 1]}, "group 1 is not in the group file"),
        "not a member": (good, {1: [0, 5]}, "rank 1 uses group 1 but is not a member"),
        "twice": ({0: [comp(1, 5), comp(1, 5)]}, {}, "node 1 occurs twice"),
        "itself": ({0: [comp(1, 5, [1])]}, {}, "node 1 depends on itself"),
        "dangling": ({0: [comp(1, 5, [9])]}, {}, "node 9 is not in the file"),
        "empty": ({0: []}, {}, "has no nodes"),
        "own message": ({0: [send(4, 0, 0, 1, 64)]}, {}, "node 4 has no valid comm_dst"),
        "others' message": ({0: [send(4, 1, 2, 1, 64)]}, {}, "between two other ranks"),
    }
    for name, (ranks, groups, text) in cases.items():
        for rank in range(2):
            if os.path.exists(f"bad.{rank}.et"):
                os.remove(f"bad.{rank}.et")
        write("bad", ranks, groups)
        done = run("simulate", "bad")
        check(done.returncode == 1 and text in done.stderr.decode(), f"{name}: {done.stderr}")
    write("cut", good, {1: [0, 1]})
    with open("cut.1.et", "r+b") as f:
        f.truncate(os.path.getsize("cut.1.et") - 3)
    check(b"cut.1.et is damaged" in run("simulate", "cut").stderr, "a damaged file")
    write("alone", good, {})
    os.remove("alone.comm_group.json")
    check(b"the set has no group file" in run("simulate", "alone").stderr, "no group file")
    write("good", good, {1: [0, 1]})
    for options, text in [(["--slow", "3=2"], "last rank is 1"), (["--slow", "0"], "a list"),
                          (["--slow", "0-99999999999=2"], "last rank is 1"),
                          (["--chart", "x.svg", "--traffic", "x.svg"], "two outputs"),
                          (["--chart", "-", "--json"], "standard output"),
                          (["--slow", "0=-1"], "a list"), (["--slow", "1-0=2"], "a list"),
                          (["--slow", "0=2,"], "a list"), (["--network", "n"], "give both")]:
        done = run("simulate", "good", *options)
        check(done.returncode != 0 and text in done.stderr.decode(), f"{options}: {done.stderr}")
    twice = run("simulate", "good.0.et", "good.0.et")
    check(b"good.0.et is given twice" in twice.stderr, twice.stderr)


def too_long():
    """Times of more than 1e18 ns are refused; they once ran forever."""
    century = 100 * 365 * 86400 * 10 ** 6
    cases = [({0: [comp(1, century)]}, []), ({0: [comp(1, 2 ** 63 - 1)]}, []),
             ({0: [comp(1, 2 ** 64 - 1), comp(2, 2 ** 64 - 1, [1])]}, []),
             ({0: [comp(1, century // 1000)]}, ["--slow", "0=1000,0=1000,0=1000,0=1000"]),
             ({r: [coll(1, ALL_REDUCE, 1 << 20, 0)] for r in range(2)}, write_machine(
                 {"topology": ["Ring"], "npus_count": [2], "bandwidth": [1e-300], "latency": [1]},
                 {**SYSTEM, **{f"{kind}-implementation": ["ring"] for kind in KINDS}}))]
    for ranks, options in cases:
        for rank in range(2):
            if os.path.exists(f"long.{rank}.et"):
                os.remove(f"long.{rank}.et")
        write("long", ranks, {})
        done = run("simulate", "long", *options)
        check(done.returncode == 1 and b"more than 31 years" in done.stderr, f"{options}: {done}")
    write("big", {r: [coll(1, ALL_REDUCE, 2 ** 63 - 1, 0)] for r in range(2)}, {})
    check(b"comm_size" in run("simulate", "big").stderr, "an absurd size")


def outputs():
    """Outputs keep the inputs, go to standard output alone, and name only ranks of the set."""
    write("in", {r: [comp(1, 5), coll(2, ALL_REDUCE, 64, 'a"b', [1])] for r in (0, 3)},
          {'a"b': [0, 3]})
    done = run("simulate", "in", "--timeline", "-")
    timeline = json.loads(done.stdout)["traceEvents"]
    labels = {e["args"]["name"] for e in timeline if e.get("ph") == "M"}
    check(labels == {"ranks 0,3", "compute", 'group a"b'}, labels)
    check(b"0,3 " in done.stderr and b"0-3" not in done.stderr, done.stderr)
    for option, name in [("--chart", "in.0.et"), ("--timeline", "./in.3.et"),
                         ("--traffic", os.path.abspath("in.comm_group.json"))]:
        with open(name, "rb") as f:
            before = f.read()
        done = run("simulate", "in", option, name)
        with open(name, "rb") as f:
            same = f.read() == before
        check(same and done.returncode == 1 and b"never overwritten" in done.stderr,
              f"{option} {name}: {done}")


# ---- ASTRA-sim ----

NETWORK = {"topology": ["FullyConnected", "Ring"], "npus_count": [2, 4],
           "bandwidth": [100.0, 25.0], "latency": [500.0, 2000.0]}
KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
SYSTEM = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
          "preferred-dataset-splits": 1, "collective-optimization": "localBWAware",
          "local-mem-bw": 1600, "boost-mode": 0, "roofline-enabled": 1, "peak-perf": 312,
          "trace-enabled": 1, **{f"{kind}-implementation": ["ring", "ring"] for kind in KINDS}}

# The times at which the eight ranks of a random set ended in ASTRA-sim 518bd51, with the network
# and the system above; None: it did not run all nodes.
RECORDED = {
    0: [212254, 212254, 212254, 212254, 212254, 212254, 212254, 212254],
    1: None,
    2: [676016, 676668, 674516, 673864, 676668, 676016, 676668, 676668],
    3: [1405879, 1405341, 1405879, 1405879, 1405341, 1405879, 1405879, 1405341],
    4: None,
    5: None,
    6: [772624, 772624, 772624, 772624, 772624, 772624, 772624, 772624],
    7: None,
    8: [512379, 656379, 656379, 642379, 656379, 656379, 656379, 656379],
    9: [1177878, 1177878, 1177878, 1177878, 1177878, 1177878, 1177878, 1177878],
    10: [779987, 807986, 807986, 807986, 807986, 807986, 807986, 807986],
    11: [633383, 633383, 633383, 627000, 628001, 627000, 628001, 633383],
    12: [644410, 644410, 644410, 644410, 644410, 644410, 644410, 644410],
    13: [488072, 438268, 477807, 488072, 488614, 488095, 488614, 488614],
    14: [1090595, 1464595, 1281054, 1281054, 920264, 930529, 1304529, 1449447],
    15: [566005, 566005, 566005, 566005, 566005, 566005, 566005, 566005],
    16: None,
    17: [360000, 360000, 360000, 360000, 360000, 360000, 360000, 360000],
    18: [186761, 186761, 186761, 186761, 186761, 186761, 186761, 186761],
    19: None,
    20: None,
    21: [691287, 691287, 691287, 691287, 691287, 691287, 691287, 691287],
    22: None,
    23: None,
}


def write_machine(network, system):
    with open("network.yml", "w", encoding="utf-8") as f:
        for key, values in network.items():
            f.write(f"{key}: [ {', '.join(map(str, values))} ]\n")
    with open("system.json", "w", encoding="utf-8") as f:
        json.dump(system, f)
    return ["--network", "network.yml", "--system", "system.json"]


def as_astra_sim():
    machine = write_machine(NETWORK, SYSTEM)
    for seed, theirs in RECORDED.items():
        write("astra", random_set(seed, 8, GROUPS, seed % 3 == 0), ALL_GROUPS)
        ours = simulate("astra", *machine)
        if theirs is None:
            check("error" in ours or ours["deadlock"], f"ASTRA-sim cannot run set {seed}")
            continue
        near = all(abs(a - b) <= 0.02 * b for a, b in zip(ends(ours), theirs))
        check("error" not in ours and near, f"set {seed}: {ends(ours)}; ASTRA-sim: {theirs}")
    # single collectives, which are equal to the nanosecond
    ring = write_machine({"topology": ["Ring"], "npus_count": [8], "bandwidth": [50.0],
                          "latency": [500.0]},
                         {**SYSTEM, **{f"{kind}-implementation": ["ring"] for kind in KINDS}})
    write("eight", {r: [comp(1, 10), coll(2, ALL_REDUCE, 1 << 20, 0, [1])] for r in range(8)}, {})
    check(ends(simulate("eight", *ring)) == [53025] * 8, ends(simulate("eight", *ring)))
    pair = write_machine({"topology": ["Switch"], "npus_count": [2], "bandwidth": [400.0],
                          "latency": [936.25]},
                         {**SYSTEM, "local-mem-bw": 3350,
                          **{f"{kind}-implementation": ["ring"] for kind in KINDS}})
    write("pair", {r: [comp(1, 10), coll(2, ALL_REDUCE, 16 << 20, 0, [1])] for r in range(2)}, {})
    check(ends(simulate("pair", *pair)) == [55124] * 2, ends(simulate("pair", *pair)))
    switches()
    algorithms()
    notations()
    machine_errors()


def switches():
    """A network like those of `syntorch astra-sim`: nodes of four ranks, joined by switches. The
    times at which the last rank ended in ASTRA-sim, with 4 MiB: all ranks, rings of four ranks on
    two nodes, and messages between nodes."""
    machine = write_machine({"topology": ["Switch", "Switch"], "npus_count": [4, 2],
                             "bandwidth": [50.0, 5.0], "latency": [250.0, 1500.0]}, SYSTEM)
    rings = {1: [0, 1, 5, 4], 2: [2, 3, 7, 6]}
    ended = {ALL_REDUCE: (338484, 670994), ALL_GATHER: (1264560, 1657165),
             REDUCE_SCATTER: (177685, 432590), ALL_TO_ALL: (523901, 665099)}
    for kind, theirs in ended.items():
        ours = []
        for groups in ({}, rings):
            write("switch", {r: [comp(1, 10), coll(2, kind, 1 << 22,
                                                   groups and 1 + (r not in rings[1]), [1])]
                             for r in range(8)}, groups)
            ours.append(max(ends(simulate("switch", *machine))))
        check(tuple(ours) == theirs, f"{kind}: {ours}, ASTRA-sim: {theirs}")
    write("switch", {r: [comp(1, 10), send(2, r, r + 4, 5, 1 << 20, [1]) if r < 4 else
                         recv(2, r - 4, r, 5, 1 << 20, [1])] for r in range(8)}, {})
    check(ends(simulate("switch", *machine)) == [208312] * 8, simulate("switch", *machine))


# The ends of collectives in ASTRA-sim 518bd51 with other algorithms: topology with 50 GB/s and 700
# ns, ranks, group (None: all), kind, bytes, algorithm, ns.
OTHER_ALGORITHMS = [
    ("FullyConnected", 8, None, ALL_REDUCE, 1 << 20, "direct", 6555),
    ("FullyConnected", 8, None, ALL_REDUCE, 1 << 20, "halvingDoubling", 39178),
    ("Ring", 8, None, ALL_GATHER, 1 << 20, "halvingDoubling", 141658),
    ("Ring", 8, None, REDUCE_SCATTER, 3 << 16, "halvingDoubling", 8278),
    ("Switch", 16, None, ALL_TO_ALL, 1 << 20, "direct", 2640),
    ("Ring", 8, [1, 3, 4, 6], ALL_REDUCE, 1 << 20, "direct", 14972),
    ("Ring", 16, [8, 10, 12, 14, 1, 3, 5, 7], ALL_REDUCE, 1 << 20, "halvingDoubling", 53178),
    ("Switch", 4, None, REDUCE_SCATTER, 1 << 20, "direct", 6791),
    ("Ring", 8, [0, 4], ALL_GATHER, 1 << 20, "direct", 22351),
]
KIND_NAMES = {ALL_REDUCE: "ALL_REDUCE", ALL_GATHER: "ALL_GATHER", ALL_TO_ALL: "ALL_TO_ALL",
              REDUCE_SCATTER: "REDUCE_SCATTER"}


def remove_set(prefix):
    for name in os.listdir("."):
        if name.startswith(prefix + ".") and name.endswith(".et"):
            os.remove(name)


def machine_of(topology, ranks, **system):
    return write_machine({"topology": [topology], "npus_count": [ranks], "bandwidth": [50.0],
                          "latency": [700.0]},
                         {**SYSTEM, **{f"{kind}-implementation": ["ring"] for kind in KINDS},
                          "roofline-enabled": 0, **system})


def what_if_algorithm(prefix, chosen, machine):
    done = run("what-if", prefix, "--json", "--collective", chosen, *machine)
    return json.loads(done.stdout)["after"]["end_ns"] if done.stdout else done.stderr


def algorithms():
    for topology, n, group, kind, size, name, ns in OTHER_ALGORITHMS:
        remove_set("one")
        write("one", {r: [coll(2, kind, size, 1 if group else 0)] if r in (group or range(n))
                      else [comp(1, 1)] for r in range(n)}, {1: group} if group else {})
        ours = what_if_algorithm("one", f"{KIND_NAMES[kind]}={name}", machine_of(topology, n))
        check(ours == ns, f"{name} on {topology}: {ours} ns, ASTRA-sim: {ns} ns")
    # the messages of `expand`, without delays of endpoints and reductions
    for topology, n in [("FullyConnected", 8), ("Ring", 8), ("Switch", 6), ("Ring", 11)]:
        machine = machine_of(topology, n, **{"endpoint-delay": 0, "local-mem-bw": 1e12})
        for kind, name in [(ALL_REDUCE, "tree"), (ALL_REDUCE, "doubling"), (ALL_REDUCE, "ring"),
                           (ALL_GATHER, "doubling"), (REDUCE_SCATTER, "doubling")]:
            remove_set("one")
            remove_set("messages")
            write("one", {r: [comp(1, 20), coll(2, kind, 3 << 18, 0, [1]), comp(3, 10, [2])]
                          for r in range(n)}, {})
            run("expand", "one", "--out", "messages", "--algorithm", name)
            ours = what_if_algorithm("one", f"{KIND_NAMES[kind]}={name}", machine)
            theirs = simulate("messages", *machine)["end_ns"]
            check(abs(ours - theirs) <= 0.002 * theirs,
                  f"{KIND_NAMES[kind]} by {name} on {n} ranks, {topology}: {ours} and {theirs} ns")
    machine = machine_of("Ring", 4)
    remove_set("one")
    write("one", {r: [coll(2, ALL_REDUCE, 64, 0)] for r in range(4)}, {})
    for options, text in [(["--collective", "ALL_REDUCE=ring"], "needs --network"),
                          (["--collective", "ALL_REDUCE", *machine], "is not a list such as"),
                          (["--collective", "ALL_REDUCE=oneRing", *machine], "is not a list"),
                          (["--collective", "ALL_TO_ALL=tree", *machine], "no algorithm 'tree'"),
                          (["--collective", "BROADCAST=ring", *machine], "BROADCAST has no"),
                          (["--collective", "zz=ring", *machine], "zz has no algorithm")]:
        done = run("what-if", "one", *options)
        check(done.returncode != 0 and text in done.stderr.decode(), f"{options}: {done.stderr}")


def notations():
    """Lists of a network file may continue on the next line, and have a line per entry."""
    write("astra", random_set(0, 8, GROUPS, True), ALL_GROUPS)
    machine = write_machine(NETWORK, SYSTEM)
    plain = ends(simulate("astra", *machine))
    with open("network.yml", "w", encoding="utf-8") as f:
        f.write("# a comment: [ 5 ]\nother:\n  - 5\ntopology: [ FullyConnected, # first\n"
                "  Ring\n  ]\nnpus_count:\n  - 2\n  - 4  # ranks\nbandwidth:\n- 100.0\n- 25.0\n"
                "latency: [\n 500.0, 2000.0 ]\n")
    check(ends(simulate("astra", *machine)) == plain, simulate("astra", *machine))


def machine_errors():
    cases = [({**NETWORK, "topology": ["Torus", "Ring"]}, {}, "topology 'Torus'"),
             ({**NETWORK, "latency": [1.0]}, {}, "one entry per dimension"),
             ({**NETWORK, "bandwidth": [0, 1]}, {}, "bandwidth cannot be '0'"),
             ({**NETWORK, "npus_count": [2, 2]}, {}, "the network has 4 ranks"),
             (NETWORK, {"all-reduce-implementation": ["direct", "ring"]}, "only 'ring'"),
             (NETWORK, {"local-mem-bw": 0}, "local-mem-bw must be positive")]
    bare = {r: [dict(comp(1, 5), bare=True), coll(2, ALL_REDUCE, 64, 0)] for r in range(8)}
    write("astra", bare, ALL_GROUPS)
    done = run("simulate", "astra", *write_machine(NETWORK, SYSTEM))
    check(b"node 1 has no num_ops" in done.stderr, done.stderr)
    done = run("simulate", "astra", *write_machine(NETWORK, {**SYSTEM, "roofline-enabled": 0}))
    check(done.returncode == 0, done.stderr)
    write("astra", random_set(1, 8, GROUPS, True), ALL_GROUPS)
    for text in (b"", b"{}", b"topology: [ Ring ]\n"):
        machine = write_machine(NETWORK, SYSTEM)
        with open("network.yml", "wb") as f:
            f.write(text)
        done = run("simulate", "astra", *machine)
        check(done.returncode == 1 and b"is missing" in done.stderr, f"{text}: {done.stderr}")
    for network, system, text in cases:
        done = run("simulate", "astra", *write_machine(network, {**SYSTEM, **system}))
        check(done.returncode == 1 and text in done.stderr.decode(), f"{text}: {done.stderr}")


# ---- Sets of synth ----


def synth(out, hardware, layout):
    done = subprocess.run([os.path.join(BUILD, "synth"), "--model-config", "gpt.json", "--out", out,
                           "--hw", hardware, "--global-batch", "16", "--json", *layout.split()],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"synth {layout}: {done.stderr}")
    return json.loads(done.stdout)["predicted_step_ns"] if done.stdout else 0


def as_predicted_elsewhere():
    """A set of synth with the times of another machine ends like the set that synth predicts for
    that machine, whose predictions know the shapes."""
    with open("gpt.json", "w", encoding="utf-8") as f:
        json.dump({"model_type": "gpt2", "n_embd": 1024, "n_head": 8, "n_layer": 4,
                   "vocab_size": 50257, "n_positions": 512, "n_ctx": 512}, f)
    for layout, old, machines in [
            ("--tp 2 --pp 2 --dp 2 --dtype bf16", "a100-80g", ["h100", "v100-32g"]),
            ("--dp 12 --zero 3 --global-batch 48 --dtype f32", "a100-80g", ["h100", "v100-32g"]),
            ("--tp 2 --pp 4 --sp --activation-recompute full --dtype bf16", "a100-80g",
             ["h100", "v100-32g"]),
            ("--tp 4 --sp --fp8 --dtype bf16", "h100+megatron-core", ["b200+megatron-core"])]:
        synth("a100", old, layout)
        for hardware in machines:
            want = synth("other", hardware, layout)
            done = run("what-if", "a100", "--hw", hardware, "--json")
            said = json.loads(done.stdout) if done.stdout else {}
            check(said and abs(said["after"]["end_ns"] / want - 1) < 2e-4,
                  f"{layout} on {hardware}: {said}, not {want}; {done.stderr}")
            check(said["predicted_compute_nodes"] > 0.95 * said["compute_nodes"], said)
        for name in os.listdir("."):
            if name.startswith(("a100.", "other.")):
                os.remove(name)
    synth("a100", "a100-80g", "--dp 2 --dtype bf16")
    done = run("what-if", "a100", "--hw", "h100", "--from", "v100-32g")
    check(b"those of a100-80g+megatron, not of v100-32g+megatron" in done.stderr, done.stderr)
    done = run("what-if", "a100", "--hw", "a100-80g", "--json")
    said = json.loads(done.stdout)
    check(said["before"] == said["after"], f"the same machine: {said}")
    check(b"times of h100+megatron instead of a100-80g+megatron" in
          run("what-if", "a100", "--hw", "h100").stdout, "the machines' names")


def as_predicted():
    """Without a machine, streams overlap as in the run that synth predicts, although the traces
    order all collectives of a rank for simulators with one communication slot."""
    layouts = ["--tp 2 --pp 2 --dp 2", "--pp 4 --schedule zb-h1 --tp 2", "--dp 4 --zero 2",
               "--tp 2 --pp 2 --dp 2 --sp --zero 1", "--pp 2 --dp 2 --zero 3",
               # two groups with the same ranks: their collectives are ready in different orders
               "--dp 4 --zero 3", "--tp 2 --dp 2 --zero 3 --hsdp 2",
               # the third of four pipelines crosses between the nodes of eight ranks
               "--pp 3 --dp 4 --layers-per-stage 1,2,1 --rank-order pp-dp-tp",
               # tp groups of 3 + 1 and of 2 + 2 ranks on two nodes, and shards of 3 + 1 and 2 + 2
               "--dp 3 --tp 4 --rank-order dp-tp-pp --global-batch 12",
               "--dp 8 --tp 2 --zero 3 --hsdp 4"]
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 4, "vocab_size": 256,
              "n_positions": 64, "n_ctx": 64}
    ordered = 0
    with open("gpt.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    for layout in layouts:
        predicted = synth("set", "a100-80g", layout)
        ours = simulate("set")
        check(predicted > 0 and abs(ours["end_ns"] / predicted - 1) < 1e-5,
              f"{layout}: {ours['end_ns']} ns simulated, {predicted} ns predicted")
        check(ours["distinct_ranks"] <= 6, f"{layout}: {ours['distinct_ranks']} distinct ranks")
        with open("set.0.et", "rb") as f:
            nodes = read_et(f.read())[1]
        for n in nodes:
            check(set(n.attr.get("order_deps", [])) <= set(n.ctrl), f"{layout}: node {n.id}")
            ordered += len(n.attr.get("order_deps", []))
        for rank in range(16):
            if os.path.exists(f"set.{rank}.et"):
                os.remove(f"set.{rank}.et")
    check(ordered > 0, "no collectives are ordered across streams, so nothing was tested")


if __name__ == "__main__":
    enter_folder()
    by_hand()
    what_if()
    other_machine()
    path_by_hand()
    differences()
    as_second_simulator()
    critical_paths()
    path_on_machine()
    deadlocks()
    absent()
    errors()
    outputs()
    too_long()
    as_astra_sim()
    as_predicted()
    as_predicted_elsewhere()
    finish()
