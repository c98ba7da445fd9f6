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
  let dependentDialects = ["::mlir::shard::ShardDialect"];
}

class FSDP_Op<string mnemonic, list<Trait> traits = []>
    : Op<FSDP_Dialect, mnemonic, traits>;

#endif // FSDP_BASE_TD
