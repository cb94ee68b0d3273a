// SPDX-License-Identifier: Apache-2.0
//
// Maps one large id to several small ids, each with its own factor and prime. Two ids may share a
// row in some of the tables, but rarely in all.
#include <tenon/cpp/plugin.hpp>

#include <array>
#include <cstdint>
#include <vector>

#include "../inputs.hpp"

namespace {

constexpr size_t kNumHashes = 4;
constexpr std::array<uint64_t, kNumHashes> kFactors = {1, 3, 5, 7};
constexpr std::array<int64_t, kNumHashes> kPrimesPerBucket = {29, 47, 67, 83};
constexpr int64_t kMostBuckets = int64_t{1} << 32;  // smaller primes are found in milliseconds

bool is_prime(int64_t number) {
  if (number < 4) {
    return number > 1;
  }
  if (number % 2 == 0) {
    return false;
  }
  for (int64_t divisor = 3; divisor <= number / divisor; divisor += 2) {
    if (number % divisor == 0) {
      return false;
    }
  }
  return true;
}

int64_t largest_prime_up_to(int64_t number) {
  while (!is_prime(number)) {
    --number;
  }
  return number;
}

struct MultiHashOptions {
  std::vector<int64_t> buckets;
};

class MultiHash : public tenon::Feature {
 public:
  static constexpr const char* kType = "multi_hash";
  static constexpr const char* kSummary = "four small hashed ids per id";
  using Options = MultiHashOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("buckets", &Options::buckets)
        .required()
        .min(1)
        .max(static_cast<double>(kMostBuckets))
        .min_items(1)
        .max_items(kNumHashes)
        .doc("bucket counts of the four outputs; a single number applies to all");
  }

  explicit MultiHash(const Options& options) {
    TENON_CHECK(options.buckets.size() == 1 || options.buckets.size() == kNumHashes,
                "`buckets` must have 1 or 4 numbers, found ",
                options.buckets.size());
    for (size_t i = 0; i < kNumHashes; ++i) {
      buckets_[i] = options.buckets[options.buckets.size() == 1 ? 0 : i];
      primes_[i] = largest_prime_up_to(kPrimesPerBucket[i] * buckets_[i]);
    }
  }

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    return std::vector<tenon::ColumnType>(kNumHashes, tenon_features::one_of_ids(inputs));
  }

  // The product wraps around. The remainder is made non-negative before bucketing.
  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    const auto* const ids = in.data<int64_t>();
    for (size_t output = 0; output < kNumHashes; ++output) {
      tenon::ColumnOut out = columns.output(output);
      auto* const small = out.values<int64_t>(in.values().shape().to_vector());
      const uint64_t factor = kFactors[output];
      const int64_t prime = primes_[output];
      const int64_t buckets = buckets_[output];
      for (int64_t i = 0; i < in.num_values(); ++i) {
        const int64_t rest = static_cast<int64_t>(static_cast<uint64_t>(ids[i]) * factor) % prime;
        small[i] = (rest < 0 ? rest + prime : rest) % buckets;
      }
      out.share_lists(in);
    }
  }

 private:
  std::array<int64_t, kNumHashes> buckets_{};
  std::array<int64_t, kNumHashes> primes_{};
};

}  // namespace

TENON_PLUGIN(MultiHash)
