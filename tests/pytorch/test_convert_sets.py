"""Tests trace sets through `syntorch convert pytorch`, and folders through `syntorch
convert-all`."""
import collections
import gzip
import json
import os
import shutil
import tempfile

from checks import TOOLS, check, run, run_etcheck
from execution_trace import COLL, RECV, SEND, read_et
import pytorch_traces as pt
from damaged_traces import main
from pytorch_traces import attr, calls, set_attr


def other_rank(p):
    """Returns rank 1 of the same job: its messages go in the other direction, and all times are
    later."""
    q = p.copy()
    q.device["distributedInfo"]["rank"] = 1
    swap = {"0->1": "1->0", "0<-1": "1<-0"}
    for item in q.nodes + q.events:
        for a, b in swap.items():
            if a in item["name"]:
                item["name"] = item["name"].replace(a, b)
                break
        if "ts" in item:
            item["ts"] += 12345.5
    for n in q.nodes:
        for key in ("src_rank", "dst_rank"):
            if attr(n, key) is not None:
                set_attr(n, key, 1 - attr(n, key))
    return q


def write_set(folder, pairs, pattern=("host.%d.json", "device.%d.json")):
    for i, p in enumerate(pairs):
        for name, data in zip(pattern, p.texts()):
            with open(os.path.join(folder, name % i), "wb") as f:
                f.write(data)


def etcheck_set(what, prefix, *args):
    done = run("validate", *(a.replace("-", "_").replace("__", "--") for a in args), prefix)
    check(done.returncode == 0, f"{what}: validate: {done.stdout.decode()[-600:]}")
    if TOOLS:
        done = run_etcheck(prefix, *args)
        check(done.returncode == 0, f"{what}: etcheck: {done.stdout[-600:]}")


def ranks(p, base):
    """Behaviour g: the ranks of a trace set agree."""
    pairs = [p, other_rank(p)]
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        os.mkdir(os.path.join(folder, "out"))
        write_set(folder, pairs)
        for profile, args in (("full", ["--any-node"]), ("astra-sim", [])):
            what = f"{p.name}: a set of 2, {profile}"
            prefix = os.path.join(folder, "out", profile)
            done = run("convert", "pytorch", "--host", "host.*.json", "--device", "device.*.json",
                       "--output", prefix, "--profile", profile, "--json", cwd=folder)
            if not check(done.returncode == 0,
                         f"{what}: exit {done.returncode}: {done.stderr.decode()[-500:]}"):
                continue
            told = json.loads(done.stdout)
            check([r["rank"] for r in told["ranks"]] == [0, 1], f"{what}: ranks")
            check(not told["anomalies"], f"{what}: {told['anomalies']}")
            names = sorted(n for n in os.listdir(os.path.join(folder, "out"))
                           if n.startswith(profile))
            check(names == [f"{profile}.{x}" for x in ("0.et", "1.et", "comm_group.json")],
                  f"{what}: {names}")
            etcheck_set(what, prefix, *args)
            groups = pt.load(prefix + ".comm_group.json")
            check(groups and all(k.isdigit() and v == [0, 1] for k, v in groups.items()),
                  f"{what}: {groups}")
            sides = []
            for r in (0, 1):
                with open(f"{prefix}.{r}.et", "rb") as f:
                    meta, nodes = read_et(f.read())
                check(meta.get("rank") == r, f"{what}: {meta}")
                sides.append([n for n in nodes if n.type in (SEND, RECV, COLL)])
                if profile == "full":
                    pt.check_nodes(what, nodes)
                    check(len(nodes) == len(base.nodes), f"{what}: {len(nodes)} nodes")
            lists = [[(n.attr["comm_type"], n.attr["comm_size"], n.attr["pg_name"]) for n in s
                      if n.type == COLL] for s in sides]
            check(collections.Counter(lists[0]) == collections.Counter(lists[1]),
                  f"{what}: collectives differ")
            check(len(sides[0]) == sum(calls(base.nodes).values()),
                  f"{what}: {len(sides[0])} communications")
            for a, b in ((0, 1), (1, 0)):
                send = sorted((n.attr["comm_dst"], n.attr["comm_tag"], n.attr["comm_size"])
                              for n in sides[a] if n.type == SEND)
                recv = sorted((b, n.attr["comm_tag"], n.attr["comm_size"]) for n in sides[b]
                              if n.type == RECV and n.attr["comm_src"] == a)
                check(send and send == recv, f"{what}: sends {send}, receives {recv}")
        os.remove(os.path.join(folder, "device.1.json"))
        done = run("convert", "pytorch", "--host", "host.*.json", "--device", "device.*.json",
                   "--output", "out/x", cwd=folder)
        check(done.returncode == 1 and b"device.1.json" in done.stderr,
              f"{p.name}: a set with a device trace missing: {done.stderr}")
        done = run("convert", "pytorch", "--host", "host.*.json", "--device", "device.0.json",
                   "--output", "out/x", cwd=folder)
        check(done.returncode == 1, f"{p.name}: a set with one device trace: {done.stderr}")
        check(not any(n.startswith("x") for n in os.listdir(os.path.join(folder, "out"))),
              "files of a set that failed")


def convert_set(what, pairs, kept=None, device=None, expect=None):
    """Converts a trace set and checks that the ranks agree in both profiles. kept: number of
    collectives per file; device: rank 1's Kineto trace as bytes; expect: anomalies."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        os.mkdir(os.path.join(folder, "out"))
        write_set(folder, pairs)
        if device is not None:
            with open(os.path.join(folder, "device.1.json"), "wb") as f:
                f.write(device)
        for profile, args in (("full", ["--any-node"]), ("astra-sim", [])):
            prefix = os.path.join(folder, "out", profile)
            done = run("convert", "pytorch", "--host", "host.*.json", "--device", "device.*.json",
                       "--output", prefix, "--profile", profile, "--json", cwd=folder)
            if not check(done.returncode == 0,
                         f"{what}, {profile}: exit {done.returncode}: "
                         f"{done.stderr.decode()[-400:]}"):
                continue
            met = {a["kind"]: a["count"] for a in json.loads(done.stdout)["anomalies"]}
            check(expect is None or met == expect, f"{what}, {profile}: {met}")
            if kept is not None:
                etcheck_set(f"{what}, {profile}", prefix, *args)
            for r in range(len(pairs)):
                with open(f"{prefix}.{r}.et", "rb") as f:
                    _, nodes = read_et(f.read())
                n = sum(n.type == COLL for n in nodes)
                check(kept is None or n == kept,
                      f"{what}, {profile}: rank {r} has {n} collectives, not {kept}")


def collectives(base):
    return sum(n for call, n in calls(base.nodes).items() if call[0] == COLL)


def launched(p):
    """Returns the kernels of collectives, sorted by the time of their launch."""
    at = {e["args"].get("correlation"): e["ts"] for e in p.events if e.get("cat") == "cuda_runtime"}
    kernels = [e for e in p.gpu() if any(k in e["name"]
                                         for k in ("_AllReduce", "_AllGather", "_ReduceScatter",
                                                   "_Broadcast"))]
    return sorted(kernels, key=lambda e: at[e["args"]["correlation"]])


def lost_parts(p, base):
    """Tests a Kineto trace that is cut or ends a step early. Collectives that have only their host
    op left keep their place in the program."""
    p = p.copy()
    for kernel, at in zip(launched(p), sorted(k["ts"] for k in launched(p))):
        kernel["ts"] = at  # in the order of launches, unlike the hand-made traces
    p.events.sort(key=lambda e: e.get("ts", 0))
    other = other_rank(p)
    text, n = other.texts()[1], collectives(base)
    for tenths in (2, 5, 7, 9):
        convert_set(f"{p.name}: {tenths} tenths of a device trace", [p, other], n,
                    text[:len(text) * tenths // 10])
    times = sorted(e["ts"] for e in other.events if "ts" in e)
    for tenths in (3, 6, 8):
        short = other.copy()
        short.device["traceEvents"] = [e for e in short.events
                                       if e.get("ts", 0) < times[len(times) * tenths // 10]]
        convert_set(f"{p.name}: events of {tenths} tenths of the time", [p, short], n)


def late_starts(p, base):
    """Tests kernels on two streams that begin in another order on one rank. Both ranks launch them
    in the same order, so the ranks still agree."""
    pairs = [p.copy(), other_rank(p)]
    n = len(launched(p))
    at = next(i for i in range(n - 2, -1, -1)
              if launched(p)[i]["name"] != launched(p)[i + 1]["name"])
    for i, q in enumerate(pairs):
        x, y = launched(q)[at:at + 2]
        y["args"]["stream"] = y["tid"] = 77
        if i == 1:
            x["ts"] = y["ts"] + (5 if x["ts"] < y["ts"] else -5)
        q.events.sort(key=lambda e: e.get("ts", 0))
    order = [[k["ts"] for k in launched(q)[at:at + 2]] for q in pairs]
    check((order[0][0] < order[0][1]) != (order[1][0] < order[1][1]),
          f"{p.name}: the test changes no order: {order}")
    convert_set(f"{p.name}: late starts", pairs, collectives(base), expect={})


def wrong_sets(p, base):
    """Tests missing ranks, and files that were copied or swapped."""
    pairs = [p, other_rank(p)]
    convert_set(f"{p.name}: one of two ranks", [p], expect={"ranks-missing": 1})
    big = [q.copy() for q in pairs]
    for q in big:
        q.device["distributedInfo"]["world_size"] = 5
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        write_set(folder, big)
        done = run("convert", "pytorch", "--host", "host.*.json", "--device", "device.*.json",
                   "--output", "x", "--json", cwd=folder)
        met = {a["kind"]: a["count"] for a in json.loads(done.stdout)["anomalies"]}
        check(met.get("ranks-missing") == 3, f"{p.name}: two of five ranks: {met}")
    later = pairs[1].copy()
    steps = [e for e in later.events if "ProfilerStep" in e["name"]]
    check(steps, f"{p.name}: no step has a name")
    for e in steps:
        before, number = e["name"].split("#")
        e["name"] = f"{before}#{int(number) + 2}"
    convert_set(f"{p.name}: another step", [pairs[0], later], collectives(base),
                expect={"steps-differ": 1})
    for what, wrong, n in (("swapped", pairs[::-1], 2), ("copied", [p, p], 1)):
        with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
            write_set(folder, wrong)
            done = run("convert", "pytorch", "--host", "host.*.json", "--device", "device.*.json",
                       "--output", "x", "--json", cwd=folder)
            told = json.loads(done.stdout)
            met = {a["kind"]: a["count"] for a in told["anomalies"]}
            check(met.get("rank-differs") == n and "ranks-missing" not in met,
                  f"{p.name}: {what}: {met}")
            check([r["rank"] for r in told["ranks"]] == [0, 1], f"{p.name}: {what}: ranks")


def table(text):
    """Returns the rows of convert-all's table: {name: following words}."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line
            and not line.startswith("file ")}


def folders(p, base):
    damaged = p.copy()
    del damaged.nodes[3]["ctrl_deps"]
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        write_set(folder, [p], ("good%d_host.json", "good%d_device.json"))
        write_set(folder, [damaged], ("worn%d_host.json", "worn%d_kineto.json"))
        write_set(folder, [p, other_rank(p)], ("job.%d_host.json", "job.%d_device.json"))
        for name, data in (("broken_host.json", b""), ("alone_host.json", p.texts()[0]),
                           ("notes.json", b"{}"), ("x_device.json", b"{}"),
                           ("kineto_kineto.json", p.texts()[1]),
                           ("good0_kineto.json", b"not looked at")):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        done = run("convert-all", folder, "--out_dir", os.path.join(folder, "et"))
        rows = table(done.stdout.decode())
        check(done.returncode == 1, f"convert-all: exit {done.returncode}: {done.stderr.decode()}")
        check(set(rows) == {"good0", "worn0", "job.0", "job.1", "broken", "alone", "x", "kineto"},
              f"convert-all: {sorted(rows)}")
        n = str(len(p.nodes) + len(p.gpu()))
        for name, verdict in (("good0", "ok"), ("worn0", "ok, with warnings"), ("job.0", "ok"),
                              ("job.1", "ok")):
            row = rows.get(name, [])
            check(" ".join(row).endswith(verdict) and row[:2] == [n, n],
                  f"convert-all: {name}: {row}")
        check(rows["broken"][0] == "failed:" and "empty" in rows["broken"],
              f"convert-all: {rows['broken']}")
        check(rows["x"][0] == "failed:" and "traceEvents" in " ".join(rows["x"]),
              f"convert-all: {rows['x']}")
        check(" ".join(rows["kineto"]).endswith("no host trace")
              and "100.0 %" in " ".join(rows["kineto"]), f"convert-all: {rows['kineto']}")
        check("no-parent" in done.stderr.decode(), f"convert-all: {done.stderr.decode()}")
        made = {x for x in os.listdir(os.path.join(folder, "et")) if x.endswith(".et")}
        check(made == {"good0.et", "worn0.et", "job.0.et", "job.1.et", "alone.et", "kineto.et"},
              f"convert-all: {sorted(made)}")
        with open(os.path.join(folder, "et", "good0.et"), "rb") as f:
            check(f.read() == base.et, "convert-all: not what convert makes")
        etcheck_set("convert-all", os.path.join(folder, "et", "job"), "--any-node")
        done = run("convert-all", folder, "--out_dir", os.path.join(folder, "sim"), "--profile",
                   "astra-sim")
        rows = table(done.stdout.decode())
        check(rows["job.0"][-1] == "ok", f"convert-all, astra-sim: {rows['job.0']}")
        etcheck_set("convert-all, astra-sim", os.path.join(folder, "sim", "job"))
        done = run("convert-all", folder, "--out_dir", os.path.join(folder, "strict"), "--strict")
        check(table(done.stdout.decode())["worn0"][0] == "failed:", "convert-all --strict")
        for name in ("broken_host.json", "worn0_host.json", "worn0_kineto.json", "x_device.json"):
            os.remove(os.path.join(folder, name))
        done = run("convert-all", "--input", ".", cwd=folder)
        check(done.returncode == 0 and os.path.exists(os.path.join(folder, "good0.et")),
              f"convert-all here: {done.stderr.decode()}")
        os.mkdir(os.path.join(folder, "nothing"))
        done = run("convert-all", os.path.join(folder, "nothing"))
        check(done.returncode == 1 and b"has no file named" in done.stderr,
              f"convert-all of nothing: {done.stderr}")
        check(run("convert-all").returncode == 2 and run("convert-all", "a", "b").returncode == 2,
              "convert-all: usage")
        check(run("convert-all", os.path.join(folder, "absent")).returncode == 1,
              "convert-all of a folder that is not there")


def recorder_names(p, base):
    """convert-all accepts the file names of docs/pytorch.md's recorder, with or without the job's
    name in front."""
    pairs = [p, other_rank(p)]
    names = {  # host trace and Kineto trace of a rank, prefix of the trace set
        "bare": ("host.%d.json", "device.%d.json", "trace"),
        "job": ("job_host.%d.json", "job_kineto.%d.json", "job"),
        "dots": ("a.b.host.%d.json", "a.b.device.%d.json", "a.b"),
    }
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for host, device, _ in names.values():
            write_set(folder, pairs, (host, device))
        packed = os.path.join(folder, "device.1.json")
        with open(packed, "rb") as f, gzip.open(packed + ".gz", "wb") as g:
            g.write(f.read())
        os.remove(packed)
        done = run("convert-all", folder, "--out_dir", os.path.join(folder, "et"))
        check(done.returncode == 0,
              f"convert-all, recorder's names: exit {done.returncode}: {done.stderr.decode()}")
        rows = table(done.stdout.decode())
        check(set(rows) == {f"{prefix}.{r}" for _, _, prefix in names.values() for r in (0, 1)},
              f"convert-all: {sorted(rows)}")
        check(all(row[-1] == "ok" for row in rows.values()), f"convert-all: {rows}")
        for _, _, prefix in names.values():
            etcheck_set(f"convert-all, {prefix}", os.path.join(folder, "et", prefix), "--any-node")
            with open(os.path.join(folder, "et", prefix + ".0.et"),
                      "rb") as f, open(os.path.join(folder, "et", "trace.0.et"), "rb") as g:
                check(f.read() == g.read(), f"convert-all, {prefix}: not what the bare names give")
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        write_set(folder, [p], ("host%.0s.json", "device%.0s.json"))  # %.0s: nothing
        done = run("convert-all", folder)
        check(done.returncode == 0 and os.path.exists(os.path.join(folder, "trace.et")),
              f"convert-all without ranks: {done.stderr.decode()}")
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        log = os.path.join(folder, "log")
        os.mkdir(log)
        for i, q in enumerate(reversed(pairs)):  # the names of tensorboard_trace_handler
            with gzip.open(os.path.join(log, f"node_{7 + i}.169000000000{i}.pt.trace.json.gz"),
                           "wb") as f:
                f.write(q.texts()[1])
            shutil.copy(f.name, os.path.join(log, f"of.{3001 + i}.json.gz"))  # a process id
        done = run("convert-all", "log", "--out_dir", "et", cwd=folder)
        check(done.returncode == 0 and set(table(done.stdout.decode())) ==
              {"node_7.1690000000000", "node_8.1690000000001"}, f"tensorboard's names: {done}")
        made = {}
        for star in ("log/*.pt.trace.json.gz", "log/node_*.gz", "log/of.*.json.gz"):
            done = run("convert", "pytorch", "--device", star, "--output", "set", "--json",
                       cwd=folder)
            check(done.returncode == 0 and
                  sorted(r["rank"] for r in json.loads(done.stdout)["ranks"]) == [0, 1],
                  f"ranks that only the traces say: {done}")
            etcheck_set("tensorboard's names", os.path.join(folder, "set"), "--any-node")
            for r in (0, 1):
                with open(os.path.join(folder, f"set.{r}.et"), "rb") as f:
                    made.setdefault(r, []).append(f.read())
        check(all(a == b == c for a, b, c in made.values()), "one set by three patterns")
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for name in ("notes.json", "hosts.0.json", "xhost.0.json", "_host.json", ".json",
                     "host.json.bak", "host..json"):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(p.texts()[0])
        done = run("convert-all", folder)
        check(done.returncode == 1 and b"has no file named" in done.stderr,
              f"convert-all of other names: {done.stdout} {done.stderr}")
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        write_set(folder, pairs, ("job_host.%d.json", "job_device.%d.json"))
        write_set(folder, pairs, ("job.%d_host.json", "job.%d_device.json"))
        done = run("convert-all", folder, "--out_dir", os.path.join(folder, "et"))
        check(done.returncode == 1 and b"would both become job.0.et" in done.stderr,
              f"convert-all of one name twice: {done.stderr}")
        check(not os.path.exists(os.path.join(folder, "et")), "convert-all of one name twice wrote")


main(ranks, lost_parts, late_starts, wrong_sets, folders, recorder_names)
