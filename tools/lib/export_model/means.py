# SPDX-License-Identifier: MIT
"""What the results of a batch are means over: its samples, or those of its targets that count. ddprun joins those of workers and
micro-batches by it, so that a training does not depend on how its batches are divided."""

import torch
from export_model.inputs import examples
from export_model.programs import quiet

IGNORED = -100
BATCH, SEED = 4, 5  # even: halves are compared
CLOSE, EQUAL = 1e-4, 1e-6  # of the whole: what may be a mean, and of several what is none the worse


def means_of(module, names, inputs, target):
    """Returns [over] of the results: None for the samples, 0 for the targets that are not -100, 1 for those after the first (nobody
    predicts a sentence's first symbol); and {name: why} of those of which that is not known, which are taken for means over samples.
    `target` is an input's name, or None."""
    mode = module.training
    module.eval()
    try:
        plain = Halves(module, examples(inputs, BATCH, SEED), None)
        ignoring = halves_with_ignored(module, inputs, target)
    finally:
        module.train(mode)
    means, unknown = [], {}
    for number, name in enumerate(names):
        fitting = fitting_means(number, plain, ignoring)
        means.append(fitting[0] if fitting else None)
        if plain.is_random(number):
            unknown[name] = "it draws random numbers"
        elif not fitting:
            unknown[name] = f"that of a batch{with_which(number, plain)} is not the mean of those of its halves"
    return means, unknown


def with_which(number, plain):
    return f" with targets of {IGNORED}" if plain.distance(number, (1, 1)) <= CLOSE else ""


def fitting_means(number, plain, ignoring):
    """Returns what it may be the mean over. Losses of a network that has learnt nothing differ little: the best one is meant."""
    if plain.distance(number, (1, 1)) > CLOSE:
        return []
    if ignoring is None:
        return [None]
    found = {over: ignoring.distance(number, counts) for over, counts in ({None: (1, 1)} | ignoring.counts).items() if sum(counts) > 0}
    least = min(found.values())
    return [over for over, distance in found.items() if least <= CLOSE and distance <= least + EQUAL]


class Halves:
    """The results of a batch, of the same with other random numbers, and of its halves; how many targets count in these."""

    def __init__(self, module, given, target):
        whole, size = slice(0, BATCH), BATCH // 2
        self.whole, self.again = results_of(module, given, whole, SEED), results_of(module, given, whole, SEED + 1)
        self.halves = [results_of(module, given, part, SEED) for part in (slice(0, size), slice(size, BATCH))]
        self.counts = {}
        if target is not None:
            self.counts[0] = counted_in(target)
            if target.dim() == 2:
                self.counts[1] = counted_in(target[:, 1:])

    def is_random(self, number):
        return not torch.equal(self.whole[number].nan_to_num(), self.again[number].nan_to_num())

    def distance(self, number, counts):
        """Returns how far the whole is from the mean of the halves with these weights, as a part of it."""
        whole, *halves = (values[number].double() for values in (self.whole, *self.halves))
        if all(one.isnan() for one in (whole, *halves)):
            return 0.0
        difference = whole - sum(half * count for half, count in zip(halves, counts)) / sum(counts)
        return (difference.abs() / whole.abs().clamp(min=1e-2)).nan_to_num(float("inf")).item()


def results_of(module, given, part, seed):
    torch.manual_seed(seed)
    with torch.no_grad(), quiet():
        found = module(**{name: value[part] for name, value in given.items()})
    return found if isinstance(found, (tuple, list)) else [found]


def counted_in(target):
    return tuple(int((half != IGNORED).sum()) for half in target.chunk(2))


def halves_with_ignored(module, inputs, target):
    """Returns None if all targets count: for a class of a whole sample, which cannot be ignored, or where the module takes no -100."""
    if not any(one.name == target and one.type == "int64" and one.sizes for one in inputs):
        return None
    given = examples(inputs, BATCH, SEED)
    given[target] = with_ignored(given[target])
    try:
        return Halves(module, given, given[target])
    except Exception:
        return None


def with_ignored(target):
    """The last targets of the second half are not to count: of its samples two or three are left; of few ones the last sample's last."""
    flat = target.clone().view(BATCH, -1)
    if flat.shape[1] < 4:
        flat[-1, -1] = IGNORED
    else:
        flat[-2, 2:] = flat[-1, 3:] = IGNORED
    return flat.view(target.shape)
