# SPDX-License-Identifier: MIT
"""trainer.recompute: what backward computes again changes no bit of what a run leaves, and takes less memory."""

import re
import unittest

import torch

from command import SMALL, CommandTest, differences, summary
from eager import Training, losses_of, unequal, weights_of

IMAGES = [*SMALL, "trainer.global_batch=24", "checkpoint.every=4st", "checkpoint.keep=9", "dataset.train_size=100"]
TEXT = ["experiments/text.yaml", "model.width=32", "model.heads=2", "model.layers=3", "dataset.context=16", "launch.device=cpu",
        "model.dropout=0.1", "trainer.max_steps=8", "trainer.max_epochs=1", "launch.threads=1", "loggers=[jsonl]"]  # fmt: skip
TRAININGS = {
    "resnet": (2, [*IMAGES, "model=resnet", "trainer.clip_norm=0.5", "trainer.ema_decay=0.9", "trainer.max_steps=6",
                   "+pretrained={freeze: [conv1.*, bn1.*, 'layer1.0.*']}"], "['layer1.*', 'layer[34].1']"),
    "wide_resnet": (3, [*IMAGES, "model=wide_resnet", "model.depth=10", "model.widen_factor=1", "model.dropout=0.2", "optimizer=muon",
                        "trainer.micro_batch=3", "trainer.max_steps=6"], "all"),
    "transformer": (4, [*TEXT, "trainer.shard_optimizer=true"], "'blocks.*'"),
    "bf16": (1, [*TEXT, "trainer.precision=bf16"], "all"),
    "shards": (2, [*IMAGES, "model=resnet", "trainer.shards=4", "trainer.max_steps=4"], "all"),
}  # fmt: skip
FILES = ("model", "optimizer", "ema")


class Mixed(torch.nn.Module):
    """A block with statistics, random numbers, an activation in place, and a number that it counts itself."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.layer = torch.nn.BatchNorm1d(width), torch.nn.Linear(width, width)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x + torch.nn.functional.dropout(torch.relu_(self.layer(self.norm(x))), 0.3, self.training) / self.calls


class InPlace(torch.nn.Module):
    """A block that changes its input."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.rest = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(width, width))

    def forward(self, x):
        return self.rest(self.layer(x.mul_(0.5)))


class Network(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(12, 16)
        self.blocks = torch.nn.ModuleList(block(16) for _ in range(4))
        self.last = torch.nn.Linear(16, 5)

    def forward(self, input):
        x = self.first(input)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Uneven(torch.nn.Module):
    """A network that repeats nothing: forward() does all of it, with statistics and numbers that it counts itself."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.widen, self.narrow, self.again, self.last = (torch.nn.Linear(*sizes) for sizes in ((12, 96), (96, 8), (8, 120), (120, 5)))
        self.part1 = torch.nn.BatchNorm1d(96)
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("variance", torch.ones(8))
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("counts", torch.zeros(3))

    def forward(self, input):
        f = torch.nn.functional
        x = f.dropout(torch.relu_(self.part1(self.widen(input))), 0.3, self.training)
        self.calls.add_(1)
        self.counts[1].add_(1)  # through a view
        x = f.batch_norm(self.narrow(torch.tanh(x) / self.calls), self.mean, self.variance, training=self.training)
        x = f.dropout(torch.sigmoid(self.again(x)) * 2, 0.2, self.training)
        return self.last(torch.tanh(x))


class Layers(torch.nn.Module):
    """A transformer whose layers all get the same mask."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.symbols = torch.nn.Embedding(50, 32)
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.2) for _ in range(3))
        self.last = torch.nn.Linear(32, 50)

    def forward(self, ids):
        x = self.symbols(ids)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.last(x)


def planned_activations(text):
    """In MB, of each plan that `ddprun check` shows."""
    return [float(number) * {"GB": 1000, "MB": 1, "kB": 1e-3}[unit] for number, unit in re.findall(r"activations ([\d.]+) ([GMk]B)", text)]


class Exported(CommandTest):
    """Networks from Python, whose repeated block is found by itself."""

    def trained(self, module, inputs, run, code=0):
        training = Training(module, inputs, self.folder, steps=6)
        training.export()
        training.experiment()
        return training, self.ddprun("net.yaml", f"run.dir={run}", "trainer.recompute=all", code=code)

    def test_it_changes_no_bit_of_what_python_computes(self):
        for module, inputs, blocks in ((Network(Mixed), ["input=12"], 4), (Layers(), ["ids=8:int64:50"], 3)):
            run = type(module).__name__
            with self.subTest(run):
                training, said = self.trained(module, inputs, run)
                self.assertIn(f"trainer.recompute: backward computes {blocks} of the model's {blocks} blocks again", said.err())
                self.assertEqual(losses_of(self.folder / run), training.in_python())
                self.assertEqual(unequal(module, weights_of(self.folder / run)), [])

    def test_without_a_block_that_can_be_used_it_is_cut_into_parts(self):
        for module in (Uneven(), Network(InPlace)):
            run = type(module).__name__
            with self.subTest(run):
                training, said = self.trained(module, ["input=12"], run)
                counted = re.search(r"backward computes (\d+) of the model's (\d+) blocks? again", said.err())
                self.assertEqual(counted[1], counted[2])
                self.assertEqual(losses_of(self.folder / run), training.in_python())
                self.assertEqual(unequal(module, weights_of(self.folder / run)), [])

    def test_parts_take_less_memory(self):
        nn = torch.nn
        wide_and_narrow = (layer for _ in range(8) for layer in (nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 16), nn.Sigmoid()))
        module = nn.Sequential(nn.Linear(12, 16), *wide_and_narrow, nn.Linear(16, 5))
        training = Training(module, ["input=12"], self.folder, steps=64)
        training.export()
        training.experiment()
        plans = self.ddprun("check", "net.yaml", "trainer.global_batch=256").out()
        plain, again = planned_activations(plans)
        self.assertIn("\nWith trainer.recompute=all: ", plans)
        self.assertLess(again, plain / 3)

    def test_a_network_too_small_to_be_cut_has_no_blocks(self):
        _, said = self.trained(torch.nn.Linear(12, 5), ["input=12"], "run", code=1)
        self.assertIn("trainer.recompute: this model has no blocks that can be computed again", said.err())


class Recompute(CommandTest):
    def kept(self, run):
        files = {name: self.folder / run / f"checkpoints/last/{name}.safetensors" for name in FILES}
        return {name: path.read_bytes() for name, path in files.items() if path.exists()}

    def assert_same(self, run, other):
        mine, others = self.kept(run), self.kept(other)
        self.assertEqual(mine.keys(), others.keys())
        self.assertEqual([name for name in mine if mine[name] != others[name]], [])
        self.assertEqual(differences(self.folder / run, self.folder / other), {})

    def test_it_changes_no_bit_of_weights_state_averages_and_rows(self):
        for name, (workers, words, blocks) in TRAININGS.items():
            with self.subTest(name):
                words = [*words, f"launch.workers={workers}"]
                self.ddprun(*words, f"run.dir={name}")
                again = self.ddprun(*words, f"run.dir={name}_again", f"trainer.recompute={blocks}")
                self.assertRegex(again.err(), r"trainer\.recompute: backward computes \d+ of the model's \d+ blocks again")
                self.assert_same(name, f"{name}_again")

    def test_killed_it_goes_on_without_and_the_other_way_round(self):
        workers, words, _ = TRAININGS["wide_resnet"]
        words = [*words, f"launch.workers={workers}", "launch.max_restarts=0"]
        self.ddprun(*words, "run.dir=whole")
        for before, after in (("all", "off"), ("off", "all")):
            held = self.start_held(4, *words, f"run.dir={before}", f"trainer.recompute={before}", rank=1)
            self.kill_once_saved(held, before, 4)
            resumed = self.ddprun("resume", before, f"trainer.recompute={after}")
            self.assertRegex(resumed.out(), r"resumed at step 4\n")
            self.assert_same("whole", before)

    def test_activations_take_less_memory_as_the_plan_says(self):
        words = ["experiments/text.yaml", "model.width=128", "model.heads=4", "model.layers=12", "dataset.context=128", "launch.device=cpu",
                 "launch.workers=1", "launch.threads=1", "trainer.global_batch=16", "trainer.max_steps=2", "trainer.sanity_batches=0",
                 "trainer.limit_val_batches=1", "trainer.limit_test_batches=1", "trainer.eval_batch=1", "loggers=[jsonl]"]  # fmt: skip
        plans = self.ddprun("check", *words).out()
        plain, again = planned_activations(plans)
        self.assertIn("\nWith trainer.recompute=all: ", plans)
        given_back = {"DDPRUN_ALLOCATOR": "default", "MALLOC_MMAP_THRESHOLD_": "65536"}  # so that what is resident is in use
        for run, recompute in (("plain", "off"), ("again", "all")):
            self.ddprun(*words, f"run.dir={run}", f"trainer.recompute={recompute}", env=given_back)
        saved = (summary(self.folder / "plain")["peak_rss_bytes"] - summary(self.folder / "again")["peak_rss_bytes"]) / 1e6
        print(f"activations: planned {plain:.0f} and {again:.0f} MB; {saved:.0f} MB less resident")
        self.assertGreater(saved, 0.85 * (plain - again))
        self.assertLess(again, plain / 3)

    def test_what_cannot_be_computed_again_is_refused_at_its_key(self):
        (self.folder / "e.yaml").write_text("name: e\ndefaults: [experiments/digits]\nmodel: resnet\ntrainer:\n  recompute: [layer9.*]\n")
        place = "e.yaml:5:14: trainer.recompute: "
        for command, code in ((["e.yaml", "launch.device=cpu"], 1), (["check", "e.yaml", "launch.device=cpu"], 2)):
            refused = self.ddprun(*command, code=code).err()
            self.assertIn(place + 'no block matches "layer9.*"', refused)
            self.assertIn("those that can be computed again are layer1.0, layer1.1, ", refused)
        self.assertIn("trainer.recompute: this model has no blocks that can be computed again: ",
                      self.ddprun("check", *SMALL, "model=mlp", "trainer.recompute=all", code=2).err())
        self.assertIn("trainer.recompute: auto decides by what micro_batch: auto finds; set that, too",
                      self.ddprun("check", *SMALL, "trainer.recompute=auto", code=2).err())


if __name__ == "__main__":
    unittest.main()
