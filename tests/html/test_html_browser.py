"""Tests HTML reports in headless Chromium, if it is installed: they draw, search, select, fold and
compare, write no errors to the console and request nothing from the network."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import BUILD, SOURCE, check, finish, run, skip  # noqa: E402
from test_html_page import HOSTILE, export, hostile, inference, pretrain  # noqa: E402

COLOURS = """(() => {
    const c = view.canvas, data = new Uint32Array(c.getContext("2d")
        .getImageData(0, 0, c.width, c.height).data.buffer);
    return new Set(data).size; })()"""
# The id of the selected op as the report names it, and the position of its middle on the screen.
IDS = "view.selected && view.selected.trace.id(view.selected.r, view.selected.i)"
MIDDLE = """(() => {
    const p = view.picture.placeOf(%s), b = view.canvas.getBoundingClientRect();
    return [b.left + (p.x0 + p.x1) / 2, b.top + p.y + p.h / 2]; })()"""
GRAPH_MIDDLE = """(() => {
    const p = view.picture.placeOf(%s), b = view.canvas.getBoundingClientRect();
    return [b.left + (p.x + p.w / 2 - view.gx) * view.z,
            b.top + (p.y + p.h / 2 - view.gy) * view.z]; })()"""


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def ops_of(graph):
    return {n["id"]: n for n in graph["nodes"] if n["type"] == "op"}


def check_timeline(page, graph):
    check(page.do(COLOURS) > 20, "the timeline is blank")
    ops = ops_of(graph)
    shown = [o for o in ops.values() if not o.get("virtual")]
    text = page.do("document.getElementById('panel').textContent")
    check(f"ops{len(shown):,}ranks2" in text, f"the panel says {text[:80]}")
    # the longest op of rank 0 is found under the mouse, and a click selects it
    longest = max((o for o in shown if o["rank"] == 0), key=lambda o: o["wall_ns"] - o["wait_ns"])
    at = f"view.byId(0, 0, {longest['id'].split('.o')[1]})"
    x, y = page.do(MIDDLE % at)
    page.mouse("mouseMoved", x, y)
    tip = page.do("document.getElementById('tip').textContent")
    check(longest["name"] in tip, f"the tooltip says {tip}")
    page.click(x, y)
    page.frame()
    check(page.do(IDS) == longest["id"], f"a click selected {page.do(IDS)}")
    panel = page.do("document.getElementById('panel').textContent")
    check(longest["op"] in panel and longest["id"] in panel, "the panel does not say what it is")
    least = min((o for o in shown if o["rank"] == 0), key=lambda o: o["wall_ns"])
    page.do(f"view.select(view.byId(0, 0, {least['id'].split('.o')[1]}))")
    page.key("Enter")
    page.frame()
    check(page.do("view.t1 - view.t0 < (view.end - view.begin) / 2"), "Enter did not zoom")
    page.key("0")
    page.frame()
    check(page.do("view.t0 === view.begin && view.t1 === view.end"), "0 does not show everything")


def check_shared(page):
    """Ranks share data that is equal although their times differ: the nodes of tracks, and the
    begins of ops if no op waits."""
    same = page.do("""(() => { const t = view.traces[0], [a, b] = [0, 1].map((r) => rowsOf(t, r));
        return [a.every((row, k) => row.s !== b[k].s && row.nodes === b[k].nodes),
            a.map((row) => row.w === row.s), a.map((row) => row.comm)]; })()""")
    check(same[0], "ranks with the same lanes have nodes of their own")
    check(same[1] == [not comm for comm in same[2]], f"rows that wait: {same}")


def check_links(page, graph):
    """The panel lists the inputs and users of the graph, and clicking one selects it."""
    ops = ops_of(graph)
    makers = {e["target"]: e["source"] for e in graph["links"] if e["kind"] == "output"}
    op = next(o for o in ops.values() if o["name"] == "proj" and o["rank"] == 1)
    sources = {makers[e["source"]] for e in graph["links"]
               if e["kind"] == "input" and e["target"] == op["id"] and e["source"] in makers}
    page.do(f"view.select(view.byId(0, 1, {op['id'].split('.o')[1]}), true)")
    page.frame()
    names = page.do("""[...document.querySelectorAll('#panel a')].map((a) => a.textContent)""")
    check(any("all_reduce" in name for name in names), f"links of proj: {names}")
    page.do("document.querySelector('#panel a').click()")
    check(page.do(IDS) in sources, f"a link led to {page.do(IDS)}, not to {sources}")


def check_search(page, graph):
    wanted = [o["id"] for o in ops_of(graph).values() if not o.get("virtual") and
              "h.1" in o["scope"] and o["name"] == "qkv"]
    page.key("/")
    page.do("document.getElementById('query').value = 'h.1 qkv'")
    page.do("document.getElementById('query').dispatchEvent(new Event('input'))")
    page.frame()
    found = page.do("document.getElementById('found').textContent")
    check(found == f"{len(wanted)} found", f"{found}, not {len(wanted)}")
    seen = []
    page.do("document.getElementById('query').blur()")
    for _ in wanted:
        page.key("n")
        seen.append(page.do(IDS))
    check(sorted(seen) == sorted(wanted), f"n went to {seen}")
    page.key("n")
    check(page.do(IDS) == seen[0], "n does not begin again")
    page.do(f"view.find('{wanted[0]}')")
    check(page.do("view.hits.count") == 1, "an id is not found")
    page.do("view.find('no such op')")
    check(page.do("document.getElementById('found').textContent") != "", "nothing says nothing")
    page.key("Escape")
    page.frame()
    check(page.do("view.selected === null && view.hits === null"), "Escape keeps what was found")
    page.key("/")
    page.do("document.getElementById('query').value = 'qkv'")
    page.do("document.getElementById('query').dispatchEvent(new Event('input'))")
    check(page.do("document.activeElement.id === 'query' && view.hits.count > 0"),
          "qkv is not found")
    page.key("Escape")  # with the focus in the search box
    page.frame()
    left = page.do("""[document.getElementById('query').value, view.hits,
        document.activeElement.id, document.getElementById('found').textContent]""")
    check(left == ["", None, "", ""], f"Escape in the box leaves {left}")


def check_units(page):
    """Bytes are shown in powers of 1024, as in pictures and reports. Everything else is shown in
    powers of 1000."""
    said = page.do("""[[0, 'B'], [1023, 'B'], [1024, 'B'], [12800, 'B'], [1047552, 'B'],
        [2 ** 30, 'B'], [999, 'FLOP'], [196608, 'FLOP'], [1.5e12, 'FLOP'], [0.25, 'FLOP/B']].map(
        ([value, unit]) => amount(value, unit)).join()""")
    check(said == "0 B,1023 B,1 KiB,12.5 KiB,1023 KiB,1 GiB,999 FLOP,197 kFLOP,1.5 TFLOP,"
          "0.25 FLOP/B", said)


def check_legend(page):
    before = page.do(COLOURS)
    page.do("document.querySelector('#legend .chip').click()")
    page.frame()
    check(page.do("view.hidden.size") == 1 and page.do(COLOURS) != before,
          "the legend hides nothing")
    page.do("document.querySelector('#legend .chip').click()")
    for mode in ("time", "flops", "bytes", "intensity", "category"):
        page.do(f"view.setColour('{mode}')")
        page.frame()
        check(page.do(COLOURS) > 8, f"coloured by {mode}: blank")


def check_graph(page):
    page.key("g")
    page.frame()
    check(page.do(COLOURS) > 20, "the graph is blank")
    count = "(() => { let n = 0; const go = (k) => k.kids ? k.kids.forEach(go) : n++;" \
            "view.picture.parts.forEach((p) => go(p.root)); return n; })()"
    boxes = [page.do("view.setLevel(%d)" % level) or page.frame() or page.do(count)
             for level in (1, 2, 3)]
    check(boxes[0] < boxes[1] < boxes[2], f"items at levels 1, 2, 3: {boxes}")
    # two identical layers are drawn once
    folds = page.do("""(() => { const out = []; const go = (k) => {
        if (k.what.copies) out.push(k.what.copies.length); (k.kids || []).forEach(go); };
        go(view.picture.parts[0].root); return out; })()""")
    check(2 in folds, f"folded: {folds}")
    at = "view.byId(0, 0, 1)"
    page.click(*page.do(GRAPH_MIDDLE % at))
    page.frame()
    check(page.do(IDS) == "r0.o1", f"a click in the graph selected {page.do(IDS)}")
    page.do("view.setLevel(1)")
    page.frame()
    item = "view.picture.parts[0].root.kids[0].kids[0]"
    closed = page.do(f"{item}.kids === null")
    x, y = page.do(f"""(() => {{ const k = {item}, b = view.canvas.getBoundingClientRect();
        return [b.left + (k.x + k.w / 2 - view.gx) * view.z,
                b.top + (k.y + 30 + k.h - 4 - view.gy) * view.z]; }})()""")
    page.click(x, y)
    page.frame()
    check(closed and page.do(f"{item}.kids !== null"), "a click opens no box")
    check_boxes(page, 3)
    page.key("g")


def check_boxes(page, level):
    """No box overlaps its neighbours or exceeds the box around it."""
    overlap, outside = page.do("""(() => { let overlap = 0, outside = 0;
        const go = (k) => { const kids = k.kids || [];
            for (const a of kids) {
                for (const b of kids) if (a.order < b.order && a.x < b.x + b.w &&
                    b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h) overlap++;
                if (k.parent && (a.x < k.x || a.y < k.y || a.x + a.w > k.x + k.w + 0.01 ||
                    a.y + a.h > k.y + k.h + 0.01)) outside++;
                go(a);
            } };
        view.setLevel(%d); view.picture.layoutAll();
        view.picture.parts.forEach((p) => go(p.root)); return [overlap, outside]; })()""" % level)
    check(overlap == 0, f"{overlap} boxes overlap at level {level}")
    check(outside == 0, f"{outside} boxes stick out of theirs at level {level}")


def check_side_by_side(page, folder):
    """In a training step of one rank, backward is drawn next to forward, layer by layer and
    upwards, and so is recomputation. With several microbatches, backward is drawn below forward."""
    def step(name, *options):
        out = os.path.join(folder, name)
        done = subprocess.run(
            [os.path.join(BUILD, "pretrain"), "--device", "meta", "--enable-tracing",
             "--visualize-trace", "--max-steps", "2", "--max-seq-length", "32", "--quiet",
             "--save-dir", os.path.join(out, "save"), "--out-dir", out, *options],
            cwd=SOURCE, capture_output=True, check=False, timeout=300)
        check(done.returncode == 0, f"pretrain: {done.stderr.decode()}")
        page.open(os.path.join(out, "trace.html"), "#mode=graph&ranks=0")

    # for each column: its name, left and right edge, top, and the middle of each layer
    columns = """(() => { view.setLevel(%d); view.picture.layoutAll();
        const {root} = view.picture.parts[0], out = [];
        for (const kid of root.kids.filter((k) => /^(forward|recompute|backward)/.test(k.texts[0])))
            out.push([kid.texts[0].split(" ")[0], kid.x, kid.x + kid.w, kid.y,
                (kid.kids || []).map((k) => [layerKey(k), k.y + k.h / 2])]);
        return out; })()"""
    for name, options, parts in (
            ("plain", (), "forward backward"),
            ("ranks", ("--num-gpus", "2", "--tp", "2"), "forward backward"),
            ("again", ("--activation-recompute", "full"), "forward recompute backward"),
            ("bert", ("--model", "bert-base-uncased", "--num-gpus", "2"), "forward backward")):
        step(name, *options)
        for level in (1, 2, 3):
            check_boxes(page, level)
            found = page.do(columns % level)
            check(" ".join(f[0] for f in found) == parts, f"{name}: {[f[0] for f in found]}")
            for left, right in zip(found, found[1:]):
                check(left[2] < right[1] and left[3] == right[3], f"{name}: {left[:4]} {right[:4]}")
                mine, other = dict(map(tuple, left[4])), dict(map(tuple, right[4]))
                shared = [key for key in mine if key and key in other]
                check(len(shared) > 0, f"{name}: no layer is in both of {left[0]}, {right[0]}")
                for key in shared:
                    check(abs(mine[key] - other[key]) < 0.01, f"{name}: {key} is not beside itself")
        up, across, wrong = page.do("""(() => { let up = 0, across = 0, wrong = 0;
            for (const e of view.picture.parts[0].edges) {
                const a = e.from, b = e.to;
                if (e.box.up) { up++; if (a.y < b.y + b.h && a.row !== b.row) wrong++; }
                else if (a.row === b.row) { across++; if (b.x < a.x + a.w) wrong++; }
                else if (b.y < a.y + a.h) wrong++;
            }
            return [up, across, wrong]; })()""")
        check(up > 20 and across > 10 and wrong == 0,
              f"{name}: {up} and {across} arrows, {wrong} of them wrong")
    step("several", "--gradient-accumulation-steps", "2")
    check_boxes(page, 2)
    found = page.do(columns % 2)
    check(len(found) == 2 and found[0][3] < found[1][3], f"two batches: {found}")


def check_address(page, path):
    """The part of the address after # restores the same picture."""
    page.do("view.select(view.byId(0, 1, 5)); view.setColour('bytes'); view.setMode('graph')")
    page.frame()
    page.do("writeAddress(view)")
    fragment = page.do("location.hash")
    page.open(path, fragment)
    check(page.do(IDS) == "r1.o5" and page.do("view.colour") == "bytes" and
          page.do("view.mode") == "graph", f"{fragment} does not come back")
    page.open(path, "#time=abc&op=Zr9.o9&colour=%3Cimg%3E&hide=x&level=9&at=1,2,0&ranks=9999999")
    check(page.do(COLOURS) > 20, "an address of nonsense spoils the page")


def check_critical(page, folder):
    """The critical path of a predicted run is as long as the longest path that networkx finds in
    its graph."""
    try:
        import networkx as nx
    except ImportError:
        print("no networkx: the critical path is not compared")
        return
    source = inference(os.path.join(folder, "meta"), "--device", "meta", "--tp", "2",
                       "--num_output_tokens", "2", "--hw", "h200")
    path = os.path.join(folder, "meta.html")
    export(source, path)
    page.open(path)
    graph = nx.node_link_graph(load(source))
    length = nx.dag_longest_path_length(graph, "duration_ns")
    page.key("c")
    page.frame()
    mine = page.do("""(() => { const t = view.traces[0], {on, slack} = findCritical(t); let n = 0,
        ns = 0, wrong = 0; t.ranks.forEach((_, r) => { const d = t.column(r, 'duration'),
        w = t.column(r, 'wait'), lane = t.column(r, 'lane'); for (let i = 0; i < d.length; i++) {
        if (on[r][i] && lane[i]) { n++; ns += d[i] - w[i]; if (slack[r][i] > 2) wrong++; }
        if (slack[r][i] < 0) wrong++; } }); return [n, ns, wrong, t.end]; })()""")
    # times are whole ns, with one rounding per op
    check(abs(mine[1] - length) <= mine[0] and abs(mine[3] - length) <= mine[0],
          f"critical path {mine[1]} of {mine[3]} ns, networkx {length}")
    check(mine[2] == 0, f"{mine[2]} ops with a wrong slack")


def check_hostile(page, folder, source):
    path = os.path.join(folder, "hostile.html")
    export(hostile(source, folder), path, "--title", HOSTILE[0])
    page.open(path)
    check(page.do("document.title") == HOSTILE[0], "the title is not the text")
    for code in ("0", "view.setMode('graph')", "view.setLevel(3)",
                 "view.select(view.byId(0, 0, 5))", "view.find('alert')"):
        page.do(code + "; 1")
        page.frame()
        check(page.do("document.querySelectorAll('img, svg, iframe').length") == 0,
              f"a name became an element after {code}")
    check(page.do("document.scripts.length") == 2, "a name became a script")


def check_labels(page, folder, source, path):
    """The labels of two runs with the same name show what differs between them, or else their file
    names."""
    labels = page.do("labelsOf(view.traces)")
    check(labels[0].startswith("A: ") and labels[1].startswith("B: ") and
          labels[0][3:] != labels[1][3:], f"two runs: {labels}")
    check("(" not in "".join(labels), f"facts differ: {labels}")
    again = os.path.join(folder, "again.json")
    shutil.copy(source, again)
    alike = os.path.join(folder, "alike.html")
    export(source, alike, "--compare", again)
    page.open(alike)
    shown = [page.do("document.getElementById('title').textContent").split("  |  "),
             page.do("document.querySelector('#comparison p').textContent").split(". The")[0]
             .split("; "),
             page.do("[...document.querySelectorAll('#panel h3')].slice(0, 2).map("
                     "(h) => h.textContent)"),
             page.do("[...document.querySelectorAll('.table:not(#comparison) h2')].map("
                     "(h) => h.textContent)")]
    for a, b in shown:
        check(a.startswith("A: ") and a.endswith(f"({source})"), f"A is called {a}")
        check(b.startswith("B: ") and b.endswith(f"({again})"), f"B is called {b}")


def check_two(page, folder, one, two):
    path = os.path.join(folder, "both.html")
    export(two, path, "--compare", one)
    page.open(path)
    check(page.do("view.traces.length") == 2, "not two traces")
    page.do("view.setColour('change')")
    page.frame()
    check(page.do(COLOURS) > 12, "coloured by change: blank")
    page.do("view.select(view.byId(0, 0, 8))")
    page.frame()
    panel = page.do("document.getElementById('panel').textContent")
    check("In the other trace" in panel, "no link to the other trace")
    rows = page.do("document.querySelectorAll('#comparison tbody tr').length")
    check(rows > 10, f"{rows} rows compared")
    check_labels(page, folder, two, path)
    page.open(path)
    # a report that is dropped on the window becomes run B; any other file gives an error message
    with open(path, encoding="utf-8") as f:
        text = f.read()
    export(one, path)
    page.open(path)
    page.do(f"readPage({json.dumps(text)}).then((trace) => view.compareWith(trace))")
    page.frame()
    check(page.do("view.traces.map((t) => t.ranks.length).join()") == "1,2", "B was not taken")
    said = page.do("readPage('<p>other</p>').then(() => '', (error) => error.message)")
    check("--format html" in said, f"another file: {said}")


def check_recording(page, folder):
    """In a PyTorch trace each op lies within its caller, and every visible op is in exactly one
    box."""
    example = os.path.join(SOURCE, "examples", "pytorch")
    trace, path = os.path.join(folder, "pt.0.et"), os.path.join(folder, "pt.html")
    done = run("convert", "pytorch", "--host", os.path.join(example, "host.0.json"), "--device",
               os.path.join(example, "device.0.json"), "--output", trace)
    check(done.returncode == 0, f"convert: {done.stderr.decode()}")
    export(trace, path)
    page.open(path)
    deep, outside = page.do("""(() => { const t = view.traces[0], {start, end} = t.span(0);
        let deep = 0, outside = 0; for (const row of rowsOf(t, 0)) row.nodes.forEach((i, k) => {
            const c = row.callers ? row.callers[k] : -1; if (c < 0) return; deep++;
            if (start[i] < start[c] || end[i] > end[c]) outside++; });
        return [deep, outside]; })()""")
    check(deep > 50 and outside == 0, f"{outside} of {deep} ops stick out of their callers")
    page.do("view.setMode('graph'); view.setLevel(3)")
    page.frame()
    nodes, shown = page.do("""(() => { const t = view.traces[0];
        const all = nodesOf(treeOf(t, 0, false));
        return [new Set(all).size === all.length ? all.length : -1,
            t.column(0, "lane").filter((lane) => lane > 0).length]; })()""")
    check(nodes == shown, f"{nodes} ops in boxes, {shown} in lanes")
    texts = page.do("""(() => { const out = []; const go = (k) => { out.push(k.texts[0]);
        (k.kids || []).forEach(go); }; go(view.picture.parts[0].root); return out; })()""")
    check("DistributedDataParallel.forward" in texts, f"boxes: {texts[:20]}")


def check_many_ranks(page, folder):
    """Identical ranks need only one strip of pixels, and ops outside the view are not drawn one by
    one."""
    source = inference(os.path.join(folder, "many"), "--device", "meta", "--model", "gpt3-175b",
                       "--tp", "32", "--num_input_tokens", "8", "--num_output_tokens", "3")
    path = os.path.join(folder, "many.html")
    export(source, path)
    page.open(path)
    page.do("""for (const name of ["drawImage", "fillRect", "fillText", "fill"]) {
        const own = CanvasRenderingContext2D.prototype[name]; window.calls = {};
        CanvasRenderingContext2D.prototype[name] = function (...all) {
            calls[name] = (calls[name] || 0) + 1; return own.apply(this, all); }; }""")
    calls, strips = page.do("(() => { calls = {}; view.draw(); return [calls, 1 + Math.max("
                            "...view.picture.layout.lines.map((l) => l.strip || 0))]; })()")
    ops = page.do("view.traces[0].nodes")
    check(ops > 100000 and strips == 1, f"{strips} strips for 32 equal ranks of {ops} nodes")
    check(sum(calls.values()) < 3000, f"calls of one frame: {calls}")
    before = page.do("view.hits === null && (view.find('qkv h.95'), view.hits.count)")
    check(before == 32 * 3, f"{before} found, not one a step and rank")


def check_shares(page):
    """Ops that share a pixel are drawn in the mean of their colours, weighted by time: here 3/4 of
    200 and 1/4 of 40."""
    mixed = page.do("""(() => {
        const out = new Uint32Array(2);
        const strip = {out, base: 0, width: 2, weight: new Float32Array(2),
            sums: new Float32Array(8)};
        const row = {nodes: [0, 1, 2], s: [0, 0.75, 1], e: [0.75, 1, 1.5], w: [0, 0.75, 1]};
        fillStrip(row, [0, 1, 0], [200, 40], strip, 0, 1, 0);
        settleStrip(strip);
        return [...out].map((p) => [p & 255, p >>> 24]);
    })()""")
    check(mixed == [[160, 255], [200, 255]], f"pixels of two ops and of one: {mixed}")


def check_joins(page, folder):
    """Between two ranks, the red area corresponds to the time in which they communicate, whether a
    collective is wider than a pixel, as in prefill, or narrower."""
    source = inference(os.path.join(folder, "joins"), "--device", "meta", "--model", "gpt2", "--tp",
                       "2", "--num_output_tokens", "3", "--num_input_tokens", "512")
    path = os.path.join(folder, "joins.html")
    export(source, path)
    page.open(path)
    red = """(() => { let wide = 0, cover = 0; const [one, all] = [drawJoin, paintCover];
        drawJoin = (g, a) => { wide += a.x1 - a.x0; };
        paintCover = (p, g, strips) => { for (const of of strips.values())
            for (const strip of of.values()) cover += strip.reduce((sum, c) => sum + c, 0); };
        view.draw(); [drawJoin, paintCover] = [one, all];
        return [wide / view.picture.perNs, cover / view.picture.perNs]; })()"""
    spent = """(() => { const t = view.traces[0], {start, end} = t.span(0); let sum = 0;
        t.column(0, "comm").forEach((kind, i) => { if (kind > 0) sum += Math.max(0,
            Math.min(end[i], view.t1) - Math.max(start[i] + t.column(0, "wait")[i], view.t0)); });
        return sum; })()"""
    for what, t1 in (("all", "view.end"), ("the first tenth", "view.begin + 0.1 * view.end")):
        page.do(f"view.t1 = {t1}")
        want, (wide, cover), edge = page.do(spent), page.do(red), page.do("20 / view.picture.perNs")
        check(0.98 * want < wide + cover < 1.02 * want + edge,
              f"{what}: {want} ns in collectives, {wide} and {cover} are drawn")
        if what == "all":
            check(cover > 0.3 * want, f"nothing is narrow: {cover} of {want} ns")
    inks = page.do("""[0.7, 0.07].map((wide) => { const c = document.createElement("canvas");
        const g = c.getContext("2d"); g.strokeStyle = "rgba(255, 0, 0, 0.45)";
        drawJoin(g, {x0: 20, x1: 20 + wide}, {x0: 90, x1: 90 + wide}, 0, 100, wide);
        return g.getImageData(0, 0, 120, 100).data.filter((_, k) => k % 4 === 3)
            .reduce((sum, a) => sum + a, 0); })""")
    check(0.05 < inks[1] / inks[0] < 0.2, f"slanted, a tenth as wide: {inks}")


def check_without_script(folder, path):
    with Page() as page:
        page.open_without_script(path)
        check(page.do("window.view === undefined"), "the viewer ran")
        shown = page.do("getComputedStyle(document.querySelector('.table')).display")
        check(shown != "none", "without JavaScript no table is shown")


RANKS = """view.traces[0].ranks.map((rank, r) => {
    const t = view.traces[0], list = (name) => [...t.column(r, name)];
    return [list("group"), list("peer"), list("tag"), rank.lanes.map(([name]) => name)]; })"""
MEETINGS = """(() => { const t = view.traces[0], {list, messages} = t.meetings();
    const id = ([r, i]) => t.id(r, i);
    return [list.map((at) => at.map(id).sort()).sort(),
        messages.map((pair) => pair.map(id)).sort()]; })()"""


def check_renamed(page, folder):
    """Ranks that are stored once have their own groups, peers and tracks: the report shows the same
    collectives and messages as one that stores all ranks."""
    source = pretrain(os.path.join(folder, "mesh"), "--num-gpus", "8", "--tp", "2", "--pp", "2",
                      "--gradient-accumulation-steps", "2")
    seen = []
    for how in ("full", "once"):
        path = os.path.join(folder, how + ".html")
        export(source, path, "--copies", how)
        page.open(path)
        page.frame()
        like = page.do("view.traces[0].ranks.map((rank) => rank.like)")
        check(like[3] == (None if how == "full" else 0), f"{how}: ranks are like {like}")
        seen.append((page.do(RANKS), page.do(MEETINGS)))
    check(seen[0][0] == seen[1][0], "groups, peers, tags or tracks differ")
    check(seen[0][1] == seen[1][1], "collectives or messages differ")
    collectives, messages = seen[1][1]
    check(len(collectives) > 10 and len(messages) == 2 * 2 * 4,
          f"{len(collectives)} collectives, {len(messages)} messages")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder:
        two = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        one = inference(os.path.join(folder, "one"), "--num_output_tokens", "3")
        path = os.path.join(folder, "page.html")
        export(two, path)
        graph = load(two)
        with Page() as page:
            page.open(path)
            check_timeline(page, graph)
            check_shared(page)
            check_links(page, graph)
            check_search(page, graph)
            check_units(page)
            check_legend(page)
            check_graph(page)
            check_address(page, path)
            check_critical(page, folder)
            check_hostile(page, folder, two)
            check_two(page, folder, one, two)
            check_recording(page, folder)
            check_side_by_side(page, folder)
            check_many_ranks(page, folder)
            check_shares(page)
            check_joins(page, folder)
            check_renamed(page, folder)
            # messages about this test's own reading of pixels are not errors of the report
            errors = [e for e in page.errors if "getImageData" not in e]
            check(not errors, f"console: {errors[:5]}")
            other = [u for u in page.requests if not u.startswith(("file:", "about:", "data:"))]
            check(not other, f"requests: {other[:5]}")
        check_without_script(folder, path)
    finish()


if __name__ == "__main__":
    main()
