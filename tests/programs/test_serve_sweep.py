"""Tests `syntorch serve --sweep` and --find-rate: each row is a separate simulation, the Pareto
front and the cheapest row are those that brute force finds, combinations that are not possible have
a reason, and the rate that is found is the highest of a grid at which the limits hold. Also tests
when a rate is refused because the server is overloaded."""
import csv
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import PROGRAM, check, enter_folder, finish  # noqa: E402

enter_folder()
MODEL = ["--model", "llama-3-8b"]
CHAT = [*MODEL, "--requests", "sharegpt-like", "--num-requests", "200"]
RATE, H100 = ["--rate", "8"], ["--hw", "h100+serving"]
SMALL = ["--max-num-seqs", "128", "--max-num-batched-tokens", "2048"]
SPLIT = ["--model", "llama-3-70b", "--hw", "h200+serving", "--requests", "sharegpt-like"]


def start(*args, code=0):
    done = subprocess.run([PROGRAM, "serve", *args], check=False, capture_output=True, text=True,
                          timeout=300)
    check(done.returncode == code, f"{args}: exit {done.returncode}: {done.stderr}")
    return done.stderr if code else done.stdout


def answer(*args):
    return json.loads(start(*args, "--json"))


def rows(prefix):
    with open(prefix + ".sweep.csv", encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def possible(table):
    return [row for row in table if not row["refused"]]


def number(row, key):
    return float(row[key])


def close(a, b, tolerance=1e-6):
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def check_front(table):
    """The front has the rows that no other row dominates, with the highest throughput first."""
    points = [(-number(r, "output_tokens_per_s_per_gpu"), number(r, "tpot_mean_ns"))
              for r in possible(table)]
    front = sorted(p for p in points if not any(
        q[0] <= p[0] and q[1] <= p[1] and q != p for q in points))
    got = sorted((int(r["front"]), p) for r, p in zip(possible(table), points) if r["front"])
    check(got == list(enumerate(front, 1)), f"front {got}, not {front}")
    check(not any(r["front"] for r in table if r["refused"]), "a refused row in the front")
    return len(front)


def check_row(row, options, *fixed):
    """A row has the numbers of a run with its options."""
    given = [word for key in options for word in ("--" + key.replace("_", "-"), row[key])]
    one = json.loads(start(*CHAT, *fixed, *given, "--json"))
    for key, want in (("output_tokens_per_s", one["output_tokens_per_s"]),
                      ("goodput_per_s", one["goodput_per_s"]), ("requests", one["requests"])):
        check(close(number(row, key), want), f"{key} {row[key]}, not {want}")
    for key in ("ttft", "tpot", "latency"):
        check(close(number(row, key + "_mean_ns"), one[key + "_ns"]["mean"]), f"{key}: {row}")
        check(close(number(row, key + "_percentile_ns"), one[key + "_ns"]["p90"]), f"{key}: {row}")


def check_picture(prefix, table):
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(prefix + ".sweep.svg").getroot()
    markers = [m for m in root.findall(svg + "path") if m.get("class") == "marker"]
    points = [m for m in markers if m.find(svg + "title") is not None]
    check(len(points) == len(possible(table)), "points of the picture")
    width, height = float(root.get("width")), float(root.get("height"))
    places = [re.match(r"translate\((\S+) (\S+)\)", m.get("transform")).groups() for m in markers]
    check(all(0 < float(x) < width and 0 < float(y) < height for x, y in places),
          "points outside the page")
    shapes = {(row["hw"], m.get("d")) for row, m in zip(possible(table), points)}
    check(len(shapes) == len({hw for hw, _ in shapes}) == len({shape for _, shape in shapes}) == 2,
          f"shapes of the machines: {shapes}")
    tips = "".join(m.find(svg + "title").text for m in points)
    check(": 1 GPU, " in tips and " 1 GPUs" not in tips, tips)


# ---- --sweep ----

LIMITS = {"ttft": 300e6, "tpot": 9.5e6}
SLO = ["--slo", "ttft=300ms,tpot=9.5ms"]
out = start(*CHAT, *RATE, *SLO, "--gpus", "4", "--out", "run/serve", "--sweep", "tp=1,2,3",
            "dp=1,2,4", "max_num_seqs=8,64", "hw=h100+serving,h200+serving")
table = rows("run/serve")
check(len(table) == 36 and sorted(os.listdir("run")) == ["serve.sweep.csv", "serve.sweep.svg"],
      f"{len(table)} rows, {os.listdir('run')}")
check(check_front(table) >= 3, "a front of few rows")
check_picture("run/serve", table)
for row in possible(table)[::7]:
    check_row(row, ["tp", "dp", "max_num_seqs", "hw"], *RATE, *SLO)
for row in table:
    why = ("tp 3 does not divide the 32 attention heads" if row["tp"] == "3" and row["dp"] == "1"
           else "GPUs, but --gpus is 4" if int(row["tp"]) * int(row["dp"]) > 4
           else "8 requests/s arrive, but 1 replica finishes only "
           if row["dp"] == "1" and row["max_num_seqs"] == "8" else "")
    check((why in row["refused"]) if why else not row["refused"], f"refused: {row}")
meeting = [row for row in possible(table)
           if all(number(row, key + "_percentile_ns") <= most for key, most in LIMITS.items())]
check(0 < len(meeting) < len(possible(table)), f"{len(meeting)} rows meet the limits")
check(all((row in meeting) == (row["meets_slo"] == "true") for row in possible(table)), "meets_slo")
best = min(meeting, key=lambda row: (number(row, "gpu_s_per_1000_tokens"),
                                     number(row, "tpot_mean_ns")))
want = ", ".join(f"{key} {best[key]}" for key in ("tp", "dp", "max_num_seqs", "hw"))
check(f"cheapest combination that meets the limits: {want}: {best['gpus']} GPU" in out, out)
check("36 combinations, 16 possible" in out and "not possible:" in out, out)
for row in possible(table):
    cost = number(row, "gpus") * number(row, "duration_ns") * 1e-9
    tokens = number(row, "output_tokens_per_s") * number(row, "duration_ns") * 1e-9
    check(close(number(row, "gpu_s_per_1000_tokens"), 1000 * cost / tokens), f"cost of {row}")

# If no combination meets the limits, the closest one is named with what it misses.
told = start(*CHAT, *RATE, *H100, "--slo", "ttft=1s,tpot=5ms", "--sweep", "tp=1,2")
check("no combination meets the limits; the closest is tp 2: TPOT p90 is " in told, told)
one = json.loads(start(*CHAT, *RATE, *H100, "--slo", "tpot=5ms", "--sweep", "tp=1,2,3", "--json"))
check(one["schema"] == "syntorch.serve-sweep/1" and one["cheapest"] is None and
      one["closest"] == 1 and one["written"] == [], f"{one}")
check([row["refused"] is None for row in one["rows"]] == [True, True, False], f"{one['rows']}")

# Layouts of disaggregated serving, flags, speculative tokens, a cache that does not fit.
told = start(*SPLIT, "--num-requests", "40", "--rate", "2", "--sweep", "prefill=tp:2,tp:2+dp:2",
             "decode=tp:1,tp:4", "num_speculative_tokens=0,2", "--acceptance-rate", "0.6",
             "--out", "split")
table = rows("split")
check([row["gpus"] for row in table] == ["", "", "6", "6", "", "", "8", "8"] and
      all("decode: weights and activations of a rank need" in row["refused"] for row in table
          if row["decode"] == "tp:1"), f"{table}")
check(number(table[3], "tpot_mean_ns") < number(table[2], "tpot_mean_ns"), "drafts save no time")
check("prefill tp:2, decode tp:1" in told, told)

# Rows that tie are all in the front.
start(*CHAT, *RATE, *H100, "--sweep", "router=least,round-robin", "tp=1,2", "--out", "tie")
check(check_front(rows("tie")) == 4, "rows that tie are missing in the front")

# ---- Rates that the server cannot serve ----

REFUSED = re.compile(r"syntorch serve: (\S+) requests/s arrive, but (.*) finish(es)? only (\S+) "
                     r"requests/s; lower --rate to (\S+) or use (.*), or give --allow-overload\n")
for model, who, more in (
        ([*MODEL, "--requests", "sharegpt-like", *H100], "1 replica", "--dp"),
        (["--model", "qwen3-30b-a3b", "--dp", "2", "--ep", "2", "--requests", "sharegpt-like",
          *H100], "2 replicas", "more ranks"),
        ([*SPLIT, "--prefill", "tp=4", "--decode", "tp=8"], "the server", "more ranks")):
    model = [*model, "--max-num-seqs", "32"]
    many = ["--num-requests", "800"]
    told = start(*model, *many, "--rate", "100", "--out", "none/x", code=1)
    found = REFUSED.fullmatch(told)
    if not check(found and found[1] == "100" and found[2] == who and found[6].startswith(more),
                 told):
        continue
    check(os.listdir("none") == [], "a refused run has written files")
    capacity, lower = float(found[4]), float(found[5])
    check(0.9 * capacity < lower < capacity, f"{lower} is advised, but {capacity} is possible")
    start(*model, *many, "--rate", str(lower))
    told = start(*model, *many, "--rate", str(1.4 * capacity), code=1)
    again = REFUSED.fullmatch(told)
    check(again and close(float(again[4]), capacity, 0.1), f"{told}, at 100/s {capacity}")
    if more == "--dp":
        start(*model, *many, "--rate", "100", *found[6].split())
    # A burst leaves no growing queue.
    told = start(*model, "--num-requests", "60", "--rate", "100")
    check("overloaded" not in told, told)
# A rate below the capacity is not refused because many requests happen to arrive early.
for seed in range(3):
    start(*MODEL, *H100, "--requests", "fixed:200:100", "--num-requests", "100", "--max-num-seqs",
          "1", "--arrivals", "gamma:4", "--rate", "0.7", "--seed", str(seed))
# Requests of a file are served at any rate; all others with --allow-overload.
with open("many.csv", "w", encoding="utf-8") as f:
    f.write("arrival_s,input_tokens,output_tokens\n" +
            "".join(f"{i / 200},200,200\n" for i in range(2000)))
note = "note: the server is overloaded: 200 requests/s arrive, but only "
told = start(*MODEL, *H100, *SMALL, "--requests", "many.csv")
check(note in told, told)
told = json.loads(start(*MODEL, *H100, *SMALL, "--requests", "fixed:200:200",
                        "--num-requests", "2000", "--arrivals", "uniform", "--rate", "200",
                        "--allow-overload", "--json"))
check(told["overloaded"] and 10 < told["capacity_per_s"] < 100, f"{told}")
# A run of 300 requests is too short to be refused, but its queue grows. Such a row is neither in
# the front nor the cheapest, even if it meets all limits.
HASTY = [*MODEL, *H100, *SMALL, "--requests", "many.csv", "--num-requests", "300", "--out", "hasty"]
check(not answer(*HASTY)["overloaded"], "a run of 300 requests is overloaded")
for limits, want in (["--slo", "ttft=100s"], "met"), ([], ""):
    told = start(*HASTY, *limits, "--sweep", "dp=1,16")
    table = rows("hasty")
    check([row["overloaded"] for row in table] == ["true", "false"] and
          [row["front"] for row in table] == ["", "1"] and
          [row["meets_slo"] for row in table] == (["false", "true"] if limits else ["", ""]) and
          "overloaded</title>" in open("hasty.sweep.svg", encoding="utf-8").read() and
          re.search(r"\n +1 .* overloaded\n", told) and ": dp 16: 16 GPUs" in told, told)
told = start(*HASTY, "--sweep", "dp=1")
check("\nall possible combinations are overloaded\n" in told, told)

# ---- --find-rate ----

FIND = [*CHAT, *H100, "--slo", "ttft=200ms,tpot=14ms"]
found = json.loads(start(*FIND, "--find-rate", "--json"))
best = found["max_rate"]
check(found["schema"] == "syntorch.serve-rate/1" and len(found["tries"]) < 14, f"{found}")


def holds(rate):
    one = json.loads(start(*FIND, "--rate", str(rate), "--json", "--allow-overload"))
    return one["ttft_ns"]["p90"] <= 200e6 and one["tpot_ns"]["p90"] <= 14e6


grid = [best * factor for factor in (0.5, 0.7, 0.85, 1.0, 1.025, 1.2, 1.6)]
check([holds(rate) for rate in grid] == [True] * 4 + [False] * 3, f"grid around {best}")
for tried in found["tries"]:
    check(tried["holds"] == (tried["rate"] is not None and tried["rate"] <= best), f"{tried}")
told = start(*FIND, "--find-rate")
check(f"highest rate with TTFT p90 <= 200 ms, TPOT p90 <= 14.0 ms: {best:.4g} requests/s" in told,
      told)
start(*CHAT, *SLO, "--sweep", "hw=h100+serving,h200+serving", "--find-rate", "--out", "both",
      "--slo", "ttft=200ms,tpot=14ms")
table = rows("both")
check(number(table[0], "max_rate") == best < number(table[1], "max_rate"), f"{table}")
check(close(number(table[0], "requests_per_s"), best), f"{table[0]}")
# The arrivals of a file are scaled in time.
FIXED = [*MODEL, *H100, "--slo", "ttft=200ms", "--find-rate", "--json", "--num-requests", "400"]
one, two = (json.loads(start(*FIXED, "--requests", *requests)) for requests in (
    ["fixed:200:200", "--arrivals", "uniform"], ["many.csv"]))
check(close(one["max_rate"], two["max_rate"], 0.05) and one["time_scale"] is None,
      f"rates of a workload and of a file with the same requests: {one}, {two}")
scale = two["time_scale"]
again = answer(*FIXED[:6], "--num-requests", "400", "--requests", "many.csv", "--time-scale",
               str(scale))
want, = (t["ttft_percentile_ns"] for t in two["tries"] if t["rate"] == two["max_rate"])
check(close(again["ttft_ns"]["p90"], want), f"--time-scale {scale}: {again}, not {want}")
told = start(*[word for word in FIXED if word != "--json"], "--requests", "many.csv")
check(f"\n--time-scale of this rate: {scale:.6g}\n" in told, told)
start(*FIXED[:-1], "400", "--requests", "many.csv", "--sweep", "tp=1", "--out", "scaled")
check(close(number(rows("scaled")[0], "time_scale"), scale), "time_scale of a row")
# A limit just below the time is printed with more digits.
told = start(*FIND[:-1], f"tpot={found['tries'][0]['tpot_percentile_ns'] - 100:.0f}ns", "--sweep",
             "tp=1")
check(re.search(r"TPOT p90 is (\d+\.\d+) ms, above (\d+\.\d+) ms", told) and
      not re.search(r"TPOT p90 is (\S+) ms, above \1 ms", told), told)
told = start(*CHAT, *H100, "--slo", "ttft=100s", "--find-rate")
check("the limits hold even if all requests arrive at once (200 requests)\nnote: the rate is "
      "uncertain, because 200 requests are too few; give more --num-requests\n" in told, told)
# No rate holds above the lowest capacity that a simulation of an overloaded server measures, even
# if the run is so short that the limits are met.
LOOSE = [*MODEL, *H100, "--requests", "sharegpt-like", "--slo", "ttft=100s", "--max-num-seqs", "32"]
found = answer(*LOOSE, "--find-rate", "--num-requests", "800")
capacity = min(tried["capacity_per_s"] for tried in found["tries"] if tried["overloaded"])
check(0.95 * capacity < found["max_rate"] <= capacity, f"above {capacity}: {found}")
check([tried["holds"] for tried in found["tries"]] == [
    tried["rate"] is not None and tried["rate"] <= found["max_rate"] for tried in found["tries"]],
    f"{found}")
check(any(tried["tpot_percentile_ns"] and (tried["rate"] or 1e9) > capacity
          for tried in found["tries"]) and len(found["notes"]) == 1, f"{found}")
told = start(*LOOSE, "--find-rate", "--num-requests", "800")
check(f"more than the {capacity:.4g} requests/s that the server finishes" in told and
      "note: the rate is uncertain, because 800 requests are too few" in told, told)
told = start(*LOOSE, "--find-rate", "--num-requests", "800", "--sweep", "tp=1,2")
check("note: the max rate of 2 rows is uncertain, because there are too few requests" in told, told)
# A finite rate needs more generated requests than --rate inf.
SHORT = [*MODEL, *H100, "--requests", "fixed:20:2"]
EVEN = [*SHORT, "--arrivals", "uniform", "--rate", "100"]
check([answer(*args)["requests"] for args in (EVEN, [*EVEN, "--duration", "1"], SHORT)] ==
      [10000, 100, 1000], "generated requests")
check([row["requests"] for row in answer(*SHORT, "--sweep", "rate=100,inf")["rows"]] == [10000] * 2,
      "generated requests of a sweep")

# ---- Errors ----

for args, want in (
        (["--sweep", "seed=1,2"], "--sweep cannot vary 'seed'; it can vary tp, dp, ep, prefill"),
        (["--sweep", "tp=1,x"], "--tp must be an integer, not 'x'"),
        (["--sweep", "tp=1,2", "--tp", "2"], "--tp and --sweep tp= set the same option"),
        (["--sweep", "prefill=tp:1,tp:2", "--decode", "tp=1", "--tp", "2"],
         "--tp has no effect with prefill= and decode="),
        (["--sweep", "prefill=tp:1,tp2", "--decode", "tp=1"], "--prefill must be like tp=4,dp=2"),
        (["--sweep", "tp=1,2", "--out", "x", "--trace", "all"], "--trace has no effect with --sw"),
        (["--sweep", "tp=1,2", "--out", "x", "--fold"], "--fold has no effect with --sweep; omit"),
        (["--sweep", "tp=1,2", "--trace-limit", "9"], "--trace_limit has no effect with --sweep"),
        (["--sweep", "tp=1,2", "--timeline-steps", "9"], "--timeline_steps has no effect with"),
        (["--find-rate", "--slo", "tpot=9ms", "--fold"], "--fold has no effect with --find-rate"),
        (["--slo-percentile", "50"], "--slo_percentile has no effect without --sweep or"),
        (["--find-rate"], "--find-rate needs --slo"),
        (["--find-rate", "--slo", "tpot=9ms", "--rate", "3"], "--rate has no effect with --find"),
        (["--find-rate", "--slo", "tpot=9ms", "--sweep", "rate=1,2"], "omit rate= from --sweep"),
        (["--find-rate", "--slo", "tpot=9ms", "--out", "x"], "--out has no effect with --find")):
    said = start(*CHAT, *(H100 if "hw" not in args else []), *args, code=2)
    check(want in said and said.count("\n") == 1, f"{args}: {said}")
for option in (["--sweep", "tp=1,2"], ["--find-rate", "--slo", "tpot=9ms"]):
    said = start(*MODEL, "--requests", "-", *option, code=2)
    check("several times, which standard input does not allow; give a file" in said, said)
with open("empty.csv", "w", encoding="utf-8") as f:
    f.write("arrival_s,input_tokens,output_tokens\n")
said = start(*MODEL, *H100, "--requests", "empty.csv", "--find-rate", "--slo", "tpot=9ms", code=1)
check(said == "syntorch serve: empty.csv has no requests\n", said)
said = start(*CHAT, *H100, "--sweep", "tp=3,5", "--out", "bad/", code=1)
check("--out bad/ must be the beginning of file names" in said, said)
said = start(*CHAT, *H100, "--sweep", "tp=3,5", code=1)
check("--sweep: none of its 2 combinations is possible; the first: model llama-3-8b: tp 3" in said,
      said)
done = subprocess.run([PROGRAM, "serve", *CHAT, *H100, "--sweep", "tp=3,5", "--json"], check=False,
                      capture_output=True, text=True, timeout=300)
one = json.loads(done.stdout)
check(done.returncode == one["error"]["exit_code"] == 1 and len(one["rows"]) == 2 and
      one["model"] == "llama-3-8b" and "none of its 2 comb" in one["error"]["message"], done.stdout)
done = subprocess.run([PROGRAM, "serve", *CHAT, *H100, "--sweep", "tp=3,5"], check=False,
                      capture_output=True, text=True, timeout=300)
check(done.stdout.startswith("llama-3-8b: 2 combinations, 0 possible\n\nnot possible:\n  tp 3: "
                             "model llama-3-8b: tp 3 does not") and "numbered" not in done.stdout,
      done.stdout)
said = start(*CHAT, *H100, "--find-rate", "--slo", "tpot=1ms", code=1)
check("the limits hold at no rate; even with one request at a time, TPOT p90 is 1" in said, said)
said = start(*CHAT, *RATE, "--hw", "h100+serving", "--gpus", "1", "--tp", "2", code=1)
check("the layout has 2 GPUs, but --gpus is 1" in said, said)
finish()
