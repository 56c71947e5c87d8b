#!/usr/bin/env python3
"""Trains small tokenizers of the kinds that models' tokenizer.json files contain. Writes them to
tokenizers/NAME/, and the output of HuggingFace's tokenizers library for them to
tokenizer_json_fixture.txt.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    SYN_SHARED_DATA=... venv/bin/python make_tokenizer_json_fixture.py

Neither the build nor the tests need this script. The vocabularies are trained on the texts of SQuAD
and on words in other scripts. HASH is the CRC-32 in hexadecimal of the results of all texts in a
group: the ids (4 bytes each, little-endian), the offsets in characters (two numbers of 4 bytes
each), and the decoded text. Lines of the fixture:

    tokenizer NAME      the tokenizer of the next lines
    bit TEXT            a text, in hexadecimal, that is put between random texts
    squad N HASH        the texts of SQuAD, file N
    random FIRST HASH   500 texts: random text i, bit i modulo their number, random text i + 1
    points FIRST HASH   4096 code points, 64 per text
    text TEXT ID...     the ids of one text
    pair TEXT TEXT ID:TYPE...   the ids and types of two texts
"""
import array
import json
import os
import sys
import zlib

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

from fixture_texts import hexed, squad_texts
from make_wordpiece_fixture import random_text

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CAPITAL, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITAL}*{SMALL}+|[^\r\n\p{{L}}\p{{N}}]?{CAPITAL}+{SMALL}*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
OTHERS = ["Übergröße naïve café señor", "Привет, как дела? Это пример.", "ἀρχή κόσμος Ἑλλάς",
          "你好世界 这是一个例子", "こんにちは 世界 カタカナ", "안녕하세요 세계", "नमस्ते दुनिया", "مرحبا بالعالم",
          "e\u0301a\u0300 \u1e69 s\u0323\u0307", "\U0001f600\U0001f601 \U0001f468\u200d\U0001f469",
          "ﬁne ½ ² Ⅷ ｆｕｌｌ", "def f(x):\n    return x\n\n\n\tif x:  pass"] * 20


SQUAD = ["dev-v1.1-excerpt.json", "train-v1.1-excerpt.json"]


def squad_path(name):
    return f"{os.environ['SYN_SHARED_DATA']}/squad/{name}"


def corpus():
    return [t for name in SQUAD for t in squad_texts(squad_path(name))] + OTHERS


def added(content, **flags):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, **flags}
    return AddedToken(content, **flags)


# Added tokens with every flag, alone and combined.
ADDED = [added("<x>"), added("<left>", lstrip=True), added("<right>", rstrip=True),
         added("<both> y", lstrip=True, rstrip=True), added("word", single_word=True),
         added("Émile", normalized=True), added("the ", normalized=True),
         added(" Norm", normalized=True, single_word=True, lstrip=True), added("<x>y")]
SPECIAL = [added("<s>", special=True), added("</s>", special=True),
           added("<|im_start|>", special=True, rstrip=True)]
BITS = ["", "<x>", "a <left>", "<right>  \n", " <both> y ", "sword word words", "Émile émile",
        "THE the ", "Norm Norm", "<x>y<x>", "<s>", "</s> ", "<|im_start|> \t", "<0x0A>", "\u2581",
        " \u2581\u2581a",
        "[UNK]", "[CLS] [SEP]", "12345 678 9", "don'T I'LL it'\u017f '\u017f", "\r\n\r\n x  ",
        "\u0120", "##ing", "  ", "\n", "a.b,c!!", "\u1e9b\u0323", "\ufb03", "\uac01\u11a8",
        "Zürich\u0308"]


def train(tokenizer, size, kind="bpe", alphabet=None, **options):
    kinds = {"bpe": trainers.BpeTrainer, "wordpiece": trainers.WordPieceTrainer}
    trainer = kinds[kind](vocab_size=size, show_progress=False, initial_alphabet=alphabet or [],
                          limit_alphabet=320, **options)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def finish(tokenizer, special=SPECIAL, tokens=ADDED):
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(tokens)
    return tokenizer


def template(tokenizer, single, pair):
    names = {word.split(":")[0] for word in (single + " " + pair).split() if word[0] != "$"}
    return processors.TemplateProcessing(
        single=single, pair=pair,
        special_tokens=[(n, tokenizer.token_to_id(n)) for n in sorted(names)])


def edited(tokenizer, edit):
    """Returns the tokenizer of the file after edit(file)."""
    file = json.loads(tokenizer.to_str())
    edit(file)
    return Tokenizer.from_str(json.dumps(file))


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 900, alphabet=pre_tokenizers.ByteLevel.alphabet())

    def lose_merges(file):  # these words are tokens only with ignore_merges
        merges = file["model"]["merges"]
        file["model"]["merges"] = [m for i, m in enumerate(merges) if i % 7 or i < 300]
        known = set(file["model"]["vocab"])
        file["model"]["merges"] = [m for m in file["model"]["merges"] if "".join(m) in known]
    t = finish(edited(t, lose_merges))
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True),
                                            template(t, "<s> $A", "<s> $A <s>:1 $B:1")])
    return t


def qwen():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False)])
    t.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    t.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False,
                                            use_regex=False)
    return finish(train(t, 800, alphabet=pre_tokenizers.ByteLevel.alphabet()))


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    finish(train(t, 700, alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(
        ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def sentencepiece(size, **rules):
    """Returns a tokenizer as converted from a SentencePiece file. It is trained with Metaspace,
    which callers may replace."""
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True, **rules))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    train(t, size, special_tokens=names)
    file = json.loads(t.to_str())
    file["added_tokens"] = [a for a in file["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(file))
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def llama2():
    t = sentencepiece(900)
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                         normalizers.Replace(" ", "\u2581")])
    finish(t, SPECIAL[2:])
    t.post_processor = template(t, "<s> $A", "<s> $A <s>:1 $B:1")
    return t


def llama2_meta():
    t = sentencepiece(700)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    finish(t, SPECIAL[2:])
    t.post_processor = template(t, "<s> $A </s>", "<s> $A </s> <s>:1 $B:1 </s>:1")
    return t


def glued():
    """Has merges across words, lacks some bytes, and does not fuse unknown tokens."""
    def glue(file):
        vocab, merges = file["model"]["vocab"], file["model"]["merges"]
        for left, right in (("e", "\u2581"), ("\u2581", "\u2581"), ("s", "\u2581t"),
                            (".", "\u2581")):
            if left in vocab and right in vocab and left + right not in vocab:
                vocab[left + right] = len(vocab)
            if [left, right] not in merges:
                merges.append([left, right])
        for i, b in enumerate((0xe4, 0xf0)):
            vocab[f"lost{i}"] = vocab.pop(f"<0x{b:02X}>")
        file["model"]["fuse_unk"] = False
    t = edited(sentencepiece(600), glue)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    t.normalizer = normalizers.Strip()
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    return finish(t, SPECIAL[2:])


def mistral():
    t = sentencepiece(600, ignore_merges=True)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    t.normalizer = normalizers.Sequence([normalizers.Strip(left=True, right=False),
                                         normalizers.NFKC()])
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    return finish(t, SPECIAL[2:])


def nemo():
    """Mistral's later kind, in which a capital inside a word begins another word."""
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(TEKKEN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    finish(train(t, 700, alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = template(t, "<s> $A", "<s> $A <s>:1 $B:1")
    return t


def bert(lowercase, **rules):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase, **rules)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=lowercase)
    train(t, 1000, "wordpiece", special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    finish(t, [])
    if lowercase:
        t.post_processor = template(t, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    else:
        t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def bert_uncased():
    return bert(True)


def bert_cased():
    return bert(False, strip_accents=True, handle_chinese_chars=False)


def odd_bpe():
    """Works on characters, without an unknown token or a decoder."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(),
                                         normalizers.Lowercase(),
                                         normalizers.Replace(Regex(r"\s{2,}"), "  "),
                                         normalizers.Replace("the", "-")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                               pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits(individual_digits=False)])
    return finish(train(t, 600))


def odd_wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="<x>", max_input_chars_per_word=12))
    t.normalizer = normalizers.NFD()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.Split("e", "merged_with_next"),
        pre_tokenizers.Split(Regex("[aou]+"), "removed", invert=False),
        pre_tokenizers.Split(Regex(r"\d|[^\s\p{L}]"), "contiguous", invert=True)])
    train(t, 600, "wordpiece", special_tokens=["<x>"], continuing_subword_prefix="@@")

    def prefix(file):
        file["model"]["continuing_subword_prefix"] = "@@"
    t = edited(t, prefix)
    t.decoder = decoders.Sequence([decoders.WordPiece(prefix="@@", cleanup=True), decoders.Fuse(),
                                   decoders.Strip("a", 2, 0), decoders.Replace(Regex("[io]"), "_")])
    return finish(t, SPECIAL)


def odd_bytes():
    """Spells bytes before other cuts, lacks tokens for some bytes, and has a decoder of several
    steps."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
        pre_tokenizers.Split("\u0120", "merged_with_next")])
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    return finish(train(t, 500, special_tokens=["<unk>"]))


KINDS = [llama3, qwen, gpt2, llama2, llama2_meta, glued, mistral, bert_uncased, bert_cased, odd_bpe,
         odd_wordpiece, odd_bytes, nemo]


# ---- The fixture ----


def digest(tokenizer, texts):
    """Returns a hash of the results of all texts."""
    value = 0
    for encoding in tokenizer.encode_batch(texts):
        value = zlib.crc32(array.array("I", encoding.ids).tobytes(), value)
        flat = [x for pair in encoding.offsets for x in pair]
        value = zlib.crc32(array.array("I", flat).tobytes(), value)
        text = tokenizer.decode(encoding.ids, skip_special_tokens=False)
        value = zlib.crc32(text.encode(), value)
    return f"{value:08x}"


def points_text(first):
    """Returns 64 code points, without surrogates."""
    return "".join(f"a{chr(c)}b 1{chr(c)} '{chr(c)}\n" for c in range(first, first + 64)
                   if not 0xd800 <= c < 0xe000)


def random_group(first):
    return [random_text(i) + BITS[i % len(BITS)] + random_text(i + 1)
            for i in range(first, first + 500)]


TEXTS = ["", " ", "Hello world", "  two  spaces ", "don't we'll I'D", "abc<x>def</s>", "naïve café",
         "1234567", "\u4f60\u597d\u4e16\u754c", "\U0001f600", "a\n\n b", "<s><|im_start|> user",
         "the word", "Zürich", "e\u0301\u0327"]


def write(out, name, tokenizer):
    folder = f"{HERE}/tokenizers/{name}"
    os.makedirs(folder, exist_ok=True)
    file = json.loads(tokenizer.to_str())
    with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as f:
        json.dump(file, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    print("tokenizer", name, file=out)
    for number, squad in enumerate(SQUAD):
        print("squad", number, digest(tokenizer, squad_texts(squad_path(squad))), file=out)
    for first in range(0, 10000, 500):
        print("random", first, digest(tokenizer, random_group(first)), file=out)
    for first in range(0, 0x110000, 4096):
        texts = [points_text(c) for c in range(first, first + 4096, 64)]
        print("points", f"{first:x}", digest(tokenizer, texts), file=out)
    for text in TEXTS:
        print("text", hexed(text), *tokenizer.encode(text).ids, file=out)
    for a, b in (("Hello", "world"), ("", "a"), ("<x> a", "")):
        e = tokenizer.encode(a, b)
        ids = (f"{i}:{t}" for i, t in zip(e.ids, e.type_ids))
        print("pair", hexed(a), hexed(b), *ids, file=out)


def main():
    with open(f"{HERE}/tokenizer_json_fixture.txt", "w", encoding="ascii") as out:
        for bit in BITS:
            print("bit", hexed(bit), file=out)
        for kind in KINDS:
            write(out, kind.__name__, kind())


if __name__ == "__main__":
    sys.exit(main())
