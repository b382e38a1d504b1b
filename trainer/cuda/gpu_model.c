#include "gpu_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_memory.h"
#include "gpu_model_internal.h"

enum { ALIGN = 256 };

/* Advances *used; with base NULL it only measures. */
static void *carve(char *base, size_t *used, size_t bytes)
{
	char *at = base ? base + *used : NULL;

	*used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return at;
}

static void carve_block(const struct gpu_model *m, char *base, size_t *used, struct gpu_block *b)
{
	const struct model_config *c = &m->setup.config;
	size_t time = (size_t)c->seq_len, rows = m->setup.max_rows * time, plane = rows * (size_t)c->width;

	b->middle = carve(base, used, plane * sizeof(float));
	b->ln1_mean = carve(base, used, rows * sizeof(float));
	b->ln1_rstd = carve(base, used, rows * sizeof(float));
	b->ln2_mean = carve(base, used, rows * sizeof(float));
	b->ln2_rstd = carve(base, used, rows * sizeof(float));
	b->ln1 = carve(base, used, plane * sizeof(bf16));
	b->qkv = carve(base, used, 3 * plane * sizeof(bf16));
	b->weights = carve(base, used, rows * time * (size_t)c->heads * sizeof(bf16));
	b->attended = carve(base, used, plane * sizeof(bf16));
	b->ln2 = carve(base, used, plane * sizeof(bf16));
	b->up = carve(base, used, 4 * plane * sizeof(bf16));
	b->gelu = carve(base, used, 4 * plane * sizeof(bf16));
}

static void carve_blocks(struct gpu_model *m, char *base, size_t *used)
{
	size_t plane = m->setup.max_rows * (size_t)m->setup.config.seq_len * (size_t)m->setup.config.width;

	for (int i = 0; i < m->setup.config.layers; i++) {
		if (i == 0 || !m->setup.recompute)
			carve_block(m, base, used, &m->blocks[i]);
		else
			m->blocks[i] = m->blocks[0];
		m->blocks[i].x = carve(base, used, plane * sizeof(float));
	}
}

static size_t carve_all(struct gpu_model *m, char *base)
{
	const struct model_config *c = &m->setup.config;
	size_t time = (size_t)c->seq_len, width = (size_t)c->width, rows = m->setup.max_rows * time;
	size_t plane = rows * width, square = time * time * (size_t)c->heads, used = 0;

	m->params = carve(base, &used, m->setup.room * sizeof(float));
	m->grads = carve(base, &used, m->setup.room * sizeof(float));
	m->half = carve(base, &used, m->size * sizeof(bf16));
	carve_blocks(m, base, &used);
	m->x = carve(base, &used, plane * sizeof(float));
	m->norm_mean = carve(base, &used, rows * sizeof(float));
	m->norm_rstd = carve(base, &used, rows * sizeof(float));
	m->logits = carve(base, &used, rows * MODEL_VOCAB * sizeof(float));
	m->branch = carve(base, &used, plane * sizeof(float));
	m->dx = carve(base, &used, plane * sizeof(float));
	m->scores = carve(base, &used, square * sizeof(float));
	m->scratch = carve(base, &used, GPU_PARTS * 4 * width * sizeof(float));
	m->losses = carve(base, &used, rows * sizeof(float));
	m->norm = carve(base, &used, plane * sizeof(bf16));
	m->dlogits = carve(base, &used, rows * MODEL_VOCAB * sizeof(bf16));
	m->dxh = carve(base, &used, plane * sizeof(bf16));
	m->dwide = carve(base, &used, 4 * plane * sizeof(bf16));
	m->dattended = carve(base, &used, plane * sizeof(bf16));
	m->dscores = carve(base, &used, square * sizeof(bf16));
	m->input = carve(base, &used, rows);
	m->target = carve(base, &used, rows);
	return used;
}

static int fail(struct gpu_model *m, const char *doing, int code)
{
	snprintf(m->why, sizeof(m->why), "%s: CUDA: %s", doing, gpu_text(code));
	return -EIO;
}

static int alloc_device(struct gpu_model *m)
{
	size_t bytes = carve_all(m, NULL), rows = m->setup.max_rows * (size_t)m->setup.config.seq_len;
	void *pinned = NULL;
	int code = gpu_malloc(&m->memory, bytes);

	if (code) {
		snprintf(m->why, sizeof(m->why), "%zu MiB for the model on the device: CUDA: %s", bytes >> 20,
			 gpu_text(code));
		return -ENOMEM;
	}
	carve_all(m, m->memory);
	code = gpu_malloc_host(&pinned, 2 * rows);
	m->rows_host = pinned;
	pinned = NULL;
	if (!code)
		code = gpu_malloc_host(&pinned, rows * sizeof(float));
	m->losses_host = pinned;
	if (!code) /* what lies behind the tensors takes part in collectives */
		code = gpu_zero(m->params, m->setup.room * sizeof(float), m->setup.stream);
	if (!code)
		code = gpu_zero(m->grads, m->setup.room * sizeof(float), m->setup.stream);
	return code ? fail(m, "memory", code) : 0;
}

static int open_blas(struct gpu_model *m)
{
	int code = m->setup.blas->create(&m->blas);

	if (!code)
		code = m->setup.blas->set_stream(m->blas, m->setup.stream);
	if (!code)
		return 0;
	snprintf(m->why, sizeof(m->why), "cuBLAS: %s", m->setup.blas->text_of(code));
	return -EIO;
}

int gpu_model_create(const struct gpu_model_setup *setup, struct gpu_model **model)
{
	struct gpu_model *m = calloc(1, sizeof(*m));
	int rc;

	*model = m;
	if (!m)
		return -ENOMEM;
	m->setup = *setup;
	if (model_config_check(&setup->config) < 0 || setup->max_rows < 1 || setup->max_rows > MODEL_MAX_ROWS)
		return -EINVAL;
	m->tensors = tensor_count(&setup->config);
	m->table = calloc(m->tensors, sizeof(*m->table));
	m->blocks = calloc((size_t)setup->config.layers, sizeof(*m->blocks));
	if (!m->table || !m->blocks)
		return -ENOMEM;
	m->size = tensor_layout(&setup->config, m->table);
	if (setup->room < m->size)
		return -EINVAL;
	rc = alloc_device(m);
	return rc < 0 ? rc : open_blas(m);
}

void gpu_model_free(struct gpu_model *m)
{
	if (!m)
		return;
	if (m->blas)
		m->setup.blas->destroy(m->blas);
	if (m->losses_host)
		gpu_free_host(m->losses_host);
	if (m->rows_host)
		gpu_free_host(m->rows_host);
	if (m->memory)
		gpu_free(m->memory);
	free(m->blocks);
	free(m->table);
	free(m);
}

const char *gpu_model_why(const struct gpu_model *m)
{
	return m->why;
}

float *gpu_model_params(struct gpu_model *m)
{
	return m->params;
}

float *gpu_model_grads(struct gpu_model *m)
{
	return m->grads;
}

/* The caller's rows go through pinned memory, which the copy reads behind our back. */
static int send_rows(struct gpu_model *m, const uint8_t *input, const uint8_t *target)
{
	int code;

	memcpy(m->rows_host, input, m->rows);
	memcpy(m->rows_host + m->rows, target, m->rows);
	code = gpu_copy(m->input, m->rows_host, m->rows, m->setup.stream);
	return code ? code : gpu_copy(m->target, m->rows_host + m->rows, m->rows, m->setup.stream);
}

int gpu_model_backward(struct gpu_model *m, size_t rows, const uint8_t *input, const uint8_t *target, float scale)
{
	int code;

	if (rows > m->setup.max_rows)
		return -EINVAL;
	m->rows = rows * (size_t)m->setup.config.seq_len;
	if (!rows)
		code = gpu_zero(m->grads, m->size * sizeof(float), m->setup.stream);
	else
		code = send_rows(m, input, target);
	if (!code && rows)
		code = gpu_pass(m, rows, scale);
	if (!code && rows)
		code = gpu_copy(m->losses_host, m->losses, m->rows * sizeof(float), m->setup.stream);
	if (!code)
		return 0;
	return *m->why ? -EIO : fail(m, "a pass", code);
}

double gpu_model_loss(const struct gpu_model *m)
{
	double sum = 0;

	for (size_t i = 0; i < m->rows; i++)
		sum += (double)m->losses_host[i];
	return sum;
}
