// SPDX-License-Identifier: MIT
// The one exception for mistakes of the user: in the experiment file, in a plugin's options, in the data.
//
// Its text says where ("mnist.yaml:12:5: model.hiden"), what was found, what was expected and what to do. The program
// prints the text alone, without a stack trace, and ends with exit code 2 (1 where it happens while running). A failure
// of our own is any other exception.
#pragma once

#include <ddprun/api.h>

#include <stdexcept>
#include <string>

namespace ddprun {

class DDPRUN_API UserError : public std::runtime_error {
 public:
  // All that the user is to read.
  explicit UserError(const std::string& text);
  ~UserError() override;  // defined in the library: one type information for all who catch it
};

}  // namespace ddprun
