# SPDX-License-Identifier: MIT
"""A frozen base that stays in its file (model.mapped): the workers of a machine share one copy of it, with the same bits as of their own."""

import json
import pathlib
import unittest
import zipfile

import torch

import weights
from command import CommandTest, differences
from eager import Training, losses_of

SYMBOLS, WIDTH, STEPS = 100_000, 128, 6
FROZEN = (SYMBOLS * WIDTH + WIDTH * WIDTH + WIDTH) * 4  # bytes


class Net(torch.nn.Module):
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


class Mapped(CommandTest):
    def setUp(self):
        super().setUp()
        self.training = Training(Net(), [f"ids=16:int64:{SYMBOLS}"], self.folder, steps=STEPS)
        self.training.export()
        self.training.experiment()

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

    def assert_shared(self, workers):
        """Nobody has a page of it for himself alone, but for the few at a tensor's ends that others than frozen ones share."""
        found = self.in_memory()
        self.assertEqual(len(found), workers)
        for sums in found:
            self.assertGreater(sums["Rss:"] * 1024, 0.99 * FROZEN)
            self.assertEqual(sums["Private_Dirty:"], 0)
        total = sum(sums["Pss:"] for sums in found) * 1024
        self.assertLess(total, 1.1 * FROZEN)

    def pss(self):
        total = 0
        for pid in self.workers().values():
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024

    def test_the_workers_of_a_machine_share_it_and_the_bits_are_the_same(self):
        words = ("net.yaml", "launch.workers=2", "checkpoint.every=2st", "checkpoint.only_trainable=true")
        held = {}
        for run, more in (("mapped", ["model.mapped=true"]), ("own", [])):
            running = self.start_held(4, *words, *more, f"run.dir={run}")
            held[run] = self.pss()
            if more:
                self.assert_shared(workers=2)
            running.gate.open()
            self.assertEqual(running.wait(), 0, running.text())
        print(f"two workers have {held['mapped']:.1f} MiB with model.mapped and {held['own']:.1f} MiB without, of {FROZEN / 2**20:.1f} MiB frozen")
        self.assertLess(held["mapped"], held["own"] - 0.8 * FROZEN / 2**20)
        self.assertEqual(differences(self.folder / "mapped", self.folder / "own"), {})
        exported = []
        for run in ("mapped", "own"):
            self.ddprun("export", run, "--out", f"{run}.safetensors")
            exported.append(weights.load(self.folder / f"{run}.safetensors"))
        self.assertTrue(all(torch.equal(exported[0][name], value) for name, value in exported[1].items()))
        running = self.start_held(8, "resume", "mapped", "trainer.max_epochs=2", "launch.workers=2", attempt=1)
        self.assert_shared(workers=2)
        running.gate.open()
        self.assertEqual(running.wait(), 0, running.text())

    def test_one_worker_computes_as_python_does_also_where_the_file_is_replaced_meanwhile(self):
        running = self.start_held(3, "net.yaml", "model.mapped=true", "run.dir=run")
        expected = self.training.in_python()
        Training(Net(seed=1), [f"ids=16:int64:{SYMBOLS}"], self.folder, steps=STEPS).export(check=False)
        running.gate.open()
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(losses_of(self.folder / "run"), expected)

    def test_what_is_unfrozen_later_trains_on_pages_of_its_own(self):
        """The file keeps its numbers."""
        before = (self.folder / "net.pt2").read_bytes()
        words = ("net.yaml", "pretrained={freeze: [below.*], unfreeze: {2st: below.*}}", "launch.workers=2")
        for run, more in (("mapped", ["model.mapped=true"]), ("own", [])):
            self.ddprun(*words, *more, f"run.dir={run}")
        found = [weights.load(self.folder / run / "checkpoints/last/model.safetensors") for run in ("mapped", "own")]
        for name, value in found[1].items():
            self.assertTrue(torch.equal(found[0][name], value), name)
        self.assertFalse(torch.equal(found[0]["below.weight"], Net().below.weight))
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
        told = self.ddprun(*words, "model.mapped=true", "run.dir=none", code=2).err()
        self.assertIn("old.pt2: an earlier version wrote it without a digest, so it cannot be mapped; export it again", told)


if __name__ == "__main__":
    unittest.main()
