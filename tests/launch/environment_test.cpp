// SPDX-License-Identifier: MIT
#include "launch/environment.h"

#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class EnvironmentTest : public FolderTest {
 protected:
  EnvironmentTest() { fs::current_path(folder_); }
  ~EnvironmentTest() override { fs::current_path(old_); }

  nlohmann::json describe(const RunRecord& record = {}) {
    recorded_ = describe_environment(record, folder_ / "proc");
    return nlohmann::json::parse(recorded_.json);
  }

  void make_repository() {
    ASSERT_EQ(std::system("git init -q . && git config user.email a@b && git config user.name a && echo one > file && "
                          "git add file && git commit -qm first"),
              0);
  }

  RecordedEnvironment recorded_;
  fs::path old_ = fs::current_path();
};

TEST_F(EnvironmentTest, HoldsWhatTheCallerKnows) {
  write(folder_ / "mlp.so", "abc");
  const auto json = describe(
      {.arguments = {"ddprun", "a.yaml"}, .versions = {{"libtorch", "2.11.0"}}, .plugin_files = {folder_ / "mlp.so"}});
  EXPECT_EQ(json["arguments"][1], "a.yaml");
  EXPECT_EQ(json["versions"]["libtorch"], "2.11.0");
  EXPECT_EQ(json["plugins"][0]["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(json["host"].get<std::string>().empty());
}

TEST_F(EnvironmentTest, WhatIsMissingIsLeftOut) {
  ::setenv("GIT_CEILING_DIRECTORIES", folder_.parent_path().c_str(), 1);
  const auto json = describe({.plugin_files = {"/nowhere/x.so"}});
  EXPECT_FALSE(json.contains("git"));
  EXPECT_TRUE(json["gpus"].empty());
  EXPECT_THAT(json["plugins"][0]["error"].get<std::string>(), HasSubstr("No such file"));
}

TEST_F(EnvironmentTest, ListsTheDriversGpus) {
  write(folder_ / "proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\nGPU UUID: \t GPU-12\n");
  write(folder_ / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX 580.1\n");
  const auto json = describe();
  EXPECT_EQ(json["gpus"][0]["model"], "NVIDIA H200");
  EXPECT_EQ(json["gpus"][0]["uuid"], "GPU-12");
  EXPECT_EQ(json["driver"], "NVIDIA UNIX 580.1");
}

TEST_F(EnvironmentTest, NamesProcessorsOfX86AndOfArm) {
  const auto named = [&](const std::string& cpuinfo) {
    write(folder_ / "proc/cpuinfo", cpuinfo);
    return describe()["cpu"]["model"].get<std::string>();
  };
  EXPECT_EQ(named("processor\t: 0\nmodel\t\t: 106\nmodel name\t: Intel(R) Xeon(R)\n"), "Intel(R) Xeon(R)");
  const std::string arm = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n";
  EXPECT_EQ(named(arm + "CPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n"), "ARM Neoverse V2");
  EXPECT_EQ(named(arm + "CPU part\t: 0xfff\n"), "ARM processor (implementer 0x41, part 0xfff)");
  EXPECT_EQ(named("processor\t: 0\n"), "");
}

TEST_F(EnvironmentTest, CommitAndUncommittedChanges) {
  make_repository();
  EXPECT_EQ(describe()["git"]["dirty"], false);
  write(folder_ / "file", "two\n");
  const auto json = describe();
  EXPECT_EQ(json["git"]["sha"].get<std::string>().size(), 40U);
  EXPECT_EQ(json["git"]["dirty"], true);
  EXPECT_EQ(json["git"]["diff"], "uncommitted.diff");
  EXPECT_THAT(recorded_.uncommitted, HasSubstr("+two"));
}

TEST_F(EnvironmentTest, HugeDiffIsCut) {
  make_repository();
  write(folder_ / "file", std::string(3 << 20, 'x') + "\n");
  const auto json = describe();
  EXPECT_EQ(recorded_.uncommitted.size(), 1U << 20);
  EXPECT_EQ(json["git"]["diff_cut_at_bytes"], 1 << 20);
}

TEST_F(EnvironmentTest, NothingIsRunThatTheRepositoryNames) {
  make_repository();
  write(folder_ / ".gitattributes", "* filter=strange\n");
  const auto ran = folder_ / "ran";
  ASSERT_EQ(std::system(("cd " + folder_.string() + " && git config filter.strange.clean 'touch " + ran.string() +
                         "; cat' && git config filter.strange.required true")
                            .c_str()),
            0);
  write(folder_ / "file", "two\n");
  EXPECT_EQ(describe()["git"]["dirty"], true);
  EXPECT_THAT(recorded_.uncommitted, HasSubstr("+two"));
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(EnvironmentTest, VariablesThatChangeRunsButNoSecrets) {
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("DDPRUN_API_KEY", "hush", 1);
  ::setenv("UNRELATED", "x", 1);
  const auto json = describe();
  EXPECT_EQ(json["variables"]["OMP_NUM_THREADS"], "3");
  EXPECT_EQ(json["variables"]["DDPRUN_API_KEY"], "(left out)");
  EXPECT_FALSE(json["variables"].contains("UNRELATED"));
}

}  // namespace
}  // namespace ddprun
