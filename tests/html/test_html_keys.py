"""Tests the keyboard and the texts for screen readers of an HTML report in headless Chromium: every
function has a key, controls have names and states, and selections are announced. Also tests the
tracks and boxes of a PyTorch trace that are folded, with the key that unfolds them."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import check, finish, run, skip  # noqa: E402
from test_html_page import export, inference  # noqa: E402
from test_html_recording import event  # noqa: E402

SELECTED = """(() => { if (!view.selected) return null; const {trace, r, i} = view.selected;
    return [r, trace.column(r, "lane")[i], trace.text(r, i, "label")]; })()"""
SPOKEN = "document.getElementById('spoken').textContent"
NAMES = """[...document.querySelectorAll("button, select, input, summary, a[role], canvas")].filter(
    (e) => e.getAttribute("aria-hidden") !== "true" && e.getClientRects().length > 0).filter((e) =>
    !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")))
    .map((e) => e.outerHTML)"""


def press(page, key):
    page.key(key)
    page.frame()


def check_keys(page, path):
    """Every key of the list in the panel has a function."""
    page.open(path)
    listed = page.do("KEYS.map(([keys]) => keys)")
    known = page.do("pressKey.toString()")
    for text in listed:
        for key in text.replace(", wheel", "").replace(", shift drag", "") \
                .replace(",", "").split():
            name = {"←": "ArrowLeft", "→": "ArrowRight", "↑": "ArrowUp", "↓": "ArrowDown",
                    "Esc": "Escape", "Space": '" "'}.get(key, key)
            check(f"{name}:" in known or f'"{name}":' in known, f"key {key} does nothing")
    check(len(listed) > 20, f"{len(listed)} keys")


def check_selection(page, path):
    """Keys alone select ops, and a screen reader hears them."""
    page.open(path)
    press(page, "]")
    first = page.do(SELECTED)
    check(first and first[:2] == [0, 1] and first[2] in page.do(SPOKEN), f"] selects {first}")
    press(page, "]")
    check(page.do(SELECTED) != first, "] stays")
    press(page, "}")
    check(page.do(SELECTED)[:2] == [0, 2], f"}} selects {page.do(SELECTED)}")
    press(page, "{")
    check(page.do(SELECTED)[:2] == [0, 1], f"{{ selects {page.do(SELECTED)}")
    page.do("document.getElementById('area').click()")
    press(page, "Escape")
    check(page.do("view.selecting") is False, "Escape does not leave Select")
    press(page, "g")
    for key, state in ((" ", "view.opened.size"), ("r", "view.unfolded.size")):
        page.do("view.select(view.byId(0, 0, 7))")
        before = page.do(state)
        press(page, key)
        check(page.do(state) != before, f"'{key}' changes nothing")
        press(page, key)
    press(page, "t")
    scrolled = page.do("""(() => { const e = new KeyboardEvent("keydown", {key: "ArrowDown",
        bubbles: true, cancelable: true}); document.body.dispatchEvent(e);
        return !e.defaultPrevented; })()""")
    check(scrolled, "tables do not scroll with the keyboard")


def check_help(page, path):
    """`?` scrolls to the list of keys and focuses it, whatever was shown."""
    for fragment in ("", "#op=Ar0.o7", "#area=0,900000000,0,1", "#mode=graph", "#tables=1"):
        page.open(path, fragment)
        page.frame()
        press(page, "?")
        at = page.do("""(() => { const panel = document.getElementById("panel"), list =
            document.activeElement; return [list.textContent, list.getBoundingClientRect().top -
            panel.getBoundingClientRect().top, panel.clientHeight]; })()""")
        check(at[0] == "Keys" and -1 < at[1] < at[2] - 20, f"{fragment}: ? shows {at}")


def check_names(page, path):
    for fragment in ("", "#mode=graph", "#op=Ar0.o7", "#area=0,900000000,0,1", "#tables=1"):
        page.open(path, fragment)
        page.do("document.getElementById('file').open = true")
        page.frame()
        check(page.do(NAMES) == [], f"{fragment}: without a name: {page.do(NAMES)}")
    page.open(path)
    pressed = "document.getElementById('%s').getAttribute('aria-pressed')"
    check(page.do(pressed % "mode-time") == "true" and page.do(pressed % "critical") == "false",
          "states of buttons")
    press(page, "c")
    check(page.do(pressed % "critical") == "true", "the state of a button does not change")
    press(page, "f")
    check(page.do("document.activeElement.id") == "open", "f does not open the menu")
    outline = page.do("""getComputedStyle(document.activeElement).outlineStyle""")
    check(outline == "solid", f"the focus is not visible: {outline}")


def record(folder):
    """Writes the trace of three steps; two threads of autograd run beside them. The first step has
    one op more."""
    events = []
    for step in range(3):
        at = 1000 * step
        events.append(event("user_annotation", f"ProfilerStep#{step + 4}", at, 900, 1,
                            External_id=100 * step + 1))
        for k in range(4 if step == 0 else 3):
            events.append(event("cpu_op", "aten::linear", at + 100 * k + 10, 80, 1,
                                External_id=100 * step + 2 + k))
        for thread in (2, 3):
            for k in range(2):
                events.append(event(
                    "cpu_op", "autograd::engine::evaluate_function: MulBackward0",
                    at + 500 + 100 * k, 80, thread, External_id=100 * step + 10 * thread + k))
    source, trace = os.path.join(folder, "steps.json"), os.path.join(folder, "steps.0.et")
    with open(source, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)
    done = run("convert", "pytorch", "--device", source, "--output", trace)
    check(done.returncode == 0, f"convert: {done.stderr.decode()}")
    path = os.path.join(folder, "steps.html")
    export(trace, path)
    return path


def check_folded(page, path):
    """Threads of one kind are one track, and steps one box with their number, until unfolded."""
    tracks = "view.picture.layout.lines.filter((l) => l.row).map((l) => l.name || l.row.name)"
    page.open(path)
    page.frame()
    check(page.do(tracks).count("2 autograd threads") == 1, f"tracks: {page.do(tracks)}")
    every = page.do("view.traces[0].column(0, 'lane').filter((lane) => lane > 0).length")
    check(page.do("view.picture.layout.lines.flatMap((l) => l.rows || []).reduce((n, row) => "
                  "n + row.nodes.length, 0)") == every, "ops are missing")
    press(page, "u")
    unfolded = page.do(tracks)
    check(not any("threads" in name for name in unfolded) and len(set(unfolded)) == 3,
          f"unfolded: {unfolded}")
    press(page, "u")
    press(page, "g")
    boxes = page.do("""(() => { const {kids} = treeOf(view.traces[0], 0, false);
        return [kids, kids[0].kids, kids[1].copies[0].kids].map((list) => list.map((kid) =>
            [kid.name, kid.copies ? kid.copies.length : 1, kid.loose === true])); })()""")
    steps = "ProfilerStep#4 … ProfilerStep#6"
    check(boxes == [[["thread 1", 1, False], ["thread 2 … thread 3", 2, False]],
                    [[steps, 3, True]], [[steps, 3, False]]], f"boxes: {boxes}")
    page.do("view.setLevel(3)")
    page.frame()
    press(page, "g")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        source = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        path = os.path.join(folder, "page.html")
        export(source, path)
        check_keys(page, path)
        check_selection(page, path)
        check_help(page, path)
        check_names(page, path)
        check_folded(page, record(folder))
        check(not page.errors, f"console: {page.errors[:5]}")
    finish()


if __name__ == "__main__":
    main()
