#!/usr/bin/env python3
"""Makes tiny_starcoder2/ and so on, checkpoints of the dense families that are neither in
make_llama_fixture.py nor in make_neox_fixture.py, as transformers saves them, and the outputs of
transformers for them: dense.json (see make_llama_fixture.py), and training_starcoder2.safetensors
and so on (see make_training_fixture.py). Made with torch 2.15 and transformers 5.24.

    python3 make_dense_fixture.py [family...]

All have width 24, 4 heads, 2 key heads and 2 layers.
"""
import json
import pathlib
import shutil
import sys
import transformers
from make_llama_fixture import SHAPE, fill, results
from make_training_fixture import train
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
MODELS = {
    "starcoder2": ("Starcoder2", dict(sliding_window=7)),
}


def main():
    path = HERE / "dense.json"
    out = json.loads(path.read_text()) if path.exists() else {}
    for number, (name, (cls, more)) in enumerate(MODELS.items()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        folder = HERE / f"tiny_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        model = getattr(transformers, cls + "ForCausalLM")
        config = getattr(transformers, cls + "Config")(**{**SHAPE, **more},
                                                       attn_implementation="eager")
        made = fill(model(config), number + 20)
        made.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        out[name] = results(made)
        trained = train(f"tiny_{name}", model, False)
        save_file({k: v.contiguous() for k, v in trained.items()},
                  HERE / f"training_{name}.safetensors")
    path.write_text(json.dumps({name: out[name] for name in MODELS}) + "\n")


main()
