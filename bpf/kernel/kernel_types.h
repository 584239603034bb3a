/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The few fields of the kernel's types that the programs read. Their offsets are filled in at load time from the running
 * kernel's BTF (CO-RE), so only names and types matter here. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed short __s16;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* Constants of the user interface (linux/bpf.h) and task flags (linux/sched.h), which no BTF has. */
enum {
  BPF_MAP_TYPE_HASH = 1,
  BPF_MAP_TYPE_ARRAY = 2,
  BPF_MAP_TYPE_PERCPU_ARRAY = 6,
  BPF_MAP_TYPE_RINGBUF = 27,
  BPF_MAP_TYPE_TASK_STORAGE = 29
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum {
  TASK_IS_IO_WORKER = 0x10,
  TASK_RECLAIMS = 0x800,
  TASK_IS_KSWAPD = 0x20000,
  TASK_IS_KERNEL_THREAD = 0x200000
};

#define KERNEL_TYPE __attribute__((preserve_access_index))

enum pageflags { PG_head };
enum cgroup_subsys_id { memory_cgrp_id };

typedef struct {
  long counter;
} atomic_long_t;

struct rw_semaphore {
  atomic_long_t count;
  atomic_long_t owner;
} KERNEL_TYPE;

struct super_block {
  __u32 s_dev;
  unsigned long s_magic;
  struct rw_semaphore s_umount;
} KERNEL_TYPE;

struct inode {
  unsigned long i_ino;
  __u32 i_generation;
  unsigned int i_flags;
  long long i_size;
  struct super_block* i_sb;
  struct rw_semaphore i_rwsem;
} KERNEL_TYPE;

struct address_space {
  struct inode* host;
  struct rw_semaphore invalidate_lock;
  unsigned long nrpages;
} KERNEL_TYPE;

struct folio {
  struct address_space* mapping;
  unsigned long index;
} KERNEL_TYPE;

/* Flags are a plain word up to 6.17 and a struct from 6.18 on. */
struct folio___plain_flags {
  unsigned long flags;
} KERNEL_TYPE;
struct folio___wrapped_flags {
  struct {
    unsigned long f;
  } flags;
} KERNEL_TYPE;
/* The order has a byte of its own up to 6.5, and is the low byte of a word from 6.6 on. */
struct folio___order_byte {
  unsigned char _folio_order;
} KERNEL_TYPE;
struct folio___order_word {
  unsigned long _flags_1;
} KERNEL_TYPE;

struct file {
  struct address_space* f_mapping;
} KERNEL_TYPE;

struct vm_area_struct {
  unsigned long vm_start;
  struct file* vm_file;
} KERNEL_TYPE;

struct vm_fault {
  struct vm_area_struct* vma;
  unsigned long pgoff;
} KERNEL_TYPE;

struct kernfs_node {
  __u64 id;
} KERNEL_TYPE;

struct cgroup_root {
  unsigned int subsys_mask;
} KERNEL_TYPE;

struct cgroup {
  struct kernfs_node* kn;
  struct cgroup_root* root;
} KERNEL_TYPE;

struct cgroup_subsys_state {
  struct cgroup* cgroup;
} KERNEL_TYPE;

struct css_set {
  struct cgroup_subsys_state* subsys[16];
} KERNEL_TYPE;

struct task_struct {
  unsigned int flags;
  int tgid;
  char comm[16];
  unsigned long min_flt, maj_flt;
  struct css_set* cgroups;
} KERNEL_TYPE;

/* Both architectures' names for the number of the system call, and for its third argument. */
struct pt_regs___x86 {
  unsigned long dx;
  unsigned long orig_ax;
} KERNEL_TYPE;
struct pt_regs___arm64 {
  __u64 regs[31];
  __s32 syscallno;
} KERNEL_TYPE;

struct seq_file;
struct bpf_iter_meta {
  struct seq_file* seq;
} KERNEL_TYPE;
struct bpf_iter__task_vma {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
  struct vm_area_struct* vma;
} KERNEL_TYPE;
