"""Tests printed HTML reports in headless Chromium: the whole picture is on the first page below the
title and the legend, and colours are printed although browsers omit backgrounds."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Page, chromium  # noqa: E402
from checks import check, finish, skip  # noqa: E402
from test_html_page import export, inference  # noqa: E402

# The available area of both A4 and Letter in each orientation, with margins of 10 mm, in CSS
# pixels.
LYING, UPRIGHT = (979, 718), (718, 979)
STATE = "[view.z, view.gx, view.gy, view.t0, view.t1, view.scroll, view.dark, view.canvas.width]"


def on_paper(page, size):
    """Returns where the picture ends on the page, its size, and the requested orientation of the
    sheet."""
    page.call("Emulation.setEmulatedMedia", {"media": "print"})
    page.call("Emulation.setDeviceMetricsOverride",
              {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
    out = page.do("""(() => { const b = view.canvas.getBoundingClientRect(); return {
        right: b.right, bottom: b.bottom + scrollY, w: b.width, h: b.height,
        ratio: view.canvas.width / view.canvas.height,
        sheet: document.getElementById("page").textContent}; })()""")
    page.call("Emulation.setEmulatedMedia", {"media": ""})
    page.call("Emulation.setDeviceMetricsOverride",
              {"width": 1400, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    return out


def check_fits(page, what, size):
    before = page.do(STATE)
    page.do("dispatchEvent(new Event('beforeprint'))")
    at = on_paper(page, size)
    check(at["right"] <= size[0] and at["bottom"] <= size[1], f"{what} leaves its page: {at}")
    check(max(at["w"] / size[0], at["h"] / size[1]) > 0.5, f"{what} is small: {at}")
    check(abs(at["w"] / at["h"] / at["ratio"] - 1) < 0.01, f"{what} is stretched: {at}")
    check((size == UPRIGHT) == ("portrait" in at["sheet"]), f"{what}: sheet {at['sheet']}")
    seen = page.do("[view.gx, view.gy, view.gx + view.paper.w / view.z, "
                   "view.gy + view.paper.h / view.z, view.picture.w, view.picture.h]")
    page.do("dispatchEvent(new Event('afterprint'))")
    page.frame()
    after = page.do(STATE)
    check(after == before, f"{what}: before printing {before}, after {after}")
    return seen


def check_pictures(page, path):
    page.open(path)
    page.do("view.setTheme(true)")
    page.frame()
    check_fits(page, "the timeline", LYING)
    page.open(path, "#mode=graph&level=2")
    page.frame()
    seen = check_fits(page, "the graph", UPRIGHT)
    check(seen[0] <= 0 and seen[1] <= 0 and seen[2] >= seen[4] and seen[3] >= seen[5],
          f"the graph is cut: {seen}")
    page.do("view.setRank('0'); view.setLevel(1); view.setOpen({path: '/prefill'}, false)")
    page.frame()
    # the view that the user chose is printed
    page.do("view.zoom(0.25, 500, 300)")
    page.frame()
    width, height = page.do("[view.canvas.clientWidth / view.z, view.canvas.clientHeight / view.z]")
    seen = check_fits(page, "a part of the graph", LYING)
    check(abs(seen[2] - seen[0] - width) < 1 and abs(seen[3] - seen[1] - height) < 1,
          f"of {width} by {height} on the screen {seen} is printed")


def check_extras(page, path):
    """The memory curve is drawn for the paper; messages and the frame of the focus are omitted."""
    for size in ((390, 844), (1280, 720)):
        page.call("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        page.open(path)
        page.frame()
        page.key("x")
        page.do("view.canvas.focus(); view.say('Saved.')")
        page.frame()
        page.do("dispatchEvent(new Event('beforeprint'))")
        page.call("Emulation.setEmulatedMedia", {"media": "print"})
        page.call("Emulation.setDeviceMetricsOverride", {
            "width": LYING[0], "height": LYING[1], "deviceScaleFactor": 1, "mobile": False})
        above, below = page.do("""["picture", "memory"].map((id) => {
            const c = document.getElementById(id), b = c.getBoundingClientRect();
            return {left: b.left, right: b.right, top: b.top + scrollY, bottom: b.bottom + scrollY,
                ratio: b.width / b.height * c.height / c.width}; })""")
        check([below["left"], below["right"]] == [above["left"], above["right"]] and
              abs(below["top"] - above["bottom"]) < 2 and below["bottom"] <= LYING[1] and
              abs(below["ratio"] - 1) < 0.03, f"{size}: picture {above}, memory {below}")
        shown = page.do("""[getComputedStyle(document.getElementById("note")).display,
            getComputedStyle(view.canvas).outlineStyle]""")
        check(shown == ["none", "none"], f"{size}: message and focus are printed: {shown}")
        page.call("Emulation.setEmulatedMedia", {"media": ""})
        page.do("dispatchEvent(new Event('afterprint'))")
    page.call("Emulation.setDeviceMetricsOverride", {
        "width": 1400, "height": 800, "deviceScaleFactor": 1, "mobile": False})


def check_sheets(page, folder, path):
    for fragment in ("", "#mode=graph&level=1", "#mode=graph&level=3"):
        page.open(path, fragment)
        page.frame()
        page.pdf(os.path.join(folder, "page.pdf"))
        with open(os.path.join(folder, "page.pdf"), "rb") as f:
            sheets = len(re.findall(rb"/Type\s*/Page\b", f.read()))
        check(sheets == 3, f"{fragment}: {sheets} sheets, not picture, facts and tables")
    page.call("Emulation.setEmulatedMedia", {"media": "print"})
    kept = page.do("""[...document.querySelectorAll("#legend i")].map((i) =>
        getComputedStyle(i).printColorAdjust)""")
    check(len(kept) > 5 and set(kept) == {"exact"}, f"colours of the legend on paper: {kept}")
    heads = page.do("""[...document.querySelectorAll("#panel h2, #panel h3, .table h3")].map((h) =>
        getComputedStyle(h).breakAfter)""")
    check(set(heads) == {"avoid"}, f"a heading may end a page: {heads}")
    page.call("Emulation.setEmulatedMedia", {"media": ""})


def main():
    if not chromium():
        skip("no chromium: nothing is printed")
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        source = inference(os.path.join(folder, "two"), "--tp", "2", "--num_output_tokens", "3")
        path = os.path.join(folder, "page.html")
        export(source, path)
        check_pictures(page, path)
        check_extras(page, path)
        check_sheets(page, folder, path)
        check(not page.errors, f"console: {page.errors[:5]}")
    finish()


if __name__ == "__main__":
    main()
