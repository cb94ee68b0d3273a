// SPDX-License-Identifier: Apache-2.0

#include "host/checkpoint/checkpoint_difference.hpp"

#include "host/tensor/state/tensor_source.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <variant>

namespace tenon {
namespace {

constexpr int64_t kComparedAtOnce = int64_t{1} << 20;  // elements compared at a time
constexpr char kSeconds[] = "run/seconds";

std::string type_text(const StoredTensor& tensor) {
  std::string text = tensor.dtype + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

std::string number_text(const StoredNumber& number) {
  std::ostringstream text;
  text.precision(17);
  std::visit([&text](auto value) { text << value; }, number.value);
  return text.str();
}

bool have_equal_sums(const StoredTensor& a, const StoredTensor& b) {
  return std::ranges::equal(
      a.pieces, b.pieces, [](const StoredPiece& one, const StoredPiece& other) {
        return one.box == other.box && one.first == other.first && one.numel == other.numel &&
               one.xxh3 == other.xxh3;
      });
}

// Describes the differences between two tensors; "" if all bits are equal.
std::string elements_text(const TensorSource& a, const TensorSource& b) {
  int64_t num_different = 0;
  double largest = 0;
  bool has_nan = false;
  bool is_equal = true;
  for (int64_t first = 0; first < a.numel(); first += kComparedAtOnce) {
    const int64_t size = std::min(kComparedAtOnce, a.numel() - first);
    const at::Tensor of_a = at::empty({size}, a.dtype());
    const at::Tensor of_b = at::empty({size}, b.dtype());
    a.read(first, of_a);
    b.read(first, of_b);
    if (std::memcmp(of_a.const_data_ptr(), of_b.const_data_ptr(), of_a.nbytes()) == 0) {
      continue;
    }
    is_equal = false;
    const at::Tensor one = of_a.to(at::kDouble);
    const at::Tensor other = of_b.to(at::kDouble);
    num_different += at::ne(of_a, of_b).sum().item<int64_t>();
    const at::Tensor apart = at::abs(at::sub(one, other));
    const at::Tensor no_number = at::isnan(apart);
    has_nan = has_nan || no_number.any().item<bool>();
    largest = std::max(largest, apart.masked_fill(no_number, 0).max().item<double>());
  }
  if (is_equal) {
    return "";
  }
  if (num_different == 0) {
    return "equal values, different bits";  // 0 and -0
  }
  std::ostringstream text;
  text << num_different << " of " << a.numel() << " elements differ, by at most " << largest
       << (has_nan ? ", ignoring NaN" : "");
  return text.str();
}

// The entries of one checkpoint that are compared: shared entries, or those of one rank.
struct Side {
  const StoredEntries& entries;
  const StateTree& tree;
};

std::string tensor_text(const std::string& name, const Side& a, const Side& b) {
  const StoredTensor& of_a = a.entries.tensors.at(name);
  const StoredTensor& of_b = b.entries.tensors.at(name);
  if (of_a.dtype != of_b.dtype || of_a.shape != of_b.shape) {
    return type_text(of_a) + " and " + type_text(of_b);
  }
  if (have_equal_sums(of_a, of_b)) {
    return "";
  }
  const auto& value_a = a.tree.entries().at(name).value;
  const auto& value_b = b.tree.entries().at(name).value;
  using Source = std::shared_ptr<const TensorSource>;
  const auto* const source_a = std::get_if<Source>(&value_a);
  const auto* const source_b = std::get_if<Source>(&value_b);
  if (source_a == nullptr || source_b == nullptr) {
    const bool is_equal = std::get<std::string>(value_a) == std::get<std::string>(value_b);
    return is_equal ? "" : formatted("the bytes differ ({} bytes)", of_a.shape.at(0));
  }
  return elements_text(**source_a, **source_b);
}

void compare(const Side& a, const Side& b, const std::string& prefix, CheckpointDifference& found) {
  const auto add = [&](const std::string& name, std::string what) {
    if (what.empty()) {
      ++found.num_equal;
    } else {
      found.entries.push_back({prefix + name, std::move(what)});
    }
  };
  std::set<std::string> names;
  for (const Side* const side : {&a, &b}) {
    for (const auto& [name, tensor] : side->entries.tensors) {
      names.insert(name);
    }
    for (const auto& [name, number] : side->entries.numbers) {
      names.insert(name);
    }
  }
  names.erase(kSeconds);
  for (const std::string& name : names) {
    const auto tensor_a = a.entries.tensors.find(name);
    const auto tensor_b = b.entries.tensors.find(name);
    const auto number_a = a.entries.numbers.find(name);
    const auto number_b = b.entries.numbers.find(name);
    const bool is_tensor_a = tensor_a != a.entries.tensors.end();
    const bool is_tensor_b = tensor_b != b.entries.tensors.end();
    const bool is_in_a = is_tensor_a || number_a != a.entries.numbers.end();
    const bool is_in_b = is_tensor_b || number_b != b.entries.numbers.end();
    if (!is_in_a || !is_in_b) {
      add(name, is_in_a ? "only in the first" : "only in the second");
    } else if (is_tensor_a != is_tensor_b) {
      add(name, is_tensor_a ? "a tensor and a number" : "a number and a tensor");
    } else if (is_tensor_a) {
      add(name, tensor_text(name, a, b));
    } else {
      const std::string text_a = number_text(number_a->second);
      const std::string text_b = number_text(number_b->second);
      add(name, text_a == text_b ? "" : text_a + " and " + text_b);
    }
  }
}

}  // namespace

CheckpointDifference compare_checkpoints(const CheckpointReader& a, const CheckpointReader& b) {
  CheckpointDifference found;
  const auto num_a = static_cast<uint32_t>(a.index().num_ranks());
  const auto num_b = static_cast<uint32_t>(b.index().num_ranks());
  const StateTree first_a = a.state(0, num_a, nullptr);
  const StateTree first_b = b.state(0, num_b, nullptr);
  compare({a.index().shared, first_a}, {b.index().shared, first_b}, "", found);
  if (num_a != num_b) {
    return found;  // entries of a rank cannot be compared across world sizes
  }
  for (uint32_t rank = 0; rank < num_a; ++rank) {
    const StateTree tree_a = a.state(rank, num_a, nullptr);
    const StateTree tree_b = b.state(rank, num_b, nullptr);
    compare({a.index().by_rank.at(rank), tree_a},
            {b.index().by_rank.at(rank), tree_b},
            num_a > 1 ? formatted("rank {}: ", rank) : "",
            found);
  }
  return found;
}

}  // namespace tenon
