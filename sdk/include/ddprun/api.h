// SPDX-License-Identifier: MIT
// Symbol visibility across the library boundary. Classes that both sides cast, catch or call carry DDPRUN_API.
#pragma once

#define DDPRUN_API __attribute__((visibility("default")))
