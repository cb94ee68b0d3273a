// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/tensor/handle_pool.hpp"
#include "host/tensor/state/state_bridge.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

constexpr int kNumInstances = 1000;
constexpr int kNumBefore = 200;  // instances after which caches are filled
// An instance that leaks leaks its object at least; allocators round up.
constexpr int64_t kMaxBytesPerInstance = 1024;

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

StateTree snapshot_of(const StatefulProxy& proxy) {
  StateTree tree;
  StateWriter writer(tree, "state", proxy.version(), proxy.host());
  proxy.snapshot(*writer.abi());
  return tree;
}

}  // namespace

CheckResult check_many_instances(Subject& subject) {
  Findings findings;
  for (const CheckedComponent& checked : subject.components()) {
    if (!checked.problem.empty() || (checked.use != nullptr && !checked.use->nested.empty())) {
      findings.add_skipped(checked.problem.empty() ? checked.name() + " refers to another component"
                                                   : checked.problem);
      continue;
    }
    try {
      int64_t bytes_before = 0;
      const int64_t handles_before = HandlePool::get().num_live();
      for (int i = 0; i < kNumInstances; ++i) {
        if (i == kNumBefore) {
          bytes_before = resident_bytes();
        }
        describe_instance(subject.create(checked));
      }
      const int64_t bytes = resident_bytes() - bytes_before;
      const int64_t handles = HandlePool::get().num_live() - handles_before;
      findings.add_examined();
      if (handles > 0) {
        findings.add_problem(formatted("{} kept {} tensor handles after {} instances",
                                       checked.name(),
                                       handles,
                                       kNumInstances));
      }
      if (bytes > kMaxBytesPerInstance * (kNumInstances - kNumBefore)) {
        findings.add_problem(formatted("memory grew by {} KiB over {} instances of {}",
                                       bytes / 1024,
                                       kNumInstances - kNumBefore,
                                       checked.name()));
      }
    } catch (const Error& error) {
      findings.add_skipped(checked.name() + " cannot be created: " + error.message());
    }
  }
  return findings.result("the plugin has no component");
}

CheckResult check_two_instances(Subject& subject) {
  return subject.for_each_instance(
      "", [&](const CheckedComponent& checked, ComponentInstance first, Findings& findings) {
        std::optional<ComponentInstance> second(subject.create(checked));
        findings.add_examined();
        subject.note("destroy of the second " + checked.name());
        second.reset();
        subject.note("describe of " + checked.name() + " after another was destroyed");
        describe_instance(std::move(first));
      });
}

CheckResult check_shutdown(Subject& subject) {
  subject.for_each_instance("", [](const CheckedComponent&, ComponentInstance instance, Findings&) {
    describe_instance(std::move(instance));
  });
  subject.note("shutdown");
  if (!shutdown_plugins()) {
    return failed("shutdown threw an exception");
  }
  return passed(subject.plugin().shutdown == nullptr ? "" : "the plugin has a shutdown function");
}

CheckResult check_state_round_trip(Subject& subject) {
  return subject.for_each_instance(
      "",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const std::optional<StatefulProxy> first = StatefulProxy::of(instance);
        if (!first) {
          return;
        }
        findings.add_examined();
        subject.note("snapshot of " + checked.name());
        const StateTree saved = snapshot_of(*first);
        const ComponentInstance other = subject.create(checked);
        const std::optional<StatefulProxy> second = StatefulProxy::of(other);
        if (!second) {
          findings.add_problem(checked.name() + " has a state, and another instance has none");
          return;
        }
        StateReader reader(saved, "state", second->host());
        subject.note("load of " + checked.name());
        second->load(*reader.abi());
        subject.note("snapshot of " + checked.name() + " after load");
        if (!(snapshot_of(*second) == saved)) {
          findings.add_problem(checked.name() +
                               " saves another state after load than the one that was loaded");
        }
      },
      "no component has a state");
}

CheckResult check_foreign_state(Subject& subject) {
  return subject.for_each_instance(
      "",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const std::optional<StatefulProxy> proxy = StatefulProxy::of(instance);
        if (!proxy) {
          return;
        }
        findings.add_examined();
        subject.note("snapshot of " + checked.name());
        const StateTree saved = snapshot_of(*proxy);
        // Each entry with another type; the entries are checked one by one.
        for (const auto& [name, entry] : saved.entries()) {
          StateTree changed;
          changed.set_version("state", proxy->version());
          for (const auto& [other_name, other] : saved.entries()) {
            if (other_name != name) {
              changed.put_entry(other_name, other);
            }
          }
          if (std::holds_alternative<std::string>(entry.value)) {
            changed.put_double(name, 0.5, entry.scope);
          } else {
            changed.put_bytes(name, std::string("\xff\0rubbish", 9), entry.scope);
          }
          const ComponentInstance other = subject.create(checked);
          const std::optional<StatefulProxy> target = StatefulProxy::of(other);
          StateReader reader(changed, "state", proxy->host());
          subject.note("load of " + checked.name() + " from a corrupt state");
          try {
            target->load(*reader.abi());
            findings.add_problem(checked.name() + " loads a state whose entry \"" +
                                 name.substr(std::string_view("state/").size()) +
                                 "\" has another type");
          } catch (const Error&) {  // the right answer
          }
        }
      },
      "no component has a state");
}

}  // namespace tenon
