#!/usr/bin/python3
"""Tests `syntorch simulate --critical-path` against the longest path of a second simulator, and
with sets whose path is known."""
import csv
import json
import re

from checks import check, enter_folder, finish, run
from second_simulator import ALL_GROUPS, GROUPS, Second, random_set
from trace_sets import (ALL_GATHER, KINDS, NETWORK, SYSTEM, coll, comp, simulate, write, write_hand,
                        write_machine)


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
    write_hand()
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


if __name__ == "__main__":
    enter_folder()
    path_by_hand()
    critical_paths()
    path_on_machine()
    finish()
