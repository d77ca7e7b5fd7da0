// SPDX-License-Identifier: MIT
#include "checkpoint/training_file.h"

#include "base/run_files.h"

#include <ddprun/error.h>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

// ---- writing

c10::impl::GenericDict empty_dict() { return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get()); }

c10::impl::GenericDict to_dict(const TensorDict& tensors) {
  auto dict = empty_dict();
  for (const auto& [name, tensor] : tensors) {
    require_storable(name, tensor);
    dict.insert(name, to_dense_host(tensor));
  }
  return dict;
}

at::IValue to_ivalue(const TrainingFile& content) {
  auto root = empty_dict();
  for (const auto& [group, tensors] : content.tensors) root.insert(group, to_dict(tensors));
  for (const auto& [name, text] : content.texts) {
    if (!root.insert(name, text).second) throw std::invalid_argument("training file: \"" + name + "\" appears twice");
  }
  return root;
}

// A DurableFile behind LibTorch's zip writer, which must not see a failure because its destructor would try to write
// on. So everything "succeeds", and finish() reports the first failure.
class QuietFile {
 public:
  explicit QuietFile(const std::filesystem::path& path) : file_(path) {}

  size_t write(const void* data, size_t size) {
    try {
      if (!failure_) file_.write(data, size);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return size;
  }

  FileDigest finish() {
    if (failure_) std::rethrow_exception(failure_);
    return file_.finish();
  }

 private:
  DurableFile file_;
  std::exception_ptr failure_;
};

FileDigest write_pickled(const std::filesystem::path& file, const at::IValue& content) {
  std::string pickle;
  // Type tags are omitted because torch.load(weights_only=True) refuses them.
  torch::jit::Pickler pickler([&](const char* data, size_t size) { pickle.append(data, size); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(content);
  pickler.stop();
  if (pickle.size() > kLargestPickle) throw std::invalid_argument("training file: its pickle would exceed 100 MB");

  QuietFile out(file);
  PyTorchStreamWriter archive([&](const void* data, size_t size) { return out.write(data, size); });
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  constexpr std::string_view kByteOrder = "little";
  archive.writeRecord("byteorder", kByteOrder.data(), kByteOrder.size());
  size_t index = 0;
  for (const auto& tensor : pickler.tensorData()) {
    archive.writeRecord("data/" + std::to_string(index++), tensor.const_data_ptr(), tensor.nbytes());
  }
  archive.writeEndOfFile();
  return out.finish();
}

// ---- reading

// Refuses what Python's pickle would look up and call. The tensors of our files need none of it.
c10::StrongTypePtr no_classes(const c10::QualifiedName& name) {
  throw std::runtime_error("it names the type " + name.qualifiedName());
}

c10::TypePtr no_types(const std::string& name) { throw std::runtime_error("it names the type " + name); }

c10::intrusive_ptr<c10::ivalue::Object> no_objects(const at::StrongTypePtr& /*type*/, const at::IValue& /*state*/) {
  throw std::runtime_error("it holds an object");
}

// Checks the pickle's sizes and strides, which LibTorch trusts, against the true sizes of the records.
class RecordSizes {
 public:
  at::DataPtr read(PyTorchStreamReader& archive, const std::string& name) {
    auto [data, size] = archive.getRecord("data/" + name);
    sizes_[data.get()] = size;
    return std::move(data);
  }

  void check(const std::string& name, const at::Tensor& tensor) const {
    require_storable(name, tensor);
    const auto bytes = byte_count(tensor.sizes(), tensor.scalar_type());
    bool fits = bytes && tensor.device().is_cpu() && tensor.storage_offset() == 0 &&
                tensor.storage().nbytes() == static_cast<size_t>(*bytes) && tensor.is_non_overlapping_and_dense();
    if (fits && *bytes > 0) {
      const auto record = sizes_.find(tensor.storage().data());
      fits = record != sizes_.end() && record->second == static_cast<size_t>(*bytes);
    }
    if (!fits) throw std::runtime_error("the data of tensor \"" + name + "\" do not fit its shape");
  }

 private:
  std::unordered_map<const void*, size_t> sizes_;
};

at::IValue unpickle(PyTorchStreamReader& archive, RecordSizes& records) {
  if (archive.getRecordSize("data.pkl") > kLargestPickle) throw std::runtime_error("its pickle is larger than 100 MB");
  const auto [pickle, size] = archive.getRecord("data.pkl");
  check_pickle({static_cast<const char*>(pickle.get()), size});
  const auto* next = static_cast<const char*>(pickle.get());
  const auto* const end = next + size;
  const auto read = [&next, end](char* buffer, size_t wanted) {
    const size_t got = std::min(wanted, static_cast<size_t>(end - next));
    std::memcpy(buffer, next, got);
    next += got;
    return got;
  };
  torch::jit::Unpickler unpickler(
      read, no_classes, no_objects, [&](const std::string& name) { return records.read(archive, name); }, at::kCPU,
      /*use_storage_device=*/false, no_types);
  return unpickler.parse_ivalue();
}

TensorDict to_tensors(const std::string& group, const at::IValue& value, const RecordSizes& records) {
  if (!value.isGenericDict()) throw std::runtime_error("\"" + group + "\" is neither a text nor a dictionary");
  TensorDict tensors;
  for (const auto& item : value.toGenericDict()) {
    const auto& name = item.key().toStringRef();
    const auto& tensor = item.value().toTensor();
    records.check(name, tensor);
    tensors[name] = tensor;
  }
  return tensors;
}

TrainingFile to_content(const at::IValue& root, const RecordSizes& records) {
  if (!root.isGenericDict()) throw std::runtime_error("it is not a dictionary");
  TrainingFile content;
  for (const auto& item : root.toGenericDict()) {
    const auto& name = item.key().toStringRef();
    if (item.value().isString()) {
      content.texts[name] = item.value().toStringRef();
    } else {
      content.tensors[name] = to_tensors(name, item.value(), records);
    }
  }
  return content;
}

// Drops the source location and backtrace from LibTorch's messages.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

FileDigest write_training_file(const std::filesystem::path& file, const TrainingFile& content) {
  return write_pickled(file, to_ivalue(content));
}

FileDigest write_state_dict(const std::filesystem::path& file, const TensorDict& tensors) {
  return write_pickled(file, to_dict(tensors));
}

TrainingFile read_training_file(const std::filesystem::path& file) {
  size_of_file(file);  // throws if there is none
  try {
    PyTorchStreamReader archive(file.string());
    RecordSizes records;
    return to_content(unpickle(archive, records), records);
  } catch (const std::exception& failure) {
    throw UserError(file.string() + ": not a whole file of a checkpoint's state: " + first_line(failure.what()));
  }
}

namespace {

// The argument that follows an opcode.
enum class Argument { kNone, kByte, kTwoBytes, kFourBytes, kEightBytes, kShortText, kText, kTwoLines };

// An opcode's effect on the stack of values.
enum class Effect {
  kNothing,
  kValue,      // pushes one that contains no other
  kContainer,  // pushes an empty list or dictionary
  kMark,       // begins a group of values
  kTuple,      // makes a tuple of the last `count` values
  kMarkedTuple,
  kFill,  // puts the last `count` values into the container before them
  kMarkedFill,
  kCall,  // calls a function with the last `count` values and pushes its result
  kRemember,
  kRecall,
  kStop
};

struct Opcode {
  char code;
  Argument argument;
  Effect effect;
  size_t count = 0;
};

constexpr std::array kOpcodes = {
    Opcode{'\x80', Argument::kByte, Effect::kNothing},     // PROTO
    Opcode{'}', Argument::kNone, Effect::kContainer},      // EMPTY_DICT
    Opcode{']', Argument::kNone, Effect::kContainer},      // EMPTY_LIST
    Opcode{')', Argument::kNone, Effect::kValue},          // EMPTY_TUPLE
    Opcode{'N', Argument::kNone, Effect::kValue},          // NONE
    Opcode{'\x88', Argument::kNone, Effect::kValue},       // NEWTRUE
    Opcode{'\x89', Argument::kNone, Effect::kValue},       // NEWFALSE
    Opcode{'K', Argument::kByte, Effect::kValue},          // BININT1
    Opcode{'M', Argument::kTwoBytes, Effect::kValue},      // BININT2
    Opcode{'J', Argument::kFourBytes, Effect::kValue},     // BININT
    Opcode{'\x8a', Argument::kShortText, Effect::kValue},  // LONG1
    Opcode{'G', Argument::kEightBytes, Effect::kValue},    // BINFLOAT
    Opcode{'X', Argument::kText, Effect::kValue},          // BINUNICODE
    Opcode{'c', Argument::kTwoLines, Effect::kValue},      // GLOBAL
    Opcode{'(', Argument::kNone, Effect::kMark},           // MARK
    Opcode{'\x85', Argument::kNone, Effect::kTuple, 1},    // TUPLE1
    Opcode{'\x86', Argument::kNone, Effect::kTuple, 2},    // TUPLE2
    Opcode{'\x87', Argument::kNone, Effect::kTuple, 3},    // TUPLE3
    Opcode{'t', Argument::kNone, Effect::kMarkedTuple},    // TUPLE
    Opcode{'a', Argument::kNone, Effect::kFill, 1},        // APPEND
    Opcode{'s', Argument::kNone, Effect::kFill, 2},        // SETITEM
    Opcode{'e', Argument::kNone, Effect::kMarkedFill},     // APPENDS
    Opcode{'u', Argument::kNone, Effect::kMarkedFill},     // SETITEMS
    Opcode{'Q', Argument::kNone, Effect::kCall, 1},        // BINPERSID
    Opcode{'R', Argument::kNone, Effect::kCall, 2},        // REDUCE
    Opcode{'q', Argument::kByte, Effect::kRemember},       // BINPUT
    Opcode{'r', Argument::kFourBytes, Effect::kRemember},  // LONG_BINPUT
    Opcode{'h', Argument::kByte, Effect::kRecall},         // BINGET
    Opcode{'j', Argument::kFourBytes, Effect::kRecall},    // LONG_BINGET
    Opcode{'.', Argument::kNone, Effect::kStop},           // STOP
};

// Walks the opcodes as a reader would, tracking depths instead of values.
class Walk {
 public:
  explicit Walk(std::string_view pickle) : rest_(pickle) {}

  void run() {
    while (true) {
      const char code = take(1)[0];
      const auto* opcode = std::ranges::find(kOpcodes, code, &Opcode::code);
      if (opcode == kOpcodes.end())
        throw std::runtime_error("its pickle has the opcode " + std::to_string(static_cast<unsigned char>(code)) +
                                 ", which no dictionary of tensors needs");
      const auto argument = read(opcode->argument);
      if (opcode->effect == Effect::kStop) return;
      apply(*opcode, argument);
    }
  }

 private:
  // A value contains `depth` levels of others. A container may only be filled where it was made, and never be looked up
  // again: so its contents are known, and none contains itself.
  struct Value {
    int depth = 0;
    bool container = false;
  };

  std::string_view take(size_t bytes) {
    if (bytes > rest_.size()) throw std::runtime_error("its pickle ends early");
    const auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    const auto taken = take(bytes);
    for (size_t i = 0; i < bytes; ++i) value |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }

  // Returns a short argument's number; a text is skipped.
  uint64_t read(Argument argument) {
    switch (argument) {
      case Argument::kNone: return 0;
      case Argument::kByte: return number(1);
      case Argument::kTwoBytes: return number(2);
      case Argument::kFourBytes: return number(4);
      case Argument::kEightBytes: return number(8);
      case Argument::kShortText: return take(number(1)).size();
      case Argument::kText: return take(number(4)).size();
      case Argument::kTwoLines:
        for (int line = 0; line < 2; ++line) take(std::min(rest_.find('\n'), rest_.size()) + 1);
    }
    return 0;
  }

  void apply(const Opcode& opcode, uint64_t argument) {
    switch (opcode.effect) {
      case Effect::kNothing:
      case Effect::kStop: return;
      case Effect::kValue: return push({});
      case Effect::kContainer: return push({1, true});
      case Effect::kMark: return marks_.push_back(values_.size());
      case Effect::kTuple: return push({1 + pop(opcode.count)});
      case Effect::kMarkedTuple: return push({1 + pop_marked()});
      case Effect::kFill: return fill(pop(opcode.count));
      case Effect::kMarkedFill: return fill(pop_marked());
      case Effect::kCall: return push({pop(opcode.count)});
      case Effect::kRemember: return remember(argument);
      case Effect::kRecall: return recall(argument);
    }
  }

  void push(Value value) {
    if (value.depth > kMostPickleDepth)
      throw std::runtime_error("its pickle nests deeper than " + std::to_string(kMostPickleDepth) + " levels");
    values_.push_back(value);
  }

  // Pops the last values, which must belong to the open group, and returns the depth of the deepest.
  int pop(size_t count) {
    if (count > values_.size() - (marks_.empty() ? 0 : marks_.back())) damaged();
    int depth = 0;
    for (; count > 0; --count) {
      depth = std::max(depth, values_.back().depth);
      values_.pop_back();
    }
    return depth;
  }

  int pop_marked() {
    if (marks_.empty()) damaged();
    const int depth = pop(values_.size() - marks_.back());
    marks_.pop_back();
    return depth;
  }

  Value& top() {
    if (values_.empty()) damaged();
    return values_.back();
  }

  void fill(int depth) {
    auto container = top();
    if (!container.container) damaged();
    container.depth = std::max(container.depth, 1 + depth);
    values_.pop_back();
    push(container);
  }

  // Memo numbers must be consecutive. LibTorch would allocate room for one that is not.
  void remember(uint64_t place) {
    if (place > memory_.size()) damaged();
    if (place == memory_.size()) memory_.emplace_back();
    memory_[place] = top();
  }

  void recall(uint64_t place) {
    if (place >= memory_.size() || memory_[place].container) damaged();
    push(memory_[place]);
  }

  [[noreturn]] static void damaged() { throw std::runtime_error("its pickle is damaged"); }

  std::string_view rest_;
  std::vector<Value> values_;
  std::vector<size_t> marks_;  // where the open groups begin
  std::vector<Value> memory_;
};

}  // namespace

void check_pickle(std::string_view pickle) { Walk(pickle).run(); }

}  // namespace ddprun
