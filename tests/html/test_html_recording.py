"""Tests HTML reports of PyTorch traces in headless Chromium. Host and device run at the same time,
so no number, bar or colour adds their times, and the time of a host op excludes the ops that it
called."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import check, finish, run, skip  # noqa: E402
from test_html_page import export  # noqa: E402

BOXES = """(() => { const out = {}; const go = (k) => { out[k.texts[0]] = k.texts[1];
    (k.kids || []).forEach(go); }; go(view.picture.parts[0].root); return out; })()"""
BOX = """(() => { let found; const go = (k) => { if (k.texts[0] === %s) found = k;
    (k.kids || []).forEach(go); }; go(view.picture.parts[0].root); return found; })()"""


def event(cat, name, ts, dur, tid, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0 if cat == "kernel" else 1, "tid": tid,
            "ts": 1 + ts, "dur": dur, "args": {k.replace("_", " "): v for k, v in args.items()}}


def record(folder, name, slower=1):
    """Writes the trace of a step of 1 ms. Its three layers launch a kernel of 250 us each, between
    two marks."""
    events = [event("user_annotation", "step", 5000, 1000, 1, External_id=1),
              event("cpu_op", "begin", 0, 10, 1, External_id=2),
              event("cpu_op", "end", 990000, 10000, 1, External_id=3)]
    for k in range(3):
        at, this = 5100 + 300 * k, {"External_id": 10 + k}
        events += [event("cpu_op", "aten::linear", at, 200, 1, External_id=20 + k),
                   event("cpu_op", "aten::copy_", at + 20, 160, 1, **this),
                   event("cuda_runtime", "cudaLaunchKernel", at + 50, 90, 1, correlation=k + 5,
                         **this),
                   event("kernel", "gemm", at + 60, 250 * slower, 7, correlation=k + 5, stream=7,
                         device=0, **this)]
    source, trace = os.path.join(folder, name + ".json"), os.path.join(folder, name + ".0.et")
    with open(source, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)
    done = run("convert", "pytorch", "--device", source, "--output", trace)
    check(done.returncode == 0, f"convert: {done.stderr.decode()}")
    return trace


def check_boxes(page):
    """The host time of a box is its range, however deeply its calls nest. The device time is listed
    next to it."""
    for level, name, text in ((1, "step", "10 ops, host 1 ms"),
                              (2, "aten::linear", "9 ops, host 600 \u00b5s")):
        page.do(f"view.setLevel({level})")
        page.frame()
        boxes = page.do(BOXES)
        text += " \u00b7 device 750 \u00b5s"
        check(boxes.get(name) == text, f"level {level}: {boxes}")
    page.do("view.setLevel(1)")
    page.frame()
    box = BOX % '"step"'
    facts = page.do(f"Object.fromEntries(view.picture.boxFacts(view.traces[0], 0, {box}))")
    check(facts["host"] == "1 ms" and facts["device"] == "750 \u00b5s", f"the tip says {facts}")
    bars = page.do(f"""(() => {{ const p = view.picture; p.part = p.parts[0];
        p.paint = paintOf(p.part.trace, 0, view); return p.shares({box}).map((bar) =>
            bar.reduce((sum, [, share]) => sum + share, 0)); }})()""")
    check(len(bars) == 2 and abs(bars[0] - 1) < 1e-9 and abs(bars[1] - 0.75) < 1e-9,
          f"bars of {bars}, not the host's of 1 and the device's of 0.75")


def check_sums(page):
    """The same holds for the critical path and the tables."""
    rows = page.do("[...document.querySelectorAll('.table tbody tr')].map((r) => r.textContent)")
    check(not any("1.75" in row for row in rows), f"a sum of both: {rows}")
    page.do("view.setCritical(true); view.select(null)")
    page.frame()
    names = page.do("[...document.querySelectorAll('#panel dl')][0].textContent")
    check("end (host)" in names, f"the critical path calls the host's op {names}")
    total, span = page.do("""[view.criticalOf(view.traces[0]).on.reduce((sum, of) =>
        of.reduce((a, b) => a + b, sum), 0), view.traces[0].end]""")
    check(0 < total <= span, f"a critical path of {total} ns in a run of {span} ns")
    page.do("view.setCritical(false)")


def check_colours(page):
    """On the line of a whole rank, where a pixel holds ops of both host and device, the device is
    drawn over the host."""
    page.do("view.setMode('time'); view.setLanes(false)")
    page.frame()
    seen, wanted = page.do("""(() => { const t = view.traces[0], {start, end} = t.span(0);
        const i = t.column(0, "lane").findIndex((lane) => lane > 0 &&
            !hostLanes(t, 0)[lane]);
        const p = view.picture.placeOf({trace: t, t: 0, r: 0, i});
        const data = view.canvas.getContext("2d").getImageData(p.x0, p.y + p.h / 2, 1, 1).data;
        const css = view.palette.css[t.column(0, "category")[i]];
        return [[...data].slice(0, 3), channels(css)]; })()""")
    check(seen == wanted, f"a pixel of kernel and launch is {seen}, not the kernel's {wanted}")


def check_compared(page, folder, one):
    """A kernel is compared with the same kernel, not with the op of the same name that launched
    it."""
    two, path = record(folder, "two", slower=1.1), os.path.join(folder, "both.html")
    export(one, path, "--compare", two)
    page.open(path)
    wrong = page.do("""(() => { const [a, b] = view.traces, {other, nodes} = matchesOf(view, a, 0);
        const of = (t, r, i) => hostLanes(t, r)[t.column(r, "lane")[i]];
        return [...nodes].filter((k, i) => k >= 0 && of(a, 0, i) !== of(b, other, k)).length;
    })()""")
    check(wrong == 0, f"{wrong} host ops are compared with the device's")
    sums = page.do("""Object.fromEntries([...sumsBy(view.traces[1], (t, r, i) =>
        t.text(r, i, "op"))].map(([name, sum]) => [name, Math.round(sum.ns / 1000)]))""")
    check(sums["gemm"] == 825 and sums["step (host)"] == 400, f"sums of B: {sums}")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        trace, path = record(folder, "one"), os.path.join(folder, "one.html")
        export(trace, path)
        page.open(path, "#mode=graph&level=1")
        check_boxes(page)
        check_sums(page)
        check_colours(page)
        check_compared(page, folder, trace)
        check(not page.errors, f"console: {page.errors[:5]}")
    finish()


if __name__ == "__main__":
    main()
