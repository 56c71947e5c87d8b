"""Tests graphs of HTML reports in headless Chromium: boxes show which shard of a tensor the rank
holds, matching collectives of tensor parallelism are drawn as pairs, and a selected op is either
visible or a message says why not."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import BUILD, SOURCE, check, finish, skip  # noqa: E402
from test_html_browser import load  # noqa: E402
from test_html_page import export, inference  # noqa: E402

TEXTS = """(() => { const out = {}; view.picture.parts.forEach(({trace, r, of}) =>
    of.forEach((item, i) => { if (item && item.what.i === i)
        out[trace.id(r, i)] = item.texts[2]; })); return out; })()"""


def check_parts(page, folder):
    """The third text of each op that is drawn is the shard that it produces, as in the JSON
    export."""
    source = inference(os.path.join(folder, "two"), "--device", "meta", "--tp", "2",
                       "--num_output_tokens", "2")
    path, graph = os.path.join(folder, "two.html"), load(source)
    export(source, path)
    page.open(path, "#mode=graph&level=3")
    page.frame()
    nodes = {n["id"]: n for n in graph["nodes"]}
    made, read = {}, {}
    for e in graph["links"]:
        made.setdefault(e["source"], []).append(e["target"])
        read.setdefault(e["target"], []).append(e["source"])
    texts, cut, weights = page.do(TEXTS), 0, 0
    for op, text in texts.items():
        parts = [nodes[t]["part"] for t in made.get(op, []) if "part" in nodes.get(t, {})
                 and nodes[t]["type"] == "tensor"]
        of = [nodes[t]["part"] for t in read.get(op, []) if "part" in nodes[t]
              and "param" in nodes[t]["role"]]
        whole = [p for p in parts if "-" in p]
        if whole:
            cut += 1
            check(text == whole[0], f"{op}: {text}, not {parts}")
        elif of:
            weights += 1
            check(text.startswith(f"weight: {of[0]}"), f"{op}: {text}, not of {of}")
        else:
            check("-" not in text, f"{op}: {text}, but nothing is cut")
    check(cut > 20 and weights >= 6, f"{cut} cut, {weights} with a part of a weight")
    check(any(t.endswith("output: partial sum") for t in texts.values()), "no partial sum")
    page.do("view.setLevel(2)")
    page.frame()
    facts = page.do("""(() => { const p = view.picture.parts[1]; let out; const go = (k) => {
        if (k.texts[0] === "mlp" && !k.kids) out = view.picture.boxFacts(p.trace, p.r, k);
        (k.kids || []).forEach(go); }; go(p.root); return Object.fromEntries(out); })()""")
    check(facts["weights"].startswith("columns 256-511 of 512"), f"a closed box says {facts}")


def check_views(page):
    """Enter shows a view op in the graph. The timeline has no view ops and says so."""
    view = """(() => { const t = view.traces[0], i = t.column(1, "flags").findIndex((f) => f & 1);
        view.select({trace: t, t: 0, r: 1, i}, %s);
        return view.picture.placeOf(view.selected); })()"""
    said = "document.getElementById('note').textContent"
    check(page.do(view % "false") is None, "views are drawn unasked")
    page.key("Enter")
    page.frame()
    at = page.do("""(() => { const {x, y} = view.picture.placeOf(view.selected);
        return [(x - view.gx) * view.z, (y - view.gy) * view.z, view.canvas.clientWidth,
            view.canvas.clientHeight]; })()""")
    check(0 < at[0] < at[2] and 0 < at[1] < at[3], f"Enter shows no view: {at}")
    page.do("view.setViews(false); document.getElementById('note').textContent = ''")
    page.do(view % "true")
    check("Enter" in page.do(said), f"the graph says '{page.do(said)}' of a view")
    page.do("view.setMode('time'); document.getElementById('note').textContent = ''")
    page.key("Enter")
    check("view" in page.do(said), f"the timeline says '{page.do(said)}' of a view")


def check_pairs(page, folder):
    """Each tp_enter of forward belongs to an all-reduce of backward in the same scope."""
    done = subprocess.run(
        [os.path.join(BUILD, "pretrain"), "--device", "meta", "--enable-tracing",
         "--visualize-trace", "--max-steps", "2", "--max-seq-length", "32", "--quiet", "--num-gpus",
         "2", "--tp", "2", "--save-dir", os.path.join(folder, "save"), "--out-dir",
         folder], cwd=SOURCE, capture_output=True, check=False, timeout=300)
    check(done.returncode == 0, f"pretrain: {done.stderr.decode()}")
    graph = load(os.path.join(folder, "trace_graph.json"))
    ops = {n["id"]: n for n in graph["nodes"] if n["type"] == "op"}
    enters = {i for i, o in ops.items() if o["op"] == "tp_enter" and o["phase"] == "forward" and
              o["rank"] == 0}
    page.open(os.path.join(folder, "trace.html"), "#mode=graph&level=3&ranks=0")
    page.frame()
    pairs = page.do("pairsOf(view.traces[0], 0).map((p) => p.map((i) => view.traces[0].id(0, i)))")
    check({a for a, _ in pairs} == enters and len(pairs) == len(enters), f"pairs {pairs}")
    for a, b in pairs:
        check(ops[b]["op"] == "all_reduce" and ops[b]["phase"] == "backward" and
              ops[a]["scope"] == ops[b]["scope"], f"{a} and {b} are no pair")
    drawn = page.do("""(() => { let n = 0; const own = acrossGap; view.z = 0.2; view.gy = 0;
        acrossGap = (g, e) => { if (g.strokeStyle === CATEGORY_COLOURS.communication) n++;
            own(g, e); };
        view.draw(); acrossGap = own; return [n, view.picture.parts[0].pairs.length]; })()""")
    # layers are drawn once, so a line exists for each block of one layer, and for the last layer
    check(drawn[0] == drawn[1] and drawn[0] >= 3, f"{drawn} pairs are drawn")
    check("all_reduce" in page.do("document.getElementById('legend').textContent"), "no legend")
    page.do(f"view.select(view.byId(0, 0, {pairs[0][1].split('.o')[1]}))")
    page.frame()
    panel = page.do("document.getElementById('panel').textContent")
    check("tp_enter" in panel, "the panel of an all-reduce does not name its tp_enter")
    page.do("[...document.querySelectorAll('#panel a')].find((a) => "
            "a.textContent.includes('tp_enter')).click()")
    check(page.do("view.selected.trace.id(0, view.selected.i)") == pairs[0][0], "the link fails")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        check_parts(page, folder)
        check_views(page)
        check_pairs(page, folder)
        check(not page.errors, f"console: {page.errors[:5]}")
    finish()


if __name__ == "__main__":
    main()
