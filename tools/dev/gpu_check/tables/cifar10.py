"""CIFAR-10 in seconds, beside airbench94: the whole command, so that the clock starts for both when the user presses Enter."""

import json
import statistics

from gpu_check.rounds import Side, alternate
from gpu_check.standing import BENCH
from gpu_check.table import Table, Target, figures_of
from gpu_check.trainings import Job, Measured
from suite import cifar10_data, process, report

EPOCHS = 9.9  # of airbench94
TEST_IMAGES = 10_000


class Cifar10:
    name, weight, least, needs = "cifar10", 10, 25, ""

    def measure(self, bench, share):
        folder = bench.folder / "cifar10"
        folder.mkdir()
        real = cifar10_data.lay_out(folder, bench.sizes.cifar10_records)
        sides = [Side("ddprun", lambda seconds: bench.trainer.train(job_of(bench, folder), seconds))]
        absent = why_not(bench)
        if not absent:
            prepare(bench, folder, share)
            sides.append(Side("airbench94", lambda seconds: airbench94(bench, folder, seconds)))
        rounds = alternate(sides, share, bench.wanted)
        if absent:
            rounds.absent["airbench94"] = absent
        targets = list(targets_of(rounds))
        text = f"{in_words(real)} {rounds.in_words()}\n\n{table(rounds, real)}\n\n{factors_table(targets)}".rstrip()
        figures = {**figures_of(rounds), "real_images": real}
        return Table("CIFAR-10 beside airbench94", text, figures, rounds, targets)


def why_not(bench):
    if bench.device != "cuda":
        return "airbench trains on GPUs alone"
    if bench.sizes.speedrun:
        return "this is a rehearsal: airbench's convolutions in fp16 would take a CPU minutes"
    if not bench.versions.get("airbench"):
        return "the package airbench is not installed for this Python: tools/dev/bench/requirements.txt has it, and a folder made by --pack"
    if not bench.has_torchvision:
        return "the package airbench needs torchvision, which is not installed"
    return ""


def job_of(bench, folder):
    steps, warm_up, batch = (4, 2, 50) if bench.sizes.speedrun else (200, 100, 2000)
    return Job(batch, steps, warm_up, "cifar10_speedrun", (f"dataset.root={folder}", *bench.sizes.speedrun))


def command(bench, folder, *words):
    return [bench.python, BENCH / "cifar_peers/airbench94.py", f"--data={folder}", *words]


def prepare(bench, folder, share):
    run(bench, command(bench, folder, "--prepare"), share.timeout(60))


def airbench94(bench, folder, seconds):
    answer = folder / "airbench94.json"
    answer.unlink(missing_ok=True)
    finished = run(bench, command(bench, folder, f"--json={answer}"), seconds)
    found = json.loads(answer.read_text())
    return Measured(
        images_per_second=EPOCHS * 5 * bench.sizes.cifar10_records / found["train_seconds"],
        losses={},
        seconds=finished.seconds,
        test_correct=round(found["accuracy"] * TEST_IMAGES),
        test_total=TEST_IMAGES,
        summary=found,
    )


def run(bench, words, seconds):
    return process.run(list(map(str, words)), bench.peer_environment, bench.folder, seconds)


def targets_of(rounds):
    if {"ddprun", "airbench94"} - rounds.results.keys():
        return
    ours, theirs = ([result.seconds for result in rounds.results[name]] for name in ("ddprun", "airbench94"))
    yield Target("airbench94's whole command over ddprun's, seconds", report.ratios(theirs, ours), 1.0)


def in_words(real):
    images = "" if real else (
        f"CIFAR-10 is not here ($DDPRUN_DATA/cifar10/{cifar10_data.ARCHIVE}, or unpacked): both sides train on RANDOM images of the "
        "same number and size, so only the time means something. "
    )  # fmt: skip
    return (
        f"{images}ddprun: experiments/cifar10_speedrun.yaml, 8 epochs with Muon; airbench94: the package's own 9.9 epochs with SGD, "
        "after a warm-up of a step as its README has it. Each is a recipe to 94 %. Whole command: from its start to its end, with the "
        "test images; ddprun's also writes a checkpoint. Training: ddprun's train_seconds from the first step on, with its choice of "
        "algorithms; airbench94's by its own rule, after loading and warm-up, with the evaluation."
    )


def table(rounds, real):
    rows = []
    for name, results in rounds.results.items():
        whole = report.show([result.seconds for result in results], 2)
        training = report.show([result.summary["train_seconds"] for result in results], 2)
        accuracy = statistics.median(100 * result.test_correct / max(1, result.test_total) for result in results)
        rows.append([name, whole, training, f"{accuracy:.2f}" if real else ""])
    return report.markdown(["", "whole command, s", "training, s", "test accuracy, %"], rows)


def factors_table(targets):
    rows = [[target.what, report.show(target.values, 2), target.in_words()] for target in targets]
    return report.markdown(["", "factor", "target"], rows) if rows else ""
