# SPDX-License-Identifier: MIT
"""Documents that are packed into one window of tokens: each is trained on as if it were alone, by the built-in transformer and by a GPT-2
of the package transformers."""

import importlib.util
import json
import math
import struct
import unittest

import torch

import eager  # noqa: F401; makes tests/support known
from command import CommandTest, all_rows, main, summary, use_peers
from export_tool import ExportTool

CONTEXT, VOCABULARY, SEPARATOR, WINDOWS = 16, 50, 49, 12


def drawn_tokens():
    """Documents of 2 to 9 tokens, each with the separator behind it, and one of 30, which a window cuts."""
    generator = torch.Generator().manual_seed(5)
    tokens = []
    while len(tokens) < WINDOWS * CONTEXT + 1:
        length = 30 if 60 < len(tokens) < 70 else int(torch.randint(1, 9, (), generator=generator))
        tokens += torch.randint(0, SEPARATOR, (length,), generator=generator).tolist() + [SEPARATOR]
    return tokens[: WINDOWS * CONTEXT + 1]


def documents_of(tokens):
    """The (input, target) of each document of each window, without the target that another document begins with."""
    for first in range(0, len(tokens) - 1, CONTEXT):
        symbols, begin = tokens[first : first + CONTEXT + 1], 0
        for place in range(CONTEXT):
            last = symbols[place] == SEPARATOR
            if last or place + 1 == CONTEXT:
                targets = symbols[begin + 1 : place + 2]
                if last:
                    targets[-1] = -100
                yield symbols[begin : place + 1], targets
                begin = place + 1


class PackedDocuments(CommandTest, ExportTool):
    def setUp(self):
        super().setUp()
        self.tokens = drawn_tokens()
        (self.folder / "t.bin").write_bytes(struct.pack(f"<{len(self.tokens)}H", *self.tokens))
        note = {"dtype": "uint16", "tokens": len(self.tokens), "vocabulary": VOCABULARY, "separator": SEPARATOR}
        (self.folder / "t.bin.json").write_text(json.dumps(note))
        self.write(model={"plugin": "transformer", "width": 32})

    def write(self, **sections):
        experiment = {
            "name": "documents", "seed": 3,
            "dataset": {"plugin": "tokens", "train": "t.bin", "val": "t.bin", "context": CONTEXT, "documents": True},
            "optimizer": {"plugin": "sgd", "lr": 0.1}, "loggers": ["console", "jsonl"],
            "trainer": {"max_epochs": 1, "global_batch": WINDOWS, "log_every": 1, "shuffle": False},
            "launch": {"workers": 1, "threads": 1, "device": "cpu"},
        }
        (self.folder / "net.yaml").write_text(json.dumps(experiment | sections))

    def ignored(self):
        return sum(target == -100 for _, targets in documents_of(self.tokens) for target in targets)

    def test_the_built_in_transformer_counts_and_says_what_does_not_count(self):
        out = self.ddprun("net.yaml", "run.dir=run", "trainer.max_epochs=3")
        targets = WINDOWS * CONTEXT
        told = f"{2 * self.ignored()} of {2 * targets} targets do not count: they begin another document than the token before them"
        self.assertIn(told, out.out() + out.err())  # those of val, too
        self.assertIn(told, self.ddprun("check", "net.yaml").out())
        self.ddprun("net.yaml", "run.dir=two", "trainer.max_epochs=3", "launch.workers=2")
        one, two = all_rows(self.folder / "run"), all_rows(self.folder / "two")
        self.assertLess(one[-1]["loss"], one[0]["loss"])
        for mine, others in zip(one, two):
            self.assertTrue(math.isclose(mine["loss"], others["loss"], rel_tol=1e-5), (mine, others))
        self.assertEqual(summary(self.folder / "run")["tokens_per_second"] > 0, True)

    def test_shards_and_recomputation_keep_the_bits(self):
        losses = {}
        for name, words in {"one": ["trainer.shards=4"], "two": ["trainer.shards=4", "launch.workers=2"],
                            "again": ["trainer.shards=4", "trainer.recompute=all"]}.items():
            self.ddprun("net.yaml", f"run.dir={name}", "trainer.max_epochs=3", "model.dropout=0.1", *words)
            losses[name] = [row["loss"] for row in all_rows(self.folder / name)]
        self.assertEqual(losses["one"], losses["two"])
        self.assertEqual(losses["one"], losses["again"])

    def test_a_model_without_a_mask_is_refused(self):
        said = self.ddprun("net.yaml", "run.dir=no", "model={plugin: mlp}", code=2).err()
        self.assertIn("mlp takes its input alone, and this dataset (tokens) needs one that takes document_ids", said)
        self.ddprun("net.yaml", "run.dir=off", "dataset.documents=false", "trainer.max_steps=1")

    def test_gpt2_has_the_loss_of_each_document_alone(self):
        use_peers()
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("no transformers: pip install transformers")
        self.written_module("gpt2", GPT2)
        self.run_export("gpt2.py:network", "--input", f"input_ids={CONTEXT}:int64:{VOCABULARY}", "--input", "attention_mask=1x16x16:bool",
                        "--input", f"position_ids={CONTEXT}:int64:{CONTEXT}", "--out", "net.pt2")
        self.write(model={"plugin": "exported", "file": "net.pt2"})
        said = self.ddprun("net.yaml", "run.dir=no", code=2).err()
        self.assertIn("it takes no mask, and the data need one", said)  # the mask is not given
        self.assertIn("dataset.attention_mask=true gives one", said)
        self.ddprun("net.yaml", "run.dir=run", "dataset.attention_mask=true", "trainer.max_steps=1")
        import gpt2

        torch.manual_seed(0)
        network, total, count = gpt2.network().eval(), 0, 0
        with torch.no_grad():
            for symbols, targets in documents_of(self.tokens):
                logits = network(input_ids=torch.tensor([symbols])).logits[0]
                total += torch.nn.functional.cross_entropy(logits, torch.tensor(targets), reduction="sum").double()
                count += sum(target != -100 for target in targets)
        self.assertAlmostEqual(all_rows(self.folder / "run")[0]["loss"], float(total / count), places=5)
        self.run_export("gpt2.py:network", "--input", f"input_ids={CONTEXT}:int64:{VOCABULARY}", "--out", "plain.pt2")
        said = self.ddprun("net.yaml", "run.dir=plain", "model.file=plain.pt2", "dataset.attention_mask=true", code=2).err()
        self.assertIn("plain.pt2: it takes no mask, and the data need one that does: export it with one of them as another --input: "
                      "document_ids or attention_mask", said)  # fmt: skip


GPT2 = f"""
import transformers

def network():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions={CONTEXT}, vocab_size={VOCABULARY},
        bos_token_id=1, eos_token_id=2, use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
"""


if __name__ == "__main__":
    main()
