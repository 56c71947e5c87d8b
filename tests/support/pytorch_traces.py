"""Shared by the tests of conversions: reads pairs of PyTorch traces, edits copies of them, converts
them with `syntorch convert pytorch`, and checks the results.

Expected results are computed from the traces in Python."""
import collections
import copy
import gzip
import json
import math
import os
import re
import tempfile

from checks import DATA, SOURCE, check, load_etcheck, run
from execution_trace import COLL, COMP, INT64, METADATA, RECV, SEND, read_et

TRACES = os.path.join(DATA, "pytorch-traces") if DATA \
    and os.path.isdir(os.path.join(DATA, "pytorch-traces")) else None
ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")
PROCESS, THREAD = ("[pytorch|profiler|execution_trace|%s]" % w for w in ("process", "thread"))
GPU = {"kernel": "kernels", "gpu_memcpy": "copies", "gpu_memset": "memory sets"}
KINDS = ("host ops", "metadata", "kernels", "copies", "memory sets")
CLASSES = ("launch", "stream", "sync", "group", "thread")


# ---- Nodes of .et files ----


def acyclic(nodes):
    left = {n.id: len(n.deps) for n in nodes}
    after = collections.defaultdict(list)
    for n in nodes:
        for d in n.deps:
            after[d].append(n.id)
    ready = [i for i in left if left[i] == 0]
    for i in ready:
        for j in after[i]:
            left[j] -= 1
            if left[j] == 0:
                ready.append(j)
    return len(ready) == len(left)


def check_nodes(what, nodes):
    """Checks what must be true for the nodes of each .et file of profile full."""
    by_id = {n.id: n for n in nodes}
    check(len(by_id) == len(nodes), f"{what}: ids are there twice")
    dangling = [(n.id, d) for n in nodes for d in n.deps if d not in by_id]
    if not check(not dangling, f"{what}: dangling dependencies {dangling[:5]}"):
        return
    check(acyclic(nodes), f"{what}: a cycle")
    for n in nodes:
        for c in CLASSES:
            listed = n.attr.get(c + "_deps", [])
            check(set(listed) <= set(n.data),
                  f"{what}: node {n.id}: {c}_deps {listed}, data_deps {n.data}")
        check(len(set(n.data)) == len(n.data) and len(n.ctrl) <= 1,
              f"{what}: node {n.id}: {n.ctrl} {n.data}")
        check((n.attr.get("is_cpu_op") == 1) == (not n.on_gpu and n.type in (COMP, METADATA)),
              f"{what}: node {n.id}: is_cpu_op")
        if n.type in (SEND, RECV, COLL):
            size = n.attr.get("comm_size", 0)
            check(size > 0 and n.field["comm_size"] == INT64,
                  f"{what}: node {n.id}: comm_size {size}, field {n.field.get('comm_size')}")
    first = {}
    for n in nodes:
        if n.on_gpu and n.start is not None and (n.attr["stream"] not in first
                                                 or n.start < first[n.attr["stream"]].start):
            first[n.attr["stream"]] = n
    for n in nodes:
        if n.on_gpu and n.attr["stream"] >= 0 and n.start is not None \
                and n is not first[n.attr["stream"]]:
            check(n.data, f"{what}: GPU node {n.id} '{n.name}' waits for nothing")


def calls(nodes):
    """Returns all collectives and messages as a multiset."""
    return collections.Counter((n.type, n.attr.get("comm_type"), n.attr["comm_size"],
                                n.attr.get("pg_name"), n.attr.get("comm_src"),
                                n.attr.get("comm_dst")) for n in nodes
                               if n.type in (SEND, RECV, COLL))


def kinds_of(nodes, made_up=0):
    """Returns the number of nodes by kind, as the summary of a conversion counts them: a kernel
    with several collectives or messages counts once. made_up: number of host nodes to leave out,
    which the conversion added."""
    seen = set()
    once = []
    for n in nodes:
        key = (n.name, n.start, n.attr.get("stream"))
        if not n.on_gpu or n.type == COMP or n.dur > 0 or key not in seen:
            once.append(n)
        seen.add(key)
    out = collections.Counter(KINDS[0] if not n.on_gpu and n.type != METADATA else KINDS[1]
                              if n.type == METADATA
                              else KINDS[3] if n.name.startswith("Memcpy") else KINDS[4]
                              if n.name.startswith("Memset") else KINDS[2]
                              for n in once)
    out[KINDS[0]] -= made_up
    return {k: out[k] for k in KINDS}


# ---- Pairs of traces ----


def attr(node, name):
    return next((a["value"] for a in node["attrs"] if a["name"] == name), None)


def set_attr(node, name, value):
    """Sets an attribute that exists. If value is None, removes it."""
    node["attrs"] = [a for a in node["attrs"] if a["name"] != name or value is not None]
    for a in node["attrs"]:
        if a["name"] == name:
            a["value"] = value


class Pair:
    """A host and a device trace as Python objects. Tests edit copies."""

    def __init__(self, name, host, device):
        self.name, self.host, self.device = name, host, device

    def copy(self):
        return Pair(self.name, copy.deepcopy(self.host), copy.deepcopy(self.device))

    @property
    def nodes(self):
        return self.host["nodes"]

    @property
    def events(self):
        return self.device["traceEvents"]

    def gpu(self):
        return [e for e in self.events if e.get("cat") in GPU]

    def texts(self):
        return dump(self.host), dump(self.device)

    def kinds(self):
        out = collections.Counter(GPU[e["cat"]] for e in self.gpu())
        for n in self.nodes:
            if "id" in n:
                out[KINDS[1] if "process_group:init" in n["name"] else KINDS[0]] += 1
        return {k: out[k] for k in KINDS}


    def kinds_kept(self):
        """Like kinds(), plus the ops that only the device trace has, if they are within the time
        that the host trace covers, and communicate or take 1 ms or more."""
        known, out = {attr(n, "rf_id") for n in self.nodes if "attrs" in n}, self.kinds()
        ops = [e for e in self.events if e.get("cat") in ("cpu_op", "user_annotation")
               and e["args"].get("Record function id")]
        both = [e for e in ops if e["args"]["Record function id"] in known]
        first = min((e["ts"] for e in both), default=math.inf)
        last = max((e["ts"] + e["dur"] for e in both), default=-math.inf)
        out[KINDS[0]] += sum(
            first <= e["ts"] <= last and e["args"]["Record function id"] not in known
            and not e["name"].startswith("ProfilerStep")
            and (e["name"].startswith(("c10d::", "nccl:", "gloo:", "record_param_comms"))
                 or e["dur"] >= 1000) for e in ops)
        return out


def dump(document):
    return json.dumps(document, ensure_ascii=False).encode()


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def fixture():
    folder = os.path.join(SOURCE, "tests", "reference", "pytorch")
    return Pair("fixture", load(os.path.join(folder, "host.0.json")),
                load(os.path.join(folder, "device.0.json")))


def shared(name):
    return Pair(name, *(load(os.path.join(TRACES, name, f"{kind}.0.json.gz"))
                        for kind in ("host", "device")))


def places(data, key):
    """Returns the byte offsets (begin, end) of each element of the list `key` in a JSON
    document."""
    text, decoder, found = data.decode("utf-8"), json.JSONDecoder(), []
    bytes_of = (lambda i: i) if len(text) == len(data) else (lambda i: len(text[:i].encode()))
    at = re.search(r'"%s"\s*:\s*\[\s*' % key, text).end()
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        found.append((bytes_of(at), bytes_of(end)))
        at = re.compile(r"\s*,?\s*").match(text, end).end()
    return found


# ---- Runs ----


class Result:
    """The results of a conversion: exit code, summary (--json), metadata and nodes of the .et file,
    and all files by name."""


def convert(host, device=None, *args, linked=False, names=("host.0.json", "device.0.json"),
            command=("convert", "pytorch"), decode=True):
    """Runs the command on the given bytes, in a temporary folder and with relative paths. Returns a
    Result. names: names of the host and device files. decode: whether to read the .et file."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for name, data in zip(names, (host, device)):
            if data is None:
                continue
            os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        os.mkdir(os.path.join(folder, "out"))
        inputs = ["--linked" if linked else "--host",
                  names[0]] + ([] if device is None else ["--device", names[1]])
        done = run(*command, *inputs, "--output", "out/t.0.et",
                   *([] if command[0] == "link" else ["--json"]), *args, cwd=folder)
        r = Result()
        r.code, r.said, r.files, r.json, r.nodes, r.meta = done.returncode, \
            done.stderr.decode("utf-8", "replace"), {}, None, [], {}
        for name in sorted(os.listdir(os.path.join(folder, "out"))):
            with open(os.path.join(folder, "out", name), "rb") as f:
                r.files[name] = f.read()
        r.et = r.files.get("t.0.et")
        if r.code == 0 and command[0] != "link":
            r.json = json.loads(done.stdout)
            r.meta, r.nodes = read_et(r.et) if decode else ({}, [])
            r.anomalies = {a["kind"]: a for a in r.json["anomalies"]}
            r.rank = r.json["ranks"][0]
            r.kinds = {k: r.rank["nodes"][k]["out"] for k in KINDS}
        return r


def check_tools(what, et):
    """Checks that etcheck.py and `syntorch validate` find no problems."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        path = os.path.join(folder, "t.0.et")
        with open(path, "wb") as f:
            f.write(et)
        done = run("validate", "--single", "--any_node", path)
        check(done.returncode == 0,
              f"{what}: validate: {done.stdout.decode()[-500:]}{done.stderr.decode()[-500:]}")
        if ETCHECK:
            checker = ETCHECK.Checker({}, 1, True)
            checker.file(0, ETCHECK.read(path))
            check(not checker.problems, f"{what}: etcheck: {checker.problems[:3]}")


def good(what, r, kinds=None, made_up=0):
    """Checks a successful conversion: the counts, the graph of nodes, the files and the results of
    the tools. kinds: expected number of nodes by kind. made_up: as in kinds_of."""
    if not check(r.code == 0, f"{what}: exit {r.code}: {r.said[-500:]}"):
        return False
    check(set(r.files) <= {"t.0.et", "t.comm_group.json"}, f"{what}: files {sorted(r.files)}")
    for k in KINDS:
        n = r.rank["nodes"][k]
        check(n["in"] == n["out"], f"{what}: {n['in']} {k} in, {n['out']} out")
    check(kinds_of(r.nodes, made_up) == r.kinds,
          f"{what}: in the file {kinds_of(r.nodes, made_up)}, said {r.kinds}")
    if kinds is not None:
        check(r.kinds == kinds, f"{what}: {r.kinds}, expected {kinds}")
    check_nodes(what, r.nodes)
    check_tools(what, r.et)
    return True


def refused(what, r, *words):
    check(r.code == 1 and not r.files,
          f"{what}: exit {r.code}, files {sorted(r.files)}: {r.said[-300:]}")
    for w in words:
        check(w in r.said, f"{what}: '{w}' is not in: {r.said[-300:]}")


ETCHECK = load_etcheck()
