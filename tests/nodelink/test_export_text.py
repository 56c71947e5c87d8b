"""Reads the files that test_export_text.c and test_chrome_trace.c write with other readers:
networkx, xmllint and Python's JSON parser. They prove that other programs can open our exports."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import networkx as nx
    from networkx.readwrite import json_graph
except ImportError:
    print("skipped: this Python has no networkx")
    sys.exit(77)

TESTS = os.path.join(os.environ["SYN_BUILD"], "tests")


def run(program, case, **env):
    subprocess.run([os.path.join(TESTS, program), case], check=True, env={**os.environ, **env})


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def check_graph(graph, weight):
    assert type(graph) is nx.DiGraph, type(graph)
    assert nx.is_directed_acyclic_graph(graph)
    assert len(graph) == 2 * (5 + 7) + 1, len(graph)
    # All ops are connected; the other components are tensors that no op touches.
    pieces = list(nx.weakly_connected_components(graph))
    assert sum(any(graph.nodes[n]["type"] == "op" for n in piece) for piece in pieces) == 1, pieces
    for r in range(2):
        assert set(graph.pred[f"r{r}.o7"]) == {"r0.o5", "r0.o2", "r0.t3", "r1.o5", "r1.o2", "r1.t3"}
        assert {graph[a][f"r{r}.o7"]["kind"]
                for a in (f"r{1 - r}.o5", f"r{1 - r}.o2", f"r{1 - r}.t3")} == {"group"}
    message = graph["r0.o18446744073709551615"]["r1.o18446744073709551615"]
    assert message["kind"] == "group"
    for a, b, edge in graph.edges(data=True):
        across = graph.nodes[a]["rank"] != graph.nodes[b]["rank"]
        assert not across or edge["derived"] is True, (a, b)
    # Computed manually: rank 1 joins the all-reduce at 3000.25 ns, it lasts 500 ns, and then the op
    # "free" lasts 5000 ns.
    assert nx.dag_longest_path_length(graph, weight) == 3000.25 + 500 + 5000
    # The receive begins when the send begins, at 3500.25 ns, and lasts longer than the send.
    assert longest_to(graph, "r1.t6", weight) == 3500.25 + 300
    assert graph.nodes["r0.o7"]["layer"] == 0 and graph.nodes["r0.o8"]["layer"] == -1
    assert graph.nodes["r0.o7"]["flops"] == 0 and graph.nodes["r0.o8"]["bytes_read"] == 0
    mul = graph.nodes["r0.o5"]
    assert mul["name"] == "square \u20ac" and mul["op"] == "mul" and mul["scope"] == "h.0"
    assert graph["r0.t1"]["r0.o5"]["kind"] == "input"
    assert graph["r0.o7"]["r0.t4"]["kind"] == "output"
    assert graph["r0.o5"]["r0.o7"]["kind"] == "control|inplace"
    assert graph["r0.o2"]["r0.o7"]["kind"] == "stream"  # the data dependency is the tensor's edges
    assert graph["r0.o7"]["r0.o8"]["kind"] == "data"  # a data dependency without a tensor
    assert not graph.has_edge("r0.o5", "r0.o2")
    assert graph.has_edge("r1.o18446744073709551615", "r1.t6")


def longest_to(graph, node, weight):
    return nx.dag_longest_path_length(graph.subgraph(nx.ancestors(graph, node) | {node}), weight)


def check_by_hand(graph, weight):
    """Checks the times of timeline_sample.h, computed manually: all ranks finish the all-reduce at
    3500 ns, then rank 0 sends and rank 1 receives until 3700 ns."""
    assert nx.is_directed_acyclic_graph(graph) and nx.is_weakly_connected(graph)
    assert nx.dag_longest_path_length(graph, weight) == 3700
    for node, until in (("r0.o2", 3000), ("r1.o2", 3000), ("r0.o3", 3500), ("r1.o3", 3500),
                        ("r1.o4", 1000)):
        assert longest_to(graph, node, weight) == until, (node, until)


def check_critical_paths(folder):
    check_by_hand(json_graph.node_link_graph(load(folder + "/predicted.json")), "duration_ns")
    check_by_hand(nx.read_graphml(folder + "/predicted.graphml"), "duration_ns")
    # This trace has no times, and rank 1 lacks the all-reduce. Each op counts one unit, and the
    # graph still has no cycle.
    order = json_graph.node_link_graph(load(folder + "/order.json"))
    assert order.graph["clock"] == "order" and nx.is_directed_acyclic_graph(order) \
        and nx.is_weakly_connected(order)
    assert nx.dag_longest_path_length(order, "duration_ns") == 3000
    assert [(a, b) for a, b, e in order.edges(data=True)
            if e["kind"] == "group"] == [("r0.o3", "r1.o3")]


def check_json(folder):
    data = load(folder + "/sample.json")
    assert data["links"] == data["edges"]
    graph = json_graph.node_link_graph(data)
    check_graph(graph, "duration_ns")
    assert graph.graph["clock"] == "measured"
    mul = graph.nodes["r0.o5"]
    assert mul["flops"] == 2**64 - 1 and mul["bytes_read"] == 2**63 and mul["shape"] == [4, 8]
    assert graph.nodes["r0.o7"]["wall_ns"] == 2500 and graph.nodes["r0.o7"]["transfer_ns"] == 500
    assert mul["attributes"]["pi"] == 3.141592653589793
    assert type(mul["attributes"]["scale"]) is float and str(mul["attributes"]["scale"]) == "-0.0"
    assert mul["attributes"]["fill"] == {"f64": "-inf"} and mul["attributes"]["causal"] is False
    assert graph["r0.t0"]["r0.o5"] == {"kind": "input", "position": 0, "duration_ns": 0,
                                       "positions": [0, 2]}
    assert graph["r0.t1"]["r0.o5"]["position"] == 1
    assert graph.nodes["r1.t2"]["bytes"] == 4 * 8 * 4
    assert graph.graph["metadata"]["model"] == 'GPT <3> & "co"\n\x01 \xe9'
    assert graph.graph["metadata"]["lowest"] == -(2**63)
    assert graph.graph["world_size"] == 3
    assert not any(value is None for _, node in graph.nodes(data=True) for value in node.values())
    return graph


def check_json_of_newer_networkx(folder, graph):
    """Tests the form of networkx 3.6, which reads edges only from the key "edges"."""
    data = load(folder + "/sample.json")
    del data["links"]
    again = json_graph.node_link_graph(data, link="edges")
    assert nx.utils.graphs_equal(graph, again)


def check_resaved(folder, graph):
    with open(folder + "/resaved.json", "w", encoding="utf-8") as f:
        json.dump(json_graph.node_link_data(graph), f, ensure_ascii=True, indent=1)
    data = json_graph.node_link_data(graph)
    for part in ("nodes", "links" if "links" in data else "edges"):
        random.Random(7).shuffle(data[part])
    with open(folder + "/shuffled.json", "w", encoding="utf-8") as f:
        json.dump(data, f)
    with open(folder + "/sorted.json", "w", encoding="utf-8") as f:
        data = load(folder + "/sample.json")
        del data["links"]
        json.dump(sort_keys(data), f, ensure_ascii=False)
    run("test_export_text", "resaved_by_others", SYN_TEST_RESAVED=folder)


def sort_keys(value, name=""):
    """Returns the value with the keys of every object in alphabetic order, except the attributes of
    ops."""
    if isinstance(value, list):
        return [sort_keys(v) for v in value]
    if isinstance(value, dict):
        keys = list(value) if name == "attributes" else sorted(value)
        return {k: sort_keys(value[k], k) for k in keys}
    return value


def check_graphml(folder):
    path = folder + "/sample.graphml"
    graph = nx.read_graphml(path)
    check_graph(graph, "duration_ns")
    for name, node in graph.nodes(data=True):
        assert type(node["x"]) is float and type(node["y"]) is float, name
        assert type(node["rank"]) is int and type(node["size"]) is float
        if "flops" in node:
            assert type(node["flops"]) is int
        red, green, blue = node["r"], node["g"], node["b"]
        strongest = max(red, green, blue)
        comm = node.get("kind") in ("collective", "send", "recv")
        wanted = green if node["type"] == "tensor" else red if comm else blue
        assert wanted == strongest, (name, red, green, blue)
    assert graph.nodes["r0.o2"]["virtual"] is True
    assert graph.nodes["r0.o7"]["group_name"] == "tp0" and graph.nodes["r0.o7"]["wait_ns"] == 2000
    assert graph.nodes["r0.o7"]["transfer_ns"] == 500 and "transfer_ns" not in graph.nodes["r0.o5"]
    assert graph.nodes["r0.o5"]["cpu_ns"] == 0.1
    assert graph.nodes["r0.t2"]["label"] == "h.0/mul:0"
    assert graph.graph["tp"] == 2 and graph.graph["temperature"] == 3.0
    assert graph.graph["fused"] is True
    assert graph.graph["model"] == 'GPT <3> & "co"\n\ufffd \xe9'
    assert graph["r0.t0"]["r0.o5"]["positions"] == "0,2"
    for a, b, edge in graph.edges(data=True):
        comm = any("comm" in graph.nodes[n] for n in (a, b))
        assert (edge["r"] > 100) == comm and edge["g"] == 0 and edge["b"] == 0, (a, b)
    places = {(node["x"], node["y"]) for _, node in graph.nodes(data=True)}
    assert len(places) == len(graph), "two nodes lie on one place"
    if shutil.which("xmllint"):
        subprocess.run(["xmllint", "--noout", path], check=True)


def check_trace(path):
    trace = load(path)
    assert trace["displayTimeUnit"] == "ms"
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert slices and {(e["pid"], e["tid"]) for e in slices} == named
    # No op of these threads calls another, so slices must not overlap.
    for a, b in ((a, b) for a in slices for b in slices if a is not b
                 and (a["pid"], a["tid"]) == (b["pid"], b["tid"])):
        assert a["ts"] + a["dur"] <= b["ts"] + 1e-6 or b["ts"] + b["dur"] <= a["ts"] + 1e-6, \
            ("counted twice", a, b)
    threads = {}
    for e in slices:
        threads.setdefault((e["pid"], e["tid"]), []).append(e)
    for events in threads.values():
        open_ends, last = [], 0
        for e in events:
            # Times are rounded to whole ns, so that the ends of neighbours compare exactly.
            start, end = round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)
            assert start >= last, "not in order of time"
            last = start
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], ("partly overlapping", e)
            open_ends.append(end)
    check_flows(trace, slices)
    return trace, slices


def check_flows(trace, slices):
    starts = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "f"}
    assert set(starts) == set(ends) and starts
    for flows in starts, ends:
        for e in flows.values():
            assert any(s["pid"] == e["pid"] and s["tid"] == e["tid"]
                       and s["ts"] <= e["ts"] < s["ts"] + s["dur"] for s in slices), e
    for number, e in starts.items():
        assert (e["cat"], e["name"]) == (ends[number]["cat"], ends[number]["name"])
        assert e["ts"] <= ends[number]["ts"] and ends[number]["bp"] == "e"


def check_curves(events):
    """Checks the memory curves, computed manually for tensors of 128 bytes. Three tensors exist at
    the start. Rank 0 makes the product at 0, and the sum at 1 while it waits for rank 1. One of
    them is read until 3.5, the other until it is sent."""
    curves = {}
    for e in events:
        if e["ph"] == "C":
            curves.setdefault((e["name"], e["pid"]), []).append((e["ts"], e["args"]["bytes"]))
    assert curves["memory", 0] == [(0, 512), (1, 640), (3.5, 512), (3.7, 384)], curves
    assert curves["memory", 1] == [(0, 384), (3, 512), (3.5, 384), (3.6, 512)], curves
    assert curves["bytes in flight", 0] == [(3, 128), (3.5, 0), (3.6, 128), (3.7, 0)], curves
    assert curves["bytes in flight", 1] == [(3, 128), (3.5, 0), (3.6, 128), (3.9, 0)], curves


def check_chrome(folder):
    trace, slices = check_trace(folder + "/measured.trace.json")
    assert trace["otherData"]["clock"] == "measured"
    assert trace["distributedInfo"]["pg_config"][0]["ranks"] == [0, 1]
    reduces = [e for e in slices if e.get("args", {}).get("op") == "all_reduce"]
    assert {e["pid"]: (e["ts"], e["dur"]) for e in reduces} == {0: (3, 0.5), 1: (3, 0.5)}
    assert [(e["pid"], e["ts"], e["dur"], e["args"]) for e in slices
            if e["name"] == "wait"] == [(0, 1, 2, {"id": "r0.o7", "for": "all_reduce"})]
    check_curves(trace["traceEvents"])
    arrows = [(e["ph"], e["pid"], e["ts"]) for e in trace["traceEvents"]
              if e["name"] == "collective"]
    assert arrows == [("s", 0, 3.499), ("f", 1, 3.499)], arrows
    for e in reduces:
        args = e["args"]
        assert args["Group size"] == 2 and args["Seq"] == 3
        assert json.loads(args["Process Group Ranks"]) == [0, 1]
    assert check_trace(folder + "/predicted.trace.json")[0]["otherData"]["clock"] == "predicted"
    assert check_trace(folder + "/order.trace.json")[0]["otherData"]["clock"] == "order"


def main():
    with tempfile.TemporaryDirectory() as folder:
        run("test_export_text", "files_for_other_readers", SYN_TEST_OUT=folder)
        run("test_chrome_trace", "files_for_other_readers", SYN_TEST_OUT=folder)
        graph = check_json(folder)
        check_json_of_newer_networkx(folder, graph)
        check_resaved(folder, graph)
        check_graphml(folder)
        check_chrome(folder)
        check_critical_paths(folder)


main()
