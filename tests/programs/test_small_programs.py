"""Tests the small programs of examples/: what they print and write. The collectives and messages in
their traces are compared with closed formulas."""
import html
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, enter_folder, finish, run  # noqa: E402
from execution_trace import read_et  # noqa: E402

NAMES = ("mlp_two_ways", "two_halves", "own_op", "own_model", "train_mlp")
folder = enter_folder()


def example(name, *args, ends=0):
    done = subprocess.run([os.path.join(BUILD, name), *args], capture_output=True, text=True,
                          timeout=300, check=False, cwd=folder)
    check(done.returncode == ends, f"{name} {args}: exit {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def text(name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return f.read()


for name in NAMES:  # short enough to be read as examples
    with open(os.path.join(SOURCE, "examples", name + ".c"), encoding="utf-8") as f:
        lines = len(f.readlines())
    check(lines <= 60, f"examples/{name}.c has {lines} lines")

for ranks in (2, 3, 8):
    said = example("two_halves", str(ranks))
    check(f"{ranks} ranks have 20160 bytes each, and {20160 // ranks} of them" in said and
          said.endswith("differ by 0\n"), said)
check("two ranks" in example("two_halves", "1", ends=1), "one rank is refused")

check("match the formulas" in example("own_op"), "own_op")
drawn = text("own_op.svg")
check("squared_silu" in drawn and "silu_grad" in drawn, "own_op.svg lacks its op or its gradient")

STAGES, MICROBATCHES, WIDTH = 4, 8, 1024
took = {}
for schedule, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb-h1", 1)):
    said = example("train_pipeline", str(STAGES), str(MICROBATCHES), schedule)
    check(said.startswith("4 stages, 8 microbatches: "), said)
    took[schedule] = float(said.split()[-2])
    sizes = []
    for rank in range(STAGES):
        with open(os.path.join(folder, f"train_pipeline.{rank}.et"), "rb") as f:
            sizes += [n.attr["comm_size"] for n in read_et(f.read())[1] if "comm_src" in n.attr]
    messages = 2 * MICROBATCHES * (STAGES * chunks - 1)  # forward and backward
    check(sizes == 2 * messages * [1024 * WIDTH * 2], f"{schedule}: {len(sizes)} messages")
    done = run("validate", os.path.join(folder, "train_pipeline"))
    check(done.returncode == 0 and b"a simulation finishes" in done.stdout, done.stdout)
check(took["zb-h1"] < took["interleaved"] < took["1f1b"] == took["gpipe"], f"{took}")
check("cannot be divided" in example("train_pipeline", "5", ends=1), "5 stages")
check("at least as many" in example("train_pipeline", "4", "2", "interleaved", ends=1), "2 of 4")

T, C, CLASSES, WORDS = 512, 1024, 16, 32000
for ranks in (1, 2, 4, 16):
    example("own_model", str(ranks))
    for rank in range(ranks):
        with open(os.path.join(folder, f"own_model.{rank}.et"), "rb") as f:
            nodes = read_et(f.read())[1]
        sizes = [n.attr["comm_size"] for n in nodes if "comm_size" in n.attr]
        check(all(n.dur > 0 for n in nodes), f"own_model {ranks}: ops without a time")
        # all-reduces of embeddings and of the MLP's partial sums; all-gather of the logits
        want = [T * C * 4, T * C * 4, T * CLASSES // ranks * 4] if ranks > 1 else []
        check(sizes == want, f"own_model {ranks}: rank {rank} exchanges {sizes}, not {want}")
    if ranks > 1:
        done = run("validate", os.path.join(folder, "own_model"))
        check(done.returncode == 0, f"own_model {ranks}: {done.stdout}{done.stderr}")
check("does not divide into 17 shards" in example("own_model", "17", ends=1), "17 ranks")
check("RANKS must be" in example("own_model", "--help", ends=1), "own_model --help")

# An MLP, whole and sharded: the collectives of a rank in order, with their numbers of elements.
T, C, HIDDEN = 1024, 768, 3072
GATHER, SUM = "all_gather", "all_reduce"
EXCHANGES = {
    "mlp_whole": [],
    "mlp_columns": [(GATHER, T * HIDDEN // 2), (GATHER, T * C // 2)],
    "mlp_rows": [(SUM, T * HIDDEN), (SUM, T * C)],
    "mlp_both": [(SUM, T * C)],
    "mlp_step": [(SUM, T * C), (SUM, T * C)],
}
said = example("mlp_two_ways")
for name, want in EXCHANGES.items():
    check(f"{name}.svg {name}.json\n" in said, said)
    graph = json.loads(text(name + ".json"))
    check(graph["graph"]["world_size"] == (1 if name == "mlp_whole" else 2), f"{name}: its ranks")
    got = [(node["op"], node["comm_bytes"] // 4) for node in graph["nodes"]
           if node.get("kind") == "collective" and node["rank"] == 0]
    check(got == want, f"{name}: rank 0 exchanges {got}, not {want}")
    drawn = text(name + ".svg")
    check(all(f">{op}<" in drawn for op, _ in want), f"{name}.svg lacks a collective")
for name, words in {"mlp_columns": "columns 0-383 of 768", "mlp_rows": "rows 0-383 of 768",
                    "mlp_both": "partial sum", "mlp_step": "tp_enter"}.items():
    check(words in html.unescape(text(name + ".svg")), f"{name}.svg does not say {words!r}")
check(example("mlp_two_ways", "--help").startswith("usage"), "mlp_two_ways --help")
example("mlp_two_ways", "somewhere", ends=1)
# For a mistyped command, the message suggests one that exists.
for typed, words in {"exprt": "did you mean export?", "valdate": "did you mean validate?",
                     "zzzzz": "unknown command 'zzzzz' (--help"}.items():
    done = run(typed)
    check(done.returncode == 2 and words in done.stderr.decode(), f"{typed}: {done.stderr}")
# With standard output closed, printed text is lost, and none of it is written into a file.
before = text("mlp_whole.svg"), text("mlp_step.json")
done = subprocess.run(["sh", "-c", 'exec "$0" >&-', os.path.join(BUILD, "mlp_two_ways")],
                      cwd=folder, check=False, timeout=300)
check(done.returncode == 1, f"mlp_two_ways >&-: exit {done.returncode}")
check((text("mlp_whole.svg"), text("mlp_step.json")) == before, "mlp_two_ways >&-: its files")


def rows(said):
    """The lines of a table, as lists of words."""
    return [line.split() for line in said.strip().split("\n")]


def parallelism():
    """The tables of the programs about parallelism: numbers that follow from formulas."""
    table = {r[0] if "peak" not in r else "peak": r for r in rows(example("sequence_parallel"))}
    layers, sent = 24, rows(example("sequence_parallel"))[5]
    whole, again, kept = (int(r) for r in table["all-reduces"][1:])
    check(whole - again == whole - kept == 4 * layers, f"all-reduces of layers: {table}")
    check([int(r) for r in table["all-gathers"][1:]][0] == 0, f"{table}")
    gathers = [int(r) for r in table["all-gathers"][2:]]
    scatters = [int(r) for r in table["reduce-scatters"][2:]]
    # 6 + 4 collectives per layer; without the second gather 4 + 4; and those of the embedding
    check(gathers[0] // layers == 6 and gathers[1] // layers == 4 and scatters == 2 * [97],
          f"{gathers}, {scatters}")
    peaks = [int(x) for x in table["peak"][-3:]]
    check(peaks[1] < peaks[2] < peaks[0], f"peaks {peaks}")
    check(abs(int(sent[-1]) / int(sent[-3]) - 1) < 0.01, f"kept activations: {sent}")

    # The pairs below the diagonal, divided evenly; keys and values of T tokens, sent n - 1 times
    tokens, width = 4096, 8 * 64
    for n in (2, 4, 8):
        ranks = [r for r in rows(example("ring_attention", str(n))) if "pieces" in r]
        check(len(ranks) == n and all(
            int(r[-4].rstrip(",")) == tokens * (tokens + 1) // (2 * n) and
            float(r[-2]) == round((n - 1) * tokens // n * 2 * width * 2 / 1e6, 2)
            for r in ranks), f"ring_attention {n}: {ranks}")
    example("ring_attention", "3", ends=2)
    table = rows(example("token_to_experts"))
    sent = [[int(x) for x in r[3:]] for r in table if r and r[0] == "by"]
    check(sent == [[5, 3], [2, 6]], f"token_to_experts: {sent}")

    lines = {r[0]: r for r in rows(example("four_schedules"))[2:]}
    for schedule, milliseconds in took.items():
        check(float(lines[schedule][1]) == milliseconds, f"{schedule}: {lines}, {took}")
    check([int(lines[s][3]) for s in ("gpipe", "1f1b", "interleaved", "zb-h1")]
          == [2 * MICROBATCHES, 2 * MICROBATCHES, 6 * MICROBATCHES, 2 * MICROBATCHES], f"{lines}")
    # 1F1B stores the activations of at most as many microbatches as there are stages
    check(int(lines["gpipe"][4]) > int(lines["1f1b"][4]) == int(lines["zb-h1"][4]), f"{lines}")
    check("17% bubble" in text("four_schedules_zb-h1.svg"), "the chart of ZB-H1")

    for n in (4, 8):
        params, table = 354.823168, rows(example("zero_stages", str(n)))[2:]
        for stage, (state, per_step) in enumerate([(18, 2 * 4), (6 + 12 / n, 4 + 2),
                                                   (2 + 16 / n, 2 * 4 + 2)]):
            want = [round(params * state), round(params * per_step * (n - 1) / n)]
            check([int(table[stage][1]), int(table[stage][3])] == want,
                  f"ZeRO {stage} on {n} ranks: {table[stage]}, not {want}")
        check(int(table[3][1]) == round(params * 18 / n)
              and int(table[3][3]) < params * 16 * (n - 1) / n, f"ZeRO 3: {table[3]}")
        peaks = [int(r[2]) for r in table]
        check(peaks == sorted(peaks, reverse=True) and
              all(int(r[1]) < int(r[2]) for r in table), f"peaks {peaks}")


parallelism()
finish()
