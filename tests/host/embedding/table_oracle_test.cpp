// SPDX-License-Identifier: Apache-2.0
//
// A table against std::unordered_map, which holds what each id's row has to be, under random calls:
// insertions, lookups, updates, evictions, saving and loading. TENON_TABLE_OPERATIONS is how many
// ids go through it, for long runs; a few tests' worth of seconds by default.

#include "host/embedding/row_values.hpp"
#include "host/embedding/table.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kFewOperations = 150'000;

int64_t num_operations() {
  const char* wanted = std::getenv("TENON_TABLE_OPERATIONS");
  return wanted != nullptr ? std::atoll(wanted) : kFewOperations;
}

struct TrueRow {
  std::vector<float> value;
  float slot = 0.5F;
  int64_t count = 0;
  int64_t last_step = 0;
};

class Oracle {
 public:
  explicit Oracle(const TableSpec& spec) : spec_(spec) {}

  // What the row of an id must be after it was seen so often; null if it is not admitted.
  TrueRow* see(int64_t id, int64_t count, int64_t step) {
    const auto found = rows_.find(id);
    if (found != rows_.end()) {
      return &found->second;
    }
    int64_t& seen = seen_[id];
    if (seen + count < spec_.admit.count) {
      seen += count;
      return nullptr;
    }
    TrueRow row;
    row.value.resize(spec_.dim);
    fill_row_values(spec_.init, spec_.seed, id, row.value);
    row.count = seen;
    row.last_step = step;
    seen_.erase(id);
    return &rows_.emplace(id, row).first->second;
  }

  std::unordered_map<int64_t, TrueRow>& rows() { return rows_; }

 private:
  TableSpec spec_;
  std::unordered_map<int64_t, TrueRow> rows_;
  std::unordered_map<int64_t, int64_t> seen_;
};

float* field(const Table& table, int64_t row, int32_t offset) {
  return static_cast<float*>(tenon_row_field(&table.layout(), row, offset));
}

void check_all(const Table& table, Oracle& oracle) {
  REQUIRE(table.num_rows() == static_cast<int64_t>(oracle.rows().size()));
  const std::vector<int64_t> ids = table.ids();
  REQUIRE(ids.size() == oracle.rows().size());
  std::vector<int64_t> rows(ids.size());
  table.find(ids, rows);
  std::vector<float> values(ids.size() * table.spec().dim);
  table.read(rows, values.data(), table.spec().dim);
  std::vector<bool> is_used(1 + static_cast<size_t>(*std::ranges::max_element(rows)));
  int64_t wrong = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto truth = oracle.rows().find(ids[i]);
    if (truth == oracle.rows().end() || rows[i] < 0) {
      ++wrong;
      continue;
    }
    wrong += is_used[static_cast<size_t>(rows[i])] ? 1 : 0;  // two ids, one row
    is_used[static_cast<size_t>(rows[i])] = true;
    const TrueRow& row = truth->second;
    const Table::RowInfo info = table.info(rows[i]);
    wrong += std::memcmp(row.value.data(),
                         values.data() + i * table.spec().dim,
                         row.value.size() * sizeof(float)) != 0 ||
                     *field(table, rows[i], table.layout().slot_offsets[0]) != row.slot ||
                     info.count != row.count || info.last_step != row.last_step
                 ? 1
                 : 0;
  }
  CHECK(wrong == 0);
}

// Ids of a step: many that came before, some that are new, from a range that drifts.
std::vector<int64_t> ids_of_step(std::mt19937_64& random, int64_t step) {
  std::unordered_set<int64_t> ids;
  const auto n = static_cast<size_t>(1 + random() % 3000);
  const int64_t spread = 200'000;
  while (ids.size() < n) {
    const auto near = static_cast<int64_t>(random() % (1 + random() % spread));
    ids.insert(static_cast<int64_t>(static_cast<uint64_t>(step * 50 + near) * 0x9E3779B97F4A7C15));
  }
  return {ids.begin(), ids.end()};
}

void run_against_map(TableSpec spec, uint64_t seed) {
  spec.slots = {{.name = "sum", .is_scalar = true, .dtype = TENON_F32, .init = 0.5}};
  auto table = std::make_unique<Table>(spec);
  Oracle oracle(spec);
  std::mt19937_64 random(seed);
  const int64_t wanted = num_operations();
  const bool evicts = spec.evict.unseen_steps || spec.evict.max_rows;
  // In a long run, looking at all rows in each step would take most of the time.
  const int64_t look_every = wanted > kFewOperations ? 97 : 1;
  const auto may_go = [&](const TrueRow& row, int64_t step) {
    return (spec.evict.unseen_steps && step - row.last_step >= *spec.evict.unseen_steps) ||
           (spec.evict.max_rows && row.last_step < step);
  };
  int64_t done = 0;
  int64_t gone = 0;
  int64_t went = 0;
  for (int64_t step = 1; done < wanted || (step - 1) % look_every != 0; ++step) {
    const std::vector<int64_t> ids = ids_of_step(random, step);
    done += static_cast<int64_t>(ids.size());
    std::vector<int64_t> rows(ids.size());
    // Lookups first: they must change nothing. A row that went since all were looked at has gone
    // from the map too.
    table->find(ids, rows);
    int64_t wrong = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto entry = oracle.rows().find(ids[i]);
      if (rows[i] < 0 && entry != oracle.rows().end()) {
        wrong += may_go(entry->second, step - 1) ? 0 : 1;
        oracle.rows().erase(entry);
        ++went;
      } else if (rows[i] >= 0 && entry == oracle.rows().end()) {
        ++wrong;
      }
    }
    std::vector<int64_t> counts(ids.size());
    for (int64_t& count : counts) {
      count = 1 + static_cast<int64_t>(random() % 3);
    }
    table->find_or_insert(ids, counts, rows);
    std::vector<int64_t> updated;
    std::vector<int64_t> updated_counts;
    for (size_t i = 0; i < ids.size(); ++i) {
      TrueRow* truth = oracle.see(ids[i], counts[i], step);
      wrong += (rows[i] >= 0) != (truth != nullptr) ? 1 : 0;
      if (truth == nullptr || rows[i] < 0) {
        continue;
      }
      // A step that was skipped updates nothing, but its rows are there.
      if (step % 11 == 0) {
        continue;
      }
      updated.push_back(rows[i]);
      updated_counts.push_back(counts[i]);
      truth->count += counts[i];
      truth->last_step = step;
      truth->slot += 1;
      *field(*table, rows[i], table->layout().slot_offsets[0]) += 1;
      for (size_t k = 0; k < truth->value.size(); ++k) {
        truth->value[k] -= 0.125F;
        field(*table, rows[i], 0)[k] -= 0.125F;
      }
    }
    CHECK(wrong == 0);
    table->note_update(updated, updated_counts, step);
    table->end_step(step);
    if (spec.evict.max_rows) {
      CHECK(table->num_rows() <= *spec.evict.max_rows);
    }
    // Which rows went is the table's to choose; that they might go is not.
    gone += table->take_counts().evicted;
    if (evicts && step % look_every == 0) {
      const std::vector<int64_t> left = table->ids();
      const std::unordered_set<int64_t> is_left(left.begin(), left.end());
      wrong = 0;
      for (auto entry = oracle.rows().begin(); entry != oracle.rows().end();) {
        if (is_left.contains(entry->first)) {
          // None stays longer than an eighth beyond its time.
          wrong += spec.evict.unseen_steps &&
                           step - entry->second.last_step > *spec.evict.unseen_steps * 9 / 8 + 1
                       ? 1
                       : 0;
          ++entry;
          continue;
        }
        wrong += may_go(entry->second, step) ? 0 : 1;
        ++went;
        entry = oracle.rows().erase(entry);
      }
      CHECK(wrong == 0);
      CHECK(went == gone);
    }
    if (step % 97 == 0) {
      check_all(*table, oracle);
      StateTree state;
      table->snapshot(state, "tables/t");
      auto loaded = std::make_unique<Table>(spec);
      loaded->load(state, "tables/t");
      StateTree again;
      loaded->snapshot(again, "tables/t");
      CHECK(state == again);
      table = std::move(loaded);
    }
  }
  check_all(*table, oracle);
  CHECK((gone > 0) == evicts);
}

TableSpec uniform_table(uint32_t dim) {
  TableSpec spec;
  spec.name = std::string("oracle");
  spec.dim = dim;
  spec.init = {.kind = TENON_INIT_UNIFORM, .a = -0.05, .b = 0.05};
  spec.seed = 99;
  return spec;
}

TEST_CASE("a table that keeps all rows agrees with a map", "[embedding]") {
  run_against_map(uniform_table(5), 1);
}

TEST_CASE("a table whose rows fill lines of the cache agrees with a map", "[embedding]") {
  // 15 elements and a slot are 64 bytes: counts lie apart.
  run_against_map(uniform_table(15), 2);
}

TEST_CASE("a table that admits ids by count agrees with a map", "[embedding]") {
  TableSpec spec = uniform_table(4);
  spec.admit.count = 5;
  run_against_map(spec, 3);
}

TEST_CASE("a table that evicts unseen rows agrees with a map", "[embedding]") {
  TableSpec spec = uniform_table(4);
  spec.evict.unseen_steps = 40;
  run_against_map(spec, 4);
}

TEST_CASE("a table with a bound of rows agrees with a map", "[embedding]") {
  TableSpec spec = uniform_table(4);
  spec.evict.max_rows = 20'000;
  spec.evict.unseen_steps = 100;
  spec.evict.policy = GENERATE(EvictPolicy::kLeastRecent, EvictPolicy::kLeastFrequent);
  run_against_map(spec, 5);
}

TEST_CASE("several threads look up rows at once", "[embedding][threads]") {
  Table table(uniform_table(8));
  std::vector<int64_t> ids(50'000);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int64_t>(i * i);
  }
  const std::vector<int64_t> counts(ids.size(), 1);
  std::vector<int64_t> rows(ids.size());
  table.find_or_insert(ids, counts, rows);
  constexpr size_t kThreads = 4;
  std::vector<int64_t> wrong(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<int64_t> found(ids.size());
      std::vector<float> values(ids.size() * 8);
      std::vector<float> truth(8);
      table.find(ids, found);
      table.read(found, values.data(), 8);
      for (size_t i = t; i < ids.size(); i += 97) {
        fill_row_values(table.spec().init, table.spec().seed, ids[i], truth);
        wrong[t] +=
            found[i] != rows[i] || std::memcmp(truth.data(), &values[i * 8], 8 * sizeof(float)) != 0
                ? 1
                : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<int64_t>(kThreads));
}

}  // namespace
}  // namespace tenon
