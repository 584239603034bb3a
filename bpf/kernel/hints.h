/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Hints to the service: sent where something happens, counted where the ring has no room. */
#pragma once

/* Zeroed, but for what and when; whoever gets one submits it. Null: lost, and counted. */
static __always_inline struct pst_hint* new_hint(enum pst_hint_kind kind) {
  struct pst_hint* const hint = bpf_ringbuf_reserve(&hints, sizeof *hint, 0);
  if (!hint) {
    struct pst_machine* const counters = machine_counters();
    if (counters) COUNT(counters->hints_lost, 1);
    return 0;
  }
  __builtin_memset(hint, 0, sizeof *hint);
  hint->at_ns = bpf_ktime_get_ns();
  hint->kind = kind;
  return hint;
}
