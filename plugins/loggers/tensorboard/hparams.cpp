// SPDX-License-Identifier: MIT
#include "hparams.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::tensorboard {
namespace {

enum { kVersion = 1, kStartInfo = 3, kEndInfo = 4 };                          // HParamsPluginData
enum { kHparams = 1, kGroupName = 4, kStartTime = 5, kKey = 1, kValue = 2 };  // SessionStartInfo, and its map
enum { kNumberValue = 2, kStringValue = 3, kBoolValue = 4 };                  // google.protobuf.Value
enum { kStatus = 1, kEndTime = 2 };                                           // SessionEndInfo
enum { kSuccess = 1, kFailure = 2 };

using Take = std::function<void(const std::string& path, const YAML::Node& value)>;

// They say where and when the run ran.
constexpr std::array<std::string_view, 5> kNoParameters{"run", "launch", "resources", "loggers", "plugin_path"};

// Calls `take` with the path (`optimizer.lr`) and node of every scalar and every list of the experiment.
void visit(const std::string& path, const YAML::Node& node, const Take& take) {
  if (node.IsScalar() || node.IsSequence()) take(path, node);
  if (!node.IsMap()) return;
  for (const auto& entry : node) {
    const auto& key = entry.first.Scalar();
    const bool left_out = path.empty() && std::ranges::find(kNoParameters, key) != kNoParameters.end();
    if (!left_out) visit(path.empty() ? key : path + "." + key, entry.second, take);
  }
}

Message value_of(const YAML::Node& node) {
  if (node.IsSequence()) return Message().bytes(kStringValue, YAML::Dump(node));
  const auto& text = node.Scalar();
  if (node.Tag() != "!") {  // a quoted text is a text
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return Message().real(kNumberValue, number);
    if (text == "true" || text == "false") return Message().integer(kBoolValue, text == "true" ? 1 : 0);
  }
  return Message().bytes(kStringValue, text);
}

void add(Message& info, const std::string& name, const Message& value) {
  info.message(kHparams, Message().bytes(kKey, name).message(kValue, value));
}

}  // namespace

Message session_start(const RunStart& run, double time) {
  Message info;
  visit("", YAML::Load(run.config_yaml),
        [&](const std::string& path, const YAML::Node& value) { add(info, path, value_of(value)); });
  add(info, "world_size", Message().real(kNumberValue, static_cast<double>(run.world_size)));
  info.bytes(kGroupName, run.run_dir.filename().string()).real(kStartTime, time);
  return Message().integer(kVersion, 0).message(kStartInfo, info);
}

Message session_end(const RunEnd& end, double time) {
  const auto info = Message().integer(kStatus, end.status == "failed" ? kFailure : kSuccess).real(kEndTime, time);
  return Message().integer(kVersion, 0).message(kEndInfo, info);
}

}  // namespace ddprun::tensorboard
