# SPDX-License-Identifier: MIT
"""Draws charts of a study as SVG; colours and fonts are the page's."""

import html
import math

from sweep.study import State, trial_name
from sweep.table import number_text, value_text

WIDTH, HEIGHT, MARGIN = 760, 320, 56
FEW = 6  # ticks of an axis
APART = 0.08  # of an axis, where their texts do not touch


class Axis:
    """Maps a parameter's or metric's values to 0 .. 1."""

    def __init__(self, values, log=False):
        self.names = None
        if not all(is_number(value) for value in values):
            self.names = list(dict.fromkeys(value_text(value) for value in values))
            return
        self.log = log and min(values) > 0
        self.values = sorted(set(values))
        self.low, self.high = self.scale(min(values)), self.scale(max(values))

    def scale(self, value):
        return math.log10(value) if self.log else value

    def place(self, value):
        if self.names:
            return self.names.index(value_text(value)) / (len(self.names) - 1) if len(self.names) > 1 else 0.5
        return (self.scale(value) - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def ticks(self):
        """Returns [(place, text)]."""
        if self.names:
            return [(self.place(name), name) for name in self.names]
        return [(self.place(value), number_text(value)) for value in self.marks()]

    def marks(self):
        """Returns the values themselves if they are few and far apart, otherwise round numbers among them."""
        places = [self.place(value) for value in self.values]
        if len(places) <= FEW and all(b - a >= APART for a, b in zip(places, places[1:])):
            return self.values
        low, high = self.unscale(self.low), self.unscale(self.high)
        if self.log and high / low > 30:
            decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
            return [10.0**power for power in decades]
        step = 10 ** math.floor(math.log10((high - low) / 2))
        step *= next(times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= FEW)
        return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]

    def unscale(self, value):
        return 10**value if self.log else value


def history(study, trials):
    """Draws each trial's value in the order of their numbers, and the best so far."""
    points = [one for one in trials if one.value is not None and math.isfinite(one.value)]
    if not points:
        return ""
    metric = study.sweep.metric
    across, up = Axis([one.number for one in points]), Axis([one.value for one in points])
    shapes = grid(up) + [text(WIDTH / 2, HEIGHT - 8, "trial", "middle")]
    for place, number in across.ticks():
        shapes.append(text(x_of(place), HEIGHT - MARGIN / 2 - 4, number, "middle"))
    best, path = None, []
    for one in (one for one in points if one.state == State.COMPLETE):
        best = one.value if best is None else metric.better([best, one.value])
        x, y = x_of(across.place(one.number)), y_of(up.place(best))
        path += [f"{x:.1f},{path[-1].partition(',')[2]}"] if path else []
        path.append(f"{x:.1f},{y:.1f}")
    shapes.append(f'<polyline class="best" points="{" ".join(path)}"/>')
    for one in points:
        kind = "pruned" if one.state == State.PRUNED else "done"
        x, y = x_of(across.place(one.number)), y_of(up.place(one.value))
        shapes.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">{hover(study, one)}</circle>')
    return svg(shapes, f"{metric.name} of each trial")


def parallel(study, trials):
    """Draws a line for each trial through its parameters to its value; the better, the darker."""
    points = [one for one in trials if one.state in (State.COMPLETE, State.PRUNED) and one.value is not None]
    parameters = study.sweep.searched
    if not points or not parameters:
        return ""
    axes = [Axis([one.params[p.path] for one in points], getattr(p.space, "log", False)) for p in parameters]
    axes.append(Axis([one.value for one in points]))
    names = [p.path for p in parameters] + [study.sweep.metric.name]
    places = [MARGIN + (WIDTH - 2 * MARGIN) * i / (len(axes) - 1) for i in range(len(axes))]
    shapes = []
    for one in sorted(points, key=lambda one: one.value, reverse=not study.sweep.metric.maximize):
        values = [one.params[p.path] for p in parameters] + [one.value]
        line = " ".join(f"{x:.1f},{y_of(axis.place(value)):.1f}" for x, axis, value in zip(places, axes, values))
        merit = axes[-1].place(one.value)
        merit = merit if study.sweep.metric.maximize else 1 - merit
        kind = "pruned" if one.state == State.PRUNED else "done"
        shapes.append(f'<polyline class="trial {kind}" style="opacity:{0.15 + 0.85 * merit:.2f}" points="{line}">'
                      f"{hover(study, one)}</polyline>")  # fmt: skip
    for x, axis, name in zip(places, axes, names):
        shapes.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y_of(1):.1f}" y2="{y_of(0):.1f}"/>')
        shapes.append(text(x, 24, name, "middle", "name"))
        shapes += [text(x + 6, y_of(place) + 4, label) for place, label in axis.ticks()]
    return svg(shapes, "Parameters and result of each trial")


def importance(shares):
    if not shares:
        return ""
    height = 30 * len(shares) + 20
    longest = max(shares.values()) or 1
    shapes = []
    for i, (path, share) in enumerate(shares.items()):
        y = 20 + 30 * i
        width = (WIDTH - 330) * share / longest
        shapes.append(text(240, y + 13, path, "end"))
        shapes.append(f'<rect class="bar" x="250" y="{y}" width="{width:.1f}" height="18"/>')
        shapes.append(text(256 + width, y + 13, f"{share:.0%}"))
    return svg(shapes, "Importance of the parameters", height)


def grid(axis):
    shapes = []
    for place, name in axis.ticks():
        y = y_of(place)
        shapes.append(f'<line class="grid" x1="{MARGIN}" x2="{WIDTH - MARGIN / 2}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(text(MARGIN - 6, y + 4, name, "end"))
    return shapes


def x_of(place):
    return MARGIN + 8 + (WIDTH - 1.5 * MARGIN - 16) * place


def y_of(place):
    return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * place


def hover(study, trial):
    words = [f"{path} = {value_text(value)}" for path, value in trial.params.items()]
    head = f"{trial_name(trial.number)}: {study.sweep.metric.name} {number_text(trial.value)}"
    return f"<title>{html.escape(chr(10).join([head, *words]))}</title>"


def text(x, y, words, anchor="start", kind="label"):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def svg(shapes, label, height=HEIGHT):
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}">{"".join(shapes)}</svg>'


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
