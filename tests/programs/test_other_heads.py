"""Tests checkpoints with heads that the program does not run, such as classification. transformers
wrote the checkpoints and the reference (tests/reference/other_heads.json): logits and the list of
unused tensors match it. If the head that predicts tokens is missing, the program fails instead of
inventing one."""
from inference_runs import *  # noqa: F403

WANT = load_json(os.path.join(REFERENCE, "other_heads.json"))
TENSORS = read_tensors(os.path.join(REFERENCE, "other_heads.safetensors"))


def checkpoints(f):
    """Writes each checkpoint into a folder, and the prompt into ids.txt. Yields folders and
    cases."""
    write_ids(f, [WANT["tokens"]])
    for i, case in enumerate(WANT["checkpoints"]):
        own = {n.split("/", 1)[1]: t for n, t in TENSORS.items() if n.startswith(f"{i}/")}
        os.makedirs(f / str(i))
        write_tensors(f / f"{i}/model.safetensors", own)
        f.write(f"{i}/config.json", json.dumps(case["config"]))
        yield str(i), case


def options(case):
    bert = ["--mask_id", WANT["tokens"][2]]
    return ["--prompt_ids", "ids.txt",
            *(bert if "Bert" in case["class"] else ["--temperature", 0, "--num_output_tokens", 1])]


def reported_unused(result):
    lines = [line for line in result.stderr.decode().splitlines() if "unused: " in line]
    assert len(lines) <= 1, lines
    return lines[0].split("unused: ")[1] if lines else ""


def names(said):
    return sorted(re.sub(r" \([^)]*\)", "", said).split(", ")) if said else []


def test_predictions_are_transformers():
    with Folder() as f:
        reported = {}
        for folder, case in checkpoints(f):
            if case["missing"]:
                continue
            for tp in (1, 2):
                result = f.run("--weights", folder, *options(case), "--save_logits", "l.npy",
                               "--tp", tp)
                expect_ok(result)
                reported[case["class"]] = reported_unused(result)
                assert names(reported[case["class"]]) == case["unused"], (reported, case["unused"])
                got = read_npy(f / "l.npy")[1]
                largest = max(map(abs, case["logits"]))
                assert max(abs(a - b) for a, b in zip(got, case["logits"], strict=True)) \
                    < 1e-5 * largest, case["class"]
        assert reported["GPT2DoubleHeadsModel"].endswith("summary.weight (a head for choices)"), \
            reported
        assert reported["GPT2ForTokenClassification"] == \
            "classifier.bias, classifier.weight (a head for classification)", reported
        assert reported["BertForMaskedLM"] == "" == reported["LlamaModel"], reported
        assert len(reported) == 10, reported


def test_no_head_is_made_up():
    with Folder() as f:
        n = 0
        for folder, case in checkpoints(f):
            if not case["missing"]:
                continue
            n += 1
            bert = "Bert" in case["class"]
            head = "cls.predictions" if bert else "lm_head"
            tied = "such as classification" + (";" if bert else ", or config.json should say")
            for more in ([], ["--logits", "all", "--save_logits", "l.npy"],
                         ["--save_weights", "s"]):
                refuse(f, ["--weights", folder, *options(case), *more], 1,
                       "have no head that predicts tokens ('" + head, tied, "--embeddings FILE.npy")
            result = f.run("--weights", folder, "--prompt_ids", "ids.txt", "--embeddings", "e.npy",
                           "--pooling", "mean")
            expect_ok(result)
            assert names(reported_unused(result)) == case["unused"], case["class"]
            assert read_npy(f / "e.npy")[0] == (1, 8)
        assert n == 8, n


def test_other_tensors_are_still_errors():
    """Tensors that belong to no known head, or to a head that is run, are errors."""
    with Folder() as f:
        _, case = next(c for c in checkpoints(f) if c[1]["class"] == "GPT2Model")
        folder = str(WANT["checkpoints"].index(case))
        tensors = read_tensors(f / f"{folder}/model.safetensors")
        for name in ("lm_head.bias", "h.0.attn.rotary.inv_freq", "adapter.weight"):
            write_tensors(f / f"{folder}/model.safetensors",
                          {**tensors, name: ("F32", [2], bytes(8))})
            result = f.run("--weights", folder, *options(case))
            assert "1 unexpected ('" + name in sentence_of(result, 1)


def test_names_that_nobody_knows_lack_more_than_a_head():
    """If all names have an unknown prefix, as torch.compile and adapters write it, the message
    names the tensors and does not blame a missing head."""
    with Folder() as f:
        for folder, case in checkpoints(f):
            if case["class"] not in ("LlamaModel", "BertModel"):
                continue
            tensors = read_tensors(f / f"{folder}/model.safetensors")
            write_tensors(f / f"{folder}/model.safetensors",
                          {"_orig_mod." + name: t for name, t in tensors.items()})
            said = sentence_of(f.run("--weights", folder, *options(case)), 1)
            assert "do not fit the model: " in said and "unexpected ('_orig_mod." in said, said


if __name__ == "__main__":
    main(globals())
