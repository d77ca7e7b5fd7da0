// SPDX-License-Identifier: MIT
#include "features/record/step_view.h"

#include "base/log.h"
#include "base/terminal.h"
#include "features/record/record_difference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownSamples = 8, kShownGradients = 8;

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

// What a number was in the steps before.
struct Usual {
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  size_t steps = 0;

  void add(double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    ++steps;
  }
  std::string text() const {
    if (steps < 2) return steps == 0 ? "" : number_text(least) + " in the step before";
    return log::text(number_text(least), " to ", number_text(greatest), " in the ", steps, " steps before");
  }
};

template <typename Of>
std::string usual_text(const StepView& view, Of of) {
  Usual usual;
  for (const auto& step : view.before) usual.add((step.*of)());
  return usual.text();
}

std::string in_brackets(const std::string& text) { return text.empty() ? "" : " (" + text + ")"; }

struct Gradient {
  std::string name;
  double norm = 0;
  std::optional<double> usual;  // the largest of the steps before

  double growth() const {
    if (std::isnan(norm)) return std::numeric_limits<double>::infinity();
    return usual && *usual > 0 ? norm / *usual : norm;
  }
};

std::vector<Gradient> gradients_of(const StepView& view) {
  std::vector<Gradient> gradients;
  for (size_t i = 0; i < view.record.gradients.size(); ++i) {
    const auto& now = view.record.gradients[i];
    gradients.push_back({.name = now.name, .norm = now.norm});
    for (const auto& step : view.before) {
      if (i < step.gradients.size() && step.gradients[i].name == now.name)
        gradients.back().usual = std::max(gradients.back().usual.value_or(0), step.gradients[i].norm);
    }
  }
  return gradients;
}

std::string samples_text(const StepView& view) {
  const auto samples = worst_first(view.record);
  if (!view.record.losses_problem.empty()) return "  no losses of single samples: " + view.record.losses_problem + "\n";
  std::string text = "  samples, each alone and in evaluation mode, the worst first:\n";
  const auto shown = std::min(samples.size(), kShownSamples);
  for (size_t i = 0; i < shown; ++i)
    text += log::text("    sample ", samples[i].number, ": loss ", number_text(*samples[i].loss), "\n");
  if (shown < samples.size()) text += log::text("    and ", samples.size() - shown, " more\n");
  return text;
}

std::string gradients_text(const StepView& view) {
  auto gradients = gradients_of(view);
  std::ranges::stable_sort(gradients, std::ranges::greater(), &Gradient::growth);
  std::string text = view.before.empty() ? "  norms of the gradients, the largest first:\n"
                                         : "  norms of the gradients, what has grown most first:\n";
  const auto shown = std::min(gradients.size(), kShownGradients);
  for (size_t i = 0; i < shown; ++i) {
    const auto& one = gradients[i];
    text += "    " + one.name + ": " + number_text(one.norm);
    text += one.usual ? " (at most " + number_text(*one.usual) + " before)\n" : "\n";
  }
  if (shown < gradients.size()) text += log::text("    and ", gradients.size() - shown, " more\n");
  return text;
}

std::string odd_text(const StepView& view) {
  const auto odd = first_odd_operator(view.record, view.before);
  if (!odd.empty()) return paragraph("first odd operator: " + odd, 2);
  return paragraph(view.before.empty()
                       ? "no operator gives numbers that are not finite"
                       : "no operator gives numbers that are not finite, or above 100 times its largest "
                         "in the steps before",
                   2);
}

std::string numbers_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(number_text(value)); }

}  // namespace

std::vector<SampleNote> worst_first(const StepRecord& record) {
  std::vector<SampleNote> samples;
  for (const auto& part : record.parts)
    std::ranges::copy_if(part.samples, std::back_inserter(samples),
                         [](const auto& one) { return one.loss.has_value(); });
  std::ranges::stable_sort(samples, std::ranges::greater(), [](const SampleNote& sample) {
    return std::isnan(*sample.loss) ? std::numeric_limits<double>::infinity() : *sample.loss;
  });
  return samples;
}

std::string step_text(const StepView& view) {
  auto text = log::text("step ", view.record.step, ":\n  loss ", number_text(view.record.loss()),
                        in_brackets(usual_text(view, &StepRecord::loss)), "\n  norm of all gradients ",
                        number_text(view.record.gradient_norm()),
                        in_brackets(usual_text(view, &StepRecord::gradient_norm)), "\n");
  if (view.without)
    text += "  without " + std::string(view.left_out.size() == 1 ? "sample " : "samples ") +
            numbers_text(view.left_out) + ": loss " + number_text(view.without->loss()) + ", norm of all gradients " +
            number_text(view.without->gradient_norm()) + "\n";
  return text + samples_text(view) + gradients_text(view) + odd_text(view);
}

namespace {

Json samples_section(const StepView& view, const Json& shown) {
  Json section{{"id", "samples"}, {"title", "Samples"}};
  if (!view.record.losses_problem.empty()) {
    section["text"] = Json::array({"There are no losses of single samples: " + view.record.losses_problem + "."});
    return section;
  }
  section["text"] = Json::array(
      {"What each sample of the batch loses alone, in evaluation mode, the worst first; with its target and its "
       "number."});
  section["samples"] = Json::array();
  for (const auto& sample : worst_first(view.record)) {
    section["samples"].push_back({{"id", sample.number}, {"loss", number_json(*sample.loss)}});
    if (const auto at = section["samples"].size() - 1; at < shown.size()) section["samples"][at].update(shown[at]);
  }
  return section;
}

Json gradients_section(const StepView& view) {
  auto head = Json::array({"Parameter", "Norm"}), rows = Json::array();
  const bool compared = !view.before.empty();
  if (compared) head.insert(head.end(), {"At most before", "Times"});
  for (const auto& one : gradients_of(view)) {
    auto& row = rows.emplace_back(Json::array({one.name, number_json(one.norm)}));
    if (!compared) continue;
    row.push_back(one.usual ? number_json(*one.usual) : Json(""));
    row.push_back(one.usual && *one.usual > 0 ? number_json(one.norm / *one.usual) : Json(""));
  }
  return {{"id", "gradients"},
          {"title", "Norms of the gradients, by parameter"},
          {"table", {{"head", std::move(head)}, {"rows", std::move(rows)}}}};
}

}  // namespace

Json step_sheet(const StepView& view, const std::string& head, const Json& shown) {
  const auto& record = view.record;
  auto tiles = Json::array(
      {{"Loss", number_json(record.loss()), usual_text(view, &StepRecord::loss)},
       {"Norm of all gradients", number_json(record.gradient_norm()), usual_text(view, &StepRecord::gradient_norm)}});
  if (view.without)
    tiles.push_back({"Loss without #" + numbers_text(view.left_out), number_json(view.without->loss()),
                     "norm " + number_text(view.without->gradient_norm())});
  Json sheet{{"about", log::text("step ", record.step)},
             {"tiles", std::move(tiles)},
             {"text", Json::array({head + "."})},
             {"sections", Json::array({samples_section(view, shown), gradients_section(view)})}};
  if (const auto odd = first_odd_operator(record, view.before); !odd.empty())
    sheet["notice"] = {{"title", "The first odd operator"}, {"lines", Json::array({odd + "."})}};
  return sheet;
}

}  // namespace ddprun
