#!/usr/bin/env python3
"""Tests convert pytorch --profile astra-sim. Trace sets of two ranks pass etcheck.py without flags.
Each kernel, copy and memset of the trace is present by name, and each stream is a chain in the
order of the trace. The time of the compute slot, including delays, equals the measured time.
Expected values come from the traces themselves, read with Python's json."""
import collections
import gzip
import json
import os
import tempfile

from checks import DATA, SOURCE, TOOLS, check, finish, load_etcheck, run, run_etcheck, \
    skip

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
COMP = 4


def load(name, kind):
    with gzip.open(os.path.join(DATA, "pytorch-traces", name, f"{kind}.0.json.gz"), "rt") as f:
        return f.read()


def other_rank(host, device):
    """Returns the traces of the other rank: the same, but with sends and receives swapped."""
    swap = {"nccl:send 0->1": "nccl:recv 1<-0", "nccl:recv 0<-1": "nccl:send 1->0",
            "c10d::send": "c10d::recv_", "c10d::recv_": "c10d::send"}
    h, d = json.loads(host), json.loads(device)
    for item in h["nodes"] + d["traceEvents"]:
        item["name"] = swap.get(item.get("name", ""), item.get("name", ""))
    d["distributedInfo"]["rank"] = 1
    return json.dumps(h), json.dumps(d)


def work(device):
    """Returns the device work by (device, stream), in the order of the trace."""
    streams = collections.defaultdict(list)
    for e in json.loads(device)["traceEvents"]:
        if e.get("cat") in WORK:
            streams[e["args"]["device"], e["args"]["stream"]].append(e)
    return {k: sorted(v, key=lambda e: e["ts"]) for k, v in streams.items()}


def earliest(nodes):
    """Returns the earliest start of each node if it waits only for its dependencies."""
    start, end = {}, {}
    for n in nodes:
        start[n.id] = max((end[d] for d in n.data), default=0)
        end[n.id] = start[n.id] + n.dur
    return start


def check_launches(name, nodes, device):
    """Checks that the first communication does not start before the computation that had begun or
    ended when it was launched."""
    events = [e for e in json.loads(device)["traceEvents"] if e.get("ph") == "X"]
    calls = {e["args"]["correlation"]: e["ts"] for e in events
             if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    first = min(e["ts"] for e in events if e.get("cat") == "cpu_op")
    done = [e for e in events if e.get("cat") in WORK]
    nccl = min((e for e in done if "nccl" in e["name"].lower()), key=lambda e: e["ts"])
    launched = calls[nccl["args"]["correlation"]]
    moments = [t for e in done if e is not nccl for t in (e["ts"], e["ts"] + e["dur"])
               if t <= launched]
    node = next(n for n in nodes if n.name == nccl["name"] and n.type != COMP)
    start, want = earliest(nodes)[node.id], max(moments) - first
    check(start >= want - 1, f"{name}: node {node.id} starts at {start}, launched after {want}")


def check_gloo(folder, etcheck):
    """Tests ranks on CPUs: etcheck accepts them, and the whole measured time is in computation and
    communication."""
    data = os.path.join(SOURCE, "tests", "reference", "pt_gloo")
    prefix = os.path.join(folder, "t")
    r = run("convert", "pytorch", "--host", os.path.join(data, "host.*.json.gz"), "--device",
            os.path.join(data, "device.*.json.gz"), "--profile", "astra-sim", "--output", prefix)
    check(r.returncode == 0, f"gloo: exit {r.returncode}: {r.stderr}")
    r = run_etcheck(prefix)
    check(r.returncode == 0, f"gloo: etcheck: {r.stdout[-2000:]}")
    for rank in range(4):
        with gzip.open(os.path.join(data, f"device.{rank}.json.gz"), "rt") as f:
            ops = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "cpu_op"]
        measured = max(e["ts"] + e["dur"] for e in ops) - min(e["ts"] for e in ops)
        nodes = etcheck.read(f"{prefix}.{rank}.et")
        start = earliest(nodes)
        end = max(start[n.id] + n.dur for n in nodes)
        check(abs(end - measured) < 0.02 * measured,
              f"gloo: rank {rank} ends at {end}, measured {measured}")


def check_nodes(name, nodes, device):
    streams = work(device)
    kept = [n for n in nodes if n.name != "host delay"]
    check_launches(name, nodes, device)
    want = collections.Counter(e["name"] for s in streams.values() for e in s)
    check(collections.Counter(n.name for n in kept) == want,
          f"{name}: other names than the trace's")
    delay = {n.id: n for n in nodes if n.name == "host delay"}
    by_stream = collections.defaultdict(list)
    for n in sorted(kept, key=lambda n: n.id):
        by_stream[n.attr["stream"][1]].append(n)
    for (_, stream), events in streams.items():
        mine = by_stream[stream]
        check([n.name for n in mine] == [e["name"] for e in events],
              f"{name}: stream {stream} in another order")
        for before, n in zip(mine, mine[1:]):
            through = {q for d in n.data for q in (delay[d].data if d in delay else [d])}
            check(before.id in through,
                  f"{name}: node {n.id} does not wait for {before.id}, the stream's last")
    check(all(d < n.id for n in nodes for d in n.data), f"{name}: a node waits for a later id")
    ends = [e["ts"] + e["dur"] for s in streams.values() for e in s]
    first = min(e["ts"] for e in json.loads(device)["traceEvents"] if e.get("cat") == "cpu_op")
    busy = sum(n.dur for n in nodes if n.type == COMP)
    check(abs(busy - (max(ends) - first)) < 0.02 * busy,
          f"{name}: {busy} us of compute, {max(ends) - first} measured")


def convert(folder, name):
    """Converts the trace to a trace set of two ranks and returns its prefix."""
    host, device = load(name, "host"), load(name, "device")
    for rank, texts in enumerate(((host, device), other_rank(host, device))):
        for kind, text in zip(("host", "device"), texts):
            with open(os.path.join(folder, f"{kind}.{rank}.json"), "w") as f:
                f.write(text)
    prefix = os.path.join(folder, "t")
    r = run("convert", "pytorch", "--host", os.path.join(folder, "host.*.json"), "--device",
            os.path.join(folder, "device.*.json"), "--profile", "astra-sim", "--output", prefix)
    check(r.returncode == 0, f"{name}: exit {r.returncode}: {r.stderr}")
    return prefix, device


def main():
    if not DATA or not os.path.isdir(os.path.join(DATA, "pytorch-traces")) or not TOOLS:
        skip("SYN_SHARED_DATA or SYN_SHARED_TOOLS is not set")
    etcheck = load_etcheck()
    for name in ("resnet_2gpu_rank0", "synth_allfeatures"):
        with tempfile.TemporaryDirectory() as folder:
            prefix, device = convert(folder, name)
            r = run_etcheck(prefix)
            check(r.returncode == 0, f"{name}: etcheck: {r.stdout[-2000:]}")
            check_nodes(name, etcheck.read(prefix + ".0.et"), device)
    # A trace without device work, communication and times leaves nothing to simulate.
    with tempfile.TemporaryDirectory() as folder:
        host = os.path.join(folder, "host.json")
        with open(host, "w") as f:
            f.write(load("simple_add_upgraded", "host"))
        out = os.path.join(folder, "t.0.et")
        r = run("convert", "pytorch", "--host", host, "--profile", "astra-sim", "--output", out,
                text=True)
        check(r.returncode == 1 and "no device work, communication" in r.stderr
              and not os.path.exists(out), f"without work: exit {r.returncode}: {r.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        check_gloo(folder, etcheck)
    finish()


main()
