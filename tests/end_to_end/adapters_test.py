# SPDX-License-Identifier: MIT
"""Adapters of the package peft over a small GPT-2: exported and trained by the command bit for bit as in Python, the weights below
them unchanged, and back in peft by their names."""

import importlib.util

import torch

from command import CommandTest, main, use_peers
from eager import Training, losses_of, unequal, weights_of

IDS, MASK = "input_ids=16:int64:50", "attention_mask=16:int64:2"
STEPS = 6


def base():
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=32, vocab_size=50, bos_token_id=1, eos_token_id=2, use_cache=False)
    return transformers.GPT2LMHeadModel(config)


def adapted(**settings):
    import peft

    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM", **settings)
    return peft.get_peft_model(base(), config)


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

    def assert_it_goes_back(self, name, settings):
        import peft
        import safetensors.torch

        self.ddprun("export", name, "--out", f"{name}.safetensors")
        model = adapted(**settings)
        model.load_state_dict(safetensors.torch.load_file(self.folder / f"{name}.safetensors"), strict=True)
        model.save_pretrained(self.folder / f"{name}_adapter")
        again = peft.PeftModel.from_pretrained(base(), self.folder / f"{name}_adapter").eval()
        symbols = torch.arange(16)[None]
        with torch.no_grad():
            self.assertTrue(torch.equal(again(input_ids=symbols).logits, self.trained(input_ids=symbols)))


if __name__ == "__main__":
    main()
