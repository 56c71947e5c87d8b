#!/usr/bin/env python3
"""Tests the files that we export in the form of PyTorch traces. They must be valid JSON with the
keys of real PyTorch traces, ops must nest, and the host trace must match the Kineto trace. `convert
pytorch` must make the same collectives and the same order of ops from them as the .et of the same
graph has."""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

from checks import BUILD, SOURCE, check, finish, run
from execution_trace import COLL, COMP, read_et

CALLS = ("_c10d_functional::", "c10d::", "record_param_comms", "ProfilerStep#", "Optimizer.step",
         "autograd::engine", "[pytorch|")


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def is_op(name):
    """Whether an event is an op that computes, not a call and not a range around other events."""
    return not name.startswith(CALLS) and not name.endswith("Backward0") and "##" not in name


# ---- Keys ----

# Keys that PyTorch's own trace in the fixtures lacks: counters, and the keys that PyTorch 2.15
# writes with profile_memory and with_stack.
MORE = {(None, "C"): {"bytes"},
        ("cpu_instant_event", "i"): {"Total Reserved", "Total Allocated", "Bytes", "Device Id",
                                     "Device Type", "Addr", "Ev Idx"},
        ("python_function", "X"): {"Python id", "Python parent id", "Python module id",
                                   "Module Hierarchy", "Ev Idx"}}


# Keys that PyTorch 2.x writes for work of a CUDA device.
WORK = {"External id", "device", "context", "stream", "correlation"}
KERNEL = {"queued", "shared memory", "grid", "block", "Collective name", "In msg nelems",
          "Out msg nelems", "Group size", "dtype", "In split size", "Out split size",
          "Process Group Name", "Process Group Description", "Process Group Ranks"}
DEVICE = {("cuda_runtime", "X"): {"External id", "cbid", "correlation"},
          ("kernel", "X"): WORK | KERNEL,
          ("gpu_memcpy", "X"): WORK | {"bytes", "memory bandwidth (GB/s)"},
          ("gpu_memset", "X"): WORK | {"bytes", "memory bandwidth (GB/s)"},
          ("cuda_sync", "X"): WORK | {"wait_on_stream", "wait_on_cuda_event_record_corr_id",
                                      "wait_on_cuda_event_id"},
          ("ac2g", "s"): set(), ("ac2g", "f"): set()}
SPANS = ("kernel", "gpu_memcpy", "gpu_memset")
NCCL = re.compile("ncclDevKernel_(SendRecv|(AllGather|Broadcast)_RING_LL|"
                  "(AllReduce|Reduce|ReduceScatter)_Sum_(f32|f16|bf16|u32|u64|u8)_RING_LL)")


def check_keys(what, kineto, host):
    """Checks that keys have the names that PyTorch's own trace of a step has."""
    real = load(os.path.join(SOURCE, "examples/pytorch/device.0.json"))
    seen = collections.defaultdict(set)
    for e in real["traceEvents"]:
        seen[e.get("cat"), e["ph"]] |= set(e)
        seen[e.get("cat"), e["ph"], "args"] |= set(e.get("args", ()))
    record = {"Collective name", "dtype", "In msg nelems", "Out msg nelems", "In split size",
              "Out split size", "Global rank start", "Global rank stride", "Group size",
              "Process Group Name", "Process Group Description", "Process Group Ranks", "Rank",
              "Seq", "Src Rank", "Dst Rank", "Root Rank"}
    for e in kineto["traceEvents"]:
        kind = e.get("cat"), e["ph"]
        if kind in MORE or e["name"] == "[memory]":
            check(set(e["args"]) <= MORE[kind], f"{what}: {e}")
            continue
        if kind in DEVICE:
            check(set(e.get("args", ())) <= DEVICE[kind], f"{what}: {e}")
            continue
        check(kind in seen, f"{what}: no {kind} in PyTorch's")
        check(set(e) <= seen[kind], f"{what}: {set(e) - seen[kind]} of {kind}")
        more = set(e.get("args", ())) - seen[(*kind, "args")] - {"Module Hierarchy"}
        check(more <= record if e["name"] == "record_param_comms" else not more,
              f"{what}: {e['name']} has {more}")
    real = load(os.path.join(SOURCE, "examples/pytorch/host.0.json"))
    check(set(real) == set(host) and real["schema"] == host["schema"], f"{what}: {set(host)}")
    attrs = [(a["name"], a["type"]) for a in real["nodes"][0]["attrs"]]
    for n in host["nodes"]:
        check(set(n) == set(real["nodes"][0]), f"{what}: {set(n)}")
        check([(a["name"], a["type"]) for a in n["attrs"]][:len(attrs)] == attrs,
              f"{what}: attributes of {n['name']}")
        for io in (n["inputs"], n["outputs"]):
            lengths = {len(io[k]) for k in ("values", "shapes", "types", "strides")}
            check(len(lengths) == 1, f"{what}: {n['name']} has {lengths}")


# ---- One rank ----


def nest(what, thread, spans):
    """Checks that spans either nest or follow each other, in the unit in which they are given."""
    stack = []
    for start, end, name in sorted(spans, key=lambda s: (s[0], -s[1])):
        check(end > start, f"{what}: {name} takes no time")
        while stack and stack[-1][1] < start:
            stack.pop()
        check(not stack or (stack[-1][0] < start and end < stack[-1][1]),
              f"{what}: {name} of {thread}, {start} to {end}, is not within {stack and stack[-1]}")
        stack.append((start, end))


def check_nesting(what, events):
    """Checks that any two begins or ends in a thread are at least 1 ns apart. The events then nest
    also for tools that compute ts + dur in floating point. There the sum can exceed the ts of the
    next event although both are equal, and tools such as TensorBoard's plugin drop that event."""
    threads = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X" and e["cat"] in ("cpu_op", "user_annotation", "python_function",
                                           "cuda_runtime"):
            threads[e["pid"], e["tid"]].append(e)
    for thread, spans in threads.items():
        nest(what, thread, [(round(1000 * e["ts"]), end_ns(e), e["name"]) for e in spans])
        nest(what, thread, [(e["ts"], e["ts"] + e["dur"], e["name"]) for e in spans])


def check_links(what, kineto, host):
    """Checks that each event matches a host node by its record function id, and lies within its
    caller's event."""
    nodes = {n["id"]: n for n in host["nodes"]}
    check(len(nodes) == len(host["nodes"]), f"{what}: ids repeat")
    attr = {n["id"]: {a["name"]: a["value"] for a in n["attrs"]} for n in host["nodes"]}
    by_rf = {a["rf_id"]: i for i, a in attr.items()}
    events = {e["args"]["Record function id"]: e for e in kineto["traceEvents"]
              if "Record function id" in e.get("args", {})}
    check(set(events) <= set(by_rf), f"{what}: events without a node")
    check(set(by_rf) - set(events) <= {0, 1}, f"{what}: nodes without an event")
    for rf, e in events.items():
        n = nodes[by_rf[rf]]
        check(n["name"] == e["name"], f"{what}: {n['name']} is {e['name']}")
        check(n["ctrl_deps"] < n["id"], f"{what}: the caller of {n['id']} comes later")
        check(attr[n["id"]]["tid"] == e["tid"], f"{what}: {n['name']} in another thread")
        sequence = e["args"].get("Sequence number", -1)
        check(attr[n["id"]]["seq_id"] == sequence, f"{what}: sequence of {n['name']}")
        around = events.get(attr[n["ctrl_deps"]]["rf_id"])
        check(around is None or (around["ts"] <= e["ts"] and round(1000 * (
            e["ts"] + e["dur"] - around["ts"] - around["dur"])) <= 0),
            f"{what}: {n['name']} leaves {around and around['name']}")
    return events


def check_device(what, kineto):
    """Checks each piece of device work. It has a call inside the op that it names, and exactly one
    arrow from the call. It begins after the call and after the earlier work of its stream, and ends
    within its step. Work that no op launched belongs to the step itself."""
    events = kineto["traceEvents"]
    by_id = {e["args"]["External id"]: e for e in events if "Record function id" in
             e.get("args", {})}
    calls, arrows = {}, collections.defaultdict(list)
    for e in events:
        if e.get("cat") == "cuda_runtime":
            check(e["args"]["correlation"] not in calls, f"{what}: {e} appears twice")
            op = by_id[e["args"]["External id"]]
            check(op["tid"] == e["tid"] and op["ts"] <= e["ts"] and end_ns(e) <= end_ns(op),
                  f"{what}: {e['name']} leaves {op['name']}")
            calls[e["args"]["correlation"]] = e
        elif e.get("cat") == "ac2g":
            arrows[e["id"]].append(e)
    steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
    streams = {}
    work = [e for e in events if e.get("cat") in SPANS]
    for e in work:
        a = e["args"]
        call = calls[a["correlation"]]
        check(call["args"]["External id"] == a["External id"], f"{what}: the call of {e}")
        check((e["pid"], e["tid"]) == (a["device"], a["stream"]), f"{what}: the place of {e}")
        check(call["ts"] <= e["ts"], f"{what}: {e['name']} begins before its call")
        check(streams.get(e["tid"], 0) <= round(1000 * e["ts"]), f"{what}: {e['name']} overlaps")
        streams[e["tid"]] = end_ns(e)
        op = by_id[a["External id"]]
        if op in steps:  # no op launched it
            op = call
        inside = [s for s in steps if s["ts"] <= op["ts"] and end_ns(op) <= end_ns(s)]
        check(len(inside) == 1 and (inside[0] is not steps[-1] or end_ns(e) <= end_ns(inside[0])),
              f"{what}: {e['name']} is in no step")
        two = sorted(arrows.pop(a["correlation"], ()), key=lambda x: x["ph"], reverse=True)
        check([(x["ph"], x["pid"], x["tid"], x["ts"]) for x in two] ==
              [("s", call["pid"], call["tid"], call["ts"]), ("f", e["pid"], e["tid"], e["ts"])],
              f"{what}: the arrow of {e}: {two}")
        check(("nccl" in e["name"]) == ("Collective name" in a), f"{what}: {e}")
        check(e["name"] != "kernel", f"{what}: a kernel without its name: {e}")
    check(not arrows, f"{what}: arrows without work {list(arrows)[:5]}")
    waits = [e for e in calls.values() if e["args"]["correlation"] not in
             {w["args"]["correlation"] for w in work}]
    check(all(e["name"] in ("cudaStreamWaitEvent", "cudaEventRecord", "cudaStreamSynchronize")
              for e in waits), f"{what}: calls without work")
    if work and kineto["deviceProperties"]:
        check_predicted(what, steps, calls, work)
    elif work:
        check_between(what, steps, calls, work)
    for e in events:
        if e.get("cat") == "cuda_sync" and e["name"] == "Stream Sync":
            call = calls[e["args"]["correlation"]]
            check(call["name"] == "cudaStreamSynchronize" and call["ts"] <= e["ts"],
                  f"{what}: {e} by {call}")
            late = [w for w in work if w["tid"] == e["tid"] and w["args"]["correlation"] <
                    e["args"]["correlation"] and end_ns(w) > round(1000 * e["ts"])]
            check(not late, f"{what}: {e} is seen before {late[:1]} is over")
        elif e.get("cat") == "cuda_sync":
            record = calls[e["args"]["wait_on_cuda_event_record_corr_id"]]
            check(record["name"] == "cudaEventRecord" and record["ts"] <= e["ts"] and
                  calls[e["args"]["correlation"]]["name"] == "cudaStreamWaitEvent",
                  f"{what}: {e} waits for {record}")
            check_wait(what, e, work)
    return work


def check_between(what, steps, calls, work):
    """Checks that each step copies its samples to the device before all its kernels. After the
    kernels it copies the loss back and waits for it."""
    for s in steps:
        inside = [e for e in sorted(calls.values(), key=lambda e: e["args"]["correlation"])
                  if s["ts"] <= e["ts"] and end_ns(e) <= end_ns(s)]
        names = [e["name"] for e in inside]
        kind = {e["args"]["correlation"]: e["name"] for e in work}
        copies = [kind[e["args"]["correlation"]] for e in inside if e["name"] == "cudaMemcpyAsync"]
        check("Memcpy HtoD (Pinned -> Device)" in copies, f"{what}: {s['name']} gets nothing")
        check("Memcpy DtoH (Device -> Pinned)" in copies, f"{what}: {s['name']} reads nothing")
        last = max(i for i, name in enumerate(names) if name == "cudaLaunchKernel")
        check("cudaStreamSynchronize" in names[last:], f"{what}: {s['name']} does not wait")


def check_predicted(what, steps, calls, work):
    """Checks traces of a GPU whose times are predicted. The host runs ahead and waits only at the
    end of each step, so no kernel begins before its call. Communication kernels have NCCL's
    names."""
    for s in steps:
        inside = [e["name"] for e in calls.values()
                  if s["ts"] <= e["ts"] and end_ns(e) <= end_ns(s)]
        check(inside[-1] == "cudaStreamSynchronize", f"{what}: {s['name']} ends in {inside[-1]}")
        check(inside.count("cudaStreamSynchronize") == 1, f"{what}: {s['name']} waits twice")
    for e in work:
        call = calls[e["args"]["correlation"]]
        check(e["ts"] > call["ts"] and e["dur"] > 0, f"{what}: {call} of {e}")
        check(("Collective name" in e["args"]) == bool(NCCL.fullmatch(e["name"])) and
              e["name"].startswith(("nccl", "syntorch::", "Memcpy")), f"{what}: {e['name']}")


def check_wait(what, wait, work):
    """Checks that a waiting stream continues after the work that it waits for. The device's clock
    has a resolution of 1 us, so the times may differ by that."""
    a = wait["args"]
    before = [e for e in work if e["tid"] == a["wait_on_stream"]
              and e["args"]["correlation"] < a["wait_on_cuda_event_record_corr_id"]]
    after = [e for e in work if e["tid"] == a["stream"]
             and e["args"]["correlation"] > a["correlation"]]
    check(not before or not after or end_ns(before[-1]) <= 1000 * after[0]["ts"] + 1000,
          f"{what}: {after[:1]} waits for {before[-1:]}, which is not over")


def check_arrows(what, kineto, forwards):
    """Checks the arrows from a forward op to the backward op of the same sequence number. Each
    occurs once."""
    ends = collections.defaultdict(dict)
    at = collections.defaultdict(list)
    for e in kineto["traceEvents"]:
        if e.get("cat") == "fwdbwd":
            check(e["ph"] not in ends[e["id"]], f"{what}: two arrows {e['id']}")
            ends[e["id"]][e["ph"]] = e
        if "Sequence number" in e.get("args", {}):
            at[e["args"]["Sequence number"]].append(e)
    check(len(ends) >= forwards, f"{what}: {len(ends)} arrows, {forwards} expected")
    for i, e in ends.items():
        if not check(set(e) == {"s", "f"}, f"{what}: half an arrow {i}"):
            continue
        starts = {x["ts"] for x in at[i] if x["args"]["Fwd thread id"] == 0}
        backward = {x["ts"] for x in at[i] if x["args"]["Fwd thread id"] == 1}
        check(e["s"]["ts"] in starts and e["f"]["ts"] in backward, f"{what}: arrow {i}")
        check(e["s"]["ts"] <= e["f"]["ts"], f"{what}: arrow {i} goes back in time")


def check_memory(what, kineto, curve):
    """Checks that the counters equal the memory curve. Allocations and frees add up to the curve,
    the total is never negative, and each free has the address of an allocation."""
    rows = list(curve)
    total = int(rows[0][2])
    check(total == int(rows[0][3]), f"{what}: the curve's begin")
    counters = {e["ts"]: e["args"]["bytes"] for e in kineto["traceEvents"] if e["ph"] == "C"}
    check(counters == {float(row[1]): int(row[2]) for row in rows} and len(counters) == sum(
        e["ph"] == "C" for e in kineto["traceEvents"]), f"{what}: counters differ from the curve")
    events = [e for e in kineto["traceEvents"] if e["name"] == "[memory]"]
    asked = kineto.get("profile_memory") == 1
    check(len(events) == (len(rows) - 1 if asked else 0), f"{what}: {len(events)} memory events")
    there = {}
    for row, e in zip(rows[1:], events):
        a = e["args"]
        total += a["Bytes"]
        check(a["Total Allocated"] == total >= 0, f"{what}: memory {a}, {total}")
        check([int(row[2]), int(row[3])] == [total, a["Bytes"]] and float(row[1]) == e["ts"],
              f"{what}: curve {row}, memory {e}")
        if a["Bytes"] >= 0:
            check(a["Addr"] not in there, f"{what}: {a} is there")
            there[a["Addr"]] = a["Bytes"]
        else:
            check(there.pop(a["Addr"], -a["Bytes"]) == -a["Bytes"], f"{what}: {a} goes")


# ---- Modules ----


def modules_of(scope):
    """Returns the paths of the modules of a scope, outermost first. A number belongs to the word
    before it."""
    words = scope.split(".") if scope else []
    return [".".join(words[:i + 1]) for i, _ in enumerate(words)
            if i + 1 == len(words) or not words[i + 1].isdigit()]


def end_ns(event):
    return round(1000 * event["ts"]) + round(1000 * event["dur"])


def check_modules(what, kineto):
    """Checks that a forward op lies within the spans of exactly the modules of its scope, and that
    other ops lie in no module. Ids must give the same nesting as times."""
    spans = [e for e in kineto["traceEvents"] if e.get("cat") == "python_function"]
    check(bool(spans) == (kineto.get("with_stack") == 1), f"{what}: {len(spans)} modules")
    if not spans:
        return
    names, ids = {}, {}
    for e in spans:
        path = e["args"]["Module Hierarchy"]
        check(names.setdefault(e["name"], path) == path, f"{what}: {e['name']} is two modules")
        check(e["name"].startswith("nn.Module: ") and e["name"].endswith(
            f"_{e['args']['Python module id']}"), f"{what}: {e['name']}")
        ids[e["args"]["Python id"]] = e
    check(len(ids) == len(spans) and len(set(names.values())) == len(names), f"{what}: ids repeat")
    for e in spans:
        around = ids.get(e["args"].get("Python parent id"))
        parents = modules_of(e["args"]["Module Hierarchy"])[:-1]
        check((around["args"]["Module Hierarchy"] if around else None) ==
              (parents[-1] if parents else None), f"{what}: parent of {e}")
    open_ = []
    for e in sorted((e for e in kineto["traceEvents"] if e["ph"] == "X" and e["tid"] == 1),
                    key=lambda e: (e["ts"], -e["dur"])):
        while open_ and end_ns(open_[-1]) <= round(1000 * e["ts"]):
            open_.pop()
        around = [o["args"]["Module Hierarchy"] for o in open_ if o.get("cat") == "python_function"]
        if e.get("cat") == "cpu_op" and is_op(e["name"]):
            inside = any(o["name"].startswith(("autograd", "Optimizer")) for o in open_)
            check(not (inside and around), f"{what}: {e['name']} of a backward pass in {around}")
            check(not around or around == modules_of(e["args"].get("Module Hierarchy", "")),
                  f"{what}: {e['name']} of {e['args']} in {around}")
            if e["args"].get("Sequence number") and e["args"].get("Module Hierarchy"):
                check(around, f"{what}: forward {e['name']} in no module")
        open_.append(e)


# ---- Order ----


def reach(nodes, chosen):
    """Returns for each chosen node a bit set of the chosen nodes that come before it."""
    bit = {id_: 1 << i for i, id_ in enumerate(chosen)}
    before = {}
    left = {n.id: len(n.deps) for n in nodes}
    after = collections.defaultdict(list)
    by_id = {n.id: n for n in nodes}
    for n in nodes:
        for d in n.deps:
            after[d].append(n.id)
    ready = [n.id for n in nodes if not n.deps]
    while ready:
        at = ready.pop()
        mask = 0
        for d in by_id[at].deps:
            mask |= before[d] | bit.get(d, 0)
        before[at] = mask
        for n in after[at]:
            left[n] -= 1
            if left[n] == 0:
                ready.append(n)
    return [before[id_] for id_ in chosen]


def groups_of(path):
    if not os.path.exists(path):
        return {}
    return {name: tuple(ranks) for name, ranks in load(path).items()}


def collectives(nodes, groups):
    return [(n.attr["comm_type"], n.attr["comm_size"], groups[n.attr["pg_name"]]) for n in nodes
            if n.type == COLL and n.attr["comm_type"] != 9]


def check_order(what, folder, prefix, rank, host):
    _, ours = read_et(open(f"{folder}/{prefix}.{rank}.et", "rb").read())
    _, theirs = read_et(open(f"{folder}/made.{rank}.et", "rb").read())
    want = collectives(ours, groups_of(f"{folder}/{prefix}.comm_group.json"))
    got = collectives(theirs, groups_of(f"{folder}/made.comm_group.json"))
    check(want == got, f"{what}: collectives {want[:5]}, converted {got[:5]}")
    names = {n["id"]: n["name"] for n in host["nodes"]}
    rf = {a["value"]: n["id"] for n in host["nodes"] for a in n["attrs"] if a["name"] == "rf_id"}
    colls = [n.id for n in theirs if n.type == COLL and n.attr["comm_type"] != 9]
    works = [n.id for n in theirs if n.type == COMP and n.attr.get("rf_id", 0) > 1
             and is_op(names[rf[n.attr["rf_id"]]])]
    chosen = [n.id for n in ours if n.type == COMP] + [n.id for n in ours if n.type == COLL]
    if check(len(chosen) == len(works) + len(colls), f"{what}: {len(chosen)} ops, converted "
             f"{len(works)} and {len(colls)}"):
        a, b = reach(ours, chosen), reach(theirs, works + colls)
        wrong = [i for i, (x, y) in enumerate(zip(a, b)) if x != y]
        first = f"; the first {wrong[0]}, bits {a[wrong[0]] ^ b[wrong[0]]:b}" if wrong else ""
        check(not wrong, f"{what}: {len(wrong)} of {len(chosen)} ops come after others{first}")


def part_groups(nodes):
    """Loosens the order of an .et's collectives. In an .et they follow each other; on a device only
    the collectives of one group do, and a group waits for another group only because of data."""
    last, kind = {}, {n.id: n.type for n in nodes}
    for n in nodes:
        if n.type == COLL:
            n.deps = {d for d in n.ctrl if kind[d] != COLL} | set(n.data)
            n.deps |= {last[n.attr["pg_name"]]} if n.attr["pg_name"] in last else set()
            last[n.attr["pg_name"]] = n.id


def check_device_order(what, folder, prefix, rank, kineto, work):
    """Checks that all work is converted, that the collectives are those of the .et, and that the
    work of an op comes after the work of all ops on which the op depends in the .et."""
    _, ours = read_et(open(f"{folder}/{prefix}.{rank}.et", "rb").read())
    _, theirs = read_et(open(f"{folder}/made.{rank}.et", "rb").read())
    want = collectives(ours, groups_of(f"{folder}/{prefix}.comm_group.json"))
    got = collectives(theirs, groups_of(f"{folder}/made.comm_group.json"))
    check(want == got, f"{what}: collectives {want[:5]}, converted {got[:5]}")
    on_gpu = [n for n in theirs if n.on_gpu]
    check(len(on_gpu) == len(work), f"{what}: {len(work)} pieces, converted {len(on_gpu)}")
    events = [e for e in kineto["traceEvents"] if "Record function id" in e.get("args", {})]
    ops = [e["args"]["Record function id"] for e in events
           if e["cat"] == "cpu_op" and is_op(e["name"])]
    kernels = collections.defaultdict(list)
    for n in on_gpu:
        kernels[n.attr["rf_id"]].append(n.id)
    comps = [n.id for n in ours if n.type == COMP]
    colls = [n.id for n in ours if n.type == COLL]
    nccl = [n.id for n in theirs if n.type == COLL]
    if not check(len(comps) == len(ops) and len(colls) == len(nccl),
                 f"{what}: {len(comps)} ops, {len(ops)} events, {len(colls)} and {len(nccl)}"):
        return
    of = [kernels[rf] for rf in ops] + [[n] for n in nccl]
    part_groups(ours)
    flat = [k for list_ in of for k in list_]
    bit = {k: 1 << i for i, k in enumerate(flat)}
    seen = dict(zip(flat, reach(theirs, flat)))
    missing = []
    for i, mask in enumerate(reach(ours, comps + colls)):
        need = sum(bit[k] for j in range(len(of)) if mask >> j & 1 for k in of[j])
        missing += [i for k in of[i] if need & ~seen[k]]
    check(not missing, f"{what}: {len(missing)} of {len(of)} run too early; the first "
          f"{missing[:1]}")


def check_set(folder, prefix):
    device = prefix.startswith(("device", "cuda", "gpu"))
    hosts = sorted(glob.glob(f"{folder}/{prefix}.*_host.json"))
    check(hosts, f"{prefix}: no host traces")
    r = run("convert", "pytorch", "--host", f"{folder}/{prefix}.*_host.json", "--device",
            f"{folder}/{prefix}.*_kineto.json", "--output", f"{folder}/made")
    said = (r.stdout + r.stderr).decode()
    check(r.returncode == 0, f"{prefix}: {said}")
    warned = [line for line in said.splitlines() if "warning" in line or "note" in line
              and not ("no-sync-events" in line and device)]
    check(not warned, f"{prefix}: {warned}")
    with open(f"{folder}/{prefix}_memory.csv", encoding="utf-8") as f:
        head, *lines = f.read().splitlines()
    check(head == "rank,time_us,allocated_bytes,change_bytes,what", head)
    for path in hosts:
        rank = int(path.rsplit(".", 2)[1].split("_")[0])
        what = f"{prefix} rank {rank}"
        host, kineto = load(path), load(path.replace("_host", "_kineto"))
        check_keys(what, kineto, host)
        check_nesting(what, kineto["traceEvents"])
        events = check_links(what, kineto, host)
        backward = {e["args"]["Sequence number"] for e in events.values()
                    if e["name"].endswith("Backward0") and "Sequence number" in e["args"]}
        check_arrows(what, kineto, len(backward))
        check_modules(what, kineto)
        check_memory(what, kineto, [row.split(",", 4) for row in lines
                                    if row.startswith(f"{rank},")])
        work = check_device(what, kineto)
        check(bool(work) == device, f"{what}: {len(work)} pieces of a device's work")
        if device:
            check_device_order(what, folder, prefix, rank, kineto, work)
        else:
            check_order(what, folder, prefix, rank, host)
        info = kineto.get("distributedInfo")
        check(info is None or (info["rank"] == rank and info["pg_count"] == len(
            info["pg_config"])), f"{what}: {info}")
    for old in glob.glob(f"{folder}/made.*"):
        os.remove(old)
    with open(f"{folder}/{prefix}_stacks.txt", encoding="utf-8") as f:
        tables = f.read().split("\n\n")
    check(len(tables) == (4 if kineto.get("with_stack") else 3),
          f"{prefix}: {len(tables)} parts of the stacks")
    for table in tables[1:]:
        rows = [line.split() for line in table.splitlines()[1:]]
        check(abs(sum(float(row[3]) for row in rows) - 100) < 0.01 * len(rows) + 0.01,
              f"{prefix}: shares do not add up")


def main():
    if len(sys.argv) > 1:
        for folder in sys.argv[1:]:
            check_set(folder, "run")
        finish()
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        made = subprocess.run([os.path.join(BUILD, "tests/test_kineto_sets")], check=False,
                              capture_output=True, env={**os.environ, "SYN_TEST_OUT": folder})
        check(made.returncode == 0, (made.stdout + made.stderr).decode())
        prefixes = sorted({os.path.basename(p)[:-len("_stacks.txt")]
                           for p in glob.glob(f"{folder}/*_stacks.txt")})
        check(len(prefixes) >= 4, f"sets: {prefixes}")
        check("cuda" in prefixes or "SYNTORCH_CUDA_MODULE" not in os.environ, "no set of CUDA")
        for prefix in prefixes:
            check_set(folder, prefix)
    finish()


main()
