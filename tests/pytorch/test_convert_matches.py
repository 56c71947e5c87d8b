"""Compares the matching of `syntorch convert pytorch` with a simple implementation of its rules,
which looks up everything one by one. One rule finds the op that launched a piece of device work:
the correlation id gives the runtime call, and of the ops that were running on the call's thread and
have a host node, the op with the call's External id launched it, or else the innermost. Another
gives the time that each op ran itself, without the ops that it called. Durations are whole
microseconds and do not drift."""
import bisect
import collections
import decimal
import gzip
import json
import os

from checks import SOURCE, check, finish
import pytorch_traces as pt
from pytorch_traces import attr, convert


def nanoseconds(text):
    return int(decimal.Decimal(text) * 1000)


class Thread:
    """The CPU ops of a thread of the Kineto trace that have a host node, sorted by start. Of ops
    with equal times, the later one is called by the earlier one."""

    def __init__(self, ops):
        self.ops = sorted(ops, key=lambda o: (o[0], -o[1]))
        self.starts = [o[0] for o in self.ops]
        self.latest = []  # the latest end among all ops up to here
        for o in self.ops:
            self.latest.append(max(o[1], self.latest[-1] if self.latest else o[1]))

    def running(self, ns):
        """Returns the ops that run at that time, innermost (begun last) first."""
        i = bisect.bisect_right(self.starts, ns) - 1
        while i >= 0 and self.latest[i] > ns:
            if self.ops[i][1] > ns:
                yield self.ops[i]
            i -= 1

    def innermost(self, ns):
        return next(self.running(ns), None)

    def caller(self, ns, external):
        """Returns the op that made a call. For a call between ops, it is the op that began last."""
        named = next((o for o in self.running(ns) if o[3] == external), None)
        return named or self.innermost(ns) or self.ops[bisect.bisect_right(self.starts, ns) - 1]

    def self_times(self):
        """Returns the self time by record function id: looks up the running op in every interval
        between two boundaries."""
        out = collections.Counter()
        edges = sorted({t for o in self.ops for t in o[:2]})
        for a, b in zip(edges, edges[1:]):
            op = self.innermost(a)
            if op:
                out[op[2]] += b - a
        return out


def load(p):
    """Returns the events with times as exact nanoseconds."""
    events = []
    for e in p.events:
        if e.get("ph") == "X" and "ts" in e:
            begin = nanoseconds(e["ts"])
            events.append((begin, begin + max(nanoseconds(e.get("dur", "0")), 0), e))
    return events


def expected(p):
    """Returns the self times by rf_id, and the device work by stream: (start, duration, name, rf_id
    of the launching op)."""
    events, known = load(p), {attr(n, "rf_id") for n in p.nodes} - {0}
    ops, calls, self_ns = collections.defaultdict(list), {}, collections.Counter()
    for begin, end, e in events:
        if e["cat"] in ("cpu_op", "user_annotation") \
                and int(e.get("args", {}).get("Record function id", 0)) in known:
            ops[e["tid"]].append((begin, end, int(e["args"]["Record function id"]),
                                  e["args"].get("External id")))
        elif e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {}):
            calls[int(e["args"]["correlation"])] = (begin, e["tid"], e["args"].get("External id"))
    threads = {tid: Thread(list_) for tid, list_ in ops.items()}
    for t in threads.values():
        self_ns.update(t.self_times())
    work = collections.defaultdict(list)
    for begin, end, e in events:
        if e["cat"] in pt.GPU:
            at, tid, external = calls[int(e["args"]["correlation"])]
            work[int(e["args"]["stream"])].append((begin, end - begin, e["name"],
                                                   threads[tid].caller(at, external)[2]))
    return self_ns, work


def compare(name, texts):
    """Converts the pair and compares the result. Returns the .et, or None."""
    p = pt.Pair(name, json.loads(texts[0]), json.loads(texts[1], parse_float=str, parse_int=str))
    r = convert(*texts)
    if not check(r.code == 0, f"{p.name}: {r.said}"):
        return None
    pt.check_nodes(p.name, r.nodes)
    self_ns, work = expected(p)
    by_id = {n.id: n for n in r.nodes}
    host = {n.attr["rf_id"]: n for n in r.nodes if not n.on_gpu and n.attr.get("rf_id")}
    check(set(host) == {attr(n, "rf_id") for n in p.nodes} - {0}, f"{p.name}: record function ids")
    off = [(n.name, n.dur, self_ns[i]) for i, n in host.items()
           if abs(n.dur * 1000 - self_ns[i]) >= 1000]
    check(not off, f"{p.name}: {len(off)} ops' own time: {off[:5]}")
    lanes = collections.defaultdict(lambda: [0, 0])
    for i, n in host.items():
        lanes[n.attr["tid"]][0] += n.dur * 1000
        lanes[n.attr["tid"]][1] += self_ns[i]
    got = collections.defaultdict(list)
    for n in r.nodes:
        if n.on_gpu:
            got[n.attr["stream"]].append(n)
    check(set(got) == set(work), f"{p.name}: streams {sorted(got)}, {sorted(work)}")
    wrong = []
    for stream, list_ in work.items():
        list_.sort(key=lambda w: w[0])
        nodes = sorted(got[stream], key=lambda n: n.start)
        check(len(nodes) == len(list_),
              f"{p.name}: stream {stream}: {len(nodes)} nodes, {len(list_)} events")
        for n, (begin, took, name, op) in zip(nodes, list_):
            parent = by_id[n.ctrl[0]].attr.get("rf_id") if n.ctrl else None
            if (n.name, n.start, parent) != (name, begin // 1000, op) \
                    or abs(n.dur * 1000 - took) >= 1000:
                wrong.append(((n.name, n.start, n.dur, parent), (name, begin, took, op)))
            lanes["stream", stream][0] += n.dur * 1000
            lanes["stream", stream][1] += took
    check(not wrong, f"{p.name}: {len(wrong)} pieces of device work: {wrong[:3]}")
    for lane, (us, ns) in lanes.items():
        check(abs(us - ns) < 1000, f"{p.name}: {lane}: {us} ns in sum, {ns} measured")
    return r.et


def without(text, *keys):
    """Returns the Kineto trace without these args."""
    device = json.loads(text)
    for e in device["traceEvents"]:
        e["args"] = {k: v for k, v in e.get("args", {}).items() if k not in keys}
    return pt.dump(device)


def main():
    folders = [os.path.join(SOURCE, "tests", "reference", "pytorch")]
    folders += [os.path.join(pt.TRACES, n) for n in ("synth_allfeatures", "recursion_repro",
                                                     "resnet_2gpu_rank0")] if pt.TRACES else []
    for folder in folders:
        texts = []
        for kind in ("host", "device"):
            path = os.path.join(folder, kind + ".0.json")
            with (open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")) as f:
                texts.append(f.read())
        name = os.path.basename(folder)
        et = compare(name, texts)
        bare = without(texts[1], "External id")
        et_bare = compare(name + " without External id", (texts[0], bare))
        # Names and order must match the same host nodes as record function ids do.
        for what, text, want in (("Record function id", texts[1], et),
                                 ("either id", bare, et_bare)):
            r = convert(texts[0], without(text, "Record function id"), decode=False)
            check(r.code == 0 and r.et == want, f"{name} without {what}: another trace: {r.said}")
    finish()


main()
