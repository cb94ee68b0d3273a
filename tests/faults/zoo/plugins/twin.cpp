// SPDX-License-Identifier: Apache-2.0
//
// One of two plugins that have a class of the same name, built without the options of
// tenon_add_plugin(): the class is visible to other libraries. ZOO_TWIN is the number of the twin.
// With ZOO_SHARED, the class also has a static variable, of which a process has only one.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#define ZOO_TEXT_OF(number) #number
#define ZOO_TEXT(number) ZOO_TEXT_OF(number)

TENON_MANIFEST("id=org.tenon.zoo.twin_" ZOO_TEXT(
    ZOO_TWIN) "\nversion=1.0.0\nabi=" TENON_ABI_STRING
              "\nlane=stable\ncomponent=hook:twin_" ZOO_TEXT(ZOO_TWIN) "\n");

class Twin : public tenon::Hook {
 public:
  static constexpr const char* kType = "twin_" ZOO_TEXT(ZOO_TWIN);
  static constexpr const char* kSummary = "for tests: one of two";

  void describe(tenon_hook_info& info) override {
#ifdef ZOO_SHARED
    ++num_described;
#endif
    info.events = TENON_EVENT_BIT(TENON_EVENT_END);
  }
  // Another twin's function would write another number.
  void on_event(const tenon::Event&) override {
    host().log_info("twin " ZOO_TEXT(ZOO_TWIN) " is itself");
  }

#ifdef ZOO_SHARED
  static inline int num_described = 0;
#endif
};

TENON_PLUGIN(Twin)
