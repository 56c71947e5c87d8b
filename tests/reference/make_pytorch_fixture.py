#!/usr/bin/env python3
"""Makes pytorch/{host,device}.0.json, a pair of traces in the form of PyTorch 2.5, of two training
steps on rank 0 of 2 GPUs. The traces have two threads, two process groups, collectives and messages
on their own streams, a copy, a memset, a wait between streams and a synchronisation. Nodes are in
the order in which they end. Their ids are in the order in which they begin, with gaps.

  make_pytorch_fixture.py FOLDER
"""
import json
import os
import sys

GROUPS = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [],
           "group_size": 2, "group_count": 2},
          {"pg_name": "1", "pg_desc": "mesh_tp", "backend_config": "cuda:nccl", "ranks": [0, 1],
           "group_size": 2, "group_count": 2}]
MAIN, AUTOGRAD = (1, 7001), (2, 7002)  # ("tid" of the host trace, "tid" of the Kineto trace)
TENSOR = [3, 4, 0, 2048, 4, "cuda:0"]


class Recorder:
    def __init__(self):
        self.nodes, self.events, self.id, self.rf_id, self.correlation = [], [], 1000, 0, 40
        self.now = {MAIN: 5000.0, AUTOGRAD: 5300.5}
        self.stream, self.began, self.ended = {}, [(5290.0, 3, 0)], {}

    def node(self, id, name, parent, thread, rf_id, values=(), types=(), extra=(), out=()):
        def io(values, types):
            shapes = [[v[3]] if isinstance(v, list) else [] for v in values]
            return {"values": list(values), "shapes": shapes, "types": list(types),
                    "strides": [[1] if s else [] for s in shapes]}

        attrs = [("rf_id", "uint64", rf_id), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1),
                 ("scope", "uint64", 0),
                 ("tid", "uint64", thread), ("fw_tid", "uint64", 0), ("op_schema", "string", ""),
                 *extra]
        self.nodes.append({"id": id, "name": name, "ctrl_deps": parent, "inputs": io(values, types),
                           "outputs": io(out, ["Tensor(float)"] * len(out)),
                           "attrs": [dict(zip(("name", "type", "value"), a)) for a in attrs]})

    def event(self, cat, name, tid, ts, dur, args, pid=7001):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts,
                            "dur": round(dur, 3), "args": args})

    def op(self, name, parent, thread, *inner, cat="cpu_op", **io):
        """Adds an op and what it does: functions of (its id, its thread, its External id)."""
        self.id += 1
        self.rf_id += 1
        id, rf_id, begin = self.id, self.rf_id, self.now[thread]
        self.began.append((begin, id, rf_id))
        self.now[thread] += 2.125
        for do in inner:
            do(id, thread, rf_id)
        self.now[thread] += 1.5
        self.event(cat, name, thread[1], begin, self.now[thread] - begin,
                   {"External id": rf_id + 500, "Record function id": rf_id,
                    "Ev Idx": len(self.events)})
        self.ended[id] = self.now[thread]
        self.now[thread] += 0.25
        self.node(id, name, parent, thread[0], rf_id, **io)

    def call(self, name, dur=4.0):
        def do(_, thread, external):
            self.correlation += 1
            self.event("cuda_runtime", name, thread[1], self.now[thread], dur,
                       {"External id": external + 500, "cbid": 1, "correlation": self.correlation})
            self.now[thread] += dur + 0.5
        return do

    def launch(self, cat, name, stream, dur, runtime="cudaLaunchKernel", after=None, **args):
        def do(id, thread, external):
            self.call(runtime)(id, thread, external)
            begin = max(self.now[thread] + 1.75, self.stream.get(stream, 0),
                        self.stream.get(after, 0))
            flow = {"id": self.correlation, "cat": "ac2g", "name": "ac2g"}
            self.events.append({"ph": "s", "pid": 7001, "tid": thread[1],
                                "ts": self.now[thread] - 4, **flow})
            self.event(cat, name, stream, begin, dur,
                       {"External id": external + 500, "device": 0, "context": 1, "stream": stream,
                        "correlation": self.correlation, **args}, pid=0)
            self.events.append({"ph": "f", "pid": 0, "tid": stream, "ts": begin, "bp": "e", **flow})
            self.stream[stream] = begin + dur + 0.5
        return do

    def number(self):
        """Numbers ops in the order in which they began, with gaps, and sorts nodes by the order in
        which they ended."""
        ids, rf_ids, id = {1: 1, 2: 2}, {0: 0}, 2
        for i, (_, old, rf_id) in enumerate(sorted(self.began)):
            id += 1 + i % 7 // 6
            ids[old] = id
            rf_ids.setdefault(rf_id, len(rf_ids))
        self.nodes.sort(key=lambda n: self.ended.get(n["id"], 1e9))
        for n in self.nodes:
            n["id"], n["ctrl_deps"] = ids[n["id"]], ids[n["ctrl_deps"]]
            n["attrs"][0]["value"] = rf_ids[n["attrs"][0]["value"]]
        for e in self.events:
            args = e.get("args", {})
            if "Record function id" in args:
                args["Record function id"] = rf_ids[args["Record function id"]]
            if "External id" in args:
                args["External id"] = rf_ids[args["External id"] - 500] + 500

    def nested(self, name, *inner, **io):
        return lambda id, thread, _: self.op(name, id, thread, *inner, **io)


def collective(t, api, name, kernel, stream, peer=None, after=None, group="1"):
    said = name.split()[0]
    tensor = {"values": [TENSOR], "types": ["Tensor(float)"]}
    extra = [("collective_name", "string", said), ("dtype", "string", "Float"),
             ("in_msg_nelems", "uint64", 2048),
             ("out_msg_nelems", "uint64", 2048), ("pg_name", "string", group),
             ("pg_desc", "string", "mesh_tp"), ("pg_size", "uint64", 2)]
    if peer is not None:
        extra += [("src_rank" if said == "recv" else "dst_rank", "uint64", peer)]
    args = {"Collective name": said, "In msg nelems": 2048, "Out msg nelems": 2048,
            "dtype": "Float", "Group size": 2,
            "Process Group Name": group, "Process Group Ranks": "[0, 1]"}
    record = t.nested("record_param_comms", t.launch("kernel", kernel, stream, 20.25,
                                                     "cudaLaunchKernelExC", after, **args),
                      values=[TENSOR, 7], types=["Tensor(float)", "Int"], extra=extra, out=[TENSOR])
    return t.nested("c10d::" + api, t.nested("nccl:" + name, record, cat="user_annotation",
                                             **tensor), **tensor)


def step(t, number):
    gemm = [t.launch("kernel", "sm80_xmma_gemm_f32f32", 7, 30.5)]
    linear = t.nested("aten::linear", t.nested("aten::addmm", *gemm))
    copy = t.nested("aten::to", t.nested("aten::copy_",
                                         t.launch("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7,
                                                  6.5, "cudaMemcpyAsync")))
    zero = t.nested("aten::zero_", t.launch("gpu_memset", "Memset (Device)", 7, 1.25,
                                            "cudaMemsetAsync"))
    item = t.nested("aten::item", t.nested("aten::_local_scalar_dense", t.launch(
        "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, 2.0, "cudaMemcpyAsync"),
                                           t.call("cudaStreamSynchronize", 160.0)))
    wait = t.nested("aten::record_stream", t.call("cudaStreamWaitEvent"))
    t.op("ProfilerStep#%d" % number, 2, MAIN, copy, zero, linear, linear, wait,
         collective(t, "_allgather_base_", "_all_gather_base",
                    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20,
                    after=7),
         collective(t, "send", "send 0->1",
                    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 24, 1),
         collective(t, "recv_", "recv 0<-1",
                    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 24, 1),
         item, cat="user_annotation")
    t.now[AUTOGRAD] = max(t.now[AUTOGRAD], t.now[MAIN] - 250)
    backward = t.nested("AddmmBackward0", t.nested("aten::mm", *gemm), t.nested("aten::mm", *gemm))
    t.op("autograd::engine::evaluate_function: AddmmBackward0", 3, AUTOGRAD, backward)
    collective(t, "allreduce_", "all_reduce",
               "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
               20)(3, AUTOGRAD, 0)
    t.now[MAIN] = max(t.now[MAIN], t.now[AUTOGRAD] + 5)


def write(path, top, key, rows, rest):
    lines = ",\n".join("  " + json.dumps(r) for r in rows)
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(top)[:-1] + ',\n"%s": [\n' % key + lines + "\n],\n"
                + json.dumps(rest)[1:] + "\n")


def main():
    t = Recorder()
    t.op("## process_group:init ##", 2, MAIN, values=[json.dumps(GROUPS)], types=["String"])
    step(t, 5)
    step(t, 6)
    t.node(3, "[pytorch|profiler|execution_trace|thread]", 1, 2, 0)
    t.node(2, "[pytorch|profiler|execution_trace|thread]", 1, 1, 0)
    t.node(1, "[pytorch|profiler|execution_trace|process]", 1, 0, 0)
    t.number()
    write(os.path.join(sys.argv[1], "host.0.json"),
          {"schema": "1.1.1-chakra.0.0.4", "pid": 7001, "time": "2026-01-02 03:04:05",
    "start_ts": 4990}, "nodes", t.nodes, {"finish_ts": 9000})
    write(os.path.join(sys.argv[1], "device.0.json"),
          {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
    "displayTimeUnit": "ms"}, "traceEvents", t.events, {"traceName": "device.0.json"})


main()
