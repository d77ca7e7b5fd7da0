// SPDX-License-Identifier: MIT
#include "comm/gradient_reducer.h"

#include "base/current_op.h"
#include "comm/owner_exchange.h"

#include <ddprun/error.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace ddprun {

static_assert(TORCH_VERSION_MAJOR == 2 &&
                  (TORCH_VERSION_MINOR == 11 || TORCH_VERSION_MINOR == 14 || TORCH_VERSION_MINOR == 15),
              "c10d::Reducer is private to LibTorch: read its constructor again for this release");

namespace {

constexpr int64_t kFirstBucketBytes = int64_t{1} << 20;
constexpr int64_t kBucketBytes = int64_t{25} << 20;
constexpr int64_t kShardBucketBytes = kBucketBytes / 4;  // about a piece of ShardExchange, of which two are under way

// The exchange fails inside backward, where the model's own code may fail too. Gloo's exceptions are of types that
// LibTorch does not export. Their texts begin with a place in Gloo's sources, except for a wait that another's timeout
// ended.
bool is_lost_rank(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const c10::DistError*>(&error) != nullptr || text.find("gloo") < 64 ||
         text.starts_with("Application timeout caused pair closure");
}

template <class Exchange>
void exchanging(const char* what, Exchange&& exchange) {
  const CurrentOp doing{.section = nullptr, .name = what};
  const CurrentOpScope scope(doing);
  try {
    exchange();
  } catch (const std::exception& error) {
    if (!is_lost_rank(error)) throw;
    throw CommunicationError("the exchange of gradients failed: " + cause_of(error));
  }
}

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<NamedParameter>& parameters,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                            const ReducerOptions& options) {
  std::vector<at::Tensor> values;
  std::unordered_map<size_t, std::string> names;
  for (const auto& parameter : parameters) {
    names[values.size()] = parameter.name;
    values.push_back(parameter.value);
  }
  const auto bucket_bytes = options.shards > 0 ? kShardBucketBytes : kBucketBytes;
  // The first step uses one bucket; rebuild_buckets() then makes the real ones in the order in which gradients became
  // ready. If parameters are unused, there is no such order and no rebuilding. Shards and owners would receive all of
  // the one bucket at once, and their sums do not depend on the buckets.
  std::vector<size_t> limits{static_cast<size_t>(std::numeric_limits<int64_t>::max())};
  if (options.find_unused_parameters || options.shards > 0 || !options.owners.empty())
    limits = {kFirstBucketBytes, static_cast<size_t>(bucket_bytes)};
  auto [buckets, sizes] =
      c10d::compute_bucket_assignment_by_size(values, limits, std::vector<bool>(values.size(), false));
  std::ranges::reverse(buckets);
  return std::make_shared<c10d::Reducer>(values, std::move(buckets), group,
                                         /*expect_sparse_gradients=*/std::vector<bool>(values.size(), false),
                                         bucket_bytes, options.find_unused_parameters, /*gradient_as_bucket_view=*/true,
                                         std::move(names), kFirstBucketBytes,
                                         /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
                                         /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

}  // namespace

// Sends each bucket as bfloat16: the mean has float32's range and a 7-bit fraction. c10d has this only for float16.
class Bf16Compression final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  explicit Bf16Compression(const c10::intrusive_ptr<c10d::ProcessGroup>& group) : CppCommHookInterface(group) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const auto whole = bucket.getBuffer();
    auto sent = whole.to(at::kBFloat16);
    sent.div_(state_->getSize());  // with a hook, the reducer does not divide
    std::vector<at::Tensor> tensors{sent};
    return state_->allreduce(tensors)->getFuture()->then(
        [whole](c10::ivalue::Future& done) {
          const auto result = done.value();
          whole.copy_(result.isTensorList() ? result.toTensorVector().front() : result.toTensor());
          return c10::IValue(whole);
        },
        c10::TensorType::get());
  }
};

// The Logger must live as long as the Reducer, which calls it without checking, and it in turn holds the Reducer.
class GradientReducer::Impl {
 public:
  Impl(const std::vector<NamedParameter>& parameters, const Communicator& communicator, const ReducerOptions& options,
       const PartSums& sums)
      : parameters_(parameters),
        options_(options),
        group_(communicator.group()),
        reducer_(make_reducer(parameters, group_, options)),
        logger_(std::make_shared<c10d::Logger>(reducer_)) {
    reducer_->set_logger(logger_);
    reducer_->set_ddp_runtime_logging_sample_rate(std::numeric_limits<int>::max());  // nobody reads the times it takes
    logger_->set_construction_data_and_log("ddprun::Model", /*device_ids=*/{}, /*output_device=*/-1,
                                           /*broadcast_buffers=*/true, /*has_sync_bn=*/false, options.static_graph);
    if (options.static_graph) {
      reducer_->set_static_graph();
      logger_->set_static_graph();
    }
    choose_exchange(sums);
  }

  void choose_exchange(const PartSums& sums) {
    using Compression = ReducerOptions::Compression;
    if (options_.shards > 0) {
      auto exchange = std::make_unique<ShardExchange>(group_, sums, options_.owners);
      shard_exchange_ = exchange.get();
      reducer_->register_comm_hook(std::move(exchange));
    } else if (options_.compression == Compression::kFp16) {
      reducer_->register_builtin_comm_hook(c10d::BuiltinCommHookType::FP16_COMPRESS);
    } else if (options_.compression == Compression::kBf16) {
      reducer_->register_comm_hook(std::make_unique<Bf16Compression>(group_));
    } else if (!options_.owners.empty()) {
      auto exchange = std::make_unique<OwnerExchange>(group_, parameters_, options_.owners);
      owner_exchange_ = exchange.get();
      reducer_->register_comm_hook(std::move(exchange));
    }
  }

  // A static graph's first step finds out which parameters there are and exchanges everything at its end.
  void delay_first_exchange(const at::Tensor& loss) {
    if (!options_.static_graph || delayed_) return;
    delayed_ = true;
    loss.register_hook([reducer = reducer_](const at::Tensor& gradient) {
      torch::autograd::Engine::get_default_engine().queue_callback([reducer] { reducer->delay_all_reduce(); });
      return gradient;
    });
  }

  std::vector<at::Tensor> roots(const at::Tensor& loss) const {
    return options_.find_unused_parameters ? std::vector<at::Tensor>{loss} : std::vector<at::Tensor>{};
  }

  void check_complete() {
    try {
      reducer_->check_finalized();
    } catch (const std::exception&) {
      std::string unused;
      for (const auto& parameter : parameters_) {
        const auto& gradient = parameter.value.grad();
        const bool touched = gradient.defined() && gradient.count_nonzero().item<int64_t>() > 0;
        if (!touched) unused += (unused.empty() ? "" : ", ") + parameter.name;
      }
      throw UserError(
          "model: the loss does not depend on these parameters, so their gradients cannot be averaged over the "
          "ranks: " +
          unused +
          ". Use them in forward, or do not register them; trainer.find_unused_parameters=true looks for them in each "
          "step.");
    }
  }

  std::vector<NamedParameter> parameters_;
  ReducerOptions options_;
  bool delayed_ = false;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  ShardExchange* shard_exchange_ = nullptr;  // the reducer's, with shards
  OwnerExchange* owner_exchange_ = nullptr;  // the reducer's, with owners and without what is above
};

namespace {

std::vector<at::Tensor> values_of(const std::vector<NamedParameter>& parameters) {
  std::vector<at::Tensor> values;
  for (const auto& parameter : parameters) values.push_back(parameter.value);
  return values;
}

}  // namespace

GradientReducer::GradientReducer(const std::vector<NamedParameter>& parameters, const Communicator& communicator,
                                 const ReducerOptions& options)
    : shards_(options.shards),
      world_(communicator.world()),
      sums_(std::make_unique<PartSums>(values_of(parameters))),
      impl_(!communicator.is_distributed() ? nullptr
                                           : std::make_unique<Impl>(parameters, communicator, options, *sums_)) {}

GradientReducer::~GradientReducer() = default;

bool GradientReducer::through_host() const {
  if (!impl_) return false;
  const auto device = impl_->parameters_.front().value.device().type();
  return device == at::kCUDA && impl_->group_->getBackend(device)->getBackendName() == "gloo";
}

void GradientReducer::start(int64_t present, bool whole) {
  if (impl_ && impl_->owner_exchange_) impl_->owner_exchange_->start(whole);
  if (shards_ == 0) return sums_->start({});
  if (!tree_ || tree_->present() != present) tree_ = std::make_shared<ShardTree>(shards_, present, world_.size);
  sums_->start(tree_->own(world_.rank));
  if (impl_) impl_->shard_exchange_->start(tree_, whole);
}

void GradientReducer::accumulate(const at::Tensor& loss) {
  sums_->before_part();
  loss.backward();
  sums_->after_part();
}

void GradientReducer::before_forward() {
  if (!impl_) return;
  exchanging("the order of gradients, which rank 0 sends", [&] { impl_->reducer_->rebuild_buckets(); });
  impl_->reducer_->prepare_for_forward();
}

// The engine runs callbacks in queue order at the end of backward: this one precedes the reducer's own, which waits for
// the exchange.
void GradientReducer::backward(const at::Tensor& loss, const std::function<void()>& computed) {
  if (!impl_) {
    accumulate(loss);
    if (shards_ > 0) sums_->finish();
    return;
  }
  sums_->before_part();
  if (impl_->options_.find_unused_parameters) sums_->fill_gaps();  // c10d wants one where an earlier part has used it
  impl_->reducer_->prepare_for_backward(impl_->roots(loss));
  if (computed) {
    loss.register_hook([computed](const at::Tensor& gradient) {
      torch::autograd::Engine::get_default_engine().queue_callback(computed);
      return gradient;
    });
  }
  impl_->delay_first_exchange(loss);
  exchanging("backward and the exchange of gradients", [&] { loss.backward(); });
  impl_->check_complete();
  sums_->start({});  // frees those that waited
}

}  // namespace ddprun
