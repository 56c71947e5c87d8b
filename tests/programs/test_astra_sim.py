"""syntorch astra-sim: with the files that it writes, collectives last in the simulator as long as
we predict. The simulator is not there: its time of a ring is that of its sources, checked
against runs of it."""
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
from execution_trace import COLL, read_et  # noqa: E402

ALL_REDUCE = 0


def floor(x):
    return math.floor(x + 1e-6)


def ring_ns(size, n, latency, bandwidth, memory):
    """An all-reduce of a sub-group; GB/s of 2^30 bytes on links, of 10^9 in memory."""
    part = size / n
    return (2 * (n - 1) * floor(latency + part / (bandwidth * 2**30 / 1e9)) +
            3 * (n - 1) * floor(part / memory) + (2 * (n - 1) + 1) * 10)


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
             "--enable_tracing", "--trace_output_dir", name, *how)


def network(text):
    """Lists of numbers by their key."""
    check("topology: [ FullyConnected" in text, text)
    return {key: [float(x) for x in values.split(",")]
            for key, values in re.findall(r"^(\w+): \[ ([\d., e+-]+) \]$", text, re.M)}


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def look(folder, name, ranks, *how):
    """Writes the files; of rank 0's all-reduces: the simulator's time and ours."""
    said = good(folder, "syntorch", "astra-sim", f"{name}/trace", "--out", f"{name}/sim", *how)
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
    groups = json.loads(read(folder, f"{name}/trace.comm_group.json"))
    theirs = {}
    ours = {}
    for node in read_et(read(folder, f"{name}/trace.0.et"))[1]:
        if node.type != COLL or node.attr["comm_type"] != ALL_REDUCE:
            continue
        members = groups[node.attr["pg_name"]]
        dim = int(any(r // dims[0] != members[0] // dims[0] for r in members))
        theirs[dim] = theirs.get(dim, 0) + ring_ns(
            node.attr["comm_size"], len(members), net["latency"][dim], net["bandwidth"][dim],
            system["local-mem-bw"])
        ours[dim] = ours.get(dim, 0) + node.attr["predicted_ns"]
    return theirs, ours, system


def same_times(folder, name, ranks, *how, within=0.01):
    theirs, ours, system = look(folder, name, ranks, *how)
    check(ours, f"{name}: no all-reduce")
    for dim in ours:
        print(f"{name}, dimension {dim}: {theirs[dim] / 1e3:.1f} us simulated, "
              f"{ours[dim] / 1e3:.1f} predicted")
        check(abs(theirs[dim] - ours[dim]) <= within * ours[dim], f"{name}, dimension {dim}")
    return system


def main(folder):
    # Two runs of the simulator, in four splits; of the second the link takes two hops.
    check(4 * ring_ns(2**18, 8, 500, 50, 1600) == 64440, "the formula is not the simulator's")
    check(4 * ring_ns(2**22, 2, 2 * 936.25, 400, 3350) == 61672, "nor is it for a pair")
    record(folder, "tp4", "--model", "gpt2", "--tp", 4, "--num_output_tokens", 4, "--dtype", "f16",
           "--hw_config", "h100", program="inference")
    system = same_times(folder, "tp4", 4, "--hw", "h100")
    check(system["roofline-enabled"] == 0 and system["local-mem-bw"] == 3350, str(system))
    record(folder, "mesh", "--model_name", "gpt2", "--num_gpus", 16, "--tp", 4)
    same_times(folder, "mesh", 16)  # data parallel groups reach from node to node
    for dtype, peak in (("f32", 19.5), ("bf16", 312)):
        _, _, system = look(folder, "mesh", 16, "--roofline", dtype)
        check(system["roofline-enabled"] == 1 and system["peak-perf"] == peak, str(system))
    recorded(folder)
    refuse(folder)


def recorded(folder):
    """PyTorch's recordings name no machine; that of examples/ has a single all-reduce, which does
    not say what of its time is latency."""
    files = [os.path.join(os.environ["SYN_SOURCE"], "examples", "pytorch", f"{kind}.0.json")
             for kind in ("host", "device")]
    os.mkdir(os.path.join(folder, "job"))
    good(folder, "syntorch", "convert", "pytorch", "--host", files[0], "--device", files[1],
         "--output", "job/trace.0.et", "--profile", "astra-sim")
    shutil.copy(os.path.join(folder, "job", "trace.0.et"), os.path.join(folder, "job",
                                                                        "trace.1.et"))
    said = good(folder, "syntorch", "astra-sim", "job/trace", "--out", "job")
    check("a100-80g+pytorch-eager (the set names no machine; --hw does), 2 ranks" in said, said)
    net = network(read(folder, "job/network.yml").decode())
    check(100 < net["bandwidth"][0] < 600 and 1000 < net["latency"][0] < 20000, f"{net}")
    said = good(folder, "syntorch", "astra-sim", "job/trace", "--out", "job", "--hw", "h100")
    check("names no machine" not in said, said)


def without_times(folder, name, ranks):
    """As a recorder leaves them that knows ops and bytes alone."""
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
    refused(folder, "one rank", "alone/trace", "--out", "no")
    refused(folder, "h1000", "tp4/trace", "--hw", "h1000", "--out", "no")
    refused(folder, "nothing/trace", "nothing/trace", "--out", "no")
    record(folder, "odd", "--model_config", os.path.join(
        os.environ["SYN_SOURCE"], "examples", "configs", "gpt2-mini.json"), "--num_gpus", 12)
    refused(folder, "12 ranks do not fill nodes of 8", "odd/trace", "--out", "no")
    without_times(folder, "mesh", 16)
    refused(folder, "no times of computation", "mesh/trace", "--out", "no")
    os.remove(os.path.join(folder, "mesh", "trace.3.et"))
    refused(folder, "`syntorch validate` tells its", "mesh/trace", "--out", "no")


FOLDER = tempfile.mkdtemp(prefix="syntorch-")
try:
    main(FOLDER)
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
finish()
