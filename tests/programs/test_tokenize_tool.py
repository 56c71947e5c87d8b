"""Tests `syntorch tokenize` as a user runs it: ids, pieces and offsets of texts, texts of ids, and
one sentence for invalid input. The expected ids come from HuggingFace's tokenizers library."""
import json
import os
import tempfile

import checks
from checks import SOURCE, check, finish, skip

FOLDERS = os.path.join(SOURCE, "tests/reference/tokenizers")
LLAMA3, BERT = os.path.join(FOLDERS, "llama3"), os.path.join(FOLDERS, "bert_uncased")


def run(*args):
    return checks.run("tokenize", *args)


def objects(*args):
    r = run("--json", *args)
    check(r.returncode == 0, f"{args}: {r.stderr}")
    return [json.loads(line) for line in r.stdout.splitlines()]


def tokens():
    """Ids, pieces and offsets match HuggingFace's tokenizers library, which read the same file."""
    got = objects("--tokenizer", LLAMA3, "Hello w\u00f6rld <x>", "b")
    check([len(got), got[0]["text"]] == [2, "Hello w\u00f6rld <x>"], str(got))
    want = {"ids": [900, 39, 811, 78, 264, 127, 114, 81, 513, 220, 903], "type_ids": [0] * 11,
            "pieces": ["<s>", "H", "ell", "o", "\u0120w", "\u00c3", "\u00b6", "r", "ld", "\u0120",
                       "<x>"],
            "offsets": [[0, 0], [0, 1], [1, 4], [4, 5], [6, 7], [7, 8], [7, 8], [8, 9], [9, 11],
                        [12, 12], [12, 15]]}
    for key, value in want.items():
        check(got[0][key] == value, f"{key}: {got[0][key]}")
    check(objects("--tokenizer", LLAMA3, "--plain", "b")[0]["ids"] == [65], "--plain")
    lines = run("--tokenizer", LLAMA3, "Hello").stdout.decode().splitlines()
    check(lines[0].split() == ["id", "from", "to", "piece"], lines[0])
    check(lines[3].split() == ["811", "1", "4", "ell"], lines[3])
    check(lines[-1] == "4 tokens", lines[-1])
    got = objects("a", "--tokenizer", "bytes", "b", "--", "--json", "--", "-h")
    check([o["text"] for o in got] == ["a", "b", "--json", "--", "-h"], f"behind --: {got}")
    got = objects("--tokenizer", BERT, "")[0]
    check([got["pieces"], got["offsets"]] == [["[CLS]", "[SEP]"], [[0, 0]] * 2], str(got))
    got = objects("--tokenizer", "bytes", "a\u00e9")[0]
    check([got["ids"], got["offsets"]] == [[97, 195, 169], [[0, 1], [1, 2], [2, 3]]], str(got))


def unknown_spelled_out():
    """A text that is spelled like the unknown token is not encoded as that token."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump({"model": {"type": "BPE", "unk_token": "<unk>", "merges": [],
                                 "vocab": {"<unk>": 0, "u": 1, "n": 2, "k": 3}}}, f)
        got = objects("--tokenizer", folder, "<unk>")[0]
    want = [[0, 1, 2, 3, 0], [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]]  # from tokenizers 0.23
    check([got["ids"], got["offsets"]] == want, str(got))


def texts():
    r = run("--tokenizer", LLAMA3, "--decode", "39", "811,78 264")
    check((r.returncode, r.stdout) == (0, b"Hello w\n"), f"{r.stdout} {r.stderr}")
    got = objects("--tokenizer", LLAMA3, "--decode", "39 811")[0]
    check((got["ids"], got["text"]) == ([39, 811], "Hell"), str(got))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text")
        with open(path, "w", encoding="utf-8") as f:
            f.write("two\nlines")
        got = objects("--tokenizer", LLAMA3, "--input", path)
        check(len(got) == 1 and got[0]["text"] == "two\nlines", str(got))
        ids = " ".join(map(str, got[0]["ids"][1:]))
        with open(path, "w", encoding="utf-8") as f:
            f.write(ids)
        got = objects("--tokenizer", LLAMA3, "--decode", "--input", path)
        check(got[0]["text"] == "two\nlines", str(got))


def refusals():
    for args, code, says in (
            (["--tokenizer", LLAMA3], 2, "a text is needed"),
            (["--tokenizer", LLAMA3, "--"], 2, "a text is needed"),
            (["a"], 2, "--tokenizer DIR is needed"),
            (["--tokenizer", "/nowhere", "a"], 1, "/nowhere is not a folder with a tokenizer"),
            (["--tokenizer", LLAMA3, "--decode", "x"], 1, "'x' is not a token id"),
            (["--tokenizer", LLAMA3, "--decode", "999999"], 1, "id 999999 at position 0 is not"),
            (["--tokenizer", LLAMA3, b"\xff"], 1, "not valid UTF-8 at byte offset 0"),
            (["--tokenizer", LLAMA3, "--input", "/nowhere"], 1, "/nowhere")):
        r = run(*args)
        lines = r.stderr.decode().splitlines()
        check(r.returncode == code and len(lines) == 1 and says in lines[0]
              and lines[0].startswith("syntorch tokenize: "), f"{args}: {r.returncode} {lines}")


if b"because PCRE2 was missing" in run("--tokenizer", LLAMA3, "a").stderr:
    skip("built without PCRE2")
if b"because utf8proc was missing" in run("--tokenizer", BERT, "a").stderr:
    skip("built without utf8proc")
tokens()
unknown_spelled_out()
texts()
refusals()
finish()
