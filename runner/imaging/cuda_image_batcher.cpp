// SPDX-License-Identifier: MIT
#include "imaging/cuda_image_batcher.h"

#include "imaging/cuda_kernels.h"
#include "imaging/kernel_compiler.h"

#include <ddprun/image_augment.h>
#include <ddprun/image_store.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace ddprun {

class ImageKernels {
 public:
  explicit ImageKernels(c10::Device device) : kernels_(kImageKernel, device) {}

  cudaKernel_t find(bool bf16) const { return bf16 ? to_bfloat16_ : to_float_; }

 private:
  CudaKernels kernels_;
  cudaKernel_t to_float_ = kernels_.find("make_images_float"), to_bfloat16_ = kernels_.find("make_images_bfloat16");
};

namespace {

// Matches image_kernel.cu.
struct Steps {
  long long image, channel, row, column;
};

at::Tensor all_pixels(const ImageStore& store) {
  constexpr int64_t kLeastPerThread = 500;
  at::parallel_for(0, store.size(), kLeastPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) store.pixels(i);  // some are made when they are asked for
  });
  const auto first = store.pixels(0);
  return at::from_blob(const_cast<uint8_t*>(first.data()), {store.size(), static_cast<int64_t>(first.size())},
                       at::kByte);
}

class CudaImageBatcher final : public ImageBatcher {
 public:
  CudaImageBatcher(const ImageSource& source, const ImageForm& form, c10::Device device,
                   std::shared_ptr<const ImageKernels> kernels)
      : source_(source),
        form_(form),
        device_(device),
        pixels_(all_pixels(*source.store).to(device)),
        labels_(at::tensor(source.store->labels(), at::kLong).to(device)),
        table_(source.store->table().to(device)),
        kernels_(std::move(kernels)) {}

  c10::Device device() const override { return device_; }

  Batch make(const at::Tensor& numbers, const AugmentKey* key) const override {
    auto batch = make_of(request(numbers, key).to(device_, /*non_blocking=*/true), key);
    batch.index = numbers;
    if (key && source_.augmentation) source_.augmentation->erase(batch.input, numbers, *key);
    return batch;
  }

  at::Tensor request(const at::Tensor& numbers, const AugmentKey* key) const override {
    auto words = at::empty({1 + numbers.numel()}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
    auto* to = words.mutable_data_ptr<int64_t>();
    *to = key ? key->epoch : 0;
    std::copy_n(numbers.const_data_ptr<int64_t>(), numbers.numel(), to + 1);
    return words;
  }

  bool makes_of_requests(const AugmentKey* key) const override {
    return !key || !source_.augmentation || source_.augmentation->erasing == 0;
  }

  Batch make_of(const at::Tensor& request, const AugmentKey* key) const override {
    auto rules = image_rules(source_, key);
    const auto count = request.numel() - 1;
    const auto format = form_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto type = form_.bf16 ? at::kBFloat16 : at::kFloat;
    Batch batch{.input = at::empty({count, rules.channels, rules.height, rules.width},
                                   at::TensorOptions().dtype(type).device(device_).memory_format(format)),
                .target = at::empty({count}, at::TensorOptions().dtype(at::kLong).device(device_))};
    launch(rules, request, batch);
    return batch;
  }

 private:
  void launch(const ImageRules& rules, const at::Tensor& request, Batch& batch) const {
    constexpr int kWarp = 32, kMostThreads = 256;
    const int plane = rules.height * rules.width;
    const int threads = std::clamp((plane + kWarp - 1) / kWarp * kWarp, kWarp, kMostThreads);
    const Steps steps{batch.input.stride(0), batch.input.stride(1), batch.input.stride(2), batch.input.stride(3)};
    ddprun::launch(kernels_->find(form_.bf16), batch.size(), threads, pixels_.const_data_ptr(), table_.const_data_ptr(),
                   labels_.const_data_ptr(), request.const_data_ptr(), rules, steps, batch.input.mutable_data_ptr(),
                   batch.target.mutable_data_ptr());
  }

  ImageSource source_;
  ImageForm form_;
  c10::Device device_;
  at::Tensor pixels_, labels_, table_;
  std::shared_ptr<const ImageKernels> kernels_;
};

}  // namespace

std::shared_ptr<const ImageKernels> compile_image_kernels(c10::Device device) {
  return std::make_shared<ImageKernels>(device);
}

std::unique_ptr<ImageBatcher> make_cuda_image_batcher(const ImageSource& source, const ImageForm& form,
                                                      c10::Device device, std::shared_ptr<const ImageKernels> kernels) {
  return std::make_unique<CudaImageBatcher>(source, form, device, std::move(kernels));
}

}  // namespace ddprun
