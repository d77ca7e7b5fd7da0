// SPDX-License-Identifier: MIT
#include "runs/event_list.h"

#include "runs/json_lines.h"

#include <algorithm>

namespace ddprun {
namespace {

constexpr size_t kMostEvents = 500;

bool is_checkpoint(const RecordedEvent& event) { return event.kind == "checkpoint"; }

// Keeps the newest of each kind.
void thin_out(std::vector<RecordedEvent>& events, std::vector<std::string>& problems) {
  const auto all = events.size();
  for (const bool checkpoints : {true, false}) {
    auto surplus = static_cast<std::ptrdiff_t>(events.size()) - static_cast<std::ptrdiff_t>(kMostEvents);
    std::erase_if(events,
                  [&](const RecordedEvent& event) { return is_checkpoint(event) == checkpoints && surplus-- > 0; });
  }
  if (events.size() < all)
    problems.push_back("events.jsonl: of " + std::to_string(all) + " events the report shows " +
                       std::to_string(events.size()));
}

}  // namespace

std::vector<RecordedEvent> read_events(const std::filesystem::path& file, AttemptStarts& starts,
                                       std::vector<std::string>& problems) {
  std::vector<RecordedEvent> events;
  read_json_lines(file, "kind", problems, [&](const FlatObject& line, uint64_t) {
    RecordedEvent event{.time = line.number("time"),
                        .attempt = line.integer("attempt"),
                        .epoch = line.integer("epoch"),
                        .step = line.integer("step"),
                        .kind = std::string(line.text("kind")),
                        .text = std::string(line.text("text"))};
    if (event.kind == "resumed") starts.saw(event.attempt, event.step);
    events.push_back(std::move(event));
  });
  thin_out(events, problems);
  return events;
}

}  // namespace ddprun
