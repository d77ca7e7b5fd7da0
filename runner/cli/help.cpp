// SPDX-License-Identifier: MIT
#include "cli/help.h"

#include "base/wrapped_text.h"

#include <CLI/CLI.hpp>

#include <cctype>
#include <memory>
#include <string_view>

namespace ddprun {
namespace {

constexpr size_t kOptionColumn = 24, kCommandColumn = 16;  // where their texts begin

struct Example {
  std::string_view command;  // empty: of the whole program
  std::string_view words;    // after "ddprun "
  const char* text;          // what they do
};

constexpr Example kExamples[] = {
    {"", "experiments/mnist.yaml", "train on all GPUs, or on the CPU"},
    {"", "experiments/mnist.yaml model=mlp model.hidden=512 optimizer=adam", "the same with other parts"},
    {"", "--cfg experiments/mnist.yaml", "what it is made of, and from which files"},
    {"", "resume outputs/mnist/latest", "go on after Ctrl-C, a crash or kill -9"},
    {"run", "experiments/mnist.yaml launch.workers=2 trainer.max_epochs=3", "two workers, three epochs"},
    {"run", "--build my_net.cpp experiments/digits.yaml model=my_net",
     "a plugin of your own, compiled if it has changed"},
    {"run", "-m optimizer.lr=0.1,0.01 model.hidden=64,128 experiments/digits", "four runs, one after the other"},
    {"run", "-n 4 -g 8 -nr 0 --rdzv-endpoint node0:29400 experiments/mnist.yaml",
     "the first of four nodes, with eight workers on each"},
    {"check", "experiments/mnist.yaml trainer.max_epochs=3", "every mistake, each with its file and line"},
    {"check", "--gradients --build my_net.cpp experiments/digits model=my_net", "is its backward right?"},
    {"data", "experiments/mnist.yaml", "counts, values, and a page of pictures with their labels"},
    {"submit", "--slurm experiments/mnist resources.gpus=4 resources.time=2h", "a batch job of Slurm"},
    {"submit", "--kubernetes --dry-run experiments/mnist resources.image=IMAGE", "the manifest alone"},
    {"resume", "outputs/mnist/latest", "to the end that its experiment says"},
    {"resume", "outputs/mnist/latest trainer.max_epochs=20", "and ten epochs more"},
    {"evaluate", "outputs/mnist/latest", "its last checkpoint"},
    {"evaluate", "outputs/mnist/latest best dataset.root=other", "its best one, on other data"},
    {"predict", "outputs/mnist/latest --out p.csv", "class and scores of every test sample"},
    {"export", "outputs/mnist/latest --out m.pt", "for torch.load in Python"},
    {"export", "outputs/mnist/latest best --out m.safetensors", "the best checkpoint's"},
    {"verify", "outputs/mnist/latest", "are its checkpoints what they were when they were saved?"},
    {"upload", "outputs/mnist/latest", "send what its loggers' servers have missed"},
    {"report", "outputs/mnist/latest", "write outputs/mnist/latest/report.html"},
    {"report", "outputs/a outputs/b --out both.html", "two runs beside each other"},
    {"list", "", "the runs in outputs/, and how they stand"},
    {"list", "--best outputs/mnist", "the best of them on top"},
    {"watch", "outputs/mnist/latest", "what the terminal of the run shows"},
    {"keys", "trainer", "the keys of a section"},
    {"keys", "batch", "those whose name or text has the word"},
    {"plugins", "show convnet", "its options, with their defaults"},
    {"plugins", "check my_net.so", "what is wrong with a plugin, found in a process of its own"},
    {"env", "-n 2 -nr 1", "where a launcher of this place would stand"},
};

constexpr const char* kOverrides =
    "Overrides: key=value changes a key, +key=value adds one, ++key=value does either, ~key removes one "
    "(docs/experiments.md).";
constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 wrong usage or experiment, 75 saved and to be resumed, 128+N ended by signal N.";

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

  // The text beside the name, or below it where the name is long.
  static std::string entry(const std::string& name, const std::string& text, size_t column) {
    const auto head = "  " + name;
    if (head.size() + 2 > column) return head + "\n" + paragraph(text, column);
    return padded(head, column) + wrapped(text, column, column) + "\n";
  }
};

}  // namespace

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

}  // namespace ddprun
