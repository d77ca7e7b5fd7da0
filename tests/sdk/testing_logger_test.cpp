// SPDX-License-Identifier: MIT
// The checks of <ddprun/testing.h> with a good logger, which all of them pass, and one logger for each thing that they
// find.
#include <ddprun/testing/logger.h>

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <thread>

namespace ddprun::check {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Writes the names of all that it is told.
class Lines : public Logger {
 public:
  void start(const RunStart& run) override { file_.open(run.run_dir / "lines.txt", std::ios::app); }

  void metrics(const MetricRow& row) override {
    for (const auto& [name, value] : row.values) file_ << row.split << " " << name << " " << value << "\n";
  }

  void confusion(const ConfusionTable& table) override {
    for (const auto& name : table.class_names) file_ << name << "\n";
  }

  void finish(const RunEnd& end) override { file_ << end.status << "\n"; }

 protected:
  std::ofstream file_;
};

template <class Kind>
LoggerTest logger_test_of() {
  return {.make = [] { return std::make_shared<Kind>(); }};
}

TEST(LoggerChecks, FindNothingWrongWithAGoodLogger) { EXPECT_THAT(all(logger_test_of<Lines>()), IsEmpty()); }

TEST(LoggerChecks, UseTheTestsOwnFolder) {
  auto test = logger_test_of<Lines>();
  test.run_dir = ::testing::TempDir() + "/ddprun_lines";
  std::filesystem::remove_all(test.run_dir);
  std::filesystem::create_directories(test.run_dir);
  EXPECT_EQ(takes_a_run(test), "");
  EXPECT_GT(std::filesystem::file_size(test.run_dir / "lines.txt"), 0U);
  std::filesystem::remove_all(test.run_dir);
}

class WithoutHistograms : public Lines {
 public:
  void histograms(const HistogramTable&) override { throw std::runtime_error("not yet written"); }
};

class StartingInOneThread : public Lines {
 public:
  void start(const RunStart&) override {
    if (std::this_thread::get_id() != home_) throw std::runtime_error("another thread");
  }

 private:
  std::thread::id home_ = std::this_thread::get_id();
};

class RefusingAnOldFolder : public Lines {
 public:
  void start(const RunStart& run) override {
    if (std::filesystem::exists(run.run_dir / "lines.txt")) throw std::runtime_error("lines.txt exists");
    Lines::start(run);
  }
};

TEST(LoggerRuns, AreToldWithTheHookThatThrows) {
  EXPECT_EQ(takes_a_run(logger_test_of<WithoutHistograms>()), "histograms() threw: not yet written");
  EXPECT_EQ(takes_a_run(logger_test_of<StartingInOneThread>()), "start() threw: another thread");
  EXPECT_EQ(takes_a_run(logger_test_of<RefusingAnOldFolder>()),
            "in the folder of a run that is resumed: start() threw: lines.txt exists");
}

class OnlyFinite : public Lines {
 public:
  void metrics(const MetricRow& row) override {
    for (const auto& [name, value] : row.values) {
      if (!std::isfinite(value)) throw std::runtime_error("not finite");
    }
  }
};

class OnlyLetters : public Lines {
 public:
  void confusion(const ConfusionTable& table) override {
    for (const auto& name : table.class_names) {
      if (name.find('\xff') != std::string::npos) throw std::runtime_error("no text");
    }
  }
};

class WithAFirstRow : public Lines {
 public:
  void predictions(const PredictionTable& table) override { table.rows.at(0); }
};

TEST(LoggerOddValues, AreToldWithWhatWasTold) {
  EXPECT_THAT(takes_odd_values(logger_test_of<OnlyFinite>()),
              AllOf(StartsWith("told of an empty name, of NaN"), HasSubstr("metrics() threw: not finite")));
  EXPECT_THAT(takes_odd_values(logger_test_of<OnlyLetters>()),
              AllOf(StartsWith("told of a name that is not UTF-8"), HasSubstr("confusion() threw: no text")));
  EXPECT_THAT(takes_odd_values(logger_test_of<WithAFirstRow>()), HasSubstr("predictions() threw: "));
}

// Writes at the end what it points at.
class Pointing : public Lines {
 public:
  void metrics(const MetricRow& row) override { rows_.push_back(&row); }
  void finish(const RunEnd& end) override {
    for (const auto* row : rows_) Lines::metrics(*row);
    Lines::finish(end);
  }

 private:
  std::vector<const MetricRow*> rows_;
};

class PointingUntilItGoes : public Lines {
 public:
  void confusion(const ConfusionTable& table) override { table_ = &table; }
  ~PointingUntilItGoes() override {
    if (table_) Lines::confusion(*table_);
  }

 private:
  const ConfusionTable* table_ = nullptr;
};

TEST(LoggerReferences, AreFoundInWhatIsWrittenLater) {
  EXPECT_THAT(keeps_no_references(logger_test_of<Pointing>()),
              StartsWith("lines.txt shows what a row or table was overwritten with"));
  EXPECT_THAT(keeps_no_references(logger_test_of<PointingUntilItGoes>()), HasSubstr("copy what is written later"));
}

TEST(LoggerChecks, TellWhichOfThemFoundWhat) {
  EXPECT_THAT(all(logger_test_of<Pointing>()), ElementsAre(StartsWith("keeps_no_references: lines.txt")));
}

}  // namespace
}  // namespace ddprun::check
