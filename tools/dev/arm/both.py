# SPDX-License-Identifier: MIT
"""both.py HERE ARM EMULATED: trains the same on this machine and on ARM, with checkpoints that change between them, and compares the losses."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk/python"))

from ddprun import Run  # noqa: E402

here, arm, emulated = (pathlib.Path(word).absolute() for word in sys.argv[1:])
PROGRAMS = {"x86-64": [here], "ARM": [emulated, arm]}
WORDS = ["experiments/digits.yaml", "model=mlp", "model.hidden=16", "dataset.train_size=200", "dataset.val_size=50", "dataset.test_size=50",
         "trainer.global_batch=20", "trainer.log_every=1", "launch.device=cpu", "launch.threads=1", "~early_stopping"]  # fmt: skip
STEPS = 12
NEAR = 1e-5  # of a loss: processors multiply and add at once, or do not


def run_on(machine, *words, cwd):
    ended = subprocess.run([*PROGRAMS[machine], *words], cwd=cwd, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"ddprun {' '.join(map(str, words))} on {machine} ended with {ended.returncode}:\n{ended.stderr}")


def losses(run):
    """Of each step, and of the evaluation at the end: a run that ended between has one more there."""
    rows = [row for row in Run(run).metrics() if "loss" in row]
    return {(row["split"], row["step"]): row["loss"] for row in rows if row["split"] == "train" or row["step"] == STEPS}


def compare(what, run, other):
    mine, others = losses(run), losses(other)
    if mine.keys() != others.keys() or len(mine) < 10:
        sys.exit(f"{what}: the rows are not the same: {sorted(mine)} and {sorted(others)}")
    far = {key: (mine[key], others[key]) for key in mine if abs(mine[key] - others[key]) > NEAR * abs(others[key])}
    if far:
        sys.exit(f"{what}: {len(far)} of {len(mine)} losses differ by more than {NEAR}: {far}")
    print(f"  {what}: {sum(mine[key] == others[key] for key in mine)} of {len(mine)} losses have the same bits, the others agree within {NEAR}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for machine in PROGRAMS:
            for workers in (1, 2):
                run_on(machine, *WORDS, f"trainer.max_steps={STEPS}", f"launch.workers={workers}", f"run.dir={machine}{workers}", cwd=folder)
        for workers in (1, 2):
            compare(f"{workers} worker{'s'[: workers - 1]}", folder / f"ARM{workers}", folder / f"x86-64{workers}")
        for first, second in (("x86-64", "ARM"), ("ARM", "x86-64")):
            run_on(first, *WORDS, "trainer.max_steps=6", f"run.dir=from_{first}", cwd=folder)
            run_on(second, "resume", f"from_{first}", f"trainer.max_steps={STEPS}", cwd=folder)
            compare(f"{first} to step 6, then {second}", folder / f"from_{first}", folder / "x86-641")


if __name__ == "__main__":
    main()
