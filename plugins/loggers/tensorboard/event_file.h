// SPDX-License-Identifier: MIT
// One file of events as TensorBoard reads it: records, each framed by its length and two checksums.
#pragma once

#include "log_file.h"
#include "message.h"

#include <filesystem>
#include <string>

namespace ddprun::tensorboard {

class EventFile {
 public:
  // A new file in `folder`, which is made; TensorBoard reads those of one folder in the order of their names, `time`
  // (seconds since 1970) first. Throws UserError where it cannot be written.
  EventFile(const std::filesystem::path& folder, double time);

  // An event with this Summary at optimizer step `step`. In one write: whatever is killed leaves whole records.
  void write(double time, int64_t step, const Message& summary);

  // Forces the events to the disk.
  void sync() { file_.sync(); }

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  log_file::RecordFile file_;
};

// The frame: length, its checksum, the content, its checksum (tensorboard/summary/writer/record_writer.py).
std::string framed(const std::string& content);

}  // namespace ddprun::tensorboard
