// SPDX-License-Identifier: MIT
#include "command_line/arguments.h"

#include "base/log.h"
#include "base/terminal.h"
#include "command_line/commands.h"
#include "launch/worker_process.h"

#include <ddprun/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

constexpr const char* kWorker = "worker";
constexpr const char* kComplete = "complete";
constexpr const char* kQuiet = "--quiet";
constexpr const char* kVerbose = "--verbose";

// Takes the experiment, which may also stand after the overrides.
void take_experiment(Arguments& arguments) {
  const auto is_override = [](const std::string& word) {
    return word.find('=') != std::string::npos || word[0] == '~';
  };
  const auto experiment = std::ranges::find_if_not(arguments.overrides, is_override);
  if (arguments.target.empty() || !is_override(arguments.target) || experiment == arguments.overrides.end()) return;
  auto name = *experiment;
  arguments.overrides.erase(experiment);
  arguments.overrides.insert(arguments.overrides.begin(), std::exchange(arguments.target, std::move(name)));
}

// Takes the first word after the run as the checkpoint, unless it is an override.
void take_checkpoint(Arguments& arguments) {
  auto& words = arguments.overrides;
  if (words.empty() || words[0].find('=') != std::string::npos || words[0].starts_with("~")) return;
  arguments.checkpoint = words[0];
  words.erase(words.begin());
}

// Takes -q and -v out of the words and sets the log level, for any command and wherever they stand; workers inherit the
// variable.
std::vector<std::string> without_log_flags(std::vector<std::string> words) {
  for (const auto* flag : {kQuiet, kVerbose}) {
    if (std::erase(words, flag) > 0) ::setenv(log::kLevelVariable, flag + 2, /*overwrite=*/1);
  }
  return words;
}

// Inserts the command that may be left out: `ddprun experiments/mnist.yaml` and `ddprun --cfg experiments/mnist.yaml`
// mean `ddprun run ...`.
std::vector<std::string> with_command(std::vector<std::string> words) {
  const bool global = words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--version";
  const bool named =
      !words.empty() && (words[0] == kWorker || std::ranges::count(commands(), words[0], &Command::name));
  if (!global && !named) words.insert(words.begin(), "run");
  return words;
}

bool is_one_of(const std::string& command, std::initializer_list<std::string_view> commands) {
  return std::ranges::find(commands, command) != commands.end();
}

constexpr size_t kOptionColumn = 24, kCommandColumn = 16;  // where help texts begin

struct Example {
  std::string_view command;  // empty: an example for the whole program
  std::string_view words;    // after "ddprun "
  const char* text;          // what the command does
};

constexpr Example kExamples[] = {
    {"", "experiments/mnist.yaml", "train on all GPUs, or on the CPU"},
    {"", "experiments/mnist.yaml model=mlp model.hidden=512 optimizer=adam", "swap parts and set their options"},
    {"", "--cfg experiments/mnist.yaml", "show each value and the file it comes from"},
    {"", "resume outputs/mnist/latest", "resume after Ctrl-C, a crash or kill -9"},
    {"run", "experiments/mnist.yaml launch.workers=2 trainer.max_epochs=3", "two workers, three epochs"},
    {"run", "--build my_net.cpp experiments/digits.yaml model=my_net", "your own plugin, compiled if it has changed"},
    {"run", "-m optimizer.lr=0.1,0.01 model.hidden=64,128 experiments/digits", "four runs, one after the other"},
    {"run", "-n 4 -g 8 -nr 0 --rdzv-endpoint node0:29400 experiments/mnist.yaml",
     "the first of four nodes, with eight workers on each"},
    {"find-lr", "experiments/mnist.yaml", "print optimizer.lr=..., and write a report with the curve"},
    {"find-lr", "experiments/mnist.yaml optimizer=adam --from 1e-6 --to 1 --steps 300", "look closer"},
    {"init", "photos", "look at photos/<class>/<picture> and write photos.yaml"},
    {"init", "wine.csv --target quality", "write wine_arrays/ and wine.yaml, which trains on them"},
    {"check", "experiments/mnist.yaml trainer.max_epochs=3", "find every mistake, with its file and line"},
    {"check", "--gradients --build my_net.cpp experiments/digits model=my_net", "check its backward"},
    {"check", "--exact experiments/digits trainer.shards=2", "the same bits on 1 and on 2 workers?"},
    {"data", "experiments/mnist.yaml", "show counts, values, and a page of labelled pictures"},
    {"submit", "--slurm experiments/mnist resources.gpus=4 resources.time=2h", "submit a Slurm batch job"},
    {"submit", "--slurm --dry-run experiments/mnist resources.gpus=4", "print the script"},
    {"resume", "outputs/mnist/latest", "train to the end set in its experiment"},
    {"resume", "outputs/mnist/latest trainer.max_epochs=20", "train ten more epochs"},
    {"evaluate", "outputs/mnist/latest", "measure its last checkpoint"},
    {"evaluate", "outputs/mnist/latest best dataset.root=other", "measure its best one on other data"},
    {"predict", "outputs/mnist/latest --out p.csv", "write the class and scores of every test sample"},
    {"predict", "outputs/mnist/latest --html mistakes.html", "show its mistakes, the surest first"},
    {"predict", "outputs/pets/latest --input 'photos/*.jpg' --out p.csv", "write those of new pictures"},
    {"export", "outputs/mnist/latest --out m.pt", "the weights, for torch.load in Python"},
    {"export", "outputs/mnist/latest best --out m.ts", "the best network, for torch.jit.load and LibTorch"},
    {"export", "outputs/mnist/latest --raw --out m.onnx", "for ONNX Runtime: bytes in, probabilities out"},
    {"replay", "outputs/mnist/latest --step 300",
     "why is its loss so high? its samples, worst first, and its gradients"},
    {"replay", "outputs/mnist/latest --step 300 --without 17,4711", "and what would it be without these samples?"},
    {"replay", "outputs/mnist/latest --step 300 --workers 1", "with trainer.shards: the same bits on one worker?"},
    {"diff", "outputs/a outputs/b", "the keys that differ, and the operator that first gave other numbers"},
    {"diff", "here.json there.json", "the same for two machines, from files of replay --out"},
    {"verify", "outputs/mnist/latest", "check that its checkpoints are intact"},
    {"report", "outputs/mnist/latest", "write outputs/mnist/latest/report.html"},
    {"report", "outputs/a outputs/b --out both.html", "compare two runs"},
    {"report", "--json outputs/mnist/latest --rows metrics", "print what is known of the run, for scripts"},
    {"list", "", "list the runs in outputs/ and their status"},
    {"list", "--best outputs/mnist", "list the best first"},
    {"experiments", "", "list their names and what they train"},
    {"keys", "trainer", "list the keys of a section"},
    {"keys", "batch", "list keys whose name or help contains the word"},
    {"plugins", "show convnet", "show its options and their defaults"},
    {"plugins", "check my_net.so", "load a plugin in its own process and report problems"},
    {"schema", "--out ddprun.schema.json", "describe experiments for an editor"},
    {"schema", "my_net.yaml --out my_net.schema.json", "with the plugins that it finds"},
    {"docs", "", "list the pages"},
    {"docs", "training", "show one"},
    {"docs", "mixed precision", "show the sections that have these words"},
    {"env", "-n 2 -nr 1", "show the place a launcher started here would take"},
};

constexpr const char* kOverrides =
    "Overrides: key=value changes a key, +key=value adds one, ++key=value does either, ~key removes one "
    "(`ddprun docs experiments`).";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed or incomplete, 2 wrong usage or experiment, 75 saved and resumable, 128+N ended by "
    "signal N.";

std::string examples_of(std::string_view command) {
  std::string text;
  for (const auto& example : kExamples) {
    if (example.command != command) continue;
    text += "  ddprun " + std::string(command) + (command.empty() || example.words.empty() ? "" : " ");
    text += std::string(example.words) + "\n" + paragraph(example.text, 6);
  }
  return text.empty() ? "" : "\nExamples:\n" + text;
}

class PlainHelp final : public CLI::Formatter {
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    auto description = app->get_description() + ".";
    description[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(description[0])));
    const auto text = make_usage(app, name) + "\n" + paragraph(description, 0) + make_positionals(app) +
                      make_groups(app, mode) + make_subcommands(app, mode) + make_footer(app);
    return CLI::detail::find_and_replace(text, "\n\n\n", "\n\n");
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_parent() != nullptr) return CLI::Formatter::make_usage(app, name);
    return "Usage: ddprun EXPERIMENT [key=value...]\n       ddprun COMMAND ...\n";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const auto value = option->get_type_size() != 0 && !is_positional ? " " + option->get_type_name() : "";
    return entry(make_option_name(option, is_positional) + value, option->get_description(), kOptionColumn);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description(), kCommandColumn);
  }

  std::string make_footer(const CLI::App* app) const override {
    if (app->get_parent() != nullptr) return examples_of(app->get_name());
    return examples_of("") + "\n" + paragraph(kOverrides, 0) + paragraph(kExitCodes, 0);
  }

  // Returns the name with the text beside it, or below if the name is long.
  static std::string entry(const std::string& name, const std::string& text, size_t column) {
    const auto head = "  " + name;
    if (head.size() + 2 > column) return head + "\n" + paragraph(text, column);
    return padded(head, column) + wrapped(text, column, column) + "\n";
  }
};

void use_plain_help(CLI::App& app) {
  const auto help = std::make_shared<PlainHelp>();
  help->label("Positionals", "Arguments");
  app.formatter(help);
  for (auto* command : app.get_subcommands(nullptr)) {
    command->formatter(help);
    command->group(command->get_group() == "Subcommands" ? "Commands" : command->get_group());
    for (auto* part : command->get_subcommands(nullptr)) part->formatter(help);
  }
}

struct Flag {
  const char* name;
  const char* shorter;  // nullptr: none
  const char* value;
  std::optional<Setting> LaunchFlags::*setting;
  const char* help;
};

constexpr Flag kFlags[] = {
    {"--nnodes", "-n", "N", &LaunchFlags::nnodes, "nodes of the job, or MIN:MAX for an elastic job"},
    {"--nproc-per-node", "-g", "N", &LaunchFlags::nproc_per_node, "workers of each node: a number, auto, gpu or cpu"},
    {"--node-rank", nullptr, "N", &LaunchFlags::node_rank, "rank of this node, from 0; also -nr"},
    {"--rdzv-endpoint", nullptr, "HOST[:PORT]", &LaunchFlags::rdzv_endpoint,
     "address of the first node, the same on all nodes (port: 29400)"},
    {"--rdzv-id", nullptr, "NAME", &LaunchFlags::rdzv_id, "the job's name, the same on all nodes"},
    {"--rdzv-backend", nullptr, "NAME", &LaunchFlags::rdzv_backend,
     "accepted as in torchrun (c10d, static); has no effect"},
    {"--max-restarts", nullptr, "N", &LaunchFlags::max_restarts, "how often failed workers are restarted"},
    {"--master-addr", nullptr, "HOST", &LaunchFlags::master_addr, "host of --rdzv-endpoint"},
    {"--master-port", nullptr, "PORT", &LaunchFlags::master_port, "port of --rdzv-endpoint (29500)"},
};
constexpr const char* kStandalone = "--standalone";

bool is_launch_flag(const std::string& name) {
  return name == kStandalone || std::ranges::any_of(kFlags, [&](const auto& flag) { return name == flag.name; });
}

// Gives each launch flag the one spelling that add_launch_flags knows: torchrun's --nproc_per_node becomes
// --nproc-per-node, and -nr, which would be read as -n r, becomes --node-rank. Also accepts the flags of a well-known
// tutorial: --nodes, --gpus, --nr, and --epochs N, which becomes trainer.max_epochs=N.
std::vector<std::string> with_plain_launch_flags(std::vector<std::string> words) {
  static const std::map<std::string, std::string> kOthers{
      {"-nr", "--node-rank"}, {"--nr", "--node-rank"}, {"--nodes", "--nnodes"}, {"--gpus", "--nproc-per-node"}};
  for (size_t i = 0; i < words.size(); ++i) {
    auto& word = words[i];
    const auto equals = std::min(word.find('='), word.size());
    auto name = word.substr(0, equals);
    if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
    if (const auto other = kOthers.find(name); other != kOthers.end()) name = other->second;
    if (is_launch_flag(name)) word = name + word.substr(equals);
    if (name != "--epochs") continue;
    const bool apart = equals == word.size() && i + 1 < words.size();
    word = "trainer.max_epochs=" + (apart ? words[i + 1] : word.substr(std::min(equals + 1, word.size())));
    if (apart) words.erase(words.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
  return words;
}

}  // namespace

void add_launch_flags(CLI::App& command, LaunchFlags& flags) {
  const std::string group = "Several nodes (`ddprun docs launching`)";
  for (const auto& flag : kFlags) {
    const auto take = [&flags, flag](const std::string& value) { flags.*flag.setting = Setting{flag.name, value}; };
    const auto names = flag.shorter ? std::string(flag.shorter) + "," + flag.name : std::string(flag.name);
    command.add_option_function<std::string>(names, take, flag.help)->type_name(flag.value)->group(group);
  }
  command
      .add_flag_callback(
          kStandalone, [&flags] { flags.standalone = Setting{kStandalone, ""}; }, "a job of this node alone")
      ->group(group);
}

bool starts_training(const Arguments& arguments) {
  return is_one_of(arguments.command, {"run", "find-lr", "resume"}) && !arguments.show_config;
}

bool starts_processes(const Arguments& arguments) {
  return starts_training(arguments) || is_one_of(arguments.command, {"evaluate", "predict", "replay"});
}

std::shared_ptr<CLI::App> command_line(Arguments& arguments) {
  auto app = std::make_shared<CLI::App>("train a YAML experiment with distributed data parallelism", "ddprun");
  app->set_version_flag("--version", "ddprun " DDPRUN_VERSION);
  app->add_flag_callback(kQuiet, [] {}, "show only warnings and errors; may follow a command");
  app->add_flag_callback(kVerbose, [] {}, "also show what is loaded");
  app->require_subcommand(1);
  app->failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("ddprun: error: ") + error.what() + "; see `ddprun --help`\n";
  });
  for (const auto& command : commands())
    command.add_options(*app->add_subcommand(std::string(command.name), command.help), arguments);
  app->add_subcommand(kWorker, "")->group("");  // started by the launcher
  use_plain_help(*app);
  return app;
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments{.words = {argv, argv + argc}};
  if (argc > 1 && arguments.words[1] == kComplete) {
    arguments.command = kComplete;
    return arguments;
  }
  const auto app = command_line(arguments);
  auto words = with_plain_launch_flags(with_command(without_log_flags({argv + 1, argv + argc})));
  try {
    if (words.empty()) throw CLI::CallForHelp();
    std::ranges::reverse(words);  // the order CLI11 expects
    app->parse(words);
  } catch (const CLI::ParseError& error) {
    throw Exit{app->exit(error) == 0 && argc > 1 ? kExitDone : kExitUsage};
  }
  arguments.command = app->get_subcommands().front()->get_name();
  if (is_one_of(arguments.command, {"run", "find-lr", "check", "data"})) take_experiment(arguments);
  if (is_one_of(arguments.command, {"evaluate", "predict", "export"})) take_checkpoint(arguments);
  return arguments;
}

}  // namespace ddprun
