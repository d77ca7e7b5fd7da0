"""What a call leaves behind: a line for each check as it ends, and in --keep DIR after each of them results.json,
results.md and failures.tar.gz with the logs of those that failed."""

import io
import pathlib
import shlex
import sys
import tarfile

from measure import report

TEXTS = (".txt", ".log", ".json", ".jsonl", ".yaml", ".csv")
FILE_BYTES, ALL_BYTES = 1 << 20, 48 << 20  # of a log the end counts; all of them, before they are packed


class Results:
    def __init__(self, options, folder):
        self.bench = None  # once the data are laid out
        self._about = report.facts(
            shlex.join(["tools/gpu_check", *sys.argv[1:]]), rehearsal=options.rehearse, minutes=options.minutes
        )
        self._rows = []
        self._tables = {}
        self._keep = options.keep
        self._folder = pathlib.Path(folder)  # of all checks, each with a folder of its name
        self._logs = []
        if self._keep:
            self._keep.mkdir(parents=True, exist_ok=True)

    def add(self, name, outcome, detail, seconds, logs=(), table=None):
        """`logs`: files and folders that tell why it failed."""
        detail = " ".join(detail.split())
        self._rows.append((name, outcome, detail, f"{seconds:.1f}"))
        print(f"{outcome} {name}: {detail} ({seconds:.1f} s)", flush=True)
        if table:
            self._tables[name.removeprefix("table ")] = table
        if outcome == "FAIL":
            self._logs.extend(map(pathlib.Path, logs))
        self.save()

    def failed(self):
        return any(outcome == "FAIL" for _, outcome, *_ in self._rows)

    def markdown(self):
        lines = ["| check | outcome | what was seen | s |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in self._rows]
        parts = [
            report.in_words(self._about, self.versions()),
            "\n".join(lines),
            *(table.markdown() for table in self._tables.values()),
        ]
        return "\n\n".join(parts) + "\n"

    def as_json(self):
        rows = [dict(zip(("name", "outcome", "detail", "seconds"), row, strict=True)) for row in self._rows]
        peaks = self.bench.peaks if self.bench else {}
        return report.as_json(self._about, self._tables, versions=self.versions(), peaks=peaks, results=rows)

    def versions(self):
        return self.bench.versions if self.bench else {}

    def save(self):
        """Keeps what there is if the script is ended early."""
        if not self._keep:
            return
        (self._keep / "results.md").write_text(self.markdown())
        (self._keep / "results.json").write_text(self.as_json())
        if self._logs:
            self.pack_logs()

    def pack_logs(self):
        left = ALL_BYTES
        whole = self._keep / "failures.tar.gz.part"
        with tarfile.open(whole, "w:gz") as archive:
            for file in texts_in(self._logs):
                content = end_of(file)
                left -= len(content)
                if left < 0:
                    break
                member = tarfile.TarInfo(
                    str(file.relative_to(self._folder) if file.is_relative_to(self._folder) else file.name)
                )
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        whole.rename(self._keep / "failures.tar.gz")


def texts_in(places):
    for place in places:
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (file for file in files if file.suffix in TEXTS and file.is_file() and not file.is_symlink())


def end_of(file):
    with open(file, "rb") as opened:
        opened.seek(max(0, file.stat().st_size - FILE_BYTES))
        return opened.read(FILE_BYTES)
