// SPDX-License-Identifier: Apache-2.0
//
// Names the places of samples in the user's data, for messages. A dataset derives from SamplePlaces
// in addition to its kind, and returns SamplePlacesCalls<T>::find(id) from `extension`.
// <tenon/draft/sample_places.h> defines the contract.
#ifndef TENON_CPP_SAMPLE_PLACES_HPP
#define TENON_CPP_SAMPLE_PLACES_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/sample_places.h>

#include <cstdint>
#include <cstring>
#include <string>

TENON_NAMESPACE_BEGIN

template <class T>
struct SamplePlacesCalls;

/* Base class of datasets that name places; derive from it in addition to a kind. */
class SamplePlaces {
 public:
  virtual ~SamplePlaces() = default;
  /* Returns the place of a sample: "chats.jsonl, line 5". `window` is null without windows.
   *
   * Errors   any exception; the message then has the number of the sample only
   * Threads  [main], also while reads are running */
  virtual std::string place_of(const tenon_window* window, int64_t index) = 0;

 private:
  template <class T>
  friend struct SamplePlacesCalls;
  std::string last_place_;
};

/* The ABI table of a class. `self` is that of the kind's tables. */
template <class T>
struct SamplePlacesCalls {
  static tenon_status* find_place(void* self,
                                  const tenon_window* window,
                                  int64_t index,
                                  const char** out_ref) noexcept {
    using Kind = typename T::Kind;
    return call_on<Kind>(self, [&](Kind& kind) {
      TENON_CHECK(out_ref != nullptr, "out_ref is null");
      SamplePlaces& places = static_cast<T&>(kind);
      places.last_place_ = places.place_of(window, index);
      *out_ref = places.last_place_.c_str();
    });
  }
  /* Returns the table if `id` is TENON_SAMPLE_PLACES_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_sample_places calls{sizeof(tenon_sample_places), find_place};
    return std::strcmp(id, TENON_SAMPLE_PLACES_ID) == 0 ? &calls : nullptr;
  }
};

TENON_NAMESPACE_END

#endif
