// SPDX-License-Identifier: MIT
// As torch.utils.checkpoint(use_reentrant=False) does it: autograd's graph is that of an ordinary forward, so gradients
// are added and exchanged in its order, but its saved tensors are places in a Frame, which is filled when one is read.
#include <ddprun/error.h>
#include <ddprun/fused_layers.h>
#include <ddprun/recompute.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace ddprun {

static_assert(TORCH_VERSION_MAJOR == 2 &&
                  (TORCH_VERSION_MINOR == 11 || TORCH_VERSION_MINOR == 14 || TORCH_VERSION_MINOR == 15),
              "that an engine gives hooks for saved tensors is private to LibTorch: read it again for this release");

namespace {

using Tensors = RecomputeScope::Tensors;

struct Block {
  std::string name;
  bool asked = false, chosen = false;
};

// All blocks of the models of this process, by module.
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  std::mutex mutex;
  std::map<const torch::nn::Module*, Block> blocks;
  std::atomic<int> compares = 0;  // scopes of ComparedBlocks
};

std::string name_of(const torch::nn::Module& module) {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  const auto block = registry.blocks.find(&module);
  return block == registry.blocks.end() ? module.name() : block->second.name;
}

// Autocast on one device.
struct Autocast {
  explicit Autocast(at::DeviceType type)
      : device(type), enabled(at::autocast::is_autocast_enabled(type)), dtype(at::autocast::get_autocast_dtype(type)) {}

  void set() const {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
  }

  at::DeviceType device;
  bool enabled;
  at::ScalarType dtype;
};

// What operators depend on beside their arguments: random generators, autocast, and the choice of fused layers.
class Surroundings {
 public:
  explicit Surroundings(at::Device device) : autocast_{Autocast(at::kCPU), Autocast(device.type())} {
    add(at::detail::getDefaultCPUGenerator());
    if (!device.is_cpu()) add(at::globalContext().defaultGenerator(device));
  }

  void set() const {
    for (const auto& one : autocast_) one.set();
    at::autocast::set_autocast_cache_enabled(caches_);
    for (const auto& [generator, state] : generators_) {
      auto there = generator;
      const std::lock_guard lock(there.mutex());
      there.set_state(state);
    }
  }

  bool fused() const { return fused_; }

 private:
  void add(at::Generator generator) {
    const std::lock_guard lock(generator.mutex());
    auto state = generator.get_state();
    generators_.emplace_back(std::move(generator), std::move(state));
  }

  std::array<Autocast, 2> autocast_;
  bool caches_ = at::autocast::is_autocast_cache_enabled(), fused_ = fused_layers();
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

// Puts surroundings in place for a scope. Casts of weights that autocast has kept go with it.
class There {
 public:
  There(const Surroundings& there, at::Device device) : before_(device), fused_(there.fused()) {
    at::autocast::increment_nesting();
    there.set();
  }
  ~There() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    before_.set();
  }
  There(const There&) = delete;
  There& operator=(const There&) = delete;

 private:
  Surroundings before_;
  FusedLayersScope fused_;
};

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

void put(const Tensors& values, const Tensors& tensors) {
  const at::NoGradGuard no_gradients;
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(values[i]);
}

// Returns each tensor once.
Tensors united(Tensors tensors, const Tensors& others) {
  for (const auto& other : others)
    if (std::ranges::none_of(tensors, [&](const auto& one) { return one.is_same(other); })) tensors.push_back(other);
  return tensors;
}

// Has buffers be what they were, for a scope.
class FormerBuffers {
 public:
  FormerBuffers(const Tensors& buffers, const Tensors& former) : buffers_(buffers), now_(copies_of(buffers)) {
    put(former, buffers);
  }
  ~FormerBuffers() { put(now_, buffers_); }
  FormerBuffers(const FormerBuffers&) = delete;
  FormerBuffers& operator=(const FormerBuffers&) = delete;

 private:
  const Tensors& buffers_;
  Tensors now_;
};

// Returns whether two tensors have the same bits; on a GPU, whose kernels may add in any order, about the same values.
bool are_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (!a.is_floating_point()) return a.equal(b);
  const bool is_exact = a.is_cpu();
  return at::allclose(a, b, is_exact ? 0 : 1e-2, is_exact ? 0 : 1e-4, /*equal_nan=*/true);
}

// What a scope has dropped. Those of its tensors that backward may still read are wanted.
class Frame {
 public:
  Frame(const torch::nn::Module& block, const Tensors& inputs, RecomputeScope::Again again, const Tensors& others)
      : name_(name_of(block)),
        buffers_(united(block.buffers(), others)),
        before_(copies_of(buffers_)),
        device_(inputs.empty() ? at::Device(at::kCPU) : inputs.front().device()),
        there_(device_),
        again_(std::move(again)) {
    for (const auto& input : inputs) {
      inputs_.push_back(input.detach());
      inputs_.back().set_requires_grad(input.requires_grad());
      versions_.push_back(input._version());
    }
  }

  // Adds a place for the next tensor that an operator saves, in the order of the operators.
  size_t drop(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    auto& place =
        places_.emplace_back(Place{.wanted = true, .sizes = tensor.sizes().vec(), .type = tensor.scalar_type()});
    if (Registry::instance().compares > 0) place.expected = tensor.detach();
    return places_.size() - 1;
  }

  // Takes what is saved the second time.
  void take(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto at = taken_++;
    if (at >= places_.size()) return;
    auto& place = places_[at];
    const bool fits = tensor.sizes() == at::IntArrayRef(place.sizes) && tensor.scalar_type() == place.type;
    const bool is_expected = !place.expected.defined() || are_alike(tensor.detach(), place.expected);
    differs_ = differs_ || !fits || !is_expected;
    if (place.wanted) place.value = tensor.detach();
  }

  at::Tensor get(size_t place) {
    const std::lock_guard one_at_a_time(filling_);
    if (auto value = value_at(place); value.defined()) return value;
    fill();
    return value_at(place);
  }

  void forget(size_t place) {
    const std::lock_guard lock(mutex_);
    places_[place].wanted = false;
    places_[place].value.reset();
  }

 private:
  struct Place {
    bool wanted = false;
    std::vector<int64_t> sizes;
    at::ScalarType type = at::kFloat;
    at::Tensor value = {}, expected = {};  // the second if it is compared
  };

  at::Tensor value_at(size_t place) {
    const std::lock_guard lock(mutex_);
    return places_[place].value;
  }

  void fill();
  void require_unchanged() const;

  std::string name_;
  Tensors buffers_, before_;
  at::Device device_;
  Surroundings there_;
  RecomputeScope::Again again_;
  Tensors inputs_;
  std::vector<uint32_t> versions_;
  std::mutex filling_, mutex_;
  std::vector<Place> places_;
  size_t taken_ = 0;
  bool differs_ = false;
};

// Where this thread's operators save: they drop it, or bring it back, or neither within an ordinary one.
struct Saving {
  std::shared_ptr<Frame> frame;
  bool is_again = false;
};
thread_local std::vector<Saving> saving;

// The place of one saved tensor, in the graph of the first forward or, without a frame, in that of the second.
class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(const Saving& here) : frame_(here.frame), is_again_(here.is_again) {}
  ~Hooks() override {
    if (!is_again_ && has_place_) frame_->forget(place_);
  }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override {
    if (is_again_) return std::exchange(frame_, nullptr)->take(tensor);
    place_ = frame_->drop(tensor);
    has_place_ = true;
  }

  at::Tensor call_unpack_hook() override {
    TORCH_CHECK(!is_again_, "what is computed again has no backward of its own");
    return frame_->get(place_);
  }

 private:
  std::shared_ptr<Frame> frame_;
  bool is_again_, has_place_ = false;
  size_t place_ = 0;
};

// LibTorch's engine but for the hooks. It is never deleted, as LibTorch's own is not.
class Engine final : public torch::autograd::Engine {
 public:
  static void install() {
    static const bool installed = [] {
      torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& {
        static auto* const engine = new Engine();
        return *engine;
      });
      return true;
    }();
    static_cast<void>(installed);
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (saving.empty()) return nullptr;
    return std::make_unique<Hooks>(saving.back());
  }
};

class SavingScope {
 public:
  explicit SavingScope(Saving here) { saving.push_back(std::move(here)); }
  ~SavingScope() { saving.pop_back(); }
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;
};

void Frame::fill() {
  require_unchanged();
  taken_ = 0;
  {
    const FormerBuffers former(buffers_, before_);
    const There there(there_, device_);
    const at::AutoGradMode with_gradients(true);
    // The frame outlives this: one of its places is being read.
    const SavingScope again({.frame = std::shared_ptr<Frame>(std::shared_ptr<Frame>(), this), .is_again = true});
    again_(inputs_);
  }
  if (taken_ != places_.size() || differs_)
    throw UserError(c10::str("trainer.recompute: ", name_, " kept ", places_.size(),
                             places_.size() == 1 ? " tensor" : " tensors", " for backward, and ",
                             taken_ == places_.size() ? "others" : std::to_string(taken_),
                             " when it was computed again: it depends on more than its input, its buffers and random "
                             "numbers. Leave it out of trainer.recompute"));
}

void Frame::require_unchanged() const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i]._version() != versions_[i])
      throw UserError("trainer.recompute: " + name_ + " cannot be computed again, since its input " +
                      "was changed in place afterwards. Leave it out of trainer.recompute");
}

}  // namespace

RecomputeScope::RecomputeScope(const torch::nn::Module& block, const Tensors& inputs, Again again,
                               const Tensors& others)
    : entered_(at::GradMode::is_enabled()) {
  if (!entered_) return;
  Engine::install();
  saving.push_back({.frame = std::make_shared<Frame>(block, inputs, std::move(again), others)});
}

RecomputeScope::~RecomputeScope() {
  if (entered_) saving.pop_back();
}

ComparedBlocks::ComparedBlocks() { ++Registry::instance().compares; }

ComparedBlocks::~ComparedBlocks() { --Registry::instance().compares; }

bool is_recomputed(const torch::nn::Module& block) {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.blocks.find(&block);
  if (found == registry.blocks.end()) return false;
  found->second.asked = true;
  return found->second.chosen;
}

RecomputedBlocks::RecomputedBlocks(std::shared_ptr<torch::nn::Module> model) : model_(std::move(model)) {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  for (const auto& module : model_->named_modules("", /*include_self=*/false))
    registry.blocks[module.value().get()].name = module.key();
}

RecomputedBlocks::~RecomputedBlocks() {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  for (const auto& module : model_->modules(/*include_self=*/false)) registry.blocks.erase(module.get());
}

std::vector<std::string> RecomputedBlocks::known() const {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& module : model_->named_modules("", /*include_self=*/false))
    if (registry.blocks.at(module.value().get()).asked) names.push_back(module.key());
  return names;
}

void RecomputedBlocks::before_first_backward() { Engine::install(); }

std::vector<std::string> RecomputedBlocks::modules() const {
  return model_->named_modules("", /*include_self=*/false).keys();
}

void RecomputedBlocks::choose(const std::vector<std::string>& names) {
  auto& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  for (const auto& module : model_->named_modules("", /*include_self=*/false))
    registry.blocks.at(module.value().get()).chosen = std::ranges::find(names, module.key()) != names.end();
}

at::Tensor recomputed_each(torch::nn::SequentialImpl& blocks, const at::Tensor& input) {
  auto x = input;
  for (auto& block : blocks) {
    const auto forward = [block](const at::Tensor& given) mutable { return block.forward(given); };
    x = recomputed(*block.ptr(), forward, x);
  }
  return x;
}

}  // namespace ddprun
