"""Measures inference in transformers for bench_llama and bench_moe. `peer_inference.py f32|bf16
CONFIG` creates a model with this config.json and random weights. For each line "THREADS TOKENS
STEPS SEQUENCES" of its input, it processes prompts of TOKENS tokens and generates greedily for
STEPS steps. It prints the seconds of the prefill, the seconds per step, the CPU time of each, and
the peak memory in MiB. Models with experts are run with each of transformers' implementations; the
times are those of the fastest one."""
import resource
import sys
import time

import torch
import transformers

dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
torch.manual_seed(1)
config = transformers.AutoConfig.from_pretrained(sys.argv[2])
model = transformers.AutoModelForCausalLM.from_config(
    config, attn_implementation="sdpa", dtype=dtype).eval()
experts = ["eager", "grouped_mm", "batched_mm"] if getattr(config, "num_experts", 0) else [None]


def clocks():
    return time.perf_counter(), time.process_time()


def generate(ids, steps):
    """Returns the times of the prefill and of a step, each by both clocks."""
    with torch.inference_mode():
        begin = clocks()
        out = model(ids, use_cache=True, logits_to_keep=1)
        ids = out.logits[:, -1:].argmax(-1)
        middle = clocks()
        for _ in range(steps):
            out = model(ids, past_key_values=out.past_key_values, use_cache=True)
            ids = out.logits[:, -1:].argmax(-1)
        end = clocks()
    return [[(b - a) / n for a, b in zip(first, last)]
            for first, last, n in ((begin, middle, 1), (middle, end, max(steps, 1)))]


for line in sys.stdin:
    threads, tokens, steps, sequences = map(int, line.split())
    torch.set_num_threads(threads)
    prompts = torch.arange(sequences * tokens).mul(7919).remainder(config.vocab_size)
    runs = []
    for implementation in experts:
        if implementation == "batched_mm" and sequences * tokens > 64:
            continue  # copies the matrices of each token's experts
        if implementation:
            model.set_experts_implementation(implementation)
        runs.append(generate(prompts.view(sequences, tokens), steps))
    prefill, step = (min(run[i] for run in runs) for i in range(2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(prefill[0], step[0], prefill[1], step[1], peak, flush=True)
