#include "doctor/Collectives.h"

#include "plan/Collectives.h"

#include <algorithm>
#include <chrono>

namespace fsdp::doctor {

namespace {

using Clock = std::chrono::steady_clock;

constexpr plan::CollectiveKind kinds[] = {
    plan::CollectiveKind::AllGather, plan::CollectiveKind::ReduceScatter,
    plan::CollectiveKind::AllReduce, plan::CollectiveKind::AllToAll};
// A packet's worth, and what units are like; of many ranks less.
constexpr size_t smallPiece = 1, largePiece = 1 << 20, mostFloats = 1 << 24;
constexpr int repeats = 3, smallRepeats = 20;

size_t largePieceOf(uint32_t ranks) {
  return std::min(largePiece, mostFloats / ranks);
}

double secondsOf(const Carry &carry, const Transfer &transfer, int times) {
  carry(transfer); // the first one connects
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    auto begin = Clock::now();
    carry(transfer);
    seconds.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  return seconds[times / 2];
}

} // namespace

size_t floatsToMeasure(uint32_t ranks) { return largePieceOf(ranks) * ranks; }

void measureCollectives(const Carry &carry, float *send, float *receive,
                        uint32_t ranks, TransportFigures &figures) {
  auto transferOf = [&](plan::CollectiveKind kind, size_t piece) {
    // An all-reduce is of all pieces, as a reduction and a gather together.
    bool ofAll = kind == plan::CollectiveKind::AllReduce && piece > smallPiece;
    Transfer transfer{kind, send, receive, ofAll ? piece * ranks : piece,
                      plan::DType::Float32};
    transfer.name = plan::infoOf(kind).name;
    return transfer;
  };
  figures.latency =
      secondsOf(carry, transferOf(plan::CollectiveKind::AllReduce, smallPiece),
                smallRepeats);
  figures.reached = smallPiece * sizeof(float);
  size_t piece = largePieceOf(ranks);
  for (plan::CollectiveKind kind : kinds) {
    double seconds = secondsOf(carry, transferOf(kind, piece), repeats);
    const plan::CollectiveInfo &info = plan::infoOf(kind);
    double bytes = double(info.rounds) * (ranks - 1) * piece * sizeof(float);
    figures.bandwidths.push_back({info.name, bytes / seconds});
    figures.reached = piece * sizeof(float);
  }
}

} // namespace fsdp::doctor
