// SPDX-License-Identifier: MIT
// Device memory, and which of the host's is page-locked.
#pragma once

#include <cstddef>

namespace pretend {

bool is_pinned(const void* address);

// Whether the bytes are all in one block that is allocated; always, where they are the host's.
bool is_allocated(const void* address, size_t bytes);

}  // namespace pretend
