// SPDX-License-Identifier: MIT
// Trains on a loss written in Python: the file that tools/export_model --loss (torch.export) writes of it. A program of
// prediction and target, without weights, whose first result is the loss; the others are metrics.
#include "program.h"
#include "program_file.h"
#include "results.h"

#include <ddprun/error.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::exported {
namespace {

namespace fs = std::filesystem;

// The program with its constants on a device.
struct Placed {
  Program program;
  std::map<std::string, at::Tensor> constants;
};

class ExportedLoss final : public Objective {
 public:
  explicit ExportedLoss(Options& options)
      : file_(options.require<fs::path>("file",
                                        "what tools/export_model (ddprun-export-model --loss) wrote: focal.pt2")) {
    if (!options.has("file")) return;
    try {
      if (!fs::is_regular_file(file_)) throw UserError("no such file");
      read();
    } catch (const UserError& error) {
      options.reject("file", file_.string() + ": " + error.what());
    }
  }

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    return run(prediction, target).front();
  }

  // Symbols, pixels and voxels are the function's own business.
  bool takes_parts() const override { return true; }

  at::Tensor counted(const at::Tensor& target) const override { return counted_by(results_.front(), target); }

  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    if (results_.size() < 2) return {};
    const at::NoGradGuard no_gradients;
    return metric_sums(results_, run(prediction.detach(), target), target, prediction.size(0));
  }

 private:
  void read() try {
    const Archive archive(file_);
    results_ = archive.results();
    if (archive.is_network())
      throw UserError("it is a network (model=exported): expected a loss, which tools/export_model --loss writes");
    json_ = archive.training();
    for (auto& [name, weight] : archive.tensors()) constants_.emplace(name, weight.tensor);
    placed(at::kCPU);
  } catch (const nlohmann::json::exception& error) {
    throw UserError(std::string("it is damaged: ") + error.what() + "; export it again");
  } catch (const c10::Error& error) {
    throw UserError(std::string("it is damaged: ") + error.what_without_backtrace() + "; export it again");
  }

  // Computes in float32, whatever the precision of the network.
  std::vector<at::Tensor> run(const at::Tensor& prediction, const at::Tensor& target) const {
    const std::vector given{prediction.scalar_type() == at::kDouble ? prediction : prediction.to(at::kFloat), target};
    const auto& program = placed(prediction.device());
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& form = program.inputs().at(i);
      if (!form.takes(given[i]))
        throw UserError(c10::str("exported: ", file_.string(), " takes ", form.text(), " as ", form.name,
                                 "; it is given ", given[i].sizes(), " ", given[i].scalar_type(),
                                 ": export it with --input of these sizes"));
    }
    return program.run(given, prediction.device());
  }

  // Called from several threads with trainer.strategy dp, each with a GPU of its own.
  const Program& placed(at::Device device) const {
    const std::scoped_lock lock(mutex_);
    auto& found = placed_[device.str()];
    if (found) return found->program;
    auto made = std::make_unique<Placed>(Placed{.program = Program(json_, results_.size()), .constants = {}});
    if (made->program.inputs().size() != 2) throw UserError("it is damaged: a loss takes prediction and target");
    for (const auto& [name, tensor] : constants_) made->constants.emplace(name, tensor.to(device));
    made->program.bind(made->constants);
    found = std::move(made);
    return found->program;
  }

  const fs::path file_;
  std::vector<ResultForm> results_;
  nlohmann::json json_;
  std::map<std::string, at::Tensor> constants_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<Placed>> placed_;  // by device
};

}  // namespace
}  // namespace ddprun::exported

DDPRUN_OBJECTIVE(ddprun::exported::ExportedLoss, "exported", "a loss written in Python, exported with torch.export")
