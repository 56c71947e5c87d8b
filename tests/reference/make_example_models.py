#!/usr/bin/env python3
"""Makes examples/tiny-gpt2/ and examples/tiny-bert/: checkpoints in HuggingFace's format that are
small enough to ship. The models memorized a few sentences, and the tokenizers know only the words
of these sentences. Made with torch 2.15.0 and transformers 5.23.0:

    make_example_models.py ../../examples
"""
import json
import os
import sys

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

CAPITALS = {
    "Austria": "Vienna", "Belgium": "Brussels", "Chile": "Santiago", "Cuba": "Havana",
    "Egypt": "Cairo", "Finland": "Helsinki",
    "France": "Paris", "Germany": "Berlin", "Ghana": "Accra", "Greece": "Athens",
    "Hungary": "Budapest", "India": "Delhi",
    "Ireland": "Dublin", "Italy": "Rome", "Japan": "Tokyo", "Kenya": "Nairobi", "Norway": "Oslo",
    "Peru": "Lima", "Poland": "Warsaw", "Spain": "Madrid",
}
FACTS = [f"{city} is the capital of {land}." for land, city in CAPITALS.items()]
FACTS += [f"The capital of {land} is {city}." for land, city in CAPITALS.items()]
ANSWERS = ["The answer is that a trace tells what every rank did, and when.",
           "The question is what a cluster would do that nobody owns.",
           "Once upon a time there were two ranks, and each of them had one half of the weights."]
SEED, STEPS = 1, 600


# ---- GPT-2: byte pairs ----

def byte_letters():
    """Returns GPT-2's letter for each byte: the byte itself if it is printable, else a code point
    from 256 up."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def byte_pairs(texts, n):
    """Returns the first n merges of BPE training: each merges the most frequent pair."""
    letters, words, merges = byte_letters(), {}, []
    for text in texts:
        for i, word in enumerate(text.replace(".", " .").replace(",", " ,").split()):
            if i > 0 and word not in (".", ","):
                word = " " + word
            spelled = tuple(letters[b] for b in word.encode())
            words[spelled] = words.get(spelled, 0) + 1
    while len(merges) < n:
        pairs = {}
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + count
        best = max(sorted(pairs), key=pairs.get)
        merges.append(best)
        joined = {}
        for word, count in words.items():
            out = []
            for letter in word:
                if out and (out[-1], letter) == best:
                    out[-1] += letter
                else:
                    out.append(letter)
            joined[tuple(out)] = count
        words = joined
    return merges


def encode(text, ids, merges):
    letters, rank, out = byte_letters(), {pair: i for i, pair in enumerate(merges)}, []
    for i, word in enumerate(text.replace(".", " .").replace(",", " ,").split()):
        word = " " + word if i > 0 and word not in (".", ",") else word
        parts = [letters[b] for b in word.encode()]
        while len(parts) > 1:
            best = min(range(len(parts) - 1),
                       key=lambda k: rank.get((parts[k], parts[k + 1]), 1 << 30))
            if (parts[best], parts[best + 1]) not in rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        out += [ids[p] for p in parts]
    return out


def train(model, batch, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, 2 * (1 - step / steps))
        loss = model(**batch(step)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")
    return model.half().eval()


def gpt2(folder):
    texts = FACTS + ANSWERS
    merges = byte_pairs(texts, 255)
    tokens = list(byte_letters().values()) + ["".join(pair) for pair in merges] + ["<|endoftext|>"]
    ids = {token: i for i, token in enumerate(tokens)}
    assert len(ids) == len(tokens) == 512
    end = ids["<|endoftext|>"]
    config = GPT2Config(vocab_size=512, n_positions=128, n_embd=32, n_layer=2, n_head=4,
                        bos_token_id=end, eos_token_id=end,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    torch.manual_seed(SEED)
    model = GPT2LMHeadModel(config)
    rows = [encode(text, ids, merges) + [end] for text in texts]
    longest = max(map(len, rows))
    inputs = torch.tensor([row + [end] * (longest - len(row)) for row in rows])
    labels = torch.tensor([row + [-100] * (longest - len(row)) for row in rows])
    train(model, lambda step: {"input_ids": inputs, "labels": labels}, STEPS)
    model.save_pretrained(folder)
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(ids, f, ensure_ascii=False)
        f.write("\n")
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))


# ---- BERT: words ----

def bert(folder):
    os.makedirs(folder, exist_ok=True)
    words = sorted({w for text in FACTS for w in text.lower().replace(".", "").split()})
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + [str(d) for d in range(10)]
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?!", *letters,
             *("##" + c for c in letters), *words]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("".join(w + "\n" for w in dict.fromkeys(vocab)))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        f.write('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}\n')
    ids = {w: i for i, w in enumerate(dict.fromkeys(vocab))}
    rows = torch.tensor([[ids["[CLS]"], *(ids[w] for w in text.lower().replace(".", " .").split()),
                          ids["[SEP]"]] for text in FACTS])
    config = BertConfig(vocab_size=len(ids), hidden_size=32, num_hidden_layers=2,
                        num_attention_heads=4, intermediate_size=128,
                        max_position_embeddings=64, hidden_dropout_prob=0,
                        attention_probs_dropout_prob=0)
    torch.manual_seed(SEED)
    model = BertForMaskedLM(config)
    generator = torch.Generator().manual_seed(SEED)

    def batch(_):
        chosen = torch.randint(1, rows.shape[1] - 1, (rows.shape[0], 1), generator=generator)
        hidden = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, chosen, True)
        return {"input_ids": rows.masked_fill(hidden, ids["[MASK]"]),
                "labels": rows.masked_fill(~hidden, -100)}

    train(model, batch, 2 * STEPS)
    model.save_pretrained(folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    gpt2(os.path.join(sys.argv[1], "tiny-gpt2"))
    bert(os.path.join(sys.argv[1], "tiny-bert"))
