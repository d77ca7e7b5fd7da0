// SPDX-License-Identifier: MIT
// SHA-256 of data that come in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace ddprun::remote {

class Sha256 {
 public:
  Sha256();
  void update(std::span<const uint8_t> bytes);
  std::string hex();  // finishes the hash: 64 lower-case digits

 private:
  std::shared_ptr<evp_md_ctx_st> context_;
};

}  // namespace ddprun::remote
