// SPDX-License-Identifier: Apache-2.0
//
// Hashes texts, or the eight bytes of integers, to ids. One call processes a whole batch.
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "../byte_hash.hpp"
#include "../inputs.hpp"

namespace {

struct HashOptions {
  std::string function = "farm";
};

class Hash : public tenon::FusedFeature<Hash> {
 public:
  static constexpr const char* kType = "hash";
  static constexpr const char* kSummary = "64-bit hashes of texts or integers, as ids";
  using Options = HashOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("function", &Options::function)
        .choices({"farm", "murmur64", "murmur3"})
        .doc(
            "hash function. farm: Fingerprint64 of FarmHash; murmur64: MurmurHash64A, seed 0; "
            "murmur3: first half of MurmurHash3_x64_128, seed 0");
  }

  explicit Hash(const Options& options) : function_(options.function) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    tenon::ColumnType type = tenon_features::one_input(inputs);
    TENON_CHECK(type.is_text || type.dtype == TENON_I64,
                "requires a column of text or i64; cast other integers first");
    type.num_levels -= type.is_text ? 1 : 0;
    type.dtype = TENON_I64;
    type.is_text = false;
    return {type};
  }

  static void run_all(const tenon::Exec&, const std::vector<tenon::FusedCall<Hash>>& calls) {
    for (const auto& [hash, columns] : calls) {
      const tenon::Column in = columns.input(0);
      tenon::ColumnOut out = columns.output(0);
      if (hash.function_ == "farm") {
        run_one<tenon_features::farm_hash>(in, out);
      } else if (hash.function_ == "murmur64") {
        run_one<tenon_features::murmur64_hash>(in, out);
      } else {
        run_one<tenon_features::murmur3_hash>(in, out);
      }
      if (is_text(in)) {
        for (size_t level = 0; level + 1 < in.num_levels(); ++level) {
          out.share_offsets(level, in);
        }
        out.share_weights(in);
      } else {
        out.share_lists(in);
      }
    }
  }

 private:
  static bool is_text(const tenon::Column& in) { return in.values().dtype() == TENON_U8; }

  // The length of an integer is a compile-time constant, so the compiler removes most of the hash
  // code.
  template <uint64_t (*function)(const uint8_t*, size_t)>
  static void run_one(const tenon::Column& in, tenon::ColumnOut& out) {
    if (!is_text(in)) {
      const auto* const values = reinterpret_cast<const uint8_t*>(in.data<int64_t>());
      auto* const ids = out.values<int64_t>(in.values().shape().to_vector());
      for (int64_t i = 0; i < in.num_values(); ++i) {
        ids[i] = static_cast<int64_t>(function(values + 8 * i, 8));
      }
      return;
    }
    const size_t innermost = in.num_levels() - 1;
    const int64_t* const offsets = in.offsets(innermost);
    const auto* const bytes = in.data<uint8_t>();
    const int64_t num_texts = in.num_pieces(innermost);
    auto* const ids = out.values<int64_t>({num_texts});
    for (int64_t i = 0; i < num_texts; ++i) {
      const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      ids[i] = static_cast<int64_t>(function(bytes + offsets[i], size));
    }
  }

  std::string function_;
};

}  // namespace

TENON_PLUGIN(Hash)
