// SPDX-License-Identifier: Apache-2.0
#include "leaf_conversion.hpp"

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/options.hpp>

#include <algorithm>
#include <array>
#include <arrow/builder.h>
#include <arrow/extension_type.h>
#include <arrow/util/decimal.h>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../csv/csv_parser.hpp"
#include "arrow_status.hpp"

namespace tenon {
namespace {

using arrow::Type;
using ArrayPointer = std::shared_ptr<arrow::Array>;

constexpr const char* kConversion = "a column";

// Floating-point numbers below these limits have neighbors at most 1 apart. A larger one may be
// another integer that was rounded.
double exact_limit(const arrow::DataType& type) {
  return type.id() == Type::HALF_FLOAT ? 0x1p11 : type.id() == Type::FLOAT ? 0x1p24 : 0x1p53;
}

std::string text_of(__int128 value) {
  const bool is_negative = value < 0;
  auto digits =
      is_negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string text;
  do {
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(digits % 10)));
    digits /= 10;
  } while (digits != 0);
  return is_negative ? "-" + text : text;
}

std::string decimal_text(const arrow::Array& decimals, int64_t i) {
  switch (decimals.type_id()) {
    case Type::DECIMAL32:
      return static_cast<const arrow::Decimal32Array&>(decimals).FormatValue(i);
    case Type::DECIMAL64:
      return static_cast<const arrow::Decimal64Array&>(decimals).FormatValue(i);
    case Type::DECIMAL128:
      return static_cast<const arrow::Decimal128Array&>(decimals).FormatValue(i);
    default:
      return static_cast<const arrow::Decimal256Array&>(decimals).FormatValue(i);
  }
}

std::string shortened(std::string_view text) {
  constexpr size_t kLongest = 40;
  return json_string(std::string(text.substr(0, kLongest)) + (text.size() > kLongest ? "..." : ""));
}

bool fits_i64(__int128 value) {
  return value >= std::numeric_limits<int64_t>::min() &&
         value <= std::numeric_limits<int64_t>::max();
}

enum class Outcome { kValue, kNull, kBad };

// Calls convert(i, value, problem) for each element that is not null. A bad element gets a value,
// so that it is not mistaken for a null.
template <class Builder, class Convert>
ArrayPointer built(const arrow::Array& in, BadElements& bad, const Convert& convert) {
  Builder builder;
  check_arrow(builder.Reserve(in.length()), kConversion, "cannot be converted");
  for (int64_t i = 0; i < in.length(); ++i) {
    typename Builder::value_type value{};
    std::string problem;
    const Outcome outcome = in.IsNull(i) ? Outcome::kNull : convert(i, value, problem);
    if (outcome == Outcome::kNull) {
      builder.UnsafeAppendNull();
      continue;
    }
    builder.UnsafeAppend(value);
    if (outcome == Outcome::kBad) {
      bad.emplace(i, std::move(problem));
    }
  }
  return value_of(builder.Finish(), kConversion, "cannot be converted");
}

ArrayPointer times_in_unit(const ArrayPointer& in, TimeUnit from, TimeUnit to, BadElements& bad) {
  TENON_CHECK(to != TimeUnit::kAuto, "the unit of a column of times is not resolved");
  if (from == to && in->type()->byte_width() == 8) {
    return in;
  }
  ArrayPointer out;
  with_integers(*in, [&](const auto* values) {
    out =
        built<arrow::Int64Builder>(*in, bad, [&](int64_t i, int64_t& value, std::string& problem) {
          const __int128 nanoseconds = static_cast<__int128>(values[i]) * nanoseconds_of(from);
          const __int128 whole = nanoseconds / nanoseconds_of(to);
          value = static_cast<int64_t>(whole);
          if (whole * nanoseconds_of(to) == nanoseconds && fits_i64(whole)) {
            return Outcome::kValue;
          }
          problem = concat("is ",
                           text_of(static_cast<__int128>(values[i])),
                           " ",
                           name_of(from),
                           ", which is not exact in ",
                           name_of(to));
          return Outcome::kBad;
        });
  });
  return out;
}

ArrayPointer reals_as_ids(const ArrayPointer& in, BadElements& bad) {
  ArrayPointer out;
  const double limit = exact_limit(*in->type());
  with_reals(*in, [&](const auto& value_at) {
    out =
        built<arrow::Int64Builder>(*in, bad, [&](int64_t i, int64_t& value, std::string& problem) {
          const double number = value_at(i);
          if (std::isnan(number)) {
            return Outcome::kNull;
          }
          const bool is_whole = number == std::trunc(number);
          if (is_whole && std::fabs(number) < limit) {
            value = static_cast<int64_t>(number);
            return Outcome::kValue;
          }
          problem = is_whole && std::isfinite(number)
                        ? concat("is ",
                                 number,
                                 " as ",
                                 in->type()->ToString(),
                                 ", which may be rounded; ids must be integers")
                        : concat("is ", number, "; ids must be integers");
          return Outcome::kBad;
        });
  });
  return out;
}

ArrayPointer without_nan(const ArrayPointer& in) {
  ArrayPointer out = in;
  with_reals(*in, [&](const auto& value_at) {
    int64_t i = 0;
    while (i < in->length() && (in->IsNull(i) || !std::isnan(value_at(i)))) {
      ++i;
    }
    if (i == in->length()) {
      return;
    }
    BadElements none;
    const auto convert = [&](int64_t at, auto& value, std::string&) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(value_at(at));
      return std::isnan(value) ? Outcome::kNull : Outcome::kValue;
    };
    out = in->type_id() == Type::DOUBLE ? built<arrow::DoubleBuilder>(*in, none, convert)
                                        : built<arrow::FloatBuilder>(*in, none, convert);
  });
  return out;
}

ArrayPointer decimals_as(const ArrayPointer& in, ColumnType type, BadElements& bad) {
  if (type != ColumnType::kIds) {
    return built<arrow::DoubleBuilder>(*in, bad, [&](int64_t i, double& value, std::string&) {
      value = decimal_as_double(*in, i);
      return Outcome::kValue;
    });
  }
  return built<arrow::Int64Builder>(*in, bad, [&](int64_t i, int64_t& value, std::string& problem) {
    const std::optional<__int128> whole = decimal_as_integer(*in, i);
    if (whole && fits_i64(*whole)) {
      value = static_cast<int64_t>(*whole);
      return Outcome::kValue;
    }
    problem = concat("is ",
                     whole ? text_of(*whole) : concat(decimal_as_double(*in, i)),
                     "; ids must be 64-bit integers");
    return Outcome::kBad;
  });
}

// Numbers of a file in which the sign of 64-bit integers differs from that of the column.
void check_signs(const arrow::Array& in, const LeafTarget& target, BadElements& bad) {
  if (target.meaning.is_unsigned == (in.type_id() == Type::UINT64)) {
    return;
  }
  with_integers(in, [&](const auto* values) {
    for (int64_t i = 0; i < in.length(); ++i) {
      const auto value = static_cast<__int128>(values[i]);
      if (!in.IsNull(i) && (target.meaning.is_unsigned ? value < 0 : !fits_i64(value))) {
        bad.emplace(i,
                    concat("is ",
                           text_of(value),
                           ", which ",
                           target.meaning.is_unsigned ? "uint64" : "int64",
                           ", the type in other files, cannot hold"));
      }
    }
  });
}

// Integers that f64 would round. f32 is a declared rounding.
void check_exact_as_f64(const arrow::Array& in, BadElements& bad) {
  if (in.type_id() != Type::INT64 && in.type_id() != Type::UINT64) {
    return;
  }
  with_integers(in, [&](const auto* values) {
    for (int64_t i = 0; i < in.length(); ++i) {
      const auto value = static_cast<__int128>(values[i]);
      if (!in.IsNull(i) && static_cast<__int128>(static_cast<double>(values[i])) != value) {
        bad.emplace(i, concat("is ", text_of(value), ", which f64 rounds; read it as ids"));
      }
    }
  });
}

ArrayPointer integers_as(const ArrayPointer& in, const LeafTarget& target, BadElements& bad) {
  if (target.type == ColumnType::kIds) {
    check_signs(*in, target, bad);
  } else if (target.type == ColumnType::kF64) {
    check_exact_as_f64(*in, bad);
  }
  return in;
}

// One text as an id or a time. The text is not empty.
Outcome id_of_text(std::string_view text,
                   const ValueMeaning& meaning,
                   int64_t& value,
                   std::string& problem) {
  if (meaning.kind == ValueKind::kInstant) {
    const std::optional<__int128> instant = instant_in(text);
    const __int128 unit = nanoseconds_of(meaning.unit);
    if (instant && *instant % unit == 0 && fits_i64(*instant / unit)) {
      value = static_cast<int64_t>(*instant / unit);
      return Outcome::kValue;
    }
    problem = concat("is ", shortened(text), ", which is no time in whole ", name_of(meaning.unit));
    return Outcome::kBad;
  }
  const std::optional<int64_t> found =
      meaning.kind == ValueKind::kBool ? bool_in(text) : id_in(text);
  if (found) {
    value = *found;
    return Outcome::kValue;
  }
  problem = concat("is ",
                   shortened(text),
                   meaning.kind == ValueKind::kBool ? ", which is neither true nor false"
                                                    : ", which is not a 64-bit integer");
  return Outcome::kBad;
}

// True if the text is an integer and `value`, the f64 nearest to it, is another one.
bool is_rounded_integer(std::string_view text, double value) {
  constexpr double kExact = 0x1p53;  // smaller integers are exact
  if (std::fabs(value) < kExact || !std::isfinite(value)) {
    return false;
  }
  text = trim_csv_blanks(text);
  text.remove_prefix(text.front() == '+' || text.front() == '-' ? 1 : 0);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  if (text.find_first_not_of("0123456789") != std::string_view::npos) {
    return false;
  }
  std::array<char, std::numeric_limits<double>::max_exponent10 + 2> digits{};
  const int size = std::snprintf(digits.data(), digits.size(), "%.0f", std::fabs(value));
  return text != std::string_view(digits.data(), static_cast<size_t>(size));
}

template <class Builder>
ArrayPointer texts_as_reals(const arrow::LargeBinaryArray& texts, BadElements& bad) {
  return built<Builder>(texts, bad, [&](int64_t i, auto& value, std::string& problem) {
    const std::string_view text = texts.GetView(i);
    const CsvNumber parsed = parse_csv_number(text, value);
    if (parsed == CsvNumber::kGood) {
      if (std::is_same_v<Builder, arrow::DoubleBuilder> && is_rounded_integer(text, value)) {
        problem = concat("is ", shortened(text), ", which f64 rounds");
        problem += id_in(text) ? "; read it as ids" : "";
        return Outcome::kBad;
      }
      return Outcome::kValue;
    }
    if (is_null_mark(trim_csv_blanks(text))) {
      return Outcome::kNull;
    }
    problem = concat(
        "is ",
        shortened(text),
        parsed == CsvNumber::kOutOfRange ? ", which is too large" : ", which is not a number");
    return Outcome::kBad;
  });
}

ArrayPointer texts_as(const ArrayPointer& in, const LeafTarget& target, BadElements& bad) {
  const auto& texts = static_cast<const arrow::LargeBinaryArray&>(*in);
  if (target.type == ColumnType::kF32 && !is_time(target.meaning.kind)) {
    return texts_as_reals<arrow::FloatBuilder>(texts, bad);
  }
  if (target.type == ColumnType::kF64 && !is_time(target.meaning.kind)) {
    return texts_as_reals<arrow::DoubleBuilder>(texts, bad);
  }
  return built<arrow::Int64Builder>(
      texts, bad, [&](int64_t i, int64_t& value, std::string& problem) {
        const std::string_view text = texts.GetView(i);
        return is_null_mark(trim_csv_blanks(text))
                   ? Outcome::kNull
                   : id_of_text(text, target.meaning, value, problem);
      });
}

ArrayPointer plain_texts(const arrow::Array& in) {
  check_arrow(in.ValidateFull(), kConversion, "is corrupt");
  arrow::LargeBinaryBuilder builder;
  const auto view_at = [&](int64_t i) {
    return in.type_id() == Type::FIXED_SIZE_BINARY
               ? static_cast<const arrow::FixedSizeBinaryArray&>(in).GetView(i)
               : static_cast<const arrow::BinaryViewArray&>(in).GetView(i);
  };
  for (int64_t i = 0; i < in.length(); ++i) {
    check_arrow(in.IsNull(i) ? builder.AppendNull() : builder.Append(view_at(i)),
                kConversion,
                "cannot be converted");
  }
  return value_of(builder.Finish(), kConversion, "cannot be converted");
}

// The lists of a view, whose entries may be in any order, one after the other.
template <class Views>
ArrayPointer plain_lists(const Views& views) {
  check_arrow(views.ValidateFull(), kConversion, "is corrupt");
  std::unique_ptr<arrow::ArrayBuilder> entries;
  check_arrow(arrow::MakeBuilder(arrow::default_memory_pool(), views.values()->type(), &entries),
              kConversion,
              "cannot be converted");
  const std::shared_ptr<arrow::ArrayBuilder> shared = std::move(entries);
  arrow::LargeListBuilder builder(arrow::default_memory_pool(), shared);
  for (int64_t i = 0; i < views.length(); ++i) {
    if (views.IsNull(i)) {
      check_arrow(builder.AppendNull(), kConversion, "cannot be converted");
      continue;
    }
    check_arrow(builder.Append(), kConversion, "cannot be converted");
    check_arrow(shared->AppendArraySlice(
                    *views.values()->data(), views.value_offset(i), views.value_length(i)),
                kConversion,
                "cannot be converted");
  }
  return value_of(builder.Finish(), kConversion, "cannot be converted");
}

// Elements of a run-end encoded array as indices of its values.
ArrayPointer without_runs(const arrow::Array& in) {
  check_arrow(in.ValidateFull(), kConversion, "is corrupt");
  const auto& runs = static_cast<const arrow::RunEndEncodedArray&>(in);
  arrow::Int32Builder indices;
  int32_t run = 0;
  with_integers(*runs.run_ends(), [&](const auto* ends) {
    for (int64_t i = 0; i < in.length(); ++i) {
      while (static_cast<int64_t>(ends[run]) <= in.offset() + i) {
        ++run;
      }
      check_arrow(indices.Append(run), kConversion, "cannot be converted");
    }
  });
  const ArrayPointer made = value_of(indices.Finish(), kConversion, "cannot be converted");
  return std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int32(), runs.values()->type()), made, runs.values());
}

// Of a dictionary.
ArrayPointer with_plain_words(const ArrayPointer& in) {
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*in);
  const ArrayPointer words = plain(dictionary.dictionary());
  return words == dictionary.dictionary()
             ? in
             : std::make_shared<arrow::DictionaryArray>(
                   arrow::dictionary(dictionary.indices()->type(), words->type()),
                   dictionary.indices(),
                   words);
}

// Converts the values of a plain array.
ArrayPointer leaf_as(const ArrayPointer& in,
                     const ValueMeaning& from,
                     const LeafTarget& target,
                     BadElements& bad);

// Converts each word of a plain dictionary once. Returns plain values, or the dictionary itself if
// its words stay.
ArrayPointer words_as(const ArrayPointer& in,
                      const ValueMeaning& from,
                      const LeafTarget& target,
                      BadElements& bad) {
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*in);
  BadElements bad_words;
  const ArrayPointer words = leaf_as(dictionary.dictionary(), from, target, bad_words);
  if (words == dictionary.dictionary()) {
    for (int64_t i = 0; i < in->length() && !bad_words.empty(); ++i) {
      const auto found =
          in->IsNull(i) ? bad_words.end() : bad_words.find(dictionary.GetValueIndex(i));
      if (found != bad_words.end()) {
        bad.emplace(i, found->second);
      }
    }
    return in;
  }
  const auto gather = [&](auto builder, const auto* values) {
    using Builder = decltype(builder);
    return built<Builder>(*in, bad, [&](int64_t i, auto& value, std::string& problem) {
      const int64_t word = dictionary.GetValueIndex(i);
      if (word < 0 || word >= words->length()) {
        problem = "has a corrupt dictionary index";
        return Outcome::kBad;
      }
      if (words->IsNull(word)) {
        return Outcome::kNull;
      }
      value = values[word];
      const auto found = bad_words.find(word);
      if (found == bad_words.end()) {
        return Outcome::kValue;
      }
      problem = found->second;
      return Outcome::kBad;
    });
  };
  switch (words->type_id()) {
    case Type::FLOAT:
      return gather(arrow::FloatBuilder(), words->data()->GetValues<float>(1));
    case Type::DOUBLE:
      return gather(arrow::DoubleBuilder(), words->data()->GetValues<double>(1));
    default:  // ids
      return gather(arrow::Int64Builder(), words->data()->GetValues<int64_t>(1));
  }
}

ArrayPointer leaf_as(const ArrayPointer& in,
                     const ValueMeaning& from,
                     const LeafTarget& target,
                     BadElements& bad) {
  if (in->type_id() == Type::NA) {
    return in;
  }
  if (in->type_id() == Type::DICTIONARY) {
    return words_as(in, from, target, bad);
  }
  if (target.type == ColumnType::kText || target.is_hashed) {
    return in;
  }
  if (from.is_untyped) {
    return texts_as(in, target, bad);
  }
  switch (from.kind) {
    case ValueKind::kInstant:
    case ValueKind::kTimeOfDay:
    case ValueKind::kDuration:
      return times_in_unit(in, from.unit, target.meaning.unit, bad);
    case ValueKind::kReal:
      return target.type == ColumnType::kIds ? reals_as_ids(in, bad)
             : target.nan_is_missing         ? without_nan(in)
                                             : in;
    case ValueKind::kDecimal:
      return decimals_as(in, target.type, bad);
    case ValueKind::kInteger:
      return integers_as(in, target, bad);
    default:
      return in;
  }
}

// The map with other keys (child 0) or values (child 1).
ArrayPointer with_map_part(const arrow::Array& map, int part, const ArrayPointer& values) {
  const std::shared_ptr<arrow::ArrayData> data = map.data()->Copy();
  const std::shared_ptr<arrow::ArrayData> pairs = data->child_data[0]->Copy();
  pairs->child_data[static_cast<size_t>(part)] = values->data();
  const auto key = arrow::MakeArray(pairs->child_data[0])->type();
  const auto item = arrow::MakeArray(pairs->child_data[1])->type();
  const std::shared_ptr<arrow::DataType> type = arrow::map(key, item);
  pairs->type = static_cast<const arrow::MapType&>(*type).value_type();
  data->child_data[0] = pairs;
  data->type = type;
  return arrow::MakeArray(data);
}

}  // namespace

ArrayPointer plain(const ArrayPointer& array) {
  switch (array->type_id()) {
    case Type::EXTENSION:
      return plain(static_cast<const arrow::ExtensionArray&>(*array).storage());
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
    case Type::FIXED_SIZE_BINARY:
      return plain_texts(*array);
    case Type::LIST_VIEW:
      return plain_lists(static_cast<const arrow::ListViewArray&>(*array));
    case Type::LARGE_LIST_VIEW:
      return plain_lists(static_cast<const arrow::LargeListViewArray&>(*array));
    case Type::RUN_END_ENCODED:
      return plain(without_runs(*array));
    case Type::DICTIONARY:
      return with_plain_words(array);
    default:
      return array;
  }
}

ArrayPointer converted(const ArrayPointer& array,
                       const ValueMeaning& from,
                       const LeafTarget& target,
                       BadElements& bad) {
  const ArrayPointer in = plain(array);
  switch (in->type_id()) {
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST: {
      const ArrayPointer entries = entries_of(*in);
      const ArrayPointer made = converted(entries, from, target, bad);
      return made == entries ? in : with_entries(*in, made);
    }
    case Type::MAP: {
      const ArrayPointer keys = entries_of(*in);
      const ArrayPointer made = converted(keys, from, target, bad);
      return made == keys ? in : with_map_part(*in, 0, made);
    }
    default:
      return leaf_as(in, from, target, bad);
  }
}

ArrayPointer with_plain_weights(const ArrayPointer& map, bool nan_is_missing, BadElements& bad) {
  const ArrayPointer values = map_values_of(*map);
  const LeafTarget target{
      .type = ColumnType::kF32, .meaning = {}, .nan_is_missing = nan_is_missing};
  const ArrayPointer made = leaf_as(plain(values), meaning_of(*values->type()), target, bad);
  return made == values ? map : with_map_part(*map, 1, made);
}

double decimal_as_double(const arrow::Array& decimals, int64_t i) {
  double value = 0;
  return parse_csv_number(decimal_text(decimals, i), value) == CsvNumber::kGood
             ? value
             : std::numeric_limits<double>::infinity();
}

std::optional<__int128> decimal_as_integer(const arrow::Array& decimals, int64_t i) {
  arrow::Decimal256 value;
  int32_t precision = 0;
  int32_t scale = 0;
  check_arrow(arrow::Decimal256::FromString(decimal_text(decimals, i), &value, &precision, &scale),
              kConversion,
              "is corrupt");
  const arrow::Result<arrow::Decimal256> whole = value.Rescale(scale, 0);
  if (!whole.ok()) {
    return std::nullopt;
  }
  const auto words = whole->little_endian_array();
  const auto low = static_cast<__int128>((static_cast<unsigned __int128>(words[1]) << 64) |
                                         static_cast<unsigned __int128>(words[0]));
  const uint64_t sign = low < 0 ? UINT64_MAX : 0;
  return words[2] == sign && words[3] == sign ? std::optional(low) : std::nullopt;
}

}  // namespace tenon
