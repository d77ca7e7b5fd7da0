# SPDX-License-Identifier: MIT
"""trainer.precision=bf16_master: weights of bfloat16, which the optimizer steps by float32 copies, as a loop in Python does."""

import torch

from command import SMALL, CommandTest, main
from eager import LR, SEED, Training, losses_of, unequal, weights_of
from weights import load

WORDS = [*SMALL, "model=convnet_bn", "optimizer=adamw", "launch.workers=1", "trainer.ema_decay=0.9"]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5))

    def forward(self, numbers):
        return self.layers(numbers)


class WithMasters(Training):
    def in_python(self):
        torch.manual_seed(SEED)
        self.module.to(torch.bfloat16)
        self.data = {name: values.bfloat16() for name, values in self.data.items()}
        weights = list(self.module.parameters())
        masters = [weight.detach().float() for weight in weights]
        optimizer = torch.optim.SGD(masters, lr=LR, momentum=0.9, fused=True)
        losses = []
        for step in range(self.steps):
            loss = self.loss_of(slice(step * self.batch, (step + 1) * self.batch), autocast=False)
            loss.backward()
            for weight, master in zip(weights, masters, strict=True):
                master.grad, weight.grad = weight.grad.float(), None
            optimizer.step()
            with torch.no_grad():
                for weight, master in zip(weights, masters, strict=True):
                    weight.copy_(master)
            losses.append(loss.item())
        self.masters = {name: master for (name, _), master in zip(self.module.named_parameters(), masters, strict=True)}
        return losses


class MasterWeights(CommandTest):
    def state(self):
        return load(self.folder / "run/checkpoints/last/optimizer.safetensors")

    def copies(self):
        return {name for name in self.state() if name.endswith("/master_weight")}

    def test_every_bit_is_that_of_a_loop_in_python(self):
        training = WithMasters(Net(), ["numbers=12"], self.folder, steps=60)
        training.export()
        training.experiment()
        self.ddprun("net.yaml", "run.dir=run", "trainer.precision=bf16_master")
        self.assertEqual(losses_of(self.folder / "run"), training.in_python())
        self.assertEqual(unequal(training.module, weights_of(self.folder / "run")), [])
        saved = self.state()
        for name, master in training.masters.items():
            self.assertTrue(torch.equal(saved[f"{name}/master_weight"], master), name)

    def test_a_resumed_run_may_go_over_to_it_and_back(self):
        self.ddprun(*WORDS, "run.dir=run", "trainer.max_steps=6")
        exact = weights_of(self.folder / "run")
        self.assertEqual(self.copies(), set())
        self.ddprun("resume", "run", "trainer.max_steps=7", "trainer.precision=bf16_master", "optimizer.lr=0")
        self.assertEqual({value.dtype for name, value in weights_of(self.folder / "run").items() if name.endswith("weight")}, {torch.bfloat16})
        saved = self.state()
        for name in self.copies():
            self.assertTrue(torch.equal(saved[name], exact[name.removesuffix("/master_weight")]), name)
        self.ddprun("resume", "run", "trainer.max_steps=8", "trainer.precision=fp32")
        self.assertEqual(self.copies(), set())
        for name, value in weights_of(self.folder / "run").items():
            if name.endswith((".weight", ".bias")):
                self.assertTrue(torch.equal(value, exact[name]), name)

    def test_predictions_and_the_exported_weights_are_those_of_the_run(self):
        self.ddprun(*WORDS, "run.dir=run", "trainer.max_steps=6", "trainer.precision=bf16_master")
        self.ddprun("predict", "run", "--split", "val", "--out", "p.csv")
        self.ddprun("export", "run", "--out", "w.safetensors")
        self.assertIn(torch.bfloat16, {value.dtype for value in load(self.folder / "w.safetensors").values()})


if __name__ == "__main__":
    main()
