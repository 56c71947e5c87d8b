"""Measures inference in transformers for bench_llama. `peer_inference.py f32|bf16` creates a model
of the shape of Qwen2.5-0.5B with random weights. For each line "THREADS TOKENS STEPS" of its input,
it processes a prompt of TOKENS tokens and generates greedily for STEPS steps. It prints the seconds
of the prefill, the seconds per step, the CPU time of each, and the peak memory in MiB."""
import resource
import sys
import time

import torch
import transformers

dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
torch.manual_seed(1)
config = transformers.Qwen2Config(
    hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
    intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True)
model = transformers.Qwen2ForCausalLM._from_config(
    config, attn_implementation="sdpa", dtype=dtype).eval()


def clocks():
    return time.perf_counter(), time.process_time()


for line in sys.stdin:
    threads, tokens, steps = map(int, line.split())
    torch.set_num_threads(threads)
    ids = torch.arange(tokens).mul(7919).remainder(config.vocab_size).view(1, tokens)
    with torch.inference_mode():
        begin = clocks()
        out = model(ids, use_cache=True, logits_to_keep=1)
        ids = out.logits[:, -1:].argmax(-1)
        middle = clocks()
        for _ in range(steps):
            out = model(ids, past_key_values=out.past_key_values, use_cache=True)
            ids = out.logits[:, -1:].argmax(-1)
    end = clocks()
    (prefill, prefill_cpu), (steps_s, steps_cpu) = (
        [b - a for a, b in zip(*pair)] for pair in ((begin, middle), (middle, end)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = max(steps, 1)
    print(prefill, steps_s / each, prefill_cpu, steps_cpu / each, peak, flush=True)
