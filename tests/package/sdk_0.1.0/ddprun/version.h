// SPDX-License-Identifier: MIT
// The SDK's version, from CMakeLists.txt.
#pragma once

#define DDPRUN_VERSION_MAJOR 0
#define DDPRUN_VERSION_MINOR 1
#define DDPRUN_VERSION_PATCH 0
#define DDPRUN_VERSION "0.1.0"
