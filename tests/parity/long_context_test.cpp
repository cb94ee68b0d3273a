// SPDX-License-Identifier: Apache-2.0
//
// What saves memory on long sequences (selective recompute, tiles, offload) against a plain step of
// a decoder: equal gradients, less memory.
#include "host/device/block_cache.hpp"
#include "host/error/error.hpp"
#include "host/kernels/kept_attention.hpp"
#include "host/model/activation_store.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "tests/parity/model_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr int64_t kT = 384;
constexpr int kLayers = 3;

const char* const kLlama =
    R"({"vocab_size": 64, "hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2})";

struct Settings {
  RecomputeMode recompute = RecomputeMode::kNone;
  int64_t tile = 0;
  std::string folder = {};  // of offload; "": none
  std::vector<bool> only = {};
  at::ScalarType dtype = at::kFloat;
};

struct Step {
  at::Tensor logits;
  std::map<std::string, at::Tensor> grads;
  int64_t attention = 0;  // computed
  int64_t kept = 0;       // bytes between forward and backward
};

Step step_with(const Settings& settings) {
  at::manual_seed(1);
  ModelRig rig("llama", kLlama, settings.dtype, settings.recompute);
  const uint32_t logits = rig.graph().find_output("logits").value();
  rig.runner().options.kept = {{logits}};
  if (!settings.only.empty()) {
    rig.runner().options.recomputed = settings.only;
  }
  if (settings.tile > 0) {
    rig.runner().options.tile = settings.tile;
  }
  if (!settings.folder.empty()) {
    rig.runner().activations = disk_activations(settings.folder);
  }
  const at::Tensor ids = at::arange(2 * kT).remainder(61).view({2, kT});
  const int64_t runs = attention_runs();
  const int64_t before = cpu_tensor_memory().bytes;
  rig.forward({{"input_ids", ids}});
  Step step;
  step.kept = cpu_tensor_memory().bytes - before;
  step.logits = rig.output("logits").clone();
  rig.backward("logits",
               at::linspace(-1, 1, step.logits.numel(), settings.dtype).view(step.logits.sizes()));
  step.attention = attention_runs() - runs;
  for (const ModelParameter& parameter : rig.graph().parameters) {
    step.grads[parameter.name] = rig.grad(parameter.name).clone();
  }
  return step;
}

void check_equal(const Step& got, const Step& expected) {
  CHECK(at::equal(got.logits, expected.logits));
  for (const auto& [name, grad] : expected.grads) {
    INFO(name);
    CHECK(at::equal(got.grads.at(name), grad));
  }
}

// Equal except for the order of sums, whose error grows with the epsilon of `dtype`.
void check_near(const Step& got, const Step& expected, at::ScalarType dtype) {
  const double epsilon = dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                                              : std::numeric_limits<float>::epsilon();
  const double tolerance = 450 * epsilon;
  CHECK(at::allclose(got.logits, expected.logits, tolerance, tolerance));
  for (const auto& [name, grad] : expected.grads) {
    INFO(name);
    const double scale = grad.abs().max().item<double>();
    CHECK((got.grads.at(name) - grad).abs().max().item<double>() <= tolerance * scale);
  }
}

// Limits the size of files that this process writes, as a full disk does.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("a selective recompute runs attention once, with equal bits", "[parity]") {
  use_block_cache();
  const Step plain = step_with({});
  const Step blocks = step_with({.recompute = RecomputeMode::kBlocks});
  const Step selective = step_with({.recompute = RecomputeMode::kSelective});
  check_equal(blocks, plain);
  check_equal(selective, plain);
  CHECK(plain.attention == kLayers);
  CHECK(blocks.attention == 2 * kLayers);
  CHECK(selective.attention == kLayers);
  if (plain.kept > 0) {  // under sanitizers nothing counts
    CHECK(blocks.kept < selective.kept);
    CHECK(selective.kept < plain.kept / 2);
  }
}

TEST_CASE("a selective recompute of a block without attention is refused", "[parity]") {
  std::vector<bool> feed_forward(2 * kLayers + 2, false);
  feed_forward[2] = true;
  const Settings settings{.recompute = RecomputeMode::kSelective, .only = feed_forward};
  CHECK_THROWS_WITH(step_with(settings), contains_text("[model.no_attention]"));
}

TEST_CASE("tiles give the gradients of whole blocks, except for the order of sums", "[parity]") {
  use_block_cache();
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const Step plain = step_with({.dtype = dtype});
    for (const int64_t tile : {int64_t{33}, int64_t{100}, kT, 4 * kT}) {
      for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kBlocks}) {
        CAPTURE(dtype, tile, static_cast<int>(recompute));
        const Step tiled = step_with({.recompute = recompute, .tile = tile, .dtype = dtype});
        check_near(tiled, plain, dtype);
        if (plain.kept > 0) {
          CHECK(tiled.kept < plain.kept);
        }
      }
    }
  }
}

TEST_CASE("activations on the disk come back with equal bits", "[parity]") {
  use_block_cache();
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  const Step blocks = step_with({.recompute = RecomputeMode::kBlocks});
  check_equal(step_with({.recompute = RecomputeMode::kBlocks, .folder = path}), blocks);
  const Step selective = step_with({.recompute = RecomputeMode::kSelective, .folder = path});
  check_equal(selective, blocks);
  CHECK(selective.attention == kLayers);
  check_near(step_with({.recompute = RecomputeMode::kSelective, .tile = 128, .folder = path}),
             blocks,
             at::kFloat);
  check_near(step_with({.tile = 128, .folder = path}), blocks, at::kFloat);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a store returns groups in reverse order, and again after a drop", "[parity]") {
  const ScratchFolder folder;
  const std::unique_ptr<ActivationStore> store = disk_activations(folder.path().string());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<at::Tensor>> groups;
    for (int i = 0; i < 20; ++i) {
      groups.push_back({at::randn({i + 1, 7}),
                        at::arange(i, i + 3),
                        at::randn({5, 4}, at::kDouble).t(),
                        at::randn({3, 8}).narrow(1, 2, 4)});
      store->push(7, groups.back());
    }
    for (size_t i = groups.size(); i-- > (round == 0 ? 10 : 0);) {
      const std::vector<at::Tensor> back = store->pop(7);
      REQUIRE(back.size() == groups[i].size());
      for (size_t k = 0; k < back.size(); ++k) {
        CHECK(back[k].dtype() == groups[i][k].dtype());
        CHECK(at::equal(back[k], groups[i][k]));
      }
    }
    store->drop(7);
  }
}

TEST_CASE("microbatches in flight have stacks of their own, in any order", "[parity]") {
  const ScratchFolder folder;
  const std::unique_ptr<ActivationStore> store = disk_activations(folder.path().string());
  std::map<uint64_t, std::vector<at::Tensor>> pushed;
  std::mt19937 generator(3);
  for (int i = 0; i < 400; ++i) {
    const uint64_t microbatch = 1 + generator() % 4;
    std::vector<at::Tensor>& stack = pushed[microbatch];
    const uint32_t action = generator() % 16;
    if (action == 0) {
      store->drop(microbatch);
      stack.clear();
    } else if (action < 8 && !stack.empty()) {
      CHECK(at::equal(store->pop(microbatch)[0], stack.back()));
      stack.pop_back();
    } else {
      stack.push_back(at::full({1 + static_cast<int64_t>(generator() % 5000)}, i));
      store->push(microbatch, {stack.back()});
    }
  }
}

TEST_CASE("a store keeps at most a few groups in memory", "[parity]") {
  use_block_cache();
  const ScratchFolder folder;
  const std::unique_ptr<ActivationStore> store = disk_activations(folder.path().string());
  constexpr int64_t kBytes = 4 << 20;
  const int64_t before = cpu_tensor_memory().bytes;
  int64_t most = 0;
  for (int i = 0; i < 16; ++i) {
    store->push(1, {at::full({kBytes / 4}, i)});
    most = std::max(most, cpu_tensor_memory().bytes - before);
  }
  for (int i = 16; i-- > 0;) {
    CHECK(store->pop(1)[0][kBytes / 4 - 1].item<float>() == static_cast<float>(i));
    most = std::max(most, cpu_tensor_memory().bytes - before);
  }
  CHECK(most <= 4 * (kBytes + 64));
}

TEST_CASE("a full disk and a missing folder are errors that name the folder", "[parity]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  const FileLimit limit(64 << 10);
  CHECK_THROWS_WITH(step_with({.recompute = RecomputeMode::kBlocks, .folder = path}),
                    contains_text("[model.offload_failed]") && contains_text(path) &&
                        contains_text("train.offload_folder") && contains_text("File too large"));
  CHECK_THROWS_WITH(disk_activations(path + "/nowhere"),
                    contains_text("cannot create a scratch file in " + path + "/nowhere"));
}

}  // namespace tenon
