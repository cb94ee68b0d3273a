// SPDX-License-Identifier: Apache-2.0
//
// Lets the host export a model's weights to the files of another program, and import them. A model
// derives from WeightsLayout in addition to its kind, and returns WeightsLayoutCalls<T>::find(id)
// from `extension`. <tenon/draft/weights_layout.h> defines the contract.
#ifndef TENON_CPP_WEIGHTS_LAYOUT_HPP
#define TENON_CPP_WEIGHTS_LAYOUT_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/options.hpp>
#include <tenon/draft/weights_layout.h>

#include <cstdint>
#include <cstring>
#include <string>

TENON_NAMESPACE_BEGIN

/* Receives a layout from `describe_layout`.
 *
 * Errors   TENON_INVALID for a parameter that does not exist, or a row range or file that is given
 *          twice
 * Threads  those of `describe_layout`, and only during it */
class LayoutBuilder {
 public:
  LayoutBuilder(const Host& host, tenon_layout_builder* builder) : host_(host), builder_(builder) {}
  /* Maps tensor `name` of the files to a parameter, which starts at row `first` of it. `flags` is
   * TENON_LAYOUT_*. */
  void tensor(const std::string& name,
              const std::string& parameter,
              uint32_t flags = 0,
              int64_t first = 0) {
    const tenon_layout_tensor spec{
        sizeof(tenon_layout_tensor), name.c_str(), parameter.c_str(), flags, 0, first, 0};
    host_.check(builder_->add_tensor(builder_, &spec));
  }
  /* Maps tensor `name` of the files to slice `index` of a parameter along its first axis. */
  void slice(const std::string& name,
             const std::string& parameter,
             int64_t index,
             uint32_t flags = 0) {
    const tenon_layout_tensor spec{sizeof(tenon_layout_tensor),
                                   name.c_str(),
                                   parameter.c_str(),
                                   flags | TENON_LAYOUT_SLICE,
                                   0,
                                   0,
                                   index};
    host_.check(builder_->add_tensor(builder_, &spec));
  }
  /* Adds a text file next to the tensors. */
  void file(const std::string& name, const std::string& text) {
    host_.check(builder_->add_file(builder_, name.c_str(), text.c_str()));
  }

 private:
  Host host_;
  tenon_layout_builder* builder_;
};

/* Receives differences from `compare_layout`.
 *
 * Threads  those of `compare_layout`, and only during it */
class LayoutDifferences {
 public:
  LayoutDifferences(const Host& host, tenon_layout_differences* differences)
      : host_(host), differences_(differences) {}
  /* Adds a difference: an option of the model, its value here, and its value in the files. */
  void add(const std::string& option, const std::string& here, const std::string& there) {
    host_.check(differences_->add(differences_, option.c_str(), here.c_str(), there.c_str()));
  }

 private:
  Host host_;
  tenon_layout_differences* differences_;
};

/* Base class of models with weight layouts; derive from it in addition to a kind. */
class WeightsLayout {
 public:
  virtual ~WeightsLayout() = default;
  /* Describes the tensors of all parameters in the named layout, and the files next to them.
   * `dtype` is the dtype of most written tensors.
   *
   * Errors   TENON_UNSUPPORTED, with the reason, for a layout that the model does not have or that
   *          cannot express its options
   * Threads  [main], after `on_describe`
   * Owner    all arguments are borrowed until return */
  virtual void describe_layout(const std::string& layout,
                               uint32_t dtype,
                               LayoutBuilder& builder) = 0;
  /* Reports where the description next to other weights contradicts the function that this model
   * computes.
   *
   * Errors   TENON_UNSUPPORTED, as for `describe_layout`
   * Threads  [main]
   * Owner    all arguments are borrowed until return */
  virtual void compare_layout(const std::string& layout,
                              const OptionReader& config,
                              LayoutDifferences& differences) = 0;
};

/* The ABI table of a class. `self` is that of the kind's tables. */
template <class T>
struct WeightsLayoutCalls {
  static T& of(void* self) {
    TENON_CHECK(self != nullptr, "self is null");
    return *static_cast<T*>(static_cast<typename T::Kind*>(self));
  }
  static const tenon_host* host(void* self) noexcept {
    return self == nullptr ? PluginHost::get() : static_cast<typename T::Kind*>(self)->host().get();
  }
  static tenon_status* describe(void* self,
                                const char* layout,
                                uint32_t dtype,
                                tenon_layout_builder* raw) noexcept {
    return guard(host(self), [&] {
      T& instance = of(self);
      TENON_CHECK(layout != nullptr && raw != nullptr, "an argument of describe is null");
      LayoutBuilder builder(instance.host(), raw);
      instance.describe_layout(layout, dtype, builder);
    });
  }
  static tenon_status* compare(void* self,
                               const char* layout,
                               const tenon_options* config,
                               tenon_layout_differences* raw) noexcept {
    return guard(host(self), [&] {
      T& instance = of(self);
      TENON_CHECK(layout != nullptr && config != nullptr && raw != nullptr,
                  "an argument of compare is null");
      LayoutDifferences differences(instance.host(), raw);
      instance.compare_layout(layout, OptionReader(instance.host(), config), differences);
    });
  }
  /* Returns the table if `id` is TENON_WEIGHTS_LAYOUT_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_weights_layout calls{sizeof(tenon_weights_layout), describe, compare};
    return std::strcmp(id, TENON_WEIGHTS_LAYOUT_ID) == 0 ? &calls : nullptr;
  }
};

TENON_NAMESPACE_END

#endif
