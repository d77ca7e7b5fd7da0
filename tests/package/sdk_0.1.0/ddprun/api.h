// SPDX-License-Identifier: MIT
// What is visible across the library boundary. Classes that are cast, caught or called by both sides carry DDPRUN_API.
#pragma once

#define DDPRUN_API __attribute__((visibility("default")))
