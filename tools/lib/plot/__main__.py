#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws curves of runs for a paper: tools/plot outputs/mnist/* --metric val/accuracy --out accuracy.pdf"""

import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True

from tooling.place import command  # noqa: E402
from tooling.start import run_tool  # noqa: E402
from ddprun import UserError, run  # noqa: E402
from ddprun.curves import Curves  # noqa: E402
from plot.figure import SIZES, Figure  # noqa: E402
from plot.labels import label_runs, same_but_seed  # noqa: E402
from plot.series import Series, mean_of, smoothed  # noqa: E402

SUFFIXES = (".pdf", ".png", ".svg")


def parse_arguments():
    parser = argparse.ArgumentParser(prog=command("plot"), description=__doc__)
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="folder of one or several runs")
    add(
        "--metric",
        action="append",
        required=True,
        metavar="M",
        help="val/accuracy; may be repeated: each quantity gets a panel",
    )
    add("--out", type=figure_file, required=True, metavar="FILE", help="figure.pdf, .svg or .png")
    add(
        "--x",
        choices=["step", "epoch", "samples", "time"],
        default="step",
        help="time: training time since the first row",
    )
    add(
        "--label",
        type=lambda text: text.split(","),
        metavar="KEY,...",
        help="settings that name a run, such as optimizer.lr (default: what differs)",
    )
    add("--names", type=lambda text: text.split(","), metavar="A,B,...", help="names for the legend, in its order")
    add("--group", action="store_true", help="show the mean of runs that differ only in the seed, with a band")
    add(
        "--band",
        choices=["std", "sem", "range"],
        default="std",
        help="standard deviation, standard error of the mean, or all",
    )
    add(
        "--smooth",
        type=fraction,
        default=0,
        metavar="W",
        help="exponential moving average with this weight of earlier values, 0 to 1",
    )
    add("--log", choices=["x", "y", "xy"], default="", help="logarithmic axes")
    add("--xlim", type=limits, metavar="A,B", help="--xlim=0,100")
    add("--ylim", type=limits, metavar="A,B")
    add("--xlabel")
    add("--ylabel")
    add("--title")
    add("--legend", choices=["inside", "above", "none"], default="inside")
    add(
        "--size", type=inches, default=SIZES["single"], metavar="S", help="single or double (columns), or WxH in inches"
    )
    add("--font", default="sans-serif", help="family, as matplotlib knows it: serif")
    add("--font-size", type=float, default=8, metavar="PT")
    add("--dpi", type=int, default=300, help="resolution of a .png")
    return parser.parse_args()


def figure_file(text):
    path = pathlib.Path(text)
    if path.suffix.lower() not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text}: the name must end with one of {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path


def fraction(text):
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be from 0 to less than 1")
    return value


def limits(text):
    low, high = map(float, text.split(","))
    return low, high


def inches(text):
    if text in SIZES:
        return SIZES[text]
    found = re.fullmatch(r"([\d.]+)x([\d.]+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: must be {', '.join(SIZES)}, or inches as 3.5x2.4")
    return float(found[1]), float(found[2])


def find_runs(words):
    """Returns each run once, however it is named: latest is a link."""
    found = {}
    for word in map(pathlib.Path, words):
        inside = (
            sorted(file.parent for file in word.glob("*/config.yaml")) if not (word / "config.yaml").exists() else []
        )
        for one in map(run, inside or [word]):
            found.setdefault(one.path, one)
    return list(found.values())


def import_pyplot():
    try:
        import matplotlib
    except ImportError as error:
        raise UserError(f"{error}: pip install matplotlib, for {sys.executable}") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def make_series(runs, options):
    """Returns the lines of the figure: for each metric one per run, or one per group of runs."""
    curves = [Curves(one) for one in runs]
    groups = {}
    for one in curves:
        groups.setdefault(same_but_seed(one.run) if options.group else one.run.path, []).append(one)
    labels = options.names or label_runs([group[0].run for group in groups.values()], options.label)
    if len(labels) != len(groups):
        raise UserError(f"--names: {len(labels)} for {len(groups)} lines")
    return [
        make_line(group, metric, label, options)
        for metric in options.metric
        for group, label in zip(groups.values(), labels)
    ]


def make_line(group, metric, label, options):
    lines = [(x, smoothed(y, options.smooth)) for x, y in (one.curve(metric, options.x) for one in group)]
    if len(lines) > 1:
        return mean_of(lines, metric, label, options.x, options.band)
    return Series(metric, label, *lines[0])


def main():
    options = parse_arguments()
    series = make_series(find_runs(options.runs), options)
    figure = Figure(import_pyplot(), options)
    figure.draw(series)
    figure.save()


if __name__ == "__main__":
    run_tool(main, "plot")
