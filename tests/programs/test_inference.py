"""Tests the inference program as a user runs it: printed tables and JSON, saved logits, and the
files of --visualize_trace. Runs on several ranks are compared with runs on one rank."""
import re

from inference_runs import *  # noqa: F403

def test_default_run():
    with Folder() as f:
        out = expect_ok(f.run())
        for part in ("gpt3-tiny", '"Once upon a time"', "prefill: 16 tokens", "decode:  15 tokens",
                     "tokens/s", "linear", "fused attention", "total", "flop/s"):
            assert part in out, f"{part!r} is not in\n{out}"
        assert "all_reduce" not in out
        assert not f.files(), f.files()
        assert all(c >= " " or c == "\n" for c in out), "control characters in the output"


def test_attention_is_fused_unless_its_ops_are_to_be_seen():
    separate = {"matmul", "scale_mask", "softmax"}
    bert = ["--model", "bert-base-uncased", "--device", "meta"]
    with Folder() as f:
        for how, fused in (([], True), (["--device", "meta"], True),
                           (["--visualize_trace", "--out_dir", "out"], False),
                           (["--debug"], False), (["--attention", "unfused"], False),
                           (["--attention", "auto"], True),
                           (["--attention", "fused", "--debug"], True), (bert, True),
                           (bert + ["--debug"], False)):
            s = summary(f, "--num_output_tokens" if how[:1] != ["--model"] else "--top_k", 2, *how)
            ops = {o["op"] for o in s["ops"]}
            assert s["attention"] == ("fused" if fused else "unfused"), how
            assert ("attention" in ops) == fused \
                and (ops & separate >= {"matmul", "scale_mask"}) == (not fused), (how, ops)
        drawn = {n.get("op") for n in load_json(f / "out/tensor_trace_graph.json")["nodes"]}
        assert drawn >= separate and "attention" not in drawn


def test_tp_is_reported_and_counted():
    with Folder() as f:
        for tp in (2, 4):
            out = expect_ok(f.run("--tp", tp))
            for part in (f"tp {tp}", "all_reduce", "all_gather", "broadcast", f"on {tp} ranks"):
                assert part in out, f"{part!r} is not in\n{out}"


def test_help_and_version():
    with Folder() as f:
        text = expect_ok(f.run("--help"))
        for name in ("num_input_tokens", "num_output_tokens", "tp", "device", "temperature",
                     "top_k", "top_p", "visualize_trace", "hw", "model_config", "model",
                     "tokenizer", "prompt", "batch_size", "seed", "out_dir", "save_logits",
                     "attention", "debug", "help"):
            assert f"--{name}" in text, name
        assert text == expect_ok(f.run("-h"))
        assert max(len(line) for line in text.splitlines()) <= 80
        assert expect_ok(f.run("--version")).startswith("inference 0.")


def test_dashes_and_underscores():
    with Folder() as f:
        a = summary(f, "--num_input_tokens", 5, "--num_output_tokens", 3, "--batch_size", 2,
                    "--top_k", 4)
        b = summary(f, "--num-input-tokens=5", "--num-output-tokens=3", "--batch-size=2",
                    "--top-k=4")
        c = summary(f, "--num_input-tokens", 5, "--num-output_tokens", 3, "--batch_size=2",
                    "--top_k", 4)
        assert a["tokens"] == b["tokens"] == c["tokens"]
        assert a["trace_hash"] == b["trace_hash"] == c["trace_hash"]


def test_json():
    with Folder() as f:
        s = summary(f, "--tp", 2, "--batch_size", 3, "--num_output_tokens", 5)
        assert s["model"] == "gpt3-tiny" and s["tp"] == 2 and s["ranks"] == 2 \
            and s["device"] == "cpu"
        assert [len(t) for t in s["tokens"]] == [5, 5, 5] and s["new_tokens"] == 5 \
            and s["prompt_tokens"] == 16
        assert all(0 <= t < 256 for row in s["tokens"] for t in row)
        assert len(set(s["trace_hash"])) == 2 and all(re.fullmatch("[0-9a-f]{16}", h)
                                                      for h in s["trace_hash"])
        ops = {o["op"]: o for o in s["ops"]}
        # each of the 5 steps has two for each of the 2 layers and one for the embedding
        assert ops["all_reduce"]["calls"] == 5 * 5
        assert ops["all_reduce"]["comm_bytes"] == 5 * 4 * 128 * 3 * (16 + 4)
        assert s["prefill_ns"] > 0 and s["decode_ns"] > 0


def test_what_nothing_is_written_from_is_forgotten():
    """Unless files are requested, the rows of a step are counted and then dropped. What is printed
    is the same, and memory does not grow with the number of tokens."""
    with Folder() as f:
        for more in (["--tp", 2], ["--device", "meta", "--tp", 2], ["--hw", "h100"]):
            runs = [summary(f, "--attention", "fused", *more, *kept)
                    for kept in ([], ["--visualize_trace", "--out_dir", "out"])]
            for key in ("trace_hash", "nodes", "ranks", "tokens", "new_tokens"):
                assert runs[0][key] == runs[1][key], (more, key)
            counts = [sorted((o["op"], o["calls"], o["flops"], o["bytes"], o["comm_bytes"],
                              o["predicted_ns"]) for o in run["ops"]) for run in runs]
            assert counts[0] == counts[1] and counts[0], more
            if "memory" in runs[0]:
                sizes = ("weights_bytes", "cache_bytes", "largest_activation_bytes", "peak_bytes")
                assert [runs[0]["memory"][k] for k in sizes] == \
                    [runs[1]["memory"][k] for k in sizes], more
        # If they were kept, the rows of 3000 more tokens, 125,000 nodes, would need 10 MB.
        f.write("long.json", config(n_positions=4096, n_embd=32, n_inner=64))
        taken = []
        for tokens in (100, 3100):
            s = summary(f, "--model_config", "long.json", "--num_output_tokens", tokens)
            taken.append(s["memory"]["process_peak_bytes"] - s["memory"]["cache_bytes"])
            assert s["nodes"] > 40 * tokens
        assert SANITIZED or taken[1] - taken[0] < 4e6, taken


def test_tokens_do_not_depend_on_tp():
    with Folder() as f:
        for how in ([], ["--temperature", 0],
                    ["--top_k", 8, "--top_p", "0.9", "--temperature", "0.7"],
                    ["--attention", "fused"]):
            runs = [summary(f, "--tp", tp, "--batch_size", 2, *how)["tokens"] for tp in (1, 2, 4)]
            assert runs[0] == runs[1] == runs[2], how
        first, second = (summary(f, "--seed", s)["tokens"] for s in (1, 2))
        assert first != second
        # each sequence of a batch is sampled with random numbers of its own
        assert len({tuple(t) for t in summary(f, "--batch_size", 4)["tokens"]}) > 1
        greedy = summary(f, "--batch_size", 4, "--temperature", 0)["tokens"]
        assert len({tuple(t) for t in greedy}) == 1


def test_saved_logits():
    with Folder() as f:
        config = json.load(open(TINY))
        config.update(vocab_size=257, n_inner=200)  # 257 is padded for tp 2 and 4
        path = f.write("config.json", json.dumps(config))
        saved = []
        for tp in (1, 2, 4):
            expect_ok(f.run("--model_config", path, "--tp", tp, "--batch_size", 2, "--save_logits",
                            f"l{tp}.npy", "--quiet"))
            shape, values = read_npy(f / f"l{tp}.npy")
            assert shape == (2, 257), shape
            assert values[:257] == values[257:]  # both sequences have the same prompt
            saved.append(values)
        largest = max(abs(v) for v in saved[0])
        for values in saved[1:]:
            error = max(abs(a - b) for a, b in zip(saved[0], values)) / largest
            assert error <= 1e-5, error
        try:
            import numpy
        except ImportError:
            return
        array = numpy.load(f / "l2.npy")
        assert array.shape == (2, 257) and array.dtype == numpy.float32 \
            and tuple(array.ravel()) == saved[1]


def test_prompt_is_cut_or_repeated():
    with Folder() as f:
        assert 'prompt:  "abcabcab"' in expect_ok(f.run("--prompt", "abc", "--num_input_tokens", 8))
        assert 'prompt:  "ab"' in expect_ok(f.run("--prompt", "abc", "--num_input_tokens", 2))
        # The model has 256 positions. They suffice for 257 tokens, as the last is never an input.
        expect_ok(f.run("--num_input_tokens", 256, "--num_output_tokens", 1, "--quiet"))
        expect_ok(f.run("--num_input_tokens", 1, "--num_output_tokens", 256, "--quiet"))
        assert 'prompt:  "\\x1b[31m\\n' in expect_ok(f.run("--prompt", "\x1b[31m\n"))


def test_debug_and_quiet():
    with Folder() as f:
        r = f.run("--debug", "--num_output_tokens", 1)
        assert expect_ok(r) and r.stderr.decode().count("\n") > 50 \
            and "h.1.attn" in r.stderr.decode()
        r = f.run("--quiet")
        assert expect_ok(r) == "" and not r.stderr


def test_gpt2_tokenizer():
    data = os.environ.get("SYN_SHARED_DATA")
    if not data:
        raise Skip("SYN_SHARED_DATA is not set")
    with Folder() as f:
        s = summary(f, "--device", "meta", "--model", "gpt2", "--tokenizer", data + "/gpt2",
                    "--prompt", "Once upon a time")
        assert s["prompt_tokens"] == 4
        line = refuse(f, ["--tokenizer", data + "/gpt2"], 1, "50257", "256")
        assert "gpt3-tiny" in line


def test_meta_needs_no_memory_for_the_model():
    with Folder() as f:
        s = summary(f, "--device", "meta", "--model", "gpt3-175b", "--tp", 8, "--num_input_tokens",
                    2048 - 1,
                    "--num_output_tokens", 2, "--batch_size", 1000, "--hw", "a100-80g",
                    limit=None if SANITIZED else 1500000)
        assert s["predicted_prefill_ns"] > 1e9 and s["predicted_decode_ns"] > 0 \
            and s["ranks"] == 8 and s["tokens"] == []


def test_meta_predicts_times_for_a_default():
    """Without --hw, meta predicts times for a default machine. Without times, simulators would
    assume that computation takes no time."""
    with Folder() as f:
        args = ["--device", "meta", "--tp", 2, "--num_output_tokens", 2]
        out = expect_ok(f.run(*args, "--visualize_trace", "--out_dir", "out"))
        assert "predictions for a100-80g+serving (the default; --hw chooses)" in out \
            and "predicted prefill:" in out, out
        assert "predicted for a100-80g+serving" in out.split("ops of rank 0")[1].split("\n")[0], out
        stat = json.loads(subprocess.run([os.path.join(BUILD, "syntorch"), "stat", f / "out/trace",
                                          "--json"], check=True,
                                         capture_output=True).stdout)
        for rank in stat["ranks"]:
            fused = sum(op["count"] for op in rank["ops"]
                        if op["name"].split("/")[-1] in ("add", "kv_append"))
            assert {"name": "hardware", "value": "a100-80g"} in rank["metadata"] \
                and rank["timed_nodes"] == rank["nodes"] - fused, rank
        for name, read in (("tensor_trace_graph.json", lambda d: d["graph"]["metadata"]),
                           ("timeline.json", lambda d: d["otherData"]["metadata"])):
            with open(f / f"out/{name}", encoding="utf-8") as file:
                assert read(json.load(file))["hardware"] == "a100-80g", name
        named = summary(f, *args, "--hw", "a100-80g")
        assert summary(f, *args) == named and named["predicted_prefill_ns"] > 0
        assert (named["hardware"], named["stack"]) == ("a100-80g", "serving")
        other = summary(f, *args, "--hw", "h100+megatron")
        assert (other["hardware"], other["stack"]) == ("h100", "megatron")
        assert other["predicted_decode_ns"] != named["predicted_decode_ns"]
        assert "hardware" not in summary(f, "--num_output_tokens", 1)


def test_waiting_stands_apart():
    """The time of a collective is the time of its transfer. The time that it waits for other ranks
    is reported separately."""
    def about(a, b, slack=1e-4):
        return abs(a - b) <= slack * max(abs(a), abs(b)) + 1e-6

    with Folder() as f:
        args = ["--tp", 3, "--num_output_tokens", 3, "--visualize_trace", "--out_dir", "out",
                "--model_config", "odd.json"]
        f.write("odd.json", json.dumps({"n_layer": 2, "n_embd": 96, "n_head": 6, "n_positions": 64,
                                        "vocab_size": 300}))
        s = json.loads(expect_ok(f.run(*args, "--json")))
        with open(f / "out/tensor_trace_graph.json", encoding="utf-8") as file:
            ops = [n for n in json.load(file)["nodes"] if n["type"] == "op"
                   and not n.get("virtual")]
        with open(f / "out/timeline.json", encoding="utf-8") as file:
            slices = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
        assert any(n.get("wait_ns", 0) > 0 for n in ops)
        for n in ops:
            if n.get("wait_ns", 0) > 0:
                assert about(n["transfer_ns"] + n["wait_ns"], n["wall_ns"]), n
            else:
                assert "transfer_ns" not in n, n
        for row in s["ops"]:
            mine = [n for n in ops if n["rank"] == 0 and n["op"] == row["op"]]
            assert len(mine) == row["calls"]
            assert about(row["time_ns"], sum(n.get("transfer_ns", n["wall_ns"]) for n in mine)), row
            assert about(row["wait_ns"], sum(n["wait_ns"] for n in mine)), row
        # Each ns is once in the timeline, in a wait or in the op. Slices are rounded to whole ns.
        for rank in range(3):
            waits = sum(e["dur"] for e in slices if e["pid"] == rank and e["name"] == "wait") * 1000
            rest = sum(e["dur"] for e in slices if e["pid"] == rank and e["name"] != "wait") * 1000
            mine = [n for n in ops if n["rank"] == rank]
            assert abs(waits - sum(n["wait_ns"] for n in mine)) <= 2 * len(mine), (rank, waits)
            assert abs(rest - sum(n.get("transfer_ns", n["wall_ns"])
                                  for n in mine)) <= 3 * len(mine), (rank, rest)
        command = [os.path.join(BUILD, "syntorch"), "stat", f / "out/trace"]
        stat = json.loads(subprocess.run([*command, "--json"], check=True,
                                         capture_output=True).stdout)
        for of, numbers in [(rank["rank"], rank)
                            for rank in stat["ranks"]] + [(None, stat["total"])]:
            mine = [n for n in ops if of in (None, n["rank"])]
            assert abs(numbers["waiting_us"] - sum(n["wait_ns"] for n in mine) / 1000) <= 1, \
                (of, numbers["waiting_us"])
            reduces = [n for n in mine if n["op"] == "all_reduce"]
            row = numbers["collectives"]["ALL_REDUCE"]
            assert row["count"] == len(reduces)
            assert abs(row["waiting_us"] - sum(n["wait_ns"] for n in reduces) / 1000) <= 1, row
            assert abs(row["us"] - sum(n.get("transfer_ns", n["wall_ns"])
                                       for n in reduces) / 1000) <= len(reduces), row
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for part in ("(all: sums over the ranks; critical path: the longest of one rank)",
                     "collectives, sums over 3 ranks ", "groups, sums over 3 ranks ",
                     "ops by time, sums over 3 ranks ", "ops by count, sums over 3 ranks ",
                     "+wait us"):
            assert part in text, text
        one = subprocess.run([*command[:2], f / "out/trace.1.et"], check=True, capture_output=True,
                             text=True).stdout
        assert "sums over" not in one and "+wait us" in one, one
        assert "+wait" in expect_ok(f.run(*args[:4], "--model_config",
                                             "odd.json")).split("ops of rank 0")[1].split("\n")[1]


def test_visualize_trace_writes_what_it_promises():
    with Folder() as f:
        for tp, more in ((1, []), (2, ["--attention", "fused", "--batch_size", 2]),
                         (4, ["--num_output_tokens", 3])):
            out = expect_ok(f.run("--tp", tp, "--visualize_trace", "--out_dir", f"new/{tp}", *more))
            check_folder(f / f"new/{tp}", tp)
            for name in ("tensor_trace_graph.json", "tensor_trace_graph.png", "timeline.json",
                         "trace.html", "trace.comm_group.json"):
                assert f"new/{tp}/{name}" in out, f"{name} is not said to be written"
        # A second run that replaces the files writes the same names and no others.
        expect_ok(f.run("--tp", 4, "--visualize_trace", "--out_dir", "new/4", "--quiet"))
        check_folder(f / "new/4", 4)
    with Folder() as f:  # without --out_dir: into the current folder
        os.remove(f / "examples")
        expect_ok(f.run("--model_config", TINY, "--visualize_trace", "--quiet"))
        check_folder(f.path, 1)


def test_chakra_json_holds_the_same_nodes():
    with Folder() as f:
        expect_ok(f.run("--tp", 2, "--visualize_trace", "--quiet", "--device", "meta",
                        "--num_output_tokens", 2))
        command = os.path.join(BUILD, "syntorch")
        subprocess.run([command, "export", "--input", f / "tensor_trace_chakra.json", "--output",
                        f / "back.et"], check=True)
        for r in range(2):
            with open(f / f"back.{r}.et", "rb") as a, open(f / f"trace.{r}.et", "rb") as b:
                assert a.read() == b.read(), f"rank {r}"


if __name__ == "__main__":
    main(globals())
