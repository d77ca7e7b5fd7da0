// SPDX-License-Identifier: MIT
// A Python process that makes samples and leaves them in memory that both see.
#pragma once

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::python {

extern const char* const kServeText;  // serve.py

// What to start.
struct ProcessPlan {
  std::string python;  // the interpreter, looked for in PATH
  std::filesystem::path file;
  std::string class_name;
  std::vector<std::string> splits;
  nlohmann::json arguments;
  int64_t timeout_seconds = 0;  // for one answer
};

// Used by one thread at a time. Every failure is a UserError with the file, and the sample where one was being made.
class DataProcess {
 public:
  // Starts it, and asks for the user's objects. It ends with this object, and with this process, however that ends:
  // call it on a thread that lives as long as the process.
  explicit DataProcess(const ProcessPlan& plan);
  ~DataProcess();
  DataProcess(const DataProcess&) = delete;
  DataProcess& operator=(const DataProcess&) = delete;

  // Waits until the objects are made. Several processes make theirs at the same time.
  void wait_until_open() { receive(); }

  // Sends a request, and waits for its answer. Between the two the process works by itself.
  void send(const nlohmann::json& request);
  nlohmann::json receive();

  // Returns the memory, grown to at least this many bytes, behind its header. Called before send().
  const uint8_t* memory(size_t bytes);

 private:
  void start();
  void end() noexcept;
  void read(void* target, size_t bytes);
  [[noreturn]] void fail(const std::string& flaw) const;
  [[noreturn]] void ended();
  std::string doing() const;

  const ProcessPlan& plan_;
  pid_t pid_ = -1;
  int channel_ = -1, memory_fd_ = -1;
  uint8_t* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  bool fetching_ = false;
};

inline constexpr size_t kHeaderBytes = 16;  // of the memory: the sample's number, its split's

}  // namespace ddprun::python
