"""Tests inference --requests: each request gets the tokens that its prompt gets alone, whatever the
scheduler does, and times and files fit together."""
import csv
import random

from inference_runs import *  # noqa: F403

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
    (["--no_chunked_prefill", "--max_num_batched_tokens", 40, "--tp", 2], {"decode_steps"}),
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


main(globals())
