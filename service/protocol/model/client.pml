/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's two threads. Included by page.pml.
 */

/* Client: maps a granted frame and gives the pin for which App waits. REQUIRES: unmapped. */
inline map_frame(c, g) {
  assert(maps[c] == 0);
  assert(resident && g == generation && memory == g);
  maps[c] = g;
  state[c] = MAPPED;
  if
  :: faulting[c] -> pins[c] = 1; faulting[c] = 0
  :: else
  fi
}

/* Client: a message, with the acknowledgement that is owed. In one step: both are under the lock. */
inline say(c, what, g) {
  up[c]!what(g, owed[c]);
  owed[c] = 0
}

/* Client: unmaps and says so, with the pin word already in `revoking`. */
inline unmap_and_say(c, what, g) {
#ifdef ACK_BEFORE_UNMAP
  atomic { runs(c) && nfull(up[c]) -> say(c, what, g) }
  atomic { runs(c) -> maps[c] = 0; state[c] = UNMAPPED }
#else
  atomic { runs(c) -> maps[c] = 0; state[c] = UNMAPPED }
  atomic { runs(c) && nfull(up[c]) -> say(c, what, g) }
#endif
}

/* Cooperative mode: App runs what Agent postponed. */
#ifdef COOPERATIVE
inline cooperative_point(c, g) {
  if
  :: atomic { runs(c) && may_run_postponed(c) ->
       app_quiet[c] = 0; postponed[c] = 0; state[c] = REVOKING; g = maps[c] }
     unmap_and_say(c, acked, g);
     atomic { g = 0; app_quiet[c] = 1 }
  :: atomic { runs(c) && !may_run_postponed(c) -> skip }
  fi
}
#else
#define cooperative_point(c, g) skip
#endif

proctype App(byte c) {
  byte g;
  do
  :: atomic { runs(c) && state[c] == MAPPED && !pins[c] -> pins[c] = 1 }  /* pin: no message */
  :: atomic { runs(c) && state[c] != MAPPED && nfull(up[c]) ->
#ifdef NO_CARRY
       up[c]!fault(0, 0);
#else
       say(c, fault, 0);
#endif
       faulting[c] = 1 }
     atomic { runs(c) && !faulting[c] -> skip }
  :: atomic { runs(c) && pins[c] ->  /* use, then the last unpin */
       assert(maps[c] != 0 && maps[c] == memory);
       pins[c] = 0;
       if
       :: wanted[c] -> wanted[c] = 0; app_quiet[c] = 0
       :: else
       fi
     }
     if
     :: atomic { runs(c) && !app_quiet[c] && !send_lock[c] && nfull(up[c]) ->
#ifndef NO_IDLE
          say(c, idle, 0);
#endif
          app_quiet[c] = 1 }
     :: atomic { runs(c) && app_quiet[c] -> skip }
     fi;
     cooperative_point(c, g)
  :: atomic { runs(c) && state[c] == MAPPED && !pins[c] ->  /* give up, by its own will */
       app_quiet[c] = 0; postponed[c] = 0; state[c] = REVOKING; g = maps[c] }
     unmap_and_say(c, release, g);
     atomic { g = 0; app_quiet[c] = 1 }
#ifdef COOPERATIVE
  :: atomic { runs(c) && postponed[c] -> skip }  /* pst_run_revokes() */
     cooperative_point(c, g)
#endif
  od
}

/* The reader: one message to its end, then the next. What it reads and its first step are one. */
proctype Agent(byte c) {
  mtype kind;
  byte g;
#ifdef STALE_GRANT
  byte late;
#endif
#ifdef REFUSE_EQUAL
  byte last_revoked;
#endif
  do
  :: atomic { runs(c) && down[c]?[done] -> down[c]?done, _; faulting[c] = 0 }

  :: atomic { runs(c) && down[c]?[grant] && state[c] == UNMAPPED -> down[c]?grant, g; agent_quiet[c] = 0;
#if defined(STALE_GRANT)
       late = g  /* Another thread will map it; this one goes on reading. */
#elif defined(REFUSE_EQUAL)
       if
       :: g == last_revoked -> say(c, release, g)  /* and the fault waits on */
       :: else -> map_frame(c, g)
       fi
#else
       map_frame(c, g)
#endif
     }
     if
     :: atomic { runs(c) && nfull(up[c]) -> up[c]!granted(0, 0); g = 0; agent_quiet[c] = 1 }
#ifdef OWES_BESIDE_REQUEST
     :: atomic { runs(c) -> owed[c] = 1; g = 0; agent_quiet[c] = 1 }
#else
     :: atomic { runs(c) && !faulting[c] -> owed[c] = 1; g = 0; agent_quiet[c] = 1 }
#endif
     fi

#ifdef STALE_GRANT
  :: atomic { runs(c) && late != 0 && state[c] == UNMAPPED -> map_frame(c, late); late = 0 }
#endif

  /* Revoked and not pinned: unmap. */
#ifdef NO_COUNT_CHECK
  :: atomic { runs(c) && down[c]?[revoke] && state[c] == MAPPED ->
#else
  :: atomic { runs(c) && down[c]?[revoke] && state[c] == MAPPED && !pins[c] && !is_cooperative(c) ->
#endif
       down[c]?revoke, g; remember(g); agent_quiet[c] = 0; state[c] = REVOKING }
     unmap_and_say(c, acked, g);
     atomic { g = 0; agent_quiet[c] = 1 }

#ifndef NO_COUNT_CHECK
  /* Revoked and pinned: busy. The mark and the message go out under the lock of `idle`. */
#ifdef IDLE_OVERTAKES
  :: atomic { runs(c) && down[c]?[revoke] && pins[c] ->
#else
  :: atomic { runs(c) && down[c]?[revoke] && pins[c] && !send_lock[c] -> send_lock[c] = 1;
#endif
       down[c]?revoke, g; remember(g); agent_quiet[c] = 0;
#ifndef LOSE_WANTED
       wanted[c] = 1
#endif
     }
     atomic { runs(c) && nfull(up[c]) -> say(c, busy, g); send_lock[c] = 0; g = 0; agent_quiet[c] = 1 }
#endif

#ifdef COOPERATIVE
  :: atomic { runs(c) && down[c]?[revoke] && state[c] == MAPPED && !pins[c] && is_cooperative(c) &&
              nfull(up[c]) ->
       down[c]?revoke, _; postponed[c] = 1; say(c, later, 0) }
#endif

  /* Revoked and not mapped: a release is on its way, and is the answer. */
#ifdef ANSWER_UNMAPPED
  :: atomic { runs(c) && down[c]?[revoke] && state[c] != MAPPED && nfull(up[c]) ->
       down[c]?revoke, g; remember(g); say(c, acked, g); g = 0 }
#else
  :: atomic { runs(c) && down[c]?[revoke] && state[c] != MAPPED -> down[c]?revoke, g; remember(g); g = 0 }
#endif

#ifdef NOISE
  /* A confused client repeats an old acknowledgement. */
  :: atomic { runs(c) && maps[c] != 0 && nfull(up[c]) -> up[c]!acked(maps[c] % 2 + 1, 0) }
#endif
  od
}
