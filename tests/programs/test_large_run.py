"""Tests the files of a large run: identical ranks are stored once, the traces of all ranks can be
restored byte by byte, and the files stay small enough to open."""
from inference_runs import *  # noqa: F403

SYNTORCH = os.path.join(BUILD, "syntorch")


def export(folder, source, target, *more):
    subprocess.run([SYNTORCH, "export", "--input", folder / source, "--output", folder / target,
                    *more], check=True, capture_output=True)
    return folder / target


def read(path):
    with open(path, "rb") as f:
        return f.read()


def same_set(folder, prefix, tp):
    for r in range(tp):
        assert read(folder / f"{prefix}.{r}.et") == read(folder / f"out/trace.{r}.et"), \
            f"{prefix}: rank {r}"


def test_gpt3_175b_on_eight_ranks():
    with Folder() as f:
        out = expect_ok(f.run("--device", "meta", "--model", "gpt3-175b", "--tp", 8,
                              "--visualize_trace", "--out_dir", "out"))
        for part in ("7 of 8 ranks are identical to another one", "--copies full",
                     "Not written, as the .et files have the same content: tensor_trace_chakra"):
            assert part in out.split("written:")[1], out
        wanted = [name for name in promised(8) if name != "tensor_trace_chakra.json"]
        assert f.files("out") == wanted
        sizes = {name: os.path.getsize(f / f"out/{name}") for name in wanted}
        assert sum(sizes.values()) < 125e6, sizes
        export(f, "out/tensor_trace_graph.json", "json", "--format", "et")
        same_set(f, "json", 8)


def test_nothing_is_lost():
    with Folder() as f:
        args = ["--device", "meta", "--model", "gpt3-13b", "--tp", 8, "--attention", "unfused"]
        s = summary(f, *args)
        out = expect_ok(f.run(*args, "--visualize_trace", "--out_dir", "out"))
        graph = load_json(f / "out/tensor_trace_graph.json")
        assert graph["graph"]["ranks"] == list(range(8)) \
            and {n["rank"] for n in graph["nodes"]} == {0}
        assert [(c["rank"], c["of"]) for c in graph["graph"]["copies"]] \
            == [(r, 0) for r in range(1, 8)]
        # Ranks differ only in the first row of their shards of the embedding.
        rows = {n["id"].split(".")[1]: n["attributes"]["first_row"] for n in graph["nodes"]
                if n.get("op") == "embedding"}
        for copy in graph["graph"]["copies"]:
            assert {n["id"].split(".")[1] for n in copy["nodes"]} == set(rows)
            shard = {n["attributes"]["first_row"] for n in copy["nodes"]}
            assert shard == {copy["rank"] * ((50257 + 7) // 8)}, shard
        for part in ("links", "edges"):
            assert len(graph[part]) > 1000
        timeline = load_json(f / "out/timeline.json")["traceEvents"]
        assert {e["pid"] for e in timeline} == {0}
        assert [e["args"]["name"] for e in timeline
                if e["name"] == "process_name"] == ["rank 0, identical: 1, 2, 3, 4, 5, 6, 7"]
        # A file with the nodes of all ranks can be made from the files, and folded again.
        export(f, "out/tensor_trace_graph.json", "full.json", "--copies", "full", "--nx_key",
               "links")
        full = load_json(f / "full.json")
        assert "copies" not in full["graph"] and len(full["nodes"]) == 8 * len(graph["nodes"])
        export(f, "full.json", "once.json")
        assert read(f / "once.json") == read(f / "out/tensor_trace_graph.json")
        for name, more in (("timeline.json", []), ("tensor_comm_graph.svg", ["--comm"])):
            assert read(export(f, "full.json", name, *more)) == read(f / f"out/{name}"), name
        # The command that the program prints for the file that it did not write.
        command = next(line for line in out.split("\n") if "--all_ranks" in line).split()
        subprocess.run([SYNTORCH, *command[1:-1], "chakra.json", "--copies", "once"], cwd=f.path,
                       check=True)
        assert [r.get("nodes_of") for r in load_json(f / "chakra.json")["ranks"]] == [None] \
            + [0] * 7
        export(f, "chakra.json", "chakra", "--format", "et")
        same_set(f, "chakra", 8)
        subprocess.run([SYNTORCH, "json", "--input", f / "chakra.json", "--rank", "5", "--output",
                        f / "five.et"], check=True, capture_output=True)
        assert read(f / "five.et") == read(f / "out/trace.5.et")
        try:
            import networkx as nx
        except ImportError:
            return
        g = nx.readwrite.json_graph.node_link_graph(graph)
        assert nx.is_directed_acyclic_graph(g) and nx.is_weakly_connected(g)
        path = nx.dag_longest_path_length(g, "duration_ns")
        assert abs(path - sum(row["predicted_ns"] for row in s["ops"])) <= 1e-9 * path


if __name__ == "__main__":
    main(globals())
