# SPDX-License-Identifier: MIT
"""Models of Keras 3: exported and trained by the command as Keras' own in Python; refused by name where they would train otherwise."""

import csv
import json
import os
import pathlib
import unittest.mock

import torch

import weights
from command import CommandTest, main, summary, use_peers
from eager import BATCH, LR, ROOT, SEED, Training, losses_of, weights_of
from export_tool import ExportTool

STEPS = 6
SAMPLES, FIT_BATCH = 100, 20
FIT = ["experiments/mnist_keras.yaml", "dataset={plugin: tensors, train: data.safetensors, classes: 3}", "dataset.val_fraction=0.2",
       "model={plugin: mlp, hidden: 8}", "~trainer.batch_per_worker", f"+trainer.global_batch={FIT_BATCH}", "trainer.max_epochs=3", "launch.threads=1",
       "launch.device=cpu", "launch.workers=1", "run.dir=run"]

MODELS = """
import keras
from keras import layers


def guide():
    inputs = keras.Input(shape=(28, 28, 1))
    x = layers.Rescaling(1.0 / 255.0)(inputs)
    x = layers.Conv2D(filters=12, kernel_size=3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(scale=False, center=True)(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(filters=24, kernel_size=6, use_bias=False, strides=2)(x)
    x = layers.BatchNormalization(scale=False, center=True)(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(filters=32, kernel_size=6, padding="same", strides=2, name="large_k")(x)
    x = layers.BatchNormalization(scale=False, center=True)(x)
    x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(256, activation="relu")(x)
    x = layers.Dropout(0.5)(x)
    return keras.Model(inputs, layers.Dense(10)(x))


def of(*parts):
    return keras.Sequential([keras.Input((8,)), *parts, layers.Dense(4, name="last")])


def unbuilt():
    return keras.Sequential([layers.Dense(6), layers.GaussianNoise(0.1), layers.Dropout(0.2, seed=3), layers.Dense(4)])


def two():
    one, other = keras.Input((8,), name="one"), keras.Input((3,), name="the other")
    return keras.Model([one, other], layers.Dense(4)(layers.Concatenate()([one, other])))


def frozen():
    model = of(layers.Dense(6, name="first"), layers.BatchNormalization(name="norm"))
    model.get_layer("first").trainable = False
    return model


def compiled():
    model = of(layers.Dense(4, activation="softmax"))
    model.pop()
    model.compile(loss="mse")
    return model


def regularized():
    return of(layers.Dense(4, kernel_regularizer="l2", name="fc"))


def constrained():
    return of(layers.Dense(4, kernel_constraint="max_norm", name="fc"))


class Counts(layers.Layer):
    steps = 0

    def call(self, x):
        self.steps += 1
        return x * self.steps if self.steps > 20 else x


def counts():
    return of(Counts(name="counter"))


class Twins(layers.Layer):
    def __init__(self):
        super().__init__(name="twins")
        self.one, self.other = layers.Dense(6, name="fc"), layers.Dense(4, name="fc")

    def call(self, x):
        return self.other(self.one(x))


def twins():
    return of(Twins())
"""


class Keras(ExportTool, CommandTest):
    def setUp(self):
        super().setUp()
        use_peers()
        with unittest.mock.patch.dict(os.environ, KERAS_BACKEND="torch"):
            try:
                import keras  # noqa: F401
            except ImportError:
                self.skipTest("no keras: DDPRUN_PEERS=1 tools/test installs it")
        os.chdir(self.folder)
        self.addCleanup(os.chdir, ROOT)
        pathlib.Path("nets.py").write_text(MODELS)

    def export(self, name, *inputs, code=0):
        """Returns what the tool says."""
        words = [word for one in inputs or ["8"] for word in ("--input", one)]
        return self.run_export(f"nets.py:{name}", *words, "--out", "net.pt2", code=code)

    def test_the_guides_model_trains_bit_for_bit_as_in_keras(self):
        from export_model.outputs import give_one_tensor
        from export_model.source import complete, make_module

        network = make_module("nets.py:guide", {})
        give_one_tensor(network, None)
        training = Training(network, ["1x28x28"], self.folder, steps=STEPS)
        complete(training.module, training.inputs)
        training.export()
        training.experiment()
        self.ddprun("net.yaml", "run.dir=run")
        model = training.module.model
        self.assertEqual(losses_of(self.folder / "run"), losses_in_keras(model, training))
        found = weights_of(self.folder / "run")
        expected = {one.path.replace("/", "."): one.value for one in model.variables if "seed_generator" not in one.path}
        self.assertEqual(set(found), set(expected))
        self.assertEqual([name for name in found if not torch.equal(found[name], expected[name])], [])

    def test_what_keras_can_make_is_exported(self):
        for name, inputs in {"unbuilt": ["8"], "two": ["8", "the_other=3"], "frozen": ["8"]}.items():
            with self.subTest(name):
                self.assertIn("checked against the module", self.export(name, *inputs))
        self.assertEqual(trained_in("net.pt2"), {"norm.gamma", "norm.beta", "last.kernel", "last.bias"})
        said = self.export("compiled")
        self.assertIn("Keras' compile() is not taken", said)
        self.assertIn("ends with softmax, and the objective cross_entropy takes logits", said)

    def test_layers_with_trainable_false_stay_as_they_are_until_they_are_unfrozen(self):
        self.export("frozen")
        before = torch.export.load("net.pt2").state_dict
        kernel, bias = (next(name for name in before if name.endswith(end)) for end in ("first.kernel", "first.bias"))
        self.assertEqual([isinstance(before[name], torch.nn.Parameter) for name in (kernel, bias)], [True, True])
        Training(torch.nn.Linear(8, 4), ["8"], self.folder, steps=STEPS).experiment()
        unfreezes = ('pretrained={freeze: ["*first.*"], unfreeze: {3st: "*"}}', "checkpoint.every=3st")
        for name, words in {"frozen": (), "unfrozen": unfreezes}.items():
            self.ddprun("net.yaml", f"run.dir={name}", *words)
        steps = [weights.load(self.folder / f"{run}/model.safetensors")[kernel]
                 for run in ("frozen/checkpoints/last", "unfrozen/checkpoints/step_00000003", "unfrozen/checkpoints/last")]  # fmt: skip
        self.assertEqual([torch.equal(one, before[kernel]) for one in steps], [True, True, False])

    def test_the_seed_draws_the_first_weights(self):
        drawn = []
        for _ in range(2):
            self.export("frozen")
            drawn.append(torch.export.load("net.pt2").state_dict)
        for one, other in zip(drawn[0].values(), drawn[1].values(), strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_what_would_train_otherwise_is_refused_by_name(self):
        self.assert_each_refused({
            "regularized": "fc/kernel: losses besides that of the output (a regularizer, add_loss)",
            "constrained": "fc/kernel has a constraint, which fit() applies after each step",
            "counts": "counter.steps in training",
            "twins": "twins/fc/kernel: give their layers names of their own",
        })  # fmt: skip

    def test_another_backend_gets_the_line_to_type(self):
        with unittest.mock.patch("keras.backend.backend", return_value="jax"):
            said = self.export("frozen", code=2)
        self.assertIn("nets.py:frozen is a model of Keras on jax, and torch exports those on torch: KERAS_BACKEND=torch ", said)
        self.assertIn("export_model nets.py:frozen --input 8 --out net.pt2; ", said)


def losses_in_keras(model, training):
    """Those of the guide's loop; the model is trained."""
    torch.manual_seed(SEED)
    optimizer = torch.optim.SGD([one.value for one in model.trainable_variables], lr=LR, momentum=0.9, fused=True)
    losses = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        (pictures,) = training.data.values()
        output = model(pictures[part].permute(0, 2, 3, 1), training=True)
        loss = torch.nn.functional.cross_entropy(output, training.target[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trained_in(file):
    program = torch.export.load(file)
    return {name.partition(".")[2] if name.startswith("sequential") else name
            for name, value in program.state_dict.items() if value.requires_grad}


class KerasWords(CommandTest):
    """What docs/from_pytorch.md gives for the words of Keras' fit() does what Keras does."""

    def setUp(self):
        super().setUp()
        generator = torch.Generator().manual_seed(1)
        weights.save(self.folder / "data.safetensors", {"input": torch.randn(SAMPLES, 8, generator=generator),
                                                        "target": torch.randint(0, 3, (SAMPLES,), generator=generator)})

    def rows(self):
        with (self.folder / "run/metrics.csv").open() as file:
            return list(csv.DictReader(file))

    def test_fit_evaluate_and_predict(self):
        """fit(epochs, batch_size, validation_split), ModelCheckpoint, CSVLogger, BackupAndRestore, evaluate(), predict()."""
        words = [*FIT, "loggers=[console, csv]", "objective.metrics=[accuracy]", "checkpoint.monitor=val/loss", "checkpoint.resume=auto"]
        first = self.ddprun(*words).text()
        self.assertIn("80 train, 20 val", first)
        self.assertEqual(summary(self.folder / "run")["steps"], 3 * 80 // FIT_BATCH)
        self.assertEqual([row["epoch"] for row in self.rows() if row["split"] == "val"], ["1", "2", "3"])
        self.assertTrue((self.folder / "run/checkpoints/best").exists())
        again = self.ddprun(*words).text()
        self.assertIn("the run has ended its training after 12 steps", again)
        self.assertEqual(set(json.loads(self.ddprun("evaluate", "run", "best", "--json").out())["metrics"]) & {"val/loss", "val/accuracy"},
                         {"val/loss", "val/accuracy"})
        self.ddprun("predict", "run", "best", "--split", "val", "--out", "p.csv")
        self.assertEqual(len((self.folder / "p.csv").read_text().splitlines()), 1 + 20)

    def test_early_stopping_and_reduce_lr_on_plateau(self):
        self.ddprun(*FIT, "trainer.max_epochs=9", "loggers=[csv]", "early_stopping={monitor: val/loss, patience: 3, min_delta: 100}",
                    "schedule={name: plateau, monitor: val/loss, factor: 0.1, patience: 0, threshold: 100, min_lr: 2e-5}")
        self.assertEqual((summary(self.folder / "run")["status"], summary(self.folder / "run")["steps"]), ("stopped_early", 4 * 80 // FIT_BATCH))
        rates = [float(row["lr"]) for row in self.rows() if row["lr"]]
        self.assertEqual((max(rates), min(rates)), (1e-3, 2e-5))


if __name__ == "__main__":
    main()
