// SPDX-License-Identifier: MIT
// CIFAR-10: 60,000 small colour pictures of ten kinds of things (Krizhevsky, 2009).
#include "cifar_dataset.h"

namespace {

const ddprun::cifar::CifarTable kCifar10 = {
    .data = {.name = "cifar10",
             .files = {{.archive = {"cifar-10-binary.tar.gz", 170052171,
                                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", ""},
                        .unpacked = {"cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin",
                                     "cifar-10-batches-py/data_batch_1", "data_batch_1"}}},
             .mirrors = {"https://www.cs.toronto.edu/~kriz/"}},
    .folder = "cifar-10-batches-bin",
    .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
    .test_file = "test_batch.bin",
    .most_records = 10'000,
    .labels = {{.name = "label",
                .classes = 10,
                .names_file = "batches.meta.txt",
                .python_key = "labels",
                .python_names_key = "label_names"}},
    .mean = {0.4914, 0.4822, 0.4465},
    .std = {0.2470, 0.2435, 0.2616},
    .python = {.train_files = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
               .test_file = "test_batch",
               .names_file = "batches.meta"}};

class Cifar10 final : public ddprun::cifar::CifarDataset {
 public:
  explicit Cifar10(ddprun::Options& options) : CifarDataset(kCifar10, 0, options) {}
};

}  // namespace

DDPRUN_DATASET(Cifar10, "cifar10", "60,000 colour pictures, 32x32, 10 classes; read from files or downloaded")
