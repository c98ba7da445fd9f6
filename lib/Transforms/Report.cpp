// fsdp-report.

#include "HostReads.h"
#include "PassOptions.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Analysis/RematRegions.h"
#include "fsdp/Analysis/Timeline.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ToolOutputFile.h"

#include <map>

namespace fsdp {
#define GEN_PASS_DEF_REPORT
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// The collectives of one unit in one program. Bytes are whole tensors or
/// buckets, all ranks' pieces: what a gather gives and a reduction takes.
struct Traffic {
  int64_t gathersForward = 0, gathersBackward = 0, reductions = 0;
  int64_t gatherBytes = 0, reductionBytes = 0;
  int64_t allReduces = 0, allReduceBytes = 0;

  void add(const Traffic &other) {
    gathersForward += other.gathersForward;
    gathersBackward += other.gathersBackward;
    reductions += other.reductions;
    gatherBytes += other.gatherBytes;
    reductionBytes += other.reductionBytes;
    allReduces += other.allReduces;
    allReduceBytes += other.allReduceBytes;
  }
};

/// What one program does, and how long it is predicted to take.
struct ProgramFigures {
  llvm::MapVector<StringRef, Traffic> units; // in the order of the module
  Timeline timeline;
  int64_t recomputedOps = 0; // by backward
  double recomputedSeconds = 0;
  std::map<int64_t, int64_t> liveBytes; // by arena, where places are known
  SmallVector<std::string> hostReads;   // what keeps it out of a CUDA graph
};

struct Figures {
  std::string cluster;
  int64_t ranks = 1;
  int64_t parameters = 0;        // tensors
  int64_t parameterBytes = 0;    // whole
  int64_t stateBytesPerRank = 0; // parameters, optimizer state, buffers
  llvm::MapVector<StringRef, ProgramFigures> programs;
  std::map<int64_t, int64_t> arenas; // bytes, where places are known
};

/// Counts a collective in the traffic of its unit; one of no unit, as a norm's,
/// with the root.
void count(CollectiveOpInterface op,
           llvm::MapVector<StringRef, Traffic> &units) {
  StringAttr unit = op.getUnitAttr();
  Traffic &traffic = units[unit ? unit.getValue() : ""];
  int64_t bytes = getTensorBytes(op.getWholeType());
  if (op.getRole() == CollectiveRole::Parameter) {
    // Those of updates follow backward's.
    ++(op.getRegion() == ProgramRegion::Forward ? traffic.gathersForward
                                                : traffic.gathersBackward);
    traffic.gatherBytes += bytes;
  } else if (op.getKind() == CollectiveKind::ReduceScatter) {
    ++traffic.reductions;
    traffic.reductionBytes += bytes;
  } else {
    ++traffic.allReduces;
    traffic.allReduceBytes += bytes;
  }
}

/// Whether backward repeats what forward computed by this op.
bool isRecomputed(Operation *op) {
  if (auto call = dyn_cast<aten::CallOp>(op))
    return bool(call.getRecomputeAttr());
  auto command = dyn_cast<CmdAtenOp>(op);
  return command && command.getRecomputeAttr();
}

Figures collect(ModuleOp module, const cost::Cluster &cluster) {
  Figures figures;
  figures.cluster = cluster.name;
  figures.ranks = Mesh(module).getNumRanks();
  for (StateOp state : module.getOps<StateOp>()) {
    if (!state.getFlat())
      figures.stateBytesPerRank += getTensorBytes(state.getTensorType());
    if (state.getRole() == Role::Parameter && !state.getIsFlat()) {
      ++figures.parameters;
      figures.parameterBytes += getTensorBytes(state.getGlobalType());
    }
  }
  OpCost cost(module, cluster);
  for (func::FuncOp program : getPrograms(module)) {
    ProgramFigures &of = figures.programs[program.getSymName()];
    for (UnitOp unit : module.getOps<UnitOp>())
      of.units.try_emplace(unit.getUnitName());
    program.walk([&](Operation *op) {
      if (auto collective = dyn_cast<CollectiveOpInterface>(op);
          collective && isMemory(collective.getSourceType()) &&
          isMemory(collective.getDestinationType()))
        count(collective, of.units);
      if (std::string read = describeHostRead(op); !read.empty())
        of.hostReads.push_back(std::move(read));
      if (isRecomputed(op)) {
        ++of.recomputedOps;
        of.recomputedSeconds += cost.getSeconds(op);
      }
    });
    of.timeline = Timeline::compute(program, cost);
    for (auto [arena, attribute] : {std::pair(kDeviceArena, kLiveBytesAttr),
                                    std::pair(kHostArena, kHostLiveBytesAttr)})
      if (IntegerAttr bytes = attribute.get(program))
        of.liveBytes[arena] = bytes.getInt();
  }
  if (auto arenas = kArenasAttr.get(module))
    for (auto [index, bytes] : llvm::enumerate(arenas.asArrayRef()))
      figures.arenas[index] = bytes;
  return figures;
}

StringRef getArenaName(int64_t arena) { return plan::arenaNames[arena]; }

void printPretty(Figures &figures, raw_ostream &os) {
  os << "ranks " << figures.ranks << ", parameters " << figures.parameters
     << ", parameter bytes " << figures.parameterBytes
     << ", state bytes per rank " << figures.stateBytesPerRank << "\n";
  auto row = [&](StringRef name, const Traffic &t) {
    os << llvm::formatv("  {0,-32} {1,8} {2,8} {3,14} {4,8} {5,14}\n", name,
                        t.gathersForward, t.gathersBackward, t.gatherBytes,
                        t.reductions, t.reductionBytes);
  };
  auto micros = [](double seconds) {
    return llvm::formatv("{0:F1} us", seconds * 1e6).str();
  };
  for (auto &[program, of] : figures.programs) {
    os << "program @" << program << "\n"
       << llvm::formatv("  {0,-32} {1,8} {2,8} {3,14} {4,8} {5,14}\n", "unit",
                        "forward", "backward", "gather bytes", "reduce",
                        "reduce bytes");
    Traffic total;
    for (auto &[unit, traffic] : of.units) {
      row(unit.empty() ? "(root)" : unit, traffic);
      total.add(traffic);
    }
    row("total", total);
    if (total.allReduces)
      os << "  all-reduces: " << total.allReduces << ", bytes "
         << total.allReduceBytes << "\n";
    os << "  predicted on " << figures.cluster << ": "
       << micros(of.timeline.getStepSeconds()) << ", communication "
       << micros(of.timeline.getCommunicationSeconds()) << ", of it exposed "
       << micros(of.timeline.getExposedSeconds()) << "\n";
    if (of.recomputedOps)
      os << "  recomputed: " << of.recomputedOps << " ops, "
         << micros(of.recomputedSeconds) << "\n";
    for (auto [arena, bytes] : of.liveBytes)
      os << "  most bytes in use"
         << (arena == kDeviceArena ? "" : " on the host") << ": " << bytes
         << "\n";
    for (const std::string &read : of.hostReads)
      os << "  not in a CUDA graph: " << read << "\n";
  }
  for (auto [arena, bytes] : figures.arenas)
    os << "arena " << arena << " (" << getArenaName(arena) << "): " << bytes
       << " bytes\n";
}

void printCsv(Figures &figures, raw_ostream &os) {
  os << "program,unit,gathers_forward,gathers_backward,gather_bytes,"
        "reduce_scatters,reduce_scatter_bytes,all_reduces,all_reduce_bytes\n";
  for (auto &[program, of] : figures.programs)
    for (auto &[unit, t] : of.units)
      os << program << "," << unit << "," << t.gathersForward << ","
         << t.gathersBackward << "," << t.gatherBytes << "," << t.reductions
         << "," << t.reductionBytes << "," << t.allReduces << ","
         << t.allReduceBytes << "\n";
}

void printJson(Figures &figures, raw_ostream &os) {
  llvm::json::OStream json(os, 2);
  auto traffic = [&](const Traffic &t) {
    json.attribute("gathers_forward", t.gathersForward);
    json.attribute("gathers_backward", t.gathersBackward);
    json.attribute("gather_bytes", t.gatherBytes);
    json.attribute("reduce_scatters", t.reductions);
    json.attribute("reduce_scatter_bytes", t.reductionBytes);
    json.attribute("all_reduces", t.allReduces);
    json.attribute("all_reduce_bytes", t.allReduceBytes);
  };
  json.object([&] {
    json.attribute("cluster", figures.cluster);
    json.attribute("ranks", figures.ranks);
    json.attribute("parameters", figures.parameters);
    json.attribute("parameter_bytes", figures.parameterBytes);
    json.attribute("state_bytes_per_rank", figures.stateBytesPerRank);
    json.attributeObject("programs", [&] {
      for (auto &[program, of] : figures.programs) {
        Traffic total;
        json.attributeObject(program, [&, &of = of] {
          json.attributeArray("units", [&] {
            for (auto &[unit, t] : of.units) {
              total.add(t);
              json.object([&, &unit = unit, &t = t] {
                json.attribute("unit", unit);
                traffic(t);
              });
            }
          });
          traffic(total);
          json.attribute("predicted_seconds", of.timeline.getStepSeconds());
          json.attribute("communication_seconds",
                         of.timeline.getCommunicationSeconds());
          json.attribute("exposed_seconds", of.timeline.getExposedSeconds());
          json.attribute("recomputed_ops", of.recomputedOps);
          json.attribute("recomputed_seconds", of.recomputedSeconds);
          for (auto [arena, bytes] : of.liveBytes)
            json.attribute(arena == kDeviceArena ? "live_bytes"
                                                 : "host_live_bytes",
                           bytes);
          json.attributeArray("host_reads", [&] {
            for (const std::string &read : of.hostReads)
              json.value(read);
          });
        });
      }
    });
    json.attributeArray("arenas", [&] {
      for (auto [arena, bytes] : figures.arenas)
        json.object([&, arena = arena, bytes = bytes] {
          json.attribute("arena", arena);
          json.attribute("name", getArenaName(arena));
          json.attribute("bytes", bytes);
        });
    });
  });
  os << "\n";
}

class Report : public fsdp::impl::ReportBase<Report> {
public:
  using ReportBase::ReportBase;

  void runOnModule() override {
    markAllAnalysesPreserved();
    cost::Cluster hardware;
    if (failed(readOptions(getOperation(), [&] {
          hardware = readCluster(cluster, getOperation());
        })))
      return signalPassFailure();
    std::string why;
    std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(output, &why);
    if (!file) {
      getOperation().emitError() << "the report cannot be written: " << why;
      return signalPassFailure();
    }
    Figures figures = collect(getOperation(), hardware);
    switch (format) {
    case ReportFormat::Pretty:
      printPretty(figures, file->os());
      break;
    case ReportFormat::Csv:
      printCsv(figures, file->os());
      break;
    case ReportFormat::Json:
      printJson(figures, file->os());
      break;
    }
    file->keep();
  }
};

} // namespace
