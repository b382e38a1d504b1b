#include "runtime/json_values.h"

#include <criterion/criterion.h>
#include <string.h>

Test(plain_json, text_stays_what_it_is)
{
	json_t *j = plain_json_text("Größe \"x\"\n");
	cr_assert_str_eq(json_string_value(j), "Größe \"x\"\n");
	json_decref(j);
}

Test(plain_json, what_is_not_utf8_loses_its_strange_bytes_alone)
{
	json_t *j = plain_json_text("a\xc3 b\xff"); /* a character that was cut, and a byte that begins none */
	cr_assert_str_eq(json_string_value(j), "a? b?");
	json_decref(j);
}

Test(plain_json, a_time_that_is_not_known_is_null)
{
	json_t *known = plain_json_ms(true, 1500000), *unknown = plain_json_ms(false, 1500000);
	cr_assert_eq(json_real_value(known), 1.5);
	cr_assert(json_is_null(unknown));
	json_decref(known);
	json_decref(unknown);
}
