// SPDX-License-Identifier: MIT
#include "weights/pretrained_weights.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "weights/weight_file.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <c10/core/ScalarType.h>
#include <torch/types.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <utility>

namespace ddprun {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kMostListed = 10;

bool matches(const NamePatterns& patterns, const std::string& name) {
  return std::ranges::any_of(patterns.patterns, [&](const auto& pattern) { return name_matches(pattern, name); });
}

Names names_of(const TensorDict& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

// Renames the file's tensors, one rule after the other.
TensorDict renamed(TensorDict tensors, const PretrainedConfig& config) {
  for (const auto& [pattern, replacement] : config.rename) {
    const std::regex expression(pattern);
    TensorDict now;
    bool has_matched = false;
    for (const auto& [name, tensor] : tensors) {
      has_matched = has_matched || std::regex_search(name, expression);
      const auto [at, is_new] = now.emplace(std::regex_replace(name, expression, replacement), tensor);
      if (!is_new) throw UserError(config.rename_place + "two tensors of the file would be called " + at->first);
    }
    if (!has_matched)
      throw UserError(config.rename_place + "\"" + pattern +
                      "\" matches none of the file's names: " + first_names(names_of(tensors)));
    tensors = std::move(now);
  }
  return tensors;
}

enum class Kind { kFloat, kInteger, kBool, kOther };

Kind kind_of(at::ScalarType type) {
  if (type == at::kBool) return Kind::kBool;
  if (at::isFloatingType(type)) return Kind::kFloat;
  return at::isIntegralType(type, /*includeBool=*/false) ? Kind::kInteger : Kind::kOther;
}

// Returns "float32", as PyTorch's users call the type.
std::string type_text(at::ScalarType type) {
  if (type == at::kFloat) return "float32";
  if (type == at::kHalf) return "float16";
  if (type == at::kDouble) return "float64";
  if (type == at::kLong) return "int64";
  if (type == at::kInt) return "int32";
  std::string text = c10::toString(type);
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

// Returns the layers that hold only these names, and the names of no such layer, for a list of patterns that matches
// them and nothing else: fc.* for fc.weight and fc.bias.
Names patterns_for(const std::set<std::string>& names, const std::set<std::string>& others) {
  Names patterns;
  for (const auto& name : names) {
    auto pattern = name;
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const auto layer = name.substr(0, dot + 1);
      const auto next = others.lower_bound(layer);
      if (next != others.end() && next->starts_with(layer)) continue;
      pattern = layer + "*";
      break;
    }
    if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(pattern);
  }
  return patterns;
}

std::string listed(const Names& patterns) {
  std::string text;
  for (const auto& pattern : patterns) {
    const bool is_plain = pattern[0] != '*' && pattern.find_first_of("[]{},:\"' ") == std::string::npos;
    text += (text.empty() ? "" : ", ") + (is_plain ? pattern : "\"" + pattern + "\"");
  }
  return "[" + text + "]";
}

// Returns the first part that all names have in common, "module."; empty if there is none.
std::string common_first_part(const Names& names) {
  const auto part = names.empty() ? "" : names.front().substr(0, names.front().find('.') + 1);
  return std::ranges::all_of(names, [&](const auto& name) { return name.starts_with(part); }) ? part : "";
}

class Loading {
 public:
  Loading(const Model& model, const PretrainedConfig& config, TensorDict saved)
      : config_(config), saved_(std::move(saved)), tensors_(state_tensors(model)) {}

  LoadedWeights load() {
    require_skips_to_match();
    for (const auto& tensor : tensors_) compare(tensor);
    for (const auto& [name, value] : saved_) {
      if (known_.contains(name)) continue;
      if (matches(config_.skip, name)) {
        done_.unused.push_back(name);
      } else {
        complain(name, log::text("the model has no ", name, ", ", value.sizes(), " in the file"));
      }
    }
    forget_tied();
    if (!problems_.empty()) refuse();
    const torch::NoGradGuard no_gradients;
    for (const auto& [target, source] : copies_) target.value.copy_(source);
    done_.loaded = static_cast<int64_t>(copies_.size());
    return std::move(done_);
  }

 private:
  void complain(const std::string& name, std::string problem) {
    misfits_.push_back({name, std::move(problem)});
    problems_.insert(name);
  }

  void require_skips_to_match() const {
    auto names = names_of(saved_);
    for (const auto& tensor : tensors_)
      if (!saved_.contains(tensor.name)) names.push_back(tensor.name);
    for (const auto& pattern : config_.skip.patterns) {
      if (std::ranges::any_of(names, [&](const auto& name) { return name_matches(pattern, name); })) continue;
      throw UserError(config_.skip.place + "no tensor of the model or of the file matches \"" + pattern + "\"" +
                      nearest_pattern(pattern, names) + "; there are " + first_names(names));
    }
  }

  void compare(const NamedParameter& tensor) {
    const auto& [name, value] = tensor;
    known_.insert(name);
    if (matches(config_.skip, name)) return done_.anew.push_back(name);
    const auto found = saved_.find(name);
    if (found == saved_.end()) {
      missing_.push_back(tensor);
      return complain(name, log::text(name, ", ", value.sizes(), " in the model, is missing in the file"));
    }
    const auto& source = found->second;
    const auto type = source.scalar_type(), own = value.scalar_type();
    if (source.sizes() != value.sizes())
      return complain(name,
                      log::text(name, " is ", source.sizes(), " in the file and ", value.sizes(), " in the model"));
    if (kind_of(type) != kind_of(own))
      return complain(name, name + " is " + type_text(type) + " in the file and " + type_text(own) + " in the model");
    if (type != own && done_.converted.empty()) done_.converted = type_text(type) + " to " + type_text(own);
    copies_.emplace_back(tensor, source);
  }

  // A tensor that the model has under two names need not be in the file under both.
  void forget_tied() {
    for (const auto& tensor : missing_) {
      const bool is_there =
          std::ranges::any_of(copies_, [&](const auto& copy) { return copy.first.value.is_same(tensor.value); });
      if (!is_there) continue;
      problems_.erase(tensor.name);
      std::erase_if(misfits_, [&](const auto& misfit) { return misfit.first == tensor.name; });
    }
  }

  [[noreturn]] void refuse() const {
    const auto where = config_.file_place + config_.file;
    auto text = where + " does not fit the model:";
    for (size_t i = 0; i < std::min(misfits_.size(), kMostListed); ++i) text += "\n  " + misfits_[i].second;
    if (misfits_.size() > kMostListed) text += log::text("\n  and ", misfits_.size() - kMostListed, " more");
    throw UserError(text + "\n" + advice());
  }

  std::string advice() const {
    const auto part = common_first_part(names_of(saved_));
    const auto fits_without = [&](const NamedParameter& tensor) { return saved_.contains(part + tensor.name); };
    if (!part.empty() && std::ranges::count_if(tensors_, fits_without) > static_cast<std::ptrdiff_t>(copies_.size())) {
      return "All its names begin with " + part + ", the model's do not: pretrained.rename: {\"^" +
             part.substr(0, part.size() - 1) + "\\\\.\": \"\"}";
    }
    Names fitting;
    for (const auto& [target, source] : copies_) fitting.push_back(target.name);
    if (fitting.empty()) {
      Names own;
      for (const auto& tensor : tensors_) own.push_back(tensor.name);
      return "None of its tensors fits: it is of another network, or needs pretrained.rename. The file has " +
             first_names(names_of(saved_)) + "; the model has " + first_names(own);
    }
    auto patterns = config_.skip.patterns;
    std::ranges::copy(patterns_for(problems_, {fitting.begin(), fitting.end()}), std::back_inserter(patterns));
    return "If these are to start from new values: pretrained.skip: " + listed(patterns);
  }

  const PretrainedConfig& config_;
  TensorDict saved_;
  std::vector<NamedParameter> tensors_;
  std::set<std::string> known_, problems_;
  std::vector<std::pair<std::string, std::string>> misfits_;  // by name
  std::vector<NamedParameter> missing_;
  std::vector<std::pair<NamedParameter, at::Tensor>> copies_;
  LoadedWeights done_;
};

}  // namespace

LoadedWeights load_pretrained(const Model& model, const PretrainedConfig& config, const TensorDict& saved) {
  return Loading(model, config, renamed(saved, config)).load();
}

LoadedWeights load_pretrained(const Model& model, const PretrainedConfig& config) {
  return load_pretrained(model, config, read_pretrained(config));
}

TensorDict read_pretrained(const PretrainedConfig& config) try {
  return read_weights(config.file);
} catch (const UserError& error) {
  throw UserError(config.file_place + error.what());
}

std::string LoadedWeights::text(const std::string& file) const {
  auto text = log::text(loaded, loaded == 1 ? " tensor" : " tensors", " loaded from ",
                        std::filesystem::path(file).filename().string());
  if (!converted.empty()) text += " (" + converted + ")";
  text += anew.empty() ? ", none new" : log::text(", ", anew.size(), " new: ", first_names(anew));
  return text + (unused.empty() ? "" : log::text("; not used: ", first_names(unused)));
}

}  // namespace ddprun
