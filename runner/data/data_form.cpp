// SPDX-License-Identifier: MIT
#include "data/data_form.h"

#include "base/files_below.h"
#include "base/log.h"
#include "data/account.h"
#include "data/sample_order.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/data_digest.h>
#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/image_store.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kFile = "data.json";
constexpr auto kSplits = std::to_array<Split>({Split::kTrain, Split::kVal, Split::kTest});
constexpr auto kTypes = std::to_array<std::pair<std::string_view, at::ScalarType>>({{"float32", at::kFloat},
                                                                                    {"float64", at::kDouble},
                                                                                    {"float16", at::kHalf},
                                                                                    {"bfloat16", at::kBFloat16},
                                                                                    {"int64", at::kLong},
                                                                                    {"int32", at::kInt},
                                                                                    {"uint8", at::kByte},
                                                                                    {"bool", at::kBool}});

ByteRange byte_range(const ImageStore& store) {
  const auto table = store.table();
  ByteRange range;
  for (int64_t channel = 0; channel < table.size(0); ++channel) {
    range.black.push_back(table[channel][0].item<double>());
    range.white.push_back(table[channel][255].item<double>());
  }
  return range;
}

at::ScalarType type_named(const std::string& name) {
  const auto type = std::ranges::find(kTypes, name, &std::pair<std::string_view, at::ScalarType>::first);
  if (type == kTypes.end()) throw UserError("unknown type " + name);
  return type->second;
}

void add_files(const Value& value, std::map<std::string, std::string>& files) {
  for (const auto& item : value.items()) add_files(item, files);
  for (const auto& entry : value.entries()) {
    if (entry.key != "plugin") add_files(entry.value, files);
  }
  std::error_code ignored;
  if (!value.is_scalar() || !value.text().starts_with('/') || !std::filesystem::is_regular_file(value.text(), ignored))
    return;
  try {
    const auto file = map_file(value.text());
    DataDigest digest;
    digest.add_some(file.bytes.get(), file.size);
    files[value.text()] = digest.hex();
  } catch (const UserError&) {
    return;  // it fails where it is used
  }
}

}  // namespace

std::string_view type_name(at::ScalarType type) {
  const auto known = std::ranges::find(kTypes, type, &std::pair<std::string_view, at::ScalarType>::second);
  return known == kTypes.end() ? "float32" : known->first;
}

std::optional<ByteRange> byte_range_of(const Dataset& dataset) {
  const auto* format = in_plugin({"dataset", "image_format"}, [&] { return dataset.image_format(); });
  if (format) return byte_range(ImageStore(*format, nullptr, {}));
  for (const auto split : kSplits) {
    const auto lent = in_plugin({"dataset", "images"}, [&] { return dataset.images(split); });
    if (lent.store && lent.store->size() > 0) return byte_range(*lent.store);
  }
  return std::nullopt;
}

at::Tensor brightness_of(const Dataset& dataset, const at::Tensor& input) {
  if (input.dim() != 4 || input.size(1) != 1 || !input.is_floating_point()) return {};
  const auto pixels =
      in_plugin({"dataset", "to_image"}, [&] { return dataset.to_image(input.to(at::kCPU, at::kFloat)); });
  return pixels.defined() ? pixels.to(at::kFloat).flatten(1).mean(1).div_(255) : at::Tensor();
}

namespace {

std::optional<Brightness> brightness_of_training(const Dataset& dataset) {
  constexpr int64_t kPictures = 64;
  const auto shape = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); }).sample_shape;
  const auto numbers = spread_numbers(dataset.size(Split::kTrain), kPictures);
  if (shape.size() != 3 || shape.front() != 1 || numbers.empty()) return std::nullopt;
  const auto batch = in_plugin({"dataset", "get"}, [&] { return dataset.get(Split::kTrain, numbers); });
  const auto means = brightness_of(dataset, batch.input);
  if (!means.defined()) return std::nullopt;
  return Brightness{.least = means.min().item<double>(), .greatest = means.max().item<double>()};
}

}  // namespace

DataForm form_of(const Dataset& dataset) {
  DataForm form{.spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); }),
                .bytes = {},
                .account = account_of(dataset)};
  std::ranges::transform(kSplits, form.samples.begin(), [&](Split one) { return dataset.size(one); });
  const auto split = std::ranges::find_if(kSplits, [&](Split one) { return dataset.size(one) > 0; });
  if (split == kSplits.end()) return form;
  const std::array<int64_t, 1> first{0};
  const auto sample = in_plugin({"dataset", "get"}, [&] { return dataset.get(*split, first); });
  form.input_type = sample.input.scalar_type();
  form.target_type = sample.target.scalar_type();
  form.target_shape = sample.target.sizes().slice(1).vec();
  form.bytes = byte_range_of(dataset);
  form.brightness = brightness_of_training(dataset);
  return form;
}

bool start_as_noted(Dataset& dataset, const DataForm& noted) {
  if (!noted.target_type) return false;
  const auto none_of = [](std::vector<int64_t> shape, at::ScalarType type) {
    shape.insert(shape.begin(), 0);
    return at::empty(shape, type);
  };
  const Batch form{.input = none_of(noted.spec.sample_shape, noted.input_type),
                   .target = none_of(noted.target_shape, *noted.target_type),
                   .index = none_of({}, at::kLong)};
  return in_plugin({"dataset", "start_without_data"}, [&] { return dataset.start_without_data(noted.spec, form); });
}

std::string changes_since(const DataForm& before, const DataForm& now) {
  if (before.account.digest.empty() || before.account.digest == now.account.digest) return "";
  std::string text;
  for (size_t i = 0; i < kSplits.size(); ++i) {
    if (before.samples[i] == now.samples[i]) continue;
    text += std::string(text.empty() ? "" : "; ") + split_name(kSplits[i]) + " has " + std::to_string(now.samples[i]) +
            " samples, and had " + std::to_string(before.samples[i]);
  }
  return text.empty() ? "as many samples as before, with other names, sizes or labels" : text;
}

std::map<std::string, std::string> named_files(const Value& config) {
  std::map<std::string, std::string> files;
  for (const auto* section : {"model", "objective", "optimizer", "callbacks", "trainer"}) {
    if (const auto* value = config.find(section)) add_files(*value, files);
  }
  return files;
}

void warn_of_other_files(const std::filesystem::path& run_dir, const Value& config) try {
  const auto before = read_data_form(run_dir);
  if (!before || before->files.empty()) return;
  for (const auto& [file, digest] : named_files(config)) {
    const auto noted = before->files.find(file);
    if (noted != before->files.end() && noted->second != digest)
      log::warn(file +
                ": is another file now than the run was trained with, and is used as it is; put the former one " +
                "back to get the same numbers");
  }
} catch (const UserError&) {
  return;  // a damaged note says nothing, and is reported where it is needed
}

std::string to_json(const DataForm& form) {
  Json json{{"sample_shape", form.spec.sample_shape},
            {"type", type_name(form.input_type)},
            {"classes", form.spec.classes},
            {"class_names", form.spec.class_names},
            {"samples", form.samples}};
  if (form.target_type) json["target"] = {{"type", type_name(*form.target_type)}, {"shape", form.target_shape}};
  if (form.bytes) json["bytes"] = {{"black", form.bytes->black}, {"white", form.bytes->white}};
  if (form.brightness)
    json["brightness"] = {{"least", form.brightness->least}, {"greatest", form.brightness->greatest}};
  if (!form.files.empty()) json["files"] = form.files;
  if (!account_text(form.account).empty()) json["account"] = account_json(form.account);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

DataForm data_form_from_json(const std::string& text) try {
  const auto json = Json::parse(text);
  DataForm form{.spec = {.sample_shape = json.at("sample_shape"),
                         .classes = json.at("classes"),
                         .class_names = json.at("class_names")},
                .bytes = {}};
  form.input_type = type_named(json.at("type"));
  if (const auto target = json.find("target"); target != json.end()) {
    form.target_type = type_named(target->at("type"));
    target->at("shape").get_to(form.target_shape);
  }
  if (const auto bytes = json.find("bytes"); bytes != json.end())
    form.bytes = {.black = bytes->at("black"), .white = bytes->at("white")};
  if (const auto brightness = json.find("brightness"); brightness != json.end())
    form.brightness = {.least = brightness->at("least"), .greatest = brightness->at("greatest")};
  json.at("samples").get_to(form.samples);
  if (const auto account = json.find("account"); account != json.end())
    form.account.digest = account->value("digest", "");
  if (const auto files = json.find("files"); files != json.end()) files->get_to(form.files);
  if (form.bytes && (form.bytes->black.empty() || form.bytes->black.size() != form.bytes->white.size()))
    throw UserError("bytes: black and white have other numbers of channels");
  return form;
} catch (const nlohmann::json::exception& error) {
  throw UserError(error.what());
}

void write_data_form(const std::filesystem::path& run_dir, const DataForm& form) {
  replace_file(run_dir / kFile, to_json(form));
}

std::optional<DataForm> read_data_form(const std::filesystem::path& run_dir) {
  const auto file = run_dir / kFile;
  const auto text = read_below(run_dir, kFile);
  if (text.empty()) return std::nullopt;
  try {
    return data_form_from_json(text);
  } catch (const UserError& error) {
    throw UserError(file.string() + ": " + error.what());
  }
}

}  // namespace ddprun
