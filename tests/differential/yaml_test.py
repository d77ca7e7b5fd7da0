# SPDX-License-Identifier: MIT
"""Experiments as we read them against PyYAML: odd documents, and what options make of numbers.

What both take has the same texts, lists and maps, and the same scalars are null and quoted. ONLY_PYYAML and ONLY_OURS list what one of
the two refuses. PyYAML reads YAML 1.1, we read 1.2.
"""

import math
import random
import unittest

from readers import ReaderTest, require

require("yaml")
import yaml  # noqa: E402

# What we refuse: part of our text.
ONLY_PYYAML = {
    "a number by its tag": "is not supported",  # an option has the type that its reader asks for
    "a tag of one's own": "is not supported",
    "a tag of Python": "is not supported",
    "a key twice": "written twice",
    "a key twice, once in quotes": "written twice",
    "a merge": "merge keys are unsupported",
    "a key that is a list": "a key must be a name",
    "a key that is null": "a key must be a name",
    "an empty key": "a key has 1 to 256 bytes",
    "ends of lines of old": "not valid YAML",
    "too deep": "nested more than 64 levels deep",
}

# What PyYAML refuses, and what we make of it.
ONLY_OURS = {
    "an anchor defined anew": {"a": "1", "b": "1", "c": "2", "d": "2"},  # 1.2 allows it
    "a directive without a document": {"a": "1"},
    "a tab at the end": {"a": "1", "b": "2"},  # tabs separate, but do not indent
    "a tab after the colon": {"a": "1"},
    "a tab within": {"a": "b\tc"},
    "a next line of Unicode": {"a": "x\u0085y"},  # letters in 1.2, ends of lines in 1.1
    "a line separator": {"a": "x\u2028y"},
    "commas alone": {"a": [None]},  # no option takes a list with a null in it
    "two commas": {"a": ["1", None, "2"]},
}

DOCUMENTS = {
    "nothing": "",
    "a comment": "# alone\n",
    "a scalar": "text",
    "a map": "a: 1\nb: [2, 3]\nc: {d: e}\n",
    "nested maps": "a:\n  b:\n    c: 1\n  d: 2\n",
    "lists in a map, not indented": "a:\n- 1\n- 2\nb: 3\n",
    "maps in a list": "- a: 1\n  b: 2\n- c: 3\n",
    "lists in lists": "- - 1\n  - 2\n- - 3\n",
    "empty collections": "a: []\nb: {}\nc: [[], {}]\n",
    "empty values": "a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: nUll\ng: ''\nh: [~, null]\n",
    "an empty item": "-\n- 1\n-\n",
    "a comma at the end": "a: [1, 2,]\nb: {c: 1,}\n",
    "flow over lines": "a: [1,\n  2,\n  3]\nb: {c: 1,\n    d: 2}\n",
    "a key without a value in flow": "a: {b, c: 1}\n",
    "a pair in a list in flow": "a: [b: 1]\n",
    "single quotes": "a: 'it''s'\nb: ' spaces '\nc: 'two\n  lines'\n",
    "double quotes": "a: \"tab\\tnew\\nline \\\"q\\\" \\\\ \\u00e4 \\x41 \\U0001F600\"\nb: \"a\\\n  b\"\n",
    "an escape that is none": "a: \"\\q\"\n",
    "a literal block": "a: |\n  one\n   two\n\n  three\nb: 1\n",
    "a literal block without the end": "a: |-\n  one\n  two\n\nb: 1\n",
    "a literal block with all ends": "a: |+\n  one\n\n\nb: 1\n",
    "a folded block": "a: >\n  one\n  two\n\n  three\n   more\n  four\nb: 1\n",
    "a block with its indent reported": "a: |2\n    one\n  two\n",
    "a literal block at the end": "a: |\n  one",
    "a literal block with all ends at the end": "a: |+\n  one\n\n\n",
    "a folded block at the end": "a:\n  - >\n    one\n    two\n",
    "a comment at the end": "a: 1\n# comment\n",
    "a list at the end": "a:\n- 1\n- \n",
    "an empty block": "a: |\nb: >-\n",
    "a plain scalar over lines": "a: one\n  two\n  three\nb: 1\n",
    "a plain scalar with an empty line": "a: one\n\n  two\n",
    "a colon within": "a: b:c\nb: http://x/y?z=1\nc: a::b\n",
    "a hash within": "a: b#c\nb: d # comment\nc: '#'\n",
    "dashes within": "a: -b\nb: --\nc: a-b\n",
    "signs at the begin": "a: .5\nb: ?x\nc: -x\nd: :x\n",
    "a percent sign": "a: 50%\n",
    "an exclamation mark within": "a: b!c\n",
    "brackets within": "a: b[0]\nb: x{y}\n",
    "an asterisk in quotes": "a: '*x'\n",
    "an at sign": "a: @x\n",
    "a backtick": "a: `x`\n",
    "a dollar": "a: $x\nb: ${c}\n",
    "a reference in flow": "a: [${b}]\n",
    "an anchor": "a: &x {b: 1}\nc: *x\n",
    "an anchor of a scalar": "a: &x 5\nb: [*x, *x]\n",
    "an anchor of a list": "a: &x\n- 1\n- 2\nb: *x\n",
    "an anchor defined anew": "a: &x 1\nb: *x\nc: &x 2\nd: *x\n",
    "an anchor of nothing": "a: &x\nb: *x\n",
    "an alias without an anchor": "a: *x\n",
    "a string by its tag": "a: !!str 5\nb: ! 6\nc: !!str\n",
    "a number by its tag": "a: !!int 5\n",
    "a tag of one's own": "a: !mine 5\n",
    "a tag of Python": "a: !!python/object/apply:os.system [true]\n",
    "a begin of a document": "---\na: 1\n",
    "an end of a document": "a: 1\n...\n",
    "a begin with a comment": "--- # begin\na: 1\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "two ends": "a: 1\n...\n...\n",
    "text after the end": "a: 1\n...\nb: 2\n",
    "a version": "%YAML 1.1\n---\na: 1\n",
    "a directive without a document": "%YAML 1.1\na: 1\n",
    "a key twice": "a: 1\na: 2\n",
    "a key twice, once in quotes": "a: 1\n'a': 2\n",
    "a merge": "a: &x {b: 1}\nc:\n  <<: *x\n",
    "a merge in quotes": "'<<': 1\n",
    "a key that is a list": "? [1, 2]\n: x\n",
    "a key that is null": "~: x\n",
    "an empty key": "'': x\n",
    "a key without a name": ": x\n",
    "a question mark": "? a\n: 1\n? b\n",
    "keys of other types": "1: a\ntrue: b\n1.5: c\n",
    "a key in quotes": "'a b': 1\n\"c:d\": 2\n",
    "a key with spaces": "a b c: 1\n",
    "spaces before the colon": "a : 1\nb  : 2\n",
    "no space after the colon": "a:1\n",
    "no space after the colon in flow": "{a:1}\n",
    "no space after quotes in flow": "{\"a\":1, 'b':2}\n",
    "JSON": "{\"a\": [1, 2.5, true, null, \"x\"], \"b\": {}}\n",
    "ends of lines of Windows": "a: 1\r\nb:\r\n  - 2\r\n  - 'x\r\n    y'\r\n",
    "ends of lines of old": "a: 1\rb: 2\r",
    "no end of line": "a: 1",
    "spaces at the end": "a: 1   \nb:   \n",
    "a tab at the end": "a: 1\t\nb: 2\t# comment\n",
    "a tab after the colon": "a:\t1\n",
    "a tab as indent": "a:\n\tb: 1\n",
    "a tab within": "a: b\tc\n",
    "a mark of the byte order": "\ufeffa: 1\n",
    "letters of all kinds": "\xe4: \u4e2d\u6587\nb: \U0001f600\n",
    "a space that is none": "a:\u00a01\nb: x\u00a0y\n",
    "a next line of Unicode": "a: x\u0085y\n",
    "a line separator": "a: x\u2028y\n",
    "a control character": "a: x\x07y\n",
    "a zero": "a: x\x00y\n",
    "delete": "a: x\x7fy\n",
    "not closed": "a: [1, 2\n",
    "a quote not closed, of the other kind": "a: \"x\nb: 1\n\n",
    "a quote not closed": "a: 'x\nb: 1\n",
    "closed too often": "a: [1]]\n",
    "closed by the other": "a: [1}\n",
    "a wrong indent": "a:\n    b: 1\n  c: 2\n",
    "a map on a line of a scalar": "a: b: c\n",
    "a list on a line of a key": "a: - 1\n",
    "a list and a map": "- 1\na: 2\n",
    "a scalar and a map": "a: 1\nb\n",
    "two scalars": "'a' 'b'\n",
    "a comment without a space": "a: 1#b\nb: [1,#c\n 2]\n",
    "commas alone": "a: [,]\n",
    "two commas": "a: [1,,2]\n",
    "deep, but not too deep": "a: " + "[" * 60 + "]" * 60 + "\n",
    "too deep": "a: " + "[" * 70 + "]" * 70 + "\n",
}


class Yaml(ReaderTest):
    def theirs(self, text):
        """PyYAML's nodes in the form that ours have."""
        class Loader(yaml.SafeLoader):
            def compose_scalar_node(self, anchor):
                event = self.peek_event()
                node = super().compose_scalar_node(anchor)
                node.quoted = event.style is not None or event.tag in ("!", "tag:yaml.org,2002:str")
                return node

        def convert(node):
            if isinstance(node, yaml.SequenceNode):
                return [convert(item) for item in node.value]
            if isinstance(node, yaml.MappingNode):
                return {"map": [[key.value, convert(value)] for key, value in node.value]}
            if node.tag == "tag:yaml.org,2002:null":
                return None
            return {"quoted" if node.quoted else "plain": node.value}
        node = yaml.compose(text, Loader=Loader)
        return None if node is None else convert(node)

    def ours(self, text):
        def without_types(value):
            if isinstance(value, list):
                return [without_types(item) for item in value]
            if isinstance(value, dict) and "map" in value:
                return {"map": [[key, without_types(item)] for key, item in value["map"]]}
            return {"plain": value["plain"]} if isinstance(value, dict) and "plain" in value else value
        return without_types(self.read("yaml", text.encode()))

    def test_odd_documents_are_what_pyyaml_makes_of_them(self):
        for name, text in DOCUMENTS.items():
            with self.subTest(name):
                if name in ONLY_OURS:
                    with self.assertRaises(yaml.YAMLError):
                        self.theirs(text)
                    self.assertEqual(self.ours(text), plain(ONLY_OURS[name]))
                elif name in ONLY_PYYAML:
                    self.assert_only_theirs("yaml", text.encode(), self.theirs, ONLY_PYYAML[name])
                elif self.assert_same_verdict("yaml", text.encode(), self.theirs):
                    self.assertEqual(self.ours(text), self.theirs(text))

    def test_numbers_are_what_python_makes_of_them(self):
        chance = random.Random(24)
        texts = ["0", "-0", "+0", "007", "010", "0x10", "0o17", "0b1", "1_000", "1:30", "1e3", "1E+3", "1e400", "-1e-400", "1.", ".5", "-.5",
                 "+.5", "+-5", "--5", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "inf", ".inf", "-.inf",
                 "nan", ".nan", "infinity", "1e", "e1", "0x1p3", "1.5f", "1d3", "1,5", "true", "True", "yes", "on", "y", "false"]
        texts += ["".join(chance.choices("0123456789+-._eEx", k=chance.randint(1, 9))) for _ in range(5000)]
        texts = [text for text in texts if not text.startswith(("---", "...")) and text not in ("-", "--")]
        for text, value in zip(texts, self.read("yaml", "".join(f"- {text}\n" for text in texts).encode()), strict=True):
            with self.subTest(text):
                self.compare_number(text, value, yaml.safe_load(text))

    def compare_number(self, text, ours, theirs):
        """A number that we take is decimal, as Python reads it, and of the same type as PyYAML's but where 1.1 differs."""
        if ours["bool"] is not None:
            self.assertIs(ours["bool"], theirs)
        if ours["int"] is not None:
            self.assertEqual(ours["int"], int(text))
            self.assertTrue(theirs == int(text) or text.lstrip("+-").startswith("0"), theirs)  # 010 is 8 to PyYAML
        if ours["float"] is not None:
            self.assertEqual(ours["float"], float(text))
            self.assertNotIn("_", text)
        elif isinstance(theirs, float) and math.isfinite(theirs):
            self.assertTrue(set(text) & set("_:") or text.endswith(("e400", "e-400")), f"only PyYAML takes it for {theirs}")


def plain(value):
    """Lists and maps of plain texts, in the form that the program prints."""
    if isinstance(value, dict):
        return {"map": [[key, plain(item)] for key, item in value.items()]}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if value is None else {"plain": value}


if __name__ == "__main__":
    unittest.main()
