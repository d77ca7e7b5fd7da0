"""The study as Optuna's guides write it: an objective, in this process or as a script of its own for each trial."""

import argparse
import pathlib
import subprocess
import sys

import optuna

SCRIPT = pathlib.Path(__file__).with_name("step.py")


def train_here(data, lr, momentum):
    import step  # and torch, once for all trials

    return step.train(data, lr, momentum)


def train_apart(data, lr, momentum):
    command = [sys.executable, SCRIPT, "--data", data, f"--lr={lr}", f"--momentum={momentum}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--trials", type=int, required=True, help="of the study in all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--apart", action="store_true", help="a process for each trial")
    options = parser.parse_args()
    train = train_apart if options.apart else train_here

    def objective(trial):
        lr = trial.suggest_float("lr", 1e-3, 0.3, log=True)
        return train(options.data, lr, trial.suggest_float("momentum", 0, 0.95))

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="bench", storage=options.storage, load_if_exists=True)
    study.optimize(objective, n_trials=options.trials - len(study.trials), n_jobs=options.jobs)


if __name__ == "__main__":
    main()
