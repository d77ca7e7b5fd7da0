// SPDX-License-Identifier: MIT
// What the tests of a plugin call: each function looks at one promise of the plugin's kind, and returns what is wrong
// as a text, empty where nothing is. They need no test framework, and go with any:
//
//   namespace check = ddprun::check;
//   const check::ModelTest kNet{.make = check::model_plugin(DDPRUN_PLUGIN, {{"hidden", 8}}),
//                               .data = {.sample_shape = {1, 28, 28}, .classes = 10}};
//   TEST(Net, HasTheGradientsOfItsLoss) { EXPECT_EQ(check::gradients(kNet), ""); }
//
// ddprun_add_plugin_test(<kind> <name> SOURCES <file>...) in CMake builds such a program, and defines DDPRUN_PLUGIN.
// All of them compute on the CPU, in one process; none throws for a mistake of the plugin.
#pragma once

#include <ddprun/testing/dataset.h>
#include <ddprun/testing/logger.h>
#include <ddprun/testing/model.h>
#include <ddprun/testing/optimizer.h>
#include <ddprun/testing/plugin.h>
#include <ddprun/testing/settings.h>
