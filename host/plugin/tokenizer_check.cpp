// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/tokenizer_check.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {

TokenizerInfo describe_tokenizer(const ComponentInstance& instance) {
  const ComponentIdentity& identity = instance.identity();
  const auto* const table = table_of<tenon_tokenizer>(instance, TENON_TOKENIZER_ID);
  TENON_REQUIRE(tenon_tokenizer, table, describe, TENON_TOKENIZER_ID, identity);
  TENON_REQUIRE(tenon_tokenizer, table, encode, TENON_TOKENIZER_ID, identity);
  TENON_REQUIRE(tenon_tokenizer, table, decode, TENON_TOKENIZER_ID, identity);

  tenon_tokenizer_info given{};
  given.bos = given.eos = given.pad = -1;
  const auto info = filled_by(
      instance,
      "describe",
      [&](tenon_tokenizer_info* out) { return table->describe(instance.self(), out); },
      given);
  if (info.vocab_size <= 0) {
    identity.fail_result(formatted("describe returned vocab_size {}", info.vocab_size));
  }
  for (const int64_t special : {info.bos, info.eos, info.pad}) {
    if (special < -1 || special >= info.vocab_size) {
      identity.fail_result(
          formatted("describe returned the special id {}, expected an id in [0, {})",
                    special,
                    info.vocab_size));
    }
  }
  if (info.chat_template_ref != nullptr && *info.chat_template_ref == '\0') {
    identity.fail_result("describe returned an empty chat template, expected null");
  }
  if (info.specials_ref == nullptr && info.num_specials != 0) {
    identity.fail_result("describe returned special tokens at a null pointer");
  }
  TokenizerInfo result{info.vocab_size, info.bos, info.eos, info.pad, info.bytes_per_token};
  result.chat_template = info.chat_template_ref != nullptr ? info.chat_template_ref : "";
  for (std::size_t i = 0; i < info.num_specials; ++i) {
    const tenon_special_token special = element_of(info.specials_ref, i, identity);
    identity.check_name(special.name, "special token", i);
    if (special.id < 0 || special.id >= info.vocab_size) {
      identity.fail_result(
          formatted("special token \"{}\" has the id {}, expected an id in [0, {})",
                    special.name,
                    special.id,
                    info.vocab_size));
    }
    result.specials.emplace_back(special.name, special.text != nullptr ? special.text : "");
  }
  return result;
}

}  // namespace tenon
