#!/usr/bin/env python3
"""Makes saved_*/, folders that `model.save_pretrained` and `tokenizer.save_pretrained` of
transformers 5 write (weights, and a tokenizer.json without vocabulary files), and saved.json, the
outputs of AutoTokenizer and AutoModel for them.

    SYN_SHARED_DATA=... python3 make_saved_folders.py

The vocabularies are trained on SQuAD, in the style of each family:

    llama2        characters with byte fallback, as converted from SentencePiece: "\u2581" is put
                  before the text and replaces spaces
    llama3        bytes, with Llama 3's word splits and a token that begins texts
    qwen2, qwen3  bytes, NFC
    mistral       SentencePiece as transformers 5 builds it, with Metaspace
    nemo          Mistral's later kind, bytes
    gpt2, bert    as the original models

Weights are random, in several shards and several dtypes. Expected values are computed in f64 from
the stored weights. margin is the smallest gap between the logits of the two likeliest tokens,
relative to the largest logit.
"""
import json
import pathlib
import shutil

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import make_tokenizer_json_fixture as kinds

HERE = pathlib.Path(__file__).parent
TEXTS = ["The tower was built in", "Who  won the\n\n1998 Café — Übung?", "你好 e\u0301 \U0001f600!"]
MASKED = ["The [MASK] was built in [MASK].", "who won the Café?  [MASK]"]
NEW_TOKENS = 50


# ---- Tokenizers ----


def sentencepiece(size):
    t = kinds.sentencepiece(size)
    return json.loads(t.to_str())["model"]


def llama2(size):
    """The form on the hub, with Prepend and Replace."""
    t = kinds.sentencepiece(size)
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                         normalizers.Replace(" ", "\u2581")])
    t.post_processor = kinds.template(t, "<s> $A", "<s> $A <s>:1 $B:1")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>",
                                                eos_token="</s>", unk_token="<unk>")


def bytes_of(size, cuts, special, nfc=False):
    t = Tokenizer(models.BPE(ignore_merges=not nfc))
    if nfc:
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(cuts), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    kinds.train(t, size, alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    return t


def begun(t, bos, **names):
    t.post_processor = kinds.template(t, f"{bos} $A", f"{bos} $A {bos}:1 $B:1")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token=bos, **names)


def llama3(size):
    t = bytes_of(size, kinds.LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    return begun(t, "<|begin_of_text|>", eos_token="<|end_of_text|>")


def nemo(size):
    t = bytes_of(size, kinds.TEKKEN, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])
    return begun(t, "<s>", eos_token="</s>", unk_token="<unk>")


def qwen(size):
    t = bytes_of(size, kinds.QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], nfc=True)
    made = json.loads(t.to_str())["model"]
    q = transformers.Qwen2Tokenizer(vocab=made["vocab"], merges=[tuple(m) for m in made["merges"]])
    q.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    return q


def mistral(size):
    made = sentencepiece(size)
    return transformers.LlamaTokenizer(vocab=made["vocab"],
                                       merges=[tuple(m) for m in made["merges"]])


def gpt2(size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    kinds.train(t, size, alphabet=pre_tokenizers.ByteLevel.alphabet(),
                special_tokens=["<|endoftext|>"])
    made = json.loads(t.to_str())["model"]
    return transformers.GPT2Tokenizer(vocab=made["vocab"],
                                      merges=[tuple(m) for m in made["merges"]])


def bert(size):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    kinds.train(t, size, "wordpiece",
                special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return transformers.BertTokenizer(vocab=json.loads(t.to_str())["model"]["vocab"])


# ---- Models ----

LLAMA31 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
               high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32)
FAMILIES = {
    "llama2": ("Llama", llama2, torch.bfloat16, {}),
    "llama3": ("Llama", llama3, torch.float32, dict(rope_parameters=LLAMA31,
                                                    tie_word_embeddings=True)),
    "qwen2": ("Qwen2", qwen, torch.bfloat16, dict(tie_word_embeddings=True)),
    "qwen3": ("Qwen3", qwen, torch.float32, dict(rope_parameters=YARN, tie_word_embeddings=True,
                                                 head_dim=8)),
    "mistral": ("Mistral", mistral, torch.bfloat16, dict(sliding_window=12)),
    "nemo": ("Mistral", nemo, torch.float16, dict(sliding_window=None, head_dim=8)),
    "gpt2": ("GPT2", gpt2, torch.float32, {}),
    "bert": ("Bert", bert, torch.float32, {}),
}


def config_of(name, tokenizer, hidden, layers, heads, keys, depth, vocab=0):
    cls, _, _, more = FAMILIES[name]
    c = dict(vocab_size=vocab or len(tokenizer), hidden_size=hidden, num_hidden_layers=layers,
             num_attention_heads=heads)
    if cls in ("GPT2", "Bert"):
        c["max_position_embeddings"] = c["n_positions"] = 128
        c.pop("n_positions" if cls == "Bert" else "max_position_embeddings")
        c["intermediate_size" if cls == "Bert" else "n_inner"] = 2 * hidden
        if cls == "GPT2":
            c["bos_token_id"] = c["eos_token_id"] = tokenizer.eos_token_id
    else:
        c.update(intermediate_size=2 * hidden, num_key_value_heads=keys, **more,
                 max_position_embeddings=256, bos_token_id=tokenizer.bos_token_id,
                 eos_token_id=tokenizer.eos_token_id)
        if "head_dim" in more:
            c["head_dim"] = depth
    return getattr(transformers, cls + "Config")(**c)


def fill(model, seed, gain):
    """Fills the weights so that logits are spread and the two likeliest tokens are seldom close."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, w in model.named_parameters():
            x = torch.randn(w.shape, generator=g)
            w.copy_(1 + 0.2 * x if w.dim() == 1 and "norm" in name.lower() and "bias" not in name
                    else gain * x / min(w.shape) ** 0.5 if w.dim() == 2 else 0.1 * x)
    return model.eval()


def sized(logits):
    return [float(f"{x:.7g}") for x in logits.tolist()]


def filled_in(model, tokenizer):
    """Returns the logits of a BERT at each [MASK]."""
    out = []
    for text in MASKED:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        at = [i for i, t in enumerate(ids) if t == tokenizer.mask_token_id]
        out.append({"text": text, "ids": ids, "logits": [sized(logits[i]) for i in at]})
    return out


def continued(model, tokenizer, texts):
    out = []
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            made = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)),
                                  max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0,
                                  output_logits=True, return_dict_in_generate=True)
        new = made.sequences[0, len(ids):].tolist()
        top = torch.stack(made.logits)[:, 0].topk(2).values
        margin = ((top[:, 0] - top[:, 1]) / top.abs().amax(-1)).min().item()
        out.append({"text": text, "ids": ids, "tokens": new, "margin": float(f"{margin:.2g}"),
                    "decoded": tokenizer.decode([t for t in new if t != tokenizer.eos_token_id]),
                    "logits": sized(made.logits[0][0])})
    return out


def make(name, folder, tokenizer, dtype, shard, seed, *size, gain=1.0):
    cls = FAMILIES[name][0] + ("ForMaskedLM" if name == "bert" else
                               "LMHeadModel" if name == "gpt2" else "ForCausalLM")
    shutil.rmtree(folder, ignore_errors=True)
    model = fill(getattr(transformers, cls)(config_of(name, tokenizer, *size)), seed, gain)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    load = transformers.AutoModelForMaskedLM if name == "bert" else \
        transformers.AutoModelForCausalLM
    return (load.from_pretrained(folder, dtype=torch.float64).eval(),
            transformers.AutoTokenizer.from_pretrained(folder))


def small():
    saved = {}
    for name, (_, train, dtype, _) in FAMILIES.items():
        trained = train(400)
        for seed in range(100):
            model, tokenizer = make(name, HERE / f"saved_{name}", trained, dtype, "30KB", seed, 24,
                                    2, 4, 2, 8, gain=1.5)
            if name == "bert":
                saved[name] = filled_in(model, tokenizer)
                break
            saved[name] = continued(model, tokenizer, TEXTS)
            ended = sum(len(p["tokens"]) < NEW_TOKENS for p in saved[name])
            if min(p["margin"] for p in saved[name]) > 1e-3 and ended < 2:
                break
        print(name, "seed", seed)
    (HERE / "saved.json").write_text(json.dumps(saved) + "\n")


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    small()


if __name__ == "__main__":
    main()
