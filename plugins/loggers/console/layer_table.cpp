// SPDX-License-Identifier: MIT
#include "layer_table.h"

#include "terminal_text.h"
#include "text_table.h"

#include <algorithm>

namespace ddprun::console {
namespace {

std::string first_part(const std::string& name) { return name.substr(0, name.find('.')); }

// Merges neighbours with the same first part: "layer1.*", "8 layers", the last one's shape.
std::vector<LayerSummary> grouped_layers(const std::vector<LayerSummary>& layers) {
  std::vector<LayerSummary> groups;
  for (auto first = layers.begin(); first != layers.end();) {
    const auto part = first_part(first->name);
    const auto last = std::find_if(first, layers.end(), [&](const auto& one) { return first_part(one.name) != part; });
    LayerSummary group = *(last - 1);
    if (last - first > 1) {
      group = {.name = part + ".*", .kind = std::to_string(last - first) + " layers", .shape = group.shape};
      for (auto one = first; one != last; ++one) group.parameters += one->parameters;
    }
    groups.push_back(std::move(group));
    first = last;
  }
  return groups;
}

}  // namespace

std::vector<std::string> layer_table(const std::vector<LayerSummary>& layers, size_t most, size_t width) {
  const auto shown = layers.size() > most ? grouped_layers(layers) : layers;
  std::vector<Cells> rows{{"layer", "kind", "output", "parameters"}};
  for (size_t i = 0; i < std::min(shown.size(), most); ++i) {
    const auto& layer = shown[i];
    rows.push_back({layer.name.empty() ? "(model)" : layer.name, layer.kind, layer.shape, grouped(layer.parameters)});
  }
  auto lines = text_table(rows, {false, false, false, true});
  if (shown.size() > most) lines.push_back("and " + std::to_string(shown.size() - most) + " more");
  for (auto& line : lines) {
    if (shown_width(line) > width) line = shortened(line, width);
  }
  return lines;
}

}  // namespace ddprun::console
