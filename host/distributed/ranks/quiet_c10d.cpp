// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/quiet_c10d.hpp"

#include <c10/util/Flags.h>
#include <c10/util/Logging.h>

#include <mutex>

namespace tenon {
namespace {

struct Quiet {
  std::mutex mutex;
  int num_alive = 0;
  int level_before = 0;
};

// libtorch has one log level per process.
Quiet& quiet() {
  static Quiet quiet;
  return quiet;
}

}  // namespace

QuietC10d::QuietC10d() {
  const std::lock_guard lock(quiet().mutex);
  if (quiet().num_alive++ == 0) {
    quiet().level_before = FLAGS_caffe2_log_level;
    FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
}

QuietC10d::~QuietC10d() {
  const std::lock_guard lock(quiet().mutex);
  if (--quiet().num_alive == 0) {
    FLAGS_caffe2_log_level = quiet().level_before;
  }
}

}  // namespace tenon
