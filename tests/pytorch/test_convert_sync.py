"""Tests the dependencies that `syntorch convert pytorch` reconstructs: synchronisation of host and
streams, and threads that wake each other. Each case is a hand-made trace with its expected
edges."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SYNTORCH = os.path.join(os.environ["SYN_BUILD"], "syntorch")


class Trace:
    """A host and a Kineto trace, with times in us. Names of host ops are single letters, and `tid`
    is 1 or 2."""

    def __init__(self):
        self.nodes, self.events, self.next, self.names = [], [], 10, {}
        self.node(1, "[pytorch|profiler|execution_trace|process]", 1, 0, 0)
        for tid in (1, 2):
            self.node(1 + tid, "[pytorch|profiler|execution_trace|thread]", 1, tid, 0)

    def node(self, number, name, parent, tid, rf_id):
        empty = {"values": [], "shapes": [], "types": []}
        attrs = [("rf_id", rf_id), ("fw_parent", 0), ("seq_id", -1), ("scope", 0), ("tid", tid),
                 ("fw_tid", 0)]
        self.nodes.append({"id": number, "name": name, "ctrl_deps": parent, "inputs": empty,
                           "outputs": empty,
                           "attrs": [{"name": k, "type": "uint64", "value": v} for k, v in attrs] +
                           [{"name": "op_schema", "type": "string", "value": ""}]})

    def event(self, cat, name, ts, dur, tid, **args):
        gpu = cat in ("kernel", "gpu_memcpy", "cuda_sync")
        self.events.append({"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur,
                            "pid": 0 if gpu else 99,
                            "tid": args["stream"] if gpu else 100 + tid, "args": args})

    def op(self, name, ts, dur, tid=1):
        self.next += 1
        self.node(self.next, name, 1 + tid, tid, self.next)
        self.event("cpu_op", name, ts, dur, tid,
                   **{"External id": self.next, "Record function id": self.next})

    def call(self, name, ts, dur, correlation, tid=1):
        self.event("cuda_runtime", name, ts, dur, tid, correlation=correlation)

    def kernel(self, name, launch, ts, dur, stream, correlation, tid=1, call="cudaLaunchKernel",
               call_dur=1):
        self.call(call, launch, call_dur, correlation, tid)
        self.event("gpu_memcpy" if "emcpy" in call else "kernel", name, ts, dur, tid, stream=stream,
                   device=0, correlation=correlation)

    def sync(self, name, ts, dur, stream, correlation, **args):
        self.event("cuda_sync", name, ts, dur, 1, stream=stream, device=0, correlation=correlation,
                   **args)

    def convert(self, folder, *options):
        for name, content in (("host.json", {"schema": "1.1.0-chakra.0.0.4", "nodes": self.nodes}),
                              ("device.json", {"traceEvents": self.events})):
            with open(os.path.join(folder, name), "w") as f:
                json.dump(content, f)
        subprocess.run([SYNTORCH, "convert", "pytorch", "--host", "host.json", "--device",
                        "device.json", "--output", "t.0.et",
                        *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def graph(self):
        """Returns the edges of the result's node-link JSON: (name from, name to, set of
        classes)."""
        with tempfile.TemporaryDirectory() as folder:
            self.convert(folder)
            out = os.path.join(folder, "graph.json")
            subprocess.run([SYNTORCH, "export", "--input", os.path.join(folder, "t.0.et"),
                            "--output", out], check=True)
            with open(out) as f:
                graph = json.load(f)
        names = {n["id"]: n["name"] for n in graph["nodes"]}
        return {(names[e["source"]], names[e["target"]], frozenset(e["kind"].split("|")))
                for e in graph["links"]}

    def edges(self, which, *options):
        """Returns the pairs of names (from, to) in the attribute lists `which`."""
        with tempfile.TemporaryDirectory() as folder:
            self.convert(folder, *options)
            out = os.path.join(folder, "t.json")
            subprocess.run([SYNTORCH, "json", "--input", os.path.join(folder, "t.0.et"), "--output",
                            out], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(out) as f:
                nodes = json.load(f)["ranks"][0]["nodes"]
        names = {n["id"]: n["name"] for n in nodes}
        return {(names[i], n["name"]) for n in nodes for a in n["attr"] if a["name"] == which
                for i in a["uint64List"]["values"]}


class Sync(unittest.TestCase):
    def base(self):
        """Op A launches k1 (stream 7, ends at 200) and k2 (stream 20, ends at 300). Tests add an op
        S that waits."""
        t = Trace()
        t.op("A", 0, 50)
        t.kernel("k1", 10, 100, 100, 7, 1)
        t.kernel("k2", 20, 100, 200, 20, 2)
        return t

    def test_stream_sync(self):
        t = self.base()
        t.op("S", 110, 100)
        t.call("cudaStreamSynchronize", 120, 81, 3)
        t.sync("Stream Sync", 120, 81, 7, 3)
        t.op("B", 220, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "B")})

    def test_context_sync(self):
        t = self.base()
        t.op("S", 110, 200)
        t.call("cudaDeviceSynchronize", 120, 181, 3)
        t.sync("Context Sync", 120, 181, -1, 3)
        t.op("B", 320, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "B"), ("k2", "B")})

    def test_event_sync(self):
        """The event was recorded after k1 and before k3, so the host waits only for k1."""
        t = self.base()
        t.call("cudaEventRecord", 30, 1, 3)
        t.kernel("k3", 35, 200, 50, 7, 4)
        t.op("S", 110, 120)
        t.call("cudaEventSynchronize", 120, 85, 5)
        t.sync("Event Sync", 120, 85, -1, 5, wait_on_stream=7, wait_on_cuda_event_record_corr_id=3)
        t.op("B", 240, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "B")})

    def test_stream_wait(self):
        """Stream 20 waits for an event that was recorded on stream 7 after k1 and before k3."""
        t = self.base()
        t.call("cudaEventRecord", 30, 1, 3)
        t.kernel("k3", 35, 200, 50, 7, 4)
        t.call("cudaStreamWaitEvent", 40, 1, 5)
        t.sync("Stream Wait Event", 40, 1, 20, 5, wait_on_stream=7,
               wait_on_cuda_event_record_corr_id=3)
        t.kernel("k4", 45, 310, 10, 20, 6)
        t.op("B", 60, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "k4")})

    def test_inferred_device_sync(self):
        t = self.base()
        t.op("S", 110, 200)
        t.call("cudaDeviceSynchronize", 120, 181, 3)
        t.op("B", 320, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "B"), ("k2", "B")})

    def test_inferred_waits(self):
        """Without cuda_sync events, waits are inferred: a thread waits for its last launch (k2,
        which ends at 300), for a blocking copy that it calls, or for the work before the event was
        recorded (k1)."""
        t = self.base()
        t.op("S", 110, 200)
        t.call("cudaStreamSynchronize", 120, 181, 3)
        t.op("B", 320, 10)
        self.assertEqual(t.edges("sync_deps"), {("k2", "B")})
        t = self.base()
        t.op("S", 320, 100)
        t.kernel("copy", 330, 340, 20, 7, 3, call="cudaMemcpy", call_dur=40)
        t.op("B", 430, 10)
        self.assertEqual(t.edges("sync_deps"), {("copy", "B")})
        t = Trace()
        t.op("A", 0, 50)
        t.kernel("k1", 10, 100, 100, 7, 1)
        t.call("cudaEventRecord", 15, 1, 3)
        t.kernel("k2", 20, 200, 200, 7, 2)
        t.op("S", 110, 120)
        t.call("cudaEventSynchronize", 120, 85, 5)
        t.op("B", 240, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "B")})

    def test_inferred_stream_wait(self):
        """The next launch waits for earlier work of the other stream. k3 began too early to have
        waited for k2."""
        t = self.base()
        t.call("cudaStreamWaitEvent", 40, 1, 5)
        t.kernel("k3", 45, 210, 10, 7, 6)
        t.op("B", 60, 50)
        t.call("cudaStreamWaitEvent", 65, 1, 8)
        t.kernel("k4", 70, 310, 10, 7, 9)
        self.assertEqual(t.edges("sync_deps"), {("k2", "k4")})

    def test_contradicted(self):
        """The host did not wait for device work that ended after the wait."""
        t = self.base()
        t.op("S", 110, 100)
        t.call("cudaStreamSynchronize", 120, 81, 3)
        t.sync("Stream Sync", 120, 81, 20, 3)
        t.op("B", 220, 10)
        self.assertEqual(t.edges("sync_deps"), set())

    def test_off(self):
        t = self.base()
        t.call("cudaDeviceSynchronize", 45, 300, 3)
        t.op("B", 350, 10)
        self.assertEqual(t.edges("sync_deps"), {("k1", "B"), ("k2", "B")})
        self.assertEqual(t.edges("sync_deps", "--edges", "launch,stream,group,thread"), set())
        self.assertEqual(t.edges("launch_deps", "--edges", "launch"), {("A", "k1"), ("A", "k2")})

    def test_next_op_is_in_the_waiting_thread(self):
        t = self.base()
        t.op("S", 110, 100, tid=2)
        t.call("cudaStreamSynchronize", 120, 81, 3, tid=2)
        t.sync("Stream Sync", 120, 81, 7, 3)
        t.op("B", 220, 10, tid=1)
        t.op("C", 230, 10, tid=2)
        self.assertEqual(t.edges("sync_deps"), {("k1", "C")})


    def test_classes_reach_other_formats(self):
        """k1 waits for its launch. k3 also waits for k1 on its own stream and for k2 on the other
        stream. B waits for k3."""
        t = self.base()
        t.call("cudaStreamWaitEvent", 40, 1, 5)
        t.kernel("k3", 45, 310, 10, 7, 6)
        t.call("cudaStreamSynchronize", 330, 5, 8)
        t.op("B", 340, 10)
        got = {e for e in t.graph() if e[1] in ("k1", "k3", "B") and not e[0].startswith("[")}
        self.assertEqual(got, {("A", "k1", frozenset(["control", "launch"])),
                               ("A", "k3", frozenset(["control", "launch"])),
                               ("k1", "k3", frozenset(["stream"])),
                               ("k2", "k3", frozenset(["sync"])),
                               ("A", "B", frozenset(["data"])), ("k3", "B", frozenset(["sync"]))})


class Threads(unittest.TestCase):
    def trace(self):
        """Thread 1 runs A until 100 and D at 2500 and is idle between. Thread 2 runs B from 150 to
        1200, with C inside until 1100."""
        t = Trace()
        t.op("A", 0, 100)
        t.op("B", 150, 1050, tid=2)
        t.op("C", 200, 900, tid=2)
        t.op("D", 2500, 10)
        return t

    def test_gap(self):
        """D's thread was idle for 2.4 ms, so D waits for B, the op that finished last. B is the
        first op of its thread, so it waits for A."""
        self.assertEqual(self.trace().edges("thread_deps"), {("A", "B"), ("B", "D")})

    def test_threshold(self):
        self.assertEqual(self.trace().edges("thread_deps", "--thread_gap", "3000"), {("A", "B")})

    def test_no_gap_inside_a_long_op(self):
        """C ended more than 1 ms before E began, but B was running around both, so no thread was
        woken."""
        t = Trace()
        t.op("A", 0, 100)
        t.op("B", 150, 5000)
        t.op("C", 200, 100)
        t.op("X", 250, 500, tid=2)
        t.op("E", 3000, 10)
        self.assertEqual({e for e in t.edges("thread_deps") if e[1] != "X"}, set())

    def test_running_ops_are_not_waited_for(self):
        """C is still running when D begins, so D waits for B, which had finished."""
        t = Trace()
        t.op("A", 0, 100)
        t.op("B", 150, 100, tid=2)
        t.op("C", 300, 9000, tid=2)
        t.op("D", 2500, 10)
        self.assertEqual(t.edges("thread_deps"), {("A", "B"), ("B", "D")})


class Parents(unittest.TestCase):
    def test_cycle_is_listed(self):
        """A is B's caller and B is A's. The edge from B to A goes back in id and is dropped."""
        t = Trace()
        t.op("A", 0, 10)
        t.op("B", 2, 5)
        a, b = (n for n in t.nodes if n["name"] in "AB")
        a["ctrl_deps"], b["ctrl_deps"] = b["id"], a["id"]
        with tempfile.TemporaryDirectory() as folder:
            t.convert(folder, "--quiet")
            run = subprocess.run([SYNTORCH, "convert", "pytorch", "--host", "host.json", "--device",
                                  "device.json", "--output",
                                  "t.0.et", "--json"], cwd=folder, check=True, capture_output=True)
        report = json.loads(run.stdout)
        self.assertEqual([(x["kind"], x["count"], x["node"]) for x in report["anomalies"]],
                         [("parent-cycle", 1, a["id"])])
        self.assertEqual(report["ranks"][0]["dropped"], [{"from": 5, "to": 4, "class": "call"}])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
