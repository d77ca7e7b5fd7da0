// SPDX-License-Identifier: MIT
// CIFAR's archive: the bytes are its tar, packed here, with the checksums that hardly any change would leave right.
#include "cifar_files.h"
#include "fuzz/fuzz_target.h"
#include "support/written_files.h"

namespace ddprun {
namespace {

const cifar::CifarTable kTable = {.folder = "pictures",
                                  .train_files = {"train.bin"},
                                  .test_file = "test.bin",
                                  .most_records = 4,
                                  .labels = {{.name = "label", .classes = 2, .names_file = "names.txt"}}};

}  // namespace

void feed_cifar(std::string_view bytes) {
  const auto archive = test::write_packed(fuzz::as_file("", "pictures.tar.gz"), test::with_sums(bytes), "wb0");
  const auto files = cifar::read_files(archive, kTable);
  cifar::to_images(files, kTable.train_files, kTable, 0);
  cifar::class_names(files, kTable.labels[0]);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(cifar, feed_cifar)
