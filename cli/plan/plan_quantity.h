/* Amounts as people write them in a plan: 5.7TB, 200GB/s, 25GiB/s, 5y, 90d. */
#ifndef CKPT_CLI_PLAN_QUANTITY_H
#define CKPT_CLI_PLAN_QUANTITY_H

/* What a plan can be made for: from a byte on, and between a microsecond and a million years. */
#define QUANTITY_BYTES_MAX 1e24
#define QUANTITY_TIME_MIN 1e-6
#define QUANTITY_TIME_MAX (1e6 * 365.25 * 86400)

/* Bytes, or bytes a second with "/s" behind. kB, MB, GB, TB and PB are powers of 1000; K, M, G, T, P and KiB, MiB, … of
 * 1024. -EINVAL: no such unit, or out of range. */
int quantity_bytes(const char *text, double *bytes);
/* Seconds: ms, s, m, h, d, w, y (365.25 days). A number alone: seconds. */
int quantity_time(const char *text, double *seconds);

enum { QUANTITY_TEXT_MAX = 32 };
/* "12.3 s", "4.1 min", "2.7 h", "3.4 d", "5.0 y". Returns dst. */
char *quantity_time_text(double seconds, char dst[QUANTITY_TEXT_MAX]);
/* "5.7 TB", in powers of 1000. Returns dst. */
char *quantity_bytes_text(double bytes, char dst[QUANTITY_TEXT_MAX]);

#endif
