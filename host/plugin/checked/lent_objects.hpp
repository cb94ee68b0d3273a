// SPDX-License-Identifier: Apache-2.0
//
// Objects with functions that the host lends for a call (batch writer, model builder, state reader,
// arguments of forward, the run of a hook), as they are lent in the checking mode: each function
// first checks that the call is still in progress, on this thread, and that handles are valid.
// Threads: those of the call that lends them; others are reported.
#pragma once

#include <tenon/hook.h>

#include "host/plugin/checked/call_frame.hpp"
#include "host/text/formatted.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace tenon {

// A name as a template argument.
template <std::size_t N>
struct NameText {
  char text[N];
  consteval NameText(const char (&given)[N]) {  // NOLINT(google-explicit-constructor): a literal
    for (std::size_t i = 0; i < N; ++i) {
      text[i] = given[i];
    }
  }
};

// A struct of functions whose first argument is the struct.
template <class T>
struct CheckedObject : LentObject {
  // The plugin sees this member, which `owner` leads back from.
  struct Seen {
    T abi;
    CheckedObject* owner;
  } seen{};
  T* real = nullptr;

  static CheckedObject& of(T* abi) { return *reinterpret_cast<Seen*>(abi)->owner; }
};

// The run that a hook sees.
struct CheckedRun : LentObject {
  tenon_run* real = nullptr;
  const tenon_run_api* api = nullptr;
};

// The run that a hook passes to a service is the one that the checking mode lends.
inline const CheckedRun* lent_run(tenon_run* run) {
  return reinterpret_cast<const CheckedRun*>(run);
}

// Reports a call of `function` of the object against the rules. Returns true if it may go on.
bool check_use(const LentObject& object, std::string_view function);

// Checks an argument: handles, and nothing else.
template <class T>
bool check_argument(const T& value, std::string_view service) {
  if constexpr (std::is_same_v<T, const tenon_tensor*> || std::is_same_v<T, tenon_tensor*>) {
    return check_passed(value, service);
  } else {
    return true;
  }
}

// Replaces borrowed handles that a function has returned.
template <class T>
void lend_returned(const T& value, std::string_view service) {
  CallFrame* const frame = CallFrame::current();
  if (frame == nullptr) {
    return;
  }
  if constexpr (std::is_same_v<T, const tenon_tensor**> || std::is_same_v<T, tenon_tensor**>) {
    if (value != nullptr) {
      *value = frame->lend(*value, std::string(service));
    }
  } else if constexpr (std::is_same_v<T, tenon_parameter_view*>) {
    if (value != nullptr) {
      value->value_ref = frame->lend(value->value_ref, std::string(service));
      value->grad_ref = frame->lend(value->grad_ref, std::string(service) + " (gradient)");
    }
  }
}

// The function that replaces `Member` of an object.
template <auto Member, NameText Name>
struct CheckedFunction;

template <class T, class... Args, tenon_status* (*T::*Member)(T*, Args...), NameText Name>
struct CheckedFunction<Member, Name> {
  static tenon_status* call(T* abi, Args... args) {
    if (abi == nullptr) {
      return bad_call_status(nullptr);
    }
    const CheckedObject<T>& object = CheckedObject<T>::of(abi);
    if (!check_use(object, Name.text) || !(check_argument(args, Name.text) && ...)) {
      return bad_call_status(nullptr);
    }
    tenon_status* const status = (object.real->*Member)(object.real, args...);
    if (status == nullptr) {
      (lend_returned(args, Name.text), ...);
    }
    return status;
  }
};

// The same for a function of the run of a hook.
template <class Result,
          class... Args,
          Result (*tenon_run_api::*Member)(tenon_run*, Args...),
          NameText Name>
struct CheckedFunction<Member, Name> {
  static Result call(tenon_run* abi, Args... args) {
    auto* const run = reinterpret_cast<CheckedRun*>(abi);
    if constexpr (std::is_same_v<Result, tenon_status*>) {
      if (run == nullptr || !check_use(*run, Name.text) ||
          !(check_argument(args, Name.text) && ...)) {
        return bad_call_status(nullptr);
      }
      tenon_status* const status = (run->api->*Member)(run->real, args...);
      if (status == nullptr) {
        (lend_returned(args, Name.text), ...);
      }
      return status;
    } else {
      return run != nullptr && check_use(*run, Name.text) ? (run->api->*Member)(run->real, args...)
                                                          : "";
    }
  }
};

// Lends a copy of `real` for the call of this thread. `replace` sets its functions.
template <class T, class Replace>
T* lend_object(T* real, std::string_view what, const Replace& replace) {
  CallFrame* const frame = CallFrame::current();
  if (real == nullptr || frame == nullptr) {
    return real;
  }
  auto object = std::make_shared<CheckedObject<T>>();
  object->what = what;
  object->real = real;
  object->seen = {*real, object.get()};
  replace(object->seen.abi);
  T* const lent = &object->seen.abi;
  frame->keep(std::move(object));
  return lent;
}

}  // namespace tenon

// Replaces a function of an object (`to`, a T) or of the api of a run.
#define TENON_CHECK_FUNCTION(T, to, field) \
  (to).field = &CheckedFunction<&T::field, NameText(#field)>::call
