// SPDX-License-Identifier: MIT
#include "checkpoint/training_file.h"

#include "checkpoint/pickle_check.h"

#include <ddprun/error.h>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
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

}  // namespace ddprun
