// SPDX-License-Identifier: Apache-2.0
//
// Times the steps of one training process and prints the result as a line of JSON. Shared by the
// hook that times the host and by the bare loop, so that both are measured in the same way.
#ifndef TENON_TESTS_BENCH_STOPWATCH_HPP
#define TENON_TESTS_BENCH_STOPWATCH_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

class Stopwatch {
 public:
  Stopwatch(uint64_t warmup, uint64_t steps) : warmup_(warmup), last_(warmup + steps) {}

  // After each step. Steps count from 1; a resumed run continues the count.
  void tick(uint64_t step) {
    if (first_ == 0) {
      first_ = now();
      cpu_first_ = cpu_seconds();
    }
    if (step == warmup_) {
      begin_ = now();
      cpu_begin_ = cpu_seconds();
    }
    if (step == last_) {
      end_ = now();
      cpu_end_ = cpu_seconds();
    }
  }

  // Prints one line. `first_step_s` counts from the environment variable BENCH_STARTED_NS, a time
  // of CLOCK_MONOTONIC that the parent process sets; `cpu_first_step_s` is the CPU time until then.
  void write(std::FILE* file) const {
    const char* started = std::getenv("BENCH_STARTED_NS");
    const double start = started != nullptr ? std::strtod(started, nullptr) * 1e-9 : first_;
    std::fprintf(file,
                 "{\"steps\": %llu, \"step_s\": %.9g, \"cpu_step_s\": %.9g, "
                 "\"first_step_s\": %.6g, \"cpu_first_step_s\": %.6g, \"peak_mib\": %.1f}\n",
                 static_cast<unsigned long long>(last_ - warmup_),
                 (end_ - begin_) / static_cast<double>(last_ - warmup_),
                 (cpu_end_ - cpu_begin_) / static_cast<double>(last_ - warmup_),
                 first_ - start,
                 cpu_first_,
                 peak_mib());
  }

  static double now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

 private:
  // User and system time of all threads.
  static double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  // VmHWM: ru_maxrss would be inherited from the parent process.
  static double peak_mib() {
    double kib = 0;
    if (std::FILE* status = std::fopen("/proc/self/status", "r")) {
      char line[256];
      while (std::fgets(line, sizeof(line), status) != nullptr) {
        if (std::strncmp(line, "VmHWM:", 6) == 0) {
          kib = std::strtod(line + 6, nullptr);
        }
      }
      std::fclose(status);
    }
    return kib / 1024;
  }

  uint64_t warmup_;
  uint64_t last_;
  double first_ = 0;
  double cpu_first_ = 0;
  double begin_ = 0;
  double end_ = 0;
  double cpu_begin_ = 0;
  double cpu_end_ = 0;
};

#endif
