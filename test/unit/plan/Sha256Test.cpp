// Tests that digests are those of FIPS 180-4: its examples, and lengths around
// the end of a block.
#include "plan/Sha256.h"

#include <gtest/gtest.h>

using fsdp::plan::sha256;
using fsdp::plan::toHex;

TEST(Sha256, GivesTheStandardsExamples) {
  EXPECT_EQ(toHex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb924"
                               "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(toHex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223"
                                  "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(toHex(sha256("abcdbcdecdefdefgefghfghighijhijk"
                         "ijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(toHex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

// One digest over the digests of 0 to 199 bytes stands for all of them.
TEST(Sha256, PadsEveryLength) {
  std::string digests;
  for (int length = 0; length < 200; ++length)
    digests += sha256(std::string(length, static_cast<char>(length)));
  EXPECT_EQ(toHex(sha256(digests)), "6f979b0f53f1f6efc88ce8829b3e9c0d"
                                    "7711e102a3cfe31394c5d6c3232047ad");
}
