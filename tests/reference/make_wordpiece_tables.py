#!/usr/bin/env python3
"""Prints the tables of models/tokenizer/tokenizer_unicode.c: all code points for which utf8proc and
the Unicode tables of HuggingFace's tokenizers differ.

    python3 -m venv venv && venv/bin/pip install tokenizers unicodedata2
    venv/bin/python make_wordpiece_tables.py [--exact]

Neither the build nor the tests need this script. It was run with tokenizers 0.23.3, utf8proc 2.8.0
(Unicode 15.0) and unicodedata2 18.0.0. HuggingFace's tokenizers use categories of Unicode 8,
combining classes and decompositions of Unicode 9, and lower case of Unicode 17. A code point is in
the tables if utf8proc *or* unicodedata2 differs from HuggingFace, so that the tables also suit
later versions of utf8proc. --exact prints only the code points for which this utf8proc differs, one
per line.

    plain     HuggingFace has no category: not dropped, no punctuation, no mark
    no_marks  HuggingFace has no combining mark (category M, which StripAccents removes)
    compat    HuggingFace has no compatibility decomposition
    starters  HuggingFace has neither a combining class nor a decomposition
    lower     HuggingFace has another lower case
    odd       HuggingFace has another category than the later tables

Ranges include other code points between their ends if that does not change the result.
"""
import ctypes
import ctypes.util
import sys

import unicodedata2
from tokenizers import normalizers, pre_tokenizers

lib = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
lib.utf8proc_category_string.restype = ctypes.c_char_p
lib.utf8proc_unicode_version.restype = ctypes.c_char_p


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("combining", ctypes.c_int16)]


lib.utf8proc_get_property.restype = ctypes.POINTER(Property)


def only(**wanted):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **wanted}).normalize_str


clean, strip, lower = only(clean_text=True), only(strip_accents=True), only(lowercase=True)
nfd = normalizers.NFD().normalize_str
nfkd = normalizers.NFKD().normalize_str
any_mark = normalizers.StripAccents().normalize_str
pieces = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
POINTS = [c for c in range(0x80, 0x110000) if not 0xd800 <= c < 0xe000 and c != 0xfffd]


def utf8proc_nfd(c):
    buffer, last = (ctypes.c_int32 * 4)(), ctypes.c_int(0)
    n = lib.utf8proc_decompose_char(c, buffer, ctypes.c_ssize_t(4), 1 << 4, ctypes.byref(last))
    return "".join(chr(x) for x in buffer[:n])


def utf8proc_nfkd(c):
    buffer, last = (ctypes.c_int32 * 32)(), ctypes.c_int(0)
    n = lib.utf8proc_decompose_char(c, buffer, ctypes.c_ssize_t(32), 1 << 4 | 1 << 2,
                                    ctypes.byref(last))
    return "".join(chr(x) for x in buffer[:n])


def kind_of_category(category):
    if category[0] == "C" and category != "Cn":
        return "drop"
    return "punct" if category[0] == "P" else "mark" if category == "Mn" else "plain"


def kind(char):
    """Returns the kind that HuggingFace gives to a character. None for white space, and for
    characters that decompose, because their parts have kinds."""
    if nfd(char) != char or clean("a" + char + "b") == "a b":
        return None
    if clean(char) == "":
        return "drop"
    return "punct" if len(pieces("a" + char + "b")) == 3 else "mark" if strip(char) == "" \
        else "plain"


def is_starter(char):
    """Whether a character has no decomposition and combining class 0, so that neither U+0345 (class
    240) before it nor U+0334 (class 1) after it moves."""
    if char in "\u0345\u0334" or nfd(char) != char:
        return False
    return nfd("x\u0345" + char) == "x\u0345" + char \
        and nfd("x" + char + "\u0334") == "x" + char + "\u0334"


def ranges(points, harmless):
    out = []
    for c in sorted(points):
        if out and all(x in harmless for x in range(out[-1][1] + 1, c)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def show(name, points, harmless=frozenset()):
    print(name, len(points), "code points:",
          ", ".join("{0x%04x, 0x%04x}" % tuple(r) for r in ranges(points, harmless)))


def main(exact):
    print("utf8proc of Unicode", lib.utf8proc_unicode_version().decode(), "and unicodedata2",
          unicodedata2.unidata_version)
    plain, plain_if, starters, starters_if = set(), set(range(0xd800, 0xe000)), set(), set()
    odd, lowers = [], []
    marks, marks_if, compat, compat_if = set(), set(), set(), set()
    for c in POINTS:
        char = chr(c)
        categories = [lib.utf8proc_category_string(c).decode()] \
            + [unicodedata2.category(char)] * (not exact)
        combining = [lib.utf8proc_get_property(c).contents.combining] \
            + [unicodedata2.combining(char)] * (not exact)
        decomposed = [utf8proc_nfd(c)] + [unicodedata2.normalize("NFD", char)] * (not exact)
        mine = kind(char)
        if mine == "plain":
            plain_if.add(c)
        theirs = {kind_of_category(x) for x in categories}
        if mine is not None and theirs != {mine}:
            if mine == "plain":
                plain.add(c)
            else:
                odd.append(f"U+{c:04X} {mine} {' '.join(categories)}")
        if is_starter(char):
            starters_if.add(c)
            if any(combining) or any(x != char for x in decomposed):
                starters.add(c)
        if any_mark(char) != "":
            marks_if.add(c)
            if any(x[0] == "M" for x in categories):
                marks.add(c)
        elif any(x[0] != "M" for x in categories):
            odd.append(f"U+{c:04X} mark {' '.join(categories)}")
        mapped = [utf8proc_nfkd(c)] + [unicodedata2.normalize("NFKD", char)] * (not exact)
        if nfkd(char) == char:
            compat_if.add(c)
            if any(x != char for x in mapped):
                compat.add(c)
        elif any(x != nfkd(char) for x in mapped):
            odd.append(f"U+{c:04X} NFKD {ascii(nfkd(char))} {' '.join(map(ascii, mapped))}")
        if lower(char) != chr(lib.utf8proc_tolower(c)):
            lowers.append(f"U+{c:04X} -> " + " ".join(f"U+{ord(x):04X}" for x in lower(char)))
    show("plain", plain, () if exact else plain_if)
    show("starters", starters, () if exact else starters_if)
    show("no_marks", marks, () if exact else marks_if)
    show("compat", compat, () if exact else compat_if)
    print("odd:", ", ".join(odd))
    print("lower:", ", ".join(lowers))


main("--exact" in sys.argv[1:])
