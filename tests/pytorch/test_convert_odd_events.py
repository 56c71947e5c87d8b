"""`syntorch convert pytorch` on events that other programs, older versions and damage leave: each is
kept or left out as the formats say, counted once, and --strict refuses it."""
import json
import os
import re
import tempfile

from checks import check, finish, run
from device_events import alone, document, kernel, launch, op
import pytorch_traces as pt
from pytorch_traces import convert


def work(n, **args):
    """n ops that launch a kernel of 20 us each."""
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
    """A word that is no JSON takes the place of one value only, also of the last event's."""
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
    # what stands behind it in the same event counts
    text = document([op("nccl:all_reduce", 100, 15), launch(105, 1),
                     kernel("ncclDevKernel_AllReduce", 110, 30, 1, **{
                         "occ": "MARK", "Collective name": "allreduce", "In msg nelems": 1000,
                         "dtype": "BFloat16", "Group size": 2})])
    r = alone(text.replace(b'"MARK"', b"<no occupancy, SM busy>"))
    sizes = [n.attr["comm_size"] for n in r.nodes if "comm_size" in n.attr]
    check(sizes == [2000], f"behind a word: {sizes}")


def check_host_words():
    """In a host trace the value is None, and nothing else is lost; Python reads no such file."""
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
    """Damage within the last event is not the end of the file."""
    text = document(work(2))
    at = text.rindex(b'"args"')
    r = alone(text[:at] + b">, " + text[at:])
    if check(r.code == 0, f"the last event: {r.said}"):
        check(counts(r) == {"broken": 1}, f"the last event: {r.anomalies}")


def check_utf8():
    text = document(work(2, note="caf\u00e9"))
    raw = json.dumps(json.loads(text), ensure_ascii=False).encode()
    r = alone(raw)
    check(r.code == 0 and not r.anomalies, f"UTF-8: {r.said} {r.anomalies}")
    r = alone(raw.replace(b"caf\xc3\xa9", b"caf\xe9"))
    check(r.code == 0 and counts(r) == {"utf8": 2}, f"Latin-1: {r.said} {r.anomalies}")
    r = alone(raw.replace(b"caf\xc3\xa9", b"caf\xe9"), "--strict")
    check(r.code == 1 and "utf8" in r.said, f"Latin-1, --strict: {r.said}")


# ---- Sizes ----

F32, BF16, I64, LIST, NONE = "float", "c10::BFloat16", "long int", "TensorList", ""


def sizes(calls):
    """The sizes of communications, by the order of the calls (name, shapes, types)."""
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
    """What a call of c10d reads, by its schema in PyTorch's Ops.cpp; shapes as PyTorch 2.15 writes
    them. Of a list of tensors it writes no type."""
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
        ("_c10d_functional::all_gather_into_tensor", [[32, 8], [], []], [BF16, "Scalar", NONE], 512),
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
    # barriers are of one byte, whatever their tensor is
    got, unknown = sizes([("c10d::barrier", [[1], [], [], [], []],
                           ["unsigned char", NONE, "ScalarList", "Scalar", "Scalar"]),
                          ("c10d::monitored_barrier_", [[0], [], [], [], []],
                           [F32, NONE, "ScalarList", "Scalar", "Scalar"])])
    check(got == [1, 1] and unknown == 0, f"c10d's barriers: {got}, {unknown} unknown")


def check_gloo_parts():
    """gloo reduces and scatters a list by an all-reduce of each tensor. The list is not recorded,
    but what is filled."""
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
    check_c10d()
    check_gloo_parts()
    finish()


main()
