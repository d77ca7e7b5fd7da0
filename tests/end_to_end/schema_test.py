# SPDX-License-Identifier: MIT
"""`ddprun schema`: an editor that has it, for which PyPI's jsonschema stands here, takes what ddprun takes, and refuses what ddprun refuses
in one file alone."""

import json
import pathlib
import re
import shutil
import unittest

from command import DDPRUN, CommandTest, main

try:
    import jsonschema
    import yaml
    MISSING = None
except ImportError as error:
    MISSING = error.name

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUPS = ("model", "dataset", "optimizer", "trainer", "logger", "launch")

# What ddprun takes; all of it stands in a file that builds on `digits`.
RIGHT = [
    "model: mlp",
    "model: {hidden: 7}\ndefaults: [experiments/digits, model/mlp]",
    "model: {plugin: mlp, hidden: '${seed}', dropout: 5e-1}\nseed: 3",
    "dataset: {plugin: digits, resident: off, train_size: 100}",
    "optimizer: {plugin: adam, lr: 1e-3, betas: [0.9, 0.99], groups: [{parameters: '*.bias', weight_decay: 0}]}",
    "optimizer: {lr: '${env:RATE,0.5}'}",
    "loggers: csv",
    "loggers: [csv, {plugin: console, every: 0}]",
    "loggers: []",
    "objective: nll",
    "objective: {name: cross_entropy, label_smoothing: 0.1, metrics: [accuracy, top5]}",
    "objective: {label_smoothing: 0.1}",
    "schedule: cosine",
    "schedule: {name: multistep, milestones: [1ep, 20st], gamma: 0.5}",
    "schedule: {warmup: 10st}",
    "early_stopping: null",
    "early_stopping: {target: null, patience: 2}",
    "pretrained: {freeze: 'conv1.*', unfreeze: {1ep: '*', 300st: ['*']}}",
    "trainer: {max_time: 90min, limit_val_batches: 0.5, limit_train_batches: all, cuda_graph: off}",
    "checkpoint: {resume: never, every: 10min}",
    "launch: {workers: 2, threads: auto, nodes: '1:4'}",
    "launch: {workers: auto, nodes: 1}",
    "resources: {memory: 64G, slurm: [--partition=accel], gpus: 4, cpus_per_worker: 3}",
    "plugin_path: plugins",
    "plugin_path: [plugins, /elsewhere]",
    "defaults: [experiments/digits, {model: mlp}]",
    "name: 2026",
]

# What it refuses.
WRONG = [
    "trainer: {max_epoch: 3}",
    "trainer: {global_batch: many}",
    "trainer: {global_batch: '64'}",
    "trainer: {log_every: 0}",
    "trainer: {precision: fp8}",
    "trainer: {shuffle: 1}",
    "trainer: 3",
    "checkpoint: [1]",
    "trainr: {}",
    "seed: -1",
    "seed: null",
    "name: [a]",
    "model: mlpp",
    "model: {plugin: mlpp}",
    "model: {plugin: mlp, hiden: 5}",
    "model: {plugin: mlp, hidden: 0}",
    "model: {plugin: mlp, dropout: 1.5}",
    "model: {plugin: sgd}",
    "model: [mlp]",
    "dataset: {plugin: digits, root: x}",
    "dataset: {plugin: digits, resident: gpu}",
    "optimizer: {plugin: adam, betas: [0.9, 2]}",
    "optimizer: {plugin: adam, betas: 0.9}",
    "optimizer: {plugin: sgd, lr: fast}",
    "optimizer: {plugin: sgd, groups: [{parameter: '*'}]}",
    "loggers: [{every: 1}]",
    "loggers: [csvv]",
    "objective: {name: nll, label_smoothing: 0.1}",
    "objective: hinge",
    "schedule: {name: cosine, milestones: [1ep]}",
    "schedule: {name: cosin}",
    "pretrained: {freeze: {a: b}}",
    "early_stopping: {patience: null}",
    "launch: {device: gpu}",
    "defaults: experiments/digits",
    "defaults: [_self_]",
    "defaults: [[experiments/digits]]",
]

BASE = "defaults: [experiments/digits]"


def core_loader():
    """YAML 1.2, as we and editors read it, where PyYAML's own words are those of 1.1: `off` is a text, 1e-3 a number."""
    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in (("bool", r"true|false", "tf"), ("null", r"null|~|", ["n", "~", ""]), ("int", r"[-+]?[0-9]+", "-+0123456789"),
                                ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789")):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))
    return Loader


class Schema(CommandTest):
    def validator(self, *arguments, env=None):
        schema = json.loads(self.ddprun("schema", *arguments, env=env).out())
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    def problems(self, validator, text):
        return [error.message for error in validator.iter_errors(yaml.load(text, Loader=core_loader()))]

    def test_every_experiment_and_group_that_comes_with_ddprun_is_right(self):
        for group in ("experiments", *GROUPS):
            files = sorted((ROOT / "configs" / group).glob("*.yaml"))
            self.assertTrue(files)
            validator = self.validator("--group", group)
            for file in files:
                with self.subTest(file=file.relative_to(ROOT)):
                    self.assertEqual(self.problems(validator, file.read_text()), [])

    def test_it_takes_and_refuses_what_ddprun_does(self):
        validator = self.validator()
        for texts, code in ((RIGHT, 0), (WRONG, 2)):
            for text in texts:
                found = self.problems(validator, text)
                self.assertEqual(bool(found), code != 0, f"{text}: {found}")
            for lines in self.documents(texts):
                (self.folder / "e.yaml").write_text("\n".join(lines))
                reported = self.ddprun("check", "--no-data", "e.yaml", code=code).err()
                for number, line in enumerate(lines, start=1):
                    if code and line != BASE:
                        self.assertIn(f"e.yaml:{number}:", reported, line)

    def documents(self, texts):
        """The texts in as few files as their keys allow, as lines: ddprun shows the mistakes of a file all at once."""
        files = []
        for text in texts:
            keys = set(yaml.load(text, Loader=core_loader()))
            if "defaults" in keys:
                files.append((keys, text.splitlines()))
                continue
            taken, lines = next((file for file in files if "defaults" not in file[0] and not file[0] & keys), (set(), [BASE]))
            if not taken:
                files.append((taken, lines))
            taken.update(keys)
            lines.extend(text.splitlines())
        return [lines for _, lines in files]

    def test_a_file_of_a_group_is_no_experiment(self):
        validator = self.validator("--group", "trainer")
        self.assertEqual(self.problems(validator, "defaults: [smoke]\nmax_epochs: 3"), [])
        for wrong in ("trainer: {max_epochs: 3}", "max_epoch: 3", "smoke"):
            self.assertTrue(self.problems(validator, wrong), wrong)
        self.assertIn("did you mean trainer?", self.assert_refused("schema", "--group", "trainers"))

    def test_help_and_defaults_show(self):
        properties = self.validator().schema["properties"]
        self.assertEqual(properties["trainer"]["properties"]["global_batch"]["default"], 64)
        mlp = next(one for one in properties["model"]["oneOf"] if one.get("title") == "mlp")
        self.assertEqual(mlp["properties"]["hidden"]["default"], 128)
        self.assertIn("units", mlp["properties"]["hidden"]["description"])

    def test_a_plugin_of_ones_own_is_known_where_the_experiment_finds_it(self):
        text = "plugin_path: plugins\nmodel: {plugin: bag}"
        self.assertTrue(self.problems(self.validator(), text))
        (self.folder / "plugins").mkdir()
        shutil.copy(DDPRUN.parents[1] / "tests/several_inputs/bag_model.so", self.folder / "plugins")
        (self.folder / "e.yaml").write_text(text)
        self.assertEqual(self.problems(self.validator("e.yaml"), text), [])
        self.assertEqual(self.problems(self.validator(env={"DDPRUN_PLUGIN_PATH": str(self.folder / "plugins")}), text), [])

    def test_a_file_is_written_anew(self):
        file = self.folder / "s.json"
        file.write_text("old")
        self.assertEqual(self.ddprun("schema", "--out", "s.json").out(), "")
        self.assertEqual(json.loads(file.read_text())["title"], "an experiment of ddprun")


if __name__ == "__main__":
    main(f"there is no {MISSING} (tests/tools/peers installs it)" if MISSING else None)
