// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/stuck_run.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <string>

namespace tenon {
void end_stuck_run(Process& process,
                   const StuckCall& call,
                   const PublishedState& published,
                   const std::function<bool(const Error& error, int code)>& conclude) {
  const bool is_data = call.component->kind == "dataset";
  const std::string key = is_data ? "data.timeout_seconds" : "plugins.timeout_seconds";
  const std::string when = published.has_begun() ? formatted("in step {}", published.get().step)
                                                 : "before the first step";
  const Error error("plugin.stuck",
                    call.describe() + ", " + when +
                        "; a call cannot be cancelled, so the run ends here. If it only is slow, "
                        "set " +
                        key + " to more");
  const int code = static_cast<int>(published.has_begun() ? ExitCode::kFailed : error.exit_code());
  process.end_after_grace(error.what(), code, kGraceSeconds);
  if (conclude && conclude(error, code)) {
    log_to_file(error.what());
  } else {
    log_error(error.what());
  }
  flush_log();
  // Runs no destructors and no plugins: they might wait for the call that does not return.
  process.end_at_once(code);
}

}  // namespace tenon
