"""Tests --sweep: each row is the prediction of a separate run, the Pareto front is the one that
brute force finds, and impossible combinations are listed with the reason."""
import csv
import fcntl
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import BUILD, SOURCE, check, enter_folder, finish  # noqa: E402

enter_folder()
TEXTS = ("tp", "dtype", "hw", "machine", "stack", "model", "model_name", "attention",
         "extrapolated", "refused", "activation_recompute")


def start(name, *args, code=0):
    done = subprocess.run([os.path.join(BUILD, name), *args], check=False, capture_output=True,
                          text=True, timeout=300)
    check(done.returncode == code, f"{name} {args}: exit {done.returncode}: {done.stderr}")
    return done.stderr if code else done.stdout


def rows(folder="."):
    with open(os.path.join(folder, "sweep.csv"), encoding="utf-8", newline="") as f:
        return [{k: v if k in TEXTS else float(v) if v else None for k, v in row.items()}
                for row in csv.DictReader(f)]


def close(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def check_figures(table, tokens):
    """Checks the columns that follow from others by definition. tokens: function that returns the
    number of tokens of a row."""
    for row in table:
        if row["refused"]:
            continue
        shares = sum(row[f"share_{k}"] for k in ("compute", "memory", "launches", "communication"))
        check(close(shares, 1, 1e-6), f"shares of {row}")
        check(row["tokens"] == tokens(row), f"tokens of {row}")
        check(close(row["tokens_per_s"], row["tokens"] / row["time_ns"] * 1e9), f"{row}")
        check(close(row["gpu_s_per_1000_tokens"],
                    row["time_ns"] * 1e-9 * row["ranks"] / row["tokens"] * 1000), f"{row}")


def check_front(table, time):
    """Checks the Pareto front of time and GPU seconds per 1000 tokens: it has the rows that no
    other row dominates, numbered from 1, fastest first. time: function that returns the time of a
    row. Returns the number of rows in the front."""
    possible = [row for row in table if not row["refused"]]
    points = [(time(row), row["gpu_s_per_1000_tokens"]) for row in possible]
    front = sorted({p for p in points if not any(
        q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)})
    got = sorted((row["front"], point) for row, point in zip(possible, points) if row["front"])
    check([n for n, _ in got] == list(range(1, len(front) + 1)), f"numbers {got}")
    check([p for _, p in got] == front, f"front {got}, not {front}")
    check(not any(row["front"] for row in table if row["refused"]), "a refused row in the front")
    return len(front)


def check_picture(table, machines):
    root = ElementTree.parse("sweep.svg").getroot()
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    possible = sum(not row["refused"] for row in table)
    check(len(circles) == possible + machines, f"{len(circles)} points for {possible} rows")
    width, height = float(root.get("width")), float(root.get("height"))
    check(all(0 < float(c.get("cx")) < width and 0 < float(c.get("cy")) < height for c in circles),
          "points outside the page")


def check_columns(table):
    """Checks the picture of a sweep over one option: each value has a column whose height is its
    time, divided into the shares of the limits."""
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse("sweep.svg").getroot()
    boxes = [r for r in root.findall(svg + "rect") if r.find(svg + "title") is not None]
    columns = {}
    for box in boxes:
        name = box.find(svg + "title").text.rsplit(" ", 1)[0].replace("launch overhead", "launches")
        columns.setdefault(float(box.get("x")), {})[name] = float(box.get("height"))
    possible = [row for row in table if not row["refused"]]
    check(len(columns) == len(possible), f"{len(columns)} columns for {len(possible)} rows")
    high = max(sum(column.values()) for column in columns.values())
    slow = max(row["time_ns"] for row in possible)
    for (_, column), row in zip(sorted(columns.items()), possible):
        for name, height in column.items():
            want = row["time_ns"] / slow * row[f"share_{name}"] * high
            check(abs(height - want) <= 0.3, f"tp {row['tp']}: {name} {height}, not {want}")
    said = [text.text for text in root.findall(svg + "text")]
    check("too large" in said and "impossible" in said and "a100-80g+serving" in said, f"{said}")


# ---- inference ----

MACHINES = ["a100-80g", "h100+megatron", "v100-32g", "cpu"]
LENGTHS = ["--num_input_tokens", "48", "--num_output_tokens", "5"]
out = start("inference", "--model", "gpt2", *LENGTHS, "--sweep", "tp=1,4,5,12",
            "batch_size=1,16", "dtype=f32,bf16", f"hw={','.join(MACHINES)}")
table = rows()
check(len(table) == 4 * 2 * 2 * len(MACHINES), f"{len(table)} rows")
check_figures(table, lambda row: row["batch_size"] * 5)
check(check_front(table, lambda row: row["time_ns"]) >= 3, "a front of few")
check_picture(table, len(MACHINES))
refused = [row for row in table if row["refused"]]
check({row["tp"] for row in refused} == {"5"} and len(refused) == 16, f"refused: {refused}")
check(all("tp 5 does not divide the 12 attention heads" in row["refused"] and
          row["time_ns"] is None for row in refused), f"{refused[0]}")
check("64 combinations, 48 possible" in out and "and 15 more: " in out, out)
lines = [line[3:].split() for line in out.splitlines() if re.search(r" (f32|bf16) ", line[:40])]
check(sorted(line[:4] for line in lines) ==
      sorted([row["tp"], str(int(row["batch_size"])), row["dtype"], row["hw"]]
             for row in table if not row["refused"]), out)
for row in table:
    if row["refused"] or (row["tp"], row["batch_size"]) not in (("1", 16), ("4", 1), ("12", 16)):
        continue
    alone = json.loads(start(
        "inference", "--device", "meta", "--json", "--model", "gpt2", *LENGTHS, "--tp", row["tp"],
        "--batch_size", str(int(row["batch_size"])), "--dtype", row["dtype"], "--hw", row["hw"]))
    check((row["machine"], row["stack"]) == (alone["hardware"], alone["stack"]), f"{row}")
    for phase in ("prefill", "decode"):
        check(close(row[f"{phase}_ns"], alone[f"predicted_{phase}_ns"]), f"{row}: {alone}")
    want = alone["prefill_limits"]["utilisation"] * alone["predicted_prefill_ns"] + \
        alone["decode_limits"]["utilisation"] * alone["predicted_decode_ns"]
    check(close(row["utilisation"] * row["time_ns"], want, 1e-6), f"{row}: {alone}")

printed = json.loads(start("inference", "--model", "bert-base-uncased", "--json", "--sweep",
                           "num_input_tokens=32,64 attention=fused,unfused", "--out_dir",
                           "bert"))["rows"]
table = rows("bert")
check(len(printed) == len(table) == 4, f"{printed}")
for row, same in zip(table, printed):
    check(row["prefill_ns"] is None and same["prefill_ns"] is None and
          close(row["time_ns"], same["time_ns"]), f"{row}: {same}")
check_figures(table, lambda row: row["num_input_tokens"])

out = start("inference", "--model", "gpt3-175b", "--sweep", "tp=4,8", "dtype=bf16,f32",
            "hw=a100-80g,h200", "--num_output_tokens", "2")
table = rows()
large = [row for row in table if row["refused"]]
check({(row["tp"], row["dtype"], row["hw"]) for row in large} ==
      {("4", "bf16", "a100-80g"), ("4", "f32", "a100-80g"), ("4", "f32", "h200"),
       ("8", "f32", "a100-80g")}, f"too large: {large}")
check(all(row["time_ns"] > 0 and row["rank_bytes"] > 2 ** 33 * 10 for row in large), f"{large}")
check("3 combinations are too large for a100-80g with 80.0 GiB: from 8" in out and
      "1 combination is too large for h200" in out, out)
check_front(table, lambda row: row["time_ns"])

# ---- training ----

start("inference", "--model", "gpt3-175b", "--dtype", "bf16", *LENGTHS, "--hw", "a100-80g",
      "--sweep", "tp=4,5,8,16,32")
check_columns(rows())

out = start("pretrain", "--model", "gpt2", "--max-seq-length", "64", "--sweep",
            "num-gpus=2,4,512", "tp=1,2,3", "batch_size=2,8", "dtype=f32,bf16",
            "activation_recompute=none,full", "hw=h100,a100-80g", "--out-dir", "train")
table = rows("train")
check(len(table) == 3 * 3 * 2 * 2 * 2 * 2, f"{len(table)} rows")
check_figures(table, lambda row: row["num_gpus"] / int(row["tp"]) * row["batch_size"] * 64)
check_front(table, lambda row: row["time_ns"] / row["tokens"])
check(sum(bool(row["refused"]) for row in table) == 48 and
      all("not a multiple of tp 3" in row["refused"] for row in table if row["refused"]), "tp 3")
check(sorted(os.listdir("train")) == ["sweep.csv", "sweep.svg"], f"{os.listdir('train')}")
for wanted in (("1", 2, 8, "bf16", "none", "h100"), ("2", 4, 2, "f32", "full", "a100-80g")):
    row = next(r for r in table if wanted == (r["tp"], r["num_gpus"], r["batch_size"], r["dtype"],
                                              r["activation_recompute"], r["hw"]))
    alone = start("pretrain", "--device", "meta", "--model", "gpt2", "--max-seq-length", "64",
                  "--enable-tracing", "--num-gpus", str(int(row["num_gpus"])), "--tp", row["tp"],
                  "--batch-size", str(int(row["batch_size"])), "--dtype", row["dtype"],
                  "--activation-recompute", row["activation_recompute"], "--hw", row["hw"])
    ms, kilo = re.search(r"predicted step: ([\d.]+) ms, ([\d.]+) k tokens/s", alone).groups()
    check(close(row["time_ns"], 1e6 * float(ms), 0.006), f"{row}: {alone}")
    check(close(row["tokens_per_s"], 1e3 * float(kilo), 0.006), f"{row}: {alone}")

# A key may be an earlier name of an option. The column of pretrain's --model has the earlier name.
for name, key, column in (("pretrain", "model", "model_name"), ("pretrain", "model-name",
                          "model_name"), ("inference", "model_name", "model"),
                          ("inference", "hw_config", "hw")):
    values = "h100,h200" if column == "hw" else "gpt2,gpt3-125m"
    start(name, "--sweep", f"{key}={values}", "--out_dir", "named")
    check([row[column] for row in rows("named")] == values.split(","), f"{name} {key}")
    check(name != "pretrain" or [row[column] for row in json.loads(
        start(name, "--sweep", f"{key}={values}", "--out_dir", "named", "--json"))["rows"]]
        == values.split(","), f"{name} {key} --json")

# ---- invalid sweeps ----

for name, args, sentence in (
        ("inference", ["--sweep", "tp"],
         "--sweep must be KEY=VALUE,..., such as tp=1,2,4, not 'tp'"),
        ("inference", ["--sweep", "seed=1,2"], "--sweep cannot vary 'seed'; it can vary tp, "),
        ("inference", ["--sweep", "tp=1,2", "tp=4"], "--sweep has tp twice"),
        ("inference", ["--sweep", "tp=1,2,1"], "--sweep has tp=1 twice"),
        ("inference", ["--sweep", "tp=1,,2"], "--sweep tp= lacks a value"),
        ("inference", ["--sweep", "hw=h100,none"], "none"),
        ("inference", ["--sweep", "tp=x", "--out_dir", "nothing"],
         "--tp must be an integer, not 'x'"),
        ("inference", ["--sweep", "tp=0,1"], "--tp must be between 1 and 65536, not 0"),
        ("inference", ["--sweep", "dtype=bf16,fp8"], "--dtype must be f32, f16 or bf16, not 'fp8'"),
        ("pretrain", ["--sweep", "batch_size=1,a", "--out-dir", "nothing"],
         "--batch_size must be an integer, not 'a'"),
        ("pretrain", ["--sweep", "tp=1", "--compare", "h100"], "--compare has no effect with"),
        ("inference", ["--sweep", "tp=1,2", "--tp", "4"],
         "--tp and --sweep tp= set the same option"),
        ("inference", ["--sweep", "hw=h100", "--hw", "h200"], "give one"),
        ("inference", ["--sweep", "tp=1,2", "--device", "cpu"], "needs --device meta, not cpu"),
        ("inference", ["--sweep", "tp=1", "--debug"], "--debug has no effect with --sweep"),
        ("inference", ["--sweep", "tp=1", "--seed", "2"], "--seed has no effect with --sweep"),
        ("pretrain", ["--sweep", "tp=1", "--resume"], "--resume has no effect with --sweep"),
        ("pretrain", ["--sweep", "learning_rate=1,2"], "--sweep cannot vary 'learning_rate'")):
    said = start(name, *args, code=2)
    check(sentence in said and said.count("\n") == 1, f"{name} {args}: {said}")
    check(not os.path.exists("nothing"), f"{name} {args}: a folder")
said = start("inference", "--sweep", "tp=5,7", "--num_output_tokens", "2", "--json", code=1)
check("--sweep: none of its 2 combinations is possible; the first: model gpt3-tiny: tp 5" in said
      and said.count("\n") == 1 and len(rows()) == 2, said)
done = subprocess.run([os.path.join(BUILD, "inference"), "--sweep", "tp=5,7", "--json"],
                      check=False, capture_output=True, text=True, timeout=300)
failed = json.loads(done.stdout)
check(len(failed["rows"]) == 2 and failed["error"]["exit_code"] == done.returncode == 1 and
      f": {failed['error']['message']}\n" in done.stderr, done.stdout)
said = start("pretrain", "--sweep", "tp=3", "num_gpus=2", "--out-dir", "none", code=1)
check("--sweep: its only combination is not possible: " in said and said.count("\n") == 1 and
      len(rows("none")) == 1, said)
said = start("inference", "--sweep", "tp=1,2", "--out_dir", "/dev/null/x", code=1)
check("/dev/null" in said and said.count("\n") == 1, said)
out = start("inference", "--sweep", "tp=5,1 model=gpt2,gpt5", "--num_output_tokens", "2")
check("tp 5 does not divide the 12 attention heads" in out and "gpt5" in out and
      "2 models" in out and "4 combinations, 1 possible" in out, out)
# The table of a different sweep is kept under a numbered name; that of the same is replaced.
for tp, numbered in (("1,2", []), ("1,2", []), ("1,3", ["sweep.1"]), ("1", ["sweep.1", "sweep.2"])):
    out = start("inference", "--sweep", f"tp={tp}", "--num_output_tokens", "2", "--out_dir", "kept")
    names = sorted(f"{stem}.{end}" for stem in [*numbered, "sweep"] for end in ("csv", "svg"))
    check(sorted(os.listdir("kept")) == names, f"tp={tp}: {os.listdir('kept')}")
check([len(open(f"kept/{stem}.csv").readlines()) for stem in ("sweep.1", "sweep.2", "sweep")]
      == [3, 3, 2], "rows of the sweeps that are kept")
# A sweep is refused while another run writes a sweep into the folder.
with open("kept/.sweep.lock", "w", encoding="utf-8") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("77 1764269485 elsewhere pretrain", file=lock, flush=True)
    for name, option in (("inference", "--out_dir"), ("pretrain", "--out-dir")):
        said = start(name, "--sweep", "tp=1", option, "kept", code=1)
        check(said.startswith(f"{name}: another run (pretrain, process 77 on elsewhere, since ") and
              said.endswith("writes to 'kept/sweep.*': wait until it finishes, or name another "
                            f"{option}\n"), said)
start("inference", "--sweep", "tp=1", "--num_output_tokens", "2", "--out_dir", "kept")
check(not os.path.exists("kept/.sweep.lock"), "the lock stays")
finish()
