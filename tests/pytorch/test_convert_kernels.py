"""Tests kernels that communicate without NCCL: this test derives the expected communication from
their names. Also tests that the device work of a stream is serial in both profiles."""
import collections
import json
import os
import random
import tempfile

from checks import check, finish, run
from execution_trace import COLL, COMP, RECV, SEND, read_et
import pytorch_traces as pt

# Kernel names of DeepEP, vLLM, PyTorch's symmetric memory and NVSHMEM, with their node type and
# comm_type (CollectiveCommType of et_def.proto). Barriers become dependencies for a simulator.
ALL_REDUCE, ALL_TO_ALL, BARRIER = 0, 6, 9
OTHERS = {
    "void deep_ep::internode::notify_dispatch<false, 8>(int const*, int*)": (COLL, ALL_TO_ALL),
    "void deep_ep::internode::dispatch<false, 4>(int4*)": (COLL, ALL_TO_ALL),
    "void deep_ep::internode::combine<false, 8, __nv_bfloat16>(int4*)": (COLL, ALL_TO_ALL),
    "void deep_ep::internode::cached_notify<false>(int, int)": (COLL, BARRIER),
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)": (COLL, ALL_REDUCE),
    "multimem_all_reduce_kernel<4>(x)": (COLL, ALL_REDUCE),
    "nvshmem_alltoall_kernel": (COLL, ALL_TO_ALL),
    "c10d::symmetric_memory::put_signal_kernel(unsigned int**, int)": (SEND, None),
    "c10d::symmetric_memory::wait_signal_kernel(unsigned int**, int)": (RECV, None),
}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMPUTES = ("fused_moe_kernel", "triton_poi_fused_all_reduce_0",
            "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
            "void cub::DeviceScanKernel<cub::DispatchScan<int*>>(int*)")


def convert(events, *args):
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        with open(os.path.join(folder, "d.json"), "wb") as f:
            f.write(pt.dump({"distributedInfo": {"rank": 0, "world_size": 2},
                             "traceEvents": events}))
        done = run("convert", "pytorch", "--device", "d.json", "--output", "t.0.et", "--json",
                   *args, cwd=folder)
        if done.returncode != 0:
            return done, None, None
        with open(os.path.join(folder, "t.0.et"), "rb") as f:
            et = f.read()
        pt.check_tools("kernels", et)
        return done, json.loads(done.stdout), read_et(et)[1]


def work(index, name, stream, launched, ts, dur):
    """Returns an op, its launch, and its work on a stream."""
    cat = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name.split()[0], "kernel")
    args = {"correlation": index, "stream": stream, "device": 0}
    if name == NCCL:
        args |= {"Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64,
                 "dtype": "Float", "Group size": 2, "Process Group Ranks": "[0, 1]"}
    event = {"ph": "X", "pid": 1, "tid": 5, "args": {}}
    return [dict(event, cat="cpu_op", name="op", ts=launched, dur=4),
            dict(event, cat="cuda_runtime", name="cudaLaunchKernel", ts=launched + 1, dur=1,
                 args={"correlation": index}),
            dict(event, cat=cat, name=name, pid=0, tid=stream, ts=ts, dur=dur, args=args)]


def random_mix(seed, n=120, streams=(7, 20, 27)):
    """Returns work at random times. Each stream runs its work serially, in the order of
    launches."""
    rng, events, free, now = random.Random(seed), [], collections.Counter(), 1000
    for i in range(1, n + 1):
        name = rng.choice([*OTHERS, *COMPUTES, *["gemm"] * 6, *[NCCL] * 2,
                           "Memcpy DtoD (Device -> Device)", "Memset (Device)"])
        stream = rng.choice(streams)
        now += rng.randint(5, 40)
        ts, dur = max(now + 3, free[stream] + rng.choice((0, 0, 9))), rng.randint(1, 90)
        free[stream] = ts + dur
        events += work(i, name, stream, now, ts, dur)
    return events


def device_events(events):
    return [e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]


def ancestors(nodes):
    """Returns for each node all nodes on which it depends, directly or not. Nodes come after their
    dependencies."""
    out = {}
    for n in nodes:
        out[n.id] = set(n.deps).union(*(out[d] for d in n.deps))
    return out


def check_serial(what, nodes, events, dropped):
    """Checks that each stream is a chain of the work that the trace has on it, in the same
    order."""
    before, by_stream = ancestors(nodes), collections.defaultdict(list)
    for e in sorted(device_events(events), key=lambda e: e["ts"]):
        if OTHERS.get(e["name"]) not in dropped:
            by_stream[e["tid"]].append(e)
    for stream, want in by_stream.items():
        mine = [n for n in nodes if n.attr.get("stream") == stream and n.name != "host delay"]
        check([(n.name, n.dur) for n in mine] == [(e["name"], e["dur"]) for e in want],
              f"{what}: stream {stream} has other work than the trace")
        check(all(a.id in before[b.id] for a, b in zip(mine, mine[1:])),
              f"{what}: stream {stream} is no chain")


def check_found(report, nodes, events):
    """Checks the kinds of nodes and which kernels are reported as unknown."""
    names = collections.Counter(e["name"] for e in device_events(events) if e["name"] in OTHERS)
    for n in nodes:
        if n.name in OTHERS:
            check((n.type, n.attr.get("comm_type")) == OTHERS[n.name],
                  f"{n.name}: type {n.type}, comm_type {n.attr.get('comm_type')}")
            check(n.attr.get("size_unknown", 0) == (OTHERS[n.name][1] != BARRIER),
                  f"{n.name}: {n.attr}")
        elif n.name in COMPUTES or n.name == "gemm":
            check(n.type == COMP, f"{n.name}: type {n.type}")
        elif n.name == NCCL:
            check((n.type, n.attr["comm_type"], n.attr["comm_size"]) == (COLL, ALL_REDUCE, 256),
                  f"{n.name}: {n.attr}")
    starts = {(e["name"], e["ts"]) for e in device_events(events)}
    first = min(e["ts"] for e in events)
    origin = min(n.start for n in nodes if n.start)
    check({(n.name, n.start - origin + first) for n in nodes if n.on_gpu} == starts, "times")
    counts = {a["kind"]: a["count"] for a in report["anomalies"]}
    total, messages = sum(names.values()), sum(names[n] for n in names if OTHERS[n][0] != COLL)
    sized = sum(names[n] for n in names if OTHERS[n][1] == BARRIER)
    want = {"kernel-name": total, "size-unknown": total - sized, "peer-unknown": messages}
    check({k: counts.get(k) for k in want} == want, f"{counts}, expected {want}")
    comms = report["ranks"][0]["communication"]
    n_nccl = sum(e["name"] == NCCL for e in events)
    check(comms["unknown_size"] == total - sized and comms["bytes"] == 256 * n_nccl + sized,
          f"communication: {comms}")


def check_mix(seed):
    events = random_mix(seed)
    _, report, nodes = convert(events)
    check_found(report, nodes, events)
    check_serial(f"full, seed {seed}", nodes, events, ())
    _, report, nodes = convert(events, "--profile", "astra-sim", "--replay_check")
    check_serial(f"astra-sim, seed {seed}", nodes, events, ((COLL, BARRIER),))


def check_replay():
    """If communication runs on the stream of the computation, the replayed time is the sum of both:
    neither is hidden behind the other."""
    name, *_ = (n for n in OTHERS if "vllm" in n)
    events, now = [], 1000
    for i in range(1, 21):
        events += work(i, name if i % 2 else "gemm", 7, 900 + i, now, 50)
        now += 50
    _, report, _ = convert(events, "--profile", "astra-sim", "--replay_check")
    replay = report["ranks"][0]["replay"]
    check(abs(replay["replayed_ns"] - 20 * 50 * 1000) <= 2000, f"replay: {replay}")
    done, _, _ = convert(events, "--strict")
    check(done.returncode == 1 and b"kernel-name" in done.stderr, f"--strict: {done.stderr}")


def main():
    for seed in range(6):
        check_mix(seed)
    check_replay()
    finish()


main()
