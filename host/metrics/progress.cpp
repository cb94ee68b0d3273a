// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/progress.hpp"

#include "host/error/plugin_text.hpp"
#include "host/log/log.hpp"
#include "host/text/byte_size.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tenon {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char text[64];
  if (s < 60) {
    std::snprintf(text, sizeof(text), "%d s", static_cast<int>(s));
  } else if (s < 3600) {
    std::snprintf(
        text, sizeof(text), "%d min %02d s", static_cast<int>(s / 60), static_cast<int>(s % 60));
  } else {
    std::snprintf(text,
                  sizeof(text),
                  "%lld h %02d min",
                  static_cast<long long>(s / 3600),
                  static_cast<int>(s / 60 % 60));
  }
  return text;
}

std::string grouped_digits(int64_t number) {
  std::string digits = std::to_string(number);
  const std::ptrdiff_t first = digits.front() == '-' ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string progress_text(const ProgressState& state) {
  std::string line = "step " + grouped_digits(static_cast<int64_t>(state.step));
  if (state.total_steps.has_value()) {
    line += "/" + grouped_digits(static_cast<int64_t>(*state.total_steps));
  }
  if (!state.window.empty()) {
    line += "  window " + printable_line(state.window);  // may be the name of a file
  }
  line += "  loss " + format("%.4f", state.loss);
  line += "  lr " + format("%.3g", state.lr);
  if (state.grad_norm.has_value()) {
    line += "  grad norm " + format("%.3f", *state.grad_norm);
  }
  if (state.tokens_per_second > 0) {
    line += "  " + grouped_digits(std::llround(state.tokens_per_second)) + " tokens/s";
  } else {
    line += "  " + grouped_digits(std::llround(state.samples_per_second)) + " samples/s";
  }
  if (state.mfu.has_value()) {
    line += "  mfu " + format("%.1f%%", 100.0 * *state.mfu);
  }
  if (state.non_finite_steps > 0) {
    line += formatted("  {} non-finite", state.non_finite_steps);
  }
  if (state.total_steps.has_value() && state.step > 0 && *state.total_steps > state.step) {
    const double left = state.seconds / static_cast<double>(state.step) *
                        static_cast<double>(*state.total_steps - state.step);
    line += "  " + duration_text(left) + " left";
  } else {
    line += "  " + duration_text(state.seconds);
  }
  return line;
}

ProgressState progress_of(const MetricsRecorded& entry) {
  const MetricRecord& record = entry.record;
  const auto value = [&record](const char* name) {
    const double* const found = record.find(name);
    return found != nullptr ? *found : 0.0;
  };
  const double* const norm = record.find("grad_norm");
  return {.step = record.step,
          .total_steps = entry.pace.total_steps,
          .loss = entry.has_loss ? value("loss") : std::numeric_limits<double>::quiet_NaN(),
          .lr = value("lr"),
          .grad_norm = norm != nullptr ? std::optional(*norm) : std::nullopt,
          .samples_per_second = entry.pace.samples_per_second,
          .tokens_per_second = entry.pace.tokens_per_second,
          .mfu = entry.pace.mfu,
          .seconds = entry.pace.seconds,
          .non_finite_steps = entry.pace.non_finite_steps,
          .window = record.window};
}

std::string saved_text(const SaveEnded& entry) {
  return formatted("{} {} ({}, {} s)",
                   entry.form == SaveEnded::Form::kExport ? "exported" : "saved",
                   entry.address,
                   byte_size(entry.bytes),
                   format("%.2g", entry.seconds));
}

Progress::Progress(Style style)
    : is_live_(style == Style::kAuto && isatty(STDOUT_FILENO) != 0),
      is_quiet_(style == Style::kQuiet) {}

Progress::~Progress() {
  if (has_status_line()) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
    set_status_line(false);
  }
}

void Progress::show(const ProgressState& state) {
  std::string line = progress_text(state);
  log_to_file(line);
  if (is_quiet_) {
    return;
  }
  if (!is_live_) {
    line += '\n';
    std::fputs(line.c_str(), stdout);
  } else {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 &&
        line.size() >= size.ws_col) {
      line.resize(size.ws_col - 1u);
    }
    // Return to the start of the line, print the text, and clear the rest of a longer line.
    std::fputs(("\r" + line + "\x1b[K").c_str(), stdout);
    set_status_line(true);
  }
  std::fflush(stdout);
}

void Progress::say(const std::string& text) {
  const std::string line = printable_text(text);
  log_to_file(line);
  if (is_quiet_) {
    return;
  }
  std::fputs(((has_status_line() ? "\n" : "") + line + "\n").c_str(), stdout);
  set_status_line(false);
  std::fflush(stdout);
}

// ---- the journal ----

void Progress::read(const Stamp&, const RunStarted& entry) {
  say(std::string(entry.header));
}

void Progress::read(const Stamp&, const MetricsRecorded& entry) {
  show(progress_of(entry));
}

void Progress::read(const Stamp&, const EvaluationRecorded& entry) {
  say(std::string(entry.line));
}

void Progress::read(const Stamp&, const SaveEnded& entry) {
  if (entry.error.empty()) {
    say(saved_text(entry));
  }
}

void Progress::read(const Stamp&, const StateRestored& entry) {
  if (entry.how == StateRestored::How::kResumed && !entry.address.empty()) {
    say(formatted("resumed from {}, after step {}", entry.address, entry.state.step));
  }
}

void Progress::read(const Stamp&, const Remark& entry) {
  say(std::string(entry.text));
}

void Progress::read(const Stamp&, const RunEnded& entry) {
  say(std::string(entry.line));
  if (!entry.commands.empty()) {
    say(std::string(entry.commands));
  }
}

}  // namespace tenon
