#!/usr/bin/python3
"""Tests `syntorch expand`: collectives as messages, in trace sets and in GOAL schedules. The
references are what each rank must know after a collective, closed formulas for the bytes, and the
longest path through a schedule."""
import glob
import json
import os
import re
import struct
import subprocess

from checks import BUILD, SOURCE, check, enter_folder, finish, run
from execution_trace import RECV, SEND, read_et
from trace_sets import (ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, GATHER, REDUCE,
                        REDUCE_SCATTER, SCATTER, coll, comp, recv, send, simulate, write)

BARRIER = 9
NAMES = {ALL_REDUCE: "ALL_REDUCE", ALL_GATHER: "ALL_GATHER", ALL_TO_ALL: "ALL_TO_ALL",
         REDUCE_SCATTER: "REDUCE_SCATTER", BROADCAST: "BROADCAST", REDUCE: "REDUCE",
         GATHER: "GATHER", SCATTER: "SCATTER", BARRIER: "BARRIER"}
SIZE = 840  # divisible by all numbers of ranks below


def clear(prefix):
    for path in glob.glob(f"{prefix}.*.et"):
        os.remove(path)


def read(prefix):
    out = {}
    for path in glob.glob(f"{prefix}.*.et"):
        with open(path, "rb") as f:
            out[int(path.split(".")[-2])] = read_et(f.read())[1]
    return out


def replay(ranks):
    """Runs the messages. Each carries what its sender knew after the steps that the send waits for.
    Returns what each rank knows at the end, or None if some nodes never run."""
    done = {r: {} for r in ranks}  # what is known after a node
    sent, progress = {}, True
    while progress:
        progress = False
        for r, nodes in ranks.items():
            for n in nodes:
                if n.id in done[r] or not n.deps <= done[r].keys():
                    continue
                known = {r}.union(*(done[r][d] for d in n.deps))
                if n.type == SEND:
                    key = r, n.attr["comm_dst"], n.attr["comm_tag"], n.attr["comm_size"]
                    sent.setdefault(key, []).append(known)
                elif n.type == RECV:
                    key = n.attr["comm_src"], r, n.attr["comm_tag"], n.attr["comm_size"]
                    if not sent.get(key):
                        continue
                    known |= sent[key].pop(0)
                done[r][n.id] = known
                progress = True
    if any(sent.values()) or any(len(done[r]) != len(ranks[r]) for r in ranks):
        return None
    return {r: set().union(*done[r].values()) for r in ranks}


def must_know(kind, members, root):
    everything = set(members)
    return {ALL_REDUCE: dict.fromkeys(members, everything),
            ALL_GATHER: dict.fromkeys(members, everything),
            REDUCE_SCATTER: dict.fromkeys(members, everything),
            ALL_TO_ALL: dict.fromkeys(members, everything),
            BARRIER: dict.fromkeys(members, everything),
            BROADCAST: {r: {root} for r in members}, SCATTER: {r: {root} for r in members},
            REDUCE: {root: everything}, GATHER: {root: everything}}[kind]


def bytes_sent(kind, algorithm, n):
    """What all ranks send together."""
    power = n & (n - 1) == 0
    if kind == ALL_REDUCE and algorithm == "doubling" and power:
        return n * SIZE * (n.bit_length() - 1)
    return {ALL_REDUCE: 2 * (n - 1) * SIZE, ALL_GATHER: n * (n - 1) * SIZE,
            REDUCE_SCATTER: (n - 1) * SIZE, ALL_TO_ALL: (n - 1) * SIZE, BROADCAST: (n - 1) * SIZE,
            REDUCE: (n - 1) * SIZE, GATHER: (n - 1) * SIZE, SCATTER: (n - 1) * SIZE // n,
            BARRIER: 2 * (n - 1)}[kind]


def collectives():
    for kind, name in NAMES.items():
        for algorithm in ("ring", "doubling", "tree"):
            for n in (1, 2, 3, 4, 5, 7, 8):
                members = [3 * i % n for i in range(n)] if n % 3 else list(range(n))
                clear("in")
                clear("out")
                write("in", {r: [comp(1, 2), coll(2, kind, SIZE, 1, [1])] for r in range(n)},
                      {1: members})
                done = run("expand", "in", "--out", "out", "--algorithm", algorithm)
                what = f"{name} by {algorithm} on {n} ranks"
                if not check(done.returncode == 0, f"{what}: {done.stderr}"):
                    continue
                ranks = read("out")
                known = replay(ranks)
                want = must_know(kind, members, members[0])
                check(known is not None and all(want[r] <= known[r] for r in want),
                      f"{what}: ranks know {known}")
                moved = sum(m.attr["comm_size"] for nodes in ranks.values() for m in nodes
                            if m.type == SEND)
                check(moved == bytes_sent(kind, algorithm, n), f"{what}: {moved} bytes are sent")


def between(ranks, chunk, rounds):
    """The bytes of a ring's messages by pair of ranks."""
    return {(r, ranks[(i + 1) % len(ranks)]): rounds * chunk for i, r in enumerate(ranks)}


def hierarchical_bytes(kind, nodes):
    """The same for rings within nodes, and between the ranks with the same index on their nodes."""
    count, width = len(nodes), len(nodes[0])
    n = count * width
    out = {}
    for node in nodes:
        share = count * SIZE if kind == ALL_GATHER else SIZE // width
        out.update(between(node, share, (2 if kind == ALL_REDUCE else 1) * (width - 1)))
    for same in zip(*nodes):
        share = SIZE if kind == ALL_GATHER else SIZE // n
        out.update(between(same, share, (2 if kind == ALL_REDUCE else 1) * (count - 1)))
    return out


def sent_by_pair(ranks):
    out = {}
    for r, nodes in ranks.items():
        for m in nodes:
            if m.type == SEND:
                pair = r, m.attr["comm_dst"]
                out[pair] = out.get(pair, 0) + m.attr["comm_size"]
    return out


def expand_hierarchical(kind, members, node_ranks):
    clear("in")
    clear("out")
    write("in", {r: [comp(1, 2), coll(2, kind, SIZE, 1, [1])] for r in members}, {1: members})
    done = run("expand", "in", "--out", "out", "--algorithm", "hierarchical", "--node-ranks",
               str(node_ranks), text=True)
    what = f"{NAMES[kind]} on {members} with {node_ranks} ranks per node"
    check(done.returncode == 0, f"{what}: {done.stderr}")
    ranks, want = read("out"), must_know(kind, members, members[0])
    known = replay(ranks)
    check(known is not None and all(want[r] <= known[r] for r in want),
          f"{what}: ranks know {known}")
    return sent_by_pair(ranks), done.stdout, what


def hierarchical():
    # The groups' ranks are in the order of a ring that crosses nodes between equal places.
    even = [(2, [[0, 1], [2, 3]]), (4, [[0, 1, 2, 3], [4, 5, 6, 7]]), (3, [[1, 2], [3, 4]]),
            (4, [[0, 2], [4, 6], [8, 10]]), (5, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])]
    for kind in (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER):
        for node_ranks, nodes in even:
            members = [r for i, node in enumerate(nodes)
                       for r in (node if i % 2 == 0 else node[::-1])]
            sent, printed, what = expand_hierarchical(kind, members, node_ranks)
            want = hierarchical_bytes(kind, nodes)
            check(sent == want, f"{what}: {sent} bytes, not {want}")
            check(sum(sent.values()) == bytes_sent(kind, "ring", len(members)), f"{what}: {sent}")
            check("note" not in printed, f"{what}: {printed}")
        # one node, one rank per node, and different numbers of ranks per node
        for node_ranks, members, noted in [(8, [0, 1, 2, 3], False), (2, [0, 2, 4], False),
                                           (4, [0, 1, 2, 3, 4], True), (4, [2, 3, 4, 8], True)]:
            sent, printed, what = expand_hierarchical(kind, members, node_ranks)
            n = len(members)
            share = SIZE if kind == ALL_GATHER else SIZE // n
            want = between(members, share, (2 if kind == ALL_REDUCE else 1) * (n - 1))
            check(sent == want, f"{what}: {sent} bytes, not {want}")
            check(("1 group with different" in printed) == noted, f"{what}: {printed}")
    # other collectives are as in the other algorithms
    sent, _, what = expand_hierarchical(ALL_TO_ALL, [0, 1, 2, 3], 2)
    check(set(sent.values()) == {SIZE // 4} and len(sent) == 12, f"{what}: {sent}")


def node_ranks_of_the_machine():
    """By default, the ranks per node are those of the machine for which a set was predicted."""
    with open(os.path.join(SOURCE, "examples/configs/hw_a100.json"), encoding="utf-8") as f:
        machine = json.load(f)
    machine["name"], machine["hardware"]["node_ranks"] = "pairs", 2
    with open("machine.json", "w", encoding="utf-8") as f:
        json.dump(machine, f)
    for hw, node_ranks, other in [("a100-80g", 8, 2), ("machine.json", 2, 8)]:
        subprocess.run([os.path.join(BUILD, "synth"), "--model", "gpt3-125m", "--layers", "1",
                        "--max-seq-length", "16", "--dp", "16", "--hw", hw, "--out", "m",
                        "--quiet"], check=True, timeout=300)
        sent = []
        for more in ([], ["--node-ranks", str(node_ranks)], ["--node-ranks", str(other)]):
            done = run("expand", "m", "--algorithm", "hierarchical", "--out", "out", *more)
            check(done.returncode == 0, done.stderr)
            sent.append(sent_by_pair(read("out")))
            clear("out")
        check(sent[0] == sent[1] != sent[2], f"{hw}: the set does not give {node_ranks} per node")


def rest_stays():
    """Other nodes keep their attributes and their order, and nodes that waited for the collective
    wait for its messages."""
    ranks = {r: [comp(1, 10 + r), coll(3, ALL_REDUCE, SIZE, 1, [1], 30), comp(4, 5, [3]),
                 send(6, 0, 1, 8, 32, [4]) if r == 0 else recv(6, 0, 1, 8, 32, [])]
             for r in range(2)}
    clear("in")
    clear("out")
    write("in", ranks, {1: [0, 1]})
    run("expand", "in", "--out", "out")
    before, after = read("in")[1], read("out")[1]
    kept = [n for n in after if not n.name.startswith("n3/")]
    check([(n.name, n.type, n.attr, n.dur) for n in kept]
          == [(n.name, n.type, n.attr, n.dur) for n in before if n.id != 3],
          "nodes other than the collective changed")
    steps = {n.id for n in after if n.name.startswith("n3/")}
    waits = next(n for n in after if n.name == "n4").deps
    check(len(steps) == 4 and waits <= steps and waits, f"node 4 waits for {waits} of {steps}")
    check(all(a.id < b.id for a, b in zip(after, after[1:])), "the order of ids changed")
    # both rounds of the ring take half of the time
    check(simulate("out")["end_ns"] == simulate("in")["end_ns"], "the time of the set changed")


def read_goal(path):
    """The ops of a schedule in text form, by (rank, label) in the order of the file, and for each
    op what it requires."""
    ops, needs, rank = {}, {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"rank (\d+) \{|(l\d+): (calc|send|recv) (\d+)b?(?: (?:to|from) (\d+) tag "
                         r"(\d+))?$|(l\d+) requires (l\d+)$|\}|num_ranks (\d+)|$", line.strip())
            if not check(m is not None, f"{path}: {line}"):
                return {}, {}
            if m[1]:
                rank = int(m[1])
            elif m[2]:
                ops[rank, m[2]] = m[3], int(m[4]), int(m[5] or 0), int(m[6] or 0)
            elif m[7]:
                check((rank, m[8]) in ops, f"{path}: {line.strip()} comes before its label")
                needs.setdefault((rank, m[7]), []).append((rank, m[8]))
    return ops, needs


def binary_goal(path):
    """What txt2bin writes for a schedule in text form, by its Parser.hpp."""
    ops, needs = read_goal(path)
    ranks = sorted({rank for rank, _ in ops})
    head, body = struct.pack("<QIBB", 4223, len(ranks), 0, 0), b""
    for rank in ranks:
        own = [op for op in ops if op[0] == rank]
        number = {op: i for i, op in enumerate(own)}
        dependents = {op: [] for op in own}
        for op in own:
            for need in needs.get(op, []):
                dependents[need].append(number[op])
        roots = [number[op] for op in own if op not in needs]
        out, at = struct.pack(f"<II{len(roots)}I", len(own), len(roots), *roots), 0
        for op in own:
            kind, size, peer, tag = ops[op]
            out += struct.pack("<IBIQIBBIIII", len(needs.get(op, [])),
                               {"send": 1, "recv": 2, "calc": 3}[kind], peer, size, tag, 0, 0,
                               len(dependents[op]), at, 0, at + len(dependents[op]))
            at += len(dependents[op])
        out += b"".join(struct.pack("<I", n) for op in own for n in dependents[op])
        begin = 6 + 16 * len(ranks) + len(body)
        head += struct.pack("<QQ", begin, begin + len(out))
        body += out
    return head + body


def longest_path(path):
    """The end of a schedule in which messages take no time."""
    ops, needs = read_goal(path)
    ends, sent, progress = {}, {}, True
    while progress:
        progress = False
        for op, (kind, amount, peer, tag) in ops.items():
            if op in ends or any(d not in ends for d in needs.get(op, [])):
                continue
            begin = max([ends[d] for d in needs.get(op, [])], default=0)
            if kind == "calc":
                begin += amount
            elif kind == "send":
                sent.setdefault((op[0], peer, tag), []).append(begin)
            elif not sent.get((peer, op[0], tag)):
                continue
            else:
                begin = max(begin, sent[peer, op[0], tag].pop(0))
            ends[op], progress = begin, True
    check(len(ends) == len(ops), f"{path}: {len(ops) - len(ends)} ops never run")
    return max(ends.values(), default=-1)


def goal():
    levels = ("hierarchical", "--node-ranks", "3")
    for n, algorithm in ((4, ("ring",)), (5, ("tree",)), (8, ("doubling",)), (6, levels)):
        ranks = {r: [comp(1, 10 + 3 * r), coll(2, ALL_REDUCE, SIZE, 1, [1], 30),
                     comp(3, 50 - r, [2]), coll(4, REDUCE_SCATTER, SIZE, 1, [3]),
                     comp(5, 20, [3]), *([send(6, 0, 1, 3, 32, [5])] if r == 0 else
                                         [recv(6, 0, 1, 3, 32)] if r == 1 else []),
                     comp(7, 1, [4, 5])] for r in range(n)}
        clear("in")
        write("in", ranks, {1: list(range(n))})
        done = run("expand", "in", "--format", "goal", "--out", "in.goal", "--algorithm",
                   *algorithm)
        bare = json.loads(run("what-if", "in", "--drop", "COLLECTIVES,MESSAGES", "--json").stdout)
        check(done.returncode == 0 and longest_path("in.goal") == bare["after"]["end_ns"],
              f"GOAL on {n} ranks: {longest_path('in.goal')}, not {bare}; {done.stderr}")
        again = run("expand", "in", "--format", "goal-binary", "--out", "in.bin", "--algorithm",
                    *algorithm)
        with open("in.bin", "rb") as f:
            check(f.read() == binary_goal("in.goal"), f"GOAL on {n} ranks: the binary form differs")
        check(again.stdout == done.stdout.replace(b"in.goal", b"in.bin"), again.stdout)


def errors():
    clear("in")
    write("in", {r: [coll(1, ALL_REDUCE, SIZE, 1)] for r in (0, 2)}, {1: [0, 1, 2]})
    for options, text in [(["in", "--out", "x"], "1 rank of the set's groups"),
                          (["in", "--format", "goal", "--out", "x"], "1 rank of the set's groups"),
                          (["in", "--out", "-"], "standard output"),
                          (["in", "--out", ""], "no file name"),
                          (["in", "--out", "x", "--node-ranks", "2"], "only to --algorithm"),
                          (["in"], "PREFIX is missing"), (["in", "in", "--out", "x"], "one prefix"),
                          (["none", "--out", "x"], "none")]:
        done = run("expand", *options)
        check(done.returncode != 0 and text in done.stderr.decode(), f"{options}: {done.stderr}")
    write("in", {r: [comp(1, 5)] for r in (0, 2)}, {})
    done = run("expand", "in", "--algorithm", "hierarchical", "--out", "x")
    check(done.returncode == 1 and b"names no machine" in done.stderr, done.stderr)
    done = run("expand", "in", "--format", "goal", "--out", "x")
    check(done.returncode == 1 and b"needs all ranks" in done.stderr, done.stderr)
    clear("in")
    broken = {"different collectives": {r: [coll(1, ALL_REDUCE, SIZE + r, 1)] for r in range(2)},
              "deadlocks": {0: [recv(1, 1, 0, 3, 64)], 1: [comp(1, 5)]}}
    for text, ranks in broken.items():
        write("in", ranks, {1: [0, 1]})
        for form in ("et", "goal", "goal-binary"):
            done = run("expand", "in", "--format", form, "--out", "x")
            check(done.returncode == 1 and text in done.stderr.decode(), f"{text}: {done.stderr}")
    check(not [f for f in os.listdir(".") if f.startswith("x")], "a failed run left a file")


def inputs_stay():
    """No name of the input, or of a file of it, is accepted as output."""
    ranks = {r: [coll(1, ALL_REDUCE, SIZE, 1)] for r in range(2)}
    write("in", ranks, {1: [0, 1]})
    os.makedirs("folder", exist_ok=True)
    os.symlink(".", "link")
    files = ["in.0.et", "in.1.et", "in.comm_group.json"]
    def content():
        return [open(name, "rb").read() for name in files]
    before = content()
    for given, out in [("in", "in"), ("in", "./in"), ("in", os.path.abspath("in")),
                       ("in", "folder/../in"), ("in", "link/in"), ("in.1.et", "in")]:
        done = run("expand", given, "--out", out)
        check(done.returncode == 1 and b"never overwritten" in done.stderr and content() == before,
              f"{given} to {out}: {done}")
    for out in files:
        done = run("expand", "in", "--format", "goal", "--out", out)
        check(done.returncode == 1 and content() == before, f"in to {out}: {done}")


enter_folder()
collectives()
hierarchical()
node_ranks_of_the_machine()
rest_stays()
goal()
errors()
inputs_stay()
finish()
