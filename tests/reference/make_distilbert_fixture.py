#!/usr/bin/env python3
"""Makes tiny_distilbert/ and tiny_roberta/, checkpoints as transformers saves them, and the outputs
of transformers in f64 for them: distilbert.json and roberta.json, the logits and the last hidden
states of every position of two texts (see make_score_fixture.py), and
training_distilbert.safetensors and training_roberta.safetensors (see make_training_fixture.py).
Made with torch 2.15 and transformers 5.24.

roberta_tokenizer/tokenizer.json is RoBERTa's kind of tokenizer for the same vocabulary, without
merges. tiny_roberta has one token type. Its padding id is in no text, because RoBERTa's positions
do not count padding.
"""
import json
import pathlib
import shutil
import tokenizers
import torch
import transformers
from make_llama_fixture import fill
from make_training_fixture import train
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
SIZES = (20, 9)
DISTILBERT = transformers.DistilBertConfig(
    vocab_size=61, dim=24, hidden_dim=40, n_layers=2, n_heads=4, max_position_embeddings=32,
    attn_implementation="eager")
ROBERTA = transformers.RobertaConfig(
    vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=32, type_vocab_size=1, pad_token_id=2, layer_norm_eps=1e-5,
    attn_implementation="eager")


def rounded(rows):
    return [[float(f"{x:.7g}") for x in row] for row in rows.tolist()]


def make(name, cls, config, seed):
    folder = HERE / f"tiny_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    model = fill(cls(config), seed)
    model.save_pretrained(folder)
    wide = model.double()
    g = torch.Generator().manual_seed(5)
    texts = [torch.randint(3, 61, (1, n), generator=g) for n in SIZES]
    with torch.no_grad():
        made = [wide(ids, output_hidden_states=True) for ids in texts]
    out = {"texts": [ids[0].tolist() for ids in texts],
           "logits": [row for m in made for row in rounded(m.logits[0])],
           "hidden": [row for m in made for row in rounded(m.hidden_states[-1][0])]}
    (HERE / f"{name}.json").write_text(json.dumps({f"tiny_{name}": out}) + "\n")
    save_file({k: v.contiguous() for k, v in train(f"tiny_{name}", cls, True).items()},
              HERE / f"training_{name}.safetensors")


def tokenizer():
    specials = ["<s>", "</s>", "<pad>", "<unk>", "<mask>"]
    letters = [chr(c) for c in (*range(65, 91), *range(97, 123))] + ["\u0120", ".", ",", "!"]
    vocab = {t: i for i, t in enumerate(specials[:4] + letters + specials[4:])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]), add_prefix_space=False)
    made.add_special_tokens(specials[:4] + [tokenizers.AddedToken("<mask>", lstrip=True)])
    (HERE / "roberta_tokenizer").mkdir(exist_ok=True)
    made.save(str(HERE / "roberta_tokenizer" / "tokenizer.json"), pretty=False)
    for text in (["Paris is <mask> a."], ["<mask>"], ["q", "c"]):
        print(text, made.encode(*text).ids)


make("distilbert", transformers.DistilBertForMaskedLM, DISTILBERT, 40)
make("roberta", transformers.RobertaForMaskedLM, ROBERTA, 41)
tokenizer()
