"""Tests the tensors of PyTorch traces in trace sets for a simulator: which node writes each tensor,
which nodes read it, and how large it is. Expected values are computed manually for a small
trace."""
import itertools

from checks import check, finish
import pytorch_traces as pt

FLOAT = "Tensor(float)"


class Recording:
    """A host trace and a Kineto trace. Each op launches kernels on a stream."""

    def __init__(self):
        self.ids, self.time = itertools.count(100), 1000
        self.nodes = [self.node(2, "[pytorch|profiler|execution_trace|process]", 1, [], [], 0)]
        self.nodes.append(self.node(3, "[pytorch|profiler|execution_trace|thread]", 2, [], [], 0))
        self.events = []

    @staticmethod
    def node(number, name, parent, inputs, outputs, rf_id):
        def io(values):
            nested = [isinstance(v[0], list) for v in values]
            return {"values": values, "shapes": [[] for _ in values],
                    "types": ["GenericList[Tensor(float)]" if n else FLOAT for n in nested]}
        attrs = {"rf_id": rf_id, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0}
        return {"id": number, "name": name, "ctrl_deps": parent, "inputs": io(inputs),
                "outputs": io(outputs), "attrs": [
                    {"name": k, "type": "uint64", "value": v} for k, v in attrs.items()]}

    def op(self, name, inputs, outputs, kernels=1, stream=7):
        rf_id = next(self.ids)
        self.nodes.append(self.node(rf_id + 1000, name, 3, inputs, outputs, rf_id))
        event = {"ph": "X", "pid": 1, "tid": 1}
        self.events.append(dict(event, cat="cpu_op", name=name, ts=self.time, dur=20, args={
            "Record function id": rf_id, "External id": rf_id}))
        for i in range(kernels):
            call = next(self.ids)
            self.events += [
                dict(event, cat="cuda_runtime", name="cudaLaunchKernel", ts=self.time + 2 * i + 1,
                     dur=1, args={"correlation": call, "External id": rf_id}),
                dict(event, cat="kernel", name=f"{name} {i}", pid=0, tid=stream,
                     ts=self.time + 30 + 10 * i, dur=9,
                     args={"correlation": call, "External id": rf_id, "device": 0,
                           "stream": stream})]
        self.time += 100

    def lists(self):
        """Returns {kernel name: (tensors that it reads, tensors that it writes)}, each as (name,
        bytes)."""
        r = pt.convert(pt.dump({"schema": "1.0.3-chakra.0.0.4", "pid": 1, "nodes": self.nodes}),
                       pt.dump({"traceEvents": self.events, "distributedInfo": {
                           "rank": 0, "world_size": 1}}), "--profile", "astra-sim")
        check(r.code == 0, r.said)
        check(all("inputs" in n.attr and "outputs" in n.attr for n in r.nodes), "lists are missing")
        pairs = {n.name: tuple(list(zip(n.attr[k][::2], map(int, n.attr[k][1::2])))
                               for k in ("inputs", "outputs")) for n in r.nodes}
        check(pairs.pop("host delay") == ([], []), "a delay moves nothing")
        return pairs


def tensor(storage, elems, offset=0, device="cuda:0"):
    return [storage + 1000, storage, offset, elems, 4, device]


def main():
    r = Recording()
    a, b, c, d, e = (tensor(s, 100) for s in range(1, 6))
    r.op("mm", [a, b], [c], kernels=2)
    r.op("add_", [c, b], [c])                            # in place: reads what mm has written
    r.op("cat", [[c, a]], [tensor(4, 200)])
    r.op("select", [tensor(4, 50, offset=250)], [e])     # a part of a larger storage
    r.op("zero_", [tensor(6, 10)], [tensor(6, 10)])      # the first op to use the tensor fills it
    r.op("mm2", [e, tensor(6, 10), tensor(7, 5, device="cpu")], [tensor(3, 30)])  # reuses c's id
    r.op("relu", [tensor(3, 30)], [d])                   # reuses id 4
    r.op("apart", [d, a], [tensor(8, 1)], stream=9)      # does not wait for relu
    r.op("last", [tensor(8, 1), e, d], [])
    want = {
        "mm 0": ([("s1", 400), ("s2", 400)], [("s3", 400)]), "mm 1": ([], []),
        "add_ 0": ([("s3", 400), ("s2", 400)], []),
        "cat 0": ([("s3", 400), ("s1", 400)], [("s4", 1200)]),
        "select 0": ([("s4", 1200)], [("s5", 400)]),
        "zero_ 0": ([], [("s6", 40)]),
        "mm2 0": ([("s5", 400), ("s6", 40)], [("s3.1", 120)]),
        "relu 0": ([("s3.1", 120)], [("s4.1", 400)]),
        "apart 0": ([("s1", 400)], [("s8", 4)]),
        "last 0": ([("s5", 400), ("s4.1", 400)], []),
    }
    got = r.lists()
    for name in want.keys() | got.keys():
        check(got.get(name) == want.get(name), f"{name}: {got.get(name)}, not {want.get(name)}")


main()
finish()
