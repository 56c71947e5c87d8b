"""Tests host and Kineto traces that have no common ids and begin and end at different steps. Each
host node must get the time of its own call, in the right thread and step. --trim must omit the work
that other steps launched."""
import random

from checks import check, finish
import pytorch_traces as pt
from pytorch_traces import convert

KERNEL_US = 3


class Step:
    """The calls of one step in two threads: forward, then backward, whose ops have the sequence
    numbers of their forward ops."""

    def __init__(self, number, rng, layers=6):
        self.calls = []  # thread, depth, name, sequence number or -1, launches
        seq = number * layers
        for layer in range(layers):
            self.calls += [(0, 0, "aten::linear", seq, 0), (0, 1, "aten::t", seq, 0),
                           (0, 2, "aten::transpose", -1, 0), (0, 1, "aten::addmm", seq, 1)]
            self.calls += [(0, 0, "aten::relu", -1, 1)] * rng.randint(0, 2)
            seq += 1
        for layer in range(layers):
            seq -= 1
            self.calls += [(1, 0, "autograd::engine::evaluate_function: AddmmBackward0", -1, 0),
                           (1, 1, "AddmmBackward0", seq, 0),
                           (1, 2, "aten::t", -1, 0), (1, 3, "aten::transpose", -1, 0),
                           (1, 2, "aten::mm", -1, 1)]
        self.calls.append((0, 0, "Optimizer.step#SGD.step", -1, 1))


def job(n_steps, same_steps, seed=7, layers=6):
    """Returns the steps of a job. With same_steps, each step makes the same calls."""
    return [Step(i, random.Random(seed if same_steps else seed + i), layers)
            for i in range(n_steps)]


def host_of(steps, drop=lambda name, k: False, old_names=False):
    """Returns the host trace, and for each node its (step, call)."""
    kind = "graph" if old_names else "trace"
    root = f"[pytorch|profiler|execution_{kind}|%s]"
    nodes, whose = [], {}

    def node(name, parent, tid, seq, rf_id):
        nodes.append({"id": len(nodes) + 1, "name": name, "ctrl_deps": parent,
                      "inputs": {"values": [], "shapes": [], "types": []},
                      "outputs": {"values": [], "shapes": [], "types": []},
                      "attrs": [{"name": a, "type": "", "value": v} for a, v in
                                (("rf_id", rf_id), ("fw_parent", 0), ("seq_id", seq), ("scope", 0),
                                 ("tid", tid), ("fw_tid", 0), ("op_schema", ""))]})
        return len(nodes)

    node(root % "process", 1, 0, -1, 0)
    roots = [node(root % "thread", 1, tid, -1, 0) for tid in (1, 2)]
    open_calls = {0: [], 1: []}
    for s, step in steps:
        for k, (thread, depth, name, seq, _) in enumerate(step.calls):
            if drop(name, k):
                continue
            stack = open_calls[thread] = [c for c in open_calls[thread] if c[0] < depth]
            i = node(name, stack[-1][1] if stack else roots[thread], thread + 1, seq, len(nodes))
            stack.append((depth, i))
            whose[i] = (s, k)
    return {"schema": "1.0.2-chakra.0.0.4", "pid": 9, "time": "", "start_ts": 0, "nodes": nodes,
            "finish_ts": 1}, whose


def device_of(steps, drop=lambda name, k: False, with_seq=True, shift=0):
    """Returns the Kineto trace, and for each (step, call) its begin."""
    events, begin, correlation = [], {}, 0
    ts = 1000000
    for s, step in steps:
        for k, (thread, depth, name, seq, launches) in enumerate(step.calls):
            last = k
            while last + 1 < len(step.calls) and step.calls[last + 1][0] == thread \
                    and step.calls[last + 1][1] > depth:
                last += 1
            begin[s, k] = ts + 20 * k
            if not drop(name, k):
                events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 9,
                               "tid": 900 - thread, "ts": begin[s, k],
                               "dur": 20 * (last - k) + 18 - 3 * depth,
                               "args": {"External id": 1 + len(events) % 50,
                                        **({"Sequence number": seq + shift} if with_seq and seq >= 0
                                           else {})}})
            if launches:
                correlation += 1
                events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel",
                               "pid": 9, "tid": 900 - thread,
                               "ts": begin[s, k] + 2, "dur": 2,
                               "args": {"correlation": correlation, "External id": 0}})
                events.append({"ph": "X", "cat": "kernel", "name": f"k{s}", "pid": 0, "tid": 7,
                               "ts": begin[s, k] + 5, "dur": KERNEL_US,
                               "args": {"correlation": correlation, "stream": 7, "device": 0,
                                        "External id": 0}})
        ts += 20 * len(step.calls) + 500
    return {"traceEvents": events}, begin


def compare(what, host, whose, device, begin, step_of=lambda s: s, misses=0, args=()):
    r = convert(pt.dump(host), pt.dump(device), *args)
    if not check(r.code == 0, f"{what}: {r.said}"):
        return r
    # Host ops are written in the order of their ids within a thread. The test finds them in the
    # result by name and position.
    seen, wrong = {}, 0
    by_lane = {}
    for n in host["nodes"]:
        if n["id"] in whose:
            by_lane.setdefault((pt.attr(n, "tid"), n["name"]), []).append(n["id"])
    for n in sorted((n for n in r.nodes if n.attr.get("is_cpu_op") and "tid" in n.attr),
                    key=lambda n: n.id):
        key = (n.attr["tid"], n.name)
        if key not in by_lane:
            continue
        at = seen[key] = seen.get(key, -1) + 1
        s, k = whose[by_lane[key][at]]
        wrong += n.start != begin[step_of(s), k]
    check(wrong <= misses,
          f"{what}: {wrong} of {len(whose)} host ops have the time of another call")
    return r


def hints(r):
    return set(r.rank["notes"])


def main():
    steps = list(enumerate(job(6, False)))
    same = list(enumerate(job(6, True)))
    host, whose = host_of(steps[3:4])
    device, begin = device_of(steps)
    r = compare("one step of six", host, whose, device, begin)
    check("other-steps" in hints(r) and "repeated-steps" not in hints(r),
          f"one step of six: {hints(r)}")
    n_launches = sum(c[4] for c in steps[3][1].calls)
    check(r.rank["matches"]["device_correlation"] == n_launches,
          f"one step of six: {r.rank['matches']}, {n_launches} launched")
    check(r.kinds["kernels"] == sum(c[4] for _, s in steps for c in s.calls),
          f"one step of six: {r.kinds}")
    r = compare("trimmed", host, whose, device, begin, args=("--trim",))
    check(r.kinds["kernels"] == n_launches, f"trimmed: {r.kinds}, {n_launches} launched")
    check({n.name for n in r.nodes if n.attr.get("stream") == 7} == {"k3"},
          "trimmed: kernels of another step")
    check(not r.anomalies, f"trimmed: {list(r.anomalies)}")
    compare("no sequence numbers", host, whose, *device_of(steps, with_seq=False))

    host, whose = host_of(same[3:4])
    r = compare("equal steps, sequence numbers", host, whose, *device_of(same))
    check("repeated-steps" not in hints(r), f"equal steps, sequence numbers: {hints(r)}")
    r = compare("equal steps", host, whose, *device_of(same, with_seq=False), step_of=lambda s: 0)
    check("repeated-steps" in hints(r), f"equal steps: {hints(r)}")

    # The observer ran in the step before the profiler's step.
    host, whose = host_of(same[2:3])
    compare("neighbouring steps", host, whose, *device_of(same[3:4], shift=1), step_of=lambda s: 3)

    host, whose = host_of(steps)
    r = convert(pt.dump(host), pt.dump(device_of(steps[2:4])[0]))
    in_window = sum(len(s.calls) for _, s in steps[2:4])
    check(r.code == 0 and r.rank["matches"]["host_name_order"] == in_window,
          f"two steps of the host's six: {r.rank['matches']}, not {in_window}")
    check(r.rank["matches"]["device_none"] + r.rank["matches"]["device_time"] == 0,
          f"two steps of the host's six: {r.rank['matches']}")
    check("untimed-ops" in hints(r), f"two steps of the host's six: {hints(r)}")
    r = convert(pt.dump(host), pt.dump(device_of(steps)[0]))
    check("untimed-ops" not in hints(r), f"six steps of six: {hints(r)}")

    # Too many steps to compare each pair of positions.
    many, many_same = (list(enumerate(job(2000, same_steps, layers=1)))
                       for same_steps in (False, True))
    host, whose = host_of(many[1500:1700])
    compare("200 steps of 2000", host, whose, *device_of(many, with_seq=False))
    host, whose = host_of(many_same[:1000])
    r = compare("1000 of 2000 equal steps", host, whose, *device_of(many_same, with_seq=False))
    check("repeated-steps" in hints(r), f"1000 of 2000 equal steps: {hints(r)}")

    # Each trace lacks calls that the other has.
    rng = random.Random(3)
    lacks = [{k for k in range(400) if rng.random() < 0.05} for _ in range(2)]
    host, whose = host_of(steps[1:3], drop=lambda name, k: k in lacks[0])
    device, begin = device_of(steps, drop=lambda name, k: k in lacks[1], with_seq=False)
    whose_found = {i: at for i, at in whose.items() if at[1] not in lacks[1]}
    compare("calls missing", host, whose, device, begin,
            misses=len(whose) - len(whose_found) + len(whose) // 12)

    # The threads of the other file come in another order, and both threads call the same names.
    host, whose = host_of(steps, old_names=True)
    r = compare("roots named execution_graph", host, whose, *device_of(steps))
    check(not r.anomalies, f"roots named execution_graph: {list(r.anomalies)}")

    # More threads than the command pairs. Ops of the remaining threads have no time, but nothing is
    # lost.
    host, _ = host_of(steps[:1])
    for i in range(3000):
        host["nodes"].append({**host["nodes"][5], "id": 10000 + i, "ctrl_deps": 1})
        host["nodes"][-1]["attrs"] = [{**a, "value": 10 + i} if a["name"] == "tid" else a
                                      for a in host["nodes"][-1]["attrs"]]
    r = convert(pt.dump(host), pt.dump(device_of(steps)[0]))
    check(r.code == 0 and r.kinds["host ops"] == len(host["nodes"]), f"3000 threads: {r.said}")
    finish()


main()
