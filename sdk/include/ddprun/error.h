// SPDX-License-Identifier: MIT
// The one exception for user mistakes: in the experiment file, a plugin's options, or the data.
//
// Its text says where ("mnist.yaml:12:5: model.hiden"), what was found, what was expected and what to do. The program
// prints only the text, without a stack trace, and exits with code 2 (or 1, if it happens during the run). Any other
// exception is an internal failure.
#pragma once

#include <ddprun/api.h>

#include <stdexcept>
#include <string>

namespace ddprun {

class DDPRUN_API UserError : public std::runtime_error {
 public:
  // `text` is all that the user will read.
  explicit UserError(const std::string& text);
  ~UserError() override;  // defined in the library, so that everyone who catches it sees the same type information
};

}  // namespace ddprun
