// SPDX-License-Identifier: Apache-2.0
// The case of odd names and other locales: the page.
#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <locale>
#include <sstream>

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "exporters/label_text.hpp"
#include "exporters/text_format.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/exporters/strict_page.hpp"

namespace penstock {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using test::StrictPage;

MetricFamily gauges(std::vector<std::pair<std::string, double>> samples) {
  MetricFamily family{.name = "penstock_test", .help = "Some help.", .type = MetricType::Gauge, .metric = {}};
  for (auto& [label, value] : samples) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({.name = "name", .value = label_text(label)});
    metric.gauge.value = value;
  }
  return family;
}

TEST(CaseS01, OddNamesEscapeWhatMustBeAndStayApart) {
  const std::vector<std::string> names = {
      "we\"ird", "back\\slash", "new\nline", "trailing\\",          "}", "\xf0\x9f\x98\x80", "bad\xff",
      "bad%FF",  "bad\xfe",     "tab\t",     std::string(4096, 'x')};
  std::vector<std::pair<std::string, double>> samples;
  for (const std::string& name : names) samples.emplace_back(name, 1);
  const std::string text = to_text_format({gauges(samples)});
  const StrictPage page(text);
  ASSERT_EQ(page.error(), "") << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), static_cast<std::ptrdiff_t>(names.size() + 2));
  for (const std::string_view escaped :
       {R"({name="we\"ird"} 1)", R"({name="back\\slash"} 1)", R"({name="new\nline"} 1)",
        R"({name="trailing\\"} 1)", R"({name="}"} 1)", "{name=\"tab\t\"} 1", R"({name="bad%FF"} 1)",
        R"({name="bad%25FF"} 1)"}) {
    EXPECT_NE(text.find(escaped), std::string::npos) << escaped;
  }
  const auto& labels = page.families().at("penstock_test").labels;
  ASSERT_EQ(labels.size(), names.size());
  for (std::size_t index = 0; index < names.size(); ++index)
    EXPECT_EQ(labels[index].at("name"), label_text(names[index]));
}

constexpr std::string_view numbers =
    "# HELP penstock_test Some help.\n# TYPE penstock_test gauge\n"
    "penstock_test{name=\"a\"} 0.5\npenstock_test{name=\"b\"} 12345678901\npenstock_test{name=\"c\"} NaN\n"
    "penstock_test{name=\"d\"} +Inf\npenstock_test{name=\"e\"} -Inf\npenstock_test{name=\"f\"} 1e-06\n";

std::string number_page() {
  return to_text_format({gauges(
      {{"a", 0.5}, {"b", 12345678901.0}, {"c", NAN}, {"d", INFINITY}, {"e", -INFINITY}, {"f", 1e-6}})});
}

TEST(CaseS01, NumbersAreWrittenInFull) {
  EXPECT_EQ(number_page(), numbers);
  EXPECT_EQ(StrictPage(number_page()).error(), "");
}

struct CommaNumbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(CaseS01, ALocaleOfTheStandardLibraryChangesNothing) {
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
  const std::string page = number_page();
  std::ostringstream proof;
  proof << 0.5;
  std::locale::global(before);
  EXPECT_EQ(proof.str(), "0,5");
  EXPECT_EQ(page, numbers);
}

TEST(CaseS01, AGermanLocaleChangesNothing) {
  const test::TemporaryFolder folder;
  const std::string command =
      "localedef -i de_DE -f UTF-8 --no-archive " + (folder / "de_DE.UTF-8").string() + " >/dev/null 2>&1";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "requires localedef with de_DE (Debian: locales)";
  ASSERT_EQ(::setenv("LOCPATH", folder.path().c_str(), 1), 0);
  const char* set = std::setlocale(LC_ALL, "de_DE.UTF-8");
  const std::string page = number_page();
  char proof[16];
  std::snprintf(proof, sizeof(proof), "%.1f", 0.5);
  std::setlocale(LC_ALL, "C");
  ::unsetenv("LOCPATH");
  ASSERT_NE(set, nullptr);
  EXPECT_STREQ(proof, "0,5");
  EXPECT_EQ(page, numbers);
}

MetricFamily histogram() {
  MetricFamily family{
      .name = "penstock_wait_seconds", .help = "Waits.", .type = MetricType::Histogram, .metric = {}};
  ClientMetric& metric = family.metric.emplace_back();
  metric.label.push_back({.name = "device", .value = "host"});
  metric.histogram = {.sample_count = 9007199254740993, .sample_sum = 2.5, .bucket = {{3, 1e-6}, {4, 0.5}}};
  return family;
}

TEST(TextFormat, EndsAHistogramWithItsCountToTheLastDigit) {
  const std::string text = to_text_format({histogram()});
  EXPECT_EQ(StrictPage(text).error(), "") << text;
  EXPECT_NE(text.find("penstock_wait_seconds_bucket{device=\"host\",le=\"1e-06\"} 3\n"), std::string::npos);
  EXPECT_NE(text.find("penstock_wait_seconds_bucket{device=\"host\",le=\"+Inf\"} 9007199254740993\n"),
            std::string::npos);
  EXPECT_NE(text.find("penstock_wait_seconds_sum{device=\"host\"} 2.5\n"), std::string::npos);
  EXPECT_NE(text.find("penstock_wait_seconds_count{device=\"host\"} 9007199254740993\n"), std::string::npos);
}

TEST(TextFormat, SaysWhatTheLibrarysSerializerSaysOfAnOrdinaryPage) {
  MetricFamily counter{
      .name = "penstock_reads_total", .help = "Reads.", .type = MetricType::Counter, .metric = {}};
  counter.metric.emplace_back().counter.value = 7;
  MetricFamily waits = histogram();
  waits.metric[0].histogram.sample_count = 5;
  const std::vector<MetricFamily> families = {counter, gauges({{"a", 0.25}, {"b \"c\"", 1e18}}), waits};
  const StrictPage ours(to_text_format(families)), theirs(prometheus::TextSerializer().Serialize(families));
  ASSERT_EQ(ours.error(), "");
  ASSERT_EQ(theirs.error(), "");
  ASSERT_EQ(ours.families().size(), theirs.families().size());
  for (const auto& [name, family] : theirs.families()) {
    EXPECT_EQ(ours.families().at(name).samples, family.samples) << name;
    EXPECT_EQ(ours.families().at(name).help, family.help);
    EXPECT_EQ(ours.families().at(name).type, family.type);
  }
}

TEST(TextFormat, LeavesOutAFamilyWithoutSamplesAndEscapesItsHelp) {
  EXPECT_EQ(to_text_format({gauges({})}), "");
  MetricFamily family = gauges({{"a", 1}});
  family.help = "two\nlines, \"quotes\" and \\";
  const std::string text = to_text_format({family});
  EXPECT_EQ(StrictPage(text).error(), "");
  EXPECT_TRUE(text.starts_with("# HELP penstock_test two\\nlines, \"quotes\" and \\\\\n")) << text;
}

TEST(StrictPage, RefusesWhatIsWrong) {
  const std::string head = "# HELP a_total x\n# TYPE a_total counter\n";
  EXPECT_EQ(StrictPage(head + "a_total 1\n").error(), "");
  for (const std::string& text :
       {head + "a_total 1", head, head + "a_total 1\na_total 1\n", head + "b 1\n", head + "a_total -1\n",
        head + "a_total 0,5\n", head + "a_total{} 1\n", head + "a_total{x=\"\\t\"} 1\n",
        head + "a_total{x=\"1\",x=\"2\"} 1\n", head + "a_total Nan\n", head + "a_total  1\n",
        head + "a_total 1\n" + head + "a_total 1\n", head + "\n", std::string("a 1\n"),
        head + "a_total{x=\"\xff\"} 1\n", std::string("# TYPE a gauge\na 1\n"),
        std::string("# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum "
                    "1\nh_count 1\n"),
        std::string("# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n")}) {
    EXPECT_NE(StrictPage(text).error(), "") << text;
  }
}

}  // namespace
}  // namespace penstock
