// SPDX-License-Identifier: Apache-2.0
#include "host/error/credentials.hpp"

#include "host/error/error.hpp"

#include <string>

#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("user information of a URI is hidden, wherever it is in a text", "[error]") {
  CHECK(hide_credentials("s3://KEY:SECRET@bucket/runs") == "s3://***@bucket/runs");
  CHECK(hide_credentials("\"s3://KEY:SECRET@bucket\" is invalid") ==
        "\"s3://***@bucket\" is invalid");
  CHECK(hide_credentials("a s3://K:S@b and http://user:pw@h:80/x.") ==
        "a s3://***@b and http://***@h:80/x.");
  CHECK(hide_credentials("s3://K:S@b,s3://K:S@c") == "s3://***@b,s3://***@c");
  CHECK(hide_credentials("s3://TOKEN@bucket") == "s3://***@bucket");
}

TEST_CASE("a secret with slashes and other separators is hidden", "[error]") {
  CHECK(hide_credentials("s3://KEY:SEC/RET+x@bucket/a") == "s3://***@bucket/a");
  CHECK(hide_credentials("s3://KEY:SEC@RET@bucket/a") == "s3://***@bucket/a");
  CHECK(hide_credentials("s3://KEY:SEC?RET#@bucket") == "s3://***@bucket");
}

TEST_CASE("keys in the query of a URI are hidden", "[error]") {
  CHECK(hide_credentials("s3://b/p?region=eu&secret_key=ABC&scheme=http") ==
        "s3://b/p?region=eu&secret_key=***&scheme=http");
  CHECK(hide_credentials("https://h/o?X-Amz-Signature=00ff&X-Amz-Expires=9") ==
        "https://h/o?X-Amz-Signature=***&X-Amz-Expires=9");
}

TEST_CASE("texts without credentials do not change", "[error]") {
  for (const char* const text : {"",
                                 "://",
                                 "plain: 10:30 a@b",
                                 "s3://bucket/a@b",
                                 "http://127.0.0.1:9000/x?region=eu",
                                 "tcp://[::1]:80"}) {
    CHECK(hide_credentials(text) == text);
  }
}

TEST_CASE("an error hides credentials in its message", "[error]") {
  const Error error("s3.bad_uri", "\"s3://KEY:SECRET@bucket\" is invalid");
  CHECK(error.message() == "\"s3://***@bucket\" is invalid");
  CHECK(error.what() == std::string("[s3.bad_uri] \"s3://***@bucket\" is invalid"));
  CHECK(error.with_context("s3://K:S@b").message().find("K:S") == std::string::npos);
}
