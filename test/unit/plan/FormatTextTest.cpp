// Tests what messages of libraries become.
#include "plan/FormatText.h"

#include <gtest/gtest.h>

using namespace fsdp;

TEST(FirstLine, IsTheFirstThatIsNotEmpty) {
  EXPECT_EQ(firstLine("one"), "one");
  EXPECT_EQ(firstLine("\n\none\ntwo"), "one"); // as PyTorch's may begin
  EXPECT_EQ(firstLine("\n"), "");
  EXPECT_EQ(firstLine(""), "");
}
