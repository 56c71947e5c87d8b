"""Tests `syntorch convert pytorch` on events from other programs, older versions and damaged files.
Each event is kept or omitted as docs/formats.md says, and counted once, and --strict refuses it."""
import json
import os
import tempfile

from checks import check, finish, run
from device_events import alone, document, kernel, launch, op
from execution_trace import read_et
import pytorch_traces as pt
from pytorch_traces import convert


def work(n, **args):
    """Returns n ops that launch a kernel of 20 us each."""
    events = []
    for i in range(n):
        ts = 1000 + 35 * i
        events += [op("aten::mm", ts, 30, **{"External id": i + 1}), launch(ts + 5, i + 1),
                   kernel(f"gemm_{i}", ts + 15, 20, i + 1, **args)]
    return events


def counts(r):
    return {kind: a["count"] for kind, a in r.anomalies.items()}


# ---- Values ----


def check_words():
    """A word that is no JSON replaces only one value, also in the last event."""
    text = document(work(3, occ="MARK"))
    for word in (b"N/A", b"-nan(ind)", b"1.#QNAN", b"<unknown>", b"0x7f..", b"undefined",
                 b"f(a, b)", b"80 GB", b""):
        r = alone(text.replace(b'"MARK"', word))
        if check(r.code == 0, f"{word}: {r.said}"):
            check(counts(r) == {"bare-word": 3}, f"{word}: {r.anomalies}")
            check(r.rank["nodes"]["kernels"]["out"] == 3
                  and r.rank["matches"]["device_correlation"] == 3, f"{word}: {r.rank}")
            check("no-device-work" not in r.rank["notes"], f"{word}: {r.rank['notes']}")
        r = alone(text.replace(b'"MARK"', word), "--strict")
        check(r.code == 1 and "bare-word" in r.said, f"{word}, --strict: {r.code} {r.said}")
    # the fields after it in the same event are still read
    text = document([op("nccl:all_reduce", 100, 15), launch(105, 1),
                     kernel("ncclDevKernel_AllReduce", 110, 30, 1, **{
                         "occ": "MARK", "Collective name": "allreduce", "In msg nelems": 1000,
                         "dtype": "BFloat16", "Group size": 2})])
    r = alone(text.replace(b'"MARK"', b"<no occupancy, SM busy>"))
    sizes = [n.attr["comm_size"] for n in r.nodes if "comm_size" in n.attr]
    check(sizes == [2000], f"behind a word: {sizes}")


def check_host_words():
    """In a host trace the value becomes None, and nothing else is lost. Python cannot read such a
    file."""
    p = pt.fixture().copy()
    node = next(n for n in p.nodes if n["inputs"]["values"])
    node["inputs"] = {"values": ["MARK", 2], "shapes": [[], []], "types": ["Double", "Int"]}
    host, device = p.texts()
    for word in (b"N/A", b"-nan(ind)", b"1.#IND"):
        r = convert(host.replace(b'"MARK"', word), device)
        if check(r.code == 0, f"{word} in a host trace: {r.said}"):
            check(counts(r).get("bare-word") == 1 and "broken" not in r.anomalies,
                  f"{word} in a host trace: {r.anomalies}")
            check(any(n.io and n.io[0][1] == "[None, 2]" for n in r.nodes),
                  f"{word} in a host trace: its value")
    r = convert(host.replace(b'"MARK"', b"N/A"), device, "--compat")
    check(r.code == 1 and "words that are no values" in r.said, f"--compat: {r.said}")
    r = convert(host.replace(b'"MARK"', b"NaN"), device, "--compat")
    check("JSONDecodeError" not in r.said, f"--compat: {r.said}")


def check_linked_words():
    """A linked file has the same values."""
    p = pt.fixture().copy()
    node = next(n for n in p.nodes if n["inputs"]["values"])
    node["inputs"] = {"values": ["MARK"], "shapes": [[]], "types": ["Double"]}
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        host, device = p.texts()
        for name, text in (("h", host), ("d", device)):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(text)
        done = run("link", "--host", "h", "--device", "d", "--output", "linked", cwd=folder)
        check(done.returncode == 0, f"link: {done.stderr.decode()}")
        with open(os.path.join(folder, "linked"), "rb") as f:
            linked = f.read()
        with open(os.path.join(folder, "linked"), "wb") as f:
            f.write(linked.replace(b'"MARK"', b"-nan(ind)"))
        done = run("convert", "pytorch", "--linked", "linked", "--output", "t.et", "--json",
                   cwd=folder)
        if check(done.returncode == 0, f"linked: {done.stderr.decode()}"):
            said = json.loads(done.stdout)
            check({a["kind"]: a["count"] for a in said["anomalies"]}.get("bare-word") == 1,
                  f"linked: {said['anomalies']}")
            check(said["ranks"][0]["nodes"]["host ops"]["out"] == p.kinds()["host ops"],
                  f"linked: {said['ranks'][0]['nodes']}")


def check_last_event():
    """Damage within the last event does not end the file."""
    text = document(work(2))
    at = text.rindex(b'"args"')
    r = alone(text[:at] + b">, " + text[at:])
    if check(r.code == 0, f"the last event: {r.said}"):
        check(counts(r) == {"broken": 1}, f"the last event: {r.anomalies}")
    # if events were lost, it is unknown whether there was device work
    text = document(work(2)).replace(b'"cat": "kernel"', b'>"cat": "kernel"')
    r = alone(text)
    check(r.code == 0 and counts(r) == {"broken": 2}
          and "no-device-work" not in r.rank["notes"], f"broken kernels: {r.said} {counts(r)}")


def check_utf8():
    text = document(work(2, note="caf\u00e9"))
    raw = json.dumps(json.loads(text), ensure_ascii=False).encode()
    r = alone(raw)
    check(r.code == 0 and not r.anomalies, f"UTF-8: {r.said} {r.anomalies}")
    r = alone(raw.replace(b"caf\xc3\xa9", b"caf\xe9"))
    check(r.code == 0 and counts(r) == {"encoding": 2}, f"Latin-1: {r.said} {r.anomalies}")
    r = alone(raw.replace(b"caf\xc3\xa9", b"caf\xe9"), "--strict")
    check(r.code == 1 and "encoding" in r.said, f"Latin-1, --strict: {r.said}")


# ---- Phases ----


def halves(events):
    """Returns each complete event as a begin and an end event, sorted by time."""
    out = []
    for e in events:
        out.append((e["ts"], 1, {**{k: v for k, v in e.items() if k != "dur"}, "ph": "B"}))
        out.append((e["ts"] + e["dur"], 0, {k: e[k] for k in ("pid", "tid", "name", "cat")}
                    | {"ph": "E", "ts": e["ts"] + e["dur"]}))
    return [e for _, _, e in sorted(out, key=lambda row: row[:2])]


def check_pairs():
    """Pairs of begin and end equal complete events, even if some fields are only in the end
    event."""
    whole, events = alone(document(work(4))), halves(work(4))
    want = [vars(n) for n in whole.nodes]
    for what, edit in (
            ("pairs", lambda e: e),
            ("ends of a bare form", lambda e: e if e["ph"] == "B" else
             {k: e[k] for k in ("ph", "pid", "tid", "ts")}),
            ("unordered", None)):
        doc = [edit(e) for e in events] if edit else sorted(events, key=lambda e: e["ph"])
        r = alone(document(doc))
        if check(r.code == 0, f"{what}: {r.said}"):
            check([vars(n) for n in r.nodes] == want and not r.anomalies,
                  f"{what}: {counts(r)} {[(n.name, n.start, n.dur) for n in r.nodes]}")
    begins = {(e["name"], e["ts"]): e for e in work(4)}
    late = []  # the args are in the end event
    for e in events:
        if e["ph"] == "B":
            late.append({k: v for k, v in e.items() if k != "args"})
        else:
            args = next(b["args"] for (name, ts), b in begins.items()
                        if name == e["name"] and ts + b["dur"] == e["ts"])
            late.append({**e, "args": args})
    r = alone(document(late))
    check(r.code == 0 and [vars(n) for n in r.nodes] == want and not r.anomalies,
          f"args in the end: {r.said} {counts(r)}")


def check_unpaired():
    outer, inner = op("outer", 100, 50), op("inner", 110, 10)
    doc = [e for e in halves([outer, inner]) if (e["name"], e["ph"]) != ("inner", "E")]
    doc.append({"ph": "E", "pid": 1, "tid": 9, "ts": 500})
    r = alone(document(doc))
    durations = {n.name: n.dur for n in r.nodes if not n.name.startswith("[")}
    check(counts(r) == {"unpaired": 2} and durations.get("outer", 0) == 50
          and set(durations) == {"outer", "inner"}, f"unpaired: {counts(r)} {durations}")
    r = alone(document(doc), "--strict")
    check(r.code == 1 and "unpaired" in r.said, f"unpaired, --strict: {r.said}")
    # End events with a name need not nest.
    r = alone(document(halves([op("first", 100, 50), op("second", 110, 90)])))
    durations = {n.name: n.attr.get("inclusive_dur", n.dur) for n in r.nodes
                 if not n.name.startswith("[")}
    check("unpaired" not in counts(r) and durations["second"] == 90, f"{counts(r)} {durations}")


def check_other_phases():
    """Instants, asynchronous events and counters are no ops, and events without an op's name are
    not counted."""
    events = work(3)
    whole = alone(document(events))
    odd = [{**op("aten::mm", 1010 + i, 5), "ph": ph} for i, ph in enumerate("benSTpFiICNODPRsft")]
    other = [{"ph": ph, "cat": "Trace", "name": "x", "pid": 1, "tid": 5, "ts": 1001, "id": 1}
             for ph in "iCbensftM"]
    r = alone(document(events + odd + other))
    check(counts(r) == {"odd-phase": len(odd)}, f"phases: {counts(r)}")
    check([vars(n) for n in r.nodes] == [vars(n) for n in whole.nodes],
          f"phases: {[n.name for n in r.nodes]}")
    r = alone(document(events + odd), "--strict")
    check(r.code == 1 and "odd-phase" in r.said, f"phases, --strict: {r.said}")


# ---- Durations ----


def check_durations():
    for what, edit in (("null", {"dur": None}), ("N/A", {"dur": "N/A"}), ("none", None)):
        events = work(3)
        for e in (events[2], events[8]):
            if edit:
                e.update(edit)
            else:
                del e["dur"]
        r = alone(document(events))
        check(r.code == 0 and counts(r) == {"no-duration": 2}, f"dur {what}: {r.said} {counts(r)}")
        check(r.code == 0 and r.rank["nodes"]["kernels"]["out"] == 3, f"dur {what}: kernels")
        r = alone(document(events), "--strict")
        check(r.code == 1 and "no-duration" in r.said, f"dur {what}, --strict: {r.said}")


def check_overlaps():
    """A kernel of 2 s overlaps the later kernels of its stream. Other streams may overlap, and so
    may an event that ends within the same microsecond."""
    events = work(20)
    events[5 * 3 + 2]["dur"] = 2_000_000
    r = alone(document(events))
    check(r.code == 0 and counts(r) == {"stream-overlap": 1}, f"a kernel of 2 s: {counts(r)}")
    r = alone(document(events), "--strict")
    check(r.code == 1 and "stream-overlap" in r.said, f"a kernel of 2 s, --strict: {r.said}")
    events[5 * 3 + 2]["args"]["stream"] = 8
    r = alone(document(events))
    check(r.code == 0 and not r.anomalies, f"another stream: {counts(r)}")
    events = work(3)
    events[2]["dur"], events[5]["dur"] = 36, 37
    r = alone(document(events))
    check(counts(r) == {"stream-overlap": 1}, f"by 1 and 2 us: {counts(r)}")


# ---- Clocks ----


def as_set(documents, *args):
    """Returns the exit code, the messages, the anomalies by kind, and the begin of each rank's
    first op."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for rank, doc in enumerate(documents):
            with open(os.path.join(folder, f"d.{rank}.json"), "w", encoding="utf-8") as f:
                json.dump(doc, f)
        done = run("convert", "pytorch", "--device", "d.*.json", "--output", "t", "--json", *args,
                   cwd=folder)
        starts, kinds = [], {}
        for rank in range(len(documents)) if done.returncode == 0 else ():
            with open(os.path.join(folder, f"t.{rank}.et"), "rb") as f:
                starts.append(next(n.start for n in read_et(f.read())[1] if n.name == "aten::mm"))
        if done.returncode == 0:
            kinds = {a["kind"]: a["count"] for a in json.loads(done.stdout)["anomalies"]}
        return done.returncode, done.stderr.decode(), kinds, starts


def check_clocks():
    """Times count from baseTimeNanoseconds, as in HolisticTraceAnalysis."""
    def doc(rank, base, ts, late=False):
        events = json.loads(document(work(3)))["traceEvents"]
        for e in events:
            e["ts"] += ts - 1000
        d = {"baseTimeNanoseconds": base} if base is not None and not late else {}
        d |= {"traceEvents": events, "distributedInfo": {"rank": rank, "world_size": 3}}
        return d | ({"baseTimeNanoseconds": base} if late else {})
    b = 1719853884000000000
    for what, docs, kinds, starts in (
            ("3 s", [doc(0, b, 5000000), doc(1, b + 3 * 10**9, 2000010), doc(2, b, 5000020)], {},
             [5000000, 5000010, 5000020]),
            ("behind the events", [doc(0, b + 2000, 100), doc(1, b, 110, True), doc(2, b, 99)], {},
             [102, 110, 99]),
            ("a quarter", [doc(0, b, 7776000000010), doc(1, b + 7776000 * 10**9, 20),
                           doc(2, str(b), 7776000000030)], {},
             [7776000000010, 7776000000020, 7776000000030]),
            ("one without", [doc(0, b, 100), doc(1, None, 200), doc(2, b + 1000, 100)],
             {"clocks-differ": 1}, [100, 200, 101]),
            ("none with", [doc(0, None, 100), doc(1, None, 110), doc(2, None, 120)], {},
             [100, 110, 120]),
            ("apart", [doc(0, b, 100), doc(1, b, 3000100), doc(2, b, 100)], {"clocks-differ": 1},
             [100, 3000100, 100])):
        code, said, met, got = as_set(docs)
        check(code == 0 and met == kinds and got == starts, f"clocks, {what}: {said} {met} {got}")
        code, said, _, _ = as_set(docs, "--strict")
        check(code == (1 if kinds else 0) and ("clocks-differ" in said) == bool(kinds),
              f"clocks, {what}, --strict: {code} {said}")


# ---- Other files ----


def check_autograd():
    """Tests files that EventList.export_chrome_trace of torch.autograd.profiler writes."""
    call = {"name": "aten::mm", "ph": "X", "ts": 345.43, "dur": 301.424, "tid": 1,
            "pid": "CPU functions", "args": {}}
    arrow = {"name": "aten::mm", "ph": "s", "ts": 345.43, "tid": 1, "pid": "CPU functions",
             "id": 0, "cat": "cpu_to_cuda", "args": {}}
    old = {**call, "name": "sgemm", "tid": 0, "pid": "CUDA functions"}
    for events in ([call], [call, arrow, old]):
        for args in ((), ("--profile", "astra-sim")):
            r = alone(json.dumps(events).encode(), *args)
            check(r.code == 1 and "was written by torch.autograd.profiler" in r.said,
                  f"the autograd profiler's file: {r.code} {r.said}")
        r = convert(pt.fixture().texts()[0], json.dumps(events).encode())
        check(r.code == 1 and "was written by torch.autograd.profiler" in r.said,
              f"the autograd profiler's file with a host trace: {r.code} {r.said}")
    r = alone(json.dumps(work(2)).encode())  # an array of Kineto's events is a valid trace
    check(r.code == 0 and not r.anomalies, f"an array: {r.said}")


# ---- Sizes ----

F32, BF16, I64, LIST, NONE = "float", "c10::BFloat16", "long int", "TensorList", ""


def sizes(calls):
    """Returns the sizes of the communications that calls of (name, shapes, types) become, in
    order."""
    events = [op(name, 100 + 20 * i, 15, **{"External id": i + 1, "Input Dims": dims,
                                            "Input type": types})
              for i, (name, dims, types) in enumerate(calls)]
    doc = json.loads(document(events))
    doc["distributedInfo"] = {"backend": "xccl", "rank": 0, "world_size": 2}
    r = alone(json.dumps(doc).encode())
    check(r.code == 0, f"c10d: {r.said}")
    unknown = r.anomalies.get("size-unknown", {}).get("count", 0)
    return [n.attr["comm_size"] for n in r.nodes if "comm_size" in n.attr], unknown


def check_c10d():
    """Tests the inputs that a c10d call reads, by its schema in PyTorch's Ops.cpp, with shapes as
    PyTorch 2.15 writes them. It writes no type for a list of tensors."""
    known = [
        ("c10d::_allgather_base_", [[64, 8], [32, 8], [], [], []], [F32, F32, NONE, "Scalar",
                                                                   "Scalar"], 1024),
        ("c10d::_reduce_scatter_base_", [[32, 8], [64, 8], [], [], [], []],
         [BF16, BF16, NONE, NONE, "Scalar", "Scalar"], 1024),
        ("c10d::alltoall_base_", [[6], [4], [], [], [], [], []],
         [I64, I64, NONE, "ScalarList", "ScalarList", "Scalar", "Scalar"], 32),
        ("c10d::alltoall_base_", [[], [], [], [], [], [], []],
         [F32, F32, NONE, "ScalarList", "ScalarList", "Scalar", "Scalar"], 4),
        ("_c10d_functional::all_reduce", [[32, 8], [], []], [F32, NONE, NONE], 1024),
        ("_c10d_functional::all_reduce_", [[3], [], []], ["c10::complex<c10::Half>", NONE, NONE],
         12),
        ("_c10d_functional::all_gather_into_tensor", [[32, 8], [], []], [BF16, "Scalar", NONE],
         512),
        ("_c10d_functional::all_gather_into_tensor_out", [[5], [], [], [10]],
         [F32, "Scalar", NONE, F32], 20),
        ("_c10d_functional::reduce_scatter_tensor", [[64, 8], [], [], []],
         [F32, NONE, "Scalar", NONE], 2048),
        ("_c10d_functional::all_to_all_single", [[6], [], [], []],
         ["unsigned char", "ScalarList", "ScalarList", NONE], 6),
        ("_c10d_functional::broadcast", [[7], [], []], [I64, "Scalar", NONE], 56),
        ("c10d_functional::all_reduce", [[2, 2], [], [], [], []],
         [F32, NONE, NONE, "ScalarList", "Scalar"], 16),
    ]
    lists = [
        ("c10d::broadcast_", [[[32, 8]], [], [], [], [], []], [LIST, NONE] + 4 * ["Scalar"]),
        ("c10d::allreduce_", [[[32, 8]], [], [], [], [], []], [LIST] + 3 * [NONE] + 2 * ["Scalar"]),
        ("c10d::allreduce_coalesced_", [[[3], [5]], [], [], [], []],
         [LIST, NONE, NONE, "Scalar", "Scalar"]),
        ("c10d::reduce_", [[[32, 8]], [], [], [], [], [], []], [LIST, NONE, NONE] + 4 * ["Scalar"]),
        ("c10d::allgather_", [[], [[10]], [], [], []], [NONE, LIST, NONE, "Scalar", "Scalar"]),
        ("c10d::allgather_coalesced_", [[], [[10]], [], []], [NONE, LIST, NONE, "Scalar"]),
        ("c10d::allgather_into_tensor_coalesced_", [[[64]], [[32]], [], []],
         [LIST, LIST, NONE, "Scalar"]),
        ("c10d::reduce_scatter_", [[[32]], [], [], [], [], []],
         [LIST, NONE, NONE, NONE, "Scalar", "Scalar"]),
        ("c10d::reduce_scatter_tensor_coalesced_", [[[32]], [[64]], [], [], [], []],
         [LIST, LIST, NONE, NONE, "Scalar", "Scalar"]),
        ("c10d::gather_", [[], [[32]], [], [], [], []], [NONE, LIST, NONE] + 3 * ["Scalar"]),
        ("c10d::scatter_", [[[32]], [], [], [], [], []], [LIST, NONE, NONE] + 3 * ["Scalar"]),
        ("c10d::alltoall_", [[[3], [3]], [[3], [3]], [], [], []], [LIST, LIST, NONE, "Scalar",
                                                                  "Scalar"]),
        ("c10d::send", [[[10]], [], [], []], [LIST, NONE, "Scalar", "Scalar"]),
        ("c10d::recv_", [[[10]], [], [], []], [LIST, NONE, "Scalar", "Scalar"]),
        ("c10d::recv_any_source_", [[[10]], [], []], [LIST, NONE, "Scalar"]),
    ]
    got, unknown = sizes([c[:3] for c in known])
    check(got == [c[3] for c in known] and unknown == 0,
          f"c10d: {[(c[0], c[3], g) for c, g in zip(known, got) if c[3] != g]}, {unknown} unknown")
    got, unknown = sizes(lists)
    check(unknown == len(lists) and set(got) == {1}, f"c10d's lists: {got}, {unknown} unknown")
    # barriers have a size of one byte, whatever their tensor is
    got, unknown = sizes([("c10d::barrier", [[1], [], [], [], []],
                           ["unsigned char", NONE, "ScalarList", "Scalar", "Scalar"]),
                          ("c10d::monitored_barrier_", [[0], [], [], [], []],
                           [F32, NONE, "ScalarList", "Scalar", "Scalar"])])
    check(got == [1, 1] and unknown == 0, f"c10d's barriers: {got}, {unknown} unknown")


def check_gloo_parts():
    """gloo reduces and scatters a list of tensors by one all-reduce per tensor. The trace lacks the
    list but has the outputs."""
    events = [op("c10d::reduce_scatter_", 100, 15, **{
        "Record function id": 20, "Input Dims": [[[32, 8]], [], [], [], [], []],
        "Input type": [LIST, NONE, NONE, NONE, "Scalar", "Scalar"]})]
    events += [op("gloo:all_reduce", 103 + 40 * i, 30, tid="worker", **{
        "Record function id": 21 + i, "Input Dims": [[32, 8]], "Input type": [F32]})
               for i in range(2)]
    doc = json.loads(document(events))
    doc["distributedInfo"] = {"backend": "gloo", "rank": 0, "world_size": 2}
    r = alone(json.dumps(doc).encode())
    got = [(n.attr["comm_type"], n.attr["comm_size"]) for n in r.nodes if "comm_size" in n.attr]
    check(got == [(7, 2048)], f"a list over gloo: {got}")


def main():
    check_words()
    check_host_words()
    check_linked_words()
    check_last_event()
    check_utf8()
    check_pairs()
    check_unpaired()
    check_other_phases()
    check_durations()
    check_overlaps()
    check_clocks()
    check_autograd()
    check_c10d()
    check_gloo_parts()
    finish()


main()
