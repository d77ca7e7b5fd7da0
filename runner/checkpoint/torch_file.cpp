// SPDX-License-Identifier: MIT
#include "checkpoint/torch_file.h"

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <exception>
#include <string>
#include <string_view>

namespace ddprun {
namespace {

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

at::IValue to_ivalue(const TensorDict& tensors) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [name, tensor] : tensors) {
    require_storable(name, tensor);
    dict.insert(name, to_dense_host(tensor));
  }
  return dict;
}

}  // namespace

FileDigest write_torch_file(const std::filesystem::path& file, const TensorDict& tensors) {
  std::string pickle;
  // Type tags are omitted because torch.load(weights_only=True) refuses them.
  torch::jit::Pickler pickler([&](const char* data, size_t size) { pickle.append(data, size); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(to_ivalue(tensors));
  pickler.stop();

  QuietFile out(file);
  caffe2::serialize::PyTorchStreamWriter archive([&](const void* data, size_t size) { return out.write(data, size); });
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  constexpr std::string_view kByteOrder = "little";
  archive.writeRecord("byteorder", kByteOrder.data(), kByteOrder.size());
  size_t index = 0;
  for (const auto& tensor : pickler.tensorData())
    archive.writeRecord("data/" + std::to_string(index++), tensor.const_data_ptr(), tensor.nbytes());
  archive.writeEndOfFile();
  return out.finish();
}

}  // namespace ddprun
