// SPDX-License-Identifier: MIT
#include "rendezvous/address.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(StorePlace, IsReadAsItIsWritten) {
  for (const auto* host : {"node1", "10.0.0.1", "fe80::1"}) {
    const StorePlace place{.endpoint = {host, 29400}, .prefix = "attempt_3"};
    const auto read = parse_store_place(place.text());
    ASSERT_TRUE(read) << place.text();
    EXPECT_EQ(read->endpoint.host, host);
    EXPECT_EQ(read->endpoint.port, 29400);
    EXPECT_EQ(read->prefix, "attempt_3");
  }
}

TEST(StorePlace, APathIsNone) { EXPECT_FALSE(parse_store_place("/tmp/ddprun-x/store")); }

}  // namespace
}  // namespace ddprun
