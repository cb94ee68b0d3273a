// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_kernels.hpp"

#include "host/device/device.hpp"
#include "host/error/error.hpp"
#include "host/io/file_lock.hpp"
#include "host/io/private_file.hpp"
#include "host/log/log.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <tenon_build.hpp>
#include <thread>

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "tenon kernels 1";
// Answers of other machines are dropped above this.
constexpr size_t kMostMachines = 32;

// A lock that processes hold while they measure. One that is stopped must not stop others, so
// waiting is bounded, for all questions of this process together. No lock is an error: two
// processes then measure at once.
class MeasureLock {
 public:
  explicit MeasureLock(const std::string& path) {
    constexpr std::chrono::milliseconds kPause{2};
    static std::atomic<int> tries_left = 2500;
    try {
      file_.emplace(path);
    } catch (const Error& error) {
      log_debug(error.message());
      return;
    }
    while (file_->try_lock() == FileLock::State::kBusy && tries_left-- > 0) {
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  std::optional<FileLock> file_;
};

// The answers in a file, by machine; empty if it is missing or corrupt.
json machines_in(const std::string& file) {
  constexpr uint64_t kMaxBytes = uint64_t{4} << 20;
  constexpr int kMaxDepth = 3;
  const FileText in = read_private_file(file, kMaxBytes);
  const auto is_shallow = [](int depth, json::parse_event_t, const json&) {
    return depth <= kMaxDepth;
  };
  const json all = json::parse(in.text, is_shallow, /*allow_exceptions=*/false);
  if (!all.is_object() || all.value("format", json()) != kFormat ||
      !all.value("machines", json()).is_object()) {
    return json::object();
  }
  return all["machines"];
}

std::string answer_in(const json& machines,
                      const std::string& machine,
                      const std::string& question) {
  const auto answers = machines.find(machine);
  if (answers == machines.end() || !answers->is_object()) {
    return "";
  }
  const auto answer = answers->find(question);
  return answer != answers->end() && answer->is_string() ? answer->get<std::string>() : "";
}

// Answers a question from the file, or by measuring; then keeps the answer.
std::string kept_answer(const std::string& file,
                        const std::string& machine,
                        const std::string& question,
                        const std::function<std::string()>& measure) {
  if (std::string known = answer_in(machines_in(file), machine, question); !known.empty()) {
    return known;
  }
  make_private_folder(std::filesystem::path(file).parent_path().string());
  const MeasureLock lock(file + ".lock");
  if (std::string known = answer_in(machines_in(file), machine, question); !known.empty()) {
    return known;
  }
  std::string answer = measure();
  json machines = machines_in(file);
  if (std::string known = answer_in(machines, machine, question); !known.empty()) {
    return known;  // of a process that did not wait for the lock
  }
  if (!machines.contains(machine) && machines.size() >= kMostMachines) {
    machines.clear();
  }
  if (json& answers = machines[machine]; answers.is_object()) {
    answers[question] = answer;
  } else {
    answers = {{question, answer}};
  }
  const json all = {{"format", kFormat}, {"machines", std::move(machines)}};
  if (const std::string problem = write_private_file(file, all.dump(1) + "\n"); !problem.empty()) {
    log_debug("the kernel choices in " + file + " cannot be written: " + problem);
  }
  return answer;
}

}  // namespace

std::string kernel_machine() {
  return cpu_model() + ", " + cpu_features() + ", tenon " + kVersion + ", libtorch " +
         kTorchVersion;
}

KeepKernelAnswer kernel_answers_in(const std::string& file) {
  if (file.empty()) {
    return nullptr;
  }
  return [file, machine = kernel_machine()](const std::string& question,
                                            const std::function<std::string()>& measure) {
    return kept_answer(file, machine, question, measure);
  };
}

std::string default_kernel_cache_file() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? "" : folder + "/kernels.json";
}

std::string kernel_answers_text() {
  const json text = {{"machine", kernel_machine()}, {"kernels", kernel_answers()}};
  return text.dump(2) + "\n";
}

}  // namespace tenon
