// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/adamw_8bit.hpp"

#include "host/kernels/adamw_8bit_blocks.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tenon {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;
constexpr int64_t kElementsPerPass = 1 << 24;  // of temporary tensors

struct Settings {
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  int64_t block = 0;
  std::optional<at::Tensor> found_inf = {};
};

struct Piece {
  at::Tensor parameter;
  at::Tensor grad;
  at::Tensor mean_codes;
  at::Tensor mean_scales;
  at::Tensor square_codes;
  at::Tensor square_scales;
};

int64_t num_blocks(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}

void check_lists(size_t n, std::initializer_list<at::TensorList> lists, int64_t block) {
  for (const at::TensorList& list : lists) {
    TORCH_CHECK(list.size() == n,
                "tenon::adamw_8bit_: a list has ",
                list.size(),
                " tensors for ",
                n,
                " parameters");
  }
  TORCH_CHECK(block >= 1 && block <= kMostInBlock,
              "tenon::adamw_8bit_: `block` is ",
              block,
              " (expected 1 to ",
              kMostInBlock,
              ")");
}

void check(const Piece& piece, int64_t block) {
  const int64_t n = piece.parameter.numel();
  const auto expect = [&](std::string_view name, const at::Tensor& x, int64_t numel, auto dtype) {
    TORCH_CHECK(x.numel() == numel && x.scalar_type() == dtype && x.is_contiguous(),
                "tenon::adamw_8bit_: `",
                name,
                "` has ",
                x.numel(),
                " elements of ",
                x.scalar_type(),
                " (expected ",
                numel,
                " contiguous ones of ",
                dtype,
                ")");
  };
  expect("parameters", piece.parameter, n, piece.parameter.scalar_type());
  expect("grads", piece.grad, n, piece.parameter.scalar_type());
  expect("mean_codes", piece.mean_codes, n, at::kByte);
  expect("square_codes", piece.square_codes, n, at::kByte);
  expect("mean_scales", piece.mean_scales, num_blocks(n, block), at::kFloat);
  expect("square_scales", piece.square_scales, num_blocks(n, block), at::kFloat);
}

// ---- by kernels ----

bool has_kernels(const Piece& piece) {
  const at::ScalarType dtype = piece.parameter.scalar_type();
  return piece.parameter.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16);
}

void update_by_kernels(const Piece& piece, double step, double lr, const Settings& s) {
  const Adam8Numbers numbers{.mean_share = static_cast<float>(1 - s.beta1),
                             .square_share = static_cast<float>(1 - s.beta2),
                             .keep = static_cast<float>(1 - lr * s.weight_decay),
                             .rate = static_cast<float>(lr / (1 - std::pow(s.beta1, step))),
                             .root = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, step))),
                             .eps = static_cast<float>(s.eps)};
  const Adam8Piece at{.parameter = piece.parameter.mutable_data_ptr(),
                      .grad = piece.grad.const_data_ptr(),
                      .is_narrow = piece.parameter.scalar_type() == at::kBFloat16,
                      .mean_codes = piece.mean_codes.mutable_data_ptr<uint8_t>(),
                      .mean_scales = piece.mean_scales.mutable_data_ptr<float>(),
                      .square_codes = piece.square_codes.mutable_data_ptr<uint8_t>(),
                      .square_scales = piece.square_scales.mutable_data_ptr<float>(),
                      .n = piece.parameter.numel(),
                      .block = s.block};
  at::parallel_for(0,
                   num_blocks(at.n, at.block),
                   std::max<int64_t>(1, kElementsPerTask / at.block),
                   [&](int64_t begin, int64_t end) { adamw_8bit_blocks(at, numbers, begin, end); });
}

// ---- by operators ----

// Values of all codes, and the values between them at which rounding changes.
struct CodeTable {
  at::Tensor values;     // [256]
  at::Tensor midpoints;  // [255]
};

CodeTable table_of(Codes codes, const at::TensorOptions& options) {
  std::array<double, 256> values{};
  for (int c = 0; c < 256; ++c) {
    values[static_cast<size_t>(c)] = dynamic_value(codes, c);
  }
  const at::Tensor all =
      at::from_blob(values.data(), {256}, at::kDouble).to(options, /*non_blocking=*/false, true);
  return {all, (all.narrow(0, 0, 255) + all.narrow(0, 1, 255)) / 2};
}

at::Tensor in_blocks(const at::Tensor& x, int64_t block) {
  const int64_t rest = num_blocks(x.numel(), block) * block - x.numel();
  return (rest > 0 ? at::constant_pad_nd(x, {0, rest}) : x).view({-1, block});
}

at::Tensor read(const at::Tensor& codes,
                const at::Tensor& scales,
                const CodeTable& table,
                int64_t n) {
  const at::Tensor blocks = in_blocks(codes, n);
  return table.values.index_select(0, blocks.view({-1}).to(at::kInt)).view(blocks.sizes()) *
         scales.to(table.values.scalar_type()).unsqueeze(1);
}

void write(const at::Tensor& values,
           at::Tensor codes,
           at::Tensor scales,
           const CodeTable& table,
           const std::optional<at::Tensor>& found_inf) {
  const at::Tensor tops = values.abs().amax(1).clamp_min(kSmallestScale);
  const at::Tensor new_codes = at::bucketize(values / tops.unsqueeze(1),
                                             table.midpoints,
                                             /*out_int32=*/true,
                                             /*right=*/true)
                                   .view({-1})
                                   .narrow(0, 0, codes.numel())
                                   .to(at::kByte);
  const auto store = [&found_inf](at::Tensor& to, const at::Tensor& from) {
    to.copy_(found_inf ? at::where(found_inf->eq(1), to, from) : from);
  };
  store(codes, new_codes);
  store(scales, tops.to(at::kFloat));
}

void update_by_operators(const Piece& piece,
                         const at::Tensor& step,
                         const at::Tensor& lr,
                         const CodeTable& signed_table,
                         const CodeTable& unsigned_table,
                         const Settings& s) {
  const at::ScalarType dtype = signed_table.values.scalar_type();
  const auto numbers = at::TensorOptions().dtype(at::kDouble).device(step.device());
  const at::Tensor count = step.to(at::kDouble);
  const at::Tensor rate = lr / (1 - at::pow(at::full({}, s.beta1, numbers), count));
  const at::Tensor root = at::rsqrt(1 - at::pow(at::full({}, s.beta2, numbers), count));
  const at::Tensor grad = in_blocks(piece.grad, s.block).to(dtype);
  at::Tensor mean = read(piece.mean_codes, piece.mean_scales, signed_table, s.block);
  at::Tensor square = read(piece.square_codes, piece.square_scales, unsigned_table, s.block);
  mean = mean + (grad - mean) * (1 - s.beta1);
  square = square + (grad * grad - square) * (1 - s.beta2);
  const at::Tensor direction = mean / (square.sqrt() * root + s.eps);
  const at::Tensor before = in_blocks(piece.parameter, s.block).to(dtype);
  const at::Tensor after = (before * (1 - lr * s.weight_decay) - direction * rate)
                               .view({-1})
                               .narrow(0, 0, piece.parameter.numel())
                               .to(piece.parameter.scalar_type());
  at::Tensor parameter = piece.parameter;
  parameter.copy_(s.found_inf ? at::where(s.found_inf->eq(1), parameter, after) : after);
  write(mean, piece.mean_codes, piece.mean_scales, signed_table, s.found_inf);
  write(square, piece.square_codes, piece.square_scales, unsigned_table, s.found_inf);
}

// Whole blocks [first, first + count) of a piece.
Piece part_of(const Piece& piece, int64_t first, int64_t count, int64_t block) {
  const int64_t begin = first * block;
  const int64_t length = std::min(count * block, piece.parameter.numel() - begin);
  const auto elements = [&](const at::Tensor& x) { return x.view({-1}).narrow(0, begin, length); };
  const auto scales = [&](const at::Tensor& x) { return x.view({-1}).narrow(0, first, count); };
  return {.parameter = elements(piece.parameter),
          .grad = elements(piece.grad),
          .mean_codes = elements(piece.mean_codes),
          .mean_scales = scales(piece.mean_scales),
          .square_codes = elements(piece.square_codes),
          .square_scales = scales(piece.square_scales)};
}

}  // namespace

void adamw_8bit_update(at::TensorList parameters,
                       at::TensorList grads,
                       at::TensorList mean_codes,
                       at::TensorList mean_scales,
                       at::TensorList square_codes,
                       at::TensorList square_scales,
                       at::TensorList steps,
                       const at::Tensor& lr,
                       double beta1,
                       double beta2,
                       double eps,
                       double weight_decay,
                       int64_t block,
                       const std::optional<at::Tensor>& found_inf) {
  const size_t n = parameters.size();
  check_lists(n, {grads, mean_codes, mean_scales, square_codes, square_scales, steps}, block);
  const c10::NoGradGuard no_grad;
  if (found_inf && found_inf->is_cpu() && found_inf->item<float>() == 1) {
    return;
  }
  Settings settings{.beta1 = beta1,
                    .beta2 = beta2,
                    .eps = eps,
                    .weight_decay = weight_decay,
                    .block = block,
                    .found_inf = found_inf && !found_inf->is_cpu() ? found_inf : std::nullopt};
  std::optional<CodeTable> signed_table;
  std::optional<CodeTable> unsigned_table;
  for (size_t i = 0; i < n; ++i) {
    const Piece piece{.parameter = parameters[i],
                      .grad = grads[i],
                      .mean_codes = mean_codes[i],
                      .mean_scales = mean_scales[i],
                      .square_codes = square_codes[i],
                      .square_scales = square_scales[i]};
    check(piece, block);
    if (has_kernels(piece)) {
      update_by_kernels(piece, steps[i].item<double>(), lr.item<double>(), settings);
      continue;
    }
    const at::TensorOptions options = piece.parameter.options().dtype(
        at::promote_types(piece.parameter.scalar_type(), at::kFloat));
    if (!signed_table || signed_table->values.scalar_type() != options.dtype().toScalarType()) {
      signed_table = table_of(Codes::kSigned, options);
      unsigned_table = table_of(Codes::kUnsigned, options);
    }
    const int64_t blocks = num_blocks(piece.parameter.numel(), block);
    const int64_t pass = std::max<int64_t>(1, kElementsPerPass / block);
    for (int64_t first = 0; first < blocks; first += pass) {
      update_by_operators(part_of(piece, first, std::min(pass, blocks - first), block),
                          steps[i],
                          lr,
                          *signed_table,
                          *unsigned_table,
                          settings);
    }
  }
}

}  // namespace tenon
