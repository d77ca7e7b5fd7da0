# SPDX-License-Identifier: MIT
"""A trained network as a file for others: what it says there is what `ddprun predict` says."""

import csv
import json
import pathlib
import subprocess
import sys
import unittest

import torch
from torch import nn

import weights
from command import SMALL, CommandTest, nightly, peers_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHES = (1, 7, 256)
SAMPLES = 256
SHAPES = {"resnet": (3, 16, 16), "wide_resnet": (3, 16, 16), "mlp": (1, 16, 16), "convnet": (1, 16, 16),
          "convnet_bn": (1, 16, 16), "keras_convnet": (1, 16, 16), "lenet": (1, 16, 16)}


class Small(nn.Module):
    """A view that takes the batch's size, a frozen layer, running statistics, a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.2)
        self.frozen = nn.Linear(256, 16)
        self.frozen.requires_grad_(False)
        self.head = nn.Linear(16, 10)
        self.register_buffer("scale", torch.full((1,), 2.0), persistent=False)

    def forward(self, images):
        x = torch.max_pool2d(torch.relu(self.bn(self.conv(images))), 2)
        return self.head(self.drop(torch.relu(self.frozen(x.reshape(x.shape[0], -1))))) * self.scale


class Tied(nn.Module):
    """One matrix under two names."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(256, 16)
        self.frozen.requires_grad_(False)
        self.first = nn.Linear(16, 16, bias=False)
        self.again = nn.Linear(16, 16)
        self.again.weight = self.first.weight
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        return self.head(torch.tanh(self.again(torch.tanh(self.first(self.frozen(images.flatten(1)))))))


class ExportNetwork(CommandTest):
    def write_data(self, shape):
        """Random samples, in files that Python and ddprun read."""
        generator = torch.Generator().manual_seed(1)
        for split, count in (("train", 128), ("test", SAMPLES)):
            inputs = torch.randn(count, *shape, generator=generator)
            targets = torch.arange(count) % 10
            weights.save(self.folder / f"{split}.safetensors", {"input": inputs, "target": targets})
        self.inputs = inputs

    def train(self, *words, steps=6, name="run"):
        self.ddprun("experiments/digits.yaml", "dataset={plugin: tensors, train: train.safetensors, test: test.safetensors}",
                    f"trainer.max_steps={steps}", "trainer.global_batch=32", "launch.device=cpu", "launch.threads=1", "launch.workers=1",
                    "~early_stopping", f"run.dir={name}", *words)
        self.ddprun("predict", name, "--out", f"{name}.csv", "launch.workers=1")
        with open(self.folder / f"{name}.csv", newline="") as file:
            self.guesses = [int(row["guess"]) for row in csv.DictReader(file)]

    def write_module(self, name, sizes):
        """The file that the model plugin `exported` trains."""
        source = self.folder / "net.py"
        if not source.exists():
            text = pathlib.Path(__file__).read_text()
            source.write_text("import torch\nfrom torch import nn\n\n" + text[text.index("class Small"):text.index("class ExportNetwork")])
        done = subprocess.run([sys.executable, ROOT / "tools/export_model", f"{source}:{name}", "--input", sizes, "--out", self.folder / "net.pt2"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_same_guesses(self, network, batches=BATCHES):
        for batch in batches:
            with self.subTest(batch=batch), torch.no_grad():
                found = torch.cat([network(part).argmax(1) for part in self.inputs.split(batch)])
                self.assertEqual(found.tolist(), self.guesses)

    def assert_exported(self, *kinds, run="run", named=False):
        """To a file of each kind, which says what `ddprun predict` says; `named`: its program takes images=."""
        for kind in kinds:
            with self.subTest(run=run, kind=kind):
                environment = self.onnx_environment() if kind == "onnx" else None
                self.ddprun("export", run, "--out", f"m.{kind}", "--force", env=environment, seconds=400)
                if kind == "onnx":
                    self.assertEqual(self.onnx_guesses(self.folder / "m.onnx"), [self.guesses] * len(BATCHES))
                else:
                    network = self.script()[0] if kind == "ts" else torch.export.load(self.folder / "m.pt2").module()
                    self.assert_same_guesses((lambda images: network(images=images)) if named and kind == "pt2" else network)

    def script(self, name="m.ts"):
        extra = {"ddprun.json": ""}
        network = torch.jit.load(self.folder / name, _extra_files=extra)
        return network, json.loads(extra["ddprun.json"])

    def onnx_guesses(self, file):
        """Of the test split, by ONNX Runtime, for each size of a batch."""
        torch.save(self.inputs, self.folder / "inputs.pt")
        code = ("import sys, torch, onnxruntime\n"
                "session = onnxruntime.InferenceSession(sys.argv[1])\n"
                "name = session.get_inputs()[0].name\n"
                "for batch in map(int, sys.argv[3:]):\n"
                "    parts = torch.load(sys.argv[2]).split(batch)\n"
                "    print([int(one) for part in parts for one in session.run(None, {name: part.numpy()})[0].argmax(1)])\n")
        done = subprocess.run([sys.executable, "-c", code, file, self.folder / "inputs.pt", *map(str, BATCHES)], env=self.onnx_environment(),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def onnx_environment(self):
        """The tests' Python, with torch, and the packages of the peers'."""
        python = peers_python()
        if not python:
            self.skipTest("no onnx, onnxscript and onnxruntime: DDPRUN_PEERS=1 tools/test installs them")
        paths = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True)
        return self.environment({"PYTHONPATH": paths.stdout.strip(), "OMP_NUM_THREADS": "1"})

    def test_a_plugins_network_says_the_same_in_torch_and_keeps_names(self):
        self.write_data(SHAPES["convnet_bn"])
        self.train("model=convnet_bn", "trainer.ema_decay=0.5")
        said = self.ddprun("export", "run", "--out", "m.ts").out()
        self.assertRegex(said, r"^m.ts: the network with 16 tensors of step_00000006: .*\blast, averaged weights")
        network, about = self.script()
        self.assertEqual((about["sample_shape"], about["classes"], about["type"], about["raw"]), ([1, 16, 16], 10, "float32", False))
        self.ddprun("export", "run", "--out", "m.pt")
        exported = torch.load(self.folder / "m.pt", weights_only=True)
        self.assertEqual(network.state_dict().keys(), exported.keys())
        self.assertTrue(all(torch.equal(network.state_dict()[name], value) for name, value in exported.items()))
        self.assertTrue(any(parameter.requires_grad for parameter in network.parameters()))
        self.assert_exported("ts", "pt2")

    @nightly
    def test_a_module_from_python_goes_back_and_is_trained_on(self):
        self.write_data((1, 16, 16))
        self.write_module("Small", "1x16x16")
        self.train("model=exported", "model.file=net.pt2")
        self.ddprun("export", "run", "--out", "m.pt")
        module = Small()
        module.load_state_dict(torch.load(self.folder / "m.pt", weights_only=True), strict=True)
        module.eval()
        self.assert_same_guesses(module)
        self.assert_exported("pt2", "ts", *(["onnx"] if peers_python() else []), named=True)
        first = self.guesses
        self.train("model=exported", "model.file=m.pt2", "optimizer.lr=0", steps=1, name="again")
        statistics = sum(one != other for one, other in zip(first, self.guesses, strict=True))
        self.assertLess(statistics, SAMPLES // 4, "a step without a learning rate changes running statistics alone")

    def test_tied_and_frozen_weights_go_back_by_their_names(self):
        self.write_data((1, 16, 16))
        self.write_module("Tied", "1x16x16")
        self.train("model=exported", "model.file=net.pt2", "trainer.ema_decay=0.5")
        for name in ("m.pt", "m.safetensors"):
            self.ddprun("export", "run", "--out", name)
        module = Tied()
        module.load_state_dict(torch.load(self.folder / "m.pt", weights_only=True), strict=True)
        self.assertIs(module.again.weight, module.first.weight)
        self.assert_same_guesses(module)
        other = Tied()
        other.load_state_dict(weights.load(self.folder / "m.safetensors"), strict=True)
        self.assertTrue(torch.equal(other.again.weight, module.first.weight))

    def test_raw_takes_bytes_and_gives_probabilities(self):
        self.ddprun(*SMALL, "model=mlp", "run.dir=run", "trainer.max_steps=2")
        self.ddprun("export", "run", "--out", "plain.ts")
        self.ddprun("export", "run", "--raw", "--out", "raw.ts")
        plain, about = self.script("plain.ts")
        images = torch.randint(0, 256, (9, 1, 28, 28), dtype=torch.uint8)
        black, white = about["bytes"]["black"][0], about["bytes"]["white"][0]
        expected = plain(black + images.float() * (white - black) / 255).softmax(1)
        raw, about = self.script("raw.ts")
        self.assertTrue(about["raw"])
        self.assertTrue(torch.allclose(raw(images), expected, atol=1e-6))
        self.assertEqual(about["class_names"], [str(digit) for digit in range(10)])

    def refuse(self, *words, env=None):
        message = self.assert_refused("export", *words, env=env)
        self.assertEqual(len(message.splitlines()), 1, message)
        self.assertEqual([path.name for path in self.folder.glob("*.tmp-*")], [])
        return message

    def test_what_is_wrong_is_reported_in_one_line_and_leaves_no_file(self):
        self.write_data((1, 16, 16))
        self.train("model=mlp")
        for words, text in ((["--out", "m.tflite"], "expected .pt or .safetensors (weights), .ts, .pt2 or .onnx"),
                            (["--raw", "--out", "m.ts"], "the dataset tensors does not provide images as bytes"),
                            (["--raw", "--out", "m.pt"], "--raw is for files that hold the network")):  # fmt: skip
            self.assertIn(text, self.refuse("run", *words))
        nowhere = self.refuse("run", "--out", "m.pt2", env={"DDPRUN_PYTHON": "/nowhere/python"})
        self.assertIn("/nowhere/python: there is no such program. Without Python there are --out m.ts", nowhere)
        empty = self.folder / "python"
        empty.write_text(f"#!/bin/sh\nexec {sys.executable} -S -I \"$@\"\n")  # -S: without site-packages
        empty.chmod(0o755)
        self.assertIn("there is no torch in", self.refuse("run", "--out", "m.pt2", env={"DDPRUN_PYTHON": str(empty)}))
        (self.folder / "mine.ts").write_text("years of work")
        self.assertIn("mine.ts exists already", self.refuse("run", "--out", "mine.ts"))
        (self.folder / "run/data.json").unlink()  # it is found out again
        self.ddprun("export", "run", "--out", "m.ts")
        self.assert_same_guesses(self.script()[0], batches=[7])

    def test_onnx_runtime_says_the_same(self):
        self.onnx_environment()
        self.write_data(SHAPES["convnet_bn"])
        self.train("model=convnet_bn")
        self.assert_exported("onnx")

    @nightly
    def test_every_plugin_says_the_same_in_every_format(self):
        for model, shape in SHAPES.items():
            self.write_data(shape)
            self.train(f"model={{plugin: {model}}}", name=model)
            self.assert_exported("ts", "pt2", *(["onnx"] if peers_python() else []), run=model)

    @nightly
    def test_aot_inductor_compiles_it(self):
        self.write_data((1, 16, 16))
        self.train("model=mlp")
        self.ddprun("export", "run", "--out", "m.pt2", seconds=400)
        try:
            package = torch._inductor.aoti_compile_and_package(torch.export.load(self.folder / "m.pt2"),
                                                               package_path=str(self.folder / "compiled.pt2"))
        except Exception as error:
            if "compiler" not in str(error).lower():
                raise
            self.skipTest("no C++ compiler that AOTInductor takes")
        self.assert_same_guesses(torch._inductor.aoti_load_package(package))


if __name__ == "__main__":
    unittest.main()
