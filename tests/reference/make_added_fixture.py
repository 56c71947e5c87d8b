#!/usr/bin/env python3
"""Writes added_fixture.txt: the output of HuggingFace's GPT2Tokenizer for model folders whose files
add tokens to the vocabulary, add tokens around a text, or add spaces before words.

    python3 -m venv venv && venv/bin/pip install transformers==5.23.0 tokenizers==0.23.3
    venv/bin/python make_added_fixture.py > added_fixture.txt

Neither the build nor the tests need this script. The vocabulary is the tiny one of
tokenizer_fixture.txt. Lines of the fixture:

    case N                  the next folder
    file NAME JSON          a file of it, in addition to vocab.json and merges.txt
    size ALL ADDED BOS      number of tokens, number of added tokens, and the id of the token that
                            begins texts (-1: none)
    text TEXT ID...         the ids of TEXT, which is UTF-8 in hexadecimal
    back TEXT               the text that decode returns for these ids
    word FIRST HASH         FNV-1a hash of one letter for each of 4096 code points: W (part of a
                            word: a single_word token next to it does not match), O (other) or
                            - (surrogate)
"""
import json
import os
import random
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from transformers import GPT2Tokenizer
from transformers.utils import logging

from fixture_texts import hashed, hexed

HERE = os.path.dirname(os.path.abspath(__file__))
logging.set_verbosity_error()


def byte_characters():
    """Returns the characters that spell bytes, by encoder.py of gpt-2."""
    spelled = {b: chr(b) for b in (*range(33, 127), *range(161, 173), *range(174, 256))}
    for b in range(256):
        spelled.setdefault(b, chr(256 + sum(c >= "\u0100" for c in spelled.values())))
    return spelled


def tiny_vocabulary():
    spelled = byte_characters()
    vocab, merges = {spelled[b]: b for b in range(256)}, []
    with open(f"{HERE}/tokenizer_fixture.txt", encoding="ascii") as f:
        for line in f:
            if not line.startswith("merge "):
                break
            left, right = ("".join(spelled[b] for b in bytes.fromhex(h)) for h in line.split()[1:])
            merges.append(f"{left} {right}")
            vocab.setdefault(left + right, len(vocab))
    vocab["<|endoftext|>"] = len(vocab)
    return vocab, merges


VOCAB, MERGES = tiny_vocabulary()
NEXT = len(VOCAB)


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


def config(**keys):
    return {"tokenizer_config.json": keys}


def ids_of(contents):
    """Returns the ids that transformers assigns: the vocabulary's ids, or the next free ones."""
    new = [c for c in contents if c not in VOCAB]
    return {c: VOCAB[c] if c in VOCAB else NEXT + new.index(c) for c in contents}


def decoder(*tokens, **keys):
    ids = ids_of([t["content"] for t in tokens])
    return config(added_tokens_decoder={str(ids[t["content"]]): t for t in tokens}, **keys)


# Model folders, each with texts that show its special behaviour.
CASES = [
    ({}, ["", "hello <|endoftext|> x", "<|endoftext|><|endoftext|>"]),
    (config(add_bos_token=True), ["", "hello", "<|endoftext|>"]),
    (config(add_bos_token=True, add_eos_token=True), ["", "hello"]),
    (config(add_bos_token=True, bos_token=None), ["hello<|endoftext|>"]),
    (config(bos_token=None, eos_token=None, unk_token=None), ["hello<|endoftext|>"]),
    (config(add_bos_token=True, add_eos_token=True, bos_token="<s>", eos_token="</s>"),
     ["hello <s></s>"]),
    (config(bos_token="hello"), ["hello", "xhellox", " hello"]),
    (config(pad_token="<pad>", mask_token="<mask>", image_token="<img>", foo="<foo>"),
     ["<mask><pad><img><foo>"]),
    (config(add_prefix_space=True), ["ab", "\tab", "\u00a0ab", " ab", "<|endoftext|>ab",
                                     "ab<|endoftext|> ab", "", "<|endoftext|>"]),
    (decoder(token("<x>"), token("<y>", special=True), token("<x>y")), ["<x>yy<y><x>", "<x"]),
    (decoder(token("<x>", lstrip=True), token("<y>", rstrip=True)),
     ["a  <x>  b", "a\u3000\n<y>\u2028\t<x>", "a<x> <y> <x>"]),
    (decoder(token("ab cd", single_word=True)),
     ["ab cd", "xab cd", "ab cd_", "(ab cd)", "\u00e9ab cd", "ab cd\u0301", "ab cd\u00b2"]),
    (decoder(token("<a>b", normalized=True), token("<a>", normalized=False)), ["<a>b"]),
    (decoder(token("<a>b"), token("<a>"), token("<a>bc d"), token("xyz"), token("x")),
     ["<a>bc dx", "<a>bc x", "xyxyz", "<a><a>b"]),
    (decoder({"content": "<|a|>"}, {"content": "|a", "special": True}), ["<|a|>"]),
    (decoder(token(" ", rstrip=True), token("\n", lstrip=True, rstrip=True)),
     ["a   b", "a \n \n b", "\n\n\n"]),
    (decoder(token("\u00e9"), token("\u0120hello"), token(" hello"), token("\u65e5\u672c")),
     ["\u00e9 hello\u0120hello\u65e5\u672c"]),
    (decoder({"content": "<pad>"}, pad_token="<pad>"), ["<pad>"]),
    (decoder(token("<x>"), additional_special_tokens=["<m>", "<x>"]), ["<m><x>"]),
    (config(extra_special_tokens={"audio": "<m>"}, additional_special_tokens=["<n>"]), ["<m><n>"]),
    (config(additional_special_tokens=["<m>"], extra_special_tokens=["<n>"]), ["<m><n>"]),
    (config(bos_token={"__type": "AddedToken", **token("<s>", lstrip=True)}, add_bos_token=True),
     ["a <s>"]),
    (config(eos_token={"__type": "AddedToken", **token("<|endoftext|>", lstrip=True)}),
     ["a <|endoftext|>"]),
    ({"added_tokens.json": {"<y>": NEXT + 1, "<x>": NEXT}}, ["<y><x>"]),
    ({"added_tokens.json": {"<y>y": NEXT + 1, "<y>": NEXT},
      "special_tokens_map.json": {"pad_token": "<y>"}}, ["<y>y"]),
    ({"added_tokens.json": {"<y>": 7}, **decoder(token("<x>")),
      "special_tokens_map.json": {"pad_token": "<z>"}}, ["<x><y><z>"]),
    ({"special_tokens_map.json": {"bos_token": token("<b>", lstrip=True),
                                  "additional_special_tokens": ["<m>"]},
      **config(bos_token="<a>", add_bos_token=True)}, ["x <b><a><m>"]),
    ({"special_tokens_map.json": {"additional_special_tokens": ["<m>"]},
      **config(additional_special_tokens=["<n>"])}, ["<m><n>"]),
    ({"special_tokens_map.json": {"extra_special_tokens": ["<m>"]},
      **config(extra_special_tokens=["<n>"])}, ["<m><n>"]),
]
POOL = ["<a>", "<a>b", "<ab>", "x", "xy", "hello", " hello", "\u0120hello", "\u00e9",
        "\u65e5\u672c", "\n", " ", "  ", "<|endoftext|>",
        "<pad>", "ab", "b a", "_", "Q", "</s>", "\t", "<|", "\u00a0"]
BITS = POOL + ["he", "llo", "b", "c", "y", "!", "'s", "7", "\u0301", "\u200d", "\u0660", "\u3000"]


def random_token(r, content):
    flags = {k: r.random() < 0.3 for k in ("single_word", "lstrip", "rstrip")}
    return {"content": content, **flags, **({"normalized": r.random() < 0.5} if r.random() < 0.7
                                            else {})}


def random_case(r):
    keys = {k: r.random() < 0.8 for k in ("add_prefix_space", "add_bos_token", "add_eos_token")
            if r.random() < 0.3}
    for k in ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "image_token"):
        if r.random() < 0.2:
            keys[k] = r.choice([None, *r.sample(POOL, 2)]) if k != "image_token" else r.choice(POOL)
    if r.random() < 0.2:
        keys["additional_special_tokens"] = r.sample(POOL, 2)
    chosen = r.sample(POOL, r.randrange(0, 6))
    ids = ids_of(chosen)
    if r.random() < 0.5:
        keys["added_tokens_decoder"] = {str(ids[t]): random_token(r, t) for t in chosen}
        return config(**keys)
    special = {k: r.choice(POOL) for k in ("bos_token", "unk_token", "pad_token")
               if r.random() < 0.3}
    return {**config(**keys), "added_tokens.json": ids, "special_tokens_map.json": special}


def load(files):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/vocab.json", "w", encoding="utf-8") as f:
            json.dump(VOCAB, f)
        with open(f"{folder}/merges.txt", "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join(m + "\n" for m in MERGES))
        for name, content in files.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                json.dump(content, f)
        return GPT2Tokenizer.from_pretrained(folder)


def saved(tokenizer):
    """Returns what transformers saves, without the chat template."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        names = ("tokenizer.json", "tokenizer_config.json")
        return {n: json.load(open(f"{folder}/{n}", encoding="utf-8")) for n in names}


def line(*fields):
    print(*fields)


def write(number, files, texts):
    tokenizer = load(files)
    line("case", number)
    for name, content in files.items():
        line("file", name, json.dumps(content, separators=(",", ":")))
    bos = tokenizer.bos_token_id
    line("size", len(tokenizer), len(tokenizer) - tokenizer.vocab_size, -1 if bos is None else bos)
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        line("text", hexed(text), *ids)
        back = tokenizer.decode(ids)
        if "\ufffd" not in back:
            line("back", hexed(back))


def random_texts(r, n):
    return ["".join(r.choice(BITS) for _ in range(r.randrange(1, 12))) for _ in range(n)]


def write_words():
    tokenizer = Tokenizer(BPE(vocab={"a": 0}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens([AddedToken("QQ", single_word=True, normalized=False)])
    token_id = tokenizer.token_to_id("QQ")
    for first in range(0, 0x110000, 4096):
        points = range(first, first + 4096)
        texts = ["" if 0xd800 <= c < 0xe000 else chr(c) + "QQ" for c in points]
        found = "".join("-" if not t else "O" if token_id in e.ids else "W"
                        for t, e in zip(texts, tokenizer.encode_batch(texts)))
        line("word", f"{first:x}", hashed(found.encode()))


def main():
    number = 0
    for number, (files, texts) in enumerate(CASES):
        r = random.Random(number)
        write(number, files, texts + random_texts(r, 3))
    for seed in range(40):
        r = random.Random(1000 + seed)
        files = random_case(r)
        try:
            load(files)
        except ValueError:  # transformers cannot add such a token
            continue
        number += 1
        write(number, files, random_texts(r, 6))
    for seed in range(4):
        r = random.Random(2000 + seed)
        tokenizer = load(random_case(r))
        if seed % 2:
            tokenizer.add_bos_token = True
        if seed // 2:
            tokenizer.add_eos_token = True
        number += 1
        write(number, saved(tokenizer), random_texts(r, 6))
    write_words()


if __name__ == "__main__":
    sys.exit(main())
