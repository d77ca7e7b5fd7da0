"""Table: the operators of a step that are the runner's own: neither the model's, nor its loss's, nor the optimizer's.

They are counted in a trace of a step on the CPU: on a GPU each is a kernel or more, which a short step notices. What is composed of
several counts as those; one call for many tensors counts as one, since its kernels do not grow with the tensors."""

import collections
import json
import pathlib
import tempfile

from suite import process, report

TITLE = "The runner's own operators in a step"
NETWORKS = {"convnet": ["model=convnet"], "wide_resnet": ["model=wide_resnet", "model.depth=16", "model.widen_factor=1"]}
SMALL = ["loggers=[]", "trainer.global_batch=32", "trainer.sanity_batches=0", "dataset.train_size=1280", "dataset.val_size=64",
         "dataset.test_size=64", "launch.threads=1"]  # fmt: skip
STEP = 20  # which is traced: none of the first, and none that logs
NO_WORK = {"detach", "alias", "view", "_unsafe_view", "reshape", "as_strided", "select", "slice", "narrow", "unbind", "expand",
           "squeeze", "unsqueeze", "t", "transpose", "permute", "flatten", "empty", "empty_like", "empty_strided", "resize_",
           "resolve_conj"}  # fmt: skip
COMPOSED = {"isfinite", "stack", "to", "_to_copy"}
LOSSES = ("cross_entropy_loss", "div")  # the loss ends with these, the second the mean over the samples


def measure(options):
    sides = {"before": options.before, "now": options.program} if options.before else {"now": options.program}
    counts = {(network, side): own_operators(program, words, options.timeout)
              for network, words in NETWORKS.items() for side, program in sides.items()}
    return f"{in_words()}\n\n{table(counts)}", {f"{network} {side}": count for (network, side), count in counts.items()}


def in_words():
    return "One worker on the CPU, fp32, on digits: operators of one step by where the runner asks for them."


def own_operators(program, words, timeout):
    """{phase: operators}, of one traced step."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        run_dir = pathlib.Path(folder) / "run"
        traced = f"+profile={{steps: {STEP}..{STEP + 1}}}"
        command = [program, "experiments/digits.yaml", *words, *SMALL, f"trainer.max_steps={STEP + 2}", traced, f"run.dir={run_dir}"]
        process.run(command, {}, folder, timeout)
        trace = json.loads(next((run_dir / "profile").glob("rank_0_*.json")).read_text())
    return count(trace["traceEvents"])


class Call:
    """One event of the trace with those within."""

    def __init__(self, event, parent):
        self.name, self.end = event["name"].removeprefix("aten::"), event["ts"] + event["dur"]
        self.is_range = event["cat"] == "user_annotation"
        self.is_node = "autograd::" in self.name or self.name.endswith("Backward0") or self.name.endswith("Backward1")
        self.parent, self.calls = parent, []

    def operators(self):
        """How many that compute it is made of."""
        if self.is_node or self.name in COMPOSED:
            return sum(call.operators() for call in self.calls)
        return 0 if self.name in NO_WORK else 1


def phases(events):
    """The ranges of one step, from one `data` to the next, in their order."""
    shown = [event for event in events if event.get("cat") in ("cpu_op", "user_annotation") and event.get("ph") == "X"]
    shown.sort(key=lambda event: (event["ts"], -event["dur"]))
    began = [event["ts"] for event in shown if event["cat"] == "user_annotation" and event["name"] == "data"]
    ranges, inner = [], None
    for event in shown:
        if not began[0] <= event["ts"] < began[1]:
            continue
        while inner and event["ts"] >= inner.end:
            inner = inner.parent
        call = Call(event, inner)
        (inner.calls if inner else ranges).append(call)
        inner = call
    return [call for call in ranges if call.is_range]


def count(events):
    own = collections.Counter()
    for phase in phases(events):
        if phase.name == "forward":
            names = [call.name for call in phase.calls]
            after = max(index for index, name in enumerate(names) if name == LOSSES[0])
            own["metrics, marks"] += operators(phase.calls[names.index(LOSSES[1], after) + 1 :])
        elif phase.name == "backward":
            own["gradients added up"] += operators(call for call in phase.calls if "AccumulateGrad" in call.name)
        elif phase.name == "optimizer":
            own["norm, finiteness, zeroing"] += operators(call for call in phase.calls if not call.name.startswith("_fused_"))
        elif phase.name != "data":
            own["metrics, marks"] += operators(phase.calls)
    return dict(own)


def operators(calls):
    return sum(call.operators() for call in calls)


def table(counts):
    parts = list(dict.fromkeys(part for count in counts.values() for part in count))
    rows = [[network, side, *(str(count.get(part, 0)) for part in parts), str(sum(count.values()))]
            for (network, side), count in counts.items()]
    return report.markdown(["network", "program", *parts, "together"], rows)
