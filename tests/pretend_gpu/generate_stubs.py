#!/usr/bin/env python3
"""Writes what a pretend library lacks of the real one: a stub for each function that REAL exports and OBJECTS do not define, and the version
script that gives its symbols REAL's version.

A stub says `not pretended: NAME`, once, and returns the library's usual error; with PRETEND_STRICT=1 it ends the process. So nothing that the
program under test begins to call is pretended by silence."""
import argparse
import pathlib
import re
import subprocess

HEAD = """// Written by generate_stubs.py: functions of {real} that are not pretended.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {{

long missing(const char* name, bool& said) {{
  if (!said) std::fprintf(stderr, "pretend gpu [%d]: not pretended: %s\\n", getpid(), name);
  said = true;
  const char* strict = std::getenv("PRETEND_STRICT");
  if (strict && std::strcmp(strict, "0") != 0) std::abort();
  return {error};
}}

}}  // namespace

// In C's calling conventions a caller may pass more than a function takes, and a long holds each kind of error.
#define STUB(name)            \\
  extern "C" long name() {{    \\
    static bool said = false; \\
    return missing(#name, said); \\
  }}

"""


def symbols(*arguments):
    """Yields the kind and the name, with its version, of each symbol that nm lists."""
    for line in subprocess.run(["nm", *arguments], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 3:
            yield words[1], words[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("real", help="library of NVIDIA's whose functions are asked for")
    parser.add_argument("objects", nargs="*", help="object files of the pretend library")
    parser.add_argument("--stubs", type=pathlib.Path, required=True, help="C++ file to write")
    parser.add_argument("--versions", type=pathlib.Path, required=True, help="version script to write")
    parser.add_argument("--error", type=int, required=True, help="what a stub returns")
    options = parser.parse_args()

    exported = [name for kind, name in symbols("-D", "--defined-only", options.real) if kind in "TW"]
    versions = {name.split("@@")[1] for name in exported if "@@" in name}
    if len(versions) > 1:
        parser.error(f"{options.real} has symbols of several versions, {', '.join(sorted(versions))}; expected one, or none")
    names = {name.split("@")[0] for name in exported}
    names = {name for name in names if re.fullmatch(r"[A-Za-z]\w*", name) and not name.startswith("pnccl")}  # profilers alone ask for pnccl...
    if not names:
        parser.error(f"{options.real} exports no functions")
    ours = {name for kind, name in symbols("--defined-only", *options.objects) if kind == "T"} if options.objects else set()
    head = HEAD.format(real=pathlib.Path(options.real).name, error=options.error)
    options.stubs.write_text(head + "".join(f"STUB({name})\n" for name in sorted(names - ours)), encoding="utf-8")
    options.versions.write_text(f"{versions.pop() if versions else ''} {{ global: *; }};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
