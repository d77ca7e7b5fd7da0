#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts pictures, tables and texts to what ddprun reads. See `ddprun docs data`.

    tools/convert shards pictures/ --out shards                  a folder for each class, below train/, val/ ... or not
    tools/convert shards train=a.parquet val=b.parquet --out shards --image image --label label
    tools/convert arrays train=a.csv val=b.csv --out arrays --target price
    tools/convert tokens train=books/ val=more.txt --out tokens --tokenizer tokenizer.json

A source is a folder of pictures, a .parquet, .csv or .tsv file, a folder of such, what `datasets` has saved with save_to_disk(), or, for
tokens, .txt files. SPLIT=SOURCE says what it is; a source without has its splits in it, or is train."""

import argparse
import importlib
import os
import pathlib
import sys

sys.dont_write_bytecode = True

from tooling.place import command  # noqa: E402
from tooling.start import run_tool, use_clones_python  # noqa: E402
from ddprun import UserError  # noqa: E402
from convert.account import Account  # noqa: E402
from convert.output import Output  # noqa: E402
from convert.sources import split_named, splits_in  # noqa: E402

FORMS = ("shards", "arrays", "tokens")  # modules of this package, which import what only they need
SIZES = {"M": 1 << 20, "G": 1 << 30}


def size(text):
    """Returns the bytes of "256M"."""
    number, unit = (text[:-1], SIZES[text[-1]]) if text[-1:] in SIZES else (text, 1)
    if not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected bytes, as 256M or 1G")
    return int(number) * unit


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog=command("convert"), description=__doc__.replace("tools/convert", command("convert")), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("form", choices=FORMS, help="shards: pictures in tar files; arrays: numbers in .safetensors; tokens: texts in .bin")
    add("sources", metavar="[SPLIT=]SOURCE", nargs="+")
    add("--out", required=True, metavar="FOLDER", help="made if it is missing")
    add("--image", default="image", metavar="COLUMN", help="shards: the pictures, or their paths (default image)")
    add("--label", default="label", metavar="COLUMN", help="shards: the classes, numbers or names (default label)")
    add("--shard-size", type=size, default=size("256M"), metavar="BYTES", help="shards: of a tar, about (default 256M)")
    add("--target", metavar="COLUMN", help="arrays: what is to be learned, by default target, label, class or y, or else the last column")
    add("--task", choices=("classification", "regression"), help="arrays: by default, whole numbers from 0 on and names are classes")
    add("--drop-missing", action="store_true", help="arrays: leave out rows with an empty value, nan or inf, and count them")
    add("--input", type=lambda text: text.split(","), metavar="A,B", help="arrays: by default all other columns")
    add("--text", default="text", metavar="COLUMN", help="tokens: of a table (default text)")
    add("--tokenizer", metavar="FILE", help="tokens: a tokenizer.json of the package tokenizers")
    add("--separator", metavar="TOKEN", help="tokens: put behind each text: '<|endoftext|>'")
    options = parser.parse_args()
    if options.input and options.target in options.input:
        parser.error(f"--input {options.target}: it is the target: a network would learn to copy it")
    if options.form == "tokens" and not options.tokenizer:
        parser.error("tokens needs --tokenizer")
    return options


def chosen_splits(words, account):
    """Returns {split: path} of SPLIT=SOURCE and SOURCE."""
    splits = {}
    for word in words:
        name, equals, path = word.partition("=")
        found = {split_named(name): path} if equals and split_named(name) else splits_in(word, account)
        for split, source in found.items():
            if not pathlib.Path(source).exists():
                raise UserError(f"{source}: no such file or folder")
            if split in splits:
                raise UserError(f"{split} comes twice, from {splits[split]} and {source}")
            splits[split] = pathlib.Path(source)
    return splits


def main():
    options = parse_arguments()
    try:
        form = importlib.import_module(f"convert.{options.form}")
        with Output(pathlib.Path(options.out)) as output:
            account = Account()
            lines = form.convert(chosen_splits(options.sources, account), output, options) + account.parts()
        print("\n".join(lines))
    except ImportError as error:
        if error.name in ("numpy", "safetensors"):
            use_clones_python()
        raise UserError(f"{error}: {sys.executable} -m pip install {error.name}") from None
    except OSError as error:
        raise UserError(f"{error.filename or options.out}: {error.strerror or error}") from error
    except KeyboardInterrupt:
        print(f"{command('convert')}: stopped; {options.out} is as it was", file=sys.stderr)
        sys.stderr.flush()
        os._exit(130)
    return 0


if __name__ == "__main__":
    run_tool(main, command("convert"))
