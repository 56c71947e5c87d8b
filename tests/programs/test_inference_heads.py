"""Tests checkpoints whose file contains an output head although the configuration ties the head to
the token embedding. Logits match transformers' logits for the same files
(tests/reference/heads.json). Also tests the printed note, saved heads, and stop tokens."""
from inference_runs import *  # noqa: F403

HEADS = load_json(os.path.join(REFERENCE, "heads.json"))
GPT2_HEAD, GPT2_TABLE = "lm_head.weight", "transformer.wte.weight"
BERT_HEAD, BERT_TABLE = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"
BERT_BIAS, BERT_OTHER_BIAS = "cls.predictions.decoder.bias", "cls.predictions.bias"


def variant(folder, source, name, change):
    """Copies a checkpoint that is a single file and lets `change` edit its tensors. Returns its
    folder."""
    shutil.copytree(checkpoint(source), folder / name)
    tensors = read_tensors(folder / name + "/model.safetensors")
    change(tensors)
    write_tensors(folder / name + "/model.safetensors", tensors)
    return folder / name


def words(folder):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    os.makedirs(folder / "words", exist_ok=True)
    folder.write("words/vocab.txt", "\n".join(special + [f"w{i}" for i in range(98)]) + "\n")
    return folder / "words"


def run(folder, weights, tokens, *how, launcher=None):
    """Returns the logits after the prompt (BERT: of the mask), the summary, and the text on
    standard error."""
    bert = "bert" in os.path.basename(weights)
    ids = write_ids(folder, [tokens[1:-1] if bert else tokens])
    more = ["--tokenizer", words(folder)] if bert else ["--temperature", 0, "--num_output_tokens",
                                                        12]
    result = folder.run("--weights", weights, "--prompt_ids", ids, "--json", "--save_logits",
                        "l.npy", *more, *how, launcher=launcher)
    return read_npy(folder / "l.npy")[1], json.loads(expect_ok(result)), result.stderr.decode()


def test_the_file_has_the_last_word():
    """The head in the file is used, with threads and MPI processes, for all types and for shards. A
    note says so, except if the configuration does not tie the head."""
    ways = [([], None), (["--tp", 2], None), (["--tp", 4, "--attention", "unfused"], None)]
    if MPI:
        need_mpi()
        ways.append((["--tp", 2], MPI))
    with Folder() as f:
        for family in HEADS.values():
            for case in family:
                for how, launcher in ways:
                    logits, s, said = run(f, checkpoint(case["checkpoint"]), case["tokens"], *how,
                                          launcher=launcher)
                    assert difference(logits, case["logits"]) < 1e-5, (case["checkpoint"], how)
                    assert s.get("tokens") == ([case["greedy"]] if "greedy" in case else None)
                    assert said.count("which is used") \
                        == (0 if "untied" in case["checkpoint"] else 1), said


def test_an_equal_head_is_tied():
    """A head with the same numbers as the token embedding is treated as tied, also if the types or
    the signs of zeros differ. Results are those of the checkpoint without the head."""
    def equal(tensors):
        tensors[GPT2_HEAD] = tensors[GPT2_TABLE]

    def wider(tensors):
        content = tensors[GPT2_TABLE][2]
        values = struct.unpack(f"<{len(content) // 2}e", content)
        tensors[GPT2_HEAD] = ("F32", [101, 16], struct.pack(f"<{len(values)}f", *values))

    def zeros(tensors):
        rest = tensors[GPT2_TABLE][2][8:]
        tensors[GPT2_TABLE] = ("F32", [101, 16], struct.pack("<2f", 0.0, -0.0) + rest)
        tensors[GPT2_HEAD] = ("F32", [101, 16], struct.pack("<2f", -0.0, 0.0) + rest)

    tokens = HEADS["gpt2"][0]["tokens"]
    with Folder() as f:
        for i, (source, change) in enumerate((("head_gpt2_f32", equal), ("head_gpt2_f16", wider),
                                              ("head_gpt2_f32", zeros))):
            def alone(tensors, change=change):
                change(tensors)
                del tensors[GPT2_HEAD]

            with_head, _, said = run(f, variant(f, source, f"a{i}", change), tokens,
                                     "--save_weights", "saved")
            assert with_head == run(f, variant(f, source, f"b{i}", alone), tokens)[0]
            assert "which is used" not in said
            assert load_json(f / "saved/config.json")["tie_word_embeddings"]
            assert GPT2_HEAD not in read_tensors(f / "saved/model.safetensors")


def test_berts_biases():
    """The bias of BERT's head has two names. If the file has one of them, it is read. If it has
    both, the one that transformers adds to the logits is used."""
    case = HEADS["bert"][0]

    def one_bias(tensors):
        tensors[BERT_OTHER_BIAS] = tensors.pop(BERT_BIAS)

    def tied(tensors):
        tensors[BERT_HEAD] = tensors[BERT_TABLE]

    def all_tied(tensors):
        tied(tensors)
        one_bias(tensors)

    with Folder() as f:
        logits, _, said = run(f, variant(f, "head_bert_f32", "bert_one", one_bias), case["tokens"])
        assert difference(logits, case["logits"]) < 1e-5 and "differ in the weights" not in said
        with_two, _, said = run(f, variant(f, "head_bert_f32", "bert_two", tied), case["tokens"])
        assert ("cls.predictions.decoder.bias and cls.predictions.bias differ in the weights; "
                "the first is used") in said
        assert "which is used" not in said and difference(with_two, case["logits"]) > 0.01
        assert run(f, variant(f, "head_bert_f32", "bert_tied", all_tied),
                   case["tokens"])[0] == with_two


def test_another_shape_is_an_error():
    def cut(name, rows, columns):
        def change(tensors):
            dtype, shape, content = tensors[name]
            shape = [rows, columns] if len(shape) == 2 else [rows]
            size = 4 * rows * (columns if len(shape) == 2 else 1)
            tensors[name] = (dtype, shape, (content * 2)[:size])
        return change

    def bytes_of(name):
        def change(tensors):
            dtype, shape, content = tensors[name]
            tensors[name] = ("U8", shape, content[:len(content) // 4])
        return change

    with Folder() as f:
        ids = ["--prompt_ids", f.write("ids", "1\n")]
        cases = [("head_gpt2_f32", cut(GPT2_HEAD, 90, 16),
                  "'lm_head.weight' has the shape [90, 16]"),
                 ("head_gpt2_f32", cut(GPT2_HEAD, 101, 8),
                  "[101, 8], but 'transformer.wte.weight', which is tied to it, has [101, 16]"),
                 ("head_gpt2_f32", bytes_of(GPT2_HEAD), "'lm_head.weight' is U8"),
                 ("head_bert_f32", cut(BERT_HEAD, 104, 16),
                  "'cls.predictions.decoder.weight' has the shape [104, 16]"),
                 ("head_bert_f32", cut(BERT_BIAS, 102, 1),
                  "'cls.predictions.decoder.bias' has the shape [102]")]
        for i, (source, change, sentence) in enumerate(cases):
            for how in ([], ["--device", "meta"]):
                shutil.rmtree(f / f"v{i}", ignore_errors=True)
                refuse(f, ["--weights", variant(f, source, f"v{i}", change), *ids, *how], 1,
                       sentence)


def test_saved_heads_are_read_again():
    with Folder() as f:
        for family in HEADS.values():
            for case in family:
                kind = "bert" if "bert" in case["checkpoint"] else "gpt2"
                for how in ([], ["--tp", 2]):
                    out = f / ("out_" + kind)
                    run(f, checkpoint(case["checkpoint"]), case["tokens"], "--save_weights", out,
                        *how)
                    assert load_json(out + "/config.json")["tie_word_embeddings"] is False
                    names = set(read_tensors(out + "/model.safetensors"))
                    assert names >= ({BERT_HEAD, BERT_BIAS, BERT_OTHER_BIAS} if kind == "bert"
                                     else {GPT2_HEAD})
                    logits, _, said = run(f, out, case["tokens"])
                    assert difference(logits, case["logits"]) < 1e-5 and "is used" not in said


def test_endings():
    """Tokens match transformers (tests/reference/endings.json), whichever file sets the stop tokens
    and the padding after them."""
    endings = load_json(os.path.join(REFERENCE, "endings.json"))
    with Folder() as f:
        ids = write_ids(f, endings["prompts"])
        for i, case in enumerate(endings["cases"]):
            shutil.copytree(checkpoint(endings["checkpoint"]), f / str(i))
            values = load_json(f / f"{i}/config.json")
            f.write(f"{i}/config.json", json.dumps({**values, **case["config"]}))
            if case["generation_config"] is not None:
                f.write(f"{i}/generation_config.json", json.dumps(case["generation_config"]))
            how = ["--weights", i, "--prompt_ids", ids, "--temperature", 0, "--num_output_tokens",
                   12]
            assert summary(f, *how)["tokens"] == case["tokens"], case
            # the saved model stops at the same tokens
            expect_ok(f.run(*how, "--save_weights", f"{i}s", "--tp", 2, "--quiet"))
            how[1] = f"{i}s"
            assert summary(f, *how)["tokens"] == case["tokens"], case
        f.write("1/generation_config.json",
                '{"eos_token_id": 82, "encoder_repetition_penalty": 1.2, "num_beams": 1, '
                '"bad_words_ids": [], "suppress_tokens": [[3]], "do_sample": true, '
                '"stop_strings": "x", "min_p": null}')
        how[1] = 1
        said = f.run(*how).stderr.decode()
        assert ("generation_config.json sets encoder_repetition_penalty, suppress_tokens, "
                "stop_strings, which is not supported") in said, said
        assert "not done" not in f.run(*how, "--quiet").stderr.decode()
        for text, sentence in (('{"eos_token_id": "82"}',
                                '"eos_token_id" must be an integer, a list of integers or null'),
                               ('{"eos_token_id": [1.5]}', '"eos_token_id" must be an integer'),
                               ('{"eos_token_id": ' + str(list(range(17))) + "}",
                                "more than 16 ids"), ("[", "generation_config.json:1:")):
            f.write("1/generation_config.json", text)
            refuse(f, how, 1, sentence)


if __name__ == "__main__":
    main(globals())
