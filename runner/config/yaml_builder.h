// SPDX-License-Identifier: MIT
// Receives yaml-cpp's events and builds the tree. It uses events rather than yaml-cpp's own nodes, which lose the marks
// of keys, accept the same key twice, and share nodes between aliases, so that a cycle is only found by recursing.
#pragma once

#include "config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <unordered_map>

namespace ddprun {

// Thrown out of yaml-cpp's parser if there is no point in continuing; the text is a full line.
struct UnreadableYaml {
  std::string text;
};

class YamlBuilder final : public YAML::EventHandler {
 public:
  YamlBuilder(std::string source, Problems& problems) : source_(std::move(source)), problems_(problems) {}

  Value take() { return std::move(root_); }
  Origin origin(const YAML::Mark& mark) const;

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is still open.
  struct Frame {
    Value value;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // in a map: the next value belongs to `key`
    bool keep = true;      // whether to keep that key
    std::string key;
    Origin key_origin;
    std::unordered_map<std::string, Origin> keys;  // all so far, for quick lookup: Value::find searches linearly
  };
  struct Anchor {
    Value value;
    size_t nodes = 0, depth = 0;
  };

  void open(Value value, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor);
  void close();
  void add(Value value);
  void take_key(Frame& frame, const Value& value);
  void remember(YAML::anchor_t anchor, const Value& value);
  void count(size_t nodes, size_t depth, const Origin& origin);
  void note(const Origin& origin, std::string_view key, std::string_view text);
  [[noreturn]] void stop(const Origin& origin, std::string_view text) const;

  std::string source_;
  Problems& problems_;
  Value root_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, Anchor> anchors_;
  size_t nodes_ = 0;
  int documents_ = 0;
};

}  // namespace ddprun
