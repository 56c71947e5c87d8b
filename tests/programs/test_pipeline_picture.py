"""Pictures of pipelines: a column per stage, with the passes of the microbatches in the order of
the schedule (Narayanan et al. 2021), messages between passes of the same microbatch, and one box
for the microbatches in the middle of a long step."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, check, finish  # noqa: E402

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 32, "n_head": 4, "n_positions": 64,
       "vocab_size": 512}
PASS = re.compile(r"<b>((?:forward|backward|weight gradients) \d+[^<]*)</b>")


class Picture:
    """The boxes, frames and edges of a picture in DOT."""

    def __init__(self, dot):
        self.titles = {}  # box -> title of its pass
        self.places = []  # (x, -y, title) of boxes and frames of passes
        frames, box = [], None
        for line in dot.splitlines():
            text = line.strip()
            if text.startswith("subgraph"):
                frames.append(None)
            elif text == "}" and frames:
                frames.pop()
            found = re.match(r'"(r\d+\.o\d+)"\s*\[', text)
            if found:
                box = found[1]
                self.titles[box] = next((f for f in frames if f), None)
            title = PASS.search(text)
            if title and box is None:
                frames[-1] = title[1]
                self.places.append((*self.corner, title[1]))
            elif title:
                self.titles[box] = title[1]
            if text.startswith(("graph [bb=", "bb=")):
                x0, _, x1, y1 = map(float, re.search(r'bb="([^"]*)"', text)[1].split(","))
                self.corner, box = ((x0 + x1) / 2, -y1), None
            pos = re.search(r'pos="([-\d.]+),([-\d.]+)"', text)
            if pos and box and PASS.fullmatch(f"<b>{self.titles[box]}</b>") and \
                    not any(frames):
                self.places.append((float(pos[1]), -float(pos[2]), self.titles[box]))
        self.edges = re.findall(r'"(r\d+\.o\d+)" -> "(r\d+\.o\d+)"\s*\[color="#c62828"', dot)

    def columns(self):
        """The titles of the passes by column, from top to bottom."""
        columns = {}
        for x, y, title in sorted(self.places, key=lambda p: p[1]):
            column = next((k for k in columns if abs(k - x) < 60), x)
            columns.setdefault(column, []).append(title)
        return [columns[x] for x in sorted(columns)]

    def messages(self):
        """Pairs of (rank, title) that a message joins."""
        def end(box):
            return int(box[1:box.index(".")]), self.titles.get(box)
        return [(end(a), end(b)) for a, b in self.edges
                if end(a)[0] != end(b)[0] and end(a)[1] and end(b)[1]]


def run(folder, program, *words):
    done = subprocess.run([os.path.join(BUILD, program), *words], cwd=folder, check=False,
                          capture_output=True, text=True)
    check(done.returncode == 0, f"{words}: {done.stderr}")


def exported(folder):
    run(folder, "syntorch", "export", "--input", "out/trace.0.et", "--all_ranks", "--comm",
        "--output", "picture.dot")
    with open(os.path.join(folder, "picture.dot"), encoding="utf-8") as f:
        return f.read()


def picture(folder, *options):
    run(folder, "pretrain", "--device", "meta", "--model-config", "gpt.json", "--batch-size", "1",
        "--max-seq-length", "32", "--max-steps", "3", "--enable-tracing", "--out-dir", "out",
        "--quiet", "--skip-eval", *options)
    return Picture(exported(folder))


def order(schedule, stages, stage, m):
    first = m if schedule == "gpipe" else min(m, stages - 1 - stage)
    passes = [f"forward {i + 1}" for i in range(first)]
    for i in range(m - first):
        passes += [f"forward {first + i + 1}", f"backward {i + 1}"]
    return passes + [f"backward {i + 1}" for i in range(m - first, m)]


def schedules(folder):
    for schedule, stages, m in (("gpipe", 2, 3), ("1f1b", 4, 8), ("1f1b", 8, 12), ("1f1b", 4, 2)):
        got = picture(folder, "--num-gpus", str(stages), "--pp", str(stages), "--schedule",
                      schedule, "--gradient-accumulation-steps", str(m))
        want = [order(schedule, stages, i, m) for i in range(stages)]
        check(got.columns() == want, f"{schedule} {stages} {m}: {got.columns()}")
        both = {((i, f"forward {n + 1}"), (i + 1, f"forward {n + 1}"))
                for i in range(stages - 1) for n in range(m)}
        both |= {((i + 1, f"backward {n + 1}"), (i, f"backward {n + 1}"))
                 for i in range(stages - 1) for n in range(m)}
        sent = got.messages()
        check(set(sent) == both and len(sent) == len(both), f"{schedule} {stages} {m}: {sent}")


def chunks_and_weights(folder):
    """Every pass of every chunk is drawn once. With ZB-H1, the pass for weights of a microbatch
    comes after its backward pass."""
    got = picture(folder, "--num-gpus", "2", "--pp", "2", "--schedule", "interleaved", "--vp", "2",
                  "--gradient-accumulation-steps", "4").columns()
    want = sorted(f"{kind} {n}, chunk {c}" for kind in ("forward", "backward")
                  for n in range(1, 5) for c in (1, 2))
    check([sorted(column) for column in got] == [want, want], f"interleaved: {got}")
    got = picture(folder, "--num-gpus", "4", "--pp", "4", "--schedule", "zb-h1",
                  "--gradient-accumulation-steps", "8").columns()
    check(len(got) == 4, f"zb-h1: {got}")
    for column in got:
        split = [title for title in column if title.startswith("weight gradients")]
        whole = [title for title in column if not title.startswith("weight gradients")]
        check(len(whole) == len(set(whole)) == 16 and len(split) == len(set(split)),
              f"zb-h1: {column}")
    check(any(title.startswith("weight gradients") for title in got[3]), f"zb-h1: {got[3]}")


def many_ranks_and_microbatches(folder):
    got = picture(folder, "--num-gpus", "8", "--tp", "2", "--pp", "2", "--sp", "--zero", "1",
                  "--gradient-accumulation-steps", "20").columns()
    numbers = [*map(str, range(1, 9)), "9 \u2026 16", *map(str, range(17, 21))]
    want = sorted(f"{kind} {n}" for kind in ("forward", "backward") for n in numbers)
    check([sorted(column) for column in got] == [want, want], f"20 microbatches: {got}")


def messages_of_inference(folder):
    """The ranks of a stage send side by side. Their lines have no part in common, and pass no box
    of a receive. With more than four ranks, each stage has one column."""
    for tp, pp, n in ((2, 2, 4), (4, 2, 2), (2, 4, 6)):
        run(folder, "inference", "--device", "meta", "--model_config", "gpt.json", "--tp", str(tp),
            "--pp", str(pp), "--num_input_tokens", "8", "--num_output_tokens", "4",
            "--visualize_trace", "--out_dir", "out")
        dot = exported(folder).replace("\\\n", "")
        boxes = {name: (float(x), float(y)) for name, x, y in re.findall(
            r'"(r\d+\.o\d+)"\s*\[[^]]*?<b>recv</b>.*?pos="([-\d.]+),([-\d.]+)"', dot, re.S)}
        lines = []
        for to, path in re.findall(r'-> "(r\d+\.o\d+)"\s*\[[^]]*?pos="([^"]*)"', dot):
            if to in boxes:
                xs = {}  # height -> the line's places at that height
                for x, y in (map(float, p.split(",")) for p in path.split()[1:]):
                    xs.setdefault(y, []).append(x)
                y = max(xs, key=lambda y: max(xs[y]) - min(xs[y]))
                lines.append((to, y, min(xs[y]), max(xs[y])))
        what = f"tp {tp}, pp {pp}: {lines}"
        check(len(boxes) == len(lines) == n, f"{what}, {boxes}")
        for i, (to, y, x0, x1) in enumerate(lines):
            check(all(y != v or x1 < u0 or u1 < x0 for _, v, u0, u1 in lines[:i]), what)
            check(all(abs(y - v) > 12 or not x0 < u < x1 for u, v in boxes.values()), what)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "gpt.json"), "w", encoding="utf-8") as f:
            json.dump(GPT, f)
        schedules(folder)
        chunks_and_weights(folder)
        many_ranks_and_microbatches(folder)
        messages_of_inference(folder)
    finish()


main()
