// How much work an operator does.

#include "fsdp/Dialect/Aten/Work.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;

static std::vector<cost::TensorShape> getShapes(TypeRange types) {
  std::vector<cost::TensorShape> shapes;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type)) {
      ArrayRef<int64_t> shape = tensor.getShape();
      // What no plan can hold counts a byte per element.
      plan::DType dtype =
          aten::getDType(tensor.getElementType()).value_or(plan::DType::UInt8);
      shapes.push_back({dtype, shape.data(), shape.size()});
    }
  return shapes;
}

cost::Work aten::getWork(StringRef callee, TypeRange operands,
                         TypeRange results) {
  return cost::workOf(callee, getShapes(operands), getShapes(results));
}
