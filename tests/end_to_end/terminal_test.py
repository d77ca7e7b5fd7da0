# SPDX-License-Identifier: MIT
"""The command on a terminal of eighty columns."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from command import DDPRUN, SMALL, CommandTest

COLUMNS = 80
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(CommandTest):
    def type_in_terminal(self, *words, keys=None):
        """All that appears; `keys` are typed once the bar stands there. A bar is drawn every tenth of a second at most, and left out
        where the console is busy: the steps take nearly as long, and no less on any machine."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = subprocess.Popen(
            [str(DDPRUN), *words], cwd=self.folder, env=self.environment({"TERM": "xterm", "DDPRUN_FAULT": "slow:computing:0"}), stdin=slave, stdout=slave,
            stderr=slave, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.addCleanup(os.close, master)
        self.addCleanup(process.kill)
        text = b""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if select.select([master], [], [], 1)[0]:
                try:
                    text += os.read(master, 65536)
                except OSError:  # all who held the terminal are gone
                    break
            if keys and re.search(rb"epoch \d+/", text):
                os.write(master, keys)
                keys = None
        return process.wait(10), text.decode()

    def test_a_bar_moves_and_never_wraps(self):
        code, text = self.type_in_terminal(*SMALL, "model=convnet_bn", "trainer.max_epochs=1")
        self.assertEqual(code, 0, text)
        bars = [line for line in re.split(r"[\r\n]+", ESCAPE.sub("", text)) if re.search(r"epoch +1/1.*\d+/10\b", line)]
        self.assertGreater(len(set(bars)), 2, text)
        for bar in bars:
            self.assertLessEqual(len(bar), COLUMNS, repr(bar))
        end = ESCAPE.sub("", text).partition("Training Summary")[2]
        self.assertIn("run folder", end)
        self.assertEqual([line for line in end.splitlines() if len(line) > COLUMNS], [])

    def test_escape_codes_in_names_are_shown_and_not_obeyed(self):
        run = self.folder / "a\x1b[31mb"
        run.mkdir()
        (run / "config.yaml").write_text("")
        for name, words in ((run.name, f"{self.folder}/a?[31mb has no checkpoint yet"),
                            ("\x1b[31mb", "ddprun: error: ?[31mb: No such file or directory")):
            self.assertEqual(ESCAPE.sub("", self.type_in_terminal("verify", name)[1]), words + "\r\n")

    def test_ctrl_c_saves_and_says_how_to_carry_on(self):
        code, text = self.type_in_terminal(*SMALL, "model=convnet_bn", "trainer.max_epochs=100000", keys=b"\x03")
        self.assertEqual(code, 75, text)
        self.assertIn("saving a checkpoint", text)
        self.assertIn("ddprun resume ", text)
        self.assertIn("preempted: asked to stop", ESCAPE.sub("", text))
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
