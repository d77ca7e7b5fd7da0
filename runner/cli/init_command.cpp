// SPDX-License-Identifier: MIT
// `ddprun init FOLDER`: looks at data, says what they are, and writes a first experiment for them.
#include "base/log.h"
#include "base/run_files.h"
#include "cli/commands.h"
#include "cli/first_experiment.h"
#include "cli/found_data.h"
#include "cli/picture_size.h"
#include "config/interpolation.h"
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
#include <fstream>
#include <iostream>
#include <numeric>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNumbersLookedAt = 10'000'000;  // of a split's inputs
constexpr int64_t kProbeSize = 32;                // side of the pictures that are looked at for their colours
constexpr int64_t kLargestSize = 224;             // of ImageNet's networks

Value number(int64_t value) { return Value::scalar(std::to_string(value)); }

Value number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return Value::scalar(text);
}

// A dataset that the plugin has opened.
std::shared_ptr<Dataset> opened(const std::string& plugin, const Value& options) try {
  const PluginHost host(plugin_search_path({}));
  const auto dataset = host.make_dataset({.plugin = plugin, .options = options, .path = "dataset"});
  in_plugin({"dataset", "prepare"}, [&] { dataset->prepare([](const std::string&, int64_t, int64_t) {}); });
  in_plugin({"dataset", "start"}, [&] { dataset->start(); });
  return dataset;
} catch (const FromPlugin& error) {
  throw UserError(error.problem);
}

class Initializer {
 public:
  explicit Initializer(const Arguments& arguments) : place_(arguments.target), found_(find_data(place_)) {
    auto name = fs::absolute(place_).lexically_normal();
    if (!name.has_filename()) name = name.parent_path();
    first_.name = name.stem().string();
    while (first_.name.starts_with('.')) first_.name.erase(0, 1);
    constexpr size_t kLongest = 128;
    if (first_.name.empty() || first_.name.size() > kLongest) first_.name = "experiment";
    first_.file = arguments.out.empty() ? first_.name + ".yaml" : arguments.out;
    first_.place = place_.string();
  }

  const std::string& file() const { return first_.file; }

  FirstExperiment look() {
    require_text(fs::absolute(place_).string());
    require_text(first_.file);
    auto options = found_.options;
    if (are_pictures()) options.set("size", number(kProbeSize));
    if (may_validate()) options.set("validation", number(int64_t{0}));
    if (is_text()) options.set("context", number(int64_t{1}));
    const auto probe = opened(found_.plugin, options);
    const auto spec = probe->spec();
    for (const auto& name : spec.class_names) require_text(name);
    if (spec.classes == 1) refuse_one_class(spec);
    if (are_pictures()) choose_size(*probe);
    if (found_.plugin == "tensors") choose_range(*probe);
    if (is_text()) choose_context(probe->size(Split::kTrain));
    hold_out(*probe);
    first_.survey = survey();
    write_dataset();
    return std::move(first_);
  }

 private:
  bool are_pictures() const { return found_.plugin == "image_folder" || found_.plugin == "shards"; }
  bool is_text() const { return found_.plugin == "text" || found_.plugin == "tokens"; }
  bool may_validate() const { return found_.plugin.ends_with("mnist") || found_.plugin.starts_with("cifar"); }

  void set(const char* key, Value value, const std::string& remark) {
    found_.options.set(key, std::move(value));
    first_.remarks[key] = remark;
  }

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
    throw UserError(place_.string() + ": all samples are of one class" + which +
                    "; expected two at least: there is nothing to tell apart");
  }

  // Sets side and channels of the squares that the model gets.
  void choose_size(const Dataset& probe) {
    const auto median = median_shorter_side(found_.pictures);
    const auto side = median.value_or(kLargestSize);
    const auto size = side <= 64 ? side : std::min(kLargestSize, side / 32 * 32);
    set("size", number(size),
        log::text("side of the square that the model sees; ",
                  median ? log::text("the pictures' shorter side is ", side) : "make it smaller for small pictures"));
    if (is_grey(probe)) set("channels", number(int64_t{1}), "the pictures are grey");
  }

  // Returns whether the first pictures have the same number in all channels.
  static bool is_grey(const Dataset& probe) {
    std::vector<int64_t> some(static_cast<size_t>(std::min<int64_t>(16, probe.size(Split::kTrain))));
    const auto step = probe.size(Split::kTrain) / static_cast<int64_t>(some.size());
    std::ranges::generate(some, [n = -step, step]() mutable { return n += step; });
    const auto pixels = probe.to_image(probe.get(Split::kTrain, some).input);
    return at::equal(pixels.select(1, 0), pixels.select(1, 1)) && at::equal(pixels.select(1, 1), pixels.select(1, 2));
  }

  // Brings large numbers near to those that networks begin with.
  void choose_range(const Dataset& probe) {
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
    const auto* what = found_.plugin == "text" ? "characters of a sample" : "tokens of a sample";
    set("context", number(std::clamp<int64_t>(symbols / 32, 1, kContext)), what);
  }

  // Holds out validation samples if the files have none.
  void hold_out(const Dataset& probe) {
    const auto samples = probe.size(Split::kTrain);
    constexpr const char* kWhy = "held out of train: what early stopping and `best` look at";
    if (samples < 4)
      throw UserError(place_.string() + ": " + grouped(samples) + " training samples are too few to learn from");
    if (probe.size(Split::kVal) > 0) return;
    if (may_validate()) return set("validation", number(std::min<int64_t>(5000, samples / 10)), kWhy);
    if (!is_text()) set("val_fraction", number(samples < 100 ? 0.2 : 0.1), kWhy);
  }

  DataSurvey survey() const try {
    const auto dataset = opened(found_.plugin, found_.options);
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
    for (const auto& entry : found_.options.entries()) {
      const bool path = entry.value.is_list() || entry.value.quoted();
      first_.dataset.set(entry.key, path ? relative(entry.value) : entry.value);
    }
  }

  fs::path place_;
  FoundData found_;
  FirstExperiment first_;
};

}  // namespace

int init(const Arguments& arguments) {
  Initializer initializer(arguments);
  NewFile file(initializer.file());
  const auto first = initializer.look();
  const auto text = first_experiment_text(first);
  std::ofstream(file.temporary()) << text;
  file.keep();
  std::cout << data_text(first.survey);
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
