"""Tests `syntorch convert pytorch` and `link` against known failures of other converters: lost
nodes, deep call chains, cycles, incomplete traces, every option, schemas, and linked traces. The
letters name the behaviours in the list of user needs."""
import collections
import copy
import json
import os
import random
import subprocess
import tempfile

from checks import PROGRAM, check, run
from execution_trace import COLL, RECV, SEND
import pytorch_traces as pt
from damaged_traces import main
from pytorch_traces import CLASSES, PROCESS, THREAD, attr, calls, convert, dump, good, places, \
    refused, set_attr

SANITIZED = subprocess.run(["grep", "-q", "__asan_init\\|__tsan_init", PROGRAM],
                           check=False).returncode == 0


def pairs_of(nodes, name=None):
    """Returns the dependencies of a class (None: all data_deps) as pairs of nodes. Nodes are
    compared by what they do, because ids depend on the order."""
    key = {n.id: (n.on_gpu, n.name, n.start) if n.on_gpu
           else (n.attr.get("rf_id"), n.name, n.attr.get("tid")) for n in nodes}
    check(len(set(key.values())) == len(nodes), "the test's keys are not unique")
    return {(key[d], key[n.id]) for n in nodes
            for d in (n.data if name is None else n.attr.get(name + "_deps", []))}


def parts(n):
    """Returns the properties of a node that do not depend on ids."""
    return (n.name, n.type, n.start, n.dur, n.on_gpu, n.attr.get("stream"))


# ---- Nothing is lost ----


def missing_parents(p, base):
    """Behaviour b: subtrees that lost their parent keep all their nodes."""
    ids = {n["id"]: n for n in p.nodes}
    roots = [n["id"] for n in p.nodes if n["name"] in (PROCESS, THREAD)]
    steps = [n["id"] for n in p.nodes if n["ctrl_deps"] in roots and n["id"] not in roots]
    q = p.copy()
    q.host["nodes"] = [n for n in q.nodes if n["id"] not in steps or "process_group" in n["name"]]
    left = {n["id"] for n in q.nodes}
    r = convert(*q.texts())
    what = f"{p.name}: {len(p.nodes) - len(q.nodes)} parents taken away"
    if good(what, r, q.kinds_kept()):
        check(r.anomalies["missing-parent"]["count"]
              == sum(n["ctrl_deps"] not in left for n in q.nodes), f"{what}: {r.anomalies}")
        check(calls(r.nodes) == calls(base.nodes),
              f"{what}: {calls(base.nodes) - calls(r.nodes)} lost")
    for n in q.nodes:
        if n["ctrl_deps"] not in ids or n["id"] not in roots:
            n["ctrl_deps"] = 10**7 + n["id"]
    what = f"{p.name}: no parent at all"
    r = convert(*q.texts())
    if good(what, r, q.kinds_kept()):
        kernels = [collections.Counter((n.name, n.start) for n in x.nodes if n.on_gpu
                                       and n.type in (SEND, RECV, COLL)) for x in (r, base)]
        check(kernels[0] == kernels[1], f"{what}: {kernels[1] - kernels[0]} lost")
        check("many-orphans" in r.rank["notes"], f"{what}: {r.rank['notes']}")


def lost_op(p, base):
    """An op that the observer failed to write stays on its stack, so the host trace names it as the
    caller of the next ops and of the ops after their callers. The Kineto trace has the true
    callers."""
    ids = {n["id"]: n for n in p.nodes}
    parents = {n["ctrl_deps"] for n in p.nodes}
    lost = next(n for n in p.nodes if n["name"].startswith("aten") and n["id"] in parents
                and attr(ids[n["ctrl_deps"]], "rf_id"))
    q = p.copy()
    q.host["nodes"] = [n for n in q.nodes if n["id"] != lost["id"]]
    after = [n for n in q.nodes if n["id"] > lost["id"] and n["ctrl_deps"] == lost["ctrl_deps"]
             and attr(n, "tid") == attr(lost, "tid")]
    for n in after:
        n["ctrl_deps"] = lost["id"]
    r = convert(*q.texts())
    what = f"{p.name}: an op lost with {len(after)} behind it"
    if not good(what, r, q.kinds()):
        return

    def callers(result):
        rf_ids = {n.id: n.attr.get("rf_id") for n in result.nodes}
        return {n.attr["rf_id"]: rf_ids[n.ctrl[0]] for n in result.nodes
                if not n.on_gpu and n.ctrl and n.attr.get("rf_id")}

    want = callers(base)
    above = want.pop(attr(lost, "rf_id"))
    want = {n: above if c == attr(lost, "rf_id") else c for n, c in want.items()}
    got = callers(r)
    check(got == want, f"{what}: callers {set(got.items()) - set(want.items())}")
    check(set(r.anomalies) == {"missing-parent"}, f"{what}: {r.anomalies}")


def streams(p, base):
    """Behaviour e: GPU work waits for the earlier work of its stream and for its launch."""
    order = collections.defaultdict(list)
    for n in base.nodes:
        if n.on_gpu:
            order[n.attr["stream"]].append(n)
    for stream, work in order.items():
        work.sort(key=lambda n: n.start)
        for a, b in zip(work, work[1:]):
            check(b.attr.get("stream_deps") == [a.id] and a.id in b.data,
                  f"{p.name}: stream {stream}: {b.id} does not wait for {a.id}")
        check("stream_deps" not in work[0].attr, f"{p.name}: stream {stream}: the first one waits")
        for n in work:
            check(n.attr.get("launch_deps") == n.ctrl and len(n.ctrl) == 1,
                  f"{p.name}: node {n.id} has no launch")
    last = {}
    # Collectives of a group run one after the other. test_convert_sets.py checks their order.
    for n in sorted((n for n in base.nodes if n.type == COLL), key=lambda n: n.id):
        if n.attr.get("pg_name") in last:
            before = last[n.attr["pg_name"]].id
            check(before in n.deps, f"{p.name}: collective {n.id} does not wait for {before}")
        last[n.attr.get("pg_name")] = n


def lacking(p, base):
    """Converts incomplete pairs: only a host trace, an empty Kineto trace, no kernel launches, and
    no ids of any kind."""
    r = convert(p.texts()[0])
    kinds = {k: v if k in ("host ops", "metadata") else 0 for k, v in p.kinds().items()}
    if good(f"{p.name}: host only", r, kinds):
        check("no-device-trace" in r.rank["notes"] and not r.anomalies,
              f"{p.name}: host only: {r.rank['notes']} {r.anomalies}")
        check(sum(calls(r.nodes).values()) == sum(calls(base.nodes).values()),
              f"{p.name}: host only: {calls(r.nodes)}, {calls(base.nodes)}")
    r = convert(p.texts()[0], b'{"traceEvents": []}')
    if good(f"{p.name}: no event", r, kinds):
        check({"no-cpu-ops", "no-device-work"} <= set(r.rank["notes"]),
              f"{p.name}: no event: {r.rank['notes']}")
    q = p.copy()
    q.device = {"traceEvents": [e for e in q.events if e.get("cat") in pt.GPU]}
    r = convert(*q.texts())
    if good(f"{p.name}: GPU only", r, p.kinds()):
        check("no-cpu-ops" in r.rank["notes"], f"{p.name}: GPU only: {r.rank['notes']}")
        check(r.anomalies.get("orphan", {}).get("count") == len(q.gpu()),
              f"{p.name}: GPU only: {r.anomalies}")
    q = p.copy()
    q.device["traceEvents"] = [e for e in q.events if e.get("cat") != "cuda_runtime"]
    good(f"{p.name}: no runtime", convert(*q.texts()), p.kinds())
    for e in q.events:
        e["args"] = {k: v for k, v in e.get("args", {}).items()
                     if k not in ("External id", "Record function id", "correlation")}
    r = convert(*q.texts())
    if good(f"{p.name}: no id", r, p.kinds()):
        check(r.rank["matches"]["device_time"] == len(q.gpu()),
              f"{p.name}: no id: {r.rank['matches']}")
        check({n.id: n.dur for n in r.nodes if not n.on_gpu}.values() and
              sorted(n.dur for n in r.nodes if n.on_gpu)
              == sorted(n.dur for n in base.nodes if n.on_gpu), f"{p.name}: no id: durations")
    bare = p.copy()
    bare.device = bare.events  # a list instead of an object
    r = convert(*bare.texts(), "--rank", "0")
    check(r.code == 0 and [vars(n) for n in r.nodes] == [vars(n) for n in base.nodes],
          f"{p.name}: a bare list of events: {r.said}")


# ---- Deep call chains, cycles ----


def deep():
    """Behaviour d: 200,000 nested ops, each with its own name."""
    n = 20000 if SANITIZED else 200000
    node = ('{"id": %d, "name": "%s", "ctrl_deps": %d, "attrs": [{"name": "rf_id", "value": %d}, '
            '{"name": "tid", "value": 1}]}')
    rows = [node % (1, PROCESS, 1, 0), node % (2, THREAD, 1, 0)]
    rows += [node % (i + 3, f"op {i}", i + 2, i + 1) for i in range(n)]
    host = '{"schema": "1.0.2-chakra.0.0.4", "pid": 1, "nodes": [%s]}' % ",\n".join(rows)
    event = ('{"ph": "X", "cat": "cpu_op", "name": "op %d", "pid": 1, "tid": 9, "ts": %d, '
             '"dur": %d, "args": {"Record function id": %d}}')
    rows = [event % (i, 1000 + i, 2 * (n - i), i + 1) for i in range(n)]
    rows.append('{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, '
                '"tid": 9, "ts": %d, "dur": 1, "args": {"correlation": 5}}' % (1000 + n))
    rows.append('{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": %d, "dur": 3, '
                '"args": {"correlation": 5, "stream": 7, "device": 0}}' % (2000 + n))
    device = '{"traceEvents": [%s]}' % ",\n".join(rows)
    for given in (None, device.encode()):
        r = convert(host.encode(), given, decode=given is not None)
        what = f"a chain of {n} ops, device trace {given is not None}"
        if not check(r.code == 0, f"{what}: exit {r.code}: {r.said[-300:]}"):
            continue
        if given is None:
            check(r.rank["nodes"]["host ops"] == {"in": n + 2, "out": n + 2},
                  f"{what}: {r.rank['nodes']}")
            continue
        check(len(r.nodes) == n + 2 + (given is not None) and pt.acyclic(r.nodes),
              f"{what}: {len(r.nodes)} nodes")
        by_id = {m.id: m for m in r.nodes}
        ops = [m for m in r.nodes if m.name.startswith("op ")]
        check(all(by_id[m.ctrl[0]].name == f"op {i - 1}" for i, m in enumerate(ops) if i),
              f"{what}: another chain")
        check(set(r.anomalies) == {"no-attribute"}, f"{what}: {r.anomalies}")
        kernel = [m for m in r.nodes if m.on_gpu]
        check(by_id[kernel[0].ctrl[0]] is ops[-1], f"{what}: the kernel's op")
        check(all(m.dur == 2 for m in ops), f"{what}: {sum(m.dur for m in ops)} us")
    # callers with higher ids; callers that do not exist
    for form, word in ((lambda i: i + 5, "parent-cycle"), (lambda i: 9 * n - i, "missing-parent")):
        rows = [node % (1, PROCESS, 1, 0), node
                % (2, THREAD, 1, 0)] + [node % (i + 3, "op", form(i), i + 1) for i in range(n - 2)]
        r = convert(('{"schema": "1.0.2-chakra.0.0.4", "nodes": [%s]}' % ",".join(rows)).encode(),
                    decode=False)
        check(r.code == 0 and r.anomalies.get(word, {}).get("count") in (n - 2, n - 4),
              f"{word}: {r.said}")


def linked_of(p):
    """Returns the output of `syntorch link` for a pair as a Python object, parsed strictly."""
    r = convert(*p.texts(), command=("link",))
    if not check(r.code == 0 and list(r.files) == ["t.0.et"], f"{p.name}: link: {r.said}"):
        return None

    def refuse(word):
        raise ValueError(word)

    return json.loads(r.et.decode("utf-8"), parse_constant=refuse)


def cycles(p, base):
    """Behaviour c: synchronisation edges that go back in time close cycles. Only these edges are
    dropped."""
    clean = linked_of(p)
    if clean is None:
        return
    for n in clean["nodes"]:
        n.pop("sync_dep", None)
        n.pop("inter_thread_dep", None)
    plain = convert(dump(clean), linked=True)
    if not good(f"{p.name}: linked", plain):
        return
    check(not plain.rank["dropped"] and not plain.anomalies, f"{p.name}: linked: {plain.anomalies}")
    work = [n for n in clean["nodes"] if n.get("cat")]
    hosts = [n for n in clean["nodes"] if not n.get("cat") and "ts" in n]
    chance = random.Random(4)
    for n_back in (1, 5, 25):
        doc = copy.deepcopy(clean)
        by_id = {n["id"]: n for n in doc["nodes"]}
        want = set()
        for _ in range(n_back):
            late = chance.choice(work[len(work) // 2:])
            early = by_id[chance.choice([h for h in hosts if h["ts"] < late["ts"] - 50
                                         and attr(h, "tid") == attr(late, "tid")])["id"]]
            early.setdefault("sync_dep", []).append(late["id"])
            want.add(((late["name"], int(late["ts"])), (early["name"], int(early["ts"]))))
        what = f"{p.name}: {n_back} edges back in time"
        r = convert(dump(doc), linked=True)
        if not good(what, r, plain.kinds):
            continue
        ids = {n.id: (n.name, n.start) for n in r.nodes}
        got = [(ids[d["from"]], ids[d["to"]]) for d in r.rank["dropped"]]
        check(set(got) == want and len(got) == len(set(got)),
              f"{what}: dropped {sorted(set(got) ^ want)}")
        check(all(d["class"] == "sync" for d in r.rank["dropped"]),
              f"{what}: {r.rank['dropped'][:3]}")
        check(r.anomalies.get("cycle", {}).get("count") == len(got), f"{what}: {r.anomalies}")
        check(pairs_of(r.nodes) == pairs_of(plain.nodes), f"{what}: other edges changed")
        refused(what, convert(dump(doc), None, "--strict", linked=True), "cycle")
    forward = copy.deepcopy(clean)
    late = next(n for n in forward["nodes"] if n["id"] == hosts[-1]["id"])
    late["sync_dep"] = [work[0]["id"], 10**9, "x", None]
    r = convert(dump(forward), linked=True)
    if good(f"{p.name}: an edge forward", r, plain.kinds):
        ids = {n.id: n.name for n in r.nodes}
        got = [(ids[d], n.name) for n in r.nodes for d in n.attr.get("sync_deps", [])]
        check(got == [(work[0]["name"], late["name"])] and not r.rank["dropped"],
              f"{p.name}: an edge forward: {got}")
    same = copy.deepcopy(clean)  # all at the same time, so the order of ids decides
    for n in same["nodes"]:
        if "ts" in n:
            n["ts"] = 5
    next(n for n in same["nodes"] if n["id"] == hosts[2]["id"])["sync_dep"] = [work[-1]["id"]]
    r = convert(dump(same), linked=True)
    if good(f"{p.name}: all at one time", r, plain.kinds):
        check(len(r.rank["dropped"]) == 1 and r.rank["dropped"][0]["class"] == "sync",
              f"{p.name}: all at one time: {r.rank['dropped']}")


# ---- Options ----


def edges(p, base):
    """--edges without a class removes the pairs of that class, except pairs that another class also
    joins, and changes nothing else."""
    base_pairs = pairs_of(base.nodes)
    own = {c: pairs_of(base.nodes, c) for c in CLASSES}
    check(all(own[c] for c in CLASSES if c != "group" or p.name != "fixture"),
          f"{p.name}: the test's trace lacks a class")
    for c in CLASSES:
        check(len(own[c]) == base.rank["dependencies"][c],
              f"{p.name}: {len(own[c])} {c} edges, told {base.rank['dependencies'][c]}")
        r = convert(*p.texts(), "--edges", ",".join(x for x in CLASSES if x != c))
        what = f"{p.name}: --edges without {c}"
        if not check(r.code == 0, f"{what}: {r.said}"):
            continue
        left = pairs_of(r.nodes)
        check(not pairs_of(r.nodes, c) and r.rank["dependencies"][c] == 0, f"{what}: still there")
        check(left <= base_pairs and base_pairs - left <= own[c], f"{what}: others are gone")
        for x in CLASSES:
            check(x == c or own[x] <= pairs_of(r.nodes, x) <= own[x] | own[c],
                  f"{what}: {x} changed")
        check(pt.acyclic(r.nodes), f"{what}: a cycle")
        only = convert(*p.texts(), "--edges", c)
        what = f"{p.name}: --edges {c}"
        if check(only.code == 0, f"{what}: {only.said}"):
            check(own[c] <= pairs_of(only.nodes, c), f"{what}: {own[c] - pairs_of(only.nodes, c)}")
            check(not any(pairs_of(only.nodes, x) for x in CLASSES if x != c),
                  f"{what}: others are there")
    none, every = (convert(*p.texts(), "--edges", x) for x in ("none", "all"))
    check(every.et == base.et, f"{p.name}: --edges all is not the default")
    tagged = set().union(*own.values())
    check(none.code == 0 and not any(pairs_of(none.nodes, x) for x in CLASSES),
          f"{p.name}: --edges none")
    check(base_pairs - tagged <= pairs_of(none.nodes) <= base_pairs,
          f"{p.name}: --edges none: the program's order")
    callers = [[{n.id: n.attr.get("rf_id") for n in x.nodes}.get(c)
                for n in sorted(x.nodes, key=lambda n: n.attr.get("rf_id"))
                if not n.on_gpu for c in n.ctrl] for x in (none, base)]
    check(callers[0] == callers[1], f"{p.name}: --edges none: callers")
    for wrong in ("lunch", "launch,", "", ",", "launch,,sync", "all,none"):
        r = convert(*p.texts(), "--edges", wrong)
        check(r.code == 2 and "--edges must be" in r.said and not r.files,
              f"{p.name}: --edges '{wrong}': exit {r.code}: {r.said}")


def dup_ids(p, base):
    q = p.copy()
    parents = collections.Counter(n["ctrl_deps"] for n in q.nodes)
    i = next(i for i, n in enumerate(q.nodes) if n["name"].startswith("aten") and parents[n["id"]]
             and not n["name"].endswith("copy_"))
    twin = copy.deepcopy(q.nodes[i])
    twin["name"] = "aten::twin"
    set_attr(twin, "rf_id", 10**9)
    q.nodes.append(twin)
    where = places(q.texts()[0], "nodes")
    child = next(n for n in q.nodes if n["ctrl_deps"] == twin["id"] and n is not twin)
    for how, name, byte in (("first", p.nodes[i]["name"], where[-1][0]),
                            ("last", "aten::twin", where[i][0])):
        r = convert(*q.texts(), "--dup_ids", how)
        if good(f"{p.name}: --dup_ids {how}", r, q.kinds()):
            a = r.anomalies.get("duplicate-id", {})
            check((a.get("count"), a.get("byte"), a.get("node")) == (1, byte, twin["id"]),
                  f"{p.name}: --dup_ids {how}: {r.anomalies}")
            by_id = {n.id: n for n in r.nodes}
            c = next(n for n in r.nodes if n.attr.get("rf_id") == attr(child, "rf_id")
                     and not n.on_gpu)
            check(by_id[c.ctrl[0]].name == name,
                  f"{p.name}: --dup_ids {how}: {by_id[c.ctrl[0]].name}")
    refused(f"{p.name}: --dup_ids error", convert(*q.texts(), "--dup_ids", "error"),
            f"byte {where[-1][0]}", f"node id {twin['id']}")
    check(convert(*p.texts(), "--dup_ids", "error").et == base.et,
          f"{p.name}: --dup_ids error without any")
    r = convert(*p.texts(), "--dup_ids", "both")
    check(r.code == 2 and not r.files, f"{p.name}: --dup_ids both: exit {r.code}")
    # with this node the reference's conversion ended in a cycle
    if pt.TRACES and p.name == "synth_allfeatures":
        real = pt.shared("resnet_2gpu_rank0")
        with open(os.path.join(pt.TRACES, "dup_id_node.json"), encoding="utf-8") as f:
            real.nodes.append(json.load(f))
        r = convert(dump(real.host), dump(real.device))
        if check(r.code == 0, f"resnet, an id twice: {r.said}"):
            check(r.anomalies["duplicate-id"]["count"] == 1 and not r.rank["dropped"],
                  f"resnet, an id twice: {r.anomalies}")
            check(r.kinds == real.kinds(), f"resnet, an id twice: {r.kinds}")
            pt.check_nodes("resnet, an id twice", r.nodes)


def usage(p, base):
    host, device = p.texts()
    for args in (("--object", "-1"), ("--object", "x"), ("--profile", "x"), ("--rank", "-2"),
                 ("--rank", "x"), ("--thread_gap", "-1"),
                 ("--compat", "--replay_check"), ("--no-such",)):
        r = convert(host, device, *args)
        check(r.code == 2 and not r.files, f"{p.name}: {args}: exit {r.code}: {r.said}")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "o.et")
        for args in ([], ["--output", out], ["--host", "h"],
                     ["--host", "h", "--linked", "l", "--output", out],
                     ["--linked", "l", "--device", "d", "--output", out]):
            done = run("convert", "pytorch", *args)
            check(done.returncode == 2 and not os.path.exists(out),
                  f"{args}: exit {done.returncode}")
        for args in (["--host", "absent", "--output", out], ["--host", "x*", "--output", out],
                     ["--host", folder, "--output", out]):
            done = run("convert", "pytorch", *args, cwd=folder)
            check(done.returncode == 1 and not os.listdir(folder),
                  f"{args}: exit {done.returncode}, {os.listdir(folder)}")
    r = convert(host, device, "--rank", "1")
    check(r.code == 0 and r.meta.get("rank") == 1 and r.rank["rank"] == 1,
          f"{p.name}: --rank 1: {r.meta}")
    check(base.meta.get("rank") == 0, f"{p.name}: the rank that the device trace says: {base.meta}")
    r = convert(host, device, "--replay_check")
    measured = max(e["ts"] + e["dur"] for e in p.events
                   if "dur" in e) - min(e["ts"] for e in p.events if "dur" in e)
    check(r.code == 0 and r.et == base.et, f"{p.name}: --replay_check changes the trace")
    replay = r.rank.get("replay", {})
    check(abs(replay.get("measured_ns", 0) / 1000 - measured) < 0.01 * measured,
          f"{p.name}: --replay_check: {replay}, {measured} us")
    r = convert(host, device, "--replay_check", "--profile", "astra-sim")
    replay = r.rank.get("replay", {})
    # The host time after the last device work is in no node of that profile.
    check(0.8 * measured < replay.get("replayed_ns", 0) / 1000 < 1.05 * measured,
          f"{p.name}: --replay_check: {replay}, {measured} us")
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("h", host), ("d", device)):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        done = run("convert", "pytorch", "--host", "h", "--device", "d", "--output", "o.et",
                   "--quiet", cwd=folder)
        check(done.returncode == 0 and not done.stdout and not done.stderr,
              f"--quiet: {done.stdout} {done.stderr}")
        done = run("convert", "pytorch", "--host", "h", "--device", "d", "--output", "-", "--quiet",
                   cwd=folder)
        check(done.returncode == 0 and done.stdout == base.et, "--output -")
        done = run("convert", "pytorch", "--host", "h", "--device", "d", "--output",
                   "no/such/folder/o.et", cwd=folder)
        check(done.returncode == 1 and b"no/such/folder" in done.stderr,
              f"a folder that is not there: {done.stderr}")
        done = run("convert", "pytorch", "--host", "h", "--device", "d", "--output", "o2.et",
                   cwd=folder)
        said = done.stdout.decode()
        k = base.rank["nodes"]["kernels"]["out"]
        check(f"{k} -> {k} kernels" in said and "matched:" in said and "dependencies:" in said,
              said)


# ---- Schemas, linked traces ----


def flat(p):
    """Returns the host trace in schema 1.0.1."""
    doc = {**p.host, "schema": "1.0.1", "nodes": []}
    for n in p.nodes:
        a = {x["name"]: x["value"] for x in n["attrs"]}
        doc["nodes"].append({
            "name": n["name"], "id": n["id"], "rf_id": a["rf_id"], "parent": n["ctrl_deps"],
            "fw_parent": a["fw_parent"],
            "seq_id": a["seq_id"], "scope": a["scope"], "tid": a["tid"], "fw_tid": a["fw_tid"],
            "op_schema": a["op_schema"],
            "inputs": n["inputs"]["values"], "input_shapes": n["inputs"]["shapes"],
            "input_types": n["inputs"]["types"],
            "outputs": n["outputs"]["values"], "output_shapes": n["outputs"]["shapes"],
            "output_types": n["outputs"]["types"]})
    return dump(doc)


def schemas(p, base):
    r = convert(flat(p), p.texts()[1])
    if good(f"{p.name}: schema 1.0.1", r, p.kinds()):
        check(not set(r.anomalies) - {"group-unknown", "peer-unknown"},
              f"{p.name}: schema 1.0.1: {r.anomalies}")
        for a, b in zip(r.nodes, base.nodes):
            same = parts(a) == parts(b) and a.io == b.io and a.ctrl == b.ctrl
            keys = (*pt.ATTRS, "is_cpu_op", "comm_type", "comm_size", "launch_deps", "stream_deps")
            same = same and all(a.attr.get(k) == b.attr.get(k) for k in keys)
            if not check(same, f"{p.name}: schema 1.0.1: {vars(a)}, {vars(b)}"):
                break


def sets_of_linked():
    for name in ("hostonly_chakra_1.0.2", "hostonly_pt2_1.1.1", "hostonly_resnet_1.1.0",
                 "simple_add_upgraded", "synth_allfeatures"):
        doc = pt.load(os.path.join(pt.TRACES, name, "linked.0.json.gz"))
        r = convert(dump(doc), linked=True)
        kinds = collections.Counter(pt.GPU[n["cat"]] if n.get("cat") else "metadata"
                                    if "process_group:init" in n["name"] else "host ops"
                                    for n in doc["nodes"])
        if good(f"{name}, linked", r, {k: kinds[k] for k in pt.KINDS}):
            check(not r.anomalies, f"{name}, linked: {r.anomalies}")
            names = collections.Counter(n["name"] for n in doc["nodes"])
            check(collections.Counter(n.name for n in r.nodes) == names, f"{name}, linked: names")
            with_times = {(n["name"], int(n["ts"])): n["exclusive_dur"] for n in doc["nodes"]
                          if "exclusive_dur" in n}
            got = {(n.name, n.start): n.dur for n in r.nodes if n.start is not None}
            near = {k: next(((k[0], k[1] + d) for d in (0, -1, 1)
                             if (k[0], k[1] + d) in with_times), None) for k in got}
            check(len(got) == len(with_times) and all(near.values()),
                  f"{name}, linked: times {[k for k, v in near.items() if not v][:3]}")
            check(all(abs(got[k] - max(with_times[v], 0)) <= 1 for k, v in near.items() if v),
                  f"{name}, linked: durations")


def linking(p, base):
    """Converting a linked file gives the same nodes, times and edges, as far as that file can hold
    them."""
    doc = linked_of(p)
    if doc is None:
        return
    check(len(doc["nodes"]) == len(p.nodes) + len(p.gpu()),
          f"{p.name}: link: {len(doc['nodes'])} nodes")
    check({k: v for k, v in doc.items() if k != "nodes"}
          == {k: v for k, v in p.host.items() if k != "nodes"}, f"{p.name}: link: top keys")
    ids = [n["id"] for n in doc["nodes"]]
    check(len(set(ids)) == len(ids) and all(n["ctrl_deps"] in ids for n in doc["nodes"]),
          f"{p.name}: link: ids")
    r = convert(dump(doc), None, "--rank", "0", linked=True)
    if not good(f"{p.name}: linked by us", r, p.kinds()):
        return
    check(not r.anomalies, f"{p.name}: linked by us: {r.anomalies}")
    by_id = [{n.id: n for n in x.nodes} for x in (r, base)]
    nodes = [sorted((*parts(n)[:3], n.on_gpu, str(n.attr.get("stream")),
                     [by_id[i][c].name for c in n.ctrl])
                    for n in x.nodes if n.start is not None) for i, x in enumerate((r, base))]
    check(nodes[0] == nodes[1],
          f"{p.name}: linked by us: {[(a, b) for a, b in zip(*nodes) if a != b][:2]}")
    check(len(r.nodes) == len(base.nodes), f"{p.name}: linked by us: {len(r.nodes)} nodes")
    durs = [{(n.name, n.start): n.dur for n in x.nodes} for x in (r, base)]
    check(all(abs(durs[0].get(k, -9) - d) <= 1 for k, d in durs[1].items()),
          f"{p.name}: linked by us: durations")
    for c in ("launch", "stream"):
        check(pairs_of(r.nodes, c) == pairs_of(base.nodes, c), f"{p.name}: linked by us: {c} edges")
    syncs = [{(a, b) for a, b in pairs_of(x.nodes, "sync") if b[0] is not True} for x in (r, base)]
    check(syncs[0] == syncs[1], f"{p.name}: linked by us: sync edges {syncs}")
    check(pairs_of(base.nodes, "thread") <= pairs_of(r.nodes, "thread"),
          f"{p.name}: linked by us: thread edges")
    program = pairs_of(base.nodes) - set().union(*(pairs_of(base.nodes, c) for c in CLASSES))
    check(program <= pairs_of(r.nodes), f"{p.name}: linked by us: the program's order")
    broken = dump(p.host)[:-200]
    r = convert(broken, p.texts()[1], command=("link",))
    check(r.code == 0 and json.loads(r.et), f"{p.name}: link of a truncated trace: {r.said}")
    r = convert(b"", p.texts()[1], command=("link",))
    refused(f"{p.name}: link of nothing", r, "empty")


EACH = (missing_parents, lost_op, streams, lacking, cycles, edges, dup_ids, usage, schemas, linking)


main(*EACH, once=[deep] + ([sets_of_linked] if pt.TRACES else []))
