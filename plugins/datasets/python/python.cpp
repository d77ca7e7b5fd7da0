// SPDX-License-Identifier: MIT
// The samples of a class in Python, `__getitem__` and `__len__`, made in processes of their own: for data that only
// Python can read.
#include "data_process.h"

#include <ddprun/data_digest.h>
#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <type_traits>

namespace {

using ddprun::Split;
using ddprun::python::DataProcess;
using ddprun::python::ProcessPlan;
using Json = nlohmann::json;

// Returns a value of the experiment as Python gets it: a plain scalar is what JSON makes of it, or a text.
Json to_json(const ddprun::Value& value) {
  if (value.is_null()) return nullptr;
  if (value.is_scalar()) {
    const auto read = value.quoted() ? Json() : Json::parse(value.text(), nullptr, /*allow_exceptions=*/false);
    return value.quoted() || read.is_discarded() ? Json(value.text()) : read;
  }
  Json parts = value.is_list() ? Json::array() : Json::object();
  for (const auto& item : value.items()) parts.push_back(to_json(item));
  for (const auto& entry : value.entries()) parts[entry.key] = to_json(entry.value);
  return parts;
}

// A field of the samples: the input, the target, or an extra.
struct Field {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;  // of one sample

  size_t bytes() const {
    return std::accumulate(shape.begin(), shape.end(), c10::elementSize(type),
                           [](size_t all, int64_t extent) { return all * static_cast<size_t>(extent); });
  }
};

// The processes, of which each call of get() takes those that are idle.
class Pool {
 public:
  void add(std::unique_ptr<DataProcess> process) {
    idle_.push_back(process.get());
    all_.push_back(std::move(process));
  }

  // Returns at least one, at most `most`. Throws what fail() was given.
  std::vector<DataProcess*> take(size_t most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || !idle_.empty(); });
    if (failure_) std::rethrow_exception(failure_);
    const auto count = std::clamp<size_t>(most, 1, idle_.size());
    std::vector<DataProcess*> taken(idle_.end() - static_cast<std::ptrdiff_t>(count), idle_.end());
    idle_.resize(idle_.size() - count);
    return taken;
  }

  void give_back(const std::vector<DataProcess*>& taken) {
    const std::scoped_lock lock(mutex_);
    idle_.insert(idle_.end(), taken.begin(), taken.end());
    changed_.notify_all();
  }

  // Ends the waiting of all who take: a process that failed has no sample for them.
  void fail(std::exception_ptr failure) {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(failure);
    changed_.notify_all();
  }

 private:
  std::vector<std::unique_ptr<DataProcess>> all_;
  std::vector<DataProcess*> idle_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

class PythonData final : public ddprun::Dataset {
 public:
  explicit PythonData(ddprun::Options& options) {
    plan_.file = options.require<std::filesystem::path>("file", "Python file that has the class");
    plan_.class_name =
        options.require<std::string>("class", "MyData(split, **arguments), with __len__ and __getitem__");
    plan_.arguments = to_json(options.subtree("arguments", "what else the class is made with"));
    if (plan_.arguments.is_null()) plan_.arguments = Json::object();
    if (!plan_.arguments.is_object()) options.reject("arguments", "expected a map of names and values");
    plan_.splits = options.get<std::vector<std::string>>("splits", {"train", "val"}, "those that the class has");
    processes_ = options.get<int64_t>("processes", 2, "that make samples, for each worker", {.min = 1, .max = 256});
    plan_.timeout_seconds = options.get<int64_t>(
        "timeout_seconds", 120, "for one process's part of a batch; then the run ends with an error", {.min = 1});
    plan_.python = options.get<std::string>(
        "python", "", "the interpreter, which needs numpy; by default that of the ddprun package, or python3");
    if (const char* of_package = std::getenv("DDPRUN_PYTHON"); plan_.python.empty())
      plan_.python = of_package && *of_package ? of_package : "python3";
    for (const auto& name : plan_.splits) {
      if (!split_of(name)) options.reject("splits", "expected train, val and test, or some of them; found " + name);
      if (std::ranges::count(plan_.splits, name) > 1) options.reject("splits", name + " comes more than once");
    }
    if (plan_.splits.empty() || plan_.splits.front() != "train") options.reject("splits", "expected train first");
  }

  bool is_prepared() const override { return true; }

  void start() override {
    if (!std::filesystem::exists(plan_.file)) throw ddprun::UserError(plan_.file.string() + ": no such file");
    std::vector<std::unique_ptr<DataProcess>> processes;
    for (int64_t i = 0; i < processes_; ++i) processes.push_back(std::make_unique<DataProcess>(plan_));
    for (const auto& process : processes) process->wait_until_open();
    processes.front()->send({{"do", "describe"}});
    read_description(processes.front()->receive());
    for (auto& process : processes) pool_.add(std::move(process));
  }

  // What its samples hold is known to the class alone.
  ddprun::DataAccount account() const override {
    ddprun::DataAccount account{.unit = "sample"};
    ddprun::DataDigest digest;
    digest.add(layout_.dump());
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      account.used += size(split);
      digest.add(size(split));
      if (const auto known = labels(split); known.defined())
        digest.add_all(known.const_data_ptr(), static_cast<uint64_t>(known.nbytes()));
    }
    account.digest = digest.hex();
    return account;
  }

  ddprun::DataSpec spec() const override { return spec_; }
  int64_t size(Split split) const override { return sizes_[static_cast<size_t>(split)]; }

  at::Tensor labels(Split split) const override {
    if (size(split) == 0) return {};
    const auto known = with_processes(1, [&](const std::vector<DataProcess*>& taken) {
      taken.front()->send({{"do", "labels"}, {"split", place_of(split)}});
      return taken.front()->receive().at("labels");
    });
    return known.is_null() ? at::Tensor() : at::tensor(known.get<std::vector<int64_t>>(), at::kLong);
  }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override { return made(split, indices, {}); }

  ddprun::Batch draw(std::span<const int64_t> indices, const ddprun::AugmentKey& key) const override {
    return made(Split::kTrain, indices, key);
  }

 private:
  // The generators of Python are seeded by the key and the sample's number.
  ddprun::Batch made(Split split, std::span<const int64_t> indices, const ddprun::AugmentKey& key) const {
    const auto count = static_cast<int64_t>(indices.size());
    std::vector<at::Tensor> tensors;
    for (const auto& field : fields_) {
      auto shape = field.shape;
      shape.insert(shape.begin(), count);
      tensors.push_back(at::empty(shape, at::dtype(field.type)));
    }
    fetch(split, indices, key, tensors);
    ddprun::Batch batch;
    batch.index = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong);
    for (size_t i = 0; i < fields_.size(); ++i) {
      const auto& name = fields_[i].name;
      (name == "input" ? batch.input : name == "target" ? batch.target : batch.extras[name]) = tensors[i];
    }
    return batch;
  }

  static std::optional<Split> split_of(const std::string& name) {
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (name == ddprun::split_name(split)) return split;
    }
    return std::nullopt;
  }

  void read_description(const Json& described) {
    for (const auto& [name, size] : described.at("sizes").items())
      sizes_[static_cast<size_t>(*split_of(name))] = size.get<int64_t>();
    fields_.clear();
    layout_ = described.at("fields");
    for (const auto& [name, field] : layout_.items()) {
      const auto type = field.at("type").get<std::string>();
      fields_.push_back({name,
                         type == "int64"  ? at::kLong
                         : type == "bool" ? at::kBool
                                          : at::kFloat,
                         field.at("shape").get<std::vector<int64_t>>()});
      if (name == "input") {
        spec_.sample_shape = fields_.back().shape;
      } else if (name != "target") {
        spec_.extras[name] = fields_.back().shape;
      }
    }
    spec_.classes = described.at("classes").get<int64_t>();
    spec_.class_names = described.at("class_names").get<std::vector<std::string>>();
    if (spec_.classes == 0 && layout_.at("target").at("type") == "int64")
      throw ddprun::UserError(plan_.file.string() + ": " + plan_.class_name +
                              ": its targets are whole numbers, so it needs the attribute `classes`: how many there "
                              "are, or a list of their names; targets that are values must be floats");
  }

  // Deals the samples out to the processes that are idle.
  void fetch(Split split, std::span<const int64_t> indices, const ddprun::AugmentKey& key,
             std::vector<at::Tensor>& tensors) const {
    with_processes(indices.size(), [&](const std::vector<DataProcess*>& taken) {
      fetch_by(taken, split, indices, key, tensors);
      return 0;
    });
  }

  // Returns what `work` makes of at least one process, at most `most`.
  template <class Work>
  std::invoke_result_t<Work, std::vector<DataProcess*>> with_processes(size_t most, const Work& work) const {
    const auto taken = pool_.take(most);
    try {
      auto result = work(taken);
      pool_.give_back(taken);
      return result;
    } catch (...) {
      pool_.fail(std::current_exception());
      throw;
    }
  }

  int64_t place_of(Split split) const {
    return std::ranges::find(plan_.splits, ddprun::split_name(split)) - plan_.splits.begin();
  }

  void fetch_by(const std::vector<DataProcess*>& taken, Split split, std::span<const int64_t> indices,
                const ddprun::AugmentKey& key, std::vector<at::Tensor>& tensors) const {
    std::vector<std::pair<size_t, size_t>> parts;  // begin and end of each process's
    std::vector<const uint8_t*> memories;
    size_t bytes_of_one = 0;
    for (const auto& field : fields_) bytes_of_one += field.bytes();
    for (size_t i = 0; i < taken.size(); ++i) {
      parts.emplace_back(indices.size() * i / taken.size(), indices.size() * (i + 1) / taken.size());
      const auto part = indices.subspan(parts[i].first, parts[i].second - parts[i].first);
      memories.push_back(taken[i]->memory(part.size() * bytes_of_one));
      taken[i]->send({{"do", "fetch"},
                      {"split", place_of(split)},
                      {"indices", std::vector(part.begin(), part.end())},
                      {"seed", key.seed},
                      {"epoch", key.epoch},
                      {"fields", layout_},
                      {"bytes", ddprun::python::kHeaderBytes + part.size() * bytes_of_one}});
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      taken[i]->receive();
      copy(memories[i], parts[i], tensors);
    }
  }

  void copy(const uint8_t* memory, std::pair<size_t, size_t> part, std::vector<at::Tensor>& tensors) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      const auto bytes = fields_[i].bytes();
      std::memcpy(static_cast<uint8_t*>(tensors[i].mutable_data_ptr()) + part.first * bytes, memory,
                  (part.second - part.first) * bytes);
      memory += (part.second - part.first) * bytes;
    }
  }

  ProcessPlan plan_;
  int64_t processes_ = 1;
  ddprun::DataSpec spec_;
  std::array<int64_t, 3> sizes_{};  // by Split
  std::vector<Field> fields_;
  Json layout_;  // of the fields, as the processes get them
  mutable Pool pool_;
};

}  // namespace

DDPRUN_DATASET(PythonData, "python", "the samples of a class in Python, made in processes of their own")
