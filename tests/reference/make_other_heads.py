#!/usr/bin/env python3
"""Makes other_heads.safetensors and other_heads.json: checkpoints of classes whose heads we do not
run, or that lack the head that predicts tokens. LlamaForQuestionAnswering is missing because
transformers cannot load its tensors in a LlamaForCausalLM either.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.23.0
    venv/bin/python make_other_heads.py

The .safetensors file has the tensors of all classes as "Class/name". The .json file has for each
class its configuration, which of its tensors transformers' model for our task does not use
("unexpected" in the loading report), and which tensors it lacks. If none are missing, it also has
the f64 logits for TOKENS, at the last token or, for BERT, at the third.
"""
import json
import os
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, BertConfig, GPT2Config,
                          LlamaConfig)

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = [7, 3, 11, 19, 2]
BERT = BertConfig(vocab_size=23, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                  intermediate_size=12, max_position_embeddings=16)
GPT2 = GPT2Config(vocab_size=23, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=0,
                  eos_token_id=0, pad_token_id=0)
LLAMA = dict(vocab_size=23, hidden_size=8, intermediate_size=12, num_hidden_layers=1,
             num_attention_heads=2, max_position_embeddings=16, pad_token_id=0)
TIED, UNTIED = (LlamaConfig(**LLAMA, tie_word_embeddings=tied) for tied in (True, False))
CASES = [("BertForSequenceClassification", BERT), ("BertForQuestionAnswering", BERT),
         ("BertForTokenClassification", BERT), ("BertForMultipleChoice", BERT),
         ("BertForNextSentencePrediction", BERT), ("BertForPreTraining", BERT),
         ("BertForMaskedLM", BERT), ("BertModel", BERT),
         ("GPT2DoubleHeadsModel", GPT2), ("GPT2ForSequenceClassification", GPT2),
         ("GPT2ForTokenClassification", GPT2), ("GPT2ForQuestionAnswering", GPT2),
         ("GPT2Model", GPT2),
         ("LlamaForSequenceClassification", TIED), ("LlamaForSequenceClassification", UNTIED),
         ("LlamaForTokenClassification", TIED), ("LlamaModel", TIED), ("LlamaModel", UNTIED)]


def fill(model):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(0.5 * torch.randn(w.shape, generator=generator) + (w.dim() == 1))
    return model.eval()


def make(kind, config, folder):
    """Returns the class's entry of the .json file, and the tensors as saved."""
    fill(getattr(transformers, kind)(config)).save_pretrained(folder)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        entry = {"class": kind, "config": json.load(f)}
    auto = AutoModelForMaskedLM if "Bert" in kind else AutoModelForCausalLM
    model, info = auto.from_pretrained(folder, output_loading_info=True, dtype=torch.float64)
    entry["unused"] = sorted(info["unexpected_keys"])
    entry["missing"] = sorted(info["missing_keys"])
    if not entry["missing"]:
        at = 2 if "Bert" in kind else -1
        logits = model.eval()(torch.tensor([TOKENS])).logits[0, at]
        entry["logits"] = [float(f"{x:.7g}") for x in logits.tolist()]
    return entry, load_file(os.path.join(folder, "model.safetensors"))


def main():
    transformers.logging.set_verbosity_error()
    entries, tensors = [], {}
    for i, (kind, config) in enumerate(CASES):
        with tempfile.TemporaryDirectory() as folder:
            entry, own = make(kind, config, folder)
        entries.append(entry)
        tensors.update({f"{i}/{name}": w for name, w in own.items()})
    save_file(tensors, os.path.join(HERE, "other_heads.safetensors"))
    with open(os.path.join(HERE, "other_heads.json"), "w", encoding="utf-8") as f:
        json.dump({"tokens": TOKENS, "checkpoints": entries}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
