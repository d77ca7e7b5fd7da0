// SPDX-License-Identifier: MIT
// Settings that exclude each other, such as trainer.global_batch and trainer.batch_per_worker. The later of two places
// wins: a key of the command line displaces its rival of any file, one of a file that of the files below it. Two rivals
// in one place stay, and the section that reads them refuses them.
#pragma once

#include "config/key_path.h"

#include <ddprun/value.h>

#include <string>
#include <vector>

namespace ddprun {

// Removes from `base` what a setting of `over` displaces, before `over` is put on top of it, and notes that in the
// setting's origin: "command line: trainer.global_batch=512, in place of batch_per_worker: 32 (mnist.yaml:9:12)". Both
// are trees from the root. Returns the paths of the displaced keys.
std::vector<KeyPath> displace_rivals(Value& base, Value& over);

// Returns why no default stands for a setting that is not written, in a reference such as ${trainer.global_batch}: its
// rival has displaced it, or decides it. Empty if one does.
std::string why_no_default(Value& root, const KeyPath& path);

// Returns whether the command line has this value.
bool is_of_command_line(const Value& value);

}  // namespace ddprun
