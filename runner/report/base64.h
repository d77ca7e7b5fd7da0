// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

std::string base64(std::string_view bytes);

}  // namespace ddprun
