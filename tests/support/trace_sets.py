"""Small trace sets for tests of the simulator: their nodes, files and machines."""
import json

from checks import run
from execution_trace import COLL, COMP, RECV, SEND, field, frame, varint

INT32, INT64, UINT64, BOOL, STRING = 7, 9, 13, 27, 29
ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST, ALL_TO_ALL = range(7)
REDUCE_SCATTER, REDUCE_SCATTER_BLOCK = 7, 8

NETWORK = {"topology": ["FullyConnected", "Ring"], "npus_count": [2, 4],
           "bandwidth": [100.0, 25.0], "latency": [500.0, 2000.0]}
KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
SYSTEM = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
          "preferred-dataset-splits": 1, "collective-optimization": "localBWAware",
          "local-mem-bw": 1600, "boost-mode": 0, "roofline-enabled": 1, "peak-perf": 312,
          "trace-enabled": 1, **{f"{kind}-implementation": ["ring", "ring"] for kind in KINDS}}


def node(number, kind, deps, us, **attrs):
    return {"id": number, "kind": kind, "deps": deps, "us": us, **attrs}


def comp(number, us, deps=(), stream=0):
    return node(number, COMP, deps, us, stream=stream)


def coll(number, kind, size, group, deps=(), us=5, root=None):
    return node(number, COLL, deps, us, comm=kind, size=size, group=group, root=root)


def send(number, src, dst, tag, size, deps=(), us=3):
    return node(number, SEND, deps, us, src=src, dst=dst, tag=tag, size=size)


def recv(number, src, dst, tag, size, deps=(), us=3):
    return node(number, RECV, deps, us, src=src, dst=dst, tag=tag, size=size)


def message(n):
    attrs = [("is_cpu_op", BOOL, int(n.get("cpu", False)))]
    if n["kind"] == COMP and not n.get("bare"):
        # 1.6 MB per us: the time of a rate of 1600 GB/s
        attrs += [("num_ops", INT64, n.get("ops", 1)),
                  ("tensor_size", UINT64, n.get("bytes", min(n["us"] * 1600 * 1000, 2 ** 63)))]
        attrs += [("stream", INT64, n["stream"])] if n["stream"] else []
    elif n["kind"] != COMP:
        attrs += [("comm_size", INT64, n["size"])]
    if n["kind"] == COLL:
        attrs += [("comm_type", INT64, n["comm"])]
        attrs += [("pg_name", STRING, str(n["group"]))] if n["group"] else []
        attrs += [("root", INT64, n["root"])] if n["root"] is not None else []
    if n["kind"] in (SEND, RECV):
        attrs += [("comm_src", INT32, n["src"]), ("comm_dst", INT32, n["dst"]),
                  ("comm_tag", INT32, n["tag"])]
    out = field(1, n["id"]) + field(2, n.get("name", f"n{n['id']}")) + field(3, n["kind"])
    if n["deps"]:
        out += field(4, b"".join(map(varint, n["deps"])))
    out += field(7, n["us"])
    for name, kind, value in attrs:
        out += field(10, field(1, name) + field(kind, value))
    return out


def write(prefix, ranks, groups):
    """ranks: {rank: nodes}; groups: {id: ranks}."""
    for rank, nodes in ranks.items():
        with open(f"{prefix}.{rank}.et", "wb") as f:
            f.write(b"".join(map(frame, [field(1, "0.0.4")] + [message(n) for n in nodes])))
    with open(f"{prefix}.comm_group.json", "w", encoding="utf-8") as f:
        json.dump({str(k): v for k, v in groups.items()}, f)


def simulate(prefix, *options):
    done = run("simulate", prefix, "--json", *options)
    said = json.loads(done.stdout)
    return {"error": said["error"]["message"]} if "error" in said else said


def ends(result):
    return [r["end_ns"] for r in result["ranks"]] if "ranks" in result else result


def write_machine(network, system):
    with open("network.yml", "w", encoding="utf-8") as f:
        for key, values in network.items():
            f.write(f"{key}: [ {', '.join(map(str, values))} ]\n")
    with open("system.json", "w", encoding="utf-8") as f:
        json.dump(system, f)
    return ["--network", "network.yml", "--system", "system.json"]


def write_hand():
    """Writes the set "hand". Rank 0 computes 100 us and rank 1 40 us before an all-reduce of 30 us,
    beside which rank 0 computes 20 us; then rank 1 sends to rank 0. It ends after 187 us."""
    ranks = {0: [comp(1, 100), coll(2, ALL_REDUCE, 4096, 1, [1], 30), comp(3, 20, [1]),
                 recv(4, 1, 0, 9, 64, [2], 5)],
             1: [comp(1, 40), coll(2, ALL_REDUCE, 4096, 1, [1], 25), comp(3, 50, [2]),
                 send(4, 1, 0, 9, 64, [3], 7)]}
    write("hand", ranks, {1: [0, 1]})
