// SPDX-License-Identifier: MIT
#include "config/experiment_reader.h"

#include "config/defaults_list.h"
#include "config/feature_section.h"
#include "config/key_path.h"
#include "config/plugin_choices.h"
#include "config/sections.h"
#include "config/yaml_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun {
namespace {

template <class Read>
auto read_keys(const Value& values, const char* path, Read read, Problems& problems) {
  Options options(values, path);
  auto result = read(options);
  std::ranges::move(options.problems(), std::back_inserter(problems));
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

// One section: it is declared here, and its struct in experiment.h; what features add to it, in their folders.
struct Section {
  const char* name;
  const char* help;
  void (*read)(Options& options, Experiment& experiment);  // null: it has no keys but a feature's
  bool optional = false;                                   // its struct stays as it is where the section is absent
  std::vector<OptionDeclaration> (*keys)() = nullptr;      // null: those that are declared where it is empty
};

template <auto Member, auto Read>
void read_member(Options& options, Experiment& experiment) {
  experiment.*Member = Read(options);
}

template <auto Member, auto Read>
constexpr Section section(const char* name, const char* help) {
  return {name, help, read_member<Member, Read>};
}

template <auto Member, auto Read>
constexpr Section optional_section(const char* name, const char* help) {
  return {name, help, read_member<Member, Read>, true};
}

constexpr auto kOfFeatures = "";  // stands where the sections of features come

using E = Experiment;
constexpr std::array kSections = {
    section<&E::trainer, read_trainer>("trainer", "how long and how to train"),
    section<&E::pretrained, read_pretrained>(
        "pretrained", "weights to start from, {file: FILE, skip: [fc.*]}, and which of them to train"),
    Section{"schedule", "how the learning rate changes, {name: cosine, warmup: 5ep}; constant by default",
            read_member<&E::schedule, read_schedule>, /*optional=*/false, schedule_keys},
    optional_section<&E::early_stopping, read_early_stopping>("early_stopping",
                                                              "when to stop before the end; never if absent"),
    section<&E::checkpoint, read_checkpoint>("checkpoint", "what is saved when, and resumed"),
    optional_section<&E::predictions, read_predictions>(
        "predictions", "which predictions of each evaluation the loggers get; none if absent"),
    Section{kOfFeatures},
    section<&E::launch, read_launch>("launch", "the workers of this machine"),
    section<&E::resources, read_resources>("resources", "what `ddprun submit` asks Slurm for"),
    section<&E::run_dir, read_run_dir>("run", "where the results go"),
};

std::vector<Section> all_sections() {
  std::vector<Section> sections;
  for (const auto& section : kSections) {
    if (section.name != kOfFeatures) {
      sections.push_back(section);
      continue;
    }
    for (const auto& own : feature_sections())
      if (own.help) sections.push_back({own.name, own.help, nullptr, /*optional=*/true});
  }
  return sections;
}

// Declares keys of features that this build does not have: check_features() refuses them.
void declare_absent(std::string_view section, Options& options) {
  for (const auto& [key, value, feature] : absent_features()) {
    const auto dot = key.find('.');  // nowhere: a key of the root
    if (section == (dot == key.npos ? "" : key.substr(0, dot)))
      options.subtree(key.substr(dot + 1), "of a feature that this build does not have");
  }
}

// Reads the keys of the core, then what features have in the section.
void read_section(const Section& section, Options& options, Experiment& experiment) {
  if (section.read) section.read(options, experiment);
  for (const auto& own : feature_sections())
    if (std::string_view(section.name) == own.name) own.read(options, experiment);
  declare_absent(section.name, options);
}

std::vector<OptionDeclaration> keys_of(const Section& section) {
  if (section.keys) return section.keys();
  Options options(Value(), "");
  Experiment unused;
  read_section(section, options, unused);
  return options.declared();
}

// The keys of the root. Sections are read as trees here.
struct Root {
  std::string name;
  int64_t seed = 0;
  std::vector<Value> sections;  // as all_sections() has them
  std::vector<std::string> plugin_path;
};

Root read_root(Options& options) {
  Root root;
  root.name = options.get<std::string>("name", "experiment", "names the run's folder; by default the file's name");
  root.seed = options.get<int64_t>("seed", 0, "seed of all random number generators", {.min = 0});
  options.subtree("model", "the plugin that makes the network, with its options");
  options.subtree("dataset", "the plugin that provides the data, with its options");
  options.subtree("optimizer", "the plugin that updates the weights, with its options");
  options.subtree("objective", "the loss, {name: cross_entropy} by default, with its options");
  options.subtree("loggers", "plugins that get the metrics; [console, csv, jsonl] by default");
  options.subtree("callbacks", "plugins of your own that act on the training: [my_average]; none if absent");
  for (const auto& section : all_sections()) root.sections.push_back(options.subtree(section.name, section.help));
  declare_absent("", options);
  root.plugin_path =
      options.get<std::vector<std::string>>("plugin_path", {}, "folders searched for plugins before all others");
  if (options.has("defaults"))
    options.reject("defaults", "works only in files; here choose one at a time: optimizer=adam");
  options.subtree("defaults", "files this one is made of, such as [model/convnet, optimizer/sgd]; its own keys win");
  return root;
}

// Takes the one key of the dataset that is the runner's; the others are the plugin's.
Resident take_resident(PluginChoice& dataset, Problems& problems) {
  auto values = Value::map(dataset.options.origin());
  const auto* written = dataset.options.is_map() ? dataset.options.find("resident") : nullptr;
  if (written) values.set("resident", *written);
  const auto resident = read_keys(values, "dataset", read_resident, problems);
  if (written) dataset.options.erase("resident");
  return resident;
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
  problems.push_back(problem_line(place_at(experiment.config, {"resources", "nodes"}), "resources.nodes",
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
  problems.push_back(problem_line(place_at(experiment.config, {"trainer", "shards"}), "trainer.shards",
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
      problem_line(place_at(experiment.config, {"trainer", name}), "trainer." + name,
                   "mixes the classes of samples, which objective " + loss + " cannot take; choose cross_entropy"));
}

// Returns whether the value switches off what its key is about.
bool is_off(const Value& value) {
  constexpr std::array kOff{"false", "off", "0", "none", "[]"};
  if (!value.is_scalar()) return value.is_null() || (value.is_list() && value.items().empty());
  return std::ranges::find(kOff, value.text()) != kOff.end();
}

// Checks that each key that asks for a feature finds it in this build.
void check_features(const Experiment& experiment, Problems& problems) {
  for (const auto& [key, value, feature] : absent_features()) {
    const auto* written = find_at(experiment.config, *parse_key_path(key));
    if (!written || is_off(*written)) continue;
    if (!value.empty() && !(written->is_scalar() && written->text() == value)) continue;
    problems.push_back(problem_line(written->origin(), std::string(key),
                                    absence_text(feature) + "; remove the key, or build it with that feature"));
  }
}

// Checks what no section can see alone.
void cross_check(const Experiment& experiment, Problems& problems) {
  check_nodes(experiment, problems);
  check_batches(experiment, problems);
  check_shards(experiment, problems);
  check_mixing(experiment, problems);
  check_features(experiment, problems);
  if (!is_folder_name(experiment.name)) {
    problems.push_back(
        problem_line(place_at(experiment.config, {"name"}), "name",
                     "expected the name of a folder, up to 128 bytes without / and no leading dot, found \"" +
                         experiment.name + "\""));
  }
  const auto workers = experiment.launch.workers, batch = experiment.trainer.global_batch;
  if (experiment.trainer.has_a_sample_for_each(workers)) return;
  const auto* written = find_at(experiment.config, {"trainer", "global_batch"});
  const auto place = written ? written->origin() : place_at(experiment.config, {"launch", "workers"});
  problems.push_back(problem_line(place, "trainer.global_batch",
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
  auto root = read_keys(config, "", read_root, problems);
  experiment.name = root.name;
  experiment.seed = static_cast<uint64_t>(root.seed);
  read_plugins(config, experiment, problems);
  experiment.resident = take_resident(experiment.dataset, problems);
  const auto sections = all_sections();
  for (size_t i = 0; i < sections.size(); ++i) {
    const auto& values = root.sections[i];
    if (sections[i].optional && values.is_null()) continue;
    Options options(values, sections[i].name);
    read_section(sections[i], options, experiment);
    std::ranges::move(options.problems(), std::back_inserter(problems));
  }
  experiment.plugin_path.assign(root.plugin_path.begin(), root.plugin_path.end());
  experiment.config = std::move(config);
  if (experiment.trainer.fast_dev_run) shorten(experiment.trainer);
  cross_check(experiment, problems);
  return experiment;
}

std::vector<std::string> ignored_by_run(const std::filesystem::path& run, const Value& recorded, const Experiment& now,
                                        const std::set<FixedKey::By>& by) {
  Problems of_another_version;
  auto then = read_experiment(recorded, of_another_version);
  if (now.checkpoint.resume == Resume::kAuto) then.checkpoint.resume = Resume::kAuto;
  std::error_code error;
  if (std::filesystem::equivalent(now.run_dir, run, error)) then.run_dir = now.run_dir;
  return ignored_changes(then, now, by);
}

Experiment load_experiment(const ComposeInput& input, Problems& problems, const std::set<FixedKey::By>& fixed) {
  auto composed = try_compose(input, problems);
  if (!composed.complete) throw_problems(problems);
  Problems found;
  auto experiment = read_experiment(std::move(composed.config), found);
  for (auto& problem : found) {
    const auto is_reported = [&](const std::string& place) { return problem.starts_with(place + ": "); };
    if (std::ranges::none_of(composed.failed_places, is_reported)) problems.push_back(std::move(problem));
  }
  if (problems.empty() && !fixed.empty())
    std::ranges::move(ignored_by_run(input.experiment.parent_path(), composed.recorded, experiment, fixed),
                      std::back_inserter(problems));
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
  for (const auto& section : all_sections()) sections.push_back({section.name, section.help, keys_of(section)});
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
