// SPDX-License-Identifier: MIT
// Fashion-MNIST: 70,000 pictures of clothes in MNIST's format (Xiao, Rasul, Vollgraf, 2017).
#include "idx_dataset.h"

namespace {

using ddprun::idx::packed_file;

const ddprun::idx::IdxTable kFashionMnist = {
    .data = {.name = "fashion_mnist",
             .files = {packed_file("train-images-idx3-ubyte", 26421880,
                                   "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", ""),
                       packed_file("train-labels-idx1-ubyte", 29515,
                                   "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", ""),
                       packed_file("t10k-images-idx3-ubyte", 4422102,
                                   "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", ""),
                       packed_file("t10k-labels-idx1-ubyte", 5148,
                                   "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", "")},
             .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
             .subfolders = {"FashionMNIST/raw", "raw"}},
    .mean = 0.2860,
    .std = 0.3530,
    .class_names = {"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
                    "ankle boot"}};

class FashionMnist final : public ddprun::idx::IdxDataset {
 public:
  explicit FashionMnist(ddprun::Options& options) : IdxDataset(kFashionMnist, options) {}
};

}  // namespace

DDPRUN_DATASET(FashionMnist, "fashion_mnist",
               "70,000 pictures of clothes, 28x28, 10 classes; read from files or downloaded")
