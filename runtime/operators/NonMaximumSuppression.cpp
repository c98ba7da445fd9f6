// Which boxes of a detector are left where several of one class are nearly the
// same: those with the best scores, as torchvision's batched_nms finds them.

#include "operators/Operators.h"

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <vector>

namespace fsdp {

namespace {

/// Of so many coordinates torchvision compares boxes class by class, and of
/// fewer all together, those of each class shifted so far that they meet no
/// others. The shift rounds, so that it decides some last bits.
constexpr int64_t kMostShifted = 4000;

template <typename T> class Boxes {
public:
  Boxes(const at::Tensor &boxes, const at::Tensor &classes, int64_t count)
      : count(count), isShifted(4 * count <= kMostShifted),
        corners(boxes.const_data_ptr<T>(),
                boxes.const_data_ptr<T>() + 4 * count),
        classes(classes.const_data_ptr<int64_t>(),
                classes.const_data_ptr<int64_t>() + count),
        areas(count) {
    if (isShifted && count > 0)
      shift();
    for (int64_t box = 0; box < count; ++box)
      areas[box] = (at(box, 2) - at(box, 0)) * (at(box, 3) - at(box, 1));
  }

  /// Whether `box` covers too much of `other`, or is covered by it.
  bool suppresses(int64_t box, int64_t other, double threshold) const {
    if (!isShifted && classes[box] != classes[other])
      return false;
    T width =
        std::min(at(box, 2), at(other, 2)) - std::max(at(box, 0), at(other, 0));
    T height =
        std::min(at(box, 3), at(other, 3)) - std::max(at(box, 1), at(other, 1));
    T common = std::max(T(0), width) * std::max(T(0), height);
    return common / (areas[box] + areas[other] - common) > threshold;
  }

private:
  T at(int64_t box, int64_t corner) const { return corners[4 * box + corner]; }

  void shift() {
    T step = *std::max_element(corners.begin(), corners.end()) + T(1);
    for (int64_t box = 0; box < count; ++box)
      for (int64_t corner = 0; corner < 4; ++corner)
        corners[4 * box + corner] += T(classes[box]) * step;
  }

  int64_t count;
  bool isShifted;
  std::vector<T> corners;
  std::vector<int64_t> classes;
  std::vector<T> areas;
};

/// Orders places as torchvision does where it compares class by class: by
/// PyTorch's other sort, which orders equal scores in its own way.
void sortAgain(const at::Tensor &places, const at::Tensor &scores) {
  at::Tensor inOrder = std::get<0>(places.sort());
  at::Tensor order = std::get<1>(
      scores.index_select(0, inOrder).sort(/*dim=*/0, /*descending=*/true));
  places.copy_(inOrder.index_select(0, order));
}

} // namespace

std::tuple<at::Tensor, at::Tensor>
batchedNms(const at::Tensor &boxes, const at::Tensor &scores,
           const at::Tensor &classes, const std::optional<at::Tensor> &count,
           double threshold) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && scores.dim() == 1 &&
                  classes.dim() == 1 && scores.size(0) == boxes.size(0) &&
                  classes.size(0) == boxes.size(0),
              "batched_nms: expected boxes [n, 4], and n scores and classes");
  int64_t length = boxes.size(0);
  int64_t counted = length;
  if (count) {
    TORCH_CHECK(count->numel() == 1, "batched_nms: expected one count");
    counted = std::clamp<int64_t>(count->item().toLong(), 0, length);
  }
  at::Tensor places = at::zeros({length}, at::kLong);
  auto *place = places.mutable_data_ptr<int64_t>();
  int64_t kept = 0;
  at::Tensor sorted =
      std::get<1>(scores.slice(0, 0, counted)
                      .sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  const auto *order = sorted.const_data_ptr<int64_t>();
  at::Tensor corners = boxes.contiguous();
  at::Tensor numbers = classes.to(at::kLong).contiguous();
  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "batched_nms", [&] {
    Boxes<scalar_t> of(corners, numbers, counted);
    std::vector<bool> isSuppressed(counted);
    for (int64_t i = 0; i < counted; ++i) {
      if (isSuppressed[order[i]])
        continue;
      place[kept++] = order[i];
      for (int64_t j = i + 1; j < counted; ++j)
        if (!isSuppressed[order[j]] &&
            of.suppresses(order[i], order[j], threshold))
          isSuppressed[order[j]] = true;
    }
  });
  if (4 * counted > kMostShifted)
    sortAgain(places.slice(0, 0, kept), scores);
  return {places, at::lt(at::arange(length, at::kLong), kept)};
}

} // namespace fsdp
