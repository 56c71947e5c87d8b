"""Tests training of the dense families that differ from Llama in more than sizes, and of RoBERTa:
with tensor, sequence, pipeline and data parallelism, with ZeRO and recomputed activations, losses
are those of one rank, and saved models have the same tensors. tests/models/test_training.c compares
gradients and steps with PyTorch."""
import json
import os
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SYN_SOURCE"], "tests", "support"))
from checks import check, finish  # noqa: E402
from pretrain_runs import LLAMA, Runs, losses  # noqa: E402

COMMON = {**LLAMA, "num_hidden_layers": 4, "max_position_embeddings": 64}
MODELS = {"starcoder2": {"sliding_window": 20, "tie_word_embeddings": False},
          "phi3": {"head_dim": 12, "partial_rotary_factor": 0.5},
          "olmo2": {"attention_bias": True},
          "granite": {"embedding_multiplier": 3, "residual_multiplier": 0.5, "logits_scaling": 2,
                      "attention_multiplier": 0.3, "tie_word_embeddings": True},
          "smollm3": {"sliding_window": 20, "use_sliding_window": True,
                      "no_rope_layers": [1, 0, 1, 0]},
          "gemma2": {"head_dim": 12, "query_pre_attn_scalar": 8, "sliding_window": 20,
                     "attn_logit_softcapping": 4, "final_logit_softcapping": 8},
          "gemma3_text": {"head_dim": 12, "query_pre_attn_scalar": 8, "sliding_window": 20,
                          "sliding_window_pattern": 2},
          "opt": {"ffn_dim": 48},
          "roberta": {"max_position_embeddings": 66, "type_vocab_size": 1}}
STEPS = ["--max-seq-length", "64", "--max-steps", "4", "--learning-rate", "3e-3", "--dropout",
         "0"]
# Each layout has 8 samples per step: microbatches of `batch` samples. With tp 4, each key head is
# on two ranks.
LAYOUTS = [(8, "--num-gpus 4 --tp 4"),
           (8, "--num-gpus 4 --tp 4 --sp --activation-recompute selective"),
           (4, "--num-gpus 4 --tp 2 --zero 2 --activation-recompute full"),
           (2, "--num-gpus 8 --tp 2 --pp 2 --sp --gradient-accumulation-steps 2"),
           (2, "--num-gpus 2 --pp 2 --vp 2 --schedule interleaved --gradient-accumulation-steps 4"),
           (2, "--num-gpus 4 --zero 3")]


def tensors(folder):
    """Returns the shapes of a saved model's tensors."""
    with open(os.path.join(folder, "best_model", "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        return {name: said["shape"] for name, said in header.items() if name != "__metadata__"}


def as_one_rank(runs, name):
    one, folder = runs.train(name, *STEPS, "--batch-size", "8")
    for batch, layout in LAYOUTS:
        got, other = runs.train(name, *STEPS, "--batch-size", str(batch), *layout.split())
        if not check(len(got) == len(one) > 0, f"{name}, {layout}"):
            continue
        off = max(abs(a / b - 1) for a, b in zip(losses(got), losses(one), strict=True))
        check(off < 2e-6, f"{name}, {layout}: {losses(got)}, not {losses(one)}")
        check(tensors(other) == tensors(folder), f"{name}, {layout}: {tensors(other)}")
    return tensors(folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(folder)
        for name, more in MODELS.items():
            runs.configure(name, {**COMMON, "model_type": name, **more})
        saved = {name: as_one_rank(runs, name) for name in MODELS}
        layer = "model.layers.3."
        check(saved["phi3"][layer + "self_attn.qkv_proj.weight"] == [96, 32] and
              saved["phi3"][layer + "mlp.gate_up_proj.weight"] == [96, 32] and
              layer + "self_attn.q_proj.weight" not in saved["phi3"], str(saved["phi3"]))
    finish()


main()
