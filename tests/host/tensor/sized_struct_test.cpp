// SPDX-License-Identifier: Apache-2.0
//
// Every struct that a plugin allocates, at the end of a page before memory that may not be touched:
// one field shorter, as the host has it, and one field longer.
#include "host/tensor/sized_struct.hpp"

#include "host/error/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {

// A struct that has grown since the first version.
struct GrownSpec {
  std::size_t struct_size;
  uint64_t first;
  uint64_t added;
};

template <>
struct SizedStruct<GrownSpec> {
  static constexpr const char* kName = "GrownSpec";
  static constexpr std::size_t kLeast = TENON_END_OF(GrownSpec, first);
};

namespace {

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// One page, followed by one that faults on every access.
class GuardedPage {
 public:
  GuardedPage()
      : bytes_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        pages_(static_cast<std::byte*>(::mmap(
            nullptr, 2 * bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(pages_ != MAP_FAILED);
    REQUIRE(::mprotect(pages_ + bytes_, bytes_, PROT_NONE) == 0);
  }
  GuardedPage(const GuardedPage&) = delete;
  GuardedPage& operator=(const GuardedPage&) = delete;
  ~GuardedPage() { ::munmap(pages_, 2 * bytes_); }

  // Returns a struct whose last `num_bytes` bytes are the last of the page, filled with `fill`.
  template <class T>
  T& at_end(std::size_t num_bytes, int fill = 0) {
    std::memset(pages_, fill, bytes_);
    return *reinterpret_cast<T*>(pages_ + bytes_ - num_bytes);
  }

 private:
  std::size_t bytes_;
  std::byte* pages_;
};

// Size of the struct without its last 8 bytes: at least one field less.
template <class T>
constexpr std::size_t kShorter = sizeof(T) - 8;

}  // namespace

#define ALL_SIZED_STRUCTS                                                                          \
  tenon_block_spec, tenon_buffer_spec, tenon_component_ref, tenon_field_spec, tenon_layout_tensor, \
      tenon_lr_group, tenon_metric_state_spec, tenon_parameter_spec, tenon_parameter_view,         \
      tenon_port, tenon_row_slot_spec, tenon_slot_spec, tenon_split, tenon_tensor_info,            \
      tenon_value_spec

TEMPLATE_TEST_CASE("a struct of older headers is refused, and not read past its end",
                   "[tensor]",
                   ALL_SIZED_STRUCTS) {
  GuardedPage page;
  auto& theirs = page.at_end<TestType>(kShorter<TestType>);
  theirs.struct_size = kShorter<TestType>;
  const std::string expected = std::string(SizedStruct<TestType>::kName) + " has struct_size " +
                               std::to_string(kShorter<TestType>) + ", expected";
  CHECK_THAT(error_of([&] { read_sized(theirs); }), contains_text(expected));
  CHECK_THAT(error_of([&] { read_element(&theirs, 0); }), contains_text(expected));
  CHECK_THAT(error_of([&] { write_sized(theirs, TestType{}); }),
             contains_text("[plugin.bad_struct]") && contains_text(expected));
}

TEMPLATE_TEST_CASE("a struct of these headers is read and written whole",
                   "[tensor]",
                   ALL_SIZED_STRUCTS) {
  GuardedPage page;
  auto& theirs = page.at_end<TestType>(sizeof(TestType), 0x11);
  theirs.struct_size = sizeof(TestType);
  const TestType copy = read_sized(theirs);
  CHECK(std::memcmp(&copy, &theirs, sizeof(TestType)) == 0);
  TestType values;
  std::memset(&values, 0x22, sizeof(values));
  values.struct_size = 0;  // the plugin's stays
  write_sized(theirs, values);
  values.struct_size = sizeof(TestType);
  CHECK(std::memcmp(&values, &theirs, sizeof(TestType)) == 0);
}

TEMPLATE_TEST_CASE("fields of newer headers are neither read nor written",
                   "[tensor]",
                   ALL_SIZED_STRUCTS) {
  struct Longer {
    TestType known;
    void* added;
  };
  GuardedPage page;
  auto* const theirs = &page.at_end<Longer>(2 * sizeof(Longer), 0x11);
  void* const added = theirs[0].added;
  for (Longer* element : {theirs, theirs + 1}) {
    element->known.struct_size = sizeof(Longer);
  }
  TestType expected;
  std::memcpy(&expected, &theirs[1].known, sizeof(expected));
  expected.struct_size = sizeof(TestType);
  const TestType copy = read_element(&theirs->known, 1);
  CHECK(std::memcmp(&copy, &expected, sizeof(TestType)) == 0);
  TestType values;
  std::memset(&values, 0x22, sizeof(values));
  write_sized(theirs[1].known, values);
  CHECK(theirs[1].added == added);
  CHECK(theirs[1].known.struct_size == sizeof(Longer));
}

TEMPLATE_TEST_CASE("a size that no struct has is refused", "[tensor]", ALL_SIZED_STRUCTS) {
  GuardedPage page;
  auto& theirs = page.at_end<TestType>(sizeof(TestType));
  for (const std::size_t size : {std::size_t{0},
                                 std::size_t{8} - 1,
                                 sizeof(TestType) + 3,
                                 std::size_t{TENON_MAX_STRUCT_SIZE} + 8,
                                 std::size_t{1} << 40,
                                 ~std::size_t{0}}) {
    theirs.struct_size = size;
    CHECK_THAT(error_of([&] { read_sized(theirs); }), contains_text("[plugin.bad_struct]"));
    CHECK_THAT(error_of([&] { read_element(&theirs, 0); }), contains_text("[plugin.bad_struct]"));
    CHECK_THAT(error_of([&] { write_sized(theirs, TestType{}); }),
               contains_text("[plugin.bad_struct]"));
  }
}

TEST_CASE("elements of an array have one size", "[tensor]") {
  std::array<tenon_port, 2> ports{};
  ports[0].struct_size = sizeof(tenon_port);
  ports[1].struct_size = sizeof(tenon_port) + 8;
  CHECK_THAT(error_of([&] { read_element(ports.data(), 1); }),
             contains_text("tenon_port 1 of an array has struct_size " +
                           std::to_string(sizeof(tenon_port) + 8) + ", but the first one has " +
                           std::to_string(sizeof(tenon_port))));
}

TEST_CASE("a field that older headers lack has its default, and is not written", "[tensor]") {
  GuardedPage page;
  auto& theirs = page.at_end<GrownSpec>(SizedStruct<GrownSpec>::kLeast);
  theirs.struct_size = SizedStruct<GrownSpec>::kLeast;
  theirs.first = 3;
  const GrownSpec copy = read_sized(theirs, {.struct_size = 0, .first = 1, .added = 7});
  CHECK(copy.first == 3);
  CHECK(copy.added == 7);
  write_sized(theirs, {.struct_size = 0, .first = 5, .added = 9});
  CHECK(theirs.first == 5);
}

}  // namespace tenon
