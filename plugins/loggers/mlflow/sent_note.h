// SPDX-License-Identifier: MIT
#pragma once

#include "server.h"

#include <filesystem>

namespace ddprun::mlflow {

// <run>/mlflow/sent.json: to which run on which server the spool is sent, and how far that came.
struct SentNote {
  RemoteRun run;       // its run_id is empty where there is none yet
  int64_t offset = 0;  // of the first line that is not sent
};

// Of that server; another one's note, or one that cannot be read, is none.
SentNote read_sent_note(const std::filesystem::path& file, const std::string& uri);

// Replaces the file as a whole. Throws UserError.
void write_sent_note(const std::filesystem::path& file, const std::string& uri, const SentNote& note);

}  // namespace ddprun::mlflow
