"""Tests damaged trace sets through `syntorch convert pytorch`. Whatever is lost or wrong, the
written trace set passes `validate` in both profiles, so no rank waits forever for another. Damage
of one rank does not change the communication among the others."""
import json
import os
import random
import tempfile

from checks import check, finish, run
from execution_trace import COLL, read_et
import pytorch_traces as pt

COUNT = int(os.environ.get("SYN_RANDOM_SETS", "100"))
KERNELS = {"allreduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
           "_allgather_base": "ncclDevKernel_AllGather_RING_LL",
           "all_to_all": "ncclDevKernel_SendRecv", "send": "ncclDevKernel_SendRecv",
           "recv": "ncclDevKernel_SendRecv"}
WORLD = 4
GROUPS = [("0", [0, 1, 2, 3]), ("tp0", [0, 1]), ("tp1", [2, 3]), ("dp0", [0, 2]), ("dp1", [1, 3])]


class Rank:
    """The traces of one rank: its share of the job's steps, in order. A step is (group, kind,
    elements) or (from, to, elements)."""

    def __init__(self, rank, steps, rng):
        self.rank, self.id, self.rf, self.now, self.streams, self.seq = rank, 1, 0, 1e6, {}, {}
        self.nodes, self.events, self.rng = [], [], rng
        self.nodes.append(self.make(1, pt.PROCESS, 1, 0, 0, []))
        self.root = self.node(pt.THREAD, 1, [], 0)[0]
        for a, b, size in steps:
            if rng.random() < 0.6:
                self.compute()
            if isinstance(b, str) and rank in GROUPS[a][1]:
                self.call(GROUPS[a], b, size, 20 + a, {})
            elif not isinstance(b, str) and rank in (a, b):
                kind = "send" if rank == a else "recv"
                self.call(GROUPS[0], kind, size, 40 + (rank == b), {"Src Rank": a, "Dst Rank": b})

    def make(self, number, name, parent, tid, rf, values):
        attrs = [("rf_id", rf), ("fw_parent", 0), ("seq_id", -1), ("scope", 0), ("tid", tid),
                 ("fw_tid", 0)]
        empty = {"values": [], "shapes": [], "types": []}
        return {"id": number, "name": name, "ctrl_deps": parent, "outputs": dict(empty),
                "inputs": {"values": values, "shapes": [[]] * len(values),
                           "types": [""] * len(values)},
                "attrs": [{"name": k, "type": "uint64", "value": v} for k, v in attrs] +
                [{"name": "op_schema", "type": "string", "value": ""}]}

    def node(self, name, parent, values, rf=None):
        self.id, self.rf = self.id + 1, self.rf + 1
        rf = self.rf if rf is None else rf
        self.nodes.append(self.make(self.id, name, parent, 1, rf, values))
        return self.id, rf

    def event(self, cat, name, tid, ts, dur, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts,
                            "dur": dur, "args": {k.replace("_", " "): v for k, v in args.items()}})

    def launch(self, name, rf, stream, dur, args):
        self.event("cuda_runtime", "cudaLaunchKernel", 71, self.now + 2, 0.5, External_id=rf,
                   correlation=rf)
        start = max(self.now + 3, self.streams.get(stream, 0))
        self.streams[stream] = start + dur
        self.event("kernel", name, stream, start, dur, External_id=rf, device=0, stream=stream,
                   correlation=rf)
        self.events[-1]["args"].update(args)

    def op(self, name, values, kernel, stream, args):
        _, rf = self.node(name, self.root, values)
        self.event("cpu_op", name, 71, self.now, 5, External_id=rf, Record_function_id=rf)
        self.launch(kernel, rf, stream, self.rng.choice([5, 30, 80]), args)
        self.now += 6 + self.rng.choice([0, 2, 60])

    def compute(self):
        self.op("aten::mm", [[5, 6, 0, 1024, 4, "cuda:0"]], "gemm", 7, {})

    def call(self, group, kind, size, stream, more):
        name, ranks = group
        self.seq[name] = self.seq.get(name, 0) + 1
        args = {"Collective name": kind, "In msg nelems": size, "Out msg nelems": size,
                "Group size": len(ranks), "dtype": "Float",
                "Process Group Name": name, "Process Group Ranks": json.dumps(ranks),
                "Seq": self.seq[name]}
        self.op("record_param_comms", [[9, 9, 0, size, 4, "cuda:0"], [self.seq[name], bool(more)],
                                       [name, ""], self.rank, kind, [], []],
                KERNELS[kind], stream, {**args, **more})

    def texts(self):
        host = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "t", "start_ts": 1,
                "nodes": self.nodes, "finish_ts": 9}
        info = {"rank": self.rank, "world_size": WORLD}
        return host, {"schemaVersion": 1, "distributedInfo": info, "traceEvents": self.events}


def job(seed):
    rng = random.Random(seed)
    steps = []
    for _ in range(rng.randint(6, 14)):
        x, size = rng.random(), rng.choice([64, 256, 1024])
        if x < 0.4:
            kind, first = rng.choice(["allreduce", "_allgather_base"]), rng.choice([1, 3])
            steps += [(first, kind, size), (first + 1, kind, size)]
        elif x < 0.7:
            steps.append((0, rng.choice(["allreduce", "all_to_all"]), size))
        else:
            steps += [(0, 2, size), (1, 3, size)] + ([(2, 0, size), (3, 1, size)] if x < 0.85
                                                     else [])
    return [Rank(r, steps, rng).texts() for r in range(WORLD)]


# ---- Damage ----


def kernels(pair):
    return [e for e in pair[1]["traceEvents"] if e["name"].startswith("nccl")]


def drop_events(rng, ranks, r):
    ranks[r][1]["traceEvents"] = [e for e in ranks[r][1]["traceEvents"] if rng.random() > 0.1]


def drop_nodes(rng, ranks, r):
    ranks[r][0]["nodes"] = [n for n in ranks[r][0]["nodes"] if rng.random() > 0.15]


def cut_time(rng, ranks, r):
    end = 1e6 + rng.random() * (max(e["ts"] for e in ranks[r][1]["traceEvents"]) - 1e6)
    ranks[r][1]["traceEvents"] = [e for e in ranks[r][1]["traceEvents"] if e["ts"] < end]


def drop_kernels(rng, ranks, r):
    gone = [k for k in kernels(ranks[r]) if rng.random() < 0.4]
    ranks[r][1]["traceEvents"] = [e for e in ranks[r][1]["traceEvents"] if e not in gone]


def move_times(rng, ranks, r):
    for e in ranks[r][1]["traceEvents"]:
        if rng.random() < 0.2:
            e["ts"] = max(1, e["ts"] + rng.uniform(-300, 300))


def one_time(_, ranks, r):
    for e in ranks[r][1]["traceEvents"]:
        e["ts"] = 1e6


def shuffle_kernels(rng, ranks, r):
    found = kernels(ranks[r])
    times = [k["ts"] for k in found]
    rng.shuffle(times)
    for k, ts in zip(found, times):
        k["ts"] = ts


def renumber(rng, ranks, r):
    ids = [n["id"] for n in ranks[r][0]["nodes"]]
    new = dict(zip(ids, rng.sample(ids, len(ids))))
    for n in ranks[r][0]["nodes"]:
        n["id"], n["ctrl_deps"] = new[n["id"]], new.get(n["ctrl_deps"], 1)


def lose_ids(rng, ranks, r):
    key = rng.choice(["External id", "correlation", "Record function id", "Seq",
                      "Process Group Name", "Process Group Ranks"])
    for e in ranks[r][1]["traceEvents"]:
        e["args"].pop(key, None)


def wrong_group(rng, ranks, r):
    text = rng.choice(["[0]", "[1, 1]", "[5, 9]", "[3, 2, 1, 0]", "[0, 1, 2]", "[2]"])
    for k in kernels(ranks[r]):
        k["args"]["Process Group Ranks"] = text


def wrong_world(rng, ranks, r):
    ranks[r][1]["distributedInfo"]["world_size"] = rng.choice([1, 2, 64])


def wrong_size(rng, ranks, r):
    size = rng.choice([0, 7, 2**62])
    for k in kernels(ranks[r]):
        k["args"]["In msg nelems"] = k["args"]["Out msg nelems"] = size


def wrong_peer(rng, ranks, r):
    for k in kernels(ranks[r]):
        if "Src Rank" in k["args"] and rng.random() < 0.5:
            k["args"][rng.choice(["Src Rank", "Dst Rank"])] = rng.choice([0, 1, r, 99])


def swap_files(rng, ranks, r):
    other = rng.randrange(WORLD)
    ranks[r], ranks[other] = ranks[other], ranks[r]


def swap_devices(rng, ranks, r):
    other = rng.randrange(WORLD)
    (a, b), (c, d) = ranks[r], ranks[other]
    ranks[r], ranks[other] = (a, d), (c, b)


def swap_calls(rng, ranks, r):
    found = kernels(ranks[r])
    if len(found) > 1:
        a, b = rng.sample(found, 2)
        a["args"], b["args"] = b["args"], a["args"]


DAMAGE = [drop_events, drop_nodes, cut_time, drop_kernels, move_times, one_time, shuffle_kernels,
          renumber, lose_ids, wrong_group,
          wrong_world, wrong_size, wrong_peer, swap_files, swap_devices, swap_calls]


# ---- Tests ----


def convert(what, ranks, seen=None):
    """Converts with both profiles and calls seen(profile, anomalies, nodes of each rank)."""
    with tempfile.TemporaryDirectory(prefix="syntorch-") as folder:
        os.mkdir(os.path.join(folder, "out"))
        for i, pair in enumerate(ranks):
            for kind, data in zip(("h", "d"), pair):
                with open(os.path.join(folder, f"{kind}.{i}.json"), "wb") as f:
                    f.write(pt.dump(data))
        for profile, args in (("full", ["--any_node"]), ("astra-sim", [])):
            prefix = os.path.join(folder, "out", profile)
            done = run("convert", "pytorch", "--host", "h.*.json", "--device", "d.*.json",
                       "--output", prefix, "--profile", profile, "--json", cwd=folder)
            if done.returncode == 1 and done.stderr.strip() and not seen:
                continue
            if not check(done.returncode == 0,
                         f"{what}, {profile}: exit {done.returncode}: "
                         f"{done.stderr.decode()[-400:]}"):
                continue
            valid = run("validate", *args, prefix)
            check(valid.returncode == 0, f"{what}, {profile}: {valid.stdout.decode()[-400:]}")
            nodes = []
            for i in range(len(ranks)):
                with open(f"{prefix}.{i}.et", "rb") as f:
                    nodes.append(read_et(f.read())[1])
            if seen:
                seen(profile, {a["kind"]: a["count"] for a in json.loads(done.stdout)["anomalies"]},
                     nodes)
            largest = max((n.attr.get("comm_size", 0) for part in nodes for n in part), default=0)
            check(largest < 2**52, f"{what}, {profile}: a communication of {largest} bytes")


def collectives(nodes):
    return [sum(n.type == COLL for n in part) for part in nodes]


def one_wrong():
    """If one rank records wrong values, the values of the other ranks win."""
    ranks = job(5)
    whole = {}
    convert("undamaged", ranks, lambda p, told, nodes: (whole.update({p: collectives(nodes)}),
                                                        check(told == {}, f"undamaged: {told}")))
    for text in ("[0]", "[2, 2]", "[5, 9]", "[3, 2, 1, 0]"):
        damaged = job(5)
        for k in kernels(damaged[3]):
            if k["args"]["Process Group Name"] == "0":
                k["args"]["Process Group Ranks"] = text

        def seen(profile, told, nodes, text=text):
            check(collectives(nodes) == whole[profile],
                  f"ranks {text}, {profile}: {collectives(nodes)}, not {whole[profile]}")
            check(set(told) <= {"group-conflict"}, f"ranks {text}, {profile}: {told}")
        convert(f"ranks {text}", damaged, seen)
    for world in (1, 2, 64):
        damaged = job(5)
        damaged[1][1]["distributedInfo"]["world_size"] = world
        convert(f"world {world}", damaged,
                lambda p, told, nodes: check(collectives(nodes) == whole[p]
                                             and set(told) <= {"ranks-missing"},
                                             f"world, {p}: {told}"))


def last_missing():
    """Without the last rank, the other ranks' groups have one rank less, and nobody sends to it."""
    for seed in range(4):
        convert(f"seed {seed}, without rank 3", job(seed)[:3],
                lambda p, told, nodes: check(told.get("ranks-missing") == 1,
                                             f"without rank 3, {p}: {told}"))


def any_damage():
    for seed in range(COUNT):
        rng, ranks, done = random.Random(seed), job(seed), []
        for _ in range(rng.choice([1, 1, 2, 3])):
            damage, r = rng.choice(DAMAGE), rng.randrange(WORLD)
            damage(rng, ranks, r)
            done.append(f"{damage.__name__} of {r}")
        convert(f"seed {seed}: {', '.join(done)}", ranks)


one_wrong()
last_missing()
any_damage()
finish()
