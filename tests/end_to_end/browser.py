# SPDX-License-Identifier: MIT
"""Pages that ddprun writes: their data, and what a browser makes of them."""

import html
import json
import re
import shutil
import subprocess

from command import CommandTest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def data_of(page):
    """What the page's script is given."""
    return data_in(page.read_text())


def data_in(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def report_in(shown):
    """What the report's script is given in the frame that a notebook shows of a run."""
    return data_in(html.unescape(re.search(r'<iframe [^>]*srcdoc="([^"]*)"', shown)[1]))


class PageTest(CommandTest):
    def document(self, page):
        """The page as its scripts have left it."""
        command = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={self.folder}/home/browser",
            "--window-size=1280,900",
            "--run-all-compositor-stages-before-draw",  # virtual time does not run ahead of the frames that the page waits for
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"file://{page}",
        ]
        document = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=True, env=self.environment()
        ).stdout
        head = re.search(r"<html[^>]*>", document)[0]
        self.assertIn('data-state="ready"', head)
        self.assertIn('data-errors=""', head, "the scripts found no error")
        return document
