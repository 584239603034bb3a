/* SPDX-License-Identifier: Apache-2.0
 *
 * The service: its record is in page.pml, which includes this.
 */

/* Service: the client's grant has ended. */
inline end_grant(c) {
  granted_to[c] = 0;
  revoked[c] = 0;
  busy_with[c] = 0
}

inline handle(c, kind, g, acknowledges) {
  stuck[c] = 0;
  if
  :: acknowledges -> assert(batch_open[c]); batch_open[c] = 0
  :: else
  fi;
  if
  :: kind == fault -> waiting[c] = (demand -> BEHIND : FIRST)
  :: kind == granted -> assert(batch_open[c]); batch_open[c] = 0
#ifdef OLD_ACK
  :: (kind == acked || kind == release) -> end_grant(c)
#else
  :: (kind == acked || kind == release) && g == granted_to[c] -> end_grant(c)
  :: (kind == acked || kind == release) && g != granted_to[c] -> skip
#endif
  :: kind == later -> evicting = 0  /* The revoke stays open. */
  :: kind == busy && g == granted_to[c] -> evicting = 0; revoked[c] = 0; busy_with[c] = 1
  :: kind == busy && g != granted_to[c] -> skip
  :: kind == idle -> busy_with[c] = 0
  fi
}

inline send_revoke(c) {
  if
  :: granted_to[c] != 0 && !revoked[c] ->
     assert(nfull(down[c]));
     down[c]!revoke(granted_to[c]);
     revoked[c] = 1
  :: else
  fi
}

inline close_session(c) {
  do
  :: nempty(up[c]) -> up[c]?_, _, _
  :: empty(up[c]) -> break
  od;
  do
  :: nempty(down[c]) -> down[c]?_, _
  :: empty(down[c]) -> break
  od;
  closed[c] = 1;
  waiting[c] = NO_FAULT;
  batch_open[c] = 0;
  stuck[c] = 0;
#ifndef DEAD_NOT_ACKED
  end_grant(c)
#endif
}

#ifdef NO_PIDFD
#define is_over(c) (!closed[c] && (life[c] == dying || life[c] == gone) && !forked[c])
#else
#define is_over(c) (!closed[c] && ((life[c] == dying && !forked[c]) || life[c] == gone))
#endif
#define can_answer(c) (!closed[c] && waiting[c] == FIRST && nfull(down[c]) && !evicting)
#ifdef HOLD_OWED
#define is_victim(c) (!busy_with[c] && !stuck[c] && waiting[c] != FIRST && !batch_open[c])
#else
#define is_victim(c) (!busy_with[c] && !stuck[c] && waiting[c] != FIRST)
#endif
#ifdef EARLY_DESTROY
#define all_ended (granted_to[0] == 0 || granted_to[1] == 0)
#else
#define all_ended (granted_to[0] == 0 && granted_to[1] == 0)
#endif

inline answer_fault(c) {
  if
  :: granted_to[c] != 0 -> down[c]!done(0); waiting[c] = NO_FAULT  /* There already, as far as is known. */
  :: granted_to[c] == 0 && resident && !batch_open[c] ->
     down[c]!grant(generation); granted_to[c] = generation; batch_open[c] = 1; waiting[c] = NO_FAULT
  fi
}

/* Requests are served in their order. */
inline end_demand() {
  demand = 0;
  if
  :: waiting[0] == BEHIND -> waiting[0] = FIRST
  :: else
  fi;
  if
  :: waiting[1] == BEHIND -> waiting[1] = FIRST
  :: else
  fi
}

/* What the pager does at the end of each of its steps. */
inline decide() {
  if
  :: demand && resident && !evicting && is_victim(0) && is_victim(1) ->
     evicting = 1; send_revoke(0); send_revoke(1)
  :: demand && resident && !evicting && (busy_with[0] || busy_with[1] || stuck[0] || stuck[1]) ->
     end_demand()  /* No victim is left: offloaded. */
  :: else
  fi
}

/* The service is one thread. It is several processes here, one a duty, so that fairness means: no duty is put
 * off for ever.
 */
proctype Inbox(byte c) {
  mtype kind;
  byte g;
  bit acknowledges;
  do
  :: d_step { !closed[c] && nempty(up[c]) -> up[c]?kind, g, acknowledges; handle(c, kind, g, acknowledges);
       kind = 0; g = 0; acknowledges = 0; decide() }
  od
}

proctype Session(byte c) {
  do
  :: d_step { is_over(c) -> close_session(c); decide() }
  :: d_step { can_answer(c) && (granted_to[c] != 0 || (resident && !batch_open[c])) ->
       answer_fault(c); decide() }
  od
}

#ifndef NO_DEADLINE
proctype Deadline(byte c) {
  do
  :: d_step { evicting && revoked[c] && !closed[c] -> stuck[c] = 1; evicting = 0; decide() }
#ifndef NO_BATCH_DEADLINE  /* Only where a request waits behind the batch. */
  :: d_step { demand && batch_open[c] && waiting[c] == FIRST && !stuck[c] && !closed[c] ->
       stuck[c] = 1; decide() }
#endif
  od
}
#endif

proctype Pager() {
  do
  /* create and load */
  :: d_step { (waiting[0] == FIRST || waiting[1] == FIRST) && !resident && memory == 0 ->
       generation = generation % GENERATIONS + 1; memory = generation; resident = 1; decide() }
  :: d_step { demand && waiting[0] != FIRST && waiting[1] != FIRST && !resident && memory == 0 ->
       end_demand() }  /* The other page had it for a moment. */
  :: d_step { evicting && all_ended ->  /* destroy */
       assert(closed[0] || maps[0] != generation);
       assert(closed[1] || maps[1] != generation);
       evicting = 0; resident = 0 }
#ifdef GHOST_IGNORED
  :: d_step { !resident && memory != 0 ->
#else
  :: d_step { !resident && memory != 0 && maps[0] != generation && maps[1] != generation ->
#endif
       assert(!maps_anything_of(generation));  /* The memory is about to be reused. */
       memory = 0 }
  od
}
