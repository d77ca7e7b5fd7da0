// SPDX-License-Identifier: MIT
#include "summary.h"

namespace ddprun::tensorboard {
namespace {

// Fields of Summary, of its Value, and of what they hold (tensorboard/compat/proto).
enum { kSummaryValue = 1 };
enum { kTag = 1, kSimpleValue = 2, kImage = 4, kHisto = 5, kTensor = 8, kMetadata = 9 };
enum { kPluginData = 1, kPluginName = 1, kContent = 2 };
enum { kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4 };
enum { kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kBucketLimit = 6, kBucket = 7 };
enum { kDtype = 1, kShape = 2, kStringVal = 8, kString = 7 };

Message plugin(const std::string& name, const std::string& content = {}) {
  Message data;
  data.bytes(kPluginName, name);
  if (!content.empty()) data.bytes(kContent, content);
  return Message().message(kPluginData, data);
}

Message text_tensor(const std::string& text) {
  return Message().integer(kDtype, kString).message(kShape, {}).bytes(kStringVal, text);
}

}  // namespace

void add_scalar(Message& summary, const std::string& tag, double value) {
  summary.message(kSummaryValue, Message().bytes(kTag, tag).real32(kSimpleValue, static_cast<float>(value)));
}

void add_text(Message& summary, const std::string& tag, const std::string& markdown) {
  summary.message(
      kSummaryValue,
      Message().bytes(kTag, tag).message(kTensor, text_tensor(markdown)).message(kMetadata, plugin("text")));
}

// A bucket reaches from the previous limit (the first from the smallest number) to its own.
void add_histogram(Message& summary, const std::string& tag, const Histogram& histogram) {
  if (histogram.edges.empty()) return;
  const auto finite = static_cast<double>(histogram.count - histogram.nonfinite);
  const double squares = histogram.stddev * histogram.stddev + histogram.mean * histogram.mean;
  const auto histo = Message()
                         .real(kMin, histogram.min)
                         .real(kMax, histogram.max)
                         .real(kNum, finite)
                         .real(kSum, histogram.mean * finite)
                         .real(kSumSquares, squares * finite)
                         .reals(kBucketLimit, {histogram.edges.begin() + 1, histogram.edges.end()})
                         .reals(kBucket, {histogram.counts.begin(), histogram.counts.end()});
  summary.message(kSummaryValue, Message().bytes(kTag, tag).message(kHisto, histo));
}

void add_layout(Message& summary, const Message& content) {
  summary.message(kSummaryValue, Message()
                                     .bytes(kTag, "custom_scalars__config__")
                                     .message(kTensor, text_tensor(content.str()))
                                     .message(kMetadata, plugin("custom_scalars")));
}

void add_image(Message& summary, const std::string& tag, const Picture& picture) {
  const auto image = Message()
                         .integer(kHeight, picture.height)
                         .integer(kWidth, picture.width)
                         .integer(kColorspace, Picture::kChannels)
                         .bytes(kEncoded, encode_png(picture));
  summary.message(kSummaryValue, Message().bytes(kTag, tag).message(kImage, image));
}

void add_hparams(Message& summary, const std::string& tag, const Message& content) {
  summary.message(kSummaryValue, Message().bytes(kTag, tag).message(kMetadata, plugin("hparams", content.str())));
}

}  // namespace ddprun::tensorboard
