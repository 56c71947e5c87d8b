"""Tests `syntorch convert pytorch` on random traces and on random edits of them. It always finishes
with exit code 0 or 1, and its output passes `validate` (and etcheck.py, if available). Undamaged
traces convert completely and without a warning."""
import json
import os
import random
import sys
import tempfile

import checks

COUNT = int(os.environ.get("SYN_RANDOM_TRACES", "150"))
COLLECTIVES = ["allreduce", "_allgather_base", "broadcast", "reduce_scatter", "all_to_all"]
KERNELS = {"allreduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
           "_allgather_base": "ncclDevKernel_AllGather_RING_LL",
           "broadcast": "ncclDevKernel_Broadcast_RING_LL",
           "reduce_scatter": "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
           "all_to_all": "ncclDevKernel_SendRecv"}


class Generator:
    def __init__(self, rng):
        self.rng, self.id, self.rf, self.corr = rng, 3, 0, 0
        self.nodes, self.events, self.n_device = [], [], 0
        self.streams = {}
        threads = rng.randint(1, 3)
        self.node(1, "[pytorch|profiler|execution_trace|process]", 1, 0, 0)
        for tid in range(1, threads + 1):
            root = self.fresh()
            self.node(root, "[pytorch|profiler|execution_trace|thread]", 1, tid, 0)
            now = 1e6 + rng.randrange(8000) / 8  # whole nanoseconds
            for _ in range(rng.randint(1, 6)):
                now = self.op(root, tid, now, rng.randint(0, 4)) + rng.choice([0, 0.25, 3, 1500])

    def fresh(self):
        self.id += self.rng.randint(1, 3)
        return self.id

    def node(self, number, name, parent, tid, rf, inputs=None):
        io = inputs or {"values": [], "shapes": [], "types": []}
        attrs = [("rf_id", rf), ("fw_parent", 0), ("seq_id", -1), ("scope", 0), ("tid", tid),
                 ("fw_tid", 0)]
        self.nodes.append({"id": number, "name": name, "ctrl_deps": parent, "inputs": io,
                           "outputs": {"values": [], "shapes": [], "types": []},
                           "attrs": [{"name": k, "type": "uint64", "value": v} for k, v in attrs] +
                           [{"name": "op_schema", "type": "string", "value": ""}]})

    def op(self, parent, tid, start, depth):
        rng = self.rng
        me, self.rf = self.fresh(), self.rf + 1
        rf, kind = self.rf, rng.random()
        comm = rng.choice(COLLECTIVES) if kind < 0.15 else None
        tensor = [[me, me, 0, 1024, 4, "cuda:0"]]
        name = "record_param_comms" if comm \
            else rng.choice(["aten::mm", "aten::add_", "op \u00e9 \"q\"", "a\\b", "x" * 40])
        self.node(me, name, parent, tid, rf,
                  {"values": tensor, "shapes": [[1024]], "types": ["Tensor(float)"]} if comm
                  or kind < 0.5 else None)
        now = start + rng.choice([0, 0.5, 2])
        for _ in range(rng.randint(0, 3) if depth else 0):
            now = self.op(me, tid, now, depth - 1) + rng.choice([0, 0.125, 1])
        if comm or rng.random() < 0.5:
            now = self.launch(tid, now, rf, comm)
        end = now + rng.choice([0, 0.75, 4])
        self.events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 70 + tid,
                            "ts": start,
                            "dur": round(end - start, 3),
                            "args": {"External id": rf, "Record function id": rf}})
        return end

    def launch(self, tid, now, rf, comm):
        rng = self.rng
        self.corr += 1
        self.n_device += 1
        stream = 20 if comm else rng.choice([7, 7, 9])
        start = max(now + 1, self.streams.get(stream, 0))
        dur = rng.choice([0, 1, 12.375, 100])
        self.streams[stream] = start + dur
        args = {"External id": rf, "device": 0, "stream": stream, "correlation": self.corr}
        name = "gemm"
        cat = rng.choice(["kernel", "kernel", "gpu_memcpy", "gpu_memset"])
        if comm:
            cat, name = "kernel", KERNELS[comm]
            args.update({"Collective name": comm, "In msg nelems": 1024, "Out msg nelems": 1024,
                         "Group size": 2, "dtype": "Float",
                         "Process Group Name": "0", "Process Group Ranks": "[0, 1]"})
        self.events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7,
                            "tid": 70 + tid, "ts": now,
                            "dur": 0.5, "args": {"External id": rf, "correlation": self.corr}})
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream,
                            "ts": start, "dur": dur, "args": args})
        return now + 0.5

    def texts(self):
        rng = self.rng
        indent = rng.choice([None, None, 2])
        nodes, events = self.nodes[1:] + self.nodes[:1], self.events[:]
        rng.shuffle(events)
        host = {"schema": "1.1.0-chakra.0.0.4", "pid": 7, "time": "t", "start_ts": 1,
                "nodes": nodes, "finish_ts": 9}
        device = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2},
                  "traceEvents": events}
        return (json.dumps(host, indent=indent, ensure_ascii=rng.random() < 0.5).encode(),
                json.dumps(device, indent=indent).encode())


def edit(rng, text):
    """Makes one random edit: cut, delete, duplicate, overwrite or insert. Half of the edits are
    next to a JSON delimiter."""
    if len(text) < 2:
        return text
    at = rng.randrange(len(text))
    if rng.random() < 0.5:
        mark = rng.choice([b"{", b"}", b"[", b"]", b",", b":", b'"', b'"id"', b'"ts"', b'"args"',
                           b'"ctrl_deps"'])
        found = text.find(mark, at)
        at = found if found >= 0 else at
    n = rng.choice([1, 1, 2, 10, 200])
    how = rng.randrange(6)
    if how == 0:
        return text[:at]
    if how == 1:
        return text[:at] + text[at + n:]
    if how == 2:
        return text[:at + n] + text[at:at + n] + text[at + n:]
    if how == 3:
        return text[:at] + bytes(rng.choice(b'{}[],:"\\0-9eE.nN\x00\x1f\xff')
                                 for _ in range(n)) + text[at + n:]
    if how == 4:
        return text[:at] + rng.choice([b",", b"}{", b"NaN", b"null", b'"', b"-",
                                       b"99999999999999999999", b"\n"]) + text[at:]
    digits = [i for i in range(at, min(at + 400, len(text))) if text[i:i + 1].isdigit()]
    if not digits:
        return text
    i = rng.choice(digits)
    return text[:i] + str(rng.randrange(10)).encode() + text[i + 1:]


def problems(module, path):
    checker = module.Checker({}, 1, True)
    checker.file(0, module.read(path))
    return checker.problems


def convert(folder, texts, *options):
    for name, text in zip(("host.json", "device.json"), texts):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text)
    out = os.path.join(folder, "t.0.et")
    for name in ("t.0.et", "t.comm_group.json"):
        if os.path.exists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))
    run = checks.run("convert", "pytorch", "--host", "host.json", "--device", "device.json",
                     "--output", "t.0.et", "--json", *options, cwd=folder)
    return run, out


def check(run, out, module, sim, what):
    assert run.returncode in (0, 1), f"{what}: exit code {run.returncode}: {run.stderr[-2000:]}"
    if run.returncode == 1:
        assert run.stderr.strip() and not os.path.exists(out), \
            f"{what}: exit 1 without a sentence, or with a file"
        return None
    valid = checks.run("validate", out, "--single", *([] if sim else ["--any_node"]))
    assert valid.returncode == 0, f"{what}: {valid.stdout[-2000:]}{valid.stderr[-500:]}"
    if module:
        bad = problems(module, out)
        assert not bad, f"{what}: {bad[:3]}"
    return json.loads(run.stdout)


def main():
    module = checks.load_etcheck()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(COUNT):
            rng = random.Random(seed)
            made = Generator(rng)
            texts = made.texts()
            report = check(*convert(folder, texts), module, False, f"seed {seed}")
            assert report is not None and not report["anomalies"], \
                f"seed {seed}: {report and report['anomalies']}"
            nodes = report["ranks"][0]["nodes"]
            assert all(k["in"] == k["out"] for k in nodes.values()), f"seed {seed}: {nodes}"
            total = sum(k["out"] for k in nodes.values())
            assert total == len(made.nodes) + made.n_device, f"seed {seed}: {total} nodes"
            assert report["ranks"][0]["matches"]["device_none"] == 0
            for step in range(3):
                i = rng.randrange(2)
                texts = tuple(edit(rng, t) if k == i else t for k, t in enumerate(texts))
                sim = rng.random() < 0.3
                more = ["--profile", "astra-sim"] if sim else []
                try:
                    check(*convert(folder, texts, *more), module, sim, f"seed {seed}, edit {step}")
                except AssertionError:
                    keep = os.environ.get("SYN_KEEP")
                    for name, text in zip(("host.json", "device.json"), texts):
                        if keep:
                            with open(os.path.join(keep, name), "wb") as f:
                                f.write(text)
                    raise
    print(f"{COUNT} traces, {3 * COUNT} edits")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as e:
        sys.exit(f"failed: {e}")
