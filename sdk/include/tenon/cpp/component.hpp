// SPDX-License-Identifier: Apache-2.0
//
// What all components share: how one is created from its options, destroyed, and asked for more
// than its kind. Each kind has a file of its own (loss.hpp, hook.hpp, ...) with a class to derive
// from; plugin.hpp registers them.
//
// A component is a class with
//     static constexpr const char* kType = "focal";
//     static constexpr const char* kSummary = "Focal loss for unbalanced classes";
//     struct Options { ... };                                        // may be left out
//     static void bind(tenon::OptionBinder<Options>&);               // with it
//     Focal(const Options&, const tenon::CreateContext&);            // or without either argument
#ifndef TENON_CPP_COMPONENT_HPP
#define TENON_CPP_COMPONENT_HPP

#include <tenon/component.h>
#include <tenon/cpp/options.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/cpp/stateful.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

namespace tenon {

/* What an instance is told when it is created. */
struct CreateContext {
  Host host;
  std::string place;                      /* JSON pointer of the component in the recipe */
  uint64_t seed = 0;                      /* derived from the run's seed and `place` */
  const tenon_mesh* mesh = nullptr;       /* where this rank stands; valid as long as the run */
  const tenon_options* options = nullptr; /* as given; valid until the constructor returns */
};

/* The root of all kinds.  Owner the host destroys it */
class Component {
 public:
  Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;
  virtual ~Component() = default;

  /* The host; of no use in a constructor, which has it in its CreateContext. */
  const Host& host() const { return host_; }

  /* A table for an ability beyond those the wrapper knows, or null.  Threads [any] */
  virtual const void* extension(const char* /*id*/) { return nullptr; }

  /* For the wrapper alone. */
  void attach(const Host& host) { host_ = host; }

 private:
  Host host_;
};

/* The instance behind `self` of a call, as its kind K. */
template <class K>
K& instance(void* self) {
  TENON_CHECK(self != nullptr, "self is null");
  return *static_cast<K*>(self);
}

/* The host of an instance, for a guard around a call on it; that of the library when `self` is
 * null. */
template <class K>
const tenon_host* host_of(void* self) noexcept {
  return self == nullptr ? PluginHost::get() : static_cast<K*>(self)->host().get();
}

/* One call on an instance: body(K&) inside a guard. */
template <class K, class Body>
tenon_status* call_on(void* self, Body&& body) noexcept {
  return guard(host_of<K>(self), [&] { body(instance<K>(self)); });
}

/* ---- creation, for any class of any kind ---- */

struct NoOptions {
  static void bind(OptionBinder<NoOptions>&) {}
};

template <class T, class = void>
struct OptionsOf {
  using Type = NoOptions;
};
template <class T>
struct OptionsOf<T, std::void_t<typename T::Options>> {
  using Type = typename T::Options;
};

template <class T, class = void>
struct HasBind : std::false_type {};
template <class T>
struct HasBind<
    T,
    std::void_t<decltype(T::bind(std::declval<OptionBinder<typename OptionsOf<T>::Type>&>()))>>
    : std::true_type {};

/* The binder of a component's options: `T::bind`, or the options' own. */
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

/* The functions of `tenon_component` for class T, whose kind is `T::Kind`. The `self` of all its
 * tables is a `Kind*`. */
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
      return nullptr;  // an ability that cannot be asked for is not there
    }
  }
};

}  // namespace tenon

#endif
