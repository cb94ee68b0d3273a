// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/weight_sources.hpp"

#include "host/error/assert.hpp"
#include "host/train/weights/converted_source.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tenon {

// Slices along the first axis, one after the other.
class WeightSources::Stack final : public TensorSource {
 public:
  Stack(at::ScalarType dtype, const std::vector<int64_t>& shape)
      : TensorSource(dtype, shape), slices_(static_cast<size_t>(shape.front())) {}

  void set(int64_t index, std::shared_ptr<const TensorSource> slice) {
    slices_[static_cast<size_t>(index)] = std::move(slice);
  }

  void read(int64_t first, const at::Tensor& out) const override {
    const at::Tensor flat = out.view(-1);
    const int64_t in_slice = numel() / static_cast<int64_t>(slices_.size());
    for (int64_t done = 0; done < flat.numel();) {
      const int64_t at = first + done;
      const auto& slice = slices_[static_cast<size_t>(at / in_slice)];
      TENON_ASSERT(slice != nullptr, "a weight is read only if all of its slices are there");
      const int64_t n = std::min(in_slice - at % in_slice, flat.numel() - done);
      slice->read(at % in_slice, flat.narrow(0, done, n));
      done += n;
    }
  }

 private:
  std::vector<std::shared_ptr<const TensorSource>> slices_;
};

void WeightSources::add(const Weight& weight,
                        const MappedWeight& part,
                        at::ScalarType dtype,
                        std::shared_ptr<const TensorSource> from,
                        int64_t first_element) {
  auto source = std::make_shared<ConvertedSource>(
      dtype, shape_of_part(weight, part), std::move(from), first_element, part.is_transposed);
  if (!part.is_slice()) {
    by_entry_[weight.entry] = std::move(source);
    return;
  }
  std::shared_ptr<Stack>& stack = stacks_[weight.entry];
  if (stack == nullptr) {
    stack = std::make_shared<Stack>(dtype, weight.shape);
    by_entry_[weight.entry] = stack;
  }
  stack->set(part.slice, std::move(source));
}

void ParameterSource::add(const Weight& weight,
                          const MappedWeight& part,
                          std::shared_ptr<const TensorSource> from,
                          int64_t first_element) {
  TENON_ASSERT(takes(weight), "only weights of the parameter are added");
  sources_.add(weight, part, dtype_, std::move(from), first_element);
}

at::Tensor ParameterSource::whole() const {
  const auto& sources = sources_.by_entry();
  return sources.empty() ? at::Tensor() : sources.begin()->second->whole();
}

}  // namespace tenon
