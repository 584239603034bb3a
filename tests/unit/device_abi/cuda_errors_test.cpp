// SPDX-License-Identifier: Apache-2.0
// The errors that tests inject, against those that the toolkit's header documents for each call. What every call may
// answer because of earlier, asynchronous work is not in its lists: `copy` and `kernel` faults stand for that.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/fakes/documented_errors.hpp"

#ifdef PENSTOCK_CUDA_HEADER
namespace penstock {
namespace {

constexpr std::string_view word_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

std::string_view word_at(std::string_view text, std::size_t at) {
  return text.substr(at, std::min(text.find_first_not_of(word_characters, at), text.size()) - at);
}

const std::string& header() {
  static const std::string text = [] {
    std::ifstream file(PENSTOCK_CUDA_HEADER);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return text;
}

// "CUDA_ERROR_INVALID_VALUE = 1,", for each of them.
std::map<std::string_view, int> numbers() {
  std::map<std::string_view, int> found;
  const std::string_view text = header();
  for (std::size_t at = text.find("CUDA_ERROR_"); at != text.npos; at = text.find("CUDA_ERROR_", at + 1)) {
    const std::string_view name = word_at(text, at);
    const std::size_t value = text.find_first_not_of(' ', at + name.size());
    if (value == text.npos || text[value] != '=') continue;
    found.emplace(name, std::stoi(std::string(text.substr(value + 1, 12))));
  }
  return found;
}

// The names that the description of the declaration at `at` returns; none where it has no description.
std::set<std::string_view> returned_by(std::size_t at) {
  const std::string_view text = header();
  const std::size_t end = text.rfind("*/", at);
  std::set<std::string_view> names;
  if (end == text.npos || text.substr(end + 2, at - end - 2).find_first_not_of(" \n") != text.npos)
    return names;
  std::string_view told = text.substr(text.rfind("/**", end), end - text.rfind("/**", end));
  const std::size_t list = told.find("\\return");
  if (list == told.npos) return names;
  told.remove_prefix(list);
  told = told.substr(0, std::min(told.find("\\note"), told.find("\\sa")));
  for (std::size_t error = told.find("::CUDA_ERROR_"); error != told.npos;
       error = told.find("::CUDA_ERROR_", error + 1))
    names.insert(word_at(told, error + 2));
  return names;
}

// Of all forms of a call: cuCtxGetDevice, cuCtxGetDevice_v2.
std::set<std::string_view> documented_for(std::string_view call) {
  constexpr std::string_view start = "CUresult CUDAAPI ";
  const std::string_view text = header();
  std::set<std::string_view> names;
  for (std::size_t at = text.find(start); at != text.npos; at = text.find(start, at + 1)) {
    const std::string_view form = word_at(text, at + start.size());
    if (form == call || (form.starts_with(call) && form.substr(call.size()).starts_with("_v")))
      names.merge(returned_by(at));
  }
  return names;
}

TEST(CudaErrors, EachThatTheToolkitDocumentsIsInjected) {
  const auto number = numbers();
  ASSERT_GT(number.size(), 80u) << "in " << PENSTOCK_CUDA_HEADER;
  for (const fake::DocumentedCall& call : fake::documented_calls) {
    if (call.cuda == nullptr) continue;
    const auto names = documented_for(call.cuda);
    EXPECT_FALSE(names.empty()) << call.cuda << " is described nowhere";
    for (const std::string_view name : names) {
      ASSERT_TRUE(number.contains(name)) << name;
      EXPECT_TRUE(fake::answers(call, false, number.at(name))) << call.cuda << " answers " << name;
    }
  }
}

}  // namespace
}  // namespace penstock
#else
TEST(CudaErrors, EachThatTheToolkitDocumentsIsInjected) {
  GTEST_SKIP() << "requires cuda.h of a CUDA toolkit (12 or later)";
}
#endif
