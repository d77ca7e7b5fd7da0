// SPDX-License-Identifier: MIT
#include "cluster/placement_text.h"

#include "cluster/endpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddprun {
namespace {

constexpr size_t kColumns = 80;

std::string plural(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

bool continues_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Returns one line of at most `most` bytes, "/tmp/torch...error.json", without anything that moves a terminal's cursor.
std::string fit(std::string text, size_t most) {
  std::ranges::replace_if(text, [](unsigned char byte) { return byte < ' ' || byte == 0x7F; }, '?');
  if (text.size() <= most) return text;
  auto head = (most - 3) / 2, tail = text.size() - (most - 3 - head);
  while (head > 0 && continues_letter(text[head])) --head;
  while (tail < text.size() && continues_letter(text[tail])) ++tail;
  return text.substr(0, head) + "..." + text.substr(tail);
}

std::string line(const std::string& label, const std::string& text) {
  constexpr size_t kLabel = 14;
  return label + std::string(kLabel - label.size(), ' ') + fit(text, kColumns - kLabel) + "\n";
}

std::string started_by(const Placement& placement) {
  if (placement.engine == Engine::kNobody) return "nobody: this command alone";
  const auto role = placement.role == Role::kRank ? ": one process per rank" : ": one process per node";
  if (placement.engine == Engine::kEnv) return std::string("RANK, WORLD_SIZE and LOCAL_RANK") + role;
  if (placement.engine == Engine::kFlags) return "the flags of this command" + std::string(role);
  return std::string(word_of(placement.engine)) + role;
}

std::string place(const Placement& placement) {
  if (placement.role == Role::kRank) {
    return "rank " + std::to_string(placement.rank) + " of " + std::to_string(placement.world_size) +
           "; on this node " + std::to_string(placement.local_rank) + " of " +
           std::to_string(placement.local_world_size);
  }
  const auto rank = placement.node_rank ? "node " + std::to_string(*placement.node_rank) : "a node";
  const auto least = std::to_string(placement.min_nodes), most = std::to_string(placement.max_nodes);
  return rank + " of " + (least == most ? most : least + " to " + most);
}

std::string workers(const Placement& placement) {
  return placement.workers.empty() ? "set by launch.workers of the experiment" : placement.workers;
}

std::string rendezvous(const Placement& placement) {
  if (placement.host.empty()) return "none: one node";
  const auto where = Endpoint{placement.host, placement.port}.text();
  return where + (placement.agent_store ? ", a store of torchrun or torch.distributed" : "");
}

std::string job(const Placement& placement) {
  const auto name = placement.job_id.empty() ? "without a name" : placement.job_id;
  return name + ", restarted " + plural(placement.restart_count, "time");
}

std::string restarts(const Placement& placement) {
  if (placement.engine_restarts) return "torchrun's";
  return placement.max_restarts ? plural(*placement.max_restarts, "time") + " at most" : "as the experiment says";
}

std::string evidence_lines(const Placement& placement, bool counted) {
  std::string text;
  for (const auto& evidence : placement.evidence) {
    if (evidence.counted != counted) continue;
    const Setting setting{evidence.variable, evidence.value};
    text += "  " + fit(setting.text(), kColumns - 2) + "\n      " + fit(evidence.meaning, kColumns - 6) + "\n";
  }
  return text;
}

nlohmann::json evidence_json(const Placement& placement, bool counted) {
  auto list = nlohmann::json::array();
  for (const auto& evidence : placement.evidence) {
    if (evidence.counted != counted) continue;
    list.push_back({{"variable", evidence.variable}, {"value", evidence.value}, {"meaning", evidence.meaning}});
  }
  return list;
}

template <class Number>
nlohmann::json number_or_null(const std::optional<Number>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json(nullptr);
}

}  // namespace

std::string placement_text(const Placement& placement, const Installation& installation) {
  auto text = "ddprun " + installation.ddprun + ", LibTorch " + installation.libtorch + "; here " +
              plural(installation.gpus, "GPU") + ", " + plural(installation.cores, "CPU core") + "\n\n";
  text += line("started by", started_by(placement)) + line("this is", place(placement));
  if (placement.role == Role::kNode) text += line("its workers", workers(placement));
  text +=
      line("rendezvous", rendezvous(placement)) + line("job", job(placement)) + line("restarts", restarts(placement));
  if (!placement.error_file.empty()) text += line("errors go to", placement.error_file);
  const auto counted = evidence_lines(placement, true), ignored = evidence_lines(placement, false);
  if (!counted.empty()) text += "\nwhat counted\n" + counted;
  if (!ignored.empty()) text += "\nset, but ignored\n" + ignored;
  return text;
}

std::string placement_json(const Placement& placement, const Installation& installation) {
  const bool node = placement.role == Role::kNode;
  nlohmann::ordered_json json = {{"engine", word_of(placement.engine)}, {"role", node ? "node" : "rank"}};
  if (node) {
    json["min_nodes"] = placement.min_nodes;
    json["max_nodes"] = placement.max_nodes;
    json["node_rank"] = number_or_null(placement.node_rank);
    json["workers"] = placement.workers;
  } else {
    json["rank"] = placement.rank;
    json["world_size"] = placement.world_size;
    json["local_rank"] = placement.local_rank;
    json["local_world_size"] = placement.local_world_size;
  }
  json["host"] = placement.host;
  json["port"] = placement.port;
  json["agent_store"] = placement.agent_store;
  json["job_id"] = placement.job_id;
  json["restart_count"] = placement.restart_count;
  json["engine_restarts"] = placement.engine_restarts;
  json["max_restarts"] = number_or_null(placement.max_restarts);
  json["error_file"] = placement.error_file;
  json["evidence"] = evidence_json(placement, true);
  json["ignored"] = evidence_json(placement, false);
  json["gpus"] = installation.gpus;
  json["cores"] = installation.cores;
  json["ddprun"] = installation.ddprun;
  json["libtorch"] = installation.libtorch;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
