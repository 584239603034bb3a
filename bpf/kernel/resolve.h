/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Tells this process which struct address_space lies behind its mappings, and how many pages that holds: of the mapping
 * at `wanted_address`, and of all that are tracked. */
#pragma once

__u64 wanted_address = 0;

SEC("?iter/task_vma")
int resolve_mapping(struct bpf_iter__task_vma* context) {
  struct vm_area_struct* const area = context->vma;
  if (!context->task || !area) return 0;
  struct file* const file = area->vm_file;
  if (!file) return 0;
  struct address_space* const space = file->f_mapping;
  const __u64 mapping = (__u64)space;
  if (area->vm_start != wanted_address && !bpf_map_lookup_elem(&file_keys, &mapping)) return 0;
  struct inode* const inode = space->host;
  struct pst_resolved resolved = {
      .address = area->vm_start,
      .key = mapping,
      .pages = space->nrpages,
      .inode = inode->i_ino,
      .bytes = (__u64)inode->i_size,
      .magic = inode->i_sb->s_magic,
      .device = inode->i_sb->s_dev,
      .generation = inode->i_generation,
      .inode_flags = inode->i_flags,
  };
  bpf_seq_write(context->meta->seq, &resolved, sizeof resolved);
  return 0;
}
