// SPDX-License-Identifier: MIT
#include "summary.h"

namespace ddprun::tensorboard {
namespace {

// Fields of Summary, of its Value, and of what they hold (tensorboard/compat/proto).
enum { kValue = 1 };
enum { kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9 };
enum { kPluginData = 1, kPluginName = 1, kContent = 2 };
enum { kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4 };
enum { kDtype = 1, kShape = 2, kStringVal = 8, kString = 7 };

Message plugin(const std::string& name, const std::string& content = {}) {
  Message data;
  data.bytes(kPluginName, name);
  if (!content.empty()) data.bytes(kContent, content);
  return Message().message(kPluginData, data);
}

}  // namespace

void add_scalar(Message& summary, const std::string& tag, double value) {
  summary.message(kValue, Message().bytes(kTag, tag).real32(kSimpleValue, static_cast<float>(value)));
}

void add_text(Message& summary, const std::string& tag, const std::string& markdown) {
  const auto tensor = Message().integer(kDtype, kString).message(kShape, {}).bytes(kStringVal, markdown);
  summary.message(kValue, Message().bytes(kTag, tag).message(kTensor, tensor).message(kMetadata, plugin("text")));
}

void add_image(Message& summary, const std::string& tag, const Picture& picture) {
  const auto image = Message()
                         .integer(kHeight, picture.height)
                         .integer(kWidth, picture.width)
                         .integer(kColorspace, Picture::kChannels)
                         .bytes(kEncoded, encode_png(picture));
  summary.message(kValue, Message().bytes(kTag, tag).message(kImage, image));
}

void add_hparams(Message& summary, const std::string& tag, const Message& content) {
  summary.message(kValue, Message().bytes(kTag, tag).message(kMetadata, plugin("hparams", content.str())));
}

}  // namespace ddprun::tensorboard
