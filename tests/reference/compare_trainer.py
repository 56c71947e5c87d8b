#!/usr/bin/env python3
"""Compares the losses of transformers' Trainer with those of the pretraining program, with gradient
accumulation and samples of different lengths.

    SYN_BUILD=build python3 compare_trainer.py

Neither the build nor the tests need this script, which needs torch, transformers and accelerate.
With transformers 5.24, the losses and norms of a Llama are equal. For a GPT2LMHeadModel, Trainer
counts the first token of each sample as a label. With that corrected, its losses are equal, too.
"""
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from torch.utils.data import Dataset, SequentialSampler

from make_pretraining_fixture import gpt_batch, place, texts

TOKENIZER = pathlib.Path(__file__).parent / "../../examples/tiny-gpt2"
BATCH, PASSES, LENGTH, STEPS, TEXTS = 2, 4, 64, 6, 120
EPOCHS = 3
WORDS = "the answer is that a trace tells what every rank did and when stone river tree".split()


def write_texts(path):
    rng = random.Random(3)
    paragraphs = [{"context": " ".join(rng.choices(WORDS, k=rng.choice([1, 2, 4, 9, 20, 30]))),
                   "qas": [{"id": str(i), "question": f"What is {rng.choice(WORDS)}?",
                            "answers": []}]} for i in range(TEXTS)]
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))


class Texts(Dataset):
    """The samples in the order in which pretrain reads them."""

    def __init__(self, path):
        tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
        pairs = texts(path)
        self.rows = [gpt_batch(tokenizer, pairs, [place(len(pairs), 0, i)], LENGTH, False)
                     for i in range(BATCH * PASSES * STEPS)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {k: torch.tensor(v[0]) for k, v in self.rows[i].items()}


class Trainer(transformers.Trainer):
    def _get_train_sampler(self, *_, **__):
        return SequentialSampler(self.train_dataset)

    def create_scheduler(self, num_training_steps, optimizer=None):
        """The learning rate of pretrain falls over all epochs, even if --max-steps ends the run
        earlier."""
        whole = TEXTS // (BATCH * PASSES) * EPOCHS
        return super().create_scheduler(whole, optimizer or self.optimizer)


def trainer_losses(model, data, folder, count_predicted):
    arguments = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=BATCH, gradient_accumulation_steps=PASSES,
        max_steps=STEPS, learning_rate=1e-3, weight_decay=0.01, logging_steps=1, report_to=[],
        use_cpu=True, save_strategy="no", lr_scheduler_type="linear", disable_tqdm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=data,
                      data_collator=transformers.default_data_collator)
    if count_predicted:
        trainer._loss_shifts_labels = True
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def pretrain_losses(weights, data, folder):
    options = ["--weights", weights, "--tokenizer", TOKENIZER, "--data", data, "--dropout", "0",
               "--batch-size", BATCH, "--gradient-accumulation-steps", PASSES, "--max-seq-length",
               LENGTH, "--max-steps", STEPS, "--num-epochs", EPOCHS, "--learning-rate", "1e-3",
               "--skip-eval", "--quiet", "--save-dir", folder]
    subprocess.run([os.path.join(os.environ["SYN_BUILD"], "pretrain"), *map(str, options)],
                   check=True)
    with open(folder / "metrics.csv", encoding="utf-8") as f:
        return [float(row["loss"]) for row in csv.DictReader(f)]


def models():
    sizes = {"vocab_size": 512, "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 4, "max_position_embeddings": 128, "bos_token_id": 511,
             "eos_token_id": 511}
    yield transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **sizes, num_key_value_heads=2, intermediate_size=64)), False
    for corrected in (False, True):
        yield transformers.GPT2LMHeadModel(transformers.GPT2Config(
            **sizes, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)), corrected


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        write_texts(folder / "texts.json")
        data = Texts(folder / "texts.json")
        for i, (model, corrected) in enumerate(models()):
            model.save_pretrained(folder / f"model{i}")
            want = trainer_losses(model, data, folder / "trainer", corrected)
            got = pretrain_losses(folder / f"model{i}", folder / "texts.json", folder / f"run{i}")
            off = max(abs(a - b) / b for a, b in zip(got, want))
            print(f"{type(model).__name__}{', corrected' if corrected else ''}: {STEPS} losses, "
                  f"off by {off:.2g}")
            wrong += off > 1e-6 and (corrected or i == 0)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
