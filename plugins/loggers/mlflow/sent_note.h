// SPDX-License-Identifier: MIT
#pragma once

#include "server.h"

#include <filesystem>

namespace ddprun::mlflow {

// <run>/mlflow/sent.json: which run on which server the spool is sent to, and how far it is.
struct SentNote {
  RemoteRun run;       // its run_id is empty if there is none yet
  int64_t offset = 0;  // of the first unsent line
};

// Reads the note for this server; returns an empty one for another server's note or an unreadable file.
SentNote read_sent_note(const std::filesystem::path& file, const std::string& uri);

// Replaces the file as a whole. Throws UserError.
void write_sent_note(const std::filesystem::path& file, const std::string& uri, const SentNote& note);

}  // namespace ddprun::mlflow
