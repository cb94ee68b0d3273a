// SPDX-License-Identifier: Apache-2.0
//
// A model that derives from WeightsLayout, beside its kind, has its weights exported to the files
// of another program, and imported from them. It returns WeightsLayoutCalls<T>::find(id) from its
// `extension`.
#ifndef TENON_CPP_WEIGHTS_LAYOUT_HPP
#define TENON_CPP_WEIGHTS_LAYOUT_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/options.hpp>
#include <tenon/draft/weights_layout.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace tenon {

/* Where `describe_layout` puts what it says. */
class LayoutBuilder {
 public:
  LayoutBuilder(const Host& host, tenon_layout_builder* builder) : host_(host), builder_(builder) {}
  /* The file's tensor `name` is the parameter, or begins with it at row `first`. `flags` are
   * TENON_LAYOUT_*. */
  void tensor(const std::string& name,
              const std::string& parameter,
              uint32_t flags = 0,
              int64_t first = 0) {
    const tenon_layout_tensor spec{
        sizeof(tenon_layout_tensor), name.c_str(), parameter.c_str(), flags, 0, first};
    host_.check(builder_->add_tensor(builder_, &spec));
  }
  /* A text file beside the tensors. */
  void file(const std::string& name, const std::string& text) {
    host_.check(builder_->add_file(builder_, name.c_str(), text.c_str()));
  }

 private:
  Host host_;
  tenon_layout_builder* builder_;
};

/* Where `compare_layout` says what differs. */
class LayoutDifferences {
 public:
  LayoutDifferences(const Host& host, tenon_layout_differences* differences)
      : host_(host), differences_(differences) {}
  void add(const std::string& option, const std::string& here, const std::string& there) {
    host_.check(differences_->add(differences_, option.c_str(), here.c_str(), there.c_str()));
  }

 private:
  Host host_;
  tenon_layout_differences* differences_;
};

/* To derive from beside a kind; weights_layout.h says what the functions are to do. */
class WeightsLayout {
 public:
  virtual ~WeightsLayout() = default;
  /* Throws TENON_UNSUPPORTED for a layout that is not known.  Threads [main] */
  virtual void describe_layout(const std::string& layout,
                               uint32_t dtype,
                               LayoutBuilder& builder) = 0;
  virtual void compare_layout(const std::string& layout,
                              const OptionReader& config,
                              LayoutDifferences& differences) = 0;
};

/* The table of a class. `self` is what the kind's tables get. */
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
  /* The table, where it is asked for; else null. */
  static const void* find(const char* id) {
    static const tenon_weights_layout calls{sizeof(tenon_weights_layout), describe, compare};
    return std::strcmp(id, TENON_WEIGHTS_LAYOUT_ID) == 0 ? &calls : nullptr;
  }
};

}  // namespace tenon

#endif
