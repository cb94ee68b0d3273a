// SPDX-License-Identifier: Apache-2.0
//
// Metrics of scored samples. The oracle is scikit-learn: tests/parity/metrics_golden.py wrote the
// values, and says how.
#include "host/plugin/metric_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/train/objective/metric_state.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"

namespace {

// The inputs of one metric, by port; undefined where one is absent.
struct Samples {
  at::Tensor scores;
  at::Tensor labels;
  at::Tensor groups;
  at::Tensor weights;

  Samples part(int64_t begin, int64_t end) const {
    const auto cut = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, begin, end - begin) : all;
    };
    return {cut(scores), cut(labels), cut(groups), cut(weights)};
  }
  int64_t size() const { return scores.size(0); }
};

class Measured {
 public:
  Measured(const std::string& type, const std::string& options)
      : metric_(tenon::make_component("metric", type, options)) {}

  const tenon::MetricProxy& metric() const { return metric_; }
  tenon_exec exec() const { return tenon::make_exec(metric_.instance()); }

  void update(tenon::MetricState& state, const Samples& samples) const {
    std::vector<const tenon_tensor*> inputs;
    for (const tenon::Port& port : metric_.info().ports) {
      const at::Tensor& tensor = port.name == "logits"          ? samples.scores
                                 : port.name == "labels"        ? samples.labels
                                 : port.name == "sample_weight" ? samples.weights
                                                                : samples.groups;
      inputs.push_back(tensor.defined() ? tenon::borrow(tensor) : nullptr);
    }
    state.update(exec(), inputs.data(), inputs.size(), at::kCPU);
  }

  double metric(const std::vector<Samples>& batches) const {
    tenon::MetricState state(metric_);
    for (const Samples& batch : batches) {
      update(state, batch);
    }
    return state.compute(exec()).at(0);
  }

 private:
  tenon::MetricProxy metric_;
};

double metric(const std::string& type,
              const std::vector<Samples>& batches,
              const std::string& options = "{}") {
  return Measured(type, options).metric(batches);
}

nlohmann::json golden_metrics() {
  std::ifstream in(tenon::source_dir() / "tests" / "parity" / "metrics_golden.json");
  return nlohmann::json::parse(in);
}

Samples samples_of(const nlohmann::json& all, const nlohmann::json& c) {
  const auto doubles = [&](const nlohmann::json& name) {
    return at::tensor(all[name.get<std::string>()].get<std::vector<double>>(), at::kDouble);
  };
  return {doubles(c["scores"]),
          doubles(c["labels"]),
          at::tensor(all["groups"].get<std::vector<int64_t>>(), at::kLong),
          c["weighted"] ? doubles("weights") : at::Tensor()};
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<std::string>& all_types() {
  static const std::vector<std::string> types = {
      "auc", "gauc", "logloss", "calibration", "precision_at_k", "recall_at_k", "ndcg_at_k"};
  return types;
}

}  // namespace

TEST_CASE("ranking metrics are scikit-learn's", "[plugins]") {
  const nlohmann::json all = golden_metrics();
  CHECK(all["cases"].size() == 19);
  for (const nlohmann::json& c : all["cases"]) {
    CAPTURE(c.dump());
    const Samples samples = samples_of(all, c);
    const double want = c["figure"];
    const std::string options = c["options"].dump();
    CHECK(metric(c["type"], {samples}, options) == Approx(want).epsilon(1e-12));
    CHECK(metric(c["type"], {samples.part(0, 9), samples.part(9, samples.size())}, options) ==
          Approx(want).epsilon(1e-12));
    Samples column = samples;
    column.scores = column.scores.unsqueeze(1);
    column.labels = column.labels.to(at::kInt);
    CHECK(metric(c["type"], {column}, options) == Approx(want).epsilon(1e-12));
  }
}

TEST_CASE("a ranking metric of merged parts is that of the whole, in any order", "[plugins]") {
  const nlohmann::json all = golden_metrics();
  std::mt19937 random(3);
  for (const nlohmann::json& c : all["cases"]) {
    CAPTURE(c.dump());
    const Samples samples = samples_of(all, c);
    const Measured measured(c["type"], c["options"].dump());
    for (int round = 0; round < 5; ++round) {
      // Cut at random into stretches of one batch and more, which are merged in another order.
      std::vector<tenon::MetricState> stretches;
      for (int64_t begin = 0; begin < samples.size();) {
        const int64_t end = std::min<int64_t>(samples.size(), begin + 1 + random() % 20);
        if (stretches.empty() || random() % 3 != 0) {
          stretches.emplace_back(measured.metric());
        }
        measured.update(stretches.back(), samples.part(begin, end));
        begin = end;
      }
      stretches.emplace_back(measured.metric());  // a rank without data
      std::shuffle(stretches.begin(), stretches.end(), random);
      for (size_t i = 1; i < stretches.size(); ++i) {
        stretches[0].merge(measured.exec(), stretches[i]);
      }
      CHECK(stretches[0].compute(measured.exec()).at(0) ==
            Approx(c["figure"].get<double>()).epsilon(1e-12));
    }
  }
}

TEST_CASE("equal scores count half, and share their places", "[plugins]") {
  Samples samples{at::zeros({4}), at::tensor({1, 0, 0, 1}), at::zeros({4}, at::kLong), {}};
  CHECK(metric("auc", {samples}) == 0.5);
  CHECK(metric("gauc", {samples}) == 0.5);
  CHECK(metric("precision_at_k", {samples}, R"({"k": 1})") == 0.5);
  CHECK(metric("recall_at_k", {samples}, R"({"k": 3})") == 0.75);
  CHECK(metric("ndcg_at_k", {samples}, R"({"k": 1})") == 0.5);
  samples.scores = at::tensor({2.0, 1.0, 1.0, 1.0});
  CHECK(metric("auc", {samples}) == 0.75);
  CHECK(metric("precision_at_k", {samples}, R"({"k": 2})") == Approx((1 + 1.0 / 3) / 2));
}

TEST_CASE("a ranking metric without what it needs is no number", "[plugins]") {
  const Samples none{
      at::zeros({0}), at::zeros({0}), at::zeros({0}, at::kLong), at::zeros({0}, at::kDouble)};
  for (const std::string& type : all_types()) {
    CAPTURE(type);
    CHECK(std::isnan(metric(type, {none})));
  }
  for (const double label : {0.0, 1.0}) {
    const Samples one_class{
        at::tensor({0.1, 0.2}), at::full({2}, label), at::zeros({2}, at::kLong), {}};
    CHECK(std::isnan(metric("auc", {one_class})));
    CHECK(std::isnan(metric("auc", {one_class}, R"({"max_bytes": 0})")));
    CHECK(std::isnan(metric("gauc", {one_class})));
    CHECK(std::isnan(metric("recall_at_k", {one_class})) == (label == 0.0));
    CHECK(std::isnan(metric("ndcg_at_k", {one_class})) == (label == 0.0));
    CHECK(std::isnan(metric("calibration", {one_class})) == (label == 0.0));
    CHECK(metric("precision_at_k", {one_class}, R"({"k": 2})") == label);
  }
  for (const std::string& type : all_types()) {
    CAPTURE(type);
    Samples spoiled{
        at::tensor({0.1, kNan, 0.3}), at::tensor({0, 1, 1}), at::zeros({3}, at::kLong), {}};
    CHECK(std::isnan(metric(type, {spoiled})));
    // But what is ignored may be anything.
    spoiled.labels = at::tensor({0, -100, 1});
    CHECK_FALSE(std::isnan(metric(type, {spoiled})));
  }
  for (const std::string type : {"auc", "gauc", "logloss", "calibration"}) {
    CAPTURE(type);
    const Samples spoiled{at::tensor({0.1, 0.2, 0.3, 0.4}),
                          at::tensor({0, 1, 0, 1}),
                          at::tensor({1, 1, 2, 2}, at::kLong),
                          at::tensor({1.0, 1.0, kNan, 1.0})};
    CHECK(std::isnan(metric(type, {spoiled})));
  }
  CHECK(std::isnan(metric(
      "auc", {{at::tensor({0.1, kNan}), at::tensor({0, 1}), {}, {}}}, R"({"max_bytes": 0})")));
}

TEST_CASE("a user with one class counts for nothing in gauc", "[plugins]") {
  const Samples samples{at::tensor({0.9, 0.1, 0.5, 0.6, 0.7}),
                        at::tensor({1, 0, 1, 1, 0}),
                        at::tensor({1, 1, 2, 3, 3}, at::kLong),
                        {}};
  CHECK(metric("gauc", {samples}) == 0.5);  // 1 of user 1, 0 of user 3
}

TEST_CASE("weights and groups may be one for each sample of several labels", "[plugins]") {
  const Samples samples{at::tensor({0.9, 0.1, 0.2, 0.8}).reshape({2, 2}),
                        at::tensor({1, 0, 1, 0}).reshape({2, 2}),
                        at::tensor({1, 2}, at::kLong),
                        at::tensor({3.0, 1.0})};
  CHECK(metric("gauc", {samples}) == 0.75);
  CHECK(metric("auc", {samples}) ==
        Approx((3.0 * 3 + 3 * 1 + 1 * 3 + 0) / 16));  // by pairs, 0.2 wins over 0.1
}

TEST_CASE("auc beyond its memory is within 1e-3 of the exact one", "[plugins]") {
  // 300,000 samples in batches of 3,000: calibrated clicks of several rates, scores in a narrow
  // range near 1, scores that grow from batch to batch, and scores with many ties.
  const at::Generator generator = at::detail::createCPUGenerator(7);
  constexpr int64_t kSamples = 300000;
  const at::Tensor z = at::randn({kSamples}, generator, at::kDouble);
  const at::Tensor noise = at::rand({kSamples}, generator, at::kDouble);
  const auto clicks = [&](const at::Tensor& logits) {
    return noise.lt(logits.sigmoid()).to(at::kLong);
  };
  const at::Tensor trend = at::arange(kSamples, at::kDouble) / 15000.0;
  const std::vector<std::pair<const char*, Samples>> cases = {
      {"50%", {z, clicks(z), {}, {}}},
      {"1%", {z - 5.0, clicks(z - 5.0), {}, {}}},
      {"0.05%", {z - 8.1, clicks(z - 8.1), {}, {}}},
      {"badly calibrated", {z * 1e-4 + 15.0, clicks(z - 7.0), {}, {}}},
      {"drifting", {z + trend, clicks(z - 3.0), {}, {}}},
      {"ties", {(z * 4.0).round(), clicks(z - 3.0), {}, {}}}};
  for (const auto& [name, samples] : cases) {
    CAPTURE(name);
    std::vector<Samples> batches;
    for (int64_t begin = 0; begin < kSamples; begin += 3000) {
      batches.push_back(samples.part(begin, begin + 3000));
    }
    const double exact = metric("auc", batches);
    for (const char* const options : {R"({"max_bytes": 0})", R"({"max_bytes": 240000})"}) {
      CAPTURE(options);
      CHECK(metric("auc", batches, options) == Approx(exact).margin(5e-4));
    }
    // Of two ranks.
    const Measured measured("auc", R"({"max_bytes": 0})");
    std::vector<tenon::MetricState> ranks;
    for (size_t rank : {0, 1}) {
      ranks.emplace_back(measured.metric());
      for (size_t i = rank; i < batches.size(); i += 2) {
        measured.update(ranks[rank], batches[i]);
      }
    }
    ranks[0].merge(measured.exec(), ranks[1]);
    CHECK(ranks[0].compute(measured.exec()).at(0) == Approx(exact).margin(5e-4));
  }
}

TEST_CASE("auc is exact as long as its memory suffices", "[plugins]") {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  const at::Tensor scores = at::randn({40000}, generator, at::kDouble);
  const at::Tensor labels =
      at::randn({40000}, generator, at::kDouble).add(scores).gt(0).to(at::kLong);
  const Samples samples{scores, labels, {}, {}};
  const std::vector<Samples> batches = {samples.part(0, 300), samples.part(300, 40000)};
  const double exact = metric("auc", batches);
  // 24 bytes a sample.
  CHECK(metric("auc", batches, R"({"max_bytes": 960000})") == exact);
  CHECK(metric("auc", batches, R"({"max_bytes": 0})") != exact);
  // Each evaluation starts with all of its memory.
  const Measured measured("auc", R"({"max_bytes": 960000})");
  for (int i = 0; i < 3; ++i) {
    CHECK(measured.metric(batches) == exact);
  }
}

TEST_CASE("a label that is NaN makes a ranking metric NaN", "[plugins]") {
  const Samples samples{
      at::tensor({0.1, 0.2, 0.3}), at::tensor({1.0, kNan, 0.0}), at::zeros({3}, at::kLong), {}};
  for (const char* const options : {"{}", R"({"max_bytes": 0})"}) {
    CHECK(std::isnan(metric("auc", {samples}, options)));
  }
  CHECK(std::isnan(metric("gauc", {samples})));
  CHECK(std::isnan(metric("logloss", {samples})));
}

TEST_CASE("metrics over groups keep to the first samples when their memory is full", "[plugins]") {
  const nlohmann::json all = golden_metrics();
  const Samples samples = samples_of(
      all, nlohmann::json{{"scores", "logits"}, {"labels", "labels"}, {"weighted", false}});
  for (const char* type : {"gauc", "precision_at_k", "recall_at_k", "ndcg_at_k"}) {
    CAPTURE(type);
    const bool has_k = std::string(type) != "gauc";
    const std::string whole = has_k ? R"({"k": 2})" : "{}";
    const std::string bound = has_k ? R"({"k": 2, "max_bytes": 640})" : R"({"max_bytes": 640})";
    // 32 bytes a sample: room for 20, in the second of four batches.
    const double first = metric(type,
                                {samples.part(0, 12),
                                 samples.part(12, 24),
                                 samples.part(24, 36),
                                 samples.part(36, samples.size())},
                                bound);
    CHECK(first == metric(type, {samples.part(0, 20)}, whole));
    CHECK(first != metric(type, {samples}, whole));
  }
}

TEST_CASE("ranking metrics name shapes that do not fit", "[plugins]") {
  for (const std::string& type : all_types()) {
    CAPTURE(type);
    const Samples two_scores{
        at::zeros({3, 2}), at::zeros({3}, at::kLong), at::zeros({3}, at::kLong), {}};
    CHECK_THAT(tenon::error_of([&] { metric(type, {two_scores}); }),
               tenon::contains_text("logits of shape [3, 2] and labels of shape [3] do not match"));
    const Samples few{
        at::zeros({3}), at::zeros({3}, at::kLong), at::zeros({2}, at::kLong), at::zeros({2})};
    CHECK_THAT(tenon::error_of([&] { metric(type, {few}); }),
               tenon::contains_text("of shape [2] does not match labels of shape [3]"));
  }
  CHECK_THAT(
      tenon::error_of([&] {
        metric("ndcg_at_k", {{at::zeros({2}), at::tensor({1, -2}), at::zeros({2}, at::kLong), {}}});
      }),
      tenon::contains_text("is negative (expected labels of at least 0)"));
}
