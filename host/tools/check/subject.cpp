// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/subject.hpp"

#include "host/error/error.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/child/child_output.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <sys/socket.h>
#include <sys/wait.h>
#include <utility>

namespace tenon {
namespace {

constexpr std::size_t kMaxShownFrames = 8;

// The message without the name and file of the component, which the report has already.
std::string reason_of(const Error& error) {
  return error.message() + " [" + error.id() + "]";
}

// Adds a use of the plugin's components and those inside its options.
void collect_uses(const ComponentUse& use,
                  const std::string& plugin_id,
                  std::vector<const ComponentUse*>& uses) {
  if (use.ref.empty() && use.plugin_id == plugin_id) {
    uses.push_back(&use);
  }
  for (const ComponentUse::Nested& nested : use.nested) {
    collect_uses(nested.use, plugin_id, uses);
  }
}

bool is_type_of(const ComponentUse& use, const LoadedComponent& component) {
  const std::string type = use.type.substr(use.type.rfind('/') + 1);
  return use.kind == component.kind && type == component.type;
}

}  // namespace

struct Subject::RecipeParts {
  explicit RecipeParts(PluginSetup setup) : registry(std::move(setup)) {}

  PluginRegistry registry;
  Recipe recipe;
  std::optional<ComponentFactory> factory;
};

void Subject::note(std::string_view call) {
  if (note_ != nullptr) {
    set_note(*note_, call);
  }
}

const LoadedPlugin& Subject::plugin() {
  if (plugin_ == nullptr) {
    note("");
    plugin_ = &load_plugin(info_, request_.services);
  }
  return *plugin_;
}

const Recipe& Subject::recipe() {
  if (recipe_ == nullptr) {
    plugin();
    PluginSetup setup{
        .folders = request_.folders, .services = request_.services, .vetting = Vetting::kNone};
    auto parts = std::make_shared<RecipeParts>(std::move(setup));
    parts->recipe = request_.load_recipe(parts->registry);
    recipe_ = std::move(parts);
  }
  return recipe_->recipe;
}

ComponentFactory& Subject::factory() {
  recipe();
  if (!recipe_->factory) {
    recipe_->factory.emplace(recipe_->registry, recipe_->recipe, lone_mesh());
  }
  return *recipe_->factory;
}

const std::vector<CheckedComponent>& Subject::components() {
  if (components_) {
    return *components_;
  }
  std::vector<const ComponentUse*> uses;
  if (!request_.recipe.empty()) {
    for_each_component(
        recipe(), [&](const ComponentUse& use) { collect_uses(use, info_.manifest.id, uses); });
  }
  std::vector<CheckedComponent> all;
  for (const LoadedComponent& component : plugin().components) {
    const std::size_t before = all.size();
    for (const ComponentUse* const use : uses) {
      if (is_type_of(*use, component)) {
        all.push_back({.component = &component, .options = use->options, .use = use});
      }
    }
    if (all.size() > before) {
      continue;
    }
    CheckedComponent checked{.component = &component};
    if (const std::optional<std::string> options = default_options(component)) {
      checked.options = *options;
    } else {
      checked.problem = checked.name() +
                        " has options without a default; pass a recipe that uses it: --recipe FILE";
    }
    all.push_back(std::move(checked));
  }
  return components_.emplace(std::move(all));
}

ComponentInstance Subject::create(const CheckedComponent& checked) {
  note("create of " + checked.name());
  if (checked.use != nullptr && !checked.use->nested.empty()) {
    return factory().create(*checked.use, formatted("check/{}", num_created_++));
  }
  return ComponentInstance::create(
      *checked.component,
      {.options_json = checked.options,
       .place = checked.use != nullptr ? checked.use->pointer : "/check",
       .seed = request_.seed,
       .mesh = &lone_mesh()});
}

CheckResult Subject::for_each_instance(std::string_view kind,
                                       const Body& body,
                                       const std::string& none) {
  Findings findings;
  for (const CheckedComponent& checked : components()) {
    if (!kind.empty() && checked.component->kind != kind) {
      continue;
    }
    if (!checked.problem.empty()) {
      findings.add_skipped(checked.problem);
      continue;
    }
    std::optional<ComponentInstance> instance;
    try {
      instance.emplace(create(checked));
    } catch (const Error& error) {
      findings.add_skipped(checked.name() + " cannot be created: " + reason_of(error));
      continue;
    }
    note("calls of " + checked.name());
    try {
      body(checked, std::move(*instance), findings);
    } catch (const Error& error) {
      findings.add_problem(reason_of(error));
    }
    note("destroy of " + checked.name());
  }
  if (!none.empty()) {
    return findings.result(none);
  }
  return findings.result(kind.empty() ? "the plugin has no component"
                                      : "the plugin has no " + std::string(kind));
}

std::optional<CheckResult> Subject::try_apart(const Trial& trial, std::chrono::milliseconds limit) {
  WatchedChild child(
      [&](int socket, ChildNote& note) {
        std::array<char, 1> request;
        if (::recv(socket, request.data(), request.size(), 0) < 0) {
          return;
        }
        Subject apart(request_, info_, &note);
        std::string problem;
        try {
          problem = trial(apart);
        } catch (const Error& error) {
          problem = reason_of(error);
        } catch (...) {
          std::terminate();  // with the exception active, so that the output names it
        }
        problem = "." + problem.substr(0, kMaxAnswerBytes / 2);
        (void)!::send(socket, problem.data(), problem.size(), MSG_NOSIGNAL);
      },
      LogLevel::kError);
  const std::optional<std::string> answer = child.ask("?", limit);
  if (!answer) {
    return result_of_death(child, info_, limit);
  }
  return answer->size() > 1 ? std::optional(failed(answer->substr(1))) : std::nullopt;
}

ExecBase check_exec_base(const CheckRequest& request, at::ScalarType compute_dtype) {
  return {.seed = request.seed,
          .compute_dtype = compute_dtype,
          .mesh = &lone_mesh(),
          .tensors = tensor_service(),
          .ops = op_service()};
}

CheckResult result_of_death(const WatchedChild& child,
                            const PluginInfo& info,
                            std::chrono::milliseconds limit) {
  const std::string call = child.call();
  const std::string where = call.empty() ? "while it was loaded" : "in " + call;
  const ChildOutput output = split_output(child.output());
  const int status = child.death().status;
  CheckResult result{.outcome = CheckOutcome::kFailed};
  std::string what;
  if (child.death().is_hung) {
    what = formatted("the plugin did not return within {} s {}",
                     static_cast<double>(limit.count()) / 1000,
                     where);
    result.fix = "return from each call; a slow machine needs a higher TENON_VET_TIMEOUT_S";
  } else if (WIFSIGNALED(status)) {
    what = formatted("the plugin crashed with {} {}", signal_name(WTERMSIG(status)), where);
    if (const std::string frame = innermost_frame(info.file, output.frames); !frame.empty()) {
      what += ", at " + frame;
    }
    result.fix = "run this check alone in a debugger, or build the plugin with a sanitizer";
  } else {
    what = formatted("the plugin ended the process with status {} {}", WEXITSTATUS(status), where);
    result.fix = "return a status in place of exit()";
  }
  if (const std::string words = last_words(output.text); !words.empty()) {
    what += ", after printing \"" + words + "\"";
  }
  result.found.push_back(std::move(what));
  result.frames = output.frames;
  result.frames.resize(std::min(result.frames.size(), kMaxShownFrames));
  return result;
}

}  // namespace tenon
