# SPDX-License-Identifier: MIT
"""tools/dev/reference/run: the SDK's reference pages, made of the comments of its headers.

Skipped where there is no Doxygen, unless DDPRUN_REFERENCE=1 says that there has to be.
"""

import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CLONE = pathlib.Path(__file__).resolve().parents[2]
READ = ("CMakeLists.txt", "docs/plugins.md", "sdk/include", "tools/common.sh", "tools/dev/reference")


def code_of(header):
    """The header's words, without its comments; none of their texts holds two slashes."""
    return re.sub(r"//.*", "", header).split()


class Reference(unittest.TestCase):
    def setUp(self):
        self.clone = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-reference-")).resolve()
        self.addCleanup(shutil.rmtree, self.clone, ignore_errors=True)
        for name in READ:
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (CLONE / name).is_dir() else shutil.copy)(CLONE / name, self.clone / name)

    def reference(self):
        done = subprocess.run([self.clone / "tools/dev/reference/run"], check=False, capture_output=True, text=True)
        return done.returncode, done.stderr

    def change(self, header, old, new):
        path = self.clone / "sdk/include/ddprun" / header
        self.assertIn(old, path.read_text())
        path.write_text(path.read_text().replace(old, new))

    def comment_above(self, header, declaration):
        """Its last line, which no page tears apart."""
        text = (self.clone / "sdk/include/ddprun" / header).read_text()
        return re.search(r"// (.*)\n" + re.escape(declaration), text)[1].replace("`", "")

    def page(self, name):
        text = (self.clone / "build/reference/html" / name).read_text()
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", text)))

    def test_all_that_is_public_has_a_comment_which_is_on_its_page(self):
        odd = r"What is measured besides: \ref @file #one <b> 50% a--b & more."
        declaration = "  virtual std::vector<MetricSum> metrics("
        self.change("objective.h", declaration, f"  // {odd}\n{declaration}")
        self.assertEqual(self.reference(), (0, f"ddprun: wrote {self.clone}/build/reference/html/index.html\n"))
        for page, header, declaration in [
            ("classddprun_1_1Model.html", "model.h", "  virtual Step step("),
            ("structddprun_1_1Step.html", "model.h", "struct Step {"),
            ("model_8h.html", "model.h", "#define DDPRUN_MODEL("),
            ("namespaceddprun_1_1check.html", "testing/model.h", "std::string gradients("),
        ]:
            self.assertIn(self.comment_above(header, declaration), self.page(page))
        self.assertIn(odd, self.page("classddprun_1_1Objective.html"))
        self.assertIn("DDPRUN_DATASET", self.page("plugins.html"))
        self.assertEqual(list((self.clone / "build/reference/html").glob("*detail*.html")), [])

    def test_what_has_no_comment_is_named(self):
        self.change("model.h", "  virtual void prepare(", "\n  virtual void unexplained();\n\n  virtual void prepare(")
        code, text = self.reference()
        self.assertEqual(code, 1, text)
        self.assertIn("sdk/include/ddprun/model.h: Member unexplained() (function) of class ddprun::Model is not documented", text)

    def test_declarations_stay_as_they_are(self):
        """What Doxygen reads differs from a header in its comments alone."""
        subprocess.run([sys.executable, "-B", CLONE / "tools/dev/reference/documented.py", CLONE, self.clone / "to"], check=True,
                       stdout=subprocess.DEVNULL)
        headers = sorted((CLONE / "sdk/include").rglob("*.h"))
        self.assertGreater(len(headers), 20)
        for header in headers:
            documented = self.clone / "to/include" / header.relative_to(CLONE / "sdk/include")
            self.assertEqual(code_of(documented.read_text()), code_of(header.read_text()), header)


if __name__ == "__main__":
    if not shutil.which("doxygen") and os.environ.get("DDPRUN_REFERENCE") != "1":
        print("skipped: there is no doxygen; DDPRUN_REFERENCE=1 installs it")
        sys.exit(77)
    unittest.main()
