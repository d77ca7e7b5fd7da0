# SPDX-License-Identifier: MIT
"""What TensorBoard itself makes of the event files, by both of its readers: the Python one and the data server that it starts."""

import json
import pathlib
import signal
import sys
import urllib.parse
import urllib.request

from command import SMALL, CommandTest, all_rows, free_port, main

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import metadata
except ImportError:
    main("TensorBoard is not installed (pip install tensorboard)")

WORDS = [*SMALL, "model=mlp", "loggers=[jsonl, tensorboard]", "objective.metrics=[accuracy, confusion]",
         "predictions={num_batches_to_log: 1, log_images_per_batch: 12}", "histograms={every: 1ep, bins: 16}", "checkpoint.every=5st"]
TENSORBOARD = pathlib.Path(sys.executable).parent / "tensorboard"


def events(run):
    accumulator = event_accumulator.EventAccumulator(str(run / "tensorboard"), size_guidance=dict.fromkeys(
        ("scalars", "images", "tensors", "histograms"), 0))
    accumulator.Reload()
    return accumulator


def scalars(run):
    """{(tag, step): value} as the Python reader sees them."""
    found = events(run)
    return {(tag, event.step): event.value for tag in found.Tags()["scalars"] for event in found.Scalars(tag)}


def tables(run, kind):
    lines = (run / "tables.jsonl").read_text().splitlines()
    return [table for table in map(json.loads, lines) if table["kind"] == kind]


def logged(run):
    """The same of metrics.jsonl."""
    left_out = ("time", "attempt", "split", "step", "samples")
    return {(f"{row['split']}/{name}", row["step"]): value for row in all_rows(run, measured=True) for name, value in row.items()
            if name not in left_out and value is not None and (name != "epoch" or row["split"] == "train")}


class TensorBoardLogger(CommandTest):
    def assert_same_scalars(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        for key, value in expected.items():
            if "samples_per_second" not in key[0]:
                self.assertAlmostEqual(found[key], value, delta=1e-6 * max(abs(value), 1), msg=key)

    def test_the_python_reader_sees_what_was_logged(self):
        self.ddprun(*WORDS, "launch.workers=2", "run.dir=run")
        run = self.folder / "run"
        self.assert_same_scalars(scalars(run), logged(run))
        found = events(run)
        self.assertEqual(set(found.Tags()["images"]), {"val/confusion", "val/predictions", "test/confusion"})
        for tag in found.Tags()["images"]:
            image = found.Images(tag)[0]
            self.assertTrue(image.encoded_image_string.startswith(b"\x89PNG"), tag)
            self.assertGreater(image.width, 100)
        for tag, words in (("config", "plugin: mlp"), ("val/prediction_table", "| sample | truth | guess | score |"),
                           ("val/confusion_table", "| truth \\ guess | 0 | 1 | 2 |"), ("test/confusion_table", "\n| 9 | "),
                           ("events", "checkpoint: "), ("end", "completed: ")):
            self.assertIn(words, found.Tensors(tag)[0].tensor_proto.string_val[0].decode())
        begun = metadata.parse_session_start_info_plugin_data(found.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content)
        shown = (begun.group_name, begun.hparams["optimizer.lr"].number_value, begun.hparams["objective.metrics"].string_value)
        self.assertEqual(shown, ("run", 0.01, "- accuracy\n- confusion"))
        self.assertNotIn("launch.workers", begun.hparams, "where it ran is no parameter")
        self.look_at_the_histograms(run, found)

    def look_at_the_histograms(self, run, found):
        last = tables(run, "histograms")[-1]
        self.assertEqual(set(found.Tags()["histograms"]), {histogram["name"] for histogram in last["histograms"]})
        self.assertIn("gradients/hidden1.weight", found.Tags()["histograms"])
        for histogram in last["histograms"]:
            event = found.Histograms(histogram["name"])[-1]
            shown = event.histogram_value
            self.assertEqual(event.step, last["step"])
            self.assertEqual((shown.min, shown.max, shown.num), (histogram["min"], histogram["max"], histogram["count"]))
            self.assertEqual(list(shown.bucket), histogram["counts"])
            self.assertEqual(list(shown.bucket_limit), histogram["edges"][1:])

    def test_a_run_that_was_cut_off_and_resumed_is_one_curve(self):
        first = self.start_held(14, *WORDS, "run.dir=run")
        run = self.folder / "run"
        self.wait_for_step(first, run, 12)  # whose event is written too, or comes again
        first.send(signal.SIGKILL)
        first.wait()
        self.assert_nothing_left()
        self.ddprun("resume", "run")  # to its end: all that came after the last checkpoint comes again
        self.assertEqual(len(list((run / "tensorboard").iterdir())), 2)
        self.assert_same_scalars(scalars(run), logged(run))

    def serve(self, folder):
        port = free_port()
        server = self.start_program(TENSORBOARD, "--logdir", folder, "--port", port, "--load_fast", "true", "--bind_all")

        def get(path, body=None, **query):
            url = f"http://127.0.0.1:{port}/{path}?{urllib.parse.urlencode(query)}"
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return json.load(answer)
            except OSError:
                return None

        self.wait_until(lambda: get("data/runs"), "the server", server)
        return server, get

    def learning_rates(self, get):
        """Of the runs on the page that compares hyperparameters."""
        answer = get("data/plugin/hparams/session_groups", body={
            "experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "sliceSize": 10, "startIndex": 0,
            "colParams": [{"hparam": "optimizer.lr", "includeInResult": True}]})
        return sorted(group["hparams"]["optimizer.lr"] for group in answer["sessionGroups"])

    def test_the_data_server_sees_the_same(self):
        self.ddprun(*WORDS, "run.dir=runs/one")
        self.ddprun(*WORDS, "run.dir=runs/two", "optimizer.lr=0.02", "seed=7")
        server, get = self.serve(self.folder / "runs")
        self.assertEqual(set(get("data/runs")), {"one/tensorboard", "two/tensorboard"})
        expected = logged(self.folder / "runs/one")
        tags = {tag for tag, _ in expected}
        self.assertEqual(set(get("data/plugin/scalars/tags")["one/tensorboard"]), tags)
        weights = get("data/plugin/histograms/histograms", tag="weights/hidden1.weight", run="one/tensorboard")
        self.assertEqual(sum(count for _, _, count in weights[-1][2]), 28 * 28 * 128)
        layout = get("data/plugin/custom_scalars/layout")
        self.assertEqual([category["title"] for category in layout["category"]], ["Results", "Speed"])
        found = {(tag, step): value for tag in tags
                 for _, step, value in get("data/plugin/scalars/scalars", tag=tag, run="one/tensorboard")}
        self.assert_same_scalars(found, expected)
        self.assertEqual(set(get("data/plugin/images/tags")["one/tensorboard"]),
                         {"val/confusion", "val/predictions", "test/confusion"})
        self.assertEqual(set(get("data/plugin/text/tags")["one/tensorboard"]),
                         {"config", "val/prediction_table", "val/confusion_table", "test/confusion_table", "events", "end"})
        self.assertEqual(self.learning_rates(get), [0.01, 0.02])
        server.send(signal.SIGTERM)


if __name__ == "__main__":
    main()
