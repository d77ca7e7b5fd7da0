// SPDX-License-Identifier: MIT
#include "delivery.h"

#include "warning.h"

#include <unistd.h>

#include <utility>

namespace ddprun::mlflow {
namespace {

constexpr auto kSpoolTag = "ddprun.spool";
constexpr auto kOwnFiles = "mlflow/files/";  // made only to be sent, and removed after that
constexpr size_t kMostItems = 1000;

void add_row(std::vector<Item>& items, const Json& row) {
  const auto time = row["time"].get<int64_t>(), step = row["step"].get<int64_t>();
  for (const auto& [key, value] : row["metrics"].items()) items.push_back(Item::metric(key, value, time, step));
}

void add_tags(std::vector<Item>& items, const Json& tags) {
  for (const auto& [key, value] : tags.items()) items.push_back(Item::tag(key, value.get<std::string>()));
}

}  // namespace

Delivery::Delivery(const Settings& settings, const std::filesystem::path& run_dir, const std::atomic<bool>& given_up)
    : settings_(settings),
      run_dir_(run_dir),
      folder_(run_dir / "mlflow"),
      server_(settings, given_up),
      spool_(folder_ / "spool.jsonl"),
      sent_(read_sent_note(folder_ / "sent.json", settings.uri)),
      refusals_(folder_ / "refused.jsonl") {
  std::error_code error;
  const auto size = std::filesystem::file_size(folder_ / "spool.jsonl", error);
  if (!error && static_cast<int64_t>(size) < sent_.offset) sent_ = {};  // the note belongs to another spool
  const auto first = spool_.line_at(0);
  if (first && first->json.is_object()) spool_word_ = first->json.value("spool", "");
}

bool Delivery::send_some() {
  std::vector<Item> items;
  int64_t end = sent_.offset;
  if (gather_items(items, end)) {
    send(items);
    note(end);
    return true;
  }
  const auto line = spool_.line_at(sent_.offset);
  if (!line) return false;
  if (line->json.is_object()) send_line(line->json);
  note(line->end);
  if (line->json.is_object() && line->json.contains("file")) {
    const auto from = line->json["file"]["from"].get<std::string>();
    std::error_code ignored;
    if (from.starts_with(kOwnFiles)) std::filesystem::remove(run_dir_ / from, ignored);
  }
  return true;
}

// Collects rows and tags up to the next line of another kind.
bool Delivery::gather_items(std::vector<Item>& items, int64_t& end) {
  while (items.size() < kMostItems) {
    const auto line = spool_.line_at(end);
    if (!line || !line->json.is_object()) break;
    if (line->json.contains("row")) {
      add_row(items, line->json["row"]);
    } else if (line->json.contains("tags")) {
      add_tags(items, line->json["tags"]);
    } else {
      break;
    }
    end = line->end;
  }
  return !items.empty();
}

void Delivery::send_line(const Json& line) {
  if (line.contains("start")) begin(line["start"]);
  if (line.contains("end")) finish(line["end"]);
  if (line.contains("file")) send_file(line["file"]);
}

void Delivery::begin(const Json& start) {
  open_run(start);
  std::vector<Item> items;
  for (const auto& [key, value] : start["params"].items()) items.push_back(Item::param(key, value.get<std::string>()));
  add_tags(items, start["tags"]);
  send(items);
  tell("info", settings_.uri + "/#/experiments/" + sent_.run.experiment_id + "/runs/" + sent_.run.run_id);
}

// Nothing else can be sent without a run, so a refusal here waits, too.
void Delivery::open_run(const Json& start) try {
  if (sent_.run.run_id.empty()) {
    sent_.run = find_or_create_run(start);
    note(sent_.offset);
  }
  server_.update_run(sent_.run.run_id, {{"status", "RUNNING"}});
} catch (const Refused& error) {
  throw NotDelivered(error.what(), 0);
}

// A process that was killed before it could note its run finds it by its tag.
RemoteRun Delivery::find_or_create_run(const Json& start) {
  const auto experiment = server_.experiment_id(start["experiment"].get<std::string>());
  if (auto found = server_.find_run(experiment, kSpoolTag, spool_word_)) return *found;
  auto tags = start["tags"];
  tags[kSpoolTag] = spool_word_;
  return server_.create_run(experiment, start["run_name"].get<std::string>(), start["time"].get<int64_t>(), tags);
}

void Delivery::finish(const Json& end) try {
  server_.update_run(sent_.run.run_id, {{"status", end["status"]}, {"end_time", end["time"]}});
} catch (const Refused& error) {
  ask_whether_run_is_open();
  refusals_.set_aside("the run's end", end, error.what());
}

void Delivery::send_file(const Json& file) {
  const auto from = run_dir_ / file["from"].get<std::string>();
  const auto to = file["to"].get<std::string>();
  if (!std::filesystem::is_regular_file(from)) return;  // sent already, or never written
  if (!keeps_artifacts(sent_.run)) {
    if (!std::exchange(told_of_artifacts_, true))
      warn(settings_.uri + " stores artifacts in " + sent_.run.artifact_uri +
           " and does not serve them (mlflow server --serve-artifacts): files are not sent");
    return;
  }
  if (access(from.c_str(), R_OK) != 0) return warn(from.string() + " cannot be read: it is not sent");
  try {
    server_.put_artifact(sent_.run, to, from);
  } catch (const Refused& error) {
    ask_whether_run_is_open();
    refusals_.set_aside(to, file, error.what());
  }
}

void Delivery::send(std::span<const Item> items) {
  while (!items.empty()) {
    const auto batch = first_batch(items);
    send_batch(batch);
    items = items.subspan(batch.size());
  }
}

// If a batch is refused, halving finds the item at fault.
void Delivery::send_batch(std::span<const Item> all) {
  const auto items = without_hopeless(all);
  if (items.empty()) return;
  try {
    server_.log_batch(sent_.run.run_id, items);
  } catch (const Refused& error) {
    ask_whether_run_is_open();
    if (items.size() == 1) return refusals_.set_aside(items[0].key(), items[0].json, error.what());
    const std::span whole(items);
    send_batch(whole.first(items.size() / 2));
    send_batch(whole.subspan(items.size() / 2));
  }
}

std::vector<Item> Delivery::without_hopeless(std::span<const Item> items) {
  std::vector<Item> hopeful;
  for (const auto& item : items) {
    if (refusals_.hopeless(item.key())) {
      refusals_.set_aside(item.key(), item.json, "as before");
    } else {
      hopeful.push_back(item);
    }
  }
  return hopeful;
}

// Sends an empty request: if even that is refused, the fault lies with the run, our rights or the address.
void Delivery::ask_whether_run_is_open() try { server_.log_batch(sent_.run.run_id, {}); } catch (const Refused& error) {
  throw NotDelivered(error.what(), 0);
}

void Delivery::note(int64_t offset) {
  sent_.offset = offset;
  spool_.sync();
  write_sent_note(folder_ / "sent.json", settings_.uri, sent_);
}

std::string Delivery::left() const {
  SpoolReader reader(folder_ / "spool.jsonl");
  int64_t rows = 0, files = 0, others = 0;
  for (auto line = reader.line_at(sent_.offset); line; line = reader.line_at(line->end)) {
    if (!line->json.is_object()) continue;
    ++(line->json.contains("row") ? rows : line->json.contains("file") ? files : others);
  }
  if (rows + files + others == 0) return "";
  return std::to_string(rows) + " rows, " + std::to_string(files) + " files" + (others > 0 ? " and how it ended" : "");
}

}  // namespace ddprun::mlflow
