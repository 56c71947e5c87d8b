"""Tests `syntorch astra-sim`, which writes ASTRA-sim's input files for a trace set. They must have
the figures of the machine, and collectives must take as long in ASTRA-sim as the command prints.
ASTRA-sim itself is not needed. The test computes the time of a collective with the formula of
ASTRA-sim's sources, and checks the formula against results of ASTRA-sim runs, which main()
quotes."""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish  # noqa: E402
from execution_trace import COLL, STRING, read_et  # noqa: E402

ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE_SCATTER = 0, 2, 5, 7


def floor(x):
    return math.floor(x + 1e-6)


def ring_ns(chunk, hops, memory, link, network=(0, 1, 0), sums=0):
    """Returns the time in ns that ASTRA-sim computes for a ring in which a chunk makes `hops` hops.

    chunk: bytes. memory: GB/s of 10^9 bytes. link: latency in ns and bandwidth in GB/s of 2^30
    bytes of the links within a node. network: latency and bandwidth of the links between nodes, and
    the number of hops over them. sums: number of chunks that each rank adds up."""
    far = network[2]
    step = [floor(latency + chunk / (bandwidth * 2**30 / 1e9))
            for latency, bandwidth in (link[:2], network[:2])]
    return ((hops - far) * step[0] + far * step[1] + 3 * sums * floor(chunk / memory) +
            (hops + 1) * 10)


def far_hops(ring, hops, node):
    """Returns the largest number of hops between nodes that a chunk makes in `hops` hops around the
    ring. ASTRA-sim routes a hop through the first dimension in which its two ranks differ, so this
    also checks that neighbours differ either in the node or in the index within the node, not in
    both."""
    n = len(ring)
    far = []
    for i, rank in enumerate(ring):
        other = ring[(i + 1) % n]
        check((rank // node == other // node) != (rank % node == other % node), f"ring {ring}")
        far.append(rank // node != other // node)
    return max(sum(far[(i + k) % n] for k in range(hops)) for i in range(n))


def run(folder, program, *words):
    return subprocess.run([os.path.join(BUILD, program), *map(str, words)], cwd=folder,
                          capture_output=True, text=True, check=False, timeout=500)


def good(folder, program, *words):
    done = run(folder, program, *words)
    check(done.returncode == 0, f"{program} {words}: {done.stderr}")
    return done.stdout


def refused(folder, says, *words):
    before = sorted(os.listdir(folder))
    done = run(folder, "syntorch", "astra-sim", *words)
    check(done.returncode == 1 and done.stdout == "" and says in done.stderr and
          done.stderr.count("\n") == 1, f"{words}: {done.returncode} {done.stderr!r}")
    check(sorted(os.listdir(folder)) == before, f"{words}: something was written")


def record(folder, name, *how, program="pretrain"):
    if program == "inference":
        good(folder, "inference", "--device", "meta", "--visualize_trace", "--out_dir", name, *how)
    else:
        good(folder, "pretrain", "--device", "meta", "--max_steps", 3, "--max_seq_length", 128,
             "--enable_tracing", "--out_dir", name, *how)


def network(text):
    """Returns the lists in network.yml, by key."""
    lists = {key: values.split(", ")
             for key, values in re.findall(r"^(\w+): \[ (.+) \]$", text, re.M)}
    return {key: values if key == "topology" else [float(x) for x in values]
            for key, values in lists.items()}


def links_of(net):
    """Returns the latency of a message in ns and the bandwidth in GB/s of 2^30 bytes, by
    dimension. A message makes two hops through a switch."""
    return [(latency * {"Switch": 2, "FullyConnected": 1}[topology], bandwidth)
            for topology, latency, bandwidth in zip(net["topology"], net["latency"],
                                                    net["bandwidth"])]


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def files(folder, name, ranks, *how):
    """Runs `syntorch astra-sim` and checks its files and the printed command. Returns the network,
    the system, the groups and the printed text."""
    said = good(folder, "syntorch", "astra-sim", f"{name}/trace", "--out_dir", f"{name}/sim", *how)
    net = network(read(folder, f"{name}/sim/network.yml").decode())
    system = json.loads(read(folder, f"{name}/sim/system.json"))
    check(json.loads(read(folder, f"{name}/sim/memory.json")) ==
          {"memory-type": "NO_MEMORY_EXPANSION"}, "memory.json")
    dims = [int(n) for n in net["npus_count"]]
    check(math.prod(dims) == ranks and all(n >= 2 for n in dims), f"{name}: {dims}")
    for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        check(system[f"{kind}-implementation"] == ["ring"] * len(dims), kind)
    command = said[said.index("AstraSim_Analytical_Congestion_Unaware"):]
    for key, file in re.findall(r"--([\w-]+)=(\S+)", command):
        check(key == "workload-configuration" or
              os.path.exists(os.path.join(folder, file)), f"{key}: {file} is not there")
    check(command.count("--") == 5 and f"={name}/trace " in command, command)
    groups = json.loads(read(folder, f"{name}/sim/comm_group.json"))
    return net, system, groups, said


KINDS = ("within nodes", "between nodes", "between nodes, several ranks per node", "all ranks")


def reported(said):
    """Returns what the command prints about each kind of group: the number of collectives, and
    their predicted and simulated times in ms."""
    lines = re.findall(r"^(.+): (\d+) collectives? of rank 0, (\S+) ms predicted, "
                       r"(\S+) ms simulated \(ratio of each: ", said, re.M)
    return {kind: (int(n), float(ours), float(theirs)) for kind, n, ours, theirs in lines}


def all_ranks_ns(comm, size, system, near, far, dims):
    """Returns the time of a collective of all ranks, which runs within nodes and between nodes, one
    after the other."""
    inner, outer = dims
    memory = system["local-mem-bw"]
    if comm == ALL_GATHER:
        return (ring_ns(size, outer - 1, memory, far) +
                ring_ns(size * outer, inner - 1, memory, near))
    if comm == ALL_REDUCE:
        return (ring_ns(size / inner, inner - 1, memory, near, sums=inner - 1) +
                ring_ns(size / inner / outer, 2 * (outer - 1), memory, far, sums=outer - 1) +
                ring_ns(size / inner, inner - 1, memory, near))
    return (ring_ns(size / inner, inner - 1, memory, near, sums=inner - 1) +
            ring_ns(size / inner / outer, outer - 1, memory, far, sums=outer - 1))


def same_times(folder, name, ranks, machine, *how):
    """Checks that ASTRA-sim's links have the latency of a message (us) and bandwidth (GB/s) in
    `machine`, by dimension, and that rank 0's collectives take as long with them as the command
    prints. Returns the system and the kinds of groups."""
    net, system, groups, said = files(folder, name, ranks, *how)
    node, joined = int(net["npus_count"][0]), links_of(net)
    check(len(joined) == len(machine), f"{name}: {net}")
    for (latency, bandwidth), (us, rate) in zip(joined, machine):
        check(abs(latency - us * 1e3) < 1e-6 and abs(bandwidth * 2**30 / 1e9 - rate) < 1e-6 * rate,
              f"{name}: {net}, not {machine}")
    times = {}
    for one in read_et(read(folder, f"{name}/trace.0.et"))[1]:
        if one.type != COLL or one.attr["comm_type"] == BROADCAST:
            continue  # ASTRA-sim uses the duration in the trace
        comm, size = one.attr["comm_type"], one.attr["comm_size"]
        members = groups[one.attr["pg_name"]]
        n, hops = len(members), (2 if comm == ALL_REDUCE else 1) * (len(members) - 1)
        here = max(sum(r // node == q // node for r in members) for q in members)
        kind = KINDS[0 if here == n else 3 if n == ranks else 1 if here == 1 else 2]
        if kind == "all ranks":
            ns = all_ranks_ns(comm, size, system, *joined, [int(x) for x in net["npus_count"]])
        else:
            ns = ring_ns(size if comm == ALL_GATHER else size / n, hops, system["local-mem-bw"],
                         joined[0], (*joined[-1], far_hops(members, hops, node)),
                         0 if comm == ALL_GATHER else n - 1)
        count, ours, theirs = times.get(kind, (0, 0, 0))
        times[kind] = count + 1, ours + one.attr["predicted_ns"] / 1e6, theirs + ns / 1e6
    printed = reported(said)
    check(times and set(times) == set(printed), f"{name}: {times}, {printed}")
    for kind, (count, ours, theirs) in times.items():
        print(f"{name}, {kind}: {theirs:.3f} ms simulated, {ours:.3f} ms predicted")
        check(count == printed[kind][0] and abs(ours - printed[kind][1]) < 0.01 * ours and
              abs(theirs - printed[kind][2]) < 0.01 * theirs, f"{name}, {kind}: {printed}")
    return system, set(times)


def main(folder):
    # Results of ASTRA-sim runs in ns: an all-reduce of eight ranks and one of two ranks, both in
    # four splits; an all-gather of eight ranks; an all-reduce around the ring [0, 1, 5, 4] in a
    # network of two nodes with four ranks each.
    check(4 * ring_ns(2**15, 14, 1600, (500, 50), sums=7) == 64440, "the formula is not theirs")
    check(4 * ring_ns(2**21, 2, 3350, (2 * 936.25, 400), sums=1) == 61672, "nor is it for a pair")
    check(ring_ns(2**24, 7, 1600, (500, 50)) == 2191080, "nor for an all-gather")
    check(far_hops([0, 1, 5, 4], 6, 4) == 3, "three of six hops are between nodes")
    check(ring_ns(2**22, 6, 1600, (500, 50), (3000, 5, 3), 3) == 2612284, "nor for two nodes")
    # All eight ranks of two nodes of four: 4 MiB, in an all-gather per rank.
    for comm, ns in ((ALL_REDUCE, 328484), (ALL_GATHER, 1254560), (REDUCE_SCATTER, 167685)):
        check(all_ranks_ns(comm, 2**22, {"local-mem-bw": 1600}, (500, 50), (3000, 5), (4, 2)) == ns,
              "the formula for all ranks is not theirs")
    record(folder, "tp4", "--model", "gpt2", "--tp", 4, "--num_output_tokens", 4, "--dtype", "f16",
           "--hw", "h100", program="inference")
    # The latency of a message is that of a step of the collective library for small buffers.
    system, _ = same_times(folder, "tp4", 4, [(0.8, 450)], "--hw", "h100")
    check(system["roofline-enabled"] == 0 and system["local-mem-bw"] == 3350, str(system))
    record(folder, "mesh", "--model", "gpt2", "--num_gpus", 16, "--tp", 4)
    # Data-parallel groups have two ranks on each node. Each rank has an eighth of its node's
    # network link.
    a100 = [(1.6, 300), (2.7, 200 / 8)]
    _, kinds = same_times(folder, "mesh", 16, a100)
    check("between nodes, several ranks per node" in kinds, f"{kinds}")
    record(folder, "wide", "--model", "gpt2-medium", "--num_gpus", 16, "--tp", 8)
    _, kinds = same_times(folder, "wide", 16, a100)
    check("between nodes" in kinds, f"{kinds}")
    record(folder, "data", "--model", "gpt2", "--num_gpus", 16, "--tp", 1, "--zero", 2)
    _, kinds = same_times(folder, "data", 16, a100)
    check(kinds == {"all ranks"}, f"{kinds}")
    listed = json.loads(read(folder, "mesh/trace.comm_group.json"))
    check(listed == json.loads(read(folder, "mesh/sim/comm_group.json")) and
          listed["5"] == [0, 4, 12, 8], f"{listed}")
    memory(folder)
    megatron(folder)
    for dtype, peak in (("f32", 19.5), ("bf16", 312)):
        _, system, *_ = files(folder, "mesh", 16, "--roofline", dtype)
        check(system["roofline-enabled"] == 1 and system["peak-perf"] == peak, str(system))
    differences(folder)
    messages(folder)
    delayed(folder)
    own_machines(folder)
    recorded(folder)
    refuse(folder)


def memory(folder):
    """Checks the attributes from which ASTRA-sim tracks memory: each node lists its inputs and
    outputs, each tensor is written once, and tensors that live from their first write to their last
    read need about the predicted peak memory."""
    nodes = read_et(read(folder, "mesh/trace.0.et"))[1]
    size, first, last = {}, {}, {}
    for i, node in enumerate(sorted(nodes, key=lambda n: n.id)):
        for kind in ("inputs", "outputs"):
            check(node.field.get(kind) == STRING + 1 and len(node.attr[kind]) % 2 == 0,
                  f"{node.name}: {node.attr}")
            for name, size_text in zip(node.attr[kind][::2], node.attr[kind][1::2]):
                check(size.setdefault(name, int(size_text)) == int(size_text), f"{name}: {size}")
                check(kind == "inputs" or name not in first, f"{name} is written twice")
                check(kind == "outputs" or name in first or " " in name, f"{name}: not written")
                first.setdefault(name, i if kind == "outputs" else 0)
                last[name] = i
    live = [sum(size[name] for name in size if first[name] <= i <= last[name])
            for i in range(0, len(nodes), 7)]
    said = json.loads(good(folder, "pretrain", "--device", "meta", "--max_steps", 3,
                           "--max_seq_length", 128, "--model", "gpt2", "--num_gpus", 16,
                           "--tp", 4, "--json"))
    peak = said["memory"]["peak_bytes"]
    print(f"peak: {max(live)} bytes of tensors, {peak} predicted")
    check(0.85 * peak < max(live) < 1.05 * peak, f"{max(live)} of {peak} bytes")
    names = {name.split(" ")[1] for name in size if " " in name}
    check({"wte.weight", "h.0.attn.c_attn.weight"} <= {n.split("transformer.")[-1] for n in names},
          f"{sorted(names)[:20]}")


def megatron(folder):
    """Only comm_group.json lists the ranks of a group in the order of ASTRA-sim's ring. A graph
    that is exported from the trace set lists them in Megatron's order."""
    good(folder, "syntorch", "export", "--input", "mesh/trace", "--output", "mesh/back.json")
    groups = json.loads(read(folder, "mesh/back.json"))["graph"]["groups"]
    check([0, 4, 8, 12] in [g["ranks"] for g in groups], f"{groups}")


def differences(folder):
    """Checks the notes that explain why ASTRA-sim's times differ from the predicted ones. Without a
    table of a collective library, predictions assume rings with the links' latency and bandwidth,
    but ASTRA-sim also moves each summed chunk through memory three times. In ASTRA-sim, a group
    whose ranks have different indices in their nodes never uses the network."""
    with open(os.path.join(os.environ["SYN_SOURCE"], "examples", "configs", "hw_a100.json"),
              encoding="utf-8") as f:
        machine = json.load(f)
    del machine["collectives"]
    machine["name"] = "rings"
    link = {"alpha_us": 0, "gb_per_s": 300, "topology": "ring"}
    machine["hardware"].update(intra=link, inter=link)
    memory = machine["hardware"]["memory_gb_per_s"]
    with open(os.path.join(folder, "rings.json"), "w", encoding="utf-8") as f:
        json.dump(machine, f)
    record(folder, "rings", "--model", "gpt2", "--num_gpus", 4, "--tp", 1, "--hw",
           "rings.json")
    net, *_, said = files(folder, "rings", 4, "--hw", "rings.json")
    check(net["topology"] == ["Ring"] and net["latency"] == [0], f"{net}")
    line = re.search(r"within nodes: (\d+) collectives of rank 0, (\S+) ms predicted, (\S+) ms "
                     r"simulated \(ratio of each: (\S+) to (\S+)\)\nnote: .* through memory", said)
    want = 1 + 1.5 * 300 / memory
    check(line and int(line[1]) > 5 and abs(float(line[3]) / float(line[2]) - want) < 0.02 and
          abs(float(line[4]) - want) < 0.02, said)
    record(folder, "places", "--model", "gpt2", "--num_gpus", 24, "--tp", 3)
    net, _, groups, said = files(folder, "places", 24)
    check(re.search(r"note: in ASTRA-sim, 5 groups of several nodes never use the network .*\n.*\n"
                    r" +\d+ collectives of rank 0, \S+ ms predicted, \S+ ms simulated\n", said),
          said)
    check(net["npus_count"] == [8, 3] and groups["3"] == [6, 7, 8], f"{groups}")
    record(folder, "halves", "--model", "gpt2", "--num_gpus", 24, "--tp", 12)
    _, _, groups, said = files(folder, "halves", 24)
    # Eight ranks of one node and four of another: the ring crosses between the nodes twice, each
    # time between ranks with the same index in their nodes.
    for group in ("1", "2"):
        ring = groups[group]
        hops = [(a, b) for a, b in zip(ring, ring[1:] + ring[:1]) if a // 8 != b // 8]
        check(len(hops) == 2 and all(a % 8 == b % 8 for a, b in hops) and len(set(ring)) == 12,
              f"{ring}")


def messages(folder):
    """ASTRA-sim sends messages to a rank with another index on another node over the links within a
    node. A note reports these messages and their time."""
    pairs = ((0, 9), (1, 9), (0, 8), (2, 3), (8, 7))
    nodes, links, calls = [], [], [0] * 16

    def message(rank, kind, peer, tag):
        nodes.append({"id": f"r{rank}.o{calls[rank] + 2}", "type": "op", "rank": rank, "op": kind,
                      "name": kind, "scope": "", "layer": -1, "phase": "forward", "step": 0,
                      "kind": kind, "category": "communication", "stream": 255, "dtype": "f32",
                      "shape": [25000000], "flops": 0, "bytes_read": 10**8, "bytes_written": 10**8,
                      "comm": kind, "comm_bytes": 10**8, "comm_index": calls[rank], "peer": peer,
                      "tag": tag})
        links.append({"source": f"r{rank}.o1", "target": nodes[-1]["id"], "kind": "control"})
        calls[rank] += 1

    for rank in range(16):
        nodes.append({"id": f"r{rank}.o1", "type": "op", "rank": rank, "op": "add", "name": "add",
                      "scope": "", "layer": -1, "phase": "forward", "step": 0, "kind": "compute",
                      "category": "elementwise", "stream": 0, "dtype": "f32", "shape": [1024],
                      "flops": 1024, "bytes_read": 8192, "bytes_written": 4096,
                      "predicted_ns": 1000})
    for tag, (sender, receiver) in enumerate(pairs):
        message(sender, "send", receiver, tag)
        message(receiver, "recv", sender, tag)
    with open(os.path.join(folder, "messages.json"), "w", encoding="utf-8") as f:
        json.dump({"directed": True, "multigraph": False, "nodes": nodes, "links": links,
                   "graph": {"format": "syntorch", "format_version": 2, "world_size": 16,
                             "ranks": list(range(16)), "groups": [], "metadata": {
                                 "hardware": "a100-80g", "stack": "megatron"}}}, f)
    good(folder, "syntorch", "export", "--input", "messages.json", "--format", "et", "--output",
         "messages/trace")
    net, _, _, said = files(folder, "messages", 16)
    line = re.search(r"note: in ASTRA-sim, messages to another index .*:\n +2 messages, (\S+) ms "
                     r"predicted, (\S+) ms simulated\n", said)
    # ASTRA-sim needs 334,933 ns for one such message: 100 MB at 300 GB/s, and the latency.
    latency, bandwidth = links_of(net)[0]
    ns = latency + 1e8 / (bandwidth * 2**30 / 1e9)
    check(line and abs(float(line[2]) / (2 * ns / 1e6) - 1) < 0.01 and
          float(line[1]) > 2 * 1e8 / 25e6 * 1e-3, said)


def delayed(folder):
    """Collectives of gradients do not delay the messages of a pipeline: the last send of a stage
    has a lower id. ASTRA-sim ends at 90,804,852 and 93,747,775 ns. With the all-reduces first, it
    ended at 119,217,766 ns with PyTorch's buckets."""
    os.mkdir(os.path.join(folder, "delayed"))
    for buckets, ms in (("pytorch", "90.8"), ("megatron", "93.7")):
        good(folder, "synth", "--model", "megatron-1.7b", "--layers", 16, "--pp", 4, "--dp", 8,
             "--tp", 2, "--global-batch", 32, "--max-seq-length", 64, "--hw", "a100-80g",
             "--buckets", buckets, "--out", "delayed/trace", "--quiet")
        said = files(folder, "delayed", 64)[3]
        check(f" with the times of the traces, {ms} ms in ASTRA-sim\n" in said, said)


def own_machines(folder):
    """A hardware file may have the name of the preset that it was made from. The times of its
    machine are not mistaken for those of the preset: without --hw FILE the trace set is refused."""
    example = os.path.join(os.environ["SYN_SOURCE"], "examples", "configs", "hw_a100.json")

    def change(name, part, key, value):
        with open(example, encoding="utf-8") as f:
            machine = json.load(f)
        machine[part][key] = value
        with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as f:
            json.dump(machine, f)
        record(folder, name, "--num_output_tokens", 1, "--tp", 4, "--hw", f"{name}.json",
               program="inference")
        refused(folder, "'a100-80g+" + machine["stack"]["name"] + "', not with a preset",
                f"{name}/trace", "--out_dir", "no")
        return files(folder, name, 4, "--hw", f"{name}.json")

    net, *_ = change("slow", "hardware", "intra", {"gb_per_s": 25})
    check(abs(net["bandwidth"][0] * 2**30 / 1e9 - 25) < 1e-6, f"{net}")
    # A latency in the file is used instead of the library's, and links may have no switch.
    net, *_ = change("direct", "hardware", "intra", {"alpha_us": 0.5, "gb_per_s": 25,
                                                     "topology": "fully_connected"})
    check(net["topology"] == ["FullyConnected"] and net["latency"] == [500], f"{net}")
    change("mine", "stack", "name", "mine")
    net, _, groups, _ = change("pairs", "hardware", "node_ranks", 2)
    check(net["npus_count"] == [2, 2] and groups["1"] == [0, 1, 3, 2], f"{net} {groups}")
    check(json.loads(read(folder, "pairs/trace.comm_group.json")) == groups, f"{groups}")
    again = "pairs/tensor_trace_graph.json"
    good(folder, "syntorch", "export", "--input", again, "--hw", "h100", "--format", "et",
         "--output", "pairs/again")
    good(folder, "syntorch", "astra-sim", "pairs/again", "--out_dir", "pairs/sim")
    record(folder, "same", "--num_output_tokens", 1, "--tp", 4, "--hw", example,
           program="inference")
    files(folder, "same", 4)


def recorded(folder):
    """PyTorch traces name no machine, so the command assumes one unless --hw chooses it."""
    files = [os.path.join(os.environ["SYN_SOURCE"], "examples", "pytorch", f"{kind}.0.json")
             for kind in ("host", "device")]
    os.mkdir(os.path.join(folder, "job"))
    good(folder, "syntorch", "convert", "pytorch", "--host", files[0], "--device", files[1],
         "--output", "job/trace.0.et", "--profile", "astra-sim")
    shutil.copy(os.path.join(folder, "job", "trace.0.et"), os.path.join(folder, "job",
                                                                        "trace.1.et"))
    said = good(folder, "syntorch", "astra-sim", "job/trace", "--out_dir", "job")
    check("+pytorch-eager (the set names no machine; --hw chooses one), 2 ranks" in said, said)
    net = network(read(folder, "job/network.yml").decode())
    check(abs(net["bandwidth"][0] * 2**30 / 1e9 - 300) < 1e-3 and links_of(net)[0][0] == 1600,
          f"{net}")
    said = good(folder, "syntorch", "astra-sim", "job/trace", "--out_dir", "job", "--hw", "h100")
    check("names no machine" not in said, said)


def without_times(folder, name, ranks):
    """Removes the times from the traces, as if a tool that records only ops and bytes had written
    them."""
    for rank in range(ranks):
        path = os.path.join(folder, name, f"trace.{rank}.et")
        good(folder, "syntorch", "json", "--input", path, "--output", "times.json")
        with open(os.path.join(folder, "times.json"), encoding="utf-8") as f:
            text = f.read()
        text, n = re.subn(r'"durationMicros":"\d+"', '"durationMicros":"0"', text)
        check(n > 100, "no durations to take away")
        text = re.sub(r',\{"name":"predicted_ns"[^}]*\}', "", text)
        with open(os.path.join(folder, "times.json"), "w", encoding="utf-8") as f:
            f.write(text)
        good(folder, "syntorch", "json", "--input", "times.json", "--output", path)


def refuse(folder):
    record(folder, "alone", "--num_output_tokens", 1, program="inference")
    refused(folder, "one rank", "alone/trace", "--out_dir", "no")
    refused(folder, "h1000", "tp4/trace", "--hw", "h1000", "--out_dir", "no")
    refused(folder, "those of h100+serving, not of a100-80g+serving", "tp4/trace", "--hw",
            "a100-80g", "--out_dir", "no")
    refused(folder, "not of h100+megatron", "tp4/trace", "--hw", "h100+megatron", "--out_dir", "no")
    good(folder, "syntorch", "astra-sim", "tp4/trace", "--hw", "a100-80g", "--roofline", "f16")
    good(folder, "syntorch", "export", "--input", "tp4/tensor_trace_graph.json", "--hw", "a100-80g",
         "--format", "et", "--output", "tp4/again")
    good(folder, "syntorch", "astra-sim", "tp4/again", "--hw", "a100-80g")
    refused(folder, "nothing/trace", "nothing/trace", "--out_dir", "no")
    record(folder, "odd", "--model_config", os.path.join(
        os.environ["SYN_SOURCE"], "examples", "configs", "gpt2-mini.json"), "--num_gpus", 12)
    refused(folder, "12 ranks do not fill nodes of 8 ranks, as ASTRA-sim's networks require: "
            "choose the ranks per node with --node-ranks, such as 12", "odd/trace", "--out_dir",
            "no")
    for ranks, dims in ((12, "[ 12 ]"), (4, "[ 4, 3 ]")):
        good(folder, "syntorch", "astra-sim", "odd/trace", "--node_ranks", ranks, "--out_dir",
             "odd")
        with open(os.path.join(folder, "odd", "network.yml"), encoding="utf-8") as f:
            check(f"npus_count: {dims}" in f.read(), f"nodes of {ranks} ranks: not {dims}")
    without_times(folder, "mesh", 16)
    refused(folder, "no compute times", "mesh/trace", "--out_dir", "no")
    os.remove(os.path.join(folder, "mesh", "trace.3.et"))
    refused(folder, "`syntorch validate` prints its", "mesh/trace", "--out_dir", "no")


FOLDER = tempfile.mkdtemp(prefix="syntorch-")
try:
    main(FOLDER)
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
finish()
