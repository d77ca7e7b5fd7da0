# SPDX-License-Identifier: MIT
import signal


def ctrl_c_sets(event, then=lambda: None):
    """Handles SIGINT and SIGTERM: the first is reported and sets the event, the second of its kind ends the process at
    once.
    """

    def stop(number, _):
        if not event.is_set():
            then()
        event.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
