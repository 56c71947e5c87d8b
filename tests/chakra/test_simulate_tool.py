#!/usr/bin/python3
"""Tests `syntorch simulate`, `what-if` and `diff` with small trace sets. The references are sums by
hand, and a simulator of a few lines (second_simulator.py) that does not fold ranks."""
import json
import os
import re
import xml.etree.ElementTree

from checks import check, enter_folder, finish, run
from second_simulator import ALL_GROUPS, GROUPS, Second, random_set
from trace_sets import (ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, GATHER, KINDS, REDUCE,
                        REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCATTER, SYSTEM, coll, comp, ends,
                        recv, send, simulate, write, write_hand, write_machine)


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


def by_hand():
    write_hand()
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


def sent(name):
    with open(name, encoding="utf-8") as f:
        return {tuple(map(int, line.split(",")[:2])): int(line.split(",")[2])
                for line in f.read().split()[1:]}


def traffic():
    """The bytes of ring collectives of four ranks, which contribute 400 bytes each, and of
    collectives whose root is the third rank of the ring."""
    kinds = {ALL_REDUCE: 2 * 3 * 100, REDUCE_SCATTER: 3 * 100, REDUCE_SCATTER_BLOCK: 3 * 100,
             ALL_GATHER: 3 * 400, BROADCAST: 400}
    for kind, size in {**kinds, ALL_TO_ALL: 100}.items():
        write("ring", {r: [coll(1, kind, 400, 3)] for r in range(4)}, {3: [0, 1, 3, 2]})
        simulate("ring", "--traffic", "ring.csv")
        rows = sent("ring.csv")
        ring = {(0, 1), (1, 3), (3, 2)} | ({(2, 0)} if kind != BROADCAST else set())
        pairs = {(a, b) for a in range(4) for b in range(4) if a != b}
        check(rows == dict.fromkeys(pairs if kind == ALL_TO_ALL else ring, size),
              f"traffic of kind {kind}: {rows}")
    rooted = {BROADCAST: ({(3, 2), (2, 0), (0, 1)}, 400), REDUCE: ({(2, 0), (0, 1), (1, 3)}, 400),
              GATHER: ({(0, 3), (1, 3), (2, 3)}, 400), SCATTER: ({(3, 0), (3, 1), (3, 2)}, 100)}
    for kind, (pairs, size) in rooted.items():
        write("ring", {r: [coll(1, kind, 400, 3, root=3), coll(2, kind, 400, 3, [1], root=3)]
                       for r in range(4)}, {3: [0, 1, 3, 2]})
        simulate("ring", "--traffic", "ring.csv")
        check(sent("ring.csv") == dict.fromkeys(pairs, 2 * size),
              f"traffic of kind {kind} with a root: {sent('ring.csv')}")


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


def group_zero():
    """A group file may give the name "0", which otherwise means all ranks, to some of them. A
    collective without a name is still one of all ranks."""
    both = coll(2, ALL_REDUCE, 64, 0, [1], 4)
    last = coll(3, ALL_REDUCE, 32, 0, [2], 7)
    write("zero", {r: [comp(1, 10 + 10 * r), {**both, "group": "0" if r < 2 else "1"}, last]
                   for r in range(4)}, {"0": [0, 1], "1": [2, 3]})
    ours = simulate("zero")
    check(ends(ours) == [51000] * 4, f"group 0 of two ranks: {ours}")
    shown = run("simulate", "zero", text=True).stdout
    rows = [line.split()[:-5] for line in shown.splitlines() if " B " in line]
    check(sorted(rows) == [["0", "2"], ["1", "2"], ["all", "ranks", "4"]], shown)
    done = run("validate", "--input", "zero", text=True)
    check("1 problem" in done.stdout and "not an integer above 0" in done.stdout, done.stdout)
    run("expand", "zero", "--out", "one")
    check(simulate("one")["nodes"] > 12, "group 0 is not expanded")


def what_if():
    """The set of by_hand, with changed times."""
    cases = [("--scale n1=0.5 --drop n3", 50 + 30 + 7), ("--scale ALL_REDUCE=2", 217),
             ("--scale COMPUTE=2,MESSAGES=10", 200 + 30 + 100 + 70),
             ("--drop COLLECTIVES,MESSAGES", 150), ("--scale n[34]=0", 130)]
    for options, us in cases:
        done = run("what-if", "hand", "--json", *options.split())
        said = json.loads(done.stdout) if done.returncode == 0 else {}
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


def fused(prefix, *options):
    done = run("what-if", prefix, "--json", *options)
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    return (said["after"]["end_ns"] / 1000, said["fused_nodes"], said["fused_kernels"]) \
        if said else done.stderr.decode()


def fusion():
    """Chains of kernels: rank 0 has one that a copy divides, and rank 1 two branches."""
    def kernel(number, name, us, deps, stream=0):
        return {**comp(number, us, deps, stream), "name": f"{name}/{number}"}

    chain = [kernel(1, "linear", 30, []), kernel(2, "bias", 10, [1]), kernel(3, "gelu", 20, [2]),
             kernel(4, "copy", 5, [3]), kernel(5, "gelu", 8, [4]), kernel(6, "dropout", 9, [5])]
    branches = [kernel(1, "linear", 30, []), kernel(2, "gelu", 20, [1]),
                kernel(3, "dropout", 25, [1])]
    write("chains", {0: [*chain, coll(7, ALL_REDUCE, 64, 1, [6], 5)],
                     1: [*branches, coll(4, ALL_REDUCE, 64, 1, [2, 3], 5)]}, {1: [0, 1]})
    every = "linear*+bias*+gelu*+dropout*"
    cases = [  # rank 0: 30 + 5 + 9; rank 1: 30 + 25; then the all-reduce
             (["--fuse", every], (60, 7, 3)),
             (["--fuse", "COMPUTE"], (60, 8, 2)),
             # nothing on rank 1: 30 + 20 + 25
             (["--fuse", "bias*+gelu*,dropout*+gelu/5"], (80, 4, 2)),
             # rank 0: 30 + 20 + 5 + 8 + 9, because bias and gelu match no pattern together
             (["--fuse", "linear*+bias*,linear*+gelu*"], (77, 4, 2)),
             # 20 + 5 + 9 and 20 + 25: the product is now faster than its epilogue
             (["--fuse", every, "--scale", "linear*=0.1"], (50, 7, 3)),
             # 20 + 5 + 8 + 9 and 20 + 25
             (["--fuse", "*[1-3]", "--scale", "linear*=0.1"], (50, 5, 2)),
             # 30 + 10 + 5 + 9 and 30 + 25
             (["--fuse", "linear*+gelu*", "--drop", "gelu*"], (60, 2, 1))]
    for options, expected in cases:
        check(fused("chains", *options) == expected,
              f"{options}: {fused('chains', *options)}, not {expected}")
    text = run("what-if", "chains", "--fuse", every).stdout.decode()
    check(text.startswith("7 kernels run as 3\n\n") and "87.0 us    60.0 us" in text, text)
    both = write_machine({"topology": ["Ring"], "npus_count": [2], "bandwidth": [50],
                          "latency": [500]},
                         {**SYSTEM, **{f"{kind}-implementation": ["ring"] for kind in KINDS}})
    done = run("what-if", "chains", "--fuse", every, "--json", *both)
    check(json.loads(done.stdout)["after"]["compute_ns"] == (44000 + 55000) / 2, done.stdout)
    between(kernel)
    for options, text in [("bias*,linear*", "no consecutive kernels"), ("zz", "no consecutive"),
                          ("linear*+", "empty name"), (",COMPUTE", "empty name"),
                          ("MESSAGES", "MESSAGES cannot be fused"),
                          ("bias*+COLLECTIVES", "COLLECTIVES cannot be fused"),
                          ("ALL_REDUCE", "ALL_REDUCE cannot be fused"),
                          ("n," * 64 + "n", "more than 64 elements")]:
        done = run("what-if", "chains", "--fuse", options)
        check(done.returncode == 1 and text in done.stderr.decode() and not done.stdout,
              f"--fuse {options}: {done.stderr}")
    done = run("what-if", "chains", "--fuse", "bias*+gelu*,zz*")
    check(done.returncode == 0 and done.stderr == b"note: 'zz*' fuses no kernels\n", done.stderr)


def between(kernel):
    """Nodes between two kernels: a collective that the second one needs keeps them apart. One that
    it does not need, CPU ops and kernels of other streams do not."""
    def nodes(deps):
        return [kernel(1, "linear", 30, []), coll(2, ALL_REDUCE, 64, 1, [1], 10),
                kernel(3, "gelu", 20, deps), kernel(4, "copy", 5, [1], 7),
                {**kernel(5, "linear", 1, [1]), "cpu": True}, kernel(6, "gelu", 6, [3])]

    for deps, ends_us, sizes in [([1, 2], 60, (4, 2)), ([1], 40, (6, 2)), ([2], 60, (4, 2))]:
        write("apart", {r: nodes(deps) for r in range(2)}, {1: [0, 1]})
        said = fused("apart", "--fuse", "linear*+gelu*")
        check(said == (ends_us, *sizes), f"with dependencies on {deps}: {said}")
    # the collective needs the fused kernel's output, and the copy needs both: 10 + 10 + 1
    write("apart", {r: [kernel(1, "linear", 1, []), coll(2, ALL_REDUCE, 64, 1, [1], 10),
                        kernel(3, "gelu", 10, [1]), kernel(4, "copy", 1, [2, 3])]
                    for r in range(2)}, {1: [0, 1]})
    said = fused("apart", "--fuse", "linear*+gelu*")
    check(said == (21, 4, 2), f"a collective that needs the first kernel: {said}")
    # the fused kernel would have to wait for the collective, which has a lower id
    write("apart", {r: [coll(1, ALL_REDUCE, 64, 1, [], 50), kernel(2, "linear", 10, []),
                        kernel(3, "gelu", 1, [1, 2])] for r in range(2)}, {1: [0, 1]})
    said = fused("apart", "--fuse", "linear*+gelu*")
    check("no consecutive kernels" in str(said), f"an input that comes late: {said}")
    # files may list nodes in another order than that of their ids
    write("apart", {0: list(reversed(nodes([1, 2]))), 1: nodes([1, 2])}, {1: [0, 1]})
    said = fused("apart", "--fuse", "linear*+gelu*")
    check(said == (60, 4, 2), f"in another order: {said}")


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
    check(b"the set has no group file PREFIX.comm_group.json; --groups FILE" in
          run("simulate", "alone").stderr, "no group file")
    write("good", good, {1: [0, 1]})
    for options, text in [(["--slow", "3=2"], "last rank is 1"), (["--slow", "0"], "a list"),
                          (["--slow", "0-99999999999=2"], "last rank is 1"),
                          (["--chart", "x.svg", "--traffic", "x.svg"], "two outputs"),
                          (["--chart", "-", "--json"], "standard output"),
                          (["--slow", "0=-1"], "a list"), (["--slow", "1-0=2"], "a list"),
                          (["--slow", "0=2,"], "a list"), (["--network", "n"], "give both")]:
        done = run("simulate", "good", *options)
        code = 1 if text == "last rank is 1" else 2
        check(done.returncode == code and text in done.stderr.decode(), f"{options}: {done.stderr}")
    for command in ("simulate", "stat", "validate", "what-if"):
        twice = run(command, "good.0.et", "good.0.et")
        check(twice.returncode == 2 and b"good.0.et is given twice" in twice.stderr, twice.stderr)
    with open("good.0.et", "rb") as file:
        alone = run("validate", "-", stdin=file)
    check(b"is not in a group file, as there is none; --groups FILE" in alone.stdout, alone.stdout)


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
    check(all("ph" in e for e in timeline), "an event without a phase")
    labels = {e["args"]["name"] for e in timeline if "name" in e.get("args", {})}
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


if __name__ == "__main__":
    enter_folder()
    by_hand()
    what_if()
    fusion()
    differences()
    as_second_simulator()
    deadlocks()
    absent()
    group_zero()
    errors()
    outputs()
    too_long()
    finish()
