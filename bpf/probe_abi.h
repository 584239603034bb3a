/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the BPF programs and the service share: values of maps and records of the ring. Plain C; all sizes are in the
 * kernel's pages, all times in nanoseconds. Counters only grow, and are added to atomically by any processor. */
#pragma once

#ifndef PENSTOCK_BPF_PROGRAM
#include <stdint.h>
typedef uint64_t pst_u64;
typedef uint32_t pst_u32;
#else
typedef __u64 pst_u64;
typedef __u32 pst_u32;
#endif

enum {
  PST_FILES_MAX = 4096,
  PST_EXTENTS_MAX = 65536,
  PST_CGROUPS_MAX = 8192,
  PST_HINT_RING_BYTES = 256 * 1024,
  PST_HISTOGRAM_BUCKETS =
      24, /* Bucket i counts what took less than 2^i microseconds, the last one the rest too. */
  PST_COMMAND_BYTES = 16,
};

enum pst_cause {
  PST_CAUSE_KSWAPD,
  PST_CAUSE_DIRECT_RECLAIM,
  PST_CAUSE_MEMCG_LIMIT,   /* memory.max, memory.high, memory.reclaim, force_empty: one path in the kernel. */
  PST_CAUSE_OTHER_RECLAIM, /* Node reclaim, v1's soft limit, DAMON, MADV_PAGEOUT. */
  PST_CAUSE_FADVISE,
  PST_CAUSE_DROP_CACHES,
  PST_CAUSE_DIRECT_WRITE,
  PST_CAUSE_TRUNCATE, /* Holes that are punched too. */
  PST_CAUSE_OTHER,
  PST_CAUSES,
};

enum pst_reclaim {
  PST_RECLAIM_DIRECT,
  PST_RECLAIM_MEMCG,
  PST_RECLAIM_SOFT_LIMIT,
  PST_RECLAIM_NODE,
  PST_RECLAIMS,
};

/* Where the counters of a file are; the key is the address of the kernel's struct address_space. */
struct pst_file_key {
  pst_u32 slot;
  pst_u32 first_extent;
  pst_u32 extents;
  pst_u32
      extent_shift; /* An extent has 1 << extent_shift pages, at least 512, so that no folio lies in two. */
};

struct pst_file {
  pst_u64 added;
  pst_u64 removed[PST_CAUSES];
  pst_u64 refaulted; /* Of the added ones: those that came back after a reclaim. */
  pst_u64 major_faults;
  pst_u64 major_fault_ns;
  pst_u64 last_reclaim_ticks; /* The kernel's own. */
  pst_u64 unused[2];          /* Two cache lines in all. */
};

struct pst_extent {
  pst_u64 added;
  pst_u64 removed;
  pst_u32 reclaimed; /* Taken by reclaim and not yet back. */
  pst_u32 unused;
};

struct pst_episodes {
  pst_u64 count;
  pst_u64 ns;
  pst_u64 pages;
  pst_u64 longest_ns;
};

/* One cgroup of the hierarchy that has the memory controller; the key is its id. Key 0 stands for all that were
 * removed or found no room. */
struct pst_cgroup {
  struct pst_episodes reclaim[PST_RECLAIMS];
  pst_u64 oom_kills;
};

struct pst_machine {
  pst_u64 kswapd_wakes;
  pst_u64 oom_kills;
  pst_u64 hints_lost;   /* The ring was full. */
  pst_u64 cgroups_lost; /* Episodes that were booked under key 0, because no further cgroup had room. */
  pst_u64 tasks_lost;   /* Tasks that got no storage: what they did has no duration and no cause. */
  pst_u64 reclaim_histogram[PST_RECLAIMS][PST_HISTOGRAM_BUCKETS];
  pst_u64 fault_histogram[PST_HISTOGRAM_BUCKETS];
  pst_u64 fault_ns; /* Of all major faults that the histogram counts. */
};

enum pst_hint_kind {
  PST_HINT_RECLAIMED, /* The first pages of a tracked file after a quiet time. */
  PST_HINT_STALL,     /* A reclaim that took longer than the bound. */
  PST_HINT_OOM_KILL,
};

struct pst_hint {
  pst_u64 at_ns;   /* CLOCK_MONOTONIC. */
  pst_u64 cgroup;  /* Of the task, or of the victim. */
  pst_u64 pages;   /* RECLAIMED: of this folio. STALL: all that it reclaimed. */
  pst_u64 ns;      /* STALL. */
  pst_u32 kind;    /* enum pst_hint_kind */
  pst_u32 detail;  /* RECLAIMED: enum pst_cause. STALL: enum pst_reclaim. */
  pst_u32 slot;    /* RECLAIMED. */
  pst_u32 process; /* The reclaiming process, or the victim. */
  char command[PST_COMMAND_BYTES];
};

/* What the iterator says of one mapping of this process. */
struct pst_resolved {
  pst_u64 address;
  pst_u64 key;
  pst_u64 pages; /* In the page cache now. */
  pst_u64 inode;
  pst_u64 bytes;
  pst_u64 magic;  /* Of the file system. */
  pst_u32 device; /* s_dev: major << 20 | minor. */
  pst_u32 generation;
  pst_u32 inode_flags;
  pst_u32 unused;
};
