// SPDX-License-Identifier: MIT
// The standard output of commands.
#pragma once

namespace ddprun {

// Lets std::cout write to a terminal what is shown there and not obeyed, since names in a run's folder may be
// anybody's; and to a file as ever. Call it again where standard output has become another one.
void set_output();

// Returns the command's exit code, or that of a failure where standard output could not take the whole answer: a full
// disk may have cut off what a script then takes for all of it.
int with_whole_answer(int code);

}  // namespace ddprun
