#!/usr/bin/env python3
"""Writes tokenizer_fixture.txt, the output of HuggingFace and tiktoken for some texts.

    python3 -m venv venv && venv/bin/pip install transformers tokenizers tiktoken
    venv/bin/python make_tokenizer_fixture.py ../shared/data > tokenizer_fixture.txt

Neither the build nor the tests need this script. Every list of ids is computed by both libraries,
which must agree (made with transformers 5.23.0, tokenizers 0.23.3, tiktoken 0.14.0). Lines of the
fixture:

    merge LEFT RIGHT            a merge of the tiny vocabulary (bytes 0..255, the merges in order,
                                <|endoftext|>)
    split TEXT N...             number of bytes of each word into which the pre-tokenizer cuts TEXT
    tiny TEXT ID...             ids in the tiny vocabulary
    gpt2 TEXT ID...             ids in GPT-2's vocabulary
    file NAME                   the SQuAD file of the next lines
    squad N HASH                number and FNV-1a hash (of 4 bytes each, little-endian) of the ids
                                of each "context" and "question", in file order
    class FIRST HASH            FNV-1a hash of the classes (L, N, S, O; - for surrogates) of 4096
                                code points

TEXT is UTF-8 in hexadecimal.
"""
import json
import os
import random
import sys

import tiktoken
from tokenizers import pre_tokenizers
from transformers import GPT2Tokenizer

from fixture_texts import hashed, squad_texts

EOT = "<|endoftext|>"
# OpenAI's pattern from the gpt-2 repository.
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

# The tiny vocabulary's merges, as bytes. Some are in an order that training cannot produce
# ("ab"+"c" before "a"+"b"), to distinguish "lowest rank, leftmost" from "all of one pair at a
# time".
TINY_MERGES = [
    (b"h", b"e"), (b"l", b"l"), (b"he", b"ll"), (b"hell", b"o"), (b" ", b"w"), (b"ab", b"c"),
    (b"a", b"b"),
    (b"b", b"c"), (b"a", b"a"), (b"aa", b"aa"), (b"aaaa", b"aaaa"), (b"aaa", b"b"), (b"aa", b"a"),
    (b"a", b"bc"),
    (b"'", b"s"), (b"'", b"t"), (b"1", b"2"), (b"12", b"3"), (b"2", b"3"), (b" ", b" "),
    (b"  ", b"  "),
    (b"\n", b"\n"), (b" ", b"a"), (b" a", b"b"), (b"x", b"y"), (b"y", b"x"), (b"yx", b"yx"),
    (b"xy", b"xy"),
    (b"\xc3", b"\xa9"), (b"\xe2", b"\x80"), (b"\xe2\x80", b"\x99"), (b"!", b"!"), (b".", b"."),
    (b"..", b"."), (b"<", b"|"), (b"|", b">"), (b"e", b"n"),
]

TRICKY = [
    "", " ", "  ", "\n", "\t", "\0", "a", "hello world", "hello  world", "hello world ",
    "hello world  ", " hello", "  hello", "   hello   ", "hello\nworld", "hello\n\nworld",
    "hello \n world", "hello\r\nworld\r\n", "\n\n\n", " \n", "\n ", "\t\tx", "a\t b",
    "x \t\n\r\v\f y", "I'm you're he's don't we'll they've I'd", "I'M YOU'RE HE'S DON'T WE'LL",
    "'s", "''s", " 's", "'", "'l", "'lx", "'sx", "'ll'll", "it\u2019s", "rock'n'roll 'tis",
    "'re're'", "x'y", "'\u00e9", "'dd've'v", "123", "1234567890", " 123", "a1b2c3", "3.14159",
    "1,000,000", "x86_64", "12 23 123", "abc123!?", "!!!", "...", " ...", "?! ?!", "a.b,c;d",
    "$5.00", "C++ C#", "[](){}<>", "#### ====", "-- - ---", "caf\u00e9", "na\u00efve \u00c9t\u00e9",
    "e\u0301", "\u0301", "stra\u00dfe", "\u0130stanbul \u0131", "\u65e5\u672c\u8a9e",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f", "\ud55c\uad6d\uc5b4",
    "\u0645\u0631\u062d\u0628\u0627", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u05e9\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u03b1\u03b2\u03b3", "\U0001f600",
    " \U0001f600\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
    "\u2764\ufe0f", "\U0001d400\U0001d7d9", "\U00020000", "\U0010ffff", "\ufffd", "\ufeffx",
    "\uffff", "\ue000", "\u00b2\u00b3\u00bd", "\u2160\u2161 \u2460", "\u0661\u0662\u0663",
    "\u0967\u0968", "x\u00b2", "\u3007\u4e00", "a\u00a0b", "a\u00a0 b", "\u00a0\u00a0b", "a\u0085b",
    "a \u0085 b", "a\u180eb", "a \u180e b", "a\u1680b", "a\u2000\u2001b", "a\u2028b\u2029c",
    "a\u202fb", "a\u205fb", "a\u3000b", "\u3000\u3000b", "a\u200bb", "a\u2060b", "a\x1cb", "a\x1db",
    "a\x1eb", "a\x1fb", "a \x1c b", "\x1c\x1d\x1e\x1f", "\x7f\x80\x9f", "a\0b\0\0c",
    "\u1c89\u1c8a x", "\ua7cb1", "\U00010d40\U00010d41", "a\U00011f02", "\U00031350 \U0002ebf0",
    "\U0001e4f0", "\U000116d0" + "5", "a\U0001f6dc", "a\u0558" + "b",
    EOT, EOT + EOT, "a" + EOT + "b", "a " + EOT + " b", "a  " + EOT + "  b", "<|endoftext",
    "<<|endoftext|>>",
    "endoftext|>", "<|ENDOFTEXT|>", "<|endoftext|", "<|<|endoftext|>", EOT + " ", "\n" + EOT + "\n",
    "'" + EOT + "s",
    "a" * 7, "a" * 47, "a" * 48, "a" * 49, "a" * 300, " " * 47, " " * 200 + "x", "ab" * 100,
    "xy" * 150, "aab" * 60,
    "abcabcabcab", "aaabaaab", "bcbcabcabc", "\u00e9" * 60, "=" * 100, "0" * 90, "\n" * 80,
    "\U0001f600" * 30, "The quick brown fox jumps over the lazy dog.",
    "def f(x):\n    return x  # no\n\n\nclass A:\n\tpass\n", "https://example.org/a?b=c&d=%20e#f",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "SolidGoldMagikarp", " davidjl", "rawdownloadcloneembedreportprint",
    "Lorem ipsum dolor sit amet, consectetur.", ]
NASTY = ["a", "b", "c", "x", "y", "h", "e", "l", "o", "s", "t", "n", "A", "Z", "1", "2", "3", " ",
         " ", " ", "  ", "\n", "\t", "\r", "'", "'s", "'ll", "'re", ".", "!", "<", "|", "#",
         "\u00e9", "\u00a0", "\u0085", "\u180e", "\u3000",
         "\u2019", "\u4e00", "\u0301", "\u00bd", "\U0001f600", "\x1f", "\0", EOT, "hello", " the",
         "\U0001d7d9", "\u200b"]


def byte_characters():
    """Returns the characters that spell bytes, by encoder.py of gpt-2."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in kept else chr(next(others)) for b in range(256)]


class Both:
    """The same vocabulary in both libraries."""

    def __init__(self, vocab, merges):
        characters = byte_characters()
        byte_of = {c: b for b, c in enumerate(characters)}
        self.hf = GPT2Tokenizer(vocab=vocab, merges=merges)
        # tiktoken uses the id as the rank, so ids must follow the order of the merges.
        ranks = {bytes(byte_of[c] for c in token): i for token, i in vocab.items() if token != EOT}
        self.tk = tiktoken.Encoding("x", pat_str=PATTERN, mergeable_ranks=ranks,
                                    special_tokens={EOT: vocab[EOT]})

    def encode(self, text, tiktoken_too=True):
        ids = self.hf.encode(text)
        if tiktoken_too and self.tk.encode(text, allowed_special="all") != ids:
            sys.exit(f"the two libraries differ on {text!r}")
        return ids


def tiny_vocabulary():
    characters = byte_characters()
    spell = lambda token: "".join(characters[b] for b in token)
    vocab = {c: b for b, c in enumerate(characters)}
    merges = []
    for left, right in TINY_MERGES:
        merges.append((spell(left), spell(right)))
        vocab.setdefault(spell(left + right), len(vocab))
    vocab[EOT] = len(vocab)
    return vocab, merges


def code_point_class(split, char):
    for side, name in (("a", "L"), ("1", "N"), ("!", "O")):
        if len(split(side + char + side)) == 1:
            return name
    return "S"


def main(data):
    folder = os.path.join(data, "gpt2")
    vocab = json.load(open(os.path.join(folder, "vocab.json"), encoding="utf-8"))
    lines = open(os.path.join(folder, "merges.txt"),
                 encoding="utf-8").read().rstrip("\n").split("\n")[1:]
    gpt2 = Both(vocab, [tuple(line.split(" ")) for line in lines])
    tiny = Both(*tiny_vocabulary())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str
    rng = random.Random(20240607)
    texts = TRICKY + ["".join(rng.choices(NASTY, k=rng.randint(2, 24))) for _ in range(250)]

    for left, right in TINY_MERGES:
        print("merge", left.hex(), right.hex())
    for text in texts:
        encoded = text.encode()
        if EOT not in text:
            print("split", encoded.hex() or "-", *[len(piece) for piece, _ in split(text)])
        # The tiny merges are out of order, so tiktoken cannot check them.
        print("tiny", encoded.hex() or "-", *tiny.encode(text, tiktoken_too=False))
        print("gpt2", encoded.hex() or "-", *gpt2.encode(text))
    for name in ("train-v1.1-excerpt.json", "dev-v1.1-excerpt.json"):
        print("file", name)
        for i, text in enumerate(squad_texts(os.path.join(data, "squad", name))):
            ids = gpt2.encode(text)
            if i < 3:
                print("gpt2", text.encode().hex(), *ids)
            print("squad", len(ids), hashed(b"".join(x.to_bytes(4, "little") for x in ids)))
    for first in range(0, 0x110000, 4096):
        classes = "".join("-" if 0xd800 <= c < 0xe000 else code_point_class(split, chr(c))
                          for c in range(first, first + 4096))
        print("class", f"{first:x}", hashed(classes.encode()))


main(sys.argv[1])
