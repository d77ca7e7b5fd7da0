// SPDX-License-Identifier: MIT
// What workers have started in sessions of their own: no signal to a worker's group reaches it, and it outlives its
// worker. While a launcher adopts, it becomes the launcher's child then, and ends with the attempt.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace ddprun {

// Makes this process the parent of all descendants whose own parent has ended, from its construction to its end.
class Adoption {
 public:
  Adoption();
  ~Adoption();
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;

 private:
  int before_ = 0;
};

// Reaps children of this process that have ended, up to the first that `is_worker`. Never blocks.
void reap_orphans(const std::function<bool(pid_t)>& is_worker);

// Kills and reaps the children whose environment has `mark`, which workers were given and no other process, and what is
// adopted from them. Gives up after a second on those that hang in the kernel.
void end_orphans(const std::string& mark);

}  // namespace ddprun
