/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Major faults on tracked files: begun where the file's page is looked for, ended by the processor's software event. */
#pragma once

/* A fault that has to wait lets go of its locks, ends without being one, and is begun anew when the page has come. Then it
 * is for the same page, and no fault of the task has ended since. One that failed is in no count either: who tries that
 * page again as its very next fault goes on with the time of the first try. */
static __always_inline bool is_tried_again(const struct task_state* state, __u32 slot, __u64 page,
                                           __u64 faults_ended) {
  return state->fault_began_ns != 0 && state->fault_slot == slot && state->fault_page == page &&
         state->faults_ended == faults_ended;
}

static __always_inline int fault_begins(struct address_space* space, __u64 page) {
  const __u64 mapping = (__u64)space;
  const struct pst_file_key* const key = bpf_map_lookup_elem(&file_keys, &mapping);
  struct task_struct* const task = bpf_get_current_task_btf();
  if (!key) {
    /* A fault that turned out minor has no end: what it began must not count for this one. */
    struct task_state* const stale = bpf_task_storage_get(&tasks, task, 0, 0);
    if (stale) stale->fault_began_ns = 0;
    return 0;
  }
  struct task_state* const state = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!state) {
    struct pst_machine* const counters = machine_counters();
    if (counters) COUNT(counters->tasks_lost, 1);
    return 0;
  }
  const __u64 faults_ended = task->min_flt + task->maj_flt;
  if (is_tried_again(state, key->slot, page, faults_ended)) return 0;
  state->fault_slot = key->slot;
  state->fault_page = page;
  state->faults_ended = faults_ended;
  state->fault_began_ns = bpf_ktime_get_ns();
  return 0;
}

SEC("?tp_btf/mm_filemap_fault")
int BPF_PROG(fault_begin, struct address_space* space, unsigned long page) {
  return fault_begins(space, page);
}

/* For kernels before 6.12, where they allow programs at the entry of functions. */
SEC("?fentry/filemap_fault")
int BPF_PROG(fault_begin_by_function, struct vm_fault* fault) {
  return fault_begins(fault->vma->vm_file->f_mapping, fault->pgoff);
}

SEC("?perf_event")
int fault_end(void* context) {
  struct task_struct* const task = bpf_get_current_task_btf();
  struct task_state* const state = bpf_task_storage_get(&tasks, task, 0, 0);
  if (!state || state->fault_began_ns == 0) return 0;
  const __u64 ns = bpf_ktime_get_ns() - state->fault_began_ns;
  const __u32 slot = state->fault_slot;
  state->fault_began_ns = 0;
  struct pst_file* const file = bpf_map_lookup_elem(&files, &slot);
  if (!file) return 0;
  COUNT(file->major_faults, 1);
  COUNT(file->major_fault_ns, ns);
  struct pst_machine* const counters = machine_counters();
  const __u32 bucket = histogram_bucket(ns);
  if (!counters) return 0;
  if (bucket < PST_HISTOGRAM_BUCKETS) COUNT(counters->fault_histogram[bucket], 1);
  COUNT(counters->fault_ns, ns);
  return 0;
}
