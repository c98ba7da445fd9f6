// Tests that each error has an identifier, whoever throws it.

#include "ErrorKind.h"
#include "plan/PlanTypes.h"

#include <gtest/gtest.h>
#include <new>

using namespace fsdp;
using namespace fsdp::test;

TEST(Error, IsPrintedWithItsIdentifierBehindIt) {
  Error error(E::Flag, "there is no flag --step");
  EXPECT_STREQ(error.what(), "there is no flag --step");
  EXPECT_EQ(withIdentifier(error.what(), kindOf(error)),
            "there is no flag --step [FSDP-E0101]");
}

TEST(Error, OfALibraryIsUnexpected) {
  EXPECT_EQ(identifierThrownBy([] { throw std::runtime_error("no"); }),
            "FSDP-E0001");
  EXPECT_EQ(identifierThrownBy([] { throw std::bad_alloc(); }), "FSDP-E0002");
}

TEST(Error, KeepsItsKindInAClassOfItsOwn) {
  EXPECT_EQ(
      identifierThrownBy([] { throw plan::PlanError(E::PlanFile, "no"); }),
      "FSDP-E0501");
}

TEST(Error, IsExplainedByItsIdentifierInAnyCase) {
  std::string text = explainError("FSDP-E0101");
  EXPECT_EQ(text.find("FSDP-E0101: a flag does not exist"), 0u) << text;
  for (const char *same : {"e0101", "E101", "101", "fsdp-e101", "[FSDP-E0101]"})
    EXPECT_EQ(explainError(same), text);
  EXPECT_EQ(identifierThrownBy([] { explainError("E9999"); }), "FSDP-E0106");
}
