/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Reclaim that a task has to do itself, and whom it is booked to: the memory cgroup of the task. */
#pragma once

/* A reclaim of at least this is a hint. */
const volatile __u64 long_reclaim_ns = 50 * 1000 * 1000;

static __always_inline struct pst_cgroup* cgroup_counters(__u64 id) {
  static const struct pst_cgroup none;
  struct pst_cgroup* counters = bpf_map_lookup_elem(&cgroups, &id);
  if (counters) return counters;
  bpf_map_update_elem(&cgroups, &id, &none, BPF_NOEXIST);
  counters = bpf_map_lookup_elem(&cgroups, &id);
  if (counters) return counters;
  struct pst_machine* const lost = machine_counters();
  if (lost) COUNT(lost->cgroups_lost, 1);
  const __u64 others = 0;
  return bpf_map_lookup_elem(&cgroups, &others);
}

static __always_inline int reclaim_begins(__u32 kind) {
  struct task_struct* const task = bpf_get_current_task_btf();
  struct task_state* const state = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!state) {
    struct pst_machine* const counters = machine_counters();
    if (counters) COUNT(counters->tasks_lost, 1);
    return 0;
  }
  state->reclaims |= 1u << kind;
  state->reclaim_began_ns[kind] = bpf_ktime_get_ns();
  return 0;
}

static __always_inline void hint_stall(struct task_struct* task, __u32 kind, __u64 cgroup, __u64 ns,
                                       __u64 pages) {
  struct pst_hint* const hint = new_hint(PST_HINT_STALL);
  if (!hint) return;
  hint->cgroup = cgroup;
  hint->pages = pages;
  hint->ns = ns;
  hint->detail = kind;
  hint->process = (__u32)task->tgid;
  bpf_get_current_comm(hint->command, sizeof hint->command);
  bpf_ringbuf_submit(hint, 0);
}

static __always_inline int reclaim_ends(__u32 kind, __u64 pages) {
  struct task_struct* const task = bpf_get_current_task_btf();
  struct task_state* const state = bpf_task_storage_get(&tasks, task, 0, 0);
  /* It began before the probe was there. */
  if (!state || !(state->reclaims & (1u << kind))) return 0;
  state->reclaims &= ~(1u << kind);
  const __u64 ns = bpf_ktime_get_ns() - state->reclaim_began_ns[kind];
  const __u64 cgroup = memory_cgroup_of(task);
  struct pst_cgroup* const counters = cgroup_counters(cgroup);
  if (counters) {
    struct pst_episodes* const episodes = &counters->reclaim[kind];
    COUNT(episodes->count, 1);
    COUNT(episodes->ns, ns);
    COUNT(episodes->pages, pages);
    /* Not atomic: of two that end at once the shorter may stay. */
    if (ns > episodes->longest_ns) episodes->longest_ns = ns;
  }
  struct pst_machine* const all = machine_counters();
  const __u32 bucket = histogram_bucket(ns);
  if (all && bucket < PST_HISTOGRAM_BUCKETS) COUNT(all->reclaim_histogram[kind][bucket], 1);
  if (ns >= long_reclaim_ns) hint_stall(task, kind, cgroup, ns, pages);
  return 0;
}

SEC("?tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(direct_reclaim_begin) { return reclaim_begins(PST_RECLAIM_DIRECT); }
SEC("?tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(direct_reclaim_end, unsigned long pages) { return reclaim_ends(PST_RECLAIM_DIRECT, pages); }
SEC("?tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(memcg_reclaim_begin) { return reclaim_begins(PST_RECLAIM_MEMCG); }
SEC("?tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(memcg_reclaim_end, unsigned long pages) { return reclaim_ends(PST_RECLAIM_MEMCG, pages); }
SEC("?tp_btf/mm_vmscan_memcg_softlimit_reclaim_begin")
int BPF_PROG(soft_limit_reclaim_begin) { return reclaim_begins(PST_RECLAIM_SOFT_LIMIT); }
SEC("?tp_btf/mm_vmscan_memcg_softlimit_reclaim_end")
int BPF_PROG(soft_limit_reclaim_end, unsigned long pages) {
  return reclaim_ends(PST_RECLAIM_SOFT_LIMIT, pages);
}
SEC("?tp_btf/mm_vmscan_node_reclaim_begin")
int BPF_PROG(node_reclaim_begin) { return reclaim_begins(PST_RECLAIM_NODE); }
SEC("?tp_btf/mm_vmscan_node_reclaim_end")
int BPF_PROG(node_reclaim_end, unsigned long pages) { return reclaim_ends(PST_RECLAIM_NODE, pages); }

SEC("?tp_btf/mm_vmscan_kswapd_wake")
int BPF_PROG(kswapd_wake) {
  struct pst_machine* const counters = machine_counters();
  if (counters) COUNT(counters->kswapd_wakes, 1);
  return 0;
}

static __always_inline int oom_kill(struct task_struct* victim, __u32 process) {
  const __u64 cgroup = memory_cgroup_of(victim);
  struct pst_cgroup* const counters = cgroup_counters(cgroup);
  if (counters) COUNT(counters->oom_kills, 1);
  struct pst_machine* const all = machine_counters();
  if (all) COUNT(all->oom_kills, 1);
  struct pst_hint* const hint = new_hint(PST_HINT_OOM_KILL);
  if (!hint) return 0;
  hint->cgroup = cgroup;
  hint->process = process;
  for (int i = 0; i < PST_COMMAND_BYTES - 1; ++i) hint->command[i] = victim->comm[i];
  bpf_ringbuf_submit(hint, 0);
  return 0;
}

SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim, struct task_struct* victim) { return oom_kill(victim, (__u32)victim->tgid); }
/* Before 6.1.100 and 6.8 the tracepoint gave the victim's number alone: then the cgroup is that of the task which ran
 * out, the same one except where the limit sits on a common parent. */
SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_number, int process) { return oom_kill(bpf_get_current_task_btf(), (__u32)process); }

static __always_inline void add_episodes(struct pst_episodes* to, const struct pst_episodes* from) {
  COUNT(to->count, from->count);
  COUNT(to->ns, from->ns);
  COUNT(to->pages, from->pages);
  if (from->longest_ns > to->longest_ns) to->longest_ns = from->longest_ns;
}

/* What a removed cgroup counted goes to key 0, so that sums over all stay exact. */
SEC("?tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_removed, struct cgroup* cgroup) {
  const __u32 memory = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
  /* Numbers repeat between the hierarchies of v1. */
  if (!(cgroup->root->subsys_mask & (1u << (memory & 31)))) return 0;
  const __u64 id = cgroup->kn->id;
  const __u64 others = 0;
  struct pst_cgroup* const gone = bpf_map_lookup_elem(&cgroups, &id);
  struct pst_cgroup* const sum = bpf_map_lookup_elem(&cgroups, &others);
  if (!gone || !sum || id == others) return 0;
  for (int kind = 0; kind < PST_RECLAIMS; ++kind) add_episodes(&sum->reclaim[kind], &gone->reclaim[kind]);
  COUNT(sum->oom_kills, gone->oom_kills);
  bpf_map_delete_elem(&cgroups, &id);
  return 0;
}
