// SPDX-License-Identifier: Apache-2.0
//
// Credentials in URIs: "s3://KEY:SECRET@bucket" and "?secret_key=SECRET". Every Error, every line
// of the log and the output of every action hide them, whoever wrote the text.
// Limit: credentials in other forms are not recognized.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// Replaces user information and the values of keys, secrets, tokens, passwords and signatures in
// the URIs of a text by "***": "s3://***@bucket/runs?region=eu". In doubt, hides more: a secret may
// contain '/' and '@'. JSON text stays valid.
std::string hide_credentials(std::string_view text);

}  // namespace tenon
