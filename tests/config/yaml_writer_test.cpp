// SPDX-License-Identifier: MIT
#include "config/config_fixture.h"

namespace ddprun {
namespace {

class YamlWriter : public ConfigFixture {
 protected:
  Value read_back(const Value& value) const {
    write("back.yaml", to_yaml(value, true));
    return load_yaml("back.yaml");
  }
};

void expect_same(const Value& a, const Value& b, const std::string& path = "") {
  EXPECT_EQ(a.kind(), b.kind()) << path;
  EXPECT_EQ(a.text(), b.text()) << path;
  EXPECT_EQ(a.quoted(), b.quoted()) << path << " " << a.text();
  ASSERT_EQ(a.items().size(), b.items().size()) << path;
  ASSERT_EQ(a.entries().size(), b.entries().size()) << path;
  for (size_t i = 0; i < a.items().size(); ++i) expect_same(a.items()[i], b.items()[i], path + "[]");
  for (size_t i = 0; i < a.entries().size(); ++i) {
    EXPECT_EQ(a.entries()[i].key, b.entries()[i].key);
    expect_same(a.entries()[i].value, b.entries()[i].value, path + "." + a.entries()[i].key);
  }
}

TEST_F(YamlWriter, WritesBlocksThatReadWell) {
  write(
      "a.yaml",
      "model: {plugin: mlp, sizes: [1, 2], none: null}\nloggers: [{plugin: csv, x: '7'}, a]\nempty: {l: [], m: {}}\n");
  EXPECT_EQ(to_yaml(load_yaml("a.yaml"), false),
            "model:\n"
            "  plugin: mlp\n"
            "  sizes:\n"
            "    - 1\n"
            "    - 2\n"
            "  none: null\n"
            "loggers:\n"
            "  - plugin: csv\n"
            "    x: \"7\"\n"
            "  - a\n"
            "empty:\n"
            "  l: []\n"
            "  m: {}\n");
}

TEST_F(YamlWriter, AlignsOriginsAsComments) {
  write("a.yaml", "seed: 7\nmodel: {plugin: mlp}\n");
  EXPECT_EQ(to_yaml(load_yaml("a.yaml"), true),
            "seed: 7        # a.yaml:1:7\n"
            "model:         # a.yaml:2:1\n"
            "  plugin: mlp  # a.yaml:2:17\n");
}

TEST_F(YamlWriter, KeepsAnOriginOnItsLine) {
  auto root = Value::map();
  root.set("a", Value::scalar("1", {.source = "command line: a='x\ny: 2'"}));
  EXPECT_EQ(to_yaml(root, true), "a: 1  # command line: a='x y: 2'\n");
}

TEST_F(YamlWriter, ReadsBackWhatItWrote) {
  write("a.yaml",
        "int: 7\nstring: '7'\nfloat: 1e-3\nbool: true\nquoted_bool: 'true'\nnull_text: 'null'\nnone: ~\ntilde: '~'\n"
        "empty: ''\nlist: []\nmap: {}\nnested: [[1, [2]], [], {a: [{b: c}]}]\nlines: |\n  one\n\n  two: 3\n"
        "colon: 'a: b'\nhash: 'a # b'\nunicode: 'Zürich 東京 🙂'\n'odd key: #': 1\n'null': 2\n'[x]': 3\ntab: "
        "\"a\\tb\\r\\x01\"\n"
        "negative: -5\ndash: '- x'\nminus: '-'\ndocument: '---'\nends: '...'\nquote: \"\\\"'\\\\\"\nspaces: '  x  '\n"
        "path: /a/b.so\nurl: 'http://x:1/'\nplain url: http://x:1/\ntwo words: a b\nequals: '='\ndollar: '${x}'\n"
        "percent: '%a'\nat: '@a'\nback: '`a'\nnel: \"a\\u0085b\\u2028c\\uFEFFd\"\n");
  const auto root = load_yaml("a.yaml");
  expect_same(root, read_back(root));
}

TEST_F(YamlWriter, KeepsPlainTextsPlain) {
  for (const std::string text :
       {"7", "-7", "+7", "1e-3", "0x1F", ".5", "true", "a b", "a:b", "http://x:1/", "c#d", "${a}"}) {
    auto root = Value::map();
    root.set("k", Value::scalar(text));
    EXPECT_EQ(to_yaml(root, false), "k: " + text + "\n");
    expect_same(root, read_back(root));
  }
}

TEST_F(YamlWriter, WritesAnEmptyTree) { EXPECT_EQ(to_yaml(Value::map(), true), "{}\n"); }

TEST_F(YamlWriter, ReadsBackRandomTexts) {
  uint32_t state = 1;
  const auto next = [&state] { return state = state * 1664525U + 1013904223U, state >> 24; };
  const std::string alphabet = " \n\t:#-?[]{},&*!|>'\"%@`~=\\/.+0123aezNul\x7F\x01";
  for (int round = 0; round < 500; ++round) {
    auto root = Value::map();
    auto& list = root.set("k", Value::list());
    std::string text;
    for (auto length = next() % 12; length > 0; --length) text += alphabet[next() % alphabet.size()];
    list.items().push_back(Value::scalar(text, {}, true));
    root.set("x" + text, Value::scalar(text, {}, true));
    expect_same(root, read_back(root), text);
  }
}

}  // namespace
}  // namespace ddprun
