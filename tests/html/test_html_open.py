"""Tests files that are opened in an HTML report, in headless Chromium: the report reads JSON,
Chakra JSON, execution traces and Chrome traces as the program does, colours ops by a CSV file, and
refuses damaged files with one sentence."""
import base64
import gzip
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import SOURCE, check, finish, run, skip  # noqa: E402
from test_html_page import export, inference, pretrain  # noqa: E402

# What both readers must agree on, per rank: the ops that are shown with their times, and sums.
ABOUT = """(() => { const out = {}; for (const [name, t] of [["file", got],
    ["page", view.traces[0]]]) out[name] = t.ranks.map((rank, r) => {
        const lane = t.column(r, "lane"), {start, end} = t.span(r), ops = [];
        const deps = t.deps(r).nodes.length, memory = memoryOf(t, r);
        for (let i = 0; i < lane.length; i++) if (lane[i] > 0) ops.push([t.text(r, i, "label"),
            t.ranks[r].lanes[lane[i] - 1][0], start[i], end[i], t.column(r, "wait")[i]]);
        ops.sort((a, b) => a[2] - b[2] || a[3] - b[3] || (a[0] < b[0] ? -1 : 1));
        return {rank: rank.rank, ops, deps, peak: memory && memory.peak,
            kinds: ops.length && t.head.categories.map((name, k) =>
                t.column(r, "category").filter((c, i) => c === k && lane[i] > 0).length)}; });
    return out; })()"""


def send(page, files):
    """Opens (name, bytes) pairs. Returns the error message, "trace" or "colours"."""
    made = ", ".join(f"new File([Uint8Array.from(atob({json.dumps(base64.b64encode(data).decode())}"
                     f"), (c) => c.charCodeAt(0))], {json.dumps(name)})" for name, data in files)
    return page.do(f"""readFiles([{made}], view.traces[0].head).then((read) => {{
        window.got = read.trace; window.colours = read.colours;
        return read.trace ? "trace" : "colours"; }}, (error) => error.message)""")


def content(*paths):
    out = []
    for path in paths:
        with open(path, "rb") as f:
            out.append((os.path.basename(path), f.read()))
    return out


def check_same(page, what, files, within=0, exact=True):
    """The opened files give the same ops, times within some ns and, if `exact`, kinds and memory as
    the trace of the report."""
    said = send(page, files)
    if not check(said == "trace", f"{what}: {said}"):
        return
    about = page.do(ABOUT)
    for mine, other in zip(about["file"], about["page"]):
        check(mine["rank"] == other["rank"], f"{what}: rank {mine['rank']}")
        check([op[:2] for op in mine["ops"]] == [op[:2] for op in other["ops"]],
              f"{what}: ops {mine['ops'][:3]}, not {other['ops'][:3]}")
        worst = max((abs(a - b) for x, y in zip(mine["ops"], other["ops"])
                     for a, b in zip(x[2:], y[2:])), default=-1)
        check(0 <= worst <= within, f"{what}: times differ by {worst} ns")
        if exact:
            check(mine["kinds"] == other["kinds"] and mine["deps"] == other["deps"] and
                  mine["peak"] == other["peak"], f"{what}: kinds, dependencies or memory")
    check(len(about["file"]) == len(about["page"]), f"{what}: {len(about['file'])} ranks")
    page.do("view.showTrace(got)")
    for key in ("g", "t", "g"):
        page.frame()
        page.key(key)
    page.frame()


def check_measured(page, folder):
    """All files of a measured run show the same run."""
    out = os.path.join(folder, "two")
    source = inference(out, "--tp", "2", "--num_output_tokens", "3")
    page_path = os.path.join(folder, "page.html")
    export(source, page_path)
    timeline = os.path.join(folder, "timeline.json")
    done = run("export", "--input", source, "--format", "chrome", "--output", timeline)
    check(done.returncode == 0, "export to chrome")
    with open(source, "rb") as f:
        zipped = [("graph.json.gz", gzip.compress(f.read()))]
    for what, files, exact in (("JSON", content(source), True), ("gzip", zipped, True),
                               ("timeline", content(timeline), False),
                               ("report", content(page_path), True)):
        page.open(page_path)
        check_same(page, what, files, exact=exact)
    # a PyTorch trace has host threads
    example = os.path.join(SOURCE, "examples", "pytorch")
    trace, graph = os.path.join(folder, "pt.0.et"), os.path.join(folder, "pt.json")
    run("convert", "pytorch", "--host", os.path.join(example, "host.0.json"), "--device",
        os.path.join(example, "device.0.json"), "--output", trace)
    run("export", "--input", trace, "--output", graph)
    export(trace, os.path.join(folder, "pt.html"))
    for path in (graph, trace):
        page.open(os.path.join(folder, "pt.html"))
        check_same(page, os.path.basename(path), content(path), exact=path == graph)
    # an execution trace rounds starts to microseconds and has other ids: compare with its report
    sets = [os.path.join(out, f"trace.{r}.et") for r in range(2)]
    chakra, set_page = os.path.join(folder, "chakra.json"), os.path.join(folder, "set.html")
    export(sets[0], set_page, "--all_ranks")
    done = run("export", "--input", sets[0], "--all_ranks", "--format", "chakra", "--output",
               chakra)
    check(done.returncode == 0, "export to chakra")
    groups = os.path.join(out, "trace.comm_group.json")
    for what, files in ((".et", content(*sets, groups)), ("Chakra JSON", content(chakra))):
        page.open(set_page)
        check_same(page, what, files, within=1000, exact=False)
    return page_path, source, sets


def check_predicted(page, folder):
    """Times are simulated as the program does: ranks wait for each other at collectives and
    messages, and streams overlap."""
    source = pretrain(os.path.join(folder, "pp"), "--num-gpus", "4", "--max-steps", "2",
                      "--max-seq-length", "32", "--hw", "h100", "--pp", "2",
                      "--gradient-accumulation-steps", "4")
    path = os.path.join(folder, "pp.html")
    export(source, path)
    page.open(path)
    check_same(page, "dp x pp", content(source), within=3)


def check_kineto(page, page_path):
    """PyTorch's own device trace has a track of the host and its nested ops."""
    page.open(page_path)
    files = content(os.path.join(SOURCE, "examples", "pytorch", "device.0.json"))
    said = send(page, files)
    check(said == "trace", f"Kineto: {said}")
    deep = page.do("rowsOf(got, 0).filter((row) => row.callers).length")
    check(deep > 2 and page.do("got.head.recorded") == "pytorch", f"{deep} rows of host ops")
    events = json.loads(files[0][1])["traceEvents"]
    slices = [e for e in events if e.get("ph") == "X" and e.get("cat") != "Trace"]
    check(page.do("got.nodes") == len(slices), f"{page.do('got.nodes')} ops of {len(slices)}")
    page.do("view.showTrace(got)")
    page.key("g")
    page.frame()


def check_served(page, page_path, folder):
    """The timeline of a simulated server has a rank for each replica, whose ops are the steps."""
    prefix = os.path.join(folder, "served")
    done = run("serve", "--model", "llama-3-8b", "--layers", "1", "--hw", "h100+serving", "--dp",
               "3", "--requests", "uniform:10-900:2-9", "--num-requests", "9", "--out", prefix)
    check(done.returncode == 0, f"serve: {done.stderr}")
    page.open(page_path)
    files = content(prefix + ".timeline.json")
    said = send(page, files)
    check(said == "trace", f"served: {said}")
    steps = [e for e in json.loads(files[0][1])["traceEvents"] if e["ph"] == "X"]
    want = [[replica, sum(e["pid"] == replica for e in steps)] for replica in range(3)]
    found = page.do("got.ranks.map((rank, r) => [rank.rank, got.column(r, 'lane').length])")
    check(found == want, f"ops of replicas: {found}, not {want}")
    first = next(e["name"] for e in steps if e["pid"] == 0)
    check(page.do("got.text(0, 0, 'label')") == first, f"the first step is {first}")


def check_refused(page, page_path, source, sets):
    """A damaged or foreign file gives one sentence with its name, and the report stays usable."""
    page.open(page_path)
    with open(sets[0], "rb") as f:
        trace = f.read()
    graph = json.loads(content(source)[0][1])
    graph["links"][5]["target"] = "r0.o999999"
    for name, data, says in (
            ("cut.0.et", trace[:5000], "cut"), ("empty.0.et", b"", "empty"),
            ("text.0.et", b"hello world", "not an execution trace"),
            ("a.json", b"{\"a\": ", "damaged"), ("b.json", b"{\"a\": {}}", "unknown JSON"),
            ("c.json", json.dumps(graph).encode(), "an end that is no node"),
            ("d.txt", b"hello", "not a report"), ("e.html", b"<p>other</p>", "--format html"),
            ("f.json.gz", b"\x1f\x8bnonsense", "f.json.gz"),
            ("g.json", b"{\"traceEvents\": []}", "no trace"),
            ("h.csv", b"name,value\na,1\n", "needed are op, label or id"),
            ("i.csv", b"op,value\nlinear,high\n", "line 2"),
            ("j.csv", b"op,colour\nlinear,bleu\n", "bleu")):
        said = send(page, [(name, data)])
        check(says in said and said.count("\n") == 0 and len(said) < 300, f"{name}: {said}")
    check("rank 0" in send(page, [("a.0.et", trace), ("b.0.et", trace)]), "a rank twice")
    draw = random.Random(1)
    for k in range(20):  # no file makes the reader hang
        bad = bytearray(trace)
        for _ in range(draw.choice([1, 3, 30])):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        said = send(page, [("bad.0.et", bytes(bad))])
        check("\n" not in said, f"damage {k}: {said}")


def check_colours(page, page_path):
    """A CSV colours the ops that it names, and the legend shows its values."""
    page.open(page_path)
    at = "plainPaint(view.traces[0], 0, 'csv')[view.traces[0].column(0, 'op').findIndex((_, i) =>" \
         " view.traces[0].text(0, i, 'op') === '%s')]"
    send(page, [("heat.csv", b"op;value\r\nlinear;3\r\n\"softmax\";1.5\r\n")])
    page.do("setColours(view, colours)")
    page.frame()
    places = [page.do(at % op) for op in ("linear", "softmax", "add")]
    check(places == page.do("[RAMP + RAMP_STEPS - 1, RAMP, UNKNOWN]"), f"values: {places}")
    legend = "document.getElementById('legend').textContent"
    check("1.5" in page.do(legend) and "heat.csv" in page.do(legend), page.do(legend))
    send(page, [("own.csv", b"id,colour\nr0.o7,rebeccapurple\n")])
    page.do("setColours(view, colours)")
    page.do("view.setTheme(view.dark)")
    page.frame()
    colour = page.do("""(() => { const {r, i} = view.byId(0, 0, 7);
        return view.palette.css[plainPaint(view.traces[0], r, "csv")[i]]; })()""")
    check(colour == "#663399", f"r0.o7 is {colour}")
    check("r0.o7" in page.do(legend), page.do(legend))
    send(page, [("no.csv", b"label,value\nnosuchop,1\n")])
    page.do("view.setColour('time'); setColours(view, colours)")
    said = page.do("document.getElementById('note').textContent")
    label = page.do("view.traces[0].text(0, rowsOf(view.traces[0], 0)[0].nodes[0], 'label')")
    start = 'no.csv colours no op: the trace has no label "nosuchop" but has, for example, '
    check(said.startswith(start) and label in said, f"of a CSV that names no op it says {said}")
    check(page.do("[view.colour, view.csv.name]") == ["time", "own.csv"], "colours are lost")


def check_dialog(page, page_path, source):
    """An opened trace is shown, or compared with the current one, as the user chooses."""
    page.open(page_path)
    send(page, content(source))
    page.do("offerTrace(view, got)")
    check(page.do("document.activeElement.textContent") == "Show it", "the dialog has no focus")
    page.do("document.querySelectorAll('#opened button')[1].click()")
    page.frame()
    check(page.do("view.traces.length") == 2 and
          page.do("document.querySelectorAll('#comparison').length") == 1, "no comparison")
    page.do("offerTrace(view, got)")
    page.do("document.querySelectorAll('#opened button')[2].click()")
    check(page.do("document.getElementById('opened').open") is False, "Cancel keeps the dialog")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        page_path, source, sets = check_measured(page, folder)
        check_predicted(page, folder)
        check_kineto(page, page_path)
        check_served(page, page_path, folder)
        check_refused(page, page_path, source, sets)
        check_colours(page, page_path)
        check_dialog(page, page_path, source)
        check(not page.errors, f"console: {page.errors[:5]}")
        shutil.rmtree(os.path.join(folder, "two"))
    finish()


if __name__ == "__main__":
    main()
