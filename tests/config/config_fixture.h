// SPDX-License-Identifier: MIT
// An empty folder to write experiments into, which is the current folder while the test runs: places in messages are
// short.
#pragma once

#include "config/compose.h"
#include "config/experiment_reader.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

class ConfigFixture : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    auto name = (std::filesystem::temp_directory_path() / "ddprun_config_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = std::filesystem::canonical(name);
    std::filesystem::current_path(folder_);
  }

  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  void write(const std::filesystem::path& file, const std::string& text) const {
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

  // The composed tree of the file e.yaml with this text.
  Value composed(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    write("e.yaml", text);
    return compose({.experiment = "e.yaml", .overrides = overrides});
  }

  // The same as YAML, without the keys that composing fills in.
  std::string composed_yaml(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    auto value = composed(text, overrides);
    for (const auto* key : {"name", "loggers"}) {
      const auto* filled = value.find(key);
      if (filled && filled->origin().source == "default") value.erase(key);
    }
    return to_yaml(value, false);
  }

  // The text of the UserError that this throws.
  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  std::string compose_error(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return error_of([&] { composed(text, overrides); });
  }

  // A tree that has what every experiment needs.
  inline static const std::string kMinimal = "model: mlp\ndataset: digits\noptimizer: sgd\n";

  Experiment loaded(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    write("e.yaml", text);
    return load_experiment({.experiment = "e.yaml", .overrides = overrides});
  }

  std::string load_error(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return error_of([&] { loaded(text, overrides); });
  }

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path before_, folder_;
};

}  // namespace ddprun
