"""Tests a Kineto trace without a host trace: its CPU ops replace the host nodes. A simulator must
get the same nodes as from both files."""
import collections
import json
import os
import tempfile

from checks import check, finish, run
from device_events import alone, document, kernel, launch, op
from execution_trace import COLL, RECV, SEND, read_et
import pytorch_traces as pt
from pytorch_traces import convert


def simulated(p, r):
    """Returns what a simulator reads from the nodes, except costs, which need tensors, and sizes
    that Kineto does not record."""
    told = any("In msg nelems" in e.get("args", {}) for e in p.gpu())
    keys = ("comm_type", "comm_src", "comm_dst", "comm_tag",
            "is_cpu_op") + (("comm_size",) if told else ())
    return [(n.name, n.type, n.dur, sorted(n.deps), {k: n.attr.get(k) for k in keys})
            for n in r.nodes]


def launchers(r):
    """Returns for each piece of device work, by its begin and name, the name and begin of the op
    that launched it."""
    by_id = {n.id: n for n in r.nodes}
    return collections.Counter((n.start, n.name,
                                *((by_id[n.ctrl[0]].name, by_id[n.ctrl[0]].start) if n.ctrl
                                  else ()))
                               for n in r.nodes if n.on_gpu)


def compare(p):
    host, device = p.texts()
    both, one = convert(host, device, "--profile", "astra-sim"), \
        alone(device, "--profile", "astra-sim")
    if check(one.code == 0, f"{p.name}: {one.said}"):
        a, b = simulated(p, both), simulated(p, one)
        check(len(a) == len(b), f"{p.name}: {len(b)} nodes for a simulator, {len(a)} of both files")
        differ = [(x, y) for x, y in zip(a, b) if x != y]
        check(not differ,
              f"{p.name}: {len(differ)} nodes differ from those of both files: {differ[:2]}")
        check("no-host-trace" in one.rank["notes"], f"{p.name}: {one.rank['notes']}")
    both, one = convert(host, device), alone(device)
    if check(one.code == 0, f"{p.name}: {one.said}"):
        check(launchers(both) == launchers(one),
              f"{p.name}: launched by other ops: "
              f"{list((launchers(one) - launchers(both)).items())[:2]}")
        n_calls = sum(e.get("cat") in ("cpu_op", "user_annotation") for e in p.events)
        check(one.rank["nodes"]["host ops"]["out"]
              + one.rank["nodes"]["metadata"]["out"] == n_calls,
              f"{p.name}: {one.rank['nodes']}, {n_calls} CPU ops")


def check_costs():
    shapes = {"Input Dims": [[64, 256], [256, 32]], "Input type": ["c10::Half", "c10::Half"],
              "Concrete Inputs": ["", ""]}
    r = alone(document([op("aten::mm", 100, 50, **shapes), launch(110, 1),
                        kernel("gemm", 120, 20, 1)]), "--profile", "astra-sim")
    gemm = [n for n in r.nodes if n.name == "gemm"]
    check(len(gemm) == 1 and gemm[0].attr.get("num_ops") == 2 * 64 * 256 * 32,
          f"mm: {[n.attr for n in gemm]}")
    check(gemm[0].attr.get("tensor_size") == 2 * (64 * 256 + 256 * 32),
          f"mm: {[n.attr for n in gemm]}")
    # the output has 2 x 8 x 5 x 5 elements, each of 4 x 3 x 3 products; backward needs twice as
    # many
    image, weight, out = [2, 4, 9, 9], [8, 4, 3, 3], [2, 8, 5, 5]
    forward = {"Input Dims": [image, weight, [], [], [], []],
               "Concrete Inputs": ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False"]}
    backward = {"Input Dims": [out, image, weight],
                "Concrete Inputs": ["", "", "", "[8]", "[2, 2]", "[1, 1]", "[1, 1]", "False",
                                    "[0, 0]", "1", "[True, True, False]"]}
    # the matrix product next to it was launched before the trace began
    r = alone(document([op("aten::miopen_convolution", 100, 50, **forward), launch(110, 1),
                        kernel("conv", 120, 20, 1),
                        op("aten::convolution_backward", 200, 50, **backward), launch(210, 2),
                        kernel("grad", 220, 20, 2), op("aten::mm", 300, 50, **shapes),
                        kernel("before", 310, 20, 77)]), "--profile", "astra-sim")
    ops = {n.name: n.attr.get("num_ops") for n in r.nodes}
    one = 2 * 2 * 8 * 5 * 5 * 4 * 3 * 3
    check((ops["conv"], ops["grad"], ops["before"]) == (one, 2 * one, 1), f"convolutions: {ops}")


def check_callers():
    """Callers are found by time within each thread. An op that ends after another op is not called
    by it."""
    r = alone(document([op("outer", 100, 50), op("inner", 110, 10), op("innermost", 110, 5),
                        op("behind", 150, 5), op("late", 145, 8),
                        op("other thread", 112, 3, tid="name")]))
    by_name = {n.name: n for n in r.nodes}
    by_id = {n.id: n.name for n in r.nodes}
    callers = {name: by_id[n.ctrl[0]] for name, n in by_name.items() if n.ctrl
               and by_id[n.ctrl[0]] != pt.PROCESS}
    check(callers == {"inner": "outer", "innermost": "inner"}, f"callers: {callers}")
    check({n.attr["tid"] for n in r.nodes if "tid" in n.attr} == {1, 2}, "two threads")


def check_modules():
    """The module of an op is found by time, for a backward op by its sequence number, and otherwise
    is its caller's."""
    def module(name, ts, dur):
        return dict(op("nn.Module: " + name, ts, dur), cat="python_function")
    back = "autograd::engine::evaluate_function: AddmmBackward0"
    r = alone(document([module("Net_0", 100, 100), module("Linear_0", 110, 60),
                        op("aten::linear", 120, 30, **{"Sequence number": 7}),
                        op("aten::addmm", 125, 20), launch(130, 1), op("aten::relu", 172, 20),
                        op("aten::view", 210, 5, **{"Sequence number": 7}),
                        dict(op("forward", 90, 10), cat="python_function"),
                        op(back, 220, 50, tid=6, **{"Sequence number": 7}),
                        op("aten::mm", 230, 20, tid=6), kernel("gemm", 140, 9, 1)]))
    found = {n.name: n.attr["module"] for n in r.nodes if "module" in n.attr}
    linear = "Net_0/Linear_0"
    check(found == {"aten::linear": linear, "aten::addmm": linear, "gemm": linear,
                    "aten::relu": "Net_0", back: linear, "aten::mm": linear}, f"modules: {found}")
    check("forward" not in {n.name for n in r.nodes}, "other Python functions are no ops")


def check_old_records():
    """In Kineto before PyTorch 2.2, record_param_comms has only shapes. Other versions record
    waiting."""
    events = [op("record_param_comms", 100, 20,
                 **{"Input Dims": [[100], [], []], "Input type": ["float", "", ""]}),
              op("nccl:all_reduce", 101, 15, **{"Input Dims": [[100]], "Input type": ["float"]}),
              launch(105, 1), kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 110, 30, 1),
              op("record_param_comms", 130, 3, **{"Input Dims": [[], []], "Input type": ["", ""]})]
    r = alone(document(events))
    comms = [n for n in r.nodes if n.type == COLL]
    check([(n.attr["comm_type"], n.attr["comm_size"]) for n in comms] == [(0, 400)],
          f"old records: {[n.attr for n in comms]}")
    check("unknown-collective" not in r.anomalies, f"old records: {list(r.anomalies)}")


def check_functional_messages():
    """Messages of torch.compile have the tensor, the other rank, the tag and the group."""
    def message(name, ts):
        return op("_c10d_functional::" + name, ts, 5,
                  **{"Concrete Inputs": ["", "1", "7", ""], "Input Dims": [[32], [], [], []],
                     "Input type": ["float", "Scalar", "Scalar", ""]})
    r = alone(document([message("isend", 100), message("irecv", 120)]))
    comms = [(n.type, n.attr["comm_size"], n.attr["comm_src"], n.attr["comm_dst"])
             for n in r.nodes if "comm_size" in n.attr]
    check(comms == [(SEND, 128, 0, 1), (RECV, 128, 1, 0)], f"functional: {comms}")


def check_gloo():
    """gloo works in its own thread. Its op belongs to the earliest call of the same kind."""
    def gloo(name, ts, dims):
        return op(name, ts, 30, tid="worker", **{"Input Dims": [dims], "Input type": ["float"]})
    events = [op("c10d::allreduce_", 100, 5), op("c10d::_reduce_scatter_base_", 110, 5),
              op("c10d::send", 120, 5, **{"Concrete Inputs": ["", "", "1", "7"],
                                          "Input Dims": [[], [], [], []],
                                          "Input type": ["TensorList", "", "Scalar", "Scalar"]}),
              gloo("gloo:all_reduce", 103, [256]), gloo("gloo:all_reduce", 140, [16]),
              gloo("gloo:send", 180, [32]),
              op("c10d::_reduce_scatter_base_", 220, 20), gloo("gloo:all_reduce", 225, [16]),
              gloo("gloo:scatter", 230, [8]), op("aten::add", 300, 10)]
    r = alone(document(events))
    names = {n.id: n.name for n in r.nodes}
    comms = [(names[n.ctrl[0]], n.type, n.attr["comm_size"], n.attr.get("comm_dst"))
             for n in r.nodes if "comm_size" in n.attr]
    check(sorted(comms) == 2 * [("c10d::_reduce_scatter_base_", COLL, 64, None)]
          + [("c10d::allreduce_", COLL, 1024, None),
    ("c10d::send", SEND, 128, 1)], f"gloo: {comms}")
    check("peer-unknown" not in r.anomalies and "size-unknown" not in r.anomalies,
          f"gloo: {list(r.anomalies)}")


def check_gloo_ids():
    """With record function ids, the library's op is the next op that the calling thread made,
    whenever the op begins. Two threads call at the same time, one op has no call, and the loss is a
    tensor without dimensions."""
    def call(ts, tid, rf_id, dims, name="c10d::allreduce_"):
        return op(name, ts, 5, tid=tid, **{"Input Dims": [[dims]], "Input type": ["TensorList"],
                                           "Record function id": rf_id})

    def work(ts, rf_id, dims, name="gloo:all_reduce", tid="worker"):
        return op(name, ts, 30, tid=tid, **{"Input Dims": [dims], "Input type": ["float"],
                                            "Record function id": rf_id})
    events = [work(90, 10, [4], tid="other"), call(100, 1, 20, [256]), call(101, 2, 21, [16]),
              call(110, 1, 24, [256]), call(120, 1, 26, []),
              call(121, 2, 27, [16]), work(300, 22, [256]), work(200, 23, [16]),
              work(400, 25, [256]), work(500, 29, [], tid="w2"),
              work(600, 28, [16]), op("aten::add", 700, 10, tid=1, **{"Record function id": 30}),
              # a barrier made of messages, and tensors that are reduced together
              call(710, 1, 40, [], "c10d::monitored_barrier_"), work(720, 41, [1], "gloo:send"),
              work(725, 42, [1], "gloo:recv", tid="w2"),
              call(800, 1, 50, [3], "c10d::allreduce_coalesced_"),
              op("gloo:all_reduce", 810, 20, tid="worker",
                 **{"Input Dims": [[3], [5]], "Input type": ["float", "float"],
                    "Record function id": 51})]
    r = alone(document(events))
    check(sum(n.attr.get("comm_type") == 9 for n in r.nodes) == 1, "gloo: one barrier")
    by_id = {n.id: n for n in r.nodes}
    pairs = {n.attr["rf_id"]: (by_id[n.ctrl[0]].attr["rf_id"] if n.ctrl
                               and "rf_id" in by_id[n.ctrl[0]].attr else None, n.attr["comm_size"])
             for n in r.nodes if "comm_size" in n.attr and n.attr.get("comm_type") != 9}
    check(pairs == {51: (50, 32), 10: (None, 16), 22: (20, 1024), 23: (21, 64), 25: (24, 1024),
                    28: (27, 64), 29: (26, 4)}, f"gloo's ids: {pairs}")


def check_odd_times():
    """Ops with impossible or missing times are kept without times, and do not cause a delay of 53
    years."""
    epoch = 1700000000000000
    events = [op("first", epoch, 50), launch(epoch + 5, 1), kernel("k", epoch + 10, 5, 1),
              op("zero", 0, 5), kernel("z", 0, 5, 2),
              op("before", -5, 5), op("huge", 2**63 + 10, 5), {**op("none", 0, 5), "ts": None}]
    r = alone(document(events))
    check(r.rank["nodes"]["host ops"] == {"in": 5, "out": 5}
          and r.rank["nodes"]["kernels"]["out"] == 2, f"odd times: {r.rank['nodes']}")
    check(r.anomalies.get("bad-time", {}).get("count", 0) >= 3, f"odd times: {r.anomalies}")
    r = alone(document(events), "--profile", "astra-sim")
    check(max(n.dur for n in r.nodes) < 1000, f"odd times: {[(n.name, n.dur) for n in r.nodes]}")


def check_small_gather():
    """ASTRA-sim never finishes an all-gather that has fewer bytes than splits."""
    events = [op("c10d::_allgather_base_", 100, 15), launch(105, 1),
              kernel("ncclDevKernel_AllGather_RING_LL", 110, 30, 1)]
    for profile, size in (("full", 1), ("astra-sim", 64)):
        r = alone(document(events), "--profile", profile)
        check([n.attr["comm_size"] for n in r.nodes if n.type == COLL] == [size],
              f"small all-gather, {profile}: {[n.attr for n in r.nodes]}")


def check_set():
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        for rank in range(2):
            events = [op("nccl:all_reduce", 100, 15), launch(105, 1),
                      kernel("ncclDevKernel_AllReduce", 110 + rank, 30, 1, **{
                          "Collective name": "allreduce", "In msg nelems": 1000,
                          "dtype": "BFloat16", "Group size": 2,
                          "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
                          "Process Group Description": "default_pg"})]
            with open(os.path.join(folder, f"d.{rank}.json"), "wb") as f:
                f.write(document(events))
        done = run("convert", "pytorch", "--device", "d.*.json", "--output", "out/t",
                   "--profile", "astra-sim", "--strict", cwd=folder)
        check(done.returncode == 0, f"a set: {done.stderr.decode()}")
        for rank in range(2):
            with open(os.path.join(folder, "out", f"t.{rank}.et"), "rb") as f:
                sizes = [n.attr["comm_size"] for n in read_et(f.read())[1] if n.type == COLL]
            check(sizes == [2000], f"a set: rank {rank}: {sizes}")
        with open(os.path.join(folder, "out", "t.comm_group.json"), encoding="utf-8") as f:
            check(json.load(f) == {"1": [0, 1]}, "a set: its groups")
        done = run("validate", "out/t", cwd=folder)
        check(done.returncode == 0, f"a set: {done.stdout.decode()}")
        # The trace set is named by its prefix or by its first file. No phase is reported, and
        # missing ranks are.
        for rank, name in enumerate(("out/t", "out/t.0.et")):
            done = run("export", "--input", name, "--all_ranks", "--comm", "--format", "dot",
                       "--output", f"{rank}.dot", cwd=folder)
            if check(done.returncode == 0, f"export of {name}: {done.stderr.decode()}"):
                with open(os.path.join(folder, f"{rank}.dot"), encoding="utf-8") as f:
                    text = f.read()
                check("Communication between 2 ranks" in text and "PyTorch trace" in text
                      and "forward, step" not in text and ">forward" not in text,
                      f"export of {name}: its words")
        os.remove(os.path.join(folder, "out", "t.1.et"))
        done = run("export", "--input", "out/t", "--comm", "--format", "dot", "--output", "-",
                   cwd=folder)
        check("Communication of 1 of 2 ranks" in done.stdout.decode(),
              f"export of half a set: {done.stderr.decode()}")


def check_reasons():
    """The reason why communication becomes computation is reported, both as text and as JSON."""
    p = pt.fixture().copy()
    p.device["distributedInfo"]["world_size"] = 1
    for e in p.events:
        args = e.get("args", {})
        if "Group size" in args:
            args.update({"Group size": 1, "Process Group Ranks": "[0]"})
    device = p.texts()[1]
    r = alone(device, "--profile", "astra-sim")
    written = r.json["ranks"][0]["written"]
    reasons = collections.Counter(n.attr["not_simulated"] for n in r.nodes
                                  if "not_simulated" in n.attr)
    check(reasons["a group of one rank"] == 4 and len(reasons) == 2, f"reasons: {reasons}")
    check(written["not_simulated"] == dict(reasons)
          and written["stand_ins"] == sum(reasons.values()), f"reasons: {written}")
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        with open(os.path.join(folder, "d.json"), "wb") as f:
            f.write(device)
        said = run("convert", "pytorch", "--device", "d.json", "--output", "t.et", "--profile",
                   "astra-sim", cwd=folder).stdout.decode()
    check("communications as computation (" in said and "4: a group of one rank" in said,
          f"reasons: {said}")


def check_little():
    r = alone(document([kernel("k", 100, 20, 1), kernel("l", 130, 20, 2)]))
    check(r.code == 0 and r.rank["nodes"]["kernels"]["out"] == 2, f"kernels only: {r.said}")
    r = alone(document([op("aten::add", 100, 10)]))
    check(r.code == 0 and "no-device-work" in r.rank["notes"], f"CPU ops only: {r.said}")
    r = alone(document([]))
    check(r.code == 1 and "neither CPU ops nor kernels" in r.said, f"nothing: {r.code} {r.said}")
    r = alone(document([op("aten::add", 100, 10)]), "--trim")
    check(r.code == 2 and "give both" in r.said, f"--trim: {r.code} {r.said}")
    r = alone(document([op("aten::add", 100, 10)]), "--object", "0")
    check(r.code == 2 and "give --host" in r.said, f"--object: {r.code} {r.said}")
    r = alone(pt.fixture().texts()[0])
    check(r.code == 1 and "host trace" in r.said, f"a host trace: {r.code} {r.said}")
    r = alone(document([op("aten::add", 100, 10)]), "--compat")
    check(r.code == 2 and "--host" in r.said, f"--compat: {r.code} {r.said}")


def main():
    for p in [pt.fixture()] + [pt.shared(n) for n in ("synth_allfeatures", "resnet_2gpu_rank0")
                               if pt.TRACES]:
        compare(p)
    check_costs()
    check_callers()
    check_modules()
    check_old_records()
    check_functional_messages()
    check_gloo()
    check_gloo_ids()
    check_odd_times()
    check_small_gather()
    check_set()
    check_reasons()
    check_little()
    finish()


main()
