# SPDX-License-Identifier: MIT
"""The core alone, a program without any of runner/features: it trains to the same bits, and hands a run to the whole program and back."""

import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))

from command import DDPRUN, SMALL, CommandTest, differences, summary  # noqa: E402

DATA = pathlib.Path(os.environ.get("DDPRUN_DATA", "nowhere"))
SHORT = ["trainer.max_steps=4", "trainer.log_every=1", "trainer.limit_val_batches=2", "trainer.limit_test_batches=2", "trainer.eval_batch=32",
         "trainer.global_batch=32", "launch.device=cpu", "launch.threads=1"]
EXPERIMENTS = {  # those that we ship, without a key of a feature; the others need data that few have
    "digits": ["dataset.train_size=200", "dataset.val_size=64", "dataset.test_size=64"],
    "gan": ["dataset.train_size=200"],
    "regression": [],
    "text": ["model.layers=1", "model.width=16", "model.heads=2", "dataset.context=16"],
    "mnist": [f"dataset.root={DATA}/mnist"],
}
STOPS = [*(word for word in SMALL if word != "~early_stopping"), "model=convnet_bn", "launch.workers=2", "trainer.max_epochs=4", "trainer.ema_decay=0.9", "trainer.clip_norm=1", "optimizer=adamw",
         "early_stopping={monitor: val/loss, patience: 1, min_delta: 100}", "trainer.log_every=2", "checkpoint.every=2st"]
# A value of each key that asks for a feature: features/<name>/feature.cmake names the keys.
ASKS = {"pretrained.freeze": "[hidden*]", "pretrained.unfreeze": "{1ep: [hidden*]}", "trainer.recompute": "all", "record": "{steps: 1..2}",
        "histograms": "{every: 2st}", "profile": "{steps: 1..2}", "trainer.peak_tflops": "3", "trainer.verify_shards": "true",
        "trainer.system_metrics_seconds": "5", "trainer.max_time": "1h", "callbacks": "[swa]"}
# What the commands of features are called with.
CALLS = {"diff": ["run", "run"], "find-lr": ["experiments/digits.yaml"], "replay": ["run", "--step", "1"]}
FEATURES = pathlib.Path(__file__).resolve().parents[2] / "runner/features"


def digests(run):
    """{file: SHA-256} of the last checkpoint, but for state.json."""
    files = (run / "checkpoints/last").glob("*.safetensors")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def words_after(word):
    """Each feature with each word that follows this one in its feature.cmake, up to the next in capitals."""
    found = []
    for file in sorted(FEATURES.glob("*/feature.cmake")):
        words = file.read_text().rstrip(")\n").split()
        values = itertools.takewhile(lambda value: not value.isupper(), words[words.index(word) + 1:] if word in words else [])
        found += [(file.parent.name, value) for value in values]
    return found


def state(run):
    return json.loads((run / "checkpoints/last/state.json").read_text())


class States(CommandTest):
    def test_one_that_is_damaged_is_refused_with_the_name_of_its_file(self):
        self.ddprun(*SMALL, "model=mlp", "trainer.max_steps=2", "run.dir=run")
        checkpoint = (self.folder / "run/checkpoints/last").resolve()
        for key in ("work", "part_work", "micro_batch", "recomputes"):
            with self.subTest(key=key):
                shutil.rmtree(self.folder / "broken", ignore_errors=True)
                shutil.copytree(self.folder / "run", self.folder / "broken", symlinks=True)
                broken = self.folder / "broken/checkpoints" / checkpoint.name
                kept = json.loads((broken / "state.json").read_text())
                text = json.dumps(kept | {key: {"no": "such"}})
                (broken / "state.json").write_text(text)
                manifest = json.loads((broken / "manifest.json").read_text())
                manifest["files"]["state.json"] |= {"size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
                del manifest["manifest_sha256"]
                sealed = json.dumps(manifest, separators=(",", ":"), sort_keys=True)
                manifest["manifest_sha256"] = hashlib.sha256(sealed.encode()).hexdigest()
                (broken / "manifest.json").write_text(json.dumps(manifest))
                refused = self.ddprun("resume", "broken", "trainer.max_steps=4", code=2).err()
                self.assertIn(f"{checkpoint.name}: the training state in it is not one of this version of ddprun (", refused)


class Core(CommandTest):
    @classmethod
    def setUpClass(cls):
        """A prefix like that of the build, with the other program.so."""
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-core-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix, ignore_errors=True)
        whole = DDPRUN.parent.parent
        (cls.prefix / "bin").mkdir()
        shutil.copy2(DDPRUN, cls.prefix / "bin/ddprun")
        (cls.prefix / "lib/ddprun").mkdir(parents=True)
        for folder in ("", "lib", "lib/ddprun"):
            for entry in (whole / folder).iterdir():
                place = cls.prefix / folder / entry.name
                if not place.exists() and entry.name != "program.so":
                    place.symlink_to(entry)
        (cls.prefix / "lib/ddprun/program.so").symlink_to(os.environ["DDPRUN_CORE"])

    def core(self, *words, code=0, env=None):
        running = self.start_program(self.prefix / "bin/ddprun", *words, env=env)
        self.assertEqual(running.wait(120), code, running.text())
        return running

    def assert_same(self, run, other):
        self.assertEqual(digests(run), digests(other))
        self.assertEqual(differences(run, other), {})
        self.assertEqual(summary(run)["metrics"], summary(other)["metrics"])

    def test_it_trains_what_names_no_feature_to_the_same_bits(self):
        for name, few in EXPERIMENTS.items():
            if name == "mnist" and not (DATA / "mnist").is_dir():
                continue
            for workers in (1, 2):
                with self.subTest(experiment=name, workers=workers):
                    words = [f"experiments/{name}.yaml", *few, *SHORT, f"launch.workers={workers}"]
                    whole, core = (self.folder / f"{name}-{workers}-{which}" for which in ("whole", "core"))
                    self.ddprun(*words, f"run.dir={whole}")
                    self.core(*words, f"run.dir={core}")
                    self.assert_same(core, whole)
                    self.assertEqual(set(state(core)), set(state(whole)), "the format of checkpoints depends on the features")

    def test_a_run_goes_from_one_program_to_the_other_and_back_over_kills(self):
        whole = self.folder / "whole"
        self.ddprun(*STOPS, f"run.dir={whole}")
        self.assertEqual(summary(whole)["status"], "stopped_early")
        self.assertEqual(summary(whole)["steps"], 20)
        run, killed = self.folder / "run", {"DDPRUN_FAULT": "kill:computing:5:1"}
        self.ddprun(*STOPS, f"run.dir={run}", "launch.max_restarts=0", env=killed, code=128 + signal.SIGKILL)
        kept = state(run)
        self.assertGreater(kept["work"][1], 0)  # FLOPs, of the feature work
        self.core("resume", run, "launch.max_restarts=0", env={"DDPRUN_FAULT": "kill:computing:9:0:1"}, code=128 + signal.SIGKILL)
        self.assertGreater(state(run)["step"], kept["step"], "the core has written a checkpoint of its own")
        self.assertEqual(state(run)["work"], kept["work"], "of a feature that it does not have")
        self.ddprun("resume", run, "launch.max_restarts=0", env={"DDPRUN_FAULT": "kill:computing:15:1:2"}, code=128 + signal.SIGKILL)
        self.core("resume", run)
        self.assertEqual(digests(run), digests(whole))
        self.assertEqual(summary(run)["metrics"], summary(whole)["metrics"])
        self.assertEqual(self.core("evaluate", run, "--json").out(), self.ddprun("evaluate", run, "--json").out())

    def test_a_key_of_a_feature_that_is_not_built_is_refused_in_one_sentence(self):
        for feature, key in words_after("KEYS"):
            with self.subTest(feature=feature, key=key):
                name, _, value = key.partition("=")
                asking = f"{name}={value or ASKS[name]}"
                refused = self.core("check", *SMALL, "model=mlp", f"++{asking}", code=2).err()
                self.assertIn(f"{name}: this ddprun was built without the feature {feature} (cmake -D DDPRUN_FEATURES); remove", refused)

    def test_a_command_of_a_feature_that_is_not_built_is_refused_in_one_sentence(self):
        commands = words_after("COMMANDS")
        self.assertEqual({command for _, command in commands}, set(CALLS))
        for feature, command in commands:
            with self.subTest(feature=feature, command=command):
                refused = self.core(command, *CALLS[command], code=2)
                self.assertEqual(refused.err(), f"ddprun: error: {command}: this ddprun was built without the feature {feature} "
                                                "(cmake -D DDPRUN_FEATURES); build it with that feature\n")
                self.assertEqual(refused.out(), "")

    def test_it_knows_the_keys_that_features_have_in_sections_of_the_core(self):
        def keys(text):
            sections = {}
            for section, key in re.findall(r"^(\S[^#\n]*)  # |^  (\w+)  \(", text, re.MULTILINE):
                if section:
                    names = sections.setdefault(section, set())
                else:
                    names.add(key)
            return sections

        whole, core = keys(self.ddprun("keys").out()), keys(self.core("keys").out())
        self.assertGreater(len(core["trainer:"]), 30)
        self.assertEqual({section: names for section, names in whole.items() if section in core}, core)

    def test_it_knows_what_is_switched_off(self):
        self.core("check", *SMALL, "model=mlp", "++callbacks=[]", "++trainer.verify_shards=false", "++trainer.recompute=off")


if __name__ == "__main__":
    unittest.main()
