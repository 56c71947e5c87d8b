#!/usr/bin/env python3
"""Makes scores.json, the outputs of transformers at every position with the tiny checkpoints, and
scores/, a text and two tokenizers of 61 tokens for it.

models: for each folder, `logits` and `hidden` (last_hidden_state) of `texts`, in f64. Texts are
computed in one padded batch with its attention_mask; values are per token, without the padding
after the shorter texts.

ids: the ids of scores/text.txt, for each tokenizer. perplexities: those of the text, from
perplexity.py, in f64 or bf16.

Tokenizers: scores/plain adds no tokens to a text, as for GPT-2 and Qwen. scores/bos begins a text
with <s>, as for Llama and Mistral.
"""
import json
import pathlib
import random
import shutil
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors
from perplexity import perplexity

HERE = pathlib.Path(__file__).parent
CAUSAL = {"tiny_gpt2_f32": "plain", "tiny_llama": "bos", "tiny_mistral": "bos",
          "tiny_qwen2": "plain", "tiny_qwen3": "plain"}
LENGTHS = (7, 3, 9)
WAYS = ({}, {"stride": 20}, {"max_length": 32, "stride": 16}, {"max_length": 48, "stride": 48})
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "to", "hear", "that",
         "rain", "in", "the", "tin", "hat", "no", "one", "hid", "10", "2 3", "so", "we", "left")
MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "t"), ("i", "n"), ("Ġ", "a"), ("Ġ", "s"),
          ("r", "a"), ("ra", "in"), ("Ġ", "t"), ("Ġ", "th"), ("Ġth", "at"), ("Ċ", "Ċ")]


def text():
    draw = random.Random(13)
    lines = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 14))) + "."
             for _ in range(26)]
    return "".join(line + draw.choice(("\n", "\n\n", " ", "\r\n")) for line in lines)


def tokenizer(folder, bos):
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789.,ĠĊč"
    words = ["<s>", "</s>"] + list(alphabet) + [a + b for a, b in MERGES]
    made = tokenizers.Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, MERGES))
    made.add_special_tokens(["<s>", "</s>"])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    if bos:
        made.post_processor = processors.TemplateProcessing(single="<s> $A",
                                                            special_tokens=[("<s>", 0)])
    assert made.get_vocab_size() <= 61
    folder.mkdir(parents=True)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    return transformers.AutoTokenizer.from_pretrained(folder)


def rounded(x):
    return [[float(f"{v:.7g}") for v in row] for row in x.tolist()]


def scores(folder, kind):
    head = kind.from_pretrained(HERE / folder, dtype=torch.float64).eval()
    body = transformers.AutoModel.from_pretrained(HERE / folder, dtype=torch.float64).eval()
    g = torch.Generator().manual_seed(3)
    texts = [torch.randint(3, 60, (n,), generator=g) for n in LENGTHS]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(t) for t in texts], batch_first=True)
    with torch.no_grad():
        logits = head(input_ids=ids, attention_mask=mask).logits
        hidden = body(input_ids=ids, attention_mask=mask).last_hidden_state
    return {"texts": [t.tolist() for t in texts], "logits": rounded(logits[mask == 1]),
            "hidden": rounded(hidden[mask == 1])}


def main():
    kinds = {folder: transformers.AutoModelForCausalLM for folder in CAUSAL}
    kinds["tiny_bert_f32"] = transformers.BertForMaskedLM
    out = {"models": {folder: scores(folder, kind) for folder, kind in kinds.items()},
           "perplexities": []}
    shutil.rmtree(HERE / "scores", ignore_errors=True)
    known = {"plain": tokenizer(HERE / "scores" / "plain", False),
             "bos": tokenizer(HERE / "scores" / "bos", True)}
    (HERE / "scores" / "text.txt").write_bytes(text().encode())
    out["ids"] = {which: made(text()).input_ids for which, made in known.items()}
    for folder, which, dtype in [(f, w, "f64") for f, w in CAUSAL.items()] + [
            ("tiny_gpt2_bf16", "plain", "f64"), ("tiny_gpt2_bf16", "plain", "bf16")]:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            HERE / folder, dtype={"f64": torch.float64, "bf16": torch.bfloat16}[dtype]).eval()
        for way in WAYS if dtype == "f64" else WAYS[:1]:
            length = way.get("max_length", model.config.max_position_embeddings)
            found = perplexity(model, out["ids"][which], length,
                               way.get("stride", min(512, length)))
            out["perplexities"].append({"folder": folder, "tokenizer": which, "dtype": dtype,
                                        "options": way, **found})
    (HERE / "scores.json").write_text(json.dumps(out) + "\n")


main()
