#!/usr/bin/env python3
"""Makes half_training.safetensors: how far bf16 training in PyTorch is from f64 training, in the
three steps of make_training_fixture.py.

This is mixed precision as in Megatron, written without a library. The model is bf16
(model.to(bfloat16)), and the loss is computed in f32 from its logits. Gradients are converted to
f32, clipped, and applied by AdamW to f32 master weights, which are then rounded to the model's
parameters.

For each checkpoint NAME, NAME.loss and NAME.norm are the values of the three steps. NAME.grad and
NAME.after are |x - y| over all gradients of step 0 and over all master weights, where y is from
training_*.safetensors. Both omit biases of keys, whose gradients are only rounding errors.

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
    """Returns |got - want| and prints it with |want|."""
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
