# SPDX-License-Identifier: MIT
"""Writes texts as the numbers of their tokens, for the dataset `tokens`; nanoGPT reads the same files."""

import pathlib
import shutil

import numpy
from tokenizers import Tokenizer

from ddprun import UserError
from convert.account import Account
from convert.sources import TEXTS, files_of, text_lines
from convert.tables import Table, is_table

AT_ONCE = 64  # texts that are given to the tokenizer together


def convert(splits, output, options):
    """Returns a line to be told for each split."""
    tokenizer, separator = read_tokenizer(options)
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    vocabulary = max(tokenizer.get_vocab().values()) + 1  # there may be gaps
    dtype = numpy.dtype("uint16" if vocabulary <= 1 << 16 else "uint32")
    lines = []
    for split, path in splits.items():
        account, tokens, texts = Account(), 0, 0
        with open(output.file(f"{split}.bin"), "wb") as stream:
            for batch in batches(texts_of(path, options, account)):
                for encoded in tokenizer.encode_batch(batch, add_special_tokens=False):
                    if unknown in encoded.ids:
                        account.change("tokens that the tokenizer does not know", path, encoded.ids.count(unknown))
                    ids = encoded.ids if separator is None else [*encoded.ids, separator]
                    stream.write(numpy.array(ids, dtype.newbyteorder("<")).tobytes())
                    tokens += len(ids)
                texts += len(batch)
                output.progress(f"{split}: {texts:,} texts, {tokens:,} tokens")
        if not tokens:
            raise UserError(f"{path}: there is no text in it")
        note = {"dtype": dtype.name, "tokens": tokens, "vocabulary": vocabulary, "tokenizer": "tokenizer.json"}
        if separator is not None:
            note["separator"] = separator
        output.write_json(f"{split}.bin.json", note)
        lines.append(account.line(f"{split}: {texts:,} texts, {tokens:,} tokens, {dtype}"))
    shutil.copyfile(options.tokenizer, output.file("tokenizer.json"))
    return lines


def read_tokenizer(options):
    """Returns the tokenizer, and the number of the separator; None if there is none."""
    if not pathlib.Path(options.tokenizer).is_file():
        raise UserError(f"{options.tokenizer}: no such file")
    try:
        tokenizer = Tokenizer.from_file(options.tokenizer)
    except Exception as error:  # that is what it throws
        raise UserError(f"{options.tokenizer}: it is not a tokenizer.json: {str(error).splitlines()[0]}") from None
    tokenizer.no_truncation()  # what a model's file sets for single sentences
    tokenizer.no_padding()
    if not options.separator:
        return tokenizer, None
    number = tokenizer.token_to_id(options.separator)
    if number is None:
        raise UserError(f"--separator {options.separator}: {options.tokenizer} has no such token")
    return tokenizer, number


def texts_of(path, options, account):
    """Yields each text: of a row, or of a file."""
    if is_table(path):
        for place, row in Table(path, account, [options.text]).rows():
            if not isinstance(row[options.text], str):
                raise UserError(f"{place}: the column {options.text} holds {type(row[options.text]).__name__}, expected a text")
            yield row[options.text]
        return
    for file in files_of(path, TEXTS, account):
        yield "".join(text_lines(file))


def batches(texts):
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
