/* Messages for people, on stderr: one line in one write, so that those of several ranks do not mix. */
#ifndef CKPT_TRAINER_MESSAGE_H
#define CKPT_TRAINER_MESSAGE_H

/* "rank 2: ..." and a line feed; rank < 0: "ckpt-train: ...". Cut at 1000 bytes. */
void message(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
