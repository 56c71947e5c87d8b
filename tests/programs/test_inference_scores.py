"""Tests the scores of the inference program against those of transformers
(tests/reference/scores.json, distilbert.json and roberta.json): logits and hidden states of every
position, perplexities, and BERT without a tokenizer. Also tests RoBERTa's masks, and combinations
of options that are refused."""
from inference_runs import *  # noqa: F403

WANT = load_json(os.path.join(REFERENCE, "scores.json"))
WANT["models"] |= load_json(os.path.join(REFERENCE, "distilbert.json"))
WANT["models"] |= load_json(os.path.join(REFERENCE, "roberta.json"))
TEXT = os.path.join(REFERENCE, "scores", "text.txt")
BERT = checkpoint("tiny_bert_f32")
GPT2 = checkpoint("tiny_gpt2_f32")
LLAMA = checkpoint("tiny_llama")


def weights(name):
    return ["--weights", checkpoint(name)]


def tokenizer(name):
    return ["--tokenizer", os.path.join(REFERENCE, "scores", name)]


def padded(texts, rows, tokens):
    """Returns the numbers of all rows as one list, with rows of zeros after the rows of each text,
    so that each text has `tokens` rows."""
    width, out, at = len(rows[0]), [], 0
    for text in texts:
        for row in rows[at:at + len(text)]:
            out += row
        out += [0.0] * width * (tokens - len(text))
        at += len(text)
    return out


def check_scores(folder, name, *more, launcher=None):
    want = WANT["models"][name]
    texts, tokens = want["texts"], max(map(len, want["texts"]))
    for file in ("l.npy", "h.npy"):
        if os.path.exists(folder / file):
            os.remove(folder / file)
    expect_ok(folder.run(*weights(name), "--prompt_ids", write_ids(folder, texts), "--logits",
                         "all", "--save_logits", "l.npy", "--embeddings", "h.npy", "--quiet", *more,
                         launcher=launcher))
    for file, rows in (("l.npy", want["logits"]), ("h.npy", want["hidden"])):
        shape, got = read_npy(folder / file)
        assert shape == (len(texts), tokens, len(rows[0])), (name, file, shape)
        error = difference(got, padded(texts, rows, tokens))
        assert error < 1e-5, f"{name} {more}: {file} is off by {error}"


def test_every_position():
    with Folder() as folder:
        for name in WANT["models"]:
            for more in (["--tp", 1], ["--tp", 2], ["--tp", 4, "--attention", "unfused"]):
                check_scores(folder, name, *more)


def test_every_position_over_mpi():
    need_mpi()
    with Folder() as folder:
        for name in ("tiny_gpt2_f32", "tiny_qwen3", "tiny_bert_f32"):
            check_scores(folder, name, "--tp", 2, launcher=MPI)


def test_masks_of_roberta():
    """RoBERTa's tokenizer has other special tokens than BERT's, and its mask takes the space before
    it. The ids are those of the tokenizers library."""
    texts = ["Paris is <mask> a.", "<mask>"]
    ids = [[0, 19, 30, 47, 38, 48, 56, 38, 48, 60, 56, 30, 57, 1], [0, 60, 1]]
    with Folder() as folder:
        model = folder / "roberta"
        shutil.copytree(checkpoint("tiny_roberta"), model)
        shutil.copy(checkpoint("roberta_tokenizer/tokenizer.json"), model)
        folder.write("texts.txt", "\n".join(texts))
        got = summary(folder, "--weights", model, "--prompts", folder / "texts.txt")
        want = summary(folder, *weights("tiny_roberta"), "--prompt_ids", write_ids(folder, ids),
                       "--mask_id", 60)
        for a, b in zip(got["masks"], want["masks"], strict=True):
            assert [p["id"] for p in a["predictions"]] == [p["id"] for p in b["predictions"]]
            assert (a["sequence"], a["position"]) == (b["sequence"], b["position"]), (a, b)
        assert [m["position"] for m in got["masks"]] == [9, 1], got
        said = expect_ok(folder.run("--weights", model, "--prompt", "Paris is <mask>."))
        assert "<mask> at token 9:" in said, said
        said = expect_ok(folder.run("--model", "roberta-base", "--device", "meta"))
        assert "The capital of France is <mask>." in said, said
        refuse(folder, ["--weights", model, "--prompt", "Paris"], 1, "has no <mask> to fill in")


def test_pooling():
    with Folder() as folder:
        for name in ("tiny_llama", "tiny_bert_f32"):
            want = WANT["models"][name]
            rows = iter(want["hidden"])
            texts = [[next(rows) for _ in t] for t in want["texts"]]
            of = {"mean": [[sum(c) / len(t) for c in zip(*t)] for t in texts],
                  "first": [t[0] for t in texts], "last": [t[-1] for t in texts]}
            ids = write_ids(folder, want["texts"])
            for how, vectors in of.items():
                expect_ok(folder.run(*weights(name), "--prompt_ids", ids, "--embeddings", "e.npy",
                                     "--pooling", how, "--quiet", "--tp", 2))
                shape, got = read_npy(folder / "e.npy")
                assert shape == (len(texts), len(vectors[0])), shape
                error = difference(got, [x for v in vectors for x in v])
                assert error < 1e-5, f"{name} {how}: off by {error}"


def test_last_logits_are_the_last_of_all():
    """The logits of the last position are the last ones of `--logits all`. Generated tokens do not
    change if scores are also computed."""
    with Folder() as folder:
        texts = WANT["models"]["tiny_mistral"]["texts"]
        run = [*weights("tiny_mistral"), "--prompt_ids", write_ids(folder, texts), "--top_k", 1,
               "--num_output_tokens", 5]
        alone = summary(folder, *run, "--save_logits", "last.npy")
        both = summary(folder, *run, "--save_logits", "all.npy", "--logits", "all")
        assert alone["tokens"] == both["tokens"] and len(both["tokens"][0]) == 5
        assert both["score_ns"] > 0 and both["prefill_ns"] > 0
        (batch, tokens, width), got = read_npy(folder / "all.npy")
        _, last = read_npy(folder / "last.npy")
        rows = [got[(b * tokens + len(t) - 1) * width:][:width] for b, t in enumerate(texts)]
        assert batch == len(texts) and difference([x for r in rows for x in r], last) < 1e-5
        # no tokens are generated unless an option asks for them
        quiet = summary(folder, *run[:4], "--save_logits", "all.npy", "--logits", "all")
        assert quiet["tokens"] == [] and quiet["new_tokens"] == 0, quiet["tokens"]


def test_many_texts():
    """301 texts go through the model in several batches. Three of them get the same scores in a run
    without the others."""
    with Folder() as folder:
        for name, extra in (("tiny_bert_f32", ["--mask_id", 4]), ("tiny_qwen2", [])):
            texts = [[2 + (i * j * j + i + j) % 57 for j in range(n)]
                     for i, n in enumerate([40] + [5 + k % 30 for k in range(300)])]
            texts[-1][1] = texts[3][2] = texts[250][0] = texts[250][4] = 4
            run = [*weights(name), *extra]
            many = summary(folder, *run, "--prompt_ids", write_ids(folder, texts), "--embeddings",
                           "h.npy", "--save_logits", "l.npy", "--logits", "all")
            few = [3, 250, 300]
            some = summary(folder, *run, "--prompt_ids",
                           write_ids(folder, [texts[i] for i in few], "few.txt"), "--embeddings",
                           "h3.npy", "--save_logits", "l3.npy", "--logits", "all")
            for file, one in (("h.npy", "h3.npy"), ("l.npy", "l3.npy")):
                (batch, tokens, width), got = read_npy(folder / file)
                (_, short, _), want = read_npy(folder / one)
                assert (batch, tokens) == (301, 40) and batch * tokens > 8192
                for i, b in enumerate(few):
                    n = len(texts[b]) * width
                    error = difference(got[b * tokens * width:][:n], want[i * short * width:][:n])
                    assert error < 1e-5, (name, file, b, error)
            if extra:
                found = {(m["sequence"], m["position"]): m["predictions"][0]["id"]
                         for m in many["masks"]}
                for m in some["masks"]:
                    at = few[m["sequence"]], m["position"]
                    assert found[at] == m["predictions"][0]["id"], at
                assert len(some["masks"]) >= 4 and len(found) > len(some["masks"])


def test_bert_without_a_head():
    """A BertModel's checkpoint has no MLM head, and --embeddings needs none."""
    with Folder() as folder:
        ids = write_ids(folder, [[1, 5, 6, 2]])
        expect_ok(folder.run(*weights("tiny_bert_bf16_bare"), "--prompt_ids", ids, "--embeddings",
                             "bare.npy", "--quiet"))
        expect_ok(folder.run(*weights("tiny_bert_bf16"), "--prompt_ids", ids, "--embeddings",
                             "full.npy", "--quiet"))
        assert read_npy(folder / "bare.npy") == read_npy(folder / "full.npy")


def perplexity_of(folder, want, *more, launcher=None):
    options = [x for k, v in want["options"].items() for x in ("--" + k, v)]
    dtype = ["--dtype", "bf16"] if want["dtype"] == "bf16" else []
    got = summary(folder, *weights(want["folder"]), *tokenizer(want["tokenizer"]), "--perplexity",
                  TEXT, *options, *dtype, *more, launcher=launcher)
    for key in ("tokens", "windows", "counted_tokens"):
        assert got[key] == want[key], (want["folder"], key, got[key], want[key])
    error = abs(got["perplexity"] / want["perplexity"] - 1)
    assert error < (1e-2 if dtype else 2e-6), f"{want['folder']} {options} {more}: off by {error}"
    assert abs(math.log(got["perplexity"]) - got["mean_loss"]) < 1e-9
    assert got["score_ns"] > 0 and got["tokens_per_second"] > 0


def test_perplexity():
    with Folder() as folder:
        for i, want in enumerate(WANT["perplexities"]):
            perplexity_of(folder, want)
            perplexity_of(folder, want, "--tp", (2, 4)[i % 2], "--attention", "unfused")


def test_perplexity_over_mpi():
    need_mpi()
    with Folder() as folder:
        for want in WANT["perplexities"][1:9:4]:
            perplexity_of(folder, want, "--tp", 2, launcher=MPI)


def test_perplexity_is_reported():
    with Folder() as folder:
        run = ["--weights", GPT2, *tokenizer("plain"), "--perplexity", TEXT, "--stride", 20]
        text = expect_ok(folder.run(*run))
        assert "640 tokens in 30 windows of up to 64, stride 20" in text, text
        assert "perplexity: 141.29" in text and "mean loss 4.9508" in text, text
        assert "of 610 tokens" in text and "tokens/s" in text, text
        # meta has no data: the trace has the same rows, but there is no perplexity
        meta = summary(folder, *run, "--device", "meta", "--tp", 2)
        real = summary(folder, *run, "--tp", 2)
        assert meta["trace_hash"] == real["trace_hash"]
        assert "perplexity" not in meta and meta["predicted_score_ns"] > 0, sorted(meta)
        assert meta["windows"] == real["windows"] == 30


def test_scores_on_meta():
    with Folder() as folder:
        for name in ("tiny_qwen2", "tiny_bert_f32"):
            ids = write_ids(folder, WANT["models"][name]["texts"])
            run = [*weights(name), "--prompt_ids", ids, "--logits", "all", "--tp", 2]
            meta = summary(folder, *run, "--device", "meta")
            real = summary(folder, *run, "--save_logits", "l.npy")
            assert meta["trace_hash"] == real["trace_hash"], name


def test_a_slice_at_a_time():
    """The logits of 400 positions and 60,000 words are never all in memory, and the loss of a
    window is correct although it is computed slice by slice."""
    tokens, vocabulary = 400, 60000
    with Folder() as folder:
        def run(*args):
            return summary(folder, "--model_config", wide, *args)

        wide = folder.write("wide.json", json.dumps(
            {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": tokens,
             "vocab_size": vocabulary, "initializer_range": 0.5}))
        text = "".join(chr(97 + i * i % 26) for i in range(tokens))
        file = folder.write("text.txt", text)
        got = run("--prompt", text, "--logits", "all", "--save_logits", "all.npy")
        assert got["memory"]["peak_bytes"] < 0.8 * 4 * tokens * vocabulary, got["memory"]
        run("--prompt", text, "--save_logits", "last.npy", "--num_output_tokens", 1)
        shape, logits = read_npy(folder / "all.npy")
        assert shape == (1, tokens, vocabulary), shape
        assert difference(logits[-vocabulary:], read_npy(folder / "last.npy")[1]) < 1e-5
        loss = 0
        for t in range(tokens - 1):
            row = logits[t * vocabulary:(t + 1) * vocabulary]
            loss += math.log(sum(map(math.exp, row))) - row[ord(text[t + 1])]
        for tp in (1, 2):
            mean = run("--perplexity", file, "--tp", tp)["mean_loss"]
            assert abs(mean * (tokens - 1) / loss - 1) < 1e-6, (tp, mean, loss / (tokens - 1))


def test_memory_does_not_grow_with_the_text():
    with Folder() as folder:
        few, many = (summary(folder, "--perplexity", folder.write("text.txt", "abc d " * n),
                             "--max_length", 64)["memory"]["peak_bytes"] for n in (100, 1000))
        assert few == many, (few, many)


def test_bert_without_a_tokenizer():
    """Without a tokenizer, ids must include the special tokens. --mask_id names the token whose
    positions are predicted; without it, all positions are predicted."""
    want = WANT["models"]["tiny_bert_f32"]
    with Folder() as folder:
        ids = write_ids(folder, want["texts"])
        run = ["--weights", BERT, "--prompt_ids", ids, "--top_k", 3]
        all_of = summary(folder, *run, "--save_logits", "l.npy")
        shape, got = read_npy(folder / "l.npy")
        assert shape == (len(want["logits"]), len(want["logits"][0])), shape
        assert difference(got, [x for row in want["logits"] for x in row]) < 1e-5
        places = [(b, t) for b, text in enumerate(want["texts"]) for t in range(len(text))]
        assert [(m["sequence"], m["position"]) for m in all_of["masks"]] == places
        for mask, row in zip(all_of["masks"], want["logits"]):
            best = sorted(range(len(row)), key=lambda i: -row[i])[:3]
            assert [p["id"] for p in mask["predictions"]] == best, (mask, best)
            assert all(p["token"] is None for p in mask["predictions"])
        # only the positions of one token
        mask = want["texts"][1][2]
        some = summary(folder, *run, "--mask_id", mask)
        chosen = [(b, t) for b, t in places if want["texts"][b][t] == mask]
        assert [(m["sequence"], m["position"]) for m in some["masks"]] == chosen
        # The products have other numbers of rows, and are rounded differently.
        one, same = some["masks"][0], all_of["masks"][places.index(chosen[0])]
        for p, q in zip(one["predictions"], same["predictions"], strict=True):
            for key, value in p.items():
                near = isinstance(value, float) and abs(value - q[key]) <= 1e-5
                assert near or value == q[key], (one, same)
        text = expect_ok(folder.run(*run))
        assert "at token 0:" in text and "token id" in text and "[MASK]" not in text, text
        for tp in (2, 4):
            assert summary(folder, *run, "--tp", tp)["masks"][0]["predictions"][0]["id"] == \
                all_of["masks"][0]["predictions"][0]["id"]
        missing = sorted(set(range(3, 100)) - {i for t in want["texts"] for i in t})[0]
        refuse(folder, [*run, "--mask_id", missing], 1, f"no token {missing} (--mask_id)")
        refuse(folder, [*run, "--mask_id", 103], 1, "--mask_id 103", "not one of the 103 tokens")
        refuse(folder, ["--weights", BERT, "--prompt_ids", folder.write("gap.txt", "5 6\n\n7\n")],
               1, "line 2 is empty")
        refuse(folder, ["--weights", BERT, "--prompt", "a [MASK]"], 1, "no tokenizer next to")


def test_what_makes_no_sense():
    with Folder() as folder:
        ids = write_ids(folder, [[5, 6, 7]])
        llama = ["--weights", LLAMA, "--prompt_ids", ids]
        score = ["--weights", GPT2, *tokenizer("plain"), "--perplexity", TEXT]
        for args, *says in (
                ([*llama, "--logits", "all"], "--save_logits FILE.npy"),
                ([*llama, "--pooling", "mean"], "--embeddings FILE.npy"),
                ([*llama, "--stride", 4], "--stride", "--perplexity"),
                ([*llama, "--max_length", 4], "--max_length", "--perplexity"),
                ([*llama, "--mask_id", 4], "--mask_id applies only to BERT"),
                ([*llama, "--embeddings", "x.npy", "--device", "meta"], "--embeddings needs"),
                ([*llama, "--embeddings", "x.npy", "--temperature", 0], "generate nothing unless"),
                ([*llama, "--embeddings", "x.npy", "--save_logits", "x.npy"], "the same file"),
                (["--weights", BERT, "--perplexity", TEXT], "BERT does not predict the next token"),
                (["--weights", BERT, "--prompt", "x", "--mask_id", 4], "--mask_id applies only to"),
                ([*score, "--prompt", "x"], "no prompt"),
                ([*score, "--num_input_tokens", 3], "--max_length"),
                ([*score, "--num_output_tokens", 3], "generates no tokens"),
                ([*score, "--batch_size", 2], "one window at a time"),
                ([*score, "--temperature", 0], "samples no tokens"),
                ([*score, "--top_k", 1], "samples no tokens"),
                ([*score, "--top_p", 0.5], "samples no tokens"),
                ([*score, "--greedy"], "samples no tokens"),
                ([*score, "--eos", 3], "--perplexity generates no tokens"),
                ([*score, "--save_logits", "x.npy"], "--save_logits: --perplexity writes no"),
                ([*score, "--logits", "all"], "--logits: --perplexity writes no"),
                ([*score, "--embeddings", "x.npy"], "--embeddings: --perplexity writes no"),
                ([*score, "--pooling", "last"], "--pooling: --perplexity writes no")):
            refuse(folder, args, 2, *says)
        for args, *says in (
                ([*score, "--max_length", 65], "--max_length 65", "64 positions"),
                ([*score, "--max_length", 32, "--stride", 33], "--stride 33", "32"),
                ([*score[:-1], folder.write("none.txt", "")], "none.txt is empty"),
                ([*score[:-1], folder.write("one.txt", "a")], "only 1 token;"),
                ([*score[:-1], "absent.txt"], "absent.txt"),
                ([*score[:-1], folder.path], folder.path)):
            refuse(folder, args, 1, *says)
        with open(folder / "latin.txt", "wb") as f:
            f.write(b"caf\xe9 au lait")
        refuse(folder, [*score[:-1], "latin.txt"], 1, "latin.txt is not UTF-8")
        # inputs are not overwritten
        refuse(folder, [*llama[:2], "--prompt_ids", ids, "--embeddings", ids], 1, "ids.txt")


if __name__ == "__main__":
    main(globals())
