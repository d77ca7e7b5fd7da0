// SPDX-License-Identifier: MIT
#include "config/rivals.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// Whether a value asks for what its rival excludes: batch_per_worker: 0 displaces nothing.
using Asks = bool (*)(const Value& value);

bool is_written(const Value& value) { return !value.is_null(); }
bool is_above_zero(const Value& value) { return std::strtod(value.text().c_str(), nullptr) > 0; }
bool is_true(const Value& value) { return !value.text().empty() && (value.text()[0] | 0x20) == 't'; }
bool is_false(const Value& value) { return !value.text().empty() && (value.text()[0] | 0x20) == 'f'; }
bool is_dp(const Value& value) { return value.text() == "dp"; }
bool is_another_than_none(const Value& value) { return value.text() != "none"; }
bool is_another_than_all(const Value& value) { return value.text() != "all"; }
bool is_every_step(const Value& value) { return value.text() == "every_step"; }

bool is_one_number_of_nodes(const Value& value) {
  return is_above_zero(value) && value.text().find(':') == std::string::npos;
}

struct Setting {
  const char* key;
  Asks asks;
  bool decided_by_rival = false;  // so that its default is not what holds
};

// To add a pair: a line here, and its refusal where they are read, for both in one place.
constexpr auto kRivals = std::to_array<std::pair<Setting, Setting>>({
    {{"trainer.global_batch", is_written, true}, {"trainer.batch_per_worker", is_above_zero}},
    {{"trainer.clip_norm", is_above_zero}, {"trainer.clip_value", is_above_zero}},
    {{"trainer.find_unused_parameters", is_true}, {"trainer.static_graph", is_true}},
    {{"trainer.sampling", is_written}, {"trainer.shuffle", is_false}},
    {{"trainer.sampling", is_written}, {"trainer.overfit_batches", is_above_zero}},
    {{"trainer.strategy", is_dp}, {"trainer.sync_batchnorm", is_true}},
    {{"trainer.strategy", is_dp}, {"trainer.find_unused_parameters", is_true}},
    {{"trainer.strategy", is_dp}, {"trainer.static_graph", is_true}},
    {{"trainer.strategy", is_dp}, {"trainer.gradient_compression", is_another_than_none}},
    {{"trainer.strategy", is_dp}, {"trainer.broadcast_buffers", is_every_step}},
    {{"trainer.strategy", is_dp}, {"trainer.shard_optimizer", is_true}},
    {{"trainer.shards", is_above_zero}, {"trainer.strategy", is_dp}},
    {{"trainer.shards", is_above_zero}, {"trainer.sync_batchnorm", is_true}},
    {{"trainer.shards", is_above_zero}, {"trainer.micro_batch", is_another_than_all}},
    {{"trainer.shards", is_above_zero}, {"trainer.gradient_compression", is_another_than_none}},
    {{"trainer.shards", is_above_zero}, {"trainer.static_graph", is_true}},
    {{"trainer.shards", is_above_zero}, {"trainer.batch_per_worker", is_above_zero}},
    {{"trainer.shards", is_above_zero}, {"trainer.deterministic", is_false}},
    {{"resources.cpus_per_node", is_above_zero}, {"resources.cpus_per_worker", is_above_zero}},
    {{"resources.nodes", is_above_zero}, {"launch.nodes", is_one_number_of_nodes}},
});

Value* asking(Value& root, const KeyPath& path, const Setting& setting) {
  auto* value = find_at(root, path);
  const bool is_reference = value && value->text().find("${") != std::string::npos;  // to something, most likely
  return value && (is_reference || setting.asks(*value)) ? value : nullptr;
}

std::string shown(const Value& value) { return value.is_scalar() ? value.text() : describe(value); }

std::string name_beside(const KeyPath& other, const KeyPath& path) {
  return other.front() == path.front() ? other.back() : to_text(other);
}

std::string in_place_of(const std::string& name) { return ", in place of " + name + ": "; }

// Notes in a setting's origin what it has displaced.
void note(Value& root, const KeyPath& path, const KeyPath& displaced, const Value& value) {
  auto& section = *find_at(root, {path.front()});
  const auto entry = std::ranges::find(section.entries(), path.back(), &Value::Entry::key);
  const auto place = value.origin().text();
  const auto cause =
      in_place_of(name_beside(displaced, path)) + shown(value) + (place.empty() ? "" : " (" + place + ")");
  entry->value.set_origin({.source = entry->value.origin().text() + cause});
  entry->key_origin = {.source = entry->key_origin.text() + cause};
}

}  // namespace

std::vector<KeyPath> displace_rivals(Value& base, Value& over) {
  std::vector<KeyPath> displaced;
  const auto displace = [&](const Setting& winner, const Setting& loser) {
    const auto path = *parse_key_path(winner.key), other = *parse_key_path(loser.key);
    const auto *given = asking(over, path, winner), *rival = asking(base, other, loser);
    if (!given || !rival || asking(over, other, loser)) return;
    if (is_of_command_line(*given) && is_of_command_line(*rival)) return;
    note(over, path, other, *rival);
    base.find(other.front())->erase(other.back());
    displaced.push_back(other);
  };
  for (const auto& [one, another] : kRivals) {
    displace(one, another);
    displace(another, one);
  }
  return displaced;
}

std::string why_no_default(Value& root, const KeyPath& path) {
  std::string why;
  const auto ask = [&](const Setting& setting, const Setting& rival) {
    const auto other = *parse_key_path(rival.key);
    if (*parse_key_path(setting.key) != path || find_at(root, path)) return;
    const auto* decides = asking(root, other, rival);
    const bool displaced =
        decides && decides->origin().text().find(in_place_of(name_beside(path, other))) != std::string::npos;
    if (displaced || (decides && setting.decided_by_rival))
      why = "is not set: " + to_text(other) + " is, in its place (" + decides->origin().text() +
            "); write the number itself";
  };
  for (const auto& [one, another] : kRivals) {
    ask(one, another);
    ask(another, one);
  }
  return why;
}

bool is_of_command_line(const Value& value) { return value.origin().source.starts_with("command line"); }

}  // namespace ddprun
