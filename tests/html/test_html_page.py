"""Tests HTML reports without a browser: they hold the same data as node-link JSON of the same
trace, request nothing from the network, and no name in a trace becomes markup or code."""
import json
import os
import random
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, failures, finish, run  # noqa: E402
from page_data import Parts, read_trace  # noqa: E402

import subprocess  # noqa: E402


def export(source, target, *more):
    done = run("export", "--input", source, "--output", target, *more)
    check(done.returncode == 0, f"export {source}: {done.stderr.decode()}")
    with open(target, encoding="utf-8") as f:
        return f.read()


def by_rank(graph, kind):
    out = {}
    for node in graph["nodes"]:
        if node["type"] == kind:
            out.setdefault(node["rank"], []).append(node)
    return out


def check_ops(head, rank, ops):
    number = rank.about["rank"]
    check(len(ops) == rank.about["nodes"], f"rank {number}: {len(ops)} ops")
    groups = [g["id"] for g in head["groups"]]
    times = rank.times()
    for i, op in enumerate(ops):
        mine = {
            "id": f"r{number}.o{rank.id[i]}", "name": rank.text("label", i),
            "op": rank.text("op", i), "scope": rank.text("scope", i),
            "kind": head["kinds"][rank.kind[i]], "category": head["categories"][rank.category[i]],
            "phase": head["phases"][rank.phase[i]], "step": rank.step[i],
            "flops": rank.flops[i], "bytes_read": rank.read[i],
            "bytes_written": rank.written[i]}
        if op["kind"] != "compute" and "comm" in op:
            mine["comm"] = head["comms"][rank.comm[i] - 1]
            mine["comm_bytes"] = rank.comm_bytes[i]
            mine["comm_index"] = rank.number[i]
            if op["kind"] == "collective":
                mine["group"] = groups[rank.group[i] - 1]
            else:
                mine["peer"], mine["tag"] = rank.peer[i] - 1, rank.tag[i]
        for name, value in mine.items():
            check(op[name] == value, f"{op['id']} {name}: {value}, not {op[name]}")
        shown = not op.get("virtual") and op["kind"] != "metadata"
        check(shown == (rank.lane[i] > 0), f"{op['id']} is shown or not")
        if shown and head["clock"] == "measured":
            start, end = times[i]
            # times agree to the ns; an op that overlaps by rounding of the clock begins 1 ns later
            check(abs(start - op["start_ns"]) <= 1 and
                  abs(end - op["start_ns"] - op["wall_ns"]) <= 2, f"{op['id']} at {start}")
            check(abs(rank.wait[i] - op["wait_ns"]) <= 1, f"{op['id']} waits {rank.wait[i]}")


def check_tensors(head, rank, tensors):
    names = rank.tensor_names()
    number = rank.about["rank"]
    for i, tensor in enumerate(tensors):
        base = f"r{number}.t{i - rank.tensor_base[i]}"
        check(base == tensor.get("base", tensor["id"]), f"{tensor['id']}: base {base}")
        spec = f"{tensor['dtype']}[{','.join(map(str, tensor['shape']))}]"
        mine = (names[i], head["texts"][rank.tensor_spec[i]], rank.tensor_bytes[i])
        check(mine == (tensor["name"], spec, tensor["bytes"]), f"{tensor['id']}: {mine}")
        roles = tensor["role"].split("|") + ["view"] * bool(tensor.get("view"))
        flags = [k in roles for k in ("param", "input", "state", "view")]
        check([bool(rank.tensor_flags[i] >> k & 1) for k in range(4)] == flags,
              f"{tensor['id']}: flags {rank.tensor_flags[i]}")
        part = rank.about["parts"][rank.tensor_part[i] - 1] if rank.tensor_part[i] else None
        check(part == tensor.get("part"), f"{tensor['id']}: {part}, not {tensor.get('part')}")


def check_edges(rank, graph):
    """The inputs, outputs and other dependencies equal those of the graph."""
    number = rank.about["rank"]
    own = [e for e in graph["links"] if not e.get("derived") and
           e["source"].startswith(f"r{number}.") and e["target"].startswith(f"r{number}.")]
    want = {(e["source"], e["target"]): e["kind"] for e in own}
    have = {}
    for i in range(rank.about["nodes"]):
        op = f"r{number}.o{rank.id[i]}"
        for t in rank.inputs[i]:
            have[f"r{number}.t{t}", op] = "input"
        for t in rank.outputs[i]:
            have[op, f"r{number}.t{t}"] = "output"
        for source, classes in rank.deps[i].items():
            order = ["data", "control", "inplace", "stream", "launch", "sync", "group"]
            have[f"r{number}.o{rank.id[source]}", op] = "|".join(sorted(classes, key=order.index))
    check(have == want, f"rank {number}: edges differ: "
          f"{sorted(set(have.items()) ^ set(want.items()))[:4]}")


def check_same(folder, source, *more):
    page = Parts(export(source, os.path.join(folder, "page.html"), *more))
    graph = json.loads(export(source, os.path.join(folder, "again.json"), "--copies", "full"))
    head, ranks = read_trace(page.scripts[0])
    check(head["clock"] == graph["graph"]["clock"], f"clock {head['clock']}")
    check(head["groups"] == graph["graph"]["groups"], "groups differ")
    ops, tensors = by_rank(graph, "op"), by_rank(graph, "tensor")
    check([r["rank"] for r in head["ranks"]] == sorted(ops), "ranks differ")
    for rank in ranks:
        check_ops(head, rank, ops[rank.about["rank"]])
        check_tensors(head, rank, tensors.get(rank.about["rank"], []))
        check_edges(rank, graph)
    return page, head, ops


def inference(folder, *options):
    done = subprocess.run([os.path.join(BUILD, "inference"), *options, "--quiet",
                           "--visualize_trace", "--out_dir", folder], cwd=SOURCE,
                          capture_output=True, check=False, timeout=300)
    check(done.returncode == 0, f"inference: {done.stderr.decode()}")
    return os.path.join(folder, "tensor_trace_graph.json")


def pretrain(folder, *options):
    done = subprocess.run([os.path.join(BUILD, "pretrain"), *options, "--device", "meta",
                           "--enable-tracing", "--visualize-trace", "--quiet", "--out-dir", folder],
                          cwd=SOURCE, capture_output=True, check=False, timeout=300)
    check(done.returncode == 0, f"pretrain: {done.stderr.decode()}")
    return os.path.join(folder, "trace_graph.json")


def check_renamed(folder):
    """Ranks of tp x dp x pp are stored once per stage, and keep their own groups and peers."""
    source = pretrain(os.path.join(folder, "mesh"), "--num-gpus", "8", "--tp", "2", "--pp", "2",
                      "--gradient-accumulation-steps", "2")
    _, head, _ = check_same(folder, source, "--copies", "once")
    check([r.get("like") for r in head["ranks"]] == [None, 0, 0, 0, None, 4, 4, 4],
          "ranks are not stored once per stage")


def check_quiet(page):
    """The report loads nothing, and its content security policy forbids it."""
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            check(name not in attributes, f"<{tag}> has {name}")
        check(not any(name.startswith("on") for name in attributes), f"<{tag}> has a handler")
        check(tag not in ("link", "iframe", "img", "object", "base", "form"), f"<{tag}>")
    policy = [a["content"] for t, a in page.tags
              if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    check(len(policy) == 1 and policy[0].startswith("default-src 'none';"), f"policy {policy}")
    check(not re.search(r"\b(fetch|XMLHttpRequest|import|WebSocket|eval|innerHTML)\b",
                        page.scripts[-1][1]), "the script asks for something")


def check_table(page, ops):
    """The table has the number of calls of each op, counted here from the graph."""
    counts = {}
    for rank in ops.values():
        for op in rank:
            if not op.get("virtual"):
                counts[op["op"]] = counts.get(op["op"], 0) + 1
    for name, n in counts.items():
        at = page.cells.index(name)
        check(page.cells[at + 1].strip() == str(n), f"{name}: {page.cells[at + 1]} calls, not {n}")
    each = [op["bytes_read"] + op["bytes_written"] for rank in ops.values() for op in rank
            if op["op"] == "softmax"]
    check(each and f"{sum(each) / 1024:.3g} KiB" in page.cells, f"no {sum(each) / 1024:.3g} KiB")
    check(f"{sum(counts.values())} ops on {len(ops)} ranks" in "".join(page.text), "no sum of ops")


HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>", "\"'`${alert(1)}",
           "</title></style><svg onload=alert(2)>", "\u2028\u202e\x01", "a&amp;b", "%s%n"]


def hostile(source, folder):
    """Returns the trace with markup and script in every place that holds a name."""
    with open(source, encoding="utf-8") as f:
        graph = json.load(f)
    names = iter(range(10 ** 6))
    for node in graph["nodes"]:
        text = HOSTILE[next(names) % len(HOSTILE)]
        if node["type"] == "op":
            node["scope"], node["name"] = f"h.{len(text)}.{text}", text
            if node["kind"] == "compute":
                node["op"] = text
            if "attributes" in node:
                node["attributes"] = {text: text}
        else:
            node["name"] = text
    for group in graph["graph"]["groups"]:
        group["name"] = HOSTILE[0]
    graph["graph"]["metadata"] = {"model": HOSTILE[4], HOSTILE[0]: HOSTILE[1]}
    path = os.path.join(folder, "hostile.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(graph, f)
    return path


def check_hostile(folder, source):
    calm = Parts(export(source, os.path.join(folder, "calm.html")))
    path = hostile(source, folder)
    page, head, _ = check_same(folder, path, "--title", HOSTILE[0])
    shape = [(t, sorted(a)) for t, a in page.tags if t not in ("tr", "th", "td")]
    check(shape == [(t, sorted(a)) for t, a in calm.tags if t not in ("tr", "th", "td")],
          "names became elements")
    check(head["title"] == HOSTILE[0], f"title {head['title']}")
    check(page.scripts[-1] == calm.scripts[-1], "the script differs")
    check(len(page.scripts) == 2, f"{len(page.scripts)} scripts")
    check(HOSTILE[0] in page.cells, "the table has not the op's name as text")


def check_two(folder, source, other):
    page = Parts(export(source, os.path.join(folder, "two.html"), "--compare", other))
    heads = [read_trace(script)[0] for script in page.scripts[:-1]]
    check(len(heads) == 2, f"{len(heads)} traces")
    check([len(h["ranks"]) for h in heads] == [2, 1], "not both traces")
    done = run("export", "--input", source, "--output", os.path.join(folder, "x.json"),
               "--compare", other)
    check(done.returncode == 2 and b"html" in done.stderr, "--compare with json")
    new = other + ".html"
    done = run("export", "--input", source, "--output", new, "--compare", "nothing.json")
    check(done.returncode == 1 and b"nothing.json" in done.stderr, "--compare of nothing")
    check(not os.path.exists(new), "a failed export left a file")
    done = run("export", "--input", source, "--format", "html", "--output", other,
               "--compare", other)
    check(done.returncode != 0, "an input was written over")


def check_copies_are_cheap(folder):
    """Eight times as many identical ranks need only the columns of one rank, except some options of
    ops."""
    sizes = []
    for tp in (2, 16):
        source = inference(os.path.join(folder, f"tp{tp}"), "--device", "meta", "--model",
                           "gpt3-175b", "--tp", str(tp), "--num_input_tokens", "8",
                           "--num_output_tokens", "2", "--hw", "h200")
        export(source, os.path.join(folder, "tp.html"))
        sizes.append(os.path.getsize(os.path.join(folder, "tp.html")))
    check(sizes[1] < 1.3 * sizes[0], f"16 ranks: {sizes[1]} bytes, 2 ranks: {sizes[0]}")


def check_rounding(folder, source):
    """In traces of more than 100,000 measured ops times are rounded: durations to within 1 %,
    begins to within a millionth of the run plus the error of the op before. Ops of a track do not
    overlap."""
    with open(source, encoding="utf-8") as f:
        graph = json.load(f)
    op = next(n for n in graph["nodes"] if n["type"] == "op" and n["name"] == "ln_1")
    draw, clock, nodes = random.Random(1), [0, 0], []
    for i in range(1, 50002):
        for r in range(2):
            clock[r] += draw.choice([0, draw.randrange(300), draw.randrange(10 ** 6)])
            wall = int(10 ** draw.uniform(0, 6.5))
            nodes.append({**op, "id": f"r{r}.o{i}", "rank": r, "start_ns": clock[r],
                          "wall_ns": wall})
            clock[r] += wall
    graph.update(nodes=nodes, links=[], edges=[])
    path = os.path.join(folder, "noise.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(graph, f)
    head, ranks = read_trace(Parts(export(path, os.path.join(folder, "noise.html"))).scripts[0])
    check(head["rounded"] is True, "times are not rounded")
    for rank in ranks:
        number, worst, late, before = rank.about["rank"], 0, 0, 0
        for (start, end), node in zip(rank.times(), nodes[number::2]):
            check(start >= before, "ops overlap by rounding")
            before = end
            worst = max(worst, abs(end - start - node["wall_ns"]) / node["wall_ns"])
            late = max(late, abs(start - node["start_ns"]))
        check(worst < 0.01, f"a duration is off by {worst}")
        # the rounding errors of 50,000 ops do not accumulate
        check(late < max(clock) / 1e6 + 0.01 * 10 ** 6.5, f"an op begins {late} ns off")


def main():
    with tempfile.TemporaryDirectory() as folder:
        two = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        one = inference(os.path.join(folder, "one"), "--num_output_tokens", "3")
        page, _, ops = check_same(folder, two)
        check_quiet(page)
        check_table(page, ops)
        single, head, _ = check_same(folder, one)
        check(len(head["ranks"]) == 1, "one rank")
        check(single.scripts[-1] == page.scripts[-1], "the script depends on the trace")
        part = Parts(export(two, os.path.join(folder, "r1.html"), "--rank", "1"))
        check([r["rank"] for r in read_trace(part.scripts[0])[0]["ranks"]] == [1], "--rank 1")
        # ranks that are stored once, and their differences
        meta = inference(os.path.join(folder, "meta"), "--device", "meta", "--tp", "4",
                         "--num_output_tokens", "2")
        page, head, ops = check_same(folder, meta, "--copies", "once")
        check([r.get("like") for r in head["ranks"]] == [None, 0, 0, 0], "ranks are not held once")
        check_table(page, ops)
        check(any("of" in part for part in head["ranks"][3]["parts"]), "no parts of tensors")
        check_renamed(folder)
        check_hostile(folder, two)
        check_two(folder, two, one)
        check_copies_are_cheap(folder)
        check_rounding(folder, two)
    finish()


if __name__ == "__main__":
    main()
