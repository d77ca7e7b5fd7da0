// SPDX-License-Identifier: MIT
#include "support/temporary_folder.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>

namespace ddprun {
namespace {

constexpr auto kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";  // FIPS 180-2

class Sha256Test : public FolderTest {};

TEST_F(Sha256Test, OfPiecesIsOfTheWhole) {
  Sha256 sha;
  EXPECT_EQ(sha.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  sha.update("a", 1);
  sha.update("bc", 2);
  EXPECT_EQ(sha.hex(), kOfAbc);
}

TEST_F(Sha256Test, OfAFile) {
  write(folder_ / "abc", "abc");
  EXPECT_EQ(sha256_file(folder_ / "abc"), kOfAbc);
  write(folder_ / "a", std::string(1'000'000, 'a'));
  EXPECT_EQ(sha256_file(folder_ / "a"), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(Sha256Test, UnreadableFileThrows) {
  EXPECT_THROW(sha256_file(folder_ / "none"), UserError);
  EXPECT_THROW(sha256_file(folder_), UserError);
}

}  // namespace
}  // namespace ddprun
