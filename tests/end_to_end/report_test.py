# SPDX-License-Identifier: MIT
"""`ddprun report` and `ddprun list`: of runs that ended, were cut off or are under way, and as a browser shows them."""

import html
import json
import pathlib
import re
import signal
import sys
import unittest

from browser import CHROMIUM, PageTest, data_of
from command import SMALL, CommandTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
from made_run import MadeRun  # noqa: E402

WORDS = [
    *SMALL,
    "model=mlp",
    "loggers=[jsonl]",
    "objective={name: cross_entropy, metrics: [accuracy, confusion]}",
    "predictions={num_batches_to_log: 1, log_images_per_batch: 12}",
]
EVIL = [
    "</script><script>document.title='x'</script>",
    "\"quotes\" & 'such'",
    "<img src=x onerror=alert(1)>",
    "größer 猫",
    "a/b",
]
# A page that keeps a report in a hidden tab and shows it once it is complete. It is ready when each of its charts is drawn.
TABS = """<!DOCTYPE html><html><body><iframe style="display: none; width: 1000px; height: 800px" srcdoc="PAGE"></iframe><script>
const frame = document.querySelector('iframe');
const once = (wanted, then) => (wanted() ? then() : setTimeout(() => once(wanted, then), 20));
const charts = () => [...frame.contentDocument.querySelectorAll('.plot')];
const isDrawn = (chart) => chart.clientWidth > 0 && chart.querySelector('canvas')?.clientWidth === chart.clientWidth;
once(() => frame.contentDocument?.documentElement.dataset.state === 'ready', () => {
  if (charts().some(isDrawn)) return;  // it was not hidden
  frame.style.display = 'block';
  once(() => charts().every(isDrawn), () =>
    Object.assign(document.documentElement.dataset, {charts: charts().length, state: 'ready', errors: ''}));
});
</script></body></html>"""


def without_scripts(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.S)


class Report(CommandTest):
    def test_a_run_is_one_page_that_loads_nothing(self):
        self.ddprun(*WORDS, "launch.workers=2", "run.dir=runs/one")
        run = self.folder / "runs/one"
        said = self.ddprun("report", "runs/one").out()
        self.assertEqual(said, f"{run}/report.html\n")
        page = (run / "report.html").read_text()
        own = without_scripts(page)  # a library's text may hold what it never does
        for pattern in (r"\bsrc=(?!\"data:)", r"\bhref=(?!\"data:)", r"@import", r"url\((?!data:)", "sourceMappingURL"):
            self.assertIsNone(re.search(pattern, own), pattern)
        shown = data_of(run / "report.html")["runs"][0]
        self.assertEqual((shown["name"], shown["status"], shown["steps"]), ("digits", "completed", 20))
        splits = {(curve["split"], curve["name"]) for curve in shown["curves"]}
        self.assertLessEqual({("train", "loss"), ("val", "accuracy"), ("test", "loss")}, splits)
        self.assertEqual({table["split"] for table in shown["confusions"]}, {"val", "test"})
        self.assertEqual(sum(map(sum, shown["confusions"][-1]["counts"])), 301)
        self.assertEqual(len(shown["predictions"][0]["rows"]), 12)
        self.assertEqual(shown["config"]["values"]["dataset.train_size"], "610")
        self.assertEqual(shown["problems"], [])
        self.ddprun("report", "runs/one")  # its own report is replaced

    def test_several_runs_are_beside_each_other(self):
        for name, seed in (("one", 1), ("two", 2)):
            MadeRun(self.folder / name, steps=200, seed=seed).write()
        self.assertEqual(self.ddprun("report", "one", "two", "two/../one").out(), "report.html\n")
        runs = data_of(self.folder / "report.html")["runs"]
        self.assertEqual([run["folder"] for run in runs], ["one", "two"])
        self.assertEqual(list(self.folder.glob("*/report.html")), [])
        self.assertNotEqual(*(run["config"]["values"]["optimizer.lr"] for run in runs))

    def test_what_is_no_run_is_refused_and_so_is_what_would_overwrite_another_file(self):
        (self.folder / "mine.html").write_text("mine")
        MadeRun(self.folder / "run", steps=100).write()
        self.assertIn("is not a report of ddprun; it is not overwritten", self.assert_refused("report", "run", "--out", "mine.html"))
        self.assertIn("it has no config.yaml", self.assert_refused("report", "home"))
        self.assertIn("nowhere: No such file", self.assert_refused("report", "nowhere"))
        self.assert_refused("report")

    def test_a_run_that_was_cut_off_is_shown_as_far_as_it_came(self):
        run = MadeRun(self.folder / "run", steps=400).write()
        for name in ("summary.json", "overrides.txt", "events.jsonl"):
            (run / name).unlink()
        for name in ("metrics.jsonl", "tables.jsonl", "environment.json"):
            content = (run / name).read_bytes()
            (run / name).write_bytes(content[: len(content) * 2 // 3])
        self.ddprun("report", "run")
        shown = data_of(run / "report.html")["runs"][0]
        self.assertEqual(shown["status"], "interrupted")
        self.assertGreater(shown["curves"][0]["count"], 200)
        self.assertEqual(shown["problems"], ["environment.json is not a JSON object"])

    def test_attempts_that_overlap_are_one_curve_and_a_spike_is_seen(self):
        run = MadeRun(self.folder / "run", steps=20_000).write()
        self.ddprun("report", "run")
        loss = data_of(run / "report.html")["runs"][0]["curves"][0]
        self.assertEqual((loss["name"], loss["count"], loss["nonfinite"]), ("loss", 20_000, 2))
        steps, values = loss["points"]["step"], loss["points"]["value"]
        self.assertLessEqual(len(steps), 3000)
        self.assertEqual((steps[0], steps[-1], steps), (1, 20_000, sorted(set(steps))))
        self.assertEqual(values[steps.index(20_000 // 3)], 40)
        self.assertIsNone(values[steps.index(20_000 // 4)])


class List(CommandTest):
    def test_no_runs_are_said_to_be_none(self):
        self.assertEqual(self.ddprun("list").out(), "no runs in outputs\n")
        self.assertEqual(self.ddprun("list", "home").out(), "no runs in home\n")
        self.assertEqual(json.loads(self.ddprun("list", "--json").out()), [])
        self.assertIn("nowhere: No such file", self.assert_refused("list", "nowhere"))

    def test_runs_stand_in_columns_the_newest_first(self):
        self.ddprun(*WORDS, "name=small")
        MadeRun(self.folder / "outputs/made/old", steps=100).write()
        lines = self.ddprun("list").out().splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[0], r"^RUN +STATUS +EPOCHS .*accuracy .*STARTED +TIME$")
        self.assertRegex(lines[1], r"^small/20\S+ +completed +2 +.*0\.\d+ +.* s ago +\d+\.\ds$")
        self.assertRegex(lines[2], r"^made/old +completed +10 ")
        runs = json.loads(self.ddprun("list", "outputs/small", "--json").out())
        self.assertEqual([(run["name"], run["status"], run["steps"]) for run in runs], [("small", "completed", 20)])
        self.assertEqual(runs[0]["best"].keys(), {"val/accuracy"})

    def test_a_run_is_running_until_it_is_killed(self):
        running = self.start_held(13, *WORDS, "name=long")
        run = (self.folder / "outputs/long/latest").resolve()
        self.wait_for_step(running, run, 12)
        (shown,) = json.loads(self.ddprun("list", "--json").out())
        self.assertEqual(shown["status"], "running")
        self.assertEqual(shown["steps"], 12)
        self.ddprun("report", run)
        self.assertEqual(data_of(run / "report.html")["runs"][0]["status"], "running")
        running.send(signal.SIGKILL)
        running.wait()
        self.assert_nothing_left()
        self.assertEqual(json.loads(self.ddprun("list", "--json").out())[0]["status"], "interrupted")


@unittest.skipUnless(CHROMIUM, "there is no Chromium here: the page is not drawn")
class Browser(PageTest):
    def test_a_page_with_everything_draws_itself(self):
        MadeRun(self.folder / "run", steps=1000).write()
        self.ddprun("report", "run")
        document = self.document(self.folder / "run/report.html")
        for section in (
            "curves",
            "confusion",
            "predictions",
            "histograms",
            "ranks",
            "events",
            "checkpoints",
            "config",
            "environment",
        ):
            self.assertIn(f'<section id="{section}">', document)
        for text in ("Step time by phase", "2 not finite", "rank 2 was killed by SIGKILL", "Slowest of", "92.88 %"):
            self.assertIn(text, document)
        self.assertGreaterEqual(document.count("<canvas"), 10)
        self.assertRegex(document, r'dygraph-axis-label-y[^>]*>(<[^>]*>)?1,[0-9]{3}<', "throughput in whole numbers, as in the tile")
        self.assertEqual(without_scripts(document).count('src="data:image/png;base64,'), 24)

    def test_a_hidden_page_draws_itself_when_it_is_shown(self):
        MadeRun(self.folder / "run", steps=200).write()
        self.ddprun("report", "run")
        page = html.escape((self.folder / "run/report.html").read_text(), quote=True)
        (self.folder / "tabs.html").write_text(TABS.replace("PAGE", page))
        self.assertGreater(int(re.search(r'data-charts="(\d+)"', self.document(self.folder / "tabs.html"))[1]), 5)

    def test_a_page_with_nothing_draws_itself(self):
        run = self.folder / "run"
        (run / "logs").mkdir(parents=True)
        (run / "config.yaml").write_text("name: bare\n")
        (run / "summary.json").write_text(json.dumps({"status": "failed", "stop_reason": "rank 1 failed first: killed"}))
        (run / "logs/rank_1.log").write_text("the rank's last word\n")
        self.ddprun("report", "run")
        document = self.document(run / "report.html")
        self.assertIn("<pre>the rank's last word</pre>", document)
        self.assertNotIn("metrics.jsonl is missing", document, "it failed before the first step")
        for section in ("curves", "confusion", "ranks", "events"):
            self.assertNotIn(f'<section id="{section}">', document)

    def test_several_runs_draw_themselves(self):
        for name, seed in (("one", 1), ("two", 2), ("three", 3)):
            MadeRun(self.folder / name, steps=200, seed=seed).write()
        self.ddprun("report", "one", "two", "three")
        document = self.document(self.folder / "report.html")
        self.assertIn("<h1>3 runs</h1>", document)
        self.assertIn("<code>optimizer.lr</code>", document)
        self.assertIn('<details class="between" id="system">', document)

    def test_what_runs_reached_is_drawn_against_each_setting_that_differs(self):
        for i in range(7):
            more = {"rate": f"{10 ** (-4 + i / 2):.4g}", "even": i, "few": (16, 32, 128)[i % 3], "kind": "ab"[i % 2], "seed": i}
            config = MadeRun(self.folder / f"run_{i}", steps=20).write() / "config.yaml"
            text = config.read_text().replace("seed: 42", "# seed")
            config.write_text(text + "".join(f"{key}: {value} # x\n" for key, value in more.items()))
        self.ddprun("report", *(f"run_{i}" for i in range(7)))
        marks = {"rate": ["1e-4", "0.001", "0.01", "0.1"], "even": ["0", "2", "4", "6"], "few": ["16", "32", "128"]}
        self.assertEqual(self.marks_of_settings(), marks | {"kind": ["a", "b"]}, "the seed is no setting")
        self.ddprun("report", "run_1", "run_2")
        self.assertEqual(self.marks_of_settings(), {}, "two runs are no picture")

    def marks_of_settings(self):
        """Returns {setting: what stands at its axis}."""
        found = re.search(r'<section id="settings">(.*?)</section>', self.document(self.folder / "report.html"), re.S)
        cards = re.findall(r"<h3>(.*?)</h3>(.*?)</figure>", found[1] if found else "", re.S)
        return {name: re.findall(r"<div[^>]*dygraph-axis-label-x[^>]*>([^<]*)<", text) for name, text in cards}

    def test_names_are_shown_and_never_read(self):
        run = MadeRun(self.folder / "run", steps=100, names=EVIL).write()
        row = {"time": 1, "attempt": 0, "split": "train", "epoch": 1, "samples": 1, EVIL[0]: 1.0, "loss": 2.0}
        (run / "metrics.jsonl").write_text("".join(json.dumps(row | {"step": step}) + "\n" for step in (1, 2)))
        event = {"time": 2, "attempt": 0, "step": 2, "kind": EVIL[2], "text": EVIL[0]}
        (run / "events.jsonl").write_text(json.dumps(event) + "\n")
        (run / "config.yaml").write_text(f"name: '{EVIL[2]}'  # {EVIL[0]}\n")
        self.ddprun("report", "run")
        document = self.document(run / "report.html")
        body = without_scripts(document)
        self.assertNotIn('<img src="x"', body)
        self.assertNotIn("onerror=alert(1)>", body)
        self.assertNotIn("<title>x</title>", document)
        for name in EVIL:
            self.assertIn(html.escape(name, quote=False), body)


if __name__ == "__main__":
    unittest.main()
