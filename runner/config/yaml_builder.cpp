// SPDX-License-Identifier: MIT
#include "config/yaml_builder.h"

namespace ddprun {
namespace {

constexpr std::string_view kStringTag = "tag:yaml.org,2002:str";

bool is_plain_tag(const std::string& tag) { return tag.empty() || tag == "?" || tag == "!"; }

}  // namespace

Origin YamlBuilder::origin(const YAML::Mark& mark) const {
  if (mark.is_null()) return {.source = source_};
  return {.source = source_, .line = mark.line + 1, .column = mark.column + 1};
}

void YamlBuilder::note(const Origin& origin, std::string_view key, std::string_view text) {
  std::string path;
  for (const auto& frame : stack_) {
    if (frame.value.is_map() && frame.has_key) path += frame.key + ".";
  }
  path += key;
  if (path.ends_with('.')) path.pop_back();
  problems_.push_back(problem_line(origin, path, text));
}

void YamlBuilder::stop(const Origin& origin, std::string_view text) const {
  throw UnreadableYaml{problem_line(origin, "", text)};
}

void YamlBuilder::OnDocumentStart(const YAML::Mark& mark) {
  if (++documents_ > 1) stop(origin(mark), "a second document begins here; one file holds one experiment");
}

void YamlBuilder::count(size_t nodes, size_t depth, const Origin& origin) {
  nodes_ += nodes;
  if (nodes_ > kMaxYamlNodes) {
    stop(origin, "more than " + std::to_string(kMaxYamlNodes) + " values once aliases are expanded");
  }
  if (stack_.size() + depth > kMaxYamlDepth) {
    stop(origin, "nested more than " + std::to_string(kMaxYamlDepth) + " levels deep");
  }
}

void YamlBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  Value null;
  auto place = origin(mark);
  // Uses the key's mark for a value that is not written at all, whose own mark is that of whatever comes next.
  const bool in_map = !stack_.empty() && stack_.back().has_key;
  if (in_map && stack_.back().key_origin.line != place.line) place = stack_.back().key_origin;
  null.set_origin(place);
  count(1, 0, place);
  remember(anchor, null);
  add(std::move(null));
}

void YamlBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const auto known = anchors_.find(anchor);
  if (known == anchors_.end()) stop(origin(mark), "a cycle: this alias stands for a value that contains it");
  count(known->second.nodes, known->second.depth, origin(mark));
  add(known->second.value);
}

void YamlBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& text) {
  const auto place = origin(mark);
  if (!is_plain_tag(tag) && tag != kStringTag) note(place, "", "the tag " + tag + " is not supported");
  auto value = Value::scalar(text, place, tag == "!" || tag == kStringTag);
  count(1, 0, place);
  remember(anchor, value);
  add(std::move(value));
}

void YamlBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                                  YAML::EmitterStyle::value) {
  open(Value::list(origin(mark)), mark, tag, anchor);
}

void YamlBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                             YAML::EmitterStyle::value) {
  open(Value::map(origin(mark)), mark, tag, anchor);
}

void YamlBuilder::open(Value value, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
  if (!is_plain_tag(tag)) note(origin(mark), "", "the tag " + tag + " is not supported");
  count(1, 1, origin(mark));
  stack_.push_back({.value = std::move(value), .anchor = anchor});
}

void YamlBuilder::close() {
  auto frame = std::move(stack_.back());
  stack_.pop_back();
  remember(frame.anchor, frame.value);
  add(std::move(frame.value));
}

void YamlBuilder::add(Value value) {
  if (stack_.empty()) {
    root_ = std::move(value);
    return;
  }
  auto& frame = stack_.back();
  if (frame.value.is_list()) {
    frame.value.items().push_back(std::move(value));
  } else if (!frame.has_key) {
    take_key(frame, value);
  } else {
    if (frame.keep) frame.value.entries().push_back({frame.key, frame.key_origin, std::move(value)});
    frame.has_key = false;
  }
}

void YamlBuilder::take_key(Frame& frame, const Value& value) {
  const auto& place = value.origin();
  frame.keep = false;
  if (!value.is_scalar()) {
    note(place, "", "a key must be a name, found " + describe(value));
  } else if (value.text().empty() || value.text().size() > kMaxKeyBytes) {
    note(place, "",
         "a key has 1 to " + std::to_string(kMaxKeyBytes) + " bytes, this one has " +
             std::to_string(value.text().size()));
  } else if (value.text() == "<<" && !value.quoted()) {
    note(place, "<<", "merge keys are unsupported; compose files with defaults: instead");
  } else if (const auto [first, is_new] = frame.keys.try_emplace(value.text(), place); !is_new) {
    note(place, value.text(), "written twice; first at " + first->second.text());
  } else {
    frame.keep = true;
  }
  frame.has_key = true;
  frame.key = value.is_scalar() ? value.text() : "?";
  frame.key_origin = place;
}

void YamlBuilder::remember(YAML::anchor_t anchor, const Value& value) {
  if (anchor == 0) return;
  anchors_[anchor] = {.value = value, .nodes = count_nodes(value), .depth = depth_of(value)};
}

}  // namespace ddprun
