// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/options.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::mlflow {

// The credentials that MLflow's own clients read from the environment. They are never printed or written.
struct Credentials {
  std::string username, password, token;
  bool verify_tls = true;
  std::string certificates;  // file of trusted certificates; empty for the system's
};

struct Settings {
  std::string uri;                     // of the server, without secrets and without a final slash
  std::string experiment;              // empty for the run's name
  std::string run_name;                // empty for the run folder's name
  std::vector<std::string> artifacts;  // files and folders of the run folder
  std::string checkpoint;              // "none", "best" or "last"
  int64_t timeout_seconds = 0;         // for one answer
  Credentials credentials;
};

Settings read_settings(Options& options);

}  // namespace ddprun::mlflow
