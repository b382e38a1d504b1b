/* Recut: a step that memory has of another world, or in another shape, is brought into the slots of the present ranks.
 * The parts of the former ranks stand in this node's memory (its own former arenas, copies), or are fetched whole from
 * the nodes that hold them. They are fetched one after another, until all that the ranks here want is there. Then it is
 * read as what former ranks have left (restore/former.h).
 *
 *   RECUT: ask all nodes what they hold ──► worker: is it all here? ── no ──► fetch the next part ──► worker …
 *                                                                  ── yes ─► digests, copy ──► adopted
 *
 * Parts are fetched in the order in which they are probably needed: those of ranks of the same number, then those of
 * ranks in the same place of the world. A part that is damaged is let go, and fetched from who else has it. What was
 * fetched counts as copies do (memory-limit), and is let go when it was read. Belongs to the loop's thread. */
#ifndef CKPTD_RESTORE_RECUT_H
#define CKPTD_RESTORE_RECUT_H

struct replica_fetched;
struct replica_surveyed;
struct restore;
struct restore_work;

/* Slots of all ranks are claimed. */
void recut_start(struct restore *restore);
/* The answers to restored_job.look_around and .fetch_part. */
void recut_surveyed(struct restore *restore, const struct replica_surveyed *surveyed);
void recut_fetched(struct restore *restore, const struct replica_fetched *done);
void recut_was_read(struct restore *restore, const struct restore_work *w);
/* Goes on when a holder was busy. */
void recut_pump(struct restore *restore);
/* Nothing of it runs any more. */
void recut_end(struct restore *restore);

#endif
