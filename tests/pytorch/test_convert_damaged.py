"""Tests `syntorch convert pytorch` on damaged and odd files and host nodes. It converts everything
that is readable and reports each kind of anomaly with its count and first position. --strict
refuses each damage. Each case is one edit of an intact pair of files."""
import gzip
import json
import re

from checks import check
import damaged_traces
from damaged_traces import by_rf, check_anomalies, expected, launches, leaf, middle, parent_of, \
    run, thread_root
from pytorch_traces import ATTRS, PROCESS, THREAD, attr, convert, dump, good, places, refused, \
    set_attr

# reports that cut-off nodes would have caused
LOST_WITH_HOST = ("time-only", "orphan", "peer-unknown", "group-unknown", "size-unknown")


# ---- Files cut off, several objects, commas, words ----


def undamaged(p, base):
    r = run("undamaged", p)
    check(r and r.et == base.et, f"{p.name}: not the same twice")


def host_cut(p, base):
    whole, where = p.texts()[0], places(p.texts()[0], "nodes")
    for k in (len(where) // 2, len(where) - 1, 3):
        left = p.copy()
        left.host["nodes"] = p.nodes[:k]
        for at in (where[k][0] + 1, (where[k][0] + where[k][1]) // 2, where[k][1] - 1):
            what = f"{p.name}: host cut at {at}"
            r = convert(whole[:at], p.texts()[1])
            want = expected(left.nodes, where)
            want["truncated"] = (1, where[k][0], None)
            got_kinds = {**left.kinds_kept(), **{kind: n for kind, n in p.kinds().items()
                                            if kind not in ("host ops", "metadata")}}
            if good(what, r, got_kinds, made_up="no-root" in want):
                check_anomalies(what, r, {**want,
                                          **{k: v for k, v in reported(r).items()
                                             if k in LOST_WITH_HOST}})
                check(r.rank["matches"]["device_events"] == len(p.gpu()), what)
            refused(what, convert(whole[:at], p.texts()[1], "--strict"), "truncated")
    for at in (where[-1][1], where[-1][1] + 1):
        r = run(f"host cut behind the list at {at}", p, host=whole[:at],
                extra={"truncated": (1, at, None)})
        check(r and [(n.id, n.name, n.deps) for n in r.nodes]
              == [(n.id, n.name, n.deps) for n in base.nodes], "another trace")


def reported(r):
    return {k: (a["count"], a.get("byte"), a.get("node")) for k, a in r.anomalies.items()}


def device_cut(p, base):
    host, whole = p.texts()
    where = places(whole, "traceEvents")
    k = len(where) * 2 // 3
    left = p.copy()
    left.device["traceEvents"] = p.events[:k]
    for at in (where[k][0] + 1, (where[k][0] + where[k][1]) // 2):
        r = convert(host, whole[:at])
        if good(f"{p.name}: device cut at {at}", r, left.kinds()):
            a = r.anomalies.pop("truncated", {})
            check((a.get("count"), a.get("byte"),
                   a.get("file")) == (1, where[k][0], "device.0.json"),
                  f"{p.name}: device cut: {a}")
            check(set(r.anomalies) <= {"time-only", "orphan"},
                  f"{p.name}: device cut: {r.anomalies}")
            m, events = r.rank["matches"], [e for e in left.events
                                            if "Record function id" in e.get("args", {})]
            check(m["host_rf_id"] == len(events) == m["cpu_events"], f"{p.name}: device cut: {m}")
        refused(f"{p.name}: device cut", convert(host, whole[:at], "--strict"), "truncated")


def objects(p, base):
    host, device = p.texts()
    other = p.copy()
    other.host["pid"] = 77
    del other.host["nodes"][leaf(p)]
    both, met = host + dump(other.host), {"objects": (2, len(host), None)}
    r = run("two objects", other, host=both, extra=met)
    check(r and r.meta["pid"] == 77, f"{p.name}: not the last object")
    what = f"{p.name}: --object "
    for n, q in ((0, p), (1, other)):
        r = convert(both, device, "--object", str(n))
        if good(what + str(n), r, q.kinds()):
            check_anomalies(what + str(n), r, met)
            check(r.meta["pid"] == q.host["pid"], what + str(n))
            check(n != 0 or r.et == base.et, what + "0: differs")
    r = convert(both, device, "--object", "all")
    kinds = {k: v + (other.kinds()[k] if k in ("host ops", "metadata") else 0)
             for k, v in p.kinds().items()}
    if good(what + "all", r, kinds):
        check("duplicate-id" not in r.anomalies,
              f"{what}all: ids count anew in each object: {r.anomalies}")
    refused(what + "2", convert(both, device, "--object", "2"), "has 2 JSON objects")
    cut = len(host) + places(dump(other.host), "nodes")[10][0] + 5
    r = convert(both[:cut], device)
    if good(f"{p.name}: the second object cut", r, p.kinds()):
        check(r.et == base.et, f"{p.name}: the second object cut: not the last complete one")
        check({"objects", "truncated"} >= set(r.anomalies) >= {"objects"},
              f"{p.name}: the second object cut: {r.anomalies}")


def commas(p, base):
    host, device = p.texts()
    end = places(host, "nodes")[-1][1]
    r = run("trailing comma", p, host=host[:end] + b" ," + host[end:],
            extra={"extra-comma": (1, end + 1, None)})
    check(r and r.et == base.et, f"{p.name}: trailing comma: differs")
    end = places(device, "traceEvents")[-1][1]
    r = run("trailing comma in the device trace", p, device=device[:end] + b"," + device[end:],
            extra={"extra-comma": (1, end, None)})
    check(r and r.et == base.et, f"{p.name}: trailing comma of the device trace: differs")
    end = places(host, "nodes")[4][1]
    r = run("missing comma", p, host=host[:end] + host[end + 1:],
            extra={"missing-comma": (1, end + 1, None)})
    check(r and r.et == base.et, f"{p.name}: missing comma: differs")


def words(p, base):
    q = p.copy()
    i = leaf(q)
    q.nodes[i]["inputs"] = {**q.nodes[i]["inputs"], "values": [1.5, "MARK", 2.5],
                            "shapes": [[], [], []], "types": ["Double", "String", "Double"]}
    host = q.texts()[0]
    at = host.index(b'1.5, "MARK", 2.5')
    bad = host.replace(b'1.5, "MARK", 2.5', b'NaN, "a\nb\x01", -Infinity')
    want = {"bare-word": (2, at, None), "control": (2, at + 7, None)}
    r = run("NaN, Infinity and control characters", q, host=bad, extra=want)
    if r:
        n = by_rf(r, attr(q.nodes[i], "rf_id"))
        check(len(n) == 1 and n[0].io[0][1] == "[nan, 'a\\nb\\x01', -inf]",
              f"{p.name}: values {n[0].io[0]}")
    name = b'"name": "%s"' % q.nodes[i]["name"].encode()
    places_of = [m.start() for m in re.finditer(re.escape(name), host)]
    r = run("a raw control character in names", q, host=host.replace(name, name[:-1] + b'\t"'),
            extra={"control": (len(places_of), places_of[0] + len(name) - 1, None)})
    check(r and sum(n.name == q.nodes[i]["name"] + "\t" for n in r.nodes) == len(places_of),
          f"{p.name}: names with tabs")
    refused(f"{p.name}: empty", convert(b"", p.texts()[1]), "empty")
    refused(f"{p.name}: blanks", convert(b" \n", p.texts()[1]), "host.0.json")
    refused(f"{p.name}: no trace", convert(b'{"schema": "1.0.2"}', p.texts()[1]),
            "has no nodes of a host trace")
    refused(f"{p.name}: no device trace", convert(p.texts()[0], b'{"a": 1}'),
            "has no list of events")
    refused(f"{p.name}: empty device trace", convert(p.texts()[0], b""), "device.0.json")


# ---- Nodes ----


def no_id(p, base):
    q = p.copy()
    i = middle(q)
    gone = q.nodes[i].pop("id")
    r = run("a node without id", q)
    if r:
        check(len(r.nodes) == len(base.nodes) - 1 and not by_rf(r, attr(q.nodes[i], "rf_id")),
              f"{p.name}: the node without id")
        check(r.anomalies["missing-parent"]["count"]
              == sum(n["ctrl_deps"] == gone for n in q.nodes), f"{p.name}: {r.anomalies}")


def check_caller(what, q, i, r, base):
    """The Kineto trace has the true caller. Without it, the root of the thread becomes the
    caller."""
    rf_id = attr(q.nodes[i], "rf_id")
    got, true = (parent_of(x, by_rf(x, rf_id)[0]).attr.get("rf_id") for x in (r, base))
    check(got == true, f"{q.name}: {what}: called by {got}, not {true}")
    alone = convert(q.texts()[0])
    n = by_rf(alone, rf_id)[0]
    check(parent_of(alone, n) is thread_root(alone, n),
          f"{q.name}: {what}: without device trace hangs from {n.ctrl}")


def no_parent(p, base):
    q = p.copy()
    i = middle(q)
    del q.nodes[i]["ctrl_deps"]
    r = run("a node without ctrl_deps", q)
    if r:
        check_caller("without ctrl_deps", q, i, r, base)


def no_attribute(p, base):
    for name in ATTRS:
        q = p.copy()
        i = leaf(q)
        set_attr(q.nodes[i], name, None)
        r = run("a node without " + name, q)
        if r and name == "rf_id":
            n = [n for n in r.nodes if "rf_id" not in n.attr and not n.on_gpu]
            check(len(n) == 1 and n[0].name == p.nodes[i]["name"],
                  f"{p.name}: without rf_id: {len(n)} nodes")
        elif r:
            was = next(n for n in base.nodes if not n.on_gpu
                       and n.attr.get("rf_id") == attr(p.nodes[i], "rf_id"))
            n = next(n for n in r.nodes if n.id == was.id)
            check(n.name == was.name and name not in n.attr, f"{p.name}: {name} is there")
            check({a: n.attr.get(a) for a in ATTRS
                   if a != name} == {a: was.attr.get(a) for a in ATTRS if a != name},
                  f"{p.name}: {name}")
            check(n.dur == was.dur and n.deps == was.deps,
                  f"{p.name}: without {name}: {n.dur} us, {n.deps}; {was.dur} us, {was.deps}")
    q = p.copy()
    i = leaf(q)
    q.nodes[i]["attrs"] = []
    run("a node without attributes", q)
    del q.nodes[i]["attrs"]
    q.nodes[i].update(attrs=[])
    bad = q.texts()[0].replace(b', "attrs": []', b"")
    check(bad != q.texts()[0], "the test's edit")
    r = convert(bad, q.texts()[1])
    good(f"{p.name}: a node without attrs", r, q.kinds())


def no_root(p, base):
    q = p.copy()
    q.host["nodes"] = [n for n in p.nodes if n["name"] != PROCESS]
    r = run("no process root", q, made_up=1)
    if r:
        root = [n for n in r.nodes if n.name == PROCESS]
        check(len(root) == 1 and len(r.nodes) == len(base.nodes),
              f"{p.name}: no root: {len(r.nodes)} nodes")
        check(all(n.ctrl == [root[0].id] for n in r.nodes if n.name == THREAD),
              f"{p.name}: threads hang from others")


def duplicate_id(p, base):
    q = p.copy()
    i = leaf(q)
    twin = json.loads(json.dumps(q.nodes[i]))
    twin["name"] = "aten::twin"
    set_attr(twin, "rf_id", 10**9)
    q.nodes.insert(i + 1, twin)
    r = run("an id twice", q)
    if r:
        check(sum(n.name == "aten::twin" for n in r.nodes) == 1
              and len(r.nodes) == len(base.nodes) + 1, f"{p.name}: an id twice")
    twin["ctrl_deps"] = next(n["id"] for n in p.nodes if n["name"] == THREAD)
    run("an id twice, another parent", q)
    third = json.loads(json.dumps(twin))
    third["name"] = "aten::third"
    q.nodes.append(third)
    run("an id three times", q)


def missing_parent(p, base):
    q = p.copy()
    i = middle(q)
    q.nodes[i]["ctrl_deps"] = 4_000_000
    r = run("a parent that is not there", q)
    if r:
        check_caller("a parent that is not there", q, i, r, base)
        check(len(r.nodes) == len(base.nodes) and launches(r) == launches(base),
              f"{p.name}: a parent that is not there: something else changed")


def parent_cycle(p, base):
    q = p.copy()
    i = middle(q)
    child = next(n for n in q.nodes if n["ctrl_deps"] == q.nodes[i]["id"])
    q.nodes[i]["ctrl_deps"] = child["id"]
    r = run("a cycle of parents", q)
    check(r and r.anomalies["parent-cycle"]["node"] == q.nodes[i]["id"],
          f"{p.name}: cycle of parents")


def foreign_parent(p, base):
    q = p.copy()
    i = leaf(q)
    node = q.nodes[i]
    other = next(n for n in q.nodes if attr(n, "tid") not in (0, attr(node, "tid"))
                 and n["name"] != THREAD and n["id"] < node["id"])
    node["ctrl_deps"] = other["id"]
    r = run("a parent in another thread", q)
    if r:
        n = by_rf(r, attr(node, "rf_id"))[0]
        check(parent_of(r, n) is thread_root(r, n), f"{p.name}: hangs from {n.ctrl}")


def odd_numbers(p, base):
    q = p.copy()
    i = leaf(q)
    q.nodes[i]["id"] = -5
    r = run("a negative id", q)
    check(r and r.nodes and by_rf(r, attr(q.nodes[i], "rf_id"))[0].dur
          == by_rf(base, attr(q.nodes[i], "rf_id"))[0].dur, f"{p.name}: negative id")
    for big in (2**63, 2**64 - 1):
        q = p.copy()
        was = attr(q.nodes[i], "rf_id")
        set_attr(q.nodes[i], "rf_id", big)
        for e in q.events:
            if e.get("args", {}).get("Record function id") == was:
                e["args"]["Record function id"] = big
        r = run(f"rf_id {big}", q)
        if r:
            n = by_rf(r, big - 2**64)
            check(len(n) == 1 and n[0].dur == by_rf(base, was)[0].dur,
                  f"{p.name}: rf_id {big}: not matched")
            check(r.rank["matches"]["host_rf_id"] == base.rank["matches"]["host_rf_id"],
                  f"{p.name}: rf_id {big}")


# ---- Schemas, files, numbers as strings ----


def schemas(p, base):
    for schema in ("1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.0.4-chakra.0.0.4",
                   "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4",
                   "1.1.1-chakra.1.0.0", "1.1.2-chakra.0.0.4", "7.7"):
        q = p.copy()
        q.host["schema"] = schema
        host = q.texts()[0]
        known = schema not in ("1.1.2-chakra.0.0.4", "7.7")
        r = run("schema " + schema, q, extra={} if known
                else {"schema": (1, host.index(b'"%s"' % schema.encode()), None)})
        if r:
            check(r.meta["schema"] == schema, f"{p.name}: {r.meta}")
            check([vars(n) for n in r.nodes] == [vars(n) for n in base.nodes],
                  f"{p.name}: schema {schema}: differs")


def files(p, base):
    host, device = p.texts()
    for names in (("in/host.0.json", "a folder/deep/device.json"), ("./h", "../" * 1 + "device")):
        if names[1].startswith(".."):
            continue
        r = run(f"files {names}", p, names=names)
        check(r and r.et == base.et, f"{p.name}: files {names}")
    for names in (("host.0.json", "device.0.json"), ("h.gz", "d.bin"), ("h.json.gz", "d")):
        r = convert(gzip.compress(host), gzip.compress(device), names=names)
        if r.code == 1 and "without zlib" in r.said:
            return
        check(r.code == 0 and r.et == base.et and not r.anomalies,
              f"{p.name}: gzip as {names}: {r.said}")
    r = convert(host, device, names=("h.json.gz", "d.gz"))
    check(r.code == 0 and r.et == base.et, f"{p.name}: .gz that is none: {r.said}")
    r = convert(gzip.compress(host)[:-1000], gzip.compress(device))
    check(r.code == 0 and "truncated" in r.anomalies, f"{p.name}: gzip, cut: {r.said}")
    good(f"{p.name}: gzip, cut", r, made_up="no-root" in (r.anomalies if r.code == 0 else {}))


def texts_for_numbers(p, base):
    q = p.copy()
    for e in q.events:
        e["pid"], e["tid"] = str(e["pid"]), str(e["tid"])
    r = run("process and thread ids as texts", q)
    check(r and r.et == base.et, f"{p.name}: ids as texts: differs")
    q = p.copy()
    for e in q.events:
        if e["tid"] == q.events[0]["tid"]:
            e["tid"] = "Spans"
    r = run("a thread named Spans", q)
    check(r and r.et == base.et, f"{p.name}: a thread named Spans: differs")
    q = p.copy()
    q.events.insert(3, {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
                        "tid": "PyTorch Profiler",
                        "ts": q.events[0]["ts"], "dur": 12.5, "args": {"Op count": 0}})
    q.events.append({"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "",
                     "ts": 10**9})
    q.events.insert(0, {"name": "process_name", "ph": "M", "ts": 0, "pid": 0, "tid": 0,
                        "args": {"name": "python"}})
    r = run("spans and metadata", q)
    check(r and r.et == base.et, f"{p.name}: spans and metadata: differs")


damaged_traces.main(undamaged, host_cut, device_cut, objects, commas, words, no_id, no_parent,
                    no_attribute, no_root,
                    duplicate_id, missing_parent, parent_cycle, foreign_parent, odd_numbers,
                    schemas, files, texts_for_numbers)
