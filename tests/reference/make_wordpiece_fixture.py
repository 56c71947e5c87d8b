#!/usr/bin/env python3
"""Writes wordpiece_fixture.txt and random_fixture.txt: the output of HuggingFace's tokenizers for
some texts.

    python3 -m venv venv && venv/bin/pip install transformers tokenizers
    venv/bin/python make_wordpiece_fixture.py ../shared/data .

Neither the build nor the tests need this script. Made with transformers 5.23.0 and tokenizers
0.23.3, whose BertTokenizer and GPT2Tokenizer are the fast ones. The slow BertTokenizerLegacy must
agree on all texts of SQuAD. For the other texts, the script prints how often it agrees. "uncased"
and "cased" are do_lower_case true and false, with the same vocabulary.

wordpiece_fixture.txt:

    text TEXT ID... / ID...     ids without [CLS] and [SEP], uncased and cased
    pair TEXT TEXT ID... / TYPE...  with [CLS] and [SEP], uncased; "none" for no second text
    back TEXT ID...             the decoder's text of the ids, without any cleanup
    file NAME                   the SQuAD file of the next lines
    squad N HASH N HASH         number and hash of the ids of each "context" and "question", uncased
                                and cased
    class FIRST HASH...         hash of the output of normalizer and pre-tokenizer for 4096 code
                                points, for each of MODES

random_fixture.txt has one line for each of RANDOM_TEXTS strings. The generator below and the one in
tests/support/tokenizer_fixture.h produce the same strings. A line has three hashes: of the ids by
GPT-2, uncased and cased. The last two also cover the words before they are cut into tokens, because
most unusual words become [UNK].

TEXT is UTF-8 in hexadecimal, "-" if empty. Hashes are 64-bit FNV-1a, written either completely in
hexadecimal, or folded to 18 bits as 3 characters of base 64. An id is hashed as 4 bytes,
little-endian, and a word as its UTF-8 (of the first 100 characters) and a zero byte.
"""
import os
import sys
import tempfile

from tokenizers import decoders, normalizers, pre_tokenizers
from transformers import BertTokenizer, GPT2Tokenizer
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from fixture_texts import fnv, hexed, squad_texts

RANDOM_TEXTS = 10000
MASK64 = 0xffffffffffffffff
# lowercase, strip_accents, handle_chinese_chars
MODES = [(True, True, True), (False, False, True), (True, False, True), (False, True, True),
         (True, True, False)]

TRICKY = [
    "", " ", "\n\t\r ", "a", "A", "hello world", "Hello, World!", "  hello  ", "unaffable",
    "UNAFFABLE", "I'm don't they'll", "caf\u00e9", "cafe\u0301", "CAF\u00c9",
    "na\u00efve \u00c9t\u00e9 \u00dcber \u00df \u1e9e \u00e6", "\u0130stanbul \u0131I",
    "e\u0301\u0302\u0323x", "\u0301abc", "a \u0301 b",
    "\u03a3\u03c3\u03c2 \u039f\u0394\u039f\u03a3", "\u212b\u212a\u2126",
    "\ufb01\ufb02 \uff21\uff22\uff43", "\u01c4\u01c5\u01c6", "\u4f60\u597d", "a\u4f60b\u597dc",
    "\u4f60 \u597d\uff0c\u4e16\u754c\u3002", "\u65e5\u672c\u8a9e\u3067\u3059",
    "\u3053\u3093\u306b\u3061\u306f", "\u30ab\u30bf\u30ab\u30ca \u30ac\u3099",
    "\ud55c\uad6d\uc5b4 \uac00\uac01", "\u1112\u1161\u11ab", "\uf900\uf901\ufa0e",
    "\U00020000\U0002a6d6", "\U0002b820\U0002b91f\U0002b920", "\U0002f800",
    "\u3400\u4dbf\u4dc0\u4dff\u9fff\ua000", "\u30000 \U00030000",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "a.b,c;d", "U.S.A.", "$5.00 \u20ac5 \u00a35",
    "3.14 1,000,000", "x86_64", "C++ C#", "##ing # ##", "a##b",
    "\u00a1\u00bf\u00ab\u00bb\u00a7\u00b6\u00b7", "\u2018\u2019\u201c\u201d\u2013\u2014\u2026",
    "\u037e\u0387\u055a\u05be\u060c", "\u2329\u232a\u3008", "\u226e\u2260\u226f",
    "\u00a9\u00ae\u2122\u00b0\u00b1", "\u00b4\u00a8\u1fef\u1fee",
    "\u166d \U000111c9 \u1734 \U0001171e", "\u2e43\u2e52 \u061d \u09fd", "\U00010ead \U00011fff",
    "\u08ca\u0897 \u1abf", "\u0941\u0902 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\u0645\u0631\u062d\u0628\u0627 \u0645\u0651", "\u05e9\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u0439\u0451 \u0438\u0306", "\U0001f600",
    "a\U0001f600b \U0001f600\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f", "\U0001f1e9\U0001f1ea", "a\0b", "a\x01b\x1fc\x7fd\x80e\x9ff", "a\u0085b",
    "a\u000bb\u000cc", "a\x1cb\x1db\x1eb", "\ufffd a\ufffdb", "\ufeffa", "a\u200bb\u2060c",
    "a\u00adb", "a\u180eb", "a\u061cb\u200eb", "a\u00a0b", "a\u1680b", "a\u2000\u2001\u200ab",
    "a\u2028b\u2029c", "a\u202fb\u205fc\u3000d", "\u3000", "a\ue000b", "a\uffffb\ufdd0c",
    "\U000e0001a", "\U0010ffff", "\u0378\u0379", "\U000e0100", "e\u0301\x00\u0302", "a\u200b\u0301",
    "a\u0323\u0307 a\u0307\u0323", "\u302e\u1baa \u1baa\u302e", "x\u302e\u034f\u1baa",
    "x\U0001d165\u302f\u1bab", "\U0001d15e \U0001d160", "\u0344\u0345", "\u0f73\u0f71\u0f72",
    "[MASK]", "[CLS] [SEP] [PAD] [UNK]", "a[MASK]b", "[mask]", "[MASK", "MASK]", "[[MASK]]",
    "[MASK][MASK]", " [MASK] ", "[ MASK ]", "e[SEP]\u0301x", "[M\u0301ASK]", "\u4f60[UNK]\u597d",
    "[SEP][", "[", "[[", "[CLS", "x[PAD]'s", "[UNK]known",
    "a" * 99, "a" * 100, "a" * 101, "b" * 1000, "\u00e9" * 100, "\u00e9" * 101, "e\u0301" * 100,
    "e\u0301" * 101, "\ud55c" * 33 + "a", "\ud55c" * 33 + "ab", "\u03b1" * 100, "\u03b1" * 101,
    "x" * 100 + "." + "y" * 101, "z" * 100 + "\u0301\x00", "z" * 101 + "\u4e00",
    "q" * 100 + "\u4e00",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "supercalifragilisticexpialidocious", "qzxjv \u00e6\u0153\u00f8",
    "https://example.org/a?b=c&d=%20e#f", "The quick brown fox jumps over the lazy dog.",
    "def f(x):\n    return x  # no\n", "Lorem ipsum dolor sit amet, consectetur.", ]
PAIRS = [("hello", None), ("", None), ("a b", "c"), ("", ""),
         ("Who was Jim Henson ?", "Jim Henson was a puppeteer"), ("[MASK] [SEP]", "x"),
         ("\u4f60", "")]

# ---- the generator: the same as random_text() in tests/support/tokenizer_fixture.h ----

SPACES = [0x9, 0xa, 0xb, 0xc, 0xd, 0x1c, 0x1f, 0x20, 0x85, 0xa0, 0x1680, 0x180e, 0x2000, 0x2003,
          0x200a, 0x200b, 0x2028, 0x2029, 0x202f, 0x205f, 0x2060, 0x3000, 0xfeff]
ODD = [0x130, 0x131, 0xdf, 0x1e9e, 0x3a3, 0x3c2, 0x212a, 0x212b, 0x37e, 0x1fef, 0x226e, 0x344,
       0x345, 0x34f, 0x302e, 0x1baa, 0x8d4, 0x897,
       0x1abf, 0x1734, 0x166d, 0x2e43, 0xfffd, 0xfe0f, 0x200d, 0x16ff0, 0x1d165, 0x1d15e, 0x111c9,
       0x11938, 0x1c89, 0x10d50, 0xa7cb, 0x2b820]
WORDS = ["the", "The", "unaffable", "hello", "don't", "I'll", "[MASK]", "[CLS]", "[SEP]", "[UNK]",
         "[PAD]", "[mask]", "[MASK",
         "<|endoftext|>", "<|endoftext", "##ing", "...", "2024", "caf\u00e9", "\u4f60\u597d"]
# (first code point, number of code points) of the other kinds of characters
KINDS = [(0x61, 26), (0x20, 95), (0xc0, 400), (0x300, 112), (0x4e00, 0x5200), (0x1f300, 0x800),
         (0, 32), (0x7f, 33), (0x80, 0x2f80), (0x2000, 0x70),
         (0x3000, 0x110), (0xff00, 0xf0), (0xac00, 0x2ba4), (0x10000, 0x10000), (0, 0x110000),
         (0x20, 1)]


class Random:
    """xorshift64* (Vigna 2016); uses the upper half."""

    def __init__(self, seed):
        self.state = seed * 0x9e3779b97f4a7c15 & MASK64

    def next(self):
        s = self.state
        s ^= s >> 12
        s ^= s << 25 & MASK64
        s ^= s >> 27
        self.state = s
        return (s * 0x2545f4914f6cdd1d & MASK64) >> 32


def random_text(number):
    rng = Random(number + 1)
    out = []
    for _ in range(rng.next() % 24 + 1):
        kind = rng.next() % 40
        kind = number % 20 if kind >= 20 else kind
        value = rng.next()
        if kind < 16:
            c = KINDS[kind][0] + value % KINDS[kind][1]
            out.append(chr(c - 0x800 if 0xd800 <= c < 0xe000 else c))
        elif kind == 16:
            out.append(chr(SPACES[value % len(SPACES)]))
        elif kind == 17:
            out.append(chr(ODD[value % len(ODD)]))
        elif kind == 18:
            out.append(WORDS[value % len(WORDS)])
        else:
            out.append(chr(0x61 + value % 26) * (value // 32 % 110))
    return "".join(out)


# ---- Hashes ----


def short(data):
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    value = fnv(data)
    value ^= value >> 36 ^ value >> 18
    return "".join(digits[value >> shift & 63] for shift in (0, 6, 12))


def id_bytes(ids):
    return b"".join(x.to_bytes(4, "little") for x in ids)


def word_bytes(words):
    return b"".join(word[:100].encode() + b"\0" for word in words)


# ---- The tokenizers ----


class Bert:
    def __init__(self, vocab_file, lower):
        self.lower = lower
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(vocab_file), os.path.join(folder, "vocab.txt"))
            self.fast = BertTokenizer.from_pretrained(folder, do_lower_case=lower)
        self.slow = BertTokenizerLegacy(vocab_file, do_lower_case=lower)
        self.words = words_of(lower, lower, True)
        self.texts = self.slow_differs = 0

    def encode(self, text, same=False):
        ids = self.fast.encode(text, add_special_tokens=False)
        differs = self.slow.encode(text, add_special_tokens=False) != ids
        if differs and same:
            sys.exit(f"the slow tokenizer differs on {text!r}")
        self.texts += 1
        self.slow_differs += differs
        return ids

    def short(self, text):
        return short(id_bytes(self.encode(text)) + word_bytes(self.words(text)))


def words_of(lower, strip, chinese):
    normalize = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=chinese,
                                           strip_accents=strip, lowercase=lower).normalize_str
    cut = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return lambda text: [word for word, _ in cut(normalize(text))]


def class_text(c):
    """Returns a text whose second word shows the combining class of c: U+302E has class 224 and
    U+1BAA class 9, and the normalizer keeps both."""
    return f"a{chr(c)}b x\u302e{chr(c)}\u1baa\u302e"


def write_fixture(out, data, uncased, cased):
    for text in TRICKY:
        print("text", hexed(text), *uncased.encode(text), "/", *cased.encode(text), file=out)
    for a, b in PAIRS:
        both = uncased.fast.backend_tokenizer.encode(a, b)  # transformers replaces None by ""
        print("pair", hexed(a), "none" if b is None else hexed(b), *both.ids, "/", *both.type_ids,
              file=out)
    decoder = decoders.WordPiece(prefix="##", cleanup=False)
    for ids in [[], [100], [2075], [2075, 2075], [1037, 2075, 1012],
                *[uncased.encode(text) for text in TRICKY[4:12] + TRICKY[-8:]]]:
        print("back", hexed(decoder.decode(uncased.fast.convert_ids_to_tokens(ids))), *ids,
              file=out)
    for name in ("train-v1.1-excerpt.json", "dev-v1.1-excerpt.json"):
        print("file", name, file=out)
        for text in squad_texts(os.path.join(data, "squad", name)):
            both = [bert.encode(text, same=True) for bert in (uncased, cased)]
            print("squad", *[x for ids in both for x in (len(ids), short(id_bytes(ids)))], file=out)
    modes = [words_of(*mode) for mode in MODES]
    for first in range(0, 0x110000, 4096):
        points = [c for c in range(first, first + 4096) if not 0xd800 <= c < 0xe000]
        hashes = [short(b"".join(word_bytes(words(class_text(c))) for c in points))
                  for words in modes]
        print("class", f"{first:x}", *hashes, file=out)


def main(data, folder):
    gpt2_folder, vocab = os.path.join(data, "gpt2"), os.path.join(data, "bert", "vocab.txt")
    gpt2 = GPT2Tokenizer.from_pretrained(gpt2_folder)
    uncased, cased = Bert(vocab, True), Bert(vocab, False)
    with open(os.path.join(folder, "wordpiece_fixture.txt"), "w") as out:
        write_fixture(out, data, uncased, cased)
    with open(os.path.join(folder, "random_fixture.txt"), "w") as out:
        for i in range(RANDOM_TEXTS):
            text = random_text(i)
            ids = gpt2.encode(text)
            if gpt2.decode(ids, clean_up_tokenization_spaces=False) != text:
                sys.exit(f"GPT-2 does not give back {text!r}")
            print(short(id_bytes(ids)) + uncased.short(text) + cased.short(text), file=out)
    for bert in (uncased, cased):
        print(f"lower case {bert.lower}: the slow tokenizer differs on {bert.slow_differs} of "
              f"{bert.texts} texts", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
