// SPDX-License-Identifier: MIT
// MNIST: 70,000 handwritten digits (LeCun, Cortes, Burges). The checksums are the official ones; those of the contents
// hold for any packing.
#include "idx_dataset.h"

namespace {

using ddprun::idx::packed_file;

const ddprun::idx::IdxTable kMnist = {
    .data = {.name = "mnist",
             .files = {packed_file("train-images-idx3-ubyte", 9912422,
                                   "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                                   "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
                       packed_file("train-labels-idx1-ubyte", 28881,
                                   "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                                   "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
                       packed_file("t10k-images-idx3-ubyte", 1648877,
                                   "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                                   "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                       packed_file("t10k-labels-idx1-ubyte", 4542,
                                   "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                                   "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")},
             .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                         "https://storage.googleapis.com/cvdf-datasets/mnist/", "http://yann.lecun.com/exdb/mnist/"},
             .subfolders = {"MNIST/raw", "raw"}},
    .mean = 0.1307,
    .std = 0.3081,
    .class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};

class Mnist final : public ddprun::idx::IdxDataset {
 public:
  explicit Mnist(ddprun::Options& options) : IdxDataset(kMnist, options) {}
};

}  // namespace

DDPRUN_DATASET(Mnist, "mnist", "70,000 handwritten digits, 28x28; read from files or downloaded")
