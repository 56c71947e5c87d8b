#!/usr/bin/env python3
"""Tests real PyTorch traces of DistributedDataParallel over gloo, whose communications overlap. The
converted trace must have as many communications as the program made, with the same bytes and times,
and each must depend on the call that launched it. A simulator that runs the trace set must finish
when the traced steps did. The expected values come only from Kineto's events."""
import collections
import glob
import gzip
import heapq
import json
import os
import shutil
import tempfile

from checks import SOURCE, check, finish, run
from execution_trace import COLL, COMP, RECV, SEND, read_et
import pytorch_traces as pt

KINDS = {"c10d::allreduce_": "all_reduce", "c10d::send": "send", "c10d::recv_": "recv"}
RANKS = 2


class Recording:
    def __init__(self, folder):
        self.name = os.path.basename(folder)
        self.folder = folder
        self.events, self.works = [], []
        for rank in range(RANKS):
            with gzip.open(os.path.join(folder, f"device.{rank}.json.gz"), "rt",
                           encoding="utf-8") as f:
                events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"
                          and e.get("cat") in ("cpu_op", "user_annotation")]
            by_rf_id = {e["args"]["Record function id"]: e for e in events}
            calls = [i for i in sorted(by_rf_id) if by_rf_id[i]["name"].startswith("c10d::")]
            # The library op of a call is the next op that the calling thread makes.
            self.works.append([(by_rf_id[i], by_rf_id[i + 1]) for i in calls])
            self.events.append(by_rf_id)

    def files(self, rank, *kinds):
        return [a for k in kinds for a in ("--" + k,
                                           os.path.join(self.folder, f"{k}.{rank}.json.gz"))]

    def counts(self, rank):
        return collections.Counter(KINDS[call["name"]] for call, _ in self.works[rank])

    def span(self, rank):
        events = self.events[rank].values()
        return max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)


def size(event):
    """Returns the bytes of a library op's tensor."""
    n = 4
    for d in event["args"]["Input Dims"][0]:
        n *= d
    return n


def convert(recording, rank, *kinds):
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        done = run("convert", "pytorch", *recording.files(rank, *kinds), "--output", "t.0.et",
                   "--json", "--strict", cwd=folder)
        what = f"{recording.name}, rank {rank}, {'+'.join(kinds)}"
        if not check(done.returncode == 0, f"{what}: {done.stderr.decode()[-300:]}"):
            return None, []
        with open(os.path.join(folder, "t.0.et"), "rb") as f:
            return json.loads(done.stdout)["ranks"][0], read_et(f.read())[1]


def check_counts(recording, rank):
    """Converts both files together and each file alone, without a warning."""
    for kinds in (("host", "device"), ("device",), ("host",)):
        told, _ = convert(recording, rank, *kinds)
        if told:
            want = dict(recording.counts(rank),
                        bytes=sum(size(e) for _, e in recording.works[rank]))
            got = {k: v for k, v in told["communication"].items() if v}
            check(got == want,
                  f"{recording.name}, rank {rank}, {'+'.join(kinds)}: {got}, recorded {want}")


def check_works(recording, rank):
    """Checks that each communication has the time and thread of the library's op, and the call as
    its caller."""
    _, nodes = convert(recording, rank, "host", "device")
    by_id, by_rf_id = {n.id: n for n in nodes}, {n.attr["rf_id"]: n for n in nodes
                                                 if "rf_id" in n.attr}
    what = f"{recording.name}, rank {rank}"
    for call, work in recording.works[rank]:
        n = by_rf_id[work["args"]["Record function id"]]
        check(n.type in (COLL, SEND, RECV) and n.attr["comm_size"] == size(work),
              f"{what}: node {n.id} {n.name} {n.attr}")
        check(n.attr["tid"] == work["tid"] and abs(n.dur - work["dur"]) < 2,
              f"{what}: node {n.id}: {n.dur} us in {n.attr['tid']}, recorded {work}")
        check(by_id[n.ctrl[0]].attr["rf_id"] == call["args"]["Record function id"],
              f"{what}: node {n.id} hangs from {by_id[n.ctrl[0]].name}")
    for rf_id, n in by_rf_id.items():  # callers by time, whatever the observer recorded
        caller = recording.events[rank].get(by_id[n.ctrl[0]].attr.get("rf_id")) if n.ctrl else None
        e = recording.events[rank].get(rf_id)
        if caller and e and e["tid"] == caller["tid"] and not n.name.startswith("gloo:"):
            check(caller["ts"] <= e["ts"] and e["ts"] + e["dur"] <= caller["ts"] + caller["dur"]
                  + 0.01, f"{what}: node {n.id} {n.name} is not within {caller['name']}")


# ---- A simulator: one slot for computation, one for communication, in the order of ids ----


class Npu:
    def __init__(self, nodes):
        self.by_id = {n.id: n for n in nodes}
        self.left = {n.id: len(n.deps) for n in nodes}
        self.after = collections.defaultdict(list)
        for n in nodes:
            for d in n.deps:
                self.after[d].append(n.id)
        self.ready = {"compute": [], "talk": []}
        self.busy = {"compute": False, "talk": False}
        self.end, self.done = 0, 0


def simulate(npus, transfer_us):
    """Returns the time at which each rank finishes. transfer_us(rank, node) is the duration of a
    communication after all ranks have joined it."""
    events, meetings, ordinal = [], collections.defaultdict(dict), collections.Counter()

    def slot(n):
        return "compute" if n.type == COMP else "talk"

    def issue(rank, now):
        npu = npus[rank]
        for name in npu.ready:
            while npu.ready[name] and not npu.busy[name]:
                n = npu.by_id[heapq.heappop(npu.ready[name])]
                npu.busy[name] = n.type != RECV
                begin(rank, n, now)

    def begin(rank, n, now):
        if n.type == COMP:
            heapq.heappush(events, (now + n.dur, rank, n.id))
            return
        if n.type == COLL:
            key = n.attr.get("pg_name"), ordinal[rank, n.attr.get("pg_name")]
            ordinal[rank, n.attr.get("pg_name")] += 1
        else:
            key = n.attr["comm_src"], n.attr["comm_dst"], n.attr["comm_tag"]
        meetings[key][rank] = n
        if len(meetings[key]) == RANKS:
            us = transfer_us(rank, n)
            for r, m in meetings.pop(key).items():
                heapq.heappush(events, (now + us, r, m.id))

    def settle(rank, now):
        npu = npus[rank]
        for i, count in list(npu.left.items()):
            if count == 0:
                heapq.heappush(npu.ready[slot(npu.by_id[i])], i)
                del npu.left[i]
        issue(rank, now)

    for rank in range(len(npus)):
        settle(rank, 0)
    while events:
        now, rank, i = heapq.heappop(events)
        npu = npus[rank]
        npu.done += 1
        npu.end = now
        if npu.by_id[i].type != RECV:
            npu.busy[slot(npu.by_id[i])] = False
        for j in npu.after[i]:
            npu.left[j] -= 1
        settle(rank, now)
    return [npu.end if npu.done == len(npu.by_id) else None for npu in npus]


def set_of(recording, folder, *kinds):
    files = [a for k in kinds for a in ("--" + k, os.path.join(recording.folder, k + ".*.json.gz"))]
    done = run("convert", "pytorch", *files, "--profile", "astra-sim", "--replay_check",
               "--output", os.path.join(folder, "t"), "--json")
    if not check(done.returncode == 0, f"{recording.name}: {done.stderr.decode()[-300:]}"):
        return None, []
    nodes = []
    for rank in range(RANKS):
        with open(os.path.join(folder, f"t.{rank}.et"), "rb") as f:
            nodes.append(read_et(f.read())[1])
    return json.loads(done.stdout), nodes


def alone(recording, rank):
    """Returns for each all-reduce how long it ran while no earlier-launched all-reduce was
    running."""
    out, until = [], 0
    for _, e in recording.works[rank]:
        if e["name"] == "gloo:all_reduce":
            out.append(max(0, e["ts"] + e["dur"] - max(e["ts"], until)))
            until = max(until, e["ts"] + e["dur"])
    return out


def check_time(recording, kinds):
    """Checks that no node includes wait time. If each transfer takes as long as on the rank that
    joined it last, the ranks finish as in the trace."""
    what = f"{recording.name}, {'+'.join(kinds)}"
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        told, nodes = set_of(recording, folder, *kinds)
        done = run("validate", os.path.join(folder, "t"))
        check(done.returncode == 0, f"{what}: validate: {done.stdout.decode()[-300:]}")
    if not nodes:
        return
    check(not told["anomalies"], f"{what}: {told['anomalies']}")
    shortest = iter([min(both) for both in zip(*(alone(recording, r) for r in range(RANKS)))])
    ends = simulate([Npu(n) for n in nodes],
                    lambda rank, n: next(shortest) if n.type == COLL else 100)
    for rank, end in enumerate(ends):
        span = recording.span(rank)
        check(end is not None and abs(end - span) <= 0.1 * span,
              f"{what}: rank {rank} ends at {end} us, recorded {span:.0f}")
        replay = told["ranks"][rank]["replay"]
        ratio = replay["replayed_ns"] / replay["measured_ns"]
        check(abs(ratio - 1) <= 0.1,
              f"{what}: rank {rank} alone replays to {ratio:.3f} of what was measured")


def check_launches(recording):
    """Checks that nothing launched in the backward pass waits for a communication launched there,
    and that no message waits for another message."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        _, ranks = set_of(recording, folder, "host", "device")
    for rank, nodes in enumerate(ranks):
        by_id, waits = {n.id: n for n in nodes}, {}
        for n in nodes:  # computation: the communications on which it depends, directly or not
            waits[n.id] = set().union(*({d} | waits[d] for d in n.deps)) if n.deps else set()
        steps = [n for n in nodes if n.type == COLL][:10]
        for n in steps:
            launch = min(d for d in n.deps if by_id[d].type == COMP)
            late = [by_id[d].name for d in waits[launch] if by_id[d].type != COMP]
            check(not late,
                  f"{recording.name}, rank {rank}: the launch of node {n.id} waits for {late}")
        last = max(n.id for n in nodes if n.type == COMP)
        missing = [n.id for n in nodes if n.type != COMP and n.id not in waits[last]]
        check(not missing,
              f"{recording.name}, rank {rank}: the program ends without waiting for {missing}")
        talk = {n.type: n.id for n in nodes if n.type in (SEND, RECV)}
        if talk:
            check(talk[RECV] not in waits[talk[SEND]],
                  f"{recording.name}, rank {rank}: the send waits for the receive")


def check_without_ids(recording):
    """Tests traces as before PyTorch 2.3, where Kineto's events have no record function ids."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for rank in range(RANKS):
            shutil.copy(os.path.join(recording.folder, f"host.{rank}.json.gz"), folder)
            with gzip.open(os.path.join(recording.folder, f"device.{rank}.json.gz"), "rt",
                           encoding="utf-8") as f:
                device = json.load(f)
            for e in device["traceEvents"]:
                e.get("args", {}).pop("Record function id", None)
            with gzip.open(os.path.join(folder, f"device.{rank}.json.gz"), "wt",
                           encoding="utf-8") as f:
                json.dump(device, f)
        told_by, recording.folder = recording.folder, folder
        for rank in range(RANKS):
            check_counts(recording, rank)
        check_time(recording, ("host", "device"))
        check_time(recording, ("device",))
        recording.folder = told_by


def main():
    own = sorted(glob.glob(os.path.join(SOURCE, "tests", "reference", "pt_ddp", "*")))
    shared = sorted(glob.glob(os.path.join(pt.TRACES, "gloo_ddp", "*", ""))) if pt.TRACES else []
    check(len(own) == 2, f"recordings: {own}")
    for folder in own + shared:
        recording = Recording(folder.rstrip("/"))
        for rank in range(RANKS):
            check_counts(recording, rank)
            check_works(recording, rank)
        check_time(recording, ("host", "device"))
        check_time(recording, ("device",))
        if folder in own:
            check_launches(recording)
            check_without_ids(recording)
    finish()


main()
