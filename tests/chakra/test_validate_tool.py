#!/usr/bin/python3
"""Compares `syntorch validate` and `syntorch stat` with etcheck.py, a checker that has its own
decoder. The inputs are random edits of a small trace set, all traces of the shared data, and a
trace set that our inference program writes. validate must report a problem exactly where etcheck
does."""
import contextlib
import copy
import glob
import gzip
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from checks import BUILD, DATA, check, finish, load_etcheck, run, run_etcheck, skip
from execution_trace import COLL, COMP, RECV, SEND, field, frame, varint

INT32, INT64, UINT64, UINT64_LIST, BOOL, STRING, DOUBLE = 7, 9, 13, 14, 27, 29, 3


# ---- Writing protobuf without a library ----


def attribute(name, kind, value):
    text = field(1, name)
    if kind is None:
        return text
    if kind == DOUBLE:
        return text + varint(kind << 3 | 1) + struct.pack("<d", value)
    return text + field(kind, field(1, b"".join(map(varint, value))) if kind == UINT64_LIST
                        else value)


def message(node):
    out = field(1, node["id"]) + field(2, node["name"]) + field(3, node["type"])
    for number, key in ((4, "ctrl"), (5, "data")):
        if node[key]:
            out += field(number, b"".join(map(varint, node[key])))
    out += field(7, node.get("us", 0))
    for name, (kind, value) in node["attr"].items():
        out += field(10, attribute(name, kind, value))
    return out


def file_bytes(nodes):
    return b"".join(map(frame, [field(1, "1.0.0")] + [message(n) for n in nodes]))


# ---- The trace set: three ranks, two groups and the group of all ranks, a ring of messages ----


def make_rank(rank):
    nodes = []

    def add(kind, deps, **attrs):
        attrs["is_cpu_op"] = (BOOL, 0)
        nodes.append(dict(id=len(nodes) + 1, name=f"op{len(nodes)}", type=kind, ctrl=deps[1:],
                          data=deps[:1], us=len(nodes), attr=attrs))
        return nodes[-1]["id"]

    def comp(*deps):
        return add(COMP, list(deps), num_ops=(INT64, 4000000), tensor_size=(UINT64, 8192))

    def coll(group, kind, size, *deps):
        attrs = dict(comm_type=(INT64, kind), comm_size=(INT64, size))
        if group:
            attrs["pg_name"] = (STRING, group)
        return add(COLL, list(deps), **attrs)

    first = comp()
    last = comp(first)
    if rank < 2:
        for kind, size in ((0, 64), (2, 32), (0, 64)):
            last = comp(coll("1", kind, size, last))
    if rank > 0:
        for kind, size in ((7, 96), (6, 48)):
            last = coll("2", kind, size, last, first)
    send = add(SEND, [last], comm_dst=(INT32, (rank + 1) % 3), comm_src=(INT32, rank),
               comm_tag=(INT32, 5), comm_size=(INT64, 16))
    recv = add(RECV, [last], comm_src=(INT32, (rank + 2) % 3), comm_tag=(INT32, 5),
               comm_size=(INT64, 16))
    last = comp(recv, send)
    last = coll(None, 0, 128, last)
    coll(None, 5, 8, last)
    return nodes


GROUPS = {"1": [0, 1], "2": [1, 2]}
MEMBERS = [[0], [0, 1], [1, 2], [0, 0, 1], [0, 1, 7], [2, 1], [0, 1, 2]]


# ---- Edits ----


def pick(r, nodes, *kinds):
    return r.choice([n for n in nodes if n["type"] in kinds] or nodes)


def set_some(n, r, names, value):
    there = [k for k in names if k in n["attr"]]
    if there:
        key = r.choice(there)
        n["attr"][key] = value(*n["attr"][key])


INTEGERS = ("comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst", "num_ops", "tensor_size",
            "is_cpu_op")


def with_number(r, *numbers):
    return lambda field, value: (field, r.choice(numbers))


def edit(r, ranks, groups):
    """Makes one random edit and returns its name."""
    nodes = r.choice(ranks)
    n = r.choice(nodes)
    other = r.choice(nodes)
    comm = pick(r, nodes, SEND, RECV, COLL)
    kind = r.randrange(26)
    if kind == 0: nodes.remove(n)
    elif kind == 1: n["id"] = other["id"]
    elif kind == 2: n["data"].append(r.choice([0, 99, 1 << 63]))
    elif kind == 3: n["ctrl"].append(n["id"])
    elif kind == 4: n["data"].append(other["id"])
    elif kind == 5: n["data"], n["ctrl"] = [], []
    elif kind == 6: n["ctrl"] = []
    elif kind == 7: set_some(n, r, INTEGERS, lambda f, v: (DOUBLE, float(v)))
    elif kind == 8: set_some(n, r, INTEGERS + ("pg_name",), lambda f, v: (None, None))
    elif kind == 9: set_some(n, r, INTEGERS, lambda f, v: (r.choice([7, 9, 11, 13]), v))
    elif kind == 10 and n["attr"]: del n["attr"][r.choice(list(n["attr"]))]
    elif kind == 11: set_some(comm, r, ("comm_size",), with_number(r, 0, -1, 1, 64, 7))
    elif kind == 12: set_some(n, r, ("num_ops", "tensor_size"),
                              with_number(r, 0, 1, -5 & (1 << 64) - 1, 1 << 40))
    elif kind == 13: set_some(comm, r, ("comm_type",), with_number(r, 0, 1, 2, 5, 7, 9, 10, -1))
    elif kind == 14: comm["attr"]["pg_name"] = (STRING, r.choice(["1", "2", "3", "0", "", "tp"]))
    elif kind == 15: set_some(comm, r, ("comm_tag",), with_number(r, 0, 5, 6, -1))
    elif kind == 16: set_some(comm, r, ("comm_src", "comm_dst"), with_number(r, 0, 1, 2, 3))
    elif kind == 17: n["type"] = r.randrange(10)
    elif kind == 18: pick(r, nodes, COMP)["attr"]["is_cpu_op"] = (BOOL, 1)
    elif kind == 19: r.shuffle(nodes)
    elif kind == 20: groups[r.choice(["1", "2"])] = r.choice(MEMBERS)
    elif kind == 21: groups[r.choice(["0", "x", "3", "600"])] = [0, 1]
    elif kind == 22: del nodes[-r.randrange(1, 4):]
    elif kind == 23: nodes.append(dict(copy.deepcopy(n), id=max(m["id"] for m in nodes) + 1))
    elif kind == 24: comm["attr"]["pg_name"] = (INT32, 3)
    elif kind == 25: n["us"] = 7
    return kind


def damage(r, raw):
    how = r.randrange(3)
    at = r.randrange(len(raw))
    if how == 0: return raw[:at]
    if how == 1: return raw[:at] + bytes([raw[at] ^ 1 << r.randrange(8)]) + raw[at + 1:]
    return raw[:at] + raw[at + 1:]


# ---- Both checkers ----


def etcheck_output(module, args):
    """Returns etcheck's exit code and text. The code is None if etcheck raised, as it does on odd
    bytes."""
    out, old = io.StringIO(), sys.argv
    sys.argv = ["etcheck.py"] + args
    try:
        with contextlib.redirect_stdout(out):
            return module.main(), out.getvalue()
    except Exception as e:
        return None, repr(e)
    finally:
        sys.argv = old


def run_validate(args):
    r = run("validate", "--json", *args, text=True)
    try:
        return r.returncode, json.loads(r.stdout)
    except json.JSONDecodeError:
        check(False, f"validate {args}: exit {r.returncode}: {r.stdout}{r.stderr}")
        return 2, dict(problems=0, findings=[])


def kinds(report):
    return [f["kind"] for f in report["findings"] if f["problem"]]


def compare(module, target, etcheck_flags, flags, what, damaged=False):
    """Compares both verdicts on one trace set and returns whether validate reports a problem. On a
    damaged set validate may report more than etcheck."""
    theirs, text = etcheck_output(module, [target] + etcheck_flags)
    code, report = run_validate([target] + flags)
    check(code in (0, 1) and (code == 1) == (report["problems"] > 0), f"{what}: exit {code}")
    if theirs == 1:
        check(code == 1, f"{what}: etcheck reports what validate does not:\n{text}")
    elif theirs == 0 and not damaged:
        check(code == 0, f"{what}: validate reports what etcheck does not: {kinds(report)}")
    return code == 1


def write_set(prefix, files, groups):
    for i, raw in enumerate(files):
        with open(f"{prefix}.{i}.et", "wb") as f:
            f.write(raw)
    with open(prefix + ".comm_group.json", "w") as f:
        json.dump(groups, f)


def edited_sets(module, folder):
    r = random.Random(4)
    prefix = os.path.join(folder, "set")
    clean = [make_rank(i) for i in range(3)]
    write_set(prefix, map(file_bytes, clean), GROUPS)
    check(not compare(module, prefix, [], [], "the clean set"), "the clean set has problems")
    code, report = run_validate([prefix])
    check(report["warnings"] == 0 and report["executed"], f"the clean set: {report}")
    bad = 0
    for i in range(200):
        ranks, groups = copy.deepcopy(clean), copy.deepcopy(GROUPS)
        done = [edit(r, ranks, groups) for _ in range(r.choice([1, 1, 2]))]
        if not all(ranks):
            continue
        write_set(prefix, map(file_bytes, ranks), groups)
        bad += compare(module, prefix, [], [], f"edits {done} ({i})")
        if i % 2:
            compare(module, prefix, ["--any-node"], ["--any_node"], f"edits {done} ({i}), any node")
        elif i % 4:
            compare(module, prefix + ".0.et", ["--single"], ["--single"],
                    f"edits {done} ({i}), single")
    check(100 < bad < 195, f"{bad} of 200 edits have problems")
    for i in range(60):
        files = list(map(file_bytes, clean))
        files[i % 3] = damage(r, files[i % 3])
        write_set(prefix, files, GROUPS)
        compare(module, prefix, [], [], f"damage {i}", damaged=True)


def real_traces(module, folder):
    paths = glob.glob(os.path.join(DATA or "", "**", "*.et.gz"), recursive=True)
    check(not DATA or len(paths) >= 5, f"{len(paths)} traces in the shared data")
    for i, path in enumerate(paths):
        target = os.path.join(folder, f"real{i}.0.et")
        with gzip.open(path) as packed, open(target, "wb") as out:
            shutil.copyfileobj(packed, out)
        compare(module, target, ["--single"], ["--single"], path)


def inference(module, folder):
    for name, args in (("meta", ["--device", "meta", "--model", "gpt3-125m"]), ("cpu", [])):
        out = os.path.join(folder, name)
        r = subprocess.run([os.path.join(BUILD, "inference"), "--tp", "2", "--num_input_tokens",
                            "8", "--num_output_tokens", "2",
                            "--visualize_trace", "--out_dir", out, "--quiet"] + args,
                           capture_output=True, text=True)
        check(r.returncode == 0, f"inference: {r.stderr}")
        check(not compare(module, out + "/trace", [], [], f"inference {name}"),
              f"inference {name} has problems")
        stat(out + "/trace", folder)
    mixed = [os.path.join(folder, name, "trace.0.et") for name in ("meta", "cpu")]
    code, report = run_validate(mixed + ["--groups",
                                         os.path.join(folder, "meta", "trace.comm_group.json")])
    check(code == 1 and kinds(report) == ["collective-mismatch"],
          f"two different traces: {kinds(report)}")


# ---- stat ----


def stat_of_garbage(folder):
    """A file without nodes gives an error, not an empty table."""
    path = os.path.join(folder, "garbage.0.et")
    with open(path, "wb") as f:
        f.write(b"\x20" + bytes(range(200)) * 3)
    r = run("stat", path, text=True)
    check(r.returncode == 1 and "not an execution trace" in r.stderr,
          f"stat of garbage: {r.returncode} {r.stdout[:200]}{r.stderr}")


def stat(prefix, folder):
    out = os.path.join(folder, "report.json")
    run_etcheck(prefix, "--json", out)
    with open(out) as f:
        want = json.load(f)["ranks"]
    r = run("stat", prefix, "--json", text=True)
    check(r.returncode == 0, f"stat {prefix}: {r.stderr}")
    got = json.loads(r.stdout)
    check(len(got["ranks"]) == len(want), f"stat: {len(got['ranks'])} ranks")
    for a, b in zip(got["ranks"], want):
        pairs = [("nodes", "nodes"), ("widest_ready", "widest_ready"), ("num_ops", "num_ops"),
                 ("tensor_bytes", "tensor_bytes"), ("sum_us", "dur_us"), ("types", "types")]
        for ours, theirs in pairs:
            check(a[ours] == b[theirs], f"stat {prefix}: {ours} {a[ours]}, etcheck has {b[theirs]}")
        check(a["ctrl_deps"] + a["data_deps"] >= b["deps"], f"stat {prefix}: dependencies")
        check(a["send_bytes"] + a["recv_bytes"] == b["p2p_bytes"], f"stat {prefix}: p2p bytes")
        check({k: v["count"] for k, v in a["collectives"].items()} == b["colls"],
              f"stat {prefix}: {a['collectives']}")
        check({k: v["bytes"] for k, v in a["collectives"].items()} == b["coll_bytes"],
              f"stat {prefix}: {a['collectives']}")
        check(a["collective_bytes"] == sum(b["coll_bytes"].values()), f"stat {prefix}: {a}")
        check({g["name"]: g["bytes"] for g in a["groups"]} == b["group_bytes"],
              f"stat {prefix}: {a['groups']}")
        check(sum(o["count"] for o in a["ops"]) == a["nodes"], f"stat {prefix}: ops")
    for key in ("nodes", "num_ops", "sum_us", "tensor_bytes", "collective_bytes"):
        check(got["total"][key] == sum(x[key] for x in got["ranks"]), f"stat {prefix}: total {key}")


def critical(nodes):
    """Returns the microseconds and the nodes of the longest chain. Dependencies have smaller
    ids."""
    best = {}
    for n in nodes:
        deps = [best[d] for d in n["data"] + n["ctrl"]]
        us, count = max(deps, default=(0, 0))
        best[n["id"]] = (us + n["us"], count + 1)
    return max(best.values())


def stat_of_set(folder):
    prefix = os.path.join(folder, "stat")
    clean = [make_rank(i) for i in range(3)]
    clean[1][3]["attr"]["sync_deps"] = (UINT64_LIST, [3, 1 << 40])
    clean[1][5]["attr"]["sync_deps"] = (UINT64_LIST, [5])
    clean[1][6]["attr"]["launch_deps"] = (UINT64_LIST, [6])
    write_set(prefix, map(file_bytes, clean), GROUPS)
    stat(prefix, folder)
    got = json.loads(run("stat", prefix, "--json", text=True).stdout)
    for nodes, rank in zip(clean, got["ranks"]):
        check((rank["critical_us"], rank["critical_nodes"]) == critical(nodes),
              f"critical path {rank['critical_us']}")
        check(rank["roots"] == 1, f"{rank['roots']} roots")
        check(rank["warnings"] == [] and rank["version"] == "1.0.0", f"{rank['warnings']}")
    check(got["ranks"][1]["dependency_classes"] == {"launch": 1, "sync": 3},
          f"{got['ranks'][1]['dependency_classes']}")
    text = run("stat", "--input", prefix + ".0.et", text=True)
    check(text.returncode == 0 and "ALL_GATHER" in text.stdout and "warning" not in text.stdout,
          text.stdout + text.stderr)
    alone = prefix + "_alone.0.et"
    for kind, us, want in ((COMP, 0, ["but no communication", "none with a duration"]),
                           (COLL, 1, ["all on the CPU"])):
        n = dict(clean[0][2 if kind == COLL else 0], data=[], ctrl=[], us=us)
        n["attr"] = dict(n["attr"], is_cpu_op=(BOOL, 1))
        with open(alone, "wb") as f:
            f.write(file_bytes([n]))
        got = json.loads(run("stat", alone, "--json", text=True).stdout)
        warnings = [w["text"] for w in got["ranks"][0]["warnings"]]
        check(len(warnings) == len(want) and all(a in b for a, b in zip(want, warnings)),
              f"stat: warnings {warnings}")


# ---- The command ----


def command(folder):
    prefix = os.path.join(folder, "cmd")
    clean = [make_rank(i) for i in range(3)]
    write_set(prefix, map(file_bytes, clean), GROUPS)

    def validate(*args):
        return run("validate", *args, text=True)

    r = validate(prefix)
    check(r.returncode == 0 and r.stdout.count("\n") == 1
          and "no problem; a simulation finishes" in r.stdout, r.stdout)
    for args in ([f"{prefix}.{i}.et" for i in range(3)], ["--input", prefix], [prefix, "--strict"],
                 [f"{prefix}.1.et"], ["--single", f"{prefix}.0.et"]):
        r = validate(*args)
        check(r.returncode == 0, f"{args}: {r.stdout}{r.stderr}")
    write_set(prefix, map(file_bytes, clean), dict(GROUPS, **{"700": [0, 1]}))
    check(validate(prefix).returncode == 0, "a warning fails")
    check(validate(prefix, "--strict").returncode == 1, "--strict lets a warning pass")
    write_set(prefix, map(file_bytes, clean), GROUPS)
    os.rename(prefix + ".1.et", prefix + ".1.gone")
    r = validate(prefix)
    check(r.returncode == 1 and r.stdout.count("\n") == 2 and "missing-file" in r.stdout, r.stdout)
    os.rename(prefix + ".1.gone", prefix + ".1.et")
    copies = [f"{prefix}_copy{end}.et" for end in ("", ".0", ".5")]
    for path in copies:  # the metadata say rank 0
        with open(path, "wb") as f:
            f.write(frame(field(1, "1.0.0") + field(2, attribute("rank", INT64, 0)))
                    + file_bytes(clean[0][:1])[len(file_bytes([])):])
    for path, code in zip(copies, (0, 0, 1)):
        r = validate(path, "--strict")
        check(r.returncode == code and ("metadata of the file say rank 0" in r.stdout) == code
              and validate(path).returncode == 0, r.stdout)
    packed = prefix + "_packed.0.et"
    with open(f"{prefix}.0.et", "rb") as f, gzip.open(packed, "wb") as out:
        out.write(f.read())
    r = validate(packed)
    check(r.returncode == 1 and "gzip" in r.stdout + r.stderr, r.stdout)
    for args, code in (([], 2), (["--input", "a", "b"], 2), (["--single", "a", "b"], 2),
                       (["nothing/here"], 1), (["--single", prefix], 1)):
        r = validate(*args)
        check(r.returncode == code and len(r.stderr.splitlines()) == 1,
              f"{args}: exit {r.returncode}: {r.stderr}")


def main():
    etcheck = load_etcheck()
    if etcheck is None:
        skip("no SYN_SHARED_TOOLS with etcheck.py")
    with tempfile.TemporaryDirectory() as folder:
        edited_sets(etcheck, folder)
        real_traces(etcheck, folder)
        inference(etcheck, folder)
        stat_of_garbage(folder)
        stat_of_set(folder)
        command(folder)
    finish()


main()
