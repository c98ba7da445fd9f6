#include "data/BatchRing.h"

#include "Error.h"
#include "plan/AlignUp.h"
#include "plan/FormatText.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace fsdp {

namespace {

struct Header {
  char magic[8];
  uint64_t version;
  uint64_t slots, slotBytes, slotsBegin;
  uint64_t textBegin, textBytes;
  uint64_t errorBegin, errorCapacity;
  int64_t startEpoch, startBatch;
  // What follows is the loader's.
  int64_t batches;
  uint64_t errorBytes;
  // The rank's again: of the state in the first slot, to start with.
  uint64_t startStateBytes;
  // And the loader's.
  int64_t answers;
};

struct SlotHeader {
  uint64_t number; // from 1
  int64_t epoch, batch;
  int64_t nanColumn, nanSample;
  uint64_t stateBytes, variant;
  int64_t nanWorker, nanSampleOfData;
};

constexpr char magic[9] = "FSDPRING";
constexpr uint64_t version = 3, stateCapacity = 1 << 20, alignment = 64,
                   slotHeaderBytes = 128, errorCapacity = 1 << 16,
                   pageBytes = 4096;

} // namespace

BatchRing::BatchRing(const std::vector<std::vector<Column>> &variants,
                     const Reader &reader)
    : variants(variants.size()) {
  nlohmann::ordered_json text;
  text["rank"] = reader.rank;
  text["ranks"] = reader.ranks;
  text["seed"] = reader.seed;
  slotBytes = slotHeaderBytes;
  for (size_t c = 0; c < variants[0].size(); ++c) {
    const Column &column = variants[0][c];
    offsets.push_back(slotBytes);
    int64_t elements = 0;
    std::vector<std::vector<int64_t>> shapes;
    for (const std::vector<Column> &variant : variants) {
      shapes.push_back(variant[c].shape);
      elements = std::max(elements, *plan::numElements(shapes.back()));
    }
    uint64_t bytes = elements * plan::dtypeBytes(column.dtype);
    text["columns"].push_back({{"name", column.name},
                               {"dtype", plan::dtypeName(column.dtype)},
                               {"shapes", shapes},
                               {"offset", slotBytes},
                               {"bytes", bytes}});
    slotBytes = alignUp(slotBytes + bytes, alignment);
  }
  if (reader.keepsStates) {
    stateBegin = slotBytes;
    slotBytes += stateCapacity;
    text["state"] = {{"offset", stateBegin}, {"bytes", stateCapacity}};
  }
  slotBytes = alignUp(slotBytes, pageBytes);
  std::string json = text.dump();
  Header header{};
  std::memcpy(header.magic, magic, sizeof(header.magic));
  header.version = version;
  header.slots = slots;
  header.slotBytes = slotBytes;
  header.textBegin = alignUp(sizeof(Header), alignment);
  header.textBytes = json.size();
  header.errorBegin = alignUp(header.textBegin + json.size(), alignment);
  header.errorCapacity = errorCapacity;
  slotsBegin = alignUp(header.errorBegin + errorCapacity, pageBytes);
  header.slotsBegin = slotsBegin;
  header.batches = INT64_MIN;
  memory = SharedSegment::create(slotsBegin + slots * slotBytes);
  std::memcpy(memory.data(), &header, sizeof(header));
  std::memcpy(memory.data() + header.textBegin, json.data(), json.size());
}

static Header headerOf(const SharedSegment &memory) {
  Header header;
  std::memcpy(&header, memory.data(), sizeof(header));
  return header;
}

int BatchRing::descriptor() const {
  return static_cast<int>(memory.address().descriptor);
}

BatchRing::Extent BatchRing::extent() const {
  int64_t batches = headerOf(memory).batches;
  if (batches < -1)
    throw Error(E::Loader,
                "the loader does not say how many batches it has; write its "
                "number or -1 into the ring");
  if (batches == 0)
    throw Error(E::Loader,
                "the loader has no batch; give it more samples, or smaller "
                "batches");
  return {batches};
}

void BatchRing::start(int64_t epoch, int64_t batch, const std::string &state) {
  Header header = headerOf(memory);
  header.startEpoch = epoch;
  header.startBatch = batch;
  if (!state.empty()) {
    if (!stateBegin || state.size() > stateCapacity)
      throw Error(E::Loader, "the loader's state in the checkpoint has " +
                                 std::to_string(state.size()) +
                                 " bytes, for which the ring has no room");
    header.startStateBytes = state.size();
    state.copy(slot(0) + stateBegin, state.size());
  }
  std::memcpy(memory.data(), &header, sizeof(header));
}

char *BatchRing::slot(uint64_t count) const {
  return memory.data() + slotsBegin + count % slots * slotBytes;
}

BatchRing::Batch BatchRing::at(uint64_t count) const {
  SlotHeader header;
  std::memcpy(&header, slot(count), sizeof(header));
  if (header.number != count + 1)
    throw Error(E::Loader,
                "the loader filled slot " + std::to_string(header.number) +
                    " of its ring where " + std::to_string(count + 1) +
                    " was due; one process alone may feed a rank");
  if (header.variant >= variants)
    throw Error(E::Loader, "the loader filled a slot with shapes of number " +
                               std::to_string(header.variant) +
                               ", and there are " + std::to_string(variants));
  int64_t columns = static_cast<int64_t>(offsets.size());
  bool isNaN = header.nanColumn >= 0 && header.nanColumn < columns;
  std::string state;
  if (stateBegin)
    state.assign(slot(count) + stateBegin,
                 std::min(header.stateBytes, stateCapacity));
  return {header.epoch,     header.batch,     isNaN ? header.nanColumn : -1,
          header.nanSample, header.nanWorker, header.nanSampleOfData,
          header.variant,   std::move(state)};
}

const char *BatchRing::column(uint64_t count, size_t column) const {
  return slot(count) + offsets[column];
}

int64_t BatchRing::answers() const { return headerOf(memory).answers; }

std::string BatchRing::problem() const {
  Header header = headerOf(memory);
  // The loader may have written anything.
  uint64_t bytes = std::min(header.errorBytes, errorCapacity);
  uint64_t at = std::min(header.errorBegin, slotsBegin - errorCapacity);
  return firstLine(std::string(memory.data() + at, bytes));
}

} // namespace fsdp
