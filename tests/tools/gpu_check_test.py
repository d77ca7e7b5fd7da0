# SPDX-License-Identifier: MIT
"""How tools/gpu_check goes through its checks: nothing that one of them does hides another, and what it carries is complete."""

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/dev"))

from measure.gpu import program, session  # noqa: E402
from measure.gpu.__main__ import parse_arguments  # noqa: E402
from measure.gpu.checks import bits, context, machine  # noqa: E402
from measure.gpu.plan import CHECKS, NCCL, Check  # noqa: E402
from measure.gpu.results import Results  # noqa: E402
from measure.gpu.session import MARK, TABLES, Outcome  # noqa: E402
from measure.process import processes_with  # noqa: E402


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        file.chmod(0o755)
        return file


class PlanTest(unittest.TestCase):
    def test_what_a_check_comes_after_is_before_it(self):
        names = list(CHECKS)
        for check in CHECKS.values():
            self.assertIn(check.after, ["", *names[: names.index(check.name)]])

    def test_the_page_on_benchmarks_names_every_check_and_table(self):
        page = (ROOT / "docs/benchmarks.md").read_text()
        self.assertEqual([name for name in [*CHECKS, *TABLES] if f"`{name}`" not in page], [])


# A program that starts another one in a session of its own, which nobody waits for, and does not end.
HANGS = """
    import subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    print("it continues and on", flush=True)
    time.sleep(1000)
"""


class AttemptTest(FolderTest):
    def test_a_check_whose_run_hangs_fails_with_its_words_and_all_that_it_started_is_killed(self):
        options = parse_arguments(["--rehearse", f"--program={self.script('made/bin/ddprun', HANGS)}"])
        one = session.Session(options, [], self.folder, None)
        one._program = program.find(options, self.folder)
        hanging = Check(lambda made: made.train("run", []), 60)
        with mock.patch("traceback.print_exc"):
            outcome, _, _ = one.attempt(hanging, context.LAST_SECONDS + 2)
        self.assertEqual((outcome.word, outcome.hung), ("FAIL", True))
        self.assertIn("it continues and on", outcome.detail)
        self.assertEqual(processes_with(MARK, self.folder / hanging.name), [])


class SessionTest(FolderTest):
    """With made checks, which take so long by a stand-in clock: {name: (seconds, Outcome)}; others pass at once."""

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.takes = {}
        self.begun = []
        self.saved = []  # what was in results.json when each began
        for patch in (mock.patch.object(session.Session, "attempt", self.attempt), mock.patch("builtins.print")):
            patch.start()
            self.addCleanup(patch.stop)

    def attempt(self, check, seconds):
        name = check.name
        self.begun.append(name)
        results = self.folder / "kept/results.json"
        self.saved.append([row["name"] for row in json.loads(results.read_text())["results"]] if results.exists() else [])
        (self.folder / name).mkdir(parents=True)
        (self.folder / name / "run.txt").write_text(f"the log of {name}\n")
        (self.folder / name / "model.safetensors").write_text("")
        takes, outcome = self.takes.get(name, (0, Outcome("PASS", "seen")))
        self.now += min(takes, seconds)
        outcome = outcome if takes <= seconds else Outcome("FAIL", "no end", hung=True)
        return outcome, seconds, takes

    def run_session(self, *words):
        options = parse_arguments(["--rehearse", f"--keep={self.folder / 'kept'}", "--at-once=1", *words])
        session.Session(options, [], self.folder, Results(options), lambda: self.now).run()
        rows = json.loads((self.folder / "kept/results.json").read_text())["results"]
        return {row["name"]: (row["outcome"], row["detail"]) for row in rows}

    def test_failures_hide_no_other_check_and_results_are_saved_after_each(self):
        self.takes = {"backend_loads": (1, Outcome("FAIL", "broken")), "gpu_tests": (10_000, None)}
        rows = self.run_session("--program=x", "--part=1")
        self.assertEqual(self.begun, list(CHECKS))
        self.assertEqual([row[0] for row in rows.values()], ["FAIL", "FAIL", *["PASS"] * (len(rows) - 2)])
        self.assertEqual(self.saved, [self.begun[:number] for number in range(len(self.begun))])
        with tarfile.open(self.folder / "kept/failures.tar.gz") as logs:
            self.assertEqual(logs.getnames(), ["backend_loads", "backend_loads/run.txt", "gpu_tests", "gpu_tests/run.txt"])
            self.assertEqual(logs.extractfile("gpu_tests/run.txt").read(), b"the log of gpu_tests\n")

    def test_where_the_first_ranks_hang_those_after_it_are_skipped_with_the_reason(self):
        self.takes = {NCCL: (61, None)}
        rows = self.run_session("--program=x", "--part=1")
        for check in CHECKS.values():
            expected = "FAIL" if check.name == NCCL else "SKIP" if check.after == NCCL else "PASS"
            self.assertEqual(rows[check.name][0], expected, check.name)
            self.assertEqual(f"{NCCL} hung" in rows[check.name][1], expected == "SKIP")

    def test_all_ends_by_the_deadline_and_what_does_not_fit_is_no_failure(self):
        self.takes = {check.name: (check.seconds, Outcome("PASS", "seen")) for check in CHECKS.values()}
        rows = self.run_session("--program=x", "--part=1", "--minutes=5")
        self.assertLessEqual(self.now, 1000 + 300)
        self.assertEqual({outcome for outcome, _ in rows.values()}, {"PASS", "SKIP"})
        self.assertEqual(list(rows), list(CHECKS))

    def test_a_carried_program_that_does_not_start_is_reported(self):
        self.script("made/bin/ddprun", "import sys; sys.exit('a library is missing')")
        (self.folder / "made/lib/ddprun").mkdir(parents=True)
        (self.folder / "pack").mkdir()
        with tarfile.open(self.folder / "pack/program.tar.xz", "w:xz") as archive:
            archive.add(self.folder / "made", ".")
        python = self.script("python", f"print({str(self.folder)!r})")
        rows = self.run_session(f"--packed={self.folder / 'pack'}", f"--python={python}", "--only=backend_loads")
        self.assertEqual(list(rows), ["program"])
        self.assertEqual(rows["program"][0], "FAIL")
        self.assertIn("a library is missing", rows["program"][1])


# Suite A's first test passes, its second crashes, and with it the suite; suite B's test fails.
MADE_TESTS = """
    import json, os, signal, sys
    words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
    if "--gtest_list_tests" in sys.argv:
        print("A.\\n  Passes\\n  Crashes\\nForms/B.\\n  Fails/one  # GetParam() = 1")
        sys.exit()
    wanted = words["gtest_filter"]
    if wanted in ("A.*", "A.Crashes"):
        os.kill(os.getpid(), signal.SIGSEGV)
    suite, name, failures = ("A", "Passes", []) if wanted == "A.Passes" else ("Forms/B", "Fails/one", [{"failure": "1 is not 2"}])
    test = {"name": name, "classname": suite, "status": "RUN", "result": "COMPLETED", **({"failures": failures} if failures else {})}
    with open(words["gtest_output"].removeprefix("json:"), "w") as file:
        json.dump({"testsuites": [{"testsuite": [test]}]}, file)
"""
# Pays no heed to what is to kill it.
MADE_DDPRUN = """
    import json, pathlib, sys
    words = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    run = pathlib.Path(words["run.dir"])
    (run / "checkpoints/step_1").mkdir(parents=True)
    (run / "checkpoints/step_1/model.safetensors").write_text("")
    rows = [{"split": "train", "step": step, "loss": 1.0} for step in range(1, 151)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""


class ChecksTest(FolderTest):
    def context(self, program, gpu_test="x"):
        return context.Context(self.folder, program, gpu_test, {}, [], True, "", 60)

    def test_a_crash_of_one_of_the_gpus_tests_hides_no_other(self):
        made = self.context("x", self.script("gpu_test", MADE_TESTS))
        with self.assertRaises(AssertionError) as failed:
            machine.gpu_tests(made)
        for part in ("Forms/B.Fails/one: 1 is not 2", "A.Crashes: crashed"):
            self.assertIn(part, str(failed.exception))
        self.assertNotIn("A.Passes", str(failed.exception))

    def test_a_run_that_was_to_be_killed_and_was_not_is_a_failure(self):
        made = self.context(self.script("ddprun", MADE_DDPRUN))
        with self.assertRaisesRegex(AssertionError, "was to be killed"):
            bits.same_bits_after_a_kill(made, "run", [])


class CommandTest(unittest.TestCase):
    def run_it(self, *words):
        return subprocess.run([ROOT / "tools/gpu_check", *words], capture_output=True, text=True, timeout=100)

    def test_it_lists_what_each_part_would_do(self):
        for part, words, others in ((1, CHECKS, TABLES), (2, TABLES, CHECKS)):
            shown = self.run_it(f"--part={part}", "--rehearse", "--dry-run")
            self.assertEqual(shown.returncode, 0, shown.stderr)
            for name in words:
                self.assertRegex(shown.stdout, f"  (table )?{name}: ")
            for name in others:
                self.assertNotRegex(shown.stdout, f"  (table )?{name}: ")

    def test_words_that_make_no_sense_are_refused(self):
        for words in (["--part", "3"], ["--table", "nothing"], ["--only", "nothing"], ["--pairs", "0"], ["--at-once", "0"], ["--packed", "x"],
                      ["--python", "python3"]):  # fmt: skip
            self.assertEqual(self.run_it(*words).returncode, 2, words)


if __name__ == "__main__":
    unittest.main()
