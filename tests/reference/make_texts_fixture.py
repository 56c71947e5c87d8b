#!/usr/bin/env python3
"""Makes texts_squad.json, a small file in the format of SQuAD v2.0, and texts.json: the ids and
token types of its questions and contexts, cut to several lengths, from transformers (made with
5.23) with the tokenizers of examples/."""
import json
import os

from transformers import AutoTokenizer

here = os.path.dirname(os.path.abspath(__file__))
examples = os.path.join(here, "..", "..", "examples")

PARAGRAPHS = [
    ("A ring all-reduce moves 2 (n - 1) / n of the data over each link. It needs 2 (n - 1) steps.",
     ["How many steps does a ring all-reduce need?", "What moves over each link?"]),
    ("  Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.\nSie sind müde.  ",
     ["Wer jagt Viktor? ", " Wie sind sie?\n"]),
    ("北京 is a city; [SEP] and <|endoftext|> are tokens; \u2019quotes\u2019, tabs\tand\u00a0spaces.",
     ["What is 北京?", "[MASK]?", "?", ""]),
    ("x", ["y", "A question that is a good deal longer than the paragraph which it belongs to?"]),
    ("A rank's part of a matrix is called its shard. " * 12, ["What is a shard? " * 9]),
]
LENGTHS = [4, 7, 8, 16, 33, 64, 512]


def squad():
    articles, number = [], 0
    for title, some in (("one", PARAGRAPHS[:3]), ("two", PARAGRAPHS[3:])):
        paragraphs = []
        for context, questions in some:
            qas = []
            for question in questions:
                qas.append({"plausible_answers": [{"text": "x", "answer_start": 0}],
                            "question": question, "id": f"q{number}", "answers": [],
                            "is_impossible": True})
                number += 1
            paragraphs.append({"qas": qas, "context": context})
        articles.append({"title": title, "paragraphs": paragraphs})
    return {"version": "v2.0", "data": articles}


def main():
    with open(os.path.join(here, "texts_squad.json"), "w", encoding="utf-8") as f:
        json.dump(squad(), f, ensure_ascii=False, indent=1)
        f.write("\n")
    gpt = AutoTokenizer.from_pretrained(os.path.join(examples, "tiny-gpt2"))
    bert = AutoTokenizer.from_pretrained(os.path.join(examples, "tiny-bert"))
    pairs = [(q, c) for c, questions in PARAGRAPHS for q in questions]
    out = []
    for length in LENGTHS:
        for q, c in pairs:
            plain = gpt(f"{q} {c}", truncation=True, max_length=length)
            pair = bert(q, c, truncation=True, max_length=length)
            joined = bert(f"{q} [SEP] {c}", truncation=True, max_length=length)
            assert not any(joined["token_type_ids"])
            out.append({"max": length, "plain": plain["input_ids"], "pair": pair["input_ids"],
                        "types": pair["token_type_ids"], "joined": joined["input_ids"]})
    with open(os.path.join(here, "texts.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(o, separators=(",", ":")) for o in out) + "\n]\n")


main()
