// SPDX-License-Identifier: MIT
// What TensorBoard shows, as its Summary message: values, each with a tag, in the forms that both of its readers show.
#pragma once

#include "message.h"
#include "picture.h"

#include <ddprun/logger.h>

#include <string>

namespace ddprun::tensorboard {

// Appends one value to a summary.
void add_scalar(Message& summary, const std::string& tag, double value);
void add_text(Message& summary, const std::string& tag, const std::string& markdown);
void add_histogram(Message& summary, const std::string& tag, const Histogram& histogram);
void add_image(Message& summary, const std::string& tag, const Picture& picture);

// Appends which curves the page of custom scalars draws together; `content` is a Layout.
void add_layout(Message& summary, const Message& content);

// Appends one of the hparams plugin's two records of a run; `content` is an HParamsPluginData.
void add_hparams(Message& summary, const std::string& tag, const Message& content);

}  // namespace ddprun::tensorboard
