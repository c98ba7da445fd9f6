// The fsdp dialect: state that persists between steps, its sharding, the
// schedule of collectives, and the closed set of commands a rank executes.

#ifndef FSDP_BASE_TD
#define FSDP_BASE_TD

include "mlir/IR/OpBase.td"

def FSDP_Dialect : Dialect {
  let name = "fsdp";
  let cppNamespace = "::fsdp";
  let summary = "Fully sharded training steps, from capture to commands";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::shard::ShardDialect"];
}

class FSDP_Op<string mnemonic, list<Trait> traits = []>
    : Op<FSDP_Dialect, mnemonic, traits>;

class FSDP_CountOr<string value>
    : DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, value>;
/// Axes of the mesh that are neighbours, in their order: the ranks along them
/// are those along one axis, their product.
def FSDP_MeshAxes
    : DefaultValuedAttr<
          ConfinedAttr<DenseI64ArrayAttr,
                       [AttrConstraint<
                            CPred<"::fsdp::areNeighbours(::llvm::cast<::mlir::DenseI64ArrayAttr>($_self))">,
                            "axes of the mesh that are neighbours, in order">]>,
          "{0}">;
def FSDP_Count : ConfinedAttr<I64Attr, [IntNonNegative]>;

/// A tensor that can be memory: its shape is static, and its bytes can be
/// counted.
def FSDP_Tensor
    : Type<And<[IsRankedTensorTypePred, CPred<"::fsdp::isMemory($_self)">]>,
           "tensor of a static shape and of at most 2^62 bytes",
           "::mlir::RankedTensorType">;

/// A tensor of one floating-point number.
def FSDP_Scalar : 0DTensorOf<[AnyFloat]>;

/// What a sum over ranks is divided by, once; 1 divides by nothing.
def FSDP_Divisor : DefaultValuedAttr<F64Attr, "1.0">;

#endif // FSDP_BASE_TD
