"""Tests `syntorch convert pytorch` where the ids that join the host and the Kineto trace are
damaged, and on odd device events. The same ops must launch the same work as in the undamaged trace,
although they are matched in another way. Each anomaly is reported, and --strict refuses it."""
import copy

from checks import check
import damaged_traces
from execution_trace import COLL
from damaged_traces import by_rf, launches, run
from pytorch_traces import attr, convert, good, places, refused, set_attr


# ---- Ids that join the traces ----


def rf_id_twice(p, base):
    """Two CPU events have the same record function id, or two host nodes do."""
    q = p.copy()
    a, b = [e for e in q.events if e.get("cat") == "cpu_op"][4:6]
    lost = b["args"]["Record function id"]
    b["args"]["Record function id"] = a["args"]["Record function id"]
    at = places(q.texts()[1], "traceEvents")
    later = max(a, b, key=lambda e: e["ts"])
    sooner = a if later is b else b
    r = convert(*q.texts())
    if good(f"{p.name}: an rf_id of two events", r, q.kinds()):
        got = r.anomalies.get("duplicate-rf-id", {})
        byte = at[[e is later or e is sooner for e in q.events].index(True)][0]
        check(got.get("count") == 1 and got.get("byte")
              in (byte, at[[e is later for e in q.events].index(True)][0],
    at[[e is sooner for e in q.events].index(True)][0]),
              f"{p.name}: an rf_id of two events: {r.anomalies}")
        if a["name"] != b["name"]:
            check(by_rf(r, a["args"]["Record function id"])[0].dur
                  == by_rf(base, a["args"]["Record function id"])[0].dur,
                  f"{p.name}: the wrong one of two events")
    refused(f"{p.name}: an rf_id of two events", convert(*q.texts(), "--strict"), "duplicate-rf-id")
    q = p.copy()
    ops = [n for n in q.nodes if n["name"].startswith("aten::")]
    for x, y in ((x, y) for x in ops for y in ops):
        if y["name"] != x["name"] and y["id"] < x["id"]:
            break
    # y, which comes first, gets x's id but keeps its own name
    set_attr(y, "rf_id", attr(x, "rf_id"))
    r = convert(*q.texts())
    if good(f"{p.name}: an rf_id of two nodes", r, q.kinds()):
        check(r.anomalies.get("duplicate-rf-id", {}).get("count") == 1,
              f"{p.name}: an rf_id of two nodes: {r.anomalies}")
        mine = {n.name: n for n in by_rf(r, attr(x, "rf_id"))}
        check(mine[x["name"]].dur == by_rf(base, attr(x, "rf_id"))[0].dur
              and mine[y["name"]].start is None,
              f"{p.name}: an rf_id of two nodes: the event went to the wrong one")


def correlation(p, base):
    q = p.copy()
    calls = [e for e in q.events if e.get("cat") == "cuda_runtime"]
    work = {e["args"]["correlation"]: e for e in q.gpu()}
    launching = [e for e in calls if e["args"]["correlation"] in work]
    x, y = launching[2], launching[5]
    work[y["args"]["correlation"]]["args"]["correlation"] = x["args"]["correlation"]
    y["args"]["correlation"] = x["args"]["correlation"]
    where = places(q.texts()[1], "traceEvents")
    at = {where[i][0] for i, e in enumerate(q.events) if e is x or e is y}
    r = convert(*q.texts())
    if good(f"{p.name}: a correlation id twice", r, q.kinds()):
        a = r.anomalies.get("duplicate-correlation", {})
        check(a.get("count") == 1 and a.get("byte") in at,
              f"{p.name}: a correlation id twice: {r.anomalies}, {at}")
        check(launches(r) == launches(base),
              f"{p.name}: a correlation id twice: another op launched")
    refused(f"{p.name}: a correlation id twice", convert(*q.texts(), "--strict"),
            "duplicate-correlation")
    q = p.copy()
    for e in q.events:
        if e.get("cat") == "cuda_runtime":
            del e["args"]["correlation"]
    r = run("launches without correlation ids", q)
    if r:
        check(launches(r) == launches(base),
              f"{p.name}: launches without correlation ids: another op launched")
        check(r.rank["matches"]["device_external_id"] == len(q.gpu()),
              f"{p.name}: {r.rank['matches']}")
    for e in q.gpu():
        del e["args"]["correlation"]
    r = run("no correlation ids", q)
    if r:
        check(launches(r) == launches(base), f"{p.name}: no correlation ids: another op launched")
        check("no-correlation" in r.rank["notes"], f"{p.name}: {r.rank['notes']}")


def external_id(p, base):
    q = p.copy()
    for e in q.events:
        e.get("args", {}).pop("External id", None)
    r = run("no External id", q)
    check(r and r.et == base.et, f"{p.name}: no External id: differs")


def no_rf_ids(p, base):
    q = p.copy()
    for e in q.events:
        e.get("args", {}).pop("Record function id", None)
    r = run("no record function id", q)
    if r:
        check(r.et == base.et, f"{p.name}: no record function id: differs")
        check("no-rf-ids" in r.rank["notes"], f"{p.name}: {r.rank['notes']}")
        m = r.rank["matches"]
        check(m["host_external_id"] + m["host_name_order"] == base.rank["matches"]["host_rf_id"],
              f"{p.name}: {m}")
    for e in q.events:
        e.get("args", {}).pop("External id", None)
    r = run("neither record function id nor External id", q)
    check(r and r.et == base.et, f"{p.name}: neither id: differs")
    q = p.copy()
    for e in q.events:  # in traces of 2023, External id is the rf_id of the host trace
        if "Record function id" in e.get("args", {}):
            e["args"]["External id"] = e["args"].pop("Record function id")
    r = run("External id for rf_id", q)
    if r:
        check(r.rank["matches"]["host_external_id"] == base.rank["matches"]["host_rf_id"],
              f"{p.name}: {r.rank['matches']}")
        check(launches(r) == launches(base), f"{p.name}: External id for rf_id")


def forked(p, base):
    """A data loader's workers are forked from the recorded process. They continue its ids and write
    to its file."""
    q = p.copy()
    ops = sorted((n for n in q.nodes if attr(n, "rf_id")), key=lambda n: n["id"])
    worker = copy.deepcopy(ops[len(ops) // 2:])
    for n in worker:
        n["name"] = "aten::stack"
    q.nodes[:0] = worker
    r = convert(*q.texts())
    if not good(f"{p.name}: forked workers", r, q.kinds()):
        return
    check(set(r.anomalies) == {"duplicate-id", "duplicate-rf-id"},
          f"{p.name}: forked workers: {r.anomalies}")
    check(r.rank["matches"]["host_rf_id"] == base.rank["matches"]["host_rf_id"],
          f"{p.name}: forked workers: {r.rank['matches']}")
    check(launches(r) == launches(base), f"{p.name}: forked workers: another op launched")

    def ran(result):
        names = {n.id: n.name for n in result.nodes}
        return sorted((n.name, n.start, n.dur, [names[c] for c in n.ctrl])
                      for n in result.nodes if n.start is not None)

    check(ran(r) == ran(base), f"{p.name}: forked workers: other times or callers")


def odd_names(p, base):
    """The observer writes names unchanged while Kineto changes their words. Record function ids
    still match the ops."""
    q = p.copy()
    ids = {attr(n, "rf_id") for n in q.nodes if n["name"].startswith("aten::")}
    kineto = {'step "%d"': "step '%d'", "C:\\dir\\%d": "C:/dir/%d", "new\nline %d": "newline %d",
              "\u0448\u0430\u0433 %d": "unknown"}
    for i, (name, other) in enumerate(kineto.items()):
        for n in q.nodes:
            if attr(n, "rf_id") in ids and attr(n, "rf_id") % 4 == i:
                n["name"] = name.replace("%d", str(attr(n, "rf_id")))
        for e in q.events:
            rf_id = e.get("args", {}).get("Record function id")
            if rf_id in ids and rf_id % 4 == i:
                e["name"] = other.replace("%d", str(rf_id))
    host, device = q.texts()
    r = convert(host.replace(b'\\"', b'"').replace(b"\\n", b"\n").replace(b"\\\\", b"\\"), device)
    if good(f"{p.name}: odd names", r, q.kinds()):
        check(set(r.anomalies) == {"quote", "control"}, f"{p.name}: odd names: {r.anomalies}")
        check(launches(r) == launches(base), f"{p.name}: odd names: another op launched")
        check(r.rank["matches"]["host_rf_id"] == base.rank["matches"]["host_rf_id"],
              f"{p.name}: odd names: {r.rank['matches']}")
        said = {n.name for n in r.nodes}
        lost = [n["name"] for n in q.nodes if n["name"] not in said]
        check(not lost, f"{p.name}: odd names: lost {lost[:3]}")


# ---- Device events ----


def no_time(p, base):
    for choose, which in (("kernel", 0), ("kernel", 3), ("kernel", -1), ("cpu_op", 3),
                          ("cuda_runtime", 3)):
        q = p.copy()
        i = [k for k, e in enumerate(q.events) if e.get("cat") == choose][which]
        del q.events[i]["ts"]
        at = places(q.texts()[1], "traceEvents")[i][0]
        r = run(f"a {choose} without ts", q, extra={"no-time": (1, at, None)})
        if r:
            check(len(r.nodes) == len(base.nodes),
                  f"{p.name}: a {choose} without ts: {len(r.nodes)} nodes")
            if choose == "kernel":
                n = [n for n in r.nodes if n.on_gpu and n.start is None]
                check(len(n) == 1 and n[0].name == q.events[i]["name"] and n[0].data,
                      f"{p.name}: a kernel without ts: {n}")
                check(launches(r).get((n[0].name, None)) in launches(base).values(),
                      f"{p.name}: a kernel without ts: its launch")
                at = [n.id for n in r.nodes if n.on_gpu
                      and n.attr["stream"] == q.events[i]["args"]["stream"]].index(n[0].id)
                was = [(n.name, n.start) for n in base.nodes if n.on_gpu
                       and n.attr["stream"] == q.events[i]["args"]["stream"]]
                check(which < 0 or was[at] == (n[0].name, int(p.events[i]["ts"])),
                      f"{p.name}: a kernel without ts: its place on the stream")
                check(n and n[0].dur in (int(q.events[i]["dur"]), int(q.events[i]["dur"]) + 1),
                      f"{p.name}: a kernel without ts: its duration")
    for value in (None, [], "x"):
        q = p.copy()
        i = [k for k, e in enumerate(q.events) if e.get("cat") == "kernel"][3]
        q.events[i]["args"] = value
        at = places(q.texts()[1], "traceEvents")[i][0]
        extra = {"no-args": (1, at, None), "time-only": (1, at, None)}
        r = run(f"a kernel with args {value}", q, extra=extra)
        check(r and len(r.nodes) == len(base.nodes), f"{p.name}: args {value}")


def flows(p, base):
    q = p.copy()
    for e in q.events:
        if e.get("cat") == "ac2g":
            e.pop("id")
    r = run("flows without id", q)
    check(r and r.et == base.et, f"{p.name}: flows without id: differs")


def no_step(p, base):
    q = p.copy()
    q.device["traceEvents"] = [e for e in q.events if "ProfilerStep" not in e["name"]]
    r = run("no ProfilerStep", q)
    if r:
        check(r.rank["dependencies"]["sync"] == base.rank["dependencies"]["sync"] > 0,
              f"{p.name}: no ProfilerStep: sync edges")
        check(launches(r) == launches(base), f"{p.name}: no ProfilerStep: launches")


def no_work(p, base):
    q = p.copy()
    q.device["traceEvents"] = [e for e in q.events if e.get("cat") in ("cpu_op", "user_annotation")]
    r = run("CPU ops only", q)
    if r:
        check("no-device-work" in r.rank["notes"], f"{p.name}: CPU ops only: {r.rank['notes']}")
        check({n.attr["rf_id"]: n.dur for n in r.nodes}
              == {n.attr["rf_id"]: n.dur for n in base.nodes if not n.on_gpu},
              f"{p.name}: CPU ops only")


def kernel_names(p, base):
    """Tests an all-reduce that only the kernel's name identifies."""
    # name, collective type (None: generic)
    names = (("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 0),
             ("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", 1),
             ("ncclDevKernel_Gather_RING_LL(x)", 3), ("ncclDevKernel_Scatter_RING_LL(x)", 4),
             ("ncclDevKernel_Barrier(x)", 9),
             ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", 7),
             ("ncclKernel_AllGather_RING_LL_Sum_int8_t(x)", 2),
             ("ncclDevKernel_Generic(x)", None), ("ncclDevKernel_Wormhole_f32(x)", None))
    old = next(e["name"] for e in p.events if "AllReduce" in e["name"])
    for name, kind in names:
        q = p.copy()
        for e in q.gpu():
            if e["name"] == old:
                e["name"] = name
                e["args"].pop("Collective name", None)
        bare = q.copy()
        for e in bare.events:
            if "all_reduce" in e["name"] or "allreduce" in e["name"]:
                e["name"] = "work"
        for n in bare.nodes:
            if attr(n, "collective_name") == "all_reduce":
                set_attr(n, "collective_name", None)
            if "all_reduce" in n["name"] or "allreduce" in n["name"]:
                n["name"] = "work"
        r = convert(*bare.texts())
        if good(f"{p.name}: {name}", r, bare.kinds()):
            work = [n for n in r.nodes if n.name == name]
            check(work and all(n.type == COLL for n in work),
                  f"{p.name}: {name}: no communication")
            if kind is None:
                check(all(n.attr.get("generic") == 1 for n in work),
                      f"{p.name}: {name}: not generic")
                check(r.anomalies.get("unknown-collective", {}).get("count") == len(work),
                      f"{p.name}: {name}: {r.anomalies}")
            else:
                check(all(n.attr["comm_type"] == kind and "generic" not in n.attr for n in work),
                      f"{p.name}: {name}: {[n.attr for n in work][:1]}")
                check("unknown-collective" not in r.anomalies, f"{p.name}: {name}: {r.anomalies}")
        r = convert(*q.texts())  # the host trace decides, whatever the kernel's name
        if good(f"{p.name}: {name} of an all-reduce", r, q.kinds()):
            work = [n for n in r.nodes if n.name == name]
            check(work and all(n.type == COLL and n.attr["comm_type"] == 0 for n in work),
                  f"{p.name}: {name} of an all-reduce")


def odd_tensor(p, base):
    """If a collective's tensor has no value, its size comes from elsewhere, or is reported as
    unknown."""
    q = p.copy()
    for e in q.events:
        for key in ("In msg nelems", "Out msg nelems", "dtype"):
            e.get("args", {}).pop(key, None)
    records = [n for n in q.nodes if n["name"] == "record_param_comms" or "all_reduce" in n["name"]
               or "allreduce" in n["name"]]
    for n in records:
        for name in ("in_msg_nelems", "out_msg_nelems", "dtype"):
            set_attr(n, name, None)
    name = next(e["name"] for e in p.events if "AllReduce" in e["name"])

    def sizes(what, q):
        r = convert(*q.texts())
        return r, [n.attr["comm_size"] for n in r.nodes
                   if n.name == name] if good(f"{p.name}: {what}", r, q.kinds()) else []

    true = [n.attr["comm_size"] for n in base.nodes if n.name == name]
    check(sizes("sizes from tensors", q)[1] == true, f"{p.name}: sizes from tensors")
    for n in q.nodes:
        for key in ("inputs",):
            n[key]["values"] = ["<UNKNOWN>" if "Tensor" in t else v
                                for v, t in zip(n[key]["values"], n[key]["types"])]
    check(sizes("sizes from outputs", q)[1] == true, f"{p.name}: sizes from outputs")
    for n in q.nodes:
        n["outputs"]["values"] = ["<UNKNOWN>" for _ in n["outputs"]["values"]]
    r, got = sizes("no sizes", q)
    check(got == [1] * len(true), f"{p.name}: no sizes: {got}")
    check(r.anomalies.get("size-unknown", {}).get("count", 0) >= len(true),
          f"{p.name}: no sizes: {r.anomalies}")
    for n in q.nodes:
        if n["name"] == "record_param_comms":
            n["attrs"] += [{"name": "in_msg_nelems", "type": "uint64", "value": 333},
                           {"name": "dtype", "type": "string", "value": "BFloat16"}]
    check(sizes("sizes from attributes", q)[1] == [666] * len(true),
          f"{p.name}: sizes from attributes")


damaged_traces.main(rf_id_twice, correlation, external_id, no_rf_ids, forked, odd_names, no_time,
                    flows, no_step, no_work, kernel_names, odd_tensor)
