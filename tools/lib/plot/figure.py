# SPDX-License-Identifier: MIT
"""Lays out figures for a column of a paper, for print, and for the colour-blind."""

from ddprun.errors import UserError

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9"]  # Okabe and Ito, without yellow
STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
SIZES = {"single": (3.5, 2.4), "double": (7.16, 2.6)}  # inches: a column, and both
MOST_MARKED = 25  # points of a line; more would hide it
SPLITS = {"train": "training", "val": "validation", "test": "test"}
AXES = {"step": "step", "epoch": "epoch", "samples": "training samples", "time": "time"}
TIMES = [("h", 3600, 3 * 3600), ("min", 60, 180), ("s", 1, 0)]  # unit, seconds, used from so many on


class Figure:
    """A figure with panels side by side, one for each quantity: train/loss and val/loss share one."""

    def __init__(self, pyplot, options):
        self.pyplot, self.options = pyplot, options
        pyplot.rcParams.update(style(options))

    def draw(self, series):
        quantities = list(dict.fromkeys(quantity(one.metric) for one in series))
        self.labels = list(dict.fromkeys(one.label for one in series))
        self.splits = told_apart(series)
        self.unit, self.seconds = self.time_unit(series)
        self.figure, axes = self.pyplot.subplots(
            1, len(quantities), figsize=self.options.size, squeeze=False, layout="constrained"
        )
        for panel, name in zip(axes[0], quantities):
            self.draw_panel(panel, [one for one in series if quantity(one.metric) == name])
        if self.options.title:
            self.figure.suptitle(self.options.title)
        self.add_legend(axes[0], max(len(one.x) for one in series))

    def time_unit(self, series):
        longest = max((x for one in series for x in one.x), default=0)
        return (
            next((unit, seconds) for unit, seconds, least in TIMES if longest >= least)
            if self.options.x == "time"
            else ("", 1)
        )

    def draw_panel(self, panel, series):
        for one in series:
            look = self.look(self.labels.index(one.label), split(one.metric)) | marker(
                self.labels.index(one.label), len(one.x)
            )
            x = [place / self.seconds for place in one.x]
            panel.plot(x, one.y, gid=f"{one.metric}: {one.label}", **look)
            if one.low and len(x) == 1:
                panel.vlines(x, one.low, one.high, color=look["color"])
            elif one.low:
                panel.fill_between(x, one.low, one.high, color=look["color"], alpha=0.2, linewidth=0)
        self.set_axes(panel, list(dict.fromkeys(one.metric for one in series)))

    def look(self, run, split_name):
        """Styles lines: runs differ in colour and line, or only in colour if lines tell splits apart. One run's splits
        differ in both.
        """
        place = self.splits.index(split_name) if self.splits else run + run // len(STYLES)
        colour = place if self.splits and len(self.labels) == 1 else run
        return {"color": COLOURS[colour % len(COLOURS)], "linestyle": STYLES[place % len(STYLES)]}

    def set_axes(self, panel, metrics):
        options = self.options
        if "x" in options.log:
            panel.set_xscale("log")
        if "y" in options.log:
            panel.set_yscale("log")
        unit = f" ({self.unit})" if self.unit else ""
        panel.set_xlabel(options.xlabel or AXES[options.x] + unit)
        panel.set_ylabel(options.ylabel or axis_text(metrics))
        if options.xlim:
            panel.set_xlim(options.xlim)
        if options.ylim:
            panel.set_ylim(options.ylim)
        if options.x in ("step", "samples") and "x" not in options.log:
            panel.xaxis.set_major_formatter(thousands)

    def add_legend(self, panels, points):
        lines = self.legend_lines(points)
        if self.options.legend == "none" or len(lines) < 2:
            return
        if len(panels) > 1 or self.options.legend == "above":
            columns = min(len(lines), max(1, int(self.options.size[0] / 1.7)))
            self.figure.legend(handles=lines, loc="outside upper center", ncols=columns)
        else:
            panels[0].legend(handles=lines, loc="best")

    def legend_lines(self, points):
        """Returns the legend's lines; if line styles tell the splits apart, colours and styles separately."""
        from matplotlib.lines import Line2D

        if not self.splits:
            return [
                Line2D([], [], label=label, **self.look(i, ""), **marker(i, points))
                for i, label in enumerate(self.labels)
            ]
        names = [Line2D([], [], label=SPLITS.get(name, name), **self.look(0, name)) for name in self.splits]
        if len(self.labels) == 1:
            return names
        for line in names:
            line.set_color("0.3")
        return [
            Line2D([], [], label=label, color=COLOURS[i % len(COLOURS)]) for i, label in enumerate(self.labels)
        ] + names

    def save(self):
        out = self.options.out
        dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # the same runs give the same file
        try:
            self.figure.savefig(out, dpi=self.options.dpi, metadata=dates.get(out.suffix.lower(), {}))
        except OSError as error:
            raise UserError(f"--out {out}: {error.strerror}") from None


def style(options):
    return {
        "axes.grid": True, "axes.linewidth": 0.6, "axes.spines.right": False, "axes.spines.top": False,
        "font.family": options.font, "font.size": options.font_size, "grid.alpha": 0.25, "grid.linewidth": 0.5,
        "legend.fontsize": options.font_size - 1, "legend.frameon": False, "legend.handlelength": 2.6,
        "lines.linewidth": 1.2,
        "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "ddprun",
    }  # fmt: skip


def marker(run, points):
    return {"marker": MARKERS[run % len(MARKERS)], "markersize": 3} if points <= MOST_MARKED else {}


def told_apart(series):
    """Returns the splits, if a panel shows a quantity of several: train/loss and val/loss."""
    metrics = dict.fromkeys(one.metric for one in series)
    quantities = {quantity(metric) for metric in metrics}
    return list(dict.fromkeys(map(split, metrics))) if len(quantities) < len(metrics) else []


def split(metric):
    return metric.partition("/")[0]


def quantity(metric):
    return metric.partition("/")[2]


def axis_text(metrics):
    words = quantity(metrics[0]).replace("_", " ")
    name = split(metrics[0])
    return words if len(metrics) > 1 or name == "system" else f"{SPLITS.get(name, name)} {words}"


def thousands(value, _):
    return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:g}"
