// Tests what messages of libraries, and names of strangers, become.
#include "plan/FormatText.h"

#include <gtest/gtest.h>

using namespace fsdp;

TEST(FirstLine, IsTheFirstThatIsNotEmpty) {
  EXPECT_EQ(firstLine("one"), "one");
  EXPECT_EQ(firstLine("\n\none\ntwo"), "one"); // as PyTorch's may begin
  EXPECT_EQ(firstLine("\n"), "");
  EXPECT_EQ(firstLine(""), "");
}

TEST(Visible, WritesWhatATerminalWouldObey) {
  EXPECT_EQ(visible("two\n\tlines, \xc3\xa9"), "two\n\tlines, \xc3\xa9");
  EXPECT_EQ(visible("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
}
