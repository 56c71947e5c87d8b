#!/usr/bin/env python3
"""What a trace says in numbers: top ops, bytes per layer and group, the critical path across ranks,
how much communication nothing hides, and how two traces differ. Each question is a function of a
few lines over a networkx graph; take them apart for your own (docs/analyse.md).

    python3 examples/analyse.py out/tensor_trace_graph.json [other.json]

The graph is node-link JSON; `syntorch export --input trace.0.et --all_ranks --output graph.json`
makes it of execution traces, PyTorch's recordings among them."""
import collections
import json
import sys

import networkx as nx


def load(path):
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    except ValueError:  # no JSON, or no text at all
        data = None
    if not isinstance(data, dict) or "graph" not in data:
        sys.exit(f"{path} is no node-link graph; syntorch export --input {path} "
                 "--output graph.json makes one of execution traces, as files or as JSON")
    if data["graph"].get("copies"):
        sys.exit(f"{path} holds ranks once that do the same; syntorch export --copies full "
                 "writes all of them")
    if "links" not in data:  # an older networkx reads links, a newer one edges
        data["links"] = data["edges"]
    return nx.node_link_graph(data)


def ops(g):
    """The ops that do something, as {id: fields}."""
    return {n: op for n, op in g.nodes(data=True)
            if op["type"] == "op" and not op.get("virtual") and op["kind"] != "metadata"}


def ns(op):
    """What an op took: measured, without waiting for other ranks; else predicted."""
    return op["wall_ns"] - op.get("wait_ns", 0) if "wall_ns" in op else op.get("predicted_ns", 0)


def is_range(op):
    """PyTorch: made by record_function and the like, RecordScope USER_SCOPE; so are gloo's ops."""
    return op.get("attributes", {}).get("scope") == 7 and place(op) != "communication"


def place(op):
    """Host and device of a recording never add up; ranks of our own have one place."""
    attributes = op.get("attributes", {})
    if op["kind"] in ("collective", "send", "recv"):
        return "communication"
    return "host" if "tid" in attributes and "stream" not in attributes else "compute"


def short(name):
    """A kernel without its template's arguments."""
    return name.removeprefix("void ").split("<")[0].split("(")[0] or name


def top_ops(g):
    """Rows (place, op, calls, ns, flops, bytes), the longest first; without ranges that a program
    named, which are no ops. Bytes are moved in memory; of communication, what ranks put in."""
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    for op in ops(g).values():
        if is_range(op):
            continue
        where = place(op)
        row = rows[where, short(op["op"])]
        size = op["comm_bytes"] if where == "communication" else \
            op["bytes_read"] + op["bytes_written"]
        for i, value in enumerate((1, ns(op), op["flops"], size)):
            row[i] += value
    return sorted(((*key, *row) for key, row in rows.items()), key=lambda r: -r[3])


def layer_bytes(g):
    """Rows (layer, group, kind, calls, bytes, ns) of what is communicated, by rank's input."""
    rows = collections.defaultdict(lambda: [0, 0, 0])
    for op in ops(g).values():
        if place(op) == "communication":
            row = rows[op["layer"], op.get("group_name", ""), op.get("comm", op["kind"])]
            for i, value in enumerate((1, op["comm_bytes"], ns(op))):
                row[i] += value
    return [(*key, *row) for key, row in sorted(rows.items())]


def critical_path(g):
    """The ops that the run waits for, from its first to its last, and how long that takes. Ops of a
    PyTorch recording overlap; the file says how long each is on the path."""
    on = [n for n, op in ops(g).items() if "critical_ns" in op]
    if on:
        on.sort(key=lambda n: g.nodes[n]["start_ns"])
        return on, sum(g.nodes[n]["critical_ns"] for n in on)
    path = [n for n in nx.dag_longest_path(g, "duration_ns") if g.nodes[n]["type"] == "op"]
    return path, nx.dag_longest_path_length(g, "duration_ns")


def begins(g):
    """{op: ns}: when it begins, measured, else as soon as what it waits for allows."""
    if g.graph["clock"] == "measured":
        return {n: op["start_ns"] + op.get("wait_ns", 0) for n, op in ops(g).items()
                if "start_ns" in op}
    at = {}
    for n in nx.topological_sort(g):
        at[n] = max((at[p] + g.edges[p, n]["duration_ns"] for p in g.pred[n]), default=0)
    return {n: at[n] for n in ops(g)}


def union(spans):
    """Spans (begin, end) joined where they overlap."""
    joined = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([begin, end])
    return joined


def length(spans):
    return sum(end - begin for begin, end in spans)


def without(spans, others):
    """What is left of spans outside of others, both as union() gives them."""
    left = []
    for begin, end in spans:
        for b, e in others:
            if begin < e and b < end:
                if b > begin:
                    left.append((begin, b))
                begin = max(begin, e)
        if begin < end:
            left.append((begin, end))
    return left


def exposed(g):
    """Rows (rank, ns of communication, ns of it beside no computation). Of a recording without a
    device the host computes: each thread while it is in no communication, which calls may lie
    around."""
    nodes, at = ops(g), begins(g)
    has_device = any(place(op) == "compute" for op in nodes.values())
    comm, compute = collections.defaultdict(list), collections.defaultdict(list)
    for n, begin in at.items():
        op, where = nodes[n], place(nodes[n])
        if where == "host" and (has_device or is_range(op)):
            continue  # a call only, or a range that the program named
        # without a device, where a call keeps its thread; else what computes has its own place
        thread = op["rank"], where if has_device else op.get("attributes", {}).get("tid")
        span = begin, begin + ns(op)
        if where == "host":
            span = begin, begin + 1e3 * op["attributes"].get("inclusive_dur", 0)
        (comm if where == "communication" else compute)[thread].append(span)
    rows = []
    for rank in sorted({rank for rank, _ in [*comm, *compute]}):
        busy = union(span for t in list(compute) if t[0] == rank
                     for span in without(union(compute[t]), union(comm[t])))
        sent = union(span for t in list(comm) if t[0] == rank for span in comm[t])
        rows.append((rank, length(sent), length(without(sent, busy))))
    return rows


def compare(a, b):
    """Rows (scope and op, ns in a, ns in b), the largest difference first."""
    rows = collections.defaultdict(lambda: [0, 0])
    for i, g in enumerate((a, b)):
        for op in ops(g).values():
            rows[op["phase"], op["scope"], op["op"]][i] += ns(op)
    return sorted(((" ".join(filter(None, key)), *row) for key, row in rows.items()),
                  key=lambda r: -abs(r[2] - r[1]))


# ---- Tables ----

def show(title, heads, rows, most=12):
    print(f"\n{title}")
    if not rows:
        print("  none")
        return
    cells = [heads] + [[f"{c:,.1f}" if isinstance(c, float) else str(c) for c in row]
                       for row in rows[:most]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    for row in cells:
        print("  " + "  ".join(c.ljust(w) if isinstance(rows[0][i], str) else c.rjust(w)
                               for i, (c, w) in enumerate(zip(row, widths))).rstrip())
    if len(rows) > most:
        print(f"  and {len(rows) - most} more")


def us(value):
    return round(value / 1e3, 1)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    g = load(sys.argv[1])
    print(f"{sys.argv[1]}: {len(ops(g))} ops on {len(g.graph['ranks'])} ranks, "
          f"times: {g.graph['clock']}")
    rows = top_ops(g)
    for where in ("compute", "communication", "host"):
        here = [(op[:60], calls, us(t), flops, size) for w, op, calls, t, flops, size in rows
                if w == where]
        if here:
            show(f"{where}, all ranks", ("op", "calls", "us", "flops", "bytes"), here)
    show("communication", ("layer", "group", "kind", "calls", "bytes", "us"),
         [(layer if layer >= 0 else "-", *rest, us(t)) for layer, *rest, t in layer_bytes(g)])
    path, total = critical_path(g)
    on_path = collections.Counter()
    for n in path:
        on_path[short(g.nodes[n]["op"])[:60]] += g.nodes[n].get("critical_ns", ns(g.nodes[n]))
    changes = sum(g.nodes[m]["rank"] != g.nodes[n]["rank"] for m, n in zip(path, path[1:]))
    show(f"critical path: {us(total)} us, {len(path)} ops, {changes} times from rank to rank",
         ("op", "us"), [(op, us(t)) for op, t in on_path.most_common()])
    show("communication that nothing hides", ("rank", "us in all", "us exposed"),
         [(rank, us(a), us(b)) for rank, a, b in exposed(g)])
    if len(sys.argv) == 3:
        show(f"{sys.argv[2]} beside it, largest differences first", ("op", "us", "us there"),
             [(name, us(a), us(b)) for name, a, b in compare(g, load(sys.argv[2]))])


if __name__ == "__main__":
    main()
