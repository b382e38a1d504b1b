/* Records of a lane: what is sealed is opened, once, in its order, and nothing else is. */
#include "cluster/link/sealer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static const uint8_t secret[SEALER_SECRET] = {1, 2, 3, [SEALER_SECRET - 1] = 0xfe},
		     other_secret[SEALER_SECRET] = {1, 2, 4};

struct two {
	struct sealer seals, opens;
};

static struct two with(const uint8_t sealing[SEALER_SECRET], const uint8_t opening[SEALER_SECRET])
{
	struct two t = {.seals.ctx = NULL};
	cr_assert(sealer_key(&t.seals, false, sealing) && sealer_key(&t.opens, true, opening));
	return t;
}

static void end(struct two *t)
{
	sealer_end(&t->seals);
	sealer_end(&t->opens);
}

Test(sealer, what_is_sealed_is_opened)
{
	static const size_t lengths[] = {1, 15, 16, 17, 4096, SEALER_BYTES - 1, SEALER_BYTES};
	static uint8_t bytes[SEALER_BYTES], record[SEALER_RECORD];
	struct two t = with(secret, secret);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(bytes, (int)i + 1, sizeof(bytes));
		cr_assert(sealer_seal(&t.seals, bytes, lengths[i], record));
		cr_assert_eq(sealer_length(record), (int)lengths[i]);
		if (lengths[i] > 16)
			cr_expect_neq(memcmp(record + SEALER_HEAD, bytes, lengths[i]), 0);
		cr_assert(sealer_open(&t.opens, record, lengths[i]), "%zu bytes", lengths[i]);
		cr_expect_arr_eq(record + SEALER_HEAD, bytes, lengths[i]);
	}
	end(&t);
}

/* AES-256-GCM over the head and the bytes, with the number of the record in the nonce: as anybody would write it down. */
Test(sealer, a_record_is_what_its_description_says)
{
	uint8_t record[5 + SEALER_MORE], text[5], nonce[SEALER_IV];
	struct two t = with(secret, secret);
	EVP_CIPHER_CTX *plain = EVP_CIPHER_CTX_new();
	for (unsigned n = 0; n < 300; n++) {
		int len;
		cr_assert(sealer_seal(&t.seals, "hello", 5, record));
		memcpy(nonce, secret + 32, sizeof(nonce));
		nonce[11] ^= (uint8_t)n;
		nonce[10] ^= (uint8_t)(n >> 8);
		cr_assert_eq(EVP_DecryptInit_ex(plain, EVP_aes_256_gcm(), NULL, secret, nonce), 1);
		cr_assert_eq(EVP_DecryptUpdate(plain, NULL, &len, (const uint8_t *)"\5\0\0\0", 4), 1);
		cr_assert_eq(EVP_DecryptUpdate(plain, text, &len, record + SEALER_HEAD, 5), 1);
		cr_assert_eq(EVP_CIPHER_CTX_ctrl(plain, EVP_CTRL_AEAD_SET_TAG, SEALER_TAG, record + SEALER_HEAD + 5),
			     1);
		cr_assert_eq(EVP_DecryptFinal_ex(plain, text + len, &len), 1, "record %u", n);
		cr_expect_arr_eq(text, "hello", 5);
	}
	EVP_CIPHER_CTX_free(plain);
	end(&t);
}

/* Nor are its bytes left where somebody might take them. */
Test(sealer, a_record_of_which_a_bit_was_changed_does_not_open)
{
	static const uint8_t nothing[40];
	uint8_t sealed[sizeof(nothing) + SEALER_MORE], record[sizeof(sealed)], bytes[sizeof(nothing)];
	memset(bytes, 7, sizeof(bytes));
	for (size_t bit = 0; bit < 8 * sizeof(sealed); bit++) {
		struct two t = with(secret, secret);
		cr_assert(sealer_seal(&t.seals, bytes, sizeof(bytes), sealed));
		memcpy(record, sealed, sizeof(record));
		record[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_expect(!sealer_open(&t.opens, record, sizeof(bytes)), "bit %zu", bit);
		cr_expect_arr_eq(record + SEALER_HEAD, nothing, sizeof(nothing));
		end(&t);
	}
}

Test(sealer, a_record_opens_once_and_in_its_order)
{
	enum { LEN = 8, COUNT = 4 };
	uint8_t sealed[COUNT][LEN + SEALER_MORE], record[LEN + SEALER_MORE];
	static const unsigned heard[][2] = {{0, 0}, {0, 2}, {1, 0}, {3, 3}, {2, 1}};
	for (unsigned i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) {
		struct two t = with(secret, secret);
		bool both = true;
		for (unsigned n = 0; n < COUNT; n++)
			cr_assert(sealer_seal(&t.seals, "01234567", LEN, sealed[n]));
		for (unsigned n = 0; n < 2; n++) {
			memcpy(record, sealed[heard[i][n]], sizeof(record));
			both &= sealer_open(&t.opens, record, LEN);
		}
		cr_expect(!both, "%u, then %u", heard[i][0], heard[i][1]);
		end(&t);
	}
}

Test(sealer, another_key_opens_nothing)
{
	uint8_t record[8 + SEALER_MORE];
	struct two t = with(secret, other_secret);
	cr_assert(sealer_seal(&t.seals, "01234567", 8, record));
	cr_expect(!sealer_open(&t.opens, record, 8));
	end(&t);
}

/* A nonce would come twice after so many, or the cipher be worn. */
Test(sealer, a_key_seals_so_many_records_and_no_more)
{
	uint8_t record[8 + SEALER_MORE];
	struct two t = with(secret, secret);
	t.seals.records = t.opens.records = SEALER_RECORDS - 1;
	cr_expect(!sealer_is_worn(&t.seals));
	cr_assert(sealer_seal(&t.seals, "01234567", 8, record));
	cr_assert(sealer_open(&t.opens, record, 8));
	cr_expect(sealer_is_worn(&t.seals) && sealer_is_worn(&t.opens));
	cr_expect(!sealer_seal(&t.seals, "01234567", 8, record));
	cr_assert(sealer_key(&t.seals, false, other_secret) && sealer_key(&t.opens, true, other_secret));
	cr_assert(sealer_seal(&t.seals, "01234567", 8, record));
	cr_expect(sealer_open(&t.opens, record, 8));
	end(&t);
}

Test(sealer, a_length_that_cannot_be_is_refused)
{
	static const struct {
		uint8_t head[SEALER_HEAD];
		int length;
	} cases[] = {{{0, 0, 0, 0}, -EPROTO}, {{1, 0, 0, 0}, 1},          {{0, 0, 1, 0}, SEALER_BYTES},
		     {{1, 0, 1, 0}, -EPROTO}, {{0, 0, 0, 0x80}, -EPROTO}, {{0xff, 0xff, 0xff, 0xff}, -EPROTO}};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(sealer_length(cases[i].head), cases[i].length, "case %u", i);
}
