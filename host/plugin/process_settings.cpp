// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/process_settings.hpp"

#include "host/log/log.hpp"
#include "host/plugin/compute_threads.hpp"

#include <ATen/Parallel.h>

#include <cfloat>
#include <clocale>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

// True if this thread replaces results below the smallest normal number by 0.
bool flushes_to_zero() {
  const volatile float smallest = FLT_MIN;
  return smallest / 2 == 0;
}

// Read from the system: setting and resetting it would race with other threads.
mode_t current_umask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Umask:")) {
      return static_cast<mode_t>(std::stoul(line.substr(6), nullptr, 8));
    }
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

std::string current_locale() {
  const char* const name = std::setlocale(LC_ALL, nullptr);
  return name != nullptr ? name : "";
}

std::string current_folder() {
  std::error_code gone;
  return std::filesystem::current_path(gone).string();
}

bool is_same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_flags == b.sa_flags && a.sa_handler == b.sa_handler;
}

void append(std::string& list, std::string_view what) {
  list.append(list.empty() ? "" : ", ").append(what);
}

// Texts of report_restored().
struct Restored {
  std::mutex mutex;
  std::vector<std::string> texts;

  static Restored& get() {
    static auto* const restored = new Restored;
    return *restored;
  }
};

}  // namespace

ProcessSettings::ProcessSettings()
    : rounding_(std::fegetround()),
      flushes_to_zero_(flushes_to_zero()),
      folder_(current_folder()),
      umask_(current_umask()),
      num_threads_(num_operator_threads()),
      locale_(current_locale()) {
  std::fegetenv(&floating_point_);
  for (int signal = 1; signal < kNumSignals; ++signal) {
    ::sigaction(signal, nullptr, &signals_[static_cast<std::size_t>(signal)]);
  }
}

std::string ProcessSettings::restore() const {
  std::string changed;
  if (std::fegetround() != rounding_) {
    append(changed, "the rounding mode");
  }
  if (flushes_to_zero() != flushes_to_zero_) {
    append(changed, "the handling of denormal numbers (-ffast-math sets it)");
  }
  std::fesetenv(&floating_point_);
  for (int signal = 1; signal < kNumSignals; ++signal) {
    const struct sigaction& before = signals_[static_cast<std::size_t>(signal)];
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && !is_same(before, now)) {
      const char* const name = ::sigabbrev_np(signal);
      append(changed, std::string("the handler of SIG") + (name != nullptr ? name : "RT"));
      ::sigaction(signal, &before, nullptr);
    }
  }
  if (current_folder() != folder_) {
    append(changed, "the working directory");
    std::error_code failed;  // the folder may be gone
    std::filesystem::current_path(folder_, failed);
  }
  if (current_umask() != umask_) {
    append(changed, "the umask");
    ::umask(umask_);
  }
  if (num_operator_threads() != num_threads_) {
    append(changed, "the number of compute threads");
    at::set_num_threads(num_threads_);
  }
  if (current_locale() != locale_) {
    append(changed, "the locale");
    std::setlocale(LC_ALL, locale_.c_str());
  }
  return changed;
}

void report_restored(std::string text) {
  constexpr std::size_t kMostTexts = 5;
  log_warning(text);
  Restored& restored = Restored::get();
  const std::lock_guard lock(restored.mutex);
  if (restored.texts.size() < kMostTexts) {
    restored.texts.push_back(std::move(text));
  }
}

std::vector<std::string> restored_settings() {
  Restored& restored = Restored::get();
  const std::lock_guard lock(restored.mutex);
  return restored.texts;
}

}  // namespace tenon
