# SPDX-License-Identifier: MIT
"""What of a batch counts, and how much: samples that are drawn by their class or a weight, symbols that a mask hides, symbols and pixels
without a target, very unevenly, and documents in one window of tokens, each as if it were alone. However the work is cut, the weights are
the same, and those of PyTorch with the mean over the whole batch."""

import importlib.util
import json
import struct

import torch

import exported_networks
import weights
from command import DDPRUN, CommandTest, all_rows, csv_rows, losses_of, main, summary, use_peers
from eager import Training, weights_of
from export_tool import ExportTool

COUNTS, FEATURES = (300, 30, 30), 8  # of samples to draw from
PLUGINS = DDPRUN.parents[1] / "tests/several_inputs"
BATCH, STEPS, IGNORED = 12, 20, -100
CONTEXT, VOCABULARY, SEPARATOR, WINDOWS = 16, 50, 49, 12
TEXTS = f"""
name: texts
plugin_path: {PLUGINS}
model: {{plugin: bag, symbols: 60}}
dataset: {{plugin: tensors, train: 7.safetensors, val_fraction: 0.25, symbols: true, extras: [mask]}}
optimizer: {{plugin: adam, lr: 0.05}}
trainer: {{max_epochs: 5, global_batch: 48, micro_batch: 20, log_every: 1}}
launch: {{threads: 1, device: cpu}}
"""
GPT2 = f"""
import transformers

def network():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions={CONTEXT}, vocab_size={VOCABULARY},
        bos_token_id=1, eos_token_id=2, use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
"""


def thinned(target):
    """Of every four samples one has no target that counts, one a single one, two have all of them."""
    target = target.clone()
    target[0::4] = IGNORED
    target[1::4].flatten(1)[:, 1:] = IGNORED
    return target


def without_dropout(module):
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    return module


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


def texts(hidden):
    """200 of 9 symbols each, whose class is in the symbols that the mask leaves; the others are `hidden`."""
    draws = torch.Generator().manual_seed(3)
    target = torch.randint(3, (200,), generator=draws)
    symbols = 20 * target[:, None] + torch.randint(20, (200, 9), generator=draws)
    mask = torch.arange(9) < torch.randint(1, 9, (200, 1), generator=draws)
    return {"input": torch.where(mask, symbols, hidden), "target": target, "mask": mask}


class Sampling(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(7)
        centres = torch.randn(3, FEATURES)
        for split, counts in (("train", COUNTS), ("val", (100, 100, 100))):
            targets = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
            inputs = 0.7 * centres[targets] + torch.randn(len(targets), FEATURES)
            weights.save(self.folder / f"{split}.safetensors", {"input": inputs, "target": targets})
        (self.folder / "e.yaml").write_text(
            "seed: 3\nmodel: mlp\ndataset: {plugin: tensors, train: train.safetensors, val: val.safetensors}\n"
            "optimizer: {plugin: sgd, lr: 0.05}\nobjective: {name: cross_entropy, metrics: [accuracy, recall]}\n"
            "launch: {device: cpu, threads: 1, workers: 1}\n")

    def recall(self, run, *words):
        """The last one of val."""
        self.train(run, "e.yaml", "trainer.max_epochs=3", "trainer.log_every=5", "trainer.global_batch=24", *words)
        return [row["recall"] for row in all_rows(self.folder / run) if row["split"] == "val"][-1]

    def test_balance_lifts_the_recall(self):
        plain, balanced = self.recall("plain"), self.recall("balanced", "trainer.sampling={balance: class}")
        print(f"macro recall {plain:.3f}, balanced {balanced:.3f}")
        self.assertGreater(balanced, plain + 0.1)

    def test_what_cannot_be_drawn_is_reported_in_one_line(self):
        (self.folder / "few.txt").write_text("1\n2\n")
        (self.folder / "odd.txt").write_text("1\n" * 359 + "-1\n")
        (self.folder / "none.txt").write_text("0\n" * 360)
        (self.folder / "text.txt").write_text("1\nx\n")
        weights.save(self.folder / "gap.safetensors", {"input": torch.randn(20, FEATURES), "target": torch.tensor([0, 2] * 10)})
        for words, said in ((("trainer.sampling={balance: classes}",), "trainer.sampling: balance: expected class"),
                            (("trainer.sampling={weight: a.txt}",), "expected {balance: class} or {weights: FILE}"),
                            (("trainer.sampling={balance: class}", "trainer.shuffle=false"), "cannot be combined with shuffle: false"),
                            (("trainer.sampling={weights: few.txt}",), "few.txt: it has 2 weights, and train 360 samples"),
                            (("trainer.sampling={weights: odd.txt}",), "odd.txt: the weight of sample 359 is -1"),
                            (("trainer.sampling={weights: none.txt}",), "none.txt: the sum of the weights is 0"),
                            (("trainer.sampling={weights: text.txt}",), "text.txt:2: expected a number, found \"x\""),
                            (("trainer.sampling={weights: no.txt}",), "no.txt: cannot be opened: No such file"),
                            (("trainer.sampling={balance: class}", "model=transformer", "dataset={plugin: text}", "objective={name: cross_entropy}"),
                             "which this dataset does not know"),
                            (("dataset.train=gap.safetensors", "trainer.sampling={balance: class}"),
                             "balance: class cannot draw from the class 1, which has no training sample")):
            with self.subTest(said=said):
                error = self.ddprun("check", "e.yaml", *words, code=2).err()
                self.assertIn(said, error)
                self.assertEqual(len(error.splitlines()), 1, error)


class Extras(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "texts.yaml").write_text(TEXTS)
        for hidden in (7, 55):
            weights.save(self.folder / f"{hidden}.safetensors", texts(hidden))

    def test_one_two_and_three_workers_train_the_same_with_a_mask(self):
        alone = self.assert_worlds_alike(["texts.yaml"], (2, 3), delta=1e-4)
        self.assertGreater(summary(alone)["metrics"]["val/accuracy"], 0.95)
        # What the masks hide may be anything, as long as each stays with its sample.
        self.assert_trained_alike(self.train("hidden", "texts.yaml", "launch.workers=1", "dataset.train=55.safetensors"), alone, 1e-6)

        self.ddprun("predict", alone, "--split", "val", "--out", "p.csv")
        rows = csv_rows(self.folder / "p.csv")
        right = sum(row["guess"] == row["truth"] for row in rows)
        self.assertEqual(len(rows), 50)
        self.assertAlmostEqual(right / 50, summary(alone)["metrics"]["val/accuracy"], places=4)

    def test_data_and_check_know_the_mask(self):
        text = self.ddprun("data", "texts.yaml").out()
        self.assertIn("samples of 9 int64 with mask of 9 bool, 3 classes", text)
        self.assertRegex(text, r"\n  mask +0 +1 +0\.\d+ +0\.\d+\n")
        self.ddprun("check", "texts.yaml")
        text = self.ddprun("check", "texts.yaml", "~dataset.extras", code=2).err()
        self.assertIn('the model asks for the extra "mask" of a batch; the dataset gives none', text)


class UnevenTargets(CommandTest):
    """Cut into workers and micro-batches; tests/step/counted_mean_test.cpp has all ways."""

    def assert_cuts_alike(self, words, expected, cuts):
        for workers, micro_batch in cuts:
            with self.subTest(workers=workers, micro_batch=micro_batch):
                found = weights_of(self.train(f"run{workers}", *words, f"launch.workers={workers}", f"trainer.micro_batch={micro_batch}"))
                names = [name for name, value in expected.items() if value.is_floating_point()]
                largest = max(float(expected[name].abs().max()) for name in names)
                for name in names:
                    self.assertLess(float((found[name] - expected[name]).abs().max()), 1e-6 * largest, name)

    def test_an_exported_network_trains_as_in_python(self):
        training = Training(without_dropout(exported_networks.Tied()), ["symbols=12:int64:20", "mask=12:bool"], self.folder, batch=BATCH)
        training.target = thinned(training.target)
        training.write(check=False)
        whole, losses = self.train("whole", "net.yaml"), training.in_python()
        for mine, pythons in zip(losses_of(whole), losses, strict=True):
            self.assertAlmostEqual(mine, pythons, delta=1e-6 * pythons)
        self.assert_cuts_alike(["net.yaml"], training.module.state_dict(), [(2, 12), (3, 2)])

    def test_a_transformer_with_its_own_loss(self):
        symbols = torch.randint(0, 11, (BATCH * STEPS, 17), generator=torch.Generator().manual_seed(1))
        for name, part in (("train", slice(0, None)), ("val", slice(0, 71))):
            weights.save(self.folder / f"{name}.safetensors", {"input": symbols[part, :-1], "target": thinned(symbols[part, 1:])})
        words = ["experiments/text.yaml", "dataset={plugin: tensors, train: train.safetensors, val: val.safetensors, symbols: true, classes: 11}",
                 "~early_stopping", "optimizer={plugin: sgd, lr: 0.1, momentum: 0.9}", "schedule={name: constant}", "trainer.max_epochs=1",
                 f"trainer.global_batch={BATCH}", "launch.threads=1", "launch.device=cpu", "model={plugin: transformer}"]
        self.assert_cuts_alike(words, weights_of(self.train("whole", *words, "launch.workers=1")), [(2, 12), (4, 8)])


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
        said = f"{2 * self.ignored()} of {2 * targets} targets do not count: they begin another document than the token before them"
        self.assertIn(said, out.out() + out.err())  # those of val, too
        self.assertIn(said, self.ddprun("check", "net.yaml").out())
        self.assertLess(losses_of(self.folder / "run")[-1], losses_of(self.folder / "run")[0])
        self.assert_trained_alike(self.train("two", "net.yaml", "trainer.max_epochs=3", "launch.workers=2"), self.folder / "run", 1e-5)
        self.assertGreater(summary(self.folder / "run")["tokens_per_second"], 0)

    def test_shards_and_recomputation_keep_the_bits(self):
        words = ["net.yaml", "trainer.shards=4", "trainer.max_epochs=3", "model.dropout=0.1"]
        one = self.train("one", *words)
        for key in ("launch.workers=2", "trainer.recompute=all"):
            self.assert_same_end(self.train(key, *words, key), one)

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
        self.assertAlmostEqual(losses_of(self.folder / "run")[0], float(total / count), places=5)
        self.run_export("gpt2.py:network", "--input", f"input_ids={CONTEXT}:int64:{VOCABULARY}", "--out", "plain.pt2")
        said = self.ddprun("net.yaml", "run.dir=plain", "model.file=plain.pt2", "dataset.attention_mask=true", code=2).err()
        self.assertIn("plain.pt2: it takes no mask, and the data need one that does: export it with one of them as another --input: "
                      "document_ids or attention_mask", said)  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
