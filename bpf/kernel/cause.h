/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Why a folio leaves the page cache, from what the task that removes it is doing. */
#pragma once

/* Of the running kernel; set before loading. */
const volatile __u32 page_shift = 12;

#ifdef __TARGET_ARCH_x86
enum {
  CALL_WRITE = 1,
  CALL_PWRITE = 18,
  CALL_WRITEV = 20,
  CALL_MADVISE = 28,
  CALL_SENDFILE = 40,
  CALL_FADVISE = 221,
  CALL_SPLICE = 275,
  CALL_FALLOCATE = 285,
  CALL_PWRITEV = 296,
  CALL_PWRITEV2 = 328,
  CALL_IO_SUBMIT = 209,
};
#else
enum {
  CALL_WRITE = 64,
  CALL_PWRITE = 68,
  CALL_WRITEV = 66,
  CALL_MADVISE = 233,
  CALL_SENDFILE = 71,
  CALL_FADVISE = 223,
  CALL_SPLICE = 76,
  CALL_FALLOCATE = 47,
  CALL_PWRITEV = 70,
  CALL_PWRITEV2 = 287,
  CALL_IO_SUBMIT = 2,
};
#endif
enum { ADVICE_REMOVE = 9 };
/* The same on all architectures. */
enum { CALL_IO_URING_ENTER = 426, CALL_PROCESS_MADVISE = 440 };

static __always_inline long system_call_of(struct task_struct* task) {
  void* const registers = (void*)bpf_task_pt_regs(task);
#ifdef __TARGET_ARCH_x86
  return (long)((struct pt_regs___x86*)registers)->orig_ax;
#else
  return ((struct pt_regs___arm64*)registers)->syscallno;
#endif
}

static __always_inline __u64 third_argument_of(struct task_struct* task) {
  void* const registers = (void*)bpf_task_pt_regs(task);
#ifdef __TARGET_ARCH_x86
  return ((struct pt_regs___x86*)registers)->dx;
#else
  return ((struct pt_regs___arm64*)registers)->regs[2];
#endif
}

/* PREEMPT_RT has locks without these fields. */
static __always_inline bool locks_tell_owners(struct inode* inode) {
  return bpf_core_field_exists(inode->i_rwsem.count) && bpf_core_field_exists(inode->i_rwsem.owner);
}

/* Low bits of an owner are flags. A lock that is held by several readers names the one that came last. */
enum { LOCK_OWNER_FLAGS = 7, LOCK_READER_SHIFT = 8 };

/* Who writes direct holds its file's lock, shared where it only overwrites. So do others that read direct, and may
 * have put their name over the writer's. */
static __always_inline bool holds_lock_of_file(struct task_struct* task, struct inode* inode) {
  return locks_tell_owners(inode) && inode->i_rwsem.count.counter != 0 &&
         (inode->i_rwsem.owner.counter & ~LOCK_OWNER_FLAGS) == (long)task;
}

/* Who drops caches holds the lock of the file system for reading. */
static __always_inline bool is_file_system_locked(struct inode* inode) {
  return locks_tell_owners(inode) && inode->i_sb->s_umount.count.counter >> LOCK_READER_SHIFT != 0;
}

static __always_inline bool holds_lock_of_file_system(struct task_struct* task, struct inode* inode) {
  struct super_block* const system = inode->i_sb;
  return is_file_system_locked(inode) && (system->s_umount.owner.counter & ~LOCK_OWNER_FLAGS) == (long)task;
}

enum { LOCK_OWNER_IS_READER = 1, BTRFS_MAGIC = 0x9123683E };

/* Who takes pages out of the midst of a file for good keeps faults from bringing them back. That lock is the file
 * system's own on btrfs, where direct writes below the file's end share the file's. */
static __always_inline bool punches_hole(struct task_struct* task, struct address_space* space) {
  struct inode* const inode = space->host;
  if (!locks_tell_owners(inode)) return false;
  if (inode->i_sb->s_magic == BTRFS_MAGIC)
    return holds_lock_of_file(task, inode) && !(inode->i_rwsem.owner.counter & LOCK_OWNER_IS_READER);
  return bpf_core_field_exists(space->invalidate_lock.owner) && space->invalidate_lock.count.counter != 0 &&
         (space->invalidate_lock.owner.counter & ~LOCK_OWNER_FLAGS) == (long)task &&
         !(space->invalidate_lock.owner.counter & LOCK_OWNER_IS_READER);
}

/* The rings tell no number of a system call, and do most such work on threads of their own. */
static __always_inline enum pst_cause cause_of_ring(struct task_struct* task, struct address_space* space) {
  if (punches_hole(task, space)) return PST_CAUSE_TRUNCATE;
  return holds_lock_of_file(task, space->host) ? PST_CAUSE_DIRECT_WRITE : PST_CAUSE_FADVISE;
}

/* Where neither lock names the task. btrfs takes the pages of some direct writes once it has let go of the file's lock. */
static __always_inline bool may_drop_caches(struct inode* inode) {
  if (!locks_tell_owners(inode)) return true;
  return inode->i_rwsem.count.counter == 0 && is_file_system_locked(inode);
}

enum { DIRECT_WRITE_UNIT = 512 };

/* A write removes pages of a file either because it writes that file direct, or because it writes to drop_caches. */
static __always_inline enum pst_cause cause_of_write(struct task_struct* task, struct inode* inode,
                                                     bool has_length) {
  if (holds_lock_of_file(task, inode)) return PST_CAUSE_DIRECT_WRITE;
  if (holds_lock_of_file_system(task, inode)) return PST_CAUSE_DROP_CACHES;
  /* Others have put their names over this task's. Direct writes are of whole blocks; a number for drop_caches isn't. */
  if (!has_length) return may_drop_caches(inode) ? PST_CAUSE_DROP_CACHES : PST_CAUSE_DIRECT_WRITE;
  const __u64 length = third_argument_of(task);
  return length % DIRECT_WRITE_UNIT == 0 ? PST_CAUSE_DIRECT_WRITE : PST_CAUSE_DROP_CACHES;
}

/* Nobody drops caches by these calls unless the locks say so. */
static __always_inline enum pst_cause cause_of_rare_write(struct task_struct* task, struct inode* inode) {
  return holds_lock_of_file_system(task, inode) ? PST_CAUSE_DROP_CACHES : PST_CAUSE_DIRECT_WRITE;
}

static __always_inline enum pst_cause cause_within_reclaim(__u32 reclaims) {
  if (reclaims & (1u << PST_RECLAIM_DIRECT)) return PST_CAUSE_DIRECT_RECLAIM;
  if (reclaims & (1u << PST_RECLAIM_MEMCG)) return PST_CAUSE_MEMCG_LIMIT;
  return PST_CAUSE_OTHER_RECLAIM;
}

static __always_inline enum pst_cause cause_of_system_call(struct task_struct* task,
                                                           struct address_space* space) {
  struct inode* const inode = space->host;
  switch (system_call_of(task)) {
    case CALL_MADVISE:
      return (int)third_argument_of(task) == ADVICE_REMOVE ? PST_CAUSE_TRUNCATE : PST_CAUSE_OTHER_RECLAIM;
    case CALL_PROCESS_MADVISE: return PST_CAUSE_OTHER_RECLAIM;
    case CALL_FADVISE: return PST_CAUSE_FADVISE;
    case CALL_FALLOCATE: return PST_CAUSE_TRUNCATE;
    case CALL_IO_URING_ENTER: return cause_of_ring(task, space);
    case CALL_WRITE:
    case CALL_PWRITE: return cause_of_write(task, inode, true);
    case CALL_WRITEV:
    case CALL_PWRITEV:
    case CALL_SENDFILE:
    case CALL_SPLICE: return cause_of_write(task, inode, false);
    case CALL_PWRITEV2:
    case CALL_IO_SUBMIT: return cause_of_rare_write(task, inode);
    default: return PST_CAUSE_OTHER;
  }
}

static __always_inline enum pst_cause cause_of_removal(struct task_struct* task, struct address_space* space,
                                                       __u64 page) {
  const __u32 flags = task->flags;
  if (flags & TASK_IS_KSWAPD) return PST_CAUSE_KSWAPD;
  const struct task_state* const state = bpf_task_storage_get(&tasks, task, 0, 0);
  if (state && state->reclaims) return cause_within_reclaim(state->reclaims);
  /* In a reclaim that no attached probe marks: of that kind, or asked for by a call whose number would tell less. */
  if (flags & TASK_RECLAIMS) return PST_CAUSE_OTHER_RECLAIM;
  /* DAMON reclaims on a thread of its own, outside all of the above. */
  if ((flags & TASK_IS_KERNEL_THREAD) && task->comm[0] == 'k' && task->comm[1] == 'd' &&
      task->comm[2] == 'a' && task->comm[3] == 'm')
    return PST_CAUSE_OTHER_RECLAIM;
  /* Truncation moves the end of the file first and takes the pages beyond it then, whoever asked for it. */
  if (page << (page_shift & 31) >= (__u64)space->host->i_size) return PST_CAUSE_TRUNCATE;
  if (flags & TASK_IS_KERNEL_THREAD) return PST_CAUSE_OTHER;
  if (flags & TASK_IS_IO_WORKER) return cause_of_ring(task, space);
  return cause_of_system_call(task, space);
}

static __always_inline bool is_reclaim(enum pst_cause cause) { return cause <= PST_CAUSE_OTHER_RECLAIM; }
