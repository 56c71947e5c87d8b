"""Tests the files of `syntorch serve --out`: times follow from the steps, sums over bins and over
steps equal the totals of the run, and requests can be served again from their file."""
import csv
import json
import math
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, enter_folder, finish, run  # noqa: E402

enter_folder()
MODEL = ("--model", "llama-3-8b", "--layers", "2", "--hw", "h100+serving")
MIX = ("--requests", "lognormal:300:200:60:40", "--num-requests", "200")


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as f:
        return [{k: float(v) if re.fullmatch(r"[-+.e0-9]+", v) else v for k, v in row.items()}
                for row in csv.DictReader(f)]


def total(rows, key):
    return sum(row[key] for row in rows)


def area(rows, key):
    """The integral of a column of a series over time."""
    return sum(row[key] * (row["end_s"] - row["start_s"]) for row in rows)


def close(a, b, what, tolerance=1e-6):
    check(abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-9), f"{what}: {a} and {b}")


class Served:
    """A run with its result and its files."""

    def __init__(self, name, *args):
        done = run("serve", *args, "--out", name, "--json")
        if not check(done.returncode == 0, f"{args}: {done.stderr.decode()}"):
            finish()
        self.json = json.loads(done.stdout)
        self.requests = read_csv(f"{name}.requests.csv")
        self.series = read_csv(f"{name}.series.csv")
        with open(f"{name}.timeline.json", encoding="utf-8") as f:
            self.timeline = json.load(f)
        self.events = self.timeline["traceEvents"]
        self.svg = open(f"{name}.svg", encoding="utf-8").read()
        self.check_all()

    def steps(self, replica):
        return sorted((e for e in self.events if e["ph"] == "X" and e["pid"] == replica),
                      key=lambda e: e["ts"])

    def check_all(self):
        fullest = max(row["cache_usage_max"] for row in self.series)
        check(self.json["max_cache_usage"] >= fullest - 1e-8, f"the cache was {fullest} full")
        self.check_requests()
        self.check_series()
        if "note" not in self.timeline["otherData"]:
            self.check_timeline()
        self.check_picture()

    def check_requests(self):
        rows, out = self.requests, self.json
        check([row["id"] for row in rows] == list(range(out["requests"])), "order of requests")
        check(all(a["arrival_s"] <= b["arrival_s"] for a, b in zip(rows, rows[1:])), "arrivals")
        for key, name in (("input_tokens", "prompt_tokens"), ("output_tokens", "output_tokens"),
                          ("cached_tokens", "prefix_hit_tokens"), ("preemptions", "preemptions")):
            check(total(rows, key) == out[name], f"{key}: {total(rows, key)}, not {out[name]}")
        for key, name in (("ttft_ms", "ttft_ns"), ("latency_ms", "latency_ns")):
            close(total(rows, key) / len(rows), out[name]["mean"] / 1e6, key)
        for row in rows:
            check(row["arrival_s"] <= row["scheduled_s"] + 1e-9
                  and row["scheduled_s"] < row["first_token_s"] <= row["last_token_s"], f"{row}")

    def check_series(self):
        """Each sum over the bins of all pools is that of the run."""
        rows, out = self.series, self.json
        rows_end = self.requests[0]["arrival_s"] + out["duration_ns"] / 1e9
        pools = {pool["role"]: [r for r in rows if r["pool"] == pool["role"]]
                 for pool in out["pools"]}
        check(sum(map(len, pools.values())) == len(rows), "names of pools")
        for pool in out["pools"]:
            bins = pools[pool["role"]]
            check(512 <= len(bins) <= 1024 or out["duration_ns"] < 31e6, f"{len(bins)} bins")
            check(all(a["end_s"] == b["start_s"] for a, b in zip(bins, bins[1:])), "gaps of bins")
            close(bins[-1]["end_s"], rows_end, "end of the series")
            check(total(bins, "steps") == pool["steps"], f"steps: {total(bins, 'steps')}")
            close(area(bins, "busy"), pool["busy"] * out["duration_ns"] / 1e9, "busy time")
            check(all(0 <= r["cache_usage"] <= r["cache_usage_max"] + 1e-9 <= 1 + 1e-6
                      for r in bins), "use of the cache")
        close(area(rows, "output_tokens_per_s"), out["output_tokens"], "output tokens")
        check(total(rows, "preemptions") == out["preemptions"], "preemptions of the series")
        check(total(rows, "prefix_hit_tokens") == out["prefix_hit_tokens"], "hits of the series")
        if out["preemptions"] > 0:
            return
        close(area(rows, "prompt_tokens_per_s"), out["prompt_tokens"] - out["prefix_hit_tokens"],
              "prompt tokens")
        if len(pools) == 1:
            for state, begin, end in (("waiting", "arrival_s", "scheduled_s"),
                                      ("running", "scheduled_s", "last_token_s")):
                want = total(self.requests, end) - total(self.requests, begin)
                check(abs(area(rows, state) - want) < 1e-6 + 1e-4 * want, f"{state}: {want}")

    def check_timeline(self):
        """Steps of a replica do not overlap, and together they are its busy time."""
        first, phases, open_slices = 0, {}, {}
        for pool in self.json["pools"]:
            busy, tokens, n = 0, 0, 0
            for replica in range(first, first + pool["dp"]):
                steps = self.steps(replica)
                check(all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in zip(steps, steps[1:])),
                      f"steps of replica {replica} overlap")
                busy += total(steps, "dur")
                tokens += sum(e["args"]["tokens"] for e in steps)
                n += len(steps)
            close(busy, pool["busy"] * pool["dp"] * self.json["duration_ns"] / 1e3, "busy time")
            check(n == pool["steps"] and tokens == pool["step_tokens"], f"{n} steps of {tokens}")
            first += pool["dp"]
        for e in self.events:
            if e["ph"] == "b":
                open_slices.setdefault((e["pid"], e["id"]), []).append(e)
            if e["ph"] == "e":
                begun = open_slices[e["pid"], e["id"]].pop()
                check(begun["name"] == e["name"] and begun["ts"] <= e["ts"], f"slice {e}")
                phases.setdefault(e["id"], []).append((begun["ts"], e["ts"], e["name"]))
        check(not any(open_slices.values()), "a slice has no end")
        for row in self.requests:
            mine = [p for p in phases[row["id"]] if p[2] != "request"]
            check(all(a[1] == b[0] for a, b in zip(mine, mine[1:])), f"gaps of {mine}")
            check(abs(mine[0][0] - 1e6 * row["arrival_s"]) < 2e-3
                  and abs(mine[-1][1] - 1e6 * row["last_token_s"]) < 2e-3, f"{mine}: {row}")

    def check_picture(self):
        check(not re.search(r"\b(nan|inf)\b", self.svg), "numbers of the picture")
        root = ElementTree.fromstring(self.svg)
        height = float(root.get("height"))
        texts = [e for e in root if e.tag.endswith("text")]
        check(all(0 < float(e.get("y")) < height for e in texts), "texts outside of the picture")
        check(texts[0].text.startswith(self.json["model"]), f"title {texts[0].text}")


def test_one_request():
    s = Served("one", *MODEL, "--requests", "fixed:100:5", "--num-requests", "1")
    row, steps = s.requests[0], s.steps(0)
    ends = [step["ts"] + step["dur"] for step in steps]
    check([e["name"] for e in steps] == ["prefill 100"] + 4 * ["decode 1"], f"{steps}")
    check(row["arrival_s"] == row["scheduled_s"] == 0, f"{row}")
    close(row["ttft_ms"], ends[0] / 1e3, "TTFT")
    close(row["tpot_ms"], (ends[4] - ends[0]) / 4 / 1e3, "TPOT")
    close(row["latency_ms"], total(steps, "dur") / 1e3, "latency")
    for e in steps:
        close(sum(e["args"][f"{k}_ms"] for k in ("compute", "memory", "launches", "communication")),
              e["dur"] / 1e3, "limits of a step", 1e-5)
    s = Served("token", *MODEL, "--requests", "fixed:100:1", "--num-requests", "1")
    check(s.requests[0]["tpot_ms"] == "", "TPOT of one token")


def test_replicas():
    """Also gaps in which a replica is idle."""
    s = Served("two", *MODEL, *MIX, "--dp", "2", "--rate", "40")
    check({row["replica"] for row in s.requests} == {0, 1}, "both replicas serve")
    check(s.json["pools"][0]["busy"] < 1, "the replicas are sometimes idle")
    idle = sum(b["ts"] - a["ts"] - a["dur"] for a, b in zip(s.steps(0), s.steps(0)[1:]))
    check(idle > 1000, f"{idle} us between steps")


def test_served_again():
    """The file of requests has all properties of the requests, and their arrivals exactly."""
    args = (*MODEL, "--scheduling-policy", "priority", "--max-num-seqs", "16")
    first = Served("first", *args, *MIX, "--rate", "300", "--prefixes", "4:128", "--priorities",
                   "0:0.5,3:0.5")
    second = Served("second", *args, "--requests", "first.requests.csv")
    check(first.requests == second.requests, "served again, requests have other times")
    check(first.json["prefix_hit_tokens"] > 0, "prefixes are found")
    check({row["priority"] for row in first.requests} == {0, 3}, "priorities")
    for name in ("ttft_ns", "tpot_ns", "latency_ns"):
        one = second.json["measured"][name]
        check(one["requests"] == 200 and abs(one["difference"]) < 1e-6, f"{name}: {one}")


def test_ids_served_again():
    """Ids of blocks: the same hits and the same times from the file of requests."""
    with open("ids.jsonl", "w", encoding="utf-8") as f:
        for i in range(60):
            ids = [i % 3, 10 + i % 6, 20 + i][:(i + 1) % 4]
            row = {"chat_id": i, "timestamp": i / 200, "input_length": 16 * len(ids) + 200 - i,
                   "output_length": 50 - i % 30, "hash_ids": ids}
            f.write(json.dumps(row) + "\n")
    first = Served("ids", *MODEL, "--requests", "ids.jsonl", "--max-num-seqs", "8")
    again = Served("ids2", *MODEL, "--requests", "ids.requests.csv", "--max-num-seqs", "8")
    check(first.json["prefix_hit_tokens"] > 500, f"{first.json['prefix_hit_tokens']} hits")
    check(first.requests == again.requests, "served again, requests have other times")
    check(first.requests[2]["hash_ids"] == "2 12 22"
          and first.requests[2]["hash_block_tokens"] == 16, f"{first.requests[2]}")
    check("" in {row["hash_ids"] for row in first.requests}, "a request without ids")


def test_late_start():
    """Rates and shares count from the first arrival."""
    for name, start in (("early.csv", 0), ("late.csv", 500)):
        with open(name, "w", encoding="utf-8") as f:
            f.write("arrival_s,input_tokens,output_tokens\n")
            f.writelines(f"{start + i / 8},100,50\n" for i in range(20))
    early, late = (Served(name, *MODEL, "--requests", f"{name}.csv").json
                   for name in ("early", "late"))
    for key in ("duration_ns", "requests_per_s", "output_tokens_per_s", "goodput_per_s"):
        close(early[key], late[key], key, 1e-4)
    close(early["pools"][0]["busy"], late["pools"][0]["busy"], "busy", 1e-4)


def test_preemptions():
    s = Served("full", *MODEL, *MIX, "--num-gpu-blocks", "400")
    check(s.json["preemptions"] > 0, "no preemption")
    check(f"{s.json['preemptions']} preemptions" in s.svg, "preemptions of the picture")


def test_drafts():
    s = Served("drafts", *MODEL, *MIX, "--rate", "100", "--num-speculative-tokens", "3")
    check(0 < s.json["accepted_draft_tokens"] < s.json["draft_tokens"], "accepted drafts")


def test_two_pools():
    s = Served("split", *MODEL, *MIX, "--rate", "100", "--prefill", "tp=1,dp=2", "--decode", "tp=2",
               "--prefixes", "4:128")
    check({row["prompt_replica"] for row in s.requests} == {0, 1}, "replicas of prompts")
    for row in s.requests:
        if row["output_tokens"] > 1:
            check(row["replica"] == 2 and row["first_token_s"] < row["received_s"]
                  < row["last_token_s"], f"{row}")
    check(area([r for r in s.series if r["pool"] == "decode"], "prompt_tokens_per_s") == 0,
          "prompts of the decode pool")
    close(s.json["exposed_kv_transfer_ns"],
          1e9 * sum(r["received_s"] - r["first_token_s"] for r in s.requests
                    if r["output_tokens"] > 1), "time of transfers", 1e-2)


def test_transferred_bytes():
    """Each rank that generates gets its key/value heads, or all latents (576 elements a layer)."""
    for model, layers, tp, elements in (("llama-3-8b", 32, (2, 4), 2 * 8 * 128),
                                        ("deepseek-v2-lite", 27, (1, 2), 2 * 576)):
        done = run("serve", "--model", model, "--hw", "h100", "--requests", "fixed:100:3",
                   "--num-requests", "5", "--prefill", f"tp={tp[0]}", "--decode", f"tp={tp[1]}",
                   "--json")
        got = json.loads(done.stdout).get("kv_transfer_bytes")
        check(got == 5 * 100 * layers * elements * 2, f"{model}: {got} bytes")


def test_shared_experts():
    s = Served("experts", "--model", "qwen3-30b-a3b", "--layers", "1", "--hw", "h100+serving",
               *MIX, "--rate", "100", "--dp", "2", "--ep", "2")
    check(s.json["pools"][0]["ep"] == 2, "ep")


def test_cut_timeline():
    s = Served("cut", *MODEL, *MIX, "--rate", "100", "--timeline-steps", "50")
    steps = [e for e in s.events if e["ph"] == "X"]
    note = s.timeline["otherData"]["note"]
    check(len(steps) == 50 and s.json["notes"] == [note], f"{len(steps)} steps: {note}")
    end = max(e["ts"] + e["dur"] for e in steps)
    arrived = [row for row in s.requests if 1e6 * row["arrival_s"] < end]
    begun = {e["id"] for e in s.events if e["ph"] == "b"}
    check(len(begun) == len(arrived) < len(s.requests), f"{len(begun)} requests")


def test_failures_leave_no_files():
    with open("bad.csv", "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens\n0,10,10\n1,x,10\n")
    before = {name: os.path.getmtime(name) for name in os.listdir()}
    done = run("serve", *MODEL, "--requests", "bad.csv", "--out", "one")
    check(done.returncode == 1 and b"bad.csv:3" in done.stderr, f"{done.stderr}")
    with open("long.csv", "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens\n0,10,10\n1,8000,500\n2,1000,100\n")
    before["long.csv"] = os.path.getmtime("long.csv")
    done = run("serve", *MODEL, "--requests", "long.csv", "--out", "one")
    check(done.returncode == 1 and b"long.csv:3: 8000 prompt and 500 output" in done.stderr,
          f"{done.stderr}")
    done = run("serve", *MODEL, "--requests", "long.csv", "--out", "one", "--num-gpu-blocks", "100",
               "--max-model-len", "8500")
    check(done.returncode == 1 and b"8500 exceeds the 8192 positions" in done.stderr,
          f"{done.stderr}")
    with open("long.csv", "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens\n0,10,10\n1,8000,100\n")
    before["long.csv"] = os.path.getmtime("long.csv")
    done = run("serve", *MODEL, "--requests", "long.csv", "--out", "one", "--num-gpu-blocks", "100")
    check(done.returncode == 1 and b"exceed the KV cache of 1584 tokens" in done.stderr,
          f"{done.stderr}")
    done = run("serve", *MODEL, "--requests", "one.requests.csv", "--out", "one")
    check(done.returncode == 1 and b"never overwritten" in done.stderr, f"{done.stderr}")
    after = {name: os.path.getmtime(name) for name in os.listdir()}
    check(before == after, f"files changed: {set(after) - set(before)}")


def test_kv_blocks():
    """vLLM's formula (vllm/v1/core/kv_cache_utils.py), with the parameters of the checkpoints."""
    for model, params, layers, heads in (("llama-3.1-8b", 8030261248, 32, 8),
                                         ("qwen3-32b", 32762123264, 64, 8),
                                         ("qwen3-0.6b", 596049920, 28, 8)):
        for gib, share, activations, block in ((80, 0.9, 1.5, 16), (95.25, 0.85, 0.75, 32)):
            done = run("serve", "--model", model, "--hw", "h100", "--requests", "fixed:4:2",
                       "--num-requests", "1", "--device-memory", str(gib), "--block-size",
                       str(block), "--gpu-memory-utilization", str(share), "--activation-memory",
                       str(activations), "--json")
            left = math.ceil(gib * 2**30 * share) - 2 * params - int(activations * 2**30)
            want = left // (2 * heads * 128 * 2 * block) // layers
            got = json.loads(done.stdout).get("kv_blocks")
            check(got == want, f"{model}, {gib} GiB: {got} blocks instead of {want}")


def test_measured_times():
    with open("measured.csv", "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens,first_token_s,last_token_s\n"
                "0,100,5,0.002,0.010\n0,100,1,0.004,0.004\n")
    done = run("serve", *MODEL, "--requests", "measured.csv", "--json")
    found = json.loads(done.stdout)["measured"]
    check(math.isclose(found["ttft_ns"]["measured_mean"], 3e6), f"{found}")
    check(math.isclose(found["tpot_ns"]["measured_mean"], 2e6), f"{found}")
    check(found["tpot_ns"]["requests"] == 1 and found["latency_ns"]["requests"] == 2, f"{found}")
    for one in found.values():
        check(math.isclose(one["difference"], one["predicted_mean"] / one["measured_mean"] - 1),
              f"{found}")
    text = run("serve", *MODEL, "--requests", "measured.csv").stdout.decode()
    check(re.search(r"TTFT +3\.00 ms", text), text)


def test_defaults():
    """Limits of steps are those of vLLM's API server (EngineArgs.get_batch_defaults, 0.19), and
    machines without bf16 compute in f16."""
    small, large = (256, 2048), (1024, 8192)
    for hw, options, dtype, want in (
            ("h100", (), "bf16", large), ("a100-80g", (), "bf16", small),
            ("rtx4090", (), "bf16", small), ("v100-32g", (), "f16", small),
            ("v100-32g", ("--dtype", "f32"), "f32", small),
            ("h100", ("--device-memory", "69"), "bf16", small),
            ("rtx4090", ("--no-chunked-prefill",), "bf16", (256, 8192)),
            ("h100", ("--max-num-batched-tokens", "100"), "bf16", (100, 100)),
            ("a100-80g", ("--max-num-seqs", "7"), "bf16", (7, 2048))):
        one = json.loads(run("serve", *MODEL[:4], "--hw", hw, "--requests", "fixed:90:2",
                             "--num-requests", "3", *options, "--json").stdout)
        found = (one["max_num_seqs"], one["max_num_batched_tokens"])
        check(found == want and one["dtype"] == dtype, f"{hw} {options}: {one['dtype']}, {found}")


def test_refused():
    for code, says, options in (
            (1, "llama-3-8b has no experts: ep has no effect", ("--dp", "4", "--ep", "4")),
            (1, "ep 2 does not divide the 1 ranks of tp 1 x dp 1", ("--ep", "2")),
            (1, "--max-num-batched-tokens 64 is less than --max-num-seqs 100",
             ("--max-num-seqs", "100", "--max-num-batched-tokens", "64")),
            (1, "--max-model-len 8193 exceeds the 8192 positions", ("--max-model-len", "8193")),
            (1, "the draft model gpt2 has a vocabulary of 50257 tokens, and llama-3-8b one of",
             ("--num-speculative-tokens", "2", "--draft-model", "gpt2")),
            (1, "which leaves no KV cache: use a larger tp, a smaller",
             ("--gpu-memory-utilization", "0.001")),
            (2, "--slo must be like", ("--slo", "tpot=5")),
            (2, "--slo must be like", ("--slo", "tpot=5ms,tpot=6ms")),
            (2, "--prefill must be like", ("--prefill", "", "--decode", "tp=1")),
            (2, "--decode must be like", ("--prefill", "tp=1", "--decode", "tp=1,tp=2"))):
        done = run("serve", *MODEL, "--requests", "fixed:90:2", *options)
        check(done.returncode == code and says in done.stderr.decode() and not done.stdout,
              f"{options}: {done.returncode}, {done.stderr}")
    with open("gpu.csv", "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens,gpu\n0,10,10,H100\n")
    one = json.loads(run("serve", *MODEL[:4], "--requests", "gpu.csv", "--json").stdout)
    check(one["hardware"] == "h100", f"{one}")
    with open("gpu.csv", "w", encoding="utf-8") as f:
        f.write("arrival_s,input_tokens,output_tokens,gpu\n0,10,10,H9000\n")
    done = run("serve", *MODEL[:4], "--requests", "gpu.csv")
    check(done.returncode == 1 and b"column gpu of gpu.csv: " in done.stderr, f"{done.stderr}")


def test_cut_requests():
    """A request of 8000 + 200 tokens is cut to the 8192 positions of the model."""
    args = (*MODEL, "--requests", "uniform:8000-8000:200-200", "--num-requests", "3")
    text = run("serve", *args).stdout.decode()
    check("note: 3 of 3 generated requests were cut to the 8192 positions of the model" in text,
          text)
    check(json.loads(run("serve", *args, "--json").stdout)["cut_requests"] == 3, "cut_requests")
    done = run("serve", *MODEL, "--requests", "fixed:8000:200")
    check(done.returncode == 1 and b"8000 prompt and 200 output tokens exceed the 8192 positions"
          in done.stderr, f"{done.stderr}")


test_kv_blocks()
test_defaults()
test_refused()
test_one_request()
test_replicas()
test_served_again()
test_ids_served_again()
test_late_start()
test_preemptions()
test_drafts()
test_two_pools()
test_transferred_bytes()
test_shared_experts()
test_cut_timeline()
test_failures_leave_no_files()
test_measured_times()
test_cut_requests()
finish()
