// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/draw_schedule.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

namespace tenon {
namespace {

constexpr double kRounding = 1e-6;  // columns

class Drawing {
 public:
  Drawing(const PipelineSchedule& schedule,
          const ScheduleSimulation& simulation,
          const DrawOptions& options)
      : schedule_(schedule), simulation_(simulation) {
    find_chunks();
    const size_t label = label_of(schedule.rows.size() - 1).size();
    room_ = std::max(size_t{options.most_columns}, size_t{40}) - label;
    find_scale();
  }

  std::string text() const {
    const size_t label = label_of(schedule_.rows.size() - 1).size();
    std::string text;
    for (size_t rank = 0; rank < schedule_.rows.size(); ++rank) {
      std::string line = label_of(rank);
      line.resize(label, ' ');
      line += has_names_ ? named_line(rank) : letter_line(rank);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text + legend();
  }

 private:
  static std::string label_of(size_t rank) { return formatted("rank {}  ", rank); }

  // By stage: the number of its rank's stages below it.
  void find_chunks() {
    std::map<uint32_t, uint32_t> counts;  // by rank
    for (const uint32_t rank : schedule_.ranks_of_stages()) {
      chunks_.push_back(counts[rank]++);
      has_several_stages_ |= chunks_.back() > 0;
    }
  }

  std::string name_of(const StageAction& action) const {
    return has_several_stages_ ? action_text(action)
                               : formatted("{}{}", kind_code(action.kind), action.microbatch);
  }

  // Calls `call` with each action that takes time.
  template <class Call>
  void for_each_action(size_t rank, const Call& call) const {
    const std::vector<StageAction>& row = schedule_.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const ActionSpan& span = simulation_.ranks[rank].spans[i];
      if (span.end > span.start) {
        call(row[i], span);
      }
    }
  }

  void find_scale() {
    double named = 0;
    double shortest = simulation_.seconds;
    for (size_t rank = 0; rank < schedule_.rows.size(); ++rank) {
      for_each_action(rank, [&](const StageAction& action, const ActionSpan& span) {
        const double seconds = span.end - span.start;
        named = std::max(named, static_cast<double>(name_of(action).size() + 1) / seconds);
        shortest = std::min(shortest, seconds);
      });
    }
    if (shortest <= 0) {
      return;  // no action takes time
    }
    // Actions whose times are multiples of the shortest one start at whole columns.
    named = std::ceil(named * shortest - kRounding) / shortest;
    const auto room = static_cast<double>(room_);
    has_names_ = named * simulation_.seconds <= room + kRounding;
    scale_ = has_names_ ? named : std::min(1 / shortest, room / simulation_.seconds);
    column_ = 1 / (scale_ * shortest);
  }

  size_t column_of(double seconds) const {
    return static_cast<size_t>(std::floor(seconds * scale_ + kRounding));
  }

  // The time from the first to the last action. `middle` is added to both times.
  std::string idle_line(size_t rank, double middle) const {
    const SimulatedRank& simulated = simulation_.ranks[rank];
    std::string line(column_of(simulated.start + middle), ' ');
    line.resize(std::max(line.size(), column_of(simulated.end + middle)), '.');
    return line;
  }

  std::string named_line(size_t rank) const {
    std::string line = idle_line(rank, 0);
    for_each_action(rank, [&](const StageAction& action, const ActionSpan& span) {
      const size_t begin = column_of(span.start);
      const size_t end = column_of(span.end);
      std::string name = name_of(action);
      name.resize(std::max(name.size(), end - begin - 1), '-');
      line.replace(begin, end - begin, (name + " ").substr(0, end - begin));
    });
    return line;
  }

  std::string letter_line(size_t rank) const {
    const double middle = 0.5 / scale_;  // of a column, in seconds
    std::string line = idle_line(rank, middle);
    for_each_action(rank, [&](const StageAction& action, const ActionSpan& span) {
      char letter = kind_code(action.kind).front();
      if (chunks_[action.stage] % 2 == 1) {
        letter = static_cast<char>(letter - 'A' + 'a');
      }
      // The columns whose middle is in the span.
      const size_t begin = column_of(span.start + middle);
      const size_t end = column_of(span.end + middle);
      for (size_t i = begin; i < end; ++i) {
        line[i] = letter;
      }
    });
    return line;
  }

  std::string legend() const {
    std::string text = "F forward, B backward, ";
    const auto has_kind = [this](StageActionKind kind) {
      return std::ranges::any_of(schedule_.rows, [kind](const auto& row) {
        return std::ranges::find(row, kind, &StageAction::kind) != row.end();
      });
    };
    if (has_kind(StageActionKind::kBackwardInputs)) {
      text += "I backward of inputs, W backward of weights, ";
    }
    text += ". idle\n";
    if (has_names_) {
      return text + (has_several_stages_ ? "before the letter: stage; after it: microbatch\n"
                                         : "after the letter: microbatch\n");
    }
    if (has_several_stages_) {
      text += "lower case: the second stage of a rank, the fourth, ...; ";
    }
    char column[32];
    std::snprintf(column, sizeof column, "%.3g", column_);
    return text + formatted("a column is {} times the shortest action\n", column);
  }

  const PipelineSchedule& schedule_;
  const ScheduleSimulation& simulation_;
  std::vector<uint32_t> chunks_;  // by stage
  bool has_several_stages_ = false;
  size_t room_ = 0;        // columns for actions
  bool has_names_ = true;  // else letters
  double scale_ = 0;       // columns a second
  double column_ = 0;      // of letters: the time of a column over that of the shortest action
};

}  // namespace

std::string drawn_schedule(const PipelineSchedule& schedule,
                           const ScheduleSimulation& simulation,
                           const DrawOptions& options) {
  return Drawing(schedule, simulation, options).text();
}

}  // namespace tenon
