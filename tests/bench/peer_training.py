"""Measures training steps in PyTorch for bench_training and bench_cuda. `peer_training.py PRESET
BATCH TOKENS THREADS f32|bf16 [cuda|compiled]` runs one step for each line of its input, or N steps
if the line is a number N, and prints the seconds per step. Attention and AdamW are fused, there is
no dropout, and bf16 uses autocast. `cuda` runs on the GPU, `compiled` runs there with
torch.compile."""
import sys
import time

import torch
import transformers

preset, batch, tokens, threads = sys.argv[1], *map(int, sys.argv[2:5])
half = sys.argv[5] == "bf16"
mode = sys.argv[6] if len(sys.argv) > 6 else "cpu"
device = "cpu" if mode == "cpu" else "cuda"
torch.set_num_threads(threads)
torch.manual_seed(1)
if preset == "gpt2":
    config = transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
else:
    config = transformers.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    model = transformers.BertForMaskedLM._from_config(config, attn_implementation="sdpa")
model.train().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
ids = torch.arange(batch * tokens).mul(7919).remainder(config.vocab_size).view(batch, tokens)
ids = ids.to(device)


def loss_of(model, ids):
    with torch.autocast(device, torch.bfloat16, enabled=half):
        logits = model(ids).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


if mode == "compiled":
    loss_of = torch.compile(loss_of)


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


for line in sys.stdin:
    n = int(line) if line.strip().isdigit() else 1
    wait()
    begin = time.perf_counter()
    for _ in range(n):
        loss_of(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    wait()
    print((time.perf_counter() - begin) / n, flush=True)
