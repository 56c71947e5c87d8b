"""Checks sample pictures with other readers: libxml2 (xmllint), pngcheck, and the size in
pixels."""
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"


def check(ok, what):
    if not ok:
        print("FAILED:", what)
        sys.exit(1)


def png_size(path):
    with open(path, "rb") as f:
        head = f.read(24)
    check(head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR", path + " is a PNG")
    return struct.unpack(">II", head[16:24])


def pdf_pages(path):
    """Returns the width and height of each page in points."""
    with open(path, "rb") as f:
        data = f.read()
    check(data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF"), path + " is a PDF")
    return [tuple(float(n) for n in box.split()[2:4])
            for box in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", data)]


def smallest_text(root):
    """Returns the size of the smallest text, in points on the page."""
    scale = re.match(r"scale\(([\d.]+)", root.find(SVG + "g").get("transform")).group(1)
    return float(scale) * min(float(t.get("font-size")) for t in root.iter(SVG + "text"))


def texts(root):
    return [" ".join("".join(t.itertext()).split()) for t in root.iter(SVG + "text")]


def check_svg(path):
    if shutil.which("xmllint"):
        subprocess.run(["xmllint", "--noout", path], check=True)
    root = ET.parse(path).getroot()
    check(root.tag == SVG + "svg", path + " is SVG")
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    check(len(ids) == len(set(ids)), path + ": ids are unique")
    for e in root.iter():
        href = e.get(XLINK + "href") or e.get("href")
        check(href is None, f"{path}: nothing is loaded from {href}")
    for t in root.iter(SVG + "text"):
        check("sans-serif" in (t.get("font-family") or ""), path + ": fonts have a fallback")
    return root


def tips(root):
    """Returns the tooltip of each op and tensor by its id."""
    found = {}
    for g in root.iter(SVG + "g"):
        if g.get("class") == "node":
            for a in g.iter(SVG + "a"):
                found[g.get("id")] = a.get(XLINK + "title", "")
    return found


def fills(root, prefix):
    """Returns the border colours of the nodes whose id matches prefix."""
    colours = set()
    for g in root.iter(SVG + "g"):
        if g.get("class") == "node" and re.fullmatch(prefix, g.get("id")):
            for shape in g.iter():
                if shape.tag in (SVG + "polygon", SVG + "path",
                                 SVG + "polyline") and shape.get("stroke"):
                    colours.add(shape.get("stroke"))
    return colours


def main():
    program = os.path.join(os.environ.get("SYN_BUILD", "build"), "tests", "test_picture")
    if not os.path.exists(program) or not shutil.which("neato"):
        print("skipped: needs", program, "and graphviz")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--draw", folder], check=True)
        at = lambda name: os.path.join(folder, name)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".png"):
                if shutil.which("pngcheck"):
                    subprocess.run(["pngcheck", "-q", at(name)], check=True)
                width, height = png_size(at(name))
                check(max(width, height) <= 32767, name + " fits a bitmap")
            elif name.endswith(".svg"):
                check_svg(at(name))
        # a page with 2 layers, 8 heads and tp 2
        for name in ("trace.png", "comm.png"):
            width, height = png_size(at(name))
            check(400 <= width <= 2900 and 600 <= height <= 3500, f"{name} is {width} x {height}")
        with open(at("trace.svg"), "rb") as a, open(at("again.svg"), "rb") as b:
            check(a.read() == b.read(), "the same graph gives the same bytes")

        root = check_svg(at("a4.svg"))
        check({root.get("width"), root.get("height")} == {"595pt", "842pt"}, "A4")
        check(any("For readability, tensors are not drawn" in t for t in texts(root)),
              "a page shows what can be read on it")
        inside = [float(n) for n in re.findall(
            r"[\d.-]+", root.find(SVG + "g").get("transform").split("translate")[1])]
        check(inside[0] > 0 and inside[1] > 0, "the picture is on the page")
        check(png_size(at("slide.png")) == (2560, 1440), "a slide is 16:9")
        check(pdf_pages(at("slide.pdf")) == [(960, 540)], "a slide in PDF has no margin around it")
        for name, least in (("a4.svg", 5.5), ("page_comm.svg", 6), ("page_tensors.svg", 6),
                            ("page_time.svg", 6)):  # 6 points of 540 are 12 pixels of 1080
            size = smallest_text(check_svg(at(name)))
            check(size >= least, f"{name} has text of {size} points")
        extent = [math.ceil(float(check_svg(at("trace.svg")).get(side).rstrip("pt")))
                  for side in ("width", "height")]
        check(len(pdf_pages(at("trace.pdf"))) == 1
              and all(abs(a - b) <= 1 for a, b in zip(pdf_pages(at("trace.pdf"))[0], extent)),
              f"PDF is as large as SVG: {pdf_pages(at('trace.pdf'))}, {extent}")

        root = check_svg(at("trace.svg"))
        said = texts(root)
        for text in ("Tensor trace of rank 0 of 2", "×2 identical", "×15 steps", "prefill", "attn",
                     "mlp", "residual", "matrix product", "collective communication", "parameter"):
            check(any(text in t for t in said), f"trace.svg says {text!r}")
        check(any("gpt3-style" in t and "tp 2" in t and "dtype f32" in t for t in said),
              "the title names the model")
        tip = tips(root)
        check("r0.o1" in tip and "embedding" in tip["r0.o1"]
              and "in: wte.weight f32[128,64]" in tip["r0.o1"], tip["r0.o1"])
        check(any("group: tp0 {0,1}" in t and "payload of this rank: 4 KiB" in t
                  for t in tip.values()), "collectives")
        check(any("arithmetic intensity" in t for t in tip.values()), "intensity")
        check(fills(root, r"r0\.o\d+") <= {"#1f5fa8", "#174a86", "#c62828"},
              "ops are blue, communication red")
        check(fills(root, r"r0\.t\d+.*") == {"#2e7d32"}, "tensors are green")

        root = check_svg(at("comm.svg"))
        said = texts(root)
        for text in ("rank 0", "rank 1", "Communication between 2 ranks", "all_reduce",
                     "f32[1,16,64] · tp0 {0,1} · 4 KiB"):
            check(any(text in t for t in said), f"comm.svg says {text!r}")
        dotted = [p for p in check_svg(at("training.svg")).iter(SVG + "path")
                  if p.get("stroke-dasharray") == "1,5"]
        check(len(dotted) >= 2 and {p.get("stroke") for p in dotted} == {"#4f7aa8"},
              f"what backward keeps is dotted: {len(dotted)} lines")
        said = texts(check_svg(at("big_comm.svg")))
        check(any("ranks 3 … 7" in t for t in said) and any("×96 identical" in t for t in said),
              "folded ranks and layers")
        check(any("<b>" in t for t in texts(check_svg(at("hostile.svg")))),
              "markup in names is shown, not obeyed")
    print("ok")


main()
