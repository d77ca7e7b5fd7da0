"""Figures of several runs, as medians with their spread, and tables of them."""

import statistics


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "values": list(values)}


def show(values, digits=0, scale=1.0, unit=""):
    """ "2,137 (2,098 .. 2,201)": median, least and most."""
    numbers = [f"{value * scale:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
    return f"{numbers[0]}{unit} ({numbers[1]} .. {numbers[2]})"


def ratios(ours, theirs):
    """Pair by pair: both runs of a pair met the same machine."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
