# SPDX-License-Identifier: MIT
"""`ddprun export --format transformers`: a folder that the package's from_pretrained() opens, with the network that the run has trained."""

import csv
import importlib.util
import json
import os
import pathlib
import sys

import torch

from command import CommandTest, main, use_peers
from weights import load, save

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from export_tool import ExportTool  # noqa: E402

SYMBOLS, LENGTH, SAMPLES = 50, 12, 24
FOLDERS = {  # {source: (arguments, whether targets are sequences)}
    "GPT2LMHeadModel": (["n_layer=2", "n_embd=32", "n_head=2", "n_positions=16", "bos_token_id=1", "eos_token_id=2"], True),  # tied
    "LlamaForCausalLM": (["num_hidden_layers=2", "hidden_size=32", "num_attention_heads=2", "intermediate_size=64", "max_position_embeddings=16",
                          "pad_token_id=0"], True),  # fmt: skip
    "BertForSequenceClassification": (["num_hidden_layers=2", "hidden_size=32", "num_attention_heads=2", "intermediate_size=64",
                                       "num_labels=3"], False),  # fmt: skip
}


PLAIN = """
from torch.nn import Embedding, Linear, Sequential

def plain():
    return Sequential(Embedding(50, 8), Linear(8, 50))
"""


class TransformersFolder(CommandTest, ExportTool):
    def setUp(self):
        super().setUp()
        use_peers()
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("no transformers: pip install transformers")

    def train(self, settings, of_sequences, source):
        generator = torch.Generator().manual_seed(2)
        symbols = torch.randint(0, SYMBOLS, (SAMPLES, LENGTH), generator=generator)
        target = symbols.roll(-1, 1).contiguous() if of_sequences else torch.randint(0, 3, (SAMPLES,), generator=generator)
        save(self.folder / "data.safetensors", {"input": symbols, "target": target})
        words = [word for setting in (*settings, f"vocab_size={SYMBOLS}") for word in ("--set", setting)]
        self.run_export(source, *words, "--input", f"input_ids={LENGTH}:int64:{SYMBOLS}", "--out", "net.pt2")
        experiment = {
            "name": "net", "dataset": {"plugin": "tensors", "train": "data.safetensors", "test": "data.safetensors", "symbols": True,
                                       "classes": SYMBOLS if of_sequences else 3},
            "model": {"plugin": "exported", "file": "net.pt2"}, "optimizer": {"plugin": "adamw", "lr": 0.01}, "loggers": ["jsonl"],
            "trainer": {"max_epochs": 2, "global_batch": 8}, "launch": {"workers": 1, "threads": 1, "device": "cpu"},
        }  # fmt: skip
        (self.folder / "net.yaml").write_text(json.dumps(experiment))
        self.ddprun("net.yaml", "run.dir=run")
        return symbols

    def test_each_opens_with_the_weights_and_the_predictions_of_the_run(self):
        import transformers

        whole = self.folder
        self.addCleanup(os.chdir, os.getcwd())
        for name, (settings, of_sequences) in FOLDERS.items():
            with self.subTest(name):
                self.folder = whole / name
                for part in (".", "home", "tmp"):
                    (self.folder / part).mkdir(parents=True, exist_ok=True)
                os.chdir(self.folder)
                symbols = self.train(settings, of_sequences, f"transformers:{name}")
                out = self.ddprun("export", "run", "--out", "net/", "--format", "transformers").out()
                self.assertIn("net/: the network with ", out)
                self.assertIn("tensors of step_00000006", out)
                network, found = getattr(transformers, name).from_pretrained(self.folder / "net", output_loading_info=True)
                self.assertEqual({key: list(value) for key, value in found.items() if value}, {})
                self.assert_same_weights(network)
                self.assert_same_predictions(network.eval(), symbols, of_sequences)
                self.assert_written_as_the_package_does(network)

    def assert_same_weights(self, network):
        self.ddprun("export", "run", "--out", "weights.safetensors")
        weights, state = load(self.folder / "weights.safetensors"), network.state_dict()
        self.assertEqual(set(weights), set(state))
        self.assertEqual([name for name in weights if not torch.equal(weights[name], state[name])], [])

    def assert_same_predictions(self, network, symbols, of_sequences):
        """In every bit those of the program that ddprun runs, and within its digits those that it has written."""
        torch.set_num_threads(1)
        self.ddprun("export", "run", "--out", "run.pt2")
        program = torch.export.load(self.folder / "run.pt2").module()
        with torch.no_grad():
            logits = network(input_ids=symbols).logits
            self.assertTrue(torch.equal(logits, program(input_ids=symbols)))
        self.ddprun("predict", "run", "--out", "p.csv")
        with open(self.folder / "p.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        columns = [name for name in rows[0] if name.startswith("score_")]
        scores = torch.tensor([[float(row[name]) for name in columns] for row in rows])
        own = (logits[:, -1] if of_sequences else logits).softmax(-1)
        self.assertLess((scores - own).abs().max(), 1e-5)

    def assert_written_as_the_package_does(self, network):
        network.save_pretrained(self.folder / "again")
        files = {file.name for file in (self.folder / "again").iterdir()}
        self.assertEqual({file.name for file in (self.folder / "net").iterdir()}, files)
        for file in files - {"model.safetensors"}:
            mine, theirs = (json.loads((self.folder / place / file).read_text()) for place in ("net", "again"))
            self.assertEqual(mine, theirs, file)
        mine, theirs = (load(self.folder / place / "model.safetensors") for place in ("net", "again"))
        self.assertEqual(set(mine), set(theirs))

    def refuse(self, run, out, text):
        self.assertIn(text, self.ddprun("export", run, "--out", out, "--format", "transformers", code=2).err())

    def test_what_cannot_be_written_says_why(self):
        self.written_module("nets", PLAIN)
        settings, of_sequences = FOLDERS["GPT2LMHeadModel"]
        self.train(settings, of_sequences, "transformers:GPT2LMHeadModel")
        (self.folder / "net").mkdir()
        (self.folder / "net/tokenizer.json").write_text("{}")
        self.refuse("run", "net", "--out net: it is there already; choose another name, or --force replaces config.json and the weights in it")
        self.ddprun("export", "run", "--out", "net", "--format", "transformers", "--force")
        self.assertEqual((self.folder / "net/tokenizer.json").read_text(), "{}")
        self.assertTrue((self.folder / "net/model.safetensors").is_file())
        self.refuse("run", "no/where", "--out no/where: expected the name of a folder, below one that is there")
        self.ddprun("export", "run", "--out", "more.pt2")
        self.ddprun("net.yaml", "model.file=more.pt2", "run.dir=more")
        self.ddprun("export", "more", "--out", "further", "--format", "transformers")
        self.ddprun("experiments/digits.yaml", "trainer.fast_dev_run=true", "run.dir=digits")
        self.refuse("digits", "d", "the run's model is no network of transformers")
        self.run_export("nets.py:plain", "--input", f"{LENGTH}:int64:{SYMBOLS}", "--out", "plain.pt2")
        self.ddprun("net.yaml", "model.file=plain.pt2", "run.dir=plain")
        self.refuse("plain", "p", "plain.pt2 knows no configuration")


if __name__ == "__main__":
    main()
