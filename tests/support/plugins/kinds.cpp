// SPDX-License-Identifier: Apache-2.0
//
// One small component for each kind of training that public code bases use: batch normalization, a
// variational autoencoder, a GAN, CTC, forces of a graph network, detection, PPO, carried state,
// and statistics that are summed over ranks. Parameters and data are formulas, so that
// tests/parity/kinds_golden.py trains the same in PyTorch.
// Letters: B samples, T positions, C classes, N nodes.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>
#include <tenon/torch/metric.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/module.hpp>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using tenon::BlockCall;
using torch::nn::Linear;

// Parameter number k of a module is 0.4 sin(0.7 i + k).
void set_by_formula(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  double k = 0;
  for (at::Tensor& parameter : module.parameters()) {
    if (!parameter.is_meta()) {
      const at::Tensor i = at::arange(parameter.numel(), at::kDouble);
      parameter.copy_((at::sin(i * 0.7 + k) * 0.4).view(parameter.sizes()));
    }
    k += 1;
  }
}

template <class Net>
std::shared_ptr<Net> built() {
  auto net = std::make_shared<Net>();
  set_by_formula(*net);
  return net;
}

// ---- data: formulas of the sample's number ----

class KindSamples final : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "kind_samples";
  static constexpr const char* kSummary = "for tests: samples of each kind of training";
  struct Options {
    int64_t samples = 24;
    double augment = 0;
    static void bind(tenon::OptionBinder<Options>& binder) {
      binder.field("samples", &Options::samples).min(1).doc("number of samples");
      binder.field("augment", &Options::augment)
          .min(0)
          .doc("size of a change of x, another one in each epoch; 0: none");
    }
  };

  KindSamples(const Options& options, const tenon::CreateContext& context)
      : options_(options), seed_(context.seed) {}

  void reset(uint64_t epoch) override { epoch_ = epoch; }

  void describe(tenon::DatasetInfo& info) override {
    const tenon::Axis any(-1);
    x_ = info.field("x", {"B", 6}, TENON_F32);
    seq_ = info.field("seq", {"B", 5, 4}, TENON_F32);
    labels_ = info.field("labels", {"B"}, TENON_I64);
    y_ = info.field("y", {"B"}, TENON_F32);
    targets_ = info.field("targets", {"B", 2}, TENON_I64);
    nodes_ = info.field("nodes.values", {any, 3}, TENON_F32);
    node_offsets_ = info.field("nodes.offsets", {any}, TENON_I64);
    boxes_ = info.field("boxes.values", {any, 5}, TENON_F32);
    box_offsets_ = info.field("boxes.offsets", {any}, TENON_I64);
  }

  int64_t size(const tenon_window*) override { return options_.samples; }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    auto* x = writer.add<float>(x_, {batch, 6});
    auto* seq = writer.add<float>(seq_, {batch, 5, 4});
    auto* labels = writer.add<int64_t>(labels_, {batch});
    auto* y = writer.add<float>(y_, {batch});
    auto* targets = writer.add<int64_t>(targets_, {batch, 2});
    int64_t num_nodes = 0;
    int64_t num_boxes = 0;
    for (size_t b = 0; b < n; ++b) {
      num_nodes += nodes_of(indices[b]);
      num_boxes += boxes_of(indices[b]);
    }
    auto* nodes = writer.add<float>(nodes_, {num_nodes, 3});
    auto* node_offsets = writer.add<int64_t>(node_offsets_, {batch + 1});
    auto* boxes = writer.add<float>(boxes_, {num_boxes, 5});
    auto* box_offsets = writer.add<int64_t>(box_offsets_, {batch + 1});
    *node_offsets = *box_offsets = 0;
    for (size_t b = 0; b < n; ++b) {
      const int64_t id = indices[b];
      const auto at = static_cast<double>(id + 1);
      const double change = options_.augment * draw(id);
      for (int d = 0; d < 6; ++d) {
        *x++ = static_cast<float>(std::sin(0.1 * at * (d + 1)) + change);
      }
      for (int t = 0; t < 5; ++t) {
        for (int d = 0; d < 4; ++d) {
          *seq++ = static_cast<float>(std::sin(0.07 * at * (t + 1) + d));
        }
      }
      *labels++ = id % 3;
      *y++ = static_cast<float>(std::cos(0.3 * at));
      *targets++ = 1 + id % 3;
      *targets++ = 1 + (id + 1) % 3;
      for (int64_t i = 0; i < nodes_of(id); ++i) {
        for (int d = 0; d < 3; ++d) {
          *nodes++ = static_cast<float>(std::sin(0.5 * at + 1.3 * static_cast<double>(i) + d));
        }
      }
      node_offsets[1] = *node_offsets + nodes_of(id);
      ++node_offsets;
      for (int64_t i = 0; i < boxes_of(id); ++i) {
        *boxes++ = static_cast<float>(i);  // class
        for (int d = 0; d < 4; ++d) {
          *boxes++ = static_cast<float>(
              0.5 + 0.25 * std::sin(0.4 * at + 2.0 * static_cast<double>(i) + d));
        }
      }
      box_offsets[1] = *box_offsets + boxes_of(id);
      ++box_offsets;
    }
    writer.set_counts(batch, 0);
  }

 private:
  // A number in [0, 1) that depends on seed, epoch and sample only: the same in each read, on each
  // rank and after a resume.
  double draw(int64_t id) const {
    std::mt19937_64 generator(seed_ ^ (epoch_ * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(id)));
    return static_cast<double>(generator() >> 11) * 0x1p-53;
  }
  static int64_t nodes_of(int64_t id) { return 2 + id % 3; }
  static int64_t boxes_of(int64_t id) { return 1 + id % 2; }

  Options options_;
  uint64_t seed_;
  uint64_t epoch_ = 0;
  uint32_t x_ = 0;
  uint32_t seq_ = 0;
  uint32_t labels_ = 0;
  uint32_t y_ = 0;
  uint32_t targets_ = 0;
  uint32_t nodes_ = 0;
  uint32_t node_offsets_ = 0;
  uint32_t boxes_ = 0;
  uint32_t box_offsets_ = 0;
};

// ---- batch normalization ----

struct NormNet : torch::nn::Module {
  Linear first = register_module("first", Linear(6, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  Linear last = register_module("last", Linear(8, 3));
};

class NormKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "norm_kind";
  static constexpr const char* kSummary = "for tests: batch normalization";

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    g.module("net",
             {x},
             {g.value("logits", {"B", 3})},
             built<NormNet>,
             [](const std::shared_ptr<NormNet>& net, const at::Tensor& in) {
               return net->last(at::tanh(net->norm(net->first(in))));
             });
  }
};

// ---- statistics that are summed over the ranks and microbatches of a step ----

struct ScaledNet : torch::nn::Module {
  at::Tensor sum = register_buffer("sum", at::zeros({6}, at::kDouble));
  at::Tensor count = register_buffer("count", at::zeros({}, at::kLong));
  Linear last = register_module("last", Linear(6, 3));
};

// Subtracts the mean of all samples of the steps before.
class ScaledKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "scaled_kind";
  static constexpr const char* kSummary = "for tests: running statistics summed over ranks";

  bool is_summed(const std::string&, const at::Tensor&) const override { return true; }

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    g.module("net",
             {x},
             {g.value("logits", {"B", 3})},
             built<ScaledNet>,
             [](const std::shared_ptr<ScaledNet>& net, const at::Tensor& in) {
               const at::Tensor mean = net->sum / net->count.clamp_min(1);
               if (net->is_training()) {
                 net->sum.add_(in.detach().sum(0));
                 net->count.add_(in.size(0));
               }
               return net->last(in - mean.to(in.scalar_type()));
             });
  }
};

// ---- a variational autoencoder ----

struct VaeNet : torch::nn::Module {
  Linear encoder = register_module("encoder", Linear(6, 4));
  Linear decoder = register_module("decoder", Linear(2, 6));
};

struct NoiseOptions {
  double noise = 1.0;
  static void bind(tenon::OptionBinder<NoiseOptions>& binder) {
    binder.field("noise", &NoiseOptions::noise).min(0).doc("factor of random numbers; 0: none");
  }
};

class VaeKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "vae_kind";
  static constexpr const char* kSummary = "for tests: a variational autoencoder";
  using Options = NoiseOptions;

  explicit VaeKind(const Options& options) : noise_(options.noise) {}

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    g.module("net",
             {x},
             {g.value("loss", {"B"})},
             built<VaeNet>,
             [noise = noise_](const std::shared_ptr<VaeNet>& net, const at::Tensor& in) {
               const std::vector<at::Tensor> code = net->encoder(in).chunk(2, 1);
               at::Tensor z = code[0];
               if (noise > 0) {
                 z = z + noise * at::exp(0.5 * code[1]) * at::randn_like(z);
               }
               const at::Tensor missed = (net->decoder(z) - in).square().sum(1);
               const at::Tensor divergence =
                   -0.5 * (1 + code[1] - code[0].square() - code[1].exp()).sum(1);
               return missed + divergence;
             });
  }

 private:
  double noise_;
};

// ---- a GAN, whose parts are trained in turn ----

struct GanNet : torch::nn::Module {
  Linear generator = register_module("generator", Linear(2, 6));
  Linear critic = register_module("critic", Linear(6, 1));
};

class GanKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "gan_kind";
  static constexpr const char* kSummary = "for tests: a GAN";
  using Options = NoiseOptions;

  explicit GanKind(const Options& options) : noise_(options.noise) {}

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    g.module(
        "net",
        {x},
        {g.value("loss", {"B"})},
        built<GanNet>,
        [noise = noise_](const std::shared_ptr<GanNet>& net, const BlockCall& call) {
          const at::Tensor& in = call.input(0);
          at::Tensor z = in.narrow(1, 0, 2);
          if (noise > 0) {
            z = z + noise * at::randn_like(z);
          }
          // Odd steps train the critic, even steps the generator. Parameters without a
          // gradient are not updated.
          if (call.exec().step() % 2 == 1) {
            const at::Tensor fake = net->generator(z).detach();
            return (at::softplus(-net->critic(in)) + at::softplus(net->critic(fake))).squeeze(1);
          }
          const at::Tensor judged = at::linear(
              net->generator(z), net->critic->weight.detach(), net->critic->bias.detach());
          return at::softplus(-judged).squeeze(1);
        });
  }

 private:
  double noise_;
};

// ---- CTC ----

struct SequenceNet : torch::nn::Module {
  Linear first = register_module("first", Linear(4, 8));
  Linear last = register_module("last", Linear(8, 5));
};

class SequenceKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "sequence_kind";
  static constexpr const char* kSummary = "for tests: a network for sequences";

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("seq", {"B", 5, 4}, TENON_CLASS_COMPUTE);
    g.module("net",
             {x},
             {g.value("logits", {"B", 5, 5})},
             built<SequenceNet>,
             [](const std::shared_ptr<SequenceNet>& net, const at::Tensor& in) {
               return net->last(at::tanh(net->first(in)));
             });
  }
};

class CtcLoss final : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "ctc";
  static constexpr const char* kSummary = "for tests: connectionist temporal classification";

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {"B", -1, -1}, TENON_CLASS_FLOAT)
        .port("targets", {"B", -1}, TENON_I64)
        .additive_over(TENON_ADDITIVE_SAMPLES)
        .count_from_batch();
  }
  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return at::full({}, static_cast<double>(inputs[1].size(0)), at::kDouble);
  }
  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& logits_BTC = inputs[0];
    const auto B = static_cast<size_t>(logits_BTC.size(0));
    const auto wide = logits_BTC.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    if (B == 0) {
      return logits_BTC.to(wide).sum();
    }
    const std::vector<int64_t> of_inputs(B, logits_BTC.size(1));
    const std::vector<int64_t> of_targets(B, inputs[1].size(1));
    const at::Tensor logs_TBC = at::log_softmax(logits_BTC.to(wide), -1).transpose(0, 1);
    return at::ctc_loss(logs_TBC, inputs[1], of_inputs, of_targets, 0, at::Reduction::Sum);
  }
};

// ---- energies and forces of molecules ----

struct PairNet : torch::nn::Module {
  Linear first = register_module("first", Linear(1, 4));
  Linear last = register_module("last", Linear(4, 1));
};

class MoleculeKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "molecule_kind";
  static constexpr const char* kSummary = "for tests: energies, and forces by their gradient";

  void describe(tenon::ModuleGraph& g) override {
    const auto nodes = g.input("nodes.values", {-1, 3}, TENON_CLASS_COMPUTE);
    const auto offsets = g.input("nodes.offsets", {-1}, TENON_I64);
    g.module("net",
             {nodes, offsets},
             {g.value("energy", {"B"}), g.value("forces", {-1, 3})},
             built<PairNet>,
             run);
  }

 private:
  static std::vector<at::Tensor> run(const std::shared_ptr<PairNet>& net,
                                     const at::Tensor& nodes,
                                     const at::Tensor& offsets) {
    const bool is_recorded = at::GradMode::is_enabled();
    const at::AutoGradMode grad(true);  // forces are a gradient in evaluations too
    const at::Tensor r_N3 = nodes.detach().requires_grad_(true);
    const at::Tensor sizes = offsets.diff();
    const at::Tensor molecule_N = at::repeat_interleave(sizes);
    const at::Tensor pair = molecule_N.unsqueeze(0).eq(molecule_N.unsqueeze(1)).triu(1).nonzero();
    const at::Tensor from = pair.select(1, 0);
    const at::Tensor to = pair.select(1, 1);
    const at::Tensor square =
        (r_N3.index_select(0, from) - r_N3.index_select(0, to)).square().sum(1, true);
    const at::Tensor of_pair = net->last(at::tanh(net->first(square))).squeeze(1);
    at::Tensor energy_B = at::zeros({sizes.size(0)}, nodes.options())
                              .index_add(0, molecule_N.index_select(0, from), of_pair);
    at::Tensor forces_N3 =
        -torch::autograd::grad({energy_B.sum()}, {r_N3}, {}, true, /*create_graph=*/true)[0];
    return is_recorded ? std::vector<at::Tensor>{energy_B, forces_N3}
                       : std::vector<at::Tensor>{energy_B.detach(), forces_N3.detach()};
  }
};

// Additive over microbatches; nodes have no axis of samples, so no part of it can be cut out.
class MoleculeLoss final : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "molecule_loss";
  static constexpr const char* kSummary = "for tests: errors of energies and forces";

  void describe(tenon::LossInfo& info) override {
    info.port("energy", {"B"}, TENON_CLASS_FLOAT)
        .port("forces", {"N", 3}, TENON_CLASS_FLOAT)
        .port("y", {"B"}, TENON_CLASS_FLOAT)
        .additive_over(TENON_ADDITIVE_SAMPLES)
        .count_from_batch();
  }
  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return at::full({}, static_cast<double>(inputs[2].size(0)), at::kDouble);
  }
  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const at::Tensor& energy = inputs[0];
    const auto wide = energy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return (energy.to(wide) - inputs[2].to(wide)).square().sum() +
           0.1 * inputs[1].to(wide).square().sum();
  }
};

// ---- detection ----

struct DetectorNet : torch::nn::Module {
  Linear last = register_module("last", Linear(6, 10));
};

// Predicts a confidence and a box for each of two classes.
class DetectorKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "detector_kind";
  static constexpr const char* kSummary = "for tests: a detector";

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    const auto boxes = g.input("boxes.values", {-1, 5}, TENON_CLASS_COMPUTE);
    const auto offsets = g.input("boxes.offsets", {-1}, TENON_I64);
    g.module("net",
             {x, boxes, offsets},
             {g.value("loss", {"B"}), g.value("predicted", {"B", 2, 5})},
             built<DetectorNet>,
             run);
  }

 private:
  static std::vector<at::Tensor> run(const std::shared_ptr<DetectorNet>& net,
                                     const at::Tensor& x,
                                     const at::Tensor& boxes,
                                     const at::Tensor& offsets) {
    const at::Tensor predicted = at::sigmoid(net->last(x)).view({-1, 2, 5});
    const at::Tensor sample = at::repeat_interleave(offsets.diff());
    const at::Tensor slot = sample * 2 + boxes.select(1, 0).to(at::kLong);
    at::Tensor wanted = at::zeros({predicted.size(0) * 2, 5}, predicted.options());
    const at::Tensor there =
        at::cat({at::ones({boxes.size(0), 1}, boxes.options()), boxes.narrow(1, 1, 4)}, 1);
    wanted = wanted.index_copy(0, slot, there.to(wanted.scalar_type())).view({-1, 2, 5});
    const at::Tensor is_there = wanted.select(2, 0);
    const at::Tensor of_box = (predicted - wanted).narrow(2, 1, 4).square().sum(2) * is_there;
    const at::Tensor of_confidence = (predicted.select(2, 0) - is_there).square();
    return {(of_box + of_confidence).sum(1), predicted};
  }
};

// The mean over classes of the average precision at an overlap of 0.5, over all samples.
// Source   Everingham et al., The PASCAL Visual Object Classes Challenge (2010), section 4.2: the
//          area under the precision-recall curve
class MeanAveragePrecision final : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "mean_average_precision";
  static constexpr const char* kSummary = "for tests: mAP of boxes";

  void describe(tenon::MetricInfo& info) override {
    info.port("predicted", {"B", 2, 5}, TENON_CLASS_FLOAT)
        .port("boxes.values", {-1, 5}, TENON_CLASS_FLOAT)
        .port("boxes.offsets", {-1}, TENON_I64)
        .state("found", {0, 3}, TENON_F64, TENON_REDUCE_CONCAT)  // class, confidence, is a hit
        .sum("num_boxes", {2})
        .metric("map");
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const at::Tensor predicted = inputs[0].to(at::kDouble).cpu();
    const at::Tensor boxes = inputs[1].to(at::kDouble).cpu();
    const at::Tensor offsets = inputs[2].cpu();
    at::Tensor found = at::zeros({predicted.size(0), 2, 3}, at::kDouble);
    for (int64_t b = 0; b < predicted.size(0); ++b) {
      for (int64_t c = 0; c < 2; ++c) {
        found[b][c][0] = static_cast<double>(c);
        found[b][c][1] = predicted[b][c][0];
      }
      for (int64_t i = offsets[b].item<int64_t>(); i < offsets[b + 1].item<int64_t>(); ++i) {
        const auto c = boxes[i][0].item<int64_t>();
        states[1][c] += 1;
        found[b][c][2] = overlap(predicted[b][c], boxes[i]) >= 0.5 ? 1.0 : 0.0;
      }
    }
    states.append(0, found.view({-1, 3}));
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    double total = 0;
    for (int64_t c = 0; c < 2; ++c) {
      const at::Tensor of_class = states[0].index({states[0].select(1, 0).eq(c)});
      const at::Tensor order = std::get<1>(of_class.select(1, 1).sort(true, 0, true));
      const at::Tensor hits = of_class.select(1, 2).index({order});
      const at::Tensor precision = hits.cumsum(0) / at::arange(1, hits.size(0) + 1, at::kDouble);
      total += (precision * hits).sum().item<double>() / std::max(1.0, states[1][c].item<double>());
    }
    return {total / 2};
  }

 private:
  // Of boxes (any, center x, center y, width, height).
  static double overlap(const at::Tensor& a, const at::Tensor& b) {
    double both = 1;
    double of_a = 1;
    double of_b = 1;
    for (int64_t d = 1; d <= 2; ++d) {
      const double size_a = a[d + 2].item<double>();
      const double size_b = b[d + 2].item<double>();
      const double begin =
          std::max(a[d].item<double>() - size_a / 2, b[d].item<double>() - size_b / 2);
      const double end =
          std::min(a[d].item<double>() + size_a / 2, b[d].item<double>() + size_b / 2);
      both *= std::max(0.0, end - begin);
      of_a *= size_a;
      of_b *= size_b;
    }
    return both / (of_a + of_b - both);
  }
};

// ---- PPO ----

struct PolicyNet : torch::nn::Module {
  Linear body = register_module("body", Linear(6, 8));
  Linear policy = register_module("policy", Linear(8, 2));
  Linear value = register_module("value", Linear(8, 1));
};

// The clipped objective on recorded actions: label % 2 is the action, y its return.
// Source   Schulman et al., Proximal Policy Optimization Algorithms (2017), equation 9
class PolicyKind final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "policy_kind";
  static constexpr const char* kSummary = "for tests: PPO";

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 6}, TENON_CLASS_COMPUTE);
    const auto labels = g.input("labels", {"B"}, TENON_I64);
    const auto y = g.input("y", {"B"}, TENON_CLASS_COMPUTE);
    g.module("net",
             {x, labels, y},
             {g.value("loss", {"B"})},
             built<PolicyNet>,
             [](const std::shared_ptr<PolicyNet>& net,
                const at::Tensor& in,
                const at::Tensor& label,
                const at::Tensor& gain) {
               const at::Tensor h = at::tanh(net->body(in));
               const at::Tensor logs = at::log_softmax(net->policy(h), 1);
               const at::Tensor value = net->value(h).squeeze(1);
               const at::Tensor action = label.remainder(2).unsqueeze(1);
               const at::Tensor ratio = (logs.gather(1, action).squeeze(1) - std::log(0.5)).exp();
               const at::Tensor advantage = gain - value.detach();
               const at::Tensor clipped = ratio.clamp(0.8, 1.2) * advantage;
               const at::Tensor entropy = -(logs.exp() * logs).sum(1);
               return -at::minimum(ratio * advantage, clipped) + 0.5 * (value - gain).square() -
                      0.01 * entropy;
             });
  }
};

// ---- carried state ----

// An RNN whose state goes on from microbatch to microbatch: truncated backpropagation through time.
class CarriedKind final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "carried_kind";
  static constexpr const char* kSummary = "for tests: a state that training carries on";

  void describe(tenon::TorchGraph& g) override {
    const auto x = g.input("seq", {"B", 5, 4}, TENON_CLASS_COMPUTE);
    const auto y = g.input("y", {"B"}, TENON_CLASS_COMPUTE);
    const auto state = g.state("state", {4}, TENON_F64, [](at::Tensor& s) { s.zero_(); });
    const auto in = g.parameter("in", {4, 4}, tenon::Init::constant(0.2));
    const auto again = g.parameter("again", {4, 4}, tenon::Init::constant(0.1));
    const auto out = g.parameter("out", {4}, tenon::Init::constant(0.3));
    g.block("rnn", {x, y}, {g.value("loss", {"B"})}, {in, again, out}, [](const BlockCall& b) {
       at::Tensor h = b.buffer(0).to(b.input(0).scalar_type()).expand({b.input(0).size(0), 4});
       for (int64_t t = 0; t < 5; ++t) {
         h = at::tanh(b.input(0).select(1, t).matmul(b.parameter(0)) + h.matmul(b.parameter(1)));
       }
       b.set_next_buffer(0, h.detach().mean(0));
       return (h.matmul(b.parameter(2)) - b.input(1)).square();
     }).buffers({state});
  }
};

}  // namespace

TENON_PLUGIN(KindSamples,
             NormKind,
             ScaledKind,
             VaeKind,
             GanKind,
             SequenceKind,
             CtcLoss,
             MoleculeKind,
             MoleculeLoss,
             DetectorKind,
             MeanAveragePrecision,
             PolicyKind,
             CarriedKind)
