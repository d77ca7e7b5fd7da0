# SPDX-License-Identifier: MIT
"""Shows Doxygen the plain comments of headers as documentation: documented.py FROM TO copies what it reads of a clone.

The headers are written for those who read them as they are:

- The first comment of a file is the file's, and also that of the class it is named after, where that has none of its own.
- A comment above a declaration is its documentation, and that of those below it, up to an empty line, that have none.
- A comment behind a declaration is its documentation.
- Within a comment, lines indented by three spaces are code; `so` are names.

The version of version.h.in is filled in; pages of Markdown get the names of their files, and their links to other files
of the clone, which the reference does not have, become text.
"""

import dataclasses
import pathlib
import re
import sys

COMMENT = re.compile(r"^( *)//(?: (.*))?$")
TRAILING = re.compile(r"^( *[^ /}](?:[^\"]|\"[^\"]*\")*?)  ?// (.*)$")
CLASS = re.compile(r"^(?:class|struct)(?: DDPRUN_API)? (\w+)(?: final)?(?: :.*)? \{$")
ENDS = re.compile(r"[;{}:]$|^ *}|^#(?!.*\\$)|^ *extern")
CAN_BE_DOCUMENTED = re.compile(r"^ *(?!public:|protected:|private:|namespace|extern|#(?!define))[^ }]")


def escaped(text):
    """Escapes what Doxygen would take for commands, HTML or dashes; between backticks everything is text already."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"[\\@<>#%&]|--", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def documentation(lines):
    """Turns the lines of a comment, without their slashes, into Doxygen's."""
    result, in_code = [], False
    for line in lines:
        is_code = line.startswith("  ") or (in_code and not line)
        if is_code != in_code:
            if in_code and not result[-1]:
                result.pop()
            result.append("@code{.cpp}" if is_code else "@endcode")
            in_code = is_code
        result.append(line[2:] if is_code else escaped(line))
    return result + ["@endcode"] * in_code


def first_sentence_apart(lines):
    for at, line in enumerate(lines):
        if not line:
            return lines
        if end := re.search(r"[.](?= [A-Z]|$)", line):
            rest = line[end.end() :].strip()
            return [*lines[:at], line[: end.end()], "", *([rest] if rest else []), *lines[at + 1 :]]
    return lines


@dataclasses.dataclass
class Comment:
    indent: str
    lines: list

    def text(self, whole):
        """The short text is the whole first paragraph, or its first sentence."""
        lines = self.lines if whole else first_sentence_apart(self.lines)
        lines = documentation(lines)
        lines[0] = f"@brief {lines[0]}"
        return [f"{self.indent}/// {line}".rstrip() for line in lines]


class Header:
    def __init__(self, name, text):
        self.source = text.splitlines()
        self.name = name.replace("_", "")  # None where its class was found
        self.result = []
        self.at = 0
        self.spread = None  # the comment that counts up to the next empty line

    def comment(self):
        """Returns the comment that begins at this line."""
        indent, lines = COMMENT.match(self.source[self.at])[1], []
        while self.at < len(self.source) and (found := COMMENT.match(self.source[self.at])):
            lines.append(found[2] or "")
            self.at += 1
        return Comment(indent, lines)

    def declaration(self):
        """Returns the lines of what begins here: a declaration, the head of a class or a function, a directive, or the
        end of a block.
        """
        begin = self.at
        while self.at + 1 < len(self.source) and self.source[self.at + 1] and not ENDS.search(code_of(self.source[self.at])):
            self.at += 1
        self.at += 1
        return self.source[begin : self.at]

    def filtered(self):
        self.at = 1  # after the licence
        self.file = self.comment()
        self.result += ["/// @file", *self.file.text(whole=False)]
        while self.at < len(self.source):
            self.step()
        return "\n".join(self.result) + "\n"

    def step(self):
        comment = self.comment() if COMMENT.match(self.source[self.at]) else None
        if self.at == len(self.source) or not self.source[self.at]:
            self.spread = None
            self.result.append("")
            self.at += 1
            return
        lines = self.declaration()
        if CAN_BE_DOCUMENTED.match(lines[0]):
            self.document(comment, lines)
        else:
            self.spread = None
        self.result += map(with_documentation, lines)

    def document(self, comment, lines):
        named = CLASS.match(lines[0])
        if comment is None and named and self.name and self.name in named[1].lower():
            comment, self.name = Comment("", self.file.lines), None
        is_class = any(CLASS.match(line) for line in lines)
        above = comment or (None if TRAILING.match(lines[-1]) or "~" in lines[0] else self.spread)
        if above:
            self.result += above.text(whole=not is_class)
        self.spread = None if code_of(lines[-1]).endswith("{") else comment or self.spread


def code_of(line):
    found = TRAILING.match(line)
    return found[1].rstrip() if found else line


def with_documentation(line):
    found = TRAILING.match(line)
    return f"{found[1]}  ///< {escaped(found[2])}" if found else line


def version_of(clone):
    return re.search(r"^project\(ddprun VERSION ([0-9.]+)", (clone / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def with_version(text, version):
    for name, value in zip(("MAJOR", "MINOR", "PATCH"), version.split(".")):
        text = text.replace(f"@PROJECT_VERSION_{name}@", value)
    return text.replace("@PROJECT_VERSION@", version)


def without_links_to_files(page):
    return re.sub(r"\[([^\]]*)\]\((?!#|@|\w+:)[^)]*\)", r"\1", page)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main(clone, to):
    version = version_of(clone)
    headers = clone / "sdk/include"
    for header in sorted(headers.rglob("*.h*")):
        name = header.name.removesuffix(".in")
        text = Header(name.removesuffix(".h"), with_version(header.read_text(), version)).filtered()
        write(to / "include" / header.relative_to(headers).with_name(name), text)
    for page in (clone / "docs/plugins.md", clone / "tools/dev/reference/main.md"):
        title, _, rest = page.read_text().partition("\n")
        write(to / "pages" / page.name, f"{title} {{#{page.stem}}}\n{without_links_to_files(rest)}")
    print(version)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
