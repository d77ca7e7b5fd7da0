# SPDX-License-Identifier: MIT
"""What takes less memory changes no bit of what Python computes: blocks that backward computes again (trainer.recompute), an optimizer that
workers share (trainer.shard_optimizer), and a frozen base that stays in its file (model.mapped). And it takes less.

kill_resume_test.py has the first two on networks of our own, over kills, too.
"""

import json
import pathlib
import re
import unittest
import zipfile

import torch

from command import DDPRUN, SMALL, CommandTest, losses_of, summary
from eager import Training, weights_of

SYMBOLS, WIDTH, STEPS = 100_000, 128, 6
FROZEN = (SYMBOLS * WIDTH + WIDTH * WIDTH + WIDTH) * 4  # bytes


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


class Embedded(torch.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.table = torch.nn.Embedding(SYMBOLS, WIDTH)
        self.below = torch.nn.Linear(WIDTH, WIDTH)
        for layer in (self.table, self.below):
            layer.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.head = torch.nn.Linear(WIDTH, 5)

    def forward(self, ids):
        return self.head(self.norm(torch.relu(self.below(self.table(ids).mean(1)))))


def planned_activations(text):
    """In MB, of each plan that `ddprun check` shows."""
    return [float(number) * {"GB": 1000, "MB": 1, "kB": 1e-3}[unit] for number, unit in re.findall(r"activations ([\d.]+) ([GMk]B)", text)]


class Recompute(CommandTest):
    def test_networks_of_python_keep_their_bits_by_their_blocks_or_cut_into_parts(self):
        for number, (module, inputs, blocks) in enumerate(((Network(Mixed), ["input=12"], "(4)"), (Layers(), ["ids=8:int64:50"], "(3)"),
                                                           (Uneven(), ["input=12"], r"(\d+)"), (Network(InPlace), ["input=12"], r"(\d+)"))):
            with self.subTest(blocks=blocks, number=number):
                training = Training(module, inputs, self.folder, steps=6).write()
                said = self.ddprun("net.yaml", f"run.dir=run{number}", "trainer.recompute=all").err()
                self.assertRegex(said, rf"trainer.recompute: backward computes {blocks} of the model's \1 blocks? again")
                training.assert_same(self, self.folder / f"run{number}")

    def test_parts_take_less_memory(self):
        nn = torch.nn
        wide_and_narrow = (layer for _ in range(8) for layer in (nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 16), nn.Sigmoid()))
        Training(nn.Sequential(nn.Linear(12, 16), *wide_and_narrow, nn.Linear(16, 5)), ["input=12"], self.folder, steps=64).write()
        plans = self.ddprun("check", "net.yaml", "trainer.global_batch=256").out()
        plain, again = planned_activations(plans)
        self.assertIn("\nWith trainer.recompute=all: ", plans)
        self.assertLess(again, plain / 3)

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
        Training(torch.nn.Linear(12, 5), ["input=12"], self.folder, steps=6).write()
        for words, said in ((["check", *SMALL, "model=mlp", "trainer.recompute=all"], "this model has no blocks that can be computed again: "),
                            (["check", *SMALL, "trainer.recompute=auto"], "auto decides by what micro_batch: auto finds; set that, too"),
                            (["check", "net.yaml", "trainer.recompute=all"], "this model has no blocks that can be computed again")):
            self.assertIn(f"trainer.recompute: {said}", self.ddprun(*words, code=2).err())


class ShardOptimizer(CommandTest):
    def write(self, norm):
        torch.manual_seed(0)
        blocks = (torch.nn.Sequential(torch.nn.Linear(24, 24), norm(24), torch.nn.ReLU()) for _ in range(4))
        Training(torch.nn.Sequential(torch.nn.Linear(12, 24), *blocks, torch.nn.Linear(24, 5)), ["input=12"], self.folder).write()
        return ["net.yaml", "launch.workers=3", "trainer.ema_decay=0.9", "trainer.global_batch=12"]

    def test_an_exported_network_reads_each_weight_once_it_has_arrived(self):
        words = [*self.write(torch.nn.BatchNorm1d), "trainer.sync_batchnorm=true"]
        whole, shared = (self.train(value, *words, f"trainer.shard_optimizer={value}") for value in ("false", "true"))
        self.assert_same_end(shared, whole)

    def test_a_worker_that_is_killed_while_a_network_waits_for_its_weights_is_restarted(self):
        words = [*self.write(torch.nn.LayerNorm), "trainer.shard_optimizer=true", "checkpoint.every=2st"]
        whole = self.train("whole", *words)
        killed = self.ddprun(*words, "run.dir=killed", "launch.max_restarts=1", env={"DDPRUN_FAULT": "kill:computing:5:0"})
        self.assertIn("rank 0 failed first: killed by SIGKILL", killed.err())
        self.assert_same_files(self.folder / "killed", whole)

    def test_the_states_of_all_are_recorded_and_compared(self):
        """A step that is made again without sharing leaves what it has left with it."""
        words = [*SMALL, "trainer.global_batch=96", "model=mlp", "optimizer=adamw", "launch.workers=3", "trainer.max_steps=6"]
        for run, shared in (("a", "true"), ("b", "false")):
            self.train(run, *words, f"trainer.shard_optimizer={shared}")
            self.ddprun("replay", run, "--step", "6", "--out", f"{run}.json")
        self.assertIn("the same", self.ddprun("diff", "a.json", "b.json").out())

    def test_what_it_does_is_said(self):
        small = [*SMALL, "model=mlp", "optimizer=adamw"]
        self.assertIn("a single worker steps all parameters", self.ddprun(*small, "trainer.max_steps=1", "trainer.shard_optimizer=true").err())
        for words, said in (((), r"optimizer 814 kB, activations"),
                            (("trainer.shard_optimizer=true",), r"optimizer 803 kB \(shared by 4 workers\), activations")):
            self.assertRegex(self.ddprun("check", *small, "launch.workers=4", *words).out(), said)

    def test_an_optimizer_that_needs_all_parameters_at_once_is_refused_at_the_key(self):
        (self.folder / "e.yaml").write_text(f"name: e\ndefaults: [experiments/digits]\nplugin_path: [{DDPRUN.parent.parent}/tests/fault_plugins]\n"
                                            "trainer:\n  shard_optimizer: true\n")  # fmt: skip
        words = ["e.yaml", "optimizer=brittle_optimizer", "launch.workers=2", *SMALL[1:]]
        for command in ([], ["check"]):
            refused = self.ddprun(*command, *words, code=2).err()
            self.assertIn("e.yaml:5:20: trainer.shard_optimizer: this optimizer's step needs all parameters at once", refused)


class Mapped(CommandTest):
    def setUp(self):
        super().setUp()
        self.training = Training(Embedded(), [f"ids=16:int64:{SYMBOLS}"], self.folder, steps=STEPS).write()

    def in_memory(self):
        """For each worker, what of the file's mapping is in its memory: kB by smaps' words, summed up."""
        found = []
        for pid in self.workers().values():
            sums, counts = {}, False
            for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
                words = line.split()
                if not words[0].endswith(":"):
                    counts = "net.pt2" in line
                elif counts and words[-1] == "kB":
                    sums[words[0]] = sums.get(words[0], 0) + int(words[1])
            found.append(sums)
        return found

    def assert_shared(self, running):
        """No worker has a page of it for itself alone, but for the few at a tensor's ends that others than frozen ones share."""
        found = self.in_memory()
        self.assertEqual(len(found), 2)
        for sums in found:
            self.assertGreater(sums["Rss:"] * 1024, 0.99 * FROZEN)
            self.assertEqual(sums["Private_Dirty:"], 0)
        total = sum(sums["Pss:"] for sums in found) * 1024
        self.assertLess(total, 1.1 * FROZEN)
        running.gate.open()
        self.assertEqual(running.wait(), 0, running.text())

    def test_the_workers_of_a_machine_share_it_and_the_bits_are_the_same(self):
        words = ("net.yaml", "launch.workers=2", "checkpoint.every=2st", "checkpoint.only_trainable=true")
        self.assert_shared(self.start_held(4, *words, "model.mapped=true", "run.dir=mapped"))
        self.assert_same_end(self.folder / "mapped", self.train("own", *words))
        exported = []
        for run in ("mapped", "own"):
            self.ddprun("export", run, "--out", f"{run}.safetensors")
            exported.append((self.folder / f"{run}.safetensors").read_bytes())
        self.assertTrue(exported[0] == exported[1])
        self.assert_shared(self.start_held(8, "resume", "mapped", "trainer.max_epochs=2", "launch.workers=2", attempt=1))

    def test_one_worker_computes_as_python_does_also_where_the_file_is_replaced_meanwhile(self):
        running = self.start_held(3, "net.yaml", "model.mapped=true", "run.dir=run")
        expected = self.training.in_python()
        Training(Embedded(seed=1), [f"ids=16:int64:{SYMBOLS}"], self.folder, steps=STEPS).export(check=False)
        running.gate.open()
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(losses_of(self.folder / "run"), expected)

    def test_what_is_unfrozen_later_trains_on_pages_of_its_own(self):
        """The file keeps its numbers."""
        before = (self.folder / "net.pt2").read_bytes()
        words = ("net.yaml", "pretrained={freeze: [below.*], unfreeze: {2st: below.*}}", "launch.workers=2")
        mapped, own = (self.train(value, *words, f"model.mapped={value}") for value in ("true", "false"))
        self.assert_same_end(mapped, own)
        self.assertFalse(torch.equal(weights_of(mapped)["below.weight"], Embedded().below.weight))
        self.assertEqual((self.folder / "net.pt2").read_bytes(), before)

    def test_a_file_without_a_digest_is_not_mapped(self):
        with zipfile.ZipFile(self.folder / "net.pt2") as whole, zipfile.ZipFile(self.folder / "old.pt2", "w") as old:
            for entry in whole.infolist():
                content = whole.read(entry)
                if entry.filename.endswith("extra/ddprun.json"):
                    content = json.dumps({key: value for key, value in json.loads(content).items() if key != "sha256"}).encode()
                old.writestr(entry.filename.replace("net/", "old/", 1), content)
        words = ("net.yaml", "model.file=old.pt2", "trainer.max_steps=1")
        self.ddprun(*words, "run.dir=run")
        said = self.ddprun(*words, "model.mapped=true", "run.dir=none", code=2).err()
        self.assertIn("old.pt2: an earlier version wrote it without a digest, so it cannot be mapped; export it again", said)


if __name__ == "__main__":
    unittest.main()
