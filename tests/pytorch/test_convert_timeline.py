"""Tests that the timeline of a converted trace shows host ops as Kineto's own file does: in their
threads, nested by caller, at the times that Kineto measured. No thread has slices that overlap
partly."""
import collections
import json
import math
import os
import subprocess
import tempfile

from checks import PROGRAM, check, finish
import pytorch_traces as pt


def timeline(host, device):
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for name, data in (("h.json", host), ("d.json", device)):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        for args in (("convert", "pytorch", "--host", "h.json", "--device", "d.json", "--output",
                      "t.0.et"),
                     ("export", "--input", "t.0.et", "--output", "t.json", "--format", "chrome")):
            done = subprocess.run([PROGRAM, *args], cwd=folder, capture_output=True, timeout=500,
                                  check=False)
            if not check(done.returncode == 0, f"{args}: {done.stderr.decode()}"):
                return []
        with open(os.path.join(folder, "t.json"), encoding="utf-8") as f:
            return json.load(f)["traceEvents"]


def check_nesting(what, events):
    threads = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            begin = round(e["ts"] * 1000)
            threads[e["pid"], e["tid"]].append((begin, begin + round(e["dur"] * 1000)))
    for key, slices in threads.items():
        open_until = []
        for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            check(not open_until or end <= open_until[-1],
                  f"{what}: thread {key}: a slice at {begin} overlaps in part")
            open_until.append(end)


def compare(p):
    """Checks that each CPU op of the host trace is drawn, with one track for each of its
    threads."""
    events = timeline(*p.texts())
    check_nesting(p.name, events)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"
             and e["name"] == "thread_name"}
    drawn = collections.defaultdict(collections.Counter)
    for e in events:
        if e["ph"] == "X" and names[e["pid"], e["tid"]].startswith("thread "):
            drawn[names[e["pid"], e["tid"]].split()[1]][e["name"], math.floor(e["ts"])] += 1
    by_rf_id = {e["args"]["Record function id"]: e for e in p.events
                if e.get("cat") in ("cpu_op", "user_annotation")
                and "Record function id" in e.get("args", {})}
    wanted = collections.defaultdict(collections.Counter)
    for n in p.nodes:
        e = by_rf_id.get(pt.attr(n, "rf_id"))
        if e and pt.attr(n, "rf_id"):
            wanted[str(pt.attr(n, "tid"))][n["name"], math.floor(e["ts"])] += 1
    n_wanted = sum(sum(c.values()) for c in wanted.values())
    missing = sum(sum((c - drawn[t]).values()) for t, c in wanted.items())
    # Communication of the host and descriptions of groups have separate tracks.
    check(n_wanted > 10 and missing <= n_wanted // 20,
          f"{p.name}: {missing} of {n_wanted} host ops are not drawn at their time")
    return events


def main():
    pairs = [pt.fixture()] + [pt.shared(n) for n in ("synth_allfeatures", "resnet_2gpu_rank0")
                              if pt.TRACES]
    for p in pairs:
        compare(p)
    # A slice has the duration of the whole op, not only its self time.
    p = pt.fixture()
    by_name = {}
    for e in p.events:
        if e.get("cat") == "cpu_op":
            by_name.setdefault(e["name"], []).append(math.floor(e["ts"] + e["dur"])
                                                     - math.floor(e["ts"]))
    for e in timeline(*p.texts()):
        if e["ph"] == "X" and e["name"] in by_name:
            check(any(abs(e["dur"] - d) <= 2 for d in by_name[e["name"]]),
                  f"{e['name']} is drawn for {e['dur']} us, not {by_name[e['name']]}")
    # Makes ops that overlap partly, as if clocks were read late, and more of them than there are
    # tracks.
    p = pt.fixture()
    ops = [e for e in p.events if e.get("cat") == "cpu_op"]
    for i, e in enumerate(ops[:50]):
        e["tid"], e["ts"], e["dur"] = ops[0]["tid"], ops[0]["ts"] + 10 * i, 100000 + 10 * i
    check_nesting("overlaps", timeline(*p.texts()))
    finish()


main()
