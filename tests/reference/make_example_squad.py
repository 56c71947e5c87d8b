#!/usr/bin/env python3
"""Makes examples/squad/: questions about imaginary clusters in the format of SQuAD v1.1, so that
pretraining runs without other data."""
import json
import os
import random

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "..", "..", "examples", "squad")

NAMES = """Alder Ash Aspen Bay Beech Birch Box Cedar Cherry Cypress Dogwood Elder Elm Fig Fir Hazel
Hemlock Hickory Holly Hornbeam Juniper Larch Laurel Lime Linden Magnolia Maple Medlar Mulberry Oak
Olive Osier Pear Pine Plane Plum Poplar Quince Redwood Rowan Sequoia Sorrel Spruce Sycamore Tamarack
Teak Thorn Walnut Wattle Willow Yew Acacia Baobab Banyan Cacao Catalpa Cork Ebony Gingko
Hawthorn""".split()
CITIES = "Aarhus Bergen Cork Delft Espoo Freiburg Ghent Haarlem Innsbruck Jena Krakow Leeds".split()
USES = ["the weather of the coming week", "folding proteins", "training language models",
        "simulating bridges", "the orbits of small planets", "reading old manuscripts"]
TOPOLOGIES = ["a ring", "a torus of two dimensions", "a fat tree", "a switch", "a hypercube"]
YEARS = range(2009, 2026)


def paragraph(name, rng):
    nodes, cards = 2 ** rng.randrange(2, 9), rng.choice([2, 4, 8, 16])
    memory = rng.choice([16, 24, 32, 40, 80, 96, 141])
    link = rng.choice([12, 25, 50, 100, 200, 400])
    city, use, topology = rng.choice(CITIES), rng.choice(USES), rng.choice(TOPOLOGIES)
    year = rng.choice(YEARS)
    facts = [
        (f"The cluster {name} stands in {city}.", f"Where does {name} stand?", city),
        (f"It was built in {year}.", f"In which year was {name} built?", str(year)),
        (f"It has {nodes} nodes with {cards} accelerators each, {nodes * cards} in all.",
         f"How many accelerators does {name} have?", str(nodes * cards)),
        (f"Every accelerator holds {memory} gigabytes.",
         f"How much memory does an accelerator of {name} have?", f"{memory} gigabytes"),
        (f"The nodes are joined by {topology}, whose links carry {link} gigabytes a second.",
         f"What joins the nodes of {name}?", topology),
        (f"Most of its time goes to {use}.", f"What is {name} used for?", use),
    ]
    middle = facts[1:]
    rng.shuffle(middle)
    facts = facts[:1] + middle
    context = " ".join(sentence for sentence, _, _ in facts)
    qas = []
    for i, (sentence, question, answer) in enumerate(rng.sample(facts, 4)):
        start = context.index(sentence) + sentence.index(answer)
        assert context[start:start + len(answer)] == answer
        qas.append({"id": f"{name.lower()}-{i}", "question": question,
                    "answers": [{"text": answer, "answer_start": start}]})
    return {"context": context, "qas": qas}


def write(file, title, names, rng):
    data = {"version": "1.1",
            "data": [{"title": title, "paragraphs": [paragraph(name, rng) for name in names]}]}
    with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
        f.write("\n")


def main():
    rng = random.Random(1)
    write("train.json", "Clusters", NAMES[:48], rng)
    write("validation.json", "More clusters", NAMES[48:], rng)


main()
