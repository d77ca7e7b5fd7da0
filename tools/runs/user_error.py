# SPDX-License-Identifier: MIT
class UserError(Exception):
    """What was asked for cannot be done; the text tells where, what was found, and what to do."""
