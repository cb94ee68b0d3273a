// SPDX-License-Identifier: Apache-2.0
//
// Tables, lookups and an optimizer that is written here; against libtorch's embedding.
#include "host/embedding/table_set.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

constexpr uint32_t kDim = 4;

// value -= lr * grad; and it notes what it was asked.
struct TestOptimizer {
  std::mutex mutex;
  std::vector<int64_t> ids;
  std::map<int64_t, int64_t> counts;
  int64_t step = 0;
  uint32_t narrow = TENON_NARROW_REFUSED;

  static tenon_status* describe(void* self, tenon_sparse_optimizer_info* out) {
    out->devices = 1U << TENON_CPU;
    out->narrow = static_cast<TestOptimizer*>(self)->narrow;
    return nullptr;
  }
  static tenon_status* update(void* self, const tenon_exec*, const tenon_sparse_update_args* args) {
    auto& test = *static_cast<TestOptimizer*>(self);
    const std::lock_guard lock(test.mutex);
    for (size_t i = 0; i < args->n; ++i) {
      auto* const value = static_cast<float*>(
          tenon_row_field(args->layout, args->rows[i], args->layout->value_offset));
      for (uint32_t d = 0; d < args->layout->dim; ++d) {
        value[d] -= static_cast<float>(*args->lr) * args->grads[i * args->layout->dim + d];
      }
      test.ids.push_back(args->ids[i]);
      test.counts[args->ids[i]] = args->counts[i];
    }
    test.step = *args->step;
    return nullptr;
  }
  SparseOptimizerProxy proxy() {
    static const tenon_sparse_optimizer table = {
        sizeof(tenon_sparse_optimizer), &describe, &update};
    return SparseOptimizerProxy(
        made_instance("sparse_optimizer", TENON_SPARSE_OPTIMIZER_ID, &table, this));
  }
};

TableUse use_of(TestOptimizer& test, const std::string& name, double lr = 1) {
  TableSpec spec;
  spec.name = name;
  spec.dim = kDim;
  spec.init = {TENON_INIT_UNIFORM, -1, 1};
  spec.seed = 11;
  return {.spec = spec, .optimizer = test.proxy(), .lr = lr};
}

FieldInfo field(const std::string& name, uint32_t dtype, size_t num_axes) {
  FieldInfo info;
  info.name = name;
  info.dtype = dtype;
  info.axes.resize(num_axes);
  return info;
}

Batch batch_of(const std::vector<std::pair<std::string, at::Tensor>>& fields, int64_t samples) {
  Batch batch;
  std::vector<FieldInfo> schema;
  for (const auto& [name, tensor] : fields) {
    const bool is_float = tensor.is_floating_point();
    schema.push_back(
        field(name, is_float ? TENON_F32 : TENON_I64, static_cast<size_t>(tensor.dim())));
    batch.fields.push_back(tensor);
  }
  batch.schema = std::make_shared<const std::vector<FieldInfo>>(std::move(schema));
  batch.samples = samples;
  return batch;
}

at::Tensor longs(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

at::Tensor row_of(const Table& table, int64_t id) {
  int64_t row = 0;
  table.find(std::span(&id, 1), std::span(&row, 1));
  at::Tensor value = at::empty({kDim});
  table.read(std::span(&row, 1), value.data_ptr<float>(), kDim);
  return value;
}

const CallPoint kFirst{.step = 1, .microbatch = 0, .is_train = true};

LookupUse lookup(const std::string& column, uint32_t pooling = TENON_POOL_NONE, size_t table = 0) {
  return {.value = column,
          .column = column,
          .table = table,
          .pooling = {.kind = pooling, .length = 0, .dim = kDim}};
}

std::vector<TableUse> one(TableUse use) {
  std::vector<TableUse> uses;
  uses.push_back(std::move(use));
  return uses;
}

TEST_CASE("a step updates each row once by the sum of its gradients", "[embedding]") {
  TestOptimizer test;
  TableSet tables(
      one(use_of(test, "t", 0.5)), {lookup("a"), lookup("b", TENON_POOL_SUM)}, ExecBase{});
  const std::vector<Batch> batches = {
      batch_of({{"a", longs({5, 5, 9})},
                {"b.values", longs({9, 5, 1})},
                {"b.offsets", longs({0, 1, 1, 3})}},
               3),
      batch_of({{"a", longs({1, 2})}, {"b.values", longs({9})}, {"b.offsets", longs({0, 0, 1})}},
               2)};
  at::manual_seed(1);
  std::map<int64_t, at::Tensor> sums;
  std::map<int64_t, at::Tensor> before;
  for (const Batch& batch : batches) {
    const auto pass = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
    const at::Tensor a = pass->rows(0, {});
    const at::Tensor b = pass->rows(1, {});
    const at::Tensor grad_a = at::randn_like(a);
    const at::Tensor grad_b = at::randn_like(b);
    const at::Tensor& ids_a = batch.fields[0];
    const at::Tensor& ids_b = batch.fields[1];
    const at::Tensor& offsets = batch.fields[2];
    for (int64_t i = 0; i < ids_a.numel(); ++i) {
      const auto id = ids_a[i].item<int64_t>();
      before[id] = row_of(tables.table(0), id);
      CHECK(a[i].equal(before[id]));
      sums.try_emplace(id, at::zeros({kDim}));
      sums[id] = sums[id] + grad_a[i];
    }
    for (int64_t s = 0; s + 1 < offsets.numel(); ++s) {
      for (auto e = offsets[s].item<int64_t>(); e < offsets[s + 1].item<int64_t>(); ++e) {
        const auto id = ids_b[e].item<int64_t>();
        before[id] = row_of(tables.table(0), id);
        sums.try_emplace(id, at::zeros({kDim}));
        sums[id] = sums[id] + grad_b[s];
      }
    }
    pass->take_grad(1, grad_b);
    pass->take_grad(0, grad_a);
  }
  tables.finish_gradients(2.0);
  CHECK(tables.non_finite().empty());
  tables.update(0.1, kFirst);
  tables.end_step(1);
  CHECK(test.step == 1);
  CHECK(test.ids.size() == 4);  // 5, 9, 1, 2: each once
  CHECK(test.counts == std::map<int64_t, int64_t>{{1, 2}, {2, 1}, {5, 3}, {9, 3}});
  for (const auto& [id, sum] : sums) {
    CAPTURE(id);
    CHECK(
        at::allclose(row_of(tables.table(0), id), before[id] - 0.5 * 0.1 * 2.0 * sum, 1e-6, 1e-6));
  }
}

TEST_CASE("reading inserts nothing, and gives what is missing", "[embedding]") {
  TestOptimizer test;
  TableUse use = use_of(test, "t");
  use.spec.missing = 0.25;
  TableSet tables(one(std::move(use)), {lookup("a")}, ExecBase{});
  const Batch trained = batch_of({{"a", longs({1})}}, 1);
  const auto pass = tables.begin(&trained, kFirst, TableSet::Lookup::kTrain);
  const at::Tensor value = pass->rows(0, {});
  pass->take_grad(0, {});
  tables.finish_gradients(1);
  tables.update(1, kFirst);
  tables.end_step(1);
  CHECK(test.ids.empty());  // no gradient, no update
  const Batch read = batch_of({{"a", longs({1, 2})}}, 2);
  const auto later =
      tables.begin(&read, {.step = 1, .microbatch = 0, .is_train = false}, TableSet::Lookup::kRead);
  const at::Tensor seen = later->rows(0, {});
  CHECK(seen[0].equal(value[0]));
  CHECK(seen[1].eq(0.25).all().item<bool>());
  CHECK(tables.table(0).num_rows() == 1);
}

// What previews of a step's microbatches read, and what training then reads. Column "a" has ids,
// and a second lookup gets each id plus 1.
struct PreviewedStep {
  std::vector<at::Tensor> previewed;
  std::vector<at::Tensor> trained;
  bool has_changed = false;  // by a preview

  PreviewedStep(TableSet& tables, const std::vector<Batch>& batches, uint64_t step) {
    const auto run = [&](size_t m, TableSet::Lookup how, std::vector<at::Tensor>& read) {
      const CallPoint point{.step = step, .microbatch = static_cast<uint32_t>(m), .is_train = true};
      const auto pass = tables.begin(&batches[m], point, how);
      read.push_back(pass->rows(0, {}).clone());
      read.push_back(pass->rows(1, batches[m].fields[0] + 1).clone());
      pass->take_grad(0, {});
      pass->take_grad(1, {});
    };
    const int64_t num_rows = tables.table(0).num_rows();
    const int64_t num_waiting = tables.table(0).num_waiting();
    for (size_t m = 0; m < batches.size(); ++m) {
      run(m, TableSet::Lookup::kPreview, previewed);
    }
    has_changed =
        tables.table(0).num_rows() != num_rows || tables.table(0).num_waiting() != num_waiting;
    for (size_t m = 0; m < batches.size(); ++m) {
      run(m, TableSet::Lookup::kTrain, trained);
    }
    tables.send_gradients();
    tables.finish_gradients(1);
    tables.update(1, {.step = step, .microbatch = 0, .is_train = true});
    tables.end_step(step);
  }
  bool is_equal() const {
    return std::ranges::equal(previewed, trained, [](const at::Tensor& a, const at::Tensor& b) {
      return at::equal(a, b);
    });
  }
};

TEST_CASE("a preview reads what training will read, and changes nothing", "[embedding]") {
  const uint32_t dtype = GENERATE(uint32_t{TENON_F32}, uint32_t{TENON_BF16}, uint32_t{TENON_F16});
  const uint32_t size = GENERATE(1u, 2u);
  CAPTURE(dtype, size);
  LookupUse made = lookup("made");
  made.column.clear();
  const std::vector<Batch> batches = {batch_of({{"a", longs({1, 20, 30})}}, 3),
                                      batch_of({{"a", longs({20, 40, 40})}}, 3),
                                      batch_of({{"a", longs({30, 20, 50})}}, 3)};
  const auto run = [&](Group* ranks, std::vector<PreviewedStep>& steps) {
    TestOptimizer test;
    test.narrow = TENON_NARROW_MASTER;
    TableUse use = use_of(test, "t");
    use.spec.value_dtype = dtype;
    use.spec.missing = 0.25;
    use.spec.admit.count = 2 * static_cast<int64_t>(size);  // both ranks have these batches
    TableSet tables(one(std::move(use)), {lookup("a"), made}, ExecBase{}, ranks);
    for (uint64_t step = 1; step <= 2; ++step) {
      steps.emplace_back(tables, batches, step);
    }
  };
  std::vector<std::vector<PreviewedStep>> by_rank(size);
  if (size == 1) {
    run(nullptr, by_rank[0]);
  } else {
    run_ranks(size, [&](RankGroups& ranks) { run(&ranks.rows(), by_rank[ranks.role().rank()]); });
  }
  for (const std::vector<PreviewedStep>& steps : by_rank) {
    REQUIRE(steps.size() == 2);
    for (const PreviewedStep& step : steps) {
      CHECK_FALSE(step.has_changed);
      CHECK(step.is_equal());
    }
    // Of microbatch 0, no id has a row yet. Microbatch 1 admits 20 and 40, the last one 30.
    const std::vector<at::Tensor>& read = steps[0].previewed;
    const auto is_missing = [](const at::Tensor& row) { return row.eq(0.25).all().item<bool>(); };
    CHECK(is_missing(read[0]));
    CHECK_FALSE(is_missing(read[2][0]));
    CHECK_FALSE(is_missing(read[2][1]));
    CHECK_FALSE(is_missing(read[4][0]));
    CHECK(is_missing(read[4][2]));
    CHECK_FALSE(is_missing(steps[1].previewed[0]));
  }
}

TEST_CASE("reading between the microbatches of a step leaves its gradients alone", "[embedding]") {
  TestOptimizer test;
  TableSet tables(one(use_of(test, "t")), {lookup("a")}, ExecBase{});
  const Batch batch = batch_of({{"a", longs({1, 2})}}, 2);
  const auto pass = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
  const at::Tensor before = pass->rows(0, {});
  pass->take_grad(0, at::ones({2, kDim}));
  const Batch other = batch_of({{"a", longs({2, 3, 3})}}, 3);
  const auto later = tables.begin(&other, kFirst, TableSet::Lookup::kRead);
  later->rows(0, {});
  tables.finish_gradients(1);
  tables.update(1, kFirst);
  tables.end_step(1);
  CHECK(row_of(tables.table(0), 1).equal(before[0] - 1));
  CHECK(row_of(tables.table(0), 2).equal(before[1] - 1));
}

TEST_CASE("ids may be a value that a block makes", "[embedding]") {
  TestOptimizer test;
  LookupUse use = lookup("made", TENON_POOL_MEAN);
  use.column = "";
  TableSet tables(one(use_of(test, "t")), {lookup("a"), use}, ExecBase{});
  const Batch batch = batch_of({{"a", longs({1, 2})}}, 2);
  const auto pass = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
  const at::Tensor a = pass->rows(0, {});
  const at::Tensor made = pass->rows(1, longs({1, 2, 2, 2}).view({2, 2}));
  CHECK(at::allclose(made[0], (a[0] + a[1]) / 2));
  CHECK(at::allclose(made[1], a[1]));
  pass->take_grad(1, at::ones({2, kDim}));
  pass->take_grad(0, {});
  tables.finish_gradients(1);
  tables.update(1, kFirst);
  tables.end_step(1);
  CHECK(at::allclose(row_of(tables.table(0), 1), a[0] - 0.5));
  CHECK(at::allclose(row_of(tables.table(0), 2), a[1] - 1.5));
}

TEST_CASE("the gradient of a row is cut to the largest norm", "[embedding]") {
  TestOptimizer test;
  TableUse use = use_of(test, "t");
  use.clip_row_norm = 1.0;
  TableSet tables(one(std::move(use)), {lookup("a")}, ExecBase{});
  const Batch batch = batch_of({{"a", longs({1, 2})}}, 2);
  const auto pass = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
  const at::Tensor before = pass->rows(0, {});
  at::Tensor grad = at::zeros({2, kDim});
  grad[0].fill_(3);    // norm 6
  grad[1].fill_(0.1);  // norm 0.2
  pass->take_grad(0, grad);
  tables.finish_gradients(1);
  tables.update(1, kFirst);
  tables.end_step(1);
  CHECK(at::allclose(row_of(tables.table(0), 1), before[0] - 0.5));
  CHECK(at::allclose(row_of(tables.table(0), 2), before[1] - 0.1));
}

TEST_CASE("a gradient that is not finite is told with its row, and may be forgotten",
          "[embedding]") {
  TestOptimizer test;
  TableSet tables(one(use_of(test, "t")), {lookup("a")}, ExecBase{});
  const Batch batch = batch_of({{"a", longs({1, 42})}}, 2);
  const auto pass = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
  const at::Tensor before = pass->rows(0, {});
  at::Tensor grad = at::ones({2, kDim});
  grad[1][2] = std::numeric_limits<float>::quiet_NaN();
  pass->take_grad(0, grad);
  tables.finish_gradients(1);
  CHECK(tables.non_finite() == "the gradient of row 42 of table 't'");
  tables.end_step(1);  // without an update
  CHECK(row_of(tables.table(0), 1).equal(before[0]));
  const auto later = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
  later->rows(0, {});
  later->take_grad(0, at::ones({2, kDim}));
  tables.finish_gradients(1);
  CHECK(tables.non_finite().empty());
}

TEST_CASE("a rank without samples has no rows and no gradients", "[embedding]") {
  TestOptimizer test;
  TableSet tables(one(use_of(test, "t")), {lookup("a")}, ExecBase{});
  const auto pass = tables.begin(nullptr, kFirst, TableSet::Lookup::kTrain);
  CHECK_FALSE(pass->rows(0, {}).defined());
  pass->take_grad(0, {});
  tables.finish_gradients(1);
  tables.update(1, kFirst);
  tables.end_step(1);
  CHECK(test.ids.empty());
}

std::string refusal(const Batch& batch, uint32_t pooling = TENON_POOL_SUM) {
  TestOptimizer test;
  TableSet tables(one(use_of(test, "t")), {lookup("a", pooling)}, ExecBase{});
  try {
    const auto pass = tables.begin(&batch, kFirst, TableSet::Lookup::kTrain);
  } catch (const Error& error) {
    CHECK(tables.table(0).num_rows() == 0);
    return error.what();
  }
  return "";
}

TEST_CASE("ids that contradict themselves are refused", "[embedding]") {
  const auto ragged = [](const std::vector<int64_t>& values, const std::vector<int64_t>& offsets) {
    return batch_of({{"a.values", longs(values)}, {"a.offsets", longs(offsets)}}, 2);
  };
  CHECK(refusal(ragged({1, 2}, {0, 1, 2})).empty());
  CHECK_THAT(refusal(ragged({1, 2}, {0, 3, 2})),
             Catch::Contains("[table.bad_ids]") && Catch::Contains("'a'") &&
                 Catch::Contains("the offset 2 at sample 2 after 3"));
  CHECK_THAT(refusal(ragged({1, 2}, {1, 1, 2})), Catch::Contains("the offset 1 at sample 0"));
  CHECK_THAT(refusal(ragged({1, 2, 3}, {0, 1, 2})),
             Catch::Contains("3 entries, and offsets that end at 2"));
  CHECK_THAT(refusal(ragged({1, 2}, {0, 2})), Catch::Contains("2 offsets in a batch of 2 samples"));
  Batch weighted = ragged({1, 2}, {0, 1, 2});
  std::vector<FieldInfo> schema = *weighted.schema;
  schema.push_back(field("a.weights", TENON_F32, 1));
  weighted.schema = std::make_shared<const std::vector<FieldInfo>>(schema);
  weighted.fields.push_back(at::ones({3}));
  CHECK_THAT(refusal(weighted, TENON_POOL_WEIGHTED_SUM),
             Catch::Contains("3 weights for 2 entries"));
}

TEST_CASE("an optimizer of fp32 alone is not given narrow values", "[embedding]") {
  TestOptimizer test;
  TableUse use = use_of(test, "t");
  use.spec.value_dtype = TENON_BF16;
  CHECK_THROWS_WITH(TableSet(one(std::move(use)), {lookup("a")}, ExecBase{}),
                    Catch::Contains("[table.narrow_values]"));
}

TEST_CASE("tables that are saved and loaded go on with the same bits", "[embedding]") {
  TestOptimizer test;
  const auto step = [](TableSet& tables, uint64_t number) {
    const CallPoint point{.step = number, .microbatch = 0, .is_train = true};
    const auto first = static_cast<int64_t>(number);
    const Batch batch = batch_of({{"a", longs({first, first + 1, 3})}}, 3);
    const auto pass = tables.begin(&batch, point, TableSet::Lookup::kTrain);
    const at::Tensor value = pass->rows(0, {});
    pass->take_grad(0, value * 0.3);
    tables.finish_gradients(1);
    tables.update(1, point);
    tables.end_step(number);
  };
  TableSet whole(one(use_of(test, "t")), {lookup("a")}, ExecBase{});
  StateTree saved;
  for (uint64_t number = 1; number <= 6; ++number) {
    step(whole, number);
    if (number == 3) {
      whole.snapshot(saved, "tables");
    }
  }
  TableSet loaded(one(use_of(test, "t")), {lookup("a")}, ExecBase{});
  loaded.load(saved, "tables");
  for (uint64_t number = 4; number <= 6; ++number) {
    step(loaded, number);
  }
  StateTree of_whole;
  StateTree of_loaded;
  whole.snapshot(of_whole, "tables");
  loaded.snapshot(of_loaded, "tables");
  CHECK(of_whole == of_loaded);
  CHECK(test.step == 6);
}

TEST_CASE("ranks share out rows, and each has what one rank with all batches has", "[embedding]") {
  const uint32_t size = GENERATE(2u, 3u);
  CAPTURE(size);
  // Microbatches of rank r; of the last rank the second one is without samples. Ids are shared.
  const auto batch = [](uint32_t r, uint64_t microbatch) {
    const auto base = static_cast<int64_t>(r + 2 * microbatch);
    return batch_of({{"a", longs({base % 3, 5 + base, 5 + base})},
                     {"b.values", longs({base % 2, 5 + base})},
                     {"b.offsets", longs({0, 1, 1, 2})}},
                    3);
  };
  const std::vector<LookupUse> uses = {lookup("a"), lookup("b", TENON_POOL_SUM, 1)};
  LookupUse made = lookup("made");
  made.column.clear();
  const auto both = [&](TestOptimizer& test) {
    std::vector<TableUse> tables;
    tables.push_back(use_of(test, "t", 0.5));
    tables.push_back(use_of(test, "u", 0.25));
    tables[1].clip_row_norm = 1.0;
    return tables;
  };
  std::vector<LookupUse> all = uses;
  all.push_back(made);
  // Gradients depend on the rows, so that a wrong one shows.
  const auto run = [&](TableSet& tables, const Batch* one, uint64_t microbatch) {
    const auto pass =
        tables.begin(one,
                     {.step = 1, .microbatch = static_cast<uint32_t>(microbatch), .is_train = true},
                     TableSet::Lookup::kTrain);
    const at::Tensor a = pass->rows(0, {});
    const at::Tensor b = pass->rows(1, {});
    const at::Tensor c = pass->rows(2, one != nullptr ? one->fields[0] + 1 : at::Tensor());
    pass->take_grad(0, one != nullptr ? a * 2 : at::Tensor());
    pass->take_grad(1, one != nullptr ? b * 3 : at::Tensor());
    pass->take_grad(2, one != nullptr ? c + 1 : at::Tensor());
  };
  const auto is_idle = [size](uint32_t r, uint64_t microbatch) {
    return r + 1 == size && microbatch == 1;
  };
  const auto finish = [](TableSet& tables, uint64_t step) {
    tables.send_gradients();
    tables.finish_gradients(0.5);
    tables.update(1, {.step = step, .microbatch = 0, .is_train = true});
    tables.end_step(step);
  };
  TestOptimizer alone_test;
  TableSet alone(both(alone_test), all, ExecBase{});
  for (uint64_t step = 1; step <= 2; ++step) {
    for (uint64_t microbatch = 0; microbatch < 2; ++microbatch) {
      for (uint32_t r = 0; r < size; ++r) {
        if (!is_idle(r, microbatch)) {
          const Batch one = batch(r, microbatch);
          run(alone, &one, microbatch);
        }
      }
    }
    finish(alone, step);
  }
  std::vector<TestOptimizer> tests(size);
  std::vector<std::unique_ptr<TableSet>> sets(size);
  std::vector<at::Tensor> read(size);
  run_ranks(size, [&](RankGroups& ranks) {
    const uint32_t r = ranks.role().rank();
    sets[r] = std::make_unique<TableSet>(both(tests[r]), all, ExecBase{}, &ranks.rows());
    for (uint64_t step = 1; step <= 2; ++step) {
      for (uint64_t microbatch = 0; microbatch < 2; ++microbatch) {
        const Batch one = batch(r, microbatch);
        run(*sets[r], is_idle(r, microbatch) ? nullptr : &one, microbatch);
      }
      finish(*sets[r], step);
    }
    // Evaluation: an id that is nowhere, and ids of other ranks; the last rank takes no part.
    const Batch eval = batch_of(
        {{"a", longs({5, 1234})}, {"b.values", longs({0})}, {"b.offsets", longs({0, 1, 1})}}, 2);
    const auto pass =
        sets[r]->begin(r + 1 == size ? nullptr : &eval, kFirst, TableSet::Lookup::kRead);
    read[r] = pass->rows(0, {});
  });
  for (size_t t = 0; t < 2; ++t) {
    CAPTURE(t);
    int64_t num_rows = 0;
    for (uint32_t r = 0; r < size; ++r) {
      for (const int64_t id : sets[r]->table(t).ids()) {
        CHECK(RowExchange::owner_of(id, size) == r);
        CHECK(at::allclose(row_of(sets[r]->table(t), id), row_of(alone.table(t), id), 1e-6, 1e-7));
        ++num_rows;
      }
    }
    CHECK(num_rows == alone.table(t).num_rows());
  }
  std::map<int64_t, int64_t> counts;
  for (const TestOptimizer& test : tests) {
    CHECK(test.step == (test.ids.empty() ? 0 : 2));
    counts.insert(test.counts.begin(), test.counts.end());
  }
  CHECK(counts.size() == alone_test.counts.size());
  CHECK_FALSE(read[size - 1].defined());
  CHECK(at::allclose(read[0][0], row_of(alone.table(0), 5), 1e-6, 1e-7));
  CHECK(at::equal(read[0][1], at::zeros({kDim})));
}

}  // namespace
}  // namespace tenon
