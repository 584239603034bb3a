/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Folios that come and go in the page cache of tracked files. Both tracepoints run with the folio locked. */
#pragma once

/* A file whose last reclaim is older than this is quiet: its next one is a hint. 25 to 250 ms, as the kernel ticks; a
 * clock would cost each removed folio more than all counters do. */
enum { QUIET_TICKS = 25 };

/* One load a branch, not a load through a chosen address: each is relocated, or cut out, for itself. */
static __always_inline __u64 pages_of(struct folio* folio) {
  unsigned long flags;
  if (bpf_core_field_exists(((struct folio___wrapped_flags*)0)->flags.f))
    flags = *(volatile unsigned long*)&((struct folio___wrapped_flags*)folio)->flags.f;
  else
    flags = *(volatile unsigned long*)&((struct folio___plain_flags*)folio)->flags;
  if (!(flags & (1UL << bpf_core_enum_value(enum pageflags, PG_head)))) return 1;
  if (bpf_core_field_exists(((struct folio___order_byte*)0)->_folio_order))
    return 1ULL << (*(volatile unsigned char*)&((struct folio___order_byte*)folio)->_folio_order & 31);
  return 1ULL << (*(volatile unsigned long*)&((struct folio___order_word*)folio)->_flags_1 & 31);
}

/* Out of the way of the runs that need no lookup: a fault has few lines of code in the processor's cache. */
static __noinline void find_key(struct recent_file* recent, __u64 mapping, __u64 turn) {
  const struct pst_file_key* const key = bpf_map_lookup_elem(&file_keys, &mapping);
  recent->mapping = mapping;
  recent->turn = turn;
  recent->tracked = key != 0;
  if (key) recent->key = *key;
}

/* A file's folios come and go in runs, and a lookup by its address costs more than all that is counted. */
static __always_inline const struct pst_file_key* key_of(__u64 mapping, enum recent_use use) {
  const __u32 index = use;
  struct recent_file* const recent = bpf_map_lookup_elem(&recent_files, &index);
  if (!recent) return 0;
  const __u64 turn = *(volatile __u64*)&keys_turn;
  if (UNLIKELY(recent->mapping != mapping || recent->turn != turn)) find_key(recent, mapping, turn);
  return recent->tracked ? &recent->key : 0;
}

static __always_inline struct pst_extent* extent_at(const struct pst_file_key* key, __u64 page) {
  const __u64 extent = page >> (key->extent_shift & 63);
  if (extent >= key->extents) return 0;
  const __u32 index = key->first_extent + (__u32)extent;
  return bpf_map_lookup_elem(&extents, &index);
}

/* Of `pages` that came to the extent, those that reclaim had taken. Who loses a race four times counts none. */
static __noinline __u64 take_back(struct pst_extent* extent, __u64 pages) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const __u32 out = *(volatile __u32*)&extent->reclaimed;
    if (out == 0) return 0;
    const __u32 back = pages < out ? (__u32)pages : out;
    if (__sync_val_compare_and_swap(&extent->reclaimed, out, out - back) == out) return back;
  }
  return 0;
}

static __always_inline void hint_reclaimed(struct task_struct* task, __u32 slot, enum pst_cause cause,
                                           __u64 pages) {
  struct pst_hint* const hint = new_hint(PST_HINT_RECLAIMED);
  if (!hint) return;
  hint->cgroup = memory_cgroup_of(task);
  hint->pages = pages;
  hint->detail = cause;
  hint->slot = slot;
  hint->process = (__u32)task->tgid;
  bpf_get_current_comm(hint->command, sizeof hint->command);
  bpf_ringbuf_submit(hint, 0);
}

SEC("?tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_cache_add, struct folio* folio) {
  const __u64 mapping = (__u64)folio->mapping;
  const struct pst_file_key* const key = key_of(mapping, RECENT_ADDED);
  if (!key) return 0;
  const __u32 slot = key->slot;
  struct pst_file* const file = bpf_map_lookup_elem(&files, &slot);
  if (!file) return 0;
  const __u64 pages = pages_of(folio);
  COUNT(file->added, pages);
  struct pst_extent* const extent = extent_at(key, folio->index);
  if (!extent) return 0;
  COUNT(extent->added, pages);
  if (UNLIKELY(*(volatile __u32*)&extent->reclaimed != 0)) COUNT(file->refaulted, take_back(extent, pages));
  return 0;
}

SEC("?tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(page_cache_delete, struct folio* folio) {
  struct address_space* const space = folio->mapping;
  const __u64 mapping = (__u64)space;
  const struct pst_file_key* const key = key_of(mapping, RECENT_REMOVED);
  if (!key) return 0;
  const __u32 slot = key->slot;
  struct pst_file* const file = bpf_map_lookup_elem(&files, &slot);
  if (!file) return 0;
  const __u64 pages = pages_of(folio);
  const __u64 page = folio->index;
  struct task_struct* const task = bpf_get_current_task_btf();
  const enum pst_cause cause = cause_of_removal(task, space, page);
  COUNT(file->removed[cause], pages);
  struct pst_extent* const extent = extent_at(key, page);
  if (extent) COUNT(extent->removed, pages);
  if (!is_reclaim(cause)) return 0;
  if (extent) COUNT(extent->reclaimed, (__u32)pages);
  const __u64 now = bpf_jiffies64();
  const __u64 last = file->last_reclaim_ticks;
  if (now != last) file->last_reclaim_ticks = now;
  if (now - last > QUIET_TICKS) hint_reclaimed(task, slot, cause, pages);
  return 0;
}
