# SPDX-License-Identifier: MIT
"""Writes best.yaml: the best trial as an experiment file, from the config.yaml of its run."""

import yaml

from ddprun.config import read_config
from sweep.study import State, run_path, trial_name
from tooling.durable import write_file


def best_trial(study):
    """Returns None if no trial was trained to the end."""
    done = [one for one in study.trials() if one.state == State.COMPLETE]
    better = max if study.sweep.metric.maximize else min
    return (
        better(done, key=lambda one: (one.value, -one.number) if better is max else (one.value, one.number))
        if done
        else None
    )


def write_best(study, trial):
    """Returns its path; None if the run is not on this machine."""
    config = run_path(trial) / "config.yaml"
    if not config.is_file():
        return None
    file = study.folder / "best.yaml"
    experiment = read_config(config)
    experiment.pop("run", None)  # its folder is its own
    result = f"{trial_name(trial.number)}, {study.sweep.metric.name} {trial.value:.6g}"
    about = [f"The best of the sweep {study.name}: {result}.", *(f"  {word}" for word in trial.user_attrs["overrides"])]
    comment = "".join(f"# {line}\n" for text in about for line in text.splitlines())
    write_file(file, comment + yaml.safe_dump(experiment, sort_keys=False, allow_unicode=True))
    return file
