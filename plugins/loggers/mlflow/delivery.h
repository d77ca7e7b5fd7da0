// SPDX-License-Identifier: MIT
// Sends a spool in order and notes its progress. A process that is killed between a request and its note sends that
// request again.
#pragma once

#include "refusals.h"
#include "sent_note.h"
#include "spool.h"

namespace ddprun::mlflow {

// Used by one process at a time (mlflow/lock), from one thread.
class Delivery {
 public:
  // `settings` and `given_up` (see Http) must outlive it.
  Delivery(const Settings& settings, const std::filesystem::path& run_dir, const std::atomic<bool>& given_up);

  // Sends the next lines, as many as fit into one request. Returns false if none is left. Throws NotDelivered: nothing
  // is lost, another call tries again.
  bool send_some();

  // Describes what is not sent yet; empty if all is.
  std::string left() const;

 private:
  bool gather_items(std::vector<Item>& items, int64_t& end);
  void send_line(const Json& line);
  void begin(const Json& start);
  void open_run(const Json& start);
  RemoteRun find_or_create_run(const Json& start);
  void finish(const Json& end);
  void send_file(const Json& file);
  void send(std::span<const Item> items);
  void send_batch(std::span<const Item> all);
  std::vector<Item> without_hopeless(std::span<const Item> items);
  void ask_whether_run_is_open();
  void note(int64_t offset);

  const Settings& settings_;
  std::filesystem::path run_dir_, folder_;
  Server server_;
  SpoolReader spool_;
  SentNote sent_;
  Refusals refusals_;
  std::string spool_word_;
  bool told_of_artifacts_ = false;
};

}  // namespace ddprun::mlflow
