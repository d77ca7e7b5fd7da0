// SPDX-License-Identifier: MIT
#include <ddprun/batch.h>

namespace ddprun {

const char* split_name(Split split) {
  switch (split) {
    case Split::kTrain: return "train";
    case Split::kVal: return "val";
    case Split::kTest: return "test";
  }
  return "unknown";
}

}  // namespace ddprun
