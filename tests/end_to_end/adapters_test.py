# SPDX-License-Identifier: MIT
"""Adapters of the package peft over a small GPT-2: exported and trained by the command bit for bit as in Python, the weights below
them unchanged, and back in peft by their names."""

import importlib.util

import torch

from command import CommandTest, main, use_peers
from eager import Training, losses_of, unequal, weights_of

IDS, MASK = "input_ids=16:int64:50", "attention_mask=16:int64:2"
STEPS = 6


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
                self.train(name, inputs, settings)
                self.assert_it_goes_back(name, settings)

    def train(self, name, inputs, settings):
        from export_model.outputs import give_one_tensor

        module = adapted(**settings)
        give_one_tensor(module, None)
        training = Training(module, inputs, self.folder, steps=STEPS)
        training.export()
        training.experiment()
        before = {key: value.clone() for key, value in module.state_dict().items()}
        self.ddprun("net.yaml", f"run.dir={name}")
        found = weights_of(self.folder / name)
        self.assertEqual(losses_of(self.folder / name), training.in_python())
        self.assertEqual(unequal(module, found), [])
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
        module, training = self.exported()
        every = ("net.yaml", "checkpoint.every=2st", "checkpoint.only_trainable=true", "run.dir=run")
        self.kill_once_saved(self.start_held(5, *every), "run", 4)
        self.ddprun("resume", "run")
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

    def exported(self, seed=0):
        from export_model.outputs import give_one_tensor

        module = adapted(seed)
        give_one_tensor(module, None)
        training = Training(module, [IDS], self.folder, steps=STEPS)
        training.export()
        training.experiment()
        return module, training

    def assert_only_its_own_base_fits(self):
        self.exported(seed=3)
        for words in (("resume", "run", "trainer.max_epochs=2"), ("evaluate", "run"), ("export", "run", "--out", "none.pt")):
            running = self.start(*words)
            self.assertNotEqual(running.wait(), 0)
            self.assertEqual(running.err().count("and this model has other weights there: their digest is "), 1, running.text())
        self.assertFalse((self.folder / "none.pt").exists())
        self.exported()
        last = (self.folder / "run/checkpoints/last").resolve()
        (last / "model.safetensors").unlink()
        self.assertIn("step_00000006/model.safetensors: ", self.ddprun("export", "run", "--out", "none.pt", code=2).err())
        resumed = self.ddprun("resume", "run", "trainer.max_epochs=2")
        self.assertIn("skipped a broken checkpoint: ", resumed.err())
        events = (self.folder / "run/events.jsonl").read_text()
        self.assertRegex(events, "from [^\"]*/step_00000004\"")


if __name__ == "__main__":
    main()
