// SPDX-License-Identifier: Apache-2.0
//
// The `mlp` workload as a loop over libtorch and nothing else: the baseline for the host's
// overhead. It computes what a step of the host computes: a batch, forward, loss, backward, the
// norm of all gradients, a check that the norm is finite, clipping, fused AdamW. It has one thread:
// copying a batch takes less time than waking a thread that copies ahead.
//
// usage: bare_mlp WARMUP STEPS      (one compute thread; prints a line of JSON)
//        bare_mlp libraries         (prints libtorch's version and math libraries as a line of
//        JSON)
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/bench/random_table.hpp"
#include "tests/bench/stopwatch.hpp"

namespace {

constexpr int64_t kBatch = 32;
constexpr int64_t kHidden = 128;

// The parameters of 64-128-10 and their optimizer state.
struct Network {
  std::vector<at::Tensor> parameters;  // weight and bias of each layer
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> counters;  // one tensor, shared by all parameters

  Network() {
    add_layer(RandomTable::kWidth, kHidden);
    add_layer(kHidden, RandomTable::kClasses);
    counters.assign(parameters.size(), at::zeros({}, at::kFloat));
  }

  at::Tensor forward(const at::Tensor& x_BD) const {
    const at::Tensor hidden_BD = at::relu(at::linear(x_BD, parameters[0], parameters[1]));
    return at::linear(hidden_BD, parameters[2], parameters[3]);
  }

 private:
  void add_layer(int64_t in, int64_t out) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    for (const at::Tensor& parameter : {at::empty({out, in}), at::empty({out})}) {
      parameters.push_back(parameter.uniform_(-bound, bound).set_requires_grad(true));
      means.push_back(at::zeros_like(parameter));
      squares.push_back(at::zeros_like(parameter));
    }
  }
};

// Scales the gradients to a norm of at most 1. Returns false, and changes nothing, if the norm is
// non-finite. Two loops instead of operators: their overhead would be larger than the work.
bool clip(const std::vector<at::Tensor>& grads) {
  double sum = 0;
  for (const at::Tensor& grad : grads) {
    const float* values = grad.const_data_ptr<float>();
    float part[16] = {};
    const int64_t n = grad.numel();
    for (int64_t i = 0; i + 16 <= n; i += 16) {
      for (int64_t j = 0; j < 16; ++j) {
        part[j] += values[i + j] * values[i + j];
      }
    }
    for (int64_t i = n - n % 16; i < n; ++i) {
      sum += static_cast<double>(values[i]) * values[i];
    }
    for (const float value : part) {
      sum += value;
    }
  }
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm)) {
    return false;
  }
  if (norm > 1) {
    const auto factor = static_cast<float>(1 / (norm + 1e-6));
    for (const at::Tensor& grad : grads) {
      auto* values = grad.mutable_data_ptr<float>();
      const int64_t n = grad.numel();
      for (int64_t i = 0; i < n; ++i) {
        values[i] *= factor;
      }
    }
  }
  return true;
}

void update(const Network& net, const std::vector<at::Tensor>& grads) {
  *net.counters[0].mutable_data_ptr<float>() += 1;
  at::_fused_adamw_(net.parameters,
                    grads,
                    net.means,
                    net.squares,
                    {},
                    net.counters,
                    /*lr=*/1e-3,
                    /*beta1=*/0.9,
                    /*beta2=*/0.999,
                    /*weight_decay=*/0.01,
                    /*eps=*/1e-8,
                    /*amsgrad=*/false,
                    /*maximize=*/false,
                    /*grad_scale=*/{},
                    /*found_inf=*/{});
}

void train(uint64_t warmup, uint64_t steps) {
  at::manual_seed(1);
  const RandomTable table;
  const Network net;
  const at::Tensor x_BD = at::empty({kBatch, RandomTable::kWidth}, at::kFloat);
  const at::Tensor labels_B = at::empty({kBatch}, at::kLong);
  std::vector<at::Tensor> grads(net.parameters.size());
  Stopwatch watch(warmup, steps);
  double logged = 0;
  int64_t row = 0;
  for (uint64_t step = 1; step <= warmup + steps; ++step) {
    table.copy(row, kBatch, x_BD.mutable_data_ptr<float>(), labels_B.mutable_data_ptr<int64_t>());
    row = (row + kBatch) % RandomTable::kRows;
    const at::Tensor loss = at::cross_entropy_loss(net.forward(x_BD), labels_B);
    loss.backward();
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < grads.size(); ++i) {
      grads[i] = net.parameters[i].grad();
      net.parameters[i].mutable_grad().reset();
    }
    if (clip(grads)) {
      update(net, grads);
    }
    if (step % 100 == 0) {
      logged += loss.item<double>();
    }
    watch.tick(step);
  }
  std::fprintf(stderr, "mean of the logged losses: %.4f\n", logged * 100 / (warmup + steps));
  watch.write(stdout);
}

// The value of KEY in "KEY=value, ..." as libtorch prints its build settings.
std::string setting(const std::string& text, const std::string& key) {
  const size_t begin = text.find(key + "=");
  if (begin == std::string::npos) {
    return "unknown";
  }
  const size_t first = begin + key.size() + 1;
  return text.substr(first, text.find_first_of(",\n", first) - first);
}

// Up to the first line break, without quotes, as text of JSON.
std::string plain(std::string text) {
  text = text.substr(0, text.find('\n'));
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  return text;
}

void print_libraries() {
  const std::string blas = setting(at::show_config(), "BLAS_INFO");
  std::printf("{\"libtorch\": \"%s\", \"blas\": \"%s\", \"onednn\": \"%s\", \"vectors\": \"%s\"}\n",
              TORCH_VERSION,
              plain(blas == "mkl" ? at::get_mkl_version() : blas).c_str(),
              plain(at::get_mkldnn_version()).c_str(),
              at::get_cpu_capability().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "libraries") == 0) {
    print_libraries();
    return 0;
  }
  if (argc != 3) {
    std::fprintf(stderr, "usage: bare_mlp WARMUP STEPS | libraries\n");
    return 2;
  }
  at::set_num_threads(1);
  train(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10));
  return 0;
}
