// SPDX-License-Identifier: MIT
// A checkpoint's state: the file as it stands, or the pickle in it, which the checksums of a zip would guard from most
// changes.
#include "checkpoint/training_file.h"
#include "fuzz/fuzz_target.h"

#include <caffe2/serialize/inline_container.h>

namespace ddprun {
namespace {

// Makes a training file around a pickle, with the elements of two tensors, of 4 and of 64 bytes.
std::filesystem::path around_pickle(std::string_view pickle) {
  std::string zip;
  {
    caffe2::serialize::PyTorchStreamWriter archive([&](const void* data, size_t size) {
      zip.append(static_cast<const char*>(data), size);
      return size;
    });
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    const std::string elements(64, '\x3f');
    archive.writeRecord("data/0", elements.data(), 4);
    archive.writeRecord("data/1", elements.data(), elements.size());
    archive.writeEndOfFile();
  }
  return fuzz::as_file(zip);
}

}  // namespace

void feed_training(std::string_view bytes) {
  const bool is_zip = bytes.starts_with("PK");
  read_training_file(is_zip ? fuzz::as_file(bytes) : around_pickle(bytes));
}

}  // namespace ddprun

#ifdef DDPRUN_FUZZER
// LibTorch's zip reader forgets what it has allocated where its constructor throws: about the size of the file's index.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:mz_zip_reader_init\nleak:mz_zip_reader_read_central_dir\n";
}
#endif

DDPRUN_FUZZ_TARGET(training, feed_training)
