// SPDX-License-Identifier: MIT
#include "config/experiment_reader.h"

#include "config/defaults_list.h"
#include "config/sections.h"
#include "config/yaml_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

template <class Read>
auto read_section(const Value& values, const char* path, Read read, Problems& problems) {
  Options options(values, path);
  auto result = read(options);
  std::ranges::copy(options.problems(), std::back_inserter(problems));
  return result;
}

template <auto Read>
std::vector<OptionDeclaration> declared_by() {
  Options options(Value(), "");
  Read(options);
  return options.declared();
}

// Returns all keys of schedules, each with the names of those that use it.
std::vector<OptionDeclaration> schedule_keys() {
  auto keys = declared_by<read_schedule>();
  const auto common = keys.size();
  for (const auto& [name, help, declared] : schedule_kinds()) {
    for (const auto& key : declared) {
      const auto known = std::ranges::find(keys, key.name, &OptionDeclaration::name);
      const bool is_common = known < keys.begin() + static_cast<std::ptrdiff_t>(common);
      if (known == keys.end()) {
        keys.push_back(key);
        keys.back().help = name + ": " + key.help;
      } else if (!is_common) {
        known->help = name + ", " + known->help;
      }
    }
  }
  return keys;
}

Resident read_resident(Options& options) {
  return choose(options, "resident", Resident::kAuto,
                "for images in memory: auto: kept on the GPU if they fit, batches are made there; host: made "
                "from host memory; off: by the dataset's own get() and augment()");
}

// One section: it is declared here, and its struct in experiment.h.
struct Section {
  const char* name;
  const char* help;
  std::vector<OptionDeclaration> (*keys)();
  void (*read)(const Section& section, const Value& values, Experiment& experiment, Problems& problems);
  bool optional = false;  // its struct stays as it is where the section is absent
};

template <auto Member, auto Read>
void read_member(const Section& section, const Value& values, Experiment& experiment, Problems& problems) {
  experiment.*Member = read_section(values, section.name, Read, problems);
}

template <auto Member, auto Read>
constexpr Section section(const char* name, const char* help) {
  return {name, help, declared_by<Read>, read_member<Member, Read>};
}

template <auto Member, auto Read>
constexpr Section optional_section(const char* name, const char* help) {
  return {name, help, declared_by<Read>, read_member<Member, Read>, true};
}

// Reads it without `target: null`, with which an experiment removes the target of the one that it builds on.
void read_stopping(const Section& section, const Value& values, Experiment& experiment, Problems& problems) {
  auto stopping = values;
  const auto* target = stopping.find("target");
  if (target && target->is_null()) stopping.erase("target");
  experiment.early_stopping = read_section(stopping, section.name, read_early_stopping, problems);
}

using E = Experiment;
constexpr std::array kSections = {
    section<&E::trainer, read_trainer>("trainer", "how long and how to train"),
    section<&E::pretrained, read_pretrained>(
        "pretrained", "weights to start from, {file: FILE, skip: [fc.*]}, and which of them to train"),
    Section{"schedule", "how the learning rate changes, {name: cosine, warmup: 5ep}; constant by default",
            schedule_keys, read_member<&E::schedule, read_schedule>},
    Section{"early_stopping", "when to stop before the end; never if absent", declared_by<read_early_stopping>,
            read_stopping, /*optional=*/true},
    section<&E::checkpoint, read_checkpoint>("checkpoint", "what is saved when, and resumed"),
    optional_section<&E::predictions, read_predictions>(
        "predictions", "which predictions of each evaluation the loggers get; none if absent"),
    optional_section<&E::histograms, read_histograms>(
        "histograms", "distributions of weights and gradients for the loggers; none if absent"),
    optional_section<&E::profile, read_profile>(
        "profile", "which steps are traced for chrome://tracing or Perfetto, {steps: 10..20}; none if absent"),
    optional_section<&E::record, read_record>(
        "record",
        "which steps are recorded operator by operator, {steps: 10..20}, as `ddprun replay` does; none if absent"),
    section<&E::launch, read_launch>("launch", "the workers of this machine"),
    section<&E::resources, read_resources>("resources", "what `ddprun submit` asks Slurm or Kubernetes for"),
    section<&E::run_dir, read_run_dir>("run", "where the results go"),
};

// The keys of the root. Sections are read as trees here.
struct Root {
  std::string name;
  int64_t seed = 0;
  Value model, dataset, optimizer, objective, loggers, callbacks;
  std::array<Value, kSections.size()> sections;
  std::vector<std::string> plugin_path;
};

Root read_root(Options& options) {
  Root root;
  root.name = options.get<std::string>("name", "experiment", "names the run's folder; by default the file's name");
  root.seed = options.get<int64_t>("seed", 0, "seed of all random number generators", {.min = 0});
  root.model = options.subtree("model", "the plugin that makes the network, with its options");
  root.dataset = options.subtree("dataset", "the plugin that provides the data, with its options");
  root.optimizer = options.subtree("optimizer", "the plugin that updates the weights, with its options");
  root.objective = options.subtree("objective", "the loss, {name: cross_entropy} by default, with its options");
  root.loggers = options.subtree("loggers", "plugins that get the metrics; [console, csv, jsonl] by default");
  root.callbacks =
      options.subtree("callbacks", "plugins of your own that act on the training: [my_average]; none if absent");
  for (size_t i = 0; i < kSections.size(); ++i)
    root.sections[i] = options.subtree(kSections[i].name, kSections[i].help);
  root.plugin_path =
      options.get<std::vector<std::string>>("plugin_path", {}, "folders searched for plugins before all others");
  if (options.has("defaults"))
    options.reject("defaults", "works only in files; here choose one at a time: optimizer=adam");
  options.subtree("defaults", "files this one is made of, such as [model/convnet, optimizer/sgd]; its own keys win");
  return root;
}

// Returns whether a section is missing because its key is misspelt, `optimiser`, which is already reported.
bool is_misspelt(const Value& config, const std::string& key) {
  return std::ranges::any_of(config.entries(),
                             [&](const Value::Entry& entry) { return nearest_name(entry.key, {key}) == key; });
}

PluginChoice read_choice(const Value& section, const std::string& path, const Origin& place, Problems& problems) {
  PluginChoice choice{.options = section, .path = path};
  if (!section.is_map()) {
    const auto found =
        section.is_null() ? "missing; write " : "expected a plugin, found " + describe(section) + "; write ";
    problems.push_back(
        problem_line(section.is_null() ? place : section.origin(), path, found + path + ": {plugin: NAME}"));
    return choice;
  }
  const auto* plugin = section.find("plugin");
  if (!plugin || !plugin->is_scalar() || plugin->text().empty()) {
    const auto found = plugin ? "expected a name or the path of a .so, found " + describe(*plugin)
                              : "missing; write the plugin's name";
    problems.push_back(problem_line(plugin ? plugin->origin() : section.origin(), path + ".plugin", found));
    return choice;
  }
  choice.plugin = plugin->text();
  choice.origin = plugin->origin();
  choice.options.erase("plugin");
  return choice;
}

// Takes the one key of the dataset that is the runner's; the others are the plugin's.
Resident take_resident(PluginChoice& dataset, Problems& problems) {
  auto values = Value::map(dataset.options.origin());
  const auto* written = dataset.options.is_map() ? dataset.options.find("resident") : nullptr;
  if (written) values.set("resident", *written);
  const auto resident = read_section(values, "dataset", read_resident, problems);
  if (written) dataset.options.erase("resident");
  return resident;
}

std::string entry_path(const std::string& key, size_t i) { return key + "[" + std::to_string(i) + "]"; }

// Reads a list of plugins; `example` is one for the error.
std::vector<PluginChoice> read_choices(const Value& list, const std::string& key, const std::string& example,
                                       Problems& problems) {
  std::vector<PluginChoice> choices;
  if (!list.is_list()) {
    problems.push_back(problem_line(
        list.origin(), key, "expected a list such as " + example + ", found " + describe(list) + "; [] for none"));
  }
  for (size_t i = 0; i < list.items().size(); ++i)
    choices.push_back(read_choice(list.items()[i], entry_path(key, i), list.items()[i].origin(), problems));
  return choices;
}

// Two loggers that are alike would write the same files, each row twice.
void refuse_one_twice(const std::vector<PluginChoice>& loggers, Problems& problems) {
  for (size_t second = 1; second < loggers.size(); ++second) {
    const auto& logger = loggers[second];
    const auto is_same = [&](const PluginChoice& other) {
      return !other.plugin.empty() && other.plugin == logger.plugin &&
             to_yaml(other.options, false) == to_yaml(logger.options, false);
    };
    const auto end = loggers.begin() + static_cast<std::ptrdiff_t>(second);
    const auto first = std::find_if(loggers.begin(), end, is_same);
    if (first != end)
      problems.push_back(
          problem_line(logger.origin, logger.path,
                       logger.plugin + " is " + first->path + " already, with the same options; remove one"));
  }
}

std::vector<PluginChoice> default_loggers() {
  std::vector<PluginChoice> choices;
  for (const auto* name : kDefaultLoggers)
    choices.push_back({.plugin = name, .options = Value::map(), .path = entry_path("loggers", choices.size())});
  return choices;
}

void read_objective(const Value& objective, Experiment& experiment, Problems& problems) {
  experiment.objective.options = Value::map(objective.origin());
  if (objective.is_null()) return;
  if (!objective.is_map()) {
    problems.push_back(
        problem_line(objective.origin(), "objective", "expected {name: cross_entropy}, found " + describe(objective)));
    return;
  }
  experiment.objective.options = objective;
  const auto* name = objective.find("name");
  if (!name) return;
  if (!name->is_scalar() || name->text().empty()) {
    problems.push_back(problem_line(name->origin(), "objective.name", "expected a name, found " + describe(*name)));
    return;
  }
  experiment.objective.plugin = name->text();
  experiment.objective.origin = name->origin();
  experiment.objective.options.erase("name");
}

// Returns whether the name can be a folder's, which it becomes.
bool is_folder_name(const std::string& name) {
  const auto is_bad = [](unsigned char byte) { return byte < 0x20 || byte == '/' || byte == 0x7F; };
  return !name.empty() && name.size() <= 128 && name[0] != '.' && std::ranges::none_of(name, is_bad);
}

// Applies fast_dev_run: one of everything.
void shorten(TrainerConfig& trainer) {
  trainer.max_epochs = trainer.max_steps = trainer.log_every = 1;
  trainer.train_batches = trainer.val_batches = trainer.test_batches = Limit{.batches = 1};
}

// Checks that launch.nodes and resources.nodes agree.
void check_nodes(const Experiment& experiment, Problems& problems) {
  const auto asked = experiment.resources.nodes;
  const auto& launch = experiment.launch;
  const bool said = asked > 0 && launch.max_nodes > 1;
  if (!said || (launch.min_nodes <= asked && asked <= launch.max_nodes)) return;
  problems.push_back(problem_line(experiment.config.find("resources")->find("nodes")->origin(), "resources.nodes",
                                  std::to_string(asked) + ", but launch.nodes says " +
                                      std::to_string(launch.max_nodes) + "; leave one of them out"));
}

// Checks that only one of global_batch and batch_per_worker is set.
void check_batches(const Experiment& experiment, Problems& problems) {
  const auto* trainer = experiment.config.find("trainer");
  const auto* per_worker = trainer ? trainer->find("batch_per_worker") : nullptr;
  if (experiment.trainer.batch_per_worker == 0 || !per_worker || !trainer->find("global_batch")) return;
  problems.push_back(problem_line(per_worker->origin(), "trainer.batch_per_worker",
                                  "cannot be combined with global_batch; remove one of them"));
}

// Checks that each worker has a shard, as far as their number is written.
void check_shards(const Experiment& experiment, Problems& problems) {
  const auto shards = experiment.trainer.shards, nodes = experiment.launch.max_nodes;
  const auto workers = experiment.launch.workers * nodes;
  if (shards == 0 || workers <= shards) return;
  const auto on_nodes =
      nodes > 1 ? " on up to " + std::to_string(nodes) + " nodes (launch.workers, launch.nodes)" : " (launch.workers)";
  problems.push_back(problem_line(experiment.config.find("trainer")->find("shards")->origin(), "trainer.shards",
                                  std::to_string(shards) + " shards cannot be shared by " + std::to_string(workers) +
                                      " workers" + on_nodes + ": each needs one"));
}

// Checks that the loss takes the targets that mixing makes; that of a plugin may.
void check_mixing(const Experiment& experiment, Problems& problems) {
  const auto& trainer = experiment.trainer;
  constexpr std::array kWithoutShares{"nll", "bce", "mse", "l1"};
  const auto& loss = experiment.objective.plugin;
  if ((trainer.mixup == 0 && trainer.cutmix == 0) || std::ranges::find(kWithoutShares, loss) == kWithoutShares.end())
    return;
  const std::string name = trainer.mixup > 0 ? "mixup" : "cutmix";
  problems.push_back(
      problem_line(experiment.config.find("trainer")->find(name)->origin(), "trainer." + name,
                   "mixes the classes of samples, which objective " + loss + " cannot take; choose cross_entropy"));
}

// Checks what no section can see alone.
void cross_check(const Experiment& experiment, Problems& problems) {
  check_nodes(experiment, problems);
  check_batches(experiment, problems);
  check_shards(experiment, problems);
  check_mixing(experiment, problems);
  const auto* name = experiment.config.find("name");
  if (!is_folder_name(experiment.name)) {
    problems.push_back(
        problem_line(name ? name->origin() : Origin(), "name",
                     "expected the name of a folder, up to 128 bytes without / and no leading dot, found \"" +
                         experiment.name + "\""));
  }
  const auto workers = experiment.launch.workers, batch = experiment.trainer.global_batch;
  if (experiment.trainer.has_a_sample_for_each(workers)) return;
  const auto* trainer = experiment.config.find("trainer");
  const auto* written = trainer ? trainer->find("global_batch") : nullptr;
  const auto* launch = experiment.config.find("launch");
  const auto origin = written ? written->origin() : launch->find("workers")->origin();
  problems.push_back(problem_line(origin, "trainer.global_batch",
                                  std::to_string(batch) + " samples cannot be shared by " + std::to_string(workers) +
                                      " workers (launch.workers): each needs one"));
}

std::string type_of_root_key(const std::string& key) {
  if (key == "model" || key == "dataset" || key == "optimizer") return "plugin";
  if (is_list_of_plugins(key)) return "list of plugin";
  return key == "defaults" ? "list of string" : "map";
}

}  // namespace

Experiment read_experiment(Value config, std::vector<std::string>& problems) {
  Experiment experiment;
  auto root = read_section(config, "", read_root, problems);
  const auto place = config.origin();
  experiment.name = root.name;
  experiment.seed = static_cast<uint64_t>(root.seed);
  const auto choice = [&](const Value& section, const char* key) {
    const bool is_told = section.is_null() && is_misspelt(config, key);
    return is_told ? PluginChoice{.path = key} : read_choice(section, key, place, problems);
  };
  experiment.model = choice(root.model, "model");
  experiment.dataset = choice(root.dataset, "dataset");
  experiment.resident = take_resident(experiment.dataset, problems);
  experiment.optimizer = choice(root.optimizer, "optimizer");
  experiment.loggers =
      config.find("loggers") ? read_choices(root.loggers, "loggers", "[console, csv]", problems) : default_loggers();
  refuse_one_twice(experiment.loggers, problems);
  if (!root.callbacks.is_null())
    experiment.callbacks = read_choices(root.callbacks, "callbacks", "[my_average]", problems);
  read_objective(root.objective, experiment, problems);
  for (size_t i = 0; i < kSections.size(); ++i) {
    const auto& values = root.sections[i];
    if (!kSections[i].optional || !values.is_null()) kSections[i].read(kSections[i], values, experiment, problems);
  }
  experiment.plugin_path.assign(root.plugin_path.begin(), root.plugin_path.end());
  experiment.config = std::move(config);
  if (experiment.trainer.fast_dev_run) shorten(experiment.trainer);
  cross_check(experiment, problems);
  return experiment;
}

Experiment load_experiment(const ComposeInput& input, Problems& problems) {
  auto composed = try_compose(input, problems);
  if (!composed.complete) throw_problems(problems);
  Problems found;
  auto experiment = read_experiment(std::move(composed.config), found);
  for (auto& problem : found) {
    const auto is_reported = [&](const std::string& place) { return problem.starts_with(place + ": "); };
    if (std::ranges::none_of(composed.failed_places, is_reported)) problems.push_back(std::move(problem));
  }
  return experiment;
}

Experiment load_experiment(const ComposeInput& input) {
  Problems problems;
  auto experiment = load_experiment(input, problems);
  if (!problems.empty()) throw_problems(problems);
  return experiment;
}

std::vector<SectionHelp> experiment_keys() {
  std::vector<SectionHelp> sections = {
      {"", "the experiment", declared_by<read_root>()},
      {"dataset", "options besides the plugin's own", declared_by<read_resident>()},
  };
  for (const auto& section : kSections) sections.push_back({section.name, section.help, section.keys()});
  for (auto& key : sections.front().keys) {
    if (key.type == "map") key.type = type_of_root_key(key.name);
  }
  return sections;
}

std::vector<SectionHelp> schedule_kinds() {
  std::vector<SectionHelp> kinds;
  for (const auto word : WordsOf<ScheduleKind>::kAll) {
    const std::string name(word);
    auto values = Value::map();
    values.set("name", Value::scalar(name));
    Options options(values, "");
    read_schedule(options);
    kinds.push_back({.name = name, .help = "", .keys = options.declared()});
  }
  return kinds;
}

}  // namespace ddprun
