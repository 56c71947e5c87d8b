#!/usr/bin/env python3
"""Makes tiny_neox/ and tiny_neox_sequential/, GPT-NeoX checkpoints as transformers saves them, and
the outputs of transformers for them: neox.json (see make_llama_fixture.py), and
training_neox.safetensors and training_neox_sequential.safetensors (see make_training_fixture.py).
Made with torch 2.15 and transformers 5.24.

Both have width 24, 4 heads and 2 layers. tiny_neox is configured as Pythia and rotates 2 of a
head's 6 elements. tiny_neox_sequential has no parallel residual, no attention biases, a tied head,
and a scaled rotary embedding of whole heads.
"""
import json
import pathlib
import shutil
import transformers
from make_llama_fixture import fill, results
from make_training_fixture import train
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
SHAPE = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, max_position_embeddings=128, bos_token_id=None,
             eos_token_id=None)
MODELS = {"neox": dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                            partial_rotary_factor=0.34)),
          "neox_sequential": dict(use_parallel_residual=False, attention_bias=False,
                                  tie_word_embeddings=True, hidden_act="gelu_new",
                                  rope_parameters=dict(rope_type="linear", factor=2.0,
                                                       rope_theta=500.0,
                                                       partial_rotary_factor=1.0))}


def main():
    out = {}
    for number, (name, more) in enumerate(MODELS.items()):
        folder = HERE / f"tiny_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        config = transformers.GPTNeoXConfig(**SHAPE, **more, attn_implementation="eager")
        made = fill(transformers.GPTNeoXForCausalLM(config), number)
        made.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        out[name] = results(made)
        trained = train(f"tiny_{name}", transformers.GPTNeoXForCausalLM, False)
        save_file({k.replace("lm_head", "embed_out"): v for k, v in trained.items()},
                  HERE / f"training_{name}.safetensors")  # transformers 5 uses its own names
    (HERE / "neox.json").write_text(json.dumps(out) + "\n")


main()
