// SPDX-License-Identifier: MIT
// CIFAR-100: 60,000 small colour pictures of a hundred kinds of things in twenty groups (Krizhevsky, 2009).
#include "cifar_dataset.h"

namespace {

const ddprun::cifar::CifarTable kCifar100 = {
    .data = {.name = "cifar100",
             .files = {{.archive = {"cifar-100-binary.tar.gz", 168513733,
                                    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", ""},
                        .unpacked = {"cifar-100-binary/train.bin", "train.bin", "cifar-100-python/train", "train"}}},
             .mirrors = {"https://www.cs.toronto.edu/~kriz/"}},
    .folder = "cifar-100-binary",
    .train_files = {"train.bin"},
    .test_file = "test.bin",
    .most_records = 50'000,
    .labels = {{.name = "coarse",
                .classes = 20,
                .names_file = "coarse_label_names.txt",
                .python_key = "coarse_labels",
                .python_names_key = "coarse_label_names"},
               {.name = "fine",
                .classes = 100,
                .names_file = "fine_label_names.txt",
                .python_key = "fine_labels",
                .python_names_key = "fine_label_names"}},
    .mean = {0.5071, 0.4865, 0.4409},
    .std = {0.2673, 0.2564, 0.2762},
    .python = {.train_files = {"train"}, .test_file = "test", .names_file = "meta"}};

size_t label_kind(ddprun::Options& options) {
  const auto name =
      options.choose("labels", "fine", {"fine", "coarse"}, "what to learn: 100 classes, or their 20 groups");
  return name == kCifar100.labels[0].name ? 0 : 1;
}

class Cifar100 final : public ddprun::cifar::CifarDataset {
 public:
  explicit Cifar100(ddprun::Options& options) : CifarDataset(kCifar100, label_kind(options), options) {}
};

}  // namespace

DDPRUN_DATASET(Cifar100, "cifar100", "60,000 colour pictures, 32x32, 100 classes; read from files or downloaded")
