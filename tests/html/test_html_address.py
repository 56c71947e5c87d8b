"""Tests the address of an HTML report in headless Chromium: the URL fragment restores the whole
view, Back undoes one user action at a time, and Forward repeats it."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import check, finish, skip  # noqa: E402
from test_html_page import export, inference  # noqa: E402

STATE = """JSON.stringify([view.mode, view.level, view.graphRanks, [...view.opened], view.views,
    [...view.unfolded], view.lanes, [...view.open], view.colour, [...view.hidden], view.query || "",
    view.critical, view.dark, document.body.classList.contains("tables"), view.selected &&
    view.selected.trace.id(view.selected.r, view.selected.i), view.area, Math.round(view.t0),
    Math.round(view.t1)])"""
ENTRIES = "history.length"
# Each of these actions makes its own history entry.
STEPS = [
    "view.select(view.byId(0, 1, 7))", "view.reveal(view.selected, true)",
    "view.toggleCategory('norm')", "view.setColour('bytes')", "view.setCritical(true)",
    "view.setLanes(false)", "view.fit()", "setArea(view, {t0: 9, t1: 99, from: 0, to: 1})",
    "setArea(view, null)", "view.setMode('graph')", "view.setLevel(1)",
    "view.setOpen({path: '/prefill/h.0*'}, true)", "view.setOpen({path: '/prefill'}, false)",
    "view.toggleFold('/prefill/h.0*')", "view.setViews(true)", "view.setRank('1')",
    "view.chooseTheme(!view.dark)", "view.setTables(true)", "view.setTables(false)",
    "view.find('attn'); view.goHit(1)", "view.select(null)", "view.onlyCategory('matmul')",
]


def rest(page):
    """Waits until the address contains the current view."""
    page.do("new Promise((r) => setTimeout(r, 350))")


def go(page, by):
    page.do(f"new Promise((r) => {{ addEventListener('popstate', r, {{once: true}});"
            f"history.go({by}); }})")
    page.frame()


def check_history(page, path):
    page.open(path)
    rest(page)
    states, entries = [page.do(STATE)], page.do(ENTRIES)
    for step in STEPS:
        page.do(step + "; 0")
        page.frame()
        states.append(page.do(STATE))
    check(len(set(states[:-1])) >= len(STEPS) - 1, "steps that change nothing")
    check(page.do(ENTRIES) == entries + len(STEPS),
          f"{len(STEPS)} steps made {page.do(ENTRIES) - entries} entries")
    rest(page)
    for k in reversed(range(len(STEPS))):
        go(page, -1)
        check(page.do(STATE) == states[k],
              f"Back from {STEPS[k]}: {page.do(STATE)}, not {states[k]}")
    for k, step in enumerate(STEPS):
        go(page, 1)
        check(page.do(STATE) == states[k + 1],
              f"Forward to {step}: {page.do(STATE)}, not {states[k + 1]}")
    # restore the whole view from the address alone
    address, state = page.do("location.hash"), page.do(STATE)
    page.open(path, address)
    check(page.do(STATE) == state, f"{address}: {page.do(STATE)}, not {state}")


def check_moves(page, path):
    """Moving updates the current history entry. Zooming adds one when the view has come to rest."""
    page.open(path)
    rest(page)
    entries, whole = page.do(ENTRIES), page.do(STATE)
    for _ in range(5):
        page.do("view.zoom(0.7, 600, 300)")
        page.frame()
    check(page.do(ENTRIES) == entries, "zooming makes entries before it rests")
    rest(page)
    check(page.do(ENTRIES) == entries + 1, f"a zoom made {page.do(ENTRIES) - entries} entries")
    zoomed = page.do(STATE)
    for _ in range(5):
        page.do("view.move(20, 0)")
        page.frame()
    rest(page)
    check(page.do(ENTRIES) == entries + 1, "moving makes entries")
    moved = page.do(STATE)
    # the next action must not lose a zoom that is not yet in the address
    page.do("view.zoom(0.9, 600, 300); view.draw()")
    again = page.do(STATE)
    page.do("view.setMode('graph')")
    page.frame()
    check(page.do(ENTRIES) == entries + 3, "a zoom before another step has no entry")
    for state in (again, moved, whole):
        go(page, -1)
        check(page.do(STATE) == state, f"Back leads to {page.do(STATE)}, not {state}")
    check(zoomed not in (whole, moved), "moving moves nothing")


def main():
    if not chromium():
        skip("no chromium: pages are not opened")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        source = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        path = os.path.join(folder, "page.html")
        export(source, path)
        check_history(page, path)
        check_moves(page, path)
        check(not page.errors, f"console: {page.errors[:5]}")
    finish()


if __name__ == "__main__":
    main()
