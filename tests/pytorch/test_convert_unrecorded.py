"""Tests ops that Kineto recorded and the observer did not. Ops that communicate or take at least 1
ms are converted as if the host trace had them. Ops that neither recorded are counted. The tests
remove host nodes from complete pairs and compare with the result of the complete pair."""
import collections
import os
import random

from checks import SOURCE, check, finish
from execution_trace import COLL, RECV, SEND
import pytorch_traces as pt
from pytorch_traces import attr, convert

NOTE = "unrecorded-ops"
COMMUNICATES = ("c10d::", "gloo:", "nccl:", "record_param_comms")


def pairs():
    """Returns the pairs: gloo of PyTorch 2.15, and NCCL."""
    folder = os.path.join(SOURCE, "tests", "reference", "pt_ddp", "torch-2.15")
    yield pt.Pair("gloo", *(pt.load(os.path.join(folder, f"{k}.0.json.gz"))
                            for k in ("host", "device")))
    yield pt.fixture()


def ops(p):
    """Returns Kineto's CPU ops by record function id."""
    return {e["args"]["Record function id"]: e for e in p.events
            if e.get("cat") in ("cpu_op", "user_annotation")
            and "Record function id" in e.get("args", {})}


def without(p, lost):
    q = p.copy()
    q.host["nodes"] = [n for n in q.nodes if attr(n, "rf_id") not in lost]
    return q


def comms(r, timed=True):
    """Returns all communications with the names of their callers."""
    by_id = {n.id: n for n in r.nodes}
    return collections.Counter(
        (n.name, n.type, n.start, n.dur if timed else None, n.attr["comm_size"],
         n.attr.get("comm_type"), n.attr.get("pg_name"), n.attr.get("tid"), n.attr.get("stream"),
         by_id[n.ctrl[0]].name if n.ctrl else None)
        for n in r.nodes if n.type in (COLL, SEND, RECV))


def check_lost(p, base, what, lost, args=()):
    """Converts the pair without these host nodes and compares the communications."""
    r = convert(*without(p, lost).texts(), *args)
    what = f"{p.name}: {what}: {len(lost)} ops lost"
    if not check(r.code == 0, f"{what}: {r.said}"):
        return
    check(comms(r) == comms(base), f"{what}: {(comms(base) - comms(r)).most_common(3)} became "
          f"{(comms(r) - comms(base)).most_common(3)}")
    matches = r.rank["matches"]
    check(matches["cpu_events_kept"] == len(lost), f"{what}: {matches}")
    check((NOTE in r.rank["notes"]) == bool(lost), f"{what}: {r.rank['notes']}")
    check(matches["host_nodes"] == len(p.nodes) - len(lost), f"{what}: {matches}")


def check_pair(p, rng):
    base, events = convert(*p.texts()), ops(p)
    recorded = {attr(n, "rf_id") for n in p.nodes} & set(events)
    library = sorted(i for i in recorded if events[i]["name"].startswith(("gloo:", "nccl:")))
    calls = sorted(i for i in recorded if events[i]["name"].startswith(COMMUNICATES))
    check_lost(p, base, "the last", set(library[-1:]))
    check_lost(p, base, "some of the library", set(rng.sample(library, len(library) // 2)))
    check_lost(p, base, "whole calls", set(calls[-5:]))
    sim = convert(*p.texts(), "--profile", "astra-sim")
    check_lost(p, sim, "for a simulator", set(library), ("--profile", "astra-sim"))


def check_long(p):
    """Only ops of less than 1 ms are lost. Their time is counted for the op around them."""
    for dur, kept in ((1000, 1), (999, 0)):
        q, events = p.copy(), ops(p)
        lost = next(attr(n, "rf_id") for n in q.nodes
                    if n["name"].startswith("aten::") and attr(n, "rf_id") in events)
        for e in q.events:
            if e.get("args", {}).get("Record function id") == lost and "dur" in e:
                e["dur"] = dur
        r = convert(*without(q, {lost}).texts())
        mine = [n for n in r.nodes if n.attr.get("rf_id") == lost and not n.on_gpu]
        check(len(mine) == kept and r.rank["matches"]["cpu_events_kept"] == kept,
              f"{p.name}: an op of {dur} us: {len(mine)}, {r.rank['matches']}")
        check(all(n.attr["inclusive_dur"] == dur and n.name == events[lost]["name"]
                  for n in mine), f"{p.name}: an op of {dur} us")


def check_without_ids(p):
    """Tests traces as before PyTorch 2.3, without record function ids. The ops that ended last are
    missing."""
    q, works = p.copy(), [e for e in ops(p).values() if e["name"].startswith("gloo:all_reduce")]
    works.sort(key=lambda e: e["ts"] + e["dur"])
    for e in q.events:
        e.get("args", {}).pop("Record function id", None)
    base = convert(*q.texts())
    for n in (1, 3):
        lost = {e["args"]["Record function id"] for e in works[-n:]}
        r = convert(*without(q, lost).texts())
        was, is_now = comms(base, False), comms(r, False)
        check(was == is_now and r.rank["matches"]["cpu_events_kept"] == n
              and NOTE in r.rank["notes"],
              f"{p.name}: no ids, {n} lost: {(was - is_now).most_common(3)} became "
              f"{(is_now - was).most_common(3)}, {r.rank['matches']}")
        times = [sorted(n.dur for n in x.nodes if n.type in (COLL, SEND, RECV)) for x in (base, r)]
        check(all(abs(a - b) <= 1 for a, b in zip(*times)), f"{p.name}: no ids, {n} lost: times")


def check_unfinished(p):
    """An op that neither trace has is counted, and its call replaces it."""
    works = sorted(i for i, e in ops(p).items() if e["name"].startswith("gloo:"))
    for n in (1, len(works)):
        lost = set(works[-n:])
        q = without(p, lost)
        q.device["traceEvents"] = [e for e in q.events if e.get("args", {})
                                   .get("Record function id") not in lost]
        r = convert(*q.texts())
        check(r.anomalies.get("unfinished", {}).get("count") == n,
              f"{p.name}: {n} unfinished: {r.anomalies}")
        names = collections.Counter(n.name.split(":")[0] for n in r.nodes
                                    if n.type in (COLL, SEND, RECV))
        check(names["c10d"] == n and names["gloo"] == len(works) - n,
              f"{p.name}: {n} unfinished: {names}")
    check(convert(*q.texts(), "--strict").code == 1, f"{p.name}: unfinished, --strict")


def check_linked(p):
    """A linked file has the missing ops as well."""
    lost = {i for i, e in ops(p).items() if e["name"].startswith("gloo:")}
    q = without(p, lost)
    linked = convert(*q.texts(), command=("link",), decode=False)
    names = collections.Counter(n["name"] for n in pt.json.loads(linked.et)["nodes"])
    for i in lost:
        name = ops(p)[i]["name"]
        check(names[name] == sum(e["name"] == name for e in ops(p).values()),
              f"{p.name}: linked: {names[name]} of {name}")
    r = convert(linked.et, linked=True)
    check(r.code == 0 and not r.anomalies, f"{p.name}: linked: {r.said} {r.json}")


def check_other_step(p):
    """If the host trace lacks a step, gloo's op of that step is kept, except with --trim. The
    step's other ops are not kept."""
    q, events = p.copy(), ops(p)
    end, top = max(e["ts"] + e["dur"] for e in events.values()), max(events)
    work = next(e for e in events.values() if e["name"] == "gloo:all_reduce")
    for i, (name, dur) in enumerate((("aten::mm", 5000), (work["name"], 700)), 1):
        q.events.append(dict(work, name=name, ts=end + 100 * i, dur=dur,
                             args=dict(work["args"], **{"Record function id": top + i})))
    for args, kept in (((), 1), (("--trim",), 0)):
        r = convert(*q.texts(), *args)
        check(r.rank["matches"]["cpu_events_kept"] == kept, f"{args}: {r.rank['matches']}")
        mine = [n for n in r.nodes if n.attr.get("rf_id") == top + 2]
        check([(n.type, n.dur) for n in mine] == [(COLL, 700)] * kept,
              f"{p.name}: another step {args}: {mine}")


def check_other_run(p):
    """If two files come from different runs, no op of one is added to the other."""
    q = p.copy()
    for e in q.events:
        if "Record function id" in e.get("args", {}):
            e["args"]["Record function id"] += 10**6
    r = convert(*q.texts())
    check(r.rank["matches"]["cpu_events_kept"] == 0, f"{p.name}: another run: {r.rank['matches']}")


def main():
    rng = random.Random(32)
    for p in pairs():
        check_pair(p, rng)
        check_long(p)
        check_other_run(p)
        if p.name == "gloo":
            check_linked(p)
            check_without_ids(p)
            check_unfinished(p)
            check_other_step(p)
    finish()


main()
