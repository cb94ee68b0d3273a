// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/call_frame.hpp"

#include "host/error/status.hpp"
#include "host/log/log.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/handle_pool.hpp"
#include "host/text/formatted.hpp"

#include <map>
#include <utility>

namespace tenon {
namespace {

// Objects of calls that have returned, the last of which are kept for late uses.
constexpr std::size_t kMostEnded = 4096;

constinit thread_local CallFrame* frame_of_thread = nullptr;

// What all frames share. Never destroyed: threads of plugins may use it until the end.
struct SharedRecords {
  std::mutex mutex;
  std::deque<std::shared_ptr<LentObject>> ended;
  std::map<const LoadedPlugin*, std::string> of_threads;
  std::vector<std::pair<CallRule, std::string>> problems;
  HandleHistory handles;

  static SharedRecords& get() {
    static auto* const records = new SharedRecords;
    return *records;
  }
};

void note_problem(CallRule rule, const std::string& text) {
  SharedRecords& records = SharedRecords::get();
  const std::lock_guard lock(records.mutex);
  records.problems.emplace_back(rule, text);
}

std::string after_end(const HandleRecord& record) {
  switch (record.state) {
    case HandleState::kReleased:
      return "that was released in " + record.ended_in.text() + "; " + record.origin();
    case HandleState::kReturned:
      return "that it had borrowed until its call returned (" + record.origin() +
             "); retain a tensor to keep it";
    case HandleState::kHanded:
      return "that belongs to the host since " + record.ended_in.text() + "; " + record.origin();
    default:
      return "that is not valid; " + record.origin();
  }
}

}  // namespace

CallFrame::CallFrame(const ComponentIdentity& identity, const char* function, uint64_t number)
    : call_{.component = &identity.component(),
            .function = function,
            .number = number,
            .instance = &identity},
      role_(role_of(identity.component().kind, function)),
      thread_(std::this_thread::get_id()),
      outer_(frame_of_thread) {}

CallFrame::~CallFrame() {
  for (tenon_tensor* const handle : lent_) {
    if (handle_problem(handle) == nullptr) {
      handle_history().end(handle, HandleState::kReturned, call_);
      release_handle(handle);
    }
  }
  SharedRecords& records = SharedRecords::get();
  const std::lock_guard lock(records.mutex);
  for (std::shared_ptr<LentObject>& object : objects_) {
    object->has_ended = true;
    records.ended.push_back(std::move(object));
  }
  while (records.ended.size() > kMostEnded) {
    records.ended.pop_front();
  }
}

CallFrame* CallFrame::current() noexcept {
  return frame_of_thread;
}

CallName CallFrame::current_call() noexcept {
  return frame_of_thread != nullptr ? frame_of_thread->call() : CallName{};
}

tenon_tensor* CallFrame::lend(const tenon_tensor* handle, std::string what) {
  if (handle == nullptr) {
    return nullptr;
  }
  tenon_tensor* const lent =
      HandlePool::get().add(tensor_of(handle), call_.component->plugin->host.abi());
  lent_.push_back(lent);
  handle_history().add(
      lent, {.state = HandleState::kBorrowed, .what = std::move(what), .made_in = call_});
  return lent;
}

tenon_tensor* const* CallFrame::lend_all(const tenon_tensor* const* handles,
                                         std::size_t count,
                                         std::string_view what) {
  if (handles == nullptr) {
    return nullptr;
  }
  std::vector<tenon_tensor*>& lent = arrays_.emplace_back();
  for (std::size_t i = 0; i < count; ++i) {
    lent.push_back(lend(handles[i], formatted("{}[{}]", what, i)));
  }
  return lent.data();
}

void CallFrame::keep(std::shared_ptr<LentObject> object) {
  object->call = call_;
  object->thread = thread_;
  objects_.push_back(std::move(object));
}

void CallFrame::add_problem(std::string problem) {
  const std::lock_guard lock(mutex_);
  problems_.push_back(std::move(problem));
}

std::string CallFrame::first_problem() const {
  const std::lock_guard lock(mutex_);
  return problems_.empty() ? "" : problems_.front();
}

FrameScope::FrameScope(CallFrame* frame) noexcept : outer_(std::exchange(frame_of_thread, frame)) {}

FrameScope::~FrameScope() {
  frame_of_thread = outer_;
}

HandleHistory& handle_history() {
  return SharedRecords::get().handles;
}

void report_problem(CallRule rule, const std::string& what, const LoadedComponent* of) {
  CallFrame* const frame = CallFrame::current();
  if (frame != nullptr) {
    frame->add_problem(std::string(frame->call().function) + " " + what);
    note_problem(rule, formatted("{} {}", frame->call().text(), what));
    return;
  }
  const std::string text = "a thread of the plugin, in no call of the host, " + what;
  const std::string plugin =
      of != nullptr ? of->plugin->itself.describe() : std::string("a plugin");
  log_error(formatted("[plugin.bad_call] {}: {}", plugin, text));
  note_problem(rule, text);
  if (of != nullptr) {
    SharedRecords& records = SharedRecords::get();
    const std::lock_guard lock(records.mutex);
    records.of_threads.try_emplace(of->plugin, text);
  }
}

std::string take_thread_problem(const LoadedComponent& component) {
  SharedRecords& records = SharedRecords::get();
  const std::lock_guard lock(records.mutex);
  const auto found = records.of_threads.find(component.plugin);
  if (found == records.of_threads.end()) {
    return "";
  }
  std::string text = std::move(found->second);
  records.of_threads.erase(found);
  return text;
}

std::vector<std::string> reported_problems(CallRule rule) {
  SharedRecords& records = SharedRecords::get();
  const std::lock_guard lock(records.mutex);
  std::vector<std::string> texts;
  for (const auto& [broken, text] : records.problems) {
    if (broken == rule) {
      texts.push_back(text);
    }
  }
  return texts;
}

bool check_passed(const tenon_tensor* handle, std::string_view service) {
  if (handle == nullptr || handle_problem(handle) == nullptr) {
    return true;  // the service reports a null handle itself
  }
  const std::optional<HandleRecord> record = handle_history().find(handle);
  if (!record) {
    return true;  // of the host, lent without a record
  }
  report_problem(CallRule::kHandles,
                 formatted("passed to {} a handle {}", service, after_end(*record)),
                 record->made_in.component);
  return false;
}

void take_result(tenon_tensor*& slot, std::string_view name) {
  if (slot == nullptr) {
    return;
  }
  const std::optional<HandleRecord> record = handle_history().find(slot);
  if (!record) {
    return;  // the host reports what is no handle
  }
  if (record->state == HandleState::kOwned) {
    handle_history().end(slot, HandleState::kHanded, CallFrame::current_call());
    return;
  }
  if (record->state == HandleState::kBorrowed) {
    report_problem(CallRule::kHandles,
                   formatted("stored in {} a handle that it only borrowed ({}); store a handle of "
                             "retain",
                             name,
                             record->origin()),
                   record->made_in.component);
  } else {
    report_problem(CallRule::kHandles,
                   formatted("stored in {} a handle {}", name, after_end(*record)),
                   record->made_in.component);
  }
  slot = nullptr;
}

void take_results(tenon_tensor** slots, std::size_t count, std::string_view name) {
  for (std::size_t i = 0; slots != nullptr && i < count; ++i) {
    take_result(slots[i], formatted("{}[{}]", name, i));
  }
}

tenon_status* bad_call_status(const tenon_host* host) {
  return make_status(host,
                     TENON_INVALID,
                     "plugin.bad_call",
                     "the call breaks a rule of threads or handles; the host reports it");
}

}  // namespace tenon
