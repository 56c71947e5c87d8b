"""docs/gallery.md has every job of tools/gallery/jobs.json, with its commands, source and picture.
The figures of small jobs are those that are computed now, and a changed figure is found."""
import json
import os
import re
import subprocess
import sys
import xml.dom.minidom

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tools", "gallery"))
import chart  # noqa: E402
import gallery  # noqa: E402
from checks import SOURCE, check, enter_folder, finish  # noqa: E402

SMALL = ("gpt2-124m", "bert-large", "llama-3-8b")
JOBS = gallery.load_jobs()
PAGE = gallery.read_page()


def run(*options):
    return subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "gallery", "gallery.py"),
                           *options], capture_output=True, text=True, check=False)


def every_job():
    names = [job["name"] for job in JOBS]
    rows, sections = gallery.rows_of_page(PAGE), gallery.sections_of_page(PAGE, names)
    check(len(set(names)) == len(names) and list(rows) == names and list(sections) == names,
          f"the jobs are {names}, and the page has {list(rows)} and {list(sections)}")
    check(re.findall(r"^\[(\S+)\]: #\S+$", PAGE, re.M) == names, "the links of the table's names")
    for job in JOBS:
        name, shown = job["name"], sections.get(job["name"], "")
        for part in gallery.fixed_section(job):
            check(part in shown, f"{name}: the page lacks\n{part}")
        check(f"](gallery/{name}.svg)" in shown, f"{name} shows no picture")
        check(job["url"].startswith("https://"), f"{name} has no source")
        cells = [cell.strip() for cell in rows.get(name, "").split("|")[1:-1]]
        if check(len(cells) == 9, f"{name}: {cells}"):
            step = float(cells[5].split()[0]) * gallery.SECONDS[cells[5].split()[1]]
            check(cells[6].removesuffix(" ¹") == gallery.error_text(job, {"step": step}),
                  f"{name}: the error of {cells[4]} and {cells[5]} is not {cells[6]}")
            check(f"* Predicted: {cells[5]}" in shown and f"* Memory: {cells[7]} per rank" in shown,
                  f"{name}: the table and the section differ")


def pictures():
    folder = os.path.join(SOURCE, "docs", "gallery")
    found = sorted(os.listdir(folder))
    check(found == sorted(f"{job['name']}.svg" for job in JOBS), f"docs/gallery has {found}")
    for name in found:
        path = os.path.join(folder, name)
        xml.dom.minidom.parse(path).unlink()
        check(os.path.getsize(path) <= 60 * 1024, f"{name} has {os.path.getsize(path)} bytes")


def computed_again():
    done = run("--check", *SMALL)
    check(done.returncode == 0 and all(f"[{name}]" in done.stdout for name in SMALL),
          f"gallery --check: {done.stdout}{done.stderr}")
    job = next(job for job in JOBS if job["name"] == "gpt2-124m")
    result = gallery.compute(job, os.path.abspath("set"))
    check(not list(gallery.differences(PAGE, job, result)), "the page is up to date")
    changed = {**result, "step": result["step"] * 1.01}
    check(len(list(gallery.differences(PAGE, job, changed))) == 2, "a step 1 % longer is not found")
    check(gallery.updated_page(PAGE, JOBS, {}, {}) == PAGE, "an empty update changes the page")


def drawn():
    """The areas of a picture are the times that `simulate` prints."""
    job = next(job for job in JOBS if job["name"] == "bert-large")
    gallery.compute(job, os.path.abspath("bert"))
    said = json.loads(gallery.run("syntorch", "simulate", os.path.abspath("bert"), "--json",
                                  "--chart", os.path.abspath("bert.svg"), "--timeline",
                                  os.path.abspath("bert.json")))
    with open("bert.svg", encoding="utf-8") as f:
        rows = dict(chart.read_rows(f.read()))
    check(list(rows) == ["0", "4"], f"the rows are {list(rows)}")
    for rank in said["ranks"]:
        for colour, time in ((chart.COMPUTING, "compute_ns"), (chart.COMMUNICATING, "exposed_ns")):
            share = sum(rows[str(rank["rank"])].get(colour, [0])) / chart.COLUMNS
            check(abs(share - rank[time] / said["end_ns"]) < 0.005,
                  f"rank {rank['rank']}: the area of {time} is {share}, and the times are {rank}")
    job = next(job for job in JOBS if job["name"] == "gpt2-124m")
    gallery.compute(job, os.path.abspath("gpt2"))
    said = json.loads(gallery.run("syntorch", "simulate", os.path.abspath("gpt2"), "--json",
                                  "--timeline", os.path.abspath("gpt2.json")))
    with open("gpt2.json", encoding="utf-8") as f:
        kinds = dict(chart.kind_rows(f.read()))
    share = sum(kinds["computation"][chart.COMPUTING]) / chart.COLUMNS
    check(abs(share - said["ranks"][0]["compute_ns"] / said["end_ns"]) < 0.005,
          f"computation is {share} of {said['ranks']}")
    check({"computation", "reduce-scatter", "all-gather"} <= set(kinds), f"{list(kinds)}")
    check(chart.outline([0] * 239 + [5], 10) == "M104 34v0h717v-5h3v5z",
          chart.outline([0] * 239 + [5], 10))


def written():
    done = run("--out", "sets", "gpt2-124m")
    check(done.returncode == 0 and sorted(os.listdir("sets")) ==
          ["gpt2-124m.0.et", "gpt2-124m.comm_group.json", "gpt2-124m.svg"],
          f"{os.listdir('sets')}: {done.stderr}")
    done = run("gpt5")
    check(done.returncode == 1 and "there is no job 'gpt5'; the jobs are gpt2" in done.stderr,
          done.stderr)
    done = run("--list")
    check(done.stdout.count("\n") == len(JOBS), done.stdout)


def conversions():
    """Published figures of each kind become step times."""
    job = {"name": "x", "synth": "--tp 2 --pp 4 --dp 8 --global-batch 64 --max-seq-length 1000"}
    for said, wants in (({"step_s": 3.5}, 3.5), ({"tokens_per_s_per_gpu": 500}, 2.0),
                        ({"minutes": 90, "tokens": 64e6}, 5.4),
                        ({"gpu_hours_per_trillion_tokens": 180000}, 0.648), (None, None)):
        seconds = gallery.published_seconds({**job, "published": said})
        check(seconds == wants or abs(seconds / wants - 1) < 1e-12, f"{said}: {seconds}")
    # 96 · tokens · l · h² · (1 + s / 6h + V / 16lh) = 96 · 64,000 · 2 · 10⁴ · (1 + 5/3 + 1/4)
    shape = {"layers": 2, "hidden": 100, "vocabulary": 800}
    flops = gallery.flops_of_step(job, {**shape, "convention": "all pairs, recomputed"})
    check(abs(flops / (96 * 64000 * 2e4 * (1 + 5 / 3 + 1 / 4)) - 1) < 1e-12, f"{flops}")
    for convention, pairs in (("causal", 6), ("all pairs", 12)):
        flops = gallery.flops_of_step(job, {**shape, "convention": convention, "parameters": 1e6})
        check(flops == 64000 * (6 * (1e6 - 80000) + pairs * 2 * 1000 * 100), f"{convention}")


def machine():
    """selene.json is the machine of tests/measured with Selene's network."""
    with open(os.path.join(SOURCE, "tools", "gallery", "selene.json"), encoding="utf-8") as f:
        selene = json.load(f)
    with open(os.path.join(SOURCE, "tests", "measured", "megatron_a100_4x200.json"),
              encoding="utf-8") as f:
        other = json.load(f)
    check(selene["hardware"]["inter"] == {"gb_per_s": 200}, f"{selene['hardware']}")
    selene["hardware"]["inter"], selene["name"] = other["hardware"]["inter"], other["name"]
    check(selene == other, "selene.json has other constants")


enter_folder()
every_job()
pictures()
computed_again()
drawn()
written()
conversions()
machine()
finish()
