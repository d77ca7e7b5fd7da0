// SPDX-License-Identifier: MIT
// Reads an array that numpy.save wrote.
#pragma once

#include "stored_array.h"

#include <ddprun/files.h>

namespace ddprun::arrays {

// Checks the header against the size of the file. Throws UserError with the path, what was found, what was expected and
// the line of Python that helps.
StoredArray read_npy(const MappedFile& file);

}  // namespace ddprun::arrays
