// SPDX-License-Identifier: MIT
// The table of pictures of the dataset image_folder.
#include "csv_list.h"
#include "fuzz/fuzz_target.h"

namespace ddprun {

void feed_csv(std::string_view bytes) { images::list_csv(fuzz::as_file(bytes), "pictures"); }

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(csv, feed_csv)
