# SPDX-License-Identifier: MIT
"""What a disk may hold after a power cut, from the record of recorder.cpp. The model is what POSIX promises, and so no better than ext4
or XFS with any mount options:

- What was written to a file since its last fsync or fdatasync is lost, kept up to some sector, kept in some blocks and not in others,
  or its blocks are zeros while the file has its new size already. A truncation is such a change, too.
- Names that were made, renamed or removed in a folder since that folder's fsync are kept up to one of them, in their order; each
  folder for itself. A rename is one change: there is no moment with both names or none. A file's fsync does not keep its name.
- So a file that was renamed over another before its data was forced to the disk may be there under that name, empty or half.
- What is not below a name that was kept is gone.

A disk without losses is one of them: that is what the kill of all processes leaves.
"""

import dataclasses
import pathlib

SECTOR = 512
BLOCK = 4096


@dataclasses.dataclass
class Operation:
    call: str
    path: str  # below the recorded folder
    other: str = ""  # the new name of a rename or link
    offset: int = 0
    data: bytes = b""

    def __str__(self):
        return f"{self.call} {self.path} {self.other}".strip()


def read_record(file, folder):
    """The operations, in the order in which the kernel saw them."""
    operations, content, at = [], pathlib.Path(file).read_bytes(), 0
    while at < len(content):
        end = content.index(b"\n", at)
        call, offset, size, *paths = content[at:end].decode().split("\t")
        at = end + 1 + int(size) + 1
        data = content[end + 1:at - 1]
        path, other = (name.removeprefix(str(folder)).removeprefix("/") for name in paths)
        operations.append(Operation(call, path, other, int(offset), data))
    return operations


class File:
    def __init__(self, link=False):
        self.safe = self.now = b""  # on the disk for certain; as processes see it
        self.changes = []  # since the last sync: (offset, data), data None for a truncation to `offset`
        self.link = link  # a symbolic link: its text is there whenever its name is

    def change(self, offset, data):
        self.changes.append((offset, data))
        self.now = changed(self.now, offset, data)

    def sync(self):
        self.safe, self.changes = self.now, []

    def after_cut(self, how, random):
        if not self.changes or how == "kept":
            return self.now
        return {"lost": lambda: self.safe, "zeros": self.zeros, "torn": lambda: self.torn(random),
                "blocks": lambda: self.blocks(random)}[how]()

    def zeros(self):
        return self.safe[:len(self.now)].ljust(len(self.now), b"\0")

    def torn(self, random):
        """The last of the changes that are kept is cut at a sector."""
        content, last = self.safe, random.randrange(len(self.changes))
        for offset, data in self.changes[:last]:
            content = changed(content, offset, data)
        offset, data = self.changes[last]
        if data is None:
            return content
        sectors = [0, *range(SECTOR - offset % SECTOR, len(data), SECTOR), len(data)]
        return changed(content, offset, data[:random.choice(sectors)])

    def blocks(self, random):
        old = self.zeros()
        return b"".join(random.choice((old, self.now))[at:at + BLOCK] for at in range(0, len(self.now), BLOCK))


def changed(content, offset, data):
    if data is None:
        return content[:offset].ljust(offset, b"\0")
    return content[:offset].ljust(offset, b"\0") + data + content[offset + len(data):]


class Folder:
    def __init__(self):
        self.safe, self.now = {}, {}  # {name: File or Folder}
        self.changes = []  # since the last sync: {name: what it is now, or None}

    def change(self, names):
        self.changes.append(names)
        self.now = applied(self.now, names)

    def sync(self):
        self.safe, self.changes = self.now, []

    def after_cut(self, kept):
        """With so many of its changes."""
        names = self.safe
        for change in self.changes[:kept]:
            names = applied(names, change)
        return names


def applied(names, change):
    return {name: node for name, node in (names | change).items() if node is not None}


class Disk:
    def __init__(self):
        self.root = Folder()

    def find(self, path):
        node = self.root
        for name in filter(None, path.split("/")):
            node = node.now[name]
        return node

    def place(self, path):
        folder, _, name = path.rpartition("/")
        return self.find(folder), name

    def apply(self, operation):
        """As the kernel has done it."""
        path = operation.path
        if operation.call in ("write", "truncate"):
            self.find(path).change(operation.offset, operation.data if operation.call == "write" else None)
        elif operation.call == "sync":
            self.find(path).sync()
        elif operation.call == "symlink":
            link = File(link=True)
            link.safe = link.now = operation.data
            self.add(path, link)
        elif operation.call in ("create", "mkdir"):
            self.add(path, File() if operation.call == "create" else Folder())
        elif operation.call == "link":
            self.add(operation.other, self.find(path))
        elif operation.call in ("unlink", "rmdir"):
            self.add(path, None)
        elif operation.call == "rename":
            self.rename(path, operation.other)
        else:
            raise AssertionError(f"the model knows no {operation}")

    def add(self, path, node):
        folder, name = self.place(path)
        folder.change({name: node})

    def rename(self, path, other):
        (folder, name), (target, new_name) = self.place(path), self.place(other)
        if folder is not target:
            raise AssertionError(f"the model knows no rename into another folder: {path} to {other}")
        if name != new_name:
            folder.change({name: None, new_name: folder.now[name]})

    def as_seen(self):
        """By processes: {path: bytes of a file, str of a link, None for a folder}."""
        return self.after_cut(None, "names kept, data kept")

    def after_cut(self, random, how):
        """The same of one disk after a cut. `how`: "names kept|lost, data kept|lost|zeros", or "any": some of each."""
        names, data = ("any", "any") if how == "any" else (word.split()[1] for word in how.split(", "))
        found = {}
        self.gather(self.root, "", (names, data, random), found)
        return found

    def gather(self, folder, prefix, how, found):
        names, data, random = how
        changes = len(folder.changes)
        kept = {"kept": changes, "lost": 0}.get(names)
        for name, node in folder.after_cut(random.randint(0, changes) if kept is None else kept).items():
            if isinstance(node, Folder):
                found[prefix + name] = None
                self.gather(node, f"{prefix}{name}/", how, found)
            elif node.link:
                found[prefix + name] = node.now.decode()
            else:
                one = random.choice(("kept", "lost", "zeros", "torn", "blocks")) if data == "any" else data
                found[prefix + name] = node.after_cut(one, random)


EXTREMES = ("names kept, data kept", "names lost, data lost", "names kept, data lost", "names kept, data zeros", "names lost, data kept")


def write_out(state, folder):
    """As files, for programs to read."""
    for path, content in sorted(state.items()):
        place = folder / path
        if content is None:
            place.mkdir(parents=True, exist_ok=True)
        elif isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)


def read_in(folder):
    """The same of real files."""
    state = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        state[name] = str(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return state
