// SPDX-License-Identifier: Apache-2.0
//
// Base class of all components, and the code that creates, destroys and extends them. Each kind has
// its own header (loss.hpp, hook.hpp, ...) with a class to derive from; plugin.hpp registers the
// classes.
//
// A component is a class with these members:
//
//     static constexpr const char* kType = "focal";
//     static constexpr const char* kSummary = "Focal loss for unbalanced classes";
//     struct Options { ... };                                        // optional
//     static void bind(tenon::OptionBinder<Options>&);               // required with Options
//     Focal(const Options&, const tenon::CreateContext&);            // either argument is optional
//     static const void* get_table(const char* id);                  // optional, see component.h
#ifndef TENON_CPP_COMPONENT_HPP
#define TENON_CPP_COMPONENT_HPP

#include <tenon/component.h>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/options.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/cpp/stateful.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

TENON_NAMESPACE_BEGIN

/* Arguments of a component's constructor. */
struct CreateContext {
  /* The plugin's host, with its services. */
  Host host;
  std::string place; /* JSON pointer of the component in the recipe, for example "/hooks/0" */
  uint64_t seed = 0; /* derived from the run's seed and `place`; equal on all ranks */
  const tenon_mesh* mesh = nullptr; /* position of this rank; valid for the whole run */
  /* The options of the recipe; valid until the constructor returns. */
  const tenon_options* options = nullptr;
};

/* Base class of every kind.
 *
 * Owner    the host destroys the instance, on [main], while no other call on it is running */
class Component {
 public:
  Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;
  virtual ~Component() = default;

  /* Returns the host. In a constructor, use CreateContext::host instead. */
  const Host& host() const { return host_; }

  /* Returns the table of an ability that the wrapper does not know, or null.
   *
   * Errors   an exception counts as null
   * Threads  [any]
   * Owner    the table lives at least as long as the instance */
  virtual const void* extension(const char* /*id*/) { return nullptr; }

  /* Sets the host. For the wrapper only. */
  void attach(const Host& host) { host_ = host; }

 private:
  Host host_;
};

/* Returns the instance behind `self` of a call, as its kind K.
 *
 * Errors   TENON_INVALID if `self` is null */
template <class K>
K& instance(void* self) {
  TENON_CHECK(self != nullptr, "self is null");
  return *static_cast<K*>(self);
}

/* Returns the host of an instance, for a guard around a call on it; the library's host if `self` is
 * null. */
template <class K>
const tenon_host* host_of(void* self) noexcept {
  return self == nullptr ? PluginHost::get() : static_cast<K*>(self)->host().get();
}

/* Runs one call on an instance: body(K&), inside a guard. */
template <class K, class Body>
tenon_status* call_on(void* self, Body&& body) noexcept {
  return guard(host_of<K>(self), [&] { body(instance<K>(self)); });
}

/* ---- creation, for a class of any kind ---- */

/* Options of a component that has none. */
struct NoOptions {
  static void bind(OptionBinder<NoOptions>&) {}
};

/* The options struct of a component: T::Options, or NoOptions. */
template <class T, class = void>
struct OptionsOf {
  using Type = NoOptions;
};
template <class T>
struct OptionsOf<T, std::void_t<typename T::Options>> {
  using Type = typename T::Options;
};

/* Whether T has a `bind` function. */
template <class T, class = void>
struct HasBind : std::false_type {};
template <class T>
struct HasBind<
    T,
    std::void_t<decltype(T::bind(std::declval<OptionBinder<typename OptionsOf<T>::Type>&>()))>>
    : std::true_type {};

/* Whether T declares `static const void* get_table(const char* id)`. */
template <class T, class = void>
struct HasGetTable : std::false_type {};
template <class T>
struct HasGetTable<T, std::void_t<decltype(T::get_table(std::declval<const char*>()))>>
    : std::true_type {};

/* Returns the binder of a component's options: from `T::bind`, or from the options' own `bind`. */
template <class T>
OptionBinder<typename OptionsOf<T>::Type> binder_of() {
  OptionBinder<typename OptionsOf<T>::Type> binder;
  if constexpr (HasBind<T>::value) {
    T::bind(binder);
  } else {
    OptionsOf<T>::Type::bind(binder);
  }
  return binder;
}

/* Creates an instance with the constructor arguments that T takes. */
template <class T>
std::unique_ptr<T> construct(const typename OptionsOf<T>::Type& options,
                             const CreateContext& context) {
  using Given = const typename OptionsOf<T>::Type&;
  if constexpr (std::is_constructible_v<T, Given, const CreateContext&>) {
    return std::make_unique<T>(options, context);
  } else if constexpr (std::is_constructible_v<T, Given>) {
    return std::make_unique<T>(options);
  } else if constexpr (std::is_constructible_v<T, const CreateContext&>) {
    return std::make_unique<T>(context);
  } else {
    return std::make_unique<T>();
  }
}

/* The functions of `tenon_component` for class T of kind `T::Kind`. The `self` of all its tables is
 * a `Kind*`. */
template <class T>
struct ComponentCalls {
  using Kind = typename T::Kind;

  static tenon_status* create(const tenon_host* host,
                              const tenon_create_args* args,
                              void** out_self) noexcept {
    return guard(host, [&] {
      TENON_CHECK(host != nullptr && args != nullptr && out_self != nullptr,
                  "an argument of create is null");
      CreateContext context{Host(host),
                            args->place == nullptr ? "" : args->place,
                            args->seed,
                            TENON_HAS(tenon_create_args, args, mesh) ? args->mesh : nullptr,
                            args->options};
      typename OptionsOf<T>::Type options{};
      if constexpr (!std::is_same_v<typename OptionsOf<T>::Type, NoOptions>) {
        TENON_CHECK(args->options != nullptr, "the options are null");
        binder_of<T>().read(OptionReader(context.host, args->options), "", options);
      }
      std::unique_ptr<T> made = construct<T>(options, context);
      made->attach(context.host);
      *out_self = static_cast<Kind*>(made.release());
    });
  }

  static void destroy(void* self) noexcept { delete static_cast<T*>(static_cast<Kind*>(self)); }

  static const void* get_extension(void* self, const char* id) noexcept {
    if (self == nullptr || id == nullptr) {
      return nullptr;
    }
    if constexpr (std::is_base_of_v<Stateful, T>) {
      if (std::strcmp(id, TENON_STATEFUL_ID) == 0) {
        return &StatefulCalls<T>::table();
      }
    }
    try {
      return static_cast<Kind*>(self)->extension(id);
    } catch (...) {
      return nullptr;  // an ability whose lookup fails does not exist
    }
  }

  /* Returns the function `get_table` of the descriptor; null if T has none. */
  static auto table_lookup() noexcept -> const void* (*)(const char*) {
    if constexpr (HasGetTable<T>::value) {
      return [](const char* id) noexcept -> const void* {
        try {
          return id == nullptr ? nullptr : T::get_table(id);
        } catch (...) {
          return nullptr;
        }
      };
    } else {
      return nullptr;
    }
  }
};

TENON_NAMESPACE_END

#endif
