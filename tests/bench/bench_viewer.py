"""./dev bench viewer: measures an HTML report of half a million measured ops on 128 ranks in
Chromium: the size of the file, the time to the first picture, the time per frame while the timeline
is moved, and the time of a search. Prints medians next to their limits and exits with 1 if one is
exceeded. Without Chromium it measures only the file's size.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from browser import Page, chromium  # noqa: E402
from checks import BUILD, SOURCE  # noqa: E402

RANKS, STEPS, ROUNDS = 128, 10, 9
MODEL = {"model_type": "gpt2", "n_layer": 12, "n_embd": 32, "n_head": 2, "n_positions": 64,
         "vocab_size": 512, "tie_word_embeddings": True}
missed = 0


def median(values):
    return sorted(values)[len(values) // 2]


def report(what, value, limit, unit):
    global missed
    missed += value > limit
    print(f"{what}: {value:.4g} {unit} (limit {limit} {unit}){': MISSED' if value > limit else ''}",
          flush=True)


def record(folder):
    """Returns the HTML report of a training run that is measured here, with one thread per rank."""
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump(MODEL, f)
    subprocess.run(
        [os.path.join(BUILD, "pretrain"), "--model-config", config, "--tokenizer", "bytes",
         "--num-gpus", str(RANKS), "--batch-size", "1", "--max-seq-length", "32", "--num-epochs",
         "1000", "--max-steps", str(STEPS + 1), "--skip-eval", "--quiet", "--save-dir",
         os.path.join(folder, "save"), "--enable-tracing", "--visualize-trace",
         "--trace-active-steps", str(STEPS), "--out-dir", folder], cwd=SOURCE, check=True)
    return os.path.join(folder, "trace.html")


def frames(page, move):
    """Returns the median time to draw after a move."""
    out = []
    for k in range(ROUNDS):
        page.do(move % k)
        page.frame()
        out.append(page.do("view.drawMs"))
    return median(out)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = record(folder)
        report("file", os.path.getsize(path) / 1e6, 2, "MB")
        if not chromium():
            print("no chromium: the page is not opened")
            return
        with Page() as page:
            first = []
            for _ in range(ROUNDS):
                page.open(path)
                first.append(page.do("view.firstMs"))
            ops = page.do("view.traces[0].ranks.reduce((sum, _, r) => sum +"
                          "view.traces[0].column(r, 'lane').filter((l) => l > 0).length, 0)")
            print(f"{ops} ops of {RANKS} ranks")
            report("first picture", median(first), 1000, "ms")
            page.do("new Promise((r) => setTimeout(r, 1000))")
            report("frame, all of it", frames(page, "view.now.zoom(%d ? 0.999 : 1, 700, 300)"), 20,
                 "ms")
            page.do("view.now.zoom(0.02, 700, 300)")
            report("frame, a fiftieth", frames(page, "view.now.move(5 + %d, 0)"), 20, "ms")
            page.do("for (const {rank} of view.traces[0].ranks) view.open.set('0.' + rank, true);"
                    "view.redraw('all')")
            report("frame, ranks unfolded", frames(page, "view.now.move(-5 - %d, 3)"), 20, "ms")
            found = []
            for k in range(ROUNDS):
                page.do(f"view.find('{['h.1', 'attn', 'matmul'][k % 3]} {k % 10}')")
                found.append(page.do("view.findMs"))
            report("search", median(found), 30, "ms")
            if page.errors:
                print("console:", page.errors[:3])
                sys.exit(1)


main()
sys.exit(1 if missed else 0)
