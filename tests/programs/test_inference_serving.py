"""Tests inference --requests: each request gets the tokens that its prompt gets alone, whatever the
scheduler does, and times and files fit together."""
import csv
import random

from tool_runs import *  # noqa: F403

CONFIGS = ["gpt2-mini", "gpt3-tiny", "llama-tiny", "mistral-tiny", "neox-tiny", "qwen2-tiny",
           "qwen3-tiny"]
# How the requests are scheduled, and what must have happened.
SCHEDULES = [
    (["--max_num_batched_tokens", 7, "--block_size", 4], {"prefix_hit_tokens"}),
    (["--max_num_batched_tokens", 16, "--num_gpu_blocks", 13, "--block_size", 5,
      "--no_prefix_caching"], {"preemptions"}),
    (["--num_gpu_blocks", 32, "--block_size", 2, "--policy", "sglang", "--max_num_seqs", 6],
     {"prefix_hit_tokens"}),
    (["--policy", "static", "--max_num_seqs", 3, "--block_size", 1], {"prefix_hit_tokens"}),
    (["--no_chunked_prefill", "--max_num_batched_tokens", 60, "--tp", 2], {"decode_steps"}),
    (["--long_prefill_token_threshold", 3, "--scheduling_policy", "priority"], {"prompt_steps"}),
]
N = 9


def write_model(f, name):
    """A configuration whose random weights do not repeat one token."""
    with open(f / f"examples/configs/{name}.json", encoding="utf-8") as file:
        config = json.load(file)
    config["initializer_range"] = 0.3
    f.write("model.json", json.dumps(config))
    return config["vocab_size"]


def write_requests(f, vocab):
    """Writes prompts, of which every other one begins like the first, and their requests. Returns
    the numbers of output tokens."""
    draw = random.Random(1)
    prompts, rows, outputs = [], ["arrival_s,input_tokens,output_tokens,priority"], []
    for i in range(N):
        ids = [draw.randrange(vocab) for _ in range(draw.randint(9, 30))]
        prompts.append(prompts[0][:8] + ids[8:] if i % 2 and prompts else ids)
        outputs.append(draw.randint(1, 28))
        rows.append(f"0,1,{outputs[-1]},{i % 3}")
    f.write("prompts.txt", "".join(" ".join(map(str, ids)) + "\n" for ids in prompts))
    f.write("requests.csv", "\n".join(rows) + "\n")
    for i, ids in enumerate(prompts):
        f.write(f"{i}.txt", " ".join(map(str, ids)) + "\n")
    return outputs


MODEL = ["--model_config", "model.json", "--seed", 3, "--json", "--eos", "none"]


def serve(f, *options):
    return json.loads(expect_ok(f.run(*MODEL, "--requests", "requests.csv", "--prompt_ids",
                                      "prompts.txt", *options)))


def test_each_request_gets_the_tokens_of_its_prompt_alone():
    distinct = set()
    for name in CONFIGS:
        with Folder() as f:
            outputs = write_requests(f, write_model(f, name))
            want = [json.loads(expect_ok(f.run(*MODEL, "--prompt_ids", f"{i}.txt", "--greedy",
                                               "--num_output_tokens", n)))["tokens"][0]
                    for i, n in enumerate(outputs)]
            distinct |= {(name, token) for tokens in want for token in tokens}
            for options, happened in SCHEDULES:
                got = serve(f, *options)
                assert got["tokens"] == want, (name, options, got["tokens"], want)
                for member in happened:
                    assert got["serving"][member] > 0, (name, options, member, got["serving"])
    assert len(distinct) > 20 * len(CONFIGS), len(distinct)


def generated(f, *options, workload="uniform:8-30:2-12"):
    return json.loads(expect_ok(f.run("--requests", workload, "--num_requests", 10, "--json",
                                      *options)))


def test_generated_prompts_follow_from_the_seed_and_share_prefixes():
    with Folder() as f:
        first = generated(f, "--prefixes", "2:20", "--block_size", 4)
        again = generated(f, "--prefixes", "2:20", "--policy", "static", "--no_prefix_caching",
                          "--rate", 1000)
        other = generated(f, "--prefixes", "2:20", "--seed", 2)
        assert first["tokens"] == again["tokens"] != other["tokens"]
        assert first["serving"]["prefix_hit_tokens"] >= 20
        assert again["serving"]["prefix_hit_tokens"] == 0


def test_the_simulator_runs_the_same_steps():
    same = ("requests", "prompt_tokens", "output_tokens", "kv_blocks", "preemptions",
            "prefix_hit_tokens", "prompt_steps", "decode_steps")
    with Folder() as f:
        write_requests(f, write_model(f, "llama-tiny"))
        for options, _ in SCHEDULES:
            real = serve(f, *options, "--hw", "cpu")["serving"]
            predicted = real["predicted"]
            assert [real[k] for k in same] == [predicted[k] for k in same], (options, real)
            assert 0 < predicted["ttft_ns"]["mean"] <= predicted["latency_ns"]["mean"]


def test_a_stop_token_ends_a_request():
    with Folder() as f:
        f.write("prompts.txt", "Once\nupon\na time\n")
        args = ["--requests", "fixed:1:9", "--prompts", "prompts.txt", "--json"]
        whole = json.loads(expect_ok(f.run(*args, "--eos", "none")))
        stop = whole["tokens"][1][3]
        ended = json.loads(expect_ok(f.run(*args, "--eos", stop)))
        for long, short in zip(whole["tokens"], ended["tokens"]):
            assert short == long[:long.index(stop) + 1 if stop in long else 9], (long, short)
        assert whole["serving"]["prompt_tokens"] == len("Onceupona time")
        assert [len(t) for t in ended["tokens"]] != [9, 9, 9]


def test_listed_requests_can_be_served_again():
    """The list keeps shared prefixes, and its first arrival, late in the file, is no wait."""
    with Folder() as f:
        f.write("late.csv", "arrival_s,input_tokens,output_tokens,prefix,prefix_tokens\n" +
                "".join(f"90000,{50 + i},2,1,48\n" for i in range(5)))
        told = json.loads(expect_ok(f.run("--requests", "late.csv", "--json", "--out_dir", "o")))
        served = told["serving"]
        assert served["prefix_hit_tokens"] == 4 * 48 and served["duration_ns"] < 9e12, served
        again = run(f, "serve", "--model", "gpt2", "--layers", 1, "--requests", "o/requests.csv",
                    "--json")
        assert json.loads(expect_ok(again))["prefix_hit_tokens"] == 4 * 48, text_of(again)


def test_cut_requests_are_counted():
    with Folder() as f:
        args = ["--weights", "examples/tiny-gpt2", "--requests", "uniform:9-9:2000-2000",
                "--num_requests", 1]
        said = expect_ok(f.run(*args))
        told = json.loads(expect_ok(f.run(*args, "--json")))["serving"]
        most = told["prompt_tokens"] + told["output_tokens"]
        assert told["cut_requests"] == 1 and most < 2009, told
        assert f"note: 1 of 1 generated requests were cut to the {most} positions" in said, said


def test_the_list_of_requests_has_measured_times():
    with Folder() as f:
        said = expect_ok(f.run("--requests", "fixed:9:4", "--num_requests", 6, "--rate", 200,
                               "--visualize_trace", "--out_dir", "run"))
        assert "run/requests.csv" in said and "text" not in said, said
        with open(f / "run/requests.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 6
        for row in rows:
            arrival, first, last = (float(row[k]) for k in
                                    ("arrival_s", "first_token_s", "last_token_s"))
            assert arrival < first < last, row
            assert len(row["tokens"].split()) == int(row["output_tokens"]) == 4
        again = json.loads(expect_ok(run(f, "serve", "--requests", "run/requests.csv", "--model",
                                         "gpt2", "--hw", "cpu", "--json")))
        assert (again["requests"], again["output_tokens"]) == (6, 24), again
        # A step has more tokens than the model has positions.
        expect_ok(run(f, "serve", "--requests", "fixed:900:2", "--num_requests", 4, "--model",
                      "gpt2", "--hw", "cpu"))
        with open(f / "run/tensor_trace_graph.json", encoding="utf-8") as file:
            assert "paged_attention" in file.read()


def test_a_request_that_preempts_itself_is_scheduled_again():
    with Folder() as f:
        f.write("requests.csv", "arrival_s,input_tokens,output_tokens,priority\n" + "".join(
            f"{i * 0.02:.2f},{20 + i % 4},{28 - i % 5},{20 - i}\n" for i in range(9)))
        served = json.loads(expect_ok(run(
            f, "serve", "--model", "gpt2", "--hw", "cpu", "--requests", "requests.csv", "--json",
            "--num_gpu_blocks", 11, "--block_size", 5, "--scheduling_policy", "priority",
            "--no_async_scheduling")))
        assert served["requests"] == 9 and served["preemptions"] > 0, served


def test_refused():
    requests = ["--requests", "fixed:9:4"]
    with Folder() as f:
        for args, says in (
                (["--device", "meta"], "syntorch serve"), (["--dp", 2], "--dp cannot be used"),
                (["--pp", 2], "--pp cannot be used"), (["--temperature", 0.5], "--temperature"),
                (["--prompt", "a"], "--prompt has no effect"),
                (["--model", "bert-base-uncased"], "BERT does not"),
                (["--attention", "unfused"], "--attention has no effect"),
                (["--policy", "static", "--long_prefill_token_threshold", 3], "--policy static")):
            refuse(f, [*requests, *args], 2, says)
        refuse(f, [*requests, "--repetition_penalty", 2], 1, "give --repetition_penalty 1")
        refuse(f, ["--rate", 3], 2, "--rate has no effect without --requests")
        refuse(f, ["--block_size", 3], 2, "--block_size has no effect without --requests")
        if MPI:
            refuse(f, [*requests, "--tp", 2], 2, "one process", launcher=MPI)
        f.write("long.csv", "arrival_s,input_tokens,output_tokens\n0,5,5\n0,500,13\n")
        refuse(f, ["--requests", "long.csv"], 1, "long.csv:3: 500 prompt and 13 output tokens "
               "exceed the 256 positions of")
        refuse(f, ["--requests", "long.csv", "--num_requests", 1, "--num_gpu_blocks", 2,
                   "--block_size", 9], 1, "long.csv:2: 5 prompt and 5 output tokens exceed the KV "
               "cache of 9 tokens")
        refuse(f, ["--requests", "long.csv", "--num_requests", 1, "--num_gpu_blocks", 10 ** 9], 1,
               "choose a smaller --num_gpu_blocks")
        refuse(f, ["--requests", "long.csv", "--slo", "ttft=5"], 2, "--slo must be like")
        refuse(f, ["--requests", "long.csv", "--slo", ""], 2, "--slo must be like")
        f.write("prompts.txt", "a\nb\nc\n")
        refuse(f, ["--requests", "long.csv", "--num_requests", 1, "--prompts", "prompts.txt"], 1,
               "prompts.txt has 3 prompts, but there are fewer requests")


main(globals())
