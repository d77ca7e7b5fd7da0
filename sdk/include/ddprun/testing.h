// SPDX-License-Identifier: MIT
// Checks for the tests of a plugin. Each function checks one promise of the plugin's kind, whose breach nothing else
// would show, and returns what is wrong as a text, empty if nothing is. They work with any test framework, or without
// one:
//
//   namespace check = ddprun::check;
//   const check::ModelTest kNet{.make = check::model_plugin(DDPRUN_PLUGIN, {{"hidden", 8}}),
//                               .data = {.sample_shape = {1, 28, 28}, .classes = 10}};
//   TEST(Net, HasTheGradientsOfItsLoss) { EXPECT_EQ(check::gradients(kNet), ""); }
//
// ddprun_add_plugin_test(<kind> <name> SOURCES <file>...) in CMake builds such a program and defines DDPRUN_PLUGIN. All
// checks compute on the CPU, in one process; none throws for a mistake of the plugin.
#pragma once

#include <ddprun/testing/dataset.h>
#include <ddprun/testing/model.h>
#include <ddprun/testing/objective.h>
#include <ddprun/testing/optimizer.h>
#include <ddprun/testing/plugin.h>
#include <ddprun/testing/settings.h>
