// SPDX-License-Identifier: MIT
#include <ddprun/error.h>

namespace ddprun {

UserError::UserError(const std::string& text) : std::runtime_error(text) {}
UserError::~UserError() = default;

}  // namespace ddprun
