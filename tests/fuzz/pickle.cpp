// SPDX-License-Identifier: MIT
// Python's pickles, as CIFAR's files are.
#include "fuzz/fuzz_target.h"
#include "python_pickle.h"

namespace ddprun {

void feed_pickle(std::string_view bytes) {
  const cifar::PythonPickle pickle("input", std::string(bytes));
  pickle.numbers("labels");
  pickle.texts("filenames");
  pickle.bytes("data", 2);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(pickle, feed_pickle)
