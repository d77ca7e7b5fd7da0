// SPDX-License-Identifier: MIT
// The operators of LibTorch that something calls.
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <vector>

namespace ddprun {

// Their names, "aten::bmm", in the order of the calls, those that an operator makes itself too. From this thread only.
template <class Call>
std::vector<std::string> calls_of(Call call) {
  static thread_local std::vector<std::string> names;
  names.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        names.emplace_back(function.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  call();
  at::removeCallback(handle);
  return names;
}

}  // namespace ddprun
