#!/usr/bin/env python3
"""Makes training_gpt2.safetensors and similar files: three training steps of PyTorch and
transformers in f64, of tiny_gpt2_f32, tiny_bert_f32, tiny_llama, tiny_mistral, tiny_qwen2 and
tiny_qwen3.

For step t, loss.t is the loss, norm.t the gradient norm before clipping, and inputs.t and labels.t
are two texts of 11 tokens (some labels are -100). BERT also has types.t and mask.t (1: valid).
grad.NAME are the gradients of step 0 before clipping, and after.NAME the parameters after the three
steps, by transformers' names.

There is no dropout. AdamW uses weight decay 0.1 (except for biases and norms), gradients are
clipped at 0.5, and learning rates follow transformers' linear schedule with two of six steps of
warm-up and a peak of 0.01.
"""
import pathlib
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
STEPS, BATCH, TOKENS = 3, 2, 11


def batch(step, vocab, bert):
    g = torch.Generator().manual_seed(100 + step)
    ids = torch.randint(0, vocab, (BATCH, TOKENS), generator=g)
    labels = torch.randint(0, vocab, (BATCH, TOKENS), generator=g)
    labels[torch.rand((BATCH, TOKENS), generator=g) < 0.3] = -100
    types = torch.randint(0, 2, (BATCH, TOKENS), generator=g)
    mask = torch.ones((BATCH, TOKENS), dtype=torch.int64)
    mask[1, 8:] = 0
    return {"ids": ids, "labels": labels, "types": types, "mask": mask}


def loss_of(model, b, bert):
    if bert:
        types = {"token_type_ids": b["types"]} if model.config.model_type == "bert" else {}
        logits = model(b["ids"], attention_mask=b["mask"], **types).logits
    else:
        logits = model(b["ids"]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), b["labels"].flatten())


def train(folder, cls, bert):
    model = cls.from_pretrained(HERE / folder, attn_implementation="eager",
                                experts_implementation="eager").double().eval()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                               {"params": others, "weight_decay": 0.0}], lr=0.01)
    rates = transformers.get_linear_schedule_with_warmup(adamw, 2, 6)
    out = {}
    for t in range(STEPS):
        b = batch(t, model.config.vocab_size, bert)
        for k, v in b.items():
            if bert or k in ("ids", "labels"):
                out[f"{k}.{t}"] = v.to(torch.int32).contiguous()
        loss = loss_of(model, b, bert)
        adamw.zero_grad()
        loss.backward()
        if t == 0:
            for name, p in model.named_parameters():
                out["grad." + name] = p.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        out[f"loss.{t}"] = loss.detach().reshape(1)
        out[f"norm.{t}"] = norm.detach().reshape(1)
        adamw.step()
        rates.step()
        print(folder, t, loss.item(), norm.item())
    for name, p in model.named_parameters():
        out["after." + name] = p.detach().clone()
    return {k: v.float() if v.dtype == torch.float64 else v for k, v in out.items()}


if __name__ == "__main__":
    save_file(train("tiny_gpt2_f32", transformers.GPT2LMHeadModel, False),
              HERE / "training_gpt2.safetensors")
    save_file(train("tiny_bert_f32", transformers.BertForMaskedLM, True),
              HERE / "training_bert.safetensors")
    for name, cls in (("llama", transformers.LlamaForCausalLM),
                      ("mistral", transformers.MistralForCausalLM),
                      ("qwen2", transformers.Qwen2ForCausalLM),
                      ("qwen3", transformers.Qwen3ForCausalLM)):
        save_file(train(f"tiny_{name}", cls, False), HERE / f"training_{name}.safetensors")
