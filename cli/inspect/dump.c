/* ckpt dump: one tensor, put together from its pieces and checked, as raw bytes or as a file of numpy. */
#include "frame/output.h"
#include "frame/progress.h"
#include "frame/target.h"
#include "inspect/slice.h"

#include "base/cleanup.h"
#include "format/arena/sized_blob.h"
#include "format/tensor/box_walk.h"
#include "store/read/boxes.h"
#include "store/read/contents.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WINDOW (64ull << 20) /* bytes that are read and checked before they are written */

enum format { FORMAT_RAW, FORMAT_NPY };

struct dump {
	struct cli *cli;
	struct checkpoint ck;
	const struct manifest_tensor *tensor;
	enum format format;
	struct slice slice;
	uint64_t bytes; /* of the data */
	struct progress progress;
	/* where to */
	const char *path; /* NULL: stdout */
	char *temporary;  /* beside the path; NULL: written in place (a device, a pipe) */
	int fd;
};

/* ---- what numpy calls it */

/* NULL: numpy has no such type. */
static const char *numpy_type(enum dtype dtype)
{
	switch (dtype) {
	case DTYPE_BOOL:
		return "|b1";
	case DTYPE_U8:
		return "|u1";
	case DTYPE_I8:
		return "|i1";
	case DTYPE_I16:
		return "<i2";
	case DTYPE_U16:
		return "<u2";
	case DTYPE_F16:
		return "<f2";
	case DTYPE_I32:
		return "<i4";
	case DTYPE_U32:
		return "<u4";
	case DTYPE_F32:
		return "<f4";
	case DTYPE_C64:
		return "<c8";
	case DTYPE_F64:
		return "<f8";
	case DTYPE_I64:
		return "<i8";
	case DTYPE_U64:
		return "<u8";
	default:
		return NULL;
	}
}

static void put_text(struct wbuf *out, const char *text)
{
	wbuf_put(out, text, strlen(text));
}

/* Version 1.0: magic, u16 length, a dictionary padded with blanks so that the data begin at a multiple of 64. */
static int npy_header(const struct dump *d, struct wbuf *out)
{
	enum { HEAD = 10, ALIGN = 64 };
	AUTO_WBUF struct wbuf dict = {0};
	char number[32];
	const char *type = numpy_type(d->tensor->dtype);
	if (!type)
		type = dtype_size(d->tensor->dtype) == 2 ? "<u2" : "|u1";
	put_text(&dict, "{'descr': '");
	put_text(&dict, type);
	put_text(&dict, "', 'fortran_order': False, 'shape': (");
	for (uint32_t i = 0; i < d->slice.shape.ndim; i++) {
		snprintf(number, sizeof(number), "%s%" PRIu64 ",", i ? " " : "", d->slice.shape.dim[i]);
		put_text(&dict, number);
	}
	put_text(&dict, "), }");
	while ((HEAD + dict.len + 1) % ALIGN && !dict.failed)
		put_text(&dict, " ");
	put_text(&dict, "\n");
	wbuf_put(out, "\x93NUMPY\x01\x00", 8);
	wbuf_u16(out, (uint16_t)dict.len);
	wbuf_put(out, dict.data, dict.len);
	return wbuf_finish(&dict) ? -ENOMEM : wbuf_finish(out);
}

/* ---- where to */

/* A name of its own beside the file, so that the file appears complete or not at all. */
static int open_output(struct dump *d)
{
	struct stat st;
	const char *path = cli_text(d->cli, "output");
	d->fd = STDOUT_FILENO;
	if (!path || !strcmp(path, "-")) {
		if (d->cli->json)
			return cli_fail(d->cli, EXIT_USAGE, "--json needs stdout for its document: give --output FILE");
		if (!path && isatty(STDOUT_FILENO))
			return cli_fail(d->cli, EXIT_USAGE, "stdout is a terminal: give --output FILE, or --output -");
		return EXIT_OK;
	}
	d->path = path;
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		d->fd = open(path, O_WRONLY | O_CLOEXEC);
	} else {
		if (asprintf(&d->temporary, "%s.XXXXXX", path) < 0)
			return cli_fail(d->cli, EXIT_FAILED, "out of memory");
		mode_t mask = umask(0);
		umask(mask);
		d->fd = mkostemp(d->temporary, O_CLOEXEC);
		if (d->fd >= 0)
			fchmod(d->fd, 0666 & ~mask);
	}
	return d->fd >= 0 ? EXIT_OK : cli_fail(d->cli, EXIT_FAILED, "cannot create %s: %s", path, err_name(errno));
}

static int put(struct dump *d, const void *data, uint64_t len, struct err *err)
{
	const uint8_t *p = data;
	while (len) {
		ssize_t n = write(d->fd, p, len);
		if (n < 0 && errno == EINTR && !cli_interrupted())
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? -errno : -EIO, "writing %s: %s", d->path ? d->path : "stdout",
				       err_name(n < 0 ? errno : EIO));
		p += n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int finish_output(struct dump *d, struct err *err)
{
	if (!d->temporary)
		return 0;
	if (fsync(d->fd) < 0)
		return err_set(err, -errno, "syncing %s: %s", d->path, err_name(errno));
	if (rename(d->temporary, d->path) < 0)
		return err_set(err, -errno, "naming %s: %s", d->path, err_name(errno));
	free(steal_ptr(&d->temporary));
	return 0;
}

static void close_output(struct dump *d)
{
	if (d->temporary)
		unlink(d->temporary);
	free(steal_ptr(&d->temporary));
	if (d->path && d->fd >= 0)
		close(d->fd);
}

/* ---- the data */

static int on_progress(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	(void)done;
	(void)total;
	return cli_interrupted();
}

static int read_part(struct dump *d, const struct region *part, void *data, struct err *err)
{
	const struct box box = {.tensor = d->tensor, .region = *part, .data = data, .packed = true};
	return boxes_read(&d->ck, &box, 1, &(struct restore_options){.progress = on_progress}, err);
}

static int write_data(struct dump *d, struct err *err)
{
	unsigned size = dtype_size(d->tensor->dtype);
	AUTO_FREE uint8_t *window = malloc(min_u64(d->bytes, WINDOW) + 1);
	struct box_walk walk;
	struct region part;
	uint64_t done = 0;
	int rc = window ? 0 : err_set(err, -ENOMEM, "no memory for a window of %llu MiB", WINDOW >> 20);
	box_walk_start(&walk, &d->tensor->shape, &d->slice.box, WINDOW / size);
	while (!rc && box_walk_next(&walk, &part)) {
		uint64_t bytes = region_volume(&d->tensor->shape, &part) * size;
		rc = read_part(d, &part, window, err);
		if (!rc)
			rc = put(d, window, bytes, err);
		done += bytes;
		if (!rc && progress_step(&d->progress, done, d->bytes))
			rc = err_set(err, -ECANCELED, "cancelled after %" PRIu64 " of %" PRIu64 " bytes", done,
				     d->bytes);
	}
	return rc;
}

static int write_all(struct dump *d, struct err *err)
{
	AUTO_WBUF struct wbuf header = {0};
	if (d->format == FORMAT_NPY && npy_header(d, &header) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = put(d, header.data, header.len, err);
	if (!rc)
		rc = write_data(d, err);
	return rc ? rc : finish_output(d, err);
}

/* ---- the command */

static int parse_format(struct dump *d)
{
	const char *format = cli_text(d->cli, "format");
	d->format = d->tensor->kind == ENTRY_TENSOR ? FORMAT_NPY : FORMAT_RAW;
	if (format && strcmp(format, "raw") && strcmp(format, "npy"))
		return cli_fail(d->cli, EXIT_USAGE, "--format %s: raw or npy", format);
	if (format)
		d->format = strcmp(format, "raw") ? FORMAT_NPY : FORMAT_RAW;
	if (d->format == FORMAT_NPY && !numpy_type(d->tensor->dtype))
		cli_note(d->cli, "numpy has no type %s: its bits are written as unsigned whole numbers of %u bytes",
			 dtype_name(d->tensor->dtype), dtype_size(d->tensor->dtype));
	return EXIT_OK;
}

static void emit(const struct dump *d)
{
	json_t *doc = json_checkpoint(d->cli, &d->ck.ref), *shape = json_array();
	for (uint32_t i = 0; i < d->slice.shape.ndim; i++)
		json_array_append_new(shape, json_integer((json_int_t)d->slice.shape.dim[i]));
	json_object_set_new(doc, "tensor", json_text(d->tensor->name));
	json_object_set_new(doc, "dtype", json_string(dtype_name(d->tensor->dtype)));
	json_object_set_new(doc, "shape", shape);
	json_object_set_new(doc, "bytes", json_integer((json_int_t)d->bytes));
	json_object_set_new(doc, "format", json_string(d->format == FORMAT_NPY ? "npy" : "raw"));
	json_object_set_new(doc, "output", json_text(d->path));
	json_emit(doc);
}

/* Of a blob of changing size only what is in it. */
static int find_length(struct dump *d, struct err *err)
{
	uint64_t length;
	if (!d->tensor->sized || cli_text(d->cli, "slice"))
		return 0;
	int rc = boxes_blob_length(&d->ck, d->tensor, &length, err);
	if (rc)
		return rc;
	d->slice.box.offset[0] = SIZED_HEAD;
	d->slice.box.extent[0] = d->slice.shape.dim[0] = length;
	return 0;
}

static int dump_tensor(struct dump *d)
{
	struct err err = {0};
	if (slice_parse(cli_text(d->cli, "slice"), &d->tensor->shape, &d->slice, &err) < 0)
		return cli_fail(d->cli, EXIT_USAGE, "%s", err.text);
	int length = find_length(d, &err);
	if (length)
		return cli_fail(d->cli, exit_code_of(length), "%s", err.text);
	d->bytes = region_volume(&d->tensor->shape, &d->slice.box) * dtype_size(d->tensor->dtype);
	int code = parse_format(d);
	if (!code)
		code = open_output(d);
	if (code)
		return code;
	cli_catch_interrupt();
	progress_start(&d->progress, d->cli, "dumped");
	int rc = write_all(d, &err);
	progress_end(&d->progress);
	close_output(d);
	if (rc == -EPIPE)
		return EXIT_OK; /* the reader has what it wanted */
	if (rc < 0)
		return cli_fail(d->cli, exit_code_of(rc), "%s", err.text);
	if (d->cli->json)
		emit(d);
	return EXIT_OK;
}

static int run(struct cli *cli)
{
	struct dump d = {.cli = cli};
	struct contents contents;
	struct err err = {0};
	int code = cli_open_named(cli, cli->args[0], &d.ck);
	if (code)
		return code;
	int rc = contents_make(&d.ck, &contents, &err);
	const struct content *found = rc ? NULL : contents_find(&contents, cli->args[1]);
	d.tensor = found ? found->meta : NULL;
	if (rc)
		code = cli_fail(cli, exit_code_of(rc), "%s", err.text);
	else if (d.tensor)
		code = dump_tensor(&d);
	else
		code = cli_fail(cli, EXIT_FAILED, "there is no tensor %s: ckpt ls lists them", cli->args[1]);
	contents_free(&contents);
	checkpoint_close(&d.ck);
	return code;
}

static const struct option_spec options[] = {
	{"format", OPTION_TEXT, "FORMAT", "npy (default for tensors) or raw (default for blobs)"},
	{"output", OPTION_TEXT, "FILE", "where to; - or nothing: stdout"},
	{"slice", OPTION_TEXT, "SLICE", "only a part, as Python writes it, but without steps: 0:10,:,-1"},
	{"progress", OPTION_FLAG, NULL, "progress lines on stderr although it is no terminal"},
	{NULL},
};

const struct command command_dump = {
	.name = "dump",
	.summary = "write one tensor or blob, whole and checked, raw or for numpy",
	.detail = "Puts the tensor together from the pieces of all ranks. Checks every byte before it is written.\n"
		  "raw: the elements in row-major order, little-endian, and nothing else. npy: a file that numpy.load\n"
		  "reads; types that numpy lacks (BF16, F8) become unsigned whole numbers of the same size.\n"
		  "FILE appears complete or not at all. A slice reads what it needs and no more.",
	.args = "STEP|latest TENSOR",
	.min_args = 2,
	.max_args = 2,
	.options = options,
	.run = run,
};
