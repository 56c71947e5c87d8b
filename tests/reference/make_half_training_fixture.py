#!/usr/bin/env python3
"""How far bf16 training in PyTorch is from training in double, in the three steps of
make_training_fixture.py: half_training.safetensors.

The model is bf16 (model.to(bfloat16)), the loss f32, of its logits. Gradients are widened, clipped
and given to AdamW over f32 masters, to which the model's parameters are then rounded: mixed
precision as Megatron has it, by hand. Of each checkpoint NAME: NAME.loss and NAME.norm of the three
steps; NAME.grad and NAME.after: |x - y| over all gradients of step 0, and over all masters, where y
are those of training_*.safetensors. Biases of keys, whose gradients are nothing but rounding, are
left out of both.

    venv/bin/pip install torch==2.15.0 transformers==5.23.0 && \\
        venv/bin/python make_half_training_fixture.py
"""
import pathlib

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
STEPS = 3


def loss_of(model, b, bert):
    if bert:
        logits = model(b["ids"], token_type_ids=b["types"], attention_mask=b["mask"]).logits
    else:
        logits = model(b["ids"]).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), b["labels"].flatten())


def distance(got, want, kind):
    """And how large what is wanted is, to be printed."""
    counted = [n for n in got if not n.endswith(("c_attn.bias", "key.bias"))]
    y = [want[f"{kind}.{n}"].double().flatten() for n in counted]
    x = [got[n].detach().double().flatten() for n in counted]
    print(kind, "of size", torch.cat(y).norm().item())
    return (torch.cat(x) - torch.cat(y)).norm().reshape(1)


def train(folder, fixture, cls, bert):
    want = load_file(HERE / fixture)
    model = cls.from_pretrained(HERE / folder, attn_implementation="eager").eval()
    model = model.to(torch.bfloat16)
    masters = {n: torch.nn.Parameter(p.detach().float()) for n, p in model.named_parameters()}
    adamw = torch.optim.AdamW(
        [{"params": [p for p in masters.values() if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in masters.values() if p.dim() == 1], "weight_decay": 0.0}], lr=0.01)
    rates = transformers.get_linear_schedule_with_warmup(adamw, 2, 6)
    losses, norms, out = [], [], {}
    for t in range(STEPS):
        b = {k: want[f"{k}.{t}"].long() for k in ("ids", "labels", "types", "mask")
             if f"{k}.{t}" in want}
        loss = loss_of(model, b, bert)
        model.zero_grad()
        loss.backward()
        for n, p in model.named_parameters():
            masters[n].grad = p.grad.float()
        if t == 0:
            out["grad"] = distance({n: p.grad for n, p in masters.items()}, want, "grad")
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), 0.5).item())
        losses.append(loss.item())
        adamw.step()
        rates.step()
        with torch.no_grad():
            for n, p in model.named_parameters():
                p.copy_(masters[n])
    out["after"] = distance(masters, want, "after")
    out["loss"], out["norm"] = torch.tensor(losses), torch.tensor(norms)
    print(folder, {k: v.tolist() for k, v in out.items()},
          [want[f"loss.{t}"].item() for t in range(STEPS)])
    return {f"{folder}.{k}": v.float() for k, v in out.items()}


def main():
    out = train("tiny_gpt2_f32", "training_gpt2.safetensors", transformers.GPT2LMHeadModel, False)
    out.update(train("tiny_bert_f32", "training_bert.safetensors", transformers.BertForMaskedLM,
                     True))
    save_file(out, HERE / "half_training.safetensors")


main()
