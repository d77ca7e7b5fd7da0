# SPDX-License-Identifier: MIT
"""Modules written in Python, exported with torch.export and trained by the command, beside Python."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import zipfile

import torch

from command import CommandTest, differences, main
from eager import ROOT, Training, losses_of, unequal, weights_of
from exported_networks import NETWORKS, Images

MY_NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(64, width)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        return self.head(torch.relu(self.layer(images.flatten(1))))

"""


class Exported(CommandTest):
    archives = {}  # exporting takes seconds: each network once

    def training(self, name):
        make, inputs = NETWORKS[name]
        torch.manual_seed(0)
        training = Training(make(), inputs, self.folder)
        if name not in self.archives:
            training.export()
            self.archives[name] = (self.folder / "net.pt2").read_bytes()
        (self.folder / "net.pt2").write_bytes(self.archives[name])
        training.experiment()
        return training

    def run_of(self, name, *words, **options):
        self.ddprun("net.yaml", f"run.dir={name}", *words, **options)
        return self.folder / name

    def test_every_bit_is_pythons(self):
        for name in NETWORKS:
            with self.subTest(name):
                training = self.training(name)
                run = self.run_of(name)
                self.assertEqual(losses_of(run), training.in_python())
                self.assertEqual(unequal(training.module, weights_of(run)), [])
                self.assertEqual(set(weights_of(run)), set(training.module.state_dict()))

    def test_a_killed_run_continues_bit_for_bit(self):
        self.training("images")
        whole = self.run_of("whole", "checkpoint.every=5st")
        running = self.start_held(12, "net.yaml", "run.dir=killed", "checkpoint.every=5st")
        running.send(signal.SIGKILL)
        running.wait()
        running.gate.open()
        self.end_processes()
        self.ddprun("resume", "killed")
        self.assertEqual(differences(whole, self.folder / "killed"), {})
        self.assert_same_weights(whole, self.folder / "killed")

    def assert_same_weights(self, run, other, tolerance=0.0):
        mine, others = weights_of(run), weights_of(other)
        self.assertEqual(mine.keys(), others.keys())
        for name in mine:
            torch.testing.assert_close(mine[name], others[name], rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")

    def test_workers_and_fused_layers_train_the_same(self):
        training = Training(WithoutNoise(), NETWORKS["images"][1], self.folder, batch=12)
        training.export()
        training.experiment()
        words = ["trainer.sync_batchnorm=true", "trainer.ema_decay=0.9"]
        one = self.run_of("one", *words)
        for workers in (2, 3):
            self.assert_same_weights(one, self.run_of(f"workers{workers}", *words, f"launch.workers={workers}"), 2e-5)
        whole = self.run_of("whole", "model.fused_layers=true", "trainer.sync_batchnorm=false")
        self.assert_same_weights(one, whole, 2e-5)

    def test_autocast_is_pythons(self):
        training = self.training("tied")
        run = self.run_of("bf16", "trainer.precision=bf16")
        self.assertEqual(losses_of(run)[0], training.in_python(autocast=True)[0])

    def test_no_python_runs_while_it_trains(self):
        self.training("images")
        running = self.start_held(3, "net.yaml", "run.dir=run", "launch.workers=2")
        for pid in self.processes():
            self.assertNotIn("python", os.readlink(f"/proc/{pid}/exe"))
            self.assertNotIn("libpython", pathlib.Path(f"/proc/{pid}/maps").read_text())
        running.gate.open()
        self.assertEqual(running.wait(), 0, running.text())

    def test_diff_names_the_line_of_python(self):
        self.training("images")
        first, second = self.run_of("first"), self.run_of("second", env={"ATEN_CPU_CAPABILITY": "default"})
        compared = self.ddprun("diff", first, second, code=1).out()
        self.assertRegex(re.sub(r"\n +", " ", compared), r"made again, they part in step \d+, the part of rank 0, operator \d+ of \d+: "
                                                          r"aten::\w+.* at exported_networks.py:\d+")

    # The tool

    def export(self, *words, **environment):
        (self.folder / "my_net.py").write_text(MY_NET)
        done = subprocess.run([sys.executable, ROOT / "tools/export_model", *words], cwd=self.folder, env={**os.environ, **environment},
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_page_counts_and_names_the_networks_that_were_tried(self):
        from exported_zoo import ZOO

        page = (ROOT / "docs/models.md").read_text()
        page = page[page.index("### Networks that were tried") :]
        said = (r"trains (\d+) networks", r"(\d+) of them are equal", r"other (\d+) cannot")
        tried, equal, others = (int(re.search(text, page)[1]) for text in said)
        self.assertEqual((tried, equal + others), (len(ZOO), len(ZOO)))
        names = {name.rpartition(":")[2] for name in ZOO}
        self.assertEqual([name for name in names if name not in page and name.partition(".")[2] not in page], [])

    def test_the_tool_writes_what_trains(self):
        self.export("my_net.py:Net", "--input", "1x8x8", "--set", "width=16", "--out", "net.pt2")
        training = Training(Images(), ["1x8x8"], self.folder)
        training.experiment()
        run = self.run_of("run")
        self.assertEqual(weights_of(run)["layer.weight"].shape, (16, 64))
        layers = json.loads((run / "run.json").read_text())["layers"]
        self.assertEqual([layer["kind"] for layer in layers], ["Linear", "Linear"])

    def test_the_tool_needs_nothing_but_torch(self):
        (self.folder / "numpy.py").write_text("raise ModuleNotFoundError('there is none')")  # torch comes without it
        self.export("my_net.py:Net", "--input", "1x8x8", "--out", "net.pt2", PYTHONPATH=str(self.folder))
        self.assertTrue((self.folder / "net.pt2").exists())

    # Bad archives

    def assert_found_by_check(self, *texts):
        error = self.assert_refused("check", "net.yaml")
        for text in texts:
            self.assertIn(text, error)

    def rewrite(self, change):
        """Each record of the archive by name, as `change` gives it back; None leaves it out."""
        source = self.folder / "net.pt2"
        with zipfile.ZipFile(source) as archive:
            records = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in records.items():
                changed = change(name, content)
                if changed is not None:
                    archive.writestr(name, changed)

    def test_what_cannot_train_is_found_by_check(self):
        self.training("images")
        file, counter = self.folder / "net.pt2", b"body.1.num_batches_tracked"
        archive = file.read_bytes()

        def only(record, change):
            return lambda name, content: change(content) if name.endswith(record) else content

        def replaced(old, new, record="model.json"):
            return only(record, lambda content: content.replace(old, new))

        def without_notes(name, content):
            return None if name.endswith("ddprun.json") else replaced(counter, b"counter", "weights_config.json")(name, content)

        for what, change, texts in (
            ("operator", replaced(b"aten.relu.default", b"my.relu.default"), ["my::relu", "exported_networks.py:"]),
            ("overload", replaced(b"aten.relu.default", b"aten.relu.other"), ["aten::relu", "exported_networks.py:"]),
            ("argument", replaced(b'"name": "momentum"', b'"name": "moment"'), ["aten::batch_norm", "momentum"]),
            ("schema", replaced(b'"major": 8', b'"major": 9'), ["schema 9"]),
            ("evaluation", only("eval.json", lambda _: None), ["no program for evaluation"]),
            ("program", only("model.json", lambda _: None), ["no exported program"]),
            ("weight", only("weights/weight_0", lambda _: None), ["is damaged", "are missing"]),
            ("part", only("weights/weight_0", lambda content: content[:-4]), ["is damaged", "are not all there"]),
            ("bit", only("weights/weight_0", lambda content: bytes([content[0] ^ 1]) + content[1:]), ["is damaged", "not those that were written"]),
            ("buffer", without_notes, ["is damaged", counter.decode()]),
        ):
            with self.subTest(what):
                file.write_bytes(archive)
                self.rewrite(change)
                self.assert_found_by_check("net.yaml:1:", "net.pt2", *texts)
        for content in (b"", b"hello", archive[: len(archive) // 2], archive[:-1]):
            file.write_bytes(content)
            self.assert_found_by_check("net.pt2", "export_model")
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(file))
        self.assert_found_by_check("it is TorchScript", "export_model")
        torch.save({"a": torch.zeros(1)}, file)
        self.assert_found_by_check("weights alone")

    def test_a_type_that_no_checkpoint_holds_is_found_by_check(self):
        training = Training(Rotation(), ["8"], self.folder)
        training.export(check=False)  # which refuses it
        training.experiment()
        self.assert_found_by_check("tensor \"weight\" cannot be saved: it is of type ComplexFloat")
        refused = self.ddprun("net.yaml", "run.dir=run", code=2).err()
        self.assertIn("tensor \"weight\" cannot be saved: it is of type ComplexFloat", refused)

    def test_an_input_that_does_not_fit_names_both_sides(self):
        self.training("tied")
        Training(Images(), ["1x8x8"], self.folder).experiment()
        self.assert_found_by_check("[*, 12] Long as symbols", "[4, 1, 8, 8] Float")


class Rotation(torch.nn.Module):
    """A layer of complex numbers."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 4, dtype=torch.complex64))

    def forward(self, values):
        return (values.to(torch.complex64) @ self.weight).abs()


class WithoutNoise(Images):
    def __init__(self):
        super().__init__()
        self.drop.p = 0.0

    def forward(self, images):
        hidden = self.body(images)
        return self.head((hidden + self.block(hidden)).mean((2, 3)))


if __name__ == "__main__":
    main()
