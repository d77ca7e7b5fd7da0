// SPDX-License-Identifier: MIT
// What waits for MLflow's server, and the note of what it has got: the note up to a zero, then the lines.
#include "fuzz/fuzz_target.h"
#include "mlflow/history.h"
#include "mlflow/sent_note.h"

namespace ddprun {

void feed_spool(std::string_view bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  mlflow::read_sent_note(fuzz::as_file(bytes.substr(0, end), "sent.json"), "http://server");
  mlflow::read_history(fuzz::as_file(bytes.substr(std::min(end + 1, bytes.size())), "spool.jsonl"), 10);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(spool, feed_spool)
