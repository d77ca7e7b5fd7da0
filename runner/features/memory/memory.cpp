// SPDX-License-Identifier: MIT
// Has a step fit into memory: trainer.micro_batch=auto finds how many samples are computed at once, trainer.recompute
// which blocks backward computes again; and where memory runs out, says what is held and what to change.
#include "base/log.h"
#include "features/memory/memory_trials.h"
#include "plugin_host/plugin_call.h"
#include "sharing/memory_plan.h"
#include "sharing/out_of_memory.h"
#include "train/feature.h"

#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

class Memory final : public Feature {
 public:
  explicit Memory(const Context& context)
      : context_(context), config_(context.experiment.trainer), blocks_(context.models(), config_.recompute) {}

  void before_first_step(Loop& loop) override {
    if (blocks_.is_asked_for()) choose_blocks(loop);
    if (config_.micro_batch == TrainerConfig::kAutoMicroBatch) choose_micro_batch(loop);
    if (!blocks_.has_chosen()) return;
    if (const auto* batch = loop.next_batch()) compare_blocks(context_, loop.step, *batch);
    if (context_.is_rank_zero()) log::info(blocks_.text());
  }

  // Says what is held besides what the step takes.
  void explain(const Loop& loop, const std::exception& error, const std::string& during) override {
    if (!is_out_of_memory(error)) return;
    const auto state = in_plugin({"optimizer", "state"}, [&] { return context_.optimizer->state(); });
    const auto held = held_memory(*context_.model, state, loop.step.ema().state());
    const auto advice = advice_for_steps(config_, micro_batch_, loop.state.world_size, blocks_.could_choose());
    rethrow_with_advice(error, during, advice, "Besides activations, a worker holds " + held_text(held) + ".\n");
  }

  void save(const Loop& /*loop*/, FeatureStates& states) override {
    states["micro_batch"] = nlohmann::json(micro_batch_).dump();
    states["recomputes"] = nlohmann::json(recomputes_).dump();
  }

  // Searches anew where other ranks continue: another number fits into their memory.
  void restore(Loop& loop, const FeatureStates& states) override {
    recomputes_ = nlohmann::json::parse(states.at("recomputes"));
    const auto& state = loop.state;
    if (state.world_size == context_.communicator.world().size && state.devices == context_.devices())
      micro_batch_ = nlohmann::json::parse(states.at("micro_batch"));
  }

 private:
  // Chooses the blocks that are computed again, among those that the model has. What auto found belongs to what
  // micro_batch: auto did.
  void choose_blocks(Loop& loop) {
    const auto* batch = loop.next_batch();
    if (!batch) return;
    ask_for_blocks(context_, loop.step, *batch, blocks_);
    blocks_.choose();
    if (blocks_.is_auto() && recomputes_) blocks_.choose_all();
  }

  // Finds the micro-batch, once in a run: a resumed one uses the number that was found, since otherwise it would sum
  // its gradients in another order. It must fit once everything that ever trains does.
  void choose_micro_batch(Loop& loop) {
    if (micro_batch_ == 0) {
      const auto* batch = loop.next_batch();
      if (!batch) return;
      loop.choose_parameters(kWidest);
      micro_batch_ = find_micro_batch(context_, loop.step, *batch, blocks_);
      recomputes_ = blocks_.is_auto() && blocks_.has_chosen();
      loop.choose_parameters(loop.state.step);
    }
    loop.step.set_micro_batch(micro_batch_);
  }

  const Context& context_;
  const TrainerConfig& config_;
  Recomputation blocks_;
  int64_t micro_batch_ = 0;  // found by trainer.micro_batch=auto; 0: not searched
  bool recomputes_ = false;  // found by trainer.recompute=auto, together with it
};

}  // namespace

std::unique_ptr<Feature> make_memory(const Context& context, const TrainPlan& /*plan*/) {
  return std::make_unique<Memory>(context);
}

}  // namespace ddprun
