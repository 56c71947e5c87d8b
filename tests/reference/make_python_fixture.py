#!/usr/bin/env python3
"""Makes python_fixture.txt: values that Python parsed with json.load, written by str() and by
json.dump(indent=4). Made with Python 3.11.2 (Unicode 14.0).

    python3 make_python_fixture.py            writes the fixture
    python3 make_python_fixture.py --table    prints the table of export/text/python_json.c

Each case has three lines: the JSON text; str() of a list with the value; json.dump of that list,
with tabs instead of line breaks. Before the cases, the line "printable HASH" has a 64-bit hash: for
each code point c from 0x80 up, hash = hash * 31 + isprintable(c).
"""
import json
import os
import random
import struct
import sys
import unicodedata

CODE_POINTS = range(0x80, 0x110000)
TEXTS = ["", "a", "aten::add", "it's", 'say "hi"', "both ' and \"", "tab\there", "nl\nx\r",
         "\x00\x1f\x7f", "back\\slash", "/",
         "15 characters x", "16 characters xx", "17 characters xxx", "x" * 31 + "'", "y" * 300,
         "z" * 300 + "\n", "\b\f", "\u00e9\u00ad\u0085\u00a0", "\u200b\u2028\ufeff\uffff\ue000",
         "\u4e2d\u6587", "\U0001f600\U000e0001", "\ud800", "\udc00\ud800",
         "aten::all(Tensor self, *, str mode='a') -> Tensor", '[{"pg_name": "0", "ranks": []}]',
         "<None>", "a" * 14 + "\u00e9"]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e15, 1e16, 1e17, 1e22, 1e21, 123456789012345678.0, 1e-4, 1e-5,
          9.999e-5, 2.5e-7, 5e-324,
          1.7976931348623157e308, 2.0**-44, 2.0**-1074, 2.0**1023, 2.0**43, 2.0**43 - 0.001,
          4461785512345.123, 8796093022208.25,
          0.30000000000000004, 0.30000001192092896, 1234567.891, 3.0000000000000004, 100.25,
          12.3447265625, float("nan"), float("inf"), -float("inf")]
NUMBERS = ["1E5", "1.50", "-0", "0.00010", "0.0000100", "1e400", "100000000000000000.0",
           "1234567890123456.5", "8796093022207.999", "8795999999999.999", "8796093022208.001",
           "0.00011", "12345678901234.5", "123456789012345.6", "1.0e-05", "123.4560",
           "12E-1", "4461785512345.1230", "0.001", "9007199254740993.0", "18446744073709551616",
           "-9223372036854775809", "1" * 70]


def value(rng, depth=0):
    kind = rng.random()
    if depth < 4 and kind < 0.25:
        return [value(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 4]))]
    if depth < 4 and kind < 0.35:
        return {rng.choice(TEXTS) + str(i): value(rng, depth + 1)
                for i in range(rng.choice([0, 1, 2]))}
    if kind < 0.55:
        return rng.choice([0, 1, -1, 256, rng.getrandbits(64), -rng.getrandbits(63), 10**40])
    if kind < 0.75:
        bits = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
        return rng.choice(FLOATS + [bits, rng.randrange(10**7) / 1000])
    return rng.choice(TEXTS + [True, False, None])


def text_of(x, rng):
    text = json.dumps(x, ensure_ascii=rng.random() < 0.5,
                      separators=rng.choice([None, (",", ":"), (" , ", " : ")]))
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        text = json.dumps(x)
    return text


def main():
    rng = random.Random(4)
    texts = [text_of(x, rng) for x in TEXTS + FLOATS for _ in range(2)] + NUMBERS
    texts += [text_of(value(rng), rng) for _ in range(250)]
    printable = 0
    for c in CODE_POINTS:
        printable = (printable * 31 + chr(c).isprintable()) % 2**64
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_fixture.txt")
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(f"printable {printable}\n")
        for text in dict.fromkeys(texts):
            boxed = [json.loads(text)]
            entry = f"{text}\n{boxed}\n{json.dumps(boxed, indent=4)}\n"
            f.write(entry.replace("\n", "\t").replace("\t", "\n", 2)[:-1] + "\n")


def table():
    edges, before = [], True
    for c in CODE_POINTS:
        if chr(c).isprintable() != before:
            before = not before
            edges.append(hex(c))
    print(f"/* {unicodedata.unidata_version} */")
    print(",\n".join(edges))


if __name__ == "__main__":
    table() if "--table" in sys.argv else main()
