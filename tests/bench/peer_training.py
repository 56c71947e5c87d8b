"""Training steps of PyTorch, for bench_training: peer_training.py PRESET BATCH TOKENS THREADS
f32|bf16 runs one for each line that it reads and prints its seconds. Fused attention and AdamW, no
dropout; bf16 by autocast."""
import sys
import time

import torch
import transformers

preset, batch, tokens, threads = sys.argv[1], *map(int, sys.argv[2:5])
half = sys.argv[5] == "bf16"
torch.set_num_threads(threads)
torch.manual_seed(1)
if preset == "gpt2":
    config = transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
else:
    config = transformers.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    model = transformers.BertForMaskedLM._from_config(config, attn_implementation="sdpa")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
ids = torch.arange(batch * tokens).mul(7919).remainder(config.vocab_size).view(batch, tokens)
for _ in sys.stdin:
    begin = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        logits = model(ids).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(time.perf_counter() - begin, flush=True)
