// SPDX-License-Identifier: Apache-2.0
#include "host/hook/event_name.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/tensor/state/state_bridge.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/imagined_run.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/temporary_folder.hpp"

#include <ATen/core/grad_mode.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr uint64_t kImaginedSteps = 6;
constexpr const char* kUndeclared = "hook.undeclared_write";

// Notes each event, so that the parent can name it.
ImaginedRun::Watcher watcher_of(Subject& subject, const std::string& name) {
  ImaginedRun::Watcher watcher;
  watcher.before = [&subject, name](uint32_t event) {
    subject.note(std::string("on_event of ") + name + " at " + event_name(event));
  };
  return watcher;
}

void run_whole(ImaginedRun& run, const ImaginedRun::Watcher& watcher) {
  run.begin(watcher);
  run.train(1, kImaginedSteps, watcher);
  run.end(watcher);
}

// Returns a problem if the tensors differ and `touch` is not declared.
std::optional<std::string> undeclared(const ImaginedRun& run,
                                      const std::vector<at::Tensor>& before,
                                      const std::vector<at::Tensor>& after,
                                      uint32_t touch,
                                      const std::string& what,
                                      const std::string& declaration) {
  if ((run.hook().info().writes & touch) != 0) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!is_same_to_the_bit(before[i], after[i])) {
      return "wrote into " + what + " without " + declaration + " in its `writes`";
    }
  }
  return std::nullopt;
}

StateTree state_of_hook(const StatefulProxy& proxy) {
  StateTree tree;
  StateWriter writer(tree, "state", proxy.version(), proxy.host());
  proxy.snapshot(*writer.abi());
  return tree;
}

// Loads the state of a hook into another instance. True if that one then saves it again.
bool is_state_restored(Subject& subject,
                       const CheckedComponent& checked,
                       const StatefulProxy& from,
                       const HookProxy& to) {
  subject.note("snapshot of " + checked.name());
  const StateTree saved = state_of_hook(from);
  const std::optional<StatefulProxy> target = StatefulProxy::of(to.instance());
  if (!target) {
    return false;
  }
  StateReader reader(saved, "state", target->host());
  subject.note("load of " + checked.name());
  target->load(*reader.abi());
  return state_of_hook(*target) == saved;
}

}  // namespace

CheckResult check_hook_events(Subject& subject) {
  return subject.for_each_instance(
      "hook", [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        findings.add_examined();
        std::set<std::string> refusals;
        ImaginedRun::Watcher watcher = watcher_of(subject, checked.name());
        // A hook may refuse a run; breaking the contract of a service is a mistake.
        watcher.failed = [&](uint32_t /*event*/, const Error& error) {
          if (error.id() == "plugin.failed") {
            refusals.insert(error.message());
          } else if (error.id() != kUndeclared) {
            findings.add_problem(formatted("{} [{}]", error.message(), error.id()));
          }
        };
        const TemporaryFolder folder;
        ImaginedRun full(HookProxy(std::move(instance)),
                         check_exec_base(subject.request()),
                         folder.path().string(),
                         ImaginedRun::Served::kAll);
        run_whole(full, watcher);
        ImaginedRun bare(HookProxy(subject.create(checked)),
                         check_exec_base(subject.request()),
                         folder.path().string(),
                         ImaginedRun::Served::kBare);
        run_whole(bare, watcher);
        for (const std::string& refusal : refusals) {
          findings.add_remark("returned a status: " + refusal);
        }
      });
}

CheckResult check_hook_writes(Subject& subject) {
  return subject.for_each_instance(
      "hook", [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        findings.add_examined();
        const TemporaryFolder folder;
        ImaginedRun run(HookProxy(std::move(instance)),
                        check_exec_base(subject.request()),
                        folder.path().string(),
                        ImaginedRun::Served::kAll);
        ImaginedRun::Watcher watcher = watcher_of(subject, checked.name());
        const auto note = watcher.before;
        ImaginedRun::Tensors before;
        watcher.before = [&](uint32_t event) {
          note(event);
          before = run.copy_of_tensors();
        };
        watcher.after = [&](uint32_t event) {
          const ImaginedRun::Tensors after = run.copy_of_tensors();
          for (const auto& problem : {undeclared(run,
                                                 before.batch,
                                                 after.batch,
                                                 TENON_TOUCH_BATCH,
                                                 "the batch",
                                                 "TENON_TOUCH_BATCH"),
                                      undeclared(run,
                                                 before.parameters,
                                                 after.parameters,
                                                 TENON_TOUCH_PARAMETERS,
                                                 "a parameter",
                                                 "TENON_TOUCH_PARAMETERS"),
                                      undeclared(run,
                                                 before.gradients,
                                                 after.gradients,
                                                 TENON_TOUCH_GRADIENTS,
                                                 "a gradient",
                                                 "TENON_TOUCH_GRADIENTS")}) {
            if (problem) {
              findings.add_problem(checked.name() + " " + *problem + " at " + event_name(event));
            }
          }
        };
        watcher.failed = [&](uint32_t /*event*/, const Error& error) {
          if (error.id() == kUndeclared) {
            findings.add_problem(error.message());
          }
        };
        run_whole(run, watcher);
      });
}

CheckResult check_hook_state(Subject& subject) {
  return subject.for_each_instance(
      "hook", [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const TemporaryFolder folder;
        const ImaginedRun::Watcher watcher = watcher_of(subject, checked.name());
        ImaginedRun run(HookProxy(std::move(instance)),
                        check_exec_base(subject.request()),
                        folder.path().string(),
                        ImaginedRun::Served::kAll);
        run.begin(watcher);
        run.train(1, kImaginedSteps / 2, watcher);
        ImaginedRun resumed(HookProxy(subject.create(checked)),
                            check_exec_base(subject.request()),
                            folder.path().string(),
                            ImaginedRun::Served::kAll);
        findings.add_examined();
        const std::optional<StatefulProxy> first = StatefulProxy::of(run.hook().instance());
        resumed.begin(watcher, [&] {
          if (first && !is_state_restored(subject, checked, *first, resumed.hook())) {
            findings.add_problem(checked.name() +
                                 " saves another state after load than the one that was loaded");
          }
        });
        const std::size_t num_before = run.actions().size();
        run.train(kImaginedSteps / 2 + 1, kImaginedSteps, watcher);
        resumed.train(kImaginedSteps / 2 + 1, kImaginedSteps, watcher);
        const std::vector<std::string> expected(
            run.actions().begin() + static_cast<std::ptrdiff_t>(num_before), run.actions().end());
        if (expected != resumed.actions()) {
          findings.add_problem(formatted(
              "{} requests {} changes in a run that continues, and {} in one that was resumed{}",
              checked.name(),
              expected.size(),
              resumed.actions().size(),
              first ? "" : "; it has no state to save"));
        }
      });
}

}  // namespace tenon
