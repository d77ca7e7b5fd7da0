// SPDX-License-Identifier: MIT
#include "sent_note.h"

#include <ddprun/file_error.h>
#include <ddprun/files.h>

#include <algorithm>

namespace ddprun::mlflow {

SentNote read_sent_note(const std::filesystem::path& file, const std::string& uri) try {
  const auto json = Json::parse(read_file(file).value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("uri", "") != uri) return {};
  return {.run = {json.value("experiment_id", ""), json.value("run_id", ""), json.value("artifact_uri", "")},
          .offset = std::max(json.value("offset", int64_t{0}), int64_t{0})};
} catch (const Json::exception&) {  // fields of the wrong type
  return {};
}

void write_sent_note(const std::filesystem::path& file, const std::string& uri, const SentNote& note) {
  const auto text = text_of({{"uri", uri},
                             {"experiment_id", note.run.experiment_id},
                             {"run_id", note.run.run_id},
                             {"artifact_uri", note.run.artifact_uri},
                             {"offset", note.offset}}) +
                    "\n";
  replace_file(file, text);
}

}  // namespace ddprun::mlflow
