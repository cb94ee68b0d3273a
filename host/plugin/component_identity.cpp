// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/component_identity.hpp"

#include "host/error/catalogue.hpp"
#include "host/error/plugin_text.hpp"
#include "host/error/resource_failure.hpp"
#include "host/log/log.hpp"
#include "host/plugin/call_checker.hpp"
#include "host/tensor/stop_flag.hpp"
#include "host/tensor/torch_guard.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Parallel.h>

#include <exception>
#include <new>

namespace tenon {
namespace {

// Removes the folders from the path of a source file, because they are those of the build machine.
std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

void ComponentIdentity::fail(tenon_status* status_own, std::string_view function) const {
  const StatusText status = take(status_own);
  const bool is_out_of_memory = status.code == TENON_OUT_OF_MEMORY;
  const bool is_cancelled = status.code == TENON_CANCELLED && is_stop_requested();
  std::string text = describe() + ": ";
  if (status.message.empty()) {
    text.append(function).append(" failed without a message");
  } else if (is_out_of_memory) {
    text += out_of_memory_text(status.message);
  } else {
    // The message of an unexpected exception does not say which call failed.
    if (status.code == TENON_INTERNAL) {
      text.append(function).append(" failed: ");
    }
    text += what_without_backtrace(status.message);
  }
  const bool is_ours = find_error(status.id) != nullptr;
  if (!is_out_of_memory && !is_ours && !status.id.empty()) {
    text += " [" + status.id + "]";
  }
  if (!status.file.empty()) {
    text += formatted(" at {}:{}", base_name(status.file), status.line);
  }
  // The same id for all allocators, so that programs which monitor runs can detect it.
  if (is_out_of_memory) {
    const std::string advice = address_limit_advice();
    text += advice.empty() ? "; reduce /data/batch_size, /data/prefetch or the model"
                           : "; " + advice + ", or reduce /data/batch_size or the model";
  }
  if (is_cancelled) {
    text.append("; ").append(function).append(" gave up because the run was asked to stop");
  }
  throw PluginError(status.code,
                    is_out_of_memory ? "run.out_of_memory"
                    : is_cancelled   ? "run.cancelled"
                    : is_ours        ? status.id
                                     : "plugin.failed",
                    std::move(text),
                    status.id);
}

void ComponentIdentity::fail_misuse(std::string_view function, std::string_view problem) const {
  if (problem.data() == kBrokenRule) {
    throw Error("plugin.bad_call", describe() + ": " + call_checker()->take_problem());
  }
  fail_result(
      formatted("{} released a pointer that {}, or that it had only borrowed; release each "
                "handle of a function that returns it as `_own` once",
                function,
                problem));
}

void ComponentIdentity::fail_call(tenon_status* status_own, const char* function) const {
  const char* const misuse = std::exchange(service_misuse, nullptr);
  if (misuse == kBrokenRule) {  // the status may be a consequence
    release(status_own);
    status_own = nullptr;
  }
  check(status_own, function);
  fail_misuse(function, misuse);
}

std::unique_ptr<const ComponentIdentity::ChangeCheck> ComponentIdentity::begin_check(
    const char* function) const {
  auto change = std::make_unique<const ChangeCheck>(*this, function);
  if (CallChecker* const checker = call_checker()) {
    checker->begin(*this, function);
  }
  return change;
}

ComponentIdentity::ChangeCheck::~ChangeCheck() {
  if (CallChecker* const checker = call_checker()) {
    checker->end(identity_, function_);
  }
  try {
    if (const std::string changed = before_.restore(); !changed.empty()) {
      report_restored(formatted("{}: {} changed {} of the process; Tenon has restored it",
                                identity_.describe(),
                                function_,
                                changed));
    }
  } catch (const std::exception& error) {  // out of memory for the text
    log_warning(error.what());
  }
}

void ComputeThreads::restore() const noexcept {
  try {
    const int changed = num_operator_threads();
    at::set_num_threads(before_);
    report_restored(
        formatted("{}: {} changed the number of compute threads of the process from {} to {}; "
                  "Tenon has restored it",
                  identity_.describe(),
                  function_,
                  before_,
                  changed));
  } catch (const std::exception& error) {  // out of memory for the text
    log_warning(error.what());
  }
}

void ComponentIdentity::fail_thrown(std::string_view function) const {
  uint32_t code = TENON_INTERNAL;
  std::string what = "an object that is not a std::exception";
  try {
    throw;
  } catch (const std::bad_alloc& error) {
    code = TENON_OUT_OF_MEMORY;
    what = error.what();
  } catch (const std::exception& error) {
    what = what_without_backtrace(error.what());
  } catch (...) {
  }
  what = formatted("{} let an exception out through the C ABI: {}", function, what);
  if (code == TENON_OUT_OF_MEMORY) {
    fail(make_status(nullptr, code, "", what.c_str()), function);
  }
  throw PluginError(code,
                    "plugin.failed",
                    describe() + ": " + what +
                        "; catch it in the plugin and return a status, as tenon/cpp/guard.hpp does",
                    "");
}

void ComponentIdentity::fail_as(const Error& error) const {
  throw error.with_context(describe());
}

void ComponentIdentity::check_name(const char* name, const char* what, std::size_t i) const {
  if (name == nullptr || *name == '\0') {
    fail_result(formatted("{} {} has no name", what, i));
  }
  if (const std::string problem = name_problem(name); !problem.empty()) {
    fail_result(formatted("the name of {} {} {}", what, i, problem));
  }
}

void ComponentIdentity::check_flags(uint32_t flags, uint32_t known, std::string_view of) const {
  if (const std::string problem = flags_problem(flags, known); !problem.empty()) {
    fail_result(formatted("{} {}", of, problem));
  }
}

void ComponentIdentity::fail_result(std::string_view what) const {
  throw Error("plugin.bad_result", describe() + ": " + std::string(what));
}

void ComponentIdentity::fail_missing(std::string_view interface_id,
                                     std::string_view function) const {
  const std::string interface(interface_id);
  throw Error("plugin.missing_interface",
              function.empty()
                  ? describe() + " does not offer " + interface
                  : describe() + " offers " + interface + " without its function \"" +
                        std::string(function) + "\"; set it in the registered table");
}

}  // namespace tenon
