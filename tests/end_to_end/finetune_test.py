# SPDX-License-Identifier: MIT
"""Fine-tuning against Python: weights of somebody else's network with a new head, parts of it frozen until later, lower learning rates for
lower layers. What is said about weights that do not fit. And adapters of the package peft over a small GPT-2, bit for bit as in Python, the
weights below them unchanged, and back in peft by their names."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import torch
from torch import nn

import weights
from command import CommandTest, events, losses_of, main, nightly, use_peers
from eager import Training, train, weights_of
from networks import ConvNetBn

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, SAMPLES, BATCH, EPOCH = 50, 157, 24, 7  # the last batch of an epoch has 13 samples
LR, DECAY, UNFROZEN = 0.01, 0.75, 2 * EPOCH
FROZEN = ("layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias", "layer1.1.running_mean", "layer1.1.running_var",
          "layer1.1.num_batches_tracked")
SECTION = ("{file: pretrained, rename: {\"^module\\\\.\": \"\"}, skip: [fc.*], freeze: [\"layer1.*\"], unfreeze: {2ep: \"layer1.*\"},"
           f" layer_decay: {DECAY}}}")
IDS, MASK = "input_ids=16:int64:50", "attention_mask=16:int64:2"


def base(seed=0):
    import transformers

    torch.manual_seed(seed)
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=32, vocab_size=50, bos_token_id=1, eos_token_id=2, use_cache=False)
    return transformers.GPT2LMHeadModel(config)


def adapted(seed=0, **settings):
    import peft

    below = base(seed)
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM", **settings)
    return peft.get_peft_model(below, config)


class FineTuning(CommandTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        torch.set_num_threads(1)
        self.inputs = torch.randn(SAMPLES, 1, 8, 8)
        self.targets = (self.inputs.flatten(1) @ torch.randn(64, 5)).argmax(1)
        weights.save(self.folder / "train.safetensors", {"input": self.inputs, "target": self.targets})
        self.network = ConvNetBn(classes=5, side=8)
        self.network.fc = nn.Linear(128, 9)  # another task's
        for _ in range(5):
            self.network(torch.randn(32, 1, 8, 8) * 2 + 0.5)
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        self.state = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def write_shards(self):
        """As they are published: two files, their names with a prefix, an index."""
        (self.folder / "pretrained").mkdir()
        places = {}
        for number in (1, 2):
            name = f"model-0000{number}-of-00002.safetensors"
            part = {f"module.{key}": tensor for i, (key, tensor) in enumerate(self.state.items()) if i % 2 == number - 1}
            weights.save(self.folder / "pretrained" / name, part)
            places |= dict.fromkeys(part, name)
        (self.folder / "pretrained/model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))

    def write_experiment(self, section):
        (self.folder / "e.yaml").write_text(
            "name: tuned\nseed: 1\nmodel: convnet_bn\ndataset: {plugin: tensors, train: train.safetensors}\n"
            f"optimizer: {{plugin: sgd, lr: {LR}, momentum: 0.9, weight_decay: 0.01}}\npretrained: {section}\n"
            f"trainer: {{max_epochs: 1000, max_steps: {STEPS}, global_batch: {BATCH}, shuffle: false, log_every: 1, sync_batchnorm: true}}\n"
            "checkpoint: {every: 1ep, keep: 100}\nlaunch: {device: cpu, threads: 1, workers: 1}\n")

    def first_head(self):
        """What ddprun draws for the layers that begin anew."""
        self.ddprun("e.yaml", "trainer.max_steps=1", "optimizer.lr=0", "run.dir=head")
        return weights_of(self.folder / "head")

    # Against Python

    def losses_of_python(self, head):
        self.network.fc = nn.Linear(128, 5)
        self.network.load_state_dict(self.state | {name: head[name] for name in ("fc.weight", "fc.bias")})
        layers = (self.network.layer1, self.network.layer2, self.network.fc)
        optimizer = torch.optim.SGD([{"params": list(layer.parameters()), "lr": LR * DECAY ** (2 - i)} for i, layer in enumerate(layers)],
                                    momentum=0.9, weight_decay=0.01)
        batches = [*zip(self.inputs.split(BATCH), self.targets.split(BATCH))] * STEPS

        def before(step):
            self.network.layer1.requires_grad_(step >= UNFROZEN).train(step >= UNFROZEN)

        return train(self.network, batches[:STEPS], optimizer, before=before)

    def test_fifty_steps_are_those_of_python_and_what_is_frozen_keeps_its_bits(self):
        self.write_shards()
        self.write_experiment(SECTION)
        text = self.ddprun("check", "e.yaml").out()
        self.assertIn("pretrained: 14 tensors loaded from pretrained, 2 new: fc.weight, fc.bias.\n", text)
        self.assertIn("pretrained: 3 layers, whose lr is that of the next one times 0.75: from 0.5625 of it for layer1.0.weight to all of it "
                      "for fc.weight.\n", text)
        self.assertIn("pretrained: 4 of 10 parameters are frozen (3.2 % of the weights), 4 of them until 2ep.\n", text)
        pythons = self.losses_of_python(self.first_head())
        self.assertLess(pythons[-1], 0.7 * pythons[0])  # it has learnt, so the comparison means something
        for workers in (1, 2):
            said = self.ddprun("e.yaml", f"launch.workers={workers}", f"run.dir=run{workers}")
            self.assertIn("pretrained: 14 tensors loaded from pretrained", said.err())
            mine = losses_of(self.folder / f"run{workers}")
            self.assertEqual(len(mine), STEPS)
            difference = max(abs(one - other) for one, other in zip(mine, pythons))
            print(f"losses {pythons[0]:.4f} .. {pythons[-1]:.4f}; {workers} workers differ by up to {difference:.0e}")
            self.assertLess(difference, 1e-5)
            frozen = weights.load(self.folder / f"run{workers}/checkpoints/step_{UNFROZEN:08}/model.safetensors")
            for name in FROZEN:
                self.assertTrue(torch.equal(frozen[name], self.state[name]), name)
            self.assertFalse(torch.equal(frozen["layer2.1.running_mean"], self.state["layer2.1.running_mean"]))
            end = weights_of(self.folder / f"run{workers}")
            for name, tensor in self.network.state_dict().items():
                torch.testing.assert_close(end[name], tensor, rtol=1e-3, atol=1e-5)
        self.assertIn("all 10 parameters train", str([event for event in events(self.folder / "run2") if event.get("kind") == "unfrozen"]))

    # Other files and models

    def test_a_file_of_sixteen_bits_and_one_of_torch_save_start_it_alike(self):
        self.state = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in self.state.items()}
        torch.save({"epoch": 3, "state_dict": {f"module.{name}": tensor for name, tensor in self.state.items()}}, self.folder / "net.pth")
        self.write_experiment("{file: net.safetensors, rename: {\"^module\\\\.\": \"\"}, skip: [\"fc.*\"]}")
        refused = self.ddprun("check", "e.yaml", "pretrained.file=net.pth", code=2).err()
        self.assertIn(f"torch.save() wrote it, as code for Python. Convert it: ddprun-convert-weights {self.folder}/net.pth", refused)
        self.convert("net.pth", "net.safetensors")
        said = self.ddprun("e.yaml", "trainer.max_steps=3", "run.dir=run").err()
        self.assertIn("14 tensors loaded from net.safetensors (bfloat16 to float32), 2 new: fc.weight, fc.bias", said)
        head = weights_of(self.folder / "run")
        self.network.fc = nn.Linear(128, 5)
        first = self.first_head()
        self.network.load_state_dict({name: self.state.get(name, tensor).to(tensor.dtype) if name[:2] != "fc" else tensor
                                      for name, tensor in first.items()})
        loss = nn.functional.cross_entropy(self.network(self.inputs[:BATCH]), self.targets[:BATCH])
        self.assertAlmostEqual(losses_of(self.folder / "run")[0], loss.item(), delta=1e-5)
        self.assertEqual(head["layer1.0.weight"].dtype, torch.float32)

    def convert(self, *words, code=0):
        done = subprocess.run([sys.executable, ROOT / "tools/convert_weights", *words], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    @nightly
    def test_the_converter_says_what_it_cannot_read(self):
        torch.save({"net": {"w": torch.ones(2, dtype=torch.float16), "b": torch.ones(())}, "epoch": 3}, self.folder / "a.pt")
        torch.save(self.network, self.folder / "module.pt")
        (self.folder / "broken.pt").write_bytes((self.folder / "a.pt").read_bytes()[:100])
        self.assertIn("there are no tensors in it; there are 'net', 'epoch': --key names", self.convert("a.pt", "a.st", code=2))
        self.assertIn("it has no weights under 'nett'; there are 'net', 'epoch'", self.convert("a.pt", "a.st", "--key=nett", code=2))
        self.assertIn("save its weights in Python", self.convert("module.pt", "a.st", code=2))
        self.assertIn("broken.pt: it cannot be read", self.convert("broken.pt", "a.st", code=2))
        self.assertFalse((self.folder / "a.st").exists())
        self.assertIn("a.st: 2 tensors, 3 numbers", self.convert("a.pt", "a.st", "--key=net"))
        self.assertEqual(weights.load(self.folder / "a.st")["w"].dtype, torch.float16)

    def test_the_frozen_statistics_of_an_exported_model_stay_too(self):
        self.network.fc = nn.Linear(128, 5)
        Training(self.network, ["1x8x8"], self.folder).export(check=False)
        self.write_experiment("{freeze: [\"layer1.*\"], unfreeze: {4st: \"layer1.*\"}}")
        self.ddprun("e.yaml", "model=exported", "model.file=net.pt2", "trainer.sync_batchnorm=false", "trainer.max_steps=6", "run.dir=run",
                    "checkpoint.every=1st")
        at = {step: weights.load(self.folder / f"run/checkpoints/step_{step:08}/model.safetensors") for step in (4, 5)}
        for name in FROZEN:
            self.assertTrue(torch.equal(at[4][name], self.state[name]), name)
        self.assertEqual(at[4]["layer2.1.num_batches_tracked"] - self.state["layer2.1.num_batches_tracked"], 4)
        self.assertEqual(at[5]["layer1.1.num_batches_tracked"] - self.state["layer1.1.num_batches_tracked"], 1)

    # Mistakes

    def test_weights_that_do_not_fit_are_found_before_a_worker_starts_and_by_one_that_does(self):
        weights.save(self.folder / "w.safetensors", self.state)
        self.write_experiment("{file: w.safetensors}")
        refused = self.ddprun("check", "e.yaml", code=2).err()
        self.assertIn("e.yaml:6:20: pretrained.file: ", refused)
        self.assertIn("fc.weight is [9, 128] in the file and [5, 128] in the model\n", refused)
        self.assertIn("If these are to start from new values: pretrained.skip: [fc.*]", refused)
        self.assertIn("fc.weight is [9, 128] in the file", self.ddprun("e.yaml", "run.dir=run", code=2).err())
        (self.folder / "half.safetensors").write_bytes((self.folder / "w.safetensors").read_bytes()[:5000])
        weights.save(self.folder / "alien.safetensors", {"a.weight": torch.zeros(3)})
        for words, message in {
            ("--no-data", "pretrained.file=none.safetensors"): "none.safetensors: no such file or folder",
            ("pretrained.file=half.safetensors",): "half.safetensors: not a valid safetensors file: ",
            ("pretrained.file=alien.safetensors",): "None of its tensors fits: it is of another network",
            ("pretrained.skip=fcc.*",): "pretrained.skip: no tensor of the model or of the file matches \"fcc.*\"; did you mean fc.*?",
            ("pretrained.skip=fc.*", "pretrained.freeze=\"*\""): "pretrained.freeze: it freezes all parameters of the model",
            ("pretrained.skip=fc.*", "pretrained.freeze=layr1.*"): "pretrained.freeze: no parameter matches \"layr1.*\"; did you mean layer1.*?",
        }.items():
            with self.subTest(words=words):
                self.assertIn(message, self.ddprun("check", "e.yaml", *words, code=2).err())


class Adapters(CommandTest):
    def setUp(self):
        super().setUp()
        use_peers()
        missing = [name for name in ("peft", "transformers", "accelerate") if importlib.util.find_spec(name) is None]
        if missing:
            self.skipTest(f"no {', '.join(missing)}: pip install peft")

    def test_each_trains_bit_for_bit_and_goes_back_into_peft(self):
        for name, inputs, settings in (("lora", [IDS], {}), ("masked", [IDS, MASK], {}), ("dora", [IDS], {"use_dora": True})):
            with self.subTest(name):
                self.check(name, inputs, settings)
                self.assert_it_goes_back(name, settings)

    def exported(self, inputs, seed=0, **settings):
        from export_model.outputs import give_one_tensor

        module = adapted(seed, **settings)
        give_one_tensor(module, None)
        return module, Training(module, inputs, self.folder, steps=6).write()

    def check(self, name, inputs, settings):
        module, training = self.exported(inputs, **settings)
        before = {key: value.clone() for key, value in module.state_dict().items()}
        training.assert_same(self, self.train(name, "net.yaml"))
        found = weights_of(self.folder / name)
        changed = {key for key in found if not torch.equal(found[key], before[key])}
        self.assertEqual(changed, {key for key, value in module.named_parameters() if value.requires_grad})
        self.assertTrue(all("lora" in key for key in changed), changed)
        self.trained = module.eval()

    def assert_it_goes_back(self, name, settings, alone=False):
        """`alone`: by a file without the base."""
        import peft
        import safetensors.torch

        self.ddprun("export", name, "--out", f"{name}.safetensors", "--force", *(["--only-trainable"] if alone else []))
        model = adapted(**settings)
        found = model.load_state_dict(safetensors.torch.load_file(self.folder / f"{name}.safetensors"), strict=not alone)
        self.assertEqual(found.unexpected_keys, [])
        model.save_pretrained(self.folder / f"{name}_adapter")
        again = peft.PeftModel.from_pretrained(base(), self.folder / f"{name}_adapter").eval()
        symbols = torch.arange(16)[None]
        with torch.no_grad():
            self.assertTrue(torch.equal(again(input_ids=symbols).logits, self.trained(input_ids=symbols)))

    def test_checkpoints_of_the_adapter_alone(self):
        """Killed and resumed, with the losses and weights of Python; and for no other base."""
        module, training = self.exported([IDS])
        self.kill_and_resume("run", (5,), "net.yaml", "checkpoint.every=2st", "checkpoint.only_trainable=true")
        self.assertEqual(losses_of(self.folder / "run"), training.in_python())
        held, trained = weights_of(self.folder / "run"), {name for name, value in module.named_parameters() if value.requires_grad}
        self.assertEqual(held.keys(), trained)
        self.assertEqual([name for name in trained if not torch.equal(held[name], module.state_dict()[name])], [])
        self.trained = module.eval()
        for alone in (False, True):
            self.assert_it_goes_back("run", {}, alone)
        self.ddprun("net.yaml", "run.dir=whole")
        sizes = [(self.folder / run / "checkpoints/last/model.safetensors").stat().st_size for run in ("run", "whole")]
        print(f"model.safetensors: {sizes[0]:,} bytes with checkpoint.only_trainable, {sizes[1]:,} without")
        self.assertLess(sizes[0], 0.2 * sizes[1])
        self.ddprun("export", "run", "--out", "part.pt2")  # both programs, over the base and the adapter
        again = torch.export.load(self.folder / "part.pt2").module()
        symbols = torch.arange(16)[None]
        with torch.no_grad():
            self.assertTrue(torch.equal(again(input_ids=symbols), module(input_ids=symbols)))
        self.assert_only_its_own_base_fits()

    def assert_only_its_own_base_fits(self):
        self.exported([IDS], seed=3)
        for words in (("resume", "run", "trainer.max_epochs=2"), ("evaluate", "run"), ("export", "run", "--out", "none.pt")):
            running = self.start(*words)
            self.assertNotEqual(running.wait(), 0)
            self.assertEqual(running.err().count("and this model has other weights there: their digest is "), 1, running.text())
        self.assertFalse((self.folder / "none.pt").exists())
        self.exported([IDS])
        last = (self.folder / "run/checkpoints/last").resolve()
        (last / "model.safetensors").unlink()
        self.assertIn("step_00000006/model.safetensors: ", self.ddprun("export", "run", "--out", "none.pt", code=2).err())
        resumed = self.ddprun("resume", "run", "trainer.max_epochs=2")
        self.assertIn("skipped a broken checkpoint: ", resumed.err())
        self.assertRegex((self.folder / "run/events.jsonl").read_text(), "from [^\"]*/step_00000004\"")


if __name__ == "__main__":
    main()
