// Tests that the table of dtypes can be read by each of its names, and that it
// says what numbers can do.
#include "plan/PlanTypes.h"

#include <gtest/gtest.h>
#include <set>

using namespace fsdp::plan;

TEST(DTypes, EachIsFoundByEachOfItsNames) {
  std::set<std::string> names;
  std::set<int> numbers;
  for (DType dtype : EnumValuesDType()) {
    const DTypeInfo *row = findDType(dtype);
    ASSERT_TRUE(row);
    SCOPED_TRACE(row->name);
    EXPECT_EQ(row->dtype, dtype);
    EXPECT_EQ(findDType(row->name), row);
    EXPECT_EQ(dtypeOfScalarType(row->scalarType), dtype);
    if (row->safetensors) {
      EXPECT_EQ(dtypeOfSafetensors(row->safetensors), dtype);
    }
    EXPECT_TRUE(names.insert(row->name).second);
    EXPECT_TRUE(numbers.insert(row->scalarType).second);
  }
  EXPECT_EQ(names, dtypeNames());
}

TEST(DTypes, WhatIsNoneIsNotFound) {
  auto none = static_cast<DType>(static_cast<int>(DType::MAX) + 1);
  EXPECT_EQ(findDType(none), nullptr);
  EXPECT_EQ(dtypeBytes(none), 0u);
  EXPECT_STREQ(dtypeName(none), "?");
  EXPECT_EQ(findDType("float"), nullptr);
  EXPECT_FALSE(dtypeOfSafetensors("F8"));
  EXPECT_FALSE(dtypeOfScalarType(8)); // complex numbers of two float16
}

TEST(DTypes, WhatIsStoredIsNotComputedWith) {
  EXPECT_EQ(floatingNames(), (std::set<std::string>{"float16", "bfloat16",
                                                    "float32", "float64"}));
  EXPECT_TRUE(hasNaN(DType::Float8E5M2));
  EXPECT_FALSE(hasNaN(DType::Int64));
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max}) {
    EXPECT_FALSE(isReducible(DType::Bool, op));
    EXPECT_FALSE(isReducible(DType::Float8E4M3FN, op));
    EXPECT_TRUE(isReducible(DType::Int16, op));
    EXPECT_TRUE(isReducible(DType::BFloat16, op));
    EXPECT_EQ(isReducible(DType::Complex64, op), op == ReduceOp::Sum);
  }
}
