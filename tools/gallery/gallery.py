"""./dev gallery: traces of well-known training jobs, and the page that compares predicted with
published step times (docs/gallery.md).

For each job of jobs.json, runs `synth` for one rank of each program, simulates the set, draws a
picture, and prints a row of the table. It is a program of its own because it only combines
commands, and a reader can copy each of these commands from the page."""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SYN_BUILD", os.path.join(ROOT, "build"))
PAGE = os.path.join(ROOT, "docs", "gallery.md")
PICTURES = os.path.join(ROOT, "docs", "gallery")
SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def load_jobs():
    with open(os.path.join(HERE, "jobs.json"), encoding="utf-8") as f:
        return json.load(f)


# ---- one job ----

def option(job, name, default):
    """The integer of an option of the job's synth command."""
    words = job["synth"].split()
    return int(words[words.index(name) + 1]) if name in words else default


def ranks_of(job):
    return (option(job, "--tp", 1) * option(job, "--cp", 1) * option(job, "--pp", 1)
            * option(job, "--dp", 1))


def tokens_of(job):
    """The tokens of a step."""
    return option(job, "--global-batch", 0) * option(job, "--max-seq-length", 0)


def layout_of(job):
    ep = option(job, "--ep", 1)
    shape = "·".join(str(option(job, f"--{axis}", 1)) for axis in ("tp", "cp", "pp", "dp"))
    return shape + (f" e{ep}" if ep > 1 else "")


def flops_of_step(job, how):
    """The flops of a step that a published TFLOP/s counts.

    convention "all pairs, recomputed": Narayanan et al. 2021, equation 3: attention over all pairs
    of tokens, and the forward pass twice, because activations are recomputed.
    convention "causal": six flops per token and parameter that it meets, without the table of the
    embedding, and half of the pairs in attention.
    convention "all pairs": the same with all pairs."""
    tokens, length = tokens_of(job), option(job, "--max-seq-length", 0)
    layers, width, vocabulary = how["layers"], how["hidden"], how["vocabulary"]
    if how["convention"] == "all pairs, recomputed":
        return 96 * tokens * layers * width**2 * (
            1 + length / (6 * width) + vocabulary / (16 * layers * width))
    pairs = {"causal": 0.5, "all pairs": 1}[how["convention"]]
    return tokens * (6 * (how["parameters"] - vocabulary * width)
                     + 12 * pairs * layers * length * width)


def published_seconds(job):
    """The published time of a step in seconds; None: nothing was published."""
    said = job["published"]
    if said is None:
        return None
    if "step_s" in said:
        return said["step_s"]
    if "minutes" in said:
        return 60 * said["minutes"] * tokens_of(job) / said["tokens"]
    if "tokens_per_s_per_gpu" in said:
        return tokens_of(job) / (said["tokens_per_s_per_gpu"] * ranks_of(job))
    if "gpu_hours_per_trillion_tokens" in said:
        return said["gpu_hours_per_trillion_tokens"] * 3600 * tokens_of(job) / 1e12 / ranks_of(job)
    return flops_of_step(job, said["flops"]) / (said["tflops_per_gpu"] * 1e12 * ranks_of(job))


def published_text(job):
    """The published figure as the source has it."""
    said = job["published"]
    if said is None:
        return "no step time is published."
    step = time_text(published_seconds(job))
    if "step_s" in said:
        return f"{step} per step."
    if "minutes" in said:
        return (f"{said['minutes']:,} minutes for {said['tokens'] / 1e9:.3g} billion tokens, which "
                f"is {step} per step.")
    if "tokens_per_s_per_gpu" in said:
        return f"{said['tokens_per_s_per_gpu']:,} tokens/s per GPU, which is {step} per step."
    if "gpu_hours_per_trillion_tokens" in said:
        return (f"{said['gpu_hours_per_trillion_tokens']:,} GPU hours for 10¹² tokens, which is "
                f"{step} per step.")
    how = {"all pairs, recomputed": "all pairs of tokens in attention and the recomputed forward "
                                    "pass count",
           "all pairs": "all pairs of tokens in attention count",
           "causal": "half of the pairs of tokens in attention count"}[said["flops"]["convention"]]
    return f"{said['tflops_per_gpu']} TFLOP/s per GPU, which is {step} per step if {how}."


def run(*words):
    """Runs one of our programs in the root of the sources. Returns its output, or ends with it."""
    done = subprocess.run([os.path.join(BUILD, words[0]), *words[1:]], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"gallery: {shlex.join(words)} failed:\n{done.stdout}")
    return done.stdout


def field(pattern, text, default=None):
    found = re.search(pattern, text, re.M)
    if not found and default is None:
        sys.exit(f"gallery: synth did not print {pattern!r}:\n{text}")
    return found.group(1) if found else default


def compute(job, prefix):
    """Writes the job's set to prefix.*, and returns what synth printed about it."""
    text = run("synth", "--out", prefix, "--ranks", "one-per-program", *job["synth"].split())
    number, unit = field(r"^predicted step: (\S+ \S+),", text).split()
    ranks = int(field(r"^ +all (\d+) ranks have", text))
    assert ranks == ranks_of(job), (job["name"], ranks)
    return {"step": float(number) * SECONDS[unit],
            "limits": field(r"^limits: (.*)$", text),
            "machine": field(r"^predicted step: .* on (\S+)$", text),
            "dtype": field(r"^predicted step: .* in (.*) on \S+$", text),
            "error": field(r"^prediction error: (.*)$", text),
            "extrapolated": field(r"^extrapolated: (.*)$", text, ""),
            "memory": field(r"^memory: (\S+ \S+) per rank", text),
            "too much": field(r"^note: +each rank needs .* but (\S+ has \S+ \S+)$", text, ""),
            "programs": int(field(r"^written: .*, (\d+) ranks? with", text)),
            "nodes": int(field(r"^ +all \d+ ranks have (\d+) nodes", text))}


def draw(job, result, prefix):
    """Writes the picture of a set to prefix.svg, and returns it."""
    path, alone, timeline = f"{prefix}.svg", result["programs"] == 1, None
    run("syntorch", "simulate", prefix, "--chart", path,
        *(("--timeline", f"{prefix}.json") if alone else ()))
    with open(path, encoding="utf-8") as f:
        svg = f.read()
    if alone:
        with open(f"{prefix}.json", encoding="utf-8") as f:
            timeline = f.read()
        os.remove(f"{prefix}.json")
    picture = chart.picture(svg, timeline, f"{job['title']}: {time_text(result['step'])}",
                            result["limits"])
    with open(path, "w", encoding="utf-8") as f:
        f.write(picture)
    return picture


# ---- texts ----

def time_text(seconds):
    """Three digits, as the programs print times."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def count_text(n):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n / size < 999.5 else f"{n / size:.0f} {unit}"
    return str(n)


def error_text(job, result):
    published = published_seconds(job)
    if published is None:
        return "–"
    percent = round(100 * (result["step"] / published - 1))
    return f"{percent:+d} %".replace("-", "−").replace("+0", "0")


def row(job, result):
    published = published_seconds(job)
    cells = (f"[{job['name']}]", result["machine"].split("+")[0], f"{ranks_of(job):,}",
             layout_of(job), "none" if published is None else time_text(published),
             time_text(result["step"]),
             error_text(job, result) + (" ¹" if job.get("fitted") else ""), result["memory"],
             count_text(result["nodes"]))
    return "| " + " | ".join(cells) + " |"


def wrapped(text, first="", rest=""):
    return textwrap.fill(text, 100, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)


def shown_command(words):
    """A command in a block of the page, with an option and its value on the same line."""
    pieces, lines = [], [""]
    for word in words.split():
        if pieces and not word.startswith("--") and pieces[-1].startswith("--") \
                and " " not in pieces[-1]:
            pieces[-1] += " " + (shlex.quote(word) if "|" in word else word)
        else:
            pieces.append(word)
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > 88:
            lines[-1] += " \\"
            lines.append("     ")
        lines[-1] += (" " if lines[-1] else "") + piece
    return "\n".join("    " + line for line in lines)


def commands(job):
    """The commands that write the whole set and run it in ASTRA-sim."""
    prefix, sim = f"gallery/{job['name']}", f"gallery/{job['name']}.sim"
    file = re.search(r"--hw (\S+\.json)", job["synth"])
    machine = f" --hw {file.group(1)}" if file else ""
    return "\n".join((
        shown_command(f"./dev synth --out {prefix} {job['synth']}"),
        f"    ./dev syntorch astra-sim {prefix} --out_dir {sim}{machine}",
        shown_command(f"AstraSim_Analytical_Congestion_Unaware --workload-configuration={prefix} "
                      f"--comm-group-configuration={sim}/comm_group.json "
                      f"--system-configuration={sim}/system.json "
                      f"--network-configuration={sim}/network.yml "
                      f"--remote-memory-configuration={sim}/memory.json")))


def fixed_section(job):
    """The paragraphs of a job's section that need no computation."""
    name = job["name"]
    source = f"[{job['source']}]({job['url']})" if job["source"] else ""
    published = published_text(job)
    return (f"## {name}\n\n" + wrapped(f"{job['title']}. {job['about']}") + "\n",
            commands(job) + "\n",
            wrapped(f"* Published: {published}" + (f" {source}." if source else ""), "", "  "))


def section(job, result):
    head, block, published = fixed_section(job)
    name = job["name"]
    compared = "" if job["published"] is None else f", {error_text(job, result)}"
    extrapolated = [t for t in (result["error"].partition("extrapolated in ")[2],
                                result["extrapolated"]) if t]
    fitted = " Constants of the stack were fitted to this row." if job.get("fitted") else ""
    memory = f"* Memory: {result['memory']} per rank." + (
        f" The machine has too little: {result['too much']}." if result["too much"] else "")
    nodes = (f"* Set: {result['nodes']:,} nodes on {ranks_of(job):,} ranks, from "
             f"{result['programs']} program" + ("s." if result["programs"] > 1 else "."))
    return "\n".join((
        head, block, published,
        wrapped(f"* Predicted: {time_text(result['step'])}{compared}, in {result['dtype']} on "
                f"`{result['machine']}`: {result['limits']}.{fitted}", "", "  "),
        wrapped("* Expected error: " + result["error"].partition(";")[0].replace("+-", "±")
                + ".", "", "  "),
        wrapped("* Extrapolates: " + ("; ".join(extrapolated) or "nothing") + ".", "", "  "),
        wrapped(memory, "", "  "), wrapped(nodes, "", "  "), "",
        f"![{name}: what each rank does over time](gallery/{name}.svg)", ""))


# ---- the page ----

def read_page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


def rows_of_page(text):
    """The rows of the table by job."""
    return {m.group(1): m.group(0) for m in re.finditer(r"^\| \[(\S+?)\] .*\|$", text, re.M)}


def sections_of_page(text, names):
    """The sections of the page by job."""
    found = {}
    for part in re.split(r"^(?=## )", text, flags=re.M)[1:]:
        name = part[3:].partition("\n")[0]
        if name in names:
            found[name] = re.split(r"^\[\S+\]: #", part, maxsplit=1, flags=re.M)[0].rstrip() + "\n"
    return found


def updated_page(text, jobs, rows, sections):
    """The page with these rows and sections; jobs without new ones keep the old ones."""
    names = [job["name"] for job in jobs]
    rows = {**rows_of_page(text), **rows}
    sections = {**sections_of_page(text, names), **sections}
    before, _, rest = text.partition("| job |")
    header = ["| job |" + line if i == 0 else line for i, line in enumerate(rest.split("\n")[:2])]
    after = rest.partition("\n\n")[2]
    prose = re.split(r"^## (?:" + "|".join(map(re.escape, names)) + r")$", after, maxsplit=1,
                     flags=re.M)[0].rstrip()
    prose = re.split(r"^\[\S+\]: #", prose, maxsplit=1, flags=re.M)[0].rstrip()
    return before + "\n".join(
        [*header, *(rows[n] for n in names if n in rows), "", prose, "",
         *(sections[n] for n in names if n in sections),
         *(f"[{n}]: #{n}" for n in names if n in sections), ""])


def differences(text, job, result):
    """Yields what the page has and what is computed, if they differ."""
    pairs = ((rows_of_page(text).get(job["name"], ""), row(job, result)),
             (sections_of_page(text, [job["name"]]).get(job["name"], ""),
              section(job, result).rstrip() + "\n"))
    for has, wants in pairs:
        if has != wants:
            yield f"docs/gallery.md has\n{has}\nand computed is\n{wants}"


def main():
    parser = argparse.ArgumentParser(prog="gallery", description="Writes the traces of well-known "
                                     "jobs, one rank of each program, and compares predicted with "
                                     "published step times.")
    parser.add_argument("jobs", metavar="JOB", nargs="*", help="names of jobs; default: all")
    parser.add_argument("--out", metavar="DIR", help="folder for sets and pictures; default: "
                        "gallery")
    parser.add_argument("--update", action="store_true",
                        help="write docs/gallery.md and its pictures, and no sets")
    parser.add_argument("--check", action="store_true",
                        help="fail if docs/gallery.md or a picture differs, and write nothing")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs")
    given = parser.parse_args()
    jobs = load_jobs()
    if given.list:
        print("\n".join(f"{job['name']:24} {job['title']}" for job in jobs))
        return 0
    names = [job["name"] for job in jobs]
    unknown = [name for name in given.jobs if name not in names]
    if unknown:
        sys.exit(f"gallery: there is no job '{unknown[0]}'; the jobs are {', '.join(names)}")
    failures = 0
    with tempfile.TemporaryDirectory(prefix="gallery-") as scratch:
        keep = not (given.update or given.check)
        folder = os.path.abspath(given.out or "gallery") if keep else scratch
        os.makedirs(folder, exist_ok=True)
        for job in jobs:
            if given.jobs and job["name"] not in given.jobs:
                continue
            prefix = os.path.join(folder, job["name"])
            result = compute(job, prefix)
            picture = draw(job, result, prefix)
            print(row(job, result), flush=True)
            if not keep:
                failures += finish(given, jobs, job, result, picture)
                for name in os.listdir(scratch):
                    os.remove(os.path.join(scratch, name))
    return 1 if failures else 0


def finish(given, jobs, job, result, picture):
    """Updates or checks the page's part about a job. Returns the number of differences."""
    path, text = os.path.join(PICTURES, job["name"] + ".svg"), read_page()
    if given.update:
        os.makedirs(PICTURES, exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(picture)
        text = updated_page(text, jobs, {job["name"]: row(job, result)},
                            {job["name"]: section(job, result)})
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(text)
        return 0
    wrong = list(differences(text, job, result))
    if not os.path.exists(path):
        wrong.append(f"docs/gallery/{job['name']}.svg is missing")
    else:
        with open(path, encoding="utf-8") as f:
            if f.read() != picture:
                wrong.append(f"docs/gallery/{job['name']}.svg is not what is drawn now")
    for sentence in wrong:
        print(f"FAILED: {sentence}")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
