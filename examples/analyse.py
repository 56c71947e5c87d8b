#!/usr/bin/env python3
"""Analyses a trace: top ops, bytes per layer and group, the critical path across ranks, exposed
communication, and the differences between two traces. Each analysis is a short function over a
networkx graph; copy and change them for your own (docs/analyse.md).

    python3 examples/analyse.py out/tensor_trace_graph.json [other.json]

The graph is node-link JSON. To convert execution traces, also of PyTorch runs, use
`syntorch export --input trace.0.et --all_ranks --output graph.json`."""
import collections
import json
import sys

import networkx as nx


def load(path):
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    except ValueError:  # not JSON, or not text
        data = None
    if not isinstance(data, dict) or "graph" not in data:
        sys.exit(f"{path} is not a node-link graph; to convert an execution trace, run "
                 f"syntorch export --input {path} --output graph.json")
    if data["graph"].get("copies"):
        sys.exit(f"{path} has identical ranks only once; syntorch export --copies full writes all "
                 "ranks")
    if "links" not in data:  # older versions of networkx read links, newer ones edges
        data["links"] = data["edges"]
    return nx.node_link_graph(data)


def ops(g):
    """Returns the ops that run, without views and metadata, as {id: fields}."""
    return {n: op for n, op in g.nodes(data=True)
            if op["type"] == "op" and not op.get("virtual") and op["kind"] != "metadata"}


def ns(op):
    """Returns the time of an op: measured, without wait time for other ranks; else predicted."""
    return op["wall_ns"] - op.get("wait_ns", 0) if "wall_ns" in op else op.get("predicted_ns", 0)


def is_range(op):
    """Whether an op is a range of a PyTorch program, such as record_function (RecordScope
    USER_SCOPE). gloo's ops have the same scope but are communication."""
    return op.get("attributes", {}).get("scope") == 7 and place(op) != "communication"


def place(op):
    """Returns where an op runs. Times of host and device must not be added up. Ranks that Syntorch
    traced have no host ops."""
    attributes = op.get("attributes", {})
    if op["kind"] in ("collective", "send", "recv"):
        return "communication"
    return "host" if "tid" in attributes and "stream" not in attributes else "compute"


def short(name):
    """Returns a kernel's name without template arguments and parameters."""
    return name.removeprefix("void ").split("<")[0].split("(")[0] or name


def top_ops(g):
    """Returns rows (place, op, calls, ns, flops, bytes), longest time first, without named ranges.
    Bytes are memory traffic; for communication they are the ranks' input."""
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
    """Returns rows (layer, group, kind, calls, bytes, ns) of the communication. Bytes are the
    ranks' input."""
    rows = collections.defaultdict(lambda: [0, 0, 0])
    for op in ops(g).values():
        if place(op) == "communication":
            row = rows[op["layer"], op.get("group_name", ""), op.get("comm", op["kind"])]
            for i, value in enumerate((1, op["comm_bytes"], ns(op))):
                row[i] += value
    return [(*key, *row) for key, row in sorted(rows.items())]


def critical_path(g):
    """Returns the ops on the critical path in order, and its length in ns. Ops of a PyTorch trace
    overlap, so the file has the time that each op is on the path (critical_ns)."""
    on = [n for n, op in ops(g).items() if "critical_ns" in op]
    if on:
        on.sort(key=lambda n: g.nodes[n]["start_ns"])
        return on, sum(g.nodes[n]["critical_ns"] for n in on)
    path = [n for n in nx.dag_longest_path(g, "duration_ns") if g.nodes[n]["type"] == "op"]
    return path, nx.dag_longest_path_length(g, "duration_ns")


def begins(g):
    """Returns {op: start in ns}: measured, or else as early as its dependencies allow."""
    if g.graph["clock"] == "measured":
        return {n: op["start_ns"] + op.get("wait_ns", 0) for n, op in ops(g).items()
                if "start_ns" in op}
    at = {}
    for n in nx.topological_sort(g):
        at[n] = max((at[p] + g.edges[p, n]["duration_ns"] for p in g.pred[n]), default=0)
    return {n: at[n] for n in ops(g)}


def union(spans):
    """Merges overlapping spans (begin, end)."""
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
    """Returns the parts of spans outside of others. Both must be results of union()."""
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
    """Returns rows (rank, ns of communication, ns of exposed communication). Exposed means that the
    rank computes nothing meanwhile. In a PyTorch trace without device work, host threads compute
    while they are in an op, except during communication within it."""
    nodes, at = ops(g), begins(g)
    has_device = any(place(op) == "compute" for op in nodes.values())
    comm, compute = collections.defaultdict(list), collections.defaultdict(list)
    for n, begin in at.items():
        op, where = nodes[n], place(nodes[n])
        if where == "host" and (has_device or is_range(op)):
            continue  # only a call, or a named range
        # without device work, calls and communication belong to threads
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
    """Returns rows (scope and op, ns in a, ns in b), largest difference first."""
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
    show(f"critical path: {us(total)} us, {len(path)} ops, {changes} changes of rank",
         ("op", "us"), [(op, us(t)) for op, t in on_path.most_common()])
    show("exposed communication", ("rank", "total us", "exposed us"),
         [(rank, us(a), us(b)) for rank, a, b in exposed(g)])
    if len(sys.argv) == 3:
        show(f"{sys.argv[2]} in comparison, largest differences first", ("op", "us", "other us"),
             [(name, us(a), us(b)) for name, a, b in compare(g, load(sys.argv[2]))])


if __name__ == "__main__":
    main()
