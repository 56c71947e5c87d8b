"""Tests the parts of an HTML report around its picture, in headless Chromium: the toolbar does not
wrap, a small screen keeps enough space for the picture, legend and search state what is visible and
what is hidden, and nouns agree with their numbers."""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import check, finish, run, skip  # noqa: E402
from page_data import Parts, read_trace  # noqa: E402
from test_html_page import export, inference  # noqa: E402
from test_html_recording import event  # noqa: E402

LINES = """(() => { const header = document.querySelector("header"), tops = new Set();
    for (const child of header.children) { const b = child.getBoundingClientRect();
        if (b.height > 0) tops.add(Math.round((b.top + b.bottom) / 2 / 10)); }
    const last = document.getElementById("help").getBoundingClientRect();
    return [tops.size, header.scrollWidth - header.clientWidth, last.right - innerWidth]; })()"""


def resize(page, width, height=800):
    page.call("Emulation.setDeviceMetricsOverride",
              {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    page.frame()


def check_toolbar(page, path):
    for width, most in ((1400, 1), (1310, 1), (1000, 2), (390, 6)):
        resize(page, width)
        for fragment in ("#find=h.1", "#mode=graph&ranks=0&find=h&hide=matmul"):
            page.open(path, fragment)
            page.do("document.getElementById('title').textContent = 'A long title, '.repeat(9)")
            page.frame()
            lines, wide, out = page.do(LINES)
            check(lines <= most and wide <= 0 and out <= 0,
                  f"{width} px, {fragment}: {lines} lines, {wide} and {out} px too wide")


def check_small(page, path):
    """At a width of 390 px the picture fills the screen, and a button or a click on an op opens the
    panel below it."""
    at = """["picture", "panel"].map((id) => { const b =
        document.getElementById(id).getBoundingClientRect();
        return [b.left, b.top, b.right, b.bottom].map(Math.round); })"""
    resize(page, 390)
    page.open(path)
    page.frame()
    picture, panel = page.do(at)
    check(picture[2] - picture[0] == 390 and picture[3] - picture[1] > 350 and panel[2] == 0,
          f"picture {picture}, panel {panel}")
    for ask in ("document.getElementById('side').click()", "view.select(view.byId(0, 0, 1))"):
        page.do(ask)
        page.frame()
        page.frame()
        picture, panel = page.do(at)
        check(panel[1] >= picture[3] > picture[1] + 100 and panel[3] <= 800 and
              panel[3] > panel[1] + 150, f"{ask}: picture {picture}, panel {panel}")
        page.key("b")
        page.frame()
        page.frame()
        check(page.do(at)[1][2] == 0, "b does not close the panel")
        page.do("view.select(null)")
    resize(page, 1400)
    page.open(path)
    check(page.do(at)[1][2] == 1400, "no panel on a wide screen")


def touch(page, *moves):
    """Puts fingers on the page, moves them and lifts them. A move is the list of their points."""
    kind = "touchStart"
    for points in (*moves, []):
        page.call("Input.dispatchTouchEvent", {
            "type": kind if points else "touchEnd",
            "touchPoints": [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]})
        kind = "touchMove"
    page.frame()


def check_touch(page, path):
    """Two fingers zoom: what is below each of them follows it. A double tap zooms in."""
    page.call("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    time = "[200, 300].map((x) => view.t0 + (x - GUTTER) / view.modes.time.width * " \
           "(view.t1 - view.t0))"
    graph = "[200, 300].map((x) => x / view.z + view.gx)"
    resize(page, 390, 844)
    for fragment, at, width in (("", time, "view.t1 - view.t0"),
                                ("#mode=graph", graph, "1 / view.z")):
        page.open(path, fragment)
        page.frame()
        if not fragment:
            page.do("document.getElementById('area').click()")
            page.frame()
        before = page.do(at)
        wide = page.do(width)
        touch(page, [(200, 400), (300, 400)], [(180, 400), (320, 400)], [(150, 420), (350, 420)])
        middle, after = sum(before) / 2, page.do(at)
        check(abs(page.do(width) / wide - 0.5) < 0.01, f"{fragment}: two fingers do not zoom")
        check(abs(sum(after) / 2 - middle) < 0.01 * wide,
              f"{fragment}: the centre moves from {middle} to {sum(after) / 2}")
        check(page.do("view.area || view.drawnArea || view.selected") is None,
              f"{fragment}: two fingers select")
        for _ in range(2):
            touch(page, [(380, 600)])
        check(abs(page.do(width) / wide - 0.25) < 0.01, f"{fragment}: a double tap does not zoom")
    page.call("Emulation.setTouchEmulationEnabled", {"enabled": False})
    resize(page, 1400)


def check_found(page, path):
    """Search finds ops that the legend hides, and says that they are hidden."""
    page.open(path)
    found = "view.find('h.1 qkv'); view.draw(); document.getElementById('found').textContent"
    page.do("view.onlyCategory('matmul')")
    n = page.do("view.find('h.1 qkv'); view.hits.count")
    check(page.do(found) == f"{n} found", page.do(found))
    page.do("view.onlyCategory('norm')")
    check(page.do(found) == f"{n} found, all hidden", page.do(found))
    text = page.do(found.replace(" qkv", ".attn"))
    norms = page.do("""(() => { let n = 0; const t = view.traces[0]; for (const {r, list} of
        view.hits.lists) for (const i of list) n += t.head.categories[t.column(r, "category")[i]]
        === "norm"; return n; })()""")
    many = page.do("view.hits.count")
    check(0 < norms < many and text == f"{many} found, {many - norms} hidden", text)


def check_legend(page, folder, source):
    """Whatever the colours mean, the legend of a timeline explains the colour of wait time. The
    legend of a graph does not."""
    path = os.path.join(folder, "both.html")
    export(source, path, "--compare", source)
    page.open(path)
    legend = "document.getElementById('legend').textContent"
    for colour in ("category", "time", "change"):
        page.do(f"view.setColour('{colour}')")
        page.frame()
        check("waiting for other ranks" in page.do(legend), f"{colour}: {page.do(legend)}")
    page.do("view.setMode('graph')")
    page.frame()
    check("waiting" not in page.do(legend), f"graph: {page.do(legend)}")


def check_words(page, folder):
    """One op is "1 op". A group that PyTorch calls "undefined" is shown by its number."""
    events = []
    for k in range(2):
        this = {"External_id": k + 3, "correlation": k + 9}
        group = {"Collective_name": "allreduce", "In_msg_nelems": 256, "Out_msg_nelems": 256,
                 "Group_size": 2, "dtype": "Float", "Process_Group_Name": str(k + 5),
                 "Process_Group_Description": "undefined",
                 "Process_Group_Ranks": f"[0, {k + 1}]"}
        at = 100 + 300 * k
        events += [event("cpu_op", "record_param_comms", at, 100, 1, **this),
                   event("cuda_runtime", "cudaLaunchKernel", at + 50, 10, 1, **this),
                   event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 60, 200, 7 + k,
                         stream=7 + k, device=0, **this, **group)]
    source, trace = os.path.join(folder, "groups.json"), os.path.join(folder, "groups.0.et")
    with open(source, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 3}}, f)
    done = run("convert", "pytorch", "--device", source, "--output", trace)
    check(done.returncode == 0, f"convert: {done.stderr.decode()}")
    path = os.path.join(folder, "groups.html")
    head, _ = read_trace(Parts(export(trace, path)).scripts[0])
    names = [g["name"] for g in head["groups"]]
    check(len(set(names)) == 2 and "undefined" not in names, f"groups are called {names}")
    page.open(path, "#mode=graph&level=2")
    page.do("for (const box of treeOf(view.traces[0], 0, false).kids[0].kids)"
            " view.unfolded.add(box.path); view.relayout()")
    page.frame()
    texts = page.do("""(() => { const out = []; const go = (k) => { out.push(k.texts[1]);
        (k.kids || []).forEach(go); }; go(view.picture.parts[0].root); return out; })()""")
    check(any("2 ops, 1 collective, " in text for text in texts), f"boxes: {texts}")
    check(page.do("plural(1, 'op') + plural(1000, 'op')") == "1 op1,000 ops", "plural")
    sums = page.do("[...document.querySelectorAll('.table p')][0].textContent")
    check(sums.startswith("4 ops on 1 rank;"), sums)


def check_damaged(page, folder, path):
    """If data cannot be unpacked, the report shows an error message and the tables."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    at = text.index(">", text.index("id=\"trace0\"")) + 1
    damaged = os.path.join(folder, "damaged.html")
    with open(damaged, "w", encoding="utf-8") as f:
        f.write(text[:at] + "A" * 400 + text[at + 400:])
    page.call("Page.navigate", {"url": "about:blank"})
    page.call("Page.navigate", {"url": pathlib.Path(damaged).as_uri()})
    said = page.do("""new Promise((resolve) => { const end = Date.now() + 20000;
        const look = () => { const first = document.querySelector("body > p");
            if (first || Date.now() > end) resolve(first && first.textContent);
            else setTimeout(look, 20); };
        look(); })""") or ""
    check(said.startswith("The viewer cannot start"), f"of damaged data it says {said[:90]}")
    check(page.do("getComputedStyle(document.querySelector('.table')).display") != "none", "tables")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        source = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        path = os.path.join(folder, "page.html")
        export(source, path)
        check_toolbar(page, path)
        check_small(page, path)
        check_touch(page, path)
        check_found(page, path)
        check_legend(page, folder, source)
        check_words(page, folder)
        check_damaged(page, folder, path)
        check(not page.errors, f"console: {page.errors[:5]}")
    finish()


if __name__ == "__main__":
    main()
