// Tests what a run that is asked to end does with the signal.
#include "train/StopRequest.h"

#include <atomic>
#include <csignal>
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>

using namespace fsdp;

static bool endsBySigterm() {
  struct sigaction action;
  return sigaction(SIGTERM, nullptr, &action) == 0 &&
         action.sa_handler == SIG_DFL;
}

TEST(StopRequest, IsRemembered) {
  {
    StopRequest stop;
    EXPECT_EQ(StopRequest::received(), 0);
    raise(SIGTERM);
    EXPECT_EQ(StopRequest::received(), SIGTERM);
  }
  EXPECT_TRUE(endsBySigterm());
}

/// Ranks may be threads, of which any one may get the signal.
TEST(StopRequest, AllThreadsSeeIt) {
  StopRequest stop;
  std::atomic<int> seen{0};
  std::thread rank([&] {
    while (!seen)
      seen = StopRequest::received();
  });
  raise(SIGTERM);
  rank.join();
  EXPECT_EQ(seen, SIGTERM);
}

TEST(StopRequest, ARunThatFailsIsNotEndedBeforeItHasSaidWhy) {
  try {
    StopRequest stop;
    throw std::runtime_error("another rank is gone");
  } catch (const std::runtime_error &) {
    ASSERT_FALSE(endsBySigterm());
    raise(SIGTERM);
  }
  { StopRequest another; }
  EXPECT_TRUE(endsBySigterm());
}
