// SPDX-License-Identifier: MIT
// Plugins under test, from their library, as the runner gets them.
#pragma once

#include <ddprun/error.h>
#include <ddprun/testing/settings.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace ddprun {
class Callback;
class Dataset;
class Logger;
class Model;
class Objective;
class Optimizer;
}  // namespace ddprun

namespace ddprun::check {

// Makes a new plugin object on each call. Loads nothing before the first; a library then stays loaded.
template <class Kind>
using Maker = std::function<std::shared_ptr<Kind>()>;

// Makes the plugin of this library (DDPRUN_PLUGIN) with these options. The maker throws UserError if the library is no
// such plugin, and for options that it does not take, with the messages of `ddprun check`.
Maker<Model> model_plugin(const std::filesystem::path& library, const Settings& settings = {});
Maker<Dataset> dataset_plugin(const std::filesystem::path& library, const Settings& settings = {});
Maker<Optimizer> optimizer_plugin(const std::filesystem::path& library, const Settings& settings = {});
Maker<Objective> objective_plugin(const std::filesystem::path& library, const Settings& settings = {});
Maker<Callback> callback_plugin(const std::filesystem::path& library, const Settings& settings = {});
Maker<Logger> logger_plugin(const std::filesystem::path& library, const Settings& settings = {});

// Returns what `ddprun check` says about these options, one line per mistake: "model.hidden: expected int >= 1, found
// 0".
std::string option_problems(const std::filesystem::path& library, const Settings& settings);

}  // namespace ddprun::check
