// Tests that what listens for the ranks listens on the address given, alone.
#include "launch/ListeningSocket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

using namespace fsdp;

TEST(ListeningSocket, IsOfTheAddressGiven) {
  auto listening = listenAt("127.0.0.1", /*port=*/0);
  ASSERT_TRUE(listening);
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(*listening, reinterpret_cast<sockaddr *>(&address), &size);
  EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
  // The port is taken now.
  EXPECT_FALSE(listenAt("127.0.0.1", ntohs(address.sin_port)));
  close(*listening);
}

TEST(ListeningSocket, NeedsAnAddressOfThisHost) {
  // An address for documentation, which no host has (RFC 5737).
  EXPECT_FALSE(listenAt("192.0.2.1", /*port=*/0));
  EXPECT_FALSE(listenAt("no such host", /*port=*/0));
}
