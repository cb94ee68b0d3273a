// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_scan.hpp"

#include "host/io/content_hash.hpp"

#include <elf.h>
#include <filesystem>
#include <unistd.h>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/signer.hpp"

using namespace tenon;

namespace {

std::vector<PluginInfo> scan(const ZooFolder& zoo) {
  const PluginFolder folder{zoo.path(), "--plugin-dir"};
  return scan_plugins({&folder, 1});
}

// The refusal of the one plugin in a folder.
std::string refusal_of(const std::string& name) {
  ZooFolder zoo;
  zoo.add(name);
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 1);
  REQUIRE(plugins[0].refusal);
  const std::string text = plugins[0].refusal->what();
  // The folder has another name each time.
  return text.substr(0, text.find(zoo.path())) +
         text.substr(text.find(zoo.path()) + zoo.path().size() + 1);
}

}  // namespace

TEST_CASE("a folder is scanned by name, and files that are no plugins are passed over",
          "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c", "zebra");
  zoo.add("same_type_1", "ape");
  zoo.add("no_manifest");
  zoo.add("good_c", "deeper/hidden");
  zoo.write("README.txt", "not a plugin");
  zoo.write("script.so", "INPUT(-lother)\n");
  zoo.write(".zebra.so.tmp.so", "half a copy");
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 2);
  CHECK(plugins[0].file == zoo.path_of("ape"));
  CHECK(plugins[1].file == zoo.path_of("zebra"));
  CHECK(plugins[1].is_usable());
  CHECK(plugins[1].offers({"hook", "step_counter"}));
  CHECK(plugins[1].describe() == zoo.path_of("zebra") + " (org.tenon.zoo.good_c 1.0.0)");
}

TEST_CASE("a plugin folder that is not there or no folder is an error", "[plugin]") {
  ZooFolder zoo;
  const std::string file = zoo.write("file", "");
  for (const std::string& path : {zoo.path() + "/missing", file}) {
    const PluginFolder folder{path, "TENON_PLUGIN_PATH"};
    try {
      scan_plugins({&folder, 1});
      FAIL("it was read");
    } catch (const Error& error) {
      CHECK(error.id() == "plugin.dir_unreadable");
      CHECK(error.exit_code() == ExitCode::kUsage);
      CHECK_THAT(error.message(), contains_text(path + " (from TENON_PLUGIN_PATH)"));
    }
  }
}

TEST_CASE("a path list is split at colons", "[plugin]") {
  const std::vector<PluginFolder> folders = split_plugin_path(":a::b/c:", "TENON_PLUGIN_PATH");
  REQUIRE(folders.size() == 2);
  CHECK(folders[0].path == "a");
  CHECK(folders[1].path == "b/c");
  CHECK(folders[1].origin == "TENON_PLUGIN_PATH");
  CHECK(split_plugin_path("", "").empty());
}

TEST_CASE("a plugin that cannot work is refused before it is loaded", "[plugin]") {
  CHECK(refusal_of("wrong_abi") ==
        "[plugin.abi_mismatch] wrong_abi.so (org.tenon.zoo.wrong.abi 1.0.0) requires ABI 0.9, host "
        "has "
        "0.5; rebuild it with SDK 0.5");
  CHECK_THAT(refusal_of("wrong_range"),
             contains_text(" requires ABI 0.2 to 0.3, host has 0.5; rebuild it with SDK 0.5"));
  CHECK(refusal_of("unknown_key") ==
        "[plugin.abi_mismatch] unknown_key.so (org.tenon.zoo.unknown.key 1.0.0): its manifest has "
        "the key \"!gpu\", which this host does not know; use a newer host");
  CHECK(refusal_of("missing_service") ==
        "[plugin.missing_interface] missing_service.so (org.tenon.zoo.missing.service 1.0.0) "
        "requires the service tenon.foo/1, which this host does not have; use a newer host");
  const std::string torch = refusal_of("wrong_torch");
  CHECK_THAT(torch, contains_text("[plugin.torch_mismatch] wrong_torch.so"));
  CHECK_THAT(torch, contains_text("version 1.13.1, here 2."));
  CHECK_THAT(torch, contains_text("git 0123abcd, here "));
  CHECK_THAT(torch, contains_text("cxx11abi 0, here 1"));
  CHECK_THAT(torch, contains_text("rebuild it with this host's libtorch"));
  CHECK_THAT(
      refusal_of("wrong_lane"),
      contains_text("[plugin.bad_manifest] wrong_lane.so (org.tenon.zoo.wrong.lane 1.0.0) has "
                    "the lane \"python\""));
  CHECK_THAT(refusal_of("wrong_kind"),
             contains_text("\"looss:zoo\" in its manifest; kinds are model,"));
  CHECK_THAT(
      refusal_of("wrong_manifest"),
      contains_text("[plugin.bad_manifest] wrong_manifest.so has an invalid manifest: its id"));
}

TEST_CASE("a plugin whose range of ABI versions includes the host's is taken", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_range");
  PluginRegistry registry(zoo.setup());
  CHECK(registry.get("loss", "zoo").plugin->host.context().id == "org.tenon.zoo.good_range");
}

TEST_CASE("a plugin that is built by hand, with a manifest and the version script, is taken",
          "[plugin]") {
  ZooFolder zoo;
  zoo.add("by_hand");
  PluginRegistry registry(zoo.setup());
  CHECK(registry.get("loss", "zoo").plugin->host.context().id == "org.tenon.zoo.by_hand");
}

TEST_CASE("a plugin that would share a symbol with others is refused before it is loaded",
          "[plugin]") {
  ZooFolder zoo;
  zoo.add("shares_a");
  zoo.add("shares_b");
  zoo.add("good_c");
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 3);
  CHECK(plugins[0].is_usable());
  for (const PluginInfo* const plugin : {&plugins[1], &plugins[2]}) {
    INFO(plugin->file);
    REQUIRE(plugin->refusal);
    CHECK(plugin->refusal->id() == "plugin.shared_symbol");
    CHECK_THAT(plugin->refusal->message(),
               contains_text(plugin->describe() + " exports the symbol _Z"));
    CHECK_THAT(plugin->refusal->message(), contains_text("7Counter"));
    CHECK_THAT(plugin->refusal->message(),
               contains_text(", which every plugin of the process would share; link it with the "
                             "SDK's version script (tenon_plugin.map), or compile it with "
                             "-fno-gnu-unique"));
  }
}

TEST_CASE("of two fingerprints the keys that differ are told", "[plugin]") {
  ZooFolder zoo;
  zoo.add("wrong_torch");
  const PluginFolder folder{zoo.path(), "--plugin-dir"};
  const std::string ours = "version=1.13.1;git=ffff;cxx11abi=0;cuda=none";
  const auto plugins = scan_plugins({&folder, 1}, {.torch_fingerprint = ours});
  CHECK_THAT(plugins[0].refusal->message(),
             contains_text("another libtorch (git 0123abcd, here ffff); rebuild"));
  const auto same = scan_plugins({&folder, 1}, {.torch_fingerprint = plugins[0].manifest.torch});
  CHECK(same[0].is_usable());
}

TEST_CASE("a cut file is refused with where it ends", "[plugin]") {
  ZooFolder zoo;
  const std::string good = read_text(zoo.add("good_c"));
  zoo.write("good_c.so", good.substr(0, good.size() / 2));
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 1);
  CHECK(plugins[0].refusal->id() == "plugin.bad_manifest");
  CHECK_THAT(plugins[0].refusal->message(), contains_text("the file is truncated"));
}

TEST_CASE("a dangling link is refused, not passed over", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  REQUIRE(symlink("nowhere", zoo.path_of("link").c_str()) == 0);
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 2);
  CHECK(plugins[1].refusal->id() == "plugin.load_failed");
  CHECK_THAT(plugins[1].refusal->message(), contains_text("cannot be read: No such file"));
}

TEST_CASE("copies of one plugin are one plugin", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c", "a");
  zoo.add("good_c", "b");
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 2);
  CHECK(plugins[0].is_usable());
  CHECK_FALSE(plugins[1].is_usable());
  CHECK(plugins[1].same_as == zoo.path_of("a"));
  CHECK_FALSE(plugins[1].refusal);
}

TEST_CASE("different files with one id are all refused", "[plugin]") {
  ZooFolder zoo;
  zoo.add("same_id_1");
  zoo.add("same_id_2");
  zoo.add("good_c");
  const std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 3);
  CHECK(plugins[0].is_usable());
  REQUIRE(plugins[1].refusal);
  REQUIRE(plugins[2].refusal);
  CHECK(plugins[1].refusal->id() == "plugin.duplicate_id");
  CHECK(plugins[1].refusal->message() ==
        zoo.path_of("same_id_1") + " (1.0.0) and " + zoo.path_of("same_id_2") +
            " (1.1.0) have the same id org.tenon.zoo.same_id but differ; keep one of them");
  CHECK(plugins[2].refusal->message() == plugins[1].refusal->message());
}

TEST_CASE("a folder that is given twice is read once", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  const PluginFolder folders[] = {{zoo.path(), "--plugin-dir"}, {zoo.path() + "/.", "other"}};
  CHECK(scan_plugins(folders).size() == 1);
}

TEST_CASE("an unknown type is answered with the files of the folder that are no plugins",
          "[plugin]") {
  ZooFolder zoo;
  std::string library = read_text(zoo.add("good_c"));
  const auto unknown_type = [&] {
    PluginRegistry registry(zoo.setup());
    try {
      registry.get("loss", "x");
      return std::string("it was found");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string plain =
      "[recipe.unknown_type] no plugin in " + zoo.path() + " (--plugin-dir) offers loss \"x\"";
  CHECK(unknown_type() == plain);

  const std::string empty = zoo.write("a.so", "");
  zoo.write("notes.txt", "not a library, and not named as one");
  CHECK(unknown_type() == plain + " (" + empty + " is not a plugin: it is not a shared library)");

  const std::string text = zoo.write("b.so", "INPUT(-lother)\n");
  library[EI_CLASS] = ELFCLASS32;
  const std::string narrow = zoo.write("c.so", library);
  library[EI_CLASS] = ELFCLASS64;
  library[EI_DATA] = ELFDATA2MSB;
  zoo.write("d.so", library);
  zoo.add("no_manifest");
  CHECK(unknown_type() == plain + " (" + empty + " is not a plugin: it is not a shared library; " +
                              text + " is not a plugin: it is not a shared library; " + narrow +
                              " is not a plugin: it is not for 64-bit little-endian machines; "
                              "2 more)");
}

TEST_CASE("a file that was named and is no plugin is refused", "[plugin]") {
  ZooFolder zoo;
  const PluginInfo library = inspect_plugin(zoo.add("no_manifest"));
  REQUIRE(library.refusal);
  CHECK(library.refusal->id() == "plugin.no_manifest");
  CHECK_THAT(library.refusal->message(), contains_text("tenon_add_plugin()"));
  CHECK_THAT(inspect_plugin(zoo.write("x.so", "text")).refusal->message(),
             contains_text("it is not a shared library"));
  CHECK(inspect_plugin(zoo.add("good_c")).is_usable());
}

TEST_CASE("a plugin that all users can change is refused unless that is allowed", "[plugin]") {
  namespace fs = std::filesystem;
  ZooFolder zoo;
  const std::string file = zoo.add("good_c");
  const std::string other = zoo.add("same_type_1");
  const PluginFolder folder{zoo.path(), "--plugin-dir"};
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  std::vector<PluginInfo> plugins = scan(zoo);
  REQUIRE(plugins.size() == 2);
  REQUIRE(plugins[0].refusal);
  CHECK(plugins[0].refusal->id() == "plugin.writable");
  CHECK(plugins[0].refusal->exit_code() == ExitCode::kPlugin);
  CHECK_THAT(plugins[0].refusal->message(),
             contains_text(file + " is writable by all users (mode 0"));
  CHECK_THAT(plugins[0].refusal->message(),
             contains_text("run chmod o-w " + file + ", or pass --allow-writable-plugins"));
  CHECK(plugins[1].is_usable());
  CHECK(scan_plugins({&folder, 1}, {.writable = Writable::kAllowed})[0].is_usable());

  // One reason for all plugins of a folder.
  fs::permissions(zoo.path(), fs::perms::others_write, fs::perm_options::add);
  plugins = scan(zoo);
  REQUIRE(plugins[1].refusal);
  CHECK_THAT(plugins[1].refusal->message(),
             contains_text(zoo.path() + " is writable by all users (mode 0"));
  CHECK(plugins[0].refusal->message() == plugins[1].refusal->message());
  CHECK(scan_plugins({&folder, 1}, {.writable = Writable::kAllowed})[1].is_usable());
}

TEST_CASE("plugins that a group can change are mentioned together", "[plugin]") {
  namespace fs = std::filesystem;
  ZooFolder zoo;
  const PluginFolder folder{zoo.path(), "--plugin-dir"};
  for (const char* const name : {"good_c", "same_type_1", "same_type_2"}) {
    fs::permissions(zoo.add(name), fs::perms::group_write, fs::perm_options::remove);
  }
  fs::permissions(zoo.path(), fs::perms::group_write, fs::perm_options::remove);
  ScanRemarks none;
  scan_plugins({&folder, 1}, {}, &none);
  CHECK(none.notices.empty());

  for (const char* const name : {"good_c", "same_type_1"}) {
    fs::permissions(zoo.path_of(name), fs::perms::group_write, fs::perm_options::add);
  }
  ScanRemarks remarks;
  const std::vector<PluginInfo> plugins = scan_plugins({&folder, 1}, {}, &remarks);
  CHECK(plugins[0].is_usable());
  REQUIRE(remarks.notices.size() == 1);
  CHECK_THAT(remarks.notices[0].text,
             contains_text(zoo.path_of("good_c") + " is writable by its group "));
  CHECK_THAT(remarks.notices[0].text, contains_text(", and 1 more in " + zoo.path()));
  CHECK(remarks.notices[0].path == zoo.path());
}

TEST_CASE("with a trust file, only plugins that a key has signed are usable", "[plugin]") {
  ZooFolder zoo;
  const Signer team;
  const std::string signed_file = zoo.add("good_c");
  const std::string stale = zoo.add("same_type_1");
  const std::string unsigned_file = zoo.add("same_type_2");
  zoo.write("good_c.so.sig", team.sign(read_text(signed_file)));
  zoo.write("same_type_1.so.sig", team.sign(read_text(unsigned_file)));
  const PluginFolder folder{zoo.path(), "--plugin-dir"};
  const ScanRules rules{
      .trust = TrustedKeys::read(zoo.write("../trusted-keys", "team " + team.public_key()))};
  const std::vector<PluginInfo> plugins = scan_plugins({&folder, 1}, rules);
  REQUIRE(plugins.size() == 3);
  CHECK(plugins[0].is_usable());
  CHECK(plugins[0].signer == "team");
  CHECK(plugins[0].hash == content_hash(signed_file));
  for (const PluginInfo* const plugin : {&plugins[1], &plugins[2]}) {
    REQUIRE(plugin->refusal);
    CHECK(plugin->refusal->id() == "plugin.untrusted");
    CHECK(plugin->hash.empty());
    CHECK_THAT(plugin->refusal->message(), contains_text(plugin->describe()));
  }
  CHECK_THAT(plugins[1].refusal->message(), contains_text("is not a signature of this file"));
  CHECK_THAT(plugins[2].refusal->message(), contains_text("is not signed"));
}
