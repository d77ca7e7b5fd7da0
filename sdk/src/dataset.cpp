// SPDX-License-Identifier: MIT
#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <ATen/ATen.h>

namespace ddprun {

Dataset::~Dataset() = default;
void Dataset::prepare(const Progress&) {}
Batch Dataset::draw(std::span<const int64_t> indices, const AugmentKey&) const { return get(Split::kTrain, indices); }
void Dataset::augment(Batch&, const AugmentKey&) const {}
bool Dataset::is_prepared() const { return has_default_prepare_; }
at::Tensor Dataset::labels(Split) const { return {}; }
ImageSource Dataset::images(Split) const { return {}; }
DataAccount Dataset::account() const { return {}; }
bool Dataset::start_without_data(const DataSpec&, const Batch&) { return false; }
std::string Dataset::sample_name(Split, int64_t) const { return {}; }
const ImageFormat* Dataset::image_format() const { return nullptr; }

std::vector<std::string> Dataset::use_inputs(const std::vector<std::filesystem::path>&) {
  throw UserError("this dataset takes no new files to predict (it does not override use_inputs())");
}

at::Tensor Dataset::to_image(const at::Tensor& input) const {
  if (input.dim() != 3 && input.dim() != 4) return {};
  const auto images = (input.dim() == 3 ? input.unsqueeze(1) : input).to(at::kFloat);
  if (images.numel() == 0) return images.to(at::kByte);
  const auto least = images.amin({1, 2, 3}, /*keepdim=*/true);
  const auto range = (images.amax({1, 2, 3}, /*keepdim=*/true) - least).clamp_min(1e-12);
  return ((images - least) / range * 255).nan_to_num().round().to(at::kByte);
}

}  // namespace ddprun
