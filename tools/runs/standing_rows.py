# SPDX-License-Identifier: MIT
def standing_rows(rows, kinds=("split",)):
    """Those that count: an attempt that was cut off leaves rows beyond its last checkpoint; the next writes them again.

    When an attempt begins at an earlier step, the rows of the attempts before are void beyond that step; of two with
    the same step and the same `kinds`, the later one counts. Rows keep their order.
    """
    standing = {}
    newest = None
    for row in rows:
        attempt, step = row.get("attempt", 0), row.get("step", 0)
        if newest is not None and attempt > newest:
            standing = {key: other for key, other in standing.items() if key[0] <= step}
        newest = attempt if newest is None else max(newest, attempt)
        key = (step, *(row.get(kind) for kind in kinds))
        standing.pop(key, None)  # the later one takes the later place
        standing[key] = row
    return list(standing.values())
