// SPDX-License-Identifier: MIT
// Sends the run to an experiment tracker: names tools/follow as the run's sidecar, which reads what the logger jsonl
// writes. Compiled once for each tracker, whose name the logger then has, and once as `follow`, which is given it.
#include <ddprun/error.h>
#include <ddprun/logger.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view kName = DDPRUN_LOGGER_NAME;

// <prefix>/share/ddprun/tools/follow; this library is <prefix>/lib/ddprun/plugins/loggers/<name>.so.
std::string follower() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&follower), &info);
  auto prefix = std::filesystem::absolute(info.dli_fname);
  for (int i = 0; i < 5; ++i) prefix = prefix.parent_path();
  return (prefix / "share/ddprun/tools/follow").string();
}

std::string default_python() {
  const char* of_package = std::getenv("DDPRUN_PYTHON");
  return of_package && *of_package ? of_package : "python3";
}

class Follow final : public ddprun::Logger {
 public:
  explicit Follow(ddprun::Options& options) {
    const auto python = options.get<std::string>("python", "",
                                                 "the Python that has the tracker's package; by default that of the "
                                                 "ddprun package, or python3");
    words_ = {python.empty() ? default_python() : python, "-B", follower(), "--to"};
    words_.push_back(kName != "follow" ? std::string(kName)
                                       : options.choose("to", "wandb", {"mlflow", "wandb"}, "the tracker"));
    take(options, "project", "default: the experiment's name, or the tracker's variable (WANDB_PROJECT)");
    take(options, "name", "of the run there; default: experiment/folder");
    take(options, "entity", "user or team (wandb)");
    take(options, "group", "runs of the same group are shown together (wandb)");
    take(options, "uri", "mlflow's tracking URI");
    std::string tags;
    for (const auto& tag : options.get<std::vector<std::string>>("tags", {}, "words that the run is found by"))
      tags += (tags.empty() ? "" : ",") + tag;
    if (!tags.empty()) add("tags", tags);
    if (options.get("offline", false, "write below the run's folder, to be sent later (wandb)"))
      words_.emplace_back("--offline");
    if (options.get("model", false, "send the best weights too, at the end")) words_.emplace_back("--model");
  }

  void start(const ddprun::RunStart&) override {}

  ddprun::Sidecar sidecar() const override { return {.name = words_[4], .command = words_, .reads = "jsonl"}; }

 private:
  void take(ddprun::Options& options, const std::string& name, std::string_view help) {
    const auto value = options.get<std::string>(name, "", help);
    // A command line is seen by every user of the machine, and config.yaml by every reader of the run.
    const auto scheme = value.find("://");
    const bool has_password = scheme != value.npos && value.find('@', scheme) < value.find('/', scheme + 3);
    if (has_password) return options.reject(name, "holds a name or a password; give them in the tracker's variables");
    if (!value.empty()) add(name, value);
  }

  void add(const std::string& name, const std::string& value) { words_.push_back("--" + name + "=" + value); }

  std::vector<std::string> words_;
};

}  // namespace

DDPRUN_LOGGER(Follow, DDPRUN_LOGGER_NAME, "sends the run to an experiment tracker through tools/follow")
