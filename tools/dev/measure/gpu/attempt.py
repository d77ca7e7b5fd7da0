"""A check as a process of its own, within its time: one that hangs, raises or crashes hides no other, and leaves nothing running.

    python3 -m measure.gpu.attempt CHECK FOLDER < {what measure.gpu.checks.context.Context is made from}
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import traceback

from measure.gpu.runs import Hung
from measure.process import kill_processes_with

MARK = "GPU_CHECK"  # in the environment of all that a check starts
DEV = pathlib.Path(__file__).resolve().parents[2]
ANSWER, LOG = "answer.json", "check.log"


@dataclasses.dataclass(frozen=True)
class Outcome:
    word: str  # PASS, FAIL or SKIP
    detail: str
    hung: bool = False


def attempt(name, folder, settings, seconds):
    """Returns the outcome of a check in a new folder."""
    command = [sys.executable, "-B", "-m", "measure.gpu.attempt", name, str(folder)]
    return run(command, folder, {**settings, "folder": str(folder), "seconds": seconds}, seconds)


def run(command, folder, settings, seconds):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    environment = {**os.environ, MARK: str(folder), "PYTHONPATH": str(DEV)}
    with open(folder / LOG, "wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                   start_new_session=True)  # fmt: skip
        try:
            process.communicate(json.dumps(settings).encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            return Outcome("FAIL", f"no end within {seconds:.0f} s{last_words(folder)}", hung=True)
        finally:
            kill_processes_with(MARK, folder)
            process.wait()
    try:
        return Outcome(**json.loads((folder / ANSWER).read_text()))
    except (OSError, ValueError):
        return Outcome("FAIL", f"it ended with {process.returncode}{last_words(folder)}")


def last_words(folder):
    lines = (folder / LOG).read_text(errors="replace").split("\n")
    text = " ".join(" ".join(lines[-8:]).split())
    return f": {text[-300:]}" if text else ""


def outcome_of(check, context):
    from measure.gpu.checks.context import Skip

    try:
        return Outcome("PASS", check(context))
    except Skip as reason:
        return Outcome("SKIP", str(reason))
    except Exception as error:  # whatever it is, the log has more
        traceback.print_exc()
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return Outcome("FAIL", f"{kind}{error}", isinstance(error, Hung))


def main():
    from measure.gpu.checks.context import Context
    from measure.gpu.plan import CHECKS

    name, folder = sys.argv[1:]
    outcome = outcome_of(CHECKS[name].run, Context(**json.load(sys.stdin)))
    pathlib.Path(folder, ANSWER).write_text(json.dumps(dataclasses.asdict(outcome)))


if __name__ == "__main__":
    main()
