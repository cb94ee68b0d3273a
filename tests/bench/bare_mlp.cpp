// SPDX-License-Identifier: Apache-2.0
//
// The `mlp` workload as a loop over libtorch and nothing else: what the host's cost is measured
// against. It does what a step of the host does: a batch from a thread that copies ahead, forward,
// loss, backward, the norm of all gradients, a check that it is finite, clipping, fused AdamW.
//
// usage: bare_mlp WARMUP STEPS      (one compute thread; prints a line of JSON)
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bench/random_table.hpp"
#include "tests/bench/stopwatch.hpp"

namespace {

struct Rows {
  at::Tensor x_BD;
  at::Tensor labels_B;
};

// Copies batches ahead of the step that wants them, on one thread.
class Prefetch {
 public:
  explicit Prefetch(int64_t batch_size) : batch_size_(batch_size), thread_([this] { run(); }) {}
  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    has_room_.notify_one();
    thread_.join();
  }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  Rows next() {
    std::unique_lock lock(mutex_);
    has_rows_.wait(lock, [this] { return !queue_.empty(); });
    Rows rows = std::move(queue_.front());
    queue_.pop_front();
    has_room_.notify_one();
    return rows;
  }

 private:
  static constexpr size_t kDepth = 5;  // as many as the host reads ahead by default

  void run() {
    int64_t row = 0;
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      lock.unlock();
      Rows rows{at::empty({batch_size_, RandomTable::kWidth}, at::kFloat),
                at::empty({batch_size_}, at::kLong)};
      table_.copy(row,
                  batch_size_,
                  rows.x_BD.mutable_data_ptr<float>(),
                  rows.labels_B.mutable_data_ptr<int64_t>());
      row = (row + batch_size_) % RandomTable::kRows;
      lock.lock();
      has_room_.wait(lock, [this] { return is_over_ || queue_.size() < kDepth; });
      queue_.push_back(std::move(rows));
      has_rows_.notify_one();
    }
  }

  const int64_t batch_size_;
  RandomTable table_;
  std::mutex mutex_;
  std::condition_variable has_rows_;
  std::condition_variable has_room_;
  std::deque<Rows> queue_;
  bool is_over_ = false;
  std::thread thread_;
};

void train(uint64_t warmup, uint64_t steps) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(RandomTable::kWidth, 128),
                            torch::nn::ReLU(),
                            torch::nn::Linear(128, RandomTable::kClasses));
  const std::vector<at::Tensor> parameters = net->parameters();
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> counters;
  for (const at::Tensor& parameter : parameters) {
    means.push_back(at::zeros_like(parameter));
    squares.push_back(at::zeros_like(parameter));
    counters.push_back(at::zeros({}, at::kFloat));
  }
  std::vector<at::Tensor> grads(parameters.size());
  Prefetch prefetch(32);
  Stopwatch watch(warmup, steps);
  double logged = 0;
  for (uint64_t step = 1; step <= warmup + steps; ++step) {
    const Rows rows = prefetch.next();
    at::Tensor loss = at::cross_entropy_loss(net->forward(rows.x_BD), rows.labels_B);
    loss.backward();
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      grads[i] = parameters[i].grad();
    }
    const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads)), 2);
    const double value = norm.item<double>();
    if (!std::isfinite(value)) {
      continue;
    }
    at::_foreach_mul_(grads, std::min(1.0, 1.0 / (value + 1e-6)));
    at::_foreach_add_(counters, 1);
    at::_fused_adamw_(parameters,
                      grads,
                      means,
                      squares,
                      {},
                      counters,
                      /*lr=*/1e-3,
                      /*beta1=*/0.9,
                      /*beta2=*/0.999,
                      /*weight_decay=*/0.01,
                      /*eps=*/1e-8,
                      /*amsgrad=*/false,
                      /*maximize=*/false,
                      /*grad_scale=*/{},
                      /*found_inf=*/{});
    for (const at::Tensor& parameter : parameters) {
      parameter.mutable_grad().reset();
    }
    if (step % 100 == 0) {
      logged += loss.item<double>();
    }
    watch.tick(step);
  }
  std::fprintf(stderr, "mean of the logged losses: %.4f\n", logged * 100 / (warmup + steps));
  watch.write(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bare_mlp WARMUP STEPS\n");
    return 2;
  }
  at::set_num_threads(1);
  train(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10));
  return 0;
}
