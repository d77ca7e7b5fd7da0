// SPDX-License-Identifier: MIT
#include "data/account.h"

#include "base/log.h"
#include "base/terminal.h"
#include "plugin_host/plugin_call.h"

#include <algorithm>

namespace ddprun {
namespace {

int64_t left_alone(const DataAccount& account) {
  int64_t count = 0;
  for (const auto& left : account.left_alone) count += left.count;
  return count;
}

std::string counted(int64_t count, const std::string& unit) {
  return log::text(grouped(count), " ", unit, count == 1 ? "" : "s");
}

std::string use_text(const DataAccount& account) {
  const auto left = left_alone(account), all = account.used + left;
  if (all == 0) return "";
  if (left == 0)
    return account.used == 1 ? "the only " + account.unit + " used"
                             : log::text("all ", counted(all, account.unit), " used");
  auto text = log::text(grouped(left), " of ", counted(all, account.unit), " left alone");
  for (size_t i = 0; i < account.left_alone.size(); ++i) {
    const auto& one = account.left_alone[i];
    const auto between = i == 0 ? ": " : i + 1 < account.left_alone.size() ? ", " : " and ";
    text += log::text(between, grouped(one.count), " ", one.reason);
    if (!one.examples.empty()) text += (one.count > 1 ? " (such as " : " (") + one.examples.front() + ")";
  }
  return text;
}

}  // namespace

DataAccount account_of(const Dataset& dataset) {
  return in_plugin({"dataset", "account"}, [&] {
    auto account = dataset.account();
    std::erase_if(account.left_alone, [](const LeftAlone& left) { return left.count == 0; });
    return account;
  });
}

std::string account_text(const DataAccount& account) {
  auto text = use_text(account);
  for (const auto& note : account.notes) text += (text.empty() ? "" : "; ") + note;
  return log::shown(text);
}

nlohmann::ordered_json account_json(const DataAccount& account) {
  auto left = nlohmann::ordered_json::array();
  for (const auto& one : account.left_alone)
    left.push_back({{"reason", one.reason}, {"count", one.count}, {"examples", one.examples}});
  return {{"text", account_text(account)}, {"unit", account.unit},   {"used", account.used},
          {"left_alone", std::move(left)}, {"notes", account.notes}, {"digest", account.digest}};
}

}  // namespace ddprun
