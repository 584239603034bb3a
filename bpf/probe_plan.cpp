// SPDX-License-Identifier: Apache-2.0
#include "bpf/probe_plan.hpp"

#include <fmt/format.h>

namespace penstock {
namespace {

constexpr const char* page_cache_programs[] = {"page_cache_add", "page_cache_delete", "resolve_mapping"};
// Up to 5.15 the argument is a page: then a count of folios would come out too small, without a word.
constexpr Tracepoint page_cache_points[] = {{"mm_filemap_add_to_page_cache", "folio *"},
                                            {"mm_filemap_delete_from_page_cache", "folio *"}};
constexpr Alternative page_cache[] = {
    {"tp_btf/mm_filemap_add_to_page_cache", page_cache_programs, page_cache_points, nullptr}};

constexpr const char* memcg_programs[] = {"memcg_reclaim_begin", "memcg_reclaim_end"};
constexpr Tracepoint memcg_points[] = {{"mm_vmscan_memcg_reclaim_begin", nullptr},
                                       {"mm_vmscan_memcg_reclaim_end", nullptr}};
constexpr Alternative memcg_reclaim[] = {
    {"tp_btf/mm_vmscan_memcg_reclaim_begin", memcg_programs, memcg_points, nullptr}};

constexpr const char* direct_programs[] = {"direct_reclaim_begin", "direct_reclaim_end"};
constexpr Tracepoint direct_points[] = {{"mm_vmscan_direct_reclaim_begin", nullptr},
                                        {"mm_vmscan_direct_reclaim_end", nullptr}};
constexpr Alternative direct_reclaim[] = {
    {"tp_btf/mm_vmscan_direct_reclaim_begin", direct_programs, direct_points, nullptr}};

constexpr const char* soft_limit_programs[] = {"soft_limit_reclaim_begin", "soft_limit_reclaim_end"};
constexpr Tracepoint soft_limit_points[] = {{"mm_vmscan_memcg_softlimit_reclaim_begin", nullptr},
                                            {"mm_vmscan_memcg_softlimit_reclaim_end", nullptr}};
constexpr Alternative soft_limit_reclaim[] = {
    {"tp_btf/mm_vmscan_memcg_softlimit_reclaim_begin", soft_limit_programs, soft_limit_points, nullptr}};

constexpr const char* node_programs[] = {"node_reclaim_begin", "node_reclaim_end"};
constexpr Tracepoint node_points[] = {{"mm_vmscan_node_reclaim_begin", nullptr},
                                      {"mm_vmscan_node_reclaim_end", nullptr}};
constexpr Alternative node_reclaim[] = {
    {"tp_btf/mm_vmscan_node_reclaim_begin", node_programs, node_points, nullptr}};

constexpr const char* kswapd_programs[] = {"kswapd_wake"};
constexpr Tracepoint kswapd_points[] = {{"mm_vmscan_kswapd_wake", nullptr}};
constexpr Alternative kswapd[] = {{"tp_btf/mm_vmscan_kswapd_wake", kswapd_programs, kswapd_points, nullptr}};

constexpr const char* victim_programs[] = {"oom_victim"};
constexpr const char* victim_number_programs[] = {"oom_victim_number"};
constexpr Tracepoint victim_points[] = {{"mark_victim", "task_struct *"}};
constexpr Tracepoint victim_number_points[] = {{"mark_victim", "int"}};
constexpr Alternative oom_kill[] = {
    {"tp_btf/mark_victim with the victim", victim_programs, victim_points, nullptr},
    {"tp_btf/mark_victim with the victim's number", victim_number_programs, victim_number_points, nullptr}};

constexpr const char* removal_programs[] = {"cgroup_removed"};
constexpr Tracepoint removal_points[] = {{"cgroup_rmdir", "cgroup *"}};
constexpr Alternative cgroup_removal[] = {{"tp_btf/cgroup_rmdir", removal_programs, removal_points, nullptr}};

constexpr const char* fault_programs[] = {"fault_begin", "fault_end"};
constexpr const char* fault_function_programs[] = {"fault_begin_by_function", "fault_end"};
constexpr Tracepoint fault_points[] = {{"mm_filemap_fault", "address_space *"}};
constexpr Alternative major_faults[] = {
    {"tp_btf/mm_filemap_fault and the event page-faults-maj", fault_programs, fault_points, nullptr},
    {"fentry/filemap_fault and the event page-faults-maj", fault_function_programs, {}, "filemap_fault"}};

constexpr ProbePlan plans[] = {
    {Probe::page_cache, "page_cache", page_cache},
    {Probe::memcg_reclaim, "memcg_reclaim", memcg_reclaim},
    {Probe::direct_reclaim, "direct_reclaim", direct_reclaim},
    {Probe::soft_limit_reclaim, "soft_limit_reclaim", soft_limit_reclaim},
    {Probe::node_reclaim, "node_reclaim", node_reclaim},
    {Probe::kswapd, "kswapd", kswapd},
    {Probe::oom_kill, "oom_kill", oom_kill},
    {Probe::cgroup_removal, "cgroup_removal", cgroup_removal},
    {Probe::major_faults, "major_faults", major_faults},
};
static_assert(std::size(plans) == probes);

}  // namespace

std::span<const ProbePlan> probe_plans() { return plans; }

std::string missing_for(const Alternative& alternative, const KernelSymbols& symbols) {
  for (const Tracepoint& point : alternative.tracepoints) {
    const std::optional<std::string> first = symbols.first_argument(point.name);
    if (!first) return fmt::format("the kernel has no tracepoint {}", point.name);
    if (point.first_argument != nullptr && *first != point.first_argument) {
      return fmt::format("the kernel's tracepoint {} gives `{}`, not `{}`", point.name, *first,
                         point.first_argument);
    }
  }
  if (alternative.function != nullptr && !symbols.has_function(alternative.function)) {
    return fmt::format("the kernel has no function {}", alternative.function);
  }
  return {};
}

}  // namespace penstock
