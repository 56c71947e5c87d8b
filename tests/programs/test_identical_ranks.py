"""Tests identical ranks of real training traces with tensor, data and pipeline parallelism: a file
that stores them once has the same content as one that stores all ranks, and the same critical
path."""
import json
import os
import subprocess
import tempfile

from checks import BUILD, check, finish
from pretrain_runs import GPT, PRETRAIN

try:
    import networkx as nx
except ImportError:
    nx = None

# Options of pretrain on 8 ranks, and the rank that each rank is identical to. Node-link JSON of the
# run, which also has tensors, is written for those with --visualize-trace; drawing takes seconds.
STAGES = [0, 0, 0, 0, 4, 4, 4, 4]
CASES = (
    (("--tp", "4"), [0] * 8),
    (("--tp", "2", "--zero", "3", "--visualize-trace"), [0] * 8),
    (("--tp", "4", "--pp", "2"), STAGES),
    (("--pp", "2"), STAGES),
    (("--tp", "2", "--pp", "2"), STAGES),
    (("--tp", "2", "--pp", "2", "--sp", "--zero", "1", "--visualize-trace"), STAGES),
    (("--tp", "2", "--pp", "2", "--schedule", "interleaved", "--vp", "2"), STAGES),
    (("--tp", "2", "--pp", "2", "--rank-order", "pp-tp-dp"), [0, 1] * 4),
)


def syntorch(*arguments):
    done = subprocess.run([os.path.join(BUILD, "syntorch"), *arguments], capture_output=True,
                          check=False)
    check(done.returncode == 0, f"syntorch {' '.join(arguments)}: {done.stderr.decode()}")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def train(folder, options):
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump(GPT | {"n_layer": 4 if "--vp" in options else 2}, f)
    done = subprocess.run([PRETRAIN, "--device", "meta", "--model-config", config, "--tokenizer",
                           "bytes", "--max-seq-length", "32", "--num-gpus", "8",
                           "--gradient-accumulation-steps", "2", "--enable-tracing",
                           "--quiet", "--out-dir", folder, *options],
                          capture_output=True, check=False)
    check(done.returncode == 0, f"pretrain {options}: {done.stderr.decode()}")


def path_ns(graph, what):
    g = nx.readwrite.json_graph.node_link_graph(graph)
    check(nx.is_directed_acyclic_graph(g), f"{what}: a cycle")
    return nx.dag_longest_path_length(g, "duration_ns")


def check_file(folder, source, same_as, what):
    """Stores identical ranks once, and restores all ranks from this file."""
    full, once, again = (os.path.join(folder, name) for name in ("full", "once", "again"))
    json_of = ("--format", "json")
    syntorch("export", *source, *json_of, "--output", full, "--copies", "full")
    syntorch("export", *source, *json_of, "--output", once, "--copies", "once")
    syntorch("export", "--input", once, *json_of, "--output", again, "--copies", "full")
    check(read(again) == read(full), f"{what}: the restored ranks differ")
    graph, all_ranks = json.loads(read(once)), json.loads(read(full))
    copies = {c["rank"]: c["of"] for c in graph["graph"]["copies"]}
    check([copies.get(r, r) for r in range(8)] == same_as, f"{what}: {copies}")
    check({n["rank"] for n in graph["nodes"]} - {-1} == set(same_as), f"{what}: stored ranks")
    expand(graph, all_ranks, what)
    if nx is not None and "--sp" in what and ".et" not in what:
        a, b = path_ns(graph, what), path_ns(all_ranks, what)
        check(abs(a - b) <= 1e-9 * b, f"{what}: the critical path has {a} ns, not {b}")


def expand(graph, all_ranks, what):
    """Restores groups, peers and tags as docs/formats.md explains."""
    ops = {n["id"]: n for n in all_ranks["nodes"] if n["type"] == "op"}
    for copy in graph["graph"]["copies"]:
        for node in graph["nodes"]:
            if node["rank"] != copy["of"] or node["type"] != "op":
                continue
            own = ops[f"r{copy['rank']}.{node['id'].split('.')[1]}"]
            for key, names in (("group", "groups"), ("peer", "peers"), ("tag", "tags")):
                value = node.get(key)
                value = copy.get(names, {}).get(str(value), value)
                check(own.get(key) == value, f"{what}: {own['id']} has {key} {own.get(key)}")


def main():
    for options, same_as in CASES:
        with tempfile.TemporaryDirectory() as folder:
            train(folder, options)
            what = " ".join(options)
            graph, et = (os.path.join(folder, f"trace{end}") for end in ("_graph.json", ".0.et"))
            if os.path.exists(graph):
                check_file(folder, ("--input", graph), same_as, what)
            if os.path.exists(et):
                check_file(folder, ("--input", et, "--all_ranks"), same_as, what + ", .et")
    finish()


if __name__ == "__main__":
    main()
