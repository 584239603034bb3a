// SPDX-License-Identifier: Apache-2.0
// The case of a configuration that silently does nothing: files and drop-ins.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/config/load.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

using test::TemporaryFolder;

// The name of the folder is left out, so that verdicts can be compared.
std::string verdict(const TemporaryFolder& folder, const tl::expected<LoadedConfig, ConfigProblems>& config) {
  std::string out;
  if (config) return out;
  for (const ConfigProblem& problem : config.error()) out += to_text(problem) + "\n";
  const std::string prefix = folder.path().string() + "/";
  for (std::size_t at = out.find(prefix); at != std::string::npos; at = out.find(prefix, at))
    out.erase(at, prefix.size());
  return out;
}

ConfigLocation named(const TemporaryFolder& folder) {
  return {.file = (folder / "penstock.toml").string(), .required = true};
}
ConfigLocation by_default(const TemporaryFolder& folder) {
  return {.file = (folder / "penstock.toml").string(), .required = false};
}

// Gives up root's right to read everything while it lives.
class AsNobody {
 public:
  AsNobody() { setfsuid(65534); }
  ~AsNobody() { setfsuid(0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
};

TEST(CaseS06, NoFileInTheDefaultPlaceGivesTheDefaults) {
  const TemporaryFolder folder;
  const auto loaded = load_config(by_default(folder));
  ASSERT_EQ(verdict(folder, loaded), "");
  EXPECT_EQ(loaded->config, Config{});
  EXPECT_TRUE(loaded->files.empty());
}

TEST(CaseS06, AMissingFileThatWasNamedIsAnError) {
  const TemporaryFolder folder;
  EXPECT_EQ(verdict(folder, load_config(named(folder))), "penstock.toml: no such file\n");
}

TEST(CaseS06, AnEmptyFileGivesTheDefaults) {
  const TemporaryFolder folder;
  folder.write("penstock.toml", "");
  const auto loaded = load_config(named(folder));
  ASSERT_EQ(verdict(folder, loaded), "");
  EXPECT_EQ(loaded->config, Config{});
}

TEST(CaseS06, ADirectoryInPlaceOfTheFileIsAnErrorEvenInTheDefaultPlace) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "penstock.toml");
  EXPECT_EQ(verdict(folder, load_config(named(folder))), "penstock.toml: is a directory, not a file\n");
  EXPECT_EQ(verdict(folder, load_config(by_default(folder))), "penstock.toml: is a directory, not a file\n");
}

TEST(CaseS06, APipeInPlaceOfTheFileIsRefusedWithoutWaiting) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "penstock.toml").c_str(), 0644), 0);
  EXPECT_EQ(verdict(folder, load_config(named(folder))), "penstock.toml: is not a regular file\n");
}

TEST(CaseS06, AFileThatNobodyMayReadIsAnErrorForRootToo) {
  const TemporaryFolder folder;
  const auto path = folder.write("penstock.toml", "");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const std::string told = verdict(folder, load_config(by_default(folder)));
  EXPECT_TRUE(told.starts_with("penstock.toml: cannot be read: ")) << told;
}

TEST(CaseS06, AFileThatTheUserMayNotReadIsAnError) {
  if (::geteuid() != 0) GTEST_SKIP() << "requires root, to act as another user";
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto path = folder.write("penstock.toml", "");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const AsNobody nobody;
  EXPECT_EQ(verdict(folder, load_config(by_default(folder))),
            "penstock.toml: cannot be read: permission denied\n");
}

TEST(CaseS06, DropInsOverrideInTheOrderOfTheirNames) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "penstock.toml.d");
  folder.write("penstock.toml",
               "[log]\nlevel = \"error\"\nformat = \"json\"\n[host]\nlocked_bytes = \"1GiB\"\n");
  folder.write("penstock.toml.d/20-b.toml", "log.level = \"debug\"\n");
  folder.write("penstock.toml.d/10-a.toml", "log.level = \"warning\"\nhost.locked_bytes = \"2GiB\"\n");
  folder.write("penstock.toml.d/99.conf", "nonsense\n");
  folder.write("penstock.toml.d/.hidden.toml", "nonsense\n");
  const auto loaded = load_config(named(folder));
  ASSERT_EQ(verdict(folder, loaded), "");
  EXPECT_EQ(loaded->config.log.level, LogLevel::debug);
  EXPECT_EQ(loaded->config.log.format, LogFormat::json);
  EXPECT_EQ(loaded->config.locked_host_bytes, 2 * gib);
  ASSERT_EQ(loaded->files.size(), 3u);
  EXPECT_TRUE(loaded->files[0].ends_with("/penstock.toml"));
  EXPECT_TRUE(loaded->files[1].ends_with("/10-a.toml"));
  EXPECT_TRUE(loaded->files[2].ends_with("/20-b.toml"));
}

TEST(CaseS06, DropInsCountWithoutTheFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "penstock.toml.d");
  folder.write("penstock.toml.d/a.toml", "log.level = \"debug\"\n");
  EXPECT_EQ(load_config(by_default(folder))->config.log.level, LogLevel::debug);
}

TEST(CaseS06, ProblemsOfAllFilesAreToldTogether) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "penstock.toml.d/c.toml");
  folder.write("penstock.toml", "[log]\nlevel = \"loud\"\n");
  folder.write("penstock.toml.d/a.toml", "\n[log]\nlevel = \"info\"\nlevel = \"info\"\n");
  folder.write("penstock.toml.d/b.toml", "socket = 1\n");
  const std::string told = verdict(folder, load_config(named(folder)));
  EXPECT_EQ(std::ranges::count(told, '\n'), 4) << told;
  for (const std::string_view part :
       {"penstock.toml:2: log.level: ", "penstock.toml.d/a.toml:4: log.level: is set twice",
        "penstock.toml.d/b.toml:1: socket: unknown key",
        "penstock.toml.d/c.toml: is a directory, not a file"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << " in\n" << told;
  }
}

TEST(CaseS06, AFileInPlaceOfTheDropInDirectoryIsAnError) {
  const TemporaryFolder folder;
  folder.write("penstock.toml.d", "");
  EXPECT_EQ(verdict(folder, load_config(by_default(folder))),
            "penstock.toml.d: cannot be listed: it is not a directory\n");
}

}  // namespace
}  // namespace penstock
