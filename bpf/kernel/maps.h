/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The maps of all programs. None is pinned: they go with the process that loaded them. */
#pragma once

#include "bpf/probe_abi.h"

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, PST_FILES_MAX);
  __type(key, __u64);
  __type(value, struct pst_file_key);
} file_keys SEC(".maps");

/* The file that a program saw last on this processor; one entry a program, which never runs within itself. */
struct recent_file {
  __u64 mapping;
  __u64 turn; /* Of `keys_turn`, when the key was looked up. */
  bool tracked;
  struct pst_file_key key;
};

enum recent_use { RECENT_ADDED, RECENT_REMOVED, RECENT_USES };

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, RECENT_USES);
  __type(key, __u32);
  __type(value, struct recent_file);
} recent_files SEC(".maps");

/* Counts the changes of file_keys: what was looked up before the last one is looked up again. */
__u64 keys_turn = 1;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, PST_FILES_MAX);
  __type(key, __u32);
  __type(value, struct pst_file);
} files SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, PST_EXTENTS_MAX);
  __type(key, __u32);
  __type(value, struct pst_extent);
} extents SEC(".maps");

/* Not an LRU map: that would forget counters. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, PST_CGROUPS_MAX);
  __type(key, __u64);
  __type(value, struct pst_cgroup);
} cgroups SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct pst_machine);
} machine SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, PST_HINT_RING_BYTES);
} hints SEC(".maps");

/* What a task is in the middle of. The kernel frees it with the task. */
struct task_state {
  __u32 reclaims; /* Bit i: within the reclaim i of enum pst_reclaim. They nest. */
  __u32 fault_slot;
  __u64 reclaim_began_ns[PST_RECLAIMS];
  __u64 fault_began_ns; /* 0: in no fault of a tracked file. */
  __u64 fault_page;
  __u64 faults_ended; /* Of the task, when this one began. */
};

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct task_state);
} tasks SEC(".maps");

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define COUNT(counter, amount) __sync_fetch_and_add(&(counter), (amount))

static __always_inline struct pst_machine* machine_counters(void) {
  const __u32 only = 0;
  return bpf_map_lookup_elem(&machine, &only);
}

static __always_inline __u32 histogram_bucket(__u64 ns) {
  __u64 microseconds = ns / 1000;
  __u32 bucket = 0;
  for (int step = 0; step < PST_HISTOGRAM_BUCKETS - 1; ++step) {
    if (microseconds == 0) break;
    microseconds >>= 1;
    ++bucket;
  }
  return bucket;
}

static __always_inline __u64 memory_cgroup_of(struct task_struct* task) {
  const __u32 memory = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
  if (memory >= 16) return 0;
  struct cgroup_subsys_state* const state = task->cgroups->subsys[memory];
  return state->cgroup->kn->id;
}
