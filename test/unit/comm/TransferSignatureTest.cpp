// Tests that what ranks tell each other of a transfer says all of it.
#include "comm/TransferSignature.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

using namespace fsdp;

TEST(TransferSignature, IsTheSameBehindPacking) {
  std::vector<TransferSignature> all;
  for (auto kind : plan::EnumValuesCollectiveKind())
    for (auto op : plan::EnumValuesReduceOp())
      for (auto dtype : plan::EnumValuesDType())
        for (size_t count : {size_t{0}, size_t{1}, (size_t{1} << 40) - 1})
          for (double divisor :
               {1.0, -0.0, 0.0, 3.0, std::numeric_limits<double>::quiet_NaN()})
            all.push_back(TransferSignature::of(
                {kind, nullptr, nullptr, count, dtype, divisor, 0, false, op}));
  std::set<TransferSignature::Packed> packed;
  for (const TransferSignature &signature : all) {
    EXPECT_TRUE(TransferSignature::unpack(signature.pack()) == signature)
        << signature.str();
    packed.insert(signature.pack());
  }
  EXPECT_EQ(packed.size(), all.size());
}
