"""Tests what a user computes and takes out of an HTML report, in headless Chromium: sums over an
area of the timeline, the memory curve, tables that are sorted, filtered and copied, notes, and
pictures that are saved."""
import csv
import io
import json
import os
import sys
import tempfile
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import check, finish, skip  # noqa: E402
from test_html_page import export, inference  # noqa: E402

SHIFT = 8
AREA = "view.area && [view.area.t0, view.area.t1, view.area.from, view.area.to]"
ROWS = """[...document.querySelectorAll('#panel .data tbody tr')].map((tr) =>
    [...tr.children].map((cell) => cell.textContent))"""
COPIED = """(async () => { let text; document.execCommand = () => { text =
    document.activeElement.value; return true; }; navigator.clipboard.writeText = () =>
    Promise.reject(); await document.querySelector('%s .tools > button:last-child').onclick();
    await new Promise((r) => setTimeout(r, 0)); return text; })()"""


def drag(page, x0, y0, x1, y1, keys=SHIFT):
    """Drags on the canvas of the timeline."""
    left, top = page.do("(() => { const b = view.canvas.getBoundingClientRect();"
                        "return [b.left, b.top]; })()")
    held = {"button": "left", "modifiers": keys}
    page.mouse("mousePressed", left + x0, top + y0, buttons=1, clickCount=1, **held)
    for k in (0.5, 1):
        page.mouse("mouseMoved", left + x0 + k * (x1 - x0), top + y0 + k * (y1 - y0), buttons=1,
                   **held)
    page.mouse("mouseReleased", left + x1, top + y1, buttons=0, clickCount=1, **held)
    page.frame()


def shown(ops):
    return [op for op in ops if not op.get("virtual")]


def overlap(op, first, t0, t1):
    """The time of an op without its wait within an area, and the fraction of the op in it."""
    start = op["start_ns"] - first
    end, busy = start + op["wall_ns"], start + op["wait_ns"]
    part = max(0, min(end, t1) - max(start, t0)) / max(1, op["wall_ns"])
    return max(0, min(end, t1) - max(busy, t0)), part


def check_area(page, path, ops):
    """The sums of an area equal those of the trace, computed here."""
    page.open(path)
    page.frame()
    lines = page.do("view.picture.layout.lines.filter((l) => l.rows).map((l) => [l.y, l.h, l.r])")
    drag(page, 300, lines[0][0] + 3, 600, lines[0][0] + 5)
    t0, t1, low, high = page.do(AREA)
    check((low, high) == (0, 0) and t0 < t1, f"an area of the first track: {page.do(AREA)}")
    first = min(op["start_ns"] for op in shown(ops))
    mine = {}
    for op in shown(ops):
        if op["rank"] == 0 and op["kind"] == "compute":
            ns, part = overlap(op, first, t0, t1)
            if part > 0:
                sums = mine.setdefault(op["op"], [0, 0, 0])
                sums[0] += 1
                sums[1] += ns
                sums[2] += part * op["flops"]
    found = {row["name"]: row for row in page.do("sumArea(view, view.area)[0].rows")}
    check(set(found) == set(mine), f"ops of the area: {sorted(found)}, not {sorted(mine)}")
    for name, (calls, ns, flops) in mine.items():
        row = found[name]
        check(row["calls"] == calls and abs(row["ns"] - ns) < 2 * calls and
              abs(row["flops"] - flops) < 1e-3 * flops + 1, f"{name}: {row}, not {mine[name]}")
    drag(page, 120, 5, 880, 5)  # on the axis: all tracks
    check(page.do(AREA)[2:] == [0, page.do("rowNumbers(view).rows") - 1], "not all tracks")
    panel = page.do("document.getElementById('panel').textContent")
    check(page.do("duration(view.area.t1 - view.area.t0)") in panel, f"no duration: {panel[:99]}")
    ranks = page.do("sumArea(view, view.area)[2].rows.map((row) => row.name)")
    check(ranks == ["rank 0", "rank 1"], f"ranks {ranks}")
    before = page.do(AREA)
    x = page.do("GUTTER + (view.area.t1 - view.t0) * view.picture.perNs")
    drag(page, x, 300, x + 100, 300, keys=0)  # an edge needs no key
    after = page.do(AREA)
    check(after[0] == before[0] and after[1] > before[1], f"edge: {before}, then {after}")
    check_address(page, path)
    page.key("Escape")
    page.frame()
    check(page.do(AREA) is None, "Escape keeps the area")
    page.key("x")
    page.frame()
    run = page.do("[view.traces[0].begin, view.traces[0].end]")
    check(page.do(AREA)[:2] == run, f"x selects {page.do(AREA)}, not the run, {run}")
    page.open(path, "#area=-999,900000000000,0,1")
    check(page.do(AREA)[:2] == run, f"an address selects {page.do(AREA)}, not the run, {run}")
    page.open(path, "#tables=1")
    page.key("x")
    check(page.do(AREA) is None, f"x in the tables selects {page.do(AREA)}")
    check(page.do("document.getElementById('note').textContent").endswith("press t."), "no hint")


def check_address(page, path):
    """The address restores the area and the order and filter of its table."""
    page.do("[...document.querySelectorAll('#panel nav button')][1].click()")
    page.do("document.querySelectorAll('#panel .data thead button')[1].click()")
    page.do("(() => { const q = document.querySelector('#panel .data input'); q.value = 'h.1';"
            "q.oninput(); })()")
    page.frame()
    rows, area = page.do(ROWS), page.do(AREA)
    check(rows and all("h.1" in row[0] for row in rows), f"filtered: {rows}")
    page.do("new Promise((r) => setTimeout(r, 350))")
    page.open(path, page.do("location.hash"))
    page.frame()
    check([round(v) for v in area] == page.do(AREA) and page.do(ROWS) == rows,
          f"address: {page.do(AREA)}, {page.do(ROWS)}, not {area}, {rows}")


def check_tables(page, path):
    """A click on a heading sorts, a second one reverses; the CSV has exact numbers."""
    page.open(path)
    page.key("t")
    page.frame()
    head = "document.querySelectorAll('.table .data')[0].querySelectorAll('thead th')"
    cells = "[...document.querySelectorAll('.table .data')[0].querySelectorAll('tbody tr')].map(" \
            "(tr) => tr.children[%d].textContent)"
    check(page.do(f"{head}[2].getAttribute('aria-sort')") == "descending", "order at first")
    page.do(f"{head}[0].firstChild.click()")
    names = page.do(cells % 0)
    check(names == sorted(names) and len(names) > 5, f"by name: {names}")
    page.do(f"{head}[1].firstChild.click()")
    calls = [int(n.replace(",", "")) for n in page.do(cells % 1)]
    check(calls == sorted(calls, reverse=True), f"by calls: {calls}")
    page.do(f"{head}[1].firstChild.click()")
    check(page.do(f"{head}[1].getAttribute('aria-sort')") == "ascending", "a second click")
    rows = list(csv.DictReader(io.StringIO(page.do(COPIED % ".table"))))
    sums = page.do("""[...sumsBy(view.traces[0], SUM_NAMES[0][1])].map(([name, s]) =>
        [name, s.calls, Math.round(s.ns)])""")
    check(sorted([r["op"], int(r["calls"]), round(float(r["time (ns)"]))] for r in rows) ==
          sorted(sums), f"CSV: {rows[:3]}")
    check(page.do("csvCell('a\"b,c') + csvCell(1.5)") == '"a""b,c"1.5', "quotes of the CSV")


def check_memory(page, path, graph):
    """The peak of the curve equals the sum of all tensors that are alive, computed here."""
    page.open(path)
    page.frame()
    ops = {n["id"]: n for n in shown(n for n in graph["nodes"] if n["type"] == "op")}
    tensors = {n["id"]: n for n in graph["nodes"] if n["type"] == "tensor" and n["rank"] == 0}
    first = min(op["start_ns"] for op in ops.values())
    begin, end = {}, {}
    for edge in graph["links"]:
        if edge["kind"] == "output" and edge["source"] in ops and edge["target"] in tensors:
            base = tensors[edge["target"]].get("base", edge["target"])
            begin[base] = min(begin.get(base, 1e99), ops[edge["source"]]["start_ns"] - first)
        if edge["kind"] == "input" and edge["target"] in ops and edge["source"] in tensors:
            base, op = tensors[edge["source"]].get("base", edge["source"]), ops[edge["target"]]
            end[base] = max(end.get(base, -1), op["start_ns"] + op["wall_ns"] - first)
    changes = []
    for name, tensor in tensors.items():
        if "base" in tensor:
            continue
        changes.append((begin.get(name, 0), tensor["bytes"]))
        if tensor["role"] == "activation" and name in end:
            changes.append((end[name], -tensor["bytes"]))
    total, peak = 0, 0
    for time in sorted({time for time, _ in changes}):
        total += sum(bytes_ for at, bytes_ in changes if at == time)
        peak = max(peak, total)
    found = page.do("memoryOf(view.traces[0], 0).peak")
    check(found == peak > 0, f"a peak of {found} bytes, not {peak}")
    check(page.do("memoryOf(view.traces[0], 0) && document.getElementById('memory').clientHeight")
          > 40, "no curve on the screen")
    at = page.do("(() => { const c = memoryOf(view.traces[0], 0), m = document.getElementById("
                 "'memory').getBoundingClientRect(); return [m.left + GUTTER + (c.at - view.t0) * "
                 "view.picture.perNs + 0.5, m.top + 30]; })()")
    page.mouse("mouseMoved", *at)
    tip = page.do("document.getElementById('tip').textContent")
    check(page.do("amount(memoryOf(view.traces[0], 0).peak, 'B')") in tip, f"readout: {tip}")
    page.key("M")
    page.frame()
    check("rank 1: peak" in page.do("document.getElementById('spoken').textContent"), "next rank")
    page.key("m")
    page.frame()
    check(page.do("document.getElementById('memory').clientHeight") == 0, "m hides no curve")


def check_notes(page, path):
    page.open(path, "#op=Ar0.o7")
    page.key("N")
    check(page.do("document.activeElement.id") == "note-text", "N does not open the note")
    page.call("Input.insertText", {"text": "slow? <b>~&"})
    page.do("new Promise((r) => setTimeout(r, 350))")
    page.open(path, page.do("location.hash"))
    check(page.do("[...view.notes].join()") == "Ar0.o7,slow? <b>~&", "the note is lost")
    page.do("view.select(null)")
    page.frame()
    check("slow? <b>~&" in page.do("document.getElementById('panel').textContent"), "no note list")


def check_saved(page, path):
    """The SVG is well-formed and has the texts of the picture; the PNG is the sheet."""
    for fragment, texts in (("#op=Ar0.o7", ("rank 0", "compute", "peak ")),
                            ("#mode=graph&level=2&ranks=0,1", ("rank 1", "prefill", "embed"))):
        page.open(path, fragment)
        page.frame()
        root = ET.fromstring(page.do("svgOfView(view)"))
        have = " ".join("".join(text.itertext()) for text in root.iter(
            "{http://www.w3.org/2000/svg}text"))
        check(all(text in have for text in texts), f"SVG {fragment}: {have[:200]}")
        size = page.do("""new Promise((resolve) => { const make = URL.createObjectURL;
            URL.createObjectURL = (blob) => { createImageBitmap(blob).then((image) =>
                resolve([blob.type, image.width, image.height])); return make(blob); };
            HTMLAnchorElement.prototype.click = () => {}; savePng(view); })""")
        wide, high = page.do("drawSheet(view, null)")
        check(size == ["image/png", 2 * wide, 2 * high], f"PNG {size} of {wide} by {high}")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        source = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        path = os.path.join(folder, "page.html")
        export(source, path)
        with open(source, encoding="utf-8") as f:
            graph = json.load(f)
        check_area(page, path, [n for n in graph["nodes"] if n["type"] == "op"])
        check_tables(page, path)
        check_memory(page, path, graph)
        check_notes(page, path)
        check_saved(page, path)
        check(not page.errors, f"console: {page.errors[:5]}")
        check(all(url.startswith(("file:", "about:", "blob:", "data:")) for url in page.requests),
              f"requests: {page.requests}")
    finish()


if __name__ == "__main__":
    main()
