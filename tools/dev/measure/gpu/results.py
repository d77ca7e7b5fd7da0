"""What a call leaves behind: a line for each check and table as it ends, and in --keep DIR after each of them results.json,
results.md and failures.tar.gz with the logs of those that failed."""

import shlex
import sys
import tarfile

from measure import report

TEXTS = (".txt", ".log", ".json", ".jsonl", ".yaml", ".csv")
FILE_BYTES = 1 << 20  # of a log; a larger one is left out


class Results:
    def __init__(self, options):
        self._about = report.facts(shlex.join(["tools/gpu_check", *sys.argv[1:]]), options.rehearse)
        self._rows = []
        self._tables = {}
        self._keep = options.keep
        self._logs = []  # folders
        if self._keep:
            self._keep.mkdir(parents=True, exist_ok=True)

    def add(self, name, outcome, detail, seconds, logs=None, table=None):
        """`logs`: the folder that shows why it failed."""
        detail = " ".join(detail.split())
        self._rows.append({"name": name, "outcome": outcome, "detail": detail, "seconds": f"{seconds:.1f}"})
        print(f"{outcome} {name}: {detail} ({seconds:.1f} s)", flush=True)
        if table:
            self._tables[name] = table
        if outcome == "FAIL" and logs:
            self._logs.append(logs)
        if self._keep:
            self.save()

    def failed(self):
        return any(row["outcome"] == "FAIL" for row in self._rows)

    def markdown(self):
        lines = ["| check | outcome | what was seen | s |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row.values())} |" for row in self._rows]
        return "\n\n".join([report.in_words(self._about), "\n".join(lines), *(table.markdown() for table in self._tables.values())]) + "\n"

    def save(self):
        """Keeps what there is if the script is ended early."""
        (self._keep / "results.md").write_text(self.markdown())
        (self._keep / "results.json").write_text(report.as_json(self._about, self._tables, results=self._rows))
        if self._logs:
            with tarfile.open(self._keep / "failures.tar.gz", "w:gz") as archive:
                for folder in self._logs:
                    archive.add(folder, folder.name, filter=is_log)


def is_log(member):
    return member if member.isdir() or (member.isfile() and member.name.endswith(TEXTS) and member.size <= FILE_BYTES) else None
