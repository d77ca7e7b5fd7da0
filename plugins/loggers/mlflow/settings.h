// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/options.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::mlflow {

// As MLflow's own clients read them from the environment. Never printed, never written.
struct Credentials {
  std::string username, password, token;
  bool verify_tls = true;
  std::string certificates;  // file of those to trust; empty for the system's
};

struct Settings {
  std::string uri;                     // of the server, with nothing secret in it and no slash at its end
  std::string experiment;              // empty for the run's name
  std::string run_name;                // empty for the run folder's
  std::vector<std::string> artifacts;  // files and folders of the run folder
  std::string checkpoint;              // "none", "best" or "last"
  int64_t timeout_seconds = 0;         // for one answer
  Credentials credentials;
};

Settings read_settings(Options& options);

}  // namespace ddprun::mlflow
