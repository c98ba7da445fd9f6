// Tests that only those who know a run's secret read or write what its ranks
// say to each other.
#include "launch/SealedStore.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace fsdp;

namespace {

using Bytes = std::vector<uint8_t>;

/// `plain` is the store as a stranger sees it.
struct SealedStoreTest : testing::Test {
  c10::intrusive_ptr<c10d::Store> plain =
      c10::make_intrusive<c10d::HashStore>();
  c10::intrusive_ptr<c10d::Store> ours = sealStore(plain, "our common secret");
};

} // namespace

TEST_F(SealedStoreTest, RanksReadEachOther) {
  auto others = sealStore(plain, "our common secret")->clone();
  ours->set("hello", Bytes{1, 2, 3});
  ours->set("nothing", Bytes{});
  EXPECT_EQ(others->get("hello"), (Bytes{1, 2, 3}));
  EXPECT_EQ(others->get("nothing"), Bytes{});
}

TEST_F(SealedStoreTest, AStrangerReadsNothing) {
  ours->set("hello", std::string("from rank 1"));
  std::string seen = plain->get_to_str("hello");
  EXPECT_EQ(seen.find("rank"), std::string::npos);
  EXPECT_THROW(sealStore(plain, "another secret")->get("hello"), BrokenSeal);
}

TEST_F(SealedStoreTest, AStrangersWordsAreRefused) {
  plain->set("hello", std::string("from rank 1"));
  EXPECT_THROW(ours->get("hello"), BrokenSeal);
  ours->set("hello", std::string("from rank 1"));
  Bytes altered = plain->get("hello");
  for (uint8_t &byte : altered) {
    byte ^= 1;
    plain->set("hello", altered);
    EXPECT_THROW(ours->get("hello"), BrokenSeal);
    byte ^= 1;
  }
  altered.pop_back();
  plain->set("hello", altered);
  EXPECT_THROW(ours->get("hello"), BrokenSeal);
}

TEST_F(SealedStoreTest, AWordStaysAtItsKey) {
  ours->set("hello/1", std::string("from rank 1"));
  plain->set("hello/0", plain->get("hello/1"));
  EXPECT_THROW(ours->get("hello/0"), BrokenSeal);
}

TEST_F(SealedStoreTest, SeveralValuesAtOnceAreSealed) {
  ours->multiSet({"a", "b"}, {Bytes{1}, Bytes{2}});
  EXPECT_NE(plain->get("a"), Bytes{1});
  EXPECT_EQ(ours->multiGet({"a", "b"}), (std::vector<Bytes>{{1}, {2}}));
}
