# SPDX-License-Identifier: MIT
import difflib
import math

from ddprun.errors import UserError
from ddprun.rows import metric_names, number


class Curves:
    """A run's metrics as curves: for each metric the places and the values."""

    def __init__(self, run):
        self.run = run
        self.rows = run.rows()
        self.metrics = {f"{row['split']}/{name}" for row in self.rows for name in metric_names(row)}
        self.clock = training_clock(self.rows)
        self.steps_per_epoch = self.find_steps_per_epoch()

    def find_steps_per_epoch(self):
        """Returns the steps of an epoch: from the run's summary, or else the fewest that fit the rows, exact from the
        end of the first epoch on.
        """
        summary = self.run.summary
        if summary.get("steps") and summary.get("epochs"):
            return summary["steps"] / summary["epochs"]
        return max((math.ceil(row["step"] / row["epoch"]) for row in self.rows if row.get("epoch")), default=1) or 1

    def require(self, metric):
        if metric not in self.metrics:
            near = difflib.get_close_matches(metric, self.metrics, n=1, cutoff=0.5)
            hint = f" did you mean {near[0]}?" if near else ""
            known = (
                ", ".join(sorted(self.metrics))
                or "none, for its metrics.jsonl is empty or not there (loggers: [jsonl])"
            )
            raise UserError(f"{self.run.path}: there is no metric {metric};{hint} known: {known}")

    def curve(self, metric, axis):
        """Returns ([x...], [y...]); a value that was not finite is NaN."""
        self.require(metric)
        split, _, name = metric.partition("/")
        points = [
            (self.place(row, axis), number(row[name])) for row in self.rows if row["split"] == split and name in row
        ]
        return tuple(map(list, zip(*points)))

    def place(self, row, axis):
        if axis == "epoch":
            return row["step"] / self.steps_per_epoch
        return self.clock[id(row)] if axis == "time" else row[axis]


def goal_of(config):
    """Returns the experiment's criterion for the best checkpoint, and whether more of it is better."""

    def value(section, key, default):
        found = config.get(section)
        return found.get(key, default) if isinstance(found, dict) else default

    objective = value("objective", "name", config.get("objective"))
    metric = str(value("checkpoint", "monitor", "val/loss" if objective in ("mse", "l1") else "val/accuracy"))
    mode = value("checkpoint", "mode", "min" if metric.endswith(("loss", "perplexity")) else "max")
    return metric, mode == "max"


def best_of(rows, metric, maximize):
    """Returns all that was measured with the best value of the metric, which comes first; of equal ones that with the
    lower loss, then the earlier one. Empty if it was not measured.
    """
    split, _, name = metric.partition("/")
    measured = [row for row in rows if row["split"] == split and math.isfinite(number(row.get(name)))]
    if not measured:
        return {}

    def merit(row):
        loss = number(row.get("loss"))
        return (row[name] if maximize else -row[name]), -loss if math.isfinite(loss) else -math.inf

    best = max(measured, key=merit)
    return {f"{split}/{one}": number(best[one]) for one in sorted(metric_names(best), key=lambda one: one != name)}


def training_clock(rows):
    """Returns {id of the row: seconds since the first}, without the time from an attempt's last row to the next one's
    first. Rows are in the order in which they were written; if the clock was set back between two, no time has
    passed.
    """
    clock = {}
    elapsed, before = 0, None
    for row in rows:
        if before is not None and before.get("attempt") == row.get("attempt"):
            elapsed += max(row["time"] - before["time"], 0)
        clock[id(row)] = elapsed
        before = row
    return clock
