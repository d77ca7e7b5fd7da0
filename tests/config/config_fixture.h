// SPDX-License-Identifier: MIT
// An empty folder to write experiments into, which is the current folder while the test runs: places in messages are
// short.
#pragma once

#include "config/compose.h"
#include "config/experiment_reader.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace ddprun {

// A text that is refused, and what is said of it.
struct Refusal {
  std::string text;
  testing::Matcher<std::string> message;
};

class ConfigFixture : public FolderTest {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
  }

  void TearDown() override { std::filesystem::current_path(before_); }

  void write(const std::filesystem::path& file, const std::string& text) const {
    FolderTest::write(folder_ / file, text);
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

  std::string compose_error(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return error_of([&] { composed(text, overrides); });
  }

  void expect_compose_refuses(const std::vector<Refusal>& refusals) const {
    for (const auto& [text, message] : refusals) EXPECT_THAT(compose_error(text), message) << text;
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

  // The texts stand after the three lines of kMinimal.
  void expect_load_refuses(const std::vector<Refusal>& refusals) const {
    for (const auto& [text, message] : refusals) EXPECT_THAT(load_error(kMinimal + text), message) << text;
  }

 private:
  std::filesystem::path before_;
};

}  // namespace ddprun
