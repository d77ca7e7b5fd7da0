// @name@: a Markdown table of the evaluations in the run folder. Make it yours.
#include <ddprun/error.h>
#include <ddprun/logger.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace {

// What a cell of the table cannot hold becomes a space.
std::string cell(std::string text) {
  std::ranges::replace_if(text, [](char letter) { return letter == '|' || letter == '\n' || letter == '\r'; }, ' ');
  return text;
}

// Only rank 0 has loggers. The runner calls each from one thread of its own, so nothing here needs a lock, and slow is
// not bad; one that throws is left out from then on, with a warning. All methods but start() may be left out.
class @class@ final : public ddprun::Logger {
 public:
  // Reads the options, and nothing more: files are opened in start().
  explicit @class@(ddprun::Options& options)
      : file_name_(options.get<std::string>("file", "@name@.md", "name of the file in the run folder")) {}

  // A resumed run comes here again, with a higher run.attempt, and continues in the same folder.
  void start(const ddprun::RunStart& run) override {
    path_ = run.run_dir / file_name_;
    const bool fresh = !std::filesystem::exists(path_);
    file_.open(path_, std::ios::app);
    if (fresh) {
      file_ << "# " << cell(run.name) << "\n\n| split | epoch | step | metric | value |\n|---|---|---|---|---|\n";
    }
    check();
  }

  // A row of numbers, each the mean over all workers: of the split train, val, test or system (times and memory).
  void metrics(const ddprun::MetricRow& row) override {
    if (row.split != "val" && row.split != "test") return;
    for (const auto& [name, value] : row.values) {  // value may be NaN
      file_ << "| " << cell(row.split) << " | " << row.epoch << " | " << row.step << " | " << cell(name) << " | "
            << value << " |\n";
    }
    check();
  }

  // Called before a checkpoint counts: what is held back is written now.
  void flush() override {
    file_.flush();
    check();
  }

  void finish(const ddprun::RunEnd& end) override {
    file_ << "\n" << cell(end.status) << ": " << cell(end.stop_reason) << "\n";
    flush();
  }

 private:
  void check() {
    if (!file_) throw ddprun::UserError(path_.string() + " cannot be written; is the disk full?");
  }

  std::string file_name_;
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace

DDPRUN_LOGGER(@class@, "@name@", "a Markdown table of the evaluations in the run folder")
