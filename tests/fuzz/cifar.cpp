// SPDX-License-Identifier: MIT
// CIFAR's archive: the bytes are its tar, packed here, with the checksums that hardly any change would leave right.
#include "cifar_files.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/tar_sums.h"

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace ddprun {
namespace {

const cifar::CifarTable kTable = {.folder = "pictures",
                                  .train_files = {"train.bin"},
                                  .test_file = "test.bin",
                                  .most_records = 4,
                                  .labels = {{.name = "label", .classes = 2, .names_file = "names.txt"}}};

std::string packed(std::string tar) {
  constexpr int kAsGzip = 15 + 16, kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_NO_COMPRESSION, Z_DEFLATED, kAsGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot start");
  std::string out(deflateBound(&stream, tar.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar.data());
  stream.avail_in = static_cast<uInt>(tar.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

void feed_cifar(std::string_view bytes) {
  const auto files = cifar::read_files(fuzz::as_file(packed(fuzz::with_sums(bytes)), "pictures.tar.gz"), kTable);
  cifar::to_images(files, kTable.train_files, kTable, 0);
  cifar::class_names(files, kTable.labels[0]);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(cifar, feed_cifar)
