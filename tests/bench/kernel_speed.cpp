// SPDX-License-Identifier: Apache-2.0
//
// Times kernels of the host in turn, and prints a line of JSON.
//
// usage: kernel_speed segments LENGTH PAIRS THREADS
//            attention, forward and backward: a row of 16 segments of LENGTH tokens, and 16 rows of
//            one segment; heads of SmolLM2
//        kernel_speed updates ELEMENTS PAIRS THREADS
//            an update of AdamW with state in 8 bits, and in fp32
#include "host/kernels/adamw_8bit.hpp"
#include "host/kernels/attention.hpp"
#include "host/kernels/optimizer_updates.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/stopwatch.hpp"

namespace tenon {
namespace {

constexpr int64_t kSegments = 16;
constexpr int64_t kHeads = 9;
constexpr int64_t kKvHeads = 3;
constexpr int64_t kWidth = 64;
constexpr int64_t kBlock = 256;  // elements that share a scale, as in the plugin adamw8bit

struct Times {
  std::vector<double> first;
  std::vector<double> second;
};

// Seconds of a call, the mean of several.
double seconds_of(const std::function<void()>& call, int64_t calls) {
  const double begin = Stopwatch::now();
  for (int64_t i = 0; i < calls; ++i) {
    call();
  }
  return (Stopwatch::now() - begin) / static_cast<double>(calls);
}

// Two calls take turns, and every second pair runs backward. The first pair is not kept.
Times times_of(const std::function<void()>& first,
               const std::function<void()>& second,
               int64_t pairs) {
  const double once = seconds_of(first, 1) + seconds_of(second, 1);
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(0.2 / once));
  Times times;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const bool is_forward = pair % 2 == 0;
    const double a = seconds_of(is_forward ? first : second, calls);
    const double b = seconds_of(is_forward ? second : first, calls);
    times.first.push_back(is_forward ? a : b);
    times.second.push_back(is_forward ? b : a);
  }
  return times;
}

// Queries, keys and values side by side: [rows, tokens, (H + 2 K) E].
class AttentionRows {
 public:
  AttentionRows(const at::Tensor& projections, int64_t rows, bool is_packed)
      : qkv_(projections.view({rows, -1, projections.size(-1)}).clone().requires_grad_(true)) {
    const int64_t tokens = qkv_.size(1);
    const int64_t length = is_packed ? tokens / kSegments : tokens;
    const at::Tensor angles =
        at::arange(length, at::kFloat).outer(at::pow(1e4, -at::arange(0, 1, 2.0 / kWidth)));
    options_.rotary = at::stack({angles.cos(), angles.sin()}).contiguous();
    if (is_packed) {
      options_.segments = at::arange(kSegments, at::kLong).repeat_interleave(length).view({1, -1});
      options_.positions = at::arange(length, at::kLong).repeat({kSegments}).view({1, -1});
    }
    out_grad_ = at::ones({rows, tokens, kHeads * kWidth}) * 0.01;
  }

  void run() {
    out_ = packed_attention(qkv_, kHeads, kKvHeads, options_);
    grad_ = torch::autograd::grad({out_}, {qkv_}, {out_grad_})[0];
  }
  const at::Tensor& out() const { return out_; }
  const at::Tensor& grad() const { return grad_; }

 private:
  at::Tensor qkv_;
  AttentionOptions options_;
  at::Tensor out_grad_;
  at::Tensor out_;
  at::Tensor grad_;
};

double greatest_gap(const at::Tensor& a, const at::Tensor& b) {
  return (a.flatten() - b.flatten()).abs().max().item<double>();
}

void print(const char* first, const char* second, const Times& times) {
  const auto put = [](const char* name, const std::vector<double>& values) {
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < values.size(); ++i) {
      std::printf("%s%.6g", i > 0 ? ", " : "", values[i]);
    }
    std::printf("]");
  };
  std::printf("{");
  put(first, times.first);
  std::printf(", ");
  put(second, times.second);
}

int compare_segments(int64_t length, int64_t pairs) {
  const at::Generator generator = at::detail::createCPUGenerator(1);
  const at::Tensor projections =
      at::randn({kSegments * length, (kHeads + 2 * kKvHeads) * kWidth}, generator);
  AttentionRows packed(projections, 1, true);
  AttentionRows apart(projections, kSegments, false);
  const Times times = times_of([&] { packed.run(); }, [&] { apart.run(); }, pairs);
  print("packed_s", "apart_s", times);
  std::printf(", \"output_gap\": %.3g, \"gradient_gap\": %.3g}\n",
              greatest_gap(packed.out(), apart.out()),
              greatest_gap(packed.grad(), apart.grad()));
  return 0;
}

int compare_updates(int64_t elements, int64_t pairs) {
  const at::Generator generator = at::detail::createCPUGenerator(1);
  const int64_t blocks = (elements + kBlock - 1) / kBlock;
  const at::Tensor lr = at::scalar_tensor(1e-4, at::kFloat);
  const std::vector<at::Tensor> grads = {at::randn({elements}, generator)};
  const std::vector<at::Tensor> steps = {at::ones({}, at::kFloat)};
  const std::vector<at::Tensor> parameters = {at::randn({elements}, generator)};
  const std::vector<at::Tensor> means = {at::zeros({elements})};
  const std::vector<at::Tensor> squares = {at::zeros({elements})};
  const std::vector<at::Tensor> parameters_8 = {parameters[0].clone()};
  const std::vector<at::Tensor> mean_codes = {at::full({elements}, 127, at::kByte)};
  const std::vector<at::Tensor> square_codes = {at::zeros({elements}, at::kByte)};
  const std::vector<at::Tensor> mean_scales = {at::zeros({blocks})};
  const std::vector<at::Tensor> square_scales = {at::zeros({blocks})};
  const Times times = times_of(
      [&] {
        adamw_8bit_update(parameters_8,
                          grads,
                          mean_codes,
                          mean_scales,
                          square_codes,
                          square_scales,
                          steps,
                          lr,
                          0.9,
                          0.999,
                          1e-8,
                          0.01,
                          kBlock,
                          std::nullopt);
      },
      [&] {
        adam_update(parameters,
                    grads,
                    means,
                    squares,
                    {},
                    steps,
                    lr,
                    0.9,
                    0.999,
                    1e-8,
                    0.01,
                    true,
                    std::nullopt);
      },
      pairs);
  print("adamw8bit_s", "adamw_s", times);
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: kernel_speed segments|updates SIZE PAIRS THREADS\n");
    return 2;
  }
  at::set_num_threads(std::atoi(argv[4]));
  const int64_t size = std::atoll(argv[2]);
  const int64_t pairs = std::atoll(argv[3]);
  return std::string(argv[1]) == "segments" ? tenon::compare_segments(size, pairs)
                                            : tenon::compare_updates(size, pairs);
}
