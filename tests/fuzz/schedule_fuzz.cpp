// SPDX-License-Identifier: Apache-2.0
//
// Tables of schedules that are nearly right are read or refused. A table that is accepted is drawn.
#include "host/schedule/draw_schedule.hpp"
#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/load_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"

#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/mutator.hpp"

namespace tenon {
namespace {

const std::vector<std::string>& seed_tables() {
  static const std::vector<std::string> tables = [] {
    std::vector<std::string> texts;
    for (const std::string& name : schedule_names()) {
      texts.push_back(schedule_csv(generate_schedule({name, 2, 3})));
    }
    texts.emplace_back("0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0\r\n1RECV_F0,(1F0;1B0)OVERLAP_F_B,");
    return texts;
  }();
  return tables;
}

// A change between cells, which often gives a table of other actions in a valid form.
std::string change_cells(std::string table, Mutator& mutator) {
  const std::string& other = mutator.pick(seed_tables());
  const size_t from = mutator.below(other.size());
  const size_t cell = other.find_first_of(",\n", from);
  const size_t at = table.find_first_of(",\n", mutator.below(table.size()));
  if (at == std::string::npos || cell == std::string::npos) {
    return table;
  }
  switch (mutator.below(4)) {
    case 0:  // an empty cell, or spaces
      return table.insert(at, mutator.one_in(2) ? "," : " \t");
    case 1:  // without a cell
      return table.erase(at, table.find_first_of(",\n", at + 1) - at);
    case 2:  // a cell of another table
      return table.insert(at, other.substr(cell, other.find_first_of(",\n", cell + 1) - cell));
    default:  // other ends of lines
      return table.insert(table.find('\n'), mutator.one_in(2) ? "\r" : ",,");
  }
}

std::string make_table(Mutator& mutator) {
  if (mutator.one_in(2)) {
    return change_cells(mutator.pick(seed_tables()), mutator);
  }
  static const std::vector<std::string> words = {
      ",", "\n", ";", "(", ")OVERLAP_F_B", "0F0", "1B1", "0I2", "SEND_F", "UNSHARD", "\""};
  return mutator.mutated(mutator.pick(seed_tables()), words, seed_tables());
}

std::string judge_table(const std::string& text) {
  static const MemoryFile file("table.csv");
  file.write(text);
  return outcome_of([&] {
    const PipelineSchedule schedule = load_schedule({file.path(), 0, 0}, {});
    if (read_schedule(schedule_csv(schedule)).schedule != schedule) {
      throw FuzzFinding("a table that is written and read again is another one");
    }
    const ScheduleSimulation simulation = simulate_schedule(
        schedule, chain_links(schedule.num_stages), even_times(schedule, {}, 0.5));
    check_fuzz_message("a drawing", drawn_schedule(schedule, simulation, {}));
  });
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(argc,
                         argv,
                         {.name = "schedule_fuzz",
                          .make = tenon::make_table,
                          .judge = tenon::judge_table,
                          .least_accepted = 0.1});
}
