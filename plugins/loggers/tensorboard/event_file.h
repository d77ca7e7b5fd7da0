// SPDX-License-Identifier: MIT
// An event file in TensorBoard's format: records, each framed by its length and two checksums.
#pragma once

#include "message.h"

#include <ddprun/files.h>

#include <filesystem>

namespace ddprun::tensorboard {

class EventFile {
 public:
  // Creates a new file in `folder`, and the folder if needed. TensorBoard reads the files of a folder in the order of
  // their names, which begin with `time` (seconds since 1970). Throws UserError if it cannot be written.
  EventFile(const std::filesystem::path& folder, double time);

  // Writes an event with this Summary at optimizer step `step`, in one write: a process that is killed leaves whole
  // records.
  void write(double time, int64_t step, const Message& summary);

  // Forces the events to the disk.
  void sync() { file_.sync(); }

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  RecordFile file_;
};

}  // namespace ddprun::tensorboard
