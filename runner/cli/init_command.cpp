// SPDX-License-Identifier: MIT
// `ddprun init DATA`: looks at data, says what they are, and writes a first experiment for them.
#include "base/log.h"
#include "base/run_files.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/first_experiment.h"
#include "cli/found_data.h"
#include "cli/table_arrays.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "data/account.h"
#include "launch/worker_process.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "shown_text.h"
#include "submit/submission.h"

#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <ATen/ops/equal.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNumbersLookedAt = 10'000'000;  // of a split's inputs
constexpr int64_t kProbeSize = 32;                // side of the pictures that are looked at for their colours

Value number(int64_t value) { return Value::scalar(std::to_string(value)); }

Value number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return Value::scalar(text);
}

// A dataset that the plugin has opened.
std::shared_ptr<Dataset> opened(const PluginHost& plugins, const std::string& plugin, const Value& options) try {
  const auto dataset = plugins.make_dataset({.plugin = plugin, .options = options, .path = "dataset"});
  in_plugin({"dataset", "prepare"}, [&] { dataset->prepare([](const std::string&, int64_t, int64_t) {}); });
  in_plugin({"dataset", "start"}, [&] { dataset->start(); });
  return dataset;
} catch (const FromPlugin& error) {
  throw UserError(error.problem);
}

using Changes = std::vector<std::pair<std::string, Value>>;  // of the dataset's options

// Returns those of dataset.KEY=VALUE.
Changes changes_of(const std::vector<std::string>& overrides) {
  Changes changes;
  for (const auto& text : overrides) {
    Problems problems;
    const auto change = parse_override(text, problems);
    if (!problems.empty()) throw UserError(problems.front());
    if (!change || change->path.size() != 2 || change->path.front() != "dataset" || change->value.is_null() ||
        change->path.back() == "plugin")
      throw UserError(
          text +
          ": init takes options of the dataset alone, dataset.KEY=VALUE; change the rest in the file that it writes");
    changes.emplace_back(change->path.back(), change->value);
  }
  return changes;
}

struct FirstNames {
  std::string name, file;  // of the experiment
};

FirstNames names_for(const Arguments& arguments) {
  constexpr size_t kLongest = 128;
  auto place = fs::absolute(arguments.target).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  FirstNames names{.name = place.stem().string()};
  while (names.name.starts_with('.')) names.name.erase(0, 1);
  if (names.name.empty() || names.name.size() > kLongest) names.name = "experiment";
  names.file = arguments.out.empty() ? names.name + ".yaml" : arguments.out;
  return names;
}

class Initializer {
 public:
  // `place` is the data, `from` what the user has named: a table, of which these are the arrays.
  Initializer(const fs::path& place, const std::string& from, const FirstNames& names, const Changes& changes)
      : place_(place),
        found_(find_data(place_, plugins_)),
        declared_(plugins_.describe(found_.plugin, "dataset").options) {
    first_.name = names.name;
    first_.file = names.file;
    first_.place = from;
    for (const auto& [key, value] : changes) {
      options().set(key, value);
      first_.remarks[key] = "as asked for";
    }
  }

  FirstExperiment look() {
    require_text(fs::absolute(place_).string());
    require_text(first_.file);
    first_.remarks.merge(std::map(found_.recognized.remarks));
    auto probed = options();
    if (probed.find("size")) probed.set("size", number(kProbeSize));
    if (takes("validation")) probed.set("validation", number(int64_t{0}));
    if (takes("context")) probed.set("context", number(int64_t{1}));
    const auto probe = opened(plugins_, found_.plugin, probed);
    const auto spec = probe->spec();
    for (const auto& name : spec.class_names) require_text(name);
    if (spec.classes == 1) refuse_one_class(spec);
    if (takes("channels") && is_grey(*probe)) set("channels", number(int64_t{1}), "the pictures are grey");
    if (takes("context")) choose_context(probe->size(Split::kTrain));
    hold_out(*probe);
    if (takes("scale") && takes("mean") && takes("std")) choose_range(*probe);
    if (takes("crop_scale")) choose_augmentation(spec);
    name_classes();
    first_.survey = survey();
    write_dataset();
    return std::move(first_);
  }

 private:
  // Returns whether the dataset has the option. Those that are set here mean the same wherever they are.
  bool takes(const std::string& option) const { return help_of(option) != nullptr; }

  const std::string* help_of(const std::string& option) const {
    const auto found = std::ranges::find(declared_, option, &OptionDeclaration::name);
    return found == declared_.end() ? nullptr : &found->help;
  }

  void set(const char* key, Value value, const std::string& remark) {
    options().set(key, std::move(value));
    first_.remarks[key] = remark;
  }

  Value& options() { return found_.recognized.options; }
  const Value& options() const { return found_.recognized.options; }

  // YAML and JSON hold UTF-8 only, a line of a comment no line break.
  static void require_text(std::string name) {
    const bool breaks = std::ranges::any_of(name, [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; });
    if (is_utf8(name) && !breaks) return;
    std::ranges::replace_if(name, [](unsigned char byte) { return byte < 0x20 || byte >= 0x7F; }, '?');
    throw UserError(std::string("the name of a folder or class ") +
                    (breaks ? "has a control character in it, such as a line break" : "is not UTF-8 text") +
                    ", so that no experiment can hold it: " + name + "; rename it");
  }

  [[noreturn]] void refuse_one_class(const DataSpec& spec) const {
    const auto which = spec.class_names.empty() ? "" : ", " + spec.class_names.front();
    throw UserError(first_.place + ": all samples are of one class" + which +
                    "; expected two at least: there is nothing to tell apart");
  }

  // Returns whether the first samples are pictures with the same number in all channels.
  static bool is_grey(const Dataset& probe) {
    std::vector<int64_t> some(static_cast<size_t>(std::min<int64_t>(16, probe.size(Split::kTrain))));
    const auto step = probe.size(Split::kTrain) / static_cast<int64_t>(some.size());
    std::ranges::generate(some, [n = -step, step]() mutable { return n += step; });
    const auto pixels = probe.to_image(probe.get(Split::kTrain, some).input);
    const bool colours = pixels.defined() && pixels.size(1) == 3;
    return colours && at::equal(pixels.select(1, 0), pixels.select(1, 1)) &&
           at::equal(pixels.select(1, 1), pixels.select(1, 2));
  }

  // Colours are photographs, which a network learns better if it never sees the same pixels twice; grey pictures may be
  // letters or X-rays, whose sides are not alike.
  void choose_augmentation(const DataSpec& spec) {
    constexpr int64_t kSmall = 64;
    const auto* size = options().find("size");
    if (options().find("channels") || !size || spec.sample_shape.size() != 3) return;
    if (std::atoll(size->text().c_str()) > kSmall)
      set("crop_scale", flow({"0.35", "1"}), "training sees random parts with this share of the area");
    else
      set("crop_padding", number(int64_t{4}), "training sees the pictures shifted by up to so many pixels");
    set("flip", Value::scalar("true"),
        "and half of them mirrored; leave it out where left and right differ, as in text");
  }

  // The names of a table's classes lie beside its arrays.
  void name_classes() {
    const auto file = fs::absolute(place_) / "classes.json";
    std::error_code ignored;
    if (takes("class_names") && !options().find("class_names") && fs::is_regular_file(file, ignored))
      set("class_names", path_value(file), "in the order of their numbers");
  }

  static Value flow(const std::vector<std::string>& words) {
    auto list = Value::list();
    for (const auto& word : words) list.items().push_back(Value::scalar(word));
    return list;
  }

  // Gives each column of a table the mean 0 and the deviation 1 over the training samples alone, as they are once
  // validation samples are held out. A column that is the same everywhere stays as it is, but for its mean.
  void standardize() {
    const auto dataset = opened(plugins_, found_.plugin, options());
    const auto columns = survey_columns(*dataset);
    std::vector<std::string> means, deviations;
    for (const auto& column : columns) {
      means.push_back(number(column.mean).text());
      deviations.push_back(column.std > 0 ? number(column.std).text() : "1");
    }
    set("mean", flow(means), "of each column, over the training samples");
    set("std", flow(deviations), "and its standard deviation");
  }

  // Brings large numbers near to those that networks begin with.
  void choose_range(const Dataset& probe) {
    constexpr int64_t kMostColumns = 1000;  // of which an experiment can list the means
    const auto shape = probe.spec().sample_shape;
    for (const auto* key : {"scale", "mean", "std", "symbols"})
      if (options().find(key)) return;  // as asked for
    if (shape.size() == 1 && shape.front() > 1 && shape.front() <= kMostColumns) return standardize();
    const auto splits = survey_splits(probe, kNumbersLookedAt);
    const auto& range = splits.front().input;
    const bool bytes =
        probe.spec().sample_shape.size() == 3 && range.least >= 0 && range.greatest > 1 && range.greatest <= 255;
    if (range.count == 0 || std::max(std::abs(range.least), std::abs(range.greatest)) <= 10) return;
    const double scale = bytes ? 1.0 / 255 : 1;
    if (bytes) set("scale", number(scale), "bytes, 0 .. 255, become 0 .. 1");
    set("mean", number(range.mean * scale), "subtracted after that");
    if (range.std > 0) set("std", number(range.std * scale), "and the divisor: of all inputs together");
  }

  void choose_context(int64_t symbols) {
    constexpr int64_t kContext = 128;
    set("context", number(std::clamp<int64_t>(symbols / 32, 1, kContext)), *help_of("context"));
  }

  // Holds out validation samples if the files have none.
  void hold_out(const Dataset& probe) {
    const auto samples = probe.size(Split::kTrain);
    constexpr const char* kWhy = "held out of train: what early stopping and `best` look at";
    if (samples < 4)
      throw UserError(place_.string() + ": " + grouped(samples) + " training samples are too few to learn from");
    if (probe.size(Split::kVal) > 0) return;
    if (takes("validation")) return set("validation", number(std::min<int64_t>(5000, samples / 10)), kWhy);
    if (takes("val_fraction")) set("val_fraction", number(samples < 100 ? 0.2 : 0.1), kWhy);
  }

  DataSurvey survey() const try {
    const auto dataset = opened(plugins_, found_.plugin, options());
    return {.experiment = first_.name,
            .dataset = found_.plugin,
            .spec = dataset->spec(),
            .splits = survey_splits(*dataset, kNumbersLookedAt),
            .augmentation = survey_augmentation(*dataset, /*seed=*/0),
            .account = account_of(*dataset)};
  } catch (const FromPlugin& error) {
    throw UserError(error.problem);
  }

  // Returns the path as the experiment's file is to have it: relative to its own folder, if it lies in there.
  Value relative(const Value& value) const {
    if (value.is_list()) {
      auto list = Value::list();
      for (const auto& item : value.items()) list.items().push_back(relative(item));
      return list;
    }
    const auto from = fs::absolute(first_.file).lexically_normal().parent_path();
    const auto path = fs::path(value.text()).lexically_relative(from);
    const bool below = !path.empty() && *path.begin() != "..";
    return Value::scalar(escape_references(below ? path.string() : value.text()));
  }

  void write_dataset() {
    first_.dataset = Value::map();
    first_.dataset.set("plugin", Value::scalar(found_.plugin));
    for (const auto& entry : options().entries()) {
      const auto& items = entry.value.items();
      const bool path = entry.value.quoted() || (!items.empty() && items.front().quoted());
      first_.dataset.set(entry.key, path ? relative(entry.value) : entry.value);
    }
  }

  const PluginHost plugins_{plugin_search_path({})};
  fs::path place_;
  FoundData found_;
  std::vector<OptionDeclaration> declared_;  // by the dataset
  FirstExperiment first_;
};

}  // namespace

int init(const Arguments& arguments) {
  const auto names = names_for(arguments);
  const auto changes = changes_of(arguments.overrides);
  NewFile file(names.file);
  std::optional<TableArrays> table;
  if (is_table(arguments.target)) {
    const fs::path beside(names.file);
    table.emplace(arguments, beside.parent_path() / (beside.stem().string() + "_arrays"));
  } else if (!arguments.target_column.empty() || !arguments.input_columns.empty() || !arguments.task.empty() ||
             arguments.drop_missing) {
    throw UserError(arguments.target +
                    ": --target, --input, --task and --drop-missing are for a table, a .csv, .tsv or .parquet file");
  }
  const auto place = table ? table->folder() : fs::path(arguments.target);
  const auto first = Initializer(place, arguments.target, names, changes).look();
  std::ofstream(file.temporary()) << first_experiment_text(first);
  file.keep();
  if (table) table->keep();
  std::cout << (table ? table->told() : "") << data_text(first.survey);
  if (const auto times = imbalance(first.survey); times >= 2)
    std::cout << wrapped(log::text("The largest class has ", std::round(times * 10) / 10,
                                   " times as many training samples as the smallest."),
                         0, 2)
              << "\n";
  std::cout << "\n"
            << first.file << " is written. Next: ddprun data " << shell_word(first.file) << "; ddprun "
            << shell_word(first.file) << "\n";
  return kExitDone;
}

}  // namespace ddprun
