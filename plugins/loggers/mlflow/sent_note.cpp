// SPDX-License-Identifier: MIT
#include "sent_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace ddprun::mlflow {

SentNote read_sent_note(const std::filesystem::path& file, const std::string& uri) {
  std::ifstream stream(file);
  const auto json = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("uri", "") != uri) return {};
  return {.run = {json.value("experiment_id", ""), json.value("run_id", ""), json.value("artifact_uri", "")},
          .offset = json.value("offset", int64_t{0})};
}

void write_sent_note(const std::filesystem::path& file, const std::string& uri, const SentNote& note) {
  const auto text = text_of({{"uri", uri},
                             {"experiment_id", note.run.experiment_id},
                             {"run_id", note.run.run_id},
                             {"artifact_uri", note.run.artifact_uri},
                             {"offset", note.offset}}) +
                    "\n";
  const auto temporary = file.string() + ".new";
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const auto failed = [&] { throw std::system_error(errno, std::generic_category(), file.string()); };
  if (descriptor < 0) failed();
  const bool whole = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool written = whole && fsync(descriptor) == 0;
  close(descriptor);
  if (!written) failed();
  std::filesystem::rename(temporary, file);
}

}  // namespace ddprun::mlflow
