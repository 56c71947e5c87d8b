"""Compares the traces of inference with expect.py, which computes the contents of a Megatron-style
GPT training step from the formulas in papers.

Inference's prefill corresponds to the forward pass of a training step. Therefore
* tp all-reduces inside the layers are half of expect.py's, which count forward and backward
* expect.py's LM head covers all positions and ours only the last of each sequence, so the head is
  compared separately
* expect.py's collectives outside the layers (loss) do not exist here
* expect.py's parameters include seq positions, so seq must be the model's number of positions
* vocabulary sizes must be divisible by tp
"""
from inference_runs import *  # noqa: F403

MODELS = [  # layers, hidden, heads, seq, vocab, ffn (0: 4 hidden), batch
    (3, 64, 8, 48, 320, 0, 2),
    (2, 96, 8, 33, 256, 200, 1),
    (5, 32, 8, 7, 512, 64, 3),
]


def expected(layers, hidden, heads, seq, vocab, ffn, batch, tp, size=4):
    tools = os.environ.get("SYN_SHARED_TOOLS")
    if not tools:
        raise Skip("SYN_SHARED_TOOLS is not set")
    options = dict(layers=layers, hidden=hidden, heads=heads, seq=seq, vocab=vocab, ffn=ffn, tp=tp)
    options.update({"micro-batch": batch, "global-batch": batch, "dtype-bytes": size})
    command = [sys.executable, tools + "/expect.py"]
    for name, value in options.items():
        command += ["--" + name, str(value)]
    (stage,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    tokens = batch * seq
    head = 2 * tokens * hidden * vocab // tp
    return stage["params"], stage["matrix_flops_forward"] - head, head // seq, \
        stage["tensor_parallel"]


def recorded(folder, layers, hidden, heads, seq, vocab, ffn, batch, tp, *more):
    """Returns the ops and tensors of rank 0 of a prefill, from node-link JSON."""
    config = dict(n_layer=layers, n_embd=hidden, n_head=heads, n_positions=seq, vocab_size=vocab,
                  n_inner=ffn or None, name="m")
    path = folder.write("m.json", json.dumps(config))
    expect_ok(folder.run("--device", "meta", "--model_config", path, "--tp", tp, "--batch_size",
                         batch, "--num_input_tokens", seq,
                         "--num_output_tokens", 1, "--visualize_trace", "--quiet", "--out_dir",
                         "out", *more))
    nodes = [n for n in load_json(folder / "out/tensor_trace_graph.json")["nodes"]
             if n["rank"] == 0]
    return [n for n in nodes if n["type"] == "op"], [n for n in nodes if n["type"] == "tensor"]


def elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def compare(model, tp, dtype, size):
    params, layer_flops, head_flops, collectives = expected(*model, tp, size)
    with Folder() as f:
        ops, tensors = recorded(f, *model, tp, "--dtype", dtype)
    in_layers = [n for n in ops if n["scope"].startswith("h.")]
    products = ("linear", "matmul")
    got = sum(elements(t["shape"]) for t in tensors if t.get("role") == "param")
    assert got == params, f"parameters {got}, expected {params}"
    got = sum(n["flops"] for n in in_layers if n["op"] in products)
    assert got == layer_flops, f"flops in layers {got}, expected {layer_flops}"
    got = sum(n["flops"] for n in ops if n["op"] in products and n["scope"] == "head")
    assert got == head_flops, f"flops of the head {got}, expected {head_flops}"
    reduces = [n for n in in_layers if n["op"] == "all_reduce"]
    want = collectives.get("layer_all_reduce", {"count": 0, "bytes": 0})
    assert 2 * len(reduces) == want["count"], (len(reduces), want)
    assert 2 * sum(n["comm_bytes"] for n in reduces) == want["bytes"], want
    others = [n["op"] for n in in_layers if n["kind"] == "collective" and n["op"] != "all_reduce"]
    assert not others, others


def test_prefill_of_small_models():
    for model in MODELS:
        for tp in (1, 2, 4, 8):
            for dtype, size in (("f32", 4), ("bf16", 2)):
                compare(model, tp, dtype, size)


def test_totals_of_large_models():
    """Compares totals from the printed summary, without a trace, because these models are large."""
    for name, model in (("gpt2-xl", (48, 1600, 25, 1024, 50257, 0, 1)),
                        ("megatron-22b", (48, 6144, 64, 2048, 51200, 0, 1)),
                        ("megatron-530b", (105, 20480, 128, 2048, 51200, 0, 2))):
        for tp in (1, 8) if name != "gpt2-xl" else (1, 5):
            vocab = -(-model[4] // tp) * tp
            model = model[:4] + (vocab,) + model[5:]
            dtype, size = ("f16", 2) if tp == 8 else ("f32", 4)
            _, layer_flops, head_flops, collectives = expected(*model, tp, size)
            with Folder() as f:
                s = json.loads(expect_ok(f.run("--json", "--device", "meta", "--model", name,
                                               "--tp", tp, "--batch_size", model[6],
                                               "--num_input_tokens", model[3],
                                               "--num_output_tokens", 1, "--attention", "unfused",
                                               "--dtype", dtype)))
            ops = {o["op"]: o for o in s["ops"]}
            assert ops["linear"]["flops"] + ops["matmul"]["flops"] == layer_flops + head_flops, \
                (name, tp)
            if tp == 1:
                assert "all_reduce" not in ops
                continue
            want = collectives["layer_all_reduce"]
            embedding = model[6] * model[3] * model[1] * size
            assert ops["all_reduce"]["calls"] == want["count"] // 2 + 1, (name, tp)
            assert ops["all_reduce"]["comm_bytes"] == want["bytes"] // 2 + embedding, (name, tp)
            assert ops["all_gather"]["comm_bytes"] == model[6] * vocab // tp * size, (name, tp)


if __name__ == "__main__":
    main(globals())
