#include "drivers/cuda/NcclReduction.h"

#include <cstring>
#include <stdexcept>

namespace fsdp {

namespace {

constexpr ncclDataType_t none = ncclNumTypes;

struct Row {
  plan::DType dtype;
  ncclDataType_t sum, max;
  unsigned numbers;
};

constexpr Row rows[] = {
    {plan::DType::UInt8, ncclUint8, ncclUint8, 1},
    {plan::DType::Int8, ncclInt8, ncclInt8, 1},
    {plan::DType::Int32, ncclInt32, ncclInt32, 1},
    {plan::DType::Int64, ncclInt64, ncclInt64, 1},
    {plan::DType::Float16, ncclFloat16, none, 1},
    {plan::DType::BFloat16, ncclBfloat16, none, 1},
    {plan::DType::Float32, ncclFloat32, ncclUint32, 1},
    {plan::DType::Float64, ncclFloat64, ncclUint64, 1},
    {plan::DType::Complex64, ncclFloat32, none, 2},
    {plan::DType::Complex128, ncclFloat64, none, 2},
};

bool isInteger(ncclDataType_t type) { return type < ncclFloat16; }

} // namespace

NcclReduction reductionOf(plan::DType dtype, plan::ReduceOp op,
                          double divisor) {
  bool isMax = op == plan::ReduceOp::Max;
  for (const Row &row : rows) {
    ncclDataType_t type = isMax ? row.max : row.sum;
    if (row.dtype == dtype && type != none &&
        (divisor == 1 || (!isMax && !isInteger(type))))
      return {type, row.numbers, isMax ? ncclMax : ncclSum};
  }
  throw Error(
      E::Collective,
      "NCCL cannot " + std::string(isMax ? "find the maximum of " : "sum ") +
          plan::dtypeName(dtype) + (divisor == 1 ? "" : " and divide it") +
          "; convert it to float32 before");
}

std::array<char, 8> factorOf(ncclDataType_t type, double divisor) {
  auto bytesOf = [](auto number) {
    std::array<char, 8> bytes = {};
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
  };
  double factor = 1 / divisor;
  switch (type) {
  case ncclFloat16:
    return bytesOf(__float2half_rn(static_cast<float>(factor)));
  case ncclBfloat16:
    return bytesOf(__float2bfloat16_rn(static_cast<float>(factor)));
  case ncclFloat32:
    return bytesOf(static_cast<float>(factor));
  default:
    return bytesOf(factor);
  }
}

} // namespace fsdp
