// Tests that what a library throws says what to do.
#include "launch/ErrorReport.h"

#include <gtest/gtest.h>
#include <system_error>

using namespace fsdp;

TEST(ErrorReport, AThreadThatCannotBeStartedSaysWhatLimitsThem) {
  try {
    throw std::system_error( // as std::thread does
        std::make_error_code(std::errc::resource_unavailable_try_again));
  } catch (...) {
    RankError error = describeCurrentError();
    EXPECT_EQ(error.message.rfind("a thread cannot be started: ", 0), 0);
    EXPECT_NE(error.message.find("ulimit -u"), std::string::npos);
    EXPECT_EQ(error.kind, E::System);
  }
}
