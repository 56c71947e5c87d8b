#!/usr/bin/env python3
"""Makes half_logits.safetensors: the logits of transformers, and the errors of its 16-bit
arithmetic.

For each model NAME, NAME.logits has the f32 logits of a padded batch ("eager" attention), at the
positions where NAME.mask is 1, row by row. NAME.distance has the errors of bf16 eager, bf16 sdpa,
f16 eager and f16 sdpa (model.to(dtype)) as |x - logits| / |logits|, where |...| is the norm over
all logits. NAME.tokens, NAME.mask and NAME.types are (B, T) i32. GPT-2 is padded on the left.

The models tiny_* are the checkpoints of that name. The models gpt2 and bert have 4 layers of width
128 and a vocabulary of 500 tokens. Their weights are value() of make_full_fixture.py with p = sum
of the name's bytes times powers of 31, modulo 65521. The scales give logits as large as those of
trained models: 1/4 for norms (1 is added to weights), 1/8 for other vectors, 1/4 for query and key,
1/8 for other matrices.

    venv/bin/pip install torch==2.15.0 transformers==5.23.0 && venv/bin/python make_half_fixture.py
"""
import pathlib

import torch
import transformers
from make_full_fixture import value
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
GPT2 = dict(vocab_size=500, n_positions=40, n_embd=128, n_layer=4, n_head=4)
BERT = dict(vocab_size=500, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
            intermediate_size=512, max_position_embeddings=40)
WAYS = [(dtype, attention) for dtype in (torch.bfloat16, torch.float16)
        for attention in ("eager", "sdpa")]


def fill(model, prefix):
    with torch.no_grad():
        for name, w in model.named_parameters():
            name = name.removeprefix(prefix)
            p = 0
            for c in name.encode():
                p = (p * 31 + c) % 65521
            norm = ("ln_" in name or "LayerNorm" in name) and name.endswith(".weight")
            sharp = any(part in name for part in ("c_attn", ".query.", ".key."))
            scale = 1 / 4 if norm or (w.dim() == 2 and sharp) else 1 / 8
            x = value(p, w.numel(), scale) + (1 if norm else 0)
            w.copy_(torch.from_numpy(x).reshape(w.shape))
    return model


def batch(vocab, lengths, left):
    longest = max(lengths)
    g = torch.Generator().manual_seed(vocab)
    tokens = torch.randint(0, vocab, (len(lengths), longest), generator=g)
    at = torch.arange(longest)
    n = torch.tensor(lengths)[:, None]
    mask = (at >= longest - n if left else at < n).long()
    types = (at >= n // 2).long() * mask
    return tokens, mask, types


def logits_of(model, tokens, mask, types, left):
    if left:
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        x = model(tokens, attention_mask=mask, position_ids=positions).logits
    else:
        x = model(tokens, attention_mask=mask, token_type_ids=types).logits
    return x[mask.bool()].double()


def expect(name, make, lengths, left):
    wide = make("eager").eval()
    tokens, mask, types = batch(wide.config.vocab_size, lengths, left)
    want = logits_of(wide, tokens, mask, types, left)
    distances = []
    for dtype, attention in WAYS:
        got = logits_of(make(attention).eval().to(dtype), tokens, mask, types, left)
        distances.append(((got - want).norm() / want.norm()).item())
    print(name, "largest", want.abs().max().item(), "distances", distances)
    return {f"{name}.logits": want.float(), f"{name}.distance": torch.tensor(distances),
            f"{name}.tokens": tokens.int(), f"{name}.mask": mask.int(),
            f"{name}.types": types.int()}


def tiny(cls, name):
    return lambda how: cls.from_pretrained(HERE / name, attn_implementation=how)


def formula(cls, config, prefix):
    def make(how):
        config._attn_implementation = how
        return fill(cls(config), prefix)
    return make


def main():
    gpt2, bert = transformers.GPT2LMHeadModel, transformers.BertForMaskedLM
    out = {}
    with torch.inference_mode():
        for name in ("tiny_gpt2_f32", "tiny_gpt2_f32_untied"):
            out.update(expect(name, tiny(gpt2, name), [3, 9, 14], True))
        out.update(expect("tiny_bert_f32", tiny(bert, "tiny_bert_f32"), [12, 7, 14], False))
        out.update(expect("gpt2", formula(gpt2, transformers.GPT2Config(**GPT2), "transformer."),
                          [7, 24], True))
        out.update(expect("bert", formula(bert, transformers.BertConfig(**BERT), "bert."),
                          [24, 11], False))
    save_file({k: v.contiguous() for k, v in out.items()}, HERE / "half_logits.safetensors")


main()
